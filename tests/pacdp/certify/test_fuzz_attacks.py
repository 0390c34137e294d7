"""Whoever wants a rigorous number that is false, or a traceback, gets a sentence."""

from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import torch
from door_toys import MU, QUICK, examples, gaussian, law, network
from torch import nn

import bounds
from pacdp import (
    DataFree,
    Finite,
    GaussianPosterior,
    HeldOut,
    Network,
    NoPrivacy,
    Prior,
    Private,
    Settings,
    certify,
)
from pacdp.data import DataError
from pacdp.data.rows import Rows

pytestmark = pytest.mark.wrong_types


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
