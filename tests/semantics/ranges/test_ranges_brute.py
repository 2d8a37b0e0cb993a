"""Random subscripts: ranges and preconditions against trying all points (G1, G2, G5, G6)."""

from __future__ import annotations

import time
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from tc import sets
from tc.errors import RangeError
from tc.semantics.affine import linear_form
from tc.semantics.ranges.accesses import accesses_of
from tc.semantics.ranges.rounds import _exact_bound, _linear_bound
from tc.semantics.size_values import KnownSizes
from tests.support.brute_ranges import (
    BruteAccess,
    Refused,
    Subscript,
    brute_ranges,
    conditions,
    leaves,
    linear_subscripts,
    subscripts,
)
from tests.support.sizes_of_call import attempt, program_of, ranges

NAMES = ("i", "j", "k")


@st.composite
def accesses(draw: Any, kind: Any) -> list[BruteAccess]:
    found = draw(st.lists(kind(NAMES), min_size=1, max_size=4))
    return [
        BruteAccess(f"T{n}", draw(st.integers(0, 8)), subscript)
        for n, subscript in enumerate(found)
    ]


@st.composite
def wheres(draw: Any) -> dict[str, tuple[int, int]]:
    chosen = draw(st.lists(st.sampled_from(NAMES), max_size=2, unique=True))
    begins = {name: draw(st.integers(-1, 2)) for name in chosen}
    return {name: (begin, begin + draw(st.integers(0, 3))) for name, begin in begins.items()}


def text_of(found: list[BruteAccess], where: dict[str, tuple[int, int]], rhs: str = "") -> str:
    parameters = ", ".join(f"float({a.extent}) {a.tensor}" for a in found)
    rhs = rhs or " + ".join(f"{a.tensor}({a.subscript.text})" for a in found)
    clauses = ", ".join(f"{name} in {begin}:{end}" for name, (begin, end) in where.items())
    return f"def f({parameters}) -> (o) {{ o +=! {rhs} {'where ' * bool(clauses)}{clauses} }}"


def compare(found: list[BruteAccess], where: dict[str, tuple[int, int]]) -> None:
    variables = tuple(dict.fromkeys([*(v for a in found for v in a.subscript.variables), *where]))
    result = attempt(text_of(found, where))
    expected = brute(found, variables, where)
    if isinstance(expected, str):
        assert isinstance(result, RangeError), (text_of(found, where), expected)
        assert result.rule == expected, str(result)
        assert result.repair or result.idiom
    else:
        assert not isinstance(result, RangeError), str(result)
        assert ranges(result) == expected, text_of(found, where)
        assert not result.statements[0].checked, text_of(found, where)


def brute(
    found: list[BruteAccess], variables: tuple[str, ...], where: dict[str, tuple[int, int]]
) -> dict[str, tuple[int, int]] | str:
    """The ranges, or the rule that is broken."""
    try:
        expected, rest = brute_ranges(found, variables, where)
    except Refused as refusal:
        return str(refusal)
    runs = all(begin < end for begin, end in expected.values())
    return "G6" if runs and any(leaves(access, expected) for access in rest) else expected


@given(accesses(linear_subscripts), wheres())
def test_linear_subscripts(found: list[BruteAccess], where: dict[str, tuple[int, int]]) -> None:
    """rules G1, G2, G5, G6 on the arithmetic for boxes"""
    compare(found, where)


@given(accesses(subscripts), wheres())
def test_quasi_affine_subscripts(
    found: list[BruteAccess], where: dict[str, tuple[int, int]]
) -> None:
    """rules G1, G2, G5, G6 on isl"""
    compare(found, where)


@given(
    st.lists(subscripts(NAMES), min_size=1, max_size=3),
    st.lists(conditions(NAMES), min_size=1, max_size=3),
    st.lists(st.integers(1, 8), min_size=3, max_size=3),
    st.data(),
)
def test_guarded_accesses(
    found: list[Subscript], guards: list[Subscript], ends: list[int], data: Any
) -> None:
    """rule G6: preconditions count only where the affine guards let a read happen (Y6)"""
    where = {name: (0, end) for name, end in zip(NAMES, ends, strict=True)}
    read = " + ".join(f"T{n}({s.text})" for n, s in enumerate(found))
    access = [BruteAccess(f"T{n}", data.draw(st.integers(1, 9)), s) for n, s in enumerate(found)]
    shown, held = read, []
    for guard in guards:
        is_then = data.draw(st.booleans())
        shown = f"({guard.text} ? {shown} : 0)" if is_then else f"({guard.text} ? 0 : {shown})"
        held.append((guard.code, is_then))
    text = text_of(access, where, shown)
    wrong = any(
        leaves(a, where, lambda point: all(bool(code(point)) == value for code, value in held))
        for a in access
    )
    result = attempt(text)
    if isinstance(result, RangeError):
        assert wrong, (text, str(result))
        assert result.rule == "G6"
    else:
        assert not wrong, text
        assert not result.statements[0].checked


@given(linear_subscripts(NAMES), st.integers(0, 9), st.data())
def test_arithmetic_agrees_with_isl(subscript: Subscript, extent: int, data: Any) -> None:
    """rule G2: the short way for linear subscripts gives what isl gives"""
    variable = data.draw(st.sampled_from(subscript.variables))
    box = {
        name: (begin, begin + data.draw(st.integers(1, 5)))
        for name in subscript.variables
        if name != variable
        for begin in [data.draw(st.integers(-2, 2))]
    }
    program = program_of(f"def f(float({extent}) T0) -> (o) {{ o +=! T0({subscript.text}) }}")
    (access,) = accesses_of(program.statements[0]).all
    known = KnownSizes({}, {"T0": (extent,)}, {})
    form = linear_form(access.subscript, known)
    assert form is not None
    assume(extent > 0 or form.terms[variable] >= 0)  # G5's case of falling linear subscripts
    quick = _linear_bound(access, form, variable, extent, box)
    assert quick == _exact_bound(access, variable, known, extent, box)


@given(subscripts(NAMES, 5), st.integers(0, 10**9), st.lists(st.integers(1, 10**9), min_size=2))
def test_deep_subscripts_take_bounded_time(
    subscript: Subscript, extent: int, ends: list[int]
) -> None:
    """Whatever the subscript, inference ends soon, with ranges or with an error."""
    where = {name: (0, end) for name, end in zip(subscript.variables[1:], ends, strict=False)}
    text = text_of([BruteAccess("T0", extent, subscript)], where)
    start = time.process_time()
    attempt(text)
    assert time.process_time() - start < 20


def test_a_refusal_of_isl_is_caught() -> None:
    """Beyond its quota isl refuses, and goes on refusing."""
    space = sets.Space(("i", "j"), quota=50)
    try:
        with sets.bounded():
            function = space.variable("i")
            for number in range(20):
                other = sets.scale(space, space.variable("j"), number)
                function = sets.minimum(sets.maximum(function, other), space.constant(number))
    except sets.TooComplex:
        return
    raise AssertionError("isl did not refuse")
