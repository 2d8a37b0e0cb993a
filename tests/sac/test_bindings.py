"""Names behind statements, beside plain dicts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tc.sac.bindings import Bindings

NAMES = st.sampled_from("abc")
STEPS = st.lists(
    st.tuples(st.integers(0, 20), st.booleans(), st.dictionaries(NAMES, st.integers()))
)


@given(st.dictionaries(NAMES, st.integers()), STEPS)
def test_each_mapping_stays_as_it_was(
    start: dict[str, int], steps: list[tuple[int, bool, dict[str, int]]]
) -> None:
    """Mappings go on from any earlier one, as a block within it or as the same block."""
    made: list[tuple[Bindings[int], dict[str, int]]] = [(Bindings(start), dict(start))]
    for number, is_block, names in steps:
        bindings, due = made[number % len(made)]
        bindings = bindings.inner() if is_block else bindings
        made.append((bindings.bind(names), {**due, **names}))
    for bindings, due in made:
        assert dict(bindings) == due
        assert len(bindings) == len(due)
        assert all((name in bindings) == (name in due) for name in "abc")


@given(st.lists(st.tuples(NAMES, st.integers())))
def test_a_block_tells_what_it_binds(statements: list[tuple[str, int]]) -> None:
    bindings = Bindings({"a": 0}).inner()
    for name, value in statements:
        bindings = bindings.bind({name: value})
    assert bindings.meanings() == statements
    assert set(bindings.own()) == {name for name, _ in statements}
