"""The operator of torch for all programs, `tc::run`: tensors in, tensors out, the program as text.

Graphs of torch.compile, and of torch.export, which may be stored, carry the text; where one is
loaded, `import tc.torch` is all that is needed.

A `TextOperation` is a program as an operation, named by texts alone. The rules by which torch
derives gradients, tangents and batches of `tc::run` have calls of `tc::run` as results, so that
transforms may be nested and derivatives be of any order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import torch

from tc.derivatives.gradients import COTANGENT, INPUT, Taken
from tc.derivatives.symbolic_sizes import Expressions, expressions_of
from tc.derivatives.text_functions import Texts, function_of, texts_of
from tc.errors import InputError
from tc.function import Compiled
from tc.runtime.arguments import NUMBERS, fault, were_given
from tc.runtime.arrays.family import type_name
from tc.torch.modes import (
    PRIVATE,
    TENSORS,
    SingleLevelFunction,
    as_around,
    batch_level,
    has_batch,
    has_numbers_alone,
    is_recorded,
    one_level,
    tangents_around,
    with_batch,
    without_batch,
    without_tangent,
)
from tc.torch.output_shapes import check_tensor, check_values, output_shapes, place_of, shapes_of
from tc.torch.reverse import Differentiable, differentiable, is_zero, zeros
from tc.wording import counted

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


def recorded(keys: Any, ins: list[Any], *texts: str) -> list[Any]:
    """The results of a call within one transform, recorded for gradients or computed with tangents
    where inputs ask for either."""
    if not is_recorded(ins) and has_numbers_alone(ins):
        return run(operation_of(*texts), ins)  # what is below would come to the same, later
    below = keys & PRIVATE.after_autograd

    def call(*tensors: Any) -> tuple[Any, ...]:
        with PRIVATE.below_autograd():
            return tuple(torch.ops.tc.run.default.redispatch(below, list(tensors), *texts))

    if not is_recorded(ins):
        return list(call(*ins))
    call = as_around(call)
    with one_level():
        operation = operation_of(*texts)
        return list(node_of(operation).apply(call, operation, *ins))


def node_of(operation: TextOperation) -> Any:
    """The class of a node, of the name of the def: torch calls nodes after their classes."""
    if operation.node is None:
        name = operation.function.program.name
        operation.node = type(name, (Recorded,), {"__module__": __name__})
    return operation.node


class Recorded(SingleLevelFunction):  # type: ignore[misc]  # torch has no types here
    """A call of the operator as a node of what autograd records, within one transform: from 2.14 on
    a `torch.autograd.Function` looks for all transforms itself."""

    @staticmethod
    def forward(call: Callable[..., Any], _operation: TextOperation, *ins: Any) -> Any:
        return call(*ins)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        _, operation, *ins = inputs
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(output[place] for place in operation.by.whole))
        ctx.save_for_forward(*ins)
        ctx.operation, gradients = operation, operation.by.gradients
        needed = zip(operation.places, ctx.needs_input_grad[2:], strict=True)
        wrt = tuple(place for place, need in needed if need)
        if not wrt or not gradients.floating:
            return
        ctx.gradient = gradients.of(wrt, operation.inputs(ins))
        values = operation.values(ins)
        kept = [taken for taken in ctx.gradient.kept if taken[0] != INPUT or taken in values]
        ctx.kept = kept
        ctx.save_for_backward(*(values[t] if t in values else output[t[1]] for t in kept))
        ctx.shapes = [(result.shape, result.dtype, result.device) for result in output]

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> tuple[Any, ...]:
        operation: TextOperation = ctx.operation
        gradients = operation.by.gradients
        unused = tuple(at for at in gradients.floating if is_zero(cotangents[at]))
        found: dict[int, Any] = {}
        if len(unused) < len(gradients.floating):
            values: dict[Taken, Any] = dict(zip(ctx.kept, ctx.saved_tensors, strict=True))
            for at in gradients.floating:
                is_unused = at in unused
                values[COTANGENT, at] = zeros(*ctx.shapes[at]) if is_unused else cotangents[at]
            gradient = gradients.without(ctx.gradient, unused)
            tensors = [values[taken] for taken in gradient.arguments if taken in values]
            numbers = operation.named(at for kind, at in gradient.arguments if kind == INPUT)
            results = operator(tensors, texts_of(gradient.function, numbers))
            found = dict(zip(gradient.wrt, results, strict=True))
        return (None, None, *(found.get(at) for at in operation.places))

    @staticmethod
    def jvp(ctx: Any, _call: None, _operation: None, *tangents: Any) -> tuple[Any, ...]:
        operation: TextOperation = ctx.operation
        pairs = zip(operation.places, tangents, strict=True)
        given = {place: tangent for place, tangent in pairs if not is_zero(tangent)}
        outputs = operation.function.program.outputs
        if not given or not operation.by.gradients.floating:
            return (None,) * len(outputs)
        derived = operation.by.derived.tangents(tuple(given))
        texts = texts_of(derived.function, operation.named(operation.numbers))
        with tangents_around():
            tensors = [*map(without_tangent, ctx.saved_tensors), *given.values()]
            return tuple(derived.of(operator(tensors, texts)))


# --- batches --------------------------------------------------------------------------------------


def of_batches(_info: Any, in_dims: Any, ins: list[Any], *texts: str) -> tuple[list[Any], Any]:
    """The results for a batch, and the dimension of the batch in each."""
    results, batched = _batch(operation_of(*texts), ins, in_dims[0])
    return results, [0 if one else None for one in batched]


def of_old_batches(ins: list[Any], *texts: str) -> list[Any]:
    """The same for the batches that autograd makes itself, as for `vectorize` and
    `is_grads_batched`: these are nested by levels."""
    level = batch_level()
    while not any(has_batch(tensor, level) for tensor in ins):
        level -= 1
    axes = [0 if has_batch(tensor, level) else None for tensor in ins]
    pairs = zip(ins, axes, strict=True)
    tensors = [t if axis is None else without_batch(t, level) for t, axis in pairs]
    results, batched = _batch(operation_of(*texts), tensors, axes)
    found = zip(results, batched, strict=True)
    return [with_batch(result, level) if one else result for result, one in found]


def _batch(
    operation: TextOperation, ins: Sequence[Any], axes: Sequence[int | None]
) -> tuple[list[Any], tuple[bool, ...]]:
    """The results, and which of them have the batch as their first dimension."""
    along = dict(zip(operation.places, axes, strict=True))
    derived = operation.by.derived.batched(tuple(map(along.get, range(operation.by.inputs))))
    derived.check(operation.values(ins))
    texts = texts_of(derived.function, operation.named(operation.numbers))
    return operator(ins, texts), derived.batched


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
