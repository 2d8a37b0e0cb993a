"""What tc made of a program at given sizes, as a value whose text reads as an explanation.

Its stages are those of the compiler. The first, "ranges", tells per statement the kind of each
variable, its range as numbers and as an expression of the sizes, the accesses that fixed it, the
reduction, and the work; the shapes and dtypes of all tensors, and the preconditions that were
checked (G6). Most others are told by `tc.polyhedral.narrative`; the last is the backend's code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from textwrap import fill

from tabulate import tabulate

from tc.backends.base import LANGUAGES
from tc.dynamic import TrackedCall
from tc.errors import InputError
from tc.gpu import Gpu
from tc.pipeline import Trace
from tc.process.uninterrupted import load
from tc.semantics import program as p
from tc.semantics.ranges.symbolic import to_text
from tc.semantics.reference.instances import count_instances
from tc.semantics.work import Work, program_work, statement_work
from tc.source import as_html
from tc.stages import SAC_TITLES, SIZES, STAGES, TITLES, TITLES_OF_SIZES
from tc.wording import listed

OPERATORS = {
    "=": "assigns",
    "+": "sums",
    "*": "multiplies",
    "min": "takes the minimum",
    "max": "takes the maximum",
    "&": "keeps what all have of the bits",
    "|": "joins the bits",
    "^": "takes the exclusive or",
}
SUMMARY = ("ranges", SIZES, "rewrite", "schedule", "mapping", "estimate")
"""The stages that are shown where no stage is asked for."""

_TITLES = {**SAC_TITLES, **TITLES, **TITLES_OF_SIZES}

STARTS = {
    "written": "continues from what an earlier statement wrote",
    "caller": "continues from outputs= if given, else starts at the identity (R3)",
    "nothing": "starts at the identity, since nothing was written before (R3)",
}


@dataclass(frozen=True)
class Explanation:
    """The result of `tc.explain` and of `Compiled.explain`.

    `stages` has the text of each stage by its name (`STAGES`); `str` is the text of `stage`: "all"
    of them, or, without one, the ranges and a summary of what the compiler did. `shaped` and
    `trace` are what the texts tell about; `trace` is None for a backend that runs the text itself,
    which has no stage but the ranges. `notation` has the texts of the stages that lead from another
    notation to the def, by name: those of `tc.sac.explain`.
    """

    shaped: p.ShapedProgram
    trace: Trace | None = None
    stage: str | None = None
    notation: Mapping[str, str] = field(default_factory=dict)

    def work(self, statement: p.ShapedStatement) -> Work:
        """The operations of one of `shaped.statements`, and the bytes that the statement
        touches."""
        return statement_work(self.shaped, statement)

    @property
    def total(self) -> Work:
        """Operations of all statements; bytes of inputs and outputs, each element that can be
        touched counted once."""
        return program_work(self.shaped)

    @property
    def stages(self) -> Mapping[str, str]:
        """The texts by stage, in order; a text is made when it is looked up."""
        return _Stages(self)

    def __str__(self) -> str:
        stages = self.stages
        if self.stage is None:
            wanted = (*self.notation, *(name for name in SUMMARY if name in stages))
            text = _joined(stages, wanted)
            more = [repr(name) for name in stages if name not in wanted]
            return f"{text}\n\nOther stages: {', '.join(more)}." if more else text
        if self.stage == SIZES and SIZES not in stages:
            return "No kernel for many sizes serves these: they have code of their own."
        return _joined(stages, tuple(stages)) if self.stage == "all" else stages[self.stage]

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The text of `stage`; without one, the ranges, and below them the other stages, closed."""
        if self.stage is not None:
            return _stage_html(self, self.stage)
        text = self.shaped.program.source.text.strip("\n")
        parts = [as_html(text, "tc"), as_html(self.stages["ranges"])]
        for stage in self.stages:
            if stage not in ("ranges", "def"):
                title = f"{stage}: {escape(_TITLES[stage])}"
                body = _stage_html(self, stage)
                parts.append(f"<details><summary>{title}</summary>{body}</details>")
        return "\n".join(parts)


class _Stages(Mapping[str, str]):
    def __init__(self, explanation: Explanation) -> None:
        self._explanation = explanation
        own = STAGES if explanation.trace else STAGES[:1]
        if explanation.trace is not None and explanation.trace.call is not None:
            own = (*STAGES[:1], SIZES, *STAGES[1:])
        self._names = (*explanation.notation, *own)

    def __getitem__(self, stage: str) -> str:
        if stage not in self._names:
            raise KeyError(stage)
        if stage in self._explanation.notation:
            return self._explanation.notation[stage]
        trace = self._explanation.trace
        if stage == "ranges" or trace is None:
            lines = (line.rstrip() for line in _lines(self._explanation))
            return "\n".join(lines).rstrip("\n")
        if stage == SIZES and trace.call is not None:
            return "\n".join(_sizes_lines(trace, trace.call))
        if stage == "source":
            return str(trace.text).rstrip("\n")
        given = (trace.lowering, trace.shaped, trace.options, trace.device)
        narrative = load("tc.polyhedral.narrative")
        text: str = narrative.explain_stage(narrative.ExplainedLowering(*given, trace.told), stage)
        return f"{text}\n{_machine_code(trace)}".rstrip() if stage == "estimate" else text

    def __contains__(self, stage: object) -> bool:
        return stage in self._names  # without making the text

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _sizes_lines(trace: Trace, call: TrackedCall) -> Iterator[str]:
    """What a kernel for many sizes was planned for, which sizes it serves, and what it is given."""
    yield "The code is planned for the hints, and serves all sizes that the guards admit."
    yield ""
    yield f"hints: {', '.join(f'{name} = {hint}' for name, hint in call.hints.items())}"
    yield "guards:"
    guards = call.questions.guards
    pins = [guard for guard in guards.values() if guard.is_pin]
    for name, own in call.questions.ranges.items():
        step = f", a multiple of {own.multiple}" if own.multiple > 1 else ""
        if name not in guards:
            yield f"  {own.begin} <= {name} <= {own.last}{step}"
        elif guards[name] not in pins:
            yield f"  {guards[name]}{step}"
    others = (guard for text, guard in guards.items() if text not in call.hints)
    yield from (f"  {guard}" for guard in others if guard not in pins)
    if pins:
        yield "pinned, as what is made would be other code for other sizes:"
        for guard in pins:
            yield f"  {guard}, asked by {' < '.join(guard.places)}"
    if trace.kernel.sizes:
        yield "given to the kernel:"
        for place, size in enumerate(trace.kernel.sizes):
            yield f"  sizes[{place}] = {size}"


def _machine_code(trace: Trace) -> str:
    """Of a text in CUDA C++; "" of another."""
    if not isinstance(trace.device, Gpu) or trace.text.backend != "cuda":
        return ""
    machine_code = load("tc.backends.machine_code")  # with all that GPUs need
    columns = load("tc.polyhedral.narrative").LINE_COLUMNS
    return "\n".join(
        fill(line, columns, initial_indent="machine code ", subsequent_indent=" " * 13)
        for line in machine_code.told(trace.text.source, trace.device.arch)
    )


def _stage_html(explanation: Explanation, stage: str) -> str:
    """One stage for notebooks, or all of them; code is in colours."""
    if stage == "all":
        return as_html(_joined(explanation.stages, tuple(explanation.stages)))
    language = {"plan": "json", "desugared": "sac", "def": "tc"}.get(stage)
    if stage == "source" and explanation.trace is not None:
        language = LANGUAGES.get(explanation.trace.text.backend)
    return as_html(explanation.stages[stage], language)


def _joined(stages: Mapping[str, str], wanted: Sequence[str]) -> str:
    parts = [stages[wanted[0]]]
    for stage in wanted[1:]:
        if stage in stages:
            title = f"=== {stage}: {_TITLES[stage]}"
            parts.append(f"{title}\n\n{stages[stage]}")
    return "\n\n".join(parts)


def check_stage(stage: object, notation: Sequence[str] = ()) -> None:
    """Raises InputError for a name that is no stage of an explanation; `notation` has the stages
    before those of the compiler."""
    names = (*notation, *STAGES, "all")
    if stage is not None and stage not in names:
        raise InputError(
            f"stage={stage!r}: there are {', '.join(map(repr, names))}", repair='stage="schedule"'
        )


def _lines(explanation: Explanation) -> Iterator[str]:
    shaped = explanation.shaped
    program = shaped.program
    yield f"def {program.name} ({program.source.name})"
    given = {**shaped.sizes, **shaped.scalars}
    if given:
        yield "sizes: " + ", ".join(f"{name} = {value}" for name, value in given.items())
    yield ""
    yield _tensor_table(shaped)
    for statement in shaped.statements:
        yield ""
        yield from _statement_lines(explanation, statement)
    if shaped.preconditions:
        yield ""
        yield "checked for these sizes, before anything runs (G6):"
        for condition in shaped.preconditions:
            yield f"  {condition.text} stays in bounds, in {condition.statement}"
    for warning in (*program.warnings, *shaped.warnings):
        yield ""
        place = f" ({warning.span.in_text})" if warning.span is not None else ""
        yield f"warning [{warning.rule}]: {warning.message}{place}"
    yield ""
    yield f"in all: {explanation.total}"


def _tensor_table(shaped: p.ShapedProgram) -> str:
    rows = []
    for name, tensor in shaped.program.tensors.items():
        shape = " x ".join(map(str, shaped.shapes[name])) or "scalar"
        symbolic = shaped.symbolic_shapes.get(name, ())
        texts = [to_text(e) if e is not None else "?" for e in symbolic]
        fixed = shaped.shape_fixed_by.get(name)
        where = fixed.in_text if fixed is not None and tensor.role != "input" else ""
        rows.append((name, tensor.role, tensor.dtype.name, shape, ", ".join(texts), where))
    return _table(("tensor", "role", "type", "shape", "as expressions", "fixed at"), rows)


def _statement_lines(explanation: Explanation, shaped: p.ShapedStatement) -> Iterator[str]:
    stmt = shaped.statement
    yield f"{stmt.name} at {stmt.span.in_text}: {stmt.text}"
    yield "  " + _action(stmt)
    rows = [
        (
            name,
            "output" if name in stmt.outer else "reduction",
            str(shaped.ranges[name]),
            _symbolic(shaped.ranges[name]),
            _reason(shaped.ranges[name]),
        )
        for name in stmt.variables
    ]
    if rows:
        table = _table(("variable", "kind", "range", "as expressions", "fixed by"), rows)
        yield from ("  " + line for line in table.split("\n"))
    if not stmt.has_box:
        yield f"  {_domain(explanation.shaped, shaped)}"
    nodes = (n for expr in stmt.expressions for n in p.walk(expr))
    checked = sorted(n.span.line for n in nodes if getattr(n, "site", -1) in shaped.checked)
    if checked:
        yield f"  checked at run time (G7): {', '.join(dict.fromkeys(checked))}"
    yield from (f"  checked at run time {line}" for line in _checked_places(shaped))
    yield f"  {explanation.work(shaped)}"


def _domain(shaped: p.ShapedProgram, each: p.ShapedStatement) -> str:
    """Which points of the box are instances (W), and how many these are."""
    stmt = each.statement
    ranges = [c.span.line for c in stmt.where if c.kind != p.SIZES]
    tests = ", ".join(dict.fromkeys((*ranges, *(test.span.line for test in stmt.conditions))))
    box = math.prod(r.extent for r in each.ranges.values())
    count = count_instances(shaped, each)
    found = "as many as the data say" if count is None else f"{count:,}"
    return f"instances where {tests}: {found} of {box:,}"


def _checked_places(each: p.ShapedStatement) -> Iterator[str]:
    stmt = each.statement
    places = [stmt.subscripts[axis].span.line for axis in sorted(each.checked_axes)]
    if places:
        yield f"(S5): that {', '.join(places)} {'lie' if len(places) > 1 else 'lies'} inside"
    if each.is_checked_once:
        yield "(S2): that no two instances write one element"
    ranges = [c.span.line for c in stmt.where if c.variable in each.checked_ranges]
    if ranges:
        yield f"(W3): {', '.join(ranges)}"


def _action(stmt: p.Statement) -> str:
    over = f" over {', '.join(stmt.reduction)}" if stmt.reduction else ""
    start = ""
    if stmt.init:
        start = ", starting at the identity (R2)"
    elif stmt.continues:
        start = f", {STARTS[stmt.continues]}"
    casts = {n.dtype.name for n in p.walk(stmt.rhs) if isinstance(n, p.Convert) and n.written}
    note = f"; casts to {', '.join(sorted(casts))}" if casts else ""
    own = f"{OPERATORS[stmt.op]}{over}{start}, computed in {stmt.rhs.dtype}{note}"
    if not stmt.companions:
        return own
    others = listed([companion.target for companion in stmt.companions])
    how = "of the term that is chosen" if stmt.chooses else "each by itself"
    return f"{own}; beside it {others}, {how} (V1)"


def _symbolic(r: p.Range) -> str:
    if r.symbolic_end is None:
        return ""
    begin = to_text(r.symbolic_begin) if r.symbolic_begin is not None else str(r.begin)
    return f"{begin}:{to_text(r.symbolic_end)}"


def _reason(r: p.Range) -> str:
    texts = dict.fromkeys(span.line for span in r.fixed_by)
    joined = ", ".join(texts)
    return f"{joined} in round {r.round}" if r.round else joined


def _table(headers: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    used = [i for i in range(len(headers)) if any(row[i] for row in rows)]
    body = [[row[i] for i in used] for row in rows]
    table: str = tabulate(
        body, [headers[i] for i in used], tablefmt="simple", disable_numparse=True
    )
    return table
