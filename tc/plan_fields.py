"""What the fields of a plan's actions can hold, and how values from elsewhere are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import Field
from typing import Any

from tc.errors import BackendError

MAX_ACTION_NUMBER = 2**31 - 1
"""The largest number that a field of an action can have."""


def read_field(item: Field[Any], value: object, verb: str) -> Any:
    """The value of a field of an action; BackendError for one of another type."""
    kind = str(item.type)
    try:
        return _READERS[kind](value, f"{item.name!r} of {verb!r}")
    except BackendError as error:
        mended = coerced(value, kind)
        repair = None if mended is None else f"{item.name}={mended!r}"
        raise BackendError(error.cause, repair=repair) from None


def coerced(value: object, kind: str) -> Any:
    """What a value of another type stands for, in a field of this; None where it is nothing."""
    match kind, value:
        case "tuple[str, ...]", str():
            return (value,)
        case "tuple[int, ...]", int() if _is_count(value):
            return (value,)
        case "int", float() if value.is_integer() and _is_count(int(value)):
            return int(value)
    return None


def list_of(value: object, what: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise BackendError(f"{what}, and not {shown(value)}")
    return list(value)


def _name(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise BackendError(f"{what} is a name, and not {shown(value)}")
    return value


def names_of(value: object, what: str) -> tuple[str, ...]:
    return tuple(_name(name, what) for name in list_of(value, f"{what}: a list of names"))


def _is_count(value: object, least: int = 1) -> bool:
    return type(value) is int and least <= value <= MAX_ACTION_NUMBER


def _count(value: Any, what: str) -> int:
    if not _is_count(value):
        raise BackendError(f"{what}: {shown(value)} is no integer from 1 to {MAX_ACTION_NUMBER}")
    return int(value)


def _counts(value: object, what: str) -> tuple[int, ...]:
    return tuple(_count(number, what) for number in list_of(value, f"{what}: a list of integers"))


def _flag(value: object, what: str) -> bool:
    if type(value) is not bool:
        raise BackendError(f"{what} is true or false, and not {shown(value)}")
    return value


def _axes(value: object, what: str) -> tuple[tuple[int, int], ...]:
    axes = []
    for axis in list_of(value, f"{what}: a list of [dimension, step]"):
        if not isinstance(axis, list | tuple) or len(axis) != 2 or not _is_count(axis[0], 0):
            raise BackendError(f"{what}: an axis is [dimension, step], and not {shown(axis)}")
        axes.append((axis[0], _count(axis[1], f"the step of an axis in {what}")))
    return tuple(axes)


_READERS: Mapping[str, Callable[[object, str], Any]] = {
    "str": _name,
    "str | None": lambda value, what: None if value is None else _name(value, what),
    "tuple[str, ...]": names_of,
    "int": _count,
    "int | None": lambda value, what: None if value is None else _count(value, what),
    "tuple[int, ...]": _counts,
    "tuple[tuple[int, int], ...]": _axes,
    "bool": _flag,
}
"""How the fields of actions are read, by their types."""


def as_json(value: object) -> str:
    """A value read from JSON, as it stands there."""
    try:
        return shortened(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return shown(value)


def shown(value: object) -> str:
    try:
        return shortened(repr(value))
    except (ValueError, RecursionError):  # too many digits, or too deep
        return f"one of type {type(value).__name__}"


def shortened(text: str, most: int = 80) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
