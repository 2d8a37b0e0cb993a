"""Names, left sides, reductions, where clauses and entries (N1, N2, N3, R1 to R4, G8, T5, P1)."""

from __future__ import annotations

import pytest

from tc.errors import CheckError, InputError
from tests.semantics.check_support import show_program
from tests.support.pipeline import checked

PARAMS = "float(N) x, float(N, M) A, int(N) I, int n, float a, byte m"


def statements(body: str, returns: str = "o") -> list[str]:
    return show_program(checked(f"def f({PARAMS}) -> ({returns}) {{ {body} }}"))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("o +=! 1 where k in 0:3", "o() +! 1:i32 where k in 0:i64:3:i64 over k"),
        ("o() = a", "o() = a()"),
        ("o = a()", "o() = a()"),
        ("o(i) +=! x(i)", "o(i) = x(i)"),
        ("o(i) max=! x(i)", "o(i) = x(i)"),
        ("o(i) += x(i)", "o(i) + x(i) [caller]"),
        ("o(i) min= A(i, j)", "o(i) min A(i, j) over j [caller]"),
        ("o(i) *=! A(i, j)", "o(i) *! A(i, j) over j"),
        ("o(i) max=! x(i) where k in 0:N", "o(i) max! x(i) where k in 0:i64:N over k"),
        ("o(i) = 0 where i in 2:n - 1", "o(i) = 0:i32 where i in 2:i64:(i64(n()) - 1:i64)"),
        # the order of variables: left side, right side, where clause
        ("o(j, i) +=! A(i, k) * A(l, j) where q in 0:2, l in 0:N",
         "o(j, i) +! (A(i, k) * A(l, j)) where q in 0:i64:2:i64, l in 0:i64:N over k, l, q"),
        ("o +=! x(i) where i in min(n, 2):max(N / 2, A.1 % 3) - x.0",
         "o() +! x(i) where i in (i64(n()) min 2:i64):(((N / 2:i64) max (A.1 % 3:i64)) - x.0) "
         "over i"),
        ("o +=! x(i) where i in (N > 2 ? 1 : 0):int32(m)",
         "o() +! x(i) where i in ((N > 2:i64) ? 1:i64 : 0:i64):i64(i32!(i64(m()))) over i"),
        ("o(i) +=! x(i + k) where k in -1:2", "o(i) +! x((i + k)) where k in -1:i64:2:i64 over k"),
        # bindings are substituted (T5)
        ("o(i) = y * y where y = x(i) + 1", "o(i) = ((x(i) + 1.0:f32) * (x(i) + 1.0:f32))"),
        ("o(i) = x(k) where j = i + 1, k = j * 2", "o(i) = x(((i + 1:i64) * 2:i64))"),
        ("o(i) = x(i) where unused = 3", "o(i) = x(i)"),
        ("o(i) = x(i) * y where y = 2", "o(i) = (x(i) * 2.0:f32)"),
        ("o(i) +=! z where z = A(i, j)", "o(i) +! A(i, j) over j"),
        ("o(i) = x(i) * exp(exp) where exp = 2", "o(i) = (x(i) * f32(exp(2.0:f64)))"),
        ("o(i) = 1 where exists x(i)", "o(i) = 1:i32"),
    ],
)  # fmt: skip
def test_statements(body: str, expected: str) -> None:  # R1 R2 R3 G8 T5
    assert statements(body) == [expected]


def test_exists_keeps_its_read() -> None:  # T5
    program = checked(f"def f({PARAMS}) -> (o) {{ o(i) +=! 1 where exists A(I(i) + 300, k) }}")
    (statement,) = program.statements
    (read,) = statement.exists
    assert (read.tensor, statement.reduction) == ("A", ("k",))
    assert statement.variable_spans["k"].text == "k"


def test_continues() -> None:  # R3
    body = """
      o(i) += x(i)
      o(i) += x(i)
      t(i) += x(i)
      t(i) max= x(i)
      o(i) = t(i)
      p(i) +=! x(i)
      p(i) min= x(i)"""
    program = checked(f"def f({PARAMS}) -> (o, p) {{ {body} }}")
    assert [s.continues for s in program.statements] == [
        "caller", "written", "nothing", "written", "", "", "written",
    ]  # fmt: skip
    assert not program.needs_initial


@pytest.mark.parametrize(
    ("body", "initial"),
    [
        ("o(i) = o(i) * 2 + x(i)", {"o": "o(i)"}),
        ("o(i) += o(i) * x(i)", {"o": "o(i)"}),
        ("t(i) = o(i)  o(i) = x(i) + t(i)", {"o": "o(i)"}),
        ("o(i) = x(i)  o(i) = o(i) * 2", {}),
        ("o(i) += x(i)  t(i) = o(i)", {}),
        ("o(i) = y where y = o(i) + x(i)", {"o": "o(i)"}),
        ("o(i) = pad(x(i), o(i))", {"o": "o(i)"}),
        ("o(i) += x(i) where exists x(i)", {}),
    ],
)
def test_reads_of_the_callers_tensor(body: str, initial: dict[str, str]) -> None:  # R4
    program = checked(f"def f({PARAMS}) -> (o) {{ {body} }}")
    assert {name: span.text for name, span in program.needs_initial.items()} == initial


def test_declared_shapes_are_known_from_the_start() -> None:  # T2
    text = "def f(float(N) x) -> (float(N) o) { o(i) = x(i) / o.0 where i in 0:o.0 }"
    assert show_program(checked(text)) == ["o(i) = (x(i) / f32(o.0)) where i in 0:i64:o.0"]
    with pytest.raises(CheckError, match=r"'o\.0' is not known here"):
        checked("def f(float(N) x) -> (o) { o(i) = x(i) / o.0 }")
    later = "def f(float(N) x) -> (o) { o(i) = x(i)  o(i) = o(i) / o.0 }"
    assert show_program(checked(later))[1] == "o(i) = (o(i) / f32(o.0))"


def test_index_variables_belong_to_one_statement() -> None:  # language-S2
    body = "o(i) +=! A(i, k)  p(k) +=! A(i, k)"
    program = checked(f"def f({PARAMS}) -> (o, p) {{ {body} }}")
    assert [s.reduction for s in program.statements] == [("k",), ("i",)]


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("o(i) = A(i, j)", "R1"),
        ("o = x(i)", "R1"),
        ("o(i) = x(i) where j in 0:3", "R1"),
        ("o(i) = x(i) where exists A(i, j)", "R1"),
        ("o(i) = y where y = A(i, j)", "R1"),
        ("o(i) = x(i) where y = j", "R1"),
        ("o(i) += x(i + o(i))", "P1"),
        ("o(i) = x(I(o(i)))", "P1"),
        ("o(i) = x(y) where y = o(i)", "P1"),
        ("o +=! x(i) * o", "P1"),
        ("o(i) max=! A(i, j) * o(i)", "P1"),
        ("o(i) = t(i)  t(i) = x(i)", "R4"),
        ("t += t + x(i)  o = t", "R4"),
        ("o(i) = x(i) where y = y", "T5"),
        ("o(i) = x(i) where y = z, z = 1", "T5"),
        ("o(i) = x(i) where y = 1, y = 2", "T5"),
        ("o(i) = x(i) where a = 1", "T5"),
        ("o(i) = x(j) where j in 0:2, j = 1", "T5"),
        ("o +=! x(i) where i in 0:k", "G8"),
        ("o +=! x(i) where i in 0:i", "W2"),
        ("o +=! A(i, j) where i in 0:j, j in 0:i + 1", "W2"),
        ("o +=! x(i) where i in 0:x(0)", "G8"),
        ("o +=! x(i) where i in 0:a", "G8"),
        ("o +=! x(i) where i in 0:abs(n)", "G8"),
        ("o +=! x(i) where i in 0:pad(n, 0)", "G8"),
        ("o +=! x(i) where i in 0:1.5", "G8"),
        ("o +=! x(i) where i in 0:float(n)", "G8"),
        ("o +=! x(i) where i in 0:(N < 2)", "Y2"),
        ("o +=! x(i) where i in 0:o.0", "T2"),
        ("o(i) = x(i) where o(i) > 0", "W5"),
        ("t = n  t += x(i) where i in 0:t", "W5"),
        ("o(i) = x(i) where x.0 = 3", "S4"),
        ("o(i) = x(i) where o.0 = i", "S4"),
        ("o(i) = x(i) where o.0 = I(0)", "S4"),
        ("o(i) = x(i) where o.1 = 3", "T2"),
        ("o(i), o(i) = x(i), x(i)", "V1"),
        ("o(i), p(j) = x(i), x(i)", "V1"),
        ("o(i) = x(i) where k = x(i), o.0 = k", "S4"),
        ("o(i, i) = A(i, i)", "N2"),
        ("x(i) = 0  o(i) = 1 where i in 0:N", "N2"),
        ("o(n) = x(n)", "N1"),
        ("o(N) = x(N)", "N1"),
        ("o(o) = x(o)", "N1"),
        ("o(i) = x(i, i)", "N1"),
        ("o(i) = x()", "N1"),
        ("o(i) = A(i)", "N1"),
        ("o(i) = x", "N1"),
        ("o(i) = x(i)  o = a", "N1"),
        ("o(i) = x(i)  o(i) += A(i, k) * o", "N1"),
        ("o(i) = exp(x(i), 2)", "Y7"),
        ("o(i) = max(x(i))", "Y7"),
        ("o(i) = pad(x(i), 0, 0)", "G9"),
        ("o(i) = k(i)", "N1"),
        ("t(i) = x(i)", "N2"),
        ("o(i) = A.2 + i", "T2"),
        ("o(i) = a.0 + i", "T2"),
        ("o(i) = B.0 + i", "N1"),
    ],
)  # fmt: skip
def test_errors(body: str, rule: str) -> None:  # N1 N2 R1 R4 G8 T5 P1
    with pytest.raises(CheckError) as caught:
        statements(body)
    assert caught.value.rule == rule
    assert caught.value.repair or caught.value.idiom
    assert caught.value.span is not None


@pytest.mark.parametrize(
    "body",
    [
        "o(i) = A(i, j) * x(j)",
        "o(i) = x(j)",
        "o = x(i) * A(i, j)",
        "o(i) = A(i, j)\n   where j in 0:3",
    ],
)
def test_the_repair_of_r1_is_a_program(body: str) -> None:  # R1
    with pytest.raises(CheckError) as caught:
        statements(body)
    repaired = caught.value.repaired() or caught.value.exemplified()
    assert repaired is not None
    (fixed,) = statements(repaired[repaired.index("{") + 1 : repaired.rindex("}")])
    assert " +! " in fixed


def test_self_reads_that_range_inference_decides() -> None:  # P1
    for body in ("o(i) = o(i + 1)", "o(i) += o(i)", "o(i) +=! o(i)", "o += A(i, j) * o"):
        assert statements(f"o{'(i)' if '(i)' in body else ''} = 1 {body}")


def test_entry() -> None:  # N4
    text = "def f(float(N) x) -> (o) { o(i) = x(i) } def g(float(N) x) -> (o) { o(i) = 2 * x(i) }"
    assert checked(text, "g").name == "g"
    with pytest.raises(InputError) as caught:
        checked(text)
    assert str(caught.value) == (
        "InputError [N4]: the text has 2 defs, 'f' and 'g', and no entry is given\n"
        "repair: entry='g'"
    )
    with pytest.raises(InputError) as caught:
        checked(text.replace("def g", "def conv2d"), "conv_2d")
    assert str(caught.value) == (
        "InputError [N4]: the text has no def 'conv_2d'; it has 'f' and 'conv2d'\n"
        "repair: entry='conv2d'"
    )


def test_an_error_in_another_def_is_an_error() -> None:  # N2
    text = "def f(float(N) x) -> (o) { o(i) = x(i) } def g(float(N) x) -> (o) { o(i) = y(i) }"
    with pytest.raises(CheckError, match="'y' is neither a tensor"):
        checked(text, "f")


@pytest.mark.parametrize(
    ("rhs", "repair"),
    [
        ("tahn(x(i))", "tanh"),
        ("Exp(x(i))", "exp"),
        ("relu(x(i))", "max(x(i), 0)"),
        ("sigmoid(x(i))", "(1 / (1 + exp(-x(i))))"),
        ("fmaxf(x(i))", "give it 2 arguments"),
        ("X(i)", "x"),
    ],
)
def test_nearest_names(rhs: str, repair: str) -> None:  # Y7 N1
    with pytest.raises(CheckError) as caught:
        statements(f"o(i) = {rhs}")
    assert caught.value.repair == repair
