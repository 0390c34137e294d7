"""The ledger of failure probability."""

import json
from fractions import Fraction
from math import fsum

import pytest
from cells import refused
from hypothesis import given
from hypothesis.strategies import floats, integers, lists

from bounds import FailureBudget


def test_spending_is_recorded_and_overdraft_refused():
    start = FailureBudget(0.05)
    budget = start.spend("posterior sampling", 0.01).spend("transfer", 0.038)
    assert dict(budget.spent) == {"posterior sampling": 0.01, "transfer": 0.038}
    assert budget.left == pytest.approx(0.002)
    assert start.left == 0.05  # immutable
    refused(
        r"^one more look wants 0\.01, 0\.002 is left of the failure probability 0\.05",
        budget.spend,
        "one more look",
        0.01,
    )


def test_rounding_of_sums_is_tolerated_and_nothing_more():
    budget = FailureBudget(0.05)
    for name in "abcde":
        budget = budget.spend(name, 0.01)
    assert budget.left == 0.0
    thirds = FailureBudget(0.1).spend("a", 0.1 / 3).spend("b", 0.1 / 3).spend("c", 0.1 / 3)
    assert thirds.left < 1e-16
    refused("wants", FailureBudget(0.05).spend, "a", 0.05 * (1 + 1e-14))
    assert FailureBudget(0.05).spend("a", 0.05 * (1 + 3 * 2.0**-52)).left == 0.0


@given(total=floats(1e-12, 0.999), weights=lists(floats(1e-6, 1e6), min_size=1, max_size=8))
def test_split_spends_everything_in_proportion(total, weights):
    budget = FailureBudget.split(total, **{f"part{i}": weight for i, weight in enumerate(weights)})
    assert budget.left <= total * 1e-15
    assert list(budget.spent.values()) == pytest.approx([total * w / fsum(weights) for w in weights])


@given(total=floats(1e-9, 0.9), ways=integers(1, 10**6))
def test_shares_never_sum_above_what_was_spent(total, ways):
    budget = FailureBudget(total).spend("grid", total)
    part = budget.share("grid", ways)
    assert Fraction(part) * ways <= Fraction(total)
    assert part == pytest.approx(total / ways)


def test_a_ledger_is_plain_in_json():
    budget = FailureBudget(0.05).spend("Monte Carlo", 0.01).spend("PAC step", 0.03)
    record = json.loads(json.dumps(budget.to_dict()))
    assert FailureBudget(record["total"], tuple(map(tuple, record["entries"]))) == budget


def test_a_total_that_rounds_to_nothing_when_it_is_divided_is_refused():
    with pytest.raises(ValueError, match="total must be large enough for 2 shares"):
        FailureBudget.split(5e-324, a=1.0, b=1.0)
