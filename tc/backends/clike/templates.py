"""The words in which the C functions on vectors are written once for all types.

T is the vector, E its element, N the number of lanes, M its mask, U and A the unsigned vector and
element of the same width, INDEX and HALF the vectors of N int64 and N halves, BYTES the size
of an element, MIN and MAX the bounds of an integer. EACH[x] lists x for all lanes, with the
lane's number for $. The function's name begins with "tc_".
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tc.backends.clike.types import C_TYPES, mask_type
from tc.dtypes import DType

INLINE = "static inline __attribute__((always_inline, unused))"
"""How vectors' functions begin: GCC tires of inlining where kernels are large, and some are used
on some machines only."""


def instance(template: str, dtype: DType, inline: str = INLINE) -> str:
    """The function for one type of vector.

    >>> from tc.dtypes import FLOAT32
    >>> instance("T tc_spread_T(E x) { return (T){EACH[x]}; }", FLOAT32.vector(2)).split(") ", 1)[1]
    'float32x2 tc_spread_float32x2(float x) { return (float32x2){x, x}; }'
    """
    unsigned = f"uint{dtype.bits}"
    words = {
        "T": str(dtype),
        "E": C_TYPES[dtype.scalar],
        "M": str(mask_type(dtype.bits, dtype.lanes)),
        "U": f"{unsigned}x{dtype.lanes}",
        "A": f"{unsigned}_t",
        "INDEX": f"int64x{dtype.lanes}",
        "HALF": f"uint16x{dtype.lanes}",
        "N": str(dtype.lanes),
        "BYTES": str(dtype.bytes),
        "MIN": f"{dtype.name.upper()}_MIN",
        "MAX": f"{dtype.name.upper()}_MAX",
    }
    lanes = range(dtype.lanes)
    text = re.sub(r"EACH\[(.*?)\](?=})", lambda m: each(m[1], lanes), template.strip())
    word = r"(?<![a-zA-Z0-9])[A-Z]+(?![a-zA-Z0-9_])"
    text = re.sub(word, lambda m: words.get(m[0], m[0]), text)
    return re.sub(r"^(?=\w+ tc_)", f"{inline} ", text, count=1, flags=re.MULTILINE)


def returning(head: str, value: str, comment: str = "") -> str:
    """The function that only returns a value."""
    return "\n".join(([comment] if comment else []) + [function(head, f"return {value};")])


def function(head: str, *lines: str) -> str:
    """The function of these lines, which are indented but for those of the preprocessor."""
    body = (line if line.startswith("#") else f"    {line}" for line in lines)
    return "\n".join((head, "{", *body, "}"))


def each(text: str, lanes: Iterable[int]) -> str:
    return ", ".join(text.replace("$", str(lane)) for lane in lanes)
