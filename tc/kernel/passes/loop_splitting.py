"""Loop splitting: iterations in which conditions are decided are apart from the others.

*Guarded terms.* `j <= i ? a : 0` adds nothing above the diagonal, and is just `a` below it. Where a
loop's body does nothing but that, the loop becomes two: one where the guard certainly holds,
without it, and one where it holds in part. `I(n) == j ? a : 0` adds something for one value of j: a
loop over j is that iteration.

*Edges.* What is read beyond the edges of a tensor is tested for at these alone.

Before both, vectors that are not whole are apart from the others (`last_vectors`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from tc.affine.intervals import Interval
from tc.dtypes import INT64
from tc.extents.sizes import at_hint
from tc.kernel import ir
from tc.kernel.analysis.guard_ranges import guard_range, selected_value
from tc.kernel.folding import FALSE, TRUE, binary, integer, logical_and, select
from tc.kernel.intervals import Bounds, is_in_bounds, loop_interval
from tc.kernel.passes.deciding_tests import (
    adds_nothing,
    copied_size,
    deciding_tests,
    inner_loops,
    is_decided_before,
    is_loop,
    is_plain,
    settled,
)
from tc.kernel.passes.lanes import decided
from tc.kernel.passes.last_vectors import MIN_ITERATIONS, split_last_iterations
from tc.kernel.rebuild import (
    LocalNames,
    Scope,
    Stmts,
    changed,
    map_blocks,
    map_each,
    map_expressions,
    map_regions,
    substitute,
)
from tc.kernel.walk import assigned, assigned_in, declared, every_statement, iterations, names_in

MIN_GUARDED_ITERATIONS = 8
"""Iterations of a loop that is worth a copy of its body without a guard."""

MAX_SPLIT_STATEMENTS = 192
"""Statements of a loop with a guard, or with tests at its edges, after unrolling."""


def split_loops(kernel: ir.Kernel, *, vectors: bool) -> ir.Kernel:
    """The kernel with loops split where conditions are decided: first at last iterations, if there
    are vectors, then at guards of terms, then at edges. A test that one of these decides is gone
    for the next."""
    kernel = split_last_iterations(kernel) if vectors else kernel
    return split_at_edges(skip_guarded_terms(kernel))


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
        return _at_edges(new, scope) if is_plain(new) else (new,)

    return map_regions(kernel, lambda region: scope.map(region, each))


def _at_edges(loop: ir.For, scope: Scope) -> tuple[ir.For, ...]:
    values = iterations(loop)
    if len(values) < MIN_ITERATIONS or copied_size(loop) > MAX_SPLIT_STATEMENTS:
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
        if is_plain(stmt) and stmt.var in tested:
            times = len(iterations(stmt))
            if times and times * copied_size(stmt) <= 2 * MAX_SPLIT_STATEMENTS:
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
    terms = _GuardedTerms.of(kernel)
    return map_regions(kernel, lambda region: terms.scope.map(region, terms.statement))


def end_by_data(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with loops over those iterations alone for which tests hold that compare with what
    is loaded: each thread goes through a row of its own.

    >>> from tc.dtypes import FLOAT32
    >>> from tc.kernel.printer import to_text
    >>> t, e = ir.Var("t", INT64), ir.Var("e", INT64)
    >>> begin, end = (ir.Load("row", (binary("+", t, integer(n)),), INT64) for n in (0, 1))
    >>> test = logical_and(ir.Compare("<=", begin, e), ir.Compare("<", e, end))
    >>> term = select(test, ir.Load("v", (e,), FLOAT32), ir.Const(0.0, FLOAT32))
    >>> add = ir.Store("s", (), binary("+", ir.Load("s", (), FLOAT32), term))
    >>> body = (ir.Store("s", (), ir.Const(0.0, FLOAT32)),
    ...         ir.For("e", integer(0), integer(90), (add,)),
    ...         ir.Store("y", (t,), ir.Load("s", (), FLOAT32)))
    >>> buffers = (ir.Buffer("row", INT64, (9,), (1,), "input"),
    ...            ir.Buffer("v", FLOAT32, (90,), (1,), "input"),
    ...            ir.Buffer("y", FLOAT32, (8,), (1,), "output"),
    ...            ir.Buffer("s", FLOAT32, (), (), "register"))
    >>> grid = ir.Grid((), (ir.LaunchIndex("t", 8),), body)
    >>> print(to_text(end_by_data(ir.Kernel("rows", buffers, ((grid,),)))))
    kernel rows
      input row: int64[9]
      input v: float32[90]
      output y: float32[8]
      register s: float32[]
    region
      one block of threads t in 0:8
        s[] = 0.0f
        for e in min(max(row[t], 0), 90):max(min(max(row[t + 1], 0), 90), min(max(row[t], 0), 90))
          s[] = s[] + v[e]
        y[t] = s[]
    """
    terms = _GuardedTerms.of(kernel)
    return map_regions(kernel, lambda region: terms.scope.map(region, terms.bounded))


@dataclass
class _GuardedTerms:
    """`positive` are the arrays of which no element is ever -0, and `local` those that a block has
    for itself; `deciding` is what the bounds of loops depend on."""

    names: LocalNames
    scope: Scope
    local: frozenset[str]
    positive: frozenset[str]
    buffers: Mapping[str, ir.Buffer]
    deciding: set[str] = field(default_factory=set)

    @staticmethod
    def of(kernel: ir.Kernel) -> _GuardedTerms:
        local = frozenset(b.name for b in kernel.buffers if b.role == "register")
        buffers = {b.name: b for b in kernel.buffers}
        positive, scope = never_negative_zero(kernel), Scope(assigned(kernel))
        return _GuardedTerms(LocalNames(kernel), scope, local, positive, buffers)

    def bounded(self, stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        new = self.scope.map_inside(stmt, self.bounded)
        if not isinstance(new, ir.For):
            return (new,)
        before, loop = self._without_invariant(new)
        with self.scope.block():
            for each in before:
                self.scope.learn(each)
            narrowed = self._narrowed(loop, self.scope.bounds, of_data=True)
        return (new,) if narrowed is loop else (*before, narrowed)

    def _without_invariant(self, loop: ir.For) -> tuple[tuple[ir.Let, ...], ir.For]:
        """The locals at the head of a loop's body that are the same in all iterations, and the loop
        without them."""
        changing = {name for s in ir.statements(loop.body) for name in declared(s)} | {loop.var}
        before: list[ir.Let] = []
        for stmt in loop.body:
            if not isinstance(stmt, ir.Let):
                break
            loads = any(isinstance(e, ir.Load) for e in ir.walk(stmt.value))
            if loads or names_in(stmt.value) & (changing | self.scope.assigned):
                break
            before.append(stmt)
            changing -= {stmt.var}
        return tuple(before), changed(loop, body=loop.body[len(before) :])

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
        elif not is_plain(loop) or new is not loop or not _is_innermost(loop):
            yield new
        elif _trips(loop, bounds) >= MIN_GUARDED_ITERATIONS and (
            copied_size(loop) <= MAX_SPLIT_STATEMENTS
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
        if not is_plain(loop) or _trips(loop, bounds) < MIN_GUARDED_ITERATIONS:
            return None
        stores = [s for s in ir.statements(loop.body) if isinstance(s, ir.Store)]
        written = {s.buffer for s in stores}
        if not all(map(self._may_be_left_out, stores)):
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

    def _narrowed(self, loop: ir.For, bounds: Bounds, *, of_data: bool = False) -> ir.For:
        """The loop over those iterations alone for which tests hold that ask for nothing else; with
        `of_data`, for which those hold that load."""
        if not is_plain(loop):
            return loop
        stores = [s for s in ir.statements(loop.body) if isinstance(s, ir.Store)]
        if not all(map(self._may_be_left_out, stores)):
            return loop
        is_local = all(s.buffer in self.local for s in stores)
        for test in deciding_tests(loop.body):
            if loop.var not in names_in(test) or not is_decided_before(test, loop, self.scope):
                continue
            loads = [e for e in ir.walk(test) if isinstance(e, ir.Load)]
            if not (loads or (is_local and not of_data)) or not all(
                self._can_read(load, {s.buffer for s in stores}, bounds) for load in loads
            ):
                continue
            found = guard_range(test, loop, {}, bounds)
            if found is not None and adds_nothing(settled(loop.body, test, FALSE)):
                loop = _within(loop, found.certain, test)
        return loop

    def _may_be_left_out(self, store: ir.Store) -> bool:
        """Whether a store that combines an element with what is neutral changes no bit of it: a sum
        of floats makes 0 of -0."""
        is_sum = isinstance(store.value, ir.Binary) and store.value.op == "+"
        return not is_sum or not store.value.dtype.is_float or store.buffer in self.positive

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
                and buffer in self.local & self.positive
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


def _within(loop: ir.For, ends: tuple[ir.Expr, ir.Expr], test: ir.Compare) -> ir.For:
    """The iterations of a loop between two ends, in which a test holds."""
    body = _forwarded(settled(loop.body, test, TRUE))
    return changed(loop, begin=ends[0], end=ends[1], body=body)
