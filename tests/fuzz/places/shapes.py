"""The shapes of what statements write (S4, S8, G4, G5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.fuzz.places.domains import Domains
from tests.fuzz.places.outcomes import EITHER, REFUSED, Fails, Open, Place, Ranges
from tests.fuzz.places.trees import Dims, Form


class Shapes(Domains):
    """Domains, and the shapes that follow from them."""

    forms: Sequence[Form] = ()
    ranges: Sequence[Ranges] = ()

    def infer_shapes(self, declared: Mapping[str, Dims]) -> None:
        """The shapes of outputs and temporaries (S4, S8, G4, G5)."""
        for name, dims in declared.items():
            if self.dimensions.keys().isdisjoint(dims):
                self.shapes[name] = self.sizes_of(dims)
        for name in dict.fromkeys(n for f in self.forms for n in f.names):
            if name not in self.shapes:
                known = name in declared
                self.shapes[name] = self.sizes_of(declared[name]) if known else self.shape_of(name)
        for form in self.forms:
            for clause in form.sizes:
                if self.integer(clause.value, {}) != self.shapes[clause.tensor.text][clause.axis]:
                    raise Fails("S4", REFUSED, "a size clause says another size")
        for name, given in self.initial.items():
            pairs = zip(given.shape, self.shapes[name], strict=True)
            if given.shape != self.shapes[name] and all(a >= b for a, b in pairs):
                raise Open("R4: a tensor of the caller's that has more room than is written")
            if given.shape != self.shapes[name]:
                raise Fails("R4", frozenset({"InputError"}), "the caller's array has another shape")

    def sizes_of(self, dims: Dims) -> Place:
        return tuple(self.size(d) if isinstance(d, str) else d for d in dims)

    def shape_of(self, name: str) -> Place:
        rank = next(len(f.left) for f in self.forms if name in f.names)
        return tuple(self.size_of(name, axis) for axis in range(rank))

    def size_of(self, name: str, axis: int) -> int:
        clauses: list[int] = []
        slices: list[int] = []
        firsts: list[int] = []
        empty: list[int] = []
        problems: list[Exception] = []
        for form, ranges in zip(self.forms, self.ranges, strict=True):
            if name not in form.names:
                continue
            clauses += [
                self.integer(c.value, {})
                for c in form.sizes
                if c.tensor.text == name and c.axis == axis
            ]
            try:
                kind, end = self.end_of(form, ranges, axis)
            except (Open, Fails) as problem:
                problems.append(problem)
                continue
            if end is not None:
                wanted = slices if kind == "slice" else firsts
                (empty if self.has_no_points(form, ranges) else wanted).append(end)
        if clauses:
            if len(set(clauses)) > 1 or max(slices, default=0) > clauses[0]:
                raise Open("S8: size clauses that differ, or a slice beyond one")
            return clauses[0]
        if problems:
            raise problems[0]
        if slices:
            if firsts and max(firsts) > max(slices):
                raise Open("S8: a slice and an inferred range that is longer")
            if firsts and empty:
                raise Open("G5: a statement over an empty range")
            if max(empty, default=0) > max(slices):
                raise Open("G5, S8: a slice over an empty range that ends later")
            return max(slices)
        if firsts:
            if max(firsts) > firsts[0]:
                raise Open("G3: a later statement that is longer")
            if max(empty, default=0) > firsts[0]:
                raise Open("G5, S8: a slice over an empty range that ends later")
            return firsts[0]
        if empty and len(set(empty)) == 1:
            return empty[0]
        if empty:
            raise Open("G5: the shape that a statement over an empty range gives")
        if name in self.initial:  # where data decide the place, that is the caller's
            return int(self.initial[name].shape[axis])
        raise Fails("S4", REFUSED, f"nothing gives the size of {name}.{axis}")

    def has_no_points(self, form: Form, ranges: Ranges) -> bool:
        """Whether a left-hand variable has no values (G5)."""
        return any(self.is_empty(v, form, ranges) for v in form.left_variables)

    def end_of(self, form: Form, ranges: Ranges, axis: int) -> tuple[str, int | None]:
        """The end that a statement gives to a dimension of its targets, and whether other
        statements may give further slices (S8)."""
        subscript = form.left[axis]
        variable = form.bare(subscript)
        if variable is not None:
            end = self.hull(variable, form, ranges)[1]
            sliced = variable in form.bounds and self.kind_of(variable, form) == "box"
            return "slice" if sliced else "first", end
        if not form.variables_of(subscript) and not self.reads_of(subscript):
            return "slice", self.integer(subscript, {}) + 1
        if not self.is_affine(subscript, form):
            return "data", None
        low, high = self.integer_ends(subscript, form, ranges)
        points = [
            self.integer(subscript, at)
            for at in self.points(form, ranges, form.variables_of(subscript), boxes=True)
        ]
        if low < 0:
            if points and min(points) < 0:
                raise Fails("S4", EITHER, "an affine place that is negative over the box")
            raise Open("S4: an affine place that is negative over the box alone")
        if not points or max(points) != high:
            raise Open("S4: the size of an affine place over the box or over points")
        return "first", high + 1
