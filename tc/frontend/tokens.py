"""The tokens of the language: its words, numbers and signs (rules T1, T2)."""

from __future__ import annotations

import enum
from typing import NamedTuple

from tc.dtypes import SPELLINGS


class Kind(enum.Enum):
    """What a token is; `DIM` is the `.1` of `T.1`, `KEYWORD` a reserved word."""

    NAME = "name"
    KEYWORD = "keyword"
    NUMBER = "number"
    DIM = "dim"
    SIGN = "sign"
    COMMENT = "comment"
    END = "end"


class Token(NamedTuple):
    """A piece of the text: `text` is its characters `start` up to, not including, `end`. Texts have
    many tokens, and a tuple is made in half the time of a frozen dataclass."""

    kind: Kind
    text: str
    start: int
    end: int


RESERVED = frozenset({"def", "where", "exists", *SPELLINGS})
"""The words that name nothing (T2)."""

REDUCTIONS = ("+", "*", "min", "max", "&", "|", "^")
"""The operators of reductions, each written with `=` or `=!` behind it (R2)."""

ASSIGNMENTS = frozenset({"=", *(f"{op}={mark}" for op in REDUCTIONS for mark in ("", "!"))})


def is_assignment(token: Token) -> bool:
    """Whether a token is `=` or the operator of a reduction."""
    return token.kind is Kind.SIGN and token.text in ASSIGNMENTS


REDUCTION_SIGNS = " ".join(f"{op}=" for op in REDUCTIONS)
"""The operators of reductions, as messages list them."""

_LOOSEST_FIRST = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
PRECEDENCE = {op: level for level, ops in enumerate(_LOOSEST_FIRST, 1) for op in ops}
"""How strongly each binary operator binds, as in C (T4); all are left associative. Texts of kernels
have another order (`tc.builtins.operators.LEVEL`)."""

TERNARY_PRECEDENCE = 0
PREFIX_PRECEDENCE = len(_LOOSEST_FIRST) + 1
PREFIXES = frozenset("-+!~")

FOREIGN = {
    ";": ("statements are separated by white space only", ""),
    "-=": ("there is no reduction '-='", "C(i) += -(...)"),
    "/=": ("there is no reduction '/='", "C(i) = C(i) / (...)"),
    "%=": ("there is no reduction '%='", "C(i) = C(i) % (...)"),
    "**": ("there is no operator '**'", "pow(x, y)"),
    "//": ("comments begin with '#', and '/' of integers already rounds down", ""),
    "/*": ("comments begin with '#' and run to the end of the line", ""),
    "@": ("there is no operator '@'", "C(i,j) +=! A(i,k) * B(k,j)"),
    "<>": ("there is no operator '<>'; it is written '!='", "a != b"),
    "=>": ("there is no operator '=>'; it is written '>='", "a >= b"),
    "=<": ("there is no operator '=<'; it is written '<='", "a <= b"),
    "===": ("there is no operator '==='; it is written '=='", "a == b"),
    "!==": ("there is no operator '!=='; it is written '!='", "a != b"),
    "[": ("subscripts are written in parentheses", "A(i, j)"),
    "]": ("subscripts are written in parentheses", "A(i, j)"),
}
"""Signs of other languages: why each is not of this one, and what serves instead."""

COMPARISONS = {"<>": "!=", "=>": ">=", "=<": "<=", "===": "==", "!==": "!="}
"""Comparisons of other languages, with their spellings in this language."""

PI = "3.14159265358979"
_INFINITY = "inf()"
CONSTANTS = {
    **dict.fromkeys(("True", "true", "TRUE"), "bool(1)"),
    **dict.fromkeys(("False", "false", "FALSE"), "bool(0)"),
    **dict.fromkeys(("inf", "Inf", "INF", "infinity", "Infinity", "INFINITY"), _INFINITY),
    **dict.fromkeys(("HUGE_VAL", "oo"), _INFINITY),
    **dict.fromkeys(("nan", "NaN", "NAN"), "nan()"),
    **dict.fromkeys(("pi", "PI", "Pi", "M_PI", "CUDART_PI", "CUDART_PI_F"), "pi()"),
    **dict.fromkeys(("tau", "TAU"), "6.28318530717959"),
    **dict.fromkeys(("M_E", "euler", "Euler"), "2.71828182845905"),
    "M_SQRT2": "1.4142135623731",
    "M_PI_2": "1.5707963267949",
    "M_LN2": "0.693147180559945",
    **dict.fromkeys(("FLT_MAX", "float_max"), "3.4028235e38"),
    "FLT_MIN": "1.17549435082229e-38",
    "FLT_EPSILON": "1.19209289550781e-7",
    "DBL_EPSILON": "2.22044604925031e-16",
    **dict.fromkeys(("INT_MAX", "INT32_MAX"), "2147483647"),
}
"""Constants of other languages, by what they are here."""

SIGNS = tuple(
    sorted(
        {*PRECEDENCE, *FOREIGN, *PREFIXES, *"=?:,(){}", "->", "<=>"}
        | {sign for sign in ASSIGNMENTS if sign[0] != "m"},
        key=lambda sign: (-len(sign), sign),
    )
)
"""Every sign, longer ones first: the longest match wins (T1). `min=` begins as a name."""
