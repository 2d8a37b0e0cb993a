"""The tangent of a right side (D18): what D3 gives each read, times the tangent of that read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from tc.dtypes import DType
from tc.gradient import terms as e
from tc.gradient.adjoints import check_derived, contributions, gathered
from tc.gradient.def_text import reads_of
from tc.semantics import program as p

Weight: TypeAlias = Callable[[p.Expr], p.Expr]
_Term: TypeAlias = tuple[tuple[p.Expr, ...], p.Expr]
"""What is added where all conditions hold."""

_TANGENT = e.read("?", ())


def tangent(
    expr: p.Expr,
    names: Mapping[str, str],
    dtype: DType,
    weight: Weight = lambda each: each,
    value: p.Expr | None = None,
) -> p.Expr:
    """The tangent of an expression, ZERO where it has none; `names` are the tangents of tensors.
    Each term is multiplied by `weight`, and computed in `dtype` or a wider type. `value` is a read
    of the expression's value, if some tensor holds the value.

    >>> from tc.dtypes import FLOAT32
    >>> from tc.frontend.parser import parse
    >>> from tc.gradient.def_text import printed
    >>> from tc.semantics.check.checker import check
    >>> from tc.source import Source
    >>> text = "def f(float(N) A, float(N) B) -> (o) { o(i) = A(i) > 0 ? sin(A(i)) * B(i) : 1 }"
    >>> [statement] = check(parse(Source(text))).statements
    >>> printed(tangent(statement.rhs, {"A": "t_A", "B": "t_B"}, FLOAT32))
    'A(i) > 0 ? t_A(i) * B(i) * cos(A(i)) + t_B(i) * sin(A(i)) : 0'
    """
    hidden: list[p.Expr] = []

    def hide(node: p.Expr) -> p.Expr | None:
        """A read in the place of what is differentiated as a whole."""
        is_padded = isinstance(node, p.Select) and node.padded and node.dtype.is_float
        if is_padded:
            hidden.append(node)
            return p.Read(f"?{len(hidden) - 1}", (), node.dtype, -1, span=node.span)
        return None

    def show(node: p.Expr) -> p.Expr | None:
        if not isinstance(node, p.Read) or not node.tensor.startswith("?"):
            return None
        return hidden[int(node.tensor[1:])]

    terms: list[_Term] = []
    asked = contributions(e.rebuilt(expr, hide), weight(_TANGENT), value=value)
    for found in gathered(each for each in asked if each.adjoint != e.ZERO):
        whole = show(found.read)
        if isinstance(whole, p.Select):
            own = _padded(whole, names, dtype)
        elif found.read.tensor in names:
            check_derived(found)
            own = _as_wide(replace(found.read, tensor=names[found.read.tensor]), dtype)
        else:
            continue
        if own != e.ZERO:
            terms.append((found.conditions, _with_tangent(found.adjoint, own)))
    return e.rebuilt(_combined(terms), show)


def accesses(expr: p.Expr, names: Mapping[str, str]) -> set[tuple[str, int, p.Expr]]:
    """The tensor, dimension and subscript of each access in an expression; a tangent counts as its
    tensor."""
    tensors = {tangent: name for name, tangent in names.items()}
    return {
        (tensors.get(read.tensor, read.tensor), axis, subscript)
        for read in reads_of(expr)
        for axis, subscript in enumerate(read.subscripts)
    }


def _as_wide(read: p.Read, dtype: DType) -> p.Expr:
    if read.dtype.bits >= dtype.bits:
        return read
    return p.Convert(read, dtype, True, span=read.span)


def _with_tangent(adjoint: p.Expr, value: p.Expr) -> p.Expr:
    return e.rebuilt(adjoint, lambda node: value if node == _TANGENT else None)


def _padded(pad: p.Select, names: Mapping[str, str], dtype: DType) -> p.Expr:
    """The tangent of `pad(then, otherwise)`, which takes the branch that the pad takes. A tangent
    with the reads of `then` does; for others a condition that always holds has these reads."""
    then = tangent(pad.then, names, dtype)
    otherwise = tangent(pad.otherwise, names, dtype)
    if then == otherwise == e.ZERO:
        return e.ZERO
    is_whole = accesses(pad.then, {}) <= accesses(then, names)
    is_lazy = any(isinstance(node, p.Select | p.Logical) for node in p.walk(then))
    if not is_whole or (is_lazy and otherwise != e.ZERO):
        seen = e.compare("==", pad.then, e.ZERO)
        always = p.Logical("||", (seen, e.number(1)), span=e.NO_SPAN)
        then = p.Select(always, then, e.ZERO, pad.dtype, span=e.NO_SPAN)
    return replace(pad, then=then, otherwise=otherwise)


def _combined(terms: list[_Term]) -> p.Expr:
    """The sum of tangents, with one `?:` for all terms that have the same condition (D7)."""
    parts: dict[p.Expr | None, tuple[list[_Term], list[_Term]]] = {}
    total: p.Expr | None = None
    for conditions, value in terms:
        if not conditions:
            total = value if total is None else _sum(total, value)
            continue
        first = conditions[0]
        is_negated = isinstance(first, p.Logical) and first.op == "!"
        base = first.operands[0] if isinstance(first, p.Logical) and is_negated else first
        parts.setdefault(base, ([], []))[is_negated].append((conditions[1:], value))
    for condition, (then, otherwise) in parts.items():
        assert condition is not None
        choice = e.select(condition, _combined(then), _combined(otherwise))
        total = choice if total is None else _sum(total, choice)
    return e.ZERO if total is None else total


def _sum(left: p.Expr, right: p.Expr) -> p.Expr:
    found = e.sum_of(left, right)
    return e.binary("+", left, right) if found is None else found
