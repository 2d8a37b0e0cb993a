"""The sizes at which a kernel is tried."""

from __future__ import annotations

import itertools
import os
import random
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from tc.errors import InputError, TCError, TCWarning
from tc.pipeline import shape_program
from tc.runtime.sizes import resolve_sizes
from tc.semantics.program import Program, ShapedProgram
from tc.wording import nearest

Sizes: TypeAlias = "dict[str, int]"

UNLIKE, ONE, ZERO, BESIDE_POWERS, LARGE, GIVEN = "unlike", "1", "0", "powers", "large", "given"

KINDS = {
    UNLIKE: "small primes, of which no two are alike",
    ONE: "1",
    ZERO: "0",
    BESIDE_POWERS: "powers of two, one less and one more",
    LARGE: "more than caches hold",
    GIVEN: "the sizes given",
}
"""The kinds of sizes, and what they are called."""

_PRIMES = (7, 5, 11, 3, 13, 2)
_ORDERS = ((5, 11, 3, 13, 7, 2), (13, 3, 7, 2, 5, 11), (3, 7, 11, 5, 2, 13), (11, 2, 5, 7, 3, 13))
_BESIDE = (17, 16, 31, 33, 15, 8, 9, 64, 65, 63, 127, 129, 32, 128, 4, 257, 12)
_MOST_WORK = 200_000
"""Instances of statements, at most, where sizes are no large ones."""
_LARGE_WORK = 3_000_000
_LARGE = (300_007, 70_001, 40_009, 4_099, 2_000, 700, 300, 150)
_LARGE_OF_ALL = (300, 161, 131, 101, 67, 37, 23)
_LARGE_EACH = 3  # of those sizes that one size gets
_ALIKE = (2, 16, 32, 17, 4, 8, 64)
_MOST_DRAWN = 300
_MOST_OF_A_RANGE = 12


@dataclass(frozen=True)
class SizedProgram:
    """The program at some sizes; `kind` is one of `KINDS`."""

    sizes: Mapping[str, int]
    shaped: ShapedProgram
    kind: str


def own_sizes(program: Program) -> tuple[str, ...]:
    """The sizes of the text, and the integers that decide ranges."""
    names = (name for name in program.sizes if "." not in name)
    return (*names, *sorted(program.static_scalars))


def shaped_at(program: Program, sizes: Mapping[str, int]) -> ShapedProgram | None:
    """The program at some sizes; None where it is not defined there."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TCWarning)
            return shape_program(program, resolve_sizes(program, dict(sizes)))
    except TCError:
        return None


def work_of(shaped: ShapedProgram) -> int:
    """The instances of all statements, and the elements of all tensors."""
    boxes = (prod(r.extent for r in each.ranges.values()) for each in shaped.statements)
    return sum(boxes) + sum(prod(shape) for shape in shaped.shapes.values())


class SizeChoice:
    """Which sizes a kernel is tried at: `given` is None, a size or several for some names, or
    several sets of sizes. Raises InputError where these are none."""

    def __init__(self, program: Program, given: object) -> None:
        self.program = program
        self.names = own_sizes(program)
        self.sets: list[Sizes] | None = None
        self.pools: dict[str, tuple[int, ...]] = {}
        self._seen: set[tuple[int, ...]] = set()
        if isinstance(given, Mapping):
            self.pools = {name: self._pool(name, value) for name, value in given.items()}
        elif isinstance(given, Sequence) and not isinstance(given, str):
            self.sets = [self._set(each) for each in given]
            if not self.sets:
                raise InputError("sizes=[] are no sizes", repair=f"sizes=[{self._example}]")
        elif given is not None:
            raise InputError(
                f"sizes={given!r}: sizes are a dict, of numbers or ranges, or a list of dicts",
                repair=f"sizes={self._example}",
            )

    @property
    def _example(self) -> str:
        return str(dict.fromkeys(self.names[:2], 64))

    def _pool(self, name: str, value: Any) -> tuple[int, ...]:
        if name not in self.names:
            close = nearest(name, self.names)
            there = ", ".join(self.names) or "none"
            raise InputError(
                f"{self.program.name} has no size {name!r}; there are {there}",
                repair=f"{close}=..." if close else None,
            )
        values = (value,) if isinstance(value, int) else tuple(_some(value))
        if not values or not all(isinstance(n, int) and n >= 0 for n in values):
            raise InputError(
                f"sizes: {name} is {value!r}, but a size is an integer of at least 0, or several",
                repair=f"{name}=64",
            )
        return values

    def _set(self, given: Any) -> Sizes:
        if not isinstance(given, Mapping):
            raise InputError(
                f"sizes: {given!r} is no dict of sizes", repair=f"sizes=[{self._example}]"
            )
        found = {name: self._pool(name, value)[0] for name, value in given.items()}
        missing = [name for name in self.names if name not in found]
        if missing:
            raise InputError(
                f"sizes: {found} lacks {', '.join(missing)}", repair=f"{missing[0]}=64"
            )
        return found

    def all(self) -> Iterator[SizedProgram]:
        """The sizes, the most telling first."""
        if self.sets is not None:
            for sizes in self.sets:
                yield from self._checked(sizes, GIVEN, None)
            return
        base = self._base()
        if base is None:
            raise InputError(
                f"no small sizes were found at which {self.program.name} is defined",
                repair=f"sizes=[{self._example}]",
            )
        yield from self._checked(base, UNLIKE, None)
        for order in _ORDERS:
            yield from self._checked(self._assigned(order), UNLIKE, _MOST_WORK)
        for value in _BESIDE[:4]:
            for name in self.names:
                yield from self._with(base, name, value, BESIDE_POWERS)
        for name in self.names:
            yield from self._with(base, name, 1, ONE)
        yield from self._checked(self._assigned((1,)), ONE, _MOST_WORK)
        for name in self.names:
            yield from self._with(base, name, 0, ZERO)
        for one, other in itertools.combinations(self.names, 2):
            few = self._assigned((3, 2, 5))
            yield from self._checked({**few, one: 67, other: 71}, BESIDE_POWERS, _MOST_WORK)
        for value in _BESIDE[4:]:
            for name in self.names:
                yield from self._with(base, name, value, BESIDE_POWERS)
        for value in _ALIKE:
            yield from self._checked(self._assigned((value,)), BESIDE_POWERS, _MOST_WORK)
        yield from self.large()
        for name, pool in self.pools.items():
            for value in pool:
                yield from self._checked({**base, name: value}, GIVEN, _LARGE_WORK)

    def large(self) -> Iterator[SizedProgram]:
        """Sizes with much work, in which threads meet."""
        base = self._base()
        if base is None:
            return
        of_all = (self._assigned((size, size + 2, size + 3)) for size in _LARGE_OF_ALL)
        fitting = (each for sizes in of_all for each in self._checked(sizes, LARGE, _LARGE_WORK))
        yield from itertools.islice(fitting, 1)
        for name in self.names:
            of_one = ({**base, name: size} for size in _LARGE)
            found = (each for sizes in of_one for each in self._checked(sizes, LARGE, _LARGE_WORK))
            yield from itertools.islice(found, _LARGE_EACH)

    def smaller(self, sizes: Mapping[str, int]) -> Iterator[SizedProgram]:
        """Sizes of which one is smaller, for each in turn, or all that are alike, the smallest
        first."""
        if self.sets is not None:
            return
        least = min((1, *sizes.values()))  # empty ones only where some are
        alike = {size: [n for n in self.names if sizes[n] == size] for size in sizes.values()}
        together = [names for names in alike.values() if len(names) > 1]
        for names in (*together, *([name] for name in self.names)):
            for value in (0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 32, 33, 48, 64, 100):
                changed = dict.fromkeys(names, value)
                if least <= value < sizes[names[0]] and self._is_allowed(changed):
                    shaped = shaped_at(self.program, {**sizes, **changed})
                    if shaped is not None:
                        yield SizedProgram({**sizes, **changed}, shaped, GIVEN)

    def _with(self, base: Sizes, name: str, value: int, kind: str) -> Iterator[SizedProgram]:
        if name in self.program.static_scalars and value > 3:
            return
        yield from self._checked({**base, name: value}, kind, _MOST_WORK)

    def _is_allowed(self, sizes: Mapping[str, int]) -> bool:
        return all(sizes[name] in pool for name, pool in self.pools.items() if name in sizes)

    def _checked(self, sizes: Sizes, kind: str, most: int | None) -> Iterator[SizedProgram]:
        key = tuple(sizes.values())
        if key in self._seen or not self._is_allowed(sizes):
            return
        shaped = shaped_at(self.program, sizes)
        is_asked = kind == GIVEN or bool(self.pools)
        if is_asked and shaped is not None and work_of(shaped) * _BYTES_EACH > _memory():
            shown = ", ".join(f"{name} = {size}" for name, size in sizes.items())
            raise InputError(f"no memory holds the arrays of {shown}", repair="smaller sizes")
        if shaped is not None and (most is None or work_of(shaped) <= most):
            self._seen.add(key)
            yield SizedProgram(sizes, shaped, kind)

    def _assigned(self, values: Sequence[int]) -> Sizes:
        """The values for the names in turn; for names with sizes of their own, one of these."""
        turns = itertools.cycle(values)
        found = {}
        for name in self.names:
            value = next(turns)
            if name in self.program.static_scalars:
                value = min(value, 2)
            pool = self.pools.get(name, ())
            found[name] = value if not pool or value in pool else pool[value % len(pool)]
        return found

    def _base(self) -> Sizes | None:
        """Sizes at which the program is defined, and has elements."""
        fewest = None
        rng = random.Random(0)
        for number in range(_MOST_DRAWN):
            values = _PRIMES if not number else rng.sample((*_PRIMES, 17, 19, 1, 4), 6)
            sizes = self._assigned(values)
            shaped = shaped_at(self.program, sizes)
            if shaped is None:
                continue
            fewest = fewest or sizes
            outputs = (shaped.shapes[name] for name in self.program.outputs)
            if all(map(prod, outputs)) and not any(s.is_empty for s in shaped.statements):
                return sizes
        return fewest


_BYTES_EACH = 64  # of an element, with what the interpreter and its bound need


def _memory() -> int:
    """The bytes of this machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _some(values: Any) -> Iterable[Any]:
    """Some of a range: its ends, what lies beside powers of two, primes."""
    if not isinstance(values, Iterable):
        return ()
    found = values if isinstance(values, range) else [*values]
    if len(found) <= _MOST_OF_A_RANGE:
        return found
    wanted = (*_PRIMES, *_BESIDE, *(n * 16 for n in (1, 3, 5, 8)))
    inside = [n for n in wanted if n in found]
    ends = [found[0], found[-1], *found[1:3]]
    return [*dict.fromkeys([*inside, *ends, *found[:_MOST_OF_A_RANGE]])]
