"""The memory of calls on a device, beside that of their arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import get_ident
from typing import Any

PER_THREAD = 2
"""CUDA's handle of each thread's default stream."""

_MAX_STREAMS = 16
"""The number of streams whose temporaries are kept; the temporaries of streams that were used
earlier go."""


@dataclass(slots=True)
class DeviceFrame:
    """The memory that a call needs beside its arrays: temporaries, words of its own, and memory for
    numbers with its last contents. `arrays` keep the memory alive."""

    arrays: list[Any]
    temporaries: list[Any]
    words: Any
    numbers: list[Any]
    contents: list[bytes]

    def number(self, place: int, content: bytes, kernel: Any, stream: Any) -> Any:
        """The pointer to memory with the bytes of a number, which are written if they are others
        than before."""
        pointer = self.numbers[place]
        if content != self.contents[place]:
            kernel.fill(pointer, content, stream)
            self.contents[place] = content
        return pointer


@dataclass(frozen=True, slots=True)
class DeviceFrames:
    """The frames of a specialisation for calls on each stream. A frame that has been put in line
    is free for the next call on that stream, which the device runs later. In `recorded` are those
    that graphs use whenever they run; any number of threads may ask."""

    by_stream: dict[Any, list[DeviceFrame]] = field(default_factory=dict)
    recorded: list[DeviceFrame] = field(default_factory=list)

    def take(self, stream: Any) -> DeviceFrame | None:
        try:
            return self.by_stream[_own(stream)].pop()
        except LookupError:
            return None

    def give_back(self, stream: Any, frame: DeviceFrame) -> None:
        kept, key = self.by_stream, _own(stream)
        if key not in kept and len(kept) >= _MAX_STREAMS:
            for oldest in list(kept)[:1]:
                kept.pop(oldest, None)
        kept.setdefault(key, []).append(frame)


def _own(stream: Any) -> Any:
    """A stream of its own for each thread where CUDA has one handle for all of theirs."""
    shared = type(stream) is int and stream == PER_THREAD
    return (stream, get_ident()) if shared else stream
