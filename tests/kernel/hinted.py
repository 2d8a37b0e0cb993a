"""What passes that place hints for memory make of a kernel, as text."""

from __future__ import annotations

from collections.abc import Callable

from tc.kernel.ir import Kernel
from tc.kernel.printer import statement_lines
from tc.kernel.verify import verify


def hints_of(kernel: Kernel, change: Callable[[Kernel], Kernel]) -> list[str]:
    """The hints of a pass, each behind the variable of its loop; all else stays."""
    verify(kernel)
    found = change(kernel)
    verify(found)
    before, after = lines(kernel), lines(found)
    assert [line for line in after if not line.startswith("prefetch")] == before
    made, variable = [], ""
    for line in after:
        if " in " in line:
            variable = line.split(" in ")[0].split()[-1]
        if line.startswith("prefetch"):
            made.append(f"{variable}: {line.removeprefix('prefetch ')}")
    return made


def lines(kernel: Kernel) -> list[str]:
    """The statements of the first region."""
    return [line.strip() for stmt in kernel.regions[0] for line in statement_lines(stmt)]
