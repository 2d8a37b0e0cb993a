"""Calls that jax traces: types, errors, numbers, threads, and how kernels are run."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tc
from tests.api.evaluating import NEEDS_C
from tests.jax.layers import in_64_bits
from tests.support.bounds import assert_computes
from tests.support.threads import run_at_once

jax: Any = pytest.importorskip("jax", reason="jax is not installed")
jnp = jax.numpy

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
TWICE = "def twice(float(N) x) -> (y) { y(i) = 2 * x(i) }"
STRIDED = "def strided(float(N) x, float a, int32 s) -> (y) { y(i) = a * x(s*i) }"
GATHER = "def gather(float(V) T, int32(N) I) -> (o) { o(n) = T(I(n)) where n in 0:N }"
TWO = "def two(float(N) x) -> (s, y) { y(i) = x(i) * x(i)  s +=! y(i) }"
BACKENDS = ["numba", "interpret", NEEDS_C]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compiled_call(backend: str) -> None:
    function = tc.compile(MM, backend=backend)
    a, b = (jnp.asarray(np.random.default_rng(0).random(s), "float32") for s in ((8, 5), (5, 7)))
    compiled = jax.jit(function)
    product = np.float64(a) @ np.float64(b)
    for call in [compiled] * 3:
        assert_computes(MM, [a, b], call(a, b), product)
    for one in (lambda a: function(a, b), lambda a: function(a, B=b.T.T)):
        assert_computes(MM, [a, b], jax.jit(one)(a), product)
    assert compiled(a[:0], b).shape == (0, 7)
    assert compiled(a[:, :0], b[:0]).tolist() == np.zeros((8, 7)).tolist()
    shape = jax.eval_shape(function, a, b)
    assert (shape.shape, shape.dtype) == ((8, 7), np.float32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_check_that_fails_is_an_error_of_jax(backend: str) -> None:
    """Rule G7, first by Python, then by the handler alone; and calls go on."""
    gather, table = jax.jit(tc.compile(GATHER, backend=backend)), jnp.arange(5.0)
    good, bad = jnp.array([1, 4, 0], jnp.int32), jnp.array([1, 7, 0], jnp.int32)
    for _ in range(3):
        with pytest.raises(Exception, match=r"(?s)AccessError \[G7\].* at n = 1, reads T\(7\)"):
            jax.block_until_ready(gather(table, bad))
        assert gather(table, good).tolist() == [1, 4, 0]


def test_several_results_are_a_tree() -> None:
    two = tc.compile(TWO, backend="interpret")
    found = jax.jit(two)(jnp.arange(3.0))
    assert type(found).__name__ == "two"
    assert (float(found.s), found.y.tolist()) == (5, [0, 1, 4])
    doubled = jax.tree.map(lambda r: 2 * r, jax.vmap(two)(jnp.ones((2, 3))))
    assert doubled.s.tolist() == [6, 6]


def test_types() -> None:
    text = (
        "def f(bool(N) a, int8(N) b, uint16(N) c, half(N) d, int32 e) -> (p, q, r, s, t) {"
        " p(i) = !a(i)  q(i) = b(i)  r(i) = c(i) + uint16(1)  s(i) = d(i) * half(2)  t = e + 1 }"
    )
    function = tc.compile(text)
    arrays = [
        jnp.array([True, False]),
        jnp.array([-1, 2], "int8"),
        jnp.array([1, 65535], "uint16"),
        jnp.array([0.5, 3], "float16"),
        jnp.int32(4),
    ]
    eager, compiled = function(*arrays), jax.jit(function)(*arrays)
    for one, other in zip(eager, compiled, strict=True):
        assert (one.dtype, one.tolist()) == (other.dtype, other.tolist())


def test_64_bits_are_kept_where_jax_has_none() -> None:
    """As without jit; what jax computes of them has 32 bits then."""
    text = (
        "def f(int32(N) x) -> (y, z) { y(i) = double(x(i)) + 0.1 z(i) = int64(x(i)) * 5000000000 }"
    )
    function, x = tc.compile(text), jnp.arange(3)
    y, z = jax.jit(function)(x)
    assert (str(y.dtype), str(z.dtype)) == ("float64", "int64")
    assert np.asarray(y).tolist() == (np.arange(3) + 0.1).tolist()
    assert np.asarray(z).tolist() == [0, 5_000_000_000, 10_000_000_000]
    wide = tc.compile("def f(double(N) x, double a) -> (y) { y(i) = a * x(i) }")
    with pytest.raises(tc.InputError, match=r"(?s)float32.*repair: jax\.config.*enable_x64"):
        jax.jit(wide)(np.ones(3), 2.0)
    with in_64_bits(jax):
        assert jax.jit(wide)(np.ones(3), 0.1).tolist() == [0.1] * 3
        assert jax.jit(lambda x: wide(x, 0.1))(np.ones(3)).tolist() == [0.1] * 3


def test_numbers_are_static_where_code_depends_on_them() -> None:
    strided, x = tc.compile(STRIDED), jnp.arange(7.0)
    wanted = [0, 6, 12]
    assert jax.jit(strided, static_argnums=2)(x, 2.0, 3).tolist() == wanted
    assert jax.jit(strided, static_argnames="s")(x, 2.0, s=3).tolist() == wanted
    assert jax.jit(strided, static_argnums=(1, 2))(x, 2.0, 3).tolist() == wanted
    assert jax.jit(lambda x: strided(x, np.float32(2), np.int32(3)))(x).tolist() == wanted
    assert jax.jit(lambda x: strided([x, 2.0, np.int32(3)]))(x).tolist() == wanted
    with pytest.raises(tc.InputError, match=r'(?s)s is traced.*static_argnames="s"'):
        jax.jit(strided)(x, 2.0, 3)
    with pytest.raises(tc.InputError, match="s is traced"):
        jax.vmap(strided, (None, None, 0))(x, 2.0, jnp.arange(1, 3))


def test_numbers_of_python_that_are_traced_take_the_declared_type() -> None:
    scale = tc.compile("def f(float a, int8 n, float(N) x) -> (y) { y(i) = a * x(i) * float(n) }")
    x = jnp.ones(2)
    for wide in (False, True):
        with in_64_bits(jax) if wide else contextlib.nullcontext():
            assert jax.jit(lambda x, a, n: scale(a, n, x))(x, 2.0, 3).tolist() == [6, 6]
            assert jax.jit(lambda x, a, n: scale(a, n, x))(x, 2, 3).tolist() == [6, 6]
            assert jax.grad(lambda a: scale(a, 3, x).sum())(2.0) == 6
            with pytest.raises(tc.InputError, match=r"n has dtype float.*int8 n asks"):
                jax.jit(lambda x, n: scale(1.0, n, x))(x, 3.0)
            with pytest.raises(tc.InputError, match=r"n has dtype int32"):
                jax.jit(lambda x, n: scale(1.0, n, x))(x, jnp.int32(3))


def test_donated_arguments_are_written_over() -> None:
    square = tc.compile("def sq(float(N) x) -> (y) { y(i) = x(i) * x(i) }")
    x = jnp.arange(30.0)
    found = jax.jit(lambda x: square(square(x)), donate_argnums=0)(x)
    assert found.tolist() == (np.arange(30.0) ** 4).tolist()
    assert x.is_deleted()
    with pytest.raises(tc.InputError, match="deleted"):
        square(x)


def test_denormal_numbers_are_numbers() -> None:
    """Threads of XLA take them for 0; kernels do not."""
    x = jnp.full(3, 2e-38, jnp.float32)
    for backend in ("numba", "interpret"):
        halved = tc.compile("def f(float(N) x) -> (y) { y(i) = x(i) * 0.5 }", backend=backend)
        for _ in range(2):
            assert np.asarray(jax.jit(halved)(x)).tolist() == (np.asarray(x) * 0.5).tolist()


# --- what is refused ------------------------------------------------------------------------------


def refused(function: Callable[..., Any], *arrays: Any) -> tc.TCError:
    with pytest.raises(tc.TCError) as caught:
        jax.jit(function)(*arrays)
    return caught.value


def test_what_calls_with_arrays_refuse_is_refused() -> None:
    mm, twice = tc.compile(MM, backend="interpret"), tc.compile(TWICE, backend="interpret")
    x, a = jnp.ones(3), jnp.ones((2, 3))
    error = refused(mm, a, a)
    assert "size K is 3, as dimension 1 of A" in error.cause or "K" in error.cause
    error = refused(twice, a)
    assert error.cause.startswith("twice: x has rank 2 and shape (2, 3)")
    assert error.repair == "x[0] for one part of it"
    error = refused(twice, a[:1])
    assert error.repair == "x.reshape((3,))"
    assert jax.jit(twice)(a[:1].reshape((3,))).shape == (3,)
    error = refused(mm, x, a)
    assert error.repair == "A.reshape((1, 3)) for one row, A.reshape((3, 1)) for one column"
    error = refused(jax.vmap(mm, (0, None)), a, a.T)
    assert error.repair == "A.reshape((1, 3)) for one row, A.reshape((3, 1)) for one column"
    assert jax.vmap(twice)(a).shape == (2, 3)
    for name, repair in (
        ("bfloat16", 'x.astype("float32")'),
        ("int32", 'x.astype("float32")'),
        ("complex64", 'x.real.astype("float32")'),
    ):
        error = refused(twice, x.astype(name))
        assert f"x has dtype {name}" in error.cause
        assert error.repair == repair
    error = refused(lambda b: mm(np.ones((2, 3), np.float32), b), a.T)
    assert error.cause.endswith(
        "A is an array of numpy, but B is one of jax: the arrays of a call are of one kind"
    )
    assert error.repair == "jax.numpy.asarray(A)"
    error = refused(lambda x: twice(x, outputs=np.ones(3, np.float32)), x)
    assert error.rule == "R4"
    assert error.repair == "twice(x)"
    error = refused(lambda x: twice(np.ones(3, np.float32), outputs=x), x)
    assert "y in outputs= is traced by jax" in error.cause
    error = refused(lambda b: mm("A", b), a)
    assert "A is of type str" in error.cause
    error = refused(lambda b: mm(b), a)
    assert "B is missing" in error.cause
    error = refused(lambda k: twice(k), jax.random.key(0))
    assert "x has dtype key<fry>" in error.cause


def test_lists_beside_arrays() -> None:
    mm = tc.compile(MM, backend="interpret")
    a, b = jnp.ones((1, 2)), [[1.0], [2.0]]
    with pytest.raises(tc.InputError, match="B is of type list, which is no array") as caught:
        mm(a, b)
    assert caught.value.repair == "jax.numpy.asarray(B)"
    error = refused(lambda a: mm(a, b), a)
    assert error.cause == "mm: B is of type list, which is no array, beside arrays of jax"
    assert error.repair == 'jax.numpy.asarray(B, "float32")'
    assert mm(a, jax.numpy.asarray(b, "float32")).tolist() == [[3.0]]


def test_a_program_that_needs_what_the_caller_gives() -> None:
    text = "def f(float(N) x) -> (float(N) y) { y(i) = y(i) + x(i) }"
    assert "outputs=" in str(refused(tc.compile(text, backend="interpret"), jnp.ones(3)))


def test_programs_that_are_too_large_for_memory_are_errors() -> None:
    huge = tc.compile("def f(int32(N) x) -> (y) { y(i,j) = x(i) + j where j in 0:1000000000000 }")
    with pytest.raises(Exception, match=r"(?i)memory|allocat|exhausted"):
        jax.block_until_ready(jax.jit(huge)(jnp.arange(1000)))


# --- threads and processes ------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_calls_of_many_threads(backend: str) -> None:
    gather = jax.jit(tc.compile(GATHER, backend=backend))
    table, wrong = jnp.arange(100.0), jnp.array([100], jnp.int32)

    def work(seed: int) -> None:
        numbers = np.random.default_rng(seed)
        for size in (1, 5, 9):
            at = numbers.integers(0, 100, size).astype("int32")
            for _ in range(8):
                assert gather(table, jnp.asarray(at)).tolist() == at.tolist()
            with pytest.raises(Exception, match=r"reads T\(100\)"):
                jax.block_until_ready(gather(table, wrong))

    run_at_once(partial(work, seed) for seed in range(8))


def test_kernels_use_the_threads_that_are_allowed_now() -> None:
    mm = jax.jit(tc.compile(MM))
    a = jnp.asarray(np.random.default_rng(0).random((200, 200)), "float32")
    try:
        for threads in (None, 1, 2):
            tc.set_threads(threads)
            for _ in range(2):
                assert_computes(MM, [a, a], mm(a, a), np.float64(a) @ np.float64(a))
    finally:
        tc.set_threads(None)


def test_kernels_are_run_without_python(monkeypatch: Any) -> None:
    """Also at first: what is called is compiled before."""
    from tc.jax.ready_calls import KnownCall

    monkeypatch.setattr(KnownCall, "run", None)
    two = tc.compile("def f(float(N) x, int32 s) -> (a, b) { a(i) = x(s*i) b(i) = a(i) + x(s*i) }")
    compiled = jax.jit(two, static_argnums=1)
    for size in (5, 7):
        a, b = compiled(jnp.arange(float(size)), 2)
        assert (a.tolist(), b.tolist()) == ([*range(0, size, 2)], [*range(0, 2 * size, 4)])


def test_more_kinds_of_calls_than_are_remembered(monkeypatch: Any) -> None:
    from tc.jax import ready_calls

    monkeypatch.setattr(ready_calls, "MAX_KINDS", 2)
    monkeypatch.setattr(ready_calls, "MAX_READY_KINDS", 0)
    twice = jax.jit(tc.compile(TWICE, backend="interpret"))
    for _ in range(2):
        for size in range(1, 5):
            assert twice(jnp.ones(size)).tolist() == [2] * size


def test_nothing_is_loaded_before_it_is_wanted() -> None:
    script = (
        "import sys, tc\n"
        "assert 'jax' not in sys.modules\n"
        "import jax\n"
        f"twice = tc.compile({TWICE!r}, backend='interpret')\n"
        "twice(jax.numpy.ones(3))\n"
        "assert 'tc.jax' not in sys.modules\n"
        "print(jax.jit(twice)(jax.numpy.ones(3)).tolist(), 'tc.jax' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[0] == "[2.0, 2.0, 2.0] True"


def test_a_call_that_was_stored_is_found_by_its_text() -> None:
    """What XLA has compiled names the program by text alone: here its function is gone."""
    import gc

    twice = tc.compile(TWICE, backend="interpret")
    stored = jax.jit(twice).lower(jnp.ones(3)).compile()
    from tc.jax.ready_calls import call_of, ready_calls

    ready_calls().forget()
    call_of.cache_clear()
    del twice
    gc.collect()
    assert stored(jnp.ones(3)).tolist() == [2, 2, 2]


def test_warnings_are_told_where_the_call_stands() -> None:
    """Rules G2 and R3, once for a function."""
    function = tc.compile("def f(float(N) x) -> (y) { y(i) += x(i) }", backend="interpret")
    x = jax.numpy.ones(3)
    with pytest.warns(tc.TCWarning, match="R3") as caught:
        assert jax.jit(lambda x: function(x))(x).tolist() == [1, 1, 1]
    assert [each.filename for each in caught] == [__file__]
    assert jax.vmap(function)(x[None]).tolist() == [[1, 1, 1]]
