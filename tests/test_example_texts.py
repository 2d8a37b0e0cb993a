"""Every text of examples/ runs at the sizes in its comments, and is right at other sizes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import tc
from tc.__main__ import main
from tc.cli.arguments import pragma_values
from tc.cli.tc_texts import TcTexts
from tc.frontend.format import format_source
from tc.pipeline import check_module, parse_source, shape_program
from tc.runtime.sizes import resolve_sizes
from tc.source import Source
from tc.tuning.measuring.references import SIGNED, drawn_inputs
from tests.support.bounds import assert_within
from tests.support.programs import CASES, Case, exact

FOLDER = Path(__file__).parents[1] / "examples"
TEXTS = sorted(FOLDER.glob("*.tc"))
FORMULAS = {case.name: case for case in CASES}
NAMES = {"softmax": "stable_softmax"}
INPUTS = {"gconv": {"W": "W1"}, "sconv2d": {"W": "W1"}}
"""Where the examples have other names than the programs of the tests."""


def case_of(path: Path) -> tuple[Case, dict[str, str]]:
    return FORMULAS[NAMES.get(path.stem, path.stem)], INPUTS.get(path.stem, {})


def test_all_are_listed() -> None:
    listed = re.findall(r"^\| `([\w]+\.tc)` \|", (FOLDER / "README.md").read_text("utf-8"), re.M)
    assert sorted(listed) == [path.name for path in TEXTS]
    assert len(listed) >= 12


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_it_states_sizes_that_fit(path: Path) -> None:
    source = Source(path.read_text("utf-8"), path.name)
    assert format_source(source) == source.text
    module = parse_source(source)
    program = check_module(module, path.stem)
    assert not program.warnings
    pairs = pragma_values(TcTexts().callee(source, path.stem), "#")
    values = {name: float(text) if "." in text or "e-" in text else int(text)
              for name, text in pairs.items()}  # fmt: skip
    shapes = shape_program(program, resolve_sizes(program, values)).shapes
    assert 1 << 12 < max(np.prod(shape) for shape in shapes.values()) < 1 << 26


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_it_runs_at_other_sizes(path: Path, tmp_path: Path) -> None:
    case, renamed = case_of(path)
    text = path.read_text("utf-8")
    program = check_module(parse_source(Source(text)), path.stem)
    found = case.inputs(np.random.default_rng(0))
    arrays = {renamed.get(name, name): value for name, value in found.items()}
    shaped = shape_program(program, resolve_sizes(program, arrays))
    sizes = {name: shaped.sizes[name] for name in program.sizes if "." not in name}
    scalars = {name: value for name, value in arrays.items() if not np.ndim(value)}
    words = [f"{name}={value}" for name, value in {**sizes, **scalars}.items()]
    assert main(["run", str(path), *words, "--entry", path.stem, "--out", str(tmp_path)]) == 0

    names = tuple(name for name in program.inputs if name not in scalars)
    inputs = {**scalars, **drawn_inputs(shaped, SIGNED, 0, names)}
    known = {old: inputs[renamed.get(old, old)] for old in found}
    bounds = tc.error_bound(text, inputs, entry=path.stem)
    bounds = bounds if isinstance(bounds, tuple) else (bounds,)
    for name, value, bound in zip(program.outputs, case.formula(exact(known)), bounds, strict=True):
        result = np.load(tmp_path / f"{name}.npy")
        assert_within(result, np.asarray(value).astype(result.dtype), bound)
