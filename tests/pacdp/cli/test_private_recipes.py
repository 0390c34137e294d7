"""Private recipes: every one trains within its budget, halts by it, goes on bit for bit, and says what it is."""

from dataclasses import replace
from shutil import copytree

import numpy as np
import torch
from cli_tools import read, rows, tensors, verdicts
from numpy.random import default_rng
from tiny_runs import RUNTIME, counted_run, tiny_private

from pacdp import load_checkpoint
from pacdp.cli.private import run
from pacdp.cli.private.algorithms import Public, network, predictor
from pacdp.cli.private.config import P3SGD, PRIVATE_RECIPES, Budget, private_recipe
from pacdp.cli.private.run import judged, train_private
from pacdp.data import Dataset
from pacdp.loop import PrivateRun
from pacdp.store.ledger import Ledger
from tests.marks import at_most, parametrize, refusal
from tests.schema import validate


@parametrize("name", PRIVATE_RECIPES)
def test_every_recipe_keeps_to_its_budget_and_reports_accuracy_calibration_and_epsilon(name, tmp_path):
    config = tiny_private(name, budget=private_recipe(name, scale="smoke").budget)
    result = train_private(config, tmp_path, RUNTIME)
    spent = result["privacy"]
    assert 0.0 < spent["of_budget"]["epsilon"] <= config.budget.epsilon
    assert max(spent["lower"], spent["of_budget"]["epsilon"]) < spent["upper"]
    assert (spent["adjacency"], spent["units_are"]) == ("replace-one", "public")
    assert (spent["delta"], spent["status"], spent["noise"]) == (config.budget.delta, "accounted", "secret")
    assert {"accuracy", "macro_auc", "ece", "nll_nats", "brier"} <= set(result["test"])
    assert (result["steps"], result["halted"]) == (6, False)
    assert rows(tmp_path)[-1]["epsilon"] == spent["upper"]
    if isinstance(config.method, P3SGD):
        assert spent["published_accounting"]["status"] == "optimistic"


def test_noise_is_secret_unless_asked_for_otherwise(tmp_path):
    for reproducible in (False, True):
        config, places = (
            replace(tiny_private("dp-sgd-mnist", steps=5, reproducible=reproducible), records=2),  # rows of 2 and 4
            (tmp_path / "a", tmp_path / "b"),
        )
        for place in places:
            result = train_private(config, place, replace(RUNTIME, force=True))
            assert ("seeded" in result["privacy"]["noise"]) == reproducible
            assert verdicts(place) == {"follows"}
        assert (tensors(places[0]) == tensors(places[1])) == reproducible


def test_a_run_goes_on_with_the_data_that_it_has_learnt_from(tmp_path, monkeypatch):
    config, again = tiny_private("dp-sgd-mnist", steps=2), replace(RUNTIME, resume=True)
    train_private(config, tmp_path, RUNTIME)
    (tmp_path / "result.json").unlink()
    own, same = run.examples, tensors(tmp_path)

    def moved(*name, **how):
        data = own(*name, **how)
        return replace(data, train=replace(data.train, inputs=data.train.inputs * 0.5))

    monkeypatch.setattr(run, "examples", moved)
    with refusal("was trained on other data than digits"):
        train_private(config, tmp_path, again)
    monkeypatch.setattr(run, "examples", own)
    assert train_private(config, tmp_path, again)["steps"] == 2
    assert tensors(tmp_path) == same


def test_configurations_that_make_no_sense_are_refused_in_a_sentence():
    config = private_recipe("dp-sgld-mnist", scale="smoke")
    for name, value, words in (
        ("noise_multiplier", 1.0, "at 0"),
        ("quantile", 0.3, "none of"),
        ("clipping", "quantile", "give"),
    ):
        with refusal(words):
            replace(config, sampling=replace(config.sampling, **{name: value}))
    with refusal("add-remove"):
        replace(private_recipe("p3sgd-malaria", scale="smoke"), budget=Budget(adjacency="replace-one"))


@parametrize("lost", [np.nan, np.inf, -np.inf])
def test_an_example_without_finite_probabilities_is_certainly_wrong(lost):
    drawn, labels = default_rng(0).dirichlet([1.0, 1.0, 1.0], size=50), np.arange(50) % 3
    data = Dataset(name="made up", inputs=np.arange(50, dtype=np.float32)[:, None], labels=labels, classes=3)

    def judge(probabilities):
        return judged(lambda some: torch.tensor(probabilities)[some[:, 0].long()], data)

    broken, wrong = drawn.copy(), drawn.copy()
    broken[1::5, 0] = lost
    wrong[1::5] = np.eye(3)[(labels[1::5] + 1) % 3]
    found = judge(broken)
    assert found.pop("not_finite") == 10
    assert found == judge(wrong)


@at_most(2, "name", ["dp-sgd-mnist", "dp-sgld-mnist", "dp-mc-dropout-mnist", "dp-bbp-mnist"]
)  # fmt: skip
def test_a_private_run_is_certified_by_its_own_examples(name, exported, tmp_path, certify):
    folder, drawn = tmp_path / "run", name in ("dp-bbp-mnist", "dp-mc-dropout-mnist")
    if name == "dp-sgd-mnist":
        copytree(exported / "run", folder)
    else:
        config = tiny_private(name)
        if not drawn:
            config = replace(config, method=replace(config.method, temperature=500.0))
        train_private(config, folder, RUNTIME)
    report, header = certify(folder), load_checkpoint(folder).header
    found = {(made.name, made.of): made for made in validate(report)}
    deployed = found["private_kl_chernoff", "predictor"]
    (measured,) = [m for m in report["measured"] if (m["of"], m["on"]) == ("predictor", "bound")]
    assert measured["mean"] < deployed.value <= 1.0
    for condition in ("privacy covers these rows", "steps fixed beforehand"):
        assert deployed.hypothesis(condition).standing == "proved"
    assert report["privacy"]["event"] == header["event"] == read(folder / "result.json")["privacy"]["event"]
    assert (("randomised_private_pac_bayes", "randomised") in found) != drawn
    assert {made.status for made in found.values()} == {"rigorous"}


@parametrize("size", [0.0, 1500.0])
def test_a_ledger_hears_whether_a_run_tells_the_number_of_records(size, tmp_path):
    config = tiny_private("dp-sgd-mnist", steps=2)
    counted_run(replace(config, sampling=replace(config.sampling, public_size=size)), tmp_path)
    assert {one.stretch.tells_size for one in Ledger.load(tmp_path / "ledger").entries} == {not size}


def test_people_who_were_made_up_certify_nothing(tmp_path, refused):
    train_private(tiny_private("p3sgd-malaria", epsilon=8.0), tmp_path, RUNTIME)
    assert "made up" in refused("certify", tmp_path)
    assert not (tmp_path / "certificates.json").exists()


def test_a_run_that_hides_examples_certifies_nothing_where_these_are_people_s(written, tmp_path, refused):
    train_private(tiny_private("dp-sgd-mnist"), tmp_path, RUNTIME)
    assert "hides people" in refused("certify", tmp_path)


def test_answers_are_given_where_the_network_is():
    config = tiny_private("dp-sgd-mnist")
    public = Public(input_shape=(1, 28, 28), classes=10, size=100.0)
    module = network(config, public, device="meta")
    released = PrivateRun(weights=dict(module.named_parameters()), event=None, snapshots=torch.empty(0, 0),
                          chosen=torch.zeros(0, dtype=torch.int64))  # fmt: skip
    predict = predictor(config, module, released.weights, released.snapshots)
    assert predict(torch.zeros(5, 1, 28, 28)).device.type == "meta"
