"""Operators and functions on bits (Y11, Y12) beside numpy and Python's integers: all types, all
counts, all bits of halves, on each backend that runs here."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import tc
from tc.errors import CheckError
from tests.support.opencl import MISSING

TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
BACKENDS = ["numba", "c", *([] if MISSING else ["opencl"])]
SIZE = 53
"""Of vectors: odd, so that some elements are left over."""


def values(dtype: str) -> np.ndarray:
    """The edges of a type, and what a generator draws."""
    info = np.iinfo(dtype)
    edges = [0, 1, 2, 3, info.max, info.max - 1, info.min, info.min + 1, info.max // 3]
    rng = np.random.default_rng(len(dtype) + info.bits)
    drawn = rng.integers(info.min, info.max, SIZE - len(edges), dtype, endpoint=True)
    return np.array([*np.array(edges, dtype), *drawn])


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    a = values(dtype)
    return a, a[::-1].copy() if dtype != "uint64" else np.roll(a, 7)


def run(text: str, *inputs: Any, backend: str = "interpret") -> tuple[np.ndarray, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.TCWarning)
        if backend == "interpret":
            found = tc.interpret(text, list(inputs))
        else:
            found = tc.compile(text, backend=backend)(*inputs)
    return found if isinstance(found, tuple) else (found,)


def same(found: tuple[np.ndarray, ...], expected: list[Any], dtype: str) -> None:
    for result, value in zip(found, expected, strict=True):
        assert result.dtype == dtype
        assert result.tolist() == np.array(value, dtype).tolist()


def wrapped(value: int, dtype: str) -> int:
    info = np.iinfo(dtype)
    return (value - info.min) % (1 << info.bits) + info.min


@pytest.mark.drawn(3)
@pytest.mark.parametrize("backend", ["interpret", *BACKENDS])
@pytest.mark.parametrize("dtype", TYPES)
def test_operators(dtype: str, backend: str) -> None:
    a, b = pairs(dtype)
    text = (
        f"def f({dtype}(N) a, {dtype}(N) b) -> (x, y, z, n) {{ x(i) = a(i) & b(i) "
        "y(i) = a(i) | b(i)  z(i) = a(i) ^ b(i)  n(i) = ~a(i) }"
    )
    same(run(text, a, b, backend=backend), [a & b, a | b, a ^ b, ~a], dtype)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("backend", ["interpret", *BACKENDS])
@pytest.mark.parametrize("dtype", TYPES)
def test_shifts_by_every_count(dtype: str, backend: str) -> None:
    """A count out of range shifts everything out, whatever its type."""
    bits = np.iinfo(dtype).bits
    counts = [*range(-3, bits + 4), 100, -128, 127]
    a, n = zip(*itertools.product(values(dtype)[:12].tolist(), counts), strict=True)
    inside = [0 <= k < bits for k in n]
    left = [wrapped(x << k, dtype) if ok else 0 for x, k, ok in zip(a, n, inside, strict=True)]
    right = [x >> k if ok else -(x < 0) for x, k, ok in zip(a, n, inside, strict=True)]
    for count in ("int8", "int64"):
        text = (
            f"def f({dtype}(N) a, {count}(N) n) -> (l, r) "
            "{ l(i) = a(i) << n(i)  r(i) = a(i) >> n(i) }"
        )
        given = np.array(a, dtype), np.array(n, count)
        same(run(text, *given, backend=backend), [left, right], dtype)


@pytest.mark.parametrize("backend", BACKENDS)
def test_counts_of_other_types(backend: str) -> None:
    """A count of 256 is not 0 where the left side has eight bits."""
    given = []
    for count in TYPES:
        most = np.iinfo(count).max
        given.append(np.array([k for k in (0, 1, 7, 8, 64, 256, most) if k <= most], count))
    inputs = ", ".join(f"{count}(N{n}) n{n}" for n, count in enumerate(TYPES))
    outputs = ", ".join(f"o{n}" for n in range(len(TYPES)))
    shifts = "  ".join(f"o{n}(i) = a << n{n}(i)" for n in range(len(TYPES)))
    for left in TYPES:
        text = f"def f({left} a, {inputs}) -> ({outputs}) {{ {shifts} }}"
        bits = np.iinfo(left).bits
        expected = [
            [wrapped(3 << k, left) if k < bits else 0 for k in counts.tolist()] for counts in given
        ]
        same(run(text, np.array(3, left), *given, backend=backend), expected, left)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("backend", ["interpret", *BACKENDS])
@pytest.mark.parametrize("dtype", TYPES)
def test_counts_of_bits(dtype: str, backend: str) -> None:
    a = values(dtype)
    bits = np.iinfo(dtype).bits
    plain = [x & ((1 << bits) - 1) for x in a.tolist()]
    text = f"def f({dtype}(N) a) -> (p, z) {{ p(i) = popc(a(i))  z(i) = clz(a(i)) }}"
    ones, zeros = [x.bit_count() for x in plain], [bits - x.bit_length() for x in plain]
    same(run(text, a, backend=backend), [ones, zeros], "int32")


@pytest.mark.drawn(3)
@pytest.mark.parametrize("backend", ["interpret", *BACKENDS])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [0, SIZE, 400])
def test_reductions(dtype: str, size: int, backend: str) -> None:
    a = np.resize(values(dtype), (3, size))
    text = (
        f"def f({dtype}(N,M) a) -> (x, y, z) "
        "{ x(i) &=! a(i,j)  y(i) |=! a(i,j)  z(i) ^=! a(i,j) }"
    )
    ufuncs = (np.bitwise_and, np.bitwise_or, np.bitwise_xor)
    expected = [ufunc.reduce(a, axis=1, dtype=dtype) for ufunc in ufuncs]
    same(run(text, a, backend=backend), expected, dtype)


@pytest.mark.parametrize("backend", ["interpret", *BACKENDS])
def test_conditions(backend: str) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.random((4, 70)) < 0.97, rng.random((4, 70)) < 0.03
    text = (
        "def f(bool(N,M) a, bool(N,M) b) -> (x, y, z, all, any, odd) { x(i,j) = a(i,j) & b(i,j) "
        "y(i,j) = a(i,j) | b(i,j)  z(i,j) = a(i,j) ^ b(i,j) "
        "all(i) &=! a(i,j)  any(i) |=! b(i,j)  odd(i) ^=! a(i,j) }"
    )
    expected = [a & b, a | b, a ^ b, a.all(1), b.any(1), a.sum(1) % 2 == 1]
    same(run(text, a, b, backend=backend), expected, "bool")


@pytest.mark.parametrize("backend", ["interpret", *BACKENDS])
def test_continued_reductions(backend: str) -> None:
    """`|=` goes on from what the tensor holds (R3)."""
    a = np.uint8([[1, 2], [4, 64]])
    text = "def f(uint8(N,M) a) -> (o) { o(i) = 16  o(i) |= a(i,j)  o(i) ^= a(i,j) }"
    joined = [16 | 1 | 2, 16 | 4 | 64]
    same(run(text, a, backend=backend), [[joined[0] ^ 1 ^ 2, joined[1] ^ 4 ^ 64]], "uint8")


@pytest.mark.parametrize("backend", ["interpret", *BACKENDS])
def test_every_half_and_back(backend: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    text = "def f(uint16(N) u, half(N) h) -> (o, b) { o(i) = half_of(u(i))  b(i) = bits(h(i)) }"
    halves, words = run(text, every, every.view(np.float16), backend=backend)
    is_nan = np.isnan(every.view(np.float16))
    assert halves.dtype == np.float16
    assert words.dtype == np.uint16
    assert (halves.view(np.uint16) == every)[~is_nan].all()
    assert np.isnan(halves[is_nan]).all()
    assert (words == every).all()


@pytest.mark.parametrize("backend", ["interpret", *BACKENDS])
@pytest.mark.parametrize(("name", "dtype"), [("float32", "uint32"), ("float64", "uint64")])
def test_bits_of_floats_and_back(name: str, dtype: str, backend: str) -> None:
    words = np.array([*values(dtype), *np.array([0, -0.0, 1, np.inf, -np.inf], name).view(dtype)])
    floats = words.view(name)
    text = (
        f"def f({dtype}(N) u, {name}(N) x) -> (o, b) "
        f"{{ o(i) = {name}_of(u(i))  b(i) = bits(x(i)) }}"
    )
    found, seen = run(text, words, floats, backend=backend)
    known = ~np.isnan(floats)
    assert found.dtype == name
    assert (found.view(dtype) == words)[known].all()
    assert seen.dtype == dtype
    assert (seen == words)[known].all()


@pytest.mark.parametrize(
    ("expression", "dtype"),
    [
        ("a(i) & b(i)", "int16"),  # of int8 with uint8, as sums (Y2)
        ("b(i) & 15", "uint8"),
        ("b(i) ^ i", "int32"),
        ("a(i) << w(i)", "int8"),
        ("w(i) >> a(i)", "uint64"),
        ("1 << b(i)", "int32"),
        ("~b(i)", "uint8"),
        ("popc(w(i))", "int32"),
        ("c(i) & c(i)", "bool"),
        ("bits(h(i))", "uint16"),
        ("bits(h(i) * 2)", "uint16"),
        ("bits(1.5)", "uint32"),
        ("half_of(bits(h(i)))", "float16"),
        ("~0", "int32"),
        ("1 << 40", "int64"),
    ],
)
def test_types(expression: str, dtype: str) -> None:
    text = (
        "def f(int8(N) a, uint8(N) b, uint64(N) w, bool(N) c, half(N) h) -> (o) "
        f"{{ o(i) = {expression} where i in 0:2 }}"
    )
    inputs = [np.ones(2, t) for t in ("int8", "uint8", "uint64", "bool", "float16")]
    assert run(text, *inputs)[0].dtype == dtype


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("b(i) & ~15", 0xA5 & 0xF0),
        ("b(i) | ~0", 0xFF),
        ("b(i) ^ ~0xF0", 0xA5 ^ 0x0F),
        ("w(i) & ~1", 0xA4),
        ("w(i) | 1 << 63", 0xA5 | 1 << 63),
        ("0xA5 ^ 0x5A", 0xFF),
        ("6 & 3 | 8 ^ 1", 11),
        ("-1 >> 3", -1),
        ("7 >> 1 << 2", 12),
    ],
)
def test_literals(expression: str, expected: int) -> None:
    """`~` gives the bits of the type that literals meet."""
    text = f"def f(uint8(N) b, uint64(N) w) -> (o) {{ o(i) = {expression} where i in 0:1 }}"
    assert run(text, np.uint8([0xA5]), np.uint64([0xA5]))[0].tolist() == [expected]


def test_literals_that_do_not_fit() -> None:
    for expression in ("b(i) & ~511", "b(i) & -1", "b(i) & 256"):
        with pytest.raises(CheckError, match="does not fit uint8"):
            run(f"def f(uint8(N) b) -> (o) {{ o(i) = {expression} }}", np.uint8([1]))


@pytest.mark.parametrize("backend", ["interpret", *BACKENDS])
def test_subscripts_as_quotients_and_remainders(backend: str) -> None:
    """Ranges follow from shifts and masks by literals as from `/ * %` (G2)."""
    x, y = np.arange(20, dtype=np.float32), np.arange(4, dtype=np.float32) * 100
    halves = run("def f(float(N) x) -> (o) { o(i) = x(i >> 1) }", x, backend=backend)
    same(halves, [np.repeat(x, 2)], "float32")
    twice = run("def f(float(N) x) -> (o) { o(i) = x(i << 1) }", x, backend=backend)
    same(twice, [x[::2]], "float32")
    text = "def f(float(N) x, float(4) y) -> (o) { o(i) = x(i) + y(i & 3) + y(7 - i & 3) }"
    places = np.arange(20)
    expected = x + y[places % 4] + y[(7 - places) % 4]
    same(run(text, x, y, backend=backend), [expected], "float32")


def test_masks_prove_subscripts() -> None:
    """`(n & 7)` of data is within 0:8, and needs no check."""
    text = "def f(float(8) t, int(N) n) -> (o) { o(i) = t(n(i) & 7) + t(clz(n(i)) >> 3) }"
    kernel = tc.emit(text, {"N": 64})
    assert not kernel.kernel.sites
    n = np.int32([-1, 0, 9, 2**31 - 1])
    expected = [(k & 7) + ((32 - (k & 0xFFFFFFFF).bit_length()) >> 3) for k in n.tolist()]
    table = np.arange(8, dtype=np.float32)
    assert run(text, table, n, backend="numba")[0].tolist() == expected


def test_bounds_of_ranges() -> None:
    """Shifts, masks and `~` in bounds of a `where`, where they are numbers of the call (G8)."""
    x = np.arange(37, dtype=np.float32)
    found = run("def f(float(N) x) -> (o) { o(i) = x(i) where i in N & 3:(N >> 1 | 1) }", x)[0]
    assert found.tolist() == [0, *range(1, 19)]
    text = "def f(float(N) x) -> (o) { o +=! x(i) where i in 0:N & ~7 }"
    for backend in ("interpret", "numba"):
        assert run(text, x, backend=backend)[0] == sum(range(32))


@pytest.mark.parametrize("end", ["(N ^ 1) - d", "(3 & 2) - d", "(N & ~1) - d", "(1 << c) - d"])
@pytest.mark.parametrize("backend", ["interpret", *BACKENDS])
def test_bits_of_sizes_beside_an_index_variable(end: str, backend: str) -> None:
    """What sizes alone give is a constant (G2): the range is a dependent one, which ends at 2 (W2),
    and not a part of the box of what `o` has."""
    text = f"def f(int(N) x, int c) -> (o) {{ o(m) +=! x(0) where d in 0:2, m in 0:{end} }}"
    (found,) = run(text, np.int32([5, 6, 7]), 1, backend=backend)
    assert found.tolist() == [10, 5]
    (found,) = run(
        text.replace("o(m)", f"o(m + ({end}) + d)"), np.int32([5, 6, 7]), 1, backend=backend
    )
    assert found.tolist() == [0, 0, 10, 5]


def test_names_of_tensors_come_first() -> None:
    """A function yields to a tensor of its name (Y7)."""
    text = "def f(float(N) bits, float(N) popc) -> (o) { o(i) = bits(i) + popc(i) }"
    assert run(text, np.float32([1]), np.float32([2]))[0].tolist() == [3]


def test_both_sides_are_evaluated() -> None:
    """`&` of bools is not lazy, as `&&` is (Y6)."""
    text = "def f(float(N) x, int(N) n) -> (o) {{ o(i) = n(i) < 2 {} x(n(i)) > 0 }}"
    x, n = np.float32([1, 2]), np.int32([0, 5])
    assert run(text.format("&&"), x, n)[0].tolist() == [True, False]
    with pytest.raises(tc.TCError, match=r"reads x\(5\)"):
        run(text.format("&"), x, n)
