"""Plans are formulas of bounds at what is assumed, and the command prints them without torch."""

import json
import math
import subprocess
import sys

import bounds
from pacdp.cli.main import main
from pacdp.selfcert.plan import COMPRESSION, HELD_OUT, NOISY, PAC_BAYES, plan_routes


def test_every_number_is_a_bound_at_what_is_assumed():
    plan = plan_routes(n=10_000, expected_error=0.02)
    errors = math.ceil(0.02 * 2**0.5 * 5_000)
    assert plan.at(HELD_OUT, "50:50").value == bounds.clopper_pearson_upper(errors, 5_000, 0.05)
    assert plan.at(PAC_BAYES, "80:20").value == bounds.maurer(risk=0.02, kl_nats=2.5, n=2_000, failure_prob=0.05).value
    assert plan.at(COMPRESSION).value == bounds.compression(k=500, n=10_000, failure_prob=0.05).value
    price = bounds.RealisedSum(contributions=100.0, records=10_000)
    noisy = bounds.maurer(risk=0.03, kl_nats=0.0, n=10_000, failure_prob=0.05, price=price)
    assert plan.at(NOISY).value == noisy.value
    values = [one.value for one in plan.routes]
    assert values == sorted(values)


def test_the_best_split_is_no_worse_than_any_of_a_list_and_more_records_never_hurt():
    plan = plan_routes(n=2_000, expected_error=0.05)
    best = plan.at(HELD_OUT, "best split")
    for train in range(200, 2_000, 20):  # the plan's own list
        errors = math.ceil(0.05 * (2_000 / train) ** 0.5 * (2_000 - train) - 1e-9)
        assert best.value <= bounds.clopper_pearson_upper(errors, 2_000 - train, 0.05)
    assert best.train + best.bound == 2_000


def test_the_records_that_a_target_needs_reach_it_and_much_fewer_do_not():
    plan = plan_routes(n=5_000, expected_error=0.04, target=0.03)
    assert plan.needed > 5_000
    enough, fewer = (
        plan_routes(n=n, expected_error=0.04 * (5_000 / n) ** 0.5).at(HELD_OUT).value
        for n in (plan.needed, round(0.9 * plan.needed))
    )
    assert enough <= 0.03 < fewer
    assert f"{plan.needed:,} records" in plan.recommendation()


def test_a_route_that_could_not_win_for_nothing_is_refused_with_both_numbers():
    plan = plan_routes(n=1_437, expected_error=0.0167)
    least = plan.at(NOISY).at_price_zero
    assert least == bounds.maurer(risk=36 / 1_437, kl_nats=0.0, n=1_437, failure_prob=0.05).value
    count = plan.at(HELD_OUT)
    assert [NOISY in said for said in plan.refused].count(True) == (least >= count.value)
    assert count.at_price_zero == count.value
    assert all(one.at_price_zero <= one.value for one in plan.routes)
    assert not any(COMPRESSION in said for said in plan.refused)
    assert plan_routes(n=1, expected_error=0.1).refused == ()
    # at the split where a price is least a route may lose that for nothing wins at another one
    for n, error, lost in ((10_000, 0.01, False), (1_000, 0.03, False), (60_000, 0.0, True)):
        plan = plan_routes(n=n, expected_error=error)
        bounded = ((n - train, math.ceil(error * (n - train) - 1e-9)) for train in range(n // 10, n, n // 100))
        least = min(bounds.maurer(risk=wrong / m, kl_nats=0.0, n=m, failure_prob=0.05).value for m, wrong in bounded)
        assert (least >= plan.at(HELD_OUT).value) == lost == any(PAC_BAYES in said for said in plan.refused)


def test_a_handful_of_records_makes_a_plan_and_not_an_error():
    assert all(plan_routes(n=n, expected_error=0.0).recommendation() for n in (1, 2, 3))


def test_the_command_says_which_route_and_how_many(capsys):
    asked = ["bound", "plan", "--n", "60000", "--expected-error", "0.02", "--target", "0.03"]
    main([*asked, "--json"])
    plan = json.loads(capsys.readouterr().out)
    assert plan["recommendation"].startswith("Take the route 'held-out count'")
    main(asked)
    assert "train on 53,400 records" in capsys.readouterr().out


def test_a_plan_imports_neither_torch_nor_scikit_learn():
    code = (
        "import sys; from pacdp.selfcert.plan import plan_routes; plan_routes(n=100, expected_error=.1);"
        "sys.exit(bool({'torch', 'sklearn', 'matplotlib'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
