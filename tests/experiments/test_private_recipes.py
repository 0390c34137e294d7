"""Private recipes: every one trains within its budget, halts by it, goes on bit for bit, and says what it is."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from cli_tools import read, rows, succeed, tensors
from tiny_runs import RUNTIME, interrupted, tiny_private

import bounds
from bounds.accounting import event_from_dict
from pacdp import load_checkpoint
from pacdp.cli.config import Runtime
from pacdp.cli.private.config import Budget, PrivateConfig
from pacdp.cli.private.methods import DPBBP, P3SGD
from pacdp.cli.private.recipes import PRIVATE_RECIPES, private_recipe
from pacdp.cli.private.run import judged, train_private
from pacdp.cli.serial import from_dict, to_dict
from pacdp.data import Dataset
from pacdp.private import privacy_claim
from tests.schema import validate


@pytest.mark.parametrize("name", PRIVATE_RECIPES)
def test_every_recipe_keeps_to_its_budget_and_reports_accuracy_calibration_and_epsilon(name, tmp_path):
    config = tiny_private(name, budget=private_recipe(name, scale="smoke").budget)
    result = train_private(config, tmp_path, RUNTIME)
    assert result == read(tmp_path / "result.json")
    spent = result["privacy"]
    assert 0.0 < spent["lower"] <= spent["upper"] <= config.budget.epsilon
    assert (spent["delta"], spent["status"], spent["noise"]) == (config.budget.delta, "accounted", "secret")
    assert {"accuracy", "macro_auc", "ece", "nll_nats", "brier"} <= set(result["test"])
    assert (result["steps"], result["halted"]) == (6, False)
    assert [row["step"] for row in rows(tmp_path)] == [2, 4, 6]
    assert rows(tmp_path)[-1]["epsilon"] == spent["upper"]
    assert from_dict(PrivateConfig, load_checkpoint(tmp_path).header["about"]["run"]) == config
    if isinstance(config.method, P3SGD):
        assert spent["published_accounting"]["status"] == "optimistic"


@pytest.mark.parametrize("name", ["dp-sgd-mnist", "dp-sgld-mnist", "user-dp-sgd-malaria"])
def test_the_budget_halts_a_run_before_the_step_that_would_overspend_it(name, tmp_path):
    config, noisy = tiny_private(name, steps=30, epsilon=1.0), name.startswith("dp-sgld")
    config = replace(config, sampling=replace(config.sampling, noise_multiplier=0.0 if noisy else 1.0))
    if noisy:
        config = replace(config, method=replace(config.method, temperature=0.3))
    result = train_private(config, tmp_path, RUNTIME)
    assert result["halted"]
    assert 0 < result["steps"] < 30
    assert result["privacy"]["upper"] <= 1.0


@pytest.mark.parametrize("name", ["dp-sgld-mnist", "dp-bbp-mnist", "dp-mc-dropout-mnist", "p3sgd-malaria"])
def test_an_interrupted_run_goes_on_bit_for_bit(name, tmp_path):
    config = tiny_private(name, epsilon=8.0, reproducible=True)
    whole = train_private(config, tmp_path / "whole", RUNTIME)
    interrupted(config, tmp_path / "cut", after=5)
    resumed = train_private(config, tmp_path / "cut", RUNTIME, resume=True)
    assert tensors(tmp_path / "cut") == tensors(tmp_path / "whole")
    assert rows(tmp_path / "cut") == rows(tmp_path / "whole")
    assert resumed | {"seconds": 0} == whole | {"seconds": 0}


def test_noise_is_secret_unless_asked_for_otherwise(exported, tmp_path):
    for name, reproducible in (("a", False), ("b", True), ("c", True)):
        config = tiny_private("dp-sgd-mnist", reproducible=reproducible)
        result = train_private(config, tmp_path / name, RUNTIME)
        assert ("seeded" in result["privacy"]["noise"]) == reproducible
    a, b, c = (tensors(tmp_path / name) for name in "abc")
    assert a != tensors(exported / "run")
    assert b == c


def test_configurations_that_make_no_sense_are_refused_in_a_sentence():
    config = private_recipe("dp-sgld-mnist", scale="smoke")
    people = private_recipe("p3sgd-malaria", scale="smoke")
    for change, said in (
        ({"noise_multiplier": 1.0}, "noise_multiplier at 0"),
        ({"sample_rate": 1.5}, "sampling.sample_rate"),
        ({"sample_rate": 0.0}, "sampling.sample_rate"),
        ({"steps": 0}, "sampling.steps"),
        ({"max_physical": 0}, "sampling.max_physical"),
    ):
        with pytest.raises(ValueError, match=said):
            replace(config, sampling=replace(config.sampling, **change))
    with pytest.raises(ValueError, match="add-remove"):
        replace(people, budget=Budget(adjacency="replace-one"))
    with pytest.raises(ValueError, match="kind"):
        from_dict(PrivateConfig, to_dict(config) | {"method": {"kind": "Nothing"}})


def test_training_ends_with_its_result_where_the_network_has_no_finite_outputs(tmp_path):
    config = tiny_private("dp-sgd-mnist")
    result = train_private(replace(config, method=replace(config.method, learning_rate=1e30)), tmp_path, RUNTIME)
    assert result["test"]["not_finite"] == result["n_test"]
    assert result["test"]["accuracy"] == 0.0
    assert result["test"]["ece"] == pytest.approx(1.0)
    assert result == read(tmp_path / "result.json")
    succeed("report", tmp_path)


@pytest.mark.parametrize("lost", [np.nan, np.inf, -np.inf])
def test_an_example_without_finite_probabilities_is_certainly_wrong(lost):
    drawn, labels = np.random.default_rng(0).dirichlet([1.0, 1.0, 1.0], size=50), np.arange(50) % 3
    data = Dataset(name="made up", inputs=np.arange(50, dtype=np.float32)[:, None], labels=labels, classes=3)

    def judge(probabilities):
        return judged(lambda some: torch.tensor(probabilities)[some[:, 0].long()], data, curve=True)

    broken, wrong = drawn.copy(), drawn.copy()
    broken[1::5, 0] = lost
    wrong[1::5] = np.eye(3)[(labels[1::5] + 1) % 3]
    found, whole = judge(broken), judge(drawn)
    assert found.pop("not_finite") == 10
    assert found == judge(wrong)
    assert "not_finite" not in whole
    assert found["accuracy"] <= whole["accuracy"]


def test_the_command_trains_shows_overrides_and_resumes(tmp_path, capsys):
    out = tmp_path / "run"
    given = ("train", "dp-bbp-mnist", "--out", out, "--threads", "1", "--sampling.steps", "3")
    succeed(*given, "--method.test-draws", "2", "--show")
    shown = from_dict(PrivateConfig, json.loads(capsys.readouterr().out))
    assert isinstance(shown.method, DPBBP)
    assert (shown.sampling.steps, shown.method.test_draws) == (3, 2)
    assert not out.exists()
    succeed(*given)
    printed = capsys.readouterr().out
    assert all(word in printed for word in ("accuracy", "AUC", "ECE", "epsilon <="))
    (out / "result.json").unlink()
    succeed("train", "--resume", "--out", out, "--json")
    assert json.loads(capsys.readouterr().out)["steps"] == 3


@pytest.mark.parametrize("name", ["calibrated", "dp-sgld-mnist", "dp-bbp-mnist", "dp-mc-dropout-mnist"])
def test_a_private_run_is_certified_by_its_own_examples(name, private_runs, tmp_path):
    folder, drawn = private_runs.get(name, tmp_path), name in ("dp-bbp-mnist", "dp-mc-dropout-mnist")
    if name not in private_runs:
        config = tiny_private(name)
        if not drawn:
            config = replace(config, method=replace(config.method, temperature=500.0))
        train_private(config, folder, RUNTIME)
        succeed("certify", folder, "--threads", "1")
    report, header = read(folder / "certificates.json"), load_checkpoint(folder).header
    found = {(made.name, made.of): made for made in validate(report)}
    deployed = found["private_kl_chernoff", "predictor"]
    claim = privacy_claim(event_from_dict(header["event"]), adjacency="add-remove")
    cost = bounds.transfer_cost(privacy=claim, n=report["n"], failure_prob=0.05)
    assert deployed.nats("transfer") == cost.nats
    (measured,) = [m for m in report["measured"] if (m["of"], m["on"]) == ("predictor", "bound")]
    assert measured["mean"] < deployed.value <= 1.0
    for condition in ("privacy covers these rows", "steps fixed beforehand"):
        assert deployed.hypothesis(condition).standing == "proved"
    assert report["privacy"]["event"] == header["event"] == read(folder / "result.json")["privacy"]["event"]
    assert (("randomised_private_pac_bayes", "randomised") in found) != drawn
    assert {made.status for made in found.values()} == {"rigorous"}


def test_people_who_were_made_up_certify_nothing(tmp_path, refused):
    train_private(tiny_private("p3sgd-malaria", epsilon=8.0), tmp_path, RUNTIME)
    assert "made up" in refused("certify", tmp_path)
    assert not (tmp_path / "certificates.json").exists()


def test_a_run_that_hides_examples_certifies_nothing_where_these_are_people_s(written, tmp_path, refused):
    train_private(tiny_private("dp-sgd-mnist"), tmp_path, RUNTIME)
    assert "hides people" in refused("certify", tmp_path)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("name", ["dp-sgd-mnist", "dp-bbp-mnist", "dp-mc-dropout-mnist"])
def test_recipes_train_on_a_gpu_from_the_cpu_s_first_weights(name, tmp_path):
    config = tiny_private(name, steps=2)
    result = train_private(config, tmp_path / "gpu", Runtime(threads=1, device="cuda"))
    assert result["privacy"] == train_private(config, tmp_path / "cpu", RUNTIME)["privacy"]
