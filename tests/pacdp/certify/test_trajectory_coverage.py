"""Chains that learn coin flips by heart: what they certify of themselves may not lie below one half too often."""

import functools

import numpy as np
import torch
from numpy.random import default_rng
from torch.nn import Linear

import bounds
from pacdp.algorithms import SGHMC, build
from pacdp.certify.trajectory import noisy_sums_event
from pacdp.chains import Keys, run_chains
from pacdp.data import Dataset
from pacdp.losses import bounded_cross_entropy
from pacdp.objective import Objective
from tests.marks import parametrize

CHAINS, N, DIM, DELTA = 40, 60, 50, 0.1
SETTINGS = SGHMC(tau=60.0, step_size=0.5, friction=0.3, cooling=0.2, base_std=30.0, batch_size=N, keep_norms=True,
                 every_record=True)  # fmt: skip
STEPS = 20


@functools.cache
def memorised():
    """Training errors and kept norms [chains, gradients] of chains that each have labels of their own."""
    rng = default_rng(5)
    inputs = rng.normal(size=(N, DIM)).astype(np.float32)
    labels = rng.integers(0, 2, (CHAINS, N))
    data = Dataset(name="coins", inputs=inputs, labels=labels[0], classes=2)
    loss = bounded_cross_entropy(classes=2, max_loss=8.0)
    objective = Objective(Linear(DIM, 1), loss, data, batch_size=N, labels=list(labels), keep_norms=True,
                          every_record=True)  # fmt: skip
    sampler, keys = build(SETTINGS, objective), Keys.derive(list(range(CHAINS)))
    (part,) = run_chains(sampler, sampler.init(torch.zeros(CHAINS, objective.dim)), keys, until=STEPS, chunk=STEPS)
    errors = np.array([one.errors for one in objective.risks(part.state.weights)])
    return errors / N, part.squared_norms.numpy(), noisy_sums_event(SETTINGS, STEPS)


def below_one_half(errors, norms, event):
    """How often a certificate of error one half lies below it."""
    values = [
        bounds.maurer(
            risk=float(error), kl_nats=0.0, n=N, failure_prob=DELTA,
            price=bounds.noisy_sum_realised(event=event, squared_norms=kept.tolist(), records=N),
        ).value
        for error, kept in zip(errors, norms, strict=True)
    ]  # fmt: skip
    return float(np.mean(np.array(values) < 0.5))


def test_coin_flips_are_not_certified():
    errors, norms, event = memorised()
    assert float(errors.mean()) < 0.2
    assert below_one_half(errors, norms, event) == 0.0


@parametrize("share", [1.0 / 30.0, 1.0 / 15.0])
def test_planted_norms_of_sampled_records_only_certify_coin_flips(share):
    errors, norms, event = memorised()
    assert below_one_half(errors, share * norms, event) > 1.5 * DELTA


def test_planted_norms_counted_after_momentum_certify_coin_flips():
    """The velocity has a fraction of each gradient, and of the noise that hides it too."""
    errors, norms, event = memorised()
    assert below_one_half(errors, norms * SETTINGS.friction**2, event) > 1.5 * DELTA
