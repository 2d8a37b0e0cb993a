"""`tc.verify`: whether a kernel from anywhere computes what a text says."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tc.errors import InputError, ends_at_caller
from tc.frontend.given_text import Text, given_source
from tc.verification.expected import check_compute
from tc.verification.session import Session
from tc.verification.task import Task
from tc.verification.verdict import Verdict


@ends_at_caller
def verify(
    kernel: Callable[..., Any],
    text: Text,
    *,
    entry: str | None = None,
    sizes: object = None,
    inputs: object = None,
    like: str | None = None,
    compute: str | None = None,
    gradient: bool = False,
    isolate: bool = True,
    seconds: float = 20.0,
    same_bits: bool = False,
) -> Verdict:
    """Whether a kernel computes what a text says, by calls with inputs that catch what is wrong.

    `kernel` is any callable: a function of torch, eager or compiled, of numba, JAX, ctypes, one
    that launches a kernel of Triton, an object with `forward`. It takes the inputs of the text in
    their order, and returns its outputs, or writes them into arrays that come behind the inputs; a
    kernel whose parameters have the names of the text may take sizes, too. It is called with arrays
    of its library: `like` is "numpy", "torch", "jax", or "torch:cuda"; None finds it from what the
    kernel uses.

    Results have to be within the bound of the text (R5, `tc.error_bound`) of those of the
    interpreter, of their shapes and types, each time, and inputs stay as they are; with
    `same_bits`, equal inputs give equal bits. `compute` allows for a coarser type: "float32" for a
    text in double, "tf32", "float16", "bfloat16". With `gradient`, the gradient of the kernel, as
    torch or JAX takes it, is compared with `tc.grad` of the text.

    Inputs are derived from the text: integers that make sums exact, large values at each face of
    each input, ends of reductions, ties, NaN and infinities, the ends of what integers index; at
    sizes of 0, 1, small primes, beside powers of two; in arrays that are transposed, not aligned,
    repeated, or end at a page that nobody may touch. `sizes` is a dict of numbers or ranges for
    some sizes, or a list of dicts; `inputs` are as for `tc.interpret`, for texts that are defined
    for few.

    The kernel runs in a process of its own, which may crash or hang, unless `isolate` is False. The
    verdict comes within `seconds`, and what it takes to end that process; `Verdict.not_tried` lists
    what was left out. Raises InputError where the text does not fit the kernel, and the errors of
    `tc.compile`.

    >>> import numpy as np
    >>> import tc
    >>> mv = "def mv(float(M,K) A, float(K) x) -> (y) { y(i) +=! A(i,k) * x(k) }"
    >>> bool(tc.verify(lambda A, x: A @ x, mv, seconds=5))
    True
    >>> found = tc.verify(lambda A, x: A[:, :-1] @ x[:-1], mv, seconds=5).findings[0]
    >>> found.diagnosis
    'y is wrong: the last term is missing, k = K - 1'
    """
    check_compute(compute)
    if not callable(kernel):
        raise InputError(
            f"the kernel is {type(kernel).__name__}, which cannot be called",
            repair="a function of the inputs of the text",
        )
    given: object = seconds
    if not isinstance(given, int | float) or not 0 < given < math.inf:
        raise InputError(
            f"seconds={seconds!r}: a verdict takes a positive number of seconds",
            repair="seconds=20",
        )
    source = given_source(text)
    task = Task.of(kernel, source, entry, like, gradient)
    session = Session(task, compute, isolate, float(seconds), same_bits)
    try:
        return session.verdict(sizes, inputs)
    finally:
        session.process.close()
