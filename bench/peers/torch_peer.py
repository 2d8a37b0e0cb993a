"""PyTorch, eager and compiled. Expressions serve both; what writes into given tensors is eager."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.cpu_kernels.kernel import Case
from bench.peers.peer import Form, Forms, Run

EXPRESSIONS = Forms()
"""Functions of the input tensors, for `updates` with the outputs before them."""
IN_PLACE = Forms()
"""Functions of a list of input tensors and a list of output tensors, which they fill."""
KEYED = Forms()
"""Expressions of the number of rows that keys select, and of the input tensors."""
PREPARED = Forms()
"""Functions of a case that make a run, and before it what torch asks for: keys of 64 bits."""


class TorchPeer:
    """Eager, or with torch.compile, whose own start of some seconds is paid here."""

    def __init__(self, threads: int, *, compiled: bool) -> None:
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self._compiled = compiled
        if compiled:
            warm = torch.compile(lambda x: x + 1)
            warm(torch.ones(8))

    def version(self) -> str:
        return f"torch {torch.__version__}"

    def forms(self, family: str) -> Mapping[str, Form]:
        expressions = {
            **{n: self._expression(f) for n, f in EXPRESSIONS[family].items()},
            **{n: self._expression(f, keyed=True) for n, f in KEYED[family].items()},
        }
        if self._compiled:
            return expressions
        filling = {n: in_place(f) for n, f in IN_PLACE[family].items()}
        return {**expressions, **filling, **PREPARED[family]}

    def _expression(self, of: Callable[..., Any], *, keyed: bool = False) -> Form:
        def form(case: Case) -> Run:
            inputs = [tensor(x) for x in case.inputs]
            function = partial(of, case.kernel.rows) if keyed else of
            if case.kernel.updates:
                inputs = [*map(tensor, case.outputs), *inputs]
            if not self._compiled:
                return lambda: function(*inputs)
            torch.compiler.reset()
            compiled = torch.compile(function, fullgraph=True, dynamic=False)
            return lambda: compiled(*inputs)

        return form


def in_place(function: Callable[..., Any]) -> Form:
    def form(case: Case) -> Run:
        inputs, outputs = [tensor(x) for x in case.inputs], [tensor(x) for x in case.outputs]
        return lambda: function(inputs, outputs)

    return form


def tensor(value: Any) -> Any:
    return value if isinstance(value, float) else torch.from_numpy(value)


@EXPRESSIONS.of("tmm")
def product(a: Tensor, b: Tensor) -> Tensor:
    return a @ b.t()


@IN_PLACE.of("tmm")
def product_out(inputs: list[Tensor], outputs: list[Tensor]) -> None:
    torch.mm(inputs[0], inputs[1].t(), out=outputs[0])


@EXPRESSIONS.of("half")
def half_product(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


@IN_PLACE.of("half")
def half_product_out(inputs: list[Tensor], outputs: list[Tensor]) -> None:
    torch.mm(inputs[0], inputs[1], out=outputs[0])


@EXPRESSIONS.of("tbmm")
def batched(x: Tensor, y: Tensor) -> Tensor:
    return torch.bmm(x, y.transpose(1, 2))


@IN_PLACE.of("tbmm")
def batched_out(inputs: list[Tensor], outputs: list[Tensor]) -> None:
    torch.bmm(inputs[0], inputs[1].transpose(1, 2), out=outputs[0])


@EXPRESSIONS.of("bmm_rev")
def permuted(x: Tensor, y: Tensor) -> Tensor:
    return torch.bmm(x.permute(2, 0, 1), y.permute(1, 2, 0))


@EXPRESSIONS.of("bmm_rev")
def permuted_copies(x: Tensor, y: Tensor) -> Tensor:
    return torch.bmm(x.permute(2, 0, 1).contiguous(), y.permute(1, 2, 0))


@EXPRESSIONS.of("outer_product")
def broadcast(a: Tensor, b: Tensor) -> Tensor:
    return a[:, None] @ b[None]


@IN_PLACE.of("outer_product")
def broadcast_out(inputs: list[Tensor], outputs: list[Tensor]) -> None:
    torch.matmul(inputs[0][:, None], inputs[1][None], out=outputs[0])


@EXPRESSIONS.of("outer_product")
def outer_one_product(a: Tensor, b: Tensor) -> Tensor:
    (p, q, r), (s, _, t) = a.shape, b.shape
    flat = a.reshape(p * q, r) @ b.permute(1, 0, 2).reshape(r, s * t)
    return flat.reshape(p, q, s, t).permute(0, 2, 1, 3).contiguous()


@EXPRESSIONS.of("mttkrp")
def mttkrp_factored(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return ((a @ c) * b).sum(1)


@EXPRESSIONS.of("mttkrp")
def mttkrp_one_product(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    both = (b[:, None] * c[None]).reshape(-1, b.shape[1])
    return a.reshape(a.shape[0], -1) @ both


@EXPRESSIONS.of("mttkrp")
def mttkrp_einsum(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return torch.einsum("ikl,kr,lr->ir", a, b, c)


@EXPRESSIONS.of("l2diff")
def differences(a: Tensor, b: Tensor) -> Tensor:
    return (a[:, None] - b[None]).square().sum(2)


@IN_PLACE.of("l2diff")
def cdist(inputs: list[Tensor], _: list[Tensor]) -> Tensor:
    a, b = inputs
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").square_()


@EXPRESSIONS.of("l2gemm")
def expanded(a: Tensor, b: Tensor) -> Tensor:
    squares = a.square().sum(1)[:, None] + b.square().sum(1)
    return torch.addmm(squares, a, b.t(), alpha=-2)


@EXPRESSIONS.of("sgemm")
def product_added(c: Tensor, alpha: float, beta: float, a: Tensor, b: Tensor) -> Tensor:
    return torch.addmm(c, a, b, alpha=alpha, beta=beta)


@IN_PLACE.of("sgemm")
def product_added_out(inputs: list[Any], outputs: list[Tensor]) -> None:
    alpha, beta, a, b = inputs
    outputs[0].addmm_(a, b, alpha=alpha, beta=beta)


@EXPRESSIONS.of("conv2d")
def conv(i: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(i, w)


@EXPRESSIONS.of("conv2d")
def conv_channels_last(i: Tensor, w: Tensor) -> Tensor:
    return in_channels_last(i, w)


@EXPRESSIONS.of("conv2d_pad")
def conv_pad(i: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(i, w, padding=1)


@EXPRESSIONS.of("conv2d_pad")
def conv_pad_channels_last(i: Tensor, w: Tensor) -> Tensor:
    return in_channels_last(i, w, padding=1)


@EXPRESSIONS.of("gconv")
def grouped(i: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.conv2d(i.flatten(1, 2), w.flatten(0, 1), b.flatten(), groups=w.shape[0])


@EXPRESSIONS.of("gconv")
def grouped_channels_last(i: Tensor, w: Tensor, b: Tensor) -> Tensor:
    flat = w.flatten(0, 1)
    return in_channels_last(i.flatten(1, 2), flat, b.flatten(), groups=w.shape[0])


def in_channels_last(i: Tensor, w: Tensor, b: Tensor | None = None, **options: int) -> Tensor:
    """From and to row-major tensors, as the kernel has them."""
    last = torch.channels_last
    result = F.conv2d(
        i.contiguous(memory_format=last), w.contiguous(memory_format=last), b, **options
    )
    return result.contiguous()


@EXPRESSIONS.of("maxpool")
def pooled(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 2)


@EXPRESSIONS.of("maxpool")
def four_slices(x: Tensor) -> Tensor:
    h, w = x.shape[2] // 2 * 2, x.shape[3] // 2 * 2
    rows = torch.maximum(x[:, :, 0:h:2], x[:, :, 1:h:2])
    return torch.maximum(rows[..., 0:w:2], rows[..., 1:w:2])


@EXPRESSIONS.of("lut1")
def one_bag(table: Tensor, rows: Tensor) -> Tensor:
    return F.embedding_bag(rows, table, mode="sum")


@EXPRESSIONS.of("lut1")
def one_index(table: Tensor, rows: Tensor) -> Tensor:
    return table[rows].sum(1)


@EXPRESSIONS.of("lut2")
def two_bags(t1: Tensor, i1: Tensor, t2: Tensor, i2: Tensor) -> tuple[Tensor, ...]:
    return one_bag(t1, i1), one_bag(t2, i2)


@EXPRESSIONS.of("lut2")
def two_indices(t1: Tensor, i1: Tensor, t2: Tensor, i2: Tensor) -> tuple[Tensor, ...]:
    return one_index(t1, i1), one_index(t2, i2)


@EXPRESSIONS.of("mlp1", "mlp3")
def layers(x: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
    results = []
    for w, b in zip(parameters[::2], parameters[1::2], strict=True):
        x = F.relu(F.linear(x, w, b))
        results.append(x)
    return tuple(results)


@IN_PLACE.of("mlp1", "mlp3")
def layers_out(inputs: list[Tensor], outputs: list[Tensor]) -> None:
    x, *parameters = inputs
    for w, b, out in zip(parameters[::2], parameters[1::2], outputs, strict=True):
        torch.addmm(b, x, w.t(), out=out)
        x = out.relu_()


@EXPRESSIONS.of("softmax")
def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, 1)


@IN_PLACE.of("softmax")
def softmax_out(inputs: list[Tensor], outputs: list[Tensor]) -> None:
    torch.softmax(inputs[0], 1, out=outputs[0])


@EXPRESSIONS.of("layernorm")
def layernorm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
    return F.layer_norm(x, (x.shape[1],), gamma, beta, eps)


@EXPRESSIONS.of("groupnorm")
def groupnorm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
    return F.group_norm(x.flatten(1, 2), x.shape[1], gamma.flatten(), beta.flatten(), eps)


@EXPRESSIONS.of("moments")
def moments(x: Tensor) -> tuple[Tensor, ...]:
    variance, mean = torch.var_mean(x, 1, correction=0)
    return mean, variance


@EXPRESSIONS.of("moments")
def moments_two_sums(x: Tensor) -> tuple[Tensor, ...]:
    mean = x.mean(1)
    return mean, x.square().mean(1) - mean.square()


@EXPRESSIONS.of("transpose4d")
def swapped(x: Tensor) -> Tensor:
    return x.permute(0, 2, 1, 3).contiguous()


@IN_PLACE.of("transpose4d")
def swapped_out(inputs: list[Tensor], outputs: list[Tensor]) -> None:
    outputs[0].copy_(inputs[0].permute(0, 2, 1, 3))


@EXPRESSIONS.of("to_channels_last")
def channels_moved(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).contiguous()


@IN_PLACE.of("to_channels_last")
def channels_moved_out(inputs: list[Tensor], outputs: list[Tensor]) -> None:
    outputs[0].copy_(inputs[0].permute(0, 2, 3, 1))


@EXPRESSIONS.of("sum_log")
def sum_log(x: Tensor, y: Tensor) -> Tensor:
    return (x * y.log().t()).sum()


@EXPRESSIONS.of("sum_log")
def sum_log_copied(x: Tensor, y: Tensor) -> Tensor:
    return (x.t() * y.log()).sum()


@EXPRESSIONS.of("cumulative_rows")
def running_sums(x: Tensor) -> Tensor:
    return x.cumsum(1)


@IN_PLACE.of("cumulative_rows")
def running_sums_out(inputs: list[Tensor], outputs: list[Tensor]) -> None:
    torch.cumsum(inputs[0], 1, out=outputs[0])


@EXPRESSIONS.of("cumulative_sum")
def running_sum(x: Tensor) -> Tensor:
    return x.cumsum(0)


@IN_PLACE.of("cumulative_sum")
def running_sum_out(inputs: list[Tensor], outputs: list[Tensor]) -> None:
    torch.cumsum(inputs[0], 0, out=outputs[0])


@EXPRESSIONS.of("integral_image")
def down_then_along(x: Tensor) -> Tensor:
    return x.cumsum(0).cumsum(1)


@EXPRESSIONS.of("integral_image")
def along_then_down(x: Tensor) -> Tensor:
    return x.cumsum(1).cumsum(0)


@PREPARED.of("integral_image")
def down_then_along_out(case: Case) -> Run:
    x, o = tensor(case.inputs[0]), tensor(case.outputs[0])
    down = torch.empty_like(x)
    return lambda: torch.cumsum(torch.cumsum(x, 0, out=down), 1, out=o)


def keys_of(case: Case) -> Tensor:
    return torch.from_numpy(case.inputs[0]).long()


@PREPARED.of("histogram")
def counted(case: Case) -> Run:
    keys, k = keys_of(case), case.kernel.rows
    return lambda: torch.bincount(keys, minlength=k)


@IN_PLACE.of("histogram")
def counted_narrow(inputs: list[Tensor], outputs: list[Tensor]) -> Tensor:
    return torch.bincount(inputs[0], minlength=len(outputs[0]))


@KEYED.of("scatter", "scatter_rows", "embedding_backward")
def index_added(rows: int, keys: Tensor, x: Tensor) -> Tensor:
    flat = x.flatten(0, keys.ndim - 1)
    return x.new_zeros(rows, *flat.shape[1:]).index_add(0, keys.flatten(), flat)


@IN_PLACE.of("scatter", "scatter_rows", "embedding_backward")
def index_added_out(inputs: list[Tensor], outputs: list[Tensor]) -> None:
    keys, x = inputs
    outputs[0].zero_().index_add_(0, keys.flatten(), x.flatten(0, keys.ndim - 1))


@PREPARED.of("scatter", "scatter_rows", "embedding_backward")
def index_added_wide(case: Case) -> Run:
    keys, x, o = keys_of(case), tensor(case.inputs[1]), tensor(case.outputs[0])
    flat = x.flatten(0, keys.ndim - 1)
    return lambda: o.zero_().index_add_(0, keys.flatten(), flat)


@PREPARED.of("scatter", "scatter_rows", "embedding_backward")
def scatter_added(case: Case) -> Run:
    keys, x, o = keys_of(case), tensor(case.inputs[1]), tensor(case.outputs[0])
    flat = x.flatten(0, keys.ndim - 1)
    one = keys.flatten()
    everywhere = one[:, None].expand_as(flat) if flat.ndim == 2 else one
    return lambda: o.zero_().scatter_add_(0, everywhere, flat)


@KEYED.of("embedding_backward")
def backward_of_embedding(rows: int, keys: Tensor, x: Tensor) -> Tensor:
    return torch.ops.aten.embedding_dense_backward(x, keys, rows, -1, False)


@PREPARED.of("csr_matrix")
def sparse_product(case: Case) -> Run:
    row, col, v, b = map(tensor, case.inputs)
    matrix = torch.sparse_csr_tensor(row, col, v, (len(row) - 1, len(b)))
    return lambda: matrix @ b


@PREPARED.of("csr_matrix")
def sparse_product_wide(case: Case) -> Run:
    row, col, v, b = map(tensor, case.inputs)
    matrix = torch.sparse_csr_tensor(row.long(), col.long(), v, (len(row) - 1, len(b)))
    return lambda: matrix @ b


@KEYED.of("segment_softmax", "segment_softmax_sorted")
def segments_reduced(rows: int, keys: Tensor, s: Tensor) -> Tensor:
    places = keys.long()
    least = s.new_full((rows,), -torch.inf)
    weights = (s - least.scatter_reduce(0, places, s, "amax")[places]).exp()
    return weights / s.new_zeros(rows).index_add(0, places, weights)[places]


@PREPARED.of("segment_softmax", "segment_softmax_sorted")
def segments_reduced_wide(case: Case) -> Run:
    keys, s, rows = keys_of(case), tensor(case.inputs[1]), case.kernel.rows
    return lambda: segments_reduced(rows, keys, s)


@EXPRESSIONS.of("greatest")
def greatest(x: Tensor) -> tuple[Tensor, ...]:
    m, at = torch.max(x, 1)
    return m, at


@PREPARED.of("greatest")
def greatest_out(case: Case) -> Run:
    x, m = tensor(case.inputs[0]), tensor(case.outputs[0])
    at = torch.empty(len(m), dtype=torch.int64)
    return lambda: torch.max(x, 1, out=(m, at))


@EXPRESSIONS.of("lower_product")
def triangle_copied(a: Tensor, x: Tensor) -> Tensor:
    return a.tril() @ x


@IN_PLACE.of("lower_product")
def triangle_by_blocks(inputs: list[Tensor], outputs: list[Tensor]) -> None:
    (a, x), (y,) = inputs, outputs
    for begin in range(0, len(x), 128):
        rows = slice(begin, begin + 128)
        corner = a[rows, rows].tril() @ x[rows]
        torch.addmv(corner, a[rows, :begin], x[:begin], out=y[rows])


@EXPRESSIONS.of("syrk_lower")
def product_cut(a: Tensor) -> Tensor:
    return (a @ a.t()).tril()


@IN_PLACE.of("syrk_lower")
def product_cut_out(inputs: list[Tensor], outputs: list[Tensor]) -> None:
    torch.mm(inputs[0], inputs[0].t(), out=outputs[0]).tril_()


@IN_PLACE.of("syrk_lower")
def product_by_blocks(inputs: list[Tensor], outputs: list[Tensor]) -> None:
    (a,), (c,) = inputs, outputs
    c.zero_()
    for begin in range(0, len(a), 128):
        rows, end = slice(begin, begin + 128), min(begin + 128, len(a))
        torch.mm(a[rows], a[:end].t(), out=c[rows, :end])
        c[rows, rows].tril_()
