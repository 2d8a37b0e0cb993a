"""Ranges whose bounds use other index variables of the statement (W2): the ends at which an access
in a dependent variable is least and greatest, and the hull of the range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tc import sets
from tc.affine.intervals import Box
from tc.dtypes import INT64
from tc.semantics import affine
from tc.semantics import program as p
from tc.semantics.affine import Guard
from tc.semantics.size_values import KnownSizes

LOW, HIGH = "low", "high"


def dependent(statement: p.Statement) -> dict[str, p.WhereRange]:
    """The ranges that use other index variables in affine form, by variable, each behind those
    that its bounds use."""
    return {c.variable: c for c in in_order(statement) if c.kind == p.AFFINE}


def in_order(statement: p.Statement) -> tuple[p.WhereRange, ...]:
    """The ranges of the `where`, each behind those of the variables in its bounds (the checker
    refuses circles)."""
    open_ = list(statement.where)
    done: list[p.WhereRange] = []
    while open_:
        waiting = {clause.variable for clause in open_}
        free = next(c for c in open_ if not waiting & set(c.depends_on))
        done.append(free)
        open_.remove(free)
    return tuple(done)


def rows_first(variables: Iterable[str], statement: p.Statement) -> list[str]:
    """Variables in an order in which rows come before what is in them: so loops go, and so errors
    tell where they are."""
    inside = [clause.variable for clause in in_order(statement) if clause.depends_on]
    return sorted(variables, key=lambda v: inside.index(v) + 1 if v in inside else 0)


def domain_guards(statement: p.Statement, variables: set[str] | None = None) -> tuple[Guard, ...]:
    """The conditions that the ranges of the `where` say which do not follow from sizes alone; of
    `variables` and what their bounds use, where given."""
    clauses = [c for c in in_order(statement) if c.kind != p.SIZES]
    if variables is not None:
        needed = set(variables)
        for clause in reversed(clauses):
            if clause.variable in needed:
                needed |= set(clause.depends_on)
        clauses = [clause for clause in clauses if clause.variable in needed]
    return tuple((test, True) for clause in clauses for test in tests_of(clause))


def tests_of(clause: p.WhereRange) -> tuple[p.Compare, ...]:
    """The conditions `begin <= variable` and `variable < end`, for each part of a `begin` that is a
    maximum, and of an `end` that is a minimum: so each is a comparison with what is linear, mostly.
    """
    index = p.Index(clause.variable, span=clause.span)
    begins, ends = _parts(clause.begin, "max"), _parts(clause.end, "min")
    return (
        *(p.Compare("<=", begin, index, span=clause.span) for begin in begins),
        *(p.Compare("<", index, end, span=clause.span) for end in ends),
    )


def _parts(expr: p.Expr, op: str) -> tuple[p.Expr, ...]:
    """The operands of maxima, or minima, in one another."""
    match expr:
        case p.Binary(left=left, right=right) if expr.op == op:
            return _parts(left, op) + _parts(right, op)
    return (expr,)


# --- accesses ---------------------------------------------------------------------------------


def ends_of(expr: p.Expr, statement: p.Statement, side: str) -> p.Expr | None:
    """A subscript with an end of its range in place of each dependent variable: that at which the
    subscript is least (LOW), or greatest (HIGH); None where the subscript may rise and fall."""
    for variable, clause in reversed(dependent(statement).items()):
        way = direction(expr, variable)
        if way is None:
            return None
        if way == 0:
            continue
        is_first = (way > 0) == (side == LOW)
        expr = substituted(expr, variable, clause.begin if is_first else _last(clause))
    return expr


def _last(clause: p.WhereRange) -> p.Expr:
    one = p.Literal(1, INT64, span=clause.end.span)
    return p.Binary("-", clause.end, one, INT64, span=clause.end.span)


def direction(expr: p.Expr, variable: str) -> int | None:
    """1 where an integer expression never falls as a variable grows, -1 where it never rises, 0
    where the variable does not occur; None where none of this is known from its form."""
    if variable not in p.index_names(expr):
        return 0
    match expr:
        case p.Index():
            return 1
        case p.Convert(operand=operand) if expr.dtype.is_integer:
            return direction(operand, variable)
        case p.Unary(operand=operand):
            return _times(direction(operand, variable), -1)
        case p.Binary(op=("+" | "min" | "max"), left=left, right=right):
            return _both(direction(left, variable), direction(right, variable))
        case p.Binary(op="-", left=left, right=right):
            return _both(direction(left, variable), _times(direction(right, variable), -1))
        case p.Binary(op="*", left=left, right=right):
            for factor, operand in ((left, right), (right, left)):
                if (sign := _sign(factor)) is not None:
                    return _times(direction(operand, variable), sign)
            return None
        case p.Binary(op="/", left=left, right=right) if _sign(right) == 1:
            return direction(left, variable)
        case _:
            return None


def _sign(factor: p.Expr) -> int | None:
    match factor:
        case p.Literal(value=value):
            return 1 if value >= 0 else -1
        case p.Size() | p.Extent():
            return 1
        case p.Convert(operand=operand):
            return _sign(operand)
        case p.Unary(operand=operand):
            return _times(_sign(operand), -1)
    return None


def _times(way: int | None, sign: int) -> int | None:
    return None if way is None else way * sign


def _both(first: int | None, second: int | None) -> int | None:
    if first is None or second is None:
        return None
    return first or second if first * second >= 0 else None


def substituted(expr: p.Expr, variable: str, value: p.Expr) -> p.Expr:
    """The expression with a value in place of an index variable."""
    if isinstance(expr, p.Index):
        return value if expr.name == variable else expr
    if variable not in p.index_names(expr):
        return expr
    return p.with_children(
        expr, tuple(substituted(child, variable, value) for child in p.children(expr))
    )


# --- hulls ------------------------------------------------------------------------------------


def hull(
    clause: p.WhereRange,
    statement: p.Statement,
    ranges: Mapping[str, p.Range],
    known: KnownSizes,
) -> tuple[int, int] | None:
    """The least begin and the greatest end of a dependent range over the values of the variables
    in its bounds, of those ranges that are not empty; None where all are."""
    names = _upstream(clause, statement)
    box = affine.box_of(ranges, names)
    if any(last < first for first, last in box.values()):
        return None
    simple = _simple_hull(clause, box, known) if _are_boxes(names, statement) else None
    if simple is not None:
        return simple if simple[0] < simple[1] else None
    guards = [
        (test, True)
        for name, each in dependent(statement).items()
        if name in names
        for test in tests_of(each)
    ]
    with sets.bounded():
        space = sets.Space(names)
        begin = affine.function_of(clause.begin, known, space)
        end = affine.function_of(clause.end, known, space)
        points = space.box(box).intersect(affine.points_of_guards(tuple(guards), known, space))
        points = points.intersect(sets.compare("<", begin, end))
        if sets.point(points, space) is None:
            return None
        return sets.smallest_value(points, begin), sets.largest_value(points, end)


def _upstream(clause: p.WhereRange, statement: p.Statement) -> tuple[str, ...]:
    """The variables that the bounds use, and those that the affine ranges of these use."""
    clauses = dependent(statement)
    found = list(clause.depends_on)
    for name in found:  # grows on the way
        if name in clauses:
            found += [n for n in clauses[name].depends_on if n not in found]
    return tuple(found)


def _are_boxes(names: tuple[str, ...], statement: p.Statement) -> bool:
    return not dependent(statement).keys() & set(names)


def _simple_hull(clause: p.WhereRange, box: Box[str], known: KnownSizes) -> tuple[int, int] | None:
    """The hull where one bound is a number and the other a linear form: the range that is widest
    has both ends."""
    begin = affine.linear_form(clause.begin, known)
    end = affine.linear_form(clause.end, known)
    if begin is None or end is None or (begin.terms and end.terms):
        return None
    return begin.interval(box)[0], end.interval(box)[1]
