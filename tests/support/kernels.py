"""Small kernels by hand, and how to run one on a backend and on numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tc.backends.base import Backend
from tc.dtypes import DTYPES, FLOAT32, INT64
from tc.kernel.ir import (
    Binary,
    Buffer,
    Comment,
    Const,
    Expr,
    Failure,
    Kernel,
    Load,
    Store,
    Var,
)
from tc.kernel.verify import verify
from tc.runtime.loaded import CompiledKernel
from tests.support.build import I, dense, loop

Array = np.ndarray[Any, Any]
MATMUL = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
"""The program whose kernel is `matmul`, which has the error bound."""


def input_like(name: str, array: Array) -> Buffer:
    strides = tuple(s // array.itemsize for s in array.strides)
    return Buffer(name, DTYPES[array.dtype.name], array.shape, strides, "input")


def elementwise(exprs: Sequence[Expr], inputs: Mapping[str, Array], extent: int) -> Kernel:
    """o0[i] = exprs[0], o1[i] = exprs[1], ... in one parallel loop."""
    outputs = [dense(f"o{n}", e.dtype, (extent,), "output") for n, e in enumerate(exprs)]
    stores = [Store(f"o{n}", (I,), e) for n, e in enumerate(exprs)]
    buffers = (*(input_like(n, a) for n, a in inputs.items()), *outputs)
    return Kernel("k", buffers, ((loop("i", extent, *stores, parallel=True),),))


def matmul(n: int, m: int, k: int) -> Kernel:
    """C(i,j) +=! A(i,k) * B(k,j), parallel in i."""
    i, j, l = (Var(name, INT64) for name in "ijk")  # noqa: E741  # as in mathematics

    def load(name: str, *indices: Expr) -> Load:
        return Load(name, indices, FLOAT32)

    product = Binary("*", load("A", i, l), load("B", l, j), FLOAT32)
    total = Binary("+", load("C", i, j), product, FLOAT32)
    body = (
        Comment("C(i,j) +=! A(i,k) * B(k,j)"),
        loop("j", m, Store("C", (i, j), Const(0.0, FLOAT32))),
        loop("k", k, loop("j", m, Store("C", (i, j), total))),
    )
    buffers = (
        dense("A", FLOAT32, (n, k), "input"),
        dense("B", FLOAT32, (k, m), "input"),
        dense("C", FLOAT32, (n, m), "output"),
    )
    return Kernel("mm", buffers, ((loop("i", n, *body, parallel=True),),))


def load(backend: Backend, kernel: Kernel) -> CompiledKernel:
    verify(kernel)
    return backend.load(backend.emit(kernel))


def address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def fresh(kernel: Kernel, given: Mapping[str, Array]) -> dict[str, Array]:
    """Arrays for all buffers: the given ones, and arrays of ones, so that elements not written
    show."""
    return {
        b.name: given[b.name] if b.name in given else np.ones(b.shape, b.dtype.numpy)
        for b in kernel.buffers
    }


def run(
    compiled: CompiledKernel, given: Mapping[str, Array], threads: int | None = None
) -> tuple[Failure | None, dict[str, Array]]:
    arrays = fresh(compiled.kernel, given)
    addresses = [address(arrays[b.name]) for b in compiled.kernel.arguments]
    return compiled.run(addresses, threads=threads), arrays
