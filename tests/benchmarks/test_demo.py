"""The last lines of `make demo`, and the packages that the demo needs."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from bench import demo

ROOT = Path(__file__).parents[2]


def test_it_ends_with_what_matters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {"I": (1, 2, 6, 7), "F": (3, 2, 3, 3), "B": (3,)}
    monkeypatch.setattr(demo, "CONV_SHAPES", small)
    tables = {"LUT1": (100_000, 4), "I1": (2, 3), "LUT2": (100_000, 4), "I2": (2, 3)}
    layers = {"I3": (2, 5), "W": (6, 5), "W1": (3, 14), "B1": (3,), "W2": (4, 3), "B2": (4,)}
    last = {"W3": (2, 4), "B3": (2,), "W4": (2, 2), "B4": (2,)}
    monkeypatch.setattr(demo, "MODEL_SHAPES", {**tables, **layers, **last})
    demo.main()
    *_, heads, line, first, second = capsys.readouterr().out.splitlines()
    assert " ".join(heads.split()) == "program largest error interpreter first call later calls"
    assert set(line) <= {"-", " "}
    for row, name in ((first, "conv_relu"), (second, "prodModel")):
        found = re.fullmatch(
            rf"{name}\s+([\d.]+)% of its bound(\s+[\d.]+ (us|ms|s)){{3}}", row.strip()
        )
        assert found, row
        assert float(found[1]) <= 100


def test_it_needs_the_library_alone() -> None:
    """Neither the demo nor what it imports of bench/ imports more than tc needs itself."""
    needed = {"numpy", "tabulate", "tc", "bench"}
    for name in ("demo.py", "timing.py", "cpu_kernels/kernel.py"):
        tree = ast.parse((ROOT / "bench" / name).read_text("utf-8"))
        for node in tree.body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            outside = {n.partition(".")[0] for n in names} - needed
            assert outside <= sys.stdlib_module_names, (name, outside)
