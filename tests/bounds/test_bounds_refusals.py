"""What each public function refuses, by the name of the argument: a row for every check. Formulas: test_laws.py."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import bounds
from bounds import FailureBudget, accounting
from bounds.means import ratio_betting_upper
from bounds.pure_transfer import transfer_nats_2018

NAN, INF = math.nan, math.inf
KNOWN = {"adjacency": "add-remove", "status": "accounted"}
AT = {"n": 100, "failure_prob": 0.05}
POSTERIOR = {"risk": 0.1, "kl_nats": 1.0, **AT}
HIGH = 1 / (1 + math.exp(-2.0))
FIRST = bounds.ExcessStep(shares=(0.9, 0.1, 0.0), kl_nats=1.0, n=10)
SURROGATE = bounds.compression(k=4, n=200, failure_prob=0.03)
STEP = accounting.Gaussian(noise_multiplier=2.0)
THREE = accounting.SelfComposed(event=STEP, count=3)
PURE = accounting.ExponentialMechanism(epsilon=0.1, adjacency="replace-one")
TWO = accounting.Composed(events=(STEP, accounting.Gaussian(noise_multiplier=3.0)))
MIXED = accounting.SelfComposed(event=TWO, count=2)
SUM = bounds.RealisedSum(contributions=1.0, records=60)
INTERVAL = {"tau": 3.0, "loss_low": 0.5, "loss_high": 4.0}
GIBBS = {"log_partition_lower_nats": -20.0, "log_partition_failure_prob": 0.01, **INTERVAL, **AT}
ONE_PATH = {
    **{name: [0.0] for name in ("start_log_prior", "end_log_prior", "end_loss_nats")},
    **{name: [[0.0]] for name in ("forward_log_densities", "backward_log_densities")},
}
LOSS_GRID = {
    "spacing": 2.0,
    "lowest": -1,
    "with_record": [1 - HIGH, 0.0, HIGH],
    "without_record": [HIGH, 0.0, 1 - HIGH],
    "infinity_mass": 0.0,
    "zero_mass": 0.0,
    **KNOWN,
}
COST = bounds.Cost(name="kl", nats=1.0, per_example=0.1)
UNPROVED = bounds.unproved("chain stationary", "nobody looked")

TABLE = [
    (bounds.catoni, POSTERIOR, {"inverse_temperature": [0.0]}),
    (bounds.linear, POSTERIOR, {"lam": [0.5]}),
    (bounds.thiemann, POSTERIOR, {"lam": [2.0, -1.0]}),
    (bounds.catoni_grid, POSTERIOR, {"inverse_temperatures": [(), (1.0, 1.0), (0.0,)]}),
    (
        bounds.prior_scale_grid,
        {"scale": 0.1, "largest": 1.0, "precision": 10},
        {"scale": [0.0], "largest": [-1.0], "precision": [0]},
    ),
    (
        bounds.split_kl,
        {"levels": (0.0, 0.5, 1.0), "shares": (0.2, 0.1), "kl_nats": 1.0, **AT},
        {"levels": [(0.0, 1.0, 0.5), (0.0,)], "shares": [(0.1,), (0.1, 0.2)]},
    ),
    (bounds.unexpected_bernstein, {**POSTERIOR, "risk": 0.3}, {"second_moment": [0.02, 0.31]}),
    (
        bounds.recursive,
        {**POSTERIOR, "gamma": 0.5, "steps": (FIRST,)},
        {"gamma": [1.0], "steps": [(FIRST, replace(FIRST, n=50))]},
    ),
    (bounds.ExcessStep, {"kl_nats": 1.0, "n": 10}, {"shares": [(0.1, 0.2, 0.0)]}),
    (
        bounds.gaussian_kl,
        {"mean_q": [0.0, 1.0], "std_q": 1.0, "mean_p": 0.0, "std_p": 1.0},
        {"mean_q": [[0.0, NAN]], "std_q": [[1.0, 0.0]], "std_p": [-1.0]},
    ),
    (
        bounds.triangular_gaussian_kl,
        {"mean_q": np.zeros((1, 2)), "mean_p": np.zeros((1, 2)), "std_p": 1.0},
        {"factor": [np.ones((2, 2)), np.eye(3), -np.eye(2)]},
    ),
    (bounds.disagreement, {"surrogate": SURROGATE, "k": 3, **AT}, {"k": [101], "surrogate": [0.02]}),
    (
        bounds.compression,
        {"k": 2, "n": 5, "failure_prob": 0.1},
        {"k": [6], "weights": [{}, {5: 1.0}, {1: 0.7, 2: 0.4}, [0.1]]},
    ),
    (bounds.compression_weights, {"n": 5, "failure_prob": 0.1}, {"expected": [[], [5], 3]}),
    (
        bounds.control_risk,
        {"losses": [[0, 1], [0, 0]], "thresholds": [1.0, 0.5], "target": 0.5, "failure_prob": 0.1},
        {
            "losses": [[[0.1, 2.0]], [0.1, 0.2]],
            "thresholds": [[1.0], [1.0, 1.0]],
            "target": [1.5],
            "failure_prob": [0.0],
            "starts": [3],
            "groups": [[1, 2, 3], [0.5, 0.7]],
            "seed": [-1],
        },
    ),
    (
        bounds.control_selective_risk,
        {"confidence": [0.1, 0.2], "losses": [1, 0], "thresholds": [0.5], "target": 0.5, "failure_prob": 0.1},
        {"confidence": [[0.1], [0.1, NAN]], "thresholds": [[]]},
    ),
    (
        bounds.control_set_size,
        {"scores": [[0.1]], "thresholds": [0.5], "most_labels": 1.0, "failure_prob": 0.1},
        {"scores": [[0.1, 0.2], [[0.1, NAN]], []], "most_labels": [-1.0]},
    ),
    (
        bounds.control_groups,
        {"control": bounds.control_false_negatives, "groups": [1, 2], "failure_prob": 0.1},
        {"records": [{}, {"scores": 3.0}, None]},
    ),
    (
        bounds.control_groups,
        {"groups": [1], "records": {"losses": [1]}, "failure_prob": 0.1},
        {"control": ["selective"]},
    ),
    (
        bounds.control_false_negatives,
        {"scores": [0.1, 0.2], "positives": [True, False], "target": 0.5, "failure_prob": 0.1},
        {"positives": [[0.0, 1.0], [0, 2]], "scores": [[1.0], [1.0, NAN]], "target": [-0.1]},
    ),
    (
        bounds.control_miscoverage,
        {"scores": [[0.1, 0.9], [0.5, 0.5]], "labels": [0, 1], "target": 0.5, "failure_prob": 0.1},
        {"labels": [[0, 2], [0], [0.0, 1.0]], "scores": [[0.1, 0.9]]},
    ),
    (
        bounds.Monitor,
        {"promised": 0.1, "failure_prob": 0.05, "false_alarm_prob": 0.01},
        {
            "promised": [0.0],
            "failure_prob": [1.0],
            "false_alarm_prob": [0.0],
            "promise_failure_prob": [-0.1],
            "n": [-1],
            "alarm": [1, 0],
            "ordered": [1],
            "waiting": [((0, 0.5),)],
        },
    ),
    (
        partial(bounds.Monitor, promised=0.1, failure_prob=0.05, false_alarm_prob=0.01, ordered=True),
        {},
        {"waiting": [((0, 1.5),)]},
    ),
    (
        bounds.Monitor.start(0.1, failure_prob=0.05, false_alarm_prob=0.01).observe,
        {"losses": [0.1]},
        {"losses": [[1.5], [[0.1]]], "positions": [[-1], [0.5]]},
    ),
    (bounds.exchangeable, {"old": [1.0], "new": [1.0]}, {"old": [[], [NAN]], "new": [["a"]], "seed": [-1]}),
    (bounds.exchangeable(old=[1.0], new=[1.0]).alarm, {}, {"failure_prob": [0.0]}),
    (
        bounds.PeopleSample,
        {"sizes": np.array([1, 2]), "sums": np.zeros(2)},
        {
            "sizes": [np.array([], dtype=int), np.array([1.0, 2.0]), np.array([0, 2])],
            "sums": [np.zeros(1), np.array([0.0, 2.1])],
        },
    ),
    (
        bounds.people_sample,
        {"losses": [0.1, 0.2], "people": [0, 1]},
        {"losses": [[0.1, 1.2], [0.1]], "people": [[0.0, 1.0], []], "seed": [-1]},
    ),
    (bounds.thinned, {"people": [1, 1], "seed": 0}, {"most_examples": [0]}),
    (
        bounds.new_example_pac_bayes,
        {**POSTERIOR, "examples": 200, "most_examples": 9},
        {"examples": [901, 99], "most_examples": [0, 2.5]},
    ),
    (partial(ratio_betting_upper, [0.1, 0.2], failure_prob=0.05), {}, {"weights": [[0.5], [0.5, 0.0], [0.5, 1.1]]}),
    *(
        (
            bound,
            {**GIBBS, **extra},
            {
                "log_partition_lower_nats": [NAN, -1.4],
                "tau": [0.0],
                "loss_low": [4.0],
                "log_partition_failure_prob": [-0.1, 0.97],
                **wrong,
            },
        )
        for bound, extra, wrong in (
            (bounds.gibbs_pac_bayes, {"error_loss": 1.0}, {"error_loss": [0.5, 4.1]}),
            (bounds.gibbs_catoni, {}, {}),
        )
    ),
    (
        bounds.gibbs_kl_upper,
        {"log_partition_lower_nats": -2.0, **INTERVAL},
        {"log_partition_lower_nats": [1.0], "tau": [-1.0], "loss_low": [5.0]},
    ),
    (
        bounds.gibbs_kl_lower,
        {"posterior_loss": 0.1, "prior_loss": 0.4, "loss_low": 0.0, "loss_high": 1.0},
        {"posterior_loss": [1.1], "prior_loss": [NAN]},
    ),
    (bounds.gibbs_kl, {"mean_loss_nats": 0.0, "log_partition_nats": -9.0}, {"lower_nats": [NAN], "upper_nats": [NAN]}),
    (
        bounds.log_partition_best,
        {"log_mean_exp": -2.0, "mean_loss": 1.0, "draws": 50, "failure_prob": 0.05, **INTERVAL},
        {
            "log_mean_exp": [-1.4],
            "mean_loss": [0.4],
            "tau": [0.0],
            "loss_low": [4.0],
            "draws": [0],
            "failure_prob": [1.0],
        },
    ),
    (bounds.log_partition_chernoff, {"draws": 5, "failure_prob": 0.1}, {"log_mean_exp": [0.1]}),
    (partial(bounds.log_partition_lower, failure_prob=0.1), {}, {"log_mean_exp": [INF]}),
    (bounds.weighted_average_size, {}, {"alpha": [0.0, 1.1]}),
    (bounds.effective_sample_size, {}, {"draws": [[1.0, 2.0], [0.0, 1.0, NAN, 2.0]]}),
    (bounds.StreamingLogMeanExp().push, {}, {"values": [[0.0, NAN], [INF]]}),
    (
        bounds.thermodynamic_integration,
        {"taus": [0.0, 1.0], "mean_losses": [0.1, 0.1]},
        {"taus": [[0.0], [0.0, 0.5, 1.0], [0.5, 1.0], [0.0, -1.0]], "mean_losses": [[0.1, NAN]]},
    ),
    (
        bounds.annealed_log_weights,
        ONE_PATH,
        {
            "start_log_prior": [[-INF], [0.0, 0.0]],
            "forward_log_densities": [[[-INF]], [0.0]],
            "backward_log_densities": [[[NAN]]],
            "end_log_prior": [[INF]],
            "end_loss_nats": [[-INF]],
        },
    ),
    (
        bounds.gibbs_risk_upper,
        {"mean": 0.1, "draws": 10, "failure_prob": 0.05},
        {"mean": [1.1, np.float32(0.1)], "draws": [0], "failure_prob": [0.0]},
    ),
    (
        bounds.weighted_risk_upper,
        {"values": [0.1, 0.2], "weights": [1, 1], "failure_prob": 0.05},
        {"values": [[0.1, 1.2], [], [0.1]], "weights": [[1, 0], [1, INF]]},
    ),
    (bounds.correlated_risk_upper, {"failure_prob": 0.05}, {"chain": [[0.1, 0.2, 1.3, 0.2]]}),
    *(
        (
            bound,
            {"values": [0.1, 0.2], "failure_prob": 0.05},
            {"values": [[], [[0.1, 0.2]], [0.1, NAN], *single], "failure_prob": [0.0]},
        )
        for bound, single in ((bounds.betting_upper, ()), (bounds.empirical_bernstein_upper, ([0.5],)))
    ),
    (
        bounds.second_moment_upper,
        {"mean": 0.5, "second_moment": 0.3, **AT},
        {"mean": ["0.1", 1.1], "second_moment": [0.01], "n": [0]},
    ),
    *(
        (bound, {"k": 1, "n": 2, "failure_prob": 0.1}, {"k": [3, -1], "n": [0], "failure_prob": [0.0]})
        for bound in (bounds.clopper_pearson_upper, bounds.clopper_pearson_lower)
    ),
    *(
        (bound, {"mean": 0.1, **AT}, {"mean": [NAN], "failure_prob": [NAN]})
        for bound in (bounds.kl_chernoff_upper, bounds.hoeffding_upper)
    ),
    (
        bounds.calibration_sample,
        {"confidence": [0.5, 0.6], "correct": [1, 0], "edges": [0.0, 1.0]},
        {"confidence": [[], [0.5, 1.1]], "correct": [[1], [1, 0.5]], "edges": [[0.0, 0.5], [0.0, 0.5, 0.5, 1.0]]},
    ),
    (
        bounds.ConfidenceBin,
        {"low": 0.6, "high": 0.7, "count": 5, "correct": 3, "mean_confidence": 0.65},
        {"correct": [6], "mean_confidence": [0.8], "low": [-0.1], "count": [-1]},
    ),
    *(
        (
            bound,
            {
                "bins": bounds.calibration_sample(confidence=[0.5], correct=[1], edges=[0.0, 1.0]).bins,
                "min_count": 1,
                "failure_prob": 0.05,
            },
            {"bins": [[]], "min_count": [0]},
        )
        for bound in (bounds.mce_hoeffding, bounds.mce_clopper_pearson)
    ),
    (
        bounds.ece_second_moment,
        {"calibration_error": 0.01, "mean_squared_gap": 0.015, **AT},
        {"mean_squared_gap": [0.00009]},
    ),
    (
        bounds.brier_risk,
        {"brier": 0.4, "bound": partial(bounds.maurer, kl_nats=1.0, **AT)},
        {"brier": [-0.1, 2.1], "bound": [lambda risk: bounds.maurer(**{**POSTERIOR, "risk": risk / 2})]},
    ),
    (bounds.GaussianDP, {"mu": 0.1, **KNOWN}, {"mu": [-0.1], "status": ["certain"]}),
    (bounds.ZeroConcentratedDP, {"rho": 0.1, **KNOWN}, {"rho": [-1.0]}),
    (bounds.ApproxDP, {"epsilon": 1.0, "delta": 0.1, **KNOWN}, {"epsilon": [-1.0], "delta": [1.1]}),
    (bounds.PureDP, {"epsilon": 0.1, **KNOWN}, {"epsilon": [-1.0], "adjacency": ["swap"]}),
    (
        bounds.PrivacyLossDistribution,
        LOSS_GRID,
        {
            "spacing": [0.0],
            "lowest": [1.5],
            "zero_mass": [-0.1],
            "with_record": [[], [1.0, 0.0, 0.2], [-0.1, 0.0, 1.1]],
            "without_record": [[1.0], LOSS_GRID["with_record"]],
        },
    ),
    (bounds.PureDP.from_dict, {}, {"record": [{"notion": "gaussian", "mu": 1.0}]}),
    *((price, {}, {"epsilon": [-0.1]}) for price in (bounds.Sharp, bounds.MaxInformation, bounds.Printed2018)),
    (transfer_nats_2018, {"epsilon": 0.1, "n": 100}, {"failure_prob": [0.0, 1.0]}),
    (
        bounds.exponential_mechanism_epsilon,
        {"beta": 1.0, "tau": 1.0, "loss_range": 1.0, "n": 10},
        {"beta": [-1.0], "tau": [-1.0], "loss_range": [-1.0], "n": [0]},
    ),
    (
        bounds.transfer_cost,
        {"privacy": bounds.GaussianDP(mu=0.1, **KNOWN), **AT},
        {
            "privacy": [None, bounds.PrivacyClaim(**KNOWN), bounds.ApproxDP(epsilon=0.1, delta=1e-3, **KNOWN)],
            "n": [0],
            "failure_prob": [0.0],
        },
    ),
    (bounds.in_expectation_nats, {"n": 9}, {"privacy": [None, bounds.ApproxDP(epsilon=1.0, delta=1e-9, **KNOWN)]}),
    (
        bounds.hybrid_pac_bayes,
        {"risk": 0.1, "kl_nats": 1.0, "privacy": bounds.GaussianDP(mu=0.1, **KNOWN), "failure_prob": 0.05},
        {"n_bound": [0]},
    ),
    (bounds.f_quad, {"risk": 0.1, "kl_nats": 1.0, **AT}, {"n": [0], "failure_prob": [NAN]}),
    *(
        (
            made,
            {"event": THREE, "squared_norms": [1.0, 2.0, 3.0], "records": 10},
            {"squared_norms": [[1.0, 2.0], [1.0, 2.0, -1.0], *large], "event": [PURE, "DP-SGD"]},
        )
        for made, large in ((bounds.noisy_sum_realised, ()), (bounds.poisson_sum_realised, ([1.0, 2.0, 11.0],)))
    ),
    (bounds.noisy_sum_realised, {"squared_norms": [1.0] * 4, "records": 10}, {"event": [MIXED]}),
    *(
        (made, {}, {"event": [accounting.Composed(events=(THREE, PURE))]})
        for made in (bounds.noisy_sum_worst_case, bounds.poisson_sum)
    ),
    (
        bounds.RealisedSum,
        {"contributions": 1.0, "records": 10, "orders": (1.5, 2.0)},
        {"orders": [(1.0,), (), (1.5, 1.5), (2000.0,)], "weights": [(0.5,), (0.6, 0.6), (0.0, 1.0)]},
    ),
    (bounds.RealisedPoissonSum, {"records": 10}, {"log_moments": [(1.0,)]}),
    (
        bounds.poisson_log_moments,
        {"sample_rate": 0.1, "noise_multiplier": 1.0, "orders": (2.0,)},
        {"squared_norms": [[-1.0]]},
    ),
    (
        bounds.plan_noisy_sum,
        {"step_size": 0.02, "steps": 5, "tau": 2e5, "decay": 0.5, "squared_norm": 0.7, "risk": 0.02, **AT},
        {"batch_size": [101], "steps": [10**6 + 1], "tau": [0.0]},
    ),
    (bounds.maurer, {**POSTERIOR, "price": SUM}, {"n": [61]}),
    (FailureBudget(0.05).spend, {"name": "a"}, {"amount": [0.0, INF]}),
    (FailureBudget(0.05).spend("a", 0.01).spend, {"amount": 0.01}, {"name": ["a"]}),
    (FailureBudget(0.05).spend("a", 0.01).share, {"name": "a", "ways": 2}, {"name": ["b"], "ways": [0]}),
    (FailureBudget, {"total": 0.05}, {"total": [0.0, 1.0], "entries": [(("a", 0.06),)]}),
    (FailureBudget.from_dict, {}, {"record": [{}, {**FailureBudget(0.05).to_dict(), "format": "other/1"}]}),
    (
        partial(replace, bounds.maurer(**POSTERIOR)),
        {},
        {
            "value": [NAN, -0.1],
            "failure_prob": [0.0],
            "hypotheses": [("A.",), (UNPROVED, UNPROVED)],
            "costs": [(UNPROVED,), (COST, COST)],
        },
    ),
    (bounds.best_of, {"budget": 0.05}, {"certificates": [[]]}),
]
CASES = [
    pytest.param(call, given | {name: value}, name, id=f"{getattr(call, '__name__', 'partial')}-{name}-{place}")
    for call, given, wrong in TABLE
    for name, values in wrong.items()
    for place, value in enumerate(values)
]


@pytest.mark.every_case
@pytest.mark.parametrize(("call", "given", "name"), CASES)
def test_a_wrong_argument_is_refused_by_its_name(call, given, name):
    with pytest.raises(ValueError, match=rf"^{name}\b"):
        call(**given)
