"""`tc.torch.Module`: parameters, their first values, and what torch does with modules."""

from __future__ import annotations

import copy
import io
import math
import pickle
from functools import partial
from typing import Any

import pytest

import tc
from tests.support.interpreting import interpreted
from tests.support.threads import run_at_once

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

CONV = (
    "def conv(float(N,C,H,W) I, float(M,C,KH,KW) W1, float(M) B, int32 s) -> (O) {"
    " O(n,m,h,w) = B(m)  O(n,m,h,w) += I(n,c,s*h+kh,s*w+kw) * W1(m,c,kh,kw) }"
)
NORM = (
    "def norm(double(N,D) x, double(D) G, double(D) B, double e) -> (y) {"
    " s(n) +=! x(n,d) * x(n,d)  y(n,d) = x(n,d) / sqrt(s(n) + e) * G(d) + B(d) }"
)
EMBED = (
    "def embed(float(V,D) T, int32(N) at, float(N,D) x) -> (y) {"
    " y(n,d) = T(at(n),d) + x(n,d) where n in 0:N }"
)


def conv(**more: Any) -> Any:
    torch.manual_seed(0)
    given = {"W1": (4, 3, 2, 2), "B": (4,), "s": 2, **more}
    return tc.torch.Module(interpreted(CONV), **given)


def test_a_layer_is_that_of_torch() -> None:
    layer, same = conv(), torch.nn.Conv2d(3, 4, 2, stride=2)
    with torch.no_grad():
        same.weight.copy_(layer.W1)
        same.bias.copy_(layer.B)
    x = torch.rand(2, 3, 6, 6)
    torch.testing.assert_close(layer(x), same(x))
    torch.testing.assert_close(layer(I=x), same(x))
    layer(x).cos().sum().backward()
    same(x).cos().sum().backward()
    torch.testing.assert_close(layer.W1.grad, same.weight.grad)
    torch.testing.assert_close(layer.B.grad, same.bias.grad)
    names = [name for name, _ in layer.named_parameters()]
    assert names == ["W1", "B"]
    assert str(layer) == "Module(conv(I), W1=float32(4, 3, 2, 2), B=float32(4), s=2)"


def test_first_values() -> None:
    torch.manual_seed(0)
    layer = conv(W1=(50, 3, 4, 4), B=(50,))
    bound = 1 / math.sqrt(3 * 4 * 4)
    assert layer.W1.abs().max() <= bound
    assert layer.W1.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
    assert layer.B.eq(0).all()
    norm = tc.torch.Module(interpreted(NORM), G=(3,), B=(3,), e=0.5)
    assert norm.G.tolist() == [1, 1, 1]
    assert norm.B.tolist() == [0, 0, 0]
    assert norm.e == 0.5
    assert norm.e.dtype == torch.float64
    table = tc.torch.Module(interpreted(EMBED), T=(100, 30)).T
    assert table.std().item() == pytest.approx(1, rel=0.05)
    before = layer.W1.clone()
    layer.reset_parameters()
    assert not torch.equal(layer.W1, before)


def test_values_that_are_given() -> None:
    table, at = torch.nn.Parameter(torch.rand(5, 3)), torch.tensor([1, 4], dtype=torch.int32)
    layer = tc.torch.Module(interpreted(EMBED), T=table, at=at)
    assert layer.T is table
    assert dict(layer.named_buffers()).keys() == {"at"}
    x = torch.rand(2, 3)
    torch.testing.assert_close(layer(x), table[at] + x)
    layer.reset_parameters()
    torch.testing.assert_close(layer(x), table[at] + x)
    assert tc.torch.Module(EMBED)(table.detach(), at, x).shape == (2, 3)


def test_state_copies_and_pickles() -> None:
    layer, other, x = conv(), conv(), torch.rand(2, 3, 6, 6)
    other.reset_parameters()
    assert not torch.equal(layer(x), other(x))
    other.load_state_dict(layer.state_dict())
    assert torch.equal(layer(x), other(x))
    twin = copy.deepcopy(layer)
    assert twin.function is layer.function
    assert twin.W1 is not layer.W1
    again = pickle.loads(pickle.dumps(layer))
    stored = io.BytesIO()
    torch.save(layer, stored)
    stored.seek(0)
    loaded = torch.load(stored, weights_only=False)
    for found in (twin, again, loaded):
        assert torch.equal(found(x), layer(x))
        assert str(found) == str(layer)
        found.reset_parameters()


def test_replicas_in_threads() -> None:
    """As DataParallel has them: parameters of a replica are results, and no parameters."""
    layer, x = conv(), torch.rand(8, 3, 6, 6)
    wanted = torch.autograd.grad(layer(x).cos().sum(), [layer.W1, layer.B])
    results: list[Any] = [None] * 4

    def run(place: int, replica: Any) -> None:
        results[place] = replica(x[2 * place : 2 * place + 2])

    works = []
    for place in range(4):
        replica = layer._replicate_for_data_parallel()
        for name, parameter in layer.named_parameters():
            setattr(replica, name, parameter * 1)
        assert str(replica) == str(layer)
        works.append(partial(run, place, replica))
    run_at_once(works)
    torch.cat(results).cos().sum().backward()
    torch.testing.assert_close([layer.W1.grad, layer.B.grad], [*wanted])


def test_autocast_leaves_a_layer_alone() -> None:
    """The text of a layer fixes its types; a layer of torch before may give halves to the layer."""
    layer, x = conv(), torch.rand(2, 3, 6, 6)
    wanted = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x).equal(wanted)
        assert torch.nn.functional.conv2d(x, layer.W1).dtype == torch.bfloat16
        (slope,) = torch.autograd.grad(layer(x).sum(), layer.B)
        with pytest.raises(tc.InputError, match=r"(?s)I has dtype bfloat16.*I\.to\(torch\.float32"):
            layer(torch.nn.functional.conv2d(x, torch.rand(3, 3, 1, 1)))
    assert slope.dtype == torch.float32


def test_a_network_learns() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(conv(), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(36, 2))
    optimizer = torch.optim.Adam(net.parameters(), 0.05)
    x, y = torch.rand(8, 3, 6, 6), torch.tensor([0, 1] * 4)
    losses = []
    for _ in range(25):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


@pytest.mark.filterwarnings("ignore")
def test_a_layer_in_a_graph() -> None:
    layer, x = conv(), torch.rand(2, 3, 6, 6)
    torch._dynamo.reset()
    run = torch.compile(layer, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(run(x), layer(x))
    run(x).sum().backward()
    assert layer.W1.grad is not None
    exported = torch.export.export(layer, (x,))
    torch.testing.assert_close(exported.module()(x), layer(x))
    torch._dynamo.reset()


def test_a_layer_without_values() -> None:
    with torch.device("meta"):
        layer = conv()
        assert layer(torch.ones(2, 3, 6, 6)).shape == (2, 4, 3, 3)
    layer.to_empty(device="cpu").reset_parameters()
    assert layer.B.tolist() == [0] * 4


def test_the_dtype_stays_declared() -> None:
    with pytest.raises(tc.InputError, match="has dtype float64"):
        conv().double()(torch.rand(2, 3, 6, 6, dtype=torch.float64))


W1 = (4, 3, 2, 2)
MISFITS: list[tuple[str, dict[str, Any], str, str]] = [
    (CONV, {"W": W1}, "conv has no input 'W'; it takes I, W1, B, s", "W1=(4, 3, 2, 2)"),
    (CONV, {"b": (4,)}, "conv has no input 'b'; it takes I, W1, B, s", "B=(4,)"),
    (CONV, {"q": 5}, "conv has no input 'q'; it takes I, W1, B, s", "s=5"),
    (
        CONV,
        {"W1": (4, 3, 2)},
        "conv: W1 has the shape (4, 3, 2), but float32(M, C, KH, KW) W1 is asked for",
        "W1=(4, 3, 2, 64)",
    ),
    (
        CONV,
        {"B": (4,), "W1": (-5, 3, 2.0, 2, 7)},
        "conv: W1 has the shape (-5, 3, 2.0, 2, 7), but float32(M, C, KH, KW) W1 is asked for",
        "W1=(4, 3, 2, 2)",
    ),
    (CONV, {"W1": W1, "B": (5,)}, "conv: dimension 0 of B is 5, but 4 by W1", "B=(4,)"),
    (
        EMBED.replace("V,D", "7,D"),
        {"x": (2, 3), "T": (6, 4)},
        "embed: dimension 0 of T is 6, but 7 by its declaration",
        "T=(7, 3)",
    ),
    (
        CONV,
        {"B": torch.ones(4, dtype=torch.float64)},
        "conv: B is float64(4), but float32(M) B is asked for",
        "B.to(torch.float32)",
    ),
    (
        CONV,
        {"B": torch.ones(4, 1)},
        "conv: B is float32(4, 1), but float32(M) B is asked for",
        "B.reshape((4,))",
    ),
    (
        CONV,
        {"W1": torch.ones(2, 3, dtype=torch.int8)},
        "conv: W1 is int8(2, 3), but float32(M, C, KH, KW) W1 is asked for",
        "W1.reshape((1, 1, 2, 3)).to(torch.float32)",
    ),
    (CONV, {"B": 5}, "conv: B is given as int, where {}, or a shape as a tuple", "B=(5,)"),
    (CONV, {"B": [4]}, "conv: B is given as list, where {}, or a shape as a tuple", "B=(4,)"),
    (CONV, {"B": None}, "conv: B is given as NoneType, where {}, or a shape as a tuple", "B=(64,)"),
    (
        CONV,
        {"B": -0.5},
        "conv: B is given as float, where {}, or a shape as a tuple",
        "B=torch.full((64,), -0.5, dtype=torch.float32)",
    ),
    (
        CONV,
        {"B": [1.0, 2.0]},
        "conv: B is given as list, where {}, or a shape as a tuple",
        "B=torch.as_tensor(B, dtype=torch.float32)",
    ),
    (
        EMBED,
        {"x": (3, 2), "at": (3,)},
        "embed: at is given as tuple, where {}, whose integers are its values",
        "at=torch.full((3,), 0, dtype=torch.int32)",
    ),
    (CONV, {"s": 2.5}, "conv: s is 2.5, but int32 s asks for an integer", "declare it: float s"),
    (
        CONV,
        {"s": (2,)},
        "conv: s is given as tuple, where {}, whose integers are its values",
        "s=2",
    ),
]


@pytest.mark.parametrize(("text", "given", "cause", "repair"), MISFITS)
def test_what_does_not_fit(text: str, given: dict[str, Any], cause: str, repair: str) -> None:
    """The repair stands in for what was given."""
    function = interpreted(text)
    with pytest.raises(tc.InputError) as caught:
        tc.torch.Module(function, **given)
    assert caught.value.cause == cause.format("a tensor is asked for")
    assert caught.value.repair == repair
    if "declare" in repair:
        return
    *others, (name, value) = given.items()
    known = {"torch": torch, name: value}
    mended = eval(f"dict({repair})" if "=" in repair.partition("(")[0] else repair, known)
    mended = mended if isinstance(mended, dict) else {name: mended}
    tc.torch.Module(function, **dict(others), **mended)


def test_names_of_modules() -> None:
    text = "def f(float(N) x, float(N) type) -> (y) { y(i) = x(i) * type(i) }"
    with pytest.raises(
        tc.InputError, match="type is the name of what modules of torch have"
    ) as caught:
        tc.torch.Module(interpreted(text), type=(3,))
    new = "def f(float(N) x, float(N) type_) -> (y) { y(i) = x(i) * type_(i) }"
    assert caught.value.repair == caught.value.repaired() == new
    assert str(tc.torch.Module(interpreted(new), type_=(3,))) == "Module(f(x), type_=float32(3))"


def test_modules_are_called_so() -> None:
    """In messages of torch, and where they are stored."""
    layer = conv()
    with pytest.raises(RuntimeError, match=r"^Error\(s\) in loading state_dict for Module:"):
        layer.load_state_dict({})
    assert b"tc.torch\nModule\n" in pickle.dumps(layer, protocol=0)


def test_calls_that_do_not_fit() -> None:
    layer, x = conv(), torch.rand(2, 3, 6, 6)
    with pytest.raises(tc.InputError, match="takes 1 input"):
        layer()
    with pytest.raises(tc.InputError, match="takes 1 input"):
        layer(x, x)
    with pytest.raises(tc.InputError, match="has no input 'W1'"):
        layer(x, W1=x)
