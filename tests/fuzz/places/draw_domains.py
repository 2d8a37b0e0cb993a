"""Draws the index variables of a statement: boxes, and ranges that others or data decide."""

from __future__ import annotations

from dataclasses import dataclass

from tests.fuzz.places.draft import INDEX_NAMES, MOST_POINTS, Draft, Redraw, Variable, used_in


@dataclass(frozen=True)
class Forced:
    """A left side that is decided beforehand: subscripts, the ranges of the variables among them
    (with a `where` if `slices`), and targets of an earlier statement."""

    texts: tuple[str, ...]
    spans: tuple[tuple[str, int, int], ...]
    targets: tuple[str, ...] = ()
    slices: bool = False

    def variables(self, statement: DomainDraft) -> list[Variable]:
        draft, found = statement.draft, []
        for name, low, high in self.spans:
            if low == 0 and not self.slices and draft.chance(0.5):
                v = Variable(name, "inferred", low, high)
                statement.uncovered.append(v)
            else:
                begin, end = draft.size_text(low), draft.size_text(high)
                statement.clauses.append(f"{name} in {begin}:{end}")
                v = Variable(name, "where", low, high, begin, end)
            found.append(v)
        return found


class DomainDraft:
    """One statement under construction."""

    def __init__(self, draft: Draft, forced: Forced | None = None) -> None:
        self.draft, self.rng, self.chance = draft, draft.rng, draft.chance
        self.forced, self.base = forced, ""
        self.sized: set[int] = set()
        self.variables: list[Variable] = []
        self.uncovered: list[Variable] = []
        self.clauses: list[str] = []
        self.conditions: list[str] = []
        self.bindings: list[str] = []
        self.reduced: list[Variable] = []

    def note(self, feature: str) -> None:
        self.draft.features.add(feature)

    def draw_variables(self) -> None:
        rng = self.rng
        for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4))):
            usable = [v for v in self.variables if v.low >= 0]
            form = rng.random()
            if not usable or form < 0.5:
                v = self.box()
            elif form < 0.78:
                v = self.dependent(usable)
            else:
                v = self.ragged(usable)
            self.variables.append(v)
            total = 1
            for w in self.variables:
                total *= max(len(w), 1)
            if total > MOST_POINTS:
                raise Redraw

    def fresh_name(self) -> str:
        used = {v.name for v in self.variables}
        return self.rng.choice([n for n in INDEX_NAMES if n not in used])

    def box(self) -> Variable:
        name, high = self.fresh_name(), self.draft.length()
        if self.chance(0.6):
            v = Variable(name, "inferred", 0, high)
            self.uncovered.append(v)
            return v
        low = self.rng.randint(0, high) if self.chance(0.25) else 0
        begin, end = self.draft.size_text(low), self.draft.size_text(high)
        self.clauses.append(f"{name} in {begin}:{end}")
        return Variable(name, "where", low, high, begin, end)

    def dependent(self, usable: list[Variable]) -> Variable:
        rng, name = self.rng, self.fresh_name()
        v = rng.choice(usable)
        w = rng.choice(usable)
        end = self.draft.length()
        x, y, n = v.name, w.name, self.draft.size_text(max(end, v.high))
        forms = [f"0:{x}+1", f"0:{x}", f"{x}:{n}"]
        if len(v) and len(w):
            forms += [
                f"{x}:{x}+{rng.randint(1, 3)}",
                f"{x}+1:{n}",
                f"0:{x}+2",
                f"max({x}-1, 0):min({x}+2, {n})",
                f"{x}:2*{x}+1",
                f"{x}/2:{x}+1",
                f"2*{x}:2*{x}+2",
                f"0:{n}-{x}",
                f"1:{x}+1",
                f"{x}>>1:{x}+1",
                f"0:({x}<<1)+1",
                f"{x}&1:{x}+1",
                f"0:({x}&3)+1",
            ]
        if v is not w and len(v) and len(w):
            forms += [
                f"{x}:{y}",
                f"{x}:{y}+1",
                f"0:{x}+{y}",
                f"min({x},{y}):max({x},{y})+1",
                f"max({x},{y}):{n}",
            ] * 2
        begin, finish = rng.choice(forms).split(":")
        self.clauses.append(f"{name} in {begin}:{finish}")
        self.note("dependent")
        used = used_in(f"{begin} {finish}", self.variables)
        pairs = [
            (self.draft.known(begin, at), self.draft.known(finish, at))
            for at in self.draft.points(used)
        ]
        if not pairs and any(map(len, used)):
            raise Redraw  # the hull of a range is that over boxes
        pairs = [(a, b) for a, b in pairs if a < b]
        low = min((a for a, _ in pairs), default=0)
        high = max((b for _, b in pairs), default=0)
        return Variable(name, "dependent", low, high, begin, finish)

    def ragged(self, usable: list[Variable]) -> Variable:
        rng, draft, name = self.rng, self.draft, self.fresh_name()
        v, end = rng.choice(usable), draft.length()
        x = v.name
        form = rng.randrange(10)
        rows = v.high
        if form < 3:
            row = draft.offsets(rows, end)
            begin, finish = f"{row}({x})", f"{row}({x}+1)"
            self.covers(v)
        elif form < 5:
            begin, finish = "0", f"{draft.counts((rows,), end)}({x})"
            self.covers(v)
        elif form == 5:
            row = draft.offsets(end, end + rng.randint(0, 2))
            end = draft.tensors[row].values - 1
            column = draft.keys((rows,), max(draft.tensors[row].shape[0] - 1, 0))
            begin, finish = f"{row}({column}({x}))", f"{row}({column}({x})+1)"
            self.covers(v)
            self.note("ragged through data")
        elif form == 6:
            end = max([end, *((x | 1) for x in range(v.low, v.high))])
            begin, finish = rng.choice(("0", f"{x}&1")), f"{x}{rng.choice('|^')}1"
            self.note("bits")
        elif form == 7:
            count = f"{draft.counts((rows,), end)}({x})"
            begin, finish = "0", rng.choice((f"{count}>>1", f"{count}&3", f"{count}&~1"))
            self.covers(v)
            self.note("bits")
        elif form == 8:
            count = draft.counts((rows,), end)
            c = rng.randint(0, 2)
            begin, finish = "0", f"({x} > {c} ? {count}({x}) : {rng.randint(0, min(end, 1))})"
            self.covers(v)
        else:
            first = draft.offsets(rows, end)
            begin, finish = f"{first}({x})", f"min({first}({x})+2, {first}({x}+1))"
            self.covers(v)
        self.clauses.append(f"{name} in {begin}:{finish}")
        self.note("ragged")
        found = Variable(name, "ragged", 0, end, begin, finish)
        self.uncovered.append(found)
        return found

    def covers(self, v: Variable) -> None:
        """An access from which the whole range of a variable follows is there."""
        if v in self.uncovered:
            self.uncovered.remove(v)
