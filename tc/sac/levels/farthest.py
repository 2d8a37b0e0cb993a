"""The generator that reaches as far as the selections of a body allow: a repair of C8."""

from __future__ import annotations

from tc.errors import TCError
from tc.sac import ast
from tc.sac.levels.partitions import Partition
from tc.sac.trees import children
from tc.source import Edit, Span


def farthest_generator(part: Partition) -> tuple[Edit, ...]:
    """The edit that adds a generator to a partition that has none, for selections such as
    `a[i + 1]`; none where they do not tell how far the index may go."""
    if part.generator is not None:
        return ()
    ends = [_ends(part.body, name, is_vector=part.is_vector) for name in part.names]
    if not all(ends):
        return ()
    if len(ends) == 1 and len(ends[0]) == 1:
        [(text, (array, shift))] = ends[0].items()
        if part.is_vector or _is_vector(array, part):
            text = f"shape({array.span.line})"
        else:
            return _inserted(part, f"[{_end(text, shift)}]")
        return _inserted(part, _end(text, shift))
    least = []
    for found in ends:
        told = [_end(text, shift) for text, (_, shift) in found.items()]
        least.append(told[0])
        for end in told[1:]:
            least[-1] = f"min({least[-1]}, {end})"
    return _inserted(part, least[0] if part.is_vector else f"[{', '.join(least)}]")


def _end(text: str, shift: int) -> str:
    return f"{text} - {shift}" if shift else text


def _inserted(part: Partition, bound: str) -> tuple[Edit, ...]:
    span = part.body.span
    end = Span(span.source, span.end, span.end)
    return (Edit(end, f" | {part.index_text} < {bound}"),)


def _is_vector(array: ast.Expr, part: Partition) -> bool:
    try:
        env = part.environment(part.unknown_index())
        return env.context.evaluate(array, env).rank == 1
    except (TCError, KeyError):
        return False


def _ends(expr: ast.Expr, name: str, *, is_vector: bool) -> dict[str, tuple[ast.Expr, int]]:
    """The sizes that bound a variable in selections by it, or by it and a number, with the array
    and the greatest such number."""
    found: dict[str, tuple[ast.Expr, int]] = {}

    def note(text: str, array: ast.Expr, shift: int) -> None:
        found[text] = array, max(shift, found[text][1]) if text in found else shift

    if isinstance(expr, ast.Select):
        for k, item in enumerate(expr.items):
            shift = None if isinstance(item, ast.Dot | ast.Dots) else _shift(item, name)
            if shift is not None and not any(isinstance(e, ast.Dots) for e in expr.items[:k]):
                size = f"shape({expr.array.span.line})" + ("" if is_vector else f"[{k}]")
                note(size, expr.array, shift)
    if not isinstance(expr, ast.Comprehension | ast.WithLoop):
        for child in children(expr):
            for text, (array, shift) in _ends(child, name, is_vector=is_vector).items():
                note(text, array, shift)
    return found


def _shift(item: ast.Expr, name: str) -> int | None:
    """The number that an index adds to a variable."""
    match item:
        case ast.Name(text=text) if text == name:
            return 0
        case ast.Binary(op="+", left=ast.Name(text=text), right=ast.Number(value=int(value))):
            return value if text == name else None
        case ast.Binary(op="+", left=ast.Number(value=int(value)), right=ast.Name(text=text)):
            return value if text == name else None
    return None
