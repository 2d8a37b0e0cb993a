"""What the chooser for processors counts, beside what a `Device` says of itself.

Times are in *slots*: in one, a core's units begin as many multiply-adds of full vectors as they do
in a cycle; where units are narrower than vectors, a slot is several cycles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tc.device import Device
from tc.options import MappingOptions
from tc.polyhedral.actions.draft import Draft


@dataclass(frozen=True, slots=True, kw_only=True)
class TileCosts:
    """Costs of what a register tile does: slots of a core, factors of such, bytes.

    Each of these decides the plan of some program (`tests/polyhedral/test_cost_terms.py`)."""

    issue_slots: float = 0.125
    """An instruction takes these beside the time of the units, whatever its width."""

    masked_factor: float = 1.1
    masked_gather_factor: float = 3.0
    """Masks at the ends of rows make a tile that much slower; those of gathers, so much."""

    packing_slots: float = 6.0
    transposing_slots: float = 7.0
    """A vector is packed in these; a vector is transposed in registers in these."""

    staged_slots: float = 6.0
    scattered_slots: float = 4.0
    """A vector is stored in these by way of a staged tile; each of its elements is stored in these
    where the elements of a vector lie apart."""

    interleaved_factor: float = 0.5
    """The part of `scattered_slots` that is left where other statements store the elements between
    those of a vector, with which they are interleaved."""

    combining_slots: float = 12.0
    """The partial sums of a vector are combined in these, at the end of a reduction."""

    spilled_factor: float = 2.0
    """Panels that do not stay in the cache make a tile that much slower."""

    tie_factor: float = 1.01
    """Tiles whose costs differ by less are equal: the wider panels are taken, for which rows are
    read less often."""

    unprefetched_factor: float = 4.0
    """A line that hardware does not prefetch costs as much as that many others."""

    packing_span_bytes: int = 128 << 10
    """The vectors of one panel may be spread over that much memory before they are packed."""

    stream_switch_slots: float = 2.0
    """A step of a reduction takes these to go on at another place of memory that no cache holds."""

    copying_multiply_adds: float = 8.0
    """An element is copied to a padded copy in the time of that many multiply-adds of the whole
    reduction."""


def device_of(draft: Draft, options: MappingOptions | None = None) -> Device:
    """The processor that a plan is for, with vectors as wide as options say."""
    device = draft.target.device
    assert isinstance(device, Device)
    if options is None or options.vector_bits is None:
        return device
    return replace(device, vector_bits=options.vector_bits)
