"""One comprehension with its names resolved: left side, where clause and reduction (N1, N2, R1,
R2, G8, T5, and the part of P1 that holds for all sizes).

A where clause is a binding (T5) or a range (G8).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from tc.dtypes import SPELLINGS
from tc.errors import CheckError
from tc.frontend import ast
from tc.semantics import program as p
from tc.semantics import resolved as r
from tc.semantics.check.builder import BindingValue, CallFrame, Findings, NameScope, Seen
from tc.semantics.check.declarations import DefSignature
from tc.semantics.check.name_errors import check_loose
from tc.semantics.check.range_clauses import (
    check_integer,
    check_integers,
    check_order,
    kind_of_name,
    resolve_range,
    walk_of,
)
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


def resolve_bindings(statement: ast.Comprehension, scope: NameScope) -> dict[str, BindingValue]:
    """The bindings of the where clause; each sees the bindings before itself."""
    ranges = {c.variable.text for c in statement.where if isinstance(c, ast.RangeClause)}
    bindings: dict[str, BindingValue] = {}
    for clause in statement.where:
        if not isinstance(clause, ast.Binding):
            continue
        name = clause.name.text
        taken = kind_of_name(name, scope.frame.signature)
        if name in bindings:
            taken = "another binding"
        elif name in ranges:
            taken = "an index variable of the statement"
        if taken:
            edits = _renamed(statement, clause, taken)
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


def _renamed(statement: ast.Comprehension, clause: ast.Binding, taken: str) -> tuple[Edit, ...]:
    """The edits that give a binding another name wherever it is meant."""
    name = clause.name.text
    if taken != "a size" or any(isinstance(c, ast.RangeClause) for c in statement.where):
        return ()
    fresh = unused(f"{name}_2", clause.span)
    meant = [n for n in ast.walk(statement.rhs) if isinstance(n, ast.Name) and n.text == name]
    return within(statement.span, tuple(Edit(n.span, fresh) for n in (*meant, clause.name)))


MAX_VARIABLES = 32
"""The dimensions that arrays of every supported numpy may have; blocks have one per variable."""


def resolve_statement(
    statement: ast.Comprehension,
    frame: CallFrame,
    defs: Mapping[str, DefSignature],
    tensors: Mapping[str, r.FlatTensor],
    shaped: Container[str],
) -> tuple[r.FlatStatement, tuple[Seen, ...]]:
    """One comprehension of the def of `frame`, resolved, with its reads in the order of the text.

    `shaped` are the program's tensors whose extents are known before it. Whether it continues from
    something is for the caller to say. Raises CheckError.
    """
    signature = frame.signature
    for target in statement.targets:
        _check_target(target, statement, signature)
    names = {c.name.text: c.name.span for c in statement.where if isinstance(c, ast.Binding)}
    bindings = resolve_bindings(statement, NameScope(frame, defs, shaped, {}, names))
    scope = NameScope(frame, defs, shaped, bindings, {}, statement=statement)
    left = Findings()
    subscripts = _left_side(statement, scope, left)
    _check_companions(statement)
    outer, right = left.variables, Findings()
    values = tuple(resolve(value, scope, right) for value in statement.values)
    if bindings:
        for value, source in zip(values, statement.values, strict=True):
            check_height(height_in(value, scope), source.span)
    rest = _Clauses(statement, scope, tensors, {*outer, *right.variables})
    variables = dict(outer)
    for name, span in (*right.variables.items(), *rest.findings.variables.items()):
        variables.setdefault(name, span)
    if len(variables) > MAX_VARIABLES:
        raise CheckError(
            f"the statement has {len(variables)} index variables, and at most {MAX_VARIABLES} "
            "are supported",
            rule="N1",
            span=list(variables.values())[MAX_VARIABLES],
            repair="split the statement, by way of a temporary",
        )
    written = tuple(frame.tensors[target.name.text] for target in statement.targets)
    is_plain = all(isinstance(s, p.Index) for s in subscripts)
    reduces = len(variables) > len(outer) or not is_plain or rest.divides
    bounded = {*outer, *(clause.variable for clause in rest.where)}
    inside = (binding.value for binding in bindings.values())
    exprs = (*subscripts, *values, *rest.exists, *rest.conditions, *rest.bounds, *inside)
    loose = check_loose(variables, bounded, exprs, signature)
    _check_reduction(statement, signature, outer, variables, loose)
    places = (replace(read, in_subscript=True) for read in left.reads)
    others = (read for read in rest.findings.reads if read.in_subscript)
    _check_self_reads(statement, written, reduces, (*places, *right.reads, *others))
    _check_domain_reads(statement, written, rest.domain.reads)
    initialises = statement.op.endswith("!")
    op = statement.op.rstrip("!")[:-1] or "="
    resolved = r.FlatStatement(
        written[0],
        statement.target.text,
        subscripts,
        tuple(outer),
        variables,
        "=" if initialises and not reduces else op,
        initialises and reduces,
        "",
        values[0],
        tuple(rest.where),
        tuple(rest.exists),
        frozenset(read.tensor for read in right.reads),
        statement.span,
        frame.calls,
        tuple(rest.conditions),
        tuple(
            r.FlatCompanion(tensor, target.name.text, value)
            for tensor, target, value in zip(
                written[1:], statement.targets[1:], values[1:], strict=True
            )
        ),
        tuple(rest.sizes),
    )
    return resolved, (*left.reads, *rest.domain.reads, *right.reads)


class _Either:
    """What is in one container or another."""

    def __init__(self, one: Container[str], other: Container[str]) -> None:
        self.one, self.other = one, other

    def __contains__(self, name: object) -> bool:
        return name in self.one or name in self.other


def _subscripting(statement: ast.Comprehension) -> Iterator[str]:
    """The names in subscripts of what bounds of ranges and `exists` read."""
    exprs: list[ast.Expr] = []
    for clause in statement.where:
        if isinstance(clause, ast.RangeClause):
            exprs += (clause.begin, clause.end)
        elif isinstance(clause, ast.Exists):
            exprs.append(clause.read)
    for node in (node for expr in exprs for node in ast.walk(expr)):
        if isinstance(node, ast.Apply):
            inner = (n for arg in node.args for n in ast.walk(arg))
            yield from (n.text for n in inner if isinstance(n, ast.Name))


class _Clauses:
    """The clauses of a `where` but for its bindings, which are in scope; `domain` is what its
    conditions and bounds mention, `findings` what all clauses do, with bindings that are not used.
    """

    def __init__(
        self,
        statement: ast.Comprehension,
        scope: NameScope,
        tensors: Mapping[str, r.FlatTensor],
        used: set[str],
    ) -> None:
        self.findings, self.domain = Findings(), Findings()
        self.where: list[r.FlatRange] = []
        self.conditions: list[p.Expr] = []
        self.exists: list[p.Read] = []
        self.sizes: list[r.FlatSize] = []
        conditions: dict[int, p.Expr] = {}
        written = {scope.frame.tensors[name.text] for name in statement.written}
        sized = replace(scope, shaped=_Either(scope.shaped, written))  # T.0 of a target, too (S5)
        for clause in statement.where:
            if isinstance(clause, ast.Condition):
                conditions[id(clause)] = resolve(clause.test, sized, self.domain)
        ranged = (c.variable.text for c in statement.where if isinstance(c, ast.RangeClause))
        used = {*used, *self.domain.variables, *ranged, *_subscripting(statement)}
        firsts: dict[str, ast.RangeClause] = {}
        for clause in statement.where:
            match clause:
                case ast.RangeClause():
                    name = clause.variable.text
                    first = firsts.setdefault(name, clause)
                    found = resolve_range(clause, first, scope, tensors, used, self.domain)
                    self.where.append(found)
                    self.findings.variables.setdefault(name, clause.variable.span)
                case ast.Binding():
                    self.findings.take(scope.bindings[clause.name.text].findings)
                case ast.Exists():
                    self.exists.append(resolve_read(clause.read, scope, self.findings))
                case ast.Condition():
                    self.conditions.append(conditions[id(clause)])
                case ast.SizeClause():
                    self.sizes.append(_size(clause, statement, scope, tensors))
        for name, span in self.domain.variables.items():
            self.findings.variables.setdefault(name, span)
        check_order(self.where)

    @property
    def bounds(self) -> Iterator[p.Expr]:
        for clause in self.where:
            yield from (clause.begin, clause.end)

    @property
    def divides(self) -> bool:
        """Whether some points of the box of the variables may have no instance."""
        return bool(self.conditions) or any(
            isinstance(node, p.Index | p.Read) and not _is_scalar(node)
            for bound in self.bounds
            for node in walk_of(bound)
        )


def _is_scalar(node: p.Expr) -> bool:
    return isinstance(node, p.Read) and not node.subscripts


def _size(
    clause: ast.SizeClause,
    statement: ast.Comprehension,
    scope: NameScope,
    tensors: Mapping[str, r.FlatTensor],
) -> r.FlatSize:
    """A size clause, which says the size of a dimension of a target by a size expression (S4)."""
    name, text = clause.tensor.text, f"{clause.tensor.text}.{clause.axis}"
    if name not in [target.text for target in statement.written]:
        known, own = scope.frame.signature.is_tensor(name), statement.targets[0]
        raise CheckError(
            f"'{text} = ...' says the size of a target, and the statement writes "
            f"{listed([target.text for target in statement.written])}",
            rule="S4",
            span=clause.span,
            repair=f"{text} == {one_line(clause.value.span)}, for a condition" if known else None,
            paste=None if known else f"{own.name.text}.{clause.axis} = {clause.value.span.line}",
        )
    rank = scope.frame.signature.ranks[name]
    if clause.axis >= rank:
        raise CheckError(
            f"'{name}' has no dimension {clause.axis}: its rank is {rank}",
            rule="T2",
            span=clause.span,
            repair=f"dimensions are counted from 0: {name}.0"
            if rank
            else "remove the clause: a tensor of rank 0 is one number",
        )
    findings = Findings()
    value = resolve(clause.value, scope, findings)
    if findings.variables or any(tensors[read.tensor].rank for read in findings.reads):
        shown = next(iter((*findings.variables.values(), *(read.span for read in findings.reads))))
        raise CheckError(
            f"'{one_line(shown)}' is no size: the size of a dimension follows from sizes, T.0, "
            "integers and integer inputs of rank 0",
            rule="S4",
            span=shown,
            repair=f"{text} = N, with a size of a parameter",
        )
    check_integers(value, "a size", "")
    for read in findings.reads:
        check_integer(read.span, tensors[read.tensor], "sizes")
        if tensors[read.tensor].role != "input":
            number = one_line(read.span)
            raise CheckError(
                f"'{number}' is computed by the program, and the size of a dimension follows from "
                "sizes, T.0, integers and integer inputs of rank 0, which are known before it runs",
                rule="S4",
                span=read.span,
                repair=f"pass it as an input: int {number}",
            )
    return r.FlatSize(scope.frame.tensors[name], clause.axis, value, clause.span)


def _check_target(
    target: ast.Target, statement: ast.Comprehension, signature: DefSignature
) -> None:
    """Raise for a target that is an input, or is written with another rank than it has."""
    name = target.name.text
    if name in signature.params:
        raise CheckError(
            f"'{name}' is an input of '{signature.name}', and inputs are immutable",
            rule="N2",
            span=target.name.span,
            repair="write to another name, and return that",
            notes=((signature.params[name].span, "the input is declared here"),),
        )
    count = len(target.subscripts or ())
    rank = signature.ranks[name]
    if count == rank:
        return
    repair = f"write it with {counted(rank, 'index variable')}, as in {element(name, rank)}"
    annotation = signature.returns[name].type if name in signature.returns else None
    if annotation is not None:
        dims = ", ".join("NMKLPQ"[:count])
        declared = f"{annotation.spelling}({dims})" if dims else annotation.spelling
        repair += f", or declare the other rank: {declared}"
    is_alone = len(statement.targets) == 1
    edits = with_subscripts(statement, signature) if is_alone and not count else ()
    raise CheckError(
        f"'{name}' has rank {rank} and is written with {counted(count, 'index variable')}",
        rule="N1",
        span=target.name.span,
        repair=None if edits else repair,
        edits=edits,
        notes=((signature.ranked_at[name], f"'{name}' has rank {rank} here"),),
    )


def _check_companions(statement: ast.Comprehension) -> None:
    """Raise unless several targets are distinct and have the same subscripts (V1)."""
    first, *others = statement.targets
    seen = {first.name.text}
    for target in others:
        name = target.name.text
        if name in seen:
            raise CheckError(
                f"the statement writes '{name}' twice; each of its targets is a tensor of its own",
                rule="V1",
                span=target.name.span,
                repair="another name for one of them, or a statement of its own for each",
            )
        seen.add(name)
        if (target.subscripts or ()) != (first.subscripts or ()):
            subscripts = ", ".join(statement.index_texts)
            same = f"{name}({subscripts})" if subscripts else name
            chooses = statement.op.startswith(("min", "max"))
            raise CheckError(
                f"the targets of one statement have the same subscripts, and those of '{name}' "
                f"are not those of '{first.name.text}'",
                rule="V1",
                span=target.span,
                paste=same if chooses else None,
                repair=None if chooses else f"{same}; or a statement of its own for '{name}'",
            )


def _left_side(
    statement: ast.Comprehension, scope: NameScope, left: Findings
) -> tuple[p.Expr, ...]:
    """The subscripts of the left side; what they mention is added to `left` (S1)."""
    signature = scope.frame.signature
    subscripts: list[p.Expr] = []
    bare: set[str] = set()
    for index in statement.indices or ():
        if not isinstance(index, ast.Name):
            subscripts.append(resolve(index, scope, left))
            continue
        name = index.text
        if name in scope.bindings or _is_computed(name, signature):
            subscripts.append(resolve(index, scope, left))
            continue
        if name in bare:
            raise CheckError(
                f"the left side names '{name}' twice; each index stands there once",
                rule="N2",
                span=index.span,
                idiom=_diagonal(statement),
            )
        bare.add(name)
        if name in signature.sizes or signature.is_tensor(name):
            _check_name_on_left(statement, index, signature)
        subscripts.append(p.Index(name, span=index.span))
        left.variables.setdefault(name, index.span)
    return tuple(subscripts)


def _is_computed(name: str, signature: DefSignature) -> bool:
    """Whether a subscript is the name of a number that the def computes, and so a place; a
    parameter and a size are named on the left by mistake (N1)."""
    return name not in signature.params and signature.ranks.get(name) == 0


def _check_name_on_left(
    statement: ast.Comprehension, index: ast.Name, signature: DefSignature
) -> NoReturn:
    """Raise for a size or a tensor that stands alone as a subscript on the left (N1)."""
    kind = "a size" if index.text in signature.sizes else "a tensor"
    cause = (
        f"the left side lists index variables, and '{index.text}' is {kind} of '{signature.name}'"
    )
    if signature.ranks.get(index.text):
        new, edits = renamed_index(statement.span, index.text)
        place = signature.ranked_at[index.text]
        said = f"another name for the index variable, such as {new}"
        if _may_be_place(index.text, signature):  # of numpy's a[n] = ...
            read = element(index.text, signature.ranks[index.text])
            said, edits = f"{said}; or {read}, for the place that '{index.text}' holds", ()
        raise CheckError(
            cause,
            rule="N1",
            span=index.span,
            repair=said,
            edits=edits,
            notes=((place, f"'{index.text}' has rank {signature.ranks[index.text]} here"),),
        )
    raise CheckError(
        cause,
        rule="N1",
        span=index.span,
        idiom=f"o(i) = A(i), for every element; o({index.text} + 0) = ..., for that one",
    )


def _may_be_place(name: str, signature: DefSignature) -> bool:
    """Whether a name is that of a parameter of integers, which may hold places."""
    param = signature.params.get(name)
    dtype = None if param is None else SPELLINGS.get(param.type.spelling)
    return dtype is not None and dtype.is_integer


def _diagonal(statement: ast.Comprehension) -> str:
    """How the statement is written whose left side names its only index twice, to write a
    diagonal; of other statements, how it is in general."""
    target, names = statement.target.text, statement.index_texts
    value, row, column = "A(i)", "i", "j"
    if len(names) == 2 and statement.op == "=" and not statement.where:
        row = names[0]
        column = "j" if row != "j" else "k"
        value = one_line(statement.rhs.span)
    else:
        target = "o"
    everywhere = f"{target}({row}, {column}) = {row} == {column} ? {value} : 0"
    return (
        f"{target}({row}, {row} + 0) = {value}, for a diagonal alone; {everywhere} "
        f"where {column} in 0:N, for zeros beside it"
    )


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
    statement: ast.Comprehension, targets: Sequence[str], reduces: bool, reads: Iterable[Seen]
) -> None:
    """Raise for self-reads that are wrong whatever the sizes (P1)."""
    for read in reads:
        if read.tensor not in targets:
            continue
        written = statement.targets[targets.index(read.tensor)]
        name = written.name.text
        if read.in_subscript:
            cause = f"a subscript reads '{name}', which this statement writes"
            raise _self_read(written, read, "P1", cause, "in the subscript")
        if reduces and statement.op.endswith("!"):
            cause = f"'{statement.op}' first overwrites '{name}' with the identity, and then the "
            cause += "right-hand side reads it"
            raise _self_read(written, read, "P1", cause, "here")


def _check_domain_reads(
    statement: ast.Comprehension, targets: Sequence[str], reads: Iterable[Seen]
) -> None:
    """Raise for a condition or a bound that reads a target of the statement (W5)."""
    for read in reads:
        if read.tensor in targets:
            written = statement.targets[targets.index(read.tensor)]
            cause = f"the 'where' reads '{written.name.text}', which this statement writes"
            raise _self_read(written, read, "W5", cause, "here")


def _self_read(written: ast.Target, read: Seen, rule: str, cause: str, where: str) -> CheckError:
    """The error for a read of what is written; its values of before are read `where` it stands."""
    name, rank = written.name.text, len(written.subscripts or ())
    old = unused(f"{name}_old", read.span)
    return CheckError(
        cause,
        rule=rule,
        span=read.span,
        idiom=f"to read what '{name}' held before: {element(old, rank)} = "
        f"{element(name, rank)}, before this statement, and {old} {where}",
    )
