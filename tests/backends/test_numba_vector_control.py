"""Loops, branches, checks, private memory and threads in regions with vectors on numba."""

from __future__ import annotations

import random
import threading

import numba
import numpy as np
import pytest

from tc.arrays import empty
from tc.backends.numba_cpu import NumbaBackend
from tc.backends.numba_objects import _target
from tc.backends.numba_printer import print_kernel
from tc.backends.numba_vector_printer import is_vector_region
from tc.backends.numba_vectors import VectorRegion
from tc.backends.object_files import parse_module
from tc.device import vector_bits
from tc.dtypes import BOOL, FLOAT32, FLOAT64, INT8, INT32, INT64, UINT16, DType
from tc.kernel.contract import contract
from tc.kernel.ir import (
    Binary,
    Bits,
    Broadcast,
    Call,
    Cast,
    Comment,
    Compare,
    Const,
    Expr,
    Fail,
    Failure,
    For,
    If,
    Kernel,
    Let,
    Load,
    Logical,
    Reduce,
    Select,
    Set,
    Site,
    Stmt,
    Store,
    Unary,
    Var,
)
from tests.support.kernels import Array, I, dense, integer, loop
from tests.support.vectors import check, compile_kernel, plus, ramp, run, times

F16, L16 = FLOAT32.vector(16), INT64.vector(16)
J, K = Var("j", INT64), Var("k", INT64)
SCRATCH = dense("s", INT64, (4,), "scratch")
ZERO = Const(0.0, F16)


def less(left: Expr, right: Expr | int) -> Expr:
    return Compare("<", left, integer(right) if isinstance(right, int) else right)


def number(name: str, place: Expr) -> Expr:
    return Load(name, (place,), INT64)


def kernel_of(*stmts: Stmt, out: int = 64, sites: tuple[Site, ...] = ()) -> Kernel:
    """Statements on an input n(8) and an output o, all int64, and scratch s(4)."""
    buffers = (dense("n", INT64, (8,), "input"), dense("o", INT64, (out,), "output"), SCRATCH)
    mark = Store("s", (integer(0),), integer(1))  # makes any region one of this kind
    return Kernel("k", buffers, ((mark, *stmts),), sites, frozenset({"o"}))


N = {"n": np.array([0, 1, 2, 3, 5, -4, 8, 1 << 40])}


def add(place: Expr, value: Expr | int) -> Store:
    old = number("o", place)
    return Store("o", (place,), plus(old, value))


# --- loops and branches -----------------------------------------------------------------------


@pytest.mark.parametrize("begin", [0, 1, 2, 4])
@pytest.mark.parametrize("end", [0, 1, 2, 3, 5])
def test_loops_of_any_length(begin: int, end: int) -> None:
    """With bounds known before or only when the kernel runs; also none, and one iteration."""
    at = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 4}
    body = (add(times(I, 4), plus(I, 1)), add(integer(63), 1))
    kernels = (
        kernel_of(For("i", integer(begin), integer(end), body)),
        kernel_of(For("i", integer(begin), number("n", integer(at[end])), body)),
        kernel_of(For("i", number("n", integer(at[begin])), integer(end), body)),
    )
    for kernel in kernels:
        check(kernel, N)


def test_nested_loops_with_bounds_of_outer_ones() -> None:
    inner = For("k", plus(I, J), plus(times(J, 3), 1), (add(K, plus(times(I, 10), J)),))
    check(kernel_of(loop("i", 4, For("j", I, integer(4), (inner,)))), N)


def test_branches() -> None:
    def at(n: int) -> Expr:
        return number("n", integer(n))

    odd = Compare("==", Binary("%", I, integer(2), INT64), integer(1))
    inner = If(less(I, at(3)), (add(integer(2), 1),), (add(integer(3), I),))
    branches = (
        If(odd, (inner, add(integer(0), I)), (add(integer(1), 1), inner)),
        If(odd, (), (add(integer(4), 1),)),
        If(odd, (If(less(I, 4), (add(integer(5), 1),)),), (If(odd, (), (add(integer(6), 1),)),)),
        If(less(at(1), at(2)), (Comment("empty"),)),
    )
    check(kernel_of(loop("i", 7, *branches)), N)


@pytest.mark.parametrize("kind", ["loops", "branches", "both"])
def test_blocks_nested_deeper_than_python_takes(kind: str) -> None:
    stmt: Stmt = add(integer(0), 1)
    for level in range(36):
        name = f"v{level}"
        if kind == "loops" or (kind == "both" and level % 2):
            begin = integer(level % 3)
            stmt = For(name, begin, plus(begin, 1), (stmt, add(integer(1), Var(name, INT64))))
        else:
            stmt = If(less(number("n", integer(0)), 1), (stmt,), (add(integer(2), 1),))
    check(kernel_of(stmt), N)


def test_only_what_is_needed_is_read() -> None:
    """Rule Y6: reads far outside of memory stand behind each kind of guard."""
    wild = number("n", Load("n", (integer(7),), INT64))
    inside = Compare("<", I, number("n", integer(6)))  # true, which only the memory knows
    big = less(wild, 0)
    kernel = kernel_of(
        loop(
            "i",
            4,
            Store("o", (I,), Select(inside, I, wild, INT64)),
            Store("o", (plus(I, 8),), Select(Logical("!", (inside,)), wild, I, INT64)),
            Let("p", Logical("&&", (Logical("!", (inside,)), big))),
            Let("q", Logical("||", (inside, Logical("&&", (big, big))))),
            If(Logical("&&", (Var("q", BOOL), Var("p", BOOL))), (add(integer(40), wild),)),
            If(Var("q", BOOL), (add(integer(41), 1),)),
        )
    )
    check(kernel, N)


# --- locals -----------------------------------------------------------------------------------


def test_locals_that_change() -> None:
    """Through loops, branches and shadowed names; of vectors and of scalars."""
    total, count = Var("t", L16), Var("c", INT64)
    lanes = ramp(times(I, 16), 16)
    body = (
        Let("t", Const(0, L16)),
        Let("c", integer(0)),
        Let("before", count),
        For(
            "j",
            integer(0),
            number("n", I),
            (
                Set("t", Binary("+", total, Binary("*", ramp(J, 16, 3), Const(2, L16), L16), L16)),
                If(less(J, 2), (Set("c", plus(count, J)),), (Set("c", integer(7)),)),
            ),
        ),
        Let("v", plus(count, 1)),
        Set("c", plus(count, 100)),
        Store("o", (lanes,), Binary("+", total, Broadcast(Var("v", INT64), L16), L16)),
        add(times(I, 16), plus(Var("before", INT64), count)),
    )
    check(kernel_of(loop("i", 4, *body)), N)


def test_a_local_does_not_stand_for_what_changes_later() -> None:
    """The ramp in l keeps the base that it was made with."""
    stmts = (
        Let("b", integer(2)),
        Let("l", ramp(Var("b", INT64), 16)),
        Set("b", integer(30)),
        Store("o", (Var("l", L16),), ramp(Var("b", INT64), 16)),
        Let("m", number("n", integer(3))),
        Let("w", ramp(Var("m", INT64), 16)),
        Store("o", (plus_lanes(Var("w", L16), 20),), Var("w", L16)),
        Let("moved", ramp(integer(0), 16)),
        Set("moved", ramp(integer(40), 16)),
        Store("o", (Var("moved", L16),), Var("moved", L16)),
    )
    check(kernel_of(*stmts), N)


def plus_lanes(lanes: Expr, offset: int) -> Expr:
    return Binary("+", lanes, Const(offset, L16), L16)


# --- checks -----------------------------------------------------------------------------------


def test_the_first_failure_is_recorded() -> None:
    sites = (Site("division", 0, 0, ("i",)), Site("read", 0, 1, ("i", "j")))
    fails = (
        If(less(integer(2), I), (Fail(1, (I, J, plus(J, 5))), add(integer(0), 1))),
        If(Compare("==", plus(I, J), integer(3)), (Fail(0, (times(I, 3),)),)),
    )
    kernel = kernel_of(loop("i", 5, loop("j", 2, *fails)), sites=sites)
    found = check(kernel, N)  # compares the failures too
    assert found["o"][0] == 5
    compiled = compile_kernel(kernel)
    arrays = {"n": N["n"], "o": np.zeros(64, np.int64)}
    assert run(compiled, arrays) == run(compiled, arrays) == Failure(0, (6,))


# --- private memory and threads ---------------------------------------------------------------


def transposing(rows: int, width: int = 64) -> Kernel:
    """Each iteration copies a row to scratch backward, and from there to the output."""
    row = loop("j", width, Store("s", (plus(times(J, -1), width - 1),), Load("a", (I, J), FLOAT32)))
    vectors = loop(
        "k",
        width // 16,
        Store("o", (I, ramp(times(K, 16), 16)), Load("s", (ramp(times(K, 16), 16),), F16)),
    )
    buffers = (
        dense("a", FLOAT32, (rows, width), "input"),
        dense("o", FLOAT32, (rows, width), "output"),
        dense("first", UINT16, (3,), "scratch"),
        dense("s", FLOAT32, (width,), "scratch"),
    )
    mark = Store("first", (integer(0),), Const(1, UINT16))
    body = (loop("i", rows, mark, row, vectors, parallel=True),)
    return Kernel("k", buffers, (body,))


@pytest.mark.parametrize("threads", [1, 2, None])
def test_each_part_has_its_own_scratch(threads: int | None) -> None:
    a = np.random.default_rng(1).standard_normal((12000, 64)).astype(np.float32)
    compiled = compile_kernel(transposing(12000))
    assert compiled.regions[0].parallel
    for _ in range(5):
        out = np.zeros_like(a)
        run(compiled, {"a": a, "o": out}, threads)
        np.testing.assert_array_equal(out, a[:, ::-1])


def test_small_scratch_against_the_definition() -> None:
    a = np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32)
    check(transposing(3), {"a": a})


def test_scratch_buffers_lie_apart() -> None:
    row = (ramp(integer(0), 16),)
    names = [f"s{n}" for n in range(3)]
    fill = [Store(name, row, Const(float(n), F16)) for n, name in enumerate(names)]
    copy = [Store(f"o{n}", row, Load(name, row, F16)) for n, name in enumerate(names)]
    scratch = (dense(name, FLOAT32, (17,), "scratch") for name in names)
    outputs = (dense(f"o{n}", FLOAT32, (16,), "output") for n in range(3))
    check(Kernel("k", (*outputs, *scratch), ((*fill, *copy),)), {})


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 20])
def test_parts_together_are_the_loop(parts: int) -> None:
    """Each iteration once, whatever the number of parts."""
    compiled = compile_kernel(transposing(9))
    a = np.random.default_rng(1).standard_normal((9, 64)).astype(np.float32)
    out = np.zeros_like(a)
    memory = empty((parts * 4096,), np.dtype(np.uint8), 64)
    words = np.array([a.ctypes.data, out.ctypes.data, memory.ctypes.data])
    for part in range(parts):
        memory[:] = 0
        compiled.regions[0].function(words.ctypes.data, 0, part, parts)
        shares = memory.reshape(parts, 4096).any(axis=1)
        assert set(np.flatnonzero(shares)) <= {part}  # no other part's memory is touched
    np.testing.assert_array_equal(out, a[:, ::-1])


def test_concurrent_calls_have_their_own_scratch() -> None:
    compiled = compile_kernel(transposing(400))
    wrong: list[int] = []

    def work(seed: int) -> None:
        a = np.random.default_rng(seed).standard_normal((400, 64)).astype(np.float32)
        for _ in range(20):
            out = np.zeros_like(a)
            run(compiled, {"a": a, "o": out}, 1)
            if not np.array_equal(out, a[:, ::-1]):
                wrong.append(seed)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
    assert 1 <= len(compiled.blocks) <= 4


def test_scratch_is_aligned_and_kept() -> None:
    compiled = compile_kernel(transposing(3))
    a = np.zeros((3, 64), np.float32)
    run(compiled, {"a": a, "o": np.zeros_like(a)})
    (block,) = compiled.blocks
    assert block.scratch.ctypes.data % 64 == 0
    assert block.scratch.nbytes == int(numba.config.NUMBA_NUM_THREADS) * 4096
    run(compiled, {"a": a, "o": np.zeros_like(a)})
    assert compiled.blocks == [block]


def test_registers_that_are_left_are_memory() -> None:
    buffers = (
        dense("o", FLOAT32, (32,), "output"),
        dense("r", FLOAT32, (2, 16), "register"),
    )
    row = ramp(integer(0), 16)
    fill = loop("i", 2, Store("r", (I, row), Cast(ramp(I, 16), F16)))
    backward = Load("r", (plus(times(I, -1), 1), row), F16)
    copy = loop("i", 2, Store("o", (ramp(times(I, 16), 16),), backward))
    check(Kernel("k", buffers, ((fill, copy),)), {})


def test_regions_of_both_kinds_in_one_kernel() -> None:
    one = loop("i", 32, Store("t", (I,), Cast(I, FLOAT32)), parallel=True)
    two = loop(
        "j",
        2,
        Store("o", (ramp(times(J, 16), 16),), Load("t", (ramp(times(J, 16), 16),), F16)),
        parallel=True,
    )
    buffers = (dense("o", FLOAT32, (32,), "output"), dense("t", FLOAT32, (32,), "temporary"))
    kernel = Kernel("k", buffers, ((one,), (two,)))
    assert [is_vector_region(region, kernel) for region in kernel.regions] == [False, True]
    text = print_kernel(kernel)
    assert "@region" in text
    assert "@vector_region" in text
    check(kernel, {})


def test_extents_of_zero() -> None:
    buffers = (dense("a", FLOAT32, (0, 16), "input"), dense("o", FLOAT32, (0, 16), "output"))
    place = (I, ramp(integer(0), 16))
    body = loop("i", 0, Store("o", place, Load("a", place, F16)), parallel=True)
    check(Kernel("k", buffers, ((body,),)), {})


# --- machine code -----------------------------------------------------------------------------


def tile(rows: int, columns: int, depth: int) -> Kernel:
    """C(rows, 16 * columns) += A B with an accumulator for each row and vector."""
    lets: list[Stmt] = []
    body: list[Stmt] = [
        Let(f"b{j}", Load("B", (K, ramp(integer(16 * j), 16)), F16)) for j in range(columns)
    ]
    stores: list[Stmt] = []
    for i in range(rows):
        body.append(Let(f"a{i}", Broadcast(Load("A", (integer(i), K), FLOAT32), F16)))
        for j in range(columns):
            sum_ = Var(f"c{i}_{j}", F16)
            product = Binary("*", Var(f"a{i}", F16), Var(f"b{j}", F16), F16)
            lets.append(Let(sum_.name, ZERO))
            body.append(Set(sum_.name, Binary("+", sum_, product, F16)))
            stores.append(Store("C", (integer(i), ramp(integer(16 * j), 16)), sum_))
    buffers = (
        dense("A", FLOAT32, (rows, depth), "input"),
        dense("B", FLOAT32, (depth, 16 * columns), "input"),
        dense("C", FLOAT32, (rows, 16 * columns), "output"),
    )
    return Kernel("k", buffers, ((*lets, loop("k", depth, *body), *stores),))


@pytest.mark.parametrize(("rows", "columns"), [(8, 2), (8, 3), (12, 2)])
def test_accumulators_stay_in_registers(rows: int, columns: int) -> None:
    kernel = contract(tile(rows, columns, 64))
    rng = np.random.default_rng(1)
    a = rng.integers(-9, 9, (rows, 64)).astype(np.float32)
    b = rng.integers(-9, 9, (64, 16 * columns)).astype(np.float32)
    arrays = {"A": a, "B": b, "C": np.zeros((rows, 16 * columns), np.float32)}
    run(compile_kernel(kernel), arrays)
    np.testing.assert_array_equal(arrays["C"], a @ b)
    if vector_bits() < 512:
        pytest.skip("needs 32 registers of 512 bits")
    lines = assembly(kernel)
    fused = [line for line in lines if line.startswith("vfmadd")]
    assert len(fused) >= rows * columns
    assert all("zmm" in line for line in fused)
    assert not [line for line in lines if "rsp" in line and "zmm" in line]


def assembly(kernel: Kernel) -> list[str]:
    """The instructions of the only region of a kernel."""
    import llvmlite.binding as llvm

    module: dict[str, object] = {"__name__": "assembly"}
    exec(NumbaBackend().emit(kernel).source, module)
    (region,) = module["REGIONS"]  # type: ignore[misc]
    assert isinstance(region, VectorRegion)
    parsed = parse_module(region.traced("region").module())
    target = _target()
    machine = llvm.Target.from_triple(parsed.triple).create_target_machine(
        cpu=target.processor, features=target.features, opt=3
    )
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(3))
    passes.getModulePassManager().run(parsed, passes)
    return [line.strip() for line in machine.emit_assembly(parsed).splitlines()]


def test_extrema_take_few_instructions() -> None:
    """One where an operand is known to be no NaN, and three elsewhere."""
    if vector_bits() < 512:
        pytest.skip("counts instructions of AVX-512")

    def count(right: Expr) -> int:
        loaded = Load("a", (ramp(integer(0), 16),), F16)
        store = Store("o", (ramp(integer(0), 16),), Binary("max", loaded, right, F16))
        buffers = (
            dense("a", FLOAT32, (16,), "input"),
            dense("b", FLOAT32, (16,), "input"),
            dense("o", FLOAT32, (16,), "output"),
        )
        lines = assembly(Kernel("k", buffers, ((store,),)))
        return len([x for x in lines if x.startswith(("vmax", "vcmp", "vblend", "vmova"))])

    assert count(Const(0.0, F16)) == 1
    assert count(Load("b", (ramp(integer(0), 16),), F16)) <= 3


# --- any program ------------------------------------------------------------------------------


class Programs:
    """Random programs over vectors and scalars of a few types."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        self.count = 0
        self.dtypes = (FLOAT32, INT32, INT64, INT8, FLOAT64, BOOL)

    def kernel(self) -> Kernel:
        inputs = [dense(f"a{n}", d, (32,), "input") for n, d in enumerate(self.dtypes)]
        outputs = [dense(f"o{n}", d, (96,), "output") for n, d in enumerate(self.dtypes)]
        names = tuple(b.name for b in outputs)
        body = self.block({}, 3)
        return Kernel(
            "k", (*inputs, *outputs, SCRATCH), ((loop("i", 3, *body),),), (), frozenset(names)
        )

    def inputs(self) -> dict[str, Array]:
        rng = np.random.default_rng(self.pick.randrange(1 << 30))
        found: dict[str, Array] = {}
        for n, dtype in enumerate(self.dtypes):
            values = rng.integers(-5, 6, 32)
            found[f"a{n}"] = (values > 0 if dtype == BOOL else values).astype(dtype.numpy)
        return found

    def block(self, scope: dict[str, DType], depth: int) -> tuple[Stmt, ...]:
        scope = dict(scope)
        return tuple(self.stmt(scope, depth) for _ in range(self.pick.randrange(2, 5)))

    def stmt(self, scope: dict[str, DType], depth: int) -> Stmt:
        kind = self.pick.choice(["let", "let", "set", "store", "store", "if", "for"])
        if kind == "let" or (kind == "set" and not scope):
            value = self.expr(self.dtype(), scope, 3)
            self.count += 1
            scope[f"x{self.count}"] = value.dtype
            return Let(f"x{self.count}", value)
        if kind == "set":
            name = self.pick.choice(sorted(scope))
            return Set(name, self.expr(scope[name], scope, 3))
        if kind == "store" or depth == 0:
            dtype = self.dtype()
            place = times(I, 32)
            place = plus(place, self.pick.randrange(16)) if dtype.lanes > 1 else place
            value = self.expr(dtype, scope, 3)
            name = f"o{self.dtypes.index(dtype.scalar)}"
            mask = self.expr(BOOL.vector(dtype.lanes), scope, 2) if dtype.lanes > 1 else None
            step = self.pick.choice([1, 1, 2, -1]) if dtype.lanes < 16 else 1
            place = plus(place, 15) if step < 0 else place
            return Store(name, (ramp(place, dtype.lanes, step),), value, mask)
        if kind == "if":
            condition = self.expr(BOOL, scope, 2)
            return If(condition, self.block(scope, depth - 1), self.block(scope, depth - 1))
        self.count += 1
        return For(
            f"l{self.count}",
            integer(0),
            integer(self.pick.randrange(4)),
            self.block(scope, depth - 1),
        )

    def dtype(self) -> DType:
        return self.pick.choice(self.dtypes).vector(self.pick.choice([1, 4, 16]))

    def expr(self, dtype: DType, scope: dict[str, DType], depth: int) -> Expr:
        found = [name for name, own in scope.items() if own == dtype]
        if found and self.pick.random() < 0.4:
            return Var(self.pick.choice(sorted(found)), dtype)
        if depth == 0 or self.pick.random() < 0.1:
            return self.leaf(dtype, scope)
        scalar, lanes = dtype.scalar, dtype.lanes

        def part(other: DType = dtype) -> Expr:
            return self.expr(other, scope, depth - 1)

        mask = BOOL.vector(lanes)
        choices = ["select", "cast", "extremum"]
        choices += (
            ["logical", "compare"] if scalar == BOOL else ["arithmetic", "arithmetic", "minus"]
        )
        choices += ["broadcast"] if lanes > 1 else ["reduce"]
        choices += ["bits"] if scalar in (INT32, FLOAT32) else []
        match self.pick.choice(choices):
            case "select":
                return Select(
                    part(mask if self.pick.random() < 0.5 else BOOL), part(), part(), dtype
                )
            case "cast":
                other = self.pick.choice([d for d in self.dtypes if not d.is_float])
                return part() if other == scalar else Cast(part(other.vector(lanes)), dtype)
            case "extremum":
                return Binary(self.pick.choice(["min", "max"]), part(), part(), dtype)
            case "logical":
                return Logical(self.pick.choice(["&&", "||"]), (part(), part()), dtype)
            case "compare":
                side = self.pick.choice(self.dtypes).vector(lanes)
                op = self.pick.choice(["==", "!=", "<", "<=", ">", ">="])
                return Compare(op, part(side), part(side), dtype)
            case "arithmetic":
                ops = ["+", "-", "*"] if scalar.is_float else ["+", "-", "*", "&", "|", "^"]
                op = self.pick.choice(ops)
                if not scalar.is_float and self.pick.random() < 0.3:
                    positive = Const(self.pick.randrange(1, 9), dtype)
                    return Binary(self.pick.choice(["/", "%"]), part(), positive, dtype)
                return Binary(op, part(), part(), dtype)
            case "minus":
                return Unary("-", part(), dtype)
            case "broadcast":
                return Broadcast(part(scalar), dtype)
            case "reduce":
                return Reduce(self.pick.choice(["min", "max"]), part(scalar.vector(4)), dtype)
            case _:
                other = (FLOAT32 if scalar == INT32 else INT32).vector(lanes)
                if scalar == INT32:
                    return Bits(Call("fabs", (part(other),), other), dtype)
                return Cast(Bits(Call("fabs", (part(dtype),), dtype), other), dtype)

    def leaf(self, dtype: DType, scope: dict[str, DType]) -> Expr:
        n, lanes = self.dtypes.index(dtype.scalar), dtype.lanes
        if self.pick.random() < 0.3:
            value = self.pick.randrange(-3, 4)
            if dtype.scalar == BOOL:
                return Const(value > 0, dtype)
            return Const(float(value) if dtype.is_float else value, dtype)
        if lanes == 1:
            return Load(f"a{n}", (plus(I, self.pick.randrange(16)),), dtype)
        step = self.pick.choice([1, 1, 2, 3, -1]) if lanes == 4 else self.pick.choice([1, 1, -1])
        base = plus(I, self.pick.randrange(10) + (15 if step < 0 else 0))
        mask = self.expr(BOOL.vector(lanes), scope, 1) if self.pick.random() < 0.3 else None
        return Load(f"a{n}", (ramp(base, lanes, step),), dtype, mask)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    programs = Programs(seed)
    check(programs.kernel(), programs.inputs())


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 3000, 200))
def test_more_random_programs(first: int) -> None:
    for seed in range(first, first + 200):
        programs = Programs(seed)
        check(programs.kernel(), programs.inputs())
