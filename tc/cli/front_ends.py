"""The two notations of the command line: the suffix of a file chooses the front end.

A front end reads a text; a `Callee` is what a command calls of it, with the inputs that NAME=VALUE
can give. All else of the command line knows no notation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Protocol, cast

from tc.backends.base import KernelText
from tc.cli.values import CallInput
from tc.explanation import Explanation
from tc.options import Options
from tc.semantics.program import Program
from tc.source import Source

FRONT_ENDS = {".sac": "tc.cli.sac_texts:SacTexts"}
"""The front ends by the suffixes of files, as "module:class"; all other files are tc's."""
TC = "tc.cli.tc_texts:TcTexts"


class Callee(Protocol):
    """The def, function or expression of a text that a command calls."""

    source: Source
    name: str
    inputs: Mapping[str, CallInput]
    sizes: frozenset[str]
    """The names of sizes that NAME=VALUE may give."""
    result_names: tuple[str, ...]
    call_text: str
    """The call that repairs show where inputs are missing."""
    may_vary: bool
    """Whether a size may be given as a range: the code then serves all of it."""

    def pragma_range(self) -> tuple[int, int]:
        """Where in the text pragmas for this callee may stand: begin and end."""

    def check_sizes(self, values: Mapping[str, Any]) -> None:
        """Raises InputError where the given sizes and shapes do not agree."""

    def drawn(self, values: Mapping[str, Any], missing: Iterable[str], seed: int) -> dict[str, Any]:
        """Values at random for the inputs without one."""

    def output(self, name: str, text: str, sizes: Mapping[str, int], seed: int) -> Any:
        """The value of an output before the call, as `--outputs` gives it."""

    def output_shape(self, name: str, values: Mapping[str, Any]) -> tuple[int, ...]:
        """The shape of an output at these values; empty where the shape is not known."""

    def blamed_input(self, cause: str) -> tuple[str | None, bool]:
        """The name of the input or output that the cause of an error is about, and whether it is an
        output; None for other causes."""

    def compiled(self, backend: str, options: Options | None, **how: Any) -> Any:
        """The function, whose calls take inputs by keyword and `outputs`; `how` is `dynamic`, where
        sizes may vary."""

    def lowered(self, values: Mapping[str, Any]) -> tuple[Program, Any]:
        """The def of tc that serves these values, and the inputs and sizes for it."""

    def explain(self, values: Mapping[str, Any], **how: Any) -> Explanation:
        """The explanation at these values; `how` is `stage`, `backend` and `options`."""

    def emit(self, values: Mapping[str, Any], **how: Any) -> KernelText:
        """The code for these values; `how` is `backend` and `options`."""


class FrontEnd(Protocol):
    """What reads the texts of one notation."""

    comment: str
    """What begins a comment that ends with the line."""

    def check(self, source: Source) -> Iterable[str]:
        """The names of what the text defines, all of which is checked; warnings are said."""

    def format(self, source: Source) -> str:
        """The text in its standard layout."""

    def with_types(self, source: Source, entry: str | None, pairs: dict[str, str]) -> Source:
        """The text with types in the place of the type variables of a def: those of NAME=TYPE,
        which leave `pairs`, or those of files (Y10)."""

    def callee(self, source: Source, entry: str | None) -> Callee:
        """What `entry` names, or the only one."""


def front_end_of(file: str) -> FrontEnd:
    """The front end of the text in a file, by the suffix of its name."""
    found = (path for suffix, path in FRONT_ENDS.items() if file.endswith(suffix))
    module, _, name = next(found, TC).partition(":")
    return cast(FrontEnd, getattr(import_module(module), name)())
