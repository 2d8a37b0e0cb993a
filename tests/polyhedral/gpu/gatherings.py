"""Programs that gather, what they compute, and what tc then holds in shared memory. Values are
small integers, so that no sum rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tc
from tc.kernel.evaluate import evaluate
from tc.options import GpuOptions, Options, ScheduleOptions
from tc.polyhedral.lowering import Lowering
from tc.polyhedral.schedule import tiles
from tc.semantics.program import Size
from tests.support.lowering import trace_lowering
from tests.support.pipeline import as_buffers, checked, shaped

Arrays = Mapping[str, Any]
SIZES = {"B": 9, "L": 7, "D": 33, "E": 21, "F": 11}
BEYOND = 10**6
"""A place that no tensor has."""

AS_WRITTEN = ScheduleOptions(rewrite=False)


@dataclass(frozen=True)
class Gathering:
    """A program, what it computes, and what is then held in shared memory. `below`: the size that
    is above the places of an index tensor; `spoil` overwrites places that are not read."""

    text: str
    formula: Callable[[Arrays], Any]
    held: tuple[str, ...] = ()
    below: Mapping[str, str] = field(default_factory=lambda: {"I": "E", "J": "E"})
    spoil: Callable[[Arrays], None] = lambda _: None

    def arrays(self, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Any]:
        rng, program = np.random.default_rng(seed), checked(self.text)
        arrays = {}
        for name in program.inputs:
            tensor = program.tensors[name]
            assert tensor.shape is not None
            shape = tuple(sizes[size.name] for size in tensor.shape if isinstance(size, Size))
            low, high = (0, sizes[self.below[name]]) if name in self.below else (-4, 5)
            arrays[name] = rng.integers(low, high, shape).astype(tensor.dtype.numpy)
        return arrays


def _spoil_edges(a: Arrays) -> None:
    a["I"][:, [0, -1]] = BEYOND
    a["I"][-2:] = BEYOND


def _spoil_even(a: Arrays) -> None:
    a["I"][::2] = BEYOND


def _diagonals(a: Arrays) -> Any:
    rows = np.arange(len(a["I"]))[:, None]
    return a["T"][a["I"], rows].sum(1)


def _windows(a: Arrays) -> Any:
    steps = len(a["W"])
    taken = a["T"][a["I"]]  # [i, k, j]
    wide = np.lib.stride_tricks.sliding_window_view(taken, steps, axis=2)  # [i, k, j, k]
    return np.einsum("ikjk,k->ij", wide, a["W"])


def _bounded(place: str, end: str | int = "E - 1") -> str:
    """A place, which is in bounds, in a long expression."""
    for _ in range(12):
        place = f"max(min({place}, {end}), 0)"
    return place


PROGRAMS = {
    "rows": Gathering(
        "def f(float(E,D) T, int32(B,L) I) -> (O) { O(i,j) +=! T(I(i,k),j) }",
        lambda a: a["T"][a["I"]].sum(1),
        ("T(I(d0, d1), d2)",),
    ),
    "two": Gathering(
        "def f(float(E,D) T, int32(B,L) I, int32(B,L) J) -> (O) "
        "{ O(i,j) +=! T(I(i,k),j) * T(J(i,k),j) }",
        lambda a: (a["T"][a["I"]] * a["T"][a["J"]]).sum(1),
        ("T(I(d0, d1), d2)", "T(J(d0, d1), d2)"),
    ),
    "equal parts are one dimension": Gathering(
        "def f(float(E,E,D) T, int32(B,L) I, int32(B,L) J) -> (O) "
        "{ O(i,j) +=! T(I(i,k),J(i,k),j) }",
        lambda a: a["T"][a["I"], a["J"]].sum(1),
        ("T(I(d0, d1), J(d0, d1), d2)",),
    ),
    "offsets": Gathering(
        "def f(float(E,D) T, int32(B,L) I) -> (O) { O(i,j) +=! T(E - 1 - I(i,k),j) }",
        lambda a: a["T"][::-1][a["I"]].sum(1),
        ("T(20 - I(d0, d1), d2)",),
    ),
    "nested": Gathering(
        "def f(float(E,D) T, int32(F) J, int32(B,L) I) -> (O) { O(i,j) +=! T(J(I(i,k)),j) }",
        lambda a: a["T"][a["J"][a["I"]]].sum(1),
        ("T(J(I(d0, d1)), d2)",),
        {"I": "F", "J": "E"},
    ),
    "places and steps": Gathering(
        "def f(float(E,D) T, int32(B,L) I) -> (O) "
        "{ O(i,j) +=! T((I(i,l) + k + 2) % E,j) where k in -2:3 }",
        lambda a: sum(np.roll(a["T"], -k, 0)[a["I"]].sum(1) for k in range(5)),
        ("T((I(d0, d1) + d2 + 2) % 21, d3)",),
    ),
    "a condition of places": Gathering(
        "def f(float(E,D) T, int32(B,L) I) -> (O) { O(i,j) +=! T(I(i,k) > 2 ? 1 : 0,j) }",
        lambda a: a["T"][np.where(a["I"] > 2, 1, 0)].sum(1),
        ("T(I(d0, d1) > 2 ? 1 : 0, d2)",),
    ),
    "long subscripts": Gathering(
        f"def f(float(E,D) T, int32(B,L) I) -> (O) {{ O(i,j) +=! T({_bounded('I(i,k)')},j) }}",
        lambda a: a["T"][a["I"]].sum(1),
        (f"T({_bounded('I(d0, d1)', end=20)}, d2)",),
    ),
    "a stencil of places": Gathering(
        "def f(float(E,D) T, int32(B) I) -> (O) { O(i,j) = T(I(i),j) * T(I(i+1),j) }",
        lambda a: a["T"][a["I"][:-1]] * a["T"][a["I"][1:]],
        ("T(I(d0), d1)",),
    ),
    "two sums of one": Gathering(
        "def f(float(E,D) T, int32(B,L) I) -> (O, P) "
        "{ O(i,j) +=! T(I(i,k),j)  P(x,y) max=! T(I(x,z),y) }",
        lambda a: (a["T"][a["I"]].sum(1), a["T"][a["I"]].max(1)),
        ("T(I(d0, d1), d2)",),
    ),
    "places that are added": Gathering(
        "def f(float(E) T, int32(B) I, int32(L) J) -> (O) { O(i) +=! T((I(i) + J(k)) / 2) }",
        lambda a: a["T"][(a["I"][:, None] + a["J"]) // 2].sum(1),
    ),
    "a diagonal": Gathering(
        "def f(float(E,B) T, int32(B,L) I) -> (O) { O(i) +=! T(I(i,k),i) }", _diagonals
    ),
    "windows of rows": Gathering(
        "def f(float(E,D) T, int32(B,L) I, float(L) W) -> (O) "
        "{ O(i,j) +=! T(I(i,k),j+k) * W(k) where j in 0:D-L+1 }",
        _windows,
        ("T(I(d0, d1), d2)",),
    ),
    "columns": Gathering(
        "def f(float(D,E) T, int32(L,B) I) -> (O) { O(i,j) +=! T(j,I(k,i)) }",
        lambda a: a["T"][:, a["I"]].sum(1).T,
        ("T(d0, I(d1, d2))",),
    ),
    "halves": Gathering(
        "def f(half(E,D) T, int32(B,L) I) -> (O) { O(i,j) +=! T(I(i,k),j) }",
        lambda a: a["T"][a["I"]].sum(1),
        ("T(I(d0, d1), d2)",),
    ),
    "integers": Gathering(
        "def f(int32(E,D) T, int64(B,L) I) -> (O) { O(i,j) min=! T(I(i,k),j) }",
        lambda a: a["T"][a["I"]].min(1),
        ("T(I(d0, d1), d2)",),
    ),
    "steps": Gathering(
        "def f(float(E,D) T, int32(B,L) I) -> (O) { O(i,j) +=! T(I(2*i+1,k),j) where i in 0:B/2 }",
        lambda a: a["T"][a["I"][1::2]].sum(1),
        ("T(I(d0, d1), d2)",),
        spoil=_spoil_even,
    ),
    "edges": Gathering(
        "def f(float(E,D) T, int32(B,L) I) -> (O) "
        "{ O(i,j) +=! T(I(i,k),j+1) where k in 1:L-1, i in 0:B-2, j in 0:D-1 }",
        lambda a: a["T"][a["I"][:-2, 1:-1]].sum(1)[:, 1:],
        ("T(I(d0, d1), d2)",),
        spoil=_spoil_edges,
    ),
    "in a branch": Gathering(
        "def f(float(E,D) T, int32(B,L) I) -> (O) "
        "{ O(i,j) +=! I(i,k) < E - 1 ? T(I(i,k) + 1,j) : 0.0 }",
        lambda a: np.concatenate([a["T"][1:], 0 * a["T"][:1]])[a["I"]].sum(1),
    ),
    "written in the same launch": Gathering(
        "def f(float(E,D) T, int32(B,L) I) -> (O) "
        "{ J(k,i) = (I(i,k) + 1) % E  O(i,j) +=! T(J(k,i),j) }",
        lambda a: np.roll(a["T"], -1, 0)[a["I"]].sum(1),
    ),
    "never twice": Gathering(
        "def f(float(E,D) T, int32(B,L) I) -> (O) { O(i,k,j) = T(I(i,k),j) }",
        lambda a: a["T"][a["I"]],
    ),
}


def lowered(
    text: str,
    arrays: Arrays,
    options: GpuOptions | tc.Plan | None = None,
    gpu: tc.Gpu | None = None,
    *,
    check: bool = False,
    fusion: str = "auto",
) -> Lowering:
    plan = options if isinstance(options, tc.Plan) else None
    own = options if isinstance(options, GpuOptions) else GpuOptions()
    every = Options(schedule=ScheduleOptions(fusion=fusion, rewrite=False), gpu=own, plan=plan)
    return trace_lowering(
        shaped(checked(text), arrays),
        {},
        device=gpu or tc.Gpu(),
        initial=frozenset(),
        check=check,
        options=every,
    )


def gathered(lowering: Lowering) -> tuple[str, ...]:
    """What is gathered to shared memory."""
    names = (tile.tensor for tile in tiles(lowering.mapped.tree))
    return tuple(sorted({name for name in names if name in lowering.scop.gathers}))


def check_results(program: Gathering, lowering: Lowering, arrays: Mapping[str, Any]) -> None:
    """The outputs of the kernel, where places that are not read are none."""
    found = program.formula(arrays)
    expected = found if isinstance(found, tuple) else (found,)
    program.spoil(arrays)
    every, own = dict(arrays), lowering.shaped
    for name, array in zip(own.program.outputs, expected, strict=True):
        assert own.shapes[name] == array.shape
        every[name] = np.empty(array.shape, own.program.tensors[name].dtype.numpy)
    assert evaluate(lowering.kernel, as_buffers(lowering.kernel, every)) is None
    for name, array in zip(own.program.outputs, expected, strict=True):
        assert np.array_equal(every[name], array)
