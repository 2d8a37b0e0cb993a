"""Each rule of `verify` refuses the kernel that breaks it, and names node and reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tc.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, UINT8, DType
from tc.errors import InternalError
from tc.kernel.ir import (
    Binary,
    Buffer,
    Call,
    Cast,
    Comment,
    Compare,
    Const,
    Expr,
    Fail,
    For,
    If,
    Kernel,
    Let,
    Load,
    Logical,
    Select,
    Set,
    Site,
    Stmt,
    Store,
    Unary,
    Var,
)
from tc.kernel.verify import verify

I = Var("i", INT64)  # noqa: E741 - the index of the loop that each statement stands in
ZERO, FOUR = Const(0, INT64), Const(4, INT64)
ONE32 = Const(1.0, FLOAT32)
TRUE = Const(True, BOOL)
A = Load("a", (I,), FLOAT32)
HALF = Load("h", (I,), FLOAT16)

BUFFERS = (
    Buffer("a", FLOAT32, (4,), (-2,), "input"),
    Buffer("h", FLOAT16, (4,), (1,), "input"),
    Buffer("o", FLOAT32, (4,), (1,), "output"),
    Buffer("p", FLOAT16, (4,), (1,), "output"),
    Buffer("t", FLOAT32, (2, 4), (4, 1), "temporary"),
)
SITES = (Site("read", 0, 0, ("i",)), Site("division", 0, 1, ("i",)))


def kernel(*body: Stmt, parallel: bool = False) -> Kernel:
    loop = For("i", ZERO, FOUR, body, parallel)
    return Kernel("k", BUFFERS, ((loop,),), SITES)


def store(value: Expr) -> Store:
    return Store("o", (I,), value)


def test_well_formed() -> None:
    verify(
        kernel(
            Comment("every node once"),
            Let("x", Const(0.0, FLOAT32)),
            Let("b", Compare("<", I, FOUR)),
            If(
                Logical("&&", (Var("b", BOOL), Logical("!", (TRUE,)))),
                (Set("x", Call("exp", (A,), FLOAT32)), Let("y", ONE32)),
                (Fail(0, (I, ZERO)), Fail(1, (I,)), Let("y", ONE32)),
            ),
            For("j", I, FOUR, (Set("x", Unary("-", Var("x", FLOAT32), FLOAT32)),)),
            Store("t", (ZERO, I), Select(TRUE, A, Cast(HALF, FLOAT32), FLOAT32)),
            Store("p", (I,), Cast(Cast(Cast(A, FLOAT16), FLOAT32), FLOAT16)),
            store(Binary("min", Var("x", FLOAT32), A, FLOAT32)),
            parallel=True,
        )
    )


WRONG: dict[str, tuple[Stmt, str]] = {
    "const range": (store(Cast(Const(256, UINT8), FLOAT32)), "256 is no uint8"),
    "const int for float": (store(Const(1, FLOAT32)), "1 is no float32"),
    "const not rounded": (store(Const(0.1, FLOAT32)), "0.1 is no float32"),
    "const int for bool": (If(Const(1, BOOL), ()), "1 is no bool"),
    "const half": (store(Cast(Const(1.0, FLOAT16), FLOAT32)), "1.0 is no float16"),
    "var unknown": (store(Var("x", FLOAT32)), "'x' is not declared here"),
    "var type": (store(Var("i", FLOAT32)), "'i' is int64, not float32"),
    "load unknown": (store(Load("q", (I,), FLOAT32)), "unknown buffer 'q'"),
    "load type": (Let("x", Load("a", (I,), FLOAT64)), "'a' is float32, not float64"),
    "load rank": (store(Load("t", (I,), FLOAT32)), "1 indices for rank 2"),
    "load index type": (store(Load("a", (Const(0, INT32),), FLOAT32)), "an index is not int64"),
    "unary operator": (store(Unary("+", A, FLOAT32)), "unknown operator '+'"),
    "unary bool": (If(Unary("-", TRUE, BOOL), ()), "arithmetic on bool"),
    "unary type": (store(Unary("-", I, FLOAT32)), "an operand is int64, not float32"),
    "binary operator": (store(Binary("**", A, A, FLOAT32)), "unknown operator '**'"),
    "binary types": (store(Binary("+", A, I, FLOAT32)), "an operand is int64, not float32"),
    "binary bool": (If(Binary("+", TRUE, TRUE, BOOL), ()), "arithmetic on bool"),
    "compare operator": (If(Compare("=", I, I), ()), "unknown operator '='"),
    "compare types": (If(Compare("<", I, A), ()), "the operands are int64 and float32"),
    "compare result": (store(Compare("<", A, A, FLOAT32)), "a comparison is bool"),
    "logical operator": (If(Logical("and", (TRUE, TRUE)), ()), "unknown operator 'and'"),
    "logical count": (If(Logical("!", (TRUE, TRUE)), ()), "2 operands"),
    "logical one operand": (If(Logical("&&", (TRUE,)), ()), "1 operands"),
    "logical types": (If(Logical("||", (TRUE, I)), ()), "an operand is int64, not bool"),
    "select condition": (store(Select(I, A, A, FLOAT32)), "the condition is int64, not bool"),
    "select types": (store(Select(TRUE, A, I, FLOAT32)), "an operand is int64, not float32"),
    "call unknown": (store(Call("expf", (A,), FLOAT32)), "unknown function 'expf'"),
    "call arity": (store(Call("exp", (A, A), FLOAT32)), "2 arguments instead of 1"),
    "call type": (Let("x", Call("exp", (I,), INT64)), "'exp' does not compute in int64"),
    "call argument": (store(Call("exp", (I,), FLOAT32)), "an operand is int64, not float32"),
    "half load": (Let("x", Cast(HALF, FLOAT64)), "float16 stands only directly below"),
    "half local": (Let("x", HALF), "float16 stands only directly below"),
    "half arithmetic": (
        store(Cast(Binary("+", HALF, HALF, FLOAT16), FLOAT32)),
        "float16 stands only directly below",
    ),
    "half copy": (Store("p", (I,), HALF), "float16 stands only directly below"),
    "half comparison": (If(Compare("<", HALF, HALF), ()), "float16 stands only directly below"),
    "for bounds": (For("j", Const(0, INT32), FOUR, ()), "the bounds are not int64"),
    "for shadows": (For("i", ZERO, FOUR, ()), "'i' shadows a name"),
    "let shadows": (Let("i", ZERO), "'i' shadows a name"),
    "let buffer": (Let("a", ZERO), "'a' is a buffer"),
    "if condition": (If(I, ()), "the condition is int64, not bool"),
    "set unknown": (Set("x", ZERO), "'x' is not declared here"),
    "set loop variable": (Set("i", ZERO), "'i' is no local that may be set here"),
    "store unknown": (Store("q", (I,), A), "unknown buffer 'q'"),
    "store input": (Store("a", (I,), A), "'a' is an input"),
    "store type": (store(I), "'o' is float32, not int64"),
    "store rank": (Store("t", (I,), A), "1 indices for rank 2"),
    "store index": (Store("o", (A,), A), "an index is not int64"),
    "fail site": (Fail(2, (I,)), "unknown site 2"),
    "fail read count": (Fail(0, (I,)), "1 values for the read of (i)"),
    "fail division count": (Fail(1, (I, I)), "2 values for the division of (i)"),
    "fail value type": (Fail(1, (A,)), "a value is not int64"),
    "comment lines": (Comment("a\nb"), "a comment has one line"),
}


@pytest.mark.parametrize("name", WRONG)
def test_statement_refused(name: str) -> None:
    stmt, reason = WRONG[name]
    with pytest.raises(InternalError) as caught:
        verify(kernel(stmt))
    assert caught.value.cause.startswith("kernel k is ill-formed: in '")
    assert f"': {reason}" in caught.value.cause


def test_error_names_the_node() -> None:
    with pytest.raises(InternalError) as caught:
        verify(kernel(store(Binary("+", A, Load("q", (I,), FLOAT32), FLOAT32))))
    assert caught.value.cause == "kernel k is ill-formed: in 'q[i]': unknown buffer 'q'"


def refused(bad: Kernel) -> str:
    with pytest.raises(InternalError) as caught:
        verify(bad)
    return caught.value.cause


def test_local_ends_with_its_block() -> None:
    inner = If(TRUE, (Let("x", ONE32),))
    assert "'x' is not declared here" in refused(kernel(inner, store(Var("x", FLOAT32))))


def test_set_keeps_the_type() -> None:
    assert "'x' is float32" in refused(kernel(Let("x", ONE32), Set("x", ZERO)))


def test_one_type_per_name() -> None:
    bad = kernel(If(TRUE, (Let("x", ONE32),), (Let("x", ZERO),)))
    assert "'x' is float32 elsewhere in the kernel, int64 here" in refused(bad)


def test_fails_of_a_site_agree() -> None:
    bad = kernel(Fail(0, (I, ZERO)), Fail(0, (I, ZERO, ZERO)))
    assert "3 values where another Fail of the site has 2" in refused(bad)


def test_parallel_inside_parallel() -> None:
    inner = For("j", ZERO, FOUR, (), parallel=True)
    verify(kernel(inner))
    assert "a parallel loop inside another" in refused(kernel(inner, parallel=True))


def test_parallel_iterations_share_no_local() -> None:
    loop = For("i", ZERO, FOUR, (Set("x", ONE32),), parallel=True)
    shared = Kernel("k", BUFFERS, ((Let("x", ONE32), loop),))
    assert "'x' is no local that may be set here" in refused(shared)
    verify(replace(shared, regions=((Let("x", ONE32), replace(loop, parallel=False)),)))


def buffer(name: str, role: str, **changes: object) -> Buffer:
    made = Buffer(name, FLOAT32, (2, 3), (3, 1), role)
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("buffers", "reason"),
    [
        ((buffer("x", "input"), buffer("x", "output")), "two buffers have this name"),
        ((buffer("x", "scratch"),), "unknown role 'scratch'"),
        ((buffer("x", "input", strides=(1,)),), "the strides are not one per dimension"),
        ((buffer("x", "input", shape=(-1, 3)),), "an extent is negative"),
        ((buffer("x", "output", strides=(1, 2)),), "outputs and temporaries are row-major"),
        ((buffer("x", "output"), buffer("y", "input")), "they are out of calling order"),
    ],
)
def test_buffers_refused(buffers: tuple[Buffer, ...], reason: str) -> None:
    assert reason in refused(Kernel("k", buffers, ()))


def test_initial_are_outputs() -> None:
    bad = Kernel("k", BUFFERS, (), initial=frozenset(("o", "a")))
    assert refused(bad).endswith("in 'initial': ['a'] are no outputs")


def test_site_kind() -> None:
    assert "unknown kind 'write'" in refused(Kernel("k", (), (), (Site("write", 0, 0, ()),)))


@pytest.mark.parametrize("dtype", [BOOL, UINT8, INT32, FLOAT32])
def test_min_takes_every_type_and_sum_not_bool(dtype: DType) -> None:
    one = Cast(Const(1, INT64), dtype)
    verify(kernel(Let("x", Binary("min", one, one, dtype))))
    if dtype == BOOL:
        assert "arithmetic on bool" in refused(kernel(Let("x", Binary("+", one, one, dtype))))
