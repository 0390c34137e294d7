"""Calibration error and Brier risk: check values, exact coverage, what the private forms pay, convexity."""

import inspect
import itertools
import math
from dataclasses import replace
from functools import partial

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import bounds
from bounds import (
    ApproxDP,
    GaussianDP,
    PureDP,
    brier_risk,
    dp_ece_pac_bayes,
    ece_hoeffding,
    ece_pac_bayes,
    ece_second_moment,
    maurer,
    private_ece_pac_bayes,
    transfer_cost,
    transfer_nats,
)

SAMPLE = {"calibration_error": 0.01, "mean_squared_gap": 0.015, "n": 10_000, "failure_prob": 0.05}
KNOWN = {"adjacency": "replace-one", "status": "accounted"}


def test_check_values_and_their_formulas():
    second = ece_second_moment(**SAMPLE)
    assert second.value == pytest.approx(0.0146674223318, rel=1e-11)
    assert second.value == pytest.approx(bounds.second_moment_upper(0.01, 0.015, 10_000, 0.05), rel=1e-14)
    hoeffding = ece_hoeffding(calibration_error=0.01, n=10_000, failure_prob=0.05)
    truth = mp.mpf(0.01) + mp.sqrt(2 * -mp.log(mp.mpf(0.05)) / 10_000)
    assert truth <= hoeffding.value <= truth * (1 + 1e-14)
    assert hoeffding.value == pytest.approx(0.0344775, abs=1e-7)


def test_no_divergence_is_held_out_data():
    assert ece_pac_bayes(**SAMPLE, kl_nats=0.0).value == pytest.approx(ece_second_moment(**SAMPLE).value, rel=1e-14)
    assert ece_pac_bayes(**SAMPLE, kl_nats=0.0).value >= ece_second_moment(**SAMPLE).value * (1 - 1e-14)


@pytest.mark.parametrize("kl_nats", [0.0, 30.0, 2000.0])
@pytest.mark.parametrize("mean_squared_gap", [0.0001, 0.02, 1.0])
def test_value_at_fifty_digits(kl_nats, mean_squared_gap):
    told = {**SAMPLE, "mean_squared_gap": mean_squared_gap, "kl_nats": kl_nats}
    for made, nats in (
        (ece_pac_bayes(**told), -mp.log(mp.mpf(0.05))),
        (
            dp_ece_pac_bayes(**told, epsilon=0.01),
            (mp.sqrt(-mp.log(mp.mpf(0.05))) + mp.mpf(0.01) * mp.sqrt(1250)) ** 2,
        ),
    ):
        cost = mp.mpf(kl_nats) + nats + mp.log(20)
        etas = [mp.mpf(0.5 * 0.8**k) for k in range(20)]
        slack = min((-e - mp.log(1 - e)) / e * mp.mpf(mean_squared_gap) + cost / (e * 10_000) for e in etas)
        truth = min(mp.mpf(1), mp.mpf(0.01) + slack)
        assert truth <= made.value <= truth * (1 + 1e-13)


def test_private_forms_pay_the_transfer_once():
    """ln 20 for the grid is added to the transfer; it is not put through it as a smaller failure probability."""
    told = {**SAMPLE, "kl_nats": 20.0}
    pure = PureDP(epsilon=0.02, **KNOWN)
    as_pure, as_dp = private_ece_pac_bayes(**told, privacy=pure), dp_ece_pac_bayes(**told, epsilon=0.02)
    assert as_pure.value == as_dp.value
    assert as_dp.nats("transfer") == transfer_nats(epsilon=0.02, n=10_000, failure_prob=0.05)
    assert as_dp.nats("grid") == pytest.approx(math.log(20))
    unpaid = ece_pac_bayes(**told).value
    assert dp_ece_pac_bayes(**told, epsilon=0.0).value == pytest.approx(unpaid, rel=1e-14)
    gaussian = GaussianDP(mu=0.02, **KNOWN)
    made = private_ece_pac_bayes(**told, privacy=gaussian)
    cost = transfer_cost(privacy=gaussian, n=10_000, failure_prob=0.05)
    assert made.nats("transfer") == cost.nats
    assert dict(made.budget) == pytest.approx(dict(cost.budget))
    assert unpaid < made.value < 1.0
    assert made.inputs["privacy_notion"] == "gaussian"
    assumed = GaussianDP(mu=0.02, adjacency="add-remove", status="approximate accountant")
    assert private_ece_pac_bayes(**told, privacy=assumed).status == "optimistic"
    with pytest.raises(ValueError, match=r"^privacy must bound"):
        private_ece_pac_bayes(**told, privacy=ApproxDP(epsilon=0.1, delta=1e-3, **KNOWN))


def compositions(n, parts):
    """All ways to write n as an ordered sum of counts."""
    for bars in itertools.combinations(range(n + parts - 1), parts - 1):
        yield np.diff([-1, *bars, n + parts - 1]) - 1


@pytest.mark.parametrize("failure_prob", [0.3, 0.05])
@pytest.mark.parametrize(
    "law", [(0.5, 0.5, 0.0, 0.0), (0.35, 0.15, 0.05, 0.45), (0.62, 0.38, 0.0, 0.0), (0.0, 0.3, 0.7, 0.0)]
)
def test_coverage_of_held_out_calibration_exactly(law, failure_prob):
    """Two bins, (bin, correct) of four kinds, confidences 0 and 1: all samples of twelve with their probabilities."""
    n, gaps, where = 12, np.array([1.0, 0.0, 0.0, -1.0]), np.array([0, 0, 1, 1])
    true = sum(abs((np.array(law) * gaps)[where == b].sum()) for b in (0, 1))
    failed = {"hoeffding": 0.0, "second moment": 0.0}
    for counts in compositions(n, 4):
        plug_in = sum(abs((counts * gaps)[where == b].sum()) for b in (0, 1)) / n
        squares = float((counts * gaps**2).sum() / n)
        probability = float(stats.multinomial.pmf(counts, n, law))
        told = {"calibration_error": float(plug_in), "n": n, "failure_prob": failure_prob}
        failed["hoeffding"] += probability * (ece_hoeffding(**told).value < true)
        failed["second moment"] += probability * (ece_second_moment(**told, mean_squared_gap=squares).value < true)
    assert max(failed.values()) <= failure_prob


def test_the_number_of_bins_does_not_matter_to_the_bound():
    """A calibrated predictor with as many bins as examples: the plug-in is far too large, the bound not below it."""
    rng = np.random.default_rng(5)
    for bins in (1, 10, 1000):
        f = rng.random(1000)
        made = bounds.calibration_sample(
            confidence=f, correct=rng.random(1000) < f, edges=np.linspace(0, 1, bins + 1).tolist()
        )
        bound = ece_second_moment(
            calibration_error=made.calibration_error,
            mean_squared_gap=made.mean_squared_gap,
            n=made.n,
            failure_prob=0.05,
        )
        assert 0.0 <= made.calibration_error < bound.value


def test_brier_is_twice_the_bound_of_its_half_and_follows_its_certificate():
    made = brier_risk(brier=0.1, bound=partial(maurer, kl_nats=30.0, n=5000, failure_prob=0.05))
    half = maurer(risk=0.05, kl_nats=30.0, n=5000, failure_prob=0.05)
    assert made.certificate == replace(half, measures="half the Brier risk")
    assert float(made) == made.value == 2 * half.value
    assert made.value <= mp.mpf(made.calibration_error) ** 2 <= made.value * (1 + mp.mpf("1e-14"))
    assert brier_risk(brier=2.0, bound=partial(maurer, kl_nats=0.0, n=10, failure_prob=0.05)).value == 2.0
    assert brier_risk(brier=5e-324, bound=lambda risk: maurer(risk=risk, kl_nats=0.0, n=9, failure_prob=0.05)).value > 0
    private = partial(bounds.dp_pac_bayes, kl_nats=30.0, n=5000, epsilon=0.01, failure_prob=0.05)
    assert brier_risk(brier=0.1, bound=private).value > made.value
    assert [brier_risk(brier=b, bound=private).value for b in (0.0, 0.1, 0.5, 1.9)] == sorted(
        brier_risk(brier=b, bound=private).value for b in (0.0, 0.1, 0.5, 1.9)
    )


def brier(p, y):
    return ((p - np.eye(p.shape[-1])[y]) ** 2).sum(axis=-1)


def test_brier_formal_guarantee_for_gibbs_and_averaged_predictions():
    """Finite worlds: loss in [0, 2], the average of predictions never above the average of losses, log-loss alike."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        members, x, y = rng.dirichlet(np.full(4, 0.4), size=(6, 30)), np.arange(30), rng.integers(0, 4, 30)
        posterior = rng.dirichlet(np.ones(6))
        losses = brier(members, y)
        averaged = np.tensordot(posterior, members, 1)
        assert 0 <= losses.min() <= losses.max() <= 2
        assert (brier(averaged, y) <= posterior @ losses + 1e-12).all()
        shifted = -np.log(0.02 + 0.92 * averaged[x, y])
        assert (shifted <= posterior @ -np.log(0.02 + 0.92 * members[:, x, y]) + 1e-12).all()


def test_unbinned_calibration_is_below_what_is_certified():
    """Ten vectors p, each given often, and labels of other laws: E[Y|p] is known exactly."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        p, true, mass = rng.dirichlet(np.ones(3), 10), rng.dirichlet(np.ones(3), 10), rng.dirichlet(np.ones(10))
        risk = float(mass @ (true * np.stack([brier(p, np.full(10, k)) for k in range(3)], axis=1)).sum(axis=1))
        assert mass @ ((p - true) ** 2).sum(axis=1) <= risk + 1e-12
        top = p.argmax(axis=1)
        f, right = p.max(axis=1), true[np.arange(10), top]
        absolute = float(mass @ (right * (1 - f) + (1 - right) * f))
        squared = float(mass @ (right * (1 - f) ** 2 + (1 - right) * f**2))
        assert mass @ np.abs(f - right) <= min(absolute, math.sqrt(squared)) + 1e-12
        assert squared <= risk + 1e-12


@pytest.mark.parametrize(
    ("bound", "changes", "word"),
    [
        (ece_hoeffding, {"calibration_error": 1.1}, "calibration_error"),
        (ece_hoeffding, {"n": 0}, "n"),
        (ece_second_moment, {"mean_squared_gap": 0.00009}, "mean_squared_gap"),
        (ece_second_moment, {"mean_squared_gap": math.nan}, "mean_squared_gap"),
        (ece_second_moment, {"failure_prob": 1.0}, "failure_prob"),
        (ece_pac_bayes, {"kl_nats": -1.0}, "kl_nats"),
        (dp_ece_pac_bayes, {"epsilon": -0.1}, "epsilon"),
        (private_ece_pac_bayes, {"privacy": 0.1}, "privacy"),
    ],
)
def test_misuse_is_refused_by_name(bound, changes, word):
    told = {**SAMPLE, "kl_nats": 1.0, "epsilon": 0.1, "privacy": GaussianDP(mu=0.1, **KNOWN), **changes}
    names = [name for name in inspect.signature(bound).parameters if name in told]
    with pytest.raises(ValueError, match=rf"^{word} must"):
        bound(**{name: told[name] for name in names})


def test_brier_refuses_what_is_not_about_its_loss():
    for wrong in (-0.1, 2.1, math.nan):
        with pytest.raises(ValueError, match=r"^brier must"):
            brier_risk(brier=wrong, bound=partial(maurer, kl_nats=1.0, n=10, failure_prob=0.05))
    with pytest.raises(ValueError, match=r"^bound must"):
        brier_risk(brier=0.4, bound=lambda risk: maurer(risk=risk / 2, kl_nats=1.0, n=10, failure_prob=0.05))
