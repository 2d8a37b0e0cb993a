"""The generator that reaches as far as the selections of a body allow: a repair of C8 and C16."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tc.errors import TCError
from tc.sac import ast
from tc.sac.trees import children
from tc.source import Edit, Span

if TYPE_CHECKING:
    from tc.sac.levels.partitions import Partition


def farthest_generator(part: Partition, failed: Span | None = None) -> tuple[Edit, ...]:
    """The edit that adds a generator to a partition that has none, for selections such as
    `a[i + 1]` and `a[i - 1]`; none where they do not tell how far the index may go, or where the
    selection that `failed` is none of them."""
    if part.generator is not None:
        return ()
    reaches = [_Reach(name, part.is_vector) for name in part.names]
    for reach in reaches:
        reach.look_at(part.body)
    if not all(reach.sizes for reach in reaches):
        return ()
    if failed is not None and not any(failed in reach.shifted for reach in reaches):
        return ()
    starts = [reach.start for reach in reaches]
    ends = [reach.end for reach in reaches]
    upper = ends[0] if part.is_vector else f"[{', '.join(ends)}]"
    if len(reaches) == 1 and len(reaches[0].sizes) == 1:
        [(array, _, greatest)] = reaches[0].sizes.values()
        if part.is_vector or _is_vector(array, part):
            upper = _shifted(f"shape({array.span.line})", -greatest)
    lower = ""
    if any(starts):
        zeros = f"0 * {next(iter(reaches[0].sizes))} + {starts[0]}"
        lower = (zeros if part.is_vector else f"[{', '.join(map(str, starts))}]") + " <= "
    span = part.body.span
    end = Span(span.source, span.end, span.end)
    return (Edit(end, f" | {lower}{part.index_text} < {upper}"),)


@dataclass
class _Reach:
    """How far a variable may go: by the text of each size that bounds it, the array, and the least
    and the greatest number that a selection adds to the variable; `shifted` are the selections that
    add another number than 0."""

    name: str
    is_vector: bool
    sizes: dict[str, tuple[ast.Expr, int, int]] = field(default_factory=dict)
    shifted: list[Span] = field(default_factory=list)

    @property
    def start(self) -> int:
        """The least value of the variable."""
        return max(0, *(-least for _, least, _ in self.sizes.values()))

    @property
    def end(self) -> str:
        """The text of the end of the variable's range."""
        ends = [_shifted(text, -most) for text, (_, _, most) in self.sizes.items()]
        least = ends[0]
        for end in ends[1:]:
            least = f"min({least}, {end})"
        return least

    def look_at(self, expr: ast.Expr) -> None:
        """Notes the selections by the variable, those in nested comprehensions aside."""
        if isinstance(expr, ast.Comprehension | ast.WithLoop):
            return
        if isinstance(expr, ast.Select):
            for k, item in enumerate(expr.items):
                shift = None if isinstance(item, ast.Dot | ast.Dots) else _shift(item, self.name)
                if shift is None or any(isinstance(e, ast.Dots) for e in expr.items[:k]):
                    continue
                text = f"shape({expr.array.span.line})" + ("" if self.is_vector else f"[{k}]")
                _, least, most = self.sizes.get(text, (expr.array, shift, shift))
                self.sizes[text] = expr.array, min(least, shift), max(most, shift)
                if shift:
                    self.shifted.append(expr.span)
        for child in children(expr):
            self.look_at(child)


def _shifted(text: str, by: int) -> str:
    return f"{text} {'-' if by < 0 else '+'} {abs(by)}" if by else text


def _is_vector(array: ast.Expr, part: Partition) -> bool:
    try:
        env = part.environment(part.unknown_index())
        return env.context.evaluate(array, env).rank == 1
    except (TCError, KeyError):
        return False


def _shift(item: ast.Expr, name: str) -> int | None:
    """The number that an index adds to a variable."""
    match item:
        case ast.Name(text=text) if text == name:
            return 0
        case ast.Binary(op="+", left=ast.Name(text=text), right=ast.Number(value=int(value))):
            return value if text == name else None
        case ast.Binary(op="-", left=ast.Name(text=text), right=ast.Number(value=int(value))):
            return -value if text == name else None
        case ast.Binary(op="+", left=ast.Number(value=int(value)), right=ast.Name(text=text)):
            return value if text == name else None
    return None
