"""Kernels on disk: bytes by key, so that a later process need not compile again.

A file is a line that names its format, a checksum of all that follows and of its key, a header in
JSON, and a body of bytes, such as machine code (`packed`, `unpacked`). Nothing in it is run, or
names what is to be run, in order to be read: what has another form is not taken.

The directory is `kernels` in the user's cache directory (Linux: `~/.cache/tc/kernels`, or below
`$XDG_CACHE_HOME`). An entry is machine code, which runs when it is loaded. So the directory has
to belong to the user alone: where others could write to it, or replace a directory above it, tc
does without it, and says so once.
Where there is no place for a directory, as without a home, tc says that once, too. Where something
cannot be read or written for another reason, such as a full disk, tc goes on without it, and says
nothing. Any number of processes may use one directory at once.

>>> import tc
>>> tc.cache.disable()  # this process neither reads nor writes entries from now on
>>> tc.cache.enable()
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import stat
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs

from tc.errors import TCError, render
from tc.files import TEMPORARY, whole_file
from tc.process.call_sites import warn

__all__ = ["LIMIT_BYTES", "KernelStore", "Report", "disable", "enable", "enable_in_memory", "store"]


def __dir__() -> list[str]:
    return sorted((*__all__, *(name for name in globals() if name.startswith("_"))))


LIMIT_BYTES = 256_000_000
"""The default bound on the sizes of all entries together, in bytes."""

VARIABLE = "TC_CACHE_DIR"
"""The environment variable that names the directory."""

ROOT = os.path.dirname(os.path.dirname(__file__))
"""The folder of tc's own code."""

ROOMS_ABOVE = ("cli", "derivatives", "gradient", "jax", "rules", "sac", "torch", "tuning")
"""The rooms that have no part in how a program becomes machine code, a third of tc: they make
programs and options, and what they make of these is not kept."""

_MAGIC = b"tc kernel 2\n"
_HEAD = len(_MAGIC) + hashlib.sha256().digest_size
_ENTRY = ".kernel"
_ABANDONED_SECONDS = 3600.0  # seconds after which a temporary file has lost its writer
_KEPT_SHARE = 7 / 8  # of the limit, once the oldest entries have been removed
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_HOMELESS = "~"  # where directories would be that depend on a home, without one
_ELSEWHERE = f'tc.cache.enable("{"C:/tc-kernels" if os.name == "nt" else "/var/tmp/tc-kernels"}")'


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a directory is not used; `repair` is set where the user is told, once: where using it
    would be unsafe, and where there is no place for one."""

    reason: str
    repair: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What `tc cache show` prints; `size` and `limit` are in bytes."""

    directory: Path
    entries: int
    size: int
    limit: int
    fault: Fault | None


class KernelStore:
    """The entries of one directory; of more than `limit` bytes those used longest ago are removed.

    Nothing that is found on the disk raises an error.
    """

    def __init__(self, directory: Path, limit: int = LIMIT_BYTES) -> None:
        self.directory = directory
        self.limit = limit
        self._checked = False
        self._real = directory  # once it was looked at, without links, which others could turn
        self._fault: Fault | None = None
        self._size: int | None = None  # as it was found, and what was written since

    def get(self, key: str) -> bytes | None:
        """The bytes under a key; an entry that is not whole is removed."""
        if not self._usable():
            return None
        path = self._path(key)
        try:
            data = _opened(key, _read(path, max(self.limit, LIMIT_BYTES)))
        except (OSError, MemoryError):
            return None
        with contextlib.suppress(OSError):
            if data is None:
                path.unlink()
            else:
                os.utime(path)
        return data

    def put(self, key: str, data: bytes) -> None:
        """Keeps bytes under a key: all of them, or nothing."""
        content = _sealed(key, data)
        if len(content) > self.limit * _KEPT_SHARE:
            return
        with contextlib.suppress(OSError):
            if self._usable(make=True):
                self._make_room(len(content))
                try:
                    _write(self._path(key), content)
                except FileNotFoundError:  # somebody has removed the directory
                    self._checked = False
                    if self._usable(make=True):
                        _write(self._path(key), content)

    def remove(self, key: str) -> None:
        with contextlib.suppress(OSError):
            self._path(key).unlink()

    def clear(self) -> int:
        """Removes all entries that can be removed, and returns how many those were."""
        removed = 0
        for entry in self._files():
            with contextlib.suppress(OSError):
                os.unlink(entry.path)
                removed += entry.name.endswith(_ENTRY)
        self._size = None
        return removed

    def report(self) -> Report:
        sizes = [info.st_size for info, entry in self._known() if entry.name.endswith(_ENTRY)]
        fault = find_fault(self.directory) or _find_obstacle(self.directory)
        return Report(self.directory, len(sizes), sum(sizes), self.limit, fault)

    def _path(self, key: str) -> Path:
        return self._real / f"{key}{_ENTRY}"

    def _usable(self, *, make: bool = False) -> bool:
        if not self._checked:
            self._real = _without_links(self.directory)
            self._fault = find_fault(self._real)
            if self._fault is None and not self._real.is_dir():
                if not make:
                    return False
                self._fault = _make(self._real) or find_fault(self._real)
            self._checked = True
            if self._fault is not None and self._fault.repair is not None:
                cause = f"kernels are not kept on disk, as {self._fault.reason}"
                error = TCError(cause, repair=self._fault.repair)
                warn(render("cache", error))
        return self._fault is None

    def _make_room(self, size: int) -> None:
        """Removes entries where `size` more bytes would pass the limit; looks at the directory
        only at the first write and when it may be full."""
        if self._size is None or self._size + size > self.limit:
            files = sorted(self._known(), key=lambda known: known[0].st_mtime)
            self._size = sum(info.st_size for info, _ in files)
            wanted = self.limit if self._size + size <= self.limit else self.limit * _KEPT_SHARE
            abandoned = time.time() - _ABANDONED_SECONDS
            for info, entry in files:
                if entry.name.endswith(TEMPORARY):
                    remove = info.st_mtime < abandoned
                else:
                    remove = self._size + size > wanted
                if remove:
                    with contextlib.suppress(OSError):
                        os.unlink(entry.path)
                        self._size -= info.st_size
        self._size += size

    def _files(self) -> Iterator[os.DirEntry[str]]:
        with contextlib.suppress(OSError), os.scandir(self.directory) as entries:
            for entry in entries:
                if entry.name.endswith((_ENTRY, TEMPORARY)):
                    yield entry

    def _known(self) -> Iterator[tuple[os.stat_result, os.DirEntry[str]]]:
        for entry in self._files():
            with contextlib.suppress(OSError):
                yield entry.stat(follow_symlinks=False), entry


class MemoryStore(KernelStore):
    """A store in a dict, for a process that hands its entries over."""

    def __init__(self, entries: dict[str, bytes]) -> None:
        super().__init__(Path(_HOMELESS))
        self.entries = entries

    def get(self, key: str) -> bytes | None:
        return self.entries.get(key)

    def put(self, key: str, data: bytes) -> None:
        self.entries[key] = data

    def remove(self, key: str) -> None:
        self.entries.pop(key, None)


# --- the store of this process ----------------------------------------------------------------


_store: KernelStore | None = None
_enabled = True
_lookups = (0, 0)
_noted = threading.local()


def enable(directory: str | os.PathLike[str] | None = None, *, limit: int = LIMIT_BYTES) -> None:
    """Keeps kernels on disk from now on, as a new process does: at most `limit` bytes in
    `directory`, by default in the directory that TC_CACHE_DIR names, or in the user's cache
    directory."""
    global _store, _enabled
    _store = KernelStore(_default() if directory is None else _absolute(Path(directory)), limit)
    _enabled = True


def enable_in_memory(entries: dict[str, bytes]) -> None:
    """Keeps kernels in a dict from now on, in this process."""
    global _store, _enabled
    _store, _enabled = MemoryStore(entries), True


def disable() -> None:
    """Neither reads nor writes kernels on disk from now on, in this process."""
    global _enabled
    _enabled = False


def store() -> KernelStore:
    """The store of this process, whether it is enabled or not."""
    global _store
    if _store is None:
        _store = KernelStore(_default())
    return _store


def get(key: str) -> bytes | None:
    """The bytes kept under a key (see `digest`), if any."""
    global _lookups
    if not _enabled:
        return None
    data = store().get(key)
    found, missed = _lookups
    _lookups = (found + (data is not None), missed + (data is None))
    return data


def lookups() -> tuple[int, int]:
    """How many entries this process has asked for and found, and how many it has missed."""
    return _lookups


def put(key: str, data: bytes) -> None:
    """Keeps bytes under a key, if that is possible."""
    if _enabled:
        store().put(key, data)


def remove(key: str) -> None:
    """Removes a useless entry."""
    if _enabled:
        store().remove(key)


def note_chance() -> None:
    """Notes that the result of this thread depends on chance, such as a limit of time: the result
    must not be kept, as the next one may be better."""
    _noted.chances = chances() + 1


def chances() -> int:
    """How often this thread has called `note_chance`."""
    found: int = getattr(_noted, "chances", 0)
    return found


def digest(*parts: str) -> str:
    """A key for what follows from these texts, this version of tc and this Python.

    >>> digest("a", "b") == digest("a", "b"), digest("a", "b") == digest("ab")
    (True, False)
    """
    total = hashlib.sha256(code_version().encode())
    for part in (sys.version, *parts):
        content = part.encode(errors="surrogatepass")
        total.update(b"%d " % len(content))
        total.update(content)
    return total.hexdigest()


@cache
def code_version() -> str:
    """A digest of tc itself: a changed compiler makes other kernels. The rooms of `ROOMS_ABOVE`
    are left out, as keys hold what these ask for."""
    total = hashlib.sha256()
    above = tuple(os.path.join(ROOT, room, "") for room in ROOMS_ABOVE)
    texts = sorted(path for path in _texts(ROOT) if not path.startswith(above))
    for path in texts:
        try:
            with open(path, "rb", buffering=0) as file:
                content = file.read()
        except OSError:  # removed meanwhile, as by an installer
            return os.urandom(16).hex()
        total.update(b"%s %d " % (os.fsencode(path[len(ROOT) :]), len(content)))
        total.update(content)
    # without texts, as in a zip file, nothing tells versions apart: every process has its own
    return total.hexdigest() if texts else os.urandom(16).hex()


def _texts(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    yield entry.path
                elif entry.is_dir() and entry.name != "__pycache__":
                    yield from _texts(entry.path)
    except OSError:
        return


def _default() -> Path:
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return _absolute(Path(chosen))
    try:
        return Path(platformdirs.user_cache_dir("tc", appauthor=False), "kernels")
    except (RuntimeError, OSError, KeyError):  # there is no home, and no such user
        return Path(_HOMELESS, "tc", "kernels")


def _absolute(directory: Path) -> Path:
    try:
        return directory.expanduser().absolute()
    except (RuntimeError, OSError, KeyError):  # no home, or no working directory
        return Path(_HOMELESS, directory)


# --- the form of what is kept -----------------------------------------------------------------


def packed(kind: str, header: Mapping[str, Any], body: bytes) -> bytes:
    """The bytes of an entry: a header of values that JSON knows, and a body.

    >>> packed("cubin", {"arch": "sm_90"}, b"code")
    b'{"arch":"sm_90","bytes":4,"kind":"cubin"}\\ncode'
    """
    known = {**header, "kind": kind, "bytes": len(body)}
    return json.dumps(known, sort_keys=True, separators=(",", ":")).encode() + b"\n" + body


def unpacked(kind: str, data: bytes) -> tuple[Mapping[str, Any], bytes] | None:
    """The header and the body of what was kept; None where it is not of this kind and form.

    >>> unpacked("cubin", packed("cubin", {"arch": "sm_90"}, b"code"))
    ({'arch': 'sm_90', 'bytes': 4, 'kind': 'cubin'}, b'code')
    >>> unpacked("object", packed("cubin", {"arch": "sm_90"}, b"code"))
    """
    line, _, body = data.partition(b"\n")
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(header, dict) or header.get("kind") != kind:
        return None
    return (header, body) if header.get("bytes") == len(body) else None


# --- the disk ---------------------------------------------------------------------------------


def find_fault(directory: Path) -> Fault | None:
    """Why entries of a directory are not to be trusted, or None; it need not exist."""
    if not directory.is_absolute():  # what the user's cache directory is without a home
        return Fault("this user has no home directory", _ELSEWHERE)
    try:
        return _find_intruder(_without_links(directory))
    except FileNotFoundError:
        return None
    except OSError as error:
        return Fault(f"{directory} cannot be used ({error.strerror})", _ELSEWHERE)


def _without_links(directory: Path) -> Path:
    return Path(os.path.realpath(directory)) if directory.is_absolute() else directory


def _find_intruder(real: Path) -> Fault | None:
    """Whether anybody but the user, or root, can put files into a directory."""
    info = real.stat()
    if not stat.S_ISDIR(info.st_mode):
        return Fault(f"{real} is no directory", _ELSEWHERE)
    if not hasattr(os, "geteuid"):  # Windows: the user's folders are the user's
        return None
    if info.st_uid != os.geteuid():
        reason = f"{real} belongs to another user, and what lies there would run as you"
        return Fault(reason, 'tc.cache.enable("~/.tc-kernels")')
    if info.st_mode & _OTHERS:
        reason = f"others can write to {real}, and what lies there would run as you"
        return Fault(reason, f"chmod 700 {shlex.quote(str(real))}")
    for parent in real.parents:
        about = parent.stat()
        if about.st_uid not in _trusted():
            reason = f"{parent} belongs to another user, who could so replace {real}"
            return Fault(reason, _ELSEWHERE)
        open_to = about.st_mode & _OTHERS
        if open_to and not about.st_mode & stat.S_ISVTX:
            whose = "others" if open_to & stat.S_IWOTH else f"the group of {parent}"
            reason = f"{whose} can write to {parent}, and could so replace {real}"
            words = "go-w" if open_to == _OTHERS else "o-w" if open_to & stat.S_IWOTH else "g-w"
            return Fault(reason, f"chmod {words} {shlex.quote(str(parent))}")
    return None


def _trusted() -> frozenset[int]:
    """The users to whom directories above may belong: this one and root. In a container that knows
    no root, what is root's outside of it belongs to the user of all whom it does not know."""
    users = {0, os.geteuid()}
    with contextlib.suppress(OSError, ValueError):
        lines = Path("/proc/self/uid_map").read_text().splitlines()
        if not any(int(line.split()[0]) == 0 for line in lines):
            users.add(int(Path("/proc/sys/kernel/overflowuid").read_text()))
    return frozenset(users)


def _find_obstacle(directory: Path) -> Fault | None:
    """Why nothing can be written to a directory, though it is safe."""
    existing = next(path for path in (directory, *directory.parents) if os.path.exists(path))
    if os.access(existing, os.W_OK):
        return None
    return Fault(f"nothing can be written to {existing}")


def _sealed(key: str, data: bytes) -> bytes:
    """An entry: a checksum of key and data before the data, so that no file that was cut short,
    or stands under another name, passes for it."""
    return _MAGIC + hashlib.sha256(key.encode() + data).digest() + data


def _opened(key: str, content: bytes) -> bytes | None:
    data = content[_HEAD:]
    return data if content == _sealed(key, data) else None


def _read(path: Path, most: int) -> bytes:
    """A file of the user's own; nothing of anybody else's, which could have been put there while
    nobody looked at the directory, and none of more than `most` bytes."""
    with open(path, "rb", opener=_open) as file:
        info = os.fstat(file.fileno())
        if hasattr(os, "geteuid") and (info.st_uid != os.geteuid() or info.st_mode & _OTHERS):
            return b""
        if not stat.S_ISREG(info.st_mode) or info.st_size > most:
            return b""
        return file.read()


def _open(path: str, flags: int) -> int:
    """Opens a file, and does not wait for anybody to write to a pipe of that name."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _make(directory: Path) -> Fault | None:
    """Makes a directory; the fault where that cannot be."""
    missing = [p for p in (directory, *directory.parents) if not os.path.exists(p)]
    try:
        for path in reversed(missing):
            path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        return Fault(f"{directory} cannot be made ({error.strerror})", _ELSEWHERE)
    return None


def _write(path: Path, content: bytes) -> None:
    """Writes a file that nobody sees before the file is whole; a file that a crash has damaged is
    found to be damaged when it is read."""
    with whole_file(path, private=True, durable=False) as file:
        file.write(content)
