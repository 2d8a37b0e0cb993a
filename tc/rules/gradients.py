"""Rules D: gradients."""

from __future__ import annotations

from tc.rules.rule import rules_of

RULES = rules_of(
    """
# D1 The gradient of a def (gradients.md)

`tc.grad(src, wrt)` is the text of one def. It takes the inputs that it uses, saved outputs, and a
cotangent `d_O` for each floating output, and returns `d_A` for each input in `wrt`, by default each
floating one. No left side of the gradient is computed, so nothing is scattered.

>>> mv = "def mv(float(M,K) A, float(K) x) -> (C) { C(i) +=! A(i,k) * x(k) }"
>>> print(tc.grad(mv, 'x'), end="")
def mv_grad(float(M, K) A, float(M) d_C) -> (float(K) d_x) {
  d_x(k) +=! d_C(i) * A(i, k)
}

# D3 Reads (gradients.md)

Each read of a right side gives a statement of the gradient, which sums over all instances that read
an element. Those of one tensor that sum over the same instances are one statement. The value of an
output is used where the derivative is made of it.

>>> mm = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
>>> print(tc.grad(mm), end="")
def mm_grad(float(M, K) A, float(K, N) B, float(M, N) d_C) -> (float(M, K) d_A, float(K, N) d_B) {
  d_A(i, k) +=! d_C(i, j) * B(k, j)
  d_B(k, j) +=! d_C(i, j) * A(i, k)
}
>>> tanh = "def act(float(N) x) -> (y) { y(i) = tanh(x(i)) }"
>>> print(tc.grad(tanh), end="")
def act_grad(float(N) y, float(N) d_y) -> (float(N) d_x) {
  d_x(i) = d_y(i) * (1 - y(i) * y(i))
}

# D4 Ranges of gradients (gradients.md)

Every variable of a gradient has the range that it has in the program, as an expression of the
sizes. Where there is none, `tc.grad` asks for `sizes=`: with inputs, or sizes by name, the text is
for these sizes only.

>>> small = "def small(float(N) A) -> (O) { O(i) = A(i) * A(i) }"
>>> print(tc.grad(small, sizes={'N': 7}), end="")
def small_grad(float(7) A, float(7) d_O) -> (float(7) d_A) {
  d_A(i) = 2 * d_O(i) * A(i)
}

# D6 Strides (gradients.md)

Subscripts are solved for the variables of the left side over the integers, and no instance is
visited in vain: a stride becomes a step and a residue, a quotient and a remainder are solved for
together. Factors that only a call knows become a condition.

>>> conv = "def conv(float(W) I, float(K) F) -> (O) { O(i) +=! I(2*i + k) * F(k) }"
>>> print(tc.grad(conv), end="")
def conv_grad(float(W) I, float(K) F, float(OI) d_O) -> (float(W) d_I, float(K) d_F) {
  d_I(x) +=! pad(d_O(x / 2 - p) * F(2 * p + x % 2), 0) where p in 0 : (K + 1) / 2
  d_F(k) +=! d_O(i) * I(2 * i + k)
}
>>> split = "def split(float(M,4) A) -> (O) { O(i) = A(i / 4, i % 4) where i in 0:4*M }"
>>> print(tc.grad(split), end="")
def split_grad(float(M, 4) A, float(OI) d_O) -> (float(M, 4) d_A) {
  d_A(x, y) = d_O(4 * x + y)
}
>>> step = "def step(int s, float(W) I, float(K) F) -> (O) { O(i) +=! I(s*i + k) * F(k) }"
>>> print(tc.grad(step, 'I'), end="")
def step_grad(int s, float(W) I, float(K) F, float(OI) d_O) -> (float(W) d_I) {
  d_I(x) +=! (x - k) % int64(s) == 0 ? pad(d_O((x - k) / s) * F(k), 0) : 0
}

# D7 Guards (gradients.md)

Conditions of the program, and those under which an instance exists, stand outermost: what they
guard is not computed where they do not hold, and cannot spoil a sum. `pad` says that reads are in
bounds.

>>> safe = "def safe(float(N) A) -> (O) { O(i) = A(i) > 0 ? sqrt(A(i)) : 0 }"
>>> print(tc.grad(safe), end="")
def safe_grad(float(N) A, float(N) d_O) -> (float(N) d_A) {
  d_A(i) = A(i) > 0 ? d_O(i) * (0.5 / sqrt(A(i))) : 0
}

# D9 Versions (gradients.md)

A tensor that is overwritten or changed counts as another one from there on. What a statement leaves
of it keeps its gradient. What the caller gives in an output C is the input `C_0`, and has a
gradient, too.

>>> sq = "def sq(float(N) A) -> (O) { O(i) = A(i) * A(i)  O(i) = O(i) * A(i) where i in 1:N }"
>>> print(tc.grad(sq), end="")
def sq_grad(float(N) A, float(N) d_O) -> (float(N) d_A) {
  O_1(i) = A(i) * A(i)
  b_O_1(i) = d_O(i)
  b_O_1(i) = d_O(i) * A(i) where i in 1:N
  d_A(i) = 1 <= i ? d_O(i) * O_1(i) : 0
  d_A(i) += 2 * b_O_1(i) * A(i)
}
>>> acc = "def acc(float a, float(N) A) -> (C) { C(i) = a * C(i)  C(i) += A(i) }"
>>> print(tc.grad(acc), end="")
def acc_grad(float a, float(N) C_0, float(N) d_C) -> (float d_a, float(N) d_A, float(N) d_C_0) {
  d_A(i) = d_C(i)
  d_a +=! d_C(i) * C_0(i)
  d_C_0(i) = d_C(i) * a
}

# D10 Derivatives of functions (gradients.md)

Each built-in function has a derivative, at a kink the subgradient of least norm: 0 for `abs` at 0,
half to each of two equal arguments of `max`. `lgamma`, `tgamma` and `bits` have none.

>>> relu = "def relu(float(N) A) -> (O) { O(i) = max(A(i), 0) }"
>>> print(tc.grad(relu), end="")
def relu_grad(float(N) A, float(N) d_O) -> (float(N) d_A) {
  d_A(i) = A(i) > 0 ? d_O(i) : 0
}

# D11 Ties (gradients.md)

The terms that equal a minimum or maximum share its gradient evenly; with `ties="first"` the first
of them in order of the text has all of it.

>>> top = "def top(float(N,K) A) -> (O) { O(n) max=! A(n,k) }"
>>> print(tc.grad(top), end="")
def top_grad(float(N, K) A, float(N) O, float(N) d_O) -> (float(N, K) d_A) {
  n_O(n) +=! A(n, k) == O(n) ? 1 : 0
  d_A(n, k) = A(n, k) == O(n) ? d_O(n) / n_O(n) : 0
}
>>> print(tc.grad(top, ties='first'), end="")
def top_grad(float(N, K) A, float(N) O, float(N) d_O) -> (float(N, K) d_A) {
  p_O(n) min=! A(n, k) == O(n) ? k : K
  d_A(n, k) = k == p_O(n) ? d_O(n) : 0
}

# D12 Products (gradients.md)

The gradient of a product is the product of the other terms, right where terms are 0.

>>> prod = "def prod(float(N,K) A) -> (P) { P(n) *=! A(n,k) }"
>>> print(tc.grad(prod), end="")
def prod_grad(float(N, K) A, float(N) d_P) -> (float(N, K) d_A) {
  x_P(n, k) *=! q == k ? 1 : A(n, q) where k in 0:K
  d_A(n, k) = d_P(n) * x_P(n, k)
}

# D13 Gathers (gradients.md)

The instances that read an element do not follow from it: the gradient of a gather is a scatter.

>>> at = "def at(float(V) T, int(N) I) -> (O) { O(n) = T(I(n)) }"
>>> print(tc.grad(at, 'T'), end="")
def at_grad(float(V) T, int(N) I, float(N) d_O) -> (float(V) d_T) {
  d_T(I(n)) +=! d_O(n)
}

# D14 Choices of a subscript (gradients.md)

Subscripts with `min`, `max` or `?:` give a statement for each branch. A place that is always the
same is a range.

>>> edge = '''def edge(float(N) A, float(K) F) -> (O) {
...   O(i) +=! A(max(i + k - 1, 0)) * F(k) where i in 0:N-K
... }'''
>>> print(tc.grad(edge, 'A'), end="")
def edge_grad(float(N) A, float(K) F, float(OI) d_O) -> (float(N) d_A) {
  d_A(x) +=! pad(d_O(x - k + 1) * F(k), 0)
  d_A(x) += x == 0 && 0 > i + k - 1 ? d_O(i) * F(k) : 0
}
>>> ends = "def ends(float(N) A) -> (o) { o = A(0) * A(N-1) }"
>>> print(tc.grad(ends), end="")
def ends_grad(float(N) A, float d_o) -> (float(N) d_A) {
  d_A(i) = 0
  d_A(x) += d_o * A(N - 1) where x in 0:min(1, N)
  d_A(x) += d_o * A(0) where x in max(N - 1, 0):N
}

# D15 Calls, numbers and the caller's tensor (gradients.md)

Numbers have gradients as arrays have. Calls are taken as the statements of what they call. A tensor
whose values are the caller's has its old values as an input `C_0`, where they are read, and their
gradient is `d_C_0`; what the caller of a function gives in `outputs=` has no gradients.

>>> scaled = "def scaled(float(N) a, float s) -> (o) { o(i) = s * a(i) }"
>>> print(tc.grad(scaled), end="")
def scaled_grad(float(N) a, float s, float(N) d_o) -> (float(N) d_a, float d_s) {
  d_s +=! d_o(i) * a(i)
  d_a(i) = d_o(i) * s
}

# D16 What carries a gradient (gradients.md)

Floating values do; integers, conditions, subscripts and ranges do not. `wrt` names floating inputs,
and nothing flows through the tensors in `constant`.

>>> fix = "def fix(float(N) A) -> (m, O) { m max=! A(i)  O(i) = exp(A(i) - m) }"
>>> print(tc.grad(fix, constant='m'), end="")
def fix_grad(float(N) O, float d_m, float(N) d_O) -> (float(N) d_A) {
  d_A(i) = d_O(i) * O(i)
}

# D17 What is saved (gradients.md)

Outputs that the gradient needs are inputs of it, and temporaries are computed again; with
`save="all"` temporaries are inputs, too, and with `save="none"` nothing is. What is added to a half
is summed up as float, and rounded once. `tc.vjp(src, wrt)` is a pair of texts: of a def that
returns what its gradient needs, too, and of that gradient, which computes nothing again.

>>> e = "def e(float(N) A) -> (O) { t(i) = A(i) * A(i)  O(i) = sin(t(i)) }"
>>> print(tc.grad(e), end="")
def e_grad(float(N) A, float(N) d_O) -> (float(N) d_A) {
  t(i) = A(i) * A(i)
  d_t(i) = d_O(i) * cos(t(i))
  d_A(i) = 2 * d_t(i) * A(i)
}
>>> print(tc.grad(e, save='all'), end="")
def e_grad(float(N) A, float(N) t, float(N) d_O) -> (float(N) d_A) {
  d_t(i) = d_O(i) * cos(t(i))
  d_A(i) = 2 * d_t(i) * A(i)
}
>>> h = "def h(half(N) A) -> (O, S) { O(i) = A(i) * A(i)  S +=! A(i) }"
>>> print(tc.grad(h), end="")
def h_grad(half(N) A, half(N) d_O, half d_S) -> (half(N) d_A) {
  b_A(i) = float(d_S) + 2 * float(d_O(i)) * float(A(i))
  d_A(i) = half(b_A(i))
}

# D18 More than gradients (gradients.md)

A gradient is a program, and has a gradient. `tc.jvp(src, wrt)` is the text of a def that returns
the outputs of a def, and their tangents `t_O` along tangents `t_A` of inputs, with subscripts and
ranges as they are in the program. `tc.batch(src, in_axes)` is that of a def which computes a def
for each element of a batch; a range may not depend on what is batched.

>>> cube = "def cube(float(N) x) -> (y) { y(i) = x(i) * x(i) * x(i) }"
>>> print(tc.grad(tc.grad(cube), 'x'), end="")
def cube_grad_grad(float(N) x, float(N) d_y, float(N) d_d_x) -> (float(N) d_x_2) {
  d_x_2(i) = 6 * d_d_x(i) * x(i) * d_y(i)
}
>>> print(tc.jvp(cube), end="")
def cube_jvp(float(N) x, float(N) t_x) -> (y, t_y) {
  y(i) = x(i) * x(i) * x(i)
  t_y(i) = 3 * t_x(i) * x(i) * x(i)
}
>>> print(tc.batch(cube, {"x": 0}), end="")
def cube_batch(float(B, N) x) -> (y) {
  y(b, i) = x(b, i) * x(b, i) * x(b, i)
}

# D20 Scatters and gathers (gradients.md)

Scatter and gather are each other's gradient: what a statement writes to a computed place is read
there, and what is read at a place that no equation solves is scattered to it.

>>> print(tc.grad("def h(int(N) I, float(N) w) -> (float(5) h) { h(I(n)) +=! w(n) }"), end="")
def h_grad(int(N) I, float(5) d_h) -> (float(N) d_w) {
  d_w(n) = d_h(I(n))
}

# D21 Domains (gradients.md)

Conditions stay with their statement, ranges that depend on variables are inverted exactly, and
ranges that tensors decide stay as they are.

>>> print(tc.grad("def sums(float(N) x) -> (o) { o(i) +=! x(j) where j in 0:i+1 }"), end="")
def sums_grad(float(N) d_o) -> (float(N) d_x) {
  d_x(j) +=! d_o(i) where i in j:N
}

# D22 Chosen terms (gradients.md)

Where one term gives the values of several targets, their gradients go to that term, at the place
that a target tells, or else the gradient.

>>> print(tc.grad("def best(float(N,K) x) -> (m, at) { m(n), at(n) max=! x(n,k), k }"), end="")
def best_grad(float(N, K) x, int(N) at, float(N) d_m) -> (float(N, K) d_x) {
  d_x(n, at(n)) +=! d_m(n) where at(n) < K
}
"""
)
