"""What tc uses of JAX that JAX does not promise to keep: how new primitives are declared and
derived, what the sizes of `jax.export` are, and how values are typed inside of `jax.shard_map`.

There is no plain way around it. So all of it stands here, with the versions in which it was seen.
"""

from __future__ import annotations

import re
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from tc.process.call_sites import warn

__all__ = [
    "SEEN",
    "Primitive",
    "ShapedArray",
    "Tracer",
    "ad",
    "batching",
    "check_version",
    "max_dim",
    "min_dim",
    "mlir",
    "vary",
    "varying",
    "was_seen",
]

SEEN = ("0.6.2", "0.10.2")
"""The versions with which `make frameworks` and `.ci/run` have run tests/jax, the oldest that
pyproject.toml admits first. Versions between them count as seen."""

Tracer, ShapedArray = jax.core.Tracer, jax.core.ShapedArray
min_dim, max_dim = jax.core.min_dim, jax.core.max_dim


def varying(kind: Any) -> frozenset[Any]:
    """The axes of the mesh along which values of this type differ, as jax types them inside of
    shard_map."""
    kind = getattr(kind, "manual_axis_type", kind)
    found: frozenset[Any] = getattr(kind, "varying", getattr(kind, "vma", frozenset()))
    return found


def vary(operand: Any, axes: tuple[Any, ...]) -> Any:
    """The operand, typed as varying along `axes` of the mesh, too."""
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(operand, axes, to="varying")
    return jax.lax.pvary(operand, axes)


def was_seen(version: str) -> bool:
    """Whether a version lies between those that were seen, by its first two numbers.

    >>> [was_seen(version) for version in ("0.5.3", "0.6.2", "0.10.9", "0.11.0.dev1", "1.0")]
    [False, True, True, False, False]
    """
    return _release(SEEN[0]) <= _release(version) <= _release(SEEN[-1])


def check_version(version: str) -> None:
    """A TCWarning where a version was not seen."""
    if not was_seen(version):
        warn(
            f"tc was tested with jax {SEEN[0]} to {SEEN[-1]}, and this is {version}: what it uses "
            "of jax beside its public functions may differ there"
        )


def _release(version: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)
