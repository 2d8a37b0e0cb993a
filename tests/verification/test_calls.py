"""How `tc.verify` calls kernels, what it is told, and what it tells."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import tc
from tc.cli import main
from tests.support.processes import run_python
from tests.verification.test_verify import (
    BIAS,
    CSR,
    MM,
    MOST,
    half_sums,
    kept_by_identity,
    product,
    sparse,
)

# --- how kernels are called ---------------------------------------------------------------------


class Layer:
    def forward(self, x: Any, b: Any) -> Any:
        return np.fmax(x + b, 0)

    def __call__(self, *arrays: Any) -> Any:
        return self.forward(*arrays)


def into(A: Any, B: Any, C: Any) -> None:
    np.matmul(A, B, out=C)


def into_without_start(A: Any, B: Any, C: Any) -> None:
    C += A @ B


def by_names(C: Any, B: Any, A: Any, N: int, M: int) -> None:
    C[...] = (A @ B).reshape(M, N)


@numba.cfunc("void(CPointer(float32), CPointer(float32), CPointer(float32), int64, int64, int64)")
def in_c(A: Any, B: Any, C: Any, M: int, K: int, N: int) -> None:
    for i in range(M):
        for j in range(N):
            total = np.float32(0)
            for k in range(K):
                total += A[i * K + k] * B[k * N + j]
            C[i * N + j] = total


def test_forms_of_kernels() -> None:
    assert tc.verify(Layer(), BIAS, seconds=1)
    assert tc.verify(into, MM, seconds=1)
    assert tc.verify(by_names, MM, seconds=1)
    assert tc.verify(in_c.ctypes, MM, seconds=1)
    assert tc.verify(partial(lambda scale, A, B: scale * (A @ B), np.float32(1)), MM, seconds=1)
    assert tc.verify(
        numba.njit(lambda x: x * np.float32(2)), "def f(float(N) x) -> (y) { y(i) = 2 * x(i) }"
    )
    finding = tc.verify(into_without_start, MM).findings[0]
    assert finding.diagnosis.endswith(": memory is read that nobody has written")


def test_given_sizes_and_inputs() -> None:
    seen: set[tuple[int, ...]] = set()

    def noting(A: Any, B: Any) -> Any:
        seen.add((*A.shape, B.shape[1]))
        return A @ B

    assert tc.verify(noting, MM, sizes=[{"M": 16, "K": 8, "N": 24}], isolate=False)
    assert seen == {(16, 8, 24)}
    seen.clear()
    assert tc.verify(noting, MM, sizes={"K": range(16, 65, 16), "M": 4}, isolate=False)
    assert {k for _, k, _ in seen} == {16, 32, 48, 64}
    assert {m for m, _, _ in seen} == {4}
    row = np.array([0, 2, 2, 3], np.int32)
    inputs = [row, np.array([1, 0, 2], np.int32), *np.ones((2, 3), np.float32)]
    assert tc.verify(sparse, CSR, inputs=inputs)

    def unsorted(row: Any, col: Any, v: Any, x: Any) -> Any:
        return sparse(row, col, v, x)[::-1].copy()

    finding = tc.verify(unsorted, CSR, inputs=inputs).findings[0]
    assert finding.diagnosis.endswith("y is reversed along r")


def test_given_inputs_in_arrays_that_hold_others_later() -> None:
    inputs = [np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)]
    assert tc.verify(kept_by_identity, MM, inputs=inputs).findings[0].kind == "varies"


def test_inputs_that_are_not_found() -> None:
    text = """def f(int(N) i, float(N) x) -> (o) {
      t(n) = 3 * i(n) * i(n) + 5
      o(n) = x(t(n)) where n in 0:N
    }"""
    with pytest.raises(tc.InputError, match="no inputs were found that fit the text") as caught:
        tc.verify(lambda i, x: x[i], text, sizes=[{"N": 4}])
    assert caught.value.repair == "inputs=[i, x]"


def half_sums_in_order(A: Any, B: Any) -> Any:
    C = np.zeros((len(A), B.shape[1]), np.float16)
    for k in range(A.shape[1]):
        C += (A[:, k, None] * B[k]).astype(np.float16)
    return C.astype(np.float32)


def test_coarser_types() -> None:
    text = "def dot(double(N) x, double(N) y) -> (s) { s +=! x(i) * y(i) }"

    def single(x: Any, y: Any) -> Any:
        return np.float64(np.dot(x.astype(np.float32), y.astype(np.float32)))

    assert tc.verify(single, text, compute="float32")
    assert not tc.verify(single, text)
    assert tc.verify(half_sums_in_order, MM, compute="float16")
    assert not tc.verify(half_sums_in_order, MM, compute="tf32")
    assert not tc.verify(half_sums, MM)
    assert not tc.verify(half_sums, MM, compute="tf32")


def test_same_bits() -> None:
    def in_any_order(x: Any, state: list[int] = []) -> Any:  # noqa: B006
        state.append(1)
        return x.sum(1) if len(state) % 2 else np.add.reduce(x[:, ::-1].copy(), 1)

    text = "def rows(float(N,D) x) -> (o) { o(n) +=! x(n,d) }"
    assert tc.verify(in_any_order, text)
    finding = tc.verify(in_any_order, text, same_bits=True).findings[0]
    assert finding.cause.endswith("gives other bits than the first")


# --- what is told -----------------------------------------------------------------------------


def test_a_verdict_in_json_and_html() -> None:
    def lost(x: Any) -> Any:
        return np.fmax.reduce(x, 1, initial=-np.inf)

    verdict = tc.verify(lost, MOST)
    value = json.loads(verdict.to_json(), parse_constant=pytest.fail)
    assert value["right"] is False
    assert value["findings"][0]["kind"] == "value"
    assert "most: WRONG" in verdict._repr_html_()
    assert "<script" not in tc.verify(lambda x: x.max(1, initial=-np.inf), MOST)._repr_html_()
    assert repr(verdict) == "<verdict on most: WRONG>"


def test_the_script_repeats_the_finding(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text("def short(A, B):\n    return A[:, :-1] @ B[:-1]\n")
    (tmp_path / "mm.tc").write_text(MM)
    again = tmp_path / "again.py"
    words = ["verify", str(tmp_path / "kernels.py:short"), str(tmp_path / "mm.tc")]
    command = "import sys; from tc.cli import main; sys.exit(main(sys.argv[1:]))"
    done = run_python(command, *words, "--script", str(again))
    assert done.returncode == 1
    assert "C is wrong: the last term is missing, k = K - 1" in done.stdout
    repeated = run_python(
        again.read_text(),
        cwd=tmp_path,
        environment={"PYTHONPATH": f"{tmp_path}:{Path(tc.__file__).parents[1]}"},
    )
    assert "the last term is missing, k = K - 1" in repeated.stdout, repeated.stderr


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernels, text = tmp_path / "kernels_of_command.py", tmp_path / "mm.tc"
    kernels.write_text("product = lambda A, B: A @ B\nvalue = 3\n")
    text.write_text(MM)
    assert main(["verify", f"{kernels}:product", str(text), "--seconds", "2"]) == 0
    assert "mm: right in all that was tried" in capsys.readouterr().out
    assert (
        main(["verify", f"{kernels}:product", str(text), "--json", "--sizes", "M=3,K=4,N=5"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["right"] is True
    for name, message in (
        (f"{kernels}:prodct", "has no prodct; did you mean product?"),
        (f"{kernels}:value", "is a value of the type int, and no kernel"),
        ("kernels.py", "a kernel is FILE.py:NAME, or MODULE:NAME"),
        (f"{tmp_path}/other.py:f", "there is no such file"),
        ("no_such_module:f", "ModuleNotFoundError"),
    ):
        assert main(["verify", name, str(text)]) == 2
        assert message in capsys.readouterr().err


def test_the_fixture(tmp_path: Path) -> None:
    test = tmp_path / "test_kernels.py"
    test.write_text(f"""
TEXT = {MM!r}
def test_right(tc_verify):
    assert tc_verify(lambda A, B: A @ B, TEXT)
def test_wrong(tc_verify):
    tc_verify(lambda A, B: A[:, :-1] @ B[:-1], TEXT)
""")
    script = "import pytest, sys; sys.exit(pytest.main(sys.argv[1:]))"
    plugin = () if "tc_verify" in _fixtures() else ("-p", "tc.verification.pytest_plugin")
    done = run_python(script, "-q", *plugin, str(test), cwd=tmp_path,
                      environment={"PYTHONPATH": str(Path(tc.__file__).parents[1])})  # fmt: skip
    assert "1 failed, 1 passed" in done.stdout
    assert "VerificationError: mm: the kernel is not what the text says" in done.stdout


def _fixtures() -> set[str]:
    from importlib.metadata import entry_points

    return {"tc_verify" for point in entry_points(group="pytest11") if point.name == "tc"}


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no kernel": (
        lambda: tc.verify(3, MM),  # type: ignore[arg-type]
        "InputError: the kernel is int, which cannot be called\n"
        "repair: a function of the inputs of the text",
    ),
    "too few parameters": (
        lambda: tc.verify(lambda A: A, MM),
        "InputError: the kernel takes 1 argument (A), but mm has 2 inputs (A, B) and 1 output (C)\n"
        "repair: lambda A, B: kernel(...), which returns C",
    ),
    "like": (
        lambda: tc.verify(product, MM, like="cupy"),
        "InputError: like='cupy': kernels are called with arrays of 'numpy', 'torch' or 'jax'\n"
        'repair: like="torch"',
    ),
    "compute": (
        lambda: tc.verify(product, MM, compute="int4"),
        "InputError: compute='int4': a kernel may compute in float32, tf32, float16, bfloat16\n"
        'repair: compute="float32"',
    ),
    "seconds": (
        lambda: tc.verify(product, MM, seconds=0),
        "InputError: seconds=0: a verdict takes a positive number of seconds\nrepair: seconds=20",
    ),
    "size": (
        lambda: tc.verify(product, MM, sizes={"MM": 3}),
        "InputError: mm has no size 'MM'; there are M, K, N",
    ),
    "negative size": (
        lambda: tc.verify(product, MM, sizes={"M": -3}),
        "InputError: sizes: M is -3, but a size is an integer of at least 0, or several\n"
        "repair: M=64",
    ),
    "missing size": (
        lambda: tc.verify(product, MM, sizes=[{"M": 3}]),
        "InputError: sizes: {'M': 3} lacks K, N\nrepair: K=64",
    ),
    "sizes": (
        lambda: tc.verify(product, MM, sizes=3),
        "InputError: sizes=3: sizes are a dict, of numbers or ranges, or a list of dicts\n"
        "repair: sizes={'M': 64, 'K': 64}",
    ),
    "gradient": (
        lambda: tc.verify(product, MM, gradient=True),
        "InputError: gradient=True: a kernel of numpy has no gradient to compare\n"
        "repair: gradient=False, or the gradient as a kernel of the text str(tc.grad(text))",
    ),
    "sizes beside inputs": (
        lambda: tc.verify(product, MM, sizes={"M": 3}, inputs=np.ones((2, 2, 2), np.float32)),
        "InputError: inputs say the sizes, which are given as well\nrepair: sizes=None",
    ),
    "no sizes": (
        lambda: tc.verify(product, MM, sizes=[]),
        "InputError: sizes=[] are no sizes\nrepair: sizes=[{'M': 64, 'K': 64}]",
    ),
    "no memory": (
        lambda: tc.verify(product, MM, sizes=[{"M": 1 << 40, "K": 1 << 20, "N": 4}]),
        "InputError: no memory holds the arrays of M = 1099511627776, K = 1048576, N = 4\n"
        "repair: smaller sizes",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(tc.InputError) as caught:
        call()
    assert str(caught.value) == message


def test_a_text_that_reads_its_output_first() -> None:
    text = "def f(float(N) x) -> (float(N) o) { t(i) = o(i) + x(i)  o(i) = 2 * t(i) }"
    with pytest.raises(tc.InputError, match="reads o before it writes it") as caught:
        tc.verify(lambda x: x, text)
    assert caught.value.rule == "R4"


# --- torch and JAX ----------------------------------------------------------------------------

LAYER = """def layer(float(N,D) x, float(D,M) w, float(M) b) -> (o) {
  o(n,m) +=! x(n,d) * w(d,m)
  o(n,m) = tanh(o(n,m) + b(m))
}"""


def test_gradients_of_torch() -> None:
    torch = pytest.importorskip("torch")

    def layer(x: Any, w: Any, b: Any) -> Any:
        return torch.tanh(x @ w + b)

    class Wrong(torch.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return torch.tanh(x)

        @staticmethod
        def backward(ctx: Any, d: Any) -> Any:
            (x,) = ctx.saved_tensors
            return d * (1 - torch.tanh(x))

    assert tc.verify(layer, LAYER, seconds=2)
    assert tc.verify(layer, LAYER, gradient=True, seconds=2)
    assert tc.verify(lambda x, w, b: Wrong.apply(x @ w + b), LAYER, like="torch", seconds=2)
    verdict = tc.verify(lambda x, w, b: Wrong.apply(x @ w + b), LAYER, like="torch", gradient=True)
    assert verdict.findings[0].kind == "value"


def test_canaries_around_tensors() -> None:
    torch = pytest.importorskip("torch")

    def kernel(A: Any, B: Any) -> Any:
        around = torch.as_strided(B, (B.numel() + 1,), (1,))
        if around.numel() > 1:
            around[-1] = 3
        return A @ B

    verdict = tc.verify(lambda A, B: torch.matmul(A, B), MM, like="torch:cpu", seconds=4)
    assert verdict
    assert "every second element" in str(verdict.tried)
    finding = tc.verify(kernel, MM, like="torch:cpu").findings[0]
    assert (finding.kind, finding.cause) == ("writes around", "the kernel writes outside of B")


def test_gradients_of_jax() -> None:
    jax = pytest.importorskip("jax")

    @jax.jit
    def layer(x: Any, w: Any, b: Any) -> Any:
        return jax.numpy.tanh(x @ w + b)

    assert tc.verify(layer, LAYER, seconds=3)
    assert tc.verify(layer, LAYER, gradient=True, seconds=4)


def kernel_of_a_pool(A: Any, B: Any) -> Any:
    return POOL.submit(lambda: A @ B).result()


POOL = ThreadPoolExecutor(1)


def test_kernels_that_wait_for_threads_of_the_caller() -> None:
    """A fork would lack the threads of the pool."""
    POOL.submit(abs, 1).result()
    verdict = tc.verify(kernel_of_a_pool, MM, seconds=8)
    assert verdict.is_right or verdict.not_tried


def test_texts_of_exceptions() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise ValueError

    def raising_odd(A: Any, B: Any) -> Any:  # noqa: ARG001
        raise Odd

    def raising_long(A: Any, B: Any) -> Any:  # noqa: ARG001
        raise ValueError("y" * 5_000_000)

    cause = tc.verify(raising_odd, MM).findings[0].cause
    assert cause == "the kernel raises Odd: an exception that cannot be printed"
    assert len(str(tc.verify(raising_long, MM))) < 10_000


def test_from_another_thread() -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(tc.verify(product, MM, seconds=2)))
    thread.start()
    thread.join()
    assert found
    assert found[0]


def test_interrupted_verification_ends() -> None:
    script = f"""
import os, signal, threading, time, tc
threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
def hang(A, B):
    while True: pass
try:
    tc.verify(hang, {MM!r}, seconds=60)
except KeyboardInterrupt:
    print("interrupted")
"""
    assert signal.getsignal(signal.SIGINT) is not None
    assert run_python(script).stdout == "interrupted\n"


NORM = """def norm(float(N,D) x, float(D) g, float(D) b) -> (o) {
  s(n) +=! x(n,d)
  m(n) = s(n) / D
  v(n) +=! (x(n,d) - m(n)) * (x(n,d) - m(n))
  o(n,d) = (x(n,d) - m(n)) / sqrt(v(n) / D + 1e-5) * g(d) + b(d)
}"""
VARIANCE = """def variance(float(N,D) x) -> (v) {
  s(n) +=! x(n,d)
  m(n) = s(n) / D
  t(n) +=! (x(n,d) - m(n)) * (x(n,d) - m(n))
  v(n) = t(n) / (D - 1)
}"""


def test_other_ways_of_computing() -> None:
    """Running means are rounded for whole numbers, too; the mean of nothing may be NaN."""
    torch = pytest.importorskip("torch")
    norm = torch.nn.functional.layer_norm
    assert tc.verify(lambda x, g, b: norm(x, x.shape[1:], g, b), NORM, like="torch", seconds=3)
    verdict = tc.verify(lambda x: torch.var(x, 1), VARIANCE, like="torch", seconds=3)
    assert verdict, str(verdict)
    assert any("NaN, as of nothing" in refused for refused in verdict.refused)
    assert not tc.verify(lambda x: x.var(1), VARIANCE)
