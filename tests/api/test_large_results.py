"""Large results start with a line of the caches, so that kernels may write them past these."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tc.device import LINE
from tc.runtime.specialisation import LARGE_BYTES, new_output

TWICE = "def twice(float(N) I) -> (O) { O(n) = 2 * I(n) }"


@pytest.mark.parametrize("alignment", [1, 16, 256])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.bool_])
def test_alignment(alignment: int, dtype: Any) -> None:
    kind = np.dtype(dtype)
    for length in (LARGE_BYTES - kind.itemsize, LARGE_BYTES, LARGE_BYTES + 12, 40 * LARGE_BYTES):
        arrays = [new_output((2, length // kind.itemsize // 2), kind, alignment) for _ in range(4)]
        least = max(alignment, LINE) if arrays[0].nbytes >= LARGE_BYTES else alignment
        for array in arrays:
            assert array.ctypes.data % least == 0
            assert array.dtype == kind
            assert array.shape == (2, length // kind.itemsize // 2)
            assert array.flags.c_contiguous
            assert array.flags.writeable


def test_results() -> None:
    twice = tc.compile(TWICE)
    for length in (LARGE_BYTES // 4, LARGE_BYTES // 4 + 3, LARGE_BYTES):
        ones = np.ones(length, np.float32)
        results = [twice(ones) for _ in range(3)]
        for result in results:
            assert result.ctypes.data % LINE == 0
            np.testing.assert_array_equal(result, 2 * ones)
