"""A checked program of SaC, and its results for given inputs by demand and by the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from tc.dtypes import Weak
from tc.errors import CheckError, InputError, TCError, render
from tc.process.call_sites import warn
from tc.process.deep_stack import with_deep_stack
from tc.sac import ast
from tc.sac.arguments import GivenInput, bind, described, for_library
from tc.sac.levels.calls import Invocation
from tc.sac.levels.expressions import evaluate, execute
from tc.sac.levels.values import Context, Environment, Value
from tc.sac.names import check_names, entry_of, inputs_of
from tc.sac.reference import WeakInput, input_value, interpret_module
from tc.sac.text.foreign import CONSTANTS
from tc.sac.text.parser import parse
from tc.sac.trees import assigned_names
from tc.source import Source, Span


@dataclass(frozen=True)
class Program:
    """A checked text of SaC and the function of it that calls enter, None for an expression."""

    module: ast.Module
    definition: ast.Definition | None

    @classmethod
    def of(cls, source: Source, entry: str | None) -> Program:
        module = parse(source)
        check_names(module)
        found = entry_of(module, entry)
        return cls(module, found if isinstance(found, ast.Definition) else None)

    @cached_property
    def name(self) -> str:
        return "expression" if self.definition is None else self.definition.name.text

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs in order."""
        if self.definition is not None:
            return tuple(p.name.text for p in self.definition.parameters)
        assert self.module.body is not None
        return tuple(inputs_of(self.module.body))

    @property
    def results(self) -> tuple[ast.Expr, ...]:
        body = self.module.body if self.definition is None else self.definition.body
        assert body is not None
        return body.results

    @property
    def result_names(self) -> tuple[str, ...]:
        """The names that the defs of tc have for the results, in order."""
        return result_names_of(len(self.results))

    def bound(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> list[GivenInput]:
        """The inputs of a call, described."""
        try:
            values = bind(
                self.inputs,
                inputs,
                named,
                is_expression=self.definition is None,
                function=self.name,
            )
        except InputError as error:
            body = self.module.body
            set_later = () if body is None else set(assigned_names(body.statements))
            if any(error.cause == f"input '{name}' is missing" for name in set_later):
                error.cause += (
                    ": the text reads it before it sets it, and no comprehension reads itself"
                )
                error.idiom = "steps that build on each other are calls in a loop of Python"
            missing = next((n for n in self.inputs if error.cause == f"input '{n}' is missing"), "")
            if missing in CONSTANTS:
                error.repair, error.idiom = None, f"{CONSTANTS[missing]}, in place of {missing}"
            raise
        return [described(n, v) for n, v in zip(self.inputs, values, strict=True)]

    def values(self, given: list[GivenInput], context: Context) -> tuple[Value, ...]:
        """The results by demand; the inputs are checked against their declared types (C6)."""
        nowhere = Span(self.module.source, 0, 0)
        env = Environment({}, context)
        names = {g.name: input_value(g.name, _for_reference(g), nowhere, env) for g in given}
        if self.definition is None:
            assert self.module.body is not None
            behind = execute(self.module.body.statements, env.bind(names))
            return tuple(evaluate(result, behind) for result in self.module.body.results)
        parameters = self.definition.parameters
        invocation = Invocation(
            self.definition,
            [names[p.name.text] for p in parameters],
            [p.span for p in parameters],
            self.definition.name.span,
            env,
            is_entry=True,
        )
        invocation.check()
        return invocation.results

    def interpreted(self, given: list[GivenInput]) -> tuple[np.ndarray[Any, Any], ...]:
        """The results by the reference, and its warnings issued."""
        arrays = {g.name: _for_reference(g) for g in given}
        entry = None if self.definition is None else self.name
        try:
            results, context = traced(lambda: interpret_module(self.module, arrays, entry))
        except TCError as error:
            raise for_library(error, given) from None
        issue_warnings(context)
        return results


class ElementsOnDemand:
    """An array of another library, of which elements are read when they are asked for."""

    def __init__(self, given: GivenInput) -> None:
        self.given = given
        self.shape = given.shape
        self.dtype = given.dtype.numpy if not isinstance(given.dtype, Weak) else None

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return self.given.read()


def _for_reference(given: GivenInput) -> Any:
    if isinstance(given.dtype, Weak):
        return WeakInput(given.array)
    return given.array if isinstance(given.array, np.ndarray) else ElementsOnDemand(given)


T = TypeVar("T")


def traced(work: Callable[[], T]) -> T:
    """The result of `work()`, which follows the values of a program from one to another, in a deep
    stack where they are many. Raises CheckError where they are too many for that."""
    try:
        return with_deep_stack(work)
    except RecursionError:
        raise CheckError(
            "the values of the program follow from one another in a longer chain than can be "
            "followed",
            rule="C10",
            repair="compute the first part of the chain in a call of its own, from Python",
        ) from None


def issue_warnings(context: Context) -> None:
    """Issues what the levels have noted, once for a call."""
    for span, text in context.warnings.values():
        warn(render("warning", TCError(text, rule="C15", span=span)))
    context.warnings.clear()


def result_names_of(count: int) -> tuple[str, ...]:
    return ("result",) if count == 1 else tuple(f"result{k}" for k in range(1, count + 1))
