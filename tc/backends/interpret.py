"""The reference interpreter as a backend: no kernel, no compilation, every read checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tc.semantics.program import ShapedProgram
from tc.semantics.reference.interpreter import interpret


@dataclass(frozen=True, slots=True)
class InterpretBackend:
    """Runs `tc.semantics.reference.interpreter`; implements `ShapedBackend`."""

    name: str = "interpret"
    checks_by_default: bool = True

    def usable(self) -> str | None:
        return None

    def run_shaped(
        self,
        shaped: ShapedProgram,
        arrays: Mapping[str, np.ndarray],
        initial: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        return interpret(shaped, arrays, initial)
