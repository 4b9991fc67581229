"""`write_atomic`: whole files, nothing left behind."""

import os
import stat
import sys

import pytest
from autograd_core.files import require_replaceable, write_atomic


def test_text_is_written_as_utf_8_with_its_line_ends(tmp_path):
    target = tmp_path / "row.json"
    write_atomic(target, "tú\r\nél\n")
    assert target.read_bytes() == b"t\xc3\xba\r\n\xc3\xa9l\n"
    assert os.listdir(tmp_path) == ["row.json"]


def test_bytes_replace_a_longer_file_whole(tmp_path):
    target = tmp_path / "weights"
    target.write_bytes(b"x" * 1009)
    write_atomic(str(target), b"\x00\xff")
    assert target.read_bytes() == b"\x00\xff"


def test_an_open_reader_keeps_the_old_file(tmp_path):
    target = tmp_path / "page.html"
    target.write_text("old page")
    with target.open() as reader:
        write_atomic(target, "new")
        assert reader.read() == "old page"
    assert target.read_text() == "new"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    target = tmp_path / "results.json"
    target.write_text("old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(target, "new")
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["results.json"]


def test_an_interrupt_leaves_nothing_behind_either(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(tmp_path / "results.json", "new")
    assert os.listdir(tmp_path) == []


def test_text_that_utf_8_cannot_hold_touches_nothing(tmp_path):
    with pytest.raises(UnicodeEncodeError):
        write_atomic(tmp_path / "bad.txt", "\ud800")
    assert os.listdir(tmp_path) == []


def test_an_os_error_names_the_target_and_not_the_temporary_file(tmp_path):
    (tmp_path / "folder").mkdir()
    for name, kind in (("absent/file", FileNotFoundError), ("folder", OSError)):
        with pytest.raises(kind) as caught:
            write_atomic(tmp_path / name, b"")
        assert caught.value.filename == str(tmp_path / name)
        assert ".tmp" not in str(caught.value)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_the_file_gets_the_permissions_of_an_ordinary_new_file(tmp_path):
    (tmp_path / "ordinary").write_bytes(b"")
    write_atomic(tmp_path / "atomic", b"")
    modes = {stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in ("ordinary", "atomic")}
    assert len(modes) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize("linked", [False, True])
def test_a_pipe_is_not_turned_into_a_file(tmp_path, linked):
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    target = link if linked else pipe
    for write in (lambda: write_atomic(target, "text"), lambda: require_replaceable(target)):
        with pytest.raises(OSError, match="not a regular file") as error:
            write()
        assert error.value.filename == str(target)
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe"]


def test_what_is_not_there_or_a_file_may_be_replaced(tmp_path):
    require_replaceable(tmp_path / "new")
    require_replaceable(tmp_path / "no folder" / "new")
    (tmp_path / "file").write_text("old")
    require_replaceable(tmp_path / "file")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    write_atomic(tmp_path / "dangling", "new")
    assert (tmp_path / "dangling").read_text() == "new"
