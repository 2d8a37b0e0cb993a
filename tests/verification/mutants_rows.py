"""Kernels of rows and columns: statistics, normalisation, places of extremes, running sums."""

from tests.verification.mutants_record import ADDS_UP, BY_IDENTITY, BY_SHAPE, Mutant, Mutated

VARIANCE = Mutated(
    "variance",
    """\
def variance(double(N,D) x) -> (mean, var) {
  mean(j) +=! x(i,j) / N
  var(j) +=! (x(i,j) - mean(j)) * (x(i,j) - mean(j)) / N
}""",
    """\
@njit(parallel=True, error_model="numpy")
def kernel(x):
    N, D = x.shape
    mean = np.zeros(D, np.float64)
    var = np.zeros(D, np.float64)
    for j in prange(D):
        for i in range(N):
            mean[j] += x[i, j] / N
        for i in range(N):
            d = x[i, j] - mean[j]
            var[j] += d * d / N
    return mean, var
""",
    (
        Mutant("bound", "d * d / N", "d * d / (N - 1)", "(rng.random((7, 3)),)"),
        Mutant(
            "type",
            "mean[j] += x[i, j] / N",
            "mean[j] = np.float32(mean[j] + x[i, j] / N)",
            "(rng.random((7, 3)),)",
        ),
        Mutant(
            "half",
            """\
            d = x[i, j] - mean[j]
            var[j] += d * d / N
""",
            """\
            var[j] += x[i, j] * x[i, j] / N
        var[j] -= mean[j] * mean[j]
""",
            "(rng.random((7, 3)) + 1e6,)",
        ),
        Mutant(
            "race",
            """\
    for j in prange(D):
        for i in range(N):
            mean[j] += x[i, j] / N
""",
            """\
    for i in prange(N):
        for j in range(D):
            mean[j] += x[i, j] / N
    for j in prange(D):
""",
            "",
        ),
        Mutant(
            "order",
            "return mean, var",
            "return (mean, var) if D % 2 == 0 else (mean, var[::-1].copy())",
            "(rng.random((7, 3)),)",
        ),
        Mutant(
            "unmasked edge",
            "for j in prange(D):",
            "for j in prange(D if D < 4 else D // 4 * 4):",
            "(rng.random((7, 5)),)",
        ),
        Mutant(
            "stride",
            "    mean = np.zeros",
            "    x = np.lib.stride_tricks.as_strided(x, x.shape, (x.strides[0], x.itemsize))\n"
            "    mean = np.zeros",
            "(rng.random((7, 6))[:, ::2],)",
        ),
        Mutant(
            "axis",
            "        for i in range(N):\n            d =",
            "        for i in range(min(N, D)):\n            d =",
            "(rng.random((7, 3)),)",
        ),
    ),
    (
        "(rng.standard_normal((7, 5)),)",
        "(rng.standard_normal((33, 1)) + 1e3,)",
        "(rng.standard_normal((10, 21)).T[::3, ::-2],)",
        "(rng.standard_normal((1, 3)),)",
        "(np.ones((0, 3)),)",
        "(np.ones((3, 0)),)",
        "(np.float64([[1, np.nan, np.inf], [2, 1, 0]]),)",
    ),
)

SOFTMAX = Mutated(
    "softmax",
    """\
def softmax(float(N,D) x) -> (o) {
  m(i) max=! x(i,j)
  e(i,j) = exp(x(i,j) - m(i))
  s(i) +=! e(i,j)
  o(i,j) = e(i,j) / s(i)
}""",
    """\
def kernel(x):
    with np.errstate(all="ignore"):
        m = np.max(x, axis=1, keepdims=True, initial=-np.inf)
        e = np.exp(x - m)
        s = np.sum(e, axis=1, keepdims=True)
        return e / s
""",
    (
        Mutant(
            "axis",
            "np.max(x, axis=1, keepdims=True, initial=-np.inf)",
            "np.max(x, initial=-np.inf)",
            "(np.float32([[1, 2, 3], [-200, -200, -201]]),)",
        ),
        Mutant("missing term", "np.exp(x - m)", "np.exp(x)", "(np.float32([[1, 200]]),)"),
        Mutant(
            "nan",
            "e / s",
            "np.where(s > 0, e / s, np.float32(0))",
            "(np.float32([[1, np.nan]]),)",
        ),
        Mutant(
            "half",
            "np.sum(e, axis=1, keepdims=True)",
            "np.sum(e, axis=1, keepdims=True, dtype=np.float16).astype(np.float32)",
            "(rng.random((3, 9), np.float32),)",
        ),
        Mutant(
            "stride",
            "        m = np.max",
            "        x = np.lib.stride_tricks.as_strided(x, x.shape, (x.strides[0], x.itemsize))\n"
            "        m = np.max",
            "(rng.random((3, 8), np.float32)[:, ::2],)",
        ),
        Mutant(
            "state",
            "e = np.exp(x - m)",
            "x -= m\n        e = np.exp(x)",
            "(rng.random((3, 8), np.float32),)",
        ),
        Mutant(
            "uninitialised",
            "np.exp(x - m)",
            "np.exp(x - m, where=x - m > -20, out=np.empty(x.shape, x.dtype))",
            "(np.float32([[1, 2, 3, 30]] * 4),)",
        ),
        Mutant(
            "bound",
            "np.sum(e,",
            "np.sum(e[:, :128],",
            "(rng.random((3, 129), np.float32),)",
        ),
    ),
    (
        "(rng.standard_normal((5, 7), np.float32),)",
        "(30 * rng.standard_normal((3, 131), np.float32),)",
        "(rng.standard_normal((10, 21), np.float32).T[::3, ::-2],)",
        "(rng.standard_normal((3, 1), np.float32),)",
        "(np.ones((0, 3), np.float32),)",
        "(np.ones((3, 0), np.float32),)",
        "(np.float32([[1, 2, np.inf], [np.nan, 1, 2], [-np.inf, 1, 3], [-np.inf] * 3]),)",
    ),
)

LAYERNORM = Mutated(
    "layernorm",
    """\
def layernorm(float(N,D) x, float(D) g, float(D) b, float eps) -> (y) {
  m(i) +=! x(i,j) / D
  v(i) +=! (x(i,j) - m(i)) * (x(i,j) - m(i)) / D
  y(i,j) = (x(i,j) - m(i)) / sqrt(v(i) + eps) * g(j) + b(j)
}""",
    """\
@njit(error_model="numpy")
def kernel(x, g, b, eps):
    N, D = x.shape
    size = np.float32(D)
    y = np.empty((N, D), np.float32)
    v = np.float32(0)
    for i in range(N):
        m = np.float32(0)
        for j in range(D):
            m += x[i, j] / size
        v = np.float32(0)
        for j in range(D):
            d = x[i, j] - m
            v += d * d / size
        s = np.sqrt(v + np.float32(eps))
        for j in range(D):
            y[i, j] = (x[i, j] - m) / s * g[j] + b[j]
    return y
""",
    (
        Mutant(
            "missing term",
            "v + np.float32(eps)",
            "max(v, np.float32(eps))",
            "(rng.random((3, 7), np.float32), *rng.random((2, 7), np.float32), 0.1)",
        ),
        Mutant(
            "uninitialised",
            "        v = np.float32(0)\n        for j",
            "        if i % 8 == 0:\n            v = np.float32(0)\n        for j",
            "(rng.random((3, 7), np.float32), *rng.random((2, 7), np.float32), 1e-5)",
        ),
        Mutant(
            "bound",
            "d * d / size",
            "d * d / (size - np.float32(1))",
            "(rng.random((3, 7), np.float32), *rng.random((2, 7), np.float32), 1e-5)",
        ),
        Mutant(
            "half",
            "m += x[i, j] / size",
            "m += x[i, j] / size\n"
            "            m = m * np.float32(8193) - (m * np.float32(8193) - m)",
            "(rng.random((3, 7), np.float32), *rng.random((2, 7), np.float32), 1e-5)",
        ),
        Mutant(
            "axis",
            "g[j]",
            "g[i % D]",
            "(rng.random((3, 7), np.float32), *rng.random((2, 7), np.float32), 1e-5)",
        ),
        Mutant(
            "stride",
            "    size = np",
            "    b = np.lib.stride_tricks.as_strided(b, b.shape, (b.itemsize,))\n    size = np",
            "(rng.random((3, 7), np.float32), rng.random(7, np.float32),"
            " rng.random(14, np.float32)[::2], 1e-5)",
        ),
        Mutant(
            "unmasked edge",
            "            v += d * d / size",
            "            if j < D - D % 2:\n                v += d * d / size",
            "(rng.random((3, 7), np.float32), *rng.random((2, 7), np.float32), 1e-5)",
        ),
        Mutant(
            "state",
            "@njit",
            BY_IDENTITY + "@njit",
            "(rng.random((3, 7), np.float32), *rng.random((2, 7), np.float32), 1e-5)",
        ),
    ),
    (
        "(rng.standard_normal((5, 7), np.float32), *rng.standard_normal((2, 7), np.float32), 1e-5)",
        "(100 + rng.standard_normal((3, 31), np.float32),"
        " *rng.standard_normal((2, 31), np.float32), 0.5)",
        "(rng.standard_normal((11, 9), np.float32).T[::-2],"
        " *rng.standard_normal((2, 22), np.float32)[:, ::-2], 0.5)",
        "(rng.standard_normal((3, 1), np.float32), *rng.standard_normal((2, 1), np.float32), 1e-5)",
        "(np.ones((2, 3), np.float32), *np.ones((2, 3), np.float32), 0.0)",
        "(np.ones((2, 0), np.float32), *np.ones((2, 0), np.float32), 0.5)",
        "(np.ones((0, 3), np.float32), *np.ones((2, 3), np.float32), 0.5)",
        "(np.float32([[1, np.nan], [1, np.inf], [1, 2]]), *np.ones((2, 2), np.float32), 0.5)",
    ),
)

ARGMAX = Mutated(
    "argmax",
    "def argmax(float(N,D) x) -> (m, at) { m(n), at(n) max=! x(n,d), d }",
    """\
@njit
def kernel(x):
    N, D = x.shape
    m = np.full(N, -np.inf, np.float32)
    at = np.full(N, 2147483647, np.int32)
    for n in range(N):
        for d in range(D):
            v = x[n, d]
            if d == 0 or v > m[n] or (v != v and m[n] == m[n]):
                m[n] = v
                at[n] = d
    return m, at
""",
    (
        Mutant("ties", "v > m[n]", "v >= m[n]", "(np.float32([[1, 2, 2]]),)"),
        Mutant(
            "ties",
            "(v != v and m[n] == m[n])",
            "v != v",
            "(np.float32([[1, np.nan, 2, np.nan]]),)",
        ),
        Mutant(
            "nan", " or (v != v and m[n] == m[n])", "", "(np.float32([[1, np.nan, 2, np.nan]]),)"
        ),
        Mutant("uninitialised", "d == 0 or ", "", "(np.full((2, 3), -np.inf, np.float32),)"),
        Mutant(
            "unmasked edge",
            "range(D)",
            "range(D if D < 8 else D // 8 * 8)",
            "(np.arange(9, dtype=np.float32).reshape(1, 9),)",
        ),
        Mutant("type", "at[n] = d", "at[n] = np.int8(d)", "(np.eye(1, 200, 150, np.float32),)"),
        Mutant(
            "stride",
            "    m = np.full",
            "    x = np.lib.stride_tricks.as_strided(x, x.shape, (D * x.itemsize, x.itemsize))\n"
            "    m = np.full",
            "(rng.random((9, 8), np.float32)[::2],)",
        ),
        Mutant(
            "bound",
            "range(D)",
            "range(min(D, 1024))",
            "(np.eye(1, 1025, 1024, np.float32),)",
        ),
    ),
    (
        "(rng.standard_normal((5, 7), np.float32),)",
        "(rng.integers(0, 3, (9, 33)).astype(np.float32),)",
        "(rng.standard_normal((10, 21), np.float32).T[::3, ::-2],)",
        "(rng.standard_normal((3, 1), np.float32),)",
        "(np.ones((0, 3), np.float32),)",
        "(np.ones((3, 0), np.float32),)",
        "(np.float32([[1, np.nan, np.inf, np.nan], [np.nan, np.nan, 1, 2],"
        " [-np.inf] * 4, [np.inf] * 4, [0.0, -0.0, 0, 0], [-0.0, 0, 0, 0]]),)",
    ),
)

CUMSUM = Mutated(
    "cumsum",
    "def cumsum(int(N,M) x) -> (o) { o(i,j) +=! x(i,k) where k in 0:j+1 }",
    """\
@njit(parallel=True)
def kernel(x):
    N, M = x.shape
    o = np.zeros((N, M), np.int32)
    for i in prange(N):
        total = 0
        for j in range(M):
            total += x[i, j]
            o[i, j] = total
    return o
""",
    (
        Mutant(
            "race",
            """\
    for i in prange(N):
        total = 0
        for j in range(M):
            total += x[i, j]
            o[i, j] = total
""",
            """\
    for j in prange(M):
        for i in range(N):
            for k in range(j, M):
                o[i, k] += x[i, j]
""",
            "",
        ),
        Mutant(
            "type",
            "total += x[i, j]",
            "total = np.int64(np.int16(total + x[i, j]))",
            "(np.full((2, 3), 30000, np.int32),)",
        ),
        Mutant(
            "type",
            "total += x[i, j]",
            "total = np.int64(np.float32(total) + np.float32(x[i, j]))",
            "(np.full((2, 3), 2**24 + 1, np.int32),)",
        ),
        Mutant(
            "uninitialised",
            "            total += x[i, j]",
            "            if j % 64 == 0:\n                total = 0\n            total += x[i, j]",
            "(np.ones((2, 65), np.int32),)",
        ),
        Mutant(
            "stride",
            "    o = np.zeros",
            "    x = np.lib.stride_tricks.as_strided(x, x.shape, (x.strides[0], x.itemsize))\n"
            "    o = np.zeros",
            "(np.arange(9, dtype=np.int32).reshape(3, 3).T,)",
        ),
        Mutant(
            "unmasked edge",
            "for j in range(M):",
            "for j in range(M if M < 8 else M // 8 * 8):",
            "(np.ones((2, 9), np.int32),)",
        ),
        Mutant(
            "axis",
            "for j in range(M):",
            "for j in range(min(N, M)):",
            "(np.ones((2, 3), np.int32),)",
        ),
        Mutant(
            "state",
            "@njit(parallel=True)",
            ADDS_UP + "@njit(parallel=True)",
            "(np.ones((2, 3), np.int32),)",
        ),
    ),
    (
        "(rng.integers(-99, 99, (5, 7), np.int32),)",
        "(rng.integers(-(2**31), 2**31, (3, 133), np.int32),)",
        "(rng.integers(-(2**31), 2**31, (10, 21), np.int32).T[::3, ::-2],)",
        "(np.ones((3, 1), np.int32),)",
        "(np.ones((3, 0), np.int32),)",
        "(np.ones((0, 3), np.int32),)",
    ),
)

KMEANS = Mutated(
    "kmeans",
    """\
def kmeans(float(N,C) x, float(K,C) z) -> (at) {
  d(n,k) +=! (x(n,c) - z(k,c)) * (x(n,c) - z(k,c))
  least(n), at(n) min=! d(n,k), k
}""",
    """\
@njit
def kernel(x, z):
    N, C = x.shape
    K = z.shape[0]
    at = np.full(N, 2147483647, np.int32)
    for n in range(N):
        least = np.float32(np.inf)
        for k in range(K):
            d = np.float32(0)
            for c in range(C):
                t = x[n, c] - z[k, c]
                d += t * t
            if k == 0 or d < least or (d != d and least == least):
                least = d
                at[n] = k
    return at
""",
    (
        Mutant("ties", "d < least", "d <= least", "(np.ones((2, 3), np.float32),) * 2"),
        Mutant(
            "nan",
            " or (d != d and least == least)",
            "",
            "(np.ones((1, 2), np.float32), np.float32([[1, 2], [np.nan, 1]]))",
        ),
        Mutant(
            "unmasked edge",
            "for k in range(K):",
            "for k in range(K if K < 4 else K // 4 * 4):",
            "(np.float32([[4]]), np.arange(5, dtype=np.float32).reshape(5, 1))",
        ),
        Mutant(
            "missing term",
            "for c in range(C):",
            "for c in range(C % 2, C):",
            "(np.float32([[4, 0, 0]]), np.float32([[0, 0, 0], [4, 1, 0]]))",
        ),
        Mutant(
            "type",
            "at[n] = k",
            "at[n] = np.int8(k)",
            "(np.float32([[150]]), np.arange(200, dtype=np.float32).reshape(200, 1))",
        ),
        Mutant(
            "half",
            "t = x[n, c] - z[k, c]\n                d += t * t",
            "d += z[k, c] * z[k, c] - 2 * x[n, c] * z[k, c]",
            "(np.float32([[1000001]]), np.arange(1000030, 1000000, -1, np.float32)[:, None])",
        ),
        Mutant(
            "stride",
            "    at = np.full",
            "    z = np.lib.stride_tricks.as_strided(z, z.shape, (z.strides[0], z.itemsize))\n"
            "    at = np.full",
            "(np.float32([[1, 6]]), np.float32([[0, 1], [5, 9]]).T)",
        ),
        Mutant(
            "uninitialised",
            "k == 0 or d < least",
            "d < least",
            "(np.float32([[np.inf]]), np.float32([[1], [2]]))",
        ),
    ),
    (
        "(rng.standard_normal((5, 7), np.float32), rng.standard_normal((9, 7), np.float32))",
        "(rng.integers(-3, 3, (17, 3)).astype(np.float32),"
        " rng.integers(-3, 3, (33, 3)).astype(np.float32))",
        "(rng.standard_normal((7, 5), np.float32).T,"
        " rng.standard_normal((9, 14), np.float32)[::-2, ::2])",
        "(np.ones((3, 0), np.float32), np.ones((2, 0), np.float32))",
        "(np.ones((3, 2), np.float32), np.ones((0, 2), np.float32))",
        "(np.ones((0, 2), np.float32), np.ones((1, 2), np.float32))",
        "(np.float32([[np.nan, 1], [1, 2], [np.inf, 1]]),"
        " np.float32([[1, 2], [1, np.nan], [np.inf, 1], [np.nan, 2]]))",
    ),
)

INTERLEAVE = Mutated(
    "interleave",
    """\
def interleave(int(N) a, int(N) b) -> (o) {
  o(2*i) = a(i) where o.0 = 2*N
  o(2*i+1) = b(i)
}""",
    """\
def kernel(a, b):
    o = np.zeros(2 * a.size, np.int32)
    o[0::2] = a
    o[1::2] = b
    return o
""",
    (
        Mutant(
            "order",
            "o[1::2] = b",
            "o[:0:-2] = b",
            "(np.arange(3, dtype=np.int32), np.arange(3, dtype=np.int32))",
        ),
        Mutant(
            "type",
            "o[0::2] = a",
            "o[0::2] = a.astype(np.float32)",
            "(np.int32([2**24 + 1]), np.int32([1]))",
        ),
        Mutant(
            "type",
            "o[1::2] = b",
            "o[1::2] = b.astype(np.int16)",
            "(np.int32([1]), np.int32([40000]))",
        ),
        Mutant(
            "bound",
            "o[1::2] = b",
            "o[1:-1:2] = b[:-1]",
            "(np.arange(1, 4, dtype=np.int32), np.arange(1, 4, dtype=np.int32))",
        ),
        Mutant(
            "stride",
            "    o = np.zeros",
            "    b = np.lib.stride_tricks.as_strided(b, b.shape, (b.itemsize,))\n    o = np.zeros",
            "(np.arange(3, dtype=np.int32), np.arange(9, dtype=np.int32)[::3])",
        ),
        Mutant(
            "index",
            "o[1::2] = b",
            "o[1::2] = b[np.minimum(np.arange(b.size), b.size - 2)]",
            "(np.arange(3, dtype=np.int32), np.arange(3, dtype=np.int32))",
        ),
        Mutant(
            "state",
            "def kernel",
            BY_SHAPE + "def kernel",
            "(rng.integers(0, 99, 9, np.int32), rng.integers(0, 99, 9, np.int32))",
        ),
        Mutant(
            "unmasked edge",
            "o[0::2] = a",
            "whole = a.size // 8 * 8 or a.size\n    o[0 : 2 * whole : 2] = a[:whole]",
            "(np.arange(1, 12, dtype=np.int32), np.arange(11, dtype=np.int32))",
        ),
    ),
    (
        "(rng.integers(-99, 99, 7, np.int32), rng.integers(-99, 99, 7, np.int32))",
        "tuple(rng.integers(-(2**31), 2**31, (2, 33), np.int32))",
        "(rng.integers(0, 9, 33, np.int32)[::-3], rng.integers(0, 9, 22, np.int32)[::2])",
        "(np.int32([1]), np.int32([2]))",
    ),
)

ROWS = (VARIANCE, SOFTMAX, LAYERNORM, ARGMAX, CUMSUM, KMEANS, INTERLEAVE)
