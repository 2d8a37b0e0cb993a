"""The loops around panels that a thread packs for itself, and those over the rows of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tc.polyhedral.cpu.analysis import ParallelNest, iterations
from tc.polyhedral.cpu.buffers import MIN_PARTS, NestBuffers
from tc.polyhedral.schedule import Member, tile


@dataclass(frozen=True)
class PanelLoops:
    """The loops `around` panels, outermost first, and those over `rows`; `part` is the loop over
    rows, as it was, that runs in parts, and their size."""

    around: list[Member]
    rows: list[Member]
    part: tuple[Member, int] | None = None

    @classmethod
    def of(cls, buffers: NestBuffers, members: Iterable[Member], vectors: Member) -> PanelLoops:
        """The members but for the one over tiles of vectors, which is the innermost one around."""
        others = [m for m in members if m != vectors]
        used = [m for m in others if buffers.moves_packs(m)]
        return cls([*used, vectors], [m for m in others if m not in used])

    def shared(
        self, nest: ParallelNest, threads: int, trips: Callable[[Member], int]
    ) -> PanelLoops:
        """With a part of the rows for each thread where there are too few panels. Each thread then
        packs its panels itself."""
        panels = iterations(self.around, nest)
        parts = next(
            p for p in range(1, threads + 1)
            if panels * p >= MIN_PARTS or panels * p % threads == 0
        )  # fmt: skip
        found = [(m, trips(m)) for m in self.rows if m.coincident]
        found = [(m, count) for m, count in found if count >= parts]
        if parts == 1 or not found:
            return self
        member, count = min(found, key=lambda row: -(-row[1] // parts) * parts / row[1])
        size = -(-count // parts)
        part, point = tile(member, size)
        rows = [point if m is member else m for m in self.rows]
        return PanelLoops([*self.around, part], rows, (member, size))
