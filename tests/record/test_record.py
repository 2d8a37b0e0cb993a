"""A sample of the record, so that a change of texts is not found late: every twentieth program.
Where the change is wanted, `python -m tests.record --store` and say in the commit which and why."""

from __future__ import annotations

import pytest

from tests.record.__main__ import main
from tests.record.digests import differences, digests_of, read
from tests.record.texts import SUBJECTS


@pytest.mark.parametrize("name", list(SUBJECTS)[::20])
def test_sample(name: str) -> None:
    stored = {key: value for key, value in read().items() if key.split()[0] == name}
    assert not differences(stored, digests_of(name))


def test_a_difference_is_named() -> None:
    stored = {"mm zen4 naive": {"c": "1", "numba": "2"}, "mv zen4 naive": {"c": "1"}}
    found = {"mm zen4 naive": {"c": "1", "numba": "3"}, "tmm zen4 naive": {"c": "1"}}
    assert differences(stored, found) == [
        "mm zen4 naive: numba",
        "mv zen4 naive: no longer there",
        "tmm zen4 naive: not in the record",
    ]


def test_unknown_programs_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "no such"])
    assert "no program has 'no such'" in capsys.readouterr().err
