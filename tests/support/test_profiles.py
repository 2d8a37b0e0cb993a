"""The profile `ci` of Hypothesis draws the same examples in every run."""

from __future__ import annotations

from tests.support.processes import run_python, told

DRAWS = """
import sys
import tests.conftest
from hypothesis import given, strategies as st
if sys.argv[1:]:
    import tc.api, tc.backends.numba.math, tc.kernel.math.forms
seen = []
@given(st.integers(), st.floats(allow_nan=False), st.lists(st.integers(0, 10**6)))
def draw(a, b, c):
    seen.append((a, b, c))
draw()
print(len(seen), seen)
"""


def test_whatever_is_loaded() -> None:
    environment = {"HYPOTHESIS_PROFILE": "ci"}
    one, other = (run_python(DRAWS, *more, environment=environment) for more in ([], ["modules"]))
    assert one.stdout.startswith("30 ["), told(one)
    assert one.stdout == other.stdout, told(other)
