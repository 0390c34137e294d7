"""Faults of whole computations: what is counted, on which rows. Each makes a certificate that is false.

A fault comes as two ways to compute a certificate from the same data sets of a world: the faulty one must be caught by
the harness of ``tests.coverage``, at its full cost, and the sound one must not. ``pacdp`` refuses them before any
number is made: REFUSED in ``test_planted`` shows where.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import bounds
from tests.coverage.harness import Cases, World
from tests.coverage.tight import none_at
from tests.coverage.worlds import DELTA


@dataclass(frozen=True)
class Fault:
    """A name, a world, and the two computations."""

    name: str
    world: World
    faulty: Callable[..., Any]
    sound: Callable[..., Any]


def copied_rows(rng, datasets):
    """40 examples of which the data set holds every one twice, just above the exact bound at 3 errors"""
    rate = bounds.clopper_pearson_upper(3, 40, DELTA) * (1 + 1e-9)
    errors = rng.binomial(40, rate, datasets)
    columns = {"rows_in_error": 2 * errors, "rows": 80, "distinct_in_error": errors, "distinct": 40}
    return Cases(columns | {"failure_prob": DELTA}, np.full(datasets, rate))


def batches_of_losses(rng, datasets):
    """80 examples in 8 batches of 10, a network whose mean loss is 0.3"""
    losses = rng.beta(3, 7, (datasets, 8, 10))
    return Cases({"losses": losses, "failure_prob": DELTA}, np.full(datasets, 0.3))


def patients(rng, datasets):
    """60 people with 20 examples each, who are wrong on all of theirs or on none, at the rate of no error"""
    rate = none_at(60, np.log(1 / DELTA))
    wrong = rng.random((datasets, 60)) < rate
    return Cases({"wrong": wrong.astype(np.float64), "each": 20, "failure_prob": DELTA}, np.full(datasets, rate))


def learnt_prior(rng, datasets):
    """40 rows, a prior that is the best of 2,000 coin-flipping hypotheses on 20 of them, and a posterior that is it"""
    seen = rng.binomial(20, 0.5, (datasets, 2000)).min(axis=1)
    fresh = rng.binomial(20, 0.5, datasets)
    columns = {"all_risk": (seen + fresh) / 40, "fresh_risk": fresh / 20, "failure_prob": DELTA}
    return Cases(columns, np.full(datasets, 0.5))


def rows_counted(rows_in_error, rows, failure_prob):
    return bounds.clopper_pearson_upper(rows_in_error, rows, failure_prob)


def distinct_counted(distinct_in_error, distinct, failure_prob):
    return bounds.clopper_pearson_upper(distinct_in_error, distinct, failure_prob)


def one_number_a_batch(losses, failure_prob):
    """A loss that ends in ``.mean()``, added up as if it were one value an example."""
    total = sum(float(batch.mean()) for batch in losses)
    return bounds.kl_chernoff_upper(total / losses.size, losses.size, failure_prob)


def one_number_an_example(losses, failure_prob):
    total = sum(float(batch.sum()) for batch in losses)
    return bounds.kl_chernoff_upper(total / losses.size, losses.size, failure_prob)


def people_as_examples(wrong, each, failure_prob):
    return bounds.clopper_pearson_upper(int(each * wrong.sum()), each * wrong.size, failure_prob)


def people_as_people(wrong, each, failure_prob):
    sample = bounds.people_sample(losses=np.repeat(wrong, each), people=np.repeat(np.arange(wrong.size), each))
    return bounds.new_person_kl(sample=sample, failure_prob=failure_prob)


def on_rows_that_the_prior_saw(all_risk, failure_prob):
    return bounds.maurer(risk=all_risk, kl_nats=0.0, n=40, failure_prob=failure_prob)


def on_rows_that_it_did_not_see(fresh_risk, failure_prob):
    return bounds.maurer(risk=fresh_risk, kl_nats=0.0, n=20, failure_prob=failure_prob)


FAULTS = (
    Fault("n counts copies", copied_rows, rows_counted, distinct_counted),
    Fault("loss reduced over the batch", batches_of_losses, one_number_a_batch, one_number_an_example),
    Fault("people counted as examples", patients, people_as_examples, people_as_people),
    Fault("prior rows in the bound set", learnt_prior, on_rows_that_the_prior_saw, on_rows_that_it_did_not_see),
)
