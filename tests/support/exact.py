"""Arrays compared to the bit, but for the payloads of NaN."""

from __future__ import annotations

import numpy as np

from tests.support.kernels import Array


def check(found: Array, expected: Array, what: object) -> None:
    """Fails unless types, shapes and values are the same, signs of zeros included."""
    assert found.dtype == expected.dtype, what
    np.testing.assert_array_equal(found, expected, err_msg=str(what), strict=True)
    zeros = expected == 0
    if expected.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(expected[zeros]))
