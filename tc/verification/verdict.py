"""What `tc.verify` found of a kernel."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tc.dtypes import Array
from tc.errors import VerificationError
from tc.runtime.arrays.encoded_arrays import numbers
from tc.verification.expected import type_of

_MOST_SHOWN = 64  # elements of an array that is shown whole
_MOST_IN_SCRIPT = 4096  # elements of an array whose values a script has


@dataclass(frozen=True)
class Finding:
    """One way in which a kernel is wrong.

    `kind` is "value", "shape", "type", "varies" (equal inputs, other results), "changes inputs",
    "overwrites a result", "writes around", "raises", "no result", "ends" or "hangs". `cause` says
    what is wrong with the actual numbers, `diagnosis` which elements are and what the kernel seems
    to do, as far as that shows. `inputs` are the smallest that were found to fail, at `sizes`;
    `layout` says how they lie in memory, `probe` what they are; `got`, `expected` and `bound` are
    of the first wrong element. A `traceback` is that of the kernel, or what its process printed at
    its end; `script` is a program in Python that repeats the finding.
    """

    kind: str
    cause: str
    diagnosis: str
    sizes: Mapping[str, int]
    inputs: Mapping[str, Array]
    layout: str
    probe: str
    traceback: str = ""
    got: float | None = None
    expected: float | None = None
    bound: float | None = None
    script: str = ""

    def __str__(self) -> str:
        lines = [self.cause]
        if self.diagnosis:
            lines.append(f"  {self.diagnosis}")
        sizes = ", ".join(f"{name} = {size}" for name, size in self.sizes.items())
        lines.append(f"  at {sizes or 'the sizes of the text'}, with {self.probe}, {self.layout}")
        for name, array in self.inputs.items():
            lines.append(f"  {name} = {_shown(array)}")
        if self.traceback:
            lines += [f"  {line}" for line in self.traceback.rstrip().splitlines()]
        return "\n".join(lines)

    def to_value(self) -> dict[str, Any]:
        """The finding as JSON has it."""
        return {
            "kind": self.kind,
            "cause": self.cause,
            "diagnosis": self.diagnosis,
            "sizes": dict(self.sizes),
            "inputs": {name: _plain(numbers(a).tolist()) for name, a in self.inputs.items()},
            "types": {name: type_of(a) for name, a in self.inputs.items()},
            "layout": self.layout,
            "probe": self.probe,
            "traceback": self.traceback,
            "got": _plain(self.got),
            "expected": _plain(self.expected),
            "bound": _plain(self.bound),
            "script": self.script,
        }


@dataclass(frozen=True)
class Verdict:
    """Whether a kernel computes what a text says, as far as it was tried; made by `tc.verify`.

    A verdict is true where nothing was found. `name` is that of the def, `findings` say what is
    wrong; `refused` are inputs for which the kernel raised an exception, as it may: empty ones, and
    ones that are not row-major. `tried` says what the kernel was called with, in `calls` calls
    within `seconds`, and `not_tried` what was left out.
    """

    name: str
    findings: tuple[Finding, ...]
    calls: int
    seconds: float
    tried: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    not_tried: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def __bool__(self) -> bool:
        return self.is_right

    def __str__(self) -> str:
        head = f"{self.name}: {self._head} ({self.calls} calls, {self.seconds:.1f} s)"
        lines = [head, *(line for f in self.findings for line in str(f).splitlines())]
        for word, items in self._lists:
            lines += [f"{word}:", *(f"- {item}" for item in items)] if items else []
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<verdict on {self.name}: {self._head}>"

    def _repr_html_(self) -> str:
        color = "#1a7f37" if self.is_right else "#cf222e"
        parts = [
            f'<div><b style="color:{color}">{html.escape(f"{self.name}: {self._head}")}</b>'
            f" ({self.calls} calls, {self.seconds:.1f} s)"
        ]
        parts += [f"<pre>{html.escape(str(finding))}</pre>" for finding in self.findings]
        for word, items in self._lists:
            if items:
                rows = "".join(f"<li>{html.escape(item)}</li>" for item in items)
                parts.append(f"<details><summary>{word}</summary><ul>{rows}</ul></details>")
        return "".join(parts) + "</div>"

    def to_json(self) -> str:
        """The verdict as a text of JSON."""
        value = {
            "name": self.name,
            "right": self.is_right,
            "findings": [finding.to_value() for finding in self.findings],
            "calls": self.calls,
            "seconds": round(self.seconds, 3),
            "tried": self.tried,
            "refused": self.refused,
            "not_tried": self.not_tried,
        }
        return json.dumps(value, indent=1)

    def raise_if_wrong(self) -> None:
        """Raises VerificationError where something was found."""
        if self.findings:
            raise VerificationError(
                f"{self.name}: the kernel is not what the text says: {self.findings[0]}",
                repair="correct the kernel, or the text; the script of the finding repeats it",
            )

    @property
    def _head(self) -> str:
        return "right in all that was tried" if self.is_right else "WRONG"

    @property
    def _lists(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return (
            ("tried", self.tried),
            ("refused by the kernel", self.refused),
            ("not tried", self.not_tried),
        )


def _plain(value: Any) -> Any:
    """Numbers as JSON has them, which has no NaN and infinities."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    is_odd = isinstance(value, float) and not np.isfinite(value)
    return str(value) if is_odd else value


def _shown(array: Array) -> str:
    shape = "x".join(map(str, array.shape)) or "scalar"
    head = f"{type_of(array)} {shape}"
    if array.size > _MOST_SHOWN:
        return head
    values = np.array2string(numbers(array), separator=", ", max_line_width=90)
    return f"{head}: " + values.replace("\n", "\n    ")


def script_of(
    kernel: str, text: str, inputs: Mapping[str, Array], options: Mapping[str, Any]
) -> str:
    """A script that repeats a finding: `kernel` are the lines that give the kernel, `options` those
    of `tc.verify`."""
    lines = ["import numpy as np", "import tc", "", kernel, "", f'text = """{text}"""']
    lines += ["inputs = {"]
    for name, array in inputs.items():
        lines.append(f"    {name!r}: {_literal(array)},")
    lines += ["}"]
    how = "".join(f", {name}={value!r}" for name, value in options.items())
    lines += [f"print(tc.verify(kernel, text, inputs=inputs{how}))", ""]
    return "\n".join(lines)


def _literal(array: Array) -> str:
    values = numbers(array)
    kind = f"np.{array.dtype.name}" if array.dtype.names is None else "np.float32"
    if values.size > _MOST_IN_SCRIPT:
        return f"np.zeros({values.shape}, {kind}),  # {values.size} elements: see `finding.inputs`"
    if values.size == 0 or (values == values.reshape(-1)[:1]).all():
        first = values.reshape(-1)[0].item() if values.size else 0
        return f"np.full({values.shape}, {_python(first)}, {kind})"
    text = str(values.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    return f"np.array({text}, {kind})"


def _python(value: Any) -> str:
    return str(value).replace("nan", "np.nan").replace("inf", "np.inf")
