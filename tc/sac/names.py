"""The names of a SaC text (C4), and what else its text alone decides: sizes of types (C6), dots as
bounds (C17, C21)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

from tc.builtins import BUILTINS
from tc.errors import CheckError, Notes
from tc.sac import ast
from tc.sac.text import foreign
from tc.sac.text.printer import printed
from tc.sac.trees import children
from tc.source import Edit, Span
from tc.wording import counted, listed, nearest

ARITIES: Mapping[str, int] = {
    **{name: builtin.arity for name, builtin in BUILTINS.items()},
    **dict.fromkeys(("shape", "dim", "reverse", "transpose", "iota", "zero"), 1),
    **dict.fromkeys(("sum", "prod", "minval", "maxval", "any", "all", "tod", "tof", "toi"), 1),
    **dict.fromkeys(("abs",), 1),
    **dict.fromkeys(("take", "drop", "reshape", "genarray", "sel", "min", "max"), 2),
    **dict.fromkeys(("modarray", "where"), 3),
}
"""The number of arguments of each built-in function (C9)."""


def check_names(module: ast.Module) -> None:
    """Raise CheckError where a text names what it does not know, names a thing twice, calls with
    other than the due number of arguments, or calls itself (C4); where the sizes of a type cannot
    be told apart (C6), and where a dot bounds what has no edge (C17, C21).

    All functions are checked, called or not. The free names of an expression are its inputs, and
    known.
    """
    checker = _Checker(module)
    for definition in module.definitions:
        checker.definition(definition)
    if module.body is not None:
        checker.body(module.body, set())
    checker.recursion()


def inputs_of(body: ast.Body) -> tuple[str, ...]:
    """The free names of a text that is an expression, in the order of the text: its inputs (C1).

    >>> from tc.sac.text.parser import parse
    >>> from tc.source import Source
    >>> inputs_of(parse(Source("y = x + 1; { [i] -> y[i] * w[i] }")).body)
    ('x', 'w')
    """
    checker = _Checker(ast.Module(body.span.source, (), body))
    checker.raises = False
    checker.body(body, set())
    return tuple(checker.inputs)


def entry_of(module: ast.Module, entry: str | None) -> ast.Definition | ast.Body:
    """The function that a call runs, or the body of an expression; CheckError where `entry` is
    missing, unknown, or given for an expression (C4)."""
    if module.body is not None:
        if entry is not None:
            raise CheckError(
                f"the text is an expression, and has no function '{entry}' to enter",
                rule="C4",
                span=module.body.span,
                repair="leave 'entry' out",
            )
        return module.body
    names = [definition.name.text for definition in module.definitions]
    if entry is None and len(names) == 1:
        return module.definitions[0]
    if entry is None:
        raise CheckError(
            f"the text has the functions {listed(names)}, and no 'entry' says which one is meant",
            rule="C4",
            span=module.definitions[-1].name.span,
            repair=f"entry={names[-1]!r}",
        )
    for definition in module.definitions:
        if definition.name.text == entry:
            return definition
    meant = nearest(entry, names)
    raise CheckError(
        f"entry: the text has no function '{entry}', only {listed(names)}",
        rule="C4",
        span=module.definitions[-1].name.span,
        repair=f"entry={meant or names[-1]!r}",
    )


class _Checker:
    """One walk over a text; `known` holds the names that are known where the walk is."""

    def __init__(self, module: ast.Module) -> None:
        self.module = module
        self.functions: dict[str, ast.Definition] = {}
        self.calls: dict[str, dict[str, ast.Call]] = {}
        self.caller = ""
        self.inputs: dict[str, None] = {}
        self.raises = True
        for definition in module.definitions:
            self._declare(definition)

    def _declare(self, definition: ast.Definition) -> None:
        name = definition.name
        if name.text in self.functions:
            first = self.functions[name.text].name
            raise _error(
                name,
                f"two functions have the name '{name.text}'; functions are not overloaded",
                idiom="a name of its own for each, or one function of '[*]' for all shapes",
                notes=((first.span, "the first one is here"),),
            )
        if name.text in ARITIES:
            raise _error(
                name,
                f"'{name.text}' is a built-in function; functions are not overloaded",
                idiom=f"my_{name.text}, or another name that is free",
            )
        self.functions[name.text] = definition

    def definition(self, definition: ast.Definition) -> None:
        """Check one function."""
        self.caller = definition.name.text
        self.calls[self.caller] = {}
        seen: dict[str, ast.Name] = {}
        for parameter in definition.parameters:
            name = parameter.name
            if name.text in seen:
                raise _error(
                    name,
                    f"two parameters of '{self.caller}' have the name '{name.text}'",
                    idiom="a name of its own for each parameter",
                    notes=((seen[name.text].span, "the first one is here"),),
                )
            seen[name.text] = name
        sizes: set[str] = set()
        for kind in (*(p.type for p in definition.parameters), *definition.types):
            self._sizes(kind, seen, sizes)
        known = {*seen, *(s for p in definition.parameters for s in _size_names(p.type))}
        self.body(definition.body, known)

    def _sizes(self, kind: ast.Type, parameters: Mapping[str, ast.Name], sizes: set[str]) -> None:
        """Check the names of sizes of a type; `sizes` holds those of the types before it."""
        if isinstance(kind.sizes, str):
            return
        unknown: list[ast.Size] = []
        for size in kind.sizes:
            for name in (size.count, size.name):
                if isinstance(name, ast.Name) and name.text in parameters:
                    raise _error(
                        name,
                        f"'{name.text}' is a size and a parameter",
                        idiom="a name of its own for the size",
                        notes=((parameters[name.text].span, "the parameter is here"),),
                    )
            count = size.count
            if size.name is None or not isinstance(count, ast.Name):
                continue
            if count.text not in sizes and size.name.text not in sizes:
                unknown.append(size)
        if len({size.count.text for size in unknown if isinstance(size.count, ast.Name)}) > 1:
            counts = [s.count.text for s in unknown if isinstance(s.count, ast.Name)]
            raise CheckError(
                f"of the axes {listed(counts)} of {printed(kind)}, more than one number is unknown",
                rule="C6",
                span=kind.span,
                idiom=f"a parameter before it that tells one, as int[{counts[0]}] iv does",
            )
        sizes.update(_size_names(kind))

    def body(self, body: ast.Body, known: set[str]) -> None:
        self.statements(body.statements, known)
        several = len(body.results) > 1
        for result in body.results:
            self.expression(result, known, several)

    def statements(self, statements: Iterable[ast.Statement], known: set[str]) -> None:
        """Check statements in order; the names that they set join `known`."""
        for statement in statements:
            if isinstance(statement, ast.Assign):
                self.assign(statement, known)
                continue
            self.expression(statement.condition, known)
            then, otherwise = set(known), set(known)
            self.statements(statement.then, then)
            self.statements(statement.otherwise, otherwise)
            known |= then & otherwise  # what one branch alone sets is unknown behind it (C10)

    def assign(self, statement: ast.Assign, known: set[str]) -> None:
        targets, value = statement.targets, statement.value
        if statement.op:
            self.name(targets[0], known)
        if len(targets) > 1 or isinstance(value, ast.Call):
            self.targets(statement)
        self.expression(value, known, True)
        known.update(target.text for target in targets)

    def targets(self, statement: ast.Assign) -> None:
        """Check the names that take the results of a call."""
        targets, value = statement.targets, statement.value
        seen: set[str] = set()
        for target in targets:
            if target.text in seen:
                raise _error(
                    target,
                    f"'{target.text}' takes two results of a call",
                    idiom="a name of its own for each result",
                )
            seen.add(target.text)
        count, given = len(targets), 1
        if isinstance(value, ast.Call) and value.function.text in self.functions:
            given = len(self.functions[value.function.text].types)
        elif isinstance(value, ast.Call) and value.function.text not in ARITIES:
            return  # an unknown function, which is told when the call is checked
        if count == given:
            return
        what = f"'{value.function.text}'" if isinstance(value, ast.Call) else "an expression"
        raise CheckError(
            f"{counted(count, 'name')} for {counted(given, 'result')} of {what}; several names "
            "take the results of a call",
            rule="C4",
            span=statement.span,
            idiom=f"{', '.join('abcdefgh'[: min(given, 8)])} = f(x);, a name for each result",
        )

    def expression(self, node: ast.Expr, known: set[str], many: bool = False) -> None:
        """Check an expression; `many` where a call in it may have several results."""
        match node:
            case ast.Number() | ast.Bool():
                pass
            case ast.Name():
                self.name(node, known)
            case ast.Row():
                for item in node.items:
                    self.expression(item, known)
            case ast.Select():
                self.expression(node.array, known)
                for index in node.items:
                    if not isinstance(index, ast.Dot | ast.Dots):
                        self.expression(index, known)
            case ast.Call():
                self.call(node, known, many)
                for arg in node.args:
                    self.expression(arg, known)
            case ast.Cast() | ast.Unary():
                self.expression(node.operand, known)
            case ast.Binary():
                self.expression(node.left, known)
                self.expression(node.right, known)
            case ast.Conditional():
                for operand in (node.condition, node.then, node.otherwise):
                    self.expression(operand, known)
            case ast.Comprehension():
                for part in node.parts:
                    self.bounds(part.generator, known)
                    self.expression(part.body, {*known, *_bound_names(part.pattern)})
                _no_dot_last(node)
            case ast.WithLoop():
                self.with_loop(node, known)

    def with_loop(self, node: ast.WithLoop, known: set[str]) -> None:
        for part in node.parts:
            self.bounds(part.generator, known)
            inside = {*known, *_bound_names(part.generator.index)}
            self.statements(part.statements, inside)
            self.expression(part.body, inside)
            for bound in (part.generator.lower, part.generator.upper):
                if (
                    bound
                    and isinstance(bound.value, ast.Dot)
                    and isinstance(node.operation, ast.Fold)
                ):
                    raise CheckError(
                        "a dot bounds a fold, which has no shape",
                        rule="C21",
                        span=bound.value.span,
                        paste=_first_index(part.generator)
                        if bound is part.generator.lower
                        else None,
                        idiom="0 * shape(a) <= iv < shape(a), of the array that is folded"
                        if bound is part.generator.upper
                        else None,
                    )
        match node.operation:
            case ast.Genarray(shape, default):
                operands = [shape, default]
            case ast.Modarray(array):
                operands = [array]
            case ast.Fold(_, neutral):
                operands = [neutral]
        for operand in operands:
            self.expression(operand, known)

    def bounds(self, generator: ast.Generator | None, known: set[str]) -> None:
        for bound in (generator.lower, generator.upper) if generator else ():
            if bound is not None and not isinstance(bound.value, ast.Dot):
                self.expression(bound.value, known)

    def name(self, node: ast.Name, known: set[str]) -> None:
        if node.text in known:
            return
        if self.module.body is not None:
            self.inputs.setdefault(node.text)
            return
        self.unknown_name(node, known)

    def unknown_name(self, node: ast.Name, known: set[str]) -> NoReturn:
        cause = f"unknown name '{node.text}'"
        if node.text in foreign.CONSTANTS:
            raise _error(node, cause, paste=foreign.CONSTANTS[node.text])
        if meant := nearest(node.text, known):
            raise _error(node, f"{cause}; '{meant}' is known", paste=meant)
        if node.text in {*self.functions, *ARITIES}:
            raise _error(node, f"{cause}, which is a function here", idiom=f"{node.text}(x)")
        shown = listed(sorted(known)[:8]) or "no names"
        later = any(
            isinstance(s, ast.Assign) and node in s.targets
            for d in self.module.definitions
            if d.name.text == self.caller
            for s in d.body.statements
        )
        if later:
            cause += ": it has no value before its assignment, nor in its own comprehension"
        raise _error(node, cause, idiom=f"a parameter or an assignment of it; known are {shown}")

    def call(self, node: ast.Call, known: set[str], many: bool) -> None:
        name = node.function
        definition = self.functions.get(name.text)
        if definition is None and name.text not in ARITIES:
            if self.raises:
                self.unknown_function(node, known)
            return
        due = ARITIES.get(name.text, 0) if definition is None else len(definition.parameters)
        if due != len(node.args) and self.raises:
            self.arity(node, due)
        if definition is None:
            return
        self.calls.setdefault(self.caller, {}).setdefault(name.text, node)
        if len(definition.types) > 1 and not many:
            raise CheckError(
                f"'{name.text}' has {len(definition.types)} results, and one value is due here",
                rule="C4",
                span=node.span,
                idiom=f"a, b = {name.text}(...);, and then a or b",
            )

    def arity(self, node: ast.Call, due: int) -> NoReturn:
        name, given = node.function.text, len(node.args)
        cause = f"'{name}' takes {counted(due, 'argument')}, not {given}"
        args = [arg.span.line for arg in node.args]
        if text := foreign.formula(name, args):
            raise CheckError(cause, rule="C4", span=node.span, paste=text)
        notes: Notes = ()
        if name in self.functions:
            notes = ((self.functions[name].name.span, f"'{name}' is here"),)
        shown = ", ".join("abcdefgh"[:due])
        raise CheckError(cause, rule="C4", span=node.span, idiom=f"{name}({shown})", notes=notes)

    def unknown_function(self, node: ast.Call, known: set[str]) -> NoReturn:
        name = node.function
        cause = f"unknown function '{name.text}'"
        args = [arg.span.line for arg in node.args]
        text = foreign.formula(name.text, args)
        if text is not None and len(text) <= 160:
            raise CheckError(cause, rule="C4", span=node.span, paste=text)
        if name.text in foreign.IDIOMS:
            raise _error(name, cause, idiom=foreign.IDIOMS[name.text])
        if (meant := foreign.primitive(name.text)) is not None:
            cause += ": primitives have no names here"
            if meant in ARITIES:
                raise _error(name, cause, paste=meant)
            raise _error(name, cause, idiom=f"the operator {meant}")
        if name.text in known and len(args) and len(", ".join(args)) <= 160:
            cause = f"'{name.text}' is a variable and no function; selections have brackets"
            edit = Edit(node.span, f"{name.text}[{', '.join(args)}]")
            raise CheckError(cause, rule="C4", span=node.span, edits=(edit,))
        if meant := nearest(name.text, {*self.functions, *ARITIES}):
            raise _error(name, f"{cause}; '{meant}' is known", paste=meant)
        raise _error(
            name, cause, idiom=f"float[*] {name.text}(float[*] x) {{ return x; }}, a definition"
        )

    def recursion(self) -> None:
        """Raise where a function calls itself, perhaps through others."""
        done: set[str] = set()
        for start in self.functions:
            path: list[str] = []
            stack: list[tuple[str, bool]] = [(start, False)]
            while stack:
                name, leaving = stack.pop()
                if leaving:
                    done.add(path.pop())
                    continue
                if name in path:
                    self.recursive([*path[path.index(name) :], name])
                if name in done:
                    continue
                path.append(name)
                stack.append((name, True))
                stack += [(callee, False) for callee in reversed(self.calls.get(name, {}))]

    def recursive(self, cycle: list[str]) -> NoReturn:
        call = self.calls[cycle[-2]][cycle[-1]]
        chain = " calls ".join(f"'{name}'" for name in cycle)
        what = f"'{cycle[0]}' calls itself" if len(cycle) == 2 else chain
        raise CheckError(
            f"{what}; calls are inlined, so recursion never ends",
            rule="C4",
            span=call.span,
            idiom="a loop of Python around calls of one step",
        )


def _error(node: ast.Name, cause: str, **details: object) -> CheckError:
    return CheckError(cause, rule="C4", span=node.span, **details)  # type: ignore[arg-type]


def _size_names(kind: ast.Type) -> list[str]:
    """The names of sizes that a type has."""
    if isinstance(kind.sizes, str):
        return []
    names = [name for size in kind.sizes for name in (size.count, size.name)]
    return [name.text for name in names if isinstance(name, ast.Name)]


def _bound_names(pattern: ast.Pattern) -> list[str]:
    """The variables of a pattern."""
    if isinstance(pattern, ast.VectorPattern):
        return [pattern.name.text]
    return [name.text for name in pattern.names]


def _no_dot_last(node: ast.Comprehension) -> None:
    """Raise where a dot is the upper bound of the last partition (C17)."""
    part = node.parts[-1]
    generator = part.generator
    if generator is None or generator.upper is None:
        return
    if isinstance(generator.upper.value, ast.Dot):
        edits: tuple[Edit, ...] = ()
        if selected_by(part.body) >= set(_bound_names(part.pattern)):
            start = part.body.span.end if generator.lower is None else generator.index.span.end
            edits = (Edit(Span(node.span.source, start, generator.span.end), ""),)
        raise CheckError(
            "'.' cannot bound the last partition, which gives the result its shape",
            rule="C17",
            span=generator.upper.value.span,
            edits=edits,
            idiom=None
            if edits
            else f"{printed(generator.index)} < shape(a), or no bound where selections tell it",
        )


def selected_by(body: ast.Expr) -> set[str]:
    """The names that a body selects by, each as an item of its own."""
    found: set[str] = set()
    if isinstance(body, ast.Select):
        items = body.items
        if len(items) == 1 and isinstance(items[0], ast.Row):
            items = items[0].items
        found = {item.text for item in items if isinstance(item, ast.Name)}
    return found.union(*map(selected_by, children(body)))


def _first_index(generator: ast.Generator) -> str | None:
    """The text of the least index of a generator whose lower bound is a dot."""
    if isinstance(generator.index, ast.ScalarPattern):
        return f"[{', '.join('0' for _ in generator.index.names)}]"
    upper = generator.upper
    if upper is None or isinstance(upper.value, ast.Dot):
        return None
    if isinstance(upper.value, ast.Row):
        return f"[{', '.join('0' for _ in upper.value.items)}]"
    text = upper.value.span.line
    return f"0 * {text if text.endswith((')', ']')) else f'({text})'}"
