"""Inputs that catch: derived from the ranges and accesses of a text, and not drawn alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tc.dtypes import BOOL, Array, DType, encoded
from tc.semantics import program as p
from tc.semantics.affine import linear_form
from tc.semantics.index_values import IndexValues, index_values
from tc.semantics.size_values import KnownSizes

WHOLE, REAL, LARGE, FACES, ENDS = "whole", "real", "large", "faces", "ends"
TIES, CONSTANTS, SPECIAL, INDICES = "ties", "constants", "special", "indices"

KINDS = {
    WHOLE: "small integers",
    LARGE: "large integers",
    REAL: "reals",
    FACES: "large values at faces",
    ENDS: "zeros but at ends of sums",
    TIES: "equal values",
    CONSTANTS: "values at and beside the constants of the text",
    SPECIAL: "NaN, infinities and -0.0",
    INDICES: "the ends of what is indexed",
}
"""The kinds of probes, and what they are called."""

Arrays = dict[str, Array]


@dataclass(frozen=True)
class Probe:
    """Makes inputs for a program; `make` gives None where the probe is none for the program.
    Integers are none of them 0, so that sums are exact, and each term counts."""

    kind: str
    what: str
    make: Callable[[p.ShapedProgram], Arrays | None]


def whole(seed: int = 0) -> Probe:
    return Probe(WHOLE, "small integers", lambda shaped: _Maker(shaped, seed).whole())


def real(seed: int = 0) -> Probe:
    return Probe(REAL, "reals", lambda shaped: _Maker(shaped, seed).real())


def large(bits: int) -> Probe:
    return Probe(LARGE, f"integers of {bits} bits", lambda shaped: _Maker(shaped, bits).large(bits))


def probes_of(shaped: p.ShapedProgram) -> Iterator[Probe]:
    """The probes for a program, beside `whole`, `real` and `large`."""
    program = shaped.program
    floats = [n for n in program.inputs if program.tensors[n].dtype.is_float]
    indexed = index_values(shaped)
    for statement in shaped.statements:
        for variable in statement.statement.reduction:
            for last in (False, True):
                yield _end_of_sum(statement.statement.name, variable, last)
    for name in program.inputs:
        for axis in range(program.tensors[name].rank):
            if name not in indexed and program.tensors[name].dtype != BOOL:
                for last in (True, False):
                    for sign in (1, -1):
                        yield _face(name, axis, last, sign)
    yield from of_narrow_integers(shaped)
    yield _ties("ones", lambda shape, _: np.ones(shape))
    yield _ties("zeros", lambda shape, _: np.zeros(shape))
    yield _ties("0 or 1", lambda shape, rng: rng.integers(0, 2, shape))
    numbers = _constants(shaped.program)
    if numbers:
        for seed in range(2):
            yield _at_constants(numbers, seed)
    for name in floats:
        for value in (np.nan, np.inf, -np.inf):
            for place in (-1, 0, 1):
                yield _special(name, value, place)
        for value in (np.nan, np.inf, -np.inf):
            yield _scattered(name, value)
            yield _scattered(name, value, whole=True)
    if floats:
        yield _ties("-0.0", lambda shape, _: np.full(shape, -0.0), SPECIAL)
    for name in indexed:
        for which in ("low", "high", "ends", "inner", "beyond"):
            yield _index(name, which)


class _Maker:
    """Inputs of one program."""

    def __init__(self, shaped: p.ShapedProgram, seed: int) -> None:
        self.shaped = shaped
        self.rng = np.random.default_rng(seed)
        self.limits = index_values(shaped)

    def arrays(self, make: Callable[[DType, tuple[int, ...]], Array]) -> Arrays:
        program = self.shaped.program
        found = {}
        for name in program.inputs:
            dtype, shape = program.tensors[name].dtype, self.shaped.shapes[name]
            if name in self.shaped.scalars:
                found[name] = np.array(self.shaped.scalars[name], dtype.numpy)
            elif name in self.limits:
                found[name] = self.limits[name].drawn(shape, dtype, self.rng)
            elif dtype == BOOL:
                found[name] = np.asarray(self.rng.random(shape) < 0.5)
            else:
                found[name] = np.asarray(make(dtype, shape))
        return found

    def integers(self, dtype: DType, shape: tuple[int, ...], most: int) -> Array:
        """Integers of magnitudes from 1 to `most`, of either sign where the type has both."""
        if dtype.is_integer:
            most = min(most, int(np.iinfo(dtype.name).max))
        values = self.rng.integers(1, most + 1, shape)
        if dtype.is_integer:
            if np.iinfo(dtype.name).min < 0:
                values = values * self._signs(shape)
            return np.asarray(values.astype(dtype.name))
        return encoded(np.asarray(values * self._signs(shape), np.float64), dtype)

    def _signs(self, shape: tuple[int, ...]) -> Array:
        return np.asarray(self.rng.integers(0, 2, shape) * 2 - 1)

    def whole(self) -> Arrays:
        return self.arrays(lambda dtype, shape: self.integers(dtype, shape, 3))

    def real(self) -> Arrays:
        def make(dtype: DType, shape: tuple[int, ...]) -> Array:
            if dtype.is_integer:
                return self.integers(dtype, shape, 9)
            values = (self.rng.random(shape) * 0.9 + 0.1) * self._signs(shape)
            return encoded(np.asarray(values), dtype)

        return self.arrays(make)

    def large(self, bits: int) -> Arrays:
        def make(dtype: DType, shape: tuple[int, ...]) -> Array:
            if dtype.is_integer:
                info = np.iinfo(dtype.name)
                most = min(int(info.max), 2**bits - 1)
                return self.integers(dtype, shape, most)
            low = 2 ** (bits - 1)
            values = self.rng.integers(low // 2, low, shape) * 2 + 1
            return encoded(np.asarray(values * self._signs(shape), np.float64), dtype)

        return self.arrays(make)


def _face(name: str, axis: int, last: bool, sign: int) -> Probe:
    """Whole numbers, with large distinct ones at one face of one input."""

    def make(shaped: p.ShapedProgram) -> Arrays | None:
        found = _Maker(shaped, 3).whole()
        array, dtype = found[name], shaped.program.tensors[name].dtype
        if array.size == 0 or (dtype.is_integer and sign < 0 and np.iinfo(dtype.name).min == 0):
            return None
        place = [slice(None)] * array.ndim
        place[axis] = slice(-1, None) if last else slice(0, 1)
        shape = array[tuple(place)].shape
        start = 40 if dtype.bits < 16 else 100
        values = start + np.arange(math.prod(shape)) % 27
        array[tuple(place)] = _in_type(sign * values.reshape(shape), dtype)
        return found

    end = "last" if last else "first"
    size = "large" if sign > 0 else "very small"
    return Probe(FACES, f"{size} values where dimension {axis} of {name} is at its {end}", make)


def _end_of_sum(statement: str, variable: str, last: bool) -> Probe:
    """Zeros but where a reduction variable is at one of its ends."""

    def make(shaped: p.ShapedProgram) -> Arrays | None:
        each = next((s for s in shaped.statements if s.statement.name == statement), None)
        if each is None or each.ranges[variable].extent < 2:
            return None
        found = _Maker(shaped, 5).whole()
        box = each.ranges[variable]
        at = box.end - 1 if last else box.begin
        limits, changed = index_values(shaped), False
        known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars)
        for read in (n for value in each.statement.values for n in p.walk(value)):
            if not isinstance(read, p.Read) or read.tensor not in found or read.tensor in limits:
                continue
            for axis, subscript in enumerate(read.subscripts):
                form = linear_form(subscript, known)
                if form is not None and dict(form.terms) == {variable: 1}:
                    kept = at + form.constant
                    others = np.arange(shaped.shapes[read.tensor][axis]) != kept
                    array = found[read.tensor]
                    array[(slice(None),) * axis + (others,)] = np.zeros((), array.dtype)
                    changed = True
        return found if changed else None

    end = "last" if last else "first"
    return Probe(ENDS, f"zeros but at the {end} {variable} of {statement}", make)


def _ties(what: str, values: Callable[..., Any], kind: str = TIES) -> Probe:
    def make(shaped: p.ShapedProgram) -> Arrays:
        maker = _Maker(shaped, 9)

        def of(dtype: DType, shape: tuple[int, ...]) -> Array:
            return _in_type(values(shape, maker.rng), dtype)

        return maker.arrays(of)

    return Probe(kind, what, make)


def _constants(program: p.Program) -> tuple[float, ...]:
    """The numbers of a text that values are compared and computed with."""
    nodes = (
        node
        for statement in program.statements
        for expr in (*statement.values, *statement.conditions)
        for node in p.walk(expr)
    )
    found = dict.fromkeys(float(n.value) for n in nodes if isinstance(n, p.Literal))
    return tuple(value for value in found if abs(value) < 1e6)[:_MOST_CONSTANTS]


_MOST_CONSTANTS = 6


def _at_constants(numbers: tuple[float, ...], seed: int) -> Probe:
    """Values that are constants of the text, the next ones, and such a half or one apart."""

    def values(shape: tuple[int, ...], rng: np.random.Generator, dtype: DType) -> Array:
        beside = [c + by for c in numbers for by in (0, 0, 1, -1, 0.5, -0.5)]
        found = np.asarray(rng.choice(np.array(beside), shape))
        if dtype.is_float and dtype.bits >= 32:
            exact = found.astype(dtype.numpy)
            step = rng.integers(-1, 2, shape)
            moved = np.nextafter(exact, np.where(step > 0, np.inf, -np.inf).astype(dtype.numpy))
            found = np.where((step != 0) & (exact != 0), moved, exact)
        return found

    def make(shaped: p.ShapedProgram) -> Arrays:
        maker = _Maker(shaped, 23 + seed)

        def of(dtype: DType, shape: tuple[int, ...]) -> Array:
            found = values(shape, maker.rng, dtype)
            if dtype.is_integer:
                info = np.iinfo(dtype.name)
                found = np.clip(np.rint(found), info.min, info.max)
            return _in_type(found, dtype)

        return maker.arrays(of)

    return Probe(CONSTANTS, "values at and beside the constants of the text", make)


def _special(name: str, value: float, place: int) -> Probe:
    """Whole numbers, and one that is none: at the end, the beginning or in the middle."""

    def make(shaped: p.ShapedProgram) -> Arrays | None:
        found = _Maker(shaped, 11).whole()
        flat = found[name].reshape(-1)
        if not flat.size or name in shaped.scalars:
            return None
        number = {-1: flat.size - 1, 0: 0}.get(place, flat.size // 2)
        flat[number] = _in_type(np.array(value), shaped.program.tensors[name].dtype)
        return {**found, name: flat.reshape(found[name].shape)}

    where = {-1: "last", 0: "first"}.get(place, "middle")
    return Probe(SPECIAL, f"{value} as the {where} element of {name}", make)


def _scattered(name: str, value: float, *, whole: bool = False) -> Probe:
    """Whole numbers and zeros, and here and there, or everywhere, one that is none."""

    def make(shaped: p.ShapedProgram) -> Arrays | None:
        maker = _Maker(shaped, 17)
        found = maker.whole()
        if not found[name].ndim:
            return None
        for other, array in found.items():
            dtype = shaped.program.tensors[other].dtype
            if dtype.is_float and array.ndim:
                array[maker.rng.random(array.shape) < 0.4] = np.zeros((), array.dtype)
        array, dtype = found[name], shaped.program.tensors[name].dtype
        chosen = np.ones(array.shape, bool) if whole else maker.rng.random(array.shape) < 0.3
        array[chosen] = _in_type(np.array(value), dtype)
        return found

    where = "in all elements" if whole else "here and there, beside zeros,"
    return Probe(SPECIAL, f"{value} {where} of {name}", make)


def of_narrow_integers(shaped: p.ShapedProgram) -> Iterator[Probe]:
    """The least and the largest values of types of 8 and 16 bits."""
    program, indexed = shaped.program, index_values(shaped)
    types = {n: program.tensors[n].dtype for n in program.inputs if n not in indexed}
    if not any(dtype.is_integer and 1 < dtype.bits < 32 for dtype in types.values()):
        return
    for what, end in (("largest", "max"), ("least", "min")):

        def make(shaped: p.ShapedProgram, end: str = end) -> Arrays:
            maker = _Maker(shaped, 19)

            def of(dtype: DType, shape: tuple[int, ...]) -> Array:
                if not dtype.is_integer or dtype.bits > 16:
                    return maker.integers(dtype, shape, 3)
                return np.full(shape, getattr(np.iinfo(dtype.name), end), dtype.name)

            return maker.arrays(of)

        yield Probe(LARGE, f"the {what} integers", make)


def _index(name: str, which: str) -> Probe:
    def make(shaped: p.ShapedProgram) -> Arrays | None:
        maker = _Maker(shaped, 13)
        found, dtype = maker.whole(), shaped.program.tensors[name].dtype
        if name not in maker.limits:
            return None
        array, limits = found[name], maker.limits[name].within(dtype)
        low, high = limits.low, limits.high
        if array.size == 0 or low > high or limits.distinct:
            return None
        if which in ("inner", "beyond"):
            span = high - low + 1
            by = -1 if which == "inner" and span > 2 else span if which == "beyond" else 0
            wide = IndexValues(low - by, high + by).within(dtype)
            ends = wide.low, wide.high
            drawn = maker.rng.integers(*ends, array.shape, dtype.name, endpoint=True)
            if limits.ascending:
                drawn = np.sort(drawn.reshape(-1)).reshape(array.shape)
            return {**found, name: drawn}
        values = {"low": [low], "high": [high], "ends": [low, high]}[which]
        flat = np.resize(np.array(values, dtype.name), array.size)
        if limits.ascending:
            flat = np.sort(flat)
            flat[:1], flat[-1:] = low, high
            if which == "high":
                flat[: max(array.size - 1, 1)] = low  # all is in the last row
        return {**found, name: flat.reshape(array.shape)}

    what = {
        "low": "at its least",
        "high": "at its largest",
        "ends": "at its ends",
        "inner": "within its ends",
        "beyond": "beyond its ends, too",
    }
    return Probe(INDICES, f"{name} {what[which]}", make)


def _in_type(values: Any, dtype: DType) -> Array:
    values = np.asarray(values)
    if dtype == BOOL or dtype.is_integer:
        return np.asarray(values.astype(dtype.name))
    return encoded(np.asarray(values, np.float64), dtype)


def simplified(arrays: Mapping[str, Array], shaped: p.ShapedProgram) -> Iterator[Arrays]:
    """Simpler inputs of the same shapes: one array is all ones, or zeros, or one half of an array
    is; integers that index stay what they are."""
    limits = index_values(shaped)
    for name, array in arrays.items():
        dtype = shaped.program.tensors[name].dtype
        if name in limits or name in shaped.scalars or dtype == BOOL or array.size == 0:
            continue
        ones, zeros = (_in_type(np.full(array.shape, value), dtype) for value in (1, 0))
        if array.tobytes() in (ones.tobytes(), zeros.tobytes()):
            continue
        yield {**arrays, name: ones}
        yield {**arrays, name: zeros}
        for axis, extent in enumerate(array.shape):
            for part in (slice(0, extent // 2), slice(extent // 2, extent)):
                fewer = array.copy()
                place = (slice(None),) * axis + (part,)
                fewer[place] = np.zeros((), array.dtype)
                if extent > 1 and fewer.tobytes() != array.tobytes():
                    yield {**arrays, name: fewer}
