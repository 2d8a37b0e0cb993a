"""The names that emitted source uses: what a region is, and memory without bounds checks.

A region becomes a C function of four integers: the address of the buffers' addresses, the address
of a record of the first failure (site + 1, then its values; 0 for none), and which part of how
many equal parts of its parallel loop to run. Indices of `read_only` and `writable` buffers may
be negative (a reversed input): nothing wraps around and nothing is checked.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing import signature
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

_INT64 = types.int64
_WORD = ir.IntType(64)


def region(function: Callable[..., None]) -> Callable[..., None]:
    """Marks a function `(arguments, failure, part, parts)` of a kernel, which is compiled together
    with the others (see `objects`); a decorator."""
    return function


class Pointer(types.Type):  # type: ignore[misc]  # numba is untyped
    """The elements of a buffer. `kind` says what the region does with them; elements of different
    kinds never share memory: inputs are not written to, and outputs and temporaries are apart."""

    def __init__(self, dtype: Any, kind: str) -> None:
        self.dtype = dtype
        self.kind = kind
        super().__init__(f"Pointer({dtype}, {kind})")


_KINDS = ("read_only", "writable", "failure")


@register_model(Pointer)
class _PointerModel(models.PrimitiveModel):  # type: ignore[misc]  # numba is untyped
    def __init__(self, manager: Any, pointer: Pointer) -> None:
        element = manager.lookup(pointer.dtype).get_data_type()
        super().__init__(manager, pointer, element.as_pointer())


def _mark_apart(builder: Any, instruction: Any, kind: str) -> None:
    """Tells LLVM that this access meets none of another kind, so that loops become vectors
    without a test and sums stay in registers."""
    module = builder.module
    domain = module.add_metadata(["tc"])
    scopes = {k: module.add_metadata([k, domain]) for k in _KINDS}
    others = [scope for k, scope in scopes.items() if k != kind]
    instruction.set_metadata("alias.scope", module.add_metadata([scopes[kind]]))
    instruction.set_metadata("noalias", module.add_metadata(others))


def _load(context: Any, builder: Any, pointer: Pointer, address: Any) -> Any:
    value = builder.load(address)
    _mark_apart(builder, value, pointer.kind)
    if pointer.dtype == types.boolean:
        return builder.icmp_unsigned("!=", value, value.type(0))
    return context.data_model_manager[pointer.dtype].from_data(builder, value)


def _store(context: Any, builder: Any, pointer: Pointer, value: Any, address: Any) -> None:
    data = context.data_model_manager[pointer.dtype].as_data(builder, value)
    _mark_apart(builder, builder.store(data, address), pointer.kind)


@type_callable(operator.getitem)
def _type_getitem(_context: Any) -> Callable[..., Any]:
    def typer(pointer: Any, index: Any) -> Any:
        if isinstance(pointer, Pointer) and isinstance(index, types.Integer):
            return signature(pointer.dtype, pointer, _INT64)
        return None

    return typer


@type_callable(operator.setitem)
def _type_setitem(_context: Any) -> Callable[..., Any]:
    def typer(pointer: Any, index: Any, _value: Any) -> Any:
        if isinstance(pointer, Pointer) and isinstance(index, types.Integer):
            return signature(types.none, pointer, _INT64, pointer.dtype)
        return None

    return typer


@lower_builtin(operator.getitem, Pointer, types.Integer)
def _lower_getitem(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    base, index = args
    address = builder.gep(base, [index], inbounds=True)
    return _load(context, builder, sig.args[0], address)


@lower_builtin(operator.setitem, Pointer, types.Integer, types.Any)
def _lower_setitem(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    base, index, value = args
    address = builder.gep(base, [index], inbounds=True)
    _store(context, builder, sig.args[0], value, address)
    return context.get_dummy_value()


def _argument(kind: str, position: Any, dtype: Any) -> Any:
    pointer = Pointer(dtype.dtype, kind)

    def codegen(context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        addresses = builder.inttoptr(args[0], _WORD.as_pointer())
        address = builder.load(builder.gep(addresses, [args[1]]))
        return builder.inttoptr(address, context.get_value_type(pointer))

    return pointer(_INT64, position, dtype), codegen


@intrinsic
def read_only(_context: Any, _arguments: Any, position: Any, dtype: Any) -> Any:
    """The buffer at a position among the arguments, which the region only reads."""
    return _argument("read_only", position, dtype)


@intrinsic
def writable(_context: Any, _arguments: Any, position: Any, dtype: Any) -> Any:
    """The buffer at a position among the arguments, which the region writes, or also reads."""
    return _argument("writable", position, dtype)


@intrinsic
def share(_context: Any, _begin: Any, _end: Any, _part: Any, _parts: Any) -> Any:
    """The bounds of one of `parts` almost equal parts of a range; in order, they are the range."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        begin, end, part, parts = args
        empty = builder.icmp_signed("<", end, begin)
        extent = builder.select(empty, _WORD(0), builder.sub(end, begin))
        following = builder.add(part, _WORD(1))
        bounds = [
            builder.add(begin, builder.sdiv(builder.mul(extent, number), parts))
            for number in (part, following)
        ]
        return context.make_tuple(builder, sig.return_type, bounds)

    return types.UniTuple(_INT64, 2)(_INT64, _INT64, _INT64, _INT64), codegen


@intrinsic
def record(_context: Any, _failure: Any, _site: Any, *values: Any) -> Any:
    """Records a failed check and its values, unless an earlier failure is recorded."""
    place = Pointer(_INT64, "failure")

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        base = builder.inttoptr(args[0], _WORD.as_pointer())
        first = builder.icmp_signed("==", _load(context, builder, place, base), _WORD(0))
        numbers = [builder.add(args[1], _WORD(1))]
        numbers += cgutils.unpack_tuple(builder, args[2], len(sig.args[2]))
        with builder.if_then(first, likely=False):
            for i, number in enumerate(numbers):
                _store(context, builder, place, number, builder.gep(base, [_WORD(i)]))
        return context.get_dummy_value()

    return types.void(_INT64, _INT64, types.UniTuple(_INT64, len(values))), codegen
