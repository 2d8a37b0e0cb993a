"""Every wrong argument is a TCError that names the parameter; the messages are stored whole.

A refused call has written nothing, whatever backend it was for.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tests.api.evaluating import NEEDS_C

MESSAGES = Path(__file__).parent / "messages"
MM = tc.Source(
    "def mm(float(M,K) A, float(K,N) B) -> (C) {\n    C(m,n) +=! A(m,k) * B(k,n)\n}\n", "mm.tc"
)
SCALE = tc.Source(
    "def scale(float a, int8 k, bool on, half(N) x) -> (y, z) {\n"
    "    y(i) = on ? a * x(i) : x(i)\n    z(i) = k * x(i)\n}\n",
    "scale.tc",
)
TAKE = tc.Source("def take(float(N) X, int(M) I) -> (Y) { Y(i) = X(I(i)) }", "take.tc")
SGEMM = tc.Source(
    "def sgemm(float a, float b, float(N,M) A, float(M,K) B) -> (C) {\n"
    "    C(i,j) = b * C(i,j)\n    C(i,j) += a * A(i,k) * B(k,j)\n}\n",
    "sgemm.tc",
)
A = np.ones((2, 3), np.float32)
B = np.ones((3, 4), np.float32)
X = np.ones(5, np.float16)
BIG = np.zeros((8, 8), np.float32)


def mm(*inputs: Any, outputs: Any = None, **named: Any) -> Any:
    return tc.compile(MM, backend="interpret")(*inputs, outputs=outputs, **named)


def scale(*inputs: Any, outputs: Any = None) -> Any:
    return tc.compile(SCALE, backend="interpret")(*inputs, outputs=outputs)


def read_only() -> Any:
    array = np.empty((2, 4), np.float32)
    array.flags.writeable = False
    return array


def unaligned(shape: tuple[int, ...]) -> Any:
    raw = np.zeros(4 * int(np.prod(shape)) + 1, np.uint8)
    return raw[1:].view(np.float32).reshape(shape)


def overlapping() -> Any:
    y = np.empty(5, np.float32)
    return y, y.view(np.float16)[:5]


class Quantity(np.ndarray):
    """Its unit would be lost."""


class Color(enum.Enum):
    RED = 1


WRONG: dict[str, Callable[[], Any]] = {
    # how many, and which
    "too_few": lambda: mm(A),
    "too_many": lambda: mm(A, B, A),
    "none_at_all": lambda: mm(),
    "unknown_name": lambda: mm(A, D=B),
    "misspelt_name": lambda: tc.interpret(SCALE, {"a": 1.0, "k": 1, "onn": True, "x": X}),
    "size_as_input": lambda: mm(A, N=3),
    "given_twice": lambda: mm(A, A=A),
    "inputs_is_an_array": lambda: tc.interpret(MM, A),
    "key_is_no_name": lambda: tc.interpret(MM, {1: A, "B": B}),
    # what
    "list": lambda: mm(A.tolist(), B),
    "none": lambda: mm(None, B),
    "enum": lambda: scale(Color.RED, 1, True, X),
    "complex_number": lambda: scale(1j, 1, True, X),
    "number_for_array": lambda: mm(1.0, B),
    "masked": lambda: mm(np.ma.masked_array(A, A > 0), B),
    "subclass": lambda: mm(A.view(Quantity), B),
    "rank": lambda: mm(A[0], B),
    "array_for_scalar": lambda: scale(np.ones(3, np.float32), 1, True, X),
    "dtype": lambda: mm(A.astype(np.float64), B),
    "object_dtype": lambda: mm(A.astype(object), B),
    "structured_dtype": lambda: mm(np.zeros((2, 3), [("a", "f4"), ("b", "i4")]), B),
    "complex_dtype": lambda: mm(A.astype(np.complex128), B),
    "dict": lambda: mm({"A": A}, B),
    "byte_order": lambda: mm(A.astype(A.dtype.newbyteorder("S")), B),
    "sizes": lambda: mm(A, B.T),
    "rank_one_more": lambda: mm(A[None], B),
    "rank_part": lambda: mm(np.ones((4, 2, 3), np.float32), B),
    "int64": lambda: tc.interpret(TAKE, np.ones(3, np.float32), np.zeros(2, np.int64)),
    "out": lambda: mm(A, B, out=np.empty((2, 4), np.float32)),
    "out_of_several": lambda: tc.compile(SCALE, backend="interpret")(1.0, 1, True, X, y=X),
    "no_file": lambda: tc.compile(Path("no_such_file.tc")),
    # numbers
    "float_for_integer": lambda: scale(1.0, 3.0, True, X),
    "integer_too_large": lambda: scale(1.0, 128, True, X),
    "integer_huge": lambda: scale(1.0, 10**5000, True, X),
    "float_too_large": lambda: scale(1e39, 1, True, X),
    "integer_too_large_for_float": lambda: scale(10**400, 1, True, X),
    "integer_for_bool": lambda: scale(1.0, 1, 1, X),
    "scalar_dtype": lambda: scale(np.complex64(1), 1, True, X),
    "scalar_value": lambda: scale(np.float64(1e39), np.int64(1), True, X),
    "scalar_array": lambda: scale(1.0, np.array(200), True, X),
    # outputs
    "outputs_missing": lambda: tc.compile(SGEMM, backend="interpret")(1.0, 1.0, A, B),
    "outputs_unknown": lambda: mm(A, B, outputs={"D": np.empty((2, 4), np.float32)}),
    "outputs_count": lambda: scale(1.0, 1, True, X, outputs=[X.copy()]),
    "outputs_not_one": lambda: scale(1.0, 1, True, X, outputs=X.copy()),
    "output_none": lambda: mm(A, B, outputs={"C": None}),
    "output_list": lambda: mm(A, B, outputs=[[1.0]]),
    "output_dtype": lambda: mm(A, B, outputs=np.empty((2, 4))),
    "output_shape": lambda: mm(A, B, outputs=np.empty((4, 2), np.float32)),
    "output_rank": lambda: mm(A, B, outputs=np.empty(8, np.float32)),
    "output_read_only": lambda: mm(A, B, outputs=read_only()),
    "output_column_major": lambda: mm(A, B, outputs=np.empty((4, 2), np.float32).T),
    "output_strided": lambda: mm(A, B, outputs=np.empty((2, 8), np.float32)[:, ::2]),
    "output_unaligned": lambda: mm(A, B, outputs=unaligned((2, 4))),
    "output_is_input": lambda: mm(BIG, BIG.copy(), outputs=BIG),
    "output_in_input": lambda: mm(BIG[:2, :3], B, outputs=BIG[1:2].reshape(2, 4)),
    "outputs_overlap": lambda: scale(1.0, 1, True, X, outputs=overlapping()),
    # the rest
    "no_backend": lambda: tc.compile(MM, backend="fortran"),
    "check": lambda: tc.compile(MM, backend="interpret", check="yes"),  # type: ignore[arg-type]
    "options": lambda: tc.compile(MM, backend="interpret", options=3),  # type: ignore[arg-type]
    "threads": lambda: tc.Options(threads=0),
    "source": lambda: tc.compile(b"def f() -> (o) { o() = 1 }"),  # type: ignore[arg-type]
    "entry_type": lambda: tc.compile(MM, entry=3),  # type: ignore[arg-type]
    "entry_unknown": lambda: tc.compile(MM, entry="nn"),
    "emit_interpret": lambda: tc.emit(MM, [A, B], backend="interpret"),
    "source_interpret": lambda: tc.compile(MM, backend="interpret").source(A, B),
    # sizes
    "size_missing": lambda: tc.explain(MM, {"M": 3}),
    "size_negative": lambda: tc.explain(MM, {"M": -3, "K": 2, "N": 2}),
    "size_is_float": lambda: tc.explain(MM, {"M": 3.0, "K": 2, "N": 2}),
    "size_unknown": lambda: tc.explain(MM, {"M": 3, "k": 2, "N": 2}),
    "size_disagrees": lambda: tc.explain(MM, {"A": A, "K": 4, "N": 2}),
    "sizes_as_set": lambda: tc.explain(MM, {3}),
    "sizes_too_few": lambda: tc.explain(MM, [A]),
    "shape_rank": lambda: tc.explain(MM, {"A": (3,), "B": B}),
    "shape_entry": lambda: tc.explain(MM, {"A": (3, "x"), "B": B}),
}


@pytest.mark.parametrize("name", WRONG)
def test_message(name: str, golden: Callable[[Path, str], None]) -> None:
    with pytest.raises(tc.TCError) as caught:
        WRONG[name]()
    golden(MESSAGES / f"{name}.txt", str(caught.value))


def test_every_message_has_a_case() -> None:
    assert {path.stem for path in MESSAGES.glob("*.txt")} == set(WRONG)


def test_nan_and_infinity_are_fine() -> None:
    a = A.copy()
    a[0, 0], a[1, 1] = np.nan, np.inf
    result = mm(a, B)
    assert np.isnan(result[0]).all()
    assert np.isinf(result[1]).all()
    y, _ = scale(float("nan"), 1, True, X)
    assert np.isnan(y).all()
    assert np.isinf(scale(float("-inf"), 1, True, X)[0]).all()


@pytest.mark.parametrize(
    "value",
    [object(), "text", b"bytes", {"a": 1}, {1}, lambda: 1, range(3), np.str_("x"), np.void(b"ab"),
     np.datetime64("2020"), [], (), iter([]), type, np.float32, Exception("e"),
     np.array("text"), np.array([None, 1]), np.zeros((1,) * 32, np.float32),
     np.recarray((2,), "f4")],
    ids=lambda v: type(v).__name__,
)  # fmt: skip
def test_any_object_is_an_input_error(value: Any) -> None:
    for call in (
        lambda: mm(value, B),
        lambda: scale(value, 1, True, X),
        lambda: mm(A, B, outputs=[value]),
        lambda: tc.explain(MM, {"A": value, "B": B}),
    ):
        with pytest.raises(tc.InputError):
            call()
    if not isinstance(value, list | tuple):
        with pytest.raises(tc.InputError):
            tc.interpret(MM, value)


class Hostile:
    """An array whose every question fails."""

    def __dlpack_device__(self) -> Any:
        raise ZeroDivisionError("no device")

    def __dlpack__(self, **_: Any) -> Any:
        raise ZeroDivisionError("no data")


def test_hostile_array() -> None:
    with pytest.raises(tc.InputError, match="ZeroDivisionError: no device"):
        mm(Hostile(), B)


@pytest.mark.parametrize("backend", ["interpret", "numba"])
def test_a_refused_call_writes_nothing(backend: str) -> None:
    """Rule R4: all outputs are checked before the first is written."""
    function = tc.compile(SCALE, backend=backend)
    y, z, short = np.full(5, 7, np.float32), np.full(5, 7, np.float16), np.full(4, 7, np.float16)
    for inputs, outputs in (
        ((1.0, 1, True, X), {"y": y, "z": short}),
        ((1.0, 1.5, True, X), {"y": y}),
        ((1.0, 1, True, X[:, None]), {"y": y}),
        ((1.0, 1, True, X), {"y": y, "z": y.view(np.float16)[:5]}),
        ((1.0, 1, True, z), {"y": y, "z": z}),
    ):
        with pytest.raises(tc.InputError):
            function(*inputs, outputs=outputs)
        assert (y == 7).all()
        assert (z == 7).all()


@pytest.mark.parametrize("backend", ["interpret", "numba", NEEDS_C])
def test_what_fails_is_not_remembered(backend: str) -> None:
    function = tc.compile(MM, backend=backend)
    for _ in range(2):
        with pytest.raises(tc.InputError):
            function(A, B.T)
    assert (function(A, B) == 3).all()
