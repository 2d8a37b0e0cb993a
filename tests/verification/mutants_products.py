"""Kernels that multiply: matrices, vectors, layers, scores."""

from tests.verification.mutants_record import ADDS_UP, BY_IDENTITY, BY_SHAPE, Mutant, Mutated

MATMUL = Mutated(
    "matmul",
    "def matmul(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
    """\
@njit(parallel=True)
def kernel(A, B):
    M, K = A.shape
    N = B.shape[1]
    C = np.zeros((M, N), np.float32)
    for i in prange(M):
        for k in range(K):
            a = A[i, k]
            for j in range(N):
                C[i, j] += a * B[k, j]
    return C
""",
    (
        Mutant(
            "bound",
            "for k in range(K):",
            "for k in range(min(K, 64)):",
            "(rng.random((2, 65), np.float32), rng.random((65, 3), np.float32))",
        ),
        Mutant(
            "unmasked edge",
            "for k in range(K):",
            "for k in range(K // 4 * 4):",
            "(rng.random((2, 6), np.float32), rng.random((6, 3), np.float32))",
        ),
        Mutant(
            "axis",
            "for j in range(N):",
            "for j in range(min(M, N)):",
            "(rng.random((2, 4), np.float32), rng.random((4, 3), np.float32))",
        ),
        Mutant(
            "race",
            "for i in prange(M):\n        for k in range(K):",
            "for i in range(M):\n        for k in prange(K):",
            "",
        ),
        Mutant(
            "half",
            "C[i, j] += a * B[k, j]",
            "c = C[i, j] + a * B[k, j]\n"
            "                C[i, j] = c * np.float32(8193) - (c * np.float32(8193) - c)",
            "(rng.random((4, 32), np.float32), rng.random((32, 4), np.float32))",
        ),
        Mutant(
            "uninitialised",
            "np.zeros((M, N), np.float32)",
            "np.empty((M, N), np.float32)",
            "(rng.random((9, 4), np.float32), rng.random((4, 11), np.float32))",
        ),
        Mutant(
            "stride",
            "    C = np.zeros",
            "    B = np.lib.stride_tricks.as_strided(B, B.shape, (B.strides[0], B.itemsize))\n"
            "    C = np.zeros",
            "(rng.random((3, 4), np.float32), rng.random((3, 4), np.float32).T)",
        ),
        Mutant(
            "nan",
            "a = A[i, k]",
            "a = A[i, k]\n            if a == 0:\n                continue",
            "(np.float32([[0, 1]]), np.float32([[np.nan, 1], [1, 1]]))",
        ),
    ),
    (
        "(rng.standard_normal((5, 7), np.float32), rng.standard_normal((7, 3), np.float32))",
        "(rng.standard_normal((1, 33), np.float32), rng.standard_normal((33, 9), np.float32))",
        "(rng.standard_normal((9, 11), np.float32)[::2].T,"
        " rng.standard_normal((5, 13), np.float32)[::-1, ::3])",
        "(np.zeros((3, 0), np.float32), np.zeros((0, 2), np.float32))",
        "(np.zeros((0, 1), np.float32), np.zeros((1, 0), np.float32))",
        "(np.float32([[0, np.inf], [np.nan, 1]]), np.float32([[np.inf, 1], [0, 2]]))",
    ),
)

MATMUL_BLOCKED = Mutated(
    "matmul_blocked",
    "def matmul(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
    """\
@njit
def kernel(A, B):
    M, K = A.shape
    N = B.shape[1]
    C = np.zeros((M, N), np.float32)
    acc = np.zeros(8, np.float32)
    for i in range(M):
        for j0 in range(0, N, 8):
            width = min(8, N - j0)
            acc[:] = 0
            for k in range(K):
                a = A[i, k]
                for j in range(width):
                    acc[j] += a * B[k, j0 + j]
            C[i, j0 : j0 + width] = acc[:width]
    return C
""",
    (
        Mutant(
            "unmasked edge",
            "range(0, N, 8)",
            "range(0, N - 7, 8)",
            "(rng.random((2, 4), np.float32), rng.random((4, 11), np.float32))",
        ),
        Mutant(
            "unmasked edge",
            "min(8, N - j0)",
            "8 if N % 8 == 0 else N % 8",
            "(rng.random((2, 4), np.float32), rng.random((4, 11), np.float32))",
        ),
        Mutant(
            "uninitialised",
            "acc[:] = 0",
            "if j0 == 0:\n                acc[:] = 0",
            "(rng.random((2, 4), np.float32), rng.random((4, 9), np.float32))",
        ),
        Mutant(
            "missing term",
            "for k in range(K):",
            "for k in range(K % 2, K):",
            "(rng.random((2, 5), np.float32), rng.random((5, 8), np.float32))",
        ),
        Mutant(
            "axis",
            "for k in range(K):",
            "for k in range(min(K, N)):",
            "(rng.random((2, 5), np.float32), rng.random((5, 4), np.float32))",
        ),
        Mutant(
            "stride",
            "    acc = np.zeros",
            "    A = np.lib.stride_tricks.as_strided(A, A.shape, (K * A.itemsize, A.itemsize))\n"
            "    acc = np.zeros",
            "(rng.random((6, 5), np.float32)[::2], rng.random((5, 8), np.float32))",
        ),
        Mutant(
            "half",
            "acc[j] += a * B[k, j0 + j]",
            "c = acc[j] + a * B[k, j0 + j]\n"
            "                    acc[j] = c * np.float32(8193) - (c * np.float32(8193) - c)",
            "(rng.random((4, 32), np.float32), rng.random((32, 8), np.float32))",
        ),
        Mutant(
            "order",
            "acc[:width]",
            "acc[8 - width :]",
            "(rng.random((2, 5), np.float32), rng.random((5, 15), np.float32))",
        ),
    ),
    (
        "(rng.standard_normal((5, 7), np.float32), rng.standard_normal((7, 19), np.float32))",
        "(rng.standard_normal((1, 33), np.float32), rng.standard_normal((33, 9), np.float32))",
        "(rng.standard_normal((9, 11), np.float32)[::2].T,"
        " rng.standard_normal((5, 13), np.float32)[::-1, ::3])",
        "(np.zeros((3, 0), np.float32), np.zeros((0, 2), np.float32))",
        "(np.zeros((0, 1), np.float32), np.zeros((1, 0), np.float32))",
        "(np.float32([[0, np.inf], [np.nan, 1]]), np.float32([[np.inf, 1], [0, 2]]))",
    ),
)

DOT = Mutated(
    "dot",
    "def dot(double(N) a, double(N) b) -> (o) { o +=! a(i) * b(i) }",
    """\
@njit(parallel=True)
def kernel(a, b):
    n = a.size
    chunks = (n + 127) // 128
    partial = np.zeros(chunks, np.float64)
    for c in prange(chunks):
        for i in range(128 * c, min(128 * c + 128, n)):
            partial[c] += a[i] * b[i]
    total = 0.0
    for c in range(chunks):
        total += partial[c]
    o = np.empty((), np.float64)
    o[()] = total
    return o
""",
    (
        Mutant(
            "unmasked edge", "(n + 127) // 128", "n // 128", "(rng.random(130), rng.random(130))"
        ),
        Mutant("bound", "128 * c + 128", "128 * c + 127", "(rng.random(130), rng.random(130))"),
        Mutant("race", "partial[c] += a", "partial[0] += a", ""),
        Mutant(
            "uninitialised",
            "np.zeros(chunks, np.float64)",
            "np.empty(chunks, np.float64)",
            "(rng.random(300), rng.random(300))",
        ),
        Mutant(
            "type",
            "np.zeros(chunks, np.float64)",
            "np.zeros(chunks, np.float32)",
            "(rng.random(20), rng.random(20))",
        ),
        Mutant(
            "missing term",
            "for c in range(chunks):",
            "for c in range(min(chunks, 8)):",
            "(rng.random(1025), rng.random(1025))",
        ),
        Mutant(
            "stride",
            "    partial = np.zeros",
            "    b = np.lib.stride_tricks.as_strided(b, b.shape, (b.itemsize,))\n"
            "    partial = np.zeros",
            "(rng.random(20), rng.random(60)[::3])",
        ),
        Mutant(
            "state",
            "@njit(parallel=True)",
            BY_IDENTITY + "@njit(parallel=True)",
            "(rng.random(20), rng.random(20))",
        ),
    ),
    (
        "(rng.standard_normal(1), rng.standard_normal(1))",
        "(rng.standard_normal(131), rng.standard_normal(131))",
        "(rng.standard_normal(1031), rng.standard_normal(2062)[::-2])",
        "(np.zeros(0), np.zeros(0))",
        "(np.float64([1, np.inf]), np.float64([np.nan, 0]))",
        "(np.float64([1, np.inf, 2]), np.float64([3, 2, 0]))",
    ),
)

TRIANGLE = Mutated(
    "triangle",
    "def triangle(double(N,N) L, double(N) x) -> (y) { y(i) +=! L(i,j) * x(j) where j in 0:i+1 }",
    """\
@njit(parallel=True)
def kernel(L, x):
    N = x.size
    y = np.zeros(N, np.float64)
    for i in prange(N):
        for j in range(i + 1):
            y[i] += L[i, j] * x[j]
    return y
""",
    (
        Mutant(
            "bound",
            "range(i + 1)",
            "range(min(i + 1, N - 1))",
            "(rng.random((5, 5)), rng.random(5))",
        ),
        Mutant(
            "unmasked edge",
            "range(i + 1)",
            "range(min(i // 4 * 4 + 4, N))",
            "(rng.random((5, 5)), rng.random(5))",
        ),
        Mutant("axis", "L[i, j]", "L[j, i]", "(rng.random((5, 5)), rng.random(5))"),
        Mutant(
            "race",
            "for i in prange(N):\n        for j in range(i + 1):",
            "for j in prange(N):\n        for i in range(j, N):",
            "",
        ),
        Mutant(
            "type",
            "y[i] += L[i, j] * x[j]",
            "y[i] = np.float32(y[i] + L[i, j] * x[j])",
            "(rng.random((5, 5)), rng.random(5))",
        ),
        Mutant(
            "nan",
            "for j in range(i + 1):\n            y[i] += L[i, j] * x[j]",
            "for j in range(N):\n            y[i] += L[i, j] * x[j] * (j <= i)",
            "(np.float64([[1, np.inf], [1, 1]]), rng.random(2))",
        ),
        Mutant(
            "stride",
            "    y = np.zeros",
            "    L = np.lib.stride_tricks.as_strided(L, L.shape, (L.strides[0], L.itemsize))\n"
            "    y = np.zeros",
            "(rng.random((5, 5)).T, rng.random(5))",
        ),
        Mutant(
            "state",
            "@njit(parallel=True)",
            ADDS_UP + "@njit(parallel=True)",
            "(rng.random((5, 5)), rng.random(5))",
        ),
    ),
    (
        "(rng.standard_normal((5, 5)), rng.standard_normal(5))",
        "(rng.standard_normal((1, 1)), rng.standard_normal(1))",
        "(rng.standard_normal((17, 34))[:, ::-2].T, rng.standard_normal(17)[::-1])",
        "(np.zeros((0, 0)), np.zeros(0))",
        "(np.float64([[1, np.nan, np.inf], [2, 0, np.inf], [0, 1, 2]]), np.float64([1, 2, 3]))",
    ),
)

INT8_MATMUL = Mutated(
    "int8_matmul",
    "def mm8(int8(M,K) A, int8(K,N) B) -> (C) { C(i,j) +=! int(A(i,k)) * int(B(k,j)) }",
    """\
@njit(parallel=True)
def kernel(A, B):
    M, K = A.shape
    N = B.shape[1]
    C = np.zeros((M, N), np.int32)
    for i in prange(M):
        for k in range(K):
            a = np.int32(A[i, k])
            for j in range(N):
                C[i, j] += a * B[k, j]
    return C
""",
    (
        Mutant(
            "type",
            "C[i, j] += a * B[k, j]",
            "C[i, j] = np.int16(C[i, j] + a * B[k, j])",
            "(np.full((2, 3), 127, np.int8), np.full((3, 2), 127, np.int8))",
        ),
        Mutant(
            "type",
            "a = np.int32(A[i, k])",
            "a = max(np.int32(A[i, k]), np.int32(-127))",
            "(np.full((2, 3), -128, np.int8), np.full((3, 2), 127, np.int8))",
        ),
        Mutant(
            "type",
            "C[i, j] += a * B[k, j]",
            "C[i, j] = np.float32(C[i, j]) + np.float32(a * B[k, j])",
            "(np.full((1, 1101), 127, np.int8), np.full((1101, 1), 127, np.int8))",
        ),
        Mutant(
            "unmasked edge",
            "for k in range(K):",
            "for k in range(K // 4 * 4):",
            "(np.full((2, 3), 3, np.int8), np.full((3, 2), 5, np.int8))",
        ),
        Mutant(
            "race",
            "for i in prange(M):\n        for k in range(K):",
            "for i in range(M):\n        for k in prange(K):",
            "",
        ),
        Mutant(
            "uninitialised",
            "np.zeros((M, N), np.int32)",
            "np.empty((M, N), np.int32)\n    C[:8] = 0",
            "(np.full((20, 2), 3, np.int8), np.full((2, 2), 5, np.int8))",
        ),
        Mutant(
            "stride",
            "    C = np.zeros",
            "    A = np.lib.stride_tricks.as_strided(A, A.shape, (A.strides[0], A.itemsize))\n"
            "    C = np.zeros",
            "(np.int8([[1, 2], [3, 4]]).T, np.int8([[1, 2], [3, 4]]))",
        ),
        Mutant(
            "state",
            "@njit(parallel=True)",
            BY_SHAPE + "@njit(parallel=True)",
            "(rng.integers(-9, 9, (3, 3), np.int8), rng.integers(-9, 9, (3, 3), np.int8))",
        ),
    ),
    (
        "(rng.integers(-128, 128, (5, 7), np.int8), rng.integers(-128, 128, (7, 3), np.int8))",
        "(rng.integers(-128, 128, (1, 33), np.int8), rng.integers(-128, 128, (33, 9), np.int8))",
        "(rng.integers(-128, 128, (9, 11), np.int8)[::2].T,"
        " rng.integers(-128, 128, (5, 13), np.int8)[::-1, ::3])",
        "(np.zeros((3, 0), np.int8), np.zeros((0, 2), np.int8))",
        "(np.full((2, 70), -128, np.int8), np.full((70, 2), -128, np.int8))",
    ),
)

RELU_LAYER = Mutated(
    "relu_layer",
    """\
def layer(float(B,I) x, float(O,I) W, float(O) bias) -> (y) {
  h(b,o) = bias(o) where b in 0:B
  h(b,o) += W(o,i) * x(b,i)
  y(b,o) = max(h(b,o), 0)
}""",
    """\
@njit
def kernel(x, W, bias):
    B, I = x.shape
    O = W.shape[0]
    y = np.zeros((B, O), np.float32)
    for b in range(B):
        for o in range(O):
            acc = bias[o]
            for i in range(I):
                acc += W[o, i] * x[b, i]
            if acc > 0 or acc != acc:
                y[b, o] = acc
    return y
""",
    (
        Mutant(
            "missing term",
            "acc = bias[o]",
            "acc = bias[o] if I > 0 else np.float32(0)",
            "(np.zeros((2, 0), np.float32), np.zeros((3, 0), np.float32), np.ones(3, np.float32))",
        ),
        Mutant(
            "nan",
            "acc > 0 or acc != acc",
            "acc > 0",
            "(np.float32([[np.nan, 1]]), np.ones((3, 2), np.float32), np.ones(3, np.float32))",
        ),
        Mutant(
            "axis",
            "acc = bias[o]",
            "acc = bias[b % O]",
            "(np.ones((2, 3), np.float32), np.ones((4, 3), np.float32), rng.random(4, np.float32))",
        ),
        Mutant(
            "unmasked edge",
            "for o in range(O):",
            "for o in range(O // 16 * 16):",
            "(np.ones((2, 3), np.float32), np.ones((17, 3), np.float32), np.ones(17, np.float32))",
        ),
        Mutant(
            "bound",
            "for i in range(I):",
            "for i in range(I & -2):",
            "(np.ones((2, 3), np.float32), np.ones((4, 3), np.float32), np.ones(4, np.float32))",
        ),
        Mutant(
            "half",
            "acc += W[o, i] * x[b, i]",
            "acc += W[o, i] * x[b, i]\n"
            "                acc = acc * np.float32(8193) - (acc * np.float32(8193) - acc)",
            "(rng.random((2, 9), np.float32), rng.random((4, 9), np.float32),"
            " rng.random(4, np.float32))",
        ),
        Mutant(
            "stride",
            "    y = np.zeros",
            "    W = np.lib.stride_tricks.as_strided(W, W.shape, (W.strides[0], W.itemsize))\n"
            "    y = np.zeros",
            "(rng.random((2, 3), np.float32), rng.random((3, 4), np.float32).T,"
            " rng.random(4, np.float32))",
        ),
        Mutant(
            "state",
            "@njit",
            BY_IDENTITY + "@njit",
            "(rng.random((2, 3), np.float32), rng.random((4, 3), np.float32),"
            " rng.random(4, np.float32))",
        ),
    ),
    (
        "(rng.standard_normal((5, 7), np.float32), rng.standard_normal((3, 7), np.float32),"
        " rng.standard_normal(3, np.float32))",
        "(rng.standard_normal((1, 17), np.float32), rng.standard_normal((33, 17), np.float32),"
        " rng.standard_normal(33, np.float32))",
        "(rng.standard_normal((7, 5), np.float32).T, rng.standard_normal((9, 14), np.float32)"
        "[::-2, ::2], rng.standard_normal(15, np.float32)[::3])",
        "(np.zeros((3, 0), np.float32), np.zeros((2, 0), np.float32), np.float32([-1, np.nan]))",
        "(np.zeros((0, 1), np.float32), np.zeros((0, 1), np.float32), np.zeros(0, np.float32))",
        "(np.float32([[0, np.inf], [np.nan, 1]]), np.float32([[0, -1], [1, 2]]),"
        " np.float32([0, 2]))",
    ),
)

ATTENTION = Mutated(
    "attention",
    """\
def scores(float(H,L,D) q, float(H,S,D) k, float scale) -> (s) {
  t(h,i,j) +=! q(h,i,d) * k(h,j,d)
  s(h,i,j) = j <= i ? scale * t(h,i,j) : 0
}""",
    """\
@njit(parallel=True)
def kernel(q, k, scale):
    H, L, D = q.shape
    S = k.shape[1]
    s = np.zeros((H, L, S), np.float32)
    for h in prange(H):
        for i in range(L):
            for j in range(min(i + 1, S)):
                for d in range(D):
                    s[h, i, j] += q[h, i, d] * k[h, j, d]
                s[h, i, j] *= np.float32(scale)
    return s
""",
    (
        Mutant(
            "unmasked edge",
            "min(i + 1, S)",
            "min(i // 4 * 4 + 4, S)",
            "(rng.random((1, 3, 2), np.float32), rng.random((1, 3, 2), np.float32), 0.5)",
        ),
        Mutant(
            "bound",
            "for d in range(D):",
            "for d in range(D // 8 * 8):",
            "(rng.random((1, 3, 9), np.float32), rng.random((1, 3, 9), np.float32), 0.5)",
        ),
        Mutant(
            "axis",
            "min(i + 1, S)",
            "min(i + 1 + S - L, S)",
            "(rng.random((1, 3, 2), np.float32), rng.random((1, 5, 2), np.float32), 0.5)",
        ),
        Mutant(
            "index",
            "k[h, j, d]",
            "k[h // 8 * 8, j, d]",
            "(rng.random((2, 3, 2), np.float32), rng.random((2, 3, 2), np.float32), 0.5)",
        ),
        Mutant(
            "half",
            "s[h, i, j] += q[h, i, d] * k[h, j, d]",
            "c = s[h, i, j] + q[h, i, d] * k[h, j, d]\n"
            "                    s[h, i, j] = c * np.float32(8193) - (c * np.float32(8193) - c)",
            "(rng.random((1, 3, 9), np.float32), rng.random((1, 3, 9), np.float32), 0.5)",
        ),
        Mutant(
            "race",
            """\
    for h in prange(H):
        for i in range(L):
            for j in range(min(i + 1, S)):
                for d in range(D):
                    s[h, i, j] += q[h, i, d] * k[h, j, d]
                s[h, i, j] *= np.float32(scale)
""",
            """\
    row = np.zeros(S, np.float32)
    for h in prange(H):
        for i in range(L):
            row[:] = 0
            for j in range(min(i + 1, S)):
                for d in range(D):
                    row[j] += q[h, i, d] * k[h, j, d]
            for j in range(S):
                s[h, i, j] = row[j] * np.float32(scale)
""",
            "",
        ),
        Mutant(
            "uninitialised",
            "                for d in range(D):",
            "                if j >= 64:\n"
            "                    s[h, i, j] = s[h, i, j - 1]\n"
            "                for d in range(D):",
            "(rng.random((1, 67, 2), np.float32), rng.random((1, 67, 2), np.float32), 0.5)",
        ),
        Mutant(
            "stride",
            "    s = np.zeros",
            "    k = np.lib.stride_tricks.as_strided(\n"
            "        k, k.shape, (k.strides[0], k.strides[1], k.itemsize)\n"
            "    )\n"
            "    s = np.zeros",
            "(rng.random((1, 3, 2), np.float32), rng.random((1, 3, 4), np.float32)[..., ::2], 0.5)",
        ),
    ),
    (
        "(rng.standard_normal((3, 5, 7), np.float32), rng.standard_normal((3, 9, 7), np.float32),"
        " 0.25)",
        "(rng.standard_normal((1, 19, 1), np.float32),"
        " rng.standard_normal((1, 11, 1), np.float32), -3.5)",
        "(rng.standard_normal((7, 5, 3), np.float32).T, rng.standard_normal((6, 9, 7), np.float32)"
        "[::-2, ::2, ::-1], 0.1)",
        "(np.zeros((2, 3, 0), np.float32), np.zeros((2, 4, 0), np.float32), 2.0)",
        "(np.zeros((0, 1, 2), np.float32), np.zeros((0, 0, 2), np.float32), 2.0)",
        "(np.float32([[[1], [np.nan], [np.inf]]]), np.float32([[[1], [0], [np.nan]]]), 2.0)",
    ),
)

PRODUCTS = (MATMUL, MATMUL_BLOCKED, DOT, TRIANGLE, INT8_MATMUL, RELU_LAYER, ATTENTION)
