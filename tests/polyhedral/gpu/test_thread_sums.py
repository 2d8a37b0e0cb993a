"""Reductions whose digits threads run, by plans: right on the machine of blocks and threads, on the
machine of PTX and by PoCL, with the same bits; with just the barriers that they need; refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.errors import BackendError, InternalError
from tc.kernel.evaluate import evaluate
from tc.plan import Action, Bind, Part, Promote, Reorder, Sink, Split, Tile
from tc.polyhedral.launch_legality import launch_fault
from tc.polyhedral.lowering import Lowering
from tc.polyhedral.schedule import to_text
from tests.polyhedral.gpu.test_barriers_needed import without_each
from tests.polyhedral.gpu.test_gpu_mapping import SOFTMAX
from tests.support.bounds import assert_computes
from tests.support.launch_trees import without_each_barrier
from tests.support.opencl import on_pocl
from tests.support.ptx.texts import run_text

EXPECTED = Path(__file__).parents[2] / "expected" / "launches"

ROWS = "def rows(float(N,M) a) -> (o) { o(i) +=! a(i,j) }"
COLUMNS = "def columns(float(N,M) a) -> (o) { o(i) +=! a(j,i) }"
LEAST = "def least(int8(N,M) a) -> (o) { o(i) min=! a(i,j) }"
PRODUCT = "def product(double(N,M) a) -> (o) { o(i) *=! a(i,j) }"
HALVES = "def halves(half(N,M) a) -> (o) { o(i) +=! a(i,j) }"
ANY = "def any(bool(N,M) a) -> (o) { o(i) max=! a(i,j) }"
MORE = "def more(float(N,M) a, float(N) b) -> (o) { o(i) = b(i)  o(i) += a(i,j) }"
NORM = """def norm(float(N,M) x) -> (o, mean, v) {
  s(i) +=! x(i,j)
  mean(i) = s(i) / 8
  v(i) +=! (x(i,j) - mean(i)) * (x(i,j) - mean(i))
  r(i) = rsqrt(v(i) + 1)
  o(i,j) = (x(i,j) - mean(i)) * r(i)
}"""
KEPT = SOFTMAX.replace("-> (o)", "-> (m, e, s, o)")
FEWER = """def fewer(float(N,M) x) -> (e, o) {
  s(i) +=! x(i,j)
  e(i,k) = s(i) + k where k in 0:40
  o(i,k) = e(i,k) * 2 + k
}"""
ONE = ("S0.init", "S0")
ROUNDED = ("S0.init", "S0", "S0.rounded")
SHAPES = ((5, 70), (3, 64), (2, 3), (4, 37), (2, 300))


def row_of(width: int, *more: Action, axis: str = "x", count: int | None = None) -> list[Action]:
    """A block for each row, whose digits of `width` threads run."""
    digit = f"j mod {width}"
    return [
        Tile("j", [width]),
        Split("S0", [digit], inside="i"),
        Bind(digit, "thread", axis, count),
        *more,
    ]


def blocks(count: int | None = None) -> Bind:
    return Bind("i", "block", "x", count)


def held(*tensors: str, inside: str = "i") -> list[Action]:
    return [Promote(tensor, "register", inside=inside) for tensor in tensors]


def two_sums(width: int, first: str, second: str, *more: Action) -> list[Action]:
    digit = f"j mod {width}"
    splits = [Split(name, [digit], inside="i") for name in (first, second)]
    return [Tile("j", [width]), *splits, Bind(digit, "thread", "x"), *more]


def rows_by_warps(rows: int) -> list[Action]:
    """Warps along x, rows of a block along y."""
    return [
        Tile("i", [rows]),
        Tile("j", [32]),
        Split("S0", ["j mod 32"], inside=f"i mod {rows}"),
        Bind("j mod 32", "thread", "x"),
        Bind(f"i mod {rows}", "thread", "y"),
        Promote("o", "register", inside=f"i mod {rows}"),
        Bind(f"i div {rows}", "block", "x"),
    ]


@dataclass(frozen=True)
class Case:
    text: str
    actions: list[Action]
    statements: tuple[str, ...] = ONE

    @property
    def options(self) -> tc.Options:
        plan = tc.Plan([Part(self.statements, self.actions)])
        return tc.Options(plan=plan, schedule=tc.ScheduleOptions(fusion="max", rewrite=False))

    def arrays(self, shape: tuple[int, int], *, exact: bool = True) -> dict[str, Any]:
        rng = np.random.default_rng(sum(shape))
        kernel = self.lowering(shape).kernel
        found = {}
        for buffer in kernel.arguments:
            if buffer.role == "input":
                values = rng.integers(-2, 3, buffer.shape) if exact else rng.normal(size=shape)
                found[buffer.name] = values.astype(buffer.dtype.numpy)
        return found

    def lowering(self, shape: tuple[int, int]) -> Lowering:
        sizes = {"N": shape[0], "M": shape[1]}
        if self.text == COLUMNS:
            sizes = {"N": shape[1], "M": shape[0]}
        lowering: Lowering = tc.explain(
            self.text, sizes, backend="cuda", options=self.options
        ).trace.lowering
        return lowering

    def evaluated(self, shape: tuple[int, int], arrays: dict[str, Any]) -> tuple[Any, ...]:
        lowering = self.lowering(shape)
        outputs = {
            b.name: np.ones(b.shape, b.dtype.numpy)
            for b in lowering.kernel.arguments
            if b.role == "output"
        }
        assert evaluate(lowering.kernel, {**arrays, **outputs}) is None
        return tuple(outputs.values())


INEXACT = (SOFTMAX, NORM, KEPT, FEWER)
ALL = ("S0.init", "S0", "S1", "S2.init", "S2", "S3")


def elements(width: int, *more: Action) -> list[Action]:
    """Two sums whose elements each thread may have in registers."""
    return two_sums(width, "S0", "S2", Bind(f"j div {width}", "unroll"), *more)


IN_REGISTERS = Case(SOFTMAX, elements(64, *held("m", "s", "e", "x"), blocks()), ALL)
SOFT = Case(SOFTMAX, two_sums(64, "S0", "S2", *held("m", "s"), blocks()), ALL)
CASES = {
    "a block a row": Case(ROWS, row_of(64, *held("o"), blocks())),
    "few blocks in turns": Case(ROWS, row_of(64, *held("o"), blocks(2))),
    "the target in memory": Case(ROWS, row_of(64, blocks(2))),
    "the target in shared memory": Case(
        ROWS, row_of(32, Promote("o", "shared", inside="i"), blocks())
    ),
    "a warp a row": Case(ROWS, row_of(32, *held("o"), blocks())),
    "half a warp, no whole one": Case(ROWS, row_of(16, *held("o"), blocks())),
    "a prime number of threads": Case(ROWS, row_of(17, blocks(2))),
    "more partial results than are unrolled": Case(ROWS, row_of(100, *held("o"), blocks())),
    "threads in turns": Case(ROWS, row_of(64, *held("o"), blocks(), count=32)),
    "along z": Case(ROWS, row_of(32, *held("o"), blocks(), axis="z")),
    "warps of several rows": Case(ROWS, rows_by_warps(4)),
    "columns, digits along y": Case(
        COLUMNS,
        [
            Tile("j", [8]),
            Tile("i", [32]),
            Split("S0", ["j mod 8"], inside="i mod 32"),
            Bind("j mod 8", "thread", "y"),
            Bind("i mod 32", "thread", "x"),
            Promote("o", "register", inside="i mod 32"),
            Bind("i div 32", "block", "x", 2),
        ],
    ),
    "digits along x and y": Case(
        ROWS,
        [
            Tile("j", [128, 16]),
            Split("S0", ["j mod 128 div 16", "j mod 16"], inside="i"),
            Bind("j mod 16", "thread", "x"),
            Bind("j mod 128 div 16", "thread", "y"),
            *held("o"),
            blocks(),
        ],
    ),
    "two digits along one axis": Case(
        ROWS,
        [
            Tile("j", [128, 16]),
            Split("S0", ["j mod 128 div 16", "j mod 16"], inside="i"),
            Bind("j mod 16", "thread", "x"),
            Bind("j mod 128 div 16", "thread", "x"),
            *held("o"),
            blocks(2),
        ],
    ),
    "digits of a thread, too": Case(
        ROWS,
        [
            Tile("j", [128, 4]),
            Split("S0", ["j mod 128 div 4", "j mod 4"], inside="i"),
            Bind("j mod 128 div 4", "thread", "x"),
            Bind("j mod 4", "unroll"),
            *held("o"),
            blocks(),
        ],
    ),
    "two rows of accumulators": Case(
        ROWS,
        [
            Tile("j", [64]),
            Tile("i", [2]),
            Sink(["i mod 2"]),
            Split("S0", ["j mod 64"], inside="i div 2"),
            Bind("j mod 64", "thread", "x"),
            Bind("i mod 2", "unroll"),
            Promote("o", "register", inside="i div 2"),
            Bind("i div 2", "block", "x"),
        ],
    ),
    "steps outside of the tiles": Case(
        ROWS,
        [
            Tile("j", [64]),
            Reorder(["j div 64", "j mod 64"]),
            Split("S0", ["j mod 64"], inside="i"),
            Bind("j mod 64", "thread", "x"),
            Promote("a", "shared", inside="j div 64", statements=["S0"]),
            *held("o"),
            blocks(2),
        ],
    ),
    "small integers": Case(LEAST, row_of(64, *held("o"), blocks())),
    "doubles": Case(PRODUCT, row_of(64, *held("o"), blocks(2))),
    "halves": Case(HALVES, row_of(64, blocks()), ROUNDED),
    "bools": Case(ANY, row_of(64, *held("o"), blocks())),
    "a start that is read": Case(
        MORE,
        [
            Tile("j", [64]),
            Split("S1", ["j mod 64"], inside="i"),
            Bind("j mod 64", "thread", "x"),
            *held("o"),
            blocks(2),
        ],
        ("S0", "S1"),
    ),
    "softmax": SOFT,
    "softmax in registers": IN_REGISTERS,
    "softmax in registers, in turns": Case(
        SOFTMAX, elements(64, *held("m", "s", "e", "x"), blocks(2)), ALL
    ),
    "elements kept": Case(KEPT, elements(32, *held("m", "s", "e", "x"), blocks(2)), ALL),
    "elements kept, sums in memory": Case(KEPT, elements(64, *held("e"), blocks(2)), ALL),
    "elements at strides of threads of y": Case(
        SOFTMAX,
        [
            *(a for a in elements(16) if not isinstance(a, Bind)),
            Bind("j mod 16", "thread", "y"),
            Bind("j div 16", "unroll"),
            Tile("i", [2]),
            Bind("i mod 2", "thread", "x"),
            *held("m", "s", "e", "x", inside="i mod 2"),
            Bind("i div 2", "block", "x"),
        ],
        ALL,
    ),
    "fewer threads than the block has": Case(
        FEWER,
        [
            Tile("j", [64]),
            Tile("k", [16]),
            Split("S0", ["j mod 64"], inside="i"),
            Bind("j mod 64", "thread", "x"),
            Bind("k mod 16", "thread", "x"),
            Bind("k div 16", "unroll"),
            *held("s", "e"),
            blocks(2),
        ],
        ("S0.init", "S0", "S1", "S2"),
    ),
    "softmax in turns": Case(SOFTMAX, two_sums(64, "S0", "S2", *held("m", "s"), blocks(2)), ALL),
    "softmax through memory": Case(SOFTMAX, two_sums(96, "S0", "S2", blocks(2)), ALL),
    "rows with what follows": Case(
        NORM,
        two_sums(32, "S0", "S2", *held("s", "mean", "v", "r"), blocks(2)),
        ("S0.init", "S0", "S1", "S2.init", "S2", "S3", "S4"),
    ),
    "rows with what follows, some in memory": Case(
        NORM,
        two_sums(64, "S0", "S2", *held("s", "mean", "v"), blocks(2)),
        ("S0.init", "S0", "S1", "S2.init", "S2", "S3", "S4"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_results(name: str) -> None:
    case = CASES[name]
    shapes = SHAPES if case.text in INEXACT else (*SHAPES, (1, 1))
    for shape in shapes:
        arrays = case.arrays(shape)
        found = case.evaluated(shape, arrays)
        assert_computes(case.text, list(arrays.values()), found)
        if case.text not in INEXACT:  # sums of small whole numbers are exact
            expected = tc.interpret(case.text, list(arrays.values()))
            np.testing.assert_array_equal(found[0], expected)


@pytest.mark.parametrize("name", CASES)
def test_the_machine_of_ptx(name: str) -> None:
    case, shape = CASES[name], (4, 37)
    arrays = case.arrays(shape)
    sizes = {"N": 37, "M": 4} if case.text == COLUMNS else {"N": 4, "M": 37}
    text = tc.emit(case.text, sizes, backend="cuda", options=case.options)
    failure, found = run_text(text, arrays)
    assert failure is None
    outputs = [b.name for b in text.kernel.arguments if b.role == "output"]
    expected = case.evaluated(shape, arrays)
    assert_computes(case.text, list(arrays.values()), tuple(found[n] for n in outputs))
    if case.text not in INEXACT:
        assert found[outputs[0]].tobytes() == expected[0].tobytes()


@pytest.mark.parametrize("op", ["+", "*"])
def test_the_same_order_everywhere(op: str) -> None:
    """Values of which each order gives other bits."""
    case = Case(ROWS.replace("+=!", f"{op}=!"), row_of(64, *held("o"), blocks()))
    shape = (7, 300)
    arrays = case.arrays(shape, exact=False)
    (expected,) = case.evaluated(shape, arrays)
    text = tc.emit(case.text, {"N": 7, "M": 300}, backend="cuda", options=case.options)
    _, found = run_text(text, arrays)
    assert found["o"].tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", CASES)
@on_pocl
def test_pocl(name: str) -> None:
    case = CASES[name]
    function = tc.compile(case.text, backend="opencl", options=case.options)
    for shape in ((5, 70), (2, 300)):
        arrays = list(case.arrays(shape).values())
        found = function(*arrays)
        assert_computes(case.text, arrays, found)
    if case.text == ROWS:
        given = case.arrays((5, 300), exact=False)
        (expected,) = case.evaluated((5, 300), given)
        assert function(*given.values()).tobytes() == expected.tobytes()


# --- barriers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_no_barrier_can_be_left_out(name: str) -> None:
    """Without any of them legality finds a race, and so does the machine of blocks and threads."""
    case = CASES[name]
    lowering = case.lowering((5, 70))
    tree = lowering.mapped.tree
    assert launch_fault(tree, lowering.dependences) is None
    for without in without_each_barrier(tree):
        assert launch_fault(without, lowering.dependences) is not None


def test_a_barrier_between_turns() -> None:
    """The next row's partial results must not be stored while some thread reads the last row's; in
    the middle of two exchanges, the barrier of the other is enough."""
    barrier, text = "barrier", to_text(CASES["few blocks in turns"].lowering((5, 70)).mapped.tree)
    assert text.count(barrier) == 1
    assert barrier not in to_text(CASES["a block a row"].lowering((5, 70)).mapped.tree)
    assert barrier not in to_text(CASES["softmax in turns"].lowering((5, 70)).mapped.tree)


def test_without_a_barrier_between_turns_rows_meet() -> None:
    case = CASES["few blocks in turns"]
    lowering = case.lowering((5, 70))
    (without,) = without_each_barrier(lowering.mapped.tree)
    assert launch_fault(without, lowering.dependences) == (
        "S0(i=0, j=0) and S0(i=2, j=0), which touch one element of o_partial_shared, run in two "
        "threads of a block with no barrier between"
    )


# --- texts --------------------------------------------------------------------------------------


def test_softmax_in_cuda(golden: Callable[[Path, str], None]) -> None:
    text = tc.emit(SOFTMAX, {"N": 8, "M": 640}, backend="cuda", options=SOFT.options)
    golden(EXPECTED / "thread_sums.cu", str(text))


def test_softmax_in_opencl(golden: Callable[[Path, str], None]) -> None:
    options = CASES["a warp a row"].options
    text = tc.emit(ROWS, {"N": 8, "M": 640}, backend="opencl", options=options)
    golden(EXPECTED / "thread_sums.cl", str(text))


def test_softmax_as_a_tree() -> None:
    assert to_text(SOFT.lowering((8, 640)).mapped.tree) == (
        "band [i block x *] permutable\n"
        "  promote s to register s_acc[1]\n"
        "  promote m to register m_acc[1]\n"
        "    sequence\n"
        "      S0.init\n"
        "      accumulate S0 in m_partial for each j mod 64\n"
        "        band [j div 64, j mod 64 thread x] permutable\n"
        "          S0\n"
        "      band [j div 64 *, j mod 64 thread x *] permutable\n"
        "        S1\n"
        "      S2.init\n"
        "      accumulate S2 in s_partial for each j mod 64\n"
        "        band [j div 64, j mod 64 thread x] permutable\n"
        "          S2\n"
        "      band [j div 64 *, j mod 64 thread x *] permutable\n"
        "        S3"
    )


def test_elements_in_registers(golden: Callable[[Path, str], None]) -> None:
    """Of a row, memory is read once and written once."""
    text = tc.emit(SOFTMAX, {"N": 8, "M": 600}, backend="cuda", options=IN_REGISTERS.options)
    golden(EXPECTED / "thread_elements.cu", str(text))


# --- refusals -----------------------------------------------------------------------------------

DIGIT = Tile("j", [64, 4])
REFUSED: dict[str, tuple[list[Action], str]] = {
    "no split": (
        [Tile("j", [64]), Bind("j mod 64", "thread", "x"), *held("o"), blocks()],
        "S0(i=0, j=0) and S0(i=0, j=1), which touch one element of o, run in two iterations of [j "
        "mod 64 thread x], said to be fit to be thread, which needs a split of S0",
    ),
    "a split of other digits": (
        [
            DIGIT,
            Split("S0", ["j mod 4"], inside="i"),
            Bind("j mod 64 div 4", "thread", "y"),
            Bind("j mod 4", "thread", "x"),
        ],
        "S0(i=0, j=0) and S0(i=0, j=4), which touch one element of o, run in two iterations of [j "
        "mod 64 div 4 thread y], said to be fit to be thread, which needs a split of S0",
    ),
    "blocks": (
        [Tile("j", [64]), Split("S0", ["j mod 64"], inside="i"), Bind("j mod 64", "block", "x")],
        "S0(i=0, j=0) and S0(i=0, j=1), which touch one element of o, run in two iterations of [j "
        "mod 64 block x], said to be fit to be block",
    ),
    "rows of one axis": (
        [
            DIGIT,
            Tile("i", [4]),
            Split("S0", ["j mod 4"], inside="i mod 4"),
            Bind("i mod 4", "thread", "x"),
            Bind("j mod 4", "thread", "x"),
        ],
        "threads along x combine the accumulators of S0, and some of them run other iterations of "
        "i mod 4",
    ),
    "two splits": (
        [
            DIGIT,
            Split("S0", ["j mod 64 div 4"], inside="i"),
            Split("S0", ["j mod 4"], inside="i"),
            Bind("j mod 64 div 4", "thread", "x"),
        ],
        "S0 is split twice, and threads combine its accumulators once",
    ),
    "registers of threads that have no sum": (
        row_of(64, Tile("i", [4]), Bind("i mod 4", "thread", "y", 2), *held("o", inside="i div 4")),
        "o cannot lie in o_acc there: each thread that runs i would write its own",
    ),
    "a tile of the target in the reduction": (
        [
            Tile("j", [64, 16]),
            Split("S0", ["j mod 16"], inside="i"),
            Promote("o", "register", inside="j mod 64 div 16", statements=["S0"]),
            Bind("j mod 16", "thread", "x"),
        ],
        "o cannot lie in o_acc there: each thread that runs j would write its own",
    ),
    "too many accumulators": (
        [
            Tile("j", [256]),
            Tile("i", [64]),
            Sink(["i mod 64"]),
            Split("S0", ["j mod 256"], inside="i div 64"),
            Bind("j mod 256", "thread", "x"),
        ],
        "2048 bytes of shared memory, where a block can have 1024",
    ),
}


OTHERS = """def others(float(N,M) x) -> (o) {
  e(i,j) = 2 * x(i,j)
  o(i,j) = e(i, M - 1 - j)
}"""


def refusal(case: Case, **sizes: int) -> str:
    with pytest.raises(BackendError) as caught:
        tc.explain(case.text, sizes, backend="cuda", options=case.options)
    return caught.value.cause.partition("}: ")[2]


def test_elements_of_threads_in_another_order() -> None:
    actions = [Tile("j", [64]), Bind("j mod 64", "thread", "x"), *held("e"), blocks()]
    assert refusal(Case(OTHERS, actions, ("S0", "S1")), N=7, M=70) == (
        "e cannot be promoted inside of i: what is touched has no fixed size or place there"
    )


def test_elements_of_other_threads() -> None:
    """What thread 32 has written, thread 0 reads."""
    actions: list[Action] = [
        Tile("S1.j", [64]),
        Bind("S1.j mod 64", "thread", "x"),
        Tile("S2.j", [64]),
        Split("S2", ["S2.j mod 64"], inside="i"),
        Bind("S2.j mod 64", "thread", "x"),
        Tile("S3.j", [32]),
        Bind("S3.j mod 32", "thread", "x"),
        *held("e"),
        blocks(),
    ]
    assert refusal(Case(SOFTMAX, actions, ALL), N=7, M=70) == (
        "e cannot be promoted inside of i: some of it may be read before anything is written there"
    )


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    actions, reason = REFUSED[name]
    options = Case(ROWS, actions).options
    with pytest.raises(BackendError) as caught:
        tc.explain(
            ROWS, {"N": 70, "M": 700}, backend="cuda", options=options, device=tc.Gpu(shared=1024)
        )
    assert caught.value.cause.partition("}: ")[2] == reason
    assert caught.value.repair is not None
    mended = tc.Options(plan=tc.Plan.from_json(caught.value.repair), schedule=options.schedule)
    tc.explain(
        ROWS, {"N": 70, "M": 700}, backend="cuda", options=mended, device=tc.Gpu(shared=1024)
    )


def test_faulty_exchanges_are_found() -> None:
    """The kernel without the barrier of the exchange itself."""
    case = CASES["few blocks in turns"]
    kernel, arrays = case.lowering((5, 70)).kernel, case.arrays((5, 70))
    for _, without in without_each(kernel):
        with pytest.raises(InternalError, match=r"with no barrier between|before any write"):
            evaluate(without, {**arrays, "o": np.ones(5, np.float32)})
