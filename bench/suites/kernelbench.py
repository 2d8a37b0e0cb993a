"""KernelBench: 55 of its problems, drawn at random once, beside torch, eager and compiled.

Models, inputs and sizes are read from a checkout; sizes are smaller where inputs are over 64 MB or
a call of torch takes about a second.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tc
from bench.suites.compiled_texts import TEXTS, Functions
from bench.suites.record import Record, clock, timed
from bench.timing import timer_of

PROBLEMS = sorted(
    (path.stem for path in (TEXTS / "kernelbench").glob("*.tc")),
    key=lambda name: [int(part) for part in name.removeprefix("level").split("_")],
)

WORSE_THAN_TORCH, ULPS = 16, 4
"""A result is right at the sizes measured if its largest error is at most so many times torch's, or
so many ulp of the largest element."""


PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "level1_33": ("bn.weight", "bn.bias"),
    "level1_54": ("conv3d.weight",),
    "level1_57": ("conv_transpose2d.weight",),
    "level1_61": ("conv_transpose3d.weight",),
    "level1_64": ("conv1d_transpose.weight",),
    "level1_69": ("conv_transpose2d.weight",),
    "level1_70": ("conv_transpose3d.weight",),
    "level1_73": ("conv_transpose3d.weight",),
    "level1_77": ("conv_transpose3d.weight",),
    "level1_78": ("conv_transpose2d.weight",),
    "level1_80": ("conv2d.weight",),
    "level1_81": ("conv_transpose2d.weight",),
    "level1_82": ("conv2d.weight",),
    "level1_86": ("depthwise.weight", "pointwise.weight"),
    "level1_87": ("conv1d.weight",),
    "level2_18": ("linear.weight", "linear.bias"),
    "level2_24": ("conv.weight", "conv.bias"),
    "level2_28": ("bmm.weight", "bmm.bias"),
    "level2_44": ("conv_transpose.weight", "conv_transpose.bias"),
    "level2_52": ("conv.weight", "conv.bias", "bn.weight", "bn.bias"),
    "level2_56": ("linear.weight", "linear.bias"),
    "level2_58": ("conv_transpose.weight", "conv_transpose.bias", "bias"),
    "level2_59": ("matmul.weight", "matmul.bias"),
    "level2_60": (
        "conv_transpose.weight",
        "conv_transpose.bias",
        "group_norm.weight",
        "group_norm.bias",
    ),
    "level2_74": ("conv_transpose.weight", "conv_transpose.bias", "multiplier"),
    "level2_78": ("conv_transpose.weight", "conv_transpose.bias"),
    "level2_80": ("gemm.weight", "gemm.bias"),
    "level2_97": ("matmul.weight", "matmul.bias", "bn.weight", "bn.bias", "bias"),
    "level2_99": ("linear.weight", "linear.bias"),
    "level2_100": ("conv_transpose.weight", "conv_transpose.bias"),
}
"""Parameters of the model that follow its inputs."""


def arguments_of(name: str, model: Any, inputs: Sequence[Any]) -> list[Any]:
    """What the def takes."""
    found = [_detached(v) for v in inputs]
    found += [_detached(_attribute(model, path)) for path in PARAMETERS.get(name, ())]
    if name == "level1_90":
        length = found[0].shape[1]
        block = max(b for b in range(1, 4097) if length % b == 0)
        found[0] = found[0].view(-1, length // block, block)
    if name == "level2_60":
        groups = model.group_norm.num_groups
        found[3:] = [v.view(groups, -1) for v in found[3:]]
    return found


def _detached(value: Any) -> Any:
    return value.detach() if hasattr(value, "detach") else value


def _attribute(model: Any, path: str) -> Any:
    for part in path.split("."):
        model = getattr(model, part)
    return model


def shaped(name: str, result: Any) -> Any:
    """The def's result in the shape of the model's."""
    return result.flatten(1) if name == "level1_90" else result


def paths(root: Path) -> dict[str, Path]:
    """The files of the problems by the names of the texts; what a checkout lacks is left out."""
    found = {}
    for name in PROBLEMS:
        level, number = name.split("_")
        for path in (root / "KernelBench" / level).glob(f"{number}_*.py"):
            found[name] = path
    return found


def load(path: Path, sizes: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    """A model of the problem and inputs, where sizes replace those of the file."""
    import torch

    space: dict[str, Any] = {"__name__": "kernelbench_problem"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), space)
    space.update(sizes)
    torch.manual_seed(0)
    model = space["Model"](*space["get_init_inputs"]())
    torch.manual_seed(1)
    return model, space["get_inputs"]()


def exact(model: Any, inputs: Sequence[Any]) -> Any:
    """The model's result in float64."""
    wide = [v.double() if getattr(v, "is_floating_point", bool)() else v for v in inputs]
    return copy.deepcopy(model).double()(*wide).double()


def beyond_bound(path: Path, name: str) -> int:
    """Elements at small sizes that differ from torch's in float64 by more than `tc.error_bound`."""
    import torch

    model, inputs = load(path, SMALL[name])
    given, wanted = arguments_of(name, model, inputs), exact(model, inputs)
    text = (TEXTS / "kernelbench" / f"{name}.tc").read_text(encoding="utf-8")
    found = shaped(name, Functions("kernelbench", name).kernel(*given)).double()
    arrays = [v.numpy() if isinstance(v, torch.Tensor) else v for v in given]
    bound = np.asarray(tc.error_bound(text, arrays), np.float64).copy()
    if found.shape != wanted.shape:
        return found.numel() + 1
    return int(((found - wanted).abs() > shaped(name, torch.from_numpy(bound))).sum())


def wrong_elements(found: Any, eager: Any, wanted: Any) -> int:
    """Elements at the sizes measured that are further from float64's than torch's errors allow."""
    if found.shape != wanted.shape or found.dtype != eager.dtype:
        return int(wanted.numel())
    worst = float((eager.double() - wanted).abs().max())
    unit = float(wanted.abs().max()) * 2.0**-23
    allowed = max(WORSE_THAN_TORCH * worst, ULPS * unit)
    return int((~((found.double() - wanted).abs() <= allowed)).sum())


def measured(
    root: Path, name: str, setting: str, budget: float, without: Sequence[str]
) -> Iterator[Record]:
    """A record of tc and torch's eager mode; then, where torch.compile comes back, one with it."""
    del setting
    import torch

    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    path = paths(root)[name]
    beyond = beyond_bound(path, name)
    model, inputs = load(path, SCALED.get(name, {}))
    given = arguments_of(name, model, inputs)
    function = Functions("kernelbench", name).kernel
    runs: dict[str, Callable[[], Any]] = {
        "tc": lambda: shaped(name, function(*given)),
        "torch": lambda: model(*inputs),
    }
    beyond += wrong_elements(runs["tc"](), runs["torch"](), exact(model, inputs))
    sizes = ", ".join("x".join(map(str, v.shape)) for v in inputs if isinstance(v, torch.Tensor))

    def record(notes: Mapping[str, str]) -> Record:
        timers = {peer: timer_of(run, clock()) for peer, run in runs.items()}
        return Record(SUITE, title(path), sizes, *timed(timers, budget), beyond, notes)

    if "torch.compile" in without:
        yield record({})
        return
    yield record({"torch.compile": "no result in time"})
    try:
        compiled = torch.compile(model)
        compiled(*inputs)
    except Exception as error:
        yield record({"torch.compile": f"{type(error).__name__}: {str(error)[:120]}"})
        return
    runs["torch.compile"] = lambda: compiled(*inputs)
    yield record({})


SUITE = "KernelBench"


def title(path: Path) -> str:
    """
    >>> title(Path("KernelBench/level1/19_ReLU.py"))
    '1:19 ReLU'
    """
    number, _, name = path.stem.partition("_")
    return f"{path.parent.name.removeprefix('level')}:{number} {name.strip('_')}"


def _sizes(**sizes: Any) -> Mapping[str, Any]:
    return sizes


_IMAGE = _sizes(batch_size=2, in_channels=3, out_channels=4, height=4, width=5)
_IMAGE_IN = _sizes(batch_size=2, in_channels=3, out_channels=4, height_in=4, width_in=5)
_VOLUME = _sizes(batch_size=2, in_channels=3, out_channels=4, depth=3, height=4, width=5)
_ROWS, _REDUCED = _sizes(batch_size=3, dim=17), _sizes(batch_size=2, dim1=5, dim2=7)
_LAYER = _sizes(batch_size=3, in_features=7, out_features=5)

SMALL: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(("level1_61", "level1_70", "level1_77", "level2_100"), _VOLUME),
    **dict.fromkeys(("level1_57", "level1_78"), _IMAGE),
    **dict.fromkeys(("level1_69", "level1_81"), _IMAGE_IN),
    **dict.fromkeys([f"level1_{n}" for n in (19, 27, 29, 31, 32, 38)], _ROWS),
    **dict.fromkeys([f"level1_{n}" for n in (47, 48, 51, 52, 53)], _REDUCED),
    **dict.fromkeys([f"level2_{n}" for n in (18, 28, 59, 80, 97, 99)], _LAYER),
    "level1_2": _sizes(M=5, K=6, N=7),
    "level1_5": _sizes(M=5, N=7),
    "level1_10": _sizes(N=2, M=3, K=4, L=5),
    "level1_11": _sizes(b=2, i=3, j=4, l=5, k=6),
    "level1_12": _sizes(M=5, N=6),
    "level1_14": _sizes(N=9),
    "level1_17": _sizes(M=5, K=6, N=7),
    "level1_33": _sizes(batch_size=2, features=3, dim1=4, dim2=5),
    "level1_34": _sizes(batch_size=2, features=3, dim1=4, dim2=5),
    "level1_42": _sizes(batch_size=2, channels=3, height=12, width=11),
    "level1_45": _sizes(batch_size=2, channels=3, height=10, width=11),
    "level1_46": _sizes(batch_size=2, channels=3, depth=7, height=6, width=8),
    "level1_54": _sizes(batch_size=2, in_channels=3, out_channels=4, depth=5, width=6, height=7),
    "level1_64": _sizes(batch_size=2, in_channels=3, out_channels=4, length=9),
    "level1_73": _sizes(batch_size=2, in_channels=8, out_channels=8, depth=4, height=4, width=5),
    "level1_80": _sizes(batch_size=2, in_channels=3, out_channels=4, height=9, width=8),
    "level1_82": _sizes(batch_size=2, in_channels=3, height=9, width=8),
    "level1_86": _sizes(batch_size=2, in_channels=3, out_channels=4, height=9, width=8),
    "level1_87": _sizes(batch_size=2, in_channels=3, out_channels=4, width=5, height=6),
    "level1_90": _sizes(batch_size=3, input_shape=(24,)),
    "level1_94": _sizes(batch_size=3, input_shape=(17,)),
    "level1_98": _sizes(batch_size=3, input_shape=(17,)),
    "level2_24": _sizes(batch_size=2, in_channels=3, out_channels=4, D=5, H=6, W=7),
    "level2_44": _sizes(batch_size=2, in_channels=3, out_channels=4, height=5, width=6),
    "level2_52": _sizes(batch_size=3, in_channels=3, out_channels=4, height=6, width=7),
    "level2_56": _sizes(batch_size=3, input_size=7, hidden_size=5),
    "level2_58": _sizes(**{**_VOLUME, "out_channels": 16}),
    "level2_60": _sizes(**{**_VOLUME, "out_channels": 8}),
    "level2_74": _sizes(**{**_VOLUME, "out_channels": 32}),
    "level2_78": _sizes(**{**_VOLUME, "depth": 5, "height": 6, "width": 7}),
}
"""Sizes at which results are compared under `tc.error_bound`."""

SCALED: Mapping[str, Mapping[str, Any]] = {
    "level1_5": _sizes(M=2048),
    "level1_10": _sizes(N=4),
    "level1_11": _sizes(b=4, i=16),
    "level1_12": _sizes(M=2048, N=2048),
    "level1_14": _sizes(N=2048),
    "level1_33": _sizes(batch_size=3),
    "level1_34": _sizes(batch_size=3),
    "level1_45": _sizes(batch_size=2),
    "level1_46": _sizes(batch_size=1),
    "level1_54": _sizes(batch_size=4),
    "level1_70": _sizes(batch_size=8),
    "level1_73": _sizes(batch_size=4),
    "level1_77": _sizes(batch_size=4),
    "level1_78": _sizes(batch_size=8),
    "level1_81": _sizes(batch_size=2),
    "level2_58": _sizes(batch_size=16),
    "level2_60": _sizes(batch_size=16),
}
"""Sizes that are measured, where the suite's are too large."""
