"""Functions of other libraries, by what they are here (Y7).

A formula stands for a function of numbers and is pasted in its place. A function of whole tensors
is a statement here, or several, and only its author knows over which index: it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tc.frontend.ast import Apply, Binary, Conditional, Expr, Unary
from tc.frontend.cursor import DeclaredNames
from tc.frontend.foreign import floor_division, kind_of
from tc.frontend.tokens import PI
from tc.semantics.suggest import one_line

_SQRT_HALF = "0.707106781186548"

_FORMULAS = {
    # activations
    "max({0}, 0)": "relu ReLU",
    "min(max({0}, 0), 6)": "relu6",
    "(1 / (1 + exp(-{0})))": "sigmoid expit logistic",
    "(min({0}, 0) - log1p(exp(-abs({0}))))": "logsigmoid log_sigmoid",
    "log({0} / (1 - {0}))": "logit",
    "({0} / (1 + exp(-{0})))": "silu swish",
    f"(0.5 * {{0}} * (1 + erf({{0}} * {_SQRT_HALF})))": "gelu",
    "(max({0}, 0) + log1p(exp(-abs({0}))))": "softplus",
    "({0} / (1.0 + abs({0})))": "softsign",
    "({0} * tanh(log1p(exp({0}))))": "mish",
    "({0} > 0 ? {0} : 0.01 * {0})": "leaky_relu",
    "({0} > 0 ? {0} : {1} * {0})": "leaky_relu prelu",
    "({0} > 0 ? {0} : expm1({0}))": "elu",
    "({0} > 0 ? {0} : {1} * expm1({0}))": "elu",
    "min(max({0}, -1), 1)": "hardtanh",
    "min(max({0} / 6.0 + 0.5, 0), 1)": "hardsigmoid",
    "({0} * min(max({0} + 3, 0), 6) / 6.0)": "hardswish",
    # limits and choices
    "min(max({0}, {1}), {2})": "clamp clip clip_by_value",
    "min(max({0}, 0), 1)": "saturate",
    "max({0}, {1})": "maximum",
    "min({0}, {1})": "minimum",
    "({0} ? {1} : {2})": "select if_then_else ifelse if ternary cond",
    "({0} + {2} * ({1} - {0}))": "lerp",
    "({0} > 0 ? 1.0 : {0} < 0 ? 0.0 : {1})": "heaviside",
    # numbers
    "({0} != {0})": "isnan",
    "(abs({0}) == 1.0 / 0.0)": "isinf",
    "(abs({0}) < 1.0 / 0.0)": "isfinite",
    "abs({0})": "absolute",
    "trunc({0})": "fix",
    "({0} - remainder({0}, 1.0))": "rint nearbyint",
    "({0} - trunc({0}))": "frac",
    "({0} - floor({0}))": "fract",
    # powers and logarithms
    "log({0})": "ln loge",
    "(log({0}) / log({1}))": "log",
    "({0} * {0})": "sqr square",
    "({0} * {0} * {0})": "cube",
    "pow({0}, {1})": "power",
    "(1.0 / {0})": "reciprocal rcp",
    "rsqrt({0})": "inversesqrt",
    "(max({0}, {1}) + log1p(exp(-abs({0} - {1}))))": "logaddexp",
    # angles
    "asin({0})": "arcsin",
    "acos({0})": "arccos",
    "atan({0})": "arctan",
    "asinh({0})": "arcsinh",
    "acosh({0})": "arccosh",
    "atanh({0})": "arctanh",
    "atan2({0}, {1})": "arctan2 atan",
    f"({{0}} * {PI} / 180.0)": "deg2rad radians",
    f"({{0}} * 180.0 / {PI})": "rad2deg degrees",
    "(1.0 / tan({0}))": "cot",
    "(1.0 / cos({0}))": "sec",
    "(1.0 / sin({0}))": "csc",
    "(1.0 / tanh({0}))": "coth",
    "(1.0 / cosh({0}))": "sech",
    "(1.0 / sinh({0}))": "csch",
    "cos({0})": "cosine",
    "sin({0})": "sine",
    "tan({0})": "tangent",
    "exp10({0})": "pow10",
    "exp2({0})": "pow2",
    "cyl_bessel_i0({0})": "i0",
    "cyl_bessel_i1({0})": "i1",
    # gamma
    "tgamma({0})": "gamma",
    "lgamma({0})": "gammaln loggamma",
    # operators
    "!{0}": "not logical_not",
    "({0} && {1})": "logical_and",
    "({0} || {1})": "logical_or",
    "(({0} != 0) != ({1} != 0))": "logical_xor",
    "(-{0})": "negative neg",
    "({0} + {1})": "add",
    "({0} - {1})": "subtract sub",
    "({0} * {1})": "multiply mul",
    "({0} == {1})": "equal",
    "({0} != {1})": "not_equal",
    "({0} < {1})": "less",
    "({0} <= {1})": "less_equal",
    "({0} > {1})": "greater",
    "({0} >= {1})": "greater_equal",
    # bits
    "({0} & {1})": "bitwise_and bitand",
    "({0} | {1})": "bitwise_or bitor",
    "({0} ^ {1})": "bitwise_xor bitxor xor",
    "(~{0})": "bitwise_not bitwise_invert invert",
    "({0} << {1})": "left_shift bitwise_left_shift shift_left lshift",
    "({0} >> {1})": "right_shift bitwise_right_shift shift_right rshift",
    "popc({0})": "popcount popcnt bit_count bitcount population_count popcll __popc __popcll",
    "clz({0})": "lzcnt count_leading_zeros nlz clzll __clz __clzll",
    "bits({0})": "bitcast as_uint float_as_uint __float_as_uint",
    "int32(bits({0}))": "as_int float_as_int __float_as_int",
    "float32_of({0})": "as_float uint_as_float int_as_float float_of __int_as_float "
    "__uint_as_float",
    "float64_of({0})": "double_of",
    # casts
    "int64({0})": "long",
    "int16({0})": "short",
    "uint32({0})": "uint",
    "int32({0})": "integer",
}
"""Expressions of this language, with `{0}` for the first argument of a call, and the names that
functions for them have in other libraries."""

FORMULAS = {
    (name, len(set(re.findall(r"{\d}", template)))): template
    for template, names in _FORMULAS.items()
    for name in names.split()
}
"""The expressions of `_FORMULAS` by name and number of arguments."""

_MEANT = {
    "mod modulo": "a % b has the sign of b, as in Python; fmod(a, b) that of a, as in C and "
    "Fortran",
    "argmax": "the greatest value with its first place: m, at max=! x(i), i",
    "argmin": "the least value with its first place: m, at min=! x(i), i",
    "softmax": "m(i) max=! x(i,j), then s(i) +=! exp(x(i,j) - m(i)), then "
    "o(i,j) = exp(x(i,j) - m(i)) / s(i)",
    "log_softmax": "m(i) max=! x(i,j), then s(i) +=! exp(x(i,j) - m(i)), then "
    "o(i,j) = x(i,j) - m(i) - log(s(i))",
    "logsumexp": "m(i) max=! x(i,j), then s(i) +=! exp(x(i,j) - m(i)), then "
    "o(i) = log(s(i)) + m(i)",
    "cumsum": "no element is computed from another of its tensor; a running sum is "
    "o(i) +=! x(j) where j in 0:i + 1",
    "cumprod": "no element is computed from another of its tensor; a running product is "
    "o(i) *=! x(j) where j in 0:i + 1",
    "diff": "o(i) = x(i+1) - x(i)",
    "flip reverse": "o(i) = x(N-1-i) where i in 0:N",
    "roll": "o(i) = x((i - 1) % N) where i in 0:N",
    "transpose permute": "o(i,j) = A(j,i)",
    "reshape": "o(i,j) = x(4*i + j) where i in 0:N/4, j in 0:4",
    "flatten": "o(i) = A(i / M, i % M) where i in 0:N*M",
    "diag diagonal": "o(i) = A(i,i)",
    "trace": "o +=! A(i,i)",
    "triu": "o(i,j) = i <= j ? A(i,j) : 0",
    "tril": "o(i,j) = i >= j ? A(i,j) : 0",
    "eye": "o(i,j) = i == j ? 1.0 : 0.0 where i in 0:N, j in 0:N",
    "zeros zeros_like": "o(i) = 0.0 where i in 0:N",
    "ones ones_like": "o(i) = 1.0 where i in 0:N",
    "full": "o(i) = 3.0 where i in 0:N",
    "arange range": "o(i) = i where i in 0:N",
    "linspace": "o(i) = float(i) / (N - 1) where i in 0:N",
    "outer": "o(i,j) = x(i) * y(j)",
    "dot inner vdot": "o +=! x(i) * y(i)",
    "matmul mm gemm": "o(i,j) +=! A(i,k) * B(k,j)",
    "bmm": "o(b,i,j) +=! A(b,i,k) * B(b,k,j)",
    "einsum": "o(i,j) +=! A(i,k) * B(k,j), for 'ik,kj->ij'",
    "linear": "o(i,j) +=! x(i,k) * W(j,k), then o(i,j) = o(i,j) + b(j)",
    "conv1d": "o(i) +=! x(i + k) * w(k)",
    "conv2d": "o(n,f,i,j) +=! x(n,c,i + y,j + x) * w(f,c,y,x)",
    "max_pool2d": "o(c,i,j) max=! x(c,2*i + y,2*j + x) where y in 0:2, x in 0:2",
    "maxpool": "o(i) max=! x(2*i + k) where k in 0:2",
    "embedding": "o(i,d) = W(I(i), d)",
    "gather take": "o(i) = x(I(i))",
    "one_hot": "o(i,c) = I(i) == c ? 1.0 : 0.0 where c in 0:10",
    "bincount histogram": "o(I(i)) +=! 1 where o.0 = 10",
    "scatter scatter_add": "o(I(i)) +=! x(i) where o.0 = 10",
    "sort argsort topk median sort_by": "there is no sort; the rank of an element is "
    "r(i) +=! x(j) < x(i) ? 1 : 0",
    "var variance": "m +=! x(i) / x.0, then v +=! (x(i) - m) * (x(i) - m) / x.0, of floats",
    "std": "m +=! x(i) / x.0, then v +=! (x(i) - m) * (x(i) - m) / x.0, then o = sqrt(v), of "
    "floats",
    "layer_norm layernorm": "m(i) +=! x(i,j) / x.1, then v(i) +=! (x(i,j) - m(i)) * (x(i,j) - "
    "m(i)) / x.1, then o(i,j) = (x(i,j) - m(i)) * rsqrt(v(i) + 1e-5)",
    "rms_norm rmsnorm": "v(i) +=! x(i,j) * x(i,j) / x.1, then o(i,j) = x(i,j) * rsqrt(v(i) + 1e-5)",
    "norm": "n +=! x(i) * x(i), then o = sqrt(n)",
    "cross_entropy": "m(i) max=! x(i,j), then s(i) +=! exp(x(i,j) - m(i)), then "
    "o(i) = log(s(i)) + m(i) - x(i, I(i))",
    "dropout": "there are no random numbers: pass them as a tensor, o(i) = r(i) < 0.9 ? x(i) : 0",
    "rand randn random": "there are no random numbers: pass them as a tensor, o(i) = r(i)",
    "divide div true_divide": "a / b, which rounds down where both are integers; float(a) / b "
    "otherwise",
    "sinc": f"(x == 0 ? 1 : sin({PI} * x) / ({PI} * x)), which is numpy's",
    "cast astype static_cast": "double(x), or another type's name",
    "step": "(x > 0 ? 1.0 : 0.0), or with >=",
    "if": "c ? a : b, for a if c holds, and else b",
    "clamp clip": "max(x, a), for a lower bound alone; min(x, b), for an upper one",
    "round": "round(x * 100) / 100, to two decimals",
    "print": "nothing is printed; return the tensor to look at it",
    "ceildiv ceil_div cdiv": "(a + b - 1) / b, of integers",
    "ctz ffs": "popc((x & -x) - 1), for the 0s below the lowest 1",
    "rotl rotate_left": "(x << k) | (x >> (32 - k)), of a uint32 and a k from 1 to 31",
    "rotr rotate_right": "(x >> k) | (x << (32 - k)), of a uint32 and a k from 1 to 31",
    "sizeof": "x.0, for the number of elements of a vector",
    "erfi expi exp1 expint zeta digamma psi polygamma beta gammainc "
    "betainc jn yn jv k0 k1 airy sici i0e i1e ellipk": "there is no such function; the built-in "
    "ones are those of CUDA, such as lgamma and j0",
}
"""By names: what is no formula of numbers, or means more than one thing."""

_IDIOMS = {name: text for names, text in _MEANT.items() for name in names.split()}

_REDUCED = {
    "+=!": "sum reduce_sum sigma count_nonzero mean average avg",
    "*=!": "prod product",
    "max=!": "max amax reduce_max any",
    "min=!": "min amin reduce_min all",
}
REDUCTIONS = {name: operator for operator, names in _REDUCED.items() for name in names.split()}
"""Functions of other libraries that reduce whole tensors, with the operators that reduce here."""

MEANS = frozenset(("mean", "average", "avg"))
TRUTHS = frozenset(("any", "all", "count_nonzero"))
_SIGNS = frozenset(("sign", "sgn", "signum"))
_FLOORED = frozenset(("floor_divide", "floordiv", "floor_div"))
_DIVIDED = frozenset(("divide", "div", "true_divide"))
_LENGTHS = frozenset(("len", "length", "size", "shape", "numel"))


def is_foreign(name: str) -> bool:
    """Whether a name is known to be of another library, and so no misspelling.

    >>> is_foreign("relu"), is_foreign("tahn")
    (True, False)
    """
    return (
        name in _IDIOMS
        or name in REDUCTIONS
        or name in _SIGNS | _FLOORED | _LENGTHS
        or any(known == name for known, _ in FORMULAS)
    )


def formula(expr: Apply, names: DeclaredNames) -> str | None:
    """The expression that replaces a call of another library's function; None where none does."""
    name, count = expr.name.text, len(expr.args)
    texts = [one_line(arg.span) for arg in expr.args]
    if "..." in texts:
        return None
    if name in _SIGNS and count == 1:
        x = as_operand(expr.args[0], texts[0])
        if kind_of(expr.args[0], names) == "int":
            return f"(({x} > 0) - ({x} < 0))"
        return f"({x} > 0 ? 1.0 : {x} < 0 ? -1.0 : {x})"
    if name in _FLOORED | _DIVIDED and count == 2:
        first, second = (as_operand(a, t) for a, t in zip(expr.args, texts, strict=True))
        if name in _DIVIDED:
            kinds = [kind_of(arg, names) for arg in expr.args]
            return f"({first} / {second})" if "float" in kinds else None
        text, _ = floor_division(expr.args[0], first, expr.args[1], second, names)
        return f"({text})" if text is not None else None
    template = FORMULAS.get((name, count))
    return filled(template, expr.args, texts) if template is not None else None


def filled(template: str, args: Sequence[Expr], texts: Sequence[str]) -> str:
    """A template with the arguments' texts; in parentheses, but where they stand alone in a
    call."""
    is_call = not template.startswith(("(", "!"))
    filling = template
    for position, (arg, text) in enumerate(zip(args, texts, strict=True)):
        hole = f"{{{position}}}"
        alone = len(re.findall(rf"[(,] ?\{{{position}\}}(?=[,)])", template))
        is_bare = is_call and alone == template.count(hole)
        filling = filling.replace(hole, text if is_bare else as_operand(arg, text))
    return filling


def as_operand(expr: Expr, text: str) -> str:
    """The text of an expression as an operand of any operator."""
    return f"({text})" if isinstance(expr, Binary | Conditional | Unary) else text


def idiom(name: str) -> str | None:
    """Words on how to do the work of another library's function that is no formula of its
    arguments."""
    if name in _LENGTHS:
        return "x.0, for the size of the first dimension of x, x.1 for the second"
    return _IDIOMS.get(name)
