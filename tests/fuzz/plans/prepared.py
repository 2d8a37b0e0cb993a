"""A generated program up to the place where a plan is asked for, and what a plan makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
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

    def lower(self, options: Any, *, check: bool = True) -> Any:
        from tc.polyhedral.lowering import trace_lowering

        with quiet():
            return trace_lowering(
                self.whole,
                self.strides,
                self.target,
                initial=self.initial,
                check=check,
                options=options,
            )

    @cached_property
    def first(self) -> Any:
        return self.lower(self.options)

    @property
    def tree(self) -> Any:
        return self.first.tree

    @cached_property
    def info(self) -> Any:
        from tc.polyhedral.access_info import AccessInfo

        marked = self.first.marked
        strides = {b.name: b.strides for b in marked.buffers if b.role == "input"}
        return AccessInfo(self.first.scop, strides, True)

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
        """The same for the code of a backend, its arrays between forbidden pages."""
        from tc.backends import registry

        made: Any = registry.get(backend)
        compiled = made.load(made.emit(kernel))
        views, memories = self.given.guarded()
        before = {name: memory.tobytes() for name, memory in memories.items()}
        held = {**views, **self._outputs()}
        for b in kernel.arguments:
            if b.name not in held:
                held[b.name] = arrays.guarded(b.shape, b.dtype.numpy, "ends")
        addresses = [held[b.name].__array_interface__["data"][0] for b in kernel.arguments]
        failure = compiled.run(addresses, threads=None)
        written = [name for name, memory in memories.items() if memory.tobytes() != before[name]]
        if written:
            return f"the input {written[0]} is written"
        return self._fault(failure, held)

    def _outputs(self) -> dict[str, Array]:
        shapes = self.first.scop.shaped.program
        spaces = self._spaces()
        given = self.given.outputs(spaces)
        return {
            name: given[name] if name in given else arrays.guarded(*spaces[name], "ends")
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
