"""Private recipes: every one trains within its budget, halts by it, goes on bit for bit, and says what it is."""

import json
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch
from cli_tools import one_sentence, pacdp, read, rows, tensors
from torch import Tensor

import bounds
from bounds.accounting import event_from_dict, privacy_record
from pacdp import load_checkpoint
from pacdp.choices import Choices
from pacdp.cli.config import Runtime
from pacdp.cli.private.algorithms import Public, algorithm
from pacdp.cli.private.config import Budget, PrivateConfig
from pacdp.cli.private.methods import DPBBP, DPSGLD, P3SGD, Method
from pacdp.cli.private.recipes import PRIVATE_RECIPES, private_recipe
from pacdp.cli.private.run import judged, train_private
from pacdp.cli.serial import from_dict, to_dict
from pacdp.data import Dataset
from pacdp.data import load as load_data
from pacdp.private import privacy_claim
from tests.schema import validate

RUNTIME = Runtime(threads=1)


def tiny(name: str, **changes) -> PrivateConfig:
    config = private_recipe(name, scale="smoke")
    sampling = replace(config.sampling, steps=changes.pop("steps", 6))
    return replace(config, sampling=sampling, records=3, **changes)


@pytest.mark.parametrize("name", PRIVATE_RECIPES)
def test_every_recipe_keeps_to_its_budget_and_reports_accuracy_calibration_and_epsilon(name, tmp_path):
    config = tiny(name)
    result = train_private(config, tmp_path, RUNTIME)
    assert result == read(tmp_path / "result.json")
    spent = result["privacy"]
    assert 0.0 < spent["lower"] <= spent["upper"] <= config.budget.epsilon
    assert spent["delta"] == config.budget.delta
    assert spent["status"] == "accounted"
    assert spent["noise"] == "secret"
    assert {"accuracy", "macro_auc", "ece", "nll_nats", "brier"} <= set(result["test"])
    assert result["steps"] == 6
    assert not result["halted"]
    assert [row["step"] for row in rows(tmp_path)] == [2, 4, 6]
    assert rows(tmp_path)[-1]["epsilon"] == spent["upper"]
    header = load_checkpoint(tmp_path).header
    assert from_dict(PrivateConfig, header["about"]["run"]) == config
    if isinstance(config.method, P3SGD):
        assert spent["published_accounting"]["status"] == "optimistic"


@pytest.mark.parametrize("name", ["dp-sgd-mnist", "dp-sgld-mnist", "user-dp-sgd-malaria"])
def test_the_budget_halts_a_run_before_the_step_that_would_overspend_it(name, tmp_path):
    config = tiny(name, steps=30, budget=Budget(epsilon=1.0, delta=1e-3))
    sampling = replace(config.sampling, noise_multiplier=0.0 if isinstance(config.method, DPSGLD) else 1.0)
    method = replace(config.method, temperature=0.3) if isinstance(config.method, DPSGLD) else config.method
    result = train_private(replace(config, sampling=sampling, method=method), tmp_path, RUNTIME)
    assert result["halted"]
    assert 0 < result["steps"] < 30
    assert result["privacy"]["upper"] <= 1.0


@pytest.mark.parametrize("name", ["dp-sgld-mnist", "dp-bbp-mnist", "dp-mc-dropout-mnist", "p3sgd-malaria"])
def test_an_interrupted_run_goes_on_bit_for_bit(name, tmp_path):
    config = tiny(name, reproducible=True)

    def stop(step: int, steps: int, row: object) -> None:
        if step == 5:
            raise KeyboardInterrupt

    whole = train_private(config, tmp_path / "whole", RUNTIME)
    with pytest.raises(KeyboardInterrupt):
        train_private(config, tmp_path / "cut", RUNTIME, report=stop)
    assert not (tmp_path / "cut" / "result.json").exists()
    resumed = train_private(config, tmp_path / "cut", RUNTIME, resume=True)
    assert tensors(tmp_path / "cut") == tensors(tmp_path / "whole")
    assert rows(tmp_path / "cut") == rows(tmp_path / "whole")
    assert resumed | {"seconds": 0} == whole | {"seconds": 0}


def test_noise_is_secret_unless_asked_for_otherwise(tmp_path):
    weights = []
    for k, reproducible in enumerate((False, False, True, True)):
        result = train_private(tiny("dp-sgd-mnist", reproducible=reproducible), tmp_path / str(k), RUNTIME)
        assert ("seeded" in result["privacy"]["noise"]) == reproducible
        weights.append(torch.cat([w.flatten() for w in load_checkpoint(tmp_path / str(k)).model.values()]))
    assert not torch.equal(weights[0], weights[1])
    assert torch.equal(weights[2], weights[3])


@pytest.mark.parametrize("scale", ["smoke", "cpu", "paper"])
@pytest.mark.parametrize("name", PRIVATE_RECIPES)
def test_configurations_survive_json(name, scale):
    config = private_recipe(name, scale=scale, seed=3)
    assert from_dict(PrivateConfig, json.loads(json.dumps(to_dict(config)))) == config


def test_configurations_that_make_no_sense_are_refused_in_a_sentence():
    config = private_recipe("dp-sgld-mnist", scale="smoke")
    with pytest.raises(ValueError, match="noise_multiplier at 0"):
        replace(config, sampling=replace(config.sampling, noise_multiplier=1.0))
    with pytest.raises(ValueError, match="add-remove"):
        replace(private_recipe("p3sgd-malaria", scale="smoke"), budget=Budget(adjacency="replace-one"))
    for field, value in (("sample_rate", 1.5), ("sample_rate", 0.0), ("steps", 0), ("max_physical", 0)):
        with pytest.raises(ValueError, match=f"sampling.{field}"):
            replace(config, sampling=replace(config.sampling, **{field: value}))
    with pytest.raises(ValueError, match="kind"):
        from_dict(PrivateConfig, to_dict(config) | {"method": {"kind": "Nothing"}})
    assert set(get_args(Method)) == {type(private_recipe(n, scale="smoke").method) for n in PRIVATE_RECIPES}


def test_training_ends_with_its_result_where_the_network_has_no_finite_outputs(tmp_path):
    config = tiny("dp-sgd-mnist")
    config = replace(config, method=replace(config.method, learning_rate=1e30))
    result = train_private(config, tmp_path, RUNTIME)
    assert result["test"]["not_finite"] == result["n_test"]
    assert result["test"]["accuracy"] == 0.0
    assert result["test"]["ece"] == pytest.approx(1.0)
    assert result == read(tmp_path / "result.json")
    assert pacdp("report", tmp_path) == 0


@pytest.mark.parametrize("lost", [np.nan, np.inf, -np.inf])
def test_an_example_without_finite_probabilities_is_certainly_wrong(lost):
    drawn = np.random.default_rng(0).random((50, 3)) + 0.1
    data = Dataset(
        name="made up", inputs=np.arange(50.0, dtype=np.float32)[:, None], labels=np.arange(50) % 3, classes=3
    )

    def predict(inputs: Tensor) -> Tensor:
        found = torch.tensor(drawn / drawn.sum(1, keepdims=True))[inputs[:, 0].long()]
        found[inputs[:, 0] % 5 == 1, 0] = lost
        return found

    broken = judged(predict, data, curve=True)
    sure = np.eye(3)[(data.labels + 1) % 3]
    twin = np.where((np.arange(50) % 5 == 1)[:, None], sure, drawn / drawn.sum(1, keepdims=True))
    assert broken.pop("not_finite") == 10
    assert broken == judged(lambda inputs: torch.tensor(twin), data, curve=True)
    whole = judged(lambda inputs: torch.tensor(drawn / drawn.sum(1, keepdims=True)), data)
    assert "not_finite" not in whole
    assert broken["accuracy"] <= whole["accuracy"]


def test_the_command_trains_shows_overrides_and_resumes(tmp_path, capsys):
    out = tmp_path / "run"
    given = ("train", "dp-bbp-mnist", "--out", out, "--threads", "1")
    assert pacdp(*given, "--sampling.steps", "3", "--method.test-draws", "2", "--show") == 0
    shown = from_dict(PrivateConfig, json.loads(capsys.readouterr().out))
    assert shown.sampling.steps == 3
    assert isinstance(shown.method, DPBBP)
    assert shown.method.test_draws == 2
    assert not out.exists()
    assert pacdp(*given, "--sampling.steps", "3") == 0
    printed = capsys.readouterr().out
    assert "accuracy" in printed
    assert "AUC" in printed
    assert "ECE" in printed
    assert "epsilon <=" in printed
    assert pacdp(*given, "--sampling.steps", "3") != 0
    assert "finished run" in one_sentence(capsys.readouterr().err)
    assert pacdp(*given, "--chains", "2", "--force") != 0
    assert "spends its own epsilon" in one_sentence(capsys.readouterr().err)
    (out / "result.json").unlink()
    assert pacdp("train", "--resume", "--out", out, "--json") == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 3


@pytest.mark.parametrize("name", ["dp-sgd-mnist", "dp-sgld-mnist", "dp-bbp-mnist", "dp-mc-dropout-mnist"])
def test_a_private_run_is_certified_by_its_own_examples(name, tmp_path, capsys):
    config = tiny(name, budget=Budget(epsilon=0.1, delta=1e-3))
    if isinstance(config.method, DPSGLD):
        config = replace(config, method=replace(config.method, temperature=500.0))
    train_private(config, tmp_path, RUNTIME)
    assert pacdp("certify", tmp_path, "--threads", "1", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report == read(tmp_path / "certificates.json")
    found = {(made.name, made.of): made for made in validate(report)}
    deployed = found["private_kl_chernoff", "predictor"]
    header = load_checkpoint(tmp_path).header
    claim = privacy_claim(event_from_dict(header["event"]), adjacency="add-remove")
    cost = bounds.transfer_cost(privacy=claim, n=report["n"], failure_prob=0.05)
    assert deployed.nats("transfer") == cost.nats
    (measured,) = [m for m in report["measured"] if (m["of"], m["on"]) == ("predictor", "bound")]
    assert measured["mean"] < deployed.value <= 1.0
    assert deployed.hypothesis("privacy covers these rows").standing == "proved"
    assert deployed.hypothesis("steps fixed beforehand").standing == "proved"
    assert report["privacy"]["event"] == header["event"] == read(tmp_path / "result.json")["privacy"]["event"]
    drawn = name in ("dp-bbp-mnist", "dp-mc-dropout-mnist")
    assert (("randomised_private_pac_bayes", "randomised") in found) != drawn
    assert {made.status for made in found.values()} == {"rigorous"}


def test_a_private_run_pays_for_its_list_of_settings(tmp_path, capsys):
    config, path = tiny("dp-sgd-mnist", budget=Budget(epsilon=0.1, delta=1e-3)), tmp_path / "list"
    choices = Choices.create(path)
    for seed in range(5):
        choices.add(to_dict(replace(config, seed=config.seed + seed)))
    choices.close()
    train_private(config, tmp_path / "run", RUNTIME, choices=path)

    def fixed(*options):
        assert pacdp("certify", tmp_path / "run", "--threads", "1", "--json", *options) == 0
        found = validate(json.loads(capsys.readouterr().out))
        assert [made.failure_prob for made in found] == pytest.approx([0.01] * len(found))
        return {made.hypothesis("settings fixed beforehand").standing for made in found}

    assert fixed() == {"proved"}
    (tmp_path / "run" / "choices.jsonl").unlink()
    assert fixed() == {"declared"}
    assert fixed("--choices", path) == {"proved"}


def test_people_who_were_made_up_certify_nothing(tmp_path, capsys):
    train_private(tiny("p3sgd-malaria"), tmp_path, RUNTIME)
    assert pacdp("certify", tmp_path) == 1
    assert "made up" in one_sentence(capsys.readouterr().err)
    assert not (tmp_path / "certificates.json").exists()


@pytest.fixture
def written(monkeypatch):
    """The digits, three by each of a number of writers, in place of the digits without their writers."""

    def load(name, **how):
        train, test = load_data(name, **how)
        return tuple(replace(part, people=np.arange(part.n) // 3 + first, unit="writer")
                     for part, first in ((train, 0), (test, 1000)))  # fmt: skip

    monkeypatch.setattr("pacdp.cli.private.data.load", load)


@pytest.mark.parametrize("name", ["p3sgd-malaria", "user-dp-sgd-malaria"])
def test_a_run_that_hides_people_is_certified_by_people(name, written, tmp_path, capsys):
    train_private(tiny(name), tmp_path, RUNTIME)
    assert pacdp("certify", tmp_path, "--threads", "1", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    found = validate(report)
    assert (report["n"], report["unit"], report["examples"]) == (479, "person", 1437)
    assert found[0].measures == "0-1 risk of a new person"
    planned = algorithm(tiny(name), Public(input_shape=(1, 8, 8), classes=10, size=479.0)).promise(479, 6)
    claim = privacy_record(event=planned, adjacency="add-remove")
    assert found[0].nats("transfer") == bounds.transfer_cost(privacy=claim, n=479, failure_prob=0.05).nats
    assert {made.hypothesis("records independent").unit for made in found} == {"person"}


def test_a_run_that_hides_examples_certifies_nothing_where_these_are_people_s(written, tmp_path, capsys):
    train_private(tiny("dp-sgd-mnist"), tmp_path, RUNTIME)
    assert pacdp("certify", tmp_path) == 1
    assert "hides people" in one_sentence(capsys.readouterr().err)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("name", ["dp-sgd-mnist", "dp-bbp-mnist", "dp-mc-dropout-mnist"])
def test_recipes_train_on_a_gpu_from_the_cpu_s_first_weights(name, tmp_path):
    config = tiny(name, steps=2)
    result = train_private(config, tmp_path / "gpu", Runtime(threads=1, device="cuda"))
    assert result["privacy"] == train_private(config, tmp_path / "cpu", RUNTIME)["privacy"]
