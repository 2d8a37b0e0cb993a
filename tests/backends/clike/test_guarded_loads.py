"""Emitted C reads nothing beyond its arrays, whichever flags GCC has: not past a condition."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tc
from tc.backends.clike.backend import FLAGS
from tc.backends.clike.guarded_loads import BACKWARDS_PRAGMA, PRAGMA

ROOT = Path(__file__).parents[3]
NAIVE = tc.Options.preset("naive")
GUARDED = {
    "end of a row": (
        "def f(int32(B,L) I, float(V,D) T) -> (o) { o(b,l,d) = T(I(b,l), d) }",
        {"B": 2, "L": 3, "V": 3, "D": 23},
        None,
    ),
    "choice": (
        "def f(float(N) a) -> (o) { o(i) = i < 5 ? a(i) : 0 where i in 0:8 }",
        {"N": 5},
        NAIVE,
    ),
    "truth": (
        "def f(bool(N) a) -> (o) { o(i) = i < 9 && a(i) where i in 0:16 }",
        {"N": 9},
        NAIVE,
    ),
    "every other": (
        "def f(double(N) a) -> (o) { o(i) = i % 2 == 0 ? a(i) : 0 where i in 0:8 }",
        {"N": 7},
        NAIVE,
    ),
    "edges": (
        "def f(int32(N) a) -> (o) { o(i) = pad(a(i-1), 0) where i in 0:8 }",
        {"N": 6},
        NAIVE,
    ),
}
PLAIN = {
    "no condition": ("def f(float(N) a) -> (o) { o(i) = a(i) + 1 }", {"N": 23}),
    "a condition on what is read": (
        "def f(float(N) a, float(N) b) -> (o) { o(i) = a(i) > 0 ? b(i) : 1 }",
        {"N": 23},
    ),
    "sides that load nothing": (
        "def f(float(N) a) -> (o) { o(i) = a(i) + (i < 3 ? 1 : 2) }",
        {"N": 23},
    ),
}
FOLDED = re.compile(r"v?p?blend\w+\s+\$\d+, (-?\d+)?\(")
"""A masked load with a constant mask as these versions of GCC write it: a load of all lanes."""


def emitted(text: str, sizes: dict[str, int], options: tc.Options | None) -> str:
    device = tc.Device(vector_bits=512, vector_registers=32)
    return str(tc.emit(text, sizes, options=options, device=device, check=True))


@pytest.mark.parametrize("name", [name for name in GUARDED if name != "end of a row"])
def test_loads_under_a_condition_on_indices(name: str) -> None:
    """The end of a row is a vector with a mask of its own."""
    assert PRAGMA in emitted(*GUARDED[name])


@pytest.mark.parametrize("name", PLAIN)
def test_others_are_left_to_the_compiler(name: str) -> None:
    assert PRAGMA not in emitted(*PLAIN[name], NAIVE)


@pytest.mark.skipif(
    shutil.which("gcc") is None or platform.machine() != "x86_64", reason="for GCC on x86-64"
)
@pytest.mark.parametrize("flags", [FLAGS, ("-O3", "-ffast-math"), ("-O2", "-ftree-vectorize")])
@pytest.mark.parametrize("name", GUARDED)
def test_no_load_goes_beyond_its_condition(
    name: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    """Looked up in the assembly, so that the processor need not have AVX-512."""
    (tmp_path / "f.c").write_text(emitted(*GUARDED[name]))
    subprocess.run(
        ["gcc", *flags, "-march=skylake-avx512", "-S", "-o", "f.s", "f.c"], cwd=tmp_path, check=True
    )
    assert not FOLDED.findall((tmp_path / "f.s").read_text())


BACKWARDS = """
import json
import numpy as np, tc
from tests.support.guarded import at_edge
text = "def f(float(N) f, float(P,Q,R) g) -> (o) {{"
text += "o(i,l,m) +=! f({subscript}) * g(m, i, k) where i in 0:1, l in 0:8 }}"
f = at_edge((15,), np.dtype(np.float32), before=True)
f[...] = np.arange(15)
g = np.arange(20, dtype=np.float32).reshape(4, 1, 5)
plan = {{"version": 1, "parts": [{{"statements": ["S0.init", "S0"], "actions": []}}]}}
options = tc.Options(plan=tc.Plan.from_json(json.dumps(plan)))
found = tc.compile(text, backend="c", options=options)(f[::-2] if "{subscript}" == "l" else f, g)
np.testing.assert_array_equal(found, np.einsum("l,mik->ilm", f[::-2], g))
"""
NOT_BACKWARDS = {
    "forwards": ("def f(float(N) a) -> (o) { o(i) = a(2*i) where i in 0:8 }", {"N": 15}),
    "without gaps": ("def f(float(N) a) -> (o) { o(i) = a(7-i) where i in 0:8 }", {"N": 8}),
    "rows": ("def f(float(M,N) a) -> (o) { o(i,j) = a(3-i,j) where i in 0:4 }", {"M": 4, "N": 99}),
}


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler of C")
@pytest.mark.parametrize(
    "subscript",
    ["l", "14 - 2*l", "-(l*2) + 14", "14 - 4*l/2", "14 - l*2 % 100", "14 - 2*max(l, 0)"],
)
def test_no_load_goes_before_arrays_that_are_read_backwards(subscript: str) -> None:
    """In a process of its own: one that is too wide ends it."""
    command = [sys.executable, "-c", BACKWARDS.format(subscript=subscript)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", NOT_BACKWARDS)
def test_other_loops_are_left_to_the_compiler(name: str) -> None:
    assert BACKWARDS_PRAGMA not in emitted(*NOT_BACKWARDS[name], NAIVE)
