"""Derived gradients of the verified pairs, against the pairs and central differences."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.api import _program
from tc.frontend.format import format_source
from tests.gradient.differences import along_directions, cotangents, forward
from tests.gradient.pairs import Pair, arrays, as_double
from tests.gradient.pairs_of_rules import PAIRS
from tests.gradient.tangents_of import assert_transposed

OTHER_TIES = "maxpool2x2, first of ties"


@pytest.mark.drawn(3)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_derived_gradient_is_that_of_the_pair(pair: Pair) -> None:
    text = as_double(pair.forward)
    numbers = np.random.default_rng(1)
    inputs = arrays(pair.inputs, numbers)
    inputs |= {f"{n}_0": numbers.random(shape) for n, shape in pair.outputs.items()}
    outputs = forward(text, inputs)
    given = pair.cotangent or cotangents(outputs, numbers)
    given = {n: np.float64(v) for n, v in given.items()}
    known = {**inputs, **outputs, **given}
    constant = ("m",) if pair.name == "softmax, m constant" else ()
    derived = tc.grad(text, constant=constant)
    names = _program(derived, None).outputs
    gradients = forward(derived, known)
    if pair.name != OTHER_TIES:
        written = [*forward(as_double(pair.gradient), known).values()]
        wanted = dict(zip(_program(as_double(pair.gradient), None).outputs, written, strict=True))
        for name in names:
            same = name if name in wanted else name.removesuffix("_2")
            np.testing.assert_allclose(gradients[name], wanted[same], rtol=1e-12, atol=1e-12)
        for name, value in pair.kink.items():
            np.testing.assert_allclose(gradients[name], value)
    gradients = {n.removesuffix("_2"): v for n, v in gradients.items()}
    assert_transposed(text, inputs, given, gradients)
    if not pair.kink:
        for difference, slope in along_directions(text, inputs, given, gradients):
            assert slope == pytest.approx(difference, rel=1e-7, abs=1e-7)


def test_a_gradient_is_laid_out_already() -> None:
    for pair in PAIRS[:4]:
        derived = tc.grad(pair.forward)
        assert format_source(tc.Source(derived)) == derived
