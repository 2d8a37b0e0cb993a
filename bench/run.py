"""Times the seeds' kernels, compiled and in numpy, and checks every output: `make bench`."""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from tabulate import tabulate

import tc
from bench.programs import KERNELS, Kernel
from bench.timing import machine, medians, milliseconds


def as_tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def row(kernel: Kernel, backend: str) -> tuple[str, ...]:
    inputs = kernel.inputs()
    compiled = tc.compile(kernel.text, backend=backend)
    outputs = as_tuple(compiled(**inputs))
    expected = as_tuple(kernel.numpy(*inputs.values()))
    error = max(
        float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-30))
        for a, b in zip(outputs, expected, strict=True)
    )
    arguments = tuple(inputs.values())
    given = outputs if len(outputs) > 1 else outputs[0]
    times = medians(
        {
            "tc": lambda: compiled(*arguments, outputs=given),
            "numpy": lambda: kernel.numpy(*arguments),
        }
    )
    return (
        kernel.label,
        milliseconds(times["tc"]),
        milliseconds(times["numpy"]),
        f"{times['numpy'] / times['tc']:.2f}",
        f"{kernel.flops / times['tc'] / 1e9:.3g}" if kernel.flops else "",
        f"{error:.1e}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="numba", choices=list(tc.backends()))
    parser.add_argument("--only", default="", help="kernels whose label contains this")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", tc.TCWarning)
    chosen = [k for k in KERNELS if arguments.only in k.label]
    rows = [row(kernel, arguments.backend) for kernel in chosen]
    headers = ("kernel", arguments.backend, "numpy", "numpy / tc", "GFLOP/s", "largest error")
    print(machine())
    print(tabulate(rows, headers, disable_numparse=True))


if __name__ == "__main__":
    main()
