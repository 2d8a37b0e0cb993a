"""What each instruction of a function does, as a function of a block and some of its threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.support.ptx import warps
from tests.support.ptx.arithmetic import BINARY, meaning
from tests.support.ptx.memory import WINDOWS, Array, check_alignment
from tests.support.ptx.operands import Reads, reader, writer
from tests.support.ptx.parse import TYPES, Function, Instruction, Operand, Unreadable

if TYPE_CHECKING:
    from tests.support.ptx.machine import Block, Threads

_HINTS = frozenset(
    "nc volatile relaxed acquire release weak gpu cta sys ca cg cs cv lu wb wt".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """`kind` is "plain", "end", "barrier", or "warp" for what the lanes of a warp that `members`
    names, as bits, do together; `guard` chooses the threads that take part, which go on at `next`.
    """

    instruction: Instruction
    kind: str
    run: Callable[[Block, Threads], None]
    guard: Reads | None
    next: int
    members: Reads | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """An instruction: `act`, called with a block, threads and what the sources hold, each of a
    type, gives what the targets get, if there are any. The lanes that `members` names do it
    together."""

    act: Callable[..., Any]
    sources: Sequence[tuple[Operand, str]] = ()
    targets: Sequence[Operand] = ()
    members: Operand = ""


def operations(function: Function) -> list[Operation]:
    return [_operation(i, function, pc + 1) for pc, i in enumerate(function.code)]


def _operation(i: Instruction, function: Function, following: int) -> Operation:
    guard = reader(i.guard, "pred", function) if i.guard else None
    try:
        if i.name == "bra":
            return Operation(i, "plain", _nothing, guard, function.labels[str(i.operands[0])])
        if i.name in ("ret", "exit"):
            return Operation(i, "end", _nothing, guard, following)
        if i.name in ("bar", "barrier") and i.modifiers[0] == "sync" and i.operands == ("0",):
            return Operation(i, "barrier", _nothing, guard, following)
        form = FORMS.get(i.name, _computed)(i)
        reads = [reader(operand, t, function) for operand, t in form.sources]
        writes = [writer(operand, function) for operand in form.targets]
        members = reader(form.members, "u32", function) if form.members else None
    except (KeyError, IndexError, ValueError) as error:
        raise Unreadable(i.text) from error

    def run(block: Block, threads: Threads) -> None:
        found = form.act(block, threads, *[read(block, threads) for read in reads])
        if writes:
            for write, values in zip(writes, found, strict=False):
                write(block, threads, values)

    return Operation(i, "warp" if members else "plain", run, guard, following, members)


def _nothing(*_: Any) -> None:
    """Only where the threads go on is of interest."""


def _names(operand: Operand) -> tuple[str, ...]:
    return (operand,) if isinstance(operand, str) else operand


def _spread(values: Array, threads: Threads) -> Array:
    """One element for each thread."""
    return np.broadcast_to(values, threads.numbers.shape)


def _computed(i: Instruction) -> Form:
    compute, result, types = meaning(i)
    dtype = TYPES[result]

    def act(_block: Block, _threads: Threads, *values: Array) -> Sequence[Array]:
        return (np.asarray(compute(*values), dtype),)

    return Form(act, list(zip(i.operands[1:], types, strict=True)), i.operands[:1])


def _move(i: Instruction) -> Form:
    """Also of a register to its parts, and back: the lowest comes first."""
    targets, sources = (_names(operand) for operand in i.operands)
    if len(targets) == len(sources):
        return Form(lambda _b, _t, x: (np.asarray(x),), [(sources[0], i.type)], targets)
    of_target, of_source = (f"b{8 * TYPES[i.type].itemsize // len(n)}" for n in (targets, sources))

    def act(_block: Block, threads: Threads, *parts: Array) -> Iterable[Array]:
        rows = np.stack([_spread(part, threads) for part in parts], axis=1)
        return rows.view(TYPES[of_target]).T

    return Form(act, [(source, of_source) for source in sources], targets)


def _to_other_window(i: Instruction) -> Form:
    """Between addresses of a memory and generic ones."""
    window = next(WINDOWS[m] for m in i.modifiers if m in WINDOWS)
    shift = np.uint64(-window % 2**64 if "to" in i.modifiers else window)
    return Form(
        lambda _b, _t, x: (np.asarray(x + shift),), [(i.operands[1], "u64")], i.operands[:1]
    )


def _space(i: Instruction) -> str:
    return next((m for m in i.modifiers if m in WINDOWS), "")


def _access(i: Instruction) -> Form:
    space, dtype = _space(i), TYPES[i.type]
    at, registers = i.operands if i.name == "st" else i.operands[::-1]
    names = _names(registers)
    count = len(names)
    if {*i.modifiers} - {space, i.type} - _HINTS != ({f"v{count}"} if count > 1 else set()):
        raise Unreadable(i.text)

    def load(block: Block, threads: Threads, at: Array) -> Iterable[Array]:
        return block.load(i, space, at, dtype, count, threads).T

    def store(block: Block, threads: Threads, at: Array, *values: Array) -> None:
        rows = np.stack([_spread(v, threads) for v in values], axis=1)
        block.store(i, space, at, rows, threads)

    if i.name == "st":
        return Form(store, [(at, "u64"), *((name, i.type) for name in names)])
    return Form(load, [(at, "u64")], names)


def _atomic(i: Instruction) -> Form:
    """One thread after the other, in the order of their numbers."""
    space, dtype, kind = _space(i), TYPES[i.type], i.modifiers[-2]
    operands = i.operands if i.name == "atom" else ("_", *i.operands)
    if kind not in ("cas", "exch", *BINARY):
        raise Unreadable(i.text)

    def act(block: Block, threads: Threads, at: Array, *given: Array) -> Sequence[Array]:
        given = tuple(_spread(values, threads) for values in given)
        before = np.empty(at.shape, dtype)
        for t in range(len(at)):
            one, (x, *more) = threads.only(t), [values[t] for values in given]
            old = before[t] = block.load(i, space, at[t : t + 1], dtype, 1, one)[0, 0]
            if kind == "cas":
                new = more[0] if old == x else old
            else:
                new = x if kind == "exch" else BINARY[kind](old, x)
            block.store(i, space, at[t : t + 1], np.full((1, 1), new, dtype), one)
        return (before,)

    sources = [(operands[1], "u64"), *((operand, i.type) for operand in operands[2:])]
    return Form(act, sources, operands[:1])


def _async(i: Instruction) -> Form:
    kind = i.modifiers[1]
    if kind == "commit_group":
        return Form(lambda block, threads: block.memory.copies.commit(threads.numbers))
    if kind in ("wait_group", "wait_all"):
        left = int(str(i.operands[0])) if kind == "wait_group" else -1
        return Form(lambda block, threads: block.memory.copies.wait(threads.numbers, left))
    size = int(str(i.operands[2]))

    def act(block: Block, threads: Threads, to: Array, of: Array, taken: Array) -> None:
        for addresses in (to, of):
            check_alignment(addresses, size, threads.numbers)
        content = np.zeros((len(of), size), np.uint8)
        read = np.arange(size) < _spread(taken, threads)[:, None]
        readers, _ = threads.split(read.any(axis=1))
        if readers is not None:
            block.accessed(i, "global", of[read.any(axis=1)], size, readers)
            by = np.broadcast_to(threads.numbers[:, None], read.shape)[read]
            at = (of[:, None] + np.arange(size))[read]
            content[read] = block.memory.load(at, np.dtype(np.uint8), 1, by)[:, 0]
        block.accessed(i, "shared", to, size, threads)
        block.memory.copies.copy(to + WINDOWS["shared"], content, threads.numbers)

    taken = i.operands[3] if len(i.operands) > 3 else str(size)
    return Form(act, [(i.operands[0], "u64"), (i.operands[1], "u64"), (taken, "u32")])


def _shuffle(i: Instruction) -> Form:
    if i.modifiers[0] != "sync" or i.type != "b32":
        raise Unreadable(i.text)
    target, *sources, members = i.operands

    def act(_block: Block, threads: Threads, *values: Array) -> Iterable[Array]:
        given = (_spread(v, threads) for v in values)
        return warps.shuffled(i.modifiers[1], *given, threads.numbers)

    targets = [name.strip() for name in str(target).split("|")]
    return Form(act, [(source, "b32") for source in sources], targets, members)


def _load_matrix(i: Instruction) -> Form:
    targets, at = i.operands
    if i.modifiers[2] != "m8n8" or i.modifiers[-2:] != ("shared", "b16"):
        raise Unreadable(i.text)
    used = slice(0, 8 * len(targets))  # of the lanes, those that point at rows

    def act(block: Block, threads: Threads, at: Array) -> Iterable[Array]:
        pointing = type(threads).of(threads.numbers.reshape(-1, 32)[:, used].ravel())
        addresses = at.reshape(-1, 32)[:, used].ravel()
        words = block.load(i, "shared", addresses, np.dtype(np.uint64), 2, pointing)
        found = warps.fragments(words.view(np.uint16), len(targets), "trans" in i.modifiers)
        return found.swapaxes(0, 1).reshape(len(targets), -1)

    return Form(act, [(at, "u64")], targets, "-1")


def _multiply(i: Instruction) -> Form:
    kind = i.modifiers[-2]
    shape = f"m16n8k{8 * warps.IN_A_WORD.get(kind, 0)}"
    if i.modifiers != ("sync", "aligned", shape, "row", "col", "f32", kind, kind, "f32"):
        raise Unreadable(i.text)

    def act(_block: Block, threads: Threads, *registers: Array) -> Iterable[Array]:
        rows = [_spread(r, threads).reshape(-1, 32) for r in registers]
        matrices = (np.stack(rows[first:end], 1) for first, end in ((0, 4), (4, 6), (6, 10)))
        return warps.multiplied(kind, *matrices).swapaxes(0, 1).reshape(4, -1)

    targets, a, b, c = (_names(operand) for operand in i.operands)
    sources = [*((name, "b32") for name in (*a, *b)), *((name, "f32") for name in c)]
    return Form(act, sources, targets, "-1")


def _together(i: Instruction) -> Form:
    """bar.warp.sync."""
    if i.modifiers != ("warp", "sync"):
        raise Unreadable(i.text)
    return Form(_nothing, members=i.operands[0])


FORMS: Mapping[str, Callable[[Instruction], Form]] = {
    "mov": _move, "cvta": _to_other_window, "ld": _access, "ldu": _access, "st": _access,
    "atom": _atomic, "red": _atomic, "cp": _async, "shfl": _shuffle, "ldmatrix": _load_matrix,
    "mma": _multiply, "bar": _together, "membar": lambda _: Form(_nothing),
    "fence": lambda _: Form(_nothing),
}  # fmt: skip
"""All others compute: `arithmetic.meaning` says what."""
