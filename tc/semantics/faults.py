"""The errors of checked reads and divisions that fail while a program runs (G7, Y4).

The interpreter and every checked backend raise these, so that a failure reads the same wherever
it was found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tc.dtypes import BOOL
from tc.errors import AccessError, Facts, RangeError
from tc.semantics.affine import MAX_PIECES, pieces
from tc.semantics.program import Binary, Call, Expr, Read, Statement, walk
from tc.semantics.suggest import unused


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


def write_error(
    statement: Statement,
    target: str,
    indices: Mapping[str, int],
    place: Sequence[int],
    shape: Sequence[int],
) -> AccessError:
    """A place outside of the target of a statement, at one of its instances (S5)."""
    axis = next((a for a, s in enumerate(place) if not 0 <= s < shape[a]), 0)
    subscript = statement.subscripts[axis].span.line
    name = written_name(statement, target)
    return AccessError(
        f"{_instance(statement, indices)} writes {name}({', '.join(map(str, place))}), but {name} "
        f"has shape ({', '.join(map(str, shape))}){_axis(axis, len(shape), shape)}",
        rule="S5",
        span=statement.subscripts[axis].span,
        repair=f"correct the data in '{subscript}'; to drop what lies outside: "
        f"where 0 <= {subscript}, {subscript} < {name}.{axis}",
        facts=Facts("write", tuple(indices.items()), tuple(place), tuple(shape)),
    )


def twice(
    statement: Statement, place: str, first: Mapping[str, int], second: Mapping[str, int]
) -> RangeError:
    """A place that is affine, and that two instances of a plain `=` write (S2)."""
    shown = f"{written_name(statement, statement.target)}({place})"
    return RangeError(
        _both(statement, shown, first, second),
        rule="S2",
        span=statement.span,
        idiom=_choices(statement),
    )


def twice_error(
    statement: Statement,
    place: Sequence[int],
    first: Mapping[str, int],
    second: Mapping[str, int],
) -> AccessError:
    """A place that data decide, and that two instances of a plain `=` write (S2)."""
    name = written_name(statement, statement.target)
    shown = f"{name}({', '.join(map(str, place))})"
    return AccessError(
        _both(statement, shown, first, second),
        rule="S2",
        span=statement.span,
        idiom=_choices(statement),
        facts=Facts("twice", tuple(second.items()), tuple(place)),
    )


def written_name(statement: Statement, target: str) -> str:
    """A target as the text of its statement names it, which may be that of a def that is called."""
    depth, names = 0, []
    for part in re.findall(r"[()]|\w+", statement.span.line):
        depth += {"(": 1, ")": -1}.get(part, 0)
        if depth == 0 and part != ")":
            names.append(part)
    position = statement.targets.index(target)
    return names[position] if position < len(names) else target.rpartition(".")[2]


def _both(
    statement: Statement, place: str, first: Mapping[str, int], second: Mapping[str, int]
) -> str:
    return (
        f"{statement.name}, {statement.text}, writes {place} in the instance {_values(first)}, and "
        f"in the instance {_values(second)}; '=' writes each element once"
    )


def _choices(statement: Statement) -> str:
    """The ways to say which of several values counts."""
    left = f"({', '.join(s.span.line for s in statement.subscripts)})"
    names = [written_name(statement, target) for target in statement.targets]
    targets = ", ".join(name + left for name in names)
    values = ", ".join(value.span.line for value in statement.values)
    at, index = unused("at", statement.span), statement.outer[0] if statement.outer else "0"
    return (
        f"{targets} +=! {values}, for the sum of all; {at}{left}, {targets} min=! {index}, "
        f"{values}, for the first of them"
    )


def range_error(
    statement: Statement,
    variable: str,
    indices: Mapping[str, int],
    ends: tuple[int, int],
    box: tuple[int, int],
) -> AccessError:
    """A range that data decide, and that is none, or leaves its box (W3)."""
    clause = statement.clause_of(variable)
    assert clause is not None
    begin, end = ends
    at = f" at {_values(indices)}" if indices else ""
    why = (
        "which ends before it begins"
        if end < begin
        else f"but the accesses of '{variable}' allow {box[0]}:{box[1]}"
    )
    return AccessError(
        f"{statement.name}, {statement.text}, gives '{variable}' the range {begin}:{end}{at}, "
        f"{why}",
        rule="W3",
        span=clause.span,
        repair=f"correct the data in '{clause.span.line}'"
        if any(isinstance(n, Read) for bound in (clause.begin, clause.end) for n in walk(bound))
        else f"end it where its accesses do: min({clause.end.span.line}, {box[1]}), here",
        facts=Facts("range", tuple(indices.items()), ends),
    )  # fmt: skip


def _values(indices: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in indices.items())


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
    values = _values(indices)
    return f"{statement.name}, {statement.text}," + (f" at {values}," if values else "")


def _axis(axis: int, rank: int, shape: Sequence[int]) -> str:
    if shape[axis] == 0:
        return f": dimension {axis} is empty" if rank > 1 else ": it is empty"
    legal = f"0 to {shape[axis] - 1}" if shape[axis] > 1 else "0"
    return f": subscript {axis} must be {legal}" if rank > 1 else f": the subscript must be {legal}"
