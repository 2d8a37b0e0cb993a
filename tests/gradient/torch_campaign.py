"""`python -m tests.gradient.torch_campaign --count N --seed S`: gradients by torch's autograd.

Generated programs in float64 are called with tensors that require gradients, as
`tc.compile(text)(*tensors)`, beside their translations to operations of torch
(`tests.gradient.in_torch`): results, first and second derivatives and forward mode are the same,
with inputs apart from one another and as the generator gives them, with ties and zeros.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.autograd.forward_ad as forward_ad

import tc
from tc.api import _program
from tc.semantics import program as p
from tc.semantics.program import walk
from tc.semantics.ranges.range_inference import infer_ranges
from tests.fuzz.model import Case
from tests.gradient.campaign import (
    ENTRY,
    GradientCampaign,
    Unlike,
    apart,
    as_given,
)
from tests.gradient.in_torch import Untranslated, translated
from tests.gradient.pairs import as_double
from tests.support.campaigns import Passed, parser_of, run_campaign

SMALL = 1e-8
"""Differences below this part of the largest float64 value of a tensor count as roundings."""


@dataclass(frozen=True)
class Sides:
    """A program as an operator of tc and as operations of torch, and its inputs by name."""

    program: p.Program
    shaped: p.ShapedProgram
    function: tc.Compiled
    known: Mapping[str, Any]

    def inputs(self) -> dict[str, Any]:
        """Fresh tensors, those of floats with gradients; scalars that ranges depend on as they
        are."""
        made: dict[str, Any] = {}
        for name in self.program.inputs:
            made[name] = torch.from_numpy(np.array(self.known[name]))
            if made[name].dtype.is_floating_point:
                made[name].requires_grad_()
        return made

    def by_tc(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        static = self.program.static_scalars
        given = [int(v) if n in static else v for n, v in inputs.items()]
        found = self.function(*given)
        names = self.program.outputs
        each = map(torch.as_tensor, found if len(names) > 1 else [found])
        return dict(zip(names, each, strict=True))

    def by_torch(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        wide = {n: v if v.is_floating_point() else _wide(v) for n, v in inputs.items()}
        return translated(self.shaped, wide)


def _wide(value: Any) -> Any:
    if value.dtype == torch.uint64:
        raise Untranslated("uint64")
    if value.dtype == torch.bool:
        return value  # as an integer, what `~` makes of it would be true
    return torch.from_numpy(np.asarray(value.numpy()).astype("int64"))


def sides_of(text: str, function: tc.Compiled, known: Mapping[str, Any]) -> Sides:
    program = _program(text, ENTRY)
    if program.needs_initial:
        raise Passed("what the caller gives in outputs, where nothing has gradients")
    shapes = {n: np.shape(known[n]) for n in program.inputs}
    scalars = {n: int(known[n]) for n in program.static_scalars}
    shaped = infer_ranges(program, shapes, scalars)
    return Sides(program, shaped, function, known)


def derivatives(
    results: Sequence[Any], weights: Sequence[Any], wrt: Sequence[Any], **options: Any
) -> list[Any]:
    """Those of a weighted sum; zeros for what results do not depend on."""
    kept = [(r, w) for r, w in zip(results, weights, strict=True) if r.requires_grad]
    if not kept:
        return [torch.zeros_like(x) for x in wrt]
    total = sum((r * w).sum() for r, w in kept)
    found = torch.autograd.grad(total, wrt, allow_unused=True, **options)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(wrt, found, strict=True)]


def assert_alike(what: str, found: Sequence[Any], wanted: Sequence[Any]) -> None:
    """The same but for rounding, where what is wanted is finite."""
    for place, (value, same) in enumerate(zip(found, wanted, strict=True)):
        one, other = (x.detach().to(torch.float64).numpy() for x in (value, same))
        if one.shape != other.shape:
            raise Unlike(f"{what} {place} of shape {one.shape}, by torch {other.shape}")
        sure = np.isfinite(other)
        size = max(1.0, float(np.max(np.abs(other[sure]), initial=0.0)))
        with np.errstate(all="ignore"):
            is_near = np.abs(one - other) <= SMALL * size
        if not np.all(is_near[sure]):
            raise Unlike(f"{what} {place}: {one!r}\nby torch {other!r}")


def floats(tensors: Mapping[str, Any]) -> list[Any]:
    return [t for t in tensors.values() if t.dtype.is_floating_point]


def compared(sides: Sides, numbers: np.random.Generator, second: bool) -> Iterator[str]:
    """The names of the values that were compared. Raises Unlike for a difference, and Passed where
    the two sides cannot be compared."""
    ours, theirs = sides.inputs(), sides.inputs()
    try:
        wanted = sides.by_torch(theirs)
    except Untranslated as error:
        raise Passed(f"untranslated: {error}") from error
    found = sides.by_tc(ours)
    mine, same = floats(ours), floats(theirs)
    if not all(bool(torch.isfinite(v).all()) for v in floats(wanted)):
        raise Passed("not finite")
    assert_alike("result", [*found.values()], [*wanted.values()])
    if not mine or not floats(wanted):
        raise Passed("nothing floating")
    weights = [torch.from_numpy(numbers.uniform(-1, 1, v.shape)) for v in floats(wanted)]
    for each in weights:
        each.requires_grad_(second)
    firsts = [
        derivatives(floats(results), weights, wrt, create_graph=second)
        for results, wrt in ((found, mine), (wanted, same))
    ]
    assert_alike("gradient", *firsts)
    yield "first"
    directions = [torch.from_numpy(numbers.uniform(-1, 1, x.shape)) for x in mine]
    if all(bool(torch.isfinite(g).all()) for g in firsts[1]):
        slopes = _slopes(sides, ours, directions, weights)
        terms = [(g * d).detach() for g, d in zip(firsts[1], directions, strict=True)]
        total = torch.stack([t.sum() for t in terms]).sum()
        size = sum(float(t.abs().sum()) for t in (*terms, *slopes))
        if abs(float(sum(t.sum() for t in slopes)) - float(total)) > SMALL * max(1.0, size):
            raise Unlike(f"forward mode {sum(t.sum() for t in slopes)}, by torch {total}")
        yield "forward mode"
    if second:
        wrts = ([*mine, *weights], [*same, *weights])
        pairs = zip(firsts, wrts, strict=True)
        assert_alike("second", *(derivatives(f, directions, w) for f, w in pairs))
        yield "second"


def _slopes(
    sides: Sides, inputs: Mapping[str, Any], directions: Sequence[Any], weights: Sequence[Any]
) -> list[Any]:
    """The tangents of the results, times weights."""
    given = iter(directions)
    with forward_ad.dual_level():
        duals = {
            n: forward_ad.make_dual(x.detach(), next(given)) if x.is_floating_point() else x
            for n, x in inputs.items()
        }
        results = floats(sides.by_tc(duals))
        tangents = [forward_ad.unpack_dual(r).tangent for r in results]
    return [
        torch.zeros(()) if t is None else (t * w).detach()
        for t, w in zip(tangents, weights, strict=True)
    ]


def is_at_a_jump(sides: Sides, numbers: np.random.Generator, second: bool) -> bool:
    """Whether the derivatives by torch, the second ones too where they are compared, are others for
    inputs that differ by rounding: at a jump, or where large terms cancel."""
    moved: dict[str, Any] = {}
    for name, value in sides.known.items():
        moved[name] = value
        if value.dtype.kind == "f":
            moved[name] = value * (1 + numbers.uniform(-1e-12, 1e-12, value.shape))
    near = Sides(sides.program, sides.shaped, sides.function, moved)
    found = []
    for each in (sides, near):
        inputs = each.inputs()
        results = each.by_torch(inputs)
        wrt, made = floats(inputs), floats(results)
        weights = [torch.linspace(0.5, 1.5, v.numel()).reshape(v.shape) for v in made]
        firsts = derivatives(made, weights, wrt, create_graph=second)
        values = [made, firsts]
        if second:
            directions = [torch.linspace(1.5, 0.5, x.numel()).reshape(x.shape) for x in wrt]
            values.append(derivatives(firsts, directions, wrt))
        found.append(values)
    try:
        for one, other in zip(*found, strict=True):
            assert_alike("", one, other)
    except Unlike:
        return True
    return False


def judge(case: Case, number: int, second: bool, **options: Any) -> Iterator[str]:
    """What was compared of a program, with inputs apart and as they are."""
    text = as_double(case.text)
    numbers = np.random.default_rng(number)
    try:
        function = tc.compile(text, entry=ENTRY, **options)
    except tc.ParseError as error:
        raise Passed("ParseError of the program") from error
    except tc.CheckError as error:
        if error.rule != "Y1":
            raise
        raise Passed("a literal that does not fit") from error  # uint32 beside -2
    values = (node for s in function.program.statements for node in walk(s.rhs))
    if any(v.dtype.is_float and v.dtype.name != "float64" for v in values):
        yield "passed: functions of integers, in float32"
        return
    for kind, given in (("apart", apart(case, text, numbers)), ("as given", as_given(case, text))):
        try:
            sides = sides_of(text, function, given)
            sides.by_tc({n: v.detach() for n, v in sides.inputs().items()})
        except (tc.AccessError, tc.InputError, tc.RangeError) as error:
            yield f"passed {kind}: {type(error).__name__} of the program"
            continue
        except Passed as passed:
            yield f"passed {kind}: {passed}"
            continue
        try:
            for what in compared(sides, numbers, second):
                yield f"{what} {kind}"
        except Passed as passed:
            yield f"passed {kind}: {passed}"
        except Unlike:
            if not is_at_a_jump(sides, numbers, second):
                raise
            yield f"passed {kind}: at a jump"


def main(arguments: list[str]) -> int:
    parser = parser_of("tests.gradient.torch_campaign", __doc__, count=100)
    parser.add_argument("--backend", default="interpret", help="that runs them")
    chosen = parser.parse_args(arguments)
    campaign = GradientCampaign(
        chosen.seed,
        f"tests.gradient.torch_campaign --backend {chosen.backend}",
        lambda number, case: judge(case, number, number % 3 == 0, backend=chosen.backend),
    )
    return run_campaign(campaign, chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
