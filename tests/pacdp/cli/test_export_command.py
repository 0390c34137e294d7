"""`pacdp train` counts before it draws; `pacdp export` writes what may leave, and counts what it releases."""

import re
import shutil
from dataclasses import replace
from os import listdir
from pathlib import Path
from shutil import copytree

import pytest
import torch
from cli_tools import QUICK, exported_bytes, read, succeed, verdicts
from report_pages import write
from secret_runs import counted_in, secret, stretches
from test_export_secrets import words
from tiny_runs import RUNTIME, begin, counted_run, interrupted, leave, tiny_private

from bounds.accounting import event_to_dict
from pacdp import load_checkpoint, private
from pacdp.certify import reading
from pacdp.certify.released_counts import sum_of_rates
from pacdp.cli.private.certify import released
from pacdp.cli.private.run import train_private
from pacdp.store.canonical import digest
from pacdp.store.ledger import Ledger, Overdrawn
from pacdp.store.ledger_entries import Limit
from tests.marks import at_most, near, parametrize, refusal
from tests.schema import validate

FILES = {"certificates.json", "settings.json", "weights.safetensors"}
TINY = tiny_private("dp-sgd-mnist")
pytestmark = pytest.mark.usefixtures("few_passes")
ABOUT = {"delta": 1e-3, "adjacency": "add-remove"}


@pytest.fixture
def made(exported, tmp_path):
    """A copy of a folder with a run, its ledger and what was exported of it."""
    return Path(copytree(exported, tmp_path / "made"))


def kinds(ledger):
    return [(one.kind, one.first, one.last) for one in counted_in(ledger)]


# what leaves


def test_three_files_leave_and_each_of_their_statements_follows(exported):
    out = exported / "out"
    assert {*listdir(out)} == FILES
    assert verdicts(out) == {"follows"}
    report = read(out / "certificates.json")
    (certificate,) = validate(report)
    assert certificate.status == "rigorous"
    for name in ("privacy covers these rows", "steps fixed beforehand"):
        assert certificate.hypothesis(name).standing == "proved"
    assert read(out / "settings.json")["run"].items() <= read(exported / "run" / "config.json").items()
    own, theirs = (load_checkpoint(exported / name) for name in ("run", "out/weights.safetensors"))
    assert own.model.keys() == theirs.model.keys()
    assert all(torch.equal(value, own.model[name]) for name, value in theirs.model.items())
    assert theirs.state == {}


def test_an_average_over_snapshots_leaves_with_its_snapshots(tmp_path):
    config = tiny_private("dp-sgld-mnist")
    run = counted_run(replace(config, method=replace(config.method, temperature=500.0, snapshots=3)), tmp_path)
    leave(run, tmp_path / "out")
    one, theirs = released(run, RUNTIME), load_checkpoint(tmp_path / "out" / "weights.safetensors")
    found = private.average_over_snapshots(one.module, theirs.state["extra.snapshots"], one.bound.inputs[:50])
    assert torch.equal(found, one.predictor.network(one.bound.inputs[:50]))
    assert verdicts(tmp_path / "out") == {"follows"}


@at_most(1, "name", ["p3sgd-malaria", "user-dp-sgd-malaria"])
def test_a_run_that_hides_people_is_certified_and_leaves_by_people(name, written, tmp_path, certify):
    run = counted_run(tiny_private(name, epsilon=8.0), tmp_path)
    own, report = (
        certify(run),
        leave(run, tmp_path / "out", std_errors=4.0, std_n=4.0),
    )
    one = released(run, RUNTIME)
    people, (certificate,), found = one.bound.units, validate(report), validate(own)
    assert (own["n"], own["unit"], own["examples"]) == (people, "person", 1437)
    assert {made.hypothesis("records independent").unit for made in found} == {"person"}
    assert (report["unit"], report["examples"]) == ("person", None)
    assert people - 40 < report["n"] < people
    assert found[0].measures == certificate.measures == "0-1 risk of a new person"
    assert {entry.unit for entry in counted_in(tmp_path / "ledger")} == {"person"}
    assert {str(people), "1437"}.isdisjoint(re.findall(r"[\d.]+", words(tmp_path / "out")))
    seen = reading.Reading(law=one.predictor).seen(one.bound, "the", held=False)
    rates = sum_of_rates(seen.wrong, one.bound.people)
    assert certificate.inputs["released_errors"] == near(rates, abs=30.0)
    assert verdicts(tmp_path / "out") == {"follows"}


# what is released, and what it costs


def test_a_second_export_is_no_second_release_unless_the_noise_is_another(made, refused):
    before = kinds(made / "ledger")
    assert before == [("reservation", 1, 2), ("reservation", 3, 4), ("reservation", 5, 6), ("release", 1, 2)]
    succeed("export", made / "run", made / "again", "--threads", "1")
    assert exported_bytes(made / "again") == exported_bytes(made / "out")
    strict = leave(made / "run", made / "strict", failure_prob=0.001)
    assert strict["details"]["counts"] == read(made / "out" / "certificates.json")["details"]["counts"]
    assert kinds(made / "ledger") == before
    kept = read(made / "run" / "released.json")
    edited = {**kept, "counts": {**kept["counts"], "errors": 0.0}}
    write(made / "run" / "released.json", edited)
    assert "another hash than it says" in refused("export", made / "run", made / "third")
    write(made / "run" / "released.json", kept)
    succeed("export", made / "run", made / "third", "--std-errors", "40", "--threads", "1")
    assert kinds(made / "ledger") == [*before, ("release", 1, 2)]
    assert verdicts(made / "strict") | verdicts(made / "third") == {"follows"}


def test_counts_of_an_earlier_run_in_the_folder_are_not_taken_for_this_one(made):
    released_counts = made / "run" / "released.json"
    old = released_counts.read_text()
    counted_run(TINY, made, force=True)
    assert not released_counts.exists()
    released_counts.write_text(old)
    leave(made / "run", made / "again")
    assert [kind for kind, *_ in kinds(made / "ledger")].count("release") == 2


def test_nothing_is_paid_where_the_counts_could_not_be_kept(made, refused):
    before, listed = kinds(made / "ledger"), made / "run" / ".pacdp"
    listed.write_text(listed.read_text().replace("released.json", ""))
    refusing = refused("export", made / "run", made / "third", "--std-errors", "40")
    assert "released.json was not written by pacdp" in refusing
    assert kinds(made / "ledger") == before


def test_a_limit_stops_training_and_export_before_the_noise_that_would_pass_it(made):
    (made / "run" / "released.json").unlink()
    before = kinds(made / "ledger")
    Ledger.load(made / "ledger").set_limit(Limit(epsilon=0.001, **ABOUT))
    with refusal("nothing was drawn", Overdrawn):
        leave(made / "run", made / "again")
    with refusal("nothing was drawn", Overdrawn):
        train_private(TINY, made / "new", replace(RUNTIME, ledger=made / "ledger"))
    assert not (made / "again").exists()
    assert not (made / "new").exists()
    assert kinds(made / "ledger") == before


# what training costs


def test_a_full_disk_costs_nothing(made, monkeypatch):
    """Nor does it take what was released before at another noise."""
    run, opened, before = made / "run", Path.open, kinds(made / "ledger")
    kept = (run / "released.json").read_bytes()

    def full(self, *given, **more):
        partial = self.name.startswith(".released.json") and self.name.endswith(".partial")
        return opened(Path("/dev/full") if partial else self, *given, **more)

    with monkeypatch.context() as disk, refusal("No space left", OSError):
        disk.setattr(Path, "open", full)
        leave(run, made / "more", std_errors=4.0)
    assert kinds(made / "ledger") == before
    assert (run / "released.json").read_bytes() == kept
    leave(run, made / "more", std_errors=4.0)
    assert len(kinds(made / "ledger")) == len(before) + 1
    assert b"  " not in (run / "released.json").read_bytes()[-3:], "no room is left behind"


def test_kills_copies_and_force_are_all_paid(tmp_path):
    ledger, run = tmp_path / "ledger", tmp_path / "run"
    interrupted(TINY, run, after=3, ledger=ledger)
    assert stretches(ledger) == [(1, 2), (3, 4)], "a stretch that was begun is counted"
    with refusal("pacdp ledger limit --raise where the ledger's limit has halted it"):
        leave(run, tmp_path / "early")
    copytree(run, tmp_path / "copy")
    for folder in (run, tmp_path / "copy"):
        train_private(TINY, folder, replace(RUNTIME, resume=True, ledger=ledger))
    assert stretches(ledger)[2:] == 2 * [(3, 4), (5, 6)], "and once more when a run goes on from its checkpoint"
    counted_run(TINY, tmp_path, force=True)
    assert stretches(ledger)[6:] == [(1, 2), (3, 4), (5, 6)]
    total = Ledger.load(ledger).total(**ABOUT).epsilon
    assert total > 1.5 * private.privacy_spent(released(run, RUNTIME).event, **ABOUT).upper


@at_most(1, "given", [("entropy-sgld-clipped-digits2", *QUICK),
                                   ("dp-sgd-mnist", "--sampling.steps", "3", "--threads", "1")])  # fmt: skip
def test_the_command_counts_beside_the_run_unless_it_is_told_otherwise(given, tmp_path, refused):
    a, b, c = (tmp_path / name for name in "abc")
    succeed("train", *given, "--out", a)
    before = kinds(tmp_path / "ledger")
    assert before
    succeed("train", *given, "--out", b, "--no-ledger")
    assert kinds(tmp_path / "ledger") == before
    succeed("train", *given, "--out", c, "--ledger", tmp_path / "other")
    assert kinds(tmp_path / "other") == before
    for folder in (a, b, c):
        (folder / "result.json").unlink()
    resume = ("train", "--resume", "--out")
    assert "name that ledger" in refused(*resume, a, "--no-ledger")
    assert "go on with --no-ledger" in refused(*resume, b)
    assert "it is another ledger" in refused(*resume, c)
    succeed(*resume, c, "--ledger", tmp_path / "other")


# runs that may not leave, or not yet


@parametrize("run", [TINY, secret()], ids=["private", "chain"])
def test_a_run_that_is_seeded_or_in_no_ledger_leaves_with_a_word_or_stays(run, tmp_path, refused):
    given = ("--std-n", "20", "--threads", "1")
    ledger, seeded, uncounted = (tmp_path / name for name in ("ledger", "seeded", "uncounted"))
    begin(run)(run, uncounted, RUNTIME)
    assert "--correct" in refused("export", uncounted, tmp_path / "out", *given)
    assert not ledger.exists()
    for out, more in (("out", ("--correct",)), ("again", ("--correct",)), ("third", ())):
        succeed("export", uncounted, tmp_path / out, *more, *given)
    first, second = counted_in(ledger)
    assert (first.kind, second.kind) == ("correction", "release")
    assert event_to_dict(first.event) == read(tmp_path / "out" / "certificates.json")["privacy"]["event"]
    begin(run)(replace(run, reproducible=True), seeded, replace(RUNTIME, ledger=ledger))
    assert "can subtract it" in refused("export", seeded, tmp_path / "tests", *given)
    assert verdicts(tmp_path / "out") == {"follows"}


def test_more_than_may_leave_does_not_follow(made):
    out = made / "out"
    shutil.copyfile(made / "run" / "metrics.jsonl", out / "metrics.jsonl")
    assert "does not follow" in verdicts(out)
    (out / "metrics.jsonl").unlink()
    assert verdicts(out) == {"follows"}
    whole = {path: path.read_bytes() for path in out.iterdir()}
    for name, place, value in (
        ("certificates.json", "rows", {"bound": {"digest": "0", "n": 1, "people": None}, "test": None, "prior": None}),
        ("certificates.json", "subject train_error", 0.1),
        ("certificates.json", "details counts exact", 17),
        ("certificates.json", "details counts unit", "person"),
        ("certificates.json", "details counts with_the_run delta", 0.9),
        ("certificates.json", "details spent epsilon", 0.01),
        ("settings.json", "errors", 17),
        ("settings.json", "run sampling noise_multiplier", 30.0),
        ("settings.json", "run reproducible", True),
    ):
        record = holder = read(out / name)
        *keys, last = place.split()
        for key in keys:
            holder = holder[key]
        holder[last] = value
        if keys[:1] == ["run"]:
            record["config_hash"] = digest(record["run"])
        write(out / name, record)
        assert "does not follow" in verdicts(out), place
        (out / name).write_bytes(whole[out / name])
    (out / "weights.safetensors").write_bytes(whole[out / "weights.safetensors"] + b"rows")
    assert "does not follow" in verdicts(out)
    (out / "weights.safetensors").write_bytes(whole[out / "weights.safetensors"])
    for made in ("report.html", "figure.png", "figure.pdf"):  # by pacdp report and pacdp plot
        (out / made).touch()
    assert verdicts(out) == {"follows", "cannot be checked"}
    (out / "settings.json").unlink()
    assert "does not follow" in verdicts(out)
