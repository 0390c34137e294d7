"""What a run pays for when it is stopped by hand is said before it begins: all its steps, or those of a list."""

from dataclasses import replace

from cli_tools import forge, rows
from tiny_runs import RUNTIME, interrupted, tiny

import bounds
from pacdp import load_checkpoint, load_trained
from pacdp.cli.run import train
from pacdp.step.langevin import accounted_privacy
from pacdp.step.planned_steps import Plan
from pacdp.store.canonical import digest
from tests.marks import near, parametrize, refusal
from tests.schema import validate

N = 1437
CLIPPED = tiny("clipped-sgld", records=3)


@parametrize(
    ("stopping", "after", "charged"), [("planned", 30, (90, 1, "declared")), ("listed", 60, (60, 3, "proved"))]
)
def test_a_run_that_is_stopped_by_hand_pays_for_its_plan(stopping, after, charged, tmp_path, certify):
    """For all its steps, or for those of the list at a share of the failure probability; in its rows too."""
    run, (steps, times, standing) = replace(CLIPPED, stopping=stopping), charged
    interrupted(run, tmp_path, after=after)
    found, plan = validate(certify(tmp_path)), load_trained(tmp_path).charged
    (one,) = (made for made in found if made.name == "private_kl_chernoff")
    privacy = accounted_privacy(run.sampler, n=N, steps=steps)
    paid = bounds.transfer.transfer_cost(privacy=privacy, n=N, failure_prob=0.05 / times)
    assert one.nats("transfer") == paid.nats
    assert one.failure_prob == near(0.05, rel=1e-15)
    assert (plan.steps, plan.stopping_times, plan.hypothesis.standing) == (steps, times, standing)
    assert rows(tmp_path)[-1]["step"] == after
    assert rows(tmp_path)[-1]["bounds"]["private_kl_chernoff"] == one.value


def test_the_choice_between_the_two_is_not_made_afterwards(tmp_path, refused):
    """Neither by another configuration, nor in the header."""
    interrupted(CLIPPED, tmp_path, after=30)
    with refusal("holds a run of another configuration"):
        train(replace(CLIPPED, stopping="listed"), tmp_path, replace(RUNTIME, resume=True))
    header, path = load_checkpoint(tmp_path).header, tmp_path / "checkpoint.safetensors"
    sound = path.read_bytes()
    later = Plan(steps=90, stopping="listed", listed=(30, 90)).to_header()
    for change in (later, {"run": {**header["run"], "stopping": "listed"}}):
        path.write_bytes(sound)
        forge(tmp_path, **{**change, "config_hash": digest(change.get("run", header["run"]))})
        said = refused("certify", tmp_path, "--threads", 1)
        assert ("is of another run or chain" if "run" in change else "says that it was planned with") in said
