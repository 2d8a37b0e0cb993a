# ruff: noqa: C408, E501
"""Verified pairs, of rules that the well-known kernels do not need."""

from __future__ import annotations

from tests.gradient.pairs import PAIRS, pair

__all__ = ["PAIRS"]

# ------------------------------------------------------------------ what the rules must also cover
pair(
    "stride and dilation known at run time",
    "D5 D6",
    """
def sconv(int s, int r, float(W) I, float(K) F) -> (O) { O(i) +=! I(s*i + r*k) * F(k) }""",
    """
def sconv_grad(int s, int r, float(W) I, float(K) F, float(OW) d_O) -> (float(W) d_I, float(K) d_F) {
  d_I(x) +=! (x - r*k) % s == 0 ? pad(d_O((x - r*k)/s) * F(k), 0) : 0 where k in 0:K
  d_F(k) +=! d_O(i) * I(s*i + r*k)
}""",
    dict(s=3, r=2, I=(13,), F=(3,)),
)

pair(
    "coprime stride 3, dilation 2",
    "D6",
    """
def c32(float(W) I, float(K) F) -> (O) { O(i) +=! I(3*i + 2*k) * F(k) }""",
    """
def c32_grad(float(W) I, float(K) F, float(OW) d_O) -> (float(W) d_I, float(K) d_F) {
  d_I(x) +=! pad(d_O((x - 2*(3*p + 2*x%3))/3) * F(3*p + 2*x%3), 0) where p in 0:(K+2)/3
  d_F(k) +=! d_O(i) * I(3*i + 2*k)
}""",
    dict(I=(19,), F=(5,)),
)

pair(
    "common divisor: stride 4, dilation 2, offset 1",
    "D6",
    """
def c42(float(W) I, float(K) F) -> (O) { O(i) +=! I(4*i + 2*k + 1) * F(k) }""",
    """
def c42_grad(float(W) I, float(K) F, float(OW) d_O) -> (float(W) d_I, float(K) d_F) {
  d_I(x) +=! (x-1) % 2 == 0 ? pad(d_O(((x-1)/2 - (2*p + (x-1)/2%2))/2) * F(2*p + (x-1)/2%2), 0) : 0
      where p in 0:(K+1)/2
  d_F(k) +=! d_O(i) * I(4*i + 2*k + 1)
}""",
    dict(I=(16,), F=(3,)),
)

pair(
    "skewed subscripts",
    "D6",
    """
def skew(float(P,Q) A) -> (O) { O(i,j) = A(i+j, i-j+3) where i in 0:4, j in 0:4 }""",
    """
def skew_grad(float(P,Q) A, float(4,4) d_O) -> (float(P,Q) d_A) {
  d_A(a,b) = (a+b-3) % 2 == 0 ? pad(d_O((a+b-3)/2, (a-b+3)/2), 0) : 0
}""",
    dict(A=(7, 7)),
)

pair(
    "diagonal",
    "D6",
    """
def diag(float(N,N) A, float(N) B) -> (O) { O(i) = A(i,i) * B(i) }""",
    """
def diag_grad(float(N,N) A, float(N) B, float(N) d_O) -> (float(N,N) d_A, float(N) d_B) {
  d_A(i,b) = b == i ? d_O(i) * B(i) : 0
  d_B(i) = d_O(i) * A(i,i)
}""",
    dict(A=(4, 4), B=(4,)),
)

pair(
    "upsample by division",
    "D6",
    """
def up(float(N) A, float(M) S) -> (O) { O(i) = A(i/3) * S(i) where i in 0:3*N }""",
    """
def up_grad(float(N) A, float(M) S, float(M) d_O) -> (float(N) d_A, float(M) d_S) {
  d_A(a) +=! pad(d_O(3*a + e) * S(3*a + e), 0) where e in 0:3
  d_S(i) = d_O(i) * A(i/3)
}""",
    dict(A=(4,), S=(12,)),
)

pair(
    "remainder, wrapped around",
    "D6",
    """
def wrap(float(N) A, float(K) F) -> (O) { O(i) +=! A((i + k) % N) * F(k) where i in 0:N }""",
    """
def wrap_grad(float(N) A, float(K) F, float(N) d_O) -> (float(N) d_A, float(K) d_F) {
  d_A(a) +=! pad(d_O(N*u + a - k) * F(k), 0) where k in 0:K, u in 0:(N+K-2)/N+1
  d_F(k) +=! d_O(i) * A((i + k) % N)
}""",
    dict(A=(5,), F=(3,)),
)

pair(
    "clamped edges",
    "D6 D14",
    """
def edge(float(N) A, float(K) F) -> (O) { O(i) +=! A(min(max(i + k - 1, 0), N-1)) * F(k) where i in 0:N }""",
    """
def edge_grad(float(N) A, float(K) F, float(N) d_O) -> (float(N) d_A, float(K) d_F) {
  d_A(a) +=! pad(d_O(a - k + 1) * F(k), 0)
  d_A(a) += i + k - 1 < 0 ? d_O(i) * F(k) : 0 where a in 0:1
  d_A(a) += i + k - 1 > N-1 ? d_O(i) * F(k) : 0 where a in N-1:N
  d_F(k) +=! d_O(i) * A(min(max(i + k - 1, 0), N-1))
}""",
    dict(A=(5,), F=(3,)),
)

pair(
    "where restricts a statement",
    "D4 D8 D9",
    """
def part(float(N) A, float(N) B) -> (O) {
  O(i) = A(i) * A(i)
  O(i) = A(i-1) * B(i) where i in 2:N
}""",
    """
def part_grad(float(N) A, float(N) B, float(N) d_O) -> (float(N) d_A, float(N) d_B) {
  b_O(i) = d_O(i)
  d_A(a) = a + 1 >= 2 ? pad(b_O(a+1) * B(a+1), 0) : 0
  d_B(i) = b_O(i) * A(i-1) where i in 2:N
  b_O(i) = 0 where i in 2:N
  d_A(i) += b_O(i) * 2 * A(i)
}""",
    dict(A=(6,), B=(6,)),
)

pair(
    "embedding gather",
    "D13",
    """
def emb(float(V,D) T, int(N) I, float(N) S) -> (O) { O(n,d) = T(I(n),d) * S(n) }""",
    """
def emb_grad(float(V,D) T, int(N) I, float(N) S, float(N,D) d_O) -> (float(V,D) d_T, float(N) d_S) {
  d_T(v,d) +=! I(n) == v ? d_O(n,d) * S(n) : 0
  d_S(n) +=! d_O(n,d) * T(I(n),d)
}""",
    dict(T=(4, 3), I=[3, 0, 3, 3, 1], S=(5,)),
)

pair(
    "gather by computed bytes",
    "D13 Y9",
    """
def bytes(float(V) T, byte(N) I) -> (O) { O(n) = T(I(n)*20 + 1) * T(n) }""",
    """
def bytes_grad(float(V) T, byte(N) I, float(N) d_O) -> (float(V) d_T) {
  d_T(v) +=! int64(I(n))*20 + 1 == v ? d_O(n) * T(n) : 0
  d_T(v) += pad(d_O(v) * T(I(v)*20 + 1), 0)
}""",
    dict(T=(302,), I=("byte", [15, 0, 2, 15])),
)

pair(
    "2LUT",
    "D13",
    """
def 2LUT(float(E1,D) L1, int(B,K1) I1, float(E2,D) L2, int(B,K2) I2) -> (O1, O2) {
  O1(i,j) +=! L1(I1(i,k),j)
  O2(i,j) +=! L2(I2(i,k),j)
}""",
    """
def 2LUT_grad(float(E1,D) L1, int(B,K1) I1, float(E2,D) L2, int(B,K2) I2, float(B,D) d_O1, float(B,D) d_O2)
    -> (float(E1,D) d_L1, float(E2,D) d_L2) {
  d_L2(v,j) +=! I2(i,k) == v ? d_O2(i,j) : 0
  d_L1(v,j) +=! I1(i,k) == v ? d_O1(i,j) : 0
}""",
    dict(L1=(4, 3), I1=[[3, 0, 3], [1, 1, 1]], L2=(5, 3), I2=[[4, 0], [2, 2]]),
)

pair(
    "non-affine subscript",
    "D13",
    """
def hank(float(N) A, float(M) S) -> (O) { O(i,j) = A(i*j) * S(j) where i in 0:3 }""",
    """
def hank_grad(float(N) A, float(M) S, float(3,M) d_O) -> (float(N) d_A, float(M) d_S) {
  d_A(a) +=! i*j == a ? d_O(i,j) * S(j) : 0
  d_S(j) +=! d_O(i,j) * A(i*j)
}""",
    dict(A=(9,), S=(4,)),
)

PROD = """
def prod(float(N,K) A) -> (P) { P(n) *=! A(n,k) }"""
ZEROS = [[2.0, 3.0, 4.0], [2.0, 0.0, 4.0], [0.0, 0.0, 4.0]]
ZEROS_WANT = dict(d_A=[[12, 8, 6], [0, 8, 0], [0, 0, 0]])
COUNT = """
def prod_grad(float(N,K) A, float(N) d_P) -> (float(N,K) d_A) {
  z_P(n) +=! A(n,k) == 0 ? 1 : 0
  p_P(n) *=! A(n,k) == 0 ? 1 : A(n,k)
  d_A(n,k) = A(n,k) == 0 ? (z_P(n) == 1 ? d_P(n) * p_P(n) : 0) : (z_P(n) == 0 ? d_P(n) * p_P(n) / A(n,k) : 0)
}"""
EXCLUDE = """
def prod_grad(float(N,K) A, float(N) d_P) -> (float(N,K) d_A) {
  x_P(n,k) *=! q == k ? 1 : A(n,q) where k in 0:K
  d_A(n,k) = d_P(n) * x_P(n,k)
}"""
pair("product", "D12", PROD, EXCLUDE, dict(A=(2, 4)))
pair(
    "product with zeros, by exclusion",
    "D12",
    PROD,
    EXCLUDE,
    dict(A=ZEROS),
    cotangent=dict(d_P=[1.0, 1.0, 1.0]),
    kink=ZEROS_WANT,
)
pair("product, by counting zeros", "D12", PROD, COUNT, dict(A=(2, 4)))
pair(
    "product with zeros, by counting zeros",
    "D12",
    PROD,
    COUNT,
    dict(A=ZEROS),
    cotangent=dict(d_P=[1.0, 1.0, 1.0]),
    kink=ZEROS_WANT,
)

pair(
    "select keeps NaN out",
    "D7 D10",
    """
def safe(float(N) A) -> (O) { O(i) = A(i) > 0 ? sqrt(A(i)) : 0 }""",
    """
def safe_grad(float(N) A, float(N) d_O) -> (float(N) d_A) {
  d_A(i) = A(i) > 0 ? d_O(i) * (0.5 / sqrt(A(i))) : 0
}""",
    dict(A=[4.0, 0.0, -1.0]),
    cotangent=dict(d_O=[1.0, 1.0, 1.0]),
    kink=dict(d_A=[0.25, 0, 0]),
)

pair(
    "max of two at a tie",
    "D10",
    """
def mx(float(N) A, float(N) B) -> (O, R) { O(i) = max(A(i), B(i)) R(i) = max(A(i), 0) }""",
    """
def mx_grad(float(N) A, float(N) B, float(N) d_O, float(N) d_R) -> (float(N) d_A, float(N) d_B) {
  d_A(i) = A(i) > 0 ? d_R(i) : 0
  d_A(i) += A(i) > B(i) ? d_O(i) : A(i) == B(i) ? 0.5 * d_O(i) : 0
  d_B(i) = B(i) > A(i) ? d_O(i) : A(i) == B(i) ? 0.5 * d_O(i) : 0
}""",
    dict(A=[1.0, 2.0, 0.0], B=[1.0, 1.0, 3.0]),
    cotangent=dict(d_O=[8.0, 8.0, 8.0], d_R=[1.0, 1.0, 1.0]),
    kink=dict(d_A=[5, 9, 0], d_B=[4, 0, 8]),
)

pair(
    "caller's output: sgemm",
    "D9 D15",
    """
def sgemm(float a, float b, float(N,M) A, float(M,K) B) -> (C) {
  C(i,j) = b * C(i,j)
  C(i,j) += a * A(i,k) * B(k,j)
}""",
    """
def sgemm_grad(float a, float b, float(N,M) A, float(M,K) B, float(N,K) C_0, float(N,K) d_C)
    -> (float d_a, float d_b, float(N,M) d_A, float(M,K) d_B, float(N,K) d_C_0) {
  d_a +=! d_C(i,j) * A(i,k) * B(k,j)
  d_A(i,k) +=! d_C(i,j) * a * B(k,j)
  d_B(k,j) +=! d_C(i,j) * a * A(i,k)
  d_b +=! d_C(i,j) * C_0(i,j)
  d_C_0(i,j) = d_C(i,j) * b
}""",
    dict(a=1.5, b=-0.75, A=(2, 3), B=(3, 4)),
    outputs=dict(C=(2, 4)),
)

pair(
    "read of an element nobody writes",
    "D9",
    """
def head(float(N) A) -> (O) {
  O(i) = A(i)
  O(i) = O(0) * A(i) where i in 1:N
}""",
    """
def head_grad(float(N) A, float(N) d_O) -> (float(N) d_A) {
  O(i) = A(i)
  b_O(i) = d_O(i)
  d_A(i) = b_O(i) * O(0) where i in 1:N
  b_O(z) += b_O(i) * A(i) where z in 0:1, i in 1:N
  b_O(i) = 0 where i in 1:N
  d_A(i) += b_O(i)
}""",
    dict(A=(5,)),
)

pair(
    "concat",
    "D15",
    """
def cat(float(N,P) A, float(N,Q) B) -> (O) { C(n,i) = 2 * B(n,i)  O = concat(A, C) }""",
    """
def cat_grad(float(N,P) A, float(N,Q) B, float(N,R) d_O) -> (float(N,P) d_A, float(N,Q) d_B) {
  d_A(n,i) = d_O(n,i)
  d_C(n,i) = d_O(n,i+A.1) where i in 0:B.1
  d_B(n,i) = 2 * d_C(n,i)
}""",
    dict(A=(2, 3), B=(2, 4)),
)

pair(
    "half: contributions meet in float",
    "D17",
    """
def halves(half(N) A) -> (O, S) { O(i) = A(i) * A(i)  S +=! A(i) }""",
    """
def halves_grad(half(N) A, half(N) d_O, half d_S) -> (half(N) d_A) {
  b_A(i) = float(d_S) where i in 0:N
  b_A(i) += d_O(i) * 2 * float(A(i))
  d_A(i) = half(b_A(i))
}""",
    dict(A=(5,)),
)

pair(
    "triangular guard",
    "D7",
    """
def tril(float(N,N) A, float(N) x) -> (y) { y(i) +=! j <= i ? A(i,j) * x(j) : 0 }""",
    """
def tril_grad(float(N,N) A, float(N) x, float(N) d_y) -> (float(N,N) d_A, float(N) d_x) {
  d_A(i,j) = j <= i ? d_y(i) * x(j) : 0
  d_x(j) +=! j <= i ? d_y(i) * A(i,j) : 0
}""",
    dict(A=(4, 4), x=(4,)),
)

pair(
    "second derivative of a convolution",
    "D18",
    """
def conv_grad(float(W) I, float(K) F, float(V) d_O) -> (float(W) d_I, float(K) d_F) {
  d_I(x) +=! pad(d_O(x/2-p) * F(2*p+x%2), 0) where p in 0:(K+1)/2
  d_F(k) +=! d_O(i) * I(2*i+k)
}""",
    """
def conv_grad_grad(float(W) I, float(K) F, float(V) d_O, float(W) d_d_I, float(K) d_d_F)
    -> (float(W) d_I, float(K) d_F, float(V) d_d_O) {
  d_I(x) +=! pad(d_d_F(2*p+x%2) * d_O(x/2-p), 0) where p in 0:(K+1)/2
  d_d_O(i) +=! d_d_F(k) * I(2*i+k)
  d_F(k) +=! k/2 < (K+1)/2 ? pad(d_d_I(2*i+k) * d_O(i), 0) : 0
  d_d_O(i) += pad(d_d_I(2*i+k) * F(k), 0)
}""",
    dict(I=(9,), F=(3,), d_O=(4,)),
)
