"""A program as an operation of torch, named by texts alone so that graphs can carry the name."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import torch

from tc.derivatives.gradients import INPUT, Taken
from tc.derivatives.symbolic_sizes import Expressions, expressions_of
from tc.derivatives.text_functions import Texts, function_of
from tc.errors import InputError
from tc.runtime.arguments import were_given
from tc.semantics.suggest import counted
from tc.torch.reverse import Differentiable, differentiable

_NAME = "tc.torch.operations"


class TextOperation:
    """What the texts of an operation stand for; `numbers` are values of inputs by their places,
    `places` are those of the others."""

    def __init__(self, by: Differentiable, numbers: Mapping[int, int]) -> None:
        self.by = by
        self.function = by.function
        self.numbers = numbers
        self.node: Any = None  # of what autograd records
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
            signature = self.function._signature
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


_KNOWN: WeakValueDictionary[Texts, TextOperation] = WeakValueDictionary()
"""The operations of living functions: an operation goes with its function, which alone holds it."""

_REBUILT: deque[TextOperation] = deque(maxlen=256)
"""The last operations whose functions were made of a graph's texts: nobody else holds these."""


def operation_of(*texts: str) -> TextOperation:
    """The operation of a program, the name of its def, and how it is compiled: of a function that
    there is, or of one made here. ParseError, CheckError and BackendError for texts that are
    none."""
    src, entry, how = texts
    key = (src, entry, how)
    found = _KNOWN.get(key)
    if found is None:
        function, numbers, is_new = function_of(*key)
        found = TextOperation(differentiable(function), numbers)
        found = function._framework_adapters.setdefault(_NAME, {}).setdefault(key, found)
        _KNOWN[key] = found
        if is_new:
            _REBUILT.append(found)
    return found


def run(operation: TextOperation, tensors: Sequence[Any]) -> list[Any]:
    """The results, of tensors that mean no more than their numbers."""
    plain = [
        tensor.as_subclass(torch.Tensor) if type(tensor) is not torch.Tensor else tensor
        for tensor in tensors
    ]
    return list(operation.by.run(operation.inputs(plain)))
