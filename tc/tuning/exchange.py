"""Measurements as lines of JSON, shared between machines: what is read is data, and checked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tc.backends import registry
from tc.backends.base import Backend
from tc.errors import InputError, TCError
from tc.options import Options
from tc.tuning.database import Measurement
from tc.tuning.machines import check_device_value
from tc.tuning.problem import Problem, Trial
from tc.tuning.rows import is_moment, is_number, is_versions

VERSION = 1
"""The version of the lines that tc writes and reads."""

MAX_CHARACTERS = 1 << 24
"""Characters of a line."""

_MAX_SECONDS = 10_000
_PROBLEM = Problem.__slots__
_KEYS = (
    *("version", "problem", "device", "versions", "base", "options", "seconds", "failure"),
    *("confirmed", "at", "search", "seed"),
)


class RefusedLine(NamedTuple):
    """The number of a line, counted from 1, that is no measurement, and why."""

    number: int
    error: TCError


def to_line(measurement: Measurement) -> str:
    """The line of a measurement, without the end of the line."""
    problem = json.loads(measurement.problem.to_json())
    return json.dumps(
        {
            "version": VERSION,
            "problem": dict(zip(_PROBLEM, problem, strict=True)),
            "device": measurement.device,
            "versions": measurement.versions,
            "base": measurement.base.to_value(),
            **measurement.trial.to_value(),
            "confirmed": measurement.confirmed,
            "at": measurement.at,
            "search": measurement.search,
            "seed": measurement.seed,
        }
    )


def from_lines(lines: Iterable[str]) -> Iterator[Measurement | RefusedLine]:
    """What lines say, those that are empty left out. Nothing is run: programs are checked, and
    plans are read as a user's are; whether one can be done is seen where it is used."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield from_line(line)
            except TCError as error:
                yield RefusedLine(number, error)


def from_line(line: str) -> Measurement:
    """The measurement that `to_line` has written; TCError for anything else."""
    if len(line) > MAX_CHARACTERS:
        raise InputError(f"the line has {len(line)} characters, and may have {MAX_CHARACTERS}")
    try:
        line.encode()
        values = json.loads(line, parse_constant=_no_number)
    except UnicodeEncodeError as error:
        raise InputError(f"the line is no text: {error.reason}") from error
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InputError(f"the line is no JSON: {reason}") from error
    found = _object(values, "a measurement", ("version",))
    version = found["version"]
    if type(version) is not int or version != VERSION:
        raise InputError(
            f"the line has version {version!r}, and this tc reads version {VERSION}",
            repair="pip install --upgrade tensor-comprehensions",
        )
    _object(values, "a measurement", _KEYS, _KEYS)
    problem = _object(found["problem"], "a problem", _PROBLEM, _PROBLEM)
    measurement = Measurement(
        problem=_problem(problem),
        trial=_trial(found),
        device=found["device"],
        versions=found["versions"],
        at=_checked(found, "at", is_moment, "seconds since 1970"),
        base=Options.from_json(json.dumps(found["base"])),
        search=_checked(found, "search", lambda text: isinstance(text, str), "a text"),
        seed=_checked(found, "seed", lambda n: n is None or type(n) is int, "an integer, or null"),
        confirmed=_checked(found, "confirmed", lambda b: isinstance(b, bool), "true or false"),
    )
    check_device_value(measurement.device)
    if not measurement.device["name"].isprintable():
        raise InputError("the name of a device is printable")
    _checked(found, "versions", is_versions, "an object of texts")
    if measurement.base.plan is not None:
        raise InputError("the base of a search has no plan")
    if measurement.trial.options.plan is None and not measurement.confirmed:
        raise InputError("the options of a trial that was not confirmed have a plan")
    return measurement


def _problem(values: Mapping[str, Any]) -> Problem:
    """A problem whose program is right, and has these sizes."""
    problem = Problem.from_json(json.dumps([values[name] for name in _PROBLEM]))
    names = registry.names()
    if problem.backend not in names or not isinstance(registry.get(problem.backend), Backend):
        raise InputError(f"no backend {problem.backend!r} has plans; there are {', '.join(names)}")
    try:
        program = problem.program()
        _same_names("shapes", (name for name, _ in problem.shapes), program.inputs)
        _same_names("scalars", (name for name, _ in problem.scalars), program.static_scalars)
        for name, shape in problem.shapes:
            if len(shape) != program.tensors[name].rank or min(shape, default=0) < 0:
                raise InputError(f"{name} has no shape {shape}")
        ranks = {name: len(shape) for name, shape in problem.shapes}
        if any(ranks.get(name) != len(steps) for name, steps in problem.strides):
            raise InputError("strides are of inputs, one for each dimension")
        if not set(problem.given) <= set(program.outputs):
            raise InputError(f"{', '.join(problem.given)} are no outputs of {program.name}")
        problem.shaped()
    except TCError as error:
        raise InputError(f"the program: {error.cause}") from error
    return problem


def _same_names(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    listed, wanted = sorted(names), sorted(known)
    if listed != wanted:
        said = ", ".join(listed) or "nothing"
        raise InputError(f"the {what} are of {said}, and not of {', '.join(wanted) or 'nothing'}")


def _trial(values: Mapping[str, Any]) -> Trial:
    options = Options.from_json(json.dumps(values["options"]))
    failure, seconds = values["failure"], values["seconds"]
    if not isinstance(seconds, list) or len(seconds) > _MAX_SECONDS:
        raise InputError(f'"seconds" is a list of at most {_MAX_SECONDS} numbers')
    if not all(is_number(each) and each > 0 for each in seconds):
        raise InputError('"seconds" are numbers of more than 0')
    if failure is not None and not isinstance(failure, str):
        raise InputError('"failure" is a text, or null')
    if (failure is None) != bool(seconds):
        raise InputError('a trial has either "seconds" or a "failure"')
    return Trial(options, tuple(map(float, seconds)), failure)


def _object(
    values: object, what: str, needed: tuple[str, ...], known: tuple[str, ...] | None = None
) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise InputError(f"{what} is an object with the keys {', '.join(known or _KEYS)}")
    lacking = [key for key in needed if key not in values]
    if lacking:
        raise InputError(f"{what} lacks {', '.join(lacking)}")
    unknown = sorted(set(values) - set(known or values))
    if unknown:
        raise InputError(f"{what} has no key {', '.join(map(repr, unknown))}")
    return values


def _checked(
    values: Mapping[str, Any], name: str, is_right: Callable[[Any], bool], what: str
) -> Any:
    value = values[name]
    if not is_right(value):
        raise InputError(f'"{name}" is {what}, and not {json.dumps(value)[:60]}')
    return value


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON")
