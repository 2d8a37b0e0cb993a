"""Where selections stand that are checked in the def (C8, G6, G7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tc.source import Span


@dataclass(frozen=True, slots=True)
class Site:
    """Where a selection stands, and the axis of its array that a subscript counts along."""

    span: Span
    axis: int
    shape: tuple[int, ...]


Sites: TypeAlias = Mapping[int, Site]
"""The selections whose index is not known to stay inside, by the axes that it counts along."""
