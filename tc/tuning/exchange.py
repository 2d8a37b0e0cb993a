"""Measurements as lines of JSON, shared between machines: what is read is data, and checked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tc.backends import registry
from tc.backends.base import Backend
from tc.errors import InputError, TCError
from tc.options import Options
from tc.tuning.database import Measurement
from tc.tuning.machines import check_device_value
from tc.tuning.problem import Problem, Trial
from tc.tuning.rows import check_measured, value_of

VERSION = 1
"""The version of the lines that tc writes and reads."""

MAX_CHARACTERS = 1 << 24
"""Characters of a line."""

_PROBLEM = Problem.__slots__
_AS_THEY_ARE = ("device", "versions", "confirmed", "at", "search", "seed")
_KEYS = ("version", "problem", "base", "options", "seconds", "failure", *_AS_THEY_ARE)


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
    values = value_of(line, "the line")
    found = _object(values, "a measurement", ("version",))
    version = found["version"]
    if type(version) is not int or version != VERSION:
        raise InputError(
            f"the line has version {version!r}, and this tc reads version {VERSION}",
            repair="pip install --upgrade tensor-comprehensions",
        )
    _object(values, "a measurement", _KEYS, _KEYS)
    problem = _object(found["problem"], "a problem", _PROBLEM, _PROBLEM)
    check_measured(found)
    measurement = Measurement(
        problem=_problem(problem),
        trial=Trial(
            Options.from_json(json.dumps(found["options"])),
            tuple(map(float, found["seconds"])),
            found["failure"],
        ),
        base=Options.from_json(json.dumps(found["base"])),
        **{name: found[name] for name in _AS_THEY_ARE},
    )
    check_device_value(measurement.device)
    if not measurement.device["name"].isprintable():
        raise InputError("the name of a device is printable")
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
        shaped = (*program.inputs, *(n for n in program.open_outputs if n in problem.given))
        _same_names("shapes", (name for name, _ in problem.shapes), shaped)
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
