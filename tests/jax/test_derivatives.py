"""Derivatives of calls in jax, against those of jax's own formulas and against differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tc
from tests.jax.layers import JaxLayer, in_64_bits, jax_layers
from tests.support.interpreting import interpreted

jax: Any = pytest.importorskip("jax", reason="jax is not installed")
jnp = jax.numpy
LAYERS = jax_layers(jax)
BY_NAME = {layer.name: layer for layer in LAYERS}


@pytest.fixture(autouse=True)
def _wide() -> Iterator[None]:
    with in_64_bits(jax):
        yield


def close(found: Any, wanted: Any) -> None:
    """Trees of arrays that are equal up to rounding."""
    mine, theirs = jax.tree.leaves(found), jax.tree.leaves(wanted)
    assert len(mine) == len(theirs)
    for one, other in zip(mine, theirs, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def loss_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """A number of all results, to which each element adds otherwise."""

    def loss(*arrays: Any) -> Any:
        return sum((r * jnp.cos(r)).sum() for r in jax.tree.leaves(function(*arrays)))

    return loss


@pytest.mark.drawn(3)
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_values_and_gradients_are_those_of_jax(layer: JaxLayer) -> None:
    arrays = layer.arrays(jnp)

    def both(function: Any) -> Any:
        gradient = jax.grad(loss_of(function), argnums=layer.floating)
        return jax.jit(lambda *a: (jax.tree.leaves(function(*a)), gradient(*a)))(*arrays)

    close(both(interpreted(layer.text)), both(layer.same))


TWICE = [
    pytest.param(layer, marks=[pytest.mark.slow] * layer.large, id=layer.name)
    for layer in LAYERS
    if layer.twice
]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("layer", TWICE)
def test_gradients_are_those_of_differences(layer: JaxLayer) -> None:
    """In forward and in reverse mode, and in each of these of each other."""
    from jax.test_util import check_grads

    function, arrays = interpreted(layer.text), layer.arrays(jnp)

    def of_floating(*floating: Any) -> Any:
        given = dict(zip(layer.floating, map(jnp.asarray, floating), strict=True))
        return function(*(given.get(at, array) for at, array in enumerate(arrays)))

    check_grads(of_floating, [arrays[at] for at in layer.floating], order=2, eps=1e-4)


@pytest.mark.parametrize(
    "name", ["matmul", "scaled", pytest.param("softmax", marks=pytest.mark.slow), "two results"]
)
def test_hessians(name: str) -> None:
    layer = BY_NAME[name]
    loss, arrays = loss_of(interpreted(layer.text)), layer.arrays(jnp)
    wanted = jax.jit(jax.hessian(loss_of(layer.same)))(*arrays)
    close(jax.jit(jax.hessian(loss))(*arrays), wanted)
    close(jax.jit(jax.jacrev(jax.jacfwd(loss)))(*arrays), wanted)
    close(jax.jit(jax.jacrev(jax.jacrev(loss)))(*arrays), wanted)


def test_third_derivatives() -> None:
    cube = interpreted("def cube(double x) -> (y) { y = x * x * x * x }")
    third = jax.grad(jax.grad(jax.grad(cube)))
    assert float(third(jnp.float64(2.0))) == 48


@pytest.mark.parametrize("name", ["linear", "embedding", "two results", "strided convolution"])
def test_batches_along_any_axes(name: str) -> None:
    layer = BY_NAME[name]
    given = [layer.arrays(jnp, seed) for seed in range(3)]
    some = (1, *[None] * (len(given[0]) - 1))

    def ways(function: Any, arrays: Any) -> list[Any]:
        first, second, third = arrays
        gradient = jax.grad(loss_of(function), argnums=layer.floating)
        along = jax.vmap(function, some, out_axes=1)
        several = jax.grad(loss_of(along), argnums=layer.floating)
        many = [
            [jnp.stack(three, axis) for three in zip(first, second, third, strict=True)]
            for axis in (0, -1)
        ]
        two = [jnp.stack([first[0], second[0]], 1), *first[1:]]
        return [
            jax.tree.leaves(jax.vmap(function)(*many[0])),
            jax.tree.leaves(jax.vmap(function, -1)(*many[1])),
            jax.vmap(gradient)(*many[0]),
            jax.tree.leaves(along(*two)),
            several(*two),
        ]

    function = interpreted(layer.text)
    compiled = jax.jit(ways, static_argnums=0)
    close(compiled(function, given), compiled(layer.same, given))


def test_batches_of_batches_are_one_call() -> None:
    function, same = interpreted(BY_NAME["matmul"].text), jnp.matmul
    numbers = np.random.default_rng(0)
    a, b = jnp.asarray(numbers.random((2, 5, 3, 4))), jnp.asarray(numbers.random((5, 4, 2)))
    whole = jax.vmap(jax.vmap(function), (0, None))
    close(whole(a, b), same(a, b))
    assert str(jax.make_jaxpr(whole)(a, b)).count("tc_run[") == 1


def test_what_jax_does_around_a_call() -> None:
    """Loops, branches and checkpoints, whose derivatives jax takes of what is inside."""
    softmax = BY_NAME["softmax"]
    function = interpreted(softmax.text)
    x, xs = jnp.ones((2, 3)) * jnp.arange(3.0), jnp.arange(24.0).reshape(4, 2, 3) / 10
    weights = jnp.arange(6.0).reshape(2, 3)

    def ways(f: Callable[[Any], Any]) -> list[Callable[[Any], Any]]:
        return [
            lambda x: (jax.checkpoint(f)(x) * weights).sum(),
            lambda x: (jax.lax.scan(lambda c, y: (f(c * y), c), x, xs)[0] * weights).sum(),
            lambda x: (jax.lax.cond(x.sum() > 0, f, lambda y: y, x) * weights).sum(),
            lambda x: (jax.linearize(f, x)[1](weights) * weights).sum(),
            lambda x: (jax.vjp(f, x)[1](weights)[0] * weights).sum(),
        ]

    def gradients(f: Callable[[Any], Any]) -> Any:
        return jax.jit(lambda x: [jax.grad(way)(x) for way in ways(f)])(x)

    close(gradients(function), gradients(softmax.same))
    with jax.disable_jit():
        close(jax.grad(ways(function)[0])(x), jax.grad(ways(softmax.same)[0])(x))


def test_linear_functions_are_transposed() -> None:
    function = interpreted(BY_NAME["matmul"].text)
    a, b = BY_NAME["matmul"].arrays(jnp)
    linear = jax.linearize(lambda b: function(a, b), b)[1]
    (found,) = jax.linear_transpose(linear, b)(jnp.ones((3, 2)))
    close(found, a.T @ jnp.ones((3, 2)))
    many = jnp.stack([b, b + 1])
    (found,) = jax.linear_transpose(jax.vmap(linear), many)(jnp.ones((2, 3, 2)))
    close(found, jnp.stack([a.T @ jnp.ones((3, 2))] * 2))


def test_integers_have_no_tangents() -> None:
    embed, (table, at) = interpreted(BY_NAME["embedding"].text), BY_NAME["embedding"].arrays(jnp)
    d_table, d_at = jax.grad(loss_of(embed), (0, 1), allow_int=True)(table, at)
    assert d_table.shape == table.shape
    assert (d_at.dtype, d_at.shape) == (jax.dtypes.float0, at.shape)
    counted = interpreted("def f(double(N) x) -> (n, y) { n(i) = int32(x(i)) y(i) = x(i) * x(i) }")
    x = jnp.array([1.5, 2.5])
    results, tangents = jax.jvp(counted, (x,), (jnp.ones(2),))
    close(results.n, jnp.array([1, 2], jnp.int32))
    assert tangents.n.dtype == jax.dtypes.float0
    close(tangents.y, 2 * x)
    whole = interpreted("def f(double(N) x) -> (n) { n(i) = int32(x(i)) }")
    close(jax.grad(lambda x: (whole(x) * x).sum())(x), jnp.array([1.0, 2.0]))


BESIDE_INTEGERS = {
    "a maximum with its place": (
        "def f(double(N) x, int(N) k) -> (o, at) {"
        " o(k(n)), at(k(n)) max=! x(n) * x(n), n where o.0 = 3, at.0 = 3 }",
        lambda x, k: jax.ops.segment_max(x * x, k, 3),
    ),
    "a count": (
        "def f(double(N) x, int(N) k) -> (c, o) {"
        " c(k(i)) +=! 1 where c.0 = 3  o(i) = x(i) * x(i) / double(c(k(i))) }",
        lambda x, k: x * x / jnp.bincount(k, length=3)[k],
    ),
}


@pytest.mark.parametrize("name", BESIDE_INTEGERS)
def test_gradients_that_read_integers_of_the_call(name: str) -> None:
    """D17, D22: as the place of a maximum; in each transformation."""
    text, formula = BESIDE_INTEGERS[name]
    function, k = interpreted(text), jnp.array([0, 2, 1, 1, 0, 2], jnp.int32)
    x = jnp.array([0.5, -1.5, 2.5, -0.25, 1.0, 3.0])

    def mine(x: Any, k: Any) -> Any:
        return loss_of(lambda: function(x, k).o)()

    def theirs(x: Any, k: Any) -> Any:
        return loss_of(lambda: formula(x, k))()

    many, keys = jnp.stack([x, x[::-1]]), jnp.stack([k, k[::-1]])
    for made in (jax.grad, jax.hessian, lambda f: jax.jit(jax.grad(f)), jax.jacfwd):
        close(made(mine)(x, k), made(theirs)(x, k))
        close(jax.vmap(made(mine))(many, keys), jax.vmap(made(theirs))(many, keys))


def test_results_that_nobody_uses_add_nothing() -> None:
    two, (x, w) = interpreted(BY_NAME["two results"].text), BY_NAME["two results"].arrays(jnp)
    close(jax.grad(lambda x: two(x, w).y.sum())(x), jnp.broadcast_to(w, x.shape))
    close(jax.grad(lambda x: two(x, w).s.sum())(x), 2 * x * w * w)
    close(jax.grad(lambda x: x.sum() + 0 * two(x, w)[0].sum())(x), jnp.ones_like(x))


def test_a_function_without_a_derivative() -> None:
    """Values and batches are fine; the error is that of `tc.grad`, its repair one for jax (D10)."""
    function = interpreted("def f(double(N) x) -> (y) { y(i) = tgamma(x(i)) }")
    x = jnp.array([3.0, 4.0])
    close(jax.jit(function)(x), jnp.array([2.0, 6.0]))
    close(jax.vmap(function)(x[None]), jnp.array([[2.0, 6.0]]))
    repair = r"(?s)tgamma.*\nrepair: jax\.lax\.stop_gradient\(x\) in place of x(\n|$)"
    with pytest.raises(tc.GradError, match=repair):
        jax.grad(lambda x: function(x).sum())(x)
    with pytest.raises(tc.GradError, match=repair):
        jax.jvp(function, (x,), (x,))
    stopped = jax.grad(lambda x: (x * function(jax.lax.stop_gradient(x))).sum())(x)
    close(stopped, function(x))


def test_ranges_without_an_expression_are_those_of_the_call() -> None:
    """Rule D4: the gradient is for the sizes of a call."""
    text = "def f(double(N) x) -> (y) { y(i) = x(i*i) where i in 0:3 }"
    function, x = interpreted(text), jnp.arange(5.0)
    close(jax.grad(lambda x: (function(x) ** 2).sum())(x), 2 * x * jnp.array([1, 1, 0, 0, 1]))


def test_numbers_and_strides() -> None:
    strided = interpreted(
        "def f(double(N) x, double a, int32 s) -> (y) { y(i) = a * x(s*i) * x(s*i) }"
    )
    x = jnp.arange(6.0)

    def same(x: Any, a: Any) -> Any:
        return a * x[::2] ** 2

    close(
        jax.grad(lambda x, a: strided(x, a, 2).sum(), (0, 1))(x, 3.0),
        jax.grad(lambda x, a: same(x, a).sum(), (0, 1))(x, 3.0),
    )
    close(jax.vmap(lambda a: strided(x, a, s=2))(x), jax.vmap(lambda a: same(x, a))(x))
    close(
        jax.hessian(lambda a: (strided(x, a, 2) ** 2).sum())(jnp.float64(3.0)),
        jax.hessian(lambda a: (same(x, a) ** 2).sum())(jnp.float64(3.0)),
    )
