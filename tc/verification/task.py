"""A kernel, and the program that it is compared with."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, replace
from typing import Any

from tc.errors import InputError, TCWarning
from tc.pipeline import check_module, parse_source
from tc.semantics.program import Program
from tc.source import Source
from tc.verification.gradients import gradient_of, gradient_program
from tc.verification.kernel_call import RETURNS, KernelCall, call_of


@dataclass(frozen=True)
class Task:
    """A kernel, and the program that it is compared with: of the def `entry` of a text, or, where
    `is_gradient`, of its gradient. `original` is the kernel as the user gave it."""

    kernel: Any
    program: Program
    call: KernelCall
    source: Source
    entry: str
    original: Any
    is_gradient: bool = False

    @classmethod
    def of(
        cls, kernel: Any, source: Source, entry: str | None, like: str | None, gradient: bool
    ) -> Task:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TCWarning)
            program = check_module(parse_source(source), entry)
        if program.needs_initial:
            name = next(iter(program.needs_initial))
            raise InputError(
                f"{program.name} reads {name} before it writes it, so that a kernel of it would "
                "have to be given what it returns",
                rule="R4",
                span=program.needs_initial[name],
                repair=f"an input {name}_0 with the values that {name} holds before",
            )
        call = call_of(kernel, program, like)
        if not gradient:
            return cls(kernel, program, call, source, program.name, kernel)
        derived = gradient_program(source, program)
        wrapped = gradient_of(kernel, call.library, program, derived)
        call = _call_of_gradient(call, derived)
        return cls(wrapped, derived, call, source, program.name, kernel, is_gradient=True)

    @property
    def kernel_line(self) -> str:
        """The line of a script that gives the kernel."""
        owner = getattr(self.original, "__self__", None)
        module = getattr(self.original, "__module__", None) or type(self.original).__module__
        room = sys.modules.get(module)
        for name, value in vars(room).items() if room and module != "__main__" else ():
            if value is self.original:
                return f"from {module} import {name} as kernel"
            if owner is not None and value is owner:
                return f"from {module} import {name}\n\nkernel = {name}.{self.original.__name__}"
        return 'raise SystemExit("put the kernel here: kernel = ...")'


def _call_of_gradient(call: KernelCall, derived: Program) -> KernelCall:
    numbers = frozenset(n for n in derived.inputs if derived.tensors[n].rank == 0)
    return replace(
        call,
        form=RETURNS,
        arguments=derived.inputs,
        outputs=derived.outputs,
        numbers=numbers,
        sizes=(),
    )
