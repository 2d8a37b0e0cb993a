"""Kernels that read and write at places that data decide."""

from tests.verification.mutants_record import ADDS_UP, BY_SHAPE, Mutant, Mutated

HISTOGRAM = Mutated(
    "histogram",
    """\
def histogram(int(N) x, int bins) -> (h) {
  h(k) +=! 1 where k = x(i), 0 <= k, k < h.0, h.0 = bins
}""",
    """\
@njit(parallel=True)
def kernel(x, bins):
    n = x.size
    parts = np.zeros((4, bins), np.int32)
    for t in prange(4):
        for i in range(n * t // 4, n * (t + 1) // 4):
            k = x[i]
            if 0 <= k < bins:
                parts[t, k] += 1
    h = np.zeros(bins, np.int32)
    for t in range(4):
        for k in range(bins):
            h[k] += parts[t, k]
    return h
""",
    (
        Mutant("race", "parts[t, k] += 1", "parts[0, k] += 1", ""),
        Mutant("index", "if 0 <= k < bins:", "if -bins <= k < bins:", "(np.int32([1, 2, -1]), 4)"),
        Mutant("index", "k = x[i]", "k = min(x[i], bins - 1)", "(np.int32([1, 2, 4]), 4)"),
        Mutant("missing term", "if 0 <= k < bins:", "if 0 < k < bins:", "(np.int32([1, 0]), 4)"),
        Mutant(
            "uninitialised",
            "np.zeros((4, bins), np.int32)",
            "np.empty((4, bins), np.int32)",
            "(np.int32([1, 2, 4]), 9)",
        ),
        Mutant(
            "type",
            "np.zeros((4, bins), np.int32)",
            "np.zeros((4, bins), np.int8)",
            "(np.ones(600, np.int32), 4)",
        ),
        Mutant(
            "unmasked edge",
            "range(n * t // 4, n * (t + 1) // 4)",
            "range(n // 4 * t, n // 4 * (t + 1))",
            "(np.int32([1, 2, 3, 2, 1]), 4)",
        ),
        Mutant(
            "stride",
            "    parts = np.zeros",
            "    x = np.lib.stride_tricks.as_strided(x, x.shape, (x.itemsize,))\n"
            "    parts = np.zeros",
            "(np.int32([1, 2, 3, 2, 1])[::2], 4)",
        ),
    ),
    (
        "(rng.integers(0, 9, 77, np.int32), 9)",
        "(rng.integers(-3, 9, 33, np.int32), 5)",
        "(rng.integers(0, 9, 51, np.int32)[::-3], 1)",
        "(np.zeros(0, np.int32), 3)",
        "(np.int32([0, 1, -1, 3, 2**31 - 1, -(2**31)]), 3)",
        "(np.int32([0, 1]), 0)",
    ),
)

SCATTER_ROWS = Mutated(
    "scatter_rows",
    "def add_rows(float(N,D) u, int(N) k, int R) -> (o) { o(k(n),d) +=! u(n,d) where o.0 = R }",
    """\
@njit(parallel=True)
def kernel(u, k, R):
    N, D = u.shape
    o = np.zeros((R, D), np.float32)
    for d in prange(D):
        for n in range(N):
            o[k[n], d] += u[n, d]
    return o
""",
    (
        Mutant(
            "index",
            "o[k[n], d]",
            "o[max(min(k[n], R - 2), 0), d]",
            "(rng.random((5, 3), np.float32), np.int32([0, 1, 3, 1, 0]), 4)",
        ),
        Mutant(
            "missing term",
            "o[k[n], d] += u",
            "o[k[n], d] = u",
            "(rng.random((5, 3), np.float32), np.int32([0, 1, 3, 1, 0]), 4)",
        ),
        Mutant(
            "race",
            "for d in prange(D):\n        for n in range(N):",
            "for n in prange(N):\n        for d in range(D):",
            "",
        ),
        Mutant(
            "half",
            "o[k[n], d] += u[n, d]",
            "a = o[k[n], d] + u[n, d]\n"
            "            o[k[n], d] = a * np.float32(8193) - (a * np.float32(8193) - a)",
            "(rng.random((5, 3), np.float32), np.int32([0, 1, 3, 1, 0]), 4)",
        ),
        Mutant(
            "type",
            "o[k[n], d]",
            "o[np.int8(k[n]), d]",
            "(rng.random((5, 3), np.float32), np.int32([0, 1, 150, 1, 0]), 200)",
        ),
        Mutant(
            "uninitialised",
            "np.zeros((R, D), np.float32)",
            "np.empty((R, D), np.float32)\n    for n in range(N):\n        o[k[n]] = 0",
            "(rng.random((5, 3), np.float32), np.int32([0, 1, 3, 1, 0]), 8)",
        ),
        Mutant(
            "stride",
            "    o = np.zeros",
            "    u = np.lib.stride_tricks.as_strided(u, u.shape, (u.strides[0], u.itemsize))\n"
            "    o = np.zeros",
            "(rng.random((5, 6), np.float32)[:, ::2], np.int32([0, 1, 3, 1, 0]), 4)",
        ),
        Mutant(
            "unmasked edge",
            "for n in range(N):",
            "for n in range(N if N < 8 else N // 8 * 8):",
            "(rng.random((9, 3), np.float32), np.full(9, 2, np.int32), 4)",
        ),
    ),
    (
        "(rng.standard_normal((15, 7), np.float32), rng.integers(0, 5, 15, np.int32), 5)",
        "(rng.standard_normal((3, 1), np.float32), rng.integers(0, 133, 3, np.int32), 133)",
        "(rng.standard_normal((9, 30), np.float32).T[::-2],"
        " rng.integers(0, 5, 45, np.int32)[::3], 5)",
        "(np.ones((0, 3), np.float32), np.zeros(0, np.int32), 2)",
        "(np.ones((2, 0), np.float32), np.zeros(2, np.int32), 1)",
        "(np.ones((0, 2), np.float32), np.zeros(0, np.int32), 0)",
        "(np.float32([[np.inf, np.nan], [1, 2], [3, 4]]), np.int32([0, 0, 1]), 2)",
    ),
)

GATHER = Mutated(
    "gather",
    "def gather(float(R,D) t, int(N) k) -> (o) { o(n,d) = pad(t(k(n),d), 0) }",
    """\
def kernel(t, k):
    R, D = t.shape
    inside = (k >= 0) & (k < R)
    o = np.zeros((k.size, D), np.float32)
    o[inside] = t[k[inside]]
    return o
""",
    (
        Mutant(
            "index", "(k >= 0)", "(k >= -R)", "(rng.random((4, 3), np.float32), np.int32([1, -1]))"
        ),
        Mutant(
            "missing term",
            "(k >= 0)",
            "(k > 0)",
            "(rng.random((4, 3), np.float32), np.int32([1, 0]))",
        ),
        Mutant(
            "unmasked edge",
            "o[inside] = t[k[inside]]",
            "o[:] = t.take(k, 0, mode='clip') if R else 0",
            "(rng.random((4, 3), np.float32), np.int32([1, 4]))",
        ),
        Mutant(
            "type",
            "t[k[inside]]",
            "t[k[inside].astype(np.int8)]",
            "(rng.random((200, 3), np.float32), np.int32([1, 130]))",
        ),
        Mutant(
            "uninitialised",
            "np.zeros((k.size, D), np.float32)",
            "np.empty((k.size, D), np.float32)",
            "(rng.random((4, 3), np.float32), np.int32([1, 4, 5, 6]))",
        ),
        Mutant(
            "stride",
            "    o = np.zeros",
            "    t = np.lib.stride_tricks.as_strided(t, t.shape, (D * t.itemsize, t.itemsize))\n"
            "    o = np.zeros",
            "(rng.random((8, 3), np.float32)[::2], np.int32([1, 3]))",
        ),
        Mutant(
            "order",
            "t[k[inside]]",
            "t[np.sort(k[inside])]",
            "(rng.random((4, 3), np.float32), np.int32([3, 1]))",
        ),
        Mutant(
            "state",
            "def kernel",
            BY_SHAPE + "def kernel",
            "(rng.random((4, 3), np.float32), np.int32([3, 1]))",
        ),
    ),
    (
        "(rng.standard_normal((15, 7), np.float32), rng.integers(-2, 17, 33, np.int32))",
        "(rng.standard_normal((131, 1), np.float32), rng.integers(0, 131, 5, np.int32))",
        "(rng.standard_normal((9, 30), np.float32).T[::-2], rng.integers(0, 5, 45, np.int32)[::3])",
        "(np.ones((0, 3), np.float32), np.int32([0, 1]))",
        "(np.ones((3, 0), np.float32), np.int32([0, 1]))",
        "(np.ones((3, 2), np.float32), np.int32([]))",
        "(np.float32([[np.nan, np.inf], [1, 2]]), np.int32([2**31 - 1, -(2**31), 0, 1, 2, -1]))",
    ),
)

SPMV = Mutated(
    "spmv",
    """\
def spmv(int(M) row, int(E) col, float(E) v, float(C) x) -> (y) {
  y(r) +=! v(e) * x(col(e)) where e in row(r):row(r+1)
}""",
    """\
@njit(parallel=True)
def kernel(row, col, v, x):
    M = row.size - 1
    y = np.empty(M, np.float32)
    for r in prange(M):
        acc = np.float32(0)
        for e in range(row[r], row[r + 1]):
            acc += v[e] * x[col[e]]
        y[r] = acc
    return y
""",
    (
        Mutant(
            "missing term",
            "range(row[r], row[r + 1])",
            "range(row[r] + (row[r + 1] - row[r]) % 4 // 3, row[r + 1])",
            "(np.int32([0, 3, 3]), np.int32([0, 2, 1]), *rng.random((2, 3), np.float32))",
        ),
        Mutant(
            "unmasked edge",
            "np.empty(M, np.float32)\n    for r in prange(M):",
            "np.zeros(M, np.float32)\n    for r in prange(M if M < 4 else M // 4 * 4):",
            "(np.int32([0, 0, 0, 0, 0, 2]), np.int32([0, 1]), *rng.random((2, 2), np.float32))",
        ),
        Mutant(
            "uninitialised",
            "        y[r] = acc",
            "        if row[r + 1] > row[r]:\n            y[r] = acc",
            "(np.zeros(9, np.int32), np.int32([0]), *rng.random((2, 1), np.float32))",
        ),
        Mutant(
            "index",
            "x[col[e]]",
            "x[max(min(col[e], x.size - 2), 0)]",
            "(np.int32([0, 2]), np.int32([0, 1]), *rng.random((2, 2), np.float32))",
        ),
        Mutant(
            "index",
            "range(row[r], row[r + 1])",
            "range(row[r] - row[0], row[r + 1] - row[0])",
            "(np.int32([1, 2]), np.int32([0, 1]), *rng.random((2, 2), np.float32))",
        ),
        Mutant(
            "nan",
            "            acc +=",
            "            if v[e] != 0:\n                acc +=",
            "(np.int32([0, 1]), np.int32([0]), np.float32([0]), np.float32([np.nan]))",
        ),
        Mutant(
            "half",
            "acc += v[e] * x[col[e]]",
            "acc += v[e] * x[col[e]]\n"
            "            acc = acc * np.float32(8193) - (acc * np.float32(8193) - acc)",
            "(np.int32([0, 2]), np.int32([0, 1]), *rng.random((2, 2), np.float32))",
        ),
        Mutant(
            "stride",
            "    y = np.empty",
            "    v = np.lib.stride_tricks.as_strided(v, v.shape, (v.itemsize,))\n    y = np.empty",
            "(np.int32([0, 2]), np.int32([0, 1]), rng.random(4, np.float32)[::2],"
            " rng.random(2, np.float32))",
        ),
    ),
    (
        "(np.sort(rng.integers(0, 34, 8, np.int32)), rng.integers(0, 7, 33, np.int32),"
        " rng.standard_normal(33, np.float32), rng.standard_normal(7, np.float32))",
        "(np.int32([0, 5, 5, 9]), rng.integers(0, 1, 9, np.int32),"
        " rng.standard_normal(9, np.float32), rng.standard_normal(1, np.float32))",
        "(np.int32([9, 3, 1])[::-1], rng.integers(0, 5, 27, np.int32)[::-3],"
        " rng.standard_normal(18, np.float32)[::2], rng.standard_normal(15, np.float32)[::3])",
        "(np.int32([2]), np.int32([0, 0]), np.float32([1, 2]), np.float32([3]))",
        "(np.int32([0, 0, 0]), np.int32([]), np.float32([]), np.float32([]))",
        "(np.int32([0, 2, 3, 3]), np.int32([0, 1, 0]), np.float32([0, 1, np.inf]),"
        " np.float32([np.nan, 2]))",
    ),
)

SEGMENT_MEAN = Mutated(
    "segment_mean",
    """\
def segment_mean(float(N) x, int(N) k, int K) -> (o) {
  s(k(i)), c(k(i)) +=! x(i), 1 where s.0 = K, c.0 = K
  o(j) = c(j) > 0 ? s(j) / float(c(j)) : 0
}""",
    """\
@njit(error_model="numpy")
def kernel(x, k, K):
    s = np.zeros(K, np.float32)
    c = np.zeros(K, np.int32)
    for i in range(x.size):
        s[k[i]] += x[i]
        c[k[i]] += 1
    o = np.zeros(K, np.float32)
    for j in range(K):
        if c[j] > 0:
            o[j] = s[j] / np.float32(c[j])
    return o
""",
    (
        Mutant(
            "bound",
            "for j in range(K):",
            "for j in range(k.max() if k.size else 0):",
            "(rng.random(5, np.float32), np.int32([0, 1, 3, 1, 0]), 4)",
        ),
        Mutant(
            "type",
            "np.zeros(K, np.int32)",
            "np.zeros(K, np.int8)",
            "(rng.random(130, np.float32), np.zeros(130, np.int32), 4)",
        ),
        Mutant(
            "type",
            "s[j] / np.float32(c[j])",
            "np.int64(s[j] * 65536) // c[j] / 65536",
            "(rng.random(5, np.float32), np.int32([0, 1, 3, 1, 0]), 4)",
        ),
        Mutant(
            "index",
            "s[k[i]] += x[i]",
            "s[max(min(k[i], K - 2), 0)] += x[i]",
            "(rng.random(5, np.float32), np.int32([0, 1, 3, 1, 0]), 4)",
        ),
        Mutant(
            "half",
            "s[k[i]] += x[i]",
            "a = s[k[i]] + x[i]\n"
            "        s[k[i]] = a * np.float32(8193) - (a * np.float32(8193) - a)",
            "(rng.random(5, np.float32), np.int32([0, 1, 3, 1, 0]), 4)",
        ),
        Mutant(
            "stride",
            "    s = np.zeros",
            "    x = np.lib.stride_tricks.as_strided(x, x.shape, (x.itemsize,))\n    s = np.zeros",
            "(rng.random(10, np.float32)[::2], np.int32([0, 1, 3, 1, 0]), 4)",
        ),
        Mutant(
            "missing term",
            "        if c[j] > 0:\n            o",
            "        if True:\n            o",
            "(rng.random(5, np.float32), np.int32([0, 1, 3, 1, 0]), 4)",
        ),
        Mutant(
            "state",
            "@njit",
            ADDS_UP + "@njit",
            "(rng.random(5, np.float32), np.int32([0, 1, 3, 1, 0]), 4)",
        ),
    ),
    (
        "(rng.standard_normal(35, np.float32), rng.integers(0, 5, 35, np.int32), 5)",
        "(rng.standard_normal(3, np.float32), rng.integers(0, 133, 3, np.int32), 133)",
        "(rng.standard_normal(270, np.float32)[::-2], rng.integers(0, 1, 405, np.int32)[::3], 1)",
        "(np.zeros(0, np.float32), np.zeros(0, np.int32), 2)",
        "(np.zeros(0, np.float32), np.zeros(0, np.int32), 0)",
        "(np.float32([np.nan, 1, np.inf, -np.inf, 2]), np.int32([0, 0, 1, 3, 2]), 5)",
    ),
)

PLACES = (HISTOGRAM, SCATTER_ROWS, GATHER, SPMV, SEGMENT_MEAN)
