"""How long a launch takes, by the model of a multiprocessor (`multiprocessor.py`) and the counts of
its blocks (`gpu_counts.py`).

Machine code and PTX are joined by the lines of the text that they are of. A loop of machine code is
that loop of PTX whose lines are most like its own; it has so many times fewer trips as it has more
of the same accesses and multiply-adds, which is how ptxas unrolls. What an access takes is what the
accesses of PTX on its line take. A branch ahead is taken where nothing of what it jumps over is
executed in PTX.

Of kernels that differ by less than a quarter the model does not claim which one is faster: those
that are published (`public_products.py`) lie as near in it in another order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bench.gpu_counts import SECTOR_BYTES, BlockCounts, Memory, block_counts, described, moving_axes
from bench.multiprocessor import Cost, Found, Machine, Work, run
from tc.backends import nvrtc, sass
from tc.backends.geometry import LaunchGeometry
from tests.support.ptx.machine import Launch
from tests.support.ptx.parse import Function
from tests.support.ptx.parse import Instruction as PtxInstruction

MOST_ISSUED = 6_000_000
"""Instructions that are modelled of a launch, if one block on each multiprocessor has no more; a
launch that has more is taken to go on as it has begun."""
MOST_TURNS = 3
"""Times that all places for blocks of a multiprocessor are taken anew, likewise."""


@dataclass(frozen=True)
class Modelled:
    """A launch: seconds, and what a multiprocessor does in them."""

    seconds: float
    instructions: float  # of machine code, of a warp
    found: Found
    resident: int
    counts: BlockCounts


def first_cache_bytes(machine: Machine, geometry: LaunchGeometry, resident: int) -> int:
    """The room of a block in the first cache."""
    return max(machine.near_bytes - resident * geometry.shared, 4096) // resident


def modelled(
    function: Function,
    code: Sequence[sass.Instruction],
    usage: nvrtc.Usage,
    geometry: LaunchGeometry,
    arguments: Sequence[int],
    memory: Memory,
    machine: Machine,
) -> Modelled:
    """One launch."""
    gpu = machine.gpu
    fitting = gpu.blocks_at_once(geometry.threads, geometry.shared, usage.registers)
    each = -(-geometry.blocks // gpu.processors)
    resident = min(fitting // gpu.processors, each)
    launch = Launch(function, geometry.grid, geometry.block, arguments, memory, geometry.dynamic)
    x, y, z = geometry.grid
    number = (x // 2, y // 2, z // 2)
    room = first_cache_bytes(machine, geometry, resident)
    counts = block_counts(launch, number, memory, room)
    places = resident * gpu.processors
    shares = memory_shares(counts, moving_axes(launch, number), geometry, memory, machine, places)
    work = work_of(code, counts, shares, machine.access_turns)
    blocks = min(each, MOST_TURNS * resident)
    blocks = max(resident, min(blocks, int(MOST_ISSUED / max(1.0, float(work.times().sum())))))
    found = run(work, machine, resident, blocks, min(geometry.blocks, gpu.processors))
    seconds = found.cycles * each / blocks / machine.clock_hz + machine.launch_seconds
    instructions = found.instructions / blocks / work.warps
    return Modelled(seconds, instructions, found, resident, counts)


def memory_shares(
    counts: BlockCounts, moving: Mapping[int, frozenset[int]], geometry: LaunchGeometry,
    memory: Memory, machine: Machine, places: int,
) -> Mapping[int, float]:  # fmt: skip
    """The share of what goes to the second cache that goes on to memory, by array.

    Blocks that run at the same time, as many as there are `places`, find in the second cache what
    one of them has read; if all arrays fit into it, so do all other blocks.
    """
    x, y, z = geometry.grid
    at_once = (
        min(x, places),
        min(y, max(1, -(-places // x))),
        min(z, max(1, -(-places // (x * y)))),
    )
    turns = geometry.blocks / min(places, geometry.blocks)
    traffic: Counter[int] = Counter()
    for (_, space), row in counts.by_instruction.items():
        if space == "global":
            traffic[row.array] += row.missed * SECTOR_BYTES * geometry.blocks
    near: dict[int, float] = {}
    whole: dict[int, float] = {}
    read, stored = counts.touched(True), counts.touched(False)
    for array in traffic:
        touched = max(read.get(array, 0), stored.get(array, 0))
        axes = moving.get(array, frozenset((0, 1, 2)))
        near[array] = min(memory.size(array), touched * _product(at_once[a] for a in axes))
        whole[array] = min(memory.size(array), touched * _product(geometry.grid[a] for a in axes))
    fits = sum(whole.values()) <= machine.second_cache_bytes
    shares = {}
    for array, moved in traffic.items():
        wanted = whole[array]
        if fits and not read.get(array):
            wanted = 0.0  # what is written stays there
        elif not fits:
            wanted = max(wanted, turns * near[array])
        shares[array] = min(1.0, wanted / moved) if moved else 0.0
    return shares


def _product(numbers: Iterable[int]) -> int:
    return int(np.prod([*numbers], dtype=np.int64))


# --- joining machine code and PTX -------------------------------------------------------------

Amounts = Counter[tuple[int, str]]
"""Bytes of accesses of a thread, and numbers of other instructions, by line and kind."""

_KINDS = {
    "LDS": "shared loads", "LDSM": "shared loads", "STS": "shared stores", "LDG": "global loads",
    "LDGSTS": "global loads", "STG": "global stores", "FFMA": "fma", "DFMA": "fma", "HMMA": "mma",
    "HFMA2": "fma", "BAR": "barrier", "MUFU": "special", "SHFL": "exchange", "FADD": "add",
    "FMUL": "mul", "DADD": "add", "DMUL": "mul",
}  # fmt: skip
_PTX_KINDS = {
    "fma": "fma", "mma": "mma", "bar": "barrier", "barrier": "barrier", "shfl": "exchange",
    "ex2": "special", "rcp": "special", "rsqrt": "special", "lg2": "special", "sqrt": "special",
}  # fmt: skip
_TELLING = (
    "barrier", "global loads", "global stores", "shared stores", "mma", "shared loads", "fma",
    "exchange",
)  # fmt: skip
"""What ptxas neither drops nor adds, so that their numbers say how a loop was unrolled."""


def _bytes(i: sass.Instruction) -> int:
    if i.op.startswith("LDSM"):
        return 16
    bits = i.kind.split(".")[-1]
    return int(bits) // 8 if bits.isdigit() else 4


def sass_amounts(code: Sequence[sass.Instruction], numbers: Iterable[int]) -> Amounts:
    found: Amounts = Counter()
    for number in numbers:
        i = code[number]
        if kind := _KINDS.get(i.op.split(".")[0]):
            found[i.line, kind] += _bytes(i) if kind.endswith(("loads", "stores")) else 1
    return found


def _ptx_kind(i: PtxInstruction) -> tuple[str, int] | None:
    if i.name in ("ld", "st", "ldmatrix") or (i.name == "cp" and "global" in i.modifiers):
        space = "shared" if "shared" in i.modifiers and i.name != "cp" else "global"
        if "param" in i.modifiers or "local" in i.modifiers or "const" in i.modifiers:
            return None
        kind, bits = described(i, space)
        return f"{space} {kind}", bits // 8
    if i.name in ("add", "sub", "mul") and i.type in ("f32", "f64"):
        return ("mul" if i.name == "mul" else "add"), 1
    kind = _PTX_KINDS.get(i.name)
    return (kind, 1) if kind else None


def ptx_amounts(function: Function, numbers: Iterable[int]) -> Amounts:
    found: Amounts = Counter()
    for number in numbers:
        i = function.code[number]
        if found_kind := _ptx_kind(i):
            found[i.line, found_kind[0]] += found_kind[1]
    return found


def _own(loop: Any, loops: Sequence[Any]) -> list[int]:
    """The instructions of a loop beside those of loops in it."""
    inner = [o for o in loops if o != loop and loop.first <= o.first and o.last <= loop.last]
    whole = range(loop.first, loop.last + 1)
    return [n for n in whole if not any(o.first <= n <= o.last for o in inner)]


def _likeness(a: Amounts, b: Amounts) -> float:
    """The part of the lines and kinds of either that both have."""
    return len(a.keys() & b.keys()) / len(a.keys() | b.keys()) if a or b else 1.0


def _covered(a: Amounts, b: Amounts) -> float:
    """The part, in tenths, of the lines and kinds of a loop of machine code that a loop of PTX has:
    a loop whose loops within are unrolled is none of these."""
    return round(len(a.keys() & b.keys()) / len(a), 1) if a else 0.0


def _times_more(a: Amounts, b: Amounts) -> int:
    """How many times the instructions of a loop of PTX a loop of machine code has. The kinds that
    come first in `_TELLING` say it, as what comes later may be of a loop within, which ptxas has
    unrolled."""
    for kind in _TELLING:
        if common := [key for key in a.keys() & b.keys() if key[1] == kind]:
            return max(1, round(sum(a[k] for k in common) / sum(b[k] for k in common)))
    return 1


def _peeled(outside: Amounts, of_ptx: Amounts, around: Amounts) -> int:
    """How many trips of a loop of PTX ptxas has put into the loop of machine code around its own,
    where `outside` are the instructions of this beside those of loops in it, and `around` those of
    PTX there."""
    for kind in ("fma", "mma"):
        if own := [key for key in of_ptx if key[1] == kind and key not in around]:
            return round(sum(outside[key] for key in own) / sum(of_ptx[key] for key in own))
    return 0


def _is_left(own: Amounts, around: Amounts, of_ptx: Amounts) -> bool:
    """Whether steps of a loop that are left over by an unrolled one stand beside the loop: the
    multiply-adds, else the first of `_TELLING`, that both have."""
    for kind in ("fma", *_TELLING):
        if common := [key for key in own.keys() & of_ptx.keys() if key[1] == kind]:
            return any(key in around for key in common)
    return False


def _parent(number: int, loops: Sequence[Any]) -> int:
    """The innermost loop around one; -1 where there is none."""
    first, last = loops[number].first, loops[number].last
    around = (n for n, o in enumerate(loops) if o.first <= first and last <= o.last and n != number)
    return max(around, default=-1)


def _is_inside(inner: Any, outer: Any) -> bool:
    return bool(outer.first <= inner.first and inner.last <= outer.last and inner != outer)


def _of_ptx(
    code: Sequence[sass.Instruction],
    loops: Sequence[sass.Loop],
    of_ptx: Sequence[tuple[Any, Amounts, Amounts]],
) -> Mapping[int, int]:
    """The loop of PTX that is most like each loop of machine code; of one that has loops within it,
    one that has some, too. Of those that are like it to the same degree, it is one in the loop that
    the loop around it is; where there are as many of these as loops of machine code that are like
    them, each is another one."""
    has_inner = {k for k, row in enumerate(of_ptx) for o in of_ptx if _is_inside(o[0], row[0])}
    found: dict[int, int] = {}
    alike: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for number, loop in enumerate(loops):
        whole = sass_amounts(code, range(loop.first, loop.last + 1))
        own = sass_amounts(code, _own(loop, loops))
        like = [(_covered(whole, a), _likeness(whole, a) + _likeness(own, b)) for _, a, b in of_ptx]
        if has_inner and any(_is_inside(o, loop) for o in loops):
            like = [found if k in has_inner else (0.0, 0.0) for k, found in enumerate(like)]
        if not like or max(like)[1] == 0:
            continue
        most = [k for k, likeness in enumerate(like) if likeness == max(like)]
        parent = _parent(number, loops)
        if parent in found:
            outer = of_ptx[found[parent]][0]
            inside = [k for k in most if outer.first <= of_ptx[k][0].first <= outer.last]
            most = [k for k in inside if k != found[parent]] or most
        found[number] = most[0]
        alike.setdefault((parent, tuple(most)), []).append(number)
    for (_, most), numbers in alike.items():
        if len(most) == len(numbers):
            found.update(zip(numbers, most, strict=True))
    return found


def trips_of(
    code: Sequence[sass.Instruction], loops: Sequence[sass.Loop], counts: BlockCounts
) -> Any:
    """Trips of loops of machine code, each time that one is entered, for each warp."""
    function = counts.function
    of_ptx = [
        (
            loop,
            ptx_amounts(function, range(loop.first, loop.last + 1)),
            ptx_amounts(function, _own(loop, counts.loops)),
        )
        for loop in counts.loops
    ]
    beside = [
        number for number in range(len(code)) if not any(o.first <= number <= o.last for o in loops)
    ]
    trips = np.ones((counts.warps, len(loops)), np.int64)
    left: dict[tuple[int, int], Any] = {}
    chosen = []
    for number, k in _of_ptx(code, loops, of_ptx).items():
        own = sass_amounts(code, _own(loops[number], loops))
        parent = _parent(number, loops)
        around = beside if parent < 0 else _own(loops[parent], loops)
        is_left = _is_left(own, sass_amounts(code, around), of_ptx[k][2])
        chosen.append((k, parent, _times_more(own, of_ptx[k][2]), number, is_left))
    chosen_of = {number: k for k, _, _, number, _ in chosen}
    # of an unrolled loop and what is left over, the unrolled one comes first
    for k, parent, more, number, is_left in sorted(chosen, key=lambda row: -row[2]):
        loop = of_ptx[k][0]
        entries = np.maximum(1, counts.entries[loop.first])
        each = counts.times[loop.last] // entries
        factors = {m for j, p, m, *_ in chosen if (j, p) == (k, parent)}
        if len(factors) == 1 and more > 1 and parent in chosen_of:
            outside = sass_amounts(code, _own(loops[parent], loops))
            around = of_ptx[chosen_of[parent]][2]
            each = np.maximum(1, each - _peeled(outside, of_ptx[k][2], around))
            is_left = False
        now = left.get((k, parent), each) if len(factors) > 1 else each
        is_whole = is_left or len(factors) > 1
        trips[:, number] = now // more if is_whole else np.ceil(now / more)
        left[k, parent] = now - trips[:, number] * more
    return trips


def skips_of(code: Sequence[sass.Instruction], counts: BlockCounts) -> Any:
    """Whether a warp takes a branch ahead or ends, by instruction: where nothing that is executed
    stands between, or the code between ends with a jump over something that is."""
    executed: dict[tuple[int, str], Any] = {}
    for pc, i in enumerate(counts.function.code):
        if found := _ptx_kind(i):
            key = (i.line, found[0])
            executed[key] = executed.get(key, 0) + counts.times[pc]
    nothing = np.zeros(counts.warps, np.int64)

    def times(first: int, end: int) -> tuple[bool, Any]:
        keys = [k for k in sass_amounts(code, range(first, end)) if k in executed]
        return bool(keys), sum((executed[k] for k in keys), nothing)

    skips = np.zeros((counts.warps, len(code)), bool)
    for at, i in enumerate(code):
        end = len(code)
        if i.op.startswith("BRA") and i.guard and i.target is not None and i.target > at:
            end = i.target
        elif not (i.op.startswith("EXIT") and i.guard):
            continue
        is_known, between = times(at + 1, end)
        last, beyond = code[end - 1], nothing
        if not last.guard and end < len(code):
            if last.op.startswith("BRA") and (last.target or 0) > end:
                beyond = times(end, last.target or end)[1]
            elif last.op.startswith("EXIT"):
                beyond = times(end, len(code))[1]
        is_rare = any(code[n].op.startswith("CALL") for n in range(at + 1, end))
        skips[:, at] = (between == 0) & (is_known | (beyond > 0) | (is_rare & bool(i.target)))
    return skips


def work_of(
    code: Sequence[sass.Instruction], counts: BlockCounts, shares: Mapping[int, float], turns: float
) -> Work:
    """`shares` as `memory_shares` gives them; `turns` are those of a read of global memory."""
    loops = sass.loops_of(code)
    work = Work(code, loops, trips_of(code, loops, counts), skips_of(code, counts), {})
    costs = costs_of(work, counts, shares, turns)
    for at, share in taken_shares(work, counts).items():
        cost = costs[at]
        costs[at] = replace(cost, turns=share * cost.turns, missed=share * cost.missed)
    return replace(work, costs=costs)


def taken_shares(work: Work, counts: BlockCounts) -> Mapping[int, float]:
    """The share of times that accesses under a guard are made, as PTX, where threads branch, makes
    them less often."""
    times = work.times().sum(axis=0)
    issued: Amounts = Counter()
    for at, i in enumerate(work.code):
        if kind := _KINDS.get(i.op.split(".")[0]):
            issued[i.line, kind] += int(times[at]) * _bytes(i)
    made: Amounts = Counter()
    for pc, ptx in enumerate(counts.function.code):
        if found := _ptx_kind(ptx):
            made[ptx.line, found[0]] += int(counts.times[pc].sum()) * found[1]
    shares = {}
    for at, i in enumerate(work.code):
        key = (i.line, _KINDS.get(i.op.split(".")[0], ""))
        if i.guard and key[1].endswith(("loads", "stores")) and key in made and issued[key]:
            shares[at] = min(1.0, made[key] / issued[key])
    return shares


def costs_of(
    work: Work, counts: BlockCounts, shares: Mapping[int, float], turns: float
) -> dict[int, Cost]:
    """What accesses take, as those of PTX do on the same line, else all of PTX that are like
    them."""
    by_line: dict[tuple[int, str], list[tuple[int, Any]]] = {}
    for (pc, space), row in counts.by_instruction.items():
        i = counts.function.code[pc]
        kind, bits = described(i, space)
        for line in (i.line, 0):
            by_line.setdefault((line, f"{space} {kind}"), []).append((bits // 8, row))
    costs = {}
    for at, i in enumerate(work.code):
        name, size = i.op.split(".")[0], _bytes(i)
        kind = _KINDS.get(name, "")
        rows = by_line.get((i.line, kind)) or by_line.get((0, kind), [])
        if name == "SHFL":
            costs[at] = Cost(1.0)
        elif name in ("LDL", "STL"):
            costs[at] = Cost(size / 4)
        elif kind.startswith("shared"):
            costs[at] = Cost(_shared_turns(size, rows))
        elif kind.startswith("global"):
            costs[at] = _global_cost(size, rows, shares, turns)
            if name == "LDGSTS":
                stores = by_line.get((i.line, "shared stores"), [])
                costs[at] = Cost(
                    _shared_turns(size, stores), costs[at].missed, costs[at].bytes,
                    costs[at].from_memory,
                )  # fmt: skip
    return costs


def _shared_turns(size: int, rows: Sequence[tuple[int, Any]]) -> float:
    same = [row for of, row in rows if of == size]
    wider = [row.wider[size] for of, row in rows if of < size and size in row.wider]
    found = same or wider or [row for _, row in rows]
    warps = sum(row.warps for row in found)
    if not warps:
        return size / 4
    scale = 1.0 if same or wider else max(1.0, size / max(of for of, _ in rows))
    return float(scale * sum(row.parts for row in found) / warps)


def _global_cost(
    size: int, rows: Sequence[tuple[int, Any]], shares: Mapping[int, float], turns: float
) -> Cost:
    found = [(of, row) for of, row in rows if of == size] or rows
    warps = sum(row.warps for _, row in found)
    if not warps:
        return Cost(size / 4, 1.0, 32.0 * size, 1.0)
    scale = max(1.0, size / max(of for of, _ in found))
    misses = sum(row.misses for _, row in found)
    moved = sum(row.missed for _, row in found) * SECTOR_BYTES
    lines = sum(row.lines for _, row in found) / warps
    from_memory = sum(row.missed * SECTOR_BYTES * shares.get(row.array, 1.0) for _, row in found)
    return Cost(
        max(turns, lines),
        min(1.0, scale * misses / warps),
        scale * moved / warps / min(1.0, scale * misses / warps) if misses else 0.0,
        from_memory / moved if moved else 0.0,
    )
