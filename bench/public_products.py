"""Products of float32 matrices, 4096 x 4096, of which others have published times: siboehm
(SGEMM_CUDA, on an A6000) and Lei Mao (CUDA-GEMM-Optimization, on an RTX 3090). The texts are of
this project, made from the tiles that the authors name. They take the length of the sums as an
argument, so that the first steps of a kernel can be modelled, and the others follow.

`python -m bench.public_products` writes bench/results/gpu-static-public.json and .md.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from tabulate import tabulate

from bench.gpu_counts import Memory
from bench.gpu_machines import MACHINES, RESULTS
from bench.gpu_model import modelled
from bench.multiprocessor import Machine
from tc.backends import nvrtc, sass
from tc.backends.geometry import LaunchGeometry
from tests.support.ptx.parse import parse

N = 4096
OUT = RESULTS / "gpu-static-public.json"


@dataclass(frozen=True)
class Product:
    """C = alpha * A * B + beta * C by blocks of `threads`, each for `rows` x `columns` of C, in
    steps of `depth`, each thread for `high` x `wide`.

    `wide_copies`: global memory is accessed by 16 bytes. `transposed`: the tile of A lies in shared
    memory column by column. `pitch`: more elements in a row of the tile of B. `linear`: in the tile
    of B, the first columns of all threads lie side by side, then the second. `warp_rows`,
    `warp_columns`: the part of a warp, whose threads are `lanes` rows and columns, each with
    `column_parts` groups of columns. `guarded`: each copy tests that it is within the matrices.
    Without `depth`, operands are read from global memory, and `across` says that the threads of a
    warp lie along rows of C.
    """

    published: float  # TFLOP/s
    rows: int = 32
    columns: int = 32
    depth: int = 0
    threads: int = 1024
    high: int = 1
    wide: int = 1
    wide_copies: bool = False
    transposed: bool = False
    pitch: int = 0
    linear: bool = False
    warp_rows: int = 0
    warp_columns: int = 0
    lanes: tuple[int, int] = (0, 0)
    column_parts: int = 1
    guarded: bool = False
    across: bool = True

    @property
    def grid(self) -> tuple[int, int, int]:
        return (N // self.columns, N // self.rows, 1)

    @property
    def shared_bytes(self) -> int:
        return 4 * self.depth * (self.rows + self.columns + self.pitch)


LARGE: Mapping[str, Any] = {"rows": 128, "columns": 128, "threads": 256, "high": 8, "wide": 8}
FOURS: Mapping[str, Any] = {**LARGE, "wide_copies": True, "transposed": True}
WARPS: Mapping[str, Any] = {"transposed": True, "warp_rows": 64, "lanes": (8, 4)}

SIBOEHM: Mapping[str, Product] = {
    "1 naive": Product(0.3090, across=False),
    "2 coalesced 32": Product(1.9865),
    "3 shared 32x32x32": Product(2.9803, depth=32),
    "4 1D tile 64x64x8, 8 rows a thread": Product(
        8.4747, rows=64, columns=64, depth=8, threads=512, high=8),
    "5 2D tile 128x128x8, 8x8 a thread": Product(15.9717, depth=8, **LARGE),
    "7 bank conflicts, linear": Product(16.2134, depth=8, linear=True, **FOURS),
    "8 bank conflicts, extra column": Product(16.4592, depth=8, pitch=5, **FOURS),
    "6 vectorised": Product(18.2373, depth=8, **FOURS),
    "9 tuned 128x128x16, 8x8": Product(19.7210, depth=16, **FOURS),
    "10 warp tiles 128x128x16, warp 64x64, 4 sub, 8x4, 128 threads": Product(
        21.7793, depth=16, warp_columns=64, column_parts=4,
        **{**FOURS, **WARPS, "threads": 128, "wide": 16}),
}  # fmt: skip

LEI_MAO: Mapping[str, Product] = {
    "V00 not coalesced 32x32": Product(0.278129, across=False, guarded=True),
    "V01 coalesced 32x32": Product(1.7218, guarded=True),
    "V02 tile 32x32x32": Product(2.66157, depth=32, guarded=True),
    "V02 vectorised": Product(1.90514, depth=32, wide_copies=True, guarded=True),
    "V03 64x64x8, 8 a thread": Product(
        8.91318, rows=64, columns=64, depth=8, threads=512, high=8, guarded=True),
    "V03 vectorised": Product(
        4.04796, rows=64, columns=64, depth=8, threads=512, high=8, wide_copies=True, guarded=True),
    "V04 128x128x16, 8x8": Product(13.0247, depth=16, guarded=True, **LARGE),
    "V04 vectorised": Product(15.027, depth=16, guarded=True, wide_copies=True, **LARGE),
    "V05 transposed tile": Product(11.1448, depth=16, guarded=True, transposed=True, **LARGE),
    "V05 vectorised": Product(19.6688, depth=16, guarded=True, **FOURS),
    "V06 warp tiles 32x64, 8x8 lanes 4x8": Product(
        11.0703, depth=16, warp_columns=32, guarded=True, **LARGE, **WARPS),
    "V06 vectorised": Product(
        20.1649, depth=16, warp_columns=32, guarded=True, wide_copies=True, **LARGE, **WARPS),
}  # fmt: skip

TABLES: Mapping[str, tuple[str, Mapping[str, Product]]] = {
    "siboehm": ("A6000", SIBOEHM), "Lei Mao": ("RTX 3090", LEI_MAO),
}  # fmt: skip

HEAD = """extern "C" __global__ void __launch_bounds__({threads}) product(
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
    int depth, int pitch, float alpha, float beta)
{{
"""


def text_of(p: Product) -> str:
    """In CUDA C++: `product(A, B, C, depth, pitch, alpha, beta)`."""
    body = _direct(p) if not p.depth else _tiled(p)
    return HEAD.format(threads=p.threads) + body + "}\n"


def _direct(p: Product) -> str:
    slow, fast = ("row", "column") if p.across else ("column", "row")
    return f"""    const int {fast} = blockIdx.x * 32 + threadIdx.x % 32;
    const int {slow} = blockIdx.y * 32 + threadIdx.x / 32;
    if (row < pitch && column < pitch) {{
        float sum = 0.0f;
        for (int k = 0; k < depth; ++k)
            sum += A[row * pitch + k] * B[k * pitch + column];
        C[row * pitch + column] = alpha * sum + beta * C[row * pitch + column];
    }}
"""


def _tiled(p: Product) -> str:
    row_of, column_of = _places(p)
    return f"""    __shared__ __align__(16) float a[{p.rows * p.depth}];
    __shared__ __align__(16) float b[{p.depth * (p.columns + p.pitch)}];
{_indented(_owner(p), 1)}
    float sums[{p.high}][{p.wide}] = {{}};
    A += blockIdx.y * {p.rows} * pitch;
    B += blockIdx.x * {p.columns};
    for (int k0 = 0; k0 < depth; k0 += {p.depth}) {{
{_indented(_copy(p, "a", p.rows, p.depth), 2)}
{_indented(_copy(p, "b", p.depth, p.columns), 2)}
        __syncthreads();
        for (int k = 0; k < {p.depth}; ++k) {{
            float of_a[{p.high}], of_b[{p.wide}];
            for (int i = 0; i < {p.high}; ++i)
                of_a[i] = {_element(p, "a", row_of, "k")};
            for (int j = 0; j < {p.wide}; ++j)
                of_b[j] = {_element(p, "b", "k", column_of)};
            for (int i = 0; i < {p.high}; ++i)
                for (int j = 0; j < {p.wide}; ++j)
                    sums[i][j] += of_a[i] * of_b[j];
        }}
        __syncthreads();
    }}
    C += blockIdx.y * {p.rows} * pitch + blockIdx.x * {p.columns};
{_indented(_update(p, row_of, column_of), 1)}
"""


def _indented(text: str, depth: int) -> str:
    return "\n".join("    " * depth + line for line in text.splitlines())


def _owner(p: Product) -> str:
    """Where the rows and columns of a thread begin."""
    if not p.warp_rows:
        across = p.columns // p.wide
        return f"""const int row0 = threadIdx.x / {across} * {p.high};
const int column0 = threadIdx.x % {across} * {p.wide};"""
    across, lanes = p.columns // p.warp_columns, p.lanes[1]
    return f"""const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
const int row0 = warp / {across} * {p.warp_rows} + lane / {lanes} * {p.high};
const int column0 = warp % {across} * {p.warp_columns} + lane % {lanes} * {_group(p)};"""


def _group(p: Product) -> int:
    return p.wide // p.column_parts


def _places(p: Product) -> tuple[str, str]:
    """The row i and the column j of a thread."""
    if p.column_parts == 1:
        return "(row0 + i)", "(column0 + j)"
    step = p.lanes[1] * _group(p)
    return "(row0 + i)", f"(column0 + j / {_group(p)} * {step} + j % {_group(p)})"


def _element(p: Product, tile: str, row: str, column: str) -> str:
    if tile == "a":
        first, second, pitch = (column, row, p.rows) if p.transposed else (row, column, p.depth)
        return f"a[{first} * {pitch} + {second}]"
    if p.linear:
        across = p.columns // p.wide
        return f"b[({row} * {p.wide} + {column} % {p.wide}) * {across} + {column} / {p.wide}]"
    return f"b[{row} * {p.columns + p.pitch} + {column}]"


def _copy(p: Product, tile: str, rows: int, columns: int) -> str:
    """Of a step's tile, by all threads."""
    each = 4 if p.wide_copies else 1
    units = rows * columns // each
    matrix = "A" if tile == "a" else "B"
    row, column = ("row", "k0 + column") if tile == "a" else ("k0 + row", "column")
    source = f"{matrix}[({row}) * pitch + {column}]"
    if tile == "a":
        inside = f"blockIdx.y * {p.rows} + row < pitch && k0 + column < depth"
    else:
        inside = f"k0 + row < depth && blockIdx.x * {p.columns} + column < pitch"
    test = "" if units % p.threads == 0 else f"\n    if (unit >= {units}) break;"
    loop = f"""for (int turn = 0; turn < {-(-units // p.threads)}; ++turn) {{
    const int unit = turn * {p.threads} + threadIdx.x;{test}"""
    lines = [
        loop,
        f"    const int row = unit / {columns // each};",
        f"    const int column = unit % {columns // each} * {each};",
    ]
    if not p.wide_copies:
        value = f"({inside}) ? {source} : 0.0f" if p.guarded else source
        lines.append(f"    {_element(p, tile, 'row', 'column')} = {value};")
        return "\n".join([*lines, "}"])
    value = f"*(const float4*)&{source}"
    zeros = "make_float4(0.0f, 0.0f, 0.0f, 0.0f)"
    lines.append(
        f"    const float4 v = {f'({inside}) ? {value} : {zeros}' if p.guarded else value};"
    )
    target = _element(p, tile, "row", "column")
    if (tile == "a" and p.transposed) or (tile == "b" and (p.linear or p.pitch % 4)):
        for place, part in enumerate("xyzw"):
            lines.append(f"    {_element(p, tile, 'row', f'(column + {place})')} = v.{part};")
    else:
        lines.append(f"    *(float4*)&{target} = v;")
    return "\n".join([*lines, "}"])


def _update(p: Product, row: str, column: str) -> str:
    if not p.wide_copies or p.wide < 4:
        return f"""for (int i = 0; i < {p.high}; ++i)
    for (int j = 0; j < {p.wide}; ++j) {{
        float* c = C + {row} * pitch + {column};
        *c = alpha * sums[i][j] + beta * *c;
    }}"""
    parts = "\n".join(
        f"        v.{part} = alpha * sums[i][j + {place}] + beta * v.{part};"
        for place, part in enumerate("xyzw")
    )
    return f"""for (int i = 0; i < {p.high}; ++i)
    for (int j = 0; j < {p.wide}; j += 4) {{
        float4* c = (float4*)(C + {row} * pitch + {column});
        float4 v = *c;
{parts}
        *c = v;
    }}"""


# --- the model beside what is published -------------------------------------------------------

LENGTHS = (128, 256)
"""Of sums, that are modelled: so many first steps of a kernel; the others take as long."""


def seconds_of(p: Product, machine: Machine) -> float:
    """The time of a product by the model."""
    text = text_of(p)
    compiled = nvrtc.compiled(text, machine.gpu.arch, lines=True)
    geometry = LaunchGeometry("product", p.grid, (p.threads, 1, 1), p.shared_bytes)
    function, usage = parse(compiled.ptx)["product"], nvrtc.usage_in(compiled.log)["product"]
    code = sass.disassembled(compiled.cubin)["product"]
    times = []
    for length in LENGTHS:
        memory = Memory()
        matrices = [memory.add_zeros(name, 4 * N * N) for name in "ABC"]
        arguments = [*matrices, length, N, 0, 0]
        found = modelled(function, code, usage, geometry, arguments, memory, machine)
        times.append(found.seconds)
    first, second = LENGTHS
    return times[1] + (times[1] - times[0]) * (N - second) / (second - first)


def rows() -> Iterator[Mapping[str, Any]]:
    """What is published, and what the model says, in TFLOP/s."""
    for table, (machine, products) in TABLES.items():
        for name, product in products.items():
            tflops = 2 * N**3 / seconds_of(product, MACHINES[machine]) / 1e12
            yield {
                "table": table, "gpu": machine, "kernel": name, "published": product.published,
                "model": round(tflops, 3),
            }  # fmt: skip


def agreement(of_table: Sequence[Mapping[str, Any]]) -> tuple[float, float, float]:
    """Spearman's rank correlation of the model with what is published, the median of the factors
    between them, and the part of the pairs that both say differ by a quarter of which the model
    says which one is faster.

    >>> agreement([{"published": p, "model": 2 * p} for p in (1, 2, 4)])
    (1.0, 2.0, 1.0)
    """
    pairs = np.array([(row["published"], row["model"]) for row in of_table])
    ranks = pairs.argsort(axis=0).argsort(axis=0)
    factors = np.exp(np.abs(np.log(pairs[:, 1] / pairs[:, 0])))
    both = [
        (one > 0) == (other > 0)
        for first, second in combinations(np.log(pairs), 2)
        for one, other in [first - second]
        if min(abs(one), abs(other)) > np.log(1.25)
    ]
    ranked = np.corrcoef(ranks.T)[0, 1].round(9)
    return float(ranked), float(np.median(factors)), float(np.mean(both))


def report(found: Sequence[Mapping[str, Any]]) -> str:
    parts = []
    for table, (machine, _) in TABLES.items():
        own = [row for row in found if row["table"] == table]
        ranks, factor, right = agreement(own)
        lines = [(r["kernel"], r["published"], r["model"], f"{r['model'] / r['published']:.2f}")
                 for r in own]  # fmt: skip
        parts.append(
            f"{table}, {machine}, TFLOP/s: rank correlation {ranks:.2f},"
            f" median factor {factor:.2f}; of pairs that differ by a quarter in both, {right:.0%}"
            " are in the order that is published\n\n"
            + tabulate(lines, ("kernel", "published", "model", "factor"), tablefmt="github")
        )
    return "\n\n".join(parts) + "\n"


def main() -> int:
    if not (nvrtc.is_installed() and sass.is_installed()):
        print("NVRTC or nvdisasm is missing: pip install nvidia-cuda-nvrtc nvidia-cuda-nvdisasm")
        return 1
    found = []
    for row in rows():
        print(json.dumps(row), flush=True)
        found.append(row)
    OUT.write_text(json.dumps({"nvrtc": nvrtc.version(), "rows": found}, indent=1) + "\n")
    OUT.with_suffix(".md").write_text(report(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
