"""How types are spelt in C: elements by C99, vectors by the extensions of GCC and Clang."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tc.dtypes import BOOL, DTYPES, UINT8, DType
from tc.errors import BackendError

C_TYPES: Mapping[DType, str] = {
    dtype: {"bool": "bool", "float32": "float", "float64": "double"}.get(
        name, f"{dtype.unsigned if dtype.is_storage else name}_t"
    )
    for name, dtype in DTYPES.items()
}
"""Element types in C; a type of storage is kept as its bits."""

MAX_COMPARED_BYTES = 64
"""The bytes of vectors up to which GCC compares them well; larger vectors are taken apart lane by
lane."""

# the functions of a text pass vectors to one another only, so it does not matter by which rules
VECTOR_PRAGMA = '#pragma GCC diagnostic ignored "-Wpsabi"'

_VECTOR = re.compile(r"\b(u?int(?:8|16|32|64)|float(?:32|64))x(\d+)\b")


def c_type(dtype: DType) -> str:
    """The type of a local; vectors of bool are those of `mask_type`.

    >>> from tc.dtypes import FLOAT32
    >>> from tc.dtypes import FLOAT16
    >>> c_type(FLOAT32), c_type(FLOAT32.vector(16)), c_type(FLOAT16.vector(8))
    ('float', 'float32x16', 'uint16x8')
    """
    if dtype.lanes == 1:
        return C_TYPES[dtype]
    if dtype.lanes & (dtype.lanes - 1):
        raise BackendError(
            f"backend 'c' has vectors of 2, 4, 8, ... elements, not of {dtype.lanes}",
            repair="choose such a number of lanes",
        )
    return str(memory_type(dtype))


def mask_type(bits: int, lanes: int) -> DType:
    """The vector of integers that stands for a vector of bools: -1 for true, 0 for false. C
    compares vectors to vectors of the width of the elements, so the bits are chosen by the use of a
    mask."""
    return DTYPES[f"int{bits}"].vector(lanes)


def memory_type(dtype: DType) -> DType:
    """The numbers by which elements are kept in memory: 0 is false; bits of a type of storage."""
    if dtype.scalar == BOOL:
        return UINT8.vector(dtype.lanes)
    return dtype.unsigned if dtype.is_storage else dtype


def vector_type(name: str) -> DType | None:
    """The vector of a name in C, None where it names none."""
    found = _VECTOR.fullmatch(name)
    return DTYPES[found[1]].vector(int(found[2])) if found else None


def typedef_texts(text: str) -> list[str]:
    """The definitions of the vectors that a text uses."""
    found = {DTYPES[m[1]].vector(int(m[2])) for m in _VECTOR.finditer(text)}
    return [
        f"typedef {C_TYPES[v.scalar]} {v} __attribute__((vector_size({v.bytes * v.lanes})));"
        for v in sorted(found, key=lambda v: (v.kind, v.bits, v.lanes))
    ]
