"""Element types against tables written out by hand (Y1, Y2, Y3, Y8)."""

from __future__ import annotations

import pytest

from tc.errors import CheckError
from tests.semantics.check_support import short
from tests.support.pipeline import checked

TYPES = ("bool", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f16", "f32", "f64")
SPELLED = {
    "bool": "bool",
    **{f"u{b}": f"uint{b}" for b in (8, 16, 32, 64)},
    **{f"i{b}": f"int{b}" for b in (8, 16, 32, 64)},
    "f16": "half",
    "f32": "float",
    "f64": "double",
}

LONG = {**SPELLED, "f16": "float16", "f32": "float32", "f64": "float64"}

# the type of x + y, by the sentences of Y2; the table is symmetric
ARITHMETIC = """
      bool u8  u16 u32 u64 i8  i16 i32 i64 f16 f32 f64
bool  i32  i32 i32 i64 i64 i32 i32 i32 i64 f16 f32 f64
u8    i32  u8  u16 u32 u64 i16 i16 i32 i64 f16 f32 f64
u16   i32  u16 u16 u32 u64 i32 i32 i32 i64 f16 f32 f64
u32   i64  u32 u32 u32 u64 i64 i64 i64 i64 f16 f32 f64
u64   i64  u64 u64 u64 u64 i64 i64 i64 i64 f16 f32 f64
i8    i32  i16 i32 i64 i64 i8  i16 i32 i64 f16 f32 f64
i16   i32  i16 i32 i64 i64 i16 i16 i32 i64 f16 f32 f64
i32   i32  i32 i32 i64 i64 i32 i32 i32 i64 f16 f32 f64
i64   i64  i64 i64 i64 i64 i64 i64 i64 i64 f16 f32 f64
f16   f16  f16 f16 f16 f16 f16 f16 f16 f16 f16 f32 f64
f32   f32  f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f64
f64   f64  f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64
"""

# the type of x with a weak operand: x + 2, x + i, x + 2.5, and of functions of x alone
WITH_WEAK = """
       +2   +i   +2.5 -x   abs  sqrt x<2  !x
bool   i32  i32  f32  i32  i32  f32  bool bool
u8     u8   i32  f32  u8   u8   f32  bool bool
u16    u16  i32  f32  u16  u16  f32  bool bool
u32    u32  i64  f32  u32  u32  f32  bool bool
u64    u64  u64  f32  u64  u64  f32  bool bool
i8     i8   i32  f32  i8   i8   f32  bool bool
i16    i16  i32  f32  i16  i16  f32  bool bool
i32    i32  i32  f32  i32  i32  f32  bool bool
i64    i64  i64  f32  i64  i64  f32  bool bool
f16    f16  f16  f16  f16  f16  f16  bool bool
f32    f32  f32  f32  f32  f32  f32  bool bool
f64    f64  f64  f64  f64  f64  f64  bool bool
"""
COLUMNS = {
    "+2": "x(i) + 2",
    "+i": "x(i) + i",
    "+2.5": "x(i) + 2.5",
    "-x": "-x(i)",
    "abs": "abs(x(i))",
    "sqrt": "sqrt(x(i))",
    "x<2": "x(i) < 2",
    "!x": "!x(i)",
}


def cells(table: str) -> list[tuple[str, str, str]]:
    """Row, column and entry of each cell."""
    head, *rows = table.strip().split("\n")
    return [
        (name, column, entry)
        for name, *entries in (row.split() for row in rows)
        for column, entry in zip(head.split(), entries, strict=True)
    ]


def type_of(rhs: str, x: str = "f32", y: str = "f32", op: str = "=", returns: str = "o") -> str:
    """The type that `o(i) op rhs` gives to o, with x and y of the given types."""
    params = f"{SPELLED[x]}(N) x, {SPELLED[y]}(N) y, bool(N) c, int(N) n"
    program = checked(f"def f({params}) -> ({returns}) {{ o(i) {op} {rhs} where i in 0:N }}")
    return short(program.tensors["o"].dtype)


def test_tables_are_complete() -> None:
    assert [name for name, column, _ in cells(ARITHMETIC) if column == "u8"] == list(TYPES)
    assert [name for name, column, _ in cells(WITH_WEAK) if column == "+2"] == list(TYPES)
    entries = {(row, column): entry for row, column, entry in cells(ARITHMETIC)}
    assert all(entries[row, column] == entries[column, row] for row, column in entries)


@pytest.mark.parametrize(("x", "y", "expected"), cells(ARITHMETIC))
def test_arithmetic_promotes(x: str, y: str, expected: str) -> None:  # Y2
    assert type_of("x(i) + y(i)", x, y) == expected
    assert type_of("x(i) % y(i)", x, y) == expected


@pytest.mark.parametrize(("x", "y", "expected"), cells(ARITHMETIC))
def test_joins_keep_bool(x: str, y: str, expected: str) -> None:  # Y2
    expected = "bool" if x == y == "bool" else expected
    assert type_of("c(i) ? x(i) : y(i)", x, y) == expected
    assert type_of("min(x(i), y(i))", x, y) == expected
    assert type_of("pad(x(i), y(i))", x, y) == expected


@pytest.mark.parametrize(("x", "column", "expected"), cells(WITH_WEAK))
def test_weak_operands(x: str, column: str, expected: str) -> None:  # Y1 Y2
    assert type_of(COLUMNS[column], x) == expected


@pytest.mark.parametrize("x", TYPES)
def test_functions_of_two(x: str) -> None:  # Y2: integers compute in float32
    floats = x if x.startswith("f") else "f32"
    assert type_of("pow(x(i), 2)", x) == floats
    assert type_of("fmaxf(x(i), x(i))", x) == floats
    assert type_of("fmax(x(i), y(i))", x, "f64") == "f64"
    assert type_of("fmax(x(i), y(i))", x, "f16") == (x if x in ("f32", "f64") else "f16")


@pytest.mark.parametrize(
    ("rhs", "expected"),
    [
        ("1", "i32"),
        ("2147483647", "i32"),
        ("2147483648", "i64"),
        ("-2147483648", "i32"),
        ("-2147483649", "i64"),
        ("2147483647 + 1", "i64"),
        ("3000000000 - 2999999999", "i32"),
        ("0.5", "f32"),
        ("1 / 2.0", "f32"),
        ("N", "i32"),
        ("i", "i32"),
        ("x.0", "i32"),
        ("i * 2 + N", "i32"),
        ("i % 3000000000", "i64"),
        ("sqrt(N)", "f32"),
        ("sqrt(2)", "f32"),
        ("abs(i - 3)", "i32"),
        ("i * 0.5", "f32"),
        ("c(i) ? 1 : 0", "i32"),
        ("c(i) ? 1 : i", "i32"),
        ("c(i) ? 3000000000 : 1", "i64"),
        ("c(i) ? 1 : 0.5", "f32"),
        ("c(i) ? c(i) : 0", "i32"),
        ("c(i) ? c(i) : bool(0)", "bool"),
        ("c(i) == c(i)", "bool"),
        ("c(i) && 1", "bool"),
        ("c(i) + c(i)", "i32"),
        ("max(c(i), 0)", "i32"),
        ("max(c(i), c(i))", "bool"),
        ("int8(1)", "i8"),
        ("int8(1) + 1", "i8"),
        ("half(1) * 2.5", "f16"),
        ("x < y where x = 1, y = 2", "bool"),
    ],
)
def test_alone(rhs: str, expected: str) -> None:  # Y1 Y2
    names = "float(N) x, bool(N) c"
    clauses = "i in 0:N" if "where" not in rhs else ", i in 0:N"
    text = rhs + ("" if "where" in rhs else " where ") + clauses
    if "x = 1" in rhs:
        names = "bool(N) c"
    program = checked(f"def f({names}) -> (o) {{ o(i) = {text} }}")
    assert short(program.tensors["o"].dtype) == expected


@pytest.mark.parametrize(
    ("op", "rhs", "expected"),
    [
        ("+=!", "x(i) > y(j)", "i32"),  # a sum of conditions is a count
        ("*=!", "x(i) > y(j)", "i32"),
        ("+=", "x(i) > y(j)", "i32"),
        ("max=!", "x(i) > y(j)", "bool"),
        ("min=", "x(i) > y(j)", "bool"),
        ("+=!", "x(i) > y(i)", "bool"),  # without reduction variables it is "="
        ("+=", "x(i) > y(i)", "i32"),
        ("=", "x(i) > y(i)", "bool"),
        ("+=!", "y(j) * 2", "f32"),
        ("+=!", "1 + 0 * j", "i32"),
    ],
)
def test_terms_of_reductions(op: str, rhs: str, expected: str) -> None:  # Y2 R2
    where = "where i in 0:N, j in 0:N" if "j" in rhs else "where i in 0:N"
    program = checked(f"def f(float(N) x, float(N) y) -> (o) {{ o(i) {op} {rhs} {where} }}")
    assert short(program.tensors["o"].dtype) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("o(i) = 0  o(i) += f(i)", "f32"),  # Y1: the literal takes the type of what it meets
        ("o(i) = f(i)  o(i) = d(i)", "f64"),
        ("o(i) = b(i)  o(i) = s(i)", "i16"),  # uint8 with int8
        ("o(i) = b(i)  o(i) = s(i)  o(i) = w(i)", "i32"),  # pairwise: (u8, i8) then u16
        ("o(i) = b(i)  o(i) = w(i)  o(i) = s(i)", "i32"),
        ("o(i) = l(i)  o(i) = h(i)", "f16"),  # int64 and half
        ("o(i) = l(i)  o(i) = 1.5  o(i) = h(i)", "f32"),  # pairwise in text order
        ("o(i) = h(i)  o(i) = 1.5  o(i) = l(i)", "f16"),
        ("o(i) = c(i)  o(i) = c(i)", "bool"),
        ("o(i) = c(i)  o(i) = 1", "i32"),
        ("o(i) = o(i) * 2  o(i) += f(i)", "f32"),  # by way of itself
        ("o(i) = o(i) * b(i)", "u8"),
        ("o(i) = -o(i)  o(i) = 2 where i in 0:N", "i32"),
        ("o(i) = min(o(i), c(i))", "bool"),
        ("o(i) = o(i) + c(i)", "i32"),
        ("o(i) = fmax(o(i), 0) where i in 0:N", "f32"),
        ("o(i) = c(i) ? o(i) : b(i)", "u8"),
        ("o(i) = o(i) * p(i)  p(i) = p(i) * o(i) * h(i)", "f16"),
        ("o(i) = p(i)  p(i) = o(i) + f(i)", "f32"),
        ("t(i) = 2 where i in 0:N  o(i) = t(i) * b(i)", "i32"),  # a tensor alone is int32
        ("t(i) = 2 where i in 0:N  o(i) = t(i) * h(i)", "f16"),
        ("t(i) = 2.5 where i in 0:N  o(i) = t(i) * h(i)", "f32"),
        ("t(i) = i where i in 0:N  o(i) = t(i) * w(i)", "i32"),
        ("t(i) = 3000000000 where i in 0:N  o(i) = t(i) * b(i)", "i64"),
        ("t(i) = 2 where i in 0:N  t(i) = t(i) * 1.5  o(i) = t(i) * l(i)", "f32"),
    ],
)
def test_outputs_join_their_statements(body: str, expected: str) -> None:  # Y3
    params = (
        "float(N) f, double(N) d, half(N) h, byte(N) b, int8(N) s, uint16(N) w, int64(N) l, "
        "bool(N) c"
    )
    returns = "o, p" if "p(i) =" in body else "o"
    program = checked(f"def g({params}) -> ({returns}) {{ {body} }}")
    assert short(program.tensors["o"].dtype) == expected


@pytest.mark.parametrize(
    ("declared", "x", "fits"),
    [
        *[("i64", x, True) for x in ("u8", "u16", "u32", "u64", "i8", "i64", "bool")],
        *[("u64", x, x.startswith("u")) for x in ("u8", "u64", "i8", "i64", "bool")],
        *[("u8", x, x == "u8") for x in ("u8", "u16", "i8", "bool", "f16")],
        *[("i16", x, x in ("u8", "i8", "i16")) for x in ("u8", "u16", "i8", "i16", "i32", "bool")],
        *[("f16", x, x not in ("f32", "f64")) for x in TYPES],
        *[("f32", x, x != "f64") for x in TYPES],
        *[("f64", x, True) for x in TYPES],
        *[("bool", x, x == "bool") for x in TYPES],
        *[("i32", x, x in ("bool", "u8", "u16", "i8", "i16", "i32")) for x in TYPES],
    ],
)
def test_declared_types_take_narrower_ones(declared: str, x: str, fits: bool) -> None:  # Y3 T4
    returns = f"{SPELLED[declared]}(N) o"
    if fits:
        assert type_of("x(i)", x, returns=returns) == declared
        return
    with pytest.raises(CheckError) as caught:
        type_of("x(i)", x, returns=returns)
    assert caught.value.rule == "Y3"
    assert caught.value.repair == f"{LONG[declared]}(x(i))"
    assert type_of(str(caught.value.repair), x, returns=returns) == declared


@pytest.mark.parametrize(
    ("declared", "rhs", "fits"),
    [
        ("i8", "127", True),
        ("u8", "255", True),
        ("i8", "i", False),
        ("u16", "N", False),
        ("u32", "i", False),  # Y2: int64 with uint32
        ("u64", "i", True),  # Y2: a size takes a wider operand's type
        ("i32", "i", True),
        ("i64", "i", True),
        ("f16", "i", True),
        ("f16", "1.0 / N", True),
        ("i32", "0.5", False),
        ("i64", "sqrt(N)", False),
        ("bool", "1", False),
        ("bool", "i", False),
        ("bool", "bool(1)", True),
    ],
)
def test_declared_types_and_weak_values(declared: str, rhs: str, fits: bool) -> None:  # Y1 Y3
    returns = f"{SPELLED[declared]}(N) o"
    if fits:
        assert type_of(rhs, returns=returns) == declared
        return
    with pytest.raises(CheckError) as caught:
        type_of(rhs, returns=returns)
    assert caught.value.rule == "Y3"


def test_concat_joins_in_argument_order() -> None:  # Y3
    text = "def f(byte(N) a, int8(N) b, uint16(N) c) -> (o) { o = concat(a, b, c) }"
    assert short(checked(text).tensors["o"].dtype) == "i32"
    both = checked("def f(bool(N) a, bool(N) b) -> (o) { o = concat(a, b) }")
    assert short(both.tensors["o"].dtype) == "bool"


def test_inlined_types_come_from_the_whole() -> None:  # N4: inlined before types are inferred
    text = """
    def twice(half(N) x) -> (y) { y(i) = x(i) * 2 }
    def f(half(N) x, double(N) d) -> (o) {
      o = twice(x)
      o(i) = o(i) + d(i)
    }"""
    assert short(checked(text, "f").tensors["o"].dtype) == "f64"
    assert short(checked(text, "twice").tensors["y"].dtype) == "f16"


def test_annotation_holds_for_the_caller() -> None:  # T4
    text = """
    def g(float(N) x) -> (double(N) y) { y(i) = x(i) }
    def f(float(N) x) -> (o) {
      t = g(x)
      o(i) = t(i) * 2
    }"""
    assert short(checked(text, "f").tensors["o"].dtype) == "f64"


CHAINS = {
    "0 < x(i) < 2": "0 < x(i) && x(i) < 2",
    "2 >= x(i)+1 >=x(i)": "2 >= x(i)+1 && x(i)+1 >= x(i)",
    "0 <= (x(i) + 1) <= (2 * x(i))": "0 <= (x(i) + 1) && (x(i) + 1) <= (2 * x(i))",
    "x(i) == x(i) == 1": "x(i) == x(i) && x(i) == 1",
}


@pytest.mark.parametrize("written", CHAINS)
def test_a_chain_of_comparisons_is_warned_of(written: str) -> None:  # Y2 T4
    """Comparisons are computed as in C; the repair is what was meant."""
    program = checked(f"def f(float(N) x) -> (o) {{ o(i) = {written} ? 1 : 0 }}", "f")
    (warning,) = program.warnings
    assert warning.rule == "Y2"
    assert warning.repair == CHAINS[written]
    assert f"'{written}' compares" in warning.message
    assert not checked(
        f"def f(float(N) x) -> (o) {{ o(i) = {warning.repair} ? 1 : 0 }}", "f"
    ).warnings


def test_a_negation_that_looks_like_an_operator_is_warned_of() -> None:  # T4
    """`=!` is none: `o(i) =! x(i)` assigns `!x(i)`."""

    def warnings(written: str) -> tuple[object, ...]:
        return checked(f"def f(float(N) x) -> (o) {{ o(i) {written} }}", "f").warnings

    (warning,) = checked("def f(float(N) x) -> (o) { o(i) =! x(i) }", "f").warnings
    assert warning.rule == "T4"
    assert warning.repair == "= !x(i), if that is meant, or = x(i)"
    assert not any(map(warnings, ("= !x(i)", "=!x(i)", "= ! x(i)", "= x(i) != x(i)", "= x(i)")))


@pytest.mark.parametrize(
    "written", ["(0 < x(i)) < 2", "x(i) < 2 == x(i) > 1", "x(i) > 1 == bool(1)", "c < 2"]
)
def test_other_comparisons_of_conditions_are_fine(written: str) -> None:  # Y2 T4
    text = f"def f(float(N) x) -> (o) {{ o(i) = {written} ? 1 : 0 where c = 0 < x(i) }}"
    assert not checked(text, "f").warnings
