"""Dots of patterns and selections as further indices (ED of C20)."""

from __future__ import annotations

from collections.abc import Sequence

from tc.sac import ast
from tc.sac.builder import Builder


class DotBuilder(Builder):
    """Builds partitions without dots."""

    def sizes_along(self, pattern: ast.Pattern, count: ast.Expr, edge: ast.Expr) -> ast.Expr:
        """The sizes of the axes that the variables of a pattern take."""
        if isinstance(pattern, ast.VectorPattern) or not any(
            isinstance(e, ast.Dot | ast.Dots) for e in pattern.entries
        ):
            return self.call("take", count, edge)
        sizes, is_behind = [], False
        for k, entry in enumerate(pattern.entries):
            if isinstance(entry, ast.Dots):
                is_behind = True
            elif isinstance(entry, ast.Name):
                axis = self.number(k)
                if is_behind:
                    length = self.at(self.shape(edge), self.number(0))
                    axis = self.binary("-", length, self.number(len(pattern.entries) - k))
                sizes.append(self.at(edge, axis))
        return self.row(sizes)

    def without_dots(
        self,
        pattern: ast.Pattern,
        lower: ast.Expr,
        upper: ast.Expr,
        body: ast.Expr,
        block: Sequence[ast.Statement],
        inner: ast.Expr,
        edge: ast.Expr | None,
    ) -> tuple[ast.LoopPart, ast.Expr, int | None]:
        """The partition without dots, the bound of its whole index, and how many axes of the body
        the dots take, None for all (ED). `block` are the statements before the body; `edge` is the
        result's shape for an earlier partition, into which the body has to fit as a whole (C13)."""
        if isinstance(pattern, ast.VectorPattern) or not any(
            isinstance(e, ast.Dot | ast.Dots) for e in pattern.entries
        ):
            bounds = self.generator(pattern, lower, upper)
            return ast.LoopPart(bounds, tuple(block), body, span=self.span), upper, 0
        if edge is not None:
            whole = self.name(self.fresh("e"))
            block = (*block, self.assign(whole, body))
            room = self.call("genarray", self._room(pattern, edge), self.call("zero", whole))
            body = self.call("modarray", room, self.row(()), whole)
        entries = pattern.entries
        middle = next((k for k, e in enumerate(entries) if isinstance(e, ast.Dots)), None)
        if middle is None:
            return self._single_dots(pattern, lower, upper, body, block, inner, edge)
        index = self.name(self.fresh("t"))
        length = self.at(self.shape(index), self.number(0))
        left, right = entries[:middle], entries[middle + 1 :]
        dots = [sum(isinstance(e, ast.Dot) for e in side) for side in (left, right)]
        statements: list[ast.Statement] = []
        lows: list[list[ast.Expr]] = [[], []]
        highs: list[list[ast.Expr]] = [[], []]
        picked: list[list[ast.Expr]] = [[], []]
        variable = dot = 0
        for side, part_entries in enumerate((left, right)):
            for k, entry in enumerate(part_entries):
                place = self.at(
                    index,
                    self.binary("-", length, self.number(len(right) - k))
                    if side
                    else self.number(k),
                )
                if isinstance(entry, ast.Name):
                    statements.append(ast.Assign((entry,), "", place, span=self.span))
                    lows[side].append(self.item(lower, variable))
                    highs[side].append(self.item(upper, variable))
                    variable += 1
                    continue
                picked[side].append(place)
                lows[side].append(self.number(0))
                axis = self.number(dot)
                if side:
                    rank = self.at(self.shape(inner), self.number(0))
                    axis = self.binary("-", rank, self.number(sum(dots) - dot))
                highs[side].append(self.at(inner, axis))
                dot += 1
        within = self._without_ends(inner, dots[0], dots[1])
        if edge is None:
            bound = self.concat([self.row(highs[0]), within, self.row(highs[1])])
        else:
            bound = self._placed(pattern, edge, upper)
        zeros = self._without_ends(self.zeros(bound), len(left), len(right))
        low = self.concat([self.row(lows[0]), zeros, self.row(lows[1])])
        between = self._without_ends(index, len(left), len(right))
        at = self.concat([self.row(picked[0]), between, self.row(picked[1])])
        part = ast.LoopPart(
            self.generator(ast.VectorPattern(index, span=self.span), low, bound),
            (*statements, *block),
            self.at(body, at),
            span=self.span,
        )
        return part, bound, None

    def _placed(self, pattern: ast.ScalarPattern, edge: ast.Expr, upper: ast.Expr) -> ast.Expr:
        """The result's shape with the bounds of the variables in their places."""
        middle = next(k for k, e in enumerate(pattern.entries) if isinstance(e, ast.Dots))
        left, right = pattern.entries[:middle], pattern.entries[middle + 1 :]
        rank = self.at(self.shape(edge), self.number(0))
        sizes: list[list[ast.Expr]] = [[], []]
        variable = 0
        for side, entries in enumerate((left, right)):
            for k, entry in enumerate(entries):
                if isinstance(entry, ast.Name):
                    sizes[side].append(self.item(upper, variable))
                    variable += 1
                else:
                    axis = self.number(k)
                    if side:
                        axis = self.binary("-", rank, self.number(len(right) - k))
                    sizes[side].append(self.at(edge, axis))
        within = self._without_ends(edge, len(left), len(right))
        return self.concat([self.row(sizes[0]), within, self.row(sizes[1])])

    def _room(self, pattern: ast.ScalarPattern, edge: ast.Expr) -> ast.Expr:
        """The sizes of the axes of a result that the variables of a pattern leave over."""
        entries = pattern.entries
        middle = next((k for k, e in enumerate(entries) if isinstance(e, ast.Dots)), len(entries))
        left = [self.at(edge, self.number(k)) for k in range(middle) if is_dot(entries[k])]
        rank, behind = self.at(self.shape(edge), self.number(0)), entries[middle + 1 :]
        right: list[ast.Expr] = [
            self.at(edge, self.binary("-", rank, self.number(len(behind) - k)))
            for k, entry in enumerate(behind)
            if is_dot(entry)
        ]
        within = self._without_ends(edge, middle, len(behind))
        return self.concat([self.row(left), within, self.row(right)])

    def _single_dots(
        self,
        pattern: ast.ScalarPattern,
        lower: ast.Expr,
        upper: ast.Expr,
        body: ast.Expr,
        block: Sequence[ast.Statement],
        inner: ast.Expr,
        edge: ast.Expr | None,
    ) -> tuple[ast.LoopPart, ast.Expr, int | None]:
        names: list[ast.Name | ast.Dot | ast.Dots] = []
        lows: list[ast.Expr] = []
        highs: list[ast.Expr] = []
        picked: list[ast.Expr] = []
        variable = 0
        for k, entry in enumerate(pattern.entries):
            if isinstance(entry, ast.Name):
                names.append(entry)
                lows.append(self.item(lower, variable))
                highs.append(self.item(upper, variable))
                variable += 1
                continue
            fresh = self.name(self.fresh("t"))
            size = self.item(inner, len(picked)) if edge is None else self.item(edge, k)
            names.append(fresh)
            lows.append(self.number(0))
            highs.append(size)
            picked.append(fresh)
        bound = self.row(highs)
        part = ast.LoopPart(
            self.generator(ast.ScalarPattern(tuple(names), span=self.span), self.row(lows), bound),
            tuple(block),
            self.at(body, self.row(picked)),
            span=self.span,
        )
        return part, bound, len(picked)

    def kept_axes(
        self,
        array: ast.Expr,
        plain: Sequence[ast.Expr | ast.Dot | ast.Dots],
    ) -> tuple[ast.Expr, ast.Name, ast.Expr]:
        """The sizes of the axes that the dots of a selection keep, a name for an index along them,
        and the index in the array."""
        middle = next((k for k, e in enumerate(plain) if isinstance(e, ast.Dots)), None)
        left = plain if middle is None else plain[:middle]
        right = [] if middle is None else plain[middle + 1 :]
        index = self.name(self.fresh("t"))
        sizes: list[ast.Expr] = []
        shape = self.shape(array)
        picked: list[list[ast.Expr]] = [[], []]
        kept = [sum(isinstance(e, ast.Dot) for e in side) for side in (left, right)]
        rank, length = self.call("dim", array), self.at(self.shape(index), self.number(0))
        ends: list[ast.Expr] = []
        for k, entry in enumerate(left):
            if isinstance(entry, ast.Dot):
                picked[0].append(self.at(index, self.number(len(sizes))))
                sizes.append(self.at(shape, self.number(k)))
            else:
                assert not isinstance(entry, ast.Dots)
                picked[0].append(entry)
        for k, entry in enumerate(right):
            if isinstance(entry, ast.Dot):
                back = self.number(kept[1] - len(ends))
                picked[1].append(self.at(index, self.binary("-", length, back)))
                axis = self.binary("-", rank, self.number(len(right) - k))
                ends.append(self.at(shape, axis))
            else:
                assert not isinstance(entry, ast.Dots)
                picked[1].append(entry)
        within = self._without_ends(shape, len(left), len(right))
        bound = self.concat([self.row(sizes), within, self.row(ends)])
        between = self._without_ends(index, kept[0], kept[1])
        return bound, index, self.concat([self.row(picked[0]), between, self.row(picked[1])])

    def _without_ends(self, vector: ast.Expr, first: int, last: int) -> ast.Expr:
        """A vector without its first and last elements."""
        if last:
            vector = self.call("drop", self.row((self.number(-last),)), vector)
        return self.call("drop", self.row((self.number(first),)), vector) if first else vector

    def generator(
        self,
        pattern: ast.Pattern,
        lower: ast.Expr,
        upper: ast.Expr,
    ) -> ast.Generator:
        return ast.Generator(
            ast.Bound(lower, False, span=self.span),
            pattern,
            ast.Bound(upper, True, span=self.span),
            span=self.span,
        )

    def rest_of(self, inner: ast.Expr, taken: int | None) -> ast.Expr:
        """The sizes of the axes of a body that dots leave over."""
        if taken is None:
            return self.row(())
        return self.call("drop", self.row((self.number(taken),)), inner) if taken else inner


def is_dot(item: ast.Expr | ast.Dot | ast.Dots) -> bool:
    return isinstance(item, ast.Dot | ast.Dots)


def has_dots(pattern: ast.Pattern) -> bool:
    return isinstance(pattern, ast.ScalarPattern) and any(map(is_dot, pattern.entries))
