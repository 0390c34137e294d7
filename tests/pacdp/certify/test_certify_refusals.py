"""What does not fit is refused in one sentence: examples, networks, laws, priors, calls of the door, chains."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from door_toys import MU, PURE, examples, gaussian, law, network, plain, split
from torch.nn import BatchNorm1d, Flatten, Linear, Module, Sequential, Sigmoid, functional
from torch.nn.utils import parametrizations, parametrize
from toys import toy_data, toy_objective

import bounds
from pacdp import HeldOut, Network, Prior, Private, Settings, certify
from pacdp.algorithms import PSGLD, SGLD, build
from pacdp.certify import DataFree, Finite, NoPrivacy, Surrogate
from pacdp.certify.gibbs import GibbsSettings
from pacdp.certify.priors import NoisySum
from pacdp.certify.trajectory import noisy_sums_event, realised_price, train_certified
from pacdp.losses import bounded_cross_entropy
from pacdp.objective import Objective
from pacdp.posterior import GaussianPosterior, LocalGibbs, Point
from tests.refusals import refuses

pytestmark = pytest.mark.wrong_types
DATA, FRESH = examples(), examples(20, seed=1)
OWNERS = np.arange(60) // 2
OF_PEOPLE = replace(DATA, people=OWNERS)
GAP = torch.zeros(60, 4).index_fill(0, torch.tensor(3), math.nan)
DIGITS = toy_data(n=20, classes=3, shape=(1, 4, 4))


def wrong(**columns):
    return replace(DATA, **columns)


def judged(function, **how):
    return certify(Network(network=function, **how), DATA)


def prior(**options):
    return gaussian(prior=Prior(**{"source": DataFree(), **options}))


def parrot():
    """Answers by heart in the order of the calls."""
    calls = []

    def answer(inputs):
        start = len(inputs) * len(calls)
        calls.append(start)
        return 2.0 * DATA.labels[torch.arange(start, start + len(inputs)) % 60, None] - 1.0

    return judged(answer)


def chain(**options):
    train = toy_objective(toy_data())
    (weights,) = train.weights()
    given = {"prior": PURE, **options}
    return certify(given.pop("law", Point(weights=weights)), given.pop("data", train), **given)


def remembering():
    train = toy_objective(toy_data())
    train.model.register_buffer("memory", train.examples[0].clone(), persistent=False)
    return chain(data=train)


def paid(data=DIGITS, module=None, **how):
    settings = SGLD(tau=10.0, step_size=0.1, base_std=1.0)
    return train_certified(module or network(), data, **{"settings": settings, "steps": 1, **how})


def kept(*layers, **how):
    """An objective that keeps the norms of the gradients of all records."""
    model = Sequential(Flatten(), Linear(16, 3), *layers)
    loss = bounded_cross_entropy(classes=3, max_loss=4.0)
    return Objective(model, loss, how.pop("data", DIGITS), **{"batch_size": 20, "keep_norms": True, **how})


class Listed(Module):
    """A network whose first layers stand in a plain list, so that they are trained and nothing pays for them."""

    def __init__(self, *layers):
        super().__init__()
        self.layers, self.last = [*layers], Linear(4, 1, bias=False)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.last(x)


class Again(Module):
    """A network whose weight stands elsewhere too, where no law exchanges it."""

    def __init__(self, keep, width=4):
        super().__init__()
        self.last = Linear(width, 1, bias=False)
        self.kept = keep(self.last.weight)

    def forward(self, x):
        return self.kept(x) + self.last(x)


def by_memory(weight):
    turned = weight.t()
    return lambda x: x @ turned


class Cached(Module):
    """A network that answers by a copy of its weight."""

    def __init__(self, form):
        super().__init__()
        self.last = Linear(4, 1)
        self.copy = form(self.last.weight.detach().clone())

    def forward(self, x):
        return functional.linear(x, self.copy, self.last.bias)


def inferred(weight):
    with torch.inference_mode():
        return weight.clone()


def kept_weights():
    with parametrize.cached():
        listed(module=parametrizations.weight_norm(Linear(4, 1)))


def named():
    net = network()
    net.register_forward_hook(lambda _net, _given, outputs: {"logits": outputs})
    return net


def listed(*layers, module=None):
    module = (module or Listed(*layers)).eval()
    law = GaussianPosterior.around(module, std=0.1)
    return gaussian(law=law, network=module, prior=Prior(law=law, source=DataFree()))


NORMS, SMALL = torch.ones(3, dtype=torch.float64), DATA.inputs.to(torch.float8_e5m2)
WRITERS = replace(DIGITS, people=np.arange(20) // 2, unit="writer")
KEEP = SGLD(tau=10.0, keep_norms=True)
EXAMPLES = {
    "no tensor": (lambda: wrong(inputs=np.ones((60, 4))), "BoundSet.inputs to be of type Tensor"),
    "few labels": (lambda: wrong(labels=DATA.labels[:-1]), "one label for each"),
    "negative people": (lambda: wrong(people=-OWNERS), "people as int64"),
    "floats of 8 bits": (lambda: certify(network(), (SMALL, DATA.labels)), "inputs in data are torch.float8_e5m2"),
    "they in a set": (lambda: certify(network(), wrong(inputs=SMALL)), "inputs in data are torch.float8_e5m2"),
    "labels of 8 bits": (lambda: certify(network(), (DATA.inputs, SMALL[:, 0])), "labels in data are torch.float8"),
    "others that were seen": (lambda: certify(network(), DATA, seen=(SMALL, DATA.labels)), "float8_e5m2, in which"),
    "labels of a test set": (
        lambda: gaussian(test=replace(FRESH, labels=FRESH.labels - 1)), "labels from 0 to 1"),
}  # fmt: skip
NETWORKS = {
    "no function": (lambda: Network(network=None), "to be a function of inputs"),
    "a name of two lines": (lambda: Network(network=abs, of="a\nAt most 0%"), "no name for a sentence"),
    "scores by a word": (lambda: Network(network=abs, scores="no"), "Network.scores to be of type bool"),
    "classes by batch": (
        lambda: judged(lambda x: x.new_zeros(len(x), 2 + len(x) % 2)), "outputs an example in every batch"),
    "scores that are logits": (lambda: judged(lambda x: x, scores=True), r"must lie in \[0, 1\]"),
    "by heart": (parrot, "depends on|holds"),
    "no networks": (lambda: Finite(networks=[]), "a list of networks, at least one"),
    "a list and people": (lambda: certify(Finite(networks=[network()]), OF_PEOPLE), "give data without people"),
    "a private list": (
        lambda: certify(Finite(networks=[network()]), DATA, prior=Private(privacy=MU)), "need a prior of their own"),
}  # fmt: skip
LAWS = {
    "tau": (lambda: LocalGibbs(weights=torch.zeros(3), tau=-1.0, gamma=1.0), "tau"),
    "no law": (lambda: prior(law=network()), "Prior.law"),
    "no source": (lambda: prior(law=law(), source=NoPrivacy(reason="none")), "expected Prior.source to be"),
    "nothing held out": (HeldOut, "needs rows or indices"),
    "unit": (lambda: Private(privacy=MU, unit="people"), "to be 'example' or 'person'"),
    "a price of no sum": (lambda: NoisySum(price=bounds.Accounted(privacy=MU)), "price of a noisy sum"),
    "no settings": (lambda: Settings.tried(0, "me"), "count of settings"),
}  # fmt: skip
CALLS = {
    "law": (lambda: gaussian(law=network()), "network is not used"),
    "a surrogate of a law": (
        lambda: gaussian(surrogate=Surrogate(network=network(), certificate=plain().certificates[0], saw={"a": FRESH})),
        "surrogate is not used"),
    "a surrogate that is drawn anew": (
        lambda: Surrogate(network=network(), certificate=gaussian().certificates[0], saw={"a": FRESH}),
        "must be of one network as it is, and that of 'randomised' is a mean"),
    "a list's mean as a surrogate": (
        lambda: Surrogate(
            network=network(), saw={"a": FRESH},
            certificate=certify(Finite(networks=[network()]), DATA).certificates[0]),
        "and that of 'ensemble'"),
    "a number as a certificate": (
        lambda: Surrogate(network=network(), certificate=0.1, saw={"a": FRESH}), "certificate to be of type Cert"),
    "rows without names": (
        lambda: Surrogate(network=network(), certificate=plain().certificates[0], saw=[FRESH]),
        "saw to be of type Map"),
    "a seed of nothing drawn": (lambda: plain(seed=0), "seed is not used"),
    "effort for weights as they are": (lambda: chain(gibbs=GibbsSettings()), "gibbs is not used"),
    "settings": (lambda: gaussian(settings=False), "expected settings to be"),
    "many settings": (lambda: gaussian(settings=Settings.tried(2**1100, "me")), "is too small to be divided by"),
    "device": (lambda: gaussian(device="nowhere"), "expected a device that is here"),
    "another network": (lambda: gaussian(network=Linear(5, 1, bias=False).eval()), "over the parameters"),
    "layers in a list": (lambda: listed(Linear(4, 4)), r"layers\[0\].weight is none of its parameters: keep layers in"),
    "a weight in a list": (
        lambda: listed(partial(torch.mul, torch.ones(4, requires_grad=True))), "is none of its parameters"),
    "a weight kept twice": (
        lambda: listed(
            module=Again(lambda weight: partial(functional.linear, weight=weight)).requires_grad_(False)),
        r"must meet its parameter last\.weight by that name alone, .* in a list, a function or a copy"),
    "a weight kept that leaves no trace": (
        lambda: listed(module=Again(lambda weight: torch.no_grad()(lambda x: functional.linear(x, weight)))),
        r"must meet its parameter last\.weight by that name alone"),
    "a weight kept and detached": (
        lambda: listed(module=Again(lambda weight: lambda x: x @ weight.detach().t())), "must meet its parameter last"),
    "a copy of a weight": (lambda: listed(module=Cached(torch.clone)), r"must meet its parameter last\.weight by"),
    "a rounded copy": (lambda: listed(module=Cached(lambda w: (8 * w).round() / 8)), r"must meet its parameter last"),
    "a copy made in inference": (lambda: listed(module=Cached(inferred)), r"must meet its parameter last\.weight by"),
    "a parametrized weight that is kept": (kept_weights, r"parametrize\.cached\(\) keeps those of the first"),
    "outputs by name": (lambda: listed(module=named()), "got dict .* return the tensor of logits alone"),
    "a weight turned over": (
        lambda: listed(module=Again(by_memory).requires_grad_(False)), "memory of its parameter last.weight"),
    "no spread": (lambda: prior(law=law(0.0)), "divergence from the prior is infinite"),
    "NaN among inputs": (lambda: gaussian(wrong(inputs=DATA.inputs + GAP)), "NaN or infinite"),
    "no privacy": (lambda: plain(prior=NoPrivacy(reason="it learnt without noise")), "it learnt without noise"),
    "privacy of examples": (lambda: plain(OF_PEOPLE, prior=Private(privacy=MU)), "promise of privacy is to single"),
    "rows without people": (
        lambda: plain(OF_PEOPLE, prior=Private(privacy=MU, unit="person", rows=DATA.rows)),
        "the privacy claim covers one example at a time"),
    "no indices": (lambda: gaussian(source=HeldOut(indices=split(0, 50))), r"give data\.indices"),
    "indices in other data": (
        lambda: gaussian(wrong(indices=split(50, 110), data_hash="a"), HeldOut(indices=split(0, 50), data_hash="b")),
        "indices mean nothing there"),
    "nobody": (lambda: plain().best(of="nobody"), "no rigorous certificate bounds the 0-1 risk of nobody"),
    "too many to compare": (
        lambda: gaussian(test=FRESH, failure_prob=0.3).best(), "certify at a failure_prob below 1/"),
    "people to join": (lambda: plain().joined(plain(OF_PEOPLE)), "reports on the same examples"),
}  # fmt: skip
CHAINS = {
    "an objective for a network": (lambda: plain(toy_objective(toy_data())), "go together"),
    "no promise": (lambda: chain(prior=None), "need prior="),
    "add-remove": (lambda: chain(prior=replace(PURE, adjacency="add-remove")), "replace-one adjacency"),
    "weights": (lambda: chain(law=Point(weights=torch.zeros(3))), "law.weights must be one vector of"),
    "the same test set": (lambda: chain(test=toy_objective(toy_data())), "share 60 examples"),
    "rows in the network": (remembering, "memory of the network holds"),
    "norms of sampled records": (lambda: kept(batch_size=5, clip_norm=1.0), "norms of all records count"),
    "drawn people": (lambda: kept(data=WRITERS), "every_record must be True with keep_norms where the data name"),
    "a norm over the batch": (
        lambda: kept(BatchNorm1d(3), every_record=True), "so that no example has a loss of its own"),
    "a schedule of a caller": (
        lambda: build(replace(KEEP, decay=lambda step: 0.5), kept()), "may have looked at training errors"),
    "data of torch": (lambda: paid((1, 2)), "expected data to be a pacdp.data.Dataset, got tuple: pass"),
    "no step": (lambda: paid(steps=0), "steps must be a whole number of at least 1"),
    "half a step": (lambda: paid(steps=1.5), "expected steps to be"),
    "a kind of settings": (lambda: paid(settings=SGLD), "expected settings to be"),
    "a class too many": (lambda: paid(toy_data(), Linear(5, 3)), "of two classes, and the network gives 3 logits"),
    "another precision": (lambda: paid(toy_data(), Linear(5, 2).double()), "in torch.float32, failed"),
    "a frozen layer": (
        lambda: paid(toy_data(), Sequential(Linear(5, 4).requires_grad_(False), Linear(4, 1))),
        r"no frozen parameters, got requires_grad=False of 0\.weight"),
    "a sigmoid at the end": (
        lambda: paid(toy_data(), Sequential(Linear(5, 1), Sigmoid())), "outputs are probabilities"),
    "layers in a list": (lambda: paid(toy_data(), Listed(Linear(4, 4))), "is none of its parameters"),
    "a weight kept twice": (
        lambda: paid(toy_data(), Again(lambda weight: lambda x: x @ weight.t(), 5)), "must meet its parameter last"),
    "no data set": (lambda: paid((DATA.inputs, DATA.labels)), "expected data to be"),
    "no sums": (lambda: noisy_sums_event(PSGLD(tau=10.0), 3), "not sums over the records plus Gaussian noise"),
    "a norm too few": (
        lambda: realised_price(KEEP, NORMS[:2], steps=3, n=20),
        "one number for each of the 3 .* train again with keep_norms"),
    "a norm of NaN": (lambda: realised_price(KEEP, NORMS * math.nan, steps=3, n=20), "squared_norms"),
    "clipped": (
        lambda: realised_price(replace(KEEP, clip_norm=1.0), NORMS, steps=3, n=20),
        "batches of a clipped chain are secret"),
}  # fmt: skip
REFUSED = {
    f"{kind}, {name}": row
    for kind, rows in {"data": EXAMPLES, "network": NETWORKS, "law": LAWS, "call": CALLS, "chain": CHAINS}.items()
    for name, row in rows.items()
}


test_what_does_not_fit_the_door_is_refused_in_a_sentence = refuses(REFUSED)
