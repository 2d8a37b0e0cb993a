"""Kernels in CUDA C++ by hand, with what tensor cores need: tiles that cp.async copies to shared
memory while others are multiplied, fragments by ldmatrix, products by mma.sync; and sums of a warp
by exchanges."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.support.ptx.machine import Launch
from tests.support.ptx.memory import Array, GlobalMemory
from tests.support.ptx.parse import parse

TILE, DEPTH, THREADS = 64, 32, 128
"""Of a block of `PRODUCT`: rows and columns of C, the steps of a sum that a tile has, and threads,
in four warps, each for 32 x 32 of C."""


@dataclass(frozen=True)
class HalfProduct:
    """`product(A, B, C, M, N, K)`: C = A * B in float32 of halves, where K is a multiple of 8.

    A is M x K; B is N x K, or, `by_rows`, K x N, where N is a multiple of 8 and ldmatrix
    transposes. Tiles of `stages` steps are in shared memory, one of them used, the others on their
    way. `swizzled`: the groups of 16 bytes of a row are permuted so that eight rows of a matrix,
    and what eight threads copy, lie in different banks.
    """

    kind: str = "f16"
    stages: int = 2
    by_rows: bool = False
    swizzled: bool = True

    def __str__(self) -> str:
        defined = {"KIND": f'"{self.kind}"', "STAGES": self.stages, "SWIZZLED": int(self.swizzled)}
        head = "".join(f"#define {name} {value}\n" for name, value in defined.items())
        return head + _CHOICE.sub(r"\1" if self.by_rows else r"\2", PRODUCT)


_CHOICE = re.compile(r"#if BY_ROWS\n(.*?)#else\n(.*?)#endif\n", re.DOTALL)
PRODUCT = r"""
typedef unsigned short half_bits;

// Bytes of a group of 8 halves in a tile with 4 or 8 groups in a row.
#define NARROW(row, group) (16 * ((row) * 4 + (SWIZZLED ? (group) ^ (row) / 2 % 4 : (group))))
#if BY_ROWS
#define WIDE(row, group) (16 * ((row) * 8 + (SWIZZLED ? (group) ^ (row) % 8 : (group))))
#else
#endif
#define TILE_BYTES 4096

__device__ __forceinline__ void copy_group(unsigned target, const half_bits* source, bool inside)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(target), "l"(source), "r"(inside ? 16 : 0) : "memory");
}

__device__ __forceinline__ void copy_tiles(
    unsigned tile_a, const half_bits* A, const half_bits* B, int m0, int n0, int k0,
    int M, int N, int K)
{
    const unsigned tile_b = tile_a + TILE_BYTES;
    for (int turn = 0; turn < 2; turn++) {
        const int unit = 128 * turn + threadIdx.x;
        const int row = unit / 4, group = unit % 4, m = m0 + row, k = k0 + 8 * group;
        copy_group(tile_a + NARROW(row, group), A + (long long)m * K + k, m < M && k < K);
    }
    for (int turn = 0; turn < 2; turn++) {
        const int unit = 128 * turn + threadIdx.x;
#if BY_ROWS
        const int row = unit / 8, group = unit % 8, k = k0 + row, n = n0 + 8 * group;
        copy_group(tile_b + WIDE(row, group), B + (long long)k * N + n, k < K && n < N);
#else
        const int row = unit / 4, group = unit % 4, n = n0 + row, k = k0 + 8 * group;
        copy_group(tile_b + NARROW(row, group), B + (long long)n * K + k, n < N && k < K);
#endif
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

__device__ __forceinline__ void load_a(unsigned (&r)[4], unsigned at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}

__device__ __forceinline__ void load_b(unsigned (&r)[4], unsigned tile, int n, int group, int lane)
{
#if BY_ROWS
    const unsigned at = tile + WIDE(8 * group + lane % 16, n / 8 + lane / 16);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
#else
    const unsigned at = tile + NARROW(n + lane / 16 * 8 + lane % 8, group + lane / 8 % 2);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
#endif
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}

__device__ __forceinline__ void multiply(float (&c)[4], unsigned (&a)[4], unsigned* b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." KIND "." KIND ".f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

extern "C" __global__ void __launch_bounds__(128) product(
    const half_bits* __restrict__ A, const half_bits* __restrict__ B, float* __restrict__ C,
    int M, int N, int K)
{
    __shared__ __align__(128) unsigned char tiles[STAGES * 2 * TILE_BYTES];
    const unsigned first = (unsigned)__cvta_generic_to_shared(tiles);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row0 = 32 * (warp / 2), column0 = 32 * (warp % 2);
    const int m0 = blockIdx.y * 64, n0 = blockIdx.x * 64, steps = (K + 31) / 32;
    float sums[2][4][4] = {};
    for (int step = 0; step < STAGES - 1; step++)
        copy_tiles(first + step * 2 * TILE_BYTES, A, B, m0, n0, 32 * step, M, N, K);
    for (int step = 0; step < steps; step++) {
        const int next = step + STAGES - 1;
        copy_tiles(first + next % STAGES * 2 * TILE_BYTES, A, B, m0, n0, 32 * next, M, N, K);
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 1) : "memory");
        __syncthreads();
        const unsigned tile = first + step % STAGES * 2 * TILE_BYTES;
        #pragma unroll
        for (int group = 0; group < 4; group += 2) {
            unsigned a[2][4], b[2][4];
            #pragma unroll
            for (int i = 0; i < 2; i++)
                load_a(a[i], tile + NARROW(row0 + 16 * i + lane % 16, group + lane / 16));
            #pragma unroll
            for (int j = 0; j < 2; j++)
                load_b(b[j], tile + TILE_BYTES, column0 + 16 * j, group, lane);
            #pragma unroll
            for (int i = 0; i < 2; i++)
                #pragma unroll
                for (int j = 0; j < 4; j++)
                    multiply(sums[i][j], a[i], b[j / 2] + j % 2 * 2);
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
            for (int e = 0; e < 4; e++) {
                const int row = m0 + row0 + 16 * i + e / 2 * 8 + lane / 4;
                const int column = n0 + column0 + 8 * j + lane % 4 * 2 + e % 2;
                if (row < M && column < N)
                    C[(long long)row * N + column] = sums[i][j][e];
            }
}
"""

SUMS = """
extern "C" __global__ void __launch_bounds__(128) sums(
    const float* __restrict__ A, float* __restrict__ S, int rows)
{
    const int lane = threadIdx.x % 32, row = blockIdx.x * 4 + threadIdx.x / 32;
    if (row < rows) {
        float sum = 0.0f;
        for (int column = 0; column < COLUMNS; column += 32)
            if (column + lane < COLUMNS)
                sum += A[(long long)row * COLUMNS + column + lane];
        for (int distance = 16; distance > 0; distance /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, distance);
        if (lane == 0)
            S[row] = sum;
    }
}
"""


def text_of_sums(columns: int) -> str:
    """`sums(A, S, rows)`: the sum of a row of so many columns by each warp."""
    return f"#define COLUMNS {columns}\n" + SUMS


def bits_of(x: Array, kind: str) -> Array:
    """Numbers as halves of a kind; of bfloat16 those that are exact."""
    if kind == "f16":
        return x.astype(np.float16).view(np.uint16)
    return (x.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def product_of(product: HalfProduct, ptx: str, a: Array, b: Array) -> Array:
    """a @ b by the text, or a changed one, on the PTX machine."""
    (m, k), n = a.shape, b.shape[1]
    right = b if product.by_rows else b.T
    halves = [bits_of(x, product.kind) for x in (a, right)]
    grid = (-(-n // TILE), -(-m // TILE), 1)
    return _run(ptx, "product", grid, halves, (m, n), (m, n, k))


def sums_of(ptx: str, a: Array) -> Array:
    """The sums of rows by the text, or a changed one, on the PTX machine."""
    rows = len(a)
    return _run(ptx, "sums", (-(-rows // 4), 1, 1), [a.astype(np.float32)], (rows,), (rows,))


def _run(
    ptx: str, name: str, grid: tuple[int, int, int], given: Sequence[Array],
    shape: tuple[int, ...], numbers: Sequence[int],
) -> Array:  # fmt: skip
    memory, result = GlobalMemory(), np.full(shape, np.nan, np.float32)
    addresses = [memory.add(f"array {n}", array) for n, array in enumerate((*given, result))]
    Launch(parse(ptx)[name], grid, (THREADS, 1, 1), [*addresses, *numbers], memory).run()
    return memory.array(addresses[-1], result)
