"""Texts in CUDA C++ that NVRTC compiles, on the PTX machine: right within the bound (R5), without a
fault and without a race; and changed texts, of which each is found."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import tc
from tests.polyhedral.gpu.test_gpu_plans import PLANS
from tests.support.cuda_texts import HalfProduct, product_of, sums_of, text_of_sums
from tests.support.pipeline import as_arrays, as_buffers, checked
from tests.support.ptx.machine import PtxError
from tests.support.ptx.texts import ptx_of, run_text
from tests.test_programs import as_tuple
from tools.run_on_gpu import Work, compare, names, work_of

EMITTED = [name for name in names() if "emitted" in name]
LONG = "emitted, paper"
pytestmark = pytest.mark.filterwarnings("ignore::tc.TCWarning")


def arrays_of(work: Work) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays that a text is run on, outputs full of what no program expects; the outputs."""
    program, outputs = work.program, {}
    for output, value in zip(program.outputs, work.expected, strict=True):
        shape, dtype = np.shape(value), program.tensors[output].dtype.numpy
        poison = np.full(shape, np.nan if dtype.kind == "f" else 99, dtype)
        outputs[output] = np.array(work.arrays.get(output, poison))
    return as_buffers(work.text.kernel, {**as_arrays(program, work.arrays), **outputs}), outputs


def check(work: Work, ptx: str = "") -> None:
    given, outputs = arrays_of(work)
    failure, found = run_text(work.text, given, ptx)
    assert failure is None
    results = [found[name].reshape(array.shape) for name, array in outputs.items()]
    compare(results, work.expected, work.bounds)


@pytest.mark.drawn(8)
@pytest.mark.parametrize("name", [name for name in EMITTED if not name.endswith(LONG)])
def test_emitted_texts(name: str) -> None:
    check(work_of(name, "cuda"))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in EMITTED if name.endswith(LONG)])
def test_emitted_texts_of_the_paper(name: str) -> None:
    check(work_of(name, "cuda"))


# --- changed texts ----------------------------------------------------------------------------

CHANGES = {
    "a barrier out": (r"__syncthreads\(\);", ""),
    "a turn more": (r"(for \(long long (?!c)\w*[a-z1] .*? < \d+); (\w+\+\+)", r"\1 + 1; \2"),
    "a turn less": (r"(for \(.*? < \d+); (\w+\+\+)", r"\1 - 1; \2"),
    "a mask too wide": (r"(if \(|&& )(t[xy]) < (\d+)", r"\1\2 <= \3"),
    "another thread's element": (r"(= .*\[.*)\btx\b", r"\1(tx ^ 1)"),
    "a pitch too short": (r"(__shared__ .*\[\d+\])\[(\d\d)\];", r"\1[\2 / 2];"),
    "another row": (r"(= [^;\n]*)\* (\d+) \+", r"\1* (\2 + 1) +"),
    "an index by one": (r"(= .*\w\[)", r"\g<1>1 + "),
}
"""What of a text is changed, at each place where it matches. (A turn more of a loop that copies, or
of one over tiles, may find nothing left to do.)"""

CHANGES_BY_HAND = {
    **CHANGES,
    "a wait less": (r'"n"\(STAGES - 1\)', '"n"(STAGES)'),
    "a wrong lane": (r"\blane ([%/])", r"(lane ^ 31) \1"),
    "a wrong partner": (r"sum, distance\)", "sum, distance - 1)"),
    "a lane out": ("0xffffffffu", "0x7fffffffu"),
    "a mask too wide": (r"(if \(|&& |, )([a-z]+(?: \+ lane)?) < (\w+)", r"\1\2 <= \3"),
    "a pitch too short": (r"(\(row\)|\brow|[mnk]) \* (\w+) \+", r"\1 * (\2 - 1) +"),
}

CHANGED = ("mm", "conv2d", "tmm", "tbmm", "MLP3", "softmax", "layernorm", "gconv", "histogram")
PLANNED = (
    "a thread owns every fourth row", "few blocks take turns", "whole loops by threads, z too",
    "padding in the tile", "no sum: steps beyond the end have a test",
)  # fmt: skip
"""Plans by hand with arrays in shared memory. In turns that threads take the last may find nothing
left to do, so that one more changes nothing."""
PRODUCTS = (HalfProduct(), HalfProduct("bf16", stages=3, by_rows=True))


def changed_texts(
    source: str, changes: Mapping[str, tuple[str, str]] = CHANGES
) -> list[tuple[str, str]]:
    """The texts with one change each, and which that is."""
    return [
        (name, source[: found.start()] + found.expand(new) + source[found.end() :])
        for name, (old, new) in changes.items()
        for found in re.finditer(old, source)
    ]


def left_over(texts: Sequence[tuple[str, str]], check: Callable[[str], None]) -> list[str]:
    """The changed texts, as PTX, in which the check finds nothing wrong."""
    left = []
    for name, text in texts:
        with contextlib.suppress(PtxError, AssertionError):
            check(ptx_of(text))
            left.append(f"{name}:\n{text}")
    return left


@pytest.mark.drawn(6)
@pytest.mark.parametrize("program", CHANGED)
def test_changed_texts_are_found(program: str) -> None:
    work = work_of(f"{program}: emitted, default", "cuda")
    assert not left_over(changed_texts(str(work.text)), lambda ptx: check(work, ptx))


@pytest.mark.drawn(6)
@pytest.mark.parametrize("name", PLANNED)
def test_changed_texts_of_plans_are_found(name: str) -> None:
    plan, rng = PLANS[name], np.random.default_rng(7)
    shapes = max(plan.shapes, key=lambda shapes: sum(map(math.prod, shapes.values())))
    small = {n: [min(extent, 20) for extent in shape] for n, shape in shapes.items()}
    inputs = {n: rng.standard_normal(s).astype(np.float32) for n, s in small.items()}
    text = tc.emit(plan.text, inputs, backend="cuda", options=plan.options())
    expected, bounds = tc.interpret(plan.text, inputs), tc.error_bound(plan.text, inputs)
    work = Work(text, checked(plan.text), inputs, as_tuple(expected), as_tuple(bounds))
    check(work)
    changes = {kind: change for kind, change in CHANGES.items() if kind != "a turn more"}
    texts = changed_texts(str(text), changes)
    assert len(texts) > 4
    assert not left_over(texts, lambda ptx: check(work, ptx))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("product", PRODUCTS, ids=repr)
def test_changed_products_of_halves_are_found(product: HalfProduct) -> None:
    rng = np.random.default_rng(8)
    a, b = rng.integers(1, 9, (40, 40)), rng.integers(1, 9, (40, 40))

    def check_product(ptx: str) -> None:
        np.testing.assert_array_equal(product_of(product, ptx, a, b), a @ b)

    check_product(ptx_of(str(product)))
    assert not left_over(changed_texts(str(product), CHANGES_BY_HAND), check_product)


def test_changed_sums_are_found() -> None:
    a = np.random.default_rng(9).integers(1, 99, (11, 70))
    source = text_of_sums(70)

    def check_sums(ptx: str) -> None:
        np.testing.assert_array_equal(sums_of(ptx, a), a.sum(axis=1))

    check_sums(ptx_of(source))
    assert not left_over(changed_texts(source, CHANGES_BY_HAND), check_sums)


def test_each_change_by_hand_is_made() -> None:
    sources = (text_of_sums(70), *map(str, PRODUCTS))
    made = {name for source in sources for name, _ in changed_texts(source, CHANGES_BY_HAND)}
    assert CHANGES_BY_HAND.keys() - made == {"a turn more", "another thread's element"}
