"""Kernels as rows of JSON: what is read is what was written, and nothing else is read."""

from __future__ import annotations

import json
import math
import random
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import tc
from tc.backends.base import KernelText
from tc.dtypes import BOOL, FLOAT32, FLOAT64, INT32, INT64
from tc.kernel import ir
from tc.kernel.ir import Kernel
from tc.kernel.storage import NODES, FormError, kernel_of, rows_of
from tc.stored_texts import bytes_of, text_of
from tests.support.programs import CASES, Case

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
SHAPES = {"A": (8, 9), "B": (9, 70)}
SOME = CASES[::8]


def read_back(kernel: Kernel) -> Kernel:
    return kernel_of(json.loads(json.dumps(rows_of(kernel))))


def exactly(kernel: Kernel) -> str:
    """All of it, with the types of numbers, and the signs of zeros."""
    return repr(kernel)


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("backend", ["numba", "c", "opencl", "cuda"])
@pytest.mark.parametrize("case", SOME, ids=[case.name for case in SOME])
def test_texts_are_read_back(case: Case, backend: str) -> None:
    inputs = case.inputs(np.random.default_rng(1))
    sizes = {n: v.shape if isinstance(v, np.ndarray) else v for n, v in inputs.items()}
    try:
        text = tc.emit(case.text, sizes, entry=case.def_name, backend=backend)
    except tc.BackendError:  # such as functions of scipy on GPUs
        return
    assert isinstance(text, KernelText)
    again = text_of(bytes_of(text))
    assert again == text
    assert again is not None
    assert type(again) is type(text)
    assert exactly(again.kernel) == exactly(text.kernel)
    assert bytes_of(again) == bytes_of(text)


def test_every_class_of_the_kernel_ir_has_a_name() -> None:
    kinds = {kind for kind in vars(ir).values() if isinstance(kind, type)}
    ours = {kind for kind in kinds if kind.__module__ == ir.__name__}
    assert ours - set(NODES.values()) == {ir.Failure}  # which is of calls


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        *((v, FLOAT64) for v in (0.0, -0.0, 1.0, math.pi, math.inf, -math.inf, 5e-324)),
        *((v, INT64) for v in (0, 1, -1, 2**63 - 1, -(2**63))),
        *((v, BOOL) for v in (True, False)),
    ],
)
def test_constants_keep_type_and_bits(value: float, dtype: Any) -> None:
    again = read_back(of(ir.Const(value, dtype), ir.Const(1.0, FLOAT32), ir.Const(1, INT32)))
    (first, *_) = constants(again)
    assert (repr(first.value), type(first.value)) == (repr(value), type(value))
    assert [c.value for c in constants(again)[1:]] == [1.0, 1]
    assert [type(c.value) for c in constants(again)[1:]] == [float, int]


def test_numbers_that_are_none() -> None:
    (first,) = constants(read_back(of(ir.Const(math.nan, FLOAT64))))
    assert math.isnan(first.value)


def of(*values: ir.Expr) -> Kernel:
    return Kernel("f", (), (tuple(ir.Let(f"v{n}", value) for n, value in enumerate(values)),))


def constants(kernel: Kernel) -> list[ir.Const]:
    lets = (stmt for stmt in kernel.regions[0] if isinstance(stmt, ir.Let))
    return [let.value for let in lets if isinstance(let.value, ir.Const)]


def test_depth_and_sharing_are_flat() -> None:
    deep: ir.Expr = ir.Var("x", FLOAT32)
    for _ in range(5000):
        deep = ir.Unary("-", deep, FLOAT32)
    assert len(rows_of(of(deep))) == 5003
    wide: ir.Expr = ir.Var("x", FLOAT32)
    for _ in range(200):  # 2 ** 200 nodes, were they not shared
        wide = ir.Binary("+", wide, wide, FLOAT32)
    again = rows_of(read_back(of(wide)))
    assert again == rows_of(of(wide))
    assert len(again) == 203


def test_what_is_no_kernel_is_refused() -> None:
    text = tc.emit(MM, SHAPES, backend="c", options=tc.Options.preset("naive"))
    rows = json.loads(json.dumps(rows_of(text.kernel)))
    for wrong in (None, 3, {}, [], [3], [[]], [["os.system", "true"]], rows[:-1], [*rows, ["Let"]]):
        with pytest.raises(FormError):
            kernel_of(wrong)
    for number, row in enumerate(rows):
        for field in range(len(row)):
            for value in (None, [None], {}, 1e9, len(rows) + 1, -1, number):
                if value == row[field] or (value is None and row[0] in ("Load", "Store")):
                    continue
                changed = [
                    *rows[:number],
                    [*row[:field], value, *row[field + 1 :]],
                    *rows[number + 1 :],
                ]
                if type(value) is type(row[field]) is int and not is_node(row[0], field):
                    kernel_of(changed)  # another number is a number
                else:
                    with pytest.raises(FormError):
                        kernel_of(changed)


def is_node(name: str, field: int) -> bool:
    return str(fields(NODES[name])[field - 1].type).startswith(("Expr", "Stmt"))


@pytest.mark.parametrize("backend", ["numba", "opencl", "cuda"])
def test_any_byte_of_a_stored_text_may_be_another(backend: str) -> None:
    """Without the checksum of the file: another byte is another text, or none."""
    text = tc.emit(MM, SHAPES, backend=backend)
    stored = bytes_of(text)
    rng = random.Random(3)
    for _ in range(300):
        at = rng.randrange(len(stored))
        byte = bytes([rng.randrange(256)])
        for damaged in (
            stored[:at] + byte + stored[at + 1 :],
            stored[:at] + stored[at + 1 :],
            stored[:at] + byte + stored[at:],
            stored[:at],
        ):
            again = text_of(damaged)
            assert again is None or isinstance(again, KernelText)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("class", "KernelTexts"), ("class", ["KernelText"]), ("class", None), ("backend", 3),
        ("launches", None), ("launches", [[]]),
        ("launches", [["mm_0", [1, 1], [1, 1, 1], 0, 0, False]]),
        ("launches", [["mm_0", [1, 1, 1], [1, 1, -1], 0, 0, False]]),
        ("launches", [["mm_0", [1, 1, 1], [1, 1, 1], 0, 0, 0]]),
        ("launches", [[None, [1, 1, 1], [1, 1, 1], 0, 0, False]]),
        ("options", "{"), ("options", "[]"), ("options", None), ("options", '{"threads": "many"}'),
        ("arch", 90), ("backend", "numba"),
    ],
)  # fmt: skip
def test_headers_of_another_form_are_refused(key: str, value: object) -> None:
    stored = bytes_of(tc.emit(MM, SHAPES, backend="cuda"))
    assert text_of(stored) is not None
    line, _, body = stored.partition(b"\n")
    header = {**json.loads(line), key: value}
    assert text_of(json.dumps(header).encode() + b"\n" + body) is None
    del header[key]
    assert text_of(json.dumps(header).encode() + b"\n" + body) is None
