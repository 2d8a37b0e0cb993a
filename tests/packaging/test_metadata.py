"""What a package index shows about tc, and what an installer reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import tc
from tc.rules import PAGES

tomllib = pytest.importorskip("tomllib")  # Python 3.11

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
METADATA = PROJECT["project"]
HOME = METADATA["urls"]["Homepage"]
KINDS = {kind["directory"] for kind in PROJECT["tool"]["towncrier"]["type"]}


def test_the_version_is_that_of_the_package() -> None:
    assert METADATA["version"] == tc.__version__


def test_addresses_are_of_one_place() -> None:
    assert all(url.startswith(HOME) for url in METADATA["urls"].values())
    assert f"{HOME}/blob/main/spec" == PAGES


def test_links_of_the_readme_work_elsewhere_too() -> None:
    """A package index shows the README without the files around it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    pattern = rf"{re.escape(HOME)}/(?:blob|raw)/main/([^#]+)"
    own = [found[1] for link in links if (found := re.match(pattern, link))]
    assert len(own) > 10
    assert all(link.startswith("https://") for link in links)
    for path in own:
        assert (ROOT / path).exists(), path


def test_the_front_door_is_short() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()) <= 220
    assert lines[2].startswith("tc turns an operator")


def test_what_is_offered_does_something() -> None:
    """An extra is there for arrays, GPUs, searches, tests, timings or the site; nothing that is
    still to be written."""
    extras = {"test", "torch", "jax", "opencl", "cuda", "pycuda", "tune", "bench", "docs"}
    assert set(METADATA["optional-dependencies"]) == extras


def test_lexers_are_there() -> None:
    for name, place in METADATA["entry-points"]["pygments.lexers"].items():
        module, _, lexer = place.partition(":")
        found = getattr(pytest.importorskip(module), lexer)
        assert name in found.aliases


def test_the_library_needs_nothing_of_the_site() -> None:
    extras = METADATA["optional-dependencies"]
    needed = {Requirement(line).name for line in (*METADATA["dependencies"], *extras["test"])}
    for line in extras["docs"]:
        name = Requirement(line).name
        assert name not in needed or name == "ruff"  # which formats signatures there


def test_floors_are_those_that_are_tested() -> None:
    text = (ROOT / "tests" / "floors.txt").read_text(encoding="utf-8")
    pinned = [Requirement(line) for line in text.splitlines() if line and line[0] != "#"]
    for declared in map(Requirement, METADATA["dependencies"]):
        (floor,) = declared.specifier
        versions = [next(iter(p.specifier)) for p in pinned if p.name == declared.name]
        assert floor.operator == ">="
        assert min(Version(v.version) for v in versions) == Version(floor.version), declared.name


def test_pythons_are_named() -> None:
    named = {c.rpartition(" ")[2] for c in METADATA["classifiers"] if re.search(r":: 3\.\d+$", c)}
    assert {"3.10", "3.11", "3.12", "3.13"} <= named
    assert METADATA["requires-python"] == ">=3.10"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "changelog.d").glob("*.md")), ids=lambda path: path.name
)
def test_fragments_have_a_kind_and_a_text(path: Path) -> None:
    assert path.suffixes[-2].removeprefix(".") in KINDS
    text = path.read_text(encoding="utf-8")
    assert text.strip()
    assert not text.startswith(("-", "#"))
