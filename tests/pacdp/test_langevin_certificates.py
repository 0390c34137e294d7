"""Certificates of clipped chains: what is rigorous, what it costs, and that every step is paid for."""

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from test_trained import PROBLEM, resume, train
from toys import seeded, toy_data, toy_objective

import bounds
from bounds.accounting import event_from_dict, privacy_epsilon
from pacdp import GibbsSettings, load_trained
from pacdp.langevin_certificates import (
    UNCLIPPED,
    around,
    gaussian_certificate,
    released_weights_certificate,
    require_own_batches,
    with_accounted,
)
from pacdp.langevin_privacy import accounted_privacy
from pacdp.objective import Risks
from pacdp.samplers import SGLD, EntropySGD
from pacdp.steps import Plan

EFFORT = GibbsSettings(epochs=1.0, prior_draws=2, test_draws=2)
CLIPPED = {
    "SGLD": SGLD(tau=30.0, clip_norm=1.0, batch_size=32),
    "Entropy-SGLD": EntropySGD(tau=30.0, inner_steps=4, clip_norm=1.0, batch_size=32),
    "Entropy-SGD": EntropySGD(tau=30.0, inner_steps=4, beta=None, clip_norm=1.0, batch_size=32),
}
PRIVACY = bounds.GaussianDP(mu=0.02, adjacency="add-remove", status="accounted")


@pytest.mark.parametrize("name", CLIPPED)
def test_a_clipped_checkpoint_has_rigorous_certificates_beside_the_optimistic(tmp_path: Path, name: str) -> None:
    settings = CLIPPED[name]
    train(tmp_path / "c", settings, steps=3, plan=Plan(steps=3))
    trained = load_trained(tmp_path / "c")
    found = trained.assess(settings=EFFORT)
    first, second, *others = found.certificates
    assert [first.name, second.name] == ["private_pac_bayes", "private_kl_chernoff"]
    for one in (first, second):
        assert one.status == "rigorous"
        assert one.assumptions == ()
        assert one.failure_prob == pytest.approx(0.05, rel=1e-15)
    assert others[-1].name == "test_set_clopper_pearson"
    for one in others[:-1]:
        assert one.status == "optimistic"
        assert UNCLIPPED in one.assumptions
    assert bool(others[:-1]) == (name != "Entropy-SGD"), "without outer noise nothing is known of its target"
    privacy = accounted_privacy(settings, n=1437, steps=3)
    again = bounds.private_kl_chernoff(risk=found.train.error, n=1437, privacy=privacy, failure_prob=0.05)
    assert second.value == pytest.approx(again.value, rel=1e-12)
    mechanisms = 3 * settings.gradients_per_step
    report = found.to_dict()
    assert report["accounted_privacy"]["mechanisms"] == mechanisms
    event = event_from_dict(report["accounted_privacy"]["event"])
    spent = privacy_epsilon(event=event, delta=1e-5, adjacency="add-remove").upper
    assert report["accounted_privacy"]["epsilon_add_remove"] == spent
    assert report["gaussian_classifier"]["kl_nats"] == 0.0
    assert report["gaussian_classifier"]["std"] == 30.0**-0.5
    assert report["gaussian_classifier"]["test"]["n"] == 360


def test_a_chain_pays_for_all_planned_steps_whenever_it_stops(tmp_path: Path) -> None:
    settings = CLIPPED["Entropy-SGLD"]
    train(tmp_path / "ten", settings, steps=10)
    train(tmp_path / "four", settings, steps=4)
    stopped = load_trained(tmp_path / "four").assess(settings=EFFORT)
    resume(tmp_path / "four", until=10)
    resumed, uninterrupted = (load_trained(tmp_path / name).assess(settings=EFFORT) for name in ("four", "ten"))
    assert resumed.to_dict() == uninterrupted.to_dict()
    assert resumed.accounted is not None
    assert stopped.accounted == resumed.accounted
    assert resumed.accounted["mechanisms"] == 40
    privacy = accounted_privacy(settings, n=1437, steps=10)
    expected = released_weights_certificate(stopped.train, privacy=privacy, failure_prob=0.05)
    assert stopped.certificates[1].value == expected.value
    train(tmp_path / "short", settings, steps=4, plan=Plan(steps=4))
    planned = load_trained(tmp_path / "short").assess(settings=EFFORT)
    assert planned.certificates[1].value < expected.value, "four planned steps cost less than four of ten"


def test_listed_stopping_times_share_the_failure_probability(tmp_path: Path) -> None:
    settings = CLIPPED["Entropy-SGLD"]
    plan = Plan(steps=10, stopping="listed", listed=(2, 4, 10))
    train(tmp_path / "c", settings, steps=4, plan=plan)
    trained = load_trained(tmp_path / "c")
    assert trained.plan == plan
    found = trained.assess(settings=EFFORT)
    privacy = accounted_privacy(settings, n=1437, steps=4)
    alone = released_weights_certificate(found.train, privacy=privacy, failure_prob=0.05 / 3)
    for one in found.certificates[:2]:
        assert one.failure_prob == pytest.approx(0.05, rel=1e-15)
        assert one.budget["other stopping times"] == pytest.approx(0.1 / 3, rel=1e-12)
    assert found.certificates[1].value == alone.value
    cheaper = released_weights_certificate(found.train, privacy=privacy, failure_prob=0.05)
    assert cheaper.value < alone.value
    assert trained.privacy == privacy


def test_every_cost_in_nats_an_example_is_in_the_terms_and_the_value_follows() -> None:
    data = toy_objective(toy_data(n=200), batch_size=10, clip_norm=0.5)
    q = around(data, data.weights()[0], std=0.05)
    p = around(data, data.weights()[0], std=0.06)
    made, counted = gaussian_certificate(
        data, q, prior=p, privacy=PRIVACY, failure_prob=0.1, seed=3, passes=4
    )  # fmt: skip
    assert made.budget == {"Monte Carlo": pytest.approx(0.002), "PAC step": pytest.approx(0.098)}
    assert counted.terms == 800
    inner = bounds.kl_chernoff_upper(counted.mean, 800, 0.002)
    assert made.terms["empirical_risk"] == pytest.approx(inner, rel=1e-12)
    cost = bounds.transfer_cost(privacy=PRIVACY, n=200, failure_prob=made.budget["PAC step"]).nats
    kl = data.dim * (0.5 * ((0.05 / 0.06) ** 2 - 1) + math.log(0.06 / 0.05))
    expected = {"transfer": cost / 200, "kl": kl / 200, "log_xi": bounds.log_xi(200) / 200}
    for name, nats in expected.items():
        assert made.terms[f"{name}_per_example"] == pytest.approx(nats, rel=1e-5), name
    assert made.terms["monte_carlo_nats_per_draw"] == pytest.approx(math.log(500) / 800, rel=1e-9)
    total = sum(made.terms[f"{name}_per_example"] for name in expected)
    assert made.value == pytest.approx(float(bounds.binary_kl_upper(inner, total)), rel=1e-9)


def test_counts_of_errors_are_never_rounded_down() -> None:
    for n in (3, 7, 1437, 60_000):
        for errors in (1, 2, n // 3, n - 1):
            risks = Risks(0.5, errors / n, 0.5, errors, n)
            made = released_weights_certificate(risks, privacy=PRIVACY, failure_prob=0.05)
            assert Fraction(made.terms["empirical_risk"]) >= Fraction(errors, n)
            assert made.terms["empirical_risk"] == pytest.approx(errors / n, rel=1e-15)


def test_the_posterior_may_be_trained_on_without_noise() -> None:
    """The price is the divergence alone."""
    data = toy_objective(toy_data(n=200), batch_size=10, clip_norm=0.5)
    weights = data.weights()[0]
    moved = weights + 0.01 * torch.randn(weights.shape, generator=seeded(0))
    prior, posterior = (around(data, mean, std=0.05) for mean in (weights, moved))
    made, _ = gaussian_certificate(data, posterior, prior=prior, privacy=PRIVACY, failure_prob=0.1, seed=3, passes=2)
    distance = float((moved - weights).double().square().sum()) / (2 * 0.05**2)
    assert made.terms["kl_nats"] == pytest.approx(distance, rel=1e-5)


def test_an_objective_of_other_batches_or_clipping_is_refused(tmp_path: Path) -> None:
    settings = CLIPPED["SGLD"]
    train(tmp_path / "c", settings, steps=1)
    trained = load_trained(tmp_path / "c")
    found = trained.assess(settings=EFFORT)
    for other in (replace(settings, clip_norm=2.0), replace(settings, batch_size=31)):
        with pytest.raises(ValueError, match="expected an objective with clip_norm="):
            require_own_batches(other, trained.objective)
    with pytest.raises(ValueError, match="which the accounting is about, got None and 32"):
        with_accounted(found, settings=settings, weights=trained.weights, steps=1,
                       data=trained.objective.unclipped(), test=None, seed=0)  # fmt: skip
    assert PROBLEM == trained.problem
