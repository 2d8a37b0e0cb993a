"""Programs under the transformations of jax: one primitive for all, and what jax asks of it.

It is loaded where a function meets a tracer, never by `import tc`. A program that `jax.export` has
stored needs no more than `import tc.jax`.
"""

from __future__ import annotations

from typing import Any

import jax

from tc.jax import derivative_rules as derivative_rules
from tc.jax import primitive as primitive
from tc.jax.ready_calls import TARGET, register
from tc.jax.unstable import check_version

__all__ = ["TARGET", "disabled_checks"]

check_version(jax.__version__)
register()


def disabled_checks() -> list[Any]:
    """What `jax.export.export(..., disabled_checks=tc.jax.disabled_checks())` has to let pass: the
    call of tc, which a stored program names, and finds where `tc.jax` is imported.

    >>> checks = disabled_checks()
    >>> len(checks), TARGET in str(checks)
    (1, True)
    """
    return [jax.export.DisabledSafetyCheck.custom_call(TARGET)]
