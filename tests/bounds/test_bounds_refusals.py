"""What each public function refuses, by the name of the argument: a row for every check. Formulas: test_laws.py."""

from dataclasses import replace
from functools import partial
from math import exp, inf, nan

import numpy as np
import pytest
from cells import KNOWN, refused

from bounds import (
    ApproxDP,
    Cost,
    FailureBudget,
    GaussianDP,
    MaxInformation,
    Monitor,
    PeopleSample,
    PoissonSum,
    PrivacyClaim,
    PrivacyLossDistribution,
    PureDP,
    RealisedSum,
    Sharp,
    ZeroConcentratedDP,
    best_of,
    betting_upper,
    calibration_sample,
    catoni,
    catoni_grid,
    clopper_pearson_upper,
    compression,
    control_false_negatives,
    control_risk,
    control_selective_risk,
    control_set_size,
    declared,
    disagreement,
    ece_hoeffding,
    exchangeable,
    exponential_mechanism_epsilon,
    gibbs_pac_bayes,
    gibbs_risk_upper,
    kl_chernoff_upper,
    linear,
    maurer,
    mce_hoeffding,
    new_example_pac_bayes,
    noisy_sum_realised,
    noisy_sum_worst_case,
    people_sample,
    poisson_sum_realised,
    recursive,
    second_moment_upper,
    split_kl,
    thiemann,
    thinned,
    unexpected_bernstein,
    unproved,
    weighted_risk_upper,
)
from bounds.accounting import Composed, ExponentialMechanism, Gaussian, SelfComposed
from bounds.divergence import gaussian_kl
from bounds.partition import log_partition_best
from bounds.printed import Printed2018, hybrid_pac_bayes
from bounds.refined import ExcessStep
from bounds.transfer import transfer_cost

NAN, INF = nan, inf
AT = {"n": 100, "failure_prob": 0.05}
POSTERIOR = {"risk": 0.1, "kl_nats": 1.0, **AT}
HIGH = 1 / (1 + exp(-2.0))
FIRST = ExcessStep(shares=(0.9, 0.1, 0.0), kl_nats=1.0, n=10)
SURROGATE = compression(k=4, n=200, failure_prob=0.03)
STEP = Gaussian(noise_multiplier=2.0)
THREE = SelfComposed(event=STEP, count=3)
PURE = ExponentialMechanism(epsilon=0.1, adjacency="replace-one")
TWO = Composed(events=(STEP, Gaussian(noise_multiplier=3.0)))
SUM = RealisedSum(contributions=1.0, records=60)
INTERVAL = {"tau": 3.0, "loss_low": 0.5, "loss_high": 4.0}
GIBBS = {"log_partition_lower_nats": -20.0, "log_partition_failure_prob": 0.01, **INTERVAL, **AT}
LOSS_GRID = {
    "spacing": 2.0,
    "lowest": -1,
    "with_record": [1 - HIGH, 0.0, HIGH],
    "without_record": [HIGH, 0.0, 1 - HIGH],
    "infinity_mass": 0.0,
    "zero_mass": 0.0,
    **KNOWN,
}
COST = Cost(name="kl", nats=1.0, per_example=0.1)
HIDDEN = np.ma.masked_array([0, 1], mask=[False, True])
UNPROVED = unproved("chain stationary", "nobody looked")

TABLE = [
    (catoni, POSTERIOR, {"inverse_temperature": [0.0]}),
    (linear, POSTERIOR, {"lam": [0.5]}),
    (ece_hoeffding, {"calibration_error": 0.1, **AT}, {"calibration_error": [NAN, -0.1, 1.1]}),
    (thiemann, POSTERIOR, {"lam": [0.0, 2.0]}),
    (declared, {"name": "records independent"}, {"by": [" ", 3]}),
    (catoni_grid, POSTERIOR, {"inverse_temperatures": [(), (1.0, 1.0)]}),
    (
        split_kl,
        {"levels": (0.0, 0.5, 1.0), "shares": (0.2, 0.1), "kl_nats": 1.0, **AT},
        {"levels": [(0.0, 1.0, 0.5)], "shares": [(0.1,), (0.1, 0.2)]},
    ),
    (unexpected_bernstein, {**POSTERIOR, "risk": 0.3}, {"second_moment": [0.02, 0.31]}),
    (
        recursive,
        {**POSTERIOR, "gamma": 0.5, "steps": (FIRST,)},
        {"gamma": [1.0], "steps": [(FIRST, replace(FIRST, n=50))]},
    ),
    (
        gaussian_kl,
        {"mean_q": [0.0, 1.0], "std_q": 1.0, "mean_p": 0.0, "std_p": 1.0},
        {"mean_q": [[0.0, NAN]], "std_q": [[1.0, 0.0]], "std_p": [-1.0]},
    ),
    (disagreement, {"surrogate": SURROGATE, "k": 3, **AT}, {"k": [101], "surrogate": [0.02]}),
    (compression, {"k": 2, "n": 5, "failure_prob": 0.1}, {"k": [6], "weights": [{}, {5: 1.0}, {1: 0.7, 2: 0.4}]}),
    (
        control_risk,
        {"losses": [[0, 1], [0, 0]], "thresholds": [1.0, 0.5], "target": 0.5, "failure_prob": 0.1},
        {
            "losses": [[[0.1, 2.0]]],
            "thresholds": [[1.0], [1.0, 1.0]],
            "target": [1.5],
            "failure_prob": [0.0],
            "starts": [3],
            "groups": [[1, 2, 3], [0.5, 0.7]],
        },
    ),
    (
        control_selective_risk,
        {"confidence": [0.1, 0.2], "losses": [1, 0], "thresholds": [0.5], "target": 0.5, "failure_prob": 0.1},
        {"confidence": [[0.1], [0.1, NAN]], "thresholds": [[]]},
    ),
    (
        control_false_negatives,
        {"scores": [0.1, 0.2], "positives": [True, False], "target": 0.5, "failure_prob": 0.1},
        {"positives": [[0, 2], [0.0, 1.0]], "scores": [[1.0], [1.0, NAN]], "target": [-0.1]},
    ),
    (
        Monitor,
        {"promised": 0.1, "failure_prob": 0.05, "false_alarm_prob": 0.01},
        {
            "promised": [0.0],
            "failure_prob": [1.0],
            "false_alarm_prob": [0.0],
            "promise_failure_prob": [-0.1, 1.0],
            "n": [-1],
            "alarm": [1],
            "waiting": [((0, 0.5),)],
        },
    ),
    (
        Monitor.start(0.1, failure_prob=0.05, false_alarm_prob=0.01).observe,
        {"losses": [0.1]},
        {"losses": [[1.5]], "positions": [[-1]]},
    ),
    (exchangeable, {"old": [1.0], "new": [1.0]}, {"old": [[], [NAN], HIDDEN], "seed": [-1]}),
    (
        PeopleSample,
        {"sizes": np.array([1, 2]), "sums": np.zeros(2)},
        {"sizes": [np.array([], dtype=int), np.array([0, 2])], "sums": [np.zeros(1), np.array([0.0, 2.1])]},
    ),
    (
        people_sample,
        {"losses": [0.1, 0.2], "people": [0, 1]},
        {"losses": [[0.1, 1.2], [0.1], HIDDEN], "people": [[0.0, 1.0], HIDDEN]},
    ),
    (thinned, {"people": [1, 1], "seed": 0}, {"most_examples": [0]}),
    (
        new_example_pac_bayes,
        {**POSTERIOR, "examples": 200, "most_examples": 9},
        {"examples": [901, 99], "most_examples": [0]},
    ),
    (
        gibbs_pac_bayes,
        {**GIBBS, "error_loss": 1.0},
        {
            "log_partition_lower_nats": [NAN, -1.4],
            "tau": [0.0],
            "loss_low": [4.0, -INF],
            "log_partition_failure_prob": [-0.1, 0.97],
            "error_loss": [0.5, 4.1],
        },
    ),
    (
        log_partition_best,
        {"log_mean_exp": -2.0, "mean_loss": 1.0, "draws": 50, "failure_prob": 0.05, **INTERVAL},
        {"log_mean_exp": [-1.4], "mean_loss": [0.4], "draws": [0], "failure_prob": [1.0]},
    ),
    (
        gibbs_risk_upper,
        {"mean": 0.1, "draws": 10, "failure_prob": 0.05},
        {"mean": [1.1], "draws": [0], "failure_prob": [0.0]},
    ),
    (
        weighted_risk_upper,
        {"values": [0.1, 0.2], "weights": [1, 1], "failure_prob": 0.05},
        {"values": [[0.1, 1.2], [0.1]], "weights": [[1, 0]]},
    ),
    (betting_upper, {"values": [0.1, 0.2], "failure_prob": 0.05}, {"values": [[], [0.1, NAN]], "failure_prob": [0.0]}),
    (
        second_moment_upper,
        {"mean": 0.5, "second_moment": 0.3, **AT},
        {"mean": [1.1, "0.5"], "second_moment": [0.01], "n": [0]},
    ),
    (clopper_pearson_upper, {"k": 1, "n": 2, "failure_prob": 0.1}, {"k": [3], "n": [0], "failure_prob": [0.0]}),
    (kl_chernoff_upper, {"mean": 0.1, **AT}, {"mean": [NAN], "failure_prob": [NAN]}),
    (
        calibration_sample,
        {"confidence": [0.5, 0.6], "correct": [1, 0], "edges": [0.0, 1.0]},
        {"confidence": [[], [0.5, 1.1]], "correct": [[1], [1, 0.5]], "edges": [[0.0, 0.5], [0.0, 0.5, 0.5, 1.0]]},
    ),
    (GaussianDP, {"mu": 0.1, **KNOWN}, {"mu": [-0.1], "status": ["certain"]}),
    (ZeroConcentratedDP, {"rho": 0.1, **KNOWN}, {"rho": [-1.0]}),
    (ApproxDP, {"epsilon": 1.0, "delta": 0.1, **KNOWN}, {"epsilon": [-1.0], "delta": [1.1]}),
    (PureDP, {"epsilon": 0.1, **KNOWN}, {"epsilon": [-1.0], "adjacency": ["swap"]}),
    (
        PrivacyLossDistribution,
        LOSS_GRID,
        {
            "spacing": [0.0],
            "zero_mass": [-0.1],
            "with_record": [[1.0, 0.0, 0.2], [-0.1, 0.0, 1.1]],
            "without_record": [LOSS_GRID["with_record"]],
        },
    ),
    *((price, {}, {"epsilon": [-0.1]}) for price in (Sharp, MaxInformation, Printed2018)),
    (
        exponential_mechanism_epsilon,
        {"beta": 1.0, "tau": 1.0, "loss_range": 1.0, "n": 10},
        {"beta": [-1.0], "loss_range": [-1.0], "n": [0]},
    ),
    (
        transfer_cost,
        {"privacy": GaussianDP(mu=0.1, **KNOWN), **AT},
        {
            "privacy": [PrivacyClaim(**KNOWN), ApproxDP(epsilon=0.1, delta=1e-3, **KNOWN)],
            "n": [0],
            "failure_prob": [0.0],
        },
    ),
    (
        hybrid_pac_bayes,
        {"risk": 0.1, "kl_nats": 1.0, "privacy": GaussianDP(mu=0.1, **KNOWN), "failure_prob": 0.05},
        {"n_bound": [0]},
    ),
    *(
        (
            made,
            {"event": THREE, "squared_norms": [1.0, 2.0, 3.0], "records": 10},
            {"squared_norms": [[1.0, 2.0], [1.0, 2.0, -1.0], *large], "event": [PURE]},
        )
        for made, large in ((noisy_sum_realised, ()), (poisson_sum_realised, ([1.0, 2.0, 11.0],)))
    ),
    *((made, {}, {"event": [Composed(events=(THREE, PURE))]}) for made in (noisy_sum_worst_case, PoissonSum)),
    (
        RealisedSum,
        {"contributions": 1.0, "records": 10, "orders": (1.5, 2.0)},
        {"orders": [(1.0,), (), (1.5, 1.5)], "weights": [(0.5,), (0.6, 0.6), (0.0, 1.0)]},
    ),
    (maurer, {**POSTERIOR, "price": SUM}, {"n": [61]}),
    (FailureBudget(0.05).spend, {"name": "a"}, {"amount": [0.0, INF]}),
    (FailureBudget(0.05).spend("a", 0.01).spend, {"amount": 0.01}, {"name": ["a"]}),
    (FailureBudget(0.05).spend("a", 0.01).share, {"name": "a", "ways": 2}, {"name": ["b"], "ways": [0]}),
    (FailureBudget, {"total": 0.05}, {"total": [0.0], "entries": [(("a", 0.06),)]}),
    (
        partial(replace, maurer(**POSTERIOR)),
        {},
        {
            "value": [NAN],
            "failure_prob": [0.0],
            "of": [3],
            "hypotheses": [(UNPROVED, UNPROVED)],
            "costs": [(COST, COST)],
        },
    ),
    (mce_hoeffding, {"min_count": 1, "failure_prob": 0.05}, {"bins": [[]]}),
    (Sharp(epsilon=0.1).charge, AT, {"n": [0], "failure_prob": [0.0]}),
    (
        control_set_size,
        {"thresholds": [0.5], "most_labels": 1.0, "failure_prob": 0.1},
        {"scores": [[[0.1, NAN]], [[]]]},
    ),
    (best_of, {"budget": 0.05}, {"certificates": [[]]}),
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
    refused(rf"^{name}\b", call, **given)
