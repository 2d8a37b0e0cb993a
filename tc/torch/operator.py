"""The operator of torch for all programs, `tc::run`: tensors in, tensors out, the program as text.

Graphs of torch.compile, and of torch.export, which may be stored, carry the text; where one is
loaded, `import tc.torch` is all that is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tc.derivatives.text_functions import texts_of
from tc.errors import InputError
from tc.function import Compiled
from tc.runtime.arguments import NUMBERS, fault
from tc.runtime.arrays.family import type_name
from tc.torch.modes import TENSORS
from tc.torch.operation import operation_of, operator, run
from tc.torch.operator_rules import of_batches, of_old_batches, recorded
from tc.torch.output_shapes import (
    check_tensor,
    check_values,
    output_shapes,
    place_of,
    shapes_of,
)

NAME = "tc::run"

_LIBRARY = torch.library.Library("tc", "DEF")
_LIBRARY.define(
    "run(Tensor[] ins, str src, str entry, str options) -> Tensor[]",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def by_operator(function: Compiled, inputs: Sequence[Any]) -> list[Any]:
    """The results of a function, whatever torch does with tensors."""
    tensors, numbers = [], {}
    for parameter, value in zip(function._signature.inputs, inputs, strict=True):
        if isinstance(value, NUMBERS) and parameter.rank == 0:
            if parameter.static:
                numbers[parameter.name] = int(value)
                continue
            value = torch.full((), value, dtype=_dtype(parameter.dtype.name))
        elif not isinstance(value, TENSORS):
            cause = (
                f"is of {type_name(type(value))}, beside tensors that torch transforms or traces"
            )
            kind = "the arrays of a call are of one kind"
            raise fault(parameter, f"{cause}: {kind}", "torch.as_tensor({name})")
        tensors.append(value)
    return operator(tensors, texts_of(function, numbers))


def _run(ins: list[Any], src: str, entry: str, options: str) -> list[Any]:
    return run(operation_of(src, entry, options), ins)


def _fake(ins: list[Any], src: str, entry: str, options: str) -> list[Any]:
    """Results without values, of inputs without values."""
    operation = operation_of(src, entry, options)
    program, signature = operation.function.program, operation.function._signature
    places, _ = operation.places, operation.inputs(ins)
    for place, tensor in zip(places, ins, strict=True):
        check_tensor(signature.inputs[place], tensor)
    check_values([signature.inputs[place] for place in places], ins)
    scalars = {program.inputs[at]: number for at, number in operation.numbers.items()}
    for name in program.static_scalars - scalars.keys():
        raise InputError(
            f"{entry}: {name} is traced by torch, but shapes follow from its value",
            repair=f"int({name}), outside of what torch traces",
        )
    shapes = shapes_of([program.inputs[place] for place in places], ins)
    shapes |= dict.fromkeys(scalars, ())
    found = output_shapes(program, lambda: operation.expressions, shapes, scalars)
    device = place_of(ins)
    return [
        torch.empty(shape, dtype=_dtype(program.tensors[name].dtype.name), device=device)
        for name, shape in zip(program.outputs, found, strict=True)
    ]


def _dtype(name: str) -> Any:
    return getattr(torch, name)


_LIBRARY.impl("run", _run, "CompositeExplicitAutograd")
_LIBRARY.impl("run", recorded, "Autograd", with_keyset=True)
_LIBRARY.impl("run", of_old_batches, "Batched")
torch.library.register_fake(NAME, _fake, lib=_LIBRARY)
torch.library.register_vmap(NAME, of_batches, lib=_LIBRARY)
