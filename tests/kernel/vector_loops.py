"""Kernels of loops marked "vector", and what becomes of them."""

from __future__ import annotations

from tc.dtypes import BOOL, FLOAT16, FLOAT32, INT64
from tc.kernel.folding import integer
from tc.kernel.ir import Buffer, Expr, For, Kernel, Load, Site, Stmt, Store
from tc.kernel.passes.vectorize import vectorize
from tests.kernel.marked import assert_same, lines
from tests.support.build import dense, var

F32 = FLOAT32
L, K, R = var("l"), var("k"), var("r")
SITES = (Site("division", 0, 0, ("l",)),)
BUFFERS = (
    dense("a", INT64, (64,), "input"),
    dense("f", F32, (4, 64), "input"),
    dense("h", FLOAT16, (64,), "input"),
    dense("p", BOOL, (64,), "input"),
    Buffer("c", INT64, (8, 8), (1, 8), "input"),
    dense("o", INT64, (64,), "output"),
    dense("q", F32, (64,), "output"),
    dense("g", FLOAT16, (64,), "output"),
    dense("t", INT64, (64,), "temporary"),
    dense("s", INT64, (8,), "scratch"),
)
INITIAL = frozenset(("o", "q", "g"))


def kernel_of(*stmts: Stmt) -> Kernel:
    return Kernel("k", BUFFERS, (stmts,), SITES, INITIAL)


def vector(*body: Stmt, lanes: int = 4, begin: int = 0) -> For:
    return For("l", integer(begin), integer(begin + lanes), body, mark="vector")


def a(index: Expr) -> Load:
    return Load("a", (index,), INT64)


def vectors(*stmts: Stmt) -> list[str]:
    """The lines of the statements after `vectorize`, which must not change their results."""
    return lines(assert_same(kernel_of(*stmts), vectorize))


def one(value: Expr, index: Expr = L) -> list[str]:
    """The lines of a loop with one store after `vectorize`."""
    target = {INT64: "o", F32: "q", FLOAT16: "g"}[value.dtype]
    return vectors(vector(Store(target, (index,), value)))
