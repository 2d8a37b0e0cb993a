"""Hypothesis strategies for processors and options."""

from __future__ import annotations

from hypothesis import strategies as st

import tc
from tc.device import Device


def devices() -> st.SearchStrategy[Device]:
    """Processors with small caches, too, so that small programs meet every decision."""
    return st.builds(
        Device,
        vector_bits=st.sampled_from([0, 128, 128, 256, 512]),
        unit_bits=st.sampled_from([0, 0, 128, 256]),
        vector_registers=st.sampled_from([8, 16, 32]),
        l1=st.sampled_from([64, 1 << 15]),
        l2=st.sampled_from([64, 1 << 12, 1 << 20]),
        exponents=st.booleans(),
        threads=st.sampled_from([1, 2, 4]),
    )


def options(device: Device) -> st.SearchStrategy[tc.Options]:
    """Options that the processor can do."""
    widths = [None, *(bits for bits in (0, 128, 256, 512) if bits <= device.vector_bits)]
    mapping = st.builds(
        tc.MappingOptions,
        vector_bits=st.sampled_from(widths),
        rows=st.sampled_from([None, None, 1, 2, 3]),
        vectors=st.sampled_from([None, None, 1, 2]),
        reduction_tile=st.sampled_from([None, None, 1, 2, 5]),
        pack=st.sampled_from([None, None, True, False]),
        unroll=st.sampled_from([1, 30, 4096]),
        parallel=st.booleans(),
    )
    schedule = st.builds(
        tc.ScheduleOptions,
        fusion=st.sampled_from(["auto", "max", "min", "preserve3coincident"]),
        rewrite=st.booleans(),
    )
    return st.builds(tc.Options, mapping=mapping, schedule=schedule, match_library=st.booleans())
