"""Programs with with-loops only (C20): bounds are written out (BI), dots are gone (ED), and
comprehensions are with-loops whose default element has the shape of the last body (W).

The shape of a body is `shape(e)` with stand-ins for the indices. `shape` needs no more than level S
(C22), so no instance is computed, and the stand-ins serve by their shapes alone (C23).

Long because loops, outlines and inferred bounds ask each other for expressions.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from tc.sac import ast
from tc.sac.bindings import Bindings
from tc.sac.dots import DotBuilder, has_dots, is_dot
from tc.sac.levels.builtins import SELECTION, row_of
from tc.sac.levels.demand import Demand, InputName, MeantName, Scope
from tc.sac.levels.values import Level
from tc.sac.names import inputs_of
from tc.sac.trees import (
    assigned_names,
    children,
    free_in,
    has_loop,
    is_short,
    mapped,
    operands,
    pattern_names,
)
from tc.source import Span

N, S, F = Level.N, Level.S, Level.F


def desugared(module: ast.Module) -> ast.Module:
    """The same program without comprehensions and dots, with the same results."""
    words = set(re.findall(r"\w+", module.source.text))
    definitions = {definition.name.text: definition for definition in module.definitions}
    rewriter = _Rewriter(Span(module.source, 0, 0), words, definitions)
    changed = tuple(replace(d, body=rewriter.body(d.body)) for d in module.definitions)
    body = None if module.body is None else rewriter.expression(module.body)
    return ast.Module(module.source, changed, body)


@dataclass(frozen=True)
class _Place:
    """A place of the text that is rewritten.

    `block` takes the statements that come before the place. `by` has what stands for names there:
    stand-ins for indices, and new names for variables that would hide others. `indices` are the
    names whose value no shape may depend on (C23). `shared` has the names of expressions of the
    text that a statement of the block, or of one around it, holds."""

    block: list[ast.Statement]
    by: Mapping[str, ast.Expr] = field(default_factory=dict)
    indices: frozenset[str] = frozenset()
    shared: ChainMap[int, ast.Name] = field(default_factory=ChainMap)

    def with_names(self, by: Mapping[str, ast.Expr], indices: Iterable[str] = ()) -> _Place:
        """The place where further expressions stand for names."""
        return replace(self, by={**self.by, **by}, indices=self.indices | frozenset(indices))

    def hiding(self, names: Iterable[str]) -> _Place:
        """The place where names mean what the text around it binds them to."""
        hidden = frozenset(names)
        by = {name: expr for name, expr in self.by.items() if name not in hidden}
        return replace(self, by=by, indices=self.indices - hidden)

    def within(self, block: list[ast.Statement]) -> _Place:
        """The place in a block within this one."""
        return replace(self, block=block, shared=self.shared.new_child())

    @property
    def mentioned(self) -> frozenset[str]:
        """The names in the expressions that stand for others."""
        return frozenset(name for expr in self.by.values() for name in free_in(expr))


class _Rewriter(DotBuilder):
    """Rewrites expressions, each once, and makes outlines of them: expressions of the same shape
    for which no body is computed.

    What more than one place needs, and is not short, is held by a statement before the one that it
    stands in, so that a text grows with the square of the depth of its comprehensions at most."""

    def __init__(
        self, span: Span, words: set[str], definitions: Mapping[str, ast.Definition]
    ) -> None:
        super().__init__(span, words)
        self.definitions = definitions
        self.demand = Demand(definitions)
        self._vectors: set[str] = set()
        self._renamed: set[str] = set()
        self._held: dict[tuple[int, ast.Expr], ast.Name] = {}
        self._found: dict[tuple[object, ...], ast.Expr | None] = {}
        self._kept: list[object] = []

    # --- statements and expressions ---------------------------------------------------------------

    def body(self, body: ast.Body) -> ast.Body:
        place = self._behind(body.statements, _Place([]))
        results = tuple(self.expr(result, place) for result in body.results)
        return ast.Body(tuple(place.block), results, span=body.span)

    def expression(self, body: ast.Body) -> ast.Body:
        """The body of a text that is an expression, whose free names are its inputs (C1): one that
        no with-loop needs, such as that of the bound of a pattern without variables, is named by a
        statement."""
        found = self.body(body)
        unused = [name for name in inputs_of(body) if name not in inputs_of(found)]
        kept = (self.assign(self.name(self.fresh(name)), self.name(name)) for name in unused)
        return replace(found, statements=(*kept, *found.statements))

    def _behind(self, statements: Sequence[ast.Statement], place: _Place) -> _Place:
        """The place behind statements, which are added to its block."""
        if place.by:
            place = self._set_apart(statements, place)
        for statement in statements:
            names = dict.fromkeys(assigned_names((statement,)))
            new = {name: place.by.get(name) for name in names}
            if isinstance(statement, ast.Assign):
                is_known = statement.op and new[statement.targets[0].text] is not None
                value = self.expr(statement.whole_value if is_known else statement.value, place)
                op = "" if is_known else statement.op
                place = self._unless_renamed(place, new)
                targets = tuple(self._target(target, place) for target in statement.targets)
                place.block.append(replace(statement, targets=targets, op=op, value=value))
            else:
                condition = self.expr(statement.condition, place)
                for name, expr in new.items():
                    if expr is not None and not isinstance(expr, ast.Name):
                        place.block.append(self.assign(self.name(name), expr))
                place = self._unless_renamed(place, new)
                then, otherwise = (
                    self._behind(branch, place.within([])).block
                    for branch in (statement.then, statement.otherwise)
                )
                place.block.append(
                    replace(
                        statement, condition=condition, then=tuple(then), otherwise=tuple(otherwise)
                    )
                )
        return place

    def _set_apart(self, statements: Sequence[ast.Statement], place: _Place) -> _Place:
        """The place where new names stand for those that statements set and that are mentioned by
        what stands for others."""
        renamed = {}
        for name in sorted(place.mentioned & frozenset(assigned_names(statements))):
            renamed[name] = self.name(self.fresh(name))
            place.block.append(self.assign(renamed[name], place.by.get(name, self.name(name))))
        self._renamed |= {name.text for name in renamed.values()}
        return place.with_names(renamed)

    def _unless_renamed(self, place: _Place, names: Mapping[str, ast.Expr | None]) -> _Place:
        return place.hiding(n for n, e in names.items() if not self._is_renamed(e))

    def _is_renamed(self, expr: ast.Expr | None) -> bool:
        return isinstance(expr, ast.Name) and expr.text in self._renamed

    def _target(self, target: ast.Name, place: _Place) -> ast.Name:
        found = place.by.get(target.text)
        return found if isinstance(found, ast.Name) else target

    def expr(self, expr: ast.Expr, place: _Place) -> ast.Expr:
        """An expression without comprehensions and dots."""
        if id(expr) in place.shared and place.by.keys().isdisjoint(free_in(expr)):
            return place.shared[id(expr)]
        match expr:
            case ast.Name(text=text):
                return place.by.get(text, expr)
            case ast.Select(array=array, items=items):
                plain = [
                    e if isinstance(e, ast.Dot | ast.Dots) else self.expr(e, place) for e in items
                ]
                return self._selection(expr, self.expr(array, place), plain, place)
            case ast.Comprehension():
                return self._comprehension(expr, place)
            case ast.WithLoop():
                return self._with_loop(expr, place)
        return mapped(expr, lambda operand: self.expr(operand, place))

    def is_vector(self, value: ast.Expr) -> bool:
        if isinstance(value, ast.Name) and value.text in self._vectors:
            return True
        return super().is_vector(value)

    def held(self, value: ast.Expr, stem: str, place: _Place) -> ast.Expr:
        """A short expression as it is, and a name for another one."""
        if is_short(value):
            return value
        key = id(place.block), value
        if key not in self._held:
            name = self._held[key] = self.name(self.fresh(stem))
            self._kept.append(place.block)
            if self.is_vector(value):
                self._vectors.add(name.text)
            place.block.append(self.assign(name, value))
        return self._held[key]

    # --- outlines ---------------------------------------------------------------------------------

    def outline(self, expr: ast.Expr, place: _Place, level: Level) -> ast.Expr:
        """An expression of the shape of another one at level S, of its type alone at N, for which
        no body is computed. An integer type may be narrower, as bodies of integers are left out."""
        match expr:
            case ast.Name(text=text):
                return place.by.get(text, expr)
            case ast.Select(array=array, items=items):
                inner = self.outline(array, place, level)
                plain = [
                    e if isinstance(e, ast.Dot | ast.Dots) else self.outline(e, place, level)
                    for e in items
                ]
                if not any(map(is_dot, plain)):
                    return replace(expr, array=inner, items=tuple(plain))
                return inner if level == N else self._cut(inner, plain, place)
            case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
                test: ast.Expr = ast.Bool(True, span=self.span)
                needs_index = _uses(condition, place.indices)
                if level != N and not (needs_index and has_loop(condition)):
                    test = self._value(condition, place)
                branches = (self.outline(branch, place, level) for branch in (then, otherwise))
                return ast.Conditional(test, *branches, span=self.span)
            case ast.Comprehension():
                key = (id(expr), level, *self._meanings(expr, place))
                if key not in self._found:
                    outline = self._outline_of_comprehension(expr, place, level)
                    self._found[key] = self.held(outline, "e", place)
                found = self._found[key]
                assert found is not None
                return found
            case ast.WithLoop(operation=ast.Genarray(shape=shape, default=default)):
                element = self._beside(expr.parts, self.outline(default, place, level), place)
                if level == N:
                    return element
                return self.call("genarray", self._value(shape, place), element)
            case ast.WithLoop(operation=ast.Modarray(array=array)):
                return self._beside(expr.parts, self.outline(array, place, level), place)
            case ast.WithLoop(operation=ast.Fold(op=op, neutral=neutral)):
                outline = self.outline(neutral, place, level)
                if op in ("&&", "||"):  # of any neutral element, a condition
                    return ast.Unary("!", outline, span=self.span)
                return self._beside(expr.parts, outline, place)
            case ast.Call(args=args):
                changed = (
                    self._value(arg, place)
                    if at == F
                    else self.outline(arg, place, N if at == N else S)
                    for arg, at in zip(args, self._levels(expr, level), strict=True)
                )
                return replace(expr, args=tuple(changed))
        return mapped(expr, lambda operand: self.outline(operand, place, level))

    def _levels(self, call: ast.Call, level: Level) -> Sequence[Level]:
        """What a level of a call needs of its arguments."""
        name, count = call.function.text, len(call.args)
        if level == N or (name == SELECTION and name not in self.definitions):
            return (level,) * count
        if name in self.definitions:
            needed = self.demand.of_function(name, 0, level, (None,) * count)
            parameters = self.definitions[name].parameters
            return [needed.get(parameter.name.text, N) for parameter in parameters]
        row = row_of(name)
        assert row is not None
        return row.levels(level)

    def _value(self, expr: ast.Expr, place: _Place) -> ast.Expr:
        """An expression of which an outline needs the value. One that computes loops and depends on
        no stand-in is held, for the text itself, too."""
        found = self.expr(expr, place)
        if has_loop(expr) and place.by.keys().isdisjoint(free_in(expr)):
            found = self.held(found, "v", place)
            if isinstance(found, ast.Name):
                place.shared[id(expr)] = found
        return found

    def _meanings(self, expr: ast.Expr, place: _Place) -> tuple[object, ...]:
        """The block, and what stands for the names of an expression in it."""
        self._kept += [expr, place.block]
        return (
            id(place.block),
            place.indices & frozenset(free_in(expr)),
            *((name, place.by.get(name)) for name in free_in(expr)),
        )

    def _outline_of_comprehension(
        self, expr: ast.Comprehension, place: _Place, level: Level
    ) -> ast.Expr:
        *earlier, last = expr.parts
        if level == N:
            length = self.row((self.number(0),))
            body = self.outline(last.body, self._standing(last.pattern, length, place), N)
            return self._beside(earlier, body, place)
        lower, upper = self._bounds(last, place, self.row(()), self.row(()), is_last=True)
        body = self.outline(last.body, self._standing(last.pattern, upper, place), S)
        body = self._beside(earlier, body, place)
        if not has_dots(last.pattern):
            return self.call("genarray", self._as_long_as(last.pattern, upper), body)
        element = self.held(body, "e", place)
        inner = self.shape(element)
        _, bound, taken = self.without_dots(last.pattern, lower, upper, element, [], inner, None)
        sizes = self.concat([self.vector(bound), self.rest_of(inner, taken)])
        return self.call("genarray", sizes, self.call("zero", element))

    def _as_long_as(self, pattern: ast.Pattern, bound: ast.Expr) -> ast.Expr:
        """The bound of a pattern that lists its indices, as an expression that tells its length:
        the shape of an array of which nothing else is needed does not, nor does a scalar."""
        if isinstance(pattern, ast.VectorPattern) or isinstance(bound, ast.Row):
            return bound
        return self.call("reshape", self.row((self.number(len(pattern.names)),)), bound)

    def _beside(
        self, parts: Sequence[ast.Part | ast.LoopPart], outline: ast.Expr, place: _Place
    ) -> ast.Expr:
        """An outline whose type is that in which it meets the bodies of partitions, if those may be
        floats: what is `double` beside integers may be `float` beside floats (C5)."""
        length = self.row((self.number(0),))
        types: dict[ast.Expr, None] = {}
        for part in parts:
            if _is_weak(part.body):
                continue
            inside = self._standing(_pattern(part), length, place)
            if isinstance(part, ast.LoopPart):
                for statement in part.statements:
                    inside = self._with_values(statement, inside)
            types.setdefault(self.outline(part.body, inside, N))
        if not types.keys() - {outline}:
            return outline
        zeros = [self.call("zero", found) for found in (*types, outline)]
        meeting = zeros[0] if len(types) == 1 else self.call("zero", self.row(zeros))
        return ast.Conditional(ast.Bool(True, span=self.span), outline, meeting, span=self.span)

    def _standing(self, pattern: ast.Pattern, upper: ast.Expr, place: _Place) -> _Place:
        """The place in a body whose index has zeros as stand-ins, for its shape alone."""
        if isinstance(pattern, ast.VectorPattern):
            name = pattern.name.text
            return place.with_names({name: self.zeros(upper)}, (name,))
        names = [name.text for name in pattern.names]
        return place.with_names(dict.fromkeys(names, self.number(0)), names)

    def _entered(
        self, pattern: ast.Pattern, place: _Place, block: list[ast.Statement]
    ) -> tuple[ast.Pattern, _Place]:
        """A pattern, and the place in its body, with new variables for those that would hide what
        stands for other names."""
        own = pattern_names(pattern)
        inside = place.hiding(own).within(block)
        renamed = {name: self.name(self.fresh(name)) for name in sorted(own & inside.mentioned)}
        if not renamed:
            return pattern, inside
        inside = inside.with_names(renamed)
        if isinstance(pattern, ast.VectorPattern):
            return replace(pattern, name=renamed[pattern.name.text]), inside
        entries = tuple(
            renamed.get(e.text, e) if isinstance(e, ast.Name) else e for e in pattern.entries
        )
        return replace(pattern, entries=entries), inside

    # --- selections with dots ---------------------------------------------------------------------

    def _selection(
        self,
        expr: ast.Select,
        array: ast.Expr,
        items: Sequence[ast.Expr | ast.Dot | ast.Dots],
        place: _Place,
    ) -> ast.Expr:
        """A selection with dots is a with-loop over the axes that the dots keep."""
        if not any(map(is_dot, items)):
            return replace(expr, array=array, items=tuple(items))
        array = self.held(array, "a", place)
        bound, index, at = self.kept_axes(array, items)
        bound = self.held(bound, "u", place)
        part = ast.LoopPart(
            self.generator(ast.VectorPattern(index, span=self.span), self.zeros(bound), bound),
            (),
            self.at(array, at),
            span=self.span,
        )
        return ast.WithLoop(
            (part,), ast.Genarray(bound, self.call("zero", array), span=self.span), span=self.span
        )

    def _cut(
        self, array: ast.Expr, items: Sequence[ast.Expr | ast.Dot | ast.Dots], place: _Place
    ) -> ast.Expr:
        """The outline of a selection with dots."""
        array = self.held(array, "a", place)
        bound, _, _ = self.kept_axes(array, items)
        return self.call("genarray", bound, self.call("zero", array))

    # --- loops ------------------------------------------------------------------------------------

    def _with_loop(self, loop: ast.WithLoop, place: _Place) -> ast.Expr:
        has_edge = any(
            isinstance(side.value, ast.Dot)
            for part in loop.parts
            for side in (part.generator.lower, part.generator.upper)
            if side is not None
        )
        leading = edge = self.row(())
        operation: ast.Genarray | ast.Modarray | ast.Fold
        match loop.operation:
            case ast.Genarray(shape=shape, default=default):
                sizes = self.expr(shape, place)
                if has_edge:
                    sizes = self.held(sizes, "u", place)
                    element = self.held(self.outline(default, place, S), "e", place)
                    leading = self.vector(sizes)
                    edge = self.concat([leading, self.shape(element)])
                operation = replace(loop.operation, shape=sizes, default=self.expr(default, place))
            case ast.Modarray(array=array):
                if has_edge:
                    leading = edge = self.shape(
                        self.held(self.outline(array, place, S), "e", place)
                    )
                operation = replace(loop.operation, array=self.expr(array, place))
            case ast.Fold(neutral=neutral):
                operation = replace(loop.operation, neutral=self.expr(neutral, place))
        parts = []
        for part in loop.parts:
            written = self._as_written(part.generator, place)
            lower, upper = written or self._bounds(part, place, leading, edge, is_last=False)
            pattern, inside = self._entered(part.generator.index, place, [])
            inside = self._behind(part.statements, inside)
            body = self.expr(part.body, inside)
            bounds = self.generator(pattern, lower, upper)
            parts.append(replace(part, generator=bounds, statements=tuple(inside.block), body=body))
        return replace(loop, parts=tuple(parts), operation=operation)

    def _comprehension(self, comprehension: ast.Comprehension, place: _Place) -> ast.Expr:
        last = comprehension.parts[-1]
        lower, upper = self._bounds(last, place, self.row(()), self.row(()), is_last=True)
        outline = self.outline(last.body, self._standing(last.pattern, upper, place), S)
        element = self.held(outline, "e", place)
        inner = self.shape(element)
        part, bound, taken = self._part(last, lower, upper, inner, None, place)
        rest = self.rest_of(inner, taken)
        edge = self.concat([self.vector(bound), rest])
        parts = []
        for earlier in comprehension.parts[:-1]:
            edge = self.held(edge, "s", place)
            low, high = self._bounds(earlier, place, bound, edge, is_last=False)
            parts.append(self._part(earlier, low, high, inner, edge, place)[0])
        default = self.call("genarray", rest, self.call("zero", element))
        operation = ast.Genarray(bound, default, span=self.span)
        return ast.WithLoop((*parts, part), operation, span=comprehension.span)

    def _part(
        self,
        part: ast.Part,
        lower: ast.Expr,
        upper: ast.Expr,
        inner: ast.Expr,
        edge: ast.Expr | None,
        place: _Place,
    ) -> tuple[ast.LoopPart, ast.Expr, int | None]:
        """The partition of a with-loop that `without_dots` gives, with its body."""
        pattern, inside = self._entered(part.pattern, place, [])
        body = self.expr(part.body, inside)
        return self.without_dots(pattern, lower, upper, body, inside.block, inner, edge)

    def _bounds(
        self,
        part: ast.Part | ast.LoopPart,
        place: _Place,
        leading: ast.Expr,
        edge: ast.Expr,
        *,
        is_last: bool,
    ) -> tuple[ast.Expr, ast.Expr]:
        """The bounds as `l <= index < u` (BI)."""
        generator = part.generator
        pattern = _pattern(part)
        is_vector = isinstance(pattern, ast.VectorPattern)
        low = None if generator is None else generator.lower
        high = None if generator is None else generator.upper
        lower = None
        if low is not None and not isinstance(low.value, ast.Dot):
            lower = self._written(low.value, is_vector, place)
            if low.strict:
                lower = self.binary("+", lower, self.number(1))
        count: ast.Expr | None = None
        if not isinstance(pattern, ast.VectorPattern):
            count = self.row((self.number(len(pattern.names)),))
        elif lower is not None:
            count = self.shape(lower)
        inferred = None
        if high is None:
            assert isinstance(part, ast.Part)
            inferred = self._inferred(part, place)
        if high is not None and not isinstance(high.value, ast.Dot):
            upper = self._written(high.value, is_vector, place)
            if not high.strict:
                upper = self.binary("+", upper, self.number(1))
        elif inferred is not None:
            upper = inferred
            if is_vector and lower is not None:
                upper = self.call("take", self.shape(lower), upper)
            if not is_last:
                upper = self.held(upper, "u", place)
                length = self.shape(upper) if count is None else count
                upper = self.call("min", upper, self.sizes_along(pattern, length, edge))
        else:
            upper = leading if count is None else self.sizes_along(pattern, count, edge)
        if lower is None and not isinstance(pattern, ast.VectorPattern):
            lower = self.row([self.number(0)] * len(pattern.names))
        upper = self.held(upper, "u", place)
        return self.zeros(upper) if lower is None else lower, upper

    def _as_written(
        self, generator: ast.Generator, place: _Place
    ) -> tuple[ast.Expr, ast.Expr] | None:
        """The bounds as `l <= index < u` where none is a dot or missing; else None."""
        found = []
        for side, is_strict in ((generator.lower, False), (generator.upper, True)):
            if side is None or isinstance(side.value, ast.Dot):
                return None
            value = self.expr(side.value, place)
            found.append(
                value if side.strict == is_strict else self.binary("+", value, self.number(1))
            )
        return found[0], found[1]

    def _written(self, bound: ast.Expr, is_vector: bool, place: _Place) -> ast.Expr:
        """A bound as it is written; of an index vector, as a vector."""
        found = self._value(bound, place)
        if not is_vector or self.is_vector(found):
            return found
        return self.vector(self.held(found, "u", place))

    # --- inferred bounds --------------------------------------------------------------------------

    def _inferred(self, part: ast.Part, place: _Place) -> ast.Expr | None:
        """The upper bound that the selections of the body give (C15); None where a variable has
        none."""
        whole = ast.Comprehension((part,), span=part.span)
        key = (id(part), "inferred", *self._meanings(whole, place))
        if key not in self._found:
            self._found[key] = self._least_bounds(part, place)
        return self._found[key]

    def _least_bounds(self, part: ast.Part, place: _Place) -> ast.Expr | None:
        pattern = part.pattern
        names = pattern_names(pattern)
        search = _Search(names, isinstance(pattern, ast.VectorPattern), frozenset(names))
        inside = self._standing(pattern, self.row((self.number(0),)), place)
        self._selections(part.body, search, lambda: inside)
        found = search.found
        if isinstance(pattern, ast.VectorPattern):
            shapes = found.get(pattern.name.text)
            if not shapes:
                return None
            if len(shapes) == 1:
                return shapes[0]
            length = self._least([self.at(self.shape(s), self.number(0)) for s in shapes])
            return self._least([self.call("take", self.row((length,)), s) for s in shapes])
        if any(name.text not in found for name in pattern.names):
            return None
        return self.row([self._least(found[name.text]) for name in pattern.names])

    def _least(self, values: Sequence[ast.Expr]) -> ast.Expr:
        unique = list(dict.fromkeys(values))
        least = unique[0]
        for value in unique[1:]:
            least = self.call("min", least, value)
        return least

    def _selections(self, expr: ast.Expr, search: _Search, place: Callable[[], _Place]) -> None:
        """Notes the sizes by which selections bound the variables of the search; `place` gives the
        place of the expression, with stand-ins for the variables of nested comprehensions."""
        if not search.names:
            return
        match expr:
            case ast.Select(array=array, items=items):
                self._bounding(array, items, search, place)
            case ast.Call(function=function, args=args):
                if function.text == SELECTION and SELECTION not in self.definitions:
                    self._bounding(args[1], args[:1], search, place)
            case ast.Comprehension() | ast.WithLoop():
                for part in expr.parts:
                    self._selections_in_part(part, search, place)
                for operand in operands(expr):
                    self._selections(operand, search, place)
        for child in children(expr):
            self._selections(child, search, place)

    def _selections_in_part(
        self, part: ast.Part | ast.LoopPart, search: _Search, place: Callable[[], _Place]
    ) -> None:
        generator = part.generator
        for side in (generator.lower, generator.upper) if generator else ():
            if side is not None and not isinstance(side.value, ast.Dot):
                self._selections(side.value, search, place)
        pattern = _pattern(part)
        search = search.hiding(pattern_names(pattern))
        inside: Callable[[], _Place] = cache(
            lambda: self._standing(pattern, self._length(part, place()), place())
        )
        if isinstance(part, ast.LoopPart):
            search, inside = self._selections_in_block(part.statements, search, inside)
        self._selections(part.body, search, inside)

    def _selections_in_block(
        self,
        statements: Sequence[ast.Statement],
        search: _Search,
        place: Callable[[], _Place],
    ) -> tuple[_Search, Callable[[], _Place]]:
        """The search and the place behind statements, whose selections are noted."""
        for statement in statements:
            if isinstance(statement, ast.Assign):
                self._selections(statement.value, search, place)
            else:
                self._selections(statement.condition, search, place)
                for branch in (statement.then, statement.otherwise):
                    self._selections_in_block(branch, search, place)
            search = search.hiding(assigned_names((statement,)))
            before = place
            place = cache(lambda before=before, s=statement: self._with_values(s, before()))
        return search, place

    def _with_values(self, statement: ast.Statement, place: _Place) -> _Place:
        """The place behind a statement, where values stand for the names that it sets."""
        new: dict[str, ast.Expr] = {}
        if isinstance(statement, ast.If):
            sides = []
            for branch in (statement.then, statement.otherwise):
                behind = place
                for inner in branch:
                    behind = self._with_values(inner, behind)
                sides.append(behind)
            test = self.expr(statement.condition, place)
            for name in assigned_names((statement,)):
                first, second = (side.by.get(name, self.name(name)) for side in sides)
                choice = ast.Conditional(test, first, second, span=self.span)
                new[name] = self.held(choice, name, place)
            value: ast.Expr = statement.condition
        elif len(statement.targets) > 1:
            targets = tuple(self.name(self.fresh(target.text)) for target in statement.targets)
            value = statement.value
            whole = replace(statement, targets=targets, value=self.expr(value, place))
            place.block.append(whole)
            new = {t.text: fresh for t, fresh in zip(statement.targets, targets, strict=True)}
        else:
            value, target = statement.whole_value, statement.targets[0].text
            new[target] = self.held(self.expr(value, place), target, place)
        depends = _uses(value, place.indices)
        return place.hiding(new).with_names(new, new if depends else ())

    def _length(self, part: ast.Part | ast.LoopPart, place: _Place) -> ast.Expr:
        """A vector as long as the index of a partition."""
        generator = part.generator
        if isinstance(_pattern(part), ast.ScalarPattern):
            return self.row(())
        for side in (generator.upper, generator.lower) if generator else ():
            if side is not None and not isinstance(side.value, ast.Dot):
                return self._written(side.value, True, place)
        inferred = self._inferred(part, place) if isinstance(part, ast.Part) else None
        return self.row((self.number(0),)) if inferred is None else inferred

    def _bounding(
        self,
        array: ast.Expr,
        items: Sequence[ast.Expr | ast.Dot | ast.Dots],
        search: _Search,
        place: Callable[[], _Place],
    ) -> None:
        if len(items) == 1 and isinstance(items[0], ast.Row):
            items = items[0].items
        dots = next((k for k, e in enumerate(items) if isinstance(e, ast.Dots)), len(items))
        for k, item in enumerate(items):
            if not isinstance(item, ast.Name) or item.text not in search.names:
                continue
            if search.is_vector and len(items) > 1:
                continue
            if self._needs_index(array, search):
                continue
            whole = self.held(self.outline(array, place(), S), "e", place())
            size = self.shape(whole)
            if not search.is_vector:
                axis = self.number(k)
                if k > dots:
                    axis = self.binary("-", self.call("dim", whole), self.number(len(items) - k))
                size = self.at(size, axis)
            search.found.setdefault(item.text, []).append(size)

    def _needs_index(self, array: ast.Expr, search: _Search) -> bool:
        """Whether the shape of an array needs more of the searched variables than is known: the
        value, or the length of a vector. A condition on them decides no shape (C22)."""
        free = free_in(array)
        if search.own.isdisjoint(free):
            return False
        rank = int(search.is_vector)
        means: dict[str, MeantName] = {
            name: InputName(name, rank if name in search.own else None) for name in free
        }
        walk = Demand(self.definitions, self.demand.summaries, counts_conditions=False)
        walk.demanded(array, Scope(Bindings(means)), S)
        return any(walk.found.get(name, N) >= S for name in search.own)


@dataclass(frozen=True)
class _Search:
    """A search for the bounds of variables: `names` are those of `own` that nothing hides here."""

    names: frozenset[str]
    is_vector: bool
    own: frozenset[str]
    found: dict[str, list[ast.Expr]] = field(default_factory=dict)

    def hiding(self, names: Iterable[str]) -> _Search:
        hidden = frozenset(names)
        return replace(self, names=self.names - hidden, own=self.own - hidden)


def _pattern(part: ast.Part | ast.LoopPart) -> ast.Pattern:
    return part.pattern if isinstance(part, ast.Part) else part.generator.index


def _is_weak(expr: ast.Expr) -> bool:
    """Whether an expression is an integer of the text that takes the type which it meets."""
    if not isinstance(expr, ast.Number) or not isinstance(expr.value, int):
        return False
    return expr.text[:2] in ("0x", "0X") or expr.text[-1].isdecimal()


def _uses(expr: ast.Expr, names: frozenset[str]) -> bool:
    """Whether the value of an expression depends on the values of names, not on their shapes."""
    match expr:
        case ast.Name(text=text):
            return text in names
        case ast.Call(function=ast.Name(text="shape" | "dim")):
            return False
        case ast.Comprehension() | ast.WithLoop():
            return not names.isdisjoint(free_in(expr))
    return any(_uses(child, names) for child in children(expr))
