"""The cheapest order in which to compute a sum of products, by exact counts of operations.

`sum over j, k of X(i,j,k) * B(j,r) * C(k,r)` is known here by the variables of each factor alone.
An order is a tree: an inner node is a sum that is stored and then used like a factor. All orders
of up to `semantics.factors.MAX_FACTORS` factors are compared, by dynamic programming over the sets
of factors.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from tc.semantics.factors import left_over, may_stand_apart


@dataclass(frozen=True, slots=True)
class OrderCosts:
    """What an order must save, and what it is charged, in operations.

    `gain` is by what factor the cost must fall; `moved` is charged per element of a stored sum,
    which is written and read, and `statement` for each further statement. A sum along which no
    factor is contiguous costs `strided` times its operations. A stored sum may have `growth`
    times the bytes of the largest tensor of the statement, and in any case as many as `cache`.
    """

    gain: float = 1.3
    moved: float = 8.0
    statement: float = 20_000.0
    strided: float = 1.1
    growth: float = 4.0
    cache: int = 1 << 20


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor, or several with the same variables.

    `operations` evaluate it once; `contiguous` are the variables of last subscripts in it.
    `is_product` marks several factors, whose product is worth storing with nothing summed.
    """

    variables: frozenset[str]
    operations: float
    contiguous: frozenset[str] = frozenset()
    is_product: bool = False


@dataclass(frozen=True, slots=True)
class PartialSum:
    """The product of operands, summed over `variables` that are not in `kept`.

    Operands are positions of factors and stored sums, which are functions of their `kept`
    variables. `cost` includes that of stored sums.
    """

    operands: tuple[int | PartialSum, ...]
    variables: frozenset[str]
    kept: frozenset[str]
    cost: float

    @property
    def is_plain(self) -> bool:
        """Whether it is computed at once, as written."""
        return not any(isinstance(operand, PartialSum) for operand in self.operands)

    def factors(self) -> Iterator[int]:
        """The positions of all factors in it."""
        for operand in self.operands:
            if isinstance(operand, PartialSum):
                yield from operand.factors()
            else:
                yield operand


def best_order(
    factors: tuple[Factor, ...],
    kept: Collection[str],
    extents: Mapping[str, int],
    storable: Collection[str],
    *,
    largest: int,
    costs: OrderCosts,
) -> PartialSum:
    """The cheapest order, if it is cheaper than the plain one by `costs.gain`, else that.

    `kept` are the variables of the result, `storable` those that a stored sum may have, and
    `largest` how many elements one may have.

    >>> x, b, c = (Factor(frozenset(v), 0.0, frozenset(v[-1])) for v in ("ijk", "jr", "kr"))
    >>> extents = dict.fromkeys("ijkr", 100)
    >>> order = best_order((x, b, c), "ir", extents, "ijkr", largest=10**7, costs=OrderCosts())
    >>> [o if isinstance(o, int) else (o.operands, sorted(o.kept)) for o in order.operands]
    [((0, 2), ['i', 'j', 'r']), 1]
    >>> best_order((x, b, c), "ir", extents, "ijkr", largest=10, costs=OrderCosts()).is_plain
    True
    """
    search = _Search(factors, frozenset(kept), extents, frozenset(storable), largest, costs)
    everything = (1 << len(factors)) - 1
    plain = search.summed(tuple(range(len(factors))), everything)
    best = search.best(everything)
    return best if plain.cost >= costs.gain * best.cost else plain


@dataclass
class _Search:
    """The best order of each set of factors, given as a bit mask."""

    factors: tuple[Factor, ...]
    kept: frozenset[str]
    extents: Mapping[str, int]
    storable: frozenset[str]
    largest: int
    costs: OrderCosts
    found: dict[int, PartialSum] = field(default_factory=dict)
    stored: dict[int, PartialSum | None] = field(default_factory=dict)

    def best(self, members: int) -> PartialSum:
        if members not in self.found:
            candidates = (self.summed(o, members) for o in self.operands(members, members))
            self.found[members] = min(candidates, key=lambda candidate: candidate.cost)
        return self.found[members]

    def operands(self, members: int, whole: int) -> Iterator[tuple[int | PartialSum, ...]]:
        """All ways to make operands of factors: each alone, or within a stored sum."""
        if not members:
            yield ()
            return
        first = members & -members
        others = members ^ first
        for rest in self.operands(others, whole):
            yield (first.bit_length() - 1, *rest)
        more = others
        while True:
            stored = self.store(first | more) if first | more != whole else None
            if stored is not None:
                for rest in self.operands(others ^ more, whole):
                    yield (stored, *rest)
            if not more:
                return
            more = (more - 1) & others

    def store(self, members: int) -> PartialSum | None:
        """The best order of a set whose sum may be stored."""
        if members not in self.stored:
            self.stored[members] = self.best(members) if self.is_storable(members) else None
        return self.stored[members]

    def is_storable(self, members: int) -> bool:
        remaining = self.remaining(members)
        if not remaining <= self.storable or self.volume(remaining) > self.largest:
            return False
        return may_stand_apart(self.chosen(members), remaining)

    def summed(self, operands: tuple[int | PartialSum, ...], members: int) -> PartialSum:
        """The sum of a product of operands, with its cost."""
        kept, variables = self.remaining(members), self.remaining(members)
        operations, charged = float(len(operands) - 1), 0.0
        contiguous: frozenset[str] = frozenset()
        for operand in operands:
            if isinstance(operand, PartialSum):
                variables |= operand.kept
                charged += operand.cost + self.costs.statement
                charged += self.costs.moved * self.volume(operand.kept)
            else:
                factor = self.factors[operand]
                variables |= factor.variables
                operations += factor.operations
                contiguous |= factor.contiguous
        summed = variables - kept
        if summed:
            operations = (operations + 1) * (1 if summed & contiguous else self.costs.strided)
        return PartialSum(operands, variables, kept, charged + operations * self.volume(variables))

    def chosen(self, members: int) -> list[Factor]:
        return [factor for n, factor in enumerate(self.factors) if members >> n & 1]

    def remaining(self, members: int) -> frozenset[str]:
        """The variables of the sum over a set of factors: those of the result or of others."""
        others = ~members & ((1 << len(self.factors)) - 1)
        if not others:
            return self.kept
        return left_over(self.chosen(members), self.chosen(others), self.kept)

    def volume(self, variables: frozenset[str]) -> int:
        return math.prod(self.extents[v] for v in variables)
