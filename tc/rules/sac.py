"""Rules C: SaC's tensor comprehensions."""

from __future__ import annotations

from tc.rules.rule import rules_of

RULES = rules_of(
    """
# C1 Texts of SaC's notation (sac/notation.md)

A text is function definitions, or statements and one expression whose free names are its inputs.
It is the former if it begins with a type that no `(` follows. Operators bind as in C, and `++`
less than `+` and more than comparisons.

>>> tc.sac.interpret("y = x * x; { [i] -> y[i] + 1 }", x=[1, 2, 3])
array([ 2,  5, 10], dtype=int32)
>>> tc.sac.interpret("{ iv a[iv] }", a=[1, 2])
Traceback (most recent call last):
tc.errors.ParseError: ParseError [C1]: expected '->', found 'a'...

# C2 Comments, reserved words, numbers (sac/notation.md)

Comments are `// ...` and `/* ... */`. Names of types and `with return if else true false for while
do` are reserved. A floating number has a digit on both sides of its dot, or an exponent; the
suffixes `i l f d` fix the type: int, int64, float, double.

>>> tc.sac.interpret("[0x1F, 31] * 1e1 // double")
array([310., 310.])
>>> tc.sac.interpret("2f / 3")
array(0.6666667, dtype=float32)

# C3 Patterns and the indices of generators (sac/notation.md)

A pattern has each name once, and at most one `...`; so has a selection. A generator's index is the
pattern without its dots. Where two forms of a generator fit, as in `iv < iv`, the first one does.

>>> tc.sac.interpret("{ [i,.] -> v | [i] < [2] }", v=[1, 2, 3])
array([[1, 2, 3],
       [1, 2, 3]], dtype=int32)
>>> tc.sac.interpret("{ [i] -> a[i] | i < [3] }", a=[1, 2, 3])
Traceback (most recent call last):
tc.errors.ParseError: ParseError [C3]: a generator of the pattern [i] bounds [i]...

# C4 Names in SaC's notation (sac/notation.md)

Unknown and doubled names, a wrong number of arguments, recursion, a size that is a parameter, and
functions of one name are errors, also in functions that nothing calls. Several names take the
results of one call.

>>> two = "int, int f(int a) { return (a, a + 1); } int g(int a) { x, y = f(a); return x * y; }"
>>> tc.sac.interpret(two, 3, entry="g")
array(12, dtype=int32)
>>> tc.sac.interpret("take(a)", a=[1, 2])
Traceback (most recent call last):
tc.errors.CheckError: CheckError [C4]: 'take' takes 2 arguments, not 1...

# C5 Types of elements (sac/values.md)

The types are those of T3. Literals, indices, `shape`, `dim` and `iota` are weak (Y1, Y2); without a
floating operand a floating literal is double. Partitions, branches, rows and `++` join their types.
`/` and `%` of integers round down.

>>> tc.sac.interpret("{ [i] -> 0.5 | [i] < [1]; [i] -> 0 | [i] < [3] }")
array([0.5, 0. , 0. ])
>>> tc.sac.interpret("[(-7) / 2, (-7) % 2]")
array([-4,  1], dtype=int32)

# C6 Declared types (sac/values.md)

`[*]` is any shape, `[+]` no scalar, `.` any size, `n` a size, `d:shp` a number of axes with their
sizes. Equal names are equal sizes, parameters from left to right, then results. Results widen,
never narrow.

>>> f = "int[e:t] f(int[d] iv, int[d:s,e:t] a) { return a[iv] + sum(s); }"
>>> tc.sac.interpret(f, np.int32([1]), np.int32([[1, 2], [3, 4]]))
array([5, 6], dtype=int32)

# C7 Operators on arrays (sac/values.md)

Operators and maths functions work element by element on arrays of one shape, or with scalars;
nothing is broadcast. Rows of a literal have one shape; `[]` is an empty vector of integers.

>>> tc.sac.interpret("[v, v * 2]", v=[1, 2, 3])
array([[1, 2, 3],
       [2, 4, 6]], dtype=int32)
>>> tc.sac.interpret("v + w", v=np.int32([1, 2, 3]), w=np.int32([1, 2]))
Traceback (most recent call last):
tc.errors.RangeError: RangeError [C7]: '+': shapes [3] and [2] differ, and neither is a scalar...

# C8 Selections (sac/values.md)

`a[iv]` selects by an index vector, `a[i,j]` is `a[[i,j]]`. Fewer indices than axes give a
sub-array. `.` keeps an axis, `...` any number of them. Selections are always checked; no index is
negative.

>>> tc.sac.interpret("m[.,1]", m=np.int32([[1, 2], [3, 4]]))
array([2, 4], dtype=int32)
>>> tc.sac.interpret("[1, 2, 3][5]")
Traceback (most recent call last):
tc.errors.CheckError: CheckError [C8]: index 5 is outside 0..2 of axis 0, shape [3]...

# C9 Built-in functions (sac/values.md)

`shape dim take drop reverse transpose reshape genarray modarray iota where min max abs zero sum
prod minval maxval any all tod tof toi sel`, and Y7's functions. Negative amounts of `take` and
`drop` count from the end. Folds of any rank give a scalar.

>>> tc.sac.interpret("take([-2], v) ++ drop([1], v)", v=np.int32([1, 2, 3]))
array([2, 3, 2, 3], dtype=int32)
>>> tc.sac.interpret("[sum(m), maxval(m), prod(shape(m))]", m=np.int32([[1, 2], [3, 4]]))
array([10,  4,  4], dtype=int32)

# C10 Conditions, and what is not computed (sac/values.md)

Conditions are scalars. The branch that is not taken is not computed, nor the second operand of `&&`
and `||` where the first decides, nor anything that no result needs: it raises nothing.

>>> lazy = "{ [i] -> i > 0 && 6 / i > 2 ? a[i-1] : 0 | [i] < [4] }"
>>> tc.sac.interpret(lazy, a=np.int32([7, 8, 9]))
array([0, 7, 8, 0], dtype=int32)
>>> tc.sac.interpret("unused = 1 / n; n + 1", n=0)
array(1, dtype=int32)

# C11 Partitions (sac/partitions.md)

The last partition gives the result its shape: its upper bound, followed by its body's shape. Each
position gets the body of the first partition that covers it; all others are zero.

>>> tc.sac.interpret("{ [i] -> 7 | [1] <= [i] < [3]; [i] -> i | [i] < [5] }")
array([0, 7, 7, 3, 4], dtype=int32)
>>> tc.sac.interpret("{ [i] -> 7 | [1] <= [i] < [3] }")
array([0, 7, 7], dtype=int32)

# C12 Ranges lie in the result (sac/partitions.md)

A range that is not empty lies in the result.

>>> tc.sac.interpret("{ [i] -> 7 | [i] < [4]; [i] -> 1 | [i] < [3] }")
Traceback (most recent call last):
tc.errors.CheckError: CheckError [C12]: the range [0] <= [i] < [4] leaves the result, shape [3]...

# C13 Bodies fit (sac/partitions.md)

The body of a partition has the shape of the axes that its index leaves over. Bodies that are not
computed need not fit.

>>> tc.sac.interpret("{ [i] -> v | [1] <= [i] < [2]; iv -> m[iv] }", v=[8, 9], m=[[1, 2], [3, 4]])
array([[1, 2],
       [8, 9]], dtype=int32)

# C14 Bounds (sac/partitions.md)

Bounds are integer vectors of the index's length. `l <` is `l + 1 <=`, `<= u` is `< u + 1`. An empty
range is fine, a negative size is not.

>>> tc.sac.interpret("{ [i] -> i | [2] <= [i] <= [4] }")
array([0, 0, 2, 3, 4], dtype=int32)
>>> tc.sac.interpret("{ iv -> 1.5 | iv < shape(a) - 5 }", a=np.int32([1, 2]))
Traceback (most recent call last):
tc.errors.RangeError: RangeError [C14]: the shape [-3] has a negative size...

# C15 Bounds from selections (sac/shapes_on_demand.md)

Where a bare variable of the pattern selects, the size of that axis bounds the variable; the minimum
counts, with a warning where sizes differ. `a[i+1]` bounds nothing, and is checked.

>>> tc.sac.interpret("{ [i,j] -> a[j,i] }", a=np.int32([[1, 2, 3], [4, 5, 6]]))
array([[1, 4],
       [2, 5],
       [3, 6]], dtype=int32)

# C16 Missing bounds (sac/partitions.md)

A missing upper bound is what selections tell (C15), or in an earlier partition the edge of the
result. A missing lower bound is 0.

>>> tc.sac.interpret("{ [i] -> a[i] | [1] <= [i] }", a=np.int32([5, 6, 7]))
array([0, 6, 7], dtype=int32)
>>> tc.sac.interpret("{ [i,j] -> a[i] * j }", a=np.int32([1, 2]))
Traceback (most recent call last):
tc.errors.CheckError: CheckError [C16]: no upper bound for j can be inferred in the last partitio...

# C17 Dots as bounds (sac/partitions.md)

`.` is the edge of the result: 0 below, the sizes of its leading axes above. In with-loops it is the
edge of the shape of genarray or modarray. Nothing bounds the last partition by a dot from above.

>>> tc.sac.interpret("{ iv -> 9 | [1] <= iv <= .; iv -> a[iv] }", a=np.int32([1, 2, 3]))
array([1, 9, 9], dtype=int32)
>>> tc.sac.interpret("{ iv -> 0 | [0] <= iv <= . }")
Traceback (most recent call last):
tc.errors.CheckError: CheckError [C17]: '.' cannot bound the last partition, which gives the resu...

# C18 No strict dots (sac/differences.md)

`< .` and `. <` are errors: SaC leaves the edge out, the paper does not.

>>> tc.sac.interpret("{ iv -> 0 | . < iv <= .; iv -> a[iv] }", a=[1, 2])
Traceback (most recent call last):
tc.errors.ParseError: ParseError [C18]: '<' beside '.': write '. <=' (or no bound) for all, or '<...

# C19 Dots in patterns (sac/dots.md)

In `[i, ., j]` the variables keep their positions in the result's index; a dot gives its position to
the body's next axis, `...` to all that later dots leave. Axes that no dot takes come last.

>>> tc.sac.interpret("{ [.,i] -> m[i] }", m=np.int32([[1, 2, 3], [4, 5, 6]]))
array([[1, 4],
       [2, 5],
       [3, 6]], dtype=int32)
>>> tc.sac.interpret("shape({ [i,...,j] -> [[1,2],[3,4]] + i | [i,j] < [5,5] })")
array([5, 2, 2, 5], dtype=int32)

# C20 Comprehensions as with-loops (sac/dots.md)

A comprehension is a with-loop with its bounds inferred, its dots as variables, and a default
element of zeros in the shape of the last body.

>>> tc.sac.interpret("{ [i,.] -> v * i | [i] < [2] }", v=np.int32([1, 2]))
array([[0, 0],
       [1, 2]], dtype=int32)
>>> loop = "with { ([0,0] <= [i,t] < [2,2]) : (v * i)[[t]]; } : genarray([2,2], 0)"
>>> tc.sac.interpret(loop, v=np.int32([1, 2]))
array([[0, 0],
       [1, 2]], dtype=int32)

# C21 With-loops (sac/partitions.md)

With-loops have both bounds, and `genarray(shape, default)`, `modarray(array)` or
`fold(op, neutral)` with one of `+ * min max && ||`. A fold takes every index once, in any order
(R5).

>>> tc.sac.interpret("with { ([0] <= [i] < [4]) : i; ([2] <= [i] < [6]) : 100 * i; } : fold(+, 0)")
array(906, dtype=int32)
>>> inner = "with { ([1] <= iv < shape(v) - 1) : v[iv] + 1; } : modarray(v)"
>>> tc.sac.interpret(inner, v=np.int32([1, 2, 3]))
array([1, 3, 3], dtype=int32)

# C22 Levels (sac/shapes_on_demand.md)

Level F is the value, S the shape, D the rank, N nothing. `shape(e)` needs e at S only, `dim(e)`
at D: what a shape does not need is not computed.

>>> tc.sac.interpret("shape(a[[7]])", a=np.zeros((0, 6), np.float32))
array([6], dtype=int32)
>>> tc.sac.interpret("shape({ [i] -> a[9] | [i] < [3] })", a=np.int32([1, 2]))
array([3], dtype=int32)

# C23 The shape of a body (sac/shapes_on_demand.md)

The shape of the last body is found at level S: its index has a shape and no value, also for an
empty range. A body whose shape needs the index's value is an error.

>>> tc.sac.interpret("shape({ [i] -> reverse(a[i]) })", a=np.zeros((0, 5), np.int32))
array([0, 5], dtype=int32)
>>> tc.sac.interpret("{ iv -> take(iv, a) | iv < shape(a) }", a=np.int32([1, 2]))
Traceback (most recent call last):
tc.errors.CheckError: CheckError [C23]: the shape of the last partition's body depends on the val...

# C24 Demand (sac/shapes_on_demand.md)

What each input is needed for is known without inputs: F its value, S its shape, D its rank, N
nothing.

>>> tc.sac.demand("int[+] plus(int[+] A, int B) { return A + B; }", "S")
{'A': 'S', 'B': 'N'}
>>> tc.sac.demand("{ iv -> A[iv] + 1 | iv < take([1], shape(A)) }", "F")
{'A': 'F'}

# C25 SaC's notation from Python (sac/from_python.md)

`tc.sac` has the verbs of `tc`. Inputs come one by one, by keyword, as one sequence or one
dict; those of an expression by name only. Python's numbers and lists of them are weak.

>>> text = "float[*] f(float[*] x) { return { iv -> x[iv] + 1 }; }"
>>> f = tc.sac.compile(text, backend="interpret")
>>> f(np.float32([[1, 2]]))
array([[2., 3.]], dtype=float32)
>>> tc.sac.interpret("a + b", a=1)
Traceback (most recent call last):
tc.errors.InputError: InputError [C25]: input 'b' is missing...

# C26 From comprehensions to defs (sac/from_python.md)

A function is lowered to one def of tc for each set of element types, shapes and those integers that
a shape needs. Calls are inlined, index vectors become scalars, folds become reductions.

>>> text = "float[*] f(float[*] x) { return { iv -> x[iv] + 1 }; }"
>>> f = tc.sac.compile(text, backend="interpret")
>>> f.lowered(np.zeros(3, np.float32)).text.count("def ")
1

# C27 What is not supported (sac/differences.md)

`step` and `width`, loops, recursion, operators and folds by functions of one's own, `use`, structs,
overloading, several results of one comprehension and constraints of types are refused by name.

>>> tc.sac.interpret("{ [i] -> a[i] | [0] <= [i] < [8] step [2] }", a=[1, 2])
Traceback (most recent call last):
tc.errors.ParseError: ParseError [C1]: not supported: 'step'...
"""
)
