"""Where results go: arrays that the caller passes as outputs= (R4), or fresh ones.

Everything is checked before anything is written. The arrays given are those returned.
"""

from __future__ import annotations

import keyword
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tc.errors import InputError
from tc.runtime.arguments import (
    Parameter,
    Signature,
    check_on_device,
    dtype_text,
    fault,
    is_sequence,
    mixed_kinds,
    on_place,
)
from tc.runtime.arrays import NUMPY, family_of, overlaps, overlaps_on_device
from tc.runtime.arrays.device_array import DeviceArray
from tc.runtime.arrays.encoded_arrays import as_bits
from tc.runtime.arrays.family import Family, Refusal, same_family
from tc.semantics.program import Program, Read, walk
from tc.source import Span
from tc.wording import counted, nearest


def bind_outputs(signature: Signature, outputs: object) -> dict[str, Any]:
    """What was passed as outputs=, by name: a sequence in return order, a dict by name of some or
    all, or the array of a single output (R4)."""
    parameters = signature.outputs
    if type(outputs) is np.ndarray and len(parameters) == 1:  # asking a type is faster
        return {parameters[0].name: outputs}
    names = [p.name for p in parameters]
    if isinstance(outputs, Mapping):
        for name in outputs:
            if name not in names:
                close = nearest(name, names) if isinstance(name, str) else None
                raise InputError(
                    f"{signature.name} has no output {name!r}; it returns {', '.join(names)}",
                    repair=f'outputs={{"{close or names[0]}": ...}}',
                )
        return dict(outputs)
    given: Sequence[Any] = outputs if is_sequence(outputs) else [outputs]
    if len(given) != len(names):
        what = f"has {len(given)}" if given is outputs else f"is one {type(outputs).__name__}"
        raise InputError(
            f"{signature.name} returns {counted(len(names), 'output')} ({', '.join(names)}), "
            f"but outputs= {what}",
            rule="R4",
            repair=f"outputs=({', '.join(names)})",
        )
    return dict(zip(names, given, strict=True))


def view_outputs(
    signature: Signature,
    given: Mapping[str, Any],
    inputs: Sequence[Any],
    family: Family,
    like: Any,
    *,
    devices: bool = False,
) -> tuple[dict[str, Any], Family, Any]:
    """The given outputs as numpy arrays, with the family and an array of it; these are the
    outputs' own where no input is an array (`like` is None). `inputs` are as the caller gave
    them; with `devices` outputs that lie on one come as `DeviceArray`, and are refused
    otherwise."""
    views: dict[str, Any] = {}
    view: Any
    for parameter in signature.outputs:
        name = parameter.name
        if name not in given:
            continue
        value = given[name]
        if type(value) is np.ndarray:
            view, found = value, NUMPY
        else:
            try:
                found = family_of(value)
                view = found.target(value)
            except Refusal as refusal:
                raise fault(
                    parameter, f"in outputs= {refusal.cause}", refusal.repair, "R4"
                ) from None
        if like is None:
            family, like = found, value
        elif found is not family and not same_family(found, family):
            first = _name_of(like, signature, inputs, given)
            raise mixed_kinds(parameter, found, view, first, family, like)
        if type(view) is DeviceArray and not devices:
            check_on_device(parameter, view, found, devices=False)
        views[name] = as_bits(view)
    return views, family, like


def check_outputs(
    signature: Signature,
    targets: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    inputs: Sequence[Any],
    family: Family,
) -> None:
    """The arrays can be written to: type, shape, layout, and memory shared with no other."""
    for parameter in signature.outputs:
        target = targets.get(parameter.name)
        if target is None:
            continue
        shape = shapes[parameter.name]
        on_device = type(target) is DeviceArray
        plain = target.plain if on_device else target.flags.carray
        if target.dtype != parameter.numpy or target.shape != shape or not plain:
            sizes = _sizes(signature, inputs)
            raise _unfit(parameter, target, shape, family, sizes)
        shares: Callable[[Any, Any], bool] = overlaps_on_device if on_device else overlaps
        for other, array in zip(signature.inputs, inputs, strict=True):
            if shares(target, array):
                raise _shared(parameter, target, f"the input {other.name}", shape, family)
    if len(targets) > 1:
        names = list(targets)
        for position, name in enumerate(names):
            for other_name in names[:position]:
                if shares(targets[name], targets[other_name]):
                    parameter = next(p for p in signature.outputs if p.name == name)
                    other_text = f"the output {other_name}"
                    raise _shared(parameter, targets[name], other_text, shapes[name], family)


def _sizes(signature: Signature, inputs: Sequence[Any]) -> dict[int, str]:
    """The sizes of the inputs by their values, the first one of each."""
    found: dict[int, str] = {}
    for parameter, array in zip(signature.inputs, inputs, strict=True):
        names = [name.strip() for name in parameter.dims.split(",")]
        for name, extent in zip(names, array.shape, strict=False):
            if name in signature.sizes:
                found.setdefault(int(extent), name)
    return found


def _unfit(
    parameter: Parameter,
    target: Any,
    shape: tuple[int, ...],
    family: Family,
    sizes: Mapping[int, str],
) -> InputError:
    on_device = type(target) is DeviceArray
    if target.dtype != parameter.numpy:
        cause = f"has dtype {dtype_text(target.dtype)}, but the output has dtype {parameter.dtype}"
    elif target.shape != shape:
        cause = f"has shape {target.shape}, but the output has shape {shape}"
    elif not (target.writable if on_device else target.flags.writeable):
        cause = "is read-only"
    elif not (target.row_major if on_device else target.flags.c_contiguous):
        cause = f"has strides {target.strides} in bytes, but outputs are row-major (N2)"
    else:
        cause = "is not aligned to its element type"
    repair = _fresh(family, target, shape)
    if repair is not None and target.dtype == parameter.numpy:
        repair = _declared(parameter, target.shape, shape, sizes) + repair
    return fault(parameter, f"in outputs= {cause}", repair, "R4")


def _declared(
    parameter: Parameter,
    given: tuple[int, ...],
    shape: tuple[int, ...],
    sizes: Mapping[int, str],
) -> str:
    """The declaration of an output that statements write in part, where what the caller passes is
    larger and has sizes of the inputs; nothing otherwise."""
    dims = [sizes[extent] for extent in given if extent in sizes]
    is_part = len(given) == len(shape) and all(n <= m for n, m in zip(shape, given, strict=True))
    if parameter.dims or given == shape or not is_part or len(dims) < len(given):
        return ""
    text = f"{parameter.dtype}({','.join(dims)}) {parameter.name}"
    return f"-> ({text}), where statements write a part of it; otherwise "


def _shared(
    parameter: Parameter, target: Any, other: str, shape: tuple[int, ...], family: Family
) -> InputError:
    cause = f"in outputs= shares memory with {other}"
    return fault(parameter, cause, _fresh(family, target, shape), "R4")


def _fresh(family: Family, target: Any, shape: tuple[int, ...]) -> str | None:
    """How a user makes an array of that shape where the target lies."""
    text: str | None = family.fresh
    if type(target) is DeviceArray:
        text = on_place(family.devices.fresh, target.place, "")
    return text and text.replace("{shape}", str(shape))


def _name_of(
    array: Any, signature: Signature, inputs: Sequence[Any], given: Mapping[str, Any]
) -> str:
    pairs = [*zip((p.name for p in signature.inputs), inputs, strict=True), *given.items()]
    return next(name for name, value in pairs if value is array)


def check_initial(program: Program, given: frozenset[str]) -> None:
    """R4: outputs that are read before they are defined have been passed."""
    for name, span in program.needs_initial.items():
        if name not in given:
            raise InputError(
                f"{program.name}: {name} is read before any statement defines it, so its first "
                "values must be passed",
                rule="R4",
                span=span,
                repair=None if _recurs(program, name, span) else f'outputs={{"{name}": {name}}}',
                idiom=_NO_RECURRENCE if _recurs(program, name, span) else None,
            )


_NO_RECURRENCE = (
    "there are no recurrences: a statement reads all before it writes any; a running sum is "
    "o(i) +=! x(j) where j in 0:i + 1; to read what a tensor held: o_old(i) = o(i), before it"
)


def _recurs(program: Program, name: str, span: Span) -> bool:
    """Whether the statement that defines a tensor reads it there at another place, as in
    `o(i) = o(i-1) + x(i)`: its values are meant to be computed, and not to be passed."""
    return any(
        read.span == span and read.tensor == name and read.subscripts != statement.subscripts
        for statement in program.statements
        if statement.target == name
        for read in walk(statement.rhs)
        if isinstance(read, Read)
    )


# --- several results --------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def result_type(function: str, names: tuple[str, ...]) -> Any:
    """The named tuple of a function's results.

    A field has the name of its output. Names that Python or named tuples cannot spell get "out_"
    in front, and "_" behind where that name is taken: `2LUT` is the field `out_2LUT`.

    >>> result_type("f", ("C", "2x", "in", "_y"))._fields
    ('C', 'out_2x', 'out_in', 'out__y')
    """
    fields = field_names(names)
    made: type[Any] = namedtuple(_spelled(function), fields)  # type: ignore[misc]  # not static
    rebuild = (function, names)

    def reduce(self: tuple[Any, ...]) -> tuple[Any, ...]:
        return rebuild_result, (*rebuild, tuple(self))

    # no subclass has it, as transforms of older versions of torch take none
    setattr(made, "__reduce__", reduce)  # noqa: B010  # mypy: a method
    return made


def rebuild_result(function: str, names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """A named tuple of results from what was pickled."""
    return result_type(function, names)(*values)


def field_names(names: Sequence[str]) -> tuple[str, ...]:
    """The fields for these outputs, all different."""
    taken = {name for name in names if _spelled(name) == name}
    fields = []
    for name in names:
        field = _spelled(name)
        if field != name:
            while field in taken:
                field += "_"
            taken.add(field)
        fields.append(field)
    return tuple(fields)


def _spelled(name: str) -> str:
    good = name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")
    return name if good else f"out_{name}"
