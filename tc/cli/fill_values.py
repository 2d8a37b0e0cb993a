"""NAME=VALUE: numbers, files and fills as the values of inputs and sizes."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.format import MAGIC_PREFIX, read_array

from tc.cli.usage import UsageError
from tc.dtypes import BOOL
from tc.errors import InputError
from tc.semantics.program import Literal, Program, Size, Tensor
from tc.semantics.suggest import nearest

FILLS = ("random", "zeros", "ones")


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


def values_of(program: Program, pairs: dict[str, str], rng: np.random.Generator) -> dict[str, Any]:
    numbers = {name: number_of(text) for name, text in pairs.items()}
    sizes: dict[str, int] = {}
    for name, number in numbers.items():
        if type(number) is int and (name in program.tensors or number >= 0):
            sizes[name] = number
        elif name not in program.tensors:
            raise InputError(
                f"{name} is a size of {program.name}: a whole number of at least 0, "
                f"and not {pairs[name]!r}"
            )
    values: dict[str, Any] = {}
    for name, text in pairs.items():
        number = numbers[name]
        tensor = program.tensors.get(name)
        if number is not None and tensor is not None and tensor.dtype == BOOL:
            values[name] = bool(number)
        elif number is not None:
            values[name] = number
        else:
            assert tensor is not None
            values[name] = array_of(tensor, text, sizes, rng)
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


def array_of(tensor: Tensor, text: str, sizes: dict[str, int], rng: np.random.Generator) -> Any:
    fill, _, rest = text.partition(":")
    if fill not in FILLS:
        return _load(tensor, text)
    shape_text, _, bounds_text = rest.partition(":")
    if bounds_text and fill != "random":
        raise UsageError(f"{tensor.name}={fill}:SHAPE takes no bounds, as {bounds_text!r}")
    shape = _shape(tensor, shape_text, sizes)
    try:
        return _filled(tensor, fill, shape, bounds_text, rng)
    except (MemoryError, OverflowError, ValueError) as error:
        raise InputError(
            f"{tensor.name} of shape {shape} does not fit into memory", span=tensor.span
        ) from error


def _filled(
    tensor: Tensor, fill: str, shape: tuple[int, ...], bounds_text: str, rng: np.random.Generator
) -> Any:
    dtype = tensor.dtype
    if fill != "random":
        return np.full(shape, fill == "ones", dtype.numpy)
    if bounds_text:
        low, high = _bounds(tensor, bounds_text)
    else:
        low, high = (0, 2) if dtype.kind == "bool" else (0, 10)
    if dtype.is_float:
        values = rng.uniform(low, high, shape) if bounds_text else rng.standard_normal(shape)
        return np.asarray(values, dtype.numpy)
    return np.asarray(rng.integers(int(low), max(int(high), int(low) + 1), shape), dtype.numpy)


def _bounds(tensor: Tensor, text: str) -> tuple[float, float]:
    """LOW and HIGH, between which the type has values; integers are below HIGH."""
    name, dtype = tensor.name, tensor.dtype
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
        info = np.finfo(dtype.name) if dtype.is_float else np.iinfo(dtype.name)
        least, most = float(info.min), float(info.max)
        if bounds[0] < least or bounds[1] > most + dtype.is_integer:
            raise UsageError(f"{name}=random:SHAPE:{text}: {dtype} holds {info.min} to {info.max}")
    return bounds


def _shape(tensor: Tensor, text: str, sizes: dict[str, int]) -> tuple[int, ...]:
    if text:
        try:
            shape = tuple(int(part) for part in text.split("x"))
        except ValueError:
            shape = (-1,)
        if min(shape) < 0:
            raise UsageError(f"{tensor.name}: {text!r} is not a shape such as 128x64")
        return shape
    shape = ()
    for dim in tensor.shape or ():
        match dim:
            case Literal(value=value):
                shape += (int(value),)
            case Size(name=name) if name in sizes:
                shape += (sizes[name],)
            case Size(name=name):
                raise InputError(
                    f"the shape of {tensor.name} needs the size {name}",
                    span=tensor.span,
                    repair=f"{name}=16",
                )
            case _:
                raise InputError(
                    f"the shape of {tensor.name} is inferred",
                    span=tensor.span,
                    repair=f"{tensor.name}=random:{'x'.join(['16'] * tensor.rank)}",
                )
    return shape


def _load(tensor: Tensor, text: str) -> Any:
    try:
        with open(text, "rb") as file:
            if file.read(len(MAGIC_PREFIX)) != MAGIC_PREFIX:  # an .npz file, or a pickle
                raise ValueError("it is no .npy file")
            file.seek(0)
            return read_array(file, allow_pickle=False)
    except FileNotFoundError as error:
        raise _no_value(tensor, text, "nor a file that is there") from error
    except MemoryError as error:
        raise InputError(
            f"{tensor.name}={text} does not fit into memory", span=tensor.span
        ) from error
    except Exception as error:  # numpy reads the header as Python, which has many
        reason = getattr(error, "strerror", None) or "it is no .npy file"
        raise InputError(
            f"{tensor.name}={text} cannot be read: {reason}", span=tensor.span
        ) from error


def _no_value(tensor: Tensor, text: str, what: str) -> InputError:
    """The error of a text that is no value. The repair is the nearest file where the text is like
    the name of a file, else a value of the kind of the input."""
    folder, name = os.path.split(text)
    is_path = bool(folder) or "." in name
    there = sorted(entry for entry in _entries(folder) if entry.endswith(".npy"))
    close = nearest(name, there)
    repair = None
    if close is not None:
        repair = os.path.join(folder, close)
    elif not is_path and tensor.rank:
        fill, _, shape = text.partition(":")
        repair = f"{nearest(fill, FILLS) or 'random'}:{shape or 'x'.join(['16'] * tensor.rank)}"
    elif not is_path:
        repair = "1"
    return InputError(
        f"{tensor.name}={text} is no number, none of {', '.join(FILLS)}, {what}",
        span=tensor.span,
        repair=repair and f"{tensor.name}={repair}",
    )


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder or ".")
    except OSError:
        return []
