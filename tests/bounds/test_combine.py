"""The best of J certificates, and the overall certificate: paid for or refused."""

import json
from dataclasses import replace
from functools import partial
from itertools import permutations
from math import fsum, log

import pytest
from cells import read_again, refused
from kl_by_mpmath import kl_upper

from bounds import (
    FailureBudget,
    best_of,
    correlated_risk_upper,
    declared,
    gibbs_risk_upper,
    log_xi,
    maurer,
    overall_certificate,
    proved,
    unproved,
)
from bounds.printed import dp_pac_bayes

RISK = gibbs_risk_upper(mean=0.02, draws=5000, failure_prob=0.01)
STEP = partial(maurer, kl_nats=20.0, n=6000)


def candidates(failure_prob, risks=(0.2, 0.1, 0.3)):
    return [maurer(risk=risk, kl_nats=1.0, n=100, failure_prob=failure_prob) for risk in risks]


def ledger():
    return FailureBudget(0.05).spend("Monte Carlo", 0.01).spend("PAC step", 0.03)


overall = partial(overall_certificate, risk=RISK, bound=STEP, budget=ledger())


def test_best_of_formal_guarantee_is_paid_by_the_sum():
    budget = FailureBudget(0.05).spend("checkpoints compared", 0.03)
    made = candidates(budget.share("checkpoints compared", 3))
    best = best_of(made, budget=0.03)
    assert best.value == min(one.value for one in made) == made[1].value
    assert best.failure_prob == pytest.approx(0.03, rel=1e-15)
    assert best.terms["compared"] == 3
    assert (best.inputs["chosen"], best.inputs["chosen_position"], best.inputs["risk"]) == ("maurer", 1, 0.1)
    assert fsum(best.budget.values()) <= best.failure_prob * (1 + 1e-15)
    assert read_again(best) == best
    assert best_of(made, budget=FailureBudget(0.05).spend("Monte Carlo", 0.01)) == best  # 0.04 is left


def test_best_of_refuses_one_of_twelve_settings_beside_one_of_one():
    """The first owes twelve times what it says; twelve of them pay for each other."""

    def said(by):
        return [one.resting_on(declared("settings fixed beforehand", by)) for one in candidates(0.05 / 12)]

    of_twelve = said("the caller: a list of 12 settings, all paid for")
    refused(r"one of as many settings, got one of 1 and one of 12; .*tried\(12\)", best_of,
            [of_twelve[0], said("the caller")[1]], budget=0.05)  # fmt: skip
    assert best_of(4 * of_twelve, budget=0.05).failure_prob == pytest.approx(0.05)


def test_best_of_refuses_what_was_not_paid_and_says_how_to_pay():
    refused(
        r"at most 0\.05, got 0\.15: to choose among 3, divide failure_prob by 3", best_of, candidates(0.05), budget=0.05
    )
    spent = FailureBudget(0.05).spend("Monte Carlo", 0.03)
    refused(r"at most 0\.02, got 0\.03", best_of, candidates(0.01), budget=spent)
    refused(r"^certificates must sum", best_of, candidates(0.4), budget=0.9)  # 1.2
    refused(r"^total must", best_of, candidates(0.01), budget=1.0)


def test_comparisons_of_comparisons_count_everything():
    first = best_of(candidates(0.005), budget=0.015)
    second = best_of(candidates(0.005, risks=(0.05, 0.4)), budget=0.01)
    best = best_of([first, second], budget=0.025)
    assert best.terms["compared"] == 5
    assert best.failure_prob == pytest.approx(0.025)
    among = json.loads(best.inputs["among"])
    assert [one[2] for one in among] == [one.value for one in (*candidates(0.005), *candidates(0.005, (0.05, 0.4)))]
    assert among[best.inputs["chosen_position"]] == ["maurer", best.of, best.value, 0.005]
    assert best.budget == {"bound": 0.005, "other certificates compared": pytest.approx(0.02)}
    refused("divide failure_prob by 2", best_of, [first, second], budget=0.02)


def test_what_is_proved_of_one_statement_is_not_proved_of_another():
    """All must hold together: of the same name the weakest standing counts, in whatever order they come."""
    standings = [
        unproved("chain stationary", "nobody looked"),
        declared("chain stationary", "the caller"),
        proved("chain stationary", "the law was sampled exactly"),
    ]
    made = [one.resting_on(known) for one, known in zip(candidates(0.01), standings, strict=True)]
    for order in permutations(made):
        best = best_of(order, budget=0.03)
        assert best.hypothesis("chain stationary") == standings[0]
        assert best.status == "optimistic"
    assert best_of(made[1:], budget=0.02).hypothesis("chain stationary") == standings[1]
    drawn = proved("draws independent", "a generator of their own")
    guess = unproved("draws independent", "one chain")
    for first, second in ((drawn, guess), (guess, drawn)):
        both = overall(risk=RISK.resting_on(first), bound=lambda known=second, **given: STEP(**given).resting_on(known))
        assert both.hypothesis("draws independent") == guess


def test_what_measures_different_risks_is_not_compared():
    bound = partial(maurer, kl_nats=1.0, n=100, failure_prob=0.01)
    half_brier = replace(bound(risk=0.01), measures="half the Brier risk")
    for one in (candidates(0.01)[0], best_of(candidates(0.01), budget=0.03)):
        refused(
            r"^certificates must measure one risk, got half the Brier risk, risk",
            best_of,
            [one, half_brier],
            budget=0.05,
        )
    drawn = replace(candidates(0.01)[1], of="one draw")
    assert best_of([candidates(0.01)[0], drawn], budget=0.05).of == "one draw"


def test_overall_certificate_is_kl_inverse_within_kl_inverse():
    made = overall()
    inner = kl_upper(0.02, -log(0.01) / 5000)
    outer = kl_upper(inner, (20.0 + log_xi(6000) - log(0.03)) / 6000)
    assert float(outer) <= made.value <= float(outer) * (1 + 1e-12)
    assert made.failure_prob == pytest.approx(0.04)
    assert dict(made.budget) == {"Monte Carlo": 0.01, "PAC step": 0.03}
    assert (made.terms["empirical_risk"], made.terms["monte_carlo_draws"]) == (RISK.value, 5000)
    assert read_again(made) == made
    assert made.value > STEP(risk=0.02, failure_prob=0.03).value


def test_further_entries_are_charged_and_chains_stay_optimistic():
    budget = ledger().spend("log partition", 0.005)
    chain = correlated_risk_upper(chain=[0.1, 0.2] * 50, failure_prob=0.01)
    made = overall(risk=chain, budget=budget)
    assert made.failure_prob == pytest.approx(0.045)
    assert made.status == "optimistic"
    assert set(made.unproved) == set(chain.unproved)
    private = overall(
        risk=gibbs_risk_upper(mean=0.1, draws=900, failure_prob=0.01),
        bound=partial(dp_pac_bayes, kl_nats=3.0, n=5000, epsilon=0.01),
        budget=budget,
    )
    assert private.nats("transfer") > private.nats("kl")


def test_overall_certificate_refuses_what_the_ledger_does_not_pay():
    for missing, other in permutations(("Monte Carlo", "PAC step")):
        refused(f"^budget must have an entry '{missing}'", overall, budget=FailureBudget(0.05).spend(other, 0.01))
    wrong = gibbs_risk_upper(mean=0.02, draws=5000, failure_prob=0.02)
    refused(r"^risk must fail with at most the 0\.01", overall, risk=wrong)
    refused(r"^risk must come from", overall, risk=STEP(risk=0.1, failure_prob=0.01))
    charged = lambda **given: STEP(**given).charged("log partition", 0.001)  # noqa: E731
    refused(r"^bound must fail with at most the 0\.03", overall, bound=charged)
