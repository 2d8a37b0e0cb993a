"""The layers of `bench.backward` at tiny sizes: text, torch and JAX have the same gradients."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tc

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("jax", reason="jax is not installed")

from bench import backward
from bench.backward_passes import table
from bench.backward_passes.layer import Layer
from bench.backward_passes.peers import MAKERS
from bench.cpu_measure import Timing

TINY = (
    table.matmul(3, 4, 5),
    table.batched(2, 3, 4, 5),
    *(table.convolution(k, 2, 3, 7, 8, 2) for k in ("conv2d", "conv2d_strided", "conv2d_padded")),
    table.mlp3(3, 4, 5, 6, 2),
    table.softmax(3, 7),
    table.layernorm(3, 7),
    table.groupnorm(2, 3, 2, 4, 5),
    table.embedding(7, 3, 5),
    table.maxpool(1, 2, 6, 7),
    table.attention(2, 3, 4, 5),
)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("peer", [name for name in MAKERS if name != "compile"])
@pytest.mark.parametrize("layer", TINY, ids=lambda layer: layer.family)
def test_gradients_agree(layer: Layer, peer: str) -> None:
    case = layer.case()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.TCWarning)
        found = MAKERS[peer](1)[1](case)()
    found = found if isinstance(found, tuple) else (found,)
    for value, expected in zip(found, case.expected(), strict=True):
        assert np.abs(np.asarray(value) - expected).max() <= layer.tolerance(expected)


def test_all_families_are_tested() -> None:
    assert {layer.family for layer in TINY} == {layer.family for layer in table.LAYERS.values()}


def test_the_report() -> None:
    runs = {
        "a 1x2": {"tc": Timing(2.0), "torch": Timing(1.0), "jax": Timing(reason="it died")},
        "b 3": {"tc": Timing(1.0), "torch": Timing(4.0), "jax": Timing(3.0)},
    }
    text = backward.report("a machine", runs)
    assert "geometric mean 1.22 over 2 backward passes, least 0.50 (a 1x2)" in text
    assert "under 0.9: a 1x2 0.50" in text
    assert "- a 1x2: jax: it died" in text
