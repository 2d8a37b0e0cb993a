"""The table of mutations, and what their edits share."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.fuzz.legal import Call, call_of, edited, pick
from tests.fuzz.model import Case, Expr

Edit = Callable[[Case, random.Random], Call | None]


@dataclass(frozen=True)
class Mutation:
    """`rule` is the rule that the error must cite ("" for none), `error` the class of the error."""

    name: str
    rule: str
    error: str
    edit: Edit


MUTATIONS: list[Mutation] = []


def breaks(rule: str, error: str) -> Callable[[Edit], Edit]:
    """Enters an edit into the table."""

    def enter(edit: Edit) -> Edit:
        MUTATIONS.append(Mutation(edit.__name__, rule, error, edit))
        return edit

    return enter


def texts(rule: str, name: str, change: Callable[[str, Case, random.Random], str | None]) -> None:
    """Enters a change of the text alone, refused by the parser."""

    def edit(case: Case, rng: random.Random) -> Call | None:
        call = call_of(case)
        text = change(call.text, case, rng)
        return None if text is None or text == call.text else replace(call, text=text)

    MUTATIONS.append(Mutation(name, rule, "ParseError", edit))


def with_value(value: str) -> Callable[[str, Case, random.Random], str | None]:
    """The right-hand side of some statement, and something more."""

    def change(text: str, _case: Case, rng: random.Random) -> str | None:
        lines = text.splitlines()
        fitting = [k for k, line in enumerate(lines) if k and "=" in line and "concat" not in line]
        if not fitting:
            return None
        k = rng.choice(fitting)
        head, where, tail = lines[k].partition(" where ")
        lines[k] = f"{head} {value}{where}{tail}"
        return "\n".join(lines) + "\n"

    return change


def once(old: str, new: str) -> Callable[[str, Case, random.Random], str | None]:
    """The first text that matches, replaced."""
    return lambda text, _case, _rng: re.sub(old, new, text, count=1)


def adding(case: Case, line: str, returned: bool = True) -> Call:
    """The text with one more line, whose target is `zo`."""
    call = call_of(case)
    text = call.text.removesuffix("}\n") + f"  {line}\n}}\n"
    return replace(call, text=more_returns(text, "zo") if returned else text)


def more_returns(text: str, name: str) -> str:
    return re.sub(r"-> \(([^{]*)\) \{", rf"-> (\1, {name}) {{", text, count=1)


def returning(case: Case, name: str, instead: str) -> Call:
    call = call_of(case)
    returns = ", ".join(instead if n == name else n for n in case.returns)
    text = re.sub(r"-> \([^{]*\) \{", f"-> ({returns}) {{", call.text, count=1)
    return replace(call, text=text)


def with_sum(case: Case, rng: random.Random, value: Expr, op: str = "+") -> Case | None:
    at = pick(case, rng, lambda _s: True)
    return None if at is None else edited(case, at, rhs=("bin", op, case.statements[at].rhs, value))
