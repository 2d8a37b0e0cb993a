"""Arrays that lie apart, or are of two libraries: errors with the names, and repairs that work."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tc
from tests.support.build import refusal_of
from tests.support.on_devices import NAMES, Library, use
from tests.support.stand_in import StandInDriver, stand_in

__all__ = ["stand_in", "use"]

Use = Callable[[str], Library]

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
GATHER = "def g(float(N) x, int32 n) -> (o) { o(i) = x(i + n) where i in 0:3 }"
A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.arange(12, dtype=np.float32).reshape(3, 4)
LIBRARIES = ("cupy", "numba", "torch", "jax")


def mended(error: tc.InputError, library: Library, **arrays: Any) -> dict[str, Any]:
    """The arrays after the repair, an expression for the one that is named first in it, or a
    statement."""
    assert error.repair is not None
    wrong = error.cause.split()[1]
    modules = {
        "np": np,
        "cupy": library.module,
        "numba": SimpleNamespace(cuda=library.module),
        "torch": library.module,
    }
    if library.name == "jax":
        modules["jax"] = library.module.jax
    scope = {**modules, **arrays}
    if error.repair.startswith("with "):
        exec(error.repair, scope)
        return {name: scope[name] for name in arrays}
    return {**arrays, wrong: eval(error.repair, scope)}


@pytest.mark.parametrize("name", LIBRARIES)
def test_arrays_of_numpy_beside_others(name: str, use: Use, stand_in: StandInDriver) -> None:
    library = use(name)
    mm = tc.compile(MM, backend="cuda")
    a = library.put(A, 0)
    error = refusal_of(lambda: mm(a, B))
    assert error.cause == (
        f"mm: B is an array of numpy, but A is one of {name}: the arrays of a call are of one kind"
    )
    found = mm(**mended(error, library, A=a, B=B))
    np.testing.assert_array_equal(library.get(found), A @ B)
    assert "copy_in" not in stand_in.names()


@pytest.mark.parametrize("backend", ["numba", "cuda"])
@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.filterwarnings("ignore::tc.TCWarning")  # of copies
@pytest.mark.usefixtures("stand_in")
def test_arrays_of_others_beside_numpy(name: str, backend: str, use: Use) -> None:
    library = use(name)
    mm = tc.compile(MM, backend=backend)
    b = library.put(B, 0)
    error = refusal_of(lambda: mm(A, b))
    assert error.cause == (
        f"mm: B is an array of {name}, but A is one of numpy: the arrays of a call are of one kind"
    )
    if name == "jax":  # the stand-in has no arrays on the processor
        assert error.repair == 'np.asarray(jax.device_put(B, jax.devices("cpu")[0]))'
        return
    np.testing.assert_array_equal(mm(**mended(error, library, A=A, B=b)), A @ B)


@pytest.mark.parametrize(("number", "other"), [(0, 1), (1, 0)])
@pytest.mark.parametrize("name", ["cupy", "numba", "torch"])
def test_arrays_of_two_devices(
    name: str, number: int, other: int, use: Use, stand_in: StandInDriver
) -> None:
    library = use(name)
    mm = tc.compile(MM, backend="cuda")
    a, b = library.put(A, number), library.put(B, other)
    error = refusal_of(lambda: mm(a, b))
    assert error.cause == (
        f"mm: B lies on CUDA device {other}, but A on CUDA device {number}: the arrays of a call "
        "lie in one place"
    )
    found = mm(**mended(error, library, A=a, B=b))
    np.testing.assert_array_equal(library.get(found), A @ B)
    assert ("load", number) in stand_in.calls
    assert ("load", other) not in stand_in.calls


@pytest.mark.parametrize("name", ["A", "B"])
@pytest.mark.usefixtures("stand_in")
def test_torch_on_the_processor_and_on_a_device(name: str, use: Use) -> None:
    """The repair moves the tensor on the processor."""
    library = use("torch")
    mm = tc.compile(MM, backend="cuda")
    tensors = {"A": library.module.torch.from_numpy(A), "B": library.module.torch.from_numpy(B)}
    other = "B" if name == "A" else "A"
    library.module.put(tensors[other], 1)
    error = refusal_of(lambda: mm(**tensors))
    assert error.cause == (
        f"mm: {name} lies on the processor, but {other} on CUDA device 1: the arrays of a call lie "
        "in one place"
    )
    assert error.repair == f"{name}.to({other}.device)"
    np.testing.assert_array_equal(mm(**mended(error, library, **tensors)).numpy(), A @ B)


@pytest.mark.usefixtures("stand_in")
def test_an_output_elsewhere(use: Use) -> None:
    library = use("torch")
    mm, torch = tc.compile(MM, backend="cuda"), library.module.torch
    a, b = library.put(A, 1), library.put(B, 1)
    error = refusal_of(lambda: mm(a, b, outputs=torch.empty_like(torch.zeros(2, 4))))
    assert error.cause.startswith("mm: C lies on the processor, but A on CUDA device 1")
    error = refusal_of(lambda: mm(a, b, outputs=library.put(np.empty((2, 3), np.float32), 1)))
    assert error.cause == "mm: C in outputs= has shape (2, 3), but the output has shape (2, 4)"
    assert error.repair == 'torch.empty((2, 4), dtype=torch.float32, device="cuda:1")'
    error = refusal_of(lambda: mm(a, b, outputs=np.empty((2, 4), np.float32)))
    assert error.cause.startswith("mm: C is an array of numpy, but A is one of torch")
    assert error.repair == "torch.as_tensor(C, device=A.device)"


@pytest.mark.parametrize("name", ["interface", "dlpack", "array api", "adopting"])
@pytest.mark.usefixtures("stand_in")
def test_libraries_that_tc_has_never_heard_of(name: str, use: Use) -> None:
    """What to do is told in words, where nobody knows how these are written."""
    library, mm = use(name), tc.compile(MM, backend="cuda")
    a, b, c = library.put(A, 1), library.put(B, 1), np.empty((2, 4), np.float32)
    fresh = "a row-major float32 array of shape (2, 4) on CUDA device 1"
    assert refusal_of(lambda: mm(a, library.put(B, 0))).repair == "a copy of B on CUDA device 1"
    kind = type(a).__module__.partition(".")[0]
    assert refusal_of(lambda: mm(a, B)).repair == (
        f"a copy of B as an array of {kind}, on CUDA device 1"
    )
    error = refusal_of(lambda: mm(a, b, outputs=library.put(c[:1], 1)))
    assert error.cause == "mm: C in outputs= has shape (1, 4), but the output has shape (2, 4)"
    assert error.repair == fresh
    whole = np.zeros(12, np.float32)
    overlapping = (
        library.put(whole[:6].reshape(2, 3), 1),
        b,
        library.put(whole[4:].reshape(2, 4), 1),
    )
    error = refusal_of(lambda: mm(*overlapping[:2], outputs=overlapping[2]))
    assert error.cause == "mm: C in outputs= shares memory with the input A"
    assert error.repair == fresh


TO_HOST = {
    "cupy": "A.get() for a copy there",
    "numba": "A.copy_to_host() for a copy there",
    "torch": "A.cpu() for a copy there",
    "jax": 'jax.device_put(A, jax.devices("cpu")[0]) for a copy there',
    "interface": "copy it to the CPU",
}


@pytest.mark.parametrize("backend", ["numba", "interpret", "c"])
@pytest.mark.parametrize("name", TO_HOST)
def test_backends_of_processors_take_none(name: str, backend: str, use: Use) -> None:
    library = use(name)
    mm = tc.compile(MM, backend=backend)
    error = refusal_of(lambda: mm(library.put(A, 1), library.put(B, 1)))
    assert error.cause == "mm: A lies on CUDA device 1, and this runs on the processor"
    assert error.repair == f'{TO_HOST[name]}, or tc.compile(..., backend="cuda")'


@pytest.mark.parametrize("name", NAMES)
def test_what_the_interpreter_computes(name: str, use: Use) -> None:
    library = use(name)
    for function in (tc.interpret, tc.error_bound):
        error = refusal_of(lambda f=function: f(MM, library.put(A, 0), library.put(B, 0)))
        assert error.cause == "mm: A lies on CUDA device 0, and this runs on the processor"


def of_any_device(explanation: tc.Explanation) -> str:
    """Without the machine code, which is that for the device of the arrays."""
    lines = str(explanation).splitlines()
    first = next((n for n, line in enumerate(lines) if line.startswith("machine code")), 0)
    last = next((n for n, line in enumerate(lines) if n > first and line[:1] != " "), first)
    return "\n".join(lines[:first] + lines[last:] if first else lines)


COLUMNS = np.lib.stride_tricks.as_strided(B, (3, 4), (4, 12))


@cache
def of_host_arrays(backend: str, *, is_strided: bool) -> tuple[str, str]:
    """The text of MM, and what is explained of it."""
    b = COLUMNS if is_strided else B
    check = tc.compile(MM, backend=backend).check
    text = str(tc.emit(MM, A, b, backend=backend, check=check))
    return text, of_any_device(tc.explain(MM, A, b, backend=backend))


@pytest.mark.parametrize("name", NAMES)
def test_what_asks_for_shapes_alone(name: str, use: Use, stand_in: StandInDriver) -> None:
    library = use(name)
    columns = B if library.copies else COLUMNS
    a, b = library.put(A, 1), library.put(columns, 1)
    for backend in ("numba", "cuda"):
        mm = tc.compile(MM, backend=backend)
        assert str(mm.infer(a, b)["C"]) == "float32(2, 4)"
        text, explained = of_host_arrays(backend, is_strided=columns is not B)
        assert mm.source(a, b) == text
        assert str(tc.emit(MM, a, b, backend=backend, check=mm.check)) == text
        assert of_any_device(tc.explain(MM, a, b, backend=backend)) == explained
        assert of_any_device(mm.explain(a, b)) == explained
    assert "launch" not in stand_in.names()


@pytest.mark.parametrize("name", ["cupy", "numba", "torch", "array api"])
def test_preparing_compiles_for_their_device(name: str, use: Use, stand_in: StandInDriver) -> None:
    library = use(name)
    mm = tc.compile(MM, backend="cuda")
    a, b = library.put(A, 1), library.put(B, 1)
    mm.prepare(a, b)
    assert ("load", 1) in stand_in.calls
    stand_in.calls.clear()
    np.testing.assert_array_equal(library.get(mm(a, b)), A @ B)
    assert "load" not in stand_in.names()


@pytest.mark.parametrize("name", ["cupy", "torch", "interface"])
@pytest.mark.usefixtures("stand_in")
def test_values_that_code_is_made_for(name: str, use: Use) -> None:
    """Code knows integers in subscripts: of one on a device nobody knows the value."""
    library = use(name)
    x, n = library.put(np.arange(6, dtype=np.float32), 0), library.put(np.array(2, np.int32), 0)
    gather = tc.compile(GATHER, backend="cuda")
    for function in (gather, gather.infer, gather.prepare, gather.explain):
        error = refusal_of(lambda f=function: f(x, n))
        assert error.cause == (
            "g: n lies on CUDA device 0, but code is made for the value of int32 n"
        )
        assert error.repair == "int(n)"
    assert library.get(gather(x, 2)).tolist() == [2, 3, 4]


@pytest.mark.parametrize("name", ["cupy", "torch", "interface"])
@pytest.mark.usefixtures("stand_in")
def test_functions_that_were_called_stay_values(name: str, use: Use) -> None:
    """What a function keeps of arrays and devices is neither in its text nor in its pickle."""
    library, mm = use(name), tc.compile(MM, backend="cuda")
    a, b = library.put(A, 0), library.put(B, 0)
    before = repr(mm)
    for _ in range(3):
        mm(a, b)
    assert repr(mm) == before == "<tc mm(float32(M, K) A, float32(K, N) B) -> (C), backend cuda>"
    assert copy.copy(mm) is copy.deepcopy(mm) is mm
    other = pickle.loads(pickle.dumps(mm))
    assert (other.text, other.backend, other.options) == (mm.text, "cuda", mm.options)
    assert other._entry is None
    np.testing.assert_array_equal(library.get(other(a, b)), A @ B)
