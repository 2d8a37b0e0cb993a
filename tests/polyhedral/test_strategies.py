"""The trees of the strategies: what is fused, and in which order."""

from __future__ import annotations

import re

import pytest

from tc.errors import BackendError
from tc.polyhedral.legality import respects
from tc.polyhedral.schedule import Value, leaves, to_text
from tc.polyhedral.scop import relations
from tc.polyhedral.scop.dependences import compute_dependences
from tc.polyhedral.strategies.clusters import Cluster, Column
from tc.polyhedral.strategies.fusion import kept_apart
from tc.polyhedral.strategies.scheduler import STRATEGIES, schedule
from tests.polyhedral.test_dependences import chain
from tests.support.scops import program, scop_of


def tree_text(text: str, strategy: str = "max", *, share: bool = False, **sizes: int) -> str:
    """The tree of a program of the table, or of a text."""
    scop = program(text).scop() if not sizes else scop_of(text, **sizes)
    dependences = compute_dependences(scop)
    tree = schedule(scop, dependences, strategy, share_reductions=share)
    assert respects(tree, dependences) is None
    assert sorted(leaves(tree)) == sorted(s.name for s in scop.statements)
    return to_text(tree)


def lines(text: str) -> str:
    """A tree as it stands in a test: without the indent of the test."""
    body = text.strip("\n").split("\n")
    indent = len(re.match(" *", body[0])[0])  # type: ignore[index]
    return "\n".join(line[indent:] for line in body).rstrip()


@pytest.mark.parametrize("strategy", ["max", "min", "preserve3coincident"])
def test_the_start_and_the_updates_share_the_outer_loops(strategy: str) -> None:
    assert tree_text("mm", strategy) == lines("""
        band [i *, j *] permutable
          sequence
            S0.init
            band [k] permutable
              S0
    """)


def test_an_epilogue_joins() -> None:
    assert tree_text("fcrelu", "min") == lines("""
        band [b *, o *] permutable
          sequence
            S0
            band [i] permutable
              S1
            S2
    """)


def test_layers_share_the_batch() -> None:
    assert tree_text("MLP3") == lines("""
        band [b *] permutable
          sequence
            band [o *] permutable
              sequence
                S0
                band [n] permutable
                  S1
                S2
            band [p *] permutable
              sequence
                S3
                band [o] permutable
                  S4
                S5
            band [q *] permutable
              sequence
                S6
                band [p] permutable
                  S7
                S8
    """)


@pytest.mark.parametrize("strategy", ["min", "preserve3coincident"])
def test_layers_apart(strategy: str) -> None:
    """Each layer has two parallel loops; a layer that shared one with another would lose its
    second."""
    text = tree_text("MLP3", strategy)
    assert text.startswith("sequence\n  band [b *, o *] permutable\n")
    assert text.count("band [b *, ") == 3


def test_softmax() -> None:
    assert tree_text("stable_softmax") == lines("""
        band [n *] permutable
          sequence
            S0.init
            band [d] permutable
              S0
            band [d *] permutable
              S1
            S2.init
            band [d] permutable
              S2
            band [d *] permutable
              S3
    """)


def test_a_shared_reduction() -> None:
    """e is summed in the loop that computes it; the start of the sum moves up."""
    assert tree_text("stable_softmax", share=True) == lines("""
        band [n *] permutable
          sequence
            S0.init
            S2.init
            band [d] permutable
              S0
            band [d] permutable
              sequence
                S1
                S2
            band [d *] permutable
              S3
    """)


def test_a_start_waits_for_what_reads_the_tensor_before() -> None:
    assert tree_text("reuse", share=True) == lines("""
        band [n *] permutable
          sequence
            S0.init
            band [d] permutable
              S0
            band [d *] permutable
              S1
            S2.init
            band [d] permutable
              S2
            band [d *] permutable
              S3
    """)


def test_reductions_over_the_same_elements_share_a_loop() -> None:
    assert "band [d] permutable\n      sequence\n        S0\n        S1" in tree_text(
        "moments", share=True
    )
    apart = "def f(float(N,D) x, float(N,E) y) -> (s, q) { s(n) +=! x(n,d) q(n) +=! y(n,d) }"
    text = tree_text(apart, share=True, N=3, D=4, E=4)
    assert text.count("band [d] permutable") == 2


def test_reductions_stay_apart_outside_of_shared_loops() -> None:
    """A loop that reduces is not parallel; sharing one with a parallel loop would serialize it."""
    text = "def f(float(D) x) -> (s, y) { y(d) = x(d) * 2 s +=! y(d) }"
    for share in (False, True):
        assert tree_text(text, share=share, D=5) == lines("""
            sequence
              band [d *] permutable
                S0
              S1.init
              band [d] permutable
                S1
        """)


def test_independent_statements() -> None:
    """Two look-ups of equal extents are fused, as no column is lost; else they stay apart."""
    text = tree_text("2LUT")
    assert text.startswith("band [i *, j *] permutable\n  sequence\n    S0.init")
    assert tree_text("2LUT", "min").startswith("sequence\n  band [i *, j *] permutable")
    apart = "def f(float(N) a, float(M) b) -> (c, d) { c(i) = a(i) d(i) = b(i) }"
    assert tree_text(apart, N=3, M=4).startswith("sequence")
    lossy = "def f(float(N) a, float(N,M) b) -> (c, d) { c(i) = a(i) d(i,j) = b(i,j) }"
    assert tree_text(lossy, N=3, M=4).startswith("sequence")


def test_independent_parts_of_a_whole() -> None:
    """The look-ups and the product feed one layer, so they share the batch with it."""
    text = tree_text("prodModel")
    assert text.startswith("band [i *] permutable\n  sequence\n    band [j *] permutable")
    assert text.count("\n  sequence") == 1
    assert len(re.findall(r"\n    band", text)) == 6


def test_a_shift_aligns() -> None:
    scop = program("shifted").scop()
    tree = schedule(scop, compute_dependences(scop), "max")
    assert to_text(tree) == lines("""
        band [i *] permutable
          sequence
            S0
            S1
    """)
    member = tree.members[0]  # type: ignore[union-attr]
    assert member.values == {"S0": Value("i"), "S1": Value("i", 1)}
    assert member.origin == 0


def test_stencils_stay_apart_where_columns_differ() -> None:
    assert tree_text("stencil") == lines("""
        band [t *] permutable
          sequence
            band [i *] permutable
              S0
            band [i1 *] permutable
              sequence
                D.zero
                S1
    """)


def test_ranges_may_differ() -> None:
    """The member begins with the statement that begins first; each has its own range."""
    scop = scop_of("def f(float(N) a) -> (b, c) { b(i) = a(i) c(i) = b(i) where i in 2:4 }", N=6)
    tree = schedule(scop, compute_dependences(scop), "max")
    assert to_text(tree).count("band") == 1
    assert tree.members[0].origin == 0  # type: ignore[union-attr]
    late = scop_of("def f(float(N) a) -> (b) { b(i) += a(i) where i in 2:4 }", N=6)
    (zero, _, _) = late.statements
    assert zero.kind == "zero"
    tree = schedule(late, compute_dependences(late), "max")
    assert tree.members[0].origin == 0  # type: ignore[union-attr]
    alone = scop_of(
        "def f(float(N) a) -> (float(N) b) { b(i) = a(i) where i in 2:4 }", frozenset({"b"}), N=6
    )
    tree = schedule(alone, compute_dependences(alone), "max")
    assert to_text(tree).startswith("band [(i-2) *]")
    moved = scop_of(
        "def f(float(N) a) -> (float(N) b, c) { b(i) = a(i) where i in 2:6 c(i) = b(i+2) }",
        frozenset({"b"}),
        N=6,
    )
    tree = schedule(moved, compute_dependences(moved), "max")
    assert to_text(tree).startswith("band [(i-2) *] permutable\n  sequence")


def test_loops_of_one_iteration() -> None:
    """They are kept, and are no reason to fuse: with a batch of one, layers stay parallel."""
    text = to_text(
        schedule((scop := scop_of(chain(2), N=1, M=4)), compute_dependences(scop), "max")
    )
    assert text.startswith("sequence\n  band [a *, b *] permutable")
    assert text.count("band [a *, b *]") == 2
    apart = "def f(float(N) a) -> (b, c) { b(i) = a(i) c(i) = a(i) }"
    assert tree_text(apart, N=1).startswith("sequence")
    assert tree_text(apart, N=2).startswith("band")


def test_preserve_keeps_three() -> None:
    four = (
        "def f(float(A,B,C,D) x) -> (y, z) { y(a,b,c,d) = x(a,b,c,d) "
        "z(a,b,c,e) +=! y(a,b,c,d) * x(a,b,c,e) }"
    )
    text = tree_text(four, "preserve3coincident", A=2, B=3, C=2, D=3)
    assert text.startswith("band [a *, b *, c *] permutable\n  sequence")
    two = (
        "def f(float(A,B,C,D) x) -> (y, z) { y(a,b,c,d) = x(a,b,c,d) "
        "z(a,b,e,g) +=! y(a,b,c,d) * x(a,b,e,g) }"
    )
    assert tree_text(two, "preserve3coincident", A=2, B=3, C=2, D=3).startswith("sequence")
    assert tree_text(two, "max", A=2, B=3, C=2, D=3).startswith("band [a *, b *] permutable")


def test_a_column_is_shared_once() -> None:
    text = "def f(float(N,N) a) -> (b, c) { b(i,j) = a(i,j) c(i) = b(i,i) }"
    assert tree_text(text, N=4) == lines("""
        band [i *] permutable
          sequence
            band [j *] permutable
              S0
            S1
    """)


def test_names_of_nested_loops_differ() -> None:
    text = "def f(float(N,M) a) -> (b, c) { b(i) +=! a(i,j) c(j,i) = a(j,i) * b(j) }"
    assert "band [i1 *] permutable" in tree_text(text, N=4, M=5)


ROWS_AND_COLUMNS = """def f(float(N,M) a) -> (r, c, y) {
  r(i) +=! a(i,j)  c(j) +=! a(i,j)  y(i,j) = %s
}"""


def test_a_statement_joins_the_last_that_it_depends_on() -> None:
    """What stands between and is not needed follows; what is needed stays between."""
    free = tree_text(ROWS_AND_COLUMNS % "a(i,j) - r(i)", N=4, M=5)
    assert re.findall(r"S\d(?!\.)", free) == ["S0", "S2", "S1"]
    assert free.startswith("sequence\n  band [i *] permutable")
    bound = tree_text(ROWS_AND_COLUMNS % "a(i,j) - r(i) * c(j)", N=4, M=5)
    assert re.findall(r"S\d(?!\.)", bound) == ["S0", "S1", "S2"]
    least = tree_text(ROWS_AND_COLUMNS % "a(i,j) - r(i)", "min", N=4, M=5)
    assert re.findall(r"S\d(?!\.)", least) == ["S0", "S1", "S2"]


def test_updates_join_over_others_only_where_that_is_accepted() -> None:
    text = "def f(float(N) a) -> (b, c) { b(i) = a(i) c(j) +=! a(i) where j in 0:3 b(i) += a(i) }"
    assert tree_text(text, N=5).startswith("sequence\n  band [i *] permutable\n    sequence")
    assert tree_text(text, "min", N=5).startswith("sequence\n  band [i *] permutable\n    S0")
    scop = scop_of(text, N=5)
    kept = kept_apart(scop, ["S2"], None)
    tree = to_text(schedule(scop, compute_dependences(scop), "max", accept=kept))
    assert re.findall(r"S\d(?!\.)", tree) == ["S0", "S1", "S2"]


def test_scalars() -> None:
    assert tree_text("outer_sum").startswith(
        "sequence\n  S0.init\n  band [i, j] permutable\n    S0"
    )


# --- accept ---------------------------------------------------------------------------------------


def test_accept_may_refuse() -> None:
    scop = program("MLP3").scop()
    asked: list[tuple[Cluster, Cluster, tuple[Column, ...]]] = []

    def refuse(first: Cluster, second: Cluster, columns: tuple[Column, ...]) -> bool:
        asked.append((first, second, columns))
        return False

    tree = schedule(scop, compute_dependences(scop), "max", accept=refuse)
    assert to_text(tree) == tree_text("MLP3", "min")
    first, second, columns = asked[0]
    assert (first.statements, second.statements) == (("S0", "S1", "S2"), ("S3", "S4", "S5"))
    assert [c.extent for c in first.columns] == [3, 3]
    assert first.outer == ()
    ((shared),) = columns
    assert (shared.begin, shared.end) == (0, 3)
    assert shared.values == {f"S{i}": Value("b") for i in range(6)}


def test_accept_is_told_what_is_outside() -> None:
    scop = program("attention").scop()
    outer = []

    def accept(first: Cluster, second: Cluster, _: tuple[Column, ...]) -> bool:
        assert first.outer == second.outer
        outer.append(tuple(c.values[first.statements[0]].variable for c in first.outer))
        return True

    tree = schedule(scop, compute_dependences(scop), "max", accept=accept, share_reductions=True)
    assert to_text(tree) == tree_text("attention", share=True)
    assert set(outer) == {(), ("b", "t")}


def test_starts_and_updates_are_never_asked_about() -> None:
    """Also where reductions could be shared: one that stays inside is no column lost."""
    scop = program("attention").scop()
    tree = schedule(
        scop,
        compute_dependences(scop),
        "max",
        accept=lambda first, *_: not first.outer,
        share_reductions=True,
    )
    assert to_text(tree) == lines("""
        band [b *, t *] permutable
          sequence
            S1.init
            S3.init
            band [u *] permutable
              sequence
                S0.init
                band [d] permutable
                  S0
            band [u] permutable
              S1
            band [u *] permutable
              S2
            band [u] permutable
              S3
            band [e *] permutable
              sequence
                S4.init
                band [u] permutable
                  S4
    """)


def test_unknown_strategies() -> None:
    scop = program("mm").scop()
    with pytest.raises(BackendError) as caught:
        schedule(scop, compute_dependences(scop), "maximum")
    assert caught.value.cause == f"no strategy 'maximum'; there are {', '.join(STRATEGIES)}"
    assert caught.value.repair == '"max"'


# --- cost -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["max", "min", "preserve3coincident"])
def test_questions_grow_with_the_statements(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains of 12 and of 48 statements: four times the questions, not sixteen."""
    calls: list[int] = []
    shift = relations.Relation.shift

    def counted(self: relations.Relation, source: Value, sink: Value) -> int | None:
        calls[-1] += 1
        return shift(self, source, sink)

    monkeypatch.setattr(relations.Relation, "shift", counted)
    for length in (4, 16):
        scop = scop_of(chain(length), N=30, M=20)
        dependences = compute_dependences(scop)
        calls.append(0)
        tree = schedule(scop, dependences, strategy)
        assert respects(tree, dependences) is None
    assert calls[1] <= 4.5 * calls[0]
