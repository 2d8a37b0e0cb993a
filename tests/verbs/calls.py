"""Calls: what they give is what the independent formula gives (R5), whatever runs them, however
arrays lie, and wherever the function comes from."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import tc
from tc import cache
from tc.backends.numba import objects
from tc.polyhedral import lowering
from tc.semantics.program import Program
from tests.jax.layers import in_64_bits
from tests.support.bounds import as_tuple, assert_within
from tests.support.guarded import allocator, at_edge_or_not, copy_at_edge
from tests.support.poison import NAN, poisoned
from tests.support.programs import Case, exact
from tests.test_programs import copies, expected_and_bounds, fresh
from tests.verification import idle

Inputs = Mapping[str, Any]

LOCAL = ("numba", "c")
"""The backends whose kernels run in this process."""


def assert_right(case: Case, results: Any, inputs: Inputs | None = None) -> None:
    """Results for these inputs, by default those of the table, are within their bounds."""
    if inputs is None:
        expected, bounds = expected_and_bounds(case)
    else:
        _, outputs = fresh(case)
        expected = case.formula(exact({**inputs, **(outputs or {})}))
        given = {"entry": case.def_name, "outputs": copies(outputs)}
        bounds = as_tuple(tc.error_bound(case.text, inputs, **given))
    results = as_tuple(results)
    assert len(results) == len(expected)
    for result, value, bound in zip(results, expected, bounds, strict=True):
        found = np.asarray(result)
        assert_within(found, np.asarray(value).astype(found.dtype), bound)


def called(case: Case, function: tc.Compiled, inputs: Inputs | None = None) -> Any:
    """The results of a call with the outputs that the program needs."""
    own, outputs = fresh(case)
    return function(**(own if inputs is None else inputs), outputs=copies(outputs))


def compiled(case: Case, backend: str, **how: Any) -> tc.Compiled:
    return tc.compile(case.text, entry=case.def_name, backend=backend, **how)


def interpret(case: Case) -> None:
    inputs, outputs = fresh(case)
    found = tc.interpret(case.text, inputs, entry=case.def_name, outputs=copies(outputs))
    assert_right(case, found)
    assert_right(case, called(case, compiled(case, "interpret")))


def on(backend: str, **how: Any) -> Callable[[Case], None]:
    """Compiled for a backend, with these options of `tc.compile`."""

    def call(case: Case) -> None:
        assert_right(case, called(case, compiled(case, backend, **how)))

    return call


def at_guarded_pages(backend: str) -> Callable[[Case], None]:
    """On usual arrays, and where all memory ends at a page that nobody may touch, or begins after
    one: results are the same. A touch ends the process; `tests/test_guard_pages.py` has larger
    arrays, in processes of their own."""

    def call(case: Case) -> None:
        function = compiled(case, backend)
        results = as_tuple(called(case, function))
        assert_right(case, results)
        for edge in ("ends", "begins"):
            for found, result in zip(at_edges(function, case, edge), results, strict=True):
                np.testing.assert_array_equal(found, result)

    return call


def at_edges(function: tc.Compiled, case: Case, edge: str) -> list[Any]:
    inputs, outputs = fresh(case)
    shapes = function.infer(**inputs)
    given = {name: copy_at_edge(value, edge) for name, value in inputs.items()}
    targets = [at_edge_or_not(info.shape, info.dtype, edge) for info in shapes.values()]
    for target, start in zip(targets, (outputs or {}).values(), strict=False):
        target[...] = start
    with poisoned(NAN, allocator(edge)):
        function(**given, outputs=targets)
    return targets


# --- layouts --------------------------------------------------------------------------------------


def every_second(array: Any) -> Any:
    """Along each dimension, in memory where the others hold 77."""
    memory = np.full([2 * extent for extent in array.shape], 77).astype(array.dtype)
    view = memory[tuple(slice(None, None, 2) for _ in array.shape)]
    view[...] = array
    return view


def backwards(array: Any) -> Any:
    turn = tuple(slice(None, None, -1) for _ in array.shape)
    return np.ascontiguousarray(array[turn])[turn]


def between_bytes(array: Any) -> Any:
    """Elements that start at no multiple of their size."""
    memory = np.zeros(array.shape, np.dtype([("before", "i1"), ("value", array.dtype)]))
    memory["value"] = array
    return memory["value"]


LAYOUTS: tuple[Callable[[Any], Any], ...] = (
    every_second, backwards, np.asfortranarray, between_bytes,
)  # fmt: skip


def strided(case: Case) -> None:
    """The same values in arrays that are not row-major, on the interpreter and compiled."""
    inputs, _ = fresh(case)
    for number, layout in enumerate(LAYOUTS):
        for backend in ("interpret", LOCAL[number % 2]):
            laid_out = with_arrays(inputs, layout)
            assert_right(case, called(case, compiled(case, backend), laid_out))


def broadcast(case: Case) -> None:
    """All rows are the first, or all elements, in the memory of one."""
    inputs, _ = fresh(case)

    def of_one_row(array: Any) -> Any:
        return np.broadcast_to(array[:1], array.shape)

    def of_one_element(array: Any) -> Any:
        return np.broadcast_to(array[(0,) * array.ndim], array.shape)

    for number, kind in enumerate((of_one_row, of_one_element)):
        same = with_arrays(inputs, kind)
        for backend in ("interpret", LOCAL[number % 2]):
            assert_right(case, called(case, compiled(case, backend), same), same)


def with_arrays(inputs: Inputs, change: Callable[[Any], Any]) -> dict[str, Any]:
    return {name: change(value) if np.ndim(value) else value for name, value in inputs.items()}


# --- sizes that vary ------------------------------------------------------------------------------


def with_dynamic_sizes(case: Case) -> None:
    """All sizes are dynamic: at the sizes of the table, and at lesser ones, of which each that is
    not right for the program is refused as the interpreter refuses it."""
    for backend in LOCAL:
        function = compiled(case, backend, dynamic=True)
        assert_right(case, called(case, function))
        for cut in cuts(case, function.program):
            inputs, outputs = (cut_to(values, cut) for values in fresh(case))
            given = {"entry": case.def_name, "outputs": copies(outputs)}
            try:
                expected = as_tuple(tc.interpret(case.text, inputs, **given))
            except tc.TCError as error:
                with pytest.raises(type(error)):
                    function(**inputs, outputs=copies(outputs))
                continue
            bounds = as_tuple(tc.error_bound(case.text, inputs, **given))
            results = as_tuple(function(**inputs, outputs=copies(outputs)))
            for result, value, bound in zip(results, expected, bounds, strict=True):
                assert_within(np.asarray(result), np.asarray(value), bound)


Cut = Mapping[tuple[str, int], int]
"""What is left of an axis of a tensor."""


def cuts(case: Case, program: Program) -> Iterator[Cut]:
    """Each size by itself less by one and then halved, and all halved at once."""
    inputs, outputs = fresh(case)
    shapes = {name: np.shape(value) for name, value in {**inputs, **(outputs or {})}.items()}
    halved = {}
    for size in program.sizes.values():
        axes = [(e.tensor, e.axis) for e in size.extents if e.tensor in shapes]
        extent = shapes[axes[0][0]][axes[0][1]] if axes else 0
        if extent > 2:
            yield dict.fromkeys(axes, extent - 1)
            yield dict.fromkeys(axes, (extent + 1) // 2)
            halved.update(dict.fromkeys(axes, (extent + 1) // 2))
    if halved:
        yield halved


def cut_to(values: Inputs | None, cut: Cut) -> Any:
    """The arrays up to where they are cut."""
    if values is None:
        return None
    found = dict(values)
    for (name, axis), extent in cut.items():
        if name in found:
            found[name] = np.ascontiguousarray(found[name].take(range(extent), axis))
    return found


# --- outputs= -------------------------------------------------------------------------------------


def with_outputs(case: Case) -> None:
    """Into arrays of the caller's, in each form, twice: they are returned, and what they held
    matters only where the program reads it."""
    for backend in ("interpret", *LOCAL):
        function = compiled(case, backend)
        for form in (list, tuple, dict):
            for _ in range(2):
                targets = filled(case, function)
                given = targets if form is dict else form(targets.values())
                found = as_tuple(function(**fresh(case)[0], outputs=given))
                for result, target in zip(found, targets.values(), strict=True):
                    assert result is target
                assert_right(case, found)


PARTIAL = ("stencil",)
"""Programs that write a part of an output: the others keep what the caller's array holds (R3),
which is 0 in their formulas."""


def filled(case: Case, function: tc.Compiled) -> dict[str, Any]:
    """Arrays full of what no result survives, but for what the program begins with."""
    inputs, outputs = fresh(case)
    made = {}
    for name, info in function.infer(**inputs).items():
        made[name] = np.empty(info.shape, info.dtype)
        poison = 1 if info.dtype == bool else NAN
        made[name].reshape(-1).view(np.uint8)[...] = 0 if case.name in PARTIAL else poison
        if name in (outputs or {}):
            made[name][...] = (outputs or {})[name]
    return made


# --- where a function comes from ------------------------------------------------------------------


def pickled(case: Case) -> None:
    """Before its first call and after it."""
    for backend in ("interpret", *LOCAL):
        function = compiled(case, backend)
        early = pickle.loads(pickle.dumps(function))
        assert_right(case, called(case, function))
        late = pickle.loads(pickle.dumps(function))
        for again in (early, late):
            assert str(again) == str(function)
            assert_right(case, called(case, again))


def from_disk(case: Case) -> None:
    """A function takes the kernel that another function has left on disk, and makes nothing."""
    for backend in LOCAL:
        with kernels_on_disk():
            first = as_tuple(called(case, compiled(case, backend)))
            assert_right(case, first)
            with nothing_is_made(backend):
                again = as_tuple(called(case, compiled(case, backend)))
            for result, same in zip(again, first, strict=True):
                np.testing.assert_array_equal(result, same)


@contextmanager
def kernels_on_disk() -> Iterator[None]:
    """In a directory of their own."""
    with tempfile.TemporaryDirectory(prefix="tc-verbs-") as folder:
        cache.enable(Path(folder) / "kernels")
        try:
            yield
        finally:
            cache.disable()


@contextmanager
def nothing_is_made(backend: str) -> Iterator[None]:
    """Programs are not lowered, nor is machine code made of their texts."""

    def makes(*_: object, **__: object) -> None:
        raise AssertionError(f"it is made again for {backend}")

    with (
        mock.patch.object(lowering, "trace_lowering", makes),
        mock.patch.object(objects, "compile_regions", makes),
    ):
        yield


# --- arrays of libraries --------------------------------------------------------------------------


def in_torch(case: Case) -> None:
    """Tensors of torch, which come out as well, and twice, as a function that is warm has code of
    its own for such."""
    import torch

    for backend in ("interpret", "numba"):
        function = compiled(case, backend)
        for _ in range(3):
            inputs, outputs = fresh(case)
            tensors = {n: torch.from_numpy(a) if np.ndim(a) else a for n, a in inputs.items()}
            given = outputs and {n: torch.from_numpy(a.copy()) for n, a in outputs.items()}
            found = as_tuple(function(**tensors, outputs=given))
            assert all(isinstance(each, torch.Tensor) for each in found)
            assert_right(case, tuple(each.numpy() for each in found))


def in_jax(case: Case) -> None:
    """Inside of jax.jit."""
    import jax

    function = compiled(case, "interpret")
    static = function.program.static_scalars
    inputs, outputs = fresh(case)
    with in_64_bits(jax):
        arrays = {n: v if n in static else jax.numpy.asarray(v) for n, v in inputs.items()}
        if outputs is not None:
            arrays["outputs"] = {n: jax.numpy.asarray(v) for n, v in outputs.items()}
        results = as_tuple(jax.jit(function, static_argnames=[*static])(**arrays))
        assert_right(case, tuple(map(np.asarray, results)))


def verified(case: Case) -> None:
    """What tc compiles is accepted, and what computes nothing is refused."""
    inputs, _ = fresh(case)
    function = tc.compile(case.text, entry=case.def_name)

    def kernel(*arrays: Any) -> Any:
        return function(*arrays)

    how = {"entry": case.def_name, "inputs": inputs, "like": "numpy", "seconds": 1.5}
    verdict = tc.verify(kernel, case.text, **how)
    assert verdict, str(verdict)
    several = any(np.ndim(each) for each in as_tuple(function(**inputs)))
    for wrong in (idle.zeros, idle.constants, idle.first_answers, *([idle.means] * several)):
        assert not tc.verify(wrong(kernel), case.text, **how), wrong.__name__
