"""Calls inside of torch.compile: one graph, for all sizes, with gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tc
from tests.support.interpreting import interpreted
from tests.torch.layers import Layer, layers, tuple_of

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch._dynamo", reason="torch is not installed")

LAYERS = layers(torch)
BY_NAME = {layer.name: layer for layer in LAYERS}
COMPILED = [BY_NAME[name] for name in ("convolution", "embedding", "two results", "linear")]
TWICE = "def twice(float(N) x) -> (y) { y(i) = 2 * x(i) * x(i) }"
STRIDED = "def strided(float(N) x, float a, int32 s) -> (y) { y(i) = a * x(s*i) }"

pytestmark = pytest.mark.filterwarnings("ignore")  # of what torch itself uses


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function: Any, **how: Any) -> Any:
    return torch.compile(function, backend="aot_eager", fullgraph=True, **how)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("layer", COMPILED, ids=lambda layer: layer.name)
def test_a_graph_computes_and_learns(layer: Layer) -> None:
    function = interpreted(layer.text)
    ours, theirs = layer.tensors(torch), layer.tensors(torch)
    found = tuple_of(compiled(lambda *inputs: function(*inputs))(*ours))
    wanted = tuple_of(layer.same(*theirs))
    for results in (found, wanted):
        sum((result * result.cos()).sum() for result in results).backward()
    for result, same in zip(found, wanted, strict=True):
        torch.testing.assert_close(result, same)
    for mine, other in zip(ours, theirs, strict=True):
        if mine.requires_grad:
            torch.testing.assert_close(mine.grad, other.grad)


def test_nothing_breaks_a_graph() -> None:
    function = interpreted(TWICE)
    told = torch._dynamo.explain(lambda x: function(x + 1).sum() + function(x).sum())(torch.ones(3))
    assert (told.graph_count, told.graph_break_count) == (1, 0)
    assert [name.__name__ for name in told.ops_per_graph[0]].count("run") == 2


@pytest.mark.parametrize("name", ["convolution", "average of neighbours"])
def test_a_graph_is_for_all_sizes(name: str) -> None:
    """Sizes of results are expressions of those of the inputs."""
    layer, graphs = BY_NAME[name], []
    function = interpreted(layer.text)

    def count(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    run = torch.compile(lambda *xs: function(*xs), backend=count, dynamic=True, fullgraph=True)
    x, *others = (t.detach() for t in layer.tensors(torch))
    for more in range(5):
        longer = torch.cat([x] * (more + 1), -1)[..., more:].clone(
            memory_format=torch.contiguous_format
        )
        torch.testing.assert_close(run(longer, *others), layer.same(longer, *others))
    assert len(graphs) == 1


WAYS: dict[str, Callable[[tc.Compiled, Any], Any]] = {
    "numbers": lambda f, x: f(x, 2.0, 3),
    "by name": lambda f, x: f(x, s=3, a=2.0),
    "a list": lambda f, x: f([x, 2.0, 3]),
    "a dict": lambda f, x: f({"x": x, "a": 2.0, "s": 3}),
    "a tensor of rank 0": lambda f, x: f(x, x[0] + 2, 3),
}


@pytest.mark.parametrize("way", WAYS)
def test_ways_to_call(way: str) -> None:
    function, x = interpreted(STRIDED), torch.arange(9.0)
    found = compiled(lambda x: WAYS[way](function, x))(x)
    assert found.tolist() == [0, 6, 12]


def test_numbers_that_change() -> None:
    """Those that code depends on are parts of the graph, the others are not."""
    function, x = interpreted(STRIDED), torch.arange(9.0)
    run = compiled(lambda x, a, s: function(x, a, s), dynamic=True)
    for a, s in [(2.0, 3), (3.0, 3), (0.5, 2), (2.0, 4)]:
        torch.testing.assert_close(run(x, a, s), a * x[::s])


def test_a_function_is_compiled_as_it_is() -> None:
    function, x = tc.compile(TWICE), torch.arange(3.0)
    assert compiled(function)(x).tolist() == [0, 2, 8]
    assert function(x).tolist() == [0, 2, 8]


def test_results_have_their_names() -> None:
    function, x, w = interpreted(BY_NAME["two results"].text), torch.ones(3, 4), torch.ones(4)
    found = compiled(lambda x, w: function(x, w))(x.double(), w.double())
    assert found.s.tolist() == [4, 4, 4]
    assert type(found) is type(function(x.double(), w.double()))


def test_what_is_wrong_is_said() -> None:
    function = interpreted(TWICE)
    with pytest.raises(Exception, match=r"x has dtype torch\.float64"):
        compiled(lambda x: function(x.double()))(torch.ones(3))


def test_outputs_break_a_graph() -> None:
    """The call is Python's then, and right."""
    function = interpreted(TWICE)

    def into(x: Any) -> Any:
        return function(x * 1, outputs=torch.empty_like(x)) + 1

    assert torch.compile(into, backend="eager")(torch.arange(3.0)).tolist() == [1, 3, 9]
    with pytest.raises(torch._dynamo.exc.Unsupported):
        compiled(into)(torch.ones(3))


def loss(f: Any) -> Callable[[Any, Any], Any]:
    return lambda a, b: f(a, b).cos().sum()


def dual(f: Any, a: Any, b: Any) -> Any:
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        return forward.unpack_dual(f(forward.make_dual(a, a.cos()), b)).tangent


TRANSFORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "vmap of grad": lambda f, a, b: torch.func.vmap(torch.func.grad(loss(f), (0, 1)), (0, None))(
        torch.stack([a, a + 1]), b
    ),
    "grad of vmap of vmap": lambda f, a, b: torch.func.grad(
        loss(torch.func.vmap(torch.func.vmap(f, (None, 0)), (2, None)))
    )(torch.stack([a, a + 1], 2), torch.stack([b, b + 1, b + 2])),
    "jvp": lambda f, a, b: torch.func.jvp(f, (a, b), (a.cos(), b.cos())),
    "hessian": lambda f, a, b: torch.func.hessian(loss(f), (0, 1))(a, b),
    "jacfwd of jacfwd": lambda f, a, b: torch.func.jacfwd(torch.func.jacfwd(loss(f)))(a, b),
    "dual": dual,
}
NOT_FOLLOWED = {"hessian"} if torch.__version__.startswith(("2.7.", "2.8.")) else set()
"""What these versions of torch.compile do not follow, whoever's the function is."""


@pytest.mark.drawn(3)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transforms_are_parts_of_a_graph(transform: str) -> None:
    """A transform is a part of the one graph, and the graph is differentiated again."""
    layer = BY_NAME["matmul"]
    if transform in NOT_FOLLOWED:
        with pytest.raises(torch._dynamo.exc.Unsupported):
            compiled(lambda a, b: TRANSFORMS[transform](torch.matmul, a, b))(*layer.tensors(torch))
        return
    function, results = interpreted(layer.text), []
    for call in (
        compiled(lambda a, b: TRANSFORMS[transform](function, a, b)),
        lambda a, b: TRANSFORMS[transform](torch.matmul, a, b),
    ):
        inputs = layer.tensors(torch)
        found = torch.utils._pytree.tree_leaves(call(*inputs))
        sum(result.sin().sum() for result in found).backward()
        results.append((found, [tensor.grad for tensor in inputs]))
    torch.testing.assert_close(*results)


def test_calls_between_graphs_are_left_to_python() -> None:
    """Torch does not follow what it meets there into the interpreter."""
    function = interpreted(TWICE)

    def run(x: Any) -> Any:
        torch._dynamo.graph_break()
        with torch.no_grad():
            found = function(x)
        torch._dynamo.graph_break()
        return found + next(function(x) for _ in range(1))

    for grad in (False, True):
        x = torch.arange(3.0, requires_grad=grad)
        assert torch.compile(run, backend="eager")(x).tolist() == [0, 4, 16]
