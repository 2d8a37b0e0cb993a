"""Tensors that are not plain, given to a function that plain ones have warmed up: each is refused
with its reason or counts as the numbers that it stands for, and none reaches code that reads the
memory of torch's objects. (0.8)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tc

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

PRODUCT = "def product(float(N) x, float(N) w) -> (y) { y(i) = x(i) * w(i) }"

pytestmark = pytest.mark.filterwarnings("ignore")  # of what torch itself says of these kinds


class Subclass(torch.Tensor):  # type: ignore[misc]
    """A subclass that adds nothing."""


class Dispatched(torch.Tensor):  # type: ignore[misc]
    """A subclass whose numbers lie in another tensor."""

    @staticmethod
    def __new__(cls, held: Any) -> Any:
        made = torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype)
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        tree = torch.utils._pytree
        given = tree.tree_map(lambda x: x.held if isinstance(x, Dispatched) else x, args)
        return func(*given, **(kwargs or {}))


def left_by(transform: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What a transform of torch.func leaves of a tensor behind."""

    def left(a: Any) -> Any:
        kept: list[Any] = []

        def keeping(x: Any) -> Any:
            kept.append(x * 1)
            return x.sum()

        transform(keeping)(torch.stack([a, a]) if transform is torch.vmap else a)
        return kept[0]

    return left


def fake(a: Any) -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode().from_tensor(a)


def freed(a: Any) -> Any:
    a = a.clone()
    a.untyped_storage().resize_(0)
    return a


def quantised(a: Any) -> Any:
    return torch.quantize_per_tensor(a, 0.1, 0, torch.qint8)


def channels(a: Any) -> Any:
    return torch.quantize_per_channel(a, torch.ones(3), torch.zeros(3), 0, torch.qint8)


GIVES = "the product"
KINDS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "nested": (lambda a: torch.nested.nested_tensor([a, a]), "is a nested tensor"),
    "nested of one": (lambda a: torch.nested.nested_tensor([a]), "is a nested tensor"),
    "jagged": (
        lambda a: torch.nested.nested_tensor([a, a], layout=torch.jagged),
        "is a nested tensor",
    ),
    "sparse": (lambda a: a.to_sparse(), "has the layout sparse_coo"),
    "rows of sparse": (lambda a: a.view(1, 3).to_sparse_csr(), "has the layout sparse_csr"),
    "quantised": (quantised, "is a quantized tensor"),
    "quantised by channels": (channels, "is a quantized tensor"),
    "mkldnn": (lambda a: a.to_mkldnn(), "has the layout _mkldnn"),
    "meta": (lambda a: a.to("meta"), "is a meta tensor"),
    "fake": (fake, "AssertionError: Please convert all Tensors to FakeTensors first"),
    "conjugate": (lambda a: torch.complex(a, a).conj(), "has dtype complex64"),
    "negative": (lambda a: torch.complex(a, -a).conj().imag, GIVES),
    "subclass": (lambda a: a.as_subclass(Subclass), GIVES),
    "dispatched": (Dispatched, GIVES),
    "left by grad": (left_by(torch.func.grad), GIVES),
    "left by vmap": (left_by(torch.vmap), "is a batch that a torch.vmap which has ended has left"),
    "functional": (lambda a: torch._to_functional_tensor(a), "is traced by torch"),
    "zero": (lambda _: torch._efficientzerotensor(3), "is torch's zero without memory"),
    "freed": (freed, "into its storage, which holds 0: it was freed"),
    "parameter": (torch.nn.Parameter, GIVES),
    "expanded": (lambda a: a[1:2].expand(3), "[4.0, 6.0, 8.0]"),
}


def outcome(function: tc.Compiled, arguments: tuple[Any, ...]) -> str:
    try:
        found = function(*arguments)
    except (tc.InputError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"
    return str(found.as_subclass(torch.Tensor).tolist())


@pytest.mark.drawn(3)
@pytest.mark.parametrize("gradient", ["none", "of the other", "of both"])
@pytest.mark.parametrize("warm", [0, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_plain(kind: str, warm: int, gradient: str) -> None:
    make, expected = KINDS[kind]
    function = tc.compile(PRODUCT, backend="numba")
    a, w = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 3.0, 4.0])
    w.requires_grad_(gradient != "none")
    for _ in range(warm):
        function(a.clone().requires_grad_(gradient == "of both"), w)
    given = make(a)
    if gradient == "of both" and given.is_floating_point() and given.is_leaf:
        given.requires_grad_()
    for _ in range(2):
        for arguments in ((given, w), (w, given)):
            found = outcome(function, arguments)
            if expected == GIVES:
                assert found == "[2.0, 6.0, 12.0]"
            else:
                assert expected in found
    assert outcome(function, (a, w)) == "[2.0, 6.0, 12.0]"


@pytest.mark.parametrize("warm", [0, 3])
@pytest.mark.parametrize("kind", ["nested", "sparse", "mkldnn", "meta", "quantised"])
def test_outputs_that_are_not_plain(kind: str, warm: int) -> None:
    make, expected = KINDS[kind]
    function = tc.compile(PRODUCT, backend="numba")
    a, w, out = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 3.0, 4.0]), torch.zeros(3)
    for _ in range(warm):
        function(a, w, outputs=out)
    for _ in range(2):
        with pytest.raises(tc.InputError, match=expected):
            function(a, w, outputs=make(a))
    assert function(a, w, outputs=out).tolist() == [2, 6, 12]
