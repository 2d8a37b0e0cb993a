"""The functions by which the threads of a warp combine what each of them has."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tc.backends.clike.dialect import Dialect
from tc.backends.clike.templates import function
from tc.backends.clike.types import C_TYPES
from tc.dtypes import BOOL, DTYPES, DType

_WORDS = {"+": "sum", "*": "product", "min": "min", "max": "max", "&": "and", "|": "or", "^": "xor"}
_OF_BOOLS = {"min": "&&", "&": "&&", "max": "||", "|": "||", "^": "!="}
_OPERATORS = {word: op for op, word in _WORDS.items()}
_NAME = re.compile(r"tc_warp_([a-z]+)_([a-z]+\d*)_(\d+)")


def warp_reduction(op: str, dtype: DType, lanes: int) -> str:
    """The name of the function.

    >>> from tc.dtypes import FLOAT32
    >>> warp_reduction("+", FLOAT32, 32)
    'tc_warp_sum_float32_32'
    """
    return f"tc_warp_{_WORDS[op]}_{dtype}_{lanes}"


def warp_helper(name: str, dialect: Dialect) -> str | None:
    """The function of a name, in the words of C99; None where there is none of that name."""
    found, launch = _NAME.fullmatch(name), dialect.launch
    if found is None or launch is None or launch.exchange is None or launch.spread is None:
        return None
    word, dtype, lanes = found[1], DTYPES[found[2]], int(found[3])
    type_ = C_TYPES[dtype]
    other, result = launch.exchange("x", "distance"), "x"
    if dtype.is_float and word in ("min", "max"):  # of 0 and -0, lanes may take either
        result = launch.spread("x", lanes)
    lines = [
        *([dialect.unroll] if dialect.unroll else []),
        f"for (int distance = {lanes // 2}; distance > 0; distance /= 2) {{",
        *(f"    {line}" for line in _step(word, dtype, other)),
        "}",
        f"return {result};",
    ]
    return function(f"static inline {type_} {name}({type_} x)", *lines)


def _step(word: str, dtype: DType, other: str) -> Iterator[str]:
    """What a thread does with the value of another."""
    type_ = C_TYPES[dtype]
    op = _OPERATORS[word]
    if dtype == BOOL:
        yield f"x = {other} {_OF_BOOLS[op]} x;"
    elif op in ("min", "max"):
        yield f"x = tc_{op}_{dtype}(x, {other});"
    elif dtype.is_float:
        yield f"x {op}= {other};"
    else:  # integers wrap around
        unsigned = "uint64_t" if dtype.bits == 64 else "uint32_t"
        yield f"x = ({type_})(({unsigned})x {op} ({unsigned}){other});"
