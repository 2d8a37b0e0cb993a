"""Values that outputs hold, in place of products that they were computed from (D17).

What `O = exp(a - m) / z` gives to z is `-d_O * exp(a - m) / z / z`: that is `-d_O * O / z`. A sum
holds the sum of its terms in the same way, where all else in what they give is the same for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tc.dtypes import FLOAT16
from tc.gradient import terms as e
from tc.gradient.adjoints import Contribution
from tc.gradient.statement_text import ExprBounds, Written
from tc.gradient.versions import VersionStep
from tc.semantics import program as p

StoredFactor: TypeAlias = tuple[bool, p.Expr]
"""Whether it divides, and what."""


@dataclass(frozen=True)
class StoredValues:
    """`steps` are those of the program, `held` the versions that the gradient has as inputs."""

    steps: Sequence[VersionStep]
    held: frozenset[str]

    def holds(self, step: VersionStep) -> bool:
        """Whether the version of a step is its right side, or the sum of it, and nothing else."""
        alone = not any(s is not step and s.version == step.version for s in self.steps)
        kind = step.statement.op == "=" or (step.statement.op == "+" and step.is_anew)
        return alone and kind and step.covers and step.previous is None

    def of_step(
        self, step: VersionStep, found: Contribution, version: p.Read
    ) -> tuple[VersionStep, Contribution] | None:
        """What a read gets of a statement, by the value that the statement has stored: without the
        variables of its sum."""
        if not self.holds(step) or version.dtype == FLOAT16:
            return None
        left = without(found.adjoint, factors(step.statement.rhs)[1], {})
        if left is None:
            return None
        statement, (sign, rest) = step.statement, left
        summed = set(statement.reduction)
        used = {n for _, factor in rest for n in p.index_names(factor)}
        if summed and (found.conditions or summed & (used | names(found.read))):
            return None
        ranges = {v: step.ranges[v] for v in statement.outer}
        left_over = replace(statement, variables=statement.outer)
        own = replace(step, statement=left_over, ranges=ranges)
        adjoint = multiplied(sign, [*rest, (False, version)])
        return own, replace(found, adjoint=adjoint)

    def of_others(self, step: VersionStep, adjoint: p.Expr) -> p.Expr | None:
        """A product with a factor of it that some output holds."""
        for other in self.steps:
            if other.version not in self.held or other.statement.op != "=":
                continue
            if not self.holds(other) or other.version == step.version:
                continue
            wanted = factors(other.statement.rhs)[1]
            if len(wanted) < 2 or not any(isinstance(f, p.Call) for _, f in wanted):
                continue
            bound: dict[str, str] = {}
            left = without(adjoint, wanted, bound)
            outer = other.statement.outer
            if left is None or not set(outer) <= set(bound):
                continue
            same = all(step.ranges.get(bound[v]) == other.ranges[v] for v in outer)
            if same and len(set(bound.values())) == len(bound):
                value = e.read(other.version, tuple(e.index(bound[v]) for v in outer))
                return multiplied(left[0], [*left[1], (False, value)])
        return None


def names(read: p.Read) -> set[str]:
    return {n for subscript in read.subscripts for n in p.index_names(subscript)}


def factors(expr: p.Expr, divides: bool = False) -> tuple[int, list[StoredFactor]]:
    """The sign of a product, and its factors in order."""
    match expr:
        case p.Unary(op="-", operand=operand):
            sign, found = factors(operand, divides)
            return -sign, found
        case p.Binary(op=("*" | "/") as op, left=left, right=right) if _is_real(expr):
            one, first = factors(left, divides)
            other, second = factors(right, divides != (op == "/"))
            return one * other, [*first, *second]
    return 1, [(divides, expr)]


def _is_real(expr: p.Expr) -> bool:
    """Whether a product is one of real numbers: sizes and indices are left together."""
    return any(isinstance(n, p.Read | p.Call) and n.dtype.is_float for n in p.walk(expr))


def multiplied(sign: int, found: Sequence[StoredFactor]) -> p.Expr:
    """The product of some factors."""
    result: p.Expr | None = None
    for divides, factor in sorted(found, key=lambda each: each[0]):
        if result is None:
            result = e.fraction(e.number(1), factor) if divides else factor
        else:
            result = e.fraction(result, factor) if divides else e.binary("*", result, factor)
    assert result is not None
    return result if sign > 0 else e.negative(result)


def without(
    adjoint: p.Expr, wanted: Sequence[StoredFactor], bound: dict[str, str]
) -> tuple[int, list[StoredFactor]] | None:
    """The sign and the other factors of a product in which there are all that are wanted, which may
    be those of another statement: `bound` are its indices, by the names that they have here."""
    sign, rest = factors(adjoint)
    numbers = [f for f in wanted if isinstance(f[1], p.Literal)]
    if len(wanted) < 2 or numbers:
        return None
    for divides, factor in wanted:
        for place, (other_divides, other) in enumerate(rest):
            trial = dict(bound)
            if divides == other_divides and _is_same(factor, other, trial):
                bound.update(trial)
                del rest[place]
                break
        else:
            return None
    return sign, rest


def _is_same(one: p.Expr, other: p.Expr, bound: dict[str, str]) -> bool:
    """Whether two expressions are the same but for the names of indices."""
    match one, other:
        case p.Index(name=name), p.Index(name=here):
            return bound.setdefault(name, here) == here
        case p.Read(tensor=tensor, subscripts=own), p.Read(tensor=same, subscripts=others):
            return tensor == same and all(map(_is_same, own, others, [bound] * len(own)))
        case p.Index() | p.Read(), _:
            return False
    children, others = tuple(p.children(one)), tuple(p.children(other))
    if type(one) is not type(other) or len(children) != len(others):
        return False
    if not children:
        return one == other
    is_alike = _kind(one) == _kind(other)
    return is_alike and all(map(_is_same, children, others, [bound] * len(children)))


def _kind(expr: p.Expr) -> object:
    if isinstance(expr, p.Convert):
        return expr.dtype
    return getattr(expr, "op", getattr(expr, "function", None))


def pulled(
    written: Sequence[Written], cotangent: str, subscripts: tuple[str, ...]
) -> tuple[int, Written, list[StoredFactor]] | None:
    """Where one sum alone makes a cotangent, its place, the sum without the factors that are the
    same for all terms, and these, at some indices."""
    places = [i for i, each in enumerate(written) if each.target == cotangent]
    if len(places) != 1 or written[places[0]].op != "+=!":
        return None
    sum_ = written[places[0]]
    if any(isinstance(n, p.Select | p.Logical) for n in p.walk(sum_.rhs)):
        return None
    if isinstance(sum_.rhs, p.Call | p.Convert):
        return None
    sign, found = factors(sum_.rhs)
    own = set(sum_.indices)
    same = [f for f in found if set(p.index_names(f[1])) <= own]
    left = [f for f in found if f not in same]
    if not same or not left:
        return None
    here = {v: e.index(name) for v, name in zip(sum_.indices, subscripts, strict=True)}
    moved = [(divides, e.substituted(factor, here)) for divides, factor in same]
    return places[0], replace(sum_, rhs=multiplied(sign, left)), moved


def divided_last(rhs: p.Expr, loops: Mapping[str, ExprBounds]) -> p.Expr:
    """The term of a sum with what it is divided by at the end, where that is the same for all
    terms: then the sum is divided once."""
    if not loops or not isinstance(rhs, p.Unary | p.Binary):
        return rhs
    if any(isinstance(n, p.Select | p.Logical) for n in p.walk(rhs)):
        return rhs
    sign, found = factors(rhs)
    last = [f for f in found if f[0] and not set(p.index_names(f[1])) & set(loops)]
    if not last or found[-len(last) :] == last:
        return rhs
    first = [f for f in found if f not in last]
    if not any(not divides for divides, _ in first):
        return rhs
    return multiplied_in_order(sign, [*first, *last])


def multiplied_in_order(sign: int, found: Sequence[StoredFactor]) -> p.Expr:
    """The product of factors, of which the first does not divide, as they stand."""
    numerators = [f for f in found if not f[0]][:1]
    result = numerators[0][1]
    for divides, factor in _others(found, numerators[0]):
        result = e.fraction(result, factor) if divides else e.binary("*", result, factor)
    return result if sign > 0 else e.negative(result)


def _others(found: Sequence[StoredFactor], first: StoredFactor) -> Iterator[StoredFactor]:
    place = list(found).index(first)
    yield from (f for i, f in enumerate(found) if i != place)
