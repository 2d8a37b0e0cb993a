"""Places and domains on GPUs: rows whose ends data say, terms that are written or sorted where they
belong, and prefixes in chunks; on the machine of blocks and threads, which finds races."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tc
from tc.gpu import Gpu
from tc.kernel import ir
from tc.kernel.evaluate import evaluate
from tc.kernel.walk import every_statement, launched
from tc.plan import Bind, Part, Promote
from tc.polyhedral.gpu.gpu_target import GpuTarget, gpu_target
from tc.polyhedral.lowering import Lowering, trace_lowering
from tc.polyhedral.rewrite.thresholds import AtomicCosts, ScanCosts
from tc.semantics.ranges.range_inference import infer_ranges
from tests.fuzz.places.on_gpus import ALWAYS, evaluated_on_gpu, sorting, target_of
from tests.support.opencl import on_pocl
from tests.support.pipeline import checked
from tests.support.ptx.texts import run_text

Arrays = Mapping[str, Any]

CSR = """def f({index}(M) row, {index}(E) col, float(E) v, float(N,D) B) -> (y) {{
  y(r,d) +=! v(e) * B(col(e),d) where e in row(r):row(r+1)
}}"""
VECTOR = """def f({index}(M) row, {index}(E) col, float(E) v, float(N) x) -> (y) {{
  y(r) +=! v(e) * x(col(e)) where e in row(r):row(r+1)
}}"""


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_what_is_kept_is_not_written_again(dtype: str) -> None:
    """Other blocks read it."""
    name = {"float32": "float", "float16": "half", "int32": "int"}[dtype]
    declared = f"{name}(N)"
    text = f"def f({declared} x) -> ({declared} z) {{ z(i) = x(i) + z(0) where i > 3, i in 0:N }}"
    x, z = np.arange(40).astype(dtype), np.ones(40, dtype)
    for seed in range(8):
        found = evaluated_on_gpu(text, {"x": x}, {"z": z}, target_of(seed))["z"]
        np.testing.assert_array_equal(found, np.where(np.arange(40) > 3, x + 1, 1))


def lowered(text: str, arrays: Arrays, *, check: bool = False) -> Lowering:
    shaped = infer_ranges(checked(text), {n: a.shape for n, a in arrays.items()}, {})
    return trace_lowering(shaped, {}, gpu_target(Gpu()), initial=frozenset(), check=check)


def computed(found: Lowering, arrays: Arrays, *outputs: str) -> list[Any]:
    """What the kernel computes where blocks and threads run in any order; races are errors."""
    tensors, shapes = found.shaped.program.tensors, found.shaped.shapes
    results = {n: np.zeros(shapes[n], tensors[n].dtype.numpy) for n in outputs}
    evaluate(found.kernel, {**arrays, **results})
    return [results[name] for name in outputs]


def ragged(rows: int, columns: int, longest: int, dtype: str) -> dict[str, Any]:
    """Rows of many lengths, most of them short, some empty; of whole numbers."""
    random = np.random.default_rng(rows * columns)
    lengths = random.integers(0, 4, rows) * (random.random(rows) < 0.9)
    lengths[rows // 2] = longest
    row = np.concatenate([[0], np.cumsum(lengths)]).astype(dtype)
    terms = int(row[-1])
    col = random.integers(0, columns, terms).astype(dtype)
    return {"row": row, "col": col, "v": np.float32(random.integers(-4, 5, terms))}


def dense(arrays: Arrays, columns: int) -> Any:
    matrix = np.zeros((len(arrays["row"]) - 1, columns))
    rows = np.repeat(np.arange(len(matrix)), np.diff(arrays["row"]))
    np.add.at(matrix, (rows, arrays["col"]), arrays["v"])
    return matrix


def loops_over_all(kernel: ir.Kernel, terms: int) -> list[ir.For]:
    """The loops that go through all terms."""
    loops = (stmt for stmt in every_statement(kernel) if isinstance(stmt, ir.For))
    return [loop for loop in loops if isinstance(loop.end, ir.Const) and loop.end.value >= terms]


@pytest.mark.parametrize("dtype", ["int", "int64"])
@pytest.mark.parametrize(("rows", "width", "longest"), [(1, 5, 3), (70, 32, 90), (201, 7, 33)])
def test_sparse_times_dense(dtype: str, rows: int, width: int, longest: int) -> None:
    arrays = ragged(rows, 11, longest, {"int": "int32"}.get(dtype, dtype))
    random = np.random.default_rng(width)
    arrays["B"] = np.float32(random.integers(-4, 5, (11, width)))
    found = lowered(CSR.format(index=dtype), arrays)
    assert not loops_over_all(found.kernel, len(arrays["v"]))
    (y,) = computed(found, arrays, "y")
    np.testing.assert_array_equal(y, dense(arrays, 11) @ arrays["B"])


@pytest.mark.parametrize("rows", [1, 40, 300])
@pytest.mark.parametrize("longest", [3, 500])
def test_sparse_times_vector(rows: int, longest: int) -> None:
    """Neighbouring threads read neighbours in memory, where rows are long enough."""
    arrays = ragged(rows, 90, longest, "int32")
    arrays["x"] = np.float32(np.random.default_rng(rows).integers(-4, 5, 90))
    found = lowered(VECTOR.format(index="int"), arrays)
    assert not loops_over_all(found.kernel, len(arrays["v"]))
    (y,) = computed(found, arrays, "y")
    np.testing.assert_array_equal(y, dense(arrays, 90) @ arrays["x"])


# --- scatters -----------------------------------------------------------------------------------

SUMS = """def f(int64(N) I, float(N,D) x) -> (h) {{
  h(I(n),d) {op}=! x(n,d) where h.0 = 9{more}
}}"""


def instances(found: Lowering) -> int:
    """How many instances the statements of a program have, at most."""
    return max(
        math.prod(r.extent for r in each.ranges.values()) for each in found.shaped.statements
    )


def test_what_is_written_once_is_written_where_it_belongs() -> None:
    """S2: a thread for each instance, and none that compares."""
    text = "def f(int(N) I, float(N,D) x) -> (float(M,D) o) { o(I(n),d) = x(n,d) where M in 50:51 }"
    text = text.replace(" where M in 50:51", "").replace("float(M,D)", "float(50,D)")
    random = np.random.default_rng(3)
    arrays = {
        "I": np.int32(random.permutation(50)[:40]),
        "x": np.float32(random.normal(size=(40, 3))),
    }
    found = lowered(text, arrays)
    assert instances(found) == 50 * 3
    (o,) = computed(found, arrays, "o")
    expected = np.zeros((50, 3), np.float32)
    expected[arrays["I"]] = arrays["x"]
    np.testing.assert_array_equal(o, expected)


def test_two_at_one_place_are_found() -> None:
    """By the machine of threads: a call does not see it, unless it checks (S2)."""
    text = "def f(int(N) I, float(N) x) -> (float(50) o) { o(I(n)) = x(n) }"
    arrays = {"I": np.int32([4, 7, 4]), "x": np.float32([1, 2, 3])}
    with pytest.raises(tc.InternalError, match=r"race at o\.last"):
        computed(lowered(text, arrays), arrays, "o")


@pytest.mark.parametrize("chunk", [1, 2, 5, 64])
@pytest.mark.parametrize("counted", [-(1 << 20), 1 << 20], ids=["long digits", "short digits"])
@pytest.mark.parametrize("op", ["+", "max", "min"])
def test_sorted_sums(chunk: int, counted: int, op: str) -> None:
    """Whatever the passes and chunks are, also of terms that belong nowhere."""
    random = np.random.default_rng(chunk)
    arrays = {
        "I": random.integers(0, 9, 31),
        "x": np.float32(random.integers(-9, 10, (31, 2))),
    }
    text = SUMS.format(op=op, more=", x(n,0) != 3")
    costs = replace(ALWAYS, chunks=(chunk,), counted=counted, summed=3)
    target = sorting(gpu_target(Gpu()), costs)
    found = evaluated_on_gpu(text, arrays, None, target)["h"]
    np.testing.assert_array_equal(found, tc.interpret(text, arrays))


@pytest.mark.parametrize("keys", [[], [8], [3] * 40, [*range(9)] * 3, [8, 7, 6, 5, 4, 3, 2, 1, 0]])
def test_sorted_sums_at_edges(keys: list[int]) -> None:
    x = np.arange(3 * len(keys), dtype=np.float32).reshape(-1, 3)
    arrays = {"I": np.int64(keys), "x": x}
    text = SUMS.format(op="+", more="")
    expected = np.zeros((9, 3), np.float32)
    np.add.at(expected, arrays["I"], x)
    found = evaluated_on_gpu(text, arrays, None, sorting(gpu_target(Gpu())))["h"]
    np.testing.assert_array_equal(found, expected)


def test_large_scatters_are_sorted() -> None:
    """The steps of the largest statement are some hundreds for each term, not one for each
    place; and those of a small one are as they were."""
    text = "def f(int(N) I, float(N) x) -> (h) { h(I(n)) +=! x(n) where h.0 = %d }"
    shapes = {"I": (1_000_000,), "x": (1_000_000,)}
    for places, is_sorted in ((10_000, True), (1_000_000, True), (200, False)):
        shaped = infer_ranges(checked(text % places), shapes, {})
        found = trace_lowering(shaped, {}, gpu_target(Gpu()), initial=frozenset(), check=False)
        names = [s.name for s in found.shaped.program.statements]
        assert ("S0.key" in names) == is_sorted
        loops = loops_over_all(found.kernel, places)
        assert not (is_sorted and loops)


# --- integers that meet in memory ---------------------------------------------------------------

COUNTS = "def f(int(N) I, {dtype}(N) x) -> (h) {{ h(I(n)) {op}=! x(n) where h.0 = {places} }}"


def atomics(kernel: ir.Kernel) -> dict[str, str]:
    """The buffers that atomics update, with their roles."""
    names = (s.buffer for s in every_statement(kernel) if isinstance(s, ir.Atomic))
    return {name: kernel.buffer(name).role for name in names}


@pytest.mark.parametrize(
    ("dtype", "op", "places", "role"),
    [
        ("int", "+", 256, "shared"),
        ("uint32", "max", 256, "shared"),
        ("int64", "min", 1000, "shared"),
        ("int", "|", 1000, "shared"),
        ("int", "+", 100_000, "temporary"),  # blocks have no room for so many
        ("float", "+", 256, None),  # no order of floats is like another
        ("int16", "+", 256, None),  # no step updates so few bits
        ("int", "*", 256, None),  # no step multiplies
        ("int", "+", 3, None),  # compared sooner
    ],
)
def test_integers_meet_in_the_memory_of_a_block(
    dtype: str, op: str, places: int, role: str | None
) -> None:
    text = COUNTS.format(dtype=dtype, op=op, places=places)
    shapes = {"I": (1_000_000,), "x": (1_000_000,)}
    shaped = infer_ranges(checked(text), shapes, {})
    found = trace_lowering(shaped, {}, gpu_target(Gpu()), initial=frozenset(), check=False)
    assert set(atomics(found.kernel).values()) == ({role} if role else set())
    wide = dtype == "int64"
    narrow = gpu_target(Gpu(wide_atomics=False))
    found = trace_lowering(shaped, {}, narrow, initial=frozenset(), check=False)
    assert bool(atomics(found.kernel)) == (role is not None and not wide)


def meets_in(shared: int, least: int) -> GpuTarget:
    """A GPU whose blocks have room for so many bytes of targets."""
    costs = AtomicCosts(launch=-(1 << 40), shared=shared, blocks=7, least=least, filled=0)
    target = gpu_target(Gpu())
    return replace(target, rewriting=replace(target.rewriting, atomics=costs))


ADDED = {"+": np.add, "min": np.minimum, "max": np.maximum, "&": np.bitwise_and,
         "|": np.bitwise_or, "^": np.bitwise_xor}  # fmt: skip


@pytest.mark.drawn(4)
@pytest.mark.parametrize("op", ADDED)
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("shared", [0, 1 << 12], ids=["of all", "of a block"])
def test_atomic_sums(op: str, dtype: str, shared: int) -> None:
    """Of any type and operation; also of no term, of one target, and of terms with conditions."""
    random = np.random.default_rng(len(op) + shared)
    text = COUNTS.format(dtype=dtype, op=op, places=9).replace("= 9", "= 9, n % 5 != 2")
    for terms in (0, 4, 90):
        x = random.integers(0, 100, terms).astype(dtype)
        for keys in (random.integers(0, 9, terms), np.full(terms, 7)):
            arrays = {"I": np.int32(keys), "x": x}
            found = evaluated_on_gpu(text, arrays, None, meets_in(shared, 5))["h"]
            start = {"&": ~np.array(0, dtype), "min": np.iinfo(dtype).max}
            start |= {"max": np.array(np.iinfo(dtype).min, dtype)}
            expected = np.full(9, start.get(op, 0), dtype)
            kept = np.arange(terms) % 5 != 2
            ADDED[op].at(expected, keys[kept], x[kept])
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shared", [0, 100, 1 << 12])
@pytest.mark.parametrize("goes_on", [True, False])
def test_atomic_sums_of_rows_and_batches(shared: int, goes_on: bool) -> None:
    random = np.random.default_rng(shared)
    text = f"""def f(int(B,N) I, int64(B,N,D) x) -> (int64(3,6,2) h) {{
      h(b,I(b,n),d) +={"" if goes_on else "!"} x(b,n,d)
    }}"""
    for terms in (1, 8, 70):
        keys = np.int32(random.integers(0, 6, (3, terms)))
        x = random.integers(-9, 9, (3, terms, 2))
        before = random.integers(-9, 9, (3, 6, 2))
        expected = before.copy() if goes_on else np.zeros_like(before)
        np.add.at(expected, (np.arange(3)[:, None], keys), x)
        given = {"h": before} if goes_on else None
        found = evaluated_on_gpu(text, {"I": keys, "x": x}, given, meets_in(shared, 3))["h"]
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("line", ["h(I(n)) max=! n", "h(I(n)) = n"])
def test_conditions_read_tensors_of_two_dimensions(line: str) -> None:
    """Their dimensions stay two, though the statement that writes them could have them as one."""
    text = f"""def f(int(N) I, int(A,B) x) -> (p, int(40) h) {{
      p(a,b) = x(a,b) * 3
      {line} where p(n % 2, n % 3) > 0
    }}"""
    random = np.random.default_rng(2)
    arrays = {"I": np.int32(random.permutation(40)[:30]), "x": np.int32([[1, -1, 1], [-1, 1, 1]])}
    expected = tc.interpret(text, arrays)
    found = evaluated_on_gpu(text, arrays, None, meets_in(1 << 12, 5))
    np.testing.assert_array_equal(found["h"], expected.h)


def test_targets_that_meet_are_not_in_registers() -> None:
    """A plan that says so is refused."""
    text = COUNTS.format(dtype="int", op="+", places=64)
    shaped = infer_ranges(checked(text), {"I": (1_000_000,), "x": (1_000_000,)}, {})
    part = Part(
        ["S0.copy", "S0.term"], [Bind("c", "block", "x"), Promote("h.copy", "register", "c")]
    )
    options = tc.Options(plan=tc.Plan([part]))
    with pytest.raises(
        tc.BackendError, match="threads meet in it, each of which would have its own"
    ):
        trace_lowering(
            shaped, {}, gpu_target(Gpu()), initial=frozenset(), check=False, options=options
        )


# --- checks -------------------------------------------------------------------------------------

CHECKED = {
    "S5": "h(I(n)) +=! 1 where h.0 = 256",
    "W3": "h(n) +=! x(e) where e in I(n):I(n+1)",
}


@pytest.mark.parametrize("name", CHECKED)
def test_checks_of_all_instances_are_made_at_once(name: str) -> None:
    """A thread for each, and no memory for what they find, which is nothing."""
    text = f"def f(int(N) I, int(E) x) -> (h) {{ {CHECKED[name]} }}"
    text = text if "x(" in text else text.replace(", int(E) x", "")
    arrays = {"I": np.int32(np.arange(40_000) % 256), "x": np.ones(256, np.int32)}
    if name == "W3":
        arrays["I"] = np.sort(arrays["I"])
    arrays = {n: a for n, a in arrays.items() if f" {n}" in text.partition("->")[0]}
    found = lowered(text, arrays, check=True)
    assert not loops_over_all(found.kernel, 39_999)
    (region,) = (
        r for r in found.kernel.regions if any(isinstance(s, ir.Fail) for s in ir.statements(r))
    )
    (grid,) = (s for s in region if isinstance(s, ir.Grid))
    assert launched(grid.blocks) > 100
    assert not any(b.role == "temporary" and b.shape == (40_000,) for b in found.kernel.buffers)
    h = np.zeros(found.shaped.shapes["h"], np.int32)
    assert evaluate(found.kernel, {**arrays, "h": h}) is None
    np.testing.assert_array_equal(h, tc.interpret(text, arrays))
    arrays["I"][20_000] = 257
    failure = evaluate(found.kernel, {**arrays, "h": h})
    assert failure is not None
    assert failure.values[0] in (19_999, 20_000)


# --- prefixes -----------------------------------------------------------------------------------

PREFIXES = {
    "all before, and itself": "o(i) +=! x(j,0) where j in 0:i+1",
    "all before": "o(i) +=! x(j,0) where j in 0:i",
    "all behind": "o(i) +=! x(j,0) where i in 0:N, j in i+1:N",
    "itself, and all behind": "o(i) max=! x(j,0) where i in 0:N, j in i:N",
    "far before": "o(i) +=! j <= i - 3 ? x(j,0) : 0 where i in 0:N+9",
    "of some": "o(i) min=! x(j,1) where j in 0:i+1, x(j,0) > 0",
    "columns": "o(i,d) +=! x(j,d) where j in 0:i+1",
    "rows of terms": "o(i) +=! x(j,d) where j in 0:i+1",
    "both ways": "o(i,d) +=! x(j,k) where j in 0:i+1, k in 0:d+1",
    "going on": "o(i) = x(i,1)  o(i) += x(j,0) where j in 0:i+1",
}


@pytest.mark.parametrize("chunk", [2, 3, 8])
@pytest.mark.parametrize("name", PREFIXES)
def test_prefixes_in_chunks(name: str, chunk: int) -> None:
    text = f"def f(float(N,D) x) -> (o) {{ {PREFIXES[name]} }}"
    target = gpu_target(Gpu())
    scans = ScanCosts(terms=0, chunk=chunk, least=2)
    target = replace(target, rewriting=replace(target.rewriting, scans=scans))
    random = np.random.default_rng(chunk)
    for length in (1, 2, 7, 24, 41):
        arrays = {"x": np.float32(random.integers(-4, 5, (length, 5)))}
        found = evaluated_on_gpu(text, arrays, None, target)["o"]
        np.testing.assert_array_equal(found, tc.interpret(text, arrays))


def test_long_prefixes_take_few_steps() -> None:
    """X3: some sixty-four for each element, where there were as many as elements before it."""
    for text, shape in (
        ("def f(float(N) x) -> (o) { o(i) +=! x(j) where j in 0:i+1 }", (1_000_003,)),
        ("def f(float(R,N) x) -> (o) { o(r,i) +=! x(r,j) where j in 0:i+1 }", (1024, 1024)),
        (
            "def f(float(H,W) x) -> (o) { o(h,w) +=! x(a,b) where a in 0:h+1, b in 0:w+1 }",
            (1080, 1920),
        ),
    ):
        shaped = infer_ranges(checked(text), {"x": shape}, {})
        found = trace_lowering(shaped, {}, gpu_target(Gpu()), initial=frozenset(), check=False)
        assert instances(found) <= 64 * math.prod(shape)


# --- texts --------------------------------------------------------------------------------------


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has launches cost nothing, so that small programs are sorted and scanned."""
    monkeypatch.setattr(tc.polyhedral.gpu.gpu_target, "COMPARED", 0)


TEXTS = {
    "sorted": (
        "def f(int(N) I, float(N) x) -> (o) { o(I(n)) +=! x(n) where o.0 = 1000 }",
        {"I": np.int32(np.arange(40) * 777 % 300), "x": np.float32(np.arange(40) % 7 - 3)},
    ),
    "written": (
        "def f(int(N) I, float(N) x) -> (float(90) o) { o(I(n)) = x(n) where x(n) > 0 }",
        {"I": np.int32(np.arange(40) * 7 % 90), "x": np.float32(np.arange(40) % 7 - 3)},
    ),
    "atomic": (
        "def f(int(N) I, int64(N) x) -> (o) { o(I(n)) +=! x(n) where o.0 = 50, x(n) != 4 }",
        {"I": np.int32(np.arange(4000) * 777 % 50), "x": np.arange(4000) % 7 - 3},
    ),
    "atomic among all blocks": (
        "def f(int(N) I, uint32(N) x) -> (o) { o(I(n)) max=! x(n) where o.0 = 20000 }",
        {"I": np.int32(np.arange(400) % 37 * 500), "x": np.uint32(np.arange(400) * 55 % 91)},
    ),
    "scanned": (
        "def f(float(N) x) -> (o) { o(i) +=! x(j) where j in 0:i+1 }",
        {"x": np.float32(np.arange(300) % 11 - 5)},
    ),
    "rows": (
        VECTOR.format(index="int64"),
        {**ragged(30, 90, 40, "int64"), "x": np.float32(np.arange(90) % 5 - 2)},
    ),
}


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("name", TEXTS)
def test_texts_on_the_machine_of_ptx(name: str) -> None:
    """What NVRTC makes of them; two orders of threads give the same bits."""
    text, inputs = TEXTS[name]
    emitted = tc.emit(text, inputs, backend="cuda", device=tc.Gpu.named("sm_90"))
    assert ("atomic" in str(emitted)) == name.startswith("atomic")
    failure, found = run_text(emitted, inputs)
    assert failure is None
    (output,), expected = checked(text).outputs, tc.interpret(text, inputs)
    np.testing.assert_array_equal(found[output].reshape(expected.shape), expected)


@on_pocl
@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("name", [name for name in TEXTS if name.startswith("atomic")])
def test_atomic_sums_in_opencl(name: str) -> None:
    """Integers of 64 bits, which not all devices add so, have another form."""
    text, inputs = TEXTS[name]
    x = inputs["x"].astype(np.int32)
    text = text.replace("int64", "int").replace("uint32", "int")
    function = tc.compile(text, backend="opencl")
    found = function(inputs["I"], x)
    assert "atomic_" in function.source(inputs["I"], x)
    np.testing.assert_array_equal(found, tc.interpret(text, [inputs["I"], x]))
