"""Rules T and E: the text of a program, and what a text may leave out or name."""

from __future__ import annotations

from tc.rules.rule import rules_of

RULES = rules_of(
    """
# T1 Names and numbers (text.md)

A name is made of letters, digits and underscores and may begin with digits (`2LUT`, `2f`). Numbers
are C literals: decimal, hexadecimal, with exponent, with the suffixes `f F u U l L`, which mean
nothing. The longest match wins; what matches both (`1e5`, `0x1F`) is a number. A zero before other
digits is an error. Emitted code renames what its language cannot spell.

>>> tc.interpret("def f() -> (2f) { 2f = 0x1F + 1e1f }", [])
array(41., dtype=float32)

# T2 Sizes of dimensions, comments, the end of a statement (text.md)

`T.1` is the size of dimension 1, counted from 0, of tensor `T`, with no space around the dot. A
comment runs from `#` to the end of its line. White space separates statements; a name followed by
`(names) =` begins a statement with several results. `def`, `where`, `exists` and the names of types
are reserved; `in` is a word of the language only behind a name in a `where`.

>>> A = np.zeros((2, 3), np.float32)
>>> tc.interpret("def f(float(N,M) A) -> (o) { o = 10 * A.0 + A.1  # 2 and 3\\n}", [A])
array(23, dtype=int32)

# T3 Types (text.md)

`bool`, `byte` = `uint8`, `uint16`, `uint32`, `uint64`, `int8`, `int16`, `int` = `int32`, `int64`,
`half` = `float16`, `float` = `float32`, `double` = `float64`, `bfloat16`, `float8_e4m3fn`,
`float8_e5m2`. The name of a type is also a cast.

>>> tc.interpret("def f(float(N) a) -> (o) { o(i) = int(a(i)) }", [np.float32([1.9, -1.9])])
array([ 1, -1], dtype=int32)

# T4 Precedence, constant and repeated sizes, declared returns (text.md)

Precedence is that of C: unary, `* / %`, `+ -`, `<< >>`, `< <= > >=`, `== !=`, `&`, `^`, `|`, `&&`,
`||`, `?:`; so `x & 1 == 0` is `x & (1 == 0)`, and an error. A dimension of a declared type is a
size, by a name of its own, or a constant. A size named twice must be the same in both places. A
return may carry a type, which fixes its element type and its shape, also for a def that calls this
one; a size in it that no input has is an error.

>>> x, y = np.zeros(3, np.float32), np.zeros((2, 4), np.float32)
>>> mv = "def mv(float(N) x, float(M,N) y) -> (o) { o(i) +=! x(j) * y(i,j) }"
>>> tc.interpret(mv, [x, y])
Traceback (most recent call last):
tc.errors.InputError: InputError [T4]: size N is 3 in dimension 0 of x, but 4 in ...

# T5 Bindings, exists, annotations (text.md)

`where x = exp` names an expression for the bindings behind it, the right side, the subscripts on
the left, conditions and bounds. `where exists T(i,j)` takes part in range inference and reads
nothing. `<=> name(args)` after a statement is kept by the printer and means nothing. The clauses of
a `where` are bindings, ranges (G8), conditions (W1), sizes of the target, `o.0 = exp` (S4), and
`exists`, separated by commas.

>>> a = np.float32([1, 2, 3])
>>> tc.interpret("def f(float(N) a) -> (o) { o(i) = s * s where s = a(i) + 1 }", [a])
array([ 4.,  9., 16.], dtype=float32)

# T6 Type variables (text.md)

`def f<T: half | float, U>(...)` has variables that stand for types, wherever the name of a type may
stand: in parameters, returns and casts. A bound lists the types that its variable may be; without
one, it may be any. A type variable is no other name of its def, and a parameter has it as its type.
The text is checked for all types of the bounds, and for `float` where there is none.

>>> twice = tc.compile("def twice<T: half | float>(T(N) x) -> (T(N) y) { y(i) = T(2) * x(i) }")
>>> twice(np.float16([1, 2])), twice(np.float32([1, 2]))
(array([2., 4.], dtype=float16), array([2., 4.], dtype=float32))

# E4 Infinity, NaN and pi (text.md)

`inf()`, `nan()` and `pi()` are weak floating values, as literals are (Y1): they take the type of
what they meet.

>>> x = np.float64([1, 2])
>>> tc.interpret("def f(double(N) x) -> (o) { o(i) = x(i) < 2 ? x(i) * pi() : -inf() }", [x])
array([3.14159265,       -inf])

# E5 Defaults (text.md)

A parameter of rank 0 may have a default, a literal with a sign. A call may leave it out, from the
right or where the others are given by name; so may a call of one def by another.

>>> leaky = tc.compile("def f(float(N) x, float s = 0.5) -> (y) { y(i) = max(x(i), s * x(i)) }")
>>> leaky(np.float32([-2, 4]))
array([-1.,  4.], dtype=float32)
>>> leaky(np.float32([-2, 4]), s=0.25)
array([-0.5,  4. ], dtype=float32)
"""
)
