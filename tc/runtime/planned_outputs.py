"""The outputs of a call that is only looked at: what they say of its sizes, and if they fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tc.runtime.arguments import Signature, signature_of
from tc.runtime.arrays import NUMPY
from tc.runtime.arrays.family import Family
from tc.runtime.outputs import bind_outputs, check_outputs, view_outputs
from tc.runtime.sizes import CallSizes, output_shapes
from tc.semantics.program import Program


@dataclass(frozen=True)
class PlannedOutputs:
    """The outputs that a call is going to pass, as arrays, or as arrays of the shapes given."""

    signature: Signature
    targets: Mapping[str, Any] = field(default_factory=dict)
    family: Family = NUMPY

    @classmethod
    def of(cls, program: Program, outputs: object) -> PlannedOutputs:
        """What was passed as outputs=, each an array or a shape; InputError."""
        signature = replace(signature_of(program), inputs=())
        if outputs is None:
            return cls(signature)
        parameters = {p.name: p for p in signature.outputs}
        given = {
            name: np.empty(value, parameters[name].numpy) if _is_shape(value) else value
            for name, value in bind_outputs(signature, outputs).items()
        }
        targets, family, _ = view_outputs(signature, given, (), NUMPY, None, devices=True)
        return cls(signature, targets, family)

    def sizes(self, program: Program, sizes: CallSizes) -> CallSizes:
        """The sizes of the call, with those that the outputs say."""
        return replace(sizes, outputs={**sizes.outputs, **output_shapes(program, self.targets)})

    def check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """InputError where they are not what the program returns at these shapes."""
        check_outputs(self.signature, self.targets, shapes, (), self.family)


def _is_shape(value: object) -> bool:
    return isinstance(value, tuple) and all(type(n) is int and n >= 0 for n in value)
