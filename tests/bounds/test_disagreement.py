"""A network certified by another one: the sum of two bounds, and what it rests on."""

import json
from dataclasses import replace
from math import fsum

import pytest
from cells import read_again, refused

from bounds import Certificate, clopper_pearson_upper, compression, disagreement, proved, unproved

SURROGATE = compression(k=40, n=2000, failure_prob=0.03)


@pytest.mark.parametrize(("k", "n"), [(0, 1), (0, 500), (7, 500), (499, 500), (500, 500)])
@pytest.mark.parametrize("failure_prob", [0.02, 1e-9])
def test_formal_guarantee_the_two_bounds_add_up(k, n, failure_prob):
    made = disagreement(surrogate=SURROGATE, k=k, n=n, failure_prob=failure_prob)
    parts = SURROGATE.value, clopper_pearson_upper(k, n, failure_prob)
    assert min(1.0, fsum(parts)) <= made.value <= min(1.0, fsum(parts) * (1 + 1e-14))
    assert made.failure_prob == pytest.approx(0.03 + failure_prob, rel=1e-15)
    assert (made.terms["surrogate_risk"], made.terms["disagreement"]) == parts
    assert made.budget == {"surrogate": 0.03, "test set": failure_prob}
    again = Certificate.from_dict(json.loads(made.inputs["surrogate"]))
    assert again == SURROGATE
    assert read_again(made) == made


def test_it_rests_on_all_that_the_other_rests_on():
    other = SURROGATE.resting_on(
        proved("learner saw picked records alone", "a replay"),
        proved("records independent", "a draw", "example"),
        unproved("chain stationary", "nothing shows it"),
    )
    made = disagreement(surrogate=other, k=3, n=500, failure_prob=0.02)
    assert made.status == "optimistic"
    assert made.hypothesis("learner saw picked records alone").standing == "proved"
    assert made.hypothesis("records independent").standing == "declared"  # of the unlabelled ones nobody proved it
    assert made.hypothesis("neither network saw the unlabelled rows").standing == "declared"


def test_what_makes_no_sense_is_refused():
    refused(
        r"surrogate must bound the 0-1 risk, got 'ECE'",
        disagreement,
        surrogate=replace(SURROGATE, measures="ECE"),
        k=3,
        n=500,
        failure_prob=0.02,
    )
