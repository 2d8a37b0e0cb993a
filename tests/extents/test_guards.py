"""Guards, joined and solved for polynomials, admit just those sizes at which all answers are the
same, and what they let know is so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tc.affine.intervals import COMPARISONS
from tc.builtins.operators import NEGATED
from tc.extents.guards import Guards
from tc.extents.polynomials import Polynomial, constant, of_dimension, quotient
from tests.extents.test_polynomials import POLYNOMIALS, SIZES

QUESTIONS = st.lists(st.tuples(POLYNOMIALS, st.sampled_from([*COMPARISONS])), max_size=6)


def guards_of(questions: list[tuple[Polynomial, str]], sizes: dict[str, int]) -> Guards:
    """Those of questions that are answered at some sizes."""
    guards = Guards()
    for polynomial, op in questions:
        if guards.compared(polynomial, op) is None:
            holds = COMPARISONS[op](polynomial.value(sizes), 0)
            guards.add(polynomial, op if holds else NEGATED[op], ())
    return guards


@given(QUESTIONS, SIZES, SIZES)
def test_sizes_are_admitted_whose_answers_are_the_same(
    questions: list[tuple[Polynomial, str]], hints: dict[str, int], sizes: dict[str, int]
) -> None:
    guards = guards_of(questions, hints)
    same = all(
        COMPARISONS[op](p.value(hints), 0) == COMPARISONS[op](p.value(sizes), 0)
        for p, op in questions
    )
    assert all(guard.admits(hints) for guard in guards.values())
    assert all(guard.admits(sizes) for guard in guards.values()) == same


@given(QUESTIONS, SIZES, SIZES, POLYNOMIALS, st.sampled_from([*COMPARISONS]))
def test_what_is_known_is_so_at_admitted_sizes(
    questions: list[tuple[Polynomial, str]],
    hints: dict[str, int],
    sizes: dict[str, int],
    polynomial: Polynomial,
    op: str,
) -> None:
    guards = guards_of(questions, hints)
    if not all(guard.admits(sizes) for guard in guards.values()):
        sizes = hints
    for asked, order in [*questions, (polynomial, op)]:
        value = asked.value(sizes)
        low, high = guards.bounds(asked)
        assert low <= value <= high
        known = guards.compared(asked, order)
        assert known is None or known is COMPARISONS[order](value, 0)


N, M = (of_dimension(name, (2, 4096)) for name in "NM")


@pytest.mark.parametrize(
    ("polynomial", "op", "text"),
    [
        (N.times(-3).shifted(7), "<", "N >= 3"),
        (N.times(2).shifted(-9), "<=", "N <= 4"),
        (N.times(2).shifted(-9), ">", "N >= 5"),
        ((M - N).shifted(1), "==", "M - N == -1"),
        ((N - M).shifted(1), "!=", "M - N != 1"),
        ((N - M).shifted(3), ">=", "M - N <= 3"),
        (quotient(N.shifted(3), constant(4)).shifted(-1), "==", "N <= 4"),
        (quotient(N.shifted(3), constant(4)).shifted(-2), "==", "5 <= N <= 8"),
        (quotient(N.shifted(3), constant(4)).shifted(-2), "!=", "((N + 3) / 4) != 2"),
        (quotient(quotient(N, M), constant(4)).shifted(-2), ">", "(N / M) >= 12"),
    ],
)  # fmt: skip
def test_texts(polynomial: Polynomial, op: str, text: str) -> None:
    guards = Guards()
    guards.add(polynomial, op, ())
    assert [str(guard) for guard in guards.values()] == [text]
