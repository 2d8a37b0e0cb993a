"""The functions of numba kernels that scipy.special computes, on float64: float32 is rounded at
the end. `math` loads this module at the first use of one of the functions (`SCIPY_FUNCTIONS`).

Special cases are those of `tc.builtins.formulas`, which says where scipy's results are not used.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
from llvmlite import binding
from numba import types
from scipy.special import cython_special

from tc.backends.numba.math import fma, in_double
from tc.builtins import formulas


def _of_scipy(name: str) -> Any:
    """A function of scipy.special on float64. It is found by a symbol, which unlike an address may
    stand in code that is kept on disk. Fused functions have a mangled name for each type."""
    table = cython_special.__pyx_capi__
    for mangled in (name, *(f"__pyx_fuse_{k}{name}" for k in range(4))):
        signature = _capsule_name(table[mangled]) if mangled in table else b""
        if signature in (b"double (double, int __pyx_skip_dispatch)", b"double (double)"):
            break
    else:
        raise ImportError(f"scipy.special.cython_special has no {name} for double")
    symbol = f"tc_scipy_{name}"
    binding.add_symbol(symbol, _capsule_pointer(table[mangled], signature))
    # where the C function takes no second argument, it finds an unused one in a register
    function = types.ExternalFunction(symbol, types.float64(types.float64, types.int32))
    return in_double(lambda x: function(x, np.int32(0)))


_capsule_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)

normcdfinv = _of_scipy("ndtri")
_erfinv, _erfcinv, _right_of_erfcx = (_of_scipy(n) for n in ("erfinv", "erfcinv", "erfcx"))
# scipy's erfinv and i1 lose the sign of -0, and its erfcinv ends before the numbers do
erfinv = in_double(lambda x: x if x == 0.0 else _erfinv(x))
erfcinv = in_double(lambda x: formulas.OF_LEAST if x == formulas.LEAST else _erfcinv(x) + 0.0)


def _bessel(kind: str, order: int) -> Any:
    """A Bessel function j or y: scipy's, and far out Hankel's expansion, as in the reference."""
    near = _of_scipy(f"{kind}{order}")
    (_, p1, p2), (q0, q1, q2) = formulas.EXPANSIONS[order]
    is_j, odd = kind == "j", order == 1

    @in_double
    def function(x: Any) -> Any:
        size = math.fabs(x)
        if not size >= formulas.HANKEL_FROM:
            return near(x)
        if math.isinf(x):
            return 0.0 * (math.copysign(1.0, x) if odd else 1.0) if is_j or x > 0.0 else np.nan
        if x < 0.0 and not is_j:
            return np.nan
        z = 1.0 / (size * size)
        p, q = 1.0 + z * (p1 + z * p2), (q0 + z * (q1 + z * q2)) / size
        total, difference = math.sin(size) + math.cos(size), math.sin(size) - math.cos(size)
        cosine, sine = (difference, -total) if odd else (total, difference)
        wave = p * cosine - q * sine if is_j else p * sine + q * cosine
        far = wave / (math.sqrt(size) * math.sqrt(np.pi))
        return -far if odd and x < 0.0 else far

    return function


def _modified_bessel(order: int) -> Any:
    """A Bessel function I: scipy's, but where its exponential overflows."""
    near, scaled = _of_scipy(f"i{order}"), _of_scipy(f"i{order}e")
    odd = order == 1

    @in_double
    def function(x: Any) -> Any:
        size = math.fabs(x)
        if math.isinf(x) or (odd and x == 0.0):
            return x if odd else size
        if size < formulas.EXPONENTIAL_FROM:
            return near(x)
        root = math.exp(0.5 * size)
        return root * scaled(x) * root

    return function


j0, j1, y0, y1 = (_bessel(kind, order) for kind in "jy" for order in (0, 1))
cyl_bessel_i0, cyl_bessel_i1 = _modified_bessel(0), _modified_bessel(1)


@in_double
def erfcx(x: Any) -> Any:
    if not x < -1.0:
        return _right_of_erfcx(x)
    if x < -26.8:
        return np.inf
    # scipy's loses 400 units here, as the error of x * x grows in exp
    square = x * x
    return 2.0 * math.exp(square) * (1.0 + fma(x, x, -square)) - _right_of_erfcx(-x)
