"""NAME=VALUE as values of inputs: numbers, lists of numbers, files of numpy, and fills.

Nothing here depends on the notation of a program: a front end (`tc.cli.front_ends`) describes each
input as a `CallInput`.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.format import MAGIC_PREFIX, read_array

from tc.cli.parser import UsageError
from tc.dtypes import BOOL, FLOAT64, SPELLINGS, DType, as_array, encoded, limits
from tc.errors import InputError
from tc.source import Span
from tc.wording import nearest

FILLS = ("random", "zeros", "ones")


@dataclass(frozen=True)
class CallInput:
    """An input as the command line sees it.

    `dtype` is None where the text declares no element type. `sizes` has a number, the name of a
    size, or None for each axis; it is None where the text declares no rank."""

    name: str
    dtype: DType | None
    sizes: tuple[int | str | None, ...] | None
    span: Span | None = None

    @property
    def rank(self) -> int | None:
        return None if self.sizes is None else len(self.sizes)

    @property
    def example_shape(self) -> str:
        """A shape of the declared rank, or of rank 2."""
        return "x".join(["16"] * (2 if self.rank is None else self.rank))


def range_of(name: str, text: str) -> range | None:
    """The sizes that BEGIN:END or BEGIN:END:STEP stands for; None for a text of another form.

    >>> range_of("N", "16:4097:16"), range_of("N", "64")
    (range(16, 4097, 16), None)
    """
    found = re.fullmatch(r"(-?\d{1,18}):(-?\d{1,18})(?::(-?\d{1,18}))?", text)
    if found is None:
        return None
    begin, end, step = int(found[1]), int(found[2]), int(found[3] or 1)
    if step < 1 or begin < 0 or begin >= end or begin % step:
        what = "has no sizes"
        if step < 1 or begin < 0:
            what = "has a step below 1" if step < 1 else "begins below 0"
        elif begin % step:
            what = f"is for multiples of {step}, and its begin {begin} is none"
        raise UsageError(
            f"{name}={text}: the range {what}; {name}=1:4097 is all sizes below 4097, "
            f"{name}=16:4097:16 the multiples of 16"
        )
    return range(begin, end, step)


def middle(sizes: range) -> int:
    """A number in the middle of a range, as far from the first as from the last by ratio.

    >>> middle(range(1, 4097)), middle(range(16, 4097, 16))
    (64, 256)
    """
    wanted = math.isqrt(max(sizes[0], 1) * max(sizes[-1], 1))
    return sizes[min((wanted - sizes[0]) // sizes.step, len(sizes) - 1)]


def pairs_of(items: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not (name and equals and value):
            raise UsageError(f"{item!r} is not of the form NAME=VALUE")
        if name in pairs:
            raise UsageError(f"{name} is given twice")
        pairs[name] = value
    return pairs


def values_of(
    owner: str, inputs: Mapping[str, CallInput], pairs: Mapping[str, str], rng: np.random.Generator
) -> dict[str, Any]:
    """The values of the inputs and sizes that are given, by name; `owner` is the name of the
    program."""
    numbers = {name: number_of(text) for name, text in pairs.items()}
    sizes: dict[str, int] = {}
    for name, number in numbers.items():
        if type(number) is int and (name in inputs or number >= 0):
            sizes[name] = number
        elif name not in inputs:
            raise InputError(
                f"{name} is a size of {owner}: a whole number of at least 0, "
                f"and not {pairs[name]!r}"
            )
    values: dict[str, Any] = {}
    for name, text in pairs.items():
        number = numbers[name]
        wanted = inputs.get(name)
        if number is not None and wanted is not None and wanted.dtype == BOOL:
            values[name] = bool(number)
        elif number is not None:
            values[name] = number
        else:
            assert wanted is not None
            values[name] = array_of(wanted, text, sizes, rng)
    return values


def number_of(text: str) -> int | float | bool | None:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def array_of(
    wanted: CallInput, text: str, sizes: Mapping[str, int], rng: np.random.Generator
) -> Any:
    """The array that a list, a fill or the name of a file gives an input."""
    if text.startswith("["):
        return _list(wanted, text)
    fill, *parts = text.split(":")
    if fill not in FILLS:
        return _load(wanted, text)
    dtype = wanted.dtype
    if dtype is None:
        dtype = FLOAT64
        if parts and parts[-1] in SPELLINGS:
            dtype = SPELLINGS[parts.pop()]
    shape_text = parts[0] if parts else ""
    bounds_text = ":".join(parts[1:])
    if parts and parts[-1] in SPELLINGS:
        given = ":".join([fill, *parts[:-1]])
        raise UsageError(
            f"{wanted.name} is declared {dtype}, and takes no other type: {wanted.name}={given}"
        )
    if bounds_text and fill != "random":
        raise UsageError(f"{wanted.name}={fill}:SHAPE takes no bounds, as {bounds_text!r}")
    shape = _shape(wanted, shape_text, sizes)
    try:
        return _filled(wanted.name, dtype, fill, shape, bounds_text, rng)
    except (MemoryError, OverflowError, ValueError) as error:
        raise InputError(
            f"{wanted.name} of shape {shape} does not fit into memory", span=wanted.span
        ) from error


def _list(wanted: CallInput, text: str) -> Any:
    """The array of a list such as `[1,2]` or `[[1,2],[3,4]]` of the declared type; without such a
    type, the list itself."""
    try:
        value = json.loads(text)
    except ValueError:
        raise _no_list(wanted, text, "no list of numbers") from None
    try:
        array = np.asarray(value)
    except ValueError:
        raise _no_list(wanted, text, "a list whose rows have several lengths") from None
    kind = array.dtype.kind
    if kind not in "biuf" and array.size:
        raise _no_list(wanted, text, "no list of numbers")
    dtype = wanted.dtype
    if dtype is None:
        return value
    if array.size and (kind == "b") != (dtype == BOOL):
        raise _no_list(wanted, text, f"a list of {_kinds(kind)}, and {dtype} is asked for")
    if array.size and dtype.is_integer:
        info = np.iinfo(dtype.name)
        if kind == "f":
            raise _no_list(wanted, text, f"a list of numbers that are not whole, for {dtype}")
        if array.min() < info.min or array.max() > info.max:
            raise _no_list(
                wanted, text, f"not within {dtype}, which holds {info.min} to {info.max}"
            )
    return encoded(array, dtype)


def _kinds(kind: str) -> str:
    return "bools" if kind == "b" else "numbers"


def _no_list(wanted: CallInput, text: str, what: str) -> InputError:
    """The error of a list that is no value of an input, with a list that is one to adapt."""
    example = "true" if wanted.dtype == BOOL else "1"
    for size in ("2", "3")[: 1 if wanted.rank is None else max(1, wanted.rank)]:
        example = f"[{','.join([example] * int(size))}]"
    return InputError(
        f"{wanted.name}={text} is {what}", span=wanted.span, repair=f"{wanted.name}={example}"
    )


def _filled(
    name: str,
    dtype: DType,
    fill: str,
    shape: tuple[int, ...],
    bounds_text: str,
    rng: np.random.Generator,
) -> Any:
    if fill != "random":
        return as_array(np.full(shape, fill == "ones", dtype.held), dtype)
    if bounds_text:
        low, high = _bounds(name, dtype, bounds_text)
    else:
        low, high = (0, 2) if dtype.kind == "bool" else (0, 10)
    if dtype.is_float:
        values = rng.uniform(low, high, shape) if bounds_text else rng.standard_normal(shape)
        return encoded(np.asarray(values), dtype)
    return np.asarray(rng.integers(int(low), max(int(high), int(low) + 1), shape), dtype.numpy)


def _bounds(name: str, dtype: DType, text: str) -> tuple[float, float]:
    """LOW and HIGH, between which the type has values; integers are below HIGH."""
    low, colon, high = text.partition(":")
    try:
        bounds = float(low), float(high) if colon else math.nan
    except ValueError:
        bounds = math.nan, math.nan
    if not bounds[0] <= bounds[1] < math.inf:
        raise UsageError(
            f"{name}=random:SHAPE:LOW:HIGH needs two numbers, LOW not above HIGH, not {text!r}"
        )
    if dtype != BOOL:
        most: Any
        least, most = limits(dtype) if dtype.is_integer else (0, dtype.format.largest)
        if dtype.is_float:
            most = dtype.held.type(most)  # whose text is short
            least = -most
        if bounds[0] < float(least) or bounds[1] > float(most) + dtype.is_integer:
            raise UsageError(f"{name}=random:SHAPE:{text}: {dtype} holds {least} to {most}")
    return bounds


def _shape(wanted: CallInput, text: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    if text:
        try:
            shape = tuple(int(part) for part in text.split("x"))
        except ValueError:
            shape = (-1,)
        if min(shape) < 0:
            raise UsageError(f"{wanted.name}: {text!r} is not a shape such as 128x64")
        return shape
    shape = ()
    for size in (None,) if wanted.sizes is None else wanted.sizes:
        match size:
            case int():
                shape += (size,)
            case str() if size in sizes:
                shape += (sizes[size],)
            case str():
                raise InputError(
                    f"the shape of {wanted.name} needs the size {size}",
                    span=wanted.span,
                    repair=f"{size}=16",
                )
            case None:
                raise InputError(
                    f"the shape of {wanted.name} is not declared",
                    span=wanted.span,
                    repair=f"{wanted.name}=random:{wanted.example_shape}",
                )
    return shape


def _load(wanted: CallInput, text: str) -> Any:
    try:
        with open(text, "rb") as file:
            if file.read(len(MAGIC_PREFIX)) != MAGIC_PREFIX:  # an .npz file, or a pickle
                raise ValueError("it is no .npy file")
            file.seek(0)
            array = read_array(file, allow_pickle=False)
            dtype = wanted.dtype
            if dtype is None or dtype.is_in_numpy or array.dtype != f"V{dtype.bytes}":
                return array
            return array.view(dtype.numpy)  # files keep no name of a type that a package adds
    except FileNotFoundError as error:
        raise _no_value(wanted, text, "nor a file that is there") from error
    except MemoryError as error:
        raise InputError(
            f"{wanted.name}={text} does not fit into memory", span=wanted.span
        ) from error
    except Exception as error:  # numpy reads the header as Python, which has many
        reason = getattr(error, "strerror", None) or "it is no .npy file"
        raise InputError(
            f"{wanted.name}={text} cannot be read: {reason}", span=wanted.span
        ) from error


def dtype_of(text: str) -> str | None:
    """The element type of the array in a file, as numpy names it; None where there is no such
    file."""
    try:
        return str(np.load(text, mmap_mode="r", allow_pickle=False).dtype)
    except Exception:  # numpy reads the header as Python; what is no array is told where it is read
        return None


def _no_value(wanted: CallInput, text: str, what: str) -> InputError:
    """The error of a text that is no value. The repair is the nearest file where the text is like
    the name of a file, else a value of the kind of the input."""
    folder, name = os.path.split(text)
    is_path = bool(folder) or "." in name
    there = sorted(entry for entry in _entries(folder) if entry.endswith(".npy"))
    close = nearest(name, there)
    repair = None
    if close is not None:
        repair = os.path.join(folder, close)
    elif not is_path and wanted.rank != 0:
        fill, _, shape = text.partition(":")
        repair = f"{nearest(fill, FILLS) or 'random'}:{shape or wanted.example_shape}"
    elif not is_path:
        repair = "1"
    return InputError(
        f"{wanted.name}={text} is no number, none of {', '.join(FILLS)}, {what}",
        span=wanted.span,
        repair=repair and f"{wanted.name}={repair}",
    )


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder or ".")
    except OSError:
        return []
