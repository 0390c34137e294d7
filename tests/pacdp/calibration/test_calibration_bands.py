"""Bands, bootstrap intervals, reliability curves and temperature scaling."""

import json
import math
from functools import partial

import calibration_tools as tools
import numpy as np
import pytest
import torch
from scipy import optimize, special, stats

from pacdp.calibration import (
    accuracy,
    accuracy_bands,
    bca_interval,
    brier,
    ece,
    fit_temperature,
    nll_nats,
    percentile_interval,
    reliability_curve,
    scaled,
)  # fmt: skip


@pytest.mark.parametrize("failure_prob", [0.3, 0.05, 1e-6])
def test_bands_are_the_exact_binomial_intervals(failure_prob: float) -> None:
    counts, correct = np.array([1, 1, 7, 40, 1000, 0]), np.array([0, 1, 3, 40, 873, 0])
    lower, upper = accuracy_bands(counts, correct, failure_prob=failure_prob)
    for low, high, n, k in zip(lower[:-1], upper[:-1], counts, correct, strict=False):
        theirs = stats.binomtest(int(k), int(n)).proportion_ci(1.0 - failure_prob, method="exact")
        assert low == pytest.approx(theirs.low, rel=1e-9, abs=1e-300)
        assert high == pytest.approx(theirs.high, rel=1e-9)
    assert (lower[-1], upper[-1]) == (0.0, 1.0)


@pytest.mark.parametrize("simultaneous", [False, True])
@pytest.mark.parametrize("true", [0.01, 0.5, 0.93])
def test_bands_miss_no_more_often_than_they_say(true: float, simultaneous: bool) -> None:
    """Summed over all outcomes of a bin; of four bins at once the chance is at most the sum."""
    n, failure_prob = 25, 0.1
    correct = np.arange(n + 1)
    lower, upper = (np.concatenate(ends) for ends in zip(*[
        accuracy_bands(np.full(4, n), np.full(4, k), failure_prob=failure_prob, simultaneous=simultaneous)
        for k in correct], strict=True))  # fmt: skip
    missed = ((lower > true) | (upper < true))[::4]
    chance = float(stats.binom.pmf(correct[missed], n, true).sum())
    assert chance <= failure_prob / (4 if simultaneous else 1)


@pytest.mark.parametrize("metric", [accuracy, brier, ece, partial(ece, bins=4)])
@pytest.mark.parametrize("method", ["percentile", "BCa"])
def test_scipy_s_bootstrap_finds_the_same_interval(method: str, metric) -> None:
    case = tools.continuous(11, n=60, classes=3)
    own = percentile_interval if method == "percentile" else bca_interval
    found = own(metric, *case, generator=np.random.default_rng(5), draws=200, failure_prob=0.1)
    theirs = stats.bootstrap(
        (np.arange(60),), lambda index: metric(case.probabilities[index], case.labels[index]), n_resamples=200,
        confidence_level=0.9, method=method, vectorized=False, rng=np.random.default_rng(5),
    ).confidence_interval  # fmt: skip
    assert found.estimate == metric(*case)
    assert (found.lower, found.upper) == pytest.approx((theirs.low, theirs.high), rel=1e-9)


def test_intervals_are_a_function_of_the_generator() -> None:
    case = tools.continuous(12, n=50)
    one, same, other = (percentile_interval(ece, *case, generator=np.random.default_rng(seed), draws=50)
                        for seed in (1, 1, 2))  # fmt: skip
    assert one == same != other
    assert one.lower <= one.upper


def test_intervals_that_do_not_exist_are_refused() -> None:
    generator = np.random.default_rng(0)
    sure = np.tile([0.9, 0.1], (20, 1)), np.zeros(20, dtype=np.int64)
    with pytest.raises(ValueError, match="take percentile_interval"):
        bca_interval(accuracy, *sure, generator=generator, draws=20)
    assert percentile_interval(accuracy, *sure, generator=generator, draws=20) == (1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="n >= 2"):
        bca_interval(accuracy, sure[0][:1], sure[1][:1], generator=generator)
    for options in ({"draws": 1}, {"failure_prob": 0.0}, {"failure_prob": 1.0}):
        with pytest.raises(ValueError, match="draws >= 2 and 0 < failure_prob < 1"):
            percentile_interval(accuracy, *sure, generator=generator, **options)
    with pytest.raises(ValueError, match="0 < failure_prob"):
        accuracy_bands(np.array([2]), np.array([1]), failure_prob=0.0)
    with pytest.raises(ValueError, match="correct <= counts"):
        accuracy_bands(np.array([2]), np.array([3]))


@pytest.mark.parametrize("bins", [1, 10, 15])
@pytest.mark.parametrize("case", [tools.continuous(13), tools.ties(13, pieces=10)])
def test_the_curve_is_made_of_the_bins(case: tools.Case, bins: int) -> None:
    curve = reliability_curve(*case, bins=bins)
    filled = curve.counts > 0
    slow = sorted(tools.width_bins(tools.pairs(case), bins), key=lambda part: part[1])
    shown = zip(curve.counts[filled], curve.confidence[filled], curve.accuracy[filled], strict=True)
    assert np.allclose(list(shown), slow, rtol=1e-12)
    assert np.isnan(curve.accuracy[~filled]).all()
    assert curve.edges.tolist() == np.linspace(0, 1, bins + 1).tolist()
    assert (curve.lower[filled] <= curve.accuracy[filled]).all()
    assert (curve.accuracy[filled] <= curve.upper[filled]).all()
    assert curve.ece == pytest.approx(ece(*case, bins=bins), rel=1e-12)
    columns = json.loads(json.dumps(curve.columns(), allow_nan=False))
    assert [len(column) for column in columns.values()] == [bins] * 7
    assert columns["count"] == curve.counts.tolist()
    wide = reliability_curve(*case, bins=bins, simultaneous=True)
    assert (wide.lower <= curve.lower).all()
    assert (wide.upper >= curve.upper).all()


def overconfident(
    seed: int = 0, *, n: int = 2000, classes: int = 4, factor: float = 3.0
) -> tuple[np.ndarray, np.ndarray]:
    """Logits that are ``factor`` times those that the labels were drawn from."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(n, classes))
    labels = (logits + generator.gumbel(size=(n, classes))).argmax(axis=1)
    return factor * logits, labels


def test_the_temperature_undoes_a_factor() -> None:
    logits, labels = overconfident()
    fitted = fit_temperature(logits, labels, private_data=False)
    assert fitted.temperature == pytest.approx(3.0, rel=0.1)
    assert fit_temperature(5.0 * logits, labels, private_data=False).temperature == pytest.approx(
        5.0 * fitted.temperature, rel=1e-10
    )
    before, after = scaled(logits, temperature=1.0), scaled(logits, temperature=fitted.temperature)
    assert fitted.nll_before_nats == pytest.approx(nll_nats(before, labels), rel=1e-12)
    assert fitted.nll_nats == pytest.approx(nll_nats(after, labels), rel=1e-12)
    assert (before.argmax(axis=1) == after.argmax(axis=1)).all()
    assert ece(after, labels) < 0.3 * ece(before, labels)
    assert (fitted.n, fitted.private_data) == (2000, False)
    assert fit_temperature(logits, labels, private_data=True).private_data


@pytest.mark.parametrize("seed", range(5))
def test_scipy_and_torch_find_the_same_temperature(seed: int) -> None:
    logits, labels = overconfident(seed, n=60, factor=0.2 + seed)
    found = fit_temperature(logits, labels, private_data=False).temperature
    searched = optimize.minimize_scalar(
        lambda t: nll_nats(special.softmax(logits / math.exp(t), axis=1), labels), bounds=(-4, 4), method="bounded"
    )
    assert found == pytest.approx(math.exp(searched.x), rel=1e-3)
    inverse = torch.tensor(1.0 / found, dtype=torch.float64, requires_grad=True)
    torch.nn.functional.cross_entropy(inverse * torch.from_numpy(logits), torch.from_numpy(labels)).backward()
    assert inverse.grad is not None
    assert abs(float(inverse.grad)) < 1e-10


@pytest.mark.parametrize(
    ("logits", "labels"),
    [
        (np.eye(3), np.arange(3)),  # separable: T -> 0
        (np.eye(3), np.array([1, 2, 0])),  # always wrong: T -> infinity
        (np.zeros((3, 3)), np.arange(3)),  # no information
    ],
)
def test_no_best_temperature_is_one_sentence(logits: np.ndarray, labels: np.ndarray) -> None:
    with pytest.raises(ValueError, match="temperature of least NLL in"):
        fit_temperature(logits, labels, private_data=False)


def test_bad_logits_and_labels_are_refused() -> None:
    logits, labels = overconfident(n=5)
    for bad in (logits[:0], logits[:, :1], np.where(logits > 0, np.inf, logits), np.where(logits > 0, np.nan, logits)):
        with pytest.raises(ValueError, match="finite logits"):
            fit_temperature(bad, labels[: len(bad)], private_data=False)
    for bad_labels in (labels[:3], labels + 4, labels - 4):
        with pytest.raises(ValueError, match=r"5 labels in 0 \.\. 3"):
            fit_temperature(logits, bad_labels, private_data=False)
    for temperature in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="finite temperature > 0"):
            scaled(logits, temperature=temperature)
