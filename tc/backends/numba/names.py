"""How the names of kernels are spelt in the Python source for numba."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Mapping
from dataclasses import dataclass

from tc.kernel.ir import For, Kernel, Let, statements

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
LONGEST = 200
"""Letters of a name that are kept: LLVM merges names that agree in their first thousand or so."""

_RESERVED = frozenset(
    (
        *keyword.kwlist, *keyword.softkwlist, *dir(builtins), *RUNTIME_NAMES, *HELPER_NAMES,
        *NUMPY_NAMES, *_LOCAL_NAMES, "REGIONS",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Names:
    """How the kernel's names are spelt in Python."""

    buffers: Mapping[str, str]
    variables: Mapping[str, str]
    regions: tuple[str, ...]

    @classmethod
    def of(cls, kernel: Kernel, *, vectors: bool = False) -> Names:
        """The names where some region is traced, for `vectors`, or none."""
        taken = {*_RESERVED, *(VECTOR_NAMES if vectors else ())}
        buffers = {b.name: _spell(b.name, taken) for b in kernel.buffers}
        variables: dict[str, str] = {}
        for region in kernel.regions:
            for stmt in statements(region):
                if isinstance(stmt, For | Let) and stmt.var not in variables:
                    variables[stmt.var] = _spell(stmt.var, taken)
        numbers = range(len(kernel.regions))
        regions = tuple(_spell(f"{kernel.name}_{i}", taken) for i in numbers)
        return cls(buffers, variables, regions)


def _spell(name: str, taken: set[str]) -> str:
    """A Python name like this one that is not taken; then it is.

    >>> _spell("2LUT", set()), _spell("MLP1#2.t", set()), _spell("lambda", {"lambda"})
    ('_2LUT', 'MLP1_2_t', 'lambda_1')
    """
    plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
    plain = f"_{plain}" if not plain or plain[0].isdigit() else plain
    plain = plain[:LONGEST]
    spelling, count = plain, 0
    while spelling in taken:
        count += 1
        spelling = f"{plain}_{count}"
    taken.add(spelling)
    return spelling
