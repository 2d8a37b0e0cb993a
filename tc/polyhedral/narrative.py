"""What the compiler did with a program, stage by stage, as text to be read from top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from math import prod
from textwrap import fill

from tc.device import Device
from tc.gpu import Gpu
from tc.kernel.analysis.estimate import estimate
from tc.kernel.ir import Kernel
from tc.kernel.pass_manager import passes_text
from tc.kernel.printer import to_text as kernel_text
from tc.kernel.walk import has_non_temporal_stores, has_prefetches
from tc.options import PRESETS, GpuOptions, MappingOptions, Options
from tc.plan import SERIAL
from tc.polyhedral import schedule
from tc.polyhedral.lowering import Lowering
from tc.polyhedral.rewrite.rewriting import statement_text
from tc.polyhedral.schedule import (
    Band,
    Expansion,
    Leaf,
    Member,
    Node,
    Promotion,
    Sequence,
    Sync,
    Value,
)
from tc.polyhedral.scop.scop import Scop
from tc.polyhedral.scop.text import dependences_text, scop_text
from tc.semantics.program import ShapedProgram
from tc.semantics.work import program_work, scaled

FUSIONS = {
    "auto": "neighbours that share a loop are fused, unless their operands together would no longer"
    " fit into the cache",
    "max": "neighbours that share any loop are fused",
    "preserve3coincident": "neighbours are fused where three parallel loops are left",
    "min": "only the statements that write one tensor are fused",
    "isl": "isl's own scheduler decides",
}
PLACES = {
    "register": "in registers",
    "scratch": "for each thread, small enough to stay in its cache",
    "temporary": "packed once, before these loops",
    "shared": "in memory that the threads of a block share",
}
DIGITS = """\
  i div 16         counts tiles of 16 iterations of i
  i mod 16         counts the iterations inside of a tile
  i mod 16 div 8   counts tiles of 8 inside of it"""
REASONS = {
    "register tile": "A vector that is read serves all rows of a register tile, and an element all"
    " of its vectors: fewer reads for as many operations.",
    "in shared memory": "In shared memory are tiles of what a block uses again, or gathers, and the"
    " threads along x would not read side by side from memory.",
}
"""Reasons of decisions, by the words that notes have for them."""
LINE_COLUMNS = 96
"""The longest line of a text that is filled."""


@dataclass(frozen=True)
class _Words:
    """The sentences for one kind of device: on its tiles, on the roles of loops, on its kernel."""

    tiled: str
    bound: str
    made: str


PROCESSOR = _Words(
    tiled="Tiled. The loops inside of tiles come last, below reductions too, so that what they"
    " update fits into registers:",
    bound="Mapped. Parallel loops are shared among threads, vector loops become the lanes of a"
    " vector, unroll loops straight-line code. Checked against the dependences again:",
    made="Vector loops became vectors, unrolled ones straight-line code, registers variables; this"
    " is printed by the backend.",
)
GPU = _Words(
    tiled="Tiled. The loops over tiles come first; what one thread does of a tile comes last, below"
    " reductions too, so that what it updates fits into registers:",
    bound="Mapped. Blocks and threads each run iterations of their own, in place of a loop; unroll"
    " loops become straight-line code. At a barrier all threads of a block wait for each other,"
    " as one may need what another wrote, or write what another still reads."
    " Checked against the dependences again:",
    made="Unrolled loops became straight-line code, registers variables; this is printed by the"
    " backend. Each launch is a kernel, whose blocks and threads run all at once.",
)


@dataclass(frozen=True)
class ExplainedLowering:
    """A lowering, and what it was made from; `told` says where the plan comes from."""

    lowering: Lowering
    original: ShapedProgram
    options: Options
    device: Device | Gpu
    told: tuple[str, ...] = ()

    @property
    def words(self) -> _Words:
        return GPU if isinstance(self.device, Gpu) else PROCESSOR


def explain_stage(explained: ExplainedLowering, stage: str) -> str:
    """The text of one stage (`STAGES`)."""
    return _EXPLAINERS[stage](explained)


def describe(device: Device | Gpu) -> str:
    """A device in words.

    >>> describe(Device(vector_bits=256, threads=2))
    '2 threads, 16 vector registers of 256 bits, 32 KiB of L1 and 512 KiB of L2 cache'
    >>> describe(Device(vector_bits=256, unit_bits=128)).split(", ")[1]
    '16 vector registers of 256 bits in units of 128'
    >>> describe(Gpu(shared=16 << 10))
    'a GPU: 1024 threads with 255 registers each and 16 KiB of shared memory in a block, at most'
    """
    if isinstance(device, Gpu):
        return (
            f"a GPU: {device.threads} threads with {device.thread_registers} registers each and"
            f" {_memory(device.shared)} of shared memory in a block, at most"
        )
    threads = "1 thread" if device.threads == 1 else f"{device.threads} threads"
    vectors = "no vectors"
    if device.vector_bits:
        vectors = f"{device.vector_registers} vector registers of {device.vector_bits} bits"
        if device.passes(device.vector_bits) > 1:
            vectors += f" in units of {device.unit_bits}"
        vectors += ", with instructions for exponents" if device.exponents else ""
    caches = f"{_memory(device.l1)} of L1 and {_memory(device.l2)} of L2 cache"
    return f"{threads}, {vectors}, {caches}"


# --- rewriting and analysis -----------------------------------------------------------------------


def _rewritten(explained: ExplainedLowering) -> str:
    lowering, original = explained.lowering, explained.original
    if lowering.shaped is original:
        return "The program is taken as written."
    shaped = lowering.shaped
    lines = [_wrapped("Sums are factored, long reductions split and dimensions joined (R5):")]
    for name, tensor in shaped.program.tensors.items():
        shape, before = _box(shaped.shapes[name]), original.shapes.get(name)
        if before is None:
            lines.append(f"- {name} is new: {tensor.dtype.name}, {shape}")
        elif before != shaped.shapes[name]:
            lines.append(f"- {name} of {_box(before)} is walked as {shape}")
    lines.append("")
    for statement in shaped.statements:
        ranges = ", ".join(f"{v} in {r}" for v, r in statement.ranges.items())
        name = statement.statement.name
        lines.append(f"{name}: {statement_text(statement.statement)}")
        if ranges:
            lines.append(f"  where {ranges}")
    return "\n".join(lines)


# --- trees ----------------------------------------------------------------------------------------


def _scheduled(explained: ExplainedLowering) -> str:
    """The tree in text order, and the one that the strategy made."""
    scop, tree = explained.lowering.scop, explained.lowering.tree
    if not scop.statements:
        return "There is nothing to run."
    before = text_order(scop)
    fusion = explained.options.schedule.fusion
    parts = [
        "A schedule tree is the order in which instances run: a band is a nest of loops, a sequence"
        " runs its children one after the other. In text order:",
        _tree(before),
        "\n".join(_legend(scop)),
        f'Fusion "{fusion}": {FUSIONS[fusion]}. The tree was checked against the dependences:',
        _tree(tree, before),
        "\n".join(_other_names(tree)),
        "The iterations of a loop with * do not depend on each other: they may run on several"
        " threads, or as the lanes of a vector. The loops of a permutable band may be swapped, and"
        " so tiled.",
    ]
    return "\n\n".join(_wrapped(part) for part in parts if part)


def _other_names(tree: Node) -> Iterator[str]:
    """What members are in statements that have other names for them."""
    for member in schedule.members(tree):
        for statement, value in member.values.items():
            if str(value) != member.name:
                yield f"  {member.name} is {value} in {statement}"


def _legend(scop: Scop) -> Iterator[str]:
    shaped, names = scop.shaped, [s.name for s in scop.statements]
    width = max(map(len, names))
    for statement in scop.statements:
        name = shaped.program.statements[statement.position].name
        text = statement_text(shaped.program.statements[statement.position])
        whole = name if name in names else text
        match statement.kind:
            case "init":
                text = f"the start of {whole} at its identity (R2)"
            case "zero":
                text = f"zeros, before {whole}: some elements are never written (G4)"
        yield f"  {statement.name:{width}}  {text}"


def _mapped(explained: ExplainedLowering) -> str:
    """The tree after each step of the mapping."""
    before, mapped = explained.lowering.tree, explained.lowering.mapped
    promoted = _serial(mapped.tree)
    tiled = _without_buffers(promoted)
    parts = [
        *explained.told,
        f"What is chosen for {describe(explained.device)}{_asked(explained)}:",
        "\n".join(fill(f"- {note}", LINE_COLUMNS, subsequent_indent="  ") for note in mapped.notes),
    ]
    said = " ".join(mapped.notes)
    parts += [reason for words, reason in REASONS.items() if words in said]
    if tiled == before:
        parts.append("Nothing is tiled.")
    else:
        parts += [
            explained.words.tiled,
            DIGITS,
            _tree(tiled),
        ]
    if promoted == tiled:
        parts.append("Nothing is promoted to memory nearby.")
    else:
        parts += [
            "Promoted. Below `promote`, a tensor is read and written in a copy nearby:",
            _tree(promoted),
            "\n".join(_buffers(explained)),
        ]
    parts += [
        explained.words.bound,
        _tree(mapped.tree, promoted),
        _ignored(explained),
    ]
    return "\n\n".join(_wrapped(part) for part in parts if part)


def _asked(explained: ExplainedLowering) -> str:
    """The options that are not left to tc."""
    options = explained.options
    given = _given(options.gpu if isinstance(explained.device, Gpu) else options.mapping)
    return f", with {given}" if given else ""


def _ignored(explained: ExplainedLowering) -> str:
    """The options for devices of the other kind; presets are for both."""
    options = explained.options
    preset = any((p.mapping, p.gpu) == (options.mapping, options.gpu) for p in PRESETS.values())
    if isinstance(explained.device, Gpu):
        threads = "" if options.threads is None else f"Options(threads={options.threads})"
        given, kind = ["" if preset else _given(options.mapping), threads], "processors"
    else:
        given, kind = ["" if preset else _given(options.gpu)], "GPUs"
    said = " and ".join(filter(None, given))
    return f"Ignored, as for {kind}: {said}." if said else ""


def _given(options: MappingOptions | GpuOptions) -> str:
    """Options as they are written, if there are any."""
    default = type(options)()
    given = [
        f"{f.name}={value!r}"
        for f in fields(options)
        if (value := getattr(options, f.name)) != getattr(default, f.name)
    ]
    return f"{type(options).__name__}({', '.join(given)})" if given else ""


def _buffers(explained: ExplainedLowering) -> Iterator[str]:
    """The promoted buffers, one a line."""
    scop = explained.lowering.scop
    for t in schedule.tiles(explained.lowering.mapped.tree):
        size = prod(t.shape) * t.held_type(scop.dtype(t.tensor)).bytes
        yield f"- {t.buffer}: {_box(t.shape)} of {t.tensor}, {_memory(size)}, {PLACES[t.scope]}"


def text_order(scop: Scop) -> Node:
    """The tree of the text as it stands: each statement in loops of its own, one after another."""
    nodes = []
    for s in scop.statements:
        own = tuple(Member(v, {s.name: Value(v)}, False) for v in s.variables)
        nodes.append(schedule.band_of(own, False, Leaf(s.name)))
    return schedule.sequence_of(nodes)


def _serial(node: Node) -> Node:
    """The tree without roles and barriers."""

    def plain(node: Node) -> Node:
        match node:
            case Band(members=members):
                serial = (replace(m, role=SERIAL, axis=None, count=None) for m in members)
                return replace(node, members=tuple(serial))
            case Sequence(children=children):
                return schedule.sequence_of([c for c in children if not isinstance(c, Sync)])
        return node

    return schedule.map_nodes(node, plain)


def _without_buffers(node: Node) -> Node:
    """The tree without promotions and partial accumulators."""
    return schedule.map_nodes(
        node, lambda n: n.child if isinstance(n, Promotion | Expansion) else n
    )


def _tree(node: Node, before: Node | None = None) -> str:
    return "  unchanged" if node == before else schedule.to_text(node, "  ")


# --- kernels and estimate -------------------------------------------------------------------------


def _kernel(explained: ExplainedLowering) -> str:
    marked, kernel = explained.lowering.marked, explained.lowering.kernel
    if kernel == marked:
        return "The loops are printed as they are."
    device = explained.device
    words = explained.words.made
    if isinstance(device, Device) and has_non_temporal_stores(kernel):
        words += (
            f" Stores with `stream` go past the caches: {_memory(device.shared_cache)} are"
            " too few to keep what is read and written until it is used again."
        )
    if isinstance(device, Device) and has_prefetches(kernel):
        words += (
            " `prefetch` names elements that are read or written later: they are in tensors larger"
            f" than {_memory(device.l2)}, and the processor does not foresee them, as they"
            " are anywhere or in rows far from each other, or is still busy with other rows."
        )
    return _after(words, kernel_text(kernel))


def _estimated(explained: ExplainedLowering) -> str:
    """Work, traffic and the roofline: the longer of computing and of moving."""
    work, lowering = program_work(explained.original), explained.lowering
    flops, loops = (estimate(kernel).flops for kernel in (lowering.kernel, lowering.marked))
    code = f"{scaled(flops)}flop"
    are_functions = flops > 1.01 * loops  # blocks of sums add less
    more = {
        "tails of tiles and padding are computed in vain": loops > 1.005 * work.operations,
        "functions are written out": are_functions,
        "long sums are added up in blocks": flops > loops and not are_functions,
    }
    if any(more.values()):
        code += f", as {' and '.join(reason for reason, holds in more.items() if holds)}"
    rows = {"the program": str(work), "its code": code, "at best": _roofline(explained, flops)}
    return "\n".join(
        fill(text, LINE_COLUMNS, initial_indent=f"{name:13}", subsequent_indent=" " * 13)
        for name, text in rows.items()
    )


def _roofline(explained: ExplainedLowering, flops: int) -> str:
    device, bits = explained.device, _bits(explained.lowering.kernel)
    gflops = device.gflops * 32 / bits
    if not (gflops and device.gbytes):
        return "unknown, as is the speed of the device"
    compute = flops / gflops / 1e9
    move = program_work(explained.original).bytes / device.gbytes / 1e9
    limit = "arithmetic" if compute > move else "memory"
    return (
        f"{scaled(max(compute, move))}s: {scaled(compute)}s to compute at {gflops:.4g} GFLOP/s"
        f" (float{bits}), {scaled(move)}s to move the bytes at {device.gbytes:.4g} GB/s, if they"
        f" come from memory; {limit} is the limit. Both speeds are assumed, not measured"
    )


def _bits(kernel: Kernel) -> int:
    """The width of the type computed in, as far as it decides how fast that is."""
    wide = any(b.dtype.bits == 64 for b in kernel.buffers if b.role == "output")
    return 64 if wide else 32


def _plain(words: str, text: Callable[[Lowering], str]) -> Callable[[ExplainedLowering], str]:
    """Tells a stage by some words, and what it made as it is."""
    return lambda explained: _after(words, text(explained.lowering))


_EXPLAINERS: Mapping[str, Callable[[ExplainedLowering], str]] = {
    "rewrite": _rewritten,
    "scop": _plain(
        "Each statement as the set of its instances, with what each instance reads and writes.",
        lambda made: scop_text(made.scop),
    ),
    "dependences": _plain(
        "Pairs of instances whose order matters, as both touch an element and one writes it. The"
        " updates of one accumulator may run in any order (R5), though not at once.",
        lambda made: dependences_text(made.dependences),
    ),
    "schedule": _scheduled,
    "plan": lambda explained: str(
        explained.lowering.mapped.plan
    ),  # to be kept in a file and given back
    "mapping": _mapped,
    "loops": _plain(
        "The tree as loops. Tails of tiles compute on elements that exist, and do not store.",
        lambda made: kernel_text(made.marked),
    ),
    "passes": _plain(
        "What each pass made of the loop program, with the time that it took. Lines with - are"
        " gone, those with + are new.",
        lambda made: passes_text(made.passes),
    ),
    "kernel": _kernel,
    "estimate": _estimated,
}
STAGES = tuple(_EXPLAINERS)


# --- text -----------------------------------------------------------------------------------------


def _after(words: str, text: str) -> str:
    return f"{_wrapped(words)}\n\n{text}"


def _wrapped(text: str) -> str:
    """Prose in lines; what has lines already stays."""
    return text if "\n" in text or text.startswith((" ", "-")) else fill(text, LINE_COLUMNS)


def _box(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "scalar"


def _memory(size: int) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} B"
