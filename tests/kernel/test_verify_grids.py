"""The rules of `verify` for blocks and threads: each refuses the kernel that breaks it."""

from __future__ import annotations

import pytest

from tc.dtypes import FLOAT16, INT64
from tc.errors import InternalError
from tc.kernel.folding import integer
from tc.kernel.ir import (
    Atomic,
    Barrier,
    Buffer,
    Comment,
    For,
    Grid,
    If,
    Kernel,
    LaunchIndex,
    Let,
    Load,
    Prefetch,
    Set,
    Stmt,
    Store,
    row_major,
)
from tc.kernel.rebuild import changed
from tc.kernel.verify import verify
from tests.kernel.grids import B0, BARRIER, GRID_BARRIER, T0, equal, grid
from tests.support.build import dense, loop

ZERO = integer(0)
BUFFERS = (
    dense("o", INT64, (2, 4), "output"),
    dense("r", INT64, (2,), "register"),
    dense("s", INT64, (4,), "shared"),
    dense("p", INT64, (4,), "scratch"),
    dense("h", FLOAT16, (4,), "shared"),
)
WRITE = Store("s", (T0,), ZERO)
READ = Store("o", (B0, T0), Load("s", (T0,), INT64))


def kernel(*regions: tuple[Stmt, ...]) -> Kernel:
    return Kernel("k", BUFFERS, regions)


def inside(*body: Stmt) -> Kernel:
    return kernel((grid((2,), (4,), *body),))


def test_well_formed() -> None:
    body = (
        Let("x", T0),
        WRITE,
        Store("p", (T0,), ZERO),
        loop("i", 3, If(equal(T0, B0), (Set("x", B0),)), BARRIER, mark="unroll"),
        If(equal(B0, ZERO), (BARRIER,)),
        GRID_BARRIER,
        READ,
    )
    dims = Grid(
        tuple(LaunchIndex(name, 1) for name in ("bz", "by", "bx")),
        tuple(LaunchIndex(name, 1024) for name in ("tz", "ty", "tx")),
        (),
    )
    one = Grid((), (), (BARRIER,))
    comment = Comment("launches")
    verify(kernel((comment, grid((2,), (4,), *body), comment), (dims,), (one,), (Let("b0", ZERO),)))


def refused(bad: Kernel) -> str:
    with pytest.raises(InternalError) as caught:
        verify(bad)
    return caught.value.cause.removeprefix("kernel k is ill-formed: in ")


def ids(*names: str, count: int = 1) -> tuple[LaunchIndex, ...]:
    return tuple(LaunchIndex(name, count) for name in names)


EMPTY = grid((2,), (4,))
WRONG: dict[str, tuple[Kernel, str]] = {
    "beside a statement": (
        kernel((Let("x", ZERO), EMPTY)),
        "'region': a grid does not stand alone in its region",
    ),
    "two": (kernel((EMPTY, EMPTY)), "'region': a grid does not stand alone in its region"),
    "in a grid": (inside(Grid((), (), ())), "'region': a grid does not stand alone in its region"),
    "in a loop": (
        kernel((loop("i", 2, EMPTY),)),
        "'region': a grid does not stand alone in its region",
    ),
    "four dimensions": (
        kernel((Grid(ids(*"abcd"), (), ()),)),
        "'blocks a in 0:1, b in 0:1, c in 0:1, d in 0:1 of one thread': 4 dimensions of blocks",
    ),
    "four dimensions of threads": (
        kernel((Grid((), ids(*"abcd"), ()),)),
        "'one block of threads a in 0:1, b in 0:1, c in 0:1, d in 0:1': 4 dimensions of threads",
    ),
    "no block": (
        kernel((Grid(ids("b", count=0), (), ()),)),
        "'blocks b in 0:0 of one thread': 0 blocks along 'b'",
    ),
    "no thread": (
        kernel((Grid((), ids("t", count=0), ()),)),
        "'one block of threads t in 0:0': 0 threads along 't'",
    ),
    "one name twice": (
        kernel((Grid(ids("b"), ids("b"), ()),)),
        "'blocks b in 0:1 of threads b in 0:1': two of its indices have one name",
    ),
    "name of a buffer": (
        kernel((Grid(ids("s"), (), ()),)),
        "'blocks s in 0:1 of one thread': 's' is a buffer",
    ),
    "declared again": (inside(Let("t0", ZERO)), "'let t0: int64 = 0': 't0' shadows a name"),
    "set": (inside(Set("t0", ZERO)), "'t0 = 0': 't0' is no local that may be set here"),
    "parallel": (
        inside(loop("i", 2, parallel=True)),
        "'parallel for i in 0:2': a loop of threads is parallel, or marked for vectors",
    ),
    "vector": (
        inside(loop("i", 2, mark="vector")),
        "'vector for i in 0:2': a loop of threads is parallel, or marked for vectors",
    ),
    "barrier": (kernel((BARRIER,)), "'barrier': it is in no grid"),
    "barrier in a loop": (kernel((loop("i", 2, BARRIER),)), "'barrier': it is in no grid"),
    "barrier of a grid": (kernel((GRID_BARRIER,)), "'barrier of the grid': it is in no grid"),
    "barrier of a grid in a loop": (
        inside(loop("i", 2, GRID_BARRIER, mark="unroll")),
        "'blocks b0 in 0:2 of threads t0 in 0:4': a barrier of the grid in a loop or condition, "
        "which some blocks may not meet",
    ),
    "barrier of a grid in a branch": (
        inside(If(equal(B0, ZERO), (), (loop("i", 2, GRID_BARRIER),))),
        "'blocks b0 in 0:2 of threads t0 in 0:4': a barrier of the grid in a loop or condition, "
        "which some blocks may not meet",
    ),
    "barrier of a warp": (inside(Barrier("warp")), "'barrier of the warp': unknown scope 'warp'"),
    "shared stored": (
        kernel((For("t0", ZERO, ZERO, (WRITE,)),)),
        "'region': ['s'] are shared, and used outside of a grid",
    ),
    "shared loaded": (
        kernel((Let("b0", ZERO), For("t0", ZERO, ZERO, (READ,)))),
        "'region': ['s'] are shared, and used outside of a grid",
    ),
    "shared prefetched": (
        inside(Prefetch("s", (T0,))),
        "'prefetch s[t0]': 's' is private, and prefetched",
    ),
    "atomic in no grid": (kernel((Atomic("o", (ZERO, ZERO), "+", ZERO),)), "'atomic o[0, 0] += 0'"),
    "atomic of an own array": (
        inside(Atomic("p", (T0,), "+", ZERO)),
        "'atomic p[t0] += 0': threads do not meet in 'p'",
    ),
    "atomic of a half": (
        inside(Atomic("h", (T0,), "+", Load("h", (T0,), FLOAT16))),
        "'atomic h[t0] += h[t0]': elements are float16",
    ),
    "atomic of another type": (
        inside(Atomic("h", (T0,), "+", ZERO)),
        "'atomic h[t0] += 0': 'h' is float16, not int64",
    ),
    "atomic product": (
        inside(Atomic("s", (T0,), "*", ZERO)),
        "'atomic s[t0] *= 0': unknown operator '*'",
    ),
    "atomics of several operations": (
        inside(
            Atomic("s", (T0,), "+", ZERO), If(equal(B0, ZERO), (Atomic("s", (T0,), "|", ZERO),))
        ),
        "'atomic s[t0] |= 0': 's' is updated by another operation, too",
    ),
    "shared stored past the caches": (
        inside(changed(WRITE, non_temporal=True)),
        "'stream s[t0] = 0': no whole vector is non-temporal",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_refused(name: str) -> None:
    bad, reason = WRONG[name]
    assert refused(bad).startswith(reason)


def test_ids_end_with_their_grid() -> None:
    assert refused(kernel((EMPTY,), (Let("x", T0),))) == "'t0': 't0' is not declared here"


@pytest.mark.parametrize(
    ("buffers", "reason"),
    [
        ((Buffer("s", INT64, (2, 3), (1, 2), "shared"),), "only inputs are not row-major"),
        (
            (dense("s", INT64, (2,), "shared"), dense("o", INT64, (2,), "output")),
            "they are out of calling order",
        ),
    ],
)
def test_shared_buffers_refused(buffers: tuple[Buffer, ...], reason: str) -> None:
    assert reason in refused(Kernel("k", buffers, ()))


def test_shared_buffers_are_no_arguments() -> None:
    assert [b.name for b in kernel().arguments] == ["o"]
    assert BUFFERS[4].strides == row_major((4,))
