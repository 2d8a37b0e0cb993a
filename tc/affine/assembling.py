"""Affine forms as trees or as text: one order of terms and one way of signs for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tc.affine.forms import Form, K

E = TypeVar("E")


def assembled(
    form: Form[K, int],
    term: Callable[[K, int], E],
    number: Callable[[int], E],
    binary: Callable[[str, E, E], E],
) -> E:
    """The sum of the terms of a form in their order, its constant last where it is not 0.

    `term` makes a name times a coefficient, which is below 0 for the first one alone, `number` a
    constant, and `binary` the sum (`+`) or difference (`-`) of two of them.

    >>> assembled(Form(-3, {"i": 2, "j": -1}), "{1}*{0}".format, str, lambda op, a, b: a + op + b)
    '2*i-1*j-3'
    """
    total: E | None = None
    for name, coefficient in form.terms.items():
        if total is None:
            total = term(name, coefficient)
        else:
            total = binary("+" if coefficient > 0 else "-", total, term(name, abs(coefficient)))
    if total is None:
        return number(form.constant)
    if not form.constant:
        return total
    return binary("+" if form.constant > 0 else "-", total, number(abs(form.constant)))


def text_of(form: Form[str, int]) -> str:
    """A form as isl and people read it.

    >>> text_of(Form(3, {"i": 2, "j": -1})), text_of(Form(0, {"k": -1})), text_of(Form(0, {}))
    ('2*i - j + 3', '-k', '0')
    """

    def term(name: str, coefficient: int) -> str:
        return {1: name, -1: f"-{name}"}.get(coefficient, f"{coefficient}*{name}")

    return assembled(form, term, str, lambda op, left, right: f"{left} {op} {right}")
