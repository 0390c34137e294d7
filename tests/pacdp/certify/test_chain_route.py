"""Certificates say what they rest on: nothing that needs stationarity is rigorous, and the test set needs nothing."""

import json
import math
from dataclasses import replace

import pytest
from toys import seeded, toy_data, toy_objective

import bounds
from pacdp import Architecture, Assessment, GibbsSettings, LocalGibbs, NoPrivacy, Point, Problem, certify
from pacdp.algorithms import PSGLD, SGD, SGHMC, SGLD, EntropySGD, Settings
from pacdp.certify.chain import gibbs_certificates, refuted, weights_certificates
from pacdp.certify.networks import clopper_pearson
from pacdp.gibbs import GibbsEstimate
from pacdp.losses import bounded_cross_entropy
from pacdp.objective import Risks
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
    posterior = LocalGibbs(weights=weights, tau=20.0, gamma=2.0) if local else Point(weights=weights)
    return certify(posterior, train, prior=privacy, test=test, gibbs=QUICK, failure_prob=failure_prob)


def estimate(**values: float) -> GibbsEstimate:
    known = {
        **dict(error=0.02, loss=0.1, test_error=0.03, tau=300.0, prior_loss=2.0, mean_loss_nats=30.0),
        **dict(log_partition_nats=-530.0, kl_raw_nats=500.0, kl_error_nats=1.0, kl_nats=500.0, kl_clipped=False),
        **dict(steps=10, draws=8, effective_draws=5.0, prior_draws=4),
    }
    return GibbsEstimate(**{**known, **values})


def test_networks_that_mix_examples_make_optimistic_certificates_that_say_so() -> None:
    problem = Problem(architecture=Architecture(hidden=(6,), norm="batch"))
    train, test = (problem.objective(toy_data(seed=k), generator=seeded(0), batch_size=10) for k in (0, 1))
    (weights,) = train.weights()
    for law in (Point(weights=weights), LocalGibbs(weights=weights, tau=20.0, gamma=2.0)):
        for privacy in (STATIONARY, EXACT, NoPrivacy(reason="none")):
            found = certify(law, train, prior=privacy, test=test, gibbs=QUICK)
            assert {one.name for one in found.certificates} >= TEST_SET
            for one in found.certificates:
                assert one.status == "optimistic"
                assert "losses one an example" in {each.name for each in one.unproved}


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
    costs = {c.name: c.nats("transfer") for c in certificates}
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
    assert found.hypotheses == ()


@pytest.mark.parametrize("local", [True, False])
def test_what_rests_on_stationarity_is_optimistic_and_the_test_set_rigorous(local: bool) -> None:
    found = assessed(STATIONARY, local=local)
    assert {c.name for c in found.certificates} == (GIBBS | WITHOUT_DRAWS if local else set()) | WEIGHTS | TEST_SET
    for certificate in found.certificates:
        rigorous = certificate.name in TEST_SET
        assert certificate.status == ("rigorous" if rigorous else "optimistic")
        missing = {one.name for one in certificate.unproved}
        assert ("chain stationary" in missing) == (not rigorous)
        assert ("averages exact" in missing) == (certificate.name in GIBBS)
    assert not found.refusals


def test_an_exact_mechanism_leaves_the_monte_carlo_error_of_the_gibbs_classifier() -> None:
    for certificate in assessed(EXACT).certificates:
        if certificate.name in GIBBS:
            assert [one.name for one in certificate.unproved] == ["averages exact"]
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
    gibbs, weights = GibbsEstimate(**found.gibbs), found.details["weights"]
    expected = [
        *gibbs_certificates(gibbs, n=60, loss=toy_objective(toy_data()).loss, privacy=STATIONARY, failure_prob=0.01),
        *weights_certificates(Risks(**weights["train"]), privacy=STATIONARY, failure_prob=0.01),
        clopper_pearson(weights["test"]["errors"], 60, 0.01),
    ]
    assert [(c.name, c.value, c.costs) for c in found.certificates] == [(c.name, c.value, c.costs) for c in expected]
    assert all(c.failure_prob == pytest.approx(0.01, rel=1e-15) for c in found.certificates)


@pytest.mark.parametrize(("raw", "error", "bound"), [(-40.0, 5.0, False), (-40.0, 20.0, True), (3.0, 0.1, True)])
def test_an_estimate_that_its_own_run_refutes_gives_no_bound(raw: float, error: float, bound: bool) -> None:
    told = estimate(kl_raw_nats=raw, kl_error_nats=error, kl_nats=max(0.0, raw), kl_clipped=raw < 0.0)
    names = {c.name for c in gibbs_certificates(told, n=N, loss=LOSS, privacy=STATIONARY, failure_prob=0.05)}
    assert names == (GIBBS if bound else set()) | WITHOUT_DRAWS, "the one without draws does not use the estimate"
    assert bool(refuted(told)) == (not bound)


def test_bounds_on_weights_use_the_continuous_loss() -> None:
    risks = Risks(loss=0.1, error=0.02, ramp=0.05, errors=1200, n=N)
    for certificate in weights_certificates(risks, privacy=STATIONARY, failure_prob=0.05):
        assert certificate.terms["empirical_risk"] == 0.05


def test_the_test_set_bound_is_that_of_clopper_and_pearson() -> None:
    certificate = clopper_pearson(300, 10_000, 0.05)
    assert certificate.value == pytest.approx(0.03295943590, abs=1e-11)


def test_the_seed_decides_every_draw() -> None:
    train = toy_objective(toy_data())
    q = LocalGibbs(weights=train.weights()[0], tau=20.0, gamma=2.0)
    first, again, other = (certify(q, train, prior=STATIONARY, gibbs=QUICK, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first.gibbs != other.gibbs


def test_a_chain_without_its_promise_is_refused() -> None:
    train = toy_objective(toy_data())
    with pytest.raises(ValueError, match="need prior="):
        certify(Point(weights=train.weights()[0]), train)


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("held_out", [True, False])
@pytest.mark.parametrize("privacy", [STATIONARY, NoPrivacy(reason="because")], ids=["private", "not"])
def test_an_assessment_is_json_of_the_one_form(privacy: bounds.PureDP | NoPrivacy, held_out: bool, local: bool) -> None:
    found = assessed(privacy, local=local, held_out=held_out)
    record = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert (record["format"], record["n"], record["unit"]) == ("pacdp-certificates/2", 60, "example")
    assert (record["gibbs"] is None) == (not local)
    on = {(one["of"], one["on"]) for one in record["measured"]}
    assert (("weights", "test") in on) == held_out
    assert (("Gibbs classifier", "test") in on) == (held_out and local)
    for certificate in record["certificates"]:
        assert bounds.Certificate.from_dict(certificate).to_dict() == certificate
    assert found.headline()
