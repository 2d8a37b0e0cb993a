"""Random kernels of blocks and threads: `tame_grids` are correct by construction, most of
`wild_grids` break some promise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from tc.dtypes import FLOAT32, INT32, INT64, DType
from tc.kernel.folding import binary, compare, integer
from tc.kernel.ir import (
    ATOMICS,
    Atomic,
    Barrier,
    Buffer,
    Comment,
    Expr,
    Fail,
    If,
    Kernel,
    Let,
    Load,
    Set,
    Site,
    Stmt,
    Store,
    Var,
)
from tc.kernel.walk import launched
from tests.kernel.grids import B0, T0, grid
from tests.kernel.marked_strategies import INPUTS, Draw, Scope
from tests.support.build import add, dense, less, loop, times, var

SITES = (Site("division", 0, 0, ("x",)), Site("division", 0, 1, ("x",)))


# --- tame -------------------------------------------------------------------------------------


@dataclass
class Launch:
    """What the steps of one launch know: the number of a thread, and the sizes."""

    scope: Scope
    number: Expr
    threads: int
    blocks: int
    block: Expr
    suffix: str
    buffers: list[Buffer]

    def pick(self, options: Any) -> Any:
        return self.scope.pick(options)

    def local(self, value: Expr) -> Let:
        """A new local, which later steps may use."""
        let = Let(self.scope.fresh("x"), value)
        self.scope = self.scope.with_local(Var(let.var, value.dtype))
        return let

    def steps(self, depth: int) -> list[Stmt]:
        """Statements that leave no other thread's access since the last barrier."""
        kinds = ["compute", "change", "through memory", "atomics", "registers", "check"]
        step = self.pick([*kinds, "loop", "uniform"] if depth else kinds)
        before = self.scope
        match step:
            case "compute":
                return [self.local(self.scope.number(self.pick([INT64, INT32, FLOAT32]), 2))]
            case "change":
                return self.changes()
            case "through memory":
                return self.through_memory()
            case "atomics":
                return self.atomics()
            case "registers":
                return self.registers()
            case "check":
                fail = Fail(self.pick([0, 1]), (self.scope.number(INT64, 1),))
                return [If(self.scope.test(1), (fail,))]
            case "loop":
                i = var(self.scope.fresh("i"))
                self.scope = self.scope.having((i, 3))
                mark = self.pick(["", "unroll"])
                body = [*self.steps(depth - 1), *self.steps(depth - 1)]
                self.scope = replace(before, names=self.scope.names)
                return [loop(i.name, 3, *body, mark=mark)]
            case _:
                test = less(self.block, self.pick([0, 1, 2]))
                body = self.steps(depth - 1)
                self.scope = replace(before, names=self.scope.names)
                return [If(test, tuple(body))]

    def changes(self) -> list[Stmt]:
        """A local that some threads change, in loops of different lengths."""
        let = self.local(self.scope.number(INT64, 1))
        i, x = var(self.scope.fresh("i")), Var(let.var, INT64)
        more = Set(x.name, add(x, self.scope.having((i, 37)).number(INT64, 1)))
        turns = binary("%", self.scope.number(INT64, 1), integer(4))
        return [let, If(self.scope.test(2), (loop(i.name, turns, more),), (Set(x.name, turns),))]

    def through_memory(self) -> list[Stmt]:
        """Values that go from each thread to others, by shared memory or by global."""
        dtype = self.pick([INT64, INT32, FLOAT32])
        is_shared = self.pick([True, True, False])
        name = f"{'s' if is_shared else 'w'}_{dtype}{self.suffix}"
        row: tuple[Expr, ...] = () if is_shared else (self.block,)
        shape = (self.threads,) if is_shared else (self.blocks, self.threads)
        made = dense(name, dtype, shape, "shared" if is_shared else "temporary")
        if made not in self.buffers:
            self.buffers.append(made)
        steps: list[Stmt] = [
            Store(name, (*row, self.number), self.scope.number(dtype, 2)),
            Barrier(),
        ]
        for _ in range(self.pick([1, 2])):
            at = binary("%", self.scope.number(INT64, 1), integer(self.threads))
            steps.append(self.local(Load(name, (*row, at), dtype)))
        return [*steps, Barrier()]

    def atomics(self) -> list[Stmt]:
        """Elements that threads update, some of them several times, and others read."""
        dtype, op = self.pick([INT64, INT32]), self.pick(ATOMICS)
        is_shared = self.pick([True, False])
        name = f"{'s' if is_shared else 'w'}_{ATOMICS.index(op)}_{dtype}{self.suffix}"
        row: tuple[Expr, ...] = () if is_shared else (self.block,)
        shape = (self.threads,) if is_shared else (self.blocks, self.threads)
        made = dense(name, dtype, shape, "shared" if is_shared else "temporary")
        if made not in self.buffers:
            self.buffers.append(made)

        def anywhere() -> tuple[Expr, ...]:
            return (*row, binary("%", self.scope.number(INT64, 1), integer(self.threads)))

        more = [Atomic(name, anywhere(), op, self.scope.number(dtype, 2)) for _ in range(2)]
        return [
            Store(name, (*row, self.number), self.scope.number(dtype, 2)),
            Barrier(),
            more[0],
            If(self.scope.test(1), (more[1],)),
            Barrier(),
            self.local(Load(name, anywhere(), dtype)),
            Barrier(),
        ]

    def through_the_grid(self) -> list[Stmt]:
        """Values that go from each thread to those of other blocks, and places that these then
        write."""
        name, dtype = f"g{self.suffix}", INT64
        made = dense(name, dtype, (self.blocks, self.threads), "temporary")
        if made not in self.buffers:
            self.buffers.append(made)
        other = binary("%", add(self.block, integer(1)), integer(self.blocks))
        at = binary("%", self.scope.number(INT64, 1), integer(self.threads))
        row = self.pick([other, integer(0)])
        steps: list[Stmt] = [
            Store(name, (self.block, self.number), self.scope.number(dtype, 2)),
            Barrier("grid"),
            self.local(Load(name, (row, at), dtype)),
            Barrier("grid"),
        ]
        if self.pick([True, False]):
            last = Store(name, (other, self.number), self.scope.number(dtype, 2))
            steps += [last, Barrier("grid")]
        return steps

    def registers(self) -> list[Stmt]:
        """A few accumulators of each thread."""
        name = f"r{self.suffix}"
        made = dense(name, INT64, (2,), self.pick(["register", "register", "scratch"]))
        if all(known.name != name for known in self.buffers):
            self.buffers.append(made)
        i, k = var(self.scope.fresh("i")), var(self.scope.fresh("k"))
        start = self.scope.having((i, 2)).number(INT64, 1)
        term = self.scope.having((i, 2), (k, 3)).number(INT64, 1)
        more = Store(name, (i,), add(Load(name, (i,), INT64), term))
        return [
            loop(i.name, 2, Store(name, (i,), start), mark="unroll"),
            loop(k.name, 3, loop(i.name, 2, more, mark="unroll")),
            self.local(add(Load(name, (integer(0),), INT64), Load(name, (integer(1),), INT64))),
        ]


def make_launch(scope: Scope, number: int) -> tuple[tuple[Stmt, ...], list[Buffer]]:
    """A region of one launch, with the buffers of its own."""
    blocks = scope.pick([(), (1,), (3,), (2, 2)])
    threads = scope.pick([(), (4,), (2, 3), (1, 5)])
    ids: list[tuple[Expr, int]] = []
    made = grid(blocks, threads)
    flat: list[Expr] = []
    for indices in (made.blocks, made.threads):
        total: Expr = integer(0)
        for index in indices:
            ids.append((var(index.var), index.count))
            total = add(times(total, index.count), var(index.var))
        flat.append(total)
    block, thread = flat
    counts = launched(made.blocks), launched(made.threads)
    inner = scope.having(*ids)
    dtype: DType = scope.pick([INT64, INT32, FLOAT32])
    output = dense(f"o{number}", dtype, counts, "output")
    context = Launch(inner, thread, counts[1], counts[0], block, str(number), [output])
    body = []
    for _ in range(scope.pick([1, 2, 3, 4])):
        body += context.through_the_grid() if scope.pick([0, 0, 1]) else context.steps(2)
    # locals of different types go into one number
    last: Expr = context.scope.number(dtype, 2)
    for each in context.scope.locals:
        last = add(last, context.scope.converted(each, dtype))
    body.append(Store(output.name, (block, thread), last))
    return (Comment("a launch"), replace(made, body=tuple(body))), context.buffers


@st.composite
def tame_grids(draw: Draw) -> Kernel:
    """Kernels that keep all promises."""
    scope = Scope(draw)
    made = [make_launch(scope, number) for number in range(draw(st.integers(1, 2)))]
    roles = ("output", "temporary", "shared", "scratch", "register")
    own = sorted((b for _, buffers in made for b in buffers), key=lambda b: roles.index(b.role))
    return Kernel("k", (*INPUTS, *own), tuple(region for region, _ in made), SITES)


# --- wild -------------------------------------------------------------------------------------

WILD = (
    dense("g", INT64, (3,), "output"),
    dense("w", INT64, (2, 3), "output"),
    dense("t", INT64, (2, 3), "temporary"),
    dense("s", INT64, (3,), "shared"),
    dense("p", INT64, (2,), "scratch"),
)
_RANKS = {buffer.name: len(buffer.shape) for buffer in WILD}
_NAMES = [*"ssswwwttpg"]  # the frequent ones are less often at fault
X = var("x")
_NEXT = binary("%", add(T0, integer(1)), integer(3))


@dataclass
class Wild:
    """Statements for two blocks of three threads."""

    draw: Draw
    loops: int = 0

    def pick(self, options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def place(self, name: str) -> tuple[Expr, ...]:
        if name == "p":
            return (binary("%", T0, integer(2)),)
        others = [B0, integer(0), integer(2), _NEXT, binary("%", X, integer(3)), add(T0, B0)]
        row = () if _RANKS[name] == 1 else (self.pick([*[B0] * 6, integer(0)]),)
        return (*row, self.pick([*[T0] * 10, *others]))

    def test(self) -> Expr:
        op, left = self.pick(["==", "<"]), self.pick([T0, B0, B0, X])
        return compare(op, left, self.pick([integer(1), integer(2), B0]), {})

    def stmt(self, depth: int) -> tuple[Stmt, ...]:
        kinds = ["store", "store", "load", "load", "update", "barrier", "turn", "turn"]
        match self.pick(kinds + (["if", "loop"] if depth else [])):
            case "store":
                name = self.pick(_NAMES)
                return (Store(name, self.place(name), self.pick([T0, X, integer(5)])),)
            case "load":
                name = self.pick(_NAMES)
                return (Set("x", add(X, Load(name, self.place(name), INT64))),)
            case "update":
                name = self.pick([n for n in _NAMES if n != "p"])
                return (Atomic(name, self.place(name), "+", self.pick([T0, X, integer(5)])),)
            case "turn":
                name, row = self.pick([("s", ()), ("w", (B0,)), ("t", (B0,))])
                there = Load(name, (*row, _NEXT), INT64)
                return Store(name, (*row, T0), X), Barrier(), Set("x", there), Barrier()
            case "if":
                otherwise = self.block(depth - 1) if self.pick([True, False]) else ()
                return (If(self.test(), self.block(depth - 1), otherwise),)
            case "loop":
                self.loops += 1
                end = self.pick([integer(2), integer(2), B0, add(B0, integer(1)), T0])
                return (loop(f"i{self.loops}", end, *self.block(depth - 1)),)
            case _:
                return (Barrier(),)

    def block(self, depth: int) -> tuple[Stmt, ...]:
        return tuple(s for _ in range(self.draw(st.integers(1, 3))) for s in self.stmt(depth))

    def to_others(self) -> tuple[Stmt, ...]:
        """What another block reads, or writes, most often behind a barrier of the grid."""
        name = self.pick(["w", "t"])
        other = binary("-", integer(1), B0)
        barrier = Barrier(self.pick(["grid", "grid", "grid", "block"]))
        there = Load(name, (other, _NEXT), INT64)
        again = self.pick([(), (barrier, Store(name, (other, T0), X))])
        end = self.pick([(), (Barrier("grid"),)])
        return Store(name, (B0, T0), X), barrier, Set("x", add(X, there)), *again, *end


@st.composite
def wild_grids(draw: Draw) -> Kernel:
    """Kernels whose accesses and barriers are drawn at random."""
    wild = Wild(draw)
    fill: tuple[Stmt, ...] = (
        Store("s", (T0,), T0),
        Store("t", (B0, T0), T0),
        Store("p", (integer(0),), T0),
        Store("p", (integer(1),), T0),
        Barrier(),
    )
    regions = []
    for _ in range(draw(st.integers(1, 2))):
        start = fill if wild.pick([True, True, True, False]) else ()
        more = wild.to_others() if wild.pick([True, False]) else ()
        body = Let("x", add(T0, B0)), *start, *wild.block(2), *more, *wild.block(2)
        regions.append((grid((2,), (3,), *body),))
    return Kernel("k", WILD, tuple(regions), initial=frozenset(("g", "w")))
