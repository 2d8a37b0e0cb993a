"""Which elements of a tile are copied, and whether before its statements run."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tc
from tc.device import Device
from tc.polyhedral.schedule import to_text
from tests.support.bounds import assert_within
from tests.support.lowering import trace_lowering
from tests.support.pipeline import checked, shaped

DEVICE = Device(vector_bits=256, vector_registers=16)


def promotions(text: str, *shapes: tuple[int, ...], given: bool = False) -> list[str]:
    """The promotions of the mapped tree, as its text has them."""
    program = checked(text)
    arrays = {n: np.ones(s, np.float32) for n, s in zip(program.inputs, shapes, strict=True)}
    initial = frozenset(program.outputs) if given else frozenset[str]()
    shape = shaped(program, arrays)
    traced = trace_lowering(shape, {}, initial=initial, check=True, device=DEVICE)
    lines = to_text(traced.mapped.tree).split("\n")
    return [line.strip() for line in lines if line.strip().startswith("promote")]


@pytest.mark.parametrize(
    ("text", "given", "copied"),
    [
        ("def f(float(N,K) a) -> (o) { o(i) +=! a(i,k) }", False, ["(copied out)"]),
        ("def f(float(N,K) a) -> (o) { o(i) += a(i,k) }", True, ["(copied in and out)"]),
        # all that is touched is written first: nothing else is written back
        (
            "def f(float(N,K) a) -> (float(20) o) { o(i) +=! a(i,k) where i in 2:9 }",
            True,
            ["(copied out, 2:9)"],
        ),
        # fresh, its zeros are in the same tile
        (
            "def f(float(N,K) a) -> (float(20) o) { o(i) +=! a(i,k) where i in 2:9 }",
            False,
            ["(copied out)"],
        ),
        # the first statement writes less than the second reads
        (
            "def f(float(N,K) a) -> (o) { o(i) = a(i,0) where i in 1:20  o(i) += 1 }",
            True,
            ["(copied in and out)"],
        ),
        # what lies between the parts belongs to neither
        (
            """def f(float(N,K) a) -> (float(60) o) {
  o(i) = a(i,0) where i in 0:20  o(i) = a(i-20,1) where i in 20:40 }""",
            True,
            [],
        ),
    ],
)
def test_copies(text: str, given: bool, copied: list[str]) -> None:
    found = promotions(text, (20, 40), given=given)
    assert [line[line.index("(") :] for line in found] == copied, found


def test_panels_begin_with_the_loop_and_not_with_the_statement() -> None:
    """The zeros of `o` begin at 0, the product at 3: a panel is whole vectors of the loop."""
    text = "def f(float(N,M) a, float(K,M) b) -> (o) { o(r,w) +=! a(w,n) * b(r,n) where w in 3:64 }"
    (found,) = (x for x in promotions(text, (64, 30), (40, 30)) if "a_packed" in x)
    shape = re.search(r"\[(\d+)x30x(\d+)\]", found)
    assert shape is not None, found
    panels, width = map(int, shape.groups())
    assert width % 8 == 0, "no whole vectors"
    assert "temporary" not in found or panels == -(-64 // width), found


# --- Padded reads of any rank and layout, beside numpy.


NAIVE = tc.Options.preset("naive")


def check(text: str, want: Any, *args: Any) -> None:
    """A compiled result, its last output, is exactly what is wanted."""
    for backend, options in (("numba", None), ("c", NAIVE)):
        found = tc.compile(text, backend=backend, options=options)(*args)
        found = getattr(found, "o", found)
        assert_within(found, np.asarray(want).astype(found.dtype))


A = np.array([1, 2, 3], np.float32)

SCALARS: dict[str, tuple[str, tuple[Any, ...], Any]] = {
    "beside a contraction": (
        "float(N) a, float s) -> (o) { o(i,j) +=! a(i) * a(r) + a(j) + pad(s, 1) }",
        (A, 4.0),
        A[:, None] * 6 + 3 * A[None, :] + 12,
    ),
    "whose value sizes depend on": (
        "float(N) a, int s) -> (o) { o(i) +=! a(i) * a(r) + pad(s, 1) + a(s) }",
        (A, 2),
        A * 6 + 6 + 9,
    ),
    "within another": (
        "float(N) a, float s) -> (o) { o(i) +=! a(i) * a(r) * pad(pad(s, 2), 1) }",
        (A, 4.0),
        A * 24,
    ),
    "of an output": (
        "float(N) a, float b) -> (s, o) { s = b + 1  o(i) +=! a(i) * pad(s, 9) * a(r) }",
        (A, 4.0),
        A * 30,
    ),
    "beside one that pads": (
        "float(N) a, float s) -> (o)"
        " { o(i) +=! pad(a(i + r), 1) * pad(s, 7) where r in 0:3, i in 0:N }",
        (A, 2.0),
        2 * np.array([6, 6, 5]),
    ),
}


@pytest.mark.parametrize("name", SCALARS)
def test_rule_G9_at_rank_0_nothing_is_padded(name: str) -> None:
    text, args, want = SCALARS[name]
    check(f"def f({text}", want, *args)


def layouts(a: Any) -> dict[str, Any]:
    """The same values in other layouts."""
    wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
    wide[..., ::2] = a
    return {
        "rows": a,
        "columns": np.asfortranarray(a),
        "transposed": np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2),
        "backwards": np.ascontiguousarray(a[..., ::-1])[..., ::-1],
        "every other": wide[..., ::2],
    }


@pytest.mark.parametrize("dtype", ["double", "int", "half", "bool"])
@pytest.mark.parametrize("place", [0, 1])
def test_rule_G9_diagonals_beyond_a_tensor(dtype: str, place: int) -> None:
    """With place 1 nothing is ever read, and the copy with its padding is a constant."""
    fill = "1 == 1" if dtype == "bool" else "3"
    term = f"pad(a({place},q,q), {fill})"
    text = f"def f({dtype}(K,N,N) a) -> (o) {{ o(n) +=! {term} where n in 0:2 }}"
    numpy_type = {"float": "f4", "double": "f8", "int": "i4", "half": "f2", "bool": "?"}[dtype]
    a = (np.arange(25).reshape(1, 5, 5) % 4).astype(numpy_type)
    value = 1 if dtype == "bool" else 3
    total = 5 * value if place else int(a[0].diagonal().astype(int).sum())
    found = tc.interpret(text, [a])
    assert found.tolist() == [total, total]
    check(text, [total, total], layouts(a)["transposed"])


@pytest.mark.parametrize("layout", ["columns", "backwards", "every other"])
def test_rule_G9_convolutions_of_any_layout(layout: str) -> None:
    text = """
    def f(float(C,H,W) x, float(F,C,KH,KW) w) -> (o) {
      o(m,i,j) +=! pad(x(c,i+p-1,j+q-1), 2) * w(m,c,p,q) where i in 0:H, j in 0:W
    }"""
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, (3, 9, 11)).astype("f4")
    w = rng.integers(-4, 5, (5, 3, 3, 3)).astype("f4")
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=2)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    want = np.einsum("cijpq,mcpq->mij", windows, w)
    check(text, want, layouts(x)[layout], w)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_rule_G9_sums_in_steps(steps: int) -> None:
    """Rows beside those of a step belong to its copy, too, and the last step may be shorter."""
    text = """
    def f(float(N,C,H,W) x, float(N,F,H,W) d) -> (w) {
      w(c,i,j,m) +=! d(n,m,h,v) * pad(x(n,c,h+2*i-2,v+j-1), 3) where i in 0:3, j in 0:3
    }"""
    rng = np.random.default_rng(steps)
    x = rng.integers(-4, 5, (2, 7, 13, 11)).astype("f4")
    d = rng.integers(-4, 5, (2, 18, 13, 11)).astype("f4")
    padded = np.pad(x, ((0, 0), (0, 0), (2, 2), (1, 1)), constant_values=3)
    windows = [[padded[:, :, 2 * i : 2 * i + 13, j : j + 11] for j in range(3)] for i in range(3)]
    want = np.einsum("nmhv,ijnchv->cijm", d, np.array(windows))
    options = tc.Options(mapping=tc.MappingOptions(reduction_tile=steps))
    explained = str(tc.explain(text, [x, d], options=options))
    assert "_padded[" in explained
    assert f"{steps} steps of h at a time" in explained
    for backend in ("numba", "c"):
        found = tc.compile(text, backend=backend, options=options)(x, d)
        np.testing.assert_array_equal(found, want)


def test_rule_G9_steps_inside_of_a_shared_loop() -> None:
    """Threads share the loop around: rows inside of it have no parts for them."""
    text = """def g(float(N,C,H) x, float(N,F,H) y) -> (o) {
      t(n,c,h) = x(n,c,h) * 2
      o(c,i,f) +=! y(n,f,h) * (pad(t(n,c,i), 3) + pad(t(n,c,h-3*i), 3)) where i in 0:4, h in 0:H
    }"""
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-4, 5, shape).astype("f4") for shape in ((1, 3, 32), (1, 40, 32))]
    options = tc.Options(threads=2, mapping=tc.MappingOptions(reduction_tile=7))
    found = tc.compile(text, options=options)(*inputs)
    np.testing.assert_array_equal(found, tc.interpret(text, inputs))
