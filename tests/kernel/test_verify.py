"""Each rule of `verify` refuses the kernel that breaks it, and names node and reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tc.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, UINT8, DType
from tc.errors import InternalError
from tc.kernel.ir import (
    Binary,
    Bits,
    Broadcast,
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
    Ramp,
    Reduce,
    Select,
    Set,
    Shuffle,
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

F4, I4, B4 = FLOAT32.vector(4), INT64.vector(4), BOOL.vector(4)
R = Ramp(ZERO, 1, I4)
M = Compare("<", R, Const(2, I4), B4)
V = Load("a", (R,), F4)

BUFFERS = (
    Buffer("a", FLOAT32, (4,), (-2,), "input"),
    Buffer("h", FLOAT16, (4,), (1,), "input"),
    Buffer("o", FLOAT32, (4,), (1,), "output"),
    Buffer("p", FLOAT16, (4,), (1,), "output"),
    Buffer("t", FLOAT32, (2, 4), (4, 1), "temporary"),
    Buffer("r", FLOAT32, (4,), (1,), "register"),
    Buffer("s", FLOAT16, (4,), (1,), "scratch"),
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


def test_well_formed_vectors() -> None:
    half = Load("h", (Binary("+", R, Const(0, I4), I4),), FLOAT16.vector(4), M)
    bits = Bits(Var("v", F4), INT32.vector(4))
    integers = INT32.vector(4)
    doubled = Binary("<<", bits, Const(1, integers), integers)
    verify(
        kernel(
            Let("v", Load("t", (I, R), F4, M)),
            Set("v", Call("fma", (Var("v", F4), Broadcast(A, F4), Const(0.5, F4)), F4)),
            Set("v", Select(M, Var("v", F4), Cast(half, F4), F4)),
            Set("v", Select(TRUE, Var("v", F4), Bits(doubled, F4), F4)),
            Store("t", (ZERO, R), Unary("-", Var("v", F4), F4), Logical("!", (M,), B4)),
            Store("s", (R,), Cast(Var("v", F4), FLOAT16.vector(4))),
            Store("o", (R,), V, non_temporal=True),
            Store("r", (I,), Reduce("max", Shuffle(V, V, (0, 7), FLOAT32.vector(2)), FLOAT32)),
            Let("any", Reduce("max", M, BOOL)),
            Let("j", Binary("&", Cast(M, I4), Ramp(I, -3, I4), I4)),
            parallel=True,
        )
    )


def test_well_formed_marks() -> None:
    k, total = Var("k", INT64), Var("x", FLOAT32)
    inner = For("k", ZERO, FOUR, (Store("t", (ZERO, k), Load("a", (I,), FLOAT32)),))
    add = Set("x", Binary("+", total, Load("a", (k,), FLOAT32), FLOAT32))
    verify(
        kernel(
            Let("x", ONE32),
            For("k", ZERO, FOUR, (Set("x", ONE32),), mark="unroll"),
            For("k", ZERO, FOUR, (add,), mark="vector"),
            For("l", ZERO, FOUR, (inner,), mark="transpose"),
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
    "call exponents": (
        Let("x", Call("scaleb", (Broadcast(A, F4),), F4)),
        "1 arguments instead of 2",
    ),
    "call exponents of one": (
        store(Call("significand", (A,), FLOAT32)),
        "'significand' is for vectors",
    ),
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
    "lanes none": (Let("x", Const(1.0, FLOAT32.vector(0))), "0 lanes"),
    "lanes const": (Let("x", Const(256, UINT8.vector(4))), "256 is no uint8"),
    "lanes unary": (Let("x", Unary("-", A, F4)), "an operand is float32, not float32x4"),
    "lanes binary": (Let("x", Binary("+", V, A, F4)), "an operand is float32, not float32x4"),
    "lanes binary bool": (Let("x", Binary("+", M, M, B4)), "arithmetic on bool"),
    "lanes bits of floats": (Let("x", Binary("&", V, V, F4)), "'&' on float32x4"),
    "lanes sums of bools": (Let("x", Binary("+", M, M, B4)), "arithmetic on bool"),
    "lanes compare": (Let("x", Compare("<", V, V)), "an operand has 4 lanes, not 1"),
    "lanes compare operands": (Let("x", Compare("<", V, A, B4)), "the operands are float32x4 and"),
    "lanes logical": (Let("x", Logical("&&", (M, TRUE), B4)), "an operand is bool, not boolx4"),
    "lanes select": (
        Let("x", Select(Const(True, BOOL.vector(2)), V, V, F4)),
        "the condition is boolx2, not boolx4",
    ),
    "lanes call": (Let("x", Call("exp", (A,), F4)), "an operand is float32, not float32x4"),
    "lanes cast": (Let("x", Cast(A, F4)), "an operand has 1 lanes, not 4"),
    "lanes half": (
        Let("x", Load("h", (R,), FLOAT16.vector(4))),
        "float16 stands only directly below",
    ),
    "bits width": (Let("x", Bits(V, I4)), "float32x4 and int64x4 differ in width"),
    "bits lanes": (Let("x", Bits(V, INT32)), "an operand has 4 lanes, not 1"),
    "bits bool": (Let("x", Bits(TRUE, BOOL)), "the bits of a bool"),
    "broadcast scalar": (Let("x", Broadcast(A, FLOAT32)), "float32 is no vector"),
    "broadcast vector": (Let("x", Broadcast(V, F4)), "an operand is float32x4, not float32"),
    "ramp type": (Let("x", Ramp(ZERO, 1, INT32.vector(4))), "int32x4 is no vector of int64"),
    "ramp base": (Let("x", Ramp(R, 1, I4)), "an operand is int64x4, not int64"),
    "ramp step": (Let("x", Ramp(ZERO, 2**63, I4)), "the step 9223372036854775808 is no int64"),
    "reduce operator": (Let("x", Reduce("-", V, FLOAT32)), "'-' is no reduction"),
    "reduce scalar": (Let("x", Reduce("+", A, FLOAT32)), "float32 is no vector"),
    "reduce type": (Let("x", Reduce("+", V, FLOAT64)), "the operand is float32x4, not of float64"),
    "reduce bool": (Let("x", Reduce("+", M, BOOL)), "arithmetic on bool"),
    "shuffle types": (Let("x", Shuffle(V, R, (0, 1), F4)), "the operands are float32x4 and int64"),
    "shuffle lane": (Let("x", Shuffle(V, V, (0, 8, 0, 0), F4)), "a lane is not below 8"),
    "shuffle lanes": (Let("x", Shuffle(V, V, (0, 1), F4)), "the result is float32x2, not float32x"),
    "shuffle scalars": (Let("x", Shuffle(A, A, (0, 1), FLOAT32.vector(2))), "a shuffle of scalars"),
    "load at scalars": (Let("x", Load("a", (I,), F4)), "a vector at scalar indices"),
    "load index lanes": (
        Let("x", Load("a", (Ramp(ZERO, 1, INT64.vector(2)),), F4)),
        "an index is not int64 or int64x4",
    ),
    "load scalar at a vector": (store(Load("a", (R,), FLOAT32)), "an index is not int64"),
    "load scalar mask": (store(Load("a", (I,), FLOAT32, TRUE)), "a mask on a scalar"),
    "load mask": (
        Let("x", Load("a", (R,), F4, Const(True, BOOL.vector(2)))),
        "the mask is boolx2",
    ),
    "load mask type": (Let("x", Load("a", (R,), F4, R)), "the mask is int64x4"),
    "load mask content": (
        Let("x", Load("a", (R,), F4, Compare("<", R, Var("q", I4), B4))),
        "'q' is not declared here",
    ),
    "store at scalars": (store(V), "a vector at scalar indices"),
    "store a scalar at a vector": (Store("o", (R,), A), "an index is not int64"),
    "store mask": (Store("o", (R,), V, TRUE), "the mask is bool"),
    "store mask content": (Store("o", (R,), V, Var("q", B4)), "'q' is not declared here"),
    "stream a scalar": (
        Store("o", (I,), A, non_temporal=True),
        "no whole vector is non-temporal",
    ),
    "stream lanes of a mask": (
        Store("o", (R,), V, M, non_temporal=True),
        "no whole vector is non-temporal",
    ),
    "stream to a register": (
        Store("r", (R,), V, non_temporal=True),
        "'r' is private, and non-temporal",
    ),
    "if a vector": (If(M, ()), "the condition is boolx4, not bool"),
    "mark unknown": (For("k", ZERO, FOUR, (), mark="simd"), "unknown mark 'simd'"),
    "mark bounds": (
        For("k", ZERO, I, (), mark="unroll"),
        "the bounds of a loop marked 'unroll' are not constant",
    ),
    "vector in vector": (
        For("k", ZERO, FOUR, (For("l", ZERO, FOUR, (), mark="vector"),), mark="vector"),
        "a vector loop inside another",
    ),
    "transpose of more": (
        For("k", ZERO, FOUR, (store(A), store(A)), mark="transpose"),
        "a transpose is not two loops around one store of one load",
    ),
    "transpose of a sum": (
        For(
            "k",
            ZERO,
            FOUR,
            (For("l", ZERO, FOUR, (store(Unary("-", A, FLOAT32)),)),),
            mark="transpose",
        ),
        "a transpose is not two loops around one store of one load",
    ),
    "transpose bounds": (
        For("k", ZERO, FOUR, (For("l", I, FOUR, (store(A),)),), mark="transpose"),
        "the inner bounds of a transpose are not constant",
    ),
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


def test_vector_iterations_share_no_local_but_one_accumulation() -> None:
    def vector(*body: Stmt) -> Kernel:
        return kernel(Let("x", ONE32), For("k", ZERO, FOUR, body, mark="vector"))

    x = Var("x", FLOAT32)
    verify(vector(Set("x", Binary("max", x, A, FLOAT32))))
    for body in (
        (Set("x", Binary("-", x, A, FLOAT32)),),
        (Set("x", Binary("+", x, x, FLOAT32)),),
        (Set("x", Binary("+", x, A, FLOAT32)), store(A)),
    ):
        assert "'x' is no local that may be set here" in refused(vector(*body))


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
        ((buffer("x", "constant"),), "unknown role 'constant'"),
        ((buffer("x", "scratch", strides=(1, 2)),), "only inputs are not row-major"),
        ((buffer("x", "scratch"), buffer("y", "temporary")), "they are out of calling order"),
        ((buffer("x", "input", dtype=FLOAT32.vector(4)),), "its elements are vectors"),
        ((buffer("x", "register", dtype=FLOAT16),), "registers hold no float16"),
        ((buffer("x", "input", strides=(1,)),), "the strides are not one per dimension"),
        ((buffer("x", "input", shape=(-1, 3)),), "an extent is negative"),
        ((buffer("x", "output", strides=(1, 2)),), "only inputs are not row-major"),
        ((buffer("x", "output"), buffer("y", "input")), "they are out of calling order"),
    ],
)
def test_buffers_refused(buffers: tuple[Buffer, ...], reason: str) -> None:
    assert reason in refused(Kernel("k", buffers, ()))


def test_scratch_and_registers_stand_in_any_order_and_are_no_arguments() -> None:
    names = {"x": "output", "y": "register", "z": "scratch", "w": "register"}
    made = Kernel("k", tuple(buffer(name, role) for name, role in names.items()), ())
    verify(made)
    assert [b.name for b in made.arguments] == ["x"]


def test_initial_are_outputs() -> None:
    bad = Kernel("k", BUFFERS, (), initial=frozenset(("o", "a")))
    assert refused(bad).endswith("in 'initial': ['a'] are no outputs")


def test_site_kind() -> None:
    assert "unknown kind 'jump'" in refused(Kernel("k", (), (), (Site("jump", 0, 0, ()),)))


@pytest.mark.parametrize("dtype", [BOOL, UINT8, INT32, FLOAT32])
def test_min_takes_every_type_and_sum_not_bool(dtype: DType) -> None:
    one = Cast(Const(1, INT64), dtype)
    verify(kernel(Let("x", Binary("min", one, one, dtype))))
    if dtype == BOOL:
        assert "arithmetic on bool" in refused(kernel(Let("x", Binary("+", one, one, dtype))))
