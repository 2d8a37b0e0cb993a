"""From the syntax tree to text on one line, with as few parentheses as the tree allows; what is
printed parses back to the same tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from tc.sac import ast
from tc.sac.text.tokens import PREFIX_STRENGTH, STRENGTH, TERNARY_STRENGTH

Printable: TypeAlias = (
    ast.Expr
    | ast.Dot
    | ast.Dots
    | ast.Pattern
    | ast.Generator
    | ast.Part
    | ast.LoopPart
    | ast.Genarray
    | ast.Modarray
    | ast.Fold
    | ast.Statement
    | ast.Size
    | ast.Type
    | ast.Parameter
    | ast.Body
    | ast.Definition
)

_ATOM = PREFIX_STRENGTH + 1


def printed(node: Printable, least: int = TERNARY_STRENGTH) -> str:
    """The text of a part of a tree, in parentheses where it is an expression that binds less than
    `least`.

    >>> from tc.sac.text.parser import parse
    >>> from tc.source import Source
    >>> printed(parse(Source("{iv->(a[iv])+(2*x)|iv<shape(a)}")).body.results[0])
    '{ iv -> a[iv] + 2 * x | iv < shape(a) }'
    """
    match node:
        case ast.Number() | ast.Name():
            return node.text
        case ast.Bool():
            return "true" if node.value else "false"
        case ast.Dot():
            return "."
        case ast.Dots():
            return "..."
        case ast.Row():
            return _bracketed(node.items)
        case ast.Select():
            array = printed(node.array, _ATOM)
            if isinstance(node.array, ast.WithLoop):
                array = f"({array})"
            return array + _bracketed(node.items)
        case ast.Call():
            return f"{node.function.text}({_list(node.args)})"
        case ast.Cast():
            return f"{node.spelling}({printed(node.operand)})"
        case ast.Unary():
            text, strength = node.op + printed(node.operand, PREFIX_STRENGTH), PREFIX_STRENGTH
        case ast.Binary():
            strength = STRENGTH[node.op]
            left, right = printed(node.left, strength), printed(node.right, strength + 1)
            text = f"{left} {node.op} {right}"
        case ast.Conditional():
            strength = TERNARY_STRENGTH
            condition = printed(node.condition, strength + 1)
            text = f"{condition} ? {printed(node.then)} : {printed(node.otherwise)}"
        case ast.Comprehension():
            return f"{{ {'; '.join(map(printed, node.parts))} }}"
        case ast.WithLoop():
            parts = "".join(f" {printed(part)};" for part in node.parts)
            return f"with {{{parts} }} : {printed(node.operation)}"
        case _:
            return _other(node)
    return text if strength >= least else f"({text})"


def _other(
    node: ast.Pattern
    | ast.Generator
    | ast.Part
    | ast.LoopPart
    | ast.Genarray
    | ast.Modarray
    | ast.Fold
    | ast.Statement
    | ast.Size
    | ast.Type
    | ast.Parameter
    | ast.Body
    | ast.Definition,
) -> str:
    """The text of what is no expression."""
    match node:
        case ast.VectorPattern():
            return node.name.text
        case ast.ScalarPattern():
            return _bracketed(node.entries)
        case ast.Generator():
            return _generator(node)
        case ast.Part():
            generator = f" | {_generator(node.generator)}" if node.generator else ""
            return f"{printed(node.pattern)} -> {printed(node.body)}{generator}"
        case ast.LoopPart():
            block = f" {{{_statements(node.statements)} }}" if node.statements else ""
            return f"({_generator(node.generator)}){block} : {printed(node.body)}"
        case ast.Genarray():
            return f"genarray({printed(node.shape)}, {printed(node.default)})"
        case ast.Modarray():
            return f"modarray({printed(node.array)})"
        case ast.Fold():
            return f"fold({node.op}, {printed(node.neutral)})"
        case ast.Assign():
            return f"{_list(node.targets)} {node.op}= {printed(node.value)};"
        case ast.If():
            return _if(node)
        case ast.Size():
            if node.count is None:
                return "."
            count = str(node.count) if isinstance(node.count, int) else node.count.text
            return f"{count}:{node.name.text}" if node.name else count
        case ast.Type():
            if isinstance(node.sizes, str):
                return f"{node.element}[{node.sizes}]"
            return node.element + (_bracketed(node.sizes) if node.sizes else "")
        case ast.Parameter():
            return f"{printed(node.type)} {node.name.text}"
        case ast.Body():
            return f"{_statements(node.statements)} {_list(node.results)}".strip()
        case ast.Definition():
            results = _list(node.body.results)
            if len(node.body.results) > 1:
                results = f"({results})"
            return (
                f"{_list(node.types)} {node.name.text}({_list(node.parameters)}) "
                f"{{{_statements(node.body.statements)} return {results}; }}"
            )


def module_text(module: ast.Module) -> str:
    """The text of a module, a line for each function."""
    if module.body is not None:
        return printed(module.body)
    return "\n".join(map(printed, module.definitions))


def _list(nodes: Iterable[Printable]) -> str:
    return ", ".join(map(printed, nodes))


def _bracketed(nodes: Sequence[Printable]) -> str:
    """A list in brackets, without spaces where each item is one token."""
    simple = (ast.Number, ast.Bool, ast.Name, ast.Dot, ast.Dots, ast.Size)
    comma = "," if all(isinstance(node, simple) for node in nodes) else ", "
    return f"[{comma.join(map(printed, nodes))}]"


def _statements(nodes: Iterable[ast.Statement]) -> str:
    return "".join(f" {printed(node)}" for node in nodes)


def _generator(node: ast.Generator) -> str:
    index = printed(node.index)
    text = index
    if node.lower is not None:
        lower = printed(node.lower.value, STRENGTH["++"])
        if node.upper is None and lower == index:
            lower = f"({lower})"  # `iv < iv` has an upper bound (C3)
        text = f"{lower} {'<' if node.lower.strict else '<='} {text}"
    if node.upper is not None:
        upper = printed(node.upper.value, STRENGTH["++"])
        text = f"{text} {'<' if node.upper.strict else '<='} {upper}"
    return text


def _if(node: ast.If) -> str:
    text = f"if ({printed(node.condition)}) {{{_statements(node.then)} }}"
    match node.otherwise:
        case ():
            return text
        case (ast.If() as other,):
            return f"{text} else {_if(other)}"
        case _:
            return f"{text} else {{{_statements(node.otherwise)} }}"
