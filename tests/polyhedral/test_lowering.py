"""Programs through all stages to a kernel, run by `evaluate` and compared with numpy.

The texts of whole kernels are kept in tests/expected/NAME/kernel.txt.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tc.errors import InternalError
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import Failure, For, Kernel
from tc.kernel.printer import to_text
from tc.semantics.program import ShapedProgram
from tests.polyhedral.builders import lower
from tests.support.pipeline import checked, evaluate_kernel, shaped

EXPECTED = Path(__file__).parent.parent / "expected"
PROGRAMS = Path(__file__).parent.parent / "programs"
RNG = np.random.default_rng(7)


def shape(text: str, entry: str | None = None, **inputs: Any) -> ShapedProgram:
    """An input is an array, a number, or just a shape."""
    arrays = {n: np.zeros(a) if isinstance(a, tuple) else np.asarray(a) for n, a in inputs.items()}
    return shaped(checked(text, entry), arrays)


def kernel(text: str, *initial: str, check: bool = True, **inputs: Any) -> Kernel:
    return lower(shape(text, **inputs), {}, initial=frozenset(initial), check=check)


def outputs(text: str, given: dict[str, Any] | None = None, **inputs: Any) -> list[Any]:
    results = evaluate_kernel(text, inputs, outputs=given)
    return [array.tolist() for array in results.values()]


# --- whole kernels ----------------------------------------------------------------------------

WHOLE: dict[str, dict[str, Any]] = {
    "mm": {"A": (3, 4), "B": (4, 5)},
    "gather": {"X": (11,), "I": (3, 5)},
    "sconv2d": {"sh": 2, "sw": 1, "I": (1, 2, 7, 5), "W": (3, 2, 3, 2), "B": (3,)},
    "MLP1": {"I": (2, 3), "W1": (4, 3), "B1": (4,)},
    "softmax": {"I": (3, 4)},
    "prodModel": {
        "LUT1": (9, 3), "I1": (2, 4), "LUT2": (8, 3), "I2": (2, 5), "I3": (2, 6), "W": (7, 6),
        "W1": (3, 13), "B1": (3,), "W2": (4, 3), "B2": (4,), "W3": (3, 4), "B3": (3,),
        "W4": (2, 3), "B4": (2,),
    },
    "conv_pad": {"I": (1, 2, 4, 5), "F": (2, 2, 3, 3)},
    "half_dot": {"A": (2, 5), "B": (3, 5), "s": ()},
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_whole_kernel(name: str, golden: Callable[[Path, str], None]) -> None:
    text = (PROGRAMS / f"{name}.tc").read_text(encoding="utf-8")
    entry = text.split("def ")[-1].split("(")[0]
    program = shape(text, entry, **WHOLE[name])
    lowered = lower(program, {}, initial=frozenset(), check=True)
    golden(EXPECTED / name / "kernel.txt", to_text(lowered))


def test_lowering_twice_gives_one_text() -> None:
    text = (PROGRAMS / "prodModel.tc").read_text(encoding="utf-8")
    program = shape(text, "prodModel", **WHOLE["prodModel"])
    first, second = (to_text(lower(program, {}, initial=frozenset(), check=True)) for _ in range(2))
    assert first == second


# --- reductions -------------------------------------------------------------------------------

A23 = RNG.integers(-9, 9, (2, 3)).astype(np.float32)
SUM = "def f(float(N,K) A) -> (o) {{ o(i) {} A(i,k) }}"


@pytest.mark.parametrize(
    ("op", "numpy"),
    [("+=", np.add), ("*=", np.multiply), ("min=", np.minimum), ("max=", np.maximum)],
)
def test_reduction_operators(op: str, numpy: np.ufunc) -> None:  # R2, R3
    expected = numpy.reduce(A23, axis=1)
    start = np.array([3.0, -4.0], np.float32)
    assert outputs(SUM.format(op + "!"), A=A23) == [expected.tolist()]
    assert outputs(SUM.format(op + "!"), {"o": start.copy()}, A=A23) == [expected.tolist()]
    continued = numpy(start, expected).tolist()
    assert outputs(SUM.format(op), {"o": start.copy()}, A=A23) == [continued]


@pytest.mark.filterwarnings("ignore::tc.errors.TCWarning")
@pytest.mark.parametrize(
    ("op", "value"), [("+=", 0.0), ("*=", 1.0), ("min=", np.inf), ("max=", -np.inf)]
)
def test_empty_reduction_leaves_the_identity(op: str, value: float) -> None:  # R2, R3
    empty = np.zeros((2, 0), np.float32)
    assert outputs(SUM.format(op + "!"), A=empty) == [[value] * 2]
    assert outputs(SUM.format(op), A=empty) == [[value] * 2]
    start = np.array([3.0, -4.0], np.float32)
    assert outputs(SUM.format(op), {"o": start}, A=empty) == [[3.0, -4.0]]


def test_count_without_inputs() -> None:  # R1
    assert outputs("def f(float a) -> (o) { o +=! 1 where k in 0:3 }", a=0) == [3]


def test_second_reduction_continues_and_whole_tensors_count() -> None:  # R3, G4
    text = """def f(float(N) a, float(M) b) -> (o) {
      o(i) +=! b(i) where i in 0:4
      o(i) += a(i) where i in 2:4
    }"""
    a, b = np.arange(4), np.arange(10.0, 14.0)
    assert outputs(text, a=a, b=b) == [[10, 11, 12 + 2, 13 + 3]]


# --- zeros: rule G4 ---------------------------------------------------------------------------

SHIFTED = "def f(float(N) a) -> (o) { o(i) = a(i-2) where i in 2:N }"


def test_elements_that_nothing_writes_are_zero() -> None:  # G4
    a = np.arange(1.0, 7.0)
    assert outputs(SHIFTED, a=a) == [[0, 0, 1, 2, 3, 4]]
    assert "# o is 0 where nothing writes it" in to_text(kernel(SHIFTED, a=(6,)))


def test_elements_of_the_caller_are_untouched() -> None:  # G4
    start = np.full(6, 7.0, np.float32)
    assert outputs(SHIFTED, {"o": start}, a=np.arange(1.0, 7.0)) == [[7, 7, 1, 2, 3, 4]]
    lowered = kernel(SHIFTED, "o", a=(6,))
    assert len(lowered.regions) == 1
    assert lowered.initial == {"o"}


def test_concat_fills_nothing() -> None:  # N4
    text = "def f(float(N,K) a, float(N,L) b) -> (o) { o = concat(a, b) }"
    a, b = RNG.integers(0, 9, (2, 3)), RNG.integers(0, 9, (2, 1))
    assert outputs(text, a=a, b=b) == [np.concatenate((a, b), axis=1).tolist()]
    assert len(kernel(text, a=(2, 3), b=(2, 1)).regions) == 2


# --- in-place, lazy, padded, checked ----------------------------------------------------------


def test_in_place_update() -> None:  # P1
    text = "def f(float b, float(N) A) -> (C) { C(i) = A(i)  C(i) = b * C(i) + A(i) }"
    a = np.arange(5.0)
    assert outputs(text, b=3, A=a) == [(4 * a).tolist()]


def test_caller_output_is_read() -> None:  # R4
    text = "def f(float b, float(N) A) -> (C) { C(i) = b * C(i) + A(i) }"
    start = np.arange(3, dtype=np.float32)
    assert outputs(text, {"C": start.copy()}, b=2, A=[1, 1, 1]) == [[1, 3, 5]]


def test_pad_folds_tests_that_hold() -> None:  # G9
    text = "def f(float(C,N) a) -> (o) { o(c,i) = pad(a(c,i-1), 9) where i in 0:4 }"
    a = np.arange(8.0).reshape(2, 4)
    assert outputs(text, a=a) == [[[9, 0, 1, 2], [9, 4, 5, 6]]]
    (region,) = kernel(text, a=(2, 4)).regions
    assert "i >= 1 ? " in to_text(kernel(text, a=(2, 4)))
    assert isinstance(region[-1], For)


def test_gather_failure_names_its_read() -> None:  # G7
    text = (PROGRAMS / "gather.tc").read_text(encoding="utf-8")
    lowered = kernel(text, X=(11,), I=(2, 2))
    arrays = {
        "X": np.zeros(11, np.float32),
        "I": np.array([[1, 2], [3, 11]], np.int32),
        "Z": np.empty((2, 2), np.float32),
    }
    assert evaluate(lowered, arrays) == Failure(0, (1, 1, 11))
    assert lowered.sites[0].kind == "read"
    assert lowered.sites[0].variables == ("i", "j")
    unchecked = kernel(text, check=False, X=(11,), I=(2, 2))
    assert not unchecked.sites
    with pytest.raises(InternalError, match="outside of shape"):
        evaluate(unchecked, arrays)


def test_lazy_branch_is_not_checked() -> None:  # Y6
    text = """def f(float(N) a, int(M) I) -> (o) { o(i) = I(i) < 0 ? 0 : a(I(i)) }"""
    assert outputs(text, a=[5, 6], I=[1, -7, 0]) == [[6, 0, 5]]


def test_strides_of_inputs_are_kept() -> None:
    text = "def f(float(N) a) -> (o) { o(i) = a(i) }"
    lowered = lower(shape(text, a=(4,)), {"a": (-3,)}, initial=frozenset(), check=True)
    assert lowered.buffer("a").strides == (-3,)
    assert lowered.buffer("o").strides == (1,)


def test_outermost_loop_that_has_several_iterations_is_parallel() -> None:
    text = "def f(float(A,B,C) a) -> (o) { o(i,j) +=! a(i,j,k) }"
    ((_, loop),) = kernel(text, a=(1, 4, 3)).regions
    assert isinstance(loop, For)
    assert (loop.var, loop.parallel) == ("j", True)
    (region,) = kernel(text, a=(1, 1, 3)).regions
    (inner,) = (stmt for stmt in region if isinstance(stmt, For))
    assert (inner.var, inner.parallel) == ("k", False)


def test_comment_is_one_line_without_comments() -> None:
    text = "def f(float(N) a) -> (o) {\n  o(i) = # one */ \\\n  a(i)\n}"
    assert "  # o(i) = a(i)" in to_text(kernel(text, a=(4,))).split("\n")


def test_indices_named_like_tensors_of_another_def() -> None:  # N1
    text = """
      def g(float(N) x) -> (y) { y(a) = x(a) + a }
      def f(float(N) a) -> (y) { y = g(a) }
    """
    program = shape(text, "f", a=np.zeros(3))
    lowered = lower(program, {}, initial=frozenset(), check=True)
    out = np.empty(3, np.float32)
    evaluate(lowered, {"a": np.ones(3, np.float32), "y": out})
    assert out.tolist() == [1, 2, 3]
