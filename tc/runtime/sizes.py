"""The sizes of a call, from arrays, shapes or plain numbers, whichever the caller has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tc.errors import InputError
from tc.kernel.ir import row_major
from tc.runtime import arguments
from tc.runtime.arguments import NUMBERS, Parameter, Signature, fault, is_collection
from tc.runtime.arrays.device_array import DeviceArray, DeviceLocation
from tc.runtime.arrays.family import Family, same_family
from tc.semantics.program import Expr, Literal, Program, Size
from tc.wording import counted, nearest

EXAMPLE_SIZE = 64


@dataclass(frozen=True)
class CallSizes:
    """What range inference needs to know of a call, and what else its arrays tell.

    `shapes` of all inputs (rank 0: ()), `scalars` the values of the static scalars, `strides` in
    bytes of those inputs that were given as arrays. These are of the `library`, and `place` is
    where the first on a device lies, None where all are in the memory of the processor.
    """

    shapes: Mapping[str, tuple[int, ...]]
    scalars: Mapping[str, int]
    strides: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    place: DeviceLocation | None = None
    library: str | None = None
    outputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The shapes of those outputs that were passed whose arrays may say them."""


@dataclass
class _Known:
    """What has been gathered so far."""

    sizes: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    scalars: dict[str, int] = field(default_factory=dict)
    strides: dict[str, tuple[int, ...]] = field(default_factory=dict)
    family: tuple[str, Family, Any] | None = None
    place: DeviceLocation | None = None


def resolve_sizes(program: Program, inputs_or_sizes: object) -> CallSizes:
    """The sizes of a call from a sequence of inputs or a mapping by name.

    A sequence has one entry per input: an array, a number, or the shape as a tuple. The keys of a
    mapping are inputs (an array, a number, or a shape) and sizes (an integer); what follows from
    the others may be left out. Where a size and a tensor have one name (N1), an integer is the
    size. Raises InputError where something is missing, unknown, or disagrees.
    """
    signature = arguments.signature_of(program)
    known = _Known()
    if isinstance(inputs_or_sizes, Mapping):
        for name, value in inputs_or_sizes.items():
            _take_named(signature, name, value, known)
    elif arguments.is_sequence(inputs_or_sizes):
        if len(inputs_or_sizes) != len(signature.inputs):
            raise InputError(
                f"{program.name} takes {counted(len(signature.inputs), 'input')}, but "
                f"{arguments.were_given(len(inputs_or_sizes))}",
                repair=f"{signature.call_text()}, or its sizes by name: {_example(program, known)}",
            )
        for parameter, value in zip(signature.inputs, inputs_or_sizes, strict=True):
            _take_input(parameter, value, known)
    else:
        raise InputError(
            f"{program.name}: inputs or sizes come as a list, a tuple or a dict by name, and not "
            f"as {type(inputs_or_sizes).__name__}",
            repair=_example(program, known),
        )
    given = dict(known.sizes)
    _read_sizes_from_shapes(program, known)
    for name, size in given.items():
        _check_size(program, name, size, known)
    _fill_shapes(program, known)
    _check_complete(program, known)
    shapes = {name: known.shapes.get(name, ()) for name in program.inputs}
    scalars = {name: known.scalars[name] for name in program.static_scalars}
    library = known.family[1].name if known.family else None
    outputs = _outputs_of_sizes(program, known)
    return CallSizes(shapes, scalars, known.strides, known.place, library, outputs)


def _outputs_of_sizes(program: Program, known: _Known) -> dict[str, tuple[int, ...]]:
    """The shapes of outputs with sizes of their own, where sizes were given by name."""
    outputs = {}
    for name in program.open_outputs:
        dims = program.tensors[name].shape
        values = [
            known.sizes.get(d.name) if isinstance(d, Size) else getattr(d, "value", None)
            for d in dims or ()
        ]
        if dims and None not in values:
            outputs[name] = tuple(int(value) for value in values if value is not None)
    return outputs


def _take_named(signature: Signature, name: object, value: Any, known: _Known) -> None:
    parameter = next((p for p in signature.inputs if p.name == name), None)
    is_number = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if name in signature.sizes and (parameter is None or (is_number and parameter.rank)):
        if not is_number or value < 0:
            raise InputError(
                f"{signature.name}: the size {name} is {arguments.short(value)}, but sizes are "
                "integers of at least 0",
                repair=f"{name}={_whole(value)}",
            )
        known.sizes[str(name)] = int(value)
    elif parameter is not None:
        _take_input(parameter, value, known)
    else:
        names = [*(p.name for p in signature.inputs), *sorted(signature.sizes)]
        known_names = ", ".join(names) or "none"
        close = nearest(name, names) if isinstance(name, str) else None
        raise InputError(
            f"{signature.name} has no input or size {name!r}; there are {known_names}",
            repair=f"{close}=..." if close else None,
        )


def _take_input(parameter: Parameter, value: Any, known: _Known) -> None:
    name = parameter.name
    view: Any
    if isinstance(value, tuple):
        known.shapes[name] = _shape(parameter, value)
        return
    if isinstance(value, NUMBERS) and parameter.rank == 0:
        view = arguments.read_number(parameter, value)
    else:
        family, view = arguments.view_of(parameter, value, measured=parameter.rank > 0)
        if view.dtype != parameter.numpy or view.ndim != parameter.rank:
            view = arguments.read_other(parameter, view, family)
        if known.family is not None and not same_family(known.family[1], family):
            raise arguments.mixed_kinds(parameter, family, view, *known.family)
        known.family = name, family, value
        if parameter.static and type(view) is DeviceArray:
            arguments.check_on_device(parameter, view, family, devices=True)
        known.strides[name] = view.strides
        if type(view) is DeviceArray and known.place is None:
            known.place = view.place
    known.shapes[name] = view.shape
    if parameter.static:
        known.scalars[name] = int(view)


def _whole(value: object) -> int:
    """The size that a float such as 3.0 stands for; an example where the value stands for none."""
    if isinstance(value, float | np.floating) and value >= 0 and float(value).is_integer():
        return int(value)
    return EXAMPLE_SIZE


def _shape(parameter: Parameter, value: tuple[Any, ...]) -> tuple[int, ...]:
    integers = [isinstance(n, int | np.integer) and not isinstance(n, bool) for n in value]
    if len(value) != parameter.rank or not all(integers) or any(n < 0 for n in value):
        raise fault(
            parameter,
            f"has the shape {value!r}, but {parameter.text} asks for "
            f"{counted(parameter.rank, 'size')} of at least 0",
            f"{(EXAMPLE_SIZE,) * parameter.rank}",
        )
    return tuple(int(n) for n in value)


def _read_sizes_from_shapes(program: Program, known: _Known) -> None:
    for name, size in program.sizes.items():
        for extent in size.extents:
            if name not in known.sizes and extent.tensor in known.shapes:
                known.sizes[name] = known.shapes[extent.tensor][extent.axis]


def _check_size(program: Program, name: str, size: int, known: _Known) -> None:
    """A size that was given agrees with every array and shape that was given."""
    for extent in program.sizes[name].extents:
        actual = known.shapes.get(extent.tensor)
        if actual is not None and actual[extent.axis] != size:
            raise InputError(
                f"{program.name}: the size {name} is given as {size}, but dimension {extent.axis} "
                f"of {extent.tensor} is {actual[extent.axis]}",
                rule="T4",
                span=program.tensors[extent.tensor].span,
                repair=f"{name}={actual[extent.axis]}",
            )


def _fill_shapes(program: Program, known: _Known) -> None:
    for name in program.inputs:
        dims = [_dim(dim, known) for dim in program.tensors[name].shape or ()]
        if name not in known.shapes and program.tensors[name].rank == len(dims):
            shape = tuple(d for d in dims if d is not None)
            if len(shape) == len(dims):
                known.shapes[name] = shape


def _dim(dim: Expr, known: _Known) -> int | None:
    match dim:
        case Literal(value=value):
            return int(value)
        case Size(name=name):
            return known.sizes.get(name)
        case _:
            return None


def _check_complete(program: Program, known: _Known) -> None:
    lacking = [
        dim.name
        for name in program.inputs
        if name not in known.shapes
        for dim in program.tensors[name].shape or ()
        if isinstance(dim, Size) and dim.name not in known.sizes
    ]
    lacking += [
        name for name in program.inputs if name in program.static_scalars - set(known.scalars)
    ]
    missing = list(dict.fromkeys(lacking))
    if missing:
        raise InputError(
            f"{program.name}: {', '.join(missing)} {'does' if len(missing) == 1 else 'do'} not "
            "follow from what was given",
            repair=_example(program, known),
        )


def _example(program: Program, known: _Known) -> str:
    """All sizes and static scalars as a dict to paste, those known with their values."""
    sizes = {name: known.sizes.get(name, EXAMPLE_SIZE) for name in program.sizes if "." not in name}
    scalars = {
        name: known.scalars.get(name, 1)
        for name in program.inputs
        if name in program.static_scalars
    }
    pairs = ", ".join(f'"{name}": {value}' for name, value in (sizes | scalars).items())
    return f"{{{pairs}}}"


def as_collection(
    signature: Signature, inputs: tuple[Any, ...], named: Mapping[str, Any]
) -> object:
    """`f.infer(A, B)`, `f.infer([A, B])`, `f.infer(A, N=3)` and `f.infer({"N": 3})` as one
    sequence or mapping."""
    if len(inputs) == 1 and is_collection(signature, inputs[0]):
        only = inputs[0]
        if isinstance(only, Mapping):
            return {**only, **named}
        inputs = tuple(only)
    if not named or len(inputs) > len(signature.inputs):
        return inputs
    for parameter in signature.inputs[: len(inputs)]:
        if parameter.name in named:
            raise arguments.given_twice(parameter)
    places = {p.name: v for p, v in zip(signature.inputs, inputs, strict=False)}
    return {**places, **named}


def sizes_of_arrays(program: Program, arrays: Mapping[str, np.ndarray]) -> CallSizes:
    """The sizes of a call whose inputs are all there and have been checked."""
    shapes = {name: array.shape for name, array in arrays.items()}
    scalars = {name: int(arrays[name]) for name in program.static_scalars}
    strides = {name: array.strides for name, array in arrays.items()}
    return CallSizes(shapes, scalars, strides)


def specialisation_key(program: Program, sizes: CallSizes) -> tuple[Any, ...]:
    """The key that `read_inputs` gives arrays of these sizes."""
    key: list[Any] = []
    for name in program.inputs:
        tensor = program.tensors[name]
        if tensor.rank:
            shape = sizes.shapes[name]
            normal = tuple(step * tensor.dtype.bytes for step in row_major(shape))
            key += [shape, sizes.strides.get(name, normal)]
        elif name in program.static_scalars:
            key.append(sizes.scalars[name])
    return tuple(key)


def output_shapes(program: Program, targets: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays that a caller passes for outputs whose shapes these may say."""
    open_ = program.open_outputs
    return {n: tuple(array.shape) for n, array in targets.items() if n in open_} if open_ else {}
