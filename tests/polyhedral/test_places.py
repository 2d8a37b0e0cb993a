"""Domains, places and several targets as kernels: what each costs, and that the kernel says so."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import tc
from tc.device import Device
from tc.kernel import ir
from tc.kernel.ir import Kernel
from tc.kernel.walk import every_statement, names_in
from tc.semantics.ranges.range_inference import infer_ranges
from tests.fuzz.execute import Run, evaluated
from tests.support.bounds import assert_computes
from tests.support.lowering import lower
from tests.support.pipeline import checked

DEVICE = Device(vector_bits=256, vector_registers=16, fma=True, l2=1 << 18, threads=2)
RNG = np.random.default_rng(5)
Shapes = Mapping[str, tuple[int, ...]]

CSR = """def f(int(M) row, int(E) col, float(E) v, float(N,D) B) -> (y) {
  y(r,d) +=! v(e) * B(col(e),d) where e in row(r):row(r+1)
}"""
ROWS = "def f(int(M) row, float(E) v) -> (y) { y(r) +=! v(e) where e in row(r):row(r+1) }"
PREFIX = "def f(float(N) x) -> (o) { o(i) +=! x(j) where j in 0:i+1 }"
BEFORE = "def f(float(N) x) -> (o) { o(i) +=! x(j) where j in 0:i }"
BEHIND = "def f(float(N) x) -> (o) { o(i) +=! x(j) where i in 0:N, j in i:N }"
GREATEST = "def f(float(N) x) -> (o) { o(i) max=! x(j) where j in 0:i+1 }"
COLUMNS = "def f(float(N,D) x) -> (o) { o(i,d) +=! x(j,d) where j in 0:i+1 }"
GUARDED = "def f(float(N) x) -> (o) { o(i) +=! j <= i ? x(j) : 0 where i in 0:N }"
IMAGE = "def f(float(H,W) x) -> (o) { o(h,w) +=! x(a,b) where a in 0:h+1, b in 0:w+1 }"
HISTOGRAM = "def f(int(N) I) -> (h) { h(I(n)) +=! 1 where h.0 = 64 }"


def kernel_of(text: str, shapes: Shapes, *, check: bool = False) -> Kernel:
    shaped = infer_ranges(checked(text), shapes, {})
    return lower(shaped, {}, initial=frozenset(), check=check, device=DEVICE)


def loops(kernel: Kernel) -> list[ir.For]:
    return [stmt for stmt in every_statement(kernel) if isinstance(stmt, ir.For)]


def reads(kernel: Kernel, tensor: str) -> int:
    """How many times a tensor is read where all loops end with numbers."""
    total = 0

    def below(block: tuple[ir.Stmt, ...], times: int) -> None:
        nonlocal total
        for stmt in block:
            own = [e for e in ir.expressions(stmt) if isinstance(e, ir.Load)]
            total += times * sum(e.dtype.lanes for e in own if e.buffer == tensor)
            if isinstance(stmt, ir.For):
                count = stmt.end.value - stmt.begin.value  # type: ignore[union-attr]
                below(stmt.body, times * count)
            elif isinstance(stmt, ir.If):
                below((*stmt.then, *stmt.otherwise), times)

    for region in kernel.regions:
        below(region, 1)
    return total


@pytest.mark.parametrize("dtype", ["int", "int64", "uint32"])
def test_rows_end_where_data_say(dtype: str) -> None:
    """X6: no loop goes through all elements for each row; libraries' rows are of 64 bits."""
    text = CSR.replace("int(M) row", f"{dtype}(M) row")
    kernel = kernel_of(text, {"row": (201,), "col": (3000,), "v": (3000,), "B": (50, 32)})
    inner = [loop for loop in loops(kernel) if reads_of(loop, "v")]
    ends = [e for loop in inner for end in (loop.begin, loop.end) for e in ir.walk(end)]
    assert any(isinstance(e, ir.Load) and e.buffer == "row" for e in ends)
    assert all(not isinstance(stmt, ir.If) for loop in inner for stmt in ir.statements(loop.body))


def reads_of(loop: ir.For, tensor: str) -> bool:
    own = (e for stmt in ir.statements(loop.body) for e in ir.expressions(stmt))
    return any(isinstance(e, ir.Load) and e.buffer == tensor for e in own)


@pytest.mark.parametrize("text", [PREFIX, BEFORE, BEHIND, GREATEST, GUARDED])
def test_each_term_of_a_prefix_is_added_once(text: str) -> None:
    """X3: N terms in place of N^2 / 2, also where the text has a `?:` (X9)."""
    kernel = kernel_of(text, {"x": (1000,)})
    assert reads(kernel, "x") == 1000 + (text == BEFORE)  # the total is an element of its own


FACTORS = {
    "of the element": "o(i) +=! a(i) * x(j) where j in 0:i+1",
    "of no terms": "o(i) +=! x(j) * a(i) where j in 0:i, i in 0:N",
    "behind": "o(i) +=! a(i) * x(j) * a(i) where i in 0:N, j in i+1:N",
    "of what goes on": "o(i) = a(i)  o(i) += 2 * x(j) * (a(i) + 1) where j in 0:i+1",
    "of products": "o(i) +=! x(j) * a(i) * x(j+1) where j <= i, i in 0:N, j in 0:N-1",
    "of a condition": "o(i) +=! j <= i ? a(i) * x(j) : 0 where i in 0:N",
}
DIVISORS = {
    "of the element": "o(i) +=! x(j) / a(i) where j in 0:i+1",
    "its number": "o(i) +=! x(j) * a(j) / (i + 1) where j in 0:i+1",
    "beside a factor": "o(i) +=! a(i) * x(j) / (1 + a(i)) where j in 0:i+1",
    "of what goes on": "o(i) = a(i)  o(i) += 2 * x(j) / a(i) where i in 0:N, j in i+1:N",
    "of a condition": "o(i) +=! j <= i ? x(j) / a(i) : 0 where i in 0:N",
}


@pytest.mark.parametrize("dtype", ["int", "float", "double", "half"])
@pytest.mark.parametrize("name", FACTORS)
def test_factors_of_prefixes_are_multiplied_behind(name: str, dtype: str) -> None:
    """X3: N terms, also where each has a factor of the element."""
    text = f"def f({dtype}(N) a, {dtype}(N) x) -> (o) {{ {FACTORS[name]} }}"
    kernel = kernel_of(text, {"a": (1000,), "x": (1000,)})
    assert reads(kernel, "x") <= (2 if name == "of products" else 1) * 1000
    if dtype != "int":
        name = {"float": "float32", "double": "float64", "half": "float16"}[dtype]
        inputs = {n: RNG.normal(size=40).astype(name) for n in "ax"}
        assert_computes(text, [*inputs.values()], tc.compile(text)(**inputs))
        return
    limits = np.iinfo(np.int32)
    inputs = {n: RNG.integers(limits.min, limits.max, 40).astype(np.int32) for n in "ax"}
    expected = tc.interpret(text, inputs)
    np.testing.assert_array_equal(tc.compile(text)(**inputs), expected)


@pytest.mark.parametrize("dtype", ["float", "double", "half"])
@pytest.mark.parametrize("name", DIVISORS)
def test_divisors_of_prefixes_divide_behind(name: str, dtype: str) -> None:
    """N terms, also of a running mean."""
    text = f"def f({dtype}(N) a, {dtype}(N) x) -> (o) {{ {DIVISORS[name]} }}"
    kernel = kernel_of(text, {"a": (1000,), "x": (1000,)})
    assert reads(kernel, "x") <= 1000
    name = {"float": "float32", "double": "float64", "half": "float16"}[dtype]
    inputs = {n: RNG.normal(size=40).astype(name) for n in "ax"}
    assert_computes(text, [*inputs.values()], tc.compile(text)(**inputs))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("value", [0, np.inf, np.nan])
@pytest.mark.parametrize("term", ["x(j) * a(i)", "x(j) / a(i)"])
@pytest.mark.parametrize(
    "domain",
    ["j in 0:i, i in 0:N", "j in i+1:N, i in 0:N", "j in 1:i+1, i in 0:N", "j in i+2:N, i in 0:N"],
)
def test_sums_of_no_terms_have_no_factors(
    domain: str, term: str, value: float, dynamic: bool
) -> None:
    """They are 0, whatever the factor is."""
    text = f"def f(float(N) a, float(N) x) -> (o) {{ o(i) +=! {term} where {domain} }}"
    a, x = np.full(7, value, np.float32), np.float32([3, 1, 4, 1, 5, 9, 2])
    found = tc.compile(text, dynamic=dynamic)(a, x)
    assert_computes(text, [a, x], found)
    assert not np.isnan(found[[0, -1]]).all()
    assert reads(kernel_of(text, {"a": (1000,), "x": (1000,)}), "x") <= 1000


CORNERS = {
    "i in a:N, j in b:M, a in 0:N, b in 0:M": lambda g: (
        g[::-1, ::-1].cumsum(0).cumsum(1)[::-1, ::-1]
    ),
    "i in a+1:N, j in b+1:M, a in 0:N-1, b in 0:M-1": (
        lambda g: g[:0:-1, :0:-1].cumsum(0).cumsum(1)[::-1, ::-1]
    ),
    "i in 0:a+1, j in b+1:M, a in 0:N, b in 0:M-1": (
        lambda g: g[:, :0:-1].cumsum(0).cumsum(1)[:, ::-1]
    ),
    "i in 0:a+1, j in 0:b+1": lambda g: g.cumsum(0).cumsum(1),
}


@pytest.mark.parametrize("term", ["g(i,j)", "g(i,j) * y(a,b)", "g(i,j) * y(a,b) / (2 + a)"])
@pytest.mark.parametrize("domain", CORNERS)
def test_sums_over_corners_of_images_take_each_term_twice(domain: str, term: str) -> None:
    """X3: also with factors and divisors of the element, as in gradients of integral images."""
    text = f"def f(double(N,M) g, double(N,M) y) -> (o) {{ o(a,b) +=! {term} where {domain} }}"
    kernel = kernel_of(text, {"g": (100, 90), "y": (100, 90)})
    assert reads(kernel, "g") <= 100 * 90
    inputs = {name: RNG.normal(size=(23, 37)) for name in "gy"}
    expected = CORNERS[domain](inputs["g"])
    rows, columns = expected.shape
    if "y" in term:
        expected = expected * inputs["y"][:rows, :columns]
    if "/" in term:
        expected = expected / (2 + np.arange(rows))[:, None]
    assert_computes(text, inputs, tc.compile(text)(**inputs), (expected,))


def test_gradients_of_integral_images_are_linear() -> None:
    text = "def f(double(N,M) x) -> (S) { S(i,j) +=! exp(x(a,b)) where a in 0:i, b in 0:j }"
    shapes = {"x": (100, 90), "d_S": (101, 91)}
    assert reads(kernel_of(str(tc.grad(text)), shapes), "d_S") <= 101 * 91


def steps(kernel: Kernel) -> int:
    """The iterations of all loops that end with numbers, those in one another multiplied."""

    def below(block: tuple[ir.Stmt, ...], times: int) -> int:
        total = 0
        for stmt in block:
            if isinstance(stmt, ir.For):
                known = isinstance(stmt.begin, ir.Const) and isinstance(stmt.end, ir.Const)
                count = stmt.end.value - stmt.begin.value if known else 1  # type: ignore[union-attr]
                total += times * count + below(stmt.body, times * count)
            elif isinstance(stmt, ir.If):
                total += below((*stmt.then, *stmt.otherwise), times)
        return total

    return sum(below(region, 1) for region in kernel.regions)


WORK = {
    "a product whose rows go where data say": (
        "f(int(M) row, int(E) col, float(E) v, float(C) x, int(R) p) -> (y) {"
        " y(p(r)) +=! v(e) * x(col(e)) where e in row(r):row(r+1), y.0 = C }",
        lambda a: placed(a, np.add.reduceat(a["v"] * a["x"][a["col"]], a["row"][:-1])),
    ),
    "a dense matrix": (
        "f(int(M) row, int(E) small, float(E) v) -> (o) {"
        " o(r,small(e)) = v(e) where e in row(r):row(r+1), o.1 = 16 }",
        lambda a: spread(a, (len(a["row"]) - 1, 16)),
    ),
    "a dense matrix of sums": (
        "f(int(M) row, int(E) small, float(E) v) -> (o) {"
        " o(r,small(e)) +=! v(e) where e in row(r):row(r+1), o.1 = 16 }",
        lambda a: spread(a, (len(a["row"]) - 1, 16)),
    ),
    "what is repeated": (
        "f(int(M) row, float(N) x) -> (o) {"
        " o(row(r)+t) = x(r) where t in 0:row(r+1)-row(r), exists x(t), o.0 = 3*N }",
        lambda a: np.repeat(a["x"], 3),
    ),
    "sums of the first ones": (
        "f(float(N) x, int(N) p, int(N) L) -> (o) { o(p(i)) +=! x(j) where j in 0:L(i), o.0 = N }",
        lambda a: placed(a, np.append(0, a["x"].cumsum())[a["L"]]),
    ),
    "a prefix to where data say": (
        "f(float(N) x, int(N) p) -> (o) { o(p(i)) +=! x(j) where j in 0:i+1, i in 0:N, o.0 = N }",
        lambda a: placed(a, a["x"].cumsum()),
    ),
    "a prefix backwards": (
        "f(float(N) x) -> (o) { o(N-1-i) +=! x(j) where j in 0:i+1, i in 0:N }",
        lambda a: a["x"].cumsum()[::-1],
    ),
}


def placed(arrays: dict[str, Any], values: Any) -> Any:
    result = np.zeros_like(values)
    result[arrays["p"]] = values
    return result


def spread(arrays: dict[str, Any], shape: tuple[int, int]) -> Any:
    result = np.zeros(shape, np.float32)
    np.add.at(result, (np.arange(3 * shape[0]) // 3, arrays["small"]), arrays["v"])
    return result


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["numba", "c"])
@pytest.mark.parametrize("name", WORK)
def test_work_is_what_ranges_hold(name: str, backend: str, dynamic: bool) -> None:
    """W3, X3: wherever terms go, and whatever is checked (S5, G7)."""
    n, (text, formula) = 300, WORK[name]
    text = f"def {text}"
    every: dict[str, Any] = {
        "row": np.arange(n + 1, dtype=np.int32) * 3,
        "col": RNG.integers(0, n, 3 * n).astype(np.int32),
        "small": np.concatenate([RNG.permutation(16)[:3] for _ in range(n)]).astype(np.int32),
        "p": RNG.permutation(n).astype(np.int32),
        "L": RNG.integers(0, 5, n).astype(np.int32),
        "v": RNG.integers(-4, 5, 3 * n).astype(np.float32),
        "x": RNG.integers(-4, 5, n).astype(np.float32),
    }
    inputs = {name: array for name, array in every.items() if f") {name}" in text}
    found = tc.compile(text, backend=backend, dynamic=dynamic)(**inputs)
    np.testing.assert_array_equal(found, formula(every))
    shapes = {name: array.shape for name, array in inputs.items()}
    for check in (False, True):
        assert steps(kernel_of(text, shapes, check=check)) <= 100 * n


@pytest.mark.parametrize("backend", ["numba", "c"])
def test_places_are_checked_of_all_rows_that_have_terms(backend: str) -> None:
    """Also of a row whose first row of its own is empty."""
    text = """def f(int(M) row, int(K) rb, float(F) v, int(R) p) -> (y) {
      y(p(r)) +=! v(g) where e in row(r):row(r+1), g in rb(e):rb(e+1), y.0 = 3
    }"""
    row, rb, v = np.int32([0, 2, 2, 4]), np.int32([0, 0, 2, 2, 3]), np.float32([1, 2, 3])
    f = tc.compile(text, backend=backend)
    for p, expected in (([1, 9, 1], [0, 6, 0]), ([1, 9, 2], [0, 3, 3])):
        found = f(row, rb, v, np.int32(p))
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(tc.interpret(text, [row, rb, v, np.int32(p)]), expected)
    for p in ([7, 0, 0], [0, 0, 7], [0, 0, -1]):
        errors = []
        for call in (f, lambda *a: tc.interpret(text, list(a))):
            with pytest.raises(tc.AccessError) as raised:
                call(row, rb, v, np.int32(p))
            errors.append(raised.value.cause)
        assert errors[0] == errors[1]


SPARSE_PRODUCT = """def f(
  int(M) ra, int(E) ca, float(E) va, int(K) rb, int(F) cb, float(F) vb
) -> (o) {
  o(r,cb(g)) +=! va(e) * vb(g) where e in ra(r):ra(r+1), g in rb(ca(e)):rb(ca(e)+1), o.1 = 16
}"""
FAULTS = {
    "no row": ("ca", 77, 10**9),
    "a row below 0": ("ca", 77, -7),
    "a row beyond the last": ("ca", 77, 50),
    "rows that end far away": ("rb", 20, 10**8),
    "rows that fall": ("ra", 20, -(10**8)),
    "no column": ("cb", 20, 16),
    "none": ("cb", 20, 15),
}


@pytest.mark.parametrize("backend", ["numba", "c"])
@pytest.mark.parametrize("name", FAULTS)
def test_rows_of_rows(name: str, backend: str) -> None:
    """What is wrong is told as the interpreter tells it."""
    n, rng = 50, np.random.default_rng(5)
    row = np.arange(n + 1, dtype=np.int32) * 3
    arrays = {
        "ra": row, "ca": rng.integers(0, n, 3 * n).astype(np.int32),
        "va": rng.integers(-4, 5, 3 * n).astype(np.float32),
        "rb": row, "cb": rng.integers(0, 16, 3 * n).astype(np.int32),
        "vb": rng.integers(-4, 5, 3 * n).astype(np.float32),
    }  # fmt: skip
    which, place, value = FAULTS[name]
    arrays[which] = arrays[which].copy()
    arrays[which][place] = value
    compiled = tc.compile(SPARSE_PRODUCT, backend=backend)
    if name == "none":
        left, right = np.zeros((n, n)), np.zeros((n, 16))
        np.add.at(left, (np.arange(3 * n) // 3, arrays["ca"]), arrays["va"])
        np.add.at(right, (np.arange(3 * n) // 3, arrays["cb"]), arrays["vb"])
        np.testing.assert_array_equal(compiled(**arrays), left @ right)
        return
    causes = []
    for call in (compiled, lambda **a: tc.interpret(SPARSE_PRODUCT, a)):
        with pytest.raises(tc.AccessError) as raised:
            call(**arrays)
        causes.append(raised.value.cause)
    assert causes[0] == causes[1]


def test_integers_are_divided_before_they_are_added() -> None:
    text = "def f(int(N) a, int(N) x) -> (o) { o(i) +=! x(j) / a(i) where j in 0:i+1 }"
    a, x = np.int32([2, 3, 2]), np.int32([1, 1, 3])
    np.testing.assert_array_equal(tc.compile(text)(a, x), [0, 0, 1])


def test_the_bound_knows_of_divisors() -> None:
    """The sum may overflow where quotients do not, and by 0 is divided as R5 allows."""
    text = "def f(float(N) a, float(N) x) -> (o) { o(i) +=! x(j) / a(i) where j in 0:i+1 }"
    for a, x, known in (
        ([1e30] * 3, [3e38] * 3, [True, False, False]),
        ([0] * 3, [1, -2, 1], [False] * 3),
        ([4, 2, -3], [5, 6, 1.3], [True] * 3),
        ([1e-30, 1, 1], [1e-20, 1e-20, 1], [True] * 3),
    ):
        inputs = [np.float32(a), np.float32(x)]
        assert_computes(text, inputs, tc.compile(text)(*inputs))
        assert np.isfinite(tc.error_bound(text, inputs)).tolist() == known


@pytest.mark.parametrize("domain", [" where j in 0:i+1", " : 0 where i in 0:N"])
def test_the_bound_knows_of_factors_of_floats(domain: str) -> None:
    """What a sum without its factors would be may overflow, or be an infinity as written: R5 leaves
    the value open there, and says so; elsewhere the bound is that of the sum as written."""
    term = "a(i) * x(j)" if "j in" in domain else "j <= i ? a(i) * x(j)"
    text = f"def f(float(N) a, float(N) x) -> (o) {{ o(i) +=! {term}{domain} }}"
    apart = text.replace("a(i) * x(j)", "x(j) * (a(i) + 0 * x(j))")
    for a, x, known in (
        ([1e-30] * 3, [3e38] * 3, [True, False, False]),
        ([np.inf] * 3, [1, -2, 1], [False] * 3),
        ([0, 2, -3], [5, 6, 1.3], [True] * 3),
        ([1e-30, 1, 1], [1e-20, 1e-20, 1], [True] * 3),
    ):
        inputs = [np.float32(a), np.float32(x)]
        assert_computes(text, inputs, tc.compile(text)(*inputs))
        bound = tc.error_bound(text, inputs)
        assert np.isfinite(bound).tolist() == known
        if all(known):
            steps = 1e-44  # of what underflows, a few are lost
            assert (bound <= tc.error_bound(apart, inputs) + steps).all()


def test_the_bound_knows_of_factors_of_each_target() -> None:
    """Also where one target of several has factors of the element."""
    text = """def f(float(N) a, float(N) x) -> (o, p) {
      o(i), p(i) +=! a(i) * x(j), 1e-30 * x(j) / 2 where j in 0:i+1
    }"""
    inputs = [np.float32([1e-30] * 3), np.float32([3e38] * 3)]
    found, bounds = tc.compile(text)(*inputs), tc.error_bound(text, inputs)
    assert_computes(text, inputs, found)
    assert np.isfinite(bounds.o).tolist() == [True, False, False]
    assert np.isfinite(bounds.p).all()


def lanes_of_reads(kernel: Kernel, tensor: str) -> set[int]:
    stmts = every_statement(kernel)
    loads = (e for s in stmts for e in ir.expressions(s) if isinstance(e, ir.Load))
    return {load.dtype.lanes for load in loads if load.buffer == tensor}


def test_prefixes_of_columns_are_vectors() -> None:
    kernel = kernel_of(COLUMNS, {"x": (1000, 64)})
    assert reads(kernel, "x") == 1000 * 64
    assert lanes_of_reads(kernel, "x") == {8}


def test_integral_images_are_sums_by_dimensions() -> None:
    kernel = kernel_of(IMAGE, {"x": (100, 96)})
    assert reads(kernel, "x") == 100 * 96
    assert reads(kernel, "o.p0") == 100 * 96
    assert lanes_of_reads(kernel, "o.p0") == {8}  # rows are added to rows


@pytest.mark.parametrize("columns", [32, 74, 75, 100])
def test_checked_rows_are_vectors(columns: int) -> None:
    """Also where no vector divides them: who is told of a wrong column is told of the first lane's
    element."""
    shapes = {"row": (201,), "col": (3000,), "v": (3000,), "B": (50, columns)}
    assert 1 not in lanes_of_reads(kernel_of(CSR, shapes, check=True), "B")


@pytest.mark.parametrize("keys", [100_003, 1_000_003, 2_300_000])
def test_parts_of_scatters_are_few(keys: int) -> None:
    """X2: starting and combining them takes less than the terms; terms that no part has are not
    compared with all places."""
    text = "def f(int(N) I, float(N) x) -> (h) { h(I(n)) +=! x(n) where h.0 = 10_000 }"
    kernel = kernel_of(text.replace("_", ""), {"I": (keys,), "x": (keys,)})
    assert reads(kernel, "I") == keys
    held = sum(buffer.bytes // 4 for buffer in kernel.buffers if buffer.role == "temporary")
    assert keys // 16 < held <= keys // 8 + 10_000 or not held


def test_each_key_is_counted_where_it_belongs() -> None:
    """X2: no loop over the places inside of that over the keys."""
    kernel = kernel_of(HISTOGRAM, {"I": (5000,)})
    assert reads(kernel, "I") <= 2 * 5000
    assert not any(
        "I" in {e.buffer for e in ir.expressions(s) if isinstance(e, ir.Load)}
        for loop in loops(kernel)
        if isinstance(loop.end, ir.Const) and loop.end.value == 64
        for s in ir.statements(loop.body)
    )


def by_numpy(name: str, x: Any) -> Any:
    return {
        "prefix": lambda: np.cumsum(x),
        "before": lambda: np.concatenate([[0], np.cumsum(x)]),
        "behind": lambda: np.cumsum(x[::-1])[::-1],
        "greatest": lambda: np.maximum.accumulate(x),
        "guarded": lambda: np.cumsum(x),
    }[name]()


TEXTS = {
    "prefix": PREFIX,
    "before": BEFORE,
    "behind": BEHIND,
    "greatest": GREATEST,
    "guarded": GUARDED,
}


@pytest.mark.parametrize("backend", ["numba", "c"])
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("n", [1, 2, 17, 1000])
def test_prefixes_are_right(name: str, n: int, backend: str) -> None:
    x = RNG.integers(-9, 9, n).astype(np.float32)  # sums are exact
    found = tc.compile(TEXTS[name], backend=backend)(x)
    assert found.tolist() == by_numpy(name, x).tolist()


@pytest.mark.parametrize("backend", ["numba", "c"])
@pytest.mark.parametrize("text", [CSR, ROWS])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_rows_are_right(text: str, backend: str, kind: Callable[[Any], Any]) -> None:
    """Empty rows, one long row, and rows of one element."""
    counts = np.array([0, 3, 1, 0, 0, 700, 1, 0])
    row, entries = np.concatenate([[0], np.cumsum(counts)]), int(counts.sum())
    col = RNG.integers(0, 6, entries).astype(np.int32)
    v = RNG.integers(-5, 5, entries).astype(np.float32)
    B = RNG.integers(-5, 5, (6, 19)).astype(np.float32)
    text = text.replace("int(M) row", f"{np.dtype(kind).name}(M) row")
    inputs = {"row": kind(row), "v": v} | ({"col": col, "B": B} if text.count("B") else {})
    dense = np.zeros((8, 6))
    np.add.at(dense, (np.repeat(np.arange(8), counts), col), v)
    want = dense @ B if "B" in inputs else dense.sum(1)
    assert tc.compile(text, backend=backend)(**inputs).tolist() == want.tolist()


_KEYS = "def f(int(N) I, float(N) x, int(N) p) -> "
_ROWS = "def f(int(N) I, float(N,D) A) -> "
FORMS: dict[str, str] = {
    "parts": _KEYS + "(float(300) h) { h(I(n)) +=! x(n) }",
    "one after the other": _KEYS + "(float(50000) h) { h(I(n)) +=! x(n) }",
    "integers": _KEYS + "(int(300) h) { h(I(n)) +=! 1 }",
    "the greatest": _KEYS + "(float(300) h) { h(I(n)) max=! x(n) }",
    "the greatest, and where": _KEYS + "(float(300) h, int(300) at)"
    " { h(I(n)), at(I(n)) max=! x(n), n }",
    "products": _KEYS + "(float(300) h) { h(I(n)) *=! 1 + 0.001 * x(n) }",
    "what goes on": _KEYS + "(float(300) h) { h(i) = 1 / (i + 3)  h(I(n)) += x(n) }",
    "under a condition": _KEYS + "(float(300) h) { h(I(n)) +=! x(n) where x(n) > 0 }",
    "computed": _KEYS + "(float(300) h) { h(I(n)) +=! exp(x(n)) * x(p(n)) }",
    "a permutation": _KEYS + "(float(N) o) { o(p(n)) = x(n) * x(n) }",
    "rows that are owned": _ROWS + "(float(300,D) h) { h(I(n),d) +=! A(n,d) }",
    "places of several variables": _ROWS + "(float(400) h) { h(I(n)+d) +=! A(n,d) }",
}


@pytest.mark.drawn(4)
@pytest.mark.parametrize("form", FORMS)
def test_any_number_of_threads_gives_the_same_bits_of_scatters(form: str) -> None:
    """X1, for each form of X2, of floats that are rounded, many of which meet."""
    rng, n = np.random.default_rng(4), 40_000
    inputs = {
        "I": rng.integers(0, 300, n).astype(np.int32),
        "x": rng.standard_normal(n).astype(np.float32),
        "p": rng.permutation(n).astype(np.int32),
        "A": rng.standard_normal((n, 24)).astype(np.float32),
    }
    found = set()
    for backend in ("numba", "c"):
        for threads in (1, 2, 3, 7):
            f = tc.compile(FORMS[form], backend=backend, options=tc.Options(threads=threads))
            results = f(**{name: inputs[name] for name in f.program.inputs})
            results = results if isinstance(results, tuple) else (results,)
            bits = b"".join(np.asarray(result).tobytes() for result in results)
            found.add((backend if form == "computed" else "", bits))  # of exp, by compilers
    assert len(found) == 1 + (form == "computed" and len({b for b, _ in found}) == 2)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_any_number_of_threads_gives_the_same_bits(threads: int) -> None:
    """X1, for scatters, rows and prefixes of floats that are rounded."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal(20_000).astype(np.float32)
    keys = rng.integers(0, 300, 20_000).astype(np.int32)
    row = np.concatenate([[0], np.sort(rng.integers(0, 20_000, 99)), [20_000]]).astype(np.int32)
    options = tc.Options(threads=threads)
    for text, inputs in (
        ("def f(int(N) I, float(N) x) -> (h) { h(I(n)) +=! x(n) where h.0 = 300 }", [keys, x]),
        (ROWS, [row, x]),
        (PREFIX, [x]),
        (GREATEST, [x]),
    ):
        one = tc.compile(text, options=tc.Options(threads=1))(*inputs)
        many = tc.compile(text, options=options)(*inputs)
        assert one.tobytes() == many.tobytes()


def test_a_prefix_that_reads_what_is_written_is_no_recurrence() -> None:
    """A term that depends on the outer variable is computed for each."""
    text = "def f(float(N) x) -> (o) { o(i) +=! x(j) * x(i) where j in 0:i+1 }"
    x = np.arange(1, 30, dtype=np.float32)
    assert tc.compile(text)(x).tolist() == (np.cumsum(x) * x).tolist()


def test_sums_that_go_on_are_right() -> None:
    text = "def f(float(N) x, float(N) y) -> (o) { o(i) = y(i)  o(i) += x(j) where j in 0:i+1 }"
    x, y = (RNG.integers(-9, 9, 50).astype(np.float32) for _ in range(2))
    assert tc.compile(text)(x, y).tolist() == (y + np.cumsum(x)).tolist()


def test_names_of_loops_are_free() -> None:
    """The loop that a recurrence runs backwards has a name of its own."""
    kernel = kernel_of(BEHIND, {"x": (40,)})
    variables = [loop.var for loop in loops(kernel)]
    assert len(variables) == len(set(variables))
    assert all(loop.var not in names_in(loop.end) for loop in loops(kernel))


@pytest.mark.parametrize("backend", ["interpret", "numba"])
def test_a_variable_with_two_dimensions_is_a_diagonal(backend: str) -> None:
    """Also where what is added is the size of a tensor, as `concat` adds it."""
    x = np.arange(1, 4, dtype=np.float32)
    text = "def f(float(N) x) -> (o) { o(i,i+x.0) = x(i) }"
    found = (
        tc.interpret(text, [x]) if backend == "interpret" else tc.compile(text, backend=backend)(x)
    )
    np.testing.assert_array_equal(found, np.diag(x, 3)[:3])


@pytest.mark.parametrize("backend", ["interpret", "numba", "c", "evaluate"])
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("o(k,i) = 7 where k = 1, k < o.0  o(0,i) = i where i in 0:5", [[0, 1, 2, 3, 4]]),
        ("o(0,i-2) = i where i in 0:7, i >= 2", [[2, 3, 4, 5, 6]]),
        ("o(j,i) = 10 * j + i where i in 0:7, j in 0:3, i < 5, j < 1", [[0, 1, 2, 3, 4]]),
    ],
)
def test_a_box_ends_where_its_target_does(backend: str, text: str, wanted: list[list[int]]) -> None:
    """Conditions that sizes decide keep places inside, and nothing is written elsewhere."""
    program = f"def f() -> (int(1,5) o) {{ {text} }}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.TCWarning)
        if backend == "evaluate":
            found = evaluated(Run(program, {}, {}, 0, backend), {}, None)["o"]
        else:
            found = tc.compile(program, backend=backend)()
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("backend", ["numba", "c", "evaluate"])
@pytest.mark.parametrize("fusion", ["auto", "max", "isl"])
@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("off(at(r)+1)", "at r = 4, reads off(400000000), but off has shape (8)"),
        ("off(r) / at(r)", "at r = 1, divides by zero: at(r) is 0"),
    ],
)
def test_no_statement_overtakes_the_check_of_its_ranges(
    backend: str, fusion: str, end: str, message: str
) -> None:
    """What bounds read is not tested again behind the check, so that S1 may not join S0 before
    it."""
    begin = "0" if "/" in end else "off(at(r))"
    text = f"""def f(int(P) off, int(R) at, float(E) x, float(R) y) -> (t, o) {{
      t(r) = y(r) * 2
      o(r) +=! x(e) * t(r) where r in 0:R, e in {begin}:{end}
    }}"""
    inputs = {
        "off": np.array([0, 2, 2, 5, 7, 9, 9, 9], np.int32),
        "at": np.array([1, 0, 2, 3, 400_000_000], np.int32),
        "x": np.ones(9, np.float32),
        "y": np.ones(5, np.float32),
    }
    options = tc.Options(schedule=tc.ScheduleOptions(fusion=fusion))

    def call() -> None:
        if backend == "evaluate":
            run = Run(text, {}, {}, 0, backend, {"schedule": {"fusion": fusion}})
            evaluated(run, inputs, None)
        else:
            tc.compile(text, backend=backend, options=options)(*inputs.values())

    with pytest.raises(tc.AccessError) as caught:
        call()
    assert backend == "evaluate" or message in str(caught.value)
