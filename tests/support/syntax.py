"""Syntax trees for tests: of one expression, and back as text with as few parentheses as the tree
allows; and the tokens of a text.

What is printed parses back to the same tree: `parse(Source(to_text(module))) == module`.
"""

from __future__ import annotations

from typing import NoReturn, TypeAlias

from tc.frontend import ast
from tc.frontend.cursor import Cursor
from tc.frontend.expression_parser import parse_part
from tc.frontend.format import is_composite
from tc.frontend.lexer import scan
from tc.frontend.tokens import PRECEDENCE, PREFIX_PRECEDENCE, TERNARY_PRECEDENCE, Token
from tc.source import Source

AnyNode: TypeAlias = (
    ast.Module
    | ast.Def
    | ast.Param
    | ast.Return
    | ast.TensorType
    | ast.Statement
    | ast.Target
    | ast.Clause
    | ast.Annotation
    | ast.Expr
)

_LOOSEST = TERNARY_PRECEDENCE
_RELATIONS = frozenset(("<", "<=", ">", ">="))


def tokenize(source: Source) -> tuple[Token, ...]:
    """The tokens of a text without comments, an END token last; raises ParseError."""
    found = scan(source)
    if found.error is not None:
        raise found.error
    return found.tokens


def parse_expression(source: Source) -> ast.Expr:
    """The tree of a text that is one expression; raises ParseError."""
    cursor = Cursor(source)
    part = parse_part(cursor)
    if not cursor.at_end:
        raise cursor.unexpected("the end of the expression")
    cursor.finish()
    return part.expr


def to_text(node: AnyNode) -> str:
    """The text of a tree or of a part of one.

    A statement is one line, and so is the header of a def. The text of a module ends with a line
    end, that of any other node does not.

    >>> from tc.frontend.parser import parse
    >>> text = "def f(float(N)A)->(C) {C(i)=(2*A(i))-(1-A(i))}"
    >>> print(to_text(parse(Source(text))), end="")
    def f(float(N) A) -> (C) {
      C(i) = 2 * A(i) - (1 - A(i))
    }
    """
    match node:
        case ast.Module():
            return "\n".join(to_text(d) + "\n" for d in node.defs)
        case ast.Def():
            body = "".join(f"  {_statement(s)}\n" for s in node.body)
            params, returns = _list(node.params), _list(node.returns)
            return f"def {node.name.text}({params}) -> ({returns}) {{\n{body}}}"
        case ast.Param():
            text = f"{to_text(node.type)} {node.name.text}"
            return text if node.default is None else f"{text} = {to_text(node.default)}"
        case ast.Return():
            return f"{to_text(node.type)} {node.name.text}" if node.type else node.name.text
        case ast.TensorType():
            return node.spelling if node.dims is None else f"{node.spelling}({_list(node.dims)})"
        case ast.Comprehension() | ast.CallStatement():
            return _statement(node)
        case ast.RangeClause() | ast.Binding() | ast.Exists() | ast.Condition() | ast.SizeClause():
            return _clause(node)
        case ast.Target():
            name, subscripts = node.name.text, node.subscripts
            return name if subscripts is None else f"{name}({_list(subscripts)})"
        case ast.Annotation():
            return f"<=> {node.name.text}({_list(node.args)})"
        case _:
            return _expression(node, _LOOSEST)


def _list(
    nodes: tuple[ast.Param, ...]
    | tuple[ast.Return, ...]
    | tuple[ast.Target, ...]
    | tuple[ast.Expr, ...],
) -> str:
    return ", ".join(to_text(node) for node in nodes)


def _statement(node: ast.Statement) -> str:
    match node:
        case ast.CallStatement():
            return f"({_list(node.targets)}) = {node.callee.text}({_list(node.args)})"
        case ast.Comprehension():
            text = f"{_list(node.targets)} {node.op} {_list(node.values)}"
            if node.where:
                text += " where " + ", ".join(_clause(clause) for clause in node.where)
            return text + (f" {to_text(node.annotation)}" if node.annotation else "")
        case _:
            _unreachable(node)


def _clause(node: ast.Clause) -> str:
    match node:
        case ast.RangeClause():
            # beside the ':' of the range, the ':' of a conditional would mislead
            begin, end = (_expression(b, _LOOSEST + 1) for b in (node.begin, node.end))
            colon = " : " if is_composite(node.begin) or is_composite(node.end) else ":"
            return f"{node.variable.text} in {begin}{colon}{end}"
        case ast.Binding():
            return f"{node.name.text} = {_expression(node.value, _LOOSEST)}"
        case ast.Exists():
            return f"exists {_expression(node.read, _LOOSEST)}"
        case ast.Condition():
            return _condition(node.test, _LOOSEST)
        case ast.SizeClause():
            return f"{node.tensor.text}.{node.axis} = {_expression(node.value, _LOOSEST)}"
        case _:
            _unreachable(node)


def _condition(node: ast.Expr, least: int) -> str:
    """The text of a condition: where one comparison is of the outcome of another, the inner one has
    parentheses, as without them it would be a chain."""
    if isinstance(node, ast.Binary) and node.op == "&&":
        binding = PRECEDENCE["&&"]
        text = f"{_condition(node.left, binding)} && {_condition(node.right, binding + 1)}"
        return text if binding >= least else f"({text})"
    is_chain = (
        isinstance(node, ast.Binary)
        and isinstance(node.left, ast.Binary)
        and _RELATIONS.issuperset((node.op, node.left.op))
    )
    if not is_chain:
        return _expression(node, least)
    assert isinstance(node, ast.Binary)
    binding = PRECEDENCE[node.op]
    text = f"({_expression(node.left, _LOOSEST)}) {node.op} {_expression(node.right, binding + 1)}"
    return text if binding >= least else f"({text})"


def _expression(node: ast.Expr, least: int) -> str:
    """The text of an expression, in parentheses where it binds less than `least`."""
    match node:
        case ast.Number() | ast.Name():
            return node.text
        case ast.Dim():
            return f"{node.tensor.text}.{node.axis}"
        case ast.Apply():
            args = ", ".join([_expression(arg, _LOOSEST) for arg in node.args])
            return f"{node.name.text}({args})"
        case ast.Cast():
            return f"{node.spelling}({_expression(node.operand, _LOOSEST)})"
        case ast.Unary():
            text, binding = (
                node.op + _expression(node.operand, PREFIX_PRECEDENCE),
                PREFIX_PRECEDENCE,
            )
        case ast.Binary():
            binding = PRECEDENCE[node.op]
            left, right = _expression(node.left, binding), _expression(node.right, binding + 1)
            text = f"{left} {node.op} {right}"
        case ast.Conditional():
            binding = TERNARY_PRECEDENCE
            condition = _expression(node.condition, binding + 1)
            then = _expression(node.then, binding)
            otherwise = _expression(node.otherwise, binding)
            text = f"{condition} ? {then} : {otherwise}"
        case _:
            _unreachable(node)
    return text if binding >= least else f"({text})"


def _unreachable(node: NoReturn) -> NoReturn:
    raise AssertionError(f"not a node of the syntax tree: {node!r}")
