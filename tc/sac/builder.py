"""Builds trees of the notation."""

from __future__ import annotations

from collections.abc import Sequence

from tc.sac import ast
from tc.source import Span


class Builder:
    """Builds trees; `words` are the names that a fresh one differs from."""

    def __init__(self, span: Span, words: set[str]) -> None:
        self.span = span
        self.words = words
        self.counts: dict[str, int] = {}

    def fresh(self, stem: str) -> str:
        """A name that the text does not have."""
        while True:
            self.counts[stem] = self.counts.get(stem, 0) + 1
            name = f"{stem}{self.counts[stem]}"
            if name not in self.words:
                return name

    def name(self, text: str) -> ast.Name:
        return ast.Name(text, span=self.span)

    def number(self, value: int) -> ast.Expr:
        found: ast.Expr = ast.Number(str(abs(value)), abs(value), span=self.span)
        return found if value >= 0 else ast.Unary("-", found, span=self.span)

    def row(self, items: Sequence[ast.Expr]) -> ast.Expr:
        return ast.Row(tuple(items), span=self.span)

    def call(self, function: str, *args: ast.Expr) -> ast.Expr:
        return ast.Call(self.name(function), args, span=self.span)

    def binary(self, op: str, left: ast.Expr, right: ast.Expr) -> ast.Expr:
        return ast.Binary(op, left, right, span=self.span)

    def at(self, array: ast.Expr, *items: ast.Expr) -> ast.Expr:
        return ast.Select(array, items, span=self.span)

    def shape(self, array: ast.Expr) -> ast.Expr:
        return self.call("shape", array)

    def assign(self, target: ast.Name, value: ast.Expr) -> ast.Statement:
        return ast.Assign((target,), "", value, span=self.span)

    def concat(self, parts: Sequence[ast.Expr]) -> ast.Expr:
        """Vectors joined, literal ones as one literal."""
        found: list[ast.Expr] = []
        for part in parts:
            if isinstance(part, ast.Row) and found and isinstance(found[-1], ast.Row):
                found[-1] = self.row((*found[-1].items, *part.items))
            elif not (isinstance(part, ast.Row) and not part.items):
                found.append(part)
        if not found:
            return self.row(())
        joined = found[0]
        for part in found[1:]:
            joined = self.binary("++", joined, part)
        return joined

    def vector(self, value: ast.Expr) -> ast.Expr:
        """A bound as a vector: a scalar n stands for [n]."""
        if self.is_vector(value):
            return value
        if isinstance(value, ast.Number):
            return self.row((value,))
        return self.call("reshape", self.row((self.call("prod", self.shape(value)),)), value)

    def is_vector(self, value: ast.Expr) -> bool:
        """Whether an expression that is a vector or a scalar is a vector, as far as the text of it
        shows."""
        match value:
            case ast.Row():
                return True
            case ast.Unary(operand=operand):
                return self.is_vector(operand)
            case ast.Binary(op=op, left=left, right=right):
                return op == "++" or self.is_vector(left) or self.is_vector(right)
            case ast.Call(function=ast.Name(text="shape")):
                return True
            case ast.Call(function=ast.Name(text="take" | "drop" | "reverse"), args=args):
                return self.is_vector(args[-1])
            case ast.Call(function=ast.Name(text="min" | "max"), args=args):
                return any(self.is_vector(arg) for arg in args)
            case ast.Call(function=ast.Name(text="genarray"), args=(ast.Row(items=items), _)):
                return len(items) == 1
            case ast.Call(function=ast.Name(text="reshape"), args=(ast.Row(items=items), _)):
                return len(items) == 1
        return False

    def item(self, vector: ast.Expr, k: int) -> ast.Expr:
        """Element k of a vector."""
        if isinstance(vector, ast.Row) and k < len(vector.items):
            return vector.items[k]
        if isinstance(vector, ast.Binary) and vector.op == "++":
            first = vector.left
            if isinstance(first, ast.Row) and k < len(first.items):
                return first.items[k]
        return self.at(self.vector(vector), self.number(k))

    def zeros(self, like: ast.Expr) -> ast.Expr:
        """A zero for each element of a vector."""
        if isinstance(like, ast.Row):
            return self.row([self.number(0)] * len(like.items))
        return self.call("genarray", self.row((self.at(self.shape(like), self.number(0)),)),
                         self.number(0))  # fmt: skip
