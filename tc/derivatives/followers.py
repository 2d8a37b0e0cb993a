"""The functions of tangents and of batches that follow from one function, each made once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tc.derivatives.gradients import compiled_alike, stopped
from tc.function import Compiled
from tc.gradient.batching import batch, batched_outputs
from tc.gradient.forward_mode import tangents_alone
from tc.process.uninterrupted import LazyByKey

BatchAxes = tuple[int | None, ...]
"""The dimension of the batch for each input of a function, None for those without."""


@dataclass(frozen=True, slots=True)
class BatchFunction:
    """A function of a batch; of its results, those in `batched` have the batch as their first
    dimension."""

    function: Compiled
    batched: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class TangentFunction:
    """A function of inputs, and then of tangents of some of them, whose results from place `first`
    on are the tangents of the floating outputs."""

    function: Compiled
    first: int


class Followers:
    """The tangents and batches of a function; `stop` is as for `stopped`."""

    def __init__(self, function: Compiled, stop: str) -> None:
        self.function = function
        self.stop = stop
        self._made: LazyByKey[Any] = LazyByKey()

    def tangents(self, wrt: tuple[int, ...]) -> TangentFunction:
        """The function of the tangents of the outputs, where the inputs at the places `wrt` have
        tangents. GradError."""

        def make() -> TangentFunction:
            program = self.function.program
            wanted = [program.inputs[at] for at in wrt]
            with stopped(program, self.stop):
                text = tangents_alone(self.function, wanted)
            made = compiled_alike(self.function, text, "tangents")
            floating = [o for o in program.outputs if program.tensors[o].dtype.is_float]
            return TangentFunction(made, len(made.program.outputs) - len(floating))

        found: TangentFunction = self._made.get(("tangents", wrt), make)
        return found

    def batched(self, axes: BatchAxes) -> BatchFunction:
        """The function of a batch. GradError."""

        def make() -> BatchFunction:
            program = self.function.program
            text = batch(self.function, axes)
            names = batched_outputs(self.function, axes)
            batched = tuple(name in names for name in program.outputs)
            return BatchFunction(compiled_alike(self.function, text, "batch"), batched)

        found: BatchFunction = self._made.get(("batch", axes), make)
        return found
