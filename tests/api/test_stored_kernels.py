"""Kernels from the disk: the same results, failures and threads, and nothing compiled again."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc import cache, stored_texts
from tc.backends.numba import objects
from tc.polyhedral import lowering
from tc.polyhedral.strategies import scheduler as strategies
from tc.runtime import object_files
from tests.api.evaluating import EvaluateBackend
from tests.support.lowering import compile_for
from tests.support.processes import run_python, told

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(12, dtype=np.float32).reshape(3, 4)

PROGRAMS = (
    f"MM = {MM!r}"
    """
import sys
import warnings
import numpy as np
import tc
from tests.support.programs import CASES

WARM = sys.argv[1] == "warm"
NAMES = (
    "mm", "mv_init", "softmax", "layernorm", "gather", "half_dot", "histogram", "conv_pad", "lazy",
    "MLP1", "2LUT",
)

def forbidden(*_, **__):
    raise AssertionError("this process compiles")

if WARM:
    from tc.polyhedral import lowering
    from tc.backends.numba import objects
    lowering.trace_lowering = forbidden
    objects.compile_regions = forbidden

warnings.simplefilter("ignore", tc.TCWarning)
results = {}
for case in CASES:
    if case.name in NAMES:
        rng = np.random.default_rng(1)
        inputs = case.inputs(rng)
        outputs = case.outputs(rng) if case.outputs else None
        found = tc.compile(case.text, entry=case.def_name)(**inputs, outputs=outputs)
        for number, array in enumerate(found if isinstance(found, tuple) else (found,)):
            results[f"{case.name}{len(results)} {number}"] = array
assert len(results) >= len(NAMES)

# checks that fail, on one thread and on several
gather = tc.compile("def g(float(N) X, int32(M) I) -> (o) { o(i) = X(I(i)) }")
for size in (5, 200_000):
    where = np.zeros(size, np.int32)
    where[size - 2] = 99
    try:
        gather(np.zeros(7, np.float32), where)
    except tc.AccessError as error:
        results[f"failure {size}"] = np.array(str(error))

# threads
rng = np.random.default_rng(2)
a, b = (rng.standard_normal((128, 128)).astype(np.float32) for _ in range(2))
for threads in (1, 2):
    mm = tc.compile(MM, options=tc.Options(threads=threads))
    results[f"threads {threads}"] = mm(a, b)
assert (results["threads 1"] == results["threads 2"]).all()
np.savez(sys.argv[2], **results)
"""
)

FORK = (
    f"MM = {MM!r}"
    """
import os, sys, warnings
import numpy as np
import tc
from tc.backends.numba import objects
def forbidden(*_, **__):
    raise AssertionError("this process compiles")
objects.compile_regions = forbidden
a = np.ones((64, 64), np.float32)
mm = tc.compile(MM)
def right():
    return bool((mm(a, a) == 64).all())
order = sys.argv[1]
if order == "parent first":
    assert right()
child = os.fork()
if child == 0:
    os._exit(0 if right() else 1)
assert os.waitpid(child, 0)[1] == 0
assert right()
"""
)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Path]:
    """A directory of its own, in use."""
    cache.enable(tmp_path / "kernels")
    yield tmp_path / "kernels"
    cache.disable()


class Forbidden(Exception):
    """Something was compiled again."""


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiles(*_: object, **__: object) -> None:
        raise Forbidden

    monkeypatch.setattr(lowering, "trace_lowering", compiles)
    monkeypatch.setattr(objects, "compile_regions", compiles)


def process(script: str, directory: Path, *arguments: str) -> None:
    environment = {"XDG_CACHE_HOME": str(directory)}
    done = run_python(script, *arguments, flags=["-W", "error"], environment=environment)
    assert done.returncode == 0, told(done)


def test_a_warm_process_gives_the_same_bits(tmp_path: Path) -> None:
    results = {}
    for state in ("cold", "warm"):
        process(PROGRAMS, tmp_path / "cache", state, str(tmp_path / f"{state}.npz"))
        with np.load(tmp_path / f"{state}.npz") as stored:
            results[state] = {name: stored[name] for name in stored}
    cold, warm = results["cold"], results["warm"]
    assert cold.keys() == warm.keys()
    assert sum(name.startswith("failure") for name in cold) == 2
    for name, array in cold.items():
        assert (array.dtype, array.tobytes()) == (warm[name].dtype, warm[name].tobytes()), name


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("order", ["parent first", "child first"])
def test_forked_children_of_a_warm_process(tmp_path: Path, order: str) -> None:
    cold = f"import numpy as np, tc\na = np.ones((64, 64), np.float32)\ntc.compile({MM!r})(a, a)"
    process(cold, tmp_path)
    process(FORK, tmp_path, order)


def test_the_layout_of_the_text_does_not_matter(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = tc.compile(MM)(A, B)
    number = len(list(kept.iterdir()))
    forbid(monkeypatch)
    other = MM.replace("{ ", "{  # a product\n").replace("A(i,k) * B(k,j)", "(A(i,k)*B(k, j))")
    assert (tc.compile(other)(A, B) == expected).all()
    assert len(list(kept.iterdir())) == number


@pytest.mark.parametrize(
    "change",
    [
        lambda: tc.compile(MM.replace("*", "+"))(A, B),
        lambda: tc.compile(MM.replace("mm", "product"))(A, B),
        lambda: tc.compile(MM.replace("float(M,K)", "double(M,K)"))(A.astype(np.float64), B),
        lambda: tc.compile(MM)(A[:1], B),
        lambda: tc.compile(MM)(np.asfortranarray(A), B),
        lambda: tc.compile(MM, check=False)(A, B),
        lambda: tc.compile(MM, options=tc.Options(threads=1))(A, B),
    ],
    ids=["text", "name", "type", "shape", "layout", "check", "options"],
)
@pytest.mark.usefixtures("kept")
def test_what_decides_a_kernel_is_in_its_key(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tc.compile(MM)(A, B)
    forbid(monkeypatch)
    assert (tc.compile(MM)(A, B) == A @ B).all()
    with pytest.raises(Forbidden):
        change()


@pytest.mark.usefixtures("kept")
def test_so_are_the_machine_and_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    tc.compile(MM)(A, B)
    forbid(monkeypatch)
    tc.compile(MM)(A, B)
    with monkeypatch.context() as patch:
        patch.setattr(cache, "code_version", lambda: "another version")
        with pytest.raises(Forbidden):
            tc.compile(MM)(A, B)
    with monkeypatch.context() as patch:
        compile_for(tc.Device(l1=1), patch)
        with pytest.raises(Forbidden):
            tc.compile(MM)(A, B)
    with monkeypatch.context() as patch:  # the text is found, its machine code is not
        patch.setattr(objects, "_host", lambda: ("another processor",))
        with pytest.raises(Forbidden):
            tc.compile(MM)(A, B)
    tc.compile(MM)(A, B)


@pytest.mark.usefixtures("kept")
def test_values_of_static_scalars_and_given_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def shift(float(N) x, int32 s) -> (y) { y(i) = x(i + s) where i in 0:2 }"
    x = np.arange(5, dtype=np.float32)
    assert tc.compile(text)(x, 1).tolist() == [1, 2]
    axpy = "def axpy(float(N) x) -> (y) { y(i) = y(i) + x(i) }"
    assert tc.compile(axpy)(x, outputs=x.copy()).tolist() == [0, 2, 4, 6, 8]
    forbid(monkeypatch)
    assert tc.compile(text)(x, 1).tolist() == [1, 2]
    assert tc.compile(axpy)(x, outputs=x.copy()).tolist() == [0, 2, 4, 6, 8]
    with pytest.raises(Forbidden):
        tc.compile(text)(x, 2)


def test_damaged_entries_are_made_anew(kept: Path) -> None:
    for damage in (lambda data: data[: len(data) // 2], lambda data: data[:-1] + b"\0"):
        tc.compile(MM)(A, B)
        for path in kept.iterdir():
            path.write_bytes(damage(path.read_bytes()))
        assert (tc.compile(MM)(A, B) == A @ B).all()


def test_a_directory_that_is_not_safe_is_done_without(kept: Path) -> None:
    kept.mkdir()
    kept.chmod(0o777)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            assert (tc.compile(MM)(A, B) == A @ B).all()
    if hasattr(os, "geteuid"):
        assert [str(w.message).split(",")[0] for w in caught] == [
            "cache: kernels are not kept on disk"
        ]
        assert list(kept.iterdir()) == []


def test_other_backends_of_tc_keep_their_texts(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tc.compile(MM, backend="c").source(A, B)
    assert len(list(kept.iterdir())) == 1
    forbid(monkeypatch)
    assert tc.compile(MM, backend="c").source(A, B) == source
    with pytest.raises(Forbidden):
        tc.compile(MM).source(A, B)


def test_backends_from_elsewhere_do_not(kept: Path, evaluating: type[EvaluateBackend]) -> None:
    for _ in range(2):
        tc.compile(MM, backend=evaluating.name)(A, B)
    assert len(evaluating.loaded) == 2
    assert not kept.exists()


@pytest.mark.usefixtures("kept")
def test_code_that_calls_what_is_not_there_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM would end the process."""
    text = "declare void @tc_nowhere() define void @f() { call void @tc_nowhere() ret void }"
    kernel = object_files.compile_modules([text], ["f"], objects._target())
    if kernel.content.startswith(b"\x7fELF"):
        assert list(object_files.outside(kernel.content)) == ["tc_nowhere"]
        assert objects.load(kernel) is None
        source = tc.compile(MM).source(A, B)
        key = cache.digest("object", source, *objects._host())
        cache.put(key, objects.bytes_of(kernel))
        assert (tc.compile(MM)(A, B) == A @ B).all()
        forbid(monkeypatch)
        assert (tc.compile(MM)(A, B) == A @ B).all()  # it was replaced


@pytest.mark.usefixtures("kept")
def test_code_of_fewer_regions_is_not_taken() -> None:
    """A call would leave out what the others compute."""
    text = "def f(float(N) x) -> (s, o) { s +=! x(i)  o(i) = x(i) / s }"
    x = np.array([1, 3], np.float32)
    options = tc.Options(schedule=tc.ScheduleOptions(fusion="min"))
    found = tc.compile(text, options=options)
    source = found.source(x)
    key = cache.digest("object", source, *objects._host())
    assert found(x)[1].tolist() == [0.25, 0.75]
    stored = cache.get(key)
    assert stored is not None
    file = objects.object_of(stored)
    assert file is not None
    assert len(file.functions) > 1
    cache.put(key, objects.bytes_of(replace(file, functions=file.functions[:1])))
    assert tc.compile(text, options=options)(x)[1].tolist() == [0.25, 0.75]


def test_programs_too_deep_for_a_key_are_made(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_deep(_: object) -> bytes:
        raise RecursionError

    monkeypatch.setattr(stored_texts, "canonical", too_deep)
    assert "mm" in tc.compile(MM, backend="c").source(A, B)
    assert not kept.exists()


def test_what_depends_on_chance_is_not_kept(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """isl's scheduler did not answer in time; it may the next time."""
    monkeypatch.setattr(strategies, "isl_tree", lambda *_: "it was too slow")
    options = tc.Options(schedule=tc.ScheduleOptions(fusion="isl"))
    for _ in range(2):
        with pytest.warns(tc.TCWarning, match="it was too slow"):
            assert (tc.compile(MM, options=options)(A, B) == A @ B).all()
    assert len(list(kept.iterdir())) == 1  # the machine code of that text, which always holds
