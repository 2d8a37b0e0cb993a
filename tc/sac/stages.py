"""What the notation of SaC tells of a program before tc's own stages: which levels of its inputs a
result needs, which bounds its partitions have and why, and the program without comprehensions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tabulate import tabulate

from tc.dtypes import Weak
from tc.errors import TCError
from tc.sac.arguments import GivenInput
from tc.sac.desugaring import desugared
from tc.sac.levels.demand import demand_of
from tc.sac.levels.expressions import evaluate, execute
from tc.sac.levels.loops import LoopValue
from tc.sac.levels.partitions import Partition
from tc.sac.levels.values import Context, Level, Shape, Value, shown
from tc.sac.program import Program, traced
from tc.sac.reference import compute_loop
from tc.sac.text.format import print_module


def stage_texts(program: Program, given: list[GivenInput], def_text: str) -> Mapping[str, str]:
    """The texts of SaC's stages (`tc.stages.SAC_STAGES`) by name, for these inputs; `def_text` is
    the text of the def that they are lowered to."""
    return traced(lambda: _stage_texts(program, given, def_text))


def _stage_texts(program: Program, given: list[GivenInput], def_text: str) -> dict[str, str]:
    functions = {d.name.text: d for d in program.module.definitions}
    results = program.values(given, Context(functions, evaluate, execute, compute_loop))
    return {
        "levels": "\n".join(_levels(program, given, results)),
        "bounds": "\n".join(_bounds(results)) or "there is no comprehension, and no with-loop",
        "desugared": print_module(desugared(program.module)).rstrip("\n"),
        "def": def_text.rstrip("\n"),
    }


# --- levels -----------------------------------------------------------------------------------


def _levels(program: Program, given: list[GivenInput], results: Sequence[Value]) -> Iterator[str]:
    kind = "expression" if program.definition is None else program.name
    yield f"{kind} ({program.module.source.name})"
    yield ""
    levels = (Level.F, Level.S, Level.D)
    needed = {at: demand_of(program.module, program.definition, at) for at in levels}
    rows = [
        (g.name, _type_text(g), _shape_text(g.shape), *(needed[at][g.name].name for at in levels))
        for g in given
    ]
    if rows:
        head = ("input", "type", "shape", "value takes", "shape takes", "rank takes")
        yield _table(head, rows)
        yield ""
        yield "What the value, the shape and the rank of a result take of each input (C24):"
        yield "F its value, S its shape, D its rank, N nothing."
        yield ""
    found = [
        (name, value.type.alone.name, _shape_text(value.shape))
        for name, value in zip(program.result_names, results, strict=True)
    ]
    yield _table(("result", "type", "shape"), found)


def _type_text(given: GivenInput) -> str:
    if isinstance(given.dtype, Weak):
        return "weak float" if given.dtype is Weak.FLOAT else "weak int"
    return given.dtype.name


def _shape_text(shape: Shape) -> str:
    return " x ".join(map(str, shape)) or "scalar"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    return str(tabulate(rows, head, tablefmt="simple", disable_numparse=True))


# --- bounds -----------------------------------------------------------------------------------


def _bounds(results: Sequence[Value]) -> Iterator[str]:
    """Each comprehension and with-loop that a result needs, in the order of the text."""
    loops = sorted(_loops(results), key=lambda loop: (loop.span.start, -loop.span.end))
    told = dict.fromkeys("\n".join(_loop_lines(loop)) for loop in loops)
    if any(_begins_at_zero(part) for loop in loops for part in loop.parts):
        yield "A lower bound that is not written is 0 (C16)."
        yield ""
    yield from iter("\n\n".join(told).split("\n") if told else ())


def _loops(results: Sequence[Value]) -> Iterator[LoopValue]:
    stack, seen = list(results), set[int]()
    while stack:
        value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, LoopValue):
            yield value
        try:
            stack += [operand for operand, _ in value.needs(Level.F)]
        except TCError:  # of a part that no instance needs
            continue


def _loop_lines(loop: LoopValue) -> Iterator[str]:
    line, column = loop.span.source.position(loop.span.start)
    yield f"at {line}:{column}: {loop.span.line}"
    shape = _told(lambda: f"its shape is {shown(loop.shape)}", "its shape depends on an index")
    yield f"  {shape}"
    for part in loop.parts:
        yield f"  {_range_text(part)}"
        yield from (f"    {line}" for line in _reasons(part))


def _range_text(part: Partition) -> str:
    def known() -> str:
        return (
            f"{part.pattern_text}: {shown(part.lower)} <= {part.index_text} < {shown(part.upper)}"
        )

    unknown = f"{part.pattern_text}: the bounds depend on an index around it"
    return _told(known, unknown)


def _reasons(part: Partition) -> Iterator[str]:
    """Why the bounds of a partition are what they are."""
    written = part.generator.span.line if part.generator is not None else ""
    if written:
        yield f"written: {written}"
    if part.upper_value is not None or part.has_upper:
        return
    if not part.is_inferred:
        names = ", ".join(part.unbounded)
        yield f"no upper bound is written, and no selection bounds {names}: the edge (C16)"
        return
    for bound in part.found:
        if bound.rank is not None:
            sizes = shown(bound.sizes) if bound.axis is None else str(bound.sizes[0])
            yield f"{bound.name} selects from {bound.array_text}: {bound.text} = {sizes} (C15)"


def _begins_at_zero(part: Partition) -> bool:
    """Whether no lower bound is written."""
    return part.lower_value is None and (part.generator is None or part.generator.lower is None)


def _told(tell: Any, otherwise: str) -> str:
    """What is told, or `otherwise` where an index decides it."""
    try:
        return str(tell())
    except TCError:
        return otherwise


__all__ = ["stage_texts"]
