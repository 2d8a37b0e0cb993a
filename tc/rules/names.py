"""Rules N: names, declarations, temporaries, calls."""

from __future__ import annotations

from tc.rules.rule import rules_of

RULES = rules_of(
    """
# N1 Names (statements.md)

Sizes, tensors and index variables share one name space. A name in a statement that is neither a
size nor a tensor is an index variable of that statement. A tensor without parentheses must have
rank 0. One exception, with a warning: where a size and a tensor have one name `W`, `W(...)` and
`W.1` are the tensor, and a bare `W` is the size.

>>> A = np.float32([[1, 2, 3], [4, 5, 6]])
>>> sums = "def f(float(N,M) A) -> (o, p) { o(i) +=! A(i,j)  p(i) +=! A(j,i) }"
>>> tc.interpret(sums, [A])
f(o=array([ 6., 15.], dtype=float32), p=array([5., 7., 9.], dtype=float32))

# N2 Declarations (statements.md)

Inputs are never written and may have any strides; outputs are row-major. Each input, size and
output is declared once, and an index variable stands alone in one subscript of the left side at
most; other subscripts there may be expressions (S1). An output that no statement defines is an
error; so are two defs of one name, and any error in a def that is not called.

>>> tc.compile("def f(float(N,N) A) -> (o) { o(i,i) = A(i,i) }")
Traceback (most recent call last):
tc.errors.CheckError: CheckError [N2]: the left side names 'i' twice...

# N3 Temporaries (statements.md)

A name on the left that is neither an input nor an output is a temporary: a tensor of the function
that is not returned.

>>> text = "def var(float(N) a) -> (v) { m +=! a(i) / N  v +=! (a(i)-m) * (a(i)-m) / N }"
>>> tc.interpret(text, [np.float32([1, 3, 5, 7])])
array(5., dtype=float32)

# N4 Calls of other defs, concat, entry (calls.md)

`a, b = f(x, y)` and `(a, b) = f(x, y)` call another def of the text with names of tensors. The
callee is inlined with fresh names before types and ranges are inferred. The targets are new names,
and no def calls itself. `X = concat(A, B, ...)` joins tensors along the last dimension into a new
one. Where a text has several defs, a call from outside names one: `entry=`, or `--entry`.

>>> g = "def g(float(N) a) -> (s) { s +=! a(i) }"
>>> f = "def f(float(N) a) -> (o) { s = g(a)  o(i) = a(i) / s }"
>>> tc.interpret(g + f, [np.float32([1, 3])], entry="f")
array([0.25, 0.75], dtype=float32)
"""
)
