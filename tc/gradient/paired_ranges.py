"""Statements beside those of the program, with the same ranges (D18). Ranges are the same by
construction: such a statement has the same reads as a statement of the program, or a clause for
each read that it lacks. No size has to be known for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tc.gradient import terms as e
from tc.gradient.call_free_def import CallFreeDef, is_spelled
from tc.gradient.def_text import Comprehension, ExprBounds, reads_of
from tc.gradient.tangents import accesses
from tc.semantics import program as p


@dataclass(frozen=True, slots=True)
class PairedRanges:
    """Makes statements that have the ranges of statements of a program. `names` are the tangents of
    tensors, which have the shapes of these tensors."""

    program: CallFreeDef
    names: Mapping[str, str]
    several: frozenset[str]
    """The tensors that several statements write."""

    def ranged(self, line: Comprehension, made: Comprehension) -> Comprehension:
        """The statement `made` with the ranges of `line`, a statement of the program."""
        where, exists = {**line.where, **made.where}, [*line.exists, *made.exists]
        read = accesses(made.rhs, self.names)
        bare: set[tuple[p.Expr, p.Expr]] = set()
        bare |= {(self._extent(t, axis), s) for t, axis, s in read if isinstance(s, p.Index)}
        for access in reads_of(line.rhs):
            open_variables = self._open_variables(line, access, read, bare)
            if not open_variables:
                continue
            plain = self._plain_ranges(line, open_variables)
            if plain is None:
                exists.append(_for_ranges(access))
                read |= accesses(exists[-1], {})
            else:
                where |= plain
        made = replace(made, where=where, exists=tuple(dict.fromkeys(exists)))
        for variable in line.variables:
            if variable not in made.variables:
                of_it = (r for r in reads_of(line.rhs) if variable in p.index_names(r))
                made = replace(made, exists=(*made.exists, next(of_it)))
        return made

    def _open_variables(
        self,
        line: Comprehension,
        access: p.Read,
        read: set[tuple[str, int, p.Expr]],
        bare: set[tuple[p.Expr, p.Expr]],
    ) -> list[str]:
        """The variables that a read may bound, if the new statement has no read that bounds them in
        the same way."""
        found: list[str] = []
        for axis, subscript in enumerate(access.subscripts):
            is_bare = isinstance(subscript, p.Index)
            if access.bare_only and not is_bare:
                continue
            if any(r.subscripts for r in reads_of(subscript)):
                continue
            if (access.tensor, axis, subscript) in read:
                continue
            if is_bare and (self._extent(access.tensor, axis), subscript) in bare:
                continue
            found += [v for v in p.index_names(subscript) if v not in line.where]
        return list(dict.fromkeys(found))

    def _extent(self, tensor: str, axis: int) -> p.Expr:
        return self.program.extent(tensor, axis)

    def _plain_ranges(
        self, line: Comprehension, variables: list[str]
    ) -> dict[str, ExprBounds] | None:
        """The ranges of variables that all reads bound by one extent; None where a read or the
        target bounds one of them in another way."""
        found: dict[str, ExprBounds] = {}
        for variable in variables:
            extent = self.program.only_extent(line, variable)
            if extent is None or not is_spelled((extent,)):
                return None
            if variable in line.indices and line.target in self.several:
                return None
            found[variable] = (e.ZERO, extent)
        return found


def is_bounded(line: Comprehension, variable: str) -> bool:
    """Whether a clause, or a subscript that is a sum, gives a variable its range."""
    if variable in line.where:
        return True
    reads = (read for expr in (line.rhs, *line.exists) for read in reads_of(expr))
    return any(
        variable in p.index_names(subscript) and _is_sum(subscript)
        for read in reads
        for subscript in read.subscripts
        if not read.bare_only or isinstance(subscript, p.Index)
    )


def _is_sum(expr: p.Expr) -> bool:
    """Whether an expression is a sum of indices, with whole factors, and of sizes."""
    match expr:
        case p.Index() | p.Literal() | p.Size() | p.Extent():
            return True
        case p.Unary(operand=operand) | p.Convert(operand=operand):
            return _is_sum(operand)
        case p.Binary(op=op, left=left, right=right) if op in "+-*":
            is_one = op != "*" or not (p.index_names(left) and p.index_names(right))
            return is_one and _is_sum(left) and _is_sum(right)
    return False


def _for_ranges(access: p.Read) -> p.Read:
    """The read with the subscripts from which ranges follow: in `pad` these are variables that
    stand alone (G9)."""
    if not access.bare_only:
        return access
    subscripts = (s if isinstance(s, p.Index) else e.ZERO for s in access.subscripts)
    return replace(access, subscripts=tuple(subscripts))
