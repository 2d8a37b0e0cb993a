"""What the lowering writes out: elements of index vectors, weights, folds whose indices wrap."""

from __future__ import annotations

import numpy as np
import pytest

import tc.sac

UNIT = "int[.] unit(int axis, int d) { return { [k] -> k == axis ? 1 : 0 | [k] < [d] }; }\n"
MIRRORED = UNIT + (
    "int[d] mirrored(int[d] iv, int[d] s) { return min(abs(iv), 2 * s - 2 - abs(iv)); }\n"
    "int[*] f(int[d:s] a, int[r] w)\n"
    "{ return { iv -> sum({ [k] -> w[k] * a[mirrored(iv + (k - 2) * unit(0, d), s)] }) "
    "| iv < s }; }"
)
STENCIL = (
    "double[*] stencil(double[d:s] x, double[3] w)\n"
    "{ return { iv -> sum({ ov -> w[sum(abs(ov - 1))] * x[(iv + ov - 1) % s] "
    "| ov < genarray([d], 3) }) | iv < s }; }\n"
    "double[*] f(double[*] x) { return stencil(x, [-8.0 / 3.0, 0.0, 1.0 / 7.0]); }"
)
POOL = (
    "float[*] pool(float[*] x, int[.] f)\n"
    "{ return { iv -> sum({ ov -> x[iv * f + ov] | ov < f }) | iv < shape(x) / f }; }\n"
    "float[*] g(float[*] x) { return pool(x, [2, 3]); }"
)


def statements(text: str) -> int:
    return text.count(" where ")


def test_elements_of_an_index_vector_are_scalars() -> None:
    """A mirrored index is a term for each axis, and no temporary of index vectors."""
    a = np.arange(42, dtype=np.int32).reshape(6, 7)
    w = np.int32([1, -2, 3, 5, 7])
    f = tc.sac.compile(MIRRORED, entry="f", backend="interpret")
    assert statements(f.lowered(a, w).text) == 1
    wide = np.pad(a, ((2, 2), (0, 0)), mode="reflect")
    np.testing.assert_array_equal(f(a, w), sum(w[k] * wide[k : k + 6] for k in range(5)))


def test_mirrored_subscripts_are_affine() -> None:
    """No `abs`, which would be checked at run time, and no cast of what does not wrap."""
    a = np.arange(70, dtype=np.int32).reshape(2, 35) % 11
    w = np.int32([1, -2, 3, 5, 7])
    text = MIRRORED.replace("unit(0, d)", "unit(1, d)")
    for backend in ("interpret", "numba"):
        f = tc.sac.compile(text, entry="f", backend=backend)
        found = f.lowered(a, w).text
        assert "abs" not in found
        assert "int(j)" not in found
        assert statements(found) == 1
        wide = np.pad(a, ((0, 0), (2, 2)), mode="reflect")
        due = sum(w[k] * wide[:, k : k + 35] for k in range(5))
        np.testing.assert_array_equal(f(a, w), due)
        np.testing.assert_array_equal(f.lowered(a, w)(a, w), due)  # and no reference serves it


def test_mirrored_subscripts_that_wrap_keep_their_casts() -> None:
    """abs(-128) is -128 in int8; the remainder of that selects."""
    f = tc.sac.compile(
        "int[*] f(int[.] a, int8 n) { return { [i] -> a[max(0, abs(n) + toi(i))] | [i] < [4] }; }",
        backend="interpret",
    )
    a = np.int32([5, 6, 7, 8])
    np.testing.assert_array_equal(f(a, np.int8(-128)), [5] * 4)
    np.testing.assert_array_equal(f(a, np.int8(0)), a)


@pytest.mark.parametrize("backend", ["interpret", "numba"])
def test_quotients_of_numbers_are_weights(backend: str) -> None:
    """Terms of weight 0 go, equal weights are factored out, as those of numbers are."""
    x = np.random.default_rng(0).random((4, 5))
    f = tc.sac.compile(STENCIL, entry="f", backend=backend)
    text = f.lowered(x).text
    assert statements(text) == 1
    assert text.count("x(") == 1 + 4  # the point and its corners
    corners = sum(np.roll(x, (i, j), (0, 1)) for i in (-1, 1) for j in (-1, 1))
    np.testing.assert_allclose(f(x), -8 / 3 * x + corners / 7, rtol=1e-13)


@pytest.mark.parametrize("op", ["sum", "maxval"])
def test_folds_whose_indices_wrap_are_written_out(op: str) -> None:
    a = np.random.default_rng(0).integers(-9, 9, (5, 3), np.int32)
    f = tc.sac.compile(
        f"int[*] f(int[d:s] a) {{ return {{ iv -> {op}({{ ov -> a[(iv + ov - 1) % s] "
        "| ov < genarray([d], 3) }) | iv < s }; }",
        backend="interpret",
    )
    assert "=!" not in f.lowered(a).text
    shifted = [np.roll(a, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    np.testing.assert_array_equal(f(a), np.sum(shifted, 0) if op == "sum" else np.max(shifted, 0))


def test_subscripts_have_no_casts_that_change_nothing() -> None:
    x = np.random.default_rng(0).random((4, 6), np.float32)
    f = tc.sac.compile(POOL, entry="g", backend="interpret")
    assert "int(" not in f.lowered(x).text
    due = x.astype(np.float64).reshape(2, 2, 2, 3).sum(axis=(1, 3))
    np.testing.assert_allclose(f(x), due, rtol=1e-6)


def test_subscripts_that_wrap_keep_their_casts() -> None:
    """The product of an index and a large int32 wraps before its remainder selects."""
    f = tc.sac.compile(
        "int[*] f(int[.] a, int n) { return { [i] -> a[(i * n) % 4] | [i] < [4] }; }",
        backend="interpret",
    )
    a = np.int32([5, 6, 7, 8])
    n = 2**30 + 1
    wrapped = [int(np.array(i * n).astype(np.int32)) % 4 for i in range(4)]
    np.testing.assert_array_equal(f(a, np.int32(n)), a[wrapped])


def test_folds_have_the_axes_of_the_statements_that_read_them() -> None:
    """Whatever the order in which a fold names the indices; and equal folds are one, in whatever
    order those run."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(-9, 9, (2, 3, 9), np.int32)
    f = tc.sac.compile(
        "int[*], int[*] f(int[.,.] x, int[.,.] y) {\n"
        "  return ({ [i,j] -> sum({ [k] -> x[j,k] * y[i,k] }) + 1 },\n"
        "          { [j,i] -> sum({ [k] -> x[j,k] * y[i,k] }) - 1 }); }",
        backend="interpret",
    )
    text = f.lowered(x, y).text
    assert text.count("=!") == 1
    assert "total(i, j) +=!" in text
    one, other = f(x, y)
    np.testing.assert_array_equal(one, (x @ y.T).T + 1)
    np.testing.assert_array_equal(other, x @ y.T - 1)


def test_a_stencil_that_a_partition_moves_is_written_where_it_is_used() -> None:
    """It is computed for the points of the partition alone, as often as an array of its own."""
    f = tc.sac.compile(
        "int[.] f(int[n] a) { b = drop([2], a) - take([n - 2], a) * a[0];\n"
        "  return { [i] -> b[i - 1] | [1] <= [i] < [n - 1]; [i] -> a[i] }; }",
        backend="interpret",
    )
    a = np.int32([3, 1, 4, 1, 5, 9, 2])
    assert statements(f.lowered(a).text) == 1
    np.testing.assert_array_equal(f(a), [3, *(a[2:] - a[:-2] * 3), 2])


def test_an_array_of_costly_elements_is_not_written_where_more_of_them_are_computed() -> None:
    f = tc.sac.compile(
        "int[.] f(int[n] a) { b = drop([2], a) - take([n - 2], a) * a[0] + a[1] * a[1];\n"
        "  return { [i] -> i > 0 ? b[i / 2] : 0 | [i] < [2 * n - 4] }; }",
        backend="interpret",
    )
    a = np.int32([3, 1, 4, 1, 5, 9, 2])
    assert statements(f.lowered(a).text) == 2
    due = np.repeat(a[2:] - a[:-2] * 3 + 1, 2)
    due[0] = 0
    np.testing.assert_array_equal(f(a), due)


def test_a_fold_behind_a_condition_is_computed_where_it_is_defined() -> None:
    """Written where it is used, the fold would read beyond its array for the other indices, and
    no kernel would serve the call."""
    f = tc.sac.compile(
        "int[.] f(int[m] a, int[9] w) { n = m - 8;\n"
        "  b = { [i] -> sum({ [k] -> a[i + k] * w[k] }) | [i] < [n] };\n"
        "  return { [i] -> i < n - 1 ? b[i + 1] : 0 | [i] < [n] }; }",
        backend="interpret",
    )
    a, w = np.arange(20, dtype=np.int32) ** 2 % 7, np.arange(9, dtype=np.int32)
    due = [*np.correlate(a, w)[1:], 0]
    np.testing.assert_array_equal(f(a, w), due)
    np.testing.assert_array_equal(f.lowered(a, w)(a, w), due)


@pytest.mark.parametrize(("pattern", "axis"), [("[.,j,k]", 0), ("[i,.,k]", 1), ("[i,j]", 2)])
def test_temporaries_lie_in_memory_as_what_they_are_made_of(pattern: str, axis: int) -> None:
    """A softmax along any axis: the exponentials have the axes of the input in its order."""
    f = tc.sac.compile(
        "double[.] row(double[.] v) { e = exp(v - maxval(v)); return e / sum(e); }\n"
        f"double[*] f(double[+] x) {{ return {{ {pattern} -> row(x{pattern}) }}; }}",
        entry="f",
        backend="interpret",
    )
    x = np.random.default_rng(0).random((4, 5, 6))
    e = next(s for s in f.lowered(x).text.splitlines() if s.strip().startswith("e("))
    subscripts = e.split(") = ")[0].strip().removeprefix("e(")
    assert f"exp(x({subscripts}) - " in e
    due = np.exp(x - x.max(axis=axis, keepdims=True))
    np.testing.assert_allclose(f(x), due / due.sum(axis=axis, keepdims=True), rtol=1e-13)


def test_temporaries_of_tensors_in_two_orders_have_that_of_their_text() -> None:
    f = tc.sac.compile(
        "double[*] f(double[n,n] x) { return { [j] -> g({ [i] -> x[i,j] / x[j,i] }) }; }\n"
        "double[.] g(double[.] e) { return e / sum(e); }",
        entry="f",
        backend="interpret",
    )
    x = 1 + np.random.default_rng(0).random((5, 5))
    assert "e(i, i2) = x(i2, i) / x(i, i2)" in f.lowered(x).text
    due = (x / x.T).T
    np.testing.assert_allclose(f(x), due / due.sum(axis=1, keepdims=True), rtol=1e-13)
