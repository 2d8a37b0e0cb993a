"""Sums of which a condition leaves one value of a variable: that value is put in its place.

`d(z) +=! 0 <= z - p && z - p < 1 ? g(z - p, i) * w(p, i) : 0` has terms for p = z alone: it is
`d(z) +=! g(0, i) * w(z, i)`. The gradients of sums along an axis of one element are of this kind.
Without the variable the sum is a product of matrices again, where it was one.
"""

from __future__ import annotations

from collections.abc import Iterator

from tc.affine.forms import LinearForm
from tc.dtypes import INT64
from tc.polyhedral.rewrite.rewriting import Rewriting
from tc.polyhedral.rewrite.simplifying import difference, linear_expression, simplified
from tc.semantics import program as p
from tc.semantics.affine import box_of, linear_form
from tc.semantics.program import ShapedProgram, ShapedStatement
from tc.semantics.size_values import KnownSizes


def without_lone_terms(shaped: ShapedProgram) -> ShapedProgram:
    """The program with sums over fewer variables, where the condition of their terms determines
    one of them by the others; the very same where there are none.

    Sums of one variable stay: what is left would start at the term, and not at 0. So do statements
    with checks. Each element is the sum of the same terms, but for those that are 0.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> text = "d(z) +=! 0 <= z - p && z - p < 1 ? g(i) * w(p,i) : 0.0 where z in 0:6"
    >>> source = Source(f"def f(float(N) g, float(P,N) w) -> (d) {{ {text} }}")
    >>> shaped = infer_ranges(check(parse(source)), {"g": (5,), "w": (6, 5)}, {})
    >>> [statement.text for statement in without_lone_terms(shaped).program.statements]
    ['d(z) +=! g(i) * w(z, i)']
    """
    rewriting = Rewriting(shaped, "reduced")
    known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars)

    def reduced(old: ShapedStatement) -> list[ShapedStatement] | None:
        new = old
        while (found := _determined(new, known)) is not None:
            new = _without(new, *found, rewriting, known)
        return None if new is old else [new]

    return rewriting.program(reduced)


def _determined(old: ShapedStatement, known: KnownSizes) -> tuple[str, LinearForm] | None:
    """A variable of a sum, and the form of other variables that it equals where terms are not 0."""
    statement, rhs = old.statement, old.statement.rhs
    if statement.op != "+" or len(statement.reduction) < 2 or old.checked or old.is_empty:
        return None
    if not isinstance(rhs, p.Select) or not _is_zero(rhs.otherwise):
        return None
    for form in _zeros(rhs.condition, known):
        for variable in statement.reduction:
            factor = form.terms.get(variable)
            if factor in (1, -1):
                return variable, form.without(variable).times(-factor)
    return None


def _is_zero(expr: p.Expr) -> bool:
    return isinstance(expr, p.Literal) and expr.value == 0


def _zeros(condition: p.Expr, known: KnownSizes) -> list[LinearForm]:
    """The forms that are 0 where a condition holds: those of equations, and those that neither are
    positive nor negative."""
    found: list[LinearForm] = []
    bounded: list[LinearForm] = []  # none of them positive
    for node in _conjuncts(condition):
        form = difference(node, known) if isinstance(node, p.Compare) else None
        if form is None:
            continue
        match node:
            case p.Compare(op="=="):
                found.append(form)
            case p.Compare(op="<=" | "<" as op):
                bounded.append(form.shifted(1) if op == "<" else form)
            case p.Compare(op=">=" | ">" as op):
                bounded.append(form.times(-1).shifted(1 if op == ">" else 0))
    found += (form for form in bounded if form.times(-1) in bounded)
    return found


def _conjuncts(condition: p.Expr) -> Iterator[p.Expr]:
    if isinstance(condition, p.Logical) and condition.op == "&&":
        for operand in condition.operands:
            yield from _conjuncts(operand)
    else:
        yield condition


def _without(
    old: ShapedStatement,
    variable: str,
    value: LinearForm,
    rewriting: Rewriting,
    known: KnownSizes,
) -> ShapedStatement:
    """A statement with a form in the place of a variable, where the form lies in its range."""
    rhs = old.statement.rhs
    assert isinstance(rhs, p.Select)
    left = [v for v in old.statement.variables if v != variable]

    def placed(node: p.Expr) -> p.Expr:
        """An expression without the variable: each linear integer that has it is made anew."""
        if variable not in p.index_names(node):
            return node
        form = linear_form(node, known, exact=True) if node.dtype == INT64 else None
        if form is not None:
            factor = form.terms.get(variable, 0)
            return linear_expression(form.without(variable).plus(value, factor), node)
        return p.with_children(node, tuple(map(placed, p.children(node))))

    ends = old.ranges[variable]
    condition = placed(rhs.condition)
    for op, end in (("<", ends.end), (">=", ends.begin)):
        bound = p.Literal(end, INT64, span=rhs.span)
        inside = p.Compare(op, linear_expression(value, rhs), bound, span=rhs.span)
        condition = p.Logical("&&", (inside, condition), span=rhs.span)
    new = p.Select(condition, placed(rhs.then), rhs.otherwise, rhs.dtype, span=rhs.span)
    return rewriting.remaining(old, simplified(new, known, box_of(old.ranges, left)), left)
