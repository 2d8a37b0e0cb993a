"""Which maxima and minima are decided without rounding, and what is computed again for the others.

A gradient asks which terms equal the maximum (D11). Where the terms are elements of tensors, or
chosen among them, each computation of a term gives the same value. Other terms are rounded, and two
computations may round differently: those are stored by a statement of their own, and the maximum is
taken of what is stored, and compared with it.

`TermPositions` are the terms of a reduction as elements of a tensor: so the rules of maxima (D11)
and of products (D12) name single terms, in reverse mode and in forward mode.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tc.dtypes import DType
from tc.gradient import terms as e
from tc.gradient.def_text import ExprBounds
from tc.gradient.versions import VersionStep
from tc.semantics import program as p

EXACT_CALLS = ("abs", "copysign", "fabs", "fmax", "fmin")
"""Functions that give one of their arguments, but for the sign."""


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
            is_held = expr.dtype.is_float and expr.dtype.bits <= dtype.bits
            return is_held and all(map(_is_certain, subscripts))
        case p.Literal(value=value):
            used = (expr.dtype if expr.dtype.is_float else dtype).numpy.type(value)
            with np.errstate(over="ignore"):
                return bool(dtype.numpy.type(used) == used)
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
    """The versions, of those that are `saved`, that have to be computed `again`, too: a condition
    compares them with what is, though they were computed of what that was before.

    `steps` are those of the gradient's forward program, and `compared` all right sides."""
    rounded = _rounded(steps, type_of, again)
    if not rounded:
        return set()
    sources: dict[str, set[str]] = {}
    for step in steps:
        own = sources.setdefault(step.version, {step.version})
        for name in _read(step):
            own |= sources.get(name, {name})
    old = {version for version in saved if rounded & sources.get(version, set())}
    return {version for names in _compared(compared) if rounded & names for version in old & names}


def _rounded(
    steps: Sequence[VersionStep], type_of: Callable[[str], DType], again: Collection[str]
) -> set[str]:
    """The versions, among those that are computed again, that may be rounded in another way than
    before."""
    found: set[str] = set()
    for step in steps:
        if step.version in again:
            statement = step.statement
            is_chosen = statement.op in ("=", "min", "max")
            is_same = is_chosen and is_exact(statement.rhs, type_of(step.version))
            if not is_same or found & _read(step):
                found.add(step.version)
    return found


def _read(step: VersionStep) -> set[str]:
    """The versions that a step reads, its previous version included."""
    nodes = p.walk(step.statement.rhs)
    found = {node.tensor for node in nodes if isinstance(node, p.Read)}
    return found if step.previous is None else found | {step.previous}


def _compared(exprs: Iterable[p.Expr]) -> Iterator[set[str]]:
    """The tensors that each comparison in some expressions reads."""
    for expr in exprs:
        for node in p.walk(expr):
            if isinstance(node, p.Compare):
                yield {inner.tensor for inner in p.walk(node) if isinstance(inner, p.Read)}


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


def other_term(
    rhs: p.Expr, others: Mapping[str, str], values: Mapping[str, p.Expr], dtype: DType
) -> p.Expr:
    """The term of other values of some variables, and 1 where these are `values`: multiplied over
    all of them, the product of all terms but one (D12). `others` are the names of the variables
    that have these other values.

    >>> from tc.dtypes import FLOAT64
    >>> term = other_term(e.read("a", (e.index("k"),)), {"k": "q"}, {"k": e.index("k")}, FLOAT64)
    >>> e.text(term)
    'q == k ? 1 : a(q)'
    """
    same = [e.compare("==", e.index(other), values[v]) for v, other in others.items()]
    term = e.substituted(rhs, {v: e.index(other) for v, other in others.items()})
    return p.Select(e.conjunction(same), e.number(1), term, dtype, span=e.NO_SPAN)
