"""spec/torch_functions.md: every row beside torch, and beside what error messages say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.semantics.check.foreign_functions import idiom
from tests.support.bounds import assert_within

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

PAGE = (Path(__file__).parents[2] / "spec" / "torch_functions.md").read_text("utf-8")
ROWS = re.findall(r"^\| `(.+?)` \| `(.+?)` \|$", PAGE, re.M)
SHAPES = {
    ("x", 1): (8,), ("y", 1): (8,), ("p", 1): (8,), ("v", 1): (5,), ("c", 1): (4,),
    ("x", 2): (6, 5), ("y", 2): (6, 5), ("A", 2): (5, 5), ("B", 2): (5, 7), ("C", 2): (5, 7),
    ("W", 2): (4, 5), ("T", 3): (3, 5, 5),
    ("x", 3): (2, 4, 6), ("w", 3): (3, 4, 2), ("A", 3): (3, 4, 5), ("B", 3): (3, 5, 2),
    ("D", 3): (3, 6, 5), ("q", 3): (2, 5, 4), ("k", 3): (2, 7, 4), ("v", 3): (2, 7, 4),
    ("x", 4): (2, 4, 7, 6), ("w", 4): (3, 4, 3, 2), ("u", 4): (4, 1, 3, 2),
    ("I", 1): (6,), ("J", 2): (6, 3),
}  # fmt: skip
"""The shape of an input by its name and rank."""
OWN_SHAPES = {
    "F.glu(x)": {"x": (6, 8)},
    "torch.zeros(8).scatter_add(0, I, y)": {"y": (6,)},
    "F.embedding(I, W)": {"W": (9, 5)},
    "F.conv2d(x, w, stride=2, padding=1)": {"w": (3, 4, 3, 3)},
}


def test_the_page_has_rows() -> None:
    assert len(ROWS) > 100
    assert len({torch_text for torch_text, _ in ROWS}) == len(ROWS)


def inputs_of(called: str, text: str) -> dict[str, Any]:
    """The tensors that the call names, of the rank that the text reads them with."""
    generator = torch.Generator().manual_seed(3)
    inputs = {}
    for name in sorted(set(re.findall(r"(?<![\w.\"])[a-zA-Z](?![\w\"])", called)) - {"F"}):
        reads = re.finditer(rf"(?<![\w.]){name}\(", text)
        rank = next((count_of(text, read.end()) for read in reads), 1)
        shape = OWN_SHAPES.get(called, {}).get(name, SHAPES[name, rank])
        if name in "IJ":  # places
            inputs[name] = torch.randint(0, 5, shape, generator=generator)
        elif name == "p":  # probabilities
            inputs[name] = 0.1 + 0.8 * torch.rand(shape, generator=generator)
        else:
            inputs[name] = torch.randn(shape, generator=generator)
    return inputs


def count_of(text: str, start: int) -> int:
    """The number of subscripts in a parenthesis that begins there."""
    depth, count = 1, 1
    for letter in text[start:]:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        count += letter == "," and depth == 1
        if not depth:
            break
    return count


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("called", "text"), ROWS, ids=[called for called, _ in ROWS])
def test_a_row_is_what_torch_computes(called: str, text: str) -> None:
    inputs = inputs_of(called, text)
    params = ", ".join(
        f"{'float' if t.is_floating_point() else 'int64'}"
        f"({', '.join(f'{name}_{axis}' for axis in range(t.ndim))}) {name}"
        for name, t in inputs.items()
    )
    source = f"def f({params}) -> (o) {{ {text} }}"
    wanted = eval(called, {"torch": torch, "F": torch.nn.functional, **inputs})
    arrays = [t.numpy() for t in inputs.values()]
    found = tc.interpret(source, arrays)
    assert found.shape == tuple(wanted.shape)
    bound = tc.error_bound(source, arrays)
    assert_within(wanted.numpy().astype(found.dtype), found, 2 * np.asarray(bound) + 1e-6)
    assert_within(tc.compile(source)(*arrays), found, bound)


def elementwise() -> list[tuple[str, str]]:
    """Rows of functions of numbers, the call without its module."""
    section = PAGE.partition("## Functions of numbers")[2].partition("##")[0]
    return re.findall(r"^\| `(?:F|torch)\.(\w+\(.+\))` \| `(.+?)` \|$", section, re.M)


def test_error_messages_say_the_same_of_numbers() -> None:
    """Where a text calls the function, the repair is the row."""
    same = 0
    for called, text in elementwise():
        if "where" in called or ">" in called:
            continue
        call = re.sub(r"\b([xyp])\b", r"\1(i)", called)
        source = f"def f(float(N) x, float(N) y, float(N) p) -> (o) {{ o(i) = {call} }}"
        try:
            tc.compile(source)
        except tc.TCError as error:
            if error.repair is not None:
                bare = re.sub(r"^\((.*)\)$", r"\1", error.repair)  # it stands alone there
                assert f"o(i) = {bare}" == text
                same += 1
    assert same >= 25


def test_error_messages_say_the_same_of_tensors() -> None:
    same = 0
    for called, text in ROWS:
        name = re.findall(r"(?:F|torch|x)\.(\w+)\(", called)
        said = idiom(name[-1]) if name else None
        if said is not None and said.replace(", then ", "  ").replace(" and then ", "  ") == text:
            same += 1
    assert same >= 15
