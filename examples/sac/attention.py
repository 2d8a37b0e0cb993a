"""Attention in blocks of queries, by functions of matrices: product, softmax, product."""

from __future__ import annotations

from typing import Any

import numpy as np
from checked import check, compare_times, text_beside

import tc.sac

TEXT = text_beside(__file__)


def inputs(blocks: int, queries: int, count: int, width: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    shapes = (blocks, queries, width), (count, width), (count, width)
    q, keys, values = (rng.standard_normal(shape, np.float32) for shape in shapes)
    return q / np.float32(np.sqrt(width)), keys, values


def with_numpy(q: Any, keys: Any, values: Any) -> Any:
    x = q @ keys.T
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True)) @ values


def small() -> None:
    check(TEXT, "attention", [inputs(2, 3, 5, 4), inputs(1, 4, 9, 8)], with_numpy)


def large() -> None:
    function = tc.sac.compile(TEXT, entry="attention")
    given = inputs(16, 128, 2048, 64)
    own, numpy = (lambda: function(*given)), (lambda: with_numpy(*given))
    compare_times("attention (2048, 64), 16 blocks", own, {"numpy": numpy})


if __name__ == "__main__":
    small()
    large()
