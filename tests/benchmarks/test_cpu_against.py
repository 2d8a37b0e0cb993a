"""`bench.cpu --against COMMIT`: two trees, each timed by itself, and what is told about them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bench import cpu, cpu_against
from bench.cpu_against import BEFORE, NOW, Row, check_origins, commit_of, report, summary, trees
from bench.cpu_kernels.table import LISTED, PRIME, select
from bench.cpu_measure import Settings, Timing
from bench.peers.process import ROOT, PeerError, PeerProcess

LONG = 600  # seconds, for what takes a few, on a machine that has other work as well
needs_commits = pytest.mark.skipif(
    not (ROOT / ".git").exists(), reason="there are no commits beside this tree"
)


def run(now: list[float], before: list[float]) -> dict[str, Timing]:
    return {NOW: Timing(1.0, rounds=now), BEFORE: Timing(1.0, rounds=before)}


def test_a_ratio_is_of_two_times_of_one_round() -> None:
    """The second round, and its third in the second run, are slow for both."""
    row = Row(LISTED[0], [run([1.0, 8.0, 2.0], [2.0, 8.0, 3.0]), run([1.0], [1.2])])
    assert row.ratios == [[2.0, 1.0, 1.5], [1.2]]
    assert row.ratio == pytest.approx(1.35)
    assert row.cells() == [
        *("tmm 128x32x256", "1.5 s", "2.5 s"),
        *("1.350", "1.150 to 1.625", "1.500, 1.200"),
    ]


def test_a_kernel_that_failed_has_no_ratio() -> None:
    wrong = {**run([1.0], [1.0]), NOW: Timing(reason="wrong: 3 times the tolerance", rounds=[1.0])}
    row = Row(LISTED[0], [run([1.0], [1.0]), wrong])
    assert row.ratio is None
    assert row.cells()[1:] == ["-"] * 5
    assert summary([row]).splitlines() == [
        "under 0.93: none",
        "- tmm 128x32x256: now: wrong: 3 times the tolerance",
    ]


def test_summary_names_what_is_slower() -> None:
    rows = [
        Row(LISTED[0], [run([1.0], [2.0])]),
        Row(LISTED[1], [run([2.0], [1.0])]),
        Row(PRIME[0], [run([1.0], [4.0])]),
    ]
    text = report(rows, "a machine", "0123456789abcdef")
    assert text.startswith("a machine\n\n`now` is the tree above, `before` commit 0123456789;")
    assert "all: geometric mean 1.587 over 3 kernels, least 0.500 (asked: 0.98 at least)" in text
    assert "listed: geometric mean 1.000 over 2 kernels" in text
    assert "prime: geometric mean 4.000 over 1 kernels" in text
    assert f"under 0.93: {LISTED[1].name} 0.500\n" in text


def test_trees_are_of_the_files_and_of_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository, folder = tmp_path / "repository", tmp_path / "trees"
    (repository / "tc").mkdir(parents=True)
    folder.mkdir()
    (repository / "tc" / "__init__.py").write_text("as committed")
    (repository / "tc" / "gone.py").write_text("")
    author = ("-c", "user.name=a", "-c", "user.email=a@b")
    for command in (["init", "-q"], ["add", "-A"], [*author, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *command], cwd=repository, check=True)
    (repository / "tc" / "__init__.py").write_text("as it is")
    (repository / "tc" / "gone.py").unlink()
    monkeypatch.setattr(cpu_against, "ROOT", repository)
    roots = trees(commit_of("HEAD"), folder)
    assert (roots[NOW] / "tc" / "__init__.py").read_text() == "as it is"
    assert (roots[BEFORE] / "tc" / "__init__.py").read_text() == "as committed"
    assert [(root / "tc" / "gone.py").exists() for root in roots.values()] == [False, True]


@needs_commits
def test_both_are_timed_and_checked(capsys: pytest.CaptureFixture[str]) -> None:
    kernels = select(["tmm 128x32x256"])
    settings = Settings(threads=1, rounds=2, turn=0.001, build_limit=LONG)
    (row,) = cpu_against.measured(commit_of("HEAD"), kernels, "tc", settings, 2)
    assert row.reasons == []
    assert [len(ratios) for ratios in row.ratios] == [2, 2]
    assert row.ratio is not None
    errors = [timing.error for run in row.runs for timing in run.values()]
    assert all(error is not None and error <= 1 for error in errors)
    assert capsys.readouterr().out.count("tmm 128x32x256, ") == 2


def test_a_process_with_another_tc_is_found_out() -> None:
    process = PeerProcess(NOW, 1, peer="tc")
    try:
        check_origins([process], {NOW: ROOT})
        with pytest.raises(PeerError, match="'now' has imported "):
            check_origins([process], {NOW: ROOT / "tests"})
    finally:
        process.end()


@needs_commits
def test_the_report_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [Row(LISTED[0], [run([1.0], [2.0])])]
    monkeypatch.setattr(cpu_against, "measured", lambda *_: rows)
    out = tmp_path / "against"
    cpu.main(["--against", "HEAD", "--kernels", "tmm", "--out", str(out)])
    text = out.with_suffix(".md").read_text(encoding="utf-8")
    assert "| tmm 128x32x256 | 1 s   | 2 s      | 2.000   |" in text
    assert commit_of("HEAD")[:10] in text
    assert text in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--against", "no-such-commit"], "no commit 'no-such-commit' in "),
        pytest.param(
            ["--against", "HEAD", "--peers", "numpy"],
            "of the peers one is tc, and not none",
            marks=needs_commits,
        ),
    ],
)
def test_bad_arguments_are_refused(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cpu.arguments_of(given)
    assert said in capsys.readouterr().err
