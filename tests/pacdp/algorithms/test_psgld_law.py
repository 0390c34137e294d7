"""pSGLD with a moving metric: the correction makes it unbiased, and costs a gradient until the metric is frozen."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
import torch
from affine import KEPT, Law, smallest, states
from exact_laws import FROZEN, MATRIX, NOISY, START, TARGET, Counting, psgld_law, weights_of
from scipy.integrate import quad
from torch import equal
from toys import keys_of

from pacdp.algorithms import PSGLD, build
from pacdp.chains import Keys, normal_like
from tests.marks import parametrize
from tests.pacdp.toys import Sloped


def test_a_given_metric_with_noisy_gradients_has_its_exact_law():
    squares = np.array([0.25, 4.0])
    metric = np.diag(1 / (FROZEN.stabiliser + np.sqrt(squares)))
    start, copies = (torch.tensor(values).repeat(2, 20_000) for values in (START, squares))
    state, law, sampler = PSGLD.State(start, copies, 5), Law.at(START), build(FROZEN, NOISY)
    for step in range(6, 12):
        state, _ = sampler.step(state, keys_of(1, 2))
        law = psgld_law(law, FROZEN, NOISY, step, metric=metric)
        assert smallest(weights_of(state).flatten(0, 1), law) > KEPT
    assert equal(state.squares, copies)


@parametrize(("correction", "freeze_after", "calls"), [(True, None, 10), (True, 2, 7), (False, None, 5), (False, 2, 5)])
def test_the_correction_costs_a_gradient_until_the_metric_is_frozen(correction, freeze_after, calls):
    potential = Counting(MATRIX, TARGET)
    settings = dataclasses.replace(FROZEN, correction=correction, freeze_after=freeze_after)
    seen = [state.squares for _, state in states(build(settings, potential), keys_of(0), START, steps=5)]
    assert potential.calls == calls
    moved = [not equal(a, b) for a, b in pairwise(seen)]
    assert moved == [freeze_after is None or step < freeze_after for step in range(1, 5)]


DOUBLE = Sloped(lambda w: w**3 + w)
"""R̂(w) = w⁴/4 + w²/2 a coordinate, exactly: its Gibbs distribution is not Gaussian."""


def gibbs_variance():
    def moment(power):
        return quad(lambda w: w**power * np.exp(-(w**4) / 4 - w**2 / 2), -10, 10, epsabs=0)[0]

    return moment(2) / moment(0)


def variance(settings, *, time, coordinates=400):
    """Of the chain's weights at the end of a run from the Gibbs distribution's scale, with its standard error."""
    sampler, keys = build(settings, DOUBLE), Keys.derive(range(100))
    zeros = torch.zeros(keys.count, coordinates, dtype=torch.float64)
    start = normal_like(zeros, keys=keys, stream=99, tick=0) * gibbs_variance() ** 0.5
    state, squares = sampler.init(start), []
    steps = round(time / settings.step_size)
    for step in range(steps):
        state, _ = sampler.step(state, keys)
        if step >= steps // 2 and step % max(1, round(1 / settings.step_size)) == 0:
            squares.append(state.weights.square().mean(dim=1))
    means = torch.stack(squares).mean(dim=0)
    return float(means.mean()), float(means.std() / len(means) ** 0.5)


CLEAN = PSGLD(tau=1.0, step_size=0.02, smoothing=0.0, stabiliser=0.5, base_std=1e6)


def test_the_correction_makes_the_stationary_variance_right():
    """Without memory the metric is a function of the weights. What is left is of the order of the step size."""
    exact = gibbs_variance()
    (fine, error), (coarse, _) = (variance(dataclasses.replace(CLEAN, step_size=h), time=8.0) for h in (0.02, 0.04))
    assert error < 0.004 * exact
    assert abs(2 * fine - coarse - exact) < 0.03 * exact
    assert abs(fine - exact) < 0.65 * abs(coarse - exact)
    biased, error = variance(dataclasses.replace(CLEAN, correction=False, step_size=0.08), time=8.0)
    assert abs(biased / exact - 1) > 0.5
    assert abs(biased - exact) > 100 * error


@pytest.mark.slow
@parametrize("smoothing", [0.5, 0.9])
def test_the_correction_is_right_with_memory_too(smoothing):
    """The mean of squares follows the weights as h → 0, so that the whole of ∂G/∂w counts."""
    settings = dataclasses.replace(CLEAN, smoothing=smoothing, step_size=0.0025)
    found, error = variance(settings, time=6.0, coordinates=100)
    assert abs(found - gibbs_variance()) < 0.2 * gibbs_variance() + 3 * error
