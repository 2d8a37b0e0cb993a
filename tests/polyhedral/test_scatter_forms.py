"""The forms of a scatter, as plans ask for them (X2): each has the results, on processors and
GPUs, and the same bits on any number of threads; a plan that is given back has the form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tc
from tc.gpu import Gpu
from tc.kernel.printer import to_text
from tc.plan import SCATTERS, Part, Scatter
from tc.polyhedral.gpu.gpu_target import gpu_target
from tc.polyhedral.lowering import trace_lowering
from tc.semantics.ranges.range_inference import infer_ranges
from tests.support.bounds import assert_computes
from tests.support.lowering import trace_lowering as lowered
from tests.support.pipeline import checked

ON_PROCESSORS = SCATTERS[:4]
RNG = np.random.default_rng(4)
PROGRAMS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "scalars": (
        "def f(int(N) I, float(N) x) -> (h) { h(I(n)) +=! x(n) where h.0 = 50 }",
        {"I": np.int32(RNG.integers(0, 50, 900)), "x": np.float32(RNG.normal(size=900))},
    ),
    "rows": (
        "def f(int64(N) I, float(N,D) x) -> (h) { h(I(n),d) +=! x(n,d) where h.0 = 11 }",
        {"I": RNG.integers(0, 11, 300), "x": np.float32(RNG.normal(size=(300, 20)))},
    ),
    "a batch": (
        "def f(int(B,N) I) -> (h) { h(b,I(b,n)) +=! 1 where h.1 = 9 }",
        {"I": np.int32(RNG.integers(0, 9, (3, 200)))},
    ),
    "two places, some terms": (
        "def f(int(N) I, int(N) J, float(N) x) -> (h) {"
        " h(I(n),J(n)) min=! x(n) where h.0 = 9, h.1 = 4, x(n) > 0 }",
        {
            "I": np.int32(RNG.integers(0, 9, 200)),
            "J": np.int32(RNG.integers(0, 4, 200)),
            "x": np.float32(RNG.normal(size=200)),
        },
    ),
    "going on": (
        "def f(int(N) I, float(M) y, float(N) x) -> (float(M) h) { h(m) = y(m)  h(I(n)) += x(n) }",
        {
            "I": np.int32(RNG.integers(0, 30, 400)),
            "y": np.float32(RNG.normal(size=30)),
            "x": np.float32(RNG.normal(size=400)),
        },
    ),
}


def options_of(name: str, form: str, threads: int | None = None) -> tc.Options:
    statement = "S1" if name == "going on" else "S0"
    plan = tc.Plan([Part([statement], [Scatter(statement, form)])])
    return tc.Options(plan=plan, threads=threads)


@pytest.mark.parametrize("form", ON_PROCESSORS)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", ["numba", pytest.param("c", marks=pytest.mark.drawn(2))])
def test_forms_on_processors(backend: str, name: str, form: str) -> None:
    text, inputs = PROGRAMS[name]
    function = tc.compile(text, backend=backend, options=options_of(name, form))
    assert_computes(text, list(inputs.values()), function(**inputs))


@pytest.mark.parametrize("form", ON_PROCESSORS)
@pytest.mark.parametrize("name", ["scalars", "rows"])
def test_bits_on_any_number_of_threads(name: str, form: str) -> None:
    text, inputs = PROGRAMS[name]
    found = {
        tc.compile(text, backend="c", options=options_of(name, form, threads))(**inputs).tobytes()
        for threads in (1, 2, 3, 7)
    }
    assert len(found) == 1


FORMS = [*((False, form) for form in ON_PROCESSORS), *((True, form) for form in SCATTERS[1:4])]


@pytest.mark.parametrize(
    ("name", "on_gpu", "form"),
    [*((name, *form) for name in PROGRAMS for form in FORMS), ("a batch", True, "atomic")],
)
def test_a_plan_given_back_has_the_form(name: str, on_gpu: bool, form: str) -> None:
    text, inputs = PROGRAMS[name]
    shaped = infer_ranges(checked(text), {n: a.shape for n, a in inputs.items()}, {})

    def made(options: tc.Options) -> Any:
        how = {"initial": frozenset[str](), "check": False, "options": options}
        if on_gpu:
            return trace_lowering(shaped, {}, gpu_target(Gpu()), **how)
        return lowered(shaped, {}, **how)

    options = options_of(name, form)
    first = made(options)
    again = made(tc.Options(plan=first.mapped.plan))
    assert again.mapped.plan == first.mapped.plan
    assert to_text(again.kernel) == to_text(first.kernel)
    names = [s.name for s in first.shaped.program.statements]
    statement = "S1" if name == "going on" else "S0"
    assert (f"{statement}.key" in names) == (form == "sorted")
    assert (f"{statement}.part" in names) == (form == "parts")
    assert (f"{statement}.term" in names) == (form == "atomic")


REFUSED = {
    "no scatter": (
        "def f(float(N) x) -> (o) { o +=! x(i) }", {"x": (9,)}, "sorted", None,
        "the plan asks for 'sorted' as the form of the scatter S0: there is no scatter S0; there "
        "are none",
    ),
    "few terms": (
        PROGRAMS["scalars"][0], {"I": (1,), "x": (1,)}, "parts", None,
        "the plan asks for 'parts' as the form of the scatter S0: the terms of S0 are too few for "
        "it, or stay as they are written",
    ),
    "floats": (
        PROGRAMS["scalars"][0], {"I": (9,), "x": (9,)}, "atomic", Gpu(),
        "the plan asks for 'atomic' as the form of the scatter S0: threads of GPUs add integers of "
        "32 bits so, or of 64, and nothing else",
    ),
    "a processor": (
        PROGRAMS["a batch"][0], {"I": (3, 200)}, "atomic", None,
        "the plan asks for 'atomic' as the form of the scatter S0: threads of GPUs add integers of "
        "32 bits so, or of 64, and nothing else",
    ),
    "a GPU": (
        PROGRAMS["scalars"][0], {"I": (9,), "x": (9,)}, "serial", Gpu(),
        "the plan asks for 'serial' as the form of the scatter S0: a GPU has threads for all "
        "places; one thread alone adds terms on processors",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_forms_that_cannot_be(name: str) -> None:
    text, shapes, form, device, cause = REFUSED[name]
    shaped = infer_ranges(checked(text), shapes, {})
    options = options_of(name, form)
    with pytest.raises(tc.BackendError) as raised:
        lowered(shaped, {}, device=device, initial=frozenset(), check=False, options=options)
    assert raised.value.cause == cause
    repaired = tc.Options(plan=tc.Plan.from_json(raised.value.repair))
    lowered(shaped, {}, device=device, initial=frozenset(), check=False, options=repaired)


def test_no_such_form() -> None:
    with pytest.raises(tc.BackendError) as raised:
        Scatter("S0", "sort")
    assert raised.value.cause == (
        "no form 'sort' of a scatter; there are serial, owners, parts, sorted, atomic"
    )
    assert raised.value.repair == 'form="sorted"'
