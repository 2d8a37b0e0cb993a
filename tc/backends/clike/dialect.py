"""What a C-like language does in its own way, as a value; what is known where a text goes on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tc.backends import printing
from tc.builtins.operators import ATOM_LEVEL, LEVEL, ON_BITS, UNARY_LEVEL
from tc.dtypes import DType
from tc.kernel.ir import Buffer, Expr, Grid, Kernel, Let, Prefetch, Stmt, Store, WarpMultiply

Printed: TypeAlias = tuple[str, int]
"""The text of an expression, and the precedence of its outermost operator."""

# precedence, loosest first
CHOICE, OR, AND, EQUAL, RELATION = (LEVEL[op] for op in ("?:", "||", "&&", "==", "<"))
BITS, SHIFT, SUM, PRODUCT = (LEVEL[op] for op in ("|", "<<", "+", "*"))
UNARY, ATOM = UNARY_LEVEL, ATOM_LEVEL


def operand_levels(op: str) -> tuple[int, int]:
    """The precedence that the operands of an infix operation need."""
    level = LEVEL[op]
    if level in (EQUAL, RELATION):
        return SUM, SUM
    if op in ON_BITS:  # compilers doubt their precedence, and C has another one
        return UNARY, UNARY
    return (level, level) if level in (OR, AND) else (level, level + 1)


@dataclass(frozen=True, slots=True)
class Reserved:
    """Names that a language keeps for itself: `words` anywhere, `functions` as names of functions,
    and names that match `forms`."""

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
class LaunchWords:
    """How the functions of a language say what a Grid says; axes are "x", "y" and "z".

    - `block` and `thread` give the number of a block, or of a thread in its block, along an axis.
    - `barrier` is the statement where the threads of a block wait for each other, `grid_barrier`
      that where all blocks do, given the name of a pointer to a `word`; None where they cannot.
    - `atomic` gives the statement of an Atomic, given its operation, its buffer, and the texts of
      its element and its value.
    - `exchange` gives the value that another thread of a warp has, given the name of what it has
      and of the distance in which lanes differ, and `spread` the value that the first of some lanes
      has; None where threads exchange nothing but memory.
    - `copy_async` gives the statement that begins to copy to an address, from another, so many
      bytes, or zeros where a condition, if there is one, is false; `commit` ends a group of copies,
      and `wait` waits for all groups but some that are `left`. None where threads copy at once.
    - `multiply` gives the lines of a
      WarpMultiply, None where there is none.
    - `shared` begins the declaration of an array of a block.
    - `arena` begins the declaration of the memory of a block that a launch asks for, for arrays of
      more than `most_static` bytes, None if all may be declared.
    """

    block: Callable[[str], str]
    thread: Callable[[str], str]
    barrier: str
    grid_barrier: str | None
    shared: str
    atomic: Callable[[str, Buffer, str, str], str]
    exchange: Callable[[str, str], str] | None = None
    spread: Callable[[str, int], str] | None = None
    copy_async: Callable[[str, str, int, str | None], str] | None = None
    commit: str = ""
    wait: str = ""
    multiply: Callable[[WarpMultiply, Context], Iterator[str]] | None = None
    most_static: int | None = None
    arena: str = ""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a C-like language does in its own way; `printer` has all that they share.

    - `types` are the names of types of elements, half being kept as its bits; `integer` gives the
      text of an integer constant of exactly its type, `infinity` and `nan` those of floats.
    - `suffix` ends the library's functions of floats, where those of doubles have the plain name;
      `native` are functions of the table that the library has beside those of <math.h>.
    - `respelt` turns the text of a helper function, which is written in C99, into the language;
      `helpers` are functions that the language has in a way of its own, by their names.
    - `preamble` gives the parts of a text before its functions: includes, pragmas, definitions.
    - `head` begins the head of a function, given its Grid; `space` is the type of a pointer to
      memory that all see, and `restrict` says that no other points to the same.
    - `unused` is the statement that names what nothing reads, so that compilers do not warn of it.
    - `unroll` is the line before a loop of constant bounds that is to be unrolled, if any.
    - `fails` gives the lines that begin the record of a failure, given site + 1.
    - `launch`: None where one function runs all regions, on one thread. Else each region is one
      Grid, and has a function of its own.
    """

    name: str
    types: Mapping[DType, str]
    integer: Callable[[int, DType], str]
    infinity: Callable[[DType], str]
    nan: Callable[[DType], str]
    suffix: str
    native: Mapping[str, str]
    respelt: Callable[[str], str]
    reserved: Reserved
    preamble: Callable[[Kernel, str], Iterator[str]]
    head: Callable[[Grid | None], str]
    space: str
    restrict: str
    unused: str
    aligned: str
    unroll: str | None
    fails: Callable[[int], Sequence[str]]
    launch: LaunchWords | None
    prefetch: Callable[[Prefetch, Context], Iterator[str]]
    vectors: VectorPrinter | None
    helpers: Mapping[str, str] = field(default_factory=dict)


def respelling(words: Mapping[str, str], suffix: str) -> Callable[[str], str]:
    """Puts helper functions into a language with other words than C99, whose constants of uint64
    end in `suffix`.

    >>> respelling({"int64_t": "long"}, "UL")("return (int64_t)(x & UINT64_C(0x7F)); // int64_t")
    'return (long)(x & 0x7FUL); // int64_t'
    """

    def respelt(helper: str) -> str:
        found = re.sub(r"//.*|\w+", lambda word: words.get(word[0], word[0]), helper)
        return re.sub(r"\bUINT64_C\((\w+)\)", rf"\1{suffix}", found)

    return respelt


def suffixed(suffixes: Mapping[str, str], least: Mapping[int, str]) -> Callable[[int, DType], str]:
    """A printer of integers, with suffixes that tell their type. The least integer of 32 or 64 bits
    has a text of its own, as its constant without the sign would be too large for the type.

    >>> from tc.dtypes import INT32, UINT32
    >>> text = suffixed({"uint32": "u"}, {32: "INT_MIN"})
    >>> text(-3, INT32), text(5, UINT32), text(-(2**31), INT32)
    ('-3', '5u', 'INT_MIN')
    """

    def integer(value: int, dtype: DType) -> str:
        if dtype.kind == "int" and dtype.bits >= 32 and value == -(2 ** (dtype.bits - 1)):
            return least[dtype.bits]
        return f"{value}{suffixes.get(dtype.name, '')}"

    return integer


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
