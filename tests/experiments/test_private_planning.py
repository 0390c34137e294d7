"""Certificates of private runs pay for the steps that the configuration plans, whatever the header says."""

import shutil

import pytest
from cli_tools import forge, read
from tiny_runs import RUNTIME, interrupted, tiny_private

from bounds.accounting import event_to_dict
from pacdp import CheckpointError, load_checkpoint
from pacdp.choices import Choices
from pacdp.cli.private.algorithms import Public
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.private.planning import charged_event
from pacdp.cli.private.run import train_private
from pacdp.cli.serial import from_dict, to_dict
from pacdp.private import joined, planned, runs_of, steps_of
from pacdp.resume import read_event
from tests.schema import validate

PUBLIC = Public(input_shape=(1, 8, 8), classes=10, size=1437.0)


def charge(folder, config):
    return charged_event(folder, load_checkpoint(folder).header, config, PUBLIC)


def gaussians(runs):
    made = joined(*(planned(sigma, sample_rate=rate, steps=steps) for sigma, rate, steps in runs))
    return made and event_to_dict(made)


def test_a_run_stopped_by_hand_pays_for_all_its_steps(exported, tmp_path, certify) -> None:
    config = from_dict(PrivateConfig, read(exported / "run" / "config.json"))
    interrupted(config, tmp_path / "part", after=4)
    (tmp_path / "whole").symlink_to(exported / "run")
    part, whole = (charge(tmp_path / name, config) for name in ("part", "whole"))
    assert load_checkpoint(tmp_path / "part").header["step"] < 6
    assert part[0] == whole[0]
    assert (steps_of(part[0]), part[1].hypothesis.standing, whole[1].hypothesis.standing) == (6, "declared", "proved")
    first, second = (certify(tmp_path / name, "--out", tmp_path / f"{name}.json") for name in ("part", "whole"))
    assert first["privacy"] == second["privacy"]
    assert validate(first)[0].nats("transfer") == validate(second)[0].nats("transfer")


def test_a_run_that_its_budget_halts_has_kept_to_its_plan(private_runs) -> None:
    folder = private_runs["halted"]
    config, result = from_dict(PrivateConfig, read(folder / "config.json")), read(folder / "result.json")
    history, steps = charge(folder, config)
    assert (steps_of(history), steps.hypothesis.standing, result["halted"]) == (result["steps"], "proved", True)


def test_histories_that_the_configuration_does_not_make_are_refused(exported, tmp_path, refused) -> None:
    run = shutil.copytree(exported / "run", tmp_path / "run")
    config, header = from_dict(PrivateConfig, read(run / "config.json")), dict(load_checkpoint(run).header)
    ((step, steps),) = runs_of(read_event(header))
    sigma, rate = step.event.noise_multiplier, step.sample_rate
    shorter, quieter = [(sigma, rate, steps - 1)], [(10 * sigma, rate, steps)]
    rarer, partly = [(sigma, rate / 2, steps)], [(sigma, rate, 1), (2 * sigma, rate, steps - 1)]
    changes = [{"event": gaussians(runs)} for runs in ([], shorter, quieter, rarer, partly)]
    changes += [{"event": {"event": "Laplace"}}, {"step": 1}]
    changes += [{"public": {**header["public"], name: 1.5 * value}} for name, value in header["public"].items()]
    for change in changes:
        forge(run, **{**header, **change})
        with pytest.raises(CheckpointError, match="that its configuration does not make: its header was changed"):
            charge(run, config)
        assert "does not make" in refused("certify", run, "--threads", 1)
    forge(run, **{**header, "step": 1, "event": gaussians([(sigma, rate, 1)])})
    assert steps_of(charge(run, config)[0]) == 6, "a history that was shortened together with its step costs the same"


def test_private_runs_carry_the_list_that_covers_them(tmp_path) -> None:
    config, resume = tiny_private("dp-sgd-mnist", steps=3), {"runtime": RUNTIME, "resume": True}
    choices = Choices.create(tmp_path / "list")
    choices.add(to_dict(config))
    with pytest.raises(ValueError, match="is not closed"):
        train_private(config, tmp_path / "run", RUNTIME, choices=choices.path)
    choices.close()
    interrupted(config, tmp_path / "none", after=2)
    with pytest.raises(ValueError, match="was started without a list"):
        train_private(config, tmp_path / "none", **resume, choices=choices.path)
    interrupted(config, tmp_path / "run", after=2, choices=choices.path)
    result, checkpoint = train_private(config, tmp_path / "run", **resume), load_checkpoint(tmp_path / "run")
    assert checkpoint.header["about"]["choices"] == choices.require(to_dict(config))
    assert (result["steps"], result["rests_on"]["checkpoint"]) == (3, checkpoint.content_hash)
