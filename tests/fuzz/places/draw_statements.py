"""Draws whole statements: operators, targets, values and clauses that fit each other."""

from __future__ import annotations

from tests.fuzz.places.draft import Redraw, Tensor
from tests.fuzz.places.draw_values import ValueDraft

OUTPUTS = ("o", "p", "q", "h", "s", "t")
OPERATORS = ("+", "+", "+", "*", "min", "max", "&", "|", "^")


class StatementDraft(ValueDraft):
    """One statement under construction."""

    def build(self) -> None:
        draft, rng = self.draft, self.rng
        op, base = self.operator()
        self.base = base
        if self.forced is not None:
            self.variables = self.forced.variables(self)
        else:
            self.draw_variables()
        if op == "=" and not self.chance(0.01):
            left = list(self.variables)
        else:
            left = [v for v in self.variables if self.chance(0.5)]
        if any(v.low < 0 for v in left):
            raise Redraw
        if self.forced is not None:
            left, texts = list(self.variables), list(self.forced.texts)
        elif self.chance(0.005) and left:
            texts = [left[0].name, left[0].name]
            self.note("twice")
        else:
            texts = self.place(left)
        shape = self.ends(texts)
        natural = list(shape)
        self.targets = self.choose_targets(texts, shape, base)
        primary = self.targets[0]
        tensor = draft.tensors.get(primary)
        new = tensor is None
        if new and texts and self.chance(0.15):
            self.drop(texts, shape, primary)
        if new and texts and self.chance(0.1):
            axis = rng.randrange(len(texts))
            if not any(v.name == texts[axis] for v in self.variables) or self.chance(0.3):
                shape[axis] += rng.randint(1, 2)
        self.cover_by_target(texts, tensor)
        if new:
            self.cover_by_clause(texts, shape)
        values = self.draw_values(op, base, texts, new)
        for _ in range(rng.choice((0, 0, 0, 0, 1, 1, 2, 3))):
            self.conditions.insert(rng.randint(0, len(self.conditions)), self.condition())
            self.note("condition")
        if self.chance(0.008):
            own = f"{primary}({', '.join(texts)})" if texts else primary
            self.conditions.append(f"{own} > 0")
        while self.uncovered:
            read = self.covering()
            self.clauses.append(
                f"exists {read}" if "(" in read and self.chance(0.5) else f"{read} > 0"
            )
            if not self.clauses[-1].startswith("exists"):
                self.conditions.append(self.clauses.pop())
        self.settle_shape(texts, shape, natural, new)
        text = ", ".join(f"{t}({', '.join(texts)})" if texts else t for t in self.targets)
        where = self.mixed()
        clauses = f" where {', '.join(where)}" if where else ""
        draft.statements.append(f"{text} {op} {', '.join(values)}{clauses}")
        draft.ranges.append(
            {v.name: (v.low, v.high) for v in self.variables if v.kind != "dependent"}
        )

    def operator(self) -> tuple[str, str]:
        if self.chance(0.35):
            return "=", "="
        base = self.rng.choice(OPERATORS)
        return f"{base}={'!' if self.chance(0.65) else ''}", base

    def choose_targets(self, texts: list[str], shape: list[int], base: str) -> tuple[str, ...]:
        draft, rng = self.draft, self.rng
        count = rng.choice((1, 1, 1, 1, 1, 1, 1, 1, 2, 3)) if base not in "&|^" else 1
        if base in ("min", "max") and self.chance(0.3):
            count = max(count, 2)
        fitting = [
            n
            for n, t in draft.tensors.items()
            if not t.is_input and len(t.shape) == len(shape) and base not in "&|^" and not t.is_bits
        ]
        fitting = [n for n in fitting if self.fits(draft.tensors[n], texts, shape)]
        if self.forced is not None and self.forced.targets:
            if not set(self.forced.targets) <= set(fitting):
                raise Redraw
            return self.forced.targets
        free = [n for n in OUTPUTS if n not in draft.tensors]
        if count > 1:
            self.note("several targets")
        if len(fitting) >= count and self.chance(0.75):
            self.note("again")
            chosen = rng.sample(fitting, count)
            shapes = {draft.tensors[n].shape for n in chosen}
            if len(shapes) == 1:
                return tuple(chosen)
        if len(free) < count:
            raise Redraw
        return tuple(free[:count])

    def fits(self, tensor: Tensor, texts: list[str], shape: list[int]) -> bool:
        for axis, (text, end, size) in enumerate(zip(texts, shape, tensor.shape, strict=True)):
            if end <= size:
                continue
            sliced = text.isdigit() or any(
                v.kind == "where" and v.name == text for v in self.variables
            )
            if tensor.is_read or tensor.declared or not sliced or axis not in tensor.sliced:
                return False
        return True

    def cover_by_target(self, texts: list[str], tensor: Tensor | None) -> None:
        """Now and then a variable's range follows from the shape of what is written alone."""
        if tensor is None or len(texts) != len(tensor.shape):
            return
        for v in list(self.uncovered):
            for text, size in zip(texts, tensor.shape, strict=True):
                if text == v.name and size == v.high and self.chance(0.5):
                    self.covers(v)
                    self.note("covered by its target")

    def cover_by_clause(self, texts: list[str], shape: list[int]) -> None:
        """Now and then a variable's range follows from the size that a new target is given."""
        for v in list(self.uncovered):
            fits = v.name in texts and shape[texts.index(v.name)] == v.high
            if fits and self.chance(0.35):
                self.covers(v)
                self.sized.update(range(len(texts)))
                self.note("covered by its target")

    def draw_values(self, op: str, base: str, texts: list[str], new: bool) -> list[str]:
        rng = self.rng
        needed: list[list[str]] = [[] for _ in self.targets]
        while self.uncovered and self.chance(0.85):
            rng.choice(needed).append(self.covering())
        values = [self.expression(reads) for reads in needed]
        if base in "&|^":
            values = [self.bits(reads) for reads in needed]
        own = f"({', '.join(texts)})" if texts else ""
        if op == "=" and len(values) > 1 and self.chance(0.3) and not any(needed):
            values = [f"{t}{own}" for t in (*self.targets[1:], self.targets[0])]
            if new:
                type = rng.choice(("int32", "float32", "uint8"))
                self.draft.fixed.update(dict.fromkeys(self.targets, type))
            self.starts_from_caller(new)
            self.note("exchange")
        elif self.chance(0.08) and base not in "&|^":
            k = rng.randrange(len(values))
            subscripts = own
            if texts and self.chance(0.25):
                moved = list(texts)
                axis = rng.randrange(len(moved))
                moved[axis] = rng.choice(("0", f"({moved[axis]})/2", f"({moved[axis]})*1"))
                subscripts = f"({', '.join(moved)})"
            read = f"{rng.choice(self.targets)}{subscripts}"
            values[k] = (
                f"({values[k]} + {read})" if self.chance(0.5) else f"2 * {read} + {values[k]}"
            )
            self.starts_from_caller(new)
            self.note("self-read")
        return values

    def starts_from_caller(self, new: bool) -> None:
        if new:
            self.draft.needs_initial.update(self.targets)

    def bits(self, reads: list[str]) -> str:
        """A value of a reduction of bits."""
        draft = self.draft
        kinds = [draft.tensors[r.partition("(")[0]].kind for r in reads]
        if "f" in kinds or self.chance(0.3):
            return " && ".join(f"{r} != 0" for r in reads) if reads else self.condition_of_bits()
        if not reads:
            return "".join(v.name for v in self.variables[:1]) or "3"
        if "b" in kinds:
            return " && ".join(f"{r} > 0" for r in reads)
        return " + ".join(reads)

    def condition_of_bits(self) -> str:
        return f"{self.rng.choice(self.variables).name} > 1" if self.variables else "2 > 1"

    def settle_shape(self, texts: list[str], shape: list[int], ends: list[int], new: bool) -> None:
        """Notes the shapes of the targets, and writes clauses where nothing else gives them."""
        draft = self.draft
        for name in self.targets:
            sliced = {
                axis
                for axis, text in enumerate(texts)
                if text.isdigit()
                or any(v.kind == "where" and v.name == text for v in self.variables)
            }
            if not new:
                old = draft.tensors[name]
                old.shape = tuple(max(a, b) for a, b in zip(old.shape, shape, strict=True))
                old.sliced &= sliced
                continue
            tensor = Tensor(tuple(shape), "f", sliced=sliced)
            tensor.is_bits = self.base in ("&", "|", "^") or name in draft.fixed
            tensor.declared = self.chance(0.3) or name in draft.fixed
            draft.tensors[name] = tensor
            if tensor.declared:
                draft.declared.add(name)
                tensor.sliced.clear()
                continue
            for axis, text in enumerate(texts):
                bare = next((v for v in self.variables if v.name == text), None)
                wanted = axis in self.sized or (not text.isdigit() and bare is None)
                natural = ends[axis] == shape[axis]
                simple = natural and axis not in self.sized and not self.is_data(text)
                if wanted and simple and self.chance(0.35):
                    wanted = False
                missing = axis not in self.sized and self.chance(0.01)
                if (wanted or self.chance(0.1) or not natural) and not missing:
                    self.clauses.append(f"{name}.{axis} = {draft.size_text(shape[axis])}")
                    tensor.sliced.discard(axis)

    def mixed(self) -> list[str]:
        """The clauses in any order, conditions in theirs."""
        found = [*self.clauses, *self.bindings]
        self.rng.shuffle(found)
        cuts = sorted(self.rng.randint(0, len(found)) for _ in self.conditions)
        for cut, test in reversed(list(zip(cuts, self.conditions, strict=True))):
            found.insert(cut, test)
        return found
