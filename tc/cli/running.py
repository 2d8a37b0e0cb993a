"""`tc run`: a def on arrays from files, numbers and fills."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tc.cli.arguments import CallArguments, given_outputs, read_call, read_options
from tc.cli.parser import UsageError
from tc.cli.terminal import print_line
from tc.files import whole_file
from tc.runtime import cache
from tc.runtime.arrays.encoded_arrays import ENCODED, as_bits, numbers


def run(arguments: argparse.Namespace) -> int:
    options, call = read_options(arguments), read_call(arguments)
    if arguments.out and Path(arguments.out).exists() and not Path(arguments.out).is_dir():
        raise UsageError(f"--out {arguments.out}: it is a file, and a directory is asked for")
    callee = call.callee
    if call.states:
        missing = [name for name in callee.inputs if not _has_value(call, name)]
        call.values |= callee.drawn(call.values, missing, arguments.seed)
    callee.check_sizes(call.values)
    outputs = given_outputs(call, arguments.outputs, arguments.seed + 1)
    compiled = callee.compiled(arguments.backend, options, **call.how)
    compiled._gives_bits = True
    found, missed = cache.lookups()
    begin = time.perf_counter()
    result = compiled(**call.inputs, outputs=outputs or None)
    seconds = time.perf_counter() - begin
    found, missed = (now - then for now, then in zip(cache.lookups(), (found, missed), strict=True))
    results = result if isinstance(result, tuple) else (result,)
    for name, array in zip(callee.result_names, results, strict=True):
        print_line(_summary(name, as_bits(np.asarray(array))))
    how = "the kernel made for these sizes"
    if arguments.backend == "interpret":
        how = "nothing is compiled"
    elif found and not missed:
        how = "the kernel read from disk"
    print_line(f"backend {arguments.backend}, first call {seconds * 1e3:.1f} ms, {how}")
    if arguments.out:
        _save(Path(arguments.out), callee.result_names, results)
    if arguments.time:  # last, as a call changes what an output holds
        print_line(f"later calls {compiled.time(**call.inputs, outputs=outputs or None)}")
    return 0


def _has_value(call: CallArguments, name: str) -> bool:
    """Whether an input has a value: where a size has the name of the input (N1), a number is the
    value."""
    value = call.values.get(name)
    callee = call.callee
    is_size = isinstance(value, int) and callee.inputs[name].rank != 0 and name in callee.sizes
    return value is not None and not is_size


def _save(folder: Path, names: Sequence[str], results: Sequence[Any]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in zip(names, results, strict=True):
            with whole_file(folder / f"{name}.npy") as file:
                # by `write` alone: numpy's writing to files does not say why it fails
                np.save(SimpleNamespace(write=file.write), as_bits(np.asarray(array)))
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror or error}") from error


def _summary(name: str, array: Any) -> str:
    shape = "x".join(map(str, array.shape)) or "scalar"
    head = f"{name}: {ENCODED.get(array.dtype, array.dtype)} {shape}"
    array = numbers(array)
    if array.size == 0:
        return head + ", empty"
    if array.size <= 16:
        return head + f" = {np.array2string(array, separator=', ', precision=6)}"
    wide = array.astype(np.float64)
    return head + f", min {wide.min():.6g}, mean {wide.mean():.6g}, max {wide.max():.6g}"
