"""What texts for GPUs do, counted and modelled without a GPU.

    python -m bench.gpu_static                writes bench/results/gpu-static-sm_90.json and .md
    python -m bench.gpu_static NAME...        prints the rows of kernels with such names
    python -m bench.gpu_static NAME --lines   prints their texts, with the instructions of each line
    python -m bench.gpu_static --drawn SEED   forty programs that a hexadecimal seed draws
    python -m bench.gpu_static --regret SEED  how far chosen plans are from the best of some

For each launch of the kernels of `bench.gpu`, of ten more at prime sizes, and of a product that may
be rounded to tf32: registers, spills and stack, blocks that there are and that fit on a
multiprocessor, the hottest loop in machine code by kinds of instructions, what one block in the
middle and the last block execute and access, on the machine for PTX; and the time by the model of a
multiprocessor, with the constants of an H200.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tabulate import tabulate

import tc
from bench import gpu_drawn
from bench.cpu_kernels import contractions as cs
from bench.cpu_kernels import layers as ls
from bench.cpu_kernels import pointwise as ps
from bench.cpu_kernels.kernel import Kernel
from bench.gpu_kernels import KERNELS
from bench.gpu_launches import ARCH, MODELLED, counts_of, roofline
from bench.gpu_machines import MACHINES, RESULTS
from bench.public_products import agreement
from tc.backends import nvrtc, sass
from tc.backends.geometry import LaunchText

OUT = RESULTS / f"gpu-static-{ARCH}.json"
PRIMES = (
    cs.tmm(127, 1021, 509),
    cs.sgemm(1021, 509, 257),
    cs.tbmm(31, 23, 29, 37),
    ls.conv2d(3, 31, 29, 29, 37),
    ls.gconv(17, 13, 7, 11, 19, 23),
    ls.lut1(10007, 61, 53, 127),
    ls.mlp1(127, 1999, 131),
    ps.softmax(509, 1021),
    ps.layernorm(257, 1021),
    ps.transpose4d(31, 37, 41, 43),
)
"""Sizes that divide nothing."""
_SGEMM = cs.sgemm(2048, 2048, 2048)
ROUNDED = (replace(_SGEMM, name=f"{_SGEMM.name} tf32"),)
"""With factors that may be rounded to tf32."""
ALL = {**KERNELS, **{kernel.name: kernel for kernel in (*PRIMES, *ROUNDED)}}


def emitted(kernel: Kernel) -> LaunchText:
    zeros = {}
    for name, shape in kernel.shapes.items():
        selects_rows = kernel.rows and name.startswith("I")
        zeros[name] = np.zeros(shape, np.int32 if selects_rows else kernel.dtype)
    options = tc.Options(gpu=tc.GpuOptions(tf32=kernel in ROUNDED))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.TCWarning)
        gpu = tc.Gpu.named(ARCH)
        text = tc.emit(kernel.text, zeros, backend="cuda", device=gpu, options=options)
    assert isinstance(text, LaunchText)
    return text


def kernel_row(kernel: Kernel) -> dict[str, Any]:
    text, machine = emitted(kernel), MACHINES[MODELLED]
    places = {n: kernel.rows for n in kernel.shapes if kernel.rows and n.startswith("I")}
    launches = counts_of(text, machine.gpu, machine, places)
    moved = sum(
        int(np.prod(b.shape, dtype=np.int64)) * b.dtype.bytes
        for b in text.kernel.arguments
        if b.role != "temporary"
    )
    least = roofline(kernel.flops, kernel.read or moved)
    row = {"kernel": kernel.name, "limit us": round(1e6 * least, 2), "launches": launches}
    if all("model" in launch for launch in launches):
        row["model us"] = round(sum(launch["model"]["us"] for launch in launches), 1)
    return row


def lines_of(kernel: Kernel) -> Iterator[str]:
    """The text, each line with the instructions of machine code that are of it, by kind; those of
    the hottest loop have a star."""
    text = str(emitted(kernel))
    compiled = nvrtc.compiled(text, ARCH, lines=True)
    by_line: dict[int, Counter[str]] = {}
    for code in sass.disassembled(compiled.cubin).values():
        loop = sass.hottest(code)
        for number, i in enumerate(code):
            kind = i.kind + "*" * (loop.first <= number <= loop.last)
            by_line.setdefault(i.line, Counter())[kind] += 1
    for number, line in enumerate(text.splitlines(), 1):
        yield line
        if found := by_line.get(number):
            kinds = ", ".join(f"{count} {kind}" for kind, count in found.most_common())
            yield f"        // {kinds}"


HEADERS = (
    "kernel", "launch", "blocks", "threads", "regs", "spills", "shared", "fit", "FFMA", "sectors",
    "wavefronts", "model", "H200", "bound by",
)  # fmt: skip
COUNTERS = RESULTS / "gpu-counters-nvidia-h200.json"
SYSTEM_SHARED_BYTES = 1024
LEAST_COUNTED = 8
"""Launches from which on the model is ranked beside counters."""


def counted_launches() -> Mapping[tuple[str, str], Mapping[str, Any]]:
    """What the counters of an H200 said of launches with default options."""
    launches = json.loads(COUNTERS.read_text())["launches"]
    return {
        (row["kernel"], row["function"]): row
        for row in launches
        if (row["by"], row["options"]) == ("tc", "defaults")
    }


def is_as_counted(launch: Mapping[str, Any], counted: Mapping[str, Any]) -> bool:
    """Whether a launch is like the one that was counted: counters add to its shared memory what
    CUDA keeps in each block."""
    alike = all(launch[key] == counted[key] for key in ("registers", "blocks", "threads"))
    return alike and launch["shared bytes"] + SYSTEM_SHARED_BYTES == counted["shared"]


def over_least(launch: Mapping[str, Any], memory: str) -> str:
    """How many times the least parts the accesses to a memory take, in both blocks."""
    rows = [
        row
        for block in ("interior block", "last block")
        for name, row in launch[block]["accesses"].items()
        if name.startswith(memory)
    ]
    least = sum(row["least"] for row in rows)
    return f"{sum(row['parts'] for row in rows) / least:.2f}" if least else "-"


def bound_by(model: Mapping[str, float]) -> str:
    units = {name: model[name] for name in ("issue", "floats", "shared", "second_cache", "memory")}
    name, share = max(units.items(), key=lambda kv: kv[1])
    shown = f"{name.replace('_', ' ')} {share:.0%}"
    return shown if share > 0.6 else f"waiting {model['waiting']:.0%}, {shown}"


def beside_counters(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """Microseconds of the launches that the counters have seen as they are, and of the model."""
    known = counted_launches()
    return [
        {"published": counted["nanoseconds"] / 1000, "model": launch["model"]["us"]}
        for row in rows
        for launch in row["launches"]
        if (counted := known.get((row["kernel"], launch["function"])))
        and is_as_counted(launch, counted)
    ]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    known = counted_launches()
    for row in rows:
        for number, launch in enumerate(row["launches"]):
            model = launch.get("model")
            counted = known.get((row["kernel"], launch["function"]))
            measured = "-"
            if counted is not None and is_as_counted(launch, counted):
                measured = f"{counted['nanoseconds'] / 1000:.1f} us"
            lines.append(
                (
                    "" if number else row["kernel"], launch["function"], launch["blocks"],
                    launch["threads"], launch["registers"], launch["spills"],
                    launch["shared bytes"], launch["blocks that fit a multiprocessor"],
                    f"{launch['share of FFMA']:.2f}" if "share of FFMA" in launch else "-",
                    over_least(launch, "global"), over_least(launch, "shared"),
                    f"{model['us']:.1f} us" if model else "-", measured,
                    bound_by(model) if model else "-",
                )
            )  # fmt: skip
    return tabulate(lines, HEADERS, tablefmt="github", disable_numparse=True)


def agreement_with_counters(rows: Sequence[Mapping[str, Any]]) -> str:
    """How the model stands to what an H200 has counted, if that were launches enough."""
    both = beside_counters(rows)
    if len(both) < LEAST_COUNTED:
        return f"{len(both)} of all, too few to rank"
    ranks, factor, right = agreement(both)
    return f"""rank correlation {ranks:.2f}, median factor {factor:.2f}; of pairs that differ by a
quarter in both, {right:.0%} are in the order that was measured"""


def report(rows: Sequence[Mapping[str, Any]]) -> str:
    return f"""{ARCH}, NVRTC {nvrtc.version()}, default options. `model` are times by a model of a
multiprocessor with the constants of an {MODELLED} (bench/gpu_machines.py), not measured ones; of
kernels that differ by less than a quarter it does not claim which one is faster
(gpu-static-public.md). `H200` are times that the counters of an H200 gave
(gpu-counters-nvidia-h200.json), where the launch had the same blocks, threads, registers and shared
memory then: {agreement_with_counters(rows)}.

`fit`: blocks that fit on a multiprocessor. `FFMA`: their share of the hottest loop. `sectors`,
`wavefronts`: accesses to global and shared memory over the least that their bytes need. `bound
by`: the unit of a multiprocessor that is busiest, and, if none is for 60 % of the time, how much
of it no warp of a scheduler could issue.

{table(rows)}
"""


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="parts of names of kernels; else all")
    parser.add_argument("--lines", action="store_true", help="texts with their machine code")
    parser.add_argument("--drawn", metavar="SEED", help="such as the first digits of a commit")
    parser.add_argument("--regret", metavar="SEED")
    chosen = parser.parse_args(given)
    if not nvrtc.is_installed():
        print("NVRTC is missing: pip install nvidia-cuda-nvrtc")
        return 1
    if not sass.is_installed():
        print("nvdisasm is missing: pip install nvidia-cuda-nvdisasm")
        if chosen.lines or not chosen.names:
            return 1
    for seed, told in ((chosen.drawn, gpu_drawn.drawn), (chosen.regret, gpu_drawn.regrets)):
        if seed:
            print(told(seed))
    if chosen.drawn or chosen.regret:
        return 0
    rows = []
    for name, kernel in ALL.items():
        if chosen.names and not any(word in name for word in chosen.names):
            continue
        if chosen.lines:
            print(*lines_of(kernel), sep="\n")
            continue
        begin = time.perf_counter()
        rows.append(kernel_row(kernel))
        took = time.perf_counter() - begin
        told = json.dumps(rows[-1]) if chosen.names else f"{name}: {rows[-1].get('model us')} us"
        print(f"{told} ({took:.1f} s)", flush=True)
    if not chosen.names and not chosen.lines:
        OUT.write_text(json.dumps(rows, indent=1) + "\n")
        OUT.with_suffix(".md").write_text(report(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
