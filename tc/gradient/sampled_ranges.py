"""Ranges and shapes of a program as size expressions (D4), the same for several sizes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from tc.errors import GradError, InputError, RangeError
from tc.gradient.terms import number
from tc.runtime.sizes import resolve_sizes
from tc.semantics import program as p
from tc.semantics.ranges.range_inference import infer_ranges
from tc.semantics.ranges.symbolic_text import to_text
from tc.semantics.size_values import KnownSizes, evaluate
from tc.source import Span

ATTEMPTS = 400
SAMPLES = 4


@dataclass(frozen=True, slots=True)
class SampledRanges:
    """Begin and end by statement and variable, sizes by tensor, and programs at some sizes."""

    ranges: Mapping[str, Mapping[str, tuple[p.Expr, p.Expr]]]
    shapes: Mapping[str, tuple[p.Expr, ...]]
    samples: tuple[p.ShapedProgram, ...]
    edges: tuple[p.ShapedProgram, ...] = ()
    """The program at some of these sizes with one or all of them 0, where it has ranges there."""
    is_known: bool = False
    """Whether they are for the sizes of one call, which are numbers then."""


def ranges_at(program: p.Program, inputs_or_sizes: object) -> SampledRanges:
    """The ranges of a program at some sizes, as numbers; InputError and RangeError where it has
    none there."""
    sizes = resolve_sizes(program, inputs_or_sizes)
    shaped = infer_ranges(program, sizes.shapes, sizes.scalars)
    ranges = {
        each.statement.name: {
            name: (number(r.begin), number(r.end)) for name, r in each.ranges.items()
        }
        for each in shaped.statements
    }
    shapes = {name: tuple(map(number, shape)) for name, shape in shaped.shapes.items()}
    return SampledRanges(ranges, shapes, (shaped,), is_known=True)


def sampled_ranges(program: p.Program) -> SampledRanges:
    """The ranges of a program; GradError where inference has no expression for them, or where
    sizes differ in it."""
    samples = _samples(program)
    if len(samples) < 2:
        raise _without_ranges(program)
    ranges: dict[str, dict[str, tuple[p.Expr, p.Expr]]] = {}
    for position, statement in enumerate(program.statements):
        bounds = ranges.setdefault(statement.name, {})
        for variable in statement.variables:
            found = [s.statements[position].ranges[variable] for s in samples]
            what, at = f"the range of '{variable}'", statement.span
            begin = _agreed([r.symbolic_begin for r in found], what, at, samples)
            end = _agreed([r.symbolic_end for r in found], what, at, samples)
            bounds[variable] = (begin, end)
    shapes = {}
    for name, tensor in program.tensors.items():
        shapes[name] = tuple(
            _agreed(
                [s.symbolic_shapes[name][axis] for s in samples],
                f"dimension {axis} of '{name}'",
                tensor.span,
                samples,
            )
            for axis in range(tensor.rank)
        )
    return SampledRanges(ranges, shapes, samples, _edges(program, samples[0]))


def _agreed(
    found: list[p.Expr | None], what: str, span: Span, samples: tuple[p.ShapedProgram, ...]
) -> p.Expr:
    texts = {None if expr is None else to_text(expr) for expr in found}
    first = found[0]
    if len(texts) != 1 or first is None or "." in "".join(t or "." for t in texts):
        raise GradError(
            f"{what} has no expression in the sizes that holds for all; a gradient has one for"
            " some sizes only, or where a where clause says the range",
            rule="D4",
            span=span,
            repair=_at_sizes({**samples[0].sizes, **samples[0].scalars}),
        )
    return first


def _without_ranges(program: p.Program) -> GradError:
    sizes, scalars = (dict.fromkeys(sorted(n), 8) for n in (program.sizes, program.static_scalars))
    cause = f"no sizes were found at which '{program.name}' has ranges"
    try:
        infer_ranges(program, _shapes(program, sizes, scalars), scalars)
    except (InputError, RangeError) as error:
        cause += f"; where all are 8, {error.cause}"
    return GradError(cause, rule="D4", span=program.span, repair=_at_sizes({**sizes, **scalars}))


def _at_sizes(sizes: Mapping[str, int]) -> str:
    return f"sizes={dict(sizes)}"


def _samples(program: p.Program) -> tuple[p.ShapedProgram, ...]:
    """The program at some sizes, of which no range is empty where that can be: an end that is below
    0 by its expression is 0 there."""
    numbers = random.Random(0)
    found: list[p.ShapedProgram] = []
    empty: list[p.ShapedProgram] = []
    for attempt in range(ATTEMPTS):
        largest = (6, 12, 24, 60)[attempt % 4]
        sizes = {name: numbers.randint(1, largest) for name in program.sizes}
        scalars = {name: numbers.randint(1, 3) for name in program.static_scalars}
        shaped = _shaped(program, sizes, scalars)
        if shaped is None:
            continue
        (empty if any(s.is_empty for s in shaped.statements) else found).append(shaped)
        if len(found) == SAMPLES:
            break
    return tuple(found if len(found) > 1 else empty[:SAMPLES])


def _edges(program: p.Program, sample: p.ShapedProgram) -> tuple[p.ShapedProgram, ...]:
    """The program where one size, or all, are 0 and the others those of a sample."""
    names = [{name} for name in program.sizes] + [set(program.sizes)] * (len(program.sizes) > 1)
    sizes = ({n: 0 if n in none else v for n, v in sample.sizes.items()} for none in names)
    found = (_shaped(program, each, sample.scalars) for each in sizes)
    return tuple(shaped for shaped in found if shaped is not None)


def _shaped(
    program: p.Program, sizes: Mapping[str, int], scalars: Mapping[str, int]
) -> p.ShapedProgram | None:
    """The program at these sizes; None where it has no ranges there."""
    try:
        return infer_ranges(program, _shapes(program, sizes, scalars), scalars)
    except (InputError, RangeError):
        return None


def _shapes(
    program: p.Program, sizes: Mapping[str, int], scalars: Mapping[str, int]
) -> dict[str, tuple[int, ...]]:
    known = KnownSizes(sizes, {}, scalars)
    shapes = {}
    for name in program.inputs:
        dims = [evaluate(d, known) for d in program.tensors[name].shape or ()]
        shapes[name] = tuple(d for d in dims if d is not None)
    return shapes
