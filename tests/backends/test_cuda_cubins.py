"""What NVRTC compiled is kept on disk, for just that text, architecture, compiler and flags."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tc
from tc import cache
from tc.backends import cuda, nvrtc
from tc.backends.cuda import compile_text
from tc.backends.nvrtc import CompiledText

SCALE = "def scale(float(N) x) -> (y) {{ y(i) = {0} * x(i) }}"


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The architectures that a stand-in for NVRTC was asked to compile for."""
    asked: list[str] = []

    def compile_now(source: str, arch: str) -> CompiledText:
        asked.append(arch)
        return CompiledText(f"\x7fELF {arch} {len(asked)} {source}".encode(), "")

    monkeypatch.setattr(nvrtc, "version", lambda: "13.0")
    monkeypatch.setattr(nvrtc, "compiled", compile_now)
    cache.enable(tmp_path / "kernels")
    yield asked
    cache.disable()


def test_a_text_is_compiled_once(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text, other = (tc.emit(SCALE.format(n), {"N": 8}, backend="cuda") for n in (2, 3))
    first = compile_text(text, "sm_80")
    assert compile_text(text, "sm_80") == first
    assert compiled == ["sm_80"]
    others = [compile_text(text, "sm_90"), compile_text(other, "sm_80")]
    monkeypatch.setattr(nvrtc, "version", lambda: "13.1")
    others.append(compile_text(text, "sm_80"))
    monkeypatch.setattr(cuda, "FLAGS", ("--another-flag",))
    others.append(compile_text(text, "sm_80"))
    assert len({first, *others}) == len(compiled) == 5


def test_without_a_disk_it_is_compiled_by_each_process(compiled: list[str]) -> None:
    cache.disable()
    text = tc.emit(SCALE.format(2), {"N": 8}, backend="cuda")
    assert compile_text(text, "sm_80") != compile_text(text, "sm_80")
    assert compiled == ["sm_80", "sm_80"]


def test_what_is_no_cubin_is_not_taken(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tc.emit(SCALE.format(2), {"N": 8}, backend="cuda")
    first = compile_text(text, "sm_80")
    for stored in (b"", first, cache.packed("object", {}, first), cache.packed("cubin", {}, b"no")):
        with monkeypatch.context() as patch:
            patch.setattr(cache, "get", lambda _, stored=stored: stored)
            assert compile_text(text, "sm_80") not in (first, stored)
    assert len(compiled) == 5
