"""Integers wrap in their types, also where tc computes in int64: subscripts, conditions (Y9)."""

from __future__ import annotations

import numpy as np
import pytest

import tc.sac

BIG = np.uint64(2**64 - 6)
X = np.int32([10, 20, 30, 40])
N = np.uint8([130, 2, 250])


def wrapped(values: list[int], kind: str) -> list[int]:
    """Whole numbers in an integer type, by Python's integers."""
    info = np.iinfo(kind)
    return [(v - int(info.min)) % 2**info.bits + int(info.min) for v in values]


COMPARISONS = [
    ("k + k < 0", {"k": np.int8(100)}, wrapped([200], "int8")[0] < 0),
    ("k + 1 < 0", {"k": np.int32(2**31 - 1)}, wrapped([2**31], "int32")[0] < 0),
    ("-k < 0", {"k": np.int8(-128)}, wrapped([128], "int8")[0] < 0),
    ("-k < 0", {"k": np.uint8(3)}, wrapped([-3], "uint8")[0] < 0),
    ("(k + k) / 2 == 100", {"k": np.int8(100)}, wrapped([200], "int8")[0] // 2 == 100),
    ("int(k + k) < 0", {"k": np.int8(100)}, wrapped([200], "int8")[0] < 0),
    ("max(k + k, k) == k", {"k": np.int8(100)}, max(wrapped([200], "int8")[0], 100) == 100),
    ("bool(k + k + 56)", {"k": np.int8(100)}, wrapped([256], "int8")[0] != 0),
    ("!(k - 5 > 100)", {"k": np.uint8(3)}, not wrapped([-2], "uint8")[0] > 100),
    ("k < u", {"k": BIG, "u": np.uint64(4)}, int(BIG) < 4),
    ("u < k", {"k": BIG, "u": np.uint64(4)}, int(BIG) > 4),
    ("3 < k", {"k": BIG}, int(BIG) > 3),
    ("uint64(-6) <= u", {"u": np.uint64(4)}, int(BIG) <= 4),
    ("(u - k) / 2 > u", {"k": np.uint64(6), "u": np.uint64(4)}, (2**64 - 2) // 2 > 4),
    (
        "{ [i] -> i < k + k | [i] < [3] }",
        {"k": np.int8(100)},
        [i < wrapped([200], "int8")[0] for i in range(3)],
    ),
    (
        "{ [i] -> int8(i) * int8(4) < 0 | [i] < [40] }",
        {},
        [v < 0 for v in wrapped([4 * i for i in range(40)], "int8")],
    ),
    (
        "{ [i] -> uint64(i) - uint64(3) < uint64(100) | [i] < [5] }",
        {},
        [v < 100 for v in wrapped([i - 3 for i in range(5)], "uint64")],
    ),
    (  # an index takes the type of what it meets
        "{ [i] -> -i > u % 8 | [i] < [3] }",
        {"u": np.uint64(12)},
        [v > 4 for v in wrapped([-i for i in range(3)], "uint64")],
    ),
    (
        "if (k - 5 > 100) { y = x; } else { y = -x; } y",
        {"k": np.uint8(3), "x": X},
        X.tolist() if wrapped([-2], "uint8")[0] > 100 else (-X).tolist(),
    ),
]

DOUBLED = wrapped([2 * int(n) for n in N], "uint8")

SUBSCRIPTS = [
    (
        "{ [i] -> x[(uint8(i) - k) % 3] | [i] < [6] }",
        {"x": X, "k": np.uint8(3)},
        [int(X[v % 3]) for v in wrapped([i - 3 for i in range(6)], "uint8")],
    ),
    ("{ [i] -> x[(n[i] + n[i]) / 2 % 4] }", {}, [int(X[d // 2 % 4]) for d in DOUBLED]),
    ("{ [i] -> x[max(n[i] + n[i], uint8(1)) % 4] }", {}, [int(X[max(d, 1) % 4]) for d in DOUBLED]),
    ("{ [i] -> x[n[i] + n[i] > 100 ? 1 : 2] }", {}, [int(X[1 if d > 100 else 2]) for d in DOUBLED]),
    ("{ [i] -> x[int(n[i] + n[i]) % 3] }", {}, [int(X[d % 3]) for d in DOUBLED]),
    (  # a condition of floats in an index, by a variable that is written in its place
        "y = (f[0] <= (t + 3) / 2) * 3; x[y % 4]",
        {"x": X, "f": np.float32([2]), "t": np.uint16(65535)},
        int(X[3 * (wrapped([65538], "uint16")[0] // 2 >= 2)]),
    ),
]


@pytest.mark.parametrize("backend", ["interpret", "c", "numba"])
def test_comparisons(backend: str) -> None:
    for text, inputs, want in COMPARISONS:
        found = tc.sac.compile(text, backend=backend)(inputs)
        assert np.asarray(found).tolist() == want, text


@pytest.mark.parametrize("backend", ["interpret", "c", "numba"])
def test_subscripts(backend: str) -> None:
    for text, given, want in SUBSCRIPTS:
        inputs = given or {"x": X, "n": N}
        text = text if "|" in text else text.replace(" }", " | [i] < [3] }")
        found = tc.sac.compile(text, backend=backend)(inputs)
        assert np.asarray(found).tolist() == want, text


def test_what_stays_in_its_type_is_compared_as_it_is() -> None:
    text = tc.sac.compile("k < 5 ? k + 1 : k - 1").lowered(k=np.int32(3)).text
    assert "k < 5 ? k + 1 : k - 1" in text
