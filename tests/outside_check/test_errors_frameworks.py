"""What numba says of functions of tc, and what shells show. (2.3, 2.6, 1.3)"""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import tc
from tc import api

SCALE = "def scale(float(N) x, float a) -> (y) { y(i) = a * x(i) }"
PAIR = "def pair(float(N,M) x) -> (y, s) { y(i,j) = 2 * x(i,j)  s +=! x(i,j) }"


def test_njit_is_told_what_serves() -> None:
    """2.3"""
    scale = tc.compile(SCALE, backend="interpret")

    def inside(x: Any) -> Any:
        return scale(x, 2.0)

    with pytest.raises(numba.core.errors.TypingError) as caught:
        numba.njit(inside)(np.ones(3, np.float32))
    assert (
        "scale is a function of tc, which code of @njit cannot call. Call it outside of @njit, on "
        "whole arrays, or leave compiled code for the call: with numba.objmode(y='float32[:]'): "
        "y = scale(x, a)"
    ) in str(caught.value)

    @numba.njit  # type: ignore[misc]
    def left(x: Any) -> Any:
        with numba.objmode(y="float32[:]"):
            y = scale(x, 2.0)
        return y.sum()

    assert left(np.ones(3, np.float32)) == 6
    with pytest.raises(ValueError, match=r"objmode\(y='float32\[:, :\]', s='float32'\): y, s = "):
        _ = tc.compile(PAIR, backend="interpret")._numba_type_


def test_other_attributes_are_missing_as_ever() -> None:
    scale = tc.compile(SCALE, backend="interpret")
    assert not hasattr(scale, "shape")
    assert "_numba_type_" not in dir(scale)
    with pytest.raises(AttributeError, match="'Compiled' object has no attribute 'shape'"):
        _ = scale.shape
    assert inspect.getmembers(scale)
    assert pickle.loads(pickle.dumps(scale)).text == SCALE


def test_texts_are_shown_as_they_are_printed() -> None:
    """2.6"""
    scale = tc.compile(SCALE)
    derived = (
        tc.grad(SCALE),
        tc.jvp(SCALE),
        tc.batch(SCALE, {"x": 0}),
        tc.vjp(SCALE),
        scale.source(np.ones(3, np.float32), 1.0),
    )
    for shown in derived:
        assert repr(shown) == str(shown)
        assert "\n" in repr(shown)
    assert type(tc.compile(tc.grad(SCALE)).text) is str
    assert pickle.loads(pickle.dumps(tc.grad(SCALE))) == tc.grad(SCALE)


def test_the_result_of_a_search_is_a_line(tmp_path: Path) -> None:
    """2.6"""
    tuned = tc.autotune(
        SCALE,
        [np.ones(64, np.float32), 2.0],
        backend="numba",
        max_candidates=2,
        max_seconds=20,
        database=tmp_path / "tuned.db",
    )
    shown = repr(tuned.result)
    assert shown.startswith("<tuning result: ")
    assert shown.endswith(">")
    assert "\n" not in shown
    assert len(shown) < 120


def test_a_text_that_is_compiled_again_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """1.3"""
    read: list[Any] = []
    monkeypatch.setattr(
        api, "parse_source", lambda source, _f=api.parse_source: read.append(1) or _f(source)
    )
    text = SCALE.replace("scale", "scale_often")

    def layer(x: Any) -> Any:
        return tc.compile(text, backend="interpret")(x, 3.0)

    for _ in range(4):
        assert layer(np.ones(2, np.float32)).tolist() == [3, 3]
    assert len(read) == 1
    for _ in range(2):
        with pytest.raises(tc.ParseError):
            tc.compile("def wrong(")
