"""Ranges and shapes of a program as size expressions (D4).

The expressions are derived for all sizes. Where there is no derivation, the expressions are those
on which inference at several sizes agrees. The program at these sizes is kept beside the
expressions: a gradient leaves out where clauses only if its ranges stay the same there, and where
sizes are 0, of which a derivation says nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tc.dtypes import INT64
from tc.errors import GradError, InputError, RangeError
from tc.gradient.terms import number
from tc.runtime.arguments import NUMBERS, entry_sizes, is_sequence
from tc.runtime.sizes import EXAMPLE_SIZE, CallSizes, resolve_sizes
from tc.semantics import program as p
from tc.semantics.dependent_ranges import dependent
from tc.semantics.ranges.derived_ranges import DerivedRanges, derive_ranges
from tc.semantics.ranges.range_inference import RangeInference, infer_ranges
from tc.semantics.ranges.symbolic_text import to_text
from tc.semantics.size_values import KnownSizes, evaluate
from tc.source import Span
from tc.wording import nearest

ATTEMPTS = 100
"""Random sizes that are tried before a search."""

CLIMBS = 600
"""Sizes at which the search infers ranges: a few seconds of a large program that is refused."""

STEPS = 4000
"""The most sizes that the search tries. Sizes that do not fulfil the conditions of derived ranges
count, too."""

STEPS_WITHOUT_GAIN = 150
"""Steps of the search without a better place, after which it begins elsewhere."""

SAMPLES = 4
"""Sizes at which ranges are compared."""


@dataclass(frozen=True, slots=True)
class SymbolicRanges:
    """The ranges and shapes of a program: begin and end by statement and variable, sizes by tensor;
    and the program at some sizes."""

    ranges: Mapping[str, Mapping[str, tuple[p.Expr, p.Expr]]]
    shapes: Mapping[str, tuple[p.Expr, ...]]
    samples: tuple[p.ShapedProgram, ...]
    edges: tuple[p.ShapedProgram, ...] = ()
    """The program at further sizes at which it has ranges: those of a sample with one size or all
    sizes 0, or with one size greater."""
    is_known: bool = False
    """Whether the ranges are for the sizes of one call, and so are numbers."""


def ranges_at(program: p.Program, inputs_or_sizes: object) -> SymbolicRanges:
    """The ranges of a program at some sizes, as numbers. InputError and RangeError where the
    program has no ranges at these sizes."""
    sizes = _resolved(program, inputs_or_sizes)
    shaped = infer_ranges(program, sizes.shapes, sizes.scalars, sizes.outputs)
    return replace(_in_numbers(shaped), is_known=True)


def _in_numbers(shaped: p.ShapedProgram) -> SymbolicRanges:
    """The ranges of a program at its sizes, as numbers."""
    ranges = {
        each.statement.name: {
            name: (number(r.begin), number(r.end)) for name, r in each.ranges.items()
        }
        for each in shaped.statements
    }
    shapes = {name: tuple(map(number, shape)) for name, shape in shaped.shapes.items()}
    return SymbolicRanges(ranges, shapes, (shaped,))


def _resolved(program: p.Program, inputs_or_sizes: object) -> CallSizes:
    """The shapes and scalars of a call that inputs or sizes describe; InputError with all sizes of
    the program as its repair."""
    try:
        return resolve_sizes(program, inputs_or_sizes)
    except InputError as error:
        wanted = _sizes_near(program, inputs_or_sizes)
        try:
            resolve_sizes(program, wanted)
        except InputError:
            raise error from None
        rule, span = error.rule, error.span
        raise InputError(error.cause, rule=rule, span=span, repair=_at_sizes(wanted)) from None


def _sizes_near(program: p.Program, given: object) -> dict[str, int]:
    """All sizes and static scalars of a program by name: values that were given by a name, by a
    name near to it, or as a shape, and examples for the others."""
    scalars = [name for name in program.inputs if name in program.static_scalars]
    sizes = dict.fromkeys(entry_sizes(program), EXAMPLE_SIZE) | dict.fromkeys(scalars, 1)
    pairs: Iterable[tuple[Any, Any]] = ()
    if isinstance(given, Mapping):
        pairs = given.items()
    elif is_sequence(given):
        pairs = zip(program.inputs, given, strict=False)
    for name, value in pairs:
        whole = _whole(value)
        meant = name if name in sizes else nearest(str(name), sizes)
        if meant is not None and whole is not None and (whole >= 0 or meant in scalars):
            sizes[meant] = whole
        dims = program.tensors[name].shape or () if name in program.inputs else ()
        shape = (whole,) if whole is not None else getattr(value, "shape", value)
        if isinstance(shape, tuple) and len(shape) == len(dims):
            for dim, size in zip(dims, map(_whole, shape), strict=True):
                if isinstance(dim, p.Size) and size is not None and size >= 0:
                    sizes[dim.name] = size
    return sizes


def _whole(value: Any) -> int | None:
    """The integer that a number is."""
    is_number = isinstance(value, NUMBERS) and not isinstance(value, bool)
    return int(value) if is_number and value == value // 1 else None


def symbolic_ranges(program: p.Program) -> SymbolicRanges:
    """The ranges of a program for all sizes: derived where there is a derivation, and else those on
    which samples agree. GradError where samples have no expression for a range, or not the same
    one, and where no sizes are found at which no statement is empty."""
    inference = RangeInference.of(program)
    derived = derive_ranges(inference)
    tried = _search(inference, derived)
    if derived is not None and not tried.full:
        tried = _search(inference, None)  # whose best sizes an error shows
    if not tried.full:
        raise _without_ranges(program, tried)
    samples = tuple(tried.full.values())
    edges = _edges(inference, samples[0])
    if _is_fixed(program):
        return replace(_in_numbers(samples[0]), samples=samples, edges=edges)
    if derived is not None:
        return SymbolicRanges(derived.ranges, derived.shapes, samples, edges)
    ranges: dict[str, dict[str, tuple[p.Expr, p.Expr]]] = {}
    for position, statement in enumerate(program.statements):
        bounds = ranges.setdefault(statement.name, {})
        for variable in statement.variables:
            found = [s.statements[position].ranges[variable] for s in samples]
            what, at = f"the range of '{variable}'", statement.span
            try:
                begin = _agreed([r.symbolic_begin for r in found], what, at, samples)
                end = _agreed([r.symbolic_end for r in found], what, at, samples)
            except GradError:
                box = _box_around(variable, statement, samples)
                if box is None:
                    raise
                begin, end = box
            bounds[variable] = (begin, end)
    shapes = {}
    for name, tensor in program.tensors.items():
        dims = zip(*(s.symbolic_shapes[name] for s in samples), strict=True)
        shapes[name] = tuple(
            _agreed([*found], f"dimension {axis} of '{name}'", tensor.span, samples)
            for axis, found in enumerate(dims)
        )
    return SymbolicRanges(ranges, shapes, samples, edges)


def _box_around(
    variable: str, statement: p.Statement, samples: tuple[p.ShapedProgram, ...]
) -> tuple[p.Expr, p.Expr] | None:
    """A box around a dependent range whose hull has no expression: the dimension that the variable
    indexes. Its end is written so that it is taken for no whole dimension: the range is what its
    bounds say (D21), and the hull may be less."""
    if variable not in dependent(statement) or variable not in statement.reduction:
        return None
    for read in (node for node in p.walk(statement.rhs) if isinstance(node, p.Read)):
        for axis, subscript in enumerate(read.subscripts):
            if isinstance(subscript, p.Index) and subscript.name == variable:
                dims = [s.symbolic_shapes[read.tensor][axis] for s in samples]
                size = dims[0]
                if size is not None and all(d and to_text(d) == to_text(size) for d in dims):
                    return number(0), p.Binary("max", size, number(0), INT64, span=size.span)
    return None


def _is_fixed(program: p.Program) -> bool:
    """Whether all sizes are numbers of the program's text, so that its ranges are numbers."""
    return not program.sizes and not program.static_scalars


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


def _without_ranges(program: p.Program, found: _Found) -> GradError:
    sizes, scalars = (dict.fromkeys(sorted(n), 8) for n in (program.sizes, program.static_scalars))
    cause = f"no sizes were found at which '{program.name}' has ranges"
    span = program.span
    best = found.best()
    if best:
        empty = next(s for s in best[0].statements if _is_empty_here(s))
        cause += " and this statement is not empty, and so what holds for it is not known"
        span, sizes, scalars = empty.statement.span, dict(best[0].sizes), dict(best[0].scalars)
    else:
        try:
            found.inference.at(_shapes(program, program.inputs, sizes, scalars), scalars)
        except (InputError, RangeError) as error:
            cause += f"; where all are 8, {error.cause}"
    return GradError(cause, rule="D4", span=span, repair=_at_sizes({**sizes, **scalars}))


def _at_sizes(sizes: Mapping[str, int]) -> str:
    return f"sizes={dict(sizes)}"


def _search(inference: RangeInference, derived: DerivedRanges | None) -> _Found:
    """The program at sizes at which no statement is empty, and at sizes tried before. At other
    sizes expressions would not show: an empty range bounds no other variable, and an end whose
    expression is below 0 is 0."""
    program = inference.program
    numbers = random.Random(0)
    found = _Found(inference, derived)
    for attempt in range(1 if _is_fixed(program) else ATTEMPTS):
        largest = (6, 12, 24, 60)[attempt % 4]
        sizes = {name: numbers.randint(1, largest) for name in program.sizes}
        scalars = {name: numbers.randint(1, 3) for name in program.static_scalars}
        found.attempt(sizes | scalars)
        if len(found.full) == SAMPLES:
            return found
    _climb(found, numbers)
    return found


Values: TypeAlias = dict[str, int]
"""Sizes and scalars by name."""

Score: TypeAlias = tuple[int, int, int]
"""How far inference comes: -3 where sizes do not fulfil the conditions of ranges that are derived,
-2 where the sizes disagree, 0 where all is found, else -1; the first statement that is empty or has
no ranges, or how far the conditions are from being fulfilled; and the place in the text of what is
wrong there."""
NO_SCORE: Score = (-4, 0, 0)
FULL_SCORE: Score = (0, 0, 0)


class _Found:
    """The program at the sizes that were tried, and how many inferences that took."""

    def __init__(self, inference: RangeInference, derived: DerivedRanges | None) -> None:
        program = inference.program
        self.program = program
        self.inference = inference
        self.derived = derived
        self.inferred = 0
        self.before = [self.inference.before(n) for n in range(len(program.statements))]
        self.equal = _equal_sizes(program)
        self.by_score: dict[tuple[int, bool], dict[tuple[int, ...], p.ShapedProgram]] = {}

    @property
    def full(self) -> dict[tuple[int, ...], p.ShapedProgram]:
        """The program at sizes at which no statement is empty that may have instances; rather at
        those where no scalar is 0, which as a factor changes ranges."""
        whole = len(self.program.statements)
        return self.by_score.get((whole, True)) or self.by_score.get((whole, False), {})

    def best(self) -> list[p.ShapedProgram]:
        """The program at the sizes at which the fewest statements are empty."""
        return [*self.by_score[max(self.by_score)].values()] if self.by_score else []

    def attempt(self, values: Values) -> Score:
        """Tries sizes, keeps the program if it has ranges there, and returns the score."""
        sizes = {n: values[self.equal.get(n, n)] for n in self.program.sizes}
        scalars = {n: values[n] for n in self.program.static_scalars}
        lacks = 0 if self.derived is None else self.derived.lacks(sizes, scalars)
        if lacks:
            return -3, -lacks, 0
        self.inferred += 1
        shapes = _shapes(self.program, self.program.inputs, sizes, scalars)
        try:
            outputs = _shapes(self.program, self.program.open_outputs, sizes, scalars)
            shaped = self.inference.at(shapes, scalars, outputs, warns=False)
        except InputError as error:
            return -2, 0, _place(error)
        except RangeError as error:
            wrong = self._statement_of(error)
            empty = self._first_empty(wrong, shapes, scalars)
            return (-1, wrong, self._order(error, wrong)) if empty is None else (-1, empty, 0)
        filled = sum(not _is_empty_here(s) for s in shaped.statements)
        kept = self.by_score.setdefault((filled, all(scalars.values())), {})
        if len(kept) < SAMPLES:
            place = (*sizes.values(), *scalars.values())
            kept[place] = shaped
        empty = _first_empty(shaped)
        return FULL_SCORE if empty is None else (-1, empty, 0)

    def _statement_of(self, error: RangeError) -> int:
        """The place of the statement that an error is about."""
        for place, statement in enumerate(self.program.statements):
            if statement.span.start <= _place(error) <= statement.span.end:
                return place
        return 0

    def _order(self, error: RangeError, wrong: int) -> int:
        """How far inference came before an error, within its statement: where clauses come before
        reads."""
        place, statement = _place(error), self.program.statements[wrong]
        is_clause = any(w.span.start <= place < w.span.end for w in statement.where)
        return place - len(self.program.source.text) if is_clause else place

    def _first_empty(
        self, count: int, shapes: Mapping[str, tuple[int, ...]], scalars: Mapping[str, int]
    ) -> int | None:
        """The place of the first statement that is empty, among the first `count`; None where none
        is known to be."""
        try:
            return _first_empty(self.before[count].at(shapes, scalars, warns=False))
        except (InputError, RangeError, KeyError):
            return None


def _place(error: InputError | RangeError) -> int:
    return 0 if error.span is None else error.span.start


def _first_empty(shaped: p.ShapedProgram) -> int | None:
    return next((n for n, s in enumerate(shaped.statements) if _is_empty_here(s)), None)


def _is_empty_here(shaped: p.ShapedStatement) -> bool:
    """Whether a statement has no instances at these sizes, but may have some at others."""
    return shaped.is_empty and not any(
        r.extent == 0 and r.symbolic_begin == r.symbolic_end for r in shaped.ranges.values()
    )


def _equal_sizes(program: p.Program) -> dict[str, str]:
    """The name of another size for each size that must be equal to the other (T4)."""
    equal: dict[str, str] = {}
    for equality in program.equalities:
        sides = [_declared(program, side) for side in (equality.left, equality.right)]
        names = [s.name for s in sides if isinstance(s, p.Size)]
        if len(names) == 2:
            first, second = (equal.get(n, n) for n in names)
            equal = {n: first if to == second else to for n, to in equal.items()}
            equal[second] = first
    return equal


def _declared(program: p.Program, size: p.Expr) -> p.Expr:
    if isinstance(size, p.Extent):
        shape = program.tensors[size.tensor].shape
        return size if shape is None else shape[size.axis]
    return size


def _numbers_of(program: p.Program) -> set[int]:
    """The numbers from 1 to 999 in those places of the program on which ranges may depend."""
    dims = (dim for tensor in program.tensors.values() for dim in tensor.shape or ())
    bounds = (b for s in program.statements for w in s.where for b in (w.begin, w.end))
    sides = (s.rhs for s in program.statements)
    nodes = (node for expr in (*dims, *bounds, *sides) for node in p.walk(expr))
    return {
        int(node.value)
        for node in nodes
        if isinstance(node, p.Literal) and isinstance(node.value, int) and 0 < node.value < 1000
    }


def _climb(found: _Found, numbers: random.Random) -> None:
    """Looks for sizes that fit one another: changes a few sizes at a time, and goes on from sizes
    whose score is not lower, from several starts."""
    program = found.program
    names = [*program.sizes, *sorted(program.static_scalars)]
    if not names:
        return
    written = sorted({n + k for n in _numbers_of(program) for k in (0, 1, 2)})
    values: Values = {}
    score: Score = NO_SCORE
    stale = STEPS_WITHOUT_GAIN
    last = found.inferred + CLIMBS
    for _ in range(STEPS):
        if found.inferred == last:
            return
        if stale == STEPS_WITHOUT_GAIN:
            values, score, stale = {n: numbers.randint(1, 6) for n in names}, NO_SCORE, 0
        changed = dict(values)
        for name in numbers.sample(names, min(len(names), numbers.choice((1, 1, 2, 3)))):
            other = values[numbers.choice(names)]
            near = values[name] + numbers.choice((-2, -1, 1, 2))
            number = numbers.choice(written) if written else near
            drawn = numbers.choice((near, other, other + 1, number, numbers.randint(1, 24)))
            changed[name] = max(drawn, 0 if name in program.static_scalars else 1)
        reached = found.attempt(changed)
        stale = 0 if reached > score else stale + 1
        if reached >= score:
            values, score = changed, reached
        if len(found.full) == SAMPLES:
            return


def _edges(inference: RangeInference, sample: p.ShapedProgram) -> tuple[p.ShapedProgram, ...]:
    """The program with one size, or all sizes, of a sample set to 0, and with one size or scalar
    greater by 1 or much greater: at the one value that a size or scalar may have in all samples,
    two different ranges may be equal."""
    program, scalars = inference.program, sample.scalars
    names = [{name} for name in program.sizes] + [set(program.sizes)] * (len(program.sizes) > 1)
    calls: list[tuple[Mapping[str, int], Mapping[str, int]]] = []
    for none in names:
        calls.append(({n: 0 if n in none else v for n, v in sample.sizes.items()}, scalars))
    for name, value in sample.sizes.items():
        calls += [({**sample.sizes, name: other}, scalars) for other in _greater(value)]
    for name, value in scalars.items():
        calls += [(sample.sizes, {**scalars, name: other}) for other in _greater(value)]
    found = (_shaped(inference, sizes, others) for sizes, others in calls)
    return tuple(shaped for shaped in found if shaped is not None)


def _greater(value: int) -> tuple[int, int]:
    return value + 1, 3 * value + 5


def _shaped(
    inference: RangeInference, sizes: Mapping[str, int], scalars: Mapping[str, int]
) -> p.ShapedProgram | None:
    """The program at some sizes; None where the program has no ranges at these sizes."""
    try:
        program = inference.program
        shapes, outputs = (
            _shapes(program, names, sizes, scalars)
            for names in (program.inputs, program.open_outputs)
        )
        return inference.at(shapes, scalars, outputs, warns=False)
    except (InputError, RangeError):
        return None


def _shapes(
    program: p.Program,
    names: Iterable[str],
    sizes: Mapping[str, int],
    scalars: Mapping[str, int],
) -> dict[str, tuple[int, ...]]:
    """The declared shapes of some tensors."""
    known = KnownSizes(sizes, {}, scalars)
    shapes = {}
    for name in names:
        dims = [evaluate(d, known) for d in program.tensors[name].shape or ()]
        shapes[name] = tuple(d for d in dims if d is not None)
    return shapes
