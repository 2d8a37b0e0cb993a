"""Reading what is gathered: the read that finds an element, at a place that is known."""

from __future__ import annotations

from tc.affine.forms import LinearForm
from tc.kernel.folding import of_form
from tc.kernel.ir import Expr, Stmt
from tc.polyhedral.codegen.context import EmitScope
from tc.polyhedral.codegen.expressions import Scope, StatementBuilder, lower_expression
from tc.polyhedral.footprint import Box
from tc.polyhedral.scop.scop import Gather
from tc.semantics import program as p


def gathered(
    gather: Gather, element: tuple[LinearForm, ...], state: EmitScope
) -> tuple[tuple[Stmt, ...], Expr]:
    """An element, in the type of computation, read from memory; and what must run before."""
    kernel = state.kernel
    places = {
        own.name: of_form(form.times(own.step).shifted(own.first))
        for own, form in zip(gather.dimensions, element, strict=True)
    }
    scope = Scope(
        kernel.scop.shaped,
        0,
        places,
        frozenset(),
        kernel.names,
        dict(state.bounds),
        kernel.sites,
        lambda _expr, _block: None,
        lambda _read: None,
    )
    block = StatementBuilder(scope)
    value = lower_expression(gather.value, block)
    return tuple(block.stmts), value


def contiguous_dimension(gather: Gather, found: Box, state: EmitScope) -> int:
    """The dimension of a box of what is gathered along which memory is contiguous: that of the
    tensor itself or, if its places come from others, of one of these; -1 if none is."""
    numbers = {own.name: number for number, own in enumerate(gather.dimensions)}
    for read in p.walk(gather.value):
        if isinstance(read, p.Read):
            strides = state.kernel.buffers[read.tensor].strides
            for subscript, stride in zip(read.subscripts, strides, strict=True):
                if stride == 1 and isinstance(subscript, p.Index):
                    number = numbers[subscript.name]
                    if found.sizes[number] > 1:
                        return number
    return -1
