"""`python -m tests.gradient.places_campaign --count N --seed S`: gradients of generated programs
with computed places, conditions, ranges that depend on others, and several targets.

The programs are those of tests/fuzz/places. Each is derived in float64: the gradient is the
transpose of the tangents, and these are the slopes of central differences where the program is
smooth; the second derivative is the transpose of the tangents of the gradient; a batch gives what
calls one by one give. The gradient is computed by backends, too.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import tc
from tc.api import _program
from tc.frontend.format import format_source
from tc.gradient import symbolic_ranges
from tc.gradient.batching import batched_outputs
from tests.fuzz.execute import Run, evaluated
from tests.fuzz.places import generate
from tests.gradient.campaign import (
    SMALL,
    Unlike,
    assert_alike,
    assert_transposed,
    weights_of,
)
from tests.gradient.differences import Arrays, along, forward
from tests.gradient.pairs import as_double
from tests.support.campaigns import Campaign, Passed, parser_of, run_campaign

GRADIENTS = ("outputs", "all", "none")
"""What a gradient saves."""


def known_of(case: generate.Case, text: str, numbers: np.random.Generator) -> dict[str, Any]:
    """The inputs in the types of a text; floats of a size, moved so that none are equal."""
    program = _program(text, None)
    given = {f"{n}_0": case.initial[n] for n in program.needs_initial if n in case.initial}
    if len(given) < len(program.needs_initial):
        raise Passed("no values in an output that goes on")
    known: dict[str, Any] = {}
    for name, value in {**case.inputs, **given}.items():
        dtype = program.tensors[name.removesuffix("_0")].dtype
        if dtype.is_float:
            small = np.clip(np.nan_to_num(np.asarray(value, "float64")), -3, 3)
            value = small + numbers.uniform(-0.2, 0.2, small.shape)
        known[name] = np.asarray(value).astype(dtype.name)
    return known


def judge(case: generate.Case, number: int, backends: tuple[str, ...]) -> Iterator[str]:
    """What was checked of a program; Unlike for what is wrong."""
    text = as_double(case.text)
    numbers = np.random.default_rng(number)
    try:
        program = _program(text, None)
        known = known_of(case, text, numbers)
        results = forward(text, known)
    except (tc.TCError, KeyError) as error:
        raise Passed(f"{type(error).__name__} in the program") from error
    if not any(program.tensors[n].dtype.is_float for n in program.inputs):
        raise Passed("nothing floating")
    weights = weights_of(results, numbers)
    made = [_derived(text, known, save) for save in GRADIENTS]
    for gradient in dict.fromkeys(made):
        if format_source(tc.Source(gradient)) != gradient:
            raise Unlike(f"not laid out: {gradient}")
    for save, gradient in zip(GRADIENTS, made, strict=True):
        if save != "all":
            yield from _passing("transposed", _transposed, text, gradient, known, weights)
    yield from _passing("differences", _smooth, text, known, numbers)
    yield from _passing("forward and backward", _in_two, text, known, weights, made[0])
    yield from _passing("batched", _batched, text, known)
    for backend in backends:
        yield from _passing(f"on {backend}", _on, backend, made[0], {**known, **results, **weights})
    gradient = made[2]
    wide = _program(gradient, None)
    if any(wide.tensors[n].dtype.is_float for n in wide.inputs):
        full = {**known, **weights}
        again = weights_of(forward(gradient, full), numbers)
        second = _derived(gradient, full, "none")
        yield from _passing("second", _transposed, gradient, second, full, again)


def _passing(what: str, check: Any, *args: Any) -> Iterator[str]:
    try:
        check(*args)
        yield what
    except Passed as passed:
        yield f"{what}: {passed}"


def _derived(text: str, known: Arrays, save: str) -> str:
    if _has_symbolic_ranges(text):
        return str(tc.grad(text, save=save))
    program = _program(text, None)
    sized = [n for n in program.inputs if program.tensors[n].rank or n in program.static_scalars]
    sizes = {n: known[n].shape or int(known[n]) for n in sized}
    return str(tc.grad(text, save=save, sizes=sizes))


@functools.cache
def _has_symbolic_ranges(text: str) -> bool:
    """Whether a gradient has a text for all sizes."""
    try:
        tc.grad(text)
    except tc.GradError as error:
        if error.rule != "D4":
            raise
        return False
    return True


def _transposed(text: str, gradient: str, known: Arrays, weights: Arrays) -> None:
    try:
        assert_transposed(text, gradient, known, weights, None)
    except (AssertionError, tc.TCError) as error:
        if isinstance(error, Passed):
            raise
        raise Unlike(f"{type(error).__name__} {error}\n{gradient}\n{tc.jvp(text)}") from error


def _smooth(text: str, known: Arrays, numbers: np.random.Generator) -> None:
    program = _program(text, None)
    inputs = [n for n in program.inputs if program.tensors[n].dtype.is_float]
    direction = {f"t_{n}": numbers.uniform(-1, 1, known[n].shape) for n in inputs}
    held = {f"t_{n}_0": np.zeros(known[f"{n}_0"].shape) for n in program.needs_initial}
    tangent = tc.jvp(text, inputs)
    found = forward(tangent, {**known, **direction, **held})
    results = forward(text, known)
    if not all(np.all(np.isfinite(v)) for v in results.values() if v.dtype.kind == "f"):
        raise Passed("not finite")
    try:
        wanted, near = (along(text, known, direction, None, step) for step in (1e-4, 3e-5))
    except tc.TCError as error:
        raise Passed("no differences") from error
    tangents = [*found.values()][len(program.outputs) :]
    for value, like in zip(tangents, wanted, strict=True):
        size = 1 + np.abs(wanted[like]) + np.abs(results[like[2:]])
        smooth = np.abs(wanted[like] - near[like]) < 1e-6 * size
        if not np.all((np.abs(value - wanted[like]) < 2e-5 * size)[smooth]):
            raise Unlike(f"tangents {value!r}, by differences {wanted[like]!r}\n{tangent}")


def _in_two(text: str, known: Arrays, weights: Arrays, gradient: str) -> None:
    """What the forward def saves serves the backward def."""
    if not _has_symbolic_ranges(text):
        raise Passed("for some sizes alone")
    made = tc.vjp(text)
    first = forward(made.forward, known)
    results = forward(text, known)
    for name, value in results.items():
        np.testing.assert_allclose(first[name], value, rtol=SMALL, atol=SMALL)
    found = forward(made.backward, {**known, **first, **weights})
    wanted = forward(gradient, {**known, **results, **weights})
    if not all(np.all(np.isfinite(v)) for v in wanted.values()):
        raise Passed("not finite")
    try:
        assert_alike("in two", wanted, found)
    except Unlike as error:
        raise Unlike(f"{error}\n{made}\n{gradient}") from error


def _batched(text: str, known: Arrays) -> None:
    """A batch of two calls, of which the second has other floats."""
    program = _program(text, None)
    if program.static_scalars or program.needs_initial:
        raise Passed("scalars that ranges need, or values of the caller")
    axes = dict.fromkeys(program.inputs, 0)
    made = str(tc.batch(text, axes))
    batched = batched_outputs(text, axes)
    others = {n: v * 0.5 if v.dtype.kind == "f" else v for n, v in known.items()}
    both = {n: np.stack([known[n], others[n]]) for n in program.inputs}
    found = forward(made, both)
    for place, each in enumerate((known, others)):
        for name, value in forward(text, each).items():
            own = found[name][place] if name in batched else found[name]
            if not np.allclose(own, value, rtol=1e-9, atol=1e-9, equal_nan=True):
                raise Unlike(f"batched {name}: {own!r}, and not {value!r}\n{made}")


def _on(backend: str, gradient: str, full: Arrays) -> None:
    program = _program(gradient, None)
    given = {n: np.asarray(full[n]) for n in program.inputs}
    wanted = forward(gradient, given)
    try:
        if backend == "evaluate":
            text = gradient.replace(f"def {program.name}(", "def f(")
            found = evaluated(Run(text, {}, {}, 0, backend), given, None)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = tc.compile(gradient, backend=backend)(given)
            made = made if isinstance(made, tuple) else (made,)
            found = dict(zip(program.outputs, made, strict=True))
    except tc.BackendError as error:
        raise Passed(f"not compiled: {error.cause[:40]}") from error
    except tc.TCError as error:
        raise Unlike(f"{type(error).__name__} {error}\n{gradient}") from error
    if all(np.all(np.isfinite(v)) for v in wanted.values()):
        try:
            assert_alike(backend, wanted, {n: np.asarray(v) for n, v in found.items()})
        except Unlike as error:
            raise Unlike(f"{error}\n{gradient}") from error


class PlaceGradients(Campaign):
    """Judges the gradients of generated programs."""

    refusals = (tc.GradError,)

    def __init__(self, seed: int, backends: tuple[str, ...] = ()) -> None:
        super().__init__(seed)
        self.backends = backends
        self.repeat = (
            f"python -m tests.gradient.places_campaign --seed {seed}"
            f" --backends '{','.join(backends)}' --count 1 --start"
        )

    def judge(self, number: int) -> int:
        case = generate.case(self.seed, number, lambda _: None, calls=False)
        self.count_judged(number, case.text, judge(case, number, self.backends))
        return 1


def main(arguments: list[str]) -> int:
    parser = parser_of("tests.gradient.places_campaign", __doc__)
    parser.add_argument("--backends", default="", help="numba,c,opencl,evaluate")
    chosen = parser.parse_args(arguments)
    symbolic_ranges.CLIMBS, symbolic_ranges.STEPS = 40, 300  # others have texts for some sizes
    backends = tuple(filter(None, chosen.backends.split(",")))
    return run_campaign(PlaceGradients(chosen.seed, backends), chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
