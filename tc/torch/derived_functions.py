"""What follows from one function: its tangents and its batches, each made once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tc.frontend.parser import parse
from tc.function import Compiled
from tc.gradient.batching import batch, batched_outputs
from tc.gradient.forward_mode import jvp
from tc.process.uninterrupted import Once
from tc.runtime.arguments import Signature
from tc.semantics.check.checker import check
from tc.source import Source
from tc.torch.gradients import INPUT, Taken
from tc.torch.output_shapes import check_tensor

Axes = tuple[int | None, ...]
"""The dimension of the batch for each input of a function, None for those without."""


@dataclass(frozen=True, slots=True)
class Batched:
    """A function for a batch of calls of `each` along these axes of inputs; of its results, those
    in `batched` have the batch as their first dimension."""

    each: Signature
    function: Compiled
    axes: Axes
    batched: tuple[bool, ...]

    def check(self, values: Mapping[Taken, Any]) -> None:
        """InputError where the elements of a batch are none that a call takes."""
        for place, (parameter, axis) in enumerate(zip(self.each.inputs, self.axes, strict=True)):
            if axis is not None:
                check_tensor(parameter, values[INPUT, place], batch=1)


@dataclass(frozen=True, slots=True)
class Tangents:
    """A function that also gives tangents, of its inputs and then of their tangents; `floating` are
    the places of those of the `outputs` that have one."""

    function: Compiled
    outputs: int
    floating: tuple[int, ...]

    def of(self, results: Sequence[Any]) -> list[Any]:
        """The tangent of each output, None for those that have none."""
        found: list[Any] = [None] * self.outputs
        for place, tangent in zip(self.floating, results[self.outputs :], strict=True):
            found[place] = tangent
        return found


class Derived:
    """The functions that follow from one."""

    def __init__(self, function: Compiled, floating: tuple[int, ...]) -> None:
        self.function = function
        self.floating = floating
        self._made: dict[Any, Once[Any]] = {}

    def tangents(self, wrt: tuple[int, ...]) -> Tangents:
        """What gives the tangents of the outputs, where inputs at these places have one.
        GradError."""

        def make() -> Tangents:
            program = self.function.program
            text = jvp(program.source, [program.inputs[at] for at in wrt], entry=program.name)
            made = self._compiled(text, "tangents")
            return Tangents(made, len(program.outputs), self.floating)

        found: Tangents = self._once(("tangents", wrt), make)
        return found

    def batched(self, axes: Axes) -> Batched:
        """The function of a batch. GradError."""

        def make() -> Batched:
            program = self.function.program
            text = batch(program.source, axes, entry=program.name)
            names = batched_outputs(program.source, axes, entry=program.name)
            batched = tuple(name in names for name in program.outputs)
            each = self.function.signature
            return Batched(each, self._compiled(text, "batch"), axes, batched)

        found: Batched = self._once(("batch", axes), make)
        return found

    def _compiled(self, text: str, what: str) -> Compiled:
        source = Source(text, f"<{what} of {self.function.program.name}>")
        return self.function.compiled_alike(check(parse(source), None))

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        made = self._made.get(key)
        if made is None:
            made = self._made.setdefault(key, Once(make))
        return made()
