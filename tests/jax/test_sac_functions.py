"""Functions of SaC's notation on arrays and tracers of JAX, at ranks 1 to 3, beside JAX's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tc
import tc.sac

jax: Any = pytest.importorskip("jax", reason="jax is not installed")
jnp = jax.numpy

pytestmark = pytest.mark.filterwarnings("ignore::tc.TCWarning")  # of derived defs, on a range twice

CONV = (
    "float[*] conv(float[*] x, float[*] w) "
    "{ return { iv -> sum({ ov -> x[iv+ov] * w[ov] }) | iv < shape(x) - shape(w) + 1 }; }"
)
SOFTMAX = "float[*] softmax(float[*] x) { e = exp(x - maxval(x)); return e / sum(e); }"
RELAX = (
    "float[*] relax(float[*] a, float c) { return "
    "{ iv -> a[iv] + c * (a[iv-1] - 2.0 * a[iv] + a[iv+1]) | 0*shape(a)+1 <= iv < shape(a)-1;"
    " iv -> a[iv] }; }"
)
SHAPES = {1: ((9,), (3,)), 2: ((6, 7), (3, 2)), 3: ((4, 5, 6), (2, 3, 2))}


def jax_conv(x: Any, w: Any) -> Any:
    found = jax.lax.conv_general_dilated(
        x[None, None], w[None, None], (1,) * x.ndim, "VALID", precision="highest"
    )
    return found[0, 0]


def jax_softmax(x: Any) -> Any:
    return jax.nn.softmax(x.reshape(-1)).reshape(x.shape)


def jax_relax(a: Any, c: Any) -> Any:
    inner, before, after = (
        (slice(first, end),) * a.ndim for first, end in ((1, -1), (0, -2), (2, None))
    )
    return a.at[inner].set(a[inner] + c * (a[before] - 2 * a[inner] + a[after]))


PROGRAMS: dict[str, tuple[str, Callable[..., Any]]] = {
    "conv": (CONV, jax_conv),
    "softmax": (SOFTMAX, jax_softmax),
    "relax": (RELAX, jax_relax),
}


def drawn(rank: int, name: str) -> list[Any]:
    rng = np.random.default_rng(rank)
    image, kernel = SHAPES[rank]
    shapes: dict[str, Any] = {"conv": (image, kernel), "softmax": (image,), "relax": (image, ())}
    return [jnp.asarray(rng.standard_normal(shape), jnp.float32) for shape in shapes[name]]


def assert_close(found: Any, due: Any) -> None:
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(due), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_jaxs(name: str, rank: int) -> None:
    text, own = PROGRAMS[name]
    function, inputs = tc.sac.compile(text), drawn(rank, name)
    assert isinstance(function(*inputs), jax.Array)
    assert_close(function(*inputs), own(*inputs))
    assert_close(jax.jit(function)(*inputs), own(*inputs))
    places = tuple(range(len(inputs)))

    def loss(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: (f(*given) ** 2).sum()

    found = jax.jit(jax.grad(loss(function), places))(*inputs)
    assert_close(found, jax.grad(loss(own), places)(*inputs))
    many = [jnp.stack([value, 2 * value]) for value in inputs]
    assert_close(jax.vmap(function)(*many), jax.vmap(own)(*many))
    tangents = tuple(jnp.ones_like(value) for value in inputs)
    assert_close(jax.jvp(function, tuple(inputs), tangents), jax.jvp(own, tuple(inputs), tangents))


def test_numbers_of_python_beside_tracers() -> None:
    a = drawn(2, "relax")[0]
    relax = tc.sac.compile(RELAX)
    assert_close(jax.jit(lambda a: relax(a, 0.25))(a), jax_relax(a, 0.25))
    product = tc.sac.compile("{ iv -> x[iv] * y[iv] }")
    found = product(x=jnp.ones(3, jnp.float32), y=[1, 2, 3])
    assert_close(found, np.array([1, 2, 3]))


def test_a_shape_that_data_decide_is_none_of_a_traced_call() -> None:
    text = "int[*] f(int[.] x) { return { [i] -> 1 | [i] < [maxval(x)] }; }"
    function = tc.sac.compile(text)
    x = jnp.asarray([1, 3], jnp.int32)
    assert function(x).tolist() == [1, 1, 1]
    with pytest.raises(tc.InputError, match=r"'x' is traced by jax .* and its elements are needed"):
        jax.jit(function)(x)
