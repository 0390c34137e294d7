"""Annealed weights by enumeration of all paths; thermodynamic integration over finite classes."""

from itertools import product
from math import inf

import numpy as np
import pytest
from cells import within_rounding
from gibbs_by_mpmath import posterior
from numpy.random import default_rng

from bounds import annealed_log_weights, thermodynamic_integration

RNG = default_rng(11)
PRIOR = np.array([0.5, 0.3, 0.2])
LOSS = np.array([3.0, 0.2, 1.0])


def enumerate_paths(forward, backward):
    """Every path of a finite chain, its probability and its weight."""
    steps, states = len(forward), len(PRIOR)
    paths = np.array(list(product(range(states), repeat=steps + 1)))
    ahead = np.array([forward[t][paths[:, t], paths[:, t + 1]] for t in range(steps)])
    back = np.array([backward[t][paths[:, t + 1], paths[:, t]] for t in range(steps)])
    probability = PRIOR[paths[:, 0]] * ahead.prod(axis=0)
    drawn = probability > 0
    with np.errstate(divide="ignore"):
        weights = annealed_log_weights(
            start_log_prior=np.log(PRIOR[paths[drawn, 0]]),
            forward_log_densities=np.log(ahead[:, drawn]),
            backward_log_densities=np.log(back[:, drawn]),
            end_log_prior=np.log(PRIOR[paths[drawn, -1]]),
            end_loss_nats=LOSS[paths[drawn, -1]],
        )
    return float(probability[drawn] @ np.exp(weights))


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_annealed_weights_formal_guarantee_any_kernels_have_mean_z(steps):
    partition = float(PRIOR @ np.exp(-LOSS))
    forward, backward = RNG.dirichlet(np.ones(3), (2, steps, 3))
    assert enumerate_paths(forward, backward) == within_rounding(partition)
    assert enumerate_paths(forward, backward) <= partition  # rounded down
    forward[0] = [[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]]  # a forward kernel that misses transitions: E W ≤ Z
    assert enumerate_paths(forward, backward) <= partition


def test_annealed_edges():
    one = {
        "start_log_prior": [0.0],
        "forward_log_densities": [[0.0]],
        "backward_log_densities": [[-1.0]],
        "end_log_prior": [0.0],
        "end_loss_nats": [2.0],
    }
    assert annealed_log_weights(**one) == pytest.approx([-3.0], rel=1e-14)
    for zero in ({"backward_log_densities": [[-inf]]}, {"end_loss_nats": [inf]}):
        assert annealed_log_weights(**(one | zero))[0] == -inf


def test_the_left_sum_errs_upward_in_kl_and_converges():
    losses, tau = [0.1, 0.4, 0.9], 8.0
    truth, _, kl, _ = posterior(PRIOR, losses, tau)
    previous = inf
    for points in (3, 9, 33, 513):
        grid = np.linspace(0, tau, points)
        means = [float(posterior(PRIOR, losses, t)[1]) for t in grid]
        made = thermodynamic_integration(taus=grid, mean_losses=means)
        assert [(one.name, one.standing) for one in made.hypotheses] == [("averages exact", "unproved")]
        assert made.log_partition_nats <= truth + 1e-12
        assert kl - 1e-12 <= made.kl.kl_nats < previous
        assert made.largest_rise == 0.0
        assert not made.kl.clipped
        previous = made.kl.kl_nats
    assert previous == pytest.approx(float(kl), rel=0.02)


def test_contradictory_means_are_told():
    made = thermodynamic_integration(taus=[0, 1, 2], mean_losses=[0.3, 0.2, 0.9])
    assert made.largest_rise == pytest.approx(0.7)
    assert made.kl.clipped
    assert made.kl.kl_nats == 0.0
