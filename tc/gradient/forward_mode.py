"""Forward mode: the text of a program's values and their tangents (D18)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tc.dtypes import INT32, DType
from tc.errors import GradError, ends_at_caller
from tc.gradient import terms as e
from tc.gradient.adjoints import Weight, contributions, tangent
from tc.gradient.call_free_def import (
    CallFreeDef,
    PairedRanges,
    call_free,
    is_spelled,
    with_given_outputs,
)
from tc.gradient.def_text import (
    Comprehension,
    FreshNames,
    Joined,
    SizeOf,
    TextStep,
    checked_def,
    element_names,
    index_names_of,
    part_of,
    reads_of,
)
from tc.gradient.domains import by_data
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
from tc.gradient.several_targets import chosen_terms, with_places
from tc.gradient.symbolic_ranges import SymbolicRanges, symbolic_ranges
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
    program = with_given_outputs(call_free(checked, _ranges_for(checked)))
    program = in_parts(with_places(program, apart="*"))
    floating = [name for name in program.inputs if program.dtypes[name].is_float]
    fixed = constant_tensors(checked, constant)
    asked = wanted_inputs(checked, program.inputs, floating, wrt, fixed)
    with repaired(checked, wrt, fixed):
        words = {program.words[name] for name in fixed}
        return _Forward.of(program, asked, words).text(alone=alone)


def _ranges_for(program: p.Program) -> SymbolicRanges | None:
    """The ranges of a program in which terms of a product or of an extreme that is no box are
    stored for its tangents: of stored terms, other statements do not say the ranges."""
    stored = [s for s in program.statements if not s.is_plain and _stores_terms(s, program)]
    stored += [s for s in program.statements if s.chooses and not _covers_targets(s, program)]
    if not stored:
        return None
    try:
        return symbolic_ranges(program)
    except GradError as error:
        raise GradError(
            "the terms of this statement are stored for its tangents, which takes the ranges of "
            f"'{program.name}' for all sizes: {error.cause}",
            rule="D18",
            span=stored[0].span,
            idiom="where i in 0:N, for variables whose ranges follow from others",
        ) from None


def _covers_targets(statement: p.Statement, program: p.Program) -> bool:
    """Whether a statement that chooses one term for several targets is seen to write all elements
    of these: it alone gives them their shapes."""
    others = {t for s in program.statements if s is not statement for t in s.targets}
    declared = {t for t in statement.targets if program.tensors[t].shape is not None}
    clauses = [statement.clause_of(v) for v in statement.outer]
    is_box = all(clause is None or clause.kind == p.SIZES for clause in clauses)
    alone = declared.union(others).isdisjoint(statement.targets)
    is_scalar = not statement.subscripts
    return is_scalar or (statement.has_plain_places and is_box and alone)


def _stores_terms(statement: p.Statement, program: p.Program) -> bool:
    """Whether terms of a statement are stored for its tangent, or products of them (D11, D12)."""
    dtype = program.tensors[statement.target].dtype
    if statement.op == "*":
        return dtype.is_float and len(statement.variables) > sum(
            isinstance(subscript, p.Index) for subscript in statement.subscripts
        )
    is_extreme = statement.op in ("min", "max") and not statement.chooses
    return is_extreme and dtype.is_float and not is_exact(statement.rhs, dtype)


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
        written = Counter(target for step in program.steps for target in step.targets)
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
            elif step.others:
                derive = self._choose if step.operator in ("min", "max") else self._derive_each
                derive(step)
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
        if alone and not outputs:
            raise GradError(
                f"'{self.program.name}' has no floating output, and so no tangents", rule="D18"
            )
        if alone:
            steps = _needed(steps, [self.names[name] for name in outputs])
            left = {target for step in steps for target in step.targets}
            declared = (v for v in values if self.program.declared(v) != v)
            values = [value for value in declared if value in left]
        returns = [self.program.declared(name) for name in values]
        returns += [self.program.named_like(name, self.names[name]) for name in outputs]
        name = self.fresh.fresh(f"{self.program.name}_{'tangents' if alone else 'jvp'}")
        return checked_def(name, params, returns, steps, self.dtypes).layout

    def _zero(self, tensor: str, name: str) -> Comprehension:
        """A statement that writes 0 to `name`, in the shape of a tensor."""
        lines = (
            s for s in self.program.steps if isinstance(s, Comprehension) and tensor in s.targets
        )
        first = next(lines, None)
        if first is None:
            axes = range(self.program.ranks[tensor])
            indices = tuple(self.fresh.fresh(f"i{axis}") for axis in axes)
        else:
            indices = element_names(first, self.fresh)
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

    def _choose(self, line: Comprehension) -> None:
        """Adds a statement that chooses one term for several targets, and tangents of these, which
        are those of the term (D22)."""
        read = {*line.targets}.intersection(line.sources) & self.active
        copies = {target: self._copied(line, target) for target in line.targets if target in read}
        self.steps.append(line)
        old = self.started.intersection(line.targets)
        for term in _terms_of(line, self.program, self.fresh, old):
            if term.target in self.active:
                rhs = self._tangent(replace(term, rhs=e.with_tensors(term.rhs, copies)))
                if not line.starts or rhs != e.ZERO:
                    self._write(term, "=", rhs)
                else:
                    self.steps.append(self._zero(term.target, self.names[term.target]))
                    self.started.add(term.target)

    def _derive_each(self, line: Comprehension) -> None:
        """Adds a statement that assigns to several targets, or adds to each, and one of their
        tangents, before it where it changes elements that both read."""
        pairs = [
            (target, self._tangent(replace(line, target=target, rhs=value, others=())))
            for target, value in zip(line.targets, line.values, strict=True)
            if target in self.active
        ]
        if line.operator == "+" and not line.starts:
            pairs = [(target, rhs) for target, rhs in pairs if rhs != e.ZERO]
        if not pairs:
            self.steps.append(line)
            return
        made = [self._like(replace(line, target=t), self.names[t], line.op, x) for t, x in pairs]
        others = tuple((each.target, each.rhs) for each in made[1:])
        sizes = tuple(dict.fromkeys(size for each in made for size in each.sizes))
        whole = self._beside(line, replace(made[0], others=others, sizes=sizes))
        self.started |= {target for target, _ in pairs}
        reads_itself = not {*line.targets}.isdisjoint(line.sources)
        self.steps += [whole, line] if reads_itself else [line, whole]

    # --- one statement ----------------------------------------------------------------------

    def _derive(self, line: Comprehension, later: Sequence[TextStep]) -> None:
        """Adds a statement and the statements of its target's tangent. The latter stand after the
        statement, or before the statement where it changes elements that both read."""
        target, op = line.target, line.operator
        reads_itself = target in line.sources
        if op in ("*", "min", "max"):
            is_stored = op != "*" and self._is_rounded(line)
            if (line.combines or is_stored) and reads_itself:
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
        if not line.combines:
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
        if not line.combines and not is_stored and not shares_with_none:
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
            self.steps.append(self._beside(own, self._like(own, count, "+=!", one)))
        else:
            before = self._made(f"o_{line.target}", held.dtype)
            indices = element_names(line, self.fresh)
            element = tuple(map(e.index, indices))
            now = replace(held, subscripts=element)
            was = e.compare("==", e.read(before, element), now)
            name = self.names[line.target]
            of_one = e.read(count, element)
            share = e.select(was, e.binary("/", e.read(name, element), of_one))
            self.steps += [
                Comprehension(before, indices, "=", now),
                own,
                Comprehension(count, indices, "=", e.select(was, e.number(1))),
                self._beside(own, self._like(own, count, "+=", one)),
                Comprehension(name, indices, "=", share),
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
        """The product of the other terms of an instance (D12), as a read of a temporary."""
        if not line.meeting:
            return e.number(1)
        name = self._made(f"x_{line.target}", line.rhs.dtype)
        made, read = other_terms(line, name, self.fresh.fresh)
        named = {v for access in line.all_reads for v in index_names_of(access)}
        is_open = not named.union(line.where).issuperset(line.indices)
        is_open |= line.target in self.paired.several
        if is_open and line.indices and self.program.found is None:
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
            v is not None and (v in line.where or self.program.only_extent(line, v) is not None)
            for v in line.bare
        )
        if target in self.skipping and not is_whole and target not in self.postponed:
            self.steps.append(self._zero(target, self.names[target]))

    def _clear(self, line: Comprehension, later: Sequence[TextStep]) -> None:
        """Sets the tangent of a target to 0, where the statement depends on no input that has a
        tangent."""
        if line.target in self.started:
            self._write(line, "=" if line.op == "=" else "+=!", e.ZERO)
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
        return "+=!" if line.combines else "="

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
        name = self.names[line.target]
        self.steps.append(self._beside(line, self._like(line, name, op, rhs)))

    def _like(self, line: Comprehension, target: str, op: str, rhs: p.Expr) -> Comprehension:
        """A statement of the same instances as another, without clauses that bound their ranges,
        and of the same places. The target has the shape of the other's target."""
        made = replace(line.beside(target, op, rhs), where={}, exists=())
        is_known = any(step.target == target for step in self.steps)
        if is_known or (target in self.names.values() and self._is_declared(line.target)):
            return made
        if not any(line.target in step.targets for step in self.steps):
            return made
        told = {size.axis for size in made.sizes}
        rows = by_data(line, self.program.static_scalars)
        is_shared = line.target in self.paired.several

        def is_open(subscript: p.Expr) -> bool:
            """Whether the statement may not tell how large a dimension of its target is."""
            if any(v in rows for v in p.index_names(subscript)) or any(reads_of(subscript)):
                return True
            return is_shared and not isinstance(subscript, p.Index)

        open_ = (axis for axis, subscript in enumerate(line.left) if is_open(subscript))
        sizes = (
            SizeOf(target, axis, p.Extent(line.target, axis, span=e.NO_SPAN))
            for axis in open_
            if axis not in told
        )
        return replace(made, sizes=(*made.sizes, *sizes))

    def _is_declared(self, tensor: str) -> bool:
        return tensor in self.program.outputs and is_spelled(self.program.shapes.get(tensor))

    def _beside(self, line: Comprehension, made: Comprehension) -> Comprehension:
        return self.paired.ranged(line, made)

    def _of_copy(self, line: Comprehension) -> Comprehension:
        """The statement with reads of a copy of its target. A statement before makes the copy."""
        copy = self._copied(line, line.target)
        return replace(line, rhs=e.with_tensors(line.rhs, {line.target: copy}))

    def _copied(self, line: Comprehension, target: str) -> str:
        """The name of a copy of a target, and of its tangent, which statements make."""
        dtype = self.program.dtypes[target]
        copy = self._made(f"o_{target}", dtype)
        self.names[copy] = self._made(f"t_{copy}", dtype)
        self.active.add(copy)
        indices = element_names(line, self.fresh)
        element = tuple(map(e.index, indices))
        for name, source in ((copy, target), (self.names[copy], self.names[target])):
            value = p.Read(source, element, dtype, -1, span=e.NO_SPAN)
            self.steps.append(Comprehension(name, indices, "=", value))
        return copy


def _terms_of(
    line: Comprehension, program: CallFreeDef, names: FreshNames, begun: Container[str]
) -> list[Comprehension]:
    """For each floating target of a statement that chooses one term, a statement that gives its
    value."""
    old = {target: target for target in line.targets if target in begun}

    def end_of(variable: str) -> p.Expr | None:
        if program.found is not None:
            return line.where[variable][1]
        return program.only_extent(line, variable)

    found = chosen_terms(line, program.dtypes.__getitem__, names, end_of, old)
    if program.found is None:
        where = {v: line.where[v] for v in line.bare if v is not None and v in line.where}
        return [replace(t, where=where, exists=_held_by(t, program)) for t in found]
    shape = program.inferred[line.target]
    part = part_of(line, element_names(line, names), shape)
    return [replace(term, where=part) for term in found]


def _held_by(term: Comprehension, program: CallFreeDef) -> tuple[p.Read, ...]:
    """The read of the target by which a statement has the range of all elements."""
    dtype = program.dtypes[term.target]
    return (p.Read(term.target, term.left, dtype, -1, span=e.NO_SPAN),) if term.left else ()


def _needed(steps: Sequence[TextStep], wanted: Iterable[str]) -> list[TextStep]:
    """The steps on which some tensors depend. All statements of a tensor count, as its shape may
    follow from any."""
    needed = set(wanted)
    while True:
        kept = [step for step in steps if needed.intersection(step.targets)]
        more = {name for step in kept for name in _used(step)} - needed
        if not more:
            return kept
        needed |= more


def _used(step: TextStep) -> set[str]:
    """The tensors that a step reads, or whose sizes it uses."""
    if isinstance(step, Joined):
        return {*step.sources}
    bounds = (bound for bounds in step.where.values() for bound in bounds)
    sizes = (size.value for size in step.sizes)
    nodes = (n for x in (*step.inner, *step.exists, *bounds, *sizes) for n in p.walk(x))
    return {node.tensor for node in nodes if isinstance(node, p.Read | p.Extent)}


def _touches(step: TextStep, tensor: str) -> bool:
    exists = step.exists if isinstance(step, Comprehension) else ()
    return tensor in (
        *step.targets,
        *step.sources,
        *(r.tensor for x in exists for r in reads_of(x)),
    )


def _active(program: CallFreeDef, wrt: set[str], constant: set[str]) -> set[str]:
    """The tensors that depend, with a derivative, on what has a tangent."""
    active = set(wrt)
    steps = _derived(program)
    while True:
        before = len(active)
        names = {name: name for name in active}
        for step in steps:
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
    return active & _useful(program, steps, active)


def _derived(program: CallFreeDef) -> list[TextStep]:
    """The statements by which values depend on each other: those with several targets are one for
    each of these."""
    names = program.fresh_names()
    made: list[TextStep] = []
    for step in program.steps:
        if isinstance(step, Comprehension) and step.operator in ("min", "max") and step.others:
            made += _terms_of(step, program, names, step.targets)
        elif isinstance(step, Comprehension):
            pairs = zip(step.targets, step.values, strict=True)
            made += [replace(step, target=t, rhs=value, others=()) for t, value in pairs]
        else:
            made.append(step)
    return made


def _useful(program: CallFreeDef, steps: Sequence[TextStep], active: Container[str]) -> set[str]:
    """The tensors on which outputs depend with a derivative, and not through comparisons alone."""
    useful = {name for name in program.outputs if name in active}
    while True:
        before = len(useful)
        for step in steps:
            if step.target not in useful:
                continue
            if isinstance(step, Joined):
                useful.update(step.sources)
            else:
                found = contributions(step.rhs, e.number(1))
                useful.update(each.read.tensor for each in found if each.adjoint != e.ZERO)
        if len(useful) == before:
            return useful
