"""Files are there whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from ens_plugin.files import write_whole


def test_a_file_is_replaced_and_nothing_else_stays(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 60)
    for content in (b"old", b"new"):
        write_whole(path, content)
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(b"old")

    def refuse(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("ens_plugin.files.os.replace", refuse)
    with pytest.raises(OSError, match="no space left"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
