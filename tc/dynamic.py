"""Sizes that vary from call to call, as callers ask for them, and the tracked sizes of a call.

A function whose sizes are *dynamic* is compiled for few *hints*, numbers that stand for many sizes,
and each kernel serves all sizes that its guards admit (`tc.extents`, `tc.templates`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tc.errors import BackendError, InputError
from tc.extents.sizes import Questions, Range
from tc.runtime.sizes import CallSizes
from tc.semantics.program import Literal, Program, Size
from tc.wording import nearest

Dynamic: TypeAlias = "Set[str] | Mapping[str, range] | bool | str | None"
"""What callers say with `dynamic=`: names of sizes, each with its range in a mapping; True for all
sizes, False or None for none; "auto" for those that are seen to vary."""

AUTO = "auto"

FIRST, LAST = 2, 2**31 - 1
"""The sizes of which nobody says a range: sizes 0 and 1 have code of their own."""

SMALL = 29
"""The least hint that stands for all sizes around and above."""

SMALL_HINTS = (5, 11, 13, 17, 19, 23)
"""Hints for smaller sizes, of which what is planned may be written out for the hint alone."""

_SMALL_FACTORS = 2 * 3 * 5 * 7


@dataclass(frozen=True, slots=True)
class DynamicSizes:
    """The dynamic sizes of a function, with their ranges; `asked` is what the caller said, for
    messages and pickles. With `auto`, those of `ranges` are candidates."""

    ranges: Mapping[str, Range]
    asked: Any
    auto: bool = False

    @property
    def is_named(self) -> bool:
        """Whether the caller named the sizes."""
        return self.asked is not True and not self.auto

    def __str__(self) -> str:
        if not self.is_named:
            return f"dynamic {self.asked}"
        if isinstance(self.asked, Mapping):
            return "dynamic " + ", ".join(f"{n}={_text(own)}" for n, own in self.ranges.items())
        return f"dynamic {', '.join(self.ranges)}"

    def to_value(self) -> Any:
        """What the caller said as a value of JSON, which `dynamic_of_value` reads."""
        if not self.is_named:
            return self.asked
        if isinstance(self.asked, Mapping):
            return {n: [own.begin, own.last + 1, own.multiple] for n, own in self.ranges.items()}
        return [*self.ranges]

    def admits(self, sizes: Mapping[str, int]) -> bool:
        """Whether all dynamic sizes are within their ranges."""
        return all(sizes[name] in own for name, own in self.ranges.items())

    def only(self, names: Collection[str]) -> DynamicSizes:
        """Those of the dynamic sizes that are named."""
        kept = {name: own for name, own in self.ranges.items() if name in names}
        return replace(self, ranges=kept)


def dynamic_sizes(program: Program, asked: object) -> DynamicSizes | None:
    """The dynamic sizes that a caller asks for; InputError for what is none."""
    if asked is None or asked is False:
        return None
    names = sizes_of(program)
    if asked is True or asked == AUTO:
        plain = {name: Range(FIRST, LAST) for name in names}
        return DynamicSizes(plain, asked, auto=asked == AUTO) if plain else None
    if isinstance(asked, str):
        raise InputError(
            f"dynamic={asked!r}: sizes are named in a set, a mapping to their ranges, or by True "
            "for all",
            repair=f'dynamic={{"{asked if asked in names else (nearest(asked, names) or "N")}"}}',
        )
    if isinstance(asked, Mapping):
        found = {name: _range_of(name, own) for name, own in asked.items()}
    elif isinstance(asked, Set | list | tuple):
        found = {name: Range(FIRST, LAST) for name in asked}
    else:
        raise InputError(
            f"dynamic={asked!r}: it is a set of names of sizes, a mapping from names to ranges, "
            'True, "auto" or False',
            repair=f"dynamic={set_text(names)}",
        )
    for name in found:
        if name not in names:
            raise _no_size(program, name, names)
    _check_equal(program, found)
    ranges = {name: found[name] for name in names if name in found}
    return DynamicSizes(ranges, asked) if ranges else None


def dynamic_of_value(value: Any) -> Dynamic:
    """What a caller says with `dynamic=`, as a value of JSON; BackendError for others.

    >>> dynamic_of_value({"N": [16, 4097, 16]}), dynamic_of_value(["N"]), dynamic_of_value("auto")
    ({'N': range(16, 4097, 16)}, {'N'}, 'auto')
    """
    match value:
        case None | True | "auto":
            return value
        case list() if all(isinstance(name, str) for name in value):
            return {*value}
        case dict() if all(map(_is_range, value.values())):
            return {name: range(*own) for name, own in value.items()}
    raise BackendError(f"{value!r} does not say which sizes are dynamic", repair='["N"]')


def _is_range(value: Any) -> bool:
    is_three = isinstance(value, list) and len(value) == 3
    return is_three and all(type(each) is int for each in value) and value[2] != 0


def inherited(dynamic: DynamicSizes, program: Program) -> Any:
    """What is asked of a function that follows from one with dynamic sizes."""
    if not dynamic.is_named:
        return dynamic.asked
    names = sizes_of(program)
    if isinstance(dynamic.asked, Mapping):
        return {name: own for name, own in dynamic.asked.items() if name in names}
    return {name for name in dynamic.ranges if name in names}


def of_def(program: Program, programs: Mapping[str, Program], dynamic: Dynamic) -> Dynamic:
    """What is asked of one of several defs: of the names those that are sizes of it, and those that
    are sizes of none, which is an error."""
    if isinstance(dynamic, bool | str | None) or not isinstance(dynamic, Collection):
        return dynamic
    known = {name for each in programs.values() for name in sizes_of(each)}
    kept = [n for n in dynamic if n in sizes_of(program) or n not in known]
    if isinstance(dynamic, Mapping):
        return {name: dynamic[name] for name in kept}
    return set(kept)


def sizes_of(program: Program) -> list[str]:
    """The sizes of a program that the shapes of its inputs give."""
    return [
        name
        for name, size in program.sizes.items()
        if "." not in name and any(extent.tensor in program.inputs for extent in size.extents)
    ]


def set_text(names: list[str]) -> str:
    return f"{{{', '.join(map(repr, names)) or repr('N')}}}".replace("'", '"')


def _range_of(name: object, asked: object) -> Range:
    if not isinstance(asked, range):
        raise InputError(
            f"dynamic={{{name!r}: {asked!r}}}: a size has a range of Python, such as "
            "range(1, 4097), or range(16, 4097, 16) for multiples of 16",
            repair=f'dynamic={{"{name}": range(1, 4097)}}',
        )
    begin, step = asked.start, asked.step
    if step < 1 or begin < 0 or not asked:
        what = "has no sizes" if not asked else "goes down" if step < 1 else "begins below 0"
        meant = _up(asked) if asked else range(max(begin, 1), max(begin, 1) + 4096)
        raise InputError(
            f"dynamic={{{name!r}: {asked!r}}}: the range {what}",
            repair=f'dynamic={{"{name}": {meant!r}}}',
        )
    if begin % step:
        raise InputError(
            f"dynamic={{{name!r}: {asked!r}}}: the sizes of a range with the step {step} are "
            f"multiples of {step}, and its begin {begin} is none",
            repair=f'dynamic={{"{name}": range({begin - begin % step or step}, {asked.stop}, '
            f"{step})}}",
        )
    first = max(begin, step * -(-FIRST // step))
    return Range(first, asked[-1], step)


def _up(asked: range) -> range:
    """The sizes among the numbers of a range, upwards."""
    step = abs(asked.step)
    first, last = min(asked[0], asked[-1]), max(asked[0], asked[-1])
    first = first if first >= 0 else step * -(-1 // step)
    first -= first % step
    return range(first, last + 1, step) if step > 1 else range(first, last + 1)


def _no_size(program: Program, name: object, names: list[str]) -> InputError:
    known = ", ".join(names) or "none"
    cause = f"{program.name} has no size {name!r}; there are {known}"
    if name in program.tensors:
        tensor = program.tensors[str(name)]
        what = "a tensor" if tensor.rank else "a scalar"
        cause = f"{name!r} is {what} of {program.name}, and no size; there are {known}"
    elif isinstance(name, str) and "." in name:
        cause = (
            f"{name!r} is a size of a def that {program.name} calls, which follows from the sizes "
            f"of {program.name}; there are {known}"
        )
    close = nearest(name, names) if isinstance(name, str) else None
    return InputError(
        cause, repair=f"dynamic={set_text([close] if close else names)}" if names else None
    )


def _check_equal(program: Program, found: Mapping[str, Range]) -> None:
    """Refuses ranges of two sizes that are one (T4), where the ranges have no size in common."""
    for equality in program.equalities:
        sides = equality.left, equality.right
        names = [side.name for side in sides if isinstance(side, Size) and side.name in found]
        if len(names) == 2 and names[0] != names[1]:
            one, other = (found[name] for name in names)
            if not _meet(one, other):
                raise InputError(
                    f"dynamic=: {names[0]} and {names[1]} are one size ({equality.reason}), and "
                    f"{_text(one)} and {_text(other)} have no size in common",
                    rule="T4",
                    span=equality.span,
                    repair=f'dynamic={{"{names[0]}", "{names[1]}"}}',
                )


def _meet(one: Range, other: Range) -> bool:
    step = math.lcm(one.multiple, other.multiple)
    first = -(-max(one.begin, other.begin) // step) * step
    return first <= min(one.last, other.last)


def _text(own: Range) -> str:
    step = f", {own.multiple}" if own.multiple > 1 else ""
    return f"range({own.begin}, {own.last + 1}{step})"


# --- the sizes of a call --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Attempt:
    """How a template is made: with hints near the sizes of a call, where those of small sizes are
    small or are not, with hints above them, or with these very sizes (`hints` is "small", "near",
    "above" or "exact"); `asks_all` is as in `Questions`."""

    hints: str = "near"
    asks_all: bool = False


ATTEMPTS = (
    Attempt("small"),
    Attempt("near"),
    Attempt("near", asks_all=True),
    Attempt("above"),
    Attempt("exact"),
    Attempt("exact", asks_all=True),
)
"""What is tried, one after the other, until there is a template that admits the sizes of a call:
what is planned for sizes below may end at these. The very sizes of a call are what one size that
follows from others must be. Small hints are tried first: of 29 rows a tile takes as long for 2."""


@dataclass(frozen=True, slots=True)
class TrackedCall:
    """A call whose dynamic sizes are tracked: `hints` are the sizes that the code is planned for,
    `sizes` those of a call with the hints, `tracked` the same with tracked sizes in the place of
    the dynamic ones, and `questions` what is asked of them. With `is_small`, some hints are."""

    hints: Mapping[str, int]
    sizes: CallSizes
    tracked: CallSizes
    questions: Questions
    is_small: bool = False

    def serves(self, values: Mapping[str, int]) -> bool:
        """Whether what is made serves these sizes, and with small hints, others too."""
        pinned = self.is_small and any(g.is_pin for g in self.questions.guards.values())
        return self.questions.admits(values) and not pinned


def values_of(program: Program, sizes: CallSizes) -> dict[str, int]:
    """The sizes of a call by their names."""
    return {
        name: sizes.shapes[extent.tensor][extent.axis]
        for name, size in program.sizes.items()
        for extent in size.extents
        if extent.tensor in sizes.shapes and "." not in name
    }


def hint_for(size: int, own: Range, taken: Collection[int] = (), *, how: str = "near") -> int:
    """A number near a size that stands for the sizes around: no multiple of small numbers, and none
    of those that are `taken`, with which nothing must be mixed up. Unless `how` is "small", that of
    a small size is larger, as what is planned for less may be written out, and serve no other size;
    "above" it is no smaller than the size.

    >>> hint_for(512, Range(2, 4096)), hint_for(512, Range(16, 4096, 16)), hint_for(3, Range(2, 99))
    (509, 496, 29)
    >>> [hint_for(33, Range(2, 4096), how=how) for how in ("near", "above")]
    [31, 37]
    >>> [hint_for(size, Range(2, 99), how="small") for size in (3, 7, 9, 28, 31)]
    [5, 5, 11, 23, 31]
    """
    if how == "small" and size < SMALL:
        free = [hint for hint in SMALL_HINTS if hint in own and hint not in taken]
        if free:
            return min(free, key=lambda hint: abs(hint - size))
    least, most = own.begin // own.multiple, own.last // own.multiple
    near = min(max(size // own.multiple, SMALL), most)
    below = range(near, near - 1 if how == "above" else max(near * 4 // 5, least) - 1, -1)
    for tried in (*below, *range(near + 1, min(near * 5 // 4, most) + 1)):
        hint: int = tried * own.multiple
        if math.gcd(tried, _SMALL_FACTORS) == 1 and hint in own and hint not in taken:
            return hint
    return size


def spread(named: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Values by name, with a number for each range: the first of each, then ones four times as
    large, up to the last.

    >>> list(spread({"N": range(2, 100), "D": 64}))
    [{'N': 2, 'D': 64}, {'N': 8, 'D': 64}, {'N': 32, 'D': 64}, {'N': 99, 'D': 64}]
    """
    ranges = {name: value for name, value in named.items() if isinstance(value, range) and value}
    factor, ended = 1, False
    while not ended:
        numbers = {}
        for name, each in ranges.items():
            place = -(-max(max(each[0], 1) * factor - each[0], 0) // each.step)
            numbers[name] = each[min(place, len(each) - 1)]
        yield {**named, **numbers}
        ended = all(numbers[name] == each[-1] for name, each in ranges.items())
        factor *= 4


def tracked_calls(
    program: Program, sizes: CallSizes, dynamic: DynamicSizes
) -> Iterator[TrackedCall]:
    """The calls to try, one after the other, until a template that is made with one admits the
    given sizes. Where a template of some hints does not, no other of these hints would; and one of
    the very sizes would serve few others."""
    values = values_of(program, sizes)
    tried: list[tuple[Mapping[str, int], bool]] = []
    outside: list[Mapping[str, int]] = []
    for attempt in ATTEMPTS:
        call = tracked_call(program, sizes, dynamic, attempt)
        if call.hints in outside or (call.hints, attempt.asks_all) in tried:
            continue
        if outside and attempt.hints == "exact":
            return
        tried.append((call.hints, attempt.asks_all))
        yield call
        if not (call.is_small or call.questions.admits(values)):
            outside.append(call.hints)


def tracked_call(
    program: Program,
    sizes: CallSizes,
    dynamic: DynamicSizes,
    attempt: Attempt,
) -> TrackedCall:
    """The tracked sizes of a call near the given one."""
    values = values_of(program, sizes)
    taken = {values[name] for name in values if name not in dynamic.ranges}
    taken |= {
        int(dim.value)
        for tensor in program.tensors.values()
        for dim in tensor.shape or ()
        if isinstance(dim, Literal)
    }
    hints: dict[str, int] = {}
    for name, own in dynamic.ranges.items():
        size, how = values[name], attempt.hints
        hints[name] = size if how == "exact" else hint_for(size, own, taken, how=how)
        taken.add(hints[name])
    questions = Questions(dynamic.ranges, attempt.asks_all)
    tracked = {name: questions.size(name, hint) for name, hint in hints.items()}
    plain = sizes_at(program, sizes, hints)
    is_small = attempt.hints == "small" and min(hints.values()) < SMALL
    tracked_sizes = replace(plain, shapes=_shapes(program, sizes, tracked))
    return TrackedCall(hints, plain, tracked_sizes, questions, is_small)


def sizes_at(program: Program, sizes: CallSizes, values: Mapping[str, int]) -> CallSizes:
    """A call like another one where some sizes have other values, of arrays that are row-major."""
    return replace(sizes, shapes=_shapes(program, sizes, values), strides={})


def _shapes(
    program: Program, sizes: CallSizes, values: Mapping[str, int]
) -> dict[str, tuple[int, ...]]:
    """The shapes of a call where some sizes have other values."""
    shapes = {name: [*shape] for name, shape in sizes.shapes.items()}
    for name, value in values.items():
        for extent in program.sizes[name].extents:
            if extent.tensor in shapes:
                shapes[extent.tensor][extent.axis] = value
    return {name: tuple(shape) for name, shape in shapes.items()}
