"""Checks in blocks: loops that check, and do nothing else, are tests of whole blocks first.

    for n: if !(0 <= I[n] && I[n] < V): fail
        becomes, for each block of n, by any thread:
            failed = 0; for n in the block: failed = failed | (0 <= I[n] & I[n] < V ? 0 : 1)
            if failed: for n in the block: if !(0 <= I[n] && I[n] < V): fail

The tests of a block have no branches, so that compilers make vectors of them. What fails is found
by the loop as it was. A loop that computes something behind its checks is tested so, too, and has
vectors without checks for the blocks in which none fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tc.dtypes import BOOL, INT32, INT64, fits
from tc.kernel import ir
from tc.kernel.folding import TRUE, binary, integer, logical_not, select
from tc.kernel.intervals import Bounds, is_in_bounds, loop_interval
from tc.kernel.rebuild import LocalNames, Stmts, map_expressions, map_regions, substitute
from tc.kernel.walk import iterations, loads_in, names_in, stored_in

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
        let failed: int32 = int32(0)
        for n in n_block * 4096:min(n_block * 4096 + 4096, 9000)
          failed = failed | ((I[n] >= int32(0)) & (I[n] < int32(7)) ? int32(0) : int32(1))
        if failed != int32(0)
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


def test_blocks(kernel: ir.Kernel, lanes_bits: int) -> ir.Kernel:
    """The kernel with parallel loops around checks and what these guard in blocks: where no check
    of a block fails, its iterations are vectors of at most `lanes_bits` without checks."""
    if not kernel.sites or not lanes_bits:
        return kernel
    shapes = {buffer.name: buffer.shape for buffer in kernel.buffers}
    made = _CheckedLoops(kernel, _Checks(shapes, LocalNames(kernel)), lanes_bits)
    return map_regions(kernel, made.region)


@dataclass(frozen=True)
class _Block:
    """The iterations of a loop in blocks: the variable that counts these, and the begin and the end
    of one."""

    of_loop: ir.For
    var: str
    begin: ir.Expr
    end: ir.Expr

    @classmethod
    def of(cls, loop: ir.For, names: LocalNames) -> _Block:
        var = names.fresh(f"{loop.var}_block")
        first = binary("+", binary("*", ir.Var(var, INT64), integer(BLOCK)), loop.begin)
        end = binary("min", binary("+", first, integer(BLOCK)), loop.end)
        return cls(loop, var, first, end)

    def loop(self, body: Stmts) -> ir.For:
        """The loop over the blocks."""
        count = -(-len(iterations(self.of_loop)) // BLOCK)
        return ir.For(self.var, integer(0), integer(count), body, parallel=True)


@dataclass
class _CheckedLoops:
    kernel: ir.Kernel
    checks: _Checks
    lanes_bits: int

    def region(self, region: Stmts) -> Stmts:
        loops = [stmt for stmt in region if not isinstance(stmt, ir.Comment)]
        loop = loops[0] if len(loops) == 1 else None
        if not isinstance(loop, ir.For) or not loop.parallel or loop.mark:
            return region
        if len(iterations(loop)) <= BLOCK:
            return region
        found = self._unchecked(loop)
        if found is None:
            return region
        names, (tests, body) = self.checks.names, found
        failed, block = names.fresh("failed"), _Block.of(loop, names)
        held = ir.Var(failed, INT32)
        term = ir.Binary("|", held, select(tests, _ZERO, ir.Const(1, INT32)), INT32)
        own = replace(loop, begin=block.begin, end=block.end, parallel=False)
        count = len(iterations(loop))
        vectors = (
            self._vectors(loop, body, block)
            if count % BLOCK == 0
            else (*self._vectors(loop, body, block), *self._rest(loop, body, block))
        )
        whole = (
            ir.Let(failed, _ZERO),
            replace(own, body=(ir.Set(failed, term),)),
            ir.If(ir.Compare("==", held, _ZERO), vectors, (own,)),
        )
        blocks = block.loop(whole)
        return tuple(blocks if stmt is loop else stmt for stmt in region)

    def _lanes(self, body: Stmts) -> int:
        """The lanes of vectors of the widest elements that are loaded, computed or stored."""
        stored = {stmt.buffer for stmt in body if isinstance(stmt, ir.Store)}
        read = {load.buffer for load in loads_in(body)}
        bits = [b.dtype.computed.bits for b in self.kernel.buffers if b.name in stored | read]
        return self.lanes_bits // max(bits)

    def _vectors(self, loop: ir.For, body: Stmts, block: _Block) -> Stmts:
        """The iterations of a block in whole vectors."""
        lanes, names = self._lanes(body), self.checks.names
        step, lane = names.fresh(loop.var), names.fresh(f"{loop.var}_lane")
        begin = binary("+", block.begin, binary("*", ir.Var(step, INT64), integer(lanes)))
        at = binary("+", begin, ir.Var(lane, INT64))
        inner = tuple(
            map_expressions(stmt, lambda e: substitute(e, {loop.var: at}, {})) for stmt in body
        )
        vector = ir.For(lane, integer(0), integer(lanes), inner, mark="vector")
        count = binary("/", binary("-", block.end, block.begin), integer(lanes))
        return (ir.For(step, integer(0), count, (vector,)),)

    def _rest(self, loop: ir.For, body: Stmts, block: _Block) -> Stmts:
        """The iterations of a block that are no whole vector."""
        if len(iterations(loop)) % self._lanes(body) == 0:
            return ()
        count = binary("-", block.end, block.begin)
        rest = binary("%", count, integer(self._lanes(body)))
        begin = binary("-", block.end, rest)
        return (replace(loop, begin=begin, end=block.end, body=body, parallel=False),)

    def _unchecked(self, loop: ir.For) -> tuple[ir.Expr, Stmts] | None:
        """Whether no check of an iteration fails, and the iteration without checks; None where this
        is not known before the iterations."""
        stored = stored_in(loop.body)
        bounds = {loop.var: loop_interval(loop.begin, loop.end, {})}
        values: dict[str, ir.Expr] = {}  # of locals
        decided: dict[str, ir.Expr] = {}
        tests: ir.Expr = TRUE
        body: list[ir.Stmt] = []
        for stmt in loop.body:
            match stmt:
                case ir.Comment():
                    body.append(stmt)
                case ir.Let(var=var, value=value):
                    values[var] = substitute(value, values, {})
                    body.append(map_expressions(stmt, lambda e: substitute(e, decided, {})))
                case ir.If(condition=condition, then=(ir.Fail(),), otherwise=()):
                    holds = logical_not(substitute(condition, values, {}))
                    if isinstance(own := logical_not(condition), ir.Var):
                        decided[own.name] = TRUE
                    found = self.checks.as_values(holds, bounds)
                    if found is None or any(
                        node.buffer in stored
                        for node in ir.walk(holds)
                        if isinstance(node, ir.Load)
                    ):
                        return None
                    tests = _both(tests, found)
                case ir.Store(indices=indices) if _is_row(indices, loop.var):
                    body.append(map_expressions(stmt, lambda e: substitute(e, decided, {})))
                case _:
                    return None
        return None if tests == TRUE else (tests, tuple(body))


def _is_row(indices: Sequence[ir.Expr], var: str) -> bool:
    """Whether elements are next to each other for the values of a variable."""
    *outer, last = indices
    return last == ir.Var(var, INT64) and all(var not in names_in(index) for index in outer)


@dataclass
class _Checks:
    shapes: dict[str, tuple[int, ...]]
    names: LocalNames
    used: frozenset[str] = frozenset()
    """The locals that the region reads."""

    def region(self, region: Stmts) -> Stmts:
        loops = [stmt for stmt in region if not isinstance(stmt, ir.Comment)]
        loop = loops[0] if len(loops) == 1 else None
        if not isinstance(loop, ir.For) or loop.parallel or loop.mark:
            return region
        count = len(iterations(loop))
        if count <= BLOCK:
            return region
        read = (names_in(e) for stmt in ir.statements(region) for e in ir.own_expressions(stmt))
        self.used = frozenset().union(*read)
        whole = self.names.fresh("failed")
        bounds = {loop.var: loop_interval(loop.begin, loop.end, {})}
        tests = self._tested(loop.body, bounds, whole)
        if tests is None:
            return region
        block = _Block.of(loop, self.names)
        own = replace(loop, begin=block.begin, end=block.end)
        body = (
            ir.Let(whole, _ZERO),
            replace(own, body=tests),
            ir.If(ir.Compare("!=", ir.Var(whole, INT32), _ZERO), (own,), rare=True),
        )
        blocks = block.loop(body)
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
                case ir.Let(var=var, value=ir.Const()) | ir.Set(var=var, value=ir.Const()) if (
                    var not in self.used
                ):
                    continue
                case ir.Fail():
                    return ir.Const(False, BOOL)
                case ir.If(condition=condition, then=then, otherwise=otherwise):
                    own = self.as_values(condition, bounds, read)
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

    def as_values(
        self, condition: ir.Expr, bounds: Bounds, read: frozenset[ir.Expr] = frozenset()
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
