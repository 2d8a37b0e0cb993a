"""How much work the reference does: instances of bodies, and calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
import tc.sac
from tc.sac.levels.calls import Invocation
from tc.sac.levels.partitions import Partition

A = np.int32([3, -1, 4, 1, -5, 9])
M = np.arange(12, dtype=np.int32).reshape(3, 4) - 5


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many instances and calls were made."""
    counts = {"instances": 0, "calls": 0}
    instance, invocation = Partition.instance, Invocation.__init__

    def counted_instance(self: Partition, index: tuple[int, ...]) -> Any:
        counts["instances"] += 1
        return instance(self, index)

    def counted_call(self: Invocation, *args: Any, **named: Any) -> None:
        counts["calls"] += 1
        invocation(self, *args, **named)

    monkeypatch.setattr(Partition, "instance", counted_instance)
    monkeypatch.setattr(Invocation, "__init__", counted_call)
    return counts


HOISTED = [
    ("{ iv -> { jv -> a[jv] * 3 }[iv] }", 12, A * 3),
    ("{ [i] -> sum({ [j] -> a[j] * a[j] }) + i | [i] < [4] }", 10, (A * A).sum() + np.arange(4)),
    ("{ [i] -> { [j] -> a[j] * i }[i] }", 12, A * np.arange(6)),
    ("{ [i] -> { [j] -> { [k] -> a[k] * i + j | [k] < [6] }[j] | [j] < [6] }[i] | [i] < [6] }",
     18, A * np.arange(6) + np.arange(6)),
    ("{ [i] -> { [j,k] -> m[j,k] + i }[i] | [i] < [3] }", 15, M + np.arange(3)[:, None]),
    ("{ [i] -> { [.,k] -> m[.,k] + i }[i] | [i] < [3] }", 15, M + np.arange(3)[:, None]),
    ("{ [i] -> with { ([1] <= [k] < [3]) : m[k] * i; } : genarray([3], m[0])[i] | [i] < [3] }", 5,
     np.stack([M[0], M[1], M[2] * 2])),
    ("{ [i] -> with { ([0] <= [k] < [2]) : m[k] + i; } : modarray(m)[i] | [i] < [3] }", 5,
     np.stack([M[0], M[1] + 1, M[2]])),
    ("{ [i] -> { [j] -> j + i | [j] < [2]; [j] -> a[j] * i }[i] }", 12,
     np.where(np.arange(6) < 2, 2 * np.arange(6), A * np.arange(6))),
    ("x = a; y = { [i] -> sum({ [j] -> x[j] }) + i | [i] < [3] }; x = a * 2; "
     "y + { [i] -> sum({ [j] -> x[j] }) | [i] < [3] }", 18, 3 * A.sum() + np.arange(3)),
    ("{ [i] -> with { ([0] <= [k] < [2]) { s = sum({ [j] -> a[j] }); t = s * i; } : t + k; } : "
     "fold(+, 0) | [i] < [3] }", 15, 2 * A.sum() * np.arange(3) + 1),
]  # fmt: skip


@pytest.mark.parametrize(("text", "instances", "due"), HOISTED)
def test_what_does_not_depend_on_the_index_is_computed_once(
    text: str, instances: int, due: Any, made: dict[str, int]
) -> None:
    """The instances of inner comprehensions: once, or those of the elements that are selected."""
    given = {name: {"a": A, "m": M}[name] for name in tc.sac.demand(text, "F")}
    found = tc.sac.interpret(text, given)
    np.testing.assert_array_equal(found, due)
    assert made["instances"] == instances


def test_what_a_function_does_with_an_array_alone_is_computed_once(made: dict[str, int]) -> None:
    text = (
        "int near(int[*] a, int i) { return sum({ [j] -> a[j] }) + i; } "
        "int[*] each(int[*] a) { return { [i] -> near(a, a[i]) }; }"
    )
    np.testing.assert_array_equal(tc.sac.interpret(text, A, entry="each"), A.sum() + A)
    assert made["instances"] == 2 * A.size


def test_the_index_values_of_a_fault_are_those_that_it_depends_on() -> None:
    with pytest.raises(tc.RangeError) as caught:
        tc.sac.interpret("{ [i] -> { [j] -> a[j+1] | [j] < [6] }[i] + i | [i] < [6] }", a=A)
    assert "at [j] = [5]" in str(caught.value)
    assert "at [i]" not in str(caught.value)
    with pytest.raises(tc.RangeError, match=r"at \[i\] = \[5\], \[j\] = \[5\]"):
        tc.sac.interpret("{ [i] -> { [j] -> a[j+1] * i | [j] < [6] }[i] | [i] < [6] }", a=A)


CALLS = [
    "f{}(x) + f{}(x)",
    "f{}(x + 1) - f{}(x + 1)",
    "y = x * 2; z = x * 2; return f{}(y) + f{}(z)",
    "f{}([x, x][1]) + f{}([x, x][1])",
]


@pytest.mark.parametrize("body", CALLS)
def test_equal_calls_are_one(body: str, made: dict[str, int]) -> None:
    returned = body if "return" in body else f"return {body}"
    texts = ["int f0(int x) { return x; }"]
    texts += [f"int f{k + 1}(int x) {{ {returned.format(k, k)}; }}" for k in range(20)]
    found = tc.sac.interpret("\n".join(texts), 1, entry="f20")
    assert made["calls"] == 21

    def due(k: int, x: int) -> int:
        if k == 0 or "- f" in body:
            return x if k == 0 else 0
        argument = 2 * x if "* 2" in body else x
        return 2 * due(k - 1, argument)

    assert found == np.int64(due(20, 1)).astype(np.int32)


def test_calls_of_two_functions_by_turns(made: dict[str, int]) -> None:
    """Parameters of the same value are the same, however deep the calls are."""
    texts = ["int h0(int x) { return x; }"]
    for k in range(15):
        texts.append(f"int g{k}(int x) {{ return h{k}(x); }} int k{k}(int x) {{ return h{k}(x); }}")
        texts.append(f"int h{k + 1}(int x) {{ return g{k}(x) + k{k}(x); }}")
    assert tc.sac.interpret("\n".join(texts), 1, entry="h15") == 2**15
    assert made["calls"] == 3 * 15 + 1


def test_zero_of_another_type_is_another_argument() -> None:
    """Equal numbers of different types are different values."""
    text = (
        "double halved(double x) { return x / 2.0; } int whole(int x) { return x / 2; } "
        "double both(int x) "
        "{ return halved(double(x)) + double(whole(x)) + halved(1.0) + halved(3.0); }"
    )
    assert tc.sac.interpret(text, 5, entry="both") == 2.5 + 2 + 0.5 + 1.5
