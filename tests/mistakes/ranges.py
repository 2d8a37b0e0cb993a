"""Ranges and conditions in a `where`."""

from __future__ import annotations

from tests.mistakes.row import Row

ROWS = [
    Row("o(i) = A(i, M)", None, "M-1, for the last element; pad(A(i, M), 0), for 0 there"),
    Row(
        "o(i) = x(i) where i from 0 to 3",
        None,
        "where k in 0:2 gives a range; x(i) > 0 ? x(i) : 0, on the right side, selects",
    ),
    Row("o +=! x(i) where i in range(2)", "x[:2].sum()", "0:2"),
    Row("o +=! x(i) where i in range(1, N)", "x[1:].sum()", "1:N"),
    Row("o +=! x(i) where 0 <= i < 2", "x[:2].sum()", "i in 0:2"),
    Row("o +=! x(i) where 1 <= i <= 3", "x[1:4].sum()", "i in 1:4"),
    Row("o +=! x(i) where i < 3", "x[:3].sum()", "i in 0:3"),
    Row("o +=! x(i) where i <= 3", "x[:4].sum()", "i in 0:4"),
    Row("o +=! x(i) where i > 1", "x[2:].sum()", "i in 2:N"),
    Row("o +=! x(i) where i >= 1", "x[1:].sum()", "i in 1:N"),
    Row("o +=! x(i) where i >= 1, i < 4", "x[1:4].sum()", "i in 1:4"),
    Row("o +=! x(i) where i >= 1 && i < 4", "x[1:4].sum()", "i in 1:4"),
    Row("o +=! x(i) where i == 2", "x[2]", "i in 2:3"),
    Row("o +=! x(i) where 2 == i", "x[2]", "o +=! 2 == i ? x(i) : 0"),
    Row("o +=! x(i) where i < N - 1", "x[:-1].sum()", "i in 0:N - 1"),
    Row("o(i) = x(i) where i < N", "x", "i in 0:N"),
    Row("o +=! x(i) where i = [0, 2[", "x[:2].sum()", "i in 0:2"),
    Row("o +=! x(i) where i in [0, 2]", "x[:3].sum()", "i in 0:3"),
    Row("o +=! x(i) where i in [0, 2)", "x[:2].sum()", "i in 0:2"),
    Row("o +=! x(i) where i in [1, N)", "x[1:].sum()", "i in 1:N"),
    Row("o +=! x(i) where i = 0:2", "x[:2].sum()", "i in 0:2"),
    Row("o +=! x(i) where i in 2", "x[:2].sum()", "0:2"),
    Row("o +=! x(i) where for i in 0:2", "x[:2].sum()", "delete 'for'"),
    Row("o +=! A(i,j) where i in 0:2 j in 0:2", "A[:2, :2].sum()", "write ',' here"),
    Row("o +=! A(i,j) where i in 0:2 and j in 0:2", "A[:2, :2].sum()", ","),
    Row(
        "o +=! A(i,j) where i in 0:2 where j in 0:2", "A[:2, :2].sum()", "where i in 0:2, j in 0:2"
    ),
    Row("o +=! x(i) where i in 0:4, i in 1:N", "x[1:4].sum()", "i in 1:min(4, N)"),
    Row("o +=! x(i) where x(i) > 0", "x[x > 0].sum()", "o +=! x(i) > 0 ? x(i) : 0"),
    Row("o *=! x(i) where x(i) > 0", "x[x > 0].prod()", "o *=! x(i) > 0 ? x(i) : 1"),
    Row(
        "o(i) +=! A(i,j) where A(i,j) > 0",
        "np.where(A > 0, A, 0).sum(1)",
        "o(i) +=! A(i,j) > 0 ? A(i,j) : 0",
    ),
    Row(
        "o +=! x(i) where i in 0:4, x(i) > 0",
        "x[:4][x[:4] > 0].sum()",
        "o +=! x(i) > 0 ? x(i) : 0 where i in 0:4",
    ),
    Row(
        "o +=! x(i) where x(i) > 0, i in 0:4",
        "x[:4][x[:4] > 0].sum()",
        "o +=! x(i) > 0 ? x(i) : 0 where",
    ),
    Row(
        "o +=! x(i) where x(i) > 0, y(i) > 0",
        "x[(x > 0) & (y > 0)].sum()",
        "o +=! x(i) > 0 && y(i) > 0 ? x(i) : 0",
    ),
    Row("o +=! x(i) where i % 2 == 0", "x[::2].sum()", "o +=! i % 2 == 0 ? x(i) : 0"),
    Row("o +=! A(i,j) where i < j", "np.triu(A, 1).sum()", "o +=! i < j ? A(i,j) : 0"),
    Row("o +=! A(i,j) where i == j", "np.trace(A)", "o +=! i == j ? A(i,j) : 0"),
    Row("o(i) +=! A(i,j) where j <= i", "np.tril(A).sum(1)", "o(i) +=! j <= i ? A(i,j) : 0"),
    Row("o +=! 1 where x(i) > 0", "(x > 0).sum()", "o +=! x(i) > 0 ? 1 : 0"),
    Row("o(i) = x(i) where i = 3", "np.where(np.arange(4) == 3, x[:4], 0)", "i in 3:4"),
    Row("o(i) = x(i) * N where N = 3", "x*3", "o(i) = x(i) * N_2 where N_2 = 3"),
    Row("o +=! x(i) where i in 0:4.0", "x[:4].sum()", "4"),
    Row(
        "o(i) = x(i) where x(i) > 0", None, "with what stands where it does not hold in place of 0,"
    ),
    Row(
        "o max=! x(i) where x(i) > 0",
        None,
        "with what stands where it does not hold in place of 0,",
    ),
    Row("o(i) = 1 where x(i)", None, "where exists x(i), for the range of 'x'; as a condition,"),
    Row("o +=! x(i) where i in 0..2", None, "0:2, which ends before 2; 0:3, with it"),
    Row("o +=! x(i) where i in 0:N:2", None, "A(2*i) where i in 0:N/2, for every second element"),
    Row(
        "o +=! x(i) where i in range(0, N, 2)",
        None,
        "A(2*i) where i in 0:N/2, for every second element",
    ),
    Row(
        "o +=! A(i,j) where j in 0:i",
        None,
        "o(i) +=! j < i ? A(i, j) : 0, which selects in the box",
    ),
    Row(
        "o +=! x(i) where i in 0:4, i in 4:6",
        None,
        "give it one of them: they have no value in common",
    ),
    Row("o +=! x(i) where i in 0:2.5", None, "write a whole number"),
    Row("o +=! x(i) where N in 0:3", None, "name an index variable of the statement"),
    Row(
        "o(i) = x(i) where i in 4:1",
        None,
        "write the lesser bound first; for a falling index, T(N - 1 - i) reads from the end",
    ),
    Row(
        "o(i) = x(i) where i in -1:N",
        None,
        "let 'i' start at 0, and write i - 1 for i on the right",
    ),
    Row("o +=! x(i) where i in 0:sqrt(N)", None, "pass the value as an input: int n"),
    Row("o +=! x(i) where i in x", None, "write both ends, for example i in 0:2"),
    Row(
        "o(i) +=! A(i,j) where j in i + 1:M",
        None,
        "o(i) +=! j >= i + 1 ? A(i, j) : 0, which selects in the box",
    ),
    Row("o(i) = 2 where exist x(i)", "0*x + 2", "exists"),
    Row("o(i) = 2 where Exist x(i)", "0*x + 2", "exists"),
    Row("o(i) = x(i) where i in 0..N", None, "0:N, which ends before N; 0:N + 1, with it"),
]
