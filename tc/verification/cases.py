"""The calls with which a kernel is tried, the most telling first."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tc.dtypes import Array
from tc.semantics import program as p
from tc.semantics.index_values import index_values
from tc.verification import probes, sizes
from tc.verification.kernel_call import POINTERS
from tc.verification.layouts import BEGINS, BROADCAST, ENDS, LAYOUTS, PLAIN, STRIDED, as_broadcast
from tc.verification.probes import Arrays, Probe
from tc.verification.sizes import SizeChoice, SizedProgram

_WIDTHS = (50, 40, 30, 26, 23, 20, 16, 12, 11, 9, 7, 5)
"""Bits of large integers, the most first: those with which sums stay exact are taken."""
_RACES = 8  # equal calls in which threads may meet


@dataclass(frozen=True)
class Case:
    """One call, or several equal ones; `given` are the inputs of the caller that stay as they
    are."""

    sized: SizedProgram
    probe: Probe
    layout: str = PLAIN
    repeats: int = 1
    given: Mapping[str, Array] | None = None
    later: Probe | None = None
    """What the same arrays hold in one more call."""

    def arrays(self) -> Arrays | None:
        """The inputs; None where the probe is none for these sizes."""
        found = self._made(self.probe)
        if found is None or self.layout != BROADCAST:
            return found
        return {name: as_broadcast(a) if a.ndim else a for name, a in found.items()}

    def later_arrays(self, arrays: Mapping[str, Array]) -> Arrays | None:
        """What the same arrays hold in one more call, with the same numbers."""
        found = None if self.later is None else self._made(self.later)
        if found is None:
            return None
        return {name: a if a.ndim else arrays[name] for name, a in found.items()}

    def _made(self, probe: Probe) -> Arrays | None:
        with np.errstate(all="ignore"):  # some values are infinite in narrow types
            found = probe.make(self.sized.shaped)
        if found is None or self.given is None:
            return found
        kept = index_values(self.sized.shaped)
        return {name: self.given[name] if name in kept else a for name, a in found.items()}

    @property
    def may_be_refused(self) -> bool:
        """Whether a kernel may raise an exception."""
        return self.layout != PLAIN or self.is_empty

    @property
    def is_empty(self) -> bool:
        """Whether some tensor has no elements."""
        return any(0 in shape for shape in self.sized.shaped.shapes.values())


def all_cases(choice: SizeChoice, layouts: tuple[str, ...], smooth: bool) -> Iterator[Case]:
    """The cases for sizes of one's own; `smooth` leaves out what has ties and corners."""
    found = choice.all()
    base = next(found, None)
    if base is None:
        return
    first = [*_first(base, smooth)]
    yield from first
    unlike = [*itertools.islice(found, 4)]
    for sized in unlike:
        yield from _at(sized, ENDS if ENDS in layouts else PLAIN, smooth)
    few = [*itertools.islice(found, 12)]
    for sized in few:
        yield from _at(sized, ENDS if ENDS in layouts else PLAIN, smooth)
    others = [base, *unlike[:1]]
    for sized in others:
        if not smooth:
            yield from (Case(sized, probe) for probe in probes.probes_of(sized.shaped))
        for layout in layouts:
            yield Case(sized, probes.real(4) if smooth else probes.whole(4), layout)
    for sized in found:
        if sized.kind == sizes.LARGE:
            yield Case(sized, probes.real(5) if smooth else probes.whole(5), PLAIN, _RACES)
            yield Case(sized, probes.real(6), PLAIN, _RACES // 2)
            if not smooth:
                yield from _large(sized, PLAIN)
        else:
            yield from _at(sized, ENDS if ENDS in layouts else PLAIN, smooth)
    for sized in (*unlike[1:], *few):
        if not smooth:
            yield from (Case(sized, probe) for probe in probes.probes_of(sized.shaped))
        for layout in layouts:
            yield Case(sized, probes.real(7), layout)


def given_cases(
    sized: SizedProgram, inputs: Mapping[str, Array], layouts: tuple[str, ...], smooth: bool
) -> Iterator[Case]:
    """The cases with inputs of the caller, and others in their shapes."""
    own = Probe("given", "the inputs given", lambda _: dict(inputs))
    yield Case(sized, own, PLAIN, 2)
    for case in (*_first(sized, smooth), *_at(sized, PLAIN, smooth)):
        yield replace(case, given=inputs)
    for layout in layouts:
        yield Case(sized, own, layout)
    if not smooth:
        for probe in probes.probes_of(sized.shaped):
            yield Case(sized, probe, PLAIN, 1, inputs)
    yield Case(sized, own, PLAIN, _RACES)


def _first(sized: SizedProgram, smooth: bool) -> Iterator[Case]:
    if not smooth:
        yield Case(sized, probes.whole(), PLAIN, 2)
    yield Case(sized, probes.real(), PLAIN, 2)
    yield Case(sized, probes.real(77) if smooth else probes.whole(77), PLAIN, 2)
    yield Case(sized, probes.real(20), later=probes.real(21))


def _at(sized: SizedProgram, layout: str, smooth: bool) -> Iterator[Case]:
    if not smooth:
        yield Case(sized, probes.whole(1), layout)
        yield from _large(sized, layout)
    yield Case(sized, probes.real(2), layout, 2)


def _large(sized: SizedProgram, layout: str) -> Iterator[Case]:
    bits = widest(sized.shaped)
    if bits:
        yield Case(sized, probes.large(bits), layout)
    for probe in probes.of_narrow_integers(sized.shaped):
        yield Case(sized, probe, layout)


def widest(shaped: p.ShapedProgram) -> int:
    """The bits of the largest integers of which all sums and products are exact; 0 for none."""
    most = 0
    for each in shaped.statements:
        terms = 1
        for variable in each.statement.reduction:
            terms *= max(each.ranges[variable].extent, 1)
        for value in each.statement.values:
            if each.statement.op == "*":
                return 0
            most = max(most, 1)
            factors = max(_factors(value), 1)
            dtype = value.dtype
            digits = dtype.format.digits if dtype.is_float else dtype.bits - 2
            left = digits - (terms - 1).bit_length()
            for bits in _WIDTHS:
                if bits * factors <= left:
                    most = bits if most == 1 else min(most, bits)
                    break
            else:
                return 0
    return most if most > 3 else 0


def _factors(expr: p.Expr) -> int:
    """How many elements are multiplied, at most."""
    match expr:
        case p.Read():
            return 1
        case p.Binary(op="*", left=left, right=right):
            return _factors(left) + _factors(right)
        case _:
            return max((_factors(child) for child in p.children(expr)), default=0)


def layouts_for(library: str, form: str, device: str, is_isolated: bool) -> tuple[str, ...]:
    """The layouts, but for the plain one, in which a kernel can be given arrays."""
    if library == "jax":
        return ()
    strided = () if form == POINTERS else STRIDED
    guarded = (ENDS, BEGINS) if is_isolated and not device else ()
    return tuple(name for name in LAYOUTS if name in (*guarded, *strided))
