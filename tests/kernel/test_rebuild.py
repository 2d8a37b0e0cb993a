"""The one way to rebuild: what is left alone is the same object, and no field is lost."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args

import pytest

from tc.dtypes import BOOL, FLOAT32, FLOAT64, INT64
from tc.errors import InternalError
from tc.kernel import ir
from tc.kernel.folding import integer, ramp
from tc.kernel.ir import (
    Atomic,
    Barrier,
    Binary,
    Comment,
    Commit,
    Const,
    CopyAsync,
    Expr,
    Fail,
    For,
    Grid,
    If,
    Kernel,
    LaunchIndex,
    Let,
    Load,
    Prefetch,
    Set,
    Stmt,
    Store,
    Var,
    Wait,
    WarpMultiply,
    statements,
)
from tc.kernel.pass_manager import PassContext
from tc.kernel.passes.pass_list import PASSES
from tc.kernel.rebuild import (
    Scope,
    changed,
    map_blocks,
    map_expressions,
    map_regions,
    map_statements,
    same_or,
)
from tc.kernel.verify import Verified, verify
from tests.support.build import dense, loop, times, var

ONE, TWO = integer(1), integer(2)
V, LANES = FLOAT32.vector(16), ramp(integer(0), 1, 16)
NODES: tuple[Stmt, ...] = (
    For("i", ONE, ONE, (Comment("a"),), parallel=True, mark="lines"),
    If(Var("b", BOOL), (Comment("a"),), (Comment("b"),), rare=True),
    Let("x", ONE),
    Set("x", ONE),
    Store("o", (ONE, ONE), ONE, Var("b", BOOL), non_temporal=True),
    Prefetch("o", (ONE, ONE)),
    Fail(3, (ONE, ONE)),
    Atomic("s", (ONE,), "+", ONE),
    CopyAsync("s", (ONE,), "o", (ONE,), 4, Var("b", BOOL)),
    Commit(),
    Wait(1),
    Comment("a"),
    Grid((LaunchIndex("bx", 3),), (LaunchIndex("tx", 4),), (Comment("a"), Barrier())),
    Barrier(),
    WarpMultiply(("x",) * 4, (ONE,), (ONE, ONE), (0, 1), (0, 1)),
)
BLOCKS = ("body", "then", "otherwise")
EXPRESSIONS = (
    "begin", "end", "condition", "value", "indices", "mask", "values", "source_indices", "left",
    "right",
)  # fmt: skip


def values(stmt: Stmt, *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    return {f.name: getattr(stmt, f.name) for f in fields(stmt) if f.name not in without}


def test_each_statement_is_here() -> None:
    assert {type(node) for node in NODES} == set(get_args(Stmt))
    for node in NODES:
        assert all(value not in ((), "", False, None) for value in values(node).values())


@pytest.mark.parametrize("node", NODES, ids=lambda node: type(node).__name__)
def test_changes_leave_other_fields(node: Stmt) -> None:
    """Whatever fields there will be."""
    in_blocks = map_blocks(node, lambda block: (*block, Comment("new")))
    assert values(in_blocks, without=BLOCKS) == values(node, without=BLOCKS)
    assert (in_blocks is node) == (not isinstance(node, For | If | Grid))
    in_expressions = map_expressions(node, lambda e: Var("new", e.dtype))
    assert values(in_expressions, without=EXPRESSIONS) == values(node, without=EXPRESSIONS)
    assert all(isinstance(e, Var) and e.name == "new" for e in ir.own_expressions(in_expressions))
    assert len(ir.own_expressions(in_expressions)) == len(ir.own_expressions(node))


@pytest.mark.parametrize("node", NODES, ids=lambda node: type(node).__name__)
def test_what_is_not_changed_is_the_same_object(node: Stmt) -> None:
    kernel = Kernel("k", (), ((node,), ()))
    assert map_blocks(node, lambda block: same_or(block, list(block))) is node
    assert map_expressions(node, lambda e: e) is node
    assert map_regions(kernel, lambda r: map_statements(r, lambda stmt: (stmt,))) is kernel
    assert changed(node, **values(node)) is node


def test_statements_become_none_or_several() -> None:
    assert map_statements(NODES, lambda _: ()) == ()
    twice = map_statements(NODES, lambda stmt: (stmt, stmt))
    assert twice == tuple(stmt for stmt in NODES for _ in range(2))


@pytest.mark.parametrize("each", PASSES, ids=lambda each: each.name)
def test_passes_keep_hints(each: Any) -> None:
    """Whatever a pass does around and in them."""
    i, v = var("i"), Var("v", V)
    place = (i, LANES)
    rare = If(
        Load("b", (i,), BOOL),
        (
            Store("o", place, v, non_temporal=True),
            loop("u", 2, Store("p", (times(var("u"), 2),), Const(1.0, FLOAT32)), mark="unroll"),
            loop("l", 4, Store("p", (var("l"),), Const(2.0, FLOAT32)), mark="vector"),
        ),
        rare=True,
    )
    start = Let("v", Const(0.0, V))
    outer = loop("i", 8, start, Set("v", Load("a", place, V)), rare, parallel=True)
    buffers = (
        dense("a", FLOAT32, (8, 16), "input"),
        dense("b", BOOL, (8,), "input"),
        dense("o", FLOAT32, (8, 16), "output"),
        dense("p", FLOAT32, (8,), "scratch"),
    )
    kernel = Kernel("k", buffers, ((outer,),))
    verify(kernel)
    for bits in (0, 512):
        context = PassContext(lanes_bits=bits, fma=True, l2=1, shared_cache=1)
        made = each.run(kernel, context)
        verify(made)
        inside = [stmt for region in made.regions for stmt in statements(region)]
        assert [stmt.rare for stmt in inside if isinstance(stmt, If)] == [True]
        stores = [s for s in inside if isinstance(s, Store) and s.buffer == "o"]
        assert [store.non_temporal for store in stores] == [True]
        assert any(isinstance(stmt, For) and stmt.parallel for stmt in inside)


# --- what verify remembers ----------------------------------------------------------------------


def kernel_of(*stmts: Stmt) -> Kernel:
    buffers = (dense("a", FLOAT32, (4,), "input"), dense("o", FLOAT32, (4,), "output"))
    return Kernel("k", buffers, (stmts,))


def stored(value: Expr) -> Store:
    return Store("o", (ONE,), value)


def test_verified_expressions_are_looked_at_for_their_variables_again() -> None:
    x = Var("x", FLOAT32)
    half, verified = changed(stored(x), value=Load("a", (ONE,), FLOAT32)), Verified()
    verify(kernel_of(half, Let("x", Const(1.0, FLOAT32)), stored(x)), verified)
    with pytest.raises(InternalError, match="'x' is not declared here"):
        verify(kernel_of(half, stored(x)), verified)
    with pytest.raises(InternalError, match="'x' is float64, not float32"):
        verify(kernel_of(Let("x", Const(1.0, FLOAT64)), stored(x)), verified)


def test_nothing_is_verified_for_other_buffers() -> None:
    kernel, verified = kernel_of(stored(Load("a", (ONE,), FLOAT32))), Verified()
    square = dense("a", FLOAT32, (4, 4), "input")
    verify(kernel, verified)
    with pytest.raises(InternalError, match="1 indices for rank 2"):
        verify(changed(kernel, buffers=(square, *kernel.buffers[1:])), verified)


def test_a_verified_block_is_looked_at_again_where_other_things_are_around() -> None:
    """The same block is well formed in one kernel, and not in the next: of each rule that asks for
    what is around."""
    set_x, here = ir.Set("x", ONE), Let("x", ONE)
    inner = For("i", ONE, ONE, (set_x,))
    shadows, kernel = For("j", ONE, ONE, (Let("i", ONE),)), kernel_of
    elsewhere = For("j", ONE, ONE, (here,))
    other_type = For("i", ONE, ONE, (Let("x", Const(1.0, FLOAT32)),))
    cases = (
        (kernel(here, inner), kernel(For("i", ONE, ONE, (here,)), inner), "'x' is not declared"),
        (
            kernel(here, inner),
            kernel(here, changed(inner, parallel=True)),
            "no local that may be set here",
        ),
        (kernel(shadows), kernel(For("i", ONE, ONE, (shadows,))), "'i' shadows a name"),
        (kernel(other_type), kernel(elsewhere, other_type), "'x' is int64 elsewhere"),
        (kernel(other_type), kernel(other_type, here), "'x' is float32 elsewhere"),
    )
    for well_formed, not_so, text in cases:
        verified = Verified()
        verify(well_formed, verified)
        verify(well_formed, verified)
        with pytest.raises(InternalError, match=text):
            verify(not_so, verified)


def test_one_variable_of_two_types_in_an_expression() -> None:
    mixed = Binary("+", Load("a", (Var("x", INT64),), FLOAT32), Var("x", FLOAT32), FLOAT32)
    with pytest.raises(InternalError, match="'x' is int64 and float32"):
        verify(kernel_of(Let("x", ONE), stored(mixed)))


# --- scopes -----------------------------------------------------------------------------------

I, X, Y = var("i"), var("x"), var("y")  # noqa: E741


def seen(*block: Stmt, assigned: frozenset[str] = frozenset()) -> dict[str, dict[str, Any]]:
    """What a scope knows at each comment of a block, by its text."""
    found: dict[str, dict[str, Any]] = {}
    scope = Scope(assigned)

    def each(stmt: Stmt) -> tuple[Stmt, ...]:
        if isinstance(stmt, Comment):
            found[stmt.text] = {
                "bounds": dict(scope.bounds),
                "lets": set(scope.lets),
                "names": set(scope.dtypes),
                "loops": len(scope.loops),
            }
        return (scope.map_inside(stmt, each),)

    assert scope.map(block, each) is block
    assert not any((scope.dtypes, scope.bounds, scope.values, scope.lets, scope.loops))
    return found


def test_bounds_end_with_their_blocks() -> None:
    inner = If(Var("b", BOOL), (Let("x", times(I, 2)), Comment("then")), (Comment("else"),))
    found = seen(loop("i", 4, inner, Comment("behind")), Comment("end"))
    assert found["then"]["bounds"] == {"i": (0, 3), "x": (0, 6)}
    assert found["else"]["bounds"] == found["behind"]["bounds"] == {"i": (0, 3)}
    assert found["end"] == {"bounds": {}, "lets": set(), "names": set(), "loops": 0}


def test_numbers_of_blocks_and_threads_are_bounded() -> None:
    launch = Grid((LaunchIndex("bx", 3),), (LaunchIndex("tx", 4),), (Comment("in"),))
    assert seen(launch)["in"]["bounds"] == {"bx": (0, 2), "tx": (0, 3)}


def test_what_changes_has_no_bounds() -> None:
    """A local that is set has no known value, and neither has a local computed from it."""
    lets = Let("x", ONE), Let("y", times(X, 2)), Let("z", Load("a", (ONE,), INT64))
    found = seen(*lets, Comment("end"), assigned=frozenset("x"))["end"]
    assert found["names"] == {"x", "y", "z"}
    assert "x" not in found["bounds"]
    assert found["lets"] == set()


def test_locals_in_loop_variables() -> None:
    scope = Scope(frozenset("s"))
    with scope.inside(loop("i", 4)):
        scope.learn(Let("x", times(I, 2)))
        scope.learn(Let("y", times(X, 3)))
        scope.learn(Let("s", times(Y, 5)))
        scope.learn(Let("z", Load("a", (Y,), INT64)))
        assert scope.in_loop_variables(Y) == times(times(I, 2), 3)
        assert scope.in_loop_variables(var("s")) == var("s")
        assert scope.loop_variables([var("z")]) == {"i"}
        assert scope.loop_variables([ONE]) == frozenset()


def test_whole_blocks_from_inside_out() -> None:
    scope, met = Scope(), list[tuple[int, set[str]]]()

    def change(block: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        met.append((len(scope.loops), set(scope.lets)))
        return (*block, Comment("end"))

    made = scope.map_inside_out((Let("x", ONE), loop("i", 4, Let("y", I))), change)
    assert met == [(1, {"x", "y"}), (0, {"x"})]
    assert made == (
        Let("x", ONE),
        loop("i", 4, Let("y", I), Comment("end")),
        Comment("end"),
    )


def test_loops_since_a_declaration() -> None:
    scope, outer, inner = Scope(), loop("i", 4), loop("j", 5)
    with scope.inside(outer):
        scope.learn(Let("x", I))
        with scope.inside(inner):
            assert scope.loops_since("x") == [inner]
            assert scope.loops_since("j") == []
            assert scope.loops_since("i") == [inner]


def test_the_tables_of_operands_have_every_node() -> None:
    assert set(get_args(ir.Expr)) == {*ir._OPERANDS}
    assert set(get_args(ir.Stmt)) == {*ir._OWN_EXPRESSIONS}
    nested = {
        kind for kind in get_args(ir.Stmt) if {"body", "then"} & {f.name for f in fields(kind)}
    }
    assert nested == {*ir._BLOCKS}
