"""Cotangents of any layout, and tensors that are none to compute with: a result or an error, by
each of the ways that a call may go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tc
from tests.support.interpreting import interpreted
from tests.torch.layers import layers

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
forward = torch.autograd.forward_ad

TWICE = "def twice(float(N) x) -> (y) { y(i) = 2 * x(i) }"

BY_NAME = {layer.name: layer for layer in layers(torch)}
MM, CONV = BY_NAME["matmul"], BY_NAME["convolution"]

pytestmark = pytest.mark.filterwarnings("ignore")  # of what torch itself uses


class Plain(torch.Tensor):  # type: ignore[misc]
    """A subclass, which goes by the operator."""


WAYS: dict[str, Callable[[tc.Compiled, Any, Any], Any]] = {
    "numbers": lambda f, a, b: f(a.detach(), b.detach()),
    "gradients": lambda f, a, b: f(a, b.detach().requires_grad_()),
    "the operator": lambda f, a, b: f(a, b.as_subclass(Plain)),
    "a batch": lambda f, a, b: torch.func.vmap(lambda b: f(a, b))(b.detach()[None])[0],
    "tangents": lambda f, a, b: torch.func.jvp(lambda b: f(a, b), (b.detach(),), (b.detach(),))[1],
}
"""Each gives the product of a and b."""


@pytest.fixture
def function() -> tc.Compiled:
    return interpreted(MM.text)


def operands() -> tuple[Any, Any]:
    a, b = MM.tensors(torch)
    return a.detach(), b.detach()


# --- lists ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    ("dtype", "values", "repair"),
    [
        ("float", [1.0, 2.0], "torch.as_tensor(w)"),
        ("float", (1, 2), "torch.as_tensor(np.asarray(w, np.float32))"),
        ("double", [0.1, 0.2], "torch.as_tensor(np.asarray(w, np.float64))"),
        ("int64", range(2), "torch.as_tensor(w)"),
        ("int32", [1, 2], "torch.as_tensor(np.asarray(w, np.int32))"),
        ("bool", [True, False], "torch.as_tensor(w)"),
        ("half", [[1.0], 2], "torch.as_tensor(np.asarray(w, np.float16))"),
    ],
)
def test_lists_beside_tensors(dtype: str, values: Any, repair: str, grad: bool) -> None:
    """The repair makes a tensor of the declared type, with the values that there are."""
    text = f"def f(float(N) x, {dtype}(N) w) -> (y) {{ y(i) = float(w(i)) + x(i) }}"
    function, x = interpreted(text), torch.zeros(2, requires_grad=grad)
    for call in (lambda w: function(x, w), lambda w: function([x, w]), lambda w: function(x, w=w)):
        with pytest.raises(tc.InputError, match=r"f: w is of type .*, which is no array") as caught:
            call(values)
        assert caught.value.repair == repair
    if dtype != "half":
        w = eval(repair, {"torch": torch, "np": np, "w": values})
        assert function(x, w).tolist() == np.asarray(values, np.float32).tolist()


# --- cotangents -----------------------------------------------------------------------------------

COTANGENTS: dict[str, Callable[[Any], Any]] = {
    "expanded": lambda g: g[:1, :1, :1, :1].expand(g.shape),
    "expanded along one": lambda g: g[:, :1].expand(g.shape),
    "channels last": lambda g: g.to(memory_format=torch.channels_last),
    "transposed": lambda g: g.mT.contiguous().mT,
    "every second one": lambda g: torch.stack([g, g], -1).flatten(-2)[..., ::2],
    "behind an offset": lambda g: torch.cat([g, g])[g.shape[0] :],
    "a lazy negation": lambda g: torch.complex(g, -g).conj().imag,
    "of another dtype": lambda g: g.float(),
    "a subclass": lambda g: g.as_subclass(Plain),
}


@pytest.mark.parametrize("layout", COTANGENTS)
def test_cotangents_of_any_layout(layout: str) -> None:
    ours, theirs = CONV.tensors(torch), CONV.tensors(torch)
    found, wanted = interpreted(CONV.text)(*ours), CONV.same(*theirs)
    cotangent = COTANGENTS[layout](wanted.detach().cos())
    found.backward(cotangent)
    wanted.backward(cotangent.resolve_neg().contiguous())
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, other.grad)


def test_cotangents_that_do_not_fit(function: tc.Compiled) -> None:
    """Torch's own errors, where it looks; ours for the rest."""
    a, b = MM.tensors(torch)
    for shape in ((2, 3), (3,), (3, 2, 1)):
        with pytest.raises(RuntimeError, match="Mismatch in shape"):
            function(a, b).backward(torch.ones(shape, dtype=torch.float64))
        with pytest.raises(RuntimeError, match="Mismatch in shape"):
            torch.func.vjp(function, a, b)[1](torch.ones(shape, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="complex"):
        function(a, b).backward(torch.ones(3, 2, dtype=torch.complex128))
    with pytest.raises(tc.InputError, match=r"(?s)d_C has the layout sparse_coo.*to_dense"):
        torch.autograd.grad(function(a, b), a, torch.ones(3, 2, dtype=torch.float64).to_sparse())
    with pytest.raises(RuntimeError, match="different size"):
        torch.func.jvp(function, (a, b), (b, a))


def test_zeros_without_memory() -> None:
    """Torch gives such in the place of zeros: they count as nothing."""
    function = interpreted(BY_NAME["two results"].text)
    x, w = BY_NAME["two results"].tensors(torch)
    zero = torch._efficientzerotensor(3, dtype=torch.float64)
    found = torch.autograd.grad([*function(x, w)], [x, w], [zero, torch.ones_like(x)])
    torch.testing.assert_close(found, (w.expand(3, 4), x.sum(0)))
    with forward.dual_level():
        t = torch.ones_like(x)
        flat = torch._efficientzerotensor(4, dtype=torch.float64)
        dual = function(forward.make_dual(x, t), forward.make_dual(w, flat))
        torch.testing.assert_close(forward.unpack_dual(dual.y).tangent, w.expand(3, 4))
        both = forward.make_dual(x, torch._efficientzerotensor(3, 4, dtype=torch.float64))
        assert forward.unpack_dual(function(both, w).y).tangent.eq(0).all()


# --- inputs ---------------------------------------------------------------------------------------

ODD: dict[str, tuple[Callable[[Any], Any], str]] = {
    "bfloat16": (lambda a: a.bfloat16(), "bfloat16"),
    "half": (lambda a: a.half(), "float16"),
    "complex": (lambda a: a.to(torch.complex128), "complex128"),
    "conjugated": (lambda a: a.to(torch.complex128).conj(), "complex128"),
    "sparse": (lambda a: a.to_sparse(), "layout sparse_coo"),
    "rows of sparse": (lambda a: a.to_sparse_csr(), "layout sparse_csr"),
    "nested": (lambda a: torch.nested.nested_tensor([a, a]), "nested"),
    "quantized": (
        lambda a: torch.quantize_per_tensor(a.float(), 0.1, 0, torch.qint8),
        "quantized",
    ),
    "of numpy": (lambda a: a.numpy(), "one kind"),
    "read-only": (lambda a: np.broadcast_to(a.numpy(), a.shape), "one kind"),
    "backwards": (lambda a: a.numpy()[::-1], "one kind"),
    "wrong rank": (lambda a: a[None], "rank 3"),
    "wrong size": (lambda a: a[:, :3], "size K is"),
    "freed": (
        lambda a: resized(a.clone(), 0),
        r"(?s)which holds 0: it was freed.*repair: A\.clone\(\), while its storage is there",
    ),
    "shrunk": (lambda a: resized(a.clone(), 8), "which holds 8: it was shrunk"),
    "None": (lambda _: None, "None"),
}


def resized(tensor: Any, size: int) -> Any:
    tensor.untyped_storage().resize_(size)
    return tensor


@pytest.mark.drawn(3)
@pytest.mark.parametrize("way", [way for way in WAYS if way != "numbers"])
@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_input(kind: str, way: str, function: tc.Compiled) -> None:
    """Ways other than plain calls, which are tested elsewhere, refuse the tensor too."""
    make, cause = ODD[kind]
    a, b = operands()
    for _ in range(2):
        with pytest.raises(tc.InputError, match=cause):
            WAYS[way](function, make(a), b)
    torch.testing.assert_close(WAYS[way](function, a, b), a @ b)


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "a lazy negation": lambda a: torch.complex(a, -a).conj().imag,
    "transposed": lambda a: a.T.contiguous().T,
    "expanded": lambda a: a[:1].expand(3, 4),
    "every second one": lambda a: torch.cat([a, a], 1)[:, ::2],
    "of no rows": lambda a: a[:0],
    "of inference": lambda a: inferred(a),
    "a parameter": lambda a: torch.nn.Parameter(a),
}


def inferred(tensor: Any) -> Any:
    with torch.inference_mode():
        return tensor.clone()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_inputs_of_any_layout(layout: str, way: str, function: tc.Compiled) -> None:
    a, b = operands()
    given = LAYOUTS[layout](a)
    if layout == "of inference" and way == "gradients":
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            WAYS[way](function, given, b)
        return
    torch.testing.assert_close(WAYS[way](function, given, b), given.detach() @ b)


def test_a_storage_that_goes_before_backward(function: tc.Compiled) -> None:
    """As sharded training frees parameters, and gathers them again."""
    a, b = MM.tensors(torch)
    found = function(a, b).sum()
    held = a.detach().clone()
    a.untyped_storage().resize_(0)
    with pytest.raises(tc.InputError, match="A reaches 96 bytes into its storage, which holds 0"):
        found.backward(retain_graph=True)
    a.untyped_storage().resize_(96)
    a.data.copy_(held)
    found.backward()
    torch.testing.assert_close(b.grad, held.sum(0)[:, None].expand(4, 2))


def doubled(torch: Any) -> Any:
    """A mode that has torch's functions make tensors of another type."""

    class Doubled(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            found = func(*args, **(kwargs or {}))
            made = func in (torch.empty, torch.Tensor.new_empty)
            return found.double() if made else found

    return Doubled()


def halved(torch: Any) -> Any:
    """The same below functions: in a quarter of the memory."""

    class Halved(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            found = func(*args, **(kwargs or {}))
            return found.half() if "empty" in str(func) else found

    return Halved()


AROUND: dict[str, Callable[[Any], Any]] = {
    "a mode of functions": doubled,
    "a mode below them": halved,
    "a default device": lambda torch: torch.device("meta"),
    "inference": lambda torch: torch.inference_mode(),
}


@pytest.mark.parametrize("kind", AROUND)
@pytest.mark.parametrize("warm", [0, 4])
@pytest.mark.parametrize("grad", [False, True])
def test_results_are_the_same_in_modes(kind: str, warm: int, grad: bool) -> None:
    """Whether a function was called before it or not; also afterwards."""
    f = tc.compile(TWICE, backend="numba")
    x = torch.arange(5.0, requires_grad=grad)
    for _ in range(warm):
        f(x)
    with AROUND[kind](torch):
        inside = [f(x) for _ in range(4)]
    for found in (*inside, *(f(x) for _ in range(4))):
        assert found.dtype == torch.float32
        assert found.device.type == "cpu"
        assert found.tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("warm", [0, 4])
def test_constants_of_transformed_functions(warm: int) -> None:
    """A call inside of torch.func with tensors that the transform does not touch."""
    f = tc.compile(TWICE, backend="numba")
    x = torch.arange(5.0)
    for _ in range(warm):
        f(x)
    for _ in range(4):
        assert torch.func.grad(lambda p: (f(x) * p).sum())(torch.ones(5)).tolist() == [
            0,
            2,
            4,
            6,
            8,
        ]
        assert torch.func.functionalize(lambda p: f(x) * p)(torch.ones(5)).tolist() == [
            0,
            2,
            4,
            6,
            8,
        ]
        _, tangent = torch.func.jvp(lambda p: f(x) * p, (torch.ones(5),), (torch.ones(5),))
        assert tangent.tolist() == [0, 2, 4, 6, 8]
