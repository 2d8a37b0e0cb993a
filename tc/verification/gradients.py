"""The gradient of a kernel, as its library takes it, beside that of the text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tc.errors import InputError
from tc.gradient.reverse_mode import grad
from tc.pipeline import check_module, parse_source
from tc.semantics.program import Program
from tc.source import Source


def gradient_program(source: Source, program: Program) -> Program:
    """The gradient of a def as a program that takes all inputs of the def, and then the
    cotangents."""
    text = str(grad(source, entry=program.name, save="none"))  # no results of the kernel
    derived = check_module(parse_source(Source(text)), None)
    tensors = {
        **{name: program.tensors[name] for name in program.inputs},
        **derived.tensors,
    }
    sizes = dict(derived.sizes)
    for name, size in program.sizes.items():
        if name not in sizes and "." not in name:
            extents = tuple(e for e in size.extents if e.tensor in program.inputs)
            sizes[name] = replace(size, extents=extents)
    cotangents = tuple(name for name in derived.inputs if name not in program.inputs)
    return replace(derived, inputs=(*program.inputs, *cotangents), tensors=tensors, sizes=sizes)


@dataclass(frozen=True)
class GradientOf:
    """Called with the inputs of a kernel and the cotangents of its results, it gives the gradients
    of some inputs."""

    kernel: Callable[..., Any]
    library: str
    inputs: int  # how many the kernel takes
    wanted: tuple[int, ...]  # positions of the inputs whose gradients are asked for
    results: tuple[int, ...]  # positions of the results that have cotangents

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        inputs, cotangents = arguments[: self.inputs], arguments[self.inputs :]
        return (self._of_torch if self.library == "torch" else self._of_jax)(inputs, cotangents)

    def _of_torch(self, inputs: Any, cotangents: Any) -> tuple[Any, ...]:
        import torch

        given = list(inputs)
        for position in self.wanted:
            value = given[position]
            tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
            given[position] = tensor.detach().requires_grad_()
        results = self.kernel(*given)
        several = results if isinstance(results, tuple | list) else (results,)
        floating = [several[position] for position in self.results]
        leaves = [given[position] for position in self.wanted]
        pairs = [(r, c) for r, c in zip(floating, cotangents, strict=True) if r.requires_grad]
        if not pairs:
            return tuple(map(torch.zeros_like, leaves))
        found = torch.autograd.grad(
            [r for r, _ in pairs], leaves, [torch.as_tensor(c) for _, c in pairs], allow_unused=True
        )
        return tuple(
            torch.zeros_like(leaf) if gradient is None else gradient
            for leaf, gradient in zip(leaves, found, strict=True)
        )

    def _of_jax(self, inputs: Any, cotangents: Any) -> tuple[Any, ...]:
        import jax

        def of_wanted(*values: Any) -> tuple[Any, ...]:
            given = list(inputs)
            for position, value in zip(self.wanted, values, strict=True):
                given[position] = value
            results = self.kernel(*given)
            several = results if isinstance(results, tuple | list) else (results,)
            return tuple(several[position] for position in self.results)

        _, back = jax.vjp(of_wanted, *(jax.numpy.asarray(inputs[n]) for n in self.wanted))
        found: tuple[Any, ...] = back(tuple(map(jax.numpy.asarray, cotangents)))
        return found


def gradient_of(
    kernel: Callable[..., Any], library: str, program: Program, derived: Program
) -> GradientOf:
    if library not in ("torch", "jax"):
        raise InputError(
            f"gradient=True: a kernel of {library} has no gradient to compare",
            repair="gradient=False, or the gradient as a kernel of the text str(tc.grad(text))",
        )
    prefix = "d_"
    wanted = tuple(program.inputs.index(name.removeprefix(prefix)) for name in derived.outputs)
    results = tuple(
        program.outputs.index(name.removeprefix(prefix))
        for name in derived.inputs[len(program.inputs) :]
    )
    return GradientOf(kernel, library, len(program.inputs), wanted, results)
