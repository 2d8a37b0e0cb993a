"""NPBench: programs of numpy, beside numpy itself, numba and JAX, as the suite has them.

Initial data, references, the versions for numba and JAX and tolerances are read from a checkout.
"""

from __future__ import annotations

import copy
import importlib
import json
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.suites.compiled_texts import Compared, Functions
from bench.suites.npbench_programs import PROGRAMS, SMALL
from bench.suites.npbench_recurrences import RECURRENCES, SMALL_RECURRENCES
from bench.suites.record import Record, clock, timed
from bench.timing import Timer

ALL = PROGRAMS | RECURRENCES
OTHERS = {"numba": ("n", "np", "npr", "o", "op", "opr"), "jax": ("", "lib")}
"""Versions by the ends of their files; the fastest of a library takes turns."""
FIRST_CALL = 30.0
"""Seconds for a version to be compiled and to run once."""
COPIED = 64e6
"""Bytes of arguments that are copied before the clock starts."""

WRITTEN = {"adi", "channel_flow", "correlation", "covariance", "doitgen", "nbody", "stockham_fft"}
WRITTEN |= {"azimint_naive", "scattering_self_energies"}
"""Whose arguments some version writes although the suite does not say so."""
ALSO_RESULTS = {"scattering_self_energies": ["Sigma"], "trisolv": ["x"], "doitgen": ["A"]}
LEFT_OUT = {("channel_flow", "jax"): "does other work than the reference: drops the pressure"}


class TooLongError(Exception):
    """A call did not come back in time."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooLongError(f"over {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True)
class Source:
    """A program in a checkout of the suite."""

    root: Path
    name: str

    @property
    def info(self) -> dict[str, Any]:
        path = self.root / "bench_info" / f"{self.name}.json"
        return json.loads(path.read_text(encoding="utf-8"))["benchmark"]  # type: ignore[no-any-return]

    def module(self, end: str = "") -> types.ModuleType:
        package = types.ModuleType("npbench")
        package.__path__ = [str(self.root / "npbench")]
        sys.modules.setdefault("npbench", package)
        parts = ["npbench", "benchmarks", *self.info["relative_path"].split("/")]
        return importlib.import_module(".".join([*parts, self.info["module_name"] + end]))

    def version(self, end: str) -> Callable[..., Any] | None:
        """The kernel of `MODULE_END.py`, or None where the suite has no such file, or none of that
        name in the file, as for cavity_flow with numba."""
        folder = self.root / "npbench" / "benchmarks" / self.info["relative_path"]
        if not (folder / f"{self.info['module_name']}_{end}.py").exists():
            return None
        return getattr(self.module(f"_{end}"), self.info["func_name"], None)

    def data(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name, as the suite initialises them."""
        data = dict(parameters)
        init = self.info.get("init")
        if init:
            made = getattr(self.module(), init["func_name"])(*(data[a] for a in init["input_args"]))
            made = made if isinstance(made, tuple) else (made,)
            data.update(zip(init["output_args"], made, strict=True))
        return data


@dataclass(frozen=True)
class Call:
    """The arguments of a program, and which of them hold results after a call."""

    source: Source
    data: Mapping[str, Any]

    @property
    def results(self) -> list[str]:
        return [*self.source.info.get("output_args", []), *ALSO_RESULTS.get(self.source.name, [])]

    @property
    def written(self) -> bool:
        return bool(self.results) or self.source.name in WRITTEN

    @property
    def bytes(self) -> int:
        return sum(self.data[a].nbytes for a in self.source.info["array_args"])

    def arguments(self) -> list[Any]:
        """Copies, where some version writes into arguments."""
        given = [self.data[name] for name in self.source.info["input_args"]]
        return copy.deepcopy(given) if self.written else given

    def outcome(self, function: Callable[..., Any], *, writes: bool = True) -> list[np.ndarray]:
        """What a call returns, then the arguments that hold results if the call writes there."""
        given = self.arguments()
        found = listed(function(*given))
        if writes:
            names = list(self.source.info["input_args"])
            found += [given[names.index(name)] for name in self.results]
        return [np.asarray(value) for value in found]

    def timer(self, function: Callable[..., Any]) -> Timer:
        """Calls with arguments that are copied before the clock starts."""
        now = clock()
        most = max(1, int(COPIED / max(self.bytes, 1))) if self.written else 10_000

        def seconds(count: int) -> float:
            total = 0.0
            while count > 0:
                given = [self.arguments() for _ in range(min(count, most))]
                begin = now()
                for arguments in given:
                    function(*arguments)
                total += now() - begin
                count -= len(given)
            return total

        return seconds


def offered(root: Path, names: Iterable[str]) -> list[str]:
    """The programs of these that a checkout has."""
    return [name for name in names if (root / "bench_info" / f"{name}.json").exists()]


def listed(result: Any) -> list[Any]:
    if result is None:
        return []
    return list(result) if isinstance(result, (tuple, list)) else [result]


def agree(found: np.ndarray, wanted: np.ndarray, info: Mapping[str, Any]) -> bool:
    """By the suite's tolerances.

    >>> agree(np.ones(3), np.ones(3) + 1e-9, {}), agree(np.ones(3), np.ones(2), {})
    (True, False)
    """
    if found.shape != wanted.shape:
        return False
    with np.errstate(all="ignore"):
        wide = np.result_type(found, wanted, np.float64)
        distance = np.linalg.norm(np.subtract(wanted, found, dtype=wide).ravel())
        scale = max(float(np.linalg.norm(wanted.astype(wide).ravel())), 1e-300)
    if distance / scale < info.get("norm_error", 1e-5):
        return True
    return np.allclose(wanted, found, rtol=info.get("rtol", 1e-5), atol=info.get("atol", 1e-8))


def others(call: Call, without: Sequence[str]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The library and the kernel of each version beside numpy's."""
    for library, ends in OTHERS.items():
        if library in without or (call.source.name, library) in LEFT_OUT:
            continue
        for end in ends:
            function = call.source.version("_".join(filter(None, (library, end))))
            if function is not None:
                yield library, with_jax(call, function) if library == "jax" else function


def with_jax(call: Call, function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of JAX, whose results are waited for. The arrays become JAX's once, as JAX writes no
    argument."""
    import jax

    jax.config.update("jax_enable_x64", True)
    arrays = call.source.info["array_args"]
    given = [
        jax.numpy.array(call.data[name]) if name in arrays else call.data[name]
        for name in call.source.info["input_args"]
    ]
    return lambda *_: jax.block_until_ready(function(*given))


def beyond_bound(source: Source) -> int:
    """Elements of small calls that differ from the interpreter's by more than `tc.error_bound`, and
    results that differ from numpy's by more than the suite allows."""
    small = {**SMALL, **SMALL_RECURRENCES}[source.name]
    call, compared = Call(source, source.data(small)), Compared()
    found = call.outcome(ALL[source.name](Functions("npbench", source.name, compared)))
    reference = source.version("numpy")
    assert reference is not None
    return compared.beyond + wrong_results(found, call.outcome(reference), source.info)


def wrong_results(
    found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], info: Mapping[str, Any]
) -> int:
    if len(found) != len(wanted):
        return max(len(found), len(wanted))
    return sum(not agree(f, w, info) for f, w in zip(found, wanted, strict=True))


def measured(
    root: Path, name: str, preset: str, budget: float, without: Sequence[str]
) -> Iterator[Record]:
    """One record: of tc, numpy, and the fastest right version for numba and for JAX."""
    warnings.simplefilter("ignore")
    source = Source(root, name)
    beyond = beyond_bound(source)
    parameters = source.info["parameters"][preset]
    call = Call(source, source.data(parameters))
    own = ALL[name](Functions("npbench", name))
    reference = source.version("numpy")
    assert reference is not None
    notes: dict[str, str] = {}
    chosen: dict[str, tuple[float, Callable[..., Any]]] = {}
    wanted: list[np.ndarray] = []
    for library, function in [("numpy", reference), ("tc", own), *others(call, without)]:
        try:
            with limited(FIRST_CALL):
                found = call.outcome(function, writes=library != "jax")
                seconds = call.timer(function)(1)
        except Exception as error:
            notes.setdefault(library, f"{type(error).__name__}: {error}".splitlines()[0][:120])
            continue
        wanted = wanted or found
        if library == "tc":
            beyond += wrong_results(found, wanted, source.info)
        elif not found or not all(any(agree(f, w, source.info) for w in wanted) for f in found):
            notes.setdefault(library, "differs from numpy's result")
            continue
        if library not in chosen or seconds < chosen[library][0]:
            chosen[library] = seconds, function
    notes = {library: why for library, why in notes.items() if library not in chosen}
    timers = {library: call.timer(function) for library, (_, function) in chosen.items()}
    times, least = timed(timers, budget)
    sizes = ", ".join(f"{n} {value}" for n, value in parameters.items())
    yield Record(suite_of(name, preset), name, sizes, times, least, beyond, notes)


def suite_of(name: str, preset: str) -> str:
    """
    >>> suite_of("atax", "S"), suite_of("lu", "S")
    ('NPBench S', 'NPBench S, recurrences')
    """
    return f"NPBench {preset}{', recurrences' if name in RECURRENCES else ''}"
