"""The kernel IR: a loop program over buffers, for concrete sizes, in no target language.

    Kernel ::= Buffer* Stmt*
    Stmt   ::= For | If | Let | Set | Store | Prefetch | Fail | Comment | Grid | Barrier
             | Atomic | CopyAsync | Commit | Wait | WarpMultiply
    Expr   ::= Const | Var | Load | Unary | Binary | Compare | Logical | Select | Call | Cast
             | Bits | Broadcast | Ramp | Reduce | Shuffle | WarpReduce

A dtype with several lanes makes an expression a vector. Const, Var, Unary, Binary, Compare,
Logical, Select, Call, Cast and Bits work lane by lane; all their operands then have the lanes of
the result (Broadcast is explicit; the condition of a Select may be a scalar). In a vector nothing
is lazy: every lane of every operand is evaluated, but for the lanes that a mask leaves out.

Loops may be marked and buffers private (`For.mark`, `Buffer.role`): passes turn these into vectors,
straight-line code and locals. A marked kernel is one like any other: marks may be ignored.

What a node means stands at its definition; `tc.kernel.evaluate` is the executable definition
and `tc.kernel.verify` the list of rules that a well-formed kernel keeps. Kernels hold no isl
objects. Printers (backends/) translate node by node and decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from operator import attrgetter
from typing import Any, NoReturn, TypeAlias

from tc.dtypes import BOOL, DType
from tc.errors import InternalError
from tc.extents.sizes import Size
from tc.kernel.matrix_products import F16, PRODUCTS, MatrixProduct

# --- expressions: each has a dtype; operands have been cast to one type -------------------------


@dataclass(frozen=True, slots=True)
class Const:
    """A constant, representable in `dtype`; floats may be infinite or NaN."""

    value: int | float | bool
    dtype: DType


@dataclass(frozen=True, slots=True)
class Var:
    """A loop variable (int64) or a local made by Let."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Load:
    """The element of a buffer at int64 indices, one per dimension, all in bounds.

    `dtype` is the buffer's. A load of a type of storage (`DType.is_storage`), as half is,
    occurs only directly below Cast(FLOAT32), below Bits of unsigned integers, which moves it, or as
    a tile of a WarpMultiply.

    As a vector, lane l reads the element at the l-th lanes of the indices; scalar indices count
    for all lanes. Lanes where `mask` (BOOL, of as many lanes; a scalar has none) is false read
    nothing and give 0.
    """

    buffer: str
    indices: tuple[Expr, ...]
    dtype: DType
    mask: Expr | None = None


@dataclass(frozen=True, slots=True)
class Unary:
    """`op` is "-"; integers wrap around."""

    op: str
    operand: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Binary:
    """`op` is one of + - * / % min max, on two operands of `dtype` (not bool, but for min and
    max); on integers also & | ^ << >> (the last arithmetic where signed, shifts by less than the
    bits of the type), and on bools & | ^.

    Integers wrap around. Integer / and % round toward minus infinity; by zero they give an
    unspecified value and never trap, nor does the smallest integer by -1. Float / is IEEE, float
    % has the sign of the divisor. min and max propagate NaN.
    """

    op: str
    left: Expr
    right: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Compare:
    """`op` is one of == != < <= > >= on two operands of one type; NaN compares false, but !=."""

    op: str
    left: Expr
    right: Expr
    dtype: DType = BOOL


@dataclass(frozen=True, slots=True)
class Logical:
    """`op` is "&&", "||" (lazy in the second operand) or "!"; all BOOL."""

    op: str
    operands: tuple[Expr, ...]
    dtype: DType = BOOL


@dataclass(frozen=True, slots=True)
class Select:
    """`condition ? then : otherwise`; only the branch taken is evaluated."""

    condition: Expr
    then: Expr
    otherwise: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Call:
    """A function of tc.builtins on operands of `dtype`: float32 or float64, any type for abs,
    integers for popc and clz."""

    function: str
    args: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Cast:
    """The operand in another type: to bool nonzero is true; float to integer truncates, out of
    range or NaN is unspecified but never traps; integers wrap around; to a type of
    storage rounds to nearest even, and stands only directly below Cast(FLOAT32) or Bits of an
    unsigned integer, or as the value of a Store."""

    operand: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Bits:
    """The bits of the operand, read as another type of the same width (and lanes). Those read
    as a type of storage are the value of a Store, or stand directly below Cast(FLOAT32)."""

    operand: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Broadcast:
    """A vector whose lanes all are the scalar operand."""

    operand: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Ramp:
    """The INT64 vector base, base + step, base + 2 * step, ...; `base` is a scalar."""

    base: Expr
    step: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Reduce:
    """The lanes of a vector combined by `op` (+ * min max & | ^) to a scalar, in any order; min and
    max propagate NaN."""

    op: str
    operand: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Lane l of the result is lane `lanes[l]` of `left` followed by `right`, both of one type."""

    left: Expr
    right: Expr
    lanes: tuple[int, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class WarpReduce:
    """The values that the operand has in `lanes` neighbouring threads of a block, combined by `op`
    (+ * min max & | ^); all of these threads get the same result. `lanes` is 2, 4, ... or WARP, and
    of threads in one group the numbers differ only modulo `lanes` (x counts fastest).

    The order is fixed: of n values the first half is combined, one by one, with the second half,
    then the n/2 results likewise. It is all of the value of a Let or a Set of a Grid whose blocks
    have whole warps, and all threads of a block come to it, as to a Barrier; it is none.
    """

    op: str
    operand: Expr
    lanes: int
    dtype: DType


Expr: TypeAlias = (
    Const | Var | Load | Unary | Binary | Compare | Logical | Select | Call | Cast
    | Bits | Broadcast | Ramp | Reduce | Shuffle | WarpReduce
)  # fmt: skip

# --- statements -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class For:
    """For `var` from `begin` up to, not including, `end`. `parallel`: no iteration writes what
    another reads or writes, so any order, or all at once, gives the same.

    `mark` says what the passes of this package make of it:
    "unroll": constant bounds; its iterations become straight-line code.
    "vector": constant bounds; its iterations become the lanes of vectors. Either no iteration
    touches what another writes, or all that they share is one accumulation: a body of one Set
    `x = x op term`, or one Store of `b[...] op term` to the same b[...].
    "transpose": the outer of two loops with constant bounds around one Store, which may stand in
    an If, of one Load, which may stand in a Cast and in a Select with a constant (`condition ?
    load : constant`, so that the tail of a tile is filled; `condition && load` of bools). The
    Load is contiguous in memory along one of the loops and the Store along the other. A Store of
    the constant alone, all of a block being beyond a tensor, stays loops.
    "lines": the outermost of loops around one Store of one Load; where both go on in memory one
    element after the other, whole lines are stored.
    "mma", "mma_tf32": the steps of a sum of products that the threads of a warp compute together,
    where the results and the operands lie as in a WarpMultiply; its factors may be rounded as those
    of the MatrixProduct with this mark are.
    """

    var: str
    begin: Expr
    end: Expr
    body: tuple[Stmt, ...]
    parallel: bool = False
    mark: str = ""


@dataclass(frozen=True, slots=True)
class If:
    """`rare` is a hint, which may be ignored: the condition is seldom true."""

    condition: Expr
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()
    rare: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Let:
    """Declares a local of the enclosing block, at its first value; names are not reused within a
    kernel's enclosing blocks."""

    var: str
    value: Expr

    @property
    def dtype(self) -> DType:
        return self.value.dtype


@dataclass(frozen=True, slots=True)
class Set:
    """Gives a local of an enclosing block a new value of its type."""

    var: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Store:
    """Writes an element; the value has the buffer's dtype (a type of storage: a
    Cast to it, or Bits read as it).

    As a vector, as Load: the lanes write different elements, and those where `mask` is false
    write nothing. `non_temporal` is a hint, which may be ignored: the elements are not used again
    soon, so they need no place in the caches. Only vectors without a mask, to memory that the
    caller passes, have it.
    """

    buffer: str
    indices: tuple[Expr, ...]
    value: Expr
    mask: Expr | None = None
    non_temporal: bool = False


@dataclass(frozen=True, slots=True)
class Prefetch:
    """A hint, which may be ignored: elements of memory that the caller passes are read soon. Their
    indices are like those of Load, but may be out of bounds, and nothing is read there. What is
    loaded to compute them is in bounds."""

    buffer: str
    indices: tuple[Expr, ...]

    @property
    def lanes(self) -> int:
        """How many elements these are."""
        return max((index.dtype.lanes for index in self.indices), default=1)


@dataclass(frozen=True, slots=True)
class Fail:
    """Records that check `site` failed with these int64 values, unless a failure of this call is
    recorded (of several threads any may be first); execution goes on. See `Kernel.sites`."""

    site: int
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Comment:
    text: str


@dataclass(frozen=True, slots=True)
class LaunchIndex:
    """`var`, an INT64, is the number of a block in its grid, or of a thread in its block, along one
    dimension: from 0 up to, not including, `count`."""

    var: str
    count: int


@dataclass(frozen=True, slots=True)
class Grid:
    """One launch: all threads of all blocks run `body`, each with its own locals, `scratch` and
    `register` buffers; `shared` ones are unwritten when a block begins.

    Dimensions are listed outermost first, x last; none means one block, or thread. Blocks run in
    any order, or at once, and so do their threads: between two Barriers of the grid no block
    touches what another writes, nor a thread what another of its block writes, between any two.
    """

    blocks: tuple[LaunchIndex, ...]
    threads: tuple[LaunchIndex, ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Barrier:
    """All threads of a block, or with the scope "grid" of all blocks, wait here for each other, and
    see then what any of them has written; all of them meet it: bounds and conditions around it are
    the same for them. One of a grid stands in the body of the Grid itself; all blocks then run at
    once, and keep what is private or shared."""

    scope: str = "block"


@dataclass(frozen=True, slots=True)
class Atomic:
    """Gives an element the value `element op value` in one step: of several threads of a Grid that
    do so at one element, each takes its turn, in any order. The element holds an integer of 32 or
    64 bits, for which each order gives the same; the value has its type, and the operation is one
    of ATOMICS, the same for all Atomics of a buffer.

    Threads that meet in Atomics alone do not race: but for this, it reads and writes the element as
    Load and Store do."""

    buffer: str
    indices: tuple[Expr, ...]
    op: str
    value: Expr


@dataclass(frozen=True, slots=True)
class CopyAsync:
    """Begins to copy `count` neighbours along the last dimension of `source`, which the caller
    passes, to neighbours along the last dimension of the shared `buffer`, both of one type; where
    the `condition` (None: always true) is false, zeros, and nothing is read. Elements have 2, 4
    or 8 bytes, and all of them 4, 8 or 16.

    The first element lies, in both, at a multiple of `count` elements from element (0, ..., 0), and
    all are in bounds: those of `source` if the condition is true. What is copied is in flight until
    the thread has waited for the group (Commit, Wait): nobody touches these elements of `buffer`,
    or writes those of `source`, before, and all that is in flight is waited for. Other threads see
    the elements behind a Barrier, as if the thread had written them where it waited.
    """

    buffer: str
    indices: tuple[Expr, ...]
    source: str
    source_indices: tuple[Expr, ...]
    count: int = 1
    condition: Expr | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """What this thread has begun to copy since its last Commit, be it nothing, is a group."""


@dataclass(frozen=True, slots=True)
class Wait:
    """This thread waits until what it copies has arrived, but for its last `left` groups."""

    left: int = 0


@dataclass(frozen=True, slots=True)
class WarpMultiply:
    """The threads of a warp add products of matrices to locals of FLOAT32, `sums`.

    `left` and `right` are tiles in shared memory, each a Load of the type of the `product`: of the
    first element of LEFT_ROWS, or of RIGHT_ROWS, rows of as many elements as the product has steps.
    Rows, and elements of a row, follow each other along the dimensions `left_axes` and `right_axes`
    of the buffers (of rows, of elements), of which one is the last. All threads of a warp name the
    same tiles, whose lines of memory begin at multiples of 16 bytes.

    The l-th thread of a warp has RESULTS results of each left tile with each right tile, right
    tiles counting fastest: z is the sum of the products of row l / 4 + 8 * (z / 2) of the left tile
    and row l % 4 * 2 + z % 2 of the right tile, in any order, each element rounded first as the
    product says; the products of what was rounded are exact.

    It stands in a Grid whose blocks have whole warps, and all threads of a warp come to it; it is
    no Barrier. `factors` names the product. (PTX, "Matrix Fragments for mma.m16n8k16", "m16n8k8".)
    """

    sums: tuple[str, ...]
    left: tuple[Expr, ...]
    right: tuple[Expr, ...]
    left_axes: tuple[int, ...]
    right_axes: tuple[int, ...]
    factors: str = F16.name

    @property
    def product(self) -> MatrixProduct:
        return PRODUCTS[self.factors]


LEFT_ROWS, RIGHT_ROWS, RESULTS = 16, 8, 4

OfGrid: TypeAlias = Barrier | Atomic | CopyAsync | Commit | Wait | WarpMultiply
"""What stands in a Grid alone."""

Stmt: TypeAlias = For | If | Let | Set | Store | Prefetch | Fail | Comment | Grid | OfGrid

REDUCTIONS = ("+", "*", "min", "max", "&", "|", "^")
ATOMICS = ("+", "min", "max", "&", "|", "^")
"""The operations of Atomic."""
OF_BOOL = ("min", "max", "&", "|", "^")
"""The operations on bools, and their reductions."""
PRIVATE = ("scratch", "register", "shared")  # roles of buffers that a call does not pass
BLOCK, GRID = "block", "grid"  # scopes of barriers
WARP = 32
"""The threads of a warp: those whose numbers in their block, x counting fastest, differ only
modulo WARP."""

# --- the kernel -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor in memory: `strides` in elements, possibly zero or negative for inputs; the
    pointer passed is the address of element (0, ..., 0)."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    role: str
    """"input", "output" or "temporary": memory that the caller passes. "scratch": private to each
    part of a shared parallel loop (and to each call), so no other iteration sees it; row-major
    and aligned to 64 bytes; not passed, the backend keeps it. "register": an array of locals of a
    region, private like scratch; its indices become constants once marked loops are unrolled.
    "shared": of a Grid alone, one for each block, row-major; not passed. Its first dimension may
    be of `stages`. "sizes": the numbers of `Kernel.sizes`, which a call passes last."""
    drops_unwritten: bool = False
    """Elements of this scratch may be read before they are written, in lanes and rows of a tail
    whose results are dropped: on no element that is stored, and on no condition, subscript or
    failure, may they have an influence."""
    stages: int = 1
    """A shared buffer of several stages has room for as many tiles along its first dimension. Until
    the pass "pipelining", which makes use of the others, tiles are all in the first."""

    @property
    def bytes(self) -> int:
        """The bytes of the elements; elements that a stride of zero repeats count once."""
        steps = zip(self.shape, self.strides, strict=True)
        return prod(n for n, s in steps if s or not n) * self.dtype.bytes


SITE_KINDS = ("read", "division", "write", "twice", "range")


@dataclass(frozen=True, slots=True)
class Site:
    """What a Fail means, for the error that the caller raises: of a `kind` of SITE_KINDS. `values`
    of the Fail are: the index variables named in `variables`, in order, then the subscripts of a
    read, nothing of a division, and what a `Check` of the program tells."""

    kind: str
    statement: int  # position in the program's statements
    expression: int  # site of the expression in the program
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """The first Fail of a call: its site and its values."""

    site: int
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """`regions` run one after the other; each is a tuple of statements, and where it is one
    parallel For, with nothing but Comments and Lets beside it, a backend may share its
    iterations among threads. One with a Grid has nothing but Comments beside it. A name of a
    variable has one type throughout a kernel, and may be declared again only outside of the block
    that declares it."""

    name: str
    buffers: tuple[Buffer, ...]
    """In calling order: inputs, outputs, temporaries; then private ones, which are not passed."""
    regions: tuple[tuple[Stmt, ...], ...]
    sites: tuple[Site, ...] = field(default=())
    initial: frozenset[str] = frozenset()
    """Outputs that hold the caller's values on entry (R3, R4). Each element of the others is
    written before it is read, and at the end (G4)."""
    sizes: tuple[Size, ...] = ()
    """The tracked sizes whose values the buffer of the role "sizes" holds, in their order."""

    @property
    def arguments(self) -> tuple[Buffer, ...]:
        """The buffers that a call passes: inputs, outputs, temporaries."""
        return tuple(b for b in self.buffers if b.role not in PRIVATE)

    def buffer(self, name: str) -> Buffer:
        return next(b for b in self.buffers if b.name == name)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a row-major tensor.

    >>> row_major((2, 3, 4))
    (12, 4, 1)
    """
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


_OPERANDS: Mapping[type, Callable[[Any], tuple[Expr, ...]]] = {
    Const: lambda _: (),
    Var: lambda _: (),
    Load: lambda e: e.indices if e.mask is None else (*e.indices, e.mask),
    Logical: attrgetter("operands"),
    Select: attrgetter("condition", "then", "otherwise"),
    Call: attrgetter("args"),
    Ramp: lambda e: (e.base,),
    **dict.fromkeys((Binary, Compare, Shuffle), attrgetter("left", "right")),
    **dict.fromkeys((Unary, Cast, Bits, Broadcast, Reduce, WarpReduce), lambda e: (e.operand,)),
}
_OWN_EXPRESSIONS: Mapping[type, Callable[[Any], tuple[Expr, ...]]] = {
    For: attrgetter("begin", "end"),
    If: lambda s: (s.condition,),
    Store: lambda s: (*s.indices, s.value) if s.mask is None else (*s.indices, s.value, s.mask),
    Prefetch: attrgetter("indices"),
    Atomic: lambda s: (*s.indices, s.value),
    Fail: attrgetter("values"),
    CopyAsync: lambda s: (
        *s.indices,
        *s.source_indices,
        *(() if s.condition is None else (s.condition,)),
    ),
    WarpMultiply: lambda s: (*s.left, *s.right),
    **dict.fromkeys((Let, Set), lambda s: (s.value,)),
    **dict.fromkeys((Comment, Grid, Barrier, Commit, Wait), lambda _: ()),
}
_BLOCKS: Mapping[type, Callable[[Any], tuple[tuple[Stmt, ...], ...]]] = {
    **dict.fromkeys((For, Grid), lambda s: (s.body,)),
    If: attrgetter("then", "otherwise"),
}


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct operands of an expression, in order."""
    return _OPERANDS[type(expr)](expr)


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all below it, outermost first."""
    waiting = [expr]
    while waiting:
        expr = waiting.pop()
        yield expr
        if operands := _OPERANDS[type(expr)](expr):
            waiting += operands[::-1]


def statements(stmts: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """The statements and all in them, in order."""
    waiting = list(reversed(stmts))
    while waiting:
        stmt = waiting.pop()
        yield stmt
        for block in blocks(stmt)[::-1]:
            waiting += block[::-1]


def blocks(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The body of a loop or grid; both parts of a branch; nothing for other statements."""
    found = _BLOCKS.get(type(stmt))
    return () if found is None else found(stmt)


def inner_statements(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements of the blocks of a statement, in order."""
    return sum(blocks(stmt), ())


def own_expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions of a statement itself, whole; not those of the blocks in it."""
    return _OWN_EXPRESSIONS[type(stmt)](stmt)


def expressions(stmt: Stmt) -> Iterator[Expr]:
    """All expressions of a statement itself, without those of the statements in it."""
    for expr in own_expressions(stmt):
        yield from walk(expr)


def unknown_node(node: NoReturn) -> InternalError:
    """What to raise at the end of a `match` that mypy proves complete."""
    return InternalError(f"unknown node {type(node).__name__}")
