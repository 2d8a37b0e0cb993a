"""From the syntax tree to text: with as few parentheses as the tree allows; what is printed parses
back to the same tree."""

from __future__ import annotations

from tc.sac import ast


def printed(node: ast.Pattern) -> str:
    """The text of a pattern."""
    if isinstance(node, ast.VectorPattern):
        return node.name.text
    marks = {ast.Dot: ".", ast.Dots: "..."}
    return (
        "["
        + ",".join(e.text if isinstance(e, ast.Name) else marks[type(e)] for e in node.entries)
        + "]"
    )
