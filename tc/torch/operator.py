"""The operator of torch for all programs, `tc::run`: tensors in, tensors out, the program as text.

Graphs of torch.compile, and of torch.export, which may be stored, carry the text; where one is
loaded, `import tc.torch` is all that is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tc.errors import InputError
from tc.function import Compiled
from tc.runtime.arguments import NUMBERS
from tc.torch.gradients import COTANGENT, INPUT
from tc.torch.modes import has_tangent
from tc.torch.operation import TextOperation, Texts, operation_of, run, texts_of
from tc.torch.output_shapes import check_tensor, output_shapes, shapes_of
from tc.torch.reverse import zeros

NAME = "tc::run"

_LIBRARY = torch.library.Library("tc", "DEF")
_LIBRARY.define(
    "run(Tensor[] ins, str src, str entry, str options) -> Tensor[]",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def operator(tensors: Sequence[Any], texts: Texts) -> list[Any]:
    """The results of an operation, whatever torch does with them."""
    return torch.ops.tc.run(tensors, *texts)  # type: ignore[no-any-return]


def by_operator(function: Compiled, inputs: Sequence[Any]) -> list[Any]:
    """The results of a function, whatever torch does with tensors."""
    tensors, numbers = [], {}
    for parameter, value in zip(function.signature.inputs, inputs, strict=True):
        if isinstance(value, NUMBERS) and parameter.rank == 0:
            if parameter.static:
                numbers[parameter.name] = int(value)
                continue
            value = torch.full((), value, dtype=_dtype(parameter.dtype.name))
        tensors.append(value)
    return operator(tensors, texts_of(function, numbers))


def _run(ins: list[Any], src: str, entry: str, options: str) -> list[Any]:
    operation = operation_of(src, entry, options)
    for tensor in ins:
        if has_tangent(tensor):
            raise InputError(
                f"{entry}: an input carries a tangent of forward mode, which the operator "
                f"{NAME} has no rule for",
                repair="torch.func.jvp of the function itself, without torch.compile",
            )
    return run(operation, ins)


def _fake(ins: list[Any], src: str, entry: str, options: str) -> list[Any]:
    """Results without values, of inputs without values."""
    operation = operation_of(src, entry, options)
    program, signature = operation.function.program, operation.function.signature
    places, _ = operation.places, operation.inputs(ins)
    for place, tensor in zip(places, ins, strict=True):
        check_tensor(signature.inputs[place], tensor)
    scalars = {program.inputs[at]: number for at, number in operation.numbers.items()}
    for name in program.static_scalars - scalars.keys():
        raise InputError(
            f"{entry}: {name} is traced by torch, but shapes follow from its value",
            repair=f"a number for {name}",
        )
    shapes = shapes_of([program.inputs[place] for place in places], ins)
    shapes |= dict.fromkeys(scalars, ())
    found = output_shapes(program, lambda: operation.expressions, shapes, scalars)
    device = ins[0].device if ins else torch.device("cpu")
    return [
        torch.empty(shape, dtype=_dtype(program.tensors[name].dtype.name), device=device)
        for name, shape in zip(program.outputs, found, strict=True)
    ]


def _dtype(name: str) -> Any:
    return getattr(torch, name)


# --- gradients ----------------------------------------------------------------------------------


def _keep(ctx: Any, inputs: tuple[Any, ...], output: list[Any]) -> None:
    ins, *texts = inputs
    operation = operation_of(*texts)
    places, gradients = operation.places, operation.by.gradients
    needed = ctx.needs_input_grad[: len(ins)]
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*(output[place] for place in operation.by.whole))
    ctx.operation = operation
    if not gradients.floating:
        return
    wrt = tuple(at for at, need in zip(places, needed, strict=True) if need)
    ctx.gradient = gradients.of(wrt, operation.inputs(ins))
    tensors = dict(zip(places, ins, strict=True))
    ctx.kept = [(kind, at) for kind, at in ctx.gradient.kept if kind != INPUT or at in tensors]
    ctx.save_for_backward(*(tensors[at] if kind == INPUT else output[at] for kind, at in ctx.kept))
    ctx.shapes = [(result.shape, result.dtype, result.device) for result in output]


def _backward(ctx: Any, cotangents: list[Any]) -> Any:
    operation: TextOperation = ctx.operation
    gradients, names = operation.by.gradients, operation.function.program.inputs
    unused = tuple(at for at in gradients.floating if cotangents[at] is None)
    found: dict[int, Any] = {}
    if len(unused) < len(gradients.floating):
        values = dict(zip(ctx.kept, ctx.saved_tensors, strict=True))
        for at in gradients.floating:
            cotangent = cotangents[at]
            values[COTANGENT, at] = zeros(*ctx.shapes[at]) if cotangent is None else cotangent
        gradient = gradients.without(ctx.gradient, unused)
        tensors = [values[taken] for taken in gradient.arguments if taken in values]
        numbers = {
            names[at]: operation.numbers[at]
            for kind, at in gradient.arguments
            if kind == INPUT and at in operation.numbers
        }
        results = operator(tensors, texts_of(gradient.function, numbers))
        found = dict(zip(gradient.wrt, results, strict=True))
    return [found.get(at) for at in operation.places], None, None, None


_LIBRARY.impl("run", _run, "CompositeExplicitAutograd")
torch.library.register_fake(NAME, _fake, lib=_LIBRARY)
torch.library.register_autograd(NAME, _backward, setup_context=_keep, lib=_LIBRARY)
