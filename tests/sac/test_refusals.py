"""What the shapes or the data of the inputs make wrong: class, rule, place, underlined text,
numbers, and repairs, which are executed and give what was meant."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tc
import tc.sac

V = np.arange(4, dtype=np.int32) + 1
W = np.int32([7, 1])
M = np.arange(12, dtype=np.int32).reshape(3, 4) - 5
T = np.arange(6, dtype=np.int32).reshape(1, 2, 3)
B = np.int8([1, 2])
F = np.float32([0.5, 1.5, 2.5])
GIVEN = {"v": V, "w": W, "m": M, "t": T, "b": B, "f": F}


@dataclass(frozen=True)
class Refusal:
    """`marked` is the text that is underlined, `due` what the repaired text gives, or the text with
    the example of an idiom."""

    text: str
    kind: type[tc.TCError]
    rule: str
    cause: str
    marked: str
    repaired: str | None = None
    due: Any = None
    entry: str | None = None
    inputs: tuple[Any, ...] = field(default=())
    example: str | None = None


R, C, A = tc.RangeError, tc.CheckError, tc.AccessError
ENDS = "no upper bound for i can be inferred in the last partition: add one, '| [i] < ...'"
REFUSALS = [
    Refusal("v[-1]", R, "C8", "index -1 is outside 0..3 of axis 0, shape [4]", "v[-1]",
            "v[shape(v)[0]-1]", V[-1]),
    Refusal("m[0, - 1]", R, "C8", "index -1 is outside 0..3 of axis 1, shape [3,4]", "m[0, - 1]",
            "m[0, shape(m)[1]-1]", M[0, -1]),
    Refusal("m[[-2, 1]]", R, "C8", "index -2 is outside 0..2 of axis 0, shape [3,4]", "m[[-2, 1]]",
            "m[[shape(m)[0]-2, 1]]", M[-2, 1]),
    Refusal("{ [i] -> m[i,-1] }", R, "C8", "index -1 is outside 0..3 of axis 1, shape [3,4], at "
            "[i] = [0]", "m[i,-1]", "{ [i] -> m[i,shape(m)[1]-1] }", M[:, -1]),
    Refusal("m[3]", R, "C8", "index 3 is outside 0..2 of axis 0, shape [3,4]", "m[3]"),
    Refusal("m[5, 0]", R, "C8", "index 5 is outside 0..2 of axis 0, shape [3,4]", "m[5, 0]"),
    Refusal("m[1,2,3]", R, "C8", "3 indices for 2 axes, shape [3,4]", "m[1,2,3]"),
    Refusal("{ [i] -> { iv -> t[[i]++iv, 2] | iv < [2] } | [i] < [1] }", C, "C8",
            "'[i]++iv' among several items of a selection has shape [2], and each of them is a "
            "scalar", "t[[i]++iv, 2]",
            "{ [i] -> { iv -> t[[i]++iv ++ [2]] | iv < [2] } | [i] < [1] }", T[:, :, 2]),
    Refusal("m + v", R, "C7", "'+': shapes [3,4] and [4] differ, and neither is a scalar", "m + v",
            "{ [i] -> m[i] + v }", M + V),
    Refusal("f - m", R, "C7", "'-': shapes [3] and [3,4] differ, and neither is a scalar", "f - m",
            "{ [i] -> f[i] - m[i] }", (F[:, None] - M)),
    Refusal("2 * (v < m)", R, "C7", "'<': shapes [4] and [3,4] differ, and neither is a scalar",
            "v < m", "2 * ({ [i] -> v < m[i] })", 2 * (V < M)),
    Refusal("m + w", R, "C7", "'+': shapes [3,4] and [2] differ, and neither is a scalar", "m + w"),
    Refusal("{ [i] -> v[i] + v[i+1] }", R, "C8", "index 4 is outside 0..3 of axis 0, shape [4], at "
            "[i] = [3]", "v[i+1]", "{ [i] -> v[i] + v[i+1] | [i] < shape(v) - 1 }", V[:-1] + V[1:]),
    Refusal("{ [i] -> v[i+1] - v[i+2] }", C, "C16", ENDS, "[i]",
            "{ [i] -> v[i+1] - v[i+2] | [i] < shape(v) - 2 }", V[1:-1] - V[2:]),
    Refusal("{ [i] -> v[i] - v[i-1] }", R, "C8", "index -1 is outside 0..3 of axis 0, shape "
            "[4], at "
            "[i] = [0]", "v[i-1]", "{ [i] -> v[i] - v[i-1] | [1] <= [i] < shape(v) }",
            np.r_[0, V[1:] - V[:-1]]),
    Refusal("{ iv -> m[iv] + m[iv-1] + m[iv+1] }", R, "C8", "index -1 is outside 0..2 of axis 0, "
            "shape [3,4], at iv = [0,0]", "m[iv-1]",
            "{ iv -> m[iv] + m[iv-1] + m[iv+1] | 0 * shape(m) + 1 <= iv < shape(m) - 1 }",
            np.pad((M[1:-1, 1:-1] + M[:-2, :-2] + M[2:, 2:]), ((1, 0), (1, 0)))),
    Refusal("{ [i,j] -> m[i,j] + m[i+1,j] }", R, "C8", "index 3 is outside 0..2 of axis 0, shape "
            "[3,4], at [i,j] = [2,0]", "m[i+1,j]",
            "{ [i,j] -> m[i,j] + m[i+1,j] | [i,j] < [shape(m)[0] - 1, shape(m)[1]] }",
            M[:-1] + M[1:]),
    Refusal("{ [i] -> v[w[i]] }", A, "C8", "index 7 is outside 0..3 of axis 0, shape [4], at [i] = "
            "[0]", "v[w[i]]"),
    Refusal("{ [i] -> 12 / (v[i] - 2) }", A, "Y4", "integer division by zero, at [i] = [1]",
            "12 / (v[i] - 2)"),
    Refusal("{ [i,j] -> v[i] + j }", C, "C16", "no upper bound for j can be inferred in the last "
            "partition: add one, '| [i,j] < ...'", "[i,j]"),
    Refusal("{ [i,j] -> v[i,j] }", C, "C16", "no upper bound for j can be inferred in the last "
            "partition: 2 indices for 1 axes, shape [4]", "v[i,j]"),
    Refusal("{ [i] -> take([i], v) | [i] < [3] }", C, "C23", "the shape of the last partition's "
            "body depends on the value of i: give the shape by a further partition", "take([i], "
            "v)", "{ [i] -> { iv -> take([i], v)[iv]; iv -> 0 | iv < [2] } | [i] < [3] }",
            np.int32([[0, 0], [1, 0], [1, 2]])),
    Refusal("{ [i] -> 7 | [i] < [9]; iv -> v[iv] }", R, "C12", "the range [0] <= [i] < [9] leaves "
            "the result, shape [4]", "[i] < [9]", "{ [i] -> 7 | [i] <= .; iv -> v[iv] }",
            np.int32([7, 7, 7, 7])),
    Refusal("{ [i] -> 7 | [i] < [w[0]]; iv -> v[iv] }", A, "C12", "the range [0] <= [i] < [7] "
            "leaves the result, shape [4]", "[i] < [w[0]]", "{ [i] -> 7 | [i] <= .; iv -> v[iv] }",
            np.int32([7, 7, 7, 7])),
    Refusal("{ [i] -> 7 | [i] < [1]; iv -> take([0], v)[iv] }", R, "C12", "the range [0] <= [i] < "
            "[1] leaves the result, shape [0]", "[i] < [1]",
            "{ [i] -> 7 | [i] <= .; iv -> take([0], v)[iv] }", V[:0]),
    Refusal("{ [i] -> 7 | [-1] <= [i] < [2]; iv -> v[iv] }", R, "C12", "the range [-1] <= [i] < "
            "[2] leaves the result, shape [4]", "[-1] <= [i] < [2]",
            "{ [i] -> 7 | . <= [i] < [2]; iv -> v[iv] }", np.int32([7, 7, 3, 4])),
    Refusal("with { ([1] <= [i] <= shape(v)) : 0; } : modarray(v)", R, "C12", "the range [1] <= "
            "[i] < [5] leaves the result, shape [4]", "[1] <= [i] <= shape(v)",
            "with { ([1] <= [i] <= .) : 0; } : modarray(v)", np.int32([1, 0, 0, 0])),
    Refusal("{ [i] -> t[i] * f }", R, "C7", "'*': shapes [2,3] and [3] differ, and neither is a "
            "scalar", "t[i] * f", "{ [i] -> { [j] -> t[i][j] * f } }", T * F),
    Refusal("i = m; j = v; 1 + max(j, i * 2)", R, "C7", "'max': shapes [4] and [3,4] differ, and "
            "neither is a scalar", "max(j, i * 2)",
            "i = m; j = v; 1 + { [k] -> max(j, (i * 2)[k]) }", 1 + np.maximum(V, M * 2)),
    Refusal("where(m > 0, 1, v)", R, "C7", "'where': shapes [3,4] and [4] differ, and neither is a "
            "scalar", "where(m > 0, 1, v)", "{ [i] -> where((m > 0)[i], 1, v) }",
            np.where(M > 0, 1, V)),
    Refusal("v[-5]", R, "C8", "index -5 is outside 0..3 of axis 0, shape [4]", "v[-5]"),
    Refusal("modarray(v, [-1], 9)", R, "C8", "index -1 is outside 0..3 of axis 0, shape [4]",
            "modarray(v, [-1], 9)", "modarray(v, shape(v)[0]-1, 9)", np.int32([1, 2, 3, 9])),
    Refusal("modarray(m, [1], 0)", R, "C9", "modarray puts an array of shape [] where [1] leaves "
            "room for [4]", "0", "modarray(m, [1], genarray([4], 0))",
            np.where(np.arange(3)[:, None] == 1, 0, M)),
    Refusal("m ++ v", R, "C9", "'++' joins along the first axis, but shapes [3,4] and [4] differ "
            "in another one", "m ++ v", "m ++ [v]", np.concatenate([M, [V]])),
    Refusal("v ++ m", R, "C9", "'++' joins along the first axis, but shapes [4] and [3,4] differ "
            "in another one", "v ++ m", "[v] ++ m", np.concatenate([[V], M])),
    Refusal("take(v, [2])", R, "C9", "take([1,2,3,4], ...): 4 amounts for 1 axes, shape [1]",
            "take(v, [2])", "take([2], v)", V[:2]),
    Refusal("reshape(m, [12])", R, "C9", "the shape of reshape has shape [3,4]; it is a vector of "
            "integers or one integer", "m", "reshape([12], m)", M.reshape(12)),
    Refusal("reshape([2, -1], m)", C, "C14", "the shape [2,-1] has a negative size", "[2, -1]",
            "reshape([2, prod(shape(m)) / 2], m)", M.reshape(2, -1)),
    Refusal("{ [i,j] -> m[i,j] | [i,j] < 3 }", C, "C14", "the upper bound [3] has 1 elements, the "
            "index [i,j] 2", "3", "{ [i,j] -> m[i,j] | [i,j] < [3, 3] }", M[:3, :3]),
    Refusal("{ [i] -> 0 | [i] < [1]; [i] -> m[i] }", R, "C13", "the body at [i] = [0] has shape "
            "[], the result has room for [4]", "0",
            "{ [i] -> genarray([4], 0) | [i] < [1]; [i] -> m[i] }",
            np.where(np.arange(3)[:, None] < 1, 0, M)),
    Refusal("with { ([0] <= [i] < [2]) : m[i]; } : fold(+, 0)", R, "C21", "the body at [i] = [0] "
            "has shape [4], the neutral element []", "m[i]",
            "with { ([0] <= [i] < [2]) : m[i]; } : fold(+, genarray([4], 0))", M[0] + M[1]),
    Refusal("{ [i,.] -> v[i] * 2 }", R, "C19", "the pattern [i,.] has 1 dots, the body 0 axes",
            "[i,.]", "{ [i] -> v[i] * 2 }", V * 2),
    Refusal("{ [i] -> v[2*i+1] }", C, "C16", ENDS, "[i]",
            "{ [i] -> v[2*i+1] | [i] < [shape(v)[0] / 2] }", V[1::2]),
    Refusal("{ [i] -> m[3 * i] }", C, "C16", ENDS, "[i]",
            "{ [i] -> m[3 * i] | [i] < [(shape(m)[0] + 2) / 3] }", M[::3]),
    Refusal("{ [i] -> v[shape(v)[0]-1-i] }", C, "C16", ENDS, "[i]",
            "{ [i] -> v[shape(v)[0]-1-i] | [i] < [shape(v)[0]] }", V[::-1]),
    Refusal("{ [i] -> w[2*i] + w[i] }", R, "C8", "index 2 is outside 0..1 of axis 0, shape [2], at "
            "[i] = [1]", "w[2*i]",
            "{ [i] -> w[2*i] + w[i] | [i] < [min(shape(w)[0], (shape(w)[0] + 1) / 2)] }",
            W[:1] * 2),
    Refusal("v == w[0] ? 1 : 2", R, "C10", "a condition of shape [4]; reduce it with all or any",
            "v == w[0]", "all(v == w[0]) ? 1 : 2", 2),
    Refusal("int[2] h(int[n] x) { return take([0], x); }", R, "C6", "the result of 'h' is declared "
            "int32[2], its shape is [0]", "take([0], x)",
            "int[.] h(int[n] x) { return take([0], x); }", V[:0], "h", (V,)),
    Refusal("{ [i] -> v ++ v | [i] < [1]; iv -> m[iv] }", R, "C13", "the body at [i] = [0] has "
            "shape [8], the result has room for [4]", "v ++ v"),
    Refusal("{ [i] -> 0 | [i] < shape(w) - 3 }", R, "C14", "the shape [-1] has a negative size",
            "shape(w) - 3"),
    Refusal("take([6], v)", R, "C9", "take([6], ...): 6 elements of 4", "take([6], v)"),
    Refusal("drop([0,-5], m)", R, "C9", "drop([0,-5], ...): 5 elements of 4 along axis 1, shape "
            "[3,4]", "drop([0,-5], m)"),
    Refusal("v ++ 1", R, "C9", "'++' of a scalar: shapes [4] and []; '[1]' is a vector of one "
            "element", "1", "v ++ [1]", np.r_[V, 1]),
    Refusal("v > 2 ? 1 : 2", R, "C10", "a condition of shape [4]; reduce it with all or any",
            "v > 2", "any(v > 2) ? 1 : 2", 1),
    Refusal("v > 2 ? v : 0 - v", R, "C10", "a condition of shape [4]; reduce it with all or any",
            "v > 2", "where(v > 2, v, 0 - v)", np.where(V > 2, V, -V)),
    Refusal("2 * (m < 0 ? 0 : m)", R, "C10", "a condition of shape [3,4]; reduce it with all or "
            "any", "m < 0", "2 * (where(m < 0, 0, m))", 2 * np.maximum(M, 0)),
    Refusal("b + 300", C, "Y1", "the literal 300 does not fit int8, the type that it takes here",
            "300", "b + int32(300)", B.astype(np.int32) + 300),
    Refusal("{ [i] -> 3000000000 | [i] < [1]; iv -> w[iv] }", C, "Y1", "the literal 3000000000 "
            "does "
            "not fit int32, the type that it takes here", "3000000000",
            "{ [i] -> int64(3000000000) | [i] < [1]; iv -> w[iv] }", np.int64([3000000000, 1])),
    Refusal("float g(float x) { return x; } float h(int x) { return g(x); }", C, "C6", "'x' of 'g' "
            "is declared float32, its type is int32", "x",
            "float g(float x) { return x; } float h(int x) { return g(tof(x)); }", np.float32(3),
            "h", (np.int32(3),)),
    Refusal("byte g(byte x) { return x; } byte h(int x) { return g(300); }", C, "Y1", "the literal "
            "300 does not fit uint8, the type that it takes here", "300", None, None, "h", (1,)),
    Refusal("int h(float x) { return x; }", C, "C6", "the result of 'h' is declared int32, its "
            "type "
            "is float32; a wider type needs a cast", "x", "int h(float x) { return toi(x); }", 2,
            "h", (np.float32(2.5),)),
    Refusal("float h(float x) { return x * 1.5d; }", C, "C6", "the result of 'h' is declared "
            "float32, its type is float64; a wider type needs a cast", "x * 1.5d",
            "float h(float x) { return tof(x * 1.5d); }", np.float32(3), "h", (np.float32(2),)),
    Refusal("int g(int[3] x) { return x[0]; } int h(int[.] x) { return g(x); }", R, "C6",
            "'x' of 'g' is declared int32[3], its shape is [4]", "x", None, None, "h", (V,)),
    Refusal("int[2] h(int[n] x) { return x; }", R, "C6", "the result of 'h' is declared int32[2], "
            "its shape is [4]", "x", "int[.] h(int[n] x) { return x; }", V, "h", (V,)),
    Refusal("int h(int[n] x, int[n] y) { return x[0]; }", tc.InputError, "C6", "'y' of 'h' is "
            "declared int32[n], where n is 4, its shape is [2]", "int[n] y", None, None, "h",
            (V, W)),
    Refusal("int h(int[.,.] x) { return x[0,0]; }", tc.InputError, "C6", "'x' of 'h' is declared "
            "int32[.,.], its shape is [4]", "int[.,.] x", None, None, "h", (V,)),
    Refusal("(v + w[0]) * m", R, "C7", "'*': shapes [4] and [3,4] differ, and neither is a scalar",
            "(v + w[0]) * m", "{ [i] -> (v + w[0]) * m[i] }", (V + W[0]) * M),
    Refusal("m / (v * v[0])", R, "C7", "'/': shapes [3,4] and [4] differ, and neither is a scalar",
            "m / (v * v[0])", "{ [i] -> m[i] / (v * v[0]) }", M // (V * V[0])),
    Refusal("x = m; x -= v; x", R, "C7", "'-': shapes [3,4] and [4] differ, and neither is a "
            "scalar", "v", "x = m; x = { [i] -> x[i] - v }; x", M - V),
    Refusal("m * genarray([3, 1], v[1])", R, "C7", "'*': shapes [3,4] and [3,1] differ, and "
            "neither "
            "is a scalar", "m * genarray([3, 1], v[1])",
            "{ [i,j] -> m[i,j] * genarray([3, 1], v[1])[i,0] }", M * 2),
    Refusal("{ [i] -> [v[i]] } + [w]", R, "C7", "'+': shapes [4,1] and [1,2] differ, and "
            "neither is "
            "a scalar", "{ [i] -> [v[i]] } + [w]",
            "{ [j,k] -> { [i] -> [v[i]] }[j,0] + [w][0,k] }", V[:, None] + W),
    Refusal("v + w", R, "C7", "'+': shapes [4] and [2] differ, and neither is a scalar", "v + w",
            example="take(shape(w), v) + w", due=V[:2] + W),
    Refusal("2 * max(w, v)", R, "C7", "'max': shapes [2] and [4] differ, and neither is a scalar",
            "max(w, v)", example="2 * max(w, take(shape(w), v))", due=2 * np.maximum(W, V[:2])),
    Refusal("[v, 1, 2]", R, "C7", "rows of shapes [4] and [] in one array", "1", "v ++ [1, 2]",
            np.r_[V, 1, 2]),
    Refusal("[0, v][2]", R, "C7", "rows of shapes [] and [4] in one array", "v", "([0] ++ v)[2]",
            V[1]),
    Refusal("[v, m, m[1]]", R, "C7", "rows of shapes [4] and [3,4] in one array", "m",
            "[v] ++ m ++ [m[1]]", np.concatenate([[V], M, M[1:2]])),
    Refusal("[v, w]", R, "C7", "rows of shapes [4] and [2] in one array", "w",
            example="v ++ w", due=np.r_[V, W]),
    Refusal("{ iv -> (t + 0)[0, iv] | iv < [2, 3] }", C, "C8", "'iv' among several items of a "
            "selection has shape [2], and each of them is a scalar", "(t + 0)[0, iv]",
            "{ iv -> (t + 0)[[0] ++ iv] | iv < [2, 3] }", T[0]),
    Refusal("{ [i] -> { [j] -> v[j] * v[i] | [j] <= [i] } | [i] < [3] }", C, "C23", "the shape of "
            "the last partition's body depends on the value of i: give the shape by a further "
            "partition", "{ [j] -> v[j] * v[i] | [j] <= [i] }",
            "{ [i] -> { iv -> { [j] -> v[j] * v[i] | [j] <= [i] }[iv]; iv -> 0 | iv < [3] } "
            "| [i] < "
            "[3] }", np.tril(np.outer(V[:3], V[:3]))),
    Refusal("{ iv -> genarray(iv, true) | iv < [2,3] }", C, "C23", "the shape of the last "
            "partition's body depends on the value of iv: give the shape by a further partition",
            "genarray(iv, true)", "{ iv -> { jv -> genarray(iv, true)[jv]; jv -> false | jv "
            "< [1,2] "
            "} | iv < [2,3] }",
            np.array([[[[a < i and b < j for b in range(2)] for a in range(1)] for j in range(3)]
                      for i in range(2)])),
    Refusal("{ [i] -> i > 0 ? f : 0.5 | [i] < [2] }", C, "C23", "the shape of the last partition's "
            "body depends on the value of i: give the shape by a further partition",
            "i > 0 ? f : 0.5", "{ [i] -> i > 0 ? f : genarray([3], 0.5) | [i] < [2] }",
            np.stack([np.full(3, np.float32(0.5)), F])),
    Refusal("{ [i] -> reshape([2 + i * 0, 2], v) + i | [i] < [3] }", C, "C23", "the shape of the "
            "last partition's body depends on the value of i: give the shape by a further "
            "partition", "reshape([2 + i * 0, 2], v) + i",
            "{ [i] -> reshape([2 + i * 0, 2], v) + i | [i] < [3]; iv -> 0 | iv < [3,2,2] }",
            V.reshape(2, 2) + np.arange(3)[:, None, None]),
    Refusal("int h(int[n] x) { return x; }", R, "C6", "the result of 'h' is declared int32, its "
            "shape is [4]", "x", "int[.] h(int[n] x) { return x; }", V, "h", (V,)),
    Refusal("int[n,3] h(int[n,m] x) { return x; }", R, "C6", "the result of 'h' is declared "
            "int32[n,3], where n is 3, its shape is [3,4]", "x",
            "int[n,.] h(int[n,m] x) { return x; }", M, "h", (M,)),
    Refusal("int[*] h(int x) { return g(x); } int[*] g(int[.] x) { return x + 1; }", R, "C6",
            "'x' of 'g' is declared int32[.], its shape is []", "x",
            "int[*] h(int x) { return g([x]); } int[*] g(int[.] x) { return x + 1; }",
            np.int32([4]), "h", (np.int32(3),)),
    Refusal("int[*] h(int[*] x, int c) { return g(x, c); } int g(int x, int y) { return x * x + y; "
            "}", R, "C6", "'x' of 'g' is declared int32, its shape is [3,4]", "x",
            "int[*] h(int[*] x, int c) { return { [i,j] -> g(x[i,j], c) }; } int g(int x, int y) { "
            "return x * x + y; }", M * M + 5, "h", (M, np.int32(5))),
    Refusal("byte h(byte x) { return 300; }", C, "Y1", "the literal 300 does not fit uint8, "
            "the type "
            "that it takes here", "300", "int h(byte x) { return 300; }", np.int32(300), "h",
            (np.uint8(1),)),
    Refusal("{ [i] -> v[i+1] - v[i] | [i] < shape(v) }", R, "C8", "index 4 is outside 0..3 of axis "
            "0, shape [4], at [i] = [3]", "v[i+1]",
            example="{ [i] -> v[i+1] - v[i] | [i] < shape(v) - 1 }", due=V[1:] - V[:-1]),
    Refusal("{ [i] -> v[i-1] | [i] <= [3] }", R, "C8", "index -1 is outside 0..3 of axis 0, shape "
            "[4], at [i] = [0]", "v[i-1]", example="{ [i] -> v[i-1] | [1] <= [i] <= [3] }",
            due=np.r_[0, V[:3]]),
    Refusal("{ [i] -> v[i] * m[i,0] | [i] < shape(v) }", R, "C8", "index 3 is outside 0..2 of axis "
            "0, shape [3,4], at [i] = [3]", "m[i,0]",
            example="{ [i] -> v[i] * m[i,0] | [i] < [min(shape(v)[0], shape(m)[0])] }",
            due=V[:3] * M[:, 0]),
    Refusal("with { ([0] <= [i] < [4]) : v[i+1]; } : genarray([4], 0)", R, "C8", "index 4 "
            "is outside "
            "0..3 of axis 0, shape [4], at [i] = [3]", "v[i+1]"),
    Refusal("{ [i] -> v[i] | [i] < [v[3] + 1] }", A, "C8", "index 4 is outside 0..3 of axis "
            "0, shape "
            "[4], at [i] = [4]", "v[i]", example="{ [i] -> v[i] | [i] < shape(v) }", due=V),
    Refusal("{ [i] -> [7,1][i] | [i] < [3] }", C, "C8", "index 2 is outside 0..1 of axis 0, shape "
            "[2], at [i] = [2]", "[7,1][i]", example="{ [i] -> [7,1][i] | [i] < shape([7,1]) }",
            due=W),
    Refusal("12 / (m - 1)", A, "Y4", "integer division by zero in element [1,2]", "12 / (m - 1)"),
    Refusal("{ [i] -> m[i] % (v - 3) | [i] < [1] }", A, "Y4", "integer division by zero in element "
            "[2], at [i] = [0]", "m[i] % (v - 3)"),
    Refusal("int h(bool x) { return 1; }", tc.InputError, "C6", "'x' of 'h' is declared bool, its "
            "type is int32", "bool x", None, None, "h", (np.int32(1),)),
]  # fmt: skip


def called(case: Refusal, text: str, backend: str) -> Any:
    if case.entry is not None:
        if backend == "reference":
            return tc.sac.interpret(text, *case.inputs, entry=case.entry)
        return tc.sac.compile(text, backend=backend, entry=case.entry)(*case.inputs)
    given = {name: GIVEN[name].copy() for name in tc.sac.demand(text, "F")}
    try:
        if backend == "reference":
            return tc.sac.interpret(text, given)
        return tc.sac.compile(text, backend=backend)(given)
    finally:
        for name, array in given.items():
            np.testing.assert_array_equal(array, GIVEN[name])


@pytest.mark.drawn(4)
@pytest.mark.parametrize("backend", ["reference", "interpret", "numba", "c"])
@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case.text)
def test_a_refusal(case: Refusal, backend: str) -> None:
    """Every backend says the same, in the words of the text."""
    with pytest.raises(tc.TCError) as caught:
        called(case, case.text, backend)
    error = caught.value
    assert (type(error), error.rule, error.cause) == (case.kind, case.rule, case.cause)
    assert error.span is not None
    assert error.span.text == case.marked
    assert (error.repaired(), error.exemplified()) == (case.repaired, case.example)


@pytest.mark.filterwarnings("ignore::tc.TCWarning")  # C15 tells of two bounds
@pytest.mark.parametrize("backend", ["reference", "numba"])
@pytest.mark.parametrize(
    "case",
    [case for case in REFUSALS if case.repaired or case.example],
    ids=lambda case: case.text,
)
def test_a_repair_gives_what_was_meant(case: Refusal, backend: str) -> None:
    text = case.repaired or case.example
    assert text is not None
    found = called(case, text, backend)
    np.testing.assert_array_equal(found, case.due)


def test_a_repair_of_pythons_numbers_is_pythons() -> None:
    """A Python number has no `astype`."""
    text = "int f(int a) { return a; } int[*] g(int[*] a) { return a; }"
    for entry, given in (("f", 2.5), ("g", [1.5, 2])):
        for call in (tc.sac.interpret, lambda t, a, entry: tc.sac.compile(t, entry=entry)(a)):
            with pytest.raises(tc.InputError) as caught:
                call(text, given, entry=entry)
            assert caught.value.repair == "np.int32(a)"


def test_an_expression_that_reads_itself_is_told() -> None:
    """A name that is read before it is set is an input of an expression (C1, C27)."""
    text = "x = { [i] -> i > 0 ? x[i-1] : 1 | [i] < [4] }; x"
    with pytest.raises(tc.InputError, match=r"input 'x' is missing: .* no comprehension"):
        tc.sac.interpret(text)
    assert tc.sac.interpret(text, x=np.int32([3, 4, 5])).tolist() == [1, 3, 4, 5]


@pytest.mark.parametrize("verb", ["emit", "explain", "error_bound", "source", "prepare"])
def test_every_verb_tells_a_fault_of_shapes_in_the_words_of_the_text(verb: str) -> None:
    text = "{ [i] -> v[i] + v[i+1] }"
    act = getattr(tc.sac, verb, None) or (
        lambda text, **given: getattr(tc.sac.compile(text), verb)(**given)
    )
    with pytest.raises(tc.RangeError, match=r"index 4 is outside 0\.\.3 of axis 0") as caught:
        act(text, v=V)
    assert caught.value.rule == "C8"
    assert caught.value.repaired() == "{ [i] -> v[i] + v[i+1] | [i] < shape(v) - 1 }"


@pytest.mark.parametrize(
    ("given", "cause", "repair", "idiom"),
    [
        ({"a": V, "B": V}, "there is no input 'B'; the inputs are a, b", "b=...", None),
        ({"a": V, "q": V}, "there is no input 'q'; the inputs are a, b", None, None),
        ({"a": 1j, "b": V}, "input 'a' is of type complex, which is no array", "a.real", None),
        ({"a": 2**70, "b": V}, f"input 'a' is {2**70}, which no int64 holds", None, None),
        ({"a": [[1, 2], [3]], "b": V}, "input 'a' is a list whose rows have several lengths, and "
         "no array", None, "[[1, 2], [3, 0]], with shorter rows filled up, in place of "
         "[[1, 2], [3]]"),
    ],
)  # fmt: skip
def test_an_input_that_is_none(
    given: dict[str, Any], cause: str, repair: str | None, idiom: str | None
) -> None:
    for call in (tc.sac.interpret, lambda text, **inputs: tc.sac.compile(text)(**inputs)):
        with pytest.raises(tc.InputError) as caught:
            call("a + b", **given)
        error = caught.value
        assert (error.rule, error.cause, error.repair, error.idiom) == ("C25", cause, repair, idiom)


def test_a_constant_of_python_is_no_input() -> None:
    with pytest.raises(tc.InputError, match="input 'True' is missing") as caught:
        tc.sac.interpret("True && v[0] > 0", v=V)
    assert (caught.value.repair, caught.value.idiom) == (None, "true, in place of True")
