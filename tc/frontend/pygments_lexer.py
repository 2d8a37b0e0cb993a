"""Lexers of Pygments that colour tensor comprehensions: alone, and in the strings of Python code.

Pygments finds them by the entry points of the package: `tc` for texts, `python-tc` for Python and
`pycon-tc` for sessions of Python's shell whose strings hold texts. Nothing else of tc but the lexer
of SaC's notation imports this module, since Pygments is no dependency of tc.

>>> from pygments import highlight
>>> from pygments.formatters import NullFormatter
>>> print(highlight("def f(float(N) x) -> (y) { y(i) = 2 * x(i) }", TcLexer(), NullFormatter()))
def f(float(N) x) -> (y) { y(i) = 2 * x(i) }
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from pygments.lexer import Lexer, do_insertions
from pygments.lexers.python import PythonConsoleLexer, PythonLexer
from pygments.token import (
    Comment,
    Error,
    Generic,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Whitespace,
)

from tc.builtins import REINTERPRETED, lookup
from tc.dtypes import SPELLINGS
from tc.frontend.lexer import scan
from tc.frontend.scanning import Scan
from tc.frontend.tokens import ASSIGNMENTS, Kind, Token
from tc.source import Source

Coloured: TypeAlias = tuple[int, Any, str]
"""An offset, the type of a token of Pygments, and the characters of the token."""

_DEF = re.compile(r"\bdef\s+\w+\s*\([^{]*->\s*\([^{]*\{")
_PUNCTUATION = frozenset("(){},?:")
_FORMS = frozenset(("concat", "pad", *REINTERPRETED))


class TcLexer(Lexer):  # type: ignore[misc]  # Pygments has no types
    """The tokens of a text as `tc.frontend.lexer` finds them; what is of no token is an error."""

    name = "Tensor Comprehensions"
    aliases = ("tc", "tensor-comprehensions")
    filenames = ("*.tc",)
    mimetypes = ("text/x-tensor-comprehensions",)
    url = "https://github.com/tensor-comprehensions/tc"

    @staticmethod
    def analyse_text(text: str) -> float:
        """How likely a text is a tensor comprehension, from 0 to 1."""
        return 0.9 if _DEF.search(text) else 0.0

    def get_tokens_unprocessed(self, text: str) -> Iterator[Coloured]:
        """The coloured tokens of the text, white space included, in order."""
        return coloured_tokens(text, scan, _kinds)


def coloured_tokens(
    text: str,
    scan: Callable[[Source], Scan],
    kinds: Callable[[list[Token]], Iterable[Any]],
) -> Iterator[Coloured]:
    """The coloured tokens of a text, white space included, in order. `kinds` gives the type of each
    token; a character that no token begins with is an error."""
    begin = 0
    while begin < len(text):
        scanned = scan(Source(text[begin:]))
        tokens = sorted((*scanned.tokens[:-1], *scanned.comments), key=lambda t: t.start)
        at = 0
        for token, kind in zip(tokens, kinds(tokens), strict=True):
            if token.start > at:
                yield begin + at, Whitespace, text[begin + at : begin + token.start]
            yield begin + token.start, kind, text[begin + token.start : begin + token.end]
            at = token.end
        rest = text[begin + at :]
        space = len(rest) - len(rest.lstrip())
        if space:
            yield begin + at, Whitespace, rest[:space]
        begin += at + space
        if begin < len(text):
            yield begin, Error, text[begin]
            begin += 1


def _kinds(tokens: list[Token]) -> Iterator[Any]:
    """The type of each token. The sizes in `float(N)` are constants; the variables in `A(i, j)` are
    variables, and those in calls of functions are what they are around the call."""
    inside: list[Any] = [Name]
    before, kind = None, Comment
    for token, after in zip(tokens, [*tokens[1:], None], strict=False):
        if token.kind is Kind.COMMENT:
            yield Comment.Single
            continue
        if token.text == "(":
            inside.append(_names_inside(before, kind, inside[-1]))
        elif token.text == ")" and len(inside) > 1:
            inside.pop()
        is_called = after is not None and after.text == "("
        kind = _kind(token, before, inside[-1], is_called=is_called)
        yield kind
        before = token


def _kind(token: Token, before: Token | None, name: Any, *, is_called: bool) -> Any:
    """The type of one token; names have the type `name` where their place tells no other."""
    text = token.text
    match token.kind:
        case Kind.KEYWORD:
            return Keyword.Type if text in SPELLINGS else Keyword
        case Kind.NUMBER:
            return Number
        case Kind.DIM:
            return Name.Constant
        case Kind.NAME if before is not None and before.text == "def":
            return Name.Function
        case Kind.NAME if text == "in":
            return Keyword
        case Kind.NAME if is_called:
            return Name.Builtin if _is_function(text) else Name
        case Kind.NAME:
            return name
        case _ if text in ASSIGNMENTS and text != "=":
            return Operator.Word
        case _:
            return Punctuation if text in _PUNCTUATION else Operator


def _names_inside(before: Token | None, kind: Any, around: Any) -> Any:
    """What names are in the parentheses behind the token `before`, which is of the type `kind`."""
    if kind is Keyword.Type:
        return Name.Constant
    if before is not None and before.kind is Kind.NAME and kind is Name:
        return Name.Variable
    return around


def _is_function(name: str) -> bool:
    return name in _FORMS or lookup(name) is not None


class PythonTcLexer(PythonLexer):  # type: ignore[misc]
    """Python, with colours in the strings that hold defs of tensor comprehensions."""

    name = "Python with tensor comprehensions"
    aliases = ("python-tc",)
    filenames = ()
    alias_filenames = ()
    mimetypes = ()

    def get_tokens_unprocessed(self, text: str) -> Iterator[Coloured]:
        """The coloured tokens of the code."""
        return _with_texts(super().get_tokens_unprocessed(text))

    @staticmethod
    def analyse_text(_: str) -> float:
        """Never the guess for a text without a name."""
        return 0.0


class PythonConsoleTcLexer(PythonConsoleLexer):  # type: ignore[misc]
    """Sessions of Python's shell, with colours in the strings that hold defs."""

    name = "Python console session with tensor comprehensions"
    aliases = ("pycon-tc",)
    mimetypes = ()

    def get_tokens_unprocessed(self, text: str) -> Iterator[Coloured]:
        """The coloured tokens of the session."""
        return _with_texts(super().get_tokens_unprocessed(text))

    @staticmethod
    def analyse_text(_: str) -> float:
        """Never the guess for a text without a name."""
        return 0.0


def _with_texts(tokens: Iterator[Coloured]) -> Iterator[Coloured]:
    """The tokens, with those of a tensor comprehension in place of a string that holds one. The
    prompts of the shell within the string stay."""
    run: list[Coloured] = []
    for token in tokens:
        if token[1] in String or (run and token[1] in Generic.Prompt):
            run.append(token)
            continue
        yield from _coloured(run)
        run = []
        yield token
    yield from _coloured(run)


def _coloured(run: list[Coloured]) -> Iterator[Coloured]:
    """The tokens of one string."""
    text = "".join(value for _, kind, value in run if kind in String)
    body = re.match(r"""(?s)([rRbBuUfF]*(?:\"{3}|'{3}|["']))(.*?)(["']*\s*)\Z""", text)
    if body is None or not _DEF.search(text) or "\\" in text:
        yield from run
        return
    start, inner, end = body.groups()
    found: list[Coloured] = [(0, String, start)]
    for at, kind, value in TcLexer().get_tokens_unprocessed(inner):
        found.append((len(start) + at, kind, value))
    if end:
        found.append((len(start) + len(inner), String, end))
    prompts: list[tuple[int, list[Coloured]]] = []
    at = 0
    for _, kind, value in run:
        if kind in String:
            at += len(value)
        else:
            prompts.append((at, [(0, kind, value)]))
    offset = run[0][0]
    for at, kind, value in do_insertions(prompts, iter(found)):
        yield offset + at, kind, value
