"""The errors of checked reads and divisions that fail while a program runs (G7, Y4).

The interpreter and every checked backend raise these, so that a failure reads the same wherever
it was found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tc.dtypes import BOOL
from tc.errors import AccessError, Facts
from tc.semantics.affine import MAX_PIECES, pieces
from tc.semantics.program import Binary, Call, Expr, Read, Statement, walk


def read_error(
    statement: Statement,
    read: Read,
    indices: Mapping[str, int],
    subscripts: Sequence[int],
    shape: Sequence[int],
) -> AccessError:
    """A read that left its tensor, at one instance of a statement (G7).

    `indices` are the values of the index variables, `subscripts` the place that was read.
    """
    axis = next((a for a, s in enumerate(subscripts) if not 0 <= s < shape[a]), 0)
    place = ", ".join(map(str, subscripts))
    many = _many_pieces(read.subscripts[axis])
    zero = "bool(0)" if read.dtype == BOOL else "0"
    return AccessError(
        f"{_instance(statement, indices)} reads {read.tensor}({place}), but {read.tensor} has"
        f" shape ({', '.join(map(str, shape))}){_axis(axis, len(shape), shape)}{many}",
        rule="G7",
        span=read.span,
        repair=f"write pad({read.span.text}, {zero})"
        if many
        else f"correct the subscript's data, or write pad({read.span.text}, {zero})",
        facts=Facts("read", tuple(indices.items()), tuple(subscripts), tuple(shape)),
    )


def division_error(
    statement: Statement, division: Binary, indices: Mapping[str, int]
) -> AccessError:
    """An integer division, or remainder, by zero at one instance of a statement (Y4)."""
    divisor, whole = division.right.span.text, division.span.text
    zero = _constant_infinity(division)
    tested = f"({divisor})" if set(divisor) & set("?&|<>=!") else divisor
    return AccessError(
        f"{_instance(statement, indices)} divides by zero: {divisor} is 0",
        rule="Y4",
        span=division.span,
        paste=zero,
        idiom=None
        if zero
        else f"({tested} == 0 ? 0 : {whole}), with what the quotient is to be there for the 0",
        facts=Facts("division", tuple(indices.items())),
    )


def _constant_infinity(division: Binary) -> str | None:
    """The infinity or NaN that a division of literals by 0 is in languages of floats."""
    left, right = division.left.span.text, division.right.span.text
    if division.op != "/" or right != "0" or not left.lstrip("-+ ").isdecimal():
        return None
    return f"({left}.0 / 0.0)"


def _many_pieces(subscript: Expr) -> str:
    """That a subscript without data is checked only here because of its many pieces (G2)."""
    count = pieces(subscript)
    if count <= MAX_PIECES or any(isinstance(node, Read | Call) for node in walk(subscript)):
        return ""
    return (
        f"; with {count} of / % min max ?: and conditions, more than {MAX_PIECES}, the subscript "
        "does not count as affine and is checked only here"
    )


def _instance(statement: Statement, indices: Mapping[str, int]) -> str:
    """The statement by number and text, and the instance: `S0, o(i) = x(I(i)), at i = 3,`"""
    values = ", ".join(f"{name} = {value}" for name, value in indices.items())
    return f"{statement.name}, {statement.text}," + (f" at {values}," if values else "")


def _axis(axis: int, rank: int, shape: Sequence[int]) -> str:
    if shape[axis] == 0:
        return f": dimension {axis} is empty" if rank > 1 else ": it is empty"
    legal = f"0 to {shape[axis] - 1}" if shape[axis] > 1 else "0"
    return f": subscript {axis} must be {legal}" if rank > 1 else f": the subscript must be {legal}"
