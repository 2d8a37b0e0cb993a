"""Static demand: the level of each input that a level of the result needs, by the table of C22 and
over all branches (C24)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tc.sac import ast
from tc.sac.bindings import Bindings
from tc.sac.levels.applications import Row
from tc.sac.levels.array_functions import ARRAY_FUNCTIONS
from tc.sac.levels.builtins import SELECTION, row_of
from tc.sac.levels.elementwise import CASTS, NEGATION, NOT, OPERATORS
from tc.sac.levels.values import Level
from tc.sac.names import inputs_of
from tc.sac.trees import assigned_names, children, mapped, operands, pattern_names

N, D, S, F = Level.N, Level.D, Level.S, Level.F


@dataclass(frozen=True, eq=False)
class InputName:
    name: str
    rank: int | None


@dataclass(frozen=True, eq=False)
class BoundName:
    """A variable, or a parameter, whose declared type may tell its rank."""

    expr: ast.Expr
    scope: Scope
    rank: int | None = None


@dataclass(frozen=True, eq=False)
class SizeName:
    """A size that the type of a parameter names: `argument` is the parameter, `names` what all
    names of the function mean, and the size stands in entry `position` of the type."""

    argument: MeantName
    is_vector: bool
    is_count: bool
    sizes: tuple[ast.Size, ...]
    position: int
    names: Mapping[str, MeantName]


@dataclass(frozen=True, eq=False)
class IndexName:
    """An index of a partition, whose bounds stand in `scope`."""

    part: ast.Part | ast.LoopPart
    scope: Scope
    is_vector: bool


@dataclass(frozen=True, eq=False)
class ChoiceName:
    """A variable that an `if` sets."""

    condition: ast.Expr
    scope: Scope
    branches: tuple[MeantName, MeantName]


@dataclass(frozen=True, eq=False)
class ResultName:
    """One of several results of a call."""

    call: ast.Call
    number: int
    scope: Scope


MeantName: TypeAlias = "InputName | BoundName | SizeName | IndexName | ChoiceName | ResultName"


@dataclass(frozen=True, eq=False)
class Scope:
    """What names mean at a place of the text."""

    names: Bindings[MeantName]


def demand_of(module: ast.Module, entry: ast.Definition | None, level: Level) -> dict[str, Level]:
    """The level that is needed of each input for a level of the results of `entry`, or of the text
    that is an expression."""
    walk = Demand({d.name.text: d for d in module.definitions})
    body = module.body if entry is None else entry.body
    assert body is not None
    start = entry_scope(module, entry)
    scope = walk.behind(body.statements, start)
    needed = {name: N for name, meant in start.names.items() if isinstance(meant, InputName)}
    for k, result in enumerate(body.results):
        declared = None if entry is None else declared_rank(entry.types[k])
        if not _is_known(declared, level):
            walk.demanded(result, scope, level)
    for name, found in walk.found.items():
        needed[name] = max(needed.get(name, N), found)
    return needed


def declared_rank(declared: ast.Type) -> int | None:
    """The rank that a type without `*`, `+` and `d:` fixes."""
    if isinstance(declared.sizes, str):
        return None
    rank = 0
    for size in declared.sizes:
        if size.name is None:
            rank += 1
        elif isinstance(size.count, int):
            rank += size.count
        else:
            return None
    return rank


def _is_known(rank: int | None, level: Level) -> bool:
    """Whether nothing is needed: a known scalar at S, a known rank at D."""
    return level == N or (level == S and rank == 0) or (level == D and rank is not None)


def entry_scope(module: ast.Module, entry: ast.Definition | None) -> Scope:
    """What the inputs' names mean."""
    if entry is not None:
        inputs: list[MeantName] = [
            InputName(p.name.text, declared_rank(p.type)) for p in entry.parameters
        ]
        return _parameters(entry, inputs)
    assert module.body is not None
    return Scope(Bindings({name: InputName(name, None) for name in inputs_of(module.body)}))


def _parameters(definition: ast.Definition, given: Sequence[MeantName]) -> Scope:
    names: dict[str, MeantName] = {}
    for parameter, argument in zip(definition.parameters, given, strict=True):
        sizes = () if isinstance(parameter.type.sizes, str) else parameter.type.sizes
        for k, size in enumerate(sizes):
            if isinstance(size.count, ast.Name):
                is_count = size.name is not None
                found = SizeName(argument, False, is_count, sizes, k, names)
                names.setdefault(size.count.text, found)
            if size.name is not None:
                found = SizeName(argument, True, False, sizes, k, names)
                names.setdefault(size.name.text, found)
    for parameter, argument in zip(definition.parameters, given, strict=True):
        names[parameter.name.text] = argument
    return Scope(Bindings(names))


@dataclass
class Demand:
    """A walk that notes the level of each input that a level of an expression needs (C24).

    Without `counts_conditions`, shapes and ranks of branches are taken to be equal, so that no
    condition decides them."""

    functions: Mapping[str, ast.Definition]
    summaries: dict[tuple[object, ...], Mapping[str, Level]] = field(default_factory=dict)
    counts_conditions: bool = True
    found: dict[str, Level] = field(default_factory=dict)
    names: dict[tuple[MeantName, Level], None] = field(default_factory=dict)
    """The levels of names that were asked for."""
    _waiting: list[tuple[ast.Expr, Scope, Level]] = field(default_factory=list)
    _seen: set[tuple[int, int, Level]] = field(default_factory=set)
    _scopes: dict[object, Scope] = field(default_factory=dict)
    _known: dict[tuple[int, int], int | None] = field(default_factory=dict)
    _known_of_names: dict[MeantName, int | None] = field(default_factory=dict)
    _identities: dict[object, object] = field(default_factory=dict)
    _kept: list[object] = field(default_factory=list)

    def demanded(self, expr: ast.Expr, scope: Scope, level: Level) -> None:
        """Notes what a level of an expression needs of the inputs, all that it follows from
        included."""
        self._waiting.append((expr, scope, level))
        while self._waiting:
            self._expr(*self._waiting.pop())

    # --- scopes -------------------------------------------------------------------------------

    def behind(self, statements: Sequence[ast.Statement], scope: Scope) -> Scope:
        """The scope behind statements. The rank of each variable is found at once, so that none is
        sought through a chain of others."""
        scope = Scope(scope.names.inner())
        for statement in statements:
            new: dict[str, MeantName] = {}
            if isinstance(statement, ast.If):
                sides = [self.behind(b, scope) for b in (statement.then, statement.otherwise)]
                for name in dict.fromkeys(name for side in sides for name in side.names.own()):
                    first, second = (side.names.get(name) for side in sides)
                    if first is not None and second is not None:
                        new[name] = ChoiceName(statement.condition, scope, (first, second))
            elif len(statement.targets) > 1:
                assert isinstance(statement.value, ast.Call)
                for k, target in enumerate(statement.targets):
                    new[target.text] = ResultName(statement.value, k, scope)
            else:
                new[statement.targets[0].text] = BoundName(statement.whole_value, scope)
            for meant in new.values():
                self.rank_of_name(meant)
            scope = Scope(scope.names.bind(new))
        return scope

    def call_scope(self, call: ast.Call, scope: Scope) -> Scope:
        """The scope of the results of a function in a call: one for all calls with equal
        arguments."""
        definition = self.functions[call.function.text]
        key = definition.name.text, *(self._identity(arg, scope) for arg in call.args)
        if key not in self._scopes:
            given: list[MeantName] = [
                BoundName(arg, scope, declared_rank(parameter.type))
                for arg, parameter in zip(call.args, definition.parameters, strict=True)
            ]
            start = _parameters(definition, given)
            self._scopes[key] = self.behind(definition.body.statements, start)
        return self._scopes[key]

    def body_scope(self, part: ast.Part | ast.LoopPart, scope: Scope) -> Scope:
        """The scope of the body of a partition."""
        key = id(part), id(scope)
        if key not in self._scopes:
            self._kept += [part, scope]
            statements = part.statements if isinstance(part, ast.LoopPart) else ()
            self._scopes[key] = self.behind(statements, self.index_scope(part, scope))
        return self._scopes[key]

    def index_scope(self, part: ast.Part | ast.LoopPart, scope: Scope) -> Scope:
        """The scope of the statements of a partition."""
        pattern = part.pattern if isinstance(part, ast.Part) else part.generator.index
        is_vector = isinstance(pattern, ast.VectorPattern)
        index = {name: IndexName(part, scope, is_vector) for name in pattern_names(pattern)}
        return Scope(Bindings(index, scope.names))

    def _identity(self, expr: ast.Expr, scope: Scope) -> object:
        """What is equal for expressions that are computed in the same way from the same names."""
        if isinstance(expr, ast.Name):
            return self._identity_of_name(scope.names[expr.text])
        place = id(expr), id(scope)
        if place not in self._identities:
            self._kept += [expr, scope]
            found: tuple[object, ...]
            if isinstance(expr, ast.Comprehension | ast.WithLoop):
                found = place
            else:
                operands = children(expr)
                form = mapped(expr, lambda operand: ast.Row((), span=operand.span))
                found = form, *(self._identity(operand, scope) for operand in operands)
            self._identities[place] = self._identities.setdefault(found, place)
        return self._identities[place]

    def _identity_of_name(self, name: MeantName) -> object:
        if isinstance(name, BoundName) and isinstance(name.expr, ast.Name):
            same = self._identity_of_name(name.scope.names[name.expr.text])
            return same if name.rank is None else (same, name.rank)
        return name

    # --- ranks --------------------------------------------------------------------------------

    def rank(self, expr: ast.Expr, scope: Scope) -> int | None:
        """The rank of an expression, where C24 knows it."""
        key = id(expr), id(scope)
        if key not in self._known:
            self._kept += [expr, scope]
            self._known[key] = self._rank(expr, scope)
        return self._known[key]

    def _rank(self, expr: ast.Expr, scope: Scope) -> int | None:
        match expr:
            case ast.Number() | ast.Bool():
                return 0
            case ast.Name(text=text):
                return self.rank_of_name(scope.names[text])
            case ast.Row(items=items):
                inner = 0 if not items else self.rank(items[0], scope)
                return None if inner is None else inner + 1
            case ast.Select(array=array, items=entries):
                return self._selected_rank(array, _flat(entries), scope)
            case ast.Call(function=function, args=args):
                if function.text in self.functions:
                    return declared_rank(self.functions[function.text].types[0])
                if function.text == SELECTION:
                    return self._selected_rank(args[1], _flat(args[:1]), scope)
                row = row_of(function.text)
                if row is None:
                    return None
                return row.known_rank([self.rank(arg, scope) for arg in args])
            case ast.Cast(operand=operand) | ast.Unary(operand=operand):
                return self.rank(operand, scope)
            case ast.Binary(op=op, left=left, right=right):
                row = _operator(op)
                return row.known_rank([self.rank(left, scope), self.rank(right, scope)])
            case ast.Conditional(then=then, otherwise=otherwise):
                first, second = self.rank(then, scope), self.rank(otherwise, scope)
                return first if first == second else None
            case ast.Comprehension(parts=parts):
                last = parts[-1]
                if isinstance(last.pattern, ast.VectorPattern):
                    return None
                inner_rank = self.rank(last.body, self.body_scope(last, scope))
                return None if inner_rank is None else inner_rank + len(last.pattern.names)
            case ast.WithLoop():
                return None

    def rank_of_name(self, name: MeantName) -> int | None:
        """The rank of what a name means, where C24 knows it."""
        if name not in self._known_of_names:
            self._known_of_names[name] = self._rank_of_name(name)
        return self._known_of_names[name]

    def _rank_of_name(self, name: MeantName) -> int | None:
        match name:
            case InputName(rank=rank):
                return rank
            case BoundName(expr=expr, scope=scope, rank=rank):
                return rank if rank is not None else self.rank(expr, scope)
            case SizeName(is_vector=is_vector) | IndexName(is_vector=is_vector):
                return int(is_vector)
            case ChoiceName(branches=(then, otherwise)):
                first, second = self.rank_of_name(then), self.rank_of_name(otherwise)
                return first if first == second else None
            case ResultName(call=call, number=number):
                return declared_rank(self.functions[call.function.text].types[number])

    def _selected_rank(
        self, array: ast.Expr, items: Sequence[ast.Expr | ast.Dot | ast.Dots], scope: Scope
    ) -> int | None:
        rank = self.rank(array, scope)
        indices = [item for item in items if not isinstance(item, ast.Dot | ast.Dots)]
        if rank is None or any(self.rank(item, scope) != 0 for item in indices):
            return None
        return rank - len(indices)

    # --- demands ------------------------------------------------------------------------------

    def expr(self, expr: ast.Expr, scope: Scope, level: Level) -> None:
        """Notes that a level of an expression is needed."""
        self._waiting.append((expr, scope, level))

    def _expr(self, expr: ast.Expr, scope: Scope, level: Level) -> None:
        key = (id(expr), id(scope), level)
        if key in self._seen:
            return
        self._seen.add(key)
        self._kept += [expr, scope]
        if _is_known(self.rank(expr, scope), level):
            return
        match expr:
            case ast.Name(text=text):
                self.name(scope.names[text], level)
            case ast.Row(items=items):
                for item in items[:1] if level == D else items:
                    self.expr(item, scope, level)
            case ast.Select(array=array, items=entries):
                self._selection(array, _flat(entries), scope, level)
            case ast.Call(function=function, args=args):
                if function.text in self.functions:
                    self.call(expr, 0, scope, level)
                elif function.text == SELECTION:
                    self._selection(args[1], _flat(args[:1]), scope, level)
                else:
                    row = row_of(function.text)
                    assert row is not None
                    self._applied(row, args, scope, level)
            case ast.Cast(spelling=spelling, operand=operand):
                self._applied(CASTS[spelling], (operand,), scope, level)
            case ast.Unary(op=op, operand=operand):
                self._applied(NEGATION if op == "-" else NOT, (operand,), scope, level)
            case ast.Binary(op=op, left=left, right=right):
                self._applied(_operator(op), (left, right), scope, level)
            case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
                self._condition(condition, scope, level)
                self.expr(then, scope, level)
                self.expr(otherwise, scope, level)
            case ast.Comprehension(parts=parts):
                if level == F:
                    for part in parts:
                        self._part(part, scope)
                self._last(parts[-1], scope, level)
            case ast.WithLoop():
                self._with_loop(expr, scope, level)

    def _condition(self, condition: ast.Expr, scope: Scope, level: Level) -> None:
        if self.counts_conditions or level == F:
            self.expr(condition, scope, F)

    def name(self, name: MeantName, level: Level) -> None:
        """Notes what a level of a name's value needs."""
        if _is_known(self.rank_of_name(name), level):
            return
        self.names[name, level] = None
        match name:
            case InputName(name=text):
                self.found[text] = max(self.found.get(text, N), level)
            case BoundName(expr=expr, scope=scope):
                self.expr(expr, scope, level)
            case SizeName(argument=argument, is_vector=is_vector, is_count=is_count):
                by_rank = is_count or (is_vector and level == S)
                self.name(argument, D if by_rank else S)
            case IndexName(part=part, scope=scope):
                if level >= S:
                    self._index_length(part, scope)
            case ChoiceName(condition=condition, scope=scope, branches=branches):
                self._condition(condition, scope, level)
                for branch in branches:
                    self.name(branch, level)
            case ResultName(call=call, number=number, scope=scope):
                self.call(call, number, scope, level)

    def call(self, call: ast.Call, number: int, scope: Scope, level: Level) -> None:
        """Notes what a level of a result of a call needs: the body at that level (C22)."""
        name = call.function.text
        ranks = tuple(self.rank(arg, scope) for arg in call.args)
        needed = self.of_function(name, number, level, ranks)
        for parameter, arg in zip(self.functions[name].parameters, call.args, strict=True):
            self.expr(arg, scope, needed.get(parameter.name.text, N))

    def of_function(
        self, name: str, number: int, level: Level, ranks: tuple[int | None, ...]
    ) -> Mapping[str, Level]:
        """What a level of a result of a function needs of its parameters, whose arguments have
        these ranks, as far as they are known."""
        definition = self.functions[name]
        if _is_known(declared_rank(definition.types[number]), level):
            return {}
        key = name, number, level, ranks, self.counts_conditions
        if key not in self.summaries:
            inner = Demand(self.functions, self.summaries, self.counts_conditions)
            given: list[MeantName] = []
            for parameter, rank in zip(definition.parameters, ranks, strict=True):
                declared = declared_rank(parameter.type)
                text = parameter.name.text
                given.append(InputName(text, rank if declared is None else declared))
            scope = inner.behind(definition.body.statements, _parameters(definition, given))
            inner.demanded(definition.body.results[number], scope, level)
            self.summaries[key] = inner.found
        return self.summaries[key]

    def _applied(self, row: Row, args: Sequence[ast.Expr], scope: Scope, level: Level) -> None:
        for arg, at in zip(args, row.levels(level), strict=True):
            self.expr(arg, scope, at)

    def _selection(
        self,
        array: ast.Expr,
        items: Sequence[ast.Expr | ast.Dot | ast.Dots],
        scope: Scope,
        level: Level,
    ) -> None:
        self.expr(array, scope, level)
        for item in items:
            if not isinstance(item, ast.Dot | ast.Dots):
                self.expr(item, scope, F if level == F else S)

    def _part(self, part: ast.Part | ast.LoopPart, scope: Scope) -> None:
        """The body and the bounds of a partition at F."""
        self.expr(part.body, self.body_scope(part, scope), F)
        for bound in _bounds(part):
            self.expr(bound, scope, F)

    def _last(self, part: ast.Part, scope: Scope, level: Level) -> None:
        """What the last partition of a comprehension gives its shape or rank by."""
        inner = self.body_scope(part, scope)
        self.expr(part.body, inner, level)
        if level == D and not isinstance(part.pattern, ast.VectorPattern):
            return
        upper = part.generator.upper if part.generator else None
        if upper is not None and not isinstance(upper.value, ast.Dot):
            self.expr(upper.value, scope, S if level == D else F)
        else:
            self._inferred(part, scope, S if level == F else level)

    def _inferred(self, part: ast.Part | ast.LoopPart, scope: Scope, level: Level) -> None:
        """A level of the arrays whose selections bound the index of a partition (C15)."""
        pattern = part.pattern if isinstance(part, ast.Part) else part.generator.index
        inner = self.body_scope(part, scope)
        for array, where in self._bounding(part.body, pattern_names(pattern), inner):
            self.expr(array, where, level)

    def _bounding(
        self, expr: ast.Expr, names: frozenset[str], scope: Scope
    ) -> list[tuple[ast.Expr, Scope]]:
        """The arrays that selections with a bare variable as item bound it by."""
        found: list[tuple[ast.Expr, Scope]] = []
        match expr:
            case ast.Select(array=array, items=items):
                if any(isinstance(k, ast.Name) and k.text in names for k in _flat(items)):
                    found.append((array, scope))
            case ast.Call(function=function, args=args) if function.text == SELECTION:
                if any(isinstance(k, ast.Name) and k.text in names for k in _flat(args[:1])):
                    found.append((args[1], scope))
        for child in children(expr):
            found += self._bounding(child, names, scope)
        if not isinstance(expr, ast.Comprehension | ast.WithLoop):
            return found
        for part in expr.parts:
            for bound in _bounds(part):
                found += self._bounding(bound, names, scope)
            pattern = part.pattern if isinstance(part, ast.Part) else part.generator.index
            visible = names - pattern_names(pattern)
            if isinstance(part, ast.LoopPart):
                start = self.index_scope(part, scope)
                found += self._bounding_in_block(part.statements, visible, start)
                visible -= frozenset(assigned_names(part.statements))
            found += self._bounding(part.body, visible, self.body_scope(part, scope))
        for operand in operands(expr):
            found += self._bounding(operand, names, scope)
        return found

    def _bounding_in_block(
        self, statements: Sequence[ast.Statement], names: frozenset[str], scope: Scope
    ) -> list[tuple[ast.Expr, Scope]]:
        """The arrays of the selections in statements that bound a variable."""
        found: list[tuple[ast.Expr, Scope]] = []
        for statement in statements:
            if not names:
                break
            if isinstance(statement, ast.Assign):
                found += self._bounding(statement.value, names, scope)
            else:
                found += self._bounding(statement.condition, names, scope)
                for branch in (statement.then, statement.otherwise):
                    found += self._bounding_in_block(branch, names, scope)
            scope = self.behind((statement,), scope)
            names -= frozenset(assigned_names((statement,)))
        return found

    def _index_length(self, part: ast.Part | ast.LoopPart, scope: Scope) -> None:
        """The length of an index vector: that of a bound."""
        bounds = _bounds(part)
        if bounds:
            self.expr(bounds[-1], scope, S)
        else:
            self._inferred(part, scope, D)

    def _with_loop(self, loop: ast.WithLoop, scope: Scope, level: Level) -> None:
        if level == F:
            for part in loop.parts:
                self._part(part, scope)
        match loop.operation:
            case ast.Genarray(shape=shape, default=default):
                self.expr(shape, scope, S if level == D else F)
                self.expr(default, scope, level)
            case ast.Modarray(array=array):
                self.expr(array, scope, level)
            case ast.Fold(neutral=neutral):
                self.expr(neutral, scope, level)


def _operator(op: str) -> Row:
    return ARRAY_FUNCTIONS[op] if op == "++" else OPERATORS[op]


def _flat(
    items: Sequence[ast.Expr | ast.Dot | ast.Dots],
) -> Sequence[ast.Expr | ast.Dot | ast.Dots]:
    """The items of a selection: `a[[i, j]]` is `a[i, j]` (C8)."""
    return items[0].items if len(items) == 1 and isinstance(items[0], ast.Row) else items


def _bounds(part: ast.Part | ast.LoopPart) -> list[ast.Expr]:
    """The bounds of a partition that are expressions."""
    generator = part.generator
    sides = (generator.lower, generator.upper) if generator else ()
    return [
        side.value for side in sides if side is not None and not isinstance(side.value, ast.Dot)
    ]
