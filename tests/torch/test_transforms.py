"""torch.func, forward mode and batches of autograd: what they make of a call is what they make of
the same in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tc
from tests.support.interpreting import interpreted
from tests.torch.layers import layers, tuple_of

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
func: Any = pytest.importorskip("torch.func", reason="torch is not installed")
forward = torch.autograd.forward_ad

LAYERS = layers(torch)
BY_NAME = {layer.name: layer for layer in LAYERS}
SMOOTH = [layer for layer in LAYERS if layer.name not in ("relu", "maxpool")]
STRIDED = "def strided(float(N) x, float a, int32 s) -> (y) { y(i) = a * x(s*i) }"
PARTS = (
    "def parts(float(N) x, float(N) w) -> (y, n, z) {"
    " y(i) = 2 * x(i) * x(i)  n(i) = int32(x(i))  z(i) = 3 * w(i) }"
)
LINEAR = (
    "def linear(float(B,I) x, float(O,I) W, float(O) b) -> (y) {"
    " y(n,o) = b(o)  y(n,o) += x(n,i) * W(o,i) }"
)

pytestmark = pytest.mark.filterwarnings("ignore")  # of what torch itself uses


def rand(*shape: int) -> Any:
    numbers = torch.Generator().manual_seed(sum(shape))
    return torch.rand(shape, generator=numbers, dtype=torch.float64) + 0.25


A, B = rand(3, 4), rand(4, 2)
MANY_A, MANY_B = rand(5, 3, 4), rand(4, 2, 5)


def total(f: Any) -> Callable[[Any, Any], Any]:
    return lambda a, b: f(a, b).cos().sum()


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "vmap": lambda f: func.vmap(f, (0, 2))(MANY_A, MANY_B),
    "vmap of one, other places": lambda f: func.vmap(f, (None, -1), 1)(A, MANY_B),
    "vmap in chunks": lambda f: func.vmap(f, (0, None), chunk_size=2)(MANY_A, B),
    "vmap of vmap": lambda f: func.vmap(func.vmap(f, (0, None)), (None, 2))(MANY_A, MANY_B),
    "vmap of vmap of one": lambda f: func.vmap(func.vmap(lambda a: f(a, B)))(MANY_A[None]),
    "grad": lambda f: func.grad(total(f), (0, 1))(A, B),
    "grad of grad": lambda f: func.grad(
        lambda a: func.grad(lambda b: total(f)(a, b))(B).sin().sum()
    )(A),
    "vmap of grad": lambda f: func.vmap(func.grad(total(f), (0, 1)), (0, 2))(MANY_A, MANY_B),
    "grad of vmap": lambda f: func.grad(total(func.vmap(f, (0, 2))), (0, 1))(MANY_A, MANY_B),
    "vjp": lambda f: func.vjp(f, A, B)[1](torch.ones_like(A @ B).expand(3, 2)),
    "jvp": lambda f: func.jvp(f, (A, B), (A + 1, 2 * B)),
    "jvp of one": lambda f: func.jvp(lambda a: f(a, B), (A,), (A + 1,)),
    "jvp of jvp": lambda f: func.jvp(
        lambda a: func.jvp(lambda b: f(a * a, b), (B,), (a.sum(0)[:, None].expand(4, 2),)),
        (A,),
        (A + 1,),
    ),
    "vmap of jvp": lambda f: func.vmap(lambda t: func.jvp(f, (A, B), (t, B))[1])(MANY_A),
    "linearize": lambda f: func.linearize(f, A, B)[1](A + 1, B),
    "jacrev": lambda f: func.jacrev(f, (0, 1))(A, B),
    "jacrev in chunks": lambda f: func.jacrev(f, (0, 1), chunk_size=2)(A, B),
    "jacfwd": lambda f: func.jacfwd(f, (0, 1))(A, B),
    "hessian": lambda f: func.hessian(total(f), (0, 1))(A, B),
    "jacrev of jacfwd": lambda f: func.jacrev(func.jacfwd(lambda a: f(a, B).cos()))(A),
    "jacfwd of jacfwd": lambda f: func.jacfwd(func.jacfwd(lambda a: f(a, B).cos()))(A),
    "jacobian of batches": lambda f: torch.autograd.functional.jacobian(f, (A, B), vectorize=True),
    "jacobian of batches, forward": lambda f: torch.autograd.functional.jacobian(
        f, (A, B), vectorize=True, strategy="forward-mode"
    ),
    "hessian of batches": lambda f: torch.autograd.functional.hessian(
        total(f), (A, B), vectorize=True
    ),
    "hvp": lambda f: torch.autograd.functional.hvp(total(f), (A, B), (A, B)),
    "vmap of functionalize": lambda f: func.vmap(func.functionalize(f), (0, None))(MANY_A, B),
    "functionalize": lambda f: func.functionalize(func.vmap(f, (0, None)))(MANY_A, B),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_products_are_transformed_as_torchs(transform: str) -> None:
    function = interpreted(BY_NAME["matmul"].text)
    for _ in range(2):  # before plain calls, and after
        found, wanted = TRANSFORMS[transform](function), TRANSFORMS[transform](torch.matmul)
        torch.testing.assert_close(found, wanted)
        assert function(A, B).equal(function(A, B))


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_batches_are_those_of_torch(layer: Any) -> None:
    """Of every input, by itself and together with the others, anywhere."""
    function = interpreted(layer.text)
    inputs = layer.tensors(torch, requires_grad=False)
    many = [layer.tensors(torch, seed, requires_grad=False) for seed in (1, 2, 3)]
    places = [*range(len(inputs))]
    for batched in [places, *([place] for place in places if len(places) > 1)]:
        axes, given = [], list(inputs)
        for place in places:
            axis = None
            if place in batched:
                axis = (place + len(batched)) % (inputs[place].dim() + 1)
                given[place] = torch.stack([each[place] for each in many], axis)
            axes.append(axis)
        calls = [[m[p] if p in batched else inputs[p] for p in places] for m in many]
        wanted = [
            torch.stack(same)
            for same in zip(*(tuple_of(layer.same(*call)) for call in calls), strict=True)
        ]
        found = tuple_of(func.vmap(function, tuple(axes))(*given))
        for result, same in zip(found, wanted, strict=True):
            torch.testing.assert_close(result, same)


@pytest.mark.parametrize("layer", SMOOTH, ids=lambda layer: layer.name)
def test_tangents_are_those_of_torch(layer: Any) -> None:
    function, inputs = interpreted(layer.text), layer.tensors(torch, requires_grad=False)
    wrt = [place for place, value in enumerate(inputs) if value.is_floating_point()]

    def of(f: Any) -> Any:
        def call(*floats: Any) -> tuple[Any, ...]:
            given = list(inputs)
            for place, value in zip(wrt, floats, strict=True):
                given[place] = value
            return tuple_of(f(*given))

        return call

    primals = tuple(inputs[place] for place in wrt)
    tangents = tuple(value.cos() for value in primals)
    found = func.jvp(of(function), primals, tangents)
    wanted = func.jvp(of(layer.same), primals, tangents)
    torch.testing.assert_close([*map(list, found)], [*map(list, wanted)])


LARGE = ("convolution", "two results")
CHECKED = [
    pytest.param(BY_NAME[name], marks=[pytest.mark.slow] * (name in LARGE), id=name)
    for name in ("scaled", "norm", *LARGE)
]


@pytest.mark.parametrize("layer", CHECKED)
def test_all_modes_are_those_of_differences(layer: Any) -> None:
    """Forward, backward, each of the other, and batches of them."""
    function, inputs = interpreted(layer.text), layer.tensors(torch)
    assert torch.autograd.gradcheck(
        function,
        inputs,
        fast_mode=True,
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
    )
    assert torch.autograd.gradgradcheck(
        function,
        inputs,
        fast_mode=True,
        check_fwd_over_rev=True,
        check_rev_over_rev=True,
        check_batched_grad=True,
    )


# --- duals --------------------------------------------------------------------------------------


def test_dual_tensors() -> None:
    """Forward mode, and backward through it."""
    function, weight = interpreted(BY_NAME["matmul"].text), B.clone().requires_grad_()
    with forward.dual_level():
        for recording in (True, False):
            with torch.set_grad_enabled(recording):
                found = function(forward.make_dual(A, A + 1), weight)
                primal, tangent = forward.unpack_dual(found)
            torch.testing.assert_close(primal, A @ weight)
            torch.testing.assert_close(tangent, (A + 1) @ weight)
            assert tangent.requires_grad == recording
            if recording:
                tangent.sum().backward()
                torch.testing.assert_close(weight.grad, (A + 1).sum(0)[:, None].expand(4, 2))
        assert forward.unpack_dual(function(A, B)).tangent is None
    assert function(A, B).allclose(A @ B)


def test_tangents_of_numbers_and_integers() -> None:
    x, three = torch.arange(9.0), torch.tensor(3.0)
    strided, parts = interpreted(STRIDED), interpreted(PARTS)
    y, t = func.jvp(lambda x: strided(x, 2.0, 3), (x,), (x + 1,))
    assert (y.tolist(), t.tolist()) == ([0, 6, 12], [2, 8, 14])
    assert func.jvp(lambda a: strided(x, a, 3), (three,), (three,))[1].tolist() == [0, 9, 18]
    found = func.jvp(lambda x: tuple(parts(x, x)), (x,), (torch.ones(9),))[1]
    assert found[0].tolist() == (4 * x).tolist()
    assert found[1].tolist() == [0] * 9
    assert found[2].tolist() == [3] * 9
    only = interpreted("def only(float(N) x) -> (n) { n(i) = int32(x(i)) }")
    assert func.jvp(only, (x,), (x,))[1].tolist() == [0] * 9
    assert func.vmap(only)(x[None]).tolist() == [[*range(9)]]


# --- batches ------------------------------------------------------------------------------------


def test_batches_of_numbers_and_integers() -> None:
    x, strided = torch.arange(9.0), interpreted(STRIDED)
    scales = torch.tensor([1.0, 2.0])
    assert func.vmap(strided, (None, 0, None))(x, scales, 3).tolist() == [[0, 3, 6], [0, 6, 12]]
    assert func.vmap(lambda x: strided(x, 2.0, 3))(x[None]).tolist() == [[0, 6, 12]]
    with pytest.raises(tc.GradError, match="depends on 's', which is batched"):
        func.vmap(strided, (None, None, 0))(x, 2.0, torch.tensor([2, 3], dtype=torch.int32))
    with pytest.raises(tc.InputError, match=r"(?s)a has dtype float64.*a\.to\(torch\.float32\)"):
        func.vmap(strided, (None, 0, None))(x, scales.double(), 3)


def test_results_without_a_batch() -> None:
    """What depends on no batched input is computed once, and is the same for all."""
    function, x, w = interpreted(PARTS), torch.ones(2, 3), torch.ones(3)
    y, n, z = func.vmap(lambda x: tuple(function(x, w)))(x)
    assert y.tolist() == [[2] * 3] * 2
    assert n.tolist() == [[1] * 3] * 2
    assert z.tolist() == [[3] * 3] * 2
    kept = func.vmap(lambda x: tuple(function(x, w)), out_dims=(1, 0, None))(x)
    assert [tuple(result.shape) for result in kept] == [(3, 2), (2, 3), (3,)]
    assert func.vmap(function, (0, None))(x, w).z.shape == (2, 3)


def test_one_program_computes_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program of a batch is made once, and no loop runs over the elements of the batch."""
    calls, call = [], tc.Compiled._call

    def counted(self: tc.Compiled, *given: Any, **how: Any) -> Any:
        calls.append(self.program.name)
        return call(self, *given, **how)

    monkeypatch.setattr(tc.Compiled, "_call", counted)
    function = interpreted(BY_NAME["matmul"].text)
    first = func.vmap(function, (0, None))(MANY_A, B)
    assert calls == ["mm", "mm_batch"]
    monkeypatch.setattr("tc.derivatives.followers.batch", None)
    assert func.vmap(function, (0, None))(MANY_A, B).equal(first)


def test_what_does_not_fit_in_a_batch() -> None:
    """Errors tell of elements, as users see them."""
    mm, embed = interpreted(BY_NAME["matmul"].text), interpreted(BY_NAME["embedding"].text)
    with pytest.raises(
        tc.InputError, match=r"mm: A has rank 1, but float64\(M, K\) A asks"
    ) as caught:
        func.vmap(mm, (0, None))(A, B)
    assert caught.value.repair == (
        "A.reshape((1, 4)) for one row, A.reshape((4, 1)) for one column"
    )
    with pytest.raises(tc.InputError, match=r"(?s)embed: I has dtype torch\.int64.*repair: I\.to"):
        func.vmap(embed, (None, 0))(A, torch.zeros(2, 3, dtype=torch.int64))
    with pytest.raises(tc.InputError, match="size K is 4"):
        func.vmap(mm, (0, None))(MANY_A, rand(3, 3))
    with pytest.raises(tc.InputError, match="of a call are of one kind"):
        func.vmap(lambda a: mm(a, B.numpy()))(MANY_A)
    with pytest.raises(
        tc.InputError, match=r"(?s)\[R4\].*outputs= has no gradients.*, or mm\(A, B\)$"
    ):
        func.vmap(lambda a: mm(a, B, outputs=torch.zeros(3, 2).double()))(MANY_A)


def test_what_has_no_derivative_has_batches() -> None:
    function, x = interpreted("def f(float(N) x) -> (y) { y(i) = lgamma(x(i)) }"), torch.ones(2, 3)
    assert func.vmap(function)(x).tolist() == [[0] * 3] * 2
    repair = r"\nrepair: x\.detach\(\) in place of x$"
    with pytest.raises(tc.GradError, match=repair):
        func.jvp(function, (x[0],), (x[0],))
    with pytest.raises(tc.GradError, match=repair):
        func.grad(lambda x: function(x).sum())(x[0])
    with pytest.raises(tc.GradError, match=repair):
        func.vmap(function)(x.requires_grad_())
    stopped = func.grad(lambda x: (x + function(x.detach())).sum())
    assert stopped(x[0].detach()).tolist() == [1, 1, 1]


# --- with what stands around a transform --------------------------------------------------------


def linear(*, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return tc.torch.Module(interpreted(LINEAR), W=(3, 4), b=(3,))


def same_linear(parameters: Any, x: Any) -> Any:
    return torch.nn.functional.linear(x, parameters["W"], parameters["b"])


def test_functional_calls_of_modules() -> None:
    """Gradients of each sample, as torch's tutorial has them."""
    layer, x = linear(), torch.rand(5, 4)
    parameters = {name: value.detach() for name, value in layer.named_parameters()}

    def loss(call: Any) -> Any:
        return lambda p, x: call(p, x[None]).sin().sum()

    def ours(p: Any, x: Any) -> Any:
        return func.functional_call(layer, p, (x,))

    torch.testing.assert_close(ours(parameters, x), same_linear(parameters, x))
    found = func.vmap(func.grad(loss(ours)), (None, 0))(parameters, x)
    wanted = func.vmap(func.grad(loss(same_linear)), (None, 0))(parameters, x)
    torch.testing.assert_close(found, wanted)


def test_ensembles() -> None:
    layers, x = [linear(seed=seed) for seed in range(3)], torch.rand(5, 4)
    parameters, buffers = func.stack_module_state(layers)

    def call(p: Any, b: Any, x: Any) -> Any:
        return func.functional_call(layers[0], (p, b), (x,))

    found = func.vmap(call, (0, 0, None))(parameters, buffers, x)
    torch.testing.assert_close(found, torch.stack([layer(x) for layer in layers]))
    found.sin().sum().backward()
    for number, layer in enumerate(layers):
        layer(x).sin().sum().backward()
        torch.testing.assert_close(parameters["W"].grad[number], layer.W.grad)


def test_autograd_around_a_transform() -> None:
    """Autograd derives parameters that a function holds beside its inputs."""
    layer, x = linear(), torch.rand(5, 4)
    grads = []
    for call in (lambda x: layer(x), lambda x: same_linear(dict(layer.named_parameters()), x)):
        layer.zero_grad()
        func.grad(lambda x, call=call: call(x).pow(2).sum())(x).sum().backward()
        grads.append(layer.W.grad.clone())
    torch.testing.assert_close(*grads)


def test_without_gradients_inside_of_grad() -> None:
    layer, x = linear(), torch.rand(5, 4)

    def loss(x: Any) -> Any:
        with torch.no_grad():
            constant = layer(x)
        return (constant * x[:, :3]).sum()

    found = func.grad(loss)(x)
    torch.testing.assert_close(found[:, :3], layer(x))
    assert found[:, 3].eq(0).all()


def test_what_a_transform_leaves() -> None:
    """A tensor of a transform that has ended, which a user may have kept."""
    left: list[Any] = []
    only = interpreted("def only(float(N) x) -> (n) { n(i) = int32(x(i)) }")
    twice = interpreted("def twice(float(N) x) -> (y) { y(i) = 2 * x(i) }")
    func.grad(lambda x: left.append(x) or x.sum())(torch.arange(3.0))
    assert only(left[0]).tolist() == [0, 1, 2]
    assert twice(left[0]).tolist() == [0, 2, 4]


def test_transforms_are_recorded() -> None:
    """As calls of the operator, that compute anew."""
    from torch.fx.experimental.proxy_tensor import make_fx

    function = interpreted(BY_NAME["matmul"].text)
    ways: list[Callable[[Any], Any]] = [
        lambda f: lambda a: func.vmap(f, (0, None))(a, B),
        lambda f: lambda a: func.grad(lambda a: f(a, B).sin().sum())(a[0]),
        lambda f: lambda a: func.jvp(lambda a: f(a, B).sin(), (a[0],), (a[1],))[1],
    ]
    for way in ways:
        graph = make_fx(way(function))(torch.zeros_like(MANY_A))
        assert torch.ops.tc.run.default in [node.target for node in graph.graph.nodes]
        torch.testing.assert_close(graph(MANY_A), way(torch.matmul)(MANY_A))


def test_subclasses_and_what_has_no_values() -> None:
    layer = linear()

    class Plain(torch.Tensor):  # type: ignore[misc]
        pass

    x = torch.rand(2, 5, 4)
    assert type(func.vmap(layer)(x.as_subclass(Plain))) is Plain
    assert func.vmap(layer.to("meta"))(x.to("meta")).device.type == "meta"
