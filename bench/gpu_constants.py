"""Measures the constants of a GPU that a model of its multiprocessors needs.

These are latencies, wavefronts of shared memory, rates, the clock under load, a launch:

    python -m bench.gpu_constants --out bench/results/gpu-constants-nvidia-h200.json

Each number is that of a kernel of its own, compiled by NVRTC. Latencies are those of chains, in
which each instruction waits for the one before. Cycles are counted by the counter of one
multiprocessor (`clock64`); where all multiprocessors take part, seconds are counted by events.

Where there is no GPU it says so, and that is no failure.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import cpu_machine
from bench.gpu_device import GpuDevice, NoGpu, asked_of_smi, count_gpus
from bench.gpu_limits import fma_run
from tc.backends import nvrtc
from tc.backends.cuda_driver import opened_driver
from tc.backends.geometry import LaunchGeometry

STEPS = 512
"""Of a chain, unrolled by 64: what the loop itself takes is then a small part."""
REPEATS = 5
"""Times each kernel runs; the least count is reported."""
KIB, MIB = 2**10, 2**20

# A chain in registers: `X` is written by each step and read by the next.
CHAINS = {
    "FFMA": ("float", "X = fmaf(X, 0.999f, 0.5f);"),
    "FADD": ("float", "X = X + 0.5f;"),
    "DFMA": ("double", "X = fma(X, 0.999, 0.5);"),
    "IMAD": ("int", 'asm volatile("mad.lo.s32 %0, %0, 3, 1;" : "+r"(X));'),
    "MUFU.EX2": ("float", 'asm volatile("ex2.approx.f32 %0, %0;" : "+f"(X));'),
    "MUFU.RCP": ("float", 'asm volatile("rcp.approx.f32 %0, %0;" : "+f"(X));'),
    "SHFL": ("float", "X = __shfl_xor_sync(0xffffffffu, X, 1);"),
}

# Where a lane reads shared memory, in words of 32 bits from the start of the array, by the number
# `l` of the lane and the `words` of a read.
PATTERNS = {
    "broadcast": "0",
    "neighbours": "l * words",
    "stride 2": "l * words * 2",
    "stride 32 words": "l * 32 % 2048",
    "stride 33 words": "l * 33 * words % 2048 / words * words",
    "pairs": "l / 2 * words",
    "halves": "l % 16 * words",
    "rows of 8": "l / 8 * words",
}
WIDTHS = {1: "float", 2: "float2", 4: "float4"}


@dataclass(frozen=True)
class Probe:
    """A kernel whose function is `f(float* data, long long* cycles)`; `per` is the number of the
    operations over which the cycles are shared out."""

    name: str
    text: str
    per: int
    threads: int = 32
    bytes: int = 16 * KIB
    """Of `data`."""


def chain(name: str, kind: str, step: str) -> Probe:
    """A chain in registers."""
    text = f"""
extern "C" __global__ void f(float* data, long long* cycles) {{
  {kind} x = ({kind})data[threadIdx.x];
  long long begin = clock64();
#pragma unroll 64
  for (int k = 0; k < {STEPS}; ++k) {{ {step.replace("X", "x")} }}
  long long end = clock64();
  if (x == ({kind})12345) data[0] = 1.0f;
  if (threadIdx.x == 0) cycles[0] = end - begin;
}}
"""
    return Probe(f"latency {name}", text, STEPS)


def barrier(threads: int) -> Probe:
    """Barriers of a block, one after the other."""
    text = f"""
extern "C" __global__ void f(float* data, long long* cycles) {{
  __syncthreads();
  long long begin = clock64();
#pragma unroll 64
  for (int k = 0; k < {STEPS}; ++k) __syncthreads();
  long long end = clock64();
  if (threadIdx.x == 0) cycles[0] = end - begin;
}}
"""
    return Probe(f"latency BAR of {threads} threads", text, STEPS, threads)


def shared_chain(words: int) -> Probe:
    """Reads of shared memory whose place is what the read before found: 0, always."""
    text = f"""
extern "C" __global__ void f(float* data, long long* cycles) {{
  __shared__ __align__(16) int places[512];
  for (int k = threadIdx.x; k < 512; k += 32) places[k] = 0;
  __syncthreads();
  int at = 0;
  long long begin = clock64();
#pragma unroll 64
  for (int k = 0; k < {STEPS}; ++k) {{
    volatile int* p = places + at * {words};
    int4 w;
    unsigned address = (unsigned)__cvta_generic_to_shared((void*)p);
    {_shared_read(words)}
    at = w.x;
  }}
  long long end = clock64();
  if (at == 12345) data[0] = 1.0f;
  if (threadIdx.x == 0) cycles[0] = end - begin;
}}
"""
    return Probe(f"latency LDS.{32 * words}", text, STEPS)


def _shared_read(words: int) -> str:
    """Inline PTX: `w` of `address`, that the compiler may not leave out."""
    names = ["w.x", "w.y", "w.z", "w.w"][:words]
    places = ", ".join(f"%{n}" for n in range(words))
    vector = f".v{words}" if words > 1 else ""
    held = f"{{{places}}}" if words > 1 else places
    outputs = ", ".join(f'"=r"({name})' for name in names)
    read = f"ld.volatile.shared{vector}.u32 {held}, [%{words}];"
    return f'asm volatile("{read}" : {outputs} : "r"(address));'


def global_chain(name: str, size: int, *, warm: bool) -> Probe:
    """Reads of global memory that follow a ring of places, a line of 128 bytes each, over `size`
    bytes: few enough for the cache that is meant, and too many for the one before. The chain begins
    at the place that `cycles` holds; a `warm` one goes around the ring once before."""
    read = 'asm volatile("ld.global.ca.s32 %0, [%1];" : "=r"(next) : "l"(p + at)); at = next;'
    text = f"""
extern "C" __global__ void f(float* data, long long* cycles) {{
  const char* p = (const char*)data;
  long long at = cycles[0];
  int next;
  for (int k = 0; k < {size // 128 if warm else 0}; ++k) {{ {read} }}
  long long begin = clock64();
#pragma unroll 64
  for (int k = 0; k < {STEPS}; ++k) {{ {read} }}
  long long end = clock64();
  if (at == 1) data[0] = 1.0f;
  cycles[0] = end - begin;
}}
"""
    return Probe(f"latency LDG, {name}", text, STEPS, threads=1, bytes=size)


def ring(size: int, rng: np.random.Generator) -> np.ndarray:
    """At each line of 128 bytes the place in bytes of the next line, in an order drawn at random.

    >>> places = ring(512, np.random.default_rng(0)).view(np.int32)[::32]
    >>> sorted(places.tolist())
    [0, 128, 256, 384]
    """
    lines = size // 128
    order = rng.permutation(lines)
    values = np.zeros((lines, 32), np.int32)
    values[order, 0] = np.roll(order, -1) * 128
    return values.reshape(-1).view(np.float32)


def wavefronts(pattern: str, place: str, words: int) -> Probe:
    """Reads of shared memory by eight warps, none of which waits for another: the unit that serves
    them is always busy."""
    reads = 8
    body = "\n".join(
        f"    {{ unsigned address = base; {_shared_read(words)} sum += w.x; }}"
        for _ in range(reads)
    )
    text = f"""
extern "C" __global__ void __launch_bounds__(256) f(float* data, long long* cycles) {{
  __shared__ __align__(16) int values[4096];
  for (int k = threadIdx.x; k < 4096; k += 256) values[k] = 0;
  const int l = threadIdx.x % 32, words = {words};
  (void)l, (void)words;  // some patterns need none of these
  unsigned base = (unsigned)__cvta_generic_to_shared(values + ({place}) % 4096);
  int sum = 0;
  int4 w;
  __syncthreads();
  long long begin = clock64();
  for (int k = 0; k < {STEPS // reads}; ++k) {{
{body}
  }}
  __syncthreads();
  long long end = clock64();
  if (sum == 12345) data[0] = 1.0f;
  if (threadIdx.x == 0) cycles[0] = end - begin;
}}
"""
    return Probe(f"wavefronts LDS.{32 * words}, {pattern}", text, 8 * STEPS, threads=256)


def issue(name: str, kind: str, step: str, warps: int = 32) -> Probe:
    """Cycles of one multiprocessor for an instruction of one warp, where each of `warps` has eight
    chains of it."""
    steps = " ".join(step.replace("X", f"x{n}") for n in range(8))
    declared = " ".join(f"{kind} x{n} = ({kind})data[threadIdx.x] + ({kind}){n};" for n in range(8))
    text = f"""
extern "C" __global__ void f(float* data, long long* cycles) {{
  {declared}
  __syncthreads();
  long long begin = clock64();
#pragma unroll 4
  for (int k = 0; k < {STEPS}; ++k) {{ {steps} }}
  __syncthreads();
  long long end = clock64();
  if ({" + ".join(f"x{n}" for n in range(8))} == ({kind})12345) data[0] = 1.0f;
  if (threadIdx.x == 0) cycles[0] = end - begin;
}}
"""
    return Probe(f"cycles of {name}, {warps} warps", text, 8 * STEPS * warps, threads=32 * warps)


def probes() -> Iterator[Probe]:
    """All that count cycles of one multiprocessor."""
    for name, (kind, step) in CHAINS.items():
        yield chain(name, kind, step)
    for threads in (32, 256, 1024):
        yield barrier(threads)
    for words in WIDTHS:
        yield shared_chain(words)
    yield global_chain("first cache", 32 * KIB, warm=True)
    yield global_chain("second cache", 8 * MIB, warm=True)
    yield global_chain("memory", 1024 * MIB, warm=False)
    for pattern, place in PATTERNS.items():
        for words in WIDTHS:
            yield wavefronts(pattern, place, words)
    for name, (kind, step) in CHAINS.items():
        yield issue(name, kind, step)


def stream(size: int, rounds: int) -> str:
    """Reads of `size` bytes, `rounds` times over, 16 bytes a thread, past the first cache."""
    return f"""
extern "C" __global__ void __launch_bounds__(256) f(const float4* data, float* out) {{
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  for (int r = 0; r < {rounds}; ++r)
    for (int k = blockIdx.x * 256 + threadIdx.x; k < {size // 16}; k += gridDim.x * 256) {{
      float4 v;
      asm volatile("ld.global.cg.v4.f32 {{%0, %1, %2, %3}}, [%4];"
                   : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(data + k));
      sum.x += v.x; sum.y += v.y; sum.z += v.z; sum.w += v.w;
    }}
  if (sum.x + sum.y + sum.z + sum.w == 12345.0f) out[0] = 1.0f;
}}
"""


def numbers(device: GpuDevice) -> Iterator[tuple[str, float, str]]:
    """Each constant as words, number and unit; the number is NaN where a probe failed, with a line
    that says why."""
    driver = opened_driver().driver
    gpu = driver.gpu(0)
    rng = np.random.default_rng(0)
    with driver.on(0):
        for probe in probes():
            try:
                cycles = cycles_of(device, driver, gpu.arch, probe, rng)
                yield probe.name, cycles / probe.per, "cycles"
            except Exception as error:  # whatever a driver raises: the others are still measured
                print(f"{probe.name}: {error}", file=sys.stderr)
                yield probe.name, float("nan"), "cycles"
        for name, size in (("second cache", 16 * MIB), ("memory", 2048 * MIB)):
            yield f"reads of {name}", stream_rate(device, driver, gpu, size), "bytes/s"
        yield "clock under load", clock_rate(device, driver, gpu.arch), "Hz"
        yield (
            "launches by Python, one after the other",
            launch_seconds(device, driver, gpu.arch),
            "s",
        )


def cycles_of(
    device: GpuDevice, driver: Any, arch: str, probe: Probe, rng: np.random.Generator
) -> int:
    """The least cycles of some runs of a probe by one block."""
    is_ring = probe.name.startswith("latency LDG")
    values = ring(probe.bytes, rng) if is_ring else np.zeros(probe.bytes // 4, np.float32)
    data, cycles = device.tensor(values), device.tensor(np.zeros(1, np.int64))
    begins = rng.integers(probe.bytes // 128, size=REPEATS) * 128
    geometry = LaunchGeometry("f", (1, 1, 1), (probe.threads, 1, 1))
    launch = driver.launcher(driver.load(nvrtc.compiled(probe.text, arch).cubin), geometry, 2)
    found = []
    for begin in begins:
        cycles.fill_(int(begin))
        launch([data.data_ptr(), cycles.data_ptr()], device.stream)
        device.wait()
        found.append(int(cycles.item()))
    return min(found)


def stream_rate(device: GpuDevice, driver: Any, gpu: Any, size: int) -> float:
    """Bytes a second that all multiprocessors read together, of `size` bytes over and over."""
    rounds = max(1, 4096 * MIB // size)
    text = stream(size, rounds)
    data = device.tensor(np.zeros(size // 4, np.float32))
    out = device.tensor(np.zeros(1, np.float32))
    geometry = LaunchGeometry("f", (8 * gpu.processors, 1, 1), (256, 1, 1))
    launch = driver.launcher(driver.load(nvrtc.compiled(text, gpu.arch).cubin), geometry, 2)
    addresses = [data.data_ptr(), out.data_ptr()]
    return size * rounds / least(device, lambda: launch(addresses, device.stream))


def clock_rate(device: GpuDevice, driver: Any, arch: str) -> float:
    """Cycles a second, of a chain of a few milliseconds beside a second of load before it."""
    run, _ = fma_run(device)
    end = time.perf_counter() + 1.0
    while time.perf_counter() < end:
        run()
        device.wait()
    text = chain("FFMA", *CHAINS["FFMA"]).text.replace(str(STEPS), str(STEPS * 4096))
    data, cycles = device.tensor(np.zeros(32, np.float32)), device.tensor(np.zeros(1, np.int64))
    geometry = LaunchGeometry("f", (1, 1, 1), (32, 1, 1))
    launch = driver.launcher(driver.load(nvrtc.compiled(text, arch).cubin), geometry, 2)
    seconds = device.seconds(lambda: launch([data.data_ptr(), cycles.data_ptr()], device.stream))
    return int(cycles.item()) / seconds


def launch_seconds(device: GpuDevice, driver: Any, arch: str, count: int = 1000) -> float:
    """From one launch of an empty kernel to the next, of many that stand in line."""
    text = 'extern "C" __global__ void f(float* data, long long* cycles) {}'
    data, cycles = device.tensor(np.zeros(1, np.float32)), device.tensor(np.zeros(1, np.int64))
    geometry = LaunchGeometry("f", (1, 1, 1), (32, 1, 1))
    launch = driver.launcher(driver.load(nvrtc.compiled(text, arch).cubin), geometry, 2)

    def many() -> None:
        for _ in range(count):
            launch([data.data_ptr(), cycles.data_ptr()], device.stream)

    return least(device, many) / count


def least(device: GpuDevice, run: Callable[[], None]) -> float:
    """The least seconds of some runs, after one that is not counted."""
    run()
    return min(device.seconds(run) for _ in range(REPEATS))


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, help="the .json file")
    parser.add_argument("--commit", default="", help="of the code, where git cannot tell")
    chosen = parser.parse_args(given)
    try:
        count_gpus()
    except NoGpu as error:
        print(f"There is no GPU here ({error}), so nothing is measured.")
        return 0
    import torch

    device = GpuDevice(torch)
    machine = cpu_machine.describe(("torch", "numpy", "cuda-bindings"), 1) | device.describe()
    if chosen.commit:
        machine |= {"commit": chosen.commit, "changed_files": 0}
    machine |= {"nvrtc": nvrtc.version(), "clock now": asked_of_smi("clocks.sm")}
    found = {}
    for name, number, unit in numbers(device):
        print(f"{name}: {number:.4g} {unit}", flush=True)
        found[name] = {"number": number, "unit": unit}
        if chosen.out is not None:
            chosen.out.write_text(json.dumps({"machine": machine, "constants": found}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
