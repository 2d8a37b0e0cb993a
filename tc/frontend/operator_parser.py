"""Expressions of any notation: operator precedence with explicit stacks.

The parser recurses only where brackets and `? :` nest, so the depth of its own recursion is
bounded by `MAX_NESTING`, whatever the text. The height of the trees is bounded by `MAX_HEIGHT`,
so that later passes may recurse over them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from tc.errors import ParseError
from tc.frontend.token_cursor import Parsed, TokenCursor
from tc.frontend.tokens import Kind, Token
from tc.source import Span

MAX_NESTING = 100
MAX_HEIGHT = 200

SPLIT = "split the expression into several statements"

C = TypeVar("C", bound=TokenCursor)
E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Pending(Generic[E]):
    """An operator whose right operand is not complete yet; `then` is the middle of `? :`."""

    token: Token
    binding: int
    then: Parsed[E] | None = None


class OperatorParser(ABC, Generic[C, E]):
    """The expressions of one notation: its operators as data, its other expressions and the nodes
    of its trees as methods. All binary operators are left associative."""

    STRENGTH: ClassVar[Mapping[str, int]]
    """How strongly each binary operator binds."""
    TERNARY_STRENGTH: ClassVar[int]
    """How strongly `? :` binds: less than any binary operator."""
    PREFIX_STRENGTH: ClassVar[int]
    """How strongly signs before an operand bind: more than any binary operator."""
    PREFIXES: ClassVar[frozenset[str]]

    @abstractmethod
    def primary(self, cursor: C, nesting: int) -> Parsed[E]:
        """Parse an operand without the signs before it."""

    @abstractmethod
    def unary(self, op: Token, operand: Parsed[E], cursor: C) -> E:
        """The node of a sign before an operand."""

    @abstractmethod
    def binary(self, left: Parsed[E], op: Token, right: Parsed[E]) -> E:
        """The node of an operator between operands."""

    @abstractmethod
    def conditional(self, condition: Parsed[E], then: Parsed[E], otherwise: Parsed[E]) -> E:
        """The node of `condition ? then : otherwise`."""

    def is_another(self, _cursor: C, _left: Parsed[E], /) -> bool:
        """Whether the operator behind an operand can only be meant as one of another notation."""
        return False

    @abstractmethod
    def foreign_operator(
        self, cursor: C, operands: list[Parsed[E]], pending: list[Pending[E]], nesting: int
    ) -> ParseError | None:
        """The error for a sign behind an operand that is an operator of another notation only."""

    @abstractmethod
    def regrouped(self, cursor: C, left: Parsed[E], op: str) -> Parsed[E] | None:
        """The tree of a chain that is as deep as it may be, less deep; None where it stays."""

    @abstractmethod
    def too_deep(self, expr: E) -> str:
        """What an error says of a tree higher than MAX_HEIGHT."""

    def parse(self, cursor: C, nesting: int = 0, binding: int | None = None) -> Parsed[E]:
        """Parse one expression from the current token on, up to an operator that binds less than
        `binding`; without it, `? :` does not end the expression either."""
        least = self.TERNARY_STRENGTH if binding is None else binding
        operands: list[Parsed[E]] = []
        pending: list[Pending[E]] = []
        while True:
            while cursor.token.kind is Kind.SIGN and cursor.token.text in self.PREFIXES:
                pending.append(Pending(cursor.step(), self.PREFIX_STRENGTH))
            operands.append(self.primary(cursor, nesting))
            token = cursor.token
            strength = self.STRENGTH.get(token.text, self.TERNARY_STRENGTH)
            if token.kind is not Kind.SIGN or strength < least:
                break
            if token.text in self.STRENGTH and not self.is_another(cursor, operands[-1]):
                self.reduce(cursor, operands, pending, strength)
                pending.append(Pending(cursor.step(), strength))
            elif token.text == "?":
                self.reduce(cursor, operands, pending, self.TERNARY_STRENGTH + 1)
                cursor.step()
                then = self.parse(cursor, self.nested(cursor, nesting))
                note = (cursor.span_of(token), "the '?' is here")
                cursor.expect(":", "of the conditional", notes=(note,))
                pending.append(Pending(token, self.TERNARY_STRENGTH, then))
            elif error := self.foreign_operator(cursor, operands, pending, nesting):
                raise error
            else:
                break
        self.reduce(cursor, operands, pending, self.TERNARY_STRENGTH)
        return operands[0]

    def reduce(
        self, cursor: C, operands: list[Parsed[E]], pending: list[Pending[E]], binding: int
    ) -> None:
        """Apply the pending operators that bind at least as strongly as `binding`, the last one
        first."""
        while pending and pending[-1].binding >= binding:
            operator = pending.pop()
            right = operands.pop()
            if operator.binding == self.PREFIX_STRENGTH:
                unary = self.unary(operator.token, right, cursor)
                span = cursor.span(operator.token.start, right.end)
                operands.append(self.checked(cursor, unary, span, right))
                continue
            left = operands.pop()
            then = operator.then
            if then is None and left.height >= MAX_HEIGHT:
                left = self.regrouped(cursor, left, operator.token.text) or left
            span = left.span.to(right.span)
            if then is None:
                binary = self.binary(left, operator.token, right)
                operands.append(self.checked(cursor, binary, span, left, right))
            else:
                choice = self.conditional(left, then, right)
                operands.append(self.checked(cursor, choice, span, left, then, right))

    def checked(self, cursor: C, expr: E, span: Span, *parts: Parsed[E]) -> Parsed[E]:
        """The expression of some parts, if it is not too high."""
        height = 1 + max((part.height for part in parts), default=0)
        if height > MAX_HEIGHT:
            raise cursor.error(self.too_deep(expr), span=span, repair=SPLIT)
        return Parsed(expr, span, height)

    def nested(self, cursor: C, nesting: int) -> int:
        """The nesting inside of the bracket or `?` that was stepped over last."""
        if nesting >= MAX_NESTING:
            raise cursor.error(
                f"brackets and '? :' are nested more than {MAX_NESTING} deep",
                span=cursor.span(cursor.previous_end - 1, cursor.previous_end),
                repair=SPLIT,
            )
        return nesting + 1
