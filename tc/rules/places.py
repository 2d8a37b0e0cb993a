"""Rules S and V: where instances write, and several targets of one statement."""

from __future__ import annotations

from tc.rules.rule import rules_of

RULES = rules_of(
    """
# S1 Places (places.md)

A subscript on the left may be any integer expression of index variables, sizes, bindings and reads,
computed in `int64` (Y9). The place of a statement is plain where each subscript is one index
variable, and no variable stands there twice; else it is computed. The variables on the left are all
that occur there, also through bindings; `=` with another one is an error (R1). `o(i,i)` stays an
error (N2), and is `o(i, i+0)` where a diagonal is meant.

>>> x = np.float32([1, 2, 3])
>>> tc.interpret("def f(float(N) x) -> (o) { o(2*i + 1) = x(i) }", [x])
array([0., 1., 0., 2., 0., 3.], dtype=float32)

# S2 Each element is written once (places.md)

Under `=` each element is written by one instance at most. Affine places are decided exactly, before
anything runs, on the ranges and conditions at hand; others are checked when they are written, where
reads are checked (G7), and else one of the values stands there, unspecified which. To choose one of
several: `at(p(i)), o(p(i)) min=! i, x(i)` (V1).

>>> x = np.float32([1, 2, 3])
>>> text = "def f(float(N) x, int(N) k) -> (o) { o(k(i)) = x(i) where o.0 = 3 }"
>>> tc.interpret(text, [x, np.int32([2, 0, 1])])
array([2., 3., 1.], dtype=float32)
>>> tc.interpret(text, [x, np.int32([2, 0, 2])])
Traceback (most recent call last):
tc.errors.AccessError: AccessError [S2]: S0, o(k(i)) = x(i) where o.0 = 3, writes o(2) in the...

# S3 Operators combine what meets (places.md)

Under an operator any number of instances may meet at an element, in any order (R5). `op=!` starts
every element of a dimension with a computed place at the identity, and of one with a bare variable
its range. It does not mean `=` there, though no variable is missing on the left (R2).

>>> keys = np.int32([0, 2, 2, 0])
>>> tc.interpret("def f(int(N) k) -> (h) { h(k(i)) +=! 1 where h.0 = 4 }", [keys])
array([2, 0, 2, 0], dtype=int32)

# S4 Shapes of computed places (places.md)

An affine place gives its dimension one more than its greatest value; a value below 0 is an error. A
place that data decide gives none: the size is that of a declared return, of another statement, or
of a clause `o.0 = e` with a size expression, one for each target; it is a check where the size is
known otherwise.

>>> keys = np.int32([0, 2, 2, 0])
>>> tc.interpret("def f(int(N) k) -> (h) { h(k(i)) +=! 1 }", [keys])
Traceback (most recent call last):
tc.errors.RangeError: RangeError [S4]: nothing gives the size of dimension 0 of 'h'...
>>> tc.interpret("def f(int(N) k) -> (int(3) h) { h(k(i)) +=! 1 }", [keys])
array([2, 0, 2], dtype=int32)

# S5 Places stay in the target (places.md)

An affine place takes part in the rounds once the shape is known (G1), and leaves a precondition
otherwise (G6); others are checked when they are written, where reads are checked (G7), and on GPUs
unless `check=False`. Nothing wraps around or is moved to the edge; to drop what lies outside, a
condition says so. Code that is not checked drops what lies outside.

>>> keys = np.int32([0, 2, 3, 0])
>>> tc.interpret("def f(int(N) k) -> (int(3) h) { h(k(i)) +=! 1 }", [keys])
Traceback (most recent call last):
tc.errors.AccessError: AccessError [S5]: S0, h(k(i)) +=! 1, at i = 2, writes h(3)...
>>> tc.interpret("def f(int(N) k) -> (int(3) h) { h(k(i)) +=! 1 where k(i) < h.0 }", [keys])
array([2, 0, 1], dtype=int32)

# S6 What is read of the target (places.md)

No element that an instance reads of a target is written by another instance (P1), which is decided
exactly for affine places. At places that data decide, `=` may read the element that it writes, by
the subscripts of its left side, word for word; other reads are refused.

>>> x, p = np.float32([1, 2, 3]), np.int32([2, 0])
>>> text = "def f(float(N) x, int(M) p) -> (o) { o(i) = x(i)  o(p(j)) = 10 * o(p(j)) }"
>>> tc.interpret(text, [x, p])
array([10.,  2., 30.], dtype=float32)
>>> tc.interpret(text.replace("10 * o(p(j))", "o(j)"), [x, p])
Traceback (most recent call last):
tc.errors.RangeError: RangeError [P1]: 'o(j)' reads...

# S7 Compaction, dispatch, dropping (places.md)

Conditions come before places (W1): where an instance does not exist, its place is neither computed
nor checked. With a running sum as a place, what is kept stands without gaps.

>>> text = '''def f(float(N) x) -> (o) {
...   place(i) +=! x(j) > 0 where j in 0:i, i in 0:N
...   o(place(i)) = x(i) where x(i) > 0, o.0 = N
... }'''
>>> tc.interpret(text, [np.float32([-1, 2, -3, 4])])
array([2., 4., 0., 0.], dtype=float32)

# S8 Slices (places.md)

A dimension that statements give by a `where` of size expressions, by a constant place or by a size
clause ends at the greatest end that any of them gives it so. What no statement writes is 0 (G4).

>>> a, b = np.float32([1, 2]), np.float32([3, 4])
>>> tc.interpret("def f(float(N) a, float(N) b) -> (o) { o(0,i) = a(i)  o(1,i) = b(i) }", [a, b])
array([[1., 2.],
       [3., 4.]], dtype=float32)

# V1 Several targets (places.md)

`T(X), U(X), ... op e, f, ...` writes distinct tensors at the same subscripts. All right sides are
read before any target is written. `+=`, `*=` and their kin combine each target by itself; `min=`
and `max=` choose one term: NaN before all, then the least (greatest) first value, of equal ones the
least second, third, ... value. The others, the companions, come from that term. They start at the
largest value of their type, and keep it where there is no term. `tc.error_bound` is 0 for them, or
infinite where rounding may change the choice.

>>> x = np.float32([[1, 7, 7], [3, 2, 3]])
>>> tc.interpret("def f(float(N,D) x) -> (m, at) { m(n), at(n) max=! x(n,d), d }", [x])
f(m=array([7., 3.], dtype=float32), at=array([1, 0], dtype=int32))
"""
)
