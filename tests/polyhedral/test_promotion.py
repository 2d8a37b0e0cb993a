"""Which elements of a tile are copied, and whether before its statements run."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tc.device import Device
from tc.polyhedral.schedule import to_text
from tests.support.lowering import trace_lowering
from tests.support.pipeline import checked, shaped

DEVICE = Device(vector_bits=256, vector_registers=16)


def promotions(text: str, *shapes: tuple[int, ...], given: bool = False) -> list[str]:
    """The promotions of the mapped tree, as its text has them."""
    program = checked(text)
    arrays = {n: np.ones(s, np.float32) for n, s in zip(program.inputs, shapes, strict=True)}
    initial = frozenset(program.outputs) if given else frozenset[str]()
    shape = shaped(program, arrays)
    traced = trace_lowering(shape, {}, initial=initial, check=True, device=DEVICE)
    lines = to_text(traced.mapped.tree).split("\n")
    return [line.strip() for line in lines if line.strip().startswith("promote")]


@pytest.mark.parametrize(
    ("text", "given", "copied"),
    [
        ("def f(float(N,K) a) -> (o) { o(i) +=! a(i,k) }", False, ["(copied out)"]),
        ("def f(float(N,K) a) -> (o) { o(i) += a(i,k) }", True, ["(copied in and out)"]),
        # all that is touched is written first: nothing else is written back
        (
            "def f(float(N,K) a) -> (float(20) o) { o(i) +=! a(i,k) where i in 2:9 }",
            True,
            ["(copied out, 2:9)"],
        ),
        # fresh, its zeros are in the same tile
        (
            "def f(float(N,K) a) -> (float(20) o) { o(i) +=! a(i,k) where i in 2:9 }",
            False,
            ["(copied out)"],
        ),
        # the first statement writes less than the second reads
        (
            "def f(float(N,K) a) -> (o) { o(i) = a(i,0) where i in 1:20  o(i) += 1 }",
            True,
            ["(copied in and out)"],
        ),
        # what lies between the parts belongs to neither
        (
            """def f(float(N,K) a) -> (float(60) o) {
  o(i) = a(i,0) where i in 0:20  o(i) = a(i-20,1) where i in 20:40 }""",
            True,
            [],
        ),
    ],
)
def test_copies(text: str, given: bool, copied: list[str]) -> None:
    found = promotions(text, (20, 40), given=given)
    assert [line[line.index("(") :] for line in found] == copied, found


def test_panels_begin_with_the_loop_and_not_with_the_statement() -> None:
    """The zeros of `o` begin at 0, the product at 3: a panel is whole vectors of the loop."""
    text = "def f(float(N,M) a, float(K,M) b) -> (o) { o(r,w) +=! a(w,n) * b(r,n) where w in 3:64 }"
    (found,) = (x for x in promotions(text, (64, 30), (40, 30)) if "a_packed" in x)
    shape = re.search(r"\[(\d+)x30x(\d+)\]", found)
    assert shape is not None, found
    panels, width = map(int, shape.groups())
    assert width % 8 == 0, "no whole vectors"
    assert "temporary" not in found or panels == -(-64 // width), found
