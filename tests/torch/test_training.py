"""Networks that train: that of spec/torch.md, and examples/train_torch.py against plain torch."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "train_torch.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


@pytest.fixture(scope="module")
def networks(example: dict[str, Any]) -> tuple[Any, Any]:
    torch.manual_seed(0)
    network = example["Network"]()
    return network, example["Plain"](network)


def test_each_layer_is_that_of_torch(example: dict[str, Any], networks: tuple[Any, Any]) -> None:
    """Up to the bound that follows from its program, beside torch's in float64."""
    network, plain = networks
    exact = example["Plain"](network).double()
    value, _ = example["stripes"](torch.Generator().manual_seed(3))
    for name in ("conv", "norm", "attention"):
        layer = getattr(network, name)
        if name == "attention":
            value = value.flatten(2).mT
        inputs = [value, *(parameter.detach() for parameter in layer.parameters())]
        bound = tc.error_bound(layer.function.text, [i.numpy() for i in inputs])
        with torch.no_grad():
            wanted, found = getattr(exact, name)(value.double()), layer(value)
            near = getattr(plain, name)(value)
        assert np.all(np.abs(found.numpy() - wanted.numpy()) <= bound)
        torch.testing.assert_close(found, near, rtol=1e-4, atol=1e-5)
        value = found


def test_both_networks_learn_alike(
    example: dict[str, Any], networks: tuple[Any, Any], tmp_path: Path
) -> None:
    """Rounding makes less of eight steps than a step itself changes."""
    curves = [example["train"](network, 8)[0] for network in networks]
    np.testing.assert_allclose(*curves, rtol=0, atol=1e-5)
    assert min(abs(np.diff(curves[0]))) > 1e-4
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    picture = tmp_path / "curves.png"
    example["draw"](*curves, picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_layer_of_the_page_learns() -> None:
    """As it stands there, in fewer steps."""
    text = (ROOT / "spec/torch.md").read_text("utf-8")
    (block,) = re.findall(r"```python\n(import torch\n.*?)```", text, re.DOTALL)
    assert block.count("range(300)") == 1
    first: dict[str, Any] = {}
    last: dict[str, Any] = {}
    for steps, names in ((1, first), (80, last)):
        torch.manual_seed(0)
        exec(block.replace("range(300)", f"range({steps})"), names)
    assert last["loss"] < 0.1 * first["loss"]
    assert last["norm"].gain.grad.abs().max() > 0


def test_a_step_of_a_network_of_sac(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of examples/sac/cnn.py leads to the weights that a step of torch leads to."""
    folder = ROOT / "examples" / "sac"
    monkeypatch.syspath_prepend(str(folder))
    own, other = runpy.run_path(str(folder / "cnn.py"))["compared_with_torch"](4)
    own()
    other()
