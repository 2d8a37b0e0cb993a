"""The ranges of a `where`, with the names in their bounds resolved: of sizes (G8), of other index
variables (W2) and of tensors (W3)."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NoReturn

from tc.errors import CheckError
from tc.frontend import ast
from tc.frontend.repairs import intersection
from tc.semantics import program as p
from tc.semantics import resolved as r
from tc.semantics.check.builder import Findings, NameScope
from tc.semantics.check.declarations import DefSignature, as_inputs
from tc.semantics.check.resolve import resolve
from tc.semantics.suggest import number_written, one_line
from tc.source import Edit, Span
from tc.wording import listed, nearest


def kind_of_name(name: str, signature: DefSignature) -> str | None:
    if name in signature.sizes:
        return "a size"
    return "a tensor" if signature.is_tensor(name) else None


def resolve_range(
    clause: ast.RangeClause,
    first: ast.RangeClause,
    scope: NameScope,
    tensors: Mapping[str, r.FlatTensor],
    indices_used: Container[str],
    findings: Findings,
) -> r.FlatRange:
    """A range clause, given the first one of its variable and the index variables of the rest of
    the statement; there is no other range (G8). What its bounds read is added to `findings`."""
    name = clause.variable.text
    kind = kind_of_name(name, scope.frame.signature) or (
        "a binding" if name in scope.bindings else None
    )
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
        _bound(bound, name, scope, tensors, indices_used, findings)
        for bound in (clause.begin, clause.end)
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
    variable: str,
    scope: NameScope,
    tensors: Mapping[str, r.FlatTensor],
    indices_used: Container[str],
    findings: Findings,
) -> p.Expr:
    """A bound of a range: an integer expression of sizes (G8), of other index variables of the
    statement (W2) and of tensors (W3)."""
    _check_comma(expr)
    own = Findings()
    bound = resolve(expr, scope, own)
    for name, span in own.variables.items():
        if name == variable:
            other = "j" if variable == "i" else "i"
            raise CheckError(
                f"the range of '{variable}' uses '{variable}' itself",
                rule="W2",
                span=span,
                idiom=f"where {variable} in 0:{other} + 1, with another index variable {other}; "
                f"where {variable} % 2 == 0, for a condition",
            )
        if name not in indices_used:
            _unknown_in_bound(name, span, variable, scope)
    findings.take(own)
    for node in walk_of(bound):
        if isinstance(node, p.Read):
            check_integer(node.span, tensors[node.tensor], "the bounds of a range")
    check_integers(bound, "a bound of a range", "index variables, tensors of integers, ")
    return bound


def check_integers(expr: p.Expr, where: str, also: str) -> None:
    """Raise for what may stand in no expression of sizes, nor in one of integers."""
    repair: str | None
    for node in walk_of(expr):
        match node:
            case p.Call() | p.Bits() | p.Select(padded=True):
                allowed, repair = "no other functions", "pass the value as an input: int n"
            case p.Literal(value=float()):
                allowed, repair = "only whole numbers", None
            case p.Convert(dtype=dtype) if not dtype.is_integer:
                allowed, repair = "only integers", "write an integer"
            case _:
                continue
        number = _int_text(node.span) if repair is None else None
        raise CheckError(
            f"'{one_line(node.span)}' may not stand in {where}: sizes, T.0, integers, {also}"
            f"+ - * / %, min, max and choices may, and {allowed}",
            rule="G8" if also else "S4",
            span=node.span,
            repair=None if number else repair or "write a whole number",
            paste=number,
        )


def _check_comma(bound: ast.Expr) -> None:
    """Raise for `i in 0:3 && x(i) > 0`, whose range would end at a condition (T5)."""
    first = bound
    while isinstance(first, ast.Binary) and first.op == "&&":
        bound, first = first, first.left
    if not isinstance(bound, ast.Binary) or bound is first:
        return
    text, sign = bound.span.source.text, bound.span.source.text.find("&&", first.span.end)
    behind = text[first.span.end : sign].replace(" ", "")
    opened = text[: first.span.start].replace(" ", "")
    is_plain = set(behind) <= {")"} and not opened.endswith("(" * (len(behind) + 1))
    around = re.compile(r"\s*&&\s*").search(text, sign - 1 if text[sign - 1] == " " else sign)
    assert around is not None
    raise CheckError(
        f"'{one_line(bound.span)}' is a condition, and no bound of a range; the clauses of a "
        "'where' are separated by commas",
        rule="T5",
        span=Span(bound.span.source, sign, sign + 2) if is_plain else bound.span,
        edits=(Edit(Span(bound.span.source, *around.span()), ", "),) if is_plain else (),
        idiom=None if is_plain else "where i in 0:3, x(i) > 0",
    )


def walk_of(expr: p.Expr) -> Iterator[p.Expr]:
    """The nodes of a bound outside of the subscripts of its reads."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, p.Read):
            stack.extend(reversed(p.children(node)))


def _int_text(span: Span) -> str | None:
    """The text of a floating literal with a whole value as an integer: "2" for 2.0, None for
    2.5."""
    value = float(span.text.rstrip("fFlL"))
    return str(int(value)) if value == int(value) else None


def check_integer(span: Span, tensor: r.FlatTensor, what: str) -> None:
    """Raise for a read of a tensor that is declared with floats or conditions."""
    if tensor.declared is None or tensor.declared.is_integer:
        return
    text = one_line(span)
    raise CheckError(
        f"'{text}' is {tensor.declared}, and {what} are integers",
        rule="S4" if what == "sizes" else "G8",
        span=span,
        repair=f"declare it as an integer: int {text}"
        if not tensor.rank
        else f"declare '{tensor.name}' with integers, such as int",
        notes=((tensor.span, "it is declared here"),),
    )


def _unknown_in_bound(name: str, span: Span, variable: str, scope: NameScope) -> NoReturn:
    signature = scope.frame.signature
    known = [*signature.sizes, *(p for p, rank in signature.ranks.items() if rank == 0)]
    product = number_written(name, known)
    near = None if product else nearest(name, known)
    raise CheckError(
        f"'{name}' in the range of '{variable}' is neither a size, nor an integer input of "
        f"'{signature.name}', nor another index variable of the statement"
        + (f"; did you mean '{near}'?" if near else ""),
        rule="G8",
        span=span,
        repair=None if near or product else f"declare it as an input: int {name}",
        paste=product or near,
        edits=(as_inputs(signature.definition, f"int {name}"),),
    )


def check_order(where: Sequence[r.FlatRange]) -> None:
    """Raise for ranges that use each other in a circle (W2)."""
    uses = {
        c.variable: {n.name for b in (c.begin, c.end) for n in p.walk(b) if isinstance(n, p.Index)}
        for c in where
    }
    open_ = dict(uses)
    while open_:
        free = [name for name, needed in open_.items() if not needed & open_.keys()]
        if not free:
            clause = next(c for c in where if c.variable in open_)
            others = sorted(uses[clause.variable] & open_.keys())
            raise CheckError(
                f"the ranges of {listed(sorted(open_))} use each other in a circle",
                rule="W2",
                span=clause.span,
                idiom=f"where {clause.variable} in 0:N, {others[0]} in 0:{clause.variable} + 1, "
                "with one range that uses no other index variable",
            )
        for name in free:
            del open_[name]
