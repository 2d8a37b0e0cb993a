"""What this process may use of the machine: instructions, processors, and time on them.

numba can be told to compile for another processor than this one (`NUMBA_CPU_NAME`,
`NUMBA_CPU_FEATURES`); an administrator confines processes to some processors, or to a share of
their time (cgroups).

The number of threads of calls that do not name a number themselves is set here (`set_threads`).
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

from tc.errors import BackendError

_WITH_AVX512 = ("avx512f", "avx2", "avx", "fma", "f16c")
"""What the other parts of AVX-512 cannot be had without."""

_IMPLIED = {
    "avx2": ("avx", "sse2"),
    "fma": ("avx", "sse2"),
    "f16c": ("avx", "sse2"),
    "avx": ("sse2",),
}
_GROUPS = Path("/proc/self/cgroup")
_CONTROL = Path("/sys/fs/cgroup")


WITHOUT_AVX = frozenset(("corei7-avx", "core-avx-i", "sandybridge", "ivybridge", "nocona"))
"""Processors, by LLVM's names, whose AVX numba does not use unless it is told to: it is slow, or
a virtual machine has it by mistake."""


def allowed_features(found: Mapping[str, bool], processor: str = "") -> Mapping[str, bool]:
    """The features of LLVM, by their names, that code may use where the processor of this name
    has `found`.

    Where numba is told what to compile for, what it is told counts, whatever the processor has.

    >>> allowed_features({"avx2": True})
    {'avx2': True}
    """
    text = os.environ.get("NUMBA_CPU_FEATURES")
    if text is None and os.environ.get("NUMBA_CPU_NAME", "").lower() == "generic":
        text = ""
    if text is not None:
        return _told(text)
    name = os.environ.get("NUMBA_CPU_NAME") or processor
    if os.environ.get("NUMBA_ENABLE_AVX", "0" if name in WITHOUT_AVX else "1") == "0":
        lacking = ("avx", "fma", "f16c")
        return {name: has and not name.startswith(lacking) for name, has in found.items()}
    return found


def _told(text: str) -> Mapping[str, bool]:
    """A list as numba and LLVM take it. What the processor of a name has besides is not known
    here, but for what all of x86-64 have.

    >>> told = _told("+avx512vl,-fma")
    >>> [told.get(name, False) for name in ("avx512f", "avx2", "fma", "avx512bw")]
    [True, True, False, False]
    """
    features = {"sse2": True}
    for word in filter(None, (part.strip() for part in text.split(","))):
        name, wanted = word.lstrip("+-"), not word.startswith("-")
        features[name] = wanted
        if wanted:
            implied = _WITH_AVX512 if name.startswith("avx512") else _IMPLIED.get(name, ())
            features.update(dict.fromkeys(implied, True))
    return features


def available() -> set[int]:
    """The numbers of the processors that may run this process; of all that there are, where the
    system does not tell."""
    with contextlib.suppress(AttributeError, OSError):  # another system, or a filter
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def default_threads(processors: int | None = None) -> int:
    """How many threads can run at the same time: on as many processors as this process may use,
    and for no more time than it is given (cgroups)."""
    share, count = quota(), processors or len(available())
    return count if share is None else max(1, min(count, math.ceil(share)))


@cache
def quota() -> float | None:
    """The processors' worth of time that this process may take, None where nothing limits it."""
    shares = [share for share in _shares() if share is not None]
    return min(shares, default=None)


def _shares() -> Iterator[float | None]:
    """The limits of the group of this process and of all groups that it is part of."""
    try:
        lines = _GROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if not controllers:
            yield from _walk(_CONTROL, group, _version_2)
        elif "cpu" in controllers.split(","):
            for name in (controllers, "cpu"):
                if (_CONTROL / name).is_dir():
                    yield from _walk(_CONTROL / name, group, _version_1)
                    break


def _walk(root: Path, group: str, read: Callable[[Path], float | None]) -> Iterator[float | None]:
    """The limits from a group up to the root of what can be seen. In a container the group may be
    named as outside of it, where only the root is seen."""
    parts = [part for part in group.split("/") if part not in ("", "..")]
    for length in range(len(parts), -1, -1):
        yield read(root.joinpath(*parts[:length]))


def _version_2(group: Path) -> float | None:
    try:
        limit, _, period = (group / "cpu.max").read_text().strip().partition(" ")
        return None if limit == "max" else int(limit) / int(period or "100000")
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _version_1(group: Path) -> float | None:
    try:
        limit = int((group / "cpu.cfs_quota_us").read_text())
        period = int((group / "cpu.cfs_period_us").read_text())
        return limit / period if limit > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


VARIABLE = "TC_THREADS"

_most: int | None = None
_was_set = False
_listeners: list[Callable[[], None]] = []


def set_threads(most: int | None) -> None:
    """The largest number of threads that a call may use from now on, in this process, where its
    `tc.Options` name none; None leaves it to the backend. The environment variable TC_THREADS says
    the same at the start.

    >>> import tc
    >>> tc.set_threads(2)
    >>> tc.get_threads()
    2
    >>> tc.set_threads(None)
    """
    global _most, _was_set
    number: object = most
    if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
        raise _refused(repr(most), "tc.set_threads(2)")
    if most is not None and most < 1:
        raise _refused(repr(most), "tc.set_threads(1)")
    _most, _was_set = most, True
    for changed in _listeners:
        changed()


def get_threads() -> int | None:
    """What `set_threads` or TC_THREADS said; None where nothing did.

    Raises BackendError where TC_THREADS is no number of threads.
    """
    return _most if _was_set else _from_environment()


def on_change(changed: Callable[[], None]) -> None:
    """Calls a function whenever the number is set."""
    _listeners.append(changed)


def _from_environment() -> int | None:
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise _refused(f"{VARIABLE}={text}", f"{VARIABLE}=1")
    return int(text)


def _refused(given: str, repair: str) -> BackendError:
    return BackendError(
        f"{given}: the number of threads is an integer of at least 1", repair=repair
    )
