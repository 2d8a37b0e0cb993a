"""Dependences: which there are, and that none is missing or made up."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tc.polyhedral.scop import dependences as module
from tc.polyhedral.scop.dependences import Dependences, compute_dependences
from tc.polyhedral.scop.relations import SINK, SOURCE
from tc.polyhedral.scop.value_flow import value_flow
from tests.support.scops import PROGRAMS, Small, dependences_of, program, scop_of
from tests.support.tree_order import points, touches_of

Instance = tuple[str, tuple[int, ...]]


def listed(dependences: Dependences) -> list[tuple[str, str, str, str]]:
    return [(d.source, d.sink, d.tensor, d.kind) for d in dependences.all]


def test_matmul() -> None:
    """rule R5: updates of one accumulator are relaxed"""
    found = compute_dependences(program("mm").scop())
    assert listed(found) == [
        ("S0.init", "S0", "R", "flow"),
        ("S0", "S0", "R", "reduction"),
    ]
    assert [d.relaxed for d in found.all] == [False, True]
    assert [d.source for d in found.order] == ["S0.init"]


def test_kinds() -> None:
    found = dependences_of(
        "def f(float(N) a) -> (b, c, d) { b(i) = a(i) c(i) = b(i) b(i) = a(i) * 2 d(i) = b(i) }",
        N=4,
    )
    assert listed(found) == [
        ("S0", "S1", "b", "flow"),
        ("S0", "S2", "b", "output"),
        ("S1", "S2", "b", "anti"),
        ("S2", "S3", "b", "flow"),
    ]


def test_two_updates_stay_ordered() -> None:
    found = dependences_of(
        "def f(float(N,K) A) -> (y) { y(i) = 0 y(i) += A(i,k) y(i) max= A(i,k) }", N=3, K=2
    )
    assert ("S1", "S2", "y", "flow") in listed(found)
    assert ("S2", "S2", "y", "reduction") in listed(found)


def test_one_step_reductions_have_no_dependence_on_themselves() -> None:
    found = dependences_of("def f(float(N,K) A) -> (y) { y(i) +=! A(i,k) }", N=3, K=1)
    assert listed(found) == [("S0.init", "S0", "y", "flow")]


def test_what_is_covered_is_left_out() -> None:
    """Each statement rewrites all of O, so each depends on the one before alone."""
    steps = " ".join("O(i) = O(i) * 2" for _ in range(10))
    found = dependences_of(f"def f(float(N) a) -> (O) {{ O(i) = a(i) {steps} }}", N=4)
    assert listed(found) == [(f"S{i}", f"S{i + 1}", "O", "flow") for i in range(10)]
    partly = dependences_of(
        "def f(float(N) a) -> (O, p) { O(i) = a(i) O(i) = O(i) * 2 where i in 1:3 p(i) = O(i) }",
        N=4,
    )
    assert [(d.source, d.sink) for d in partly.all] == [("S0", "S1"), ("S0", "S2"), ("S1", "S2")]


def test_pairs_that_never_meet_are_left_out() -> None:
    found = dependences_of(
        "def f(float(N) a) -> (b, c) "
        "{ b(i) = a(i) where i in 5:9 b(i) = a(i) where i in 0:3 c(i) = b(i) where i in 0:2 }",
        N=9,
    )
    assert listed(found) == [
        ("b.zero", "S0", "b", "output"),
        ("b.zero", "S1", "b", "output"),
        ("b.zero", "S2", "b", "flow"),
        ("S1", "S2", "b", "flow"),
    ]


def test_gathers_may_read_every_element() -> None:
    found = dependences_of(
        "def f(float(N) a, int(M) I) -> (b, c) { b(i) = a(i) c(i) = b(I(i)) }", N=4, M=3
    )
    (dependence,) = found.all
    assert dependence.relation.ranges == {(SOURCE, "i"): (0, 4), (SINK, "i"): (0, 3)}


def test_into_and_between() -> None:
    found = compute_dependences(program("fcrelu").scop())
    assert [(d.source, d.kind) for d in found.into("S1")] == [("S0", "flow"), ("S1", "reduction")]
    assert found.into("S0") == ()
    assert [d.sink for d in found.between({"S0", "S1"}, ["S1", "S2"])] == ["S1", "S2"]
    assert [d.sink for d in found.between({"S1"}, ["S1", "S2"])] == ["S2"]


@pytest.mark.parametrize("small", PROGRAMS, ids=lambda p: p.name)
def test_against_all_pairs(small: Small) -> None:
    """Each pair of instances that meet follows from dependences, and each dependence of accesses
    that are sure is such a pair."""
    scop = small.scop()
    found = compute_dependences(scop)
    edges: dict[Instance, set[Instance]] = defaultdict(set)
    for dependence in found.order:
        for pair in pairs_of(dependence):
            edges[pair[0]].add(pair[1])
    wanted = meeting_pairs(scop)
    for source, sinks in wanted.items():
        assert sinks <= reachable(source, edges), source
    if all(None not in a.subscripts and not a.guarded for s in scop.statements for a in s.reads):
        for source, sinks in edges.items():
            assert sinks <= wanted[source], source


def pairs_of(dependence: module.Dependence) -> list[tuple[Instance, Instance]]:
    """The pairs of a dependence, by substitution into what its relation says."""
    relation = dependence.relation
    keys = list(relation.solved)
    box = [range(*relation.boxes[key]) for key in keys]
    conditions = list(relation.conditions())
    found = []
    names = [name if side == SOURCE else f"{name}'" for side, name in keys]
    split = sum(side == SOURCE for side, _ in keys)

    def extend(values: list[int]) -> None:
        known = dict(zip(names, values, strict=False))
        for form, (low, high) in conditions:
            if form.terms.keys() <= known.keys() and names[len(values) - 1 : len(values)]:
                total = form.constant + sum(f * known[v] for v, f in form.terms.items())
                if not low <= total <= high:
                    return
        if len(values) == len(keys):
            found.append(
                (
                    (dependence.source, tuple(values[:split])),
                    (dependence.sink, tuple(values[split:])),
                )
            )
            return
        for value in box[len(values)]:
            extend([*values, value])

    extend([])
    return found


def meeting_pairs(scop: object) -> dict[Instance, set[Instance]]:
    """Pairs of instances of different statements, in text order, that touch one element, which at
    least one of the two writes."""
    before: dict[object, list[tuple[Instance, bool]]] = defaultdict(list)
    found: dict[Instance, set[Instance]] = defaultdict(set)
    for statement in scop.statements:  # type: ignore[attr-defined]
        own = []
        for point in points(statement):
            instance = (statement.name, tuple(point.values()))
            for touch in touches_of(scop, statement.name, point):  # type: ignore[arg-type]
                own.append((touch.element, instance, touch.writes))
                for other, wrote in before[touch.element]:
                    if wrote or touch.writes:
                        found[other].add(instance)
        for element, instance, writes in own:
            before[element].append((instance, writes))
    return found


def reachable(start: Instance, edges: dict[Instance, set[Instance]]) -> set[Instance]:
    reached: set[Instance] = set()
    todo = [start]
    while todo:
        for sink in edges[todo.pop()] - reached:
            reached.add(sink)
            todo.append(sink)
    return reached


def test_value_flow() -> None:
    """rule R4: the reads of what the caller passed have no source"""
    flows = value_flow(program("sgemm").scop())
    assert [(f.tensor, f.source, f.sink) for f in flows] == [
        ("C", None, "S0"),
        ("C", "S0", "S1"),
        ("C", "S1", "S1"),
    ]
    fresh = value_flow(program("mm").scop())
    assert [(f.source, f.sink) for f in fresh] == [("S0.init", "S0"), ("S0", "S0")]


# --- cost ---------------------------------------------------------------------------------------


def chain(length: int) -> str:
    steps = " ".join(
        f"t{i + 1}(a,b) = B(b) t{i + 1}(a,b) += t{i}(a,c) * W(b,c) "
        f"t{i + 1}(a,b) = fmax(t{i + 1}(a,b), 0)"
        for i in range(length)
    )
    return f"def f(float(N,M) t0, float(M,M) W, float(M) B) -> (t{length}) {{ {steps} }}"


def test_dependences_grow_with_the_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains of 12 and of 48 statements: four times the work, not sixteen."""
    made: list[int] = []
    relate = module.relate
    for length in (4, 16):
        scop = scop_of(chain(length), N=30, M=20)
        calls: list[object] = []

        def counted(*args: object, calls: list[object] = calls) -> object:
            calls.append(args)
            return relate(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(module, "relate", counted)
        compute_dependences(scop)
        made.append(len(calls))
    assert made[1] <= 4.5 * made[0]
