"""Statements that run once in a loop move out, before or after the loop."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tc.polyhedral.legality import respects
from tc.polyhedral.schedule import Band, Leaf, Member, Node, Sequence, Value, leaves, to_text
from tc.polyhedral.scop.dependences import compute_dependences
from tc.polyhedral.strategies.scheduler import hoist
from tests.support.scops import scop_of
from tests.support.tree_order import instances


def member(name: str, **values: str | int) -> Member:
    """A loop: the variable, or the one value, of each statement."""
    found = {s: Value(v) if isinstance(v, str) else Value(None, v) for s, v in values.items()}
    return Member(name, found, False)


def band(*members: Member, child: Node) -> Band:
    return Band(members, True, child)


def sequence(*children: Node | str) -> Sequence:
    return Sequence(tuple(Leaf(c) if isinstance(c, str) else c for c in children))


def lines(node: Node) -> list[str]:
    return to_text(hoist(node)).split("\n")


def test_first_and_last() -> None:
    k = member("k", start=0, update="k", relu=9)
    assert lines(band(k, child=sequence("start", "update", "relu"))) == [
        "sequence",
        "  start",
        "  band [k] permutable",
        "    update",
        "  relu",
    ]


def test_out_of_the_last_members_only() -> None:
    """The outer loops stay around."""
    i = member("i", start="i", update="i", relu="i")
    k = member("k", start=0, update="k", relu=9)
    assert lines(band(i, k, child=sequence("start", "update", "relu"))) == [
        "band [i] permutable",
        "  sequence",
        "    start",
        "    band [k] permutable",
        "      update",
        "    relu",
    ]
    assert lines(band(k, i, child=sequence("start", "update", "relu"))) == [
        "band [k, i] permutable",
        "  sequence",
        "    start",
        "    update",
        "    relu",
    ]


def test_out_of_several_loops() -> None:
    """One member after the other, each as far as it may."""
    i = member("i", start="i", zero=0, update="i")
    k = member("k", start=0, zero=0, update="k")
    l = member("l", start=0, zero=0, update="l")  # noqa: E741  # as in mathematics
    assert lines(band(i, k, l, child=sequence("zero", "start", "update"))) == [
        "sequence",
        "  zero",
        "  band [i] permutable",
        "    sequence",
        "      start",
        "      band [k] permutable",
        "        band [l] permutable",
        "          update",
    ]


def test_through_bands_in_bands() -> None:
    """What comes out of the inner loop may come out of the outer one too."""
    k = member("k", start=0, update="k")
    l = member("l", start=0, update="l")  # noqa: E741  # as in mathematics
    inner = band(l, child=sequence("start", "update"))
    assert lines(band(k, child=inner)) == [
        "sequence",
        "  start",
        "  band [k] permutable",
        "    band [l] permutable",
        "      update",
    ]


def test_several_at_either_end() -> None:
    k = member("k", a=0, b=0, c="k", d="k", e=9, f=9)
    assert lines(band(k, child=sequence(*"abcdef"))) == [
        "sequence",
        "  a",
        "  b",
        "  band [k] permutable",
        "    sequence",
        "      c",
        "      d",
        "  e",
        "  f",
    ]


def test_children_with_loops_of_their_own() -> None:
    k = member("k", start=0, update="k")
    own = band(member("j", start="j"), child=Leaf("start"))
    assert lines(band(k, child=sequence(own, "update"))) == [
        "sequence",
        "  band [j] permutable",
        "    start",
        "  band [k] permutable",
        "    update",
    ]


def test_within_a_sequence() -> None:
    """What comes out joins the sequence around the loop."""
    k = member("k", start=0, update="k")
    node = sequence("before", band(k, child=sequence("start", "update")), "after")
    assert lines(node) == [
        "sequence",
        "  before",
        "  start",
        "  band [k] permutable",
        "    update",
        "  after",
    ]


def test_bands_keep_whether_they_may_be_swapped() -> None:
    k = member("k", start=0, update="k")
    i = member("i", start="i", update="i")
    found = hoist(Band((i, k), False, sequence("start", "update")))
    assert "permutable" not in to_text(found)


STAY: dict[str, Node] = {
    "one statement": band(member("k", a="k"), child=Leaf("a")),
    "one that runs once": band(member("k", a=0), child=Leaf("a")),
    "all run in all": band(member("k", a="k", b="k"), child=sequence("a", "b")),
    "all run once": band(member("k", a=0, b=1), child=sequence("a", "b")),
    "between others": band(member("k", a="k", b=3, c="k"), child=sequence("a", "b", "c")),
    "part of a child": band(
        member("k", a=0, b="k", c="k"),
        child=sequence(band(member("j", a="j", b="j"), child=sequence("a", "b")), "c"),
    ),
    "no members": Band((), True, sequence("a", "b")),
    "no loop": sequence("a", "b"),
    "a leaf": Leaf("a"),
}


@pytest.mark.parametrize("name", STAY)
def test_what_stays(name: str) -> None:
    assert hoist(STAY[name]) == STAY[name]


# --- what moving does to the order --------------------------------------------------------------

TEXT = "def f(float(I,K) A) -> (o, r) { o(i) +=! A(i,k)  r(i) = o(i) + 1 }"


def test_a_whole_program() -> None:
    scop = scop_of(TEXT, I=3, K=4)
    names = ("S0.init", "S0", "S1")
    i = Member("i", dict.fromkeys(names, Value("i")), True)
    k = Member("k", {"S0.init": Value(None, 0), "S0": Value("k"), "S1": Value(None, 3)}, False)
    tree = Band((i, k), True, sequence(*names))
    dependences = compute_dependences(scop)
    assert respects(tree, dependences) is None
    moved = hoist(tree)
    assert respects(moved, dependences) is None
    assert [run[1:] for run in instances(moved, scop)] == [run[1:] for run in instances(tree, scop)]


def test_a_move_that_is_not_legal() -> None:
    """r reads the first t only, so it may run in the third iteration, but not before the loop:
    the strategy that hoists must check what it gets."""
    scop = scop_of("def f(float(I,K) A) -> (t, r) { t(i,k) = A(i,k)  r(i) = t(i,0) }", I=3, K=4)
    i = Member("i", dict.fromkeys(("S0", "S1"), Value("i")), True)
    k = Member("k", {"S0": Value("k"), "S1": Value(None, 2)}, False)
    tree = Band((i, k), False, sequence("S1", "S0"))
    dependences = compute_dependences(scop)
    assert respects(tree, dependences) is None
    assert to_text(hoist(tree)).split("\n")[1:3] == ["  sequence", "    S1"]
    assert respects(hoist(tree), dependences) is not None


@st.composite
def trees(draw: st.DrawFn) -> Node:
    """Bands and sequences of statements with distinct names."""
    return _tree(draw, [f"s{n}" for n in range(draw(st.integers(1, 5)))], 0)


def _tree(draw: st.DrawFn, names: list[str], depth: int) -> Node:
    kind = draw(st.sampled_from(["band", "band", "parts"]))
    if depth > 4 or (kind == "parts" and len(names) == 1):
        return Leaf(names[0]) if len(names) == 1 else sequence(*names)
    if kind == "band":
        members = tuple(_member(draw, f"{depth}{n}", names) for n in range(draw(st.integers(1, 3))))
        return Band(members, draw(st.booleans()), _tree(draw, names, depth + 1))
    cut = draw(st.integers(1, len(names) - 1))
    return Sequence(tuple(_tree(draw, part, depth + 1) for part in (names[:cut], names[cut:])))


def _member(draw: st.DrawFn, number: str, names: list[str]) -> Member:
    values: st.SearchStrategy[str | int] = st.sampled_from([f"v{number}", 0, 3])
    return member(f"m{number}", **{name: draw(values) for name in names})


def loops_of(node: Node, around: tuple[str, ...] = ()) -> dict[str, tuple[str, ...]]:
    """For each statement the members around it that have more than one value, outermost first."""
    match node:
        case Leaf(statement=name):
            return {name: around}
        case Band(members=members, child=child):
            found = loops_of(child)
            varying = {
                name: tuple(m.name for m in members if m.values[name].variable) for name in found
            }
            return {name: (*around, *varying[name], *inner) for name, inner in found.items()}
        case Sequence(children=children):
            return {n: loops for c in children for n, loops in loops_of(c, around).items()}
    raise AssertionError(node)


def ends(node: Node) -> list[str]:
    """The innermost loops in which a first or last child runs but once, beside one that does not:
    what should have been moved."""
    match node:
        case Band(members=members, child=child):
            found = ends(child)
            if isinstance(child, Sequence) and members:
                once = [
                    all(members[-1].values[n].variable is None for n in leaves(c))
                    for c in child.children
                ]
                if not all(once) and (once[0] or once[-1]):
                    found.append(members[-1].name)
            return found
        case Sequence(children=children):
            return [name for c in children for name in ends(c)]
        case _:
            return []


@given(trees())
def test_random_trees(tree: Node) -> None:
    """Statements keep their order in the text of the tree, and their loops; nothing is left to be
    moved; and moving again changes nothing."""
    moved = hoist(tree)
    assert list(leaves(moved)) == list(leaves(tree))
    assert loops_of(moved) == loops_of(tree)
    assert ends(moved) == []
    assert hoist(moved) == moved
