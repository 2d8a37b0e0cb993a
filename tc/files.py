"""Files that hold all of what was to be written, or what they held before.

The new content is written beside a file and flushed to the disk, and takes the file's place only
then. So neither a full disk nor a crash loses what the user had. Everything that tc writes for a
user is written here, and what it keeps for itself, too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import IO

TEMPORARY = ".tmp"
"""How the names of files end that nobody has finished."""

_NO_PLACE = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_EXCHANGE = (*_NO_PLACE, errno.EBUSY, errno.EXDEV)
"""Why no file can be made beside another, or take its place: the directory is not the user's to
change, or the file is mounted by itself, as containers do it."""


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Gives a file this text, in UTF-8; OSError where that cannot be, and then the file is as it
    was before.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_text(Path(folder, "mm.tc"), "# empty\\n")
    ...     Path(folder, "mm.tc").read_text()
    '# empty\\n'
    """
    with whole_file(path) as file:
        file.write(text.encode())


@contextlib.contextmanager
def whole_file(
    path: str | os.PathLike[str], *, private: bool = False, durable: bool = True
) -> Iterator[IO[bytes]]:
    """A file to write bytes to, which takes the place of `path` at the end of the block, and never
    where the block raises; OSError where it cannot.

    A file that is there keeps its mode and, where the user may say so, its owner; a link leads to
    the new content. What is no regular file, such as a pipe, is written to as it is. A new file is
    readable by others as the user's umask has it. One that is not `durable` may be lost, or be
    damaged, if the machine stops within seconds.

    A `private` file is read by nobody else, and takes the place of whatever has its name.
    """
    real = os.fspath(path) if private else os.path.realpath(path)
    before = None if private else _state(real)
    if before is not None and not stat.S_ISREG(before.st_mode):
        with open(real, "wb") as stream:
            yield stream
        return
    if before is not None and not os.access(real, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    try:
        temporary, handle = _beside(real, 0o600 if private or before is not None else 0o666)
    except OSError as error:
        if before is None or error.errno not in _NO_PLACE:
            raise
        with tempfile.TemporaryFile() as elsewhere:
            yield elsewhere
            _copy_into(real, elsewhere)
        return
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if before is not None:
                _keep_rights(handle, before)
            if durable:
                os.fsync(handle)
        try:
            os.replace(temporary, real)
        except OSError as error:
            if before is None or error.errno not in _NO_EXCHANGE:
                raise
            with open(temporary, "rb") as whole:
                _copy_into(real, whole)
            os.unlink(temporary)
        if durable:
            _flush_folder(real)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _state(real: str) -> os.stat_result | None:
    try:
        return os.stat(real)
    except FileNotFoundError:
        return None


def _beside(real: str, mode: int) -> tuple[str, int]:
    """A new file in the same directory, and so on the same disk."""
    # tempfile's own name would take a lock, which forked children might find locked
    name = f".tc-{os.getpid()}-{threading.get_ident()}-{time.monotonic_ns()}{TEMPORARY}"
    temporary = os.path.join(os.path.dirname(real), name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    return temporary, os.open(temporary, flags, mode)


def _keep_rights(handle: int, before: os.stat_result) -> None:
    """Owner, group and mode of the file that was there."""
    if not hasattr(os, "fchown"):  # Windows
        return
    with contextlib.suppress(OSError):
        os.fchown(handle, before.st_uid, before.st_gid)
    with contextlib.suppress(OSError):
        os.fchmod(handle, stat.S_IMODE(before.st_mode))


def _copy_into(real: str, file: IO[bytes]) -> None:
    """Copies the content of a file over the content of another file, which keeps its place; there
    is room for all of the content before anything is lost."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    with open(real, "r+b") as old:
        if size and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(old.fileno(), 0, size)
        shutil.copyfileobj(file, old)
        old.truncate()
        old.flush()
        os.fsync(old.fileno())


def _flush_folder(real: str) -> None:
    """Brings the names of a folder to the disk, too, where the system offers a way to."""
    with contextlib.suppress(OSError):
        folder = os.open(os.path.dirname(real), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
