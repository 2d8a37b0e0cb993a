"""The preset "naive" on a GPU: plain loops in text order, run by one thread."""

from __future__ import annotations

import tc
from tc.kernel.printer import to_text
from tc.polyhedral.lowering import Lowering
from tests.support.lowering import trace_lowering
from tests.support.pipeline import checked, shaped_by

NAIVE = tc.Options.preset("naive")
GPU = tc.Gpu()
TWO = """
def two(float(N,M) a, float(N) b) -> (x, y) {
  x(i) +=! a(i,j) * b(i)
  y(j,i) = i < 3 ? a(i,j) : x(i)
}"""
EXPECTED = """\
kernel two
  input a: float32[100, 70]
  input b: float32[100]
  output x: float32[100]
  output y: float32[70, 100]
region
  # x(i) +=! a(i,j) * b(i)
  one block of one thread
    for i in 0:100
      x[i] = 0.0f
      for j in 0:70
        x[i] = x[i] + a[i, j] * b[i]
region
  # y(j,i) = i < 3 ? a(i,j) : x(i)
  one block of one thread
    for j in 0:70
      for i in 0:100
        y[j, i] = i < 3 ? a[i, j] : x[i]"""


def lowered(text: str, shapes: dict[str, tuple[int, ...]]) -> Lowering:
    shaped = shaped_by(checked(text), shapes)
    return trace_lowering(shaped, {}, initial=frozenset(), check=False, options=NAIVE, device=GPU)


def test_each_part_is_a_launch_of_one_thread() -> None:
    lowering = lowered(TWO, {"a": (100, 70), "b": (100,)})
    assert to_text(lowering.kernel) == EXPECTED
    assert lowering.mapped.tree == lowering.tree


def test_what_is_said_of_it() -> None:
    lowering = lowered(TWO, {"a": (100, 70), "b": (100,)})
    assert lowering.mapped.notes == (
        "S0.init, S0: i is run by one block along x in 100 turns.",
        "S1: j is run by one block along x in 70 turns.",
    )
