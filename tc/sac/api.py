"""The verbs of `tc.sac` (C25): those of tc, and demand, desugar and shape_function."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from tc import api
from tc.backends import registry
from tc.backends.base import KernelText
from tc.device import Device
from tc.errors import InputError, ends_at_caller
from tc.explanation import Explanation, check_stage
from tc.frontend.given_text import Text, given_source
from tc.function import Compiled, runs_text
from tc.gpu import Gpu
from tc.options import Options, options_from
from tc.sac.arguments import family_and_like
from tc.sac.desugaring import desugared
from tc.sac.function import Function
from tc.sac.levels.demand import demand_of
from tc.sac.levels.values import Level
from tc.sac.names import check_names
from tc.sac.program import Program, traced
from tc.sac.shape_functions import shape_module
from tc.sac.text.parser import parse
from tc.sac.text.printer import module_text
from tc.source import Origin, ShownText, Source
from tc.stages import SAC_STAGES
from tc.tuning.lookup import TunedOptions


def _program(src: Text, entry: str | None) -> Program:
    source = given_source(src)
    return _checked(source.text, source.name, source.origin, entry)


@lru_cache(maxsize=256)
def _checked(text: str, name: str, origin: Origin | None, entry: str | None) -> Program:
    """The program of a source, read once where it is given again at one place."""
    return Program.of(Source(text, name, origin), entry)


@ends_at_caller
def interpret(src: Text, /, *inputs: Any, entry: str | None = None, **named: Any) -> Any:
    """The results of a program by the reference: slow, checked, always right.

    `src` is the text, the path of a file with it, or a `tc.Source`; inputs are given one by one, by
    keyword, or as one sequence or dict, and those of an expression by name only. One array returns,
    several as a tuple, of the inputs' library. `entry` names the function of several.

    >>> import numpy as np
    >>> import tc.sac
    >>> tc.sac.interpret("{ [i] -> a[i] + 1 }", a=np.int32([1, 2]))
    array([2, 3], dtype=int32)
    """
    program = _program(src, entry)
    given = program.bound(inputs, named)
    results = program.interpreted(given)
    family, like = family_and_like([g.array for g in given])
    wrapped = tuple(family.wrap(result, like) for result in results)
    return wrapped[0] if len(wrapped) == 1 else wrapped


@ends_at_caller
def compile(
    src: Text,
    *,
    entry: str | None = None,
    backend: str = "numba",
    options: Options | TunedOptions | None = None,
    check: bool | None = None,
) -> Function:
    """A program as a function of arrays, compiled at the first call with new types and shapes.

    `entry`, `backend`, `options` and `check` are as for `tc.compile`. Raises the errors of the
    text's rules C, and BackendError for an unknown backend.

    >>> import numpy as np
    >>> import tc.sac
    >>> double = tc.sac.compile("float[*] f(float[*] x) { return 2f * x; }", backend="interpret")
    >>> double(np.ones((1, 2), np.float32))
    array([[2., 2.]], dtype=float32)
    """
    return _function(_program(src, entry), backend, options, check)


def _function(
    program: Program, backend: str, options: Options | TunedOptions | None, check: bool | None
) -> Function:
    registry.get(backend)
    if check is not None and not isinstance(check, bool | np.bool_):
        raise InputError(f"check={check!r}: it is True, False or None", repair="check=True")
    if not isinstance(options, TunedOptions):
        options = options_from(options)
    return Function(program, backend, options, check)


@ends_at_caller
def define(
    src: Text,
    *,
    backend: str = "numba",
    options: Options | TunedOptions | None = None,
    check: bool | None = None,
) -> api.Definitions[Function]:
    """All functions of a text: an object with one method per function.

    >>> import tc.sac
    >>> list(tc.sac.define("int f(int a) { return a; } int g(int a) { return f(a) + 1; }"))
    ['f', 'g']
    """
    source = given_source(src)
    names = [definition.name.text for definition in parse(source).definitions]
    if not names:
        _program(source, "")  # raises: an expression has no functions
    return api.Definitions(
        {name: _function(_program(source, name), backend, options, check) for name in names}
    )


@ends_at_caller
def emit(
    src: Text,
    /,
    *inputs: Any,
    entry: str | None = None,
    backend: str = "c",
    options: Options | None = None,
    check: bool = False,
    device: Device | Gpu | None = None,
    **named: Any,
) -> KernelText:
    """The code for these inputs in a backend's language, without running a compiler."""
    with _on_inputs(src, entry).serving(inputs, named) as (compiled, arrays):
        lowered = compiled.program.source
        return api.emit(
            lowered, *arrays, backend=backend, options=options, check=check, device=device
        )


@ends_at_caller
def explain(
    src: Text,
    /,
    *inputs: Any,
    entry: str | None = None,
    stage: str | None = None,
    backend: str = "numba",
    options: Options | None = None,
    check: bool | None = None,
    **named: Any,
) -> Explanation:
    """An explanation for these inputs: the levels that results need, the bounds of each index and
    why, the program with with-loops only, the def of tc, and then the stages of the compiler.

    The result and `stage`, `backend`, `options` and `check` are as for `tc.explain`; the stages of
    this notation are `tc.stages.SAC_STAGES`. Raises the errors of the text's rules C.

    >>> import tc.sac
    >>> explanation = tc.sac.explain("{ iv -> a[iv] + b[iv] }", a=[1, 2], b=[3, 4], stage="bounds")
    >>> print(explanation)
    A lower bound that is not written is 0 (C16).
    <BLANKLINE>
    at 1:1: { iv -> a[iv] + b[iv] }
      its shape is [2]
      iv: [0] <= iv < [2]
        iv selects from a: shape(a) = [2] (C15)
        iv selects from b: shape(b) = [2] (C15)
    """
    check_stage(stage, SAC_STAGES)
    function = _function(_program(src, entry), backend, options, check)
    found = replace(function.explain(*inputs, **named), stage=stage)
    if found.trace is None and stage not in (None, "all", "ranges", *SAC_STAGES):
        raise runs_text(backend)
    return found


@ends_at_caller
def error_bound(
    src: Text,
    /,
    *inputs: Any,
    entry: str | None = None,
    options: Options | None = None,
    **named: Any,
) -> Any:
    """A bound on the distance of a result from the exact one, by the lowered def (R5); `options`
    are as for `tc.error_bound`."""
    with _on_inputs(src, entry).serving(inputs, named) as (compiled, arrays):
        return api.error_bound(compiled.program.source, *arrays, options=options)


@ends_at_caller
def demand(src: Text, level: str, *, entry: str | None = None) -> dict[str, str]:
    """How much of each input a level of the result needs (C24): "F" its value, "S" its shape, "D"
    its rank, "N" nothing.

    `level` is the level of the result, by one of these letters. Raises the errors of the text's
    rules C, and InputError for another level.

    >>> import tc.sac
    >>> tc.sac.demand("int[+] plus(int[+] A, int B) { return A + B; }", "S")
    {'A': 'S', 'B': 'N'}
    """
    if level not in Level.__members__:
        raise InputError(f"the level {level!r} is none of F, S, D and N", rule="C25")
    program = _program(src, entry)
    found = traced(lambda: demand_of(program.module, program.definition, Level[level]))
    return {name: needed.name for name, needed in found.items()}


@ends_at_caller
def desugar(src: Text, /, *_inputs: Any, entry: str | None = None, **_named: Any) -> ShownText:
    """The same program with with-loops only and without dots, with the same results (C20).

    The text does not depend on inputs, which may be given all the same. Raises the errors of the
    text's rules C.

    >>> import tc.sac
    >>> tc.sac.desugar("{ [i] -> i | [i] < n }").rstrip()
    'with { ([0] <= [i] < n) : i; } : genarray(n, genarray(shape(0), zero(0)))'
    """
    source = given_source(src)
    if entry is None:
        module = parse(source)
        check_names(module)
    else:
        module = _program(source, entry).module
    return ShownText(traced(lambda: module_text(desugared(module))), "sac")


@ends_at_caller
def shape_function(src: Text, *, entry: str | None = None) -> ShownText:
    """The text of a function that computes the shape of the result, by schemes S and D (C22).

    Its parameters have the names of the inputs that level S of the result needs: the shape of an
    input, an `int[.]`, where level S of it is needed, its value at F, its rank at D. Of an
    expression, whose text declares no types, a value is an `int[*]`, or a `bool[*]` where its
    elements are conditions. The name of the function is that of the entry with `_s` behind it, and
    the function is the last one of the text. Raises the errors of the text's rules C.

    >>> import tc.sac
    >>> tc.sac.shape_function("int[+] plus(int[+] A, int B) { return A + B; }")
    int[.] plus_s(int[.] A) { return A; }
    <BLANKLINE>
    """
    program = _program(src, entry)
    made = traced(lambda: module_text(shape_module(program.module, program.definition)))
    return ShownText(made, "sac")


def lowered_call(
    src: Text, entry: str | None, /, *inputs: Any, **named: Any
) -> tuple[Compiled, list[Any]]:
    """The def of tc that serves these inputs, and the arrays that it is called with."""
    return _on_inputs(src, entry).lowered_call(inputs, named)


def _on_inputs(src: Text, entry: str | None) -> Function:
    """The function of a text, of which the defs for inputs are asked for."""
    return Function(_program(src, entry), "interpret", None, None)
