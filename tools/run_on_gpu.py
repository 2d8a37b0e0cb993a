"""Runs programs on a GPU and compares with numpy under rule R5: `python -m tools.run_on_gpu`.

The programs are those of the table, and the paper's kernels at its sizes. "emitted" texts, naive
and with default options, with tests of reads and without, are loaded and launched as they are,
without what a call has around it. "called" with torch, CuPy and numpy the programs are twice, as a
second call goes another way, and once by a graph of torch. One process has the GPU, and is started
anew after a failure, as the GPU may be lost to it. `--here` runs all in this process, as
compute-sanitizer wants it; `--backend opencl` is for OpenCL.

Where there is no GPU it says so, and that is no failure; one that cannot be used is.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import tc
from bench.gpu_device import NoGpu, count_gpus
from tc.backends import registry
from tc.backends.base import GpuBackend
from tests.support.bounds import assert_within
from tests.support.kernels import run
from tests.support.paper import KERNELS
from tests.support.pipeline import as_arrays, as_buffers, checked
from tests.support.programs import CASES, Case
from tests.test_programs import as_tuple, expected_and_bounds, fresh

ROOT = Path(__file__).parent.parent
LIMIT = 120.0
"""Seconds of one, with all that is computed for it."""

EMITTED: Mapping[str, Mapping[str, Any]] = {
    f"emitted, {name}{', checked' if check else ''}": {"options": options, "check": check}
    for name, options in (("default", tc.Options()), ("naive", tc.Options.preset("naive")))
    for check in (False, True)
}
PAPER = "emitted, paper"


# --- texts ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """A text, what it is run on, what it has to give, and how far from that it may be."""

    text: Any
    program: Any
    arrays: Mapping[str, Any]
    expected: Sequence[Any]
    bounds: Sequence[Any]


def work_of(name: str, backend: str) -> Work:
    title, _, way = name.rpartition(": ")
    if way == PAPER:
        kernel = KERNELS[title]
        inputs = kernel.inputs()
        text = tc.emit(kernel.text, inputs, backend=backend, options=kernel.options)
        return Work(text, checked(kernel.text), inputs, *kernel.expected(inputs))
    case = case_of(title)
    inputs, outputs = fresh(case)
    entry = case.def_name
    text = tc.emit(case.text, inputs, entry=entry, backend=backend, **EMITTED[way])
    arrays = {**inputs, **(outputs or {})}
    return Work(text, checked(case.text, entry), arrays, *expected_and_bounds(case))


def case_of(title: str) -> Case:
    return next(case for case in CASES if case.name == title)


def check_text(name: str, backend: str) -> None:
    """Runs a text; AssertionError where a result is wrong."""
    work, gpu = work_of(name, backend), registry.get(backend)
    assert isinstance(gpu, GpuBackend)
    program, kernel = work.program, work.text.kernel
    results = {}
    for output, value in zip(program.outputs, work.expected, strict=True):
        given = work.arrays.get(output)
        shape, dtype = np.shape(value), program.tensors[output].dtype.numpy
        poison = np.full(shape, np.nan if dtype.kind == "f" else 99, dtype)
        results[output] = poison if given is None else given.copy()
    held = as_buffers(kernel, {**as_arrays(program, work.arrays), **results})
    failure, found = run(gpu.load(work.text), held)
    assert failure is None, failure
    values = [found[output].reshape(results[output].shape) for output in program.outputs]
    compare(values, work.expected, work.bounds)


def compare(results: Sequence[Any], expected: Sequence[Any], bounds: Sequence[Any]) -> None:
    for result, value, bound in zip(results, expected, bounds, strict=True):
        assert_within(result, np.asarray(value).astype(result.dtype), bound)


# --- calls ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Library:
    """How arrays get to the GPU and back, and how many calls are made."""

    put: Callable[[Any], Any]
    get: Callable[[Any], Any]
    repeat: Callable[[Callable[[], Any]], Any]


def twice(call: Callable[[], Any]) -> Any:
    call()
    return call()


def torch_library(where: str = "cuda") -> Library:
    import torch

    return Library(lambda a: torch.tensor(a, device=where), lambda t: t.cpu().numpy(), twice)


def graph_library() -> Library:
    """The second call is recorded, and what it gave filled with what nobody expects; the graph
    gives it again."""
    import torch

    def replayed(call: Callable[[], Any]) -> Any:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            twice(call)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            results = call()
        for result in as_tuple(results):
            result.fill_(1)
        graph.replay()
        torch.cuda.synchronize()
        return results

    return replace(torch_library(), repeat=replayed)


def cupy_library() -> Library:
    import cupy

    return Library(cupy.asarray, cupy.asnumpy, twice)


def numpy_library() -> Library:
    """Arrays of the processor, which are copied there and back."""
    return Library(np.copy, np.asarray, twice)


LIBRARIES: Mapping[str, Callable[[], Library]] = {
    "torch": torch_library,
    "torch's graph": graph_library,
    "cupy": cupy_library,
    "numpy": numpy_library,
}
CALLED = {f"called, {name}": library for name, library in LIBRARIES.items()}


def check_call(name: str, backend: str) -> None:
    """Calls a program; AssertionError where a result is wrong. Outputs that are passed are as at
    first each time."""
    title, _, way = name.rpartition(": ")
    case, library = case_of(title), CALLED[way]()
    inputs, outputs = fresh(case)
    function = tc.compile(case.text, entry=case.def_name, backend=backend)
    fixed = function.program.static_scalars
    values = ((name, inputs[name]) for name in function.program.inputs)
    given = [library.put(a) if is_array(a) and n not in fixed else a for n, a in values]
    first, targets = ({n: library.put(a) for n, a in (outputs or {}).items()} for _ in range(2))

    def call() -> Any:
        for output, values in first.items():
            targets[output][...] = values
        return function(*given, outputs=targets or None)

    found = [library.get(result) for result in as_tuple(library.repeat(call))]
    compare(found, *expected_and_bounds(case))


def is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


# --- processes --------------------------------------------------------------------------------


def names() -> list[str]:
    """Of all that can be run: a program, and in which way. Texts of programs that need no values in
    their outputs start from none, whatever a call may pass."""
    programs = [
        f"{case.name}: {way}"
        for case in CASES
        for way in (*EMITTED, *CALLED)
        if way in CALLED or not case.outputs or checked(case.text, case.def_name).needs_initial
    ]
    return programs + [f"{name}: {PAPER}" for name in KERNELS]


def run_here(chosen: Sequence[str], backend: str) -> bool:
    """Says of each whether it is right; stops at the first that is not."""
    for name in chosen:
        try:
            check = check_call if name.rpartition(": ")[2] in CALLED else check_text
            check(name, backend)
        except Exception:  # of a kernel, a driver, a compiler
            print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
            return False
        print(f"ok {name}", flush=True)
    return True


def run_apart(chosen: Sequence[str], backend: str, most: int) -> list[str]:
    """The names of the programs that failed in other processes, at most `most` of them."""
    failed, left = [], list(chosen)
    while left and len(failed) < most:
        done = 0
        for line in lines_of([*COMMAND, "--here", "--backend", backend, *left]):
            print(line, flush=True)
            done += line.startswith("ok ")
        left = left[done:]
        if left:
            failed.append(left.pop(0))
            print(f"-- so much for {failed[-1]}", flush=True)
    for name in left:
        print(f"not tried: {name}")
    return failed + left


COMMAND = (sys.executable, "-m", "tools.run_on_gpu")


def lines_of(command: Sequence[str]) -> Iterator[str]:
    """What a process says, as it says it; it is ended when it says nothing for too long."""
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        timer = threading.Timer(LIMIT, process.kill)
        timer.start()
        for line in process.stdout:
            timer.cancel()
            timer = threading.Timer(LIMIT, process.kill)
            timer.start()
            yield line.rstrip("\n")
        timer.cancel()


def select(words: Sequence[str]) -> list[str]:
    """Those of these names, or else called in such a way, or with such a part of a name; all for no
    word.

    >>> select(["MLP3: emitted, naive"]), select(["gconv, manual"])
    (['MLP3: emitted, naive'], ['gconv, manual: emitted, paper'])
    >>> {name.rpartition(": ")[2] for name in select(["called, torch"])}
    {'called, torch'}
    """
    known = names()
    exact = [name for name in known if name in words]
    if len(exact) == len(words) and exact:
        return exact

    def meant(name: str, word: str) -> bool:
        return name.endswith(f": {word}") if word in CALLED else word in name

    return [name for name in known if not words or any(meant(name, word) for word in words)]


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", help="or parts of such; else all")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--most", type=int, default=10, help="failures after which it ends")
    parser.add_argument("--here", action="store_true", help="in this process, to the first failure")
    chosen = parser.parse_args(given)
    texts = select(chosen.names)
    if not texts:
        parser.error("there is nothing of such a name")
    if chosen.here:
        warnings.simplefilter("ignore", tc.TCWarning)
        return 0 if run_here(texts, chosen.backend) else 1
    if chosen.backend == "cuda":
        try:
            count_gpus()
        except NoGpu as error:
            print(f"There is no GPU here ({error}), so nothing is run.")
            return 0
    failed = run_apart(texts, chosen.backend, chosen.most)
    print(f"{len(texts) - len(failed)} of {len(texts)} are right")
    for name in failed:
        print(f"  not {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
