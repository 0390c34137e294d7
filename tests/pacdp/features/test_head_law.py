"""A head whose covariance is learnt: its posterior's draws, divergence, certificate, and what it is worth."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from pacdp import BoundSet, DataFree, GaussianPosterior, MonteCarlo, Prior, certify
from pacdp.features.head import gaussian_errors
from pacdp.features.head_law import HeadLaw, SimplexHead, corners, fit_law
from pacdp.losses import zero_one
from pacdp.stochastic import mean_risks
from pacdp.stochastic.forward import fresh_pass
from pacdp.stochastic.noise import Draws

N, DIM, CLASSES = 600, 12, 3


def _problem(seed: int = 0, n: int = N) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit rows with a large mean in common, so that independent noise of equal size drowns what tells them apart."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn((CLASSES, DIM), generator=torch.Generator().manual_seed(9))
    labels = torch.randint(0, CLASSES, (n,), generator=generator)
    rows = centres[labels] + 0.6 * torch.randn((n, DIM), generator=generator) + 8.0
    return rows / rows.norm(dim=1, keepdim=True), labels


def _fitted(rounds: int = 6) -> HeadLaw:
    rows, labels = _problem()
    return fit_law(rows, labels, classes=CLASSES, n=N, failure_prob=0.05, rounds=rounds)


def _risk(law: HeadLaw, rows: torch.Tensor, labels: torch.Tensor) -> float:
    deviations = (rows @ law.factor).norm(dim=1, keepdim=True)
    return float(gaussian_errors(rows @ law.mean.T / deviations @ corners(CLASSES), labels).mean())


def test_corners_are_a_simplex() -> None:
    for classes in (2, 3, 10):
        made = corners(classes).double()
        wanted = torch.eye(classes, dtype=torch.float64) - 1.0 / classes
        assert torch.allclose(made.T @ made, wanted, atol=1e-6)


def test_the_draws_have_the_factor_s_covariance_by_layers_and_as_whole_networks() -> None:
    law, rows = _fitted(), _problem()[0][:3]
    module, wanted = SimplexHead(DIM, CLASSES).eval(), (rows @ law.factor).norm(dim=1) ** 2
    draws = Draws.of(seed=3, number=0, examples=torch.arange(20_000 * 3))
    many = rows.repeat(20_000, 1)
    for by_layers in (True, False):
        way = fresh_pass(module, law.posterior(), rows, by_layers=by_layers)
        assert way.by_layers == by_layers
        noise = (way.run(many, draws) - many @ law.mean.T @ corners(CLASSES)) @ corners(CLASSES).T
        for example in range(3):
            variance = noise[example::3].double().var(0)  # standard error: 1% of it
            assert variance == pytest.approx(wanted[example].item(), rel=0.05)


def test_sampled_errors_agree_with_the_integral() -> None:
    law, (rows, labels) = _fitted(), _problem()
    (found,) = mean_risks(SimplexHead(DIM, CLASSES).eval(), law.posterior(), inputs=rows, labels=labels,
                          losses=(zero_one(),), passes=40, seed=1, batch_size=200)  # fmt: skip
    exact = _risk(law, rows, labels)
    assert found.mean == pytest.approx(exact, abs=4 * math.sqrt(exact / (40 * N)) + 1e-3)


def test_one_draw_is_sampled_from_the_law_whose_density_is_taken() -> None:
    posterior, prior = _fitted().posterior(), _fitted().prior()
    generator = torch.Generator().manual_seed(2)
    ratios = [posterior.log_ratio(prior, posterior.sample(generator)) for _ in range(400)]
    mean, error = sum(ratios) / 400, torch.tensor(ratios).std().item() / 20
    assert mean == pytest.approx(posterior.kl_nats(prior), abs=5 * error)


def test_the_learnt_covariance_certifies_less_and_the_test_risk_lies_below() -> None:
    rows, labels = _problem()
    learnt = _fitted()
    still = replace(learnt.posterior(), factors={})
    found = {
        name: certify(
            law, BoundSet(inputs=rows, labels=labels), prior=Prior(law=learnt.prior(), source=DataFree()),
            network=SimplexHead(DIM, CLASSES).eval(), monte_carlo=MonteCarlo(passes=10), seed=4,
        ).certificate(of="randomised").value
        for name, law in (("learnt", learnt.posterior()), ("still", still))
    }  # fmt: skip
    assert found["learnt"] < 0.8 * found["still"]
    assert _risk(learnt, *_problem(seed=1, n=5000)) < found["learnt"]


def test_no_rounds_are_the_prior() -> None:
    law = _fitted(rounds=0)
    assert law.posterior().kl_nats(law.prior()) == 0.0


def test_factors_that_do_not_fit_are_refused() -> None:
    law = _fitted(rounds=1)
    for wrong in (law.factor.T.contiguous(), torch.eye(3), -law.factor):
        with pytest.raises(ValueError, match="factor"):
            replace(law.posterior(), factors={"weight.weight": wrong})
    with pytest.raises(ValueError, match="independent weights"):
        law.posterior().kl_nats(law.posterior())
    module = nn.Conv2d(1, 1, 2, bias=False)
    around = GaussianPosterior.around(module, std=0.1)
    with pytest.raises(ValueError, match="factor"):
        replace(around, factors={"weight": torch.eye(4)})
