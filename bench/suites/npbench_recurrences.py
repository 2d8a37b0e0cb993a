"""Programs of NPBench with recurrences, scatters and solvers: loops in Python over defs of tc."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bench.suites.compiled_texts import Functions
from bench.suites.npbench_programs import Kernel, parts, program

RECURRENCES: dict[str, Callable[[Functions], Kernel]] = {"azimint_hist": lambda f: f.azimint_hist}


def counters(count: int) -> np.ndarray:
    """The numbers below a count, each an array of one element, as defs take positions."""
    return np.arange(count, dtype=np.int32).reshape(-1, 1)


@program(RECURRENCES)
def mandelbrot2(f: Functions) -> Kernel:
    """The suite drops points that have diverged; here they stay, under a mask."""

    def run(
        xmin: float,
        xmax: float,
        ymin: float,
        ymax: float,
        xn: int,
        yn: int,
        steps: int,
        horizon: float = 2.0,
    ) -> tuple[np.ndarray, np.ndarray]:
        cx, cy = np.linspace(xmin, xmax, xn), np.linspace(ymin, ymax, yn)
        z = [np.zeros((yn, xn)) for _ in range(4)]
        count = np.zeros((yn, xn), np.int64)
        with np.errstate(all="ignore"):
            for number in np.arange(1, steps + 1).reshape(-1, 1):
                f.step(cx, cy, horizon, number, outputs=[*z, count])
        return z[2] + 1j * z[3], count

    return run


@program(RECURRENCES)
def adi(f: Functions) -> Kernel:
    """Rows of transposed p, q, v, u: a call for each step of a recurrence."""

    def half(N: int, u: np.ndarray, v: np.ndarray, *factors: float) -> None:
        p, q = np.empty((N, N)), np.empty((N, N))
        v[0, 1 : N - 1] = 1.0
        p[0] = 0.0
        q[0, 1 : N - 1] = 1.0
        for j in range(1, N - 1):
            f.forward(u[j], p[j - 1], q[j - 1], *factors, outputs=[p[j], q[j]])
        v[N - 1, 1 : N - 1] = 1.0
        for j in range(N - 2, 0, -1):
            f.back(p[j], q[j], v[j + 1], outputs=v[j])

    def run(steps: int, N: int, u: np.ndarray) -> np.ndarray:
        mul1, mul2 = 2.0 / steps * N * N, 1.0 / steps * N * N
        a = c = -mul1 / 2.0
        b = e = 1.0 + mul2
        d = g = -mul2 / 2.0
        v = np.empty((N, N))
        for _ in range(steps):
            half(N, u, v, a, b, c, d, g)
            transposed = u.T.copy()
            half(N, v.T.copy(), transposed, d, e, g, a, c)
            u[1 : N - 1] = transposed.T[1 : N - 1]
        return u

    return run


@program(RECURRENCES)
def channel_flow(f: Functions) -> Kernel:
    def run(
        inner: int,
        u: np.ndarray,
        v: np.ndarray,
        dt: float,
        dx: float,
        dy: float,
        p: np.ndarray,
        rho: float,
        nu: float,
        force: float,
    ) -> int:
        b, after, before = np.zeros_like(u), np.empty(()), np.empty(())
        change, count = 1.0, 0
        while change > 0.001:
            f.source_term(u, v, rho, dt, dx, dy, outputs=b)
            for _ in range(inner):
                f.pressure(b, dx, dy, outputs=p)
            f.velocity(p, rho, nu, dt, dx, dy, force, outputs=[u, v, after, before])
            change = float((after - before) / after)
            count += 1
        return count

    return run


@program(RECURRENCES)
def cholesky(f: Functions) -> Kernel:
    def run(A: np.ndarray) -> None:
        for k in counters(len(A)):
            f.step(k, len(A), outputs=A)

    return run


@program(RECURRENCES)
def cholesky2(f: Functions) -> Kernel:
    """In blocks: a kernel for each size of what is left."""

    def run(A: np.ndarray, block: int = 100) -> None:
        T = A
        for start in range(0, len(A), block):
            n = min(block, len(A) - start)
            end = start + n
            D = np.ascontiguousarray(T[:n, :n])
            for k in counters(n):
                f.factor(k, n, outputs=D)
            low = np.tril(D)
            A[start:end, start:end] = low + np.triu(A[start:end, start:end], 1)
            if end < len(A):
                inverse = np.eye(n)
                for k in counters(n):
                    f.inverse(low, k, outputs=inverse)
                panel = f.panel(T[n:, :n], inverse)
                T = f.update(T[n:, n:], panel)
                A[end:, start:end] = panel

    return run


@program(RECURRENCES)
def contour_integral(f: Functions) -> Kernel:
    """Gauss and Jordan with partial pivots, a call for each column, complex numbers as pairs."""

    def run(
        rows: int,
        columns: int,
        slabs: int,
        hamiltonian: np.ndarray,
        points: np.ndarray,
        Y: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        first, second = np.zeros((rows, columns), complex), np.zeros((rows, columns), complex)
        right = np.eye(rows) if rows == columns else Y
        for z in points:
            left = np.zeros((rows, rows), complex)
            for n in range(slabs + 1):
                left += np.power(z, slabs / 2 - n) * hamiltonian[n]
            re = np.concatenate([left.real, right.real], 1)
            im = np.concatenate([left.imag, right.imag], 1)
            for k in counters(rows):
                f.step(k, rows, rows + columns, outputs=[re, im])
            X = re[:, rows:] + 1j * im[:, rows:]
            X = -X if abs(z) < 1.0 else X
            first += X
            second += z * X
        return first, second

    return run


@program(RECURRENCES)
def crc16(f: Functions) -> Kernel:
    """The remainder is linear over GF(2), so that halves are joined in a tree."""

    def table(poly: int) -> np.ndarray:
        step = np.zeros((16, 16), np.int64)
        for bit in range(16):
            value = 1 << bit
            value = (value >> 1) ^ poly if value & 1 else value >> 1
            step[:, bit] = [value >> k & 1 for k in range(16)]
        return (np.linalg.matrix_power(step, 8) % 2).astype(np.int32)

    def run(data: np.ndarray, poly: int = 0x8408) -> int:
        T = table(poly)
        size = 1 << (len(data) - 1).bit_length()
        padded = np.zeros(size, np.uint8)
        begin = size - len(data)
        padded[begin:] = data
        padded[begin : begin + 2] ^= 0xFF
        c = f.bits(padded, np.ascontiguousarray(T[:, :8]))
        while len(c) > 1:
            c = f.join(c, T)
            T = T @ T % 2
        crc = ~int(sum(int(b) << k for k, b in enumerate(c[0]))) & 0xFFFF
        return ((crc << 8) | (crc >> 8 & 0xFF)) & 0xFFFF

    return run


@program(RECURRENCES)
def deriche(f: Functions) -> Kernel:
    """Both filters run over rows of one array; a call for each row of a recurrence."""

    def run(alpha: float, image: np.ndarray) -> np.ndarray:
        e = np.exp(-alpha)
        k = (1.0 - e) * (1.0 - e) / (1.0 + alpha * e - np.exp(2.0 * alpha))
        taps = k, k * e * (alpha - 1.0), k * e * (alpha + 1.0), -k * np.exp(-2.0 * alpha)
        b1, b2 = 2.0**-alpha, -np.exp(-2.0 * alpha)
        for _ in range(2):
            up, down = f.taps(image, *taps)
            f.step(up[0], np.zeros_like(up[0]), b1, b2, outputs=up[1])
            for j in range(2, len(up)):
                f.step(up[j - 1], up[j - 2], b1, b2, outputs=up[j])
            for j in range(len(up) - 3, -1, -1):
                f.step(down[j + 1], down[j + 2], b1, b2, outputs=down[j])
            image = f.add(up, down)
        return image

    return run


@program(RECURRENCES)
def durbin(f: Functions) -> Kernel:
    def run(r: np.ndarray) -> np.ndarray:
        y, beta, alpha = np.zeros_like(r), np.array(1.0), np.array(-r[0])
        y[0] = -r[0]
        for k in counters(len(r))[1:]:
            f.step(r, k, outputs=[y, beta, alpha])
        return y

    return run


@program(RECURRENCES)
def gramschmidt(f: Functions) -> Kernel:
    def run(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        M, N = A.shape
        Q, R = np.zeros((N, M)), np.zeros((N, N))
        for k, q, r in zip(counters(N), Q, R, strict=True):
            f.step(k, M, N, outputs=[A, q, r])
        return Q.T, R

    return run


@program(RECURRENCES)
def lu(f: Functions) -> Kernel:
    def run(A: np.ndarray) -> None:
        for k in counters(len(A))[:-1]:
            f.step(k, len(A), outputs=A)

    return run


@program(RECURRENCES)
def ludcmp(f: Functions) -> Kernel:
    def run(A: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        N = len(A)
        ks, y, x = counters(N), np.zeros(N), np.zeros(N)
        for k in ks[:-1]:
            f.factor(k, N, outputs=A)
        for i in range(N):
            f.low(A[i], b[i], ks[i], outputs=y)
        for i in reversed(range(N)):
            f.high(A[i], y[i], ks[i], outputs=x)
        return x, y

    return run


@program(RECURRENCES)
def trisolv(f: Functions) -> Kernel:
    def run(L: np.ndarray, x: np.ndarray, b: np.ndarray) -> None:
        for row, value, k in zip(L, b, counters(len(x)), strict=True):
            f.low(row, value, k, outputs=x)

    return run


@program(RECURRENCES)
def nussinov(f: Functions) -> Kernel:
    """The table by its diagonals: a call for each."""

    def run(N: int, seq: np.ndarray) -> np.ndarray:
        diagonals, ks = np.zeros((N, N), np.int32), counters(N)
        for d in range(1, N):
            diagonals[d] = f.step(seq, diagonals, ks[d])
        table = np.zeros((N, N), np.int32)
        i, j = np.triu_indices(N, 1)
        table[i, j] = diagonals[j - i, i]
        return table

    return run


@program(RECURRENCES)
def seidel_2d(f: Functions) -> Kernel:
    """A row at a time: the scan along it is a product with a triangle of powers of 1/9."""

    def run(steps: int, N: int, A: np.ndarray) -> None:
        j = np.arange(N)
        power = j[:, None] - j
        W = np.where(power >= 0, 9.0 ** -np.maximum(power + (j > 0), 0), 0.0)
        for _ in range(steps - 1):
            for i in range(1, N - 1):
                f.row(A[i - 1], A[i + 1], W, outputs=A[i])

    return run


@program(RECURRENCES)
def spmv(f: Functions) -> Kernel:
    return lambda row, col, val, x: f.spmv(row, col, val, x, int(np.diff(row).max()))


@program(RECURRENCES)
def stockham_fft(f: Functions) -> Kernel:
    """A def for a stage, compiled for the shapes of each."""

    def run(N: int, R: int, K: int, x: np.ndarray, y: np.ndarray) -> None:
        i, j = np.mgrid[0:R, 0:R]
        F = parts(np.exp(-2.0j * np.pi * i * j / R))
        now = parts(x)
        for s in range(K):
            angles = np.arange(R)[:, None] * np.arange(R**s) / R ** (s + 1)
            D = parts(np.exp(-2.0j * np.pi * angles))
            now = f.stage(now.reshape(R**s, R, R ** (K - s - 1), 2), F, D)
        y[:] = now.reshape(N, 2).view(np.complex128)[:, 0]

    return run


@program(RECURRENCES)
def vadv(f: Functions) -> Kernel:
    """The coefficients in one def; then a call for each level of Thomas's algorithm."""

    def run(
        utens_stage: np.ndarray,
        u_stage: np.ndarray,
        wcon: np.ndarray,
        u_pos: np.ndarray,
        utens: np.ndarray,
        dtr: float,
    ) -> None:
        a, c, b, d = f.coefficients(utens_stage, u_stage, wcon, u_pos, utens, dtr)
        zero = np.zeros_like(a[0])
        f.forward(a[0], b[0], zero, zero, outputs=[c[0], d[0]])
        for k in range(1, len(a)):
            f.forward(a[k], b[k], c[k - 1], d[k - 1], outputs=[c[k], d[k]])
        for k in range(len(a) - 2, -1, -1):
            f.back(c[k], d[k + 1], outputs=d[k])
        f.last(d, u_pos, dtr, outputs=utens_stage)

    return run


SMALL_RECURRENCES: Mapping[str, Mapping[str, Any]] = {
    "adi": {"TSTEPS": 2, "N": 9},
    "azimint_hist": {"N": 400, "npt": 10},
    "channel_flow": {"ny": 9, "nx": 9, "nit": 2, "rho": 1.0, "nu": 0.1, "F": 1.0},
    "cholesky": {"N": 9},
    "cholesky2": {"N": 230},
    "contour_integral": {"NR": 5, "NM": 7, "slab_per_bc": 2, "num_int_pts": 3},
    "crc16": {"N": 37},
    "deriche": {"W": 9, "H": 8},
    "durbin": {"N": 9},
    "gramschmidt": {"M": 9, "N": 7},
    "lu": {"N": 9},
    "ludcmp": {"N": 9},
    "mandelbrot2": {
        "xmin": -2.0,
        "xmax": 0.5,
        "XN": 9,
        "ymin": -1.25,
        "ymax": 1.25,
        "YN": 8,
        "maxiter": 7,
        "horizon": 2.0,
    },
    "nussinov": {"N": 12},
    "seidel_2d": {"TSTEPS": 3, "N": 9},
    "spmv": {"M": 20, "N": 20, "nnz": 60},
    "stockham_fft": {"R": 2, "K": 4},
    "trisolv": {"N": 9},
    "vadv": {"I": 4, "J": 5, "K": 6},
}
"""Parameters at which calls are compared with the interpreter."""
