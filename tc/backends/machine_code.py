"""What the machine code of a text in CUDA C++ needs, in words."""

from __future__ import annotations

from collections.abc import Iterator

from tc.backends import nvrtc, sass
from tc.errors import BackendError

_NO_LOOPS = "loops unknown: nvdisasm is missing (pip install nvidia-cuda-nvdisasm)"


def told(source: str, arch: str) -> Iterator[str]:
    """What each function needs on an architecture, and its hottest loop by kinds of instructions;
    or which package is missing to say so."""
    if not nvrtc.is_installed():
        yield "unknown: NVRTC is missing (pip install nvidia-cuda-nvrtc)"
        return
    try:
        compiled = nvrtc.compiled(source, arch)
    except BackendError as error:
        yield f"none: {error.cause}"
        return
    code = sass.disassembled(compiled.cubin) if sass.is_installed() else {}
    for name, used in sorted(nvrtc.usage_in(compiled.log).items()):
        needed = [f"{used.registers} registers"]
        if used.spills:
            needed.append(f"{used.spills} bytes spilled")
        if used.stack:
            needed.append(f"{used.stack} bytes of stack")
        needed.append(sass.hottest(code[name]).told() if name in code else _NO_LOOPS)
        yield f"{name} for {arch}: {', '.join(needed)}"
