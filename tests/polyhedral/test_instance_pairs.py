"""Pairs of instances that meet conditions, against all pairs tried one after the other."""

from __future__ import annotations

import operator

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tc import sets
from tc.affine.forms import Form, LinearForm, constant_form, variable_form
from tc.polyhedral import instance_pairs
from tc.polyhedral.instance_pairs import Condition, Digit, InstancePair, compared, find
from tc.polyhedral.schedule import Value
from tc.polyhedral.scop import relations
from tc.polyhedral.scop.relations import SINK, SOURCE, relate
from tc.polyhedral.scop.scop import Access, ScopStatement
from tests.support.tree_order import points

COMPARE = {"==": operator.eq, "!=": operator.ne, ">": operator.gt}


def statement(name: str, access: Access, **ranges: tuple[int, int]) -> ScopStatement:
    return ScopStatement(name, "update", 0, "=", tuple(ranges), tuple(ranges), ranges, access)


def access(*forms: LinearForm) -> Access:
    return Access("t", forms, ((-99, 99),) * len(forms))


@st.composite
def accesses(draw: st.DrawFn) -> tuple[ScopStatement, ScopStatement]:
    """Two statements of one or two variables each, with the same tensor."""
    rank = draw(st.integers(1, 2))
    found = []
    for name in ("S", "T"):
        ranges = {
            v: (low, low + draw(st.integers(1, 6)))
            for v in draw(st.sampled_from(("i", "ij")))
            for low in [draw(st.integers(0, 2))]
        }
        forms = [
            Form(draw(st.integers(-2, 2)), draw(st.dictionaries(
                st.sampled_from(sorted(ranges)), st.sampled_from((1, 1, -1, 2)), max_size=2)))
            for _ in range(rank)
        ]  # fmt: skip
        found.append(statement(name, access(*forms), **ranges))
    return found[0], found[1]


@st.composite
def conditions(draw: st.DrawFn, source: ScopStatement, sink: ScopStatement) -> Condition:
    def digit() -> Digit:
        side, own = draw(st.sampled_from(((SOURCE, source), (SINK, sink))))
        name = draw(st.sampled_from((*own.variables, None)))
        steps = st.tuples(st.sampled_from(("mod", "div")), st.integers(1, 4))
        value = Value(name, draw(st.integers(-1, 1)))
        return Digit(side, value, tuple(draw(st.lists(steps, max_size=2))))

    op = draw(st.sampled_from(sorted(COMPARE)))
    if draw(st.booleans()):
        return compared(op, digit(), digit(), draw(st.integers(-1, 1)))
    factors = draw(st.lists(st.sampled_from((1, -1, 2)), max_size=3))
    form: Form[Digit, int] = constant_form(draw(st.integers(-2, 2)))
    return Condition(op, sum((variable_form(digit(), f) for f in factors), form))


def meets(condition: Condition, pair: InstancePair) -> bool:
    total = condition.form.constant
    for digit, factor in condition.form.terms.items():
        value = digit.value
        number = value.offset + (pair[digit.side][value.variable] if value.variable else 0)
        for step, by in digit.steps:
            number = number % by if step == "mod" else number // by
        total += factor * number
    return COMPARE[condition.op](total, 0)


def element(own: ScopStatement, point: dict[str, int]) -> list[int]:
    forms = (form for form in own.write.subscripts if form is not None)
    return [f.constant + sum(c * point[v] for v, c in f.terms.items()) for f in forms]


@given(accesses(), st.data(), st.booleans())
def test_all_pairs(
    both: tuple[ScopStatement, ScopStatement], data: st.DataObject, tries: bool
) -> None:
    source, sink = both
    wanted = data.draw(st.lists(conditions(source, sink), max_size=3))
    every = [
        (x, y)
        for x in points(source)
        for y in points(sink)
        if element(source, x) == element(sink, y) and all(meets(c, (x, y)) for c in wanted)
    ]
    relation = relate(source, source.write, sink, sink.write)
    with pytest.MonkeyPatch.context() as patch:
        if not tries:
            patch.setattr(instance_pairs, "MOST_TRIES", 1)
        found = None if relation is None else find(relation, wanted)
    event("found" if every else "none")
    assert found in every if every else found is None


def test_isl_is_asked_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal digits, and an example, are found without it; that i mod 8 mod 4 is i mod 4, not."""
    place = access(Form(0, {"i": 1}))
    source, sink = (statement(name, place, i=(0, 16)) for name in ("S", "T"))
    i, k = Value("i"), Value("i", 1)
    four, eight = (("mod", 4),), (("mod", 8), ("mod", 4))
    monkeypatch.setattr(relations, "QUOTA", 1)

    def pair(first: Digit, second: Digit, op: str = "!=") -> InstancePair | None:
        relation = relate(source, place, sink, place)
        assert relation is not None
        return find(relation, [compared(op, first, second)])

    assert pair(Digit(SOURCE, i, four), Digit(SINK, i, four)) is None
    assert pair(Digit(SOURCE, i, four), Digit(SINK, k, four)) == ({"i": 0}, {"i": 0})
    assert pair(Digit(SOURCE, i), Digit(SINK, k), "==") is None
    assert pair(Digit(SOURCE, i, four), Digit(SINK, i, (("div", 4),)), ">") == ({"i": 1}, {"i": 1})
    with pytest.raises(sets.TooComplex):
        pair(Digit(SOURCE, i, four), Digit(SINK, i, eight))
    monkeypatch.undo()
    assert pair(Digit(SOURCE, i, four), Digit(SINK, i, eight)) is None
