"""Relations of two accesses, against all pairs of instances."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hypothesis import event, given
from hypothesis import strategies as st

from tc import sets
from tc.affine.forms import Form, LinearForm
from tc.polyhedral.schedule import Value
from tc.polyhedral.scop.relations import SINK, SOURCE, Relation, relate
from tc.polyhedral.scop.scop import Access, ScopStatement
from tests.support.tree_order import points

Pair = tuple[dict[str, int], dict[str, int]]


def statement(ranges: dict[str, tuple[int, int]], access: Access) -> ScopStatement:
    names = tuple(ranges)
    return ScopStatement("S", "update", 0, "=", names, names, ranges, access, (), False)


def simple(
    ranges: dict[str, tuple[int, int]], *subscripts: tuple[int, dict[str, int]]
) -> tuple[ScopStatement, Access]:
    """A statement and its access by linear subscripts."""
    forms = tuple(Form(constant, terms) for constant, terms in subscripts)
    access = Access("T", forms, ((0, 100),) * len(forms))
    return statement(ranges, access), access


def related(first: tuple[ScopStatement, Access], second: tuple[ScopStatement, Access]) -> Relation:
    relation = relate(*first, *second)
    assert relation is not None
    return relation


def test_equal_up_to_a_constant() -> None:
    relation = related(
        simple({"i": (0, 8), "j": (0, 4)}, (1, {"i": 1}), (0, {"j": 1})),
        simple({"a": (0, 8), "b": (0, 4)}, (3, {"a": 1}), (0, {"b": 1})),
    )
    assert relation.shift(Value("i"), Value("a")) == -2
    assert relation.shift(Value("i"), Value("a", 2)) == 0
    assert relation.shift(Value("i", 1), Value("a", 2)) == -1
    assert relation.shift(Value("j"), Value("b")) == 0
    assert relation.shift(Value("i"), Value("b")) is None


def test_constants() -> None:
    relation = related(
        simple({"i": (0, 8)}, (5, {})), simple({"a": (0, 8), "b": (2, 3)}, (0, {"a": 1}))
    )
    assert relation.shift(Value(None, 5), Value("a")) == 0
    assert relation.shift(Value(None), Value("b")) == 2
    assert relation.shift(Value("i"), Value("a")) is None


def test_a_window_needs_isl_only_for_its_own_variables() -> None:
    relation = related(
        simple({"n": (0, 2), "h": (0, 9)}, (0, {"n": 1}), (0, {"h": 1})),
        simple({"n": (0, 2), "h": (0, 7), "k": (0, 3)}, (0, {"n": 1}), (0, {"h": 1, "k": 1})),
    )
    assert relation.shift(Value("n"), Value("n")) == 0
    assert relation.shift(Value("n"), Value("h")) is None
    assert "points" not in vars(relation)
    assert relation.shift(Value("h"), Value("h")) is None
    assert "points" in vars(relation)


def test_digits_are_equal_one_by_one() -> None:
    """8i + j = 8a + b, with j and b below 8, leaves i = a and j = b; with b up to 8 it does not,
    and nor does 8i + j = 8a + b + 1."""
    digits = {"i": (0, 8), "j": (0, 8)}
    others = {"a": (0, 8), "b": (0, 8)}
    first = simple(digits, (0, {"i": 8, "j": 1}))
    relation = related(first, simple(others, (0, {"a": 8, "b": 1})))
    assert relation.shift(Value("i"), Value("a")) == 0
    assert relation.shift(Value("j"), Value("b")) == 0
    assert "points" not in vars(relation)
    for second in (
        simple({"a": (0, 8), "b": (0, 9)}, (0, {"a": 8, "b": 1})),
        simple(others, (1, {"a": 8, "b": 1})),
    ):
        assert related(first, second).shift(Value("i"), Value("a")) is None


def test_isl_finds_what_substitution_does_not() -> None:
    """2i + j = 2a + b and j = b leave i = a only together; i + j = 0 fixes both."""
    relation = related(
        simple({"i": (0, 8), "j": (0, 4)}, (0, {"i": 2, "j": 1}), (0, {"i": 1, "j": 1})),
        simple({"a": (0, 8), "b": (0, 4)}, (0, {"a": 2, "b": 1}), (0, {"a": 1, "b": 1})),
    )
    assert relation.shift(Value("i"), Value("a")) == 0
    assert relation.shift(Value("j"), Value("b")) == 0


def test_bounds_narrow() -> None:
    """5 - 2i is 2 or 3 where i is 1."""
    falling = simple({"i": (0, 8)}, (5, {"i": -2}))
    some = Access("T", (None,), ((2, 4),))
    relation = relate(*falling, statement({"a": (0, 3)}, some), some)
    assert relation is not None
    assert relation.ranges == {(SINK, "a"): (0, 3)}
    assert relation.shift(Value("i"), Value(None, 1)) == 0
    wider = Access("T", (None,), ((0, 4),))
    relation = relate(*falling, statement({}, wider), wider)
    assert relation is not None
    assert relation.ranges == {(SOURCE, "i"): (1, 3)}


def test_empty() -> None:
    first = simple({"i": (0, 4)}, (0, {"i": 1}))
    assert relate(*first, *simple({"a": (0, 4)}, (4, {"a": 1}))) is None
    assert relate(*first, *simple({"a": (0, 4)}, (-1, {}))) is None
    even, odd = simple({"i": (0, 4)}, (0, {"i": 2})), simple({"a": (0, 4)}, (1, {"a": 2}))
    assert relate(*even, *odd) is None
    assert relate(*even, *simple({"a": (0, 4)}, (3, {}))) is None
    three = simple({"i": (0, 4), "j": (0, 4)}, (0, {"i": 4, "j": 2}))
    assert relate(*three, *odd) is None


# --- against all pairs --------------------------------------------------------------------------


@st.composite
def sides(draw: st.DrawFn, rank: int, prefix: str) -> tuple[ScopStatement, Access]:
    """A statement with a random access, of any of six elements where it is not linear."""
    ranges = {}
    for number in range(draw(st.integers(0, 3))):
        begin = draw(st.integers(-2, 3))
        ranges[f"{prefix}{number}"] = (begin, begin + draw(st.integers(1, 4)))
    forms: list[LinearForm | None] = []
    bounds = []
    for _ in range(rank):
        if draw(st.integers(0, 5)) == 0:
            begin = draw(st.integers(0, 5))
            bounds.append((begin, draw(st.integers(begin, 6))))
            forms.append(None)
            continue
        used = draw(st.lists(st.sampled_from(sorted(ranges)), max_size=2)) if ranges else []
        terms = {name: draw(st.sampled_from((1, 1, 1, -1, 2, 3))) for name in used}
        forms.append(Form(draw(st.integers(-1, 5)), terms))
        bounds.append((0, 6))
    access = Access("T", tuple(forms), tuple(bounds))
    return statement(ranges, access), access


@st.composite
def both_sides(
    draw: st.DrawFn,
) -> tuple[tuple[ScopStatement, Access], tuple[ScopStatement, Access]]:
    rank = draw(st.integers(0, 3))
    return draw(sides(rank, "i")), draw(sides(rank, "a"))


def values(access: Access, point: dict[str, int], axis: int) -> range:
    form = access.subscripts[axis]
    if form is None:
        return range(*access.bounds[axis])
    value = form.constant + sum(f * point[v] for v, f in form.terms.items())
    return range(value, value + 1)


def all_pairs(
    first: tuple[ScopStatement, Access], second: tuple[ScopStatement, Access]
) -> Iterator[Pair]:
    (source, a), (sink, b) = first, second
    for s, t in itertools.product(points(source), points(sink)):
        if all(
            set(values(a, s, axis)) & set(values(b, t, axis)) for axis in range(len(a.subscripts))
        ):
            yield s, t


def pairs_of(relation: Relation) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    dims = len(relation.solved)
    relation.points.foreach_point(
        lambda point: found.append(
            tuple(
                point.get_coordinate_val(relation_dim(), i).to_python()  # type: ignore[attr-defined]
                for i in range(dims)
            )
        )
    )
    return found


def relation_dim() -> object:
    import islpy as isl

    return isl.dim_type.set


@given(both_sides(), st.integers(-2, 2))
def test_against_all_pairs(
    both: tuple[tuple[ScopStatement, Access], tuple[ScopStatement, Access]], offset: int
) -> None:
    (source, _), (sink, _) = both
    expected = list(all_pairs(*both))
    relation = relate(*both[0], *both[1])
    if relation is None:
        assert expected == []
        event("empty")
        return
    event("with constraints" if relation.rest else "solved")
    wanted = sorted((*s.values(), *t.values()) for s, t in expected)
    assert sorted(pairs_of(relation)) == wanted
    for i, a in itertools.product((*source.variables, None), (*sink.variables, None)):
        differences = {(t[a] if a else 0) + offset - (s[i] if i else 0) for s, t in expected}
        shift = relation.shift(Value(i), Value(a, offset))
        if shift is not None and expected:
            assert differences == {shift}
        elif not relation.rest and expected:
            assert len(differences) > 1
    with sets.bounded():
        example = relation.example(relation.points)
    assert example == (expected[0] if expected else None)


@given(both_sides())
def test_conditions_say_the_same(
    both: tuple[tuple[ScopStatement, Access], tuple[ScopStatement, Access]],
) -> None:
    """`conditions`, with the boxes, hold for the pairs and for no others."""
    relation = relate(*both[0], *both[1])
    if relation is None:
        return
    keys = list(relation.solved)
    expected = [(*s.values(), *t.values()) for s, t in all_pairs(*both)]
    boxes = (range(*relation.boxes[key]) for key in keys)
    found = []
    for values_ in itertools.product(*boxes):
        named = {
            name if side == SOURCE else f"{name}'": value
            for (side, name), value in zip(keys, values_, strict=True)
        }
        if all(
            low <= form.constant + sum(f * named[v] for v, f in form.terms.items()) <= high
            for form, (low, high) in relation.conditions()
        ):
            found.append(values_)
    assert found == expected
    assert all(side in (SOURCE, SINK) for side, _ in keys)
