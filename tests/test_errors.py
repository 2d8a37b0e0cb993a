"""Every program in errors/ fails with exactly the message stored beside it.

The first line may give sizes and integer scalars: `# sizes: N=3 sh=2`; with it the program is
shaped too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tc.errors import TCError
from tc.frontend.parser import parse
from tc.semantics.check.checker import check, check_all
from tc.semantics.program import Extent, Literal, Program, Size
from tc.semantics.ranges.range_inference import infer_ranges
from tc.source import Source

ERRORS = Path(__file__).parent / "errors"


def sizes_of(text: str) -> dict[str, int] | None:
    first = text.split("\n", 1)[0]
    if not first.startswith("# sizes:"):
        return None
    pairs = (item.split("=") for item in first.removeprefix("# sizes:").split())
    return {name: int(value) for name, value in pairs}


def shapes_from(program: Program, sizes: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """Input shapes from their declarations; `T.k=5` in the sizes overrides one dimension."""
    shapes = {}
    for name in program.inputs:
        tensor = program.tensors[name]
        dims = []
        for axis, dim in enumerate(tensor.shape or ()):
            match dim:
                case Literal(value=value):
                    default = int(value)
                case Size(name=size):
                    default = sizes.get(size, -1)
                case Extent():
                    default = -1
                case _:
                    default = -1
            dims.append(sizes.get(f"{name}.{axis}", default))
        shapes[name] = tuple(dims)
    return shapes


def run(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    sizes = sizes_of(text)
    module = parse(Source(text, path.name))
    if sizes is None:
        check_all(module)
        return
    program = check(module, entry=module.defs[-1].name.text)
    scalars = {name: sizes[name] for name in program.static_scalars}
    infer_ranges(program, shapes_from(program, sizes), scalars)


@pytest.mark.parametrize("path", sorted(ERRORS.glob("*.tc")), ids=lambda p: p.stem)
def test_message(path: Path, golden: Callable[[Path, str], None]) -> None:
    with pytest.raises(TCError) as caught:
        run(path)
    error = caught.value
    assert error.rule is not None
    assert error.span is not None
    golden(path.with_suffix(".txt"), str(error))
