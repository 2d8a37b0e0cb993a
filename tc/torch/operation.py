"""A program as an operation of torch: named by texts alone, so that graphs can carry it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import torch

from tc.errors import BackendError, InputError
from tc.function import Compiled, live_functions, rebuild
from tc.options import Options, options_json
from tc.runtime.arguments import were_given
from tc.semantics.suggest import counted
from tc.source import UNNAMED
from tc.torch.gradients import INPUT, Taken
from tc.torch.output_shapes import Expressions, expressions_of
from tc.torch.reverse import Differentiable, differentiable

_HOW = '{"backend": "numba"}'
_KEYS = {"backend", "check", "options", "numbers"}

Texts = tuple[str, str, str]
"""The program, the name of the def, and how it is compiled, with the inputs that are numbers."""


class TextOperation:
    """What the texts of an operation stand for; `numbers` are values of inputs by their places,
    `places` are those of the others."""

    def __init__(self, by: Differentiable, numbers: Mapping[int, int]) -> None:
        self.by = by
        self.function = by.function
        self.numbers = numbers
        self.places = [place for place in range(by.inputs) if place not in numbers]

    @cached_property
    def expressions(self) -> Expressions:
        """The shapes of results as expressions of the sizes."""
        return expressions_of(self.function.program)

    def values(self, tensors: Sequence[Any]) -> dict[Taken, Any]:
        """The tensors, by what they are to the function."""
        return {(INPUT, at): tensor for at, tensor in zip(self.places, tensors, strict=True)}

    def named(self, places: Iterable[int]) -> dict[str, int]:
        """The numbers among the inputs at these places, by name."""
        names = self.function.program.inputs
        return {names[at]: self.numbers[at] for at in places if at in self.numbers}

    def inputs(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """All inputs, of the tensors among them; InputError where these are too few or many."""
        if len(tensors) != len(self.places):
            signature = self.function.signature
            raise InputError(
                f"{signature.name} takes {counted(len(self.places), 'tensor')}, but "
                f"{were_given(len(tensors))}",
                repair=signature.call_text(),
            )
        if not self.numbers:
            return tuple(tensors)
        given = iter(tensors)
        places = range(self.by.inputs)
        return tuple(self.numbers[at] if at in self.numbers else next(given) for at in places)


def operator(tensors: Sequence[Any], texts: Texts) -> list[Any]:
    """The results of an operation by the operator, whatever torch does with them."""
    return torch.ops.tc.run(tensors, *texts)  # type: ignore[no-any-return]


def texts_of(function: Compiled, numbers: Mapping[str, int]) -> Texts:
    """The texts of a function, some of whose inputs are numbers."""
    return function.text, function.program.name, how_text(function.how, numbers)


def how_text(how: str, numbers: Mapping[str, int]) -> str:
    """How a function is compiled, with inputs that are numbers; this is followed by torch.compile.

    >>> how_text('{"backend": "numba"}', {"s": 2})
    '{"backend": "numba", "numbers": {"s": 2}}'
    """
    if not numbers:
        return how
    listed = ", ".join([f'"{name}": {number}' for name, number in numbers.items()])
    return f'{how[:-1]}, "numbers": {{{listed}}}}}'


@lru_cache(maxsize=256)
def operation_of(src: str, entry: str, how: str) -> TextOperation:
    """The operation of these texts: of a function that there is, or of one made here. ParseError,
    CheckError and BackendError for texts that are none."""
    read = options_json(how, repair=_HOW)
    if not isinstance(read, dict) or not {"backend"} <= {*read} <= _KEYS:
        raise BackendError(f"{how!r} does not say how a program is compiled", repair=_HOW)
    numbers = read.pop("numbers", {})
    plain = json.dumps(read)
    for function in live_functions():
        if (function.text, function.program.name, function.how) == (src, entry, plain):
            break
    else:
        options = Options.from_json(json.dumps(read.get("options", {})))
        function = rebuild(src, UNNAMED, entry, read["backend"], options, read.get("check"))
    names = function.program.inputs
    for name in numbers:
        if name not in names:
            call = function.signature.call_text()
            raise InputError(f"{entry} has no input {name!r}", repair=call)
    return TextOperation(
        differentiable(function), {names.index(name): number for name, number in numbers.items()}
    )


def run(operation: TextOperation, tensors: Sequence[Any]) -> list[Any]:
    """The results, of tensors that mean no more than their numbers."""
    plain = [
        tensor.as_subclass(torch.Tensor) if type(tensor) is not torch.Tensor else tensor
        for tensor in tensors
    ]
    return list(operation.by.run(operation.inputs(plain)))
