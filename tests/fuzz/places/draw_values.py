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
            if self.chance(0.3):
                forms += [f"{x}>>1", f"{x}<<1", f"{x}&1", f"{x}^1", f"{x}|1", f"~{x}+{size}"]
                forms += [f"{x}&2", f"({x}^3)>>1"]
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

    def read_inside(self, kinds: str = "") -> str:
        """A read of a tensor, of inputs of some kinds alone if there are any; a number if none."""
        names = [n for n, t in self.draft.tensors.items() if t.is_input or n in self.readable]
        names = [n for n in names if n not in self.targets]
        if kinds:
            known = self.draft.tensors
            names = [n for n in names if known[n].is_input and known[n].kind in kinds]
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
        if form < 0.53:
            self.note("constant")
            return rng.choice(("inf()", "-inf()", "nan()", "pi()", "pi()"))
        if form < 0.56:
            self.note("scalar")
            return self.draft.numbers(())
        return self.read_inside()

    # --- pad ----------------------------------------------------------------------------------

    def padded(self, beyond: str) -> str:
        """A `pad` with a value for what is beyond."""
        self.note("pad")
        form = self.rng.randrange(6)
        first = self.read_beyond()
        if form == 0:
            first = f"{first} + {self.read_beyond()}"
        elif form == 1:
            first = f"{self.condition()} ? {first} : {self.read_beyond()}"
        elif form == 2:
            first = f"{first} * {self.leaf()}"
        return f"pad({first}, {beyond})"

    def read_beyond(self) -> str:
        """A read whose subscripts may leave the tensor, except where they bound a variable."""
        tensors = self.draft.tensors
        names = [n for n, t in tensors.items() if t.shape and (t.is_input or n in self.readable)]
        names = [n for n in names if n not in self.targets]
        if not names:
            raise Redraw
        name = self.rng.choice(names)
        tensors[name].is_read = True
        return f"{name}({', '.join(map(self.beyond, tensors[name].shape))})"

    def beyond(self, size: int) -> str:
        rng = self.rng
        forms = [str(rng.randint(0, size + 1))]
        for v in self.variables:
            x, c = v.name, rng.randint(1, 2)
            if v.kind == "where" or (v.low >= 0 and v.high <= size):
                forms += [x, x]
            forms += [f"{x}-{c}", f"{x}+{c}", f"2*{x}-{c}", f"{size}-{x}", f"{x}+0", f"{x}/2"]
            forms += [f"{x}^{c}", f"({x}<<1)-{c}", f"({x}>>1)-1", f"{x}%3"]
            forms += [f"{x}+{w.name}-{c}" for w in self.variables if w is not v]
            for n, t in self.draft.tensors.items():
                is_key = n.startswith("I") and len(t.shape) == 1
                if is_key and v.low >= 0 and v.high <= t.shape[0]:
                    forms += [f"{n}({x})-{c}", f"{n}({x}+{c})", f"{n}({x})"]
        return rng.choice(forms)

    # --- values -------------------------------------------------------------------------------

    def expression(self, needed: list[str], depth: int = 2) -> str:
        """An expression in which all the reads occur."""
        rng = self.rng
        if not needed and (depth <= 0 or self.chance(0.4)):
            return self.leaf()
        if len(needed) == 1 and (depth <= 0 or self.chance(0.5)):
            return needed[0]
        if self.chance(0.14):
            return self.integer(needed, depth)
        if self.chance(0.08):
            return self.padded(self.expression(needed, depth - 1))
        if self.chance(0.04):
            self.note("cast")
            cast = rng.choice(("int", "int", "float", "double", "uint8", "int64", "bool"))
            return f"{cast}({self.expression(needed, depth - 1)})"
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

    # --- bits ---------------------------------------------------------------------------------

    def integer(self, needed: list[str], depth: int = 2) -> str:
        """An integer of operators on bits (Y11, Y12) in which all the reads occur; rarely one that
        takes what it must not."""
        rng = self.rng
        self.note("bits")
        if not needed and (depth <= 0 or self.chance(0.3)):
            return self.whole_leaf()
        if len(needed) == 1 and (depth <= 0 or self.chance(0.3)):
            return self.whole(needed[0])
        cut = rng.randint(0, len(needed))
        left = self.integer(needed[:cut], depth - 1)
        right = self.integer(needed[cut:], depth - 1)
        if self.chance(0.004):
            left = self.condition()
        form = rng.randrange(12)
        if form < 6:
            return f"({left} {'&|^'[form % 3]} {right})"
        if form < 9:
            if not re.search("[A-Za-z]", right):
                right = str(rng.randint(0, 7) if self.chance(0.96) else rng.choice((8, 31, 32, 64)))
            return f"({left} {rng.choice(('<<', '>>'))} {right})"
        if form == 9:
            return f"(~{left} {rng.choice('&|^+')} {right})"
        if form == 10:
            return f"({left} {rng.choice('+*')} {right})"
        is_typed = re.search(r"\(", left) is not None
        return (
            f"({rng.choice(('popc', 'clz'))}({left}) ^ {right})"
            if is_typed
            else f"(~{left} + {right})"
        )

    def whole_leaf(self) -> str:
        rng = self.rng
        form = rng.random()
        if form < 0.3:
            return str(rng.choice((0, 1, 1, 2, 3, 5, 7, 15, 127)))
        if form < 0.5 and self.variables:
            return rng.choice(self.variables).name
        if form < 0.55 and self.draft.sizes:
            return rng.choice(list(self.draft.sizes))
        return self.read_inside("iu")

    def whole(self, read: str) -> str:
        """An integer of a read."""
        tensor = self.draft.tensors[read.partition("(")[0]]
        if (tensor.is_input and tensor.kind in "iu") or self.chance(0.01):
            return read
        c = self.rng.randint(0, 2)
        return self.rng.choice((f"int({read} > {c})", f"({read} > {c} ? {c} : 6)"))

    def test(self) -> str:
        """A comparison, which is a bool."""
        op = self.rng.choice(("<", "<=", ">", ">=", "==", "!="))
        left = self.integer([], 1) if self.chance(0.3) else self.read_inside()
        return f"({left} {op} {self.leaf()})"

    def condition(self) -> str:
        """A scalar that decides: of variables, of data, or of both."""
        rng = self.rng
        form = rng.random()
        names = [v.name for v in self.variables]
        if names and form < 0.08:
            self.note("bits")
            x, y, k = rng.choice(names), rng.choice(names), rng.choice((1, 2, 3))
            more = [f"({x} & {k}) == {rng.randint(0, k)}", f"({x} ^ {y}) < {k}", f"({x} & {k})"]
            return rng.choice((*more, f"({x} >> 1) < {k}", f"{self.integer([], 1)} != {k}"))
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
        if form < 0.95:
            beyond = str(rng.randint(0, 2))
            return f"{self.padded(beyond)} {rng.choice(('<', '>', '=='))} {self.leaf()}"
        if form < 0.97:
            self.note("bits")
            return f"({self.test()} {rng.choice('&|^')} {self.test()})"
        inner = self.condition(), self.condition()
        return rng.choice(
            (f"({inner[0]} && {inner[1]})", f"({inner[0]} || {inner[1]})", f"!({inner[0]})")
        )
