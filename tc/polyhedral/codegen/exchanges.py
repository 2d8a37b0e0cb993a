"""Code by which the threads of a block combine accumulators that each has for itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tc.affine.forms import Form, LinearForm, constant_form
from tc.dtypes import INT64, DType
from tc.kernel import ir
from tc.kernel.folding import binary, compare, integer, of_form
from tc.kernel.ir import Expr, For, Load, Stmt, Store, Var
from tc.plan import AXES, THREAD
from tc.polyhedral.codegen.context import EmitScope, guarded
from tc.polyhedral.codegen.thread_sums import Axes, Exchange, exchange_of

MOST_UNROLLED = 32
"""Partial results of a group that are combined by straight-line code; more are by a loop."""


def exchange_in(axes: Axes, state: EmitScope) -> Exchange:
    """The exchange along some axes in the launch of a state."""
    launch = state.kernel.launch
    assert launch is not None
    return exchange_of(axes, {axis: launch.indices[THREAD, axis].count for axis in AXES})


class ThreadExchange:
    """The exchange of the accumulators of a box, `extents` elements, of each thread: `given` makes
    statements by which a thread gives an accumulator away, `taken` those by which it gets the
    result."""

    def __init__(
        self,
        name: str,
        op: str,
        dtype: DType,
        extents: tuple[int, ...],
        axes: Axes,
        state: EmitScope,
    ) -> None:
        self.op, self.dtype, self.state = op, dtype, state
        self.exchange = exchange_in(axes, state)
        self.buffer: str | None = None
        if self.exchange.partials > 1:
            shape = (*extents, self.exchange.partials, self.exchange.groups)
            self.buffer = state.kernel.add_buffer(name, "shared", dtype, shape)

    def given(self, value: Expr, cell: tuple[Expr, ...]) -> tuple[tuple[Stmt, ...], Expr]:
        """The statements, and the value that all threads of a warp (or of less) have then."""
        stmts: list[Stmt] = []
        lanes = self.exchange.lanes
        if lanes > 1:
            own = Var(self.state.kernel.names.fresh("acc", self.dtype), self.dtype)
            stmts.append(ir.Let(own.name, ir.WarpReduce(self.op, value, lanes, self.dtype)))
            value = own
        if self.buffer is not None:
            rank = of_form(self._number(inside=True))
            tests = []
            if lanes > 1:
                tests.append(compare("==", binary("%", rank, integer(lanes)), integer(0), {}))
                rank = binary("/", rank, integer(lanes))
            group = of_form(self._number(inside=False))
            stmts += guarded(tests, (Store(self.buffer, (*cell, rank, group), value),))
        return tuple(stmts), value

    def taken(self, cell: tuple[Expr, ...]) -> tuple[tuple[Stmt, ...], Expr]:
        """The statements after a barrier, and the result, which all threads have."""
        assert self.buffer is not None
        names, group = self.state.kernel.names, of_form(self._number(inside=False))
        total = Var(names.fresh("acc", self.dtype), self.dtype)
        place = names.fresh("c0", INT64)

        def partial(number: Expr) -> Load:
            assert self.buffer is not None
            return Load(self.buffer, (*cell, number, group), self.dtype)

        count = self.exchange.partials
        step = ir.Set(total.name, binary(self.op, total, partial(Var(place, INT64))))
        mark = "unroll" if count <= MOST_UNROLLED else ""
        stmts: tuple[Stmt, ...] = (
            ir.Let(total.name, partial(integer(0))),
            For(place, integer(1), integer(count), (step,), mark=mark),
        )
        return stmts, total

    def _number(self, *, inside: bool) -> LinearForm:
        """The number of a thread in its group, or that of its group."""
        launch = self.state.kernel.launch
        assert launch is not None
        number, factor = constant_form(0), 1
        for axis in AXES:
            count = self.exchange.sizes[axis]
            if (axis in self.exchange.axes) == inside and count > 1:
                number += Form(0, {launch.indices[THREAD, axis].var: factor})
                factor *= count
        return number


def first_of(axes: Iterable[str], state: EmitScope) -> Iterator[Expr]:
    """The tests of the thread that has the number 0 along some axes."""
    launch = state.kernel.launch
    for axis in AXES:
        if axis in axes:
            assert launch is not None
            number = Var(launch.indices[THREAD, axis].var, INT64)
            yield compare("==", number, integer(0), {})
