"""What tc uses of JAX that JAX does not promise to keep: how new primitives are declared and
derived, what the sizes of `jax.export` are, and how values are typed inside of `jax.shard_map`.

There is no plain way around it. So all of it stands here, with the versions in which it was seen.
"""

from __future__ import annotations

from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from tc.process import seen_versions

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


def check_version(version: str) -> None:
    """A TCWarning where a version was not seen."""
    meaning = "what it uses of jax beside its public functions may differ there"
    seen_versions.check_version("jax", version, SEEN, meaning)
