"""Programs with with-loops only (C20): bounds are written out (BI), dots are gone (ED), and
comprehensions are with-loops whose default element has the shape of the last body (W).

The shape of a body is `shape(e)` with stand-ins for the indices. `shape` needs no more than level S
(C22), so no instance is computed, and the stand-ins serve by their shapes alone (C23).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tc.sac import ast
from tc.sac.levels.builtins import SELECTION
from tc.sac.trees import assigned_names, children, free_in, mapped, pattern_names, substituted
from tc.source import Span


def desugared(module: ast.Module) -> ast.Module:
    """The same program without comprehensions and dots, with the same results."""
    words = set(re.findall(r"\w+", module.source.text))
    functions = frozenset(definition.name.text for definition in module.definitions)
    rewriter = _Rewriter(Span(module.source, 0, 0), words, functions)
    definitions = tuple(replace(d, body=rewriter.body(d.body)) for d in module.definitions)
    body = None if module.body is None else rewriter.body(module.body)
    return ast.Module(module.source, definitions, body)


class Builder:
    """Builds trees; `words` are the names that a fresh one differs from."""

    def __init__(self, span: Span, words: set[str]) -> None:
        self.span = span
        self.words = words
        self.counts: dict[str, int] = {}

    def fresh(self, stem: str) -> str:
        """A name that the text does not have."""
        while True:
            self.counts[stem] = self.counts.get(stem, 0) + 1
            name = f"{stem}{self.counts[stem]}"
            if name not in self.words:
                return name

    def name(self, text: str) -> ast.Name:
        return ast.Name(text, span=self.span)

    def number(self, value: int) -> ast.Expr:
        found: ast.Expr = ast.Number(str(abs(value)), abs(value), span=self.span)
        return found if value >= 0 else ast.Unary("-", found, span=self.span)

    def row(self, items: Sequence[ast.Expr]) -> ast.Expr:
        return ast.Row(tuple(items), span=self.span)

    def call(self, function: str, *args: ast.Expr) -> ast.Expr:
        return ast.Call(self.name(function), args, span=self.span)

    def binary(self, op: str, left: ast.Expr, right: ast.Expr) -> ast.Expr:
        return ast.Binary(op, left, right, span=self.span)

    def at(self, array: ast.Expr, *items: ast.Expr) -> ast.Expr:
        return ast.Select(array, items, span=self.span)

    def shape(self, array: ast.Expr) -> ast.Expr:
        return self.call("shape", array)

    def concat(self, parts: Sequence[ast.Expr]) -> ast.Expr:
        """Vectors joined, literal ones as one literal."""
        found: list[ast.Expr] = []
        for part in parts:
            if isinstance(part, ast.Row) and found and isinstance(found[-1], ast.Row):
                found[-1] = self.row((*found[-1].items, *part.items))
            elif not (isinstance(part, ast.Row) and not part.items):
                found.append(part)
        if not found:
            return self.row(())
        joined = found[0]
        for part in found[1:]:
            joined = self.binary("++", joined, part)
        return joined

    def vector(self, value: ast.Expr) -> ast.Expr:
        """A bound as a vector: a scalar n stands for [n]."""
        if self.is_vector(value):
            return value
        if isinstance(value, ast.Number):
            return self.row((value,))
        return self.call("reshape", self.row((self.call("prod", self.shape(value)),)), value)

    def is_vector(self, value: ast.Expr) -> bool:
        """Whether an expression that is a vector or a scalar is a vector, as far as the text of it
        shows."""
        match value:
            case ast.Row():
                return True
            case ast.Unary(operand=operand):
                return self.is_vector(operand)
            case ast.Binary(op=op, left=left, right=right):
                return op == "++" or self.is_vector(left) or self.is_vector(right)
            case ast.Call(function=ast.Name(text="shape")):
                return True
            case ast.Call(function=ast.Name(text="take" | "drop" | "reverse"), args=args):
                return self.is_vector(args[-1])
            case ast.Call(function=ast.Name(text="min" | "max"), args=args):
                return any(self.is_vector(arg) for arg in args)
            case ast.Call(function=ast.Name(text="genarray"), args=(ast.Row(items=items), _)):
                return len(items) == 1
            case ast.Call(function=ast.Name(text="reshape"), args=(ast.Row(items=items), _)):
                return len(items) == 1
        return False

    def item(self, vector: ast.Expr, k: int) -> ast.Expr:
        """Element k of a vector."""
        if isinstance(vector, ast.Row) and k < len(vector.items):
            return vector.items[k]
        if isinstance(vector, ast.Binary) and vector.op == "++":
            first = vector.left
            if isinstance(first, ast.Row) and k < len(first.items):
                return first.items[k]
        return self.at(self.vector(vector), self.number(k))

    def zeros(self, like: ast.Expr) -> ast.Expr:
        """A zero for each element of a vector."""
        if isinstance(like, ast.Row):
            return self.row([self.number(0)] * len(like.items))
        return self.call("genarray", self.row((self.at(self.shape(like), self.number(0)),)),
                         self.number(0))  # fmt: skip


class _Rewriter(Builder):
    def __init__(self, span: Span, words: set[str], functions: frozenset[str]) -> None:
        super().__init__(span, words)
        self.functions = functions

    # --- statements and expressions ---------------------------------------------------------------

    def body(self, body: ast.Body) -> ast.Body:
        return ast.Body(
            self.statements(body.statements), tuple(self.expr(e) for e in body.results),
            span=body.span,
        )  # fmt: skip

    def statements(self, statements: Sequence[ast.Statement]) -> tuple[ast.Statement, ...]:
        return tuple(self.statement(statement) for statement in statements)

    def statement(self, statement: ast.Statement) -> ast.Statement:
        if isinstance(statement, ast.Assign):
            return replace(statement, value=self.expr(statement.value))
        return replace(
            statement,
            condition=self.expr(statement.condition),
            then=self.statements(statement.then),
            otherwise=self.statements(statement.otherwise),
        )

    def expr(self, expr: ast.Expr) -> ast.Expr:
        match expr:
            case ast.Select(array=array, items=items):
                return self._selection(expr, self.expr(array), items)
            case ast.Comprehension():
                return self._comprehension(expr)
            case ast.WithLoop():
                return self._with_loop(expr)
        return mapped(expr, self.expr)

    def _selection(
        self,
        expr: ast.Select,
        array: ast.Expr,
        items: Sequence[ast.Expr | ast.Dot | ast.Dots],
    ) -> ast.Expr:
        """A selection with dots is a with-loop over the axes that the dots keep."""
        plain = [e if isinstance(e, ast.Dot | ast.Dots) else self.expr(e) for e in items]
        if not any(isinstance(e, ast.Dot | ast.Dots) for e in plain):
            return replace(expr, array=array, items=tuple(plain))
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
        place = self.concat([self.row(picked[0]), between, self.row(picked[1])])
        part = ast.LoopPart(
            self._generator(ast.VectorPattern(index, span=self.span), self.zeros(bound), bound),
            (),
            self.at(array, place),
            span=self.span,
        )
        return ast.WithLoop(
            (part,), ast.Genarray(bound, self.call("zero", array), span=self.span), span=self.span
        )

    def _without_ends(self, vector: ast.Expr, first: int, last: int) -> ast.Expr:
        """A vector without its first and last elements."""
        if last:
            vector = self.call("drop", self.row((self.number(-last),)), vector)
        return self.call("drop", self.row((self.number(first),)), vector) if first else vector

    def _generator(
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

    # --- loops ------------------------------------------------------------------------------------

    def _with_loop(self, loop: ast.WithLoop) -> ast.Expr:
        operation: ast.Genarray | ast.Modarray | ast.Fold
        match loop.operation:
            case ast.Genarray(shape=shape, default=default):
                sizes, element = self.expr(shape), self.expr(default)
                operation = replace(loop.operation, shape=sizes, default=element)
                leading = self.vector(sizes)
                edge = self.concat([leading, self.shape(element)])
            case ast.Modarray(array=array):
                operation = replace(loop.operation, array=self.expr(array))
                leading = edge = self.shape(operation.array)
            case ast.Fold(neutral=neutral):
                operation = replace(loop.operation, neutral=self.expr(neutral))
                leading = edge = self.row(())
        parts = []
        for part in loop.parts:
            generator = part.generator
            lower, upper = self._bounds(generator, generator.index, None, leading, edge, False)
            parts.append(
                replace(
                    part,
                    generator=self._generator(generator.index, lower, upper),
                    statements=self.statements(part.statements),
                    body=self.expr(part.body),
                )
            )
        return replace(loop, parts=tuple(parts), operation=operation)

    def _comprehension(self, comprehension: ast.Comprehension) -> ast.Expr:
        last = comprehension.parts[-1]
        body = self.expr(last.body)
        inferred = self._inferred(last)
        lower, upper = self._bounds(
            last.generator, last.pattern, inferred, self.row(()), self.row(()), True
        )
        stand_in = self._without_index(last.pattern, body, upper)
        inner = self.shape(stand_in)
        part, bound, taken = self._without_dots(last.pattern, lower, upper, body, inner, None)
        rest = inner if taken == 0 else self.row(()) if taken is None else self.call(
            "drop", self.row((self.number(taken),)), inner
        )  # fmt: skip
        edge = self.concat([self.vector(bound), rest])
        parts = []
        for earlier in comprehension.parts[:-1]:
            first = self.expr(earlier.body)
            found = self._inferred(earlier)
            low, high = self._bounds(earlier.generator, earlier.pattern, found, bound, edge, False)
            parts.append(self._without_dots(earlier.pattern, low, high, first, inner, edge)[0])
        zero = self.call("zero", stand_in)
        default = self.call("genarray", rest, zero)
        operation = ast.Genarray(bound, default, span=self.span)
        return ast.WithLoop((*parts, part), operation, span=comprehension.span)

    def _bounds(
        self,
        generator: ast.Generator | None,
        pattern: ast.Pattern,
        inferred: ast.Expr | None,
        leading: ast.Expr,
        edge: ast.Expr,
        is_last: bool,
    ) -> tuple[ast.Expr, ast.Expr]:
        """The bounds as `l <= index < u` (BI)."""
        low = None if generator is None else generator.lower
        high = None if generator is None else generator.upper
        lower = None
        if low is not None and not isinstance(low.value, ast.Dot):
            lower = self.expr(low.value)
            if isinstance(pattern, ast.VectorPattern):
                lower = self.vector(lower)
            if low.strict:
                lower = self.binary("+", lower, self.number(1))
        count: ast.Expr | None = None
        if not isinstance(pattern, ast.VectorPattern):
            count = self.row((self.number(len(pattern.names)),))
        elif lower is not None:
            count = self.shape(lower)
        if high is not None and not isinstance(high.value, ast.Dot):
            upper = self.expr(high.value)
            if isinstance(pattern, ast.VectorPattern):
                upper = self.vector(upper)
            if not high.strict:
                upper = self.binary("+", upper, self.number(1))
        elif high is None and inferred is not None:
            upper = inferred
            if isinstance(pattern, ast.VectorPattern) and lower is not None:
                upper = self.call("take", self.shape(lower), upper)
            if not is_last:
                length = self.shape(upper) if count is None else count
                upper = self.call("min", upper, self._edge(pattern, length, edge))
        else:
            upper = leading if count is None else self._edge(pattern, count, edge)
        if lower is None and not isinstance(pattern, ast.VectorPattern):
            lower = self.row([self.number(0)] * len(pattern.names))
        return self.zeros(upper) if lower is None else lower, upper

    def _edge(self, pattern: ast.Pattern, count: ast.Expr, edge: ast.Expr) -> ast.Expr:
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

    def _without_index(self, pattern: ast.Pattern, body: ast.Expr, upper: ast.Expr) -> ast.Expr:
        """The body with stand-ins for its indices, for its shape alone."""
        if isinstance(pattern, ast.VectorPattern):
            return substituted(body, {pattern.name.text: self.zeros(upper)})
        return substituted(body, {name.text: self.number(0) for name in pattern.names})

    def _without_dots(
        self,
        pattern: ast.Pattern,
        lower: ast.Expr,
        upper: ast.Expr,
        body: ast.Expr,
        inner: ast.Expr,
        edge: ast.Expr | None,
    ) -> tuple[ast.LoopPart, ast.Expr, int | None]:
        """The partition without dots, the bound of its whole index, and how many axes of the body
        the dots take, None for all (ED). `edge` is the result's shape for an earlier partition."""
        if isinstance(pattern, ast.VectorPattern) or not any(
            isinstance(e, ast.Dot | ast.Dots) for e in pattern.entries
        ):
            part = ast.LoopPart(self._generator(pattern, lower, upper), (), body, span=self.span)
            return part, upper, 0
        entries = pattern.entries
        middle = next((k for k, e in enumerate(entries) if isinstance(e, ast.Dots)), None)
        if middle is None:
            return self._single_dots(pattern, lower, upper, body, inner, edge)
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
            self._generator(ast.VectorPattern(index, span=self.span), low, bound),
            tuple(statements),
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

    def _single_dots(
        self,
        pattern: ast.ScalarPattern,
        lower: ast.Expr,
        upper: ast.Expr,
        body: ast.Expr,
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
            self._generator(ast.ScalarPattern(tuple(names), span=self.span), self.row(lows), bound),
            (),
            self.at(body, self.row(picked)),
            span=self.span,
        )
        return part, bound, len(picked)

    # --- inferred bounds --------------------------------------------------------------------------

    def _inferred(self, part: ast.Part) -> ast.Expr | None:
        """The upper bound that the selections of the body give (C15); None where one is written, or
        where a variable has none."""
        if part.generator is not None and part.generator.upper is not None:
            return None
        names = pattern_names(part.pattern)
        found: dict[str, list[ast.Expr]] = {}
        self._selections(part.body, names, {}, found, isinstance(part.pattern, ast.VectorPattern))
        if isinstance(part.pattern, ast.VectorPattern):
            shapes = found.get(part.pattern.name.text)
            if not shapes:
                return None
            if len(shapes) == 1:
                return shapes[0]
            length = self._least([self.at(self.shape(s), self.number(0)) for s in shapes])
            return self._least([self.call("take", self.row((length,)), s) for s in shapes])
        if any(name.text not in found for name in part.pattern.names):
            return None
        return self.row([self._least(found[name.text]) for name in part.pattern.names])

    def _least(self, values: Sequence[ast.Expr]) -> ast.Expr:
        unique: list[ast.Expr] = []
        for value in values:
            if value not in unique:
                unique.append(value)
        least = unique[0]
        for value in unique[1:]:
            least = self.call("min", least, value)
        return least

    def _selections(
        self,
        expr: ast.Expr,
        names: frozenset[str],
        inner: Mapping[str, ast.Expr],
        found: dict[str, list[ast.Expr]],
        is_vector: bool,
    ) -> None:
        """Gathers the sizes by which selections bound variables; `inner` has stand-ins for the
        variables of nested comprehensions."""
        match expr:
            case ast.Select(array=array, items=items):
                self._bounding(array, items, names, inner, found, is_vector)
            case ast.Call(function=function, args=args):
                if function.text == SELECTION and SELECTION not in self.functions:
                    self._bounding(args[1], args[:1], names, inner, found, is_vector)
            case ast.Comprehension() | ast.WithLoop():
                for part in expr.parts:
                    generator = part.generator
                    for side in (generator.lower, generator.upper) if generator else ():
                        if side is not None and not isinstance(side.value, ast.Dot):
                            self._selections(side.value, names, inner, found, is_vector)
                    pattern = part.pattern if isinstance(part, ast.Part) else part.generator.index
                    own = pattern_names(pattern)
                    nested = {**inner, **{name: self._standing(pattern, part) for name in own}}
                    visible = names - own
                    for statement in part.statements if isinstance(part, ast.LoopPart) else ():
                        if isinstance(statement, ast.Assign):
                            self._selections(statement.value, visible, nested, found, is_vector)
                            for target in statement.targets:
                                value = substituted(statement.value, nested)
                                nested = {**nested, target.text: value}
                        visible -= frozenset(assigned_names((statement,)))
                    self._selections(part.body, visible, nested, found, is_vector)
                return
        for child in children(expr):
            self._selections(child, names, inner, found, is_vector)

    def _standing(self, pattern: ast.Pattern, part: ast.Part | ast.LoopPart) -> ast.Expr:
        if not isinstance(pattern, ast.VectorPattern):
            return self.number(0)
        generator = part.generator
        for side in (generator.upper, generator.lower) if generator else ():
            if side is not None and not isinstance(side.value, ast.Dot):
                return self.zeros(self.vector(self.expr(side.value)))
        inferred = self._inferred(part) if isinstance(part, ast.Part) else None
        return self.number(0) if inferred is None else self.zeros(inferred)

    def _bounding(
        self,
        array: ast.Expr,
        items: Sequence[ast.Expr | ast.Dot | ast.Dots],
        names: frozenset[str],
        inner: Mapping[str, ast.Expr],
        found: dict[str, list[ast.Expr]],
        is_vector: bool,
    ) -> None:
        if len(items) == 1 and isinstance(items[0], ast.Row):
            items = items[0].items
        dots = next((k for k, e in enumerate(items) if isinstance(e, ast.Dots)), len(items))
        for k, item in enumerate(items):
            if not isinstance(item, ast.Name) or item.text not in names:
                continue
            if is_vector and len(items) > 1:
                continue
            whole = substituted(self.expr(array), inner)
            size = self.shape(whole)
            if not is_vector:
                axis = self.number(k)
                if k > dots:
                    axis = self.binary("-", self.call("dim", whole), self.number(len(items) - k))
                size = self.at(size, axis)
            if not names & set(free_in(whole)):
                found.setdefault(item.text, []).append(size)
