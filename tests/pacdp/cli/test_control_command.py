"""`pacdp control` and `pacdp monitor`: from a table to a threshold, or to an alarm; bad tables are refused."""

import numpy as np
import polars as pl
import pytest
from cli_tools import start, succeed
from numpy.random import default_rng

import bounds
from pacdp.predictions.sentence import headline
from tests.marks import every_case


def table(path, **columns):
    pl.DataFrame(columns).write_csv(path)
    return path


@pytest.fixture
def answers(tmp_path):
    rng = default_rng(0)
    confidence = rng.random(1500).round(6)
    error = (rng.random(1500) < 0.4 * (1 - confidence)).astype(int)
    return table(tmp_path / "answers.csv", confidence=confidence, error=error), confidence, error


def test_the_threshold_is_that_of_bounds(answers, said):
    path, confidence, error = answers
    made = bounds.control_selective_risk(
        confidence=confidence, losses=error, thresholds=[k / 20 for k in range(20)], target=0.1, failure_prob=0.05
    )
    control = ("control", path, "--target")
    assert said(*control, "0.1", "--json")["all"] == made.to_dict()
    text = said(*control, "0.1")
    assert headline(made.certificate) in text
    assert "of the records reach the threshold" in text
    assert "No threshold qualifies" in said(*control, "0.001")
    path.write_text(path.read_text(encoding="utf-8").replace(",", ", "), encoding="utf-8")
    assert said(*control, "0.1") == text
    truths = table(path.with_name("truths.csv"), confidence=confidence, error=error > 0)
    assert said("control", truths, "--target", "0.1", "--json")["all"] == made.to_dict()


def test_groups_and_detectors(answers, tmp_path, said, refused):
    _, score, positive = answers
    group = np.where(np.arange(1500) % 2 == 0, "a", "b")
    control = ("control", table(tmp_path / "d.csv", score=score, positive=positive, group=group), "--target", "0.2")
    at = {"scores": score, "positives": positive, "target": 0.2, "failure_prob": 0.05}
    found = bounds.control_false_negatives(**at, groups=group)
    assert said(*control, "--groups", "together", "--json")["all"] == found.to_dict()
    assert list(said(*control, "--groups", "apart", "--json")) == ["a", "b"]
    assert "give --groups together or apart exactly where" in refused(*control)
    for unused in ("--thresholds", "--starts"):
        assert "holds scores, which are the thresholds" in refused(*control, "--groups", "apart", unused, 1)


def test_a_monitor_goes_on_from_its_file(tmp_path, said, refused):
    errors = (np.arange(400) % 4 == 0).astype(int)
    first = table(tmp_path / "1.csv", error=errors[:200], position=np.arange(200))
    second = table(tmp_path / "2.csv", error=errors[200:], position=np.arange(200, 400))
    state = tmp_path / "watch.json"
    monitor = ("monitor", state)
    succeed(*monitor, "--losses", first, "--promised", "0.1", "--promise-failure-prob", "0.05")
    found = said(*monitor, "--losses", second, "--json")
    made = bounds.Monitor(promised=0.1, failure_prob=0.05, false_alarm_prob=0.01, promise_failure_prob=0.05)
    made = made.observe(errors, positions=np.arange(400))
    assert (found["n"], found["alarm"], found["upper"]) == (400, made.alarm, made.upper)
    assert bounds.Monitor.from_json(state.read_text(encoding="utf-8")) == made
    assert f"ALARM after {made.alarm} losses" in said(*monitor)
    before = state.read_bytes()
    assert "positions must be new" in refused(*monitor, "--losses", first)
    assert state.read_bytes() == before
    assert "has begun: leave out --promised" in refused(*monitor, "--promised", "0.1")
    assert "give --promised to begin" in refused("monitor", tmp_path / "new.json")
    assert "is no state of pacdp monitor" in refused("monitor", first, "--promised", "0.1")
    assert f"pacdp: {tmp_path / 'no'}: no such file" in refused(
        "monitor", tmp_path / "no" / "w.json", "--promised", 0.1
    )
    assert "copy the folder to where you may" in refused("monitor", "/sys/w.json", "--promised", 0.1)


def test_no_loss_of_two_processes_is_forgotten_and_a_link_stays_one(tmp_path):
    losses, state, link = table(tmp_path / "1.csv", error=[0, 1]), tmp_path / "watch.json", tmp_path / "link.json"
    succeed("monitor", state, "--losses", losses, "--promised", "0.1")
    link.symlink_to(state)
    for one in [start("monitor", link, "--losses", losses) for _ in range(4)]:
        one.communicate(timeout=60)
        assert one.returncode == 0
    assert link.is_symlink()
    assert bounds.Monitor.from_json(state.read_text(encoding="utf-8")).n == 10


@every_case(
    ("text", "said"),
    [
        ("", "is empty"),
        ("confidence,error\n0.1\n", "must have numbers in column 'error', got None in row 0"),
        ("confidence,error\n0.1,0.5\n", "must have whole numbers from 0 to 1 in column 'error', got 0.5 in row 0"),
        ("confidence,error\n0.1,True\n0.1,maybe\n", "must have numbers in column 'error', got 'maybe' in row 1"),
        ("confidence,loss\n0.1,1.5\n", "losses must lie in [0, 1]"),
        ("confidence,score\n0.1,1\n", "must have the columns confidence and error or loss"),
    ],
)
def test_bad_tables_are_refused_in_one_sentence(text, said, tmp_path, refused):
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8")
    assert said in refused("control", path, "--target", "0.1")
