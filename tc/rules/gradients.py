"""Rules D: gradients."""

from __future__ import annotations

from tc.rules.rule import rules_of

RULES = rules_of(
    """
# D4 Ranges of gradients (gradients.md)

Every variable of a gradient has the range that it has in the program, as an expression of the
sizes. Where there is none, or the gradient would have none, `tc.grad` refuses.

>>> edge = "def edge(float(N) A) -> (o) { o = A(N-1) * A(N-1) }"
>>> print(tc.grad(edge), end="")
def edge_grad(float(N) A, float d_o) -> (float(N) d_A) {
  d_A(x) = N - 1 == x ? d_o * A(N - 1) : 0
  d_A(x) += N - 1 == x ? d_o * A(N - 1) : 0
}

# D9 Versions (gradients.md)

A tensor that is overwritten whole counts as another one. What overwrites a part, goes on from
what the caller gave, or adds to a tensor after it was read, is refused.

>>> sq = "def sq(float(N) A) -> (O) { O(i) = A(i) * A(i)  O(i) = O(i) * A(i) }"
>>> print(tc.grad(sq), end="")
def sq_grad(float(N) A, float(N) d_O) -> (float(N) d_A) {
  O_1(i) = A(i) * A(i)
  d_O_1(i) = d_O(i) * A(i)
  d_A(i) = d_O(i) * O_1(i)
  d_A(i) += d_O_1(i) * A(i)
  d_A(i) += d_O_1(i) * A(i)
}

# D10 Derivatives of functions (gradients.md)

Each built-in function has a derivative, at a kink the subgradient of least norm: 0 for `abs` at
0, half to each of two equal arguments of `max`. `lgamma` and `tgamma` have none.

>>> relu = "def relu(float(N) A) -> (O) { O(i) = max(A(i), 0) }"
>>> print(tc.grad(relu), end="")
def relu_grad(float(N) A, float(N) d_O) -> (float(N) d_A) {
  d_A(i) = A(i) > 0.0 ? d_O(i) : 0
}

# D11 Ties (gradients.md)

The terms that equal a minimum or maximum share its gradient evenly.

>>> top = "def top(float(N,K) A) -> (O) { O(n) max=! A(n,k) }"
>>> print(tc.grad(top), end="")
def top_grad(float(N, K) A, float(N) O, float(N) d_O) -> (float(N, K) d_A) {
  n_O(n) +=! A(n, k) == O(n) ? 1 : 0
  d_A(n, k) = A(n, k) == O(n) ? d_O(n) / n_O(n) : 0
}

# D12 Products (gradients.md)

The gradient of a product is the product of the other terms, right where terms are 0.

>>> prod = "def prod(float(N,K) A) -> (P) { P(n) *=! A(n,k) }"
>>> print(tc.grad(prod), end="")
def prod_grad(float(N, K) A, float(N) d_P) -> (float(N, K) d_A) {
  x_P(n, k) *=! q == k ? 1 : A(n, q) where k in 0:K
  d_A(n, k) = d_P(n) * x_P(n, k)
}

# D16 What carries a gradient (gradients.md)

Floating values do; integers, conditions, subscripts and ranges do not. `wrt` names floating
inputs, and nothing flows through the tensors in `constant`.

>>> at = "def at(float(V) T, int(N) I) -> (O) { O(n) = T(I(n)) }"
>>> print(tc.grad(at, "T"), end="")
def at_grad(float(V) T, int32(N) I, float(N) d_O) -> (float(V) d_T) {
  d_T(x) +=! I(n) == x ? d_O(n) : 0
}

# D17 What is saved (gradients.md)

Outputs that the gradient needs are inputs of it; temporaries are computed again. Tensors of
half are refused so far.

>>> e = "def e(float(N) A) -> (O) { t(i) = A(i) * A(i)  O(i) = exp(t(i)) }"
>>> print(tc.grad(e), end="")
def e_grad(float(N) A, float(N) d_O) -> (float(N) d_A) {
  t(i) = A(i) * A(i)
  d_t(i) = d_O(i) * exp(t(i))
  d_A(i) = d_t(i) * A(i)
  d_A(i) += d_t(i) * A(i)
}
"""
)
