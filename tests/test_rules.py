"""Each rule of the language, and each promise of the seeds, has a test that names it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__)
RULES = [
    *(f"T{n}" for n in range(1, 6)),
    *(f"Y{n}" for n in range(1, 10)),
    *(f"N{n}" for n in range(1, 5)),
    *(f"R{n}" for n in range(1, 6)),
    *(f"G{n}" for n in range(1, 10)),
    "P1",
]


def texts() -> str:
    files = [p for p in HERE.parent.rglob("test_*.py") if p != HERE]
    return "\n".join(p.read_text(encoding="utf-8") for p in files)


@pytest.mark.parametrize("rule", RULES)
def test_a_test_names_the_rule(rule: str) -> None:
    assert re.search(rf"(?<![A-Za-z0-9.\-]){rule}(?![0-9])", texts()), f"no test names {rule}"
