"""Problems to tune, and trials of candidates, as values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import median
from typing import Any

from tc.backends.base import Backend
from tc.errors import InputError
from tc.options import Options
from tc.pipeline import check_module, element_strides, parse_source, shape_program
from tc.runtime.fallback import Request
from tc.runtime.sizes import CallSizes
from tc.semantics.program import Program, ShapedProgram
from tc.source import Source


@dataclass(frozen=True, slots=True)
class Problem:
    """A program at the sizes of a call: the def `entry` of a text, for a backend, with checks or
    without (G7). `shapes`, `scalars` and `strides` (in bytes) are those of `CallSizes`; `given` are
    the outputs whose contents the caller passes, and where these say the shapes of outputs, they
    are among `shapes`. All of it can be written down and sent."""

    text: str
    entry: str
    backend: str
    check: bool
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    scalars: tuple[tuple[str, int], ...] = ()
    strides: tuple[tuple[str, tuple[int, ...]], ...] = ()
    given: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        program: Program,
        sizes: CallSizes,
        backend: Backend,
        *,
        check: bool,
        given: frozenset[str] = frozenset(),
    ) -> Problem:
        return cls(
            program.source.text,
            program.name,
            backend.name,
            check,
            tuple(sorted((n, tuple(s)) for n, s in {**sizes.shapes, **sizes.outputs}.items())),
            tuple(sorted(sizes.scalars.items())),
            tuple(sorted((name, tuple(steps)) for name, steps in sizes.strides.items())),
            tuple(sorted(given)),
        )

    @property
    def sizes(self) -> CallSizes:
        outputs = {name: shape for name, shape in self.shapes if name in self.given}
        inputs = {name: shape for name, shape in self.shapes if name not in outputs}
        return CallSizes(inputs, dict(self.scalars), dict(self.strides), outputs=outputs)

    def program(self) -> Program:
        """Parsed and checked again: ParseError, CheckError."""
        return check_module(parse_source(Source(self.text)), self.entry)

    def request(self, options: Options | None = None) -> Request:
        """What `tc.pipeline.compile_for` compiles for this problem, with the program parsed and
        checked again."""
        given, options = frozenset(self.given), options or Options()
        return Request(self.program(), self.sizes, given, self.backend, options, self.check)

    def shaped(self) -> ShapedProgram:
        return shape_program(self.program(), self.sizes)

    def element_strides(self, shaped: ShapedProgram) -> dict[str, tuple[int, ...]]:
        """Of the inputs that are not row-major, in elements."""
        return element_strides(shaped, self.sizes)

    def to_json(self) -> str:
        """
        >>> problem = Problem("def f(float(N) x) -> (y) { y(i) = x(i) }", "f", "c", True,
        ...                   (("x", (3,)),))
        >>> Problem.from_json(problem.to_json()) == problem
        True
        """
        return json.dumps([getattr(self, name) for name in self.__slots__])

    @classmethod
    def from_json(cls, text: str) -> Problem:
        """What `to_json` has written; InputError for anything else."""
        try:
            *plain, shapes, scalars, strides, given = json.loads(text)
            entry, name, backend, check = plain
            known = all(isinstance(each, str) for each in (entry, name, backend, *_list(given)))
            if not known or not isinstance(check, bool):
                raise ValueError("its texts and flags are of other types")
            return cls(
                *(entry, name, backend, check),
                tuple((_name(n), tuple(map(_whole, _list(s)))) for n, s in _list(shapes)),
                tuple((_name(n), _whole(value)) for n, value in _list(scalars)),
                tuple((_name(n), tuple(map(_whole, _list(s)))) for n, s in _list(strides)),
                tuple(given),
            )
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"this describes nothing that was tuned: {error}") from error


WRONG = "it is wrong: "
"""What the failure of a trial begins with whose results are out of their bounds."""


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.60} is no name")
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise ValueError(f"{value!r:.60} is no whole number of 64 bits")
    return int(value)


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r:.60} is no list")
    return value


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate and its measurement: `options` with a whole plan, the `seconds` of its calls
    (none where the candidate failed), and the reason of a `failure`."""

    options: Options
    seconds: tuple[float, ...] = ()
    failure: str | None = None

    @property
    def time(self) -> float:
        """The median of the seconds of the calls, infinite where the candidate failed."""
        return median(self.seconds) if self.seconds and self.failure is None else float("inf")

    @property
    def is_wrong(self) -> bool:
        """Whether the candidate ran and computed wrong numbers, which is a fault of tc.

        >>> Trial(Options(), failure="it is wrong: y(1) is 2.0").is_wrong
        True
        """
        return self.failure is not None and self.failure.startswith(WRONG)

    def to_value(self) -> dict[str, Any]:
        """The problem as a value of JSON."""
        return {
            "options": self.options.to_value(),
            "seconds": list(self.seconds),
            "failure": self.failure,
        }
