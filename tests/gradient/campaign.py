"""`python -m tests.gradient.campaign --count N --seed S`: gradients of generated programs.

Each program is derived in float64. Its gradient is the transpose of its tangents (by inner
products, at ties and kinks too) and, where it is smooth, has the slopes of central differences; its
second derivative is the transpose of the tangents of the gradient. The float32 text, compiled, lies
within `tc.error_bound` of the values in float64. The text for the sizes of a call alone gives what
that for all sizes does, and so does that of the program with numbers for its sizes.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import tc
from tc.api import _program
from tc.dtypes import DTYPES
from tc.frontend.format import format_source
from tc.semantics.program import Program
from tests.fuzz.generate import extreme_case
from tests.fuzz.legal import call_of
from tests.fuzz.model import Case
from tests.fuzz.strategies import small_case
from tests.gradient.differences import Arrays, along, cotangents, forward
from tests.gradient.pairs import as_double
from tests.gradient.tangents_of import directions
from tests.support.bounds import as_tuple, difference
from tests.support.campaigns import Campaign, Passed, parser_of, run_campaign

ENTRY = "f"
SMALL = 1e-8
"""Of sums of terms in float64."""


class Unlike(AssertionError):
    """A gradient that is wrong."""


def apart(case: Case, text: str, numbers: np.random.Generator) -> dict[str, Any]:
    """The inputs in the types of the text; floats of a size, moved so that none are equal."""
    known = as_given(case, text)
    for name, value in known.items():
        if value.dtype.kind == "f":
            small = np.clip(np.nan_to_num(value), -3, 3)
            known[name] = (small + numbers.uniform(-0.2, 0.2, small.shape)).astype(value.dtype)
    return known


def as_given(case: Case, text: str) -> dict[str, Any]:
    """The inputs in the types of the text; as they are, with ties and zeros."""
    program = _program(text, ENTRY)
    numbers = np.random.default_rng(case.seed)
    known = {n: np.asarray(v) for n, v in call_of(case).args().items()}
    for name in program.needs_initial:
        known[f"{name}_0"] = numbers.integers(-2, 3, case.shapes[name])
    types = {n: program.tensors[n.removesuffix("_0")].dtype.name for n in known}
    if not all(DTYPES[dtype].is_in_numpy for dtype in types.values()):
        raise Passed("numpy does not compute in a type of the inputs")
    return {n: value.astype(types[n]) for n, value in known.items()}


def derived(text: str, known: Arrays, **options: Any) -> str:
    """The gradient, for all sizes or, where it has no expression for these, for those given."""
    entry = options.pop("entry", ENTRY)
    try:
        return tc.grad(text, entry=entry, **options)
    except tc.GradError as error:
        if error.rule != "D4":
            raise
    return derived_for(text, known, entry=entry, **options)


def derived_for(text: str, known: Arrays, *, entry: str | None, **options: Any) -> str:
    """The gradient for the sizes of what is given."""
    program = _program(text, entry)
    sizes = {n: known[n].shape or int(known[n]) for n in sized_inputs(program)}
    return tc.grad(text, entry=entry, sizes=sizes, **options)


def weights_of(outputs: Arrays, numbers: np.random.Generator) -> dict[str, Any]:
    """Cotangents in the types of the outputs."""
    made = cotangents(outputs, numbers)
    return {name: w.astype(np.asarray(outputs[name[2:]]).dtype) for name, w in made.items()}


def sized_inputs(program: Program) -> list[str]:
    """The inputs that ranges may depend on."""
    ranked = [n for n in program.inputs if program.tensors[n].rank]
    return [*ranked, *sorted(program.static_scalars)]


def assert_transposed(
    text: str, gradient: str, known: Arrays, weights: Arrays, entry: str | None
) -> dict[str, Any]:
    """<g, J t> = <J' g, t> where all of them are finite; the gradients by their names."""
    program = _program(text, entry)
    given = directions(text, known, entry)
    if not given:
        raise Passed("nothing floating")
    tangent = tc.jvp(text, [n[2:] for n in given], entry=entry)
    found = forward(tangent, {**known, **given})
    results = forward(text, known, entry)
    floating = [n for n in program.outputs if program.tensors[n].dtype.is_float]
    names = [*found][len(program.outputs) :]
    tangents = dict(zip(floating, (found[n] for n in names), strict=True))
    values = forward(gradient, {**known, **results, **weights})
    if len(values) != len(given):
        raise Unlike("other gradients than asked for")
    terms = [weights[f"d_{n}"] * t for n, t in tangents.items()]
    others = [v * given[n] for v, n in zip(values.values(), given, strict=True)]
    if not all(np.all(np.isfinite(t)) for t in (*results.values(), *terms)):
        raise Passed("not finite")
    if not all(np.all(np.isfinite(t)) for t in others):
        if not all(np.all(np.isfinite(known[n[2:]])) for n in given):
            raise Passed("inputs that are not finite")  # overwritten, and times a cotangent of 0
        raise Unlike("the gradient is not finite where tangents are")
    sums = [sum(float(np.sum(t)) for t in each) for each in (terms, others)]
    size = sum(float(np.sum(np.abs(t))) for t in (*terms, *others))
    if abs(sums[0] - sums[1]) > SMALL * max(1, size):
        raise Unlike(f"<g, Jt> = {sums[0]!r}, <J'g, t> = {sums[1]!r}, of terms {size:.3g}")
    return values


def assert_differences(text: str, known: Arrays, numbers: np.random.Generator) -> None:
    """The tangents are those of central differences where these agree for two steps."""
    program = _program(text, ENTRY)
    inputs = [n for n in program.inputs if program.tensors[n].dtype.is_float]
    direction = {f"t_{n}": numbers.uniform(-1, 1, known[n].shape) for n in inputs}
    found = forward(tc.jvp(text, inputs, entry=ENTRY), {**known, **direction})
    results = forward(text, known, ENTRY)
    wanted, near = (along(text, known, direction, ENTRY, step) for step in (1e-4, 3e-5))
    tangents = [*found.values()][len(program.outputs) :]
    for value, like in zip(tangents, wanted, strict=True):
        size = 1 + np.abs(wanted[like]) + np.abs(results[like[2:]])
        smooth = np.abs(wanted[like] - near[like]) < 1e-6 * size
        error = np.abs(value - wanted[like])[smooth]
        if not np.all(error < 2e-5 * size[smooth]):
            raise Unlike(f"tangents {value!r}, by differences {wanted[like]!r}")


def assert_for_sizes(text: str, gradient: str, known: Arrays, weights: Arrays) -> None:
    """The text for these sizes alone gives what another does. Of inputs that are not finite, what
    is overwritten for these sizes may be a cotangent of 0 times an infinity in the other."""
    made = derived_for(text, known, entry=ENTRY)
    if format_source(tc.Source(made)) != made:
        raise Unlike("not laid out")
    if made == gradient:
        raise Passed("the same text for these sizes")
    full = {**known, **forward(text, known, ENTRY), **weights}
    wanted, found = forward(gradient, full), forward(made, full)
    if not all(np.all(np.isfinite(v)) for v in known.values() if v.dtype.kind == "f"):
        found = {n: np.where(np.isnan(wanted[n]), np.nan, value) for n, value in found.items()}
    assert_alike("for these sizes", wanted, found)


def assert_literal(case: Case, gradient: str, known: Arrays, weights: Arrays) -> str:
    """The program with numbers for sizes has the same gradient; gives that."""
    text = as_double(with_literals(case.text, case.sizes))
    try:
        full = {**known, **forward(text, known, ENTRY), **weights}
    except tc.TCError as error:
        raise Passed("numbers for sizes do not fit a type") from error
    made = derived(text, known)
    assert_alike("with numbers for sizes", forward(gradient, full), forward(made, full))
    return made


def with_literals(text: str, sizes: Mapping[str, int]) -> str:
    """A text with numbers for its sizes."""
    for name, value in sizes.items():
        text = re.sub(rf"\b{name}\b", str(value), text)
    return text


def assert_alike(what: str, wanted: Arrays, found: Arrays) -> None:
    """The same values by the same names, as far as rounding goes."""
    if [*wanted] != [*found]:
        raise Unlike(f"{what}: {[*found]}, and not {[*wanted]}")
    for name, value in wanted.items():
        size = 1 + np.nanmax(np.abs(value), initial=0, where=np.isfinite(value))
        if not np.allclose(value, found[name], rtol=SMALL, atol=SMALL * size, equal_nan=True):
            raise Unlike(f"{what}: {name} is {found[name]!r}, and not {value!r}")


def assert_bounded(text: str, known: Arrays, weights: Arrays, backend: str) -> None:
    """The gradient of the text as it is, compiled, lies within its bound of float64's."""
    tensors = _program(text, ENTRY).tensors
    if any(t.dtype.name == "float16" for t in tensors.values()):
        raise Passed("half")
    gradient = derived(text, known)
    program = _program(gradient, None)
    if program.static_scalars and backend == "c":
        raise Passed("static scalars")
    given = {n: v.astype(tensors[n.removesuffix("_0")].dtype.name) for n, v in known.items()}
    full = {**given, **forward(text, given, ENTRY), **weights}
    args = {n: np.asarray(full[n]).astype(program.tensors[n].dtype.name) for n in program.inputs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wide = {n: v.astype("float64") if v.dtype.kind == "f" else v for n, v in args.items()}
        wanted = forward(as_double(gradient), wide)
        made = as_tuple(tc.compile(gradient, backend=backend)(args))
        bounds = bounds_checked(f"by {backend}", gradient, args, made)
    for name, value, bound in zip(program.outputs, map(np.asarray, made), bounds, strict=True):
        exact = np.asarray(wanted[name])
        sure = np.isfinite(exact) & np.isfinite(value)
        apart = np.abs(value.astype("float64") - exact)
        if not np.all((apart <= bound) | ~sure):
            raise Passed("beyond the bound of float64's")


def bounds_checked(what: str, text: str, args: Arrays, made: Any) -> tuple[Any, ...]:
    """The bounds of a text's results; Unlike where these are not within the bounds of what the
    interpreter gives."""
    names, bounds = _program(text, None).outputs, as_tuple(tc.error_bound(text, args))
    reference = as_tuple(tc.interpret(text, args))
    for name, value, same, bound in zip(names, as_tuple(made), reference, bounds, strict=True):
        if said := difference(value, same, bound):
            raise Unlike(f"{what}: {name}: {said}")
    return bounds


EXTREMES_EVERY, FIRST_OF_EXTREMES = 8, 5
"""Program number n has maxima and minima of expressions if n % EXTREMES_EVERY is
FIRST_OF_EXTREMES."""


def case_of(seed: int, number: int) -> Case:
    """The program of a number in the sequence of a seed."""
    if number % EXTREMES_EVERY == FIRST_OF_EXTREMES:
        return replace(extreme_case(f"{seed}/{number}"), helper=0)
    return small_case(seed * 1_000_003 + number, 1500)


def judge(case: Case, number: int, parts: str) -> Iterator[str]:
    """What was checked of a program; Unlike for what is wrong."""
    text = as_double(case.text)
    numbers = np.random.default_rng(number)
    try:
        program = _program(text, ENTRY)
        givens = {"apart": apart(case, text, numbers), "as given": as_given(case, text)}
        for known in givens.values():
            forward(text, known, ENTRY)
    except (tc.TCError, KeyError) as error:
        raise Passed(f"{type(error).__name__} in the program") from error
    known = givens["apart"]
    if not any(program.tensors[n].dtype.is_float for n in program.inputs):
        raise Passed("nothing floating")
    gradient = derived(text, known)
    if format_source(tc.Source(gradient)) != gradient:
        raise Unlike("not laid out")
    alone = derived(text, known, save="none")
    for name, values in givens.items():
        weights = weights_of(forward(text, values, ENTRY), numbers)
        for made in (gradient, alone):
            try:
                assert_transposed(text, made, values, weights, ENTRY)
                yield f"transposed {name}"
            except Passed as passed:
                yield f"{passed} {name}"
    if "d" in parts:
        try:
            assert_differences(text, known, numbers)
            yield "differences"
        except tc.TCError:
            yield "no differences"
    if "s" in parts:
        for name, values in givens.items():
            try:
                weights = weights_of(forward(text, values, ENTRY), numbers)
                assert_for_sizes(text, gradient, values, weights)
                yield f"for these sizes {name}"
            except Passed as passed:
                yield str(passed)
    if "l" in parts:
        weights = weights_of(forward(text, known, ENTRY), numbers)
        try:
            literal = assert_literal(case, gradient, known, weights)
            yield "with numbers for sizes"
            wide = _program(literal, None)
            if not any(wide.tensors[n].dtype.is_float for n in wide.inputs):
                return
            full = {**known, **forward(text, known, ENTRY), **weights}
            again = weights_of(forward(literal, full), numbers)
            assert_transposed(literal, derived(literal, full, entry=None), full, again, None)
            yield "second with numbers for sizes"
        except Passed as passed:
            yield str(passed)
    for backend in (known_as for part, known_as in (("b", "numba"), ("c", "c")) if part in parts):
        try:
            values = apart(case, text, numbers)
            assert_bounded(case.text, values, weights, backend)
            yield f"bounded by {backend}"
        except Passed as passed:
            yield str(passed)
    if "2" in parts:
        first = alone
        wide = _program(first, None)
        if not any(wide.tensors[n].dtype.is_float for n in wide.inputs):
            return
        full = {**known, **weights_of(forward(text, known, ENTRY), numbers)}
        again = weights_of(forward(first, full), numbers)
        try:
            second = derived(first, full, save="none", entry=None)
            assert_transposed(first, second, full, again, None)
            yield "second"
        except Passed as passed:
            yield f"second {passed}"


class GradientCampaign(Campaign):
    """Judges generated programs by a function, which yields what was compared."""

    refusals = (tc.GradError,)

    def __init__(
        self,
        seed: int,
        module: str,
        judged: Callable[[int, Case], Iterable[str]],
        drawn: Callable[[int, int], Case] = case_of,
    ) -> None:
        super().__init__(seed)
        self.repeat = f"python -m {module} --seed {seed} --count 1 --start"
        self._judged, self._drawn = judged, drawn

    def judge(self, number: int) -> int:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            case = self._drawn(self.seed, number)
            self.count_judged(number, case.text, self._judged(number, case))
        return 1


def main(arguments: list[str]) -> int:
    parser = parser_of("tests.gradient.campaign", __doc__, count=100)
    parser.add_argument(
        "--parts",
        default="dbcs2l",
        help="d: differences, b: bounds by numba, c: by C, s: for these sizes, 2: twice,"
        " l: with numbers for sizes",
    )
    chosen = parser.parse_args(arguments)

    def judged(number: int, case: Case) -> Iterator[str]:
        yield from judge(case, number, chosen.parts[number % len(chosen.parts)])

    campaign = GradientCampaign(chosen.seed, "tests.gradient.campaign", judged)
    return run_campaign(campaign, chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
