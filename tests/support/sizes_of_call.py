"""Shaping a text at given sizes, without arrays."""

from __future__ import annotations

import pytest

from tc.errors import RangeError
from tc.frontend.parser import parse
from tc.semantics.check.checker import check
from tc.semantics.program import Literal, Program, ShapedProgram, Size, walk
from tc.semantics.ranges.range_inference import infer_ranges
from tc.semantics.ranges.symbolic import to_text
from tc.source import Source


def program_of(text: str, entry: str | None = None) -> Program:
    module = parse(Source(text, "test.tc"))
    return check(module, entry or module.defs[-1].name.text)


def shapes_of(program: Program, sizes: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """Shapes of the inputs as declared; `sizes` gives the size variables."""
    shapes = {}
    for name in program.inputs:
        dims = []
        for dim in program.tensors[name].shape or ():
            match dim:
                case Literal(value=value):
                    dims.append(int(value))
                case Size(name=size):
                    dims.append(sizes[size])
        shapes[name] = tuple(dims)
    return shapes


def shape(text: str, entry: str | None = None, **sizes: int) -> ShapedProgram:
    """The text shaped; `sizes` gives the size variables and the integer scalars by name."""
    program = program_of(text, entry)
    scalars = {name: sizes[name] for name in program.static_scalars}
    return infer_ranges(program, shapes_of(program, sizes), scalars)


def attempt(text: str, **sizes: int) -> ShapedProgram | RangeError:
    """The text shaped, or the error that says why it cannot be."""
    try:
        return shape(text, **sizes)
    except RangeError as error:
        return error


def ranges(shaped: ShapedProgram, statement: int = 0) -> dict[str, tuple[int, int]]:
    """The ranges of a statement by variable."""
    return {n: (r.begin, r.end) for n, r in shaped.statements[statement].ranges.items()}


def range_texts(shaped: ShapedProgram, statement: int = 0) -> dict[str, str | None]:
    """The symbolic ranges of a statement by variable, "begin:end"."""
    texts = {}
    for name, found in shaped.statements[statement].ranges.items():
        begin, end = found.symbolic_begin, found.symbolic_end
        is_known = begin is not None and end is not None
        texts[name] = f"{to_text(begin)}:{to_text(end)}" if is_known else None
    return texts


def checked_texts(shaped: ShapedProgram, statement: int = 0) -> set[str]:
    """The texts of the reads and divisions of a statement that are checked at run time."""
    found = shaped.statements[statement]
    return {
        " ".join(node.span.text.split())
        for node in walk(found.statement.rhs)
        if getattr(node, "site", -1) in found.checked
    }


def refused(text: str, **sizes: int) -> RangeError:
    """The error about a text at sizes at which its ranges cannot be."""
    with pytest.raises(RangeError) as caught:
        shape(text, **sizes)
    error = caught.value
    assert error.span is not None
    assert error.repair or error.idiom
    return error
