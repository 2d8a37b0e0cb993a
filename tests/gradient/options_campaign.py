"""`python -m tests.gradient.options_campaign --count N --seed S`: what is asked of derivatives.

Of each generated program in float64, `tc.vjp` gives the values of `tc.grad`, whatever is saved; the
first of several maxima is the share of each where there is but one; a batch gives what calls of its
elements give; and gradients and batches, compiled with the options of the program for its device,
lie within `tc.error_bound` of the interpreter's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import tc
from tc.api import _program
from tc.gradient.batching import batched_outputs
from tests.fuzz.execute import on_device, options_of, run_of
from tests.fuzz.model import Case
from tests.gradient.campaign import (
    ENTRY,
    GradientCampaign,
    apart,
    as_given,
    assert_alike,
    bounds_checked,
    derived,
    derived_for,
    weights_of,
)
from tests.gradient.differences import Arrays, forward
from tests.gradient.pairs import as_double
from tests.support.campaigns import Passed, parser_of, run_campaign


def with_vjp(text: str, known: Arrays, weights: Arrays, save: str, **sizes: Any) -> Arrays:
    """The gradients by `tc.vjp`."""
    made = tc.vjp(text, entry=ENTRY, save=save, **sizes)
    results = forward(made.forward, known, None)
    taken = {**known, **results, **weights}
    return forward(made.backward, taken, None)


def saved(text: str, known: Arrays, numbers: np.random.Generator) -> Iterator[str]:
    results = forward(text, known, ENTRY)
    weights = weights_of(results, numbers)
    sizes: dict[str, Any] = {}
    try:
        gradient = tc.grad(text, entry=ENTRY)
    except tc.GradError as error:
        if error.rule != "D4":
            raise
        gradient = derived_for(text, known, entry=ENTRY)
        ranked = [n for n in _program(text, ENTRY).inputs if np.ndim(known[n])]
        static = _program(text, ENTRY).static_scalars
        sizes["sizes"] = {n: known[n].shape for n in ranked} | {n: int(known[n]) for n in static}
    wanted = forward(gradient, {**known, **results, **weights}, None)
    for save in ("all", "outputs", "none"):
        assert_alike(f"saving {save}", wanted, with_vjp(text, known, weights, save, **sizes))
        yield f"saved: {save}"
    first = forward(derived(text, known, ties="first"), {**known, **results, **weights}, None)
    assert_alike("the first of several", wanted, first)
    yield "first of ties"


def batched(
    text: str, known: Arrays, numbers: np.random.Generator
) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The text of a batch, its inputs, and the results by name."""
    program = _program(text, ENTRY)
    free = [n for n in program.inputs if n not in program.static_scalars]
    chosen = [n for n in free if numbers.random() < 0.6] or free[:1]
    if not chosen or program.needs_initial:
        raise Passed("nothing to batch")
    count = int(numbers.integers(0, 4))
    axes, given = {}, dict(known)
    for name in chosen:
        value = known[name]
        axes[name] = int(numbers.integers(0, value.ndim + 1))
        several = [numbers.permutation(value.ravel()).reshape(value.shape) for _ in range(count)]
        empty = np.zeros((0, *value.shape), value.dtype)
        given[name] = np.moveaxis(np.stack(several) if several else empty, 0, axes[name])
    made = tc.batch(text, axes, entry=ENTRY)
    names = batched_outputs(text, axes, entry=ENTRY)
    each = [
        {n: np.take(v, i, axes[n]) if n in axes else v for n, v in given.items()}
        for i in range(count)
    ]
    results = [forward(text, values, ENTRY) for values in each]
    whole = forward(text, known, ENTRY)
    wanted = {
        name: np.array([r[name] for r in results], value.dtype).reshape(count, *value.shape)
        if name in names
        else value
        for name, value in whole.items()
    }
    return made, given, wanted


def assert_compiled(case: Case, text: str, known: Arrays, what: str) -> None:
    """The values of a text with the options of a program, for its device, are within its bound."""
    program = _program(text, None)
    args = {n: np.asarray(known[n]).astype(program.tensors[n].dtype.name) for n in program.inputs}
    options = options_of(run_of(case), tc)
    backend = case.backend if case.backend in ("numba", "c") else "numba"
    if program.static_scalars and backend == "c":
        backend = "numba"
    try:
        with on_device(case.device if "vector_bits" in case.device else {}, backend, 0):
            made = tc.compile(text, backend=backend, options=options)(args)
    except tc.BackendError as error:
        raise Passed("options for another device") from error
    bounds_checked(f"{what} by {backend}, {case.options}, {case.device}", text, args, made)


def judge(case: Case, number: int) -> Iterator[str]:
    """What was checked of a program; Unlike for what is wrong."""
    text = as_double(case.text)
    numbers = np.random.default_rng(number)
    try:
        program = _program(text, ENTRY)
        known, given = apart(case, text, numbers), as_given(case, case.text)
        forward(text, known, ENTRY)
        forward(case.text, given, ENTRY)
    except (tc.TCError, KeyError) as error:
        raise Passed(f"{type(error).__name__} in the program") from error
    if any(program.tensors[n].dtype.is_float for n in program.inputs):
        yield from saved(text, known, numbers)
        gradient = derived(case.text, given)
        weights = weights_of(forward(case.text, given, ENTRY), numbers)
        full = {**given, **forward(case.text, given, ENTRY), **weights}
        assert_compiled(case, gradient, full, "the gradient")
        yield "compiled gradient"
    try:
        made, inputs, wanted = batched(text, known, numbers)
    except Passed as passed:
        yield str(passed)
        return
    except tc.GradError as error:
        if "depends on" not in str(error):
            raise
        yield "sizes depend on what is batched"
        return
    assert_alike("a batch", wanted, forward(made, inputs, None))
    assert_compiled(case, made, inputs, "a batch")
    yield "batch"


def main(arguments: list[str]) -> int:
    parser = parser_of("tests.gradient.options_campaign", __doc__, count=100)
    chosen = parser.parse_args(arguments)
    campaign = GradientCampaign(
        chosen.seed, "tests.gradient.options_campaign", lambda number, case: judge(case, number)
    )
    return run_campaign(campaign, chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
