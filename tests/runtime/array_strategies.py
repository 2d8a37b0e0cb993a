"""Small arrays of numpy, alike and not, some of which share memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

BASE = np.arange(64, dtype=np.float32)


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """A small array in some order, of some type, from a base that others may share."""
    shape = draw(st.sampled_from([(2, 3), (2, 3), (3, 2), (1, 3), (0, 2), (2, 3, 1), (6,)]))
    base = BASE[draw(st.integers(0, 8)) :]
    size = int(np.prod(shape))
    array = base[:size].reshape(shape)
    if draw(st.booleans()):
        array = array.view(draw(st.sampled_from([np.int32, np.float32])))
    if draw(st.booleans()):
        array = array.transpose(draw(st.permutations(range(array.ndim))))
    for axis in range(array.ndim):
        if draw(st.integers(0, 3)) == 0:
            array = np.flip(array, axis)
    return array.copy() if draw(st.booleans()) else array
