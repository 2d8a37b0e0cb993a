"""The backends by name, imported when first used.

A new backend is one `register` call: nothing else names it.
"""

from __future__ import annotations

import os
from functools import cache

from tc.backends.base import AnyBackend
from tc.errors import BackendError
from tc.process.uninterrupted import load
from tc.wording import closest

_BACKENDS: dict[str, str] = {
    "numba": "tc.backends.numba.backend:NumbaBackend",
    "c": "tc.backends.clike.backend:CBackend",
    "opencl": "tc.backends.opencl:OpenCLBackend",
    "cuda": "tc.backends.cuda:CudaBackend",
    "interpret": "tc.backends.interpret:InterpretBackend",
}


_SETTINGS = ("NUMBA_NUM_THREADS", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")
"""Variables that libraries of backends read when they are imported, and may refuse."""


def register(name: str, target: str) -> None:
    """Adds a backend: `target` is "module:Class", a class that takes no arguments.

    Raises BackendError when the name is taken by another target or `target` is no such text.
    """
    module, _, attribute = target.partition(":")
    if not module or not attribute:
        raise BackendError(
            f"backend {name!r}: {target!r} does not name a class",
            repair=f'register({name!r}, "package.module:Class")',
        )
    if _BACKENDS.setdefault(name, target) != target:
        raise BackendError(
            f"the backend name {name!r} already stands for {_BACKENDS[name]}",
            repair=f"register({name + '2'!r}, {target!r})",
        )


def names() -> tuple[str, ...]:
    """All registered names, whether usable here or not.

    >>> names()
    ('numba', 'c', 'opencl', 'cuda', 'interpret')
    """
    return tuple(_BACKENDS)


def usable_names() -> tuple[str, ...]:
    """The names of the backends that work on this machine."""
    return tuple(name for name in _BACKENDS if reason_unusable(name) is None)


def reason_unusable(name: str) -> str | None:
    """None where the backend works on this machine, else the reason why it does not."""
    try:
        return get(name).usable()
    except BackendError as error:
        return error.cause


def get(name: object) -> AnyBackend:
    """The backend of that name, imported now.

    Raises BackendError for an unknown name, and where a library that the backend needs is absent.

    >>> get("cc")
    Traceback (most recent call last):
    tc.errors.BackendError: BackendError: there is no backend 'cc'; there are numba, ...
    repair: backend="c"
    """
    target = _BACKENDS.get(name) if isinstance(name, str) else None
    if target is None:
        raise BackendError(
            f"there is no backend {name!r}; there are {', '.join(_BACKENDS)}",
            repair=None if (near := meant_by(name)) is None else f'backend="{near}"',
        )
    return _load(name, target)


@cache
def _load(name: str, target: str) -> AnyBackend:
    module, _, attribute = target.partition(":")
    try:
        backend: AnyBackend = getattr(load(module), attribute)()
    except (ImportError, AttributeError) as error:
        raise BackendError(
            f"backend {name!r} cannot be loaded: {error}",
            repair='install what it needs, or use another one, such as backend="interpret"',
        ) from error
    except (OSError, RuntimeError, ValueError) as error:  # of a library, about its settings
        settings = [f"{key}={os.environ[key]}" for key in _SETTINGS if key in os.environ]
        raise BackendError(
            f"backend {name!r} cannot be loaded: {error}"
            + (f" (the environment has {', '.join(settings)})" if settings else ""),
            repair='correct its settings, or use another one, such as backend="interpret"',
        ) from error
    return backend


_MEANT = {
    **dict.fromkeys(("cpu", "host", "llvm", "jit"), "numba"),
    **dict.fromkeys(("cc", "gcc", "clang", "cpp", "c++", "cxx"), "c"),
    **dict.fromkeys(("gpu", "nvidia", "nvrtc", "ptx"), "cuda"),
    **dict.fromkeys(("ocl", "pocl", "pyopencl"), "opencl"),
    **dict.fromkeys(("reference", "interp", "numpy", "python"), "interpret"),
}
"""What other names of backends, processors and compilers stand for."""


def meant_by(name: object) -> str | None:
    """The backend that is meant, None where the name is like none."""
    word = str(name).lower().partition(":")[0]
    known = (*_BACKENDS, *_MEANT)
    found = word if word in known else closest(word, known, cutoff=0.75)
    return found and _MEANT.get(found, found)
