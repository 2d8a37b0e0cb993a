"""What a C-like language does in its own way, as a value; what is known where a text goes on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tc.backends import printing
from tc.dtypes import DType
from tc.kernel.ir import Expr, Kernel, Let, Prefetch, Stmt, Store

Printed: TypeAlias = tuple[str, int]
"""The text of an expression, and the precedence of its outermost operator."""

# precedence, loosest first
CHOICE, OR, AND, BITS, EQUAL, RELATION, SHIFT, SUM, PRODUCT, UNARY, ATOM = range(11)
LEVELS = {
    "||": OR, "&&": AND, "&": BITS, "|": BITS, "^": BITS, "==": EQUAL, "!=": EQUAL, "<": RELATION,
    "<=": RELATION, ">": RELATION, ">=": RELATION, "<<": SHIFT, ">>": SHIFT, "+": SUM, "-": SUM,
    "*": PRODUCT, "/": PRODUCT, "%": PRODUCT,
}  # fmt: skip


def operand_levels(op: str) -> tuple[int, int]:
    """The precedence that the operands of an infix operation need."""
    level = LEVELS[op]
    if level in (EQUAL, RELATION):
        return SUM, SUM
    if level in (BITS, SHIFT):  # compilers doubt their precedence
        return UNARY, UNARY
    return (level, level) if level in (OR, AND) else (level, level + 1)


@dataclass(frozen=True, slots=True)
class Reserved:
    """Names that a language keeps for itself: `words` anywhere, `functions` where functions are
    named, and those that match `forms`."""

    words: frozenset[str]
    functions: frozenset[str]
    forms: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class VectorPrinter:
    """How a language prints vectors: their expressions (and scalars made of them), stores, the
    type and the first value of a local, and the helper of a name, None if there is none of it.
    `mask_bits` are the bits per lane of a local of bools, of which the statements after it are
    given."""

    expression: Callable[[Expr, Context], Printed]
    store: Callable[[Store, Context], str]
    type: Callable[[Let, Context], str]
    value: Callable[[str, Expr, Context], str]
    mask_bits: Callable[[Let, tuple[Stmt, ...], Context], int]
    helper: Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class WorkSharing:
    """How the functions of a language are run by several at once, each of which has its number.

    There is a function for each region. `number` and `count` are the number of the one that runs
    it and how many there are: they share the iterations of a parallel loop and have a share of the
    workspace each. `serial` is the line with which a function begins that has no such loop.
    """

    number: str
    count: str
    serial: str


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a C-like language does in its own way; `printer` has all that they share.

    - `types` are the names of types of elements, half being kept as its bits; `integer` gives the
      text of an integer constant of exactly its type.
    - `suffix` ends the library's functions of floats, where those of doubles have the plain name;
      `native` are functions of the table that the library has beside those of <math.h>.
    - `respelt` turns the text of a helper function, which is written in C99, into the language.
    - `preamble` gives the parts of a text before its functions: includes, pragmas, definitions.
    - `function` begins the head of a function, and `space` the type of a pointer to memory that all
      see.
    - `unroll` is the line before a loop of constant bounds that is to be unrolled, if any.
    - `fails` gives the lines that begin the record of a failure, given site + 1.
    - `grid`: None where one function runs all regions, on one thread.
    """

    name: str
    types: Mapping[DType, str]
    integer: Callable[[int, DType], str]
    suffix: str
    native: Mapping[str, str]
    respelt: Callable[[str], str]
    reserved: Reserved
    preamble: Callable[[Kernel, str], Iterator[str]]
    function: str
    space: str
    unroll: str | None
    fails: Callable[[int], Sequence[str]]
    grid: WorkSharing | None
    prefetch: Callable[[Prefetch, Context], Iterator[str]]
    vectors: VectorPrinter | None


@dataclass(frozen=True, kw_only=True)
class Context(printing.TextContext):
    """`masks` are the bits per lane of locals that are vectors of bool."""

    dialect: Dialect
    masks: Mapping[str, int] = field(default_factory=dict)

    @property
    def types(self) -> Mapping[DType, str]:
        return self.dialect.types

    def masking(self, name: str, bits: int) -> Context:
        return replace(self, masks={**self.masks, name: bits})
