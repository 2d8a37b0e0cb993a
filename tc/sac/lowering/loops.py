"""Comprehensions and with-loops as terms: partitions are `?:` over ranges (C11, C21, C26)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from tc.dtypes import BOOL, Array, Type
from tc.errors import RangeError
from tc.sac.levels.applications import Application
from tc.sac.levels.calls import Argument, CallValue, Result
from tc.sac.levels.element_types import check_fit
from tc.sac.levels.loops import ArrayLoop, ComprehensionValue, FoldLoop
from tc.sac.levels.partitions import Partition, is_empty
from tc.sac.levels.values import Index, NeedsIndexTerm, NeedsIndexValue, Value, shown
from tc.sac.lowering.folds import fold, folded, joined, neutral_term
from tc.sac.lowering.terms import Term

if TYPE_CHECKING:
    from tc.sac.lowering.elements import Elements


class LoweredIndex(Index):
    """An index whose elements are terms."""

    has_terms = True
    terms: tuple[Term, ...] = ()

    @cached_property
    def value(self) -> Array:
        raise NeedsIndexTerm(self)


def array_element(
    made: Elements, loop: ComprehensionValue | ArrayLoop, index: tuple[Term, ...]
) -> Term:
    """The element of a comprehension, or of a with-loop that makes an array."""
    target = loop.type.dtype
    for found in loop.body_types():
        check_fit(found, target)
    try:
        shape = loop.shape
    except NeedsIndexTerm:
        if len(loop.parts) > 1:
            raise
        return _open_element(made, loop, index)
    return _from_part(made, loop, 0, index, shape, target)


def _open_element(
    made: Elements, loop: ComprehensionValue | ArrayLoop, index: tuple[Term, ...]
) -> Term:
    """The element of an array whose size an index around it decides; the index that is asked for
    lies in the result."""
    part, target = loop.parts[0], loop.type.dtype
    _ = extents(made, loop)
    rank = loop.rank
    at, rest = _split(index, part.axes(rank))
    lower = _bounds(made, part, "lower")
    condition = made.terms.number(True)
    for k, low in zip(at, lower, strict=True):
        condition = made.terms.both(condition, made.terms.compare("<=", low, k))
    if condition.kind == "number" and not condition.data:
        return _default(made, loop, index, target)
    with made.assumptions.of(condition):
        if isinstance(loop, ArrayLoop):
            body = _body(made, part, at, loop.default.shape)
        else:
            body = body_at(made, part, at)
        term = made.converted(body, rest, target)
    return made.choice_of(condition, term, _default(made, loop, index, target), target)


def extents(made: Elements, loop: ComprehensionValue | ArrayLoop) -> list[Term]:
    """The sizes of an array that an index around it, or data, decide, as terms. Raises
    NeedsIndexTerm where its range leaves it for some of these (C12), or is not known to end where
    a with-loop does."""
    part = loop.parts[-1]
    upper = _bounds(made, part, "upper")
    if any(made.goes_below(low, 0) for low in _bounds(made, part, "lower")):
        return [made.terms.number(n) for n in loop.shape]  # raises
    if isinstance(loop, ArrayLoop):
        if loop.sizes is None or vector_of(made, loop.sizes) != upper:
            return [made.terms.number(n) for n in loop.shape]  # raises
        return [*upper, *(made.terms.number(n) for n in loop.default.shape)]
    body = part.body_shape
    rank = len(upper) + len(body)
    placed = dict(zip(part.axes(rank), upper, strict=True))
    rest = iter(body)
    return [
        placed[axis] if axis in placed else made.terms.number(next(rest)) for axis in range(rank)
    ]


def vector_of(made: Elements, value: Value) -> list[Term]:
    """The integers of an index, shape or bound vector as terms: a scalar n stands for [n] (C9)."""
    if value.rank == 0:
        return [made.element(value, ())]
    return [made.element(value, (made.terms.number(k),)) for k in range(value.shape[0])]


def _split(index: Sequence[Term], axes: Sequence[int]) -> tuple[list[Term], list[Term]]:
    at = [index[axis] for axis in axes]
    taken = set(axes)
    return at, [i for axis, i in enumerate(index) if axis not in taken]


def _zero(made: Elements, target: Type) -> Term:
    return made.terms.number(False) if target == BOOL else made.terms.number(0)


def _bounds(made: Elements, part: Partition, side: str) -> list[Term]:
    """A bound as terms: numbers, unless an index around the loop decides it."""
    try:
        return [made.terms.number(k) for k in getattr(part, side)]
    except NeedsIndexTerm as error:
        value = part.lower_value if side == "lower" else part.upper_value
        if value is None:
            if side == "lower" or part.has_upper:
                raise
            return _inferred(made, part, error)
    generator = part.generator
    assert generator is not None
    bound = generator.lower if side == "lower" else generator.upper
    assert bound is not None
    step = int(bound.strict) if side == "lower" else int(not bound.strict)
    found = vector_of(made, value)
    if len(found) != part.length:
        raise part.loop.fault(
            RangeError,
            "C14",
            f"the {side} bound has {len(found)} elements, the index {part.index_text} "
            f"{part.length}",
        )
    return [made.terms.arithmetic("+", term, made.terms.number(step)) for term in found]


def _inferred(made: Elements, part: Partition, error: NeedsIndexTerm) -> list[Term]:
    """The upper bound that the selections in the body give where an index around the loop decides
    the shapes of their arrays (C15). Raises the error where a variable has none."""
    sizes: list[list[Term]] = [[] for _ in range(part.length)]
    for bound in part.found:
        if bound.rank is None:
            continue
        try:
            shape = made.open_extents(bound.array)
        except NeedsIndexValue:
            raise error from None
        if part.is_vector:
            for own, size in zip(sizes, shape, strict=False):
                own.append(size)
        else:
            assert bound.axis is not None
            sizes[part.names.index(bound.name)].append(shape[bound.axis])
    if not all(sizes):
        raise error
    if not part.is_last:
        edge = part.loop.edge
        for own, axis in zip(sizes, part.axes(len(edge)), strict=True):
            own.append(made.terms.number(edge[axis]))
    for name, own in zip(part.names, sizes, strict=False):
        if len(set(own)) > 1:
            texts = dict.fromkeys(b.text for b in part.found if b.name == name and b.rank)
            part.env.context.warn(
                part.span,
                name,
                f"'{name}' is bounded by {' and by '.join(texts)}, which may differ; the lesser "
                "one counts",
            )
    return [reduce(lambda a, b: made.terms.extreme("min", a, b), own) for own in sizes]


def _from_part(
    made: Elements,
    loop: ComprehensionValue | ArrayLoop,
    number: int,
    index: tuple[Term, ...],
    shape: tuple[int, ...],
    target: Type,
) -> Term:
    """The element from the partition of this number, or from one behind it."""
    if number == len(loop.parts):
        return _default(made, loop, index, target)
    part = loop.parts[number]
    axes = part.axes(len(shape))
    at, rest = _split(index, axes)
    room = part.room(shape)
    condition = made.terms.number(True)
    try:
        lower, upper = part.range
        if is_empty(lower, upper) or 0 in room:
            return _from_part(made, loop, number + 1, index, shape, target)
        bounds = [
            (made.terms.number(k), made.terms.number(n)) for k, n in zip(lower, upper, strict=True)
        ]
    except NeedsIndexTerm:
        bounds = list(zip(_bounds(made, part, "lower"), _bounds(made, part, "upper"), strict=True))
        made.check_inside(part, bounds, [shape[axis] for axis in axes])
    for k, (low, high) in zip(at, bounds, strict=True):
        condition = made.terms.both(condition, made.within(low, k, high))
    if condition.kind == "number":
        if condition.data:
            return made.converted(_body(made, part, at, room), rest, target)
        return _from_part(made, loop, number + 1, index, shape, target)
    with made.assumptions.of(condition):
        then = made.converted(_body(made, part, at, room), rest, target)
    with made.assumptions.of(made.terms.negated(condition)):
        otherwise = _from_part(made, loop, number + 1, index, shape, target)
    return made.choice_of(condition, then, otherwise, target)


def check_empty(made: Elements, value: Value) -> None:
    """Raises what is wrong with an array without elements, of which no element is made: declared
    types (C6), and ranges that leave it (C12). What an operator joins is empty, too."""
    if isinstance(value, CallValue):
        check_empty(made, value.result)
    elif isinstance(value, Result):
        value.check()
        check_empty(made, value.body)
    elif isinstance(value, Argument):
        check_empty(made, value.given)
    elif isinstance(value, Application) and value.row.is_elementwise:
        for arg in value.args:
            if arg.rank:
                check_empty(made, arg)
    elif isinstance(value, ComprehensionValue | ArrayLoop):
        for part in value.parts:
            try:
                _ = part.range
            except NeedsIndexTerm:
                if len(value.parts) == 1 and isinstance(value, ComprehensionValue):
                    continue  # its range is the array
                bounds = [_bounds(made, part, side) for side in ("lower", "upper")]
                sizes = [value.shape[axis] for axis in part.axes(value.rank)]
                made.check_inside(part, list(zip(*bounds, strict=True)), sizes)


def _default(
    made: Elements, loop: ComprehensionValue | ArrayLoop, index: tuple[Term, ...], target: Type
) -> Term:
    if isinstance(loop, ComprehensionValue):
        return _zero(made, target)
    if loop.sizes is None:
        return made.converted(loop.default, index, target)
    rank = loop.default.rank
    return made.converted(loop.default, index[len(index) - rank :] if rank else (), target)


def _body(made: Elements, part: Partition, at: Sequence[Term], room: tuple[int, ...]) -> Value:
    body = body_at(made, part, at)
    if body.shape != room:
        if part.dots > body.rank:
            raise part.too_many_dots(body.rank)
        raise part.loop.fault(
            RangeError,
            "C13",
            f"the body of {part.pattern_text} has shape {shown(body.shape)}, the result has room "
            f"for {shown(room)}",
            span=part.body.span,
        )
    return body


def body_at(made: Elements, part: Partition, at: Sequence[Term]) -> Value:
    """The body at an index of terms."""
    key = (id(part), tuple(at))
    if key not in made.bodies:
        made.bodies[key] = part, _new_body(part, tuple(at))
    found: Value = made.bodies[key][1]
    return found


def _new_body(part: Partition, at: tuple[Term, ...]) -> Value:
    if all(k.kind == "number" for k in at):
        return part.instance(tuple(int(k.data) for k in at))
    names = part.pattern
    values: list[Value] = []
    if part.is_vector:
        found = LoweredIndex(part.names[0], part, 0, lambda: len(at), names.span, part.env)
        found.terms = at
        values.append(found)
    else:
        for place, (name, term) in enumerate(zip(part.names, at, strict=True)):
            found = LoweredIndex(name, part, place, None, names.span, part.env)
            found.terms = (term,)
            values.append(found)
    env = part.environment(values)
    return env.context.evaluate(part.body, env)


def fold_element(made: Elements, loop: FoldLoop, index: tuple[Term, ...]) -> Term:
    """The element of a fold of bodies, joined with the neutral element."""
    target = loop.type.dtype
    loop.check_fit()
    total = folded(made, loop.op, loop.neutral, index if loop.neutral.rank else (), target)
    neutral = neutral_term(made, loop.op, target)
    earlier: list[list[tuple[Term, Term]]] = []
    for part in loop.parts:
        bounds = list(zip(_bounds(made, part, "lower"), _bounds(made, part, "upper"), strict=True))
        bodies = _fold_of(made, loop, part, bounds, list(earlier), index, target, neutral)
        if bodies is not neutral:
            is_nothing = total.kind == "number" and total.data == neutral.data
            total = bodies if is_nothing else joined(made, loop.op, total, bodies, target)
        earlier.append(bounds)
    return total


def _fold_of(
    made: Elements,
    loop: FoldLoop,
    part: Partition,
    bounds: list[tuple[Term, Term]],
    earlier: list[list[tuple[Term, Term]]],
    index: tuple[Term, ...],
    target: Type,
    neutral: Term,
) -> Term:
    names = index_names(part)
    ranges = [
        (name, made.least(low), made.greatest(high))
        for name, (low, high) in zip(names, bounds, strict=True)
    ]

    def term_at(at: Sequence[Term]) -> tuple[Term, Term]:
        guard = made.terms.number(True)
        for k, (low, high) in zip(at, bounds, strict=True):
            guard = made.terms.both(guard, made.within(low, k, high))
        for box in earlier:
            if len(box) == len(at):
                inside = made.terms.number(True)
                for k, (low, high) in zip(at, box, strict=True):
                    inside = made.terms.both(inside, made.within(low, k, high))
                guard = made.terms.both(guard, made.terms.negated(inside))
        if guard.kind == "number" and not guard.data:
            return guard, neutral
        with made.assumptions.of(guard):
            body = body_at(made, part, at)
            if body.shape != loop.shape:
                raise part.loop.fault(
                    RangeError,
                    "C21",
                    f"the body has shape {shown(body.shape)}, the neutral element "
                    f"{shown(loop.shape)}",
                    span=part.body.span,
                )
            return guard, folded(made, loop.op, body, index, target)

    return fold(made, loop.op, ranges, term_at, target, neutral)


def index_names(part: Partition) -> list[str]:
    """What the indices of a partition are called."""
    if part.is_vector:
        return [f"{part.names[0]}{k}" for k in range(part.length)]
    return list(part.names)
