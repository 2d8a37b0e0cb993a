"""The errors of computed places and of size clauses (S4)."""

from __future__ import annotations

import functools

from tc.errors import RangeError
from tc.semantics import affine
from tc.semantics import program as p
from tc.semantics.affine import linear_form
from tc.semantics.faults import written_name
from tc.semantics.program import index_names
from tc.semantics.ranges.range_errors import size_text, written_where
from tc.semantics.ranges.rounds import ShapingContext, resolve
from tc.semantics.size_values import evaluate


def no_shape(context: ShapingContext) -> RangeError:
    """The error for a target of which a place that data decide gives no size (S4)."""
    statement = context.statement
    sized = {(clause.target, clause.axis) for clause in statement.sizes}
    missing = [
        (target, axis)
        for target in statement.targets
        for axis, subscript in enumerate(statement.subscripts)
        if target not in context.known.shapes
        and (target, axis) not in sized
        and not affine.is_affine(subscript, context.known)
    ]
    if not missing:
        clause = next(c for c in statement.sizes if evaluate(c.value, context.known) is None)
        return RangeError(
            f"'{clause.span.line}' has no value here: it divides by zero, or is more than 2**62",
            rule="S4",
            span=clause.span,
            repair="write a size that it has for all calls, such as one of max(..., 1) below a /",
        )
    own = {target: written_name(statement, target) for target in statement.targets}
    sizes = [f"{size}" for size, _ in zip("NMKLPQ", statement.subscripts, strict=False)]
    clauses = ", ".join(f"{own[target]}.{axis} = {sizes[axis % 6]}" for target, axis in missing)
    target, axis = missing[0]
    tensor, name, place = context.tensors[target], own[target], statement.subscripts[axis]
    why = f"the data in '{place.span.line}' decide where the statement writes"
    if not any(isinstance(node, p.Read) for node in p.walk(place)):
        why = f"'{place.span.line}' is not affine"
    declared = f"or -> ({tensor.dtype}({', '.join(sizes)}) {name}), a declared return; "
    return RangeError(
        f"nothing gives the size of dimension {axis} of '{name}': {why}",
        rule="S4",
        span=place.span,
        idiom=f"where {clauses}, in this statement; "
        f"{declared if tensor.role == 'output' else ''}"
        f"or another statement that writes all of '{name}'",
    )


def below_zero(context: ShapingContext, axis: int, least: int) -> RangeError:
    """The error for an affine place below 0 (S4)."""
    statement = context.statement
    place, name = statement.subscripts[axis], written_name(statement, statement.target)
    error = functools.partial(
        RangeError,
        f"the place '{place.span.line}' is as low as {least}, and '{name}' has no elements below 0",
        rule="S4",
        span=place.span,
    )
    if not index_names(place):
        return error(
            idiom=f"N - {-least}, with the size of '{name}' for N, which counts from the end"
        )
    form, ranges = linear_form(place, context.known), resolve(context).ranges
    if form is not None and len(form.terms) == 1:
        ((variable, factor),) = form.terms.items()
        begin, own = -(form.constant // factor), ranges[variable]
        if factor > 0 and own.begin < begin < own.end:
            end = size_text(context, own.symbolic_end, own.end)
            where, edits = written_where(context, {variable: f"{begin}:{end}"})
            return error(repair=f"leave out what lies there: {where}", edits=edits)
    return error(
        repair=f"add {-least} to it, or start the ranges of its variables later, with a 'where'"
    )


def other_size(context: ShapingContext, clause: p.SizeClause, extent: int) -> RangeError:
    """The error for a size clause that contradicts what gives the size otherwise (S4)."""
    value = evaluate(clause.value, context.known)
    fixed = context.fixed_by.get(clause.target)
    return RangeError(
        f"'{clause.span.line}' says the size {value}, and dimension {clause.axis} of "
        f"'{written_name(context.statement, clause.target)}' has size {extent}",
        rule="S4",
        span=clause.span,
        repair="remove the clause, or give both one size",
        notes=((fixed, "the size is fixed here"),) if fixed is not None else (),
    )


def negative_size(context: ShapingContext, clause: p.SizeClause, size: int) -> RangeError:
    """The error for a size clause that says a size below 0 (S4)."""
    return RangeError(
        f"'{clause.span.line}' is {size} here, a size below 0, in '{context.statement.span.line}'",
        rule="S4",
        span=clause.span,
        repair=f"{clause.span.line.partition('=')[0].strip()} = max(0, "
        f"{clause.value.span.line}), if there may be none",
    )
