"""The backend "evaluate" for tests of the API."""

from __future__ import annotations

import pytest

from tc.backends import registry
from tests.api.evaluating import EvaluateBackend


@pytest.fixture
def evaluating(monkeypatch: pytest.MonkeyPatch) -> type[EvaluateBackend]:
    """Registers the backend "evaluate", with nothing counted yet."""
    target = f"{EvaluateBackend.__module__}:{EvaluateBackend.__name__}"
    monkeypatch.setitem(registry._BACKENDS, "evaluate", target)
    EvaluateBackend.loaded.clear()
    EvaluateBackend.threads_seen.clear()
    return EvaluateBackend
