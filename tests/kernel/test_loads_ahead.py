"""Loads ahead: which copies to shared memory load first, and which stay as they are."""

from __future__ import annotations

from tc.dtypes import FLOAT32, INT64
from tc.kernel.folding import constant
from tc.kernel.ir import Binary, Buffer, Compare, If, Kernel, Let, Load, Set, Stmt, Store, Var
from tc.kernel.passes.loads_ahead import MOST_BYTES_AHEAD, load_ahead
from tc.kernel.printer import to_text
from tc.kernel.rebuild import Stmts

INDEX = Var("i", INT64)
BUFFERS = (
    Buffer("a", FLOAT32, (99,), (1,), "input"),
    Buffer("o", FLOAT32, (99,), (1,), "output"),
    Buffer("s", FLOAT32, (99,), (1,), "shared"),
)


def copy(number: int, source: str = "a", target: str = "s") -> Store:
    place = Binary("+", INDEX, constant(number, INT64), INT64)
    return Store(target, (place,), Load(source, (place,), FLOAT32))


def after(*stmts: Stmt) -> list[str]:
    kernel = Kernel("f", BUFFERS, (stmts,))
    return [line.strip() for line in to_text(load_ahead(kernel)).splitlines()[5:]]


def order(*stmts: Stmt) -> str:
    """L for what loads and does not store, S for what stores."""
    kernel = load_ahead(Kernel("f", BUFFERS, (stmts,)))
    return "".join("S" if isinstance(s, Store | If) else "L" for s in kernel.regions[0])


def test_places_that_are_computed_between_stay_before() -> None:
    j = Let("j", Binary("*", INDEX, INDEX, INT64))
    last = Store("s", (Var("j", INT64),), Load("a", (Var("j", INT64),), FLOAT32))
    assert after(copy(0), j, last) == [
        "let a_1: float32 = a[i + 0]",
        "let j: int64 = i * i",
        "let a_2: float32 = a[j]",
        "s[i + 0] = a_1",
        "s[j] = a_2",
    ]


def test_what_reads_shared_memory_stays_in_order() -> None:
    """Here, and in the condition of a branch."""
    near = Store("s", (INDEX,), Load("s", (constant(5, INT64),), FLOAT32))
    zero = constant(0.0, FLOAT32)
    asked = If(Compare("<", Load("s", (INDEX,), FLOAT32), zero), (copy(3),))
    for middle in (near, asked):
        kernel = Kernel("f", BUFFERS, ((copy(0), copy(1), middle, copy(2)),))
        (region,) = load_ahead(kernel).regions
        assert region[4] is middle
        assert region[5] == copy(2)


def test_stores_elsewhere_stay_in_order() -> None:
    """What is stored to memory may be what is loaded next."""
    stores: Stmts = (copy(0), copy(1, "a", "o"), copy(1, "o", "s"))
    kernel = Kernel("f", BUFFERS, (stmts := stores,))
    assert load_ahead(kernel).regions[0] is stmts


def test_values_that_change_between_are_read_in_order() -> None:
    x = Let("x", constant(1, INT64))
    moved = Set("x", constant(2, INT64))
    to_x = Store("s", (Var("x", INT64),), Load("a", (Var("x", INT64),), FLOAT32))
    kernel = Kernel("f", BUFFERS, ((x, to_x, moved, to_x),))
    assert load_ahead(kernel) is kernel


def test_no_more_than_some_registers_hold_what_is_loaded() -> None:
    most = MOST_BYTES_AHEAD // 4
    found = order(*(copy(n) for n in range(most + 3)))
    assert found == "L" * most + "S" * most + "LLLSSS"


def test_kernels_without_shared_memory_stay() -> None:
    kernel = Kernel("f", BUFFERS[:2], ((copy(0, "a", "o"), copy(1, "a", "o")),))
    assert load_ahead(kernel) is kernel


def test_branches_of_which_nothing_is_left_copy_nothing() -> None:
    empty = If(Compare("<", INDEX, constant(5, INT64)), (), ())
    kernel = Kernel("f", BUFFERS, ((copy(0), empty, copy(1)),))
    (region,) = load_ahead(kernel).regions
    assert region == (copy(0), empty, copy(1))
