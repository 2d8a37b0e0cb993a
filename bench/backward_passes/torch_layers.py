"""The layers in torch. It is imported when one of them runs."""

from __future__ import annotations

from typing import Any

from bench.broad_programs.lazy_torch import F, torch

Tensor = Any


def matmul(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


def batched(x: Tensor, y: Tensor) -> Tensor:
    return torch.bmm(x, y)


def conv2d(x: Tensor, k: Tensor) -> Tensor:
    return F.conv2d(x, k)


def conv2d_strided(x: Tensor, k: Tensor) -> Tensor:
    return F.conv2d(x, k, stride=2)


def conv2d_padded(x: Tensor, k: Tensor) -> Tensor:
    return F.conv2d(x, k, padding=1)


def mlp3(x: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
    results = []
    for w, b in zip(parameters[::2], parameters[1::2], strict=True):
        x = F.relu(F.linear(x, w, b))
        results.append(x)
    return tuple(results)


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, 1)


def layernorm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
    return F.layer_norm(x, (x.shape[1],), gamma, beta, eps)


def groupnorm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
    normal = F.group_norm(x.flatten(1, 2), x.shape[1], gamma.flatten(), beta.flatten(), eps)
    return normal.view(x.shape)


def embedding(table: Tensor, rows: Tensor) -> Tensor:
    return F.embedding(rows, table)


def maxpool(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 2)


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)
