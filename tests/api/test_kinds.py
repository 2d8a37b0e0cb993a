"""Arrays of any library in, results of its kind out, nothing copied, never an abort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tc.runtime.arrays import address

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
COPY = "def copy(float(N) x) -> (y) { y(i) = x(i) }"
SUM = "def sum(float(N) x, float a) -> (s) { s +=! a * x(i) }"
A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.arange(12, dtype=np.float32).reshape(3, 4)
BACKENDS = ("interpret", "numba")


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# --- numpy ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "a",
    [
        A,
        np.asfortranarray(A),
        np.ascontiguousarray(A[::-1])[::-1],
        np.ascontiguousarray(A[::-1, ::-1])[::-1, ::-1],
        np.repeat(A, 2, axis=1)[:, ::2],
    ],
    ids=["row-major", "column-major", "upside down", "reversed", "every second"],
)
def test_any_strides(a: Any, backend: str) -> None:
    """Rule N2: inputs may have any strides."""
    np.testing.assert_array_equal(a, A)
    np.testing.assert_array_equal(tc.compile(MM, backend=backend)(a, B), A @ B)


def test_broadcast(backend: str) -> None:
    a = np.broadcast_to(np.float32(2), (5, 3))
    np.testing.assert_array_equal(tc.compile(MM, backend=backend)(a, B), a @ B)


def test_unaligned_and_odd_strides_are_copied(backend: str) -> None:
    raw = np.zeros(A.nbytes + 1, np.uint8)
    unaligned = raw[1:].view(np.float32).reshape(2, 3)
    unaligned[...] = A
    record = np.zeros((2, 3), np.dtype([("x", np.float32), ("pad", np.uint8)]))
    odd = record["x"]
    odd[...] = A
    assert odd.strides[1] == 5
    aligned_odd = np.lib.stride_tricks.as_strided(np.zeros(40, np.float32), (2, 3), (6, 8))
    function = tc.compile(MM, backend=backend)
    np.testing.assert_array_equal(function(unaligned, B), A @ B)
    np.testing.assert_array_equal(function(odd, B), A @ B)
    assert (function(aligned_odd, B) == 0).all()


def test_memmap_in_plain_array_out(backend: str, tmp_path: Any) -> None:
    mapped = np.memmap(tmp_path / "a", np.float32, "w+", shape=(2, 3))
    mapped[...] = A
    result = tc.compile(MM, backend=backend)(mapped, B)
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, A @ B)


def test_read_only_inputs(backend: str) -> None:
    a = A.copy()
    a.flags.writeable = False
    np.testing.assert_array_equal(tc.compile(MM, backend=backend)(a, B), A @ B)


def test_empty_arrays(backend: str) -> None:
    function = tc.compile(MM, backend=backend)
    assert function(np.zeros((0, 3), np.float32), B).shape == (0, 4)
    assert (function(np.zeros((2, 0), np.float32), np.zeros((0, 4), np.float32)) == 0).all()


def test_address() -> None:
    for array in (A, A[1:], A[::-1], A.T, np.zeros((0, 3)), np.array(1.0)):
        assert address(array) == array.__array_interface__["data"][0]


# --- torch ------------------------------------------------------------------------------------


def test_torch(torch: Any, backend: str) -> None:
    a, b = torch.from_numpy(A), torch.from_numpy(B)
    function = tc.compile(MM, backend=backend)
    result = function(a, b)
    assert type(result) is torch.Tensor
    torch.testing.assert_close(result, a @ b)
    torch.testing.assert_close(function(a.T.contiguous().T, b), a @ b)
    torch.testing.assert_close(function(a[:1].expand(7, 3), b), a[:1].expand(7, 3) @ b)
    assert type(tc.interpret(MM, [a, b])) is torch.Tensor
    assert function(torch.zeros(0, 3), b).shape == (0, 4)


def test_torch_scalars_and_numbers(torch: Any, backend: str) -> None:
    x = torch.ones(3)
    function = tc.compile(SUM, backend=backend)
    for a in (2.0, 2, np.float32(2), torch.tensor(2.0)):
        result = function(x, a)
        assert type(result) is torch.Tensor
        assert result.shape == ()
        assert result == 6


def test_torch_negative_bit(torch: Any, backend: str) -> None:
    x = torch.tensor([1j, 2j]).conj().imag
    assert x.is_neg()
    torch.testing.assert_close(tc.compile(COPY, backend=backend)(x), torch.tensor([-1.0, -2.0]))


def test_torch_outputs_and_their_version(torch: Any, backend: str) -> None:
    """Rule R4; autograd must see that a saved tensor was overwritten."""
    function = tc.compile(COPY, backend=backend)
    y = torch.zeros(3)
    version = y._version
    assert function(torch.ones(3), outputs=y) is y
    assert (y == 1).all()
    assert y._version > version
    x = torch.ones(3, requires_grad=True)
    product = x * y
    function(torch.zeros(3), outputs=y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    refused = torch.zeros(3)
    version = refused._version
    with pytest.raises(tc.InputError, match="float64"):
        function(torch.ones(3, dtype=torch.float64), outputs=refused)
    assert refused._version == version


def test_torch_refusals(torch: Any, backend: str) -> None:
    function = tc.compile(COPY, backend=backend)

    x = torch.ones(3)
    wrong = [
        (x.to(torch.bfloat16), r"(?s)bfloat16.*x\.to\(torch\.float32\)"),
        (x.to(torch.float64), r"(?s)float64.*x\.to\(torch\.float32\)"),
        (x.to_sparse(), "sparse_coo"),
        (x.to(torch.complex64), "complex64"),
    ]
    for value, message in wrong:
        with pytest.raises(tc.InputError, match=message):
            function(value)
    for output, message in [
        (torch.ones(3, requires_grad=True), "requires a gradient"),
        (torch.tensor([1j, 2j, 3j]).conj().imag, "negation"),
        (torch.ones(6)[::2], "row-major"),
        (torch.ones(1).expand(3), "row-major"),
        (torch.ones(3, device="meta"), "meta tensor"),
    ]:
        with pytest.raises(tc.InputError, match=message):
            function(x, outputs=output)


@pytest.mark.filterwarnings("ignore")
def test_torchs_transforms(torch: Any, backend: str) -> None:
    function, x = tc.compile(COPY, backend=backend), torch.arange(3.0)
    assert torch.func.vmap(function)(x[None]).tolist() == [[0, 1, 2]]
    assert torch.func.grad(lambda x: (x * function(x)).sum())(x).tolist() == [0, 2, 4]
    value, tangent = torch.func.jvp(function, (x,), (x + 1,))
    assert (value.tolist(), tangent.tolist()) == ([0, 1, 2], [1, 2, 3])


@pytest.mark.filterwarnings("ignore")
def test_inside_of_torch_compile(torch: Any, backend: str) -> None:
    """A call is a part of the graph, unless torch is told not to look."""
    function = tc.compile(COPY, backend=backend)
    opaque = torch.compiler.disable(function)
    torch._dynamo.reset()
    try:
        x = torch.arange(5.0)
        got = torch.compile(lambda x: opaque(2 * x) + 1, backend="eager")(x)
        assert got.tolist() == [1, 3, 5, 7, 9]
        with pytest.raises(torch._dynamo.exc.Unsupported):
            torch.compile(lambda x: opaque(2 * x), backend="eager", fullgraph=True)(x)
        whole = torch.compile(lambda x: function(2 * x) + 1, backend="eager", fullgraph=True)
        assert whole(x).tolist() == [1, 3, 5, 7, 9]
    finally:
        torch._dynamo.reset()


# --- jax --------------------------------------------------------------------------------------


@pytest.fixture
def jax() -> Any:
    return pytest.importorskip("jax", reason="jax is not installed")


def test_jax(jax: Any, backend: str) -> None:
    a, b = jax.numpy.asarray(A), jax.numpy.asarray(B)
    function = tc.compile(MM, backend=backend)
    result = function(a, b)
    assert isinstance(result, jax.Array)
    np.testing.assert_array_equal(np.asarray(result), A @ B)
    np.testing.assert_array_equal(np.asarray(function(a.T.T, b[:, ::1])), A @ B)
    assert function(jax.numpy.zeros((0, 3)), b).shape == (0, 4)
    scalar = tc.compile(SUM, backend=backend)(a[0], jax.numpy.float32(2))
    assert isinstance(scalar, jax.Array)
    assert scalar == 6


def test_jax_keeps_64_bits(jax: Any, backend: str) -> None:
    text = (
        "def f(int32(N) x) -> (y, z) { y(i) = double(x(i)) + 0.1 z(i) = int64(x(i)) * 5000000000 }"
    )
    y, z = tc.compile(text, backend=backend)(jax.numpy.arange(3))
    assert (str(y.dtype), str(z.dtype)) == ("float64", "int64")
    np.testing.assert_array_equal(np.asarray(y), np.arange(3) + 0.1)
    np.testing.assert_array_equal(np.asarray(z), np.arange(3) * 5_000_000_000)


def test_jax_refusals(jax: Any, backend: str) -> None:
    function = tc.compile(COPY, backend=backend)
    x = jax.numpy.ones(3)
    with pytest.raises(tc.InputError, match="nothing may write to"):
        function(x, outputs=jax.numpy.ones(3))
    with pytest.raises(tc.InputError, match="has rank 2"):
        jax.jit(function)(jax.numpy.ones((2, 3)))
    with pytest.raises(tc.InputError, match="bfloat16"):
        function(x.astype("bfloat16"))
    with pytest.raises(tc.InputError):
        function(jax.random.key(0))
    deleted = jax.numpy.ones(3) + 1
    deleted.delete()
    with pytest.raises(tc.InputError, match="deleted"):
        function(deleted)


# --- others -----------------------------------------------------------------------------------


class Namespace:
    """The namespace of `Foreign`, as the array API standard has it."""

    @staticmethod
    def from_dlpack(array: Any) -> Foreign:
        return Foreign(np.from_dlpack(array))


class Foreign:
    """An array of a library that tc has never heard of."""

    device = (1, 0)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __array_namespace__(self) -> type[Namespace]:
        return Namespace


class OnMetal(Foreign):
    device = (8, 1)


class OneWay:
    """Gives its data and takes none."""

    def __dlpack__(self, **options: Any) -> Any:
        return A[0].__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def test_any_dlpack_array(backend: str) -> None:
    result = tc.compile(MM, backend=backend)(Foreign(A), Foreign(B))
    assert type(result) is Foreign
    np.testing.assert_array_equal(result.array, A @ B)


def test_dlpack_outputs(backend: str) -> None:
    """Rule R4."""
    y = Foreign(np.zeros(3, np.float32))
    assert tc.compile(COPY, backend=backend)(Foreign(A[0].copy()), outputs=y) is y
    np.testing.assert_array_equal(y.array, A[0])


def test_dlpack_refusals(backend: str) -> None:
    function = tc.compile(COPY, backend=backend)
    with pytest.raises(tc.InputError, match=r"lies on a device of .*Metal 1"):
        function(OnMetal(A[0]))
    with pytest.raises(tc.InputError, match="no from_dlpack for the results"):
        function(OneWay())


def test_mixed_kinds(torch: Any, backend: str) -> None:
    function = tc.compile(MM, backend=backend)
    with pytest.raises(tc.InputError, match="B is an array of torch, but A is one of numpy"):
        function(A, torch.from_numpy(B))
    with pytest.raises(tc.InputError, match="C is an array of numpy, but A is one of torch"):
        function(torch.from_numpy(A), torch.from_numpy(B), outputs=np.empty((2, 4), np.float32))
    with pytest.raises(tc.InputError, match=r"B is an array of .*, but A is one of numpy"):
        function(A, Foreign(B))


def test_outputs_decide_where_no_input_is_an_array(torch: Any, backend: str) -> None:
    """Rule R4: numbers have no kind."""
    function = tc.compile("def f(float a) -> (p, q) { p = a q = 2 * a }", backend=backend)
    assert type(function(1.0).p) is np.ndarray
    p = torch.zeros(())
    result = function(1.5, outputs={"p": p})
    assert result.p is p
    assert type(result.q) is torch.Tensor
    assert (p, result.q) == (1.5, 3.0)


def test_results_are_not_copied() -> None:
    """The caller gets the memory that the kernel wrote."""
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    from tc.runtime.arrays import empty, family_of  # a look inside

    for like in (torch.ones(1), jax.numpy.ones(1)):
        family = family_of(like)
        fresh = empty((5, 3), np.dtype(np.float32), family.alignment)
        pointer = address(fresh)
        wrapped = family.wrap(fresh, like)
        assert address(family.view(wrapped)) == pointer
        assert (
            address(family.view(like))
            == getattr(like, "unsafe_buffer_pointer", getattr(like, "data_ptr", None))()
        )
