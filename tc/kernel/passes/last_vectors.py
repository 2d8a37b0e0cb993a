"""Last vectors: iterations whose vectors are whole are apart from those in which some are not.

A row that is no multiple of a vector ends in a part of one. With that in the loop, each of its
iterations computes a mask, loads and stores under it, and no store of it can go past the caches.
Where the number of iterations varies, a second loop has those that may not be whole, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from tc.affine.intervals import Interval, surely
from tc.dtypes import INT64
from tc.extents.sizes import at_hint
from tc.kernel import ir
from tc.kernel.analysis.guard_ranges import guard_range
from tc.kernel.analysis.lane_offsets import lane_offsets
from tc.kernel.folding import FALSE, TRUE, binary, integer
from tc.kernel.intervals import interval
from tc.kernel.passes.deciding_tests import (
    adds_nothing,
    copied_size,
    deciding_tests,
    inner_loops,
    is_decided_before,
    is_loop,
    is_plain,
    own_tests,
    settled,
)
from tc.kernel.passes.lanes import decided
from tc.kernel.rebuild import Scope, Stmts, changed, map_each, same_or, substitute
from tc.kernel.walk import assigned, is_tracked_end, iterations, names_in

MIN_ITERATIONS = 4
"""Iterations of a loop whose last one, or whose edges, are worth a second copy of its body."""

MIN_SHARED_ITERATIONS = 1 << 10
"""Iterations of a loop that threads share and whose last iteration is worth a region, which is
compiled and called for itself."""

VECTORS_PER_MASK = 4
"""Vectors of a last iteration for each one that has a mask, at most."""

MAX_LAST_STATEMENTS = 96
"""Statements of a last iteration, after unrolling: three for each accumulator of a tile."""


def split_last_iterations(kernel: ir.Kernel) -> ir.Kernel:
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
    >>> print(to_text(split_last_iterations(ir.Kernel("copy", buffers, ((loop,),)))))
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


def _region(region: Stmts, scope: Scope) -> Iterator[Stmts]:
    """The region, and where threads share its loop the last iteration as one of its own; before
    such a loop stand comments only."""

    def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        new = scope.map_inside(stmt, each)
        if is_loop(new) and new.mark == "unroll" and is_tracked_end(new):
            new = changed(new, mark="")  # nobody knows how many copies there were
        if not is_plain(new):
            return (new,)
        if is_tracked_end(new):
            return _whole_and_rest(new, scope)
        return _parts(new) if _is_peeled(new, scope, MIN_ITERATIONS) else (new,)

    new = scope.map(region, each)
    last = new[-1] if new else None
    if (
        isinstance(last, ir.For)
        and last.parallel
        and _is_peeled(last, scope, MIN_SHARED_ITERATIONS)
    ):
        head, tail = _parts(last)
        yield (*new[:-1], head)
        said = (stmt for stmt in new[:-1] if isinstance(stmt, ir.Comment))
        yield (*said, changed(tail, parallel=False))
    else:
        yield new


def _parts(loop: ir.For) -> tuple[ir.For, ir.For]:
    last = integer(iterations(loop)[-1])
    return changed(loop, end=last), changed(loop, begin=last, mark="unroll")


def _whole_and_rest(loop: ir.For, scope: Scope) -> tuple[ir.For, ...]:
    """The iterations in which all vectors of a loop are whole, and behind them the few others, or
    none: where it is known when compiling neither how many iterations there are, nor whether the
    last one is whole."""
    if copied_size(loop) > MAX_LAST_STATEMENTS:
        return (loop,)
    inner = inner_loops(loop.body)
    lanes = {s.var for s in ir.statements(loop.body) if is_loop(s) and s.mark == "vector"}
    end, whole, rest = loop.end, loop.body, loop.body
    for test in deciding_tests(loop.body):
        names = names_in(test)
        if loop.var not in names or lanes.isdisjoint(names):
            continue
        if not is_decided_before(test, loop, scope, inner.keys()):
            continue
        found = guard_range(test, loop, inner, scope.bounds)
        if found is not None and found.falls and not names_in(found.certain[1]):
            end = binary("min", end, found.certain[1], scope.bounds)
            whole = settled(whole, test, TRUE)
            rest = _vectors_apart(rest, test, lanes)
    if whole is loop.body:
        return (loop,)
    return changed(loop, end=end, body=whole), changed(loop, begin=end, body=rest)


def _vectors_apart(block: Stmts, test: ir.Compare, lanes: AbstractSet[str]) -> Stmts:
    """The block in which vectors have no mask where a test holds for all lanes, and are left out
    where it holds for none, if they do nothing then."""

    def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        if not (is_loop(stmt) and stmt.var in names_in(test) & lanes and stmt.begin == integer(0)):
            return (stmt,)
        grows = lane_offsets((test.left,), (1,), 1, {}).scalars.terms
        rises = test.op == "<" and surely(grows.get(ir.Var(stmt.var, INT64), 0), ">", 0)
        if not rises or stmt.var in names_in(test.right):
            return (stmt,)
        if not adds_nothing(settled(stmt.body, test, FALSE)):
            return (stmt,)
        first, last = iterations(stmt)[0], iterations(stmt)[-1]
        at_first, at_last = (substitute(test, {stmt.var: integer(n)}, {}) for n in (first, last))
        whole = changed(stmt, body=settled(stmt.body, test, TRUE))
        return (ir.If(at_last, (whole,), (ir.If(at_first, (stmt,)),)),)

    return map_each(block, each)


def _is_peeled(loop: ir.For, scope: Scope, fewest: int) -> bool:
    """Whether a test of a branch, or of a term of a sum, holds in all iterations of a loop but the
    last, and there not for all vectors."""
    values = iterations(loop)
    if len(values) < fewest or copied_size(loop) > MAX_LAST_STATEMENTS:
        return False
    others, last = {loop.var: (values[0], values[-2])}, {loop.var: (values[-1], values[-1])}
    sums = _stays(loop)

    def splits(test: ir.Compare, lanes: int) -> bool:
        return decided(test, {**scope.bounds, **others}) is True and _is_partial(
            test, {**scope.bounds, **last}, lanes
        )

    def is_split(block: Stmts, lanes: int) -> bool:
        """`lanes` are those of the vectors that the loops around the block make."""
        with scope.block():
            for stmt in block:
                inside = lanes
                tests = own_tests(stmt) if isinstance(stmt, ir.If) or sums else ()
                if any(splits(test, lanes) for test in tests):
                    return True
                if isinstance(stmt, ir.For) and stmt.mark == "vector":
                    inside = max(1, len(iterations(stmt)))
                with scope.inside(stmt):
                    if is_split(ir.inner_statements(stmt), inside):
                        return True
                scope.learn(stmt)
        return False

    with scope.inside(loop):
        return is_split(loop.body, 1)


def _stays(loop: ir.For) -> bool:
    """Whether all iterations of a loop store to the same places."""
    stores = (stmt for stmt in ir.statements(loop.body) if isinstance(stmt, ir.Store))
    return not any(loop.var in names_in(index) for store in stores for index in store.indices)


def _is_partial(test: ir.Compare, bounds: Mapping[str, Interval], lanes: int) -> bool:
    """Whether so large a part of the vectors are not whole within the bounds."""
    if test.op != "<" or not test.left.dtype.is_integer:
        return False
    (low, high), (end, _) = interval(test.left, bounds), interval(test.right, bounds)
    low, high, end = at_hint(low), at_hint(high), at_hint(end)
    vectors = (high - low + 1) // lanes
    return (vectors - (end - low) // lanes) * VECTORS_PER_MASK >= vectors
