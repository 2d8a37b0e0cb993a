"""Zhang's network for digits (arXiv 1912.05234): forward a text of SaC, backward its gradient.

The functions of the text are lowered to a def of tc for a batch of pictures, of which `tc.grad`
makes the gradient. Pictures and labels are random: what is shown is that a step is right, and how
long it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from checked import check, compare_times, text_beside

import tc
import tc.sac

TEXT = text_beside(__file__)
WEIGHTS = {"k1": (6, 5, 5), "b1": (6,), "k2": (12, 6, 5, 5), "b2": (12,),
           "fc": (10, 12, 1, 4, 4), "b": (10,)}  # fmt: skip
RATE = np.float32(0.05)


def weights() -> list[Any]:
    """Small random weights, by the number of terms that each sum has."""
    rng = np.random.default_rng(1)
    return [
        rng.standard_normal(shape, np.float32) / np.float32(np.sqrt(np.prod(shape[1:])))
        for shape in WEIGHTS.values()
    ]


def pictures(batch: int) -> tuple[Any, Any]:
    """Random pictures and, as rows of one 1, random labels."""
    rng = np.random.default_rng(2)
    labels = np.eye(10, dtype=np.float32)[rng.integers(0, 10, batch)]
    return rng.random((batch, 28, 28), np.float32), labels


# --- the network by numpy -------------------------------------------------------------------------


def digits_with_numpy(x: Any, k1: Any, b1: Any, k2: Any, b2: Any, fc: Any, b: Any) -> Any:
    def logistic(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    def conv(x: Any, w: Any) -> Any:
        windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[-2:], axis=(-2, -1))
        return np.einsum("nchwyx,mcyx->nmhw", windows, w, optimize=True)

    def pool(x: Any) -> Any:
        n, c, h, w = x.shape
        return x.reshape(n, c, h // 2, 2, w // 2, 2).mean(axis=(3, 5))

    first = pool(logistic(conv(x[:, None], k1[:, None]) + b1[:, None, None]))
    second = pool(logistic(conv(first, k2) + b2[:, None, None]))
    return logistic(np.tensordot(second, fc[:, :, 0], ((1, 2, 3), (1, 2, 3))) + b)


def loss_with_numpy(x: Any, y: Any, *parameters: Any) -> Any:
    return ((digits_with_numpy(x, *parameters) - y) ** 2).sum() / 2


# --- a step of training ---------------------------------------------------------------------------


def gradient(
    x: Any, y: Any, parameters: list[Any], options: tc.Options | None = None
) -> tc.Compiled:
    """The gradient of the loss by the weights: a function of the inputs of the loss, and of 1."""
    loss = tc.sac.compile(TEXT, entry="loss").lowered(x, y, *parameters)
    return tc.compile(tc.grad(loss, list(WEIGHTS)), options=options)


def step(slopes: Callable[..., Any], x: Any, y: Any, parameters: list[Any]) -> None:
    """One step down the gradient, in place."""
    for weight, slope in zip(parameters, slopes(x, y, *parameters, np.float32(1)), strict=True):
        weight -= RATE * slope


def torch_step(x: Any, y: Any, parameters: list[Any]) -> Callable[[], list[Any]]:
    """The same step by torch, which returns the weights."""
    import torch
    from torch.nn import functional as F

    k1, b1, k2, b2, fc, b = held = [torch.tensor(w, requires_grad=True) for w in parameters]
    images, labels = torch.from_numpy(x)[:, None], torch.from_numpy(y)

    def run() -> list[Any]:
        first = F.avg_pool2d(torch.sigmoid(F.conv2d(images, k1[:, None], b1)), 2)
        second = F.avg_pool2d(torch.sigmoid(F.conv2d(first, k2, b2)), 2)
        found = torch.sigmoid(F.linear(second.flatten(1), fc.flatten(1), b))
        slopes = torch.autograd.grad(((found - labels) ** 2).sum() / 2, held)
        with torch.no_grad():
            for weight, slope in zip(held, slopes, strict=True):
                weight -= float(RATE) * slope
        return held

    return run


def small() -> None:
    """The forward pass against numpy, and the gradient against slopes of numpy's loss in double
    precision."""
    (x, y), held = pictures(3), weights()
    check(TEXT, "digits", [(x, *held)], digits_with_numpy)
    slopes = gradient(x, y, held)(x, y, *held, np.float32(1))
    rng, exact = np.random.default_rng(3), [w.astype(np.float64) for w in held]
    for place, slope in enumerate(slopes):
        along = rng.standard_normal(slope.shape)
        ends = [[*exact[:place], exact[place] + h * along, *exact[place + 1 :]]
                for h in (1e-4, -1e-4)]  # fmt: skip
        due = np.subtract(*(loss_with_numpy(x.astype(np.float64), y, *end) for end in ends)) / 2e-4
        size = np.abs(slope * along).sum()
        if abs((slope * along).sum() - due) > 1e-4 * size + 1e-6:
            raise SystemExit(f"cnn: the gradient by weight {place} is wrong")


def compared_with_torch(
    batch: int, options: tc.Options | None = None
) -> tuple[Callable[[], object], Callable[[], object]]:
    """A step, and that of torch, after one of each that are checked to lead to the same weights."""
    (x, y), own = pictures(batch), weights()
    slopes = gradient(x, y, own, options)
    run = torch_step(x, y, own)
    step(slopes, x, y, own)
    for mine, theirs in zip(own, run(), strict=True):
        if not np.allclose(mine, theirs.detach().numpy(), rtol=1e-3, atol=1e-4):
            raise SystemExit("cnn: a step differs from that of torch")
    return (lambda: step(slopes, x, y, own)), run


def large() -> None:
    own, torch = compared_with_torch(100)
    compare_times("a step, 100 pictures", own, {"torch": torch})


if __name__ == "__main__":
    small()
    large()
