"""What the rewrites of statements share: temporaries, names, and statements made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tc.dtypes import FLOAT32
from tc.polyhedral.rewrite.factoring import divide_last, factor
from tc.polyhedral.rewrite.product_order import OrderCosts
from tc.polyhedral.rewrite.rewriting import Rewriting
from tc.polyhedral.rewrite.splitting import split
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.semantics.program import Binary, Convert, Read, ShapedProgram, ShapedStatement, walk
from tc.semantics.reference.interpreter import interpret
from tests.polyhedral import builders
from tests.support.rewrites import assert_consistent
from tests.support.sizes_of_call import shape

SUM = "def f(float(N,K) a, float(N) b) -> (o, p) { o(n) +=! a(n,k) * b(n)  p(n) = o(n) }"


def test_a_stored_sum_and_what_remains() -> None:
    program = shape(SUM, N=3, K=5)
    rewriting = Rewriting(program, "taken")
    old, made = program.statements[0], list[ShapedStatement]()
    product = old.statement.rhs
    assert isinstance(product, Binary)

    def change(each: ShapedStatement) -> list[ShapedStatement] | None:
        if each is not old:
            return None
        part, read = rewriting.store(old, product.left, ("n",), ("k",), name="x", kind="y")
        rest = Binary("*", read, product.right, FLOAT32, span=product.span)
        made.extend([part, rewriting.remaining(old, rest, {"n"})])
        return made

    found = rewriting.program(change)
    assert found.statements == (*made, program.statements[1])
    assert [s.text for s in found.program.statements] == [
        "o.y0(n) +=! a(n, k)",
        "o(n) = o.y0(n) * b(n)",
        "p(n) = o(n)",
    ]
    assert [s.name for s in found.program.statements] == ["S0.x", "S0", "S1"]
    assert found.program.statements[0].span.source.name == f"taken from {old.statement.span}"
    assert (found.shapes["o.y0"], found.program.temporaries) == ((3,), ("o.y0",))
    assert_consistent(found)


def test_nothing_stored_is_the_same_program() -> None:
    program = shape(SUM, N=3, K=5)
    assert Rewriting(program, "taken").program(lambda _: None) is program


def test_several_temporaries_have_names_and_sites_of_their_own() -> None:
    program = shape(SUM, N=3, K=5)
    old = program.statements[0]
    rewriting = Rewriting(program, "taken")
    stored = [
        rewriting.store(old, old.statement.rhs, ("n",), ("k",), name=name, kind="y")
        for name in "ab"
    ]
    assert [read.tensor for _, read in stored] == ["o.y0", "o.y1"]
    sites = [n.site for s in program.program.statements for n in walk(s.rhs) if isinstance(n, Read)]
    new = [read.site for _, read in stored]
    assert len({*sites, *new}) == len(sites) + 2


def test_temporaries_have_the_type_of_computation() -> None:
    text = "def f(half(N) a) -> (half(N) o) { o(n) = a(n) * a(n) }"
    old = (program := shape(text, N=3)).statements[0]
    operand = next(e for e in walk(old.statement.rhs) if isinstance(e, Convert))
    rewriting = Rewriting(program, "taken")
    _, wide = rewriting.store(old, operand, ("n",), name="x", kind="x")
    assert wide.dtype == FLOAT32


def subscripted() -> ShapedProgram:
    """A statement on an element with an offset, as those made from concat are."""
    term = builders.binary("/", builders.read("a", "i", "k", "j"), builders.read("b", "i"))
    places = (builders.offset("i", 2),)
    update = builders.statement("s", "i", term, op="+", continues="caller", places=places)
    tensors = {
        "a": ("input", FLOAT32, (3, 4, 5)),
        "b": ("input", FLOAT32, (3,)),
        "s": ("output", FLOAT32, (6,)),
    }
    return builders.shaped(tensors, (update, {"i": (0, 3), "k": (0, 4), "j": (0, 5)}))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("split", ["s.p0(i, k) +=! a(i, k, j) / b(i)", "s(i + 2) += s.p0(i, k)"]),
        ("divide", ["s.q0(i) +=! a(i, k, j)", "s(i + 2) += s.q0(i) / b(i)"]),
    ],
)
def test_subscripts_with_an_offset(name: str, expected: list[str]) -> None:
    program = subscripted()
    limits = Thresholds(parts=1, left=1, long=1)
    found = split(program, limits) if name == "split" else divide_last(program)
    assert [s.text for s in found.program.statements] == expected
    rng = np.random.default_rng(1)
    arrays = {n: rng.uniform(1, 2, s).astype(np.float32) for n, s in program.shapes.items()}
    given = {"s": arrays.pop("s")}
    want, got = (interpret(p, arrays, given)["s"] for p in (program, found))
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_one_rewrite_after_the_other() -> None:
    """As in lowering: the sum that was divided is split, and names stay apart."""
    text = "def f(float(N,I,J) x, float(N) y) -> (o) { o(n) +=! x(n,i,j) * y(n) / 7.0 }"
    program = shape(text, N=2, I=200, J=200)
    found = split(factor(divide_last(program), OrderCosts(gain=1, moved=0, statement=0)))
    assert [f"{s.name}: {s.text}" for s in found.program.statements] == [
        "S0.sum.a.part: o.q0.t0.p0(n, i) +=! x(n, i, j)",
        "S0.sum.a: o.q0.t0(n) +=! o.q0.t0.p0(n, i)",
        "S0.sum: o.q0(n) = o.q0.t0(n) * y(n)",
        "S0: o(n) = o.q0(n) / 7.0",
    ]
    assert_consistent(found)
