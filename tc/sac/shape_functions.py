"""The shape of a program as a program (section 6.2 of seed 001): schemes F, S and D on the tree of
the desugared text (C22).

A variable, a parameter or a call becomes statements that hold its shape or its value, each once.
What has no rule of its own is `shape(e)` of the expression, in which an array of which the shape is
known is an array of zeros: `shape` needs no more than level S, so none is computed.

Long because shapes, ranks and values of one expression ask for each other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tc.sac import ast
from tc.sac.builder import Builder
from tc.sac.conditions import used_as_conditions
from tc.sac.desugaring import desugared
from tc.sac.levels.array_functions import FOLDS
from tc.sac.levels.builtins import SELECTION, row_of
from tc.sac.levels.calls import named_sizes
from tc.sac.levels.demand import (
    BoundName,
    ChoiceName,
    Demand,
    InputName,
    MeantName,
    ResultName,
    Scope,
    SizeName,
    declared_rank,
    demand_of,
    entry_scope,
)
from tc.sac.levels.values import Level
from tc.sac.text.printer import module_text
from tc.sac.trees import (
    assigned_names,
    free_in,
    is_short,
    mapped,
    pattern_names,
)
from tc.source import Source, Span

N, D, S, F = Level.N, Level.D, Level.S, Level.F


def shape_module(module: ast.Module, entry: ast.Definition | None) -> ast.Module:
    """The text's functions and one more, which gives the shape of each result from the value, the
    shape or the rank of each input that level S of the results needs."""
    needed = demand_of(module, entry, S)
    plain = desugared(module)
    functions = {definition.name.text: definition for definition in plain.definitions}
    start = entry if entry is None else functions[entry.name.text]
    elements = {} if start is None else {p.name.text: p.type.element for p in start.parameters}
    translation = _Translation(module.source, functions, needed, elements)
    body = plain.body if start is None else start.body
    assert body is not None
    scope = translation.ranks.behind(body.statements, entry_scope(plain, start))
    kinds = (None,) * len(body.results) if start is None else start.types
    is_scalar = [kind is not None and declared_rank(kind) == 0 for kind in kinds]
    results = translation.shapes_of(body.results, is_scalar, scope)
    name = translation.fresh(f"{start.name.text}_s" if start else "shape_s")
    declared = {} if start is None else {p.name.text: p.type for p in start.parameters}
    if start is None:
        declared = {
            text: ast.Type("bool", "*", span=translation.span) for text in used_as_conditions(body)
        }
    parameters = tuple(
        ast.Parameter(
            _parameter_type(declared.get(text), level, translation.span),
            translation.name(text),
            span=translation.span,
        )
        for text, level in needed.items()
        if level != N
    )
    called = translation.called
    kept = tuple(translation.open(d) for d in plain.definitions if d.name.text in called)
    vector = _vector_type(translation.span)

    def made(results: tuple[ast.Expr, ...]) -> ast.Module:
        definition = ast.Definition(
            (vector,) * len(results),
            translation.name(name),
            parameters,
            ast.Body(tuple(translation.statements), results, span=translation.span),
            span=translation.span,
        )
        return ast.Module(module.source, (*kept, definition), None)

    found = made(results)
    if _WIDE.search(module_text(found)):
        return made(tuple(translation.narrowed(result) for result in results))
    return found


_WIDE = re.compile(r"\b(int64|uint32|uint64)\b|\d[lL]\b")
"""What a text has in which an integer may be wider than a size."""


def _vector_type(span: Span) -> ast.Type:
    return ast.Type("int", (ast.Size(None, None, span=span),), span=span)


def _parameter_type(kind: ast.Type | None, level: Level, span: Span) -> ast.Type:
    if level == D:
        return ast.Type("int", (), span=span)
    if level == S:
        return _vector_type(span)
    return ast.Type("int", "*", span=span) if kind is None else kind


class _Ranks(Demand):
    """Ranks that C24 knows, and those of desugared comprehensions."""

    def rank(self, expr: ast.Expr, scope: Scope) -> int | None:
        match expr:
            case ast.WithLoop(operation=ast.Genarray(shape=shape, default=default)):
                length = self.length(shape, scope)
                if length is None:
                    length = _pattern_length(expr, shape)
                return self._added(length, self.rank(default, scope))
            case ast.WithLoop(operation=ast.Fold(neutral=neutral)):
                return self.rank(neutral, scope)
            case ast.Call(function=ast.Name(text="genarray"), args=(shape, array)):
                return self._added(self.length(shape, scope), self.rank(array, scope))
        return super().rank(expr, scope)

    def length(self, expr: ast.Expr, scope: Scope) -> int | None:
        """The number of elements of a vector, where its text alone decides it."""
        match expr:
            case ast.Row(items=items):
                return len(items)
            case ast.Name(text=text):
                meant = scope.names[text]
                if not isinstance(meant, BoundName):
                    return None
                return self.length(meant.expr, meant.scope)
            case ast.Cast(operand=operand) | ast.Unary(operand=operand):
                return self.length(operand, scope)
            case ast.Binary(op="++", left=left, right=right):
                return self._added(self.length(left, scope), self.length(right, scope))
            case ast.Binary(left=left, right=right):
                found = self.length(left, scope)
                return self.length(right, scope) if found is None else found
            case ast.Call(function=ast.Name(text="shape"), args=(array,)):
                return self.rank(array, scope)
            case ast.Call(function=ast.Name(text=name), args=(ast.Row(items=(amount,)), vector)):
                if isinstance(amount, ast.Unary):
                    amount = amount.operand
                if isinstance(amount, ast.Number) and name in ("take", "reshape"):
                    return int(amount.value)
                if isinstance(amount, ast.Number) and name == "drop":
                    return self._added(self.length(vector, scope), -int(amount.value))
        return None

    def _added(self, first: int | None, second: int | None) -> int | None:
        return None if first is None or second is None else first + second


def _pattern_length(loop: ast.WithLoop, shape: ast.Expr) -> int | None:
    """The length of a vector that bounds a pattern of variables: theirs (C14)."""
    for part in loop.parts:
        index, upper = part.generator.index, part.generator.upper
        if isinstance(index, ast.ScalarPattern) and upper is not None and upper.value == shape:
            return len(index.entries)
    return None


class _Translation(Builder):
    def __init__(
        self,
        source: Source,
        functions: Mapping[str, ast.Definition],
        needed: Mapping[str, Level],
        elements: Mapping[str, str],
    ) -> None:
        super().__init__(Span(source, 0, 0), set(_words(source.text)))
        self.functions = functions
        self.needed = needed
        self.elements = elements  # the declared element type of each input
        self.statements: list[ast.Assign] = []
        self.called: set[str] = set()
        self.held: dict[tuple[int, Level], ast.Expr] = {}
        self.of_calls: dict[tuple[int, int, Level], ast.Expr] = {}
        self.kept: list[object] = []
        self.ranks = _Ranks(functions)

    def fresh(self, stem: str) -> str:
        """A name that no text has: the stem itself, if that is one."""
        if stem in self.words:
            stem = super().fresh(stem)
        self.words.add(stem)
        return stem

    def shapes_of(
        self, results: Sequence[ast.Expr], is_scalar: Sequence[bool], scope: Scope
    ) -> tuple[ast.Expr, ...]:
        """The shapes of the results behind the statements of a body, of which some are declared
        scalars. What they need of a variable is held in the order of the statements, so that no
        chain of variables is followed."""
        for result, is_known in zip(results, is_scalar, strict=True):
            if not is_known:
                self.ranks.demanded(result, scope, S)
        needed = self.ranks.names
        for name, meant in scope.names.meanings():
            for level in (D, S, F):
                if (meant, level) in needed:
                    self.of_name(meant, name, level)
        shapes = tuple(
            self.row(()) if is_known else self.shape_of(result, scope)
            for result, is_known in zip(results, is_scalar, strict=True)
        )
        used = {name for shape in shapes for name in free_in(shape)}
        kept: list[ast.Assign] = []
        for statement in reversed(self.statements):
            if not used.isdisjoint(target.text for target in statement.targets):
                used.update(free_in(statement.value))
                kept.append(statement)
        self.statements = kept[::-1]
        return shapes

    def narrowed(self, shape: ast.Expr) -> ast.Expr:
        """A shape of which the elements may be wide, as ints."""
        is_narrow = isinstance(shape, ast.Row) and all(
            isinstance(item, ast.Number) for item in shape.items
        )
        return shape if is_narrow else self.call("toi", shape)

    # --- scheme S ---------------------------------------------------------------------------------

    def shape_of(self, expr: ast.Expr, scope: Scope) -> ast.Expr:
        """The shape of an expression, as an expression."""
        if self.ranks.rank(expr, scope) == 0:
            return self.row(())
        match expr:
            case ast.Name(text=text):
                return self.of_name(scope.names[text], text, S)
            case ast.Row(items=rows):
                count = self.row((self.number(len(rows)),))
                return self.concat([count, *(self.shape_of(row, scope) for row in rows[:1])])
            case ast.Select(array=array, items=items):
                return self.selected(array, items, scope)
            case ast.Cast(operand=operand) | ast.Unary(operand=operand):
                return self.shape_of(operand, scope)
            case ast.Binary(op="++", left=left, right=right):
                return self.joined(left, right, scope)
            case ast.Binary(left=left, right=right):
                return self.conforming((left, right), scope)
            case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
                first, second = self.shape_of(then, scope), self.shape_of(otherwise, scope)
                if first == second:
                    return first
                test = self.value_of(condition, scope)
                return ast.Conditional(test, first, second, span=self.span)
            case ast.WithLoop(operation=operation):
                match operation:
                    case ast.Genarray(shape=shape, default=default):
                        sizes = self.sizes(shape, scope)
                        return self.concat([sizes, self.shape_of(default, scope)])
                    case ast.Modarray(array=array):
                        return self.shape_of(array, scope)
                    case ast.Fold(neutral=neutral):
                        return self.shape_of(neutral, scope)
            case ast.Call(function=function, args=args):
                if function.text in self.functions:
                    return self.of_call(expr, 0, scope, S)
                if function.text == SELECTION:
                    return self.selected(args[1], args[:1], scope)
                return self.applied(expr, scope)
        return self.shape(self.value_of(expr, scope))

    def applied(self, call: ast.Call, scope: Scope) -> ast.Expr:
        """The shape of a built-in function."""
        name, args = call.function.text, call.args
        row = row_of(name)
        assert row is not None
        if row.is_elementwise:
            return self.conforming(args, scope)
        if name in FOLDS or name in ("dim", "zero"):
            return self.row(())
        if name == "shape":
            return self.row((self.rank_of(args[0], scope),))
        if name == "modarray":
            return self.shape_of(args[0], scope)
        if name in ("reverse", "transpose"):
            shape = self.shape_of(args[0], scope)
            return shape if name == "reverse" else self.call("reverse", shape)
        sizes = self.sizes(args[0], scope)
        if name == "iota":
            if self.ranks.rank(args[0], scope) == 0:
                return sizes
            return self.concat([sizes, self.shape_of(args[0], scope)])
        if name == "reshape":
            return sizes
        inner = self.shape_of(args[1], scope)
        if name == "genarray":
            return self.concat([sizes, inner])
        amounts: ast.Expr = self.call("abs", sizes)
        count = self.shape(sizes)
        if isinstance(sizes, ast.Row):
            amounts = self.row([self.magnitude(item) for item in sizes.items])
            count = self.row((self.number(len(sizes.items)),))
        rest = self.call("drop", count, inner)
        if name == "take":
            return self.concat([amounts, rest])
        return self.concat([self.binary("-", self.call("take", count, inner), amounts), rest])

    def sizes(self, expr: ast.Expr, scope: Scope) -> ast.Expr:
        """The value of a vector of sizes, for which a scalar may stand."""
        value = self.value_of(expr, scope)
        return value if self.ranks.rank(expr, scope) == 1 else self.vector(value)

    def magnitude(self, expr: ast.Expr) -> ast.Expr:
        """The absolute value of an amount."""
        if isinstance(expr, ast.Unary) and isinstance(expr.operand, ast.Number):
            return expr.operand
        return expr if isinstance(expr, ast.Number) else self.call("abs", expr)

    def is_vector(self, value: ast.Expr) -> bool:
        if isinstance(value, ast.Name) and self.needed.get(value.text) == S:
            return True
        return super().is_vector(value)

    def selected(
        self, array: ast.Expr, items: Sequence[ast.Expr | ast.Dot | ast.Dots], scope: Scope
    ) -> ast.Expr:
        """The shape of a selection: `drop(shape(iv), shape(a))`."""
        inner = self.shape_of(array, scope)
        count = self.count(items, scope)
        if isinstance(inner, ast.Row) and isinstance(count, ast.Number):
            return self.row(inner.items[int(count.value) :])
        if count == self.number(0):
            return inner
        return self.call("drop", self.row((count,)), inner)

    def count(self, items: Sequence[ast.Expr | ast.Dot | ast.Dots], scope: Scope) -> ast.Expr:
        """The number of axes that a selection takes away."""
        if len(items) > 1:
            return self.number(len(items))
        item = items[0]
        assert not isinstance(item, ast.Dot | ast.Dots)
        if self.ranks.rank(item, scope) == 0:
            return self.number(1)
        shape = self.shape_of(item, scope)
        if self.ranks.rank(item, scope) == 1:
            return self.item(shape, 0)
        return self.call("prod", shape)

    def joined(self, left: ast.Expr, right: ast.Expr, scope: Scope) -> ast.Expr:
        """The shape of `left ++ right`."""
        first, second = self.shape_of(left, scope), self.shape_of(right, scope)
        length = self.binary("+", self.item(first, 0), self.item(second, 0))
        if isinstance(first, ast.Row):
            return self.row((length, *first.items[1:]))
        if isinstance(second, ast.Row):
            return self.row((length, *second.items[1:]))
        return self.concat(
            [self.row((length,)), self.call("drop", self.row((self.number(1),)), first)]
        )

    def conforming(self, operands: Sequence[ast.Expr], scope: Scope) -> ast.Expr:
        """The shape of an operation element by element: that of the operands that are no scalars,
        which conform."""
        shapes: list[ast.Expr] = []
        for operand in operands:
            if self.ranks.rank(operand, scope) != 0:
                shape = self.shape_of(operand, scope)
                if shape not in shapes:
                    shapes.append(shape)
        if not shapes:
            return self.row(())
        if len(shapes) == 1:
            return shapes[0]
        arrays = [self.call("genarray", shape, self.number(0)) for shape in shapes]
        total = arrays[0]
        for array in arrays[1:]:
            total = self.binary("+", total, array)
        return self.shape(total)

    # --- schemes D and F --------------------------------------------------------------------------

    def rank_of(self, expr: ast.Expr, scope: Scope) -> ast.Expr:
        """The rank of an expression, as an expression."""
        known = self.ranks.rank(expr, scope)
        if known is not None:
            return self.number(known)
        match expr:
            case ast.Name(text=text):
                return self.of_name(scope.names[text], text, D)
            case ast.Cast(operand=operand) | ast.Unary(operand=operand):
                return self.rank_of(operand, scope)
            case ast.Binary(left=left, right=right):
                return self.greatest((left, right), scope)
            case ast.Select(array=array, items=items):
                count = self.count(items, scope)
                return self.binary("-", self.rank_of(array, scope), count)
            case ast.Call(function=function, args=args):
                name = function.text
                if name in self.functions:
                    return self.of_call(expr, 0, scope, D)
                row = row_of(name)
                if row is not None and row.is_elementwise:
                    return self.greatest(args, scope)
                if name in ("take", "drop", "reverse", "transpose", "modarray"):
                    array = args[0] if name == "modarray" else args[-1]
                    return self.rank_of(array, scope)
                if name in ("genarray", "reshape"):
                    length = self.call("prod", self.shape_of(args[0], scope))
                    if name == "reshape":
                        return length
                    return self.binary("+", length, self.rank_of(args[1], scope))
            case ast.WithLoop(operation=ast.Genarray(shape=shape, default=default)):
                length = self.call("prod", self.shape_of(shape, scope))
                return self.binary("+", length, self.rank_of(default, scope))
            case ast.WithLoop(operation=ast.Modarray(array=array)):
                return self.rank_of(array, scope)
            case ast.WithLoop(operation=ast.Fold(neutral=neutral)):
                return self.rank_of(neutral, scope)
        return self.item(self.shape(self.shape_of(expr, scope)), 0)

    def greatest(self, operands: Sequence[ast.Expr], scope: Scope) -> ast.Expr:
        """The rank of what conforms: the greatest of the operands'."""
        ranks: list[ast.Expr] = []
        for operand in operands:
            if self.ranks.rank(operand, scope) != 0:
                rank = self.rank_of(operand, scope)
                if rank not in ranks:
                    ranks.append(rank)
        found = ranks[0]
        for rank in ranks[1:]:
            found = self.call("max", found, rank)
        return found

    def value_of(
        self, expr: ast.Expr, scope: Scope, inner: frozenset[str] = frozenset()
    ) -> ast.Expr:
        """An expression at level F: of the variables in it that comprehensions do not bind, what is
        known stands for them; `inner` are the bound ones."""
        match expr:
            case ast.Name(text=text):
                return expr if text in inner else self.of_name(scope.names[text], text, F)
            case ast.Call(function=function, args=args):
                from_text = function.text
                if from_text in self.functions:
                    self.note_called(from_text)
                    open_names = self.open_parameters(self.functions[from_text])
                    given = (
                        self.argument(arg, parameter, level, scope, inner, open_names)
                        for arg, (parameter, level) in zip(
                            args, self.needed_by(from_text), strict=True
                        )
                    )
                    return ast.Call(function, tuple(given), span=expr.span)
                if from_text in ("shape", "dim") and not inner:
                    if from_text == "shape":
                        return self.shape_of(args[0], scope)
                    return self.rank_of(args[0], scope)
            case ast.WithLoop():
                return self.loop_value(expr, scope, inner)
        return mapped(expr, lambda child: self.value_of(child, scope, inner))

    def needed_by(self, name: str) -> list[tuple[ast.Parameter, Level]]:
        """The parameters of a function with what its value needs of each."""
        definition = self.functions[name]
        needed = self.ranks.of_function(name, 0, F, (None,) * len(definition.parameters))
        return [(each, needed.get(each.name.text, N)) for each in definition.parameters]

    def argument(
        self,
        arg: ast.Expr,
        parameter: ast.Parameter,
        level: Level,
        scope: Scope,
        inner: frozenset[str],
        open_names: frozenset[str],
    ) -> ast.Expr:
        """An argument of a call whose value needs this level of it: below F, an array of the
        declared type that has no more in common with the argument."""
        if level == F:
            return self.value_of(arg, scope, inner)
        zeros: ast.Expr = self.number(0)
        sizes = parameter.type.sizes
        if level == N and sizes not in ("*", ()) and parameter.name.text not in open_names:
            ones = [self.number(1)] if isinstance(sizes, str) else []
            for size in () if isinstance(sizes, str) else sizes:
                count = size.count if isinstance(size.count, int) else 1
                ones += [self.number(count)] if size.name is None else [self.number(1)] * count
            zeros = self.call("genarray", self.row(tuple(ones)), zeros)
        if level != N and inner:
            zeros = self.value_of(arg, scope, inner)
        elif level == S:
            zeros = self.call("genarray", self.shape_of(arg, scope), zeros)
        elif level == D:
            rank = self.row((self.rank_of(arg, scope),))
            zeros = self.call("genarray", self.call("genarray", rank, self.number(1)), zeros)
        return ast.Cast(parameter.type.element, zeros, span=self.span)

    def open_parameters(self, definition: ast.Definition) -> frozenset[str]:
        """The parameters of which a function's value needs nothing, those aside whose sizes have a
        name that the text has elsewhere."""
        words = Counter(_words(definition.span.text))
        for result in definition.types:  # opened too
            words.subtract(_words(result.span.text))
        names = {
            p.name.text: p.type for p, level in self.needed_by(definition.name.text) if level == N
        }
        while True:
            own = Counter(word for kind in names.values() for word in _words(kind.span.text))
            kept = {
                name: kind
                for name, kind in names.items()
                if all(words[size] == own[size] for size, _ in named_sizes(kind))
            }
            if len(kept) == len(names):
                return frozenset(names)
            names = kept

    def open(self, definition: ast.Definition) -> ast.Definition:
        """A function that the shape calls, which takes an array of any shape for its open
        parameters, and gives results of any shape."""
        open_names = self.open_parameters(definition)
        parameters = tuple(
            replace(p, type=replace(p.type, sizes="*")) if p.name.text in open_names else p
            for p in definition.parameters
        )
        types = tuple(
            replace(each, sizes="*") if named_sizes(each) and open_names else each
            for each in definition.types
        )
        return replace(definition, types=types, parameters=parameters)

    def loop_value(self, loop: ast.WithLoop, scope: Scope, inner: frozenset[str]) -> ast.Expr:
        """A with-loop at level F."""
        parts = []
        for part in loop.parts:
            generator = part.generator
            sides = [
                ast.Bound(self.value_of(side.value, scope, inner), side.strict, span=side.span)
                for side in (generator.lower, generator.upper)
                if side is not None and not isinstance(side.value, ast.Dot)
            ]
            bounds = ast.Generator(sides[0], generator.index, sides[1], span=generator.span)
            bound = inner | pattern_names(generator.index)
            statements = []
            for statement in part.statements:
                statements.append(self.inner_statement(statement, scope, bound))
                bound |= frozenset(assigned_names((statement,)))
            body = self.value_of(part.body, scope, bound)
            parts.append(ast.LoopPart(bounds, tuple(statements), body, span=part.span))
        operation: ast.Genarray | ast.Modarray | ast.Fold
        match loop.operation:
            case ast.Genarray(shape=shape, default=default, span=span):
                operation = ast.Genarray(
                    self.value_of(shape, scope, inner),
                    self.value_of(default, scope, inner),
                    span=span,
                )
            case ast.Modarray(array=array, span=span):
                operation = ast.Modarray(self.value_of(array, scope, inner), span=span)
            case ast.Fold(op=op, neutral=neutral, span=span):
                operation = ast.Fold(op, self.value_of(neutral, scope, inner), span=span)
        return ast.WithLoop(tuple(parts), operation, span=loop.span)

    def inner_statement(
        self, statement: ast.Statement, scope: Scope, inner: frozenset[str]
    ) -> ast.Statement:
        if isinstance(statement, ast.Assign):
            value = self.value_of(statement.value, scope, inner)
            return ast.Assign(statement.targets, statement.op, value, span=statement.span)
        return ast.If(
            self.value_of(statement.condition, scope, inner),
            tuple(self.inner_statement(s, scope, inner) for s in statement.then),
            tuple(self.inner_statement(s, scope, inner) for s in statement.otherwise),
            span=statement.span,
        )

    def note_called(self, name: str) -> None:
        """Keeps a function that the result calls, and those that it calls."""
        if name not in self.called:
            self.called.add(name)
            text = self.functions[name]
            for word in _words(text.span.text):
                if word in self.functions:
                    self.note_called(word)

    # --- names ------------------------------------------------------------------------------------

    def of_name(self, meant: MeantName, text: str, level: Level) -> ast.Expr:
        """A level of what a name means; a variable's is held by a statement of its own."""
        key = (id(meant), level)
        if key in self.held:
            return self.held[key]
        self.kept.append(meant)
        found: ast.Expr
        match meant:
            case InputName(name=name, rank=rank):
                found = self.of_input(name, rank, level)
            case BoundName(expr=expr, scope=scope):
                found = self.hold(text, level, self.at_level(expr, scope, level))
            case SizeName(argument=argument):
                found = self.of_size(meant, argument, level)
            case ChoiceName(condition=condition, scope=scope, branches=branches):
                first, second = (self.of_name(branch, text, level) for branch in branches)
                if first == second:
                    found = first
                else:
                    test = self.value_of(condition, scope)
                    choice = ast.Conditional(test, first, second, span=self.span)
                    found = self.hold(text, level, choice)
            case ResultName(call=call, number=number, scope=scope):
                found = self.of_call(call, number, scope, level)
            case _:
                raise NotImplementedError
        self.held[key] = found
        return found

    def at_level(self, expr: ast.Expr, scope: Scope, level: Level) -> ast.Expr:
        """A level of an expression."""
        translate = {F: self.value_of, S: self.shape_of, D: self.rank_of}[level]
        return translate(expr, scope)

    def hold(self, text: str, level: Level, value: ast.Expr) -> ast.Expr:
        """A name for a value that more than one place may use."""
        if isinstance(value, ast.Name | ast.Number) or (
            isinstance(value, ast.Row) and not value.items
        ):
            return value
        suffix = {F: "", S: "_s", D: "_d"}[level]
        target = self.name(self.fresh(text + suffix if suffix else text))
        self.statements.append(ast.Assign((target,), "", value, span=self.span))
        return target

    def of_input(self, name: str, declared: int | None, level: Level) -> ast.Expr:
        """A level of an input, from the level at which the function is given it; `declared` is its
        rank, where its type tells it."""
        given, known = self.name(name), self.needed[name]
        if known == level:
            return given
        if known == F:
            return self.shape(given) if level == S else self.call("dim", given)
        if known == S:
            if level == D:
                return self.at(self.shape(given), self.number(0))
            return self.zeros_of_input(name, given)
        rank = given if known == D else self.number(declared or 0)
        ones = self.call("genarray", self.row((rank,)), self.number(1))
        if level == D:
            return rank
        return ones if level == S else self.zeros_of_input(name, ones)

    def zeros_of_input(self, name: str, shape: ast.Expr) -> ast.Expr:
        """An array of this shape in place of an input, with elements of the declared type."""
        array = self.call("genarray", shape, self.number(0))
        element = self.elements.get(name, "int")
        return array if element == "int" else ast.Cast(element, array, span=self.span)

    def of_size(self, size: SizeName, argument: MeantName, level: Level) -> ast.Expr:
        """A size that the type of a parameter names: found by the same type in a call."""
        if level == D:
            return self.number(int(size.is_vector))
        if level == S and not size.is_vector:
            return self.row(())
        shape = self.of_name(argument, "a", S)
        first = self.axes(size, size.sizes[: size.position])
        if first is None:
            rest = self.axes(size, size.sizes[size.position :])
            assert rest is not None
            first = self.binary("-", self.at(self.shape(shape), self.number(0)), rest)
        if not size.is_vector and not size.is_count:
            return self.at(shape, first)
        count = self.axes(size, size.sizes[size.position : size.position + 1])
        if count is None:
            behind = self.axes(size, size.sizes[size.position + 1 :])
            assert behind is not None
            taken = first if behind == self.number(0) else self.binary("+", first, behind)
            count = self.at(self.shape(shape), self.number(0))
            if taken != self.number(0):
                count = self.binary("-", count, taken)
        if size.is_count:
            return count
        if level == S:
            return self.row((count,))
        rest = shape if first == self.number(0) else self.call("drop", self.row((first,)), shape)
        return self.call("take", self.row((count,)), rest)

    def axes(self, size: SizeName, entries: Sequence[ast.Size]) -> ast.Expr | None:
        """The number of axes that entries of a type stand for; None where one of them is open."""
        known, names = 0, []
        for entry in entries:
            if entry.name is None:
                known += 1
            elif isinstance(entry.count, int):
                known += entry.count
            else:
                assert isinstance(entry.count, ast.Name)
                meant = size.names[entry.count.text]
                is_own = isinstance(meant, SizeName) and meant.sizes is size.sizes
                if not isinstance(meant, SizeName) or is_own:
                    return None
                names.append(self.of_name(meant, entry.count.text, F))
        total = self.number(known)
        for name in names:
            total = name if total == self.number(0) else self.binary("+", total, name)
        return total

    def of_call(self, call: ast.Call, number: int, scope: Scope, level: Level) -> ast.Expr:
        """A level of a result of a call: the function's body at that level."""
        definition = self.functions[call.function.text]
        inner = self.ranks.call_scope(call, scope)
        key = id(inner), number, level
        if key not in self.of_calls:
            found = self.at_level(definition.body.results[number], inner, level)
            if not is_short(found):
                found = self.hold(definition.name.text, level, found)
            self.of_calls[key] = found
        return self.of_calls[key]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)
