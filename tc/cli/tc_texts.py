"""Texts of tc on the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tc import api
from tc.backends.base import KernelText
from tc.cli.shell_hints import in_shell_words
from tc.cli.terminal import say
from tc.cli.values import CallInput, array_of, dtype_of, number_of
from tc.derivatives.generic import generic_entry, with_types
from tc.errors import TCError
from tc.explanation import Explanation
from tc.frontend import ast
from tc.frontend.format import format_source
from tc.options import Options
from tc.pipeline import check_defs, check_module, parse_source, shape_program
from tc.runtime.arguments import read_number, signature_of
from tc.runtime.sizes import resolve_sizes
from tc.semantics.check.generic import combinations, types_needed, types_of_inputs
from tc.semantics.program import Literal, Program, Size, Tensor
from tc.source import Source
from tc.tuning.measuring.references import SIGNED, drawn_inputs


class TcTexts:
    """The front end of texts of tc."""

    comment = "#"

    def check(self, source: Source) -> Iterable[str]:
        """The names of the defs, which are checked."""
        programs = check_defs(parse_source(source))
        for program in programs.values():
            for warning in program.warnings:
                say(in_shell_words(warning.text))
        return programs

    def format(self, source: Source) -> str:
        """The text in its standard layout."""
        return format_source(source)

    def with_types(self, source: Source, entry: str | None, pairs: dict[str, str]) -> Source:
        """The text with types in the place of the type variables of a def: those of NAME=TYPE,
        which leave `pairs`, or those of files (Y10)."""
        definition = generic_entry(source, entry)
        if definition is None:
            return source
        names = [variable.name.text for variable in definition.variables]
        types: Mapping[str, str] = {name: pairs.pop(name) for name in names if name in pairs}
        if not types:
            params = [param.name.text for param in definition.params]
            dtypes = {name: dtype_of(text) for name, text in pairs.items() if name in params}
            if not any(dtypes.values()):
                chosen = next(iter(combinations(definition)))
                pasted = " ".join(f"{name}={spelling}" for name, spelling in chosen.items())
                raise types_needed(definition, repair=pasted)
            types = types_of_inputs(definition, dtypes)
        return with_types(source, definition, types)

    def callee(self, source: Source, entry: str | None) -> Def:
        """The def that `entry` names, or the only one."""
        module = parse_source(source)
        return Def(check_module(module, entry), module, entry)


class Def:
    """A def of a text as what a command calls."""

    def __init__(self, program: Program, module: ast.Module, entry: str | None) -> None:
        self.program = program
        self.module = module
        self.entry = entry
        self.source = program.source
        self.name = program.name
        self.inputs = {name: call_input(program.tensors[name]) for name in program.inputs}
        self.sizes = frozenset(name for name in program.sizes if "." not in name)
        self.result_names = tuple(program.outputs)
        self.call_text = signature_of(program).call_text()
        self.may_vary = True

    def pragma_range(self) -> tuple[int, int]:
        """The comments between a def and the one before it."""
        begin = 0
        for definition in self.module.defs:
            if definition.name.text == self.name:
                return begin, definition.span.start
            begin = definition.span.end
        return begin, begin

    def check_sizes(self, values: Mapping[str, Any]) -> None:
        if set(self.inputs) <= set(values):
            resolve_sizes(self.program, values)

    def drawn(self, values: Mapping[str, Any], missing: Iterable[str], seed: int) -> dict[str, Any]:
        """Integers that say where to read stay within what is read."""
        shaped = shape_program(self.program, resolve_sizes(self.program, values))
        return drawn_inputs(shaped, SIGNED, seed, tuple(missing))

    def output(self, name: str, text: str, sizes: Mapping[str, int], seed: int) -> Any:
        number = number_of(text)
        if number is None:
            wanted = call_input(self.program.tensors[name])
            return array_of(wanted, text, sizes, np.random.default_rng(seed))
        parameters = {p.name: p for p in signature_of(self.program).outputs}
        return read_number(parameters[name], number)

    def output_shape(self, name: str, values: Mapping[str, Any]) -> tuple[int, ...]:
        try:
            shaped = shape_program(self.program, resolve_sizes(self.program, values))
        except TCError:
            return ()
        return shaped.shapes.get(name, ())

    def blamed_input(self, cause: str) -> tuple[str | None, bool]:
        about = re.search(rf": {re.escape(self.name)}: (\w+) (in outputs= )?(?:has|is) ", cause)
        return (about[1], bool(about[2])) if about else (None, False)

    def compiled(self, backend: str, options: Options | None, **how: Any) -> Any:
        return api.compile(self.source, entry=self.entry, backend=backend, options=options, **how)

    def lowered(self, values: Mapping[str, Any]) -> tuple[Program, Any]:
        return self.program, values

    def explain(self, values: Mapping[str, Any], **how: Any) -> Explanation:
        return api.explain(self.source, values, entry=self.entry, **how)

    def emit(self, values: Mapping[str, Any], **how: Any) -> KernelText:
        return api.emit(self.source, values, entry=self.entry, **how)


def call_input(tensor: Tensor) -> CallInput:
    """A tensor of a def as the command line sees it."""
    sizes = tuple(_size(dim) for dim in tensor.shape or ())
    if tensor.shape is None:
        sizes = (None,) * tensor.rank
    return CallInput(tensor.name, tensor.dtype, sizes, tensor.span)


def _size(dim: object) -> int | str | None:
    match dim:
        case Literal(value=value):
            return int(value)
        case Size(name=name):
            return name
        case _:
            return None
