"""Instruction sets of x86-64 that a `tc.Device` can describe, and programs compiled for them.

    python -m tests.support.instruction_sets NAME

compiles `PROGRAMS` for one of them, in the environment that `environment` gives, and runs them
where this machine has the instructions. LLVM ends the process over code that it cannot take.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tc
from tc import device
from tests.support.bounds import assert_within


@dataclass(frozen=True)
class InstructionSet:
    """`processor` and `features` are LLVM's words, `march` is GCC's; `flags` are those of Linux
    that a machine needs to run the code; `bits`, `fma`, `halves` and `exponents` are what tc is to
    find."""

    processor: str
    features: str
    march: str
    flags: frozenset[str]
    bits: int
    fma: bool = True
    halves: bool = True
    exponents: bool = False

    @property
    def environment(self) -> dict[str, str]:
        told = {"NUMBA_CPU_NAME": self.processor, "NUMBA_CPU_FEATURES": self.features}
        return {**os.environ, **told}

    @property
    def runs_here(self) -> bool:
        return self.flags <= _flags()


_AVX512 = ("avx512f", "avx512vl", "avx512bw", "avx512dq")
_WIDE = ",".join(f"+{name}" for name in _AVX512)
_AVX2 = frozenset({"avx2", "fma", "f16c", "bmi2", "movbe", "abm"})

SETS: Mapping[str, InstructionSet] = {
    "sse2": InstructionSet(
        "generic", "", "x86-64", frozenset(), 128, fma=False, halves=False
    ),
    "avx2 without halves": InstructionSet(
        "x86-64", "+avx2,+fma", "x86-64", frozenset({"avx2", "fma"}), 256, halves=False
    ),
    "avx2": InstructionSet("haswell", "+avx2,+fma,+f16c", "haswell", _AVX2, 256),
    "avx512": InstructionSet(
        "skylake-avx512", _WIDE, "skylake-avx512", _AVX2 | {*_AVX512, "clwb", "pku"}, 512,
        exponents=True,
    ),
    "avx512 in halves": InstructionSet(
        "znver4", _WIDE, "icelake-client", frozenset({"never run: march is another one"}), 512,
        exponents=True,
    ),
}  # fmt: skip

PROGRAMS: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "def f(float(M,K) A, float(K,N) B) -> (o) { o(i,j) +=! A(i,k) * B(k,j) }": {
        "A": (7, 19), "B": (19, 35),
    },
    "def f(float(N,M) a) -> (m, o) { m(i) max=! a(i,j)  o(i,j) = exp(a(i,j) - m(i)) }": {
        "a": (5, 37),
    },
    "def f(half(N,M) a, half(M) b) -> (o) { o(i) +=! a(i,j) * b(j) }": {"a": (3, 41), "b": (41,)},
    "def f(half(N) a, double(N) b) -> (o) { o(i) = half(b(i)) + sqrt(a(i)) }": {
        "a": (29,), "b": (29,),
    },
    "def f(int64(A,B,C) a, int64(D,B) b) -> (o) "
    "{ o(v,w) +=! a(k % 8, w, 0) || b(v,w) where k in 0:37 }": {"a": (8, 3, 31), "b": (2, 3)},
    "def f(uint8(N) a, int32(N) I, bool(M) b) -> (o, s) "
    "{ o(i) = b(I(i)) && a(i) > 2 ? a(i) / 2 : a(N-1-i)  s +=! b(I(i)) }": {
        "a": (67,), "I": (67,), "b": (9,),
    },
    "def f(double(N,M) a) -> (o, t) { o(j,i) = a(i,j)  t(i) min=! floor(a(i,j)) * 3 }": {
        "a": (18, 21),
    },
}  # fmt: skip
FOR_C = ("half(", "int64(")
"""The programs that C compiles, too."""


def main(name: str) -> None:
    wanted = SETS[name]
    found = device.host()
    told = (found.vector_bits, found.fma, device.converts_halves(), found.exponents)
    assert told == (wanted.bits, wanted.fma, wanted.halves, wanted.exponents), told
    _compile_c_for(wanted.march)
    for text, shapes in PROGRAMS.items():
        inputs = _inputs(text, shapes)
        for backend in ("numba", "c"):
            if backend not in tc.backends() or (backend == "c" and not _for_c(text)):
                continue
            f = tc.compile(text, backend=backend)
            f.prepare(*inputs)
            if wanted.runs_here:
                _check(text, inputs, f(*inputs))
    print("ran" if wanted.runs_here else "compiled")


def _for_c(text: str) -> bool:
    return text.removeprefix("def f(").startswith(FOR_C)


def _compile_c_for(march: str) -> None:
    from tc.backends.clike import backend as c

    c.NATIVE = f"-march={march}"


def _inputs(text: str, shapes: Mapping[str, tuple[int, ...]]) -> list[Any]:
    rng = np.random.default_rng(len(text))
    signature = tc.compile(text)._signature
    inputs = []
    for parameter in signature.inputs:
        shape, dtype = shapes[parameter.name], parameter.numpy
        whole = dtype.kind != "f"
        values = rng.integers(0, 9, shape) if whole else rng.uniform(0, 2, shape)
        inputs.append(values.astype(dtype))
    return inputs


def _check(text: str, inputs: list[Any], result: Any) -> None:
    expected, bound = tc.interpret(text, inputs), tc.error_bound(text, inputs)
    pairs = (
        (result, expected, bound) if isinstance(result, tuple) else ([result], [expected], [bound])
    )
    for one, other, most in zip(*pairs, strict=True):
        assert_within(one, other, most)


def _flags() -> frozenset[str]:
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return frozenset()
    lines = (line.partition(":") for line in text.splitlines())
    return frozenset(next((rest.split() for key, _, rest in lines if key.strip() == "flags"), ()))


if __name__ == "__main__":
    warnings.simplefilter("error")
    main(sys.argv[1])
