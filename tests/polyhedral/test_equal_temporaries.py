"""Temporaries that equal another tensor: which go, which stay, and that results are the same
bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tc
from tc.polyhedral.rewrite.equal_temporaries import without_equal_temporaries
from tc.semantics.reference.interpreter import interpret
from tests.support.interpreting import shaped_with
from tests.support.rewrites import assert_consistent, assert_same_results, changed_of_table, texts
from tests.support.sizes_of_call import shape

HEAD = "def f(float(N,D) x, float(N) y) -> (o)"


def inputs(rows: int = 5, columns: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(rows + columns)
    return {
        "x": rng.normal(size=(rows, columns)).astype(np.float32),
        "y": rng.uniform(0.5, 2, rows).astype(np.float32),
    }


GONE = {
    "a copy": (
        HEAD + " { t(n,d) = x(n,d)  o(n) +=! t(n,d) * y(n) }",
        ["S1: o(n) +=! x(n, d) * y(n)"],
    ),
    "a copy of a copy": (
        HEAD + " { t(i,j) = x(i,j)  u(n,d) = t(n,d)  o(n) max=! u(n,d) - t(n,0) }",
        ["S2: o(n) max=! x(n, d) - x(n, 0)"],
    ),
    "a part": (
        HEAD + " { t(n,d) = x(n,d) where n in 0:2, d in 0:D  o(d) +=! t(n,d) }",
        ["S1: o(d) +=! x(n, d)"],
    ),
    "a part whose size counts": (
        HEAD + " { t(n) = y(n) where n in 0:2  o(n) = pad(t(n-1), 7) where n in 0:N }",
        ["S1: o(n) = 0 <= n - 1 && n - 1 < 2 ? y(n - 1) : 7.0"],
    ),
    "the copy of another temporary": (
        HEAD + " { s(n) +=! x(n,d)  t(n) = s(n)  o(n) = t(N-1-n) + s(n) }",
        ["S0: s(n) +=! x(n,d)", "S2: o(n) = s(4 - n) + s(n)"],
    ),
    "a sum with other names": (
        HEAD + " { s(n) +=! x(n,d)  t(k) +=! x(k,e)  o(n) = s(n) * t(n) }",
        ["S0: s(n) +=! x(n,d)", "S2: o(n) = s(n) * s(n)"],
    ),
    "several statements, and what is made of them": (
        HEAD + " { s(n) = y(n)  s(n) += x(n,d)  t(n) = y(n)  t(n) += x(n,d)  a(n) = exp(s(n))"
        "  b(n) = exp(t(n))  o(n) = a(n) / b(n) }",
        [
            "S0: s(n) = y(n)",
            "S1: s(n) += x(n,d)",
            "S4: a(n) = exp(s(n))",
            "S6: o(n) = a(n) / a(n)",
        ],
    ),
    "what an output is already": (
        HEAD + " -> (o, s) { s(n) +=! x(n,d)  t(n) +=! x(n,d)  o(n) = t(n) + 1 }",
        ["S0: s(n) +=! x(n,d)", "S2: o(n) = s(n) + 1.0"],
    ),
}  # fmt: skip


def as_text(text: str) -> str:
    return text.replace("-> (o) ->", "->")


@pytest.mark.parametrize("name", GONE)
def test_gone(name: str) -> None:
    text, expected = GONE[name]
    program, arrays = shaped_with(as_text(text), inputs())
    found = without_equal_temporaries(program)
    assert [line.replace("N - 1", "4") for line in texts(found)] == expected
    assert_same_results(program, found, arrays)
    wanted, results = (interpret(each, arrays, {}) for each in (program, found))
    for output in wanted:
        np.testing.assert_array_equal(results[output], wanted[output])


STAYING = {
    "a transpose": HEAD + " { t(d,n) = x(n,d)  o(n) +=! t(d,n) }",
    "other elements": HEAD + " { t(n) = y(N-1-n)  o(n) = t(n) + y(n) }",
    "of another type": HEAD + " { t(n) = double(y(n))  o(n) = float(t(n)) }",
    "a sum of others": HEAD + " { s(n) +=! x(n,d)  t(n) +=! x(N-1-n,d)  o(n) = s(n) * t(n) }",
    "another sum": HEAD + " { s(n) max=! x(n,d)  t(n) min=! x(n,d)  o(n) = s(n) * t(n) }",
    "a longer sum": (
        HEAD + " { s(n) +=! x(n,d)  t(n) +=! x(n,d) where d in 0:2  o(n) = s(n) * t(n) }"
    ),
    "one has another statement": (
        HEAD + " { s(n) +=! x(n,d)  t(n) +=! x(n,d)  t(n) *= y(n)  o(n) = s(n) * t(n) }"
    ),
    "the copied one changes": HEAD + " { s(n) = y(n)  t(n) = s(n)  s(n) += 1  o(n) = t(n) + s(n) }",
    "what both read changes": (
        HEAD + " { a(n) = y(n)  s(n) = exp(a(n))  a(n) += 1  t(n) = exp(a(n))  o(n) = s(n) + t(n) }"
    ),
    "the first one changes": (
        HEAD + " -> (o, s) { s(n) +=! x(n,d)  t(n) +=! x(n,d)  o(n) = t(n)  s(n) = 2 * s(n) }"
    ),
    "the first one changes in between": (
        HEAD + " { s(n) +=! x(n,d)  t(n) +=! x(n,d)  s(n) = 2 * s(n)  o(n) = t(n) + s(n) }"
    ),
    "read before it is whole": (
        HEAD + " -> (o, z) { s(n) = y(n)  s(n) += x(n,d)  t(n) = y(n)  z(n) = t(n)  t(n) += x(n,d)"
        "  o(n) = s(n) - t(n) }"
    ),
    "another zero": HEAD + " { s(n) = y(n) * 0.0  t(n) = y(n) * -0.0  o(n) = s(n) + t(n) }",
    "its name is a size of the other": (
        "def f(float(N) y, float(i0) z) -> (o) { s(n) = y(n) * n  t(m) = y(m) * i0"
        "  o(n) = s(n) + t(n) + z(0) }"
    ),
    "outputs": HEAD + " -> (o, s) { s(n) = y(n)  o(n) = y(n) }",
    "read with checks": (
        "def f(int(N) p, float(N) y) -> (o) { t(n) = y(n)  o(n) = t(p(n)) }"
    ),
    "with checks": (
        "def f(int(N) p, float(N) y) -> (o) { s(n) = y(p(n))  t(n) = y(p(n))  o(n) = s(n) + t(n) }"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STAYING)
def test_staying(name: str) -> None:
    program = shape(as_text(STAYING[name]), N=4, D=4, i0=3)
    assert without_equal_temporaries(program) is program


def test_a_kernel_of_copies_is_that_without() -> None:
    """In the whole pipeline: the texts in C differ in nothing but spaces of a comment."""
    plain = HEAD + " { s +=! y(n)  o(n) +=! s * x(n,d) * x(n,d) }"
    copied = (
        HEAD + " { t(n,d) = x(n,d)  s +=! y(n)  u(n,d) = x(n,d)  o(n) +=! s * t(n,d) * u(n,d) }"
    )
    codes = [tc.compile(text, backend="c").source(N=64, D=32) for text in (plain, copied)]
    assert codes[1].replace("x(n, d)", "x(n,d)") == codes[0]


def test_table_of_programs() -> None:
    assert "repeated_sums" in changed_of_table(without_equal_temporaries)


@given(st.data())
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_same_results(data: st.DataObject) -> None:
    """Programs whose statements are drawn from few, so that many are equal, in any order."""
    names, written, lines = ["a", "b", "c", "s"], ["y"], []
    for number in range(data.draw(st.integers(2, 9))):
        is_result = data.draw(st.integers(0, 3)) == 0
        target = f"z{number}" if is_result else data.draw(st.sampled_from(names))
        source = data.draw(st.sampled_from([name for name in written if name != target]))
        ops = ["= {}(n)", "= {}(n) * 2", "+=! x(n,d)"]
        ops += ["+= x(n,d)", "*= {}(n)"] if target in written else []
        lines.append(f"{target}(n) {data.draw(st.sampled_from(ops)).format(source)}")
        written += [target] if target not in written else []
    results = [name for name in written if name.startswith("z")]
    lines.append("o(n) = " + " + ".join(f"{name}(n)" for name in written))
    head = HEAD.replace("(o)", f"({', '.join(['o', *results])})")
    program, arrays = shaped_with(head + " { " + "  ".join(lines) + " }", inputs())
    found = without_equal_temporaries(program)
    assert_consistent(found)
    wanted, given_back = (interpret(each, arrays, {}) for each in (program, found))
    for name in wanted:
        np.testing.assert_array_equal(given_back[name], wanted[name])
