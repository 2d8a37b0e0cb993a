"""A place in the tokens of a text of defs, and the errors that its parser makes there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from tc.dtypes import SPELLINGS
from tc.errors import ParseError
from tc.frontend.ast import Expr, Name, TensorType
from tc.frontend.lexer import scan
from tc.frontend.repairs import PYTHON_WORDS, from_python
from tc.frontend.scanning import Scan
from tc.frontend.token_cursor import Parsed, TokenCursor
from tc.frontend.tokens import FOREIGN, Kind, Token
from tc.source import Source


class DeclaredNames(NamedTuple):
    """The names of a def whose types the text gives, and those of its other tensors."""

    params: Mapping[str, TensorType]
    written: frozenset[str]

    def sizes(self) -> frozenset[str]:
        """The sizes that the types of the parameters name."""
        types = self.params.values()
        return frozenset(d.text for t in types for d in t.dims or () if isinstance(d, Name))


ParsedExpr: TypeAlias = Parsed[Expr]


class Cursor(TokenCursor):
    """A place in the tokens of a text of defs."""

    SYNTAX_RULE = "T4"
    RESERVED_RULE = "T2"

    def __init__(self, source: Source, found: Scan | None = None) -> None:
        super().__init__(source, found or scan(source))
        self.names = DeclaredNames({}, frozenset())
        """The names that the current def declares."""
        self.variables: frozenset[str] = frozenset()
        """The type variables of the current def (T6)."""
        self.statement: tuple[int, Token] | None = None
        """The offset where the current statement begins, and the token of its operator; None on the
        left side."""

    def name(self, what: str) -> Name:
        """Step over a name, or raise; `what` says in the message what the name would stand for."""
        if self.token.kind is not Kind.NAME:
            raise self.no_name(what)
        token = self.step()
        return Name(token.text, span=self.span(token.start, token.end))

    def is_type(self, token: Token) -> bool:
        """Whether a token is the name of a type, or a type variable of the current def."""
        if token.kind is Kind.KEYWORD:
            return token.text in SPELLINGS
        return token.kind is Kind.NAME and token.text in self.variables

    def is_foreign(self) -> bool:
        token = self.token
        if token.kind is Kind.SIGN:
            return token.text in FOREIGN
        return token.kind is Kind.NAME and token.text in PYTHON_WORDS

    def foreign_token(self) -> ParseError | None:
        if not self.is_foreign():
            return None
        if self.token.kind is Kind.NAME:
            return self.python_word(self.index)
        cause, meant = FOREIGN[self.token.text]
        if self.token.text == ";":
            return self.error(cause, rule="T2", paste="")
        if self.token.text in ("//", "/*"):
            return self.comment(cause)
        return self.error(cause, idiom=meant)

    def comment(self, cause: str) -> ParseError:
        """The error that a comment of another language begins here."""
        token, text = self.token, self.source.text
        if token.text == "//":
            return self.error(cause, rule="T2", paste="#")
        end = text.find("*/", token.end)
        if end < 0:
            return self.error(cause, rule="T2", repair="write # before each of its lines")
        span = self.span(token.start, end + 2)
        first, last = text.rfind("\n", 0, token.start) + 1, text.find("\n", end)
        rest = text[end + 2 : None if last < 0 else last]
        if rest.strip():  # what stands behind it on the line is no comment
            return self.error(cause, rule="T2", span=span, paste="")
        lines = [line.strip().strip("*").strip() for line in span.text[2:-2].split("\n")]
        indent = " " * (token.start - first)
        comment = f"\n{indent}".join(f"# {line}".rstrip() for line in lines)
        return self.error(cause, rule="T2", span=span, paste=comment)

    def python_word(self, at: int) -> ParseError:
        """The error for the token `at`, which is an operator of Python spelt as a word, such as
        `and`."""
        word = self.tokens[at]
        if word.text in ("if", "else"):
            cause = "there is no 'x if c else y'; a choice is written 'c ? x : y'"
        else:
            cause = f"there is no operator '{word.text}'; it is written '{PYTHON_WORDS[word.text]}'"
        found = from_python(self.tokens, at)
        span = self.span_of(word)
        if found is not None:
            span = self.span(found.first.start, found.last.end)
            return self.error(cause, span=span, paste=found.text)
        if word.text in ("if", "else"):
            return self.error(cause, span=span, idiom="o(i) = x(i) > 0 ? x(i) : 0")
        return self.error(cause, span=span, paste=PYTHON_WORDS[word.text])

    def no_name(self, what: str) -> ParseError:
        token = self.token
        if token.kind is not Kind.KEYWORD and token.text[:4] in ("min=", "max="):
            return self.error(
                f"'{token.text}' is a reduction operator with nothing on its left; to assign to "
                f"'{token.text[:3]}', leave a space",
                rule="T1",
                paste=f"{token.text[:3]} {token.text[3:]}",
            )
        return super().no_name(what)
