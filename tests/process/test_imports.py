"""Which parts a first call loads, and numba's settings without numba."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import run_python

SETTINGS = """
import json, sys
from tc.process import numba_settings
def settings():
    return {name: numba_settings.setting(name) for name in numba_settings.DEFAULTS}
before = settings(), numba_settings.features(), "numba" in sys.modules
import numba
from numba.core.codegen import get_host_cpu_features
told = numba.config.CPU_FEATURES
print(json.dumps([before, (settings(), get_host_cpu_features() if told is None else told)]))
"""


@pytest.mark.parametrize(
    ("environment", "differs"),
    [
        ({}, {}),
        ({"NUMBA_OPT": "1"}, {"OPT": 1}),
        ({"NUMBA_LOOP_VECTORIZE": "0"}, {"LOOP_VECTORIZE": 0}),
        ({"NUMBA_ENABLE_AVX": "0"}, {"ENABLE_AVX": 0}),
        ({"NUMBA_CPU_NAME": "generic"}, {"CPU_NAME": "generic", "CPU_FEATURES": ""}),
        ({"NUMBA_CPU_FEATURES": "+avx2"}, {"CPU_FEATURES": "+avx2"}),
    ],
    ids=str,
)
def test_settings_are_those_of_numba(
    environment: dict[str, str], differs: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also before numba is imported, which is done where numba is told something alone."""
    for name in ("NUMBA_NUM_THREADS", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"):
        monkeypatch.delenv(name, raising=False)
    found = json.loads(run_python(SETTINGS, environment=environment).stdout)
    (settings, features, is_loaded), (own, own_features) = found
    assert (settings, features) == (own, own_features)
    assert is_loaded == bool(environment)
    assert {name: settings[name] for name in differs} == differs


def test_a_file_of_settings(tmp_path: Path) -> None:
    (tmp_path / ".numba_config.yaml").write_text("opt: 1\n")
    script = f"import os; os.chdir({str(tmp_path)!r})\n" + SETTINGS
    (settings, *_), (own, _) = json.loads(run_python(script).stdout)
    assert settings == own
    assert settings["OPT"] in (1, 3)  # 3 where there is no yaml, which numba says


LOADED = """
import sys, numpy as np
import tc
if len(sys.argv) > 3:
    tc.cache.enable(sys.argv[3])
function = tc.compile(sys.argv[1])
function(*[np.ones((5,) * int(rank), np.float32) for rank in sys.argv[2]])
rooms = ("numba", "scipy", "islpy", "torch", "tc.polyhedral.gpu", "tc.backends.clike", "tc.torch")
print([room for room in rooms if room in sys.modules])
"""
LAYER = "def f(float(B,C) x, float(M,C) W, float(M) b) -> (y) { y(n,m) +=! x(n,c) * W(m,c) + b(m) }"
SOFTMAX = """def f(float(N,D) I) -> (O) {
  m(n) max=! I(n,d)
  s(n) +=! exp(I(n,d) - m(n))
  O(n,d) = exp(I(n,d) - m(n)) / s(n)
}"""
GAMMA = "def f(float(N) x) -> (y) { y(i) = tgamma(x(i)) }"


@pytest.mark.parametrize(
    ("text", "ranks", "loaded"),
    [(LAYER, "221", []), (SOFTMAX, "2", []), (GAMMA, "1", ["numba", "scipy"])],
    ids=["layer", "softmax", "gamma"],
)
def test_a_first_call_loads_what_it_needs(text: str, ranks: str, loaded: list[str]) -> None:
    assert run_python(LOADED, text, ranks).stdout.strip() == str(loaded)


MAKERS = """
makers = "tc.polyhedral.lowering", "tc.kernel.pass_manager"
print([room for room in makers if room in sys.modules])
"""


def test_a_call_whose_code_is_on_disk_loads_nothing_that_makes_kernels(tmp_path: Path) -> None:
    environment = {"TC_TUNE": "0"}
    arguments = LAYER, "221", str(tmp_path / "kernels")
    cold, warm = (
        run_python(LOADED + MAKERS, *arguments, environment=environment).stdout.splitlines()
        for _ in range(2)
    )
    assert cold == ["[]", "['tc.polyhedral.lowering', 'tc.kernel.pass_manager']"]
    assert warm == ["[]", "[]"]
