"""Programs whose values follow from one another in long chains."""

from __future__ import annotations

import numpy as np
import pytest

import tc
import tc.sac
from tc.process import deep_stack

RELAX = (
    "float[*] relax(float[d:s] x) "
    "{ return { iv -> 0.5 * x[iv-1] + 0.5 * x[iv] | [1] <= iv < s; iv -> x[iv] }; }"
)


def assignments(count: int) -> str:
    steps = "".join(f"x{k + 1} = x{k} + 1; " for k in range(count))
    return f"x0 = a; {steps}x{count}"


@pytest.mark.parametrize("count", [64, 700])
def test_assignments_in_a_row(count: int) -> None:
    text, a = assignments(count), np.int32([1, 2])
    assert tc.sac.interpret(text, a=a).tolist() == [1 + count, 2 + count]
    assert tc.sac.demand(text, "S") == {"a": "S"}
    shape = tc.sac.shape_function(text)
    assert tc.sac.interpret(shape, np.int32([2])).tolist() == [2]
    assert tc.sac.interpret(tc.sac.desugar(text), a=a).tolist() == [1 + count, 2 + count]
    compiled = tc.sac.compile(text, backend="c")
    assert compiled(a=a).tolist() == [1 + count, 2 + count]
    assert len(compiled.lowered(a=a).text.splitlines()) >= 2 + count // 100


def test_what_cannot_be_followed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep_stack, "DEEP_LIMIT_CALLS", 1500)
    text, a = assignments(500), np.int32([1])
    for verb in (
        lambda: tc.sac.interpret(text, a=a),
        lambda: tc.sac.compile(text, backend="interpret")(a=a),
        lambda: tc.sac.compile(text).infer(a=a),
    ):
        with pytest.raises(tc.CheckError, match="longer chain"):
            verb()


def test_demands_and_shapes_follow_no_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statements are taken in their order, however many there are."""
    monkeypatch.setattr(deep_stack, "DEEP_LIMIT_CALLS", 900)
    text = assignments(4000)
    assert tc.sac.demand(text, "F") == {"a": "F"}
    assert tc.sac.interpret(tc.sac.shape_function(text), np.int32([2, 3])).tolist() == [2, 3]
    steps = "".join(f"if (s > {k}) {{ v = v ++ [s]; s += 1; }} " for k in range(400))
    counted = f"int[.] f(int s, int[*] v) {{ {steps}return v; }}"
    assert tc.sac.demand(counted, "S") == {"s": "F", "v": "S"}
    shape = tc.sac.shape_function(counted)
    assert tc.sac.demand(shape, "F", entry="f_s") == {"s": "F", "v": "F"}


CALLS = ["f{0}(x) + f{0}(x)", "f{0}(x + 1) ++ f{0}(x + 1)", "[f{0}(x), f{0}(x)][sum(f{0}(x))]"]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("body", CALLS)
def test_calls_of_calls(body: str) -> None:
    """A function is looked at once for a level, and a call once for equal arguments."""
    texts = ["int[*] f0(int[*] x) { return x; }"]
    texts += [f"int[*] f{k + 1}(int[*] x) {{ return {body.format(k)}; }}" for k in range(24)]
    text = "\n".join(texts)
    assert tc.sac.demand(text, "S", entry="f24") == {"x": "S"}
    assert tc.sac.demand(text, "F", entry="f24") == {"x": "F"}
    shape = tc.sac.shape_function(text, entry="f24")
    assert len(shape) < 20_000
    found = tc.sac.interpret(shape, np.int32([3]), entry="f24_s").tolist()
    assert found == [3 * 2**24 if "++" in body else 3]


@pytest.mark.drawn(2)
@pytest.mark.parametrize("count", [8, 64])
def test_relaxations_in_a_row(count: int) -> None:
    steps = "".join(f"x{k + 1} = relax(x{k}); " for k in range(count))
    text = f"{RELAX} float[*] f(float[.] x0) {{ {steps}return x{count}; }}"
    wanted = x = np.arange(40, dtype="float32") % 7
    for _ in range(count):
        wanted = np.concatenate([wanted[:1], 0.5 * wanted[:-1] + 0.5 * wanted[1:]])
    found = tc.sac.compile(text, entry="f")(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    np.testing.assert_allclose(tc.sac.interpret(text, x, entry="f"), wanted, rtol=1e-5)


def _stepped(step: str, y: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return {
            "y = y + y; ": lambda: y + y,
            "y = { [i] -> y[i] + y[(i+1)%6] }; ": lambda: y + np.roll(y, -1),
            "if (sum(y) > 3) { y = y + 1; } else { y = y - 2; } ": lambda: (
                y + 1 if y.sum(dtype=y.dtype) > 3 else y - 2
            ),
            "y = y[0] > 3 ? y - 1 : y + y[1]; ": lambda: y - 1 if y[0] > 3 else y + y[1],
        }[step]()


CHAINS = [
    "y = y + y; ",
    "y = { [i] -> y[i] + y[(i+1)%6] }; ",
    "if (sum(y) > 3) { y = y + 1; } else { y = y - 2; } ",
    "y = y[0] > 3 ? y - 1 : y + y[1]; ",
]


@pytest.mark.drawn(4)
@pytest.mark.parametrize("kind", ["int32", "float32"])
@pytest.mark.parametrize("step", CHAINS)
def test_short_vectors_that_use_the_one_before_twice(step: str, kind: str) -> None:
    """The work of lowering does not double at every step."""
    if kind == "float32":
        step = step.replace("> 3", "> 3.0")
    text, a = f"y = a; {step * 28}y", np.array([1, 3, -2, 0, 2, 5], kind)
    want = a
    for _ in range(28):
        want = _stepped(step.replace("> 3.0", "> 3"), want)
    compiled = tc.sac.compile(text, backend="c")
    found = compiled(a=a)
    assert found.dtype == want.dtype
    np.testing.assert_allclose(found, want, rtol=1e-6)
    assert 26 <= len(compiled.lowered(a=a).text.splitlines()) <= 64


def test_constants_that_use_the_one_before_often() -> None:
    """A chain of known short vectors is known, and an index that is open chooses from its end."""
    text = f"y = [1,2]; {'y = y * 2 - y + y - [1,2]; ' * 12}{{ [i] -> a[i] + y[i%2] | [i] < [3] }}"
    y = np.int64([1, 2])
    for _ in range(12):
        y = y * 2 - [1, 2]
    compiled = tc.sac.compile(text, backend="c")
    assert compiled(a=np.int32([10, 20, 30])).tolist() == [10 + y[0], 20 + y[1], 30 + y[0]]
