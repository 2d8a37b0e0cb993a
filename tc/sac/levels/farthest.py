"""The generator that reaches as far as the selections of a body allow: a repair of C8 and C16, and
an example for a range that is written."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tc.errors import TCError
from tc.sac import ast
from tc.sac.trees import children, free_in
from tc.source import Edit, Span

if TYPE_CHECKING:
    from tc.sac.levels.partitions import Partition


def farthest_generator(part: Partition, failed: Span | None = None) -> tuple[Edit, ...]:
    """The edit that adds a generator to a partition that has none, for selections such as
    `a[i + 1]`, `a[2 * i]` and `a[9 - i]`; none where they do not tell how far the index may go, or
    where the selection that `failed` is none of them."""
    text = None if part.generator is not None else _reaching(part, failed)
    if text is None:
        return ()
    span = part.body.span
    end = Span(span.source, span.end, span.end)
    return (Edit(end, f" | {text}"),)


def show_farthest(part: Partition, error: TCError) -> None:
    """Has the error of a selection that leaves its array in a range that is written show the range
    as far as selections reach: another size of the result may be meant."""
    generator = part.generator
    before = "" if generator is None else generator.span.source.text[: generator.span.start]
    text = _reaching(part, error.span) if before.rstrip().endswith("|") else None
    if generator is not None and text is not None:
        error.idiom = f"{text}, as far as the selections allow"
        error.example = (Edit(generator.span, text),)


def _reaching(part: Partition, failed: Span | None) -> str | None:
    """The generator that reaches as far as the selections of the body allow."""
    reaches = [_Reach(name, part.is_vector) for name in part.names]
    for reach in reaches:
        reach.look_at(part.body)
    if not all(reach.sizes or reach.others for reach in reaches):
        return None
    written = part.generator.upper if part.generator else None
    if failed is not None and not any(
        failed in (reach.noted if written else reach.shifted) for reach in reaches
    ):
        return None
    starts = [reach.start for reach in reaches]
    ends = [reach.end for reach in reaches]
    upper = ends[0] if part.is_vector else f"[{', '.join(ends)}]"
    if len(reaches) == 1 and len(reaches[0].sizes) == 1 and not reaches[0].others:
        [(array, _, greatest)] = reaches[0].sizes.values()
        if part.is_vector or _is_vector(array, part):
            upper = _shifted(f"shape({array.span.line})", -greatest)
    lower = ""
    if any(starts):
        if part.is_vector and not reaches[0].sizes:
            return None
        zeros = f"0 * {next(iter(reaches[0].sizes))} + {starts[0]}"
        lower = (zeros if part.is_vector else f"[{', '.join(map(str, starts))}]") + " <= "
    if lower and written and all(reach.falls for reach in reaches):
        sign = "<" if written.strict else "<="
        return f"{lower}{part.index_text} {sign} {written.value.span.line}"
    return f"{lower}{part.index_text} < {upper}"


@dataclass
class _Reach:
    """How far a variable may go: by the text of each size that bounds it, the array, and the least
    and the greatest number that a selection adds to the variable; `others` are the least value and
    the text of the end that a selection of another form allows, `shifted` the selections that do
    not select by the variable alone, `noted` those that select by it."""

    name: str
    is_vector: bool
    sizes: dict[str, tuple[ast.Expr, int, int]] = field(default_factory=dict)
    others: dict[str, int] = field(default_factory=dict)
    shifted: list[Span] = field(default_factory=list)
    noted: list[Span] = field(default_factory=list)

    @property
    def falls(self) -> bool:
        """Whether selections add no positive number to the variable."""
        return not self.others and all(most <= 0 for _, _, most in self.sizes.values())

    @property
    def start(self) -> int:
        """The least value of the variable."""
        return max([0, *self.others.values(), *(-least for _, least, _ in self.sizes.values())])

    @property
    def end(self) -> str:
        """The text of the end of the variable's range."""
        ends = [_shifted(text, -most) for text, (_, _, most) in self.sizes.items()]
        ends += self.others
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
                if any(isinstance(e, ast.Dots) for e in expr.items[:k]):
                    continue
                text = f"shape({expr.array.span.line})" + ("" if self.is_vector else f"[{k}]")
                if shift is None:
                    self._note_other(expr, item, text)
                    continue
                _, least, most = self.sizes.get(text, (expr.array, shift, shift))
                self.sizes[text] = expr.array, min(least, shift), max(most, shift)
                self.noted.append(expr.span)
                if shift:
                    self.shifted.append(expr.span)
        for child in children(expr):
            self.look_at(child)

    def _note_other(
        self, selection: ast.Select, item: ast.Expr | ast.Dot | ast.Dots, size: str
    ) -> None:
        """Notes an item `2 * i + 1` or `e - i` of a selection."""
        if isinstance(item, ast.Dot | ast.Dots):
            return
        if (form := _multiple(item, self.name)) is not None:
            factor, shift = form
            least, end = max(0, -(shift // factor)), _shifted(size, factor - 1 - shift)
            self.others[f"({end}) / {factor}" if " " in end else f"{end} / {factor}"] = least
        elif (last := _falling_from(item, self.name)) is not None:
            end = last[:-1].rstrip().removesuffix("-").rstrip() if last.endswith("1") else ""
            is_size = re.search(r"-\s*1$", last) is not None
            if last.isdecimal():
                end, is_size = str(int(last) + 1), True
            self.others[end if is_size else f"{last} + 1"] = 0
        else:
            return
        self.shifted.append(selection.span)
        self.noted.append(selection.span)


def _multiple(item: ast.Expr, name: str) -> tuple[int, int] | None:
    """The factor, of at least 2, and the number of an index `2 * i + 1`."""
    match item:
        case ast.Binary(op="+", left=left, right=ast.Number(value=int(value))):
            found = _multiple(left, name)
            return None if found is None or found[1] else (found[0], value)
        case ast.Binary(op="-", left=left, right=ast.Number(value=int(value))):
            found = _multiple(left, name)
            return None if found is None or found[1] else (found[0], -value)
        case (
            ast.Binary(op="*", left=ast.Number(value=int(value)), right=ast.Name(text=text))
            | ast.Binary(op="*", left=ast.Name(text=text), right=ast.Number(value=int(value)))
        ):
            return (value, 0) if text == name and value > 1 else None
    return None


def _falling_from(item: ast.Expr, name: str) -> str | None:
    """The text of `e` of an index `e - i`."""
    match item:
        case ast.Binary(op="-", left=left, right=ast.Name(text=text)) if text == name:
            return None if name in free_in(left) else left.span.line
    return None


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
