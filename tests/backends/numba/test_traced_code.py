"""LLVM's text of traced regions: the metadata, and which loops stay loops."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tc.backends.numba.tracing import MAX_UNROLLED, VectorRegion
from tc.runtime.object_files import parse_module

F32 = np.float32


def text_of(body: Callable[[Any, Any, Any], None]) -> str:
    """The module of a region that does something to a machine, an input and an output."""

    def region(m: Any, arguments: Any, _failure: Any, _part: Any, _parts: Any) -> None:
        body(m, m.read_only(arguments, 0, F32), m.writable(arguments, 1, F32))

    text = VectorRegion(region).traced("region").module()
    parse_module(text)
    return text


def copying(m: Any, a: Any, o: Any) -> None:
    m.store(o, 0, m.load(a, 0, 8))


def streaming(m: Any, a: Any, o: Any) -> None:
    m.stream(o, 0, m.load(a, 0, 8))


def looping(trips: int, vectors: int, read: Callable[[Any, Any, Any], Any]) -> Any:
    """A region that reads `vectors` vectors and stores their sum, `trips` times."""

    def body(m: Any, a: Any, o: Any) -> None:
        for i in m.range(trips):
            total = read(m, a, i * 64)
            for number in range(1, vectors):
                total = total + read(m, a, i * 64 + 8 * number)
            m.store(o, i * 64, total)

    return body


def whole(m: Any, a: Any, place: Any) -> Any:
    return m.load(a, place, 8)


def masked(m: Any, a: Any, place: Any) -> Any:
    return m.load(a, place, 8, m.lanes(range(8)) < m.broadcast(place, 8))


def scalar(m: Any, a: Any, place: Any) -> Any:
    return m.broadcast(m.load(a, place, 1), 8)


BODIES: dict[str, tuple[Callable[[Any, Any, Any], None], int]] = {
    "two kinds of memory": (copying, 7),
    "stores past the caches": (streaming, 8),
    "a loop": (looping(MAX_UNROLLED + 1, MAX_UNROLLED, whole), 9),
}


@pytest.mark.parametrize("name", BODIES)
def test_metadata_is_written_where_it_is_used(name: str) -> None:
    """Counted, and each node is referred to by an instruction or another node."""
    body, count = BODIES[name]
    lines = text_of(body).splitlines()
    nodes = [line.split(" = ")[0] for line in lines if line.startswith("!")]
    assert len(nodes) == count
    for node in nodes:
        others = [line for line in lines if not line.startswith(f"{node} =")]
        assert any(re.search(rf"{node}\b", line) for line in others)


def test_a_region_that_does_nothing_has_no_metadata() -> None:
    assert "!" not in VectorRegion(lambda *_: None).traced("region").module()


@pytest.mark.parametrize("streams", [True, False])
def test_only_streams_end_with_a_fence(streams: bool) -> None:
    assert ("fence" in text_of(streaming if streams else copying)) is streams


CASES = [
    (MAX_UNROLLED + 1, MAX_UNROLLED, whole, True),
    (MAX_UNROLLED, MAX_UNROLLED, whole, False),
    (MAX_UNROLLED + 1, MAX_UNROLLED - 1, whole, False),
    (MAX_UNROLLED + 1, MAX_UNROLLED, masked, True),
    (MAX_UNROLLED + 1, MAX_UNROLLED, scalar, False),
]


@pytest.mark.parametrize(("trips", "vectors", "read", "kept"), CASES)
def test_loops_that_read_many_vectors_stay_loops(
    trips: int, vectors: int, read: Callable[[Any, Any, Any], Any], kept: bool
) -> None:
    assert ("llvm.loop" in text_of(looping(trips, vectors, read))) is kept


def test_what_was_read_before_a_loop_does_not_count() -> None:
    def body(m: Any, a: Any, o: Any) -> None:
        looping(1, MAX_UNROLLED, whole)(m, a, o)
        looping(MAX_UNROLLED + 1, 1, whole)(m, a, o)

    assert "llvm.loop" not in text_of(body)


def test_a_loop_inside_counts() -> None:
    def body(m: Any, a: Any, o: Any) -> None:
        for _ in m.range(MAX_UNROLLED + 1):
            looping(MAX_UNROLLED, MAX_UNROLLED, whole)(m, a, o)

    assert text_of(body).count("llvm.loop ") == 1
