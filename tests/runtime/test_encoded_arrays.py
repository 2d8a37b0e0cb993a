"""Arrays of bfloat16 and of floats of 8 bits: of ml_dtypes, of torch, of jax, and without any."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tc
from tc.dtypes import BFLOAT16, DTYPES, encoded
from tests.support import narrow_floats as narrow
from tests.support.processes import run_python

TEXT = "def f({0}(N) a, float(N) b) -> (o, t) {{ o(i) = {0}(a(i) * b(i))  t(i) = float(a(i)) }}"
BACKENDS = ("interpret", "numba", "c")


@pytest.fixture
def ml_dtypes() -> Any:
    pytest.importorskip("jax", reason="jax is not installed")  # which comes with it
    return narrow.loaded_ml_dtypes()


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", narrow.NAMES)
def test_ml_dtypes(name: str, backend: str, ml_dtypes: Any) -> None:
    """All calls, those that the inline cache serves too, give arrays of the type."""
    dtype = np.dtype(getattr(ml_dtypes, name))
    f = tc.compile(TEXT.format(name), backend=backend)
    b = np.arange(60, dtype=np.float32) / 8
    a = (b[::-1] - 2).astype(dtype)
    expected = (a.astype(np.float32) * b).astype(dtype)
    assert np.isfinite(expected.astype(np.float32)).all()
    for _ in range(4):
        found, told = f(a, b)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(told, a.astype(np.float32))
    for view in (np.s_[::2], np.s_[::-1], np.s_[3:50], np.s_[5:5]):
        for _ in range(3):
            np.testing.assert_array_equal(f(a[view], b[view]).o, expected[view])
    o, t = np.zeros(60, dtype), np.zeros(60, np.float32)
    for outputs in ((o, t), {"o": o, "t": t}, {"o": o}, [o, t]):
        for _ in range(3):
            o[...] = 0
            assert f(a, b, outputs=outputs).o is o
            np.testing.assert_array_equal(o, expected)
    assert f.infer(a, b)["o"].dtype == dtype
    assert str(f.infer(N=3)["o"]) == f"{name}(3)"


def test_the_inline_cache_serves_them(ml_dtypes: Any) -> None:
    f = tc.compile(TEXT.format("bfloat16"))
    a, b = np.ones(8, ml_dtypes.bfloat16), np.ones(8, np.float32)
    for _ in range(3):
        f(a, b)
    entry = f._inline_cache
    assert type(entry).__name__ == "CacheEntry"
    assert entry.serve((a, b), None).o.dtype == ml_dtypes.bfloat16
    assert entry.serve((a.view(np.uint16), b), None) is None
    assert entry.serve((a.astype(np.float16), b), None) is None


def test_numbers(ml_dtypes: Any) -> None:
    f = tc.compile("def f(bfloat16 c, bfloat16(N) x) -> (o) { o(i) = c * x(i) }")
    bfloat16 = np.dtype(ml_dtypes.bfloat16)
    x = np.arange(4).astype(bfloat16)
    expected = (np.float32(0.1).astype(bfloat16).astype(np.float32) * np.arange(4)).astype(bfloat16)
    for c in (0.1, np.float64(0.1), np.float32(0.1), bfloat16.type(0.1), np.array(0.1, bfloat16)):
        for _ in range(3):
            np.testing.assert_array_equal(f(c, x), expected)
    for whole in (2, True, np.int8(2), np.uint64(2)):
        np.testing.assert_array_equal(f(whole, x), (int(whole) * np.arange(4)).astype(bfloat16))
    with pytest.raises(tc.InputError, match=r"c is 1e\+39, which bfloat16 cannot hold"):
        f(1e39, x)
    with pytest.raises(tc.InputError, match="c is 500, which float8_e4m3fn cannot hold"):
        tc.compile("def f(float8_e4m3fn c) -> (o) { o = c }")(500)
    g = tc.compile("def g(float c, int k) -> (o) { o = c + k }")
    assert g(bfloat16.type(1.5), 1) == np.float32(2.5)
    with pytest.raises(tc.InputError, match=r"k is 1\.5, but int32 k asks for an integer"):
        g(1.0, bfloat16.type(1.5))


REFUSED = [
    ("float32", "a has dtype float32", "a.astype(ml_dtypes.bfloat16)"),
    ("uint16", "a has dtype uint16", "a.astype(ml_dtypes.bfloat16)"),
    ("V2", r"a has dtype \|V2", "a.view(ml_dtypes.bfloat16)"),
    ("float8_e5m2", "a has dtype float8_e5m2", "a.astype(ml_dtypes.bfloat16)"),
]


@pytest.mark.parametrize(("given", "cause", "repair"), REFUSED, ids=lambda each: each)
def test_other_types_are_refused(given: str, cause: str, repair: str, ml_dtypes: Any) -> None:
    f = tc.compile(TEXT.format("bfloat16"))
    array = np.zeros(4, getattr(ml_dtypes, given, given))
    with pytest.raises(tc.InputError, match=cause) as caught:
        f(array, np.zeros(4, np.float32))
    assert caught.value.repair == repair


def test_outputs_of_other_types_are_refused(ml_dtypes: Any) -> None:
    f = tc.compile(TEXT.format("bfloat16"))
    a, b = np.zeros(4, ml_dtypes.bfloat16), np.zeros(4, np.float32)
    with pytest.raises(tc.InputError, match="o in outputs= has dtype float16, but") as caught:
        f(a, b, outputs={"o": np.zeros(4, np.float16)})
    assert caught.value.repair == "np.empty((4,), ml_dtypes.bfloat16)"
    with pytest.raises(tc.InputError, match="o in outputs= has dtype float8_e5m2, but"):
        f(a, b, outputs={"o": np.zeros(4, ml_dtypes.float8_e5m2)})


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", narrow.NAMES)
def test_torch(name: str, backend: str, torch: Any) -> None:
    dtype = getattr(torch, name)
    f = tc.compile(TEXT.format(name), backend=backend)
    b = torch.arange(60.0) / 8
    a = (b.flip(0) - 2).to(dtype)
    expected = (a.float() * b).to(dtype)
    for _ in range(4):
        found, told = f(a, b)
        assert found.dtype == dtype
        assert torch.equal(found.float(), expected.float())
        assert torch.equal(told, a.float())
    assert torch.equal(f(a[::2], b[::2]).o.float(), expected[::2].float())
    o, t = torch.zeros(60, dtype=dtype), torch.zeros(60)
    for _ in range(3):
        o.zero_()
        assert f(a, b, outputs=(o, t)).o is o
        assert torch.equal(o.float(), expected.float())
    large = torch.ones(1 << 20).to(dtype)
    assert f(large, torch.ones(1 << 20)).o.dtype == dtype


def test_torch_with_gradients(torch: Any) -> None:
    f = tc.compile("def mm(bfloat16(M,K) A, bfloat16(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }")
    a, b = (torch.randn(5, 5).bfloat16().requires_grad_() for _ in range(2))
    weights = torch.randn(5, 5).bfloat16()
    found = torch.autograd.grad((f(a, b) * weights).sum(), (a, b))
    expected = torch.autograd.grad((a @ b * weights).sum(), (a, b))
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.bfloat16
        torch.testing.assert_close(one, other)
    assert (
        torch.vmap(f)(torch.ones(2, 5, 5).bfloat16(), torch.ones(2, 5, 5).bfloat16())[1, 1, 1] == 5
    )


class Held:
    """An array of a library with DLPack alone, which holds a tensor of torch."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(**options)

    def __array_namespace__(self) -> Any:
        return SimpleNamespace(from_dlpack=lambda a: Held(sys.modules["torch"].from_dlpack(a)))


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn"])
def test_dlpack(name: str, torch: Any) -> None:
    """Numpy itself takes over no such capsules."""
    dtype = getattr(torch, name)
    try:
        torch.from_dlpack(torch.ones(2).to(dtype))
    except (BufferError, RuntimeError):  # of versions that lend no floats of 8 bits
        assert name != "bfloat16"
        return
    f = tc.compile(TEXT.format(name))
    a, b = torch.arange(12.0).to(dtype).reshape(2, 6), torch.arange(6.0) / 4
    for _ in range(3):
        found = f(Held(a[1, ::2]), Held(b[::2])).o
        assert type(found) is Held
        assert found.tensor.dtype == dtype
        assert torch.equal(found.tensor.float(), (a[1, ::2].float() * b[::2]).to(dtype).float())


@pytest.mark.parametrize("name", narrow.NAMES)
def test_jax(name: str) -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    f = tc.compile(TEXT.format(name))
    b = jax.numpy.arange(60.0) / 8
    a = (b[::-1] - 2).astype(name)
    expected = (a.astype("float32") * b).astype(name)
    for call in (f, f, f, jax.jit(f)):
        found, told = call(a, b)
        assert found.dtype == name
        assert (found == expected).all()
        assert (told == a.astype("float32")).all()
    with pytest.raises(tc.InputError, match=f"a has dtype float32, but {name}"):
        jax.jit(f)(b, b)


def test_bits_are_taken() -> None:
    """As `numpy.load` gives them of what `tc run` has saved."""
    bits = encoded(np.float32([1, 2.5]), BFLOAT16)
    f = tc.compile("def f(bfloat16(N) a) -> (o) { o(i) = float(a(i)) }")
    np.testing.assert_array_equal(f(bits), np.float32([1, 2.5]))


WITHOUT = """
import sys
import numpy as np
import tc
for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
    f = tc.compile(f"def f(float(N) x) -> (o) {{ o(i) = {name}(x(i)) }}")
    try:
        f(np.ones(3, np.float32))
    except tc.BackendError as error:
        print(error)
    g = tc.compile(f"def g(float(N) x) -> (o) {{ t(i) = {name}(x(i))  o(i) = float(t(i)) }}")
    print(g(np.float32([1, 1.01, 2000])).tolist())
assert "ml_dtypes" not in sys.modules
"""


def test_without_ml_dtypes() -> None:
    """Nothing loads it; results that need it are an error before anything runs."""
    lines = run_python(WITHOUT).stdout.splitlines()
    is_missing = any("installed and imported" in line for line in lines)
    wanted = "installed and imported" if is_missing else "imported"
    causes = [line for line in lines if "BackendError" in line]
    assert len(causes) == 3
    assert causes[0].startswith(
        "BackendError [Y3]: f: the result o is bfloat16, of which numpy has no arrays unless the "
        f"package ml_dtypes is {wanted}"
    )
    numbers = [line for line in lines if line.startswith("[")]
    assert numbers == ["[1.0, 1.0078125, 2000.0]", "[1.0, 1.0, 448.0]", "[1.0, 1.0, 2048.0]"]
    assert {*DTYPES} >= {*narrow.NAMES}
