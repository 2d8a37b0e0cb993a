"""Lowering of statements that no short text gives: very deep, very many loops, odd types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tc.dtypes import BOOL, DTYPES, FLOAT16, FLOAT32, FLOAT64, INT8, INT32, INT64, UINT8, DType
from tc.kernel.folding import depth
from tc.kernel.ir import (
    Fail,
    Failure,
    For,
    If,
    Kernel,
    Let,
    Load,
    Set,
    Stmt,
    Store,
    expressions,
)
from tc.polyhedral.codegen.expressions import MAX_DEPTH, MAX_LEVEL, identity
from tc.polyhedral.codegen.generate import MAX_LOOPS
from tc.semantics.program import (
    Compare,
    Convert,
    Expr,
    Literal,
    Logical,
    Select,
    ShapedProgram,
    Size,
)
from tests.polyhedral.builders import (
    SPAN,
    binary,
    index,
    literal,
    lower,
    read,
    run,
    shaped,
    statement,
)

VECTOR = {"a": ("input", FLOAT32, (5,)), "o": ("output", FLOAT32, (5,))}
RNG = np.random.default_rng(0)


def compare(op: str, left: Expr, right: Expr) -> Compare:
    return Compare(op, left, right, span=SPAN)


def convert(operand: Expr, to: str) -> Convert:
    return Convert(operand, DTYPES[to], span=SPAN)


def select(condition: Expr, then: Expr, otherwise: Expr) -> Select:
    return Select(condition, then, otherwise, then.dtype, span=SPAN)


def integers(value: int) -> Literal:
    return literal(value, INT64)


def all_stmts(stmts: tuple[Stmt, ...], level: int = 0) -> Iterator[tuple[Stmt, int]]:
    """Every statement with the number of Ifs around it."""
    for stmt in stmts:
        yield stmt, level
        match stmt:
            case For(body=body):
                yield from all_stmts(body, level)
            case If(then=then, otherwise=otherwise):
                yield from all_stmts((*then, *otherwise), level + 1)


def deepest(kernel: Kernel) -> tuple[int, int]:
    """The depth of the deepest expression and the nesting of Ifs."""
    stmts = [pair for region in kernel.regions for pair in all_stmts(region)]
    exprs = [
        expr
        for stmt, _ in stmts
        for expr in (
            *((stmt.value,) if isinstance(stmt, Let | Set | Store) else ()),
            *((stmt.condition,) if isinstance(stmt, If) else ()),
        )
    ]
    return max(map(depth, exprs)), max(level for _, level in stmts)


# --- deep expressions -------------------------------------------------------------------------


def test_long_sum_is_cut_into_locals() -> None:
    a = RNG.normal(size=5).astype(np.float32)
    rhs: Expr = read("a", "i")
    expected = a.copy()
    for n in range(1, 200):
        rhs = binary("+", rhs, literal(float(n)))
        expected = expected + np.float32(n)
    out, failure, kernel = run(shaped(VECTOR, (statement("o", "i", rhs), {"i": (0, 5)})), a=a)
    assert failure is None
    assert (out["o"] == expected).all()
    assert deepest(kernel)[0] <= MAX_DEPTH + 2


def arms(count: int, *, in_then: bool) -> Expr:
    """`a(i) == 0 ? b(i/1) : a(i) == 1 ? ...`, each read tested; or nested in the other branch."""
    rhs: Expr = literal(-1.0)
    for n in reversed(range(count)):
        wanted = compare("!=" if in_then else "==", read("a", "i"), literal(float(n)))
        gather = read("b", convert(read("a", "i"), "int64"), site=7)
        value = binary("+", gather, literal(float(n)))
        rhs = select(wanted, rhs, value) if in_then else select(wanted, value, rhs)
    return rhs


@pytest.mark.parametrize("in_then", [False, True])
@pytest.mark.parametrize("count", [3, MAX_LEVEL, MAX_LEVEL + 3, 60])
def test_long_chain_of_tested_reads(count: int, in_then: bool) -> None:
    """G7: nested branches with statements stay lazy, and shallow, however long the chain."""
    tensors = {**VECTOR, "b": ("input", FLOAT32, (50,))}
    program = shaped(
        tensors,
        (statement("o", "i", arms(count, in_then=in_then)), {"i": (0, 5)}),
        checked=frozenset((7,)),
    )
    b = RNG.normal(size=50).astype(np.float32)
    a = np.array([0, count - 1, count // 2, -5, count + 10], np.float32)
    inside = (a >= 0) & (a < min(count, 50))
    expected = np.where(inside, b[np.clip(a.astype(int), 0, 49)] + a, np.float32(-1))
    out, failure, kernel = run(program, a=a, b=b)
    wrong = (a >= 50) & (a < count)
    assert failure == (Failure(0, (1, count - 1)) if wrong.any() else None)
    assert (out["o"][~wrong] == expected[~wrong]).all()
    found = deepest(kernel)
    assert found[0] <= MAX_DEPTH + 2
    assert found[1] <= MAX_LEVEL + 2


@pytest.mark.parametrize("count", [2, MAX_LEVEL + 6])
def test_locals_of_a_flat_chain_are_guarded(count: int) -> None:
    """Y6: `i == n ? b(I(i - n)) : ...`, where I has one element, read on that path only."""
    rhs: Expr = literal(-1.0)
    for n in reversed(range(count)):
        place = convert(read("I", binary("-", index("i"), integers(n)), dtype=INT32), "int64")
        value = binary("+", read("b", place, site=7), literal(float(n)))
        rhs = select(compare("==", index("i"), integers(n)), value, rhs)
    tensors = {
        "I": ("input", INT32, (1,)),
        "b": ("input", FLOAT32, (4,)),
        "o": ("output", FLOAT32, (count + 2,)),
    }
    ranges = {"i": (0, count + 2)}
    program = shaped(tensors, (statement("o", "i", rhs), ranges), checked=frozenset((7,)))
    out, failure, _ = run(program, I=[2], b=[0, 0, 0.5, 0])
    assert failure is None
    assert out["o"].tolist() == [n + 0.5 for n in range(count)] + [-1, -1]


def test_deep_pure_chain_stays_lazy() -> None:
    """Y6: the locals of a branch are in the branch: `x(9)` is read nowhere else."""
    rhs: Expr = read("a", integers(9))
    for n in range(30):
        rhs = binary("*", rhs, literal(float(n)))
    guarded = select(compare("<", index("i"), integers(99)), literal(2.0), rhs)
    lazy = select(compare("<", read("a", "i"), literal(9.0)), literal(1.0), rhs)
    for value, result in ((guarded, 2.0), (lazy, 1.0)):
        program = shaped(VECTOR, (statement("o", "i", value), {"i": (0, 5)}))
        out, _, _ = run(program, a=np.zeros(5))
        assert (out["o"] == result).all()


def test_many_loops() -> None:
    names = "abcdefghijklmnopqrstuv"
    assert len(names) > 20
    outer, inner = names[:10], names[10:]
    tensors = {"x": ("input", INT64, (2,) * len(names)), "y": ("output", INT64, (2,) * len(outer))}
    total = statement("y", outer, read("x", *outer, *inner, dtype=INT64), op="+", init=True)
    ranges = dict.fromkeys(names, (0, 2)) | {"c": (1, 2), "m": (1, 2)}
    program = shaped(tensors, (total, ranges))
    kernel = lower(program, {}, initial=frozenset(), check=True)
    loops = [s for s, _ in all_stmts(kernel.regions[0]) if isinstance(s, For)]
    assert MAX_LOOPS < len(loops) <= 2 * MAX_LOOPS
    assert [s.parallel for s in loops] == [True] + [False] * (len(loops) - 1)


def test_joined_loops_count_as_the_plain_ones() -> None:
    names = "abcdefghij"
    extents = (2, 1, 2, 1, 2, 2, 2, 2, 2, 2, 2)[: len(names)]
    x = RNG.integers(0, 9, extents)
    ranges = {name: (0, extent) for name, extent in zip(names, extents, strict=True)}
    tensors = {"x": ("input", INT64, extents), "y": ("output", INT64, extents)}
    program = shaped(tensors, (statement("y", names, read("x", *names, dtype=INT64)), ranges))
    assert (run(program, x=x)[0]["y"] == x).all()


# --- checks (G7, Y4) --------------------------------------------------------------------------


def fails(kernel: Kernel) -> list[Fail]:
    return [s for r in kernel.regions for s, _ in all_stmts(r) if isinstance(s, Fail)]


GATHER = {
    "a": ("input", FLOAT32, (3, 4)),
    "I": ("input", INT32, (5,)),
    "o": ("output", FLOAT32, (5, 4)),
}


def gather(checked: frozenset[int] = frozenset((3,))) -> ShapedProgram:
    place = convert(read("I", "i", dtype=INT32), "int64")
    rhs = read("a", place, "j", site=3)
    return shaped(GATHER, (statement("o", "ij", rhs), {"i": (0, 5), "j": (0, 4)}), checked=checked)


def test_gather_is_tested_where_it_may_fail() -> None:  # G7
    program = gather()
    a = RNG.normal(size=(3, 4)).astype(np.float32)
    good = np.array([2, 0, 1, 1, 2])
    out, failure, kernel = run(program, a=a, I=good)
    assert failure is None
    assert (out["o"] == a[good]).all()
    (fail,) = fails(kernel)
    assert len(fail.values) == 4  # i, j and both subscripts
    assert kernel.sites[0].variables == ("i", "j")


@pytest.mark.parametrize("wrong", [-1, 3, 2**31 - 1])
def test_first_failure_tells_indices_and_subscripts(wrong: int) -> None:
    indices = np.array([2, 0, wrong, 1, -7])
    _, failure, _ = run(gather(), a=np.zeros((3, 4)), I=indices)
    assert failure == Failure(0, (2, 0, wrong, 0))


def test_nothing_is_tested_unless_asked() -> None:
    assert not lower(gather(), {}, initial=frozenset(), check=False).sites
    safe = gather(frozenset())
    assert not lower(safe, {}, initial=frozenset(), check=True).sites


def test_tests_that_hold_by_the_type_vanish() -> None:
    tensors = {"a": ("input", FLOAT32, (256,)), "I": ("input", UINT8, (5,)), "o": VECTOR["o"]}
    place = convert(read("I", "i", dtype=UINT8), "int64")
    program = shaped(
        tensors,
        (statement("o", "i", read("a", place, site=3)), {"i": (0, 5)}),
        checked=frozenset((3,)),
    )
    assert not lower(program, {}, initial=frozenset(), check=True).sites


def test_read_of_an_empty_tensor_always_fails() -> None:
    tensors = {**GATHER, "a": ("input", FLOAT32, (0, 4))}
    place = convert(read("I", "i", dtype=INT32), "int64")
    statements = (statement("o", "ij", read("a", place, "j", site=3)), {"i": (0, 5), "j": (0, 4)})
    program = shaped(tensors, statements, checked=frozenset((3,)))
    _, failure, _ = run(program, a=np.zeros((0, 4)), I=np.zeros(5))
    assert failure == Failure(0, (0, 0, 0, 0))


@pytest.mark.parametrize(("op", "numpy"), [("/", np.floor_divide), ("%", np.remainder)])
def test_division_is_tested(op: str, numpy: np.ufunc) -> None:  # Y4
    tensors = {
        "a": ("input", INT8, (5,)),
        "b": ("input", INT8, (5,)),
        "o": ("output", INT8, (5,)),
    }
    rhs = binary(op, read("a", "i", dtype=INT8), read("b", "i", dtype=INT8), site=4)
    program = shaped(tensors, (statement("o", "i", rhs), {"i": (0, 5)}), checked=frozenset((4,)))
    a, b = np.array([7, -7, 7, -7, 0], np.int8), np.array([2, 2, -2, -2, 9], np.int8)
    out, failure, kernel = run(program, a=a, b=b)
    assert failure is None
    assert (out["o"] == numpy(a, b)).all()
    assert kernel.sites[0].kind == "division"
    b[3] = 0
    assert run(program, a=a, b=b)[1] == Failure(0, (3,))


def test_logical_is_lazy_with_tests() -> None:  # Y6
    place = convert(read("I", "i", dtype=INT32), "int64")
    inside = compare(">=", place, integers(0))
    positive = compare(">", read("a", place, integers(0), site=3), literal(0.0))
    for op, guard in (("&&", inside), ("||", compare("<", place, integers(0)))):
        condition = Logical(op, (guard, positive), span=SPAN)
        rhs = select(condition, literal(1.0), literal(0.0))
        tensors = {**GATHER, "o": VECTOR["o"]}
        program = shaped(
            tensors, (statement("o", "i", rhs), {"i": (0, 5)}), checked=frozenset((3,))
        )
        a = np.array([[1.0] * 4, [-1.0] * 4, [2.0] * 4])
        out, failure, _ = run(program, a=a, I=np.array([0, -1, 1, 2, -9]))
        assert failure is None
        assert out["o"].tolist() == ([1, 0, 0, 1, 0] if op == "&&" else [1, 1, 0, 1, 1])


# --- types ------------------------------------------------------------------------------------


def test_half_accumulates_in_float32_and_rounds_once() -> None:  # Y8
    h = RNG.normal(size=(3, 100)).astype(np.float16)
    rhs = convert(read("h", "i", "k", dtype=FLOAT16), "float32")
    tensors = {"h": ("input", FLOAT16, h.shape), "o": ("output", FLOAT16, (3,))}
    ranges = {"i": (0, 3), "k": (0, 100)}
    total = statement("o", "i", rhs, op="+", init=True)
    out, _, _ = run(shaped(tensors, (total, ranges)), h=h)
    sums = np.zeros(3, np.float32)
    for k in range(100):
        sums = sums + h[:, k].astype(np.float32)
    assert (out["o"] == sums.astype(np.float16)).all()
    more = statement("o", "i", rhs, op="+", continues="caller")
    start = np.full(3, 0.25, np.float16)
    out, _, kernel = run(shaped(tensors, (more, ranges)), initial={"o": start}, h=h)
    sums = start.astype(np.float32)
    for k in range(100):
        sums = sums + h[:, k].astype(np.float32)
    assert (out["o"] == sums.astype(np.float16)).all()
    stmts = [s for r in kernel.regions for s, _ in all_stmts(r)]
    stores = [s for s in stmts if isinstance(s, Store) and s.value.dtype == FLOAT16]
    assert [s.buffer for s in stores] == ["o"]
    loads = [e.buffer for s in stmts for e in expressions(s) if isinstance(e, Load)]
    assert loads.count("o") == 1  # where the sum begins


def test_cast_to_half_rounds() -> None:
    inner = convert(convert(read("a", "i"), "float16"), "float32")
    rhs = binary("*", inner, literal(3.0))
    a = np.array([1 + 2**-11, 1 + 3 * 2**-11, 70000, 1e-9, -2], np.float32)
    out, _, _ = run(shaped(VECTOR, (statement("o", "i", rhs), {"i": (0, 5)})), a=a)
    with np.errstate(over="ignore"):
        expected = a.astype(np.float16).astype(np.float32) * np.float32(3)
    assert (out["o"] == expected).all()


def test_negative_zero_survives() -> None:
    """A branch whose value is -0.0 is set, though -0.0 == 0.0; and 0.0 + -0.0 is 0.0."""
    rhs = select(
        compare("<", read("a", convert(read("a", "i"), "int64"), site=1), literal(9.0)),
        literal(-0.0),
        read("a", convert(read("a", "i"), "int64"), site=1),
    )
    program = shaped(VECTOR, (statement("o", "i", rhs), {"i": (0, 5)}), checked=frozenset((1,)))
    assert np.signbit(run(program, a=np.zeros(5))[0]["o"]).all()
    fresh = statement("o", "i", literal(-0.0), op="+", init=True)
    assert not np.signbit(run(shaped(VECTOR, (fresh, {"i": (0, 5)})), a=[0] * 5)[0]["o"]).any()


@pytest.mark.parametrize("op", ["+", "*", "min", "max"])
@pytest.mark.parametrize("dtype", [BOOL, INT8, UINT8, INT64, FLOAT32, FLOAT64], ids=str)
def test_identity(op: str, dtype: DType) -> None:  # R2
    if dtype == BOOL and op in "+*":
        return
    numpy = {"+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum}[op]
    start = identity(op, dtype)
    sample = np.array([0, 1, 0, 1]).astype(start.dtype.numpy)
    assert (numpy(start.dtype.numpy.type(start.value), sample) == sample).all()


# --- constants and hoisting -------------------------------------------------------------------


def test_static_scalars_and_sizes_are_constants() -> None:
    tensors = {"s": ("input", INT32, ()), **VECTOR}
    place = binary("+", convert(read("s", dtype=INT32), "int64"), index("i"))
    program = shaped(
        tensors, (statement("o", "i", read("a", place)), {"i": (0, 3)}), scalars={"s": 2}
    )
    kernel = lower(program, {}, initial=frozenset(), check=True)
    stmts = (s for r in kernel.regions for s, _ in all_stmts(r))
    loads = [e for s in stmts for e in expressions(s) if isinstance(e, Load)]
    assert {e.buffer for e in loads} == {"a"}
    out, _, _ = run(program, s=2, a=[0, 1, 2, 3, 4])
    assert out["o"].tolist() == [2, 3, 4, 0, 0]


def test_own_scalar_is_not_hoisted() -> None:
    tensors = {"o": ("output", FLOAT32, ()), "a": ("input", FLOAT32, (3,))}
    more = statement("o", "", read("a", "k"), op="+", continues="caller")
    program = shaped(tensors, (more, {"k": (0, 3)}))
    assert run(program, a=[1, 2, 3], initial={"o": 10})[0]["o"] == 16
    assert run(program, a=[1, 2, 3])[0]["o"] == 6


def test_size_takes_its_type() -> None:
    size = Size("N", DTYPES["float32"], span=SPAN)
    program = shaped(VECTOR, (statement("o", "i", size), {"i": (0, 5)}))
    assert run(replace(program, sizes={"N": 5}), a=[0] * 5)[0]["o"].tolist() == [5.0] * 5
