"""Reads what a GPU's own counters say of the kernels of `bench.gpu`, by Nsight Compute (`ncu`).

    python -m bench.gpu_counters --out bench/results/gpu-counters-nvidia-h200.json

Each kernel is run once, with tc's default options and with the paper's, and each of its launches is
profiled. The clocks are left as they are. The numbers are counts of one run: sectors of 32 bytes,
wavefronts, instructions of warps.

Where there is no GPU, or no `ncu`, it says so, and that is no failure.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import cpu_machine
from bench.cpu import words
from bench.gpu_device import GpuDevice, NoGpu, count_gpus
from bench.gpu_kernels import select

METRICS = {
    "nanoseconds": "gpu__time_duration.sum",
    "cycles": "sm__cycles_elapsed.max",
    "registers": "launch__registers_per_thread",
    "blocks": "launch__grid_size",
    "threads": "launch__block_size",
    "shared": "launch__shared_mem_per_block",
    "instructions": "smsp__inst_executed.sum",
    "issue share": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "warps share": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "FFMA of threads": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    "global reads": "smsp__inst_executed_op_global_ld.sum",
    "global read sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global writes": "smsp__inst_executed_op_global_st.sum",
    "global write sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared reads": "smsp__inst_executed_op_shared_ld.sum",
    "shared read wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared writes": "smsp__inst_executed_op_shared_st.sum",
    "shared write wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "second cache read sectors": "lts__t_sectors_op_read.sum",
    "second cache write sectors": "lts__t_sectors_op_write.sum",
    "memory bytes read": "dram__bytes_read.sum",
    "memory bytes written": "dram__bytes_write.sum",
}
"""What is asked for, by the names of the results; `ncu` has the names on the right."""

LIMIT = 540.0
"""Seconds for all kernels of one process."""
MARK = "counted: "


def run_once(names: Sequence[str], peers: Sequence[str]) -> None:
    """Runs kernels under the profiler, which looks between the two calls of CUDA's alone. Prints a
    line before each with the kernel, the options and how many launches follow."""
    import torch

    import tc
    from bench.gpu_worker import GpuCase, forms_of

    device = GpuDevice(torch)
    profiler = torch.cuda.cudart()
    for kernel in select(names):
        case = GpuCase(kernel, device)
        for peer in peers:
            for name, form in forms_of(peer, case, "cuda").items():
                run = form()
                case.reset()
                run()
                device.wait()
                case.reset()
                device.wait()
                launches = launches_of(tc, case, kernel, peer, name)
                print(MARK + json.dumps([kernel.name, peer, name, launches]), flush=True)
                profiler.cudaProfilerStart()
                run()
                device.wait()
                profiler.cudaProfilerStop()


def launches_of(tc: Any, case: Any, kernel: Any, peer: str, name: str) -> int:
    """How many launches a kernel has, by its text."""
    from bench.gpu_kernels import PAPER

    options = PAPER[kernel.name][name] if peer == "paper" else None
    text = tc.emit(kernel.text, case.inputs, backend="cuda", options=options)
    return len(text.launches)


def counted(printed: str) -> list[dict[str, Any]]:
    """What `ncu` printed, with the lines of `run_once` in it: launch by launch, in order.

    >>> printed = '''counted: ["mm 2x2", "tc", "defaults", 1]
    ... "ID","Kernel Name","smsp__inst_executed.sum"
    ... "","","inst"
    ... "0","mm_0","1,024"
    ... '''
    >>> [launch] = counted(printed)
    >>> launch["kernel"], launch["options"], launch["function"], launch["instructions"]
    ('mm 2x2', 'defaults', 'mm_0', 1024.0)
    """
    lines = printed.splitlines()
    marks = [json.loads(line[len(MARK) :]) for line in lines if line.startswith(MARK)]
    table = "\n".join(line for line in lines if line.startswith('"'))
    rows = list(csv.DictReader(io.StringIO(table)))[1:]  # the first has the units
    found, left = [], iter(rows)
    for kernel, by, options, launches in marks:
        for _, row in zip(range(launches), left, strict=False):
            found.append(
                {"kernel": kernel, "by": by, "options": options, "function": row["Kernel Name"]}
                | numbers_of(row)
            )
    return found


def numbers_of(row: Mapping[str, str]) -> dict[str, float]:
    """The numbers of a launch by the names of `METRICS`; what the profiler could not count is left
    out."""
    found = {}
    for name, metric in METRICS.items():
        try:
            found[name] = float(row.get(metric, "").replace(",", ""))
        except ValueError:
            continue
    return found


def profile(names: Sequence[str], peers: Sequence[str]) -> str:
    """The output of `ncu` about a process that runs these kernels."""
    command = ["ncu", "--profile-from-start", "off", "--csv", "--page", "raw"]
    command += ["--clock-control", "none", "--print-units", "base"]
    command += ["--metrics", ",".join(METRICS.values())]
    command += [sys.executable, "-m", "bench.gpu_counters", "--once"]
    command += ["--kernels", ",".join(names), "--peers", ",".join(peers)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=False, timeout=LIMIT, errors="replace"
    )
    if done.returncode:
        print(done.stdout[-2000:], file=sys.stderr)
    return done.stdout


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--kernels", default="", help="seeds, others, or parts of names: a,b")
    parser.add_argument("--peers", default="tc,paper", help="tc, paper")
    parser.add_argument("--out", type=Path, help="the .json file")
    parser.add_argument("--commit", default="", help="of the code, where git cannot tell")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args(given)
    names, peers = words(chosen.kernels), words(chosen.peers)
    if chosen.once:
        run_once(names, peers)
        return 0
    try:
        count_gpus()
    except NoGpu as error:
        print(f"There is no GPU here ({error}), so nothing is counted.")
        return 0
    if shutil.which("ncu") is None:
        print("There is no ncu here (Nsight Compute), so nothing is counted.")
        return 0
    import torch

    machine = cpu_machine.describe(("torch", "numpy", "cuda-bindings"), 1)
    machine |= GpuDevice(torch).describe()
    if chosen.commit:
        machine |= {"commit": chosen.commit, "changed_files": 0}
    found = counted(profile(names, peers))
    for row in found:
        print(json.dumps(row), flush=True)
    if chosen.out is not None:
        chosen.out.write_text(json.dumps({"machine": machine, "launches": found}, indent=1))
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
