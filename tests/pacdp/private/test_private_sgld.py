"""DP-SGLD: its conventions, and that it is DP-SGD (Theorem 1 of Zhang, Bu et al. 2021)."""

import math
from dataclasses import replace

import torch
from clipped_networks import slowly
from private_toys import data, doubles, flat, mechanism, mlp, trained
from torch import equal
from torch.testing import assert_close
from torch.utils.data import TensorDataset

from pacdp.private import (
    DPSGD,
    DPSGLD,
    Laplace,
    Normal,
    SeededRandomness,
    average_over_snapshots,
    runs_of,
    steps_of,
)
from tests.marks import at_most, near, parametrize

DOUBLE = doubles()
STEPS = lambda t: 2e-3 * (1.0 + t / 3.0) ** -0.5  # noqa: E731
PRIORS = {"flat": "none", "normal": Normal(std=0.7), "laplace": Laplace(scale=0.4)}


@at_most(2, "prior", PRIORS)
@parametrize(("drift", "noise"), [(0.5, 1.0), (1.0, 2.0), (1.0, 1.0)])
def test_dp_sgld_in_the_parameter_slot_is_dp_sgd(drift, noise, prior):
    """Theorem 1: the Langevin equation itself, DP-SGLD and DP-SGD with the theorem's numbers walk the same path."""
    m = mechanism(noise_multiplier=None, steps=8)
    settings = DPSGLD(convention="parameter-slot", step_size=STEPS, drift=drift, noise=noise, prior=PRIORS[prior],
                      burn_in=0.0, snapshots=8)  # fmt: skip
    chain = trained(settings, mlp().double(), DOUBLE, mechanism=m, seed=5)

    n, size, clip = m.public_size, m.expected_batch_size, m.clip_norm
    twin = DPSGD(prior=PRIORS[prior], learning_rate=lambda t: drift * n * STEPS(t))
    sigma = lambda t: math.sqrt(noise) * size / (drift * n * clip * math.sqrt(STEPS(t)))  # noqa: E731
    other = trained(twin, mlp().double(), DOUBLE, mechanism=replace(m, noise_multiplier=sigma), seed=5)
    assert steps_of(chain.event) == steps_of(other.event) == 8
    for (mine, count), (theirs, other_count) in zip(runs_of(chain.event), runs_of(other.event), strict=True):
        assert (mine.sample_rate, count) == (theirs.sample_rate, other_count) == (m.sample_rate, 1)
        assert math.isclose(mine.event.noise_multiplier, theirs.event.noise_multiplier, rel_tol=1e-13)

    module, random = mlp().double(), SeededRandomness(5)
    parameters = list(module.parameters())
    for t in range(8):
        eta, batch = STEPS(t), random.batch(len(DOUBLE), m.sample_rate)
        w = flat(module)
        drive = (n / size) * slowly(module, *DOUBLE[batch], clip_norm=clip)[0].sum(0)
        drive = drive + (PRIORS[prior].energy_gradient(w) if prior != "flat" else 0.0)
        xi = torch.cat([random.noised(torch.zeros_like(p), std=1.0).reshape(-1) for p in parameters])
        w = w - drift * eta * drive - math.sqrt(noise * eta) * xi  # ξ and -ξ have one law; DP-SGD's sign is minus
        torch.nn.utils.vector_to_parameters(w, parameters)
        assert_close(chain.snapshots[t], w, atol=1e-12, rtol=1e-12)
    assert_close(chain.snapshots[-1], flat(other.weights), atol=1e-12, rtol=1e-12)


def test_the_conventions_are_their_formulas_and_far_apart():
    m = mechanism(clip_norm=2.0, sample_rate=256 / 60000, expected_batch_size=256.0)
    slot, true = (DPSGLD(convention=one, step_size=0.1, decay=1 / 3) for one in ("gradient-slot", "tempered"))
    assert math.isclose(slot.noise_at(0, m), math.sqrt(0.2))
    assert math.isclose(true.noise_at(0, m), 128.0 * math.sqrt(20.0))
    # the noise of an update at step size h is that of Langevin dynamics at temperature h² τ C²/B²
    stated = 0.1 * slot.noise_at(0, m) * m.clip_norm / m.expected_batch_size
    assert 2.0 * 0.1 * (0.1 * m.clip_norm / m.expected_batch_size) ** 2 == near(stated**2)
    assert slot.noise_at(7, m) == near(math.sqrt(0.2) * 8.0 ** (-1 / 6))
    assert true.noise_at(7, m) == near(128.0 * math.sqrt(20.0) * 8.0 ** (1 / 6))
    welling_teh = DPSGLD(convention="parameter-slot", step_size=1e-5, drift=0.5, noise=1.0)
    assert welling_teh.noise_at(0, m) == near(2.0 * 256.0 / (60000.0 * 2.0 * math.sqrt(1e-5)))
    # the posterior at temperature 1/n: h = c n η and κ = 2c make both one
    posterior = DPSGLD(convention="tempered", step_size=0.5 * 60000.0 * 1e-5, temperature=1.0 / 60000.0)
    assert posterior.noise_at(0, m) == near(welling_teh.noise_at(0, m))
    assert posterior.rate_at(0, m) == near(welling_teh.rate_at(0, m))
    # a step size that falls by itself is one that a schedule gives
    scheduled = replace(slot, step_size=lambda t: 0.1 * (1.0 + t) ** (-1 / 3), decay=0.0)
    assert [scheduled.rate_at(t, m) for t in range(9)] == [slot.rate_at(t, m) for t in range(9)]


def test_tempered_langevin_reaches_its_law():
    """ℓ_i(w) = ‖w - x_i‖²/2, full batches: the posterior at τ is Gaussian; its variance under Euler steps is known."""
    x = torch.linspace(-0.5, 1.5, 50, dtype=torch.float64)[:, None].expand(50, 1800)
    dataset = TensorDataset(torch.ones(50, 1, dtype=torch.float64), x)
    m = mechanism(clip_norm=1e3, noise_multiplier=None, sample_rate=1.0, expected_batch_size=50.0, steps=100)
    module = torch.nn.Linear(1, 1800, bias=False, dtype=torch.float64)
    settings = DPSGLD(convention="tempered", step_size=0.2, temperature=0.3, prior="normal", prior_std=0.1,
                      snapshots=10)  # fmt: skip
    run = trained(settings, module, dataset, mechanism=m, seed=1, loss=lambda w, y: 0.5 * (w - y).square().sum(1))
    precision = 1.0 + 1.0 / (50.0 * 0.1**2)  # of the potential: mean loss + r/n
    mean, variance = 0.5 / precision, 0.3 / precision / (1.0 - 0.1 * precision)
    count = run.snapshots.numel()  # five steps apart, correlation 0.4^5
    assert abs(float(run.snapshots.mean()) - mean) < 5.0 * math.sqrt(variance / count)
    assert abs(float(run.snapshots.var()) / variance - 1.0) < 5.0 * math.sqrt(2.0 / count) < 0.06


def test_snapshots_predictions_and_chains():
    m = mechanism(noise_multiplier=None, steps=20)
    settings = DPSGLD(convention="tempered", step_size=0.1, temperature=0.01, burn_in=0.25, snapshots=3)
    one, two = (trained(settings, mechanism=m, seed=seed) for seed in (0, 1))
    assert len(one.snapshots) == 3
    assert equal(one.snapshots[-1], flat(one.weights))
    inputs = data(7).tensors[0]
    together = torch.cat([one.snapshots, two.snapshots])
    averaged = average_over_snapshots(mlp(), together, inputs)
    by_hand = []
    for w in together:
        module = mlp()
        torch.nn.utils.vector_to_parameters(w, module.parameters())
        by_hand.append(module(inputs).softmax(-1).detach())
    assert_close(averaged, torch.stack(by_hand).mean(0))
