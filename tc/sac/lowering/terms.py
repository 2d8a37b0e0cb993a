"""Scalar expressions of a def of tc while it is made: terms, of which equal ones are one object.

    Term ::= number | index | linear | read | use | apply | choice | cast | fold

A term has the type that tc gives its text (Y1, Y2), and, where it is an integer, the interval of
its values. `Terms` makes terms; what is known while a term is made is computed at once, so that
conditions that sizes decide, `x % n` of an index below `n`, and the like do not reach the text.
Long because the rules for sums, quotients, comparisons and choices make each other's terms.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tc.affine.forms import Form, constant_form, variable_form
from tc.affine.intervals import Interval, compared, contains, operation
from tc.dtypes import (
    BOOL,
    FLOAT64,
    UINT64,
    DType,
    Type,
    Weak,
    join,
    limits,
    promote,
    wrap,
)
from tc.errors import TCError

Number: TypeAlias = int | float | bool

COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
_NEGATED = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LARGE = 1 << 62

_ORDERED = frozenset({"<", "<=", ">", ">=", "min", "max", "abs", "/", "%"})
"""Operations whose results on uint64 are others than on int64, beside casts to floats."""


class Term:
    """A term; terms are compared by identity, as equal ones are one object.

    `data` is what the kind of term has beside its operands: the value of a number, the operator,
    the tensor that is read, the variables of a fold. `free` are the indices that occur in the
    term, those that a fold binds not counted; `used` are the arrays of its uses; `size` is the
    number of nodes of its text. `is_scalar_form` says whether the term is made of numbers, indices
    and integer scalars alone, as affine conditions of tc are.
    """

    __slots__ = (
        "args",
        "data",
        "free",
        "height",
        "interval",
        "is_scalar_form",
        "kind",
        "size",
        "type",
        "used",
    )

    def __init__(
        self,
        kind: str,
        data: Any,
        args: tuple[Term, ...],
        type: Type,
        interval: Interval | None,
        free: frozenset[Term] | None = None,
    ) -> None:
        self.kind = kind
        self.data = data
        self.args = args
        self.type, self.interval = type, interval
        below: frozenset[Term] = frozenset().union(*(a.free for a in args))
        self.free: frozenset[Term] = below if free is None else free
        used: frozenset[Any] = frozenset().union(*(a.used for a in args))
        self.used: frozenset[Any] = used | {data} if kind == "use" else used
        self.size: int = min(1 + sum(a.size for a in args), _LARGE)
        self.height: int = 1 + max((a.height for a in args), default=0)
        self.is_scalar_form: bool = (
            (not args or kind not in ("read", "use"))
            and not is_floating(type)
            and all(a.is_scalar_form for a in args)
        )

    def __repr__(self) -> str:
        return f"<{self.kind} {self.data} {list(self.args)}>"


@dataclass(frozen=True, slots=True)
class Variable:
    """What an index is called, if its name is free, and the half-open range of its values."""

    name: str
    begin: int
    end: int


@dataclass(eq=False, slots=True)
class Tensor:
    """An input, a temporary or a result of the def that is made. `name` is settled at the end."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    interval: Interval | None = None


TermForm: TypeAlias = Form[Term, int]
"""An affine form of integer terms."""


def interval_of(form: TermForm) -> Interval:
    """The least and the greatest value of an affine form of terms."""
    box = {}
    for term in form.terms:
        assert term.interval is not None
        box[term] = term.interval
    return form.interval(box)


class Terms:
    """Makes the terms of one def."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Term] = {}
        self._in_own_type: dict[Term, Term] = {}
        self._indices = 0

    def begin_round(self) -> None:
        """Indices count from the first again: a program that is lowered once more gets the terms
        that it had, and with them the bodies of its comprehensions."""
        self._indices = 0

    def _term(
        self,
        kind: str,
        data: Any,
        args: tuple[Term, ...],
        type: Type,
        interval: Interval | None = None,
        free: frozenset[Term] | None = None,
    ) -> Term:
        kept = repr(data) if kind == "number" else data
        if kind == "linear":
            kept = data.constant, *data.terms.items()
        key = (kind, kept, type, args)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = Term(kind, data, args, type, interval, free)
        return made

    # --- leaves -----------------------------------------------------------------------------------

    def number(self, value: Number, type: Type | None = None) -> Term:
        """A literal; without a type a weak one, or a bool."""
        if type is None:
            type = Weak.FLOAT if isinstance(value, float) else Weak.LITERAL
            type = BOOL if isinstance(value, bool) else type
        if (isinstance(type, DType) and type.is_float) or type is Weak.FLOAT:
            value = float(value)
        elif type == BOOL:
            value = bool(value)
        interval = None if isinstance(value, float) else (int(value), int(value))
        return self._term("number", value, (), type, interval)

    def index(self, name: str, begin: int, end: int) -> Term:
        """A new index variable of a range that may be empty."""
        self._indices += 1
        variable = Variable(name, begin, end)
        made = self._term(
            "index",
            (variable, self._indices),
            (),
            Weak.SIZE,
            (begin, max(begin, end - 1)),
            frozenset(),
        )
        made.free = frozenset({made})
        return made

    def standard_index(self, place: int, like: Term) -> Term:
        """An index of the same range as another one that is the same for each place."""
        variable = Variable("", like.data[0].begin, like.data[0].end)
        made = self._term(
            "index", (variable, ("place", place)), (), Weak.SIZE, like.interval, frozenset()
        )
        made.free = frozenset({made})
        return made

    def read(self, tensor: Tensor, subscripts: tuple[Term, ...]) -> Term:
        return self._term("read", tensor, subscripts, tensor.dtype, tensor.interval)

    def use(
        self, array: Any, subscripts: tuple[Term, ...], type: Type, interval: Interval | None
    ) -> Term:
        """An element of an array of which it is not settled whether it becomes a temporary."""
        return self._term("use", array, subscripts, type, interval, None)

    # --- integers that sizes and indices give -----------------------------------------------------

    def linear_form(self, term: Term) -> TermForm | None:
        """An integer that sizes and indices give as a linear form; None for any other term."""
        is_wide = isinstance(term.type, Weak) or (term.type.kind == "int" and term.type.bits >= 32)
        if term.kind == "number" and is_wide and not isinstance(term.data, float | bool):
            return constant_form(int(term.data))
        if term.kind == "linear":
            return term.data  # type: ignore[no-any-return]
        if term.type in (Weak.SIZE, Weak.LITERAL) and term.interval is not None:
            return variable_form(term)
        return None

    def unwrapped(self, term: Term) -> TermForm | None:
        """An integer of indices and numbers as a linear form, where no cast or operation in it
        wraps; None for any other term."""
        form = self.linear_form(term)
        if form is not None or is_floating(term.type) or term.type == BOOL:
            return form
        if term.kind == "cast":
            form = self.unwrapped(term.args[0])
            return form if form is not None and interval_of(form) == term.interval else None
        if term.kind == "call" and term.data == "abs" and isinstance(term.type, DType):
            form = self.unwrapped(term.args[0])
            if form is None or -interval_of(form)[0] > limits(term.type)[1]:
                return None
            return self.linear_form(self.absolute(self.linear(form)))
        if term.kind != "apply" or term.data not in ("+", "-", "*", "min", "max"):
            return None
        left, right = (self.unwrapped(arg) for arg in term.args)
        if term.data in ("min", "max"):
            if left is None or right is None:
                return None
            return self.linear_form(self.extreme(term.data, self.linear(left), self.linear(right)))
        if (
            left is None
            or right is None
            or term.interval != operation(term.data, interval_of(left), interval_of(right))
        ):
            return None
        if term.data in "+-":
            return left.plus(right, 1 if term.data == "+" else -1)
        if left.terms and right.terms:
            return None
        factor, other = (right, left) if left.terms else (left, right)
        return other.times(factor.constant)

    def affine(self, term: Term) -> Term:
        """An integer of indices with `max(x, -x)` for `abs(x)`, which is not affine (G2)."""
        if term.kind == "index":
            return term
        found = [n for n in walk([term]) if n.kind == "call" and n.data == "abs"]
        new: dict[Term, Term] = {}
        for node in sorted(found, key=lambda node: node.height):
            if isinstance(node.type, Weak):
                operand = self.replaced(node.args[0], new)
                new[node] = self.extreme("max", operand, self.negative(operand))
        return self.replaced(term, new)

    def linear(self, form: TermForm) -> Term:
        """The term of an affine form."""
        if not form.terms:
            return self.number(form.constant)
        if form.constant == 0 and len(form.terms) == 1:
            ((term, factor),) = form.terms.items()
            if factor == 1:
                return term
        return self._term("linear", form, tuple(form.terms), Weak.SIZE, interval_of(form))

    # --- operators --------------------------------------------------------------------------------

    def arithmetic(self, op: str, left: Term, right: Term) -> Term:
        """`left op right` for + - * / %, in the type that tc gives it."""
        left, right = self._fitting(left, right)
        first, second = self.linear_form(left), self.linear_form(right)
        is_weak = isinstance(left.type, Weak) or isinstance(right.type, Weak)
        if first is not None and second is not None and is_weak:
            found = self._whole(op, right, first, second)
            if found is not None:
                return found
        type = promote(left.type, right.type)
        neutral = {"+": 0, "-": 0, "*": 1}.get(op)
        if neutral is not None and type != BOOL and not is_floating(type):
            if right.kind == "number" and right.data == neutral and left.type == type:
                return left
            if op != "-" and left.kind == "number" and left.data == neutral and right.type == type:
                return right
        interval = _operation(op, left.interval, right.interval)
        if isinstance(type, DType):
            interval = _within(interval, type)
            known = left.kind == right.kind == "number" and not is_floating(type)
            if known and interval is not None and interval[0] == interval[1]:
                return self.number(interval[0], type)
        return self._term("apply", op, (left, right), type, interval)

    def _whole(self, op: str, right: Term, first: TermForm, second: TermForm) -> Term | None:
        """Sums, products by numbers, and quotients by positive numbers of affine forms."""
        if op in "+-":
            return self.linear(first.plus(second, 1 if op == "+" else -1))
        if op == "*":
            if second.terms and not first.terms:
                first, second = second, first
            if second.terms:
                return None
            return self.linear(first.times(second.constant))
        if second.terms or second.constant == 0:
            return None
        n = second.constant
        if not first.terms:
            return self.number(first.constant // n if op == "/" else first.constant % n)
        if n < 0:
            return None
        whole = {t: f // n for t, f in first.terms.items() if f % n == 0}
        rest = {t: f for t, f in first.terms.items() if f % n != 0}
        outer, inner = Form(first.constant // n, whole), Form(first.constant % n, rest)
        low, high = interval_of(inner)
        if low // n == high // n:  # the rest stays between two multiples
            shift = low // n
            if op == "/":
                return self.linear(outer.shifted(shift))
            return self.linear(inner.shifted(-shift * n))
        if op == "/":
            quotient = self._term(
                "apply", "/", (self.linear(inner), right), Weak.SIZE, (low // n, high // n)
            )
            return self.linear(outer + variable_form(quotient))
        inside = inner if whole else first
        return self._term("apply", "%", (self.linear(inside), right), Weak.SIZE, (0, n - 1))

    def negative(self, operand: Term) -> Term:
        form = self.linear_form(operand)
        if form is not None and isinstance(operand.type, Weak):
            return self.linear(form.times(-1))
        if operand.kind == "number" and isinstance(operand.data, float):
            return self.number(-operand.data, operand.type)
        type = promote(operand.type, operand.type)
        interval = None
        if operand.interval is not None and not is_floating(type):
            interval = (-operand.interval[1], -operand.interval[0])
            interval = _within(interval, type) if isinstance(type, DType) else interval
        return self._term("apply", "neg", (operand,), type, interval)

    def extreme(self, op: str, left: Term, right: Term) -> Term:
        """`min` or `max` of two terms."""
        if left is right:
            return left
        left, right = self._fitting(left, right)
        a, b = left.interval, right.interval
        type = join(left.type, right.type)
        if a is not None and b is not None and not is_floating(type):
            smaller = left if op == "min" else right
            larger = right if op == "min" else left
            if (a[1] <= b[0] and smaller.type == type) or (a[1] <= b[0] and isinstance(type, Weak)):
                return smaller
            if (b[1] <= a[0] and larger.type == type) or (b[1] <= a[0] and isinstance(type, Weak)):
                return larger
            pick = min if op == "min" else max
            interval = (pick(a[0], b[0]), pick(a[1], b[1]))
            return self._term("apply", op, (left, right), type, interval)
        return self._term("apply", op, (left, right), type, None)

    def in_own_type(self, term: Term) -> Term:
        """An integer as its type has it, where tc computes in int64 (Y9): what may wrap is cast."""
        memo = self._in_own_type

        def visit(node: Term) -> Term:
            if not node.args or node.kind in ("read", "use", "fold"):
                return node
            if node not in memo:
                memo[node] = self._wrapped(self.rebuilt(node, tuple(map(visit, node.args))))
            return memo[node]

        return visit(term)

    def as_subscript(self, term: Term) -> Term:
        """An integer as its type has it in a subscript, of which tc computes all parts in int64.

        Raises TCError where uint64 is compared in it, or becomes a float: in int64, its values are
        others."""
        for node in walk([term]):
            is_ordered = node.kind in ("apply", "call") and node.data in _ORDERED
            is_ordered |= node.kind == "cast" and is_floating(node.data)
            if is_ordered and any(arg.type == UINT64 for arg in node.args):
                raise TCError(
                    "tc computes indices in int64, which orders uint64 otherwise", rule="C26"
                )
        return self.in_own_type(term)

    def _wrapped(self, node: Term) -> Term:
        """A cast to the type that a term has, where an operation may leave that type."""
        type = node.type
        is_operation = node.kind == "apply" or (node.kind == "call" and node.data == "abs")
        if not is_operation or not isinstance(type, DType) or not type.is_integer:
            return node
        if type.bits == 64 or type == BOOL or node.interval not in (None, limits(type)):
            return node
        return self._term("cast", type, (node,), type, node.interval)

    def _never_affine(self, term: Term) -> Term:
        """The same value in a form that tc does not compute in int64, which has another order than
        uint64: no affine condition has a call of `abs`."""
        if term.type != UINT64:
            return self.rebuilt(term, tuple(map(self._never_affine, term.args)))
        is_call = term.kind == "call"
        return term if is_call else self._term("call", "abs", (term,), UINT64, term.interval)

    def _fitting(self, left: Term, right: Term) -> tuple[Term, Term]:
        """Two operands, where one is computed from literals, sizes, indices, and the type that it
        takes beside the other one does not hold it: wrapped. The levels refuse literals themselves
        that do not fit (C5)."""
        for value, other in ((left, right), (right, left)):
            if not isinstance(value.type, Weak) or not isinstance(other.type, DType):
                continue
            if other.type == BOOL or not other.type.is_integer or value.interval is None:
                continue
            type = promote(value.type, other.type)
            assert isinstance(type, DType)
            if not contains(limits(type), value.interval):
                wrapped = self.cast(value, type)
                return (wrapped, right) if value is left else (left, wrapped)
        return left, right

    def compare(self, op: str, left: Term, right: Term) -> Term:
        left, right = self._fitting(left, right)
        if left.is_scalar_form and right.is_scalar_form:  # affine conditions of tc (Y9)
            left, right = self.in_own_type(left), self.in_own_type(right)
            if any(node.type == UINT64 for node in walk([left, right])):
                left, right = self._never_affine(left), self._never_affine(right)
        first, second = self.linear_form(left), self.linear_form(right)
        if first is not None and second is not None:
            difference = first - second
            settled = compared(op, interval_of(difference), (0, 0))
            if settled is not None:
                return self.number(settled)
            positive = {t: f for t, f in difference.terms.items() if f > 0}
            negative = {t: -f for t, f in difference.terms.items() if f < 0}
            constant = difference.constant
            if positive:
                left = self.linear(Form(max(constant, 0) if negative else 0, positive))
                right = self.linear(Form(max(-constant, 0) if negative else -constant, negative))
            else:
                left, right = self.number(constant), self.linear(Form(0, negative))
        elif not is_floating(left.type) and not is_floating(right.type):
            a, b = left.interval, right.interval
            settled = None if a is None or b is None else compared(op, a, b)
            if settled is not None:
                return self.number(settled)
        return self._term("apply", op, (left, right), BOOL, (0, 1))

    def both(self, left: Term, right: Term) -> Term:
        """`left && right`, the second computed only where the first holds."""
        left, right = self.truth(left), self.truth(right)
        if left.kind == "number":
            return right if left.data else left
        if right.kind == "number" and right.data:
            return left
        if left is right:
            return left
        return self._term("apply", "&&", (left, right), BOOL, (0, 1))

    def either(self, left: Term, right: Term) -> Term:
        left, right = self.truth(left), self.truth(right)
        if left.kind == "number":
            return left if left.data else right
        if right.kind == "number" and not right.data:
            return left
        if left is right:
            return left
        return self._term("apply", "||", (left, right), BOOL, (0, 1))

    def negated(self, operand: Term) -> Term:
        operand = self.truth(operand)
        if operand.kind == "number":
            return self.number(not operand.data)
        if operand.kind == "apply" and operand.data == "!":
            return operand.args[0]
        if operand.kind == "apply" and operand.data in COMPARISONS:
            left, right = operand.args
            if not (is_floating(left.type) or is_floating(right.type)):  # NaN
                return self._term("apply", _NEGATED[operand.data], operand.args, BOOL, (0, 1))
        return self._term("apply", "!", (operand,), BOOL, (0, 1))

    def truth(self, operand: Term) -> Term:
        """The operand as a condition: nonzero is true."""
        if operand.type == BOOL:
            return operand
        if operand.kind == "number":
            return self.number(bool(operand.data))
        zero = self.number(0.0) if is_floating(operand.type) else self.number(0)
        return self.compare("!=", operand, zero)

    def choice(self, condition: Term, then: Term, otherwise: Term) -> Term:
        condition = self.truth(condition)
        if condition.kind == "number":
            return then if condition.data else otherwise
        if then is otherwise:
            return then
        then, otherwise = self._fitting(then, otherwise)
        type = join(then.type, otherwise.type)
        interval = None
        if then.interval is not None and otherwise.interval is not None:
            interval = (
                min(then.interval[0], otherwise.interval[0]),
                max(then.interval[1], otherwise.interval[1]),
            )
        if is_floating(type):
            interval = None
        return self._term("choice", None, (condition, then, otherwise), type, interval)

    def cast(self, operand: Term, dtype: DType) -> Term:
        """A cast of the text: integers wrap, nonzero is true."""
        if operand.type == dtype:
            return operand
        if operand.kind == "number" and not is_floating(dtype):
            value = operand.data
            if dtype == BOOL:
                return self.number(bool(value))
            if not isinstance(value, float):
                return self.number(wrap(int(value), dtype), dtype)
        is_whole = operand.kind == "number" and not isinstance(operand.data, float)
        if is_whole and dtype.is_float and abs(operand.data) < 2**53:
            operand = self.number(operand.data)
            return self._term("cast", dtype, (operand,), dtype, None)
        if dtype == FLOAT64 and (known := _weak_float(operand)) is not None:
            return self.number(known, dtype)
        interval = operand.interval
        if dtype == BOOL:
            return self.truth(operand)
        if interval is not None and dtype.is_integer and not is_floating(operand.type):
            interval = _within(interval, dtype)
        elif dtype.is_integer:
            interval = limits(dtype)
        else:
            interval = None
        return self._term("cast", dtype, (operand,), dtype, interval)

    def call(self, function: str, args: tuple[Term, ...], type: Type) -> Term:
        return self._term("call", function, args, type, None)

    def absolute(self, operand: Term) -> Term:
        type = operand.type
        if operand.kind == "number" and isinstance(operand.type, Weak):
            return self.number(abs(operand.data))
        interval = None
        if operand.interval is not None and not is_floating(type):
            low, high = operand.interval
            if low >= 0:
                return operand
            least = 0 if low <= 0 <= high else min(abs(low), abs(high))
            interval = (least, max(abs(low), abs(high)))
            interval = _within(interval, type) if isinstance(type, DType) else interval
        return self._term("call", "abs", (operand,), type, interval)

    # --- folds ------------------------------------------------------------------------------------

    def fold(self, op: str, indices: Sequence[Term], guard: Term, term: Term, type: DType) -> Term:
        """The fold by `op` of `term` over all values of `indices` for which `guard` holds.

        The indices are replaced by ones that are the same for equal folds, so that equal folds are
        one term.
        """
        if term.kind == "fold" and term.data[0] == op and term.type == type == term.data[2]:
            inner = tuple(self.index(b.data[0].name, *_range(b)) for b in term.data[1])
            renamed = dict(zip(term.data[1], inner, strict=True))
            below, body = (self.replaced(part, renamed) for part in term.args)
            if not (below.free | body.free) & frozenset(term.data[1]):
                indices, guard, term = [*indices, *inner], self.both(guard, below), body
        level = 1 + max(_levels(guard), _levels(term))
        bound = tuple(
            self._term(
                "index",
                (index.data[0], ("fold", level, place)),
                (),
                Weak.SIZE,
                index.interval,
                frozenset(),
            )
            for place, index in enumerate(indices)
        )
        for each in bound:
            each.free = frozenset({each})
        renamed = dict(zip(indices, bound, strict=True))
        guard, term = self.replaced(guard, renamed), self.replaced(term, renamed)
        free = (guard.free | term.free) - frozenset(bound)
        return self._term("fold", (op, bound, type), (guard, term), type, None, free)

    # --- rewriting --------------------------------------------------------------------------------

    def replaced(self, term: Term, values: Mapping[Term, Term]) -> Term:
        """The term with other terms for some indices, or for whole uses and folds."""
        if not values:
            return term
        memo: dict[Term, Term] = dict(values)
        targets = frozenset(values)
        only_indices = all(t.kind == "index" for t in targets)

        def visit(node: Term) -> Term:
            found = memo.get(node)
            if found is not None:
                return found
            if not node.args or (only_indices and not node.free & targets):
                memo[node] = node
                return node
            memo[node] = made = self.rebuilt(node, tuple(map(visit, node.args)))
            return made

        return visit(term)

    def rebuilt(self, node: Term, args: tuple[Term, ...]) -> Term:
        """A term of the same kind with other operands."""
        if args == node.args:
            return node
        match node.kind:
            case "linear":
                total: TermForm = constant_form(node.data.constant)
                for part, factor in zip(args, node.data.terms.values(), strict=True):
                    form = self.linear_form(part)
                    if form is None:  # an integer of a tensor has come in
                        return self._unfolded(node, args)
                    total = total.plus(form, factor)
                return self.linear(total)
            case "read":  # of which arrays of the text are inlined in subscripts
                return self.read(node.data, tuple(map(self.as_subscript, args)))
            case "use":
                return self.use(node.data, args, node.type, node.interval)
            case "choice":
                return self.choice(*args)
            case "cast" if node.args[0].type == node.data:  # of `in_own_type`
                return self._wrapped(args[0])
            case "cast":
                return self.cast(args[0], node.data)
            case "call" if node.data == "abs":
                return self.absolute(args[0])
            case "call":
                return self.call(node.data, args, node.type)
            case "fold":
                op, bound, type = node.data
                free = (args[0].free | args[1].free) - frozenset(bound)
                return self._term("fold", (op, bound, type), args, type, None, free)
        op = node.data
        if op == "neg":
            return self.negative(args[0])
        if op == "!":
            return self.negated(args[0])
        if op in ("min", "max"):
            return self.extreme(op, *args)
        if op == "&&":
            return self.both(*args)
        if op == "||":
            return self.either(*args)
        if op in COMPARISONS:
            return self.compare(op, *args)
        return self.arithmetic(op, *args)

    def _unfolded(self, node: Term, args: tuple[Term, ...]) -> Term:
        total = self.number(node.data.constant)
        for part, factor in zip(args, node.data.terms.values(), strict=True):
            total = self.arithmetic("+", total, self.arithmetic("*", self.number(factor), part))
        return total


def _weak_float(term: Term) -> float | None:
    """The value of a floating number of a text, or of a quotient of two, in double precision."""
    if term.type is not Weak.FLOAT:
        return None
    if term.kind == "number":
        return float(term.data)
    if term.kind == "apply" and term.data == "/":
        left, right = term.args
        if left.kind == right.kind == "number" and float(right.data):
            return float(left.data) / float(right.data)
    return None


def _range(index: Term) -> tuple[int, int]:
    return index.data[0].begin, index.data[0].end


def _levels(term: Term) -> int:
    """The number of folds within each other in a term."""
    found: dict[Term, int] = {}

    def visit(node: Term) -> int:
        if node not in found:
            inner = max(map(visit, node.args), default=0)
            if node.kind == "fold":
                inner = max(inner, 1 + inner)
            found[node] = inner
        return found[node]

    return visit(term)


def walk(terms: Iterable[Term]) -> Iterator[Term]:
    """The terms and all below them, each once."""
    stack, seen = list(terms), set()
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            yield node
            stack.extend(node.args)


def is_floating(type: Type) -> bool:
    """Whether values of a type are floats, weak ones included."""
    return type is Weak.FLOAT or (isinstance(type, DType) and type.is_float)


def _operation(op: str, left: Interval | None, right: Interval | None) -> Interval | None:
    return None if left is None or right is None else operation(op, left, right)


def _within(interval: Interval | None, type: DType) -> Interval | None:
    """The interval after wrapping to a type."""
    if type.is_float:
        return None
    if interval is None:
        return limits(type)
    return interval if contains(limits(type), interval) else limits(type)
