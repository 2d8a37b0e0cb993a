"""Texts of SaC on the command line: files whose suffix is `.sac`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tc import sac
from tc.backends.base import KernelText
from tc.cli.values import CallInput, array_of
from tc.dtypes import SPELLINGS
from tc.errors import InputError
from tc.explanation import Explanation
from tc.options import Options
from tc.sac import ast
from tc.sac.api import lowered_call
from tc.sac.names import check_names
from tc.sac.program import Program
from tc.sac.text.format import format_source
from tc.sac.text.parser import parse
from tc.semantics import program as p
from tc.source import Source


class SacTexts:
    """The front end of texts of SaC."""

    comment = "//"

    def check(self, source: Source) -> Iterable[str]:
        """The names of the functions, which are checked."""
        module = parse(source)
        check_names(module)
        return [definition.name.text for definition in module.definitions] or ["an expression"]

    def format(self, source: Source) -> str:
        """The text in its standard layout."""
        return format_source(source)

    def with_types(self, source: Source, entry: str | None, pairs: dict[str, str]) -> Source:  # noqa: ARG002
        """The text itself: functions of SaC's notation have no type variables."""
        return source

    def callee(self, source: Source, entry: str | None) -> SacFunction:
        """The function that `entry` names, or the only one, or the expression."""
        return SacFunction(Program.of(source, entry), entry)


class SacFunction:
    """A function of a text, or its expression, as what a command calls."""

    def __init__(self, program: Program, entry: str | None) -> None:
        self.program = program
        self.entry = entry
        self.source = program.module.source
        self.name = "the expression" if program.definition is None else program.name
        definition = program.definition
        declared = (
            {} if definition is None else {p.name.text: _declared(p) for p in definition.parameters}
        )
        self.inputs = {n: declared.get(n) or CallInput(n, None, None) for n in program.inputs}
        named = (size for i in self.inputs.values() for size in i.sizes or ())
        self.sizes = frozenset(size for size in named if isinstance(size, str))
        self.result_names = program.result_names
        self.call_text = f"{self.name}({', '.join(self.inputs)})"
        self.may_vary = False

    def pragma_range(self) -> tuple[int, int]:
        """The comments between a function and the one before it; all of an expression."""
        begin = 0
        for definition in self.program.module.definitions:
            if definition is self.program.definition:
                return begin, definition.span.start
            begin = definition.span.end
        return 0, len(self.source.text)

    def check_sizes(self, values: Mapping[str, Any]) -> None:
        for name, wanted in self.inputs.items():
            shape = np.shape(values[name]) if name in values else ()
            if wanted.sizes is None or len(shape) != wanted.rank:
                continue
            for axis, size in enumerate(wanted.sizes):
                if isinstance(size, str) and values.get(size, shape[axis]) != shape[axis]:
                    raise InputError(
                        f"{size}={values[size]}, and axis {axis} of {name} has {shape[axis]} "
                        "elements",
                        rule="C6",
                        span=wanted.span,
                        repair=f"{size}={shape[axis]}",
                    )

    def drawn(self, values: Mapping[str, Any], missing: Iterable[str], seed: int) -> dict[str, Any]:
        """Arrays as `random` gives them, of the declared sizes."""
        rng = np.random.default_rng(seed)
        sizes = {name: value for name, value in values.items() if name in self.sizes}
        return {name: array_of(self.inputs[name], "random", sizes, rng) for name in missing}

    def output(self, name: str, text: str, sizes: Mapping[str, int], seed: int) -> Any:  # noqa: ARG002
        raise InputError(
            f"{name} is new at each call: no program of SaC reads what a result held before",
            rule="C25",
            repair="leave out --outputs",
        )

    def output_shape(self, name: str, values: Mapping[str, Any]) -> tuple[int, ...]:  # noqa: ARG002
        return ()

    def blamed_input(self, cause: str) -> tuple[str | None, bool]:
        about = re.search(r"(?:input )?'(\w+)' (?:of '\w+' is declared|has|is) ", cause)
        return (about[1] if about and about[1] in self.inputs else None), False

    def compiled(self, backend: str, options: Options | None, **how: Any) -> Any:  # noqa: ARG002  # none for SaC
        return sac.compile(self.source, entry=self.entry, backend=backend, options=options)

    def lowered(self, values: Mapping[str, Any]) -> tuple[p.Program, Any]:
        compiled, arrays = lowered_call(self.source, self.entry, self._given(values))
        return compiled.program, dict(zip(compiled.program.inputs, arrays, strict=True))

    def explain(self, values: Mapping[str, Any], **how: Any) -> Explanation:
        return sac.explain(self.source, self._given(values), entry=self.entry, **how)

    def emit(self, values: Mapping[str, Any], **how: Any) -> KernelText:
        return sac.emit(self.source, self._given(values), entry=self.entry, **how)

    def _given(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of inputs; those that are missing are drawn where their sizes are known."""
        missing = [
            name
            for name, wanted in self.inputs.items()
            if name not in values
            and wanted.sizes is not None
            and all(isinstance(size, int) or size in values for size in wanted.sizes)
        ]
        given = {name: value for name, value in values.items() if name in self.inputs}
        return given | self.drawn(values, missing, 0)


def _declared(parameter: ast.Parameter) -> CallInput:
    declared = parameter.type
    name, dtype = parameter.name.text, SPELLINGS[declared.element]
    return CallInput(name, dtype, _sizes(declared), parameter.span)


def _sizes(declared: ast.Type) -> tuple[int | str | None, ...] | None:
    """The sizes of a declared type, None where its rank is open."""
    if isinstance(declared.sizes, str):
        return None
    found: list[int | str | None] = []
    for size in declared.sizes:
        match size:
            case ast.Size(count=int(count), name=None):
                found.append(count)
            case ast.Size(count=int(count)):
                found += [None] * count
            case ast.Size(count=ast.Name(text=text), name=None):
                found.append(text)
            case ast.Size(count=None):
                found.append(None)
            case _:
                return None
    return tuple(found)
