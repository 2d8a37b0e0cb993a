"""Functions of SaC's notation on tensors of torch, at ranks 1 to 3, beside torch's own."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tc
import tc.sac

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")  # of derived defs, and of what torch itself uses

CONV = (
    "double[*] conv(double[*] x, double[*] w) "
    "{ return { iv -> sum({ ov -> x[iv+ov] * w[ov] }) | iv < shape(x) - shape(w) + 1 }; }"
)
SOFTMAX = "double[*] softmax(double[*] x) { e = exp(x - maxval(x)); return e / sum(e); }"
RELAX = (
    "double[*] relax(double[*] a, double c) { return "
    "{ iv -> a[iv] + c * (a[iv-1] - 2.0 * a[iv] + a[iv+1]) | 0*shape(a)+1 <= iv < shape(a)-1;"
    " iv -> a[iv] }; }"
)
SHAPES = {1: ((9,), (3,)), 2: ((6, 7), (3, 2)), 3: ((4, 5, 6), (2, 3, 2))}


def torch_conv(x: Any, w: Any) -> Any:
    convolve: Any = (torch.conv1d, torch.conv2d, torch.conv3d)[x.dim() - 1]
    return convolve(x[None, None], w[None, None])[0, 0]


def torch_softmax(x: Any) -> Any:
    return torch.softmax(x.flatten(), 0).reshape(x.shape)


def torch_relax(a: Any, c: Any) -> Any:
    inner, before, after = (
        (slice(first, end),) * a.dim() for first, end in ((1, -1), (0, -2), (2, None))
    )
    result = a.clone()
    result[inner] = a[inner] + c * (a[before] - 2 * a[inner] + a[after])
    return result


def drawn(rank: int, name: str) -> list[Any]:
    generator = torch.Generator().manual_seed(rank)
    image, kernel = SHAPES[rank]
    shapes = {"conv": (image, kernel), "softmax": (image,), "relax": (image, ())}[name]
    made = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    return [tensor.requires_grad_() for tensor in made]


PROGRAMS: dict[str, tuple[str, Callable[..., Any]]] = {
    "conv": (CONV, torch_conv),
    "softmax": (SOFTMAX, torch_softmax),
    "relax": (RELAX, torch_relax),
}


@pytest.mark.drawn(4)
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_torchs(name: str, rank: int) -> None:
    text, own = PROGRAMS[name]
    inputs = drawn(rank, name)
    function = tc.sac.compile(text)
    found, due = function(*inputs), own(*inputs)
    torch.testing.assert_close(found, due)
    weights = torch.randn(due.shape, generator=torch.Generator().manual_seed(7), dtype=due.dtype)
    gradients = torch.autograd.grad((found * weights).sum(), inputs)
    torch.testing.assert_close(gradients, torch.autograd.grad((due * weights).sum(), inputs))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_second_derivatives_and_transforms(name: str) -> None:
    text, own = PROGRAMS[name]
    function = tc.sac.compile(text)
    x, *others = (tensor.detach() for tensor in drawn(2, name))

    def both(transformed: Callable[[Callable[..., Any]], Any]) -> None:
        torch.testing.assert_close(
            transformed(lambda x: function(x, *others)), transformed(lambda x: own(x, *others))
        )

    both(lambda f: torch.func.jvp(f, (x,), (torch.ones_like(x),)))
    both(lambda f: torch.func.hessian(lambda x: (f(x) ** 2).sum())(x))
    both(lambda f: torch.func.vmap(f)(torch.stack([x, 2 * x])))


def test_numbers_and_lists_of_python_beside_tensors() -> None:
    relax = tc.sac.compile(RELAX)
    a = drawn(2, "relax")[0]
    torch.testing.assert_close(relax(a, 0.25), torch_relax(a, 0.25))
    torch.testing.assert_close(relax(a=a, c=0.25), torch_relax(a, 0.25))
    product = tc.sac.compile("{ iv -> x[iv] * y[iv] }")
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    product(x=x, y=[1, 2, 3]).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1, 2, 3]


@pytest.fixture
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def whole(function: Any, **how: Any) -> Any:
    """The function compiled by torch to one graph for each guarded case."""
    return torch.compile(function, backend="aot_eager", fullgraph=True, **how)


@pytest.mark.usefixtures("fresh")
@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_graph_of_torch_has_the_call_with_its_gradients(name: str) -> None:
    """One graph for each rank and shape, though torch takes sizes that change for symbols."""
    text, own = PROGRAMS[name]
    function = tc.sac.compile(text)
    compiled = whole(lambda *inputs: function(*inputs) * 2)
    for rank in (2, 1, 2, 3):
        inputs = drawn(rank, name)
        for _ in range(2):
            found, due = compiled(*inputs), own(*inputs) * 2
            torch.testing.assert_close(found, due)
            gradients = torch.autograd.grad(found.sin().sum(), inputs)
            torch.testing.assert_close(gradients, torch.autograd.grad(due.sin().sum(), inputs))
            inputs = [
                (torch.cat([each, each]) if each.dim() else each).detach().requires_grad_()
                for each in inputs
            ]


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("dynamic", [False, True])
def test_nothing_breaks_a_graph(dynamic: bool) -> None:
    relax = tc.sac.compile(RELAX)
    both = tc.sac.compile("double, double[*] f(double[*] x, int k) { return (sum(x), k * x); }")
    scaled = tc.sac.compile("{ iv -> x[iv] * s }")

    def model(a: Any) -> Any:
        total, many = both(relax(a, 0.25), k=3)
        return total * scaled(x=many, s=a[0, 0]) + scaled({"x": a, "s": 2})

    a = drawn(2, "relax")[0].detach()
    told = torch._dynamo.explain(model)(a)
    assert (told.graph_count, told.graph_break_count) == (1, 0)
    compiled = whole(model, dynamic=dynamic)
    for each in (a, 2 * a, a[:, :5], torch.cat([a, a])):
        moved = torch_relax(each, 0.25)
        due = moved.sum() * 3 * moved * each[0, 0] + 2 * each
        torch.testing.assert_close(compiled(each), due)


@pytest.mark.usefixtures("fresh")
def test_a_graph_belongs_to_its_function() -> None:
    """Another function of the same name in its place, and other numbers, make another graph."""
    texts = ["{ iv -> x[iv] + 1 }", "{ iv -> x[iv] - 1 }"]
    functions = [tc.sac.compile(text) for text in texts]
    chosen = {"f": functions[0]}
    compiled = torch.compile(lambda x: chosen["f"](x=x), backend="eager")
    x = torch.arange(3)
    assert compiled(x).tolist() == [1, 2, 3]
    chosen["f"] = functions[1]
    assert compiled(x).tolist() == [-1, 0, 1]
    counts = whole(lambda n: tc_iota(n=n), dynamic=True)
    tc_iota = tc.sac.compile("iota(n)")
    assert [counts(n).tolist() for n in (2, 3, 2)] == [[0, 1], [0, 1, 2], [0, 1]]


@pytest.mark.usefixtures("fresh")
def test_where_elements_decide_the_def_python_calls_the_function() -> None:
    """Elements that shapes need are no part of a graph: the graph breaks at the call."""
    text = "{ [b] -> sum({ [i] -> toi(x[i] == b) }) | [b] < [maxval(x) + 1] }"
    histogram = tc.sac.compile(text)
    compiled = torch.compile(lambda x: histogram(x=x + 1) * 2, backend="eager")
    for values in ([0, 3, 1, 3], [1, 1, 2, 0]):
        x = torch.tensor(values, dtype=torch.int32)
        assert compiled(x).tolist() == (2 * torch.bincount(x + 1)).tolist()
    target = torch.zeros(4, dtype=torch.int64)
    double = tc.sac.compile("{ iv -> 2 * x[iv] }")
    into = torch.compile(lambda x: double(x=x, outputs=target).sum(), backend="eager")
    assert into(torch.arange(4)).item() == 12
    assert target.tolist() == [0, 2, 4, 6]
    with pytest.raises(tc.InputError, match="there is no input 'z'; the inputs are x"):
        torch.compile(lambda y: double(z=y), backend="eager")(torch.arange(4))


@pytest.mark.usefixtures("fresh")
def test_a_module_of_any_rank_is_exported() -> None:
    conv = tc.sac.compile(CONV)
    x, w = drawn(2, "conv")
    own = conv.lowered(x, w)
    graph = whole(lambda x, w: own(x, w) * 2)
    torch.testing.assert_close(graph(x, w), torch_conv(x, w) * 2)
    layer = tc.torch.Module(conv, w=w.detach())
    exported = torch.export.export(layer, (x,))
    torch.testing.assert_close(exported.module()(x), torch_conv(x, w))
    torch.testing.assert_close(whole(layer)(x), torch_conv(x, w))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_module_of_any_rank_is_trained(rank: int) -> None:
    x, w = (tensor.detach() for tensor in drawn(rank, "conv"))
    layer = tc.torch.Module(tc.sac.compile(CONV), w=tuple(w.shape))
    assert [name for name, _ in layer.named_parameters()] == ["w"]
    assert layer.w.abs().max() <= 1 / (w[0].numel() if rank > 1 else w.numel()) ** 0.5
    due = torch_conv(x, w)
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=100)

    def loss() -> Any:
        optimizer.zero_grad()
        value: Any = ((layer(x) - due) ** 2).sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)
    torch.testing.assert_close(layer.w.detach(), w, atol=1e-3, rtol=1e-3)


def test_a_module_is_copied_stored_and_shown() -> None:
    x, w = (tensor.detach() for tensor in drawn(2, "conv"))
    layer = tc.torch.Module(tc.sac.compile(CONV), w=w)
    assert str(layer) == "Module(conv(x), w=float64(3, 2))"
    other = tc.torch.Module(tc.sac.compile(CONV), w=(3, 2))
    other.load_state_dict(layer.state_dict())
    stored = io.BytesIO()
    torch.save(layer, stored)
    stored.seek(0)
    for each in (copy.deepcopy(layer), other, torch.load(stored, weights_only=False)):
        torch.testing.assert_close(each(x=x), torch_conv(x, w))
    scaled = tc.torch.Module(tc.sac.compile("{ iv -> a[iv] * s }"), s=2.5)
    assert [name for name, _ in scaled.named_parameters()] == ["s"]
    torch.testing.assert_close(scaled(x.float()), 2.5 * x.float())


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"v": (3,)}, "there is no input 'v'; the inputs are x, w"),
        ({"w": torch.ones(2)}, "'w' is declared float64, its type is float32"),
        ({"w": "ones"}, "'w' is given as str, where a tensor is asked for, or a shape as a tuple"),
    ],
)
def test_what_a_module_of_any_rank_refuses(given: dict[str, Any], told: str) -> None:
    with pytest.raises(tc.InputError) as caught:
        tc.torch.Module(tc.sac.compile(CONV), **given)
    assert told in str(caught.value)


def test_calls_of_a_module_of_any_rank_that_are_refused() -> None:
    layer = tc.torch.Module(tc.sac.compile(CONV), w=(2,))
    x = torch.ones(4, dtype=torch.float64)
    with pytest.raises(tc.InputError, match="the module takes 1 input, not 2"):
        layer(x, x)
    with pytest.raises(tc.InputError, match="input 'x' is missing"):
        layer()
    taken = tc.sac.compile("{ iv -> forward[iv] }")
    with pytest.raises(tc.InputError, match="the name of what modules of torch have"):
        tc.torch.Module(taken, forward=x)
    counts = tc.sac.compile("int[*] f(int[*] n) { return n; }")
    with pytest.raises(tc.InputError, match="whose values do not start at random"):
        tc.torch.Module(counts, n=(2,))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_batch_has_the_text_of_a_comprehension(rank: int, axis: int) -> None:
    conv = tc.sac.compile(CONV)
    text = tc.batch(conv, {"x": axis})
    batched = tc.sac.compile(text, entry="conv_batch")
    x, w = (tensor.detach() for tensor in drawn(rank, "conv"))
    many = torch.stack([x, 2 * x, x.sin()], axis)
    due = torch.stack([torch_conv(each, w) for each in many.unbind(axis)])
    torch.testing.assert_close(batched(many, w), due)


def test_a_batch_of_several_results_and_what_is_refused() -> None:
    both = tc.sac.compile("float, float[n] f(float[n] x, float c) { return (sum(x), c * x); }")
    batched = tc.sac.compile(tc.batch(both, [0, None]), entry="f_batch")
    x = torch.arange(6.0).reshape(2, 3)
    sums, scaled = batched(x, torch.tensor(2.0))
    torch.testing.assert_close(sums, x.sum(1))
    torch.testing.assert_close(scaled, 2 * x)
    for wrong, told in {
        "y": "in_axes names 'y', which is no input of 'f'",
        "x": "in_axes has 'a' for 'x', which is no axis",
    }.items():
        with pytest.raises(tc.GradError, match=told):
            tc.batch(both, {wrong: "a"})  # type: ignore[dict-item]
    with pytest.raises(tc.GradError, match="in_axes has 1 elements, and 'f' has 2 inputs"):
        tc.batch(both, [0])
    with pytest.raises(tc.GradError, match="gives no input of 'f' a batch"):
        tc.batch(both, {})
    with pytest.raises(tc.GradError, match="an expression declares no inputs"):
        tc.batch(tc.sac.compile("a + b"), 0)


def test_the_def_of_a_call_has_a_gradient_as_a_text() -> None:
    conv = tc.sac.compile(CONV)
    x, w = drawn(2, "conv")
    with pytest.raises(tc.GradError, match=r"conv\.lowered\(\*inputs\)"):
        tc.grad(conv)  # type: ignore[arg-type]
    gradient = tc.compile(tc.grad(conv.lowered(x, w)))
    ones = torch.ones(4, 6, dtype=torch.float64)
    found = gradient(x.detach(), w.detach(), ones)
    due = torch.autograd.grad(torch_conv(x, w).sum(), [x, w])
    torch.testing.assert_close(tuple(found), due)


def test_infer_and_pickles() -> None:
    conv = tc.sac.compile(CONV)
    x, w = (tensor.detach() for tensor in drawn(3, "conv"))
    due = torch_conv(x, w)
    for info in (conv.infer(x, w), conv.infer(x=x, w=w), conv.infer({"x": x, "w": w})):
        assert not isinstance(info, tuple)
        assert (info.shape, str(info.dtype)) == (tuple(due.shape), "float64")
    torch.testing.assert_close(pickle.loads(pickle.dumps(conv))(x, w), due)
    target = torch.zeros_like(due)
    assert conv(x, w, outputs=target) is target
    torch.testing.assert_close(target, due)


@pytest.mark.parametrize(
    ("change", "told", "repair"),
    [
        (lambda w: w.numpy(), "w is an array of numpy, but x is", "torch.as_tensor(w)"),
        (lambda w: w.to_sparse(), "w has the layout sparse_coo", "w.to_dense()"),
        (lambda w: w.float(), "'w' of 'conv' is declared float64", "w.to(torch.float64)"),
    ],
)
def test_errors_about_arrays_stand_in_the_text_of_sac(
    change: Callable[[Any], Any], told: str, repair: str
) -> None:
    x, w = (tensor.detach() for tensor in drawn(2, "conv"))
    with pytest.raises(tc.InputError) as caught:
        tc.sac.compile(CONV)(x, change(w))
    assert told in caught.value.cause
    assert caught.value.span is not None
    assert caught.value.span.text == "double[*] w"
    assert caught.value.repair == repair


def test_errors_about_outputs_stand_in_the_text_of_sac() -> None:
    x, w = (tensor.detach() for tensor in drawn(2, "conv"))
    with pytest.raises(tc.InputError, match="but the output has shape") as caught:
        tc.sac.compile(CONV)(x, w, outputs=torch.zeros(3, dtype=torch.float64))
    assert caught.value.span is not None
    assert caught.value.span.text == "double[*]"
    product = tc.sac.compile("{ iv -> x[iv] * y[iv] }")
    with pytest.raises(tc.InputError, match="is an array of numpy") as caught:
        product(x=x, y=x.numpy())
    assert caught.value.span is None


def test_a_shape_that_data_decide_has_gradients() -> None:
    text = (
        "float[*] f(int[.] l, float[.] v) { return "
        "{ [b] -> sum({ [i] -> l[i] == b ? v[i] : 0f }) | [b] < [maxval(l) + 1] }; }"
    )
    function = tc.sac.compile(text)
    v = torch.arange(4.0, requires_grad=True)
    for labels in ([0, 2, 1, 2], [2, 2, 0, 0], [0, 0, 0, 1]):
        wanted = torch.tensor(labels, dtype=torch.int32)
        found = function(wanted, v)
        due = torch.zeros(int(wanted.max()) + 1).index_add(0, wanted, v)
        torch.testing.assert_close(found, due)
        gradients = torch.autograd.grad((found**2).sum(), [v])
        torch.testing.assert_close(gradients, torch.autograd.grad((due**2).sum(), [v]))
