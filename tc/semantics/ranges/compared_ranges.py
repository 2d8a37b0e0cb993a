"""Ranges of index variables that conditions of a `where` tell, for the repairs of errors: `k < 3`
is `k in 0:3`. Range inference itself does not look at conditions (W1)."""

from __future__ import annotations

from typing import NamedTuple

from tc.semantics import program as p
from tc.semantics.faults import written_name
from tc.semantics.program import index_names
from tc.semantics.ranges.rounds import ShapingContext
from tc.semantics.size_values import KnownSizes, evaluate
from tc.source import Span

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "=="}


class ComparedRange(NamedTuple):
    """The values for which the condition at `span` holds; without an end, the first two of them."""

    begin: int
    end: int
    text: str
    span: Span
    has_end: bool


class _Bounds(NamedTuple):
    begin: tuple[int, str] | None = None
    end: tuple[int, str] | None = None


def compared_ranges(statement: p.Statement, known: KnownSizes) -> dict[str, ComparedRange]:
    """The ranges that single conditions tell which say nothing else, by variable."""
    ranges: dict[str, ComparedRange] = {}
    many: set[str] = set()
    for condition in statement.conditions:
        many |= ranges.keys() & set(index_names(condition))
        found = _range(condition, known)
        if found is not None:
            ranges.setdefault(found[0], found[1])
    return {name: found for name, found in ranges.items() if name not in many}


def _range(condition: p.Expr, known: KnownSizes) -> tuple[str, ComparedRange] | None:
    """The variable of a condition, and its range; None where the condition says something else."""
    is_both = isinstance(condition, p.Logical) and condition.op == "&&"
    parts = [_bounds(part, known) for part in (p.children(condition) if is_both else (condition,))]
    names = {part[0] for part in parts if part is not None}
    if len(names) != 1 or None in parts:
        return None
    begins = [part[1].begin for part in parts if part is not None and part[1].begin is not None]
    ends = [part[1].end for part in parts if part is not None and part[1].end is not None]
    if len(begins) > 1 or len(ends) > 1:
        return None
    begin, first = begins[0] if begins else (0, "0")
    end, last = ends[0] if ends else (begin + 2, str(begin + 2))
    if not 0 <= begin < end or (not ends and not first.isdecimal()):
        return None
    return names.pop(), ComparedRange(begin, end, f"{first}:{last}", condition.span, bool(ends))


def _bounds(test: p.Expr, known: KnownSizes) -> tuple[str, _Bounds] | None:
    """The variable and the bounds of `k < 3`, `3 > k` and `k == 3`."""
    if not isinstance(test, p.Compare) or test.op not in _MIRRORED:
        return None
    op, left, right = test.op, _bare(test.left), _bare(test.right)
    if isinstance(right, p.Index):
        op, left, right = _MIRRORED[op], right, left
    if not isinstance(left, p.Index) or index_names(right):
        return None
    value = evaluate(right, known)
    if value is None:
        return None
    at, behind = (value, right.span.line), (value + 1, _next(right))
    bounds = {
        "<": _Bounds(None, at),
        "<=": _Bounds(None, behind),
        ">": _Bounds(behind),
        ">=": _Bounds(at),
        "==": _Bounds(at, behind),
    }
    return left.name, bounds[op]


def _bare(expr: p.Expr) -> p.Expr:
    """The operand without conversions that the text does not have."""
    while isinstance(expr, p.Convert) and not expr.written:
        expr = expr.operand
    return expr


def _next(expr: p.Expr) -> str:
    text = expr.span.line
    return str(int(text) + 1) if text.isdecimal() else f"{text} + 1"


# --- what else is probably meant ---------------------------------------------------------------


def size_instead(statement: p.Statement, variable: str) -> str:
    """That the size of the target gives the box of a variable of the left side (S4)."""
    name = written_name(statement, statement.target)
    bare = [s.name if isinstance(s, p.Index) else "" for s in statement.subscripts]
    if variable not in bare:
        return ""
    return f"; where ..., {name}.{bare.index(variable)} = N, with the size of '{name}' for N"


def number_given(context: ShapingContext, names: list[str]) -> str | None:
    """An open variable that stands in no value and in no place alone, but in conditions and beside
    others in places: probably a number that the caller was to give."""
    bare = {s.name for s in context.statement.subscripts if isinstance(s, p.Index)}
    read = {n for r in context.accesses.reads for a in r.accesses for n in a.variables}
    values = {n for value in context.statement.values for n in index_names(value)}
    ranged = {clause.variable for clause in context.statement.where}
    return next((n for n in names if n not in {*bare, *read, *values, *ranged}), None)
