"""The functions derived from one function, for tangents and for batches, each made once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tc.derivatives.followers import BatchAxes, Followers
from tc.derivatives.gradients import INPUT, Taken
from tc.function import Compiled
from tc.runtime.arguments import Signature
from tc.torch.output_shapes import check_tensor

DETACHED = "{}.detach()"
"""How torch has nothing flow into a tensor."""


@dataclass(frozen=True, slots=True)
class Batched:
    """A function for a batch of calls of `each` along these axes of inputs; of its results, those
    in `batched` have the batch as their first dimension."""

    each: Signature
    function: Compiled
    axes: BatchAxes
    batched: tuple[bool, ...]

    def check(self, values: Mapping[Taken, Any]) -> None:
        """InputError where the elements of a batch are none that a call takes."""
        for place, (parameter, axis) in enumerate(zip(self.each.inputs, self.axes, strict=True)):
            if axis is not None:
                check_tensor(parameter, values[INPUT, place], batch=axis)


@dataclass(frozen=True, slots=True)
class Tangents:
    """A function of inputs and their tangents that gives outputs and tangents; `floating` are the
    places of the outputs that have a tangent."""

    function: Compiled
    outputs: int
    first: int
    floating: tuple[int, ...]

    def of(self, results: Sequence[Any]) -> list[Any]:
        """The tangent of each output; None for an output that has none."""
        found: list[Any] = [None] * self.outputs
        for place, tangent in zip(self.floating, results[self.first :], strict=True):
            found[place] = tangent
        return found


class Derived:
    """The functions derived from one function."""

    def __init__(self, function: Compiled, floating: tuple[int, ...]) -> None:
        self.function = function
        self.floating = floating
        self.followers = Followers(function, DETACHED)

    def tangents(self, wrt: tuple[int, ...]) -> Tangents:
        """What gives the tangents of the outputs, where inputs at these places have one.
        GradError."""
        found = self.followers.tangents(wrt)
        outputs = len(self.function.program.outputs)
        return Tangents(found.function, outputs, found.first, self.floating)

    def batched(self, axes: BatchAxes) -> Batched:
        """The function of a batch. GradError."""
        found = self.followers.batched(axes)
        return Batched(self.function._signature, found.function, axes, found.batched)
