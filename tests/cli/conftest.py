"""The files that tests of the command line begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) {\n  C(i,j) +=! A(i,k) * B(k,j)\n}\n"


@pytest.fixture
def mm(tmp_path: Path) -> str:
    """The path of a file with a product of matrices."""
    path = tmp_path / "mm.tc"
    path.write_text(MM)
    return str(path)
