"""Tiles that are copied to shared memory while others are used: right on the machine of blocks and
threads and as machine code, for any address; what mutants of texts do is found; and what is
refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.backends.clike.cuda_dialect import CUDA, cuda_for
from tc.backends.clike.printer import functions_of, print_kernel
from tc.backends.geometry import LaunchText
from tc.kernel.ir import Barrier, CopyAsync, For, Store, Wait, statements
from tc.polyhedral.schedule import to_text
from tests.support.bounds import assert_within
from tests.support.pipeline import evaluate_kernel
from tests.support.ptx.machine import Launch, PtxError
from tests.support.ptx.memory import GlobalMemory
from tests.support.ptx.parse import parse
from tests.support.ptx.texts import ptx_of, run_text

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
CONV = """def conv(float(C,H,W) a, float(F,C,P,Q) w) -> (o) {
  o(f,h,v) +=! a(c,h+p,v+q) * w(f,c,p,q)
}"""
EDGES = """def edges(float(N) a, float(K) w) -> (o) {
  o(i) +=! pad(a(i + k - 2), 1.5) * w(k) where i in 0:N, k in 0:K
}"""
ONE = ["S0.init", "S0"]
GPU = tc.Gpu.named("sm_90")
EXPECTED = Path(__file__).parents[2] / "expected" / "stages"
Action = dict[str, Any]


def bind(loop: str, role: str, axis: str | None = None) -> Action:
    return {"bind": loop, "role": role} | ({} if axis is None else {"axis": axis})


def options(statements: list[str], *actions: Action) -> tc.Options:
    parts = [{"statements": statements, "actions": actions}]
    plan = tc.Plan.from_json(json.dumps({"version": 1, "parts": parts}))
    return tc.Options(plan=plan, schedule=tc.ScheduleOptions(rewrite=False))


def shared(tensor: str, inside: str, **more: Any) -> Action:
    return {"promote": tensor, "scope": "shared", "inside": inside, "statements": ["S0"], **more}


TILES = (
    {"tile": "i", "sizes": [8, 2]},
    {"tile": "j", "sizes": [16]},
    {"tile": "k", "sizes": [8]},
    {"reorder": ["i div 8", "j div 16", "i mod 8 div 2", "j mod 16", "i mod 2"]},
    {"sink": ["i mod 2"]},
    bind("i div 8", "block", "y"),
    bind("j div 16", "block", "x"),
    bind("i mod 8 div 2", "thread", "y"),
    bind("j mod 16", "thread", "x"),
    bind("i mod 2", "unroll"),
    {"promote": "C", "scope": "register", "inside": "j mod 16"},
)


def pipelined(stages: int, through: str, lanes: int = 1, **more: Any) -> tc.Options:
    """A product whose operands are copied for eight steps at a time."""
    how = {"stages": stages, "through": through, "lanes": lanes, "unroll": True} | more
    copies = (shared(n, "k div 8", **{"pitch": p, **how}) for n, p in (("A", 12), ("B", 16)))
    return options(ONE, *TILES, *copies)


WAYS = [("async", 4), ("async", 2), ("async", 1), ("registers", 1)]
SIZES = [(16, 40, 32), (9, 37, 35), (8, 8, 16), (3, 5, 2), (17, 12, 20)]


def operands(m: int, k: int, n: int) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {
        "A": rng.integers(-4, 5, (m, k)).astype(np.float32),
        "B": rng.integers(-4, 5, (k, n)).astype(np.float32),
    }


def emitted(text: str, inputs: dict[str, Any], wanted: tc.Options) -> LaunchText:
    found = tc.emit(text, inputs, backend="cuda", device=GPU, options=wanted)
    assert isinstance(found, LaunchText)
    return found


def elsewhere(text: LaunchText, inputs: dict[str, Any]) -> Any:
    """What the text for any address gives, of arrays that begin one element behind a multiple of
    16 bytes."""
    source = print_kernel(text.kernel, cuda_for(GPU, aligned=False))
    assert ", 16" not in "".join(line for line in source.splitlines() if "cp.async" in line)
    memory, functions = GlobalMemory(), parse(ptx_of(source))
    (output,) = (b for b in text.kernel.arguments if b.role == "output")
    arrays = {**inputs, output.name: np.zeros(output.shape, np.float32)}
    places = {name: memory.add(name, array, 4) for name, array in arrays.items()}
    for function, launch in zip(functions_of(text.kernel, CUDA), text.launches, strict=True):
        given = [places[buffer.name] for buffer in function.arguments]
        one = functions[launch.function]
        Launch(one, launch.grid, launch.block, given, memory, launch.dynamic).run()
    return memory.array(places[output.name], arrays[output.name])


@pytest.mark.parametrize(("through", "lanes"), WAYS)
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_products(stages: int, through: str, lanes: int) -> None:
    wanted = pipelined(stages, through, lanes)
    for m, k, n in SIZES:
        inputs = operands(m, k, n)
        expected = inputs["A"] @ inputs["B"]
        found = evaluate_kernel(MM, inputs, device=GPU, options=wanted)
        np.testing.assert_array_equal(found["C"], expected)
    text = emitted(MM, inputs := operands(9, 36, 20), wanted)
    expected = inputs["A"] @ inputs["B"]
    np.testing.assert_array_equal(run_text(text, inputs)[1]["C"], expected)
    np.testing.assert_array_equal(elsewhere(text, inputs), expected)


def loop_of(text: LaunchText) -> For:
    """The loop over tiles."""
    inside = statements(text.kernel.regions[0])
    return next(s for s in inside if isinstance(s, For) and s.var.startswith("k"))


@pytest.mark.parametrize(("through", "lanes"), WAYS)
def test_loops_are_pipelined(through: str, lanes: int) -> None:
    """Tiles are copied ahead, behind one barrier; there are no more stages than tiles."""
    for stages, steps in ((1, 5), (2, 5), (4, 5), (4, 3), (4, 2)):
        inputs = operands(16, 8 * steps, 32)
        text = emitted(MM, inputs, pipelined(stages, through, lanes))
        room = min(stages, steps)
        held = {b.name: b.shape for b in text.kernel.buffers if b.role == "shared"}
        first = (room,) if room > 1 else ()
        assert held == {"A_shared": (*first, 8, 12), "B_shared": (*first, 8, 16)}
        inside = [*statements(loop_of(text).body)]
        assert sum(isinstance(s, Barrier) for s in inside) == (1 if room > 1 else 2)
        waits = [s.left for s in inside if isinstance(s, Wait)]
        assert waits == ([max(0, room - 2)] if through == "async" else [])
        copies = {s.count for s in inside if isinstance(s, CopyAsync)}
        assert copies == ({lanes} if through == "async" else set())
        stored = {s.buffer for s in inside if isinstance(s, Store)}
        assert stored == (set() if through == "async" else held.keys())


def test_rows_that_are_no_multiples_are_copied_one_by_one() -> None:
    """By the same plan; what is beyond a row is not read."""
    text = emitted(MM, operands(16, 37, 35), pipelined(2, "async", 4))
    copies = [s for s in statements(loop_of(text).body) if isinstance(s, CopyAsync)]
    assert {s.count for s in copies} == {1}


def test_elements_apart_in_memory_are_copied_one_by_one() -> None:
    """Rows of which every other element is given: nothing of them lies side by side."""
    inputs = {"A": operands(16, 80, 32)["A"][:, ::2], "B": operands(16, 40, 64)["B"][:, ::2]}
    wanted = pipelined(2, "async", 4)
    text = emitted(MM, inputs, wanted)
    copies = [s for s in statements(loop_of(text).body) if isinstance(s, CopyAsync)]
    assert {s.count for s in copies} == {1}
    found = evaluate_kernel(MM, inputs, device=GPU, options=wanted)
    np.testing.assert_array_equal(found["C"], inputs["A"] @ inputs["B"])


def test_windows() -> None:
    """Of an image, whose tiles overlap, and filters; halos are copied, too."""
    image = np.arange(4 * 9 * 20, dtype=np.float32).reshape(4, 9, 20) % 7
    filters = np.arange(3 * 4 * 3 * 3, dtype=np.float32).reshape(3, 4, 3, 3) % 5
    inputs = {"a": image, "w": filters}
    for through, stages in product(("async", "registers"), (2, 3)):
        how = {"stages": stages, "through": through, "unroll": True}
        wanted = options(
            ONE,
            {"tile": "v", "sizes": [8]},
            bind("f", "block", "y"),
            bind("v div 8", "block", "x"),
            bind("h", "thread", "y"),
            bind("v mod 8", "thread", "x"),
            {"promote": "o", "scope": "register", "inside": "v mod 8"},
            shared("a", "c", **how),
            shared("w", "c", **how),
        )
        found = evaluate_kernel(CONV, inputs, device=GPU, options=wanted)
        expected = tc.interpret(CONV, inputs)
        assert isinstance(expected, np.ndarray)
        np.testing.assert_array_equal(found["o"], expected)
        text = emitted(CONV, inputs, wanted)
        np.testing.assert_array_equal(run_text(text, inputs)[1]["o"], expected)


def test_padding() -> None:
    """What lies beyond a tensor is stored at once, beside what is copied."""
    inputs = {"a": np.arange(19, dtype=np.float32), "w": np.arange(1, 8, dtype=np.float32)}
    for stages in (1, 2, 3):
        wanted = options(
            ONE,
            {"tile": "i", "sizes": [8]},
            {"tile": "k", "sizes": [2]},
            bind("i div 8", "block", "x"),
            bind("i mod 8", "thread", "x"),
            shared("a", "k div 2", padded=True, stages=stages, through="async"),
        )
        found = evaluate_kernel(EDGES, inputs, device=GPU, options=wanted)
        expected = tc.interpret(EDGES, inputs)
        assert_within(found["o"], expected, tc.error_bound(EDGES, inputs))
        assert isinstance(expected, np.ndarray)
        np.testing.assert_array_equal(
            run_text(emitted(EDGES, inputs, wanted), inputs)[1]["o"], expected
        )


def test_opencl_copies_at_once() -> None:
    text = str(
        tc.emit(MM, operands(16, 40, 32), backend="opencl", options=pipelined(2, "async", 4))
    )
    assert "async" not in text
    assert "tc_copy" not in text
    assert text.count("A_shared[stage_2]") == 4


def test_older_gpus_copy_at_once() -> None:
    inputs = operands(9, 37, 35)
    old = tc.Gpu(arch="sm_75")
    text = tc.emit(MM, inputs, backend="cuda", device=old, options=pipelined(2, "async"))
    assert isinstance(text, LaunchText)
    assert "cp.async" not in str(text)
    np.testing.assert_array_equal(run_text(text, inputs)[1]["C"], inputs["A"] @ inputs["B"])


# --- mutants ------------------------------------------------------------------------------------

MUTANTS: dict[str, Callable[[str], str]] = {
    "a wait less": lambda text: text.replace("copies<1>()", "copies<2>()"),
    "no wait": lambda text: text.replace("        tc_wait_for_copies<1>();\n", ""),
    "no barrier": lambda text: text.replace("        __syncthreads();\n", ""),
    "the stage that is used": lambda text: text.replace("(k0 + 2) % 3", "k0 % 3"),
    "the stage before": lambda text: text.replace("stage_1 = k0 % 3", "stage_1 = (k0 + 2) % 3"),
    "the next tile": lambda text: text.replace("(k0 + 2) * 8", "(k0 + 1) * 8"),
    "a tile too few": lambda text: text.replace("if (k0 < 3)", "if (k0 < 2)"),
    "no zeros": lambda text: text.replace("is_copied ? 16 : 0", "16"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants(name: str) -> None:
    """Of a text that is right; some rows of the last tiles are beyond the operands."""
    inputs = operands(9, 36, 20)
    text = emitted(MM, inputs, pipelined(3, "async", 4))
    expected = inputs["A"] @ inputs["B"]
    np.testing.assert_array_equal(run_text(text, inputs)[1]["C"], expected)
    mutant = MUTANTS[name](str(text))
    assert mutant != str(text)
    try:
        _, found = run_text(text, inputs, ptx_of(mutant))
    except PtxError:
        return
    assert not np.array_equal(found["C"], expected)


# --- texts --------------------------------------------------------------------------------------


def test_tree() -> None:
    wanted = pipelined(3, "async", 4)
    lowering = tc.explain(MM, operands(16, 40, 32), backend="cuda", options=wanted).trace.lowering
    lines = to_text(lowering.mapped.tree).splitlines()
    promoted = [line.strip() for line in lines if "shared" in line]
    assert promoted == [
        "promote A to shared A_shared[3x8x12] (copied in, async, 3 stages)",
        "promote B to shared B_shared[3x8x16] (copied in, async, 3 stages)",
    ]


def test_whole_text(golden: Callable[[Path, str], None]) -> None:
    for backend in ("cuda", "opencl"):
        wanted = pipelined(2, "async", 4, pitch=None)
        text = tc.emit(MM, operands(12, 20, 32), backend=backend, device=GPU, options=wanted)
        golden(EXPECTED / f"{backend}.txt", str(text))


# --- what is refused ----------------------------------------------------------------------------

HALF = "def f(half(N,K) a) -> (o) { o(i) +=! a(i,k) }"
SUM = "def f(float(N,K) a) -> (o) { o(i) +=! a(i,k) }"
ROWS = ({"tile": "k", "sizes": [6]}, bind("i", "thread", "x"))
GATHER = "def f(float(R,K) t, int(N) x) -> (o) { o(i) +=! t(x(i),k) }"
TURNS = "def f(float(N,K) a) -> (o) { o(i) +=! a(i,k) * a(i,0) }"


def ahead(**more: Any) -> Action:
    return shared("a", "k div 6", **{"stages": 2, "through": "async", **more})


REFUSED: dict[str, tuple[str, tuple[Action, ...], str]] = {
    "too many stages": (SUM, (*ROWS, ahead(stages=5)), "5 stages, and there are at most 4"),
    "another way": (
        SUM,
        (*ROWS, ahead(through="cache")),
        "nothing is copied through 'cache': registers, or async",
    ),
    "stages of registers": (
        SUM,
        (*ROWS, {"promote": "o", "scope": "register", "inside": "i", "stages": 2}),
        "stages and async copies are for shared memory",
    ),
    "stages of nothing": (
        SUM,
        (*ROWS, {"promote": "a", "scope": "shared", "stages": 2, "unroll": True}),
        "a cannot be promoted for the whole part: stages are for the tiles of the iterations of a "
        "loop",
    ),
    "stages of threads": (
        SUM,
        (*ROWS, shared("a", "i", stages=2, unroll=True)),
        "a cannot be promoted inside of i: stages follow each other in a serial loop, not a thread",
    ),
    "loops that registers are ahead of": (
        SUM,
        (*ROWS, ahead(through="registers")),
        "a cannot be promoted inside of k div 6: what registers hold ahead is copied by "
        "straight-line code: unroll",
    ),
    "lanes without async": (
        SUM,
        (*ROWS, ahead(through="registers", lanes=2)),
        "threads of a GPU copy element by element, but for what is copied to shared memory through "
        "async copies, or as it is stored: no lanes, no lines",
    ),
    "too many lanes": (
        SUM,
        (*ROWS, ahead(lanes=8)),
        "a cannot be promoted inside of k div 6: 8 elements of 4 bytes are no 4, 8 or 16 bytes at "
        "once",
    ),
    "rows of other lengths": (
        SUM,
        (*ROWS, ahead(lanes=4)),
        "a cannot be promoted inside of k div 6: rows of 6 elements are no multiple of 4",
    ),
    "columns": (
        SUM,
        (*ROWS, ahead(lanes=2, axes=[[1, 1], [0, 1]])),
        "a cannot be promoted inside of k div 6: the rows of its buffer are no rows of a",
    ),
    "halves": (
        HALF,
        (*ROWS, ahead()),
        "a cannot be promoted inside of k div 6: async copies convert nothing, and the tile of "
        "float16 is to hold float32: as_stored",
    ),
    "no room": (
        SUM,
        (*ROWS, ahead(pitch=9000)),
        "the tile of a has 2 x 8 x 9000 elements, 576000 bytes, and in shared there is room for "
        "232448",
    ),
}


def shapes_of(text: str) -> dict[str, Any]:
    dtype = np.float16 if "half" in text else np.float32
    return {"a": np.ones((8, 12), dtype)}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """With the reason, and the nearest plan that works."""
    text, actions, reason = REFUSED[name]
    statements = ["S0.init", "S0"] if "half" not in text else ["S0.init", "S0", "S0.rounded"]
    inputs = shapes_of(text)
    with pytest.raises(tc.BackendError) as error:
        tc.emit(text, inputs, backend="cuda", device=GPU, options=options(statements, *actions))
    assert error.value.cause.endswith(f": {reason}")
    assert error.value.repair is not None
    mended = tc.Options(
        plan=tc.Plan.from_json(error.value.repair), schedule=tc.ScheduleOptions(rewrite=False)
    )
    found = evaluate_kernel(text, inputs, device=GPU, options=mended)
    assert found["o"].tolist() == [12.0] * 8


@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("through", ["async", "registers"])
def test_turns_of_threads(through: str, stages: int) -> None:
    """In each turn, what thread runs which tile is a local, that copies and uses have of their
    own."""
    text = "def f(float(M) g, float(N) x) -> (o) { o(i,m) = g(i) + x(m) }"
    inputs = {"g": np.arange(3, dtype=np.float32), "x": np.arange(27, dtype=np.float32)}
    wanted = options(
        ["S0"],
        {"tile": "m", "sizes": [2]},
        shared("g", "m div 2", stages=stages, through=through, unroll=True),
        {"tile": "m div 2", "sizes": [5]},
        bind("m mod 10 div 2", "thread", "y") | {"count": 2},
    )
    found = evaluate_kernel(text, inputs, device=GPU, options=wanted)
    np.testing.assert_array_equal(found["o"], np.add.outer(inputs["g"], inputs["x"]))
    _, found = run_text(emitted(text, inputs, wanted), inputs)
    np.testing.assert_array_equal(found["o"], np.add.outer(inputs["g"], inputs["x"]))


def test_what_is_gathered_is_not_copied_async() -> None:
    inputs = {"t": np.ones((4, 12), np.float32), "x": np.zeros(8, np.int32)}
    wanted = options(ONE, *ROWS, shared("t(x(d0), d1)", "k div 6", through="async"))
    with pytest.raises(tc.BackendError, match="what is gathered is not copied by async copies"):
        tc.emit(GATHER, inputs, backend="cuda", device=GPU, options=wanted)


def test_what_is_written_back_has_no_lanes() -> None:
    """Other threads would copy an element out than copy it in for the next tile."""
    wanted = options(ONE, *ROWS, shared("o", "k div 6", lanes=2, through="async"))
    with pytest.raises(tc.BackendError, match="it is written back element by element: no lanes"):
        tc.emit(SUM, shapes_of(SUM), backend="cuda", device=GPU, options=wanted)


def test_tiles_at_one_place_have_equal_stages() -> None:
    copies = (
        shared("A", "k div 8", stages=2, unroll=True),
        shared("B", "k div 8", stages=3, unroll=True),
    )
    with pytest.raises(tc.BackendError) as error:
        emitted(MM, operands(16, 40, 32), options(ONE, *TILES, *copies))
    assert (
        "A_shared has 2 stages through registers, and B_shared, copied at the same place, 3 "
        "through registers"
    ) in error.value.cause


def test_tiles_of_tiles_are_not_copied_async() -> None:
    around = {"promote": "A", "scope": "shared", "inside": "j div 16"}
    copies = around, shared("A", "k div 8", through="async")
    with pytest.raises(tc.BackendError) as error:
        emitted(MM, operands(16, 40, 32), options(ONE, *TILES, *copies))
    assert "filled by async copies, and inside of another buffer" in error.value.cause


def test_what_a_loop_writes_is_not_ahead() -> None:
    text = "def f(float(N,K) a) -> (o, p) { o(i,k) = 2 * a(i,k)  p(i) +=! o(i,k) }"
    wanted = tc.Options(
        plan=tc.Plan.from_json(
            json.dumps(
                {
                    "version": 1,
                    "parts": [
                        {
                            "statements": ["S0", "S1.init", "S1"],
                            "actions": [
                                {
                                    "promote": "o",
                                    "scope": "shared",
                                    "inside": "i",
                                    "stages": 2,
                                    "through": "async",
                                }
                            ],
                        }
                    ],
                }
            )
        ),
        schedule=tc.ScheduleOptions(rewrite=False, fusion="max"),
    )
    with pytest.raises(tc.BackendError, match="i writes o, of which a tile is ahead"):
        tc.emit(text, shapes_of(text), backend="cuda", device=GPU, options=wanted)


# --- what is chosen -----------------------------------------------------------------------------


def test_operands_of_sums_are_copied_ahead() -> None:
    """By default, in fours where rows are multiples of four elements."""
    for m, k, n, count in ((512, 512, 512, 4), (509, 511, 513, 1)):
        text = emitted(MM, {"A": np.zeros((m, k), np.float32), "B": np.zeros((k, n), np.float32)},
                       tc.Options())  # fmt: skip
        copies = [s for s in statements(text.kernel.regions[0]) if isinstance(s, CopyAsync)]
        assert {s.count for s in copies} == {count}
        assert {s.buffer for s in copies} == {"A_shared", "B_shared"}
