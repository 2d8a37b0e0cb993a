"""Kernels that compute nothing, made of kernels that are right: all of them are to be refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.support.bounds import as_tuple


def zeros(function: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(*inputs: Any) -> Any:
        return tuple(np.zeros_like(each) for each in as_tuple(function(*inputs)))

    return kernel


def means(function: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(*inputs: Any) -> Any:
        return tuple(
            np.full_like(each, each.astype(np.float64).mean() if each.size else 0)
            for each in as_tuple(function(*inputs))
        )

    return kernel


def constants(function: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(*inputs: Any) -> Any:
        return tuple(np.full_like(each, 1) for each in as_tuple(function(*inputs)))

    return kernel


def first_answers(function: Callable[..., Any]) -> Callable[..., Any]:
    answers: dict[Any, Any] = {}

    def kernel(*inputs: Any) -> Any:
        shapes = tuple(np.shape(each) for each in inputs)
        return answers.setdefault(shapes, as_tuple(function(*inputs)))

    return kernel
