"""The errors of arguments that a call gives in another order than its parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tc.errors import InputError
from tc.runtime.arguments import NUMBERS, Parameter, Signature

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
