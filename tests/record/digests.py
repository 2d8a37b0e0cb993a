"""Digests of the texts, stored and compared."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Mapping
from pathlib import Path

import tc
from tests.record.texts import SUBJECTS, Texts

STORED = Path(__file__).parent / "digests.txt"
Digests = Mapping[str, Mapping[str, str]]
"""By "NAME DEVICE OPTIONS" a digest for each kind of text."""


def texts_of(name: str) -> Mapping[str, Texts]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.TCWarning)
        return dict(SUBJECTS[name].texts())


def digests_of(name: str) -> Digests:
    return {
        key: {kind: digest(text) for kind, text in texts.items()}
        for key, texts in texts_of(name).items()
    }


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def read() -> Digests:
    lines = STORED.read_text(encoding="utf-8").splitlines() if STORED.exists() else []
    keys = (line.rsplit(": ", 1) for line in lines)
    return {key: dict(re.findall(r"(\w+)=(\w+)", rest)) for key, rest in keys}


def write(digests: Digests) -> None:
    lines = (
        f"{key}: {' '.join(f'{kind}={found}' for kind, found in kinds.items())}\n"
        for key, kinds in sorted(digests.items())
    )
    STORED.write_text("".join(lines), encoding="utf-8")


def differences(stored: Digests, found: Digests) -> list[str]:
    """A line for each program, device and options that differ, with the kinds of text."""
    lines = []
    for key in sorted({*stored, *found}):
        if key not in found or key not in stored:
            lines.append(f"{key}: {'no longer there' if key in stored else 'not in the record'}")
            continue
        kinds = sorted({*stored[key], *found[key]})
        differ = [kind for kind in kinds if stored[key].get(kind) != found[key].get(kind)]
        if differ:
            lines.append(f"{key}: {', '.join(differ)}")
    return lines
