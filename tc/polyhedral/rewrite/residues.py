"""Taking `/` and `%` by constants out of subscripts, by cutting ranges where quotients change, and
choices between functions, `min`, `max` and `abs`, by cutting ranges where they turn.

`x((d + D/2) % D)` is `x(d + D/2)` as long as d < D/2, and `x(d - D/2)` from there on: two
statements, each with subscripts that are linear. `x(i / C) * y(i % C)` has too many quotients for
that, but with `i_div * C + i` for i it is `x(i_div) * y(i)`. Linear subscripts are what vectors,
tiles and copies need. Of `k == 0 ? sin(x(i)) : cos(x(i))` vectors compute both sides, and lanes
along k are few: a statement for each side computes its own. `x(max(i - 1, 0))` is `x(i - 1)` but
for i = 0. What is computed stays the same to the
bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from tc.affine.forms import Form, LinearForm
from tc.extents.sizes import at_hint
from tc.polyhedral.rewrite.residue_classes import residue_classes
from tc.polyhedral.rewrite.rewriting import Rewriting, unused_name
from tc.polyhedral.rewrite.simplifying import (
    bends,
    cut,
    first_beyond,
    is_walked,
    period_of,
    quotients,
    simplified,
    substituted,
    turning_points,
)
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.polyhedral.rewrite.zero_factors import selected_sum, starts_sum
from tc.semantics import program as p
from tc.semantics.affine import box_of, linear_form
from tc.semantics.size_values import KnownSizes

MIN_VECTOR_BITS = 128
"""Bits of the shortest vectors."""

MIN_STRAIGHT = 16
"""Pieces of fewer values, in which no `min`, `max` or `abs` turns, are not worth the others."""

_SHORT = frozenset(
    ("abs", "ceil", "copysign", "fabs", "fdim", "fdivide", "floor", "fma", "fmax", "fmin", "round")
    + ("rsqrt", "sqrt", "trunc")
)
"""Functions that are an instruction or a few."""


def linearise(shaped: p.ShapedProgram, thresholds: Thresholds) -> p.ShapedProgram:
    """The program with statements cut into pieces, at most `thresholds.pieces`, or with a variable
    become two, where that makes quotients along a last subscript linear: the inner one has
    `thresholds.period` values or more, or each access goes along it from one element to the next.
    What is summed is summed in longer vectors than these. Statements are cut, too, where choices
    between functions, and `min`, `max` and `abs` in subscripts, turn with a variable of the
    left-hand side.

    Statements with checks stay, and those that read what they write. A program in which nothing is
    cut is returned as it is.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> def linear(text, **shapes):
    ...     shaped = infer_ranges(check(parse(Source(text))), shapes, {})
    ...     for s in linearise(shaped, Thresholds()).statements:
    ...         print(s.statement.text, [f"{v} in {r.begin}:{r.end}" for v, r in s.ranges.items()])
    >>> linear("def f(float(D) x) -> (y) { y(d) = x(d) + x((d + D / 2) % D) }", x=(40,))
    y(d) = x(d) + x(d + 20) ['d in 0:20']
    y(d) = x(d) + x(d - 20) ['d in 20:40']
    >>> text = "{ y(k,d) = k == 0 ? sin(x(d)) : cos(x(d)) where k in 0:2 }"
    >>> linear(f"def h(float(D) x) -> (y) {text}", x=(40,))
    y(k, d) = sin(x(d)) ['k in 0:1', 'd in 0:40']
    y(k, d) = cos(x(d)) ['k in 1:2', 'd in 0:40']
    >>> text = "{ y(d) = x(min(max(d - 1, 0), D - 1)) where d in 0:D+2 }"
    >>> linear(f"def e(float(D) x) -> (y) {text}", x=(40,))
    y(d) = x(0) ['d in 0:1']
    y(d) = x(d - 1) ['d in 1:40']
    y(d) = x(D - 1) ['d in 40:42']
    >>> text = "{ z(i) = x(i / B) * y(i % B) where i in 0:A*B }"
    >>> linear(f"def g(float(A) x, float(B) y) -> (z) {text}", x=(30,), y=(20,))
    z(20 * i_div + i) = x(i_div) * y(i) ['i_div in 0:30', 'i in 0:20']
    """
    if not thresholds.pieces:
        return shaped
    rewriting, known = (
        Rewriting(shaped, "cut"),
        KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars),
    )
    sums = {
        one.statement.name: other
        for one, other in pairwise(shaped.statements)
        if starts_sum(one, other)
    }
    done: set[str] = set()

    def changed(old: p.ShapedStatement) -> list[p.ShapedStatement] | None:
        name = old.statement.name
        if name in done:
            return []
        each = sums.get(name, old)
        start = None if each is old else old
        found = _selected_classes(each, start, rewriting, known, thresholds)
        if found is not None:
            done.add(each.statement.name)
            return found
        return _linearised(old, rewriting, thresholds)

    return rewriting.program(changed)


def _selected_classes(
    old: p.ShapedStatement,
    start: p.ShapedStatement | None,
    rewriting: Rewriting,
    known: KnownSizes,
    limits: Thresholds,
) -> list[p.ShapedStatement] | None:
    """The residue classes of a sum of which remainders select the terms, with those of what it
    starts from. As each has a part of the terms only, their number alone limits the periods."""
    statement = old.statement
    reads = [n for n in p.walk(statement.rhs) if isinstance(n, p.Read)]
    is_own = any(read.tensor == statement.target for read in reads)
    if not limits.residues or old.checked or old.is_empty or is_own:
        return None
    chosen = selected_sum(old, start, rewriting, known)
    if chosen is None:
        return None
    limits = replace(limits, residues=limits.classes)
    classes = residue_classes(chosen.sum, rewriting, known, limits, chosen.start, chosen.zeros)
    return None if classes is None else [*chosen.before, *classes]


def _linearised(
    old: p.ShapedStatement, rewriting: Rewriting, limits: Thresholds
) -> list[p.ShapedStatement] | None:
    statement = old.statement
    reads = [n for n in p.walk(statement.rhs) if isinstance(n, p.Read)]
    is_own = any(read.tensor == statement.target for read in reads)
    if old.checked or old.is_empty or is_own:
        return None
    shaped = rewriting.shaped
    known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars)
    for variable in statement.variables:
        if not is_walked(statement, variable):
            continue
        divided = list(quotients(statement.rhs, variable, known))
        ends = _ends(old, variable, divided, known, limits) if divided else None
        if ends is not None:
            return _pieces(old, variable, ends, rewriting, known)
    for variable in statement.outer:
        ends = _bent(old, variable, known) if is_walked(statement, variable) else []
        if 2 < len(ends) <= limits.pieces + 1:
            return _pieces(old, variable, ends, rewriting, known)
    for variable in statement.outer:
        ends = _turns(old, variable, known)
        if 2 < len(ends) <= limits.pieces + 1:
            return _pieces(old, variable, ends, rewriting, known)
    with_periods = None
    for variable in statement.variables:
        if with_periods is None and is_walked(statement, variable):
            divided = list(quotients(statement.rhs, variable, known))
            if divided:
                with_periods = _periods(old, variable, divided, rewriting, known, limits)
    if with_periods is not None and _fills_vectors(with_periods, shaped.program):
        return [with_periods]
    classes = residue_classes(old, rewriting, known, limits) if limits.residues else None
    return classes if classes is not None or with_periods is None else [with_periods]


def _fills_vectors(new: p.ShapedStatement, program: p.Program) -> bool:
    """Whether the inner one of a variable that became two fills vectors, so that these are loaded
    and stored as they are, and no statement before it could give it values in registers."""
    read = {n.tensor for n in p.walk(new.statement.rhs) if isinstance(n, p.Read)}
    if any(program.tensors[tensor].role == "temporary" for tensor in read):
        return False
    inner = next(v for v in reversed(new.statement.variables) if f"{v}_div" in new.ranges)
    extent, bits = new.ranges[inner].extent, program.tensors[new.statement.target].dtype.bits
    return extent & (extent - 1) == 0 and extent * bits >= MIN_VECTOR_BITS


# --- pieces of a range ------------------------------------------------------------------------


def _ends(
    old: p.ShapedStatement,
    variable: str,
    divided: list[tuple[LinearForm, int]],
    known: KnownSizes,
    limits: Thresholds,
) -> list[int] | None:
    """Where the pieces of a variable's range begin, and the last one ends, in each of which all
    quotients, and comparisons of nothing else, have one value; None where they have not in any, or
    in many pieces only."""
    begin, end = old.ranges[variable].begin, old.ranges[variable].end
    found = list(turning_points(old.statement.rhs, variable, known))
    for form, divisor in divided:
        factor = form.terms[variable]
        if any(c % divisor for name, c in form.terms.items() if name != variable):
            return None
        first, last = sorted(form.constant + factor * v for v in (begin, end - 1))
        if at_hint(last // divisor - first // divisor) > min(at_hint(end - begin), limits.pieces):
            return None
        for quotient in range(first // divisor + 1, last // divisor + 1):
            found.append(first_beyond(factor, form.constant - quotient * divisor))
    ends = cut((begin, end), found)
    return ends if len(ends) <= limits.pieces + 1 else None


def _bent(old: p.ShapedStatement, variable: str, known: KnownSizes) -> list[int]:
    """Where the pieces of a variable's range begin, and the last one ends, that `min`, `max` and
    `abs` in subscripts cut: as at the edges of an image, beyond which its last elements, or its
    mirror image, are read. The range as a whole where no piece is most of it."""
    statement, whole = old.statement, old.ranges[variable]
    others = box_of(old.ranges, (v for v in statement.variables if v != variable))
    ends = cut((whole.begin, whole.end), bends(statement.rhs, variable, known, others))
    longest = max(end - begin for begin, end in pairwise(ends))
    is_most = at_hint(2 * longest) > at_hint(whole.extent) and at_hint(longest) >= MIN_STRAIGHT
    return ends if is_most else [whole.begin, whole.end]


def _turns(old: p.ShapedStatement, variable: str, known: KnownSizes) -> list[int]:
    """Where the pieces of a variable's range begin, and the last one ends, in each of which choices
    that turn with nothing else have one value: those between sides that both call functions that
    take many operations. Of others the kernel's loops are cut, or masks are cheaper."""
    found: list[int] = []
    for node in p.walk(old.statement.rhs):
        if isinstance(node, p.Select) and all(map(_calls, (node.then, node.otherwise))):
            found += turning_points(node.condition, variable, known)
    return cut((old.ranges[variable].begin, old.ranges[variable].end), found)


def _calls(expr: p.Expr) -> bool:
    """Whether an expression has a function of many operations."""
    return any(isinstance(node, p.Call) and node.function not in _SHORT for node in p.walk(expr))


def _pieces(
    old: p.ShapedStatement,
    variable: str,
    ends: list[int],
    rewriting: Rewriting,
    known: KnownSizes,
) -> list[p.ShapedStatement] | None:
    """A statement over one piece of a variable's range after the other. Sums go on from piece to
    piece, unless they would be rounded between (Y8)."""
    statement, made = old.statement, []
    is_sum = variable in statement.reduction
    if is_sum and rewriting.shaped.program.tensors[statement.target].dtype != statement.rhs.dtype:
        return None
    for number, (begin, end) in enumerate(pairwise(ends)):
        ranges = {**old.ranges, variable: p.Range(begin, end)}
        rhs = simplified(statement.rhs, known, box_of(ranges, statement.variables))
        piece = replace(statement, rhs=rhs)
        if number and is_sum:
            piece = replace(piece, init=False, continues="written")
        made.append((piece, ranges))
    return rewriting.pieces(old, made)


# --- a variable that becomes two --------------------------------------------------------------


def _periods(
    old: p.ShapedStatement,
    variable: str,
    divided: list[tuple[LinearForm, int]],
    rewriting: Rewriting,
    known: KnownSizes,
    limits: Thresholds,
) -> p.ShapedStatement | None:
    """A statement with `variable` = `outer` * period + `variable`, if no quotient of it is left."""
    statement, whole = old.statement, old.ranges[variable]
    period = period_of(divided, variable)
    if whole.begin or whole.extent % period or not 2 <= period < whole.extent:
        return None
    taken = {*statement.variables, *rewriting.shaped.program.tensors}
    outer = unused_name(f"{variable}_div", taken)
    ranges = {**old.ranges, outer: p.Range(0, whole.extent // period)}
    ranges[variable] = p.Range(0, period)

    new = substituted(statement, {variable: Form(0, {outer: period, variable: 1})})
    new = replace(new, rhs=simplified(new.rhs, known, box_of(ranges, new.variables)))
    if any(True for v in (variable, outer) for _ in quotients(new.rhs, v, known)):
        return None
    read_at = (node.subscripts for node in p.walk(new.rhs) if isinstance(node, p.Read))
    if period < limits.period and (
        statement.reduction or not _in_steps(variable, (new.subscripts, *read_at), known)
    ):
        return None
    return rewriting.changed(new, ranges, old)


def _in_steps(variable: str, accesses: Iterable[tuple[p.Expr, ...]], known: KnownSizes) -> bool:
    """Whether each access stays where it is along a variable, or goes from one element to the next:
    a short vector of these is one load."""
    for subscripts in accesses:
        for axis, subscript in enumerate(reversed(subscripts)):
            if variable not in p.index_names(subscript):
                continue
            form = linear_form(subscript, known)
            if axis or form is None or abs(form.terms.get(variable, 0)) > 1:
                return False
    return True
