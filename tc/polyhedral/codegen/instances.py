"""Lowering one instance of a statement: its guards, its reads and its store.

Where the target is promoted, instances outside of the domain (the tail of a tile that is not
full) are computed too, since their results are never written back: their reads are clamped into
the domain, or masked along the lanes of a vector, and terms of reductions become the identity.
Other statements are guarded as a whole, and so is what may fail (G7): a test holds for the range
of the text, and for nothing beyond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce

from tc.affine.forms import Form, LinearForm
from tc.affine.intervals import closed, surely
from tc.extents.sizes import as_integer
from tc.kernel import ir
from tc.kernel.folding import (
    binary,
    cast,
    compare,
    constant,
    integer,
    is_simple,
    logical_and,
    of_form,
    select,
)
from tc.kernel.ir import Expr, Load, Stmt, Store
from tc.plan import SHARED
from tc.polyhedral.codegen.context import EmitScope, PrivateAccumulators, guarded
from tc.polyhedral.codegen.expressions import Scope, StatementBuilder, identity, lower_expression
from tc.polyhedral.footprint import Digits, whole
from tc.polyhedral.schedule import Member
from tc.polyhedral.scop.checked_variables import checked_variables, guarding_variables
from tc.polyhedral.scop.scop import Access, ScopStatement
from tc.semantics import program as p
from tc.semantics.bounded_sums import data_bounded


def lower_leaf(statement: ScopStatement, state: EmitScope) -> tuple[Stmt, ...]:
    """The statements that run one instance, or one of the tail's (see the module)."""
    tails = {v: d for v, d in state.positions[statement.name].items() if not d.exact}
    element = _element(statement.write, statement, state)
    placed = None if statement.scatters else state.innermost(statement.write.tensor)
    promoted = placed is not None and state.fits(placed, element)
    promoted = promoted or statement.name in state.expanded
    if promoted and tails and state.kernel.launch is not None:
        promoted = not _reads_from_others(statement, state)
        promoted = promoted and not _Reader(statement, tails, state).misses()
    beyond = {v: d for v, d in tails.items() if promoted and _is_beyond(v, statement, state)}
    position = {
        v: d if v in beyond else replace(d, exact=True)
        for v, d in state.positions[statement.name].items()
    }
    inner = replace(state, positions={**state.positions, statement.name: position})
    stmts = _instance(statement, element, beyond, inner)
    tests = [test for d in beyond.values() for test in _tile_tests(d, state)]
    tests += [t for v in tails if v not in beyond for t in _tests(v, statement, state)]
    return guarded(tests, stmts)


def _reads_from_others(statement: ScopStatement, state: EmitScope) -> bool:
    """Whether an instance may read what another thread of the launch writes: one beyond the range
    would then read at a place where this may happen at any time."""
    launch = state.kernel.launch
    assert launch is not None
    for access in statement.reads:
        placed = state.innermost(access.tensor)
        if access.tensor in launch.written and (placed is None or placed.tile.scope == SHARED):
            return True
    return False


def _is_beyond(variable: str, statement: ScopStatement, state: EmitScope) -> bool:
    """Whether values of a variable past its range write past what a tile is written back to, if
    anything, and nothing that may fail depends on it. Within the tile's limits other statements
    may own the elements."""
    kernel = state.kernel
    if kernel.checks or p.CHECKED in kernel.scop.shaped.statements[statement.position].checked:
        deciding = checked_variables(statement, kernel.scop)
    else:  # lanes beyond the range read 0, as does what a buffer has there
        lanes = state.positions[statement.name][variable].lane
        filled = kernel.buffers if lanes else state.tiles
        deciding = guarding_variables(statement, kernel.scop, filled)
    if variable in deciding or variable in data_bounded(_source(statement, state)):
        return False
    expanded = state.expanded.get(statement.name)
    if expanded is not None:
        return _has_accumulators(variable, statement, expanded, state)
    placed = state.innermost(statement.write.tensor)
    if placed is None:
        return True
    shape = kernel.scop.shaped.shapes[statement.write.tensor]
    ends = shape if placed.tile.limits is None else (end for _, end in placed.tile.limits)
    end = statement.ranges[variable][1]
    for subscript, last in zip(statement.write.subscripts, ends, strict=True):
        if subscript is not None and variable in subscript.terms:
            return subscript.constant + subscript.terms[variable] * end >= last
    return True


def _has_accumulators(
    variable: str, statement: ScopStatement, expanded: PrivateAccumulators, state: EmitScope
) -> bool:
    """Whether there are accumulators for all values of a variable, past its range, too."""
    element, found = _element(statement.write, statement, state), expanded.box
    for subscript, form, offset, size in zip(
        statement.write.subscripts, element, found.offsets, found.sizes, strict=True
    ):
        low, high = (form - offset).interval(state.bounds)
        if subscript is not None and variable in subscript.terms and (low < 0 or high >= size):
            return False
    return True


def _source(statement: ScopStatement, state: EmitScope) -> p.Statement:
    return state.kernel.scop.shaped.statements[statement.position].statement


def _tile_tests(digits: Digits, state: EmitScope) -> Iterator[Expr]:
    """The condition, unless it is certain, that a tile has values in the range at all. Threads do
    not look for the end of it: those that have work would not be done sooner."""
    tile = digits.base if digits.tile is None else digits.tile
    low, high = tile.interval(state.bounds)
    begin, end = digits.limits
    if not surely(high, "<", end) and state.kernel.launch is None:
        yield compare("<", of_form(tile), integer(end), {})
    if not surely(low, ">=", begin):
        # a shifted member: the first tile may begin before the range
        yield compare(">=", of_form(digits.base), integer(begin), {})


def _tests(variable: str, statement: ScopStatement, state: EmitScope) -> Iterator[Expr]:
    """The conditions, those not certain, that a variable is in its range."""
    digits = state.positions[statement.name][variable]
    return state.between(digits.base, digits.limits)


def _element(access: Access, statement: ScopStatement, state: EmitScope) -> tuple[LinearForm, ...]:
    values = {v: d.base for v, d in state.positions[statement.name].items()}
    return tuple(s.substituted(values) for s in access.subscripts if s is not None)


def _instance(
    statement: ScopStatement,
    element: tuple[LinearForm, ...],
    tails: dict[str, Digits],
    state: EmitScope,
) -> tuple[Stmt, ...]:
    target = statement.write.tensor
    dtype = state.kernel.dtype(target).computed
    if statement.kind != "update":
        op = statement.op if statement.kind == "init" else "+"
        return (_store(target, element, identity(op, dtype), state),)
    kernel, reader = state.kernel, _Reader(statement, tails, state)
    shaped = kernel.scop.shaped
    source = shaped.statements[statement.position]
    scope = Scope(
        shaped,
        statement.position,
        reader.clamped,
        source.checked if kernel.checks else source.checked & {p.CHECKED},
        kernel.names,
        dict(state.bounds),
        kernel.sites,
        reader.override,
        reader.mask,
    )
    block = StatementBuilder(scope)
    if statement.scatters:
        return _scattered(statement, source.statement, block, state)
    if data_bounded(source.statement):
        reader.hold(block)
    term = lower_expression(source.statement.rhs, block)
    if statement.accumulates:
        known = [v for v in statement.reduction if v in tails and not reader.adds_nothing(v)]
        tests = [t for v in known for t in _tests(v, statement, state)]
        if tests:
            term = select(reduce(logical_and, tests), term, identity(statement.op, dtype))
        return (*block.stmts, _accumulate(statement, element, term, state))
    store = _store(target, element, term, state)
    own = sum(access.tensor == target for access in statement.reads)
    if own > 1 and isinstance(term, ir.Select) and _is_kept(term, store):
        # another iteration may read the element at the same time
        changed = replace(store, value=cast(term.then, store.value.dtype))
        return (*block.stmts, ir.If(term.condition, (changed,)))
    return (*block.stmts, store)


def _is_kept(term: ir.Select, store: Store) -> bool:
    """Whether a value is else what stands there already."""
    old = term.otherwise
    if isinstance(old, ir.Cast):
        old = old.operand
    return isinstance(old, Load) and (old.buffer, old.indices) == (store.buffer, store.indices)


def _scattered(
    statement: ScopStatement, source: p.Statement, block: StatementBuilder, state: EmitScope
) -> tuple[Stmt, ...]:
    """An instance that writes where data say, if its conditions hold."""
    if source.conditions:
        test, *others = source.conditions
        rest = replace(source, conditions=tuple(others))
        holds = lower_expression(test, block)
        inside = StatementBuilder(block.scope, block.level + 1)
        return (*block.stmts, ir.If(holds, _scattered(statement, rest, inside, state)))
    element: list[LinearForm] = []
    values = {v: d.base for v, d in state.positions[statement.name].items()}
    write = statement.write
    for form, bounds, subscript in zip(
        write.subscripts, write.bounds, source.subscripts, strict=True
    ):
        if form is not None:
            element.append(form.substituted(values))
        else:
            local = block.let(lower_expression(subscript, block))
            element.append(Form(0, {local.name: 1}))
            state = state.bound(local.name, bounds[0], bounds[1] - 1)
    buffer, indices = state.place(write.tensor, tuple(element))
    value = cast(lower_expression(source.rhs, block), state.element_dtype(write.tensor))
    if statement.meets:
        return (*block.stmts, ir.Atomic(buffer, indices, statement.op, value))
    return (*block.stmts, Store(buffer, indices, value))


def _accumulate(
    statement: ScopStatement, element: tuple[LinearForm, ...], term: Expr, state: EmitScope
) -> Store:
    target = statement.write.tensor
    expanded = state.expanded.get(statement.name)
    if expanded is not None:
        inside = expanded.box.places(element)
        digits = [state.loops[d.name, d.step] for d in expanded.digits]
        indices = tuple(map(of_form, (*inside, *digits)))
        value = binary(statement.op, Load(expanded.buffer, indices, term.dtype), term)
        return Store(expanded.buffer, indices, value)
    before = cast(state.load(target, element), term.dtype)
    return _store(target, element, binary(statement.op, before, term), state)


def _store(target: str, element: tuple[LinearForm, ...], value: Expr, state: EmitScope) -> Store:
    buffer, indices = state.place(target, element)
    return Store(buffer, indices, cast(value, state.element_dtype(target)))


def _sites_of_places(expr: p.Expr) -> Iterator[int]:
    """The reads of an expression that stand in subscripts of others."""
    for outer in p.walk(expr):
        for subscript in outer.subscripts if isinstance(outer, p.Read) else ():
            yield from (inner.site for inner in p.walk(subscript) if isinstance(inner, p.Read))


def _guarding(expr: p.Expr) -> Iterator[str]:
    """The variables of the conditions in an expression."""
    for node in p.walk(expr):
        if isinstance(node, p.Select | p.Logical):
            yield from p.index_names(p.children(node)[0])


class _Reader:
    """Lowers the reads of an instance: from promoted buffers where there are any, else from
    memory at clamped and masked places."""

    def __init__(
        self, statement: ScopStatement, tails: dict[str, Digits], state: EmitScope
    ) -> None:
        self.state = state
        self.statement = statement
        self.tails = tails
        self.accesses = {a.site: a for a in statement.reads if a.site >= 0}
        self.gathers = {a.site: a for a in statement.gathers}
        source = state.kernel.scop.shaped.program.statements[statement.position]
        exprs = (*source.conditions, *source.subscripts, source.rhs)
        self.places = frozenset(site for expr in exprs for site in _sites_of_places(expr))
        self.guarding = frozenset(name for expr in exprs for name in _guarding(expr))
        self.values = {v: d.base for v, d in state.positions[statement.name].items()}
        self.clamped = {v: self._clamp(v) for v in self.values}

    def _clamp(self, variable: str) -> Expr:
        digits = self.tails.get(variable)
        value = of_form(self.values[variable])
        if digits is None or digits.lane or self.adds_nothing(variable):
            return value
        low, high = digits.base.interval(self.state.bounds)
        begin, end = digits.limits
        if not surely(high, "<", end):
            value = binary("min", value, integer(end - 1))
        return value if surely(low, ">=", begin) else binary("max", value, integer(begin))

    def hold(self, block: StatementBuilder) -> None:
        """Has clamped variables in locals from here on: then what data say of a loop is seen to be
        the same in all of its iterations."""
        for variable, value in self.clamped.items():
            if variable in self.tails and not is_simple(value):
                self.clamped[variable] = block.let(value)

    def mask(self, read: p.Read) -> Expr | None:
        """The condition that the lanes of a read are in the domain, None if they all are. Where
        guards alone keep a read in its tensor, this goes for their variables, too: beyond the
        domain they may hold where the text has no instance."""
        used = {e.name for s in read.subscripts for e in p.walk(s) if isinstance(e, p.Index)}
        lanes = [v for v in self.tails if v in used and self.tails[v].lane]
        if self._relies_on_guards(read):
            lanes += [v for v in self.tails if v in self.guarding and v not in used]
        tests = [t for v in lanes for t in _tests(v, self.statement, self.state)]
        return reduce(logical_and, tests) if tests else None

    def _relies_on_guards(self, read: p.Read) -> bool:
        """Whether a read may leave its tensor in the box of the statement."""
        access = self.accesses.get(read.site)
        if access is None or not access.guarded:
            return False
        space = closed(self.statement.ranges)
        shape = self.state.kernel.scop.shape(read.tensor)
        for form, extent in zip(access.subscripts, shape, strict=True):
            low, high = (-1, 0) if form is None else form.interval(space)
            if not (surely(low, ">=", 0) and surely(high, "<", extent)):
                return True
        return False

    def adds_nothing(self, variable: str) -> bool:
        """Whether the term of a sum is 0 past the range of a variable, read where it is."""
        if self.state.kernel.launch is None:
            return False
        return adds_nothing(variable, self.statement, self.state) and all(
            self._is_held(self.gathers.get(site, access))
            for site, access in self.accesses.items()
            if site not in self.places
        )

    def override(self, expr: p.Expr, block: StatementBuilder) -> Expr | None:
        """The value of a read (or of a pad of one) that this class lowers itself."""
        match expr:
            case p.Select(then=p.Read() as read, otherwise=p.Literal(value=value), padded=True):
                access, placed = self.accesses.get(read.site), self.state.innermost(read.tensor)
                fill = None if placed is None else placed.tile.copy.fill
                if access is None or fill is None or repr(float(fill)) != repr(float(value)):
                    return None
                if self._is_held(access):
                    return self._loaded(read.tensor, self._element(access))
            case p.Read() if expr.site in self.accesses:
                return self._from_memory(expr, block)
        return None

    def _from_memory(self, read: p.Read, block: StatementBuilder) -> Expr | None:
        """The element in a buffer, or in memory, if its subscripts are linear and not checked."""
        access, gather = self.accesses[read.site], self.gathers.get(read.site)
        held = next((a for a in (gather, access) if a is not None and self._is_held(a)), None)
        if held is not None:
            return self._loaded(held.tensor, self._element(held))
        if gather is not None and self._fits(gather):
            access = gather
        elif self.state.innermost(read.tensor) is None and (
            read.site in block.scope.checked or None in access.subscripts
        ):
            return None
        forms = [s for s in access.subscripts if s is not None]
        values = dict(self.values)
        state = self.state
        for v in dict.fromkeys(v for form in forms for v in form.terms):  # in one order always
            if v in self.tails and not self.tails[v].lane:
                values[v], state = self._local(v, block, state)
        element = tuple(form.substituted(values) for form in forms)
        value = self._loaded(access.tensor, element, state)
        mask = self.mask(read)
        return value if mask is None else select(mask, value, constant(0, value.dtype))

    def _is_held(self, access: Access) -> bool:
        """Whether a buffer has what is read, beyond the range too: of places it may then have what
        the program does not read, and is no place."""
        tails = {v for form in access.subscripts if form is not None for v in form.terms}
        is_place = access.site in self.places and not tails.isdisjoint(self.tails)
        return not is_place and self._fits(access)

    def misses(self) -> bool:
        """Whether a buffer may not have the place of a read that is clamped: all of a launch's
        tile may lie beyond the range."""
        return any(
            self.state.innermost(access.tensor) is not None and not self._is_held(access)
            for access in (*self.accesses.values(), *self.gathers.values())
        )

    def _fits(self, access: Access) -> bool:
        """Whether what is read is surely in a buffer."""
        placed = self.state.innermost(access.tensor)
        return placed is not None and self.state.fits(placed, self._element(access))

    def _element(self, access: Access) -> tuple[LinearForm, ...]:
        return _element(access, self.statement, self.state)

    def _loaded(
        self, tensor: str, element: tuple[LinearForm, ...], state: EmitScope | None = None
    ) -> Expr:
        value = (state or self.state).load(tensor, element)
        return cast(value, value.dtype.computed)

    def _local(
        self, variable: str, block: StatementBuilder, state: EmitScope
    ) -> tuple[LinearForm, EmitScope]:
        """A clamped variable, held by a local."""
        clamped = self.clamped[variable]
        if isinstance(clamped, ir.Const):
            return Form(as_integer(clamped.value), {}), state
        local = clamped if isinstance(clamped, ir.Var) else block.let(clamped)
        begin, end = self.tails[variable].limits
        return Form(0, {local.name: 1}), state.bound(local.name, begin, end - 1)


# --- sums beyond the end of their reduction ---------------------------------------------------


def adds_nothing(variable: str, statement: ScopStatement, state: EmitScope) -> bool:
    """Whether a statement would add 0 for values of a variable of its reduction past its range."""
    if statement.op != "+" or variable not in statement.reduction:
        return False
    accesses = {a.site: a for a in statement.reads if a.site >= 0}
    accesses |= {a.site: a for a in statement.gathers if state.innermost(a.tensor) is not None}
    rhs = state.kernel.scop.shaped.statements[statement.position].statement.rhs
    return _is_zero(rhs, lambda site: _is_outside(accesses.get(site), variable, statement, state))


def runs_on(member: Member, names: list[str], state: EmitScope) -> bool:
    """Whether a loop may run past the ends of all reductions that it runs."""
    statements = [state.kernel.scop.statement(name) for name in names]
    variables = [member.values[s.name].variable for s in statements]
    return all(
        v is not None and adds_nothing(v, s, state)
        for v, s in zip(variables, statements, strict=True)
    )


def _is_zero(expr: p.Expr, is_outside: Callable[[int], bool]) -> bool:
    """Whether a value is 0 where some reads are."""
    match expr:
        case p.Read(site=site):
            return is_outside(site)
        case p.Binary(op="+" | "-" | "*", left=left, right=right):
            return _is_zero(left, is_outside) and _is_zero(right, is_outside)
        case p.Unary(operand=operand) | p.Convert(operand=operand):
            return _is_zero(operand, is_outside)
        case p.Select(then=then, otherwise=otherwise):
            return _is_zero(then, is_outside) and _is_zero(otherwise, is_outside)
        case p.Literal():
            return p.is_zero(expr)
        case _:
            return False


def _is_outside(
    access: Access | None, variable: str, statement: ScopStatement, state: EmitScope
) -> bool:
    """Whether a read finds the 0 of a tile that was filled, past the range of a variable."""
    placed = None if access is None else state.innermost(access.tensor)
    if access is None or placed is None or placed.tile.scope != SHARED or not placed.tile.fetch:
        return False
    if placed.tile.copy.fill is not None or state.outside(placed).innermost(access.tensor):
        return False
    end = statement.ranges[variable][1]
    limits = placed.tile.limits or whole(access.tensor, state.kernel.scop)
    for subscript, (_, last) in zip(access.subscripts, limits, strict=True):
        if subscript is not None and set(subscript.terms) == {variable}:
            factor = subscript.terms[variable]
            if factor > 0 and subscript.constant + factor * end >= last:
                return True
    return False
