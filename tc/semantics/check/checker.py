"""Check a text: from the syntax tree to Programs with names, types and calls settled (N, Y, R)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count

from tc.dtypes import BOOL, DType, Type, Weak, is_lossy_mix, join
from tc.errors import CheckError, InputError
from tc.frontend import ast
from tc.frontend.parser import parse
from tc.semantics import program as p
from tc.semantics.check.calls import flatten, with_calls
from tc.semantics.check.declarations import signatures
from tc.semantics.check.generic import (
    check_variables,
    combinations,
    entry_of,
    is_generic,
    told_of_types,
    types_needed,
    written_out,
)
from tc.semantics.check.name_errors import misspelt_index, products_meant
from tc.semantics.resolved import Definition, Flat, FlatRange, FlatStatement, FlatTensor
from tc.semantics.suggest import one_line
from tc.semantics.types.bits import check_reduction
from tc.semantics.types.conversions import (
    INDEX,
    VALUE,
    LoweringContext,
    condition,
    is_affine_form,
    lower_index,
    lower_read,
    lower_to,
    warn_of_negation,
)
from tc.semantics.types.type_inference import infer_types, term_type
from tc.source import Edit, Span, within
from tc.wording import listed, nearest


def check(module: ast.Module, entry: str | None = None) -> p.Program:
    """The checked program of one def of a text; every def of the text is checked (N2).

    `entry` may be left out where the text has one def. Raises CheckError for what is wrong in
    the text, and InputError for an `entry` that is missing, unknown or no name (N4).

    >>> from tc.frontend.parser import parse
    >>> from tc.source import Source
    >>> program = check(parse(Source("def f(float(N) A) -> (o) { o +=! A(i) * 2 }")))
    >>> program.statements[0].reduction, str(program.tensors["o"].dtype)
    (('i',), 'float32')
    """
    programs = check_all(module)
    if (generic := entry_of(module, entry)) is not None:
        raise types_needed(generic)
    if entry is None:
        if len(programs) > 1:
            raise InputError(
                f"the text has {len(programs)} defs, {listed([*programs])}, and no entry is given",
                rule="N4",
                repair=f"entry={list(programs)[-1]!r}",
            )
        entry = next(iter(programs))
    if not isinstance(entry, str):
        raise InputError(
            f"entry= is the name of a def, and not of type {type(entry).__name__}; "
            f"the text has {listed([*programs])}",
            rule="N4",
            repair=f"entry={list(programs)[-1]!r}",
        )
    if entry not in programs:
        near = nearest(entry, programs) or (next(iter(programs)) if len(programs) == 1 else None)
        raise InputError(
            f"the text has no def '{entry}'; it has {listed([*programs])}",
            rule="N4",
            repair=f"entry={near!r}" if near else None,
        )
    return programs[entry]


def check_all(module: ast.Module) -> Mapping[str, p.Program]:
    """The checked programs of all defs of a text by name, in text order.

    Raises CheckError with rule, place and repair for the first error found; a def is checked
    before those that call it. Those with type variables are checked for all types of their
    bounds, and are not among the programs, but for what others call (T6).
    """
    if is_generic(module):
        return _check_generic(module)
    known = signatures(module)
    spans = {definition.name.text: definition.span for definition in module.defs}
    programs = {}
    for name, signature in known.items():
        flat = flatten(signature, known)
        programs[name] = _program(name, spans[name], flat)
    return {definition.name.text: programs[definition.name.text] for definition in module.defs}


def _check_generic(module: ast.Module) -> Mapping[str, p.Program]:
    for definition in module.defs:
        check_variables(definition)
    for definition in module.defs:
        for types in combinations(definition) if definition.variables else ():
            source = written_out(module, definition.name.text, types)
            with told_of_types(types):
                check_all(parse(source))
    if all(definition.variables for definition in module.defs):
        return {}
    return check_all(parse(written_out(module)))


def _program(name: str, span: Span, flat: Flat) -> p.Program:
    types = infer_types(flat)
    scalars = frozenset(
        name
        for name in flat.inputs
        if not flat.tensors[name].rank and types.tensors[name].is_integer
    )
    found = (flat.tensors[name] for name in (*flat.inputs, *flat.outputs, *flat.temporaries))
    tensors = {
        t.name: p.Tensor(
            t.name, types.tensors[t.name], t.rank, t.role, t.shape, span=t.span, default=t.default
        )
        for t in found
    }
    static: set[str] = set()
    warnings = [*flat.warnings, *_products(flat), *_misspelt(flat)]
    sites = count()
    statements = tuple(
        _statement(
            f"S{position}",
            statement,
            flat.tensors,
            LoweringContext(types.tensors, types.nodes[position], scalars, sites, static, warnings),
        )
        for position, statement in enumerate(flat.statements)
    )
    return p.Program(
        name,
        span.source,
        tensors,
        flat.inputs,
        flat.outputs,
        flat.temporaries,
        flat.sizes,
        flat.equalities,
        statements,
        flat.needs_initial,
        p.distinct(warnings),
        frozenset(static),
        span,
    )


def _products(flat: Flat) -> Iterator[p.ProgramWarning]:
    """A warning per index variable that was probably meant as a product (T1)."""
    known = {*flat.sizes, *(name for name in flat.inputs if not flat.tensors[name].rank)}
    for statement in flat.statements:
        for name, product in products_meant(statement, known):
            yield p.ProgramWarning(
                "T1",
                f"'{name}' is a name, since names may begin with digits: an index variable over "
                "which the statement reduces",
                span=statement.variables[name],
                repair=product,
            )


def _misspelt(flat: Flat) -> Iterator[p.ProgramWarning]:
    """A warning for each index variable that is probably a slip for another variable (R1)."""
    for statement in flat.statements:
        for name, other in misspelt_index(statement, flat.tensors):
            yield p.ProgramWarning(
                "R1",
                f"'{name}' stands once, beside '{other}' with a dimension of the same size: the "
                f"statement reduces over it by itself, over all pairs of '{name}' and '{other}'",
                span=statement.variables[name],
                repair=f"{other} for {name}, if one index is meant; otherwise a name that is less "
                f"like '{other}'",
            )


def _statement(
    name: str, statement: FlatStatement, tensors: Mapping[str, FlatTensor], cx: LoweringContext
) -> p.Statement:
    """The typed statement; an error in a statement of an inlined def has notes that name the
    calls."""
    try:
        return _typed(name, statement, tensors, cx)
    except CheckError as error:
        if not statement.calls:
            raise
        raise with_calls(error, statement.calls) from None


def _typed(
    name: str, statement: FlatStatement, tensors: Mapping[str, FlatTensor], cx: LoweringContext
) -> p.Statement:
    for test in statement.conditions:
        if isinstance(test, p.Index):
            cx.warn(
                "W1",
                f"'{test.name}' alone is a condition: there is no instance with {test.name} = 0",
                test.span,
                f"{test.name} in 0:2, for a range; {test.name} != 0, for the condition",
            )
    values = [_value(each, statement, tensors[each.target], cx) for each in statement.definitions]
    where = tuple(_range(clause, cx) for clause in statement.where)
    return p.Statement(
        name,
        statement.target,
        tuple(lower_index(s, INDEX, cx, "the subscript") for s in statement.subscripts),
        statement.outer,
        tuple(statement.variables),
        statement.op,
        statement.init,
        statement.continues,
        values[0],
        where,
        tuple(lower_read(read, INDEX, cx) for read in statement.exists),
        span=statement.span,
        variable_spans=statement.variables,
        conditions=tuple(condition(test, VALUE, cx) for test in statement.conditions),
        companions=tuple(
            p.Companion(companion.target, value, companion.continues)
            for companion, value in zip(statement.companions, values[1:], strict=True)
        ),
        sizes=tuple(
            p.SizeClause(
                clause.target,
                clause.axis,
                lower_index(clause.value, INDEX, cx, "the size"),
                span=clause.span,
            )
            for clause in statement.sizes
        ),
    )


def _range(clause: FlatRange, cx: LoweringContext) -> p.WhereRange:
    """The range of a `where`, of the kind that its bounds have."""
    bounds = (clause.begin, clause.end)
    begin, end = (lower_index(bound, INDEX, cx, "the bound") for bound in bounds)
    nodes = [node for bound in (begin, end) for node in p.walk(bound)]
    reads = {node.tensor for node in nodes if isinstance(node, p.Read)}
    kind = p.DATA
    if reads <= cx.scalars and not any(isinstance(node, p.Index) for node in nodes):
        kind = p.SIZES
    elif all(is_affine_form(bound, cx.scalars) for bound in bounds):
        kind = p.AFFINE
    return p.WhereRange(clause.variable, begin, end, kind, span=clause.span)


def _value(
    definition: Definition, statement: FlatStatement, target: FlatTensor, cx: LoweringContext
) -> p.Expr:
    """The value that a statement gives one of its targets, in the type that this computes in."""
    op, value = definition.op, definition.rhs
    dtype = cx.tensors[target.name]
    term = term_type(op, cx.type(value))
    assert term is not None
    if dtype.is_read_as_float32 and op != "=":
        raise _stored_reduction(statement, dtype)
    if target.declared is not None:
        _check_declared(statement, definition, target, term, cx)
    if is_lossy_mix(dtype, term):
        cx.warn(
            "Y2",
            f"'{definition.target_text}' is {dtype}, which does not hold all values of "
            "uint64 that this statement gives",
            statement.span,
            f"cast the values: {dtype}({one_line(value.span, 'x')})",
        )
    check_reduction(op, cx.type(value), dtype, value.span)
    warn_of_negation(value, cx)
    try:
        return lower_to(value, dtype, VALUE, cx)
    except CheckError as error:
        if error.rule != "Y1" or error.span != value.span or target.declared_at is None:
            raise
        raise CheckError(  # a wider literal would not go into the declared type
            error.cause,
            rule="Y1",
            span=error.span,
            paste=f"{dtype}({one_line(value.span, 'x')})",
            notes=((target.declared_at, f"{dtype} is declared here"),),
        ) from None


def _stored_reduction(statement: FlatStatement, dtype: DType) -> CheckError:
    """The error about a reduction into a tensor of a type that is only stored (Y8)."""
    name, text = statement.target_text, one_line(statement.span, f"{statement.op}= ...")
    operator = f"{statement.op}={'!' if statement.init else ''}"
    left = text.partition(f"{statement.op}=")[0].strip()
    indices = left[len(name) :] if left.startswith(name) else ""
    return CheckError(
        f"'{name}' is {dtype}, which is only stored: '{statement.op}=' computes in float32, and "
        "gives no such element",
        rule="Y8",
        span=statement.span,
        idiom=f"t{indices} {operator} ..., and after it {left} = {dtype}(t{indices})",
    )


def _check_declared(
    statement: FlatStatement,
    definition: Definition,
    target: FlatTensor,
    term: Type,
    cx: LoweringContext,
) -> None:
    """Raise where a wider type would go into a declared narrower one (Y3)."""
    declared, rhs = target.declared, definition.rhs
    assert declared is not None
    if join(declared, term) == declared:
        return
    assert target.declared_at is not None
    text = one_line(rhs.span, "x")
    weak: dict[Type, str] = {
        Weak.LITERAL: "a whole literal",
        Weak.SIZE: "a size or index variable, which is never narrower than int32",
        Weak.FLOAT: "a floating value",
    }
    what = weak.get(term, str(term))
    cause = (
        f"'{definition.target_text}' is declared as {declared}, and this statement gives it {what}"
    )
    edit = Edit(rhs.span, f"{declared}({text})")
    edits: tuple[Edit, ...] = (edit,)
    if declared == BOOL and definition.op in ("+", "*"):
        cause += "; the terms of += and *= are arithmetic"
        span = statement.span
        start = span.source.text.rindex(f"{definition.op}=", span.start, rhs.span.start)
        operator = Edit(
            Span(span.source, start, start + len(definition.op)),
            "max" if definition.op == "+" else "min",
        )
        edits = within(statement.span, (operator, edit))
    elif declared != BOOL and cx.type(rhs) == BOOL:
        cause += " (bool counts as int32 where it meets another type)"
    raise CheckError(
        cause + "; a wider type needs a cast",
        rule="Y3",
        span=rhs.span,
        edits=edits,
        notes=((target.declared_at, f"{declared} is declared here"),),
    )
