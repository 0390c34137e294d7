"""Worlds of people with several examples each, and what the bounds for new people and new examples are told of them."""

from functools import partial
from math import log

import numpy as np

from bounds import (
    PeopleSample,
    for_a_new_person,
    maurer,
    new_example_betting,
    new_example_kl,
    new_example_monte_carlo,
    new_example_pac_bayes,
    new_person_bernstein,
    new_person_clopper_pearson,
    new_person_monte_carlo,
    new_person_second_moment,
)
from tests.coverage.adapters import shared
from tests.coverage.costs import bernstein
from tests.coverage.harness import Cases

EACH = 4
LARGEST = 10


def person(bound, failure_prob, n=None, k=None, values=None, each=EACH, ways=1, fraction=1.0):
    """A bound for a new person from k of n people who are wrong on all of theirs, or from each one's mean loss."""
    means = 1.0 * (np.arange(n) < k) if values is None else values
    sample = PeopleSample(sizes=np.full(means.size, each), sums=np.minimum(each, each * means))
    return bound(sample=sample, failure_prob=shared(failure_prob, ways, fraction))


person_clopper_pearson = partial(person, new_person_clopper_pearson, each=1)
person_bernstein = partial(person, new_person_bernstein, ways=2)


def person_second_moment(failure_prob, n=None, k=None, values=None, fraction=1.0):
    if fraction == 1.0:
        return person(new_person_second_moment, failure_prob, n, k, values)
    return bernstein(k / n, k / n, fraction * log(20 / failure_prob) / n)


def person_maurer(risk, kl_nats, n, failure_prob):
    return for_a_new_person(maurer(risk=risk, kl_nats=kl_nats, n=n, failure_prob=failure_prob))


def example_kl(failure_prob, n, k=None, risk=None, examples=None, fraction=1.0):
    """Of k of n people who are wrong on all of theirs, or of people with a number of examples in all."""
    told = {"risk": risk, "examples": examples, "most_examples": LARGEST}
    if k is not None:
        told = {"risk": k / n, "examples": EACH * n, "most_examples": EACH}
    return new_example_kl(**told, n=n, failure_prob=failure_prob**fraction)


def example_pac_bayes(risk, kl_nats, n, failure_prob, examples=None):
    told = {"examples": EACH * n, "most_examples": EACH}
    if examples is not None:
        told = {"examples": examples, "most_examples": LARGEST}
    return new_example_pac_bayes(risk=risk, kl_nats=kl_nats, n=n, failure_prob=failure_prob, **told)


def example_betting(failure_prob, values, sizes=None):
    most, sizes = (EACH, np.full(values.size, EACH)) if sizes is None else (LARGEST, sizes)
    sample = PeopleSample(sizes=sizes, sums=np.minimum(sizes, sizes * values))
    return new_example_betting(sample=sample, most_examples=most, failure_prob=failure_prob)


def monte_carlo(bound, failure_prob, n=None, k=None, sizes=None, sums=None, passes=2):
    """Passes with fresh weights; or k of the n examples of as many people in one."""
    if k is not None:
        sample = PeopleSample(sizes=np.ones(n, dtype=int), sums=1.0 * (np.arange(n) < k))
        return bound(sample=sample, passes=1, failure_prob=failure_prob)
    return bound(sample=PeopleSample(sizes=sizes, sums=sums), passes=passes, failure_prob=failure_prob)


person_monte_carlo = partial(monte_carlo, new_person_monte_carlo)
example_monte_carlo = partial(monte_carlo, new_example_monte_carlo)


def _sizes(rng, shape):
    """One example or ten."""
    return np.where(rng.random(shape) < 0.3, LARGEST, 1)


def uneven(n, few, many):
    """People with one example or ten, who are wrong on all of theirs at a rate that goes with how many they have."""

    def world(rng, datasets):
        sizes = _sizes(rng, (datasets, n))
        values = 1.0 * (rng.random(sizes.shape) < np.where(sizes == 1, few, many))
        examples = sizes.sum(axis=1)
        columns = {
            "values": values,
            "sizes": sizes,
            "risk": (values * sizes).sum(axis=1) / examples,
            "n": n,
            "examples": examples,
            "kl_nats": 0.0,
        }
        truth = (0.7 * few + 0.3 * LARGEST * many) / (0.7 + 0.3 * LARGEST)
        return Cases(columns, truth)

    world.__doc__ = f"{n} people, those with one example wrong at rate {few:g}, those with ten at {many:g}"
    return world


def fresh_weights(of_people):
    """12 people with one to six examples, fresh weights for every example in two passes."""
    owned = np.array([1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 6])
    owner = np.repeat(np.arange(12), owned)

    def world(rng, datasets):
        rates = rng.uniform(0, 0.3, (datasets, owner.size))
        losses = rng.binomial(2, rates) / 2
        onto = np.eye(12)[owner]
        sums, true = losses @ onto, rates @ onto
        truth = (true / owned).mean(axis=1) if of_people else rates.mean(axis=1)
        return Cases({"sizes": np.tile(owned, (datasets, 1)), "sums": sums}, truth)

    over = "people" if of_people else "examples"
    world.__doc__ = f"Gibbs risk on 12 people with {owner.size} examples, a mean over {over}"
    return world


UNEVEN = (uneven(60, 0.1, 0.4), uneven(60, 0.5, 0.04))
FRESH_PEOPLE, FRESH_EXAMPLES = (fresh_weights(True),), (fresh_weights(False),)
