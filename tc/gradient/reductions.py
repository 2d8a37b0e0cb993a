"""Single terms of reductions, for the rules of extrema (D11) and of products (D12) in reverse mode
and in forward mode.

A gradient asks which terms equal the maximum (D11). Where the terms are elements of tensors, or
chosen among them, each computation of a term gives the same value. Other terms are rounded, and two
computations may round differently: a statement of their own stores such terms, and the maximum is
taken of the stored terms, and compared with them (`stored_terms`). The derivative of a product is
that of each term, times the product of the other terms (`other_terms`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tc.dtypes import DType, rounded
from tc.gradient import terms as e
from tc.gradient.call_free_def import CallFreeDef, is_bounded, is_spelled
from tc.gradient.def_text import Comprehension, ExprBounds, Joined, TextStep, reads_of
from tc.gradient.inversion import as_condition
from tc.gradient.versions import VersionStep
from tc.semantics import program as p

EXACT_CALLS = ("abs", "copysign", "fabs", "fmax", "fmin")
"""Functions whose result is one of their arguments, but for the sign."""


def is_exact(expr: p.Expr, dtype: DType) -> bool:
    """Whether the value of an expression is that of an element or a number, which needs no rounding
    to be held in the type: each computation of it gives the same.

    >>> from tc.dtypes import FLOAT16, FLOAT32
    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.source import Source
    >>> def rhs(term):
    ...     text = f"def f(float(N) a, float(N) b) -> (o) {{ o max=! {term} }}"
    ...     return check(parse(Source(text))).statements[0].rhs
    >>> [is_exact(rhs(t), FLOAT32) for t in ("a(i)", "abs(a(i))", "a(i) > b(i) ? a(i) : 0.5")]
    [True, True, True]
    >>> [is_exact(rhs(t), FLOAT32) for t in ("2 * a(i)", "a(i) - b(i)", "exp(a(i))")]
    [False, False, False]
    >>> is_exact(rhs("a(i)"), FLOAT16)
    False
    """
    match expr:
        case p.Read(subscripts=subscripts):
            is_held = expr.dtype.is_float and dtype.holds(expr.dtype)
            return is_held and all(map(_is_certain, subscripts))
        case p.Literal(value=value):
            used = rounded(np.array(value), expr.dtype if expr.dtype.is_float else dtype)
            with np.errstate(over="ignore"):
                return bool(rounded(used, dtype) == used)
        case p.Convert(operand=operand):
            return expr.dtype.is_float and is_exact(operand, dtype)
        case p.Unary(operand=operand):
            return expr.dtype.is_float and is_exact(operand, dtype)
        case p.Binary(op="min" | "max", left=left, right=right):
            return is_exact(left, dtype) and is_exact(right, dtype)
        case p.Call(function=function, args=args) if function in EXACT_CALLS:
            return all(is_exact(arg, dtype) for arg in args)
        case p.Select(condition=condition, then=then, otherwise=otherwise):
            both = is_exact(then, dtype) and is_exact(otherwise, dtype)
            return both and _is_certain(condition)
    return False


def _is_certain(expr: p.Expr) -> bool:
    """Whether a condition or a subscript depends on no rounded value."""
    if expr.dtype.is_float:
        return is_exact(expr, expr.dtype)
    return all(map(_is_certain, p.children(expr)))


def outdated(
    steps: Sequence[VersionStep],
    type_of: Callable[[str], DType],
    saved: Collection[str],
    again: Collection[str],
    compared: Iterable[p.Expr],
) -> set[str]:
    """The versions among those `saved` that have to be computed again, too: a condition compares
    such a version with one that is computed `again`, though it was computed of that version's old
    value.

    `steps` are those of the gradient's forward program, and `compared` all right sides."""
    rounded = _rounded(steps, type_of, again)
    if not rounded:
        return set()
    sources: dict[str, set[str]] = {}
    for step in steps:
        own = sources.setdefault(step.version, {step.version})
        for name in step.sources:
            own |= sources.get(name, {name})
    old = {version for version in saved if rounded & sources.get(version, set())}
    return {version for names in _compared(compared) if rounded & names for version in old & names}


def _rounded(
    steps: Sequence[VersionStep], type_of: Callable[[str], DType], again: Collection[str]
) -> set[str]:
    """The versions among those computed `again` that may be rounded in another way than before."""
    found: set[str] = set()
    for step in steps:
        if step.version in again:
            line = step.line
            is_chosen = line.operator in ("=", "min", "max")
            is_same = is_chosen and is_exact(line.rhs, type_of(step.version))
            if not is_same or found & step.sources:
                found.add(step.version)
    return found


def _compared(exprs: Iterable[p.Expr]) -> Iterator[set[str]]:
    """The tensors that each comparison in some expressions reads."""
    for expr in exprs:
        for node in p.walk(expr):
            if isinstance(node, p.Compare):
                yield {read.tensor for read in reads_of(node)}


@dataclass(frozen=True, slots=True)
class TermPositions:
    """Where the terms of a reduction stand in a tensor that has an element for each term.

    A variable whose range begins at -2 has the position `k + 2`: `ranges` are those of the
    positions, which begin at 0, `places` the positions by variable, and `values` the values of the
    variables by position, both under the names of the variables.

    >>> made = TermPositions.of({"k": (e.number(-2), e.number(3)), "l": (e.ZERO, e.number(4))})
    >>> [[e.text(each) for each in of.values()] for of in (made.places, made.values)]
    [['k + 2', 'l'], ['k - 2', 'l']]
    """

    ranges: Mapping[str, ExprBounds]
    places: Mapping[str, p.Expr]
    values: Mapping[str, p.Expr]

    @classmethod
    def of(cls, ranges: Mapping[str, ExprBounds]) -> TermPositions:
        """The positions of terms whose variables have these ranges."""
        moved = {v: begin for v, (begin, _) in ranges.items() if begin != e.ZERO}
        indices = {v: e.index(v) for v in ranges}
        return cls(
            {
                v: (e.ZERO, e.difference(end, begin)) if v in moved else (begin, end)
                for v, (begin, end) in ranges.items()
            },
            {v: e.difference(i, moved[v]) if v in moved else i for v, i in indices.items()},
            {v: e.total(i, moved[v]) if v in moved else i for v, i in indices.items()},
        )

    def range_at(self, variable: str, bounds: ExprBounds) -> ExprBounds:
        """The range of the position of a variable whose own range depends on others."""
        first, last = (e.substituted(bound, self.values) for bound in bounds)
        value = self.values.get(variable, e.index(variable))
        begin = e.difference(value, e.index(variable))
        if begin == e.ZERO:
            return first, last
        return e.difference(first, begin), e.difference(last, begin)


@dataclass(frozen=True, slots=True)
class StoredTerms:
    """The terms of a statement as the statement `line` of their own, with the same ranges and a
    target without a name, and their `places` in this target, from 0 on. `begins` are those of
    variables that may begin below 0. `waits`: the range of a variable follows from the statement's
    own target, to which only other statements give a shape."""

    line: Comprehension
    places: tuple[p.Expr, ...]
    begins: Mapping[str, p.Expr]
    waits: bool


def stored_terms(
    program: CallFreeDef, line: Comprehension, done: Sequence[TextStep]
) -> StoredTerms:
    """The terms of a statement, which stands after the statements `done`. Terms that are the same
    for several instances of its domain are stored as their maximum."""
    named = {n for expr in (line.rhs, *line.exists) for n in p.index_names(expr)}
    indices = tuple(v for v in line.variables if v in named)
    limits = (*line.conditions, *line.bounds)
    needed = {*named, *line.within, *(n for expr in limits for n in p.index_names(expr))}
    given = {v: line.where[v] for v in line.variables if v in needed and v in line.where}
    reduced = {v: bounds for v, bounds in given.items() if v not in line.bare}
    positions = TermPositions.of(reduced)
    begins = {v: begin for v, (begin, _) in reduced.items() if begin != e.ZERO and v in indices}
    exists = [_moved(read, positions.values) for read in line.exists]
    is_open = any(v in line.bare and not is_bounded(line, v) for v in indices)
    is_declared = is_spelled(program.shapes.get(line.target))
    before = [step for step in done if step.target == line.target]
    is_limited = is_open or is_declared or any(map(_is_settled, before))
    if line.indices and is_limited and program.found is None and line.places is None:
        left = tuple(e.index(v) if v in indices else e.ZERO for v in line.indices)
        dtype = program.dtypes[line.target]
        exists.append(p.Read(line.target, left, dtype, -1, span=e.NO_SPAN))
    rhs = e.substituted(line.rhs, positions.values)
    where = {**given, **positions.ranges}
    places = tuple(positions.places.get(v, e.index(v)) for v in indices)
    own = Comprehension("", indices, "=", rhs, where, tuple(exists) if indices else ())
    if not line.is_box:
        own = replace(
            own,
            op="=" if needed <= set(indices) else "max=!",
            within={v: positions.range_at(v, bounds) for v, bounds in line.within.items()},
            conditions=tuple(e.substituted(c, positions.values) for c in line.conditions),
            exists=tuple(exists),
        )
    return StoredTerms(own, places, begins, is_open and not before and not is_declared)


def _moved(read: p.Read, moved: Mapping[str, p.Expr]) -> p.Read:
    inside = tuple(e.substituted(subscript, moved) for subscript in read.subscripts)
    return replace(read, subscripts=inside)


def _is_settled(step: TextStep) -> bool:
    """Whether a step alone gives its target a shape."""
    if isinstance(step, Joined):
        return True
    return step.places is None and all(is_bounded(step, v) for v in step.indices)


def other_terms(
    line: Comprehension, name: str, fresh: Callable[[str], str]
) -> tuple[Comprehension, p.Expr]:
    """A statement that writes, for each term of a reduction, the product of all other terms to the
    tensor `name`, and a read of that product (D12).

    >>> from tc.gradient.def_text import FreshNames
    >>> line = Comprehension("o", (), "*=!", e.read("a", (e.index("k"),)))
    >>> made, read = other_terms(line, "x_o", FreshNames([]).fresh)
    >>> print(made.text, "|", e.text(read))
    x_o(k) *=! q == k ? 1 : a(q) | x_o(k)
    """
    meeting = line.meeting
    given = {v: line.where[v] for v in meeting if v in line.where}
    positions = TermPositions.of(given)
    others = {v: fresh("q") for v in meeting}
    values = {v: positions.values.get(v, e.index(v)) for v in meeting}
    at_other: dict[str, p.Expr] = {v: e.index(other) for v, other in others.items()}
    same = [e.compare("==", e.index(other), values[v]) for v, other in others.items()]
    term = e.substituted(line.rhs, at_other)
    rhs = p.Select(e.conjunction(same), e.number(1), term, line.rhs.dtype, span=e.NO_SPAN)
    where = {v: bounds for v, bounds in line.where.items() if v in line.bare}
    where |= positions.ranges
    where |= {others[v]: bounds for v, bounds in given.items()}
    meets = [
        e.compare("==", e.substituted(s, at_other), e.substituted(s, values))
        for s in line.left
        if not isinstance(s, p.Index)
    ]
    bare = tuple(v for v in line.bare if v is not None)
    made = replace(
        Comprehension(name, (*bare, *meeting), "*=!", rhs, where),
        within={
            others.get(v, v): (e.substituted(b, at_other), e.substituted(c, at_other))
            for v, (b, c) in line.within.items()
        },
        conditions=(
            *(as_condition(c) for c in meets),
            *(e.substituted(c, at_other) for c in line.conditions),
        ),
    )
    places = (positions.places.get(v, e.index(v)) for v in meeting)
    return made, e.read(name, (*map(e.index, bare), *places))
