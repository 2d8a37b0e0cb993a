"""Rules G and P: ranges and shapes; updates in place."""

from __future__ import annotations

from tc.rules.rule import rules_of

RULES = rules_of(
    """
# G1 As large as possible (ranges.md)

Each index variable starts at 0, unless a `where` says otherwise, and gets the largest range for
which no affine access, read or write, leaves a tensor whose shape is known.

>>> a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
>>> mm = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
>>> tc.interpret(mm, [a, b]).shape
(2, 4)

# G2 Rounds (ranges.md)

In each round, every subscript with exactly one open variable constrains it, for all values of those
resolved before; constraints of one round are intersected, so the order of the text never matters.
Where two bare subscripts of one variable run over dimensions of different size, the lesser one
counts, and a warning names both. Subscripts are affine: sums, products with constants, `/` by a
positive constant, `min`, `max`, `?:` on affine conditions, casts between integers; `%` may occur,
but bounds nothing; shifts and masks by literals count as `/ * %` (Y11). Sizes and integer scalars
count as constants.

>>> I, K = np.arange(5, dtype=np.float32), np.ones(3, np.float32)
>>> conv1d = "def conv1d(float(M) I, float(N) K) -> (O) { O(i) +=! K(x) * I(i+x) }"
>>> tc.interpret(conv1d, [I, K])
array([3., 6., 9.], dtype=float32)

# G3 The whole function (ranges.md)

Shapes follow from all statements together. A statement waits until the shapes of all that it reads,
other than its targets, are known; one whose variables on the left occur neither on the right nor in
a `where`, or whose place data decide (S4), waits until another one, or a declared return, fixes the
shape of its tensor. The first statement in the text that can fix a shape does so, but for
dimensions that several statements give as slices (S8); a later one that does not fit is an error
that names it.

>>> A, x = np.ones((2, 3), np.float32), np.ones(3, np.float32)
>>> mv = "def mv(float(M,K) A, float(K) x) -> (C) { C(i) = 1  C(i) += A(i,k) * x(k) }"
>>> tc.interpret(mv, [A, x])
array([4., 4.], dtype=float32)

# G4 Shapes (ranges.md)

The size of a tensor's dimension is the end of the range of its index variable, or, at a computed
place, as S4 says. Elements that no instance writes are 0 in a fresh tensor, and untouched in the
caller's.

>>> a = np.float32([5, 6, 7, 8])
>>> tc.interpret("def f(float(N) a) -> (o) { o(i) = a(i) where i in 2:4 }", [a])
array([0., 0., 7., 8.], dtype=float32)

# G5 When there is no answer (ranges.md)

Where 0 is not possible for a variable, or variables stay open after all rounds, the error names the
variable, the accesses that constrain it, and a `where` that would settle it. A size of 0 is fine
and gives an empty range; a size below 0 is an error, be it of a `where` (`3:1`) or of a kernel two
or more longer than its image.

>>> a = np.float32([5, 6, 7])
>>> tc.interpret("def f(float(N) a) -> (o) { o(i) = a(i-1) }", [a])
Traceback (most recent call last):
tc.errors.RangeError: RangeError [G5]: 'i' cannot start at 0...
>>> tc.interpret("def f(float(N) a) -> (o) { o(i) = a(i-1) where i in 1:N+1 }", [a])
array([0., 5., 6., 7.], dtype=float32)

# G6 Preconditions (ranges.md)

An affine access that took part in no round is checked once for each set of sizes, before anything
runs, over the points where its guards (Y6) let it happen.

>>> text = "def f(float(N) B, float(M) C, float(K) D) -> (A) { A(i,j) = B(i)*C(i+j)*D(j) }"
>>> tc.interpret(text, [np.ones(n, np.float32) for n in (2, 3, 3)])
Traceback (most recent call last):
tc.errors.RangeError: RangeError [G6]: at i = 1, j = 2 subscript 0 of 'C(i+j)' is 3...

# G7 Reads that only the data decide (ranges.md)

A subscript that depends on data or is not affine constrains nothing and is checked when it is read;
a guard that depends on data moves the check of the reads behind it there. The interpreter checks
every such read, and compiled code does so with `check=True`, the default on CPUs. After such an
error the interpreter has touched no array of the caller's; what compiled code has left in the
outputs is unspecified.

>>> X, I = np.float32([5, 6, 7]), np.int32([2, 3])
>>> tc.interpret("def gather(float(N) X, int(A) I) -> (Z) { Z(i) = X(I(i)) }", [X, I])
Traceback (most recent call last):
tc.errors.AccessError: AccessError [G7]: S0, Z(i) = X(I(i)), at i = 1, reads X(3)...

# G8 where (ranges.md)

`where k in a:b` is half open. Where its bounds are size expressions (integers, sizes, `T.k` of
tensors defined before, integer scalar inputs, arithmetic, `min` and `max`), `k` is resolved before
the first round, and may start below 0 as a reduction variable. Bounds may also use other index
variables (W2) and read tensors of integers (W3). A `where` has conditions (W1), bindings (T5) and
sizes of the target (S4), too, separated by commas.

>>> a = np.arange(5, dtype=np.float32)
>>> blur = "def blur(float(N) a) -> (o) { o(i) +=! a(i+k) where k in -1:2, i in 1:N-1 }"
>>> tc.interpret(blur, [a])
array([0., 3., 6., 9.], dtype=float32)

# G9 Padding (ranges.md)

`pad(e, v)` is `e` where all reads that its evaluation makes are in bounds, and `v` elsewhere, which
is evaluated only there. Reads in `e` constrain only through subscripts that are one bare variable,
so `pad(a(i+k-1), 0)` needs a `where` for `i`; reads in `v` constrain as ever.

>>> a, w = np.arange(4, dtype=np.float32), np.ones(3, np.float32)
>>> same = ("def same(float(N) a, float(K) w) -> (o) {"
...         "  o(i) +=! pad(a(i+k-1), 0) * w(k) where i in 0:N }")
>>> tc.interpret(same, [a, w])
array([1., 3., 6., 5.], dtype=float32)

# P1 What a statement may read of its own target (in_place.md)

A statement reads its whole right side before it writes. It is accepted when no element that it
reads from a target of its own is written by another of its instances, which is decided exactly for
the ranges at hand; otherwise it is refused with two instances that collide. So there are no
recurrences. A read of the target at a place that data decide is refused, unless it is that of the
left side (S6), and whatever the sizes so are a subscript that reads the target, a `where` that
reads it (W5), and a read of it under `op=!` that starts at the identity (R2). A statement with one
instance, or none, is accepted.

>>> x = np.float32([[1, 2], [3, 4]])
>>> tc.interpret("def t(float(N,N) x) -> (a) { a(i,j) = x(i,j)  a(i,j) = a(j,i) }", [x])
Traceback (most recent call last):
tc.errors.RangeError: RangeError [P1]: 'a(j,i)' reads a(1, 0) in the instance i = 0...
"""
)
