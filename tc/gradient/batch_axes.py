"""What `in_axes` of `tc.batch` says: the dimension of the batch for each input (D18)."""

from __future__ import annotations

from collections.abc import Mapping

from tc.errors import GradError
from tc.semantics import program as p
from tc.semantics.suggest import counted, listed, nearest


def axes_of(program: p.Program, in_axes: object) -> dict[str, int]:
    """The dimension of the batch for each input that is batched."""
    given = _by_name(program, in_axes)
    axes = {}
    for name, axis in given.items():
        if axis is None:
            continue
        rank = program.tensors[name].rank
        if not isinstance(axis, int) or isinstance(axis, bool) or not -rank - 1 <= axis <= rank:
            raise _wrong(
                program,
                f"in_axes has {axis!r} for '{name}', which has rank {rank}: the batch is a "
                f"dimension from 0 to {rank}, or None",
                f"in_axes={{{name!r}: 0}}",
            )
        axes[name] = axis + rank + 1 if axis < 0 else axis
    if not axes:
        raise _wrong(
            program,
            f"in_axes gives no input of '{program.name}' a batch",
            f"in_axes={{{program.inputs[0]!r}: 0}}" if program.inputs else None,
        )
    return axes


def _by_name(program: p.Program, in_axes: object) -> dict[str, object]:
    inputs = program.inputs
    if isinstance(in_axes, Mapping):
        for name in in_axes:
            if name not in inputs:
                near = nearest(str(name), inputs)
                raise _wrong(
                    program,
                    f"in_axes names {name!r}, which is no input of '{program.name}'"
                    + (f"; did you mean '{near}'?" if near else ""),
                    f"in_axes={{{near or (inputs[0] if inputs else 'A')!r}: 0}}",
                )
        return dict(in_axes)
    if isinstance(in_axes, list | tuple):
        if len(in_axes) != len(inputs):
            raise _wrong(
                program,
                f"in_axes has {counted(len(in_axes), 'element')}, and '{program.name}' has "
                f"{len(inputs)} inputs, {listed([*inputs])}",
                f"in_axes={[0] * len(inputs)}",
            )
        return dict(zip(inputs, in_axes, strict=True))
    if isinstance(in_axes, int) and not isinstance(in_axes, bool):
        return dict.fromkeys(inputs, in_axes)
    raise _wrong(
        program,
        f"in_axes is {in_axes!r}; it is a dimension by name, one for each input, or one for all",
        f"in_axes={{{inputs[0]!r}: 0}}" if inputs else None,
    )


def _wrong(program: p.Program, cause: str, repair: str | None) -> GradError:
    return GradError(cause, rule="D18", span=program.span, repair=repair)
