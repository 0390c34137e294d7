"""Certificates of private runs pay for the steps that the configuration plans, whatever the header says."""

import json
from dataclasses import replace

import pytest
from cli_tools import one_sentence, pacdp
from test_private_recipes import RUNTIME, tiny

from bounds.accounting import event_to_dict
from pacdp import CheckpointError, load_checkpoint, save_checkpoint
from pacdp.choices import Choices
from pacdp.cli.private.algorithms import Public
from pacdp.cli.private.config import Budget
from pacdp.cli.private.planning import charged_event
from pacdp.cli.private.run import train_private
from pacdp.cli.serial import to_dict
from pacdp.private import joined, planned, runs_of, steps_of
from pacdp.resume import read_event
from tests.schema import validate

PUBLIC = Public(input_shape=(1, 8, 8), classes=10, size=1437.0)


def stopped(config, folder, **options) -> None:
    """Train until the first checkpoint is there, which comes after its row."""

    def stop(step, steps, row):
        if (folder / "checkpoint.safetensors").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_private(config, folder, RUNTIME, report=stop, **options)


def edited(folder, **change) -> None:
    checkpoint = load_checkpoint(folder)
    header = {**checkpoint.header, **change}
    save_checkpoint(folder / "checkpoint.safetensors", replace(checkpoint, header=header))


def charge(folder, config):
    return charged_event(folder, load_checkpoint(folder).header, config, PUBLIC)


def gaussians(runs):
    made = joined(*(planned(sigma, sample_rate=rate, steps=steps) for sigma, rate, steps in runs))
    return made and event_to_dict(made)


def test_a_run_stopped_by_hand_pays_for_all_its_steps(tmp_path, capsys) -> None:
    config = tiny("dp-sgd-mnist", steps=4)
    stopped(config, tmp_path / "part")
    train_private(config, tmp_path / "whole", RUNTIME)
    part, whole = (charge(tmp_path / name, config) for name in ("part", "whole"))
    assert load_checkpoint(tmp_path / "part").header["step"] < 4
    assert part[0] == whole[0]
    assert (steps_of(part[0]), part[1].hypothesis.standing, whole[1].hypothesis.standing) == (4, "declared", "proved")
    costs = []
    for name in ("part", "whole"):
        assert pacdp("certify", tmp_path / name, "--threads", 1, "--json") == 0
        report = json.loads(capsys.readouterr().out)
        costs.append((report["privacy"], validate(report)[0].nats("transfer")))
    assert costs[0] == costs[1]


def test_a_run_that_its_budget_halts_has_kept_to_its_plan(tmp_path) -> None:
    config = tiny("dp-sgd-mnist", steps=30, budget=Budget(epsilon=1.0, delta=1e-3))
    config = replace(config, sampling=replace(config.sampling, noise_multiplier=1.0))
    result = train_private(config, tmp_path, RUNTIME)
    history, steps = charge(tmp_path, config)
    assert (steps_of(history), steps.hypothesis.standing, result["halted"]) == (result["steps"], "proved", True)


def test_histories_that_the_configuration_does_not_make_are_refused(tmp_path, capsys) -> None:
    config = tiny("dp-sgd-mnist", steps=3)
    train_private(config, tmp_path, RUNTIME)
    header = load_checkpoint(tmp_path).header
    ((step, steps),) = runs_of(read_event(header))
    sigma, rate = step.event.noise_multiplier, step.sample_rate
    shorter, quieter = [(sigma, rate, steps - 1)], [(10 * sigma, rate, steps)]
    rarer, partly = [(sigma, rate / 2, steps)], [(sigma, rate, 1), (2 * sigma, rate, steps - 1)]
    changes = [{"event": gaussians(runs)} for runs in ([], shorter, quieter, rarer, partly)]
    changes += [{"event": {"event": "Laplace"}}, {"step": 1}]
    changes += [{"public": {**header["public"], name: 1.5 * value}} for name, value in header["public"].items()]
    for change in changes:
        edited(tmp_path, **{**header, **change})
        with pytest.raises(CheckpointError, match="that its configuration does not make: its header was changed"):
            charge(tmp_path, config)
        assert pacdp("certify", tmp_path, "--threads", 1) == 1
        assert "does not make" in one_sentence(capsys.readouterr().err)
    edited(tmp_path, **{**header, "step": 1, "event": gaussians([(sigma, rate, 1)])})
    assert steps_of(charge(tmp_path, config)[0]) == 3, (
        "a history that was shortened together with its step costs the same"
    )


def test_private_runs_carry_the_list_that_covers_them(tmp_path) -> None:
    config = tiny("dp-sgd-mnist", steps=3)
    choices = Choices.create(tmp_path / "list")
    choices.add(to_dict(config))
    with pytest.raises(ValueError, match="is not closed"):
        train_private(config, tmp_path / "run", RUNTIME, choices=choices.path)
    choices.close()
    stopped(config, tmp_path / "none")
    with pytest.raises(ValueError, match="was started without a list"):
        train_private(config, tmp_path / "none", RUNTIME, resume=True, choices=choices.path)
    stopped(config, tmp_path / "run", choices=choices.path)
    result = train_private(config, tmp_path / "run", RUNTIME, resume=True)
    checkpoint = load_checkpoint(tmp_path / "run")
    assert checkpoint.header["about"]["choices"] == choices.require(to_dict(config))
    assert result["steps"] == 3
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    assert written["rests_on"]["checkpoint"] == checkpoint.content_hash
