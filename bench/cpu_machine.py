"""The machine beside the numbers, as data."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
CPU_FIELDS = ("model name", "vendor_id", "cpu family", "model", "stepping", "flags")
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def processor() -> dict[str, str]:
    """The fields of /proc/cpuinfo that tell processors apart, or what Python knows."""
    found: dict[str, str] = {}
    for line in read(Path("/proc/cpuinfo")).splitlines():
        name, _, value = line.partition(":")
        if name.strip() in CPU_FIELDS:
            found.setdefault(name.strip(), value.strip())
    return found or {"model name": platform.processor() or platform.machine()}


def caches() -> dict[str, str]:
    indices = sorted(CACHES.glob("index*"))
    return {
        f"L{read(i / 'level')} {read(i / 'type').lower()}".strip(): read(i / "size")
        for i in indices
    }


def installed(packages: tuple[str, ...]) -> dict[str, str]:
    """
    >>> installed(("no-such-package",))
    {'no-such-package': 'not installed'}
    """
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def describe(packages: tuple[str, ...], threads: int) -> dict[str, Any]:
    return {
        "processor": processor(),
        "caches": caches(),
        "cores": os.cpu_count(),
        "threads": threads,
        "memory_gb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30,
        "system": platform.platform(),
        "python": sys.version.split()[0],
        "packages": installed(packages),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": git("rev-parse", "HEAD") or "unknown",
        "changed_files": len(git("status", "--porcelain").splitlines()),
        "load_at_start": os.getloadavg()[0],
    }


def short_name(described: dict[str, Any]) -> str:
    """A file name's part.

    >>> short_name({"processor": {"model name": "AMD EPYC", "cpu family": "25", "model": "17"},
    ...             "cores": 2})
    'amd-epyc-25-17-2cores'
    """
    fields = described["processor"]
    words = [fields.get(name, "") for name in ("model name", "cpu family", "model")]
    name = re.sub(r"\(r\)|\(tm\)|cpu|processor", "", " ".join(words).lower())
    return re.sub(r"[^a-z0-9]+", "-", f"{name} {described['cores']}cores").strip("-")


def one_line(described: dict[str, Any]) -> str:
    fields = described["processor"]
    model = f"family {fields['cpu family']} model {fields['model']}" if "model" in fields else ""
    packages = ", ".join(f"{name} {v}" for name, v in described["packages"].items())
    return (
        f"{fields['model name']} {model}, {described['cores']} cores, {described['threads']} "
        f"threads, {described['date'][:10]}, commit {described['commit'][:10]}"
        f"{' and changes' if described['changed_files'] else ''}, "
        f"Python {described['python']}, {packages}"
    )
