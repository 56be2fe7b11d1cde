"""The tables on disk: read back to the bit, rebuilt when anything is wrong, never half written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ens_plugin.errors import EnsPluginWarning
from ens_plugin.papers.score_tables_2017 import score_tables as cache
from ens_plugin.papers.score_tables_2017 import tables as load_score_tables
from ens_plugin.papers.score_tables_2017.score_tables import ScoreTables, score_table_path


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[ScoreTables]:
    """Small tables instead of the real ones, and a record of how often they were built."""
    made: list[ScoreTables] = []

    def build() -> ScoreTables:
        made.append(ScoreTables(*(np.full((2, 2), float(index)) for index in range(5))))
        return made[-1]

    monkeypatch.setattr(cache, "build_score_tables", build)
    cache._load.cache_clear()
    yield made  # type: ignore[misc]
    cache._load.cache_clear()


def forget() -> None:
    cache._load.cache_clear()


def test_built_once_per_process_and_once_per_disk(tmp_path: Path, built: list[ScoreTables]) -> None:
    first = load_score_tables(tmp_path)
    assert load_score_tables(tmp_path) is first
    forget()
    again = load_score_tables(tmp_path)
    assert len(built) == 1
    for name in cache.NAMES:
        np.testing.assert_array_equal(getattr(again, name), getattr(first, name))
    assert [path.name for path in tmp_path.iterdir()] == [score_table_path(tmp_path).name]


def test_rebuilt_whatever_byte_is_damaged(tmp_path: Path, built: list[ScoreTables]) -> None:
    load_score_tables(tmp_path)
    path = score_table_path(tmp_path)
    content = path.read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 0xFF
        path.write_bytes(changed)
        found = cache._read(path)
        assert found is None or all(
            np.array_equal(getattr(found, name), getattr(built[0], name)) for name in cache.NAMES
        )


@pytest.mark.parametrize("damage", ["truncate", "garbage", "empty", "change", "version"])
def test_rebuilt_if_unreadable(
    tmp_path: Path, built: list[ScoreTables], damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_score_tables(tmp_path)
    path = score_table_path(tmp_path)
    content = path.read_bytes()
    if damage == "truncate":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "garbage":
        path.write_bytes(b"no archive")
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "change":
        with np.load(path) as stored:
            arrays = dict(stored)
        arrays["few"] = arrays["few"] + 1.0
        np.savez_compressed(path, **arrays)
    else:
        monkeypatch.setattr(cache, "TABLE_VERSION", 999)
        path.replace(score_table_path(tmp_path))
    forget()
    np.testing.assert_array_equal(load_score_tables(tmp_path).few, built[0].few)
    assert len(built) == 2
    forget()
    load_score_tables(tmp_path)
    assert len(built) == 2


def test_a_directory_that_cannot_be_written_is_said_and_survived(tmp_path: Path, built: list[ScoreTables]) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.warns(EnsPluginWarning, match="could not be written") as caught:
        tables = load_score_tables(blocked)
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(tables.few, built[0].few)


def test_a_failed_write_leaves_nothing_behind(
    tmp_path: Path, built: list[ScoreTables], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("ens_plugin.files.os.replace", fail)
    with pytest.warns(EnsPluginWarning, match="disk full"):
        load_score_tables(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_kept_in_the_users_cache_directory() -> None:
    path = score_table_path()
    assert path.name.startswith("score_tables-")
    assert "ens_plugin" in path.parts
