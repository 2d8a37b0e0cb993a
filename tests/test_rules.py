"""Each rule of the language has a test that names it, and a place on the page of all rules."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tc.rules import PAGES, RULES, page

HERE = Path(__file__)
PAGE = HERE.parent.parent / "spec" / "rules.md"


def texts() -> str:
    files = [p for p in HERE.parent.rglob("test_*.py") if p != HERE]
    return "\n".join(p.read_text(encoding="utf-8") for p in files)


@pytest.mark.parametrize("rule", RULES)
def test_a_test_names_the_rule(rule: str) -> None:
    assert re.search(rf"(?<![A-Za-z0-9.\-]){rule}(?![0-9])", texts()), f"no test names {rule}"


def test_the_page_of_all_rules_is_that_of_the_package(golden: Callable[[Path, str], None]) -> None:
    golden(PAGE, page())


def test_every_rule_has_its_section() -> None:
    """The page that a rule names has a section on it."""
    for rule in RULES.values():
        text = (PAGE.parent / rule.page).read_text(encoding="utf-8")
        assert f"\n## {rule.name} " in text, rule.name


def test_anchors_do_not_depend_on_titles() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert re.findall(r'<a id="(\w+)"></a>\n\n## (\w+) ', text) == [(n, n) for n in RULES]


def test_rules_that_errors_cite_exist() -> None:
    cited = set()
    for path in (HERE.parent.parent / "tc").rglob("*.py"):
        cited |= set(re.findall(r'rule="([^"]+)"', path.read_text(encoding="utf-8")))
    assert cited
    assert cited <= {*RULES, "keep", "bits"}


def test_a_rule_says_where_more_is_told() -> None:
    assert f"{PAGES}/rules.md#G5" in str(RULES["G5"])
    assert "    >>> tc.interpret(" in str(RULES["G5"])
