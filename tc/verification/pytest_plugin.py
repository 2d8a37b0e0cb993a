"""A fixture of pytest: a test fails where a kernel is not what a text says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import tc

if TYPE_CHECKING:
    from tc.verification.verdict import Verdict


@pytest.fixture
def tc_verify() -> Callable[..., Verdict]:
    """`tc_verify(kernel, text, ...)` takes what `tc.verify` takes, and raises VerificationError
    where something is found; it returns the verdict."""

    def checked(kernel: Callable[..., Any], text: Any, **how: Any) -> Verdict:
        __tracebackhide__ = True
        verdict = tc.verify(kernel, text, **how)
        verdict.raise_if_wrong()
        return verdict

    return checked
