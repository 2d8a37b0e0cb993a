"""Operators and punctuation of C, Python, numpy and of mathematics on paper."""

from __future__ import annotations

from tests.mistakes.row import Row

ROWS = [
    Row("o(i) = x(i)**2", "x**2", "pow(x(i), 2)"),
    Row("o(i) = n(i)**2", "n**2", "(n(i) * n(i))"),
    Row("o(i) = n(i)**3", "n**3", "(n(i) * n(i) * n(i))"),
    Row("o(i) = (x(i) - 1)**2", "(x-1)**2", "pow(x(i) - 1, 2)"),
    Row("o(i) = -x(i)**2", "-x**2", "pow(x(i), 2)"),
    Row("o(i) = 1 / p(i)**2", "1/p**2", "pow(p(i), 2)"),
    Row("o(i) = 2**-x(i)", "2.0**-x", "pow(2, -x(i))"),
    Row("o(i) = p(i)**0.5", "p**0.5", "sqrt(p(i))"),
    Row("o(i) = p(i)**x(i)", "p**x", "pow(p(i), x(i))"),
    Row("o(i) = x(i)^2", "x**2", "pow(x(i), 2)"),
    Row("o(i) = (x(i) - y(i))^2 / p(i)^2", "(x-y)**2/p**2", "pow(x(i) - y(i), 2)"),
    Row("o(i) = (n(i) + 1)**2 * 3", "(n+1)**2*3", "((n(i) + 1) * (n(i) + 1))"),
    Row("o(i) = x(n(i)**2 % 4)", "x[n**2%4]", "(n(i) * n(i))"),
    Row("o(i) = n(i) & 15", "n & 15", "n(i) % 16"),
    Row("o(i) = n(i) & 1", "n & 1", "n(i) % 2"),
    Row("o(i) = m(i) & 7", "m & 7", "m(i) % 8"),
    Row("o(i) = n(i) + m(i) & 3", "(n+m) & 3", "(n(i) + m(i)) % 4"),
    Row("o(i) = n(i) & 1 == 1 ? x(i) : y(i)", "np.where((n & 1) == 1, x, y)", "n(i) % 2"),
    Row("o(i) = n(i) & 0x3", "n & 3", "n(i) % 4"),
    Row("o(i) = n(i) >> 1", "n >> 1", "n(i) / 2"),
    Row("o(i) = m(i) >> 2", "m >> 2", "m(i) / 4"),
    Row("o(i) = n(i) + 1 >> 1", "(n+1) >> 1", "(n(i) + 1) / 2"),
    Row("o(i) = n(i) << 3", "n << 3", "n(i) * 8"),
    Row("o(i) = n(i) + 1 << 2", "(n+1) << 2", "(n(i) + 1) * 4"),
    Row("o(i) = ~n(i)", "~n", "(-n(i) - 1)"),
    Row("o(i) = ~(x(i) > 0) ? 1 : 0", "np.where(~(x > 0), 1, 0)", "!(x(i) > 0)"),
    Row("o(i) = (x(i) > 0) & (y(i) > 0) ? 1 : 0", "(x > 0) & (y > 0)", "(x(i) > 0) && (y(i) > 0)"),
    Row("o(i) = x(i) > 0 & y(i) > 0 ? 1 : 0", "(x > 0) & (y > 0)", "&&"),
    Row("o(i) = x(i) > 0 | y(i) > 0 ? 1 : 0", "(x > 0) | (y > 0)", "||"),
    Row("o(i) = (x(i) > 0) | (y(i) > 0) ? 1 : 0", "(x > 0) | (y > 0)", "(x(i) > 0) || (y(i) > 0)"),
    Row("o(i) = (x(i) > 0) ^ (y(i) > 0) ? 1 : 0", "(x > 0) ^ (y > 0)", "(x(i) > 0) != (y(i) > 0)"),
    Row("o(i) = n(i)//2", "n//2", "n(i) / 2"),
    Row("o(i) = m(i)//2", "m//2", "m(i) / 2"),
    Row("o(i) = x(i)//2", "x//2", "floor(x(i) / 2)"),
    Row("o(i) = x(i//2) where i in 0:N", "x[np.arange(N)//2]", "i / 2"),
    Row("o(i) = x(i) // a copy\n", "x", "#"),
    Row("o(i) = x(i) // copied\n", "x", "#"),
    Row("o(i) = x(i /* the same */)", "x", "delete '/* the same */'"),
    Row("o(i) = x(i) /* one\n two */\n", "x", "# one\n# two"),
    Row("o(i) = x(i);", "x", "delete ';'"),
    Row("o = A @ B", "A @ B", "o(i,j) +=! A(i,k) * B(k,j)"),
    Row("o = A @ v", "A @ v", "o(i) +=! A(i,k) * v(k)"),
    Row("o = x @ A", "x @ A", "o(j) +=! x(k) * A(k,j)"),
    Row("o = x @ y", "x @ y", "o +=! x(k) * y(k)"),
    Row("o(i) = x(i) and y(i) > 0 ? 1 : 0", "(x != 0) & (y > 0)", "x(i) && y(i) > 0 ? 1 : 0"),
    Row("o(i) = not x(i) > 0 ? 1 : 0", "~(x > 0)", "!(x(i) > 0) ? 1 : 0"),
    Row("o(i) = x(i) > 0 or y(i) > 0 ? 1 : 0", "(x > 0) | (y > 0)", "x(i) > 0 || y(i) > 0 ? 1 : 0"),
    Row("o(i) = x(i) if x(i) > 0 else 0", "np.where(x > 0, x, 0)", "x(i) > 0 ? x(i) : 0"),
    Row(
        "o(i) = 1 if x(i) > 1 else 2 if x(i) > 0 else 3",
        "np.where(x > 1, 1, np.where(x > 0, 2, 3))",
        "x(i) > 1 ? 1 : x(i) > 0 ? 2 : 3",
    ),
    Row("o(i) = where(x(i) > 0, x(i), y(i))", "np.where(x > 0, x, y)", "(x(i) > 0 ? x(i) : y(i))"),
    Row(
        "o(i) = where(x(i) > 0, x(i), y(i)) * 2",
        "np.where(x > 0, x, y) * 2",
        "(x(i) > 0 ? x(i) : y(i))",
    ),
    Row("o(i) = if (x(i) > 0) x(i) else 0", "np.where(x > 0, x, 0)", "((x(i) > 0) ? x(i) : 0)"),
    Row(
        "o(i) = 2 + if x(i) > 0 then x(i) else y(i)",
        "2 + np.where(x > 0, x, y)",
        "(x(i) > 0 ? x(i) : y(i))",
    ),
    Row("o(i) = if (x(i) > 0) { 1 } else { 2 }", "np.where(x > 0, 1, 2)", "((x(i) > 0) ? 1 : 2)"),
    Row("o(i) = if(x(i) > 0, x(i), y(i))", "np.where(x > 0, x, y)", "((x(i) > 0) ? x(i) : y(i))"),
    Row("o(i) = if(x(i) > 0)", None, "c ? a : b, for a if c holds, and else b"),
    Row("o(i) = y(i) - |x(i) - 1|", "y - abs(x - 1)", "abs(x(i) - 1)"),
    Row("o(i) = |x(i)", None, "abs(x)"),
    Row("o(i) = x(i) ≥ 0 ? 1 : 0", "x >= 0", ">="),
    Row("o(i) = x(i) × y(i)", "x*y", "*"),
    Row("o(i) = x(i) − y(i)", "x-y", "-"),
    Row("o(i) = x(i) ÷ p(i)", "x/p", "/"),
    Row("o(i) = 2 x(i)", "2*x", "2 * x(i)"),
    Row("o(i) = 2.5x(i)", "2.5*x", "2.5 * x"),
    Row("o(i) = 2x(i)", "2*x", "2 * x"),
    Row("o(i) = x(2i)", "x[::2]", "o(i) = x(2 * i)"),
    Row("o(i) = A[i][0]", "A[:, 0]", "A(i, 0)"),
    Row("o[i] = x[i]", "x", "o(i)"),
    Row(
        "o(i) = n(i) | 1",
        None,
        "there are no operators on bits: conditions are joined by '||', and "
        "integers without common bits are added",
    ),
    Row(
        "o(i) = n(i) & m(i)",
        None,
        "there are no operators on bits: conditions are joined by '&&', the lowest "
        "four bits of an integer are n(i) % 16",
    ),
    Row(
        "o(i) = n(i) ^ m(i)",
        None,
        "a power is written pow(x, 2), or x * x, which keeps integers; that just "
        "one of two conditions holds is (a > 0) != (b > 0), and of the bits of "
        "integers there is no '^'",
    ),
    Row(
        "o(i) = n(i)^2",
        None,
        "a power is written pow(x, 2), or x * x, which keeps integers; that just "
        "one of two conditions holds is (a > 0) != (b > 0), and of the bits of "
        "integers there is no '^'",
    ),
    Row(
        "o(i) = 1 << i where i in 0:5",
        None,
        "there are no operators on bits: a << 4 is a * 16, and 1 << k is int(exp2(k))",
    ),
    Row(
        "o(i) = t(i)//2",
        None,
        "comments begin with '#'; '/' of integers rounds down already, and of "
        "floats a quotient is rounded down by floor(t(i) / 2)",
    ),
    Row("o(i) = x(i) y(i)", None, "* y(i), if a product is meant"),
    Row("o(i) = x(i)²", None, "x * x, for the square of x"),
    Row(
        "o(i) = x(i:i+2)",
        None,
        "s(i) +=! x(i + k) where k in 0:2, for the sum of x(i:i+2); x(i, j), with j "
        "in no other place of the right side, for x(i, :)",
    ),
    Row(
        "o(i) = A(i,:)",
        None,
        "s(i) +=! x(i + k) where k in 0:2, for the sum of x(i:i+2); x(i, j), with j "
        "in no other place of the right side, for x(i, :)",
    ),
    Row("o(i,j) = A(i,k) @ B(k,j)", None, "C(i,j) +=! A(i,k) * B(k,j)"),
    Row("o(i) = x(i) if x(i) > 0", None, "C(i) = A(i) > 0 ? A(i) : 0"),
    Row("o(i) = n(i) mod 2", None, "a % b"),
    Row("o(i,j) = A(j,i)'", None, "A(j, i), for the transpose of A(i, j)"),
]
