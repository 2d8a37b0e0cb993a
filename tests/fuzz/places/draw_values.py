"""Draws what a statement reads: values, conditions, and the reads from which ranges follow."""

from __future__ import annotations

import re

from tests.fuzz.places.draft import Redraw, Variable
from tests.fuzz.places.draw_places import PlaceDraft


class ValueDraft(PlaceDraft):
    """A statement that may read what is there."""

    targets: tuple[str, ...] = ()

    @property
    def readable(self) -> set[str]:
        """Results of earlier statements."""
        return {n for n, t in self.draft.tensors.items() if not t.is_input}

    def covering(self) -> str:
        """A read that fixes the ranges of one or two variables that nothing fixes yet."""
        draft, rng = self.draft, self.rng
        count = min(len(self.uncovered), rng.choice((1, 1, 2)))
        chosen = rng.sample(self.uncovered, count)
        shape = tuple(v.high for v in chosen)
        names = ", ".join(v.name for v in chosen)
        fitting = [
            n
            for n, t in draft.tensors.items()
            if t.shape == shape and n not in self.targets and (t.is_input or n in self.readable)
        ]
        for v in chosen:
            self.covers(v)
        if fitting and self.chance(0.5):
            name = rng.choice(fitting)
            draft.tensors[name].is_read = True
            return f"{name}({names})"
        through = self.dependent_on(chosen[0]) if count == 1 else None
        if through is not None and self.chance(0.6):
            self.note("inferred through a dependent variable")
            return f"{draft.numbers((through.high,))}({through.name})"
        if count == 1 and chosen[0].kind == "inferred" and len(chosen[0]) and self.chance(0.2):
            c = rng.randint(1, 2)
            return f"{draft.numbers((shape[0] + c,))}({names}+{c})"
        return f"{draft.numbers(shape)}({names})"

    def dependent_on(self, v: Variable) -> Variable | None:
        """A dependent variable that ends where, and only where, the variable does."""
        if v.kind != "inferred" or not len(v):
            return None
        for w in self.variables:
            rises = re.fullmatch(rf"{v.name}(\+\d)?", w.end) and w.begin in ("0", v.name)
            if w.kind == "dependent" and rises:
                return w
        return None

    def inside(self, size: int) -> str:
        """A subscript that stays in a dimension over the domain."""
        rng, draft = self.rng, self.draft
        forms: list[str] = []
        for v in self.variables:
            x = v.name
            if v.low >= 0 and v.high <= size:
                forms += [x] * 4
            if not len(v):
                continue
            forms += [f"{x}+1", f"2*{x}", f"{x}/2", f"{size - 1}-{x}", f"{x}-1", f"{x}%2"]
            for w in self.variables:
                if w is not v and len(w):
                    forms += [f"{x}+{w.name}", f"{x}-{w.name}"]
            for n, t in draft.tensors.items():
                is_key = n.startswith("I") and len(t.shape) == 1 and t.values <= size
                if is_key and v.low >= 0 and v.high <= t.shape[0]:
                    forms.append(f"{n}({x})")
        if size:
            forms.append(str(rng.randrange(size)))
        rng.shuffle(forms)
        for form in forms[:6]:
            if not form.isdigit() and not any(v.name == form for v in self.variables):
                try:
                    extent = draft.extent(form, self.variables, reads=True)
                except Redraw:
                    continue
                if extent is None or extent[0] < 0 or extent[1] >= size:
                    continue
            return form
        raise Redraw

    def read_inside(self) -> str:
        names = [n for n, t in self.draft.tensors.items() if t.is_input or n in self.readable]
        names = [n for n in names if n not in self.targets]
        if not names:
            return str(self.rng.randint(0, 3))
        name = self.rng.choice(names)
        tensor = self.draft.tensors[name]
        subscripts = [self.inside(size) for size in tensor.shape]
        tensor.is_read = True
        return f"{name}({', '.join(subscripts)})" if subscripts else name

    def leaf(self) -> str:
        rng = self.rng
        form = rng.random()
        if form < 0.25:
            return str(rng.randint(0, 3))
        if form < 0.45 and self.variables:
            return rng.choice(self.variables).name
        if form < 0.5 and self.draft.sizes:
            return rng.choice(list(self.draft.sizes))
        return self.read_inside()

    def expression(self, needed: list[str], depth: int = 2) -> str:
        """An expression in which all the reads occur."""
        rng = self.rng
        if not needed and (depth <= 0 or self.chance(0.4)):
            return self.leaf()
        if len(needed) == 1 and (depth <= 0 or self.chance(0.5)):
            return needed[0]
        cut = rng.randint(0, len(needed))
        left = self.expression(needed[:cut], depth - 1)
        right = self.expression(needed[cut:], depth - 1)
        form = rng.randrange(9)
        if form < 3:
            return f"({left} + {right})"
        if form < 4 and re.search("[A-Za-z]", left):
            return f"({left} - {right})"
        if form < 6:
            return f"{left} * {right}"
        if form < 7:
            return f"{rng.choice(('min', 'max'))}({left}, {right})"
        if form < 8:
            return f"({self.condition()} ? {left} : {right})"
        return f"({left} {rng.choice(('<', '>=', '=='))} {right})"

    def condition(self) -> str:
        """A scalar that decides: of variables, of data, or of both."""
        rng = self.rng
        form = rng.random()
        names = [v.name for v in self.variables]
        if names and form < 0.45:
            x, y = rng.choice(names), rng.choice([*names, *names, str(rng.randint(0, 4))])
            op = rng.choice(("<", "<=", ">", ">=", "==", "!="))
            more = [f"{x} {op} {y}", f"{x} % 2 {rng.choice(('==', '!='))} {rng.randint(0, 1)}"]
            more += [f"{x} + {y} {op} {rng.randint(0, 6)}", f"{x} {op} {rng.randint(0, 4)}"]
            return rng.choice(more)
        if form < 0.9:
            return f"{self.read_inside()} {rng.choice(('<', '>', '>=', '==', '!='))} {self.leaf()}"
        if form < 0.93:
            return self.read_inside()
        inner = self.condition(), self.condition()
        return rng.choice(
            (f"({inner[0]} && {inner[1]})", f"({inner[0]} || {inner[1]})", f"!({inner[0]})")
        )
