"""A rule of the language as data: what `tc explain G5` prints."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

PAGES = "https://github.com/tensor-comprehensions/tc/blob/main/spec"


@dataclass(frozen=True)
class Rule:
    """A rule: `text` in Markdown, `example` as it is typed into Python after `import tc` and
    `import numpy as np`, `page` the page of spec/ that tells more."""

    name: str
    title: str
    page: str
    text: str
    example: str

    def __str__(self) -> str:
        example = textwrap.indent(self.example, "    ")
        return (
            f"{self.name}  {self.title}\n\n{filled(self.text)}\n\n{example}\n\n"
            f"More: {PAGES}/{self.page}\nAll rules: {PAGES}/rules.md#{self.name}"
        )


def filled(text: str) -> str:
    """Text in lines of a page."""
    return textwrap.fill(text, 96, break_long_words=False, break_on_hyphens=False)


def rules_of(text: str) -> tuple[Rule, ...]:
    """Rules as they stand in these modules: `# NAME TITLE (PAGE)`, the text and the example, with
    blank lines between them, and nowhere else.

    >>> [rule] = rules_of("# R9 Sums (statements.md)\\n\\nOf numbers.\\n\\n>>> 1 + 2\\n3\\n")
    >>> rule.title, rule.page, rule.text, rule.example
    ('Sums', 'statements.md', 'Of numbers.', '>>> 1 + 2\\n3')
    """
    parts = iter(text.strip().split("\n\n"))
    return tuple(
        Rule(*(*re.findall(r"# (\w+) (.+) \((.+)\)", head)[0], told, example))
        for head, told, example in zip(parts, parts, parts, strict=True)
    )
