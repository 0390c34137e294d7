"""Worlds of calibration: predictors of known gaps, held out, chosen by the sample, or released privately."""

import numpy as np

from bounds import GaussianDP, PureDP, exponential_mechanism_epsilon
from tests.coverage.harness import Cases
from tests.coverage.worlds import in_parts, luckiest


def _kinds(confidence):
    """The gaps of the four kinds of examples: low or high confidence, correct or not."""
    low, high = confidence
    return np.array([1.0 - low, -low, 1.0 - high, -high])


def _errors(share, gaps, bins=2):
    """ECE of laws or samples ``share``, over the last axis; in one bin for both confidences, or two."""
    signed = share * gaps
    return np.abs(signed.reshape(*signed.shape[:-1], bins, 4 // bins).sum(-1)).sum(-1)


def _columns(counts, gaps, n, bins):
    """What bounds are told, from counts of the four kinds; rounded to the safe side."""
    error, squares = _errors(counts / n, gaps, bins), (counts / n * gaps**2).sum(-1)
    return {
        "calibration_error": np.minimum(1.0, error * (1 + 1e-12)),
        "mean_squared_gap": np.minimum(1.0, squares * (1 + 1e-12)),
        "n": n,
    }


def held_out(n, law, confidence, name, bins=2):
    """One predictor of two confidences."""
    law, gaps = np.asarray(law), _kinds(confidence)

    def world(rng, datasets):
        columns = _columns(rng.multinomial(n, law, datasets), gaps, n, bins)
        return Cases(columns, _errors(law, gaps, bins))

    world.__doc__ = f"n = {n}, {name}, ECE {_errors(law, gaps, bins):.3f}"
    return world


def chosen(n, hypotheses, law, confidence, release="", strength=0.0, bins=2):
    """Predictors of one law with independent labels: the one of least plug-in ECE, or one that is released privately.

    Replacing an example moves n times a plug-in ECE by at most 2, leaving one out by at most 1.
    """
    law, gaps = np.asarray(law), _kinds(confidence)

    def world(rng, datasets):
        (taken,) = in_parts(_some, rng, datasets)
        columns = _columns(taken, gaps, n, bins) | {"kl_nats": 0.0 if release else float(np.log(hypotheses))}
        if release == "exponential":
            epsilon = exponential_mechanism_epsilon(beta=1.0, tau=strength, loss_range=2.0, n=n)
            privacy = PureDP(epsilon=epsilon, adjacency="replace-one", status="exact mechanism")
            columns |= {"epsilon": epsilon, "privacy": privacy}
        elif release == "Gaussian":
            columns |= {"privacy": GaussianDP(mu=strength, adjacency="add-remove", status="exact mechanism")}
        return Cases(columns, _errors(law, gaps, bins))

    def _some(rng, many):
        counts = rng.multinomial(n, law, (many, hypotheses))
        error = _errors(counts / n, gaps, bins)
        if release == "exponential":
            error = strength * error + rng.gumbel(size=error.shape)
        elif release == "Gaussian":
            error = n * error + np.sqrt(hypotheses) / strength * rng.normal(size=error.shape)
        return [counts[np.arange(many), error.argmin(axis=1)]]

    how = f"released by the {release} mechanism, {strength:g}" if release else "the best calibrated"
    world.__doc__ = f"n = {n}, {hypotheses} predictors of ECE {_errors(law, gaps, bins):.3f}, {how}"
    return world


def bins_of(n, accuracies, confidences, name):
    """Examples over bins at random; for every data set the counts, corrects and mean confidences of all bins."""
    accuracies, confidences = np.asarray(accuracies), np.asarray(confidences)
    size = accuracies.size

    def world(rng, datasets):
        counts = rng.multinomial(n, np.full(size, 1 / size), datasets)
        corrects = rng.binomial(counts, accuracies)
        return Cases(
            {
                "counts": counts,
                "corrects": corrects,
                "confidences": np.tile(confidences, (datasets, 1)),
                "true_gaps": np.tile(np.abs(accuracies - confidences), (datasets, 1)),
            }
        )

    world.__doc__ = f"n = {n}, {size} bins, {name}, the largest excess of a true gap over its bound"
    return world


def brier(n, hypotheses, sure, rate):
    """Two classes, one confidence: Brier losses 2(1-p)² and 2p²; the luckiest predictor."""
    right, wrong = 2 * (1 - sure) ** 2, 2 * sure**2

    def world(rng, datasets):
        errors = luckiest(rng, datasets, hypotheses, n, rate)
        mean = np.minimum(2.0, (right + (wrong - right) * errors / n) * (1 + 1e-12))
        return Cases({"brier": mean, "kl_nats": float(np.log(hypotheses)), "n": n}, right + (wrong - right) * rate)

    world.__doc__ = f"n = {n}, confidence {sure:g}, the luckiest of {hypotheses} predictors, rate {rate:g}"
    return world


SURE = (0.0, 1.0)
HELD_OUT = (
    held_out(100, (0.645, 0.0, 0.0, 0.355), SURE, "gaps 1 and -1 in one bin", bins=1),
    held_out(100, (0.9, 0.1, 0.0, 0.0), (0.2, 0.9), "one bin, underconfident"),
    held_out(400, (0.1, 0.4, 0.45, 0.05), (0.2, 0.9), "calibrated"),
    held_out(200, (0.0, 0.0, 0.7, 0.3), (0.2, 1.0), "one bin, always sure"),
)
CHOSEN = (
    chosen(60, 100, (0.2, 0.3, 0.2, 0.3), SURE),
    chosen(60, 1000, (0.0, 0.0, 0.6, 0.4), SURE),
    chosen(100, 1000, (0.75, 0.0, 0.0, 0.25), SURE, bins=1),
)
EXPONENTIAL = (
    chosen(100, 100, (0.0, 0.0, 0.7, 0.3), SURE, "exponential", 5.0),
    chosen(60, 2, (0.2, 0.3, 0.2, 0.3), SURE, "exponential", 1.0),
)
GAUSSIAN = (
    chosen(100, 2, (0.0, 0.0, 0.7, 0.3), SURE, "Gaussian", 0.05),
    chosen(100, 50, (0.2, 0.3, 0.2, 0.3), SURE, "Gaussian", 0.1),
)
BINS = (
    bins_of(400, np.full(10, 0.5), np.linspace(0.05, 0.95, 10), "half of each correct"),
    bins_of(180, np.full(6, 0.97), np.full(6, 0.5), "nearly all correct"),
    bins_of(150, np.linspace(0.1, 0.9, 10), np.linspace(0.05, 0.95, 10), "few examples"),
)
BRIER = (brier(60, 100, 0.9, 0.2), brier(60, 1, 1.0, 0.05))
