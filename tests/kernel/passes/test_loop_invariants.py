"""Calls that no iteration changes are made before the loop, and only these."""

from __future__ import annotations

import pytest
from hypothesis import given

from tc.dtypes import BOOL, FLOAT32, INT64
from tc.kernel.folding import integer, select
from tc.kernel.ir import (
    Binary,
    Broadcast,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Fail,
    For,
    If,
    Kernel,
    Let,
    Load,
    Logical,
    Ramp,
    Set,
    Site,
    Stmt,
    Store,
    Var,
)
from tc.kernel.passes.value_numbering import hoist_invariant_calls
from tests.kernel.marked import assert_same, lines
from tests.kernel.marked_strategies import marked_kernels
from tests.support.build import add, dense, less, loop, var

I, J = var("i"), var("j")  # noqa: E741
BUFFERS = (
    dense("x", FLOAT32, (8,), "input"),
    dense("o", FLOAT32, (8,), "output"),
    dense("s", FLOAT32, (8,), "scratch"),
)
SITES = (Site("division", 0, 0, ("i",)),)


def x(index: Expr | int = 0, name: str = "x") -> Load:
    return Load(name, (integer(index) if isinstance(index, int) else index,), FLOAT32)


def local(name: str) -> Var:
    return Var(name, FLOAT32)


def call(function: str, *args: Expr) -> Call:
    return Call(function, args, FLOAT32)


def plus(left: Expr, right: Expr) -> Binary:
    return Binary("+", left, right, FLOAT32)


def store(value: Expr, index: Expr = I) -> Store:
    return Store("o", (index,), value)


def hoisted(*stmts: Stmt) -> list[str]:
    kernel = Kernel("k", BUFFERS, (stmts,), SITES, frozenset("o"))
    return lines(assert_same(kernel, hoist_invariant_calls))


def assert_stays(*stmts: Stmt) -> None:
    kernel = Kernel("k", BUFFERS, (stmts,), SITES, frozenset("o"))
    assert assert_same(kernel, hoist_invariant_calls) == kernel


EXP = call("exp", x())


def test_calls_in_lets_sets_and_stores() -> None:
    total = Let("t", x(1))
    body = (
        Let("y", plus(EXP, x(I))),
        Set("t", plus(local("t"), call("cos", x(2)))),
        store(Binary("*", local("y"), call("sin", x(3)), FLOAT32)),
    )
    assert hoisted(total, loop("i", 3, *body), store(local("t"), integer(5))) == [
        "let t: float32 = x[1]",
        "let exp: float32 = exp(x[0])",
        "let cos: float32 = cos(x[2])",
        "let sin: float32 = sin(x[3])",
        "for i in 0:3",
        "  let y: float32 = exp + x[i]",
        "  t = t + cos",
        "  o[i] = y * sin",
        "o[5] = t",
    ]


def test_equal_calls_are_made_once() -> None:
    assert hoisted(loop("i", 3, store(plus(EXP, EXP)), store(EXP, add(I, integer(3))))) == [
        "let exp: float32 = exp(x[0])",
        "for i in 0:3",
        "  o[i] = exp + exp",
        "  o[i + 3] = exp",
    ]


def test_zeros_of_both_signs_are_not_equal() -> None:
    """0.0 == -0.0, but the angles differ by a half turn."""
    zero = Const(0.0, FLOAT32)
    first, second = (call("atan2", zero, Const(value, FLOAT32)) for value in (0.0, -0.0))
    found = hoisted(loop("i", 3, store(Binary("-", first, second, FLOAT32))))
    assert found[-1] == "  o[i] = atan2 - atan2_1"


def test_calls_in_calls() -> None:
    """As a whole where all of it is the same, else the part that is."""
    whole = loop("i", 3, store(call("sqrt", EXP)))
    assert hoisted(whole)[0] == "let sqrt: float32 = sqrt(exp(x[0]))"
    part = loop("i", 3, store(call("atan2", EXP, x(I))))
    assert hoisted(part) == [
        "let exp: float32 = exp(x[0])",
        "for i in 0:3",
        "  o[i] = atan2(exp, x[i])",
    ]


def test_out_of_several_loops() -> None:
    found = hoisted(loop("j", 2, loop("i", 3, store(plus(EXP, call("cos", x(J)))))))
    assert found == [
        "let exp_1: float32 = exp(x[0])",
        "for j in 0:2",
        "  let exp: float32 = exp_1",
        "  let cos: float32 = cos(x[j])",
        "  for i in 0:3",
        "    o[i] = exp + cos",
    ]


def test_in_branches_only_out_of_the_loops_inside() -> None:
    inside = If(less(J, 1), (loop("i", 3, store(EXP)),))
    found = hoisted(loop("j", 2, inside))
    assert found[1:3] == ["  if j < 1", "    let exp: float32 = exp(x[0])"]


def test_names_that_are_taken() -> None:
    found = hoisted(Let("exp", x(1)), loop("i", 3, store(plus(EXP, local("exp")))))
    assert found[1] == "let exp_1: float32 = exp(x[0])"


def test_vectors() -> None:
    wide = FLOAT32.vector(4)
    places = (Ramp(I, 1, INT64.vector(4)),)
    spread = Call("exp", (Broadcast(x(), wide),), wide)
    value = Binary("+", spread, Load("x", places, wide), wide)
    found = hoisted(loop("i", 3, Store("o", places, value)))
    assert found[0] == "let exp: float32x4 = exp(float32x4(x[0]))"
    mask = Compare(
        "<", Ramp(integer(0), 1, INT64.vector(4)), Broadcast(I, INT64.vector(4)), BOOL.vector(4)
    )
    masked = Call("exp", (Load("x", (Ramp(integer(0), 1, INT64.vector(4)),), wide, mask),), wide)
    assert_stays(loop("i", 3, Store("o", places, masked)))


STAY: dict[str, tuple[Stmt, ...]] = {
    "the loop variable": (loop("i", 3, store(call("exp", x(I)))),),
    "a local of the body": (loop("i", 3, Let("y", x(I)), store(call("exp", local("y")))),),
    "a local that the body sets": (
        Let("t", x(0)),
        loop("i", 3, store(call("cos", local("t"))), Set("t", plus(local("t"), x(I)))),
    ),
    "a local that a block inside sets": (
        Let("t", x(0)),
        loop(
            "i",
            3,
            If(less(I, 1), (Set("t", x(I)),)),
            store(call("cos", local("t"))),
        ),
    ),
    "memory that the body writes": (loop("i", 3, store(call("exp", x(2, "o")))),),
    "memory that a loop inside writes": (
        loop(
            "i",
            3,
            store(call("exp", x(2, "o"))),
            loop("j", 3, store(x(J), J)),
        ),
    ),
    "scratch that the body fills": (
        loop("i", 3, Store("s", (integer(0),), x(I)), store(call("exp", x(0, "s")))),
    ),
    "a loop without iterations": (For("i", integer(2), integer(2), (store(EXP),)),),
    "a loop that may have no iterations": (
        For("i", integer(0), Cast(x(0), INT64), (store(EXP, integer(0)),)),
    ),
    "what a branch does": (loop("i", 3, If(less(I, 1), (store(EXP),))),),
    "a branch of a select": (loop("i", 3, store(select(less(I, 1), EXP, x(I)))),),
    "what decides only sometimes": (
        loop(
            "i",
            3,
            Let(
                "b",
                Logical("&&", (less(I, 1), Compare("<", EXP, x(1)))),
            ),
            If(Var("b", BOOL), (store(x(I)),)),
        ),
    ),
    "a parallel loop": (loop("i", 3, store(EXP), parallel=True),),
    "no call": (loop("i", 3, store(plus(x(0), x(1)))),),
}


@pytest.mark.parametrize("name", STAY)
def test_what_stays(name: str) -> None:
    assert_stays(*STAY[name])


def test_loads_out_of_bounds_of_a_loop_without_iterations() -> None:
    """What would read beyond x is never evaluated, before or after."""
    beyond = For("i", integer(5), integer(5), (store(call("exp", x(99))),))
    assert_stays(beyond)


def test_failures_stay_first() -> None:
    """The check comes before what it guards; a call after it is made all the same."""
    check = If(less(I, 2), (Fail(0, (I,)),))
    found = hoisted(loop("i", 3, check, store(EXP)))
    assert found[0] == "let exp: float32 = exp(x[0])"
    assert [line.strip() for line in found[1:4]] == ["for i in 0:3", "if i < 2", "fail 0 (i)"]


@given(marked_kernels())
def test_random_kernels_stay_the_same(made: tuple[Kernel, tuple[str, ...]]) -> None:
    assert_same(made[0], hoist_invariant_calls)
