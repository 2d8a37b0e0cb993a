"""Derived gradients of the verified pairs, against the pairs and central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tc.api import _program
from tc.frontend.format import format_source
from tests.gradient.differences import along_directions, cotangents, forward
from tests.gradient.pairs import Pair, arrays, as_double
from tests.gradient.pairs_of_rules import PAIRS
from tests.gradient.tangents_of import assert_transposed
from tests.support.bounds import assert_within
from tests.support.opencl import on_pocl

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


# --- Gradients of the verified pairs, derived and as they were written, on every backend.


ON_OPENCL = ("matmul", "conv2d stride 2", "softmax", "maxpool2x2", "embedding gather", "product")


def known_of(pair: Pair) -> dict[str, Any]:
    """The inputs in the types of the program, its outputs, and cotangents."""
    program = _program(pair.forward, pair.entry)
    numbers = np.random.default_rng(1)
    known = arrays(pair.inputs, numbers)
    known |= {f"{n}_0": numbers.random(shape) for n, shape in pair.outputs.items()}
    types = {n: program.tensors[n.removesuffix("_0")].dtype.name for n in known}
    known = {n: np.asarray(v).astype(types[n]) for n, v in known.items()}
    outputs = forward(pair.forward, known, pair.entry)
    given = pair.cotangent or cotangents(outputs, numbers)
    given = {n: np.asarray(v).astype(outputs[n[2:]].dtype) for n, v in given.items()}
    return {**known, **outputs, **given}


def derived(pair: Pair) -> str:
    ties = "first" if "first of ties" in pair.name else "split"
    return tc.grad(pair.forward, ties=ties, constant=("m",) if "m constant" in pair.name else ())


def assert_pair(pair: Pair, backend: str, *texts: str) -> None:
    """What is compiled lies within the bound of the interpreter's; the written and the derived
    text are compared with each other, and with differences, in float64 (test_pairs.py)."""
    known = known_of(pair)
    for text in texts:
        program = _program(text, None)
        args = {n: known[n] for n in program.inputs}
        found = tc.compile(text, backend=backend)(args)
        wanted, bounds = tc.interpret(text, args), tc.error_bound(text, args)
        several = len(program.outputs) > 1
        for name, value, like, bound in zip(
            program.outputs,
            *(every if several else (every,) for every in (found, wanted, bounds)),
            strict=True,
        ):
            assert_within(value, like, bound)
            if name in pair.kink:
                assert_within(value, np.asarray(pair.kink[name]).astype(value.dtype), bound)


@pytest.mark.drawn(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_pair_by_numba(pair: Pair) -> None:
    assert_pair(pair, "numba", pair.gradient, derived(pair))


@pytest.mark.drawn(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif("c" not in tc.backends(), reason="backend c is not usable here")
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_pair_by_a_compiler_of_c(pair: Pair) -> None:
    assert_pair(pair, "c", derived(pair))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ON_OPENCL)
@on_pocl
def test_a_pair_on_pocl(name: str) -> None:
    pair = next(pair for pair in PAIRS if pair.name == name)
    assert_pair(pair, "opencl", derived(pair))


test_a_pair_on_pocl.__wrapped__.__module__ = "tests.gradient.test_pairs"
"""Its name in the process of PoCL, where tests are a package."""
