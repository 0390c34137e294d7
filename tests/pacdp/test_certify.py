"""Certificates say what they rest on: nothing that needs stationarity is rigorous, and the test set needs nothing."""

import json
import math
from dataclasses import replace

import pytest
import torch
from toys import toy_data, toy_objective

import bounds
from pacdp import Assessment, GaussianPrior, GibbsSettings, LocalGibbs, NoPrivacy, Point, assess, certify
from pacdp.certify import MONTE_CARLO, STATIONARITY, gibbs_certificates, held_out_certificate, weights_certificates
from pacdp.gibbs import GibbsEstimate
from pacdp.losses import bounded_cross_entropy
from pacdp.objective import Risks
from pacdp.samplers import PSGLD, SGD, SGHMC, SGLD, EntropySGD, Settings
from pacdp.trained import privacy_of

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


def assessed(
    privacy: bounds.PureDP | NoPrivacy, *, local: bool = True, held_out: bool = True, failure_prob: float = 0.05
) -> Assessment:
    train = toy_objective(toy_data())
    test = toy_objective(toy_data(seed=1)) if held_out else None
    (weights,) = train.weights()
    posterior, prior = Point(weights=weights), privacy
    if local:
        posterior = LocalGibbs(weights=weights, tau=20.0, gamma=2.0)
        prior = GaussianPrior(mean=weights, std=40**-0.5, privacy=privacy)
    return assess(posterior, train, prior=prior, test=test, settings=QUICK, failure_prob=failure_prob)


def estimate(**values: float) -> GibbsEstimate:
    known = dict(error=0.02, loss=0.1, test_error=0.03, tau=300.0, prior_loss=2.0, mean_loss_nats=30.0,
                 log_partition_nats=-530.0, kl_raw_nats=500.0, kl_nats=500.0, kl_clipped=False, steps=10, draws=8,
                 effective_draws=5.0, prior_draws=4)  # fmt: skip
    return GibbsEstimate(**{**known, **values})


@pytest.mark.parametrize("oscillation", [4.0, bounded_cross_entropy(classes=2).oscillation])
@pytest.mark.parametrize(
    "settings",
    [
        SGLD(tau=TAU), SGHMC(tau=TAU), PSGLD(tau=TAU, freeze_after=9), PSGLD(tau=TAU, correction=False, freeze_after=3),
        EntropySGD(tau=TAU), EntropySGD(tau=TAU, gamma=9.0, beta=0.25),
    ],
)  # fmt: skip
def test_epsilon_is_two_beta_tau_oscillation_over_n(settings: Settings, oscillation: float) -> None:
    privacy = privacy_of(settings, oscillation=oscillation, n=N)
    beta = getattr(settings, "beta", 1.0)
    exact = 2 * beta * TAU * oscillation / N
    assert exact * (1 - 1e-15) <= privacy.epsilon <= exact * (1 + 1e-14)
    assert (privacy.adjacency, privacy.status) == ("replace-one", "assumes stationarity")


def test_the_papers_epsilon_and_what_it_costs() -> None:
    privacy = privacy_of(EntropySGD(tau=TAU), oscillation=4.0, n=N)
    assert round(privacy.epsilon, 5) == 0.03266
    certificates = gibbs_certificates(estimate(), n=N, loss=LOSS, privacy=privacy, failure_prob=0.05)
    *certificates, without_draws = certificates
    assert without_draws.budget == pytest.approx({"bound": 0.045, "log partition": 0.005})
    costs = {c.name: c.terms["transfer_nats"] for c in certificates}
    assert costs == {
        "dp_pac_bayes_2018": pytest.approx(128, rel=1e-12),
        "dp_pac_bayes_max_information": pytest.approx(47.53053695, abs=1e-8),
        "dp_pac_bayes": pytest.approx(20.78671960, abs=1e-8),
    }
    values = {c.name: c.value for c in certificates}
    assert values["dp_pac_bayes"] < values["dp_pac_bayes_max_information"] < values["dp_pac_bayes_2018"]
    assert [round(c.value, 4) for c in certificates] == [0.0475, 0.0452, 0.0444]  # at risk 0.02 and 500 nats
    own = privacy_of(EntropySGD(tau=TAU), oscillation=bounded_cross_entropy(classes=2).oscillation, n=N)
    assert round(own.epsilon, 10) == 0.0325089302


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (SGD(), "SGD adds no noise"),
        (EntropySGD(tau=TAU, beta=None), "Entropy-SGD adds no noise to its weights"),
        (EntropySGD(tau=TAU, beta=None, clip_norm=1.0), "say how many it has made"),
        (SGLD(tau=TAU, clip_norm=1.0), "as private as its steps"),
        (PSGLD(tau=TAU), "metric moves with the weights"),
        (PSGLD(tau=TAU, correction=False), "metric moves with the weights"),
        (EntropySGD(tau=TAU, clip_norm=1.0), "as private as its steps"),
    ],
)
def test_no_noise_and_unknown_steps_promise_no_privacy(settings: Settings, why: str) -> None:
    privacy = privacy_of(settings, oscillation=4.0, n=N)
    assert isinstance(privacy, NoPrivacy)
    assert why in privacy.reason


def test_psgld_promises_privacy_after_its_metric_is_frozen() -> None:
    settings = PSGLD(tau=TAU, freeze_after=9)
    assert [isinstance(privacy_of(settings, oscillation=4.0, n=N, step=step), NoPrivacy) for step in (0, 9, 10)] == [
        True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [SGLD, EntropySGD])
def test_a_clipped_chain_promises_what_its_steps_cost(kind: type) -> None:
    settings = kind(tau=TAU, clip_norm=1.0)
    object.__setattr__(settings, "clip_norm", 1)  # what JSON and plain callers may give
    found = privacy_of(settings, oscillation=4.0, n=N, step=3)
    assert isinstance(found, bounds.PrivacyLossDistribution)
    assert (found.status, found.adjacency) == ("accounted", "add-remove")
    assert found.assumptions == ()


@pytest.mark.parametrize("local", [True, False])
def test_what_rests_on_stationarity_is_optimistic_and_the_test_set_rigorous(local: bool) -> None:
    found = assessed(STATIONARY, local=local)
    assert {c.name for c in found.certificates} == (GIBBS | WITHOUT_DRAWS if local else set()) | WEIGHTS | TEST_SET
    for certificate in found.certificates:
        rigorous = certificate.name in TEST_SET
        assert certificate.status == ("rigorous" if rigorous else "optimistic")
        assert (STATIONARITY in certificate.assumptions) == (not rigorous)
        assert (MONTE_CARLO in certificate.assumptions) == (certificate.name in GIBBS)
    assert not found.refusals


def test_an_exact_mechanism_leaves_the_monte_carlo_error_of_the_gibbs_classifier() -> None:
    for certificate in assessed(EXACT).certificates:
        if certificate.name in GIBBS:
            assert (certificate.status, certificate.assumptions) == ("optimistic", (MONTE_CARLO,))
        else:
            assert certificate.status == "rigorous"


@pytest.mark.parametrize("local", [True, False])
def test_privacy_of_another_adjacency_is_refused(local: bool) -> None:
    with pytest.raises(ValueError, match="replace-one"):
        assessed(replace(EXACT, adjacency="add-remove"), local=local)


@pytest.mark.parametrize("local", [True, False])
def test_without_privacy_only_the_test_set_certifies(local: bool) -> None:
    found = assessed(NoPrivacy(reason="because"), local=local)
    assert {c.name for c in found.certificates} == TEST_SET
    assert [r.reason for r in found.refusals] == ["because"] * (2 if local else 1)
    assert found.privacy is None
    nothing = assessed(NoPrivacy(reason="because"), local=local, held_out=False)
    assert not nothing.certificates
    assert nothing.refusals[-1].name == "test-set bound"


def test_certificates_are_computed_from_what_was_measured() -> None:
    found = assessed(STATIONARY, failure_prob=0.01)
    expected = [
        *gibbs_certificates(
            found.gibbs, n=60, loss=toy_objective(toy_data()).loss, privacy=STATIONARY, failure_prob=0.01
        ),
        *weights_certificates(found.train, privacy=STATIONARY, failure_prob=0.01),
        held_out_certificate(found.test, failure_prob=0.01),
    ]
    assert list(found.certificates) == expected
    assert all(c.failure_prob == pytest.approx(0.01, rel=1e-15) for c in found.certificates)


def test_bounds_on_weights_use_the_continuous_loss() -> None:
    risks = Risks(loss=0.1, error=0.02, ramp=0.05, errors=1200, n=N)
    for certificate in weights_certificates(risks, privacy=STATIONARY, failure_prob=0.05):
        assert certificate.terms["empirical_risk"] == 0.05


def test_the_test_set_bound_is_that_of_clopper_and_pearson() -> None:
    certificate = held_out_certificate(Risks(0.1, 0.03, 0.03, 300, 10_000), failure_prob=0.05)
    assert certificate.value == pytest.approx(0.03295943590, abs=1e-11)


def test_certify_gives_the_certificates_of_assess_by_default_with_seed_zero() -> None:
    train = toy_objective(toy_data())
    q = LocalGibbs(weights=train.weights()[0], tau=20.0, gamma=2.0)
    prior = GaussianPrior(mean=q.weights, std=q.prior_std, privacy=STATIONARY)
    assert certify(q, train, prior=prior, settings=QUICK) == certify(q, train, prior=prior, settings=QUICK, seed=0)


@pytest.mark.parametrize("wrong", ["mean", "std", "kind"])
def test_a_prior_that_is_not_the_posteriors_own_is_refused(wrong: str) -> None:
    train = toy_objective(toy_data())
    q = LocalGibbs(weights=train.weights()[0], tau=20.0, gamma=2.0)
    mean = torch.zeros_like(q.weights) if wrong == "mean" else q.weights
    prior = GaussianPrior(mean=mean, std=q.prior_std * (1.01 if wrong == "std" else 1), privacy=STATIONARY)
    with pytest.raises(ValueError, match="expected prior to be GaussianPrior with the posterior's weights as mean"):
        certify(q, train, prior=STATIONARY if wrong == "kind" else prior, settings=QUICK)


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("held_out", [True, False])
@pytest.mark.parametrize("privacy", [STATIONARY, NoPrivacy(reason="because")], ids=["private", "not"])
def test_an_assessment_is_json_with_the_promised_keys(
    privacy: bounds.PureDP | NoPrivacy, held_out: bool, local: bool
) -> None:
    record = json.loads(json.dumps(assessed(privacy, local=local, held_out=held_out).to_dict(), allow_nan=False))
    assert list(record) == [
        "format", "n", "failure_prob", "empirical_risk", "test_risk", "kl_nats", "privacy",
        "mean_classifier", "gibbs_classifier", "certificates", "not_applicable", "diagnosis",
            "accounted_privacy", "gaussian_classifier",
    ]  # fmt: skip
    assert (record["format"], record["n"], record["failure_prob"]) == ("pacdp-certificates/1", 60, 0.05)
    judged = record["gibbs_classifier"] if local else record["mean_classifier"]["train"]
    assert record["empirical_risk"] == judged["error"]
    assert (record["kl_nats"] is None) == (record["gibbs_classifier"] is None) == (not local)
    assert (record["test_risk"] is None) == (record["mean_classifier"]["test"] is None) == (not held_out)
    for certificate in record["certificates"]:
        assert bounds.Certificate.from_dict(certificate).to_dict() == certificate
