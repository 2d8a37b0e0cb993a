"""Failing runs as files that a person can read: a header of comments, then the program.

# wrong: o: 1 of 4 elements are out of bounds, first at [0] ...
# backend: numba
# seed: 17
# input a: float32 4,3 ones axes 1,0 steps 1,-2
# outputs: o; array; fives
# options: {"mapping": {"rows": 6}}
# device: {"vector_bits": 512}
def f(...) ...
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.fuzz.execute import Run

INPUT = re.compile(r"(\S+): (\S+) (\S*) \"([^\"]*)\" axes (\S*) steps (\S*)$")


def write(run: Run, comment: str = "") -> str:
    lines = [line[:98] for line in comment.splitlines()[:1]]
    lines += [f"backend: {run.backend}", f"seed: {run.seed}", f"edge: {run.edge}"]
    for name, spec in run.inputs.items():
        shape, axes, steps = (
            ",".join(map(str, spec[key])) or "-" for key in ("shape", "axes", "steps")
        )
        lines.append(
            f'input {name}: {spec["type"]} {shape} "{spec["values"]}" axes {axes} steps {steps}'
        )
    if run.outputs["names"]:
        names = ", ".join(run.outputs["names"])
        lines.append(f"outputs: {names}; {run.outputs['form']}; {run.outputs['values']}")
    for key in ("options", "device"):
        if getattr(run, key):
            lines.append(f"{key}: {json.dumps(getattr(run, key))}")
    if run.compile_for:
        lines.append(f"compile for: {run.compile_for}")
    return "".join(f"# {line}\n" for line in lines) + run.text


def read(path: Path) -> Run:
    values: dict[str, Any] = {
        "inputs": {},
        "outputs": {"names": [], "form": "dict", "values": "fives"},
        "backend": "numba",
        "seed": 0,
    }
    body = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("# "):
            body.append(line)
            continue
        key, _, rest = line[2:].partition(": ")
        if key.startswith("input "):
            _read_input(values, line[len("# input ") :])
        elif key == "outputs":
            names, form, kind = rest.split("; ")
            values["outputs"] = {"names": names.split(", "), "form": form, "values": kind}
        elif key in ("options", "device"):
            values[key] = json.loads(rest)
        elif key in ("backend", "edge"):
            values[key] = rest
        elif key == "seed":
            values["seed"] = int(rest)
        elif key == "compile for":
            values["compile_for"] = rest
    return Run(text="\n".join(body) + "\n", **values)


def _read_input(values: dict[str, Any], text: str) -> None:
    match = INPUT.match(text)
    assert match is not None, text
    name, dtype, shape, kind, axes, steps = match.groups()
    values["inputs"][name] = {
        "type": dtype,
        "values": kind,
        "shape": _integers(shape),
        "axes": _integers(axes),
        "steps": _integers(steps),
    }


def _integers(text: str) -> list[int]:
    return [] if text == "-" else [int(x) for x in text.split(",")]
