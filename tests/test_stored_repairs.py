"""Every repair that a stored message of errors/ offers is pasted, and where the text then runs, it
computes what its author meant, as mistakes/stored.py says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tc.dtypes import DTYPES
from tc.errors import TCError
from tc.frontend.parser import parse
from tc.runtime.arrays.encoded_arrays import numbers
from tc.semantics.check.checker import check
from tc.semantics.program import Program, Size
from tc.semantics.ranges.range_inference import infer_ranges
from tc.semantics.reference.interpreter import interpret
from tc.source import Source
from tests.mistakes.stored import GIVEN, MEANT
from tests.support.bounds import in_type
from tests.support.build import refusal_of
from tests.test_errors import ERRORS, run, shapes_from, sizes_of

Arrays = dict[str, np.ndarray]
MAX_PASTES = 4
SIZES = (6, 4, 3, 5)
VALUES = {"f": (0.5, -1.5, 2.0, -0.25, 1.5, 3.0, 0.75), "i": (1, -2, 0, 3, 2, -1), "u": (1, 0, 3)}
VALUES["b"] = (True, False, True, True, False)


STORED = {path.stem: refusal_of(run, path) for path in sorted(ERRORS.glob("*.tc"))}
OFFERING = [name for name, error in STORED.items() if error.edits]


def filled(shape: tuple[int, ...], dtype: str, shift: int) -> np.ndarray:
    """Values of both signs where the type has them, which differ between tensors."""
    values = VALUES["f" if DTYPES[dtype].is_float else np.dtype(dtype).kind]
    count = math.prod(shape)
    chosen = [values[(k + shift) % len(values)] for k in range(count)]
    return in_type(np.array(chosen), DTYPES[dtype].numpy).reshape(shape)


def sizes_for(program: Program, text: str) -> dict[str, int]:
    """The sizes of the first line, or others."""
    names = {
        dim.name: None
        for tensor in program.inputs
        for dim in program.tensors[tensor].shape or ()
        if isinstance(dim, Size)
    }
    return sizes_of(text) or dict(zip(names, SIZES, strict=False))


def computed(name: str, text: str) -> tuple[Arrays, Arrays]:
    """The results of a text, and the values of the sizes and inputs. The old contents of an output
    `y` that the text continues are among the inputs as `y_held`."""
    module = parse(Source(text))
    program = check(module, entry=module.defs[-1].name.text)
    sizes = sizes_for(program, text)
    shapes = shapes_from(program, sizes)
    given = GIVEN.get(name, {})
    arrays = {}
    for shift, tensor in enumerate(program.inputs):
        dtype = str(program.tensors[tensor].dtype)
        arrays[tensor] = filled(shapes[tensor], dtype, shift)
        if tensor in sizes:  # an input of rank 0
            arrays[tensor] = np.asarray(sizes[tensor], dtype)
        if tensor in given:
            arrays[tensor] = np.asarray(given[tensor], dtype)
    scalars = {scalar: int(arrays[scalar]) for scalar in program.static_scalars}
    shaped = infer_ranges(program, shapes, scalars)
    held = {
        name: filled(shaped.shapes[name], str(program.tensors[name].dtype), 1)
        for name in program.needs_initial
    }
    known = {size: np.asarray(value) for size, value in sizes.items()}
    known |= {f"{name}_held": value.copy() for name, value in held.items()}
    results = interpret(shaped, arrays, held)
    found, given = ({n: numbers(a) for n, a in each.items()} for each in (results, arrays))
    return found, {**known, **given}


def pasted(name: str) -> tuple[str, Arrays, Arrays] | None:
    """The text with its repairs made, its results and its inputs; None if the text does not run."""
    text = STORED[name].repaired()
    for _ in range(MAX_PASTES):
        if text is None:
            return None
        try:
            return (text, *computed(name, text))
        except TCError as again:
            text = again.repaired()
    return None


def test_there_are_enough() -> None:
    assert len(STORED) >= 200
    assert len(OFFERING) >= 70
    assert set(MEANT) <= set(OFFERING), "these have no message, or one that offers no text"
    assert set(GIVEN) <= set(MEANT)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OFFERING)
def test_the_repair_means_what_was_meant(name: str) -> None:
    found = pasted(name)
    if found is None:
        assert name not in MEANT, "its repairs no longer lead to a program that runs"
        return
    text, outputs, values = found
    assert name in MEANT, f"say in mistakes/stored.py what was meant by\n{text}"
    with np.errstate(all="ignore"):
        meant = eval(MEANT[name], {"np": np, **values})
    for (output, value), wanted in zip(
        outputs.items(), meant if isinstance(meant, tuple) else (meant,), strict=True
    ):
        assert value.shape == np.shape(wanted), (output, text)
        wide = np.asarray(wanted).astype(float)
        np.testing.assert_allclose(value.astype(float), wide, 2e-5, 1e-6, err_msg=text)
