"""Kernels that read windows: convolutions, pooling, a stencil."""

from tests.verification.mutants_record import ADDS_UP, BY_SHAPE, FEW_CALLS, Mutant, Mutated

CONV1D = Mutated(
    "conv1d",
    """\
def conv1d(float(N) a, float(K) w) -> (o) {
  o(i) +=! pad(a(i+k-K/2), 0) * w(k) where i in 0:N
}""",
    """\
@njit
def kernel(a, w):
    n, taps = a.size, w.size
    middle = taps // 2
    o = np.zeros(n, np.float32)
    for i in range(n):
        for k in range(taps):
            p = i + k - middle
            v = a[p] if 0 <= p < n else np.float32(0)
            o[i] += v * w[k]
    return o
""",
    (
        Mutant(
            "index",
            "if 0 <= p < n",
            "if -1 <= p < n",
            "(rng.random(5, np.float32), rng.random(3, np.float32))",
        ),
        Mutant(
            "missing term",
            "if 0 <= p < n",
            "if 0 < p < n",
            "(rng.random(5, np.float32), rng.random(3, np.float32))",
        ),
        Mutant(
            "unmasked edge",
            "a[p] if 0 <= p < n else np.float32(0)",
            "a[min(max(p, 0), n - 1)]",
            "(rng.random(5, np.float32), rng.random(3, np.float32))",
        ),
        Mutant(
            "bound",
            "middle = taps // 2",
            "middle = (taps - 1) // 2",
            "(rng.random(5, np.float32), rng.random(4, np.float32))",
        ),
        Mutant(
            "order",
            "v * w[k]",
            "v * w[taps - 1 - k]",
            "(rng.random(5, np.float32), rng.random(3, np.float32))",
        ),
        Mutant(
            "half",
            "o[i] += v * w[k]",
            "c = o[i] + v * w[k]\n"
            "            o[i] = c * np.float32(8193) - (c * np.float32(8193) - c)",
            "(rng.random(9, np.float32), rng.random(5, np.float32))",
        ),
        Mutant(
            "stride",
            "    o = np.zeros",
            "    a = np.lib.stride_tricks.as_strided(a, a.shape, (a.itemsize,))\n    o = np.zeros",
            "(rng.random(10, np.float32)[::2], rng.random(3, np.float32))",
        ),
        Mutant(
            "nan",
            "else np.float32(0)\n            o[i]",
            "else np.float32(0)\n            if 0 <= p < n:\n                o[i]",
            "(rng.random(5, np.float32), np.float32([np.nan, 1, 1]))",
        ),
    ),
    (
        "(rng.standard_normal(11, np.float32), rng.standard_normal(3, np.float32))",
        "(rng.standard_normal(5, np.float32), rng.standard_normal(13, np.float32))",
        "(rng.standard_normal(33, np.float32)[::-3], rng.standard_normal(8, np.float32)[::2])",
        "(rng.standard_normal(1, np.float32), rng.standard_normal(4, np.float32))",
        "(rng.standard_normal(3, np.float32), np.zeros(0, np.float32))",
        "(np.zeros(0, np.float32), rng.standard_normal(3, np.float32))",
        "(np.float32([1, np.inf, 3]), np.float32([np.inf, 1, np.nan]))",
    ),
)

CONV2D = Mutated(
    "conv2d",
    """\
def conv2d(float(N,C,H,W) I, float(M,C,KH,KW) F) -> (O) {
  O(n,m,h,w) +=! I(n,c,2*h+p,2*w+q) * F(m,c,p,q)
}""",
    """\
@njit(parallel=True)
def kernel(I, F):
    N, C, H, W = I.shape
    M, _, KH, KW = F.shape
    OH = (H - KH) // 2 + 1
    OW = (W - KW) // 2 + 1
    O = np.zeros((N, M, OH, OW), np.float32)
    for m in prange(M):
        for n in range(N):
            for c in range(C):
                for h in range(OH):
                    for w in range(OW):
                        for p in range(KH):
                            for q in range(KW):
                                O[n, m, h, w] += I[n, c, 2 * h + p, 2 * w + q] * F[m, c, p, q]
    return O
""",
    (
        Mutant(
            "axis",
            "for q in range(KW):",
            "for q in range(min(KH, KW)):",
            "(rng.random((1, 2, 7, 7), np.float32), rng.random((1, 2, 2, 3), np.float32))",
        ),
        Mutant(
            "bound",
            "for h in range(OH):",
            "for h in range(H // 2 - KH // 2):",
            "(rng.random((1, 2, 7, 7), np.float32), rng.random((1, 2, 3, 3), np.float32))",
        ),
        Mutant(
            "unmasked edge",
            "for c in range(C):",
            "for c in range(C if C < 4 else C // 4 * 4):",
            "(rng.random((1, 5, 7, 7), np.float32), rng.random((1, 5, 3, 3), np.float32))",
        ),
        Mutant(
            "race",
            "for m in prange(M):\n        for n in range(N):\n            for c in range(C):",
            "for c in prange(C):\n        for n in range(N):\n            for m in range(M):",
            "",
        ),
        Mutant(
            "uninitialised",
            "np.zeros((N, M, OH, OW), np.float32)",
            "np.empty((N, M, OH, OW), np.float32)\n    O[:1] = 0",
            "(rng.random((3, 2, 5, 5), np.float32), rng.random((1, 2, 3, 3), np.float32))",
        ),
        Mutant(
            "stride",
            "    O = np.zeros",
            "    I = np.lib.stride_tricks.as_strided(I, I.shape, I.strides[:3] + (I.itemsize,))\n"
            "    O = np.zeros",
            "(rng.random((1, 2, 7, 14), np.float32)[..., ::2],"
            " rng.random((1, 2, 3, 3), np.float32))",
        ),
        Mutant(
            "half",
            "O[n, m, h, w] += I[n, c, 2 * h + p, 2 * w + q] * F[m, c, p, q]",
            "a = O[n, m, h, w] + I[n, c, 2 * h + p, 2 * w + q] * F[m, c, p, q]\n"
            "                                O[n, m, h, w] = a * np.float32(8193) - (\n"
            "                                    a * np.float32(8193) - a\n"
            "                                )",
            "(rng.random((1, 2, 7, 7), np.float32), rng.random((1, 2, 3, 3), np.float32))",
        ),
        Mutant(
            "missing term",
            "for p in range(KH):",
            "for p in range(min(KH, H - 1 - 2 * h)):",
            "(rng.random((1, 2, 7, 7), np.float32), rng.random((1, 2, 3, 3), np.float32))",
        ),
    ),
    (
        "(rng.standard_normal((3, 2, 7, 9), np.float32),"
        " rng.standard_normal((3, 2, 3, 5), np.float32))",
        "(rng.standard_normal((1, 5, 8, 6), np.float32),"
        " rng.standard_normal((7, 5, 3, 1), np.float32))",
        "(rng.standard_normal((9, 7, 3, 2), np.float32).T[..., ::-1],"
        " rng.standard_normal((6, 3, 2, 2), np.float32)[::2])",
        "(np.zeros((1, 0, 5, 5), np.float32), np.zeros((2, 0, 3, 3), np.float32))",
        "(np.ones((1, 1, 2, 3), np.float32), np.ones((2, 1, 3, 3), np.float32))",
        "(np.ones((0, 1, 3, 3), np.float32), np.ones((0, 1, 1, 1), np.float32))",
    ),
)

DEPTHWISE = Mutated(
    "depthwise",
    """\
def depthwise(float(N,C,H,W) x, float(C,P,Q) f) -> (o) {
  o(n,c,h,w) +=! pad(x(n,c,h+p-1,w+q-1), 0) * f(c,p,q) where h in 0:H, w in 0:W
}""",
    """\
@njit(parallel=True)
def kernel(x, f):
    N, C, H, W = x.shape
    _, P, Q = f.shape
    o = np.zeros((N, C, H, W), np.float32)
    for c in prange(C):
        for n in range(N):
            for h in range(H):
                for w in range(W):
                    for p in range(P):
                        for q in range(Q):
                            r, s = h + p - 1, w + q - 1
                            if 0 <= r < H and 0 <= s < W:
                                o[n, c, h, w] += x[n, c, r, s] * f[c, p, q]
                            else:
                                o[n, c, h, w] += np.float32(0) * f[c, p, q]
    return o
""",
    (
        Mutant(
            "axis",
            "0 <= s < W",
            "0 <= s < min(H, W)",
            "(rng.random((1, 2, 4, 6), np.float32), rng.random((2, 3, 3), np.float32))",
        ),
        Mutant(
            "index",
            "0 <= r < H",
            "-1 <= r < H",
            "(rng.random((1, 2, 4, 6), np.float32), rng.random((2, 3, 3), np.float32))",
        ),
        Mutant(
            "unmasked edge",
            "0 <= s < W",
            "0 <= s < W - W % 4",
            "(rng.random((1, 2, 4, 6), np.float32), rng.random((2, 3, 3), np.float32))",
        ),
        Mutant(
            "missing term",
            "for p in range(P):",
            "for p in range(P - (h == H - 1)):",
            "(rng.random((1, 2, 4, 6), np.float32), rng.random((2, 2, 3), np.float32))",
        ),
        Mutant(
            "bound",
            "for q in range(Q):",
            "for q in range(min(Q, 3)):",
            "(rng.random((1, 2, 4, 6), np.float32), rng.random((2, 3, 4), np.float32))",
        ),
        Mutant(
            "nan",
            "o[n, c, h, w] += np.float32(0) * f[c, p, q]",
            "pass",
            "(rng.random((1, 1, 4, 6), np.float32), np.float32([[[np.inf, 1]]]))",
        ),
        Mutant(
            "half",
            "o[n, c, h, w] += x[n, c, r, s] * f[c, p, q]",
            "a = o[n, c, h, w] + x[n, c, r, s] * f[c, p, q]\n"
            "                                o[n, c, h, w] = a * np.float32(8193) - (\n"
            "                                    a * np.float32(8193) - a\n"
            "                                )",
            "(rng.random((1, 2, 4, 6), np.float32), rng.random((2, 3, 3), np.float32))",
        ),
        Mutant(
            "state",
            "@njit(parallel=True)",
            FEW_CALLS + "@njit(parallel=True)",
            "(rng.random((1, 2, 4, 6), np.float32), rng.random((2, 3, 3), np.float32))",
        ),
    ),
    (
        "(rng.standard_normal((1, 3, 7, 5), np.float32),"
        " rng.standard_normal((3, 3, 3), np.float32))",
        "(rng.standard_normal((3, 1, 5, 9), np.float32),"
        " rng.standard_normal((1, 2, 5), np.float32))",
        "(rng.standard_normal((9, 7, 5, 2), np.float32).T[:, ::-2],"
        " rng.standard_normal((3, 2, 8), np.float32)[..., ::2])",
        "(np.ones((1, 2, 1, 1), np.float32), np.ones((2, 1, 3), np.float32))",
        "(np.ones((1, 2, 3, 3), np.float32), np.ones((2, 0, 3), np.float32))",
        "(np.ones((1, 2, 0, 3), np.float32), np.ones((2, 3, 3), np.float32))",
        "(np.float32([[[[1, np.inf, 0], [2, 3, 4]]]]), np.float32([[[np.inf, 1], [np.nan, 0]]]))",
    ),
)

MAXPOOL = Mutated(
    "maxpool",
    "def maxpool(float(C,N) x) -> (o) { o(c,i) max=! x(c,2*i+k) where k in 0:3 }",
    """\
@njit
def kernel(x):
    C, N = x.shape
    n = (N - 3) // 2 + 1
    o = np.empty((C, n), np.float32)
    for c in range(C):
        for i in range(n):
            best = x[c, 2 * i]
            for k in range(1, 3):
                v = x[c, 2 * i + k]
                if v > best or v != v:
                    best = v
            o[c, i] = best
    return o
""",
    (
        Mutant("nan", "v > best or v != v", "v > best", "(np.float32([[1, np.nan, 2]]),)"),
        Mutant(
            "nan", "v > best or v != v", "not v <= best", "(np.float32([[np.nan, 1, 2, 1, 1]]),)"
        ),
        Mutant(
            "bound",
            "for i in range(n):",
            "for i in range((N - 2) // 2):",
            "(np.full((1, 2049), 3, np.float32) + np.arange(2049, dtype=np.float32),)",
        ),
        Mutant(
            "missing term",
            "range(1, 3)",
            "range(1, 3 if 2 * i + 3 < N else 2)",
            "(np.arange(14, dtype=np.float32).reshape(2, 7),)",
        ),
        Mutant(
            "index",
            "x[c, 2 * i + k]",
            "x[c, (2 * i + k) % (N & -2)]",
            "(np.arange(14, dtype=np.float32).reshape(2, 7),)",
        ),
        Mutant(
            "stride",
            "    o = np.empty",
            "    x = np.lib.stride_tricks.as_strided(x, x.shape, (N * x.itemsize, x.itemsize))\n"
            "    o = np.empty",
            "(rng.random((6, 7), np.float32)[::3],)",
        ),
        Mutant(
            "uninitialised",
            "best = x[c, 2 * i]",
            "best = max(x[c, 2 * i], np.float32(-100))",
            "(np.full((2, 5), -300, np.float32),)",
        ),
        Mutant("state", "@njit", BY_SHAPE + "@njit", "(rng.random((2, 7), np.float32),)"),
    ),
    (
        "(rng.standard_normal((3, 11), np.float32),)",
        "(rng.standard_normal((1, 16), np.float32),)",
        "(rng.standard_normal((21, 5), np.float32)[::-3].T,)",
        "(np.ones((0, 7), np.float32),)",
        "(np.ones((3, 2), np.float32),)",
        "(np.float32([[np.nan, 1, -np.inf, -np.inf, -np.inf, 2, 3, np.nan, 5]]),)",
    ),
)

HEAT = Mutated(
    "heat",
    """\
def heat(double(N,M) u, double c) -> (o) {
  o(i,j) = u(i,j) + c * (pad(u(i-1,j), 0) + pad(u(i+1,j), 0) + pad(u(i,j-1), 0)
                         + pad(u(i,j+1), 0) - 4 * u(i,j))
}""",
    """\
def kernel(u, c):
    N, M = u.shape
    p = np.zeros((N + 2, M + 2))
    p[1:-1, 1:-1] = u
    with np.errstate(all="ignore"):
        s = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
        return u + c * (s - 4 * u)
""",
    (
        Mutant(
            "unmasked edge",
            "np.zeros((N + 2, M + 2))",
            "np.pad(u, 1, mode='edge') if u.size else np.zeros((N + 2, M + 2))",
            "(rng.random((4, 5)), 0.1)",
        ),
        Mutant(
            "uninitialised",
            "np.zeros((N + 2, M + 2))",
            "np.empty((N + 2, M + 2))",
            "(rng.random((4, 5)), 0.1)",
        ),
        Mutant(
            "bound",
            "return u + c * (s - 4 * u)",
            "o = u.copy()\n        o[1:-1, 1:-1] += c * (s - 4 * u)[1:-1, 1:-1]\n        return o",
            "(rng.random((4, 5)), 0.1)",
        ),
        Mutant(
            "type",
            "np.zeros((N + 2, M + 2))",
            "np.zeros((N + 2, M + 2), np.float32)",
            "(rng.random((4, 5)), 0.1)",
        ),
        Mutant(
            "half",
            "u + c * (s - 4 * u)",
            "u + np.float16(c) * (s - 4 * u)",
            "(rng.random((4, 5)), 0.1)",
        ),
        Mutant(
            "state",
            "return u + c * (s - 4 * u)",
            "u += c * (s - 4 * u)\n        return u.copy()",
            "(rng.random((4, 5)), 0.1)",
        ),
        Mutant(
            "stride",
            "    p = np.zeros",
            "    u = np.lib.stride_tricks.as_strided(u, u.shape, (u.strides[0], u.itemsize))\n"
            "    p = np.zeros",
            "(rng.random((4, 10))[:, ::2], 0.1)",
        ),
        Mutant(
            "index",
            "p[1:-1, 2:]",
            "p[1:-1].take(np.minimum(np.arange(2, M + 2), M), 1)",
            "(rng.random((4, 5)), 0.1)",
        ),
    ),
    (
        "(rng.standard_normal((7, 5)), 0.1)",
        "(rng.standard_normal((1, 9)), -3.0)",
        "(rng.standard_normal((10, 21)).T[::3, ::-2], 0.2)",
        "(rng.standard_normal((1, 1)), 0.25)",
        "(np.zeros((0, 3)), 0.25)",
        "(np.zeros((3, 0)), 0.25)",
        "(np.float64([[1, np.inf, 0, 0], [0, np.nan, 2, 3], [1, 1, 1, 1]]), 0.25)",
    ),
)

PRODUCT = Mutated(
    "product",
    "def product(int64(N,M) x) -> (p) { p(i) *=! x(i,j) }",
    """\
@njit(parallel=True)
def kernel(x):
    N, M = x.shape
    p = np.ones(N, np.int64)
    for i in prange(N):
        for j in range(M):
            p[i] *= x[i, j]
    return p
""",
    (
        Mutant(
            "type",
            "p[i] *= x[i, j]",
            "p[i] = np.int64(np.float64(p[i]) * np.float64(x[i, j]))",
            "(np.int64([[2**31 + 1, 2**30 + 1]]),)",
        ),
        Mutant(
            "type",
            "p[i] *= x[i, j]",
            "p[i] = np.int32(p[i] * x[i, j])",
            "(np.int64([[2**20, 2**20]]),)",
        ),
        Mutant(
            "missing term",
            "            p[i] *=",
            "            if x[i, j] != 0:\n                p[i] *=",
            "(np.int64([[2, 0, 3]]),)",
        ),
        Mutant(
            "uninitialised",
            "np.ones(N, np.int64)",
            "np.full(N, M > 0, np.int64)",
            "(np.ones((3, 0), np.int64),)",
        ),
        Mutant(
            "race",
            "for i in prange(N):\n        for j in range(M):",
            "for j in prange(M):\n        for i in range(N):",
            "",
        ),
        Mutant(
            "stride",
            "    p = np.ones",
            "    x = np.lib.stride_tricks.as_strided(x, x.shape, (x.strides[0], x.itemsize))\n"
            "    p = np.ones",
            "(np.arange(1, 7).reshape(2, 3).T,)",
        ),
        Mutant(
            "unmasked edge",
            "range(M)",
            "range(M // 2 * 2)",
            "(np.int64([[2, 5, 3]]),)",
        ),
        Mutant(
            "state",
            "@njit(parallel=True)",
            ADDS_UP + "@njit(parallel=True)",
            "(np.int64([[2, 5, 3]]),)",
        ),
    ),
    (
        "(rng.integers(-9, 9, (7, 5)),)",
        "(rng.integers(-(2**63), 2**63, (1, 9)),)",
        "(rng.integers(-(2**40), 2**40, (10, 21)).T[::3, ::-2],)",
        "(rng.integers(-9, 9, (1, 1)),)",
        "(np.ones((3, 0), np.int64),)",
        "(np.ones((0, 3), np.int64),)",
    ),
)

WINDOWS = (CONV1D, CONV2D, DEPTHWISE, MAXPOOL, HEAT, PRODUCT)
