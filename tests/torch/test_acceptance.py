"""What an operator of PyTorch has to stand, check by check, and the tests that show each.

The numbers are those of a list of twelve; JAX has its part of it in `tests/jax`.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.backends.clike.backend import compiler
from tc.runtime.arrays import family_of

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

TESTS = Path(__file__).parents[1]

CHECKS: dict[str, dict[str, str]] = {
    "1 opcheck of twenty programs, in layouts, empty, with gradients": {
        "torch/test_operator.py": "test_torch_finds_nothing_wrong_with_it test_layouts",
    },
    "2 gradcheck and gradgradcheck, in both modes": {
        "torch/test_eager_gradients.py": "test_gradients_are_those_of_differences "
        "test_second_derivatives_are_those_of_differences",
        "torch/test_transforms.py": "test_all_modes_are_those_of_differences",
    },
    "3 transforms equal those of torch": {
        "torch/test_transforms.py": "test_products_are_transformed_as_torchs "
        "test_batches_are_those_of_torch test_tangents_are_those_of_torch "
        "test_functional_calls_of_modules test_dual_tensors test_transforms_are_recorded",
        "torch/test_compile.py": "test_transforms_are_parts_of_a_graph",
        "torch/test_operator.py": "test_a_record_computes_anew test_shapes_without_values",
        "torch/test_eager_gradients.py": "test_gradients_are_those_of_torch test_checkpoints",
    },
    "4 no breaks, and one graph for all sizes": {
        "torch/test_compile.py": "test_nothing_breaks_a_graph test_a_graph_is_for_all_sizes",
    },
    "5 export, save, load in another process": {
        "torch/test_operator.py": "test_a_process_that_knows_the_text_alone",
    },
    "6 times of calls": {
        "torch/test_acceptance.py": "test_calls_are_timed",
        "torch/test_eager_gradients.py": "test_calls_without_gradients_are_served_as_ever "
        "test_a_gradient_is_made_once",
    },
    "8 the kernel sees the memory of the array": {
        "torch/test_acceptance.py": "test_the_kernel_sees_the_memory_of_the_array",
        "runtime/test_host_entry.py": "test_torch_keeps_its_versions",
    },
    "9 outputs= makes backward raise": {
        "torch/test_outputs.py": "test_backward_finds_what_was_overwritten "
        "test_what_has_a_history_is_no_output test_inference_mode",
    },
    "10 odd tensors: a result or an error": {
        "torch/test_odd_tensors.py": "test_what_is_no_input test_inputs_of_any_layout "
        "test_cotangents_of_any_layout test_zeros_without_memory",
        "api/test_gradients_refused.py": "test_what_is_no_plain_tensor",
        "runtime/test_inline_cache_torch.py": "test_a_storage_that_is_gone",
    },
    "11 eight threads by all ways": {
        "torch/test_threads.py": "test_all_ways_at_once",
        "torch/test_layer.py": "test_replicas_in_threads",
    },
    "12 tc imports no framework": {
        "test_architecture.py": "test_import_is_light",
    },
}


@pytest.mark.parametrize("check", CHECKS)
def test_each_check_has_its_tests(check: str) -> None:
    for path, names in CHECKS[check].items():
        tree = ast.parse((TESTS / path).read_text("utf-8"))
        found = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert found >= {*names.split()}, path


LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.T,
    "a part": lambda x: x[1:, ::2],
    "one row many times": lambda x: x[:1].expand(3, 6) if hasattr(x, "expand") else x[:1],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("library", ["torch", "numpy", "jax"])
def test_the_kernel_sees_the_memory_of_the_array(
    library: str, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes to machine code is the address that the library tells, and no copy's."""
    function = tc.compile("def f(float(N,M) x) -> (y) { y(i,j) = 2 * x(i,j) }", check=False)
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    if library == "jax":
        values = pytest.importorskip("jax.numpy", reason="jax is not installed").array(values)
        layout = "rows"  # arrays of jax are row-major
    elif library == "torch":
        values = torch.from_numpy(values)
    x = LAYOUTS[layout](values)
    function(x)
    special = function._last
    assert special is not None
    kernel, seen = type(special.runner), []
    run = kernel.run

    def watched(self: Any, addresses: Any, **how: Any) -> Any:
        seen.append(list(addresses))
        return run(self, addresses, **how)

    monkeypatch.setattr(kernel, "run", watched)
    y = function(x)
    ask = {"torch": "data_ptr", "jax": "unsafe_buffer_pointer"}.get(library)
    wanted = [getattr(a, ask)() if ask else a.ctypes.data for a in (x, y)]
    assert seen == [wanted]
    assert family_of(y).name == library


@pytest.mark.skipif(compiler() is None, reason="no C compiler")
def test_calls_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By `bench.torch_calls`, whose rows are right before they are fast."""
    from bench import torch_calls

    monkeypatch.setattr(torch_calls, "BATCH", 2)
    monkeypatch.setattr(torch_calls, "BATCHES", 2)
    a, b = torch_calls.operands(requires_grad=True)
    assert a.shape == b.shape == (8, 8)
    monkeypatch.setattr(torch_calls.Direct, "product", torch.mm, raising=False)
    for runs in (torch_calls.eager(torch.mm), torch_calls.recording(), torch_calls.both()):
        base = next(iter(runs))
        lines = torch_calls.table("Calls", runs, base=base).splitlines()
        assert [line.split("|")[1].strip() for line in lines[4:]] == [*runs]
    for run in torch_calls.recording().values():
        assert run().grad_fn is not None
    by_hand, *others = (run() for run in torch_calls.both().values())
    for found in others:
        torch.testing.assert_close(found, by_hand)
