"""What may be factored in a sum of products, and divided last in a sum of quotients (R5).

A sum of products may be computed through smaller sums, and a divisor that is the same for all
terms may divide the sum. Which statements that concerns depends on their form alone, and is
decided here, for the rewrites that do it (`polyhedral.rewrite`) and for
the error bound, which says what it may change (`uncertain_reductions`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tc.semantics.program import Binary, Expr, ShapedStatement, index_names

MAX_FACTORS = 6
"""Products of more groups of factors stay as written."""


class ProductPart(Protocol):
    """Factors of one product that use the same variables; `is_product` if there are several."""

    @property
    def variables(self) -> frozenset[str]: ...

    @property
    def is_product(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Group:
    """The factors that use the same variables, with their positions in the product."""

    variables: frozenset[str]
    exprs: tuple[tuple[int, Expr], ...]

    @property
    def is_product(self) -> bool:
        return len(self.exprs) > 1


def factors(rhs: Expr) -> Iterator[Expr]:
    """The factors of a product, in text order; what is no product is its only factor."""
    stack = [rhs]
    while stack:
        match stack.pop():
            case Binary(op="*", left=left, right=right):
                stack += (right, left)
            case expr:
                yield expr


def groups_of(shaped_statement: ShapedStatement) -> tuple[Group, ...]:
    """The factors of a sum of products by their variables, in text order, if it may be factored;
    else nothing.

    That is a statement `target += product` or `target +=! product`, without checks, all of whose
    reduction variables occur in the product, and of which some factors can be stored apart.
    """
    statement = shaped_statement.statement
    if statement.op != "+" or shaped_statement.checked or shaped_statement.is_empty:
        return ()
    found: dict[frozenset[str], list[tuple[int, Expr]]] = {}
    for position, expr in enumerate(factors(statement.rhs)):
        found.setdefault(frozenset(index_names(expr)), []).append((position, expr))
    groups = tuple(Group(variables, tuple(same)) for variables, same in found.items())
    used = frozenset().union(*found)
    if not 2 <= len(groups) <= MAX_FACTORS:
        return ()
    if not statement.reduction or not used.issuperset(statement.reduction):
        return ()
    return groups if _may_any_stand_apart(groups, frozenset(statement.outer)) else ()


def left_over(
    members: Sequence[ProductPart], others: Sequence[ProductPart], kept: Collection[str]
) -> frozenset[str]:
    """The variables of the sum over the product of some factors: those of the result, `kept`, or
    of other factors."""
    needed = frozenset(kept).union(*(part.variables for part in others))
    return frozenset().union(*(part.variables for part in members)) & needed


def may_stand_apart(members: Sequence[ProductPart], remaining: frozenset[str]) -> bool:
    """Whether the product of some factors, summed over all but the `remaining` variables, may be
    stored: something is summed, or it is a product no larger than one of its factors."""
    variables = frozenset().union(*(part.variables for part in members))
    if remaining != variables:
        return True
    return any(part.variables == variables for part in members) and (
        len(members) > 1 or members[0].is_product
    )


def quotient_of(shaped_statement: ShapedStatement) -> Binary | None:
    """The terms of a sum, without checks, if they are quotients of floats by what is the same for
    all terms: the sum may be divided."""
    statement = shaped_statement.statement
    if statement.op != "+" or shaped_statement.checked or shaped_statement.is_empty:
        return None
    reduction = set(statement.reduction)

    def depends(expr: Expr) -> bool:
        return not reduction.isdisjoint(index_names(expr))

    match statement.rhs:
        case Binary(op="/", left=left, right=divisor, dtype=dtype) as quotient if dtype.is_float:
            return quotient if depends(left) and not depends(divisor) else None
        case _:
            return None


def redistributed(shaped_statement: ShapedStatement) -> tuple[Expr, ...]:
    """The expressions of floats whose products, and whose sums, an implementation may form though
    the text does not; nothing where it computes as written."""
    if not shaped_statement.statement.rhs.dtype.is_float:
        return ()
    quotient = quotient_of(shaped_statement)
    if quotient is not None:
        return (quotient.left,)
    return tuple(expr for group in groups_of(shaped_statement) for _, expr in group.exprs)


def _may_any_stand_apart(groups: Sequence[Group], kept: frozenset[str]) -> bool:
    for chosen in range(1, (1 << len(groups)) - 1):
        members = [group for n, group in enumerate(groups) if chosen >> n & 1]
        others = [group for n, group in enumerate(groups) if not chosen >> n & 1]
        if may_stand_apart(members, left_over(members, others, kept)):
            return True
    return False
