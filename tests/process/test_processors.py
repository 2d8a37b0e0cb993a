"""What a process may use of the machine: instructions, processors, and time on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numba
import pytest

from tc.process import processors
from tc.runtime.thread_pool import thread_count

Groups = Callable[[str], None]


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Groups]:
    """Makes the files by which Linux tells the groups of a process, and their limits."""
    control, own = tmp_path / "control", tmp_path / "own"
    control.mkdir()
    monkeypatch.setattr(processors, "_CONTROL", control)
    monkeypatch.setattr(processors, "_GROUPS", own)
    monkeypatch.setattr(processors, "available", lambda: set(range(8)))

    def make(lines: str) -> None:
        own.write_text(lines)
        processors.quota.cache_clear()

    yield make
    processors.quota.cache_clear()


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("limits", "share", "threads"),
    [
        ({"a/b": "150000 100000"}, 1.5, 2),
        ({"a/b": "max 100000", "a": "300000 100000"}, 3.0, 3),
        ({"a/b": "800000 100000", "a": "200000 50000"}, 4.0, 4),
        ({"a/b": "10000 100000"}, 0.1, 1),
        ({"": "250000 100000"}, 2.5, 3),  # a container that sees its own group as the root
        ({"a/b": "6400000 100000"}, 64.0, 8),
        ({"a/b": "max 100000"}, None, 8),
        ({"a/b": "nonsense"}, None, 8),
        ({}, None, 8),
    ],
)
def test_quotas(groups: Groups, limits: dict[str, str], share: float | None, threads: int) -> None:
    for group, text in limits.items():
        write(processors._CONTROL / group / "cpu.max", f"{text}\n")
    groups("0::/a/b\n")
    assert processors.quota() == share
    assert processors.default_threads() == threads


@pytest.mark.parametrize("folder", ["cpu,cpuacct", "cpu"])
@pytest.mark.parametrize(
    ("quota", "share", "threads"),
    [("250000", 2.5, 3), ("-1", None, 8), ("0", None, 8), ("?", None, 8)],
)
def test_quotas_of_the_first_version(
    groups: Groups, folder: str, quota: str, share: float | None, threads: int
) -> None:
    group = processors._CONTROL / folder / "docker" / "x"
    write(group / "cpu.cfs_quota_us", quota)
    write(group / "cpu.cfs_period_us", "100000\n")
    groups("5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n3:cpuset:/\n0::/\n")
    assert processors.quota() == share
    assert processors.default_threads() == threads


def test_no_groups(groups: Groups) -> None:
    groups("")
    processors._GROUPS.unlink()
    processors.quota.cache_clear()
    assert processors.quota() is None


def test_threads_of_a_region(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    """What numba is told counts; else the processors and the quota, as they are now."""
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    monkeypatch.setattr(numba.config, "NUMBA_DEFAULT_NUM_THREADS", 8)
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 8)
    groups("0::/\n")
    assert thread_count() == 8
    monkeypatch.setattr(processors, "available", lambda: {1, 3})
    assert thread_count() == 2
    write(processors._CONTROL / "cpu.max", "100000 100000")
    groups("0::/\n")
    assert thread_count() == 1
    monkeypatch.setenv("NUMBA_NUM_THREADS", "8")
    assert thread_count() == 8
    monkeypatch.delenv("NUMBA_NUM_THREADS")
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 4)
    assert thread_count() == 4


@pytest.mark.parametrize(
    ("environment", "found", "features"),
    [
        ({}, {"avx2": True, "fma": False}, {"avx2": True, "fma": False}),
        ({"NUMBA_CPU_NAME": "generic"}, {"avx2": True}, {"sse2": True}),
        ({"NUMBA_CPU_NAME": "haswell"}, {"avx2": True}, {"avx2": True}),
        ({"NUMBA_CPU_FEATURES": ""}, {"avx2": True}, {"sse2": True}),
        (
            {"NUMBA_CPU_FEATURES": "+fma,-f16c"},
            {"avx2": True},
            {"sse2": True, "fma": True, "avx": True, "f16c": False},
        ),
        (
            {"NUMBA_ENABLE_AVX": "0"},
            {"avx512f": True, "f16c": True, "sse2": True},
            {"avx512f": False, "f16c": False, "sse2": True},
        ),
        (  # as numba does, which does not trust it there
            {"NUMBA_CPU_NAME": "nocona"},
            {"avx2": True, "f16c": True, "sse2": True},
            {"avx2": False, "f16c": False, "sse2": True},
        ),
        ({"NUMBA_CPU_NAME": "ivybridge", "NUMBA_ENABLE_AVX": "1"}, {"avx": True}, {"avx": True}),
    ],
)
def test_features(
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    found: dict[str, bool],
    features: dict[str, bool],
) -> None:
    """Variables that tell numba its target decide the allowed features."""
    for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert processors.allowed_features(found) == features
    if not environment:
        assert not processors.allowed_features(found, "sandybridge")["avx2"]
