"""Domains: the values that the index variables of a statement take (W2, W3, G5)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from tc.frontend import ast
from tests.fuzz.places.expressions import Expressions
from tests.fuzz.places.outcomes import AT_RUN_TIME, BEFORE, REFUSED, Fails, Open, Point, Ranges
from tests.fuzz.places.trees import Form


class Domains(Expressions):
    """Expressions, and the points at which statements evaluate them."""

    def kind_of(self, variable: str, form: Form) -> str:
        """ "box", "dependent" (W2) or "ragged" (W3)."""
        bounds = form.bounds.get(variable)
        if bounds is None or not (
            form.variables_of(*bounds) or any(self.reads_of(b) for b in bounds)
        ):
            return "box"
        return "dependent" if all(self.is_affine(b, form) for b in bounds) else "ragged"

    def ordered(self, form: Form, wanted: Sequence[str]) -> list[str]:
        """Variables and those that their bounds use, each behind those that its bounds use."""
        found: list[str] = []

        def visit(v: str, inside: tuple[str, ...]) -> None:
            if v in inside:
                raise Fails("W2", REFUSED, "bounds in a circle")
            if v not in found:
                for w in form.variables_of(*form.bounds.get(v, ())):
                    visit(w, (*inside, v))
                found.append(v)

        for v in wanted:
            visit(v, ())
        return found

    def span(self, variable: str, form: Form, ranges: Ranges, at: Point) -> range:
        """The values of a variable, for values of those that its bounds use."""
        kind = self.kind_of(variable, form)
        if kind == "box":
            bounds = form.bounds.get(variable)
            if bounds is not None:
                begin, end = (self.integer(b, {}) for b in bounds)
                if end < begin:
                    raise Fails("G5", BEFORE, f"{begin}:{end}")
                assert (begin, end) == tuple(ranges.get(variable, (begin, end)))
                return range(begin, end)
            return range(*ranges[variable])
        begin, end = (self.integer(b, at) for b in form.bounds[variable])
        if kind == "ragged":
            low, high = ranges[variable]
            if not low <= begin <= end <= high:
                raise Fails("W3", AT_RUN_TIME, f"{begin}:{end} is no part of {low}:{high}")
        return range(begin, end)

    def points(
        self, form: Form, ranges: Ranges, wanted: Sequence[str], boxes: bool = False
    ) -> Iterator[Point]:
        """All values of variables, in their ranges, conditions aside; with `boxes`, in the box of
        a variable whose range data decide."""
        order = self.ordered(form, wanted)

        def below(depth: int, at: Point) -> Iterator[Point]:
            if depth == len(order):
                yield at
                return
            ragged = boxes and self.kind_of(order[depth], form) == "ragged"
            box = range(*ranges[order[depth]]) if ragged else None
            for x in self.span(order[depth], form, ranges, at) if box is None else box:
                yield from below(depth + 1, {**at, order[depth]: x})

        yield from below(0, {})

    def hull(self, variable: str, form: Form, ranges: Ranges) -> tuple[int, int]:
        """The box of a variable: its range, or the hull of a dependent one (W2)."""
        if self.kind_of(variable, form) == "box":
            span = self.span(variable, form, ranges, {})
            return span.start, span.stop
        if self.kind_of(variable, form) == "ragged":
            return ranges[variable]
        begin, end = form.bounds[variable]
        points = list(self.points(form, ranges, form.variables_of(begin, end), boxes=True))
        pairs = [(self.integer(begin, at), self.integer(end, at)) for at in points]
        some = [(a, b) for a, b in pairs if a < b]
        if not some:
            zero = not points or all(b <= 0 for _, b in pairs)
            if zero and all(a >= 0 for a, _ in pairs):
                return 0, 0
            raise Open("W2: the hull of a dependent variable without values")
        exact = min(a for a, _ in some), max(b for _, b in some)
        if (min(a for a, _ in pairs), max(b for _, b in pairs)) != exact:
            raise Open("W2: the hull counts empty ranges or not")
        corners = [self.integer_ends(e, form, ranges)[side] for side, e in enumerate((begin, end))]
        if tuple(corners) != exact:
            raise Open("W2: the hull over the box or over points")
        return exact

    def integer_ends(self, e: ast.Expr, form: Form, ranges: Ranges) -> tuple[int, int]:
        """The least and the greatest value of an affine expression over the box."""
        names = form.variables_of(e)
        spans = [range(*self.hull(v, form, ranges)) for v in names]
        values = [
            self.integer(e, dict(zip(names, at, strict=True))) for at in itertools.product(*spans)
        ]
        if not values:
            raise Open("S4: an affine expression over an empty box")
        return min(values), max(values)

    def is_empty(self, v: str, form: Form, ranges: Ranges) -> bool:
        low, high = self.hull(v, form, ranges)
        return high <= low

    def check_ragged(self, form: Form, ranges: Ranges) -> None:
        """The bounds that data decide, for each value of the variables in them (W3)."""
        for v in form.variables:
            if self.kind_of(v, form) != "ragged":
                continue
            try:
                for at in self.points(form, ranges, form.variables_of(*form.bounds[v])):
                    self.span(v, form, ranges, at)
            except Fails:
                if form.conditions:
                    raise Open("W3: bounds that fall where a condition may not hold") from None
                others = [w for w in form.variables if self.kind_of(w, form) == "box"]
                if any(len(self.span(w, form, ranges, {})) == 0 for w in others):
                    raise Open("W3: bounds that fall in a statement without instances") from None
                raise

    def holds(self, form: Form, at: Point) -> bool:
        return all(bool(self.value(c, at)) for c in form.conditions)

    def is_narrowed(self, form: Form) -> bool:
        """Whether the domain is less than the box."""
        kinds = [self.kind_of(v, form) for v in form.variables]
        return bool(form.conditions) or bool(set(kinds) - {"box"})

    def is_decided(self, form: Form) -> bool:
        """Whether places and domain are known before anything runs."""
        expressions = [*form.left, *form.conditions]
        return all(self.is_affine(e, form) for e in expressions) and all(
            self.kind_of(v, form) != "ragged" for v in form.variables
        )

    def has_affine_place(self, form: Form) -> bool:
        return all(self.is_affine(s, form) for s in form.left)

    def errors_at_place(self, form: Form) -> frozenset[str]:
        if not self.has_affine_place(form):
            return AT_RUN_TIME
        return BEFORE if self.is_decided(form) else AT_RUN_TIME | BEFORE
