"""Subscripts solved for the index variables of a statement, exactly, over the integers (D5).

What has no variable with coefficient 1 or -1, and what is not linear, stays as a condition on the
element (D13): always right, and the place where strides will be solved (D6).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from tc.dtypes import INT32, INT64
from tc.gradient import terms as e
from tc.semantics import program as p

_Form: TypeAlias = dict[p.Expr | None, int]
"""Coefficients by atom: an index variable or what no index variable is in; None is the constant."""


@dataclass(frozen=True, slots=True)
class Inversion:
    """`elements` name the element per dimension; `values` are those of the variables that were
    solved for; where all `selections` hold, the read is of that element."""

    elements: tuple[str, ...]
    values: dict[str, p.Expr]
    selections: tuple[p.Expr, ...]


def invert(
    subscripts: tuple[p.Expr, ...],
    solvable: Iterable[str],
    fresh: Callable[[str, Container[str]], str],
) -> Inversion:
    """The instances that read an element; `solvable` are the variables, the best to solve first."""
    order = list(solvable)
    elements: list[str] = []
    equations: list[tuple[p.Expr, str]] = []
    for subscript in subscripts:
        if isinstance(subscript, p.Index) and subscript.name not in elements:
            elements.append(subscript.name)
        else:
            elements.append(fresh("xyzuvabcdefg"[len(equations) % 12], elements))
            equations.append((subscript, elements[-1]))
    free = [name for name in order if name not in elements]
    solved: dict[str, _Form] = {}
    left: list[tuple[p.Expr, str]] = []
    progress = True
    while equations and progress:
        progress = False
        for subscript, element in equations:
            form = _form(subscript)
            if form is None:
                left.append((subscript, element))
                continue
            form = _replaced(_added(form, {e.index(element): 1}, -1), solved)
            unit = [n for n in free if abs(form.get(e.index(n), 0)) == 1]
            if not unit:
                left.append((subscript, element))
                continue
            chosen = e.index(unit[0])
            coefficient = form.pop(chosen)
            value = {atom: -coefficient * c for atom, c in form.items()}
            solved = {n: _replaced(f, {unit[0]: value}) for n, f in solved.items()}
            solved[unit[0]] = value
            free.remove(unit[0])
            progress = True
        equations, left = left, []
    values = {name: _expression(form) for name, form in solved.items()}
    selections = tuple(
        e.compare("==", _as_condition(e.substituted(subscript, values)), e.index(element))
        for subscript, element in equations
    )
    return Inversion(tuple(elements), values, selections)


def _as_condition(subscript: p.Expr) -> p.Expr:
    """A subscript outside of subscripts, where integers keep their types (Y9)."""
    match subscript:
        case p.Convert(operand=p.Read(dtype=dtype) as operand) if dtype in (INT32, INT64):
            return operand

    def change(node: p.Expr) -> p.Expr | None:
        match node:
            case p.Convert(operand=p.Read(), dtype=dtype) if dtype == INT64:
                return p.Convert(node.operand, INT64, True, span=e.NOWHERE)
        return None

    return e.rebuilt(subscript, change)


def _form(expr: p.Expr) -> _Form | None:
    if not p.index_names(expr):
        match expr:
            case p.Literal(value=int(value)):
                return {None: value} if value else {}
            case p.Binary(op=("+" | "-")):
                pass
            case _:
                return {expr: 1}
    match expr:
        case p.Index():
            return {e.index(expr.name): 1}
        case p.Unary(operand=operand):
            form = _form(operand)
            return None if form is None else _added({}, form, -1)
        case p.Binary(op=("+" | "-") as op, left=left, right=right):
            a, b = _form(left), _form(right)
            return None if a is None or b is None else _added(a, b, 1 if op == "+" else -1)
        case p.Binary(op="*", left=left, right=right):
            for factor, operand in ((left, right), (right, left)):
                form = _form(operand)
                if isinstance(factor, p.Literal) and form is not None:
                    return _added({}, form, int(factor.value))
    return None


def _added(left: _Form, right: _Form, times: int) -> _Form:
    total = dict(left)
    for atom, coefficient in right.items():
        total[atom] = total.get(atom, 0) + times * coefficient
        if total[atom] == 0:
            del total[atom]
    return total


def _replaced(form: _Form, values: dict[str, _Form]) -> _Form:
    total: _Form = {}
    for atom, coefficient in form.items():
        value = values.get(atom.name) if isinstance(atom, p.Index) else None
        total = _added(total, {atom: 1} if value is None else value, coefficient)
    return total


def _expression(form: _Form) -> p.Expr:
    terms = sorted(form.items(), key=lambda term: (term[0] is None, term[1] < 0))
    total: p.Expr | None = None
    for atom, coefficient in terms:
        size = abs(coefficient)
        term = e.number(size) if atom is None else atom
        if atom is not None and size != 1:
            term = e.binary("*", e.number(size), atom)
        if total is None:
            total = term if coefficient > 0 else e.binary("-", e.ZERO, term)
        else:
            total = e.binary("+" if coefficient > 0 else "-", total, term)
    return e.ZERO if total is None else total
