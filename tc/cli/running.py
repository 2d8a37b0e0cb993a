"""`tc run`: a def on arrays from files, numbers and fills."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tc import api
from tc.cli.arguments import CallArguments, array_of, number_of, pairs_of, read_call, read_options
from tc.cli.parser import UsageError
from tc.cli.terminal import print_line
from tc.errors import InputError
from tc.files import whole_file
from tc.pipeline import shape_program
from tc.runtime import cache
from tc.runtime.arguments import read_number, signature_of
from tc.runtime.sizes import resolve_sizes
from tc.semantics.suggest import nearest
from tc.tuning.measuring.references import SIGNED, drawn_inputs


def run(arguments: argparse.Namespace) -> int:
    options, call = read_options(arguments), read_call(arguments)
    if arguments.out and Path(arguments.out).exists() and not Path(arguments.out).is_dir():
        raise UsageError(f"--out {arguments.out}: it is a file, and a directory is asked for")
    if call.states:
        _draw(call, arguments.seed)
    elif set(call.program.inputs) <= set(call.pairs):
        resolve_sizes(call.program, call.values)  # sizes that are given too must agree
    outputs = _outputs(call, arguments)
    compiled = api.compile(
        call.source, entry=arguments.entry, backend=arguments.backend, options=options
    )
    found, missed = cache.lookups()
    begin = time.perf_counter()
    result = compiled(**call.inputs, outputs=outputs or None)
    seconds = time.perf_counter() - begin
    found, missed = (now - then for now, then in zip(cache.lookups(), (found, missed), strict=True))
    results = result if isinstance(result, tuple) else (result,)
    for name, array in zip(call.program.outputs, results, strict=True):
        print_line(_summary(name, np.asarray(array)))
    how = "the kernel made for these sizes"
    if arguments.backend == "interpret":
        how = "nothing is compiled"
    elif found and not missed:
        how = "the kernel read from disk"
    print_line(f"backend {arguments.backend}, first call {seconds * 1e3:.1f} ms, {how}")
    if arguments.out:
        _save(Path(arguments.out), call.program.outputs, results)
    if arguments.time:  # last, as a call changes what an output holds
        print_line(f"later calls {compiled.time(**call.inputs, outputs=outputs or None)}")
    return 0


def _draw(call: CallArguments, seed: int) -> None:
    """Values at random for the inputs without one; integers that say where to read stay within."""
    shaped = shape_program(call.program, resolve_sizes(call.program, call.values))
    missing = tuple(name for name in call.program.inputs if not _has_value(call, name))
    call.values |= drawn_inputs(shaped, SIGNED, seed, missing)


def _has_value(call: CallArguments, name: str) -> bool:
    """Whether an input has a value: where a size has the name of the input (N1), a number is the
    value."""
    value = call.values.get(name)
    is_size = (
        isinstance(value, int) and call.program.tensors[name].rank and name in call.program.sizes
    )
    return value is not None and not is_size


def _outputs(call: CallArguments, arguments: argparse.Namespace) -> dict[str, Any]:
    program = call.program
    parameters = {parameter.name: parameter for parameter in signature_of(program).outputs}
    rng = np.random.default_rng(arguments.seed + 1)
    sizes = {name: value for name, value in call.values.items() if isinstance(value, int)}
    outputs = {}
    for name, text in pairs_of(arguments.outputs).items():
        if name not in program.outputs:
            close = nearest(name, program.outputs) or program.outputs[0]
            raise InputError(
                f"{program.name} has no output {name!r}; it has {', '.join(program.outputs)}",
                repair=f"--outputs {close}={text}",
            )
        number = number_of(text)
        outputs[name] = (
            read_number(parameters[name], number)
            if number is not None
            else array_of(program.tensors[name], text, sizes, rng)
        )
    return outputs


def _save(folder: Path, names: Sequence[str], results: Sequence[Any]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in zip(names, results, strict=True):
            with whole_file(folder / f"{name}.npy") as file:
                # by `write` alone: numpy's writing to files does not say why it fails
                np.save(SimpleNamespace(write=file.write), np.asarray(array))
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror or error}") from error


def _summary(name: str, array: Any) -> str:
    shape = "x".join(map(str, array.shape)) or "scalar"
    head = f"{name}: {array.dtype} {shape}"
    if array.size == 0:
        return head + ", empty"
    if array.size <= 16:
        return head + f" = {np.array2string(array, separator=', ', precision=6)}"
    wide = array.astype(np.float64)
    return head + f", min {wide.min():.6g}, mean {wide.mean():.6g}, max {wide.max():.6g}"
