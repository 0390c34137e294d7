"""The temperature map: a ladder says where chains stay, and what is read off it."""

import math

import polars as pl

import bounds
from experiments.ours.temperature_map import coldest, zero_step
from experiments.runs.gibbs import COPIES, INNER, OUTER, WEIGHTS
from experiments.runs.temperature import Ladder, climb
from pacdp.cli.runtime import Runtime
from pacdp.models import Architecture
from pacdp.problem import Problem
from tests.marks import near, parametrize


def nats(price, n):
    return price.charge(n=n, failure_prob=0.05).nats


def test_a_ladder_says_where_each_chain_stays(tmp_path):
    problem = Problem(dataset="digits2", architecture=Architecture(hidden=(8,)))
    found = climb(Ladder(problem=problem, taus=(0.5, 4000.0), epochs=12.0, batch_size=32, fit=4.0, records=2,
                         step_size=0.1), Runtime(), tmp_path)  # fmt: skip
    rows = {(row["start"], row["tau"]): row for row in found["chains"]}
    assert len(rows) == 4
    hot, cold, slow = rows["sgd", 0.5], rows["sgd", 4000.0], rows["base", 4000.0]
    assert hot["mean_error"] > 0.3 > cold["mean_error"]
    assert abs(hot["mean_error"] - rows["base", 0.5]["mean_error"]) < 0.1
    assert slow["mean_error"] > cold["mean_error"]  # from the base measure the cold chain is still under way
    assert cold["epsilon"] == near(8000 * hot["epsilon"])
    assert cold["train_error"] == near(cold["mean_error"], abs=0.05)
    (drawn,) = hot["drawn"]
    assert (drawn["law"], drawn["status"]) == (WEIGHTS, "optimistic")
    assert drawn["range_nats"] == near(nats(bounds.Sharp(epsilon=hot["epsilon"] / 2), n=found["n"]))
    assert math.log(20) < drawn["range_nats"] < min(drawn["losses_nats"], drawn["today_nats"])
    assert "losses" not in cold["drawn"][0], "no order of the grid serves so cold a law"


@parametrize(("beta", "laws"), [(0.5, [OUTER]), (1.0, [INNER, OUTER]), (2.0, [COPIES, OUTER])])
def test_the_law_that_is_covered_is_named_and_pays_for_its_own_range(beta, laws, tmp_path):
    problem = Problem(dataset="digits2", architecture=Architecture(hidden=(8,)))
    found = climb(Ladder(problem=problem, algorithm="Entropy-SGLD", taus=(40.0,), starts=("base",), epochs=6.0,
                         batch_size=32, records=1, beta=beta), Runtime(), tmp_path)  # fmt: skip
    (chain,) = found["chains"]
    assert [one["law"] for one in chain["drawn"]] == laws
    half = nats(bounds.Sharp(epsilon=chain["epsilon"] / 2), n=found["n"])  # epsilon = 2 β τ Δ/n
    for one in chain["drawn"]:
        paid = one.get("range_nats") or one["nested_nats"]
        assert paid == near(half) if beta >= 1 else half < paid < one["today_nats"]


def rung(times, error, **changes):
    """What a chain says at so many times the temperature of the paper."""
    return {
        "about": "ladder", "network": "FC100", "algorithm": "Entropy-SGLD", "start": "sgd", "tau": times * 245.0,
        "times": times, "epsilon": 0.03 * times, "mean_error": error, "mean_error_mcse": 0.001, **changes,
    }  # fmt: skip


@parametrize("power", [0.5, 2.0])
def test_the_temperature_of_an_error_is_found_exactly_on_a_power_law(power):
    table = pl.DataFrame([rung(times, 0.2 * times**-power) for times in (1.0, 3.0, 7.0, 200.0)])
    times = 10.0 ** (1.0 / power)
    assert coldest("Entropy-SGLD", "times")(table).mean == near(times)
    assert coldest("Entropy-SGLD", "epsilon")(table).mean == near(0.03 * times)
    assert (
        coldest("Entropy-SGLD", "times")(table.filter(pl.col("times") < 3.5 if power < 1 else pl.col("times") < 2))
        is None
    )
    assert coldest("SGLD", "times")(table) is None


def test_steps_of_no_length_are_the_line_s_value_at_zero():
    rows = [rung(1.0, 0.18 + 0.05 * h, about="steps", algorithm="SGLD", step_size=h) for h in (0.1, 0.2, 0.8)]
    assert zero_step(pl.DataFrame(rows)).mean == near(0.18)
    assert zero_step(pl.DataFrame(rows[:1])) is None
