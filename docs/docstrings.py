"""What griffe, which reads docstrings for the site, does beside its own: examples in docstrings are
sessions of Python's shell in colours, and modules of tc that only mypy imports are found."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\n).*)*", re.MULTILINE)


class Examples(Extension):
    """Examples in docstrings become fenced code."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Changes the docstring of one function, class or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(example: re.Match[str]) -> str:
    code = example[0].replace("<BLANKLINE>", "")
    return f"```pycon-tc\n{code}\n```"
