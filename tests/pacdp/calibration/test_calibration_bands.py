"""Bands, reliability curves and temperature scaling."""

import json

import numpy as np
import torch
from calibration_tools import continuous, pairs, ties, width_bins
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from scipy import stats
from torch.nn.functional import cross_entropy

from pacdp.calibration import (
    accuracy_bands,
    ece,
    fit_temperature,
    nll_nats,
    reliability_curve,
    scaled,
)  # fmt: skip
from tests.marks import near, parametrize


@parametrize("failure_prob", [0.1, 1e-6])
def test_bands_are_the_exact_binomial_intervals(failure_prob):
    counts, correct = np.array([1, 1, 7, 40, 1000, 0]), np.array([0, 1, 3, 40, 873, 0])
    ends = zip(*accuracy_bands(counts, correct, failure_prob=failure_prob), strict=True)
    wider = zip(*accuracy_bands(counts, correct, failure_prob=6 * failure_prob, simultaneous=True), strict=True)
    for end, wide, n, k in zip(ends, wider, counts, correct, strict=True):
        theirs = stats.binomtest(int(k), int(n)).proportion_ci(1.0 - failure_prob, method="exact") if n else (0.0, 1.0)
        assert end == near(tuple(theirs), rel=1e-9, abs=1e-300)
        assert wide == near(end), "six bins share the failure probability"


@parametrize("bins", [1, 10])
def test_the_curve_is_made_of_the_bins(bins):
    for case in (continuous(13), ties(13, pieces=10)):
        curve, wide = (reliability_curve(*case, bins=bins, simultaneous=both) for both in (False, True))
        filled = curve.counts > 0
        slow = sorted(width_bins(pairs(case), bins), key=lambda part: part[1])
        shown = zip(curve.counts[filled], curve.confidence[filled], curve.accuracy[filled], strict=True)
        assert np.allclose(list(shown), slow, rtol=1e-12)
        assert np.isnan(curve.accuracy[~filled]).all()
        assert curve.ece == near(ece(*case, bins=bins), rel=1e-12)
        lower, upper = accuracy_bands(curve.counts, np.nan_to_num(curve.counts * curve.accuracy).round().astype(int))
        assert_array_equal((curve.lower, curve.upper), (lower, upper))
        assert ((wide.lower <= lower) & (wide.upper >= upper)).all()
        columns = json.loads(json.dumps(curve.columns(), allow_nan=False))
        assert columns["count"] == curve.counts.tolist()


def overconfident(seed=0, *, n=2000, factor=3.0):
    """Logits that are ``factor`` times those that the labels were drawn from."""
    generator = default_rng(seed)
    logits = generator.normal(size=(n, 4))
    return factor * logits, (logits + generator.gumbel(size=(n, 4))).argmax(axis=1)


def test_the_temperature_undoes_a_factor():
    logits, labels = overconfident()
    fitted, five = (fit_temperature(k * logits, labels, private_data=False) for k in (1.0, 5.0))
    assert fitted.temperature == near(3.0, rel=0.1)
    assert five.temperature == near(5.0 * fitted.temperature, rel=1e-10)
    before, after = scaled(logits, temperature=1.0), scaled(logits, temperature=fitted.temperature)
    assert fitted.nll_before_nats == near(nll_nats(before, labels), rel=1e-12)
    assert fitted.nll_nats == near(nll_nats(after, labels), rel=1e-12)
    assert (before.argmax(axis=1) == after.argmax(axis=1)).all()
    assert ece(after, labels) < 0.3 * ece(before, labels)
    assert fit_temperature(logits, labels, private_data=True).private_data


@parametrize("seed", range(3))
def test_the_slope_of_torch_is_zero_at_the_temperature(seed):
    logits, labels = overconfident(seed, n=60, factor=0.2 + seed)
    found = fit_temperature(logits, labels, private_data=False).temperature
    inverse = torch.tensor(1.0 / found, dtype=torch.float64, requires_grad=True)
    cross_entropy(inverse * torch.tensor(logits), torch.tensor(labels)).backward()
    assert abs(inverse.grad) < 1e-10
