"""The plan that was chosen, printed, read back and given, makes the same kernel text; `tests/verbs`
has the table of programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

import tc
from bench.cpu_kernels.kernel import Kernel
from bench.cpu_kernels.table import BY_NAME

DEVICES = (
    tc.Device(vector_bits=512, vector_registers=32, exponents=True, l2=1 << 20, threads=8),
    tc.Device(vector_bits=128, fma=False, threads=1),
)


def assert_given_back(
    text: str, entry: str | None, inputs: Mapping[str, Any], device: tc.Device, options: tc.Options
) -> None:
    chosen = tc.explain(text, inputs, entry=entry, device=device, options=options)
    plan = chosen.stages["plan"]
    asked = replace(options, plan=tc.Plan.from_json(plan))
    given = tc.explain(text, inputs, entry=entry, device=device, options=asked)
    assert given.stages["plan"] == plan
    assert given.trace is not None
    assert chosen.trace is not None
    assert given.trace.kernel == chosen.trace.kernel  # from which each backend makes its text
    assert str(given.trace.text) == str(chosen.trace.text)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("kernel", BY_NAME.values(), ids=lambda kernel: kernel.name)
def test_kernels_of_the_benchmark(kernel: Kernel) -> None:
    shapes = {name: kernel.scalars.get(name, shape) for name, shape in kernel.shapes.items()}
    assert_given_back(kernel.text, None, shapes, DEVICES[0], tc.Options())


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
def test_a_program_whose_sums_of_halves_are_kept() -> None:
    """The plan is that of the program with the temporary, and is given to that."""
    text = """def f(half(1,A,B,C) a, half(F,A,C,C) b) -> (o) {
      o(n,f,j) +=! a(n,0,2*i+3*x,j+y) * b(f,c,x,y)
    }"""
    options = tc.Options(
        schedule=tc.ScheduleOptions(fusion="isl", seconds=600), mapping=tc.MappingOptions(unroll=1)
    )
    shapes = {"a": (1, 1, 13, 1), "b": (3, 1, 1, 1)}
    explanation = tc.explain(text, shapes, options=options, device=DEVICES[0])
    assert "o.s0 is new" in explanation.stages["rewrite"]
    assert_given_back(text, None, shapes, DEVICES[0], options)
