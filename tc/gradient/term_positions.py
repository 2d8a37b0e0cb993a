"""The terms of a reduction as elements of a tensor: how the rules of maxima (D11) and of products
(D12) name single terms, in reverse mode and in forward mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tc.dtypes import DType
from tc.gradient import terms as e
from tc.gradient.def_text import ExprBounds
from tc.semantics import program as p


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
