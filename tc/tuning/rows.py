"""What was measured, in a row of the tuning database or a line of JSON, read as data that anybody
may have written.

A disk, or a hand, may have changed a row into anything that SQLite can hold. What is not of the
form that tc writes is an InputError here, so that one such row or line is passed over, and no
other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

from tc.errors import InputError
from tc.plan import as_json

Shapes: TypeAlias = tuple[tuple[int, ...], ...]
Strides: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]

LAST_SECOND = 253402300800.0
"""The end of the year 9999, in seconds since 1970."""

MAX_SECONDS = 1e9
"""Seconds that no call takes: some thirty years."""

READABLE = f"""
    typeof(time) IN ('real', 'integer', 'null')
    AND (time IS NULL OR time > 0 AND time < {MAX_SECONDS})
    AND typeof(at) IN ('real', 'integer') AND at >= 0 AND at < {LAST_SECOND}
    AND typeof(confirmed) = 'integer' AND confirmed IN (0, 1)
"""
"""In SQL: whether the numbers of a trial are such as tc writes."""

_MAX_INT64 = 2**63 - 1
_MAX_TIMES = 10_000


def value_of(text: object, subject: str) -> Any:
    """The value that a text of JSON is; InputError, which names the `subject`, for other texts."""
    if not isinstance(text, str):
        raise InputError(f"{subject} is no text, but {type(text).__name__}")
    try:
        text.encode()
        return json.loads(text, parse_constant=_no_number)
    except UnicodeEncodeError as error:
        raise InputError(f"{subject} is no text: {error.reason}") from error
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InputError(f"{subject} is no JSON: {reason}") from error


def shapes_of(text: object, ranks: Sequence[int]) -> Shapes:
    """The shapes of inputs of these ranks.

    >>> shapes_of("[[2, 3], []]", (2, 0))
    ((2, 3), ())
    """
    value = value_of(text, 'the text of "shapes"')
    shapes = [_whole_numbers(each, "shapes") for each in _list(value, "shapes")]
    if [len(shape) for shape in shapes] != [*ranks] or any(n < 0 for s in shapes for n in s):
        raise InputError(f"shapes: {text!r:.60} are not those of the inputs")
    return tuple(shapes)


def strides_of(text: object, ranks: Sequence[int]) -> Strides:
    """The strides of some inputs, with the places of those.

    >>> strides_of("[[0, [1, 2]]]", (2, 0))
    ((0, (1, 2)),)
    """
    value = value_of(text, 'the text of "strides"')
    found = []
    for each in _list(value, "strides"):
        pair = _list(each, "strides")
        steps = _whole_numbers(pair[1], "strides") if len(pair) == 2 else ()
        place = pair[0] if len(pair) == 2 else None
        if type(place) is not int or not 0 <= place < len(ranks) or len(steps) != ranks[place]:
            raise InputError(f"strides: {text!r:.60} are not those of the inputs")
        found.append((place, steps))
    return tuple(found)


def number_of(row: Sequence[object] | None) -> int:
    """The number of a row, which is all that was asked for; there is none where a table is not made
    as tc makes it."""
    if row is None or type(row[0]) is not int:
        raise InputError("a table of the tuning database is damaged: its rows have no numbers")
    return row[0]


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value < math.inf


def is_time(value: object) -> bool:
    """Whether a value is the seconds of a call."""
    return is_number(value) and 0 < value < MAX_SECONDS


def _is_moment(value: object) -> bool:
    return is_number(value) and value < LAST_SECOND


def _is_text(value: object) -> bool:
    """Whether a value is a text that can be written in UTF-8."""
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)


def _are_times(value: object) -> bool:
    return isinstance(value, list) and len(value) <= _MAX_TIMES and all(map(is_time, value))


def _are_versions(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_text, (*value, *value.values())))


_FIELDS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "seconds": (_are_times, f"a list of at most {_MAX_TIMES} numbers of more than 0"),
    "failure": (lambda value: value is None or _is_text(value), "a text, or null"),
    "versions": (_are_versions, "an object of texts"),
    "at": (_is_moment, "seconds since 1970"),
    "search": (_is_text, "a text"),
    "seed": (lambda value: value is None or type(value) is int, "an integer, or null"),
    "confirmed": (lambda value: type(value) is bool, "true or false"),
}
"""Which values tc writes for each of these, and what such values are."""


def check_measured(values: Mapping[str, object]) -> None:
    """InputError where the values of a measurement beside its problem, its options and its device
    are not such as tc writes."""
    for name, (is_right, what) in _FIELDS.items():
        if not is_right(values[name]):
            raise InputError(f'"{name}" is {what}, and not {as_json(values[name])}')
    if (values["failure"] is None) != bool(values["seconds"]):
        raise InputError('a trial has either "seconds" or a "failure"')


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{what}: no list, but {value!r:.60}")
    return value


def _whole_numbers(value: object, what: str) -> tuple[int, ...]:
    found = _list(value, what)
    if not all(type(each) is int and -_MAX_INT64 - 1 <= each <= _MAX_INT64 for each in found):
        raise InputError(f"{what}: {value!r:.60} are no whole numbers")
    return tuple(found)


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON")
