"""Syntax trees: the variables and reads of expressions, statements with their bindings substituted
(T5), and defs with the calls of others written out (N4, E5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias

from tc.frontend import ast
from tests.fuzz.places.arithmetic import numpy_name
from tests.fuzz.places.outcomes import Ranges

FUNCTIONS = ("min", "max", "abs", "inf", "nan", "pi", "pad", "popc", "clz")
OPERANDS = ("operand", "left", "right", "condition", "then", "otherwise")

Dims: TypeAlias = tuple[str | int, ...]
"""The dimensions of a declared type: names of sizes, and numbers."""


def substituted(e: ast.Expr, bindings: Mapping[str, ast.Expr]) -> ast.Expr:
    """The expression with each binding in place of its name (T5)."""
    match e:
        case ast.Name(text=text) if text in bindings:
            return substituted(bindings[text], bindings)
        case ast.Apply(args=args):
            return replace(e, args=tuple(substituted(x, bindings) for x in args))
        case ast.Name() | ast.Number() | ast.Dim():
            return e
    changed: dict[str, Any] = {
        f.name: substituted(getattr(e, f.name), bindings) for f in fields(e) if f.name in OPERANDS
    }
    return replace(e, **changed)


def names_of(e: ast.Expr) -> list[str]:
    """The bare names of an expression, each once."""
    found = [x.text for x in ast.walk(e) if isinstance(x, ast.Name)]
    return list(dict.fromkeys(found))


def number_of(e: ast.Expr) -> int | float:
    """The value of a literal with a sign (E5)."""
    if isinstance(e, ast.Unary) and e.op in "+-":
        return -number_of(e.operand) if e.op == "-" else number_of(e.operand)
    assert isinstance(e, ast.Number)
    return e.value


class Form:
    """A statement with its bindings substituted, and its variables told apart."""

    def __init__(
        self, statement: ast.Comprehension, known: Callable[[str], bool], prefix: str = ""
    ) -> None:
        self.op, self.where, self.prefix = statement.op, statement.where, prefix
        bindings = {c.name.text: c.value for c in self.where if isinstance(c, ast.Binding)}
        self.names = tuple(t.name.text for t in statement.targets)
        self.lefts = tuple(
            tuple(substituted(s, bindings) for s in t.subscripts or ()) for t in statement.targets
        )
        self.left = self.lefts[0]
        self.values = tuple(substituted(e, bindings) for e in statement.values)
        self.conditions = [
            substituted(c.test, bindings) for c in self.where if isinstance(c, ast.Condition)
        ]
        self.sizes = [c for c in self.where if isinstance(c, ast.SizeClause)]
        self.bounds = {
            c.variable.text: (substituted(c.begin, bindings), substituted(c.end, bindings))
            for c in self.where
            if isinstance(c, ast.RangeClause)
        }
        bounds = [b for pair in self.bounds.values() for b in pair]
        self.exists = [a for c in self.where if isinstance(c, ast.Exists) for a in c.read.args]
        self._known = known
        self._variables: dict[int, list[str]] = {}
        self.left_variables = self.variables_of(*self.left)
        all_ = self.variables_of(*self.left, *self.values, *self.conditions, *bounds, *self.exists)
        self.variables = list(dict.fromkeys([*all_, *self.bounds]))
        self.reduced = [v for v in self.variables if v not in self.left_variables]

    @property
    def expressions(self) -> list[ast.Expr]:
        """All that instances compute."""
        bounds = [b for pair in self.bounds.values() for b in pair]
        return [*self.left, *self.values, *self.conditions, *bounds]

    def variables_of(self, *expressions: ast.Expr) -> list[str]:
        found: dict[str, None] = {}
        for e in expressions:
            names = self._variables.get(id(e))
            if names is None:
                names = [n for n in names_of(e) if not self._known(n)]
                self._variables[id(e)] = names
            found |= dict.fromkeys(names)
        return list(found)

    def bare(self, subscript: ast.Expr) -> str | None:
        """The variable that a left subscript is, if it is nothing else."""
        is_variable = isinstance(subscript, ast.Name) and subscript.text in self.variables
        return subscript.text if is_variable and isinstance(subscript, ast.Name) else None

    @property
    def is_plain(self) -> bool:
        bare = [self.bare(s) for s in self.left]
        return None not in bare and len(set(bare)) == len(bare)


# --- calls ------------------------------------------------------------------------------------


@dataclass
class WrittenOut:
    """The statements of a def, with those of the defs that it calls in place of the calls. Names of
    tensors are those of the def; what a called def has of its own (sizes, index variables,
    temporaries, parameters that were left out) has a prefix for each call."""

    statements: list[tuple[ast.Comprehension, str]] = field(default_factory=list)
    declared: dict[str, tuple[str, Dims]] = field(default_factory=dict)
    sizes: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By its name in a called def, the tensor and the dimension that a size is."""

    constants: dict[str, tuple[str, int | float]] = field(default_factory=dict)
    """Parameters that calls leave out, with types and values."""

    passed: list[tuple[str, str, Dims]] = field(default_factory=list)
    """The tensors that calls pass, and what the parameters are declared as."""


def written_out(defs: Sequence[ast.Def], entry: ast.Def) -> WrittenOut:
    """The calls of an entry, and those in what it calls, put in their place (N4)."""
    found = WrittenOut()
    names = {d.name.text: d for d in defs}
    own = [p.name.text for p in entry.params] + [r.name.text for r in entry.returns]
    _declare(entry, dict.fromkeys(own, ""), "", found)
    _write_out(entry, {}, "", names, found)
    return found


def _write_out(
    of: ast.Def,
    given: Mapping[str, str],
    prefix: str,
    defs: Mapping[str, ast.Def],
    found: WrittenOut,
) -> None:
    for statement in of.body:
        call = _call_of(statement, defs)
        if call is None:
            assert isinstance(statement, ast.Comprehension)
            own = renamed(statement, given, prefix) if prefix else statement
            found.statements.append((own, prefix))
            continue
        callee, args, targets = call
        inner = f"{prefix}{callee.name.text}#{len(found.statements)}."
        tensors = {
            p.name.text: given.get(a, prefix + a) for p, a in zip(callee.params, args, strict=False)
        }
        for param in callee.params[: len(args)]:
            dims = _dims(param.type, inner)
            tensor = tensors[param.name.text]
            found.passed.append((tensor, numpy_name(param.type.spelling), dims))
            for axis, dim in enumerate(dims):
                if isinstance(dim, str):
                    found.sizes.setdefault(dim, (tensor, axis))
        for param in callee.params[len(args) :]:
            assert param.default is not None
            type = numpy_name(param.type.spelling)
            found.constants[inner + param.name.text] = type, number_of(param.default)
        tensors |= {
            r.name.text: given.get(t, prefix + t)
            for r, t in zip(callee.returns, targets, strict=True)
        }
        _declare(callee, tensors, inner, found)
        _write_out(callee, tensors, inner, defs, found)


def _declare(of: ast.Def, tensors: Mapping[str, str], prefix: str, found: WrittenOut) -> None:
    for r in of.returns:
        if r.type is not None:
            name = tensors[r.name.text] or r.name.text
            dims = _dims(r.type, prefix)
            found.declared[name] = numpy_name(r.type.spelling), dims


def _dims(type: ast.TensorType, prefix: str) -> Dims:
    return tuple(
        prefix + d.text if isinstance(d, ast.Name) else int(d.value) for d in type.dims or ()
    )


def _call_of(
    statement: ast.Statement, defs: Mapping[str, ast.Def]
) -> tuple[ast.Def, list[str], list[str]] | None:
    """The def that a statement calls, the tensors that it passes, and those that it writes."""
    if isinstance(statement, ast.CallStatement):
        callee, args, targets = statement.callee, statement.args, statement.targets
    else:
        value = statement.values[0]
        if not isinstance(value, ast.Apply) or statement.targets[0].subscripts is not None:
            return None
        callee, args, targets = value.name, value.args, statement.written
    if callee.text not in defs:
        return None
    return defs[callee.text], [a.text for a in args if isinstance(a, ast.Name)], [
        t.text for t in targets
    ]  # fmt: skip


def renamed(node: Any, names: Mapping[str, str], prefix: str) -> Any:
    """A tree of a called def with the caller's names of tensors, and a prefix for all others."""
    match node:
        case tuple():
            return tuple(renamed(x, names, prefix) for x in node)
        case ast.Name(text=text):
            return replace(node, text=names.get(text, prefix + text))
        case ast.Apply(name=name, args=args):
            is_function = name.text in FUNCTIONS
            called = name if is_function else renamed(name, names, prefix)
            return replace(node, name=called, args=renamed(args, names, prefix))
        case ast.Node():
            parts = [f.name for f in fields(node) if f.name not in ("span", "op_span")]
            return replace(node, **{n: renamed(getattr(node, n), names, prefix) for n in parts})
    return node


def own_ranges(ranges: Ranges, prefix: str) -> Ranges:
    """The ranges of a called def's index variables by the names that these have here."""
    return {prefix + name: span for name, span in ranges.items()}


def reads_below(e: ast.Expr) -> Iterator[tuple[str, tuple[ast.Expr, ...] | None]]:
    """The names that may be tensors that are read, with subscripts."""
    for x in ast.walk(e):
        match x:
            case ast.Apply(name=name, args=args) if name.text not in FUNCTIONS:
                yield name.text, args
            case ast.Name(text=text):
                yield text, None
