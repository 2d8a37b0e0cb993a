"""The store of kernels on disk: entries kept, entries refused, and faults survived."""

from __future__ import annotations

import errno
import hashlib
import os
import pickle
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import tc
from tc import cache, stored_texts
from tc.backends import cuda
from tc.backends.numba import objects
from tc.errors import TCWarning
from tc.kernel import storage
from tc.runtime.cache import KernelStore, digest, find_fault
from tests.support.processes import run_python

KEY = digest("key")
ROOT = Path(__file__).parent.parent.parent

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
unprivileged = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do everything"
)


@pytest.fixture
def store(tmp_path: Path) -> KernelStore:
    return KernelStore(tmp_path / "tc" / "kernels")


def only_file(store: KernelStore) -> Path:
    (path,) = store.directory.iterdir()
    return path


def test_what_is_put_is_found_by_any_process(store: KernelStore) -> None:
    assert store.get(KEY) is None
    assert not store.directory.exists()  # reading makes nothing
    store.put(KEY, b"\0code\xff")
    assert store.get(KEY) == KernelStore(store.directory).get(KEY) == b"\0code\xff"
    assert store.get(digest("other")) is None
    store.put(KEY, b"")
    assert store.get(KEY) == b""
    store.remove(KEY)
    assert store.get(KEY) is None
    assert list(store.directory.iterdir()) == []


@posix
def test_others_may_not_even_look(store: KernelStore) -> None:
    before = os.umask(0)
    try:
        store.put(KEY, b"code")
    finally:
        os.umask(before)
    made = [store.directory.parent, store.directory, only_file(store)]
    assert [oct(path.stat().st_mode & 0o777) for path in made] == ["0o700", "0o700", "0o600"]
    assert store.get(KEY) == b"code"


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[:10],
        lambda _: b"",
        lambda content: content + b"!",
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: bytes([content[0] ^ 1]) + content[1:],
        lambda content: b"\0" * len(content),
    ],
    ids=["last byte", "head", "empty", "longer", "bit", "magic", "zeros"],
)
def test_damaged_entries_are_ignored_and_removed(store: KernelStore, damage: object) -> None:
    store.put(KEY, b"code")
    path = only_file(store)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    assert store.get(KEY) is None
    assert not path.exists()
    store.put(KEY, b"code")
    assert store.get(KEY) == b"code"


def test_entries_of_the_format_before_are_not_read(store: KernelStore) -> None:
    """They were pickles, which say what is to be run in order to be read."""
    store.put(KEY, b"code")
    data = pickle.dumps(("code",))
    sealed = hashlib.sha256(KEY.encode() + data).digest()
    only_file(store).write_bytes(b"tc kernel 1\n" + sealed + data)
    assert store.get(KEY) is None


def test_nothing_on_the_way_of_a_kernel_knows_pickle() -> None:
    for module in (cache, stored_texts, objects, storage, cuda):
        assert not hasattr(module, "pickle")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"code",
        b"{}\ncode",
        b"[]\ncode",
        b"null\ncode",
        b"\xff\ncode",
        b'{"kind":"object"}\ncode',
        b'{"bytes":5,"kind":"object"}\ncode',
        b'{"bytes":4,"kind":"text"}\ncode',
        b'{"bytes":4,"kind":"object"}code',
        b"[" * 100_000 + b"\ncode",
        b'{"bytes":' + b"4" * 10_000 + b',"kind":"object"}\ncode',
    ],
)
def test_what_has_another_form_is_not_unpacked(data: bytes) -> None:
    assert cache.unpacked("object", data) is None
    assert cache.unpacked("object", cache.packed("object", {}, data)) is not None


def test_an_entry_under_another_name_is_not_taken(store: KernelStore) -> None:
    store.put(KEY, b"code")
    other = digest("other")
    os.rename(only_file(store), store.directory / f"{other}.kernel")
    assert store.get(other) is None


def told(store: KernelStore) -> str:
    """The one warning of using a store twice in all ways."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            assert store.get(KEY) is None
            store.put(KEY, b"code")
    assert [w.category for w in caught] == [TCWarning]
    return str(caught[0].message)


@posix
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_directory_that_others_can_write_to_is_not_used(store: KernelStore, mode: int) -> None:
    store.put(KEY, b"evil")
    store.directory.chmod(mode)
    real = os.path.realpath(store.directory)
    assert told(KernelStore(store.directory)) == (
        f"cache: kernels are not kept on disk, as others can write to {real}, and what lies there "
        f"would run as you\nrepair: chmod 700 {real}"
    )
    store.directory.chmod(0o700)  # the repair
    assert KernelStore(store.directory).get(KEY) == b"evil"


@posix
@pytest.mark.parametrize(
    ("mode", "who", "words"),
    [(0o777, "others", "go-w"), (0o707, "others", "o-w"), (0o770, "the group of {}", "g-w")],
)
def test_nor_one_in_a_directory_that_others_can_write_to(
    store: KernelStore, mode: int, who: str, words: str
) -> None:
    """As ssh takes no key from there; a group of others is others, too."""
    store.put(KEY, b"evil")
    parent = store.directory.parent
    real = os.path.realpath(parent)
    parent.chmod(mode)
    assert told(KernelStore(store.directory)) == (
        f"cache: kernels are not kept on disk, as {who.format(real)} can write to {real}, and "
        f"could so replace {real}/kernels\nrepair: chmod {words} {real}"
    )
    parent.chmod(mode | 0o1000)  # as /tmp: nobody may replace what belongs to another
    assert KernelStore(store.directory).get(KEY) == b"evil"
    parent.chmod(0o700)  # the repair
    assert KernelStore(store.directory).get(KEY) == b"evil"


@posix
def test_nor_one_below_a_directory_of_another_user(
    store: KernelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other user owns the parent, and may change its mode and replace the directory."""
    store.put(KEY, b"evil")
    parent, looked_at = store.directory.parent, Path.stat

    def stat(path: Path, **how: bool) -> os.stat_result:
        found = looked_at(path, **how)
        if path.name != parent.name:
            return found
        return os.stat_result((*found[:4], os.geteuid() + 4321, *found[5:]))

    monkeypatch.setattr(Path, "stat", stat)
    assert "belongs to another user, who could so replace" in told(KernelStore(store.directory))
    monkeypatch.setattr(cache, "_trusted", lambda: {0, os.geteuid(), os.geteuid() + 4321})
    assert KernelStore(store.directory).get(KEY) == b"evil"  # as a container names root


@posix
def test_a_link_that_is_turned_later_leads_nowhere(store: KernelStore, tmp_path: Path) -> None:
    """The store uses the directory that it examined, not the new target of the link."""
    store.put(KEY, b"code")
    evil = KernelStore(tmp_path / "evil")
    evil.put(KEY, b"evil")
    link = tmp_path / "link"
    link.symlink_to(store.directory)
    reader = KernelStore(link)
    assert reader.get(KEY) == b"code"
    link.unlink()
    link.symlink_to(evil.directory)
    assert reader.get(KEY) == b"code"


@posix
def test_nor_one_of_another_user(store: KernelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(KEY, b"evil")
    monkeypatch.setattr(os, "geteuid", lambda: store.directory.stat().st_uid + 1)
    assert "belongs to another user" in told(KernelStore(store.directory))


@posix
def test_links_count_as_what_they_lead_to(store: KernelStore, tmp_path: Path) -> None:
    store.put(KEY, b"code")
    link = tmp_path / "link"
    link.symlink_to(store.directory)
    assert KernelStore(link).get(KEY) == b"code"
    store.directory.chmod(0o777)
    assert "others can write to" in told(KernelStore(link))


@posix
def test_a_file_of_others_in_a_safe_directory_is_not_read(store: KernelStore) -> None:
    store.put(KEY, b"evil")
    only_file(store).chmod(0o666)
    assert store.get(KEY) is None
    assert list(store.directory.iterdir()) == []


@unprivileged
def test_a_directory_that_cannot_be_written_to_is_read_silently(store: KernelStore) -> None:
    store.put(KEY, b"code")
    store.directory.chmod(0o500)
    try:
        reader = KernelStore(store.directory)
        reader.put(digest("other"), b"code")
        assert reader.get(KEY) == b"code"
        assert reader.get(digest("other")) is None
        fault = reader.report().fault
        assert fault is not None
        assert fault.reason == f"nothing can be written to {store.directory}"
    finally:
        store.directory.chmod(0o700)


def test_a_file_where_the_directory_should_be(tmp_path: Path) -> None:
    for place in (tmp_path / "file", tmp_path / "file" / "kernels"):
        (tmp_path / "file").write_text("text")
        store = KernelStore(place)
        assert str(place) in told(store)
        assert store.report().fault is not None


def test_a_full_disk_leaves_nothing_behind(
    store: KernelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    store.put(KEY, b"code")
    monkeypatch.setattr(os, "replace", full)
    store.put(digest("other"), b"code")
    assert [path.name for path in store.directory.iterdir()] == [f"{KEY}.kernel"]
    assert store.get(KEY) == b"code"


def test_no_home() -> None:
    fault = find_fault(Path("~/.cache/tc/kernels"))  # what is left of it without one
    assert fault is not None
    assert fault.reason == "this user has no home directory"
    assert told(KernelStore(Path("~/.cache/tc/kernels"))) == (
        "cache: kernels are not kept on disk, as this user has no home directory\n"
        f"repair: {fault.repair}"
    )
    assert not Path("~").exists()


def test_the_entries_used_longest_ago_go_first(tmp_path: Path) -> None:
    store = KernelStore(tmp_path, limit=10_000)
    keys = [digest(str(number)) for number in range(30)]
    now = time.time()
    for number, key in enumerate(keys):
        store.put(key, bytes(1000))
        os.utime(tmp_path / f"{key}.kernel", (now - 1000 + number,) * 2)
        if number == 5:
            assert store.get(keys[0]) is not None  # used again
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 10_000
    kept = [number for number, key in enumerate(keys) if (tmp_path / f"{key}.kernel").exists()]
    assert kept == [0, *range(kept[1], 30)]
    assert len(kept) >= 7


def test_a_new_process_counts_what_is_there(tmp_path: Path) -> None:
    for number in range(30):
        KernelStore(tmp_path, limit=10_000).put(digest(str(number)), bytes(1000))
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 10_000


def test_what_is_too_large_is_not_kept(tmp_path: Path) -> None:
    store = KernelStore(tmp_path, limit=1000)
    store.put(KEY, b"code")
    store.put(digest("large"), bytes(2000))
    assert store.get(digest("large")) is None
    assert store.get(KEY) == b"code"


def test_abandoned_temporary_files_are_removed(store: KernelStore) -> None:
    store.put(KEY, b"code")
    old, new = (store.directory / name for name in ("old.tmp", "new.tmp"))
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    KernelStore(store.directory).put(digest("other"), b"code")
    assert not old.exists()
    assert new.exists()  # its writer may still be at work


def test_clear_and_report(store: KernelStore) -> None:
    assert (store.clear(), store.report().entries) == (0, 0)
    for name in ("one", "two"):
        store.put(digest(name), b"code")
    (store.directory / "notes.txt").write_text("the user's own")
    report = store.report()
    assert (report.entries, report.limit, report.fault) == (2, cache.LIMIT_BYTES, None)
    assert report.size == sum(p.stat().st_size for p in store.directory.glob("*.kernel"))
    assert store.clear() == 2
    assert [path.name for path in store.directory.iterdir()] == ["notes.txt"]


WRITER = """
import sys
from pathlib import Path
from tc.runtime.cache import KernelStore, digest
store = KernelStore(Path(sys.argv[1]), limit=200_000)
for turn in range(40):
    for name in "abcdef":
        data = (name * 5000).encode()
        found = store.get(digest(name))
        assert found in (None, data), "a torn entry"
        store.put(digest(name), data)
    store.put(digest(f"{sys.argv[2]} {turn}"), bytes(5000))
"""


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(number)], cwd=ROOT)
        for number in range(4)
    ]
    assert [writer.wait(600) for writer in writers] == [0] * 4
    names = [path.name for path in tmp_path.iterdir()]
    assert all(name.endswith(".kernel") for name in names)
    store = KernelStore(tmp_path, limit=200_000)
    store.put(KEY, b"code")
    assert store.report().size <= 200_000


def test_disable_and_enable(tmp_path: Path) -> None:
    tc.cache.enable(tmp_path)
    cache.put(KEY, b"code")
    tc.cache.disable()
    assert cache.get(KEY) is None
    cache.put(digest("other"), b"code")
    cache.remove(KEY)
    tc.cache.enable(str(tmp_path), limit=10)
    assert cache.store().limit == 10
    assert cache.get(KEY) == b"code"
    assert cache.get(digest("other")) is None
    tc.cache.enable()
    assert cache.store().directory == Path(os.environ["XDG_CACHE_HOME"], "tc", "kernels")


def test_keys_tell_parts_and_versions_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {digest(), digest(""), digest("ab"), digest("a", "b"), digest("b", "a")}
    assert len(keys) == 5
    monkeypatch.setattr(cache, "code_version", lambda: "another version of tc")
    assert digest("ab") not in keys
    monkeypatch.undo()
    monkeypatch.setattr(sys, "version", "another Python")
    assert digest("ab") not in keys
    monkeypatch.undo()
    assert digest("ab") in keys


def test_any_change_of_tc_is_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "backends").mkdir()
    inner = tmp_path / "backends" / "printer.py"
    inner.write_text("1")
    assert Path(cache.ROOT) == Path(tc.__file__).parent
    monkeypatch.setattr(cache, "ROOT", str(tmp_path))
    version = cache.code_version.__wrapped__
    seen = [version()]
    assert version() == seen[0]
    for change in (
        lambda: inner.write_text("2"),
        lambda: inner.rename(tmp_path / "printer.py"),
        lambda: (tmp_path / "new.py").write_text(""),
    ):
        change()
        seen.append(version())
    assert len(set(seen)) == 4


def test_rooms_above_have_no_part_in_machine_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever lowers, prints and compiles loads none of them, so that they may change."""
    made = run_python("""
import sys
import tc.pipeline, tc.stored_texts
import tc.polyhedral.narrative, tc.polyhedral.cpu.cpu_target, tc.polyhedral.gpu.gpu_target
import tc.backends.cuda, tc.backends.opencl
import tc.backends.clike.backend, tc.backends.numba.backend, tc.backends.numba.scipy_functions
print(*{name.split(".")[1] for name in sys.modules if name.startswith("tc.")})
""")
    rooms = set(made.stdout.split())
    assert {"backends", "kernel", "polyhedral", "semantics"} < rooms
    assert rooms.isdisjoint(cache.ROOMS_ABOVE)
    for room in cache.ROOMS_ABOVE:
        assert (Path(cache.ROOT) / room / "__init__.py").is_file()
    monkeypatch.setattr(cache, "ROOT", str(tmp_path))
    (tmp_path / "gradients.py").write_text("1")
    version = cache.code_version.__wrapped__
    before = version()
    (tmp_path / "gradient").mkdir()
    (tmp_path / "gradient" / "terms.py").write_text("1")
    assert version() == before
    (tmp_path / "gradients.py").write_text("2")
    assert version() != before
