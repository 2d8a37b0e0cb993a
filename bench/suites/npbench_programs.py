"""Programs of NPBench as texts of tc: of one def, or of a def for each step of time.

Each is a function with the arguments and the results of the suite's kernel, made of the defs of its
file. What only calls a def with the suite's arguments has no function here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bench.suites.compiled_texts import Functions

Kernel = Callable[..., Any]

PROGRAMS: dict[str, Callable[[Functions], Kernel]] = {
    name: lambda f, name=name: getattr(f, name)  # type: ignore[misc]
    for name in (
        "arc_distance",
        "atax",
        "azimint_naive",
        "bicg",
        "compute",
        "conv2d_bias",
        "gesummv",
        "go_fast",
        "k3mm",
        "mlp",
        "resnet",
        "softmax",
    )
}


def program(
    table: dict[str, Callable[[Functions], Kernel]],
) -> Callable[[Callable[[Functions], Kernel]], Callable[[Functions], Kernel]]:
    """Enters a program into a table by its name."""

    def add(make: Callable[[Functions], Kernel]) -> Callable[[Functions], Kernel]:
        table[make.__name__] = make
        return make

    return add


def in_place(function: Kernel) -> Kernel:
    """Returns nothing, as kernels of the suite do that write into their arguments."""

    def run(*given: Any) -> None:
        function(*given)

    return run


@program(PROGRAMS)
def gemm(f: Functions) -> Kernel:
    return in_place(lambda alpha, beta, C, A, B: f.gemm(alpha, beta, A, B, outputs=C))


@program(PROGRAMS)
def gemver(f: Functions) -> Kernel:
    return in_place(
        lambda alpha, beta, A, u1, v1, u2, v2, w, x, y, z: f.gemver(
            alpha, beta, u1, v1, u2, v2, y, z, outputs=[A, w, x]
        )
    )


@program(PROGRAMS)
def hdiff(f: Functions) -> Kernel:
    return in_place(lambda in_field, out_field, coeff: f.hdiff(in_field, coeff, outputs=out_field))


@program(PROGRAMS)
def k2mm(f: Functions) -> Kernel:
    return in_place(lambda alpha, beta, A, B, C, D: f.k2mm(alpha, beta, A, B, C, outputs=D))


@program(PROGRAMS)
def doitgen(f: Functions) -> Kernel:
    return in_place(lambda rows, columns, _, A, C4: f.doitgen(rows, columns, C4, outputs=A))


@program(PROGRAMS)
def mvt(f: Functions) -> Kernel:
    return in_place(lambda x1, x2, y_1, y_2, A: f.mvt(y_1, y_2, A, outputs=[x1, x2]))


@program(PROGRAMS)
def lenet(f: Functions) -> Kernel:
    return lambda *given: f.lenet(*given[:-2])


@program(PROGRAMS)
def correlation(f: Functions) -> Kernel:
    return lambda _, float_n, data: f.correlation(float_n, data)


@program(PROGRAMS)
def covariance(f: Functions) -> Kernel:
    return lambda _, float_n, data: f.covariance(float_n, data)


@program(PROGRAMS)
def covariance2(f: Functions) -> Kernel:
    return lambda _, __, data: f.covariance2(data)


@program(PROGRAMS)
def symm(f: Functions) -> Kernel:
    return in_place(lambda alpha, beta, C, A, B: f.symm(alpha, beta, A, B, outputs=C))


@program(PROGRAMS)
def syr2k(f: Functions) -> Kernel:
    return in_place(lambda alpha, beta, C, A, B: f.syr2k(alpha, beta, A, B, outputs=C))


@program(PROGRAMS)
def syrk(f: Functions) -> Kernel:
    return in_place(lambda alpha, beta, C, A: f.syrk(alpha, beta, A, outputs=C))


@program(PROGRAMS)
def trmm(f: Functions) -> Kernel:
    return in_place(lambda alpha, A, B: f.trmm(alpha, A, B.shape[1], outputs=B))


def there_and_back(f: Functions) -> Kernel:
    """Two arrays that are computed of each other in turn."""

    def run(steps: int, A: np.ndarray, B: np.ndarray) -> None:
        for _ in range(1, steps):
            f.step(A, outputs=B)
            f.step(B, outputs=A)

    return run


PROGRAMS |= dict.fromkeys(("heat_3d", "jacobi_1d", "jacobi_2d"), there_and_back)


@program(PROGRAMS)
def fdtd_2d(f: Functions) -> Kernel:
    def run(steps: int, ex: np.ndarray, ey: np.ndarray, hz: np.ndarray, source: np.ndarray) -> None:
        for t in range(steps):
            f.step(source[t], *ex.shape, outputs=[ex, ey, hz])

    return run


@program(PROGRAMS)
def floyd_warshall(f: Functions) -> Kernel:
    def run(path: np.ndarray) -> None:
        for t in range(len(path)):
            f.step(path[:, t].copy(), path[t].copy(), outputs=path)

    return run


@program(PROGRAMS)
def nbody(f: Functions) -> Kernel:
    def run(
        mass: np.ndarray,
        pos: np.ndarray,
        vel: np.ndarray,
        _: int,
        steps: int,
        dt: float,
        gravity: float,
        softening: float,
    ) -> tuple[np.ndarray, np.ndarray]:
        kinetic, potential = np.empty(steps + 1), np.empty(steps + 1)
        ke, pe = np.empty(()), np.empty(())
        outputs = {"vel": vel, "KE": ke, "PE": pe}
        a = f.first(mass, pos, gravity, softening, outputs=outputs).a
        kinetic[0], potential[0] = ke, pe
        for t in range(steps):
            f.step(mass, gravity, softening, dt, outputs=[pos, vel, a, ke, pe])
            kinetic[t + 1], potential[t + 1] = ke, pe
        return kinetic, potential

    return run


@program(PROGRAMS)
def cavity_flow(f: Functions) -> Kernel:
    def run(
        nx: int,
        ny: int,
        steps: int,
        inner: int,
        u: np.ndarray,
        v: np.ndarray,
        dt: float,
        dx: float,
        dy: float,
        p: np.ndarray,
        rho: float,
        nu: float,
    ) -> None:
        b = np.zeros((ny, nx))
        for _ in range(steps):
            f.source_term(u, v, rho, dt, dx, dy, outputs=b)
            for _ in range(inner):
                f.pressure(b, dx, dy, outputs=p)
            f.velocity(p, rho, nu, dt, dx, dy, outputs=[u, v])

    return run


def parts(z: np.ndarray) -> np.ndarray:
    """Real and imaginary parts along a new last dimension."""
    return np.ascontiguousarray(z).view(np.float64).reshape(z.shape + (2,))


@program(PROGRAMS)
def scattering_self_energies(f: Functions) -> Kernel:
    return in_place(
        lambda neighbours, dH, G, D, Sigma: f.scattering_self_energies(
            neighbours, parts(dH), parts(G), parts(D), outputs=parts(Sigma)
        )
    )


@program(PROGRAMS)
def mandelbrot1(f: Functions) -> Kernel:
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
        re, im = np.zeros((yn, xn)), np.zeros((yn, xn))
        count = np.zeros((yn, xn), np.int64)
        numbers = np.arange(steps).reshape(-1, 1)
        for number in numbers:
            f.step(cx, cy, horizon, number, outputs=[re, im, count])
        count[count == steps - 1] = 0
        return re + 1j * im, count

    return run


SMALL: Mapping[str, Mapping[str, Any]] = {
    "arc_distance": {"N": 11},
    "atax": {"M": 7, "N": 9},
    "azimint_naive": {"N": 400, "npt": 10},
    "bicg": {"M": 7, "N": 9},
    "cavity_flow": {"ny": 9, "nx": 9, "nt": 3, "nit": 2, "rho": 1.0, "nu": 0.1},
    "compute": {"M": 7, "N": 9},
    "conv2d_bias": {"N": 2, "C_in": 3, "C_out": 4, "K": 2, "H": 6, "W": 7},
    "correlation": {"M": 6, "N": 7},
    "covariance": {"M": 6, "N": 7},
    "covariance2": {"M": 6, "N": 7},
    "doitgen": {"NR": 4, "NQ": 5, "NP": 6},
    "fdtd_2d": {"TMAX": 4, "NX": 7, "NY": 8},
    "floyd_warshall": {"N": 9},
    "gemm": {"NI": 5, "NJ": 6, "NK": 7},
    "gemver": {"N": 8},
    "gesummv": {"N": 9},
    "go_fast": {"N": 9},
    "hdiff": {"I": 5, "J": 6, "K": 4},
    "heat_3d": {"TSTEPS": 3, "N": 7},
    "jacobi_1d": {"TSTEPS": 4, "N": 12},
    "jacobi_2d": {"TSTEPS": 4, "N": 9},
    "k2mm": {"NI": 5, "NJ": 6, "NK": 7, "NL": 8},
    "k3mm": {"NI": 5, "NJ": 6, "NK": 7, "NL": 8, "NM": 9},
    "lenet": {"N": 2, "H": 28, "W": 28},
    "mandelbrot1": {
        "xmin": -1.75,
        "xmax": 0.25,
        "XN": 9,
        "ymin": -1.0,
        "ymax": 1.0,
        "YN": 8,
        "maxiter": 7,
        "horizon": 2.0,
    },
    "mlp": {"C_in": 3, "N": 4, "S0": 9, "S1": 6, "S2": 5},
    "mvt": {"N": 9},
    "nbody": {"N": 5, "tEnd": 0.2, "dt": 0.05, "softening": 0.1, "G": 1.0},
    "resnet": {"N": 3, "W": 6, "H": 6, "C1": 8, "C2": 4},
    "scattering_self_energies": {
        "Nkz": 2,
        "NE": 3,
        "Nqz": 2,
        "Nw": 2,
        "N3D": 2,
        "NA": 4,
        "NB": 2,
        "Norb": 2,
    },
    "softmax": {"N": 2, "H": 3, "SM": 5},
    "symm": {"M": 6, "N": 7},
    "syr2k": {"M": 6, "N": 7},
    "syrk": {"M": 6, "N": 7},
    "trmm": {"M": 6, "N": 7},
}
"""Parameters at which calls are compared with the interpreter."""
