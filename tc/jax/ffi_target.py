"""The one target of XLA's foreign function interface that all programs have, `tc_run`: arrays in,
arrays out, the program as text among the attributes of the call."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import jax

from tc.derivatives.text_functions import texts_of
from tc.function import Compiled
from tc.jax.ready_calls import digest_of, digest_words, ready_calls
from tc.process.uninterrupted import Lazy

TARGET = "tc_run"
PLATFORM = "cpu"

_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_KIND = b"xla._CUSTOM_CALL_TARGET"


@Lazy
def register() -> None:
    """Registers the target with XLA, so that compiled and stored programs can call it."""
    handler = ready_calls().handler.address
    jax.ffi.register_ffi_target(TARGET, _capsule(handler, _KIND, None), platform=PLATFORM)


def attributes(function: Compiled, numbers: Mapping[str, int]) -> dict[str, Any]:
    """The attributes of a call of a function, with numbers for some of its inputs. The handler
    expects the digest first, in the order of their names."""
    text, entry, how = texts = texts_of(function, numbers)
    return {"digest": digest_words(digest_of(texts)), "entry": entry, "how": how, "text": text}
