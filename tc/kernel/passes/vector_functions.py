"""Vector functions: built-in functions on vectors as arithmetic, so that no backend needs them.

`expand_calls` replaces each call on a vector, but for those in `NATIVE`, by the operations of its
formula; a few (`PLAIN`) on scalars too. `tc.kernel.math.forms` is the table of formulas, and
says how exact they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tc.builtins import BIT_FUNCTIONS
from tc.dtypes import BOOL, INT64, DType
from tc.kernel import ir, rebuild
from tc.kernel.math.forms import FORMS
from tc.kernel.math.vector import FORMATS, Rare, Vector
from tc.kernel.rebuild import LocalNames

NATIVE = frozenset(
    ("abs", "ceil", "copysign", "fabs", "floor", "fma", "fmax", "fmin", "sqrt", "trunc")
)
"""The functions that backends print on vectors as they are."""

PLAIN = frozenset(("fdivide", "rsqrt"))
"""The functions whose formula stands for them on scalars too, to spare a call: it rounds as they
do, and has each argument once."""


def has_vector_form(function: str, dtype: DType) -> bool:
    """Whether a call of the function on vectors of such elements becomes vector code.

    >>> from tc.dtypes import FLOAT32, INT32
    >>> has_vector_form("exp", FLOAT32), has_vector_form("lgamma", FLOAT32)
    (True, False)
    >>> has_vector_form("abs", INT32)
    True
    """
    if function == "abs" or function in BIT_FUNCTIONS:
        return True
    return dtype.scalar in FORMATS and (function in NATIVE or function in FORMS)


def expand_vector_functions(kernel: ir.Kernel, *, exponents: bool = False) -> ir.Kernel:
    """The kernel with each call on vectors replaced by its formula, and those in `PLAIN` on scalars
    too. What is used more than once becomes a local before the statement. With `exponents`, vectors
    have the functions of `tc.kernel.math.exponents`.

    >>> from tc.dtypes import FLOAT32
    >>> from tc.kernel.printer import to_text
    >>> f4, i4 = FLOAT32.vector(4), INT64.vector(4)
    >>> lanes = ir.Ramp(ir.Const(0, INT64), 1, i4)
    >>> store = ir.Store("o", (lanes,), ir.Call("rsqrt", (ir.Load("a", (lanes,), f4),), f4))
    >>> buffers = (ir.Buffer("a", FLOAT32, (4,), (1,), "input"),)
    >>> buffers = (*buffers, ir.Buffer("o", FLOAT32, (4,), (1,), "output"))
    >>> print(to_text(expand_vector_functions(ir.Kernel("f", buffers, ((store,),)))))
    kernel f
      input a: float32[4]
      output o: float32[4]
    region
      o[0:4] = float32x4(1.0) / sqrt(a[0:4])
    """
    expander = _Expander(LocalNames(kernel), exponents)
    new = rebuild.map_regions(kernel, expander.block)
    scratch = (*kernel.buffers, *expander.scratch.values())
    return rebuild.changed(new, buffers=rebuild.same_or(kernel.buffers, scratch))


class _Expander:
    """What a kernel's expansion has used so far: names, and scratch for lanes one by one."""

    def __init__(self, names: LocalNames, exponents: bool) -> None:
        self.names = names
        self.exponents = exponents
        self.scratch: dict[tuple[DType, int], ir.Buffer] = {}

    # --- statements -------------------------------------------------------------------------

    def block(self, block: rebuild.Stmts) -> rebuild.Stmts:
        return rebuild.map_statements(block, self.statement)

    def statement(self, stmt: ir.Stmt) -> list[ir.Stmt]:
        """The statement without such calls, behind what has to stand before it."""
        before: list[ir.Stmt] = []
        new = rebuild.map_expressions(stmt, lambda expr: self.expression(expr, before))
        return [*before, rebuild.map_blocks(new, self.block)]

    # --- expressions ------------------------------------------------------------------------

    def expression(self, expr: ir.Expr, before: list[ir.Stmt]) -> ir.Expr:
        if isinstance(expr, ir.Const | ir.Var):
            return expr
        expr = rebuild.map_operands(expr, lambda operand: self.expression(operand, before))
        if not isinstance(expr, ir.Call) or expr.function not in FORMS:
            return expr
        if expr.dtype.lanes > 1:
            return self.call(expr, before)
        if expr.function in PLAIN and expr.dtype in FORMATS:
            found = FORMS[expr.function].formula(*map(Vector, expr.args))
            return expr if isinstance(found, Rare) else found.expr
        return expr

    def call(self, call: ir.Call, before: list[ir.Stmt]) -> ir.Expr:
        formula = FORMS[call.function].chosen(self.exponents)
        found = formula(*map(Vector, call.args))
        if isinstance(found, Rare):
            return self.with_rare_lanes(call, found, before)
        return self.shared(call, (found.expr,), before)[0]

    def shared(
        self, call: ir.Call, parts: Sequence[ir.Expr], before: list[ir.Stmt]
    ) -> list[ir.Expr]:
        """The parts of a formula, with locals for what stands in them more than once (as the
        same object); the arguments of the call are not looked into."""
        leaves = {id(arg) for arg in call.args}
        uses = Counter[int]()
        for part in parts:
            _count_uses(part, leaves, uses)
        done: dict[int, ir.Expr] = {}

        def visit(node: ir.Expr) -> ir.Expr:
            if id(node) not in done:
                old = () if id(node) in leaves else ir.children(node)
                new = [visit(child) for child in old]
                made = node if rebuild.unchanged(old, new) else rebuild.rebuild(node, new, {})
                is_shared = uses[id(node)] > 1
                done[id(node)] = self.local(call.function, made, before) if is_shared else made
            return done[id(node)]

        return [visit(part) for part in parts]

    def local(self, name: str, expr: ir.Expr, before: list[ir.Stmt]) -> ir.Expr:
        """The expression as a local, where it is more than a name."""
        if isinstance(expr, ir.Const | ir.Var):
            return expr
        var = self.names.fresh(f"{name}_v")
        before.append(ir.Let(var, expr))
        return ir.Var(var, expr.dtype)

    def with_rare_lanes(self, call: ir.Call, found: Rare, before: list[ir.Stmt]) -> ir.Expr:
        """The common formula, and where some lanes need it the function itself, one by one."""
        dtype, lanes = call.dtype, call.dtype.lanes
        parts = (found.is_rare.expr, found.value.expr, *call.args)
        test, common, *args = self.shared(call, parts, before)
        rare = self.local(call.function, test, before)
        value, lane = self.names.fresh(f"{call.function}_v"), self.names.fresh("lane")
        memory, every = self.memory(dtype), ir.Ramp(_ZERO, 1, INT64.vector(lanes))
        rows, index = [ir.Const(row, INT64) for row in range(len(args))], ir.Var(lane, INT64)
        one = ir.Call(
            call.function,
            tuple(ir.Load(memory, (row, index), dtype.scalar) for row in rows),
            dtype.scalar,
        )
        exact = ir.Load(memory, (_ZERO, every), dtype)
        slow: tuple[ir.Stmt, ...] = (
            *(ir.Store(memory, (row, every), arg) for row, arg in zip(rows, args, strict=True)),
            ir.For(lane, _ZERO, ir.Const(lanes, INT64), (ir.Store(memory, (_ZERO, index), one),)),
            ir.Set(value, ir.Select(rare, exact, ir.Var(value, dtype), dtype)),
        )
        before += [ir.Let(value, common), ir.If(ir.Reduce("max", rare, BOOL), slow, rare=True)]
        return ir.Var(value, dtype)

    def memory(self, dtype: DType) -> str:
        """A scratch buffer for two vectors."""
        key = dtype.scalar, dtype.lanes
        if key not in self.scratch:
            shape = (2, dtype.lanes)
            name = self.names.fresh("lanes")
            self.scratch[key] = ir.Buffer(name, dtype.scalar, shape, ir.row_major(shape), "scratch")
        return self.scratch[key].name


_ZERO = ir.Const(0, INT64)


def _count_uses(expr: ir.Expr, leaves: set[int], uses: Counter[int]) -> None:
    """How often each object stands in an expression; those in leaves are not looked into."""
    uses[id(expr)] += 1
    if uses[id(expr)] == 1 and id(expr) not in leaves:
        for child in ir.children(expr):
            _count_uses(child, leaves, uses)
