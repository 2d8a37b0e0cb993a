"""Statements, left sides, loops, declarations, constants and numbers."""

from __future__ import annotations

from tests.mistakes.row import Row

ROWS = [
    Row("o = x + 1", "x+1", "o(i) = x(i) + 1"),
    Row("o = x + y * 2", "x+y*2", "o(i) = x(i) + y(i) * 2"),
    Row("o(i) = x + 1", "x+1", "o(i) = x(i) + 1"),
    Row("o = A + x2", "A+x2", "o(i, j) = A(i, j) + x2(j)"),
    Row("o(r,c) = A * x2", "A*x2", "o(r,c) = A(r, c) * x2(c)"),
    Row("o(i,j) = A(i,j) + x2", "A+x2", "o(i,j) = A(i,j) + x2(j)"),
    Row("o = exp(x)", "np.exp(x)", "o(i) = exp(x(i))"),
    Row("o = x > 0 ? x : 0", "np.where(x > 0, x, 0)", "o(i) = x(i) > 0 ? x(i) : 0"),
    Row("o = x * s", "x*s", "o(i) = x(i) * s"),
    Row("o +=! x", "x.sum()", "o +=! x(i)"),
    Row("o max=! A", "A.max()", "o max=! A(i, j)"),
    Row("o = x(n)", "x[n]", "o(i) = x(n(i))"),
    Row("o = -x", "-x", "o(i) = -x(i)"),
    Row("o(i,j) = A(i,k) * B(k,j)", "A @ B", "o(i,j) +=! A(i,k) * B(k,j)"),
    Row("o(i) = A(i,k) * v(k)", "A @ v", "o(i) +=! A(i,k) * v(k)"),
    Row("o(i) = x(i+k) * w(k)", 'np.convolve(x, w[::-1], "valid")', "o(i) +=! x(i+k) * w(k)"),
    Row("o(i-1) = x(i)", "x[1:]", "leave out what lies there: where i in 1:N"),
    Row("o(i) == x(i)", "x", "="),
    Row("o(i) := x(i)", "x", "="),
    Row("o(i) <- x(i)", "x", "="),
    Row("o(i) = x(i) o(i)++", "x+1", "o(i) += 1"),
    Row("o(i) = x(i) o(i) -= y(i)", "x-y", "o(i) += -(y(i))"),
    Row("o(i) = x(i) o(i) /= p(i)", "x/p", "o(i) = o(i) / (p(i))"),
    Row("o(i) = x(i) o(i) %= 2", "x % 2", "o(i) = o(i) % (2)"),
    Row("o(i) = 1.0 o(i) -= A(i,j)", "1-A.sum(1)", "o(i) += -(A(i,j))"),
    Row("o = 1.0 o /= p(i)", "1/p.prod()", "o *= 1.0 / (p(i))"),
    Row("o(i) = x(i) return o", "x", "delete 'return o'"),
    Row("float t = 3 o(i) = x(i) * t", "x*3", "t = float(3)"),
    Row("int t = 7 o(i) = x(i) * (t / 2)", "x*3", "t = int(7)"),
    Row("float t(i) = n(i) o(i) = t(i) / 2", "n/2", "t(i) = float(n(i))"),
    Row("double t = s o(i) = x(i) * t", "x*s", "t = double(s)"),
    Row("let t = 3 o(i) = x(i) * t", "x*3", "delete 'let'"),
    Row("var t = x(0) o(i) = x(i) * t", "x*x[0]", "delete 'var'"),
    Row("auto t = x(0) o(i) = x(i) * t", "x*x[0]", "delete 'auto'"),
    Row("o(i) max = A(i,j)", "A.max(1)", "max="),
    Row("o +!= x(i)", "x.sum()", "+=!"),
    Row("o(i) = x(i)\n}", "x", "delete '}'"),
    Row("o(i) = pi * x(i)", "np.pi*x", "pi()"),
    Row("o(i) = PI * x(i)", "np.pi*x", "pi()"),
    Row("o(i) = M_PI * x(i)", "np.pi*x", "pi()"),
    Row("o(i) = math.pi * x(i)", "np.pi*x", "pi()"),
    Row("o(i) = np.pi * x(i)", "np.pi*x", "pi()"),
    Row("o(i) = π * x(i)", "np.pi*x", "pi()"),
    Row("o(i) = x(i) > 0 ? inf : 0", "np.where(x > 0, np.inf, 0)", "inf()"),
    Row("o(i) = x(i) > 0 ? -inf : 0", "np.where(x > 0, -np.inf, 0)", "inf()"),
    Row("o(i) = x(i) > 0 ? -np.inf : 0", "np.where(x > 0, -np.inf, 0)", "inf()"),
    Row("o(i) = x(i) > 0 ? True : False", "x > 0", "bool(1)"),
    Row("o(i) = x(i) * 1_000", "x*1000", "1000"),
    Row("o(i) = x(i) * 1d0", "x", "1e0"),
    Row("o(i) = x(i) * 1.5d1", "x*15", "1.5e1"),
    Row("o(i) = n(i) * 0b101", "n*5", "5"),
    Row("o(i) = n(i) * 0o17", "n*15", "15"),
    Row("o(i) = x(i) * 08", "x*8", "8"),
    Row("o(i) = x(i) * x.shape[0]", "x*N", "x.0"),
    Row("o(i) = x(i) * A.size(1)", "x*M", "A.1"),
    Row("o(j,i) = A.T(j,i)", "A.T", "A(i, j)"),
    Row("o(i) = x(i) * N.0", "x*N", "n"),
    Row("o(i) = S * x(i)", "s*x", "s"),
    Row("o(i) = X(i)", "x", "x"),
    Row("o(i) = x(x(i)) where i in 0:0", "x[:0]", "int32(x(i))"),
    Row("o(i) = x(i * 0.5) where i in 0:N", "x[np.arange(N)//2]", "int32(i * 0.5)"),
    Row("o(i) = x(y(i) > 0)", "x[(y > 0).astype(int)]", "int32(y(i) > 0)"),
    Row("o(i) = (1/0) * x(i)", "1.0*x/0", "(1.0 / 0.0)"),
    Row(
        "h(n(i)) += 1 o(i) = h(i)",
        None,
        "where h.0 = N, in this statement; or another statement that writes all of 'h'",
    ),
    Row(
        "o(n(i)) += x(i)",
        None,
        "where o.0 = N, in this statement; or -> (float32(N) o), a declared return; or "
        "another statement that writes all of 'o'",
    ),
    Row(
        "o(n(i)) = x(i)",
        None,
        "where o.0 = N, in this statement; or -> (float32(N) o), a declared return; or "
        "another statement that writes all of 'o'",
    ),
    Row(
        "o(i*j) = A(i,j)",
        None,
        "where o.0 = N, in this statement; or -> (float32(N) o), a declared return; or "
        "another statement that writes all of 'o'",
    ),
    Row(
        "o(i) = o(i-1) + x(i)",
        None,
        "there are no recurrences: a statement reads all before it writes any; a "
        "running sum is o(i) +=! x(j) where j in 0:i + 1; to read what a tensor held: o_old(i) = "
        "o(i), before it",
    ),
    Row(
        "o(i) = x(i) o(i) = o(i-1) + x(i) where i in 1:N",
        None,
        "a statement reads all before it writes any, so that there are no recurrences; for a "
        "running sum: o(i) +=! x(j) where j in 0:i + 1; to read what 'o' held: o_old(i) = "
        "o(i), before this statement, and o_old here",
    ),
    Row(
        "o(i) = x(i) o(i) = o(n(i))",
        None,
        "a statement reads all before it writes any, so that there are no "
        "recurrences; to read what 'o' held: o_old(i) = o(i), before this "
        "statement, and o_old here",
    ),
    Row(
        "o = A * C",
        None,
        "C(i,j) = A(i,j) * B(i,j), element by element; C(i,j) +=! A(i,k) * B(k,j), "
        "the product of matrices",
    ),
    Row("o = x(i)", None, "o(i) = ..., if every element is meant; for the sum of all"),
    Row(
        "o(i) = A(i,j)",
        None,
        "+=! sums, *=! multiplies, min=! and max=! give the extremes, such as",
    ),
    Row(
        "o(i) = x(i) where k in 0:3",
        None,
        "+=! sums, *=! multiplies, min=! and max=! give the extremes, such as",
    ),
    Row(
        "o(i) = x(i) * scale",
        None,
        "float scale, among the parameters, if 'scale' is a number that is given",
    ),
    Row("o(i) = A(i)", None, "write one subscript for each dimension, as in A(i, j)"),
    Row("o(i) = x(i,j)", None, "write one subscript for each dimension, as in x(i)"),
    Row("o(i) = fmax(x(i))", None, "give it 2 arguments"),
    Row("o(i) = M2 * x(i)", None, "declare it as an input, int M2, or name a size"),
    Row(
        "for i in 0:N o(i) = x(i)",
        None,
        "C(i) = 2 * A(i) for every i; s +=! A(i) sums over i; where i in 1:N gives the range",
    ),
    Row(
        "for (i = 0; i < N; i++) o(i) = x(i)",
        None,
        "C(i) = 2 * A(i) for every i; s +=! A(i) sums over i; where i in 1:N gives the range",
    ),
    Row(
        "while (1) o(i) = x(i)",
        None,
        "C(i) = 2 * A(i) for every i; s +=! A(i) sums over i; where i in 1:N gives the range",
    ),
    Row("o_i = x_i", None, "float x_i, among the parameters, if 'x_i' is a number that is given"),
    Row("if (x(0) > 0) o(i) = x(i)", None, "C(i) = A(i) > 0 ? A(i) : 0"),
    Row("o(i) = x(i) * 012", None, "12, or, where it is octal as in C, 10"),
    Row("o(i) =+ x(i)", None, "s += A(i), for a sum"),
    Row("o(i) = x(i) return x(i)", None, "-> (C) { C(i) = 2 * A(i) }"),
    Row(
        "o &=! x(i)",
        None,
        "bits(x(i)), for its bits; x(i) != 0, for a condition",
    ),
    Row(
        "o(i,i) = x(i)",
        None,
        "o(i, i + 0) = x(i), for a diagonal alone; o(i, j) = i == j ? x(i) : 0 where j in "
        "0:N, for zeros beside it",
    ),
    Row("o(N) = x(N)", None, "o(i) = A(i), for every element; o(N + 0) = ..., for that one"),
    Row("x(i) = 0 o(i) = x(i)", None, "write to another name, and return that"),
    Row("float t\nt(i) = x(i) o(i) = t(i)", None, "t = float(...)"),
    Row(
        "o(i) = n(i) / (n(i) - n(i))",
        None,
        "(n(i) - n(i) == 0 ? 0 : n(i) / (n(i) - n(i))), with what the quotient is "
        "to be there for the 0",
    ),
    Row("o(i) = x(i) * 1e999", None, "inf(), for infinity"),
    Row(
        "t(n1) +=! A(n1,j) o(n1,j) = A(n1,j) / t",
        "A / A.sum(1)[:, None]",
        "o(n1,j) = A(n1,j) / t(n1)",
    ),
    Row("o(i,j) = A(i,j) * x", "A * x[:, None]", "o(i,j) = A(i,j) * x(i)"),
    Row("o = A * x", "A * x[:, None]", "o(i, j) = A(i, j) * x(i)"),
    Row("t(r) +=! A(r,j) o = A * t", None, "write an element of it, such as A(i, j)"),
    Row("o(i) = x(i) * 2f", "x*2", "2.0"),
    Row("o(i) = x(i) * 05F", "x*5", "5.0"),
    Row("o(i) = x(i) * 0x1p3", "x*8", "8.0"),
    Row("o(i) = x(i) * 1e", None, "2, 2.0, 1e5 or 0x1F, for a number"),
    Row("o(i) = x(i) < FLT_MAX ? 1 : 0", "x < 1e30", "3.4028235e38"),
    Row("o(i-2) = x(i) * y(i)", "(x*y)[2:]", "leave out what lies there: where i in 2:N"),
    Row(
        "o(2*i-1) = x(i)",
        "np.stack([0*x[1:], x[1:]], 1).ravel()",
        "leave out what lies there: where i in 1:N",
    ),
    Row("o(p(i)) +=! x(i) where o.0 = 4", "np.bincount(p.astype(int), x, 4)", "int32(p(i))"),
    Row("o(n(i)) = x(i) where o.0: 6", "x[np.argsort(n)]", "o.0 = 6"),
    Row("o(n(i)) = x(i) where o.0 = 6.0", "x[np.argsort(n)]", "6"),
    Row("o(n(i)) = x(i) where h.0 = 6", "x[np.argsort(n)]", "o.0 = 6"),
    Row("o(n(i)) = x(i) where o.0 in 0:6", "x[np.argsort(n)]", "o.0 = 6"),
    Row("o[n(i)] = x(i) where o.0 = 6", "x[np.argsort(n)]", "o(n(i))"),
    Row("o[n[i]] = x[i] where o.0 = 6", "x[np.argsort(n)]", "o(n(i))"),
    Row("o(n(i)) -= x(i) where o.0 = 6", "-x[np.argsort(n)]", "o(n(i)) += -(x(i))"),
    Row("o(i) = x(i), t(i) = y(i)", "x", "delete ','"),
    Row("t(i), o max=! A(i,j), j", "A.argmax(1)", "o(i)"),
    Row(
        "o(i) = x(i) o(n(i)) += o(n(i))",
        "2*x",
        "o_old(i) = o(i), before this statement, and read o_old here",
    ),
    Row("o(i) = n(i) & 1 == 0", "n % 2 == 0", "(n(i) & 1) == 0"),
    Row(
        "o(n(i)) +=! 1",
        None,
        "where o.0 = N, in this statement; or -> (int32(N) o), a declared return; or another "
        "statement that writes all of 'o'",
    ),
    Row(
        "o(n(i), j) +=! A(i,j)",
        None,
        "where o.0 = N, in this statement; or -> (float32(N, M) o), a declared return; or "
        "another statement that writes all of 'o'",
    ),
    Row(
        "o(d) = x(i) where d = n(i)",
        None,
        "where o.0 = N, in this statement; or -> (float32(N) o), a declared return; or "
        "another statement that writes all of 'o'",
    ),
    Row("o(n(i)) = x(i) where x.0 = 6", None, "x.0 == 6, for a condition"),
    Row("o(n(i)) = x(i) where o.1 = 6", None, "dimensions are counted from 0: o.0"),
    Row("o(n(i)) = x(i) where o.size = 6", None, "o.0, for the size of the first dimension"),
    Row("o(n(i)) = x(i) where o.0 = n(0)", None, "o.0 = N, with a size of a parameter"),
    Row("o(n(i)) = x(i) where o.0 = i", None, "o.0 = N, with a size of a parameter"),
    Row(
        "o(n) = x",
        None,
        "another name for the index variable, such as i; or n(i), for the place that 'n' holds",
    ),
    Row(
        "o(i/2) = x(i)",
        None,
        "o(i/2) +=! x(i), for the sum of all; at(i/2), o(i/2) min=! i, x(i), for the first of them",
    ),
    Row(
        "o(i%3) = x(i)",
        None,
        "o(i%3) +=! x(i), for the sum of all; at(i%3), o(i%3) min=! i, x(i), for the first of them",
    ),
    Row(
        "o(i+k) = x(i) * w(k)",
        None,
        "o(i+k) +=! x(i) * w(k), for the sum of all; at(i+k), o(i+k) min=! i, x(i) * w(k), "
        "for the first of them",
    ),
    Row(
        "o(i-k) +=! x(i) * w(k)",
        None,
        "add 1 to it, or start the ranges of its variables later, with a 'where'",
    ),
    Row(
        "o(0) = x(i)",
        None,
        "+=! sums, *=! multiplies, min=! and max=! give the extremes, such as",
    ),
    Row("o(-1) = x(0)", None, "N - 1, with the size of 'o' for N, which counts from the end"),
    Row("o(n2) = x(0)", None, "o(i) = A(i), for every element; o(n2 + 0) = ..., for that one"),
    Row(
        "o(1:3) = x(i)",
        None,
        "o(i) = x(i) where i in 0:3, for o(0:3); o(i, j) = x(i, j), for o(i, :)",
    ),
    Row(
        "o(i+shift) = x(i)",
        None,
        "int shift, among the parameters, if 'shift' is a number that is given; where shift "
        "in 0:2, for several values",
    ),
    Row("t(i), o(i) = x(i)", None, "m(n), at(n) max=! x(n, d), d"),
    Row("t(i), o(j) +=! A(i,j), 1", None, "o(i); or a statement of its own for 'o'"),
    Row(
        "o(i), o(i) = x(i), y(i)",
        None,
        "another name for one of them, or a statement of its own for each",
    ),
    Row(
        "o(i) = x(i) o(i+1) = o(i) where i in 0:N - 1",
        None,
        "a statement reads all before it writes any, so that there are no recurrences; for a "
        "running sum: o(i) +=! x(j) where j in 0:i + 1; to read what 'o' held: o_old(i) = "
        "o(i), before this statement, and o_old here",
    ),
    Row(
        "o(i) = x(i) o(n(i)) = o(i)",
        None,
        "a statement reads all before it writes any, so that there are no recurrences; to "
        "read what 'o' held: o_old(i) = o(i), before this statement, and o_old here",
    ),
    Row(
        "o(i) = x(i) o(2*i) = o(i) where i in 0:3",
        None,
        "a statement reads all before it writes any, so that there are no recurrences; to "
        "read what 'o' held: o_old(i) = o(i), before this statement, and o_old here",
    ),
]
