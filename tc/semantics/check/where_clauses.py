"""The clauses of a `where` with their names resolved: bindings and ranges (T5, G8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from tc.edits import Edit, within
from tc.errors import CheckError
from tc.frontend import ast
from tc.frontend.repairs import intersection
from tc.semantics import program as p
from tc.semantics import resolved as r
from tc.semantics.check.declarations import DefSignature
from tc.semantics.check.resolve import check_height, resolve, resolve_binding
from tc.semantics.check.return_sizes import as_inputs
from tc.semantics.check.scope import BindingValue, Findings, NameScope
from tc.semantics.suggest import nearest, number_written, one_line, unused
from tc.source import Span


def resolve_bindings(
    statement: ast.Comprehension, scope: NameScope, outer: Mapping[str, Span]
) -> dict[str, BindingValue]:
    """The bindings of the where clause; each sees the bindings before itself."""
    ranges = {c.variable.text for c in statement.where if isinstance(c, ast.RangeClause)}
    bindings: dict[str, BindingValue] = {}
    for clause in statement.where:
        if not isinstance(clause, ast.Binding):
            continue
        name = clause.name.text
        taken = _kind(name, scope.frame.signature)
        if name in bindings:
            taken = "another binding"
        elif name in outer or name in ranges:
            taken = "an index variable of the statement"
        if taken:
            edits = _renamed(statement, clause, outer, taken)
            raise CheckError(
                f"the binding '{name}' needs a name of its own: '{name}' is {taken}",
                rule="T5",
                span=clause.name.span,
                edits=edits,
                repair=None if edits else "give the value a name of its own",
            )
        hidden = {key: span for key, span in scope.hidden.items() if key not in bindings}
        inner = NameScope(scope.frame, scope.defs, scope.shaped, bindings, hidden, name)
        value = resolve_binding(clause.value, inner)
        check_height(value.height, clause.span)
        bindings = {**bindings, name: value}
    return bindings


def _kind(name: str, signature: DefSignature) -> str | None:
    if name in signature.sizes:
        return "a size"
    return "a tensor" if signature.is_tensor(name) else None


def _renamed(
    statement: ast.Comprehension, clause: ast.Binding, outer: Mapping[str, Span], taken: str
) -> tuple[Edit, ...]:
    """The edits that give a binding another name wherever it is meant; a binding of an index
    variable to a number was meant to be its range."""
    name, value = clause.name.text, clause.value
    if name in outer and isinstance(value, ast.Number) and isinstance(value.value, int):
        return (Edit(clause.span, f"{name} in {value.value}:{value.value + 1}"),)
    if taken != "a size" or any(isinstance(c, ast.RangeClause) for c in statement.where):
        return ()
    fresh = unused(f"{name}_2", clause.span)
    meant = [n for n in ast.walk(statement.rhs) if isinstance(n, ast.Name) and n.text == name]
    return within(statement.span, tuple(Edit(n.span, fresh) for n in (*meant, clause.name)))


def resolve_range(
    clause: ast.RangeClause,
    first: ast.RangeClause,
    scope: NameScope,
    tensors: Mapping[str, r.FlatTensor],
    indices_used: set[str],
) -> r.FlatRange:
    """A range clause, given the first one of its variable and the index variables of the rest of
    the statement; its bounds must be size expressions, and there is no other range (G8)."""
    name = clause.variable.text
    kind = _kind(name, scope.frame.signature) or ("a binding" if name in scope.hidden else None)
    if kind:
        raise CheckError(
            f"a where clause gives the range of an index variable, and '{name}' is {kind}",
            rule="G8",
            span=clause.variable.span,
            repair="name an index variable of the statement",
        )
    if first is not clause:
        both = intersection(first, clause)
        raise CheckError(
            f"the where clause gives '{name}' two ranges",
            rule="G8",
            span=clause.span,
            edits=_one_range(first.span, clause.span, both) if both else (),
            repair=None if both else "give it one of them: they have no value in common",
            notes=((first.span, "the first one is here"),),
        )
    begin, end = (
        _bound(bound, test, name, scope, tensors, indices_used)
        for bound, test in ((clause.begin, ">="), (clause.end, "<"))
    )
    return r.FlatRange(name, begin, end, span=clause.span)


def _one_range(first: Span, second: Span, text: str) -> tuple[Edit, ...]:
    """The edits that replace two range clauses by the clause `text`."""
    source = first.source
    if source.text[first.end : second.start].strip() == ",":
        return (Edit(first.to(second), text),)
    before = source.text.rfind(",", first.end, second.start)
    return (Edit(first, text), Edit(Span(source, before, second.end), ""))


def _bound(
    expr: ast.Expr,
    test: str,
    variable: str,
    scope: NameScope,
    tensors: Mapping[str, r.FlatTensor],
    indices_used: set[str],
) -> p.Expr:
    """A bound of a range, which must be a size expression (G8); `test` is the comparison, such as
    `>=`, that messages print between the variable and the bound."""
    bound = resolve(expr, scope, Findings())
    stack = [bound]
    while stack:
        node = stack.pop()
        match node:
            case p.Index(name=name):
                said = f"{variable} {test} {one_line(expr.span)}"
                _index_in_bound(name, node.span, variable, said, scope, name in indices_used)
            case p.Read(tensor=tensor):
                _check_scalar(node, tensors[tensor])
            case p.Call() | p.Select(padded=True):
                _no_size_expression(
                    node.span, "no other functions", "pass the value as an input: int n"
                )
            case p.Literal(value=float()):
                _no_size_expression(node.span, "only whole numbers", _int_text(node.span), True)
            case p.Convert(dtype=dtype) if not dtype.is_integer:
                _no_size_expression(node.span, "only integers", "write an integer")
            case _:
                pass
        stack.extend(reversed(p.children(node)))
    return bound


def _int_text(span: Span) -> str | None:
    """The text of a floating literal with a whole value as an integer: "2" for 2.0, None for
    2.5."""
    value = float(span.text.rstrip("fFlL"))
    return str(int(value)) if value == int(value) else None


def _check_scalar(read: p.Read, tensor: r.FlatTensor) -> None:
    """Raise unless the read in a where bound is an integer rank 0 input of the entry."""
    text = one_line(read.span)
    if tensor.rank:
        _no_size_expression(
            read.span, "no reads of tensors", "pass the value as an input of rank 0: int n"
        )
    if tensor.role != "input":
        raise CheckError(
            f"'{text}' is computed by the program; the bounds of a range may use sizes, literals "
            "and integer rank 0 inputs of the entry, which are known before it runs",
            rule="G8",
            span=read.span,
            repair=f"pass it as an input: int {text}",
        )
    if tensor.declared is None or not tensor.declared.is_integer:
        raise CheckError(
            f"'{text}' is {tensor.declared}, and the bounds of a range are integers",
            rule="G8",
            span=read.span,
            repair=f"declare it as an integer: int {text}",
            notes=((tensor.span, "it is declared here"),),
        )


def _index_in_bound(
    name: str, span: Span, variable: str, said: str, scope: NameScope, is_used: bool
) -> NoReturn:
    if is_used:
        raise CheckError(
            f"the range of '{variable}' uses the index variable '{name}', and the bounds of a "
            "range are size expressions: ranges are boxes",
            rule="G8",
            span=span,
            idiom=f"o({name}) +=! {said} ? A({name}, {variable}) : 0, which selects in the box",
        )
    signature = scope.frame.signature
    known = [*signature.sizes, *(p for p, rank in signature.ranks.items() if rank == 0)]
    product = number_written(name, known)
    near = None if product else nearest(name, known)
    raise CheckError(
        f"'{name}' in the range of '{variable}' is neither a size nor an integer input of "
        f"'{signature.name}'" + (f"; did you mean '{near}'?" if near else ""),
        rule="G8",
        span=span,
        repair=None if near or product else f"declare it as an input: int {name}",
        paste=product or near,
        edits=(as_inputs(signature.definition, f"int {name}"),),
    )


def _no_size_expression(
    span: Span, allowed: str, repair: str | None, pasted: bool = False
) -> NoReturn:
    raise CheckError(
        f"'{one_line(span)}' in a bound of a range is no size expression: sizes, T.0, integers, "
        f"+ - * / %, min, max and choices may stand there, and {allowed}",
        rule="G8",
        span=span,
        repair=None if pasted and repair else repair or "write a whole number",
        paste=repair if pasted else None,
    )
