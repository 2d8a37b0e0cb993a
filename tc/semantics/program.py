"""The checked program: names resolved, types explicit, calls inlined; then shaped.

`Program` is what `check` makes of a syntax tree: it holds for all sizes. `ShapedProgram` is what
`infer_ranges` makes of a Program and the sizes of one call. Every later stage (interpreter,
lowering, explain) reads these two and never the syntax tree.

    Program   ::= Tensor* SizeDef* Equality* Statement*
    Statement ::= target(subscript*) op rhs, over variables, where conditions
    Expr      ::= Literal | Size | Extent | Index | Read | Unary | Binary | Compare | Logical
                | Select | Call | Convert | Bits

What a node means stands at its definition. Each expression has a `dtype`, the type it is
*computed* in; operands of an operation have been converted to one type by explicit `Convert`
nodes, so no later stage knows the promotion rules. A type of storage
(`DType.is_storage`), as half is, occurs only as the dtype of a `Read` of a tensor of that type, of
a `Convert` that rounds to it and of `Bits`, each directly below a `Convert(FLOAT32)` or the `Bits`
of an unsigned integer: all arithmetic on halves is in float32 (Y8).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from tc.dtypes import BOOL, INT64, DType
from tc.errors import TCError, render
from tc.source import Source, Span

# --- expressions ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A constant; `value` is representable in `dtype` (floats are rounded when used)."""

    value: int | float | bool
    dtype: DType


@dataclass(frozen=True, slots=True)
class Size(Node):
    """The value of a size variable (Y1)."""

    name: str
    dtype: DType = INT64


@dataclass(frozen=True, slots=True)
class Extent(Node):
    """`T.k`: the size of dimension `axis` of a tensor (T2)."""

    tensor: str
    axis: int
    dtype: DType = INT64


@dataclass(frozen=True, slots=True)
class Index(Node):
    """The value of an index variable of the statement."""

    name: str
    dtype: DType = INT64


@dataclass(frozen=True, slots=True)
class Read(Node):
    """An element of a tensor, or a rank 0 tensor (`subscripts` empty).

    `dtype` is the tensor's. Subscripts are INT64 expressions (Y9). `site` identifies the read in
    the program. `bare_only`: the read stands in the first argument of `pad`, so it constrains
    ranges only through subscripts that are one bare variable, and is guarded by the pad's
    condition (G9). `late`: it stands in the second argument of `pad`: it constrains as usual,
    and what cannot be proven is checked at run time rather than as a precondition.
    """

    tensor: str
    subscripts: tuple[Expr, ...]
    dtype: DType
    site: int
    bare_only: bool = False
    late: bool = False


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`op` is "-": negation, integers wrap around. (`~` is `^` with all bits.)"""

    op: str
    operand: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """`op` is one of + - * / % min max & | ^ << >>; both operands have `dtype`, but that the count
    of a shift has an integer type of its own.

    Integer + - * wrap around; integer / and % round toward minus infinity, as does float %;
    integer division by zero is an error where checked, unspecified elsewhere (Y4); min and max
    propagate NaN (Y5). `site` identifies an integer division. & | ^ << >> are of integers; a shift
    by a count that is negative, or not less than the bits of the type, shifts everything out (Y11).
    """

    op: str
    left: Expr
    right: Expr
    dtype: DType
    site: int = -1


@dataclass(frozen=True, slots=True)
class Compare(Node):
    """`op` is one of == != < <= > >=; the operands have one type, the result is BOOL."""

    op: str
    left: Expr
    right: Expr
    dtype: DType = BOOL


@dataclass(frozen=True, slots=True)
class Logical(Node):
    """`op` is "&&", "||" (two operands, the second evaluated only if it decides, Y6) or "!"
    (one). Operands and result are BOOL."""

    op: str
    operands: tuple[Expr, ...]
    dtype: DType = BOOL


@dataclass(frozen=True, slots=True)
class Select(Node):
    """`condition ? then : otherwise`: only the branch taken is evaluated (Y6). The condition is
    BOOL, the branches have `dtype`. `padded`: the text says `pad(then, otherwise)` (G9)."""

    condition: Expr
    then: Expr
    otherwise: Expr
    dtype: DType
    padded: bool = field(default=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function of the table in tc.builtins by its canonical name; arguments have `dtype`,
    which is FLOAT32 or FLOAT64 (`abs`: any; popc and clz: an integer type)."""

    function: str
    args: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Convert(Node):
    """The operand's value in another type. To BOOL: nonzero is true. Float to integer
    truncates; out of range or NaN is unspecified (Y4). Integers wrap around. `written` marks a
    cast of the text."""

    operand: Expr
    dtype: DType
    written: bool = False


@dataclass(frozen=True, slots=True)
class Bits(Node):
    """The bits of the operand as a value of another type of the same width (Y12): of the two types
    one is a float, and the other an unsigned integer."""

    operand: Expr
    dtype: DType


CHECKED = -2
"""The site of a check."""


@dataclass(frozen=True, slots=True)
class Check(Node):
    """0; where one of `tests` (BOOL, evaluated in order) does not hold, the call fails, and INT64
    values are told. Rewrites make it of what a statement of the text may do wrong: `kind` is
    "write" (S5), "twice" (S2) or "range" (W3), and of `ShapedStatement.checked` it is the site
    CHECKED. The first values that are told are those of index variables of the text, `others` than
    the statement has. One that `ends` the call does so before anything else runs, so that what its
    tests read is not tested again."""

    kind: str
    tests: tuple[Expr, ...]
    told: tuple[Expr, ...]
    dtype: DType = INT64
    others: tuple[str, ...] = ()
    ends: bool = False

    @property
    def site(self) -> int:
        return CHECKED


Expr: TypeAlias = (
    Literal | Size | Extent | Index | Read | Unary | Binary | Compare | Logical | Select | Call
    | Convert | Bits | Check
)  # fmt: skip


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct operands of an expression, in text order."""
    match expr:
        case Index() | Literal() | Extent() | Size():
            return ()
        case Read(subscripts=subscripts):
            return subscripts
        case Unary(operand=operand) | Convert(operand=operand) | Bits(operand=operand):
            return (operand,)
        case Binary(left=left, right=right) | Compare(left=left, right=right):
            return (left, right)
        case Logical(operands=operands):
            return operands
        case Select(condition=condition, then=then, otherwise=otherwise):
            return (condition, then, otherwise)
        case Call(args=args):
            return args
        case Check(tests=tests, told=told):
            return (*tests, *told)


def with_children(expr: Expr, new: tuple[Expr, ...]) -> Expr:
    """The expression with other direct operands, in text order."""
    match expr:
        case Read():
            return replace(expr, subscripts=new)
        case Logical():
            return replace(expr, operands=new)
        case Call():
            return replace(expr, args=new)
        case Check(tests=tests):
            return replace(expr, tests=new[: len(tests)], told=new[len(tests) :])
        case Unary() | Convert() | Bits():
            return replace(expr, operand=new[0])
        case Binary() | Compare():
            return replace(expr, left=new[0], right=new[1])
        case Select():
            return replace(expr, condition=new[0], then=new[1], otherwise=new[2])
        case _:
            return expr


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all below it, outermost first, in text order."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def conjuncts(condition: Expr) -> list[Expr]:
    """The operands of a conjunction `a && b && c`; another condition alone."""
    if isinstance(condition, Logical) and condition.op == "&&":
        return [part for operand in condition.operands for part in conjuncts(operand)]
    return [condition]


def is_zero(expr: Expr) -> bool:
    """Whether an expression is a literal 0 that adds nothing, which -0.0 is not."""
    return isinstance(expr, Literal) and repr(float(expr.value)) == "0.0"


def index_names(expr: Expr) -> tuple[str, ...]:
    """The index variables in an expression, in order of appearance."""
    if isinstance(expr, Index):  # as most subscripts are
        return (expr.name,)
    return tuple(dict.fromkeys(n.name for n in walk(expr) if isinstance(n, Index)))


def shifted_variable(expr: Expr) -> str | None:
    """The index variable that an expression is, to which sizes of tensors may be added."""
    while isinstance(expr, Binary) and expr.op == "+" and isinstance(expr.right, Extent):
        expr = expr.left
    return expr.name if isinstance(expr, Index) else None


# --- the program, for all sizes ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input, output or temporary.

    `name` is unique in the program: tensors local to an inlined call are named after it, as
    "MLP1.t" or "MLP1#2.t". `shape` is the declared shape as expressions over sizes and extents
    (inputs, annotated outputs, results of concat), None where ranges decide.
    """

    name: str
    dtype: DType
    rank: int
    role: str  # "input", "output" or "temporary"
    shape: tuple[Expr, ...] | None
    span: Span = field(compare=False, repr=False)
    default: int | float | bool | None = None  # of an input of rank 0 that calls may leave out (E5)


@dataclass(frozen=True, slots=True)
class SizeDef:
    """A size and where its value comes from: the first `Extent` that becomes known gives it, and
    each other one must agree (T4). Inlined defs have sizes of their own, "MLP1.N"."""

    name: str
    extents: tuple[Extent, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Equality:
    """Two size expressions that must agree once both are known; `reason` says why in words
    ("dimension 1 of parameter A of mm is declared as 3")."""

    left: Expr
    right: Expr
    reason: str
    span: Span = field(compare=False, repr=False)


SIZES, AFFINE, DATA = "sizes", "affine", "data"
"""What the bounds of a range follow from: sizes alone (G8), other index variables of the statement
in affine form, too (W2), or tensors and all else (W3)."""


@dataclass(frozen=True, slots=True)
class WhereRange:
    """`variable in begin:end`; the bounds are INT64 expressions, of a `kind`: SIZES, AFFINE or
    DATA."""

    variable: str
    begin: Expr
    end: Expr
    kind: str = SIZES
    span: Span = field(compare=False, repr=False, kw_only=True)

    @property
    def depends_on(self) -> tuple[str, ...]:
        """The index variables in the bounds."""
        return tuple(dict.fromkeys((*index_names(self.begin), *index_names(self.end))))


@dataclass(frozen=True, slots=True)
class SizeClause:
    """`target.axis = value` of a `where`; the value is an INT64 size expression (S4)."""

    target: str
    axis: int
    value: Expr
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Companion:
    """One more target of a statement, of the same subscripts, and its value (V1). Under "min" and
    "max" a companion's value is that of the term which the first value chooses."""

    target: str
    rhs: Expr
    continues: str = ""  # as that of its statement


@dataclass(frozen=True, slots=True)
class Statement:
    """For all values of its variables: target(subscripts) op= rhs.

    `op` is "=", "+", "*", "min", "max", "&", "|" or "^".
    `init`: first store the identity over the range of
    the left-hand variables (R2); it is False for "=", and `op=!` without reduction variables has
    become "=". `rhs` has the compute type of the target's element type; the store rounds to half.

    `variables` are the index variables in order of appearance (left side first); those not in
    `outer` are reduction variables. `subscripts` are the place that an instance writes, an INT64
    expression for each dimension (S1). Instances for which not all `conditions` (BOOL, evaluated in
    order, each where those before hold) are true do not exist (W1).

    Of the terms of an element at most one is not the identity, where they are `once` (S2).

    `continues` (an op= without "!", R3): "written" where an earlier statement wrote the target,
    "caller" where only the caller can have given it (an output: continue if passed, else start
    at the identity and warn), "nothing" (a temporary: start at the identity and warn), and ""
    for = and =!.
    """

    name: str  # "S0", "S1", ... in text order
    target: str
    subscripts: tuple[Expr, ...]
    outer: tuple[str, ...]  # left-hand variables
    variables: tuple[str, ...]
    op: str
    init: bool
    continues: str
    rhs: Expr
    where: tuple[WhereRange, ...]
    exists: tuple[Read, ...]  # range inference only (T5)
    span: Span = field(compare=False, repr=False)
    variable_spans: Mapping[str, Span] = field(compare=False, repr=False)
    conditions: tuple[Expr, ...] = ()
    companions: tuple[Companion, ...] = ()
    sizes: tuple[SizeClause, ...] = ()
    once: bool = False

    @property
    def has_plain_places(self) -> bool:
        """Whether each dimension has a bare variable of its own (S1)."""
        return all(isinstance(s, Index) for s in self.subscripts)

    @property
    def has_box(self) -> bool:
        """Whether the instances are all points of a box whose ranges follow from sizes."""
        return not self.conditions and all(clause.kind == SIZES for clause in self.where)

    @property
    def is_plain(self) -> bool:
        """Whether the statement is a box with one value at plain places; a subscript of `concat`,
        which adds sizes to its variable, is as plain."""
        alone = [
            shifted_variable(s) if self.op == "=" or isinstance(s, Index) else None
            for s in self.subscripts
        ]
        has_plain_places = None not in alone and len(set(alone)) == len(alone)
        return self.has_box and has_plain_places and not self.companions and not self.sizes

    @property
    def targets(self) -> tuple[str, ...]:
        return (self.target, *(companion.target for companion in self.companions))

    @property
    def values(self) -> tuple[Expr, ...]:
        """The right sides, in the order of `targets`."""
        return (self.rhs, *(companion.rhs for companion in self.companions))

    @property
    def expressions(self) -> Iterator[Expr]:
        """The outermost expressions, but for bare variables on the left."""
        yield from self.values
        yield from self.exists
        for clause in self.where:
            yield from (clause.begin, clause.end)
        yield from self.conditions
        yield from (clause.value for clause in self.sizes)
        yield from (s for s in self.subscripts if not isinstance(s, Index))

    @property
    def chooses(self) -> bool:
        """Whether one term gives the values of several targets (V1)."""
        return bool(self.companions) and self.op in ("min", "max")

    def clause_of(self, variable: str) -> WhereRange | None:
        """The range that the `where` gives a variable."""
        return next((c for c in self.where if c.variable == variable), None)

    @property
    def reduction(self) -> tuple[str, ...]:
        return tuple(v for v in self.variables if v not in self.outer)

    @property
    def text(self) -> str:
        return self.span.line

    def is_part(self, axis: int, target: str) -> bool:
        """Whether the statement may write a part of a dimension: at computed places, or in a range
        that its `where` says; a size clause says the whole."""
        subscript = self.subscripts[axis]
        if any((size.target, size.axis) == (target, axis) for size in self.sizes):
            return False
        if not isinstance(subscript, Index):
            return shifted_variable(subscript) is None
        clause = self.clause_of(subscript.name)
        return clause is not None and clause.kind in (SIZES, AFFINE)

    def starts_fresh(self, initial: Container[str], position: int = 0) -> bool:
        """Whether a reduction starts at the identity rather than at what its target, that at a
        `position` of `targets`, holds (R3), given the outputs that hold values of the caller."""
        continues = self.continues_of(position)
        is_missing = continues == "caller" and self.targets[position] not in initial
        return self.init or is_missing or continues == "nothing"

    def continues_of(self, position: int) -> str:
        """What the target at a position of `targets` goes on from, as `continues` has it."""
        return self.companions[position - 1].continues if position else self.continues


@dataclass(frozen=True, slots=True)
class ProgramWarning:
    """A warning about a program, which the API issues as TCWarning."""

    rule: str | None
    message: str
    span: Span | None = field(default=None, compare=False, repr=False)
    repair: str | None = None

    @property
    def text(self) -> str:
        """The text of the warning with its place and repair, as users see it."""
        told = TCError(self.message, rule=self.rule, span=self.span, repair=self.repair)
        return render("warning", told)


def distinct(warnings: Iterable[ProgramWarning]) -> tuple[ProgramWarning, ...]:
    """The warnings without repetitions at one place: a def that is called twice warns twice."""
    return tuple({(w.message, str(w.span)): w for w in warnings}.values())


@dataclass(frozen=True)
class Program:
    """A checked def, with the defs that it calls inlined."""

    name: str
    source: Source
    tensors: Mapping[str, Tensor]  # inputs, outputs, temporaries, in order of declaration
    inputs: tuple[str, ...]  # parameters in order, rank 0 included
    outputs: tuple[str, ...]  # returns in order
    temporaries: tuple[str, ...]
    sizes: Mapping[str, SizeDef]  # of the entry first, then of inlined defs
    equalities: tuple[Equality, ...]
    statements: tuple[Statement, ...]
    needs_initial: Mapping[str, Span]  # outputs read before any statement defines them (R4)
    warnings: tuple[ProgramWarning, ...]
    static_scalars: frozenset[str]
    """The integer rank 0 inputs whose values the code is specialised on: those that occur in a
    subscript, a where clause or an affine condition (G2)."""
    span: Span | None = None  # of the def

    @cached_property
    def open_sizes(self) -> frozenset[str]:
        """The sizes that outputs alone have: callers pass these outputs (T4)."""
        inputs = self.inputs
        return frozenset(
            name
            for name, size in self.sizes.items()
            if not any(extent.tensor in inputs or "." in name for extent in size.extents)
        )

    @cached_property
    def open_outputs(self) -> frozenset[str]:
        """The outputs whose shapes an array of the caller may say: those with a size of their own,
        and those that a statement writes in part (S4)."""
        declared = {
            name
            for name in self.outputs
            for dim in self.tensors[name].shape or ()
            if isinstance(dim, Size) and dim.name in self.open_sizes
        }
        parts = {
            target
            for statement in self.statements
            for target in statement.targets
            if target in self.outputs and self.tensors[target].shape is None
            if any(statement.is_part(axis, target) for axis, _ in enumerate(statement.subscripts))
        }
        return frozenset(declared | parts)

    @cached_property
    def declared(self) -> tuple[Tensor, ...]:
        """The tensors whose shapes are declared, or that have a single element."""
        return tuple(t for t in self.tensors.values() if t.rank == 0 or t.shape is not None)


# --- the program, for the sizes of one call ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class Range:
    """A half-open range [begin, end) of a variable; `end >= begin`.

    `symbolic_begin` and `symbolic_end` are the bounds as INT64 expressions of sizes, extents and
    integer scalars where such exist (`(H-KH)/2 + 1`, `min(N, M-K+1)`). `fixed_by` are the
    accesses (texts with spans) or the where clause that decided it; `round` counts from 1, 0 for
    a where clause.
    """

    begin: int
    end: int
    symbolic_begin: Expr | None = field(default=None, compare=False)
    symbolic_end: Expr | None = field(default=None, compare=False)
    fixed_by: tuple[Span, ...] = field(default=(), compare=False, repr=False)
    round: int = 0

    @property
    def extent(self) -> int:
        return self.end - self.begin

    def __str__(self) -> str:
        return f"{self.begin}:{self.end}"


@dataclass(frozen=True, slots=True)
class Precondition:
    """An access whose bounds were checked for these sizes rather than used to infer (G6)."""

    statement: str
    text: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RowWalk:
    """How a statement goes over the rows of a matrix: its `variables` count blocks of rows, and
    then the rows of a block."""

    matrix: str
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShapedStatement:
    """A statement with the range of each variable.

    `checked` holds the sites of reads and integer divisions that cannot be proven safe for these
    ranges, so that the interpreter and checked code test them at run time (G7). Likewise
    `checked_axes` are the dimensions in which an instance may write outside of the target (S5),
    `checked_ranges` the variables whose ranges may be none, or leave their box (W3), and
    `is_checked_once` tells that two instances may write one element (S2). `walk`: a rewrite
    has the statement go over the rows of a matrix.
    """

    statement: Statement
    ranges: Mapping[str, Range]
    checked: frozenset[int]
    walk: RowWalk | None = None
    checked_axes: frozenset[int] = frozenset()
    checked_ranges: frozenset[str] = frozenset()
    is_checked_once: bool = False

    @property
    def is_checked(self) -> bool:
        """Whether something of the statement is tested at run time."""
        places = self.checked_axes or self.checked_ranges or self.is_checked_once
        return bool(self.checked or places)

    @property
    def is_empty(self) -> bool:
        """Whether no instance exists (the init of =! may still write)."""
        return any(r.extent == 0 for r in self.ranges.values())


@dataclass(frozen=True)
class ShapedProgram:
    """A program with the shapes and ranges that follow from the sizes of one call."""

    program: Program
    sizes: Mapping[str, int]
    scalars: Mapping[str, int]  # values of the static integer scalars
    shapes: Mapping[str, tuple[int, ...]]  # of every tensor
    symbolic_shapes: Mapping[str, tuple[Expr | None, ...]]
    shape_fixed_by: Mapping[str, Span]  # the statement or declaration that fixed each shape
    statements: tuple[ShapedStatement, ...]
    preconditions: tuple[Precondition, ...]
    warnings: tuple[ProgramWarning, ...]  # those that depend on sizes (G2)
