"""What a program says of its accesses beyond the scop: strides in memory, pads, types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from tc.kernel.ir import row_major
from tc.polyhedral.scop.checked_variables import checked_variables
from tc.polyhedral.scop.scop import Access, Scop, ScopStatement
from tc.semantics.bounded_sums import rows_of_data
from tc.semantics.program import Index, Literal, Read, Select, index_names, walk
from tc.semantics.size_values import KnownSizes, evaluate


@dataclass(frozen=True)
class AccessInfo:
    """What planners ask about the accesses of a program: strides, types, which reads are padded."""

    scop: Scop
    strides: Mapping[str, tuple[int, ...]]
    check: bool

    @cached_property
    def reads(self) -> Mapping[int, Read]:
        """The reads of the program by their sites."""
        exprs = (e for s in self.scop.shaped.program.statements for e in s.expressions)
        return {e.site: e for expr in exprs for e in walk(expr) if isinstance(e, Read)}

    def padded(self, statement: ScopStatement) -> Iterator[tuple[Access, int | float | bool]]:
        """The reads that are the whole first argument of a pad, with the constant of the pad. A
        read of rank 0 has nothing to pad."""
        if statement.kind != "update":
            return
        linear = {a.site: a for a in statement.reads if a.subscripts and None not in a.subscripts}
        for expr in walk(self.scop.shaped.program.statements[statement.position].rhs):
            match expr:
                case Select(then=Read(site=site), otherwise=Literal(value=value), padded=True) if (
                    site in linear
                ):
                    yield linear[site], value

    def fill(self, tensor: str, users: Iterable[ScopStatement]) -> int | float | bool | None:
        """The constant with which all reads of a tensor in some statements are padded; None where
        some reads are not padded, or reads are padded with several constants."""
        fills: dict[str, int | float | bool] = {}
        for statement in users:
            pads = {access.site: fill for access, fill in self.padded(statement)}
            for access in statement.accesses:
                if access.tensor == tensor:
                    if access.site not in pads:
                        return None
                    fills[repr(pads[access.site])] = pads[access.site]
        return next(iter(fills.values())) if len(fills) == 1 else None

    def stride(self, access: Access, variable: str | None) -> int | None:
        """By how many elements of memory an access moves with a variable; None where the steps
        differ."""
        if variable is None:
            return 0
        total = 0
        steps = self.steps(access.tensor)
        for axis, (subscript, step) in enumerate(zip(access.subscripts, steps, strict=True)):
            if subscript is not None:
                total += subscript.terms.get(variable, 0) * step
            elif variable in self._variables(access, axis):
                return None
        return total

    def uses(self, access: Access, variable: str | None) -> bool:
        """Whether an access depends on a variable."""
        return any(
            variable in (self._variables(access, axis) if s is None else s.terms)
            for axis, s in enumerate(access.subscripts)
        )

    def distinct_positions(
        self, access: Access, variable: str | None, most: int
    ) -> tuple[int, ...]:
        """How many distinct elements an access touches for the first value of a variable, for the
        first two, and so on up to `most` values from 0 on, where all other variables are 0."""
        if not self.uses(access, variable):
            return (1,) * most
        if variable is None or None not in access.subscripts:
            return tuple(range(1, most + 1))
        shaped = self.scop.shaped
        known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars)
        subscripts = self.reads[access.site].subscripts
        others = {name: 0 for subscript in subscripts for name in index_names(subscript)}
        found: set[tuple[int | None, ...]] = set()
        counts = []
        for value in range(most):
            at = known.at({**others, variable: value})
            place = tuple(evaluate(subscript, at) for subscript in subscripts)
            found.add((value,) if None in place else place)
            counts.append(len(found))
        return tuple(counts)

    def _variables(self, access: Access, axis: int) -> frozenset[str]:
        if access.site < 0:  # where data say: any instance may write next to any other
            return frozenset(chain(*(s.variables for s in self.scop.users(access.tensor))))
        subscript = self.reads[access.site].subscripts[axis]
        return frozenset(e.name for e in walk(subscript) if isinstance(e, Index))

    def steps(self, tensor: str) -> tuple[int, ...]:
        given = self.strides.get(tensor)
        return row_major(self.scop.shaped.shapes[tensor]) if given is None else given

    def bits(self, statement: ScopStatement) -> int:
        """The width of the widest values that a statement computes with."""
        tensors = self.scop.shaped.program.tensors
        names = {statement.write.tensor, *(a.tensor for a in statement.reads)}
        return max([32, *(tensors[n].dtype.bits for n in names if tensors[n].dtype.is_float)])

    def rows(self, statement: ScopStatement) -> Mapping[str, frozenset[str]]:
        """The variables of a reduction that run between ends which data say (X6), each with those
        of the left side for each of whose values these are others."""
        if statement.kind != "update":
            return {}
        return rows_of_data(self.scop.shaped.program.statements[statement.position])

    def tested(self, statement: ScopStatement) -> frozenset[str]:
        """The variables on which tests at run time depend. Loops along these stay as they are."""
        return checked_variables(statement, self.scop) if self.check else frozenset()
