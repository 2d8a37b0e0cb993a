"""What may be factored in a sum of products, and divided last in a sum of quotients (R5).

A sum of products may be computed through smaller sums, also one over a prefix, and a divisor that
is the same for all terms may divide the sum. Which statements that concerns depends on their form
alone, and is decided here, for the rewrites that do it (`polyhedral.rewrite`) and for the error
bound, which says what it may change (`uncertain_reductions`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tc.semantics.bounded_sums import bounding_variables
from tc.semantics.program import Binary, Expr, Literal, Select, ShapedStatement, index_names
from tc.semantics.selected_sums import conditional_term

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


def factors_of_prefix(shaped_statement: ShapedStatement, position: int = 0) -> tuple[Expr, ...]:
    """The factors of a sum of products into the target at a `position`, over ranges that begin or
    end with another variable, or where a condition holds, if some factors, or a divisor, are the
    same for all terms, and others are not: the former may be multiplied, or divide, behind the sum
    of the latter. Else nothing.

    They are those of the terms that there are: of a term `j < i ? a(i) * x(j) : 0` that is not,
    they are 1.
    """
    statement = shaped_statement.statement
    is_sum = statement.op == "+" and bool(statement.reduction) and not shaped_statement.checked
    if not is_sum or shaped_statement.is_empty:
        return ()
    if statement.is_plain:
        term = conditional_term(statement)
        if term is None or bounding_variables(statement).isdisjoint(statement.outer):
            return ()
        test, product = term.condition, term.then
    else:
        test, product = None, statement.values[position]
    shared = shared_factors(product, statement.reduction)
    if shared is None:
        return ()
    exprs = tuple(factors(shared.dividend)) if shared.own else (shared.dividend,)
    if test is None:
        return exprs
    one = Literal(1.0, product.dtype, span=product.span)
    return tuple(Select(test, e, one, e.dtype, span=e.span) for e in exprs)


@dataclass(frozen=True, slots=True)
class SharedFactors:
    """What the terms of a reduction share that elements of the target do not: the factors `own` of
    their `dividend`, of which the rest differs, and a `divisor` of floats, if there is one."""

    own: tuple[Expr, ...]
    rest: tuple[Expr, ...]
    dividend: Expr
    divisor: Expr | None


def shared_factors(term: Expr, reduction: Collection[str]) -> SharedFactors | None:
    """The factors and the divisor that are the same for all terms of a reduction, and not for all
    elements; None where there are none, or nothing else."""

    def is_own(expr: Expr) -> bool:
        names = set(index_names(expr))
        return bool(names) and names.isdisjoint(reduction)

    dividend, divisor = term, None
    match term:
        case Binary(op="/", left=left, right=right) if term.dtype.is_float and is_own(right):
            dividend, divisor = left, right
    own = tuple(filter(is_own, factors(dividend)))
    rest = tuple(each for each in factors(dividend) if not is_own(each))
    if not (own or divisor) or all(map(set(reduction).isdisjoint, map(index_names, rest))):
        return None
    return SharedFactors(own, rest, dividend, divisor)


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
    if found := factors_of_prefix(shaped_statement):
        return found
    return tuple(expr for group in groups_of(shaped_statement) for _, expr in group.exprs)


def _may_any_stand_apart(groups: Sequence[Group], kept: frozenset[str]) -> bool:
    for chosen in range(1, (1 << len(groups)) - 1):
        members = [group for n, group in enumerate(groups) if chosen >> n & 1]
        others = [group for n, group in enumerate(groups) if not chosen >> n & 1]
        if may_stand_apart(members, left_over(members, others, kept)):
            return True
    return False
