"""Tests of programs that measure: what these set for their process is undone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from unittest import mock

import pytest


@pytest.fixture(autouse=True)
def _settings_stay() -> Iterator[None]:
    """What a measuring process sets for itself: its environment, as where kernels are kept,
    PyTorch's gradients, JAX's types."""
    with mock.patch.dict(os.environ):
        yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_grad_enabled(True)
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_enable_x64", False)
