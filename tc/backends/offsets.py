"""Where an element lies: the text of its offset, alike in C and in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tc.kernel.ir import Const, Expr


def offset_text(
    indices: Sequence[Expr],
    strides: Sequence[int],
    *,
    as_term: Callable[[Expr], str],
    as_factor: Callable[[Expr], str],
    as_negated: Callable[[Expr], str],
) -> str:
    """The sum of index * stride, the offset from element (0, ..., 0). Indices are in bounds, so
    the sum stays in int64.

    The three functions print an index as a term of a sum, as a factor of a product and behind a
    minus sign, with the brackets that the language needs there.

    >>> from tc.dtypes import INT64
    >>> from tc.kernel.ir import Var
    >>> i, one = Var("i", INT64), Const(1, INT64)
    >>> spell = lambda index: index.name
    >>> offset_text((i, i, one), (32, 1, 4), as_term=spell, as_factor=spell, as_negated=spell)
    'i * 32 + i + 4'
    """
    text, rest = "", 0
    for index, stride in zip(indices, strides, strict=True):
        if isinstance(index, Const):
            rest += int(index.value) * stride
        elif stride != 0:
            sign = "-" if stride < 0 else "+"
            term = as_term(index) if stride == 1 else as_factor(index)
            term = term if abs(stride) == 1 else f"{term} * {abs(stride) if text else stride}"
            first = term if stride != -1 else f"-{as_negated(index)}"
            text = f"{text} {sign} {term}" if text else first
    if rest or not text:
        text = f"{text} {'-' if rest < 0 else '+'} {abs(rest)}" if text else str(rest)
    return text
