"""Estimates for Gibbs posteriors."""

import math

import numpy as np
import pytest
from scipy.special import logsumexp

from bounds import (
    StreamingLogMeanExp,
    effective_sample_size,
    gibbs_kl,
    log_partition_lower,
    weighted_average_size,
)


def test_streaming_log_mean_exp_equals_the_batch_at_any_scale():
    rng = np.random.default_rng(0)
    for offset in (-2e5, 0.0, 1e6):
        values = offset + 30 * rng.normal(size=3001)
        stream = StreamingLogMeanExp()
        for part in np.split(values, [1, 2, 700]):
            stream.push(part)
        stream.push(float(offset))
        everything = np.append(values, offset)
        assert stream.count == 3002
        assert stream.value == pytest.approx(logsumexp(everything) - math.log(3002), rel=1e-13)


def test_streaming_edges():
    stream = StreamingLogMeanExp()
    with pytest.raises(ValueError, match=r"^value needs"):
        _ = stream.value
    stream.push([])
    stream.push(-math.inf)
    assert stream.value == -math.inf
    stream.push(2.0)
    assert stream.value == pytest.approx(2.0 - math.log(2))
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match=r"^values must"):
            stream.push([0.0, bad])
    assert stream.count == 2


def test_gibbs_kl_matches_a_finite_posterior_and_never_clips_silently():
    loss, prior = np.array([0.3, 2.0, 5.0]), np.array([0.2, 0.5, 0.3])
    partition = float(prior @ np.exp(-loss))
    posterior = prior * np.exp(-loss) / partition
    truth = float(posterior @ np.log(posterior / prior))
    kl = gibbs_kl(mean_loss_nats=float(posterior @ loss), log_partition_nats=math.log(partition))
    assert kl.kl_nats == kl.raw_nats == pytest.approx(truth, rel=1e-13)
    assert not kl.clipped
    wrong = gibbs_kl(mean_loss_nats=5.0, log_partition_nats=-3.0)
    assert (wrong.raw_nats, wrong.kl_nats, wrong.clipped) == (-2.0, 0.0, True)
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="mean_loss_nats"):
            gibbs_kl(mean_loss_nats=bad, log_partition_nats=0.0)


def test_log_partition_lower_formal_guarantee():
    """Heavy-tailed unbiased estimates: the bound fails rarely, and Markov is nearly attained by one of them."""
    rng = np.random.default_rng(4)
    for spread in (0.1, 1.0, 4.0):
        logs = spread * rng.normal(size=20_000) - spread**2 / 2  # E exp = 1, so ln Z = 0
        assert np.mean([log_partition_lower(float(x), 0.1) > 0 for x in logs]) <= 0.1
    assert log_partition_lower(math.log(10) - 1e-12, 0.1) < 0  # Ẑ = 1/failure_prob with that very probability
    assert log_partition_lower(-5.0, 0.1) == pytest.approx(-5 - math.log(10), rel=1e-13)
    assert log_partition_lower(-math.inf, 0.1) == -math.inf
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match=r"^log_mean_exp must"):
            log_partition_lower(bad, 0.1)


def test_weighted_average_size():
    assert weighted_average_size(0.005) == pytest.approx(399)
    assert weighted_average_size(0.75) == pytest.approx(5 / 3)
    weights = 0.2 * 0.8 ** np.arange(400)
    assert weighted_average_size(0.2) == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    for bad in (0.0, -0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match=r"^alpha must"):
            weighted_average_size(bad)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.95])
def test_effective_sample_size_of_an_autoregression(phi):
    rng = np.random.default_rng(8)
    n = 40_000
    noise = rng.normal(size=n)
    chain = np.empty(n)
    chain[0] = noise[0] / math.sqrt(1 - phi**2)
    for t in range(1, n):
        chain[t] = phi * chain[t - 1] + noise[t]
    assert effective_sample_size(chain) == pytest.approx(n * (1 - phi) / (1 + phi), rel=0.15)


def test_effective_sample_size_edges():
    assert effective_sample_size(np.full(100, 0.3)) == 1.0
    assert effective_sample_size([0, 1] * 50) == 100  # antithetic draws are not counted double
    assert 1 <= effective_sample_size(np.arange(1001)) < 20
    for bad in ([1.0, 2.0], np.zeros((4, 4)), [0.0, 1.0, math.nan, 2.0]):
        with pytest.raises(ValueError, match=r"^draws must"):
            effective_sample_size(bad)
