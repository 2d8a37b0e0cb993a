"""Gradients in two defs: what computes a program and keeps values, and what takes cotangents back
(D17, D18)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tc.errors import ends_at_caller
from tc.gradient.generic_texts import derived
from tc.gradient.gradient_def import EACH_VERSION
from tc.gradient.request import InputNames, TextOrFunction
from tc.gradient.reverse_mode import SAVE, check_option, derivation


@dataclass(frozen=True, slots=True)
class ForwardAndBackward:
    """Two texts of one def each, `forward` and `backward`, and the names in both of what the first
    returns and the second takes."""

    forward: str
    backward: str
    saved: tuple[str, ...]

    def __str__(self) -> str:
        """Both defs as one text."""
        return f"{self.forward}\n{self.backward}"

    __repr__ = __str__


@ends_at_caller
def vjp(
    src: TextOrFunction,
    wrt: InputNames | None = None,
    *,
    entry: str | None = None,
    constant: Iterable[str] | str = (),
    ties: str = "split",
    save: str = "all",
    sizes: object = None,
) -> ForwardAndBackward:
    """Two defs: one computes a def and also returns the values that its gradient needs, the other
    is the gradient (D17, D18). Nothing is computed twice but rounded terms of maxima and minima
    (D11).

    `.forward`, NAME_forward, takes the inputs, and values that a caller gives in an output `C` as
    `C_0`; it returns the outputs, and then the tensors of `.saved` that are no outputs.
    `.backward`, NAME_backward, takes the inputs that it needs, `.saved`, and a cotangent `d_O` for
    each floating output; it returns `d_A` for each input in `wrt`, by default for each floating
    input.

    `save`: "all" values that the gradient needs, those that are overwritten later, too; only
    "outputs", with temporaries computed again; or "none". Other options, and the errors, are those
    of `tc.grad`.

    >>> import tc
    >>> made = tc.vjp("def f(float(N) A) -> (O) { t(i) = sin(A(i))  O(i) = t(i) * t(i) }")
    >>> print(made, end="")
    def f_forward(float(N) A) -> (O, t) {
      t(i) = sin(A(i))
      O(i) = t(i) * t(i)
    }
    <BLANKLINE>
    def f_backward(float(N) A, float(N) t, float(N) d_O) -> (float(N) d_A) {
      d_t(i) = 2 * d_O(i) * t(i)
      d_A(i) = d_t(i) * cos(A(i))
    }
    >>> made.saved
    ('t',)
    """
    check_option("save", save, SAVE)
    kept = EACH_VERSION if save == "all" else save
    saved: tuple[str, ...] = ()

    def derive(of: Any, own: str | None) -> tuple[str, ...]:
        nonlocal saved
        made = derivation(of, wrt, own, constant, ties, kept, sizes)
        saved = made.saved
        return made.forward("forward").layout, made.backward("backward").layout

    forward, backward = derived(src, entry, derive)
    return ForwardAndBackward(forward, backward, saved)
