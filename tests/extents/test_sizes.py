"""Tracked sizes: what is asked of them, what pins them, and what asks nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tc.affine.intervals import compared, either, greatest, least, operation, surely
from tc.errors import InternalError
from tc.extents.guards import Guard
from tc.extents.sizes import Questions, Range, as_extent, as_integer, at_hint, is_tracked


def sizes(**hints: int) -> tuple[Any, ...]:
    questions = Questions({name: Range(2, 4096) for name in hints})
    return (questions, *(questions.size(name, hint) for name, hint in hints.items()))


def texts(questions: Questions) -> list[str]:
    return [str(guard) for guard in questions.guards.values()]


def test_comparisons_ask_what_the_range_does_not_settle() -> None:
    questions, n = sizes(N=509)
    assert n >= 2
    assert n < 4097
    assert n != 1
    assert n != 0
    assert n + 1 > n
    assert texts(questions) == []
    assert n > 500
    assert not n > 600
    assert n * 2 != 512
    assert n * 2 != 511
    assert n != 512
    assert texts(questions) == ["501 <= N <= 600, N != 512"]
    tried = (400, 500, 501, 512, 600, 601)
    assert [size for size in tried if questions.admits({"N": size})] == [501, 600]


def test_questions_with_one_answer_are_one_guard() -> None:
    questions, n, m = sizes(N=509, M=64)
    assert [n > 500, n >= 501, -2 * n < -1000, (n + 3) // 8 > 62, n != 500] == [True] * 5
    assert texts(questions) == ["N >= 501"]
    assert m - n < 0
    assert n - m > 0
    assert m != n
    assert texts(questions) == ["N >= 501", "M - N <= -1"]


def test_what_guards_say_is_known() -> None:
    _, n, m = sizes(N=509, M=64)
    assert m - n < 0
    assert surely(n, ">", m)
    assert (n - m).bounds() == (1, 4094)
    assert n != 600
    assert not surely(n, "==", 600)
    assert surely(n, "!=", 600)


@pytest.mark.parametrize("pin", [int, range, [0, 1].__mul__, [*range(600)].__getitem__])
def test_integers_are_asked_for(pin: Any) -> None:
    questions, n = sizes(N=509)
    pin(n)
    assert texts(questions) == ["N == 509"]
    assert all(guard.is_pin for guard in questions.guards.values())


def test_floats_are_estimates() -> None:
    questions, n = sizes(N=509)
    assert (n / 2, 2 * 509.0 / n, n * 0.5, float(n), n > 0.5) == (254.5, 2.0, 254.5, 509.0, True)
    assert texts(questions) == []


def test_what_is_one_number_at_all_sizes_is_that_number() -> None:
    _, n = sizes(N=509)
    assert (n - n, n // n, (4 * n + 3) % 4, 0 * n) == (0, 1, 3, 0)
    assert all(type(x) is int for x in (n - n, n // n, (4 * n + 3) % 4, 0 * n))


def test_division_asks_whether_a_divisor_is_zero() -> None:
    questions, n = sizes(N=509)
    assert at_hint(100 // (n - 300)) == 0
    assert texts(questions) == ["N != 300"]
    with pytest.raises(ZeroDivisionError):
        1 // (n - 509)


def test_surely_asks_nothing() -> None:
    questions, n, m = sizes(N=509, M=64)
    assert surely(n, ">", 1)
    assert surely(2, "<=", n)
    assert not surely(n, ">", 2)
    assert not surely(n, "==", m)
    assert not surely(n, "!=", m)
    assert surely(n + m, ">", m)
    assert surely(n // 16 * 16, "<=", n)
    assert surely((n + 15) // 16 * 16, ">=", n)
    assert compared("<", (0, n - 1), (n, n)) is True
    assert compared("<", (0, n - 1), (64, 64)) is None
    assert (least(n, n + 1), greatest(n, m), least(n, 64)) == (n, 4096, 2)
    assert (either("<", n, 64), either(">", n + 1, n)) == (64, n + 1)
    assert operation("min", (0, n), (0, 64)) == (0, 64)
    assert texts(questions) == []


def test_all_is_asked_where_more_is_wanted() -> None:
    questions = Questions({"N": Range(2, 4096)}, asks_all=True)
    n = questions.size("N", 509)
    assert surely(n, ">", 64)
    assert texts(questions) == ["N >= 65"]


def test_closed_questions_note_nothing() -> None:
    questions, n = sizes(N=509)
    questions.closed = True
    assert n > 64
    assert not questions.guards


def test_sizes_of_two_calls_never_mix() -> None:
    (_, n), (_, m) = sizes(N=509), sizes(N=509)
    assert n != m
    assert len({n, m}) == 2
    with pytest.raises(InternalError, match="two calls"):
        n + m


def test_multiples_divide() -> None:
    questions = Questions({"N": Range(16, 4096, 16)})
    n = questions.size("N", 496)
    assert (n % 8, str(n // 8), n // 16 * 16 == n) == (0, "2*(N / 16)", True)
    assert not questions.guards
    assert [size for size in (8, 16, 24, 4112) if questions.admits({"N": size})] == [16]


def test_conversions() -> None:
    _, n = sizes(N=509)
    assert as_integer(n) is n
    assert as_extent(n) is n
    assert is_tracked(n)
    assert (as_integer(3.0), as_extent(3), is_tracked(3), at_hint(3)) == (3, 3, False, 3)
    with pytest.raises(TypeError):
        as_extent(2.5)


def test_guards_say_where_they_are_from() -> None:
    questions, n = sizes(N=509)
    surely_larger = compared("<", (n, n), (600, 600))
    assert surely_larger is None
    assert not questions.guards
    assert n > 64
    (guard,) = questions.guards.values()
    assert isinstance(guard, Guard)
    assert guard.places == ()
