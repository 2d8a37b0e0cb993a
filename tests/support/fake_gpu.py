"""Stand-ins for the clock of a GPU, as torch has it, and for torch beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


@dataclass
class FakeClock:
    """Takes the place of `torch.cuda`, and of the processor's clock: what is put in line is done
    when somebody waits, or at once for a processor that is `slow`."""

    now: float = 0.0
    free: float = 0.0
    log: list[str] = field(default_factory=list)

    def enqueue(self, name: str, seconds: float, host: float = 1e-6) -> None:
        self.now += host
        self.free = max(self.free, self.now) + seconds
        self.log.append(name)

    def synchronize(self) -> None:
        self.now = max(self.now, self.free)

    def Event(self, *, enable_timing: bool) -> Any:
        assert enable_timing
        return FakeEvent(self)

    def current_stream(self) -> Any:
        return SimpleNamespace(cuda_stream=0)

    def get_device_properties(self, number: int) -> Any:
        assert number == 0
        return SimpleNamespace(
            name="GPU 1", major=9, minor=0, multi_processor_count=3, total_memory=2**33,
            L2_cache_size=2**24,
        )  # fmt: skip


class FakeEvent:
    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._at = 0.0

    def record(self) -> None:
        self._clock.enqueue("event", 0.0)
        self._at = self._clock.free

    def elapsed_time(self, last: FakeEvent) -> float:
        return (last._at - self._at) * 1e3


class FakeTorch:
    """The parts of torch that `GpuDevice` uses, without the clock."""

    int8 = "int8"
    backends = SimpleNamespace(
        cuda=SimpleNamespace(matmul=SimpleNamespace()), cudnn=SimpleNamespace()
    )

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock

    def empty(self, *_: Any, **__: Any) -> Any:
        clock = self._clock
        return SimpleNamespace(zero_=lambda: clock.enqueue("flush", 1e-4))

    def set_grad_enabled(self, mode: bool) -> None:
        assert not mode


class TickingClock(FakeClock):
    """Goes on by itself."""

    def enqueue(self, name: str, seconds: float, host: float = 1e-6) -> None:
        super().enqueue(name, seconds + 1e-5, host)
