"""Trainers under audit: sound ones pass, each planted fault is caught."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from mechanism_faults import Faulty
from numpy.random import default_rng
from numpy.testing import assert_allclose
from private_toys import bayes_network, cross_entropy, data, digits, dropout_network, flat, mechanism, mlp, trained
from scipy.stats import binom
from torch.testing import assert_close

import pacdp.step.clip
import pacdp.step.ghost
import pacdp.step.gradients
from bounds import clopper_pearson_lower, clopper_pearson_upper
from bounds.accounting import NonPrivate
from pacdp.audit.canaries import audit_training, canary_run, canary_scores, error_rates, rates_refute
from pacdp.audit.observed import Subject
from pacdp.private import (
    DPBBP,
    DPSGD,
    DPSGLD,
    DPAdam,
    DPMCDropout,
    SeededRandomness,
    planned,
    runs_of,
)
from pacdp.step.clip import Clipping
from pacdp.step.mechanism import MODES
from tests.marks import every_case, parametrize, slow

pytestmark = pytest.mark.usefixtures("known_network")
DELTA = 1e-5
NOISE = 6.0
STEPS = 12


SGD = DPSGD(learning_rate=0.05)


def numbers(mode=None, sample_rate=1.0, noise=NOISE, steps=STEPS):
    return mechanism(noise_multiplier=noise, sample_rate=sample_rate, steps=steps, grad_sample_mode=mode)


def audited(mechanism, algorithm=SGD, *, module=None, randomness=None, seed=0, canaries=1000, **options):
    return audit_training(algorithm, mlp() if module is None else module, data(), mechanism=mechanism,
                          loss=cross_entropy, generator=default_rng(seed), delta=DELTA, canaries=canaries,
                          randomness=randomness or SeededRandomness(seed + 100), **options)  # fmt: skip


@pytest.fixture
def unclipped(monkeypatch):
    """Clipping forgotten, in every way to a clipped sum, and no way compared with the reference before it is used."""

    def ones(norms, clip, dtype=torch.float32):
        finite = torch.isfinite(norms)
        return Clipping(finite.to(norms), finite, 1.0, norms, math.inf)

    for place in (pacdp.step.clip, pacdp.step.gradients, pacdp.step.ghost):
        monkeypatch.setattr(place, "clip_factors", ones)


every_mode = parametrize("mode", MODES)


@every_mode
def test_a_canary_is_a_clipped_dirac_that_no_other_example_touches(mode):
    """Without noise the released slots hold C·s_t for the included canaries that came, exactly 0 elsewhere."""
    included = np.array([True, False, True, True, False])
    signs = np.array([1.0, -1.0, -1.0, 1.0])
    quiet = numbers(mode, noise=0.0, steps=4)
    subject = Subject(algorithm=SGD, mechanism=quiet, module=mlp(), dataset=data(), loss=cross_entropy)
    run, sums = canary_run(subject, included, signs=signs, scale=5.0, randomness=SeededRandomness(0))
    released = sums[:, 0]
    assert_allclose(released, 0.5 * signs[:, None] * included, atol=1e-4)
    assert (released[:, ~included] == 0.0).all()
    # the others' training is that of a run that never heard of canaries
    plain = trained(SGD, mechanism=quiet)
    assert_close(flat(without_prefix(run.weights)), flat(plain.weights), atol=1e-6, rtol=1e-5)


def without_prefix(weights):
    """Of the network inside."""
    return {name: w for name, w in weights.items() if name.startswith("inner.")}


def test_canaries_come_at_the_sample_rate():
    made = audited(numbers(sample_rate=0.3, noise=0.0, steps=40), canaries=400)
    quarter = made.result.attempts[1]
    assert quarter.correct == quarter.guesses == 100
    assert runs_of(made.event) == [(NonPrivate(), 40)]


FAULTS = {
    "noise of half the claim": {"factor": 0.5},
    "no noise": {"factor": 0.0},
    "the same noise at every step": {"stuck": True},
}


@every_case(("fault", "sample_rate", "canaries"), [
    *((fault, 1.0, 1000) for fault in FAULTS), ("no noise", 0.5, 1000),
    *(slow(fault, 0.5, 4000) for fault in list(FAULTS)[::2]),
])  # fmt: skip
def test_faulty_noise_is_caught_each_time(fault, sample_rate, canaries):
    made = audited(numbers(sample_rate=sample_rate), randomness=Faulty(**FAULTS[fault], seed=1), seed=1,
                   canaries=canaries)  # fmt: skip
    assert made.contradicted
    if sample_rate == 1.0:
        assert made.independent_mu_lower > made.result.mu_lower
    if fault == "no noise":
        assert made.result.epsilon_lower > made.claimed_epsilon


@every_mode
def test_forgotten_clipping_is_caught(mode, unclipped):
    made = audited(numbers(mode))
    assert made.contradicted
    assert made.result.epsilon_lower > made.claimed_epsilon


@parametrize(
    ("mode", "sample_rate"),
    [("ghost", 1.0), ("reference", 0.5), slow("ghost", 0.5), slow("reference", 1.0)],
)  # fmt: skip
def test_sound_trainers_are_not_flagged_and_not_vacuous(mode, sample_rate):
    """Over seeds, each at a level of 1e-4."""
    for seed in range(2):
        made = audited(numbers(mode, sample_rate, noise=2.0), seed=seed, failure_prob=1e-4)
        assert not made.contradicted
        assert made.result.epsilon_lower < made.claimed_epsilon
        if sample_rate == 1.0:
            mu = STEPS**0.5 / 2.0
            assert 0.2 * mu < made.result.mu_lower < made.independent_mu_lower < mu
            assert made.independent_mu_lower > 0.55 * mu


OTHERS = {
    "DP-Adam": (DPAdam(learning_rate=0.02, prior="normal"), mlp),
    "DP-SGLD": (DPSGLD(convention="tempered", step_size=0.5, temperature=2.5e-3), mlp),
    "DP-BBP": (DPBBP(learning_rate=0.1, prior_std=0.5, kl_weight=0.1), partial(bayes_network, initial_std=0.05)),
    "DP-MC-Dropout": (DPMCDropout(learning_rate=0.1), partial(dropout_network, rate=0.1)),
}


@parametrize("name", [*list(OTHERS)[:3], slow("DP-MC-Dropout")])
def test_other_algorithms_can_be_audited(name):
    algorithm, network = OTHERS[name]
    of_it = numbers(sample_rate=0.5, steps=10, noise=None if algorithm.FIXES_NOISE else 2.0)
    sound = audited(of_it, algorithm, module=network(), seed=3, canaries=600)
    assert not sound.contradicted
    assert min(sound.independent_mu_lower, sound.result.mu_lower) > 0.15
    assert audited(of_it, algorithm, module=network(), randomness=Faulty(factor=0.0), canaries=600).contradicted


@pytest.mark.slow
@parametrize("factor", [1.0, 0.5, 0.0])
def test_digits_with_the_noise_of_the_claim_half_of_it_and_none(factor):
    numbers = mechanism(clip_norm=1.0, noise_multiplier=0.8, sample_rate=0.1, expected_batch_size=140.0, steps=100)
    algorithm = DPSGD(learning_rate=1.0, momentum=0.5)
    made = audit_training(algorithm, mlp(inputs=64, classes=10), digits()[0], mechanism=numbers, loss=cross_entropy,
                          delta=1e-4, generator=default_rng(0), randomness=Faulty(factor=factor))  # fmt: skip
    assert made.contradicted == (factor < 1.0)
    assert 0.1 * made.claimed_epsilon < made.result.epsilon_lower < made.claimed_epsilon


@parametrize(("factor", "runs"), [(1.0, 30), (0.5, 6), *(slow(f, 60) for f in (1.0, 0.5))])
def test_error_rates_of_independent_canaries(factor, runs):
    """Over repetitions a sound mechanism is refuted no oftener than it says, half the noise always."""
    q, sigma, steps, m, level = 0.1, 1.0, 20, 1000, 0.2
    event = planned(sigma, sample_rate=q, steps=steps)
    refuted = 0
    for seed in range(runs):
        rng = default_rng(seed)
        included = rng.random(m) < 0.5
        released = included * (rng.random((steps, m)) < q) + factor * sigma * rng.standard_normal((steps, m))
        rates = error_rates(canary_scores(released, np.full(steps, sigma), q), included, failure_prob=level)
        refuted += rates_refute(rates, event)
    assert refuted <= binom.ppf(0.999, runs, level) if factor == 1.0 else refuted == runs


def test_error_rates_by_hand():
    """In: 3, 0.5, -3; out: 0.5, -1.5. At threshold 0 two of three and one of two exceed; 20 thresholds, 80 bounds."""
    scores, included = (np.tile([3.0, 0.5, -3.0, 0.5, -1.5], (4, 1)), np.array([True, True, True, False, False]))
    rates = error_rates(scores, included, failure_prob=0.8)
    assert len(rates) == 40
    for row in (1, 2, 3):
        said_in, said_out = rates[10 * row + 4 : 10 * row + 6]
        assert said_in == (clopper_pearson_upper(1, 2, 0.01), clopper_pearson_lower(2, 3, 0.01))
        assert said_out == (clopper_pearson_upper(1, 3, 0.01), clopper_pearson_lower(1, 2, 0.01))


def test_the_likelihood_ratio_is_that_of_the_mixture():
    rng = default_rng(0)
    released, noise, q = rng.standard_normal((3, 4)), np.array([0.7, 1.0, 2.0]), 0.3
    by_hand = np.zeros(4)
    for t, sigma in enumerate(noise):
        out, hit = (np.exp(-0.5 * ((released[t] - mean) / sigma) ** 2) for mean in (0.0, 1.0))
        by_hand += np.log(((1 - q) * out + q * hit) / out)
    linear, ratio, half, _ = canary_scores(released, noise, q)
    assert_allclose(half, canary_scores(released, noise / 2, q)[1], rtol=1e-12)
    assert_allclose(ratio, by_hand, rtol=1e-12)
    assert_allclose(linear, (released / noise[:, None] ** 2).sum(0) / (q * (noise**-2).sum()), rtol=1e-12)
