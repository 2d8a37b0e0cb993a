"""Statements of several targets (V1) for derivations (D22).

Targets that are combined each by itself are statements of their own. Where one term gives the
values of all targets, what a target holds is the value of that term, which the statement notes: of
`m(n), at(n) max=! x(n,k), k` the first target is `x(n, at(n))`, and its gradient is a scatter at
that place. A statement that does not tell the place of its term gets one more target, which does.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import replace

from tc.dtypes import INT32, INT64, DType
from tc.gradient import terms as e
from tc.gradient.call_free_def import CallFreeDef, PairedRanges
from tc.gradient.def_text import (
    Comprehension,
    FreshNames,
    SizeOf,
    TextStep,
    element_names,
    reads_of,
)
from tc.gradient.domains import by_data
from tc.gradient.inversion import as_condition
from tc.semantics import program as p

OLD = e.number(-1)
"""Stands for the value before the statement in the place of a term."""


def with_places(program: CallFreeDef, apart: Container[str] = ("=", "+", "*")) -> CallFreeDef:
    """The def in which targets that are combined each by itself are written by statements of their
    own, where they are combined by an operator in `apart`; and where one term gives several values,
    targets tell its place."""
    names = program.fresh_names()
    steps: list[TextStep] = []
    begun = {*program.callers}
    for step in program.steps:
        before = frozenset(begun)
        begun |= {*step.targets}
        if not isinstance(step, Comprehension) or not step.others:
            steps.append(step)
        elif step.operator in apart:
            program = _apart(program, step, steps, names, before)
        elif step.operator in ("min", "max") and any(
            program.dtypes[target].is_float for target in step.targets
        ):
            old = next((target for target in step.targets if target in before), None)
            if old is None and not step.starts:
                step = replace(step, op=f"{step.op}!")
            program = _with_place(program, step, steps, names, old or step.target)
        else:
            steps.append(step)
    return replace(program, steps=tuple(steps))


def _apart(
    program: CallFreeDef,
    step: Comprehension,
    steps: list[TextStep],
    names: FreshNames,
    begun: Container[str],
) -> CallFreeDef:
    """Adds a statement for each target; all right sides are those of the values before. `begun` are
    the tensors that have values before."""
    copies: dict[str, str] = {}
    for position, target in enumerate(step.targets):
        later = (*(step.places or ()), *step.values[position + 1 :])
        if any(read.tensor == target for expr in later for read in reads_of(expr)):
            copy = copies[target] = names.fresh(f"o_{target}")
            program = _with_tensor(program, copy, target, program.dtypes[target])
            steps.append(_like(program, names, target, copy, e.read(target, ())))
    read = step.changed(lambda expr: e.with_tensors(expr, copies))
    for target, value in zip(read.targets, read.values, strict=True):
        sizes = tuple(s for s in read.sizes if s.target == target)
        own = replace(read, target=target, rhs=value, others=(), sizes=sizes)
        if target not in begun and not own.starts:
            own = replace(own, op=f"{own.op}!" if own.combines else "=")
        if program.found is None or by_data(read, program.static_scalars):
            # the reads of all values say the ranges of all
            own = PairedRanges(program, {}, frozenset()).ranged(read, own)
        steps.append(own)
    return program


def _with_place(
    program: CallFreeDef,
    step: Comprehension,
    steps: list[TextStep],
    names: FreshNames,
    shaped: str,
) -> CallFreeDef:
    """Adds the statement, with targets for the variables of the term that it chooses. `shaped` is
    one of its targets, whose shape is known before it, if there is one."""
    goes_on = not step.starts
    told = {} if goes_on else _told(step, program.dtypes)
    wanted = [v for v in step.meeting if v not in told]
    values: list[p.Expr] = [e.index(v) for v in wanted]
    if goes_on and not values:
        values = [e.ZERO]
    others = list(step.others)
    sizes = list(step.sizes)
    for value in values:
        name = names.fresh(f"p_{step.target}")
        program = _with_tensor(program, name, step.target, INT32)
        others.append((name, value))
        sizes += _sizes_of(program, step, name)
        if goes_on:
            steps.append(_like(program, names, shaped, name, OLD))
    steps.append(replace(step, others=tuple(others), sizes=tuple(sizes)))
    return program


def _sizes_of(program: CallFreeDef, step: Comprehension, name: str) -> Iterator[SizeOf]:
    """The clauses by which another target has the shape of the first."""
    told = {size.axis: size.value for size in step.sizes if size.target == step.target}
    declared = program.shapes.get(step.target)
    for axis, variable in enumerate(step.bare):
        if axis in told:
            yield SizeOf(name, axis, told[axis])
        elif declared is not None and (variable is None or variable in step.within):
            yield SizeOf(name, axis, declared[axis])


def _with_tensor(program: CallFreeDef, name: str, like: str, dtype: DType) -> CallFreeDef:
    shapes = {name: program.inferred[like]} if program.found is not None else {}
    return program.with_tensors({name: dtype}, shapes, {name: program.ranks[like]})


def _like(
    program: CallFreeDef, names: FreshNames, tensor: str, name: str, value: p.Expr
) -> Comprehension:
    """A statement that writes a value, or the elements of the tensor that it reads, to a tensor of
    the shape of another."""
    indices = names.indices(program.ranks[tensor])
    own = p.Read(tensor, tuple(map(e.index, indices)), program.dtypes[tensor], -1, span=e.NO_SPAN)
    if isinstance(value, p.Read):
        value = own
    if program.found is None:
        exists = (own,) if indices and value is not own else ()
        return Comprehension(name, indices, "=", value, exists=exists)
    shape = program.inferred[tensor]
    where = {v: (e.ZERO, size) for v, size in zip(indices, shape, strict=True)}
    return Comprehension(name, indices, "=", value, where)


def _told(line: Comprehension, dtypes: Mapping[str, DType]) -> dict[str, str]:
    """The targets that tell the variables of the chosen term, by variable; the last of several."""
    found: dict[str, str] = {}
    for target, value in zip(line.targets, line.values, strict=True):
        while isinstance(value, p.Convert) and value.operand.dtype.is_integer:
            value = value.operand
        if isinstance(value, p.Index) and dtypes[target] in (INT32, INT64):
            found[value.name] = target
    return found


def chosen_terms(
    line: Comprehension,
    type_of: Callable[[str], DType],
    names: FreshNames,
    end_of: Callable[[str], p.Expr | None],
    old: Mapping[str, str | None],
) -> Iterator[Comprehension]:
    """For each floating target of a statement that chooses one term for all of them, a statement
    that gives the target its value by the place of the term. `end_of` is where the range of a
    variable ends, and `old` the tensors that hold what targets held before.

    >>> from tc.dtypes import FLOAT32
    >>> x = p.Read("x", (e.index("k"),), FLOAT32, -1, span=e.NO_SPAN)
    >>> line = Comprehension("m", (), "max=!", x, others=(("at", e.index("k")),))
    >>> types = {"m": FLOAT32, "at": INT32}
    >>> fresh = FreshNames(["m", "x", "at"], ["k"])
    >>> [found] = chosen_terms(line, types.get, fresh, lambda _: p.Size("K", span=e.NO_SPAN), {})
    >>> found.text
    'm = at < K ? x(at) : 0'
    """
    dtypes = {target: type_of(target) for target in line.targets}
    if not any(dtype.is_float for dtype in dtypes.values()):
        return
    told = _told(line, dtypes)
    element = element_names(line, names)
    left = tuple(map(e.index, element))

    def read(target: str) -> p.Expr:
        own = p.Read(target, left, dtypes[target], -1, span=e.NO_SPAN)
        return p.Convert(own, INT64, span=e.NO_SPAN) if dtypes[target].is_integer else own

    values = {v: read(told[v]) for v in line.meeting}
    conditions: list[p.Expr] = []
    for variable in line.meeting[:1]:
        end = end_of(variable)
        place = values[variable]
        if end is None:
            largest = e.number(2 ** (63 if dtypes[told[variable]] == INT64 else 31) - 1)
            conditions.append(as_condition(e.compare("!=", place, largest)))
        else:
            conditions.append(as_condition(e.compare("<", place, end)))
    last = line.targets[-1]  # which tells whether the value before is that of the chosen term
    is_old = as_condition(e.compare("==", read(last), OLD))
    for target, value in zip(line.targets, line.values, strict=True):
        if dtypes[target].is_float:
            rhs = e.substituted(value, values)
            if conditions:
                rhs = e.select(e.conjunction(conditions), rhs)
            if not line.starts:
                before = old.get(target)
                own = e.ZERO if before is None else e.with_tensors(read(target), {target: before})
                rhs = p.Select(is_old, own, rhs, dtypes[target], span=e.NO_SPAN)
            yield Comprehension(target, element, "=", rhs)
