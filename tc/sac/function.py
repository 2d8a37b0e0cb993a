"""A program of SaC as a function of arrays: lowered and compiled for each new set of element types
and shapes, and of those integers of the data that shapes need (C26)."""

from __future__ import annotations

import itertools
import threading
import weakref
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from inspect import Parameter, Signature
from types import SimpleNamespace
from typing import Any

import numpy as np

from tc.call_times import CallTime, time_of
from tc.dtypes import SPELLINGS, DType
from tc.errors import InputError, InternalError, TCError, ends_at_caller, is_strict, render
from tc.explanation import Explanation
from tc.function import Compiled
from tc.introspection import (
    PerInstance,
    TensorInfo,
    followed_by_torch,
    hide_from_torch,
    python_name,
)
from tc.options import Options
from tc.pipeline import check_module, parse_source
from tc.process import forks
from tc.process.call_sites import warn
from tc.runtime.fallback import is_fault, told_fault
from tc.runtime.outputs import result_type
from tc.sac.arguments import (
    GivenInput,
    UnreadArray,
    arrays_of,
    described,
    family_and_like,
    for_library,
)
from tc.sac.batching import batched_text
from tc.sac.levels.expressions import evaluate, execute
from tc.sac.levels.values import Context, NeedsIndexValue
from tc.sac.lowering.data_stages import DataStage
from tc.sac.lowering.lowered import LoweredDef, LoweredInput, LoweringContext, lower
from tc.sac.program import ElementsOnDemand, Program, issue_warnings, traced
from tc.sac.reference import compute_loop
from tc.sac.stages import stage_texts
from tc.sac.text.printer import printed
from tc.sac.told_faults import told
from tc.source import ShownText, Source
from tc.tuning.lookup import TunedOptions

FAULTS = ("G5", "G6", "G7", "Y4")
"""The rules of what a def of tc finds wrong with shapes and data."""

MAX_SPECIALISATIONS = 256
"""The number of defs of a function that are kept, those used last."""


@dataclass(eq=False)
class Decision:
    """Where what a stage computes of the data decides what runs."""

    stage: DataStage
    then: dict[Any, Decision | Compiled] = field(default_factory=dict)


@dataclass(eq=False)
class Specialisation:
    """What runs for element types and shapes: one def where no data decide a shape, else one for
    each list of the integers that do.

    `first` leads to it by stages that compute these; where they cannot be computed apart, they
    are found by lowering anew, and `by_demands` has the defs. `deciding` are the inputs whose
    elements these integers follow from."""

    first: Decision | Compiled | None = None
    by_demands: dict[Any, Compiled] = field(default_factory=dict)
    deciding: frozenset[str] = frozenset()

    def add(self, lowered: LoweredDef, compiled: Compiled) -> None:
        """Notes what runs for the integers that a def was lowered for."""
        self.by_demands[lowered.demands] = compiled
        self.deciding |= lowered.deciding
        path = lowered.stages
        if not path:
            self.first = None if path is None else compiled
            return
        if self.first is None:
            self.first = Decision(path[0][0])
        at: Decision | Compiled = self.first
        for k, (stage, value) in enumerate(path):
            if not isinstance(at, Decision) or at.stage != stage:
                return  # the stages are asked for in another order: the def is found by lowering
            following = compiled if k + 1 == len(path) else Decision(path[k + 1][0])
            at = at.then.setdefault(value, following)


_LIMITS = sorted({limit for n in (7, 8, 15, 16, 31, 32, 63) for limit in (-(1 << n), 1 << n)} | {0})
"""Whole numbers between two neighbours, the first included, fit the same types."""
_FITS_ALL = 65504.0
"""Floats up to this one fit all floating types."""


_OF_NUMPY = (np.ndarray, np.generic)

MAX_COMPARED = 256
"""The most bytes of an array whose elements are compared with those of the last call."""


@dataclass(frozen=True, slots=True)
class UsualCall:
    """The last call, for calls like it: what serves them, and what their numbers must be like.

    `numbers` has for each input of rank 0 its place, the type of Python's number that it was, or
    None for an array, and the limits within which a number serves as well. `elements` has the
    places and the bytes of arrays that decide what serves a call."""

    compiled: Compiled
    numbers: tuple[tuple[int, type | None, float, float], ...]
    elements: tuple[tuple[int, bytes], ...]

    @classmethod
    def of(
        cls, compiled: Compiled, given: list[GivenInput], deciding: Collection[str]
    ) -> UsualCall | None:
        """None where too much would have to be compared."""
        numbers: list[tuple[int, type | None, float, float]] = []
        elements: list[tuple[int, bytes]] = []
        for place, g in enumerate(given):
            is_deciding = g.name in deciding
            if is_deciding and not (g.is_python and not g.shape):
                array = g.array
                if not isinstance(array, np.ndarray) or array.nbytes > MAX_COMPARED:
                    return None
                elements.append((place, array.tobytes()))
            if g.shape:
                continue
            if not g.is_python:
                numbers.append((place, None, 0, 0))
                continue
            number = g.array.item()
            low: float = 0
            high: float = 1
            if is_deciding:
                if isinstance(number, float):
                    return None  # equal zeros may have two signs
                low = high = number
            elif isinstance(number, float):
                low, high = -_FITS_ALL, _FITS_ALL
            elif not isinstance(number, bool):
                after = bisect_right(_LIMITS, number)
                low, high = _LIMITS[after - 1], _LIMITS[after] - 1
            numbers.append((place, type(number), low, high))
        return cls(compiled, tuple(numbers), tuple(elements))

    def has_alike(self, inputs: tuple[Any, ...]) -> bool:
        """Whether the numbers among these inputs are served as those of the last call."""
        for place, kind, low, high in self.numbers:
            value: Any = inputs[place] if place < len(inputs) else None
            found: type = type(value)
            if found is not kind and (kind is not None or issubclass(found, int | float)):
                return False
            if kind is not None and not low <= value <= high:
                return False
        for place, due in self.elements:
            value = inputs[place] if place < len(inputs) else None
            if not isinstance(value, _OF_NUMPY):
                return False
            if value.nbytes != len(due) or value.tobytes() != due:
                return False
        return True


_NUMBERS = itertools.count()
_FUNCTIONS: weakref.WeakSet[Function] = weakref.WeakSet()


class Function:
    """A program of SaC as a function of arrays; made by `tc.sac.compile` and `tc.sac.define`.

    A call is `f(*inputs, outputs=None)`; inputs also by keyword, or all in one sequence or dict;
    those of an expression by name only. Arrays are of any library that `tc.Compiled` takes, and
    results are of that library: one array, or a tuple of several. A call is served by the def of tc
    for the element types and shapes of its inputs, and for those integers of the data that a shape
    or a bound needs; `lowered` is this def as a `tc.Compiled`.

    Any number of threads may call a function; it is pickled as its text. Raises the errors of the
    language's rules C, with the place in the text of SaC.

    >>> import numpy as np
    >>> import tc.sac
    >>> f = tc.sac.compile("{ iv -> a[iv] + 1 }", backend="interpret")
    >>> f(a=np.int32([1, 2]))
    array([2, 3], dtype=int32)
    """

    __signature__ = PerInstance("_python_signature")

    def __init__(
        self,
        program: Program,
        backend: str,
        options: Options | TunedOptions | None,
        check: bool | None,
    ) -> None:
        self.program = program
        self.backend = backend
        self._options = options
        self._check = check
        self._lock: Any = threading.RLock()
        self._specialisations: OrderedDict[Any, Specialisation] = OrderedDict()
        self._compiled: dict[str, Compiled] = {}
        self._usual: UsualCall | None = None
        self._names = program.inputs
        self._is_expression = program.definition is None
        self._given: Any = None
        self.identity = f"tc.sac {next(_NUMBERS)}"
        self.traced_defs = SimpleNamespace()
        hide_from_torch(Function.__call__)
        _FUNCTIONS.add(self)

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the inputs in order."""
        return self._names

    def prepare_traced(self, _identity: str, told: tuple[Any, ...]) -> str:
        """The attribute of `traced_defs` for tensors of which torch tells shape and type, and for
        numbers; none where elements decide the def, or none serves: a call says why."""
        given = [
            described(name, UnreadArray(*each) if isinstance(each, tuple) else each)
            for name, each in zip(self._names, told, strict=True)
        ]
        try:
            compiled = self._specialised(given)[0]
        except TCError:
            return ""
        with self._lock:
            known = vars(self.traced_defs)
            found = next((name for name, each in known.items() if each is compiled), None)
            if found is None:
                found = f"def_{len(known)}"
                setattr(self.traced_defs, found, compiled)
        return found

    prepare_traced._dynamo_marked_constant = True  # type: ignore[attr-defined]

    @property
    def text(self) -> str:
        """The text of the program."""
        return self.program.module.source.text

    @property
    def __name__(self) -> str:
        return self.program.name

    @followed_by_torch
    def __call__(self, /, *inputs: Any, outputs: Any = None, **named: Any) -> Any:
        usual = self._usual
        if usual is not None:
            serve = usual.compiled._serve
            if named or self._is_expression:
                given = self._in_order(inputs, named)
            else:
                given = inputs
            if serve is not None and given is not None and usual.has_alike(given):
                try:
                    results = serve(given, outputs)
                except TCError:
                    results = None  # told in the words of SaC below
                if results is not None:
                    return results
        try:
            return self._call(inputs, outputs, named)
        except TCError as error:
            __tracebackhide__ = True
            error._without_own_frames()
            raise error

    def _in_order(
        self, inputs: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[Any, ...] | None:
        """The inputs of a call in the order of the program; None for a call that is bound, and
        perhaps refused, by `bind`."""
        names = self._names
        if (inputs and self._is_expression) or len(inputs) + len(named) != len(names):
            return None
        try:
            return (*inputs, *[named[name] for name in names[len(inputs) :]])
        except KeyError:
            return None

    def _call(self, inputs: tuple[Any, ...], outputs: Any, named: Mapping[str, Any]) -> Any:
        given = self.program.bound(inputs, named)
        try:
            compiled, deciding = self._specialised(given)
        except Exception as error:
            if is_fault(error):
                if is_strict():
                    raise
                results = self._by_reference(given, outputs, None)
                calls = self._calls_of(given)
                warn(told_fault(self.program.name, "the reference", calls, error))
                return results
            if not isinstance(error, TCError):
                raise
            results = self._by_reference(given, outputs, error)
            cause = "the reference computes this call, element by element, as no kernel serves it: "
            noted = TCError(f"{cause}{error.cause}", rule="C26", span=self.program.results[0].span)
            warn(render("warning", noted))
            return results
        try:
            results = compiled(*arrays_of(given), outputs=outputs)
        except TCError as error:
            if error.rule not in FAULTS:
                raise self._at_its_place(error, compiled) from None
            return self._by_reference(given, outputs, error)
        self._usual = None
        if not any(g.is_python and g.shape for g in given):
            self._usual = UsualCall.of(compiled, given, deciding)
        return results

    def _at_its_place(self, error: TCError, compiled: Compiled) -> TCError:
        """The error about an array of a call at the place of the parameter, or of the type of the
        result, in the text of SaC; without a place where the text is an expression."""
        program, definition = compiled.program, self.program.definition
        if error.span is None or error.span.source is not program.source:
            return error
        place = error.span
        error.span, error.notes = None, ()
        if definition is None:
            return error
        spans = [
            *zip(program.inputs, (p.span for p in definition.parameters), strict=True),
            *zip(program.outputs, (declared.span for declared in definition.types), strict=True),
        ]
        for name, span in spans:
            if program.tensors[name].span == place:
                error.span = span
        return error

    def _calls_of(self, given: list[GivenInput]) -> list[str]:
        """Lines of Python that call this function with zeros of these shapes and types."""
        inputs = []
        for each in given:
            array = each.read()
            made = repr(array.item()) if each.is_python and not array.shape else None
            inputs.append(made or f"numpy.zeros({array.shape}, {str(array.dtype)!r})")
        entry = f", entry={self.program.name!r}" if not self._is_expression else ""
        call = f"tc.sac.compile({self.text!r}{entry}, backend={self.backend!r})"
        return ["import tc.sac", f"{call}([{', '.join(inputs)}])"]

    def _by_reference(self, given: list[GivenInput], outputs: Any, error: TCError | None) -> Any:
        """The results, or the error in the words of SaC, of a call for which no def serves: what
        is computed for all elements at once may fail where no element that a result needs does."""
        if isinstance(error, InternalError):
            raise error
        try:
            results = told(self.program, given, error) if error is not None else None
            if results is None:
                results = self.program.interpreted(given)
        except TCError as fault:
            raise for_library(fault, given) from None
        family, like = family_and_like([g.array for g in given])
        wrapped = [family.wrap(np.array(result, order="C"), like) for result in results]
        if outputs is not None:
            wrapped = self._written(wrapped, outputs)
        if len(wrapped) == 1:
            return wrapped[0]
        return result_type(self.program.name, self.program.result_names)(*wrapped)

    def _written(self, results: list[Any], outputs: Any) -> list[Any]:
        """The results, those that `outputs` names in these arrays (R4)."""
        names = self.program.result_names
        if not isinstance(outputs, Mapping):
            sequence = outputs if isinstance(outputs, list | tuple) else [outputs]
            outputs = dict(zip(names, sequence, strict=False))
        for number, (name, result) in enumerate(zip(names, results, strict=True)):
            target = outputs.get(name)
            if target is None:
                continue
            if (target.shape, target.dtype) != (result.shape, result.dtype):
                raise InputError(
                    f"{self.program.name}: {name} in outputs= is {target.dtype}{target.shape}, but "
                    f"the output is {result.dtype}{result.shape}",
                    rule="R4",
                )
            target[...] = result
            results[number] = target
        return results

    def _specialised(self, given: list[GivenInput]) -> tuple[Compiled, frozenset[str]]:
        """What serves a call with these inputs, and the inputs of which it serves these elements
        alone."""
        key = tuple(g.key for g in given)
        with self._lock:
            special = self._specialisations.get(key)
            if special is not None:
                self._specialisations.move_to_end(key)
                if isinstance(special.first, Compiled):
                    return special.first, frozenset()
        if special is not None:
            decided = self._decided(special.first, given)
            if decided is not None:
                return decided, special.deciding
        with self._lock:
            lowered = self._lowered(given)
            if special is None:
                special = self._specialisations.setdefault(key, Specialisation())
                while len(self._specialisations) > MAX_SPECIALISATIONS:
                    self._specialisations.popitem(last=False)
            found = special.by_demands.get(lowered.demands)
            if found is None:
                found = self._compile(lowered)
                special.add(lowered, found)
                self._decided(special.first, given)  # so that calls like this one compile nothing
            return found, lowered.deciding

    def _decided(
        self, first: Decision | Compiled | None, given: list[GivenInput]
    ) -> Compiled | None:
        """What runs for the integers that stages compute of these inputs; None where it is not
        known yet, or a stage fails."""

        def run(text: str) -> list[Any]:
            stage = self._compile(LoweredDef("stage", text, (), ()))
            result = stage(*arrays_of([replace(g, array=g.read()) for g in given]))
            found: list[Any] = result.reshape(-1).tolist()
            return found

        arrays = [_for_lowering(g).array for g in given]
        at = first
        try:
            while isinstance(at, Decision):
                at = at.then.get(at.stage.value(run, arrays))
        except TCError:
            return None
        return at

    def _lowered(self, given: list[GivenInput]) -> LoweredDef:
        functions = {d.name.text: d for d in self.program.module.definitions}
        inputs = [_for_lowering(g) for g in given]

        def work() -> tuple[LoweredDef, Context]:
            context = LoweringContext(functions, evaluate, execute, compute_loop)
            results = self.program.values(given, context)
            names = self.program.result_names
            return lower(self.program.name, results, names, inputs, context), context

        lowered, context = traced(work)
        issue_warnings(context)
        return lowered

    def _compile(self, lowered: LoweredDef) -> Compiled:
        found = self._compiled.get(lowered.text)
        if found is None:
            program = check_module(parse_source(Source(lowered.text, f"{lowered.name}.tc")), None)
            options = self._options
            if isinstance(options, TunedOptions):
                found = Compiled(program, self.backend, options.options, self._check, options)
            else:
                found = Compiled(program, self.backend, options, self._check)
            self._compiled[lowered.text] = found
        return found

    @contextmanager
    def serving(
        self, inputs: tuple[Any, ...], named: Mapping[str, Any]
    ) -> Iterator[tuple[Compiled, list[Any]]]:
        """The def of tc that serves these inputs, and the arrays that it is called with; a fault
        that the def finds in them is told in the words of SaC."""
        given = self.program.bound(inputs, named)
        try:
            yield self._specialised(given)[0], arrays_of(given)
        except TCError as error:
            if error.rule in FAULTS or isinstance(error, NeedsIndexValue):
                self.program.interpreted(given)
            raise

    def lowered_call(
        self, inputs: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[Compiled, list[Any]]:
        """The def of tc that serves these inputs, and the arrays that it is called with."""
        with self.serving(inputs, named) as found:
            return found

    @ends_at_caller
    def lowered(self, /, *inputs: Any, **named: Any) -> Compiled:
        """The def of tc that serves calls with these inputs, as `tc.compile` makes it. Its text is
        for `tc.grad` and its kin.

        >>> import numpy as np
        >>> import tc.sac
        >>> f = tc.sac.compile("float[*] f(float[*] x) { return 2f * x; }")
        >>> f.lowered(np.ones((2, 3), np.float32))
        <tc f(float32(2, 3) x) -> (result), backend numba>
        """
        return self.lowered_call(inputs, named)[0]

    @ends_at_caller
    def prepare(self, /, *inputs: Any, **named: Any) -> None:
        """Compiles ahead of calls with inputs of these types and shapes, with `outputs=` and
        without."""
        with self.serving(inputs, named) as (compiled, arrays):
            compiled.prepare(*arrays)

    @ends_at_caller
    def time(
        self, /, *inputs: Any, outputs: Any = None, seconds: float = 0.5, **named: Any
    ) -> CallTime:
        """The time of a call with these inputs once the function is compiled, measured for
        `seconds`, as `tc.Compiled.time` gives it.

        >>> import numpy as np
        >>> import tc.sac
        >>> f = tc.sac.compile("float[*] f(float[*] x) { return 2f * x; }")
        >>> f.time(np.ones(1000, np.float32), seconds=0.01).seconds < 1
        True
        """
        return time_of(lambda: self(*inputs, outputs=outputs, **named), seconds)

    @ends_at_caller
    def source(self, /, *inputs: Any, **named: Any) -> str:
        """The code of a call with these inputs, in the language of the backend. Raises BackendError
        for the backend "interpret", which has none."""
        with self.serving(inputs, named) as (compiled, arrays):
            return ShownText(compiled.source(*arrays), "c")

    @ends_at_caller
    def explain(self, /, *inputs: Any, **named: Any) -> Explanation:
        """An explanation for these inputs, as `tc.sac.explain` gives it."""
        with self.serving(inputs, named) as (compiled, arrays):
            given = self.program.bound(inputs, named)
            notation = stage_texts(self.program, given, compiled.text)
            return replace(compiled.explain(*arrays), notation=notation)

    @ends_at_caller
    def infer(self, /, *inputs: Any, **named: Any) -> tuple[TensorInfo, ...] | TensorInfo:
        """Shape and dtype of each result at level S: no instance is computed, and nothing is read
        that a shape does not need (C22). One `TensorInfo`, or a tuple of several.

        >>> import tc.sac
        >>> f = tc.sac.compile("{ [i] -> [12 / i, i] | [1] <= [i] < [n] }")
        >>> print(f.infer(n=5))
        int32(5, 2)
        """
        given = self.program.bound(inputs, named)
        functions = {d.name.text: d for d in self.program.module.definitions}

        def work() -> tuple[TensorInfo, ...]:
            context = Context(functions, evaluate, execute, compute_loop)
            values = self.program.values(given, context)
            return tuple(TensorInfo(value.shape, value.type.alone.numpy) for value in values)

        found = traced(work)
        return found[0] if len(found) == 1 else found

    def batched(self, in_axes: object, entry: str | None = None) -> str:
        """The text of the function for each element of a batch: what `tc.batch(f, in_axes)` is. It
        is that of the program, with one more function at its end.

        >>> import tc.sac
        >>> f = tc.sac.compile("float[*] f(float[*] x, float c) { return c * x; }")
        >>> print(f.batched({"x": 0}).rpartition("\\n\\n")[2], end="")
        float[+] f_batch(float[+] x, float c) {
          return { [b] -> f(x[b], c) };
        }
        """
        program = self.program
        if entry is not None:
            program = Program.of(program.module.source, entry)
        return batched_text(program, in_axes)

    @property
    def declared_types(self) -> Mapping[str, DType | None]:
        """The declared element type of each input by name, None for inputs of an expression.

        >>> import tc.sac
        >>> f = tc.sac.compile("float[*] f(float[*] x, int k) { return tof(k) * x; }")
        >>> {name: str(dtype) for name, dtype in f.declared_types.items()}
        {'x': 'float32', 'k': 'int32'}
        """
        definition = self.program.definition
        if definition is None:
            return dict.fromkeys(self.program.inputs)
        return {p.name.text: SPELLINGS[p.type.element] for p in definition.parameters}

    def _python_signature(self) -> Signature:
        """As `inspect.signature` gives it: inputs with their declared types, those of an expression
        by name alone."""
        kind = Parameter.KEYWORD_ONLY if self._is_expression else Parameter.POSITIONAL_OR_KEYWORD
        types: dict[str, Any] = dict.fromkeys(self._names, Parameter.empty)
        returned: Any = Signature.empty
        definition = self.program.definition
        if definition is not None:
            types = {p.name.text: printed(p.type) for p in definition.parameters}
            returned = ", ".join(map(printed, definition.types))
        parameters = [Parameter(python_name(n), kind, annotation=types[n]) for n in self._names]
        outputs = Parameter("outputs", Parameter.KEYWORD_ONLY, default=None)
        if "outputs" not in self._names:
            parameters.append(outputs)
        return Signature(parameters, return_annotation=returned)

    def __repr__(self) -> str:
        inputs = ", ".join(self.program.inputs)
        return f"<tc.sac {self.program.name}({inputs}), backend {self.backend}>"

    def __deepcopy__(self, _: Any = None) -> Function:
        return self

    __copy__ = __deepcopy__

    def __reduce__(self) -> tuple[Any, ...]:
        source = self.program.module.source
        entry = None if self._is_expression else self.program.name
        return rebuild, (source.text, source.name, entry, self.backend, self._options, self._check)


def rebuild(
    text: str,
    name: str,
    entry: str | None,
    backend: str,
    options: Options | TunedOptions | None,
    check: bool | None,
) -> Function:
    """The function of pickled values."""
    return Function(Program.of(Source(text, name), entry), backend, options, check)


def _for_lowering(given: GivenInput) -> LoweredInput:
    array = given.array if isinstance(given.array, np.ndarray) else ElementsOnDemand(given)
    return LoweredInput(given.name, given.dtype, given.shape, array)


def _after_fork_in_child() -> None:
    for function in list(_FUNCTIONS):
        function._lock = threading.RLock()


forks.renew_in_child(_after_fork_in_child)
