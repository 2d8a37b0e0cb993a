"""Arrays of each library on CUDA devices: seen where they are, in any layout, without copies."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tc
from tc.runtime.arrays import cuda_arrays, family_of
from tc.runtime.entries.device_entry import DeviceEntry
from tests.support.build import refusal_of
from tests.support.device_libraries import CUDA_HOST, CupyArray
from tests.support.on_devices import NAMES, Library, use
from tests.support.stand_in import DeviceVector, StandInDriver, stand_in

__all__ = ["stand_in", "use"]

Use = Callable[[str], Library]

TWICE = "def twice(float(N,M) a) -> (o) { o(i,j) = 2 * a(i,j) }"
ONE = "def one(float(N) x) -> (o) { o(i) = 2 * x(i) }"
A = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
STRIDED = ("cupy", "numba", "torch", "interface", "dlpack", "array api", "adopting")
"""Libraries whose arrays may have any strides from 0."""


def strided(*strides: int, start: int = 0, shape: tuple[int, ...] = (3, 4)) -> np.ndarray:
    """A part of memory that holds numbers, with strides in elements."""
    memory = np.arange(60, dtype=np.float32)[start:]
    return np.lib.stride_tricks.as_strided(memory, shape, [4 * step for step in strides])


LAYOUTS = {
    "columns": strided(1, 3),
    "every other": strided(20, 3),
    "offset": strided(5, 1, start=7),
    "one row expanded": strided(0, 1),
    "one element expanded": strided(0, 0, start=3),
    "overlapping rows": strided(1, 1),
    "no rows": strided(4, 1, shape=(0, 4)),
    "no columns": strided(4, 1, start=2, shape=(3, 0)),
}
BACKWARDS = {
    "upside down": strided(-4, 1, start=40),
    "backwards": strided(-8, -2, start=40),
}


def run(
    library: Library, text: str, array: Any, shape: tuple[int, ...], number: int = 0
) -> np.ndarray:
    """The values of the result, which is an array of the library."""
    outputs = None if library.makes else library.put(np.empty(shape, np.float32), number)
    found = tc.compile(text, backend="cuda")(array, outputs=outputs)
    assert type(found) is type(array)
    return library.get(found)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", STRIDED)
def test_any_strides_n2(name: str, layout: str, use: Use, stand_in: StandInDriver) -> None:
    library, values = use(name), LAYOUTS[layout]
    np.testing.assert_array_equal(
        run(library, TWICE, library.put(values, 0), values.shape), 2 * values
    )
    assert not {"copy_in", "copy_out"} & {*stand_in.names()}


@pytest.mark.parametrize("layout", BACKWARDS)
@pytest.mark.parametrize("name", ["cupy", "numba", "interface", "dlpack", "array api"])
def test_negative_strides_n2(name: str, layout: str, use: Use, stand_in: StandInDriver) -> None:
    library, values = use(name), BACKWARDS[layout]
    np.testing.assert_array_equal(
        run(library, TWICE, library.put(values, 0), values.shape), 2 * values
    )
    assert not {"copy_in", "copy_out"} & {*stand_in.names()}


@pytest.mark.parametrize("name", STRIDED)
def test_views_are_of_the_same_memory(name: str, use: Use) -> None:
    library = use(name)
    values = strided(20, 3, start=7)
    array = library.put(values, 1)
    view = family_of(array).view(array)
    found = (view.address, view.strides, view.shape, str(view.place), view.writable)
    assert found == (values.ctypes.data, (80, 12), (3, 4), "CUDA device 1", True)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("stand_in")
def test_arrays_of_rank_0(name: str, use: Use) -> None:
    library = use(name)
    total = "def total(float(N) x, float s) -> (o) { o +=! s * x(i) }"
    x, s = np.arange(5, dtype=np.float32), np.array(3, np.float32)
    inputs = library.put(x, 0), library.put(s, 0)
    given = None if library.makes else library.put(np.zeros((), np.float32), 0)
    found = tc.compile(total, backend="cuda")(*inputs, outputs=given)
    assert library.get(found).shape == ()
    assert library.get(found) == 30


@pytest.mark.parametrize("name", NAMES)
def test_results_lie_where_the_arrays_do(name: str, use: Use, stand_in: StandInDriver) -> None:
    library = use(name)
    number = 0 if name == "interface" else 1  # whose library makes arrays on device 0
    array = library.put(A.copy(), number)
    np.testing.assert_array_equal(run(library, TWICE, array, (3, 4), number), 2 * A)
    assert ("on", number) in stand_in.calls
    assert stand_in.current() is None


# --- what cannot be read ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cupy", "numba", "interface", "dlpack"])
def test_elements_that_are_not_aligned(name: str, use: Use, stand_in: StandInDriver) -> None:
    library = use(name)
    memory = np.zeros(64, np.uint8)
    start = -memory.ctypes.data % 4
    odd, even = (memory[start + n : start + n + 12].view(np.float32) for n in (2, 4))
    one = tc.compile(ONE, backend="cuda")
    error = refusal_of(lambda: one(library.put(odd, 0)))
    assert error.cause == (
        f"one: x lies at address {odd.ctypes.data:#x} with strides (4,) in bytes, which are not "
        "multiples of its 4-byte elements: CUDA device 0 cannot read them so"
    )
    error = refusal_of(lambda: one(library.put(even, 0), outputs=library.put(odd, 0)))
    assert error.cause == "one: o in outputs= is not aligned to its element type"
    if name != "dlpack":  # which counts in elements
        steps = np.lib.stride_tricks.as_strided(even, (2,), (6,))
        assert "with strides (6,) in bytes" in refusal_of(lambda: one(library.put(steps, 0))).cause
    assert "launch" not in stand_in.names()


RECORD = np.dtype([("re", np.float32), ("im", np.float32)])
WRONG = {
    "float64": np.ones(3),
    "int32": np.ones(3, np.int32),
    "complex64": np.ones(3, np.complex64),
    "complex in the middle": np.ones(7, np.float32)[1:].view(np.complex64),
    "structured": np.zeros(3, RECORD),
    "structured in the middle": np.ones(7, np.float32)[1:].view(RECORD),
    "other byte order": np.ones(3, ">f4"),
    "rank 2": np.ones((1, 3), np.float32),
    "rank 0": np.ones((), np.float32),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", ["cupy", "numba", "interface"])
@pytest.mark.usefixtures("stand_in")
def test_wrong_types_and_ranks_t4_y3(name: str, wrong: str, use: Use) -> None:
    """The cause is what arrays of numpy are told."""
    expected = refusal_of(lambda: tc.compile(ONE, backend="numba")(WRONG[wrong]))
    found = refusal_of(lambda: tc.compile(ONE, backend="cuda")(use(name).put(WRONG[wrong], 0)))
    assert (found.cause, found.rule) == (expected.cause, expected.rule)


@pytest.mark.parametrize("wrong", ["float64", "int32", "complex64", "rank 2", "rank 0"])
@pytest.mark.parametrize("name", ["torch", "jax", "dlpack", "array api"])
@pytest.mark.usefixtures("stand_in")
def test_wrong_types_and_ranks_of_others_t4_y3(name: str, wrong: str, use: Use) -> None:
    library, values = use(name), WRONG[wrong]
    expected = tc.compile(ONE, backend="numba")
    message = refusal_of(lambda: expected(values)).cause
    if name == "torch" and wrong == "complex64":
        message = "one: x has dtype complex64, which tc does not know"
    found = refusal_of(lambda: tc.compile(ONE, backend="cuda")(library.put(values, 0)))
    assert found.cause == message


@pytest.mark.usefixtures("stand_in")
def test_bfloat16(use: Use) -> None:
    one, torch, jax = tc.compile(ONE, backend="cuda"), use("torch").module, use("jax").module
    cause = (
        "one: x has dtype bfloat16, but float32(N) x asks for float32; a parameter for it is "
        "written bfloat16(N) x"
    )
    tensor = torch.put(torch.torch.ones(3, dtype=torch.torch.bfloat16))
    error = refusal_of(lambda: one(tensor))
    assert error.cause == cause
    assert error.repair == "x.to(torch.float32)"
    array = jax.array(np.ones(3, np.float32)).astype("bfloat16")
    error = refusal_of(lambda: one(array))
    assert error.cause == cause
    assert error.repair == 'x.astype("float32")'
    error = refusal_of(lambda: one(CupyArray(np.asarray(array))))
    assert error.cause == cause


# --- what libraries mean by an array --------------------------------------------------------------


def test_torch_refuses_as_on_the_processor(use: Use, stand_in: StandInDriver) -> None:
    """Gradients of outputs, and negations; what is differentiated and batched there is on the
    device, too."""
    library, one = use("torch"), tc.compile(ONE, backend="cuda")
    torch, put = library.module.torch, library.module.put
    x = put(torch.arange(3.0))
    needs = put(torch.arange(3.0)).requires_grad_()
    for given, output in [(needs, x), (x, needs)]:
        error = refusal_of(lambda g=given, o=output: one(g, outputs=o))
        assert "requires a gradient" in error.cause
    (gradient,) = torch.autograd.grad(one(needs), needs, put(torch.ones(3)))
    assert gradient.tolist() == [2, 2, 2]
    with torch.no_grad():
        assert one(needs).tolist() == [0, 2, 4]
    negated = put(torch.tensor([1j, 2j]).conj()).imag
    assert negated.is_neg()
    assert negated.is_cuda
    assert one(negated).tolist() == [-2, -4]
    error = refusal_of(lambda: one(put(torch.arange(2.0)), outputs=negated))
    assert error.cause == "one: o in outputs= is a lazy negation of another tensor"
    rows = torch.func.vmap(one)(put(torch.arange(6.0).reshape(2, 3)))
    assert rows.tolist() == [[0, 2, 4], [6, 8, 10]]
    assert "launch" in stand_in.names()


@pytest.mark.usefixtures("stand_in")
def test_torch_keeps_its_versions(use: Use) -> None:
    """Autograd sees that a saved tensor was overwritten (R4)."""
    library, one = use("torch"), tc.compile(ONE, backend="cuda")
    torch, put = library.module.torch, library.module.put
    x, y = put(torch.ones(3)), put(torch.zeros(3))
    for _ in range(3):
        product = torch.ones(3, requires_grad=True) * y
        version = y._version
        one(x, outputs=y)
        assert y._version > version
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.sum().backward()


def test_torch_for_rocm(use: Use, stand_in: StandInDriver, monkeypatch: Any) -> None:
    """It calls its devices cuda, too."""
    monkeypatch.setattr(pytest.importorskip("torch").version, "hip", "6.3")
    library = use("torch")
    error = refusal_of(lambda: tc.compile(ONE, backend="cuda")(library.put(np.ones(3), 0)))
    assert (error.cause, error.repair) == ("one: x lies on ROCm device 0", "x.cpu()")
    assert "launch" not in stand_in.names()


@pytest.mark.usefixtures("stand_in")
def test_cupy_for_rocm_and_subclasses(use: Use) -> None:
    library = use("cupy")
    library.module.cuda.runtime.is_hip = True
    one = tc.compile(ONE, backend="cuda")
    array = library.put(np.ones(3, np.float32), 0)
    error = refusal_of(lambda: one(array))
    assert error.cause == "one: x lies on a device of ROCm, which tc does not run on"

    class Signal(CupyArray):
        pass

    error = refusal_of(lambda: one(Signal(np.ones(3, np.float32))))
    assert error.cause == (
        "one: x is of type Signal, a subclass of CuPy's arrays that may mean more than its numbers"
    )


@pytest.mark.filterwarnings("ignore::tc.TCWarning")  # of copies
def test_jax_is_waited_for(use: Use, stand_in: StandInDriver) -> None:
    """It has streams of its own: an argument must be there before a launch, and may go after a
    call, whose results it takes over by DLPack."""
    library, one = use("jax"), tc.compile(ONE, backend="cuda")
    for count in (1, 2, 3):
        stand_in.calls.clear()
        found = one(library.put(np.arange(3, dtype=np.float32), 1))
        assert library.get(found).tolist() == [0, 2, 4]
        assert library.module.waited == count
        assert stand_in.names()[-1] == "wait"
    array = library.put(np.ones(3, np.float32), 1)
    error = refusal_of(lambda: one(array, outputs=array))
    assert error.cause == "one: o in outputs= is an array of jax, which nothing may write to"
    library.module.kind = CUDA_HOST
    assert library.get(one(array)).tolist() == [2, 2, 2]
    assert stand_in.names()[-1] == "copy_out"


@pytest.mark.usefixtures("stand_in")
def test_jax_over_several_devices(use: Use) -> None:
    library = use("jax")
    array = library.put(np.ones(3, np.float32), 0)
    library.module.devices = ["gpu:0", "gpu:1"]
    error = refusal_of(lambda: tc.compile(ONE, backend="cuda")(array))
    assert error.cause == "one: x lies on gpu:0, gpu:1"
    assert error.repair == 'jax.device_put(x, jax.devices("cpu")[0])'


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"mask": object()}, "has a mask, which would be lost"),
        ({"data": (0, False)}, "has no memory: its address is 0"),
        (
            {"typestr": "<f3"},
            "cannot be read by __cuda_array_interface__: TypeError: data type '<f3' not understood",
        ),
        (
            {"shape": None},
            "cannot be read by __cuda_array_interface__: TypeError: 'NoneType' object is not "
            "iterable",
        ),
    ],
)
@pytest.mark.usefixtures("stand_in")
def test_interfaces_that_cannot_be_read(changed: dict[str, Any], cause: str) -> None:
    class Odd(DeviceVector):
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return {**super().__cuda_array_interface__, **changed}

    error = refusal_of(lambda: tc.compile(ONE, backend="cuda")(Odd(np.ones(3, np.float32))))
    assert error.cause == f"one: x {cause}"


def test_old_interfaces(stand_in: StandInDriver) -> None:
    """Version 0 had no strides, and version 2 no streams."""

    class Old(DeviceVector):
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            found = super().__cuda_array_interface__
            return {name: found[name] for name in ("shape", "typestr", "data")} | {"version": 0}

    one, x, o = tc.compile(ONE, backend="cuda"), *(Old(np.float32([0, n, 2 * n])) for n in (1, 0))
    for _ in range(3):
        assert one(x, outputs=o).values.tolist() == [0, 2, 4]
    assert "copy_in" not in stand_in.names()


def test_devices_that_arrays_do_not_tell(
    monkeypatch: pytest.MonkeyPatch, stand_in: StandInDriver
) -> None:
    """CUDA's driver is asked where an address lies."""

    class Silent(DeviceVector):
        device = None  # type: ignore[assignment]

        def __init__(self, values: Any) -> None:
            self.values, self.stream, self.read_only = np.asarray(values), None, False

    asked: list[int] = []

    def attribute(number: Any, which: Any, address: Any) -> int:
        assert which.value == 9
        asked.append(address.value)
        number._obj.value = 1
        return 0

    one = tc.compile(ONE, backend="cuda")
    x, o = Silent(np.arange(3, dtype=np.float32)), Silent(np.zeros(3, np.float32))
    driver = SimpleNamespace(cuPointerGetAttribute=attribute)
    for found, number in [(None, 0), (driver, 1)]:
        monkeypatch.setattr(cuda_arrays, "library", lambda found=found: found)
        stand_in.calls.clear()
        assert one(x, outputs=o).values.tolist() == [0, 2, 4]
        assert ("load", number) in stand_in.calls
    assert {*asked} == {x.values.ctypes.data, o.values.ctypes.data}


@pytest.mark.usefixtures("stand_in")
def test_results_that_a_library_has_no_arrays_for(use: Use) -> None:
    f = tc.compile("def f(float(N) x) -> (o) { o(i) = uint64(x(i)) }", backend="cuda")
    x = use("array api").put(np.ones(3, np.float32), 0)
    assert refusal_of(lambda: f(x)).cause == (
        "tests has no arrays of uint64, so that results cannot be such"
    )


class Vector(DeviceVector):
    """An array of a library of its own."""

    __module__ = "vectors"


@pytest.mark.parametrize(
    ("made", "cause"),
    [
        (
            lambda: np.empty(3, np.float32),
            "vectors has made an array on the processor, and the arrays of the call lie on CUDA "
            "device 0",
        ),
        (
            lambda: Vector(np.empty(3, np.float32), device=1),
            "vectors has made an array on CUDA device 1, and the arrays of the call lie on CUDA "
            "device 0",
        ),
        (lambda: Vector(np.empty(4, np.float32)), "vectors has made an array of shape (4,)"),
        (lambda: Vector(np.empty(3)), "vectors has made an array of shape (3,) and dtype float64"),
        (lambda: Vector(np.empty(6, np.float32)[::2]), "vectors has made an array of shape (3,)"),
        (lambda: [1, 2, 3], "vectors has made an array that is of type list, which is no array"),
    ],
)
def test_libraries_that_make_something_else(
    made: Callable[[], Any],
    cause: str,
    use: Use,  # noqa: ARG001  # what is known of the library is forgotten
    monkeypatch: pytest.MonkeyPatch,
    stand_in: StandInDriver,
) -> None:
    """At any call, also at those of known looks; nothing is launched then."""
    makers: list[Callable[[], Any]] = []
    empty = SimpleNamespace(empty=lambda _shape, _dtype: makers[-1]())
    monkeypatch.setitem(sys.modules, "vectors", empty)
    one, x = tc.compile(ONE, backend="cuda"), Vector(np.ones(3, np.float32))
    for _ in range(3):
        makers.append(lambda: Vector(np.empty(3, np.float32)))
        for _ in range(3):
            assert one(x).values.tolist() == [2, 2, 2]
        makers.append(made)
        stand_in.calls.clear()
        assert refusal_of(lambda: one(x)).cause.startswith(cause)
        assert "launch" not in stand_in.names()
    assert type(one._entry) is DeviceEntry
