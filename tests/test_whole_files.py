"""Files that hold all of what was to be written, or what they held before (tc.files)."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tc import files
from tc.files import whole_file, write_text

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no modes here")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_has_the_new_content(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for text in ("one\n", "", "two ü\n" * 10_000):
        write_text(path, text)
        assert path.read_bytes() == text.encode()
        assert names(tmp_path) == ["a"]


def test_until_the_end_it_has_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with whole_file(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, ValueError])
def test_what_breaks_off_leaves_everything_as_it_was(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "a"
    path.write_text("old")

    def half(path: Path) -> None:
        with whole_file(path) as file:
            file.write(b"new")
            raise error

    for each in (path, tmp_path / "b"):
        with pytest.raises(error):
            half(each)
    assert names(tmp_path) == ["a"]
    assert path.read_text() == "old"


@pytest.mark.parametrize("call", ["open", "fsync", "replace", "fdopen"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_whatever_the_disk_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    fails(monkeypatch, call, number)
    with pytest.raises(OSError, match=os.strerror(number)):
        write_text(path, "new")
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a"]


def fails(monkeypatch: pytest.MonkeyPatch, call: str, number: int) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fail)


@posix
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o664, 0o4755])
def test_the_mode_is_kept(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(mode)
    write_text(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == mode


@posix
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_users_mode(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_text(tmp_path / "a", "new")
        with whole_file(tmp_path / "b", private=True) as file:
            file.write(b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~umask
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o600


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs to be root")
def test_the_owner_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    os.chown(path, 54321, 54322)
    write_text(path, "new")
    assert (path.stat().st_uid, path.stat().st_gid) == (54321, 54322)


@posix
def test_links_stay(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    path, link, second = tmp_path / "far" / "a", tmp_path / "link", tmp_path / "second"
    path.write_text("old")
    link.symlink_to(Path("far", "a"))
    second.symlink_to(link)
    write_text(second, "new")
    assert link.is_symlink()
    assert second.is_symlink()
    assert path.read_text() == "new"
    assert names(tmp_path / "far") == ["a"]
    path.unlink()
    write_text(link, "newer")  # where it leads to nothing yet
    assert link.is_symlink()
    assert path.read_text() == "newer"


@posix
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may do everything")
def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(PermissionError):
        write_text(path, "new")
    assert path.read_text() == "old"


def test_nor_one_that_the_system_says_so_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError):
        write_text(path, "new")
    assert path.read_text() == "old"


@pytest.mark.parametrize("text", ["newer than before", "new", ""])
@pytest.mark.parametrize(
    "refuse",
    [
        lambda patch: fails(patch, "replace", errno.EBUSY),  # a file mounted by itself
        lambda patch: fails(patch, "replace", errno.EPERM),  # another's, in a directory like /tmp
        lambda patch: refuses_new_files(patch, errno.EACCES),
        lambda patch: refuses_new_files(patch, errno.EROFS),
    ],
)
def test_where_nothing_can_take_its_place_it_is_written_over(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refuse: Callable[[pytest.MonkeyPatch], None],
    text: str,
) -> None:
    path = tmp_path / "a"
    path.write_text("as long as this")
    number = path.stat().st_ino
    refuse(monkeypatch)
    write_text(path, text)
    monkeypatch.undo()
    assert path.read_text() == text
    assert path.stat().st_ino == number
    assert names(tmp_path) == ["a"]


def refuses_new_files(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def beside(*_: object) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files, "_beside", beside)


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="no room can be asked for here")
def test_and_not_without_room_for_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    fails(monkeypatch, "replace", errno.EBUSY)
    fails(monkeypatch, "posix_fallocate", errno.ENOSPC)
    with pytest.raises(OSError, match="No space left"):
        write_text(path, "new")
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "new")
    reader.join()
    assert found == ["new"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_directory_is_none(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        write_text(tmp_path, "new")
    with pytest.raises(FileNotFoundError):
        write_text(tmp_path / "nowhere" / "a", "new")
