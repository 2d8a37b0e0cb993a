"""Links between the pages lead to pages and headings that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tc
from tc.rules import PAGES

ROOT = Path(__file__).parents[2]
REFERENCE = sorted((ROOT / "docs/pages/reference").glob("*.md"))
PATHS = [
    *REFERENCE,
    ROOT / "docs/pages/gallery.md",
    *sorted((ROOT / "spec").glob("**/*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *(ROOT / folder / "README.md" for folder in ("examples", "examples/sac", "bench/results")),
]
HOME = PAGES.removesuffix("spec")
SITE = (ROOT / "mkdocs.yml").read_text("utf-8")


def prose(path: Path) -> str:
    return re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """The addresses of a page's headings; those of rules are their names alone."""
    titles = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
    rules = re.findall(r'^<a (?:id|name)="(\w+)"', prose(path), re.MULTILINE)
    return {*plain, *rules}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        link = link.replace("/raw/main/", "/blob/main/")
        place, _, anchor = link.removeprefix(HOME).partition("#")
        if place.startswith("http"):
            continue
        base = ROOT if link.startswith(HOME) else path.parent
        target = base / place if place else path
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), link


def test_every_page_is_listed() -> None:
    listed = re.findall(r"^\| \[(\w+\.md)\]", prose(ROOT / "spec" / "README.md"), re.MULTILINE)
    pages = {path.name for path in (ROOT / "spec").glob("*.md")} - {"README.md"}
    assert pages - set(listed) <= {"tutorial.md", "glossary.md"}  # named above the table
    assert len(set(listed)) == len(listed)


def test_every_page_is_on_the_site() -> None:
    listed = re.findall(r"\b(?:spec/(?:sac/)?|reference/)\w+\.md$", SITE, re.MULTILINE)
    pages = [str(path.relative_to(ROOT)) for path in (ROOT / "spec").glob("**/*.md")]
    assert sorted(listed) == sorted([*pages, *(f"reference/{path.name}" for path in REFERENCE)])


def test_the_site_takes_the_pages_that_it_lists() -> None:
    """MkDocs says nothing of a page that is listed and is not there."""
    hooks = (ROOT / "docs" / "hooks.py").read_text("utf-8")
    taken = re.search(r"^PAGES = \((.*?)^\)", hooks, re.DOTALL | re.MULTILINE)
    assert taken is not None
    patterns = re.findall(r'"([^"]+)"', taken[1])
    found = {str(path.relative_to(ROOT)) for p in patterns for path in ROOT.glob(p)}
    listed = re.findall(r"\b((?:spec|examples|bench)/[\w/-]+\.md)$", SITE, re.MULTILINE)
    assert set(listed) <= found


def _public(module: object) -> list[object]:
    """The functions and classes that are names of a package."""
    found = (getattr(module, name) for name in dir(module) if not name.startswith("_"))
    return [value for value in found if callable(value)]


def test_every_public_name_is_in_the_reference() -> None:
    text = "".join(path.read_text("utf-8") for path in REFERENCE)
    entries = set(re.findall(r"^::: tc\.([\w.]+)$", text, re.MULTILINE))
    assert {name for name in entries if "." not in name} == {*tc.__all__} - {"plan"}
    verbs = {name for name in dir(tc.sac) if getattr(tc.sac, name) in _public(tc.sac)}
    assert {f"sac.{name}" for name in verbs} == {n for n in entries if n.startswith("sac.")}
    actions = {kind.__name__ for kind in tc.plan.ACTIONS}
    assert actions <= {name.removeprefix("plan.") for name in entries}
