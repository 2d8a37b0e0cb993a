"""The layers whose backward passes are measured, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.backward_passes import jax_layers, torch_layers
from bench.backward_passes.layer import Layer
from bench.cpu_kernels.kernel import Shapes

MATMUL = "def matmul(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
BATCHED = "def batched(float(B,M,K) X, float(B,K,N) Y) -> (Z) { Z(b,m,n) +=! X(b,m,k) * Y(b,k,n) }"
CONV = """def conv(float(N,C,H,W) X, float(F,C,KH,KW) K) -> (Y) {
  Y(n,f,h,w) +=! X(n,c,h+i,w+j) * K(f,c,i,j)
}"""
STRIDED = """def strided(float(N,C,H,W) X, float(F,C,KH,KW) K) -> (Y) {
  Y(n,f,h,w) +=! X(n,c,2*h+i,2*w+j) * K(f,c,i,j)
}"""
PADDED = """def padded(float(N,C,H,W) X, float(F,C,3,3) K) -> (Y) {
  Y(n,f,h,w) +=! pad(X(n,c,h+i-1,w+j-1), 0) * K(f,c,i,j) where h in 0:H, w in 0:W
}"""
MLP3 = """def mlp3(float(B,N) X, float(O,N) W2, float(O) B2, float(P,O) W3, float(P) B3,
         float(Q,P) W4, float(Q) B4) -> (O2, O3, O4) {
  O2(b,o) = B2(o)
  O2(b,o) += X(b,n) * W2(o,n)
  O2(b,o) = fmaxf(O2(b,o), 0)
  O3(b,p) = B3(p)
  O3(b,p) += O2(b,o) * W3(p,o)
  O3(b,p) = fmaxf(O3(b,p), 0)
  O4(b,q) = B4(q)
  O4(b,q) += O3(b,p) * W4(q,p)
  O4(b,q) = fmaxf(O4(b,q), 0)
}"""
SOFTMAX = """def softmax(float(N,D) X) -> (Y) {
  m(n) max=! X(n,d)
  z(n) +=! exp(X(n,d) - m(n))
  Y(n,d) = exp(X(n,d) - m(n)) / z(n)
}"""
LAYERNORM = """def layernorm(float(N,D) X, float(D) G, float(D) B, float eps) -> (Y) {
  mean(n) +=! X(n,d) / D
  var(n) +=! (X(n,d) - mean(n)) * (X(n,d) - mean(n)) / D
  Y(n,d) = (X(n,d) - mean(n)) * rsqrt(var(n) + eps) * G(d) + B(d)
}"""
GROUPNORM = """def groupnorm(float(N,G,C,H,W) X, float(G,C) S, float(G,C) T, float eps) -> (Y) {
  mean(n,g) +=! X(n,g,c,h,w) / (C * H * W)
  var(n,g) +=! (X(n,g,c,h,w) - mean(n,g)) * (X(n,g,c,h,w) - mean(n,g)) / (C * H * W)
  Y(n,g,c,h,w) = (X(n,g,c,h,w) - mean(n,g)) * rsqrt(var(n,g) + eps) * S(g,c) + T(g,c)
}"""
EMBEDDING = "def embedding(float(V,D) T, int(N) I) -> (Y) { Y(n,d) = T(I(n),d) }"
MAXPOOL = """def maxpool(float(N,C,H,W) X) -> (Y) {
  Y(n,c,h,w) max=! X(n,c,2*h+i,2*w+j) where i in 0:2, j in 0:2
}"""
ATTENTION = """def attention(float(B,T,D) Q, float(B,S,D) K, float(B,S,E) V) -> (O) {
  s(b,t,u) +=! Q(b,t,d) * K(b,u,d) / sqrt(D)
  m(b,t) max=! s(b,t,u)
  p(b,t,u) = exp(s(b,t,u) - m(b,t))
  z(b,t) +=! p(b,t,u)
  O(b,t,e) +=! p(b,t,u) * V(b,u,e) / z(b,t)
}"""
EPS = 1e-5


def layer(
    family: str,
    text: str,
    shapes: Shapes,
    outputs: Shapes,
    terms: int,
    **more: Any,
) -> Layer:
    """Named by its family and its shapes. Both libraries call their function as the family is
    called."""
    sizes = ",".join("x".join(map(str, shape)) for shape in shapes.values() if shape)
    return Layer(
        family,
        f"{family} {sizes}",
        text,
        shapes,
        outputs,
        getattr(torch_layers, family),
        getattr(jax_layers, family),
        terms,
        **more,
    )


def matmul(m: int, n: int, k: int) -> Layer:
    return layer("matmul", MATMUL, {"A": (m, k), "B": (k, n)}, {"C": (m, n)}, max(m, n))


def batched(b: int, m: int, n: int, k: int) -> Layer:
    shapes = {"X": (b, m, k), "Y": (b, k, n)}
    return layer("batched", BATCHED, shapes, {"Z": (b, m, n)}, max(m, n))


def convolution(kind: str, n: int, c: int, h: int, w: int, f: int) -> Layer:
    text, stride, edge = {
        "conv2d": (CONV, 1, 0),
        "conv2d_strided": (STRIDED, 2, 0),
        "conv2d_padded": (PADDED, 1, 1),
    }[kind]
    outputs = {"Y": (n, f, *((size + 2 * edge - 3) // stride + 1 for size in (h, w)))}
    shapes = {"X": (n, c, h, w), "K": (f, c, 3, 3)}
    return layer(kind, text, shapes, outputs, n * h * w)


def mlp3(b: int, n: int, o: int, p: int, q: int) -> Layer:
    shapes = {"X": (b, n), "W2": (o, n), "B2": (o,), "W3": (p, o), "B3": (p,)}
    shapes |= {"W4": (q, p), "B4": (q,)}
    return layer("mlp3", MLP3, shapes, {"O2": (b, o), "O3": (b, p), "O4": (b, q)}, max(b, n, o))


def softmax(n: int, d: int) -> Layer:
    return layer("softmax", SOFTMAX, {"X": (n, d)}, {"Y": (n, d)}, d, constant=("m",))


def layernorm(n: int, d: int) -> Layer:
    shapes = {"X": (n, d), "G": (d,), "B": (d,), "eps": ()}
    return layer("layernorm", LAYERNORM, shapes, {"Y": (n, d)}, n + d, scalars={"eps": EPS})


def groupnorm(n: int, g: int, c: int, h: int, w: int) -> Layer:
    shapes = {"X": (n, g, c, h, w), "S": (g, c), "T": (g, c), "eps": ()}
    outputs = {"Y": (n, g, c, h, w)}
    return layer("groupnorm", GROUPNORM, shapes, outputs, c * h * w, scalars={"eps": EPS})


def embedding(v: int, d: int, n: int) -> Layer:
    shapes = {"T": (v, d), "I": (n,)}
    return layer("embedding", EMBEDDING, shapes, {"Y": (n, d)}, n, rows=v)


def maxpool(n: int, c: int, h: int, w: int) -> Layer:
    outputs = {"Y": (n, c, h // 2, w // 2)}
    return layer("maxpool", MAXPOOL, {"X": (n, c, h, w)}, outputs, 4)


def attention(b: int, t: int, s: int, d: int) -> Layer:
    shapes = {"Q": (b, t, d), "K": (b, s, d), "V": (b, s, d)}
    return layer("attention", ATTENTION, shapes, {"O": (b, t, d)}, max(t, s), constant=("m",))


_ALL = (
    matmul(512, 512, 512),
    matmul(509, 521, 503),
    batched(64, 72, 72, 72),
    batched(31, 61, 71, 67),
    convolution("conv2d", 8, 64, 56, 56, 64),
    convolution("conv2d", 3, 13, 53, 53, 17),
    convolution("conv2d_strided", 8, 64, 57, 57, 64),
    convolution("conv2d_strided", 3, 13, 53, 53, 17),
    convolution("conv2d_padded", 8, 64, 56, 56, 64),
    convolution("conv2d_padded", 3, 13, 53, 53, 17),
    mlp3(128, 128, 64, 32, 2),
    mlp3(128, 1024, 512, 256, 10),
    softmax(512, 4096),
    softmax(509, 1021),
    layernorm(4096, 1024),
    layernorm(1021, 769),
    groupnorm(16, 32, 4, 56, 56),
    groupnorm(7, 5, 3, 53, 53),
    embedding(50_000, 64, 8_192),
    embedding(9_973, 47, 1_021),
    maxpool(32, 64, 112, 112),
    maxpool(13, 31, 109, 113),
    attention(8, 512, 512, 64),
    attention(5, 197, 197, 61),
)
LAYERS: Mapping[str, Layer] = {layer.name: layer for layer in _ALL}


def select(words: Sequence[str]) -> list[Layer]:
    """Those with one of the words in their names; all for none.

    >>> [layer.name for layer in select(["softmax"])]
    ['softmax 512x4096', 'softmax 509x1021']
    """
    return [x for x in LAYERS.values() if not words or any(word in x.name for word in words)]
