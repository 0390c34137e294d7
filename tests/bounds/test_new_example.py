"""The risk for a new example when people differ in size: theorems, twins, exact worlds."""

import math
from functools import partial

import mpmath as mp
import numpy as np
import people_by_mpmath as slow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kl_by_mpmath import kl, kl_upper

import bounds
from bounds import PeopleSample, new_example_betting, new_example_kl, new_example_pac_bayes
from bounds.means import ratio_betting_upper

LEVEL = 0.05
totals = st.tuples(st.integers(1, 400), st.integers(1, 60), st.floats(0, 1), st.floats(0, 1))


def of(sizes, sums):
    return PeopleSample(sizes=np.array(sizes), sums=np.array(sums, dtype=np.float64))


def told(sample, most_examples, failure_prob=LEVEL):
    counts = {"n": sample.n, "examples": sample.examples, "most_examples": most_examples}
    return {"risk": sample.example_risk, **counts, "failure_prob": failure_prob}


def by_kl(sample, most_examples, failure_prob=LEVEL):
    return new_example_kl(**told(sample, most_examples, failure_prob)).value


def by_pac_bayes(sample, most_examples, failure_prob=LEVEL):
    return new_example_pac_bayes(**told(sample, most_examples, failure_prob), kl_nats=0.0).value


def by_betting(sample, most_examples, failure_prob=LEVEL):
    return new_example_betting(sample=sample, most_examples=most_examples, failure_prob=failure_prob).value


every_bound = pytest.mark.parametrize("bound", [by_kl, by_pac_bayes, by_betting])


@given(totals)
def test_kl_of_a_ratio_against_fifty_digits(drawn):
    """At the value the sample refutes the ratio, just below it does not, and above it does everywhere."""
    n, most, part, risk = drawn
    examples = n + int(part * n * (most - 1))
    effective, nats = mp.mpf(examples) / most, mp.log(1 / mp.mpf(LEVEL))
    made = mp.mpf(new_example_kl(risk=risk, n=n, examples=examples, most_examples=most, failure_prob=LEVEL).value)
    against = partial(slow.statistic, risk=risk, n=n, effective=effective, nats=nats)
    if made < 1:
        for step in (0, 1, 4, 7):
            assert against(made + (1 - made) * step / 8) >= nats
    nearly = made * (1 - mp.mpf("1e-9"))
    assert nearly <= risk or against(nearly) < nats
    share = effective / n  # and it is never above the shifted bound
    looser = kl(share * risk + (1 - share) * nearly, nearly)
    assert nearly <= risk or looser <= nats / n


@given(totals, st.floats(0, 50))
def test_pac_bayes_against_fifty_digits(drawn, kl_nats):
    n, most, part, risk = drawn
    examples = n + int(part * n * (most - 1))
    counts = {"n": n, "examples": examples, "most_examples": most, "failure_prob": LEVEL}
    made = new_example_pac_bayes(risk=risk, kl_nats=kl_nats, **counts)
    nats = mp.mpf(kl_nats) + mp.mpf(bounds.log_xi(n)) + mp.log(1 / mp.mpf(LEVEL))
    truth = kl_upper(risk, nats * most / examples)
    assert truth <= made.value <= truth * (1 + mp.mpf("1e-12"))
    assert made.total_nats >= nats
    assert made.total_per_example == pytest.approx(float(nats * most / examples), rel=1e-12)


@pytest.mark.parametrize(("least", "spread"), [(1, 20), (25, 2)], ids=["bets at their limit", "free bets"])
def test_betting_on_a_ratio_the_wealth_is_there(least, spread):
    """At the returned ratio the wealth, recomputed at 50 digits, is 1/failure_prob or more; it grows with the ratio."""
    rng = np.random.default_rng(4)
    sizes = rng.integers(least, 30, 40)
    sums = sizes * rng.beta(2, spread, 40)
    found = mp.mpf(by_betting(of(sizes, sums), 30))
    wealth = partial(slow.log_wealth, sizes=sizes, sums=sums, most_examples=30, failure_prob=LEVEL)
    assert mp.log(20) - mp.mpf("1e-9") <= wealth(found) <= mp.log(20) + mp.mpf("1e-5")
    points = [found * k / 10 for k in range(1, 11)] + [found + (1 - found) * k / 10 for k in range(1, 10)]
    found = [wealth(point) for point in points]
    assert found == sorted(found)


KINDS = [(0.35, 1, 0), (0.2, 1, 1), (0.2, 3, 1), (0.15, 8, 1), (0.1, 8, 8)]
HEAVY = [(0.8, 1, 0), (0.12, 20, 0), (0.08, 20, 20)]
ALIKE = [(0.55, 10, 0), (0.45, 10, 10)]


@every_bound
@pytest.mark.parametrize("kinds", [KINDS, HEAVY, ALIKE], ids=["mixed", "heavy", "all or nothing"])
def test_coverage_of_a_new_example_over_every_sample(bound, kinds):
    truth, most = slow.new_example(kinds), max(size for _, size, _ in kinds)
    for level in (0.4, 0.06):
        told = partial(bound, most_examples=most, failure_prob=level)
        assert slow.failures(lambda a, b, told=told: told(of(a, b)), kinds, 5, truth, bound is by_betting) <= level


@pytest.mark.parametrize("share", [1.0, 2 / 3, 0.5])
def test_examples_as_records_fail_and_so_does_a_third_of_the_cost_left_out(share):
    """One person in twenty has one example, the others 200, all or none lost: the rate is where a bound at this share
    of the cost is refuted by a sample without a loss and with at most one such person."""
    n, most, few = 12, 200, 0.05
    truth = by_kl(of([most] * (n - 1) + [1], [0.0] * n), most, LEVEL**share) * (1 + 1e-9)
    rate = truth * ((1 - few) * most + few) / most
    kinds = [(few, 1, 0), (1 - few - rate, most, 0), (rate, most, most)]

    def missed(bound):
        return slow.failures(lambda a, b: bound(of(a, b)), kinds, n, slow.new_example(kinds))

    assert missed(partial(by_kl, most_examples=most)) <= LEVEL
    cheap = missed(lambda sample: by_kl(sample, most, LEVEL**share))
    assert 0.7 * LEVEL**share <= cheap <= LEVEL**share
    assert share == 1.0 or cheap > 2 * LEVEL
    as_examples = missed(lambda sample: bounds.clopper_pearson_upper(int(sum(sample.sums)), sample.examples, LEVEL))
    assert as_examples > 4 * LEVEL


def test_maurer_s_lemma_for_ratios_over_every_sample():
    """E exp(K kl(R̂‖R)) ≤ ξ(n): equality is near for two people of full size, and K in place of n is all it takes."""
    for kinds in (KINDS, HEAVY, ALIKE, [(0.14, 10, 0), (0.86, 10, 10)]):
        truth, most = slow.new_example(kinds), max(size for _, size, _ in kinds)
        for n in (1, 2, 5):
            mean = _mean_of_exponentials(kinds, n, truth, most, power=1.0)
            assert mean <= math.exp(bounds.log_xi(n))
            if kinds is ALIKE:
                assert mean >= 0.999 * math.exp(bounds.log_xi(n))
                assert _mean_of_exponentials(kinds, n, truth, most, power=1.5) > math.exp(bounds.log_xi(n))
    assert _mean_of_exponentials(HEAVY, 5, slow.new_example(HEAVY), 10, power=1.0) > math.exp(bounds.log_xi(5))


def _mean_of_exponentials(kinds, n, truth, most, power):
    def exponential(sizes, sums):
        return float(mp.exp(power * sum(sizes) / most * kl(sum(sums) / sum(sizes), truth)))

    return slow.expectation(exponential, kinds, n)


@every_bound
def test_laws_of_a_new_example(bound):
    sizes, sums = [3, 1, 7, 2, 40, 5] * 30, [1.0, 0.0, 2.0, 2.0, 3.0, 0.0] * 30
    base = bound(of(sizes, sums), 50)
    assert of(sizes, sums).example_risk < base < 1.0
    assert bound(of(sizes, sums), 50, 0.001) > base
    assert bound(of(sizes, sums), 100) > base  # a larger limit costs
    assert bound(of(sizes, [*sums[:-1], 5.0]), 50) > base
    assert bound(of(sizes * 2, sums * 2), 50) < base
    merged = [2 * size for size in sizes], [2 * total for total in sums]  # pairs of alike people as one
    assert bound(of(*merged), 100) >= bound(of(sizes * 2, sums * 2), 50)


@every_bound
def test_one_example_a_person_gives_the_plain_bound_back(bound):
    losses = (np.arange(50) % 7 == 0) * 1.0
    plain = {
        by_kl: bounds.kl_chernoff_upper(8 / 50, 50, LEVEL),
        by_pac_bayes: bounds.maurer(risk=8 / 50, kl_nats=0.0, n=50, failure_prob=LEVEL).value,
        by_betting: bounds.betting_upper(losses, LEVEL),
    }[bound]
    for most in (1, 12):  # and so do people who all give as many as they may
        assert bound(of(np.full(50, most), most * losses), most) == pytest.approx(plain, rel=1e-11)


def test_betting_sees_that_people_are_alike():
    rng = np.random.default_rng(0)
    sizes = rng.integers(60, 120, 150)
    sums = rng.binomial(sizes, 0.1).astype(float)
    sample = of(sizes, sums)
    assert by_betting(sample, 130) < 0.14 < 0.19 < by_kl(sample, 130) < by_pac_bayes(sample, 130)


def test_prices_of_private_priors_count_people():
    sample = of([3, 1, 7, 2, 40, 5] * 300, [1.0, 0.0, 2.0, 2.0, 3.0, 0.0] * 300)
    mu = bounds.GaussianDP(mu=0.01, adjacency="add-remove", status="exact mechanism")
    for price, prefix in ((bounds.Sharp(epsilon=0.02), "dp_"), (bounds.Accounted(privacy=mu), "private_")):
        nats = price.charge(n=sample.n, failure_prob=LEVEL).nats
        made = new_example_pac_bayes(**told(sample, 40), kl_nats=2.0, price=price)
        assert made.name == f"{prefix}new_example_pac_bayes"
        assert made.nats("transfer") == nats
        assert made.value == pytest.approx(
            bounds.binary_kl_upper(sample.example_risk, (2.0 + bounds.log_xi(1800) + nats) * 40 / sample.examples)
        )
        released = new_example_kl(**told(sample, 40), price=price)
        assert released.value > by_kl(sample, 40)
        for one in (made, released):
            assert one.hypothesis("records independent").unit == "person"
            assert one.hypothesis("privacy covers these rows").standing == "declared"


def test_certificates_say_what_they_rest_on_and_survive_json():
    sample = of([3, 1, 7], [1.0, 0.0, 2.0])
    for made in (
        new_example_kl(**told(sample, 9)),
        new_example_pac_bayes(**told(sample, 9), kl_nats=math.inf),
        new_example_betting(sample=sample, most_examples=9, failure_prob=LEVEL),
    ):
        assert made.measures == "risk of a new example"
        assert made.hypothesis("records independent").unit == "person"
        assert made.status == "rigorous"
        assert {"n", "examples", "most_examples"} <= set(made.inputs)
        assert bounds.Certificate.from_json(made.to_json()) == made


@pytest.mark.parametrize("failure_prob", [5e-324, 1e-300, 0.5, 1 - 1e-16])
@pytest.mark.parametrize("counts", [(1, 1, 1), (1, 1, 10**15), (7, 10**6, 10**6), (10**12, 10**12, 1)])
def test_no_number_breaks_them(counts, failure_prob):
    n, examples, most = counts
    for risk in (0.0, 5e-324, 0.3, 1 - 2**-53, 1.0):
        given_numbers = {"n": n, "examples": examples, "most_examples": most, "failure_prob": failure_prob}
        assert risk <= new_example_kl(risk=risk, **given_numbers).value <= 1.0
        for kl_nats in (0.0, 1e308, math.inf):
            assert risk <= new_example_pac_bayes(risk=risk, kl_nats=kl_nats, **given_numbers).value <= 1.0


def test_misuse_is_refused():
    sample = of([3, 1, 7], [1.0, 0.0, 2.0])
    with pytest.raises(ValueError, match=r"^most_examples must be at least the 7 examples of one person"):
        new_example_betting(sample=sample, most_examples=6, failure_prob=LEVEL)
    base = told(sample, 9) | {"kl_nats": 1.0}
    for changes, word in (
        ({"examples": 28}, "examples"),
        ({"examples": 2}, "examples"),
        ({"most_examples": 0}, "most_examples"),
        ({"most_examples": 2.5}, "most_examples"),
        ({"n": 0}, "n"),
        ({"risk": 1.1}, "risk"),
        ({"kl_nats": -1.0}, "kl_nats"),
        ({"failure_prob": 0.0}, "failure_prob"),
    ):
        with pytest.raises(ValueError, match=rf"^{word} must"):
            new_example_pac_bayes(**{**base, **changes})
        if word != "kl_nats":
            with pytest.raises(ValueError, match=rf"^{word} must"):
                new_example_kl(**{name: v for name, v in {**base, **changes}.items() if name != "kl_nats"})
    for weights in ([0.5], [0.5, 0.0], [0.5, 1.1], [0.5, math.nan]):
        with pytest.raises(ValueError, match=r"^weights must"):
            ratio_betting_upper([0.1, 0.2], weights, LEVEL)
