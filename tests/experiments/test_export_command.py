"""`pacdp train` counts before it draws; `pacdp export` writes a folder that depends on the data by what is counted."""

import json
import os
import re
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli_tools import one_sentence, pacdp, read, tensors

from pacdp import load_checkpoint, private
from pacdp.certify import networks
from pacdp.cli import exporting
from pacdp.cli.config import Runtime
from pacdp.cli.exporting import SEEDED, export_run
from pacdp.cli.private import PRIVATE
from pacdp.cli.private.certify import released
from pacdp.cli.private.config import Budget, PrivateConfig
from pacdp.cli.private.methods import DPSGLD
from pacdp.cli.private.recipes import private_recipe
from pacdp.cli.private.run import train_private
from pacdp.data import load as load_data
from pacdp.ledger import Ledger, Overdrawn
from pacdp.ledger_entries import Limit
from pacdp.verify.report import check_path
from tests.schema import validate

RUNTIME = Runtime(threads=1)
FILES = {"certificates.json", "settings.json", "weights.safetensors"}


def tiny(name: str = "dp-sgd-mnist", **changes: Any) -> PrivateConfig:
    config = private_recipe(name, scale="smoke")
    sampling = replace(config.sampling, steps=changes.pop("steps", 6))
    return replace(config, sampling=sampling, records=3, **{"budget": Budget(epsilon=0.1, delta=1e-3), **changes})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, its ledger and what was exported of it."""
    root = tmp_path_factory.mktemp("runs")
    train_private(tiny(), root / "run", RUNTIME, ledger=root / "ledger")
    export_run(root / "run", root / "out", RUNTIME)
    return root


@pytest.fixture
def runs(made: Path, tmp_path: Path) -> Path:
    """A copy of that folder."""
    return Path(shutil.copytree(made, tmp_path / "runs"))


def verdicts(path: Path) -> set[str]:
    return {one.verdict for one in check_path(path)}


def kinds(ledger: Path) -> list[tuple[str, int, int]]:
    entries = [entry.stretch for entry in Ledger.load(ledger).entries]
    return [(one.kind, one.first, one.last) for one in entries]


# what leaves


def test_three_files_leave_and_each_of_their_statements_follows(made: Path) -> None:
    out = made / "out"
    assert {path.name for path in out.iterdir()} == FILES
    assert verdicts(out) == {"follows"}
    report = read(out / "certificates.json")
    (certificate,) = validate(report)
    assert certificate.status == "rigorous"
    assert certificate.hypothesis("privacy covers these rows").standing == "proved"
    assert certificate.hypothesis("steps fixed beforehand").standing == "proved"
    assert certificate.inputs["n"] == report["n"] == report["examples"]
    assert sum(certificate.budget.values()) == pytest.approx(0.05)
    header = load_checkpoint(out / "weights.safetensors").header
    assert (header["kind"], header["adjacency"]) == ("private-release/1", "add-remove")
    assert header["event"] == report["privacy"]["event"]
    assert read(out / "settings.json")["run"] == read(made / "run" / "config.json")


def test_weights_that_leave_are_those_of_the_run_and_predict_the_same(made: Path) -> None:
    own, theirs = (load_checkpoint(made / place) for place in ("run", Path("out") / "weights.safetensors"))
    assert {name: value.tolist() for name, value in own.model.items()} == {
        name: value.tolist() for name, value in theirs.model.items()
    }
    assert theirs.state == {}


def test_an_average_over_snapshots_leaves_with_its_snapshots(tmp_path: Path) -> None:
    config = tiny("dp-sgld-mnist")
    assert isinstance(config.method, DPSGLD)
    config = replace(config, method=replace(config.method, temperature=500.0, snapshots=3))
    train_private(config, tmp_path / "run", RUNTIME, ledger=tmp_path / "ledger")
    export_run(tmp_path / "run", tmp_path / "out", RUNTIME)
    one, theirs = released(tmp_path / "run", RUNTIME), load_checkpoint(tmp_path / "out" / "weights.safetensors")
    found = private.average_over_snapshots(one.module, theirs.state["extra.snapshots"], one.bound.inputs[:50])
    assert torch.equal(found, one.predictor.network(one.bound.inputs[:50]))
    assert verdicts(tmp_path / "out") == {"follows"}


def words(folder: Path) -> str:
    """All text in a folder: JSON, and the headers of safetensors."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            end = 8 + int.from_bytes(content[:8], "little") if path.suffix == ".safetensors" else len(content)
            found.append(content[:end].decode(errors="replace"))
    return "\n".join(found)


def secrets(root: Path) -> dict[str, str]:
    """What the data, the private folder and the ledger know and nobody else may: patterns by name."""
    one, book = released(root / "run", RUNTIME), Ledger.load(root / "ledger")
    header, rows = one.checkpoint.header, one.bound.rows
    seen = networks.judge(one.predictor.network, one.bound, scores=True)
    lines = (root / "run" / "metrics.jsonl").read_text().splitlines()
    result = read(root / "run" / "result.json")
    texts = {
        "training data": header["about"]["data"]["train"],
        "test data": header["about"]["data"]["test"],
        "rows in a report": str((rows.summary() or {})["digest"]),
        "checkpoint": str(one.checkpoint.content_hash),
        "ledger": book.id,
        "receipt": header["ledger"]["receipt"]["hash"],
        "run": header["ledger"]["run"],
        "when": read(root / "run" / "provenance.json")["time"],
        "the last row": json.loads(lines[-1])["hash"],
        **{f"row {i}": f"{int(each):016x}" for i, each in enumerate(rows.examples[:20])},
        **{f"row {i} in decimals": str(int(each)) for i, each in enumerate(rows.inputs[:20])},
    }
    numbers = {
        "n": one.bound.n,
        "n of the test set": one.data.test.n,
        "errors": seen.errors,
        "accuracy": result["private_train"]["accuracy"],
        "error rate": seen.error,
        "test accuracy": result["test"]["accuracy"],
        "loss": result["private_train"]["nll_nats"],
        "test loss": result["test"]["nll_nats"],
        "batch size": header["public"]["expected_batch_size"],
        "seconds": result["seconds"],
    }
    return {name: re.escape(text) for name, text in texts.items()} | {
        name: rf"(?<![\d.]){re.escape(repr(number))}(?![\d.])" for name, number in numbers.items()
    }


def found_in(folder: Path, patterns: dict[str, str]) -> set[str]:
    text = words(folder)
    return {name for name, pattern in patterns.items() if re.search(pattern, text)}


def test_nothing_that_depends_on_the_data_is_in_it_but_what_is_counted(made: Path) -> None:
    patterns, one = secrets(made), released(made / "run", RUNTIME)
    assert found_in(made / "out", patterns) == set()
    content = b"".join(path.read_bytes() for path in (made / "out").iterdir())
    assert not any(int(each).to_bytes(8, "little") in content for each in one.bound.rows.examples[:200])
    assert not any(row.numpy().tobytes() in content for row in one.bound.inputs)


def test_that_search_finds_each_of_these_where_it_is(runs: Path) -> None:
    assert pacdp("certify", runs / "run", "--threads", "1") == 0
    everything = set(secrets(runs))
    assert everything - found_in(runs, secrets(runs)) <= {name for name in everything if name.startswith("row ")}
    planted, rows = runs / "out", released(runs / "run", RUNTIME).bound.rows
    (planted / "settings.json").write_text(json.dumps([f"{int(each):016x}" for each in rows.examples[:20]]))
    assert {f"row {i}" for i in range(20)} <= found_in(planted, secrets(runs))


def test_other_counts_behind_the_same_numbers_leave_the_same_folder(runs: Path, monkeypatch) -> None:
    """The data enter through what was released alone: with other errors beneath it, every byte is the same."""
    whole = networks.judge

    def all_wrong(*arguments: Any, **more: Any) -> networks.Judged:
        found = whole(*arguments, **more)
        return replace(found, wrong=np.ones_like(found.wrong), error=1.0)

    monkeypatch.setattr(networks, "judge", all_wrong)
    export_run(runs / "run", runs / "again", RUNTIME)
    for name in FILES:
        assert (runs / "again" / name).read_bytes() == (runs / "out" / name).read_bytes()


# what is released, and what it costs


def test_a_second_export_is_no_second_release_unless_the_noise_is_another(runs: Path, capsys) -> None:
    before = kinds(runs / "ledger")
    assert before == [("reservation", 1, 2), ("reservation", 3, 4), ("reservation", 5, 6), ("release", 1, 2)]
    assert pacdp("export", runs / "run", runs / "again", "--threads", "1") == 0
    assert "no further cost" in capsys.readouterr().err
    assert kinds(runs / "ledger") == before
    assert all((runs / "again" / name).read_bytes() == (runs / "out" / name).read_bytes() for name in FILES)
    assert pacdp("export", runs / "run", runs / "third", "--std-errors", "40", "--threads", "1") == 0
    assert "once more" in capsys.readouterr().err
    assert kinds(runs / "ledger") == [*before, ("release", 1, 2)]
    assert verdicts(runs / "third") == {"follows"}


def test_another_failure_probability_is_another_certificate_of_the_same_counts(runs: Path) -> None:
    strict = export_run(runs / "run", runs / "again", RUNTIME, failure_prob=0.001)
    assert len(kinds(runs / "ledger")) == 4
    assert verdicts(runs / "again") == {"follows"}
    assert strict["details"]["counts"] == read(runs / "out" / "certificates.json")["details"]["counts"]


def test_the_ledger_refuses_counts_that_would_pass_its_limit_and_nothing_leaves(runs: Path) -> None:
    (runs / "run" / "released.json").unlink()
    book = Ledger.load(runs / "ledger")
    book.set_limit(Limit(epsilon=0.001, delta=1e-3, adjacency="add-remove"))
    with pytest.raises(Overdrawn, match="nothing was drawn"):
        export_run(runs / "run", runs / "again", RUNTIME)
    assert not (runs / "again").exists()
    assert len(kinds(runs / "ledger")) == 4


def test_counts_of_an_earlier_run_in_the_folder_are_not_taken_for_this_one(runs: Path) -> None:
    old = (runs / "run" / "released.json").read_text()
    train_private(tiny(), runs / "run", RUNTIME, force=True, ledger=runs / "ledger")
    assert not (runs / "run" / "released.json").exists()
    (runs / "run" / "released.json").write_text(old)
    export_run(runs / "run", runs / "again", RUNTIME)
    assert [kind for kind, *_ in kinds(runs / "ledger")].count("release") == 2


# what training costs


def test_kills_copies_force_and_tuned_runs_are_all_paid(tmp_path: Path) -> None:
    ledger, run = tmp_path / "ledger", tmp_path / "run"

    def stop(step: int, steps: int, row: object) -> None:
        if step == 3:
            raise KeyboardInterrupt

    def paid() -> list[tuple[int, int]]:
        return [(first, last) for _, first, last in kinds(ledger)]

    with pytest.raises(KeyboardInterrupt):
        train_private(tiny(), run, RUNTIME, report=stop, ledger=ledger)
    assert paid() == [(1, 2), (3, 4)], "a stretch that was begun is counted"
    shutil.copytree(run, tmp_path / "copy")
    train_private(tiny(), run, RUNTIME, resume=True, ledger=ledger)
    assert paid()[2:] == [(3, 4), (5, 6)], "and once more when the run goes on from its checkpoint"
    train_private(tiny(), tmp_path / "copy", RUNTIME, resume=True, ledger=ledger)
    assert paid()[4:] == [(3, 4), (5, 6)]
    train_private(tiny(), run, RUNTIME, force=True, ledger=ledger)
    assert paid()[6:] == [(1, 2), (3, 4), (5, 6)]
    for rate in (0.5, 1.0):
        config = replace(tiny(), method=replace(tiny().method, learning_rate=rate))
        train_private(config, tmp_path / str(rate), RUNTIME, ledger=ledger)
    assert len(paid()) == 9 + 6
    about = {"delta": 1e-3, "adjacency": "add-remove"}
    total = Ledger.load(ledger).total(**about).epsilon
    assert total > 1.5 * private.privacy_spent(released(run, RUNTIME).event, **about).upper


def test_a_limit_stops_training_before_the_noise_that_would_pass_it(tmp_path: Path) -> None:
    book = Ledger.open(tmp_path / "ledger")
    book.set_limit(Limit(epsilon=0.001, delta=1e-3, adjacency="add-remove"))
    with pytest.raises(Overdrawn, match="nothing was drawn"):
        train_private(tiny(), tmp_path / "run", RUNTIME, ledger=tmp_path / "ledger")
    assert kinds(tmp_path / "ledger") == []
    assert not (tmp_path / "run" / "checkpoint.safetensors").exists()


def test_the_command_counts_beside_the_run_unless_it_is_told_otherwise(tmp_path: Path, capsys) -> None:
    given = ("train", "dp-sgd-mnist", "--sampling.steps", "3", "--threads", "1")
    assert pacdp(*given, "--out", tmp_path / "a") == 0
    assert f"counted in {tmp_path / 'ledger'}" in capsys.readouterr().err
    assert read(tmp_path / "a" / "result.json")["privacy"]["counted"] is True
    before = kinds(tmp_path / "ledger")
    assert before
    assert pacdp(*given, "--out", tmp_path / "b", "--no-ledger") == 0
    assert "counted in no ledger" in capsys.readouterr().err
    assert read(tmp_path / "b" / "result.json")["privacy"]["counted"] is False
    assert kinds(tmp_path / "ledger") == before
    assert pacdp(*given, "--out", tmp_path / "c", "--ledger", tmp_path / "other") == 0
    assert kinds(tmp_path / "other") == before
    capsys.readouterr()
    (tmp_path / "c" / "result.json").unlink()
    assert pacdp("train", "--resume", "--out", tmp_path / "c") == 1
    assert "it is another ledger" in one_sentence(capsys.readouterr().err)
    assert pacdp("train", "--resume", "--out", tmp_path / "c", "--no-ledger") == 1
    assert "name that ledger" in one_sentence(capsys.readouterr().err)
    assert pacdp("train", "--resume", "--out", tmp_path / "c", "--ledger", tmp_path / "other") == 0
    (tmp_path / "elsewhere").mkdir()
    shutil.copytree(tmp_path / "c", tmp_path / "elsewhere" / "c")
    (tmp_path / "elsewhere" / "c" / "result.json").unlink()
    capsys.readouterr()
    assert pacdp("train", "--resume", "--out", tmp_path / "elsewhere" / "c") == 1
    assert "holds none" in one_sentence(capsys.readouterr().err)
    assert not (tmp_path / "elsewhere" / "ledger").exists()


# runs that may not leave, or not yet


def test_what_may_not_leave_is_refused_in_a_sentence(runs: Path, trained, capsys) -> None:
    run, out = runs / "run", runs / "new"

    def refused(*arguments: Any) -> str:
        assert pacdp("export", *arguments) == 1
        assert not out.exists()
        return one_sentence(capsys.readouterr().err)

    assert "exists" in refused(run, runs / "out")
    assert "in the private folder" in refused(run, run / "out")
    assert "holds no private run" in refused(trained["sgld"], out)
    assert "holds no private run" in refused(runs / "nothing", out)
    assert "too much noise" in refused(run, out, "--std-n", "300")
    assert "std_n must be positive" in refused(run, out, "--std-n", "0")
    assert "std_errors must be positive" in refused(run, out, "--std-errors", "-1")
    assert "--failure-prob" in refused(run, out, "--failure-prob", "1")
    assert "holds none" in refused(run, out, "--ledger", runs / "other")
    Ledger.open(runs / "other")
    assert "another ledger" in refused(run, out, "--ledger", runs / "other")
    (run / "released.json").write_text('{"format": "pacdp-released-counts/1"}')
    assert "released.json is damaged" in refused(run, out)
    (run / "result.json").unlink()
    assert "is not finished" in refused(run, out)
    assert not (runs / "nothing").exists()
    assert len(kinds(runs / "ledger")) == 4


def test_a_seeded_run_leaves_as_what_protects_nobody_or_not_at_all(tmp_path: Path, capsys) -> None:
    train_private(tiny(reproducible=True), tmp_path / "run", RUNTIME, ledger=tmp_path / "ledger")
    assert pacdp("export", tmp_path / "run", tmp_path / "out") == 1
    assert "can subtract it" in one_sentence(capsys.readouterr().err)
    assert pacdp("export", tmp_path / "run", tmp_path / "out", "--seeded-for-tests", "--threads", "1") == 0
    assert load_checkpoint(tmp_path / "out" / "weights.safetensors").header["remark"] == SEEDED
    assert read(tmp_path / "out" / "certificates.json")["details"]["seeded"] == SEEDED
    assert SEEDED in read(tmp_path / "out" / "settings.json")["remarks"]
    assert SEEDED not in words(Path(shutil.copytree(tmp_path / "run", tmp_path / "copy")))


def test_a_run_without_a_ledger_is_entered_once_or_stays(tmp_path: Path, capsys) -> None:
    train_private(tiny(), tmp_path / "run", RUNTIME)
    assert pacdp("export", tmp_path / "run", tmp_path / "out") == 1
    assert "--correct" in one_sentence(capsys.readouterr().err)
    shutil.copytree(tmp_path / "run", tmp_path / "cut")
    (tmp_path / "cut" / "result.json").unlink()
    assert pacdp("train", "--resume", "--out", tmp_path / "cut") == 1
    assert "go on with --no-ledger" in one_sentence(capsys.readouterr().err)
    assert not (tmp_path / "ledger").exists()
    for out in ("out", "again"):
        assert pacdp("export", tmp_path / "run", tmp_path / out, "--correct", "--threads", "1") == 0
    assert pacdp("export", tmp_path / "run", tmp_path / "third", "--threads", "1") == 0
    entries = Ledger.load(tmp_path / "ledger").entries
    assert [entry.stretch.kind for entry in entries] == ["correction", "release"]
    assert entries[0].stretch.event == released(tmp_path / "run", RUNTIME).event


# what stays says so


def test_everything_else_of_a_private_run_says_that_it_is_private(runs: Path, capsys) -> None:
    assert pacdp("certify", runs / "run", "--threads", "1") == 0
    assert PRIVATE in capsys.readouterr().out.replace("\n", " ").replace("  ", " ")
    assert read(runs / "run" / "certificates.json")["details"]["private"] == PRIVATE
    assert read(runs / "run" / "result.json")["private"] == PRIVATE
    assert pacdp("report", runs / "run") == 0
    assert PRIVATE in (runs / "run" / "report.html").read_text()
    assert PRIVATE not in words(runs / "out")
    assert pacdp("report", runs / "out") == 0
    page = (runs / "out" / "report.html").read_text()
    assert PRIVATE not in page
    assert "counts with noise" in page


# people


@pytest.fixture
def written(monkeypatch) -> None:
    """The digits, one to five by each of a number of writers, in place of the digits without their writers."""

    def load(name: str, **how: Any) -> tuple[Any, ...]:
        train, test = load_data(name, **how)
        return tuple(
            replace(part, people=np.arange(part.n) * np.arange(part.n) % 401 + first, unit="writer")
            for part, first in ((train, 0), (test, 1000))
        )

    monkeypatch.setattr("pacdp.cli.private.data.load", load)


@pytest.mark.parametrize("name", ["p3sgd-malaria", "user-dp-sgd-malaria"])
def test_a_run_that_hides_people_leaves_with_a_certificate_for_a_new_person(name: str, written, tmp_path: Path) -> None:
    config = tiny(name, budget=Budget(epsilon=8.0, delta=1e-3))
    train_private(config, tmp_path / "run", RUNTIME, ledger=tmp_path / "ledger")
    export_run(tmp_path / "run", tmp_path / "out", RUNTIME, std_errors=4.0, std_n=4.0)
    report = read(tmp_path / "out" / "certificates.json")
    (certificate,) = validate(report)
    one = released(tmp_path / "run", RUNTIME)
    people = one.bound.units
    assert (report["unit"], report["examples"]) == ("person", None)
    assert people - 40 < report["n"] < people
    assert certificate.measures == "0-1 risk of a new person"
    (entry,) = [entry for entry in Ledger.load(tmp_path / "ledger").entries if entry.stretch.kind == "release"]
    assert {each.stretch.unit for each in Ledger.load(tmp_path / "ledger").entries} == {"person"}
    rates = networks.judge(one.predictor.network, one.bound, scores=True).sum_of_rates
    assert certificate.inputs["released_errors"] == pytest.approx(rates, abs=30.0)
    assert entry.stretch.event == report_event(report)
    text = words(tmp_path / "out")
    assert not re.search(rf"(?<![\d.]){one.bound.n}(?![\d.])", text)
    assert not re.search(rf"(?<![\d.]){people}(?![\d.])", text)
    assert verdicts(tmp_path / "out") == {"follows"}


def report_event(report: dict[str, Any]) -> Any:
    counts = {name: report["details"]["counts"][name] for name in ("errors", "n", "std_errors", "std_n", "unit")}
    return exporting.ReleasedErrors(**counts).event


# what a reader is shown


def change(values: Any, path: tuple[Any, ...], number: Any) -> None:
    for one, _ in pairwise(path):
        values = values[one]
    values[path[-1]] = number


@pytest.mark.parametrize(
    ("path", "times"),
    [
        (("certificates", 0, "inputs", name), times)
        for name in ("released_errors", "released_n", "std_errors", "std_n", "errors_at_most", "n", "risk")
        for times in (0.9, 1.1)
    ]
    + [(("certificates", 0, "budget", "noise on the counts"), times) for times in (0.9, 1.1)]
    + [(("details", "counts", name), 1.1) for name in ("errors", "n", "std_errors", "std_n")]
    + [(("details", "counts", "with_the_run", "epsilon"), 0.9), (("privacy", "event"), None), (("n",), 1.1)],
    ids=str,
)
def test_a_changed_number_of_what_left_does_not_follow(runs: Path, path: tuple[Any, ...], times: float | None) -> None:
    file = runs / "out" / "certificates.json"
    report = read(file)
    value: Any = report
    for one in path:
        value = value[one]
    number: Any = {"event": "Gaussian", "noise_multiplier": 1.0} if times is None else value * times
    change(report, path, round(number) if isinstance(value, int) else number)
    file.write_text(json.dumps(report))
    assert "does not follow" in verdicts(runs / "out")


def test_more_than_may_leave_does_not_follow(runs: Path) -> None:
    out = runs / "out"
    shutil.copyfile(runs / "run" / "metrics.jsonl", out / "metrics.jsonl")
    assert "does not follow" in verdicts(out)
    (out / "metrics.jsonl").unlink()
    assert verdicts(out) == {"follows"}
    report = read(out / "certificates.json")
    report["rows"] = {"bound": {"digest": "0", "n": report["n"], "people": None}, "test": None, "prior": None}
    (out / "certificates.json").write_text(json.dumps(report))
    assert "does not follow" in verdicts(out)
    assert tensors(runs / "run")
    assert os.listdir(out)
