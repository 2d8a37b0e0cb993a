"""A place in the tokens of a SaC text, and the errors for what other languages have."""

from __future__ import annotations

from tc.errors import ParseError
from tc.frontend.token_cursor import TokenCursor
from tc.frontend.tokens import Kind
from tc.sac.ast import Name
from tc.sac.text.tokens import FOREIGN, scan
from tc.source import Source

WRITTEN = {"&": "&&", "<>": "!=", "=>": ">=", "=<": "<=", "===": "==", "!==": "!="}
"""What other languages' operators are here, one for one."""
PYTHON_WORDS = {"and": "&&", "or": "||", "not": "!"}


class Cursor(TokenCursor):
    """A place in the tokens of a SaC text."""

    SYNTAX_RULE = "C1"
    RESERVED_RULE = "C2"

    def __init__(self, source: Source) -> None:
        super().__init__(source, scan(source))
        self.refusals = 0
        """How many refusals parse operands for the text to paste, one within another."""

    def name(self, what: str) -> Name:
        """Step over a name, or raise; `what` says in the message what the name would stand for."""
        if self.token.kind is not Kind.NAME:
            raise self.no_name(what)
        token = self.step()
        return Name(token.text, span=self.span_of(token))

    def at_word(self, *words: str) -> bool:
        """Whether the current token is one of some names, as `step` and `genarray` are."""
        return self.token.kind is Kind.NAME and self.token.text in words

    def is_behind_operand(self) -> bool:
        """Whether the token before the current one ends an operand."""
        before = self.tokens[self.index - 1]
        ends = before.kind in (Kind.NAME, Kind.NUMBER) or before.text in (")", "]", "true", "false")
        return self.index > 0 and ends

    def is_foreign(self) -> bool:
        token = self.token
        if token.kind is Kind.SIGN:
            return token.text in FOREIGN
        if token.kind is Kind.KEYWORD:
            return token.text in ("if", "else") and self.is_behind_operand()
        return token.kind is Kind.NAME and token.text in PYTHON_WORDS

    def foreign_token(self) -> ParseError | None:
        if not self.is_foreign():
            return None
        text = self.token.text
        if self.token.kind is Kind.KEYWORD:
            cause = "there is no 'a if c else b'; a choice is written 'c ? a : b'"
            return self.error(cause, idiom="c ? a : b")
        if self.token.kind is Kind.NAME:
            cause = f"there is no operator '{text}'; it is written '{PYTHON_WORDS[text]}'"
            return self.error(cause, paste=PYTHON_WORDS[text])
        cause, meant = FOREIGN[text]
        if text in WRITTEN:
            return self.error(
                f"{cause.partition(';')[0]}; it is written '{WRITTEN[text]}'", paste=WRITTEN[text]
            )
        if text == "#":
            return self.error(cause, rule="C2", paste="//")
        return self.error(cause, idiom=meant)
