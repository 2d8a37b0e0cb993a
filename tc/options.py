"""How a program is compiled: one frozen value that can be compared, stored and read back."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

from tc.errors import BackendError


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `tc.compile`, `tc.define` and `tc.emit`.

    `threads` is the largest number of threads that a call may use; None leaves it to the backend.
    Raises BackendError for values that make no sense.

    >>> Options(threads=2)
    Options(threads=2)
    >>> Options.from_json(Options(threads=2).to_json()) == Options(threads=2)
    True
    """

    threads: int | None = None

    def __post_init__(self) -> None:
        threads = self.threads
        if threads is None:
            return
        if type(threads) is not int or threads < 1:
            raise BackendError(
                f"threads={threads!r}: the number of threads is an integer of at least 1, or None",
                repair="Options(threads=1)",
            )

    def to_json(self) -> str:
        """The options as a JSON object, to be read by `from_json`."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Options:
        """Options written by `to_json`; BackendError for anything else."""
        try:
            values = json.loads(text)
        except (TypeError, ValueError) as error:
            raise BackendError(f"the options are no JSON: {error}", repair="{}") from error
        known = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(values, dict) or not set(values) <= set(known):
            raise BackendError(
                f"the options {text!r} are not an object with the keys {', '.join(known)}",
                repair=cls().to_json(),
            )
        return cls(**values)
