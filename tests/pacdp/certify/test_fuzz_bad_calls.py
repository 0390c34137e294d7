"""What does not fit is refused in one sentence: examples, networks, calls of the door, records, chains."""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from door_toys import MU, PURE, examples, gaussian, law, network, split
from torch import nn
from toys import toy_data, toy_objective

import bounds
from pacdp import (
    BoundSet,
    DataFree,
    Finite,
    GaussianPosterior,
    GibbsSettings,
    HeldOut,
    LocalGibbs,
    MonteCarlo,
    Network,
    Point,
    Prior,
    Private,
    Settings,
    certify,
)
from pacdp.data import DataError
from pacdp.losses import Loss

pytestmark = pytest.mark.wrong_types
DATA = examples()
BAD_SETS = {
    "no tensor": {"inputs": np.ones((3, 4), np.float32)},
    "list of labels": {"labels": [0, 1, 0]},
    "int32 labels": {"labels": torch.zeros(3, dtype=torch.int32)},
    "float labels": {"labels": torch.zeros(3)},
    "labels [n, 1]": {"labels": torch.zeros(3, 1, dtype=torch.int64)},
    "no example": {"inputs": torch.ones(0, 4), "labels": torch.zeros(0, dtype=torch.int64)},
    "a number": {"inputs": torch.tensor(1.0)},
    "no axis": {"labels": torch.tensor(1)},
    "people as a list": {"people": [0, 1, 2]},
    "people as names": {"people": np.array(["a", "b", "c"])},
    "people as floats": {"people": np.array([0.0, 1.0, 2.0])},
    "negative people": {"people": np.array([0, -1, 2])},
    "few people": {"people": np.array([0, 1])},
    "indices": {"indices": [0, 1, 2]},
    "few indices": {"indices": split(0, 2)},
    "hash": {"data_hash": 3},
}


@pytest.mark.parametrize("bad", BAD_SETS.values(), ids=BAD_SETS)
def test_sets_of_examples_are_checked(bad):
    with pytest.raises(ValueError, match="expected"):
        BoundSet(**{"inputs": torch.ones(3, 4), "labels": torch.zeros(3, dtype=torch.int64), **bad})


@pytest.mark.parametrize("places", [split(0, 0), split(5, 61)])
def test_places_beyond_the_data_are_refused(places):
    with pytest.raises(ValueError, match="expected some of 60 examples"):
        BoundSet.of(DATA.inputs, DATA.labels, places)


BAD_NETWORKS = {
    "a dict": lambda inputs: {"logits": inputs},
    "a tuple": lambda inputs: (inputs,),
    "nothing": lambda inputs: None,
    "one row": lambda inputs: inputs[:1],
    "three axes": lambda inputs: inputs[:, :, None],
    "no class": lambda inputs: inputs[:, :0],
    "whole numbers": lambda inputs: inputs.long(),
    "booleans": lambda inputs: inputs > 0,
    "complex": lambda inputs: inputs.to(torch.complex64),
    "another width": lambda inputs: inputs @ torch.ones(5, 1),
    "a key": lambda inputs: {}["logits"],
    "classes by batch": lambda inputs: inputs.new_zeros(len(inputs), 2 + len(inputs) % 2),
}


@pytest.mark.parametrize("route", ["network", "finite"])
@pytest.mark.parametrize("bad", BAD_NETWORKS.values(), ids=BAD_NETWORKS)
def test_outputs_are_checked(bad, route):
    with pytest.raises(ValueError, match=r"network|expected one row of logits|outputs an example in every batch"):
        certify(Network(network=bad) if route == "network" else Finite(networks=[bad]), DATA)


def test_outputs_without_a_number_are_errors():
    made = certify(Network(network=lambda inputs: inputs * math.nan), replace(DATA, people=np.arange(60) // 2))
    assert made.error("your network", "bound") == 1.0
    found = certify(Network(network=lambda inputs: inputs * math.nan), DATA)
    assert found.error("your network", "bound") == 1.0
    assert [one.measures for one in found.certificates] == ["0-1 risk"]


@pytest.mark.parametrize("bad", [lambda inputs: inputs, lambda inputs: inputs.sigmoid()[:, 0],
                                 lambda inputs: inputs.sigmoid()[:, :1]])  # fmt: skip
def test_scores_are_probabilities_of_each_class(bad):
    with pytest.raises(ValueError, match="expected probabilities"):
        certify(Network(network=bad, scores=True), DATA)


BAD_CALLS = {
    "law": {"law": network()},
    "no law": {"law": None},
    "no network": {"network": None},
    "network": {"network": lambda inputs: inputs},
    "another network": {"network": nn.Linear(5, 1, bias=False).eval()},
    "another width of the test set": {"test": BoundSet(inputs=torch.ones(1, 5), labels=torch.zeros(1).long())},
    "another type of the test set": {"test": BoundSet(inputs=torch.ones(1, 4).double(), labels=torch.zeros(1).long())},
    "test": {"test": (DATA.inputs, DATA.labels)},
    "test is the bound's": {"test": DATA},
    "prior": {"prior": law()},
    "no prior": {"prior": None},
    "prior with other names": {"prior": Prior(law=law(module=nn.Linear(4, 1).eval()), source=DataFree())},
    "prior with other shapes": {"prior": Prior(law=law(module=network(2)), source=DataFree())},
    "prior of another type": {"prior": Prior(law=law(module=network().double()), source=DataFree())},
    "prior without spread": {"prior": Prior(law=law(std=0.0), source=DataFree())},
    "posterior of another type": {"law": law(module=network().double())},
    "failure_prob as text": {"failure_prob": "0.05"},
    "failure_prob": {"failure_prob": math.nan},
    "no failure_prob": {"failure_prob": None},
    "single failure_prob": {"failure_prob": np.float32(0.05)},
    "settings": {"settings": 3},
    "settings of false type": {"settings": False},
    "too many settings": {"settings": Settings.tried(10**400, "me")},
    "many settings": {"settings": Settings.tried(2**1100, "me")},
    "monte_carlo": {"monte_carlo": 5},
    "losses": {"losses": [nn.functional.cross_entropy]},
    "a loss": {"losses": 3},
    "a mean": {"losses": [Loss(name="m", low=0.0, high=1.0, function=lambda f, y: f.mean().sigmoid())]},
    "a loss outside": {"losses": [Loss(name="o", low=0.0, high=0.1, function=lambda f, y: f[:, 0].sigmoid())]},
    "a loss of NaN": {"losses": [Loss(name="n", low=0.0, high=0.1, function=lambda f, y: f[:, 0] * math.nan)]},
    "a loss that fails": {"losses": [Loss(name="f", low=0.0, high=0.1, function=lambda f, y: f @ y)]},
    "a known loss": {"losses": [Loss(name="zero-one", low=0.0, high=1.0, function=lambda f, y: f[:, 0].sigmoid())]},
    "formulas": {"formulas": [3]},
    "a formula": {"formulas": bounds.maurer},
    "a formula of no divergence": {"formulas": [bounds.clopper_pearson_upper]},
    "a formula of one draw": {"formulas": [bounds.disintegrated]},
    "a home-made formula": {"formulas": [lambda **given: 0.0]},
    "a formula that fails": {"formulas": [functools.partial(bounds.catoni, inverse_temperature="x")]},
    "seed": {"seed": 1.5},
    "seed below 0": {"seed": -1},
    "seed too large": {"seed": 2**64},
    "device": {"device": "nowhere"},
    "device of another type": {"device": 1.5},
    "people's privacy": {
        "data": examples(people=np.arange(60) // 2),
        "prior": Prior(law=law(), source=Private(privacy=MU)),
    },
    "other rows": {"prior": Prior(law=law(), source=Private(privacy=MU, rows=examples(seed=1).rows))},
    "shared people": {"data": examples(people=np.arange(60)), "test": examples(20, seed=1, people=np.arange(20))},
    "data": {"data": (DATA.inputs, DATA.labels)},
    "weights": {"law": Point(weights=torch.zeros(4))},
    "weights of a chain": {"data": toy_objective(toy_data())},
}  # fmt: skip


@pytest.mark.parametrize("bad", BAD_CALLS.values(), ids=BAD_CALLS)
def test_calls_are_checked(bad):
    with pytest.raises(ValueError):
        gaussian(**bad)


BAD_RECORDS = {
    "means": lambda: GaussianPosterior(means=[1.0], stds=[1.0]),
    "numbers": lambda: GaussianPosterior(means={"w": 1.0}, stds={"w": 1.0}),
    "buffers": lambda: replace(law(), buffers={"b": 1.0}),
    "NaN": lambda: replace(law(), means={"weight": torch.full((1, 4), math.nan)}),
    "choice": lambda: Prior(law=law(), source=DataFree(), choice_nats="1"),
    "NaN choice": lambda: Prior(law=law(), source=DataFree(), choice_nats=math.nan),
    "no law": lambda: Prior(law=network(), source=DataFree()),
    "nothing held out": HeldOut,
    "held out rows": lambda: HeldOut(rows=DATA),
    "held out indices": lambda: HeldOut(indices=[0, 1]),
    "privacy": lambda: Private(privacy=0.1),
    "seen": lambda: Private(privacy=MU, seen=DATA.rows),
    "claim rows": lambda: Private(privacy=MU, rows=DATA),
    "unit": lambda: Private(privacy=MU, unit="people"),
    "no passes": lambda: MonteCarlo(passes=0),
    "passes": lambda: MonteCarlo(passes=2.5),
    "true passes": lambda: MonteCarlo(passes=True),
    "share 0": lambda: MonteCarlo(share=0.0),
    "share 1": lambda: MonteCarlo(share=1.0),
    "share NaN": lambda: MonteCarlo(share=math.nan),
    "batch": lambda: MonteCarlo(batch_size=0),
    "group": lambda: MonteCarlo(group_size=-1),
    "resume": lambda: MonteCarlo(resume="sums.json"),
    "count": lambda: Settings.tried(0, "me"),
    "count as text": lambda: Settings.tried("3", "me"),
    "hypothesis": lambda: Settings(hypothesis="mine"),
    "elsewhere": lambda: Settings.chosen_on(DATA),
    "network": lambda: Network(network=None),
    "of": lambda: Network(network=network(), of=3),
    "batches": lambda: Network(network=network(), batch_size=0),
    "no weights": lambda: Point(weights=None),
    "a matrix": lambda: Point(weights=torch.zeros(3, 3)),
    "tau": lambda: LocalGibbs(weights=torch.zeros(3), tau=-1.0, gamma=1.0),
    "gamma": lambda: LocalGibbs(weights=torch.zeros(3), tau=1.0, gamma=math.nan),
    "no networks": lambda: Finite(networks=[]),
    "one network": lambda: Finite(networks=network()),
    "no functions": lambda: Finite(networks=[3]),
    "seed": lambda: Finite(networks=[network()], seed=-1),
    "epsilon": lambda: Finite(networks=[network()], epsilon="1"),
    "weights": lambda: certify(Finite(networks=[network()], weights=np.array([-1.0])), DATA),
    "more weights": lambda: certify(Finite(networks=[network()], weights=np.ones(2)), DATA),
    "epsilon below 0": lambda: certify(Finite(networks=[network()], epsilon=-1.0), DATA),
    "endless epsilon": lambda: certify(Finite(networks=[network()], epsilon=math.inf), DATA),
    "people in a list of networks": lambda: certify(Finite(networks=[network()]), replace(DATA, people=np.arange(60))),
}


@pytest.mark.parametrize("bad", BAD_RECORDS.values(), ids=BAD_RECORDS)
def test_records_are_checked(bad):
    with pytest.raises(ValueError):
        bad()


def test_a_group_larger_than_the_data_counts_passes():
    found = gaussian(examples(5), monte_carlo=MonteCarlo(passes=2, group_size=50))
    assert found.monte_carlo[0]["terms"] in (2, 10)


def test_endless_epsilon_says_nothing():
    made = certify(Network(network=network()), DATA, prior=Private(privacy=replace(PURE, epsilon=math.inf)))
    assert made.certificates[0].value == 1.0


def chain(**options):
    train = toy_objective(toy_data())
    (weights,) = train.weights()
    given = {"prior": PURE, "gibbs": GibbsSettings(epochs=1.0, prior_draws=2, test_draws=2), **options}
    return certify(given.pop("law", Point(weights=weights)), given.pop("data", train), **given)


def test_the_network_of_a_chain_holds_no_rows():
    train = toy_objective(toy_data())
    train.model.register_buffer("memory", train.examples[0].clone(), persistent=False)
    with pytest.raises(DataError, match="memory of the network holds"):
        chain(data=train)


BAD_CHAINS = {
    "no prior": {"prior": None},
    "a source": {"prior": DataFree()},
    "add-remove": {"prior": replace(PURE, adjacency="add-remove")},
    "weights": {"law": Point(weights=torch.zeros(3))},
    "NaN": {"law": Point(weights=toy_objective(toy_data()).weights()[0] * math.nan)},
    "test": {"test": DATA},
    "the same test": {"test": toy_objective(toy_data())},
    "data": {"data": DATA},
    "gibbs": {"gibbs": 3},
}


@pytest.mark.parametrize("bad", BAD_CHAINS.values(), ids=BAD_CHAINS)
def test_calls_for_chains_are_checked(bad):
    with pytest.raises(ValueError):
        chain(**bad)
