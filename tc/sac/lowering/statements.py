"""From terms to statements: which arrays and folds become temporaries, and in what order.

An array that the text names is inlined where it is used once, or where its elements cost next to
nothing; else it is a temporary. So is a fold that is not a whole statement. Equal temporaries are
one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tc.dtypes import BOOL, FLOAT64, INT32, INT64, DType, Type, Weak
from tc.frontend.operator_parser import MAX_HEIGHT
from tc.sac.lowering.assumptions import Assumptions, conjuncts, is_safe
from tc.sac.lowering.def_text import Statement
from tc.sac.lowering.terms import COMPARISONS, Tensor, Term, Terms, is_floating, walk

SMALL = 8
"""The most nodes of a term that is written again wherever it is used."""

MAX_INLINED = MAX_HEIGHT // 2
"""The most operations, each on the result of the one before, to which inlined arrays may add up."""

MAX_REPEATED = 64
"""The most nodes of a term that is written again because it may raise where it is not needed."""

MANY = 8
"""The number of uses from which on even a small term is a temporary, unless it only moves
elements."""


@dataclass(eq=False, slots=True)
class NamedArray:
    """An array that the text names, of which it is not settled whether it becomes a temporary.

    `term` is its element at `axes`; `captured` are the indices around its definition that the
    element depends on. `is_read_apart`: a selection from it is checked where it is read, so that it
    has to be an array.
    """

    name: str
    axes: tuple[Term, ...]
    captured: tuple[Term, ...]
    term: Term
    is_read_apart: bool = False

    @property
    def variables(self) -> tuple[Term, ...]:
        return (*self.captured, *self.axes)


def stored(type: Type) -> DType:
    """The type of a tensor that holds values of a type: weak ones as they are computed."""
    if isinstance(type, DType):
        return type
    return FLOAT64 if type is Weak.FLOAT else INT64


def is_weak(term: Term) -> bool:
    """Whether the text of a term, which reads no tensor, takes the type that it meets (Y1)."""
    match term.kind:
        case "number":
            return isinstance(term.type, Weak)
        case "choice":
            return all(map(is_weak, term.args[1:]))
        case "apply" if term.data in (*COMPARISONS, "&&", "||", "!"):
            return False
        case "index" | "linear" | "apply" | "call":
            return all(map(is_weak, term.args))
    return False


def moves_only(term: Term) -> bool:
    """Whether a term is an element of a tensor, a number or an index, or a choice of such by
    indices: what is written again costs less than what is stored."""
    for node in walk([term]):
        if node.kind in ("number", "index", "linear"):
            continue
        if node.kind == "read" and all(not _reads(arg) for arg in node.args):
            continue
        if (
            node.kind == "apply"
            and isinstance(node.type, Weak)
            and node.data in ("/", "%", "min", "max")
        ):
            continue
        return False
    return True


def _reads(term: Term) -> bool:
    return any(node.kind in ("read", "use", "fold") for node in walk([term]))


def is_constant(term: Term) -> bool:
    """Whether indices alone decide a term, by operators that cost nothing where these are
    numbers."""
    return not any(
        node.kind in ("read", "use", "fold") or (node.kind == "call" and is_floating(node.type))
        for node in walk([term])
    )


def is_small(term: Term) -> bool:
    return term.size <= SMALL and not any(
        node.kind in ("fold", "call", "use") or (node.kind == "apply" and node.data in ("/", "%"))
        for node in walk([term])
    )


@dataclass(eq=False)
class Assembly:
    """Makes the statements of a def from those of its results."""

    terms: Terms
    statements: list[Statement]
    arrays: Sequence[NamedArray]
    """In the order of definition: a later one may use an earlier one."""
    shared: dict[Any, tuple[Tensor, tuple[int, ...]]] = field(default_factory=dict)
    """The tensors of terms, by `_canonical`; and the places there of the index of each axis."""
    names: dict[Tensor, str] = field(default_factory=dict)

    def assembled(self) -> list[Statement]:
        for array in reversed(self.arrays):
            self._settle(array)
        waiting = list(self.statements)
        while waiting:
            waiting += self._fold_apart(waiting.pop())
        for statement in self.statements:
            self._compute_as_stored(statement)
        return _ordered(self.statements)

    def _compute_as_stored(self, statement: Statement) -> None:
        """Casts a weak right side to the type of its tensor: alone, tc computes weak values as
        int32 or float32 (Y1)."""
        dtype = statement.target.dtype
        if dtype not in (BOOL, INT32) and is_weak(statement.term):
            statement.term = self.terms.cast(statement.term, dtype)

    # --- arrays -----------------------------------------------------------------------------------

    def _settle(self, array: NamedArray) -> None:
        """Replaces the uses of an array by its elements or by reads of a temporary."""
        users = [s for s in self.statements if self._uses(s, array)]
        if not users:
            return
        stored_in = None
        if not self._is_inlined(array, users):
            stored_in = self._tensor_of(array)
        for statement in [s for s in self.statements if self._uses(s, array)]:
            while uses := self._uses(statement, array):
                new = {use: self._element(array, stored_in, use) for use in uses}
                statement.term = self.terms.replaced(statement.term, new)

    def _uses(self, statement: Statement, array: NamedArray) -> list[Term]:
        if array not in statement.term.used:
            return []
        return [n for n in walk([statement.term]) if n.kind == "use" and n.data is array]

    def _element(
        self, array: NamedArray, stored_in: tuple[Tensor, tuple[Term, ...]] | None, use: Term
    ) -> Term:
        at = dict(zip(array.variables, use.args, strict=True))
        if stored_in is None:
            return self.terms.replaced(array.term, at)
        tensor, axes = stored_in
        return self.terms.read(tensor, tuple(at[v] for v in axes))

    def _is_inlined(self, array: NamedArray, users: list[Statement]) -> bool:
        if array.is_read_apart:
            return False
        if moves_only(array.term):
            return True
        if any(s.term.height + array.term.height > MAX_INLINED for s in users):
            return False
        if _has_fold(array.term) and not all(_is_always_used(s, array) for s in users):
            return (
                False  # a fold is computed for all indices, whatever conditions its use is behind
            )
        count = evaluations = 0
        for statement in users:
            found = _Occurrences(self.terms, array).of(statement.term, _Box.of(statement.indices))
            count, evaluations = count + found[0], evaluations + found[1]
        points = max(1, _points(array.variables))
        if count == 1 and evaluations <= points:
            return True
        if count <= MANY and is_small(array.term):
            return True
        return evaluations <= MANY * points and self._fails_alone(array, users)

    def _fails_alone(self, array: NamedArray, users: list[Statement]) -> bool:
        """Whether the elements of an array may raise, and are needed behind conditions alone: what
        no result needs raises nothing (C10)."""
        if array.term.size > MAX_REPEATED or _has_fold(array.term):
            return False
        if any(_is_always_used(statement, array) for statement in users):
            return False
        return not is_safe(array.term, Assumptions(self.terms))

    def _tensor_of(self, array: NamedArray) -> tuple[Tensor, tuple[Term, ...]]:
        """The temporary of an array, or the result that is the array, and the variables that its
        axes are."""
        key, ordered = self._canonical(array.term, array.variables)
        if key in self.shared:
            tensor, places = self.shared[key]
            return tensor, tuple(ordered[k] for k in places)
        variables = array.variables
        whole = next((s for s in self.statements if self._is_whole(s, array)), None)
        if whole is not None:
            whole.term = self.terms.replaced(
                array.term, dict(zip(array.axes, whole.indices, strict=True))
            )
            tensor = whole.target
        else:
            variables = _as_read(array.term, variables)
            shape = tuple(v.data[0].end for v in variables)
            dtype = stored(array.term.type)
            tensor = Tensor(
                array.name, dtype, shape, None if dtype.is_float else array.term.interval
            )
            self.statements.append(Statement(tensor, variables, "", (), None, array.term))
        self.shared[key] = tensor, tuple(map(ordered.index, variables))
        return tensor, variables

    def _is_whole(self, statement: Statement, array: NamedArray) -> bool:
        """Whether a statement does no more than copy the array."""
        term = statement.term
        return (
            term.kind == "use"
            and term.data is array
            and not array.captured
            and term.args == statement.indices
            and statement.target.dtype == array.term.type
        )

    def _canonical(self, term: Term, variables: Sequence[Term]) -> tuple[Any, tuple[Term, ...]]:
        """A key that is equal for terms that differ only in the names of their indices, and the
        variables in the order that the key has."""
        ordered = tuple(dict.fromkeys((*_in_order(term, variables), *variables)))
        standard = {v: self.terms.standard_index(place, v) for place, v in enumerate(ordered)}
        return (self.terms.replaced(term, standard), tuple(standard.values())), ordered

    # --- folds ------------------------------------------------------------------------------------

    def _fold_apart(self, statement: Statement) -> list[Statement]:
        """Makes a statement that is a fold as a whole one, gives each other fold in it a temporary,
        and returns the statements of these."""
        term = statement.term
        if not statement.op and term.kind == "fold" and stored(term.type) == statement.target.dtype:
            op, bound, _ = term.data
            statement.op, statement.reduced = op, bound
            statement.guard, statement.term = term.args
        parts = [statement.term] if statement.guard is None else [statement.guard, statement.term]
        folds = dict.fromkeys(f for part in parts for f in _outermost_folds(part))
        if not folds:
            return []
        new: dict[Term, Term] = {}
        made: list[Statement] = []
        for fold in folds:
            around = (*statement.indices, *statement.reduced)
            free = tuple(v for v in around if v in fold.free)  # as the statement runs
            key, ordered = self._canonical(fold, free)
            if key not in self.shared:
                op, bound, dtype = fold.data
                shape = tuple(v.data[0].end for v in free)
                tensor = Tensor(_fold_name(op), stored(dtype), shape)
                guard, body = fold.args
                found = Statement(tensor, free, op, bound, guard, body)
                self.shared[key] = tensor, tuple(map(ordered.index, free))
                self.statements.append(found)
                made.append(found)
            tensor, places = self.shared[key]
            new[fold] = self.terms.read(tensor, tuple(ordered[k] for k in places))
        statement.term = self.terms.replaced(statement.term, new)
        if statement.guard is not None:
            statement.guard = self.terms.replaced(statement.guard, new)
        return made


def _as_read(term: Term, variables: tuple[Term, ...]) -> tuple[Term, ...]:
    """The variables of an array in the order in which all tensors that have an axis for each of
    them are read: the array then lies in memory as these do. As they are where there is no such
    tensor, or two of other orders."""
    orders = set()
    for node in walk([term]):
        if node.kind in ("read", "use"):
            found = tuple(v for each in node.args for v in variables if v in each.free)
            if len(found) == len(variables) and set(found) == set(variables):
                orders.add(found)
    return orders.pop() if len(orders) == 1 else variables


def _fold_name(op: str) -> str:
    return {"+": "total", "*": "product", "min": "least", "max": "greatest"}[op]


def _is_always_used(statement: Statement, array: NamedArray) -> bool:
    """Whether a statement uses an array for each of its instances, whatever conditions hold."""
    guard = statement.guard
    is_guarded = guard is not None and guard.kind != "number"
    stack, seen = [statement.term if not is_guarded else guard], set()
    while stack:
        node = stack.pop()
        if node is None or node in seen or array not in node.used:
            continue
        seen.add(node)
        if node.kind == "use" and node.data is array:
            return True
        is_lazy = node.kind == "choice" or (node.kind == "apply" and node.data in ("&&", "||"))
        if node.kind == "fold":
            is_lazy = node.args[0].kind != "number"
        stack.extend(node.args[:1] if is_lazy else node.args)
    return False


def _points(indices: Sequence[Term]) -> int:
    return math.prod(max(0, i.data[0].end - i.data[0].begin) for i in indices)


def _has_fold(term: Term) -> bool:
    return any(node.kind == "fold" for node in walk([term]))


@dataclass(frozen=True, slots=True)
class _Box:
    """The points for which a term is computed: at most `count` of those in the ranges of some
    indices."""

    ranges: tuple[tuple[Term, int, int], ...]
    count: int

    @classmethod
    def of(cls, indices: Sequence[Term]) -> _Box:
        return cls(tuple((i, i.data[0].begin, i.data[0].end) for i in indices), _points(indices))

    def times(self, indices: Sequence[Term]) -> _Box:
        """The points of a fold over some indices, for each of these points."""
        inner = _Box.of(indices)
        return _Box((*self.ranges, *inner.ranges), self.count * inner.count)

    def split(self, terms: Terms, condition: Term) -> tuple[_Box, _Box]:
        """The points for which a condition may hold, and those for which it may not."""
        bounds = {index: (begin, end) for index, begin, end in self.ranges}
        is_exact = True
        for part in conjuncts(condition):
            found = _bound(terms, part)
            if found is None or found[0] not in bounds:
                is_exact = False
                continue
            index, low, high = found
            begin, end = bounds[index]
            bounds[index] = (
                begin if low is None else max(begin, low),
                end if high is None else min(end, high),
            )
        ranges = tuple((index, *bounds[index]) for index, *_ in self.ranges)
        inside = math.prod(max(0, end - begin) for _, begin, end in ranges)
        whole = math.prod(max(0, end - begin) for _, begin, end in self.ranges)
        left = self.count - inside if is_exact and self.count == whole else self.count
        return _Box(ranges, min(inside, self.count)), _Box(self.ranges, left)


def _bound(terms: Terms, condition: Term) -> tuple[Term, int | None, int | None] | None:
    """An index, and the half-open range that a comparison with a number leaves it."""
    if condition.kind != "apply" or condition.data not in ("<", "<=", ">", ">="):
        return None
    left, right = (terms.linear_form(arg) for arg in condition.args)
    if left is None or right is None:
        return None
    difference = left - right
    if len(difference.terms) != 1:
        return None
    ((index, factor),) = difference.terms.items()
    if index.kind != "index" or abs(factor) != 1:
        return None
    op, least = condition.data, -factor * difference.constant
    if (op in ("<", "<=")) == (factor == 1):  # at most, or less than
        return index, None, least + (op in ("<=", ">="))
    return index, least + (op in ("<", ">")), None


@dataclass
class _Occurrences:
    """How often the text of a term uses an array, and for how many points."""

    terms: Terms
    array: NamedArray
    found: dict[tuple[Term, _Box], tuple[int, int]] = field(default_factory=dict)

    def of(self, node: Term, box: _Box) -> tuple[int, int]:
        if self.array not in node.used:
            return 0, 0
        key = node, box
        if key not in self.found:
            is_use = node.kind == "use" and node.data is self.array
            count, evaluations = (1, box.count) if is_use else (0, 0)
            for arg, around in zip(node.args, self._around(node, box), strict=True):
                below = self.of(arg, around)
                count, evaluations = count + below[0], evaluations + below[1]
            self.found[key] = count, evaluations
        return self.found[key]

    def _around(self, node: Term, box: _Box) -> Sequence[_Box]:
        if node.kind == "choice":
            return box, *box.split(self.terms, node.args[0])
        inside = box.times(node.data[1]) if node.kind == "fold" else box
        return (inside,) * len(node.args)


def _outermost_folds(term: Term) -> list[Term]:
    found: list[Term] = []
    stack, seen = [term], set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.kind == "fold":
            found.append(node)
        else:
            stack.extend(reversed(node.args))
    return found


def _in_order(term: Term, variables: Sequence[Term]) -> list[Term]:
    """Those of some indices that are in a term, in the order of its text."""
    wanted = frozenset(variables)
    found: dict[Term, None] = {}
    seen: set[Term] = set()

    def visit(node: Term) -> None:
        if node in seen:
            return
        seen.add(node)
        if node in wanted:
            found[node] = None
        for arg in node.args:
            visit(arg)

    visit(term)
    return list(found)


def _ordered(statements: Sequence[Statement]) -> list[Statement]:
    """The statements, each after those that write what it reads."""
    writers = {s.target: s for s in statements}
    ordered: dict[int, Statement] = {}

    def visit(statement: Statement) -> None:
        if id(statement) in ordered:
            return
        parts = [statement.term] if statement.guard is None else [statement.guard, statement.term]
        for tensor in dict.fromkeys(_tensors(parts)):
            if tensor in writers:
                visit(writers[tensor])
        ordered[id(statement)] = statement

    for statement in statements:
        visit(statement)
    return list(ordered.values())


def _tensors(parts: Sequence[Term]) -> list[Tensor]:
    return [n.data for n in walk(parts) if n.kind == "read"]
