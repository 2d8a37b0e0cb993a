"""Rules W: which instances a statement has."""

from __future__ import annotations

from tc.rules.rule import rules_of

RULES = rules_of(
    """
# W1 Conditions (domains.md)

`where c` with any scalar `c` keeps the instances for which `c` holds; of several conditions all
have to hold. They are evaluated in the order of the text, lazily (Y6), before anything else of the
instance: what it reads, and where it writes, is looked at only where they hold. Ranges do not
depend on conditions. `op=!` starts the whole range of the variables on the left, also where no
instance exists; `=` leaves alone what has no instance (G4).

>>> x, p = np.float32([5, 6, 7]), np.int32([2, -1, 0])
>>> tc.interpret("def f(float(N) x, int(M) p) -> (o) { o(i) = x(p(i)) where p(i) >= 0 }", [x, p])
array([7., 0., 5.], dtype=float32)

# W2 Ranges that use other index variables (domains.md)

In `where j in a:b` the bounds may use other index variables of the statement, but not in a circle.
For each value of those, `j` runs over `[a, b)`, and over nothing where `b <= a`. The others get the
largest ranges for which all accesses stay in bounds, as ever (G2): `i` is one longer for `j in 0:i`
than for `j in 0:i+1`. A dimension whose variable on the left is of this kind ends with the greatest
end of its range.

>>> x = np.float32([1, 2, 3, 4])
>>> tc.interpret("def f(float(N) x) -> (o) { o(i) +=! x(j) where j in 0:i+1 }", [x])
array([ 1.,  3.,  6., 10.], dtype=float32)
>>> tc.interpret("def f(float(N) x) -> (o) { o +=! x(j) * x(k) where j in 0:k, k in 0:j }", [x])
Traceback (most recent call last):
tc.errors.CheckError: CheckError [W2]: the ranges of 'j' and 'k' use each other in a circle...

# W3 Ranges that data decide (domains.md)

Bounds may read tensors of integers other than the targets. The variable has the box that its
accesses give it, as if it had no `where`, and for each value of the variables in the bounds its
range is a part of that box. Bounds that are none, `b < a` or an end beyond the box, are an error
when the program runs, where reads are checked (G7). Reads in bounds take part in range inference.

>>> spmv = ("def spmv(int(M) row, int(E) col, float(E) v, float(C) x) -> (y) {"
...         "  y(r) +=! v(e) * x(col(e)) where e in row(r):row(r+1) }")
>>> col, v, x = np.int32([0, 2, 1]), np.float32([1, 2, 3]), np.float32([1, 10, 100])
>>> tc.interpret(spmv, [np.int32([0, 2, 2, 3]), col, v, x])
array([201.,   0.,  30.], dtype=float32)
>>> tc.interpret(spmv, [np.int32([0, 2, 1, 3]), col, v, x])
Traceback (most recent call last):
tc.errors.AccessError: AccessError [W3]: S0, y(r) +=! v(e) * x(col(e)) where...

# W5 Conditions and bounds do not read what is written (domains.md)

A condition, or a bound of a range, that reads a target of its statement is an error.

>>> text = "def f(float(N) x) -> (o) { o(i) = x(i)  o(i) = 0 where o(i) > 2 }"
>>> tc.interpret(text, [np.float32([1, 2, 3])])
Traceback (most recent call last):
tc.errors.CheckError: CheckError [W5]: the 'where' reads 'o', which this statement writes...
"""
)
