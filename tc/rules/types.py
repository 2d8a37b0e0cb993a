"""Rules Y: types and arithmetic."""

from __future__ import annotations

from tc.rules.rule import rules_of

RULES = rules_of(
    """
# Y1 Literals, sizes and index variables are weak (types.md)

Weak values (literals, sizes, `T.1`, index variables, and what is computed from them alone) take the
type of what they meet; before that they are computed in `int64` and `float64`. A floating literal
that meets an integer makes a `float32`. Alone they are `int32` or `float32`, and a literal beyond
`int32` is `int64`; a size that does not fit wraps around, with a warning. A literal that, with its
sign, does not fit its type is an error (a float fits where the nearest value of the type is
finite); a cast converts without that check. `1/2 * x` is 0, as in C, and so is `1/N * x` but for an
N of 1, each with a warning.

>>> byte = np.uint8([7])
>>> tc.interpret("def f(byte(N) a) -> (o) { o(i) = a(i) + 1 }", [byte]).dtype
dtype('uint8')
>>> tc.interpret("def f(byte(N) a) -> (o) { o(i) = a(i) + 300 }", [byte])
Traceback (most recent call last):
tc.errors.CheckError: CheckError [Y1]: the literal 300 does not fit uint8...

# Y2 Promotion (types.md)

Floats beat integers; within a kind the wider type wins; signed with unsigned gives the smallest
signed type that holds both (`int64` with `uint64` gives `int64`, with a warning). Sizes and index
variables never narrow: beside narrower integers they are `int32`. `bool` counts as `int32` in
arithmetic, so a sum of conditions is a count; it stays `bool` under `! && || == !=`, in `?:`,
`min`, `max` and assignment, as long as it meets only `bool`. Functions of integers compute in
`float32`, except `abs`. Conditions take any scalar.

>>> a = np.float32([-1, 1, 3])
>>> tc.interpret("def f(float(N) a) -> (positive) { positive +=! a(i) > 0 }", [a])
array(2, dtype=int32)

# Y3 Element types of outputs and arguments (types.md)

An output has the type in which the right sides of all statements that define it meet, or its
declared type, into which a wider type goes only by a cast. An argument must have the declared
element type, of a call from Python and of a call of one def by another. For an input of rank 0,
numbers of any type, Python's and numpy's, are converted where the declared type holds their value.

>>> tc.interpret("def f(float(N) a) -> (o) { o(i) = a(i) }", [np.float64([1])])
Traceback (most recent call last):
tc.errors.InputError: InputError [Y3]: f: a has dtype float64, but float32(N) a asks ...

# Y4 Integer arithmetic (types.md)

`/` and `%` of integers round toward minus infinity, and so does `%` of floats. Overflow of integers
wraps around. A float becomes an integer by truncation; NaN, and what is out of range, becomes an
unspecified value. Division of an integer by zero is an error where code is checked (G7), and an
unspecified value elsewhere, never a trap; in the bounds of a `where` it is always an error.

>>> a = np.int32([7, -7])
>>> tc.interpret("def f(int(N) a) -> (q, r) { q(i) = a(i) / 3  r(i) = a(i) % 3 }", [a])
f(q=array([ 2, -3], dtype=int32), r=array([1, 2], dtype=int32))

# Y5 Minimum and maximum (types.md)

`min`, `max` and the reductions `min=`, `max=` propagate NaN. `fmin` and `fmax` ignore it, as in C.
CUDA's single-precision spellings (`fmaxf`, `expf`, ...) are other names of the functions.

>>> a = np.float32([np.nan, 3])
>>> both = "def g(float(N) a) -> (m, f) { m(i) = max(a(i), 1)  f(i) = fmax(a(i), 1) }"
>>> tc.interpret(both, [a])
g(m=array([nan,  3.], dtype=float32), f=array([1., 3.], dtype=float32))

# Y6 Lazy operators (types.md)

`c ? a : b`, `&&` and `||` evaluate only what they need: a read on the path not taken may lie
outside its tensor. Range inference still uses the affine reads of both sides; where one is read
under a condition that decides the range (`i < N-1 ? x(i+1) : 0`), and yet cuts it, a warning names
the range to write: `where i in 0:N`.

>>> I, R = np.float32([5, 6]), np.int32([1, 2, 0])
>>> lazy = "def f(float(C) I, int(L) R) -> (o) { o(l) = R(l) == C ? 0 : I(R(l)) }"
>>> tc.interpret(lazy, [I, R])
array([6., 0., 5.], dtype=float32)

# Y7 Built-in functions (functions.md)

The built-in functions are those of CUDA's math library, by the same names, and some of scipy's. A
name is a function only where it is called, and yields to a tensor or a def of that name. Arguments
that are floats are computed in their own type, integers in `float32`; `abs` keeps its type.

>>> x = np.float32([-2.5, 0.5])
>>> tc.interpret("def f(float(N) x) -> (o) { o(i) = round(x(i)) }", [x])
array([-3.,  1.], dtype=float32)

# Y8 Half precision, bfloat16, floats of 8 bits (types.md)

What has type `half` or `bfloat16` is computed in `float32`, its literals, weak values and
reductions included, and rounded once, when it is stored as that type or cast to it; `half` with
`bfloat16` is `float32`. `float8_e4m3fn` and `float8_e5m2` are only stored: a read is a `float32`,
and a statement that is no reduction gives one by a cast, or as a literal. Beyond its largest
number, 448, `float8_e4m3fn` gives that; the others have infinities.

>>> ones = np.ones(4096, np.float16)  # added up in half precision, 2048
>>> float(tc.interpret("def f(half(N) a) -> (o) { o +=! a(i) }", [ones]))
4096.0
>>> rounds = "def f(float(N) x) -> (o) { o(i) = float(float8_e4m3fn(x(i))) }"
>>> tc.interpret(rounds, [np.float32([0.3, 17, 1000])]).tolist()
[0.3125, 16.0, 448.0]

# Y9 Subscripts are computed in int64 (types.md)

In subscripts, bounds of a `where` and affine conditions, integers are computed in `int64`, literals
included, whatever their type; casts convert as ever.

>>> table, k = np.arange(1000, dtype=np.float32), np.uint8([0, 3])
>>> scaled = "def f(float(T) t, byte(N) k) -> (o) { o(i) = t(k(i) * 300) }"
>>> tc.interpret(scaled, [table, k])
array([  0., 900.], dtype=float32)

# Y10 What type variables are (types.md)

The first input of a call whose type is a variable binds the variable; another input with the same
variable has the same type. The types are written out before every other rule: what a call means is
what the text with these types means. A call of one def by another binds variables by the tensors
that it passes, whose types follow from the statements before the call.

>>> text = "def f<T>(T(N) a, T(N) b) -> (o) { o(i) = a(i) + b(i) }"
>>> tc.written_out(text, T="int8")
'def f(int8(N) a, int8(N) b) -> (o) { o(i) = a(i) + b(i) }'
>>> tc.interpret(text, [np.ones(2, np.float32), np.ones(2)])
Traceback (most recent call last):
tc.errors.InputError: InputError [Y10]: f: b has dtype float64, and 'T' is float32 by a...

# Y11 Operators on bits (types.md)

`& | ^` are of integers, which meet as in arithmetic (Y2), or of bools alone; `~ << >>` are of
integers. Floats, and a bool with an integer, are errors. `~x` has x's type; of literals it has the
bits of the type that they meet. `a << n` and `a >> n` have a's type, whatever the type of n; `>>`
of a signed type keeps the sign. A count that is negative, or not less than the bits of a's type,
shifts everything out, so that 0 is left, or -1 by `>>` of a negative number; a literal count of
that kind is an error. In subscripts and bounds, where the right side is a literal, `i >> 2` counts
as `i / 4`, `i << 2` as `i * 4` and `i & 3` as `i % 4`. The reductions `|=` and `^=` start at 0, or
false, and `&=` at all bits, or true.

>>> w, n = np.uint8([0xA5, 0xA5, 0xA5]), np.int32([4, 8, -1])
>>> tc.interpret("def f(uint8(N) w, int(N) n) -> (o) { o(i) = ~w(i) << n(i) | w(i) >> 7 }", [w, n])
array([161,   1,   1], dtype=uint8)

# Y12 Functions of bits (types.md)

`popc(x)` counts the bits of an integer that are 1, and `clz(x)` the zeros above the highest of
them, in the width of x's type; both are `int32`. `bits(x)` is the unsigned integer, as wide as a
float x, that has the bits of x; `half_of`, `float32_of` and `float64_of` give the float that has
the bits of an integer as wide. Bits have no derivative: `tc.grad` refuses what depends on those of
an input.

>>> x = np.float32([1.5, -2])
>>> halved = "def f(float(N) x) -> (o) { o(i) = float32_of(bits(x(i)) - (1 << 23)) }"
>>> tc.interpret(halved, [x])
array([ 0.75, -1.  ], dtype=float32)
"""
)
