"""Affine forms of typed expressions, for the sizes of one call (G2).

Two grades. *Linear*: a sum of index variables times constants; all questions about it over a box
of index values are answered by plain arithmetic. *Quasi-affine*: also `/` and `%` by a positive
constant, `min`, `max`, `?:` on affine conditions; isl answers. Integer casts count as the identity;
whoever relies on that checks with `ranges.index_intervals` that no value wraps around.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from tc import sets
from tc.affine.forms import Form, LinearForm
from tc.affine.intervals import Box
from tc.builtins.operators import ON_BITS
from tc.dtypes import BOOL
from tc.semantics import program as p
from tc.semantics.size_values import KnownSizes, evaluate

MAX_PIECES = 8
"""How many / % min max ?: an expression may have and still count as affine: each may double the
pieces of the function, and isl's time grows with them faster than its quota tells."""

MAX_GUARD_PIECES = 16
"""The most guards of one access, and the most of the operations / % min max ?: && || in them, with
which isl is asked."""

Guard: TypeAlias = tuple[p.Expr, bool]
"""A condition and the value that it has where the guarded expression is evaluated."""


# --- linear forms -----------------------------------------------------------------------------


def linear_form(expr: p.Expr, known: KnownSizes, *, exact: bool = False) -> LinearForm | None:
    """The linear form of an integer expression, None if it has none or a constant in it is not
    known.

    Casts between integers count as the identity. With `exact` there is no form where one of them
    may change a value, or where a sum is made in a narrower type than int64: where the mathematical
    value of an exact form fits int64, the computed one is the same.
    """
    match expr:
        case p.Index(name=name):
            return Form(0, {name: 1})
        case p.Unary(operand=operand) if not expr.dtype.is_float:
            form = linear_form(operand, known, exact=exact)
            return form and form.times(-1)
        case p.Binary(op=("+" | "-") as op, left=left, right=right) if not expr.dtype.is_float:
            if exact and expr.dtype.bits != 64:
                return None
            a = linear_form(left, known, exact=exact)
            b = linear_form(right, known, exact=exact)
            return a and b and a.plus(b, 1 if op == "+" else -1)
        case p.Binary(op="*", left=left, right=right) if not expr.dtype.is_float:
            for factor, operand in ((left, right), (right, left)):
                value = evaluate(factor, known)
                if value is not None:
                    form = linear_form(operand, known, exact=exact)
                    return form and form.times(value)
            return None
        case p.Convert(operand=operand, dtype=dtype) if (
            dtype.is_integer and operand.dtype.is_integer and p.index_names(operand)
        ):
            widens = dtype.kind == "int" and dtype.bits == 64 and operand.dtype.name != "uint64"
            return linear_form(operand, known, exact=exact) if widens or not exact else None
        case _:
            value = evaluate(expr, known) if expr.dtype.is_integer else None
            return None if value is None else Form(value, {})


# --- quasi-affine expressions -----------------------------------------------------------------


def is_affine(expr: p.Expr, known: KnownSizes) -> bool:
    """Whether an integer expression is quasi-affine (G2), its constants known."""
    return pieces(expr) <= MAX_PIECES and _is_affine(expr, known)


def is_affine_condition(expr: p.Expr, known: KnownSizes) -> bool:
    """Whether a condition is built from comparisons of quasi-affine expressions alone."""
    return pieces(expr) <= MAX_PIECES and _is_affine_condition(expr, known)


def pieces(expr: p.Expr) -> int:
    """The number of operations of an expression that may split its domain into pieces."""
    count = 0
    for node in p.walk(expr):
        match node:
            case (
                p.Binary(op=("/" | "%" | "min" | "max"))
                | p.Select()
                | p.Compare(op="!=")
                | p.Logical(op=("&&" | "||"))
            ):
                count += 1
    return count


def has_too_many_pieces(expr: p.Expr, known: KnownSizes) -> bool:
    """Whether an integer expression would be quasi-affine, but for MAX_PIECES."""
    return pieces(expr) > MAX_PIECES and _is_affine(expr, known)


def _is_affine(expr: p.Expr, known: KnownSizes) -> bool:
    if expr.dtype.is_float or expr.dtype == BOOL:
        return False
    match expr:
        case p.Index():
            return True
        case p.Literal() | p.Size() | p.Extent() | p.Read():
            return evaluate(expr, known) is not None
        case p.Unary() | p.Convert() | p.Binary(op=("+" | "-" | "min" | "max")):
            return all(_is_affine(child, known) for child in p.children(expr))
        case p.Binary(op=op) if op in ON_BITS:
            return evaluate(expr, known) is not None
        case p.Binary(op="*", left=left, right=right):
            for factor, operand in ((left, right), (right, left)):
                if evaluate(factor, known) is not None:
                    return _is_affine(operand, known)
            return False
        case p.Binary(op=("/" | "%"), left=left, right=right):
            divisor = evaluate(right, known)
            return divisor is not None and divisor > 0 and _is_affine(left, known)
        case p.Select(condition=condition, then=then, otherwise=otherwise):
            return _is_affine_condition(condition, known) and all(
                _is_affine(branch, known) for branch in (then, otherwise)
            )
        case _:
            return False


def _is_affine_condition(expr: p.Expr, known: KnownSizes) -> bool:
    match expr:
        case p.Literal():
            return True
        case p.Compare(left=left, right=right) if left.dtype != BOOL:
            return _is_affine(left, known) and _is_affine(right, known)
        case p.Convert(operand=operand, dtype=dtype) if dtype == BOOL:
            return _is_affine(operand, known) or _is_affine_condition(operand, known)
        case (
            p.Compare(op=("==" | "!=")) | p.Logical() | p.Select() | p.Binary(op=("min" | "max"))
        ) if expr.dtype == BOOL:
            return all(_is_affine_condition(child, known) for child in p.children(expr))
        case _:
            return False


def box_of(ranges: Mapping[str, p.Range], names: Iterable[str]) -> Box[str]:
    """The box of some variables."""
    return {name: (ranges[name].begin, ranges[name].end - 1) for name in names}


def function_on(
    expr: p.Expr,
    known: KnownSizes,
    names: tuple[str, ...],
    box: Mapping[str, tuple[int, int | None]],
) -> tuple[sets.Space, sets.Function]:
    """The space of some variables, and an affine expression as a function on a box of it."""
    space = sets.Space(names)
    return space, function_of(expr, known, space).intersect_domain(space.box(box))


def first_outside(
    expr: p.Expr,
    extent: int,
    known: KnownSizes,
    names: tuple[str, ...],
    box: Box[str],
    guards: tuple[Guard, ...] = (),
) -> dict[str, int] | None:
    """The first point of a box where some affine guards hold and an affine expression is not in
    [0, extent). Raises TooComplex."""
    with sets.bounded():
        space, function = function_on(expr, known, names, box)
        function = function.intersect_domain(points_of_guards(guards, known, space))
        return sets.point(sets.leaving(space, function, extent), space)


def function_of(
    expr: p.Expr,
    known: KnownSizes,
    space: sets.Space,
    values: Mapping[str, sets.Function] | None = None,
) -> sets.Function:
    """The function of an affine expression, the index variables standing for `values`, or for
    those of the space."""

    def visit(node: p.Expr) -> sets.Function:
        constant = evaluate(node, known)
        if constant is not None:
            return space.constant(constant)
        match node:
            case p.Index(name=name):
                return space.variable(name) if values is None else values[name]
            case p.Unary(operand=operand):
                return sets.scale(space, visit(operand), -1)
            case p.Binary(op="*", left=left, right=right):
                factor = evaluate(left, known)
                if factor is None:
                    return sets.scale(space, visit(left), evaluate(right, known) or 0)
                return sets.scale(space, visit(right), factor)
            case p.Binary(op=("/" | "%") as op, left=left, right=right):
                divide = sets.floor_divide if op == "/" else sets.remainder
                return divide(space, visit(left), evaluate(right, known) or 1)
            case p.Binary(op=op, left=left, right=right):
                return _FUNCTIONS[op](visit(left), visit(right))
            case p.Select(condition=condition, then=then, otherwise=otherwise):
                chosen = points_where(condition, known, space, values)
                return sets.choose(chosen, visit(then), visit(otherwise))
            case p.Convert(operand=operand):
                return visit(operand)
            case _:
                raise ValueError(f"not affine: {node}")

    return visit(expr)


_FUNCTIONS = {"+": sets.add, "-": sets.subtract, "min": sets.minimum, "max": sets.maximum}


def points_of_guards(
    guards: tuple[Guard, ...],
    known: KnownSizes,
    space: sets.Space,
    values: Mapping[str, sets.Function] | None = None,
) -> sets.Points:
    """The points where all of some affine guards have their value."""
    if sum(1 + pieces(condition) for condition, _ in guards) > MAX_GUARD_PIECES:
        raise sets.TooComplex("too many guards")
    points = space.everything()
    for condition, value in guards:
        where = points_where(condition, known, space, values)
        points = points.intersect(where if value else where.complement())
    return points


def points_where(
    expr: p.Expr,
    known: KnownSizes,
    space: sets.Space,
    values: Mapping[str, sets.Function] | None = None,
) -> sets.Points:
    """The points where an affine condition holds."""

    def visit(node: p.Expr) -> sets.Points:
        match node:
            case p.Literal(value=value) | p.Convert(operand=p.Literal(value=value)):
                return space.everything() if value else space.nothing()
            case p.Compare(op=op, left=left, right=right) if left.dtype == BOOL:
                a, b = visit(left), visit(right)
                same = a.intersect(b).union(a.union(b).complement())
                return same if op == "==" else same.complement()
            case p.Compare(op=op, left=left, right=right):
                return sets.compare(op, number(left), number(right))
            case p.Logical(op="!", operands=(operand,)):
                return visit(operand).complement()
            case p.Logical(op="&&") | p.Binary(op="min"):
                left, right = p.children(node)
                return visit(left).intersect(visit(right))
            case p.Logical(op="||") | p.Binary(op="max"):
                left, right = p.children(node)
                return visit(left).union(visit(right))
            case p.Select(condition=condition, then=then, otherwise=otherwise):
                chosen = visit(condition)
                taken = chosen.intersect(visit(then))
                return taken.union(chosen.complement().intersect(visit(otherwise)))
            case p.Convert(operand=operand) if operand.dtype == BOOL:
                return visit(operand)
            case p.Convert(operand=operand):
                return sets.compare("!=", number(operand), space.constant(0))
            case _:
                raise ValueError(f"not an affine condition: {node}")

    def number(node: p.Expr) -> sets.Function:
        return function_of(node, known, space, values)

    return visit(expr)
