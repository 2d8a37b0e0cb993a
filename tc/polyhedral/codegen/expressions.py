"""Lowering expressions: the checked program's to the kernel IR's.

An expression becomes one kernel expression, with statements before it where it needs them: a
test before a read or division that may fail (G7), and locals where it would nest too deep.
Statements that belong to a branch of `?:`, `&&` or `||` run only if the branch is taken (Y6).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import TypeAlias

from tc import builtins
from tc.affine.intervals import Interval
from tc.dtypes import BOOL, DType
from tc.kernel import ir
from tc.kernel.folding import (
    FALSE,
    TRUE,
    as_stored,
    binary,
    bits_of,
    cast,
    compare,
    constant,
    depth,
    integer,
    is_simple,
    logical_and,
    logical_not,
    negation,
    reinterpreted,
    select,
)
from tc.kernel.intervals import interval
from tc.kernel.ir import Const, Fail, If, Let, Set, Site, Stmt, Var, unknown_node
from tc.polyhedral.codegen.context import NameSupply
from tc.semantics import program as p

MAX_DEPTH = 20
"""Expressions are cut into locals beyond this depth: Python's parser has a limit."""

MAX_LEVEL = 8
"""Ifs that come from nested branches are nested up to this level, then guarded one by one."""


@dataclass(frozen=True)
class Scope:
    """What the expressions of one statement are lowered in.

    `variables` gives each index variable as a kernel expression (a loop variable, or a constant
    where the range is one value). `checked` holds the sites that get a test. `bounds` grows with
    the locals, and `sites` with the tests, over the whole kernel. `override` may lower an
    expression in its own way, and `mask` gives the condition under which a read may touch memory at
    all, if there is one.
    """

    shaped: p.ShapedProgram
    position: int
    variables: Mapping[str, ir.Expr]
    checked: frozenset[int]
    names: NameSupply
    bounds: dict[str, Interval]
    sites: dict[tuple[int, int], Site]
    override: Callable[[p.Expr, StatementBuilder], ir.Expr | None]
    mask: Callable[[p.Read], ir.Expr | None]


@dataclass
class StatementBuilder:
    """Statements in the making. With a `guard`, each runs only if that local holds."""

    scope: Scope
    level: int = 0
    guard: Var | None = None
    stmts: list[Stmt] = field(default_factory=list)

    def add(self, stmt: Stmt) -> None:
        self.stmts.append(stmt if self.guard is None else If(self.guard, (stmt,)))

    def let(self, value: ir.Expr) -> Var:
        """A local that holds a value and is never set again."""
        if self.guard is not None:
            result = self.variable(value.dtype)
            self.add(Set(result.name, value))
            return result
        result = Var(self.scope.names.fresh("t0", value.dtype), value.dtype)
        if value.dtype.is_integer:
            self.scope.bounds[result.name] = interval(value, self.scope.bounds)
        self.stmts.append(Let(result.name, value))
        return result

    def variable(self, dtype: DType) -> Var:
        """A local that starts at zero, to be set."""
        result = Var(self.scope.names.fresh("t0", dtype), dtype)
        self.stmts.append(Let(result.name, constant(0, dtype)))
        return result


Branch: TypeAlias = Callable[[StatementBuilder], ir.Expr]
"""Lowers one branch into the block given, and gives its value."""


def lower_expression(expr: p.Expr, block: StatementBuilder) -> ir.Expr:
    """The kernel expression of the same value; half comes as float32 (Y8).

    What must run before it is added to the block.
    """
    lowered = _lower(expr, block)
    return block.let(lowered) if depth(lowered) > MAX_DEPTH else lowered


def _lower(expr: p.Expr, block: StatementBuilder) -> ir.Expr:
    scope = block.scope
    own = scope.override(expr, block)
    if own is not None:
        return own
    match expr:
        case p.Literal(value=value, dtype=dtype):
            return constant(value, dtype)
        case p.Size(name=name, dtype=dtype):
            return constant(scope.shaped.sizes[name], dtype)
        case p.Extent(tensor=tensor, axis=axis, dtype=dtype):
            return constant(scope.shaped.shapes[tensor][axis], dtype)
        case p.Index(name=name, dtype=dtype):
            return cast(scope.variables[name], dtype)
        case p.Read():
            return _read(expr, block)
        case p.Unary(operand=operand):
            return negation(lower_expression(operand, block))
        case p.Binary(op="<<" | ">>" as op, left=left, right=right):
            return _shift(op, lower_expression(left, block), lower_expression(right, block), block)
        case p.Binary(op=op, left=left, right=right, site=site):
            first, second = lower_expression(left, block), lower_expression(right, block)
            if site in scope.checked:
                return _checked_division(op, first, second, site, block)
            return binary(op, first, second)
        case p.Compare(op=op, left=left, right=right):
            first, second = lower_expression(left, block), lower_expression(right, block)
            return compare(op, first, second, scope.bounds)
        case p.Logical():
            return _logical(expr, block)
        case p.Select(condition=condition, then=then, otherwise=otherwise):
            test = lower_expression(condition, block)
            return _choose(test, _branch(then), _branch(otherwise), block)
        case p.Call(function=function, args=args, dtype=dtype):
            lowered = tuple(lower_expression(arg, block) for arg in args)
            return ir.Call(function, lowered, dtype)
        case p.Convert(operand=operand, dtype=dtype):
            inner = lower_expression(operand, block)
            if dtype.is_storage:
                return ir.Cast(cast(inner, dtype), dtype.computed)
            return cast(inner, dtype)
        case p.Bits(operand=operand, dtype=dtype):
            inner = lower_expression(operand, block)
            if operand.dtype.is_storage:
                return bits_of(as_stored(inner, operand.dtype))
            if dtype.is_storage:
                return ir.Cast(ir.Bits(inner, dtype), dtype.computed)
            return reinterpreted(inner, dtype)
        case p.Check():
            return _check(expr, block)
        case _:
            raise unknown_node(expr)


def _check(check: p.Check, block: StatementBuilder) -> ir.Expr:
    """0, behind tests of which the first that fails ends the others."""
    zero = constant(0, check.dtype)
    if p.CHECKED not in block.scope.checked:
        return zero

    def fail(inside: StatementBuilder) -> ir.Expr:
        told = tuple(lower_expression(value, inside) for value in check.told)
        return _failure(check.kind, p.CHECKED, told, check.dtype, check.others)(inside)

    def after(tests: tuple[p.Expr, ...]) -> Branch:
        if not tests:
            return lambda _: zero
        first, *rest = tests
        return lambda inside: _choose(
            lower_expression(first, inside), after(tuple(rest)), fail, inside
        )

    return after(check.tests)(block)


def _shift(op: str, left: ir.Expr, count: ir.Expr, block: StatementBuilder) -> ir.Expr:
    """A shift by any count (Y11), of one by less than the bits of the type."""
    dtype, bits = left.dtype, left.dtype.bits
    low, high = interval(count, block.scope.bounds)
    if low >= 0 and high < bits:
        return binary(op, left, cast(count, dtype))
    place = cast(count, count.dtype.unsigned)
    last = constant(bits - 1, place.dtype)
    if op == ">>" and dtype.kind == "int":  # what is left are copies of the sign
        return binary(op, left, cast(binary("min", place, last), dtype))
    place = place if is_simple(place) else block.let(place)
    kept = binary(op, left, cast(binary("&", place, last), dtype))
    return select(compare("<=", place, last, block.scope.bounds), kept, constant(0, dtype))


def _branch(expr: p.Expr) -> Branch:
    return lambda block: lower_expression(expr, block)


def _logical(expr: p.Logical, block: StatementBuilder) -> ir.Expr:
    left, *others = expr.operands
    test = lower_expression(left, block)
    match expr.op:
        case "&&":
            return _choose(test, _branch(*others), lambda _: FALSE, block)
        case "||":
            return _choose(test, lambda _: TRUE, _branch(*others), block)
        case _:
            return logical_not(test)


def _read(read: p.Read, block: StatementBuilder) -> ir.Expr:
    scope = block.scope
    if read.tensor in scope.shaped.scalars:
        return constant(scope.shaped.scalars[read.tensor], read.dtype)
    indices = tuple(lower_expression(subscript, block) for subscript in read.subscripts)
    if read.site not in scope.checked:
        return _masked_load(scope, read, indices)
    places = tuple(
        index if is_simple(index) or _is_certain(read, axis, scope) else block.let(index)
        for axis, index in enumerate(indices)
    )
    shape = scope.shaped.shapes[read.tensor]
    tests: dict[int, ir.Expr] = {
        axis: logical_and(
            compare(">=", place, integer(0), scope.bounds),
            compare("<", place, integer(extent), scope.bounds),
        )
        for axis, (place, extent) in enumerate(zip(places, shape, strict=True))
        if not _is_certain(read, axis, scope)
    }
    no_test: ir.Expr = TRUE
    is_inside = reduce(logical_and, tests.values(), no_test)
    fail = _failure("read", read.site, places, read.dtype.computed)
    if 0 in shape or isinstance(is_inside, Const):
        return _choose(is_inside, lambda _: _masked_load(scope, read, places), fail, block)
    # what a call that fails computes does not matter: any element will do, without a branch
    is_inside = is_inside if is_simple(is_inside) else block.let(is_inside)
    failing = StatementBuilder(scope, block.level + 1)
    fail(failing)
    block.add(If(logical_not(is_inside), tuple(failing.stmts)))
    safe = (select(is_inside, p, integer(0)) if a in tests else p for a, p in enumerate(places))
    return _masked_load(scope, read, tuple(safe))


def _is_certain(read: p.Read, axis: int, scope: Scope) -> bool:
    """Whether a subscript is a variable whose whole range is in bounds."""
    subscript = read.subscripts[axis]
    if not isinstance(subscript, p.Index):
        return False
    known = scope.shaped.statements[scope.position].ranges[subscript.name]
    return known.begin >= 0 and known.end <= scope.shaped.shapes[read.tensor][axis]


def _masked_load(scope: Scope, read: p.Read, indices: tuple[ir.Expr, ...]) -> ir.Expr:
    dtype = scope.shaped.program.tensors[read.tensor].dtype
    value = cast(ir.Load(read.tensor, indices, dtype), dtype.computed)
    mask = scope.mask(read)
    return value if mask is None else select(mask, value, constant(0, value.dtype))


def _checked_division(
    op: str, dividend: ir.Expr, divisor: ir.Expr, site: int, block: StatementBuilder
) -> ir.Expr:
    place = divisor if is_simple(divisor) else block.let(divisor)
    return _choose(
        compare("!=", place, constant(0, place.dtype), block.scope.bounds),
        lambda _: binary(op, dividend, place),
        _failure("division", site, (), place.dtype),
        block,
    )


def _failure(
    kind: str,
    expression: int,
    places: tuple[ir.Expr, ...],
    dtype: DType,
    others: tuple[str, ...] = (),
) -> Branch:
    """The branch that records a failed check, with the value 0; `places` are first the values of
    index variables that the statement has no more."""

    def fail(block: StatementBuilder) -> ir.Expr:
        scope = block.scope
        key = scope.position, expression
        scope.sites.setdefault(key, Site(kind, *key, (*scope.variables, *others)))
        number = list(scope.sites).index(key)
        block.add(Fail(number, (*scope.variables.values(), *places)))
        return constant(0, dtype)

    return fail


def _choose(
    condition: ir.Expr, then: Branch, otherwise: Branch, block: StatementBuilder
) -> ir.Expr:
    """`condition ? then : otherwise`: as one expression where neither needs statements."""
    if isinstance(condition, Const):
        return then(block) if condition.value else otherwise(block)
    if block.level == MAX_LEVEL:
        return _choose_flat(condition, then, otherwise, block)
    yes, no = (StatementBuilder(block.scope, block.level + 1) for _ in range(2))
    first, second = then(yes), otherwise(no)
    if not yes.stmts and not no.stmts:
        return select(condition, first, second)
    result = block.variable(first.dtype)
    zero = constant(0, first.dtype)
    block.add(If(condition, _ending(yes, result, first, zero), _ending(no, result, second, zero)))
    return result


def _ending(block: StatementBuilder, result: Var, value: ir.Expr, known: Const) -> tuple[Stmt, ...]:
    """The statements of a branch and the setting of its result, unless it is what it starts as
    (by `repr`, as -0.0 is not 0.0)."""
    is_set = repr(value) == repr(known)
    return (*block.stmts, *(() if is_set else (Set(result.name, value),)))


def _choose_flat(
    condition: ir.Expr, then: Branch, otherwise: Branch, block: StatementBuilder
) -> ir.Expr:
    """The same without nesting: each statement of a branch is guarded by a local of its own."""
    names, own = block.scope.names, block.guard
    is_yes, is_no = (Var(names.fresh("g0", BOOL), BOOL) for _ in range(2))
    yes, no = (StatementBuilder(block.scope, block.level, guard) for guard in (is_yes, is_no))
    first, second = then(yes), otherwise(no)
    if not yes.stmts and not no.stmts:
        return select(condition, first, second)
    test = block.let(condition)
    for guard, value in ((is_yes, test), (is_no, logical_not(test))):
        block.stmts.append(Let(guard.name, value if own is None else logical_and(own, value)))
    block.stmts += (*yes.stmts, *no.stmts)
    result = block.variable(first.dtype)
    block.stmts.append(If(is_yes, (Set(result.name, first),)))
    block.stmts.append(If(is_no, (Set(result.name, second),)))
    return result


def identity(op: str, dtype: DType) -> Const:
    """The value that a reduction by `op` starts at (R2).

    >>> from tc.dtypes import INT64
    >>> identity("+", INT64).value, identity("min", BOOL).value
    (0, True)
    """
    return constant(builtins.identity(op, dtype), dtype)
