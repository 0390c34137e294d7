"""Certificates say what they rest on: nothing that needs stationarity is rigorous, and the test set needs nothing."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import Flatten, Identity, Linear, Module, ReLU, Sequential, Sigmoid, Tanh
from toys import seeded, toy_data, toy_objective

import bounds
from pacdp import certify
from pacdp.algorithms import PSGLD, SGD, SGHMC, SGLD, EntropySGD
from pacdp.certify import NoPrivacy
from pacdp.certify.chain import EXAMPLES, gibbs_certificates, refuted, weights_certificates
from pacdp.certify.gibbs import GibbsEstimate, GibbsSettings
from pacdp.certify.trained import privacy_of
from pacdp.losses import bounded_cross_entropy, zero_one
from pacdp.models import Architecture
from pacdp.objective import Objective, Risks
from pacdp.posterior import LocalGibbs, Point
from pacdp.predictions.bounding import clopper_pearson
from pacdp.problem import Problem
from tests.marks import every_case, near, parametrize
from tests.schema import validate

N = 60_000
TAU = math.sqrt(N)
STATIONARY = bounds.PureDP(epsilon=0.01, adjacency="replace-one", status="assumes stationarity")
EXACT = replace(STATIONARY, status="exact mechanism")
LOSS = bounded_cross_entropy(classes=2)
WITHOUT_DRAWS = {"dp_gibbs_pac_bayes"}
GIBBS = {"dp_pac_bayes_2018", "dp_pac_bayes_max_information", "dp_pac_bayes"}
WEIGHTS = {"dp_hoeffding_2018", "dp_chernoff_2018", "dp_hoeffding", "dp_chernoff", "dp_kl_chernoff"}
TEST_SET = {"test_set_clopper_pearson"}
QUICK = GibbsSettings(epochs=2.0, prior_draws=2, test_draws=2)


def assessed(privacy, *, local=True, held_out=True, failure_prob=0.05):
    train = toy_objective(toy_data())
    test = toy_objective(toy_data(seed=1)) if held_out else None
    (weights,) = train.weights()
    posterior = LocalGibbs(weights=weights, tau=20.0, gamma=2.0) if local else Point(weights=weights)
    effort = {"gibbs": QUICK} if local else {}
    return certify(posterior, train, prior=privacy, test=test, failure_prob=failure_prob, **effort)


@parametrize("which", [0, 1])
def test_examples_of_people_are_no_independent_records_of_a_chain(which):
    sets = [toy_data(), toy_data(seed=1)]
    sets[which] = replace(sets[which], people=np.arange(sets[which].n) // 4, unit="person")
    train, test = map(toy_objective, sets)
    found = certify(Point(weights=train.weights()[0]), train, prior=EXACT, test=test)
    assert {one.status for one in found.certificates} == {"optimistic"}
    assert {h.by for one in found.certificates for h in one.unproved} == {EXAMPLES.by}


@parametrize("local", [False, True])
def test_probabilities_in_place_of_logits_are_refused_as_by_all_other_routes(local):
    """All of them lie above 0, so that each would be read as class 1."""
    data = toy_data()
    layers = Flatten(), Linear(data.inputs[0].size, 1)
    for last, refused in ((Sigmoid(), True), (Identity(), False)):
        net = Sequential(*layers, last)
        net[1].weight.data.mul_(0.001)
        net[1].bias.data.fill_(0.5)  # an honest logit between 0 and 1 for every example
        train = Objective(net, LOSS, data, batch_size=10)
        (weights,) = train.weights()
        law = LocalGibbs(weights=weights, tau=20.0, gamma=2.0) if local else Point(weights=weights)
        effort = {"gibbs": QUICK} if local else {}
        if refused:
            with pytest.raises(ValueError, match="the outputs are probabilities, as far as can be seen"):
                certify(law, train, prior=EXACT, **effort)
        else:
            assert certify(law, train, prior=EXACT, **effort).certificates


class Turned(Module):
    """Numbers times a buffer, which its name does not tell."""

    def __init__(self, sign):
        super().__init__()
        self.register_buffer("sign", torch.tensor(sign))

    def forward(self, inputs):
        return torch.tanh(inputs * self.sign)


@every_case("what", ("other layers", "other buffers"))
def test_a_test_set_of_another_network_with_as_many_weights_is_refused(what):
    data = toy_data()
    width = data.inputs[0].size
    other = {"other layers": (Tanh(), ReLU()), "other buffers": (Turned(1.0), Turned(-1.0))}[what]
    kinds = [Sequential(Flatten(), Linear(width, 1), one, Linear(1, 1)) for one in other]
    train, test = (
        Objective(one, LOSS, data, batch_size=10) for one, data in zip(kinds, (data, toy_data(seed=1)), strict=True)
    )
    with pytest.raises(ValueError, match="test must be an Objective of the network"):
        certify(Point(weights=train.weights()[0]), train, prior=EXACT, test=test)


def test_a_gibbs_law_is_not_sampled_by_a_loss_without_a_slope():
    train = Objective(
        Sequential(Flatten(), Linear(toy_data().inputs[0].size, 1)), zero_one(), toy_data(), batch_size=10
    )
    (weights,) = train.weights()
    with pytest.raises(ValueError, match="the loss of data must have a slope"):
        certify(LocalGibbs(weights=weights, tau=20.0, gamma=2.0), train, prior=EXACT, gibbs=QUICK)
    assert certify(Point(weights=weights), train, prior=EXACT).certificates


@parametrize("form", [lambda w: w.double(), lambda w: w[1:]])
def test_weights_of_another_network_are_refused(form):
    train = toy_objective(toy_data())
    with pytest.raises(ValueError, match="must be one vector of"):
        certify(Point(weights=form(train.weights()[0])), train, prior=EXACT)


def estimate(**values):
    known = {
        **dict(error=0.02, loss=0.1, test_error=0.03, tau=300.0, prior_loss=2.0, mean_loss_nats=30.0),
        **dict(log_partition_nats=-530.0, kl_raw_nats=500.0, kl_error_nats=1.0, kl_nats=500.0, kl_clipped=False),
        **dict(steps=10, draws=8, effective_draws=5.0, prior_draws=4),
    }
    return GibbsEstimate(**{**known, **values})


@parametrize("privacy", [STATIONARY, EXACT, NoPrivacy(reason="none")])
def test_networks_that_mix_examples_make_optimistic_certificates(privacy):
    problem = Problem(architecture=Architecture(hidden=(6,), norm="batch"))
    train, test = (problem.objective(toy_data(seed=k), generator=seeded(0), batch_size=10) for k in (0, 1))
    (weights,) = train.weights()
    gibbs = LocalGibbs(weights=weights, tau=20.0, gamma=2.0)
    for law, how in ((Point(weights=weights), {}), (gibbs, {"gibbs": QUICK})):
        found = certify(law, train, prior=privacy, test=test, **how)
        assert {one.name for one in found.certificates} >= TEST_SET
        for one in found.certificates:
            assert one.status == "optimistic"
            assert "losses one an example" in {each.name for each in one.unproved}


@every_case(
    "settings",
    [SGLD(tau=TAU), PSGLD(tau=TAU, freeze_after=9), EntropySGD(tau=TAU, gamma=9.0, beta=0.25), SGHMC(tau=TAU)],
)
def test_epsilon_is_two_beta_tau_oscillation_over_n(settings):
    privacy = privacy_of(settings, oscillation=LOSS.oscillation, n=N)
    beta = getattr(settings, "beta", 1.0)
    exact = 2 * beta * TAU * LOSS.oscillation / N
    assert exact * (1 - 1e-15) <= privacy.epsilon <= exact * (1 + 1e-14)
    assert (privacy.adjacency, privacy.status) == ("replace-one", "assumes stationarity")


def test_the_papers_epsilon_and_what_it_costs():
    privacy = privacy_of(EntropySGD(tau=TAU), oscillation=4.0, n=N)
    assert round(privacy.epsilon, 5) == 0.03266
    made = gibbs_certificates(estimate(), n=N, loss=LOSS, privacy=privacy, failure_prob=0.05)
    of_paper, max_information, sharp, without_draws = made
    assert without_draws.budget == near({"bound": 0.045, "log partition": 0.005})
    assert of_paper.nats("transfer") == near(2 * N * privacy.epsilon**2, rel=1e-9)
    assert sharp.nats("transfer") < max_information.nats("transfer") < of_paper.nats("transfer")
    assert [round(c.value, 4) for c in (of_paper, max_information, sharp)] == [0.0475, 0.0452, 0.0444]


@every_case(
    ("settings", "why"),
    [
        (SGD(), "SGD adds no noise"),
        (EntropySGD(tau=TAU, beta=None), "Entropy-SGD adds no noise to its weights"),
        (EntropySGD(tau=TAU, beta=None, clip_norm=1.0), "say how many it has made"),
        (SGLD(tau=TAU, clip_norm=1.0), "as private as its steps"),
        (PSGLD(tau=TAU), "metric moves with the weights"),
    ],
)
def test_no_noise_and_unknown_steps_promise_no_privacy(settings, why):
    privacy = privacy_of(settings, oscillation=4.0, n=N)
    assert isinstance(privacy, NoPrivacy)
    assert why in privacy.reason


def test_psgld_promises_privacy_after_its_metric_is_frozen_and_a_clipped_chain_what_its_steps_cost():
    frozen = PSGLD(tau=TAU, freeze_after=9)
    found = [privacy_of(frozen, oscillation=4.0, n=N, step=step) for step in (0, 9, 10)]
    assert [isinstance(one, NoPrivacy) for one in found] == [True, True, False]
    settings = EntropySGD(tau=TAU, clip_norm=1.0)
    object.__setattr__(settings, "clip_norm", 1)  # what JSON and plain callers may give
    accounted = privacy_of(settings, oscillation=4.0, n=N, step=3)
    assert isinstance(accounted, bounds.PrivacyLossDistribution)
    assert (accounted.status, accounted.adjacency, accounted.hypotheses) == ("accounted", "add-remove", ())


local_or_not = parametrize("local", [True, False])


@local_or_not
def test_what_rests_on_stationarity_is_optimistic_and_the_test_set_rigorous(local):
    found = assessed(STATIONARY, local=local)
    assert {c.name for c in found.certificates} == (GIBBS | WITHOUT_DRAWS if local else set()) | WEIGHTS | TEST_SET
    for certificate in found.certificates:
        rigorous = certificate.name in TEST_SET
        assert certificate.status == ("rigorous" if rigorous else "optimistic")
        missing = {one.name for one in certificate.unproved}
        assert ("chain stationary" in missing) == (not rigorous)
        assert ("averages exact" in missing) == (certificate.name in GIBBS)
    assert not found.refusals
    for certificate in assessed(EXACT, local=local).certificates:
        left = ["averages exact"] * (certificate.name in GIBBS)
        assert [one.name for one in certificate.unproved] == left, "an exact mechanism leaves the Monte Carlo error"
        assert certificate.status == ("optimistic" if left else "rigorous")


@local_or_not
def test_without_privacy_only_the_test_set_certifies(local):
    found, nothing = (assessed(NoPrivacy(reason="because"), local=local, held_out=held) for held in (True, False))
    assert {c.name for c in found.certificates} == TEST_SET
    assert [r.reason for r in found.refusals] == ["because"] * (2 if local else 1)
    assert found.privacy is None
    assert not nothing.certificates
    assert nothing.refusals[-1].name == "test-set bound"


def test_certificates_are_computed_from_what_was_measured():
    found = assessed(STATIONARY, failure_prob=0.01)
    gibbs, weights = GibbsEstimate(**found.gibbs), found.details["weights"]
    validate({**found.to_dict(subject=None), "provenance": None})
    expected = [
        *gibbs_certificates(gibbs, n=60, loss=toy_objective(toy_data()).loss, privacy=STATIONARY, failure_prob=0.01),
        *weights_certificates(Risks(**weights["train"]), privacy=STATIONARY, failure_prob=0.01),
        clopper_pearson(weights["test"]["errors"], 60, 0.01),
    ]
    assert [(c.name, c.value, c.costs) for c in found.certificates] == [(c.name, c.value, c.costs) for c in expected]
    assert all(c.failure_prob == near(0.01, rel=1e-15) for c in found.certificates)


@parametrize(("raw", "error", "bound"), [(-40.0, 5.0, False), (-40.0, 20.0, True), (3.0, 0.1, True)])
def test_an_estimate_that_its_own_run_refutes_gives_no_bound(raw, error, bound):
    told = estimate(kl_raw_nats=raw, kl_error_nats=error, kl_nats=max(0.0, raw), kl_clipped=raw < 0.0)
    names = {c.name for c in gibbs_certificates(told, n=N, loss=LOSS, privacy=STATIONARY, failure_prob=0.05)}
    assert names == (GIBBS if bound else set()) | WITHOUT_DRAWS, "the one without draws does not use the estimate"
    assert bool(refuted(told)) == (not bound)


def test_bounds_on_weights_use_the_continuous_loss():
    risks = Risks(loss=0.1, error=0.02, ramp=0.05, errors=1200, n=N)
    for certificate in weights_certificates(risks, privacy=STATIONARY, failure_prob=0.05):
        assert certificate.terms["empirical_risk"] == 0.05
