"""The temperature map: momentum makes the law that is said, ladders say where chains stay, and verdicts follow."""

import math
from math import sqrt

import numpy as np
import polars as pl
import pytest
import torch
from torch.testing import assert_close

from experiments.papers import temperature_verdict as verdict
from experiments.papers.entropy_sgld_printed import DECAY, shortened
from experiments.papers.local_entropy import COLUMNS, LOCAL_ENTROPY, PLANE, Plane, claims
from experiments.papers.local_entropy import plane as compute
from experiments.papers.runs import momentum
from experiments.papers.runs.temperature import Ladder, climb
from pacdp import Architecture, Problem
from pacdp.algorithms import SGLD, EntropySGD, build
from pacdp.chains import Keys
from pacdp.cli.config import Runtime
from pacdp.objective import Estimate
from tests.marks import at_most

STIFFNESS = 3.0


def rung(times, error, **changes):
    """What a chain says at so many times the temperature of the paper."""
    return {
        "about": "ladder", "network": "FC100", "norm": "none", "algorithm": "Entropy-SGLD", "start": "sgd",
        "tau": times * 60_000**0.5, "times": times, "epsilon": 0.0325 * times, "n": 60_000, "mean_error": error,
        "mean_error_mcse": 0.001, "mean_loss": 4 * error, "mean_loss_mcse": 0.001, "prior_loss": 2.0,
        "test_error": error, "base_std": 1.0, "step_size": 0.2, "momentum": 0.0, "outer_momentum": 0.0,
        "inner_step_size": 2.0, "inner_steps": 20, **dict.fromkeys((*verdict.WEIGHTS, *verdict.GIBBS), 0.9), **changes,
    }  # fmt: skip


class Quadratic:
    """R̂(w) = STIFFNESS |w|² / 2, without minibatches."""

    def estimate(self, weights, keys, tick):
        del keys, tick
        zero = weights.new_zeros(len(weights))
        return Estimate(STIFFNESS * weights, zero, zero)


@at_most(2, "heavy", [0.0, 0.5, 0.9])
def test_momentum_outside_the_noise_makes_the_law_colder(heavy):
    settings = [SGLD(tau=20.0, step_size=0.01 * (1.0 - heavy) ** 2, base_std=100.0)]
    sampler = momentum.build(settings, Quadratic(), momentum=heavy, outer_momentum=0.0)
    state, keys = sampler.init(torch.zeros(1, 8000)), Keys.derive([3])
    for _ in range(2500):
        state, _ = sampler.step(state, keys)
    variance = float(state.weights.var())
    assert variance == pytest.approx((1.0 - heavy) / (20.0 * STIFFNESS), rel=0.06)


@pytest.mark.parametrize("settings", [SGLD(tau=9.0), EntropySGD(tau=9.0, outer_step_size=0.5)])
def test_without_momentum_the_chain_is_the_library_s(settings):
    plain = build([settings], Quadratic())
    heavy = momentum.build([settings], Quadratic(), momentum=0.0, outer_momentum=0.0)
    keys, weights = Keys.derive([1]), torch.randn(1, 30)
    one, other = plain.init(weights), heavy.init(weights)
    for _ in range(3):
        one, _ = plain.step(one, keys)
        other, _ = heavy.step(other, keys)
    assert_close(one.weights, other.weights)


def ladder(**changes):
    problem = Problem(dataset="digits2", architecture=Architecture(hidden=(8,)))
    known = {"taus": (0.5, 4000.0), "epochs": 12.0, "batch_size": 32, "fit": 4.0, "records": 2, "step_size": 0.1}
    return Ladder(problem=problem, **{**known, **changes})


def test_a_ladder_says_where_each_chain_stays(tmp_path):
    found = climb(ladder(), Runtime(), tmp_path)
    rows = {(row["start"], row["tau"]): row for row in found["chains"]}
    assert len(rows) == 4
    hot, cold = rows["sgd", 0.5], rows["sgd", 4000.0]
    assert hot["mean_error"] > 0.3 > cold["mean_error"]
    assert rows["base", 0.5]["first_error"] > cold["first_error"]
    assert abs(hot["mean_error"] - rows["base", 0.5]["mean_error"]) < 0.1
    assert cold["r_hat"] > hot["r_hat"]  # from the base measure the cold chain is still under way
    assert cold["epsilon"] == pytest.approx(8000 * hot["epsilon"])
    assert all(cold[name] >= cold["last_error"] for name in verdict.WEIGHTS)


def test_there_is_no_law_and_no_bound_where_starts_do_not_meet():
    rows = [rung(1.0, 0.20, start="base"), rung(1.0, 0.21), rung(4.0, 0.05), rung(4.0, 0.30, start="base")]
    found = pl.DataFrame(rows)
    first, second = verdict.laws(found, algorithm="Entropy-SGLD")
    assert (first.met, second.met) == (True, False)
    assert [one["law"].times for one in verdict.certified(found)] == [1.0]
    assert first.most == pytest.approx(0.212)  # the worse start, two standard errors above


def test_divergences_of_a_ladder_err_upwards():
    # an exponential law of losses: E under tilt t is 1/(1 + t), -ln Z = ln(1 + t), KL = ln(1 + t) - t/(1 + t)
    taus = np.geomspace(0.01, 50.0, 200)
    root = sqrt(60_000)
    rows = [
        rung(t / root, 0.1, algorithm="SGLD", mean_loss=1 / (1 + t), mean_loss_mcse=0.0, prior_loss=1.0) for t in taus
    ]
    for law, kl in verdict.integrated(pl.DataFrame(rows), **verdict.MAIN, algorithm="SGLD"):
        t = law.rows[0]["tau"]
        truth = math.log1p(t) - t / (1 + t)
        assert truth - 1e-9 <= kl <= truth + 0.1


@pytest.mark.parametrize("times", [2.0, 8.0])
def test_a_shortened_path_is_as_long_as_the_printed_one(times):
    steps = 20_000
    few = shortened(steps, times)

    def length(count):
        return math.fsum(t**-DECAY for t in range(1, count + 1))

    assert times * length(few) >= length(steps) > times * length(few - 1)
    assert few < steps / times**2


def test_local_entropy_and_bound_have_one_optimum_and_a_wrong_sign_is_noticed(tmp_path):
    plane = Plane(dataset="digits2", examples=100, means=7, cells=31, rounds=1500)

    result = compute(plane, Runtime(), tmp_path)
    rows = [{"what": "mean", **row} for row in result["points"]]
    rows += [{"what": "search", **row} for row in result["searched"]]
    table = pl.DataFrame([{name: row.get(name) for name in COLUMNS} for row in rows], schema=COLUMNS)
    assert all(one.holds for one in list(claims(table, "cpu"))[:3])
    wrong = table.with_columns(pl.col("local_entropy_nats") * -1.0)
    assert [one.holds for one in claims(wrong, "cpu")][:2] == [False, False]
    assert LOCAL_ENTROPY.jobs("cpu", 0)[0].kind is PLANE
