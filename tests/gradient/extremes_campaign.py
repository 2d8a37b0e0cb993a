"""`python -m tests.gradient.extremes_campaign --count N --seed S --backend B`: which terms of
maxima and minima get the gradient (D11), in halves, floats and doubles.

The programs (`tests.fuzz.generate.extreme_case`) are compiled in their own types, and called with
tensors of torch. What is wanted is computed by `tests.gradient.in_torch` in float64, where each
value is rounded to its tensor's type when it is stored, and the terms of a maximum are before they
are compared; torch's autograd derives that. First derivatives, those of `tc.grad` for each `save`,
the first of several, second ones and forward mode are the same. Where they are not, terms are moved
by as much as computing them may round: an element that this changes is at a jump, and has to lie
between the values that it takes there.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.autograd.forward_ad as forward_ad

import tc
from tc.api import _program
from tc.semantics import program as p
from tc.semantics.ranges.range_inference import infer_ranges
from tests.fuzz.generate import extreme_case
from tests.fuzz.legal import call_of
from tests.fuzz.model import Case
from tests.gradient.campaign import (
    ENTRY,
    GradientCampaign,
    Unlike,
    derived,
    derived_for,
)
from tests.gradient.in_torch import Untranslated, translated
from tests.gradient.pairs import as_double
from tests.gradient.torch_campaign import derivatives
from tests.support.campaigns import Passed, parser_of, run_campaign

TOLERANCES = {"float16": 2e-2, "float32": 2e-4, "float64": 1e-9}
"""Of gradients, beside the largest value of a tensor."""
ROUNDING = {"float16": 2e-6, "float32": 2e-6, "float64": 4e-15}
"""By how much of itself, and of the largest term, computing a term may move it; halves are computed
in float32."""
TRIES = 12
MAX_MAGNITUDE = 1e4
"""Values beyond are passed over: what stands beside them is rounded away."""


def case_of(seed: int, number: int) -> Case:
    """The program of a number in the sequence of a seed."""
    return extreme_case(f"{seed}/{number}")


@dataclass(frozen=True)
class Given:
    """A program, its inputs by name in their own types, and a weight for each floating output."""

    text: str
    program: p.Program
    shaped: p.ShapedProgram
    known: Mapping[str, Any]
    weights: Mapping[str, Any]

    @property
    def wrt(self) -> list[str]:
        return [n for n in self.program.inputs if self.program.tensors[n].dtype.is_float]

    @property
    def floating(self) -> list[str]:
        return [n for n in self.program.outputs if self.program.tensors[n].dtype.is_float]

    @property
    def least(self) -> str:
        """The narrowest type, which says how near values are."""
        tensors = self.program.tensors.values()
        return min((t.dtype.bits, t.dtype.name) for t in tensors if t.dtype.is_float)[1]


def given(case: Case, kind: str, numbers: np.random.Generator) -> Given:
    """The inputs apart from each other, or multiples of 1/4, with ties."""
    program = _program(case.text, ENTRY)
    if program.needs_initial:
        raise Passed("what the caller gives in outputs")
    known: dict[str, Any] = {}
    for name, value in call_of(case).args().items():
        dtype = program.tensors[name].dtype
        each = np.asarray(value)
        if dtype.is_float:
            each = numbers.normal(0, 1, each.shape)
            each = np.round(4 * each) / 4 if kind == "ties" else each
        known[name] = each.astype(dtype.name)
    shapes = {n: np.shape(known[n]) for n in program.inputs}
    scalars = {n: int(known[n]) for n in program.static_scalars}
    wide = _program(as_double(case.text), ENTRY)
    shaped = infer_ranges(wide, shapes, scalars)
    weights = {
        n: numbers.uniform(0.5, 1.5, shaped.shapes[n]).astype(program.tensors[n].dtype.name)
        for n in program.outputs
        if program.tensors[n].dtype.is_float
    }
    return Given(case.text, program, shaped, known, weights)


class _Rounded(torch.autograd.Function):
    """A value as a narrower type holds it; its derivative is 1."""

    @staticmethod
    def forward(_: Any, value: Any, dtype: Any) -> Any:
        return value.to(dtype).to(value.dtype)

    @staticmethod
    def backward(_: Any, *adjoints: Any) -> Any:
        return adjoints[0], None

    @staticmethod
    def jvp(_: Any, *tangents: Any) -> Any:
        return tangents[0] * 1.0


Store = Callable[[str, Any, bool], Any]


def storing(each: Given, numbers: np.random.Generator | None) -> Store:
    """What a tensor holds of a value; moved as computing it may move it, where there are
    numbers."""

    def stored(tensor: str, value: Any, is_term: bool) -> Any:
        dtype = each.program.tensors[tensor].dtype
        if not dtype.is_float:
            return value
        if numbers is not None and is_term and value.numel():
            size = value.detach().abs() + value.detach().abs().max() / 4
            noise = torch.from_numpy(numbers.uniform(-1, 1, value.shape))
            value = value + size * ROUNDING[dtype.name] * noise
        return _Rounded.apply(value, getattr(torch, dtype.name))

    return stored


@dataclass(frozen=True)
class Wanted:
    results: list[Any]
    first: list[Any]
    second: list[Any]


def wanted(each: Given, ties: str, second: bool, numbers: np.random.Generator | None) -> Wanted:
    inputs: dict[str, Any] = {}
    for name in each.program.inputs:
        value = torch.from_numpy(np.array(each.known[name]))
        is_float = value.dtype.is_floating_point
        inputs[name] = value.to(torch.float64 if is_float else torch.int64)
        if is_float:
            inputs[name].requires_grad_()
    try:
        found = translated(each.shaped, inputs, storing(each, numbers), ties)
    except Untranslated as error:
        raise Passed(f"untranslated: {error}") from error
    except IndexError as error:
        raise Passed("data that decide on reads") from error
    results = [found[n] for n in each.floating]
    wrt = [inputs[n] for n in each.wrt]
    weights = [torch.from_numpy(each.weights[n]).to(torch.float64) for n in each.floating]
    first = derivatives(results, weights, wrt, create_graph=second)
    seconds = derivatives(first, _directions(first), wrt) if second else []
    return Wanted([r.detach() for r in results], [f.detach() for f in first], seconds)


def _directions(gradients: Sequence[Any]) -> list[Any]:
    numbers = np.random.default_rng(len(gradients))
    return [torch.from_numpy(numbers.uniform(0.5, 1.5, g.shape)) for g in gradients]


class Judge:
    """Compares with what is wanted; Unlike for what is wrong and not at a jump."""

    def __init__(self, each: Given, ties: str, second: bool) -> None:
        self.each, self.ties, self.second = each, ties, second
        self.wanted = wanted(each, ties, second, None)
        everything = (*self.wanted.results, *self.wanted.first, *self.wanted.second)
        for value in everything:
            if not bool(torch.isfinite(value).all()):
                raise Passed("not finite")
            if value.numel() and float(value.abs().max()) > MAX_MAGNITUDE:
                raise Passed("too large")
        self._moved: list[Wanted] = []

    def moved(self) -> list[Wanted]:
        if not self._moved:
            numbers = np.random.default_rng(1)
            makes = (wanted(self.each, self.ties, self.second, numbers) for _ in range(TRIES))
            self._moved = list(makes)
        return self._moved

    def compare(self, what: str, part: str, found: Sequence[Any]) -> str:
        """A text about the comparison: which values were compared, and whether all of them were
        sure."""
        is_sure = True
        for place, value in enumerate(found):
            mine = torch.as_tensor(value).detach().to(torch.float64).numpy()
            other = getattr(self.wanted, part)[place].detach().numpy()
            if mine.shape != other.shape:
                raise Unlike(f"{what} {place} of shape {mine.shape}, by torch {other.shape}")
            size = max(1.0, float(np.max(np.abs(other), initial=0.0)))
            small = TOLERANCES[self.each.least] * size
            with np.errstate(all="ignore"):
                wrong = ~(np.abs(mine - other) <= small)
            if not np.any(wrong):
                continue
            is_sure = False
            near = [getattr(w, part)[place].detach().numpy() for w in self.moved()]
            low, high = np.min([other, *near], 0), np.max([other, *near], 0)
            is_fixed = high - low <= small
            is_out = ~((low - small <= mine) & (mine <= high + small))
            if np.any(wrong & (is_fixed | is_out)):
                raise Unlike(f"{what} {place}: {mine!r}\nby torch {other!r}")
        return what if is_sure else f"{what}, some at a jump"


def of_grad(
    each: Given, outputs: Mapping[str, Any], backend: str, is_sized: bool, **options: Any
) -> list[Any]:
    """The gradients of `tc.grad`, for these sizes alone or for all, of what the compiled program
    gives."""
    made = derived_for if is_sized else derived
    text = made(each.text, each.known, entry=ENTRY, **options)
    function = tc.compile(text, backend=backend)
    names = _program(text, None).inputs
    values = {**each.known, **outputs, **{f"d_{n}": w for n, w in each.weights.items()}}
    found = function({n: values[n] for n in names})
    return list(found) if len(each.wrt) > 1 else [found]


def judge(case: Case, number: int, backend: str, parts: str) -> Iterator[str]:
    for kind in ("apart", "ties"):
        numbers = np.random.default_rng(number)
        try:
            each = given(case, kind, numbers)
            if not each.wrt or not each.floating:
                raise Passed("nothing floating")
            for what in compared(each, backend, parts, number):
                yield f"{what} ({each.least}, {kind})"
        except Passed as passed:
            yield f"passed: {passed} ({kind})"
        except (tc.AccessError, tc.InputError, tc.RangeError) as error:
            yield f"passed: {type(error).__name__} ({kind})"


def compared(each: Given, backend: str, parts: str, number: int) -> Iterator[str]:
    of = Judge(each, "split", second=False)
    function = tc.compile(each.text, entry=ENTRY, backend=backend)
    found = function(dict(each.known))
    outputs = found if len(each.program.outputs) > 1 else [found]
    values = dict(zip(each.program.outputs, outputs, strict=True))
    yield of.compare("results", "results", [values[n] for n in each.floating])
    is_sized = bool(number % 16)
    for save in ("outputs", "none") if "s" in parts else ("outputs",):
        gradients = of_grad(each, values, backend, is_sized, save=save)
        yield of.compare(f"saving {save}", "first", gradients)
    if "f" in parts:
        gradients = of_grad(each, values, backend, is_sized, ties="first")
        yield Judge(each, "first", False).compare("the first", "first", gradients)
    if "t" in parts:
        yield from in_torch(each, function, of, "2" in parts)


def in_torch(each: Given, function: Any, of: Judge, second: bool) -> Iterator[str]:
    """Judges the program as an operator of torch, which saves the tensors that the gradient
    reads."""
    inputs = {n: torch.from_numpy(np.array(each.known[n])) for n in each.program.inputs}
    wrt = [inputs[n].requires_grad_() for n in each.wrt]
    static = each.program.static_scalars

    def called(given: Mapping[str, Any]) -> list[Any]:
        found = function(*(int(v) if n in static else v for n, v in given.items()))
        several = found if len(each.program.outputs) > 1 else [found]
        by_name = dict(zip(each.program.outputs, several, strict=True))
        return [by_name[n] for n in each.floating]

    results = called(inputs)
    weights = [torch.from_numpy(each.weights[n]) for n in each.floating]
    first = derivatives(results, weights, wrt, create_graph=second)
    yield of.compare("in torch", "first", first)
    if second:
        both = Judge(each, "split", second=True)
        directions = _directions(first)
        narrow = [d.to(f.dtype) for d, f in zip(directions, first, strict=True)]
        yield both.compare("second", "second", derivatives(first, narrow, wrt))
    directions = _directions(first)
    with forward_ad.dual_level():
        given = {n: v.detach() for n, v in inputs.items()}
        for name, tangent in zip(each.wrt, directions, strict=True):
            given[name] = forward_ad.make_dual(given[name], tangent.to(given[name].dtype))
        tangents = [forward_ad.unpack_dual(r).tangent for r in called(given)]
    terms = [
        float((t.detach().to(torch.float64) * w).sum())
        for t, w in zip(tangents, weights, strict=True)
        if t is not None
    ]
    total = sum(float((g * d).sum()) for g, d in zip(of.wanted.first, directions, strict=True))
    size = sum(float((g * d).abs().sum()) for g, d in zip(of.wanted.first, directions, strict=True))
    if abs(total - sum(terms)) <= 2 * TOLERANCES[each.least] * max(1.0, size):
        yield "forward mode"
        return
    moved = [
        sum(float((g * d).sum()) for g, d in zip(w.first, directions, strict=True))
        for w in of.moved()
    ]
    small = 2 * TOLERANCES[each.least] * max(1.0, size)
    if not min(total, *moved) - small <= sum(terms) <= max(total, *moved) + small:
        raise Unlike(f"forward mode {sum(terms)}, by torch {total}")
    yield "forward mode, some at a jump"


def main(arguments: list[str]) -> int:
    parser = parser_of("tests.gradient.extremes_campaign", __doc__, count=100)
    parser.add_argument("--backend", default="interpret", help="that runs them")
    parser.add_argument(
        "--parts", default="sft2", help="s: none saved, f: the first, t: in torch, 2: twice there"
    )
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    campaign = GradientCampaign(
        chosen.seed,
        f"tests.gradient.extremes_campaign --backend {chosen.backend} --parts {chosen.parts}",
        lambda number, case: judge(case, number, chosen.backend, chosen.parts),
        case_of,
    )
    return run_campaign(campaign, chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
