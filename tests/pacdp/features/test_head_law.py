"""A head whose covariance is learnt: its posterior's draws, divergence, certificate, and what it is worth."""

import functools
from dataclasses import replace

import torch

from pacdp import Prior, certify
from pacdp.certify import BoundSet, DataFree, MonteCarlo
from pacdp.features.head import gaussian_errors
from pacdp.features.head_law import SimplexHead, corners, fit_law
from pacdp.stochastic import NotByExample
from pacdp.stochastic.forward import fresh_pass
from pacdp.stochastic.noise import Draws
from tests.marks import near, refusal
from tests.pacdp.draws import randn
from tests.pacdp.toys import seeded

N, DIM, CLASSES = 600, 12, 3


def _problem(seed=0, n=N):
    """Unit rows with a large mean in common, so that independent noise of equal size drowns what tells them apart."""
    generator = seeded(seed)
    centres = randn((CLASSES, DIM), seed=9)
    labels = torch.randint(0, CLASSES, (n,), generator=generator)
    rows = centres[labels] + 0.6 * torch.randn((n, DIM), generator=generator) + 8.0
    return rows / rows.norm(dim=1, keepdim=True), labels


@functools.cache
def _fitted(rounds=6):
    rows, labels = _problem()
    return fit_law(rows, labels, classes=CLASSES, n=N, failure_prob=0.05, rounds=rounds)


def _risk(law, rows, labels):
    deviations = (rows @ law.factor).norm(dim=1, keepdim=True)
    return float(gaussian_errors(rows @ law.mean.T / deviations @ corners(CLASSES), labels).mean())


def test_corners_are_a_simplex():
    made = corners(10).double()
    assert torch.allclose(made.T @ made, torch.eye(10, dtype=torch.float64) - 0.1, atol=1e-6)


def no_layers(*given):
    raise NotByExample("whole networks are wanted")


def test_the_draws_have_the_factor_s_covariance_by_layers_and_as_whole_networks(monkeypatch):
    law, rows = _fitted(), _problem()[0][:3]
    module, wanted = SimplexHead(DIM, CLASSES).eval(), (rows @ law.factor).norm(dim=1) ** 2
    draws = Draws.of(seed=3, number=0, examples=torch.arange(20_000 * 3))
    many = rows.repeat(20_000, 1)
    for by_layers in (True, False):
        if not by_layers:
            monkeypatch.setattr("pacdp.stochastic.forward.by_example", no_layers)
        way = fresh_pass(module, law.posterior(), rows)
        assert way.by_layers == by_layers
        noise = (way.run(many, draws) - many @ law.mean.T @ corners(CLASSES)) @ corners(CLASSES).T
        for example in range(3):
            variance = noise[example::3].double().var(0)  # standard error: 1% of it
            assert variance == near(wanted[example].item(), rel=0.05)


def test_one_draw_is_sampled_from_the_law_whose_density_is_taken():
    posterior, prior = _fitted().posterior(), _fitted().prior()
    generator = seeded(2)
    ratios = [posterior.log_ratio(prior, posterior.sample(generator)) for _ in range(400)]
    mean, error = sum(ratios) / 400, torch.tensor(ratios).std().item() / 20
    assert mean == near(posterior.kl_nats(prior), abs=5 * error)


def test_the_learnt_covariance_certifies_less_and_the_risk_is_the_integral():
    rows, labels = _problem()
    learnt, head = _fitted(), SimplexHead(DIM, CLASSES).eval()
    prior, data = Prior(law=learnt.prior(), source=DataFree()), BoundSet(inputs=rows, labels=labels)
    own, still = (
        certify(law, data, prior=prior, network=head, monte_carlo=MonteCarlo(passes=40), seed=4)
        for law in (learnt.posterior(), replace(learnt.posterior(), factors={}))
    )
    assert own.certificate().value < 0.8 * still.certificate().value
    assert _risk(learnt, *_problem(seed=1, n=5000)) < own.certificate().value
    exact = _risk(learnt, rows, labels)
    assert own.error("randomised", "bound") == near(exact, abs=4 * (exact / (40 * N)) ** 0.5)


def test_no_rounds_are_the_prior_and_factors_that_do_not_fit_are_refused():
    law, prior = _fitted(), _fitted(rounds=0)
    assert prior.posterior().kl_nats(prior.prior()) == 0.0
    for wrong in (law.factor.T.contiguous(), torch.eye(3), -law.factor):
        with refusal("factor"):
            replace(law.posterior(), factors={"weight.weight": wrong})
    with refusal("independent weights"):
        law.posterior().kl_nats(law.posterior())
