"""Whoever wants a rigorous number that is false gets a sentence: rows that were seen, held, copied or hidden."""

from dataclasses import replace

import numpy as np
import torch
from door_toys import MU, QUICK, examples, gaussian, network, plain, split
from torch import nn
from torch.nn import Linear, Module, Parameter
from torch.utils.data import DataLoader, TensorDataset

from pacdp import GaussianPosterior, HeldOut, Network, Prior, Private, Settings, certify
from pacdp.certify import BoundSet, DataFree, Finite
from pacdp.data import DataError
from tests.marks import parametrize, refusal
from tests.pacdp.draws import randperm
from tests.refusals import refuses

DATA, FRESH, OTHER = examples(), examples(20, seed=1), examples(seed=2)
OWNERS = np.arange(60) // 2
OF_PEOPLE = replace(DATA, people=OWNERS)
PLACED = replace(DATA, indices=split(40, 100), data_hash="same")


def rows(*parts, people=None):
    """Several sets as one, of which each may be given by its first so many rows."""
    return BoundSet(
        inputs=torch.cat([part.inputs for part in parts]),
        labels=torch.cat([part.labels for part in parts]),
        people=people,
    )


def moved():
    order = randperm(DATA.n, seed=3)
    return BoundSet(inputs=DATA.inputs[order], labels=DATA.labels[order])


def of_claim(*, data=DATA, test=None, **claim):
    """A network that was released privately."""
    return plain(data, prior=Private(privacy=MU, **claim), test=test)


def near(rows):
    """The nearest of the rows, which a closure holds."""
    return Network(network=lambda inputs: (inputs @ rows.T).amax(1))


class Remembering(Linear):
    """Holds rows, and computes without them."""

    def __init__(self, rows):
        super().__init__(4, 1, bias=False)
        self.register_buffer("memory", rows, persistent=False)


MEMORY = Remembering(DATA.inputs).eval()
OF_PRIOR = HeldOut(indices=split(0, 10), data_hash="same")
SEEN = {
    "another order": (lambda: gaussian(test=moved()), "the test set's rows and the bound's rows share 60 examples"),
    "another label": (
        lambda: gaussian(test=BoundSet(inputs=DATA.inputs[:10], labels=1 - DATA.labels[:10])),
        "10 inputs under another label",
    ),
    "other indices": (
        lambda: gaussian(PLACED, replace(OF_PRIOR, rows=moved().rows)),
        "the prior's rows and the bound's rows share 60 examples",
    ),
    "the prior's indices": (lambda: gaussian(PLACED, HeldOut(indices=split(0, 50))), "share 10 examples"),
    "a hybrid's indices": (
        lambda: gaussian(PLACED, Private(privacy=MU, seen=HeldOut(indices=split(0, 45)))),
        "share 5 examples",
    ),
    "a test set's indices": (
        lambda: gaussian(PLACED, OF_PRIOR, test=replace(FRESH, indices=split(5, 25), data_hash="same")),
        "share 5 examples",
    ),
    "copies": (lambda: gaussian(rows(*[DATA] * 30)), "1740 repeats among 1800 inputs"),
    "copies in the test set": (lambda: gaussian(test=rows(*[FRESH] * 3)), "the test set's rows hold 40 repeats"),
    "a claim to others": (lambda: of_claim(rows=OTHER.rows), "60 of the bound's 60 are not among them"),
    "a claim to copies": (lambda: of_claim(rows=rows(DATA, DATA).rows), "the privacy claim hold 60 repeats"),
    "a claim to copies of people": (
        lambda: of_claim(rows=rows(DATA, DATA, people=np.tile(OWNERS, 2)).rows),
        "the privacy claim hold 60 repeats",
    ),
    "a test set that a private run saw": (
        lambda: of_claim(rows=rows(DATA, FRESH).rows, test=FRESH),
        "the rows of the privacy claim and the test set's rows share 20 examples",
    ),
    "settings of the test set": (
        lambda: gaussian(test=FRESH, settings=Settings.chosen_on(FRESH.rows)),
        "the settings were chosen on and the test set's rows share 20 examples",
    ),
    "settings of the bound's rows": (
        lambda: gaussian(settings=Settings.chosen_on(DATA.rows)),
        "the settings were chosen on and the bound's rows share 60 examples",
    ),
    "people in the test set": (
        lambda: gaussian(OF_PEOPLE, test=replace(OTHER, people=OWNERS)),
        "the bound's rows share 30 people",
    ),
    "a memory": (lambda: gaussian(network=MEMORY), "memory of the network holds 60 of the bound's 60 inputs"),
    "a closure": (lambda: certify(near(DATA.inputs), DATA), "of the network holds 60 of"),
    "an ensemble": (lambda: certify(Finite(networks=[network(), MEMORY]), DATA), "of the network holds 60 of"),
    "a memory that comes batch by batch": (
        lambda: certify(MEMORY, DataLoader(TensorDataset(DATA.inputs, DATA.labels), batch_size=20)),
        "memory of the network",
    ),
    "a test set of a loader": (
        lambda: certify(network(), DATA, test=(DATA.inputs[50:], DATA.labels[50:])),
        "share 10 examples",
    ),
    "a memory of the test set": (
        lambda: certify(Network(network=MEMORY), OTHER, test=DATA),
        "of the network holds 60 of the test set's",
    ),
}


test_rows_that_were_seen_or_are_held_are_found = refuses(SEEN, DataError)


def test_rows_of_people_may_be_promised_privacy_with_all_their_copies():
    claimed = rows(DATA, DATA, people=np.tile(OWNERS, 2))
    assert of_claim(data=OF_PEOPLE, rows=claimed.rows, unit="person").certificates


class Nearest(Module):
    """The label of the nearest row that it remembers."""

    def __init__(self, data, kind):
        super().__init__()
        rows = torch.zeros_like(data.inputs)
        self.scale = Parameter(torch.ones(1))
        if kind == "buffer":
            self.register_buffer("rows", rows)
        else:
            self.rows = Parameter(rows)
        self.signs = Parameter(2.0 * data.labels - 1.0)

    def forward(self, inputs):
        near = (inputs[:, None] - self.rows).square().sum(2).argmin(1)
        return self.scale * self.signs[near]


@parametrize(("kind", "std"), [("buffer", 0.0), ("fixed", 0.0), ("prior", 1e-3)])
def test_rows_in_the_laws_are_not_free_of_charge(kind, std):
    module = Nearest(DATA, kind).eval()
    stds = {name: std if name == "rows" else 0.1 for name, _ in module.named_parameters()}
    held = GaussianPosterior.around(module, std=stds)
    where = "buffers" if kind == "buffer" else "means"
    held = replace(held, **{where: {**getattr(held, where), "rows": DATA.inputs.clone()}})
    at = {"law": held, "prior": Prior(law=held, source=DataFree()), "network": module}
    with refusal("holds 60 of the bound's 60 inputs", DataError):
        gaussian(DATA, **at)
    with refusal("holds 60 of the test set's 60 inputs", DataError):
        gaussian(OTHER, test=DATA, **at)


def test_a_posterior_alone_may_hold_the_bound_s_rows_because_it_pays_for_them():
    module = Nearest(DATA, "fixed").eval()
    prior = GaussianPosterior.around(module, std=0.1)
    held = replace(prior, means={**prior.means, "rows": DATA.inputs.clone()})
    found = certify(held, DATA, prior=Prior(law=prior, source=DataFree()), network=module, monte_carlo=QUICK)
    assert found.details["kl_nats"] > 1000


def test_hashes_follow_what_is_written_on_the_examples():
    data = examples()
    before = data.rows.digest
    data.inputs.add_(1.0)
    assert data.rows.digest != before


def test_a_tie_and_an_output_without_a_number_are_errors():
    silent = Linear(4, 3, bias=False).eval()
    nn.init.zeros_(silent.weight)
    assert certify(Finite(networks=[silent]), DATA).error("best network", "bound") == 1.0
    for data in (DATA, OF_PEOPLE):
        found = certify(Network(network=lambda inputs: inputs * torch.nan), data)
        assert found.error("your network", "bound") == 1.0
        assert found.budget == certify(silent, data).budget, "what is paid for depends on no output"
