"""A small network that trains in PyTorch, its layers in tc, beside the same in plain PyTorch.

A convolution, a normalisation and an attention are texts; their gradients are derived. Both
networks start from the same values and see the same pictures of stripes, whose direction they learn
to tell. `python examples/train_torch.py` prints what becomes of the loss;
`--picture curves.png` draws both curves, as in `train_torch.png`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from torch.nn import Linear, Module
from torch.nn import functional as F

import tc
import tc.torch

NOISE = 1.0
SIDE, CHANNELS, CLASSES, BATCH, STEPS = 16, 16, 8, 64, 240

CONV = """
def conv(float(N,C,H,W) I, float(M,C,KH,KW) K, float(M) B) -> (O) {
  O(n,m,h,w) +=! pad(I(n,c,2*h+kh-1,2*w+kw-1), 0) * K(m,c,kh,kw) where h in 0:H/2, w in 0:W/2
  O(n,m,h,w) = max(O(n,m,h,w) + B(m), 0)
}"""

NORM = """
def norm(float(N,C,H,W) x, float(C) gain, float(C) shift) -> (y) {
  mean(n,h,w) +=! x(n,c,h,w) / C
  var(n,h,w) +=! (x(n,c,h,w) - mean(n,h,w)) * (x(n,c,h,w) - mean(n,h,w)) / C
  y(n,c,h,w) = (x(n,c,h,w) - mean(n,h,w)) * rsqrt(var(n,h,w) + 0.00001) * gain(c) + shift(c)
}"""

ATTENTION = """
def attention(float(N,T,D) x, float(D,E) Q, float(D,E) K, float(D,E) V) -> (y) {
  q(n,t,e) +=! x(n,t,d) * Q(d,e)
  k(n,t,e) +=! x(n,t,d) * K(d,e)
  v(n,t,e) +=! x(n,t,d) * V(d,e)
  s(n,t,u) +=! q(n,t,e) * k(n,u,e) / sqrt(float(E))
  top(n,t) max=! s(n,t,u)
  p(n,t,u) = exp(s(n,t,u) - top(n,t))
  sum(n,t) +=! p(n,t,u)
  y(n,t,e) +=! p(n,t,u) / sum(n,t) * v(n,u,e)
}"""


class Network(Module):
    """Convolution, normalisation, attention between all places, their mean, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        square = (CHANNELS, CHANNELS)
        self.conv = tc.torch.Module(CONV, K=(CHANNELS, 1, 3, 3), B=(CHANNELS,))
        self.norm = tc.torch.Module(NORM, gain=(CHANNELS,), shift=(CHANNELS,))
        self.attention = tc.torch.Module(ATTENTION, Q=square, K=square, V=square)
        self.head = Linear(CHANNELS, CLASSES)

    def forward(self, pictures: Any) -> Any:
        places = self.norm(self.conv(pictures)).flatten(2).mT
        return self.head((places + self.attention(places)).mean(1))


class Plain(Module):
    """The same by what torch has, with the parameters of a `Network`."""

    def __init__(self, same: Network) -> None:
        super().__init__()
        for name, parameter in same.named_parameters():
            copy = torch.nn.Parameter(parameter.detach().clone())
            self.register_parameter(name.replace(".", "_"), copy)

    def conv(self, x: Any) -> Any:
        return F.relu(F.conv2d(x, self.conv_K, self.conv_B, stride=2, padding=1))

    def norm(self, x: Any) -> Any:
        last = x.movedim(1, -1)
        return F.layer_norm(last, (CHANNELS,), self.norm_gain, self.norm_shift).movedim(-1, 1)

    def attention(self, x: Any) -> Any:
        q, k, v = (x @ weight for weight in (self.attention_Q, self.attention_K, self.attention_V))
        return F.scaled_dot_product_attention(q, k, v)

    def forward(self, pictures: Any) -> Any:
        places = self.norm(self.conv(pictures)).flatten(2).mT
        return F.linear((places + self.attention(places)).mean(1), self.head_weight, self.head_bias)


def stripes(numbers: torch.Generator) -> tuple[Any, Any]:
    """Noisy pictures of stripes, of any width and phase, and the direction of each."""
    kind = torch.randint(0, CLASSES, (BATCH,), generator=numbers)
    phase, wave, _ = torch.rand(3, BATCH, 1, 1, generator=numbers)
    at = torch.arange(SIDE, dtype=torch.float32)
    angle = (kind * torch.pi / CLASSES)[:, None, None]
    along = at[:, None] * angle.sin() + at * angle.cos()
    values = torch.sin(along * (0.6 + 0.8 * wave) + 2 * torch.pi * phase)
    noise = torch.randn(BATCH, SIDE, SIDE, generator=numbers)
    return (values + NOISE * noise)[:, None], kind


def train(network: Module, steps: int) -> tuple[list[float], float]:
    """The loss at each step, and the seconds that the steps took after the first."""
    numbers = torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(network.parameters(), 0.005)
    losses, begin = [], 0.0
    for step in range(steps):
        if step == 1:
            begin = time.perf_counter()
        pictures, kind = stripes(numbers)
        loss = F.cross_entropy(network(pictures), kind)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, time.perf_counter() - begin


def draw(ours: list[float], theirs: list[float], path: Path) -> None:
    """Both curves, and below them how far they are apart."""
    from matplotlib.figure import Figure

    figure = Figure((6.4, 4.8), layout="constrained")
    curves, apart = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    curves.plot(ours, label="layers in tc", linewidth=3, alpha=0.5)
    curves.plot(theirs, label="plain PyTorch", linewidth=1, color="black")
    curves.set_ylabel("loss")
    curves.legend()
    apart.semilogy([max(abs(a - b), 1e-9) for a, b in zip(ours, theirs, strict=True)])
    apart.set_ylabel("difference")
    apart.set_xlabel("step")
    figure.savefig(path, dpi=80)


def main(steps: int, picture: Path | None) -> None:
    torch.manual_seed(0)
    network = Network()
    plain = Plain(network)
    (ours, seconds), (theirs, others) = train(network, steps), train(plain, steps)
    print(f"first losses: tc {ours[0]:.6f}, torch {theirs[0]:.6f}")
    print(f"last losses: tc {ours[-1]:.6f}, torch {theirs[-1]:.6f}")
    print(f"a step: tc {1e3 * seconds / steps:.2f} ms, torch {1e3 * others / steps:.2f} ms")
    if picture is not None:
        draw(ours, theirs, picture)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--picture", type=Path, help="where the curves are drawn")
    given = parser.parse_args()
    main(given.steps, given.picture)
