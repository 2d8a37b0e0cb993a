"""Calls over several devices, and programs that jax has stored, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc

jax: Any = pytest.importorskip("jax", reason="jax is not installed")
jnp = jax.numpy

LINEAR = (
    "def linear(float(B,I) x, float(O,I) W, float(O) b) -> (y) {"
    " y(n,o) = b(o) y(n,o) += x(n,i) * W(o,i) }"
)
ARRAYS = """
import numpy as np
numbers = np.random.default_rng(0)
shapes = ((8, 3), (5, 3), (5,))
"""
OVER_DEVICES = f"""
import jax, jax.numpy as jnp, tc
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
{ARRAYS}
x, W, b = (jnp.asarray(numbers.random(shape), jnp.float32) for shape in shapes)
linear = tc.compile({LINEAR!r}, backend="interpret")

def same(x, W, b):
    return x @ W.T + b

def close(found, wanted):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4)

def loss(f):
    return lambda x, W, b: (f(x, W, b) ** 2).sum()

assert len(jax.devices()) == 4
mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
wanted = jax.grad(loss(same), (0, 1, 2))(x, W, b)
for check in (True, False):
    over = jax.shard_map(
        linear, mesh=mesh, in_specs=(P("i"), P(), P()), out_specs=P("i"), check_vma=check
    )
    close(jax.jit(over)(x, W, b), same(x, W, b))
    close(jax.jit(jax.grad(loss(over), (0, 1, 2)))(x, W, b), wanted)
close(over(x, W, b), same(x, W, b))

def of_part(x, W, b):  # what is the same on all devices has one gradient
    return jax.grad(loss(linear), 1)(x, W, b)

mapped = jax.shard_map(of_part, mesh=mesh, in_specs=(P("i"), P(), P()), out_specs=P())
close(jax.jit(mapped)(x, W, b), wanted[1])
spread = jax.device_put(x, NamedSharding(mesh, P("i")))
close(jax.jit(linear)(spread, W, b), same(x, W, b))
close(jax.grad(loss(linear), (0, 1, 2))(spread, W, b), wanted)
print("done")
"""


def run(script: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_parts_on_several_devices() -> None:
    flags = "--xla_force_host_platform_device_count=4"
    assert run(OVER_DEVICES, XLA_FLAGS=flags).endswith("done\n")


LOADED = f"""
import sys, jax, jax.export, tc.jax
{ARRAYS}
x, W, b = (jax.numpy.asarray(numbers.random(shape), "float32") for shape in shapes)
exported = jax.export.deserialize(open(sys.argv[1], "rb").read())
np.testing.assert_allclose(exported.call(x, W, b), x @ W.T + b, rtol=1e-5)
d_W = jax.grad(lambda W: exported.call(x, W, b).sum())(W)
np.testing.assert_allclose(d_W, np.broadcast_to(x.sum(0), W.shape), rtol=1e-5)
print("done")
"""


def test_a_stored_program_is_loaded_by_another_process(tmp_path: Path) -> None:
    pytest.importorskip("flatbuffers", reason="flatbuffers is not installed")
    import jax.export

    from tc.jax import disabled_checks

    linear = jax.jit(tc.compile(LINEAR))
    arrays = [jnp.ones(shape) for shape in ((8, 3), (5, 3), (5,))]
    with pytest.raises(ValueError, match="tc_run"):
        jax.export.export(linear)(*arrays)
    exported = jax.export.export(linear, disabled_checks=disabled_checks())(*arrays)
    np.testing.assert_array_equal(exported.call(*arrays), linear(*arrays))
    stored = tmp_path / "linear"
    stored.write_bytes(exported.serialize(vjp_order=1))
    assert run(LOADED, str(stored)) == "done\n"


def exported(function: tc.Compiled, *arrays: Any) -> Any:
    import jax.export

    from tc.jax import disabled_checks

    return jax.export.export(jax.jit(function), disabled_checks=disabled_checks())(*arrays)


def test_sizes_that_are_symbols() -> None:
    """Shapes are expressions of them, and those of a call are checked."""
    import jax.export

    m, n = jax.export.symbolic_shape("m, n", constraints=["n >= 2"])
    text = "def f(float(M,N) A, float(K) w) -> (o, p) { o(i,j) +=! A(i,j+k) * w(k)  p = 2 * w(0) }"
    function = tc.compile(text, backend="interpret")
    kinds = [jax.ShapeDtypeStruct(shape, np.float32) for shape in ((m, n), (2,))]
    stored = exported(function, *kinds)
    assert [str(aval.shape) for aval in stored.out_avals] == ["(m, n - 1)", "()"]
    for shape in ((3, 5), (1, 2)):
        a, w = jnp.arange(float(np.prod(shape))).reshape(shape), jnp.array([1.0, 2.0])
        found = stored.call(a, w)
        np.testing.assert_array_equal(found[0], a[:, :-1] + 2 * a[:, 1:])
        assert found[1] == 2
    square = tc.compile("def f(float(N,N) A) -> (o) { o(i) = A(i,i) }", backend="interpret")
    with pytest.raises(tc.InputError, match=r"size N differs \(T4\)"):
        exported(square, kinds[0])


def test_other_platforms_are_refused() -> None:
    """Where jax compiles for a GPU, there is no kernel: that is said while it traces."""
    import jax.export

    from tc.jax import disabled_checks

    function = jax.jit(tc.compile(LINEAR, backend="interpret"))
    arrays = [jnp.ones(shape) for shape in ((8, 3), (5, 3), (5,))]
    with pytest.raises(tc.BackendError, match=r"(?s)linear is compiled by jax for cuda.*cpu"):
        jax.export.export(function, platforms=["cuda"], disabled_checks=disabled_checks())(*arrays)
