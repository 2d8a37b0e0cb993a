"""Subscripts solved for the index variables of a statement, exactly, over the integers (D5, D6).

The instances that read an element are the solutions of linear equations. A quotient and a remainder
are variables of their own, and an equation more. A subscript that is not linear, as that of a
gather `T(I(n))`, is not solved: the gradient of such a read is a scatter (D20).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from tc.affine.forms import Form
from tc.dtypes import INT32, INT64
from tc.gradient import terms as e
from tc.gradient.def_text import ExprBounds
from tc.gradient.terms import SYMBOLS
from tc.semantics import program as p
from tc.semantics.ranges.polynomials import (
    NOUGHT,
    ONE,
    Poly,
    atom,
    constant,
    is_of_sizes,
    linear,
    quotient,
    to_expr,
    to_poly,
)
from tc.semantics.ranges.symbolic_text import to_text

SizedForm: TypeAlias = Form[str, Poly]
"""Coefficients, polynomials of the sizes, by unknown; the constant is what is known."""

LETTERS = "xyzuvabcdefg"
STEPS = "pqrstuvw"


@dataclass(frozen=True, slots=True)
class Inversion:
    """The instances that read an element. `elements` are the indices of the element, one per
    dimension; `fixed` are the values of indices that have one value only. `values` are the values
    of variables that were solved for, and `ranges` the ranges of new variables, solved for or not.
    All `guards` have to hold."""

    elements: tuple[str, ...]
    fixed: Mapping[str, p.Expr]
    values: Mapping[str, p.Expr]
    ranges: Mapping[str, ExprBounds]
    guards: tuple[p.Expr, ...]


def invert(
    subscripts: Sequence[p.Expr],
    ranges: Mapping[str, ExprBounds],
    outer: Container[str],
    fresh: Callable[[str, Container[str]], str],
    static: Container[str] = (),
) -> Inversion | None:
    """The instances that read an element by these subscripts; None where a subscript is not linear.
    `ranges` are the ranges of the statement's variables; variables of the left side, `outer`, are
    the best to solve for. `static` are the scalars that stand for sizes."""
    elements: list[str] = []
    equations: list[tuple[p.Expr, str]] = []
    for subscript in subscripts:
        if isinstance(subscript, p.Index) and subscript.name not in elements:
            elements.append(subscript.name)
        else:
            elements.append(_letter(len(equations), fresh, {*elements, *ranges}))
            equations.append((subscript, elements[-1]))
    unknown = {name: name in outer for name in ranges if name not in elements}
    system = _System(unknown, dict(ranges), fresh, {*elements, *ranges}, static)
    if not all(system.takes(*pair) for pair in equations):
        return None
    system.solve()
    values = {name: system.written(form) for name, form in system.solved.items()}
    fixed, guards = _fixed(system.guards, [element for _, element in equations])
    implied = {whole for whole, _ in system.quotients.values()} & values.keys()
    new = {n: bounds for n, bounds in system.ranges.items() if n not in {*ranges, *implied}}
    return Inversion(tuple(elements), fixed, values, new, tuple(map(as_condition, guards)))


def _letter(place: int, fresh: Callable[[str, Container[str]], str], taken: set[str]) -> str:
    """The name of an element: a free letter, else a letter with a number."""
    wanted = LETTERS[place % len(LETTERS)]
    rest = (each for each in LETTERS if each not in LETTERS[:place])
    return next((x for x in (wanted, *rest) if fresh(x, taken) == x), fresh(wanted, taken))


def _fixed(
    guards: Sequence[p.Expr], elements: Sequence[str]
) -> tuple[dict[str, p.Expr], list[p.Expr]]:
    """The values of elements that a guard holds to one value, and the other guards."""
    fixed: dict[str, p.Expr] = {}
    others = []
    for guard in guards:
        match guard:
            case p.Compare(op="==", left=p.Index(name=name), right=right) if (
                name in elements and name not in fixed and not p.index_names(right)
            ):
                fixed[name] = right
            case _:
                others.append(guard)
    return fixed, others


@dataclass
class _System:
    """Linear equations, each a form that is 0. `unknown` are the variables to solve for, with
    whether they are, or come from, one of the left side. Variables whose value was
    divided are unknown no longer, nor are those from which the value was computed, which stay as
    loops."""

    unknown: dict[str, bool]
    ranges: dict[str, ExprBounds]
    fresh: Callable[[str, Container[str]], str]
    taken: set[str]
    static: Container[str]
    equations: list[SizedForm] = field(default_factory=list)
    solved: dict[str, SizedForm] = field(default_factory=dict)
    guards: list[p.Expr] = field(default_factory=list)
    quotients: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)

    def takes(self, subscript: p.Expr, element: str) -> bool:
        """Adds the equation of a subscript and an element, and returns whether the subscript is
        linear."""
        form = self._linear(subscript)
        if form is None:
            return False
        self.equations.append(form.shifted(_atom(element) * -1))
        return True

    def solve(self) -> None:
        while self.equations:
            forms = [self._simplified(form) for form in self.equations]
            ways = [(place, way) for place, form in enumerate(forms) for way in _ways(form, self)]
            place, way = min(ways, key=lambda found: found[1].rank)
            form = forms.pop(place)
            self.equations = forms
            way.solve(self, form, *way.names)

    # --- what the ways to solve an equation need --------------------------------------------

    def put(self, name: str, value: SizedForm) -> None:
        """Solves for a variable."""
        del self.unknown[name]
        self.solved = {n: _replaced(form, name, value) for n, form in self.solved.items()}
        self.equations = [_replaced(form, name, value) for form in self.equations]
        self.solved[name] = value

    def known(self, form: SizedForm) -> Poly:
        """A form as a polynomial, whose variables stay as loops."""
        for name in form.terms:
            self.unknown.pop(name, None)
        return _known(form)

    def written(self, form: SizedForm) -> p.Expr:
        return to_expr(_known(form), SYMBOLS)

    def name(self, stem: str) -> str:
        name = self.fresh(stem, self.taken)
        self.taken.add(name)
        return name

    def step(self) -> str:
        """The name of a variable that counts steps."""
        letter = next((each for each in STEPS if each not in self.taken), STEPS[0])
        return self.name(letter)

    def is_remainder(self, name: str, factor: Poly, by: Poly) -> bool:
        """Whether a variable with a factor of 1 has no more values than another's factor is."""
        begin, end = (to_poly(bound, SYMBOLS) for bound in self.ranges[name])
        extent = end - begin
        known = extent.is_constant and by.is_constant and factor in (ONE, constant(-1))
        return known and extent.constant <= abs(by.constant) > 1

    def _simplified(self, form: SizedForm) -> SizedForm:
        """A form without variables that are known."""
        known = {name: c for name, c in form.terms.items() if name not in self.unknown}
        rest = {name: c for name, c in form.terms.items() if name in self.unknown}
        return Form(_known(Form(form.constant, known)), rest)

    # --- quotients --------------------------------------------------------------------------

    def _linear(self, subscript: p.Expr) -> SizedForm | None:
        """The form of a subscript; quotients and remainders in it become variables."""
        is_linear = True

        def change(node: p.Expr) -> p.Expr | None:
            nonlocal is_linear
            if isinstance(node, p.Read) and node.tensor not in self.static:
                is_linear = False
                return node
            if isinstance(node, p.Binary) and node.op in "/%" and p.index_names(node):
                pair = self._quotient(node.left, node.right)
                if pair is None:
                    is_linear = False
                    return node
                return e.index(pair["/%".index(node.op)])
            return None

        rebuilt = e.rebuilt(subscript, change)
        return linear(rebuilt, SYMBOLS) if is_linear else None

    def _quotient(self, dividend: p.Expr, divisor: p.Expr) -> tuple[str, str] | None:
        """The variables that are a quotient and its remainder; None where the dividend is not
        linear or the divisor not a positive size."""
        by = NOUGHT if p.index_names(divisor) else to_poly(divisor, SYMBOLS)
        if not by or not _is_positive(by):
            return None
        key = (to_text(dividend), to_text(divisor))
        if key not in self.quotients:
            form = self._linear(dividend)
            extremes = None if form is None else self._extremes(form)
            if form is None or extremes is None:
                return None
            low, high = (quotient(extreme, by, SYMBOLS) for extreme in extremes)
            names = whole, rest = self.step(), self.name("r")
            is_outer = any(self.unknown.get(name, False) for name in form.terms)
            self.unknown |= {whole: is_outer, rest: False}
            begin, end = to_expr(low, SYMBOLS), to_expr(high + ONE, SYMBOLS)
            if not self._is_never_below(form, by):
                end = e.total(e.binary("max", begin, end), e.ZERO)
            self.ranges[whole] = (begin, end)
            self.ranges[rest] = (e.ZERO, to_expr(by, SYMBOLS))
            parts = Form(NOUGHT, {whole: by, rest: ONE})
            self.equations.append(form - parts)
            self.quotients[key] = names
        return self.quotients[key]

    def _is_never_below(self, form: SizedForm, by: Poly) -> bool:
        """Whether the quotients have no range of a size below 0 where variables have none."""
        factors = form.terms.values()
        shown = by.is_constant and all(factor.is_constant for factor in factors)
        return shown and sum(abs(factor.constant) for factor in factors) <= by.constant

    def _extremes(self, form: SizedForm) -> tuple[Poly, Poly] | None:
        """The least and the largest value of a form over the ranges of its variables."""
        low = high = form.constant
        for name, coefficient in form.terms.items():
            begin, end = (to_poly(bound, SYMBOLS) for bound in self.ranges[name])
            first, last = coefficient * begin, coefficient * (end - ONE)
            if _is_positive(coefficient):
                low, high = low + first, high + last
            elif _is_positive(coefficient * -1):
                low, high = low + last, high + first
            else:
                return None
        return low, high


# --- ways to solve an equation for one of its unknowns, the best first ------------------------


class _Way(NamedTuple):
    rank: int
    solve: Callable[..., None]
    names: tuple[str, ...]


def _ways(form: SizedForm, system: _System) -> Iterator[_Way]:
    """How an equation can be solved, and for which unknowns (D5)."""
    names = list(form.terms)
    numbers = {name: factor.constant for name, factor in form.terms.items() if factor.is_constant}
    if not names:
        yield _Way(0, _no_unknown, ())
    for name in names:
        worse = 0 if system.unknown[name] else 4
        rest = next((other for other in names if other != name), name)
        if len(names) == 2 and system.is_remainder(rest, form.terms[rest], form.terms[name]):
            yield _Way(1, _stride, (name, rest))
        if abs(numbers.get(name, 0)) == 1:
            yield _Way(1 if len(names) == 1 else 2 + worse, _unit, (name,))
        elif name not in numbers:
            yield _Way(5 + worse, _symbolic, (name,))
        elif len(numbers) == 1:
            yield _Way(3 + worse, _divided, (name,))
        else:
            others = [other for other in numbers if other != name]
            other = min(others, key=lambda other: math.gcd(numbers[name], numbers[other]))
            yield _Way(4 + worse, _stride, (name, other))


def _no_unknown(system: _System, form: SizedForm) -> None:
    """0 = rest is a condition. An index with coefficient -1 stands alone on its left side."""
    rest = form.constant
    units = [
        q for q, c in rest.terms.items() if len(q) == 1 and isinstance(q[0], p.Index) and c == -1
    ]
    if units:
        right = to_expr(rest.without(units[0]), SYMBOLS)
        system.guards.append(e.compare("==", units[0][0], right))
    elif rest:
        system.guards.append(e.compare("==", to_expr(rest, SYMBOLS), e.ZERO))


def _unit(system: _System, form: SizedForm, name: str) -> None:
    """v + rest = 0, or -v + rest = 0."""
    sign = form.terms[name].constant
    system.put(name, form.without(name).times(-sign))


def _divided(system: _System, form: SizedForm, name: str) -> None:
    """c * v + rest = 0: v is a quotient where c divides the rest."""
    number = form.terms[name].constant
    right = system.known(form.without(name)) * -1
    if number < 0:
        number, right = -number, right * -1
    _divides(system, right, number)
    system.put(name, Form(quotient(right, constant(number), SYMBOLS), {}))


def _stride(system: _System, form: SizedForm, name: str, other: str) -> None:
    """c * v + d * w = b with constant c and d (D6): w in steps of c from a residue, and v."""
    right = system.known(form.without(name).without(other)) * -1
    c, d = form.terms[name].constant, form.terms[other].constant
    if c < 0:
        c, d, right = -c, -d, right * -1
    common = math.gcd(c, d)
    _divides(system, right, common)
    c, d, right = c // common, d // common, quotient(right, constant(common), SYMBOLS)
    if c == 1:
        system.unknown.pop(other)
        system.put(name, Form(right - _atom(other) * d, {}))
        return
    begin, end = (to_poly(bound, SYMBOLS) for bound in system.ranges[other])
    first = quotient(begin, constant(c), SYMBOLS)
    last = quotient(end + constant(c - 1), constant(c), SYMBOLS)
    steps = first
    if last - first != ONE:
        step = system.step()
        system.ranges[step] = (to_expr(first, SYMBOLS), to_expr(last, SYMBOLS))
        steps = _atom(step)
    residue = _remainder(right * pow(d, -1, c), c)
    if d == 1:
        value = quotient(right, constant(c), SYMBOLS) - steps
    elif d == -1:
        value = quotient(right + constant(c - 1), constant(c), SYMBOLS) + steps
    else:
        taken = steps * c + residue
        value = quotient(right.plus(taken, -d), constant(c), SYMBOLS)
    system.put(other, Form(steps * c + residue, {}))
    system.put(name, Form(value, {}))


def _symbolic(system: _System, form: SizedForm, name: str) -> None:
    """s * v + rest = 0, where only a call knows s: v is a quotient where s divides the rest."""
    factor = form.terms[name]
    right = system.known(form.without(name)) * -1
    remainder = e.binary("%", to_expr(right, SYMBOLS), to_expr(factor, SYMBOLS))
    system.guards.append(e.compare("==", remainder, e.ZERO))
    system.put(name, Form(quotient(right, factor, SYMBOLS), {}))


def _divides(system: _System, poly: Poly, number: int) -> None:
    """The guard that a number divides a polynomial, unless it always does."""
    remainder = _remainder(poly, number)
    if remainder:
        system.guards.append(e.compare("==", to_expr(remainder, SYMBOLS), e.ZERO))


def _remainder(poly: Poly, number: int) -> Poly:
    """The remainder of a division by a constant; multiples of it are left out."""
    factors = {product: c % number for product, c in poly.terms.items() if c % number}
    reduced = Poly(poly.constant % number, factors)
    if reduced.is_constant:
        return reduced
    return atom(e.binary("%", to_expr(reduced, SYMBOLS), e.number(number)))


# --- forms ------------------------------------------------------------------------------------


def _atom(name: str) -> Poly:
    return atom(e.index(name))


def _known(form: SizedForm) -> Poly:
    total = form.constant
    for name, coefficient in form.terms.items():
        total += coefficient * _atom(name)
    return total


def _replaced(form: SizedForm, name: str, value: SizedForm) -> SizedForm:
    """A form in which a variable has its value."""
    return form.without(name).plus(value, form.terms[name]) if name in form.terms else form


def _is_positive(poly: Poly) -> bool:
    """Whether a polynomial is shown to be above 0, where no size in it is 0."""
    return bool(poly) and is_of_sizes(poly)


def as_condition(expr: p.Expr) -> p.Expr:
    """A condition made of expressions that stood in subscripts. Outside of subscripts integers keep
    their types (Y9)."""

    def change(node: p.Expr) -> p.Expr | None:
        match node:
            case p.Compare(left=left, right=right) if _is_plain_read(left) or _is_plain_read(right):
                return e.compare(node.op, *(_compared(side, change) for side in (left, right)))
            case p.Convert(operand=p.Read(), dtype=dtype) if dtype == INT64:
                return p.Convert(node.operand, INT64, True, span=e.NO_SPAN)
        return None

    return e.rebuilt(expr, change)


def _is_plain_read(expr: p.Expr) -> bool:
    """Whether an expression is an integer of a tensor as it stands in a subscript."""
    return isinstance(expr, p.Convert) and (
        isinstance(expr.operand, p.Read) and expr.operand.dtype in (INT32, INT64)
    )


def _compared(side: p.Expr, change: Callable[[p.Expr], p.Expr | None]) -> p.Expr:
    """A side of a comparison, in which an integer of a tensor that stands alone keeps its type."""
    if isinstance(side, p.Convert) and _is_plain_read(side):
        return side.operand
    return e.rebuilt(side, change)
