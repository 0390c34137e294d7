"""Bounds that are broken on purpose: the harness must catch every one of them."""

from functools import lru_cache, wraps

import numpy as np

from bounds import (
    clopper_pearson_upper,
    disintegrated,
    ece_hoeffding,
    gibbs_risk_upper,
    hoeffding_upper,
    kl_chernoff,
    maurer,
)
from tests.coverage import calibrated, catalogue, compressed, controlled, crowds, noisy, released, sampled, worlds
from tests.coverage.adapters import mce_clopper_pearson, recursive, risk_upper, split_kl
from tests.coverage.harness import Entry


def checkpoints_unpaid(errors, n, failure_prob):
    return min(risk_upper(int(k), n, failure_prob).value for k in errors)


def doubled(bound, name):
    """The bound, told twice as many of these."""

    @wraps(bound)
    def told(**given):
        return bound(**{**given, name: 2 * given[name]})

    return told


def examples_as_draws(mean, examples, failure_prob):
    return gibbs_risk_upper(mean=mean, draws=examples, failure_prob=failure_prob)


def monte_carlo_dropped(mean, kl_nats, n, failure_prob):
    return maurer(risk=mean, kl_nats=kl_nats, n=n, failure_prob=failure_prob)


def divergence_dropped(risk, n, failure_prob):
    return maurer(risk=risk, kl_nats=0.0, n=n, failure_prob=failure_prob)


def estimate_as_bound(log_mean_exp):
    return log_mean_exp


def best_test_set_unpaid(errors, n, failure_prob):
    return clopper_pearson_upper(int(errors.min()), n, failure_prob)


def taken_not_reached(share_1, share_2, kl_nats, n, failure_prob):
    """Shares of the losses equal to a level in place of those at least as large."""
    return split_kl(max(share_1 - share_2, share_2), share_2, kl_nats, n, failure_prob)


def divergence_for_density_ratio(risk, kl_nats, n, failure_prob):
    return disintegrated(risk=risk, log_density_ratio=kl_nats, n=n, failure_prob=failure_prob)


def gaps_as_losses(calibration_error, n, failure_prob):
    """Gaps lie in [-1, 1]; here they are taken for losses in [0, 1]."""
    return hoeffding_upper(calibration_error, n, failure_prob)


def bins_one_by_one(counts, corrects, confidences, true_gaps, failure_prob):
    """Every bin at the whole failure probability."""
    rows = zip(counts.tolist(), corrects.tolist(), confidences.tolist(), true_gaps.tolist(), strict=True)
    return min(_alone(*row, failure_prob) for row in rows)


@lru_cache(maxsize=16_384)
def _alone(count, correct, confidence, true_gap, failure_prob):
    row = (np.array([number]) for number in (count, correct, confidence, true_gap))
    return mce_clopper_pearson(*row, failure_prob)


BROKEN = [
    Entry("n doubled", doubled(maurer, "n"), worlds.PAC_BAYES),
    Entry("Monte Carlo draws doubled", doubled(gibbs_risk_upper, "draws"), worlds.TAILS),
    Entry("examples counted as draws", examples_as_draws, (sampled.shared_weights,)),
    Entry("Monte Carlo error dropped", monte_carlo_dropped, sampled.OVERALL),
    Entry("cost of the private prior dropped", maurer, worlds.PRIVATE),
    Entry("divergence dropped", divergence_dropped, worlds.PAC_BAYES),
    Entry("prior grid not paid", divergence_dropped, worlds.PRIOR_GRID),
    Entry("best of checkpoints without union", checkpoints_unpaid, worlds.CHECKPOINTS),
    Entry("best test set without union", best_test_set_unpaid, worlds.CHECKPOINTS),
    Entry("estimate of ln Z as its bound", estimate_as_bound, sampled.LOG_PARTITION, lower=True),
    Entry("levels counted as taken, not reached", taken_not_reached, catalogue.LEVELS),
    Entry("divergence for the drawn density ratio", divergence_for_density_ratio, catalogue.ONE_DRAW[:3]),
    Entry("excess measured on examples seen before", recursive, (catalogue.lucky_chain(seen=True),)),
    Entry("prior scale not paid", divergence_dropped, catalogue.PRIOR_SCALES),
    Entry("gaps in [-1, 1] taken for losses", gaps_as_losses, calibrated.HELD_OUT),
    Entry("calibration of the chosen as if held out", ece_hoeffding, calibrated.CHOSEN),
    Entry("bins without a union", bins_one_by_one, calibrated.BINS[:1]),
    Entry("cost of Gaussian privacy dropped", kl_chernoff, released.WEIGHTS),
    Entry("order chosen after the realised sum", noisy.order_after_the_sum, (noisy.crossing,)),
    Entry("noise overstated by a tenth", noisy.noise_overstated, noisy.OVERSTATED),
    Entry("norms of sampled records only", noisy.sampled_only, noisy.HALF_SECRET),
    Entry("norms of examples where people are counted", noisy.examples_apart, noisy.APART),
    *crowds.BROKEN,
    *compressed.BROKEN,
    *controlled.BROKEN,
]
