"""Certificates of private runs pay for the steps that the configuration plans, whatever the header says."""

from shutil import copytree

from cli_tools import forge, read
from tiny_runs import RUNTIME, halted

from bounds.accounting import event_to_dict
from pacdp import load_checkpoint
from pacdp.cli.folder import Folder
from pacdp.cli.private.algorithms import Public
from pacdp.cli.private.certify import charged_event
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.private.run import train_private
from pacdp.errors import CheckpointError
from pacdp.private import joined, planned, runs_of, steps_of
from pacdp.resume import read_event
from tests.marks import refusal

PUBLIC = Public(input_shape=(1, 8, 8), classes=10, size=1437.0)


def charge(folder, config):
    return charged_event(folder, load_checkpoint(folder).header, config, PUBLIC)


def gaussians(runs):
    made = joined(*(planned(sigma, sample_rate=rate, steps=steps) for sigma, rate, steps in runs))
    return made and event_to_dict(made)


def test_a_run_that_its_budget_halts_has_kept_to_its_plan(tmp_path):
    config = halted()
    train_private(config, tmp_path, RUNTIME)
    result, (history, steps) = read(tmp_path / "result.json"), charge(tmp_path, config)
    assert (steps_of(history), steps.hypothesis.standing, result["halted"]) == (result["steps"], "proved", True)
    assert 0 < result["steps"] < config.sampling.steps
    assert result["privacy"]["of_budget"]["epsilon"] <= config.budget.epsilon


def test_histories_that_the_configuration_does_not_make_are_refused(exported, tmp_path, refused):
    run = copytree(exported / "run", tmp_path / "run")
    config, header = (Folder(run).config_of(PrivateConfig), dict(load_checkpoint(run).header))
    ((step, steps),) = runs_of(read_event(header))
    sigma, rate = step.event.noise_multiplier, step.sample_rate
    wrong = [[], [(sigma, rate, steps - 1)], [(10 * sigma, rate, steps)], [(sigma, rate / 2, steps)]]
    wrong += [[(sigma, rate, 1), (2 * sigma, rate, steps - 1)]]
    changes = [{"step": 1}, *({"event": gaussians(runs)} for runs in wrong)]
    changes += [{"public": {**header["public"], name: 1.5 * value}} for name, value in header["public"].items()]
    for change in changes:
        forge(run, **{**header, **change})
        with refusal("that its configuration does not make: its header was changed", CheckpointError):
            charge(run, config)
    assert "does not make" in refused("certify", run, "--threads", 1)
    forge(run, **{**header, "step": 1, "event": gaussians([(sigma, rate, 1)])})
    assert steps_of(charge(run, config)[0]) == 6, "a history that was shortened together with its step costs the same"
