"""Programs as operators of PyTorch: what gradients, transforms and graphs ask of them.

It is loaded where a function meets a tensor of which torch asks for more than numbers, never by
`import tc`. A program that `torch.export` has stored needs no more than `import tc.torch`.
"""

from __future__ import annotations

from tc.torch import operator as operator
from tc.torch.autocasting import Autocast as autocast
from tc.torch.layer import Layer as Module

__all__ = ["Module", "autocast"]
