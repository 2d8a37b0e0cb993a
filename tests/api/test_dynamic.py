"""Functions with dynamic sizes: few compilations, right results for all sizes, errors as ever."""

from __future__ import annotations

import gc
import json
import logging
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tc
from tc import templates
from tc.backends.call_memory import CallMemory, FailureRecord
from tc.derivatives.text_functions import function_of, texts_of
from tc.dynamic import dynamic_sizes, tracked_calls
from tc.pipeline import check_module, parse_source
from tc.runtime.sizes import CallSizes
from tests.support.bounds import as_tuple, assert_within

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
SOFTMAX = """def softmax(float(N,D) I) -> (O) {
  m(n) max=! I(n,d)
  e(n,d) = exp(I(n,d) - m(n))
  s(n) +=! e(n,d)
  O(n,d) = e(n,d) / s(n)
}"""
LAYER = """def layer(float(B,I) x, float(O,I) W, float(O) b) -> (y) {
  y(n,o) +=! x(n,i) * W(o,i)
  y(n,o) = max(y(n,o) + b(o), 0)
}"""
CONV = """def conv(float(N,C,H,W) I, float(M,C,KH,KW) K) -> (O) {
  O(n,m,h,w) +=! I(n,c,h+kh,w+kw) * K(m,c,kh,kw)
}"""
MEANS = """def means(float(N,D) x, half(D) g) -> (mean, y) {
  mean(n) +=! x(n,d) / D
  y(n,d) = (x(n,d) - mean(n)) * g(d)
}"""
GATHER = "def rows(float(E,D) T, int(B,L) I) -> (O) { O(b,d) +=! T(I(b,l),d) }"

rng = np.random.default_rng(36)


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return rng.standard_normal(shape).astype(dtype)


PROGRAMS: dict[str, tuple[str, Callable[..., list[Any]], tuple[dict[str, int], ...]]] = {
    "mm": (
        MM,
        lambda M, K, N: [normal(M, K), normal(K, N)],
        tuple(
            {"M": m, "K": k, "N": n}
            for m, k, n in (
                (2, 3, 4),
                (127, 64, 33),
                (5, 300, 17),
                (64, 64, 64),
                (1, 9, 31),
                (90, 2, 130),
            )
        ),
    ),
    "softmax": (
        SOFTMAX,
        lambda N, D: [normal(N, D)],
        tuple(
            {"N": n, "D": d} for n, d in ((3, 5), (40, 100), (7, 1000), (2, 48), (64, 47), (9, 2))
        ),
    ),
    "layer": (
        LAYER,
        lambda **n: [normal(n["B"], n["I"]), normal(n["O"], n["I"]), normal(n["O"])],
        tuple(
            {"B": b, "I": i, "O": o}
            for b, i, o in ((2, 8, 8), (33, 70, 40), (5, 129, 257), (16, 16, 16))
        ),
    ),
    "conv": (
        CONV,
        lambda N, H, W: [normal(N, 3, H, W), normal(4, 3, 3, 3)],
        tuple(
            {"N": n, "H": h, "W": w}
            for n, h, w in ((1, 5, 5), (2, 9, 30), (3, 33, 7), (2, 3, 3), (2, 16, 67))
        ),
    ),
    "means": (
        MEANS,
        lambda N, D: [normal(N, D), normal(D, dtype=np.float16)],
        tuple({"N": n, "D": d} for n, d in ((4, 9), (31, 200), (2, 17), (100, 3))),
    ),
    "rows": (
        GATHER,
        lambda E, D, B, L: [normal(E, D), rng.integers(0, E, (B, L)).astype(np.int32)],
        tuple(
            {"E": e, "D": d, "B": b, "L": n}
            for e, d, b, n in ((10, 8, 4, 3), (50, 33, 9, 2), (3, 100, 70, 11), (2, 5, 2, 40))
        ),
    ),
}


LEAST = {"conv": 2}
"""What is added to sizes, so that results have as many elements: rows of none or one are apart."""


@contextmanager
def compilations() -> Iterator[list[str]]:
    """The lines that the logger `tc` writes for what is compiled."""
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger, handler = logging.getLogger("tc"), Kept()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def check(function: Any, text: str, inputs: list[Any]) -> None:
    expected, bounds = tc.interpret(text, inputs), tc.error_bound(text, inputs)
    results = zip(as_tuple(function(*inputs)), as_tuple(expected), as_tuple(bounds), strict=True)
    for result, value, bound in results:
        assert_within(result, value, bound)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("backend", ["numba", "c"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_right_at_all_sizes(name: str, backend: str) -> None:
    text, make, sizes = PROGRAMS[name]
    function = tc.compile(text, backend=backend, dynamic=True)
    for chosen in (*sizes, *reversed(sizes)):
        check(function, text, make(**chosen))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_size_at_a_time(name: str) -> None:
    """Each size alone is dynamic, from small to large: at most three compilations."""
    text, make, sizes = PROGRAMS[name]
    for size in sizes[0]:
        function = tc.compile(text, dynamic={size})
        values = [value + LEAST.get(name, 0) for value in (2, 9, 50, 130, 31, 3, 64)]
        with compilations() as lines:
            for value in values:
                check(function, text, make(**{**sizes[1], size: value}))
        assert len(lines) <= 3, lines


def test_new_sizes_compile_nothing() -> None:
    function = tc.compile(SOFTMAX, dynamic={"N", "D"})
    function.prepare(N=range(2, 300), D=range(2, 300))
    with compilations() as lines:
        for n, d in rng.integers(2, 300, (60, 2)):
            check(function, SOFTMAX, [normal(n, d)])
    assert lines == []


def test_sizes_0_and_1_and_others_out_of_range_have_their_own_code() -> None:
    function = tc.compile(SOFTMAX, dynamic={"N": range(16, 65, 16)})
    for n in (0, 1, 8, 17, 80):
        with compilations() as lines:
            check(function, SOFTMAX, [normal(n, 40)])
        assert lines
        assert f"({n}, 40)" in lines[0]
    for n in (16, 48, 64, 32):
        check(function, SOFTMAX, [normal(n, 40)])


def test_templates_are_kept_of_the_latest_kinds_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """D is not dynamic: for each value of it there are templates."""
    monkeypatch.setattr("tc.templates.MAX_FAMILIES", 2)
    function = tc.compile(SOFTMAX, dynamic={"N"})
    made = []
    for n, d in enumerate((8, 9, 8, 10, 8, 9), start=40):
        with compilations() as lines:
            check(function, SOFTMAX, [normal(n, d)])
        made.append(len(lines))
    assert made == [1, 1, 0, 1, 0, 1]


AVX512 = tc.Device(vector_bits=512, vector_registers=32, l1=48 << 10, l2=2 << 20, threads=2)


def test_kernels_for_many_sizes_ask_for_rows_as_exact_ones_do() -> None:
    """Of 1500 x 1000 values the next row is asked for in 0.57 ms in place of 0.79 (softmax)."""
    kernels = [
        tc.explain(SOFTMAX, {"N": 1500, "D": 1000}, dynamic=asked, device=AVX512).stages["kernel"]
        for asked in ({"N"}, None)
    ]
    found = [[line for line in kernel.splitlines() if "prefetch " in line] for kernel in kernels]
    assert found[0] == found[1] != []


def test_loops_that_exact_code_writes_out_have_no_masks_but_at_the_end() -> None:
    """The sum and the maximum of 500 values are straight-line code in exact kernels."""
    sizes = {"N": 128, "D": 500}
    kernel = tc.explain(SOFTMAX, sizes, dynamic={"D"}, device=AVX512).stages["kernel"]
    (whole, *_) = re.findall(r"for d\d* in 0:sizes\.\d+\n((?: {6,}.*\n)+?) {4}\S", kernel)
    assert "m_partial" in whole
    assert " if m" not in whole
    first = [line for line in kernel.splitlines() if "m_partial_0_0_0, m16" in line]
    plain = [line for line in kernel.splitlines() if "max(m_partial_0_0_0, I[" in line]
    assert (len(first), len(plain)) == (1, 2)  # behind the tiles, a vector may be whole, too


def test_small_sizes_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have one hint, of which they are all as near."""
    function = tc.compile(SOFTMAX, dynamic={"N"})
    looked = []
    planned = templates.planned
    monkeypatch.setattr(templates, "planned", lambda *a: looked.append(a) or planned(*a))
    for n in (3, 2, 5, 19, 7):
        check(function, SOFTMAX, [normal(n, 40)])
    assert len(looked) == 1


def test_sizes_behind_those_of_near_hints() -> None:
    """What is planned for 31 may end at 32; for 33 the next try has a larger hint."""
    program = check_module(parse_source(tc.Source(MM)), None)
    sizes = CallSizes({"A": (33, 40), "B": (40, 50)}, {})
    dynamic = dynamic_sizes(program, {"M"})
    assert dynamic is not None
    calls = tracked_calls(program, sizes, dynamic)
    near = next(calls)
    assert near.hints == {"M": 31}
    assert near.tracked.shapes["A"][0] <= 32  # a guard
    above = next(calls)
    assert above.hints == {"M": 37}
    assert above.tracked.shapes["A"][0] != 33
    assert list(calls) == []  # code for 33 alone is no template


def test_a_new_size_costs_no_look_at_the_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of the regions for all sizes is kept with their code."""
    function = tc.compile(SOFTMAX, dynamic={"N"})
    check(function, SOFTMAX, [normal(100, 40)])

    def fail(*_: object) -> Any:
        raise AssertionError("statements are walked")

    for name in ("tc.kernel.ir.statements", "tc.kernel.ir.walk", "tc.kernel.ir.children"):
        monkeypatch.setattr(name, fail)
    monkeypatch.setattr("tc.backends.numba.backend.statements", fail)
    monkeypatch.setattr("tc.kernel.analysis.estimate._items", fail)
    for n in (57, 300):
        check(function, SOFTMAX, [normal(n, 40)])


@pytest.mark.parametrize("backend", ["numba", "c"])
def test_calls_of_all_sizes_share_their_memory(backend: str) -> None:
    """Scratch memory and temporaries are those of the largest call, whatever the order of sizes."""
    text = """def gram(float(N,K) a, float(K,M) b) -> (o) {
      t(n,i) +=! a(n,k) * b(k,i)
      o(i,j) +=! t(n,i) * t(n,j)
    }"""
    function = tc.compile(text, dynamic={"N"}, backend=backend)
    for n in (310, 290, 340, 291, 310):
        check(function, text, [normal(n, 70), normal(70, 90)])
    by_memory: dict[int, list[Any]] = {}
    for special in function._specialiser.made.values():
        by_memory.setdefault(id(special.runner.memory), []).append(special)
    (family,) = function._specialiser.templates.families.values()
    assert len(by_memory) == len(family.templates) < 4
    for specials in by_memory.values():
        (spare,) = {
            id(each.temporaries.spare): each.temporaries.spare for each in specials
        }.values()
        (kept,) = spare.idle
        largest = max(each.shaped.shapes["t"][0] for each in specials)
        assert max(array.nbytes for array in kept) == largest * 90 * 4
        assert len(specials[0].runner.memory.idle) <= 1


def test_a_tile_of_many_rows_is_not_computed_for_few() -> None:
    """With 512 x 512 weights, 2 rows take 27 us in tiles of 5, and 98 in tiles of 32."""
    function = tc.compile(LAYER, dynamic={"B"})
    for b in (2, 3, 7):
        check(function, LAYER, [normal(b, 64), normal(48, 64), normal(48)])
    (family,) = function._specialiser.templates.families.values()
    (template,) = family.templates
    assert template.of.hints == {"B": 5}


def test_scratch_memory_begins_as_zeros() -> None:
    """What rows behind the last compute with is no subnormal number."""
    memory = CallMemory(3, FailureRecord({}), 4096, 2)
    assert not memory.scratch.any()
    memory.scratch.fill(7)
    memory.reserve(8192)
    assert memory.scratch.nbytes == 2 * 8192
    assert not memory.scratch.any()


def test_tensors_without_elements() -> None:
    """They have none in kernels for many sizes, either."""
    text = "def f(int(N,M,K) a) -> (o) { o(j,w) max=! a(w,k,j) where k in M:M }"
    function = tc.compile(text, dynamic={"K"})
    for size in (8, 40, 9):
        check(function, text, [np.zeros((7, 0, size), np.int32)])
    trace = function.explain(N=7, M=0, K=8).trace
    assert trace.kernel.arguments[0].shape == (0,)


def test_auto_makes_dynamic_what_varies() -> None:
    function = tc.compile(SOFTMAX, dynamic="auto")
    with compilations() as lines:
        for n in range(10, 30):
            check(function, SOFTMAX, [normal(n, 100)])
    assert len(lines) == 4
    assert "sizes like N=" in lines[3]
    assert "D=" not in lines[3]


def test_outputs_are_those_of_the_caller() -> None:
    function = tc.compile(MM, dynamic=True)
    for m, n in ((5, 40), (33, 7), (12, 12)):
        a, b, c = normal(m, 20), normal(20, n), np.full((m, n), 7, np.float32)
        assert function(a, b, outputs=c) is c
        assert_within(c, tc.interpret(MM, [a, b]), tc.error_bound(MM, [a, b]))
    with pytest.raises(tc.InputError, match=r"has shape \(3, 3\), but the output has shape"):
        function(normal(5, 20), normal(20, 40), outputs=np.zeros((3, 3), np.float32))


def test_arrays_in_other_layouts() -> None:
    """Columns, steps and reversed rows have code of their own; the results are right."""
    function = tc.compile(MM, dynamic=True)
    for m in (5, 21, 40, 9):
        a = normal(30, m).T
        check(function, MM, [a, normal(60, 18)[::2]])
        check(function, MM, [normal(m, 30)[::-1], normal(30, 9)])


def test_alternating_sizes_on_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    function = tc.compile(SOFTMAX, dynamic=True)
    inputs = [normal(n, d) for n, d in rng.integers(2, 150, (40, 2))]
    expected = [function(x) for x in inputs]
    with ThreadPoolExecutor(8) as pool:
        for value, result in zip(expected * 3, pool.map(function, inputs * 3), strict=True):
            assert (value == result).all()


def test_errors_are_those_of_exact_code() -> None:
    text = "def conv(float(H) I, float(K) w) -> (O) { O(h) +=! I(h+k) * w(k) }"
    exact, dynamic = tc.compile(text), tc.compile(text, dynamic=True)
    check(dynamic, text, [normal(90), normal(5)])
    for shapes in ((3, 9), (2, 7)):
        told = []
        for function in (exact, dynamic):
            with pytest.raises(tc.RangeError) as error:
                function(*(normal(n) for n in shapes))
            told.append(str(error.value))
        assert told[0] == told[1]


def test_reads_are_checked() -> None:
    function = tc.compile(GATHER, dynamic=True)
    for e, b in ((10, 4), (5, 9), (30, 2)):
        indices = np.zeros((b, 3), np.int32)
        check(function, GATHER, [normal(e, 8), indices])
        indices[b - 1, 2] = e
        with pytest.raises(tc.AccessError, match=f"row {e}|{e}"):
            function(normal(e, 8), indices)


def test_pickled_shown_and_explained() -> None:
    function = tc.compile(MM, dynamic={"N": range(16, 4097, 16), "M": range(2, 100)})
    again = pickle.loads(pickle.dumps(function))
    assert repr(again) == repr(function)
    assert repr(function).endswith("backend numba, dynamic M=range(2, 100), N=range(16, 4097, 16)>")
    a, b = normal(8, 30), normal(30, 48)
    assert (again(a, b) == function(a, b)).all()
    explanation = function.explain(M=8, K=30, N=48)
    assert list(explanation.stages)[:2] == ["ranges", "sizes"]
    assert "16 <= N <= 4096, a multiple of 16" in explanation.stages["sizes"]
    assert "16*(N / 16)" in str(explanation)
    assert "0:M" in str(explanation)
    assert "sizes_" in function.source(M=8, K=30, N=48)


def test_kernels_of_ranges_on_the_interpreter() -> None:
    function = tc.compile(MM, dynamic=True, backend="interpret")
    check(function, MM, [normal(3, 4), normal(4, 5)])


def test_derived_functions_inherit_dynamic_sizes() -> None:
    function = tc.compile(SOFTMAX, dynamic={"N"})
    derived = tc.compile(str(tc.grad(SOFTMAX)))
    assert repr(function._compiled_alike(derived.program)).endswith("dynamic N>")


MISTAKES = {
    "unknown": (
        {"Q"},
        "mm has no size 'Q'; there are M, K, N",
        'dynamic={"M", "K", "N"}',
    ),
    "near": ({"n"}, "mm has no size 'n'; there are M, K, N", 'dynamic={"N"}'),
    "tensor": (
        {"A"},
        "'A' is a tensor of mm, and no size; there are M, K, N",
        'dynamic={"M", "K", "N"}',
    ),
    "one name": (
        "N",
        "dynamic='N': sizes are named in a set, a mapping to their ranges, or by True for all",
        'dynamic={"N"}',
    ),
    "number": (
        3,
        "dynamic=3: it is a set of names of sizes, a mapping from names to ranges, True, "
        '"auto" or False',
        'dynamic={"M", "K", "N"}',
    ),
    "no range": (
        {"N": None},
        "dynamic={'N': None}: a size has a range of Python, such as range(1, 4097), or "
        "range(16, 4097, 16) for multiples of 16",
        'dynamic={"N": range(1, 4097)}',
    ),
    "empty": (
        {"N": range(5, 5)},
        "dynamic={'N': range(5, 5)}: the range has no sizes",
        'dynamic={"N": range(5, 4101)}',
    ),
    "below 0": (
        {"N": range(-4, 9)},
        "dynamic={'N': range(-4, 9)}: the range begins below 0",
        'dynamic={"N": range(1, 9)}',
    ),
    "down": (
        {"N": range(9, 2, -1)},
        "dynamic={'N': range(9, 2, -1)}: the range goes down",
        'dynamic={"N": range(3, 10)}',
    ),
    "no multiple": (
        {"N": range(3, 99, 16)},
        "dynamic={'N': range(3, 99, 16)}: the sizes of a range with the step 16 are multiples of "
        "16, and its begin 3 is none",
        'dynamic={"N": range(16, 99, 16)}',
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(case: str) -> None:
    dynamic, cause, repair = MISTAKES[case]
    with pytest.raises(tc.InputError) as error:
        tc.compile(MM, dynamic=dynamic)  # type: ignore[arg-type]  # a mistake
    assert str(error.value) == f"InputError: {cause}\nrepair: {repair}"
    tc.compile(MM, **eval(f"dict({repair})"))


def test_sizes_that_are_one() -> None:
    text = """
def two(float(P) x, float(P) y) -> (z) { z(i) = x(i) + y(i) }
def f(float(N) a, float(M) b) -> (c) { c = two(a, b) }"""
    function = tc.compile(text, entry="f", dynamic=True)
    for n in (5, 40, 3):
        a, b = normal(n), normal(n)
        assert (function(a, b) == a + b).all()
    with pytest.raises(tc.InputError, match="T4"):
        function(normal(5), normal(6))


def test_defs_take_the_sizes_that_they_have() -> None:
    text = f"{MM}\n{SOFTMAX}"
    defs = tc.define(text, dynamic={"N", "K"})
    assert [repr(f).rpartition("dynamic ")[2] for f in (defs.mm, defs.softmax)] == ["K, N>", "N>"]
    with pytest.raises(tc.InputError, match="mm has no size 'Q'"):
        tc.define(text, dynamic={"N", "Q"})


def test_sizes_without_a_template_are_explained() -> None:
    told = tc.explain(MM, M=1, K=8, N=8, dynamic={"M"}, stage="sizes")
    assert str(told) == "No kernel for many sizes serves these: they have code of their own."
    with pytest.raises(tc.InputError, match="stage='sizes': there are 'ranges'"):
        tc.explain(MM, M=1, K=8, N=8, stage="sizes")


WINDOW = """def window(float(N) a) -> (b) {
  b(i) +=! a(j) where i in 0:N, j in max(i-2,0):min(i+3,N)
}"""
PINNED = (
    "warning: N is dynamic, and code for sizes that vary could be made for N == 37 alone: each new "
    "N is compiled; tc.explain(..., stage='sizes') says what needs it"
)


def test_a_size_that_is_named_and_pinned_is_told_once() -> None:
    function = tc.compile(WINDOW, dynamic={"N"})
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for n in (40, 50, 50, 60):
            check(function, WINDOW, [normal(n)])
    assert [type(each.message) for each in told] == [tc.TCWarning]
    lines = str(told[0].message).splitlines()
    assert (lines[0], lines[-1]) == (PINNED, "repair: dynamic=None")
    assert "def window(float(N) a)" in lines[-3]


@pytest.mark.parametrize("dynamic", [True, "auto"])
def test_sizes_that_nobody_names_are_pinned_in_silence(dynamic: Any) -> None:
    function = tc.compile(WINDOW, dynamic=dynamic)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(40, 46):
            check(function, WINDOW, [normal(n)])


ASKED: list[Any] = [True, "auto", {"N"}, {"N", "M"}, {"N": range(16, 4097, 16), "K": range(2, 9)}]


@pytest.mark.parametrize("asked", ASKED, ids=["all", "auto", "one", "two", "ranges"])
def test_texts_for_graphs_say_which_sizes_are_dynamic(asked: Any) -> None:
    function = tc.compile(MM, dynamic=asked)
    texts = texts_of(function, {})
    assert function_of(*texts)[0] is function
    shown = repr(function)
    del function
    gc.collect()
    again, _, is_new = function_of(*texts)
    assert (is_new, repr(again), texts_of(again, {})) == (True, shown, texts)


@pytest.mark.parametrize("value", ["N", [1], {"N": [2, 9]}, {"N": [2, 9, 0]}, 3, False])
def test_texts_that_say_nothing_of_sizes_are_refused(value: Any) -> None:
    text, entry, _ = texts_of(tc.compile(MM), {})
    how = json.dumps({"backend": "numba", "dynamic": value})
    with pytest.raises(tc.BackendError, match="does not say which sizes are dynamic"):
        function_of(text, entry, how)


def test_new_sizes_in_graphs_of_torch_compile_nothing(torch: Any) -> None:
    function = tc.compile(MM, dynamic={"M"})

    @torch.compile(backend="aot_eager", dynamic=True, fullgraph=True)
    def layer(a: Any, b: Any) -> Any:
        return torch.relu(function(a, b)) + 1

    b = torch.from_numpy(normal(40, 50))
    made = []
    for m in (33, 40, 51, 64, 127, 80):
        a = torch.from_numpy(normal(m, 40))
        with compilations() as lines:
            found = layer(a, b)
        made.append(len(lines))
        assert torch.allclose(found, torch.relu(a @ b) + 1, atol=1e-4)
    assert made == [1, 0, 0, 0, 0, 0]
