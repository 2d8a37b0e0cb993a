"""PyTorch, eager and compiled. Expressions serve both; what writes into given tensors is eager."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
            name: self._expression(function) for name, function in EXPRESSIONS[family].items()
        }
        if self._compiled:
            return expressions
        return {**expressions, **{n: in_place(f) for n, f in IN_PLACE[family].items()}}

    def _expression(self, function: Callable[..., Any]) -> Form:
        def form(case: Case) -> Run:
            inputs = [tensor(x) for x in case.inputs]
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
