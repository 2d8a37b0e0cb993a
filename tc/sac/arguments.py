"""The inputs of a call: bound to names, checked, and their element types and shapes (C25)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tc.dtypes import DTYPES, FLOAT16, FLOAT32, FLOAT64, DType, Weak, fits
from tc.errors import InputError, TCError
from tc.runtime.arrays import NUMPY, family_of
from tc.runtime.arrays.family import Family, Refusal
from tc.wording import nearest

_NUMBERS = (bool, int, float)


@dataclass(frozen=True, slots=True)
class GivenInput:
    """An input of a call. `array` is the caller's array, or one of numpy made of Python's numbers,
    for which `is_python` holds; `dtype` is weak for these. `fit` says which types hold the
    numbers."""

    name: str
    array: Any
    dtype: DType | Weak
    shape: tuple[int, ...]
    fit: tuple[bool, ...] = ()
    is_python: bool = False

    @property
    def key(self) -> tuple[Any, ...]:
        """What a specialisation depends on."""
        return (self.dtype, self.shape, self.fit)

    def read(self) -> np.ndarray[Any, Any]:
        """The elements, in the memory of the processor."""
        if isinstance(self.array, np.ndarray):
            return self.array
        try:
            found = family_of(self.array)
            view = found.view(self.array)
        except Refusal as refusal:
            if hasattr(self.array, "detach"):
                return np.asarray(self.array.detach().cpu().numpy())
            raise InputError(
                f"input '{self.name}' {refusal.cause}, and its elements are needed", rule="C25"
            ) from None
        return np.asarray(view)


@dataclass(frozen=True, slots=True)
class UnreadArray:
    """The shape and the type of an array that has no elements yet."""

    shape: tuple[int, ...]
    dtype: str


def bind(
    names: Sequence[str],
    inputs: Sequence[Any],
    named: Mapping[str, Any],
    *,
    is_expression: bool,
    function: str,
) -> tuple[Any, ...]:
    """The inputs in order, given one by one, by keyword, or all in one sequence or mapping."""
    if len(inputs) == 1 and isinstance(inputs[0], Mapping):
        twice = [n for n in inputs[0] if n in named]
        if twice:
            raise InputError(f"input '{twice[0]}' is given twice", rule="C25")
        named, inputs = {**inputs[0], **named}, ()
    elif len(inputs) == 1 and _holds_all(inputs[0], len(names)):
        inputs = tuple(inputs[0])
    if is_expression and inputs:
        raise InputError(
            "the inputs of an expression are given by name, as their order is not told",
            rule="C25",
            repair=", ".join(f"{name}=..." for name in names) or "no inputs",
        )
    if len(inputs) > len(names):
        raise InputError(
            f"'{function}' takes {len(names)} input{'s' * (len(names) != 1)}, not {len(inputs)}",
            rule="C25",
            repair=f"{function}({', '.join(names)})",
        )
    given = dict(zip(names, inputs, strict=False))
    for name in named:
        if name not in names:
            told = ", ".join(names) or "none"
            meant = nearest(name, [n for n in names if n not in named])
            raise InputError(
                f"there is no input '{name}'; the inputs are {told}",
                rule="C25",
                repair=f"{meant}=..." if meant else None,
            )
        if name in given:
            raise InputError(f"input '{name}' is given twice", rule="C25")
    given.update(named)
    for name in names:
        if name not in given:
            raise InputError(f"input '{name}' is missing", rule="C25", repair=f"{name}=...")
    return tuple(given[name] for name in names)


def _holds_all(value: Any, count: int) -> bool:
    """Whether the only positional value is a sequence of all inputs, as a call of tc takes it: with
    one input a list of one value is, and a tuple of one integer is a shape."""
    if not isinstance(value, list | tuple):
        return False
    if count != 1:
        return True
    return len(value) == 1 and not (isinstance(value, tuple) and isinstance(value[0], int))


_WHOLE = tuple(DTYPES[n] for n in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"))
_FLOATING = (FLOAT16, FLOAT32, FLOAT64)


def described(name: str, value: Any) -> GivenInput:
    """An input with its element type and shape; InputError for what is none (C25)."""
    if isinstance(value, np.ndarray | np.generic):
        return _of_numpy(name, np.asarray(value))
    if isinstance(value, (*_NUMBERS, list, tuple)):
        return _of_numbers(name, value)
    dtype = str(getattr(value, "dtype", "")).rpartition(".")[2]
    if dtype in DTYPES and hasattr(value, "shape"):
        return GivenInput(name, value, DTYPES[dtype], tuple(int(n) for n in value.shape))
    if dtype:
        raise InputError(f"input '{name}' has elements of type {dtype}", rule="C25")
    kind = type(value).__name__
    raise InputError(
        f"input '{name}' is of type {kind}, which is no array",
        rule="C25",
        repair=f"{name}.real" if isinstance(value, complex) else None,
    )


def _of_numpy(name: str, array: np.ndarray[Any, Any]) -> GivenInput:
    if array.dtype.name not in DTYPES:
        raise InputError(
            f"input '{name}' has elements of type {array.dtype}: bool, integers and floats of 16 "
            "to 64 bits are known",
            rule="C25",
            repair=f"{name}.real" if array.dtype.kind == "c" else None,
        )
    return GivenInput(name, array, DTYPES[array.dtype.name], array.shape)


def _of_numbers(name: str, value: Any) -> GivenInput:
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):
        raise InputError(
            f"input '{name}' is a list whose rows have several lengths, and no array",
            rule="C25",
            idiom="[[1, 2], [3, 0]], with shorter rows filled up, in place of [[1, 2], [3]]",
        ) from None
    if array.dtype == bool:
        return GivenInput(name, array, DTYPES["bool"], array.shape, is_python=True)
    if array.dtype.kind == "f" or not array.size:
        array = array.astype(np.float64 if array.size else np.int64)
        limit = float(np.max(np.abs(array), initial=0.0, where=np.isfinite(array)))
        if array.dtype.kind == "f":
            fit = tuple(fits(limit, t) for t in _FLOATING)
            return GivenInput(name, array, Weak.FLOAT, array.shape, fit, True)
        return GivenInput(name, array, Weak.LITERAL, array.shape, is_python=True)
    if array.dtype.kind not in "iu" or array.dtype == np.uint64:
        is_number = isinstance(value, int) or (array.dtype == object and _are_integers(array))
        what = "which no int64 holds" if is_number else "which is no array"
        raise InputError(f"input '{name}' is {value!r:.40}, {what}", rule="C25")
    low, high = int(array.min()), int(array.max())
    fit = tuple(fits(n, t) for t in _WHOLE for n in (low, high))
    return GivenInput(name, array.astype(np.int64), Weak.LITERAL, array.shape, fit, True)


def _are_integers(array: np.ndarray[Any, Any]) -> bool:
    return bool(array.size) and all(isinstance(number, int) for number in array.flat)


def arrays_of(given: Sequence[GivenInput]) -> list[Any]:
    """What a def of tc is called with: Python's numbers as they are, and lists of them as arrays of
    the library that the other arrays are of."""
    if not any(g.is_python for g in given):
        return [g.array for g in given]
    family, like = family_and_like([g.array for g in given])
    found: list[Any] = []
    for g in given:
        if not g.is_python:
            found.append(g.array)
        elif g.shape:
            found.append(g.array if like is None else family.wrap(g.array, like))
        else:
            found.append(g.array.item())
    return found


def family_and_like(values: Sequence[Any]) -> tuple[Family, Any]:
    """The library of the first array among inputs, with the array; numpy's where there is none."""
    for value in values:
        if hasattr(value, "dtype") and not isinstance(value, np.ndarray | np.generic):
            try:
                return family_of(value), value
            except Refusal:
                continue
    return NUMPY, None


_CONVERTED = re.compile(r"(\w+)\.astype\('(\w+)'\)")


def for_library(error: TCError, given: Sequence[GivenInput]) -> TCError:
    """The error, whose repair converts an input as the library of the input does."""
    found = _CONVERTED.fullmatch(error.repair or "")
    if found is not None and any(g.name == found[1] and g.is_python for g in given):
        name = "bool_" if found[2] == "bool" else found[2]
        error.repair = f"np.{name}({found[1]})"
    if found is not None and any(g.name == found[1] and hasattr(g.array, "detach") for g in given):
        error.repair = f"{found[1]}.to(torch.{found[2]})"
    return error
