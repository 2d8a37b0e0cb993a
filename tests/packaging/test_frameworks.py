"""The versions of PyTorch and JAX that `make frameworks` starts from. (0.7)"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

tomllib = pytest.importorskip("tomllib")  # Python 3.11

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_the_oldest_admitted_is_tested(library: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = (ROOT / "tests" / "frameworks.txt").read_text(encoding="utf-8")
    match = re.search(rf"(?m)^{library}==([\d.]+)$", pinned)
    assert match is not None
    oldest = match[1]
    for extra in (library, "bench"):
        wanted = map(Requirement, project["optional-dependencies"][extra])
        specifier = next(each.specifier for each in wanted if each.name == library)
        assert [each.operator for each in specifier] == [">="]
        assert oldest in specifier
        assert not specifier.contains(f"{oldest}.dev0", prereleases=True)


def test_what_make_runs_is_there() -> None:
    """A file that gets another name is not left out without a word."""
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = re.findall(r"(?<![\w/])(?:tests|spec)/[\w/]+(?:\.\w+)?", rules)
    assert "tests/torch" in named
    assert [name for name in named if not (ROOT / name).exists()] == []
