"""Convergence diagnostics: slow twins of the formulas, calibration on stationary chains, planted faults."""

import json
import math
from statistics import NormalDist, fmean, median, variance
from types import SimpleNamespace

import numpy as np
from numpy.random import default_rng
from scipy import signal, stats

from bounds.monte_carlo import effective_sample_size
from pacdp.chains import diagnostics
from pacdp.chains.diagnosis import FEWEST_DRAWS, FEWEST_STEPS, R_HAT_LIMIT, REFUTED_BY_CHANCE
from pacdp.chains.diagnostics import after_burn_in, diagnose
from tests.marks import every_case, near, parametrize, slow


def autoregression(rng, chains, steps, phi):
    """Stationary Gaussian AR(1) of variance 1: its mean of n draws is worth n (1-φ)/(1+φ) independent ones."""
    noise = rng.standard_normal((chains, steps)) * math.sqrt(1.0 - phi * phi)
    noise[:, 0] /= math.sqrt(1.0 - phi * phi)
    return signal.lfilter([1.0], [1.0, -phi], noise, axis=1)


def one(trace, burn_in=0.0):
    return diagnose({"x": trace}, burn_in=burn_in).traces["x"]


def slow_scores(rows):
    pooled = [x for row in rows for x in row]

    def score(x):
        rank = sum(y < x for y in pooled) + (sum(y == x for y in pooled) + 1) / 2
        return NormalDist().inv_cdf((rank - 0.375) / (len(pooled) + 0.25))

    return [[score(x) for x in row] for row in rows]


def slow_r_hat(chains):
    half = len(chains[0]) // 2
    halves = [chain[:half] for chain in chains] + [chain[len(chain) - half :] for chain in chains]
    middle = median(x for row in halves for x in row)
    found = []
    for rows in (halves, [[abs(x - middle) for x in row] for row in halves]):
        rows = slow_scores(rows)
        within = fmean(variance(row) for row in rows)
        between = half * variance([fmean(row) for row in rows])
        found.append(math.sqrt(((half - 1) / half * within + between / half) / within))
    return max(found)


@parametrize(("chains", "steps", "phi"), [(1, 100, 0.0), (1, 101, 0.6), (3, 100, 0.3), (4, 101, 0.9)])
def test_r_hat_is_the_formula_s(chains, steps, phi):
    x = np.round(autoregression(default_rng(chains), chains, steps, phi) * 2**20)  # folded without rounding
    assert one(x).r_hat == near(slow_r_hat(x.tolist()), rel=1e-12)
    ties = np.round(x / 2**20)
    assert one(ties).r_hat == near(slow_r_hat(ties.tolist()), rel=1e-12)


@parametrize("phi", [*(slow(phi) for phi in (0.0, 0.5)), 0.9])
def test_effective_draws_and_standard_error_of_an_autoregression(phi):
    rng = default_rng(3)
    runs = [one(autoregression(rng, 4, 4000, phi)) for _ in range(25)]
    truth = 16000 * (1 - phi) / (1 + phi)
    assert fmean(run.effective_draws for run in runs) == near(truth, rel=0.1)
    assert fmean(run.standard_error for run in runs) == near(truth**-0.5, rel=0.1)
    errors = [run.mean / run.standard_error for run in runs]
    assert 0.5 < math.sqrt(fmean(z * z for z in errors)) < 1.6
    x = autoregression(rng, 1, 8000, phi)
    assert one(x).effective_draws == near(effective_sample_size(x[0]), rel=0.2)


@parametrize(
    ("chains", "phi", "runs"),
    [*(slow(*one) for one in ((1, 0.0, 400), (1, 0.5, 400), (1, 0.8, 400),
                                                              (4, 0.8, 200))),
     (1, 0.8, 240), (4, 0.8, 40)],
)  # fmt: skip
def test_stationary_chains_are_seldom_refuted(chains, phi, runs, monkeypatch):
    """Effective draws and standard errors, which have a test of their own, are left out: they take most of the time."""
    several = diagnostics._arviz()
    monkeypatch.setattr(diagnostics, "_arviz", lambda: SimpleNamespace(
        rhat=several.rhat, mcse=lambda *_, **__: 1.0, ess=lambda *_, **__: 1e3))  # fmt: skip
    rng = default_rng(10 * chains + int(10 * phi))
    found = [diagnose({"x": autoregression(rng, chains, 2000, phi)}) for _ in range(runs)]
    for name in ("ks_p_value", "geweke_p_value", "r_hat_p_value"):
        p_values = [p for d in found if (p := getattr(d.traces["x"], name)) is not None]
        assert len(p_values) > 0.9 * runs
        rejected = sum(p < 0.05 for p in p_values)
        assert rejected <= stats.binom.ppf(1 - 1e-4, len(p_values), 0.06), name
        if chains == 1:  # neither are they too seldom: a test that never rejects has no power
            assert rejected >= stats.binom.ppf(1e-3, len(p_values), 0.03), name
    assert sum(d.refuted for d in found) <= stats.binom.ppf(1 - 1e-4, runs, 2 * REFUTED_BY_CHANCE)


def _drifting(x):
    return x + np.linspace(0.0, 3.0, x.shape[1])


def _one_drifting(x):
    return np.vstack((x[:-1], _drifting(x[-1:])))


def _stuck(x):
    return x + np.arange(len(x))[:, None]


def _one_stuck(x):
    return np.vstack((x[:-1], x[-1:] + 2.0))


def _quieter(x):
    return np.where(np.arange(x.shape[1]) < x.shape[1] // 2, x, x * math.sqrt(0.5))


@every_case(
    ("fault", "chains"),
    [(fault, chains) for fault in (_drifting, _one_drifting, _quieter) for chains in (1, 16)]
    + [(fault, chains) for fault in (_stuck, _one_stuck) for chains in (2, 16)],
)
@parametrize("phi", [slow(0.0), 0.7])
def test_planted_faults_are_caught(fault, chains, phi):
    healthy = autoregression(default_rng(7), chains, 2000, phi)
    assert not diagnose({"x": healthy}, burn_in=0.0).refuted
    found = diagnose({"other": healthy, "x": fault(healthy)}, burn_in=0.0)
    assert found.refuted
    assert any(text.startswith("x: not stationary") for text in found.warnings)
    assert not any(text.startswith("other: not stationary") for text in found.warnings)


def test_each_test_sees_its_fault():
    x = autoregression(default_rng(8), 4, 2000, 0.5)
    drift, stuck, quiet = one(_drifting(x)), one(_stuck(x)), one(_quieter(x))
    assert drift.geweke_z < -3.0
    assert max(drift.geweke_p_value, drift.ks_p_value) < 1e-9
    assert one(-_drifting(x)).geweke_z == near(-drift.geweke_z)
    assert stuck.r_hat > 1.1
    assert stuck.r_hat_p_value < 1e-6
    assert stuck.ks_p_value > 1e-4, "each chain by itself is stationary"
    assert quiet.r_hat > R_HAT_LIMIT, "folded"
    assert quiet.r_hat_p_value < 1e-9
    assert abs(quiet.geweke_z) < 4.5


def test_many_well_mixed_chains_draw_no_warning():
    x = autoregression(default_rng(6), 64, 2000, 0.5)
    found = diagnose({"energy": x, "norm": x**2})  # the second far from normal
    assert found.warnings == ()
    assert not found.refuted
    assert found.traces["energy"].r_hat < R_HAT_LIMIT


def test_a_slow_stationary_chain_is_warned_of_but_not_refuted():
    """Independence of steps is not needed: a chain that mixes slowly has few draws, not another law."""
    rng = default_rng(9)
    found = [diagnose({"x": autoregression(rng, 4, 2000, 0.99)}) for _ in range(50)]
    assert sum(d.refuted for d in found) <= 2
    for d in found:
        assert d.traces["x"].effective_draws < 4 * FEWEST_DRAWS
        assert any("effective draws per chain" in text for text in d.warnings)
        assert any("too short to judge" in text for text in d.warnings)


def test_copies_of_a_chain_are_no_further_chains():
    alone = autoregression(default_rng(5), 2, 2000, 0.5)
    still = np.concatenate([alone, np.zeros((2, 2000))])
    for trace, copies in ((alone, 0), (alone[[0, 1, 0, 0]], 2), (still, 1)):
        said = [text for text in diagnose({"x": trace}).warnings if "copies" in text]
        assert [text.split(" of ")[0] for text in said] == [f"x: {copies}"] * (copies > 0)
    assert not any("copies" in text for text in diagnose({"x": np.ones((3, 500))}).warnings)


def test_traces_that_are_short_or_stand_still_are_not_judged():
    for steps in (1, FEWEST_STEPS - 1):
        found = diagnose({"energy": default_rng(0).standard_normal((2, steps))})
        assert f"too short to judge: {steps} steps" in found.warnings[0]
        assert not found.refuted
        assert found.traces["energy"].r_hat is None
        json.dumps(found.to_dict(), allow_nan=False)
    assert "constant after burn-in" in diagnose({"x": np.full((3, 500), 0.3)}).warnings[0]
    frozen = diagnose({"x": np.repeat([[0.1], [0.7]], 500, axis=1)})
    assert frozen.traces["x"].r_hat == math.inf
    assert frozen.to_dict()["traces"]["x"]["r_hat"] is None
    assert any("2 of 2 chains never move" in text for text in frozen.warnings)
    x = autoregression(default_rng(1), 2, 1000, 0.0)
    x[1, 700:] = 0.0
    assert one(x, burn_in=0.4).still_chains == 1


@parametrize("scale", [2.0**-990, 2.0**-60, 2.0**1010])
def test_the_unit_does_not_matter(scale):
    x = autoregression(default_rng(2), 2, 1000, 0.5)
    plain, scaled = one(x), one(x * scale)
    for name in ("r_hat", "r_hat_p_value", "effective_draws", "ks_p_value", "geweke_z"):
        assert getattr(scaled, name) == near(getattr(plain, name), rel=1e-6), name
    assert scaled.standard_error / scale == near(plain.standard_error, rel=1e-6)


def test_minibatch_errors_have_few_values():
    rng = default_rng(3)
    for share in (0.5, 0.05, 0.002):
        errors = rng.binomial(8, share, (4, 1000)) / 8
        assert not diagnose({"errors": errors}).refuted


def test_burn_in():
    trace = np.tile(np.arange(1000.0), (2, 1))
    assert after_burn_in(trace, 0.5)[0, 0] == 500
    assert after_burn_in(trace, 0.0).shape == (2, 1000)
    assert after_burn_in(trace, 0.999).shape == (2, FEWEST_STEPS)
    assert after_burn_in(trace[:, :30], 0.5).shape == (2, 30)
    transient = autoregression(default_rng(4), 2, 2000, 0.2)
    transient[:, :900] += np.linspace(20.0, 0.0, 900)
    assert diagnose({"x": transient}, burn_in=0.0).refuted
    assert not diagnose({"x": transient}).refuted
