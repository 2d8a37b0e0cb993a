"""Batching: the text of a def for many inputs at a time (D18)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import Any, TypeAlias

from tc.dtypes import INT64, DType
from tc.errors import GradError, ends_at_caller
from tc.gradient import terms as e
from tc.gradient.call_free_def import CallFreeDef, call_free, is_spelled
from tc.gradient.def_text import (
    Comprehension,
    FreshNames,
    Joined,
    TextStep,
    checked_def,
    declaration,
    reads_of,
)
from tc.gradient.generic_texts import derived
from tc.gradient.request import Batched, TextOrFunction, program_of
from tc.semantics import program as p
from tc.source import ShownText
from tc.wording import counted, listed, nearest

InAxes: TypeAlias = int | Sequence[int | None] | Mapping[str, int | None]


@ends_at_caller
def batch(src: TextOrFunction | Batched, in_axes: InAxes, *, entry: str | None = None) -> str:
    """The text of a def that computes a def for each element of a batch (D18).

    `in_axes` says along which dimension inputs are batched: by name, in the order of the inputs, or
    one for all; inputs with None, and those that a mapping leaves out, are the same for all
    elements. Tensors that depend on a batched input get the batch as their first dimension, outputs
    included; `batched_outputs` names these outputs. Other outputs have no batch. `src` is as for
    `tc.grad`, or a function of `tc.sac`: then the text is in that notation, for inputs of any rank,
    and all results have the batch.

    Raises GradError where `in_axes` does not fit, and where a size depends on a batched input.

    >>> import tc
    >>> mv = "def mv(float(M,K) A, float(K) x) -> (C) { C(i) +=! A(i,k) * x(k) }"
    >>> print(tc.batch(mv, {"x": 0}), end="")
    def mv_batch(float(M, K) A, float(B, K) x) -> (C) {
      C(b, i) +=! A(i, k) * x(b, k)
    }
    """
    own = getattr(src, "batched", None)
    if own is not None:
        return ShownText(own(in_axes, entry), "sac")

    def derive(of: Any, own: str | None) -> tuple[str, ...]:
        return (_Batch.of(of, in_axes, own).text(),)

    return ShownText(*derived(src, entry, derive))


def batched_outputs(
    src: TextOrFunction, in_axes: InAxes, *, entry: str | None = None
) -> tuple[str, ...]:
    """The outputs that `tc.batch` gives the batch as their first dimension.

    >>> text = "def f(float(N) A, float(M) B) -> (o, p) { o(i) = A(i)  p +=! B(i) }"
    >>> batched_outputs(text, {"B": 0})
    ('p',)
    """
    made = _Batch.of(src, in_axes, entry)
    return tuple(name for name in made.program.outputs if name in made.axes)


@dataclass
class _Batch:
    """The state of one batching; `axes` has the dimension of the batch for each tensor that is
    batched."""

    program: CallFreeDef
    axes: dict[str, int]
    variable: str
    size: p.Expr
    name: str
    dtypes: dict[str, DType]
    names: FreshNames

    @classmethod
    def of(cls, src: TextOrFunction, in_axes: InAxes, entry: str | None) -> _Batch:
        checked = program_of(src, entry)
        program = call_free(checked)
        axes = axes_of(checked, in_axes)
        while True:
            before = len(axes)
            for step in program.steps:
                if not axes.keys().isdisjoint((*step.sources, *step.targets)):
                    for target in step.targets:
                        axes.setdefault(target, 0)
            if len(axes) == before:
                break
        names = program.fresh_names()
        size = p.Size(names.fresh("B"), span=e.NO_SPAN)
        name = names.fresh(f"{program.name}_batch")
        return cls(program, axes, names.fresh("b"), size, name, dict(program.dtypes), names)

    def text(self) -> str:
        steps = [made for step in self.program.steps for made in self._batched(step)]
        params = [self._declared(name) for name in self.program.inputs]
        returns = [self._declared(name) for name in self.program.outputs]
        return checked_def(self.name, params, returns, steps, self.dtypes).layout

    def _declared(self, tensor: str) -> str:
        shape = self.program.shapes.get(tensor)
        if shape is None or not is_spelled(shape):
            return tensor
        dims = self._with(tensor, shape, self.size)
        return declaration(tensor, self.program.dtypes[tensor], dims)

    def _with(self, tensor: str, each: tuple[p.Expr, ...], batched: p.Expr) -> tuple[p.Expr, ...]:
        """The entries for the dimensions of a tensor, with that for the batch among them."""
        axis = self.axes.get(tensor)
        return each if axis is None else (*each[:axis], batched, *each[axis:])

    # --- statements -------------------------------------------------------------------------

    def _batched(self, step: TextStep) -> list[TextStep]:
        if isinstance(step, Joined):
            if step.target not in self.axes:
                return [step]
            other = dict.fromkeys(s for s in step.sources if self.axes.get(s) != 0)
            copies = {source: self._copy(source) for source in other}
            sources = (copies[s].target if s in copies else s for s in step.sources)
            return [*copies.values(), replace(step, sources=tuple(sources))]
        self._check(step)
        line = replace(
            step.changed(self._read),
            where={v: (self._read(b), self._read(c)) for v, (b, c) in step.where.items()},
            exists=tuple(r for r in map(self._read, step.exists) if isinstance(r, p.Read)),
            sizes=tuple(
                replace(s, axis=s.axis + (s.target in self.axes), value=self._read(s.value))
                for s in step.sizes
            ),
        )
        if step.target not in self.axes:
            first = {self.variable: e.ZERO}  # of the batch, where `exists` says a range
            exists = (e.substituted(read, first) for read in line.exists)
            return [replace(line, exists=tuple(r for r in exists if isinstance(r, p.Read)))]
        places = None if line.places is None else (e.index(self.variable), *line.places)
        line = replace(line, indices=(self.variable, *line.indices), places=places)
        return [self._with_range(line)]

    def _with_range(self, line: Comprehension) -> Comprehension:
        """The statement with a clause for the batch, where no read of a batched tensor gives the
        range."""
        of_batch = e.index(self.variable)
        if any(of_batch in read.subscripts for read in line.all_reads):
            return line
        return replace(line, where={self.variable: (e.ZERO, self.size), **line.where})

    def _copy(self, source: str) -> Comprehension:
        """A statement that copies a part of a concat with the batch as the first dimension."""
        copy = self.names.fresh(source)
        indices = tuple(self.names.fresh(f"i{k}") for k in range(self.program.ranks[source]))
        subscripts = self._with(source, tuple(map(e.index, indices)), e.index(self.variable))
        dtype = self.dtypes[copy] = self.program.dtypes[source]
        rhs = p.Read(source, subscripts, dtype, -1, span=e.NO_SPAN)
        return self._with_range(Comprehension(copy, (self.variable, *indices), "=", rhs))

    # --- expressions ------------------------------------------------------------------------

    def _read(self, expr: p.Expr) -> p.Expr:
        """The expression for one element of the batch. A batched integer that stood in an affine
        condition is computed in int64, as it was there (Y9)."""
        is_wide = any(self._is_scalar(read.tensor) for read in reads_of(expr))

        def change(node: p.Expr) -> p.Expr | None:
            match node:
                case p.Extent(tensor=tensor, axis=axis) if tensor in self.axes:
                    return replace(node, axis=axis + (axis >= self.axes[tensor]))
                case p.Read(tensor=tensor, subscripts=subscripts):
                    inside = tuple(e.rebuilt(s, change) for s in subscripts)
                    whole = self._with(tensor, inside, e.index(self.variable))
                    return replace(node, subscripts=whole)
            return None

        def in_value(node: p.Expr) -> p.Expr | None:
            if is_wide and isinstance(node, p.Convert) and _is_index(node):
                return replace(node, operand=e.rebuilt(node.operand, change), written=True)
            return change(node)

        return e.rebuilt(expr, in_value)

    def _is_scalar(self, tensor: str) -> bool:
        """Whether a tensor is a batched scalar on whose value the code of the def is
        specialised."""
        return tensor in self.program.static_scalars and tensor in self.axes

    def _check(self, line: Comprehension) -> None:
        """Raises GradError where a range depends on a batched scalar."""
        for variable, bounds in line.where.items():
            for read in (read for bound in bounds for read in reads_of(bound)):
                if self._is_scalar(read.tensor):
                    raise self._no_size(variable, read)
        for access in line.all_reads:
            for subscript in () if access.bare_only else access.subscripts:
                unknown = [v for v in p.index_names(subscript) if v not in line.where]
                for read in reads_of(subscript):
                    if unknown and self._is_scalar(read.tensor):
                        raise self._no_size(unknown[0], read)

    def _no_size(self, variable: str, read: p.Read) -> GradError:
        inputs = self.program.inputs
        others = {name: self.axes.get(name) for name in inputs if name != read.tensor}
        is_batched = any(axis is not None for axis in others.values())
        call = f"{self.program.name}({', '.join(inputs)})"
        return GradError(
            f"the range of '{variable}' depends on '{read.tensor}', which is batched, and ranges "
            "are the same for all elements of a batch: there is a call for each of its values",
            rule="D18",
            span=read.span,
            repair=f"in_axes={others}"
            if is_batched
            else f"[{call} for {read.tensor} in {read.tensor}]",
        )


def _is_index(node: p.Convert) -> bool:
    operand = node.operand
    is_number = isinstance(operand, p.Read) and not operand.subscripts
    return is_number and operand.dtype.is_integer and node.dtype == INT64


# --- what in_axes says ------------------------------------------------------------------------


def axes_of(program: p.Program, in_axes: object) -> dict[str, int]:
    """The dimension of the batch for each input that is batched."""
    given = _by_name(program, in_axes)
    axes = {}
    for name, axis in given.items():
        if axis is None:
            continue
        rank = program.tensors[name].rank
        number = _number(axis)
        if number is None or not -rank - 1 <= number <= rank:
            raise _wrong(
                program,
                f"in_axes has {axis!r} for '{name}', which has rank {rank}: the batch is a "
                f"dimension from 0 to {rank}, or None",
                _repair(program, given),
            )
        axes[name] = number + rank + 1 if number < 0 else number
    if not axes:
        cause = f"in_axes gives no input of '{program.name}' a batch"
        raise _wrong(program, cause, _repair(program, {}))
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
                    _repair(program, _spelled(inputs, in_axes)),
                )
        return dict(in_axes)
    if isinstance(in_axes, list | tuple):
        if len(in_axes) != len(inputs):
            raise _wrong(
                program,
                f"in_axes has {counted(len(in_axes), 'element')}, and '{program.name}' has "
                f"{len(inputs)} inputs, {listed([*inputs])}",
                _repair(program, dict(zip(inputs, in_axes, strict=False))),
            )
        return dict(zip(inputs, in_axes, strict=True))
    if _number(in_axes) is not None:
        return dict.fromkeys(inputs, in_axes)
    raise _wrong(
        program,
        f"in_axes is {in_axes!r}; it is a dimension by name, one for each input, or one for all",
        _repair(program, {str(in_axes): 0} if str(in_axes) in inputs else {}),
    )


def _number(axis: Any) -> int | None:
    """A dimension as an integer; None for a value that is no integer."""
    try:
        return None if isinstance(axis, bool) else index(axis)
    except TypeError:
        return None


def _spelled(inputs: Sequence[str], axes: Mapping[Any, object]) -> dict[str, object]:
    """Axes by names of inputs: a name that is misspelt counts as the nearest input, unless that has
    an axis of its own."""
    known = {name: axis for name, axis in axes.items() if name in inputs}
    for name, axis in axes.items():
        near = name if name in inputs else nearest(str(name), inputs)
        if near is not None:
            known.setdefault(near, axis)
    return known


def _repair(program: p.Program, axes: Mapping[str, object]) -> str | None:
    """A repair of `in_axes`: each axis is replaced by the nearest that its input has, and the first
    input has a batch where no input has one."""
    found = {name: _nearest_axis(axis, program.tensors[name].rank) for name, axis in axes.items()}
    if all(axis is None for axis in found.values()):
        found = dict.fromkeys(program.inputs[:1], 0)
    return f"in_axes={found}" if found else None


def _nearest_axis(axis: object, rank: int) -> int | None:
    if axis is None:
        return None
    return max(-rank - 1, min(rank, _number(axis) or 0))


def _wrong(program: p.Program, cause: str, repair: str | None) -> GradError:
    return GradError(cause, rule="D18", span=program.span, repair=repair)
