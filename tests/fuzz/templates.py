"""`python -m tests.fuzz.templates --count N --seed S`: generated programs with dynamic sizes.

Some sizes of each program are dynamic. A template is lowered for the sizes as they were drawn, and
run by `evaluate`, which checks bounds and races, at other sizes that its guards admit, at those
next to the guards' edges above all; results are compared with the interpreter's (R5).
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tc.backends.base import KernelText
from tc.device import Device
from tc.dynamic import FIRST, Attempt, DynamicSizes, TrackedCall, dynamic_sizes, tracked_call
from tc.errors import TCError
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import Kernel
from tc.kernel.sizes import at_sizes
from tc.kernel.verify import verify
from tc.options import Options
from tc.pipeline import as_asked, check_module, lower_tracked, parse_source, planned, shape_program
from tc.runtime.fallback import Request
from tc.runtime.sizes import CallSizes
from tc.semantics.program import Program
from tc.semantics.reference.error_bound import error_bound
from tc.semantics.reference.interpreter import interpret
from tc.source import Source
from tc.stored_templates import TemplateText, bytes_of, templates_of
from tests.fuzz import arrays, generate
from tests.fuzz.model import ENTRY, Case, dtype_of
from tests.support.bounds import difference
from tests.support.campaigns import Campaign, Passed, parser_of, run_campaign

WIDEST = 40
"""The largest size at which a template is run: `evaluate` takes its time."""

TRIED = 4
DEVICES = tuple(Device(vector_bits=bits, threads=2, vector_registers=16) for bits in (0, 256, 512))


@dataclass(frozen=True)
class Template:
    """A case with dynamic sizes, and what was lowered for it."""

    case: Case
    program: Program
    call: TrackedCall
    kernel: Kernel


def drawn(case: Case, rng: random.Random, *, asks_all: bool = False) -> Template | None:
    """A template of a case; None where tc refuses the case, or has no dynamic size for it."""
    if case.refused:
        return None
    try:
        program = check_module(parse_source(Source(case.text)), ENTRY)
    except TCError:
        return None
    names = [n for n in dynamic_names(program) if case.sizes.get(n, 0) >= FIRST]
    if not names:
        return None
    chosen = set(rng.sample(names, rng.randint(1, min(3, len(names)))))
    dynamic = dynamic_sizes(program, chosen)
    assert dynamic is not None
    return lowered(case, program, dynamic, rng.choice(DEVICES), asks_all=asks_all)


def dynamic_names(program: Program) -> list[str]:
    found = dynamic_sizes(program, True)
    return [] if found is None else list(found.ranges)


def lowered(
    case: Case, program: Program, dynamic: DynamicSizes, device: Device, *, asks_all: bool = False
) -> Template | None:
    sizes = call_sizes(case, program, {})
    request = Request(program, sizes, frozenset(program.needs_initial), "numba", Options(), True)
    try:
        shape_program(program, sizes)
    except TCError:
        return None
    call = tracked_call(program, sizes, dynamic, Attempt("exact", asks_all))
    made = planned(call, request, device, as_asked)
    try:
        _, lowering = lower_tracked(call, request, made, device)
    except TCError as error:
        if type(error).__name__ == "InternalError":
            raise
        return None  # a plan that has no template
    return Template(case, program, call, from_disk(call, lowering.kernel, dynamic))


def from_disk(call: TrackedCall, kernel: Kernel, dynamic: DynamicSizes) -> Kernel:
    """The kernel as it is read back where a template is kept on disk."""
    made = TemplateText(call.hints, call.questions, KernelText(kernel, "numba", ""), [call.hints])
    (read,) = templates_of(bytes_of([made]), dynamic)
    guards = [[*map(str, each.questions.guards.values())] for each in (made, read)]
    assert guards[0] == guards[1], "other guards are read than were kept"
    return read.text.kernel


def call_sizes(case: Case, program: Program, values: Mapping[str, int]) -> CallSizes:
    known = {**case.sizes, **values}
    shapes = {
        p.name: tuple(known[d] if d in known else int(d) for d in p.dims) for p in case.params
    }
    inputs = inputs_of(case, shapes)
    scalars = {name: int(inputs[name]) for name in program.static_scalars}
    return CallSizes({name: shapes[name] for name in program.inputs}, scalars)


def inputs_of(case: Case, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    rng = np.random.default_rng(case.seed)
    return {
        p.name: np.array(arrays.fill(p.values, shapes[p.name], dtype_of(p.type), rng), order="C")
        for p in case.params
    }


def fault_at(template: Template, values: Mapping[str, int]) -> str | None:
    """What is wrong with a template at sizes that its guards admit; None where nothing is."""
    case, program = template.case, template.program
    sizes = call_sizes(case, program, values)
    if sizes.scalars != template.call.sizes.scalars:
        return None
    try:
        shaped = shape_program(program, sizes)
    except TCError as error:
        return f"the guards admit {values}, and tc does not: {error}"
    inputs = inputs_of(case, sizes.shapes)
    initial = {
        name: np.full(shaped.shapes[name], 5, program.tensors[name].dtype.numpy)
        for name in program.needs_initial
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = interpret(shaped, inputs, initial)
            bounds = error_bound(shaped, inputs, initial)
        except TCError:
            return None  # a read that leaves its tensor: which one is told may differ
    kernel = at_sizes(template.kernel, values)
    verify(kernel)
    memory = memory_of(kernel, inputs, initial)
    failure = evaluate(kernel, memory)
    if failure is not None:
        return f"a check failed at {values}"
    for name in program.outputs:
        got = memory[name].reshape(expected[name].shape)
        found = difference(got, expected[name], bounds[name])
        if found:
            return f"{name} is wrong at {values}: {found}"
    return None


def memory_of(
    kernel: Kernel, inputs: Mapping[str, Any], initial: Mapping[str, Any]
) -> dict[str, Any]:
    memory: dict[str, Any] = {}
    for buffer in kernel.arguments:
        if buffer.role == "input":
            memory[buffer.name] = inputs[buffer.name].reshape(buffer.shape)
        elif buffer.role == "sizes":
            memory[buffer.name] = np.array(kernel.sizes, np.int64)
        elif buffer.role == "output":
            start = initial.get(buffer.name)
            memory[buffer.name] = (
                np.zeros(buffer.shape, buffer.dtype.numpy)
                if start is None
                else start.reshape(buffer.shape).copy()
            )
    return memory


def tried_sizes(template: Template, rng: random.Random) -> list[dict[str, int]]:
    """Admitted sizes: the hints, and some others, next to ones that are not admitted first."""
    questions, hints = template.call.questions, dict(template.call.hints)
    admitted, edges = [], []
    for _ in range(60):
        values = {
            name: rng.choice((rng.randint(FIRST, WIDEST), hint, hint + 1, hint - 1))
            for name, hint in hints.items()
        }
        if values in admitted or not questions.admits(values):
            continue
        admitted.append(values)
        beside = ({**values, n: v + by} for n, v in values.items() for by in (-1, 1))
        if not all(map(questions.admits, beside)):
            edges.append(values)
    return [hints, *edges[: TRIED // 2], *[v for v in admitted if v != hints][:TRIED]]


def judge(case: Case, rng: random.Random) -> Iterator[str]:
    """Runs the template of a case at some sizes; AssertionError where it is wrong."""
    template = drawn(case, rng, asks_all=rng.random() < 0.2)
    if template is None:
        raise Passed("no template")
    assert template.call.questions.admits(template.call.hints), "the guards refuse the hints"
    yield "templates"
    for values in tried_sizes(template, rng):
        found = fault_at(template, values)
        assert found is None, f"hints {template.call.hints}: {found}"
        yield "runs" if values != template.call.hints else "runs at hints"


class TemplateCampaign(Campaign):
    """Judges generated programs."""

    def __init__(self, seed: int, log: Any = None) -> None:
        super().__init__(seed, log)
        self.repeat = f"python -m tests.fuzz.templates --seed {seed} --count 1 --start"

    def judge(self, number: int) -> int:
        case = replace(generate.case(self.seed, number, ("numba",)), backend="numba")
        rng = random.Random(f"{self.seed}/{number}/templates")
        self.count_judged(number, case.text, judge(case, rng))
        return 1


def main(arguments: list[str]) -> int:
    parser = parser_of("tests.fuzz.templates", __doc__)
    chosen = parser.parse_args(arguments)
    return run_campaign(TemplateCampaign(chosen.seed, chosen.log), chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
