"""Emitted C reads nothing beyond its arrays, and sums integers right, whichever flags GCC has."""

from __future__ import annotations

import ctypes
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tc
from tc.backends.clike import gcc_faults
from tc.backends.clike.backend import FLAGS

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
    assert gcc_faults.GUARDED in emitted(*GUARDED[name])


@pytest.mark.parametrize("name", PLAIN)
def test_others_are_left_to_the_compiler(name: str) -> None:
    assert gcc_faults.GUARDED not in emitted(*PLAIN[name], NAIVE)


for_gcc = pytest.mark.skipif(
    shutil.which("gcc") is None or platform.machine() != "x86_64", reason="for GCC on x86-64"
)


@for_gcc
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


PART = re.compile(r"v(?:extract|compress)\w+\s[^\n]*\)\{%k")
"""A masked store of a part of a vector: on Intel's processors it faults on lanes that the mask
leaves out. This machine may have another."""


@for_gcc
@pytest.mark.filterwarnings("ignore::tc.TCWarning")  # the products wrap around
@pytest.mark.parametrize(
    "machine",
    [
        ("-march=skylake-avx512",),
        ("-mavx512vl", "-mprefer-vector-width=256"),
        ("-mavx512vl", "-mavx512bw", "-mprefer-vector-width=256"),
    ],
    ids="".join,
)
@pytest.mark.parametrize("row", ["int64 9", "int64 5", "double 13", "int32 41", "uint8 23"])
def test_no_store_touches_what_its_mask_leaves_out(
    row: str, machine: tuple[str, ...], tmp_path: Path
) -> None:
    dtype, count = row.split()
    text = f"def f({dtype}(N) a) -> (o) {{ o(i) = a(i) * a(i) }}"
    (tmp_path / "f.c").write_text(emitted(text, {"N": int(count)}, None))
    for flags in (FLAGS, ("-O3",)):
        command = ["gcc", *flags, *machine, "-S", "-o", "f.s", "f.c"]
        subprocess.run(command, cwd=tmp_path, check=True, stderr=subprocess.DEVNULL)
        assert not PART.findall((tmp_path / "f.s").read_text()), flags


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


@pytest.mark.drawn(3)
@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler of C")
@pytest.mark.parametrize(
    "subscript",
    ["l", "14 - 2*l", "-(l*2) + 14", "14 - 4*l/2", "14 - l*2 % 100", "14 - 2*max(l, 0)"],
)
def test_no_load_goes_before_arrays_that_are_read_backwards(subscript: str) -> None:
    """The kernel runs in a process of its own, as a load that is too wide ends the process."""
    command = [sys.executable, "-c", BACKWARDS.format(subscript=subscript)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", NOT_BACKWARDS)
def test_other_loops_are_left_to_the_compiler(name: str) -> None:
    assert gcc_faults.BACKWARDS not in emitted(*NOT_BACKWARDS[name], NAIVE)


SUM = "def f(int8(D,N) a, int8(N) m) -> (s) { s(d) +=! a(d,n) * m(n) }"
INTEGERS = {
    "sums": (SUM, {"D": 3, "N": 70_000}),
    "sums in memory": ("def f(uint32(N) a) -> (s) { s += a(i) }", {"N": 99}),
}


@pytest.mark.filterwarnings("ignore::tc.TCWarning")  # the sums wrap around
@pytest.mark.parametrize("name", INTEGERS)
def test_sums_of_integers_are_summed_as_written(name: str) -> None:
    assert gcc_faults.INTEGERS in emitted(*INTEGERS[name], NAIVE)


def test_integers_that_nothing_is_added_to() -> None:
    text = "def f(int(N) a, float(N) x) -> (o, s) { o(i) = a(i) + 1  s +=! x(i) }"
    assert gcc_faults.INTEGERS not in emitted(text, {"N": 99}, NAIVE)


@pytest.mark.filterwarnings("ignore::tc.TCWarning")  # the sums wrap around
@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler of C")
@pytest.mark.parametrize("flags", [FLAGS, ("-O3", "-march=native"), ("-O2", "-fwrapv")], ids=str)
@pytest.mark.parametrize("n", [33_000, 70_000])
def test_long_sums_of_emitted_texts(n: int, flags: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(str(tc.emit(SUM, {"D": 3, "N": n})))
    command = ["cc", *flags, "-fPIC", "-shared", "-o", "f.so", "f.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    numbers = np.random.default_rng(n)
    a, m = (numbers.integers(0, 6, shape).astype(np.int8) for shape in ((3, n), (n,)))
    found, workspace = np.zeros(3, np.int8), np.zeros(1 << 20, np.int8)
    arrays = (a, m, found, workspace)
    ctypes.CDLL(str(tmp_path / "f.so")).f(*(ctypes.c_void_p(x.ctypes.data) for x in arrays))
    assert found.tolist() == (a.astype(np.int64) * m).sum(1).astype(np.int8).tolist()
