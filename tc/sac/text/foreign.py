"""What functions and members of other libraries are in SaC's notation."""

from __future__ import annotations

from collections.abc import Sequence

FORMULAS = {
    ("maximum", 2): "max({0}, {1})",
    ("minimum", 2): "min({0}, {1})",
    ("absolute", 1): "abs({0})",
    ("max", 1): "maxval({0})",
    ("min", 1): "minval({0})",
    ("amax", 1): "maxval({0})",
    ("amin", 1): "minval({0})",
    ("product", 1): "prod({0})",
    ("mean", 1): "sum({0}) / tof(prod(shape({0})))",
    ("average", 1): "sum({0}) / tof(prod(shape({0})))",
    ("avg", 1): "sum({0}) / tof(prod(shape({0})))",
    ("vdot", 2): "sum({0} * {1})",
    ("inner", 2): "sum({0} * {1})",
    ("matmul", 2): "{{ [i,j] -> sum({{ [k] -> {0}[i,k] * {1}[k,j] }}) }}",
    ("outer", 2): "{{ [i,j] -> {0}[i] * {1}[j] }}",
    ("len", 1): "shape({0})[0]",
    ("length", 1): "shape({0})[0]",
    ("size", 1): "prod(shape({0}))",
    ("numel", 1): "prod(shape({0}))",
    ("ndim", 1): "dim({0})",
    ("rank", 1): "dim({0})",
    ("arange", 1): "iota({0})",
    ("range", 1): "iota({0})",
    ("zeros", 1): "genarray({0}, 0.0)",
    ("ones", 1): "genarray({0}, 1.0)",
    ("full", 2): "genarray({0}, {1})",
    ("zeros_like", 1): "genarray(shape({0}), zero({0}))",
    ("ones_like", 1): "genarray(shape({0}), zero({0}) + 1)",
    ("flip", 1): "reverse({0})",
    ("flipud", 1): "reverse({0})",
    ("T", 1): "transpose({0})",
    ("ravel", 1): "reshape([prod(shape({0}))], {0})",
    ("flatten", 1): "reshape([prod(shape({0}))], {0})",
    ("square", 1): "({0} * {0})",
    ("power", 2): "pow({0}, {1})",
    ("clip", 3): "min(max({0}, {1}), {2})",
    ("clamp", 3): "min(max({0}, {1}), {2})",
    ("mod", 2): "({0} % {1})",
    ("add", 2): "({0} + {1})",
    ("subtract", 2): "({0} - {1})",
    ("multiply", 2): "({0} * {1})",
    ("isnan", 1): "({0} != {0})",
    ("relu", 1): "max({0}, 0)",
    ("float32", 1): "float({0})",
    ("float64", 1): "double({0})",
    ("select", 3): "where({0}, {1}, {2})",
    ("cat", 2): "({0} ++ {1})",
    ("concat", 2): "({0} ++ {1})",
    ("append", 2): "({0} ++ {1})",
    ("eye", 1): "{{ [i,j] -> i == j ? 1.0 : 0.0 | [i,j] < [{0},{0}] }}",
    ("identity", 1): "{{ [i,j] -> i == j ? 1.0 : 0.0 | [i,j] < [{0},{0}] }}",
    ("norm", 1): "sqrt(sum({0} * {0}))",
    ("sign", 1): "(toi({0} > 0) - toi({0} < 0))",
    ("diff", 1): "{{ [i] -> {0}[i+1] - {0}[i] | [i] < shape({0}) - 1 }}",
    ("count_nonzero", 1): "sum({0} != 0)",
    ("copy", 1): "{0}",
    ("diag", 1): "{{ [i] -> {0}[i,i] }}",
    ("trace", 1): "sum({{ [i] -> {0}[i,i] }})",
}
"""Calls of other libraries' functions, by name and number of arguments, as they are written
here."""

IDIOMS = {
    "concatenate": "a ++ b, along the first axis",
    "hstack": "transpose(transpose(a) ++ transpose(b)), of matrices",
    "vstack": "a ++ b, of matrices",
    "stack": "[a, b]",
    "dot": "sum(a * b), of vectors; { [i,j] -> sum({ [k] -> a[i,k] * b[k,j] }) }, of matrices",
    "roll": "{ iv -> a[(iv - 1) % shape(a)] | iv < shape(a) }, by one along all axes",
    "rotate": "{ iv -> a[(iv - 1) % shape(a)] | iv < shape(a) }, by one along all axes",
    "sort": "r = { [i] -> sum({ [j] -> toi(a[j] < a[i] || a[j] == a[i] && j < i) }) }; "
    "{ [k] -> sum({ [i] -> r[i] == k ? a[i] : zero(a) }) | [k] < shape(a) }, of a vector",
    "median": "the middle of a sorted vector",
    "var": "m = sum(x) / tof(prod(shape(x))); sum((x - m) * (x - m)) / tof(prod(shape(x)))",
    "convolve": "{ [i] -> sum({ [j] -> a[i+j] * w[shape(w)[0]-1-j] | [j] < shape(w) }) | "
    "[i] < shape(a) - shape(w) + 1 }",
    "shift": "{ iv -> a[iv - 1] | 0 * shape(a) + 1 <= iv; iv -> zero(a) | iv < shape(a) }",
    "pad": "{ iv -> a[iv - 1] | 0*shape(a)+1 <= iv < shape(a)+1; iv -> zero(a) | iv < shape(a)+2 }",
    "tile": "{ [i] -> a[i % shape(a)[0]] | [i] < [3 * shape(a)[0]] }, three times",
    "repeat": "{ [i] -> a[i / 3] | [i] < [3 * shape(a)[0]] }, each element three times",
    "cumsum": "{ [i] -> sum(take([i + 1], a)) | [i] < shape(a) }",
    "argmax": "minval({ [i] -> a[i] == maxval(a) ? i : shape(a)[0] }), of a vector",
    "argmin": "minval({ [i] -> a[i] == minval(a) ? i : shape(a)[0] }), of a vector",
    "einsum": "{ [i,j] -> sum({ [k] -> A[i,k] * B[k,j] }) }",
    "eye": "{ [i,j] -> i == j ? 1.0 : 0.0 | [i,j] < [n,n] }",
    "identity": "{ [i,j] -> i == j ? 1.0 : 0.0 | [i,j] < [n,n] }",
    "linspace": "{ [i] -> i / 9.0 | [i] < [10] }, ten values from 0 to 1",
    "softmax": "e = exp(x - maxval(x)); e / sum(e)",
    "sigmoid": "1.0 / (1.0 + exp(-x)), of doubles; 1f / (1f + exp(-x)) of floats",
    "std": "m = sum(x) / tof(prod(shape(x))); sqrt(sum((x - m) * (x - m)) / tof(prod(shape(x))))",
    "map": "{ iv -> f(a[iv]) }",
    "reduce": "with { (. <= iv <= .) : a[iv]; } : fold(+, 0), with bounds; or sum(a)",
    "print": "nothing is printed; return the array to look at it",
    "printf": "nothing is printed; return the array to look at it",
    "rand": "there are no random numbers: pass them as an input",
    "astype": "double(x), or another type's name, for a cast",
    "reshape": "reshape([3,4], a): the shape first, as a vector",
}
"""What is written in place of other libraries' functions that are no formula of their arguments."""

PRIMITIVES = {
    "drop": "drop",
    "take": "take",
    "sel": "sel",
    "shape": "shape",
    "dim": "dim",
    "cat": "++",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "mod": "%",
    "neg": "-",
    "not": "!",
    "reshape": "reshape",
    "modarray": "modarray",
    "min": "min",
    "max": "max",
    "abs": "abs",
    "toi": "toi",
    "tof": "tof",
    "tod": "tod",
    "eq": "==",
    "neq": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and": "&&",
    "or": "||",
}
"""The stems of the names of SaC's primitives, such as `_drop_SxV_`, and what serves here."""

JOINS = frozenset(("concatenate", "concat", "cat", "append"))
"""Functions of other libraries that join the arrays of a list along the first axis."""

MODULES = frozenset(
    ("np", "numpy", "math", "torch", "jnp", "jax", "tf", "F", "nn", "scipy", "cp", "cupy", "lax")
)
MEMBERS = {"shape": "shape({0})", "T": "transpose({0})", "ndim": "dim({0})"}
CONSTANTS = {
    **dict.fromkeys(("True", "TRUE"), "true"),
    **dict.fromkeys(("False", "FALSE"), "false"),
    **dict.fromkeys(("pi", "PI", "M_PI"), "3.141592653589793"),
    **dict.fromkeys(("inf", "Inf", "INFINITY"), "(1.0 / 0.0)"),
    **dict.fromkeys(("nan", "NaN", "NAN"), "(0.0 / 0.0)"),
}
TYPES = {
    **dict.fromkeys(("integer", "Int", "i32"), "int"),
    **dict.fromkeys(("long", "longlong", "Long"), "int64"),
    **dict.fromkeys(("ulong", "size_t"), "uint64"),
    **dict.fromkeys(("short", "short_t"), "int16"),
    **dict.fromkeys(("char", "sbyte"), "int8"),
    **dict.fromkeys(("unsigned", "uint"), "uint32"),
    **dict.fromkeys(("real", "Float", "f32"), "float"),
    **dict.fromkeys(("Double", "f64"), "double"),
    **dict.fromkeys(("boolean", "Bool", "_Bool"), "bool"),
}


def formula(name: str, args: Sequence[str]) -> str | None:
    """The text of a call of another library's function in this notation; None where it is none.

    >>> formula("maximum", ["a", "0"]), formula("conv2d", ["x"])
    ('max(a, 0)', None)
    """
    template = FORMULAS.get((name, len(args)))
    return None if template is None else template.format(*args)


def primitive(name: str) -> str | None:
    """What serves in place of a primitive of SaC, such as `_drop_SxV_`; None for other names.

    >>> primitive("_drop_SxV_"), primitive("_x_"), primitive("drop")
    ('drop', None, None)
    """
    if not (name.startswith("_") and name.endswith("_") and len(name) > 2):
        return None
    return PRIMITIVES.get(name.strip("_").split("_")[0])
