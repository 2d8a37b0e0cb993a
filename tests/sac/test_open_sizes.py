"""Arrays whose sizes an index around them decides: kernels serve them, and refuse what the
reference refuses (C26)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
import tc.sac

V = (np.arange(40, dtype=np.int32) * 7) % 11 - 3
W = (np.arange(40, dtype=np.int32) * 5) % 7
X = np.float32(2)

SERVED: list[tuple[str, dict[str, Any], Any]] = [
    # a size that is negative where no result needs it
    ("drop([1], { [i] -> all({ [j] -> x | [j] < [2 - i] }) | [0] < [i] < [3] })", {"x": X},
     [True, True]),
    ("{ [i] -> i > 0 ? sum(take([i - 1], v)) : 7 | [i] < [40] }", {"v": V},
     [7, *(V[: i - 1].sum() for i in range(1, 40))]),
    # an index outside in a branch that is not taken
    ("x = n > 5 ? v[40] : v[0]; { [i] -> x | [i] < [2] }", {"v": V, "n": np.int32(5)}, V[[0, 0]]),
]  # fmt: skip


@pytest.mark.parametrize("backend", ["interpret", "numba"])
@pytest.mark.parametrize(("text", "given", "due"), SERVED)
def test_a_kernel_serves(text: str, given: dict[str, Any], due: Any, backend: str) -> None:
    """A call that the reference served would warn."""
    function = tc.sac.compile(text, backend=backend)
    np.testing.assert_array_equal(function(given), due)
    np.testing.assert_array_equal(tc.sac.interpret(text, given), due)
