"""What runs a backward pass: the text that `tc.grad` gives, torch's autograd, JAX's vjp."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from bench.backward_passes import torch_layers
from bench.backward_passes.layer import BackwardCase, tensor, through_torch
from bench.broad_programs.lazy_torch import load
from bench.cpu_kernels.kernel import copied

Run = Callable[[], Any]
Form = Callable[[BackwardCase], Run]

SUBJECT = "tc"
PACKAGES = ("numba", "islpy", "numpy", "torch", "jax", "jaxlib")


class BackwardPeer:
    """One form for each layer."""

    def __init__(self, name: str, threads: int) -> None:
        self._version, self._form = MAKERS[name](threads)

    def version(self) -> str:
        return self._version

    def forms(self, family: str) -> Mapping[str, Form]:  # noqa: ARG002
        return {"it": self._form}


def tc_peer(threads: int) -> tuple[str, Form]:  # noqa: ARG001
    import tc

    warnings.simplefilter("ignore", tc.TCWarning)

    def form(case: BackwardCase) -> Run:
        function = tc.compile(case.kernel.gradient)
        results = tc.compile(case.kernel.text)(*case.inputs)
        results = results if isinstance(results, tuple) else (results,)
        known = dict(case.given)
        for name, result, cotangent in zip(
            case.kernel.outputs, results, case.cotangents, strict=True
        ):
            known |= {name: copied(result), f"d_{name}": cotangent}
        inputs = [known[name] for name in function.program.inputs]
        return lambda: function(*inputs)

    return f"tc {tc.__version__}", form


def torch_peer(threads: int) -> tuple[str, Form]:
    import torch

    load([torch_layers])
    torch.set_num_threads(threads)
    return f"torch {torch.__version__}", lambda case: through_torch(case, case.kernel.torch, tensor)


def compile_peer(threads: int) -> tuple[str, Form]:
    """torch.compile, whose own start of some seconds is paid here."""
    import torch
    from torch._functorch import config

    config.donated_buffer = False  # what the forward pass saved is read again
    version, _ = torch_peer(threads)
    torch.compile(lambda x: x + 1)(torch.ones(8))

    def form(case: BackwardCase) -> Run:
        torch.compiler.reset()
        return through_torch(
            case, torch.compile(case.kernel.torch, fullgraph=True, dynamic=False), tensor
        )

    return version, form


def jax_peer(threads: int) -> tuple[str, Form]:  # noqa: ARG001
    import jax
    import jax.numpy as jnp

    def form(case: BackwardCase) -> Run:
        given = {name: jnp.asarray(value) for name, value in case.given.items()}
        wrt = {name: given[name] for name in case.kernel.wrt}

        def formula(wrt: Mapping[str, Any]) -> Any:
            return case.kernel.jax(*{**given, **wrt}.values())

        results, backward = jax.vjp(jax.jit(formula), wrt)
        cotangents = tuple(jnp.asarray(value) for value in case.cotangents)
        given_back = cotangents if isinstance(results, tuple) else cotangents[0]
        run = jax.jit(lambda backward, cotangents: backward(cotangents)[0])
        return lambda: tuple(
            jax.block_until_ready(run(backward, given_back))[name] for name in case.kernel.wrt
        )

    return f"jax {jax.__version__}", form


MAKERS: Mapping[str, Callable[[int], tuple[str, Form]]] = {
    SUBJECT: tc_peer,
    "torch": torch_peer,
    "compile": compile_peer,
    "jax": jax_peer,
}
