"""The gradients of one function, each made once, with the arguments that each takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tc.errors import GradError
from tc.frontend.parser import parse
from tc.function import Compiled
from tc.gradient.request import inputs_without_derivatives
from tc.gradient.reverse_mode import grad
from tc.process.uninterrupted import LazyByKey
from tc.runtime.arguments import signature_of
from tc.semantics.check.checker import check
from tc.semantics.program import Program, Read, walk
from tc.source import Source

INPUT, OUTPUT, COTANGENT = range(3)

Taken = tuple[int, int]
"""An argument of a gradient: the kind of a tensor of the original function, and its place among
tensors of that kind."""

CallShapes = tuple[tuple[str, Any], ...]
"""The shapes of the inputs of a call by name, and the values of those that code depends on."""


_NO_EXPRESSION = "D4"
"""The rule of errors about ranges that have no expression in the sizes."""


@dataclass(frozen=True, slots=True)
class Gradient:
    """The program of a gradient as a function. `arguments` are the arguments of that function,
    `kept` the arguments that a call of the original function has to keep, and `wrt` the places of
    the inputs that the results are gradients of; `sizes` are the sizes that the gradient is for,
    None for all."""

    function: Compiled
    arguments: tuple[Taken, ...]
    kept: tuple[Taken, ...]
    wrt: tuple[int, ...]
    sizes: CallShapes | None

    def results(self, values: dict[Taken, Any]) -> Sequence[Any]:
        """The gradients by `wrt`, of values of the arguments."""
        found = self.function(*map(values.__getitem__, self.arguments))
        return (found,) if len(self.wrt) == 1 else found


class Gradients:
    """The gradients of a function, by inputs and sizes. `floating` are the places of the outputs
    that have cotangents; `save` is as for `tc.grad`, `stop` as for `stopped`."""

    def __init__(self, function: Compiled, stop: str, save: str = "outputs") -> None:
        program = function.program
        self.function = function
        self.stop = stop
        self.save = save
        self.floating = tuple(_floating(program, program.outputs))
        self._read = _read_on(program)
        self._made: LazyByKey[Gradient] = LazyByKey()
        self._for_sizes_alone: set[tuple[int, ...]] = set()

    def of(self, wrt: tuple[int, ...], inputs: Sequence[Any]) -> Gradient:
        """The gradient of a call, for the inputs at the places `wrt`. The gradient is for all
        sizes, or where ranges have no expression in the sizes, for the sizes of the call (D4).
        GradError."""
        if wrt not in self._for_sizes_alone:
            try:
                return self._once(wrt, (), None)
            except GradError as error:
                if error.rule != _NO_EXPRESSION:
                    raise
                self._for_sizes_alone.add(wrt)
        return self._once(wrt, (), self._sizes(inputs))

    def without(self, whole: Gradient, unused: tuple[int, ...]) -> Gradient:
        """The gradient where some outputs are `unused`. Contributions by these outputs are left out
        where leaving them out saves more than adding a cotangent of zeros."""
        names = self.function.program.outputs
        constant = tuple(names[place] for place in unused if names[place] not in self._read)
        if not constant:
            return whole
        found = self._once(whole.wrt, constant, whole.sizes)
        return found if {*found.kept} <= {*whole.kept} else whole

    def _once(self, *key: Any) -> Gradient:
        return self._made.get(key, lambda: self._gradient(*key))

    def _gradient(
        self, wrt: tuple[int, ...], constant: tuple[str, ...], sizes: CallShapes | None
    ) -> Gradient:
        function, forward = self.function, self.function.program
        with stopped(forward, self.stop):
            text = grad(
                function,
                [forward.inputs[place] for place in wrt],
                constant=constant,
                save=self.save,
                sizes=None if sizes is None else dict(sizes),
            )
        made = compiled_alike(function, text, "gradient")
        arguments = _arguments(forward, made.program, self.floating)
        return Gradient(
            made,
            arguments,
            tuple(argument for argument in arguments if argument[0] != COTANGENT),
            wrt,
            sizes,
        )

    def _sizes(self, inputs: Sequence[Any]) -> CallShapes:
        parameters = zip(self.function._signature.inputs, inputs, strict=True)
        return tuple(
            (p.name, tuple(map(int, value.shape)) if p.rank else int(value))
            for p, value in parameters
            if p.rank or p.static
        )


def compiled_alike(function: Compiled, text: str, what: str) -> Compiled:
    """The function of a text that was derived from a function, with the options of the latter;
    `what` names the text in messages."""
    source = Source(text, f"<{what} of {function.program.name}>")
    return function._compiled_alike(check(parse(source), None))


@contextmanager
def stopped(program: Program, stop: str) -> Iterator[None]:
    """Gives errors of D10 a repair: the inputs of the program that flow into functions without a
    derivative, written as `stop` has it, such as "{}.detach()"."""
    try:
        yield
    except GradError as error:
        names = inputs_without_derivatives(program) if error.rule == "D10" else []
        if not names:
            raise
        given = ", ".join(map(stop.format, names))
        repair = f"{given} in place of {', '.join(names)}"
        raise GradError(error.cause, rule=error.rule, span=error.span, repair=repair) from None


def _floating(program: Program, names: Sequence[str]) -> list[int]:
    """The places of tensors that gradients belong to."""
    return [place for place, name in enumerate(names) if program.tensors[name].dtype.is_float]


def _read_on(program: Program) -> frozenset[str]:
    """The tensors that statements read to define others."""
    return frozenset(
        node.tensor
        for statement in program.statements
        for node in walk(statement.rhs)
        if isinstance(node, Read) and node.tensor != statement.target
    )


def _arguments(forward: Program, program: Program, floating: tuple[int, ...]) -> tuple[Taken, ...]:
    """The arguments of a gradient (D2): inputs and outputs of the function by their names, and
    behind them a cotangent for each floating output."""
    known = {name: (INPUT, place) for place, name in enumerate(forward.inputs)}
    known |= {name: (OUTPUT, place) for place, name in enumerate(forward.outputs)}
    first = len(program.inputs) - len(floating)
    for parameter in signature_of(program).inputs[:first]:
        name = parameter.name
        if name not in known:
            raise GradError(
                f"the gradient of '{forward.name}' reads '{name}', which the caller gives in "
                "outputs=, where nothing has gradients",
                rule="D15",
                span=forward.span,
                repair=f"{parameter.text}, as an input in its place",
            )
    found = (known[name] for name in program.inputs[:first])
    return (*found, *((COTANGENT, place) for place in floating))
