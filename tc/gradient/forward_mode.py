"""Forward mode: the text of a program's values and their tangents (D18)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tc.dtypes import INT32, DType
from tc.errors import ends_at_caller
from tc.gradient import terms as e
from tc.gradient.adjoints import Weight, contributions, tangent
from tc.gradient.call_free_def import (
    CallFreeDef,
    PairedRanges,
    call_free,
    with_given_outputs,
)
from tc.gradient.def_text import (
    Comprehension,
    FreshNames,
    Joined,
    TextStep,
    checked_def,
    reads_of,
)
from tc.gradient.generic_texts import derived
from tc.gradient.nested import in_parts
from tc.gradient.reductions import is_exact, other_terms, stored_terms
from tc.gradient.request import (
    InputNames,
    TextOrFunction,
    constant_tensors,
    program_of,
    repaired,
    wanted_inputs,
)
from tc.semantics import program as p
from tc.source import ShownText


@ends_at_caller
def jvp(
    src: TextOrFunction,
    wrt: InputNames | None = None,
    *,
    entry: str | None = None,
    constant: Iterable[str] | str = (),
) -> str:
    """The text of a def that computes a def and its directional derivative (D18).

    The new def takes the inputs of the def and a tangent `t_A` for each input `A` named by `wrt`,
    in this order, or in that of the def for a set; by default for each floating input. The new def
    returns the outputs of the def, and then a tangent `t_O` for each floating output `O`. No
    tangent flows through the tensors in `constant`. `src` is as for `tc.grad`.

    Raises GradError, with the rule and the statement, for programs that are not derived.

    >>> import tc
    >>> mv = "def mv(float(M,K) A, float(K) x) -> (C) { C(i) +=! A(i,k) * x(k) }"
    >>> print(tc.jvp(mv), end="")
    def mv_jvp(float(M, K) A, float(K) x, float(M, K) t_A, float(K) t_x) -> (C, t_C) {
      C(i) +=! A(i, k) * x(k)
      t_C(i) +=! t_A(i, k) * x(k) + t_x(k) * A(i, k)
    }
    """

    def derive(of: Any, own: str | None) -> tuple[str, ...]:
        return (_forward(of, wrt, own, constant),)

    return ShownText(*derived(src, entry, derive))


def tangents_alone(
    src: TextOrFunction,
    wrt: InputNames | None = None,
    *,
    entry: str | None = None,
    constant: Iterable[str] | str = (),
) -> str:
    """The text of a def that computes the tangents of `jvp` alone. Outputs of the def are returned
    only where tangents are computed of them and their types stand in the text; statements that no
    tangent needs are left out.

    >>> mv = "def mv(float(M,K) A, float(K) x) -> (C) { C(i) +=! A(i,k) * x(k) }"
    >>> print(tangents_alone(mv, "x"), end="")
    def mv_tangents(float(M, K) A, float(K) x, float(K) t_x) -> (t_C) {
      t_C(i) +=! t_x(k) * A(i, k)
    }
    """
    return _forward(src, wrt, entry, constant, alone=True)


def _forward(
    src: TextOrFunction,
    wrt: InputNames | None,
    entry: str | None,
    constant: Iterable[str] | str,
    *,
    alone: bool = False,
) -> str:
    checked = program_of(src, entry)
    program = in_parts(with_given_outputs(call_free(checked)))
    floating = [name for name in program.inputs if program.dtypes[name].is_float]
    fixed = constant_tensors(checked, constant)
    asked = wanted_inputs(checked, program.inputs, floating, wrt, fixed)
    with repaired(checked, wrt, fixed):
        words = {program.words[name] for name in fixed}
        return _Forward.of(program, asked, words).text(alone=alone)


@dataclass
class _Forward:
    """The state of one derivation: what is known of the def, and the statements made so far."""

    program: CallFreeDef
    wrt: tuple[str, ...]
    fresh: FreshNames
    names: dict[str, str]
    """The tangents of `wrt`, of outputs, and of tensors whose tangent is not 0."""
    active: set[str]
    paired: PairedRanges
    dtypes: dict[str, DType]
    steps: list[TextStep] = field(default_factory=list)
    started: set[str] = field(default_factory=set)
    """Tensors whose tangents have been written."""
    postponed: set[str] = field(default_factory=set)
    """Tensors whose tangent starts with the next statement that adds to the tangent."""
    skipping: set[str] = field(default_factory=set)
    """Tensors to whose tangents some statements add nothing."""
    zeros: dict[str, str] = field(default_factory=dict)
    """Tangents, which are 0, of parts of concat."""

    @classmethod
    def of(
        cls,
        program: CallFreeDef,
        wrt: tuple[str, ...],
        constant: set[str],
    ) -> _Forward:
        active = _active(program, set(wrt), constant)
        fresh = program.fresh_names()
        outputs = [o for o in program.outputs if program.dtypes[o].is_float]
        order = dict.fromkeys([*wrt, *outputs, *(n for n in program.dtypes if n in active)])
        names = {name: fresh.fresh(f"t_{name}") for name in order}
        dtypes = dict(program.dtypes) | {t: program.dtypes[n] for n, t in names.items()}
        written = Counter(step.target for step in program.steps)
        several = frozenset(name for name, count in written.items() if count > 1)
        paired = PairedRanges(program, names, several)
        new = cls(program, wrt, fresh, names, active, paired, dtypes)
        new.skipping = {
            step.target
            for step in program.steps
            if isinstance(step, Comprehension) and step.op == "+=" and step.target in active
            if new._tangent(step) == e.ZERO
        }
        return new

    # --- the whole text ---------------------------------------------------------------------

    def text(self, *, alone: bool = False) -> str:
        for position, step in enumerate(self.program.steps):
            if isinstance(step, Joined):
                self._join(step)
            elif step.target in self.active:
                self._derive(step, self.program.steps[position + 1 :])
            else:
                self.steps.append(step)
        outputs = [o for o in self.program.outputs if o in self.names]
        for output in outputs:
            if output not in self.active:
                self.steps.append(self._zero(output, self.names[output]))
        params = [self.program.declared(name) for name in self.program.inputs]
        params += [self.program.named_like(name, self.names[name]) for name in self.wrt]
        values, steps = list(self.program.outputs), self.steps
        if alone:
            steps = _needed(steps, [self.names[name] for name in outputs])
            left = {step.target for step in steps}
            declared = (v for v in values if self.program.declared(v) != v)
            values = [value for value in declared if value in left]
        returns = [self.program.declared(name) for name in values]
        returns += [self.program.named_like(name, self.names[name]) for name in outputs]
        name = self.fresh.fresh(f"{self.program.name}_{'tangents' if alone else 'jvp'}")
        return checked_def(name, params, returns, steps, self.dtypes).layout

    def _zero(self, tensor: str, name: str) -> Comprehension:
        """A statement that writes 0 to `name`, in the shape of a tensor."""
        lines = (
            s for s in self.program.steps if isinstance(s, Comprehension) and s.target == tensor
        )
        first = next(lines, None)
        if first is None:
            axes = range(self.program.ranks[tensor])
            indices = tuple(self.fresh.fresh(f"i{axis}") for axis in axes)
        else:
            indices = first.indices
        left = tuple(map(e.index, indices))
        whole = p.Read(tensor, left, self.program.dtypes[tensor], -1, span=e.NO_SPAN)
        return Comprehension(name, indices, "=", e.ZERO, exists=(whole,) if indices else ())

    def _join(self, step: Joined) -> None:
        self.steps.append(step)
        if step.target not in self.active:
            return
        self.started.add(step.target)
        for source in step.sources:
            if source not in self.active and source not in self.zeros:
                self.zeros[source] = self.fresh.fresh(f"t_{source}")
                self.dtypes[self.zeros[source]] = self.program.dtypes[step.target]
                self.steps.append(self._zero(source, self.zeros[source]))
        sources = (self.names[s] if s in self.active else self.zeros[s] for s in step.sources)
        self.steps.append(Joined(self.names[step.target], tuple(sources)))

    # --- one statement ----------------------------------------------------------------------

    def _derive(self, line: Comprehension, later: Sequence[TextStep]) -> None:
        """Adds a statement and the statements of its target's tangent. The latter stand after the
        statement, or before the statement where it changes elements that both read."""
        target, op = line.target, line.operator
        reads_itself = target in line.sources
        if op in ("*", "min", "max"):
            is_stored = op != "*" and self._is_rounded(line)
            if (line.reduction or is_stored) and reads_itself:
                line = self._of_copy(line)
            derive = self._product if op == "*" else self._extreme
            derive(line, later)
            return
        rhs = self._tangent(line)
        if rhs != e.ZERO and reads_itself:
            self._write(line, line.op, rhs)
            self.steps.append(line)
            return
        self.steps.append(line)
        if rhs != e.ZERO:
            self._begin(line)
            held = self._held(line)
            is_held = line.op == "=" and line.rhs.dtype == held.dtype
            rhs = self._tangent(line, value=held if is_held else None)
            self._write(line, self._first_op(line), rhs)
        elif line.starts:
            self._clear(line, later)

    def _product(self, line: Comprehension, later: Sequence[TextStep]) -> None:
        """Adds a product and its tangent: each term's tangent times the other terms (D12)."""
        held = self._held(line)
        if not line.reduction:
            self._written_out(line)
        elif self._tangent(line) == e.ZERO and line.starts:
            self.steps.append(line)
            self._clear(line, later)
        elif line.starts:
            self.steps.append(line)
            self._begin(line)
            others = self._others(line)
            self._write(line, "+=!", self._tangent(line, lambda t: e.product(t, others)))
        else:
            others = self._others(line)
            self._write(line, "*=", line.rhs)
            rhs = self._tangent(line, lambda t: e.product(e.product(t, others), held))
            if rhs != e.ZERO:
                self._write(line, "+=", rhs)
            self.steps.append(line)

    def _extreme(self, line: Comprehension, later: Sequence[TextStep]) -> None:
        """Adds an extreme and its tangent: the terms that equal the extreme share its tangent
        (D11). Rounded terms are stored, and the extreme is taken of the stored terms."""
        is_stored = self._is_rounded(line)
        rhs = self._tangent(line)
        # an old value shares with a term that has no tangent (D11); `max(a, b)` does not (D10)
        shares_with_none = rhs == e.ZERO and not line.starts
        if not line.reduction and not is_stored and not shares_with_none:
            self._written_out(line)
            return
        held, left = self._held(line), line.left
        if rhs == e.ZERO and line.starts:
            self.steps.append(line)
            self._clear(line, later)
            return
        own = line
        if is_stored:
            own = replace(line, rhs=self._stored(line, later))
        is_extreme = e.compare("==", own.rhs, held)
        one = e.select(is_extreme, e.number(1))
        count = self._made(f"n_{line.target}", INT32)
        counted = e.read(count, left)
        if line.starts:
            self.steps.append(own)
            self._begin(line)
            self.steps.append(self._beside(own, Comprehension(count, line.indices, "+=!", one)))
        else:
            before = self._made(f"o_{line.target}", held.dtype)
            was = e.compare("==", e.read(before, left), held)
            name = self.names[line.target]
            share = e.select(was, e.binary("/", e.read(name, left), counted))
            self.steps += [
                Comprehension(before, line.indices, "=", held),
                own,
                Comprehension(count, line.indices, "=", e.select(was, e.number(1))),
                self._beside(own, Comprehension(count, line.indices, "+=", one)),
                Comprehension(name, line.indices, "=", share),
            ]
        if rhs != e.ZERO:
            weighted = self._tangent(line, lambda t: e.binary("/", t, counted))
            op = "+=!" if line.starts else "+="
            self._write(own, op, e.select(is_extreme, weighted))

    def _is_rounded(self, line: Comprehension) -> bool:
        return not is_exact(line.rhs, self.program.dtypes[line.target])

    def _stored(self, line: Comprehension, later: Sequence[TextStep]) -> p.Expr:
        """A read of a statement's terms, which a statement before it stores in the type of its
        target, with the same ranges."""
        terms = stored_terms(self.program, line, self.program.steps[: -1 - len(later)])
        if terms.waits:
            self.steps.append(line)
        name = self._made(f"e_{line.target}", self.program.dtypes[line.target])
        self.steps.append(replace(terms.line, target=name))
        return replace(self._held(line), tensor=name, subscripts=terms.places)

    def _written_out(self, line: Comprehension) -> None:
        """Adds a product or extreme of its old value and one term, `T(i) = T(i) * ...`, behind its
        tangent, which reads the old value."""
        held = self._held(line)
        rhs = p.Binary(line.operator, held, line.rhs, held.dtype, span=e.NO_SPAN)
        self._write(line, "=", self._tangent(replace(line, rhs=rhs)))
        self.steps.append(line)

    def _others(self, line: Comprehension) -> p.Expr:
        """A read of the product of the other terms of an instance (D12)."""
        name = self._made(f"x_{line.target}", line.rhs.dtype)
        made, read = other_terms(line, name, self.fresh.fresh)
        if line.target in self.paired.several and line.indices:
            made = replace(made, exists=(self._held(line),))
        self.steps.append(self._beside(replace(line, where=made.where), made))
        return read

    # --- what has no tangent ----------------------------------------------------------------

    def _begin(self, line: Comprehension) -> None:
        """Begins a tangent with 0 in the shape of its tensor, where the tangent's first statement
        may not give the tangent that shape."""
        target = line.target
        if target in self.started:
            return
        self.started.add(target)
        is_whole = all(
            v in line.where or self.program.only_extent(line, v) is not None for v in line.indices
        )
        if target in self.skipping and not is_whole and target not in self.postponed:
            self.steps.append(self._zero(target, self.names[target]))

    def _clear(self, line: Comprehension, later: Sequence[TextStep]) -> None:
        """Sets the tangent of a target to 0, where the statement depends on no input that has a
        tangent."""
        if line.target in self.started:
            self._write(line, "+=!" if line.reduction else "=", e.ZERO)
        elif self._is_added_to(line, later):
            self.postponed.add(line.target)
        else:
            self.steps.append(self._zero(line.target, self.names[line.target]))
            self.started.add(line.target)

    def _is_added_to(self, line: Comprehension, later: Sequence[TextStep]) -> bool:
        """Whether the next statement that concerns the target adds to all of it, and so can start
        the tangent."""
        if [*reads_of(line.rhs), *line.where, *line.exists]:
            return False
        about = [step for step in later if _touches(step, line.target)]
        following = about[0] if about else None
        if not isinstance(following, Comprehension) or following.target != line.target:
            return False
        rest = [s for s in about[1:] if isinstance(s, Comprehension) and s.target == line.target]
        return (
            following.op == "+="
            and line.target not in following.sources
            and self._tangent(following) != e.ZERO
            and all(line.target in s.sources for s in rest)
        )

    def _first_op(self, line: Comprehension) -> str:
        if line.target not in self.postponed:
            return line.op
        self.postponed.discard(line.target)
        return "+=!" if line.reduction else "="

    # --- parts --------------------------------------------------------------------------------

    def _tangent(
        self, line: Comprehension, weight: Weight = lambda each: each, value: p.Expr | None = None
    ) -> p.Expr:
        names = {name: self.names[name] for name in self.active}
        return tangent(line.rhs, names, self.program.dtypes[line.target], weight, value)

    def _held(self, line: Comprehension) -> p.Read:
        """A read of the element of the target that a statement writes."""
        dtype = self.program.dtypes[line.target]
        return p.Read(line.target, line.left, dtype, -1, span=e.NO_SPAN)

    def _made(self, name: str, dtype: DType) -> str:
        found = self.fresh.fresh(name)
        self.dtypes[found] = dtype
        return found

    def _write(self, line: Comprehension, op: str, rhs: p.Expr) -> None:
        """Adds a statement of the target's tangent, with the ranges of the statement."""
        self.started.add(line.target)
        dtype = self.dtypes[self.names[line.target]]
        if any(r.dtype.is_float and not dtype.holds(r.dtype) for r in reads_of(rhs)):
            rhs = p.Convert(rhs, dtype, True, span=e.NO_SPAN)
        made = Comprehension(self.names[line.target], line.indices, op, rhs)
        self.steps.append(self._beside(line, made))

    def _beside(self, line: Comprehension, made: Comprehension) -> Comprehension:
        return self.paired.ranged(line, made)

    def _of_copy(self, line: Comprehension) -> Comprehension:
        """The statement with reads of a copy of its target. A statement before makes the copy."""
        held, target = self._held(line), line.target
        copy = self._made(f"o_{target}", held.dtype)
        self.names[copy] = self._made(f"t_{copy}", held.dtype)
        self.active.add(copy)
        own = replace(held, tensor=self.names[target])
        self.steps.append(Comprehension(copy, line.indices, "=", held))
        self.steps.append(Comprehension(self.names[copy], line.indices, "=", own))
        return replace(line, rhs=e.with_tensors(line.rhs, {target: copy}))


def _needed(steps: Sequence[TextStep], wanted: Iterable[str]) -> list[TextStep]:
    """The steps on which some tensors depend. All statements of a tensor count, as its shape may
    follow from any."""
    needed = set(wanted)
    while True:
        kept = [step for step in steps if step.target in needed]
        more = {name for step in kept for name in _used(step)} - needed
        if not more:
            return kept
        needed |= more


def _used(step: TextStep) -> set[str]:
    """The tensors that a step reads, or whose sizes it uses."""
    if isinstance(step, Joined):
        return {*step.sources}
    bounds = (bound for bounds in step.where.values() for bound in bounds)
    nodes = (n for expr in (step.rhs, *step.exists, *bounds) for n in p.walk(expr))
    return {node.tensor for node in nodes if isinstance(node, p.Read | p.Extent)}


def _touches(step: TextStep, tensor: str) -> bool:
    exists = step.exists if isinstance(step, Comprehension) else ()
    return tensor in (step.target, *step.sources, *(r.tensor for x in exists for r in reads_of(x)))


def _active(program: CallFreeDef, wrt: set[str], constant: set[str]) -> set[str]:
    """The tensors that depend, with a derivative, on what has a tangent."""
    active = set(wrt)
    while True:
        before = len(active)
        names = {name: name for name in active}
        for step in program.steps:
            dtype = program.dtypes[step.target]
            if step.target in active or step.target in constant or not dtype.is_float:
                continue
            if isinstance(step, Joined):
                depends = any(source in active for source in step.sources)
            else:
                depends = tangent(step.rhs, names, dtype) != e.ZERO
            if depends:
                active.add(step.target)
        if len(active) == before:
            break
    return active & _useful(program, active)


def _useful(program: CallFreeDef, active: Container[str]) -> set[str]:
    """The tensors on which outputs depend with a derivative, and not through comparisons alone."""
    useful = {name for name in program.outputs if name in active}
    while True:
        before = len(useful)
        for step in program.steps:
            if step.target not in useful:
                continue
            if isinstance(step, Joined):
                useful.update(step.sources)
            else:
                found = contributions(step.rhs, e.number(1))
                useful.update(each.read.tensor for each in found if each.adjoint != e.ZERO)
        if len(useful) == before:
            return useful
