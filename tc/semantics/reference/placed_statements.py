"""Statements that are more than a box with a plain place and one value: with conditions and ranges
that use index variables or data (W), computed places (S), several targets (V1).

Each block of instances goes into a reduction over the whole target: a `PlaceFold` says where each
instance goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Generic, TypeVar

import numpy as np

from tc.builtins import identity
from tc.dtypes import BOOL, INT64, Array, DType
from tc.semantics import program as p
from tc.semantics.dependent_ranges import in_order
from tc.semantics.factors import factors_of_prefix
from tc.semantics.faults import range_error, twice_error
from tc.semantics.program import ShapedProgram, ShapedStatement
from tc.semantics.reference.arithmetic import Arithmetic
from tc.semantics.reference.block_evaluation import (
    BlockEvaluation,
    both,
    evaluate,
    outside_of,
    raise_faults,
    record,
)
from tc.semantics.reference.folds import PlaceFold
from tc.semantics.reference.instance_blocks import (
    ARITHMETIC_SHARE,
    WORKING_SET_BYTES,
    peak_memory,
)
from tc.semantics.reference.listed_blocks import (
    ListedBlock,
    listed_blocks,
    listed_variables,
    upstream,
)

V = TypeVar("V")
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class BlockOfTerms(Generic[V]):
    """What the instances of a block write: `exists` marks the instances that there are (None: all),
    `test` is that with what is not known of it; `places` lie inside of the targets."""

    block: ListedBlock
    exists: Array | None
    test: V | None
    places: tuple[Array, ...]
    unsure: bool  # whether places may be others
    values: tuple[V, ...]


@dataclass
class PlacedStatement(Generic[V, A]):
    """A statement under way. `spread` are the variables of the box whose values are whole
    dimensions of the targets, `others` the rest of the box."""

    shaped_statement: ShapedStatement
    shaped: ShapedProgram
    tensors: dict[str, V]
    initial: Mapping[str, Array]
    arithmetic: Arithmetic[V, A]
    memory_limit: int
    others: tuple[str, ...] = field(init=False)
    spread: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        statement = self.statement
        listed = listed_variables(statement)
        box = [name for name in statement.variables if name not in listed]
        bare = [s.name for s in statement.subscripts if isinstance(s, p.Index)]
        inside = (
            *(s for s in statement.subscripts if not isinstance(s, p.Index)),
            *statement.conditions,
        )
        used = {name for expr in inside for name in p.index_names(expr)}
        self.spread = tuple(name for name in bare if name in box and name not in used)
        self.others = tuple(name for name in box if name not in self.spread)

    @property
    def statement(self) -> p.Statement:
        return self.shaped_statement.statement

    def _shape(self, position: int = 0) -> tuple[int, ...]:
        return self.shaped.shapes[self.statement.targets[position]]

    @property
    def _shapes(self) -> dict[tuple[int, ...], str]:
        """The shapes of the targets, each with the first target of this shape."""
        targets = reversed(self.statement.targets)
        return {self.shaped.shapes[target]: target for target in targets}

    def run(self) -> None:
        statement = self.statement
        self._check_ranges()
        if statement.op == "=":
            self._assign()
        elif statement.chooses:
            self._choose()
        else:
            self._reduce()

    def _check_ranges(self) -> None:
        """Raises AccessError for a range that is none, or leaves its box, for some values of the
        variables in its bounds, whatever other ranges there are (W3)."""
        for clause in in_order(self.statement):
            if clause.kind == p.DATA:
                names = upstream(self.statement, clause)
                most = WORKING_SET_BYTES // 64
                blocks = listed_blocks(self.shaped_statement, (), most, self._bounds, names)
                for block in blocks:
                    self._bounds(block, clause)

    # --- blocks -------------------------------------------------------------------------------

    def _blocks(self, exprs: Sequence[p.Expr]) -> Iterator[ListedBlock]:
        """The blocks of the statement, of a size by the room that some expressions take."""
        budget = max(1, min(WORKING_SET_BYTES, self.memory_limit // ARITHMETIC_SHARE))
        cost = 48 + sum(peak_memory(exprs).values())
        box = (*self.others, *self.spread)
        yield from listed_blocks(self.shaped_statement, box, max(1, budget // cost), self._bounds)

    def _evaluation(self, block: ListedBlock) -> BlockEvaluation[V, A]:
        return BlockEvaluation(self.shaped, self.statement, self.arithmetic, self.tensors, block)

    def _bounds(self, block: ListedBlock, clause: p.WhereRange) -> tuple[Array, Array]:
        """The ends of a range for each entry of a list. Those that data decide are checked (W3)."""
        evaluation = self._evaluation(block)
        arithmetic = self.arithmetic
        begin, end = (evaluate(b, evaluation, None) for b in (clause.begin, clause.end))
        raise_faults(evaluation)
        begins, ends = (np.broadcast_to(arithmetic.array(v), block.shape) for v in (begin, end))
        if clause.kind == p.DATA:
            box = self.shaped_statement.ranges[clause.variable]
            wrong = (ends < begins) | (begins < box.begin) | (ends > box.end)
            if wrong.any():
                first = int(wrong.argmax())
                indices = {n: v for n, v in block.point((first,)).items() if n in clause.depends_on}
                found = int(begins[first]), int(ends[first])
                raise range_error(
                    self.statement, clause.variable, indices, found, (box.begin, box.end)
                )
        return begins, ends

    def _terms(self, values: Sequence[p.Expr]) -> Iterator[BlockOfTerms[V]]:
        """The blocks with their places and values."""
        statement = self.statement
        exprs = (*statement.conditions, *statement.subscripts, *values)
        for block in self._blocks(exprs):
            yield self._block_of_terms(block, values)

    def _block_of_terms(self, block: ListedBlock, exprs: Sequence[p.Expr]) -> BlockOfTerms[V]:
        statement, arithmetic = self.statement, self.arithmetic
        evaluation = self._evaluation(block)
        exists: Array | None = None
        test: V | None = None
        for condition in statement.conditions:
            found = evaluate(condition, evaluation, exists)
            test = found if test is None else arithmetic.logical("&&", (test, found))
            exists = both(exists, arithmetic.array(found))
        subscripts = [evaluate(s, evaluation, exists) for s in statement.subscripts]
        places = [arithmetic.array(subscript) for subscript in subscripts]
        for shape, target in self._shapes.items():
            outside = outside_of(places, shape)
            if outside is not None:
                record(target, evaluation, outside, exists, places)
                places = [np.clip(k, 0, max(n, 1) - 1) for k, n in zip(places, shape, strict=True)]
        values = tuple(evaluate(value, evaluation, exists) for value in exprs)
        raise_faults(evaluation)
        unsure = any(arithmetic.unsure(s) is not None for s in subscripts)
        if test is not None and (doubtful := arithmetic.unsure(test)) is not None:
            exists = exists | doubtful if exists is not None else None
        return BlockOfTerms(block, exists, test, tuple(places), unsure, values)

    def _fold(self, terms: BlockOfTerms[V], position: int = 0) -> PlaceFold:
        statement = self.statement
        bare = [s.name if isinstance(s, p.Index) else "" for s in statement.subscripts]
        box = terms.block.box
        count = len(self.spread)
        begins = box.begins[len(box.begins) - count :] if count else ()
        axes = [bare.index(name) for name in self.spread]
        shape = self._shape(position)
        return PlaceFold(shape, terms.places, terms.exists, terms.block.shape, axes, begins)

    # --- plain values -------------------------------------------------------------------------

    def _assign(self) -> None:
        """`=`: each element is written once at most (S2)."""
        statement, arithmetic = self.statement, self.arithmetic
        smallest = tuple(map(min, zip(*self._shapes, strict=True)))  # all places lie in it
        written = np.zeros(smallest, np.bool_) if self.shaped_statement.is_checked_once else None
        for terms in self._terms(statement.values):
            shape = terms.block.shape
            picked = np.ones(shape, np.bool_)
            if terms.exists is not None:
                picked = np.array(np.broadcast_to(terms.exists, shape))
            place = tuple(np.broadcast_to(k, shape)[picked] for k in terms.places)
            if written is not None:
                self._check_once(written, terms, picked, place)
            values = [arithmetic.copied(value) for value in terms.values]
            doubtful = None if terms.test is None else arithmetic.unsure(terms.test)
            for target, value in zip(statement.targets, values, strict=True):
                value = self._stored(target, value)
                if terms.unsure:
                    self.tensors[target] = arithmetic.unknown(self.tensors[target])
                    value = arithmetic.unknown(value)
                elif doubtful is not None:
                    value = arithmetic.unknown(value, doubtful)
                self.tensors[target] = arithmetic.assign(self.tensors[target], place, picked, value)

    def _check_once(
        self,
        written: Array,
        terms: BlockOfTerms[V],
        picked: Array,
        place: tuple[Array, ...],
    ) -> None:
        """Raises AccessError for the first instance that writes what another one has written."""
        flat = np.ravel_multi_index(place, written.shape) if place else np.zeros(picked.sum(), int)
        _, firsts = np.unique(flat, return_index=True)
        again = np.ones(flat.size, np.bool_)
        again[firsts] = False
        again |= written[place] if place else np.full(flat.size, bool(written))
        if not again.any():
            written[place] = True
            return
        second = int(again.argmax())
        positions = np.argwhere(picked)
        at = tuple(int(k[second]) for k in place)
        raise twice_error(
            self.statement, at, self._first_at(at), terms.block.point(positions[second])
        )

    def _first_at(self, place: tuple[int, ...]) -> dict[str, int]:
        """The first instance that writes a place."""
        for terms in self._terms(self.statement.values):
            shape = terms.block.shape
            here = np.ones(shape, np.bool_) if terms.exists is None else terms.exists
            for own, wanted in zip(terms.places, place, strict=True):
                here = here & (own == wanted)
            found = np.argwhere(np.broadcast_to(here, shape))
            if len(found):
                return terms.block.point(found[0])
        return {}

    # --- reductions ---------------------------------------------------------------------------

    def _reduce(self) -> None:
        """Each target by itself."""
        statement, arithmetic = self.statement, self.arithmetic
        reductions = [self._start(k, statement.op) for k in range(len(statement.targets))]
        masks = [self._begun(k) for k in range(len(statement.targets))]
        is_unsure = False
        factors = [self._factors(k) for k in range(len(masks))]
        ends = [*accumulate(map(len, factors), initial=len(masks))]
        for terms in self._terms((*statement.values, *chain.from_iterable(factors))):
            is_unsure |= terms.unsure
            folds = {self._shape(k): self._fold(terms, k) for k in range(len(masks))}
            for k, value in enumerate(terms.values[: len(masks)]):
                fold = folds[self._shape(k)]
                fold.mark(masks[k])
                term = self._term(value, terms, statement.op, self._dtype(k))
                reductions[k] = arithmetic.accumulate(reductions[k], term, fold)
                if own := terms.values[ends[k] : ends[k + 1]]:
                    reductions[k] = arithmetic.redistribute(reductions[k], own, term, fold)
        for k, (reduction, mask) in enumerate(zip(reductions, masks, strict=True)):
            self._write(k, arithmetic.finish(reduction), mask, is_unsure)

    def _factors(self, position: int) -> tuple[p.Expr, ...]:
        """What may be multiplied behind the sum into a target (R5)."""
        is_float = self._dtype(position).is_float
        return factors_of_prefix(self.shaped_statement, position) if is_float else ()

    def _term(self, value: V, terms: BlockOfTerms[V], op: str, dtype: DType) -> V:
        """A value, with the operator's identity where it is not known whether the instance
        exists."""
        if terms.test is None or self.arithmetic.unsure(terms.test) is None:
            return value
        return self.arithmetic.select(terms.test, value, self._identity(op, dtype))

    def _identity(self, op: str, dtype: DType) -> V:
        return self.arithmetic.exact(np.full((), identity(op, dtype), dtype.numpy))

    def _choose(self) -> None:
        """The least or greatest first value, and what else its term has (V1): of equal ones the
        least second value, and so on."""
        statement, arithmetic = self.statement, self.arithmetic
        best: list[V] = []
        reduction = self._start(0, statement.op)
        masks = [self._begun(k) for k in range(len(statement.targets))]
        is_unsure = False
        for terms in self._terms(statement.values[:1]):
            fold = self._fold(terms)
            is_unsure |= terms.unsure
            for k, mask in enumerate(masks):
                self._fold(terms, k).mark(mask)
            term = self._term(terms.values[0], terms, statement.op, self._dtype(0))
            reduction = arithmetic.accumulate(reduction, term, fold)
        best.append(arithmetic.finish(reduction))
        rivals = self._rivals(best[0])
        for k in range(1, len(statement.targets)):
            held = self._held(k, best, rivals) if self._is_held else None
            reduction = arithmetic.start("min", held, self._shape(k), self._dtype(k))
            for terms in self._terms(statement.values[: k + 1]):
                test = self._chosen(terms.values, best, terms.places, rivals)
                if terms.test is not None and arithmetic.unsure(terms.test) is not None:
                    test = arithmetic.logical("&&", (terms.test, test))
                largest = self._identity("min", self._dtype(k))
                term = arithmetic.select(test, terms.values[k], largest)
                reduction = arithmetic.accumulate(reduction, term, self._fold(terms, k))
            best.append(arithmetic.finish(reduction))
        for k, value in enumerate(best):
            self._write(k, value, masks[k], is_unsure)

    @property
    def _is_held(self) -> bool:
        """Whether a term of what targets hold takes part in a choice (R3); what is missing of it
        is the identity."""
        positions = range(len(self.statement.targets))
        return not all(self.statement.starts_fresh(self.initial, k) for k in positions)

    def _rivals(self, best: V) -> Array | None:
        """For each element, how many terms may be the least or greatest; None where it is known
        which are."""
        statement, arithmetic = self.statement, self.arithmetic
        if arithmetic.unsure(best) is None:
            return None
        counts = arithmetic.start("+", None, self._shape(), INT64)
        for terms in self._terms(statement.values[:1]):
            there = self._at(best, terms.places)
            may_be = arithmetic.rivals(statement.op, terms.values[0], there)
            if may_be is not None:
                counts = arithmetic.accumulate(counts, may_be, self._fold(terms))
            else:
                one = arithmetic.exact(np.ones((), np.int64))
                counts = arithmetic.accumulate(counts, one, self._fold(terms))
        found = arithmetic.array(arithmetic.finish(counts))
        return found + 1 if self._is_held else found

    def _chosen(
        self,
        values: Sequence[V],
        best: Sequence[V],
        places: tuple[Array, ...],
        rivals: Array | None,
    ) -> V:
        """Whether terms are those that all values so far choose."""
        arithmetic = self.arithmetic
        counts = None if rivals is None else rivals[places]
        test = arithmetic.chosen(values[0], self._at(best[0], places), counts)
        for value, found in zip(values[1:], best[1:], strict=False):
            there = self._at(found, places)
            both = [arithmetic.compare("!=", each, each) for each in (value, there)]  # NaN
            same = arithmetic.compare("==", value, there)
            same = arithmetic.logical("||", (same, arithmetic.logical("&&", both)))
            test = arithmetic.logical("&&", (test, same))
        return test

    def _held(self, position: int, best: Sequence[V], rivals: Array | None) -> V:
        """What a target holds where the caller's term is the one chosen, else the identity."""
        everywhere = tuple(np.indices(self._shape(position), sparse=True))
        own = [self._at(self._value_of(k), everywhere) for k in range(position + 1)]
        test = self._chosen(own[:position], best, everywhere, rivals)
        return self.arithmetic.select(
            test, own[position], self._identity("min", self._dtype(position))
        )

    def _at(self, tensor: V, places: tuple[Array, ...]) -> V:
        """The elements of a whole tensor at the places of a block."""
        return self.arithmetic.read(tensor, lambda array: np.asarray(array[places]), (), None)

    # --- targets ------------------------------------------------------------------------------

    def _dtype(self, position: int) -> DType:
        return self.shaped.program.tensors[self.statement.targets[position]].dtype.computed

    def _value_of(self, position: int) -> V:
        """What a target holds, in the type that it computes in; the identity where nothing is."""
        statement, arithmetic = self.statement, self.arithmetic
        op = statement.op if position == 0 or not statement.chooses else "min"
        dtype = self._dtype(position)
        if statement.starts_fresh(self.initial, position):
            fresh = np.full(self._shape(position), identity(op, dtype), dtype.numpy)
            return arithmetic.exact(fresh)
        target = statement.targets[position]
        held = arithmetic.copied(self.tensors[target])
        return arithmetic.convert(held, self.shaped.program.tensors[target].dtype, dtype)

    def _start(self, position: int, op: str) -> A:
        is_fresh = self.statement.starts_fresh(self.initial, position)
        value = None if is_fresh else self._value_of(position)
        return self.arithmetic.start(op, value, self._shape(position), self._dtype(position))

    def _begun(self, position: int) -> Array:
        """A mask of the elements that a reduction starts at the identity: all of a dimension with a
        computed place, of one with a bare variable its range (S3)."""
        written = np.zeros(self._shape(position), np.bool_)
        if self.statement.starts_fresh(self.initial, position):
            ranges = self.shaped_statement.ranges
            written[
                tuple(
                    slice(ranges[s.name].begin, ranges[s.name].end)
                    if isinstance(s, p.Index)
                    else slice(None)
                    for s in self.statement.subscripts
                )
            ] = True
        return written

    def _stored(self, target: str, value: V) -> V:
        dtype = self.shaped.program.tensors[target].dtype
        if dtype.is_storage:  # rounded once (Y8)
            return self.arithmetic.convert(value, dtype.computed, dtype)
        return value

    def _write(self, position: int, value: V, written: Array, is_unsure: bool) -> None:
        """Stores a value where something is written, or started."""
        arithmetic, target = self.arithmetic, self.statement.targets[position]
        old = self.tensors[target]
        value = arithmetic.select(arithmetic.exact(written), self._stored(target, value), old)
        if is_unsure:
            value = arithmetic.unknown(value)
        assert written.dtype == BOOL.numpy
        self.tensors[target] = arithmetic.write(old, lambda array: array[...], value)
