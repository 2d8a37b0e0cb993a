"""Reductions that read their own target: what is copied, what is not, and the results (P1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tc.dtypes import FLOAT16, FLOAT32
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import Failure
from tc.polyhedral.copying import copy_own_reads
from tc.polyhedral.lowering import lower
from tc.semantics.interpreter import interpret
from tc.semantics.program import Convert, Index, Read, ShapedProgram, walk
from tests.polyhedral import builders
from tests.support.interpreting import shaped_with
from tests.support.pipeline import checked, shaped
from tests.support.rewrites import assert_same_results, run_kernel
from tests.support.sizes_of_call import shape

HEAD = "def f(float(R) a, float b) -> (s)"


def inputs(terms: int = 5) -> dict[str, Any]:
    rng = np.random.default_rng(terms)
    return {"a": rng.normal(size=terms).astype(np.float32), "b": np.float32(1.5)}


def copies(program: ShapedProgram) -> list[str]:
    """The statements that are new, as they are shown."""
    return [f"{s.name}: {s.text}" for s in program.program.statements if s.name.endswith(".old")]


def reads(program: ShapedProgram, statement: int) -> list[str]:
    rhs = program.program.statements[statement].rhs
    return [node.tensor for node in walk(rhs) if isinstance(node, Read)]


COPIED = {
    "maximum": ("s = b  s max= a(r) + s", "t = b  s = b  s max= a(r) + t"),
    "sum": ("s = b  s += a(r) * s", "t = b  s = b  s += a(r) * t"),
    "product": ("s = b  s *= a(r) - s", "t = b  s = b  s *= a(r) - t"),
    "read twice": ("s = b  s += s * a(r) + s", "t = b  s = b  s += t * a(r) + t"),
    "under a condition on the index": (
        "s = b  s min= r == 2 ? s : a(r)",
        "t = b  s = b  s min= r == 2 ? t : a(r)",
    ),
    "under a condition on values": (
        "s = b  s min= a(r) > s ? s * 2 : a(r)",
        "t = b  s = b  s min= a(r) > t ? t * 2 : a(r)",
    ),
    "two reductions in turn": (
        "s = b  s += a(r) * s  s max= a(r) - s",
        "t = b  s = b  s += a(r) * t  u = s  s max= a(r) - u",
    ),
    "several variables": ("s = b  s += a(r) * a(q) * s", "t = b  s = b  s += a(r) * a(q) * t"),
    "a variable of one value beside another": (
        "s = b  s += a(r) * s where q in 0:1",
        "t = b  s = b  s += a(r) * t where q in 0:1",
    ),
}
"""Bodies, and what they mean."""


@pytest.mark.parametrize("name", COPIED)
def test_rule_P1_copied(name: str) -> None:
    body, meant = COPIED[name]
    program, arrays = shaped_with(f"{HEAD} {{ {body} }}", inputs())
    found = copy_own_reads(program)
    reductions = program.program.statements[1:]
    assert copies(found) == [f"{s.name}.old: s.old{n} = s" for n, s in enumerate(reductions)]
    for position, old in enumerate(found.program.temporaries):
        assert "s" not in reads(found, 2 * position + 2)
        assert old in reads(found, 2 * position + 2)
    assert interpret(found, arrays, {})["s"] == interpret(program, arrays, {})["s"]
    assert_same_results(program, found, arrays)
    explicit, _ = shaped_with(f"{HEAD} {{ {meant} }}", inputs())
    assert copy_own_reads(explicit) is explicit
    assert_same_results(explicit, program, arrays)


NOT_COPIED = {
    "another target": "t = b  s = b  s += a(r) * t",
    "no reduction": "s = b  s = s + b",
    "one element at a time": "s = b  s += s * b",
}


@pytest.mark.parametrize("name", NOT_COPIED)
def test_not_copied(name: str) -> None:
    program = shape(f"{HEAD} {{ {NOT_COPIED[name]} }}", R=5)
    assert copy_own_reads(program) is program


@pytest.mark.parametrize("terms", [0, 1])
def test_so_few_terms_that_no_other_is_seen(terms: int) -> None:
    program, arrays = shaped_with(f"{HEAD} {{ s = b  s += a(r) * s }}", inputs(terms))
    assert copy_own_reads(program) is program
    assert run_kernel(program, arrays, {})["s"] == interpret(program, arrays, {})["s"]


def test_two_terms_are_enough() -> None:
    program, arrays = shaped_with(f"{HEAD} {{ s = b  s += a(r) * s }}", inputs(2))
    assert copies(copy_own_reads(program)) == ["S1.old: s.old0 = s"]
    assert_same_results(program, copy_own_reads(program), arrays)


def test_other_elements_of_the_target_are_no_copies() -> None:
    text = (
        "def f(float(R) a, float(N) b) -> (s) { s(i) = b(i)  s(i) += a(r) * s(i+2) where i in 0:2 }"
    )
    program = shape(text, R=5, N=4)
    assert copy_own_reads(program) is program


def test_elements_of_more_dimensions() -> None:
    """Checked programs have no such statement, as P1 forbids it; made by hand it is copied."""
    term = builders.binary("*", builders.read("a", "r"), builders.read("s", "i"))
    update = builders.statement("s", "i", term, op="+", continues="caller")
    tensors = {"a": ("input", FLOAT32, (3,)), "s": ("output", FLOAT32, (4,))}
    found = copy_own_reads(builders.shaped(tensors, (update, {"i": (1, 3), "r": (0, 3)})))
    copy, changed = found.program.statements
    assert copy.text == "s.old0(i) = s(i)"
    assert found.shapes["s.old0"] == (3,)
    assert found.statements[0].ranges["i"].begin == 1
    assert reads(found, 1) == ["a", "s.old0"]
    assert changed.rhs.right.subscripts == (Index("i", span=builders.SPAN),)  # type: ignore[union-attr]


def test_given_outputs_are_read_as_they_were() -> None:
    text = "def f(float(R) a) -> (s) { s += a(r) * s }"
    a = np.arange(4, dtype=np.float32)
    program, arrays = shaped_with(text, {"a": a})
    found = copy_own_reads(program)
    assert copies(found) == ["S0.old: s.old0 = s"]
    initial = {"s": np.array(2, np.float32)}
    assert_same_results(program, found, arrays, initial)
    assert run_kernel(program, arrays, {"s": initial["s"].copy()})["s"] == 2 + 2 * (0 + 1 + 2 + 3)


def test_half_keeps_its_type() -> None:
    """The old value has been rounded to half already (Y8)."""
    text = "def f(half(R) a, half b) -> (half s) { s = b * b  s += a(r) * s }"
    program, arrays = shaped_with(
        text, {"a": np.array([1, 2, 3], np.float16), "b": np.array(1.2345, np.float16)}
    )
    found = copy_own_reads(program)
    assert found.program.tensors["s.old0"].dtype == FLOAT16
    copy, changed = found.program.statements[1:]
    assert isinstance(copy.rhs, Convert)
    assert copy.rhs.dtype == FLOAT32
    assert "s.old0" in [n.tensor for n in walk(changed.rhs) if isinstance(n, Read)]
    assert_same_results(program, found, arrays)


@pytest.mark.parametrize("op", ["+", "*", "min", "max"])
@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8])
def test_integers(op: str, dtype: type[Any]) -> None:
    """The same bits, though they wrap around."""
    name = np.dtype(dtype).name
    text = f"def f({name}(R) a, {name} b) -> (s) {{ s = b  s {op}= a(r) * s }}"
    a = np.random.default_rng(3).integers(1, 127, 9, dtype)
    program, arrays = shaped_with(text, {"a": a, "b": np.array(77, dtype)})
    found = copy_own_reads(program)
    assert found is not program
    expected = interpret(program, arrays, {})["s"]
    assert interpret(found, arrays, {})["s"] == expected
    assert run_kernel(program, arrays, {})["s"] == expected


def test_checks_stay() -> None:
    """A statement with checks keeps its name, ranges and checks, and fails as it would."""
    text = "def f(int(R) g, float(N) a, float b) -> (s) { s = b  s += a(g(r)) * s }"
    program, arrays = shaped_with(
        text, {"g": np.array([0, 2, 1], np.int32), "a": np.arange(3.0, dtype=np.float32), "b": 2.0}
    )
    found = copy_own_reads(program)
    old, new = program.statements[1], found.statements[2]
    assert old.checked
    assert (new.checked, new.ranges, new.statement.name) == (old.checked, old.ranges, "S1")
    assert_same_results(program, found, arrays)
    kernel = lower(program, {}, initial=frozenset(), check=True)
    arrays["g"] = np.array([0, 3, 1], np.int32)
    buffers = {b.name: np.zeros(b.shape, b.dtype.numpy) for b in kernel.buffers} | arrays
    assert evaluate(kernel, buffers) == Failure(0, (1, 3))
    assert [(site.kind, site.statement) for site in kernel.sites] == [("read", 1)]


def test_names_that_are_taken() -> None:
    text = """
      def s(float(R) a) -> (q) { old0(r) = a(r)  q(r) = old0(r) }
      def g(float(R) a) -> (q) { q = s(a) }
      def f(float(R) a) -> (q, s) { q = g(a)  s = a(0)  s += a(r) * s }
    """
    program = shaped(checked(text, "f"), {"a": np.zeros(4, np.float32)})
    assert "s.old0" in program.program.tensors
    assert copies(copy_own_reads(program)) == ["S3.old: s.old1 = s"]
