"""Worlds of people of different sizes who are alike within: what is lost when examples are counted for people."""

import numpy as np
from scipy.stats import binom

from bounds import (
    PeopleSample,
    binary_kl_upper,
    clopper_pearson_upper,
    for_a_new_person,
    gibbs_risk_upper,
    new_example_betting,
    new_example_kl,
    new_example_pac_bayes,
)
from bounds.printed import dp_kl_chernoff
from tests.coverage import mechanisms, tight
from tests.coverage.harness import FRACTIONS, Cases, Entry
from tests.coverage.people import person_monte_carlo
from tests.coverage.worlds import DELTA

MOST = FRACTIONS[0]
_JUST_ABOVE = 1 + 1e-9


def crowd(n, kinds, of, name):
    """n people of a finite set of kinds, (probability, size, sum of losses); the risk of a new person or example."""
    probability, size, total = (np.array(column, dtype=np.float64) for column in zip(*kinds, strict=True))
    truth = probability @ (total / size) if of == "person" else probability @ total / (probability @ size)

    def world(rng, datasets):
        who = rng.choice(len(kinds), size=(datasets, n), p=probability)
        return Cases({"sizes": size.astype(int)[who], "sums": total[who], "most_examples": int(size.max())}, truth)

    world.__doc__ = f"{n} people, {name}, risk of a new {of} {truth:.3f}"
    return world


def few_small(n, bound, fraction=1.0, small=0.05, allowed=1):
    """Some people have one example, the others 200, all or none lost, at the rate where the bound at this fraction of
    its cost is refuted by no loss and at most so many small people."""
    large = 200
    sizes = np.array([large] * (n - allowed) + [1] * allowed)
    refuted = bound(sizes=sizes, sums=0.0 * sizes, most_examples=large, failure_prob=DELTA**fraction)
    rate = float(refuted) * _JUST_ABOVE * ((1 - small) * large + small) / large
    kinds = [(small, 1, 0), (1 - small - rate, large, 0), (rate, large, large)]
    return crowd(n, kinds, "example", f"{small:.0%} with 1 example, the others with 200, {fraction:.2g} of the cost")


def lucky_crowd(n, nats, rate, full):
    """The luckiest of e^nats hypotheses; a part of the people gave 10⁶ examples, all or none lost, the others one."""
    large, many = 10**6, np.arange(n + 1)

    def world(rng, datasets):
        of_size = rng.binomial(n, full, datasets)
        lost = np.empty(datasets)
        for count in np.unique(of_size):
            here = of_size == count
            log_cdf = binom.logcdf(many, count, rate)
            lost[here] = np.searchsorted(log_cdf, np.log(rng.exponential(size=here.sum())) - nats)
        examples = of_size * large + n - of_size
        return Cases(
            {
                "risk": lost * large / examples,
                "kl_nats": float(nats),
                "n": n,
                "examples": examples,
                "most_examples": large,
            },
            full * rate * large / (full * large + 1 - full),
        )

    world.__doc__ = f"{n} people, {full:g} of them large, the luckiest of e^{nats:g} hypotheses of rate {rate:g}"
    return world


def fresh_weights(sizes, passes, rates):
    """Fresh weights for every example in every pass: each example errs at the rate of its person."""
    sizes, rates = np.array(sizes), np.array(rates)

    def world(rng, datasets):
        wrong = rng.binomial(passes * sizes, rates, (datasets, sizes.size)) / passes
        return Cases({"sizes": np.tile(sizes, (datasets, 1)), "sums": wrong, "passes": passes}, rates.mean())

    world.__doc__ = f"Monte Carlo, {passes} passes over people of {', '.join(map(str, sizes))} examples"
    return world


def kl_of_ratio(sizes, sums, most_examples, failure_prob):
    sample = PeopleSample(sizes=sizes, sums=sums)
    counts = {"n": sample.n, "examples": sample.examples, "most_examples": most_examples}
    return new_example_kl(risk=sample.example_risk, **counts, failure_prob=failure_prob)


def betting_on_ratio(sizes, sums, most_examples, failure_prob):
    sample = PeopleSample(sizes=sizes, sums=sums)
    return new_example_betting(sample=sample, most_examples=most_examples, failure_prob=failure_prob)


def released_to_people(risk, n, epsilon, failure_prob):
    made = dp_kl_chernoff(risk=risk, n=n, epsilon=epsilon, failure_prob=failure_prob)
    return for_a_new_person(made)


UNLIKE = [(0.35, 1, 0), (0.2, 1, 1), (0.2, 3, 1), (0.15, 8, 1), (0.1, 8, 8)]
HEAVY = [(0.8, 1, 0), (0.12, 20, 0), (0.08, 20, 20)]
EXAMPLE = (crowd(12, UNLIKE, "example", "unlike"), crowd(40, HEAVY, "example", "a fifth of them large"))
RATE = tight.none_at(40, np.log(1 / DELTA))
PERSON = (crowd(40, [(1 - RATE, 25, 0), (RATE, 25, 25)], "person", "25 examples each, all or none lost"),)
LUCKY = (lucky_crowd(2000, 60.0, 0.3, full=0.5),)
FEW = tuple(few_small(12, kl_of_ratio, fraction) for fraction in (1.0, MOST))
EVEN = (fresh_weights((5, 5, 5), 4, [tight.none_at(60, MOST * np.log(1 / DELTA))] * 3),)
UNEVEN = (fresh_weights((1, 50, 50), 1, (0.9, 0.0, 0.0)),)
RESPONSE = (mechanisms.randomised_response(4000, 6 * np.sqrt(8 / 4000)),)

ENTRIES = [
    Entry("new_example_kl, sizes at random", kl_of_ratio, (*EXAMPLE, FEW[0]), FEW[1:], share=0.6),
    Entry(
        "new_example_betting, sizes at random",
        betting_on_ratio,
        EXAMPLE[:1],
        (few_small(3, betting_on_ratio, MOST, small=0.01, allowed=0),),
    ),
    Entry("new_example_pac_bayes, sizes at random", new_example_pac_bayes, LUCKY, LUCKY),
    Entry("new_person_monte_carlo, uneven people", person_monte_carlo, UNEVEN, EVEN),
    Entry("for_a_new_person of dp_kl_chernoff", released_to_people, RESPONSE, RESPONSE),
]


def examples_as_people(sizes, sums, failure_prob):
    """Every example counts as an independent record."""
    return clopper_pearson_upper(int(sums.sum()), int(sizes.sum()), failure_prob)


def limit_halved(sizes, sums, most_examples, failure_prob):
    """People have up to twice as many examples as the bound is told."""
    sample = PeopleSample(sizes=sizes, sums=sums)
    effective = sample.examples / (most_examples / 2)
    return binary_kl_upper(sample.example_risk, np.log(1 / failure_prob) / effective)


def examples_as_draws(sizes, sums, passes, failure_prob):
    """Every example counts as one draw of the mean over people, whatever its weight."""
    sample = PeopleSample(sizes=sizes, sums=sums)
    draws = sample.examples * passes
    return gibbs_risk_upper(mean=sample.person_risk, draws=draws, failure_prob=failure_prob)


def privacy_of_examples(risk, n, epsilon, failure_prob):
    """Twenty examples a person, each as private as a twentieth of the person, all counted as records."""
    return dp_kl_chernoff(risk=risk, n=20 * n, epsilon=epsilon / 20, failure_prob=failure_prob)


BROKEN = [
    Entry("examples counted as people", examples_as_people, PERSON),
    Entry("examples of people of different sizes counted as records", examples_as_people, EXAMPLE),
    Entry("limit of examples understated", limit_halved, FEW[1:]),
    Entry("examples of a person counted as draws", examples_as_draws, UNEVEN),
    Entry("privacy of examples for people", privacy_of_examples, RESPONSE),
]
