"""Faults of the disk under a running program: never an error, never a wrong kernel."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import pytest

import tc
from tc import cache
from tc.errors import BackendError, TCWarning
from tc.runtime.cache import KernelStore, digest
from tests.support.processes import LIMIT, ROOT, ended_well, run_python, told

POLY = "def poly(float(N) x) -> (y) { y(i) = 3 * x(i) * x(i) - 2 * x(i) + 1 }"
posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX")


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Path]:
    tc.cache.enable(tmp_path / "kernels")
    yield tmp_path / "kernels"
    tc.cache.disable()


def check(size: int) -> None:
    """A new function is right, without a warning."""
    x = np.arange(size, dtype=np.float32)
    assert (tc.compile(POLY)(x) == 3 * x * x - 2 * x + 1).all()


def no_home(*_: object, **__: object) -> str:
    raise RuntimeError("Could not determine home directory.")


def test_without_a_home_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platformdirs, "user_cache_dir", no_home)
    monkeypatch.setattr(cache, "_store", None)
    monkeypatch.setattr(cache, "_enabled", True)
    with pytest.warns(TCWarning, match="this user has no home directory") as caught:
        check(5)
    assert len(caught) == 1
    check(6)  # all warnings are errors here
    tc.cache.enable()
    assert cache.store().report().fault is not None


# all modules are loaded before: they may lie where nobody can look
NOBODY = f"""
import os, pwd, warnings
import numpy as np
import tc
import tc.api, tc.backends.numba.backend, tc.backends.numba.math
os.environ.pop("HOME", None), os.environ.pop("XDG_CACHE_HOME", None)
BECOME
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for size in 3, 4:
        f = tc.compile({POLY!r})
        assert f(np.ones(size, np.float32)).tolist() == [2.0] * size
print([w.category.__name__ for w in caught])
"""


@posix
def test_a_process_of_nobody() -> None:
    """As in a container: a user id without a name, no HOME, and no place to write to."""
    become = f"os.setuid({nameless()})" if os.geteuid() == 0 else "del pwd.getpwuid"
    done = run(NOBODY.replace("BECOME", become))
    assert done.stdout.strip() == "['TCWarning']", told(done)


def nameless() -> int:
    import pwd

    taken = {user.pw_uid for user in pwd.getpwall()}
    return next(number for number in range(54321, 60000) if number not in taken)


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_python(script, environment=environment)


def test_a_directory_removed_under_a_running_process(kept: Path) -> None:
    check(5)
    assert len(list(kept.iterdir())) == 2  # a text, and machine code
    for path in kept.iterdir():
        path.unlink()
    kept.rmdir()
    check(5)
    check(6)
    assert len(list(kept.iterdir())) == 4


def damaged(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda path: void(path.write_bytes(change(path.read_bytes())))


def void(_: object) -> None:
    return None


def as_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "file").write_text("the user's own")


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def as_link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def as_huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)  # takes no space


def as_pickle(path: Path) -> None:
    """Sealed as ours are, but nothing that is read back: it would end the process."""
    key = path.name.removesuffix(".kernel")
    path.write_bytes(cache._sealed(key, b"cos\n_exit\n(I7\ntR."))


@posix
@pytest.mark.parametrize(
    "damage",
    [
        damaged(lambda content: content[: len(content) // 2]),
        damaged(lambda content: content[:-9] + b"corrupted"),
        damaged(lambda _: b"a file of somebody else"),
        as_directory,
        as_pipe,
        as_link_to_itself,
        as_huge,
        as_pickle,
    ],
    ids=["cut", "corrupt", "foreign", "directory", "pipe", "link", "huge", "pickle"],
)
def test_entries_that_are_none(kept: Path, damage: Callable[[Path], None]) -> None:
    check(5)
    for path in list(kept.iterdir()):
        damage(path)
    check(5)
    check(5)


@pytest.mark.parametrize("call", ["open", "write", "replace", "utime", "mkdir", "unlink"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO])
def test_every_call_to_the_disk_may_fail(
    kept: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    """With entries there, and without."""
    store, key = KernelStore(kept), digest("key")
    store.put(key, b"code")

    def fails(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fails)
    for at in (kept, kept.parent / "new"):
        with contextlib.nullcontext() if at is kept else all_warnings():
            fresh = KernelStore(at)
            assert fresh.get(key) in (None, b"code")
            fresh.put(digest("other"), b"more")
            assert fresh.get(digest("other")) in (None, b"more")
            fresh.remove(key)
            fresh.clear()
    monkeypatch.undo()
    assert store.get(key) in (None, b"code")


@contextlib.contextmanager
def all_warnings() -> Iterator[None]:
    """At most one, of ours."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    assert [w.category for w in caught] in ([], [TCWarning])


FULL = f"""
import resource
import numpy as np
import tc
resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, resource.RLIM_INFINITY))
for size in 5, 6, 5:
    x = np.arange(size, dtype=np.float32)
    assert (tc.compile({POLY!r})(x) == 3 * x * x - 2 * x + 1).all()
"""


@pytest.mark.drawn(3)
@posix
@pytest.mark.parametrize("limit", [0, 100, 1500])
def test_a_disk_that_takes_so_many_bytes(tmp_path: Path, limit: int) -> None:
    """Nothing half-written stays, and another process reads what there is."""
    done = run(FULL.replace("MOST", str(limit)), XDG_CACHE_HOME=str(tmp_path))
    assert ended_well(done), told(done)
    for path in (tmp_path / "tc" / "kernels").iterdir():
        assert path.suffix == ".kernel"
        assert path.stat().st_size <= limit
    tc.cache.enable(tmp_path / "tc" / "kernels")
    try:
        check(5)
    finally:
        tc.cache.disable()


SAME = f"""
import sys
import numpy as np
import tc
print("ready", flush=True)
sys.stdin.readline()
for size in range(3, 11):
    x = np.arange(size, dtype=np.float32)
    assert (tc.compile({POLY!r})(x) == 3 * x * x - 2 * x + 1).all(), size
"""


def test_processes_that_write_the_same_keys(tmp_path: Path) -> None:
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", SAME],
            cwd=ROOT,
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        _, errors = worker.communicate(timeout=LIMIT)
        assert (worker.returncode, errors) == (0, "")
    names = [path.suffix for path in (tmp_path / "tc" / "kernels").iterdir()]
    assert names == [".kernel"] * 16


@pytest.mark.skipif("c" not in tc.backends(), reason="needs a C compiler")
def test_no_place_for_the_files_of_the_c_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    f = tc.compile(POLY, backend="c")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(BackendError, match="its files cannot be written"):
        f(np.ones(3, np.float32))
    monkeypatch.undo()
    assert f(np.ones(3, np.float32)).tolist() == [2.0] * 3
