"""Defs with type variables (T6), written out for the types of a call before every other rule (Y10).

Writing out is an edit of the text: the list of variables goes, and each type and cast that names a
variable gets the type's own name. What follows is of a text without variables, the kernels too. A
def that calls a def with variables binds them by the tensors that it passes (N4): the types of its
inputs are declared, and those of other tensors follow from the statements before the call.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tc.dtypes import SPELLINGS
from tc.errors import CheckError, InputError, Notes, TCError
from tc.frontend import ast
from tc.frontend.parser import parse
from tc.process.uninterrupted import load
from tc.semantics import program as p
from tc.source import Edit, Source, Span
from tc.wording import listed, nearest

MOST_COMBINATIONS = 64
"""The most combinations of types with which a def is checked when it is read."""

Types = Mapping[str, str]
"""The names of types by those of the variables."""


def is_generic(module: ast.Module) -> bool:
    """Whether a def of a text has type variables."""
    return any(definition.variables for definition in module.defs)


def check_variables(definition: ast.Def) -> None:
    """Raise CheckError where a type variable is also another name, or no input binds it (T6)."""
    others: dict[str, Span] = {}
    for param in definition.params:
        others.setdefault(param.name.text, param.name.span)
        for dim in param.type.dims or ():
            if isinstance(dim, ast.Name):
                others.setdefault(dim.text, dim.span)
    for each in definition.returns:
        others.setdefault(each.name.text, each.name.span)
    for statement in definition.body:
        for target in statement.written:
            others.setdefault(target.text, target.span)
        if isinstance(statement, ast.Comprehension):
            for part in (p for t in statement.targets for p in t.subscripts or ()):
                for node in ast.walk(part):
                    if isinstance(node, ast.Name):
                        others.setdefault(node.text, node.span)
    bound = {param.type.spelling for param in definition.params}
    for variable in definition.variables:
        name = variable.name.text
        if name in others:
            raise CheckError(
                f"'{name}' is a type variable of '{definition.name.text}', and no other name there",
                rule="T6",
                span=others[name],
                repair=f"another name for the type, such as {_unused(definition)}",
                notes=((variable.span, "the type variable is declared here"),),
            )
        if name not in bound:
            raise CheckError(
                f"no parameter of '{definition.name.text}' has the type '{name}', so no tensor "
                "of a call binds it",
                rule="Y10",
                span=variable.span,
                repair=f"{name}(N) x, among the parameters, or a type such as float in place of "
                f"'{name}'",
            )


def _unused(definition: ast.Def) -> str:
    words = definition.span.text
    return next(name for name in ("T", "U", "V", "T1", "T2", "T3", "Type") if name not in words)


def combinations(definition: ast.Def) -> Iterator[Types]:
    """The types with which a def is checked when it is read: all of the bounds, and `float` for a
    variable without one. Of many combinations, each type stands once beside the first ones of the
    other variables."""
    names = [variable.name.text for variable in definition.variables]
    bounds = [variable.bound or ("float",) for variable in definition.variables]
    count = 1
    for bound in bounds:
        count *= len(bound)
    if count <= MOST_COMBINATIONS:
        yield from (dict(zip(names, each, strict=True)) for each in itertools.product(*bounds))
        return
    first = [bound[0] for bound in bounds]
    for place, bound in enumerate(bounds):
        for spelling in bound:
            yield dict(zip(names, [*first[:place], spelling, *first[place + 1 :]], strict=True))


@contextmanager
def told_of_types(types: Types) -> Iterator[None]:
    """Has an error of a text that is written out tell for which types."""
    try:
        yield
    except CheckError as error:
        given = " and ".join(f"{name} is {spelling}" for name, spelling in types.items())
        raise CheckError(
            f"{error.cause}; that is where {given}",
            rule=error.rule,
            span=error.span,
            # edits would be of the text that is written out
            repair=error.repair,
            idiom=error.idiom,
            notes=error.notes,
        ) from None


def in_bound(variable: ast.TypeVariable, spelling: str) -> bool:
    """Whether a variable may stand for a type."""
    allowed = {SPELLINGS[each] for each in variable.bound}
    return not allowed or SPELLINGS[spelling] in allowed


def bound_text(variable: ast.TypeVariable) -> str:
    return " | ".join(variable.bound)


def written_out(module: ast.Module, entry: str | None = None, types: Types | None = None) -> Source:
    """The text without type variables, in which the def `entry` has the given types.

    Defs with variables that nothing calls are left out; one that is called with several types
    stands there once for each of them. Raises CheckError for calls that bind a variable to two
    types.

    >>> from tc.frontend.parser import parse
    >>> text = "def f<T: half | float>(T(N) x) -> (T(N) y) { y(i) = T(2 * x(i)) }"
    >>> print(written_out(parse(Source(text)), "f", {"T": "half"}).text)
    def f(half(N) x) -> (half(N) y) { y(i) = half(2 * x(i)) }
    """
    writer = _Writer(module)
    for definition in module.defs:
        if definition.name.text == entry and types is not None:
            writer.instance(definition, types, entry)
    for definition in module.defs:
        name = definition.name.text
        if not definition.variables:
            writer.instance(definition, {}, name)
    return writer.source()


@dataclass
class _Writer:
    """The instances of the defs of a text, each by its def and types."""

    module: ast.Module
    defs: dict[str, ast.Def] = field(default_factory=dict)
    names: dict[tuple[str, tuple[str, ...]], str] = field(default_factory=dict)
    texts: dict[str, tuple[int, str]] = field(default_factory=dict)
    """The texts of instances by name, with the place of their def."""

    def __post_init__(self) -> None:
        self.defs = {definition.name.text: definition for definition in self.module.defs}

    def source(self) -> Source:
        """The whole text: what stands between defs stays where it is."""
        source = self.module.span.source
        pieces, at = [], 0
        for place, definition in enumerate(self.module.defs):
            pieces.append(source.text[at : definition.span.start])
            own = [text for where, text in self.texts.values() if where == place]
            pieces.append("\n\n".join(own))
            at = definition.span.end
        pieces.append(source.text[at:])
        return Source("".join(pieces), source.name, source.origin)

    def instance(self, definition: ast.Def, types: Types, name: str = "") -> str:
        """The name of a def with these types."""
        own = definition.name.text
        key = own, tuple(SPELLINGS[types[v.name.text]].name for v in definition.variables)
        if key not in self.names:
            self.names[key] = name or self._name(own, key[1])
            place = self.module.defs.index(definition)
            text = _edited(definition.span, self._edits(definition, types, self.names[key]))
            self.texts[self.names[key]] = place, text
        return self.names[key]

    def _name(self, own: str, types: Sequence[str]) -> str:
        taken = {*self.defs, *self.names.values()}
        if own not in self.names.values():
            return own
        stem = "_".join((own, *types))
        numbered = (f"{stem}_{count}" for count in itertools.count(2))
        return next(name for name in itertools.chain((stem,), numbered) if name not in taken)

    def _edits(self, definition: ast.Def, types: Types, name: str) -> list[Edit]:
        edits = [*_renamed(definition.name, name), *_types_of(definition, types)]
        for count, statement in enumerate(definition.body):
            call = called(statement)
            callee = None if call is None else self.defs.get(call.name.text)
            if call is None or callee is None:
                continue
            if not callee.variables:
                self.instance(callee, {}, callee.name.text)
                continue
            before = [e for e in edits if e.span.end <= statement.span.start]
            place = _Place(definition, types, name, count, before)
            found = self._bound(place, call, callee)
            edits += _renamed(call.name, self.instance(callee, found))
        return edits

    def _bound(self, place: _Place, call: ast.Apply, callee: ast.Def) -> Types:
        """The types that the tensors of a call bind the variables of a def to (N4)."""
        found: dict[str, str] = {}
        first: dict[str, ast.Expr] = {}
        for param, argument in zip(callee.params, call.args, strict=False):
            spelling = param.type.spelling
            variable = next((v for v in callee.variables if v.name.text == spelling), None)
            if variable is None or not isinstance(argument, ast.Name):
                continue
            name = variable.name.text
            own = self._type(place, argument.text)
            if own is None:
                continue
            if name not in found:
                found[name], first[name] = own, argument
            elif SPELLINGS[found[name]] != SPELLINGS[own]:
                notes: Notes = (
                    (first[name].span, f"'{name}' is {found[name]} by this tensor"),
                    (param.span, "the parameter is declared here"),
                )
                raise CheckError(
                    f"'{argument.text}' is {own}, and '{name}' of '{callee.name.text}' is "
                    f"{found[name]} by '{first[name].span.line}'",
                    rule="Y10",
                    span=argument.span,
                    repair=f"cast one of them in a statement before the call, or two variables, "
                    f"<{name}, {_unused(callee)}>",
                    notes=notes,
                )
            if not in_bound(variable, own):
                raise CheckError(
                    f"'{argument.text}' is {own}, and '{name}' of '{callee.name.text}' is one of "
                    f"{bound_text(variable)}",
                    rule="Y10",
                    span=argument.span,
                    repair=f"{own} among the types of the bound, or a cast before the call",
                    notes=((variable.span, "the bound is here"),),
                )
        return {
            v.name.text: found.get(v.name.text, (v.bound or ("float",))[0])
            for v in callee.variables
        }

    def _type(self, place: _Place, name: str) -> str | None:
        """The type of a tensor of a def before a statement; None where it has none there, which is
        an error of the text that is written out."""
        definition = place.definition
        for param in definition.params:
            if param.name.text == name:
                return place.types.get(param.type.spelling, param.type.spelling)
        for result in definition.returns:
            if result.name.text == name and result.type is not None:
                return place.types.get(result.type.spelling, result.type.spelling)
        text = "\n".join((*(text for _, text in self.texts.values()), place.text(name)))
        checker = load("tc.semantics.check.checker")  # which writes out what it checks
        try:
            program: p.Program = checker.check(parse(Source(text)), place.name)
        except TCError:
            return None
        return program.tensors[name].dtype.name if name in program.tensors else None


@dataclass(frozen=True)
class _Place:
    """Before the statement `count` of a def with these types, whose instance is called `name`."""

    definition: ast.Def
    types: Types
    name: str
    count: int
    edits: Sequence[Edit]

    def text(self, returned: str) -> str:
        """The def up to here, which returns one of its tensors."""
        definition = self.definition
        source = definition.span.source
        head = Span(source, definition.span.start, definition.returns[0].span.start)
        opening = source.text.index("{", definition.returns[-1].span.end)
        body = Span(source, opening, definition.body[self.count].span.start)
        return f"{_edited(head, self.edits)}{returned}) {_edited(body, self.edits)}}}"


def called(statement: ast.Statement) -> ast.Apply | None:
    """The call of a def that a statement may be."""
    match statement:
        case ast.CallStatement(callee=callee, args=args):
            return ast.Apply(callee, args, span=statement.span)
        case ast.Comprehension(indices=None, op="=", rhs=ast.Apply() as call, where=()):
            return call
    return None


def _renamed(name: ast.Name, new: str) -> list[Edit]:
    return [] if name.text == new else [Edit(name.span, new)]


def _types_of(definition: ast.Def, types: Types) -> Iterator[Edit]:
    """The edits that write types in the place of variables."""
    if definition.variables_span is not None:
        yield Edit(definition.variables_span, "")
    declared = [param.type for param in definition.params]
    declared += [result.type for result in definition.returns if result.type is not None]
    for each in declared:
        if each.spelling in types:
            yield _spelt(each.span, each.spelling, types)
    for expr in itertools.chain.from_iterable(map(ast.expressions, definition.body)):
        for node in ast.walk(expr):
            if isinstance(node, ast.Cast) and node.spelling in types:
                yield _spelt(node.span, node.spelling, types)


def _spelt(span: Span, spelling: str, types: Types) -> Edit:
    return Edit(Span(span.source, span.start, span.start + len(spelling)), types[spelling])


def _edited(span: Span, edits: Sequence[Edit]) -> str:
    """The text of a span with the edits that lie in it."""
    text, at = "", span.start
    inside = [e for e in edits if span.start <= e.span.start and e.span.end <= span.end]
    for edit in sorted(inside, key=lambda each: each.span.start):
        text += span.source.text[at : edit.span.start] + edit.text
        at = edit.span.end
    return text + span.source.text[at : span.end]


# --- calls from outside ---------------------------------------------------------------------------


def entry_of(module: ast.Module, entry: str | None) -> ast.Def | None:
    """The def that a caller means, where it has type variables; None where it has none, or where
    `entry` is wrong, which `check` says."""
    if entry is None:
        return module.defs[0] if len(module.defs) == 1 and module.defs[0].variables else None
    for definition in module.defs:
        if definition.name.text == entry and definition.variables:
            return definition
    return None


def types_needed(definition: ast.Def, cause: str = "", repair: str | None = None) -> InputError:
    """The error that the types of a def are not known; `cause` says it of the name of the def."""
    own = definition.name.text
    names = [variable.name.text for variable in definition.variables]
    chosen = next(iter(combinations(definition)))
    given = ", ".join(f'{name}="{spelling}"' for name, spelling in chosen.items())
    said = f"'{own}' has the type {'variables' if len(names) > 1 else 'variable'} {listed(names)}"
    return InputError(
        cause.format(own) or f"{said}, which arrays bind, and none is given",
        rule="Y10",
        span=definition.variables_span,
        repair=repair or f"tc.written_out(text, {given}), for the text with these types",
    )


def types_given(definition: ast.Def, types: Mapping[str, object]) -> Types:
    """The types that a caller names, checked; InputError."""
    names = [variable.name.text for variable in definition.variables]
    found: dict[str, str] = {}
    for name, spelling in types.items():
        if name not in names:
            near = nearest(name, names)
            raise InputError(
                f"'{definition.name.text}' has no type variable '{name}'; it has {listed(names)}",
                rule="Y10",
                repair=f'{near}="{spelling}"' if near else None,
            )
        if not isinstance(spelling, str) or spelling not in SPELLINGS:
            raise InputError(
                f"{name}={spelling!r}: it is the name of a type: {', '.join(SPELLINGS)}",
                rule="Y10",
                repair=f'{name}="float"',
            )
        variable = definition.variables[names.index(name)]
        if not in_bound(variable, spelling):
            raise InputError(
                f"{name}={spelling!r}: '{name}' is one of {bound_text(variable)}",
                rule="Y10",
                span=variable.span,
                repair=f'{name}="{variable.bound[0]}"',
            )
        found[name] = spelling
    if missing := [name for name in names if name not in found]:
        raise InputError(
            f"no type is given for {listed(missing)} of '{definition.name.text}'",
            rule="Y10",
            span=definition.variables_span,
            repair=f'{missing[0]}="float"',
        )
    return found


def types_of_inputs(definition: ast.Def, dtypes: Mapping[str, str | None]) -> Types:
    """The types that the inputs of a call bind: each variable is bound by the first input that has
    it (Y10). `dtypes` are the element types by name, None where an input has none of its own, as a
    number of Python. InputError where two inputs differ."""
    found: dict[str, tuple[str, ast.Param]] = {}
    by_name = {variable.name.text: variable for variable in definition.variables}
    for param in definition.params:
        name, own = param.type.spelling, dtypes.get(param.name.text)
        if name not in by_name or own is None or own not in SPELLINGS:
            continue
        spelling = _as_written(by_name[name], own)
        if name not in found:
            if not in_bound(by_name[name], own):
                raise InputError(
                    f"{definition.name.text}: {param.name.text} has dtype {own}, and '{name}' is "
                    f"one of {bound_text(by_name[name])}",
                    rule="Y10",
                    span=by_name[name].span,
                    notes=((param.span, "the parameter is declared here"),),
                    repair=f"convert {param.name.text} before the call, or "
                    f"{name}: {bound_text(by_name[name])} | {own}",
                )
            found[name] = spelling, param
        elif SPELLINGS[found[name][0]] != SPELLINGS[own]:
            first = found[name][1]
            raise InputError(
                f"{definition.name.text}: {param.name.text} has dtype {own}, and '{name}' is "
                f"{SPELLINGS[found[name][0]]} by {first.name.text}",
                rule="Y10",
                span=param.span,
                notes=((first.span, f"'{name}' is bound here"),),
                repair=f"convert one of them before the call, or give {param.name.text} a type "
                "variable of its own",
            )
    if any(name not in found for name in by_name):
        unbound = [name for name in by_name if name not in found]
        of_numbers = {
            param.type.spelling: "float"
            for param in definition.params
            if param.type.spelling in unbound and param.name.text in dtypes
        }
        if any(name not in of_numbers for name in unbound):
            raise types_needed(definition)
        for name in unbound:
            allowed = by_name[name].bound
            chosen = "float" if in_bound(by_name[name], "float") else allowed[0]
            found[name] = chosen, definition.params[0]
    return {name: found[name][0] for name in by_name}


def _as_written(variable: ast.TypeVariable, dtype: str) -> str:
    """A type as the bound spells it."""
    same = (each for each in variable.bound if SPELLINGS[each] == SPELLINGS[dtype])
    return next(same, dtype)
