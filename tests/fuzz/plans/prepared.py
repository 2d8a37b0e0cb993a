"""A generated program up to the place where a plan is asked for, and what a plan makes of it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from tests.fuzz import arrays
from tests.fuzz.execute import (
    RUN_TIME,
    Arrays,
    Expected,
    Refusal,
    device_of,
    expectation,
    options_of,
    quiet,
    run_of,
)
from tests.fuzz.model import ENTRY, Case
from tests.support.bounds import difference

Array = np.ndarray[Any, Any]


class Unfit(Exception):
    """The program is refused whatever its plan, so no plan is drawn for it."""


@dataclass(frozen=True)
class Prepared:
    """A program with everything known before mapping; `first` is tc's own lowering."""

    given: Arrays
    expected: Expected | Refusal
    whole: Any
    strides: Mapping[str, tuple[int, ...]]
    target: Any
    options: Any
    initial: frozenset[str]

    def lower(self, options: Any, *, check: bool = True, decider: Any = None) -> Any:
        from tc.polyhedral.lowering import trace_lowering

        target = self.target if decider is None else replace(self.target, decider=decider)
        with quiet():
            return trace_lowering(
                self.whole,
                self.strides,
                target,
                initial=self.initial,
                check=check,
                options=options,
            )

    @cached_property
    def first(self) -> Any:
        return self.lower(self.options)

    @property
    def instances(self) -> int:
        """The number of instances of all statements."""
        spans = (each.ranges.values() for each in self.whole.statements)
        return sum(math.prod(r.extent for r in span) for span in spans)

    @property
    def tree(self) -> Any:
        return self.first.tree

    @cached_property
    def info(self) -> Any:
        from tc.polyhedral.access_info import AccessInfo

        marked = self.first.marked
        strides = {b.name: b.strides for b in marked.buffers if b.role == "input"}
        return AccessInfo(self.first.scop, strides, True)

    @cached_property
    def scatters(self) -> tuple[str, ...]:
        """The statements that have a form, as the program calls them."""
        from tc.polyhedral.rewrite.boxes import as_boxes
        from tc.polyhedral.rewrite.scattering import is_scatter

        boxes = as_boxes(
            self.whole, self.initial, check=True, places=True, at_once=self.target.launches
        )
        return tuple(each.statement.name for each in boxes.statements if is_scatter(each))

    def with_forms(self, forms: Mapping[str, str]) -> Prepared:
        """The same where scatters have these forms, which decide what statements there are.
        BackendError where they cannot have them."""
        made = replace(self, options=replace(self.options, plan=plan_of_forms(forms)))
        assert made.first is not None
        return made

    def decided(self, rng: random.Random) -> Any:
        """The plan that follows from decisions at random, each of those that others lead to."""
        from tc.polyhedral.target import Decisions

        wanted: dict[str, str] = {}
        for _ in range(3):
            decisions = Decisions(wanted)
            self.lower(self.options, decider=decisions)
            for name, asked in decisions.asked.items():
                if rng.random() < 0.5:
                    wanted.setdefault(name, rng.choice(asked.values))
        return self.lower(self.options, decider=Decisions(wanted)).mapped.plan

    def kernels(self, plan: Any) -> tuple[Any, ...]:
        """The kernels of a plan: with marks, and finished. BackendError where it is refused."""
        found = self.lower(replace(self.options, plan=plan))
        return found.marked, found.kernel

    # --- running --------------------------------------------------------------------------------

    def evaluated(self, kernel: Any) -> str:
        """How the kernel goes wrong on the machine that checks every access; "" if it does not."""
        from tc.kernel.evaluate import evaluate
        from tests.support.pipeline import as_buffers

        held = {n: np.array(a, order="C") for n, a in self.given.values.items()}
        held |= self._outputs()
        with quiet():
            failure = evaluate(kernel, as_buffers(kernel, held))
        return self._fault(failure, held)

    def compiled(self, kernel: Any, backend: str) -> str:
        """The same for the code of a backend, its arrays between forbidden pages. Loops that
        threads share are run in one part and in several, whose results have the same bits."""
        from tc.backends import registry

        made: Any = registry.get(backend)
        compiled = made.load(made.emit(kernel))
        if backend != "numba":
            return self._ran(kernel, lambda places: compiled.run(places, threads=None))[0]
        first: Mapping[str, bytes] = {}
        for parts in range(1, max(2, min(3, self.target.device.threads)) + 1):
            wrong, bits = self._ran(kernel, partial(in_parts, compiled, parts=parts))
            if wrong:
                return f"{parts} threads: {wrong}"
            first = first or bits
            other = [name for name in bits if bits[name] != first[name]]
            if other:
                return f"{other[0]} has other bits with {parts} threads"
        return ""

    def _ran(
        self, kernel: Any, run: Callable[[Sequence[int]], Any]
    ) -> tuple[str, dict[str, bytes]]:
        """How a run of a kernel on fresh arrays goes wrong, and the bits of the outputs."""
        views, memories = self.given.guarded()
        before = {name: memory.tobytes() for name, memory in memories.items()}
        held = {**views, **self._outputs()}
        for b in kernel.arguments:
            if b.name not in held:
                held[b.name] = arrays.guarded(b.shape, b.dtype.numpy, self.given.run.edge)
        failure = run([held[b.name].__array_interface__["data"][0] for b in kernel.arguments])
        written = [name for name, memory in memories.items() if memory.tobytes() != before[name]]
        if written:
            return f"the input {written[0]} is written", {}
        bits = {name: held[name].tobytes() for name in self._spaces()}
        return self._fault(failure, held), {} if failure is not None else bits

    def _outputs(self) -> dict[str, Array]:
        shapes = self.first.scop.shaped.program
        spaces = self._spaces()
        given, edge = self.given.outputs(spaces), self.given.run.edge
        return {
            name: given[name] if name in given else arrays.guarded(*spaces[name], edge)
            for name in shapes.outputs
        }

    def _spaces(self) -> Mapping[str, tuple[Any, Any]]:
        if isinstance(self.expected, Expected):
            return self.expected.spaces
        shaped = self.first.scop.shaped
        tensors = shaped.program.tensors
        return {n: (shaped.shapes[n], tensors[n].dtype.numpy) for n in shaped.program.outputs}

    def _fault(self, failure: Any, held: Mapping[str, Array]) -> str:
        if isinstance(self.expected, Refusal):
            return "" if failure is not None else f"no failure; interpret: {self.expected.text}"
        if failure is not None:
            return f"a failure that is none: {failure}"
        for name, want in self.expected.results.items():
            wrong = difference(held[name], want, self.expected.bounds[name])
            if wrong:
                return f"{name}: {wrong}"
        return ""


def plan_of_forms(forms: Mapping[str, str]) -> Any:
    """A plan that says the forms of scatters alone, by statement."""
    from tc.plan import Plan, with_scatters

    return with_scatters(Plan(), forms)


def in_parts(compiled: Any, addresses: Sequence[int], *, parts: int) -> Any:
    """Runs a kernel of numba with its shared loops in parts, as so many threads do, but one after
    the other, the last first. The failure that it records, if any."""
    from tc.backends.call_memory import CallMemory, FailureRecord
    from tc.backends.printing import shared_loop
    from tc.kernel.scratch import scratch_layout
    from tc.runtime.thread_pool import ALWAYS, Regions, perform

    kernel, functions = compiled.kernel, compiled.regions.steps
    record, private = FailureRecord.of(kernel), scratch_layout(kernel).size
    memory = CallMemory(len(kernel.arguments), record, private, parts)
    memory.pack(memory.words, 0, *addresses)
    shared = [shared_loop(region) is not None for region in kernel.regions]
    places = {place: function for function, place, _ in functions}
    regions = Regions(
        [(place, ALWAYS * s) for (_, place, _), s in zip(functions, shared, strict=True)]
    )

    def launch(place: int, arguments: int, failures: int, width: int, parts: int, _: int) -> bool:
        for number in reversed(range(parts)):
            places[place](arguments, failures + number * width, number, parts)
        return True

    failed = perform(
        regions,
        memory.arguments,
        memory.failures,
        record.nbytes,
        parts,
        launch if parts > 1 else None,
    )
    return memory.take_failure() if failed else None


@lru_cache(maxsize=4)
def prepared(text: str) -> Prepared:
    """A case, as JSON, made ready. Raises Unfit."""
    import tc
    from tc.options import check_options
    from tc.pipeline import target_of
    from tests.support.pipeline import as_arrays, checked, shaped

    case = Case.from_json(text)
    run = run_of(case)
    given = Arrays(run)
    expected = expectation(run, given)
    if isinstance(expected, Refusal) and expected.rule not in RUN_TIME:
        raise Unfit(expected.text)
    device = device_of(run)
    views, _ = given.guarded()
    try:
        options = replace(options_of(run, tc), match_library=False)
        check_options(options, device)
        with quiet():
            program = checked(run.text, ENTRY)
            initial = frozenset(run.outputs["names"])
            if set(program.needs_initial) - initial:
                raise Unfit("outputs that are not passed")
            whole = shaped(program, as_arrays(program, views))
            made = Prepared(
                given, expected, whole, _strides(views), target_of(device), options, initial
            )
            assert made.first is not None
    except tc.InternalError:
        raise
    except tc.TCError as error:
        if isinstance(device, tc.Gpu) and isinstance(error, tc.BackendError):
            raise  # every program has launches, whatever is asked for
        raise Unfit(str(error)) from error
    return made


def _strides(views: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    """The strides in elements of inputs that are not row-major."""
    from tc.kernel.ir import row_major

    strides = {n: tuple(s // v.itemsize for s in v.strides) for n, v in views.items()}
    return {n: s for n, s in strides.items() if s != row_major(views[n].shape)}
