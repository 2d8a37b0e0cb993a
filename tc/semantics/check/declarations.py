"""The names that each def declares, and the defs in an order in which callees come first.

A def has sizes, tensors (parameters, returns, and temporaries: the other names on the left of a
statement, N3) and index variables, which are all other names in its statements (N1).

The type of a return may name a size that no parameter has where the def goes on from what the
output holds, or writes a part of it: the array that the caller passes says the size (T4). Errors
about other such returns come with repairs: an output whose index ranges follow from other tensors
needs no shape; one whose size is an input needs a `where` with the size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from tc import builtins
from tc.errors import CheckError
from tc.frontend import ast
from tc.semantics.check.foreign_functions import is_foreign
from tc.semantics.program import ProgramWarning
from tc.semantics.suggest import before, indices, one_line
from tc.source import Edit, Span
from tc.wording import listed, nearest


def unknown_size(
    definition: ast.Def, dim: ast.Name, result: ast.Return, sizes: Mapping[str, Span]
) -> CheckError:
    """The error for a size in the type of a return that no parameter has."""
    known = f"the sizes of the parameters are {listed(list(sizes))}" if sizes else "there is none"
    cause = (
        f"'{dim.text}' in the type of the return '{result.name.text}' is not the size of any "
        f"parameter; {known}"
    )
    unsized = {r.name.text: r for r in definition.returns if _unknown(r, sizes)}
    edits, written, missing = [], list[str](), dict[str, None]()
    for name, found in unsized.items():
        edits.append(Edit(found.span, name))
        text, edit = _fixing(definition, found, unsized)
        if edit is not None:
            edits.append(edit)
            written.append(text)
            missing.update(dict.fromkeys(_unknown(found, sizes)))
    name = result.name.text
    rank = len(result.type.dims or ()) if result.type else 0
    if not missing:
        repair = (
            f"-> ({name}), whose shape is then inferred from {name}({', '.join(indices(rank))})"
        )
        return CheckError(cause, rule="T4", span=dim.span, repair=repair, edits=tuple(edits))
    taken = {param.name.text for param in definition.params}
    inputs = ", ".join(f"int {size}" for size in missing if size not in taken)
    if inputs:
        edits.append(as_inputs(definition, inputs))
    repair = (
        f"{inputs or ', '.join(missing)} as input, -> ({', '.join(unsized)}), and "
        f"{' and '.join(dict.fromkeys(written))}, for the shape of {listed(list(unsized))}"
    )
    return CheckError(cause, rule="T4", span=dim.span, repair=repair, edits=tuple(edits))


def _is_passed(definition: ast.Def, name: str) -> bool:
    """Whether a def goes on from what an output holds, or writes a part of it: then a caller passes
    an array, whose shape may say sizes (T4)."""
    for statement in definition.body:
        if not isinstance(statement, ast.Comprehension):
            if any(name in _names_in(arg) for arg in statement.args):
                return True
            continue
        if any(name in _names_in(value) for value in statement.values):
            return True
        if name in {target.text for target in statement.written}:
            goes_on = statement.op.endswith("=") and statement.op != "="
            return goes_on or _writes_a_part(statement)
    return False


def _names_in(expr: ast.Expr) -> set[str]:
    return {node.name.text for node in ast.walk(expr) if isinstance(node, ast.Apply)} | {
        node.text for node in ast.walk(expr) if isinstance(node, ast.Name)
    }


def _writes_a_part(statement: ast.Comprehension) -> bool:
    """Whether a statement is seen to write some elements of its targets alone: at places that are
    computed, under conditions, or in ranges of its `where`."""
    indices = statement.indices or ()
    ranged = {c.variable.text for c in statement.where if isinstance(c, ast.RangeClause)}
    computed = any(not isinstance(index, ast.Name) for index in indices)
    is_domain = any(isinstance(c, ast.Condition) for c in statement.where)
    return computed or is_domain or not ranged.isdisjoint(statement.index_texts)


def _unknown(result: ast.Return, sizes: Mapping[str, Span]) -> tuple[str, ...]:
    dims = (result.type.dims or ()) if result.type else ()
    return tuple(d.text for d in dims if isinstance(d, ast.Name) and d.text not in sizes)


def as_inputs(definition: ast.Def, inputs: str) -> Edit:
    """The insertion of declarations behind the parameters of a def."""
    source = definition.span.source
    if definition.params:
        end = definition.params[-1].span.end
        return Edit(Span(source, end, end), f", {inputs}")
    at = source.text.index("(", definition.name.span.end) + 1
    return Edit(Span(source, at, at), inputs)


def _fixing(
    definition: ast.Def, result: ast.Return, unsized: Mapping[str, ast.Return]
) -> tuple[str, Edit | None]:
    """A repair that fixes the shape of an output without its type, as text and edit: `where` ranges
    for a statement that nothing bounds, or, where the first statement writes a part of a tensor
    that the caller passes, a statement that keeps this tensor."""
    dims = [dim.span.line for dim in (result.type.dims or ())] if result.type else []
    first = next(
        (
            s
            for s in definition.body
            if isinstance(s, ast.Comprehension)
            and s.target.text == result.name.text
            and all(isinstance(index, ast.Name) for index in s.indices or ())
        ),
        None,
    )
    if first is None or len(first.indices or ()) != len(dims):
        return "", None
    sizes = dict(zip(first.index_texts, dims, strict=True))
    given = {c.variable.text: c for c in first.where if isinstance(c, ast.RangeClause)}
    if any(_is_part(given[name], size) for name, size in sizes.items() if name in given):
        left = f"{result.name.text}({', '.join(sizes)})"
        text = f"{left} = {left} where {_clauses(sizes)}"
        return text, before(definition.body[0].span, text)
    targets = {
        name.text for s in definition.body if isinstance(s, ast.Comprehension) for name in s.written
    }
    tensors = {*targets, *(param.name.text for param in definition.params)} - set(unsized)
    bounded = {*given, *_subscripts(first, tensors)}
    text = _clauses({name: size for name, size in sizes.items() if name not in bounded})
    if not text:
        return "", None
    source = first.span.source
    if first.where:
        end = first.where[-1].span.end
        return text, Edit(Span(source, end, end), f", {text}")
    if first.annotation is not None:
        end = first.annotation.span.start
        return f"where {text}", Edit(Span(source, end, end), f"where {text} ")
    end = first.span.end
    return f"where {text}", Edit(Span(source, end, end), f" where {text}")


def _clauses(sizes: Mapping[str, str]) -> str:
    return ", ".join(f"{name} in 0:{size}" for name, size in sizes.items())


def _is_part(clause: ast.RangeClause, size: str) -> bool:
    """Whether a range is not that of the whole dimension."""
    return (clause.begin.span.line, clause.end.span.line) != ("0", size)


def _subscripts(statement: ast.Comprehension, tensors: set[str]) -> set[str]:
    """The names in the subscripts of these tensors."""
    found: set[str] = set()
    parts: Iterable[ast.Expr] = (
        *statement.values,
        *(c.read for c in statement.where if isinstance(c, ast.Exists)),
        *(c.value for c in statement.where if isinstance(c, ast.Binding)),
    )
    for part in parts:
        for node in ast.walk(part):
            if isinstance(node, ast.Apply) and node.name.text in tensors:
                inner = (n for arg in node.args for n in ast.walk(arg))
                found |= {n.text for n in inner if isinstance(n, ast.Name)}
    return found


CONCAT = "concat"
MIN_MAX = ("min", "max")
PAD = "pad"
MAX_STATEMENTS = 10_000
MAX_CALL_DEPTH = 50
MAX_JOINED = 100

_Named = TypeVar("_Named", ast.Def, ast.Param, ast.Return)


@dataclass(frozen=True, slots=True)
class DefSignature:
    """A def with the names that it declares.

    `ranks` holds the rank of every tensor whose rank the text gives, and `ranked_at` the place in
    the text. `statements` and `depth` count the statements, and the nested calls, of the def with
    its calls inlined.
    """

    definition: ast.Def
    params: Mapping[str, ast.Param]
    returns: Mapping[str, ast.Return]
    temporaries: Mapping[str, Span]
    sizes: Mapping[str, Span]
    steps: tuple[ast.Statement, ...]
    warnings: tuple[ProgramWarning, ...]
    ranks: Mapping[str, int]
    ranked_at: Mapping[str, Span]
    statements: int = 0
    depth: int = 0

    @property
    def name(self) -> str:
        return self.definition.name.text

    def is_tensor(self, name: str) -> bool:
        return name in self.params or name in self.returns or name in self.temporaries

    def tensors(self) -> tuple[str, ...]:
        return (*self.params, *self.returns, *self.temporaries)


def signatures(module: ast.Module) -> dict[str, DefSignature]:
    """The signature of every def, callees before the defs that call them.

    Raises CheckError: two defs, parameters or returns of one name (N2), a size that no parameter
    has (T4), recursion or too many inlined statements (N4).
    """
    defs = _by_name(module.defs, "there are two defs")
    declared = {name: _declare(definition, defs) for name, definition in defs.items()}
    ordered: dict[str, DefSignature] = {}
    for name in _callees_first(declared):
        ordered[name] = _complete(declared[name], ordered)
    return ordered


def _declare(definition: ast.Def, defs: Mapping[str, ast.Def]) -> DefSignature:
    params = _by_name(definition.params, "two parameters are")
    sizes: dict[str, Span] = {}
    for param in params.values():
        for dim in param.type.dims or ():
            if isinstance(dim, ast.Name):
                sizes.setdefault(dim.text, dim.span)
    returns = _by_name(definition.returns, "two returns are")
    of_results: dict[str, Span] = {}
    for result in returns.values():
        if result.name.text in params:
            raise CheckError(
                f"'{result.name.text}' is a parameter and a return of '{definition.name.text}', "
                "and inputs are immutable",
                rule="N2",
                span=result.name.span,
                repair=f"remove the parameter: a return that is read before it is written, "
                f"like '{result.name.text}', has its contents from the caller's outputs=",
                notes=((params[result.name.text].name.span, "the parameter is here"),),
            )
        for dim in (result.type.dims or ()) if result.type else ():
            if isinstance(dim, ast.Name) and dim.text not in sizes:
                if dim.text in params or not _is_passed(definition, result.name.text):
                    raise unknown_size(definition, dim, result, sizes)
                of_results.setdefault(dim.text, dim.span)
    sizes |= of_results
    temporaries: dict[str, Span] = {}
    for statement in definition.body:
        for target in statement.written:
            if target.text not in params and target.text not in returns:
                temporaries.setdefault(target.text, target.span)
    tensors = {*params, *returns, *temporaries}
    return DefSignature(
        definition,
        params,
        returns,
        temporaries,
        sizes,
        tuple(_step(statement, tensors, defs) for statement in definition.body),
        tuple(_clashes(definition, params, returns, temporaries, sizes)),
        {},
        {},
    )


def _step(
    statement: ast.Statement, tensors: set[str], defs: Mapping[str, ast.Def]
) -> ast.Statement:
    """The statement, as a call if it is one: `O1 = MLP1(I, W)` is parsed as a comprehension."""
    if isinstance(statement, ast.CallStatement) or statement.indices is not None:
        return statement
    if len(statement.targets) > 1:
        return statement
    rhs = statement.rhs
    if not isinstance(rhs, ast.Apply) or rhs.name.text in tensors:
        return statement
    callee = rhs.name.text
    call = ast.CallStatement((statement.target,), rhs.name, rhs.args, span=statement.span)
    if callee not in defs and callee != CONCAT:
        return call if _is_misspelt_call(rhs, tensors, defs) else statement
    if statement.op != "=":
        raise CheckError(
            f"the call of '{callee}' gives whole tensors and cannot be reduced with "
            f"'{statement.op}'",
            rule="N4",
            span=statement.op_span,
            idiom=f"t = {one_line(rhs.span)}, and then "
            f"{statement.target.text}(i) {statement.op} t(i)",
        )
    if statement.where:
        raise CheckError(
            f"a call of '{callee}' takes no where clause",
            rule="N4",
            span=statement.where[0].span,
            idiom=f"t = {one_line(rhs.span)}, and then o(i) = t(i) where i in 0:2, for a part",
        )
    return call


def _is_misspelt_call(rhs: ast.Apply, tensors: set[str], defs: Mapping[str, ast.Def]) -> bool:
    """Whether an unknown name is given tensors by name, as the defs of a text are."""
    name = rhs.name.text
    functions = (*builtins.FUNCTIONS, *builtins.ALIASES, *builtins.REINTERPRETED, *MIN_MAX, PAD)
    if name in functions or is_foreign(name) or len(defs) < 2 or not rhs.args:
        return False
    if not all(isinstance(arg, ast.Name) and arg.text in tensors for arg in rhs.args):
        return False
    return nearest(name, (*tensors, *functions)) is None or nearest(name, defs) is not None


def _clashes(
    definition: ast.Def,
    params: Mapping[str, ast.Param],
    returns: Mapping[str, ast.Return],
    temporaries: Mapping[str, Span],
    sizes: Mapping[str, Span],
) -> Iterator[ProgramWarning]:
    """A warning per name that is a size and a tensor, which N1 allows."""
    both: Iterable[ast.Param | ast.Return] = (*params.values(), *returns.values())
    places = {**{node.name.text: node.name.span for node in both}, **temporaries}
    for name, span in places.items():
        if name in sizes:
            yield ProgramWarning(
                "N1",
                f"'{name}' is a size and a tensor of '{definition.name.text}': '{name}(...)' and "
                f"'{name}.0' mean the tensor, '{name}' alone means the size",
                span=span,
                repair=f"rename the size or the tensor '{name}'",
            )


def _callees_first(declared: Mapping[str, DefSignature]) -> Iterator[str]:
    """The names of the defs, each def after the defs that it calls; raises for a cycle."""
    done: set[str] = set()
    for start in declared:
        if start in done:
            continue
        path: dict[str, Iterator[ast.CallStatement]] = {start: _calls(declared, start)}
        while path:
            name = next(reversed(path))
            call = next(path[name], None)
            if call is None:
                del path[name]
                done.add(name)
                yield name
            elif call.callee.text in path:
                raise _recursion(call, list(path))
            elif call.callee.text not in done:
                path[call.callee.text] = _calls(declared, call.callee.text)


def _calls(declared: Mapping[str, DefSignature], name: str) -> Iterator[ast.CallStatement]:
    for step in declared[name].steps:
        if isinstance(step, ast.CallStatement) and step.callee.text in declared:
            yield step


def _complete(signature: DefSignature, callees: Mapping[str, DefSignature]) -> DefSignature:
    """The signature with the ranks of its tensors and its count of inlined statements."""
    ranks: dict[str, int] = {}
    places: dict[str, Span] = {}
    both: Iterable[ast.Param | ast.Return]
    both = (*signature.params.values(), *signature.returns.values())
    for node in both:
        if node.type is not None:
            ranks[node.name.text], places[node.name.text] = len(node.type.dims or ()), node.span
    count, depth = 0, 0
    unranked: list[ast.CallStatement] = []
    for step in signature.steps:
        if isinstance(step, ast.Comprehension):
            count += 1
            for each in step.targets:
                ranks.setdefault(each.name.text, len(each.subscripts or ()))
                places.setdefault(each.name.text, each.name.span)
        elif step.callee.text in callees:
            callee = callees[step.callee.text]
            count += callee.statements
            depth = max(depth, 1 + callee.depth)
            for target, result_name in zip(step.targets, callee.returns, strict=False):
                if result_name in callee.ranks:
                    ranks.setdefault(target.text, callee.ranks[result_name])
                    places.setdefault(target.text, step.span)
        else:
            count += len(step.args)
            if not _take_concat_rank(step, ranks, places):
                unranked.append(step)
        if count > MAX_STATEMENTS or depth > MAX_CALL_DEPTH:
            raise _too_many(signature, step.span)
    for step in unranked:
        _take_concat_rank(step, ranks, places)
    return replace(signature, ranks=ranks, ranked_at=places, statements=count, depth=depth)


def _take_concat_rank(
    step: ast.CallStatement, ranks: dict[str, int], places: dict[str, Span]
) -> bool:
    """Take the rank of concat's target from its first argument, where that is known."""
    first = step.args[0] if step.args else None
    if not isinstance(first, ast.Name) or first.text not in ranks:
        return False
    for target in step.targets:
        ranks.setdefault(target.text, ranks[first.text])
        places.setdefault(target.text, step.span)
    return True


def _by_name(nodes: Iterable[_Named], two_are: str) -> dict[str, _Named]:
    """Defs, parameters or returns by their names, which must differ (N2)."""
    found: dict[str, _Named] = {}
    for node in nodes:
        first = found.setdefault(node.name.text, node)
        if first is not node:
            raise CheckError(
                f"{two_are} named '{node.name.text}'",
                rule="N2",
                span=node.name.span,
                repair="give each a name of its own",
                notes=((first.name.span, "the first one is here"),),
            )
    return found


def _recursion(call: ast.CallStatement, path: list[str]) -> CheckError:
    cycle = path[path.index(call.callee.text) :]
    if len(cycle) == 1:
        cause = f"'{call.callee.text}' calls itself; calls are inlined, so recursion never ends"
    else:
        shown = cycle if len(cycle) <= 6 else [*cycle[:3], "...", *cycle[-2:]]
        names = " calls ".join(f"'{name}'" for name in [*shown, cycle[0]])
        cause = f"{names}; calls are inlined, so recursion never ends"
    return CheckError(
        cause,
        rule="N4",
        span=call.span,
        repair="write the statements that one step needs in place of this call",
    )


def _too_many(signature: DefSignature, span: Span) -> CheckError:
    calls = any(isinstance(step, ast.CallStatement) for step in signature.steps)
    if not calls:
        return CheckError(
            f"'{signature.name}' has more than {MAX_STATEMENTS} statements",
            rule="N4",
            span=span,
            repair="divide it into several defs, which the host language calls",
        )
    return CheckError(
        f"inlining the calls of '{signature.name}' gives more than {MAX_STATEMENTS} statements "
        f"or goes more than {MAX_CALL_DEPTH} calls deep",
        rule="N4",
        span=span,
        repair="call fewer defs from this one, and the rest from the host language",
    )
