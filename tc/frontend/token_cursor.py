"""A place in the tokens of a text of any notation, and the errors that every parser makes there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from tc.errors import ErrorDetails, Notes, ParseError, shortened
from tc.frontend.scanning import Scan
from tc.frontend.tokens import Kind, Token
from tc.source import Source, Span

if TYPE_CHECKING:
    from typing_extensions import Unpack

E = TypeVar("E", covariant=True)

NESTS = {"(": 1, ")": -1, "[": 1, "]": -1}
"""How much deeper in brackets the next token is."""


@dataclass(frozen=True, slots=True)
class Parsed(Generic[E]):
    """An expression, its span with the parentheses around it, and the height of its tree."""

    expr: E
    span: Span
    height: int

    @property
    def start(self) -> int:
        return self.span.start

    @property
    def end(self) -> int:
        return self.span.end


class TokenCursor:
    """The current token of a source; `step` moves on, nothing moves back.

    A notation's own cursor names its rules, and says what a token was meant to be that another
    notation has (`foreign_token`).
    """

    SYNTAX_RULE: ClassVar[str]
    """The rule of a token out of its place."""
    RESERVED_RULE: ClassVar[str]
    """The rule that reserves words."""

    def __init__(self, source: Source, found: Scan) -> None:
        self.source = source
        self.tokens = found.tokens
        self.index = 0
        self.token = found.tokens[0]
        self._lexical_error = found.error

    def foreign_token(self) -> ParseError | None:
        """The error for the current token where it is of another notation, else None."""
        raise NotImplementedError

    def is_foreign(self) -> bool:
        """Whether `foreign_token` has an error."""
        raise NotImplementedError

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

    def close_bracket(self, opening: Token, wanted: str) -> Token:
        """Step over the bracket that closes `opening`, or raise with a note where that stands."""
        if not self.at(CLOSING[opening.text]):
            raise self.missing(
                wanted,
                repair=f"write {wanted} here",
                notes=((self.span_of(opening), f"the '{opening.text}' is here"),),
            )
        return self.step()

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
        rule: str | None = None,
        span: Span | None = None,
        **details: Unpack[ErrorDetails],
    ) -> ParseError:
        """A ParseError, at the current token where no span is given, of the rule of syntax where
        no rule is.

        Where the tokens end because of an error of the lexer, that error is the cause.
        """
        if self.at_end and self._lexical_error is not None:
            return self._lexical_error
        if span is None and self.at_end:
            span = self.span(self.previous_end, self.previous_end)
        span = span or self.span_of(self.token)
        rule = self.SYNTAX_RULE if rule is None else rule
        error = ParseError(shortened(cause), rule=rule, span=span, **details)
        error.repair = shortened(error.repair) if error.repair else None
        error.idiom = shortened(error.idiom) if error.idiom else None
        return error

    def unexpected(
        self,
        wanted: str,
        *,
        rule: str | None = None,
        repair: str | None = None,
        notes: Notes = (),
        idiom: str | None = None,
    ) -> ParseError:
        """The error that something else was wanted than the current token."""
        return self.foreign_token() or self.error(
            f"expected {wanted}, found {describe(self.token)}",
            rule=rule,
            repair=repair,
            notes=notes,
            idiom=idiom,
        )

    def missing(self, wanted: str, *, repair: str, notes: Notes = ()) -> ParseError:
        """The error that something is missing before the current token.

        Where that is on a later line, the error points behind the token before it.
        """
        token, end = self.token, self.previous_end
        if self.at_end or self.is_foreign() or "\n" not in self.source.text[end : token.start]:
            return self.unexpected(wanted, repair=repair, notes=notes)
        return self.error(
            f"expected {wanted}, found {describe(token)}",
            span=self.span(end, end),
            repair=repair,
            notes=notes,
        )

    def no_name(self, what: str) -> ParseError:
        """The error that the current token names nothing."""
        token = self.token
        if token.kind is Kind.KEYWORD:
            return self.error(
                f"'{token.text}' is a reserved word and cannot name {what}",
                rule=self.RESERVED_RULE,
                repair=f"rename it wherever it stands, for example to {token.text}_",
            )
        return self.unexpected(what, repair=f"write {what} here")


CLOSING = {"(": ")", "[": "]", "{": "}"}


def describe(token: Token) -> str:
    """A token as error messages name it."""
    if token.kind is Kind.END:
        return "the end of the text"
    kind = {Kind.KEYWORD: "the reserved word ", Kind.NUMBER: "the number "}.get(token.kind, "")
    return f"{kind}'{token.text}'"
