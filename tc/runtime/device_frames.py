"""The memory of calls on a device, beside that of their arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_MOST_STREAMS = 16
"""Streams whose temporaries are kept; those of others that were used before go."""


@dataclass(slots=True)
class DeviceFrame:
    """What one call at a time needs beside its arrays: temporaries, words of its own, and memory
    for numbers, of which the last contents are known. `arrays` keep the memory alive."""

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
    is free for the next call on that stream, which the device runs later."""

    by_stream: dict[Any, list[DeviceFrame]] = field(default_factory=dict)

    def take(self, stream: Any) -> DeviceFrame | None:
        try:
            return self.by_stream[stream].pop()
        except LookupError:
            return None

    def give_back(self, stream: Any, frame: DeviceFrame) -> None:
        kept = self.by_stream
        if stream not in kept and len(kept) >= _MOST_STREAMS:
            kept.pop(next(iter(kept)), None)
        kept.setdefault(stream, []).append(frame)
