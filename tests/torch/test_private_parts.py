"""What tc uses of torch's private parts stands in one file, and is there. (0.7)"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tc.runtime.arrays.torch_private import PARTS, SEEN, private_part, private_parts, was_seen
from tests.support.processes import ROOT, run_python, told

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

FILE = "tc/runtime/arrays/torch_private.py"
BUILDS = {"cuda_stream"}
"""What builds for processors alone do not have."""


@pytest.mark.parametrize("name", PARTS)
def test_parts_are_there(name: str) -> None:
    part = PARTS[name]
    found = private_part(torch, name)
    lacks = any(torch.__version__.startswith(version) for version in part.lacking)
    if name not in BUILDS or torch.version.cuda is not None:
        assert (found is part.plain) == lacks
    assert private_parts(torch).is_seen


def test_private_parts_stand_in_one_file() -> None:
    """Public names below private ones count, too. `torch._check` is documented."""
    private = re.compile(r"\btorch(\.\w+)*\._(?!_|check\b)\w+")
    found = []
    for path in sorted((Path(ROOT) / "tc").rglob("*.py")):
        code = re.sub(r'(?s)""".*?"""', "", path.read_text(encoding="utf-8"))
        if str(path.relative_to(ROOT)) != FILE:
            found += [f"{path.name}: {match[0]}" for match in private.finditer(code)]
    assert found == []


def test_the_oldest_version_seen_is_the_oldest_admitted() -> None:
    text = (Path(ROOT) / "pyproject.toml").read_text(encoding="utf-8")
    assert {*re.findall(r'"torch>=([\d.]+)"', text)} == {SEEN[0].removesuffix(".0")}


UNSEEN = """
import warnings
import torch
torch.__version__ = {version!r}
import tc
f = tc.compile("def f(float(N) x, float(N) w) -> (y) {{ y(i) = x(i) * w(i) }}")
x, w = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0], requires_grad=True)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    for _ in range(4):
        assert f(x, w.detach()).tolist() == [3, 8]
        (g,) = torch.autograd.grad(f(x, w).sum(), w)
        assert g.tolist() == [1, 2]
        assert torch.func.grad(lambda w: f(x, w).sum())(w.detach()).tolist() == [1, 2]
    try:
        f(torch.nested.nested_tensor([x, x]), w.detach())
        raise AssertionError
    except tc.InputError as error:
        assert "nested" in str(error)
print([str(each.message) for each in told if issubclass(each.category, tc.TCWarning)])
"""


def test_a_version_that_was_not_seen() -> None:
    """It is told of once, and served the plain way. `was_seen` has examples of which were."""
    version = "2.99.0a0+git"
    assert not was_seen(version, SEEN)
    done = run_python(UNSEEN.format(version=version))
    assert done.returncode == 0, told(done)
    assert done.stdout.strip() == str(
        [
            f"tc was tested with torch {SEEN[0]} to {SEEN[-1]}, and this is {version}: what only "
            "saves time of calls and is private to torch is not used"
        ]
    )
