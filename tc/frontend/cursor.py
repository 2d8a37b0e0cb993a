"""A place in the tokens of a text, and the errors that a parser makes there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from tc.errors import ErrorDetails, Notes, ParseError, shortened
from tc.frontend.ast import Expr, Name, TensorType
from tc.frontend.lexer import scan
from tc.frontend.repairs import PYTHON_WORDS, from_python
from tc.frontend.tokens import FOREIGN, Kind, Token
from tc.source import Source, Span

if TYPE_CHECKING:
    from typing_extensions import Unpack

NESTS = {"(": 1, ")": -1, "[": 1, "]": -1}
"""How much deeper in brackets the next token is."""


class DeclaredNames(NamedTuple):
    """The names of a def whose types the text gives, and those of its other tensors."""

    params: Mapping[str, TensorType]
    written: frozenset[str]

    def sizes(self) -> frozenset[str]:
        """The sizes that the types of the parameters name."""
        types = self.params.values()
        return frozenset(d.text for t in types for d in t.dims or () if isinstance(d, Name))


class ParsedExpr(NamedTuple):
    """An expression, its span with the parentheses around it, and the height of its tree."""

    expr: Expr
    span: Span
    height: int

    @property
    def start(self) -> int:
        return self.span.start

    @property
    def end(self) -> int:
        return self.span.end


class Cursor:
    """The current token of a source; `step` moves on, nothing moves back."""

    def __init__(self, source: Source) -> None:
        found = scan(source)
        self.source = source
        self.tokens = found.tokens
        self.index = 0
        self.token = found.tokens[0]
        self._lexical_error = found.error
        self.names = DeclaredNames({}, frozenset())
        """The names that the current def declares."""
        self.targets: tuple[Token, ...] = ()
        """The names in the current def that are assigned to, with or without subscripts."""
        self.statement: tuple[int, Token] | None = None
        """The offset where the current statement begins, and the token of its operator once
        parsed."""

    def step(self) -> Token:
        """The current token; the next one becomes current. The last one stays."""
        token = self.token
        if self.index + 1 < len(self.tokens):
            self.index += 1
            self.token = self.tokens[self.index]
        return token

    def ahead(self, count: int) -> Token:
        """The token `count` places ahead, or the last one."""
        return self.tokens[min(self.index + count, len(self.tokens) - 1)]

    def behind(self, count: int) -> Token:
        """The token behind the one `count` places ahead, and the brackets that open there."""
        depth = 0
        while True:
            depth += NESTS.get(self.ahead(count).text, 0)
            count += 1
            if depth <= 0 or self.ahead(count).kind is Kind.END:
                return self.ahead(count)

    def skip_to(self, *stops: str) -> None:
        """Step to the first of some tokens that is in no brackets, or to the last one."""
        depth = 0
        while not self.at_end and (depth or self.token.text not in stops):
            depth += NESTS.get(self.step().text, 0)

    def skip_brackets(self, opening: str) -> None:
        """Step over the brackets that begin here, and over further pairs directly behind them."""
        depth = 0
        while not self.at_end and (depth or self.token.text in opening):
            depth += NESTS.get(self.step().text, 0)

    @property
    def at_end(self) -> bool:
        """Whether no token is left."""
        return self.token.kind is Kind.END

    @property
    def previous_end(self) -> int:
        """Where the token before the current one ends."""
        return self.tokens[self.index - 1].end if self.index else 0

    def at(self, text: str) -> bool:
        """Whether the current token is this sign or reserved word."""
        return self.token.text == text and self.token.kind in (Kind.SIGN, Kind.KEYWORD)

    def accept(self, text: str) -> bool:
        """Step over this sign or reserved word, if it is here."""
        if not self.at(text):
            return False
        self.step()
        return True

    def expect(self, text: str, where: str, notes: Notes = ()) -> Token:
        """Step over this sign or reserved word, or raise; `where` says what it belongs to."""
        if not self.at(text):
            raise self.missing(f"'{text}' {where}", repair=f"write '{text}' here", notes=notes)
        return self.step()

    def name(self, what: str) -> Name:
        """Step over a name, or raise; `what` says in the message what the name would stand for."""
        if self.token.kind is not Kind.NAME:
            raise self.no_name(what)
        token = self.step()
        return Name(token.text, span=self.span(token.start, token.end))

    def finish(self) -> None:
        """Raise the lexer's error, if the tokens end because of one."""
        if self._lexical_error is not None:
            raise self._lexical_error

    def span(self, start: int, end: int) -> Span:
        return Span(self.source, start, end)

    def span_of(self, token: Token) -> Span:
        return Span(self.source, token.start, token.end)

    def error(
        self,
        cause: str,
        *,
        rule: str = "T4",
        span: Span | None = None,
        **details: Unpack[ErrorDetails],
    ) -> ParseError:
        """A ParseError, at the current token where no span is given.

        Where the tokens end because of an error of the lexer, that error is the cause.
        """
        if self.at_end and self._lexical_error is not None:
            return self._lexical_error
        if span is None and self.at_end:
            span = self.span(self.previous_end, self.previous_end)
        span = span or self.span_of(self.token)
        error = ParseError(shortened(cause), rule=rule, span=span, **details)
        error.repair = shortened(error.repair) if error.repair else None
        error.idiom = shortened(error.idiom) if error.idiom else None
        return error

    def unexpected(
        self,
        wanted: str,
        *,
        rule: str = "T4",
        repair: str | None = None,
        notes: Notes = (),
        idiom: str | None = None,
    ) -> ParseError:
        """The error that something else was wanted than the current token."""
        token = self.token
        if token.kind is Kind.NAME and token.text in PYTHON_WORDS:
            return self.python_word(self.index)
        if token.kind is Kind.SIGN and token.text in FOREIGN:
            cause, meant = FOREIGN[token.text]
            if token.text == ";":
                return self.error(cause, rule="T2", paste="")
            if token.text in ("//", "/*"):
                return self.comment(cause)
            return self.error(cause, idiom=meant)
        return self.error(
            f"expected {wanted}, found {describe(token)}",
            rule=rule,
            repair=repair,
            notes=notes,
            idiom=idiom,
        )

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

    def missing(self, wanted: str, *, repair: str, notes: Notes = ()) -> ParseError:
        """The error that something is missing before the current token.

        Where that is on a later line, the error points behind the token before it.
        """
        token, end = self.token, self.previous_end
        foreign = token.kind is Kind.SIGN and token.text in FOREIGN
        foreign = foreign or (token.kind is Kind.NAME and token.text in PYTHON_WORDS)
        if self.at_end or foreign or "\n" not in self.source.text[end : token.start]:
            return self.unexpected(wanted, repair=repair, notes=notes)
        return self.error(
            f"expected {wanted}, found {describe(token)}",
            span=self.span(end, end),
            repair=repair,
            notes=notes,
        )

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
        """The error that the current token names nothing."""
        token = self.token
        if token.kind is Kind.KEYWORD:
            return self.error(
                f"'{token.text}' is a reserved word and cannot name {what}",
                rule="T2",
                repair=f"rename it wherever it stands, for example to {token.text}_",
            )
        if token.text[:4] in ("min=", "max="):
            return self.error(
                f"'{token.text}' is a reduction operator with nothing on its left; to assign to "
                f"'{token.text[:3]}', leave a space",
                rule="T1",
                paste=f"{token.text[:3]} {token.text[3:]}",
            )
        return self.unexpected(what, repair=f"write {what} here")


def describe(token: Token) -> str:
    """A token as error messages name it."""
    if token.kind is Kind.END:
        return "the end of the text"
    kind = {Kind.KEYWORD: "the reserved word ", Kind.NUMBER: "the number "}.get(token.kind, "")
    return f"{kind}'{token.text}'"
