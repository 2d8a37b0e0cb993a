# ruff: noqa: C408, E501
"""Verified pairs: a tensor comprehension, and its reverse-mode gradient as another one.

Every gradient text is in gather form: no left side is computed. All were checked in float64 against
central differences, or the values in `kink` at ties and kinks, to 1e-7.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Pair:
    name: str
    rules: str
    forward: str
    gradient: str
    inputs: dict[str, Any]  # name -> shape | number | nested list of int or float
    outputs: dict[str, Any] = field(
        default_factory=dict
    )  # what the caller passes in outputs= (R4), name -> shape
    kink: dict[str, Any] = field(
        default_factory=dict
    )  # gradient -> expected values, where differences mean nothing
    cotangent: Any = None  # fixed cotangents by name; random where None
    entry: str | None = None  # the def, where the forward text has several


PAIRS: list[Pair] = []


def pair(
    name: str, rules: str, forward: str, gradient: str, inputs: dict[str, Any], **more: Any
) -> None:
    PAIRS.append(Pair(name, rules, forward, gradient, inputs, **more))


# ------------------------------------------------------------------ for tests
def as_double(src: str) -> str:
    """The same program in float64, where central differences are sharp."""
    return re.sub(r"\b(float|half)\b(?=\s*[(\w])", "double", src)


def arrays(spec: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    out = {}
    for n, s in spec.items():
        if isinstance(s, tuple) and s[0] == "byte":
            out[n] = np.array(s[1], "uint8")
        elif isinstance(s, tuple):
            out[n] = (
                rng.permutation(np.prod(s, dtype=int)).reshape(s) / 4
                - np.prod(s) / 8
                + rng.random(s) / 8
                + 0.03
            )
            out[n] *= 4 / max(4, np.abs(out[n]).max())  # distinct values: no ties by accident
        elif isinstance(s, list):
            a = np.array(s)
            out[n] = a.astype("int32") if a.dtype.kind == "i" else a
        else:
            out[n] = np.array(s, "int32" if isinstance(s, int) else "float64")
    return out


# ------------------------------------------------------------------ the ten of the brief
pair(
    "matmul",
    "D3 D5",
    """
def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }""",
    """
def mm_grad(float(M,K) A, float(K,N) B, float(M,N) d_C) -> (float(M,K) d_A, float(K,N) d_B) {
  d_A(i,k) +=! d_C(i,j) * B(k,j)
  d_B(k,j) +=! d_C(i,j) * A(i,k)
}""",
    dict(A=(3, 4), B=(4, 2)),
)

pair(
    "conv2d stride 2",
    "D5 D6 D7",
    """
def conv(float(N,C,H,W) I, float(M,C,KH,KW) F) -> (O) {
  O(n,m,h,w) +=! I(n,c,2*h+kh,2*w+kw) * F(m,c,kh,kw)
}""",
    """
def conv_grad(float(N,C,H,W) I, float(M,C,KH,KW) F, float(N,M,OH,OW) d_O)
    -> (float(N,C,H,W) d_I, float(M,C,KH,KW) d_F) {
  d_I(n,c,y,x) +=! pad(d_O(n,m,y/2-p,x/2-q) * F(m,c,2*p+y%2,2*q+x%2), 0)
      where p in 0:(KH+1)/2, q in 0:(KW+1)/2
  d_F(m,c,kh,kw) +=! d_O(n,m,h,w) * I(n,c,2*h+kh,2*w+kw)
}""",
    dict(I=(2, 2, 8, 7), F=(2, 2, 3, 2)),
)

pair(
    "dilated conv1d",
    "D5 D6",
    """
def dconv(float(N,C,W) I, float(M,C,K) F) -> (O) { O(n,m,i) +=! I(n,c,i+2*k) * F(m,c,k) }""",
    """
def dconv_grad(float(N,C,W) I, float(M,C,K) F, float(N,M,OW) d_O) -> (float(N,C,W) d_I, float(M,C,K) d_F) {
  d_I(n,c,x) +=! pad(d_O(n,m,x-2*k) * F(m,c,k), 0)
  d_F(m,c,k) +=! d_O(n,m,i) * I(n,c,i+2*k)
}""",
    dict(I=(2, 3, 9), F=(2, 3, 3)),
)

MAXPOOL = """
def pool(float(B,C,H,W) I) -> (O) { O(b,c,i,j) max=! I(b,c,2*i+p,2*j+q) where p in 0:2, q in 0:2 }"""
MAXPOOL_SPLIT = """
def pool_grad(float(B,C,H,W) I, float(B,C,OH,OW) O, float(B,C,OH,OW) d_O) -> (float(B,C,H,W) d_I) {
  n_O(b,c,i,j) +=! I(b,c,2*i+p,2*j+q) == O(b,c,i,j) ? 1 : 0 where p in 0:2, q in 0:2
  d_I(b,c,y,x) = pad(I(b,c,y,x) == O(b,c,y/2,x/2) ? d_O(b,c,y/2,x/2) / n_O(b,c,y/2,x/2) : 0, 0)
}"""
MAXPOOL_FIRST = """
def pool_grad(float(B,C,H,W) I, float(B,C,OH,OW) O, float(B,C,OH,OW) d_O) -> (float(B,C,H,W) d_I) {
  f_O(b,c,i,j) min=! I(b,c,2*i+p,2*j+q) == O(b,c,i,j) ? 2*p+q : 4 where p in 0:2, q in 0:2
  d_I(b,c,y,x) = pad(2*(y%2) + x%2 == f_O(b,c,y/2,x/2) ? d_O(b,c,y/2,x/2) : 0, 0)
}"""
TIES = [[[[1.0, 5.0, 2.0, 2.0, 9.0], [5.0, 5.0, 2.0, 2.0, 9.0], [0.0, 0.0, 0.0, 3.0, 9.0]]]]
pair("maxpool2x2", "D5 D11", MAXPOOL, MAXPOOL_SPLIT, dict(I=(1, 2, 5, 6)))
pair(
    "maxpool2x2, ties split evenly",
    "D11",
    MAXPOOL,
    MAXPOOL_SPLIT,
    dict(I=TIES),
    cotangent=dict(d_O=[[[[12.0, 8.0]]]]),
    kink=dict(d_I=[[[[0, 4, 2, 2, 0], [4, 4, 2, 2, 0], [0, 0, 0, 0, 0]]]]),
)
pair(
    "maxpool2x2, first of ties",
    "D11",
    MAXPOOL,
    MAXPOOL_FIRST,
    dict(I=TIES),
    cotangent=dict(d_O=[[[[12.0, 8.0]]]]),
    kink=dict(d_I=[[[[0, 12, 8, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]]]]),
)

pair(
    "softmax",
    "D8 D9 D11",
    """
def softmax(float(N,D) I) -> (O) {
  m(n) max=! I(n,d)
  s(n) +=! exp(I(n,d) - m(n))
  O(n,d) = exp(I(n,d) - m(n)) / s(n)
}""",
    """
def softmax_grad(float(N,D) I, float(N,D) O, float(N,D) d_O) -> (float(N,D) d_I) {
  m(n) max=! I(n,d)
  s(n) +=! exp(I(n,d) - m(n))
  d_s(n) +=! -d_O(n,d) * O(n,d) / s(n)
  d_m(n) +=! -d_O(n,d) * O(n,d)
  d_I(n,d) = d_O(n,d) * O(n,d)
  d_m(n) += -d_s(n) * exp(I(n,d) - m(n))
  d_I(n,d) += d_s(n) * exp(I(n,d) - m(n))
  n_m(n) +=! I(n,d) == m(n) ? 1 : 0
  d_I(n,d) += I(n,d) == m(n) ? d_m(n) / n_m(n) : 0
}""",
    dict(I=(3, 5)),
)

pair(
    "softmax, m constant",
    "D8 D16",
    PAIRS[-1].forward,
    """
def softmax_grad(float(N,D) I, float(N,D) O, float(N,D) d_O) -> (float(N,D) d_I) {
  m(n) max=! I(n,d)
  s(n) +=! exp(I(n,d) - m(n))
  d_s(n) +=! -d_O(n,d) * O(n,d) / s(n)
  d_I(n,d) = d_O(n,d) * O(n,d)
  d_I(n,d) += d_s(n) * exp(I(n,d) - m(n))
}""",
    dict(I=(3, 5)),
)

pair(
    "layernorm",
    "D8 D9",
    """
def layernorm(float(N,D) X, float(D) G, float(D) B) -> (O) {
  mu(n) +=! X(n,d) / D
  va(n) +=! (X(n,d) - mu(n)) * (X(n,d) - mu(n)) / D
  O(n,d) = (X(n,d) - mu(n)) * rsqrt(va(n) + 1e-5) * G(d) + B(d)
}""",
    """
def layernorm_grad(float(N,D) X, float(D) G, float(N,D) d_O) -> (float(N,D) d_X, float(D) d_G, float(D) d_B) {
  mu(n) +=! X(n,d) / D
  va(n) +=! (X(n,d) - mu(n)) * (X(n,d) - mu(n)) / D
  d_B(d) +=! d_O(n,d)
  d_G(d) +=! d_O(n,d) * (X(n,d) - mu(n)) * rsqrt(va(n) + 1e-5)
  d_va(n) +=! d_O(n,d) * G(d) * (X(n,d) - mu(n)) * (-0.5 * rsqrt(va(n) + 1e-5) / (va(n) + 1e-5))
  d_mu(n) +=! -d_O(n,d) * G(d) * rsqrt(va(n) + 1e-5)
  d_X(n,d) = d_O(n,d) * G(d) * rsqrt(va(n) + 1e-5)
  d_mu(n) += -d_va(n) * 2 * (X(n,d) - mu(n)) / D
  d_X(n,d) += d_va(n) * 2 * (X(n,d) - mu(n)) / D
  d_X(n,d) += d_mu(n) / D
}""",
    dict(X=(3, 4), G=(4,), B=(4,)),
)

pair(
    "MLP with relu",
    "D8 D9 D10 D17",
    """
def mlp(float(B,I) X, float(H,I) W1, float(H) B1, float(O,H) W2, float(O) B2) -> (Y) {
  T(b,h) = B1(h)
  T(b,h) += X(b,i) * W1(h,i)
  T(b,h) = fmax(T(b,h), 0)
  Y(b,o) = B2(o)
  Y(b,o) += T(b,h) * W2(o,h)
}""",
    """
def mlp_grad(float(B,I) X, float(H,I) W1, float(H) B1, float(O,H) W2, float(B,O) d_Y)
    -> (float(B,I) d_X, float(H,I) d_W1, float(H) d_B1, float(O,H) d_W2, float(O) d_B2) {
  T_1(b,h) = B1(h)
  T_1(b,h) += X(b,i) * W1(h,i)
  T(b,h) = fmax(T_1(b,h), 0)
  d_T(b,h) +=! d_Y(b,o) * W2(o,h)
  d_W2(o,h) +=! d_Y(b,o) * T(b,h)
  d_B2(o) +=! d_Y(b,o)
  d_T(b,h) = T_1(b,h) > 0 ? d_T(b,h) : 0
  d_X(b,i) +=! d_T(b,h) * W1(h,i)
  d_W1(h,i) +=! d_T(b,h) * X(b,i)
  d_B1(h) +=! d_T(b,h)
}""",
    dict(X=(3, 4), W1=(5, 4), B1=(5,), W2=(2, 5), B2=(2,)),
)

pair(
    "pad conv",
    "D5 D7",
    """
def padconv(float(N,C,H,W) I, float(M,C,KH,KW) F) -> (O) {
  O(n,m,h,w) +=! pad(I(n,c,h+kh-1,w+kw-1), 0) * F(m,c,kh,kw) where h in 0:H, w in 0:W
}""",
    """
def padconv_grad(float(N,C,H,W) I, float(M,C,KH,KW) F, float(N,M,H,W) d_O)
    -> (float(N,C,H,W) d_I, float(M,C,KH,KW) d_F) {
  d_I(n,c,y,x) +=! pad(d_O(n,m,y-kh+1,x-kw+1) * F(m,c,kh,kw), 0)
  d_F(m,c,kh,kw) +=! d_O(n,m,h,w) * pad(I(n,c,h+kh-1,w+kw-1), 0)
}""",
    dict(I=(2, 2, 4, 5), F=(2, 2, 3, 3)),
)

pair(
    "L1 distance",
    "D10",
    """
def l1(float(M,K) A, float(N,K) B) -> (D) { D(i,j) +=! abs(A(i,k) - B(j,k)) }""",
    """
def l1_grad(float(M,K) A, float(N,K) B, float(M,N) d_D) -> (float(M,K) d_A, float(N,K) d_B) {
  d_A(i,k) +=! A(i,k) - B(j,k) > 0 ? d_D(i,j) : A(i,k) - B(j,k) < 0 ? -d_D(i,j) : 0
  d_B(j,k) +=! A(i,k) - B(j,k) > 0 ? -d_D(i,j) : A(i,k) - B(j,k) < 0 ? d_D(i,j) : 0
}""",
    dict(A=(3, 4), B=(2, 4)),
)

pair(
    "log-sum-exp",
    "D8 D11",
    """
def lse(float(N,D) I) -> (L) {
  m(n) max=! I(n,d)
  s(n) +=! exp(I(n,d) - m(n))
  L(n) = log(s(n)) + m(n)
}""",
    """
def lse_grad(float(N,D) I, float(N) d_L) -> (float(N,D) d_I) {
  m(n) max=! I(n,d)
  s(n) +=! exp(I(n,d) - m(n))
  d_s(n) = d_L(n) / s(n)
  d_m(n) = d_L(n)
  d_I(n,d) = d_s(n) * exp(I(n,d) - m(n))
  d_m(n) += -d_s(n) * exp(I(n,d) - m(n))
  n_m(n) +=! I(n,d) == m(n) ? 1 : 0
  d_I(n,d) += I(n,d) == m(n) ? d_m(n) / n_m(n) : 0
}""",
    dict(I=(3, 5)),
)
