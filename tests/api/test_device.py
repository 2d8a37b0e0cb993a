"""tc.Device, and what is found out about the host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

import tc
from tc import device


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine of four processors, two a core, described by files."""
    for number, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        topology = tmp_path / f"cpu{number}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(siblings + "\n")
    (tmp_path / "clock").write_text("3000000\n")
    (tmp_path / "info").write_text("processor\t: 0\ncpu MHz\t\t: 2500.5\ncpu MHz\t\t: 2000.0\n")
    monkeypatch.setattr(device, "_PROCESSORS", tmp_path)
    monkeypatch.setattr(device, "_MAX_CLOCK", tmp_path / "clock")
    monkeypatch.setattr(device, "_PROCESSOR_INFO", tmp_path / "info")
    monkeypatch.setattr(device, "_available", lambda: {0, 1, 2, 3})
    monkeypatch.setattr(device, "vector_bits", lambda: 256)
    monkeypatch.setattr(device, "processor_name", lambda: "unknown")
    device.host.cache_clear()
    yield tmp_path
    device.host.cache_clear()


@pytest.mark.usefixtures("machine")
def test_narrow_units_are_known_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert device.host().unit_bits == 0
    monkeypatch.setattr(device, "processor_name", lambda: "znver1")
    device.host.cache_clear()
    host = device.host()
    assert (host.vector_bits, host.unit_bits) == (256, 128)
    assert host.gflops == pytest.approx(3.0 * 4 * 2 * 2 * 2)  # half the lanes in a cycle
    assert host != replace(host, unit_bits=0)
    assert "unit_bits=128" in repr(host)


@pytest.mark.usefixtures("machine")
def test_speeds_are_assumed_from_clock_and_cores() -> None:
    host = device.host()
    assert (host.threads, host.vector_bits) == (4, 256)
    assert host.gflops == pytest.approx(3.0 * 8 * 2 * 2 * 2)  # lanes, units, fma, cores
    assert host.gbytes == 20.0


def test_the_fastest_clock_that_can_be_read(machine: Path) -> None:
    (machine / "clock").unlink()
    assert device.host().gflops == pytest.approx(2.5005 * 8 * 4 * 2)


@pytest.mark.parametrize("text", ["", "cpu MHz : unknown\n"])
def test_an_unknown_clock(machine: Path, text: str) -> None:
    (machine / "clock").write_text("?")
    (machine / "info").write_text(text)
    assert device.host().gflops == 0
    (machine / "info").unlink()
    device.host.cache_clear()
    assert device.host().gflops == 0


def test_unknown_cores_are_threads(machine: Path) -> None:
    (machine / "cpu1" / "topology" / "thread_siblings_list").unlink()
    assert device.host().gbytes == 40.0


def test_speeds_decide_nothing() -> None:
    """Kernels kept for a machine must not depend on the clock of the moment."""
    fast = tc.Device(vector_bits=256, gflops=200.0, gbytes=20.0)
    assert fast == tc.Device(vector_bits=256)
    assert repr(fast) == repr(tc.Device(vector_bits=256))
    assert fast != tc.Device(vector_bits=512)


def describe_caches(machine: Path, number: int, *caches: tuple[int, str, str, str]) -> None:
    """The caches of a processor: level, type, size, and who shares it."""
    for index, (level, kind, size, sharers) in enumerate(caches):
        folder = machine / f"cpu{number}" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        (folder / "level").write_text(f"{level}\n")
        (folder / "type").write_text(f"{kind}\n")
        (folder / "size").write_text(f"{size}\n")
        (folder / "shared_cpu_list").write_text(f"{sharers}\n")


def test_caches_of_all_processors(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_CACHES", machine / "cpu0" / "cache")
    for number, own, all_ in ((0, "0,2", "0,2"), (1, "1,3", "1,3"), (2, "0,2", "0,2")):
        describe_caches(
            machine,
            number,
            (1, "Instruction", "16K", own),
            (1, "Data", "48K", own),
            (2, "Unified", "1024K", own),
            (3, "Unified", "4096K", all_),
        )
    host = device.host()
    assert (host.l1, host.l2, host.l3, host.l3_caches) == (48 << 10, 1 << 20, 4 << 20, 2)
    assert host.shared_cache == 8 << 20
    (machine / "cpu1" / "cache" / "index3" / "shared_cpu_list").unlink()
    device.host.cache_clear()
    assert device.host().l3_caches == 1


@pytest.mark.parametrize("size", ["", "4M", "?K"])
def test_an_unknown_last_cache(machine: Path, monkeypatch: pytest.MonkeyPatch, size: str) -> None:
    """A last cache of unknown size counts as absent, so that no choice depends on it."""
    monkeypatch.setattr(device, "_CACHES", machine / "cpu0" / "cache")
    assert (device.host().l3, device.host().shared_cache) == (0, 0)
    describe_caches(machine, 0, (3, "Unified", size, "0-3"))
    device.host.cache_clear()
    assert device.host().l3 == 0
    assert device.host().l1 == 32 << 10


@pytest.mark.parametrize(
    ("features", "wanted"),
    [
        ({"avx512f": True, "avx512vl": True}, True),
        ({"avx512f": True, "avx512vl": False}, False),
        ({"avx2": True}, False),
        ({}, False),
    ],
)
@pytest.mark.usefixtures("machine")
def test_exponents_need_avx512_of_all_widths(
    features: dict[str, bool], wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "_features", lambda: features)
    assert device.host().exponents == wanted
    assert (device.host() == replace(device.host(), exponents=True)) == wanted


@pytest.mark.parametrize("function", ["exp", "exp2", "exp10", "log", "log2", "log10", "logb"])
@pytest.mark.parametrize("backend", ["numba", "c"])
def test_exponents_choose_the_formula(function: str, backend: str) -> None:
    text = f"def f(float(N) X) -> (Y) {{ Y(i) = {function}(X(i)) }}"

    def emitted(**fields: bool) -> str:
        processor = tc.Device(vector_bits=256, **fields)
        return str(tc.emit(text, {"N": 64}, device=processor, backend=backend))

    words = "(tc_|m\\.)(scaleb|logb|significand)"
    assert re.search(words, emitted(exponents=True))
    assert not re.search(words, emitted())
    assert emitted(exponents=False) == emitted()


def test_explanations_tell_of_exponents() -> None:
    found = tc.explain("def f(float(N) X) -> (Y) { Y(i) = X(i) }", {"N": 64}, device=tc.Device())
    assert "exponents" not in str(found)
    known = tc.Device(exponents=True)
    found = tc.explain("def f(float(N) X) -> (Y) { Y(i) = X(i) }", {"N": 64}, device=known)
    assert "with instructions for exponents" in " ".join(str(found).split())


def test_the_last_caches_decide() -> None:
    assert tc.Device(l3_caches=2) != tc.Device()
    assert "l3_caches=2" in repr(tc.Device(l3_caches=2))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("line", 0, "Device(line=0): it is a number, more than 0\nrepair: Device(line=64)"),
        ("l2", -1, "Device(l2=-1): it is a number, at least 0\nrepair: Device(l2=524288)"),
        ("page", "4k", "Device(page='4k'): it is a number, more than 0\nrepair: Device(page=4096)"),
    ],
)
def test_what_no_processor_has(field: str, value: Any, said: str) -> None:
    with pytest.raises(tc.BackendError) as refused:
        tc.Device(**{field: value})
    assert str(refused.value) == f"BackendError: {said}"
    assert tc.Device(l3=0, l3_caches=0, vector_bits=0).lanes(32) == 1


@pytest.mark.parametrize(
    ("size", "rate"),
    [(1, 32.0), (1 << 20, 32.0), ((1 << 20) + 1, 16.0), (8 << 20, 16.0), ((8 << 20) + 1, 4.0)],
)
def test_data_is_read_from_the_nearest_level_that_holds_it(size: int, rate: float) -> None:
    processor = tc.Device(
        l2=1 << 20,
        l3=8 << 20,
        l3_caches=2,  # a core reads one of them
        l2_bytes_per_cycle=32.0,
        l3_bytes_per_cycle=16.0,
        memory_bytes_per_cycle=4.0,
        threads=2,
    )
    assert processor.read_rate(size) == rate
    assert replace(processor, l3=0).read_rate(size) == (rate if rate == 32.0 else 4.0)


def test_cores_hold_together_in_second_caches_what_they_share() -> None:
    processor = tc.Device(l2=1 << 20, l3=8 << 20, threads=4)
    assert [held for held, _ in processor.levels()] == [1 << 20, 8 << 20, inf]
    assert [held for held, _ in processor.levels(4)] == [4 << 20, 8 << 20, inf]
