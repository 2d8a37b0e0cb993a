"""Draws where a statement writes: plain places, affine ones, and ones that data decide."""

from __future__ import annotations

import re

from tests.fuzz.places.draft import Redraw, Variable, used_in
from tests.fuzz.places.draw_domains import DomainDraft


class PlaceDraft(DomainDraft):
    def place(self, left: list[Variable]) -> list[str]:
        """Left subscripts in which all the variables occur."""
        rng, waiting = self.rng, list(left)
        rng.shuffle(waiting)
        texts: list[str] = []
        plain = self.chance(0.35)
        while waiting:
            v = waiting.pop()
            w = waiting.pop() if waiting and not plain and self.chance(0.35) else None
            if plain or (w is None and self.chance(0.45)):
                texts.append(v.name)
            else:
                texts.append(self.computed(v, w))
        while len(texts) < 3 and self.chance(0.12 if texts else 0.3):
            if left and self.chance(0.6):
                more = self.computed(rng.choice(left), None)
            else:
                more = str(rng.randrange(4))
                self.note("constant place")
            texts.insert(rng.randint(0, len(texts)), more)
        if len(texts) > 3:
            raise Redraw
        return texts

    def computed(self, v: Variable, w: Variable | None) -> str:
        rng, x = self.rng, v.name
        if w is None:
            if self.chance(0.5):
                self.note("affine place")
                c = rng.randint(0, 3)
                forms = [f"{x}+{c}", f"2*{x}", f"2*{x}+{rng.randint(0, 1)}", f"3*{x}+{c}"]
                forms += [
                    f"{x}/2",
                    f"{self.draft.size_text(v.high)}-1-{x}",
                    f"{x}+0",
                    f"{x}%2",
                ]
                forms += [f"{x}-{v.low}" if v.low else f"{c}+{x}", f"min({x}, {c})"]
                if self.chance(0.25):
                    forms = [f"{x}>>1", f"{x}<<1", f"({x}<<1)+{c}", f"{x}&1", f"{x}&3", f"{x}<<{c}"]
                    self.note("bits")
                return rng.choice(forms)
            if self.chance(0.15):
                self.note("bits")
                forms = [f"{x}^1", f"{x}|1", f"~{x}+{self.draft.size_text(v.high)}", f"{x}&2"]
                forms += [f"({x}<<1)^1", f"({x}<<1)|1", f"({x}^3)>>1", f"1<<{x}"]
                return rng.choice(forms)
            return self.data_place([v])
        y = w.name
        if self.chance(0.45):
            self.note("affine place")
            forms = [f"{x}+{y}", f"2*{x}+{y}", f"{x}*{max(w.high, 1)}+{y}", f"{x}-{y}+{w.high}"]
            forms += [f"{x}-{y}", f"{x}+{y}+1", f"max({x},{y})", f"({x}+{y})/2"]
            if self.chance(0.25):
                self.note("bits")
                forms = [f"({x}<<1)+{y}", f"({x}+{y})>>1", f"({x}+{y})&3", f"{x}^{y}", f"{x}|{y}"]
                forms += [f"{x}&{y}", f"({x}<<2)|({y}&3)", f"{x}+({y}&1)"]
            return rng.choice(forms)
        return self.data_place([v, w])

    def data_place(self, variables: list[Variable]) -> str:
        rng, draft = self.rng, self.draft
        self.note("data place")
        v = variables[0]
        end = rng.choice((1, 2, 3, 3, 5, 7))
        text = self.key_read([v], end)
        if self.chance(0.1):
            text = f"{draft.keys((end,), rng.choice((2, 3, 5)))}({text})"
        if len(variables) == 2:
            y = variables[1].name
            form = rng.randrange(4)
            if form == 0:
                text = self.key_read(variables, end)
            else:
                text = (f"{text}+{y}", f"{text}*{max(variables[1].high, 1)}+{y}", f"{y}+2*{text}")[
                    form - 1
                ]
        elif self.chance(0.2):
            forms = [f"{text}&1", f"{text}&3", f"{text}>>1", f"{text}^1", f"({text}<<1)|1"]
            forms += [f"({text}<<1)+({v.name}&1)", f"{text}|({v.name}&1)", f"popc({text})"]
            text = rng.choice(forms)
            self.note("bits")
        elif self.chance(0.12) and re.fullmatch(rf"I\d\({v.name}\)", text):
            text = f"pad({text[:-1]}{rng.choice('-+')}1), {text})"
            self.note("pad")
        elif self.chance(0.35):
            c = rng.randint(1, 2)
            text = rng.choice(
                (f"{text}+{c}", f"2*{text}", f"2*{text}+1", f"{text}/2", f"{c}+{text}")
            )
        if self.chance(0.25):
            name = f"b{len(self.bindings)}"
            self.bindings.append(f"{name} = {text}")
            self.note("binding")
            return name
        return text

    def key_read(self, variables: list[Variable], end: int) -> str:
        """A read of indices at variables: of an input that is there, or of a new one."""
        draft, rng = self.draft, self.rng
        if any(v.low < 0 for v in variables):
            raise Redraw
        shape = tuple(v.high for v in variables)
        fitting = [n for n, t in draft.tensors.items() if t.shape == shape and n.startswith("I")]
        if fitting and self.chance(0.5):
            name = rng.choice(fitting)
        else:
            name = draft.keys(shape, end)
        for v in variables:
            self.covers(v)
        return f"{name}({', '.join(v.name for v in variables)})"

    def expanded(self, text: str) -> str:
        for binding in reversed(self.bindings):
            name, value = binding.split(" = ", 1)
            text = re.sub(rf"\b{name}\b", f"({value})", text)
        return text

    def ends(self, texts: list[str]) -> list[int]:
        """The size that each left subscript needs."""
        found = []
        for text in texts:
            extent = self.draft.extent(self.expanded(text), self.variables)
            bare = next((v for v in self.variables if v.name == text), None)
            if bare is not None:
                found.append(bare.high)
            elif extent is None and self.is_fixed(text):
                found.append(self.rng.choice((1, 2, 3)))
            elif extent is None or (extent[0] < 0 and not self.is_fixed(text)):
                raise Redraw
            else:
                found.append(max(extent[1] + 1, 1))
        return found

    def is_fixed(self, text: str) -> bool:
        """Whether no range can follow from a place, whatever the shape."""
        used = used_in(text, self.variables)
        return self.is_data(text) or all(v.kind == "where" for v in used)

    def drop(self, texts: list[str], shape: list[int], target: str) -> None:
        """Makes a computed place smaller, and drops the instances outside by conditions."""
        axis = self.rng.randrange(len(texts))
        text = texts[axis]
        if any(v.name == text for v in self.variables) or shape[axis] < 2:
            return
        if not self.is_fixed(self.expanded(text)):
            return
        shape[axis] -= self.rng.randint(1, shape[axis] - 1)
        end = self.rng.choice((f"{target}.{axis}", str(shape[axis])))
        if not re.fullmatch(r"b\d", text) and self.chance(0.5):
            name = f"b{len(self.bindings)}"
            self.bindings.append(f"{name} = {text}")
            texts[axis] = text = name
        self.conditions += [f"0 <= {text}", f"{text} < {end}"]
        self.note("dropping")

    def is_data(self, text: str) -> bool:
        """Whether no range follows from a place: it reads, or is not affine."""
        text = self.expanded(text).replace("max(", "")
        is_mask = re.search(r"[|^~]|&(?![137]\b)|<<(?!\d)", text) is not None
        return is_mask or re.search(r"\b[IxroOlw]\w*\(", text) is not None
