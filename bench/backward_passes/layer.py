"""A layer whose gradient is measured, and the arrays of its backward pass."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bench.cpu_kernels.kernel import UNIT, Array, Shapes, copied, exact, uniform


@dataclass(frozen=True)
class Layer:
    """A program at given shapes, differentiated along all its inputs of real numbers but scalars.

    `shapes` are those of the inputs in the order of the program, `outputs` of its outputs;
    integers, whose names begin with I, are below `rows`. `torch` and `jax` compute the outputs from
    the same inputs. `terms` is the length of the longest sum of the gradient, and nothing flows
    through `constant`. To the harness it is what a kernel of `bench.cpu` is.
    """

    family: str
    name: str
    text: str
    shapes: Shapes
    outputs: Shapes
    torch: Callable[..., Any]
    jax: Callable[..., Any]
    terms: int
    rows: int = 0
    scalars: Mapping[str, float] = field(default_factory=dict)
    constant: tuple[str, ...] = ()

    @property
    def wrt(self) -> tuple[str, ...]:
        return tuple(n for n in self.shapes if n not in self.scalars and not n.startswith("I"))

    @cached_property
    def gradient(self) -> str:
        import tc

        return tc.grad(self.text, self.wrt, constant=self.constant)

    def case(self) -> BackwardCase:
        """Inputs and cotangents, the same in every process."""
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        inputs: dict[str, Any] = {}
        for name, shape in self.shapes.items():
            if name in self.scalars:
                inputs[name] = self.scalars[name]
            elif name.startswith("I"):
                inputs[name] = copied(rng.integers(0, self.rows, shape, dtype=np.int32))
            else:
                inputs[name] = uniform(rng, shape, -1.0, 1.0)
        cotangents = tuple(uniform(rng, shape, -1.0, 1.0) for shape in self.outputs.values())
        return BackwardCase(self, inputs, cotangents)

    def tolerance(self, expected: Array) -> float:
        """As that of the kernels of `bench.cpu`."""
        return 8 * UNIT * math.sqrt(max(self.terms, 16)) * float(np.max(np.abs(expected)))


@dataclass(frozen=True)
class BackwardCase:
    """The arrays of a layer in one process; gradients are made by each call."""

    kernel: Layer
    given: Mapping[str, Any]
    cotangents: tuple[Array, ...]
    outputs: tuple[Array, ...] = ()

    @property
    def inputs(self) -> tuple[Any, ...]:
        return tuple(self.given.values())

    def reset(self) -> None:
        """Nothing: each call makes its outputs."""

    def expected(self) -> tuple[Array, ...]:
        """By torch's gradients in float64."""
        run = through_torch(self, self.kernel.torch, lambda x: tensor(exact(x)))
        return tuple(value.numpy() for value in run())


def through_torch(
    case: BackwardCase, formula: Callable[..., Any], convert: Callable[[Any], Any]
) -> Callable[[], Any]:
    """The backward pass of a formula that has run once; the saved tensors stay."""
    import torch

    inputs = {name: convert(value) for name, value in case.given.items()}
    wrt = [inputs[name].requires_grad_() for name in case.kernel.wrt]
    results = formula(*inputs.values())
    results = results if isinstance(results, tuple) else (results,)
    cotangents = [convert(value) for value in case.cotangents]
    return lambda: torch.autograd.grad(results, wrt, cotangents, retain_graph=True)


def tensor(value: Any) -> Any:
    import torch

    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value
