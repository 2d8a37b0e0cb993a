"""Texts in CUDA C++ that NVRTC compiles, on the PTX machine: right within the bound (R5), without a
fault and without a race; and changed texts, of which each is found."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.support.pipeline import as_arrays, as_buffers
from tests.support.ptx.machine import PtxError
from tests.support.ptx.texts import ptx_of, run_text
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
    "a mask too wide": (r"if \((t[xy]) < (\d+)", r"if (\1 <= \2"),
    "another thread's element": (r"(= .*\[.*)\btx\b", r"\1(tx ^ 1)"),
    "a pitch too short": (r"(__shared__ .*\[\d+\])\[(\d\d)\];", r"\1[\2 - 2];"),
    "another row": (r"(= .*)\* (\d+) \+", r"\1* (\2 - 1) +"),
    "an index by one": (r"(= .*\w\[)", r"\g<1>1 + "),
}
"""What of a text is changed, at each place where it matches. (A turn more of a loop that copies, or
of one over tiles, may find nothing left to do.)"""

CHANGED = ("mm", "conv2d", "tmm", "tbmm", "MLP3", "softmax", "layernorm", "gconv", "histogram")


def changed_texts(source: str) -> list[tuple[str, str]]:
    """The texts with one change each, and which that is."""
    return [
        (name, source[: found.start()] + found.expand(new) + source[found.end() :])
        for name, (old, new) in CHANGES.items()
        for found in re.finditer(old, source)
    ]


def is_found(work: Work, source: str) -> bool:
    try:
        check(work, ptx_of(source))
    except (PtxError, AssertionError):
        return True
    return False


@pytest.mark.drawn(6)
@pytest.mark.parametrize("program", CHANGED)
def test_changed_texts_are_found(program: str) -> None:
    work = work_of(f"{program}: emitted, default", "cuda")
    texts = changed_texts(str(work.text))
    left = [(name, text) for name, text in texts if not is_found(work, text)]
    assert not left, left
