"""Reductions whose terms stand under a guard: only iterations that add something are run.

`j <= i ? a : 0` adds nothing above the diagonal, and is just `a` below it. Where a loop's body does
nothing but that, the loop becomes two: one where the guard certainly holds, without it, and one
where it holds in part. `I(n) == j ? a : 0` adds something for one value of j: a loop over j is
that iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from tc.dtypes import INT64
from tc.kernel import ir
from tc.kernel.analysis.decided_tests import (
    conditions,
    inner_loops,
    is_loop,
    settled,
    varying_tests,
)
from tc.kernel.analysis.guard_ranges import guard_range, selected_value
from tc.kernel.folding import FALSE, TRUE, binary, integer, logical_and, select
from tc.kernel.intervals import Bounds, interval, loop_interval
from tc.kernel.local_names import LocalNames
from tc.kernel.passes.unroll import unrolled_size
from tc.kernel.rebuild import (
    Scope,
    Stmts,
    changed,
    map_blocks,
    map_expressions,
    map_regions,
    substitute,
)
from tc.kernel.walk import assigned, assigned_in, conjuncts, declared, every_statement, names_in

MIN_ITERATIONS = 8
"""Iterations of a loop that is worth a second copy of its body."""

MAX_COPIED_STATEMENTS = 256
"""Statements of such a copy, after unrolling."""


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
    positive = _never_negative_zero(kernel)
    local = frozenset(b.name for b in kernel.buffers if b.role == "register")
    buffers = {b.name: b for b in kernel.buffers}
    scope = Scope(assigned(kernel))
    pass_ = _Pass(LocalNames(kernel), scope, positive & local, positive, buffers)
    return map_regions(kernel, lambda region: scope.map(region, pass_.statement))


@dataclass
class _Pass:
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
        elif loop.parallel or loop.mark or new is not loop or not _is_innermost(loop):
            yield new
        elif _trips(loop, bounds) < MIN_ITERATIONS or _size(loop) > MAX_COPIED_STATEMENTS:
            yield loop
        else:
            yield from self._parts(loop, bounds)

    def _parts(self, loop: ir.For, bounds: Bounds) -> Iterator[ir.For]:
        """The loop without iterations that add nothing, and without a guard where it holds."""
        inner = inner_loops(loop.body)
        local = {name for stmt in ir.statements(loop.body) for name in declared(stmt)}
        for test in _guards(loop.body):
            if names_in(test) & (self.scope.assigned | (local - set(inner))):
                continue
            found = guard_range(test, loop, inner, bounds)
            if found is None or not _adds_nothing(settled(loop.body, test, FALSE), loop.var):
                continue
            self.deciding.update(*(names_in(e) for e in (*found.certain, *found.possible)))
            whole = changed(
                loop,
                begin=found.certain[0],
                end=found.certain[1],
                body=_forwarded(settled(loop.body, test, TRUE)),
            )
            one = integer(1)
            if found.falls:
                last = binary("min", binary("+", found.possible[1], one), loop.end, bounds)
                yield from self._parts(whole, bounds)
                yield changed(loop, begin=whole.end, end=last, body=self._conditional(loop.body))
            else:
                first = binary("max", binary("-", found.possible[0], one), loop.begin, bounds)
                yield changed(loop, begin=first, end=whole.begin, body=self._conditional(loop.body))
                yield from self._parts(whole, bounds)
            return
        yield loop

    def _selected(self, loop: ir.For, bounds: Bounds) -> Stmts | None:
        """The one iteration that adds something, where a test selects it by a value that is known
        before the loop."""
        if loop.parallel or loop.mark or _trips(loop, bounds) < MIN_ITERATIONS:
            return None
        stores = [s for s in ir.statements(loop.body) if isinstance(s, ir.Store)]
        written = {s.buffer for s in stores}
        if not written <= self.positive:
            return None
        local = {name for stmt in ir.statements(loop.body) for name in declared(stmt)}
        inside = {**bounds, loop.var: loop_interval(loop.begin, loop.end, bounds)}
        for test in _selections(loop.body, loop.var):
            value = selected_value(test, loop.var, inside)
            if (
                value is None
                or names_in(value) & (self.scope.assigned | local | {loop.var})
                or not all(self._can_read(e, written, bounds) for e in ir.walk(value))
                or not _adds_nothing(settled(loop.body, test, FALSE))
            ):
                continue
            own = ir.Var(loop.var, INT64)
            is_in = ir.Compare("<=", loop.begin, own), ir.Compare("<", own, loop.end)
            body = _forwarded(settled(loop.body, test, TRUE))
            return (ir.Let(loop.var, value), ir.If(logical_and(*is_in), body))
        return None

    def _narrowed(self, loop: ir.For, bounds: Bounds) -> ir.For:
        """The loop over those iterations alone for which tests hold that ask for nothing else."""
        if loop.parallel or loop.mark:
            return loop
        stores = (s for s in ir.statements(loop.body) if isinstance(s, ir.Store))
        if not all(s.buffer in self.local for s in stores):
            return loop
        local = {name for stmt in ir.statements(loop.body) for name in declared(stmt)}
        for test in varying_tests(loop.body, loop.var):
            if names_in(test) & (self.scope.assigned | local):
                continue
            found = guard_range(test, loop, {}, bounds)
            if found is not None and _adds_nothing(settled(loop.body, test, FALSE)):
                begin, end = found.certain
                body = _forwarded(settled(loop.body, test, TRUE))
                loop = changed(loop, begin=begin, end=end, body=body)
        return loop

    def _can_read(self, expr: ir.Expr, written: set[str], bounds: Bounds) -> bool:
        """Whether it is no read, or one that nothing in the loop changes, at a place that certainly
        exists, whatever condition it stands under."""
        if not isinstance(expr, ir.Load):
            return True
        shape = self.buffers[expr.buffer].shape
        places = (interval(index, bounds) for index in expr.indices)
        return (
            expr.buffer not in written
            and expr.mask is None
            and all(low >= 0 and high < n for (low, high), n in zip(places, shape, strict=True))
        )

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


def _never_negative_zero(kernel: ir.Kernel) -> frozenset[str]:
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
    return high - low + 1


def _size(loop: ir.For) -> int:
    return sum(unrolled_size(stmt, {}) for stmt in loop.body)


def _guards(block: Stmts) -> Iterator[ir.Compare]:
    """The comparisons, of which both sides vary, that decide what is evaluated. Where one side is
    a constant, it is the end of a tensor: `partition_loops` is for these."""
    tests = (test for condition in conditions(block) for test in conjuncts(condition))
    yield from dict.fromkeys(
        test
        for test in tests
        if isinstance(test, ir.Compare) and names_in(test.left) and names_in(test.right)
    )


def _selections(block: Stmts, var: str) -> Iterator[ir.Compare]:
    """The comparisons for equality with something that varies with a loop."""
    return (test for test in varying_tests(block, var) if test.op == "==")


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


def _adds_nothing(block: Stmts, var: str = "", known: Mapping[str, ir.Expr] | None = None) -> bool:
    """Whether a block does nothing but to add 0 to elements, or multiply them by 1; or whether,
    run for several values of a variable, it does that for one of them: then the elements are the
    same ones for all, and it may also take their minimum or maximum with a constant."""
    values = dict(known or {})
    for stmt in block:
        match stmt:
            case ir.Let(var=name, value=value):
                values[name] = substitute(value, values, {})
            case ir.For(body=body):
                if not _adds_nothing(body, var, values):
                    return False
            case ir.If(then=then, otherwise=otherwise) if not var:
                if not all(_adds_nothing(part, var, values) for part in (then, otherwise)):
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
            return (op, value) in (("+", 0), ("*", 1)) or (not once and op in ("min", "max"))
        case ir.Select(then=then, otherwise=otherwise):
            return then == otherwise and _is_neutral(op, then, once=once)
        case _:
            return False
