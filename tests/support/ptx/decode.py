"""What each instruction of a function does, as a function of a block and some of its threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tests.support.ptx import warps
from tests.support.ptx.arithmetic import BINARY, meaning
from tests.support.ptx.memory import LOCAL_WINDOW, SHARED_WINDOW, check_alignment
from tests.support.ptx.operands import Reads, address, reader, writer
from tests.support.ptx.parse import TYPES, Function, Instruction, Unreadable

if TYPE_CHECKING:
    from tests.support.ptx.machine import Block, Threads

Run = Callable[["Block", "Threads"], None]
SPACES = ("global", "shared", "local", "param", "const")
_HINTS = frozenset(
    "nc volatile relaxed acquire release weak gpu cta sys ca cg cs cv lu wb wt".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """`kind` is "plain", "branch", "end", "barrier", or "warp" for what the lanes of a warp that
    `members` names, as bits, do together; `guard` chooses the threads that take part."""

    instruction: Instruction
    kind: str
    run: Run
    guard: Reads | None = None
    target: int = 0
    members: Reads | None = None


def operations(function: Function) -> list[Operation]:
    return [_operation(i, function) for i in function.code]


def _operation(i: Instruction, function: Function) -> Operation:
    guard = None
    if i.guard:
        guard = reader("!" * i.negated + i.guard, "pred", function)
    make = partial(Operation, i, guard=guard)
    if i.name == "bra":
        return make("branch", _nothing, target=function.labels[str(i.operands[0])])
    if i.name in ("ret", "exit"):
        return make("end", _nothing)
    if (i.name, i.modifiers[:1]) in (("bar", ("sync",)), ("barrier", ("sync",))):
        if i.operands != ("0",):
            raise Unreadable(i.text)
        return make("barrier", _nothing)
    if i.name in ("shfl", "ldmatrix", "mma") or i.modifiers == ("warp", "sync"):
        run, mask = _of_warp(i, function)
        return make("warp", run, members=reader(mask, "u32", function))
    try:
        return make("plain", _plain(i, function))
    except (KeyError, IndexError, ValueError) as error:
        raise Unreadable(i.text) from error


def _nothing(_block: Block, _threads: Threads) -> None:
    """Only where the threads go on is of interest."""


def _plain(i: Instruction, function: Function) -> Run:
    if i.name in ("ld", "ldu", "st"):
        return _memory_access(i, function)
    if i.name in ("atom", "red"):
        return _atomic(i, function)
    if i.name == "cp" and i.modifiers[0] == "async":
        return _async(i, function)
    if i.name in ("membar", "fence"):
        return _nothing
    if i.name == "cvta":
        return _to_other_window(i, function)
    if i.name == "mov":
        return _move(i, function)
    compute, result, sources = meaning(i)
    reads = [reader(o, t, function) for o, t in zip(i.operands[1:], sources, strict=True)]
    write, dtype = writer(i.operands[0], function), TYPES[result]

    def run(block: Block, threads: Threads) -> None:
        values = compute(*[read(block, threads) for read in reads])
        write(block, threads, np.asarray(values, dtype))

    return run


def _move(i: Instruction, function: Function) -> Run:
    """Also of a register to its parts, and back: the lowest comes first."""
    target, source = i.operands
    if isinstance(target, str) and isinstance(source, str):
        read, write = reader(source, i.type, function), writer(target, function)
        return lambda block, threads: write(block, threads, np.asarray(read(block, threads)))
    parts = source if isinstance(target, str) else target
    part = f"b{8 * TYPES[i.type].itemsize // len(parts)}"
    if isinstance(target, str):
        reads, write = [reader(s, part, function) for s in parts], writer(target, function)

        def join(block: Block, threads: Threads) -> None:
            rows = np.stack(np.broadcast_arrays(*(r(block, threads) for r in reads)), axis=-1)
            write(block, threads, rows.view(TYPES[i.type])[..., 0])

        return join
    read, writes = reader(source, i.type, function), [writer(t, function) for t in parts]

    def divide(block: Block, threads: Threads) -> None:
        rows = np.atleast_1d(read(block, threads))[:, None].view(TYPES[part])
        for place, write in enumerate(writes):
            write(block, threads, rows[:, place])

    return divide


def _to_other_window(i: Instruction, function: Function) -> Run:
    """Between addresses of a memory and generic ones, which differ for shared and local memory."""
    space = next(m for m in i.modifiers if m in SPACES)
    window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(space, 0)
    shift = np.uint64(window) if "to" not in i.modifiers else np.uint64(-window % 2**64)
    read, write = reader(i.operands[1], "u64", function), writer(i.operands[0], function)
    return lambda block, threads: write(block, threads, np.asarray(read(block, threads) + shift))


def _memory_access(i: Instruction, function: Function) -> Run:
    space = next((m for m in i.modifiers if m in SPACES), "")
    count = {"v2": 2, "v4": 4}.get(next((m for m in i.modifiers if m in ("v2", "v4")), ""), 1)
    if {*i.modifiers} - {space, f"v{count}", i.type} - _HINTS:
        raise Unreadable(i.text)
    dtype = TYPES[i.type]
    at, registers = i.operands if i.name == "st" else reversed(i.operands)
    find = address(at, function)
    names = (registers,) if isinstance(registers, str) else registers
    if len(names) != count:
        raise Unreadable(i.text)
    if i.name != "st":
        writes = [writer(name, function) for name in names]

        def load(block: Block, threads: Threads) -> None:
            values = block.load(i, space, find(block, threads), dtype, count, threads)
            for place, write in enumerate(writes):
                write(block, threads, values[:, place])

        return load
    reads = [reader(name, i.type, function) for name in names]

    def store(block: Block, threads: Threads) -> None:
        addresses = find(block, threads)
        values = np.empty((len(addresses), count), dtype)
        for place, read in enumerate(reads):
            values[:, place] = read(block, threads)
        block.store(i, space, addresses, values, threads)

    return store


def _atomic(i: Instruction, function: Function) -> Run:
    """One thread after the other, in the order of their numbers."""
    space = next((m for m in i.modifiers if m in SPACES), "")
    dtype, kind = TYPES[i.type], i.modifiers[-2]
    operands = i.operands if i.name == "atom" else ("_", *i.operands)
    find, write = address(operands[1], function), writer(operands[0], function)
    reads = [reader(o, i.type, function) for o in operands[2:]]
    if kind not in ("cas", "exch", *BINARY):
        raise Unreadable(i.text)

    def run(block: Block, threads: Threads) -> None:
        addresses = find(block, threads)
        given = [np.broadcast_to(read(block, threads), addresses.shape) for read in reads]
        before = np.empty(addresses.shape, dtype)
        for t in range(len(addresses)):
            one = threads.only(t)
            old = block.load(i, space, addresses[t : t + 1], dtype, 1, one)
            values = [g[t : t + 1, None] for g in given]
            before[t] = old[0, 0]
            if kind == "cas":
                new = np.where(old == values[0], values[1], old)
            else:
                new = values[0] if kind == "exch" else BINARY[kind](old, values[0])
            block.store(i, space, addresses[t : t + 1], new, one)
        write(block, threads, before)

    return run


def _async(i: Instruction, function: Function) -> Run:
    if "commit_group" in i.modifiers:
        return lambda block, threads: block.memory.copies.commit(threads.numbers)
    if "wait_group" in i.modifiers or "wait_all" in i.modifiers:
        left = int(str(i.operands[0])) if "wait_group" in i.modifiers else -1
        return lambda block, threads: block.memory.copies.wait(
            block.memory.shared, threads.numbers, left
        )
    size = int(str(i.operands[2]))
    to, of = address(i.operands[0], function), address(i.operands[1], function)
    taken = reader(i.operands[3], "u32", function) if len(i.operands) > 3 else None

    def run(block: Block, threads: Threads) -> None:
        targets, sources = to(block, threads), of(block, threads)
        for addresses in (targets, sources):
            check_alignment(addresses, size, threads.numbers)
        length = size if taken is None else taken(block, threads)[..., None]
        is_read = np.broadcast_to(np.arange(size) < length, (len(sources), size))
        at = (sources[:, None] + np.arange(size))[is_read]
        by = np.broadcast_to(threads.numbers[:, None], is_read.shape)[is_read]
        content = np.zeros(is_read.shape, np.uint8)
        if at.size:
            content[is_read] = block.memory.load("global", at, np.dtype(np.uint8), 1, by)[:, 0]
        block.accessed(i, "global", sources, size, threads)
        block.accessed(i, "shared", targets, size, threads)
        block.memory.copies.copy(block.memory.shared, targets, content, threads.numbers)

    return run


def _of_warp(i: Instruction, function: Function) -> tuple[Run, str]:
    """What the lanes of a warp do together, and the operand that says which lanes they are."""
    everyone = "-1"
    if i.modifiers == ("warp", "sync"):
        return _nothing, str(i.operands[0])
    if i.name == "shfl" and i.modifiers[0] == "sync" and i.type == "b32":
        return _shuffle(i, function), str(i.operands[4])
    if i.name == "ldmatrix" and i.modifiers[2] == "m8n8" and i.modifiers[-2:] == ("shared", "b16"):
        return _load_matrix(i, function), everyone
    kinds = i.modifiers[-3:-1]
    if i.modifiers[2:5] == ("m16n8k16", "row", "col") and i.modifiers[-4:] in (
        ("f32", kind, kind, "f32") for kind in ("f16", "bf16")
    ):
        return _multiply(i, kinds[0], function), everyone
    raise Unreadable(i.text)


def _shuffle(i: Instruction, function: Function) -> Run:
    target, *sources = i.operands
    names = str(target).split("|")
    writes = [writer(name.strip(), function) for name in names]
    reads = [reader(s, "b32", function) for s in sources[:3]]

    def run(block: Block, threads: Threads) -> None:
        given = (np.broadcast_to(read(block, threads), threads.numbers.shape) for read in reads)
        for write, values in zip(
            writes, warps.shuffled(i.modifiers[1], *given, threads.numbers), strict=False
        ):
            write(block, threads, values)

    return run


def _load_matrix(i: Instruction, function: Function) -> Run:
    registers, at = i.operands
    writes = [writer(r, function) for r in registers]
    find = address(at, function)

    def run(block: Block, threads: Threads) -> None:
        addresses = find(block, threads).reshape(-1, 32).copy()
        numbers = threads.numbers.reshape(-1, 32)
        used = slice(0, 8 * len(writes))
        pointing = type(threads).of(numbers[:, used].ravel())
        rows = np.zeros((len(addresses), 32, 8), np.uint16)
        words = block.load(
            i, "shared", addresses[:, used].ravel(), np.dtype(np.uint64), 2, pointing
        )
        rows[:, used] = words.view(np.uint16).reshape(len(addresses), -1, 8)
        found = warps.fragments(rows, "trans" in i.modifiers)
        for register, write in enumerate(writes):
            write(block, threads, found[:, register].ravel())

    return run


def _multiply(i: Instruction, kind: str, function: Function) -> Run:
    writes = [writer(r, function) for r in i.operands[0]]
    types = ("b32", "b32", "f32")
    reads = [
        [reader(r, t, function) for r in registers]
        for registers, t in zip(i.operands[1:], types, strict=True)
    ]

    def run(block: Block, threads: Threads) -> None:
        shape = threads.numbers.shape
        matrices = [
            np.stack([np.broadcast_to(r(block, threads), shape).reshape(-1, 32) for r in row], 1)
            for row in reads
        ]
        result = warps.multiplied(kind, *matrices)
        for register, write in enumerate(writes):
            write(block, threads, result[:, register].ravel())

    return run
