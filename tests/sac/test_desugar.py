"""Desugared texts (C20): their size, the names in them, what they check."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
import tc.sac

A = np.int32([3, -1, 4, 1, -5, 9])
M = np.arange(12, dtype=np.int32).reshape(3, 4) - 5


def nested(depth: int) -> str:
    """A copy of an array of a rank, a comprehension for each axis."""
    body = f"a[{','.join(f'i{k}' for k in range(depth))}]"
    for k in reversed(range(depth)):
        body = f"{{ [i{k}] -> {body} }}"
    return body


def selected(depth: int) -> str:
    """A copy of an array, each comprehension selected from in the next one's body."""
    text = "a"
    for k in range(depth):
        text = f"{{ v{k} -> {text}[v{k}] }}"
    return text


def dotted(depth: int) -> str:
    """An array with more axes, comprehensions with dots within each other."""
    text = "a"
    for k in range(depth):
        text = f"{{ [., i{k}] -> {text} + i{k} | [i{k}] < [1] }}"
    return text


def summed(depth: int) -> str:
    """Sums within bounds and conditions of sums."""
    text = "a[0]"
    for k in range(depth):
        text = f"sum({{ [i{k}] -> a[i{k}] > 1 ? {text} : 0 | [i{k}] < [max(1, {text} % 2)] }})"
    return text


@pytest.mark.parametrize("write", [nested, selected, dotted])
def test_a_text_grows_with_the_square_of_the_depth_at_most(write: Any) -> None:
    sizes = [len(tc.sac.desugar(write(depth))) for depth in (4, 8, 16)]
    assert sizes[2] < 5 * sizes[1] < 25 * sizes[0]


@pytest.mark.parametrize("write", [nested, selected, dotted, summed])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_nested_comprehensions_keep_their_result(write: Any, depth: int) -> None:
    a = np.arange(2**depth, dtype=np.int32).reshape((2,) * depth) + 3 if write is nested else A
    found = tc.sac.interpret(tc.sac.desugar(write(depth)), a=a)
    np.testing.assert_array_equal(found, tc.sac.interpret(write(depth), a=a))
    if write in (nested, selected):
        np.testing.assert_array_equal(found, a)
    if write is dotted:
        np.testing.assert_array_equal(found, A.reshape(6, *[1] * depth))


CAPTURE = [
    # the stand-in for `iv` mentions `u`, which a bound in the body names, too
    ("{ iv -> genarray([sum(with { ([0] <= u < [2]) : u[0] + dim(m); } : genarray([2], 0))], "
     "m[iv]) | iv < u }", {"m": M, "u": np.int32([2, 3])}, np.repeat(M[:2, :3, None], 5, 2)),
    # a variable of a with-loop is set anew, where an outer one stands for it
    ("{ iv -> { [j] -> with { ([0] <= [k] < [2]) { u = iv[0] + k; u += j; w = m[u]; } : w[j]; } : "
     "genarray([2], 0) | [j] < [2] } | iv < u }", {"m": np.arange(24).reshape(6, 4).astype("int32"),
     "u": np.int32([2])},
     np.fromfunction(lambda i, j, k: 4 * (i + j + k) + j, (2, 2, 2), dtype=int)),
    # names in branches
    ("{ iv -> with { ([0] <= [k] < [2]) { u = m; if (k > 0) { u = 2 * m; } w = u; } : w[iv]; } : "
     "fold(+, 0) | iv < u }", {"m": M, "u": np.int32([2, 2])}, 3 * M[:2, :2]),
    ("{ [i] -> with { ([0] <= [k] < [2]) { if (k > 0) { u = a; } else { u = 2 * a; } } : u[i]; } : "
     "fold(+, 0) }", {"a": A}, 3 * A),
    ("{ [i] -> sum({ [j] -> with { ([0] <= [k] < [1]) { s = a; t = s ++ s; } : t[i + 0] + s[i]; } "
     ": fold(+, 0) | [j] < [2] }) }", {"a": A}, 4 * A),
]  # fmt: skip


@pytest.mark.parametrize(("text", "given", "due"), CAPTURE)
def test_names_mean_what_they_meant(text: str, given: dict[str, Any], due: Any) -> None:
    np.testing.assert_array_equal(tc.sac.interpret(text, given), due)
    plain = tc.sac.desugar(text)
    assert "->" not in plain
    np.testing.assert_array_equal(tc.sac.interpret(plain, given), due)


CHECKED = [
    "{ [i,.] -> genarray([5], i) | [i] < [1]; iv -> m[iv] }",
    "{ [i,...] -> genarray([4,1], i) | [i] < [1]; iv -> m[iv] }",
    "{ [.,i] -> genarray([4], i) | [i] < [1]; iv -> m[iv] }",
    "{ [...,i] -> genarray([2], i) | [i] < [1]; iv -> m[iv] }",
    "{ [.,i,...] -> genarray([3, 1], i) | [i] < [1]; iv -> m[iv] }",
    "{ [.,i] -> i | [i] < [1]; iv -> m[iv] }",
]


@pytest.mark.parametrize("text", CHECKED)
def test_a_dotted_body_of_an_earlier_partition_fits_as_a_whole(text: str) -> None:
    """C13: neither a longer nor a shorter body is taken in part."""
    with pytest.raises(tc.TCError) as caught:
        tc.sac.interpret(text, m=M)
    assert caught.value.rule in ("C13", "C19")
    with pytest.raises(tc.TCError):
        tc.sac.interpret(tc.sac.desugar(text), m=M)


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("{ [i,.] -> genarray([4], i) | [i] < [1]; iv -> m[iv] }",
         np.vstack([np.zeros((1, 4)), M[1:]])),
        ("{ [.,i] -> genarray([3], -1) | [1] <= [i] < [3]; iv -> m[iv] }",
         np.where((np.arange(4) > 0) & (np.arange(4) < 3), -1, M)),
        ("{ [...,i] -> genarray([3], 2d) | [i] < [1]; iv -> m[iv] }",
         np.where(np.arange(4) < 1, 2.0, M)),
        ("{ [.,i] -> -0.0 * genarray([3], 1d) | [i] < [1]; iv -> double(m[iv]) }",
         np.where(np.arange(4) < 1, -0.0, M)),
        ("{ [.,i] -> genarray([9], 1) | [i] < [0]; iv -> m[iv] }", M),
        ("{ [.,i] -> m[.,i] > 0 | [i] < [2]; iv -> m[iv] < 0 }",
         np.where(np.arange(4) < 2, M > 0, M < 0)),
    ],
)  # fmt: skip
def test_a_dotted_body_that_fits(text: str, due: Any) -> None:
    for program in (text, tc.sac.desugar(text)):
        found = tc.sac.interpret(program, m=M)
        np.testing.assert_array_equal(found, due)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(due))


INFERRED = [
    ("{ [i] -> (a + i)[i] }", A + np.arange(6)),
    ("{ [i] -> (i > 2 ? a : 2 * a)[i] }", np.where(np.arange(6) > 2, A, 2 * A)),
    (
        "int[*] g(int[*] a, int n) { return n > 2 ? a : a + n; } "
        "int[*] h(int[*] a) { return { [i] -> g(a, i)[i] }; }",
        np.where(np.arange(6) > 2, A, A + np.arange(6)),
    ),
    ("{ [i] -> { [j] -> a[j] + i }[i] }", A + np.arange(6)),
    ("{ [i] -> take([i + 1], a)[i] + m[i,0] }", A[:3] + M[:, 0]),
    ("{ iv -> { jv -> 2 * m[jv] }[iv] + sum({ kv -> m[kv] }) }", 2 * M + M.sum()),
    ("{ [i] -> with { ([0] <= [k] < [2]) { b = k * a; } : b[i]; } : fold(+, 0) }", A),
    ("{ [i] -> sum({ [j] -> (m[j] + j)[i] }) }", (M + np.arange(3)[:, None]).sum(0)),
    ("{ [i] -> m[...,i][0] + a[i] }", M[0] + A[:4]),
]


@pytest.mark.filterwarnings("ignore::tc.TCWarning")  # C15 tells of two bounds
@pytest.mark.parametrize(("text", "due"), INFERRED)
def test_bounds_are_inferred_from_any_array_whose_shape_no_index_decides(
    text: str, due: Any
) -> None:
    """C15."""
    entry = "h" if "h(" in text else None
    given = {name: {"a": A, "m": M}[name] for name in tc.sac.demand(text, "F", entry=entry)}
    np.testing.assert_array_equal(tc.sac.interpret(text, given, entry=entry), due)
    plain = tc.sac.desugar(text)
    np.testing.assert_array_equal(tc.sac.interpret(plain, given, entry=entry), due)


OUTLINES = [
    ("{ [i] -> (with { ([0] <= [j] < [6]) : x; } : modarray(a) / 2.0)[i] | [i] < [3] }",
     np.full(3, 0.25)),
    ("{ [i] -> (with { ([0] <= [j] < [6]) { y = x + x; } : y; } : genarray([6], 1) / 2.0)[i] "
     "| [i] < [3] }", np.full(3, 0.5)),
    ("{ [i] -> { [j] -> x | [j] < [1]; [j] -> a[j] }[i] / 2.0 | [i] < [3] }", [0.25, -0.5, 2]),
    ("{ [i] -> sqrt(with { ([0] <= [j] < [2]) : 2 * x; } : fold(+, i - i + 2)) | [i] < [2] }",
     [2, 2]),
    ("{ [i] -> [{ [j] -> { [k] -> x | [k] < [1]; [k] -> a[k] | [k] < [2] } | [j] < [1] } / 2.0] "
     "| [i] < [1] }", [[[[0.25, -0.5]]]]),
    # the types of partitions meet in the order of the text, an integer with a float first
    ("{ [i] -> minval({ [j] -> a | [j] < [0]; [j] -> x | [j] < [0]; [j] -> j | [j] < [0]; "
     "[j] -> 0.25 | [j] < [2] }) | [i] < [2] }", [0.25, 0.25]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "due"), OUTLINES)
def test_an_outline_is_a_float_where_a_body_is(text: str, due: Any) -> None:
    """C5: `double` beside integers would be `float` beside the floats of a partition."""
    x = np.float32(0.5)
    given = {name: {"a": A, "x": x}[name] for name in tc.sac.demand(text, "F")}
    for program in (text, tc.sac.desugar(text)):
        found = tc.sac.interpret(program, given)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, due)


def test_an_input_of_which_no_with_loop_needs_anything_stays_one() -> None:
    """C1: the free names of an expression are its inputs."""
    text = "{ [.] -> a | [] < shape(t) }"
    plain = tc.sac.desugar(text)
    assert tc.sac.demand(plain, "F").keys() == tc.sac.demand(text, "F").keys() == {"a", "t"}
    for program in (text, plain):
        found = tc.sac.interpret(program, a=A, t=np.int32(7))
        np.testing.assert_array_equal(found, A)
