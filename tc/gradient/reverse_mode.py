"""Reverse mode: the text of a program's gradient (D1 to D3, D7 to D9, D11, D12, D14).

versions of the forward program -> its statements in reverse
    -> what each read of a right side gets (adjoints), by the instances that read an element
       (inversion) -> statements that add to cotangents -> the def around them
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tc.dtypes import FLOAT64, DType
from tc.errors import GradError, ends_at_caller
from tc.gradient import terms as e
from tc.gradient.adjoints import Contribution, branches, check_derived, contributions, merged
from tc.gradient.call_free_def import CallFreeDef, call_free
from tc.gradient.def_text import (
    Comprehension,
    ExprBounds,
    FreshNames,
    element_names,
    part_of,
    reads_of,
)
from tc.gradient.domains import Domain, by_data, domain_at, reads_of_box
from tc.gradient.generic_texts import derived
from tc.gradient.gradient_def import Derivation
from tc.gradient.inversion import Inversion, as_condition, invert
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
from tc.gradient.stored_values import Product, StoredValues, divided_last, pulled
from tc.gradient.symbolic_ranges import ranges_at, symbolic_ranges
from tc.gradient.versions import Cotangents, VersionStep, versions
from tc.semantics import program as p
from tc.source import ShownText

TIES = ("split", "first")
SAVE = ("outputs", "all", "none")


@ends_at_caller
def grad(
    src: TextOrFunction,
    wrt: InputNames | None = None,
    *,
    entry: str | None = None,
    constant: Iterable[str] | str = (),
    ties: str = "split",
    save: str = "outputs",
    sizes: object = None,
) -> str:
    """The text of a def that computes the gradient of a def (D1).

    `src` is a program as for `tc.compile`, or a compiled function. The gradient takes the inputs
    and outputs that it needs, and a cotangent `d_O` for each floating output `O`, and returns `d_A`
    for each input `A` named by `wrt`, in this order, or in that of the def for a set; by default
    for each floating input. The values that a caller gives in an output `O` are the input `O_0`. No
    gradient flows through the tensors in `constant`.

    `ties`: where several terms are the largest, each gets its share ("split"), or the first in
    order of the text gets all ("first", D11). `save`: which values of the forward program are
    inputs and not computed again: its "outputs", outputs and temporaries ("all"), or "none" (D17).
    `sizes` are inputs, or sizes by name: with `sizes`, the text is for these sizes only (D4).

    Raises GradError, with the rule and the statement, for programs that are not derived, and
    InputError for a `src` that is no program, and for an `entry` or `sizes` that do not fit the
    program.

    >>> import tc
    >>> mv = "def mv(float(M,K) A, float(K) x) -> (C) { C(i) +=! A(i,k) * x(k) }"
    >>> print(tc.grad(mv), end="")
    def mv_grad(float(M, K) A, float(K) x, float(M) d_C) -> (float(M, K) d_A, float(K) d_x) {
      d_A(i, k) = d_C(i) * x(k)
      d_x(k) +=! d_C(i) * A(i, k)
    }
    """
    check_option("save", save, SAVE)

    def derive(of: Any, own: str | None) -> tuple[str, ...]:
        made = derivation(of, wrt, own, constant, ties, save, sizes)
        return (made.backward("grad").layout,)

    return ShownText(*derived(src, entry, derive))


def derivation(
    src: TextOrFunction,
    wrt: InputNames | None,
    entry: str | None,
    constant: Iterable[str] | str,
    ties: str,
    save: str,
    sizes: object,
) -> Derivation:
    """The statements of a gradient, with the versions of the program that they read."""
    check_option("ties", ties, TIES)
    checked = program_of(src, entry)
    found = symbolic_ranges(checked) if sizes is None else ranges_at(checked, sizes)
    fixed = constant_tensors(checked, constant)
    program = in_parts(with_places(call_free(checked, found)))
    names = program.fresh_names()
    steps, given = versions(program, names.fresh)
    types = {**program.dtypes, **{v: program.dtypes[name] for v, name in given.items()}}
    inputs = (*program.inputs, *given)
    floating = [name for name in inputs if types[name].is_float]
    with repaired(checked, wrt, fixed):
        asked = wanted_inputs(checked, inputs, floating, wrt, fixed)
        constants = {program.words[name] for name in fixed}
        return _Reverse(program, steps, given, names, asked, constants, ties, save).derivation()


def check_option(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise GradError(
            f"{name} is {value!r}; there are {', '.join(map(repr, known))}",
            rule="D1",
            repair=f"{name}={known[0]!r}",
        )


@dataclass
class _Reverse:
    """The state of one derivation: what is known of the program, and the statements made so far."""

    program: CallFreeDef
    steps: tuple[VersionStep, ...]
    given: Mapping[str, str]
    """The caller's tensors by version."""
    names: FreshNames
    wrt: tuple[str, ...]
    constant: Container[str]
    ties: str
    save: str
    cotangents: Cotangents = field(init=False)
    active: set[str] = field(init=False)
    """The versions that depend on an input in `wrt`, with a derivative."""
    stored: StoredValues = field(init=False)
    redone: list[VersionStep] = field(init=False)
    """The steps as a gradient makes versions again."""
    counts: dict[str, str] = field(default_factory=dict)  # of the largest terms, by version
    terms: dict[str, DType] = field(default_factory=dict)  # that are stored (D11, D12)

    def __post_init__(self) -> None:
        program, steps = self.program, self.steps
        tensors = {**self.given, **{step.version: step.tensor for step in steps}}
        shapes = dict(program.inferred) | {v: program.inferred[n] for v, n in tensors.items()}
        types = dict(program.dtypes) | {v: program.dtypes[n] for v, n in tensors.items()}
        left = {s.version: element_names(s.line, self.names) for s in reversed(steps)}
        self.cotangents = Cotangents(shapes, types, self.names, left)
        self.active = set(self.wrt)
        for step in steps:
            sources = {c.read.tensor for c in contributions(step.line.rhs, e.ZERO)}
            sources.add(step.previous or step.version)
            is_constant = step.tensor in self.constant or step.version in self.constant
            if sources & self.active and not is_constant:
                self.active.add(step.version)
        outputs = self._floating_outputs if self.save != "none" else ()
        exact = (o for o in outputs if not types[o].is_storage)  # halves are rounded
        self.stored = StoredValues(steps, frozenset(exact))
        self.redone = [*steps]

    @property
    def _floating_outputs(self) -> list[str]:
        return [o for o in self.program.outputs if self.program.dtypes[o].is_float]

    # --- statements -------------------------------------------------------------------------

    def derivation(self) -> Derivation:
        cotangents = self.cotangents
        given = {output: cotangents.give(output) for output in self._floating_outputs}
        results = {name: cotangents.result(name) for name in self.wrt}
        for step in reversed(self.steps):
            cotangent = cotangents.of(step.version)
            if step.version in self.active and cotangent is not None:
                self._derive(step, cotangent)
        for name in self.wrt:
            if cotangents.of(name) is None:
                cotangents.add(name, cotangents.indices(name), cotangents.zero(name))
        cotangents.round()
        return Derivation(
            self.program,
            self.names,
            self.steps,
            self.given,
            self.save,
            tuple(self.redone),
            self.terms,
            given,
            results,
            cotangents.written,
            cotangents.shapes,
        )

    def _derive(self, step: VersionStep, cotangent: str) -> None:
        """Adds the statements that one statement of the program gives rise to: contributions to the
        cotangents of the tensors that it reads (D3), and the cotangent of the version that it
        changes (D9)."""
        if step.chosen is not None:
            step = self._by_place(step)
        old = step.previous if step.previous in self.active else None
        # another target of the statement may have read the old version
        before = None if old is None else self.cotangents.apart(old)
        line = step.line
        reads = [c.read.tensor for c in contributions(line.rhs, e.ZERO)]
        adjoint, guard = self._adjoint(step, cotangent, self.active.intersection(reads))
        in_place = old is not None and old not in reads and self.cotangents.is_owned(cotangent)
        in_place &= before is None
        if old is not None and not in_place:
            self._carry(step, old, cotangent)
            if before is not None:
                self.cotangents.join(old, before)
        value = None
        if line.op == "=" and self._is_stored(step):
            value = self._read(step.version, line)
        is_held = step.version in self.stored.held and self.stored.is_right_side_alone(step)
        is_held &= not {*self.program.inputs, *self.given}.issuperset(reads)
        held = value if is_held else None
        found = [
            each
            for each in merged(contributions(line.rhs, adjoint, guard, value, held))
            if each.read.tensor in self.active and not e.is_number(each.adjoint, 0)
        ]
        for each in found:
            check_derived(each)
        for each in self._with_scaled(step, cotangent, found):
            by_value = self.stored.of_step(step, each, self._read(step.version, line))
            ranges, each = by_value or (line.where, each)
            self._contribute(line, ranges, each)
        if old is not None and in_place:
            self.cotangents.alias(old, cotangent)
            self._keep(step, old)

    def _by_place(self, step: VersionStep) -> VersionStep:
        """The step of a target whose value is that of a chosen term, as one that gives the target
        this value by the place of the term (D22)."""
        whole = step.chosen
        assert whole is not None
        part = self._part(step)
        terms = chosen_terms(
            whole,
            self.cotangents.types.__getitem__,
            self.names,
            lambda variable: whole.where[variable][1],
            {step.version: step.previous},
        )
        line = next(term for term in terms if term.target == step.version)
        return replace(step, line=replace(line, where=part), chosen=None)

    def _with_scaled(
        self, step: VersionStep, cotangent: str, found: list[Contribution]
    ) -> list[Contribution]:
        """The contributions to the reads of a sum. Factors that all terms of the sum's cotangent
        share are taken out of the cotangent where a factor times a term of the sum is a value that
        an output holds."""
        used = (name for line in self.cotangents.written for name in line.sources)
        if (
            step.line.operator != "+"
            or not self.stored.is_right_side_alone(step)
            or cotangent in used
        ):
            return found  # other reads need the cotangent with its factors
        if not self.cotangents.is_owned(cotangent):
            return found
        scaled = pulled(self.cotangents.written, cotangent, step.line.indices)
        if scaled is None or cotangent in self.cotangents.returned:
            return found
        place, sum_, factors = scaled
        changed = []
        for each in found:
            product = Product.of(each.adjoint).times(factors)
            adjoint = self.stored.of_others(step, product)
            if each.conditions or adjoint is None:
                return found
            if any(factor in adjoint.factors for factor in factors):
                return found
            changed.append(replace(each, adjoint=adjoint.expr))
        self.cotangents.written[place] = sum_
        return changed

    def _is_stored(self, step: VersionStep) -> bool:
        """Whether a version holds just the value of its statement's right side."""
        alone = not any(other.joins and other.version == step.version for other in self.steps)
        return alone and not self.cotangents.types[step.version].is_storage

    def _read(self, tensor: str, line: Comprehension) -> p.Read:
        """A read of the element of a tensor at the place that a statement writes."""
        return self.cotangents.read(tensor, line.left)

    def _adjoint(
        self, step: VersionStep, cotangent: str, reads: Collection[str]
    ) -> tuple[p.Expr, tuple[p.Expr, ...]]:
        """The adjoint of a statement's right side, for `reads` of tensors with gradients, and the
        conditions under which the right side gets the adjoint."""
        adjoint: p.Expr = self._read(cotangent, step.line)
        match step.line.operator:
            case "min" | "max" if self.ties == "first":
                return adjoint, (self._is_first(step),)
            case "min" | "max":
                equal = self._is_extreme(step)
                return e.binary("/", adjoint, self._count(step, equal)), (equal,)
            case "*" if reads:
                return e.product(adjoint, self._others(step)), ()
        return adjoint, ()

    # --- what is changed (D9) ---------------------------------------------------------------

    def _carry(self, step: VersionStep, old: str, cotangent: str) -> None:
        """Begins the cotangent of the previous version `old`; the cotangent of the version after
        the statement stays as it is."""
        is_sum = not step.is_anew and step.line.operator == "+"
        reads = {c.read.tensor for c in contributions(step.line.rhs, e.ZERO)}
        if is_sum and old not in reads:
            self.cotangents.alias(old, cotangent)
            return
        self.cotangents.copy(old, cotangent)
        self._keep(step, old)

    def _keep(self, step: VersionStep, old: str) -> None:
        """Changes the cotangent of the previous version `old`, which starts as the cotangent of the
        version after the statement: only the share that the statement has kept of the old values
        stays."""
        line, op = step.line, step.line.operator
        cotangent = self.cotangents.names[old]
        if line.op == "=":
            zero = line.beside(cotangent, "=", e.ZERO)
            self.cotangents.write(replace(zero, exists=self._exists(line, zero)))
            return
        part = self._part(step)
        element = tuple(map(e.index, part))
        own: p.Expr = self.cotangents.read(cotangent, element)
        if step.is_anew:
            kept: p.Expr = e.ZERO
        elif op == "+":
            return
        elif op == "*":
            kept = e.product(own, self._product(step, element))
        else:
            if self.ties == "split":
                count = self.cotangents.read(self.counts[step.version], element)
                own = e.binary("/", own, count)
            kept = e.select(e.compare("==", *self._before_and_after(step, element)), own)
        self.cotangents.write(Comprehension(cotangent, tuple(part), "=", kept, part))

    def _part(self, step: VersionStep) -> dict[str, ExprBounds]:
        """Names and ranges of the indices of the elements that a step may change."""
        names = element_names(step.line, self.names)
        return part_of(step.line, names, self.cotangents.shapes[step.version])

    def _product(self, step: VersionStep, element: tuple[p.Expr, ...]) -> p.Expr:
        """The product of the terms of an element, as a read of a temporary where there are several
        terms."""
        line = step.line
        if not line.reduction and line.places is None:
            tests = Domain(line.within, line.conditions).tests
            one = p.Literal(1.0, FLOAT64, span=e.NO_SPAN)
            return e.select(e.conjunction(tests), line.rhs, one) if tests else line.rhs
        name = self._factors("y", step)
        self._temporary(line.beside(name, "*=!", line.rhs), step)
        return self.cotangents.read(name, element)

    def _factors(self, kind: str, step: VersionStep) -> str:
        """A new name for products of the terms of a statement, which have the type of its product:
        the type of the terms, of integers or of narrower floats, may not hold them."""
        name = self.names.fresh(f"{kind}_{step.version}")
        self.terms[name] = self.cotangents.types[step.version].computed
        return name

    def _before_and_after(
        self, step: VersionStep, element: tuple[p.Expr, ...]
    ) -> tuple[p.Read, p.Read]:
        """Reads of an element that a statement changes, in the previous version and in its own."""
        assert step.previous is not None
        before, after = (self.cotangents.read(v, element) for v in (step.previous, step.version))
        return before, after

    def _goes_on(self, step: VersionStep) -> bool:
        """Whether the value of the previous version counts as a term of the statement."""
        return step.previous is not None and not step.is_anew

    def _temporary(self, made: Comprehension, like: VersionStep | None = None) -> None:
        """Adds a statement that makes a temporary, which has the shape of a version where the
        statement is `like` the one that makes this."""
        if like is None:
            shape = tuple(made.where[v][1] for v in made.indices)
        else:
            shape = self.cotangents.shapes[like.version]
        self.cotangents.shapes[made.target] = shape
        self.cotangents.write(made)

    # --- the largest and the smallest (D11) -------------------------------------------------

    def _is_extreme(self, step: VersionStep) -> p.Expr:
        """The condition that a term of a statement under `min=` or `max=` equals the result. Terms
        that are rounded are stored in the type of the result, and the result is computed again from
        the stored terms: no comparison depends on two computations of one term."""
        line, term = step.line, step.line.rhs
        dtype = self.cotangents.types[step.version]
        if not is_exact(term, dtype):
            name = self.names.fresh(f"e_{step.version}")
            terms = stored_terms(self.program, line, ())
            made = replace(terms.line, target=name)
            self.terms[name] = self.cotangents.types[name] = dtype
            self.cotangents.shapes[name] = tuple(made.where[v][1] for v in made.indices)
            term = self.cotangents.read(name, terms.places)
            of_stored = replace(step, line=replace(line, rhs=term))
            place = next(i for i, each in enumerate(self.redone) if each is step)
            stored = VersionStep(made, name, None, joins=False, covers=True)
            self.redone[place : place + 1] = [stored, of_stored]
        return e.compare("==", term, self._read(step.version, line))

    def _count(self, step: VersionStep, equal: p.Expr) -> p.Expr:
        """A read of the number of terms that equal the result. The value of the previous version
        counts as a term where the statement goes on from it."""
        line = step.line
        count = self.counts[step.version] = self.names.fresh(f"n_{step.version}")
        one = e.select(equal, e.number(1))
        self._temporary(line.beside(count, "+=!", one), step)
        if self._goes_on(step):
            part = self._part(step)
            same = e.compare("==", *self._before_and_after(step, tuple(map(e.index, part))))
            own = e.select(same, e.number(1))
            self._temporary(Comprehension(count, tuple(part), "+=", own, part), step)
        return self._read(count, line)

    def _is_first(self, step: VersionStep) -> p.Expr:
        """The condition that a term is the first one, in order of the text, that equals the result;
        the value of the previous version comes before all terms."""
        line = step.line
        equal = self._is_extreme(step)
        conditions = [equal]
        if self._goes_on(step):
            is_new = e.compare("!=", *self._before_and_after(step, line.left))
            conditions = [is_new, equal]
        if not line.meeting:
            return e.conjunction(conditions)
        place: p.Expr = e.ZERO
        size: p.Expr = e.number(1)
        for variable in line.meeting:
            begin, end = line.where[variable]
            extent = e.difference(end, begin)
            own = e.difference(e.index(variable), begin)
            place = own if place == e.ZERO else e.binary("+", e.binary("*", place, extent), own)
            size = extent if size == e.number(1) else e.binary("*", size, extent)
        name = self.names.fresh(f"p_{step.version}")
        first = p.Select(equal, place, size, FLOAT64, span=e.NO_SPAN)
        self._temporary(line.beside(name, "min=!", first), step)
        conditions[-1] = e.compare("==", place, self._read(name, line))
        return e.conjunction(conditions)

    # --- products (D12) ---------------------------------------------------------------------

    def _others(self, step: VersionStep) -> p.Expr:
        """The product of the other terms of an element, times the value of the previous version
        where the statement goes on from it."""
        line = step.line
        factor: p.Expr = p.Literal(1.0, FLOAT64, span=e.NO_SPAN)
        if self._goes_on(step):
            factor, _ = self._before_and_after(step, line.left)
        if not line.meeting:
            return factor
        name = self._factors("x", step)
        made, read = other_terms(line, name, self.names.fresh)
        self._temporary(made)
        return e.product(read, factor)

    # --- one read (D5 to D7) ----------------------------------------------------------------

    def _contribute(
        self, line: Comprehension, ranges: Mapping[str, ExprBounds], found: Contribution
    ) -> None:
        """Adds the contribution of one read to a cotangent, for the instances of a statement over
        `ranges`: to each element from the instances that read it, where these follow from the
        element, and else from each instance to the element that it reads (D20)."""
        parts = branches(found)
        made = [self._inverted(line, ranges, each) for each in parts]
        solved = [each for each in made if each is not None]
        if len(solved) < len(made):
            self._scatter(line, ranges, found)
            return
        for each, (inversion, domain) in zip(parts, solved, strict=True):
            self._gather(line, {**ranges, **inversion.ranges}, each, inversion, domain)

    def _scatter(
        self, line: Comprehension, ranges: Mapping[str, ExprBounds], found: Contribution
    ) -> None:
        """Adds the contribution of a read to a cotangent at the place that each instance reads.
        What keeps the read in bounds keeps the place."""
        read, conditions = found.read, [*line.conditions]
        below = {v: end for v, (begin, end) in ranges.items() if begin == e.ZERO}
        for condition in (c for each in found.conditions for c in p.conjuncts(each)):
            in_sizes = as_condition(e.in_sizes(condition, self.cotangents.shapes))
            conditions += e.simplified(in_sizes, below)
        inside = (*read.subscripts, found.adjoint, *conditions, *line.bounds)
        exists = self._boxes(line, read.tensor, read.subscripts, inside)
        domain = Domain(line.within, tuple(dict.fromkeys(conditions)), exists)
        self.cotangents.scatter(read.tensor, read.subscripts, found.adjoint, ranges, domain)

    def _exists(self, line: Comprehension, made: Comprehension) -> tuple[p.Read, ...]:
        return self._boxes(line, made.target, made.left, made.inner)

    def _boxes(
        self,
        line: Comprehension,
        target: str,
        left: Sequence[p.Expr],
        made: Sequence[p.Expr],
    ) -> tuple[p.Read, ...]:
        """Reads by which the ranges that tensors decide have the boxes that they have in a
        statement, in one with the expressions `made`."""
        variables = by_data(line, self.program.static_scalars)
        if not variables:
            return ()
        shapes = self.cotangents.shapes
        if self.cotangents.names.get(target, target) in self.cotangents.returned:
            made = (*made, self.cotangents.read(target, tuple(left)))
        found = reads_of_box(line, variables, made, shapes)
        return tuple(dict.fromkeys(found))

    def _inverted(
        self, line: Comprehension, ranges: Mapping[str, ExprBounds], found: Contribution
    ) -> tuple[Inversion, Domain] | None:
        """The instances that read an element; None where they do not follow from the element."""
        order = dict.fromkeys((*line.indices, *ranges))
        own = {v: ranges[v] for v in order if v in ranges}
        static = self.program.static_scalars
        made = invert(found.read.subscripts, own, line.indices, self.names.untaken, static)
        if made is None:
            return None
        ranges = {**ranges, **made.ranges}
        sizes = dict(zip(made.elements, self.cotangents.shapes[found.read.tensor], strict=True))
        for variable, bounds in by_data(line, static).items():
            named = {variable, *(n for bound in bounds for n in p.index_names(bound))}
            if any(n in sizes and ranges[n] != (e.ZERO, sizes[n]) for n in named):
                return None  # bounds are read for the elements of instances alone
        values = _values(made, ranges)
        below = {v: end for v, (b, end) in ranges.items() if v not in values and b == e.ZERO}
        gone = {*values, *made.elements}
        loops = {v: bounds for v, bounds in ranges.items() if v not in gone}
        domain = domain_at(line, static, values, loops, below | sizes)
        return None if domain is None else (made, domain)

    def _gather(
        self,
        line: Comprehension,
        ranges: Mapping[str, ExprBounds],
        found: Contribution,
        made: Inversion,
        domain: Domain,
    ) -> None:
        """Adds the contribution of the instances that read an element to a cotangent: guards stand
        outermost."""
        is_plain = not any(isinstance(n, p.Select | p.Logical) for n in p.walk(found.adjoint))
        padded = _bounds(found.adjoint) if is_plain else set()
        parts_of = [part for c in found.conditions for part in self._parts(c, found.read)]
        conditions = [c for c in parts_of if c not in padded]
        is_padded = len(conditions) < len(parts_of)
        values = _values(made, ranges)
        one = {v: value for v, value in values.items() if v not in made.values}

        shape = self.cotangents.shapes[found.read.tensor]
        sizes = dict(zip(made.elements, shape, strict=True))
        below = {v: end for v, (b, end) in ranges.items() if v not in values and b == e.ZERO}

        def at_element(expr: p.Expr) -> p.Expr:
            same = e.at_elements(expr, found.read.subscripts, made.elements)
            placed = e.substituted(same, values)
            return placed if placed == same else e.in_order(placed, below | sizes)

        adjoint = at_element(found.adjoint)
        conditions = [left for c in conditions for left in e.simplified(at_element(c), sizes)]
        parts, others = self._places(made.fixed, sizes, bool(found.conditions))
        covered: list[p.Expr] = []
        inside: list[p.Expr] = []
        bare = self._bare(found.adjoint)
        is_begun = self.cotangents.of(found.read.tensor) is not None
        rows = by_data(line, self.program.static_scalars)
        for variable, (begin, end) in ranges.items():
            if variable in one or (variable not in values and variable not in sizes):
                continue
            if variable in line.within and variable not in rows:
                continue  # its box is around what the domain says
            value = values.get(variable, e.index(variable))
            guards = [as_condition(g) for g in e.within(begin, value, end, below | sizes)]
            if (variable, begin, end) in bare and domain.is_box:
                covered += guards
            elif guards and variable in made.elements and is_begun and not found.conditions:
                parts[variable] = (begin, end)
            else:
                inside += guards
        solved = [e.substituted(g, one) for g in made.guards]
        inside += [g for g in solved if not e.reads_elements(g)] + others
        # reads of a guard are in bounds where the conditions of the program hold, which come first
        conditions += [g for g in solved if e.reads_elements(g)]
        asked = (*inside, *covered, *conditions, *domain.conditions)
        if any(e.never_holds(c, below | sizes) for c in asked):
            return
        gone = {*values, *made.elements}
        loops = {v: bounds for v, bounds in ranges.items() if v not in gone}
        if any(map(e.reads_elements, domain.conditions)):
            # what keeps their reads in bounds comes before the conditions of the statement
            first = [c for c in (*inside, *covered) if c not in domain.conditions]
            domain = replace(domain, conditions=(*first, *domain.conditions))
            inside, covered = [], []
        rhs = adjoint
        if is_plain and (covered or is_padded):
            rhs = e.pad(e.select(e.conjunction(conditions), rhs) if conditions else rhs)
        else:
            inside += covered + conditions
        if inside:
            rhs = e.select(e.conjunction(inside), rhs)
        rhs = divided_last(rhs, loops)
        if domain.within:
            left = tuple(map(e.index, made.elements))
            shown = (rhs, *domain.conditions, *(b for ends in domain.within.values() for b in ends))
            exists = self._boxes(line, found.read.tensor, left, shown)
            domain = replace(domain, exists=exists)
        self.cotangents.add(found.read.tensor, made.elements, rhs, loops, parts, domain)

    def _places(
        self, fixed: Mapping[str, p.Expr], sizes: Mapping[str, p.Expr], conditional: bool
    ) -> tuple[dict[str, ExprBounds], list[p.Expr]]:
        """Ranges and conditions for indices of elements that have one value only: a range (D14), or
        a condition where the read may not happen and the value may be no element of the tensor."""
        parts: dict[str, ExprBounds] = {}
        conditions = []
        for name, value in fixed.items():
            bounds = None if conditional else e.place(value, sizes[name])
            if bounds is None:
                conditions.append(as_condition(e.compare("==", e.index(name), value)))
            else:
                parts[name] = bounds
        return parts, conditions

    def _parts(self, condition: p.Expr, access: p.Read) -> list[p.Expr]:
        """The conjuncts of a condition, without those by which the read itself is in bounds."""
        return [c for c in p.conjuncts(condition) if c not in e.bounds(access)]

    def _bare(self, adjoint: p.Expr) -> set[tuple[str, p.Expr, p.Expr]]:
        """The ranges from 0 to a dimension of the variables that alone are a subscript of a read in
        the adjoint, which is always evaluated."""
        shapes = self.cotangents.shapes
        return {
            (subscript.name, e.ZERO, size)
            for read in reads_of(adjoint)
            if read.tensor in shapes
            for subscript, size in zip(read.subscripts, shapes[read.tensor], strict=True)
            if isinstance(subscript, p.Index)
        }


def _values(made: Inversion, ranges: Mapping[str, ExprBounds]) -> dict[str, p.Expr]:
    """The values of the variables that were solved for, and of those that have one value only."""
    one = {v: b for v, (b, end) in ranges.items() if e.difference(end, b) == e.number(1)}
    one = {v: b for v, b in one.items() if v not in made.elements and v not in made.values}
    return {v: e.substituted(value, one) for v, value in made.values.items()} | one


def _bounds(expr: p.Expr) -> set[p.Expr]:
    """The conditions that keep the reads in an expression in bounds."""
    return {condition for read in reads_of(expr) for condition in e.bounds(read)}
