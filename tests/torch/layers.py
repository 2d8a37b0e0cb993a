"""Programs with the same in torch: what they give and their gradients are known independently."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """A program in float64, its inputs by their shapes, where a number is an input of integers
    below it of shape (4,), and what torch computes in its place."""

    name: str
    text: str
    inputs: tuple[Shape | int, ...]
    same: Callable[..., Any]

    def tensors(self, torch: Any, seed: int = 0, **how: Any) -> list[Any]:
        numbers = torch.Generator().manual_seed(seed)
        return [
            torch.randint(0, shape, (4,), generator=numbers, dtype=torch.int32)
            if isinstance(shape, int)
            else torch.rand(shape, generator=numbers, dtype=torch.float64).add_(0.25)
            .requires_grad_(how.get("requires_grad", True))
            for shape in self.inputs
        ]  # fmt: skip


def layers(torch: Any) -> list[Layer]:
    """All of them."""
    functional = torch.nn.functional
    return [
        Layer(
            "matmul",
            "def mm(double(M,K) A, double(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
            ((3, 4), (4, 2)),
            torch.matmul,
        ),
        Layer(
            "convolution",
            "def conv(double(N,C,H,W) I, double(M,C,KH,KW) F) -> (O) {"
            " O(n,m,h,w) +=! I(n,c,2*h+kh,2*w+kw) * F(m,c,kh,kw) }",
            ((2, 2, 6, 5), (2, 2, 3, 2)),
            lambda x, f: functional.conv2d(x, f, stride=2),
        ),
        Layer(
            "softmax",
            "def softmax(double(N,D) I) -> (O) { m(n) max=! I(n,d)"
            " s(n) +=! exp(I(n,d) - m(n)) O(n,d) = exp(I(n,d) - m(n)) / s(n) }",
            ((3, 4),),
            lambda x: torch.softmax(x, 1),
        ),
        Layer(
            "layernorm",
            "def layernorm(double(N,D) I, double(D) G, double(D) B) -> (O) {"
            " mean(n) +=! I(n,d) / double(D) var(n) +=! (I(n,d) - mean(n)) * (I(n,d) - mean(n))"
            " O(n,d) = (I(n,d) - mean(n)) / sqrt(var(n) / double(D) + 0.00001) * G(d) + B(d) }",
            ((2, 5), (5,), (5,)),
            lambda x, g, b: functional.layer_norm(x, (x.shape[1],), g, b),
        ),
        Layer(
            "embedding",
            "def embed(double(V,D) T, int32(N) I) -> (O) { O(n,d) = T(I(n),d) where n in 0:N }",
            ((5, 3), 5),
            lambda table, at: table[at.long()],
        ),
        Layer(
            "maxpool",
            "def pool(double(B,C,H,W) I) -> (O) {"
            " O(b,c,i,j) max=! I(b,c,2*i+p,2*j+q) where p in 0:2, q in 0:2 }",
            ((1, 2, 4, 4),),
            lambda x: functional.max_pool2d(x, 2),
        ),
        Layer(
            "scaled",
            "def scaled(double a, double(N) x) -> (y) { y(i) = a * x(i) * x(i) }",
            ((), (4,)),
            lambda a, x: a * x * x,
        ),
        Layer(
            "batched matmul",
            "def bmm(double(B,M,K) X, double(B,K,N) Y) -> (Z) { Z(b,m,n) +=! X(b,m,k) * Y(b,k,n) }",
            ((2, 3, 4), (2, 4, 2)),
            torch.bmm,
        ),
        Layer(
            "linear",
            "def linear(double(B,I) x, double(O,I) W, double(O) b) -> (y) {"
            " y(n,o) = b(o) y(n,o) += x(n,i) * W(o,i) }",
            ((3, 4), (2, 4), (2,)),
            functional.linear,
        ),
        Layer(
            "dilated convolution",
            "def dilated(double(N,C,W) I, double(M,C,K) F) -> (O) {"
            " O(n,m,i) +=! I(n,c,i+2*k) * F(m,c,k) }",
            ((2, 2, 7), (2, 2, 3)),
            lambda x, f: functional.conv1d(x, f, dilation=2),
        ),
        Layer(
            "relu",
            "def relu(double(N,M) x) -> (y) { y(i,j) = max(x(i,j) - 0.5, 0) }",
            ((2, 3),),
            lambda x: torch.relu(x - 0.5),
        ),
        Layer(
            "silu",
            "def silu(double(N) x) -> (y) { y(i) = x(i) / (1 + exp(-x(i))) }",
            ((5,),),
            functional.silu,
        ),
        Layer(
            "gated",
            "def gated(double(N,D) x, double(N,D) g) -> (y) {"
            " y(n,d) = tanh(x(n,d)) * sqrt(g(n,d)) }",
            ((2, 3), (2, 3)),
            lambda x, g: x.tanh() * g.sqrt(),
        ),
        Layer(
            "mean",
            "def mean(double(N,M) x) -> (m) { m +=! x(i,j) / double(N * M) }",
            ((3, 4),),
            torch.mean,
        ),
        Layer(
            "norm",
            "def norm(double(N,D) x) -> (y) { s(n) +=! x(n,d) * x(n,d) y(n) = sqrt(s(n)) }",
            ((3, 4),),
            lambda x: x.norm(dim=1),
        ),
        Layer(
            "outer product",
            "def outer(double(N) x, double(M) y) -> (o) { o(i,j) = x(i) * y(j) }",
            ((3,), (2,)),
            torch.outer,
        ),
        Layer(
            "transposed",
            "def transposed(double(N,M) x) -> (y) { y(i,j) = x(j,i) }",
            ((3, 2),),
            lambda x: x.T.contiguous(),
        ),
        Layer(
            "average of neighbours",
            "def pool(double(B,W) x) -> (y) { y(b,i) +=! x(b,2*i+k) / 2 where k in 0:2 }",
            ((2, 6),),
            lambda x: functional.avg_pool1d(x, 2),
        ),
        Layer(
            "product",
            "def product(double(N,M) x) -> (p) { p(n) *=! x(n,m) }",
            ((2, 3),),
            lambda x: x.prod(1),
        ),
        Layer(
            "two results",
            "def two(double(N,D) x, double(D) w) -> (s, y) {"
            " y(n,d) = x(n,d) * w(d) s(n) +=! y(n,d) * y(n,d) }",
            ((3, 4), (4,)),
            lambda x, w: (((x * w) ** 2).sum(1), x * w),
        ),
    ]


def tuple_of(found: Any) -> tuple[Any, ...]:
    """One result or several, as a tuple."""
    return found if isinstance(found, tuple) else (found,)
