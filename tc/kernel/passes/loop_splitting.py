"""Loop splitting: iterations in which conditions are decided are apart from the others.

*Last vectors.* A row that is no multiple of a vector ends in a part of one. With that in the loop,
each of its iterations computes a mask, loads and stores under it, and no store of it can go past
the caches.

*Guarded terms.* `j <= i ? a : 0` adds nothing above the diagonal, and is just `a` below it. Where a
loop's body does nothing but that, the loop becomes two: one where the guard certainly holds,
without it, and one where it holds in part. `I(n) == j ? a : 0` adds something for one value of j: a
loop over j is that iteration.

*Edges.* What is read beyond the edges of a tensor is tested for at these alone.

Long because the three ask the same of a loop's tests: where they hold, and what then is left.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TypeGuard

from tc.affine.intervals import Interval, around, surely
from tc.dtypes import INT64
from tc.extents.sizes import at_hint, is_tracked
from tc.kernel import ir
from tc.kernel.analysis.guard_ranges import guard_range, selected_value
from tc.kernel.analysis.lane_offsets import lane_offsets
from tc.kernel.folding import (
    FALSE,
    TRUE,
    binary,
    integer,
    logical_and,
    select,
)
from tc.kernel.intervals import Bounds, interval, is_in_bounds, loop_interval
from tc.kernel.passes.lanes import decided
from tc.kernel.passes.unroll import unrolled_size
from tc.kernel.rebuild import (
    LocalNames,
    Scope,
    Stmts,
    changed,
    map_blocks,
    map_each,
    map_expressions,
    map_operands,
    map_regions,
    same_or,
    substitute,
)
from tc.kernel.walk import (
    assigned,
    assigned_in,
    conjuncts,
    declared,
    every_statement,
    iterations,
    names_in,
)

MIN_ITERATIONS = 4
"""Iterations of a loop whose last one, or whose edges, are worth a second copy of its body."""

MIN_SHARED_ITERATIONS = 1 << 10
"""Iterations of a loop that threads share and whose last iteration is worth a region, which is
compiled and called for itself."""

MIN_GUARDED_ITERATIONS = 8
"""Iterations of a loop that is worth a copy of its body without a guard."""

VECTORS_PER_MASK = 4
"""Vectors of a last iteration for each one that has a mask, at most."""

MAX_LAST_STATEMENTS = 96
"""Statements of a last iteration, after unrolling: three for each accumulator of a tile."""

MAX_SPLIT_STATEMENTS = 192
"""Statements of a loop with a guard, or with tests at its edges, after unrolling."""


def split_loops(kernel: ir.Kernel, *, vectors: bool) -> ir.Kernel:
    """The kernel with loops split where conditions are decided: first at last iterations, if there
    are vectors, then at guards of terms, then at edges. A test that one of these decides is gone
    for the next."""
    kernel = split_last_iterations(kernel) if vectors else kernel
    return split_at_edges(skip_guarded_terms(kernel))


# --- last vectors -----------------------------------------------------------------------------


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
        if not _is_plain(new):
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


def is_tracked_end(loop: ir.For) -> bool:
    """Whether a loop goes to a tracked size, and the number of its iterations varies."""
    return isinstance(loop.end, ir.Const) and is_tracked(loop.end.value)


def _whole_and_rest(loop: ir.For, scope: Scope) -> tuple[ir.For, ...]:
    """The iterations in which all vectors of a loop are whole, and behind them the few others, or
    none: where it is known when compiling neither how many iterations there are, nor whether the
    last one is whole."""
    if _size(loop) > MAX_LAST_STATEMENTS:
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
            rest = _without_empty_vectors(rest, test, lanes)
    if whole is loop.body:
        return (loop,)
    return changed(loop, end=end, body=whole), changed(loop, begin=end, body=rest)


def _without_empty_vectors(block: Stmts, test: ir.Compare, lanes: AbstractSet[str]) -> Stmts:
    """The block without vectors of which a test holds for no lane, where these then do nothing."""

    def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        if not (is_loop(stmt) and stmt.var in names_in(test) & lanes and stmt.begin == integer(0)):
            return (stmt,)
        grows = lane_offsets((test.left,), (1,), 1, {}).scalars.terms
        rises = test.op == "<" and surely(grows.get(ir.Var(stmt.var, INT64), 0), ">", 0)
        if not rises or stmt.var in names_in(test.right):
            return (stmt,)
        if not adds_nothing(settled(stmt.body, test, FALSE)):
            return (stmt,)
        return (ir.If(substitute(test, {stmt.var: integer(0)}, {}), (stmt,)),)

    return map_each(block, each)


def _is_plain(stmt: ir.Stmt) -> TypeGuard[ir.For]:
    """Whether a statement is a loop of one thread without a mark."""
    return is_loop(stmt) and not stmt.parallel and not stmt.mark


def _is_peeled(loop: ir.For, scope: Scope, fewest: int) -> bool:
    """Whether a test of a branch, or of a term of a sum, holds in all iterations of a loop but the
    last, and there not for all vectors."""
    values = iterations(loop)
    if len(values) < fewest or _size(loop) > MAX_LAST_STATEMENTS:
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
                tests = _tests_of(stmt) if isinstance(stmt, ir.If) or sums else ()
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


# --- edges ------------------------------------------------------------------------------------


def split_at_edges(kernel: ir.Kernel) -> ir.Kernel:
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
    >>> print(to_text(split_at_edges(ir.Kernel("f", buffers, ((loop,),)))))
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
        return _at_edges(new, scope) if _is_plain(new) else (new,)

    return map_regions(kernel, lambda region: scope.map(region, each))


def _at_edges(loop: ir.For, scope: Scope) -> tuple[ir.For, ...]:
    values = iterations(loop)
    if len(values) < MIN_ITERATIONS or _size(loop) > MAX_SPLIT_STATEMENTS:
        return (loop,)
    inner = inner_loops(loop.body)
    lanes = {s.var for s in ir.statements(loop.body) if is_loop(s) and s.mark == "vector"}
    first, end, whole = values[0], values[-1] + 1, loop.body
    tested: set[str] = set()
    for test in deciding_tests(loop.body, stores=False):
        names = names_in(test)
        if loop.var not in names or not is_decided_before(test, loop, scope, inner.keys()):
            continue
        if any(low != high for low, high in (scope.bounds.get(n, (0, 0)) for n in names)):
            continue  # its ends move with a loop around
        begin, last = _certain(test, loop.var, values, {**scope.bounds, **inner})
        if not lanes.isdisjoint(names) and (begin, last) == (values[0], values[-1]):
            continue  # the mask of a last vector, for which `split_last_iterations` decides
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
        if _is_plain(stmt) and stmt.var in tested:
            times = len(iterations(stmt))
            if times and times * _size(stmt) <= 2 * MAX_SPLIT_STATEMENTS:
                return (changed(stmt, mark="unroll"),)
        return (stmt,)

    return map_each(block, each)


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
        return decided(test, {**bounds, var: (low, high)}) is True

    if not holds(middle, middle):
        return middle, middle
    before, after = range(values[0], middle), range(middle + 1, values[-1] + 1)
    first = bisect_left(before, True, key=lambda low: holds(low, middle))
    beyond = bisect_left(after, True, key=lambda high: not holds(middle, high))
    return values[0] + first, middle + 1 + beyond


# --- guarded terms ----------------------------------------------------------------------------


def skip_guarded_terms(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with loops that run no terms whose guard fails, but for one: a sum may start at
    -0, and 0 added to that is 0, however often.

    Guards compare sums, products with constants, minima and maxima of loop variables. Where
    iterations of a loop that threads share then do unequal work, long and short ones alternate,
    as each thread runs adjacent ones.

    >>> from tc.dtypes import FLOAT32
    >>> from tc.kernel.printer import to_text
    >>> i, k = ir.Var("i", INT64), ir.Var("k", INT64)
    >>> term = select(ir.Compare("<=", k, i), ir.Load("a", (i, k), FLOAT32), ir.Const(0.0, FLOAT32))
    >>> total = ir.Store("s", (i,), binary("+", ir.Load("s", (i,), FLOAT32), term))
    >>> loop = ir.For("k", integer(0), integer(9), (total,))
    >>> buffers = ir.Buffer("a", FLOAT32, (9, 9), (9, 1), "input"), ir.Buffer(
    ...     "s", FLOAT32, (9,), (1,), "output")
    >>> rows = ir.For("i", integer(0), integer(9), (loop,), parallel=True)
    >>> print(to_text(skip_guarded_terms(
    ...     ir.Kernel("sums", buffers, ((rows,),), initial=frozenset({"s"})))))
    kernel sums
      input a: float32[9, 9]
      output s: float32[9] initial
    region
      parallel for i_1 in 0:9
        let i: int64 = i_1 % 2 == 0 ? i_1 / 2 : 8 - i_1 / 2
        for k in 0:i + 1
          s[i] = s[i] + a[i, k]
        for k in i + 1:min(i + 2, 9)
          s[i] = s[i] + (k <= i ? a[i, k] : 0.0f)
    """
    positive = never_negative_zero(kernel)
    local = frozenset(b.name for b in kernel.buffers if b.role == "register")
    buffers = {b.name: b for b in kernel.buffers}
    scope = Scope(assigned(kernel))
    terms = _GuardedTerms(LocalNames(kernel), scope, positive & local, positive, buffers)
    return map_regions(kernel, lambda region: scope.map(region, terms.statement))


@dataclass
class _GuardedTerms:
    """`positive` are the arrays of which no element is ever -0, and `local` those of them that a
    block has for itself; `deciding` is what the bounds of loops depend on."""

    names: LocalNames
    scope: Scope
    local: frozenset[str]
    positive: frozenset[str]
    buffers: Mapping[str, ir.Buffer]
    deciding: set[str] = field(default_factory=set)

    def statement(self, stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        if isinstance(stmt, ir.For) and stmt.parallel:
            self.deciding.clear()
        new = self.scope.map_inside(stmt, self.statement)
        if isinstance(stmt, ir.For) and isinstance(new, ir.For):
            return self.loop(stmt, new, self.scope.bounds)
        return (new,)

    def loop(self, loop: ir.For, new: ir.For, bounds: Bounds) -> Iterator[ir.Stmt]:
        if loop.parallel and new is not loop:
            yield self._balanced(loop, new)
        elif (selected := self._selected(new, bounds)) is not None:
            yield from selected
        elif (narrowed := self._narrowed(new, bounds)) is not new:
            yield narrowed
        elif not _is_plain(loop) or new is not loop or not _is_innermost(loop):
            yield new
        elif _trips(loop, bounds) >= MIN_GUARDED_ITERATIONS and (
            _size(loop) <= MAX_SPLIT_STATEMENTS
        ):
            yield from self._parts(loop, bounds)
        else:
            yield loop

    def _parts(self, loop: ir.For, bounds: Bounds) -> Iterator[ir.For]:
        """The loop without iterations that add nothing, and without a guard where it holds. A test
        of which one side is a constant is for the end of a tensor, and not for here."""
        inner = inner_loops(loop.body)
        for test in deciding_tests(loop.body):
            is_guard = names_in(test.left) and names_in(test.right)
            if not is_guard or not is_decided_before(test, loop, self.scope, inner.keys()):
                continue
            found = guard_range(test, loop, inner, bounds)
            if found is None or not adds_nothing(settled(loop.body, test, FALSE), loop.var):
                continue
            self.deciding.update(*(names_in(e) for e in (*found.certain, *found.possible)))
            whole, one = _within(loop, found.certain, test), integer(1)
            first, end = found.possible
            if found.falls:
                first, end = whole.end, binary("min", binary("+", end, one), loop.end, bounds)
            else:
                first, end = binary("max", binary("-", first, one), loop.begin, bounds), whole.begin
            rest = changed(loop, begin=first, end=end, body=self._conditional(loop.body))
            parts = self._parts(whole, bounds)
            yield from (*parts, rest) if found.falls else (rest, *parts)
            return
        yield loop

    def _selected(self, loop: ir.For, bounds: Bounds) -> Stmts | None:
        """The one iteration that adds something, where a test selects it by a value that is known
        before the loop."""
        if not _is_plain(loop) or _trips(loop, bounds) < MIN_GUARDED_ITERATIONS:
            return None
        stores = [s for s in ir.statements(loop.body) if isinstance(s, ir.Store)]
        written = {s.buffer for s in stores}
        if not written <= self.positive:
            return None
        local = {name for stmt in ir.statements(loop.body) for name in declared(stmt)}
        inside = {**bounds, loop.var: loop_interval(loop.begin, loop.end, bounds)}
        for test in deciding_tests(loop.body):
            if test.op != "==" or loop.var not in names_in(test):
                continue
            value = selected_value(test, loop.var, inside)
            if (
                value is None
                or names_in(value) & (self.scope.assigned | local | {loop.var})
                or not all(self._can_read(e, written, bounds) for e in ir.walk(value))
                or not adds_nothing(settled(loop.body, test, FALSE))
            ):
                continue
            own = ir.Var(loop.var, INT64)
            is_in = ir.Compare("<=", loop.begin, own), ir.Compare("<", own, loop.end)
            body = _forwarded(settled(loop.body, test, TRUE))
            return (ir.Let(loop.var, value), ir.If(logical_and(*is_in), body))
        return None

    def _narrowed(self, loop: ir.For, bounds: Bounds) -> ir.For:
        """The loop over those iterations alone for which tests hold that ask for nothing else."""
        if not _is_plain(loop):
            return loop
        stores = (s for s in ir.statements(loop.body) if isinstance(s, ir.Store))
        if not all(s.buffer in self.local for s in stores):
            return loop
        for test in deciding_tests(loop.body):
            if loop.var not in names_in(test) or not is_decided_before(test, loop, self.scope):
                continue
            found = guard_range(test, loop, {}, bounds)
            if found is not None and adds_nothing(settled(loop.body, test, FALSE)):
                loop = _within(loop, found.certain, test)
        return loop

    def _can_read(self, expr: ir.Expr, written: set[str], bounds: Bounds) -> bool:
        """Whether it is no read, or one that nothing in the loop changes, at a place that certainly
        exists, whatever condition it stands under."""
        if not isinstance(expr, ir.Load):
            return True
        is_certain = is_in_bounds(expr.indices, self.buffers[expr.buffer].shape, bounds)
        return expr.buffer not in written and expr.mask is None and is_certain

    def _conditional(self, block: Stmts) -> Stmts:
        """The block where what is added under a condition, or else 0, is only added under it, to
        elements that are never -0: with masks, a sum of products stays one operation."""
        block = tuple(map_blocks(stmt, self._conditional) for stmt in block)
        match block:
            case (
                *before,
                ir.Let(var=name, value=ir.Const(value=0)),
                ir.If(condition=test, then=(*inside, ir.Set(var=set_, value=value)), otherwise=()),
                ir.Store(
                    buffer=buffer,
                    value=ir.Binary(op="+", left=ir.Load() as old, right=ir.Var(name=used)),
                ) as store,
            ) if (
                set_ == used == name
                and buffer in self.local
                and _reads(tuple(inside), name) == 0
                and old == ir.Load(buffer, store.indices, old.dtype)
            ):
                sum_ = changed(store, value=binary("+", old, value))
                return (*before, ir.If(test, (*inside, sum_)))
        return block

    def _balanced(self, loop: ir.For, new: ir.For) -> ir.For:
        """The first iteration, then the last, the second, and so on, where their work differs."""
        own = {loop.var}
        for stmt in ir.statements(loop.body):
            if isinstance(stmt, ir.Let) and not names_in(stmt.value).isdisjoint(own):
                own.add(stmt.var)
        if own.isdisjoint(self.deciding):
            return new
        name = self.names.fresh(loop.var)
        number, two = ir.Var(name, INT64), integer(2)
        half, count = binary("/", number, two), binary("-", loop.end, loop.begin)
        even = ir.Compare("==", binary("%", number, two), integer(0))
        place = select(even, half, binary("-", binary("-", count, integer(1)), half))
        own_value = ir.Let(loop.var, binary("+", place, loop.begin))
        return replace(new, var=name, begin=integer(0), end=count, body=(own_value, *new.body))


def never_negative_zero(kernel: ir.Kernel) -> frozenset[str]:
    """The arrays whose elements start at a constant other than -0, and are added to: none of them
    ever is -0, whatever is added."""

    def keeps(store: ir.Store) -> bool:
        match store.value:
            case ir.Const(value=value):
                return repr(value) != "-0.0"
            case ir.Binary(op="+", left=ir.Load(buffer=buffer, indices=indices)):
                return (buffer, indices) == (store.buffer, store.indices)
            case _:
                return False

    stores = [stmt for stmt in every_statement(kernel) if isinstance(stmt, ir.Store)]
    other = {store.buffer for store in stores if not keeps(store)} | kernel.initial
    return frozenset(b.name for b in kernel.buffers if b.name not in other)


def _is_innermost(loop: ir.For) -> bool:
    return all(s.mark in ("unroll", "vector") for s in ir.statements(loop.body) if is_loop(s))


def _trips(loop: ir.For, bounds: Bounds) -> int:
    low, high = loop_interval(loop.begin, loop.end, bounds)
    trips: int = at_hint(high - low + 1)
    return trips


def _size(loop: ir.For) -> int:
    return sum(unrolled_size(stmt, {}) for stmt in loop.body)


def _forwarded(block: Stmts) -> Stmts:
    """The block where locals that are declared only to be set once are declared at that value,
    and where one statement uses it, right behind, are gone."""
    block = tuple(map_blocks(stmt, _forwarded) for stmt in block)
    for place, stmt in enumerate(block):
        if isinstance(stmt, ir.Set):
            name, before, behind = stmt.var, block[:place], block[place + 1 :]
            lets = [s for s in before if isinstance(s, ir.Let) and s.var == name]
            others = tuple(s for s in (*before, *behind) if s not in lets)
            if len(lets) != 1 or name in assigned_in(others) or _reads(before, name):
                continue
            kept = tuple(s for s in before if s is not lets[0])
            if len(behind) == 1 and isinstance(behind[0], ir.Store) and _reads(behind, name) == 1:
                value = partial(substitute, values={name: stmt.value}, bounds={})
                used = map_expressions(behind[0], value)
                return (*kept, used)
            return _forwarded((*kept, ir.Let(name, stmt.value), *behind))
    return block


def _reads(block: Stmts, name: str) -> int:
    """How often statements use a local."""
    return sum(
        isinstance(node, ir.Var) and node.name == name
        for stmt in ir.statements(block)
        for node in ir.expressions(stmt)
    )


def adds_nothing(block: Stmts, var: str = "", known: Mapping[str, ir.Expr] | None = None) -> bool:
    """Whether a block does nothing but to add 0 to elements, or multiply them by 1; or whether,
    run for several values of a variable, it does that for one of them: then the elements are the
    same ones for all, and it may also take their minimum or maximum with a constant."""
    values = dict(known or {})
    for stmt in block:
        match stmt:
            case ir.Let(var=name, value=value):
                values[name] = substitute(value, values, {})
            case ir.For(body=body):
                if not adds_nothing(body, var, values):
                    return False
            case ir.If(then=then, otherwise=otherwise) if not var:
                if not all(adds_nothing(part, var, values) for part in (then, otherwise)):
                    return False
            case ir.Comment():
                pass
            case ir.Store(
                buffer=name,
                indices=at,
                value=ir.Binary(op=op, left=ir.Load(buffer=old, indices=same), right=term),
                mask=None,
            ) if (name, at) == (old, same):
                moves = var and any(var in names_in(substitute(i, values, {})) for i in at)
                if moves or not _is_neutral(op, substitute(term, values, {}), once=not var):
                    return False
            case _:
                return False
    return True


def _is_neutral(op: str, term: ir.Expr, *, once: bool = False) -> bool:
    """Whether it is all the same how often a constant is added, or whatever else, to a number;
    with `once`, also whether it ever is."""
    match term:
        case ir.Const(value=value):
            neutral = (("+", 0), ("*", 1), ("max", -math.inf), ("min", math.inf))
            return (op, value) in neutral or (not once and op in ("min", "max"))
        case ir.Select(then=then, otherwise=otherwise):
            return then == otherwise and _is_neutral(op, then, once=once)
        case _:
            return False


def _within(loop: ir.For, ends: tuple[ir.Expr, ir.Expr], test: ir.Compare) -> ir.For:
    """The iterations of a loop between two ends, in which a test holds."""
    body = _forwarded(settled(loop.body, test, TRUE))
    return changed(loop, begin=ends[0], end=ends[1], body=body)


# --- tests that decide what is evaluated ------------------------------------------------------


def is_decided_before(
    test: ir.Compare, loop: ir.For, scope: Scope, inner: AbstractSet[str] = frozenset()
) -> bool:
    """Whether a test depends on nothing that a loop declares, but for variables of inner loops, and
    on no local that a Set changes."""
    local = {name for stmt in ir.statements(loop.body) for name in declared(stmt)}
    return not names_in(test) & (scope.assigned | (local - inner))


def is_loop(stmt: ir.Stmt) -> TypeGuard[ir.For]:
    return isinstance(stmt, ir.For)


def inner_loops(block: Stmts) -> dict[str, Interval]:
    """The variables of the marked loops in a block, whose bounds are constants."""
    found: dict[str, Interval] = {}
    for stmt in filter(is_loop, ir.statements(block)):
        low, high = loop_interval(stmt.begin, stmt.end, {})
        found[stmt.var] = around(found.get(stmt.var, (low, high)), (low, high))
    return found


def deciding_tests(block: Stmts, *, stores: bool = True) -> Iterator[ir.Compare]:
    """The comparisons, in branches and selections of a block, that decide what is evaluated; those
    that decide what is stored only with `stores`."""
    found = (_tests_of(stmt, stores=stores) for stmt in ir.statements(block))
    yield from dict.fromkeys(chain.from_iterable(found))


def _tests_of(stmt: ir.Stmt, *, stores: bool = True) -> Iterator[ir.Compare]:
    """The comparisons in the condition of a branch, and in the selections of a statement's own
    expressions."""
    conditions: list[ir.Expr] = []
    if isinstance(stmt, ir.If) and (stores or not _stores(stmt)):
        conditions.append(stmt.condition)
    conditions += (e.condition for e in ir.expressions(stmt) if isinstance(e, ir.Select))
    tests = (test for condition in conditions for test in conjuncts(condition))
    return (test for test in tests if isinstance(test, ir.Compare))


def _stores(branch: ir.If) -> bool:
    return any(isinstance(s, ir.Store) for s in ir.statements((*branch.then, *branch.otherwise)))


def settled(block: Stmts, test: ir.Compare, value: ir.Const) -> Stmts:
    """The block where a comparison is known."""

    def replaced(expr: ir.Expr) -> ir.Expr:
        return value if expr == test else map_operands(expr, replaced)

    def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        new = map_expressions(stmt, replaced)
        if isinstance(new, ir.If) and isinstance(new.condition, ir.Const):
            return new.then if new.condition.value else new.otherwise
        if isinstance(new, ir.Set) and isinstance(new.value, ir.Var):
            return () if new.value.name == new.var else (new,)  # the term of a sum was 0
        return (new,)

    return map_each(block, each)
