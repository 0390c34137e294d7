"""Runs that are stopped by hand pay for the steps that they were to make, on every surface."""

import json
from dataclasses import replace

import pytest
from cli_tools import one_sentence, pacdp
from tiny_runs import RUNTIME, tiny

import bounds
from pacdp import load_checkpoint, load_trained, save_checkpoint
from pacdp.canonical import digest
from pacdp.cli.config import Run
from pacdp.cli.run import train
from pacdp.planned_steps import Plan
from pacdp.step.langevin import accounted_privacy
from tests.schema import validate

N = 1437
CLIPPED = tiny("clipped-sgld", records=3)


def cost(run: Run, *, steps: int, failure_prob: float = 0.05) -> float:
    privacy = accounted_privacy(run.sampler, n=N, steps=steps)
    return bounds.transfer_cost(privacy=privacy, n=N, failure_prob=failure_prob).nats


def stopped(run: Run, folder, *, after: int) -> None:
    def stop(step, steps, row):
        if row is not None and step == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(run, folder, RUNTIME, report=stop)


def certified(folder, capsys) -> bounds.Certificate:
    assert pacdp("certify", folder, "--threads", 1, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    return next(one for one in validate(report) if one.name == "private_kl_chernoff")


def test_the_plan_follows_from_the_run() -> None:
    assert CLIPPED.marks(N) == (30, 60, 90)
    assert CLIPPED.plan(N) == Plan(steps=90)
    assert replace(CLIPPED, stopping="listed").plan(N) == Plan(steps=90, stopping="listed", listed=(30, 60, 90))
    assert replace(CLIPPED, records=1000).marks(N) == tuple(range(1, 91))


@pytest.mark.wrong_types
def test_a_rule_for_stopping_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="expected stopping to be 'planned' or 'listed', got 'never'"):
        replace(CLIPPED, stopping="never")


def test_a_run_stopped_by_hand_is_charged_as_planned(tmp_path, capsys) -> None:
    stopped(CLIPPED, tmp_path, after=30)
    assert load_checkpoint(tmp_path).header["step"] == 30
    one = certified(tmp_path, capsys)
    assert one.nats("transfer") == cost(CLIPPED, steps=90) > cost(CLIPPED, steps=30)
    assert load_trained(tmp_path).charged.hypothesis.standing == "declared"
    (row,) = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
    assert row["bounds"]["private_kl_chernoff"] == one.value


def test_a_finished_run_is_proved_to_have_kept_to_its_plan(tmp_path, capsys) -> None:
    train(CLIPPED, tmp_path, RUNTIME)
    assert certified(tmp_path, capsys).nats("transfer") == cost(CLIPPED, steps=90)
    assert load_trained(tmp_path).charged.hypothesis.standing == "proved"


def test_listed_records_share_the_failure_probability(tmp_path, capsys) -> None:
    run = replace(CLIPPED, stopping="listed")
    stopped(run, tmp_path, after=60)
    one = certified(tmp_path, capsys)
    assert one.nats("transfer") == cost(run, steps=60, failure_prob=0.05 / 3)
    assert one.failure_prob == pytest.approx(0.05, rel=1e-15)
    charged = load_trained(tmp_path).charged
    assert (charged.steps, charged.stopping_times, charged.hypothesis.standing) == (60, 3, "proved")
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [30, 60]
    assert rows[-1]["bounds"]["private_kl_chernoff"] == one.value


def test_the_choice_between_the_two_is_not_made_afterwards(tmp_path, capsys) -> None:
    """Neither by another configuration, nor in the header."""
    stopped(CLIPPED, tmp_path, after=30)
    with pytest.raises(ValueError, match="holds a run of another configuration"):
        train(replace(CLIPPED, stopping="listed"), tmp_path, RUNTIME, resume=True)
    checkpoint = load_checkpoint(tmp_path)
    later = Plan(steps=90, stopping="listed", listed=(30, 90)).to_header()
    for change in (later, {"planned_steps": 30}, {"run": {**checkpoint.header["run"], "stopping": "listed"}}):
        header = {**checkpoint.header, **change}
        header["config_hash"] = digest(header["run"])
        save_checkpoint(tmp_path / "checkpoint.safetensors", replace(checkpoint, header=header))
        assert pacdp("certify", tmp_path, "--threads", 1) == 1
        said = one_sentence(capsys.readouterr().err)
        assert "says that it was planned with" in said or "is of another run or chain" in said
