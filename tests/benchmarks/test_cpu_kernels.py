"""The kernels of `bench.cpu` at small sizes: their texts and all peers' forms are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from bench.cpu_kernels import contractions as cs
from bench.cpu_kernels import layers as ls
from bench.cpu_kernels import places as pl
from bench.cpu_kernels import pointwise as ps
from bench.cpu_kernels.kernel import Case, Kernel
from bench.cpu_kernels.table import BY_NAME, GROUPS
from bench.peers.catalogue import PEERS
from bench.peers.worker import error_of

SMALL = (
    cs.tmm(17, 19, 23),
    cs.c3(5, 33, 21),
    cs.tbmm(3, 7, 9, 5),
    ls.gconv(2, 3, 4, 5, 9, 23),
    ls.gconv(2, 2, 16, 16, 7, 7),
    ls.lut1(50, 21, 5, 6),
    ls.lut2(50, 64, 5, 6),
    ls.mlp1(9, 31, 18),
    ls.mlp3(13, 20, 17, 16, 3),
    ls.conv2d(2, 3, 9, 21, 18),
    ls.conv2d_pad(2, 3, 9, 21, 18),
    ls.maxpool(2, 3, 9, 37),
    ps.softmax(5, 83),
    ps.layernorm(5, 83),
    ps.groupnorm(2, 3, 2, 5, 7),
    ps.moments(5, 83),
    ps.transpose4d(2, 3, 5, 17),
    ps.to_channels_last(2, 17, 3, 19),
    ps.sum_log(19, 23),
    cs.outer_product(3, 4, 5, 6, 17),
    cs.bmm_rev(17, 7, 9, 19),
    cs.mttkrp(3, 9, 7, 17),
    cs.l2diff(9, 21, 7),
    cs.l2gemm(9, 21, 7),
    cs.sgemm(17, 19, 23),
    pl.cumulative_rows(5, 83),
    pl.cumulative_sum(103),
    pl.integral_image(7, 37),
    pl.histogram(211, 13),
    pl.scatter(211, 13),
    pl.scatter_rows(53, 21, 7),
    pl.csr_matrix(19, 97, 21),
    pl.csr_matrix(19, 97, 21, power_law=True),
    pl.segment_softmax(97, 19),
    pl.segment_softmax(97, 19, in_order=True),
    pl.greatest(5, 83),
    pl.lower_product(131),
    pl.syrk_lower(133, 17),
    pl.embedding_backward(23, 21, 3, 7),
)
OF_PLACES = frozenset(kernel.family for kernel in GROUPS["places"])
BY_SEGMENTS = {"scatter", "scatter_rows", "embedding_backward"}
EAGER = {"histogram", "csr_matrix"}
RUNNING = {"cumulative_rows", "cumulative_sum"}
SEGMENTS = {"segment_softmax", "segment_softmax_sorted"}
NOT_OFFERED = {
    "torch": frozenset[str](),
    "compile": OF_PLACES & EAGER,
    "jax": OF_PLACES - BY_SEGMENTS - RUNNING - SEGMENTS,
    "halide-tuned": OF_PLACES,
    "numba": OF_PLACES - {"integral_image"},
}
"""The families that a peer has no form of; of places only those that are compared with."""
OFFERED = [
    (peer, kernel)
    for peer, families in NOT_OFFERED.items()
    for kernel in SMALL
    if kernel.family not in families
]


def errors(case: Case, results: Any) -> list[float]:
    values = results if isinstance(results, tuple) else (results,)
    return [
        error_of(np.asarray(value), expected, case.kernel.tolerance(expected))
        for value, expected in zip(values, case.expected(), strict=True)
    ]


def named(kernel: Kernel) -> str:
    return kernel.name


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("kernel", SMALL, ids=named)
def test_text_computes_the_reference(kernel: Kernel) -> None:
    case = kernel.case()
    outputs = case.outputs if kernel.updates else None
    assert max(errors(case, tc.interpret(kernel.text, case.inputs, outputs=outputs))) <= 1


def check_forms(peer: str, kernel: Kernel) -> None:
    """Each form twice: the second result is compared, as buffers are then in use."""
    case = kernel.case()
    forms = PEERS[peer].make(2).forms(kernel.family)
    assert forms
    for name, form in forms.items():
        case.reset()
        run = form(case)
        run()
        case.reset()
        results = run()
        assert max(errors(case, case.outputs if results is None else results)) <= 1, name


@pytest.mark.parametrize("kernel", SMALL, ids=named)
def test_forms_of_numpy(kernel: Kernel) -> None:
    check_forms("numpy", kernel)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("peer", "kernel"), OFFERED, ids=lambda of: getattr(of, "name", of))
def test_forms_of(peer: str, kernel: Kernel) -> None:
    pytest.importorskip(PEERS[peer].packages[0])
    check_forms(peer, kernel)


def test_small_kernels_are_of_every_family() -> None:
    assert {kernel.family for kernel in SMALL} == {k.family for k in BY_NAME.values()}


def test_names_are_unique() -> None:
    assert len(BY_NAME) == sum(map(len, GROUPS.values()))


def test_inputs_are_the_same_in_every_process_and_aligned() -> None:
    first, second = SMALL[0].case(), SMALL[0].case()
    assert np.array_equal(first.inputs[0], second.inputs[0])
    assert all(array.ctypes.data % 64 == 0 for array in (*first.inputs, *first.outputs))


def test_reset_leaves_nothing_to_pass_as_a_result() -> None:
    case = SMALL[0].case()
    case.outputs[0][...] = case.expected()[0]
    case.reset()
    assert not max(errors(case, case.outputs)) <= 1


def test_tolerance_finds_sixteen_bit_arithmetic_out() -> None:
    case = cs.tmm(64, 512, 64).case()
    a, b = (x.astype(np.float16).astype(np.float64) for x in case.inputs)
    assert max(errors(case, a @ b.T)) > 1


def test_bytes_of_a_table_are_those_of_the_rows_in_use() -> None:
    kernel = ls.lut1(10**6, 64, 50, 128)
    assert kernel.bytes_read == 128 * 50 * (64 + 1) * 4
    assert kernel.bytes_written == 128 * 64 * 4


def test_an_updated_output_is_read_too() -> None:
    assert cs.sgemm(2, 3, 5).bytes_read == 4 * (2 * 3 + 3 * 5 + 2 + 2 * 5)


def test_integers_are_compared_exactly() -> None:
    case = pl.histogram(211, 13).case()
    (counts,) = case.expected()
    assert errors(case, counts) == [0.0]
    assert errors(case, counts + (np.arange(13) == 5))[0] > 1
    assert case.outputs[0].dtype == np.int32
    assert not max(errors(case, case.outputs)) <= 1


@pytest.mark.parametrize("power_law", [False, True])
def test_offsets_of_rows_cover_all_entries(power_law: bool) -> None:
    row, col, *_ = pl.csr_matrix(50, 1000, 3, power_law=power_law).case().inputs
    counts = np.diff(row)
    assert (row[0], row[-1], len(col)) == (0, 1000, 1000)
    assert counts.min() >= 0
    assert (counts.max() > 150) == power_law


def test_sorted_keys_are_sorted() -> None:
    keys = pl.segment_softmax(97, 19, in_order=True).case().inputs[0]
    assert keys.dtype == np.int32
    assert (np.diff(keys) >= 0).all()
