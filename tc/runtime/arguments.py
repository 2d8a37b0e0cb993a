"""The arguments of a call: bound to parameters, checked, and seen as numpy arrays.

Everything wrong with an argument is an InputError that names the parameter and points at its
declaration. Sizes are not compared here: range inference does that once per set of shapes.

Arguments in another order than the parameters have an error of their own (`name_order`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from tc.dtypes import BOOL, DTYPES, INT64, UINT64, Array, DType, as_array, decoded, fits
from tc.errors import InputError
from tc.runtime.arrays import NUMPY, family_of
from tc.runtime.arrays.device_array import DeviceArray, DeviceLocation
from tc.runtime.arrays.encoded_arrays import ENCODED, as_bits
from tc.runtime.arrays.family import Family, Refusal, same_family
from tc.semantics.program import Expr, Literal, Program, Size
from tc.source import Span
from tc.wording import closest, counted

NUMBERS = (int, float, np.generic)


@dataclass(frozen=True, slots=True)
class Parameter:
    """An input or output of a function as calls see it; `text` is its declaration, `dims` its
    declared shape, `dtype` is there as numpy's too. `static`: code is specialised on its value (an
    integer of rank 0)."""

    function: str
    name: str
    text: str
    dims: str
    rank: int
    dtype: DType
    numpy: np.dtype[Any]
    static: bool
    span: Span
    default: int | float | bool | None = None


@dataclass(frozen=True, slots=True)
class Signature:
    """What calls of a program are checked against."""

    name: str
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    sizes: frozenset[str]

    def call_text(self) -> str:
        """A call to paste.

        >>> Signature("mm", (), (), frozenset()).call_text()
        'mm()'
        """
        return f"{self.name}({', '.join(p.name for p in self.inputs)})"


Given: TypeAlias = tuple[list[Any], Family, Any, tuple[Any, ...]]
"""Inputs as arrays of numpy, or as `DeviceArray`, in order, their family, one of them, and what
code is specialised on: shape and strides in bytes of each input of rank above 0, the value of each
static scalar."""


def signature_of(program: Program) -> Signature:
    def parameter(name: str) -> Parameter:
        tensor = program.tensors[name]
        static = name in program.static_scalars
        dtype = tensor.dtype
        dims = ", ".join(map(_dim_text, tensor.shape or ()))
        text = f"{dtype}({dims}) {name}" if dims else f"{dtype} {name}"
        known = (tensor.rank, dtype, dtype.numpy, static, tensor.span, tensor.default)
        return Parameter(program.name, name, text, dims, *known)

    return Signature(
        program.name,
        tuple(map(parameter, program.inputs)),
        tuple(map(parameter, program.outputs)),
        frozenset(entry_sizes(program)),
    )


def _dim_text(dim: Expr) -> str:
    match dim:
        case Literal(value=value):
            return str(value)
        case Size(name=name):
            return name
        case _:
            return " ".join(dim.span.text.split())


def entry_sizes(program: Program) -> tuple[str, ...]:
    """The sizes that the entry itself declares; those of inlined defs have a dot in their name."""
    return tuple(name for name in program.sizes if "." not in name)


def fault(
    parameter: Parameter, cause: str, repair: str | None = None, rule: str | None = None
) -> InputError:
    """The error about one parameter: `cause` continues its name, "{name}" and "{dtype}" in
    `repair` stand for what the parameter is called and declared as."""
    if repair is not None:
        dtype = parameter.dtype
        repair = repair.format(name=parameter.name, dtype=dtype.name)
        if not dtype.is_in_numpy:
            repair = repair.replace(f"np.{dtype}", f"ml_dtypes.{dtype}")
    return InputError(
        f"{parameter.function}: {parameter.name} {cause}",
        rule=rule,
        span=parameter.span,
        repair=repair,
    )


def bind_call(
    signature: Signature, inputs: Sequence[Any], named: Mapping[Any, Any]
) -> tuple[Any, ...]:
    """The inputs in order, of arguments that are given one by one and by name, or as one
    collection."""
    parameters = signature.inputs
    if len(inputs) == 1 and is_collection(signature, inputs[0]):
        only = inputs[0]
        if isinstance(only, Mapping):
            for parameter in parameters:
                if parameter.name in only and parameter.name in named:
                    raise given_twice(parameter, signature.call_text())
            inputs, named = (), {**only, **named}
        else:
            inputs = only
    if len(inputs) > len(parameters):
        raise InputError(
            f"{signature.name} takes {counted(len(parameters), 'input')}"
            f"{_names(parameters)}, but {were_given(len(inputs))}",
            repair=signature.call_text(),
        )
    order = [p.name for p in parameters]
    for name in named:
        if name not in order:
            raise _unknown_input(signature, name, order)
    for parameter in parameters[: len(inputs)]:
        if parameter.name in named:
            raise given_twice(parameter, signature.call_text())
    left = [p for p in parameters[len(inputs) :] if p.name not in named]
    missing = [p for p in left if p.default is None]
    if missing:
        raise InputError(
            f"{signature.name} takes {counted(len(parameters), 'input')}{_names(parameters)}, "
            f"but {' and '.join(p.name for p in missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing",
            span=missing[0].span,
            repair=signature.call_text(),
        )
    values = {**{p.name: p.default for p in left}, **named}
    return (*inputs, *(values[name] for name in order[len(inputs) :]))


def is_collection(signature: Signature, value: object) -> bool:
    """Whether the only positional value of a call stands for all inputs: a mapping by name, or a
    sequence of as many as there are. With one input, a tuple of integers is its shape."""
    if isinstance(value, Mapping):
        return True
    if not is_sequence(value):
        return False
    if len(signature.inputs) != 1:
        return True
    is_shape = isinstance(value, tuple) and all(isinstance(n, (int, np.integer)) for n in value)
    return len(value) == 1 and not (is_shape and signature.inputs[0].rank == 1)


def given_twice(parameter: Parameter, repair: str | None = None) -> InputError:
    return fault(parameter, "is given twice, by place and by name", repair)


def is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether it is a list, a tuple or the like; arrays and texts are not."""
    # no union: older versions of torch.compile, which follow calls through here, know none
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def read_inputs(signature: Signature, inputs: Sequence[Any], *, devices: bool = False) -> Given:
    """The inputs as checked numpy arrays, copied only where they are not aligned; with `devices`,
    arrays on a device as `DeviceArray`, which are refused otherwise."""
    views: list[Any] = []
    key: list[Any] = []
    family: Family | None = None
    like: Any = None
    first: Parameter | None = None
    view: Any
    # one pass and no calls for the common case: this runs before every kernel
    for parameter, value in zip(signature.inputs, inputs, strict=True):
        if type(value) is np.ndarray:
            view, found = value, NUMPY
        elif isinstance(value, NUMBERS) and parameter.rank == 0:
            view = read_number(parameter, value)
            views.append(view)
            if parameter.static:
                key.append(int(view))
            continue
        else:
            found, view = view_of(parameter, value)
        if view.dtype != parameter.numpy or view.ndim != parameter.rank:
            view = read_other(parameter, view, found)
        if family is None:
            family, like, first = found, value, parameter
        elif found is not family and first is not None and not same_family(found, family):
            raise mixed_kinds(parameter, found, view, first.name, family, like)
        if type(view) is DeviceArray:
            check_on_device(parameter, view, found, devices=devices)
        elif not view.flags.aligned:
            view = view.copy()
        if parameter.rank:
            key.append(view.shape)
            key.append(view.strides)
        elif parameter.static:
            key.append(int(view))
        views.append(view)
    return views, family or NUMPY, like, tuple(key)


def check_on_device(
    parameter: Parameter, view: DeviceArray, family: Family, *, devices: bool
) -> None:
    """InputError for an array on a device: where none may be, where its value is asked for before
    anything runs, and where threads of a GPU cannot read its elements."""
    if not devices:
        cause = f"lies on {view.place}, and this runs on the processor"
        copied = " for a copy there" if "{" in family.to_host else ""
        repair = f'{family.to_host}{copied}, or tc.compile(..., backend="{view.place.kind}")'
        raise fault(parameter, cause, repair)
    if parameter.static:
        cause = f"lies on {view.place}, but code is made for the value of {parameter.text}"
        raise fault(parameter, cause, "int({name})")
    if not view.aligned:
        cause = (
            f"lies at address {view.address:#x} with strides {view.strides} in bytes, which are "
            f"not multiples of its {view.dtype.itemsize}-byte elements: {view.place} cannot read "
            "them so"
        )
        raise fault(parameter, cause, family.devices.copy)


def view_of(parameter: Parameter, value: Any, *, measured: bool = False) -> tuple[Family, Any]:
    """The family of an array of any library, and a numpy array on the same memory, or what stands
    for an array on a device; `measured`
    where nothing but its shape, strides and dtype are read."""
    if isinstance(value, NUMBERS):
        raise fault(
            parameter,
            f"is the number {value!r}, but {parameter.text} asks for an array of rank "
            f"{parameter.rank}",
            f"np.full({(1,) * parameter.rank}, {value!r}, np.{{dtype}})",
        )
    try:
        family = family_of(value)
        return family, family.measure(value) if measured else family.view(value)
    except Refusal as refusal:
        if parameter.rank == 0 and not hasattr(value, "shape"):
            cause = f"is of type {type(value).__name__}, but {parameter.text} asks for a number"
            raise fault(parameter, cause) from None
        raise _refused(parameter, refusal) from None


def name_kind_of_others(error: InputError, signature: Signature, inputs: Sequence[Any]) -> None:
    """Has the error about a list say how it becomes an array of the library of the others."""
    for parameter, value in zip(signature.inputs, inputs, strict=True):
        refusal = f"np.asarray({parameter.name}, np.{parameter.dtype})"
        if error.repair != refusal or not isinstance(value, list | tuple | range):
            continue
        for other, like in zip(signature.inputs, inputs, strict=True):
            family = None if isinstance(like, NUMBERS) else _family_or_none(like)
            if family is None or same_family(family, NUMPY):
                continue
            named = parameter
            if _kind_of_elements(value) != parameter.dtype.name:
                named = replace(parameter, name=refusal)
            repair = mixed_kinds(named, NUMPY, None, other.name, family, like).repair
            error.repair = repair and repair.replace(f"{refusal} =", f"{parameter.name} =")
            return


def _family_or_none(value: Any) -> Family | None:
    try:
        return family_of(value)
    except Refusal:
        return None


def _kind_of_elements(value: Any) -> str:
    """The dtype that libraries give a list of Python's numbers."""
    try:
        kind = np.asarray(value).dtype.kind
    except (ValueError, OverflowError):
        return ""
    return {"f": "float32", "i": "int64", "b": "bool"}.get(kind, "")


def _refused(parameter: Parameter, refusal: Refusal) -> InputError:
    error = fault(parameter, refusal.cause, refusal.repair)
    error._framework_adapter = refusal.adapter
    return error


def read_other(parameter: Parameter, view: Any, family: Family) -> Array:
    """An array of rank 0 of another type than declared, as the number that it holds; one of
    ml_dtypes as tc has it."""
    given, view = view, as_bits(view)
    if view.dtype == parameter.numpy and view.ndim == parameter.rank:
        found: Array = view
        return found
    on_host = type(view) is not DeviceArray
    if on_host and view.dtype in ENCODED and view.ndim == 0:
        view = decoded(view, ENCODED[view.dtype])
    if on_host and parameter.rank == view.ndim == 0 and view.dtype.kind in _NUMERIC:
        return read_number(parameter, view[()])
    raise wrong_type(parameter, given, family)


def read_number(parameter: Parameter, value: Any) -> Array:
    """A number, Python's or numpy's, as an array of rank 0 of the declared type (Y3); converted
    where nothing is lost but the digits that a float has not."""
    dtype = parameter.dtype
    if isinstance(value, np.generic):
        if value.dtype == parameter.numpy:
            return np.array(value, parameter.numpy)
        known = DTYPES.get(value.dtype.name)
        if known is not None and not known.is_in_numpy:
            value = np.float32(value)
        if value.dtype.kind not in _NUMERIC:
            cause = f"has dtype {value.dtype}, but {parameter.text} asks for {dtype}"
            raise fault(parameter, cause, None, "Y3")
        value = float(value) if value.dtype.kind == "f" else value.item()
    if dtype.is_float:
        if not _fits_float(value, dtype):
            cause = f"is {short(value)}, which {dtype} cannot hold"
            raise fault(parameter, cause, "declare a wider type, or scale {name}", "Y3")
    elif dtype == BOOL:
        if not isinstance(value, bool):
            cause = f"is {short(value)}, but {parameter.text} asks for bool"
            raise fault(parameter, cause, "bool({name})", "Y3")
    elif isinstance(value, float):
        cause = f"is {value!r}, but {parameter.text} asks for an integer"
        raise fault(parameter, cause, "declare it: float {name}", "Y3")
    elif not fits(value, dtype):
        info = np.iinfo(parameter.numpy)
        cause = f"is {short(value)}, but {dtype} holds {info.min} to {info.max}"
        wider = [w for w in (INT64, UINT64) if fits(value, w)]
        repair = f"declare a wider type: {wider[0]} {{name}}" if wider else "a smaller {name}"
        raise fault(parameter, cause, repair, "Y3")
    return as_array(np.array(value, dtype.held), dtype)


def _fits_float(value: float, dtype: DType) -> bool:
    try:
        value = float(value)
    except OverflowError:
        return False
    return fits(value, dtype) or not math.isfinite(value)


_NUMERIC = "biuf"


def short(value: object) -> str:
    """A number as text, without the middle digits of a huge one."""
    try:
        text = repr(value)
    except ValueError:  # integers of more than 4300 digits have no text
        return "a huge integer"
    return text if len(text) <= 40 else f"{text[:15]}...{text[-15:]}"


def mixed_kinds(
    parameter: Parameter, found: Family, view: Any, first: str, family: Family, like: Any
) -> InputError:
    """The arrays of one call come from two libraries: `view` is one of `found`, `like` is called
    `first` and of `family`."""
    cause = (
        f"is an array of {found.name}, but {first} is one of {family.name}: the arrays of a call "
        "are of one kind"
    )
    place = _place_of(family, like)
    if place is not None:
        repair = on_place(family.devices.convert, place, first)
    elif type(view) is DeviceArray and family.convert is not None and "{" in found.to_host:
        repair = family.convert.replace("{name}", found.to_host)
    else:
        repair = found.to_host if type(view) is DeviceArray else family.convert
    return fault(parameter, cause, repair)


def _place_of(family: Family, array: Any) -> DeviceLocation | None:
    """Where an array that was viewed before lies; None for the processor's memory."""
    try:
        view = family.view(array)
    except Refusal:  # of what may only be written to, or has no values
        try:
            view = family.target(array)
        except Refusal:
            return None
    return view.place if type(view) is DeviceArray else None


def on_place(text: str | None, place: DeviceLocation, first: str) -> str | None:
    """A repair of `DeviceOps` for the place where an array called `first` lies."""
    return text and text.replace("{device}", str(place.number)).replace("{first}", first)


def wrong_type(parameter: Parameter, view: Any, family: Family) -> InputError:
    """The error about an array whose dtype or rank is not the declared one."""
    if as_bits(view).dtype == parameter.numpy:
        return fault(
            parameter,
            f"has rank {view.ndim} and shape {view.shape}, but {parameter.text} asks for "
            f"rank {parameter.rank}",
            ranked(view.shape, parameter),
        )
    if view.dtype.newbyteorder("=") == parameter.numpy:
        cause = f"has dtype {view.dtype.str}, which is not in this machine's byte order"
        return fault(parameter, cause, family.cast, "Y3")
    given = dtype_text(view.dtype)
    cause = f"has dtype {given}, but {parameter.text} asks for {parameter.dtype}"
    if given in DTYPES and view.ndim == parameter.rank:
        dims = f"({parameter.dims})" if parameter.dims else ""
        declared = f"{given}{dims} {parameter.name}"
        cause += f"; a parameter for it is written {declared}"
    repair = family.cast
    if view.dtype in ENCODED:
        if family is NUMPY:  # as files of `tc run` have it
            repair = repair.replace("{name}", f"{{name}}.view(ml_dtypes.{given})")
    elif view.dtype.names is not None:
        repair = f'{{name}}["{view.dtype.names[0]}"]'
    elif view.dtype == f"V{parameter.numpy.itemsize}" and not parameter.dtype.is_in_numpy:
        repair = "{name}.view(np.{dtype})"  # numpy's files keep no such types
    elif view.dtype.kind == "c":
        repair = repair.replace("{name}", "{name}.real")
    return fault(parameter, cause, repair, "Y3")


def ranked(shape: tuple[int, ...], parameter: Parameter) -> str | None:
    """What gives an array of this shape the declared rank; where more than dimensions of size 1
    would have to go, a part of it."""
    rank, extra = parameter.rank, len(shape) - parameter.rank
    if extra < 0:
        row = f"{{name}}.reshape({(1,) * -extra + shape})"
        if (len(shape), rank) == (1, 2):
            return f"{row} for one row, {{name}}.reshape({(*shape, 1)}) for one column"
        return row
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    if len(ones) >= extra:
        kept = [size for axis, size in enumerate(shape) if axis not in ones[:extra]]
        return f"{{name}}.reshape({tuple(kept)})"
    if 0 in shape[:extra]:
        return None
    return f"{{name}}[{', '.join('0' * extra)}] for one part of it"


def dtype_text(dtype: np.dtype[Any]) -> str:
    """A type as messages name it."""
    text = str(ENCODED.get(dtype, dtype))
    return text if len(text) <= 60 else f"{text[:57]}..."


def _unknown_input(signature: Signature, name: object, order: list[str]) -> InputError:
    if not isinstance(name, str):
        return InputError(
            f"{signature.name}: {short(name)} is no name of an input",
            repair=f"{{{', '.join(f'{p.name!r}: {p.name}' for p in signature.inputs)}}}",
        )
    if name in signature.sizes:
        return InputError(
            f"{signature.name}: {name} is a size, which follows from the shapes of the inputs",
            repair=signature.call_text(),
        )
    outputs = [p.name for p in signature.outputs]
    if name in ("out", "output", *outputs):
        given = name if name in outputs else outputs[0]
        value = given if len(outputs) == 1 else f'{{"{given}": {given}}}'
        return InputError(
            f"{signature.name} has no input {name!r}; arrays to write to are passed as outputs=",
            rule="R4",
            repair=f"{signature.call_text()[:-1]}{', ' if order else ''}outputs={value})",
        )
    close = closest(name, order)
    return InputError(
        f"{signature.name} has no input {name!r}; it takes {', '.join(order) or 'none'}",
        repair=f"{close}=..." if close else signature.call_text(),
    )


def were_given(count: int) -> str:
    return f"{count} was given" if count == 1 else f"{count} were given"


def _names(parameters: Sequence[Parameter]) -> str:
    return f" ({', '.join(p.name for p in parameters)})" if parameters else ""


MAX_ARGUMENTS = 6
"""Of more arguments no order is sought."""


def name_order(error: InputError, signature: Signature, inputs: Sequence[Any]) -> None:
    """Has the error about an argument say in which order all would fit, if just one is."""
    if len(inputs) != len(signature.inputs) or not 2 <= len(inputs) <= MAX_ARGUMENTS:
        return
    parameters = signature.inputs
    if fits_all(parameters, inputs):
        return
    orders = list(_orders(parameters, inputs, ()))
    if len(orders) != 1:
        return
    told = [
        f"what is given for {parameters[place].name} fits {parameter.name}"
        for parameter, place in zip(parameters, orders[0], strict=True)
        if parameters[place] is not parameter
    ]
    names = ", ".join(parameter.name for parameter in parameters)
    error.repair = f"the order of the parameters, {signature.name}({names}): {'; '.join(told)}"


def _orders(
    parameters: Sequence[Parameter], inputs: Sequence[Any], taken: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    """The orders in which the arguments fit, as their places by parameter."""
    if len(taken) == len(parameters):
        if fits_all(parameters, [inputs[place] for place in taken]):
            yield taken
        return
    parameter = parameters[len(taken)]
    for place, value in enumerate(inputs):
        if place not in taken and _fits(parameter, value):
            yield from _orders(parameters, inputs, (*taken, place))


def fits_all(parameters: Sequence[Parameter], inputs: Sequence[Any]) -> bool:
    """Whether types, ranks and sizes agree with the declarations, as far as these name them."""
    sizes: dict[str, int] = {}
    for parameter, value in zip(parameters, inputs, strict=True):
        if not _fits(parameter, value):
            return False
        dims = [dim.strip() for dim in parameter.dims.split(",")] if parameter.dims else []
        for dim, extent in zip(dims, value.shape if dims else (), strict=True):
            wanted = int(dim) if dim.isdecimal() else sizes.setdefault(dim, int(extent))
            if wanted != int(extent):
                return False
    return True


def _fits(parameter: Parameter, value: Any) -> bool:
    if isinstance(value, NUMBERS):
        is_whole = isinstance(value, int) or getattr(value, "dtype", parameter.numpy).kind in "iu"
        return parameter.rank == 0 and (is_whole or not parameter.dtype.is_integer)
    try:
        shape, dtype = value.shape, str(value.dtype)
    except Exception:  # objects of users may answer with any error
        return False
    if not isinstance(shape, tuple) or len(shape) != parameter.rank:
        return False
    return dtype.rpartition(".")[2] == parameter.dtype.name
