"""On what something was measured, as values of JSON: the device, and the versions of software."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any, NamedTuple

from tc.device import Device, host, processor_name
from tc.errors import BackendError, InputError
from tc.gpu import Gpu
from tc.options import GpuOptions, MappingOptions, Options
from tc.process.processors import get_threads
from tc.process.programs import run_program
from tc.process.uninterrupted import load
from tc.runtime.fallback import version_of
from tc.tuning.canonical import CanonicalCall, as_json

_ESTIMATES = ("gflops", "gbytes")
_PACKAGES = ("numpy", "numba", "llvmlite", "islpy")
_COMPILER_SECONDS = 10.0
_KINDS: Mapping[str, type[Device] | type[Gpu]] = {"processor": Device, "gpu": Gpu}


def device_value(device: Device | Gpu, backend: str) -> dict[str, Any]:
    """A device and its name, if known, as a value of JSON: devices with equal values are of one
    kind.

    >>> value = device_value(Device(vector_bits=256), "numba")
    >>> value["kind"], value["name"], value["vector_bits"]
    ('processor', '', 256)
    """
    known = (f.name for f in fields(device) if f.name not in _ESTIMATES)
    kind = "gpu" if isinstance(device, Gpu) else "processor"
    name = _name(device, backend)
    return {"kind": kind, "name": name, **{name: getattr(device, name) for name in known}}


def _name(device: Device | Gpu, backend: str) -> str:
    if isinstance(device, Device):
        return processor_name() if device == host() else ""
    if backend != "opencl":
        return device.arch
    try:
        return str(load("tc.backends.opencl_device").opencl_device())
    except BackendError:  # texts need no device
        return ""


def base_of(options: Options, device: Device | Gpu) -> Options:
    """What candidates for a device have in common whose search begins with these options: the
    options without a plan, and without those for devices of the other kind. `threads` are the most
    that may run, None where the device has no more."""
    if isinstance(device, Gpu):
        return replace(options, plan=None, mapping=MappingOptions(), threads=None)
    most = options.threads or get_threads()
    threads = None if most is None or most >= device.threads else most
    return replace(options, plan=None, gpu=GpuOptions(), threads=threads)


class PlanKey(NamedTuple):
    """What plans are found by: a call, and the texts of the device and of the base, None for the
    default options."""

    call: CanonicalCall
    device: str
    base: str | None

    @classmethod
    def of(cls, call: CanonicalCall, device: Device | Gpu, base: Options) -> PlanKey:
        own = base_of(base, device)
        text = None if own == Options() else own.to_json()
        return cls(call, as_json(device_value(device, call.backend)), text)


def check_device_value(value: object) -> None:
    """InputError for what `device_value` cannot have given."""
    named = value.get("kind") if isinstance(value, dict) else None
    kind = _KINDS.get(named) if isinstance(named, str) else None
    if kind is None or not isinstance(value, dict):
        raise InputError(f"a device is an object whose kind is one of {', '.join(_KINDS)}")
    known = {f.name for f in fields(kind)} - set(_ESTIMATES)
    if value.keys() - {"kind", "name"} != known or not isinstance(value.get("name"), str):
        raise InputError(f"a {value['kind']} has the keys name, {', '.join(sorted(known))}")
    try:
        kind(**{name: value[name] for name in known})
    except (BackendError, TypeError) as error:
        raise InputError(f"there is no such device: {error}") from error


def versions(backend: str) -> dict[str, str]:
    """The versions of tc and of the compilers of a backend."""
    found = {"tc": version_of("tensor-comprehensions")}
    found |= {name: version_of(name) for name in _PACKAGES}
    return {**found, "compiler": _compiler_version(backend)}


@cache
def _compiler_version(backend: str) -> str:
    """The version of a compiler that is no Python package; empty where there is none."""
    if backend == "cuda":
        try:
            return f"NVRTC {load('tc.backends.nvrtc').version()}"
        except BackendError:
            return ""
    if backend == "opencl":
        return f"pyopencl {version_of('pyopencl')}"
    program = load("tc.backends.clike.backend").compiler() if backend == "c" else None
    if program is None:
        return ""
    try:
        done = run_program(
            [program, "--version"], seconds=_COMPILER_SECONDS, environment=os.environ
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.partition("\n")[0]
