"""Folds as terms: those of few terms, or with numbers of the text as factors, are written out, all
others are folds of the def (C26)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tc.dtypes import BOOL, INT32, DType, Type, Weak, limits
from tc.sac.levels.element_types import check_fit
from tc.sac.levels.values import NeedsIndexTerm, Value
from tc.sac.lowering.assumptions import is_safe
from tc.sac.lowering.statements import stored
from tc.sac.lowering.terms import Term, walk

if TYPE_CHECKING:
    from tc.sac.lowering.elements import Elements

MAX_WRITTEN_OUT = 4
"""Folds of at most so many terms are written out."""

MAX_WEIGHTS = 343
"""Folds of at most so many terms are written out where numbers of the text are factors."""

MAX_WRAPPED = 27
"""Folds of at most so many terms are written out where their indices are divided, as in `x % n`: a
remainder of a sum of two indices is not affine, one of an index and a number is in three parts."""

MAX_INSTANCES = 4096
"""The most index values of which each is lowered apart, where shapes depend on the index."""

_ORDINARY = {"&&": "min", "||": "max"}


def fold(
    made: Elements,
    op: str,
    ranges: Sequence[tuple[str, int, int]],
    term_at: Callable[[Sequence[Term]], tuple[Term, Term]],
    type: Type,
    neutral: Term,
) -> Term:
    """The fold by `op` over the indices of these names and ranges of what `term_at` gives for
    an index: a guard and a term."""
    count = math.prod(max(0, end - begin) for _, begin, end in ranges)
    if count == 0:
        return neutral
    if count <= MAX_WRITTEN_OUT:
        written = _written_out(made, op, ranges, term_at, type, neutral)
        if written is not None:
            return written
    before, made.looked_up = made.looked_up, False
    indices = [made.terms.index(*r) for r in ranges]
    try:
        guard, term = term_at(indices)
    except NeedsIndexTerm:
        if count > MAX_INSTANCES:
            raise
        written = _written_out(made, op, ranges, term_at, type, neutral)
        if written is None:
            raise
        return written
    has_weights, made.looked_up = made.looked_up, before
    if count <= MAX_WEIGHTS and op == "+":
        most = count if has_weights else 2 * count // 3 if has_weight(term, indices) else 0
        parts = _parts(made, ranges, term_at) if most else None
        groups = None if parts is None else _by_factor(parts)
        if groups is not None and sum(map(_is_apart, groups)) <= most:
            return _weighted_sum(made, groups, type, neutral)
    if count <= MAX_WRAPPED and divides(term, indices):
        written = _written_out(made, op, ranges, term_at, type, neutral)
        if written is not None:
            return written
    dtype = stored(type)
    if type in (Weak.LITERAL, Weak.SIZE) and op in ("min", "max"):
        # what the guard leaves out is int's identity, and not that of the tensor's type (C9)
        guard, term = made.terms.number(True), made.choice_of(guard, term, neutral, type)
    whole = _guarded(made, guard, term)
    return made.terms.fold(_ORDINARY.get(op, op), indices, *whole, dtype)


def _guarded(made: Elements, guard: Term, term: Term) -> tuple[Term, Term]:
    """The guard of a fold, with the conditions around the fold, which is computed for all
    values of the indices that these conditions are about."""
    if not is_safe(term, made.assumptions):
        for condition in made.assumptions.conditions:
            if condition is not guard:
                guard = made.terms.both(condition, guard)
    return guard, term


def _written_out(
    made: Elements,
    op: str,
    ranges: Sequence[tuple[str, int, int]],
    term_at: Callable[[Sequence[Term]], tuple[Term, Term]],
    type: Type,
    neutral: Term,
) -> Term | None:
    """The fold as a chain of operators; None where a guard is left."""
    parts = _parts(made, ranges, term_at)
    if parts is None:
        return None
    if op == "+":
        return _weighted_sum(made, _by_factor(parts), type, neutral)
    result = None
    for part in parts:
        result = part if result is None else joined(made, op, result, part, type)
    return neutral if result is None else result


def _parts(
    made: Elements,
    ranges: Sequence[tuple[str, int, int]],
    term_at: Callable[[Sequence[Term]], tuple[Term, Term]],
) -> list[Term] | None:
    """The terms of a fold, one for each index; None where a guard is left."""
    parts = []
    for place in itertools.product(*(range(begin, end) for _, begin, end in ranges)):
        guard, term = term_at([made.terms.number(k) for k in place])
        if guard.kind != "number":
            return None
        if guard.data:
            parts.append(term)
    return parts


def joined(made: Elements, op: str, left: Term, right: Term, type: Type) -> Term:
    """Two terms joined by the operator of a fold."""
    if op == "&&":
        return made.terms.both(left, right)
    if op == "||":
        return made.terms.either(left, right)
    left, right = made.fitted((left, right), type)
    if op in ("min", "max"):
        return made.terms.extreme(op, left, right)
    return made.terms.arithmetic(op, left, right)


def _weighted_sum(
    made: Elements, groups: Mapping[Term | None, Sequence[Term]], type: Type, neutral: Term
) -> Term:
    """A sum in which equal factors are written once, and zero ones never."""
    result: Term | None = None
    for factor, terms in groups.items():
        if factor is not None:
            inner = _balanced(lambda a, b: joined(made, "+", a, b, type), terms)
            terms = [made.terms.arithmetic("*", *made.fitted((factor, inner), type))]
        total = _balanced(lambda a, b: joined(made, "+", a, b, type), terms)
        result = total if result is None else joined(made, "+", result, total, type)
    return neutral if result is None else result


def folded(made: Elements, op: str, value: Value, index: Sequence[Term], type: Type) -> Term:
    """An element of a body of a fold, in the type of the fold."""
    return folded_term(made, op, made.element(value, index if value.rank else ()), value, type)


def folded_term(made: Elements, op: str, term: Term, value: Value, type: Type) -> Term:
    """A term of a fold: in the type of the fold."""
    if op in ("&&", "||"):
        return made.terms.truth(term)
    check_fit(value.type, type)
    if isinstance(term.type, Weak) and not isinstance(type, Weak):
        return term
    return made.fitted((term,), type)[0]


def neutral_term(made: Elements, op: str, type: Type) -> Term:
    """The neutral element of a fold as a number (R2); of weak integers that of int (C9)."""
    if op in ("&&", "||"):
        return made.terms.number(op == "&&")
    if op in ("+", "*"):
        return made.terms.number(0 if op == "+" else 1, type if isinstance(type, DType) else None)
    want = INT32 if type in (Weak.LITERAL, Weak.SIZE) else stored(type)
    if want == BOOL:
        return made.terms.number(op == "min")
    if want.is_float:
        return made.terms.number(np.inf if op == "min" else -np.inf, want)
    low, high = limits(want)
    return made.terms.number(high if op == "min" else low, None if isinstance(type, Weak) else want)


def divides(term: Term, indices: Sequence[Term]) -> bool:
    """Whether a quotient or a remainder of some of the indices is part of a term."""
    bound = frozenset(indices)
    return any(
        node.kind == "apply"
        and node.data in ("/", "%")
        and isinstance(node.type, Weak)
        and node.free & bound
        for node in walk([term])
    )


# --- weights ------------------------------------------------------------------------------------


def _by_factor(parts: Sequence[Term]) -> dict[Term | None, list[Term]]:
    """The terms of a sum by the factor that no index decides, None for 1, without those that are
    zero."""
    groups: dict[Term | None, list[Term]] = {}
    same: dict[tuple[float, Type], Term] = {}  # an int64 as itself: no float holds them all
    for part in parts:
        factor, rest = _factored(part)
        value: float | None = None
        if factor is not None:
            value = factor.data if factor.kind == "number" else _weak_value(factor)
        if value == 0 or (part.kind == "number" and part.data == 0):
            continue
        if value is not None and factor is not None:
            factor = None if value == 1 else same.setdefault((value, factor.type), factor)
        groups.setdefault(factor, []).append(rest)
    return groups


def _weak_value(term: Term) -> float | None:
    """The value of a weak term of numbers alone, as tc computes it (Y1), if it is finite."""
    if term.kind == "number":
        return float(term.data)
    if term.kind != "apply" or not isinstance(term.type, Weak):
        return None
    values = [_weak_value(arg) for arg in term.args]
    if term.type is not Weak.FLOAT or None in values:
        return None
    match term.data, values:
        case "neg", [float(x)]:
            return -x
        case "+", [float(x), float(y)]:
            value = x + y
        case "-", [float(x), float(y)]:
            value = x - y
        case "*", [float(x), float(y)]:
            value = x * y
        case "/", [float(x), float(y)] if y != 0:
            value = x / y
        case _:
            return None
    return value if math.isfinite(value) else None


def _is_apart(factor: Term | None) -> bool:
    """Whether a factor is read from a tensor, so that it costs as much as another term."""
    return factor is not None and any(n.kind in ("read", "use", "fold") for n in walk([factor]))


def _factored(term: Term) -> tuple[Term | None, Term]:
    """The factor of a product that no index decides, and the other factor."""
    if term.kind == "apply" and term.data == "*":
        left, right = term.args
        if not left.free and right.free:
            return left, right
        if not right.free and left.free:
            return right, left
        if _is_number(right) and not _is_number(left):
            return right, left
        if _is_number(left):
            return left, right
    return None, term


def has_weight(term: Term, indices: Sequence[Term]) -> bool:
    """Whether a term of a fold is a product with a factor that the indices of the fold alone
    decide, and that may be the same for several of them: no element of an array at each."""
    if term.kind != "apply" or term.data != "*":
        return False
    bound = frozenset(indices)
    for factor, other in (term.args, term.args[::-1]):
        if factor.free and factor.free <= bound and not other.free <= bound:
            is_element = factor.kind == "read" or (
                factor.kind == "use" and _is_apart(factor.data.term)
            )
            return not (is_element and bound <= frozenset(factor.args))
    return False


def _is_number(term: Term) -> bool:
    return term.kind == "number"


def _balanced(join: Callable[[Term, Term], Term], terms: Sequence[Term]) -> Term:
    """Terms joined from the left, as one writes them; many by halves, so that no tree is high."""
    if len(terms) > 64:
        middle = len(terms) // 2
        return join(_balanced(join, terms[:middle]), _balanced(join, terms[middle:]))
    result = terms[0]
    for term in terms[1:]:
        result = join(result, term)
    return result
