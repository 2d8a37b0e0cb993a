"""Generated programs of SaC's notation with numpy's values: each construct has its meaning twice,
as text and as a function of Python on numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

Env = Mapping[str, Any]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Expression:
    """A text, and its value where the indices around it have values."""

    text: str
    value: Callable[[Env], np.ndarray[Any, Any]]


@dataclass
class Program:
    """A text, its inputs, and the result that is due."""

    text: str
    inputs: dict[str, np.ndarray[Any, Any]]
    due: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Scope:
    """The indices around an expression: scalars with the end of their range, and vectors."""

    scalars: tuple[tuple[str, int], ...] = ()
    vectors: tuple[tuple[str, Shape], ...] = ()

    def with_scalars(self, names: Sequence[str], ends: Sequence[int]) -> Scope:
        return Scope((*self.scalars, *zip(names, ends, strict=True)), self.vectors)

    def with_vector(self, name: str, ends: Shape) -> Scope:
        return Scope(self.scalars, (*self.vectors, (name, ends)))


@dataclass
class _Writer:
    draw: Callable[..., Any]
    dtype: str
    inputs: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    names: int = 0

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def one_of(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def number(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def input(self, shape: Shape) -> Expression:
        """A new input of this shape, or an old one."""
        old = [name for name, array in self.inputs.items() if array.shape == shape]
        if old and self.number(0, 2):
            name = self.one_of(*old)
        else:
            name = self.fresh("a")
            seed = self.number(0, 2**16)
            data = np.random.default_rng(seed).integers(-9, 10, shape)
            self.inputs[name] = (data / (8 if self.dtype == "float64" else 1)).astype(self.dtype)
        return Expression(name, lambda _: self.inputs[name])

    def expression(self, shape: Shape, depth: int, scope: Scope) -> Expression:
        if depth <= 0:
            return self.leaf(shape, scope)
        makers = [self.elementwise, self.elementwise, self.choice, self.selection, self.where]
        if shape:
            makers += [
                self.reversed, self.transposed, self.cut, self.comprehension, self.comprehension,
                self.by_vector, self.partitions, self.genarray, self.modarray, self.dotted,
                self.call,
            ]  # fmt: skip
            if shape[0]:
                makers += [self.joined, self.row]
        else:
            makers += [self.sum, self.fold]
        maker = self.draw(st.sampled_from(makers))
        return maker(shape, depth - 1, scope)

    def leaf(self, shape: Shape, scope: Scope) -> Expression:
        if shape:
            return self.input(shape)
        kind = self.number(0, 3)
        if kind == 0 and scope.scalars:
            name = self.one_of(*scope.scalars)[0]
            return Expression(name, lambda env: np.array(env[name], self.dtype))
        if kind == 1 and scope.vectors:
            name, ends = self.one_of(*scope.vectors)
            if ends:
                axis = self.number(0, len(ends) - 1)
                return Expression(
                    f"{name}[{axis}]", lambda env: np.array(env[name][axis], self.dtype)
                )
        if kind == 2:
            return self.input(())
        literal = self.number(0, 9)
        return Expression(str(literal), lambda _: np.array(literal, self.dtype))

    def elementwise(self, shape: Shape, depth: int, scope: Scope) -> Expression:
        op = self.one_of("+", "-", "min", "max", "*")
        left = self.expression(shape, depth, scope)
        right = self.expression(self.one_of(shape, ()), depth - 1, scope)
        if op == "*":
            factor = self.number(2, 3)
            return Expression(f"({left.text} * {factor})", lambda env: left.value(env) * factor)
        function = {"+": np.add, "-": np.subtract, "min": np.minimum, "max": np.maximum}[op]
        pair = left.text, right.text
        text = f"({pair[0]} {op} {pair[1]})" if op in "+-" else f"{op}({', '.join(pair)})"
        return Expression(text, lambda env: function(left.value(env), right.value(env)))

    def choice(self, shape: Shape, depth: int, scope: Scope) -> Expression:
        test, than = (self.expression((), depth - 1, scope) for _ in range(2))
        then, otherwise = (self.expression(shape, depth, scope) for _ in range(2))
        return Expression(
            f"({test.text} < {than.text} ? {then.text} : {otherwise.text})",
            lambda env: (then if test.value(env) < than.value(env) else otherwise).value(env),
        )

    def where(self, shape: Shape, depth: int, scope: Scope) -> Expression:
        test, then, otherwise = (self.expression(shape, depth - 1, scope) for _ in range(3))
        return Expression(
            f"where({test.text} > 0, {then.text}, {otherwise.text})",
            lambda env: np.where(test.value(env) > 0, then.value(env), otherwise.value(env)),
        )

    def selection(self, shape: Shape, depth: int, scope: Scope) -> Expression:
        """A selection whose index stays in the array: bare indices, or sums taken modulo a size."""
        if scope.vectors and self.number(0, 1):
            name, ends = self.one_of(*scope.vectors)
            array = self.expression((*ends, *shape), depth - 1, scope)
            return Expression(
                f"{array.text}[{name}]", lambda env: array.value(env)[tuple(env[name])]
            )
        items: list[tuple[str, Callable[[Env], int]]] = []
        sizes: list[int] = []
        for _ in range(self.number(1, 2)):
            text, value, size = self.index(scope)
            items.append((text, value))
            sizes.append(size)
        array = self.expression((*sizes, *shape), depth - 1, scope)
        return Expression(
            f"{array.text}[{', '.join(text for text, _ in items)}]",
            lambda env: array.value(env)[tuple(value(env) for _, value in items)],
        )

    def index(self, scope: Scope) -> tuple[str, Callable[[Env], int], int]:
        if scope.scalars and self.number(0, 3):
            name, end = self.one_of(*scope.scalars)
            if self.number(0, 1):
                return name, lambda env: env[name], end
            shift, size = self.number(0, 3), self.number(1, 4)
            return f"(({name} + {shift}) % {size})", lambda env: (env[name] + shift) % size, size
        size = self.number(1, 4)
        literal = self.number(0, size - 1)
        return str(literal), lambda _: literal, size

    def reversed(self, shape: Shape, depth: int, scope: Scope) -> Expression:
        inner = self.expression(shape, depth, scope)
        return Expression(f"reverse({inner.text})", lambda env: inner.value(env)[::-1])

    def transposed(self, shape: Shape, depth: int, scope: Scope) -> Expression:
        inner = self.expression(shape[::-1], depth, scope)
        return Expression(f"transpose({inner.text})", lambda env: inner.value(env).T)

    def cut(self, shape: Shape, depth: int, scope: Scope) -> Expression:
        count, is_front = self.number(0, 2), self.number(0, 1)
        inner = self.expression((shape[0] + count, *shape[1:]), depth, scope)
        n = shape[0]
        if self.number(0, 1):
            amount = count if is_front else -count
            return Expression(
                f"drop([{amount}], {inner.text})",
                lambda env: inner.value(env)[count:] if is_front else inner.value(env)[:n],
            )
        amount = n if is_front else -n
        return Expression(
            f"take([{amount}], {inner.text})",
            lambda env: inner.value(env)[:n] if is_front else inner.value(env)[count:],
        )

    def joined(self, shape: Shape, depth: int, scope: Scope) -> Expression:
        first = self.number(0, shape[0])
        left = self.expression((first, *shape[1:]), depth, scope)
        right = self.expression((shape[0] - first, *shape[1:]), depth, scope)
        return Expression(
            f"({left.text} ++ {right.text})",
            lambda env: np.concatenate([left.value(env), right.value(env)]),
        )

    def row(self, shape: Shape, depth: int, scope: Scope) -> Expression:
        rows = [self.expression(shape[1:], depth - 1, scope) for _ in range(shape[0])]
        text = ", ".join(row.text for row in rows)
        return Expression(f"[{text}]", lambda env: np.stack([row.value(env) for row in rows]))

    def sum(self, _shape: Shape, depth: int, scope: Scope) -> Expression:
        inner = self.expression(self.draw(shapes(2, 3)), depth, scope)
        return Expression(f"sum({inner.text})", lambda env: inner.value(env).sum(dtype=self.dtype))

    def call(self, shape: Shape, depth: int, scope: Scope) -> Expression:
        inner = self.expression(shape, depth, scope)
        if self.number(0, 1):
            return Expression(f"twice({inner.text})", lambda env: 2 * inner.value(env))
        return Expression(f"shifted({inner.text})", lambda env: np.roll(inner.value(env), -1, 0))

    # --- comprehensions and with-loops ------------------------------------------------------------

    def filled(
        self, shape: Shape, count: int, axes: Sequence[int], body: Callable[..., Any], env: Env
    ) -> np.ndarray[Any, Any]:
        """An array whose parts along some axes are bodies at an index."""
        result = np.zeros(shape, self.dtype)
        for index in np.ndindex(*(shape[axis] for axis in axes)):
            place: list[Any] = [slice(None)] * len(shape)
            for axis, k in zip(axes, index, strict=True):
                place[axis] = k
            result[tuple(place)] = body(index, env)
        assert len(axes) == count
        return result

    def comprehension(self, shape: Shape, depth: int, scope: Scope) -> Expression:
        count = self.number(1, min(2, len(shape)))
        names = [self.fresh("i") for _ in range(count)]
        body = self.expression(shape[count:], depth, scope.with_scalars(names, shape[:count]))
        index = ", ".join(names)
        ends = ", ".join(map(str, shape[:count]))
        return Expression(
            f"{{ [{index}] -> {body.text} | [{index}] < [{ends}] }}",
            lambda env: self.filled(
                shape,
                count,
                range(count),
                lambda k, outer: body.value({**outer, **dict(zip(names, k, strict=True))}),
                env,
            ),
        )

    def dotted(self, shape: Shape, depth: int, scope: Scope) -> Expression:
        """`[., i]`, `[..., i]`, `[i, ..., j]` and their like."""
        count = self.number(1, min(2, len(shape)))
        axes = sorted(self.draw(st.permutations(range(len(shape))))[:count])
        names = [self.fresh("i") for _ in range(count)]
        entries = ["."] * len(shape)
        for name, axis in zip(names, axes, strict=True):
            entries[axis] = name
        rest = tuple(n for axis, n in enumerate(shape) if axis not in axes)
        if self.number(0, 1):
            entries = self.with_dots(entries)
        ends = [shape[axis] for axis in axes]
        body = self.expression(rest, depth, scope.with_scalars(names, ends))
        index = ", ".join(names)
        return Expression(
            f"{{ [{', '.join(entries)}] -> {body.text} | [{index}] < "
            f"[{', '.join(map(str, ends))}] }}",
            lambda env: self.filled(
                shape,
                count,
                axes,
                lambda k, outer: body.value({**outer, **dict(zip(names, k, strict=True))}),
                env,
            ),
        )

    def with_dots(self, entries: list[str]) -> list[str]:
        """A pattern in which one run of dots, which may be empty, is `...`."""
        start = self.number(0, len(entries))
        end = start
        while end < len(entries) and entries[end] == ".":
            end += 1
        return [*entries[:start], "...", *entries[end:]]

    def by_vector(self, shape: Shape, depth: int, scope: Scope) -> Expression:
        count = self.number(0, len(shape))
        name = self.fresh("v")
        ends = shape[:count]
        body = self.expression(shape[count:], depth, scope.with_vector(name, ends))
        return Expression(
            f"{{ {name} -> {body.text} | {name} < [{', '.join(map(str, ends))}] }}",
            lambda env: self.filled(
                shape, count, range(count), lambda k, outer: body.value({**outer, name: k}), env
            ),
        )

    def partitions(self, shape: Shape, depth: int, scope: Scope) -> Expression:
        """A partition over a part of the first axis, before one that gives the rest."""
        low = self.number(0, shape[0])
        high = self.number(low, shape[0])
        name, other = self.fresh("i"), self.fresh("i")
        inner = scope.with_scalars([name], [high])
        first = self.expression(shape[1:], depth, inner)
        start = self.number(0, min(1, shape[0]))
        last = self.expression(shape[1:], depth, scope.with_scalars([other], [shape[0]]))

        def value(env: Env) -> np.ndarray[Any, Any]:
            result = np.zeros(shape, self.dtype)
            if result.size:
                for k in range(shape[0]):
                    if low <= k < high:
                        result[k] = first.value({**env, name: k})
                    elif k >= start:
                        result[k] = last.value({**env, other: k})
            return result

        return Expression(
            f"{{ [{name}] -> {first.text} | [{low}] <= [{name}] < [{high}]; "
            f"[{other}] -> {last.text} | [{start}] <= [{other}] < [{shape[0]}] }}",
            value,
        )

    def genarray(self, shape: Shape, depth: int, scope: Scope) -> Expression:
        low = self.number(0, shape[0])
        name = self.fresh("i")
        body = self.expression(shape[1:], depth, scope.with_scalars([name], [shape[0]]))
        default = self.expression(shape[1:], depth - 1, scope)
        n = shape[0]

        def value(env: Env) -> np.ndarray[Any, Any]:
            result = np.zeros(shape, self.dtype)
            for k in range(n if result.size else 0):
                result[k] = body.value({**env, name: k}) if k >= low else default.value(env)
            return result

        return Expression(
            f"with {{ ([{low}] <= [{name}] < [{n}]) : {body.text}; }} : "
            f"genarray([{n}], {default.text})",
            value,
        )

    def modarray(self, shape: Shape, depth: int, scope: Scope) -> Expression:
        low = self.number(0, shape[0])
        name = self.fresh("i")
        body = self.expression(shape[1:], depth, scope.with_scalars([name], [shape[0]]))
        array = self.expression(shape, depth - 1, scope)
        n = shape[0]

        def value(env: Env) -> np.ndarray[Any, Any]:
            result = np.array(array.value(env), self.dtype)
            for k in range(low, n if result.size else 0):
                result[k] = body.value({**env, name: k})
            return result

        return Expression(
            f"with {{ ([{low}] <= [{name}] <= .) : {body.text}; }} : modarray({array.text})", value
        )

    def fold(self, _shape: Shape, depth: int, scope: Scope) -> Expression:
        end = self.number(0, 4)
        name = self.fresh("i")
        body = self.expression((), depth, scope.with_scalars([name], [end]))
        op = self.one_of("+", "max")

        def value(env: Env) -> np.ndarray[Any, Any]:
            total = np.array(0, self.dtype)
            for k in range(end):
                new = np.asarray(body.value({**env, name: k}), self.dtype)
                total = np.asarray(total + new if op == "+" else np.maximum(total, new))
            return total

        return Expression(
            f"with {{ ([0] <= [{name}] < [{end}]) : {body.text}; }} : fold({op}, 0)", value
        )


_SPELLINGS = {"int32": "int", "int64": "int64", "float64": "double"}


@st.composite
def shapes(draw: Any, most_axes: int = 4, most: int = 4) -> Shape:
    """Shapes, of scalars and with sizes 0 and 1 included."""
    return tuple(draw(st.lists(st.integers(0, most), max_size=most_axes)))


@st.composite
def programs(draw: Any, depth: int = 4) -> Program:
    """Rank-polymorphic programs: comprehensions of all patterns, several partitions, dots, nested
    folds, gathers and functions, on arrays of rank 0 to 4."""
    dtype = draw(st.sampled_from(list(_SPELLINGS)))
    writer = _Writer(draw, dtype)
    shape = draw(shapes(3, 3))
    found = writer.expression(shape, draw(st.integers(1, depth)), Scope())
    writer.inputs["z"] = np.array(1, dtype)
    kind = _SPELLINGS[dtype]
    parameters = ", ".join(f"{kind}[*] {name}" for name in writer.inputs)
    text = (
        f"{kind}[*] twice({kind}[*] r) {{ return r + r; }}\n"
        f"{kind}[*] shifted({kind}[*] r) {{ n = shape(r)[0]; "
        f"return n == 0 ? r : {{ [i] -> r[(i + 1) % n] | [i] < [n] }}; }}\n"
        f"{kind}[*] main({parameters}) {{ return {found.text} + z; }}"
    )
    with np.errstate(all="ignore"):
        due = np.asarray(np.asarray(found.value({})).astype(dtype) + np.array(1, dtype))
    return Program(text, writer.inputs, due.astype(dtype))
