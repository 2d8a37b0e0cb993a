"""tc.define, tc.emit, tc.explain, tc.backends and tc.Options."""

from __future__ import annotations

import pickle
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.function import Compiled
from tc.pipeline import trace
from tc.runtime.sizes import resolve_sizes
from tests.api.evaluating import EvaluateBackend
from tests.support.opencl import on_pocl
from tests.support.processes import ended_well, run_python, told
from tests.support.stand_in import DeviceVector, StandInDriver, stand_in

__all__ = ["stand_in"]

TEXT = """
def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }
def 2LUT(float(N) x) -> (y) { y(i) = 2 * x(i) }
def __init__(float(N) x) -> (y) { y(i) = 3 * x(i) }
def lambda(float(W) W) -> (y) { y(i) = W(i) * W }
"""
SGEMM = """
def sgemm(float a, float b, float(N,M) A, float(M,K) B) -> (C) {
    C(i,j) = b * C(i,j)
    C(i,j) += a * A(i,k) * B(k,j)
}"""
IN_ANY_ORDER = """
import tc
text = '''
def f(int p, int q, int r, float(8,4) a, float(N,M,K,20) b) -> (o) {
    o(l,j,w) +=! a(w, t) * b(l, w, t, j) where j in 1:17, w in p:K - q, t in r:M / 2
}'''
plan = tc.Plan.from_json('''{"version": 1, "parts": [
    {"statements": ["o.zero", "S0.init", "S0"], "actions": [
        {"tile": "i2", "sizes": [4]}, {"sink": ["i2 mod 4"]},
        {"promote": "o", "scope": "register", "inside": "i2 div 4", "lanes": 4}]}]}''')
sizes = {"N": 4, "M": 8, "K": 7, "p": 1, "q": 2, "r": 3}
options, device = tc.Options(plan=plan), tc.Device(vector_bits=128)
print(tc.explain(text, sizes, options=options, device=device, stage="ranges"))
print(tc.emit(text, sizes, options=options, device=device))

both = '''
def both(float(M,K) a, float(N,K) b) -> (c, d, e) {
    c(m,n) +=! a(m,k) * b(n,k)
    d(m,n) max=! a(m,k) + b(n,k)
    e(m) +=! c(m,n) * d(0,n)
}'''
sizes = {"M": 70, "N": 50, "K": 30}
for backend, single in (("opencl", False), ("cuda", False), ("cuda", True)):
    chosen = tc.GpuOptions(tile=(7, 9), threads=(2, 3), single_kernel=single)
    options = tc.Options(gpu=chosen)
    print(tc.emit(both, sizes, backend=backend, options=options, device=tc.Gpu()))
"""
NAMES = ["mm", "2LUT", "__init__", "lambda"]
X = np.ones(3, np.float32)


@pytest.fixture
def definitions() -> tc.Definitions:
    with pytest.warns(tc.TCWarning, match="N1") as caught:
        made = tc.define(TEXT, backend="interpret")
    assert len(caught) == 1
    assert caught[0].filename == __file__
    return made


def test_define(definitions: tc.Definitions) -> None:
    assert list(definitions) == NAMES
    assert len(definitions) == 4
    assert "2LUT" in definitions
    assert "3LUT" not in definitions
    assert (definitions["2LUT"](X) == 2).all()
    assert (definitions["__init__"](X) == 3).all()
    assert definitions.mm is definitions["mm"]
    assert isinstance(definitions.mm, Compiled)
    assert "mm" in dir(definitions)
    assert "2LUT" not in dir(definitions)
    assert repr(definitions) == "<tc definitions mm, 2LUT, __init__, lambda>"


def test_unknown_defs(definitions: tc.Definitions) -> None:
    with pytest.raises(tc.InputError, match=r"no def '2lut'.*\n.*\[\"2LUT\"\]"):
        definitions["2lut"]
    with pytest.raises(AttributeError, match="no def 'nothing'"):
        definitions.nothing  # noqa: B018
    assert not hasattr(definitions, "__deepcopy__")


def test_definitions_pickle(definitions: tc.Definitions) -> None:
    twin = pickle.loads(pickle.dumps(definitions))
    assert list(twin) == NAMES
    assert (twin["2LUT"](X) == 2).all()


def test_emit_takes_inputs_or_sizes() -> None:
    text = tc.emit(TEXT, {"M": 2, "K": 3, "N": 4}, entry="mm")
    assert isinstance(text, tc.KernelText)
    arguments = "input float32(2, 3) A", "input float32(3, 4) B", "output float32(2, 4) C"
    assert str(text).splitlines()[:4] == ["// mm", *(f"//   {each}" for each in arguments)]
    head = "void mm(const float* restrict A, const float* restrict B, float* restrict C)"
    assert head in str(text).splitlines()
    a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    for given in ([a, b], (a, (3, 4)), {"A": a, "N": 4}):
        assert str(tc.emit(TEXT, given, entry="mm")) == str(text)
    assert str(tc.emit(TEXT, [np.asfortranarray(a), b], entry="mm")) != str(text)


@pytest.mark.skipif("c" not in tc.backends(), reason="there is no C compiler")
def test_emitted_c_compiles(tmp_path: Path) -> None:
    """position-4; sgemm reads what is in C before (R4)."""
    (tmp_path / "f.c").write_text(str(tc.emit(SGEMM, {"N": 2, "M": 3, "K": 4})))
    command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-c", "f.c"]
    subprocess.run(command, cwd=tmp_path, check=True)


def test_emit_checks_when_asked() -> None:
    """Rule G7."""
    gather = "def gather(float(N) x, int32(M) I) -> (o) { o(i) = x(I(i)) }"
    unchecked, checked = (tc.emit(gather, {"N": 3, "M": 2}, check=c) for c in (False, True))
    assert (len(unchecked.kernel.sites), len(checked.kernel.sites)) == (0, 1)


def test_explain() -> None:
    explanation = tc.explain(TEXT, {"M": 2, "K": 3, "N": 4}, entry="mm")
    assert explanation.shaped.shapes["C"] == (2, 4)
    assert str(explanation).startswith("def mm (<string>)\nsizes: M = 2, K = 3, N = 4\n")
    reduction = r"^  k +reduction +0:3 +0:K +A\(m,k\), B\(k,n\) in round 1$"
    assert re.search(reduction, str(explanation), re.MULTILINE)


def test_trace_keeps_every_stage() -> None:
    backend = EvaluateBackend()
    stages = trace(
        tc.Source(SGEMM),
        None,
        lambda program: resolve_sizes(program, {"N": 2, "M": 3, "K": 4}),
        backend,
        tc.Options(),
        check=True,
    )
    assert stages.shaped.program is stages.program
    assert stages.text.kernel is stages.kernel
    assert stages.kernel.initial == {"C"}
    assert list(stages.seconds) == ["parse", "check", "infer_ranges", "lower", "emit"]


def test_backends() -> None:
    assert "interpret" in tc.backends()
    assert "numba" in tc.backends()


@pytest.mark.parametrize("backend", sorted({*tc.backends()} - {"opencl"}))
def test_every_backend_runs(backend: str) -> None:
    mm = tc.compile(TEXT, entry="mm", backend=backend)
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(mm(a, b), a @ b)


@on_pocl
def test_opencl_runs() -> None:
    mm = tc.compile(TEXT, entry="mm", backend="opencl")
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(mm(a, b), a @ b)


def test_size_and_tensor_of_one_name() -> None:
    """Rule N1: an integer is the size, an array the tensor."""
    text = "def f(float(W) W, float(W) x) -> (y) { y(i) = W(i) * x(i) * W }"
    with pytest.warns(tc.TCWarning, match="N1"):
        function = tc.compile(text, backend="interpret")
    assert function.infer(W=5)["y"].shape == (5,)
    assert function.infer(W=(5,))["y"].shape == (5,)
    assert function.infer(W=np.ones(5, np.float32))["y"].shape == (5,)


def test_options() -> None:
    assert tc.Options() == tc.Options(threads=None)
    for options in (tc.Options(), tc.Options(threads=7)):
        assert tc.Options.from_json(options.to_json()) == options
        assert pickle.loads(pickle.dumps(options)) == options
    for threads in (0, -1, True, 1.5, "2"):
        with pytest.raises(tc.BackendError, match="at least 1"):
            tc.Options(threads=threads)  # type: ignore[arg-type]
    for text in ("", "[]", '{"thread": 1}', "3", '{"threads": 0}'):
        with pytest.raises(tc.BackendError):
            tc.Options.from_json(text)
    with pytest.raises(tc.BackendError):
        tc.Options.from_json(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_texts_are_for_the_device_of_the_arrays(number: int, stand_in: StandInDriver) -> None:
    """Unless another is asked for; shapes and sizes are for the first."""
    stand_in.gpus = tuple(tc.Gpu(threads=n, warp=n) for n in (256, 32, 16))
    a, b = (DeviceVector(np.ones((64, 64), np.float32), device=number) for _ in range(2))
    sizes = {"M": 64, "K": 64, "N": 64}

    def text(**given: Any) -> str:
        return str(tc.emit(TEXT, given or [a, b], entry="mm", backend="cuda"))

    first, own = (
        tc.emit(TEXT, sizes, entry="mm", backend="cuda", device=stand_in.gpus[n])
        for n in (0, number)
    )
    assert text() == text(A=a, N=64) == str(own)
    assert text(**sizes) == str(first)
    assert (str(own) == str(first)) == (number == 0)
    asked = tc.emit(TEXT, [a, b], entry="mm", backend="cuda", device=stand_in.gpus[0])
    assert str(asked) == str(first)
    explained = tc.explain(TEXT, [a, b], entry="mm", backend="cuda")
    function = tc.compile(TEXT, entry="mm", backend="cuda")
    assert explained.stages["source"] == function.explain(a, b).stages["source"]
    assert explained.stages["source"].strip() == str(own).strip()
    assert function.source(a, b) == str(own)
    in_opencl = [tc.emit(TEXT, each, entry="mm", backend="opencl") for each in ([a, b], sizes)]
    assert str(in_opencl[0]) == str(in_opencl[1])


def test_texts_are_the_same_in_all_processes() -> None:
    """Whatever the hashes of names: texts name what is kept on disk."""
    found = set()
    for seed in "0123":
        done = run_python(IN_ANY_ORDER, environment={"PYTHONHASHSEED": seed})
        assert ended_well(done), told(done)
        found.add(done.stdout)
    assert len(found) == 1
