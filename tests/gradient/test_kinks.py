"""Gradients at ties, kinks, zeros, infinities and over empty ranges (D9 to D12, D19)."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tc
from tests.gradient.differences import forward
from tests.gradient.tangents_of import assert_transposed

NAN, INF = float("nan"), float("inf")


@dataclass
class Point:
    """A program, its inputs, and its gradients at these inputs for cotangents of 1."""

    body: str
    inputs: dict[str, Any]
    wanted: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        letters = iter("NMKL")
        params = []
        for name, value in self.inputs.items():
            dims = ",".join(next(letters) for _ in np.shape(value))
            params.append(f"double({dims}) {name}" if dims else f"double {name}")
        return f"def f({', '.join(params)}) -> (o) {{ {self.body} }}"


A = {"A": [-1.0, 0.0, 2.0]}
POINTS = {
    # kinks: the subgradient of least norm (D10)
    "abs": Point("o(i) = abs(A(i))", A, {"d_A": [-1, 0, 1]}),
    "relu": Point("o(i) = max(A(i), 0)", A, {"d_A": [0, 0, 1]}),
    "relu, the other way": Point("o(i) = fmax(0, A(i))", A, {"d_A": [0, 0, 1]}),
    "minimum": Point("o(i) = min(A(i), 0)", A, {"d_A": [1, 0, 0]}),
    "leaky": Point("o(i) = A(i) > 0 ? A(i) : 0.5 * A(i)", A, {"d_A": [0.5, 0.5, 1]}),
    "clamp": Point("o(i) = min(max(A(i), -1), 2)", A, {"d_A": [0, 1, 0]}),
    "norm": Point("o = hypot(A(1), B(0))", A | {"B": [0.0]}, {"d_A": [0, 0, 0], "d_B": [0]}),
    "two that are equal": Point(
        "o(i) = max(A(i), B(i))",
        A | {"B": [-1.0, 0.0, 1.0]},
        {"d_A": [0.5, 0.5, 1], "d_B": [0.5, 0.5, 0]},
    ),
    "one by itself": Point("o(i) = max(A(i), A(i))", A, {"d_A": [1, 1, 1]}),
    "ties": Point(
        "o(n) max=! A(n,k)",
        {"A": [[3.0, 1, 3], [2, 2, 2]]},
        {"d_A": [[0.5, 0, 0.5], [1 / 3, 1 / 3, 1 / 3]]},
    ),
    "first of ties": Point(
        "o(n) max=! A(n,k)",
        {"A": [[3.0, 1, 3], [2, 2, 2]]},
        {"d_A": [[1, 0, 0], [1, 0, 0]]},
        {"ties": "first"},
    ),
    "ties of two dimensions": Point(
        "o min=! A(n,k)", {"A": [[3.0, 1], [1, 2]]}, {"d_A": [[0, 0.5], [0.5, 0]]}
    ),
    "first of two dimensions": Point(
        "o min=! A(n,k)", {"A": [[3.0, 1], [1, 2]]}, {"d_A": [[0, 1], [0, 0]]}, {"ties": "first"}
    ),
    "infinite ties": Point("o max=! A(i)", {"A": [-INF, -INF]}, {"d_A": [0.5, 0.5]}),
    # products with zeros (D12)
    "one zero": Point("o *=! A(i)", {"A": [2.0, 0, 4]}, {"d_A": [0, 8, 0]}),
    "two zeros": Point("o *=! A(i)", {"A": [0.0, 0, 4]}, {"d_A": [0, 0, 0]}),
    "an infinity": Point("o *=! A(i)", {"A": [2.0, INF]}, {"d_A": [INF, 2]}),
    "goes on": Point(
        "o(n) = B(n) o(n) *= A(n,k)",
        {"B": [3.0, 0], "A": [[2.0, 0], [2, 5]]},
        {"d_B": [0, 10], "d_A": [[0, 6], [0, 0]]},
    ),
    # conditions keep infinities and NaN out (D7)
    "guarded root": Point(
        "o(i) = A(i) > 0 ? sqrt(A(i)) : 0", {"A": [4.0, 0, -1]}, {"d_A": [0.25, 0, 0]}
    ),
    "guarded logarithm": Point(
        "o(i) = A(i) > 0 ? log(A(i)) : 0", {"A": [4.0, 0, -1]}, {"d_A": [0.25, 0, 0]}
    ),
    "guarded quotient": Point(
        "o(i) = A(i) != 0 ? 1 / A(i) : 0", {"A": [2.0, 0]}, {"d_A": [-0.25, 0]}
    ),
    "guarded power": Point(
        "o(i) = A(i) > 0 ? pow(A(i), 0.5) : 0", {"A": [4.0, 0]}, {"d_A": [0.25, 0]}
    ),
    "guarded sum": Point(
        "o +=! A(i) > 0 ? sqrt(A(i)) * B(i) : 0",
        {"A": [4.0, 0], "B": [1.0, INF]},
        {"d_A": [0.25, 0], "d_B": [2, 0]},
    ),
    "nothing of infinity": Point(
        "o +=! B(i) > 0 ? A(i) * B(i) : 0",
        {"A": [INF, 1.0], "B": [0.0, 2.0]},
        {"d_A": [0, 2], "d_B": [0, 1]},
    ),
    "padded": Point(
        "o +=! pad(A(i-1), 0) * B(i) where i in 0:3",
        {"A": [1.0, 2], "B": [INF, 1.0, 1]},
        {"d_A": [1, 1], "d_B": [0, 1, 2]},
    ),
    # powers and roots at 0 (D10)
    "square of 0": Point("o(i) = pow(A(i), 2)", {"A": [0.0, 3]}, {"d_A": [0, 6]}),
    "power of 0 and 1": Point(
        "o(i) = pow(A(i), B(i))",
        {"A": [0.0, 2, 0], "B": [1.0, 0, 0]},
        {"d_A": [1, 0, 0], "d_B": [0, np.log(2.0), 0]},
    ),
    # empty ranges (D19)
    "an empty sum": Point("o(n) +=! A(n,k)", {"A": np.zeros((2, 0))}, {"d_A": np.zeros((2, 0))}),
    "an empty product": Point(
        "o(n) *=! A(n,k)", {"A": np.zeros((2, 0))}, {"d_A": np.zeros((2, 0))}
    ),
    "nothing at all": Point("o(n) = exp(A(n))", {"A": np.zeros(0)}, {"d_A": np.zeros(0)}),
    "an empty kernel": Point(
        "o(i) +=! A(i) * B(k)",
        {"A": [1.0, 2], "B": np.zeros(0)},
        {"d_A": [0, 0], "d_B": np.zeros(0)},
    ),
    "an empty stride": Point("o(i) = A(2*i)", {"A": np.zeros(0)}, {"d_A": np.zeros(0)}),
    "an empty quotient": Point(
        "o(i) = A((4*i)/3) * B(i)",
        {"A": np.zeros(0), "B": np.zeros(0)},
        {"d_A": np.zeros(0), "d_B": np.zeros(0)},
    ),
    "an empty maximum": Point(
        "o(n) max=! A(n,k)", {"A": np.zeros((0, 3))}, {"d_A": np.zeros((0, 3))}
    ),
}


@pytest.mark.drawn(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["interpret", "numba"])
@pytest.mark.parametrize("name", POINTS)
def test_a_gradient_at_a_point(name: str, backend: str) -> None:
    point = POINTS[name]
    known = {n: np.asarray(v, "float64") for n, v in point.inputs.items()}
    outputs = forward(point.text, known)
    given = {"d_o": np.ones_like(outputs["o"])}
    derived = tc.grad(point.text, **point.options)
    program = tc.compile(derived, backend=backend)
    values = {**known, **outputs, **given}
    parameters = inspect.signature(program).parameters
    found = program({n: values[n] for n in parameters if n in values})
    found = (found,) if len(point.wanted) == 1 else found
    for value, wanted in zip(found, point.wanted.values(), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
    finite = all(np.all(np.isfinite(v)) for v in (*known.values(), *outputs.values()))
    if finite and not point.options:
        gradients = dict(zip(point.wanted, found, strict=True))
        assert_transposed(point.text, known, given, gradients)
