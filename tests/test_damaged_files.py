"""Files with one byte changed, cut out or put in: a drawn part of `python -m tests.damaged`."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.damaged.kinds import KINDS, Finding, Kind, StoredKernels, case, damaged, patience


def some(kind: Kind, count: int) -> set[str]:
    return {case(kind, f"CI.{number}") for number in range(count)}


@pytest.mark.parametrize("name", KINDS)
def test_some_of_each_kind(tmp_path: Path, name: str) -> None:
    kind = KINDS[name](tmp_path)
    assert some(kind, kind.drawn) - {"unchanged"}


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_many_of_each_kind(tmp_path: Path, name: str) -> None:
    kind = KINDS[name](tmp_path)
    for number in range(50 * kind.drawn):
        case(kind, f"slow.{number}")


def test_damage_is_one_byte() -> None:
    rng, whole = random.Random(1), bytes(range(100))
    found = {damaged(rng, whole) for _ in range(500)}
    assert {len(each) for each in found} == {99, 100, 101}
    assert all(
        sum(a != b for a, b in zip(each, whole, strict=True)) <= 1
        for each in found
        if len(each) == 100
    )


def test_what_is_taken_wrongly_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = StoredKernels(tmp_path)
    monkeypatch.setattr("tc.runtime.cache._opened", lambda key, content: content)  # noqa: ARG005
    with pytest.raises(Finding, match="was taken"):
        some(kind, 100)


def test_what_hangs_is_noticed() -> None:
    with pytest.raises(Finding, match="no end within 1 s"), patience(1):
        time.sleep(60)
