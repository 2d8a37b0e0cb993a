"""Programs of SaC's notation, rule by rule, with what numpy says of them.

Long because each rule has its programs in one place.

No value here comes from an implementation of the notation: `want` is a formula in numpy or
Python, or the numbers themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class RuleCase:
    """A program with its inputs, and its results, or the rule that refuses it and words of the
    message, or the demand of a level (C24)."""

    name: str
    rules: str
    src: str
    inputs: Mapping[str, Any] | Sequence[Any] = field(default_factory=dict)
    want: Any = None
    error: str = ""
    says: tuple[str, ...] = ()
    entry: str | None = None
    level: str = ""
    demand: Mapping[str, str] | None = None


def ints(*shape: int, seed: int = 0, low: int = -9, high: int = 10, dtype: str = "int32") -> Any:
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def floats(*shape: int, seed: int = 0, dtype: str = "float32") -> Any:
    return (np.random.default_rng(seed).integers(-16, 17, shape) / 8).astype(dtype)


def i32(value: Any) -> Any:
    return np.asarray(value, "int32")


def f64(value: Any) -> Any:
    return np.asarray(value, "float64")


V, W5, M, T3 = ints(5), ints(5, seed=1), ints(3, 4), ints(2, 3, 4)
F, FM, D = floats(6), floats(3, 4), floats(5, dtype="float64")
SQUARE = ints(4, 4, seed=3)
EMPTY = np.zeros((0, 5), "int32")

CASES: list[RuleCase] = []


def case(
    name: str, rules: str, src: str, inputs: Any = None, want: Any = None, **others: Any
) -> None:
    CASES.append(RuleCase(name, rules, src, {} if inputs is None else inputs, want, **others))


def refused(
    name: str, rules: str, src: str, inputs: Any, error: str, *says: str, **others: Any
) -> None:
    case(name, rules, src, inputs, error=error, says=says, **others)


def needs(name: str, src: str, level: str, entry: str | None = None, **demand: str) -> None:
    case(name, "C24", src, level=level, entry=entry, demand=demand)


# --- C1, C2: text ---------------------------------------------------------------------------------

case(
    "from the left",
    "C1",
    "10 - 4 - 3 + 100 / 5 / 2 % 7",
    want=i32(10 - 4 - 3 + (100 // 5 // 2) % 7),
)
case("++ binds weaker than +", "C1", "v ++ v + 1", {"v": V}, np.concatenate([V, V + 1]))
case("++ binds tighter than ==", "C1", "all(v ++ v == v ++ v)", {"v": V}, np.asarray(True))
case("prefix - binds tighter than *", "C1", "-v * -v - -v", {"v": V}, V * V + V)
case("! binds tighter than &&", "C1", "!(v > 0) && v > -5", {"v": V}, ~(V > 0) & (V > -5))
case(
    "&& binds tighter than ||",
    "C1",
    "v > 3 || v < 0 && v > -4",
    {"v": V},
    (V > 3) | (V < 0) & (V > -4),
)
case("choices nest on the right", "C1", "1 > 2 ? 3 : 2 > 1 ? 4 : 5", want=i32(4))
case("a choice's middle", "C1", "true ? false ? 1 : 2 : 3", want=i32(2))
case("a semicolon at the end", "C1", "x = 3; x * x;", want=i32(9))
case("a parenthesised selection", "C1", "(v + 1)[2]", {"v": V}, i32(V[2] + 1))
case("selections of selections", "C1", "m[1][2] + m[1,2]", {"m": M}, i32(2 * M[1, 2]))
case("a literal is selected", "C1", "[4,5,6][1]", want=i32(5))
case("comments to the end of a line", "C2", "v // + 1\n  + 2 // */", {"v": V}, V + 2)
case("suffixes fix types", "C2", "[1l, 2]", want=np.asarray([1, 2], "int64"))
case("a float suffix of a whole number", "C2", "v * 2f", {"v": V}, (V * 2).astype("float32"))
case("an exponent alone makes a float", "C2", "1e2", want=f64(100.0))
refused("a number too large", "C2", "9223372036854775808", {}, "C1 C2 T1 Y1")
refused("no digit behind the dot", "C2", "1. + 2", {}, "C1 C2")
refused("a type's name as a variable", "C2", "int = 3; int", {}, "C1 C2")
refused("two bars", "C1", "{ [i] -> v[i] | [i] < [2] | [i] < [3] }", {"v": V}, "C1")
refused("nothing at all", "C1", "", {}, "C1")
refused("a bracket that does not close", "C1", "(v + 1", {"v": V}, "C1")
refused("two expressions", "C1", "v v", {"v": V}, "C1")
refused("a statement at the end", "C1", "x = v;", {"v": V}, "C1")
refused(
    "step", "C27", "with { ([0] <= iv < [9] step [2]) : 1; } : genarray([9], 0)", {}, "C1", "step"
)
refused(
    "while", "C27", "int f(int n) { while (n > 0) { n = n - 1; } return n; }", [3], "C1", "while"
)
refused("do", "C27", "int f(int n) { do { n = n - 1; } while (n > 0); return n; }", [3], "C1", "do")
refused("an import", "C27", "use Array: all; int f(int n) { return n; }", [3], "C1", "use")

# --- C3, C4: names --------------------------------------------------------------------------------

case("bounds see the outer variable", "C3", "i = 3; { [i] -> i | [i] < [i] }", want=i32([0, 1, 2]))
case("the first form fits", "C3", "iv = [4]; { iv -> iv[0] | iv < iv }", want=i32([0, 1, 2, 3]))
case(
    "a pattern's variable hides an input",
    "C3",
    "{ [v] -> v * 2 | [v] < shape(v) }",
    {"v": V},
    i32([0, 2, 4, 6, 8]),
)
case("a variable is assigned anew", "C4", "x = v; x = x + x[0]; x", {"v": V}, V + V[0])
refused(
    "two '...' in a pattern",
    "C3",
    "{ [..., i, ...] -> t | [i] < [2] }",
    {"t": T3},
    "C3",
    "two '...'",
)
refused("another generator", "C3", "{ [i,.,k] -> v | [i,j] < [2,2] }", {"v": V}, "C3", "[i,k]")
refused("a name twice with dots", "C3", "{ [i,.,i] -> v | [i,i] < [2,2] }", {"v": V}, "C3", "i")
refused("an unknown function", "C4", "foo(v)", {"v": V}, "C4", "foo")
refused(
    "an index behind its comprehension",
    "C4",
    "int[*] f(int[*] v) { x = { [i] -> v[i] }; return x + i; }",
    [V],
    "C4",
    "'i'",
)
refused("two parameters of one name", "C4", "int f(int a, int a) { return a; }", [1, 2], "C4", "a")
refused(
    "two functions of one name",
    "C4 C27",
    "int f(int a) { return a; } int f(float a) { return 1; }",
    [1],
    "C1 C4",
    "f",
)
refused(
    "a size that is a parameter", "C4", "int f(int[n] a, int n) { return n; }", [V, 5], "C4", "n"
)
refused("recursion", "C4", "int f(int n) { return f(n - 1); }", [3], "C4 N4", "f")
refused(
    "recursion in a circle",
    "C4",
    "int f(int n) { return g(n); } int g(int n) { return f(n); }",
    [3],
    "C4 N4",
    entry="f",
)
refused(
    "a call of results that are two",
    "C4",
    "int, int g(int a) { return (a, a); } int f(int a) { return g(a) + 1; }",
    [1],
    "C4 C1",
    entry="f",
)
refused(
    "results of a call of one",
    "C4",
    "int g(int a) { return a; } int f(int a) { x, y = g(a); return x; }",
    [1],
    "C4",
    entry="f",
)
refused(
    "the same target twice",
    "C4",
    "int, int g(int a) { return (a, a); } int f(int a) { x, x = g(a); return x; }",
    [1],
    "C4",
    "x",
    entry="f",
)
refused(
    "a function that is not called is checked",
    "C4",
    "int g(int a) { return b; } int f(int a) { return a; }",
    [1],
    "C4",
    "'b'",
    entry="f",
)
refused("an entry that is missing", "C4", "int f(int a) { return a; }", [1], "C4", "g", entry="g")
case(
    "an entry is chosen",
    "C4",
    "int f(int a) { return a + 1; } int g(int a) { return a + 2; }",
    [5],
    i32(7),
    entry="g",
)
case(
    "two results of a call",
    "C4",
    "int, int[*] g(int[*] a) { return (sum(a), a + 1); } int[*] f(int[*] a) { s, b = g(a); return b * s; }",  # noqa: E501
    [V],
    (V + 1) * V.sum(dtype="int32"),
    entry="f",
)

# --- C5: values and types -------------------------------------------------------------------------

A8, U8, H, I64 = (
    ints(4, dtype="int8"),
    ints(4, low=0, dtype="uint8"),
    floats(4, dtype="float16"),
    ints(4, dtype="int64"),
)
F4 = floats(4)
case("a literal takes the type it meets", "C5", "a + 1", {"a": A8}, A8 + np.int8(1))
case("int64 with an index", "C5", "{ [i] -> a[i] + i }", {"a": I64}, I64 + np.arange(4))
case("a floating literal alone is double", "C5", "0.5 * 3", want=f64(1.5))
case("a floating literal beside float is float", "C5", "a * 0.5", {"a": F}, F * np.float32(0.5))
case("a floating literal beside int is double", "C5", "v * 0.5", {"v": V}, V * 0.5)
case("through an assignment", "C5", "h = 0.5; a * h", {"a": F}, F * np.float32(0.5))
case("through an array", "C5", "h = [0.5, 2]; a * h[1]", {"a": F}, F * np.float32(2))
case("sqrt of an integer is double", "C5", "sqrt(v * v)", {"v": V}, np.abs(V).astype("float64"))
case("sqrt of a float stays float", "C5", "sqrt(a * a)", {"a": F}, np.abs(F))
case("half stays half", "C5", "a * 2", {"a": H}, H * np.float16(2))
case("float and half", "C5", "a + b", {"a": H, "b": F4}, H.astype("float32") + F4)
case("uint8 with a literal", "C5", "a / 2", {"a": U8}, U8 // np.uint8(2))
case("a cast wraps", "C5", "int8(v * 100)", {"v": V}, (V * 100).astype("int8"))
case("a cast of a literal wraps", "C5", "uint8(300)", want=np.asarray(44, "uint8"))
case("toi cuts toward zero", "C5 C9", "toi(a)", {"a": D}, np.trunc(D).astype("int32"))
case("a comparison is bool", "C5", "a < 1", {"a": F}, F < 1)
case(
    "partitions join types",
    "C5",
    "{ [i] -> a[i] | [i] < [2]; [i] -> v[i] | [i] < [4] }",
    {"a": F, "v": V},
    np.concatenate([F[:2], V[2:4].astype("float32")]),
)
case(
    "an empty partition joins its type too",
    "C5",
    "{ [i] -> 0.5 | [i] < [0]; [i] -> v[i] | [i] < [4] }",
    {"v": V},
    V[:4].astype("float64"),
)
case(
    "branches join",
    "C5",
    "{ [i] -> i > 1 ? v[i] : b[i] }",
    {"v": A8, "b": I64},
    np.where(np.arange(4) > 1, A8, I64),
)
case(
    "a literal in a branch",
    "C5",
    "{ [i] -> i > 1 ? v[i] : 0 }",
    {"v": A8},
    np.where(np.arange(4) > 1, A8, np.int8(0)).astype("int8"),
)
case("rows join", "C5", "[v[0], a[0]]", {"v": V, "a": F}, np.asarray([V[0], F[0]], "float32"))
case("++ joins", "C5", "v ++ a", {"v": V, "a": F}, np.concatenate([V, F]).astype("float32"))
case("literals in a row", "C5", "[1, 2.5]", want=f64([1, 2.5]))
refused("a literal too large for its row", "C5", "[a[0], 300]", {"a": A8}, "Y1", "300", "int8")
refused("a literal too large beside an operand", "C5", "a + 300", {"a": A8}, "Y1", "300")
refused(
    "a negative literal beside uint8", "C5", "{ [i] -> i > 0 ? a[i] : -1 }", {"a": U8}, "Y1", "-1"
)
case(
    "a sum of int8 is int8",
    "C5",
    "sum(a)",
    {"a": np.asarray([1, 2, 3], "int8")},
    np.asarray(6, "int8"),
)
case("indices are weak", "C5", "{ [i] -> a[i] * shape(a)[0] }", {"a": F4}, F4 * np.float32(4))
case(
    "modarray takes the literal",
    "C5",
    "modarray(a, [1], 7)",
    {"a": A8},
    np.where(np.arange(4) == 1, 7, A8).astype("int8"),
)
case("where joins", "C5", "where(v > 0, v, 0.5)", {"v": V}, np.where(V > 0, V, 0.5))
refused("division by zero", "C5", "7 / (v[0] - v[0])", {"v": V}, "Y4", "division by zero")
refused("remainder by zero in an array", "C5", "{ [i] -> 7 % (i - 2) | [i] < [4] }", {}, "Y4")
case(
    "a float division by zero is infinite",
    "C5",
    "a / 0.0",
    {"a": np.asarray([1, -1], "float32")},
    np.asarray([np.inf, -np.inf], "float32"),
)

# --- C6: declared types ---------------------------------------------------------------------------

case("a size is a value", "C6", "int f(int[n] a) { return n * 10; }", [V], i32(50))
case("a rank is a value", "C6", "int[.] f(int[d:s] a) { return s * d; }", [T3], i32([6, 9, 12]))
case("two axes by name", "C6", "int[.] f(int[2:s] a) { return s; }", [M], i32([3, 4]))
case(
    "d: between sizes",
    "C6",
    "int[.] f(int[n,d:s,m] a) { return [n] ++ s ++ [m]; }",
    [ints(2, 3, 4, 5)],
    i32([2, 3, 4, 5]),
)
case("d: of no axes", "C6", "int f(int[n,d:s] a) { return d; }", [V], i32(0))
case(
    "an int fits a float parameter's literal",
    "C6",
    "float f(float x) { return x * 2; }",
    [3],
    np.asarray(6, "float32"),
)
case(
    "a weak result takes its declared type",
    "C6",
    "float f(int[n] a) { return 0.5; }",
    [V],
    np.asarray(0.5, "float32"),
)
case("a result widens", "C6", "double[*] f(float[*] a) { return a; }", [F], F.astype("float64"))
case("an int result widens to float", "C6", "double f(int a) { return a; }", [3], f64(3))
case(
    "an inner call checks sizes",
    "C6",
    "int[n] g(int[n] a, int[n] b) { return a + b; } int[*] f(int[*] a) { return g(a, a); }",
    [V],
    V + V,
    entry="f",
)
refused(
    "an inner call's sizes differ",
    "C6",
    "int[n] g(int[n] a, int[n] b) { return a + b; } int[*] f(int[*] a) { return g(a, drop([1], a)); }",  # noqa: E501
    [V],
    "C6",
    "[4]",
    entry="f",
)
refused("a result of another size", "C6", "int[n] f(int[n] a) { return drop([1], a); }", [V], "C6")
refused("a scalar is due", "C6", "int f(int a) { return a; }", [V], "C6", "[5]")
refused(
    "a number that is not the size", "C6", "int f(int[3] a) { return sum(a); }", [V], "C6", "[5]"
)
refused("another element type", "C6", "float f(float[*] a) { return sum(a); }", [V], "C6", "int32")
refused(
    "an inner argument of another type",
    "C6",
    "float g(float[*] a) { return sum(a); } float f(int[*] a) { return g(a); }",
    [V],
    "C6",
    entry="f",
)
refused("bool where int is due", "C6", "int f(int a) { return a; }", [True], "C6")

# --- C7: operators --------------------------------------------------------------------------------

case("a scalar beside an array", "C7", "2 * m - v[0]", {"m": M, "v": V}, 2 * M - V[0])
case("comparisons element by element", "C7", "m > 0 && m < 5", {"m": M}, (M > 0) & (M < 5))
case("an empty vector", "C7", "[]", want=np.zeros(0, "int32"))
case("arrays without elements", "C7", "e + e * 2", {"e": EMPTY}, EMPTY)
case("a row of matrices", "C7", "[m, m + 1]", {"m": M}, np.stack([M, M + 1]))
case("a row of one", "C7", "[v]", {"v": V}, V[None])
case("maths functions", "C7", "exp(a - a)", {"a": FM}, np.ones_like(FM))
case(
    "min and max of two",
    "C9",
    "max(v, 0) + min(v, w)",
    {"v": V, "w": W5},
    np.maximum(V, 0) + np.minimum(V, W5),
)
refused("a matrix and a vector", "C7", "m + v", {"m": M, "v": ints(4)}, "C7", "'+'", "[3,4]", "[4]")
refused("a column of ones", "C7", "m + c", {"m": M, "c": ints(3, 1)}, "C7", "[3,1]")
refused("rows of two ranks", "C7", "[v, 1]", {"v": V}, "C7")

# --- C8: selections -------------------------------------------------------------------------------

case("a vector and its sub-array", "C8", "t[[1,2]]", {"t": T3}, T3[1, 2])
case("fewer indices than axes", "C8", "t[1]", {"t": T3}, T3[1])
case("sel", "C8", "sel([1], m)", {"m": M}, M[1])
case("a dot and a scalar", "C8", "m[., 2]", {"m": M}, M[:, 2])
case("'...' in front", "C8", "t[..., 1]", {"t": T3}, T3[..., 1])
case("dots on both sides", "C8", "t[., 1, .]", {"t": T3}, T3[:, 1, :])
case("a scalar between '...' and a dot", "C8", "t[..., 1, .]", {"t": T3}, T3[:, 1, :])
case("all by a dot", "C8", "m[.]", {"m": M}, M)
case(
    "a gather along rows",
    "C8",
    "{ [i] -> m[., n[i]] }",
    {"m": M, "n": i32([3, 0])},
    np.stack([M[:, 3], M[:, 0]]),
)
case("an index vector from data", "C8", "m[n]", {"m": M, "n": i32([2, 1])}, i32(M[2, 1]))
refused("just past the end", "C8", "v[5]", {"v": V}, "C8", "5", "0..4")
refused("in the second axis", "C8", "m[2,4]", {"m": M}, "C8", "4", "0..3", "axis 1")
refused(
    "a gather past the end",
    "C8",
    "{ [i] -> v[n[i]] }",
    {"v": V, "n": i32([0, 5])},
    "C8",
    "5",
    "0..4",
)
refused(
    "a gather before the start", "C8", "{ [i] -> v[n[i]] }", {"v": V, "n": i32([0, -1])}, "C8", "-1"
)
refused("more indices than axes", "C8", "v[1,2]", {"v": V}, "C8")
refused("a stencil without a bound", "C8", "{ [i] -> v[i] + v[i+1] }", {"v": V}, "C8", "5", "0..4")
refused("a vector among scalars", "C8", "m[[1], 2]", {"m": M}, "C8")
refused("a selection of a scalar", "C8", "n[0]", {"n": np.asarray(3, "int32")}, "C8")
refused("of an array without rows", "C8", "e[0]", {"e": EMPTY}, "C8", "0")
case(
    "a guard in the bound",
    "C8",
    "{ [i] -> v[i] + v[i+1] | [i] < shape(v) - 1 }",
    {"v": V},
    V[:-1] + V[1:],
)
case(
    "cyclic neighbours",
    "C8",
    "{ iv -> m[(iv + 1) % shape(m)] | iv < shape(m) }",
    {"m": M},
    np.roll(M, (-1, -1), (0, 1)),
)

# --- C9: built-ins --------------------------------------------------------------------------------

case(
    "take from both ends",
    "C9",
    "take([2], v) ++ take([-2], v)",
    {"v": V},
    np.concatenate([V[:2], V[-2:]]),
)
case(
    "a part of a join with nothing",
    "C9",
    "drop([1], shape(x) ++ v) ++ take([1], shape(x) ++ v)",
    {"x": np.int32(3), "v": V},
    np.roll(V, -1),
)
case(
    "joins with nothing between",
    "C9",
    "v ++ shape(x) ++ drop([1], v ++ shape(x))",
    {"x": np.int32(3), "v": V},
    np.concatenate([V, V[1:]]),
)
case(
    "a shape of the shape of a scalar",
    "C9",
    "shape({ [i,j,k] -> 1 | [i,j,k] < w ++ shape(x) ++ [2] })",
    {"x": np.int32(3), "w": np.int32([4, 5])},
    np.int32([4, 5, 2]),
)
case("take of a scalar amount", "C9", "take(2, m)", {"m": M}, M[:2])
case("take of several axes", "C9", "take([-2, 3], m)", {"m": M}, M[-2:, :3])
case("take nothing", "C9", "take([0], m)", {"m": M}, M[:0])
case("drop of two axes", "C9", "drop([1, -2], m)", {"m": M}, M[1:, :-2])
case("drop all", "C9", "drop([5], v)", {"v": V}, V[:0])
case("an empty amount", "C9", "take([], m)", {"m": M}, M)
case("reverse the first axis", "C9", "reverse(m)", {"m": M}, M[::-1])
case("transpose all axes", "C9", "transpose(t)", {"t": T3}, T3.transpose())
case("reshape", "C9", "reshape([4, 3], m)", {"m": M}, M.reshape(4, 3))
case("reshape to a vector", "C9", "reshape([12], m)", {"m": M}, M.reshape(12))
case("genarray of a row", "C9", "genarray([2, 3], v)", {"v": V}, np.broadcast_to(V, (2, 3, 5)))
case(
    "modarray of an element",
    "C9",
    "modarray(m, [1, 2], 99)",
    {"m": M},
    np.where(np.arange(12).reshape(3, 4) == 6, 99, M).astype("int32"),
)
case("modarray of a row", "C9", "modarray(m, [1], m[0])", {"m": M}, np.stack([M[0], M[0], M[2]]))
case("iota of a number", "C9", "iota(4)", want=i32([0, 1, 2, 3]))
case("where by elements", "C9", "where(m > 0, m, -m)", {"m": M}, np.abs(M))
case("abs", "C9", "abs(v)", {"v": V}, np.abs(V))
case("zero", "C9", "zero(a) + a", {"a": F}, F)
case("any and all", "C9", "[any(v > 100), all(v < 100)]", {"v": V}, np.asarray([False, True]))
case(
    "minval of no integers beside halves",
    "C5 C9",
    "where(c, minval({ [i] -> i | [i] < [0] }), h)",
    {"h": np.float16([1, 2]), "c": np.array([True, False])},
    np.float16([np.inf, 2]),  # no half holds the greatest int
)
case("minval of nothing", "C9", "minval(v)", {"v": V[:0]}, i32(np.iinfo("int32").max))
case(
    "sum and prod of nothing",
    "C9",
    "[sum(a), prod(a)]",
    {"a": F[:0]},
    np.asarray([0, 1], "float32"),
)
case("maxval of bools", "C9", "maxval(v > 100)", {"v": V}, np.asarray(False))
case("prod of bools counts", "C9", "prod(v < 100)", {"v": V}, i32(1))
case("shape and dim", "C9", "shape(t) * dim(t)", {"t": T3}, i32([6, 9, 12]))
case("shape of a scalar", "C9", "shape(3)", want=np.zeros(0, "int32"))
case("tod", "C9", "tod(v) / 2", {"v": V}, V / 2)
case("tof", "C9", "tof(v) / 2", {"v": V}, V.astype("float32") / 2)
refused("take of too much", "C9", "take([6], v)", {"v": V}, "C9", "6 elements of 5")
refused("take of more axes", "C9", "take([1,1], v)", {"v": V}, "C9")
refused("reshape to another count", "C9", "reshape([5], m)", {"m": M}, "C9")
refused("++ of rows of two lengths", "C9", "m ++ t", {"m": M, "t": ints(2, 3)}, "C9")
refused("a negative reshape", "C9 C14", "reshape([-3, -4], m)", {"m": M}, "C9 C14")
refused("a negative iota", "C9 C14", "iota(-1)", {}, "C9 C14")
refused("modarray past the end", "C8 C9", "modarray(v, [5], 1)", {"v": V}, "C8 C9", "5")
refused("modarray of another shape", "C9 C13", "modarray(m, [1], v)", {"m": M, "v": V}, "C9 C13")

# --- C10: conditions, what is not computed --------------------------------------------------------

case("a branch that is not taken", "C10", "shape(v)[0] > 3 ? v[3] : v[99]", {"v": V}, i32(V[3]))
case(
    "an argument that is not needed",
    "C10",
    "int g(int a, int b) { return a; } int f(int[*] v) { return g(v[0], v[99]); }",
    [V],
    i32(V[0]),
    entry="f",
)
case("a variable that is not needed", "C10", "x = v[99]; v + 1", {"v": V}, V + 1)
case("|| stops", "C10", "shape(v)[0] < 9 || v[99] > 0", {"v": V}, np.asarray(True))
case("branches of two shapes", "C10", "n > 2 ? v : take([2], v)", {"v": V, "n": 1}, V[:2])
case(
    "if with else",
    "C10",
    "int f(int n) { if (n > 2) { r = 1; } else { r = 2; } return r; }",
    [1],
    i32(2),
)
case(
    "else if",
    "C10",
    "int f(int n) { if (n > 5) { r = 1; } else if (n > 2) { r = 2; } else { r = 3; } return r; }",
    [3],
    i32(2),
)
case(
    "a guard of a row",
    "C10",
    "{ [i] -> i > 0 ? v[i-1] : 0 | [i] < shape(v) }",
    {"v": V},
    np.concatenate([[0], V[:-1]]).astype("int32"),
)
case(
    "a data guard",
    "C10",
    "{ [i] -> n[i] >= 0 && n[i] < 5 ? v[n[i]] : -1 }",
    {"v": V, "n": i32([0, 7, -2, 4])},
    i32([V[0], -1, -1, V[4]]),
)
case(
    "a division that is guarded",
    "C10",
    "{ [i] -> v[i] != 0 ? 100 / v[i] : 0 }",
    {"v": i32([3, 0, -7])},
    i32([33, 0, -15]),
)
refused("a condition that is an array", "C10", "v > 0 ? 1 : 2", {"v": V}, "C10", "[5]")
refused(
    "an if's condition that is an array",
    "C10",
    "int f(int[*] v) { r = 1; if (v > 0) { r = 2; } return r; }",
    [V],
    "C10",
    "[5]",
)
refused(
    "set in one branch alone",
    "C10 C4",
    "int f(int n) { if (n > 2) { r = 1; } return r; }",
    [1],
    "C4",
    "'r'",
)

# --- C11 to C14: partitions -----------------------------------------------------------------------

case(
    "the rest is zero",
    "C11",
    "{ [i] -> v[i] | [2] <= [i] < [4] }",
    {"v": V},
    i32([0, 0, V[2], V[3]]),
)
case(
    "three partitions",
    "C11",
    "{ [i] -> 1 | [i] < [1]; [i] -> 2 | [3] <= [i] < [4]; [i] -> v[i] }",
    {"v": V},
    i32([1, V[1], V[2], 2, V[4]]),
)
case(
    "a default behind",
    "C11",
    "{ [i] -> v[i] | [1] <= [i] < [3]; iv -> 7 | iv < [6] }",
    {"v": V},
    i32([7, V[1], V[2], 7, 7, 7]),
)
case(
    "modarray by a last partition",
    "C11",
    "{ iv -> 0 | [1,1] <= iv < [2,3]; iv -> m[iv] }",
    {"m": M},
    np.where((np.arange(3)[:, None] == 1) & (np.arange(4) >= 1) & (np.arange(4) < 3), 0, M).astype(
        "int32"
    ),
)
case("bodies of rows", "C11", "{ [i] -> m[i] * i | [i] < [2] }", {"m": M}, i32([0 * M[0], M[1]]))
case(
    "a row's zero",
    "C11",
    "{ [i] -> m[i] | [1] <= [i] < [3] }",
    {"m": M},
    np.stack([0 * M[0], M[1], M[2]]),
)
case(
    "a covered body is not computed",
    "C11",
    "{ [i] -> 5 | [i] < [3]; [i] -> 12 / (i - 1) | [i] < [3] }",
    want=i32([5, 5, 5]),
)
case(
    "an empty partition is not computed",
    "C11",
    "{ [i] -> v[99] | [3] <= [i] < [2]; [i] -> v[i] }",
    {"v": V},
    V,
)
case("strict lower bounds", "C14", "{ [i] -> i | [1] < [i] < [4] }", want=i32([0, 0, 2, 3]))
case(
    "bounds that are computed",
    "C14",
    "{ [i,j] -> i * j | shape(m) / 3 <= [i,j] < shape(m) }",
    {"m": M},
    i32([[0] * 4, *[[i * j if j >= 1 else 0 for j in range(4)] for i in (1, 2)]]),
)
case("an empty result of rows", "C14", "{ [i] -> m[i] | [i] < [0] }", {"m": M}, M[:0])
case("no axis is looped", "C11", "{ iv -> 5 | iv < [] }", want=i32(5))
refused(
    "a range that leaves",
    "C12",
    "{ [i] -> 0 | [0] <= [i] < [4]; [i] -> 1 | [i] < [3] }",
    {},
    "C12",
    "[4]",
    "[3]",
)
refused(
    "a range that leaves in one axis",
    "C12",
    "{ [i,j] -> 0 | [0,2] <= [i,j] < [2,5]; iv -> m[iv] }",
    {"m": M},
    "C12",
)
refused(
    "a body of another shape",
    "C13",
    "{ [i] -> [1,2] | [i] < [1]; [i] -> m[i] }",
    {"m": M},
    "C13",
    "[2]",
    "[4]",
)
refused(
    "a pattern longer than the result",
    "C13",
    "{ [i,j,k] -> 0 | [i,j,k] < [1,1,1]; iv -> m[iv] }",
    {"m": M},
    "C12 C13 C14",
)
refused(
    "a negative size", "C14", "{ iv -> 0 | iv < shape(v) - 6 }", {"v": V}, "C14", "[-1]", "negative"
)
refused("a floating bound", "C14", "{ [i] -> i | [i] < [2.0] }", {}, "C14")
refused("a bound of rank 2", "C14", "{ iv -> 1 | iv < m }", {"m": M}, "C14")

# --- C15 to C18: bounds ---------------------------------------------------------------------------

case(
    "the lesser of two arrays",
    "C15",
    "{ [i] -> v[i] + b[i] }",
    {"v": V, "b": ints(3)},
    V[:3] + ints(3),
)
case(
    "an index vector by two arrays",
    "C15",
    "{ iv -> m[iv] * q[iv] }",
    {"m": M, "q": SQUARE},
    M * SQUARE[:3],
)
case("after '...'", "C15", "{ [i] -> sum(t[..., i]) }", {"t": T3}, T3.sum((0, 1)).astype("int32"))
case(
    "in the bound of an inner one",
    "C15",
    "{ [i] -> sum({ [j] -> j | [j] < [n[i]] }) }",
    {"n": i32([3, 0, 2])},
    i32([3, 0, 1]),
)
case("a selection through an expression", "C15", "{ [i] -> (v + 1)[i] }", {"v": V}, V + 1)
case(
    "a called function's selections bound nothing",
    "C15",
    "int g(int[*] v, int i) { return v[i]; } int[*] f(int[*] v) { return { [i] -> g(v, i) | [i] < [2] }; }",  # noqa: E501
    [V],
    V[:2],
    entry="f",
)
refused(
    "only a called function selects",
    "C15 C16",
    "int g(int[*] v, int i) { return v[i]; } int[*] f(int[*] v) { return { [i] -> g(v, i) }; }",
    [V],
    "C16",
    "i",
    entry="f",
)
refused("i+1 bounds nothing", "C15 C16", "{ [i] -> v[i+1] }", {"v": V}, "C16", "i")
case(
    "an incomplete earlier partition reaches the edge",
    "C16",
    "{ [i] -> 9 | [3] <= [i]; iv -> v[iv] }",
    {"v": V},
    i32([V[0], V[1], V[2], 9, 9]),
)
case(
    "an earlier bound ends at the edge",
    "C16",
    "{ [i] -> b[i]; [i] -> v[i] }",
    {"v": V, "b": ints(8, seed=4)},
    ints(8, seed=4)[:5],
)
case("'.' as lower bound", "C17", "{ [i] -> v[i] | . <= [i] < [3] }", {"v": V}, V[:3])
case(
    "'.' as upper bound of an earlier one",
    "C17",
    "{ [i] -> 0 | [2] <= [i] <= .; iv -> v[iv] }",
    {"v": V},
    i32([V[0], V[1], 0, 0, 0]),
)
refused("'< .'", "C18", "{ iv -> 0 | [1] <= iv < .; iv -> v[iv] }", {"v": V}, "C18", "<= .")

# --- C19: dots ------------------------------------------------------------------------------------

case("a dot behind", "C19", "{ [i, .] -> m[i] * 2 }", {"m": M}, M * 2)
case("a dot in front", "C19", "{ [., i] -> m[i] }", {"m": M}, M.T)
case(
    "axes that no dot takes come last",
    "C19",
    "{ [i] -> m | [i] < [2] }",
    {"m": M},
    np.stack([M, M]),
)
case(
    "a dot between",
    "C19",
    "{ [i, ., j] -> v + 10 * i + j | [i,j] < [2,3] }",
    {"v": V},
    V[None, :, None]
    + 10 * np.arange(2, dtype="int32")[:, None, None]
    + np.arange(3, dtype="int32")[None, None],
)
case(
    "'...' between",
    "C19",
    "{ [i, ..., j] -> m | [i,j] < [2,2] }",
    {"m": M},
    np.broadcast_to(M[None, :, :, None], (2, 3, 4, 2)),
)
case(
    "'...' and a dot behind it",
    "C19",
    "{ [..., i, .] -> t + i | [i] < [2] }",
    {"t": T3},
    np.stack([T3, T3 + 1], 2),
)
case(
    "an outer product",
    "C19",
    "{ [i, .] -> v[i] * w }",
    {"v": V, "w": W5},
    np.outer(V, W5).astype("int32"),
)
case(
    "a dotted partition over another",
    "C19",
    "{ [., j] -> v[0] + genarray([3], 0) | [1] <= [j] < [2]; iv -> m[iv] }",
    {"m": M, "v": V},
    np.stack([M[:, 0], np.full(3, V[0], "int32"), M[:, 2], M[:, 3]], 1),
)
refused(
    "more dots than axes",
    "C19",
    "{ [., i, .] -> v | [i] < [2] }",
    {"v": V},
    "C19",
    "2 dots",
    "1 ax",
)

# --- C21: with-loops ------------------------------------------------------------------------------

case(
    "genarray with a default row",
    "C21",
    "with { ([1] <= [i] < [2]) : v * 2; } : genarray([3], v)",
    {"v": V},
    np.stack([V, V * 2, V]),
)
case(
    "dots are the edges",
    "C21",
    "with { (. <= [i,j] <= .) : i - j; } : genarray([2, 3], 0)",
    want=i32([[0, -1, -2], [1, 0, -1]]),
)
case(
    "modarray of rows",
    "C21",
    "with { ([1] <= [i] < [3]) : m[0]; } : modarray(m)",
    {"m": M},
    np.stack([M[0], M[0], M[0]]),
)
case(
    "fold of max",
    "C21",
    "with { ([0] <= [i] < [5]) : v[i]; } : fold(max, -100)",
    {"v": V},
    i32(V.max()),
)
case(
    "fold of &&",
    "C21",
    "with { ([0] <= [i] < [5]) : v[i] < 100; } : fold(&&, true)",
    {"v": V},
    np.asarray(True),
)
case(
    "fold of a product with a start",
    "C21",
    "with { ([1] <= [i] <= [5]) : i; } : fold(*, 2)",
    want=i32(240),
)
case(
    "an element of a fold of arrays",
    "C8 C21",
    "with { ([0] <= [i] < [3]) : v * i; } : fold(+, v)[1]",
    {"v": V},
    i32(V[1] * 4),
)
LONG = np.arange(1, 41, dtype="int32")
COUNTS = (np.arange(30) % 7).astype("int32")
case(
    "running sums of many",
    "C9 C22 C26",
    "{ [i] -> sum(take([i + 1], v)) | [i] < shape(v) }",
    {"v": LONG},
    i32(np.cumsum(LONG)),
)
case(
    "what an index drops",
    "C9 C22 C26",
    "{ [i,j] -> sum(drop([i,j], reshape([8,5], v))) | [i,j] < [8,5] }",
    {"v": LONG},
    i32([[LONG.reshape(8, 5)[i:, j:].sum() for j in range(5)] for i in range(8)]),
)
case(
    "what data take",
    "C9 C22 C26",
    "{ [i] -> maxval(take(n[i], v) * 2) }",
    {"v": LONG, "n": COUNTS},
    i32([2 * int(LONG[:k].max()) if k else -(2**31) for k in COUNTS]),
)
case(
    "folds of nothing inside, of weak integers",
    "C9 C22",
    "{ [i] -> max(0 - 5, minval({ [j] -> dim(v) | [j] < [i] })) | [i] < [3] }",
    {"v": V},
    i32([2147483647, 1, 1]),
)
case(
    "folds of nothing inside, of bools",
    "C9 C22",
    "{ [i] -> [maxval({ [j] -> k < 0 | [j] < [i] }), minval({ [j] -> k > 0 | [j] < [i] })]"
    " | [i] < [3] }",
    {"k": np.int32(-7)},
    np.asarray([[False, True], [True, False], [True, False]]),
)
case(
    "the default of a fold of conditions",
    "C20 C21",
    "{ [i] -> with { ([1] <= [j] < [2]) : i; } : fold(&&, f) | [1] <= [i] < [3] }",
    {"f": np.float32(0.5)},
    np.asarray([False, True, True]),
)
case(
    "conditions that are fractions",
    "C21",
    "[with { ([0] <= [i] < [2]) : 0.25; } : fold(&&, 0.5),"
    " with { ([0] <= [i] < [2]) : f[i] - 0.25; } : fold(||, 0)]",
    {"f": np.float32([0.25, 0.25])},
    np.asarray([True, False]),
)
case("an empty fold is its neutral element", "C21", "with { } : fold(+, 7)", want=i32(7))
case(
    "statements before the body",
    "C21",
    "with { ([0] <= iv < [4]) { x = iv[0] * 2; y = x + 1; } : y; } : genarray([4], 0)",
    want=i32([1, 3, 5, 7]),
)
case(
    "a with-loop in a with-loop",
    "C21",
    "with { ([0] <= [i] < [2]) : with { ([0] <= [j] < [3]) : i * 3 + j; } : genarray([3], 0); } : genarray([2], [0,0,0])",  # noqa: E501
    want=np.arange(6, dtype="int32").reshape(2, 3),
)
refused(
    "a dot bounds a fold", "C21", "with { (. <= [i] < [3]) : i; } : fold(+, 0)", {}, "C21", "fold"
)
refused(
    "a body of another shape than the default",
    "C13 C21",
    "with { ([0] <= [i] < [2]) : v; } : genarray([2], 0)",
    {"v": V},
    "C13 C21",
)
refused(
    "a range beyond genarray's shape",
    "C12",
    "with { ([0] <= [i] < [4]) : i; } : genarray([3], 0)",
    {},
    "C12",
    "[4]",
)
refused(
    "a fold's body of another shape",
    "C13 C21",
    "with { ([0] <= [i] < [2]) : v; } : fold(+, 0)",
    {"v": V},
    "C13 C21",
)

# --- C22, C23: shapes on demand -------------------------------------------------------------------

case("the shape reads nothing", "C22", "shape(m[[7]])", {"m": M}, i32([4]))
case("the rank of a sum is known", "C22", "dim(sum(m)) + dim(m[0])", {"m": M}, i32(1))
case("the shape of a division by zero", "C22", "shape(v / 0)", {"v": V}, i32([5]))
case("no instance of an empty range", "C23", "{ [i] -> e[i] + reverse(e[i]) }", {"e": EMPTY}, EMPTY)
case(
    "a body that divides by its index",
    "C23",
    "{ [i] -> [12 / i, i] | [1] <= [i] < [4] }",
    want=i32([[0, 0], [12, 1], [6, 2], [4, 3]]),
)
case("nested empty ranges", "C23", "{ [i] -> { [j] -> e[i,j] * 2 } }", {"e": EMPTY}, EMPTY)
case("a sum over no rows", "C23", "{ [j] -> sum(e[., j]) }", {"e": EMPTY}, np.zeros(5, "int32"))
refused(
    "the last body's shape needs the index",
    "C23",
    "{ [i] -> take([i], v) | [i] < [3] }",
    {"v": V},
    "C23",
    "depends on the value of i",
)
refused(
    "the last body's iota needs the index",
    "C23",
    "{ [i] -> iota(i + 1) | [i] < [3] }",
    {},
    "C23",
    "i",
)

# --- C24: static demand ---------------------------------------------------------------------------

needs("the value needs all", "{ iv -> a[iv] + 1 }", "F", a="F")
needs("a shape's shape", "shape(a)", "D", a="N")
needs("an element of a shape", "int f(int[*] a) { return shape(a)[0]; }", "F", a="S")
needs(
    "take needs the amount",
    "int[*] f(int[.] n, int[*] a) { return take(n, a); }",
    "S",
    n="F",
    a="S",
)
needs("a rank of take", "int[*] f(int[.] n, int[*] a) { return take(n, a); }", "D", n="N", a="D")
needs("iota's shape", "int[*] f(int n) { return iota(n); }", "S", n="F")
needs("a sum's shape", "int f(int[*] a) { return sum(a); }", "S", a="N")
needs(
    "both branches",
    "int[*] f(bool c, int[*] a, int[*] b) { return c ? a : b; }",
    "F",
    c="F",
    a="F",
    b="F",
)
needs("reverse", "int[*] f(int[*] a) { return reverse(a); }", "S", a="S")
needs("nothing of nothing", "int[*] f(int[*] a, int[*] b) { return a; }", "F", a="F", b="N")
needs(
    "an outer product's rank",
    "float[*] f(float[.] v, float[*] w) { return { [i] -> v[i] * w }; }",
    "D",
    v="N",
    w="D",
)

needs(
    "a reshaped array", "int[*] f(int[.] n, int[*] a) { return reshape(n, a); }", "S", n="F", a="N"
)
needs("its rank", "int[*] f(int[.] n, int[*] a) { return reshape(n, a); }", "D", n="S", a="N")
needs("genarray", "int[*] f(int[.] n, int[*] a) { return genarray(n, a); }", "S", n="F", a="S")
needs("its rank too", "int[*] f(int[.] n, int[*] a) { return genarray(n, a); }", "D", n="S", a="D")
needs("modarray", "int[*] f(int[*] a, int[*] x) { return modarray(a, [0], x); }", "S", a="S", x="N")
needs("a bound's length", "int[*] f(int[.] n) { return { iv -> 1 | iv < n }; }", "D", n="S")
needs("a bound", "int[*] f(int[.] n) { return { iv -> 1 | iv < n }; }", "S", n="F")
needs("a bound of a pattern", "int[*] f(int[.] n) { return { [i] -> i | [i] < n }; }", "D", n="N")
needs(
    "a condition picks the shape",
    "int[*] f(bool c, int[*] a, int[*] b) { return c ? a : b; }",
    "S",
    c="F",
    a="S",
    b="S",
)
needs("a selection's shape", "int[*] f(int[*] a, int[.] k) { return a[k]; }", "S", a="S", k="S")
needs(
    "a fold's",
    "int[*] f(int[*] a, int[*] s) { return with { ([0] <= [i] < [3]) : a[i]; } : fold(+, s); }",
    "S",
    a="N",
    s="S",
)
needs(
    "a scalar condition's branches",
    "int[*] f(bool c, int[.] a, int[.] b) { return c ? a : b; }",
    "D",
    c="N",
    a="N",
    b="N",
)
needs(
    "an argument that a call leaves alone",
    "int f(int[*] a, int[*] b) { return g(b, a); } int g(int[*] x, int[*] y) { return sum(x); }",
    "F",
    entry="f",
    a="N",
    b="F",
)

# --- C25: from Python -----------------------------------------------------------------------------

case("Python's numbers are weak", "C25", "a * h", {"a": F, "h": 0.5}, F * np.float32(0.5))
case(
    "lists of Python's numbers are weak",
    "C25",
    "a * h[0]",
    {"a": F, "h": [2, 3]},
    F * np.float32(2),
)
case("a list of lists", "C25", "sum(h)", {"h": [[1, 2], [3, 4]]}, i32(10))
case("a Python bool", "C25", "b ? 1 : 2", {"b": True}, i32(1))
refused("an input is missing", "C25", "a + b", {"a": V}, "C25", "'b'", "missing")
refused("complex numbers", "C25", "a + 1", {"a": np.ones(3, "complex64")}, "C25")
refused("a list of rows of two lengths", "C25", "sum(a)", {"a": [[1, 2], [3]]}, "C25")
refused("positional inputs of an expression", "C25", "a - b", [V, V], "C25")

# --- C26: programs --------------------------------------------------------------------------------

X3, W3 = floats(7, seed=5), floats(3, seed=6)
CONV = "float[*] conv(float[*] x, float[*] w) { return { iv -> sum({ ov -> x[iv+ov] * w[ov] }) | iv < shape(x) - shape(w) + 1 }; }"  # noqa: E501
case("convolution of rank 1", "C26", CONV, [X3, W3], np.correlate(X3, W3, "valid"))
case(
    "softmax of rows",
    "C26",
    "{ [i] -> exp(m[i] - maxval(m[i])) / sum(exp(m[i] - maxval(m[i]))) }",
    {"m": FM},
    np.exp(FM - FM.max(1, keepdims=True))
    / np.exp(FM - FM.max(1, keepdims=True)).sum(1, keepdims=True),
)
case("a triangle", "C26", "{ [i,j] -> j <= i ? a[i,j] : 0 }", {"a": SQUARE}, np.tril(SQUARE))
case(
    "a prefix sum",
    "C26",
    "{ [i] -> sum({ [j] -> v[j] | [j] <= [i] }) | [i] < shape(v) }",
    {"v": V},
    np.cumsum(V).astype("int32"),
)
case(
    "one-hot",
    "C26",
    "{ [i,j] -> toi(n[i] == j) | [i,j] < shape(n) ++ [4] }",
    {"n": i32([2, 0, 3])},
    np.eye(4, dtype="int32")[[2, 0, 3]],
)
case(
    "the inverse of a permutation",
    "C26",
    "{ [j] -> sum({ [i] -> p[i] == j ? i : 0 }) | [j] < shape(p) }",
    {"p": i32([2, 0, 1, 3])},
    i32([1, 2, 0, 3]),
)
case(
    "a shape from the data of a vector",
    "C26",
    "genarray(n, 1) ",
    {"n": i32([2, 3])},
    np.ones((2, 3), "int32"),
)
case(
    "a bound from data",
    "C26",
    "{ [i] -> i * i | [i] < [maxval(v) + 1] }",
    {"v": i32([1, 4, 2])},
    i32([0, 1, 4, 9, 16]),
)
case(
    "pairs",
    "C26",
    "float[n] dist(float[n,d] p, float[d] q) { return { [i] -> sqrt(sum((p[i] - q) * (p[i] - q))) }; }",  # noqa: E501
    [floats(4, 3), floats(3, seed=9)],
    np.sqrt(((floats(4, 3) - floats(3, seed=9)) ** 2).sum(1)),
)
case(
    "a pipeline of three",
    "C26",
    "a = { iv -> x[iv] * 2 }; b = { [i] -> a[i] + a[i+1] | [i] < shape(a) - 1 }; { [i] -> b[i] * b[i] }",  # noqa: E501
    {"x": X3},
    (2 * X3[:-1] + 2 * X3[1:]) ** 2,
)
case(
    "a batch of matrix products",
    "C26",
    "{ [b,i,j] -> sum({ [k] -> x[b,i,k] * y[b,k,j] }) }",
    {"x": floats(2, 3, 4), "y": floats(2, 4, 5, seed=2)},
    floats(2, 3, 4) @ floats(2, 4, 5, seed=2),
)
case(
    "a matrix product by rows",
    "C26",
    "{ [i,j] -> sum(a[i] * b[., j]) }",
    {"a": FM, "b": floats(4, 2, seed=8)},
    FM @ floats(4, 2, seed=8),
)
THIRDS = np.array([1 / 3, 2 / 3, 0.1])
case(
    "weights of numbers alone are double",
    "C5 C26",
    "c = [1.0/3.0, 2.0/3.0, 0.1]; { [i] -> c[i%3] * a[i] }",
    {"a": D},
    THIRDS[np.arange(5) % 3] * D,
)
case(
    "an array of numbers alone, selected by data",
    "C5 C26",
    "s = { [k] -> exp(0.1 * k) | [k] < [10] }; { [i] -> s[abs(n[i])] * s[i] | [i] < [5] }",
    {"n": V},
    np.exp(0.1 * np.abs(V)) * np.exp(0.1 * np.arange(5)),
)
case(
    "a sum of numbers alone is double",
    "C5 C26",
    "t = sum({ [k] -> 1.0/(k+1) | [k] < [10] }); { [i] -> (t + 1.0) * a[i] }",
    {"a": D},
    (sum(1 / (k + 1) for k in range(10)) + 1) * D,
)
case(
    "a sum of indices that no int32 holds",
    "C5 C26",
    "{ [i] -> sum({ [k] -> k*100000 | [k] < [100000] }) + n[i] }",
    {"n": V.astype("int64")},
    499995000000000 + V.astype("int64"),
)
case(
    "the rank of a comprehension whose bound is as long as a row",
    "C22 C24",
    "{ [i] -> 9 * i | [0] <= [i] < (0 * shape(a) + [4]) }[..., 3]",
    {"a": V},
    i32(27),
)
case(
    "the rank of a comprehension whose bound is taken",
    "C22 C24",
    "{ [i, j] -> sel([(j + 2) % 3], { [k] -> 2 * k | [k] < take([1], shape(a)) }) | [i, j] < [1, 3] }",  # noqa: E501
    {"a": M},
    i32([[4, 0, 2]]),
)
case(
    "weights that are one as floats, and not as integers",
    "C5 C26",
    "w = [9007199254740992, 9007199254740993]; { [i] -> sum({ [k] -> w[k] * n[i + k] | [k] < [2] }) | [i] < [4] }",  # noqa: E501
    {"n": V.astype("int64")},
    2**53 * V[:-1].astype("int64") + (2**53 + 1) * V[1:].astype("int64"),
)


# --- what generated programs alone, or none, had told of changed rules ----------------------------

refused(
    "sizes that one result fixes for the next",
    "C6",
    "int[n], int[n] f(int[*] a, int[*] b) { return (a, b); }",
    [V, ints(3)],
    "C6",
    "[3]",
)
case(
    "sizes that results share",
    "C6",
    "int[n], int[n,n] f(int[*] a, int[*] b) { return (a, b); }",
    [ints(4), SQUARE],
    (ints(4), SQUARE),
)
case(
    "a default has a wider type than the bodies",
    "C5 C21",
    "with { ([0] <= [i] < [3]) : v[i]; } : genarray([4], 0.5)",
    {"v": V},
    f64([*V[:3], 0.5]),
)
case(
    "an array has a narrower type than the bodies",
    "C5 C21",
    "with { ([1] <= [i] < [3]) : 0.5 * v[i]; } : modarray(v)",
    {"v": V},
    f64([V[0], 0.5 * V[1], 0.5 * V[2], V[3], V[4]]),
)
case(
    "'.' of an axis behind a dot",
    "C17 C19",
    "{ [.,j] -> m[.,0] | [1] <= [j] <= .; iv -> m[iv] }",
    {"m": M},
    np.repeat(M[:, :1], 4, 1),
)
case(
    "'.' of an axis behind '...'",
    "C17 C19",
    "{ [...,k] -> t[...,0] * k | [2] <= [k] <= .; iv -> t[iv] }",
    {"t": T3},
    np.concatenate([T3[..., :2], T3[..., :1] * i32([2, 3])], -1),
)

# --- ranks 3 and 4, empty axes, all element types, as an outside judge would draw them ------------

Q4 = ints(2, 3, 2, 3, seed=11)
NO_COLUMNS = np.zeros((3, 0), "int32")
TYPES = ("uint8", "int8", "int16", "uint16", "uint32", "int64")
for _dtype in TYPES:
    _low = 0 if _dtype.startswith("u") else -99
    _given = ints(5, seed=12, low=_low, high=100, dtype=_dtype)
    case(
        f"quotient and remainder of {_dtype}",
        "C5",
        "a / 7 * 7 + a % 7",
        {"a": _given},
        _given,
    )
    case(
        f"a literal partition of {_dtype}",
        "C5 C11",
        "{ [i] -> a[i] | [1] <= [i] < [3]; [i] -> 2 | [i] < [5] }",
        {"a": _given},
        np.array([2, _given[1], _given[2], 2, 2], _dtype),
    )
    case(f"{_dtype} beside a fraction", "C5", "a * 0.5", {"a": _given}, _given * 0.5)
case(
    "uint32 and an index",
    "C5",
    "{ [i] -> a[i] + i }",
    {"a": np.uint32([7, 2**32 - 1])},
    np.int64([7, 2**32]),
)
case("a dot, '...' and indices", "C8", "q[.,1,...,2]", {"q": Q4}, Q4[:, 1, :, 2])
case("selections one after another", "C8", "q[[1]][2][[1,0]]", {"q": Q4}, i32(Q4[1, 2, 1, 0]))
case(
    "an index that is turned round",
    "C8",
    "{ iv -> t[reverse(iv)] | iv < reverse(shape(t)) }",
    {"t": T3},
    T3.transpose(),
)
case("an index in two parts", "C8", "{ iv -> t[iv ++ [2]] | iv < [2,3] }", {"t": T3}, T3[..., 2])
case("a row of an array without columns", "C8", "e[1]", {"e": NO_COLUMNS}, NO_COLUMNS[1])
case(
    "all index vectors",
    "C9",
    "iota([2,3])",
    {},
    np.stack(np.meshgrid(range(2), range(3), indexing="ij"), -1).astype("int32"),
)
case("index vectors of nothing", "C9", "iota([0,2])", {}, np.zeros((0, 2, 2), "int32"))
case("take from the end of two axes", "C9", "take([2,-1], t)", {"t": T3}, T3[:2, -1:])
case(
    "sums of what is left out",
    "C9",
    "{ [i] -> sum(modarray(v, [i], 0)) | [i] < [5] }",
    {"v": V},
    i32([V.sum() - x for x in V]),
)
case(
    "what an index takes from the end",
    "C9",
    "{ [i] -> sum(take([-i], v)) | [i] < [6] }",
    {"v": V},
    i32([V[5 - i :].sum() for i in range(6)]),
)
case(
    "a row partition below an element partition",
    "C13",
    "{ iv -> 7 | [1,1] <= iv < [2,2]; [i] -> m[i] }",
    {"m": M},
    np.where((np.arange(3)[:, None] == 1) & (np.arange(4) == 1), 7, M).astype("int32"),
)
case(
    "three variables by two arrays",
    "C15",
    "{ [i,j] -> v[i] > 0 ? m[j,i] : w[j] }",
    {"m": M, "v": V, "w": W5},
    i32([[M[j, i] if V[i] > 0 else W5[j] for j in range(3)] for i in range(4)]),
)
case(
    "'...' before a variable and a dot",
    "C15 C19",
    "{ [i] -> sum(t[..., i, .]) }",
    {"t": T3},
    T3.sum((0, 2)).astype("int32"),
)
case(
    "an incomplete partition with a lower bound",
    "C16",
    "{ [i,j] -> v[i] | [1,2] <= [i,j]; iv -> m[iv] }",
    {"m": M, "v": V},
    i32([[V[i] if i >= 1 and j >= 2 else M[i, j] for j in range(4)] for i in range(3)]),
)
case(
    "a dotted body below an empty variable",
    "C19",
    "{ [.,i,j] -> v + i | [i,j] < [2,0] }",
    {"v": V},
    np.zeros((5, 2, 0), "int32"),
)
case("nested dots", "C19", "{ [i,.] -> { [.,j] -> t[i,.,j] } }", {"t": T3}, T3)
case(
    "rows that an index pads",
    "C23",
    "{ [i] -> take([i], v) ++ genarray([4-i], 0) | [i] < [5]; iv -> 0 | iv < [5,4] }",
    {"v": V},
    i32([[V[j] if j < i else 0 for j in range(4)] for i in range(5)]),
)
case(
    "the shape of instances that fail",
    "C22",
    "shape(with { ([0] <= [i] < [9]) : 1 / 0; } : genarray([3], v))",
    {"v": V},
    i32([3, 5]),
)
case(
    "a torus of rank 3",
    "C26",
    "{ iv -> t[(iv + [1,0,2]) % shape(t)] | iv < shape(t) }",
    {"t": T3},
    np.roll(T3, (-1, 0, -2), (0, 1, 2)),
)
case(
    "a convolution of rank 3",
    "C26",
    CONV,
    [floats(4, 4, 4), floats(2, 2, 2, seed=4)],
    sum(
        floats(2, 2, 2, seed=4)[k] * floats(4, 4, 4)[tuple(slice(n, n + 3) for n in k)]
        for k in np.ndindex(2, 2, 2)
    ),
)
case(
    "where the greatest stand",
    "C26",
    "{ [i] -> all({ [j] -> v[j] <= v[i] }) ? 1 : 0 }",
    {"v": V},
    i32(V.max() == V),
)
case(
    "strict and other bounds that an index decides",
    "C14 C26",
    "{ [i] -> with { ([0] < [j] <= [i]) : v[j]; } : fold(+, 0) | [i] < [4] }",
    {"v": V},
    i32([V[1 : i + 1].sum() for i in range(4)]),
)
case(
    "weights of which some are 1",
    "C26",
    "w = [1,2,1,0]; { [i] -> sum({ [k] -> w[k] * v[i+k] | [k] < [4] }) | [i] < [2] }",
    {"v": V},
    i32([V[i] + 2 * V[i + 1] + V[i + 2] for i in range(2)]),
)

for _rank in range(5):
    _array = ints(*(2, 3, 4, 5)[:_rank], seed=13)
    case(f"transpose of rank {_rank}", "C9", "transpose(a)", {"a": _array}, i32(_array.transpose()))
    case(
        f"transpose of a sum of rank {_rank}, and a part of it",
        "C9",
        "b = transpose(a + a); [b, b][1]",
        {"a": _array},
        i32(2 * _array.transpose()),
    )
case(
    "a body without elements is not computed",
    "C11",
    "{ [i] -> genarray([0], 7 / (i - i)) | [i] < [3] }",
    {},
    np.zeros((3, 0), "int32"),
)
case(
    "a body without elements need not fit",
    "C11 C13",
    "{ [i] -> [1,2] | [i] < [2]; [i] -> genarray([0], 0) | [i] < [3] }",
    {},
    np.zeros((3, 0), "int32"),
)
BOOLS = np.array([True, False, True])
case(
    "least and greatest of no bools",
    "C9",
    "{ [i] -> [minval(take([i], b)), maxval(take([i], b))] | [i] < [4] }",
    {"b": BOOLS},
    np.array([[all(BOOLS[:k]), any(BOOLS[:k])] for k in range(4)]),
)
case(
    "least and greatest of no floats",
    "C9",
    "{ [i] -> [minval(take([i], a)), maxval(take([i], a))] | [i] < [3] }",
    {"a": F},
    np.array(
        [[min(F[:k], default=np.inf), max(F[:k], default=-np.inf)] for k in range(3)], "float32"
    ),
)
case(
    "folds of nothing alone",
    "C9",
    "e = take([0], b); [minval(e), maxval(e), any(e), all(e)]",
    {"b": BOOLS},
    np.array([True, False, False, True]),
)
case(
    "folds of no floats alone",
    "C9",
    "e = drop([6], a); [minval(e), maxval(e), sum(e), prod(e)]",
    {"a": F},
    np.array([np.inf, -np.inf, 0, 1], "float32"),
)
case(
    "neutral elements that are no identity",
    "C21",
    "[with { ([0] <= [i] < [4]) : v[i]; } : fold(+, 5), with { ([0] <= [i] < [4]) : v[i]; } : fold(*, 3), with { ([0] <= [i] < [4]) : v[i]; } : fold(max, 100)]",  # noqa: E501
    {"v": V},
    i32([5 + V[:4].sum(), 3 * V[:4].prod(), 100]),
)
