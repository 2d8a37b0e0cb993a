"""Operands of instructions, as functions that read and write them for some threads of a block."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.support.ptx.memory import Array
from tests.support.ptx.parse import TYPES, Function, Operand, Unreadable

if TYPE_CHECKING:
    from tests.support.ptx.machine import Block, Threads

Reads = Callable[["Block", "Threads"], Array]
Writes = Callable[["Block", "Threads", Array], None]

_SPECIAL = re.compile(r"%(n?tid|n?ctaid)\.[xyz]|%laneid|%warpid")
_ADDRESS = re.compile(r"\[\s*([%$\w]+)\s*(?:\+\s*(-?\w+))?\s*\]")


class Registers(dict[tuple[str, np.dtype[Any]], Array]):
    """The registers of all threads, by name and the type that they are seen as."""

    def __init__(self, threads: int) -> None:
        super().__init__()
        self._threads = threads

    def __missing__(self, key: tuple[str, np.dtype[Any]]) -> Array:
        name, dtype = key
        own = dtype if dtype.kind == "b" else np.dtype(f"u{dtype.itemsize}")
        self[key] = np.zeros(self._threads, own) if dtype == own else self[name, own].view(dtype)
        return self[key]


def reader(operand: Operand, type_name: str, function: Function) -> Reads:
    """Reads an operand as elements of a type; of a wider register, the lower bits; of one in
    brackets, the addresses."""
    dtype = TYPES[type_name]
    if not isinstance(operand, str):
        raise Unreadable(str(operand))
    if operand.startswith("["):
        return _address(operand, function)
    if operand.startswith("!"):
        truth = reader(operand[1:], type_name, function)
        return lambda block, threads: ~truth(block, threads)
    if _SPECIAL.fullmatch(operand):
        return lambda block, threads: block.special[operand][threads.place].astype(dtype)
    if operand.startswith("%"):
        own = function.type_of(operand)
        if own.itemsize == dtype.itemsize:
            return lambda block, threads: block.registers[operand, dtype][threads.place]
        bits = np.dtype(f"u{dtype.itemsize}")
        return lambda block, threads: (
            block.registers[operand, own][threads.place].astype(bits).view(dtype)
        )
    value = _constant(operand, dtype, function)
    return lambda _block, _threads: value


def _constant(operand: str, dtype: np.dtype[Any], function: Function) -> Any:
    """A number, or the address of a variable."""
    if operand in function.variables:
        return dtype.type(function.variables[operand])
    if re.fullmatch(r"0[fFdD][0-9a-fA-F]+", operand):
        bits = np.dtype(f"u{len(operand[2:]) // 2}")
        return np.array(int(operand[2:], 16), bits).view(f"f{bits.itemsize}").astype(dtype)[()]
    if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)U?", operand):
        value = int(operand.rstrip("U"), 0)
        if dtype.kind == "b":
            return np.bool_(value)
        bits = np.dtype(f"u{dtype.itemsize}")
        return np.array(value & (1 << 8 * dtype.itemsize) - 1, bits).view(dtype)[()]
    raise Unreadable(operand)


def _address(operand: str, function: Function) -> Reads:
    found = _ADDRESS.fullmatch(operand)
    if not found:
        raise Unreadable(operand)
    base, offset = found[1], np.int64(int(found[2] or "0", 0))
    if base.startswith("%"):
        if function.type_of(base).itemsize == 8:
            read = reader(base, "s64", function)
            return lambda block, threads: read(block, threads) + offset
        low = reader(base, "u32", function)  # of 32 bits, whatever is added
        return lambda block, threads: low(block, threads).astype(np.int64) + offset & 0xFFFFFFFF
    start = _constant(base, np.dtype(np.int64), function) + offset
    return lambda _block, threads: np.full(len(threads.numbers), start)


def writer(operand: Operand, function: Function) -> Writes:
    """Writes elements of any type; into a wider register with the sign, where they have one."""
    if operand == "_":
        return lambda _block, _threads, _values: None
    if not isinstance(operand, str):
        raise Unreadable(str(operand))
    own = function.type_of(operand)

    def write(block: Block, threads: Threads, values: Array) -> None:
        dtype = values.dtype
        if dtype.itemsize != own.itemsize:
            dtype = np.dtype(f"{'i' if dtype.kind == 'i' else 'u'}{own.itemsize}")
        block.registers[operand, dtype][threads.place] = values

    return write
