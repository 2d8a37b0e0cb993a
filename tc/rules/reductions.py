"""Rules R: reductions and outputs."""

from __future__ import annotations

from tc.rules.rule import rules_of

RULES = rules_of(
    """
# R1 What reduces (statements.md)

A variable on the right, or only in the `where`, but not on the left is a reduction variable. On the
left is what occurs in a subscript there, also in an expression or through a binding (S1). The
statement needs one of the operators `+=! *=! min=! max=!`, or the same without `!` to continue from
what the tensor holds.

>>> A = np.float32([[1, 2, 3], [4, 5, 6]])
>>> tc.interpret("def f(float(N,M) A) -> (o) { o(i) = A(i,j) }", [A])
Traceback (most recent call last):
tc.errors.CheckError: CheckError [R1]: 'j' is not on the left of '='...
>>> tc.interpret("def f(float(N,M) A) -> (o) { o(i) +=! A(i,j) }", [A])
array([ 6., 15.], dtype=float32)

# R2 Starting at the identity (statements.md)

`op=!` first stores the identity of its operator over the range of the variables on the left: 0, 1,
the largest or the smallest value of the type (infinities for floats), true or false, for `&=` all
bits. It does so also where the reduction has no terms, and in every element of a dimension with a
computed place (S3). Without a reduction variable it means `=`, at a plain place where all instances
exist: with a condition or a dependent range (W1 to W3) it is a reduction.

>>> none = np.zeros((2, 0), np.float32)
>>> tc.interpret("def f(float(N,M) A) -> (hi) { hi(i) max=! A(i,j) }", [none])
array([-inf, -inf], dtype=float32)

# R3 Continuing from what is there (statements.md)

`op=` without `!` continues from what the tensor holds: what an earlier statement wrote, or what the
caller passed by `outputs=`. Where there is neither, it starts at the identity, and the first such
call warns. This holds for whole tensors: elements that no earlier statement reached hold 0 (G4).

>>> A, o = np.float32([[1, 2], [3, 4]]), np.float32([100, 200])
>>> tc.interpret("def f(float(N,M) A) -> (o) { o(i) += A(i,j) }", [A], outputs=o)
array([103., 207.], dtype=float32)

# R4 The caller's outputs (statements.md)

Any other read of an output before a statement defines it needs the caller's tensor. `outputs=` is a
sequence in the order of the returns, a dict by name of some or all, or the array of a single
output. Shapes are checked and never used to infer; an output that shares memory with an input or
another output is refused; the arrays given are those returned. In a shell: `--outputs C=C.npy`.

>>> X, C = np.float32([1, 2]), np.float32([5, 6])
>>> scale = "def scale(float b, float(N) X) -> (C) { C(i) = b * C(i) + X(i) }"
>>> tc.interpret(scale, [10.0, X], outputs=C)
array([51., 62.], dtype=float32)

# R5 Order and error (statements.md)

The order of a reduction is free, and sums of products may be factored. Two runs of a program differ
by no more than `tc.error_bound`, which grows with the number of terms and their magnitudes as
written; no fixed tolerance is used anywhere. Where a product of some factors of a term overflows,
underflows or is NaN though the term as written is not, or the sum as written is infinite or NaN,
the value is unspecified and the bound infinite. A value is rounded to its tensor's type where a
statement writes it, and nowhere between the terms of one reduction; but with
`GpuOptions(tf32=True)`, which `tc.error_bound` takes as `options`, the factors of products of
floats may be rounded to tf32.

>>> total = "def total(float(N) a) -> (o) { o +=! a(i) }"
>>> float(tc.error_bound(total, [np.float32([1e8, 1, -1e8])])) > 1
True
"""
)
