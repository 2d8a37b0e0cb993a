"""The contents of rows of the tuning database, read as data that anybody may have written.

A disk, or a hand, may have changed a row into anything that SQLite can hold. What is not of the
form that tc writes is an InputError here, so that one such row is passed over, and no other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from tc.errors import InputError

Shapes: TypeAlias = tuple[tuple[int, ...], ...]
Strides: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]

LAST = 253402300800.0
"""The end of the year 9999, in seconds since 1970."""

MAX_SECONDS = 1e9
"""Seconds that no call takes: some thirty years."""

READABLE = f"""
    typeof(time) IN ('real', 'integer', 'null')
    AND (time IS NULL OR time > 0 AND time < {MAX_SECONDS})
    AND typeof(at) IN ('real', 'integer') AND at >= 0 AND at < {LAST}
    AND typeof(confirmed) = 'integer' AND confirmed IN (0, 1)
"""
"""In SQL: whether the numbers of a trial are such as tc writes."""

_MOST = 2**63


def value_of(text: object, what: str) -> Any:
    """The value that a text of JSON is."""
    if not isinstance(text, str):
        raise InputError(f"{what}: no text, but {type(text).__name__}")
    try:
        text.encode()
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what}: no JSON ({_reason(error)})") from error


def shapes_of(text: object, ranks: Sequence[int]) -> Shapes:
    """The shapes of inputs of these ranks.

    >>> shapes_of("[[2, 3], []]", (2, 0))
    ((2, 3), ())
    """
    value = value_of(text, "shapes")
    shapes = [_whole_numbers(each, "shapes") for each in _list(value, "shapes")]
    if [len(shape) for shape in shapes] != [*ranks] or any(n < 0 for s in shapes for n in s):
        raise InputError(f"shapes: {text!r:.60} are not those of the inputs")
    return tuple(shapes)


def strides_of(text: object, ranks: Sequence[int]) -> Strides:
    """The strides of some inputs, with the places of those.

    >>> strides_of("[[0, [1, 2]]]", (2, 0))
    ((0, (1, 2)),)
    """
    value = value_of(text, "strides")
    found = []
    for each in _list(value, "strides"):
        pair = _list(each, "strides")
        steps = _whole_numbers(pair[1], "strides") if len(pair) == 2 else ()
        place = pair[0] if len(pair) == 2 else None
        if type(place) is not int or not 0 <= place < len(ranks) or len(steps) != ranks[place]:
            raise InputError(f"strides: {text!r:.60} are not those of the inputs")
        found.append((place, steps))
    return tuple(found)


def seconds_of(text: object) -> tuple[float, ...]:
    """The times of calls."""
    found = _list(value_of(text, "seconds"), "seconds")
    if not all(is_number(each) and 0 < each < MAX_SECONDS for each in found):
        raise InputError(f"seconds: {text!r:.60} are no times")
    return tuple(map(float, found))


def number_of(row: Sequence[object] | None) -> int:
    """The number of a row, which is all that was asked for; there is none where a table is not made
    as tc makes it."""
    if row is None or type(row[0]) is not int:
        raise InputError("a table of the tuning database is damaged: its rows have no numbers")
    return row[0]


def is_number(value: object) -> bool:
    """Whether a value is a number that is not negative."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return known and 0 <= value < math.inf  # type: ignore[operator]


def is_moment(value: object) -> bool:
    """Whether a value is seconds since 1970, until the year 9999."""
    return is_number(value) and value < LAST  # type: ignore[operator]


def is_text(value: object) -> bool:
    """Whether a value is a text that can be written in UTF-8."""
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)


def is_versions(value: object) -> bool:
    """Whether a value is names with versions."""
    return isinstance(value, dict) and all(map(is_text, (*value, *value.values())))


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{what}: no list, but {value!r:.60}")
    return value


def _whole_numbers(value: object, what: str) -> tuple[int, ...]:
    found = _list(value, what)
    if not all(type(each) is int and -_MOST <= each < _MOST for each in found):
        raise InputError(f"{what}: {value!r:.60} are no whole numbers")
    return tuple(found)


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON")


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "it is no text"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
