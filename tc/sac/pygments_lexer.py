"""A lexer of Pygments that colours texts of SaC's notation; Pygments finds it as `sac`.

>>> from pygments import highlight
>>> from pygments.formatters import NullFormatter
>>> print(highlight("{ iv -> a[iv] + 1 }", SacLexer(), NullFormatter()))
{ iv -> a[iv] + 1 }
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pygments.lexer import Lexer
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation

from tc.dtypes import SPELLINGS
from tc.frontend.pygments_lexer import Coloured, coloured_tokens
from tc.frontend.tokens import Kind, Token
from tc.sac.names import ARITIES
from tc.sac.text.tokens import scan

_COMPREHENSION = re.compile(r"\{\s*(?:[A-Za-z_]\w*|\[[\w\s,.]*\])\s*->|\bwith\s*\{\s*\(")
_OPERATIONS = frozenset({"genarray", "modarray", "fold"})
_PUNCTUATION = frozenset("(){}[],;:|")


class SacLexer(Lexer):  # type: ignore[misc]  # Pygments has no types
    """The tokens of a text as `tc.sac.text.tokens` finds them."""

    name = "SaC tensor comprehensions"
    aliases = ("sac", "sac-comprehensions")
    filenames = ("*.sac",)
    mimetypes = ("text/x-sac",)
    url = "https://github.com/tensor-comprehensions/tc"

    @staticmethod
    def analyse_text(text: str) -> float:
        """How likely a text is one of this notation, from 0 to 1."""
        return 0.8 if _COMPREHENSION.search(text) else 0.0

    def get_tokens_unprocessed(self, text: str) -> Iterator[Coloured]:
        """The coloured tokens of the text, white space included, in order."""
        return coloured_tokens(text, scan, _kinds)


def _kinds(tokens: list[Token]) -> Iterator[Any]:
    """The type of each token: a name before a parenthesis is a function, and so is the operation of
    a with-loop; dots are variables without a name."""
    for token, after in zip(tokens, [*tokens[1:], None], strict=False):
        text = token.text
        match token.kind:
            case Kind.COMMENT:
                yield Comment.Multiline if text.startswith("/*") else Comment.Single
            case Kind.KEYWORD if text in SPELLINGS:
                yield Keyword.Type
            case Kind.KEYWORD:
                yield Keyword.Constant if text in ("true", "false") else Keyword
            case Kind.NUMBER:
                yield Number
            case Kind.NAME if after is not None and after.text == "(":
                is_known = text in ARITIES or text in _OPERATIONS
                yield Name.Builtin if is_known else Name.Function
            case Kind.NAME:
                yield Name
            case _ if text == "->":
                yield Operator.Word
            case _ if text in (".", "..."):
                yield Name.Variable
            case _:
                yield Punctuation if text in _PUNCTUATION else Operator
