"""Checks in blocks: loops that check, and do nothing else, are tests of whole blocks first.

    for n: if !(0 <= I[n] && I[n] < V): fail
        becomes, for each block of n, by any thread:
            all = true; for n in the block: all = all & 0 <= I[n] & I[n] < V
            if !all: for n in the block: if !(0 <= I[n] && I[n] < V): fail

The tests of a block have no branches, so that compilers make vectors of them. What fails is found
by the loop as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tc.dtypes import BOOL, INT32, INT64, fits
from tc.kernel import ir
from tc.kernel.folding import TRUE, binary, integer, logical_not, select
from tc.kernel.intervals import Bounds, is_in_bounds, loop_interval
from tc.kernel.rebuild import LocalNames, Stmts, map_regions
from tc.kernel.walk import iterations

_ZERO = ir.Const(0, INT32)

BLOCK = 4096
"""The iterations of a block: of two arrays of int64 a block is as large as a first cache."""


def check_in_blocks(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with regions that are loops around checks in blocks.

    >>> from tc.kernel.printer import to_text
    >>> from tc.kernel.folding import cast
    >>> n = ir.Var("n", INT64)
    >>> place = cast(ir.Load("I", (n,), INT32), INT64)
    >>> beyond = ir.If(ir.Compare("<", place, integer(7)), (), (ir.Fail(0, (n, place)),))
    >>> test = ir.If(ir.Compare(">=", place, integer(0)), (beyond,), (ir.Fail(0, (n, place)),))
    >>> kernel = ir.Kernel("f", (ir.Buffer("I", INT32, (9000,), (1,), "input"),),
    ...                    ((ir.For("n", integer(0), integer(9000), (test,)),),),
    ...                    (ir.Site("write", 0, -2, ("n",)),))
    >>> print(to_text(check_in_blocks(kernel)))
    kernel f
      input I: int32[9000]
      site 0: write -2 of S0 at (n)
    region
      parallel for n_block in 0:3
        let all: bool = true
        for n in n_block * 4096:min(n_block * 4096 + 4096, 9000)
          all = all & ((I[n] >= int32(0)) & (I[n] < int32(7)))
        if !all
          for n in n_block * 4096:min(n_block * 4096 + 4096, 9000)
            if int64(I[n]) >= 0
              if int64(I[n]) < 7
              else
                fail 0 (n, int64(I[n]))
            else
              fail 0 (n, int64(I[n]))
    """
    if not kernel.sites:
        return kernel
    shapes = {buffer.name: buffer.shape for buffer in kernel.buffers}
    return map_regions(kernel, lambda region: _Checks(shapes, LocalNames(kernel)).region(region))


@dataclass
class _Checks:
    shapes: dict[str, tuple[int, ...]]
    names: LocalNames

    def region(self, region: Stmts) -> Stmts:
        loops = [stmt for stmt in region if not isinstance(stmt, ir.Comment)]
        loop = loops[0] if len(loops) == 1 else None
        if not isinstance(loop, ir.For) or loop.parallel or loop.mark:
            return region
        count = len(iterations(loop))
        if count <= BLOCK:
            return region
        whole = self.names.fresh("all")
        bounds = {loop.var: loop_interval(loop.begin, loop.end, {})}
        tests = self._tested(loop.body, bounds, whole)
        if tests is None:
            return region
        block = self.names.fresh(f"{loop.var}_block")
        first = binary("*", ir.Var(block, INT64), integer(BLOCK))
        first = binary("+", first, loop.begin)
        end = binary("min", binary("+", first, integer(BLOCK)), loop.end)
        own = replace(loop, begin=first, end=end)
        body = (
            ir.Let(whole, _ZERO),
            replace(own, body=tests),
            ir.If(ir.Compare("!=", ir.Var(whole, INT32), _ZERO), (own,), rare=True),
        )
        blocks = ir.For(block, integer(0), integer(-(-count // BLOCK)), body, parallel=True)
        return tuple(blocks if stmt is loop else stmt for stmt in region)

    def _tested(self, body: Stmts, bounds: Bounds, whole: str) -> Stmts | None:
        """Statements that clear the local `whole` where a check of a body fails; None where the
        body does more than check, or its tests may not be made one without the other."""
        stmts = [stmt for stmt in body if not isinstance(stmt, ir.Comment)]
        if len(stmts) == 1 and isinstance(stmts[0], ir.For):
            loop = stmts[0]
            if loop.parallel or loop.mark:
                return None
            inner = {**bounds, loop.var: loop_interval(loop.begin, loop.end, bounds)}
            tests = self._tested(loop.body, inner, whole)
            return None if tests is None else (replace(loop, body=tests),)
        holds = self._holds(stmts, bounds, frozenset())
        if holds is None:
            return None
        held, failed = ir.Var(whole, INT32), select(holds, _ZERO, ir.Const(1, INT32))
        return (ir.Set(whole, ir.Binary("|", held, failed, INT32)),)

    def _holds(
        self, stmts: Sequence[ir.Stmt], bounds: Bounds, read: frozenset[ir.Expr]
    ) -> ir.Expr | None:
        """Whether no check of some statements fails, as an expression without branches; `read` are
        the elements that were read before. None where that may read what the statements do not."""
        found: ir.Expr = TRUE
        for stmt in stmts:
            match stmt:
                case ir.Comment():
                    continue
                case ir.Fail():
                    return ir.Const(False, BOOL)
                case ir.If(condition=condition, then=then, otherwise=otherwise):
                    own = self._as_values(condition, bounds, read)
                    if own is None:
                        return None
                    seen = read | {n for n in ir.walk(condition) if isinstance(n, ir.Load)}
                    kept, left = (self._holds(s, bounds, seen) for s in (then, otherwise))
                    if kept is None or left is None:
                        return None
                    found = _both(found, _either(own, kept, left))
                case _:
                    return None
        return found

    def _as_values(
        self, condition: ir.Expr, bounds: Bounds, read: frozenset[ir.Expr]
    ) -> ir.Expr | None:
        """A condition of which all parts may be computed, as these are defined in any case."""
        for node in ir.walk(condition):
            match node:
                case ir.Load(buffer=buffer, indices=indices) if node not in read:
                    if not is_in_bounds(indices, self.shapes[buffer], bounds):
                        return None
                case ir.Binary(op="/" | "%") | ir.Call():
                    return None
        return _narrowed(condition)


def _narrowed(condition: ir.Expr) -> ir.Expr:
    """A condition without branches, of which comparisons of an int32 with a number are of int32."""
    match condition:
        case ir.Logical(op="!", operands=(operand,)):
            return logical_not(_narrowed(operand))
        case ir.Logical(op=op, operands=(left, right)):
            both = (_narrowed(left), _narrowed(right))
            return ir.Binary("&" if op == "&&" else "|", *both, BOOL)
        case ir.Compare(
            op=op,
            left=ir.Cast(operand=operand, dtype=dtype),
            right=ir.Const(value=value),
        ) if dtype == INT64 and operand.dtype == INT32 and fits(int(value), INT32):
            return ir.Compare(op, operand, ir.Const(value, INT32))
    return condition


def _both(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    if left == TRUE or right == TRUE:
        return right if left == TRUE else left
    return ir.Binary("&", left, right, BOOL)


def _either(condition: ir.Expr, then: ir.Expr, otherwise: ir.Expr) -> ir.Expr:
    """`condition ? then : otherwise` without a branch."""
    if then == otherwise == TRUE:
        return TRUE
    if otherwise == ir.Const(False, BOOL):
        return _both(condition, then)
    if then == ir.Const(False, BOOL):
        return _both(logical_not(condition), otherwise)
    not_then = ir.Binary("|", logical_not(condition), then, BOOL)
    not_otherwise = ir.Binary("|", condition, otherwise, BOOL)
    return ir.Binary("&", not_then, not_otherwise, BOOL)
