"""The adjoints of the reads in a right side (D3), by the derivatives of operations (D10), and the
tangent of a right side (D18): the sum of these adjoints, each times the tangent of its read.

A read whose subscripts have `min`, `max` or `?:` gives one contribution for each branch, with the
condition of the branch (D14)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from tc.builtins.derivatives import DERIVATIVES
from tc.dtypes import DType
from tc.errors import GradError
from tc.frontend.parser import parse
from tc.gradient import terms as e
from tc.gradient.def_text import accesses
from tc.semantics import program as p
from tc.semantics.check.checker import check
from tc.source import Source

ARGUMENTS = "xyzw"


@dataclass(frozen=True, slots=True)
class Contribution:
    """The adjoint of one read, where all `conditions` hold. `underived` is a function without a
    derivative that the adjoint would need."""

    read: p.Read
    adjoint: p.Expr
    conditions: tuple[p.Expr, ...]
    underived: p.Call | p.Bits | None = None


def check_derived(found: Contribution) -> None:
    """Raises GradError for a contribution that needs the derivative of a function without one
    (D10)."""
    if found.underived is not None:
        if isinstance(found.underived, p.Bits):
            raise GradError(
                f"the bits of '{found.read.tensor}' have no derivative: they jump where it moves",
                rule="D10",
                span=found.underived.span,
                repair=f"leave '{found.read.tensor}' out of wrt, or pass the bits as an input",
            )
        function = found.underived.function
        cause = f"{function} has no derivative among the built-in functions"
        raise GradError(cause, rule="D10", span=found.underived.span)


def merged(found: Iterable[Contribution]) -> list[Contribution]:
    """The contributions, in which contributions to one element under one condition are added."""
    kept: list[Contribution] = []
    for new in found:
        for place, old in enumerate(kept):
            if (old.read, old.conditions) == (new.read, new.conditions):
                both = e.sum_of(old.adjoint, new.adjoint)
                if both is not None:
                    underived = old.underived or new.underived
                    kept[place] = replace(old, adjoint=both, underived=underived)
                    break
        else:
            kept.append(new)
    return kept


def contributions(
    expr: p.Expr,
    adjoint: p.Expr,
    conditions: tuple[p.Expr, ...] = (),
    value: p.Expr | None = None,
    held: p.Expr | None = None,
) -> Iterator[Contribution]:
    """The contributions to the floating reads of an expression from its adjoint, in text order.
    `value` is a read of the expression's value, if some tensor holds the value, so that it is not
    computed again; `held` is the same where that tensor need not be computed again either."""
    if not expr.dtype.is_float or not carries(expr):
        return
    match expr:
        case p.Read():
            yield Contribution(expr, adjoint, conditions)
        case p.Convert(operand=operand) | p.Bits(operand=operand) if not operand.dtype.is_float:
            yield from through_bits(operand, adjoint, conditions)
        case p.Convert(operand=operand):
            yield from contributions(operand, adjoint, conditions)
        case p.Unary(operand=operand):
            yield from contributions(operand, e.negative(adjoint), conditions)
        case p.Select(condition=condition, then=then, otherwise=otherwise):
            yield from contributions(then, adjoint, (*conditions, condition))
            yield from contributions(otherwise, adjoint, (*conditions, e.negation(condition)))
        case p.Binary(op=op, left=left, right=right):
            for operand, part in _binary(op, left, right, adjoint, expr, value or expr, held):
                yield from contributions(operand, part, conditions)
        case p.Call(function=function, args=args):
            table = DERIVATIVES.get(function)
            if table is None:
                for each in (c for arg in args for c in contributions(arg, adjoint, conditions)):
                    yield replace(each, underived=expr)
                return
            values = dict(zip(ARGUMENTS, map(_as_real, args), strict=False)) | {"f": value or expr}
            for operand, derivative in zip(args, table, strict=True):
                if carries(operand):
                    factor = _with_arguments(derivative, values)
                    against = e.product(adjoint, factor)
                    if function in ("fmin", "fmax") and not all(map(carries, args)):
                        against = _strict(expr, operand, adjoint, held)
                    yield from contributions(operand, against, conditions)


def through_bits(
    expr: p.Expr, adjoint: p.Expr, conditions: tuple[p.Expr, ...]
) -> Iterator[Contribution]:
    """The contributions to the floating reads whose bits an integer is made of: none is derived.
    Integers that are rounded floats are constant almost everywhere."""
    match expr:
        case p.Bits(operand=operand):
            for each in contributions(operand, adjoint, conditions):
                yield replace(each, underived=expr)
        case p.Select(then=then, otherwise=otherwise):
            yield from through_bits(then, adjoint, conditions)
            yield from through_bits(otherwise, adjoint, conditions)
        case p.Unary() | p.Binary() | p.Call() | p.Convert():
            for operand in p.children(expr):
                if not operand.dtype.is_float:
                    yield from through_bits(operand, adjoint, conditions)


def carries(expr: p.Expr) -> bool:
    """Whether an expression's value depends continuously on a floating element that is read."""
    match expr:
        case p.Read():
            return expr.dtype.is_float
        case p.Convert(operand=operand):
            return expr.dtype.is_float and carries(operand)
        case p.Select(then=then, otherwise=otherwise):
            return carries(then) or carries(otherwise)
        case p.Compare() | p.Logical():
            return False
        case _:
            return any(map(carries, p.children(expr)))


def _binary(
    op: str,
    left: p.Expr,
    right: p.Expr,
    adjoint: p.Expr,
    value: p.Expr,
    stored: p.Expr,
    held: p.Expr | None,
) -> Iterator[tuple[p.Expr, p.Expr]]:
    match op:
        case "+":
            yield from ((left, adjoint), (right, adjoint))
        case "-":
            yield from ((left, adjoint), (right, e.negative(adjoint)))
        case "*":
            yield from ((left, e.product(adjoint, right)), (right, e.product(adjoint, left)))
        case "/":
            yield left, e.fraction(adjoint, right)
            yield right, e.negative(e.fraction(e.product(adjoint, stored), right))
        case "%":
            floor = p.Call("floor", (e.binary("/", left, right),), value.dtype, span=e.NO_SPAN)
            yield from ((left, adjoint), (right, e.negative(e.product(adjoint, floor))))
        case "min" | "max" if carries(left) and carries(right):
            sign = "<" if op == "min" else ">"
            half = p.Literal(0.5, value.dtype, span=e.NO_SPAN)
            for this, other in ((left, right), (right, left)):
                tie = e.select(e.compare("==", this, other), e.product(adjoint, half))
                yield this, e.select(e.compare(sign, this, other), adjoint, tie)
        case "min" | "max":
            yield left, _strict(value, left, adjoint, held)
            yield right, _strict(value, right, adjoint, held)


def _strict(value: p.Expr, operand: p.Expr, adjoint: p.Expr, held: p.Expr | None = None) -> p.Expr:
    """The condition that the larger of two is the larger one by itself: at a tie with an operand
    that carries no gradient the derivative is 0, and fmin and fmax ignore a NaN. Where the result
    is `held`, the result is compared, not the operands."""
    left, right = p.children(value)
    other = right if operand is left else left
    name = value.function if isinstance(value, p.Call) else getattr(value, "op", "")
    if held is not None:
        operand = held
    wins: p.Expr = e.compare("<" if name.endswith("min") else ">", operand, other)
    unrounded = other.operand if isinstance(other, p.Convert) else other
    may_be_missing = unrounded.dtype.is_float and not isinstance(unrounded, p.Literal)
    if name.startswith("f") and may_be_missing:
        missing = e.compare("!=", other, other)
        wins = p.Logical("||", (wins, missing), span=e.NO_SPAN)
    return e.select(wins, adjoint)


@functools.cache
def parsed_derivative(derivative: str) -> p.Expr:
    names = ", ".join(f"double {name}" for name in (*ARGUMENTS, "f"))
    program = check(parse(Source(f"def d({names}) -> (o) {{ o = {derivative} }}")))
    return program.statements[0].rhs


def _as_real(argument: p.Expr) -> p.Expr:
    """An argument in the type in which a function computes: integers of a tensor are converted
    before derivatives multiply them with each other, and leave their type."""
    match argument:
        case p.Convert(operand=operand, written=False) if any(
            isinstance(node, p.Read) for node in p.walk(operand)
        ):
            return argument if operand.dtype.is_float else replace(argument, written=True)
    return argument


def _with_arguments(derivative: str, values: Mapping[str, p.Expr]) -> p.Expr:
    def change(node: p.Expr) -> p.Expr | None:
        return values[node.tensor] if isinstance(node, p.Read) else None

    return _folded(e.rebuilt(parsed_derivative(derivative), change))


def _folded(expr: p.Expr) -> p.Expr:
    """A derivative in which conditions on numbers are decided and sums of numbers computed."""

    def change(node: p.Expr) -> p.Expr | None:
        match node:
            case p.Select(condition=p.Compare(op="==", left=left, right=right)) if isinstance(
                left, p.Literal
            ) and isinstance(right, p.Literal):
                return _folded(node.then if left.value == right.value else node.otherwise)
            case p.Binary(op="-", left=p.Literal(value=whole), right=p.Literal(value=less)):
                value = whole - less
                if value == int(value):
                    return e.number(int(value))
                return p.Literal(value, node.dtype, span=e.NO_SPAN)
            case p.Call(function="pow", args=(base, exponent)):
                exponent = _folded(exponent)
                if e.is_number(exponent, 1):
                    return _folded(base)
                return replace(node, args=(_folded(base), exponent))
        return None

    return e.rebuilt(expr, change)


MAX_BRANCHES = 16
"""The most branches of one read. The subscripts of a read with more branches stay conditions on the
element."""


def branches(found: Contribution) -> list[Contribution]:
    """The contributions to a read, one for each branch of its subscripts. The outermost `min`,
    `max` or `?:` is decided first, and each further one under the conditions that hold so far."""
    made: list[Contribution] = []
    for each in _branches(found):
        made.append(each)
        if len(made) > MAX_BRANCHES:
            return [found]
    return made


def _branches(found: Contribution) -> Iterator[Contribution]:
    choice = _choice(found.read)
    if choice is None:
        yield found
        return
    match choice:
        case p.Select(condition=condition, then=then, otherwise=otherwise):
            parts = [(condition, then), (e.negation(condition), otherwise)]
        case p.Binary(op=op, left=left, right=right):
            sign = "<=" if op == "min" else ">="
            is_left = e.compare(sign, left, right)
            is_right = e.compare("<" if op == "min" else ">", right, left)
            parts = [(is_left, left), (is_right, right)]
        case _:
            raise AssertionError(choice)
    for condition, value in parts:
        read = _with_branch(found.read, choice, value)
        conditions = (*found.conditions, condition)
        yield from _branches(replace(found, read=read, conditions=conditions))


def _with_branch(read: p.Read, choice: p.Expr, value: p.Expr) -> p.Read:
    rebuilt = e.rebuilt(read, lambda node: value if node is choice else None)
    assert isinstance(rebuilt, p.Read)
    return rebuilt


def _choice(read: p.Read) -> p.Expr | None:
    """The first `min`, `max` or `?:` in the subscripts of a read, outermost first, that depends on
    an index variable."""
    for subscript in read.subscripts:
        for node in p.walk(subscript):
            is_choice = isinstance(node, p.Select) or (
                isinstance(node, p.Binary) and node.op in ("min", "max")
            )
            if is_choice and p.index_names(node):
                return node
    return None


# --- tangents (D18) ---------------------------------------------------------------------------

Weight: TypeAlias = Callable[[p.Expr], p.Expr]
_Term: TypeAlias = tuple[tuple[p.Expr, ...], p.Expr]
"""Conditions, and the value that is added where all of them hold."""

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
    for found in merged(each for each in asked if each.adjoint != e.ZERO):
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


def _as_wide(read: p.Read, dtype: DType) -> p.Expr:
    if read.dtype.holds(dtype):
        return read
    return p.Convert(read, dtype, True, span=read.span)


def _with_tangent(adjoint: p.Expr, value: p.Expr) -> p.Expr:
    return e.rebuilt(adjoint, lambda node: value if node == _TANGENT else None)


def _padded(pad: p.Select, names: Mapping[str, str], dtype: DType) -> p.Expr:
    """The tangent of `pad(then, otherwise)`, which takes the branch that the pad takes. A tangent
    with all reads of `then` takes that branch by itself; another tangent gets a condition that
    always holds and has these reads."""
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
