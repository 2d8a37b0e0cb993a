"""The names that mean something in the Python source for numba, and how a kernel's are spelt."""

from __future__ import annotations

import builtins
import keyword

from tc.backends.spellings import Speller, Spellings, words
from tc.kernel.ir import Kernel

RUNTIME_NAMES = ("read_only", "record", "region", "share", "writable")
HELPER_NAMES = (
    "floor_divide", "floor_modulo", "from_half", "maximum", "minimum", "to_half", "truncate",
)  # fmt: skip
NUMPY_NAMES = (
    "bool_", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8",
    "uint16", "uint32", "uint64",
)  # fmt: skip
VECTOR_NAMES = ("deeper", "m", "vector_region")
_LOCAL_NAMES = ("arguments", "failure", "part", "parts", "first", "last", "inf", "math", "nan")
MAX_LETTERS = 200
"""The most letters of a name that are kept: LLVM merges names that agree in their first thousand or
so."""

_RESERVED = frozenset(
    (
        *keyword.kwlist, *keyword.softkwlist, *dir(builtins), *RUNTIME_NAMES, *HELPER_NAMES,
        *NUMPY_NAMES, *_LOCAL_NAMES, "REGIONS",
    )
)  # fmt: skip


def spell(kernel: Kernel, *, vectors: bool = False) -> Spellings:
    """The names where some region is traced, for `vectors`, or none.

    >>> spell(Kernel("2LUT", (), ((), ()))).functions
    ('_2LUT_0', '_2LUT_1')
    """
    speller = Speller(_plain, (*_RESERVED, *(VECTOR_NAMES if vectors else ())))
    buffers, variables = speller.buffers(kernel), speller.variables(kernel)
    regions = tuple(speller.spell(f"{kernel.name}_{i}") for i in range(len(kernel.regions)))
    return Spellings(regions, buffers, variables)


def _plain(name: str) -> str:
    plain = words(name)
    return (f"_{plain}" if not plain or plain[0].isdigit() else plain)[:MAX_LETTERS]
