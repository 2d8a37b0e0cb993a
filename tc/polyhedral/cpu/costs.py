"""What the chooser for processors counts, beside what a `Device` says of itself.

Times are in *slots*: in one, a core's units begin as many multiply-adds of full vectors as they do
in a cycle; where units are narrower than vectors, a slot is several cycles.
"""

from __future__ import annotations

from dataclasses import dataclass

from tc.device import Device
from tc.polyhedral.actions.draft import Draft


@dataclass(frozen=True, slots=True, kw_only=True)
class TileCosts:
    """`issue`: slots that each instruction takes beside the units' time, whatever its width.
    `masked`: what masks at the ends of rows cost, as a factor, and `masked_gather` where they are
    those of gathers. `packing`, `transposing`: to pack a vector, or transpose it in registers.
    `staged`: to store a vector by way of a staged tile, `scattered`: to store each of its elements
    where it belongs, and `near` the part of that where other statements store the elements between
    them, with which they are interleaved. `combining`: to combine the partial sums of a vector at
    the end of a reduction. `spilled`: what panels cost that do not stay in the cache, as a factor.
    Costs that differ by less than the factor `alike` are equal: wider panels are taken then, for
    which rows are read less often. `unforeseen`: what lines cost that hardware does not prefetch,
    as a factor. `far`: the bytes over which the vectors of one panel may be spread before it is
    packed. `run`: to go on, with each step of a reduction, at another place of memory that no cache
    holds. `copying`: to copy an element to a padded copy, in multiply-adds of the whole
    reduction."""

    issue: float = 0.125
    masked: float = 1.1
    masked_gather: float = 3.0
    packing: float = 6.0
    transposing: float = 7.0
    staged: float = 6.0
    scattered: float = 4.0
    near: float = 0.5
    combining: float = 12.0
    spilled: float = 2.0
    alike: float = 1.01
    unforeseen: float = 4.0
    far: int = 128 << 10
    run: float = 2.0
    copying: float = 8.0


def device_of(draft: Draft) -> Device:
    """The processor that a plan is for."""
    device = draft.target.device
    assert isinstance(device, Device)
    return device
