"""Names of loop variables and locals: none is a buffer, none has two types in a kernel."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, count

from tc.dtypes import INT64, DType


class NameSupply:
    """The names given so far. Regions may use the same names, as their variables end with them.

    A local that would clash with a buffer, or with an index variable of another type, gets a
    number, or the next one.

    >>> names = NameSupply(buffers=["A"], indices=["i", "acc"])
    >>> names.fresh("acc", DType("float32", "float", 32)), names.fresh("t0", INT64)
    ('acc1', 't0')
    """

    def __init__(self, buffers: Iterable[str], indices: Iterable[str]) -> None:
        self._buffers = frozenset(buffers)
        self._dtypes: dict[str, DType] = dict.fromkeys(indices, INT64)
        self._taken: set[str] = set()

    def start_region(self) -> None:
        """Frees the names of the region before."""
        self._taken = set()

    def fresh(self, prefix: str, dtype: DType) -> str:
        """A new name: the prefix, or the prefix (without its digit, if it ends so) and a number."""
        stem = prefix.rstrip("0123456789") or prefix
        candidates = chain((prefix,), (f"{stem}{number}" for number in count(1)))
        name = next(c for c in candidates if self._is_free(c, dtype))
        self._taken.add(name)
        self._dtypes.setdefault(name, dtype)
        return name

    def _is_free(self, name: str, dtype: DType) -> bool:
        known = self._dtypes.get(name, dtype)
        return name not in self._taken and name not in self._buffers and known == dtype
