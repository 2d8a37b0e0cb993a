"""What the conditions around a term say of its integers: enough to see that most selections stay
inside of their arrays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from tc.affine.intervals import Interval, scaled
from tc.sac.lowering.terms import Term, TermForm, Terms, is_floating

_Parts: TypeAlias = frozenset[tuple[Term, int]]


class Assumptions:
    """The conditions that hold where a term is made, innermost last."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.conditions: list[Term] = []
        self._facts: list[dict[_Parts, Interval]] = [{}]

    @contextmanager
    def of(self, condition: Term) -> Iterator[None]:
        """A stretch in which a further condition holds."""
        facts = dict(self._facts[-1])
        for part in conjuncts(condition):
            self._learn(part, facts)
        self.conditions.append(condition)
        self._facts.append(facts)
        try:
            yield
        finally:
            self.conditions.pop()
            self._facts.pop()

    @contextmanager
    def none(self) -> Iterator[None]:
        """A stretch in which none of the conditions is known to hold."""
        conditions, facts = self.conditions, self._facts
        self.conditions, self._facts = [], [{}]
        try:
            yield
        finally:
            self.conditions, self._facts = conditions, facts

    def stays_in(self, term: Term, size: int) -> bool:
        """Whether an integer is sure to be from 0 up to, not including, `size`."""
        low, high = self.interval(term)
        return low is not None and high is not None and low >= 0 and high < size

    def stays_below(self, term: Term, size: Term) -> bool:
        """Whether an integer is sure to be from 0 up to, not including, `size`."""
        if size.kind == "apply" and size.data == "min":
            return all(self.stays_below(term, each) for each in size.args)
        first, second = self.terms.linear_form(term), self.terms.linear_form(size)
        if first is None or second is None:
            return False
        low, _ = self.interval(term)
        _, high = self.interval(self.terms.linear(first - second))
        return low is not None and low >= 0 and high is not None and high < 0

    def interval(self, term: Term) -> tuple[int | None, int | None]:
        """The least and the greatest value of an integer under the conditions."""
        form = self.terms.linear_form(term)
        if form is None:
            return (None, None) if term.interval is None else term.interval
        low = high = form.constant
        for part, factor in form.terms.items():
            inner = self._known(frozenset({(part, 1)}), part.interval)
            assert inner is not None
            least, most = scaled(inner, factor)
            low, high = low + least, high + most
        parts = frozenset(form.terms.items())
        below, above = low - form.constant, high - form.constant
        known = self._known(parts, (below, above))
        if known is not None:
            below, above = known
        mirrored = self._known(frozenset((t, -f) for t, f in parts), (-above, -below))
        if mirrored is not None:
            below, above = max(below, -mirrored[1]), min(above, -mirrored[0])
        return below + form.constant, above + form.constant

    def _known(self, parts: _Parts, interval: Interval | None) -> Interval | None:
        fact = self._facts[-1].get(parts)
        if fact is None or interval is None:
            return interval
        return max(fact[0], interval[0]), min(fact[1], interval[1])

    def _learn(self, condition: Term, facts: dict[_Parts, Interval]) -> None:
        if condition.kind != "apply" or condition.data not in ("<", "<=", ">", ">=", "=="):
            return
        left, right = (self.terms.linear_form(arg) for arg in condition.args)
        if left is None or right is None:
            return
        self._note(condition.data, left - right, facts)

    def _note(self, op: str, difference: TermForm, facts: dict[_Parts, Interval]) -> None:
        """Notes that a difference is less than 0, or what else `op` says."""
        for term, factor in difference.terms.items():
            bounding = "min" if (factor < 0) == (op in ("<", "<=")) else "max"
            if op != "==" and term.kind == "apply" and term.data == bounding:
                rest = difference.without(term)
                for arg in term.args:
                    form = self.terms.linear_form(arg)
                    if form is not None:
                        self._note(op, rest.plus(form, factor), facts)
        if not difference.terms:
            return
        parts, bound = frozenset(difference.terms.items()), -difference.constant
        far = 1 << 62
        low, high = {
            "<": (-far, bound - 1), "<=": (-far, bound), ">": (bound + 1, far), ">=": (bound, far),
            "==": (bound, bound),
        }[op]  # fmt: skip
        self._meet(parts, (low, high), facts)
        if len(parts) == 1:
            ((term, factor),) = parts
            if factor == -1:
                self._meet(frozenset({(term, 1)}), (-high, -low), facts)

    def _meet(self, parts: _Parts, interval: Interval, facts: dict[_Parts, Interval]) -> None:
        old = facts.get(parts, interval)
        facts[parts] = max(old[0], interval[0]), min(old[1], interval[1])


def conjuncts(condition: Term) -> list[Term]:
    """The conditions that a condition joins by `&&`."""
    if condition.kind == "apply" and condition.data == "&&":
        return [part for arg in condition.args for part in conjuncts(arg)]
    return [condition]


def is_safe(term: Term, assumptions: Assumptions) -> bool:
    """Whether computing a term raises nothing, whatever the data and conditions around it."""
    seen: set[Term] = set()
    with assumptions.none():
        stack = [term]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if node.kind == "read":
                for subscript, size in zip(node.args, node.data.shape, strict=True):
                    if not assumptions.stays_in(subscript, size):
                        return False
            elif node.kind == "use":
                array = node.data
                for axis, subscript in zip(array.variables, node.args, strict=True):
                    if not assumptions.stays_in(subscript, axis.data[0].end):
                        return False
                stack.append(array.term)
            elif node.kind == "apply" and node.data in ("/", "%") and not is_floating(node.type):
                divisor = node.args[1].interval
                if divisor is None or divisor[0] <= 0 <= divisor[1]:
                    return False
            stack.extend(node.args)
    return True
