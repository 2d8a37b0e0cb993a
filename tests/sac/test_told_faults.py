"""Faults of compiled code in the words of SaC: which instance, and with how little work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import tc
import tc.sac
from tc.sac.levels.partitions import Partition
from tc.sac.program import Program as Checked
from tc.sac.told_faults import told
from tests.support.sac_programs import Program, programs

MANY = 300_000
FAR = np.arange(MANY, dtype=np.int32) % 50
V = np.arange(50, dtype=np.int32)
AT = 222_222


def wrong(value: int) -> Any:
    array = FAR.copy()
    array[AT] = value
    return array


OUTSIDE = "index 99 is outside 0..49 of axis 0, shape [50]"
ZERO = "integer division by zero"
FAULTS = [
    ("{ [i] -> v[n[i]] }", 99, f"{OUTSIDE}, at [i] = [222222]"),
    ("{ iv -> v[n[iv]] * 2 }", 99, f"{OUTSIDE}, at iv = [222222]"),
    ("{ [i] -> 7 % (50 - n[i]) }", 50, f"{ZERO}, at [i] = [222222]"),
    ("b = { [i] -> v[n[i]] }; { [i] -> b[i] + b[i] }", 99, f"{OUTSIDE}, at [i] = [222222]"),
    ("b = { [i] -> v[n[i]] }; { [i] -> b[i] * b[i + 1] | [i] < shape(n) - 1 }", 99,
     f"{OUTSIDE}, at [i] = [222222]"),
    ("sum({ [i] -> v[n[i]] })", 99, f"{OUTSIDE}, at [i] = [222222]"),
    ("with { ([0] <= [i] < shape(n)) : v[n[i]]; } : fold(max, 0)", 99,
     f"{OUTSIDE}, at [i] = [222222]"),
    ("m = reshape([600, 500], n); { [i] -> sum({ [j] -> v[m[i,j]] }) }", 99,
     f"{OUTSIDE}, at [i] = [444], [j] = [222]"),
    ("m = reshape([600, 500], n); { [i] -> sum({ [j] -> 7 / (50 - m[i,j]) | [j] < [i + 1] }) | "
     "[i] < [500] }", 50, f"{ZERO}, at [i] = [444], [j] = [222]"),
    ("reverse({ [i] -> v[n[i]] })", 99, f"{OUTSIDE}, at [i] = [222222]"),
    ("drop([7], { [i] -> v[n[i]] }) ++ v", 99, f"{OUTSIDE}, at [i] = [222222]"),
    ("{ [i] -> v[n[i]] } + { [i] -> v[i % 50] | [i] < shape(n) }", 99,
     f"{OUTSIDE}, at [i] = [222222]"),
    ("{ [i] -> 0 | [i] < [1000]; [i] -> v[n[i]] }", 99, f"{OUTSIDE}, at [i] = [222222]"),
]  # fmt: skip


@pytest.fixture
def instances(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The instances that are computed one by one."""
    made: list[object] = []
    instance = Partition.instance

    def noted(self: Partition, index: tuple[int, ...]) -> Any:
        made.append(index)
        return instance(self, index)

    monkeypatch.setattr(Partition, "instance", noted)
    return made


@pytest.mark.parametrize("backend", ["numba", "c"])
@pytest.mark.parametrize(("text", "value", "cause"), FAULTS)
def test_a_fault_in_a_large_array_is_told_by_few_instances(
    text: str, value: int, cause: str, backend: str, instances: list[object]
) -> None:
    n = wrong(value)
    inputs = {name: {"n": n, "v": V}[name] for name in tc.sac.demand(text, "F")}
    with pytest.raises(tc.AccessError) as caught:
        tc.sac.compile(text, backend=backend)(inputs)
    assert caught.value.cause.startswith(cause)
    assert caught.value.rule == ("Y4" if "zero" in cause else "C8")
    assert caught.value.span is not None
    assert caught.value.span.source.text == text
    assert caught.value.facts is not None
    assert caught.value.facts.kind == ("division" if "zero" in cause else "read")
    assert len(instances) < 10_000
    assert n[AT] == value
    assert np.array_equal(V, np.arange(50))


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("{ [i] -> n[i] + n[i+1] }", "index 300000 is outside 0..299999 of axis 0, shape [300000], "
         "at [i] = [299999]"),
        ("{ [i] -> n[i-1] | [i] < shape(n) }", "index -1 is outside 0..299999 of axis 0, shape "
         "[300000], at [i] = [0]"),
        ("sum({ [i] -> n[i] * n[i+2] })", "index 300001 is outside 0..299999 of axis 0, shape "
         "[300000], at [i] = [299999]"),
    ],
)  # fmt: skip
def test_what_shapes_make_wrong_is_told_by_the_ends_of_ranges(
    text: str, cause: str, instances: list[object]
) -> None:
    with pytest.raises(tc.RangeError) as caught:
        tc.sac.compile(text)(n=FAR)
    assert caught.value.cause == cause
    assert len(instances) < 10_000


def test_what_is_not_found_is_told_by_its_facts(instances: list[object]) -> None:
    """Numbers and rule are those of the fault, where the instance is not found with little work."""
    text = "b = { [i] -> n[i] * n[i] % 200 }; { [i] -> v[maxval(b) + i] | [i] < [2] }"
    with pytest.raises(tc.AccessError) as caught:
        tc.sac.compile(text)(n=FAR, v=V)
    assert caught.value.rule == "C8"
    assert "is outside 0..49 of axis 0, shape [50]" in caught.value.cause
    assert caught.value.facts is not None
    assert caught.value.facts.shape == (50,)
    assert len(instances) < 10_000


@settings(max_examples=80, deadline=None)
@given(programs())
def test_the_search_gives_the_results_where_nothing_fails(program: Program) -> None:
    """Elements by themselves are those of the whole arrays."""
    checked = Checked.of(tc.Source(program.text), "main")
    inputs = checked.bound((program.inputs,), {})
    found = told(checked, inputs, tc.TCError("none"), limit=1 << 40)
    assert found is not None
    np.testing.assert_array_equal(found[0], program.due)
