"""Values of every route at commit 6ff1a97: certificates, epsilons, seeded weights, and the command's JSON.

``python -m tests.golden.test_golden`` writes golden.json anew. Whoever does says in the same commit which finding
moved which numbers; where nothing is meant to move, nothing is written.
"""

import json
import tempfile
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import isclose, sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.random import default_rng
from torch.nn import Linear

import bounds
from bounds.accounting import (
    Composed,
    ExponentialMechanism,
    Gaussian,
    SelfComposed,
    calibrate_noise,
    privacy_delta,
    privacy_epsilon,
    privacy_record,
    renyi_epsilon,
    sampled_gaussians,
)
from bounds.certificate import total_of
from pacdp import (
    GaussianPosterior,
    Prior,
    Private,
    certify,
    certify_predictions,
    load_checkpoint,
    private,
    self_certify,
)
from pacdp.algorithms import build
from pacdp.certify import BoundSet, DataFree, MonteCarlo, NoPrivacy
from pacdp.certify.finite import assess_finite
from pacdp.certify.gibbs import GibbsSettings
from pacdp.chains import Keys
from pacdp.cli.certifying import certify as certify_run
from pacdp.cli.config import run
from pacdp.cli.private.certify import certify_private
from pacdp.cli.private.config import PRIVATE_RECIPES, private_recipe
from pacdp.cli.private.run import train_private
from pacdp.cli.run import train
from pacdp.cli.runtime import Certifying, Training
from pacdp.compress import compress
from pacdp.data import Dataset
from pacdp.models import Architecture
from pacdp.posterior import LocalGibbs, Point
from tests.marks import every_case
from tests.pacdp.toys import SAMPLERS, toy_data, toy_objective
from tests.verify.made import at_a_price, prices, without_a_price

GOLDEN = Path(__file__).with_name("golden.json")
RUNTIME, EFFORT = Training(threads=1), GibbsSettings(epochs=1.0, prior_draws=2, test_draws=2)
SEEDED, SINGLE, DOUBLE = 1e-5, 1e-6, 1e-12
"""Relative tolerances: of chains; of searches and Fourier transforms, which end by processor; of float64."""


def certificates(made):
    """Of each certificate what must not move: numbers, names, status, hypotheses with their standing."""
    records = [one.to_dict() if isinstance(one, bounds.Certificate) else one for one in made]
    kept = ("name", "value", "failure_prob", "status", "of", "measures")
    return [
        {
            **{name: one[name] for name in kept},
            "nats": total_of(float(cost["nats"]) for cost in one["costs"]) if one["costs"] else None,
            "hypotheses": sorted(f"{known['name']}: {known['standing']}" for known in one["hypotheses"]),
        }
        for one in records
    ]


def report(found):
    """A report's certificates, what was measured, how many records, and what was refused."""
    record = found if isinstance(found, Mapping) else found.to_dict()
    measured = [
        {name: one.get(name) for name in ("of", "on", "loss", "mean", "errors", "n")} for one in record["measured"]
    ]
    refused = sorted({one["name"] for one in record["not_applicable"]})
    return {"certificates": certificates(record["certificates"]), "measured": measured, "refused": refused}


def weights_of(tensors):
    """Numbers by which weights are known: their sum, their sum of squares, and both ends."""
    named = tensors if isinstance(tensors, Mapping) else {"": tensors}
    flat = torch.cat([named[name].detach().reshape(-1).double() for name in sorted(named)])
    return [float(flat.sum()), float(flat.square().sum()), *flat[:3].tolist(), *flat[-3:].tolist()]


def toy(seed=0, clip_norm=None):
    """Sixty Gaussian examples whose classes a small network can learn in part."""
    return toy_objective(toy_data(seed=seed), clip_norm=clip_norm)


def examples(n, *, classes=2, people=None):
    """Noisy classes apart along the first coordinate."""
    rng = default_rng(n)
    labels = rng.integers(0, classes, n)
    inputs = rng.normal(size=(n, 5)).astype(np.float32)
    inputs[:, 0] += 2 * labels
    labels = np.where(rng.random(n) < 0.2, (labels + 1) % classes, labels)
    owners = None if people is None else np.arange(n) % people
    return BoundSet(inputs=torch.tensor(inputs), labels=torch.tensor(labels), people=owners)


def linear(scale, outputs=2):
    """A network along the first coordinate."""
    module = Linear(5, outputs)
    with torch.no_grad():
        module.weight.zero_()
        module.weight[:, 0] = scale * torch.arange(1, outputs + 1)
        module.bias.copy_(-scale * torch.arange(1, outputs + 1) ** 2 / 2.0)
    return module.eval()


def catalogue():
    """Every formula of `bounds` at every price that there was."""
    known = {name: price for name, price in prices().items() if name != "epochs"}
    priced = {name: certificates(at_a_price(price)) for name, price in known.items()}
    return {**priced, "without a price": certificates(without_a_price())}


def events():
    """Mechanisms of every kind."""
    selection = ExponentialMechanism(epsilon=sqrt(0.1), adjacency="add-remove")
    sampled = private.sampled_step([1.1], sample_rate=0.05)
    noises = [0.9 + 0.1 * k for k in range(8)]
    return {
        "gaussians": SelfComposed(event=Gaussian(noise_multiplier=8.0), count=30),
        "sampled": SelfComposed(event=sampled, count=50),
        "full batch": private.sampled_step([4.0], sample_rate=1.0),
        "schedule": sampled_gaussians(sample_rate=0.05, noise_multipliers=noises),
        "selection": SelfComposed(event=selection, count=5),
        "both": Composed(events=(sampled, selection)),
    }


def accountant():
    """Epsilon, delta, Rényi, the cost of a prior, calibrated noise."""
    found = {}
    for name, event in events().items():
        for adjacency in ("add-remove", "replace-one"):
            at = {"event": event, "adjacency": adjacency}
            brackets = [privacy_epsilon(delta=delta, **at) for delta in (1e-5, 1e-3)]
            brackets += [privacy_delta(epsilon=1.0, **at), renyi_epsilon(delta=1e-5, **at)]
            cost = bounds.transfer.transfer_cost(privacy=privacy_record(**at), n=500, failure_prob=0.05)
            found[f"{name}, {adjacency}"] = [[one.lower, one.upper, one.status] for one in brackets] + [cost.nats]
    noise = calibrate_noise(event=events()["sampled"], epsilon=2.0, delta=1e-5, adjacency="add-remove")
    return {**found, "calibrated noise": noise.scale}


def laws():
    """Gaussians under every kind of prior, and chains by what is known of their privacy."""
    q, p = (GaussianPosterior.around(linear(scale), std=std) for scale, std in ((1.5, 0.1), (1.2, 0.15)))
    data, test, of_people = examples(300), examples(100), examples(300, people=100)
    mu = bounds.GaussianDP(mu=0.02, adjacency="add-remove", status="accounted")
    guess = replace(mu, status="approximate accountant")
    sources = {"data-free": DataFree()}
    sources |= {name: Private(privacy=one) for name, one in (("private", mu), ("guessed", guess))}
    priors = {name: Prior(law=p, source=source) for name, source in sources.items()}
    priors["chosen"] = replace(priors["data-free"], choice_nats=2.0)
    priors["itself"] = replace(priors["private"], law=q)
    how = {"network": linear(1.0), "monte_carlo": MonteCarlo(passes=2, share=0.2), "seed": 3}
    found = {name: report(certify(q, data, prior=prior, test=test, **how)) for name, prior in priors.items()}
    found["people"] = report(certify(q, of_people, prior=priors["data-free"], **how))
    pure = bounds.PureDP(epsilon=0.05, adjacency="replace-one", status="exact mechanism")
    stationary = replace(pure, status="assumes stationarity")
    known = {"exact": pure, "stationary": stationary, "none": NoPrivacy(reason="no")}
    chain = toy()
    (weights,) = chain.weights()
    for word, privacy in known.items():
        gibbs = LocalGibbs(weights=weights, tau=20.0, gamma=2.0)
        for law, how in ((Point(weights=weights), {}), (gibbs, {"gibbs": EFFORT, "seed": 5})):
            made = certify(law, chain, prior=privacy, test=toy(1), **how)
            found[f"{type(law).__name__}, {word}"] = report(made)
    finite = assess_finite(np.array([30, 12, 40]), n=1000, failure_prob=0.1)
    found["finite, uniform"] = certificates([finite.ensemble, finite.vote, finite.one])
    return found


def networks():
    """A network as it is, its predictions, an estimator, and compression."""
    data, of_people = examples(300, classes=3), examples(300, classes=3, people=100)
    module, rng = linear(1.0, outputs=3), default_rng(0)
    labels = data.labels.numpy()
    logits = module(data.inputs).detach().numpy()
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    groups, people = np.arange(300) % 4, np.arange(300) % 100
    cases = {"counts": {}, "groups": {"groups": groups}, "people": {"people": people},
             "weights": {"weights": (1.0 + groups) / 4}, "losses": {"losses": {"own": rng.random(300)}}}  # fmt: skip
    found = {
        f"predictions, {name}": certificates(certify_predictions(labels, None, probabilities, **more).certificates)
        for name, more in cases.items()
    }
    found["network"] = report(certify(module, data, ask=["error", "calibration"], failure_prob=0.1))
    found["network, people"] = report(certify(module, of_people, ask="error"))
    from sklearn.linear_model import LogisticRegression

    inputs = data.inputs.numpy().astype(np.float64)
    made = self_certify(LogisticRegression(), (inputs, labels))
    found["self-certified"] = certificates([made.certificate])
    whole = Dataset("toy", data.inputs.numpy(), labels, 3)
    compressed = compress(LogisticRegression(), whole, groups=10, failure_prob=0.1, expected=(60,), seed=1)
    return {**found, "compressed": report(compressed.report)}


def seeded_weights():
    """Weights that seeded chains reach in a dozen steps, alone and beside others."""
    found = {}
    for name, settings in SAMPLERS.items():
        risk = toy(clip_norm=getattr(settings, "clip_norm", None))
        start = risk.weights() + torch.arange(3.0)[:, None] / 10
        for seeds in ([7], [7, 8, 9]):
            sampler, keys = build(settings, risk), Keys.derive(seeds)
            state = sampler.init(start[: len(seeds)])
            for _ in range(12):
                state, _ = sampler.step(state, keys)
            found[f"{name}, {len(seeds)}"] = [weights_of(row) for row in state.weights]
    return found


@contextmanager
def in_a_folder(found, name):
    """A folder for a run, whose last weights are found beside its name."""
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)
        found[f"{name}, weights"] = weights_of(load_checkpoint(Path(place)).model)


def commands():
    """What `pacdp train` and `pacdp certify` leave, for every chain and every private recipe."""
    small = {"epochs": 2.0, "records": 1, "track": EFFORT, "certify": EFFORT}
    recipes = ("sgd", "sgld", "entropy-sgd", "entropy-sgld", "entropy-sgd-clipped", "entropy-sgld-clipped")
    runs = {name: replace(run(name, "digits2", scale="smoke"), **small) for name in recipes}
    sgld = runs["sgld"]
    runs["trajectory"] = replace(sgld, sampler=replace(sgld.sampler, keep_norms=True))
    runs["random labels"] = replace(sgld, problem=replace(sgld.problem, random_labels=1.0))
    found = {}
    for name, one in runs.items():
        with in_a_folder(found, name) as place:
            hidden = replace(one.problem, architecture=Architecture(hidden=(8,)))
            train(replace(one, problem=hidden), place, RUNTIME)
            found[name] = report(certify_run(place, RUNTIME, Certifying()))
    for name in PRIVATE_RECIPES:
        with in_a_folder(found, name) as place:
            config = private_recipe(name, scale="smoke", seed=1)
            steps = replace(config.sampling, steps=6)
            result = train_private(replace(config, sampling=steps, records=1, reproducible=True), place, RUNTIME)
            spent = {word: result["privacy"][word] for word in ("lower", "upper", "status", "unit", "units")}
            found[f"{name}, spent"] = spent
            if spent["unit"] == "example":  # these digits do not say who wrote them
                found[name] = report(certify_private(place, RUNTIME, Certifying(failure_prob=0.1, seed=2)))
    return found


SECTIONS = {
    "catalogue": (catalogue, DOUBLE), "accountant": (accountant, SINGLE), "laws": (laws, SINGLE),
    "networks": (networks, SINGLE), "seeded weights": (seeded_weights, SEEDED), "commands": (commands, SINGLE),
}  # fmt: skip


def computed(name):
    """The values of a section as JSON reads them back, on one thread, so that sums of float32 have one order."""
    torch.set_num_threads(1)
    return json.loads(json.dumps(SECTIONS[name][0]()))


def differences(path, frozen, found, rel):
    """Where two values differ by more than rounding; entries of a list of numbers are as near as its largest."""
    if isinstance(frozen, dict) and isinstance(found, dict) and frozen.keys() == found.keys():
        for name in frozen:
            yield from differences(f"{path}/{name}", frozen[name], found[name], rel)
    elif isinstance(frozen, list) and isinstance(found, list) and len(frozen) == len(found):
        for place, (one, other) in enumerate(zip(frozen, found, strict=True)):
            yield from differences(f"{path}[{place}]", one, other, rel)
    elif isinstance(frozen, float) and isinstance(found, int | float):
        if not isclose(frozen, found, rel_tol=rel, abs_tol=0.1 * rel):
            yield f"{path}: {frozen!r} -> {found!r}"
    elif frozen != found:
        yield f"{path}: {frozen!r} -> {found!r}"


@pytest.mark.slow
@every_case("name", SECTIONS)
def test_values_are_those_that_were_frozen(name):
    frozen = json.loads(GOLDEN.read_text(encoding="utf-8"))
    found = list(differences(name, frozen[name], computed(name), SECTIONS[name][1]))
    assert not found, f"{len(found)} differences that nobody meant:\n" + "\n".join(found[:40])


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps({name: computed(name) for name in SECTIONS}, indent=0) + "\n", encoding="utf-8")
