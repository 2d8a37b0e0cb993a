"""0.18: a first call takes time in proportion to the statements of a program."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tc
from tc.backends import registry
from tc.backends.base import Backend
from tc.polyhedral.strategies.clusters import MOST_FUSED
from tests.support.bounds import assert_computes

CHAIN = ("t0(i) = x(i) + 1", "t{0}(i) = t{1}(i) * 0.5 + x(i)", "t{1}")
PROGRAMS: dict[str, tuple[str, str, str]] = {
    "each reads the last": CHAIN,
    "each reads its neighbours": ("t0(i) = x(i)", "t{0}(i) = t{1}(i) + t{1}(i+1)", "t{1}"),
    "one tensor": ("t(i) = x(i)", "t(i) += x(i) * {0}", "t"),
    "sums": ("t0 +=! x(i)", "t{0} +=! x(i) * t{1}", "t{1}"),
}
"""The first statement, the others with their number and that of the last, and what is returned."""


def program(kind: tuple[str, str, str], count: int) -> str:
    first, other, result = kind
    lines = [first, *(other.format(k, k - 1) for k in range(1, count))]
    returned = result.format(count, count - 1)
    return f"def f(float(N) x) -> ({returned}) {{ {'  '.join(lines)} }}"


def calls_of(work: Callable[[], Any]) -> int:
    """The calls of functions of Python while it works: their number does not depend on what else
    a machine does."""
    count = 0

    def called(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("each reads the last", MOST_FUSED),
        ("each reads its neighbours", MOST_FUSED),
        ("one tensor", 2 * MOST_FUSED),
        ("sums", 12),
    ],
)
def test_work_is_linear_in_statements(name: str, count: int) -> None:
    """All stages but the compilers: three times the statements, three times the calls. (A square
    would be nine times.) The smaller program has whole groups of those that share loops."""
    few, many = (program(PROGRAMS[name], count * times) for times in (1, 3))
    tc.emit(program(PROGRAMS[name], 3), N=300)  # what is made once in a process
    work = [calls_of(lambda text=text: tc.emit(text, N=300)) for text in (few, many)]
    assert work[1] < 4 * work[0]


@pytest.mark.parametrize("backend", ["numba", "c", "interpret"])
def test_a_thousand_statements(backend: str) -> None:
    """Of one tensor: their boxes were subtracted from each other 1,000 generators deep."""
    if backend not in registry.usable_names():
        pytest.skip(f"backend {backend} is not usable here")
    found = registry.get(backend)
    text = program(("t(i) = x(i)", "t(i) += {0}", "t"), 1000)
    if isinstance(found, Backend):
        assert str(tc.emit(text, N=3, backend=backend)).count("+") > 900
    else:
        result = tc.compile(text, backend=backend)(np.zeros(3, np.float32))
        np.testing.assert_array_equal(result, np.full(3, 999 * 1000 / 2, np.float32))


@pytest.mark.parametrize("backend", ["numba", "c"])
def test_what_shares_loops_no_more_has_its_values(backend: str) -> None:
    """Chains of just as many statements as share loops, and of one more, in three parts."""
    if backend not in registry.usable_names():
        pytest.skip(f"backend {backend} is not usable here")
    x = np.linspace(-1, 1, 37).astype(np.float32)
    for count in (MOST_FUSED, MOST_FUSED + 1, 2 * MOST_FUSED + 1):
        due = x.astype(np.float64) + 1
        for _ in range(1, count):
            due = due * 0.5 + x
        text = program(CHAIN, count)
        assert_computes(text, [x], tc.compile(text, backend=backend)(x), due)
