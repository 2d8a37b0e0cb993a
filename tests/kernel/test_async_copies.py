"""Copies that run while threads go on: what `evaluate` makes of them, and each promise broken once,
by a kernel that is right otherwise; and the rules of `verify`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tc.dtypes import FLOAT16, FLOAT32, INT64
from tc.errors import InternalError
from tc.kernel.evaluate import evaluate
from tc.kernel.folding import compare, constant, integer
from tc.kernel.ir import (
    Barrier,
    Buffer,
    Commit,
    CopyAsync,
    Expr,
    For,
    Grid,
    If,
    Kernel,
    LaunchIndex,
    Load,
    Stmt,
    Store,
    Wait,
    row_major,
)
from tc.kernel.printer import to_text
from tc.kernel.storage import kernel_of, rows_of
from tc.kernel.verify import verify
from tests.support.build import add, dense, loop, times, var

T, B, K = var("t"), var("b"), var("k")
ZERO, ONE = integer(0), integer(1)
THREADS, BLOCKS = 4, 2
ALIGNED = times(T, 2)
BUFFERS = (
    dense("a", FLOAT32, (BLOCKS, 2 * THREADS), "input"),
    dense("h", FLOAT16, (8,), "input"),
    dense("o", FLOAT32, (BLOCKS, THREADS), "output"),
    dense("w", FLOAT32, (BLOCKS, 2 * THREADS), "temporary"),
    dense("s", FLOAT32, (2 * THREADS,), "shared"),
    dense("u", FLOAT32, (2 * THREADS,), "shared"),
    dense("i", INT64, (8,), "shared"),
    dense("p", FLOAT32, (8,), "scratch"),
)
COPY = CopyAsync("s", (ALIGNED,), "a", (B, ALIGNED), 2)
COMMIT, WAIT, BARRIER = Commit(), Wait(), Barrier()
NEXT = If(
    compare("<", T, integer(3), {}),
    (Store("o", (B, T), Load("s", (add(ALIGNED, integer(3)),), FLOAT32)),),
    (Store("o", (B, T), Load("s", (ONE,), FLOAT32)),),
)
"""A thread reads what the next thread has copied."""
OWN = Store("o", (B, T), Load("s", (ALIGNED,), FLOAT32))


def kernel(*body: Stmt, buffers: tuple[Buffer, ...] = BUFFERS) -> Kernel:
    grid = Grid((LaunchIndex("b", BLOCKS),), (LaunchIndex("t", THREADS),), body)
    return Kernel("k", buffers, ((grid,),))


def run(*body: Stmt) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    made = kernel(*body)
    verify(made)
    assert kernel_of(rows_of(made)) == made
    a = np.arange(1, 17, dtype=np.float32).reshape(2, 8)
    o = np.full((2, 4), np.nan, np.float32)
    evaluate(made, {"a": a, "h": np.zeros(8, np.float16), "o": o})
    return o


def test_others_see_what_was_copied_behind_a_barrier() -> None:
    found = run(COPY, COMMIT, WAIT, BARRIER, NEXT)
    assert found.tolist() == [[4, 6, 8, 2], [12, 14, 16, 10]]


def test_a_thread_sees_its_own_copies_without_a_barrier() -> None:
    assert run(COPY, COMMIT, WAIT, OWN).tolist() == [[1, 3, 5, 7], [9, 11, 13, 15]]


def test_zeros_are_copied_where_the_condition_is_false() -> None:
    """The source is out of bounds there."""
    inside = compare("<", T, integer(2), {})
    beyond = add(ALIGNED, integer(4))
    copy = replace(COPY, source_indices=(B, beyond), condition=inside)
    assert run(copy, COMMIT, WAIT, BARRIER, OWN).tolist() == [[5, 7, 0, 0], [13, 15, 0, 0]]


def test_single_elements() -> None:
    """Of tensors without dimensions."""
    one, near = dense("a", FLOAT32, (), "input"), dense("s", FLOAT32, (), "shared")
    first = compare("==", T, ZERO, {})
    copy = If(first, (CopyAsync("s", (), "a", ()), COMMIT, WAIT))
    use = Store("o", (B, T), Load("s", (), FLOAT32))
    made = kernel(copy, BARRIER, use, buffers=(one, BUFFERS[2], near))
    verify(made)
    o = np.full((2, 4), np.nan, np.float32)
    evaluate(made, {"a": np.array(5, np.float32), "o": o})
    assert o.tolist() == [[5] * 4] * 2


def test_of_several_groups_the_first_arrive() -> None:
    other = replace(COPY, buffer="u")
    found = run(COPY, COMMIT, other, COMMIT, Wait(1), BARRIER, NEXT, WAIT)
    assert found.tolist() == [[4, 6, 8, 2], [12, 14, 16, 10]]


def test_an_empty_group_counts() -> None:
    assert run(COPY, COMMIT, COMMIT, Wait(1), OWN).tolist() == [[1, 3, 5, 7], [9, 11, 13, 15]]


def test_text() -> None:
    copy = replace(COPY, condition=compare("<", T, ONE, {}))
    text = to_text(kernel(copy, COMMIT, Wait(2), WAIT))
    assert text.splitlines()[-4:] == [
        "    copy s[t * 2] = 2 of a[b, t * 2] if t < 1",
        "    commit",
        "    wait for all but 2",
        "    wait for all",
    ]


IN_FLIGHT = "is copied, and not waited for"
WRONG: dict[str, tuple[tuple[Stmt, ...], str]] = {
    "read by its thread": ((COPY, COMMIT, OWN, WAIT), f"s[0] {IN_FLIGHT}"),
    "waited for, and in no group": ((COPY, WAIT, OWN, COMMIT, WAIT), f"s[0] {IN_FLIGHT}"),
    "waited for one group too few": ((COPY, COMMIT, Wait(1), OWN, WAIT), f"s[0] {IN_FLIGHT}"),
    "read by another": ((COPY, COMMIT, BARRIER, NEXT, WAIT), f"s[3] {IN_FLIGHT}"),
    "read without a barrier": (
        (COPY, COMMIT, WAIT, NEXT),
        "race at s[3]: thread (1) writes it, with no barrier between",
    ),
    "written": (
        (COPY, COMMIT, Store("s", (ALIGNED,), constant(0.0, FLOAT32)), WAIT),
        f"s[0] {IN_FLIGHT}",
    ),
    "copied twice": ((COPY, COMMIT, COPY, COMMIT, WAIT), f"s[0] {IN_FLIGHT}"),
    "copied where another has read": (
        (COPY, COMMIT, WAIT, BARRIER, NEXT, COPY, COMMIT, WAIT),
        "race at s[1]: thread (3) reads it, with no barrier between",
    ),
    "never waited for": ((COPY, COMMIT, Store("o", (B, T), constant(0.0, FLOAT32))), IN_FLIGHT),
    "source written": (
        (
            Store("w", (B, T), constant(1.0, FLOAT32)),
            CopyAsync("s", (T,), "w", (B, T)),
            COMMIT,
            Store("w", (B, T), constant(2.0, FLOAT32)),
            WAIT,
        ),
        "w[0, 0] is written while it is copied",
    ),
    "source not written": ((CopyAsync("s", (T,), "w", (B, T)), COMMIT, WAIT), "w[0, 0] before any"),
    "from no multiple": (
        (replace(COPY, source_indices=(B, T)), COMMIT, WAIT),
        "a[0, 1] is at no multiple of 2 elements",
    ),
    "to no multiple": (
        (replace(COPY, indices=(T,)), COMMIT, WAIT),
        "s[1] is at no multiple of 2 elements",
    ),
    "from beyond": (
        (replace(COPY, source_indices=(B, add(ALIGNED, integer(2)))), COMMIT, WAIT),
        "a[0, 8] is outside of shape [2, 8]",
    ),
    "to beyond": (
        (replace(COPY, indices=(add(ALIGNED, integer(2)),)), COMMIT, WAIT),
        "s[8] is outside of shape [8]",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_promises(name: str) -> None:
    body, reason = WRONG[name]
    with pytest.raises(InternalError) as error:
        run(*body)
    assert reason in str(error.value)


def reached(change: Callable[[CopyAsync], CopyAsync]) -> str:
    """Why a kernel is ill-formed in which one copy was changed."""
    with pytest.raises(InternalError) as error:
        verify(kernel(change(COPY), COMMIT, WAIT))
    return str(error.value).rpartition(": ")[2]


def at(name: str, *places: Expr) -> Callable[[CopyAsync], CopyAsync]:
    return lambda copy: replace(copy, source=name, source_indices=places)


RULES: dict[str, Callable[[CopyAsync], CopyAsync]] = {
    "'p' is not shared": lambda copy: replace(copy, buffer="p"),
    "'u' is private, and copied": at("u", T),
    "'s' is float32, not float16": at("h", T),
    "12 bytes are copied at once": lambda copy: replace(copy, count=3),
    "32 bytes are copied at once": lambda copy: replace(copy, count=8),
    "1 indices for rank 2": at("a", T),
    "unknown buffer 'z'": at("z", T),
    "the condition is int64, not bool": lambda copy: replace(copy, condition=T),
}


@pytest.mark.parametrize("reason", RULES)
def test_rules(reason: str) -> None:
    assert reached(RULES[reason]) == reason


def test_copies_are_of_a_grid() -> None:
    copy = replace(COPY, indices=(ZERO,), source_indices=(ZERO, ZERO))
    for stmt, reason in ((copy, "used outside of a grid"), (COMMIT, "no grid"), (WAIT, "no grid")):
        with pytest.raises(InternalError, match=reason):
            verify(Kernel("k", BUFFERS, ((stmt,),)))


def test_groups_are_counted() -> None:
    with pytest.raises(InternalError, match="-1 groups are left"):
        verify(kernel(Wait(-1)))


def test_rows_have_neighbours_in_memory() -> None:
    across = Buffer("a", FLOAT32, (2, 8), (1, 2), "input")
    with pytest.raises(InternalError, match="the last dimension of 'a' has no neighbours"):
        verify(kernel(COPY, COMMIT, WAIT, buffers=(across, *BUFFERS[1:])))


def test_a_half_is_not_copied_alone() -> None:
    halves = Buffer("s", FLOAT16, (8,), (1,), "shared")
    copy = CopyAsync("s", (T,), "h", (T,))
    with pytest.raises(InternalError, match="2 bytes are copied at once"):
        verify(kernel(copy, buffers=(*BUFFERS[:4], halves)))


def test_stages_are_of_shared_memory() -> None:
    shape = (2, 8)
    for role, stages in (("scratch", 2), ("shared", 3), ("shared", 0)):
        buffer = Buffer("z", FLOAT32, shape, row_major(shape), role, stages=stages)
        with pytest.raises(InternalError, match=f"{stages} stages"):
            verify(Kernel("k", (*BUFFERS, buffer), ()))


def test_copies_in_a_loop_arrive_in_order() -> None:
    """What is used was copied two iterations before."""
    begin = CopyAsync("s", (times(T, 1),), "a", (ZERO, T))
    body = loop("k", 3, replace(begin, source_indices=(ZERO, add(T, K))), COMMIT, WAIT, BARRIER)
    assert isinstance(body, For)
    assert run(body, Store("o", (B, T), Load("s", (T,), FLOAT32))).tolist() == [[3, 4, 5, 6]] * 2
