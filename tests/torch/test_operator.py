"""The operator `tc::run`: torch's own check of it, and what torch traces."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

import tc
from tests.support.interpreting import interpreted
from tests.torch.layers import Layer, layers

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

LAYERS = layers(torch)
BY_NAME = {layer.name: layer for layer in LAYERS}
TWICE = "def twice(float(N) x) -> (y) { y(i) = 2 * x(i) * x(i) }"
STRIDED = (
    "def strided(float(N) x, float a, int32 s, int32 k) -> (y, z) {"
    " y(i) = a * x(s*i) + float(k)  z +=! y(i) }"
)


def given(layer: Layer, tensors: Any) -> Any:
    function = interpreted(layer.text)
    return tensors, function.text, function.program.name, function._how


@pytest.fixture(scope="module")
def run() -> Any:
    import tc.torch

    assert tc.torch.__doc__
    return torch.ops.tc.run.default


OPCHECK_LOOKS = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
"""From 2.14 on, `opcheck` asks tensors that are no leaves for their gradients."""


@pytest.mark.drawn(4)
@OPCHECK_LOOKS
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_torch_finds_nothing_wrong_with_it(layer: Layer, run: Any) -> None:
    """Schema, registrations, shapes without values, and gradients in graphs of any sizes."""
    assert set(torch.library.opcheck(run, given(layer, layer.tensors(torch))).values()) == {
        "SUCCESS"
    }


def laid_out(x: Any, w: Any) -> dict[str, tuple[Any, Any]]:
    """Images and filters in other layouts, and of no elements."""
    return {
        "channels last": (x.to(memory_format=torch.channels_last), w),
        "transposed": (x.transpose(2, 3), w.mT),
        "every second one": (torch.cat([x, x], 3)[..., ::2], w),
        "expanded": (x[:1].expand(3, -1, -1, -1), w[:, :1].expand(-1, 2, -1, -1)),
        "no images": (x[:0], w),
        "without gradients": (x.detach(), w.detach()),
    }


@OPCHECK_LOOKS
@pytest.mark.parametrize("layout", laid_out(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 1)))
def test_layouts(layout: str, run: Any) -> None:
    layer = BY_NAME["convolution"]
    x, w = laid_out(*layer.tensors(torch))[layout]
    leaves = [t.detach().requires_grad_(t.requires_grad) for t in (x, w)]
    torch.library.opcheck(run, given(layer, leaves))
    found, wanted = interpreted(layer.text)(x, w), layer.same(x, w)
    torch.testing.assert_close(found, wanted)
    assert found.is_contiguous()


# --- what traces --------------------------------------------------------------------------------


def fake_results() -> list[tuple[int, ...]]:
    """Shapes, of tensors without values."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    function = interpreted(STRIDED)
    with FakeTensorMode() as mode:
        found = function(mode.from_tensor(torch.ones(9)), 2.0, 3, k=1)
        return [tuple(result.shape) for result in found]


def recorded(**how: Any) -> Callable[[Any, Any], Any]:
    from torch.fx.experimental.proxy_tensor import make_fx

    return lambda function, x: make_fx(function, **how)(x)(x + 1)


TRACERS: dict[str, Callable[[Any, Any], Any]] = {
    "make_fx": recorded(),
    "make_fx fake": recorded(tracing_mode="fake"),
    "make_fx symbolic": recorded(tracing_mode="symbolic"),
    "make_fx before dispatch": recorded(pre_dispatch=True),
    "functionalize": lambda f, x: torch.func.functionalize(f)(x + 1),
    "jit.trace": lambda f, x: torch.jit.trace(f, (x,))(x + 1),
    "symbolic_trace": lambda f, x: torch.fx.symbolic_trace(lambda x: f(x))(x + 1),
}


@pytest.mark.drawn(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("warm", [0, 3])
@pytest.mark.parametrize("tracer", TRACERS)
def test_a_record_computes_anew(tracer: str, warm: int) -> None:
    """Results are those of other values than were traced, and not constants of the record."""
    function, x = tc.compile(TWICE), torch.arange(3.0)
    for _ in range(warm):
        function(x)
    assert TRACERS[tracer](function, x).tolist() == [2, 8, 18]


def test_shapes_without_values() -> None:
    assert fake_results() == [(3,), ()]
    x = torch.ones(9, device="meta", requires_grad=True)
    y, z = interpreted(STRIDED)(x, 2.0, 3, 1)
    assert (y.device.type, tuple(y.shape), tuple(z.shape)) == ("meta", (3,), ())
    y.sum().backward()
    assert x.grad.shape == (9,)
    with pytest.raises(tc.InputError, match=r"dtype torch\.float64"):
        interpreted(STRIDED)(x.double(), 2.0, 3, 1)
    with pytest.raises(tc.InputError, match="has rank 2") as caught:
        interpreted(STRIDED)(x[None], 2.0, 3, 1)
    assert caught.value.repair == "x.reshape((9,))"
    scalar = torch.ones((), dtype=torch.int32, device="meta")
    with pytest.raises(tc.InputError, match="shapes follow from its value") as caught:
        interpreted(STRIDED)(x, 2.0, scalar, 1)
    assert caught.value.repair == "int(s), outside of what torch traces"
    mm = interpreted(BY_NAME["matmul"].text)
    with pytest.raises(tc.InputError, match="size K is 4"):
        mm(*(torch.ones(3, 4, dtype=torch.float64, device="meta") for _ in range(2)))


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("lacking", ["x", "w"])
def test_tensors_with_and_without_values(lacking: str, grad: bool) -> None:
    """Results were on the device of the first, and had no values."""
    text = "def f(float(N) x, float(N) w) -> (y) { y(i) = x(i) * w(i) }"
    function = interpreted(text)
    given = {name: torch.ones(3, requires_grad=grad) for name in ("x", "w")}
    (other,) = given.keys() - {lacking}
    mixed = {**given, lacking: given[lacking].to("meta")}
    calls: list[Callable[[], Any]] = [
        lambda: function(**mixed),
        lambda: torch.func.vmap(function)(*(t[None] for t in mixed.values())),
        lambda: torch.func.grad(lambda x: function(x, mixed["w"]).sum())(mixed["x"]),
    ]
    for call in calls:
        with pytest.raises(tc.InputError) as caught:
            call()
        assert caught.value.cause.partition(": ")[2] == (
            f"{lacking} is a meta tensor, which has a shape and no values, but {other} lies on "
            "cpu: the tensors of a call are in one place"
        )
        assert caught.value.repair == (
            f'torch.zeros_like({lacking}, device="cpu"), or {other}.to("meta") for the shapes of '
            "results alone"
        )
    mixed[other] = mixed[other].to("meta")
    assert function(**mixed).device.type == "meta"


def test_numbers_stand_beside_tensors_without_values() -> None:
    """As they do for torch, in any order."""
    function = interpreted("def f(float a, float(N) x, float b) -> (y) { y(i) = a * x(i) + b }")
    x, one, none = torch.ones(3), torch.tensor(1.0), torch.ones((), device="meta")
    for a in (one, none, 1.0):
        assert function(a, x.to("meta"), one).device.type == "meta"
    with pytest.raises(tc.InputError, match=r"f: b is a meta tensor.* but x lies on cpu"):
        function(one, x, none)


class Plain(torch.Tensor):  # type: ignore[misc]
    """A subclass that means nothing more."""


class Counted(torch.Tensor):  # type: ignore[misc]
    """A subclass of Tensor that records the functions called on it."""

    seen: ClassVar[list[Any]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})


def test_subclasses() -> None:
    function = interpreted(TWICE)
    found = function(torch.arange(3.0).as_subclass(Plain))
    assert type(found) is Plain
    assert found.tolist() == [0, 2, 8]
    x = torch.arange(3.0, requires_grad=True)
    function(x.as_subclass(Plain)).sum().backward()
    assert x.grad.tolist() == [0, 4, 8]
    function(torch.ones(2).as_subclass(Counted))
    assert torch.ops.tc.run in Counted.seen or torch.ops.tc.run.default in Counted.seen


def test_modes_of_dispatch_see_it() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Log(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kw: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kw or {}))

    x, function = torch.arange(3.0, requires_grad=True), interpreted(TWICE)
    for _ in range(2):
        with Log():
            found = function(x)
        found.sum().backward()
    assert seen.count(torch.ops.tc.run.default) == 2
    assert x.grad.tolist() == [0, 8, 16]


@pytest.mark.filterwarnings("ignore")
def test_transforms_of_the_operator(run: Any) -> None:
    """As those of any operator of torch, where nothing but its name is known."""
    texts = TWICE, "twice", '{"backend": "interpret"}'
    x = torch.arange(3.0)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x + 1)
        (found,) = run([dual], *texts)
        tangent = torch.autograd.forward_ad.unpack_dual(found).tangent
    assert tangent.tolist() == [0, 8, 24]
    assert torch.func.vmap(lambda x: run([x], *texts)[0])(x[None]).tolist() == [[0, 2, 8]]
    slope = torch.func.grad(lambda x: run([x], *texts)[0].sum())
    assert slope(x).tolist() == [0, 4, 8]
    assert torch.func.vmap(slope)(x[None]).tolist() == [[0, 4, 8]]
    assert torch.func.jvp(slope, (x,), (x,))[1].tolist() == [0, 4, 8]


@pytest.mark.parametrize(
    ("src", "entry", "options", "error"),
    [
        ("def f(", "f", '{"backend": "interpret"}', tc.ParseError),
        (TWICE, "other", '{"backend": "interpret"}', tc.TCError),
        (TWICE, "twice", '{"backend": "none"}', tc.BackendError),
        (TWICE, "twice", "{}", tc.BackendError),
        (TWICE, "twice", "no JSON", tc.BackendError),
        (TWICE, "twice", '{"backend": "interpret", "numbers": {"q": 1}}', tc.InputError),
    ],
)
def test_texts_that_are_none(
    src: str, entry: str, options: str, error: type[tc.TCError], run: Any
) -> None:
    with pytest.raises(error):
        run([torch.ones(3)], src, entry, options)


def test_inputs_that_are_missing(run: Any) -> None:
    for tensors in ([], [torch.ones(3)] * 2):
        with pytest.raises(tc.InputError, match="1 tensor"):
            run(tensors, TWICE, "twice", '{"backend": "interpret"}')


@pytest.mark.usefixtures("run")
def test_options_are_those_of_the_function() -> None:
    """And the function itself runs, where there is one."""
    from tc.torch.operator import operation_of

    function = tc.compile(TWICE, options=tc.Options(threads=1), check=False)
    texts = function.text, "twice", function._how
    assert operation_of(*texts).function is function
    del function
    fresh = operation_of(TWICE, "twice", '{"backend": "interpret", "check": true}')
    assert fresh.function.check
    assert operation_of(*texts).function.options.threads == 1


def test_a_process_that_knows_the_text_alone() -> None:
    """An exported program is loaded where nothing but `tc.torch` was imported."""
    layer = BY_NAME["linear"]
    function = interpreted(layer.text)

    class Linear(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            numbers = torch.Generator().manual_seed(1)
            self.w = torch.nn.Parameter(torch.rand(2, 4, generator=numbers, dtype=torch.float64))
            self.b = torch.nn.Parameter(torch.rand(2, generator=numbers, dtype=torch.float64))

        def forward(self, x: Any) -> Any:
            return function(x, self.w, self.b)

    import io

    module, x = Linear(), torch.rand(5, 4, dtype=torch.float64)
    sizes = {"x": {0: torch.export.Dim("n")}}
    for strict in (True, False):
        program = torch.export.export(module, (x,), dynamic_shapes=sizes, strict=strict)
        torch.testing.assert_close(program.module()(x[:3]), module(x[:3]))
    stored = io.BytesIO()
    torch.export.save(program, stored)
    script = (
        "import io, sys, torch, tc.torch\n"
        "module = torch.export.load(io.BytesIO(sys.stdin.buffer.read())).module()\n"
        "print(*module(torch.ones(3, 4, dtype=torch.float64)).flatten().tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], input=stored.getvalue(), capture_output=True, check=True
    )
    wanted = module(torch.ones(3, 4, dtype=torch.float64)).flatten()
    assert [float(value) for value in done.stdout.split()] == wanted.tolist()
