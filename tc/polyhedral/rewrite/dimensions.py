"""Dimensions that subscripts divide become two: the variable of a quotient is two variables then.

Grouped queries are `S(h,t,u) +=! Q(h,t,d) * K(h/3,u,d)`, a transposed convolution is `O(m,x) +=!
X(c,x/2) * K(c,m,x%2)`: each is a contraction, of `S(h_div,h,t,u)` and of `O(m,x_div,x)`, that tiles
and copies suit as they do others. What is merged by `coalescing` is split here: tensors have more
dimensions, but the same elements at the same addresses. (`residues` cuts statements for vectors.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tc.affine.forms import Form, LinearForm
from tc.polyhedral.rewrite.rewriting import (
    Rewriting,
    extent_as_number,
    rewrite,
    unused_name,
    with_shapes,
)
from tc.polyhedral.rewrite.simplifying import period_of, quotients, simplified, substituted
from tc.semantics import program as p
from tc.semantics.affine import box_of
from tc.semantics.size_values import KnownSizes

T = TypeVar("T")


def divide_dimensions(shaped: p.ShapedProgram) -> p.ShapedProgram:
    """The program in which variables `v` of sums whose reads divide them by numbers are `period *
    v_div + v`, where this makes all of these subscripts linear; the very same where there are none.

    A dimension of the target along `v` becomes two, along `v_div` and along `v`, and so do those of
    other statements that touch it, all of which have to subscript it with a bare variable, over a
    range that begins and ends at multiples of the period. Statements with checks stay (G7), and so
    do the dimensions of inputs, which may lie in memory in any order.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> text = "{ s(h,u) +=! q(h,d) * k(h/3,u,d)  t(h) max=! s(h,u) }"
    >>> program = check(parse(Source(f"def f(float(H,D) q, float(G,U,D) k) -> (s, t) {text}")))
    >>> shaped = infer_ranges(program, {"q": (12, 7), "k": (4, 9, 7)}, {})
    >>> for s in divide_dimensions(shaped).statements:
    ...     print(s.statement.text, [f"{v} in {r.begin}:{r.end}" for v, r in s.ranges.items()][:2])
    s(h_div, h, u) +=! q(3 * h_div + h, d) * k(h_div, u, d) ['h_div in 0:4', 'h in 0:3']
    t(h_div, h) max=! s(h_div, h, u) ['h_div in 0:4', 'h in 0:3']
    """
    while (found := next(_divided(shaped), None)) is not None:
        shaped = found
    return shaped


def _divided(shaped: p.ShapedProgram) -> Iterator[p.ShapedProgram]:
    """The program with one more variable of a sum that is two, for each that may be."""
    known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars)
    for position, each in enumerate(shaped.statements):
        for variable in each.statement.variables if each.statement.reduction else ():
            period = period_of(_divided_by(each.statement, variable, known), variable)
            division = _Division(shaped, known, period)
            if period > 1 and division.add(position, variable):
                new = division.program()
                statement = new.statements[position].statement
                own = (variable, division.outer[position][variable])
                if not any(True for v in own for _ in _divided_by(statement, v, known)):
                    yield new


def _divided_by(
    statement: p.Statement, variable: str, known: KnownSizes
) -> Iterator[tuple[LinearForm, int]]:
    """As `quotients`, of the subscripts of what a statement reads."""
    for node in p.walk(statement.rhs):
        for subscript in node.subscripts if isinstance(node, p.Read) else ():
            yield from quotients(subscript, variable, known)


@dataclass
class _Division:
    """Which variables become two by one period, by statement with the names of their quotients
    (`outer`), and which dimensions of tensors (`axes`)."""

    shaped: p.ShapedProgram
    known: KnownSizes
    period: int
    outer: dict[int, dict[str, str]] = field(default_factory=dict)
    axes: dict[str, set[int]] = field(default_factory=dict)

    def add(self, position: int, variable: str) -> bool:
        """Adds a variable, and all that has to become two with it; whether all may."""
        each, own = self.shaped.statements[position], self.outer.setdefault(position, {})
        if variable in own:
            return True
        statement, whole, period = each.statement, each.ranges[variable], self.period
        taken = {*statement.variables, *own.values(), *self.shaped.program.tensors}
        own[variable] = unused_name(f"{variable}_div", taken)
        is_whole = whole.begin % period == whole.end % period == 0 and whole.extent > period
        return (
            is_whole
            and not (each.checked or each.walk or each.is_empty)
            and all(
                self._add_axis(statement.target, axis)
                for axis, subscript in enumerate(statement.subscripts)
                if variable in p.index_names(subscript)
            )
        )

    def _add_axis(self, tensor: str, axis: int) -> bool:
        axes = self.axes.setdefault(tensor, set())
        if axis in axes:
            return True
        axes.add(axis)
        if self.shaped.program.tensors[tensor].role == "input":
            return False
        return self.shaped.shapes[tensor][axis] % self.period == 0 and all(
            isinstance(subscript, p.Index) and self.add(position, subscript.name)
            for position, each in enumerate(self.shaped.statements)
            for subscript in _subscripts(each.statement, tensor, axis)
        )

    def program(self) -> p.ShapedProgram:
        """The program in which they are two."""
        shapes = {
            name: self._in_two(name, shape, lambda n: (n // self.period, self.period))
            for name, shape in self.shaped.shapes.items()
        }
        rewriting = Rewriting(self.shaped, "divided")
        statements = (
            self._statement(each, self.outer.get(position, {}), rewriting)
            for position, each in enumerate(self.shaped.statements)
        )
        return with_shapes(self.shaped, shapes, statements)

    def _statement(
        self, each: p.ShapedStatement, own: dict[str, str], rewriting: Rewriting
    ) -> p.ShapedStatement:
        period, ranges = self.period, dict[str, p.Range]()
        for v, whole in each.ranges.items():
            if v in own:
                ranges[own[v]] = p.Range(whole.begin // period, whole.end // period)
            ranges[v] = p.Range(0, period) if v in own else whole
        pairs = {outer: v for v, outer in own.items()}

        def indices(subscript: p.Expr) -> tuple[p.Expr, ...]:
            outer = next(name for name in p.index_names(subscript) if name in pairs)
            return tuple(p.Index(v, span=subscript.span) for v in (outer, pairs[outer]))

        def changed(node: p.Expr) -> p.Expr:
            if isinstance(node, p.Read):
                return replace(node, subscripts=self._in_two(node.tensor, node.subscripts, indices))
            return extent_as_number(node, self.axes, self.shaped)

        values = {v: Form(0, {outer: period, v: 1}) for v, outer in own.items()}
        new = substituted(each.statement, values)
        subscripts = self._in_two(new.target, new.subscripts, indices)
        subscripts = tuple(rewrite(subscript, changed) for subscript in subscripts)
        rhs = rewrite(new.rhs, changed)
        if not own:
            return replace(each, statement=replace(new, rhs=rhs, subscripts=subscripts))
        rhs = simplified(rhs, self.known, box_of(ranges, ranges))
        return rewriting.changed(replace(new, rhs=rhs, subscripts=subscripts), ranges, each)

    def _in_two(
        self, tensor: str, values: Iterable[T], two: Callable[[T], tuple[T, ...]]
    ) -> tuple[T, ...]:
        """Values of the dimensions of a tensor, where those that become two have two."""
        axes = self.axes.get(tensor, ())
        pairs = (two(v) if axis in axes else (v,) for axis, v in enumerate(values))
        return tuple(value for pair in pairs for value in pair)


def _subscripts(statement: p.Statement, tensor: str, axis: int) -> Iterator[p.Expr]:
    """Those of a tensor along one dimension."""
    if statement.target == tensor:
        yield statement.subscripts[axis]
    for node in p.walk(statement.rhs):
        if isinstance(node, p.Read) and node.tensor == tensor:
            yield node.subscripts[axis]
