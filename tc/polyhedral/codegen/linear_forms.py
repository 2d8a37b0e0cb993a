"""Linear forms of loop variables: where loops stand, and what they touch.

The same `Linear` as in range inference, its variables being loops of the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping

from tc.dtypes import INT64
from tc.kernel.folding import Interval, binary, integer
from tc.kernel.ir import Expr, Var
from tc.semantics.affine import Linear


def constant_form(value: int) -> Linear:
    return Linear(value, {})


def add(left: Linear, right: Linear, factor: int = 1) -> Linear:
    """left + factor * right, without terms that cancel.

    >>> add(Linear(1, {"i": 2, "j": 1}), Linear(3, {"j": 1}), -1)
    Linear(constant=-2, terms={'i': 2}, plain=True)
    """
    terms = dict(left.terms)
    for name, coefficient in right.terms.items():
        total = terms.pop(name, 0) + factor * coefficient
        if total:
            terms[name] = total
    return Linear(left.constant + factor * right.constant, terms)


def substitute(form: Linear, values: Mapping[str, Linear]) -> Linear:
    """The form with each of its variables replaced.

    >>> substitute(Linear(1, {"h": 2, "x": 1}), {"h": Linear(0, {"h0": 8}), "x": Linear(5, {})})
    Linear(constant=6, terms={'h0': 16}, plain=True)
    """
    result = constant_form(form.constant)
    for name, coefficient in form.terms.items():
        result = add(result, values[name], coefficient)
    return result


def range_of(form: Linear, bounds: Mapping[str, Interval]) -> Interval:
    """The least and the greatest value of a form, its variables within (inclusive) bounds."""
    low = high = form.constant
    for name, factor in form.terms.items():
        first, last = (factor * bound for bound in bounds[name])
        low, high = low + min(first, last), high + max(first, last)
    return low, high


def expression(form: Linear) -> Expr:
    """The form as a kernel expression.

    >>> from tc.kernel.printer import expression_text
    >>> expression_text(expression(Linear(-3, {"i": 2, "j": 1})))
    'i * 2 + j - 3'
    """
    result: Expr | None = None
    for name, coefficient in form.terms.items():
        term = binary("*", Var(name, INT64), integer(abs(coefficient)))
        if result is None:
            result = term if coefficient > 0 else binary("-", integer(0), term)
        else:
            result = binary("+" if coefficient > 0 else "-", result, term)
    if result is None:
        return integer(form.constant)
    return binary("+", result, integer(form.constant)) if form.constant else result


def divide(form: Linear, step: int, bounds: Mapping[str, Interval]) -> tuple[Linear, Linear] | None:
    """Quotient and remainder of a form by `step`, as forms; None where they are not linear.

    >>> divide(Linear(0, {"p": 32, "l": 1}), 32, {"p": (0, 7), "l": (0, 31)})
    (Linear(constant=0, terms={'p': 1}, plain=True), Linear(constant=0, terms={'l': 1}, plain=True))
    """
    quotient = Linear(form.constant // step, {n: c // step for n, c in form.terms.items()
                                              if c % step == 0})  # fmt: skip
    remainder = add(form, quotient, -step)
    low, high = range_of(remainder, bounds)
    return (quotient, remainder) if low >= 0 and high < step else None
