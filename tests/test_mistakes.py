"""What users of other languages write: each repair offered means what they meant, and where none is
offered, the idiom runs."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tc
from tc.builtins import lookup
from tc.errors import TCError
from tests.mistakes import functions, operators, ranges, statements
from tests.mistakes.row import INPUTS, Row, expected

ROWS = [*operators.ROWS, *functions.ROWS, *ranges.ROWS, *statements.ROWS]
REPAIRED = [row for row in ROWS if row.intent is not None]
SHOWN = [row for row in ROWS if row.intent is None]
MAX_PASTES = 4


def error_of(text: str) -> TCError:
    with pytest.raises(TCError) as caught:
        tc.interpret(text, [*INPUTS.values()])
    return caught.value


def test_there_are_enough() -> None:
    assert len(ROWS) >= 300
    assert len({row.written for row in ROWS}) == len(ROWS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", REPAIRED, ids=lambda row: row.written)
def test_the_repair_means_what_was_meant(row: Row) -> None:
    error = error_of(row.program)
    assert error.repair == row.said
    text = error.repaired()
    for _ in range(MAX_PASTES):
        assert text is not None
        try:
            found = np.asarray(tc.interpret(text, [*INPUTS.values()]))
            break
        except TCError as again:
            text = again.repaired()
    else:
        pytest.fail(f"no program after {MAX_PASTES} pastes: {text}")
    assert row.intent is not None
    meant = expected(row.intent)
    assert found.shape == meant.shape, text
    np.testing.assert_allclose(found.astype(float), meant.astype(float), 2e-5, 1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", SHOWN, ids=lambda row: row.written)
def test_nothing_is_offered_where_the_intent_is_not_known(row: Row) -> None:
    error = error_of(row.program)
    assert error.repaired() is None
    assert row.said in (error.idiom, error.repair)
    if (example := error.exemplified()) is not None:
        tc.interpret(example, [*INPUTS.values()])


STATEMENT = re.compile(
    r"(?:^|: | and then |, then |; )([a-z]\w*(?:\([\w, ]*\))? (?:=|[+*]=!?|m(?:in|ax)=!?) .*?)"
    r"(?=$|, for |, and read |, before | for every | sums over |, whether |; | and then |, then "
    r"|, of floats|, if |, which |, with | is |, to )"
)


def statements_of(idiom: str) -> list[str]:
    """The statements that an idiom shows."""
    return [m.group(1) for m in STATEMENT.finditer(idiom) if "..." not in m.group(1)]


def program_of(shown: list[str]) -> str:
    """A def with the statements, and parameters of the ranks that they give to other tensors."""
    text = "\n".join(shown)
    ranks = {
        name: args.count(",") + 1 if args.strip() else 0
        for name, args in re.findall(r"(\w+)\(((?:[^()]|\([^()]*\))*)\)", text)
        if lookup(name) is None and name not in ("float", "double", "int", "min", "max", "pad")
    }
    targets = [re.findall(r"\w+", statement)[0] for statement in shown]
    params = ["float(N, M) sizes"]
    for name, rank in ranks.items():
        if name not in targets:
            dims = ", ".join(("N", "M", "S2", "S3")[:rank])
            params.append(f"{'int' if name == 'I' else 'float'}({dims}) {name}")
    return f"def f({', '.join(params)}) -> ({targets[-1]}) {{\n{text}\n}}"


PARTS = {part for row in SHOWN for part in row.said.split("; ")}
IDIOMS = sorted(part for part in PARTS if statements_of(part) and "\n" not in part)


def test_idioms_of_statements_are_found() -> None:
    assert len(IDIOMS) >= 15


@pytest.mark.parametrize("idiom", IDIOMS)
def test_the_idiom_is_of_the_language(idiom: str) -> None:
    text = program_of(statements_of(idiom))
    tc.compile(text)
