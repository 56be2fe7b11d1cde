"""Files are there whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
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


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    file, link = tmp_path / "shared" / "report.json", tmp_path / "report.json"
    file.write_bytes(b"old")
    link.symlink_to(file)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert file.read_bytes() == b"new"
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes in folders there")
def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, b"new")
    assert os.read(reader, 10) == b"new"
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes in folders there")
def test_a_pipe_takes_more_than_it_holds_at_once(tmp_path: Path) -> None:
    pipe, content, read = tmp_path / "pipe", b"x" * 1_000_000, b""
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = threading.Thread(target=write_whole, args=(pipe, content))
    writer.start()
    while len(read) < len(content):
        with suppress(BlockingIOError):
            read += os.read(reader, len(content))
    writer.join()
    os.close(reader)
    assert read == content


@pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes in folders there")
def test_a_pipe_that_nothing_reads_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no process reads it"):
        write_whole(tmp_path / "pipe", b"new")


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="there is no /dev/stdout")
@pytest.mark.parametrize("through_link", [False, True])
def test_the_standard_output_is_added_to(tmp_path: Path, through_link: bool) -> None:
    """Where it is appended to a file, that file must not be replaced."""
    log, path = tmp_path / "log.txt", Path("/dev/stdout")
    log.write_text("earlier\n")
    if through_link:
        path = tmp_path / "out"
        path.symlink_to("/dev/stdout")
    code = (
        f"from pathlib import Path; from ens_plugin.files import write_whole; write_whole(Path({str(path)!r}), b'new')"
    )
    with log.open("a") as stream:
        subprocess.run([sys.executable, "-c", code], stdout=stream, check=True)
    assert log.read_text() == "earlier\nnew"


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_loop_of_links_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(OSError, match="links"):
        write_whole(tmp_path / "a" / "report.json", b"new")
