"""Random plans for GPUs: loops to blocks and threads, tiles to shared memory and registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

from tc.plan import (
    ASYNC,
    AXES,
    BLOCK,
    MMA,
    REGISTER,
    REGISTERS,
    SERIAL,
    SHARED,
    THREAD,
    UNROLL,
    Action,
    Bind,
    Promote,
    Reorder,
    Sink,
    Split,
    Tile,
)
from tc.polyhedral.actions.loops import name_of
from tc.polyhedral.gpu.tensor_cores import factors_of
from tc.polyhedral.schedule import Band, Member, Node, leaves
from tests.fuzz.plans.draw import Drawer, Maker, around_of

COUNTS = (1, 2, 2, 3, 4, 5, 7, 8, 16)


class LaunchDrawer(Drawer):
    """Draws for one program on a GPU."""

    def _makers(self) -> dict[Maker, int]:
        return {
            self._tile: 4,
            self._reorder: 3,
            self._sink: 3,
            self._separate: 2,
            self._fuse: 2,
            self._split: 1,
            self._promote: 4,
            self._bind: 5,
            self._blocks: 5,
            self._threads: 8,
            self._digits: 4,
            self._operands: 6,
            self._pipelined: 4,
            self._accumulators: 3,
            self._thread_sums: 5,
            self._products: 6,
        }

    def _bind(self, node: Node) -> Sequence[Action]:
        rng = self.rng
        role = rng.choice(
            (SERIAL, UNROLL, BLOCK, THREAD, THREAD) if rng.random() < 0.99 else ("", MMA)
        )
        if role not in (BLOCK, THREAD):
            return (Bind(self._loop(node), role),)
        return (self._bound(self._loop(node), role),)

    def _bound(self, loop: str, role: str) -> Bind:
        axis = self.rng.choice(AXES if self.rng.random() < 0.4 else ("x", "x", "y"))
        count = self.rng.choice(COUNTS) if self.rng.random() < 0.4 else None
        return Bind(loop, role, axis if self.rng.random() < 0.995 else None, count)

    def _coincident(self, node: Node) -> tuple[Band, Member] | None:
        """A loop that blocks or threads may run, mostly."""
        found = [
            (band, member)
            for band in self._bands(node)
            for member in band.members
            if (member.coincident or self.rng.random() < 0.05) and member.axis is None
        ]
        return self.rng.choice(found) if found else None

    # --- several at once, as a person would -----------------------------------------------------

    def _blocks(self, node: Node) -> Sequence[Action]:
        """A loop over tiles for blocks, and what is inside of them for threads."""
        found = self._coincident(node)
        if found is None:
            return ()
        band, member = found
        loop = self._called(member, leaves(band))
        if member.span is not None or member.step > 1 or self.rng.random() < 0.3:
            return (self._bound(loop, BLOCK),)
        size = self.rng.choice(COUNTS)
        actions: list[Action] = [Tile(loop, (size,)), self._bound(f"{loop} div {size}", BLOCK)]
        if self.rng.random() < 0.6:
            actions.append(self._bound(f"{loop} mod {size}", THREAD))
        return actions

    def _threads(self, node: Node) -> Sequence[Action]:
        """Actions that give a loop to threads: whole, in turns, or tiled. The iterations of one
        thread become the innermost loop or, rarely, stay in their place."""
        found = self._coincident(node)
        if found is None:
            return ()
        band, member = found
        loop = self._called(member, leaves(band))
        kind = self.rng.random()
        if kind < 0.5:
            return (self._bound(loop, THREAD),)
        size = self.rng.choice(COUNTS)
        if member.span is not None:
            trips = member.span // member.step
            size = self.rng.choice([n for n in range(1, trips + 1) if trips % n == 0])
        stem, below = loop.partition(" ")[0], member.step * size
        inner = f"{stem} mod {below}" + (f" div {member.step}" if member.step > 1 else "")
        outer = f"{stem} div {below}"
        if member.span is not None:
            outer = f"{stem} mod {member.span} div {below}"
        own, turns = (inner, outer) if kind < 0.8 else (outer, inner)
        actions: list[Action] = [Tile(loop, (size,)), self._bound(own, THREAD)]
        kind = self.rng.random()
        if kind < 0.3:
            actions.append(Reorder((own, turns)))
        elif kind < 0.8:
            actions.append(Sink((turns,)))
        if self.rng.random() < 0.3:
            actions.append(Bind(turns, UNROLL))
        return actions

    def _digits(self, node: Node) -> Sequence[Action]:
        """Actions that give the middle digit of a loop to threads, each of which has several of the
        digits around it; and mostly what is written to registers, inside of the loop."""
        rng, found = self.rng, self._coincident(node)
        if found is None or found[1].span is not None or found[1].step > 1:
            return ()
        band, member = found
        loop = self._called(member, leaves(band))
        stem, inner = loop.partition(" ")[0], rng.choice((1, 2, 2, 3, 4))
        span = inner * rng.choice((2, 2, 3, 4, 5))
        outer = span * rng.choice((1, 2, 2, 3))
        own = f"{stem} mod {span}" + (f" div {inner}" if inner > 1 else "")
        turns = f"{stem} mod {outer} div {span}", f"{stem} mod {inner}"
        actions: list[Action] = [Tile(loop, (outer, span, inner)), self._bound(own, THREAD)]
        if rng.random() < 0.5:
            actions.append(self._bound(f"{stem} div {outer}", BLOCK))
        if rng.random() < 0.8:
            actions.append(Sink(turns if rng.random() < 0.8 else turns[:1]))
        if rng.random() < 0.6:
            name = rng.choice(list(leaves(band)))
            target = self.made.first.scop.statement(name).write.tensor
            actions.append(Promote(target, REGISTER, own, rng.choice(((), (name,)))))
        return actions

    def _thread_sums(self, node: Node) -> Sequence[Action]:
        """A reduction that threads share: digits of one of its loops or of two, for threads or for
        registers of each, and mostly its target in registers of all."""
        rng, scop = self.rng, self.made.first.scop
        name = rng.choice(list(leaves(node)))
        statement = scop.statement(name)
        around = around_of(node, name)
        reduced = [
            (place, m)
            for place, m in enumerate(around)
            if m.values[name].variable in statement.reduction and m.span is None
        ]
        if not statement.accumulates or not reduced:
            return ()
        inside = None
        if before := around[: reduced[0][0]]:
            inside = name_of(before[-1] if rng.random() < 0.8 else rng.choice(before), name)
        actions: list[Action] = []
        digits: list[str] = []
        for axis, (_, member) in zip(
            rng.sample(AXES, 2), reduced[: rng.randint(1, 2)], strict=False
        ):
            loop, size = name_of(member, name), rng.choice((2, 3, 4, 5, 8, 8, 16, 32, 32, 64))
            actions.append(Tile(loop, (size,)))
            own = f"{loop} mod {size * member.step}" + (
                "" if member.step == 1 else f" div {member.step}"
            )
            digits.append(own)
            count = rng.choice(COUNTS) if rng.random() < 0.1 else None
            kind = Bind(own, THREAD, axis, count) if rng.random() < 0.8 else Bind(own, UNROLL)
            actions.append(kind)
        split = Split(name, tuple(digits), inside)
        actions.insert(rng.choice((len(actions), len(digits))), split)
        tensor = statement.write.tensor
        if rng.random() < 0.7:
            actions.append(Promote(tensor, REGISTER, inside, rng.choice(((), (name,)))))
        return actions

    def _operands(self, node: Node) -> Sequence[Action]:
        """An operand of a statement in shared memory, inside of a loop around it."""
        rng, scop = self.rng, self.made.first.scop
        bands = self._bands(node)
        names = list(leaves(rng.choice(bands) if bands else node))
        reads = [a for n in names for a in scop.statement(n).reads if a.subscripts]
        gathers = [a for n in names for a in scop.statement(n).gathers]
        if not reads:
            return ()
        access = rng.choice(gathers if gathers and rng.random() < 0.5 else reads)
        users = [
            n for n in names if any(a.tensor == access.tensor for a in scop.statement(n).promotable)
        ]
        around = [m for band in bands for m in band.members if set(users) <= set(leaves(band))]
        inside = None if not around else self._called(rng.choice(around), users[:1])
        statements = rng.choice(((), tuple(users)))
        return (self._shared(access.tensor, inside, statements, len(access.subscripts)),)

    def _pipelined(self, node: Node) -> Sequence[Action]:
        """All operands of a reduction in shared memory, in stages, for some steps at a time."""
        rng, scop = self.rng, self.made.first.scop
        name = rng.choice(list(leaves(node)))
        statement = scop.statement(name)
        steps = [
            m
            for m in around_of(node, name)
            if m.values[name].variable in statement.reduction and m.span is None and m.step == 1
        ]
        if not statement.accumulates or not steps:
            return ()
        loop, size = name_of(rng.choice(steps), name), rng.choice((1, 2, 3, 4, 4, 8))
        inside, stages = f"{loop} div {size}", rng.choice((1, 2, 2, 3, 4))
        is_async = rng.random() < 0.6
        tensors = dict.fromkeys(a.tensor for a in statement.reads if a.subscripts)
        return (
            Tile(loop, (size,)),
            *(
                Promote(
                    tensor,
                    SHARED,
                    inside,
                    (name,),
                    lanes=rng.choice((1, 2, 4)) if is_async else 1,
                    align=rng.choice((1, 4)),
                    unroll=not is_async or rng.random() < 0.5,
                    stages=stages,
                    through=ASYNC if is_async else REGISTERS,
                )
                for tensor in tensors
                if tensor != statement.write.tensor
            ),
        )

    def _shared(
        self, tensor: str, inside: str | None, statements: tuple[str, ...], rank: int
    ) -> Promote:
        rng = self.rng
        is_async, as_stored = rng.random() < 0.4, rng.random() < 0.2
        return Promote(
            tensor,
            SHARED,
            inside,
            statements,
            self._axes(rank) if rng.random() < 0.3 else (),
            align=rng.choice((1, 1, 1, 1, 4, 3)),
            padded=rng.random() < 0.12,
            pitch=rng.choice((3, 5, 9, 17, 24, 33, 40)) if rng.random() < 0.25 else None,
            unroll=rng.random() < 0.25,
            lanes=rng.choice((1, 1, 2, 4, 8)) if is_async or as_stored else 1,
            stages=rng.choice((1, 1, 2, 2, 3, 4)),
            through=ASYNC if is_async else REGISTERS,
            as_stored=as_stored,
        )

    # --- tensor cores ---------------------------------------------------------------------------

    def _products(self, node: Node) -> Sequence[Action]:
        """A sum of products of halves as tensor cores want it, or nearly so."""
        rng, scop = self.rng, self.made.first.scop
        names = [n for n in leaves(node) if factors_of(scop.statement(n), scop) is not None]
        if not names:
            return ()
        name = rng.choice(names)
        statement = scop.statement(name)
        loops = {m.values[name].variable: m for m in around_of(node, name) if m.span is None}
        pairs = [
            [v for v in statement.outer if v in loops and (v in one) and (v not in other)]
            for one, other in permutations(self._variables(name))
        ]
        steps = [v for v in statement.reduction if v in loops]
        if not all((*pairs, steps)):
            return ()
        row, column = (name_of(loops[rng.choice(found)], name) for found in pairs)
        step = name_of(loops[rng.choice(steps)], name)
        rows, columns = 16 * rng.choice((1, 1, 2)), 8 * rng.choice((1, 1, 2))
        block = rows * rng.choice((1, 1, 2)), columns * rng.choice((1, 1, 2))
        digits = dict.fromkeys((block[0], rows, 16, 8)), dict.fromkeys((block[1], columns, 8, 2))
        own = [f"{row} mod 16 div 8", f"{column} mod 2"]
        own += [f"{row} mod {rows} div 16"] * (rows > 16)
        own += [f"{column} mod {columns} div 8"] * (columns > 8)
        lanes = [f"{row} mod 8", f"{column} mod 8 div 2"]
        warps = [f"{row} mod {block[0]} div {rows}"] * (block[0] > rows)
        warps += [f"{column} mod {block[1]} div {columns}"] * (block[1] > columns)
        blocks = [f"{row} div {block[0]}", f"{column} div {block[1]}"]
        at_once = 16 * rng.choice((1, 2, 4))
        inside = f"{step} div {at_once}"
        actions: list[Action] = [
            Tile(row, tuple(digits[0])),
            Tile(column, tuple(digits[1])),
            Reorder((*blocks, *warps, *lanes, *own)),
            Sink(tuple(own)),
            *(Bind(loop, BLOCK, axis) for loop, axis in zip(blocks, "yx", strict=True)),
            *(Bind(loop, THREAD, "z") for loop in warps),
            *(Bind(loop, THREAD, axis) for loop, axis in zip(lanes, "yx", strict=True)),
            *(Bind(loop, UNROLL) for loop in own),
            Promote(statement.write.tensor, REGISTER, lanes[1]),
            Tile(step, tuple(dict.fromkeys((at_once, 16)))),
            Bind(f"{step} mod 16", MMA),
        ]
        for access in statement.reads:
            pitch = rng.choice((None, 8 * rng.choice((1, 3, 5, 9)), rng.choice((20, 36))))
            action = Promote(access.tensor, SHARED, inside, pitch=pitch, as_stored=True)
            if rng.random() < 0.6:
                lanes, stages = rng.choice((2, 4, 8, 8)), rng.choice((1, 2, 2, 3))
                action = replace(action, lanes=lanes, stages=stages, through=ASYNC)
            elif rng.random() < 0.5:
                action = replace(action, lanes=8, unroll=True, stages=rng.choice((1, 2)))
            actions.append(action)
        if rng.random() < 0.3:
            del actions[rng.randrange(len(actions))]
        return actions

    def _variables(self, name: str) -> list[set[str]]:
        """The variables of each read of a statement."""
        reads = self.made.first.scop.statement(name).reads
        return [{v for form in a.subscripts if form for v in form.terms} for a in reads][:2]

    # --- promotions -----------------------------------------------------------------------------

    def _promote(self, node: Node) -> Sequence[Action]:
        """What is read or written, anywhere."""
        found: list[Action] = []
        for action in super()._promote(node):
            assert isinstance(action, Promote)
            own = action.tensor, action.inside, action.statements
            rank = len(self.made.first.scop.shape(action.tensor))
            if self.rng.random() < 0.5:
                found.append(self._shared(*own, rank))
            else:
                found.append(Promote(action.tensor, REGISTER, *own[1:], action.axes))
        return found
