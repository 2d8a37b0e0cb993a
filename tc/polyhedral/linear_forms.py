"""LinearForm forms of loop variables: where loops stand, and what they touch.

The same `LinearForm` as in range inference, its variables being loops of the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping

from tc.dtypes import INT64
from tc.kernel.folding import binary, integer
from tc.kernel.intervals import Interval
from tc.kernel.ir import Expr, Var
from tc.semantics.affine import LinearForm


def constant_form(value: int) -> LinearForm:
    return LinearForm(value, {})


def add(left: LinearForm, right: LinearForm, factor: int = 1) -> LinearForm:
    """left + factor * right, without terms that cancel.

    >>> add(LinearForm(1, {"i": 2, "j": 1}), LinearForm(3, {"j": 1}), -1)
    LinearForm(constant=-2, terms={'i': 2}, plain=True)
    """
    terms = dict(left.terms)
    for name, coefficient in right.terms.items():
        total = terms.pop(name, 0) + factor * coefficient
        if total:
            terms[name] = total
    return LinearForm(left.constant + factor * right.constant, terms)


def substitute(form: LinearForm, values: Mapping[str, LinearForm]) -> LinearForm:
    """The form with each of its variables replaced.

    >>> values = {"h": LinearForm(0, {"h0": 8}), "x": LinearForm(5, {})}
    >>> substitute(LinearForm(1, {"h": 2, "x": 1}), values)
    LinearForm(constant=6, terms={'h0': 16}, plain=True)
    """
    result = constant_form(form.constant)
    for name, coefficient in form.terms.items():
        result = add(result, values[name], coefficient)
    return result


def range_of(form: LinearForm, bounds: Mapping[str, Interval]) -> Interval:
    """The least and the greatest value of a form, its variables within (inclusive) bounds."""
    low = high = form.constant
    for name, factor in form.terms.items():
        first, last = (factor * bound for bound in bounds[name])
        low, high = low + min(first, last), high + max(first, last)
    return low, high


def expression(form: LinearForm) -> Expr:
    """The form as a kernel expression.

    >>> from tc.kernel.printer import expression_text
    >>> expression_text(expression(LinearForm(-3, {"i": 2, "j": 1})))
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


def divide(
    form: LinearForm, step: int, bounds: Mapping[str, Interval]
) -> tuple[LinearForm, LinearForm] | None:
    """Quotient and remainder of a form by `step`, as forms; None where they are not linear.

    >>> divide(LinearForm(0, {"p": 32, "l": 1}), 32, {"p": (0, 7), "l": (0, 31)})
    (LinearForm(constant=0, terms={'p': 1}, plain=True),
     LinearForm(constant=0, terms={'l': 1}, plain=True))
    """
    quotient = LinearForm(form.constant // step, {n: c // step for n, c in form.terms.items()
                                              if c % step == 0})  # fmt: skip
    remainder = add(form, quotient, -step)
    low, high = range_of(remainder, bounds)
    return (quotient, remainder) if low >= 0 and high < step else None
