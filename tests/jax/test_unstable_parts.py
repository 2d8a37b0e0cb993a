"""One file holds all uses of parts of JAX that JAX does not promise (0.7)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tc
from tests.support.processes import ROOT

jax: Any = pytest.importorskip("jax", reason="jax is not installed")


def test_they_stand_in_one_file() -> None:
    parts = re.compile(r"jax\.(core|extend|interpreters|_src|lax\.p(?:cast|vary))\b")
    files = sorted((Path(ROOT) / "tc" / "jax").glob("*.py"))
    found = {path.name for path in files if parts.search(path.read_text(encoding="utf-8"))}
    assert found == {"unstable.py"}


def test_this_version_was_seen_and_others_are_told_of() -> None:
    from tc.jax.unstable import SEEN, check_version

    check_version(jax.__version__)
    with pytest.warns(tc.TCWarning) as told:
        check_version("0.99.0")
    assert [str(warning.message) for warning in told] == [
        f"tc was tested with jax {SEEN[0]} to {SEEN[-1]}, and this is 0.99.0: what it uses of jax "
        "beside its public functions may differ there"
    ]
