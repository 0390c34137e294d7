"""Whoever wants a rigorous number that is false, or a traceback, gets a sentence."""

import functools
import math
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import torch
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
    NoPrivacy,
    Point,
    Prior,
    Private,
    Settings,
    certify,
)
from pacdp.data import DataError, Split, index_hash
from pacdp.data.rows import Rows
from pacdp.losses import Loss

pytestmark = pytest.mark.wrong_types
MU = bounds.GaussianDP(mu=0.02, adjacency="add-remove", status="accounted")
PURE = bounds.PureDP(epsilon=0.01, adjacency="replace-one", status="exact mechanism")
QUICK = MonteCarlo(passes=1)


def examples(n=60, *, seed=0, people=None):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 2, (n,), generator=generator)
    return BoundSet(inputs=torch.randn(n, 4, generator=generator), labels=labels, people=people)


def network(outputs=1):
    module = nn.Linear(4, outputs, bias=False)
    nn.init.zeros_(module.weight)
    module.weight.data[0, 0] = 1.0
    return module.eval()


def law(std=0.1, module=None):
    return GaussianPosterior.around(module or network(), std=std)


def gaussian(data=None, **options):
    given = {"prior": Prior(law=law(), source=DataFree()), "network": network(), "monte_carlo": QUICK, **options}
    return certify(given.pop("law", law()), examples() if data is None else data, **given)


def split(start, stop):
    return Split(np.arange(start, stop), index_hash(np.arange(start, stop)))


class Nearest(nn.Module):
    """The label of the nearest row that it remembers."""

    def __init__(self, data, kind):
        super().__init__()
        rows = torch.zeros_like(data.inputs)
        self.scale = nn.Parameter(torch.ones(1))
        if kind == "buffer":
            self.register_buffer("rows", rows)
        else:
            self.rows = nn.Parameter(rows)
        self.signs = nn.Parameter(2.0 * data.labels - 1.0)

    def forward(self, inputs):
        near = (inputs[:, None] - self.rows).square().sum(2).argmin(1)
        return self.scale * self.signs[near]


@pytest.mark.parametrize(("kind", "std"), [("buffer", 0.0), ("fixed", 0.0), ("prior", 1e-3)])
def test_rows_in_the_laws_are_not_free_of_charge(kind, std):
    data = examples()
    module = Nearest(data, kind).eval()
    stds = {name: std if name == "rows" else 0.1 for name, _ in module.named_parameters()}
    held = GaussianPosterior.around(module, std=stds)
    where = "buffers" if kind == "buffer" else "means"
    held = replace(held, **{where: {**getattr(held, where), "rows": data.inputs.clone()}})
    with pytest.raises(DataError, match="holds 60 of the bound's 60 inputs"):
        certify(held, data, prior=Prior(law=held, source=DataFree()), network=module, monte_carlo=QUICK)
    test = examples(seed=1)
    with pytest.raises(DataError, match="holds 60 of the test set's 60 inputs"):
        certify(held, test, prior=Prior(law=held, source=DataFree()), network=module, test=data, monte_carlo=QUICK)


def test_a_posterior_alone_may_hold_the_bound_s_rows_because_it_pays_for_them():
    data = examples()
    module = Nearest(data, "fixed").eval()
    prior = GaussianPosterior.around(module, std=0.1)
    held = replace(prior, means={**prior.means, "rows": data.inputs.clone()})
    found = certify(held, data, prior=Prior(law=prior, source=DataFree()), network=module, monte_carlo=QUICK)
    assert found.details["kl_nats"] > 1000


@pytest.mark.parametrize("kind", ["closure", "ensemble", "test set"])
def test_functions_and_ensembles_that_hold_rows_are_refused(kind):
    data = examples()
    module, rows = Nearest(data, "buffer").eval(), data.inputs
    module.rows.copy_(rows)
    made = {
        "closure": Network(network=lambda inputs: (inputs @ rows.T).amax(1)),
        "ensemble": Finite(networks=[network(), module]),
        "test set": Network(network=module),
    }
    sets = (examples(seed=1), data) if kind == "test set" else (data, None)
    with pytest.raises(DataError, match="of the network holds 60 of"):
        certify(made[kind], sets[0], test=sets[1])


@pytest.mark.parametrize(
    "mixing",
    [
        lambda inputs: inputs[:, :1] - inputs[:, :1].mean(),
        lambda inputs: inputs[:, :1].cumsum(0),
        lambda inputs: nn.functional.dropout(inputs[:, :1]),
        lambda inputs: inputs.sort(0).values[:, :1],
    ],
)
@pytest.mark.parametrize("route", ["network", "finite"])
def test_networks_that_mix_their_examples_are_refused_as_they_are(mixing, route):
    made = Network(network=mixing) if route == "network" else Finite(networks=[mixing])
    with pytest.raises(ValueError, match="depends on the other examples of its batch"):
        certify(made, examples())


def test_answers_by_heart_in_the_order_of_the_calls_are_refused():
    data = examples()
    calls = count()

    def parrot(inputs):
        start = next(calls) * len(inputs)
        return 2.0 * data.labels[torch.arange(start, start + len(inputs)) % data.n, None] - 1.0

    with pytest.raises(ValueError, match=r"depends on|holds"):
        certify(Network(network=parrot), data)


def test_a_network_that_writes_on_its_inputs_is_refused():
    data = examples()
    with pytest.raises(ValueError, match=r"writes on its inputs|depends on"):
        certify(Network(network=lambda inputs: inputs.mul_(2.0)[:, :1]), data)


def test_hashes_follow_what_is_written_on_the_examples():
    data = examples()
    before = data.rows.digest
    data.inputs.add_(1.0)
    assert data.rows.digest != before


@pytest.mark.parametrize("label", [-1, 2, 7])
@pytest.mark.parametrize("made", [Network(network=network()), Finite(networks=[network()]), None])
def test_labels_beyond_the_classes_are_refused(label, made):
    data = examples()
    labels = data.labels.clone()
    labels[3] = label
    odd = replace(data, labels=labels)
    with pytest.raises(ValueError, match="expected labels from 0 to 1"):
        gaussian(odd) if made is None else certify(made, odd)
    with pytest.raises(ValueError, match="expected labels from 0 to 1"):
        gaussian(test=replace(odd, inputs=odd.inputs + 9)) if made is None else certify(
            made, data, test=replace(odd, inputs=odd.inputs + 9)
        )


def test_a_tie_is_an_error_whatever_the_labels():
    silent = nn.Linear(4, 3, bias=False).eval()
    nn.init.zeros_(silent.weight)
    data = examples()
    found = certify(Finite(networks=[silent]), data)
    assert found.error("best network", "bound") == 1.0
    with pytest.raises(ValueError, match="expected labels from 0 to 2"):
        certify(Finite(networks=[silent]), replace(data, labels=torch.full_like(data.labels, -1)))


@pytest.mark.parametrize("source", [NoPrivacy(reason="none"), MU, None, DataFree, "private", Private])
def test_a_prior_s_source_is_one_of_three(source):
    with pytest.raises(ValueError, match=r"expected Prior.source to be"):
        Prior(law=law(), source=source)
    if isinstance(source, str | type):
        with pytest.raises(ValueError, match="expected prior to be"):
            certify(Network(network=network()), examples(), prior=source)


def test_a_privacy_claim_to_copies_is_no_claim():
    data = examples()
    twice = Rows.of(data.inputs.repeat(2, 1), data.labels.repeat(2))
    with pytest.raises(DataError, match="the rows of the privacy claim hold 60 repeats"):
        certify(Network(network=network()), data, prior=Private(privacy=MU, rows=twice))
    owners = np.arange(60) // 2
    claimed = Rows.of(data.inputs.repeat(2, 1), data.labels.repeat(2), np.tile(owners, 2))
    with pytest.raises(DataError, match="the rows of the privacy claim hold 60 repeats"):
        certify(Network(network=network()), data, prior=Private(privacy=MU, rows=claimed))
    people = examples(people=owners)
    certify(Network(network=network()), people, prior=Private(privacy=MU, rows=claimed, unit="person"))


def test_a_test_set_that_a_private_run_saw_is_no_test_set():
    data, test = examples(), examples(20, seed=1)
    both = data.rows.union(test.rows)
    with pytest.raises(DataError, match="the rows of the privacy claim and the test set's rows share 20 examples"):
        certify(Network(network=network()), data, prior=Private(privacy=MU, rows=both), test=test)
    with pytest.raises(DataError, match="the rows of the privacy claim and the test set's rows share 20 examples"):
        gaussian(data, prior=Prior(law=law(), source=Private(privacy=MU, rows=both)), test=test)


def test_settings_chosen_on_the_test_set_are_refused():
    data, test = examples(), examples(20, seed=1)
    with pytest.raises(DataError, match="the settings were chosen on and the test set's rows share 20 examples"):
        gaussian(data, test=test, settings=Settings.chosen_on(test.rows))
    apart = gaussian(data, test=test, settings=Settings.chosen_on(examples(30, seed=2).rows))
    assert all(made.hypothesis("settings fixed beforehand").standing == "proved" for made in apart.certificates)


def test_the_private_choice_rests_on_networks_that_saw_nothing():
    found = certify(Finite(networks=[network(), network()], epsilon=0.1), examples())
    made = found.certificate(of="private choice")
    assert made.hypothesis("prior saw none of these rows").standing == "declared"
    told = certify(
        Finite(networks=[network(), network()], epsilon=0.1), examples(), prior=HeldOut(rows=examples(seed=4).rows)
    )
    assert told.certificate(of="private choice").hypothesis("prior saw none of these rows").standing == "proved"


def test_only_what_is_about_the_same_examples_is_joined():
    made = certify(Network(network=network()), examples())
    same = certify(Network(network=network(), of="another"), examples())
    assert len(made.joined(same).certificates) == 2 * len(made.certificates)
    for other in (examples(61), examples(seed=1), examples(people=np.arange(60) // 2)):
        with pytest.raises(ValueError, match="expected assessments of the same examples"):
            made.joined(certify(Network(network=network()), other))


def test_best_pays_for_every_certificate_that_it_compared():
    found = gaussian(test=examples(20, seed=1), formulas=(bounds.quadratic,))
    compared = [made for made in found.certificates if made.measures == "0-1 risk"]
    assert found.best().failure_prob == pytest.approx(0.05 * len(compared))
    assert found.best().value == min(made.value for made in compared)


def test_every_setting_is_paid_for():
    found = gaussian(settings=Settings.tried(4, "me"))
    assert {made.failure_prob for made in found.certificates} == {0.05 / 4}


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
