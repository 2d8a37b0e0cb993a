"""Loop partition: iterations at the ends of a loop apart, where they alone are not whole.

A row that is no multiple of a vector ends in a part of one. With that in the loop, each of its
iterations computes a mask, loads and stores under it, and no store of it can go past the caches.
What is read beyond the edges of a tensor is tested for at these alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping

from tc.affine.intervals import Interval
from tc.kernel import ir
from tc.kernel.analysis.decided_tests import inner_loops, is_loop, settled, varying_tests
from tc.kernel.folding import TRUE, compare, integer, is_constant
from tc.kernel.intervals import interval, loop_interval
from tc.kernel.passes.unroll import unrolled_size
from tc.kernel.rebuild import (
    Scope,
    Stmts,
    changed,
    map_blocks,
    map_regions,
    map_statements,
    same_or,
)
from tc.kernel.walk import assigned, conjuncts, declared, iterations, names_in

MIN_ITERATIONS = 4
"""Iterations of a loop that is worth a second copy of its body."""

MIN_SHARED_ITERATIONS = 1 << 10
"""The same of one that threads share: its last iteration becomes a region, which is compiled and
called for itself."""

MASKED = 4
"""One in so many vectors of an iteration must have a mask, at least."""

MAX_COPIED_STATEMENTS = 32
"""Statements of such a copy, after unrolling."""

WIDEST = 192
"""The same of a loop with tests at its edges."""


def partition_loops(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with loops that stop before their last iteration, and that iteration behind them,
    marked "unroll": where a condition holds in all others, and fails in some of the vectors of
    this one.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> from tc.kernel.folding import binary, compare
    >>> from tc.kernel.printer import to_text
    >>> place = binary("+", binary("*", ir.Var("i", INT64), integer(8)), ir.Var("j", INT64))
    >>> copy = ir.Store("o", (place,), ir.Load("a", (place,), FLOAT32))
    >>> guarded = ir.If(compare("<", place, integer(803), {}), (copy,))
    >>> vector = ir.For("j", integer(0), integer(8), (guarded,), mark="vector")
    >>> buffers = tuple(ir.Buffer(n, FLOAT32, (803,), (1,), r) for n, r in (("a", "input"),
    ...                                                                  ("o", "output")))
    >>> loop = ir.For("i", integer(0), integer(101), (vector,))
    >>> print(to_text(partition_loops(ir.Kernel("copy", buffers, ((loop,),)))))
    kernel copy
      input a: float32[803]
      output o: float32[803]
    region
      for i in 0:100
        vector for j in 0:8
          if i * 8 + j < 803
            o[i * 8 + j] = a[i * 8 + j]
      unroll for i in 100:101
        vector for j in 0:8
          if i * 8 + j < 803
            o[i * 8 + j] = a[i * 8 + j]
    """
    scope = Scope(assigned(kernel))
    regions = (new for region in kernel.regions for new in _region(region, scope))
    return changed(kernel, regions=same_or(kernel.regions, regions))


def partition_at_edges(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with loops in up to three parts, where tests hold in all iterations of the middle
    one, which has most of them: at the edges alone it is tested for them.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> from tc.kernel.folding import FALSE, binary, select
    >>> from tc.kernel.printer import to_text
    >>> i, k = ir.Var("i", INT64), ir.Var("k", INT64)
    >>> place = binary("-", i, k)
    >>> term = select(ir.Compare(">=", place, integer(0)),
    ...               ir.Load("a", (place,), FLOAT32), ir.Const(0.0, FLOAT32))
    >>> store = ir.Store("o", (i,), binary("+", ir.Load("o", (i,), FLOAT32), term))
    >>> inner = ir.For("k", integer(0), integer(3), (store,))
    >>> loop = ir.For("i", integer(0), integer(90), (inner,))
    >>> buffers = ir.Buffer("a", FLOAT32, (90,), (1,), "input"), ir.Buffer(
    ...     "o", FLOAT32, (90,), (1,), "output")
    >>> print(to_text(partition_at_edges(ir.Kernel("f", buffers, ((loop,),)))))
    kernel f
      input a: float32[90]
      output o: float32[90]
    region
      for i in 0:2
        unroll for k in 0:3
          o[i] = o[i] + (i - k >= 0 ? a[i - k] : 0.0f)
      for i in 2:90
        for k in 0:3
          o[i] = o[i] + a[i - k]
    """
    scope = Scope(assigned(kernel))

    def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        new = scope.map_inside(stmt, each)
        plain = isinstance(new, ir.For) and not new.parallel and not new.mark
        return _at_edges(new, scope) if isinstance(new, ir.For) and plain else (new,)

    return map_regions(kernel, lambda region: scope.map(region, each))


def _at_edges(loop: ir.For, scope: Scope) -> tuple[ir.For, ...]:
    values = iterations(loop)
    if len(values) < MIN_ITERATIONS or sum(unrolled_size(s, {}) for s in loop.body) > WIDEST:
        return (loop,)
    inner = inner_loops(loop.body)
    local = {name for stmt in ir.statements(loop.body) for name in declared(stmt)}
    lanes = {s.var for s in ir.statements(loop.body) if is_loop(s) and s.mark == "vector"}
    first, end, whole = values[0], values[-1] + 1, loop.body
    tested: set[str] = set()
    for test in varying_tests(loop.body, loop.var, stores=False):
        names = names_in(test)
        if names & (scope.assigned | lanes | (local - set(inner))):
            continue  # tests of lanes are masks
        if any(low != high for low, high in (scope.bounds.get(n, (0, 0)) for n in names)):
            continue  # its ends move with a loop around
        begin, last = _certain(test, loop.var, values, {**scope.bounds, **inner})
        if (min(end, last) - max(first, begin)) * 2 > len(values):
            first, end = max(first, begin), min(end, last)
            whole = settled(whole, test, TRUE)
            tested |= names_in(test)
    if whole is loop.body:
        return (loop,)
    edge = _unrolled(loop.body, tested)
    parts = ((values[0], first, edge), (first, end, whole), (end, values[-1] + 1, edge))
    return tuple(
        changed(loop, begin=integer(low), end=integer(high), body=body)
        for low, high, body in parts
        if low < high
    )


def _unrolled(block: Stmts, tested: Container[str]) -> Stmts:
    """A block whose short loops over variables that are tested are marked "unroll": tests of what
    they then are decide themselves."""

    def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        new = map_blocks(stmt, lambda inner: _unrolled(inner, tested))
        if is_loop(new) and not new.mark and not new.parallel and new.var in tested:
            times = len(iterations(new))
            if times and times * sum(unrolled_size(s, {}) for s in new.body) <= 2 * WIDEST:
                new = changed(new, mark="unroll")
        return (new,)

    return map_statements(block, each)


def _certain(
    test: ir.Compare, var: str, values: range, bounds: Mapping[str, Interval]
) -> tuple[int, int]:
    """The iterations around the middle one, from a first to before a last, in which a test
    certainly holds; none where it does not in that one.

    >>> from tc.dtypes import INT64
    >>> i, place = ir.Var("i", INT64), ir.Var("r", INT64)
    >>> row = ir.Binary("min", ir.Binary("+", i, place, INT64), integer(55), INT64)
    >>> test = ir.Compare("<", row, integer(54))
    >>> _certain(test, "i", range(0, 56), {"r": (0, 2)})
    (0, 52)
    """
    middle = values[len(values) // 2]

    def holds(low: int, high: int) -> bool:
        return is_constant(_folded(test, {**bounds, var: (low, high)}), True)

    if not holds(middle, middle):
        return middle, middle
    before, after = range(values[0], middle), range(middle + 1, values[-1] + 1)
    first = bisect_left(before, True, key=lambda low: holds(low, middle))
    beyond = bisect_left(after, True, key=lambda high: not holds(middle, high))
    return values[0] + first, middle + 1 + beyond


def _region(region: Stmts, scope: Scope) -> Iterator[Stmts]:
    """The region, and where threads share its loop the last iteration as one of its own; before
    such a loop stand comments only."""

    def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        new = scope.map_inside(stmt, each)
        whole = not isinstance(new, ir.For) or new.parallel or new.mark
        if (
            not isinstance(new, ir.For)
            or whole
            or not _is_peeled(new, scope.bounds, MIN_ITERATIONS)
        ):
            return (new,)
        return _parts(new)

    new = scope.map(region, each)
    last = new[-1] if new else None
    if isinstance(last, ir.For) and last.parallel and _is_peeled(last, {}, MIN_SHARED_ITERATIONS):
        head, tail = _parts(last)
        yield (*new[:-1], head)
        said = (stmt for stmt in new[:-1] if isinstance(stmt, ir.Comment))
        yield (*said, changed(tail, parallel=False))
    else:
        yield new


def _parts(loop: ir.For) -> tuple[ir.For, ir.For]:
    last = integer(iterations(loop)[-1])
    return changed(loop, end=last), changed(loop, begin=last, mark="unroll")


def _is_peeled(loop: ir.For, bounds: Mapping[str, Interval], fewest: int) -> bool:
    values = iterations(loop)
    if len(values) < fewest or sum(unrolled_size(s, {}) for s in loop.body) > MAX_COPIED_STATEMENTS:
        return False
    whole, rest = {loop.var: (values[0], values[-2])}, {loop.var: (values[-1], values[-1])}
    return any(
        is_constant(_folded(test, {**bounds, **inner, **whole}), True)
        and _is_partial(test, {**bounds, **inner, **rest}, lanes)
        for test, inner, lanes in _tests(loop.body, {}, 1)
    )


def _tests(
    stmts: tuple[ir.Stmt, ...], inner: Mapping[str, Interval], lanes: int
) -> Iterator[tuple[ir.Compare, Mapping[str, Interval], int]]:
    """The comparisons that branches stand under, the bounds of the loops in between, and the lanes
    of the vectors that these make."""
    for stmt in stmts:
        match stmt:
            case ir.For(var=var, begin=begin, end=end, body=body, mark=mark):
                low, high = loop_interval(begin, end, inner)
                count = high - low + 1 if mark == "vector" else lanes
                yield from _tests(body, {**inner, var: (low, high)}, count)
            case ir.If(condition=condition, then=then, otherwise=otherwise):
                for test in conjuncts(condition):
                    if isinstance(test, ir.Compare):
                        yield test, inner, lanes
                yield from _tests((*then, *otherwise), inner, lanes)


def _folded(test: ir.Compare, bounds: Mapping[str, Interval]) -> ir.Expr:
    return compare(test.op, test.left, test.right, bounds)


def _is_partial(test: ir.Compare, bounds: Mapping[str, Interval], lanes: int) -> bool:
    """Whether so large a part of the vectors are not whole within the bounds."""
    if test.op != "<" or not test.left.dtype.is_integer:
        return False
    (low, high), (end, _) = interval(test.left, bounds), interval(test.right, bounds)
    vectors = (high - low + 1) // lanes
    return (vectors - (end - low) // lanes) * MASKED >= vectors
