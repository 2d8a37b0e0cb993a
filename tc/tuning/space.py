"""The candidates of a problem: what the chooser, and who sets its options, could have decided.

A *point* is a mapping from the names of genes to values, both texts. Genes are options of a program
("option fusion", ...) and the decisions of the chooser (`tc.polyhedral.target`), which depend on
each other: a point may lack genes, which have their default then, and genes that a point makes
meaningless are passed over. So every point is a candidate, unless the device has no room for it;
points whose kernels are alike are one candidate.

The features of a kernel, for a model of times, are how often the kernel does what, counted without
a run (`features_of`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log1p
from typing import Any, TypeAlias

from tc.backends.base import Backend
from tc.errors import BackendError, InternalError
from tc.kernel import ir
from tc.kernel.analysis.estimate import bound_value
from tc.kernel.ir import For
from tc.kernel.printer import to_text
from tc.kernel.walk import every_statement, launched
from tc.options import FUSIONS, Options
from tc.pipeline import lower_for, shape_program, target_of
from tc.polyhedral.lowering import Lowering
from tc.polyhedral.target import Decisions
from tc.runtime.fallback import is_fault
from tc.tuning.problem import Problem, Trial

Point: TypeAlias = Mapping[str, str]

OPTION = "option "
"""The names of genes that stand for options begin with this."""

NO_KERNEL = "tc makes no kernel of it"
"""The failure of a point begins with this where tc, which is at fault, makes no kernel of the
point."""

KNOWN = f"{OPTION}known"
"""The gene of plans that are known: of other genes only options matter beside it, and it is handed
down, but never drawn."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A point and its meaning: options with a whole plan. Candidates with one `digest` are the same
    kernel. `features` are the input of the model of times (`tc.tuning.space`)."""

    point: Point = field(compare=False)
    options: Options = field(compare=False)
    digest: str
    features: tuple[float, ...] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RefusedPoint:
    """A point that is no candidate, and why: the device has no room for it, or tc `is_at_fault`."""

    point: Point
    reason: str
    is_at_fault: bool = False


@dataclass
class SearchSpace:
    """The candidates of a problem for the device of a backend. `genes` are those that were met so
    far, with their values, the default first: each candidate that is made may add some. `known` are
    options with plans that were found before, for these sizes or for others. `faults` are trials of
    the points that were met of which tc, which is at fault then, makes no kernel: their options
    have no plan, and what was decided stands in the failure."""

    problem: Problem
    backend: Backend
    base: Options = field(default_factory=Options)
    known: Sequence[Options] = ()
    genes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    faults: list[Trial] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._request = self.problem.request()
        self._shaped = shape_program(self._request.program, self._request.sizes)
        self._target = target_of(self.backend.device())
        statements = [s.statement.name for s in self._shaped.statements]
        bits, launches = self._device_bits(), self._target.launches
        genes = dict(_option_genes(self.base, statements, bits, launches=launches))
        self.genes.update({name: tuple(values) for name, values in genes.items()})
        given = {str(n): _setter_of(options) for n, options in enumerate(self.known)}
        self._setters = {KNOWN: given, **genes}
        self._made: dict[frozenset[tuple[str, str]], Candidate | RefusedPoint] = {}

    def make(self, point: Point) -> Candidate | RefusedPoint:
        """The candidate of a point. What is lowered once is kept."""
        if KNOWN in point:
            point = {name: value for name, value in point.items() if name.startswith(OPTION)}
        key = frozenset(point.items())
        if key not in self._made:
            self._made[key] = self._make(point)
        return self._made[key]

    @property
    def seeds(self) -> tuple[Point, ...]:
        """The points of the plans that are known."""
        return tuple({KNOWN: str(number)} for number in range(len(self.known)))

    @property
    def default(self) -> Candidate:
        """What tc chooses itself. BackendError where the device has no room for it, InternalError
        where tc makes no kernel of it."""
        found = self.make({})
        if isinstance(found, RefusedPoint):
            raise (InternalError if found.is_at_fault else BackendError)(found.reason)
        return found

    @property
    def size(self) -> int:
        """How many points there are of the genes that were met, not counting what is alike."""
        number = 1
        for values in self.genes.values():
            number *= len(values)
        return number

    def _make(self, point: Point) -> Candidate | RefusedPoint:
        options = self.base
        for name, setters in self._setters.items():
            setter = setters.get(point.get(name, ""))
            options = options if setter is None else setter(options)
        decisions = Decisions({n: v for n, v in point.items() if not n.startswith(OPTION)})
        try:
            lowering = self._lowered(options, decisions)
        except BackendError as error:
            return RefusedPoint(point, error.cause)
        except Exception as error:
            if not is_fault(error):
                raise
            return self._fault(point, options, error)
        for name, asked in decisions.asked.items():
            if len(asked.values) > 1:
                known = self.genes.get(name, ())
                self.genes[name] = (*known, *(v for v in asked.values if v not in known))
        plan = replace(options, plan=lowering.mapped.plan)
        kernel = lowering.kernel
        shared = any(isinstance(s, For) and s.parallel for s in every_statement(kernel))
        threads = plan.threads if shared else None
        digest = hashlib.sha256(f"{to_text(kernel)}\n{threads}".encode()).hexdigest()
        return Candidate(point, plan, digest, features_of(kernel))

    def _fault(self, point: Point, options: Options, error: Exception) -> RefusedPoint:
        """A point of which no kernel is made, as tc is at fault: the search goes on without it."""
        cause = error.cause if isinstance(error, InternalError) else str(error)
        decided = "".join(f"\n{name} = {value}" for name, value in sorted(point.items()))
        failure = f"{NO_KERNEL}: {type(error).__name__}: {cause}{decided}"
        self.faults.append(Trial(options, failure=failure))
        return RefusedPoint(point, cause, is_at_fault=True)

    def _lowered(self, options: Options, decisions: Decisions) -> Lowering:
        request = replace(self._request, options=options)
        return lower_for(request, self._shaped, replace(self._target, decider=decisions))

    def _device_bits(self) -> int:
        return int(getattr(self._target.device, "vector_bits", 0))


Setter: TypeAlias = Callable[[Options], Options]


def _setter_of(known: Options) -> Setter:
    return lambda _: known


def _option_genes(
    base: Options, statements: Sequence[str], bits: int, *, launches: bool
) -> Iterator[tuple[str, dict[str, Setter]]]:
    """The options that change code, with the setter of each value, the default first."""

    def schedule(**how: Any) -> Setter:
        return lambda options: replace(options, schedule=replace(options.schedule, **how))

    def mapping(**how: Any) -> Setter:
        return lambda options: replace(options, mapping=replace(options.mapping, **how))

    def gpu(**how: Any) -> Setter:
        return lambda options: replace(options, gpu=replace(options.gpu, **how))

    def also_apart(name: str) -> Setter:
        def apart(options: Options) -> Options:
            names = dict.fromkeys((*options.schedule.apart, name))
            return replace(options, schedule=replace(options.schedule, apart=tuple(names)))

        return apart

    def gene(
        name: str, default: object, setters: dict[str, Setter]
    ) -> tuple[str, dict[str, Setter]]:
        first = {str(default): setters.get(str(default), lambda options: options)}
        return OPTION + name, first | setters

    own = base.schedule
    fusions = (fusion for fusion in FUSIONS if fusion != "isl")
    yield gene("fusion", own.fusion, {f: schedule(fusion=f) for f in fusions})
    for name in statements[1:]:
        yield gene(f"apart {name}", name in own.apart, {"True": also_apart(name)})
    yield gene("rewrite", own.rewrite, {str(r): schedule(rewrite=r) for r in (True, False)})
    for name in ("factor", "split"):
        values = (None, True, False)
        yield gene(name, getattr(own, name), {str(v): schedule(**{name: v}) for v in values})
    if launches:
        limits = (1, 16, 64, 256, 1024, 4096)
        yield gene("unroll", base.gpu.unroll, {str(u): gpu(unroll=u) for u in limits})
        flags = (True, False)
        yield gene("unroll_copies", base.gpu.unroll_copies,
                   {str(u): gpu(unroll_copies=u) for u in flags})  # fmt: skip
        return
    unrolls = (1, 64, 512, 4096)
    yield gene("unroll", base.mapping.unroll, {str(u): mapping(unroll=u) for u in unrolls})
    widths = [width for width in (128, 256, 512) if width <= bits]
    yield gene("vector_bits", base.mapping.vector_bits,
               {str(w): mapping(vector_bits=w) for w in widths})  # fmt: skip
    yield gene("threads", base.threads, {"1": lambda options: replace(options, threads=1)})


NAMES = ("operations", "scalar loads", "vector loads", "gathered loads", "stores", "iterations",
         "branches", "statements", "parallel iterations", "private bytes")  # fmt: skip


def features_of(kernel: ir.Kernel) -> tuple[float, ...]:
    """The logarithm of each count of `NAMES`: instructions as they run, whatever their lanes.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> i = ir.Var("i", INT64)
    >>> load = ir.Load("a", (i,), FLOAT32)
    >>> loop = ir.For("i", ir.Const(0, INT64), ir.Const(4, INT64), (ir.Store("o", (i,), load),))
    >>> a, o = (ir.Buffer(n, FLOAT32, (4,), (1,), r) for n, r in (("a", "input"), ("o", "output")))
    >>> found = dict(zip(NAMES, features_of(ir.Kernel("copy", (a, o), ((loop,),)))))
    >>> [round(2.718281828 ** found[name] - 1) for name in ("scalar loads", "stores", "iterations")]
    [4, 4, 4]
    """
    counts = dict.fromkeys(NAMES, 0.0)
    for region in kernel.regions:
        _count(region, 1, 1, {}, counts)
    counts["private bytes"] = sum(b.bytes for b in kernel.buffers if b.role in ir.PRIVATE)
    return tuple(log1p(counts[name]) for name in NAMES)


def _count(
    stmts: tuple[ir.Stmt, ...],
    times: int,
    parallel: int,
    values: Mapping[str, int],
    counts: dict[str, float],
) -> None:
    for stmt in stmts:
        counts["statements"] += 1
        inner, repeated, shared = values, times, parallel
        match stmt:
            case ir.For(var=var, begin=begin, end=end):
                first, last = bound_value(begin, values), bound_value(end, values)
                trips = max(0, last - first)
                inner, repeated = {**values, var: first}, times * trips
                counts["iterations"] += repeated
                if stmt.parallel:
                    shared = parallel * trips
                    counts["parallel iterations"] += shared
            case ir.Grid(blocks=blocks, threads=threads):
                repeated = shared = times * launched(blocks) * launched(threads)
                counts["parallel iterations"] += shared
            case ir.If():
                counts["branches"] += times
            case ir.Store():
                counts["stores"] += times
            case ir.Atomic():
                counts["atomics"] += times
            case ir.CopyAsync(count=count):
                counts["vector loads" if count > 1 else "scalar loads"] += times
                counts["stores"] += times
        for expr in ir.own_expressions(stmt):
            _count_value(expr, times, counts)
        _count(ir.inner_statements(stmt), repeated, shared, inner, counts)


def _count_value(expr: ir.Expr, times: int, counts: dict[str, float]) -> None:
    match expr:
        case ir.Load(indices=indices):
            gathered = any(index.dtype.lanes > 1 and not isinstance(index, ir.Ramp)
                           for index in indices)  # fmt: skip
            kind = "gathered" if gathered else "vector" if expr.dtype.lanes > 1 else "scalar"
            counts[f"{kind} loads"] += times
        case ir.Unary() | ir.Binary() | ir.Call() | ir.Reduce() | ir.Select() | ir.Compare():
            counts["operations"] += times
    for child in ir.children(expr):
        _count_value(child, times, counts)
