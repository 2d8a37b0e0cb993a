"""Sums of products of halves, and of floats that may be rounded, on tensor cores: in every layout,
with any sizes, epilogues and batches, the plans that tc chooses are right on the machine of blocks
and threads and on that for PTX, and so are all tiles among which it chooses."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tc
from tc.backends.clike.cuda_dialect import cuda_for
from tc.backends.clike.printer import print_kernel
from tc.backends.geometry import LaunchText
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import For, WarpMultiply
from tc.kernel.matrix_products import PRODUCT_OF_MARK, TF32
from tc.kernel.walk import every_statement
from tc.pipeline import target_of
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.gpu.matrix_tiles import MatrixSum, warp_tiles
from tc.polyhedral.lowering import Lowering, trace_lowering
from tc.polyhedral.schedule import to_text
from tc.polyhedral.target import Decisions
from tests.fuzz.plans.draw_launches import LaunchDrawer
from tests.fuzz.plans.mutate import mutated
from tests.support.bounds import assert_within, difference
from tests.support.pipeline import as_arrays, checked, evaluate_kernel, shaped
from tests.support.ptx.texts import run_text

pytestmark = pytest.mark.filterwarnings("ignore::tc.TCWarning")
H100 = tc.Gpu.named("sm_90")
LETTERS = "ijkldmn"


@dataclass(frozen=True)
class Product:
    """A product of two tensors of halves, or of floats: loops of rows, columns, steps and batches
    in any order, with an epilogue or none. `plain`: both operands have lines in memory of rows,
    columns or steps, and no loop is shorter than a tile."""

    text: str
    arrays: dict[str, np.ndarray[Any, Any]]
    einsum: str
    epilogue: str
    dtype: str
    plain: bool
    options: tc.Options

    def expected(self) -> np.ndarray[Any, Any]:
        """By numpy, in double; small integers, so that nothing is rounded but the result."""
        a, b = (self.arrays[name].astype(np.float64) for name in "AB")
        if self.epilogue == "window":
            a = windows(a, self.einsum, b.shape)
        product = np.einsum(self.einsum, a, b)
        if self.epilogue == "relu":
            product = np.maximum(product, 0)
        elif self.epilogue == "bias":
            product = product + self.arrays["v"].astype(np.float64)
        return product.astype(self.dtype)


KINDS = ("half", "float")


def windows(image: np.ndarray[Any, Any], einsum: str, filters: tuple[int, ...]) -> Any:
    """The windows of an image whose dimensions h and w filters with dimensions p and q move along,
    with p and q last."""
    loops, own = einsum.partition("->")[0].split(",")
    sizes = tuple(filters[own.index(v)] for v in "pq")
    places = tuple(loops.index(v) for v in "hw")
    return np.lib.stride_tricks.sliding_window_view(image, sizes, places)


def product_of(seed: int, kind: str = "half") -> Product:
    rng = random.Random(seed)
    letters = iter(LETTERS)
    rows, columns = ([next(letters) for _ in range(rng.choice((1, 1, 1, 2)))] for _ in "ab")
    steps = [next(letters) for _ in range(rng.choice((1, 1, 1, 2)))]
    batch = [next(letters)] if len(rows + columns + steps) < 5 and rng.random() < 0.3 else []
    sizes = {v: rng.choice((1, 2, 3)) for v in (*batch, *rows[1:], *columns[1:], *steps[1:])}
    sizes |= {v: rng.randint(1, 70) for v in (rows[0], columns[0], steps[0])}
    a, b, out = [*batch, *rows, *steps], [*batch, *columns, *steps], [*batch, *rows, *columns]
    for loops in (a, b, *([out] * (rng.random() < 0.3))):
        rng.shuffle(loops)
    dtype, epilogue = rng.choice(("half", "float")), rng.choice(("", "", "relu", "bias"))
    dtype = dtype if kind == "half" else kind
    extents = {v: v.upper() for v in sizes}

    def declared(loops: list[str]) -> str:
        return ",".join(extents[v] for v in loops)

    places = {name: ",".join(loops) for name, loops in (("A", a), ("B", b), ("C", out))}
    factors = f"A({places['A']}) * B({places['B']})"
    if rng.random() < 0.5:
        factors = f"B({places['B']}) * A({places['A']})"
    inputs = f"{kind}({declared(a)}) A, {kind}({declared(b)}) B"
    held = {"half": "float16", "float": "float32"}
    arrays = {}
    values = np.random.default_rng(seed)
    for name, loops in (("A", a), ("B", b)):
        shape = tuple(sizes[v] for v in loops)
        arrays[name] = values.integers(-3, 4, shape).astype(held[kind])
    target = "T" if epilogue else "C"
    lines = f"{target}({places['C']}) +=! {factors}"
    if epilogue:
        value = f"fmax(T({places['C']}), 0)"
        if epilogue == "bias":
            inputs += f", {kind}({declared(out[-1:])}) v"
            arrays["v"] = values.integers(-9, 10, (sizes[out[-1]],)).astype(held[kind])
            value = f"T({places['C']}) + v({out[-1]})"
        lines += f"\n  C({places['C']}) = {value}"
    text = f"def f({inputs}) -> ({dtype}({declared(out)}) C) {{\n  {lines}\n}}"
    plain = a[-1] in (rows[0], steps[0]) and b[-1] in (columns[0], steps[0])
    plain = plain and min(sizes[rows[0]], sizes[columns[0]], sizes[steps[0]]) >= 16
    einsum = f"{''.join(a)},{''.join(b)}->{''.join(out)}"
    options = tc.Options(gpu=tc.GpuOptions(tf32=kind == "float"))
    return Product(text, arrays, einsum, epilogue, held[dtype], plain, options)


def lowered(
    case: Product, wanted: dict[str, str], plan: tc.Plan | None = None
) -> tuple[Decisions, Lowering]:
    program, decisions = checked(case.text), Decisions(wanted)
    shape = shaped(program, as_arrays(program, dict(case.arrays)))
    target = replace(target_of(H100), decider=decisions) if wanted else target_of(H100)
    options = replace(case.options, plan=plan)
    return decisions, trace_lowering(
        shape, {}, target, initial=frozenset(), check=True, options=options
    )


def multiplies(kernel: Any) -> bool:
    stmts = list(every_statement(kernel))
    assert not any(isinstance(s, For) and s.mark in PRODUCT_OF_MARK for s in stmts)
    return any(isinstance(s, WarpMultiply) for s in stmts)


def check(case: Product, kernel: Any) -> None:
    buffers = {
        b.name: case.arrays[b.name].reshape(b.shape)
        if b.role == "input"
        else np.full(b.shape, 77, b.dtype.numpy)
        for b in kernel.arguments
    }
    assert evaluate(kernel, buffers) is None
    expected = case.expected()
    np.testing.assert_array_equal(buffers["C"].reshape(expected.shape), expected)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", range(120))
def test_default_plans(seed: int) -> None:
    case = product_of(seed, KINDS[seed % 2])
    kernel = lowered(case, {})[1].kernel
    assert multiplies(kernel) or not case.plain, case.text
    check(case, kernel)


@pytest.mark.parametrize("kind", KINDS)
def test_most_products_are_on_tensor_cores(kind: str) -> None:
    """Of those with whole tiles all."""
    plain = [case for seed in range(120) if (case := product_of(seed, kind)).plain]
    assert len(plain) >= 25
    assert {case.dtype for case in plain} == {"float32", *["float16"] * (kind == "half")}
    assert {case.epilogue for case in plain} == {"", "relu", "bias"}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("seed", range(1000, 1015))
def test_machine_code(seed: int, aligned: bool) -> None:
    """Of texts for arrays at multiples of 16 bytes, and at any address."""
    case = product_of(seed, KINDS[seed % 2])
    inputs = list(case.arrays.values())
    text = tc.emit(case.text, inputs, backend="cuda", device=H100, options=case.options)
    assert isinstance(text, LaunchText)
    text = replace(text, source=print_kernel(text.kernel, cuda_for(H100, aligned=aligned)))
    failure, found = run_text(text, case.arrays)
    assert failure is None
    expected = case.expected()
    np.testing.assert_array_equal(found["C"].reshape(expected.shape), expected)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", range(2000, 2030))
def test_decisions(seed: int) -> None:
    """Any tile of warps that a block can have, and other decisions at random."""
    case, rng = product_of(seed, KINDS[seed % 2]), random.Random(seed)
    wanted = {"none": "0"}
    for _ in range(2):
        for name, asked in lowered(case, wanted)[0].asked.items():
            if "tile of warps" in name or rng.random() < 0.2:
                wanted.setdefault(name, rng.choice(asked.values))
    check(case, lowered(case, wanted)[1].kernel)


@pytest.mark.drawn(12)
@pytest.mark.parametrize("seed", range(3000, 3120))
def test_changed_plans(seed: int) -> None:
    """With an action dropped, repeated, moved or changed: refused, with a plan that is right, or
    right."""
    case, rng = product_of(seed, KINDS[seed % 2]), random.Random(seed)
    lowering = lowered(case, {})[1]
    info = AccessInfo(lowering.scop, {}, True)
    made: Any = SimpleNamespace(
        tree=lowering.tree, first=lowering, info=info, target=target_of(H100)
    )
    plan = lowering.mapped.plan
    for _ in range(3):
        changed = mutated(rng, plan, LaunchDrawer(rng, made))
        try:
            found = lowered(case, {}, changed)[1]
        except tc.BackendError as error:
            found = lowered(case, {}, tc.Plan.from_json(str(error.repair)))[1]
        check(case, found.kernel)


def test_tiles_are_of_loops_and_fit() -> None:
    found = MatrixSum("S0", (100, 40, 70), ("i", "j", "k"), 1, 1)
    tiles = list(warp_tiles(found, H100, 512))
    assert tiles
    tiles += warp_tiles(replace(found, product=TF32, across=(True, False)), H100, 512)
    for tile in tiles:
        (rows, columns), steps = tile.sizes, tile.steps
        assert rows < 200
        assert columns < 80
        assert steps < 140
        assert 4 * tile.own[0] * tile.own[1] <= 128


# --- windows ----------------------------------------------------------------------------------


def window_of(seed: int) -> Product:
    """A convolution of halves or floats, its tensors in any layout. `plain`: lines in memory are of
    channels in both operands, or of columns of the image."""
    rng, kind = random.Random(seed), KINDS[seed % 2]
    image, filters, out = [*"nchw"], [*"mcpq"], [*"nmhw"]
    for loops in (image, filters, out):
        rng.shuffle(loops)
    if rng.random() < 0.7:
        filters.remove("c")
        filters.append("c")
    if rng.random() < 0.5:
        image.remove("c")
        image.append("c")
    sizes = {"n": rng.randint(1, 3), "c": rng.choice((16, 24, 32, 7)), "m": rng.choice((8, 16, 9))}
    sizes |= {"h": rng.randint(1, 4), "w": rng.randint(12, 40)}
    sizes |= {"p": rng.randint(1, 3), "q": rng.randint(1, 3)}
    moved = {"h": "h+p", "w": "w+q"}
    extents = {**sizes, "h": sizes["h"] + sizes["p"] - 1, "w": sizes["w"] + sizes["q"] - 1}
    values, held = np.random.default_rng(seed), {"half": "float16", "float": "float32"}[kind]
    arrays = {
        name: values.integers(-3, 4, [long[v] for v in loops]).astype(held)
        for name, loops, long in (("A", image, extents), ("B", filters, sizes))
    }
    shapes = {name: ",".join(f"{name}{v.upper()}" for v in loops)
              for name, loops in (("A", image), ("B", filters))}  # fmt: skip
    places = {"A": ",".join(moved.get(v, v) for v in image), "B": ",".join(filters)}
    text = (
        f"def f({kind}({shapes['A']}) A, {kind}({shapes['B']}) B) -> (C) {{\n"
        f"  C({','.join(out)}) +=! A({places['A']}) * B({places['B']})\n}}"
    )
    plain = filters[-1] == "c" and image[-1] in "cw" and sizes["w"] >= 16 and sizes["c"] >= 16
    plain = plain and sizes["m"] >= 8
    einsum = f"{''.join(image)}pq,{''.join(filters)}->{''.join(out)}"
    options = tc.Options(gpu=tc.GpuOptions(tf32=kind == "float"))
    return Product(text, arrays, einsum, "window", held, plain, options)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", range(40))
def test_windows(seed: int) -> None:
    """Of convolutions, on the machine of blocks and threads and, of some, on that for PTX; on
    tensor cores also where these take longer."""
    case = window_of(seed)
    asked = lowered(case, {"none": "0"})[0].asked
    wanted = {name: "True" for name in asked if "tensor cores" in name}
    lowering = lowered(case, {"none": "0", **wanted})[1]
    assert multiplies(lowering.kernel) or not case.plain, case.text
    check(case, lowering.kernel)
    if seed % 4 == 0:
        inputs = list(case.arrays.values())
        options = replace(case.options, plan=lowering.mapped.plan)
        text = tc.emit(case.text, inputs, backend="cuda", device=H100, options=options)
        assert isinstance(text, LaunchText)
        failure, found = run_text(text, case.arrays)
        assert failure is None
        expected = case.expected()
        np.testing.assert_array_equal(found["C"].reshape(expected.shape), expected)


CONVOLUTION = """def conv(half(N,C,H,W) I, half(M,C,KH,KW) F) -> (O) {
    O(n,m,h,w) +=! I(n,c,h+kh,w+kw) * F(m,c,kh,kw) }"""


def test_tree_of_a_convolution() -> None:
    """Golden: windows are inside of tiles, whose lines are of channels."""
    sizes = {"N": 8, "C": 64, "H": 58, "W": 58, "M": 64, "KH": 3, "KW": 3}
    explanation = tc.explain(CONVOLUTION, sizes, backend="cuda", device=H100)
    lines = to_text(explanation.trace.lowering.mapped.tree).splitlines()
    told = [line.strip() for line in lines if any(w in line for w in ("promote", "mma", "block"))]
    assert told == [
        "band [n block z *, m div 64 *, h block x *, w div 64 *, w mod 64 div 32 thread z *, "
        "w mod 8 thread y *, m mod 8 div 2 thread x *] permutable",
        "promote O.s0 to register O.s0_acc[1x8x2x1x4]",
        "promote I to shared I_shared[1x3x66x24] (copied in)",
        "promote F to shared F_shared[64x3x3x24] (copied in)",
        "band [kh, kw, c mod 16 mma, m mod 64 div 8 unroll *, m mod 2 unroll *, w mod 32 div "
        "16 unroll *, w mod 16 div 8 unroll *]",
    ]


def test_products_without_tensor_cores_are_told() -> None:
    text = "def mm(half(M,K) A, half(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
    few = tc.explain(text, {"M": 15, "K": 64, "N": 64}, backend="cuda", device=H100)
    assert "S0: tensor cores do not add up its products" in " ".join(few.stages["mapping"].split())
    itself = "def f(half(M,K) A) -> (C) { C(i,j) +=! A(i,k) * A(j,k) }"
    found = tc.explain(itself, {"M": 64, "K": 64}, backend="cuda", device=H100)
    said = "S0: tensor cores cannot run the loop k mod 16: A is not in shared memory"
    assert said in " ".join(found.stages["mapping"].split())
    many = tc.explain(text, {"M": 64, "K": 64, "N": 64}, backend="cuda", device=H100)
    assert "do not add up" not in " ".join(many.stages["mapping"].split())


# --- what is rounded --------------------------------------------------------------------------

ROUNDED = {
    "a product": "def f(float(I,K) A, float(K,J) B) -> (o) { o(i,j) +=! A(i,k) * B(k,j) }",
    "sgemm": """def f(float a, float(I,K) A, float(K,J) B) -> (o) {
        t(i,j) +=! A(i,k) * B(k,j)  o(i,j) = 2 * t(i,j)  o(i,j) += a * A(i,k) * B(k,j) }""",
    "a chain": """def f(float(I,K) A, float(K,J) B, float(J,L) D) -> (o) {
        o(i,l) +=! A(i,k) * B(k,j) * D(j,l) }""",
    "of sums": """def f(float(I,K) A, float(K,J) B, float(J,L) D) -> (o) {
        t(i,j) +=! A(i,k) * B(k,j)  u(i,j) = tanh(t(i,j))  o(i,l) +=! u(i,j) * D(j,l) }""",
}
ROUNDED_SHAPES = {"A": (40, 52), "B": (52, 32), "D": (32, 20)}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", ROUNDED)
def test_results_are_within_their_bound(name: str) -> None:
    """Of the text on the machine for PTX, and of evaluate; not all are within the bound of what
    rounds no factor."""
    text, rng, sizes = ROUNDED[name], np.random.default_rng(5), {"a": ()} | ROUNDED_SHAPES
    inputs = {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in sizes.items()
        if name in checked(text).inputs
    }
    apart = tc.ScheduleOptions(fusion="min")  # a launch for each sum
    options = tc.Options(gpu=tc.GpuOptions(tf32=True), schedule=apart)
    made = tc.emit(text, inputs, backend="cuda", device=H100, options=options)
    assert isinstance(made, LaunchText)
    assert multiplies(made.kernel)
    failure, found = run_text(made, inputs)
    assert failure is None
    evaluated = evaluate_kernel(text, inputs, options=options, device=H100)["o"]
    expected, plain = tc.interpret(text, inputs), tc.error_bound(text, inputs)
    bound = tc.error_bound(text, inputs, options=options)
    for result in (found["o"].reshape(expected.shape), evaluated):
        assert_within(result, expected, bound)
        assert difference(result, expected, plain) or name == "a chain"
    if name == "a product":
        terms = np.abs(inputs["A"]) @ np.abs(inputs["B"])
        assert (bound > 2.0**-10 * terms).all()
        assert (bound < 1.01 * (2.0**-10 * terms + plain)).all()


def test_nothing_is_rounded_without_the_option() -> None:
    """Nor by a plan: whatever has the role that rounds needs the option."""
    text, shapes = ROUNDED["a product"], {n: ROUNDED_SHAPES[n] for n in "AB"}
    inputs = {n: np.zeros(shape, np.float32) for n, shape in shapes.items()}
    made = tc.emit(text, inputs, backend="cuda", device=H100)
    assert isinstance(made, LaunchText)
    assert not multiplies(made.kernel)
    options = tc.Options(gpu=tc.GpuOptions(tf32=True))
    trace = tc.explain(text, inputs, backend="cuda", device=H100, options=options).trace
    plan = trace.lowering.mapped.plan
    assert '"role": "mma_tf32"' in str(plan)
    with pytest.raises(tc.BackendError, match="no role 'mma_tf32' on this target"):
        tc.emit(text, inputs, backend="cuda", device=H100, options=tc.Options(plan=plan))
    both = replace(options, plan=plan)
    again = tc.emit(text, inputs, backend="cuda", device=H100, options=both)
    assert isinstance(again, LaunchText)
    assert multiplies(again.kernel)


HALVES = "def mm(half(M,K) A, half(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"


def test_tree() -> None:
    """Golden, for the sizes of the table."""
    shape = {"M": 2048, "K": 2048, "N": 2048}
    explanation = tc.explain(HALVES, shape, backend="cuda", device=H100)
    lines = to_text(explanation.trace.lowering.mapped.tree).splitlines()
    assert [line.strip() for line in lines if "S0" not in line and "unroll" not in line] == [
        "band [i div 128 block y *, j div 256 block x *, i mod 128 div 64 thread z *, "
        "j mod 256 div 64 thread z *, i mod 8 thread y *, j mod 8 div 2 thread x *] permutable",
        "promote C.s0 to register C.s0_acc[8x8x2]",
        "sequence",
        "band [k div 128] permutable",
        "sequence",
        "promote A to shared A_shared[2x128x136] (copied in, async, 2 stages)",
        "promote B to shared B_shared[2x128x264] (copied in, async, 2 stages)",
        "sequence",
        "barrier",
        "band [k mod 128 div 16, k mod 16 mma] permutable",
        "barrier",
    ]
    assert "tensor cores multiply: a block has 128 x 256 results" in explanation.stages["mapping"]


@pytest.mark.parametrize(
    ("options", "gpu"),
    [
        (tc.GpuOptions(), replace(H100, tensor_cores=False)),
        (tc.GpuOptions(shared=False), H100),
        (tc.GpuOptions(private=False), H100),
        (tc.GpuOptions(tile=(32, 32)), H100),
        (tc.GpuOptions(threads=(8, 32)), H100),
        (tc.GpuOptions(), replace(H100, shared=512)),
    ],
)
def test_options_and_gpus_without(options: tc.GpuOptions, gpu: tc.Gpu) -> None:
    sizes = {"M": 64, "K": 64, "N": 64}
    given = tc.Options(gpu=options)
    text = tc.emit(HALVES, sizes, backend="cuda", device=gpu, options=given)
    assert isinstance(text, LaunchText)
    assert not multiplies(text.kernel)


def test_opencl_computes_the_same_by_loops() -> None:
    """Of a plan that was made for tensor cores."""
    sizes = {"M": 40, "K": 48, "N": 24}
    made = tc.explain(HALVES, sizes, backend="cuda", device=H100).trace.lowering.mapped.plan
    options = tc.Options(plan=made)
    text = tc.emit(HALVES, sizes, backend="opencl", device=H100, options=options)
    assert isinstance(text, LaunchText)
    assert not multiplies(text.kernel)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((40, 48), (48, 24)))
    c = np.zeros((40, 24), np.float16)
    assert evaluate(text.kernel, {"A": a, "B": b, "C": c}) is None
    np.testing.assert_array_equal(c, (a.astype(float) @ b.astype(float)).astype(np.float16))
