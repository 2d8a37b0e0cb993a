"""Where values are converted, and in which type they are computed (Y1, Y2, Y4, Y8, Y9, G9)."""

from __future__ import annotations

import pytest

from tc.errors import CheckError
from tests.semantics.check_support import show
from tests.support.pipeline import checked

PARAMS = (
    "float(N) x, double(N) d, half(N) h, byte(N) b, int8(N) s, int(N) I, bool(N) c, "
    "float(N, M) A, uint32(N) u, int64(N) l, uint64(N) q, int8 n8, int n, float a, bool flag"
)


def rhs(text: str, op: str = "=", returns: str = "o") -> str:
    program = checked(f"def f({PARAMS}) -> ({returns}) {{ o(i) {op} {text} where i in 0:N }}")
    return show(program.statements[-1].rhs)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # concrete types meet
        ("x(i) + I(i)", "(x(i) + f32(I(i)))"),
        ("x(i) * d(i)", "(f64(x(i)) * d(i))"),
        ("b(i) + s(i)", "(i16(b(i)) + i16(s(i)))"),
        ("c(i) + c(i)", "(i32(c(i)) + i32(c(i)))"),
        ("c(i) == c(i)", "(c(i) == c(i))"),
        ("c(i) < c(i)", "(i32(c(i)) < i32(c(i)))"),
        ("c(i) == 2", "(i32(c(i)) == 2:i32)"),
        ("c(i) == bool(2)", "(c(i) == bool!(2:i64))"),
        ("max(c(i), c(i))", "(c(i) max c(i))"),
        ("max(c(i), 0)", "(i32(c(i)) max 0:i32)"),
        ("-c(i)", "-i32(c(i))"),
        ("+c(i)", "i32(c(i))"),
        ("+x(i)", "x(i)"),
        # literals take the type that they meet, folded
        ("x(i) * 2", "(x(i) * 2.0:f32)"),
        ("b(i) * 2", "(b(i) * 2:u8)"),
        ("x(i) * -2", "(x(i) * -2.0:f32)"),
        ("d(i) * (1 + 2) * 3", "((d(i) * 3.0:f64) * 3.0:f64)"),
        ("x(i) * (1.0 / 4)", "(x(i) * 0.25:f32)"),
        ("s(i) + (300 - 200)", "(s(i) + 100:i8)"),
        ("s(i) - 128 + 128.0", None),  # 128 does not fit int8
        ("s(i) + -128", "(s(i) + -128:i8)"),
        ("x(i) * min(3, 4)", "(x(i) * 3.0:f32)"),
        ("x(i) * max(3, 4.5)", "(x(i) * 4.5:f32)"),
        ("I(i) * (7 / -2)", "(I(i) * -4:i32)"),  # Y4: toward minus infinity
        ("I(i) * (-7 % 3)", "(I(i) * 2:i32)"),
        ("x(i) * (-7.5 % 2.0)", "(x(i) * 0.5:f32)"),
        ("I(i) * (1 / 0)", "(I(i) * i32((1:i64 / 0:i64)))"),  # left to the program
        ("x(i) * (1.0 / 0.0)", "(x(i) * f32((1.0:f64 / 0.0:f64)))"),
        ("I(i) + 2.5", "(f32(I(i)) + 2.5:f32)"),
        ("l(i) + 2.5", "(f32(l(i)) + 2.5:f32)"),
        ("d(i) + 2.5", "(d(i) + 2.5:f64)"),
        # weak values among themselves are computed in int64 and float64
        ("I(i) * i", "(I(i) * i32(i))"),
        ("b(i) + i", "(i32(b(i)) + i32(i))"),
        ("u(i) + i", "(i64(u(i)) + i)"),
        ("q(i) + i", "(q(i) + u64(i))"),
        ("x(i) * N", "(x(i) * f32(N))"),
        ("x(i) * (N * N)", "(x(i) * f32((N * N)))"),
        ("x(i) * (N / 2)", "(x(i) * f32((N / 2:i64)))"),
        ("x(i) / A.1", "(x(i) / f32(A.1))"),
        ("x(i) * sqrt(N)", "(x(i) * f32(sqrt(f64(N))))"),
        ("x(i) * (1.0 / N)", "(x(i) * f32((1.0:f64 / f64(N))))"),
        ("x(i) * (1.0 / (N + 1))", "(x(i) * f32((1.0:f64 / f64((N + 1:i64)))))"),
        ("x(i) * abs(i - 3)", "(x(i) * f32(abs((i - 3:i64))))"),
        ("i", "i32(i)"),
        ("i * 0.5", "f32((f64(i) * 0.5:f64))"),
        ("sqrt(2)", "f32(sqrt(2.0:f64))"),
        ("(1.0 / N) < (2.0 / M) ? x(i) : 0", "(((1.0:f64 / f64(N)) < (2.0:f64 / f64(M))) ? "
         "x(i) : 0.0:f32)"),
        # half: float32 throughout, rounded by the store or a cast
        ("h(i) * 2.5", "(f32(h(i)) * 2.5:f32)"),
        ("h(i) * h(i)", "(f32(h(i)) * f32(h(i)))"),
        ("h(i) * sqrt(N)", "(f32(h(i)) * sqrt(f32(N)))"),
        ("h(i) * (1.0 / N)", "(f32(h(i)) * (1.0:f32 / f32(N)))"),
        ("h(i) * (N / 2)", "(f32(h(i)) * f32((N / 2:i64)))"),
        ("h(i) + x(i)", "(f32(h(i)) + x(i))"),
        ("h(i) + d(i)", "(f64(f32(h(i))) + d(i))"),
        ("h(i) * h(i) + x(i)", "((f32(h(i)) * f32(h(i))) + x(i))"),
        ("half(x(i)) + x(i)", "(f32(f16!(x(i))) + x(i))"),
        ("half(1.0 / N) + x(i)", "(f32(f16!((1.0:f64 / f64(N)))) + x(i))"),
        ("exp(h(i))", "exp(f32(h(i)))"),
        ("h(i) > 0", "(f32(h(i)) > 0.0:f32)"),
        ("h(i) * ((1.0 / N) < 0.5 ? 1 : N)", "(f32(h(i)) * (((1.0:f64 / f64(N)) < 0.5:f64) ? "
         "1.0:f32 : f32(N)))"),
        # functions
        ("exp(x(i))", "exp(x(i))"),
        ("expf(I(i))", "exp(f32(I(i)))"),
        ("exp(c(i))", "exp(f32(c(i)))"),
        ("fmaxf(x(i), 0)", "fmax(x(i), 0.0:f32)"),
        ("pow(d(i), x(i))", "pow(d(i), f64(x(i)))"),
        ("pow(b(i), 300)", "pow(f32(b(i)), 300.0:f32)"),
        ("abs(s(i))", "abs(s(i))"),
        ("abs(c(i))", "abs(i32(c(i)))"),
        ("fma(b(i), s(i), 0.5)", "fma(f32(b(i)), f32(s(i)), 0.5:f32)"),
        # casts
        ("int8(x(i))", "i8!(x(i))"),
        ("float(x(i))", "x(i)"),
        ("uint8(300)", "u8!(300:i64)"),  # a cast of a weak value does not check the fit
        ("uint64(18446744073709551615)", "18446744073709551615:u64"),
        ("int64(18446744073709551615)", "-1:i64"),
        ("int8(i)", "i8!(i)"),
        ("bool(0)", "bool!(0:i64)"),
        ("x(i) * int8(2)", "(x(i) * f32(i8!(2:i64)))"),
        ("double(1) / 3", "(f64!(1:i64) / 3.0:f64)"),
        # conditions take any scalar
        ("x(i) ? 1 : x(i)", "(bool(x(i)) ? 1.0:f32 : x(i))"),
        ("h(i) && I(i)", "(bool(f32(h(i))) && bool(I(i)))"),
        ("!x(i)", "!bool(x(i))"),
        ("c(i) ? 3 : b(i)", "(c(i) ? 3:u8 : b(i))"),
        ("c(i) ? I(i) : 0.5", "(c(i) ? f32(I(i)) : 0.5:f32)"),
        ("x(i) * (c(i) ? i : 2)", "(x(i) * (c(i) ? f32(i) : 2.0:f32))"),
        ("i % 2 ? x(i) : 0", "(bool((i % 2:i64)) ? x(i) : 0.0:f32)"),
        ("flag ? x(i) : 0", "(flag() ? x(i) : 0.0:f32)"),
    ],
)  # fmt: skip
def test_conversions(text: str, expected: str | None) -> None:  # Y1 Y2 Y8
    if expected is None:
        with pytest.raises(CheckError):
            rhs(text)
    else:
        assert rhs(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x(i)", "x(i)"),
        ("x(i + 1)", "x((i + 1:i64))"),
        ("x(b(i) * 300)", "x((i64(b(i)) * 300:i64))"),  # Y9's own example
        ("x(I(i))", "x(i64(I(i)))"),
        ("x(l(i))", "x(l(i))"),
        ("x(u(i) - 1)", "x((i64(u(i)) - 1:i64))"),
        ("x(n8 + 300)", "x((i64(n8()) + 300:i64))"),
        ("x(int8(i + 1))", "x(i64(i8!((i + 1:i64))))"),
        ("x(int64(I(i)))", "x(i64(I(i)))"),
        ("x(int32(a * n))", "x(i64(i32!((a() * f32(i64(n()))))))"),
        ("x(int32(i * 0.5))", "x(i64(i32!((f64(i) * 0.5:f64))))"),
        ("x(c(i) ? 1 : s(i))", "x((c(i) ? 1:i64 : i64(s(i))))"),
        ("x(i + (s(i) > 3))", "x((i + i64((i64(s(i)) > 3:i64))))"),
        ("x(i + c(i))", "x((i + i64(c(i))))"),
        ("x(abs(s(i) - 300))", "x(abs((i64(s(i)) - 300:i64)))"),
        ("x(min(s(i), 300))", "x((i64(s(i)) min 300:i64))"),
        ("x(-s(i))", "x(-i64(s(i)))"),
        ("x(2 * 3)", "x(6:i64)"),
        # conditions of affine form count in int64 too, wherever they stand
        ("n8 + 300 > i ? x(i) : 0", "(((i64(n8()) + 300:i64) > i) ? x(i) : 0.0:f32)"),
        ("n8 * 300 > i", "((i64(n8()) * 300:i64) > i)"),
        ("!(n8 * 300)", "!bool((i64(n8()) * 300:i64))"),
        ("n8 * i && c(i)", "(bool((i64(n8()) * i)) && c(i))"),
        ("n8 / 3 * i > 0 || i < int8(N)", "((((i64(n8()) / 3:i64) * i) > 0:i64) || "
         "(i < i64(i8!(N))))"),
        # of no affine form: a data-dependent read, a product or divisor of index variables
        ("s(i) + 3 > i", "(i32((s(i) + 3:i8)) > i32(i))"),
        ("n8 + s(i) > 3", "((n8() + s(i)) > 3:i8)"),
        ("n8 > i * i", "(i32(n8()) > i32((i * i)))"),
        ("n8 > N / (i + 1)", "(i32(n8()) > i32((N / (i + 1:i64))))"),
        ("n8 + 0.5 > i", "((f32(n8()) + 0.5:f32) > f32(i))"),
        ("n8 > float(i)", "(f32(n8()) > f32!(i))"),
        ("n8 > abs(i)", "(i32(n8()) > i32(abs(i)))"),
    ],
)  # fmt: skip
def test_index_mode(text: str, expected: str) -> None:  # Y9
    assert rhs(text) == expected


def test_where_bounds_count_in_int64() -> None:  # Y9 G8
    text = "def f(float(N) x, int8 n) -> (o) { o(i) = x(i) where i in -n:min(n * 300, N / 2) + 1 }"
    (clause,) = checked(text).statements[0].where
    assert show(clause.begin) == "-i64(n())"
    assert show(clause.end) == "(((i64(n()) * 300:i64) min (N / 2:i64)) + 1:i64)"


@pytest.mark.parametrize(
    ("literal", "x", "fits"),
    [
        ("255", "byte", True),
        ("256", "byte", False),
        ("-1", "byte", False),
        ("127", "int8", True),
        ("128", "int8", False),
        ("-128", "int8", True),
        ("-129", "int8", False),
        ("4294967295", "uint32", True),
        ("4294967296", "uint32", False),
        ("18446744073709551615", "uint64", True),
        ("9223372036854775807", "int64", True),
        ("9223372036854775808", "int64", False),
        ("-9223372036854775808", "int64", True),
        ("65504", "half", True),
        ("65505", "half", False),
        ("-65504.0", "half", True),
        ("1e38", "float", True),
        ("1e39", "float", False),
        ("1e39", "double", True),
        ("(200 + 100)", "byte", False),
        ("(300 - 100)", "byte", True),
    ],
)
def test_literals_fit_their_type(literal: str, x: str, fits: bool) -> None:  # Y1
    text = f"def f({x}(N) x) -> (o) {{ o(i) = x(i) + {literal} }}"
    if fits:
        assert str(checked(text).tensors["o"].dtype) == {
            "byte": "uint8", "half": "float16", "float": "float32", "double": "float64",
        }.get(x, x)  # fmt: skip
        return
    with pytest.raises(CheckError) as caught:
        checked(text)
    assert caught.value.rule == "Y1"
    # the repair can be pasted
    checked(text.replace(literal, str(caught.value.repair)))


def test_a_literal_fits_the_type_of_the_output() -> None:  # Y1 Y3
    with pytest.raises(CheckError, match="300 does not fit uint8"):
        checked("def f(byte(N) b) -> (o) { o(i) = 300 o(i) += b(i) }")
    with pytest.raises(CheckError, match="does not fit int64"):
        checked("def f(byte(N) b) -> (o) { o(i) = 9223372036854775808 where i in 0:N }")


def test_stores() -> None:  # Y2 Y3 Y8
    assert rhs("x(i) > 0", op="+=") == "i32((x(i) > 0.0:f32))"
    assert rhs("x(i) > 0", op="max=") == "(x(i) > 0.0:f32)"
    assert rhs("h(i)") == "f32(h(i))"
    assert rhs("h(i) * 2", returns="half(N) o") == "(f32(h(i)) * 2.0:f32)"
    assert rhs("x(i)", returns="double(N) o") == "f64(x(i))"
    assert rhs("1 / 2.0", returns="half(N) o") == "0.5:f32"
    assert rhs("1.0 / N", returns="half(N) o") == "(1.0:f32 / f32(N))"
    assert rhs("c(i)", returns="int(N) o") == "i32(c(i))"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pad(x(i - 1), 0)",
         "(((0:i64 <= (i - 1:i64)) && ((i - 1:i64) < x.0)) ? x?((i - 1:i64)) : 0.0:f32)"),
        ("pad(x(i) + 1, x(0))",
         "(((0:i64 <= i) && (i < x.0)) ? (x?(i) + 1.0:f32) : x~(0:i64))"),
        # a gather: the inner read is tested before it is made
        ("pad(x(I(i)), 0)",
         "(((((0:i64 <= i) && (i < I.0)) && (0:i64 <= i64(I?(i)))) && (i64(I?(i)) < x.0)) ? "
         "x?(i64(I?(i))) : 0.0:f32)"),
        # the reads of the branch taken only
        ("pad(c(i) ? x(i + 1) : 0, 2)",
         "((((0:i64 <= i) && (i < c.0)) && (c?(i) ? ((0:i64 <= (i + 1:i64)) && "
         "((i + 1:i64) < x.0)) : True:bool)) ? (c?(i) ? x?((i + 1:i64)) : 0.0:f32) : 2.0:f32)"),
        ("pad(i > 0 && c(i - 1), bool(0))",
         "((!(i > 0:i64) || ((0:i64 <= (i - 1:i64)) && ((i - 1:i64) < c.0))) ? "
         "((i > 0:i64) && c?((i - 1:i64))) : bool!(0:i64))"),
        ("pad(i == 0 || c(i - 1), bool(0))",
         "(((i == 0:i64) || ((0:i64 <= (i - 1:i64)) && ((i - 1:i64) < c.0))) ? "
         "((i == 0:i64) || c?((i - 1:i64))) : bool!(0:i64))"),
        # an inner pad guards its own reads; what it falls back to counts
        ("pad(pad(x(i), 0), 1)", "(True:bool ? (((0:i64 <= i) && (i < x.0)) ? x?(i) : 0.0:f32) : "
         "1.0:f32)"),
        ("pad(pad(x(i), a), 1)", "(True:bool ? (((0:i64 <= i) && (i < x.0)) ? x?(i) : a?~()) : "
         "1.0:f32)"),
        ("pad(pad(x(i), d(i)), 1)",
         "((((0:i64 <= i) && (i < x.0)) || ((0:i64 <= i) && (i < d.0))) ? "
         "(((0:i64 <= i) && (i < x.0)) ? f64(x?(i)) : d?~(i)) : 1.0:f64)"),
        ("pad(a, pad(x(i), 1))",
         "(True:bool ? a?() : (((0:i64 <= i) && (i < x.0)) ? x?~(i) : 1.0:f32))"),
        ("pad(1, x(i))", "(True:bool ? 1.0:f32 : x~(i))"),
        ("pad(a, 1)", "(True:bool ? a?() : 1.0:f32)"),
        ("x(pad(I(i), 0))",
         "x((((0:i64 <= i) && (i < I.0)) ? i64(I?(i)) : 0:i64))"),
        ("pad(y, 0) where y = x(i)", "(((0:i64 <= i) && (i < x.0)) ? x?(i) : 0.0:f32)"),
    ],
)  # fmt: skip
def test_pad(text: str, expected: str) -> None:  # G9 Y6
    clause = ", i in 0:N" if " where " in text else " where i in 0:N"
    program = checked(f"def f({PARAMS}) -> (o) {{ o(i) = {text}{clause} }}")
    assert show(program.statements[0].rhs) == expected


@pytest.mark.parametrize(
    ("text", "rule", "message"),
    [
        ("1/2 * x(i)", "Y1", "'1/2' is 0"),
        ("x(i) * (7 / 2)", "Y1", "'7 / 2' is 3"),
        ("x(i) * (2 * (1 / 3) + 1)", "Y1", "'1 / 3' is 0"),
        ("x(i + 1 / 2)", "Y1", "'1 / 2' is 0"),
        ("x(i) * (1/N)", "Y1", "'1/N' is a division of whole numbers, which rounds down: it is 0"),
        ("x(i) * (-1/N)", "Y1", "it is -1 unless N divides -1"),
        ("x(i) * sqrt(2 / x.0)", "Y1", "it is 0 beyond x.0 = 2"),
        ("x(i) * w where w = 1 / (N * x.0), i in 0:N", "Y1", "it is 0 beyond (N * x.0) = 1"),
        ("l(i) + q(i)", "Y2", "int64 and uint64"),
        ("s(i) < q(i)", "Y2", "int8 and uint64"),
        ("c(i) ? l(i) : q(i)", "Y2", "int64 and uint64"),
        ("pad(q(i), s(i))", "Y2", "uint64 and int8"),
    ],
)
def test_warnings(text: str, rule: str, message: str) -> None:  # Y1 Y2
    clause = "" if " where " in text else " where i in 0:N"
    program = checked(f"def f({PARAMS}) -> (o) {{ o(i) = {text}{clause} }}")
    (warning,) = program.warnings
    assert warning.rule == rule
    assert message in warning.message
    assert warning.repair or warning.idiom


@pytest.mark.parametrize(
    "text",
    [
        "6 / 2 * x(i)", "1.0 / 2 * x(i)", "i / 2 * x(i)", "q(i) + u(i)", "q(i) + 1", "q(i) * i",
        "x(i) * 1 / N", "x(i) * (1.0 / N)", "x(i) * (N / 2)", "x(1 / N)", "l(i) * (1 / N)",
    ],
)  # fmt: skip
def test_no_warnings(text: str) -> None:  # Y1 Y2
    assert not checked(f"def f({PARAMS}) -> (o) {{ o(i) = {text} where i in 0:N }}").warnings


def test_warning_of_a_join() -> None:  # Y2
    text = "def f(uint64(N) q, int(N) I) -> (o) { o(i) = q(i) o(i) += I(i) }"
    program = checked(text)
    assert str(program.tensors["o"].dtype) == "int64"
    assert [warning.rule for warning in program.warnings] == ["Y2"]


def test_static_scalars() -> None:  # G2
    text = """
    def f(float(N) x, int a, int b, int c, int d, int e, int8 g, float h, bool k, int(N) I)
        -> (o, p) {
      o(i) = x(I(i) + a) * d where i in 0:b
      p(i) = (i < c ? x(i) : h) * (k ? 1 : 2) * (x(i) < e ? 1 : 2) * (g * I(i) > 3 ? 1 : 2)
    }"""
    assert checked(text).static_scalars == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("text", "rule", "repair"),
    [
        ("x(x(i))", "Y9", "int32(x(i))"),
        ("x(2.0)", "Y9", "int32(2.0)"),
        ("x(sqrt(i))", "Y9", "int32(sqrt(i))"),
        ("x(c(i))", "Y2", "int32(c(i))"),
        ("x(i < 2)", "Y2", "int32(i < 2)"),
        ("x(min(c(i), c(i)))", "Y2", "int32(min(c(i), c(i)))"),
    ],
)
def test_subscripts_are_integers(text: str, rule: str, repair: str) -> None:  # Y2 Y9
    with pytest.raises(CheckError) as caught:
        rhs(text)
    assert (caught.value.rule, caught.value.repair) == (rule, repair)
    # pasting the repair gives a program
    assert rhs(f"x({repair})").startswith("x(i64(i32!(")
