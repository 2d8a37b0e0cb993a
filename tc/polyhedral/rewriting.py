"""Parts shared by the rewrites of shaped programs that run before scheduling."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import replace
from itertools import chain, count

from tc.semantics.program import (
    Binary,
    Call,
    Compare,
    Convert,
    Expr,
    Logical,
    Range,
    Read,
    Select,
    ShapedProgram,
    ShapedStatement,
    Tensor,
    Unary,
    walk,
)


def rewrite(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The expression with every node changed, innermost first; what stays is shared.

    `change` gets each node with its operands changed, and returns it where nothing is to be done.

    >>> from tc.dtypes import INT64
    >>> from tc.semantics.program import Index, Literal
    >>> from tc.semantics.symbolic_text import to_text
    >>> from tc.source import Source, Span
    >>> span = Span(Source(""), 0, 0)
    >>> i, one = Index("i", span=span), Literal(1, INT64, span=span)
    >>> expr = Binary("+", Unary("-", i, INT64, span=span), one, INT64, span=span)
    >>> to_text(rewrite(expr, lambda node: one if node == i else node))
    '-1 + 1'
    >>> rewrite(expr, lambda node: node) is expr
    True
    """

    def all_of(operands: tuple[Expr, ...]) -> tuple[Expr, ...]:
        changed = tuple(rewrite(operand, change) for operand in operands)
        is_same = all(new is old for new, old in zip(changed, operands, strict=True))
        return operands if is_same else changed

    match expr:
        case Read(subscripts=old) if (new := all_of(old)) is not old:
            expr = replace(expr, subscripts=new)
        case Logical(operands=old) if (new := all_of(old)) is not old:
            expr = replace(expr, operands=new)
        case Call(args=old) if (new := all_of(old)) is not old:
            expr = replace(expr, args=new)
        case Unary(operand=inner) | Convert(operand=inner):
            old = (inner,)
            if (new := all_of(old)) is not old:
                expr = replace(expr, operand=new[0])
        case Binary(left=left, right=right) | Compare(left=left, right=right):
            old = (left, right)
            if (new := all_of(old)) is not old:
                expr = replace(expr, left=new[0], right=new[1])
        case Select(condition=condition, then=then, otherwise=otherwise):
            old = (condition, then, otherwise)
            if (new := all_of(old)) is not old:
                expr = replace(expr, condition=new[0], then=new[1], otherwise=new[2])
        case _:
            pass
    return change(expr)


def unused_name(name: str, taken: Container[str]) -> str:
    """The name, with a number if it is taken.

    >>> unused_name("h_w", {"h", "w"}), unused_name("h_w", {"h_w", "h_w_2"})
    ('h_w', 'h_w_3')
    """
    numbered = (f"{name}_{number}" for number in count(2))
    return next(free for free in chain((name,), numbered) if free not in taken)


def unused_sites(shaped: ShapedProgram) -> Iterator[int]:
    """Numbers that identify no read or division of a program yet."""
    exprs = (e for s in shaped.program.statements for e in (s.rhs, *s.exists))
    sites = (n.site for e in exprs for n in walk(e) if isinstance(n, (Read, Binary)))
    yield from count(max(sites, default=-1) + 1)


def add_statement(
    shaped: ShapedProgram,
    position: int,
    new: ShapedStatement,
    changed: ShapedStatement,
    tensor: Tensor,
    sizes: tuple[Range, ...],
) -> ShapedProgram:
    """The program with `new`, which writes the new temporary `tensor`, before the statement at a
    position, which becomes `changed`."""
    statements = (*shaped.statements[:position], new, changed, *shaped.statements[position + 1 :])
    program = replace(
        shaped.program,
        tensors={**shaped.program.tensors, tensor.name: tensor},
        temporaries=(*shaped.program.temporaries, tensor.name),
        statements=tuple(s.statement for s in statements),
    )
    return replace(
        shaped,
        program=program,
        shapes={**shaped.shapes, tensor.name: tuple(r.end for r in sizes)},
        symbolic_shapes={
            **shaped.symbolic_shapes,
            tensor.name: tuple(r.symbolic_end for r in sizes),
        },
        shape_fixed_by={**shaped.shape_fixed_by, tensor.name: tensor.span},
        statements=statements,
    )
