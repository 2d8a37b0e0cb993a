"""A rule of the language as data: what `tc explain G5` prints."""

from __future__ import annotations

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
            f"{self.name}  {self.title}\n\n{paragraphs(self.text)}\n\n{example}\n\n"
            f"More: {PAGES}/{self.page}\nAll rules: {PAGES}/rules.md#{self.name}"
        )


def paragraphs(text: str) -> str:
    """Text in lines of a page, its paragraphs kept.

    >>> print(paragraphs("one\\ntwo\\n\\nthree"))
    one two
    <BLANKLINE>
    three
    """
    return "\n\n".join(
        textwrap.fill(" ".join(part.split()), 96, break_long_words=False, break_on_hyphens=False)
        for part in text.strip().split("\n\n")
    )


def rule(name: str, title: str, page: str, text: str, example: str) -> Rule:
    """A rule from texts as they stand in these modules, with blank lines around them."""
    return Rule(name, title, page, text.strip(), textwrap.dedent(example).strip())
