"""The memory of calls by the inline cache of a specialisation, kept for later calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tc.errors import BackendError
from tc.runtime.guards import ADMITTED, FAILED, OTHER, CallGuard, GuardFrame
from tc.runtime.guards_llvm import frame_kind
from tc.runtime.loaded import CompiledKernel, MachineKernel
from tc.runtime.specialisation import Specialisation, access_error

_MAX_IDLE_FRAMES = 4
"""Calls at the same time whose memory is kept."""


@dataclass(frozen=True, slots=True)
class CallFrames:
    """The frames of a specialisation's calls, one for each call at a time. `kind` is how calls are
    tested and run."""

    special: Specialisation
    runner: CompiledKernel
    threads: int | None
    guard: CallGuard
    kind: type[GuardFrame] = field(default_factory=frame_kind)
    idle: list[GuardFrame] = field(default_factory=list)

    def take(self) -> GuardFrame | None:
        """A frame that no other call has; None where there is no memory, and in a forked child
        that cannot compile (`tc.process.forks`): the usual way tells if it needs as much."""
        try:
            return self.idle.pop()
        except IndexError:
            return self._new()

    def run(self, frame: GuardFrame, addresses: Sequence[int]) -> None:
        """Runs a call with arrays at these addresses, which have been tested; raises AccessError as
        `finish` does."""
        self.finish_at(frame, frame.run(*addresses), addresses)

    def finish_at(self, frame: GuardFrame, status: int, addresses: Sequence[int]) -> None:
        """As `finish`, for arrays at these addresses, which have been tested."""
        if status == OTHER:  # machine code may not run it now
            frame.addresses[: len(addresses)] = addresses
            status = ADMITTED
        self.finish(frame, status)

    def finish(self, frame: GuardFrame, status: int) -> None:
        """Does what a call has left to do, and keeps the frame; raises AccessError where a check
        has failed (G7)."""
        failure = None
        if status == ADMITTED:
            failure = self.runner.run(frame.addresses, threads=self.threads)
        elif status == FAILED and frame.direct:
            failure = frame.direct.take_failure()
        self.give_back(frame)
        if failure is not None:
            raise access_error(self.special.shaped, self.runner.kernel, failure)

    def give_back(self, frame: GuardFrame) -> None:
        if len(self.idle) < _MAX_IDLE_FRAMES:
            self.idle.append(frame)

    def _new(self) -> GuardFrame | None:
        special, runner, direct = self.special, self.runner, None
        try:
            temporaries = special.temporaries.take()
            if isinstance(runner, MachineKernel):
                direct = runner.direct(threads=self.threads)
            buffers = self.guard.inputs + len(special.outputs) + len(temporaries)
            return self.kind(self.guard, buffers, temporaries, direct)
        except (MemoryError, BackendError):
            return None
