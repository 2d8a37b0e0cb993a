"""The suites of others: what is read of their sources, what is drawn, and what the tables say."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import tc
from bench import timing
from bench.suites import __main__ as suites
from bench.suites import apart, contraction, drawn, images, kernelbench, npbench, products, tccg
from bench.suites.compiled_texts import TEXTS, Compared, elements_beyond
from bench.suites.contraction import Contraction
from bench.suites.npbench_programs import SMALL
from bench.suites.npbench_recurrences import SMALL_RECURRENCES
from bench.suites.record import Record, clock, timed
from bench.suites.report import report, summary
from bench.suites.sources import find_suites
from bench.timing import timer_of
from tc.frontend.format import format_source
from tc.source import Source

TCCG = """
if small:
    testcases_ccsd = ["ab-ab-ab"]
else:
    testcases_ccsd = [ "ij-ik-kj" , "ij-ikl-ljk" ]
testcases_intensli = ["abj-bka-kj"]
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "tccg"
    (root / "benchmark").mkdir(parents=True)
    (root / "benchmark" / "benchmark.py").write_text(TCCG, encoding="utf-8")
    return root


def test_equations_are_those_that_the_suite_runs(checkout: Path) -> None:
    found = tccg.equations(checkout)
    assert found == [("intensli", "abj-bka-kj"), ("ccsd", "ij-ik-kj"), ("ccsd", "ij-ikl-ljk")]


def test_a_bare_git_directory_serves_as_well(checkout: Path, tmp_path: Path) -> None:
    bare, taken = tmp_path / "bare", tmp_path / "taken"
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "all"]):
        subprocess.run(["git", *command], cwd=checkout, check=True)
    subprocess.run(["git", "clone", "-q", "--bare", checkout, bare], check=True)
    assert find_suites([bare], taken) == {"tccg": taken / "tccg"}
    assert tccg.equations(taken / "tccg") == tccg.equations(checkout)


def test_a_path_without_a_suite_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no checkout or git directory of tccg, npbench"):
        find_suites([tmp_path], tmp_path)


@pytest.mark.parametrize("layout", tccg.LAYOUTS)
def test_the_largest_tensor_has_about_the_size_asked_for(layout: str) -> None:
    for equation in ("ij-ik-kj", "ijk-ikl-lj"):
        found = tccg.contraction_of("ccsd", equation, 4, layout)
        tensors = (found.left, found.right, found.result)
        largest = max(4 * np.prod([found.sizes[i] for i in tensor]) for tensor in tensors)
        assert 0.4 < largest / 2**22 < 2.5
        assert (found.result == "ij") == (equation == "ij-ik-kj" and layout == "row")


@pytest.mark.parametrize("type_", contraction.TYPES)
def test_wrong_elements_are_counted(type_: str) -> None:
    rng = np.random.default_rng(1)
    product = Contraction("bik", "kjb", "jib", {"b": 2, "i": 5, "j": 7, "k": 9}, type_)
    a, b = product.operands(rng, product.sizes)
    found = tc.compile(product.text)(a, b)
    bound = tc.error_bound(product.text, [a, b])
    assert found.dtype == a.dtype
    assert product.beyond(found, a, b) == product.beyond(found, a, b, bound=bound) == 0
    found[[3, 0], [4, 0], [1, 0]] = 101 - found[[3, 0], [4, 0], [1, 0]] // 2
    assert product.beyond(found, a, b) == product.beyond(found, a, b, bound=bound) == 2


def test_drawn_contractions_are_what_they_are_said_to_be() -> None:
    found = drawn.drawn_contractions(60, seed=5)
    ranks = {len(t) for c in found for t in (c.left, c.right, c.result)}
    assert ranks == {1, 2, 3, 4, 5}
    assert {c.type for c in found} == {"float", "double"}
    assert any(set(c.left) & set(c.right) & set(c.result) for c in found), "batches"
    assert any(size < 9 for c in found for size in c.sizes.values()), "skinny"
    for c in found:
        summed = (set(c.left) & set(c.right)) - set(c.result)
        assert summed
        assert set(c.result) <= set(c.left) | set(c.right) == set(c.sizes)
        assert set(c.left) ^ set(c.right) <= set(c.result)
        elements = [np.prod([c.sizes[i] for i in t]) for t in (c.left, c.right, c.result)]
        assert max(elements) <= drawn.MOST_ELEMENTS
    assert found == drawn.drawn_contractions(60, seed=5) != drawn.drawn_contractions(60, seed=6)


@pytest.mark.parametrize("name", images.MARGINS)
def test_chains_on_images(name: str) -> None:
    case = images.kernel_of(name, 19, 26).case()
    function = tc.compile(case.kernel.text)
    wanted = tc.interpret(case.kernel.text, *case.inputs)
    bound = tc.error_bound(case.kernel.text, *case.inputs)
    function(*case.inputs, outputs=case.outputs[0])
    assert elements_beyond(case.outputs[0], wanted, bound) == 0


def test_without_halide_no_chain_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(images, "has_halide", lambda: False)
    suites.main(["--images"])
    assert "Halide is not installed" in capsys.readouterr().out


def test_products_stand_both_ways_round() -> None:
    shapes = {tuple(c.sizes[i] for i in "ikj") for c in products.products().values()}
    assert {(1, 17, 4096), (4096, 17, 1), (129, 1000, 64), (2048, 2048, 2048)} <= shapes
    assert all((n, k, m) in shapes for m, k, n in shapes)


def test_each_peer_computes_the_contraction() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("jax", reason="jax is not installed")
    rng = np.random.default_rng(2)
    for type_ in ("float", "double"):
        found = Contraction("abc", "cad", "dba", {"a": 2, "b": 3, "c": 4, "d": 5}, type_)
        a, b = found.operands(rng, found.sizes)
        for run in contraction.einsum_peers(found, a, b).values():
            result = np.asarray(run())
            assert result.dtype == a.dtype
            assert found.beyond(result, a, b) == 0
    product = Contraction("ik", "kj", "ij", {"i": 3, "j": 4, "k": 5})
    a, b = product.operands(rng, product.sizes)
    for run in contraction.product_peers(product, a, b).values():
        np.testing.assert_allclose(np.asarray(run()), a @ b, rtol=1e-5)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.suites.record.REST", 0.0)
    monkeypatch.setattr("bench.suites.record.WARM", 0.0)


@pytest.mark.usefixtures("quick")
def test_each_run_is_timed() -> None:
    calls = {"tc": 0, "other": 0}

    def run(name: str) -> None:
        calls[name] += 1

    timers = {name: timer_of(lambda name=name: run(name)) for name in calls}
    medians, least = timed(timers, 0.0)
    assert list(medians) == list(least) == ["tc", "other"]
    assert all(0 < least[name] <= medians[name] for name in calls)
    assert min(calls.values()) > 3


RECORDS = [
    Record("A", "one", "n 3", {"tc": 2.0, "numpy": 1.0, "numpy dense": 4.0, "jax": 6.0}),
    Record("A", "two", "n 4", {"tc": 1.0, "numpy": 2.0, "numpy dense": 2.0}),
    Record("B", "three", "n 5", {"tc": 1.0, "torch": 4.0}, beyond=7),
    Record("B", "four", "n 6", {"torch": 4.0}, notes={"tc": "over 9 s"}),
]


def test_means_and_what_is_behind_stand_in_the_summary() -> None:
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in summary(RECORDS).split("\n")]
    assert rows[2:] == [
        ["A", "2 of 2", "1.00", "2.00", "1: one 0.50"],
        ["B", "0 of 2", "4.00", "-", "0"],
    ]


def test_the_report_names_each_program_and_each_failure() -> None:
    text = report("a machine", RECORDS)
    assert "| one " in text
    assert "- B, four: tc: over 9 s" in text
    cells = [cell.strip() for cell in text.split("| three ")[1].split("\n")[0].split("|")]
    assert cells == ["", "n 5", "4.00", "torch", "1 s", "4 s", "7", ""]


def test_a_run_goes_on_where_it_ended(
    checkout: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(
        "bench.suites.task.measured",
        lambda found, suite, name, **_: Record(suite, name, found.einsum, {"tc": 1.0, "jax": 3.0}),
    )
    monkeypatch.setattr(suites, "RESULTS", tmp_path)
    records = tmp_path / "records.jsonl"
    given = [str(checkout), "--records", str(records)]
    suites.main([*given, "--only", "ij-ik-kj"])
    records.write_text(records.read_text() + '{"suite": "cut', encoding="utf-8")
    capsys.readouterr()
    suites.main([*given, "--save"])
    printed = capsys.readouterr().out
    assert "ij-ik-kj  ik" not in printed
    assert "abj-bka-kj  akb,jk->jba: ratio 3.00 (jax), of least -" in printed
    names = [json.loads(text)["name"] for text in records.read_text().splitlines()[1:]]
    assert names == ["ij-ik-kj", "abj-bka-kj", "ij-ikl-ljk"]
    (saved,) = tmp_path.glob("suites-*.md")
    assert all(f"| {name} " in saved.read_text() for name in names)
    heading, *rest = records.read_text().splitlines()
    other = json.dumps({**json.loads(heading), "tc": "another"})
    records.write_text("\n".join([other, *rest, ""]), encoding="utf-8")
    with pytest.raises(SystemExit, match="records of another run: tc differs"):
        suites.main(given)


NPBENCH = {
    "bench_info/atax.json": json.dumps(
        {
            "benchmark": {
                "relative_path": "linear/atax",
                "module_name": "atax",
                "func_name": "kernel",
                "parameters": {"S": {"M": 30, "N": 40}},
                "init": {
                    "func_name": "initialize",
                    "input_args": ["M", "N"],
                    "output_args": ["x", "A"],
                },
                "input_args": ["A", "x"],
                "array_args": ["A", "x"],
                "output_args": [],
            }
        }
    ),
    "npbench/benchmarks/linear/atax/atax.py": """
import numpy as np
def initialize(M, N):
    return np.linspace(0, 1, N), np.arange(M * N).reshape(M, N) / (M * N)
""",
    "npbench/benchmarks/linear/atax/atax_numpy.py": "def kernel(A, x): return A @ x @ A",
    "npbench/benchmarks/linear/atax/atax_numba_o.py": "def kernel(A, x): return A @ x @ A + 1",
    "npbench/benchmarks/linear/atax/atax_numba_n.py": "def kernel(A, x): raise OSError('none')",
    "npbench/benchmarks/linear/atax/atax_numba_np.py": "def kernel_of_another_name(): pass",
}
KERNELBENCH = """
import torch
batch_size, dim = 16, 20
class Model(torch.nn.Module):
    def forward(self, x): return torch.relu(x)
def get_inputs(): return [torch.rand(batch_size, dim) - 0.5]
def get_init_inputs(): return []
"""


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


@pytest.mark.usefixtures("quick")
def test_a_program_of_npbench_is_compared_and_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = written(tmp_path, NPBENCH)
    monkeypatch.setattr("sys.modules", dict(sys.modules))
    (record,) = npbench.measured(root, "atax", "S", 0.0, ["jax"])
    assert (record.suite, record.name, record.sizes) == ("NPBench S", "atax", "M 30, N 40")
    assert record.right
    assert set(record.seconds) == {"tc", "numpy"}
    assert record.notes == {"numba": "OSError: none"}
    monkeypatch.setitem(
        npbench.ALL, "atax", lambda f: lambda A, x: f.atax(A, x) + (2 * x if len(A) > 9 else 0)
    )
    (record,) = npbench.measured(root, "atax", "S", 0.0, ["jax"])
    assert record.beyond == 1


def test_every_text_has_a_program_and_small_sizes() -> None:
    names = {path.stem for path in (TEXTS / "npbench").glob("*.tc")}
    assert names == set(npbench.ALL) == {*SMALL, *SMALL_RECURRENCES}
    assert set(kernelbench.PROBLEMS) == set(kernelbench.SMALL)
    assert {*kernelbench.PARAMETERS, *kernelbench.SCALED} <= set(kernelbench.PROBLEMS)
    assert len(kernelbench.PROBLEMS) == 55
    for path in TEXTS.glob("*/*.tc"):
        assert format_source(Source(path.read_text(), path.name)) == path.read_text()


def test_calls_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def f(double(N) x) -> (o, p) { o(i) = x(i) / 3  p(i) = o(i) + p(i) }"
    compared = Compared()
    function, x = compared(text, "f"), np.arange(5.0)
    outputs = [np.empty(5), np.ones(5)]
    for call in range(3):
        function(x, outputs=outputs)
        np.testing.assert_allclose(outputs[1], 1 + (call + 1) * x / 3)
    assert compared.beyond == 0
    monkeypatch.setattr(tc, "error_bound", lambda *_, **__: (-1.0, np.ones(5)))
    compared(text, "f")(x, outputs=outputs)
    assert compared.beyond == 0, "equal elements are right in any case"
    monkeypatch.setattr(tc, "interpret", lambda *_, **__: (x + 1, x))
    compared(text, "f")(x, outputs=[np.empty(5), np.zeros(5)])
    assert compared.beyond == 5 + 3


@pytest.mark.usefixtures("quick")
def test_a_problem_of_kernelbench_is_compared_and_timed(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    root = written(tmp_path, {"KernelBench/level1/19_ReLU.py": KERNELBENCH})
    (record,) = kernelbench.measured(root, "level1_19", "", 0.0, ["torch.compile"])
    assert (record.suite, record.name, record.sizes) == ("KernelBench", "1:19 ReLU", "16x20")
    assert record.right
    assert set(record.seconds) == {"tc", "torch"}
    wrong = KERNELBENCH.replace("torch.relu(x)", "torch.relu(x) + (x > 0.4)")
    written(tmp_path, {"KernelBench/level1/19_ReLU.py": wrong})
    (record,) = kernelbench.measured(root, "level1_19", "", 0.0, ["torch.compile"])
    assert record.beyond > 10


def test_a_library_that_does_not_come_back_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Record("NPBench S", "atax", "", {"tc": 1.0, "numpy": 2.0})
    asked = []

    def run(command: list[str]) -> tuple[str, str]:
        asked.append(command[-1])
        return ("noise\n@" + json.dumps(asdict(record)), "") if "jax" in command[-1] else ("", "")

    monkeypatch.setattr(apart, "_run", run)
    found = apart.measured_apart("npbench", tmp_path, "atax", "S", 1.0, "NPBench S", "atax")
    assert asked == ["", "jax"]
    assert found.seconds == record.seconds
    assert found.notes == {"jax": "no result in 100 s"}
    monkeypatch.setattr(apart, "_run", lambda _: ("", "ValueError: none"))
    found = apart.measured_apart("npbench", tmp_path, "atax", "S", 1.0, "NPBench S", "atax")
    assert (found.ratio, found.right, found.notes) == (None, False, {"tc": "ValueError: none"})


def test_a_process_measures_one_program(tmp_path: Path) -> None:
    root = written(tmp_path, NPBENCH)
    found = apart.measured_apart("npbench", root, "atax", "S", 0.0, "NPBench S", "atax")
    assert found.right, found
    assert found.ratio is not None
    found = apart.measured_apart("npbench", root, "no such", "S", 0.0, "NPBench S", "no such")
    assert "no such" in found.notes["tc"]


def test_one_thread_is_timed_by_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in timing.ONE_THREAD:
        monkeypatch.delenv(name, raising=False)
    assert clock() is time.perf_counter
    started = []
    monkeypatch.setattr("os.execve", lambda *given: started.append(given))
    timing.with_one_thread("bench.suites")
    ((program, command, environment),) = started
    assert command[:3] == [program, "-m", "bench.suites"]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    timing.with_one_thread("bench.suites")
    assert len(started) == 1
    assert clock() is time.process_time


def test_tables_of_least_times_and_of_one_kind(
    checkout: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def measured(_: Contraction, suite: str, name: str, **__: object) -> Record:
        return Record(suite, name, "", {"tc": 1.0, "jax": 3.0}, {"tc": 1.0, "jax": 0.5})

    monkeypatch.setattr("bench.suites.task.measured", measured)
    monkeypatch.setattr(suites, "RESULTS", tmp_path)
    suites.main([str(checkout), "--least", "--save"])
    assert "| 0.50" in capsys.readouterr().out
    (saved,) = tmp_path.glob("suites-*.md")
    assert "; least times." in saved.read_text()
    suites.main([str(checkout), "--kind", "npbench"])
    assert "TCCG" not in capsys.readouterr().out
    suites.main(["--contractions", "2", "--products", "--only", "64x64x17", "--seed", "3"])
    printed = capsys.readouterr().out
    assert "products  64x64x17" in printed
    assert "contractions" not in printed
