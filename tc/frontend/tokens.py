"""The tokens of the language: its words, numbers and signs (rules T1, T2)."""

from __future__ import annotations

import enum
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text: `text` is its characters `start` up to, not including, `end`."""

    kind: Kind
    text: str
    start: int
    end: int


RESERVED = frozenset({"def", "where", "exists", *SPELLINGS})
"""The words that name nothing (T2)."""

ASSIGNMENTS = frozenset({"=", "+=", "*=", "min=", "max=", "+=!", "*=!", "min=!", "max=!"})

PRECEDENCE = {
    "||": 1,
    "&&": 2,
    "==": 3,
    "!=": 3,
    "<": 4,
    "<=": 4,
    ">": 4,
    ">=": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "%": 6,
}
"""How strongly each binary operator binds, as in C (T4); all are left associative."""

TERNARY_PRECEDENCE = 0
PREFIX_PRECEDENCE = 7
PREFIXES = frozenset("-+!")

FOREIGN = {
    ";": ("statements are separated by white space only", ""),
    "-=": ("there is no reduction '-='", "C(i) += -(...)"),
    "/=": ("there is no reduction '/='", "C(i) = C(i) / (...)"),
    "%=": ("there is no reduction '%='", "C(i) = C(i) % (...)"),
    "^": ("there is no operator '^'", "pow(x, y)"),
    "**": ("there is no operator '**'", "pow(x, y)"),
    "//": ("comments begin with '#', and '/' of integers already rounds down", ""),
    "/*": ("comments begin with '#' and run to the end of the line", ""),
    "&": ("there is no operator '&'", "conditions are joined by '&&'"),
    "|": ("there is no operator '|'", "conditions are joined by '||'"),
    "~": ("there is no operator '~'", "conditions are negated by '!'"),
    "<<": ("there is no operator '<<'", "a * 16, for a << 4"),
    ">>": ("there is no operator '>>'", "a / 16, for a >> 4"),
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
"""The comparisons of other languages, by those of this one."""

BITS = frozenset(("&", "|", "^", "<<", ">>"))

SIGNS = tuple(
    sorted(
        {*PRECEDENCE, *FOREIGN, *"=?:,(){}!", "->", "<=>", "+=", "*=", "+=!", "*=!"},
        key=lambda sign: (-len(sign), sign),
    )
)
"""Every sign, longer ones first: the longest match wins (T1). `min=` begins as a name."""
