"""One comprehension with its names resolved: left side, where clause and reduction (N1, N2, R1,
R2, G8, T5, and the part of P1 that holds for all sizes).

A where clause is a binding (T5) or a range (G8).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NoReturn

from tc.errors import CheckError
from tc.frontend import ast
from tc.frontend.repairs import intersection
from tc.semantics import program as p
from tc.semantics import resolved as r
from tc.semantics.check.builder import BindingValue, CallFrame, Findings, NameScope, Seen
from tc.semantics.check.declarations import DefSignature, as_inputs
from tc.semantics.check.name_errors import check_loose
from tc.semantics.check.resolve import (
    check_height,
    height_in,
    resolve,
    resolve_binding,
    resolve_read,
)
from tc.semantics.check.whole_tensors import with_subscripts
from tc.semantics.suggest import element, number_written, one_line, renamed_index, respelled, unused
from tc.source import Edit, Span, within
from tc.wording import counted, listed, nearest


def resolve_bindings(
    statement: ast.Comprehension, scope: NameScope, outer: Mapping[str, Span]
) -> dict[str, BindingValue]:
    """The bindings of the where clause; each sees the bindings before itself."""
    ranges = {c.variable.text for c in statement.where if isinstance(c, ast.RangeClause)}
    bindings: dict[str, BindingValue] = {}
    for clause in statement.where:
        if not isinstance(clause, ast.Binding):
            continue
        name = clause.name.text
        taken = _kind(name, scope.frame.signature)
        if name in bindings:
            taken = "another binding"
        elif name in outer or name in ranges:
            taken = "an index variable of the statement"
        if taken:
            edits = _renamed(statement, clause, outer, taken)
            raise CheckError(
                f"the binding '{name}' needs a name of its own: '{name}' is {taken}",
                rule="T5",
                span=clause.name.span,
                edits=edits,
                repair=None if edits else "give the value a name of its own",
            )
        hidden = {key: span for key, span in scope.hidden.items() if key not in bindings}
        inner = NameScope(scope.frame, scope.defs, scope.shaped, bindings, hidden, name)
        value = resolve_binding(clause.value, inner)
        check_height(value.height, clause.span)
        bindings = {**bindings, name: value}
    return bindings


def _kind(name: str, signature: DefSignature) -> str | None:
    if name in signature.sizes:
        return "a size"
    return "a tensor" if signature.is_tensor(name) else None


def _renamed(
    statement: ast.Comprehension, clause: ast.Binding, outer: Mapping[str, Span], taken: str
) -> tuple[Edit, ...]:
    """The edits that give a binding another name wherever it is meant; a binding of an index
    variable to a number was meant to be its range."""
    name, value = clause.name.text, clause.value
    if name in outer and isinstance(value, ast.Number) and isinstance(value.value, int):
        return (Edit(clause.span, f"{name} in {value.value}:{value.value + 1}"),)
    if taken != "a size" or any(isinstance(c, ast.RangeClause) for c in statement.where):
        return ()
    fresh = unused(f"{name}_2", clause.span)
    meant = [n for n in ast.walk(statement.rhs) if isinstance(n, ast.Name) and n.text == name]
    return within(statement.span, tuple(Edit(n.span, fresh) for n in (*meant, clause.name)))


def resolve_range(
    clause: ast.RangeClause,
    first: ast.RangeClause,
    scope: NameScope,
    tensors: Mapping[str, r.FlatTensor],
    indices_used: set[str],
) -> r.FlatRange:
    """A range clause, given the first one of its variable and the index variables of the rest of
    the statement; its bounds must be size expressions, and there is no other range (G8)."""
    name = clause.variable.text
    kind = _kind(name, scope.frame.signature) or ("a binding" if name in scope.hidden else None)
    if kind:
        raise CheckError(
            f"a where clause gives the range of an index variable, and '{name}' is {kind}",
            rule="G8",
            span=clause.variable.span,
            repair="name an index variable of the statement",
        )
    if first is not clause:
        both = intersection(first, clause)
        raise CheckError(
            f"the where clause gives '{name}' two ranges",
            rule="G8",
            span=clause.span,
            edits=_one_range(first.span, clause.span, both) if both else (),
            repair=None if both else "give it one of them: they have no value in common",
            notes=((first.span, "the first one is here"),),
        )
    begin, end = (
        _bound(bound, test, name, scope, tensors, indices_used)
        for bound, test in ((clause.begin, ">="), (clause.end, "<"))
    )
    return r.FlatRange(name, begin, end, span=clause.span)


def _one_range(first: Span, second: Span, text: str) -> tuple[Edit, ...]:
    """The edits that replace two range clauses by the clause `text`."""
    source = first.source
    if source.text[first.end : second.start].strip() == ",":
        return (Edit(first.to(second), text),)
    before = source.text.rfind(",", first.end, second.start)
    return (Edit(first, text), Edit(Span(source, before, second.end), ""))


def _bound(
    expr: ast.Expr,
    test: str,
    variable: str,
    scope: NameScope,
    tensors: Mapping[str, r.FlatTensor],
    indices_used: set[str],
) -> p.Expr:
    """A bound of a range, which must be a size expression (G8); `test` is the comparison, such as
    `>=`, that messages print between the variable and the bound."""
    bound = resolve(expr, scope, Findings())
    stack = [bound]
    while stack:
        node = stack.pop()
        match node:
            case p.Index(name=name):
                said = f"{variable} {test} {one_line(expr.span)}"
                _index_in_bound(name, node.span, variable, said, scope, name in indices_used)
            case p.Read(tensor=tensor):
                _check_scalar(node, tensors[tensor])
            case p.Call() | p.Bits() | p.Select(padded=True):
                _no_size_expression(
                    node.span, "no other functions", "pass the value as an input: int n"
                )
            case p.Literal(value=float()):
                _no_size_expression(node.span, "only whole numbers", _int_text(node.span), True)
            case p.Convert(dtype=dtype) if not dtype.is_integer:
                _no_size_expression(node.span, "only integers", "write an integer")
            case _:
                pass
        stack.extend(reversed(p.children(node)))
    return bound


def _int_text(span: Span) -> str | None:
    """The text of a floating literal with a whole value as an integer: "2" for 2.0, None for
    2.5."""
    value = float(span.text.rstrip("fFlL"))
    return str(int(value)) if value == int(value) else None


def _check_scalar(read: p.Read, tensor: r.FlatTensor) -> None:
    """Raise unless the read in a where bound is an integer rank 0 input of the entry."""
    text = one_line(read.span)
    if tensor.rank:
        _no_size_expression(
            read.span, "no reads of tensors", "pass the value as an input of rank 0: int n"
        )
    if tensor.role != "input":
        raise CheckError(
            f"'{text}' is computed by the program; the bounds of a range may use sizes, literals "
            "and integer rank 0 inputs of the entry, which are known before it runs",
            rule="G8",
            span=read.span,
            repair=f"pass it as an input: int {text}",
        )
    if tensor.declared is None or not tensor.declared.is_integer:
        raise CheckError(
            f"'{text}' is {tensor.declared}, and the bounds of a range are integers",
            rule="G8",
            span=read.span,
            repair=f"declare it as an integer: int {text}",
            notes=((tensor.span, "it is declared here"),),
        )


def _index_in_bound(
    name: str, span: Span, variable: str, said: str, scope: NameScope, is_used: bool
) -> NoReturn:
    if is_used:
        raise CheckError(
            f"the range of '{variable}' uses the index variable '{name}', and the bounds of a "
            "range are size expressions: ranges are boxes",
            rule="G8",
            span=span,
            idiom=f"o({name}) +=! {said} ? A({name}, {variable}) : 0, which selects in the box",
        )
    signature = scope.frame.signature
    known = [*signature.sizes, *(p for p, rank in signature.ranks.items() if rank == 0)]
    product = number_written(name, known)
    near = None if product else nearest(name, known)
    raise CheckError(
        f"'{name}' in the range of '{variable}' is neither a size nor an integer input of "
        f"'{signature.name}'" + (f"; did you mean '{near}'?" if near else ""),
        rule="G8",
        span=span,
        repair=None if near or product else f"declare it as an input: int {name}",
        paste=product or near,
        edits=(as_inputs(signature.definition, f"int {name}"),),
    )


def _no_size_expression(
    span: Span, allowed: str, repair: str | None, pasted: bool = False
) -> NoReturn:
    raise CheckError(
        f"'{one_line(span)}' in a bound of a range is no size expression: sizes, T.0, integers, "
        f"+ - * / %, min, max and choices may stand there, and {allowed}",
        rule="G8",
        span=span,
        repair=None if pasted and repair else repair or "write a whole number",
        paste=repair if pasted else None,
    )


MAX_VARIABLES = 32
"""The dimensions that arrays of every supported numpy may have; blocks have one per variable."""


def resolve_statement(
    statement: ast.Comprehension,
    frame: CallFrame,
    defs: Mapping[str, DefSignature],
    tensors: Mapping[str, r.FlatTensor],
    shaped: Container[str],
) -> tuple[r.FlatStatement, tuple[Seen, ...]]:
    """One comprehension of the def of `frame`, resolved, with the reads of its right-hand side in
    the order of the text.

    `shaped` are the program's tensors whose extents are known before it. Whether it continues from
    something is for the caller to say. Raises CheckError.
    """
    signature = frame.signature
    outer = _left_side(statement, signature)
    names = {c.name.text: c.name.span for c in statement.where if isinstance(c, ast.Binding)}
    scope = NameScope(frame, defs, shaped, {}, names)
    bindings = resolve_bindings(statement, scope, outer) if names else {}
    right = Findings()
    inside = NameScope(frame, defs, shaped, bindings, {}, statement=statement)
    rhs = resolve(statement.rhs, inside, right)
    if bindings:
        check_height(height_in(rhs, inside), statement.rhs.span)
    where: list[r.FlatRange] = []
    exists: list[p.Read] = []
    rest = Findings()
    used = {*outer, *right.variables}
    firsts: dict[str, ast.RangeClause] = {}
    for clause in statement.where:
        match clause:
            case ast.RangeClause():
                first = firsts.setdefault(clause.variable.text, clause)
                where.append(resolve_range(clause, first, scope, tensors, used))
                rest.variables.setdefault(clause.variable.text, clause.variable.span)
            case ast.Binding():
                for name, span in bindings[clause.name.text].findings.variables.items():
                    rest.variables.setdefault(name, span)
            case ast.Exists():
                exists.append(resolve_read(clause.read, scope, rest))
    variables = dict(outer)
    for name, span in (*right.variables.items(), *rest.variables.items()):
        variables.setdefault(name, span)
    if len(variables) > MAX_VARIABLES:
        raise CheckError(
            f"the statement has {len(variables)} index variables, and at most {MAX_VARIABLES} "
            "are supported",
            rule="N1",
            span=list(variables.values())[MAX_VARIABLES],
            repair="split the statement, by way of a temporary",
        )
    target = frame.tensors[statement.target.text]
    reduces = len(variables) > len(outer)
    bounded = {*outer, *(clause.variable for clause in where)}
    exprs = (rhs, *exists, *(binding.value for binding in bindings.values()))
    loose = check_loose(variables, bounded, exprs, signature)
    _check_reduction(statement, signature, outer, variables, loose)
    computed = (*right.reads, *(read for read in rest.reads if read.in_subscript))
    _check_self_reads(statement, target, reduces, computed)
    initialises = statement.op.endswith("!")
    op = statement.op.rstrip("!")[:-1] or "="
    resolved = r.FlatStatement(
        target,
        statement.target.text,
        tuple(p.Index(name, span=span) for name, span in outer.items()),
        tuple(outer),
        variables,
        "=" if initialises and not reduces else op,
        initialises and reduces,
        "",
        rhs,
        tuple(where),
        tuple(exists),
        frozenset(read.tensor for read in right.reads),
        statement.span,
        frame.calls,
    )
    return resolved, tuple(right.reads)


def _left_side(statement: ast.Comprehension, signature: DefSignature) -> dict[str, Span]:
    """The left-hand variables, with checks of the target and its subscripts."""
    name = statement.target.text
    if name in signature.params:
        raise CheckError(
            f"'{name}' is an input of '{signature.name}', and inputs are immutable",
            rule="N2",
            span=statement.target.span,
            repair="write to another name, and return that",
            notes=((signature.params[name].span, "the input is declared here"),),
        )
    names = statement.indices or ()
    rank = signature.ranks[name]
    if len(names) != rank:
        repair = f"write it with {counted(rank, 'index variable')}, as in {element(name, rank)}"
        annotation = signature.returns[name].type if name in signature.returns else None
        if annotation is not None:
            dims = ", ".join("NMKLPQ"[: len(names)])
            declared = f"{annotation.spelling}({dims})" if dims else annotation.spelling
            repair += f", or declare the other rank: {declared}"
        edits = () if statement.indices else with_subscripts(statement, signature)
        raise CheckError(
            f"'{name}' has rank {rank} and is written with {counted(len(names), 'index variable')}",
            rule="N1",
            span=statement.target.span,
            repair=None if edits else repair,
            edits=edits,
            notes=((signature.ranked_at[name], f"'{name}' has rank {rank} here"),),
        )
    outer: dict[str, Span] = {}
    for index in names:
        if index.text in outer:
            raise CheckError(
                f"the left side names '{index.text}' twice; each index stands there once",
                rule="N2",
                span=index.span,
                idiom=_diagonal(statement),
            )
        if index.text in signature.sizes or signature.is_tensor(index.text):
            kind = "a size" if index.text in signature.sizes else "a tensor"
            cause = (
                f"the left side lists index variables, and '{index.text}' is {kind} of "
                f"'{signature.name}'"
            )
            if signature.ranks.get(index.text):
                new, edits = renamed_index(statement.span, index.text)
                place = signature.ranked_at[index.text]
                has_rank = f"'{index.text}' has rank {signature.ranks[index.text]} here"
                raise CheckError(
                    cause,
                    rule="N1",
                    span=index.span,
                    repair=f"another name for the index variable, such as {new}",
                    edits=edits,
                    notes=((place, has_rank),),
                )
            raise CheckError(
                cause,
                rule="N1",
                span=index.span,
                idiom="o(i) = A(i), for every element; "
                f"with where i in {index.text}:{index.text} + 1, for one",
            )
        outer[index.text] = index.span
    return outer


def _diagonal(statement: ast.Comprehension) -> str:
    """How the statement is written whose left side names its only index twice, to write a
    diagonal; of other statements, how it is in general."""
    target, names = statement.target.text, [index.text for index in statement.indices or ()]
    value, row, column = "A(i)", "i", "j"
    if len(names) == 2 and statement.op == "=" and not statement.where:
        row = names[0]
        column = "j" if row != "j" else "k"
        value = one_line(statement.rhs.span)
    else:
        target = "o"
    choice = f"{row} == {column} ? {value} : 0"
    return f"{target}({row}, {column}) = {choice} where {column} in 0:N, for a diagonal"


def _check_reduction(
    statement: ast.Comprehension,
    signature: DefSignature,
    outer: Mapping[str, Span],
    variables: Mapping[str, Span],
    loose: Iterable[str],
) -> None:
    """Raise for `=` with reduction variables (R1); those in `loose` need a range as well."""
    if statement.op != "=" or len(variables) == len(outer):
        return
    reduced = [name for name in variables if name not in outer]
    others = (name for name in signature.tensors() if name != statement.target.text)
    known = (*signature.sizes, *others, *outer)
    meant = [(n, near) for n in reduced if len(n) > 1 and (near := nearest(n, known))]
    right = Span(statement.span.source, statement.op_span.end, statement.span.end)
    edits: tuple[Edit, ...] = ()
    idiom = None
    example: tuple[Edit, ...] = ()
    spelled = {name: text for name in reduced if (text := number_written(name, known))}
    if spelled:
        edits = respelled(right, spelled)
    elif meant and {name for name, _ in meant}.issuperset(reduced):
        edits = respelled(right, dict(meant))
    elif loose:
        name = next(iter(loose))
        idiom = f"float {name}, among the parameters, if '{name}' is a number that is given"
    elif _is_contraction(statement, signature, reduced):
        edits = (Edit(statement.op_span, "+=!"),)
    else:
        idiom = "+=! sums, *=! multiplies, min=! and max=! give the extremes, such as"
        if statement.indices is None:
            idiom = f"{statement.target.text}({', '.join(reduced)}) = ..., if every element is "
            idiom += "meant; for the sum of all"
        example = (Edit(statement.op_span, "+=!"),)
    are, them = ("is", "it") if len(reduced) == 1 else ("are", "them")
    raise CheckError(
        f"{listed(reduced)} {are} not on the left of '=', so the statement reduces over {them}; "
        "a reduction needs one of the operators +=! *=! min=! max=! (or the same without ! to "
        "continue from what the tensor holds)"
        + "".join(f"; if '{name}' is misspelt, did you mean '{near}'?" for name, near in meant),
        rule="R1",
        span=variables[reduced[0]],
        edits=within(statement.span, edits),
        idiom=None if edits else idiom,
        example=() if edits else within(statement.span, example),
        notes=((statement.op_span, "the operator is here"),),
    )


def _is_contraction(
    statement: ast.Comprehension, signature: DefSignature, reduced: Sequence[str]
) -> bool:
    """Whether the right side is a product of tensors that share the reduced variables, so that a
    sum is almost certainly meant."""
    factors, stack = [], [statement.rhs]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Binary) and node.op == "*":
            stack += [node.left, node.right]
        elif isinstance(node, ast.Apply) and signature.is_tensor(node.name.text):
            factors.append({n.text for n in ast.walk(node) if isinstance(n, ast.Name)})
    if statement.indices is None and (
        statement.target.text not in signature.returns or len(reduced) > 1
    ):
        return False
    return all(sum(name in factor for factor in factors) >= 2 for name in reduced)


def _check_self_reads(
    statement: ast.Comprehension, target: str, reduces: bool, reads: Iterable[Seen]
) -> None:
    """Raise for self-reads that are wrong whatever the sizes (P1)."""
    name = statement.target.text
    rank = len(statement.indices or ())
    for read in reads:
        if read.tensor != target:
            continue
        if read.in_subscript:
            cause = f"a subscript reads '{name}', which this statement writes"
        elif reduces and statement.op.endswith("!"):
            cause = f"'{statement.op}' first overwrites '{name}' with the identity, and then the "
            cause += "right-hand side reads it"
        else:
            continue
        old = unused(f"{name}_old", read.span)
        raise CheckError(
            cause,
            rule="P1",
            span=read.span,
            idiom=f"to read what '{name}' held before: {element(old, rank)} = "
            f"{element(name, rank)}, before this statement, and {old} "
            + ("in the subscript" if read.in_subscript else "here"),
        )
