"""The wider catalogue: order, exact and simulated failure probabilities, formulas at 50 digits."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from kl_by_mpmath import kl_upper
from scipy import stats

from bounds import (
    ExcessStep,
    Sharp,
    catoni,
    catoni_grid,
    disintegrated,
    disintegrated_renyi,
    gaussian_kl,
    gaussian_log_density_ratio,
    gaussian_renyi,
    kl_chernoff_upper,
    langford_seeger,
    log_xi,
    maurer,
    mcallester,
    prior_scale_grid,
    quadratic,
    recursive,
    split_kl,
    thiemann,
    tolstikhin_seldin,
    unexpected_bernstein,
)


@pytest.mark.parametrize("risk", [0.0, 0.01, 0.3, 0.9])
@pytest.mark.parametrize("kl_nats", [0.0, 20.0, 5000.0])
def test_order_of_the_bounds(risk, kl_nats):
    at = {"risk": risk, "kl_nats": kl_nats, "n": 10_000, "failure_prob": 0.05}
    tight = maurer(**at).value
    for looser in (langford_seeger, mcallester, quadratic, thiemann, tolstikhin_seldin):
        assert tight <= looser(**at).value
    assert quadratic(**at).value <= tolstikhin_seldin(**at).value
    assert langford_seeger(**at).total_nats - maurer(**at).total_nats < 0.48


def test_langford_seeger_constant():
    for n in (1, 7, 60_000):
        made = langford_seeger(risk=0.02, kl_nats=3.0, n=n, failure_prob=0.05)
        assert made.nats("log_two_sqrt_n") == pytest.approx(math.log(2 * math.sqrt(n)), rel=1e-14)
        assert made.nats("log_two_sqrt_n") >= log_xi(n) * (1 - 2e-14)


def test_a_grid_of_one_is_catoni_and_a_longer_one_pays():
    at = {"risk": 0.05, "kl_nats": 500.0, "n": 60_000, "failure_prob": 0.05}
    one = catoni_grid(**at, inverse_temperatures=(30_000,)).value
    assert one == pytest.approx(catoni(**at, inverse_temperature=30_000).value, rel=1e-14)
    grid = [60_000 * 2 ** (-k / 2) for k in range(-4, 17)]
    made = catoni_grid(**at, inverse_temperatures=grid)
    assert made.nats("grid") == pytest.approx(math.log(21), rel=1e-14)
    assert made.terms["inverse_temperature"] in grid
    split = min(catoni(**{**at, "failure_prob": 0.05 / 21}, inverse_temperature=c).value for c in grid)
    assert made.value == pytest.approx(split, rel=1e-12)
    assert made.value < one * 1.01  # 30000 is on the grid: less than one per cent for the choice
    for bad in ((), (1.0, 1.0), (0.0,), (math.nan,), (1.0, math.inf)):
        with pytest.raises(ValueError, match=r"^inverse_temperatures must"):
            catoni_grid(**at, inverse_temperatures=bad)


def test_scales_are_rounded_to_the_grid_and_paid_for():
    near = prior_scale_grid(scale=0.037, largest=0.1, precision=100)
    assert [point.index for point in near] == [99, 100]
    assert near[0].scale > 0.037 > near[1].scale
    for point in near:
        assert point.scale == 0.1 * math.exp(-point.index / 100)
        assert point.nats == pytest.approx(2 * math.log(point.index) + math.log(math.pi**2 / 6), rel=1e-14)
    total = math.fsum(
        math.exp(-prior_scale_grid(scale=math.exp(-j), largest=1.0, precision=1)[0].nats) for j in range(1, 700)
    )
    assert 0.998 < total < 1.0  # the weights are those of a prior
    for scale in (0.0999, 0.1, 5.0):  # above the grid: its first point, never index 0 or below
        (first,) = {point.index for point in prior_scale_grid(scale=scale, largest=0.1, precision=100)}
        assert first == 1
    for changes in ({"scale": 0.0}, {"scale": math.nan}, {"largest": -1.0}, {"precision": 0}):
        (word,) = changes
        with pytest.raises(ValueError, match=rf"^{word} must"):
            prior_scale_grid(**{"scale": 0.1, "largest": 1.0, "precision": 10, **changes})


@pytest.mark.parametrize("law", [(0.7, 0.2, 0.1), (0.2, 0.75, 0.05), (0.0, 0.5, 0.5)])
def test_coverage_of_three_valued_losses_exactly(law):
    """Point posterior, losses 0, 1/4 and 1: the failure probability is a multinomial sum."""
    n, failure_prob = 14, 0.25
    true = 0.25 * law[1] + law[2]
    mass = {"split": 0.0, "squares": 0.0}
    for middle, high in itertools.product(range(n + 1), repeat=2):
        if middle + high > n:
            continue
        weight = stats.multinomial.pmf([n - middle - high, middle, high], n, law)
        risk, second = (0.25 * middle + high) / n, (0.0625 * middle + high) / n
        at = {"kl_nats": 0.0, "n": n, "failure_prob": failure_prob}
        split = split_kl(levels=(0.0, 0.25, 1.0), shares=((middle + high) / n, high / n), **at)
        assert split.terms["empirical_risk"] == pytest.approx(risk)
        mass["split"] += weight * (split.value < true)
        mass["squares"] += weight * (unexpected_bernstein(risk=risk, second_moment=second, **at).value < true)
    assert max(mass.values()) <= failure_prob


def test_levels_and_squares_pay_off_for_losses_in_the_middle():
    at = {"kl_nats": 20.0, "n": 10_000, "failure_prob": 0.05}
    split = split_kl(levels=(0.0, 0.4, 0.5, 1.0), shares=(1.0, 0.3, 0.001), **at)
    mean = split.terms["empirical_risk"]
    assert split.value - mean < 0.2 * (maurer(risk=mean, **at).value - mean)
    small = unexpected_bernstein(risk=0.05, second_moment=0.0026, **at)
    assert small.value < maurer(risk=0.05, **at).value


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"levels": (0.0, 1.0, 0.5)}, "levels"),
        ({"levels": (0.0,)}, "levels"),
        ({"levels": (-0.5, 0.5, 1.0)}, "levels"),
        ({"shares": (0.1,)}, "shares"),
        ({"shares": (0.1, 0.2)}, "shares"),
        ({"shares": (0.2, math.nan)}, "shares"),
    ],
)
def test_misuse_of_levels(changes, word):
    base = {"levels": (0.0, 0.5, 1.0), "shares": (0.2, 0.1), "kl_nats": 1.0, "n": 10, "failure_prob": 0.05}
    with pytest.raises(ValueError, match=rf"^{word} must"):
        split_kl(**{**base, **changes})


@pytest.mark.parametrize("second", [0.02, 0.31, math.nan])  # the variance, say; or above the risk
def test_impossible_squares_are_refused(second):
    with pytest.raises(ValueError, match=r"^second_moment must"):
        unexpected_bernstein(risk=0.3, second_moment=second, kl_nats=1.0, n=10, failure_prob=0.05)


def test_coverage_of_one_draw_from_a_gibbs_posterior():
    rng = np.random.default_rng(6)
    n, failure_prob, trials = 50, 0.25, 1500
    risks = rng.uniform(0.1, 0.3, 200)
    failures = dict.fromkeys(("ratio", "renyi", "no cost"), 0)
    for counts in rng.binomial(n, risks, size=(trials, risks.size)):
        weight = np.exp(-60.0 * counts / n)
        posterior = weight / weight.sum()
        w = rng.choice(risks.size, p=posterior)
        at = {"risk": counts[w] / n, "n": n, "failure_prob": failure_prob}
        ratio = math.log(posterior[w] * risks.size)
        renyi = math.log(float(posterior @ posterior) * risks.size)
        failures["ratio"] += disintegrated(**at, log_density_ratio=ratio).value < risks[w]
        failures["renyi"] += disintegrated_renyi(**at, renyi_nats=renyi).value < risks[w]
        failures["no cost"] += kl_chernoff_upper(at["risk"], n, failure_prob) < risks[w]
    assert failures["no cost"] > 1.5 * failure_prob * trials  # the draw does overfit
    for name in ("ratio", "renyi"):
        assert stats.binomtest(failures[name], trials, failure_prob, alternative="greater").pvalue > 1e-4


def test_coverage_of_one_draw_under_a_prior_that_met_the_sample():
    """The exponential mechanism names a hypothesis, the prior leans on it; what the split does not pay for, fails."""
    rng = np.random.default_rng(8)
    n, failure_prob, trials, epsilon = 40, 0.2, 1500, 1.5
    risks = rng.uniform(0.15, 0.35, 300)
    failures = dict.fromkeys(("ratio", "renyi", "as if the prior were fixed"), 0)
    for counts in rng.binomial(n, risks, size=(trials, risks.size)):
        chance = np.exp(-0.5 * epsilon * counts)  # replacing one example moves each count by at most one
        named = rng.choice(risks.size, p=chance / chance.sum())
        prior = np.full(risks.size, 0.01 / (risks.size - 1))
        prior[named] = 0.99
        posterior = prior * np.exp(-0.2 * counts)
        posterior /= posterior.sum()
        w = rng.choice(risks.size, p=posterior)
        at = {"risk": counts[w] / n, "n": n, "failure_prob": failure_prob, "price": Sharp(epsilon=epsilon)}
        ratio = math.log(posterior[w] / prior[w])
        renyi = math.log(float(np.sum(posterior * posterior / prior)))
        failures["ratio"] += disintegrated(**at, log_density_ratio=ratio).value < risks[w]
        failures["renyi"] += disintegrated_renyi(**at, renyi_nats=renyi).value < risks[w]
        failures["as if the prior were fixed"] += kl_chernoff_upper(at["risk"], n, failure_prob) < risks[w]
    assert failures["as if the prior were fixed"] > 1.3 * failure_prob * trials  # the release does overfit
    for name in ("ratio", "renyi"):
        assert stats.binomtest(failures[name], trials, failure_prob, alternative="greater").pvalue > 1e-4


def test_how_a_failure_probability_is_split_does_not_depend_on_what_was_measured():
    """A share chosen by looking at the density ratio would have to be paid for."""
    for price in (Sharp(epsilon=0.01), Sharp(epsilon=3.0)):
        at = {"n": 500, "failure_prob": 0.05, "price": price}
        ratios = [disintegrated(risk=0.1, log_density_ratio=x, **at) for x in (-1e17, 0.0, 1e17)]
        divergences = [disintegrated_renyi(risk=0.1, renyi_nats=x, **at) for x in (0.0, 3.0, 1e17, math.inf)]
        for made in (ratios, divergences):
            assert len({tuple(one.budget.items()) for one in made}) == 1


def test_gaussian_costs_of_one_draw():
    rng = np.random.default_rng(9)
    mean_q, mean_p, std_q, std_p = rng.normal(size=30), rng.normal(size=30), 0.3, rng.uniform(0.2, 1.0, 30)
    weights = mean_q + std_q * rng.normal(size=30)
    truth = mp.fsum(
        mp.log(mp.mpf(s) / mp.mpf(std_q))
        + ((mp.mpf(w) - mp.mpf(b)) / mp.mpf(s)) ** 2 / 2
        - ((mp.mpf(w) - mp.mpf(a)) / mp.mpf(std_q)) ** 2 / 2
        for w, a, b, s in zip(weights.tolist(), mean_q.tolist(), mean_p.tolist(), std_p.tolist(), strict=True)
    )
    found = gaussian_log_density_ratio(weights, mean_q, std_q, mean_p, std_p)
    assert truth <= found <= truth + mp.mpf("1e-10")
    assert gaussian_log_density_ratio(mean_q, mean_q, 0.3, mean_q, 0.3) == pytest.approx(0.0, abs=1e-10)
    draws = [
        gaussian_log_density_ratio(mean_q + std_q * rng.normal(size=30), mean_q, std_q, mean_p, std_p)
        for _ in range(3000)
    ]
    spread = np.std(draws) / math.sqrt(3000)
    assert abs(np.mean(draws) - gaussian_kl(mean_q, std_q, mean_p, std_p)) < 5 * spread  # its mean is the divergence
    assert gaussian_renyi(mean_q, mean_p, 0.3) == pytest.approx(2 * gaussian_kl(mean_q, 0.3, mean_p, 0.3), rel=1e-12)
    assert gaussian_renyi([1e200], [0.0], 1e-200) == math.inf
    assert gaussian_log_density_ratio([0.0], [1e200], 1e-200, [1e200], 1e-200) == math.inf
    for bad in (([1.0], [1.0, 2.0], 1.0), ([1.0], [math.nan], 1.0), ([1.0], [1.0], 0.0)):
        with pytest.raises(ValueError, match=r"must"):
            gaussian_renyi(*bad)


def test_disintegrated_check_values():
    """The printed forms are ln(2√n) at least 0.46 nats above ours; a density ratio below 1 is worth something."""
    at = {"risk": 0.02, "n": 30_000, "failure_prob": 0.05}
    cost = disintegrated_renyi(**at, renyi_nats=40.0).total_nats
    assert cost == pytest.approx(40 + math.log(16 * math.sqrt(30_000) / 0.05**3) - 0.4648, abs=1e-3)
    assert disintegrated(**at, log_density_ratio=-100.0).value == 0.02
    assert disintegrated(**at, log_density_ratio=40.0).value == maurer(**at, kl_nats=40.0).value


STEPS = (
    ExcessStep(shares=(0.95, 0.08, 0.02), kl_nats=12.0, n=4_000),
    ExcessStep(shares=(0.97, 0.06, 0.01), kl_nats=30.0, n=2_000),
)
CHAIN = {"risk": 0.12, "kl_nats": 5.0, "n": 8_000, "gamma": 0.5, "failure_prob": 0.05}


def test_recursion_at_fifty_digits():
    made = recursive(**CHAIN, steps=STEPS)
    gamma = mp.mpf("0.5")
    bound = kl_upper(0.12, (5 + mp.mpf(log_xi(8000)) + mp.log(3 / mp.mpf(0.05))) / 8000)
    for step in STEPS:
        c = (mp.mpf(step.kl_nats) + mp.mpf(log_xi(step.n)) + mp.log(9 / mp.mpf(0.05))) / step.n
        widths = (gamma, 1 - gamma, gamma)
        excess = -gamma + sum(width * kl_upper(share, c) for width, share in zip(widths, step.shares, strict=True))
        bound = excess + gamma * bound
    assert bound <= made.value <= bound * (1 + mp.mpf("1e-12"))
    assert made.terms["bound_3"] == made.value


def test_recursion_laws():
    alone = recursive(**CHAIN, steps=())
    assert alone.value == maurer(risk=0.12, kl_nats=5.0, n=8_000, failure_prob=0.05).value
    base = recursive(**CHAIN, steps=STEPS).value
    for changes in ({"risk": 0.2}, {"kl_nats": 50.0}, {"failure_prob": 1e-6}):
        assert recursive(**{**CHAIN, **changes}, steps=STEPS).value > base
    first, second = STEPS
    for worse in (
        ExcessStep(shares=second.shares, kl_nats=90.0, n=second.n),
        ExcessStep(shares=second.shares, kl_nats=second.kl_nats, n=500),
        ExcessStep(shares=(0.99, 0.06, 0.01), kl_nats=second.kl_nats, n=second.n),
    ):
        assert recursive(**CHAIN, steps=(first, worse)).value > base
    nothing = ExcessStep(shares=second.shares, kl_nats=math.inf, n=second.n)
    assert recursive(**CHAIN, steps=(first, nothing)).value == 1.0
    with pytest.raises(ValueError, match=r"^steps must"):  # later steps have fewer unseen examples
        recursive(**CHAIN, steps=(second, first))
    with pytest.raises(ValueError, match=r"^gamma must"):
        recursive(**{**CHAIN, "gamma": 1.0}, steps=STEPS)
    with pytest.raises(ValueError, match=r"^shares must"):
        recursive(**CHAIN, steps=(ExcessStep(shares=(0.1, 0.2, 0.0), kl_nats=1.0, n=10),))


def test_coverage_of_a_chain_of_two_posteriors():
    """Gibbs posteriors over 40 hypotheses, the second from the first and the second half of the sample."""
    rng = np.random.default_rng(12)
    n, failure_prob, trials = 80, 0.3, 400
    risks = rng.uniform(0.1, 0.4, 40)
    failures = 0
    for _ in range(trials):
        losses = (rng.random((n, risks.size)) < risks).astype(float)
        half = losses[n // 2 :]
        first = np.exp(-30.0 * losses[: n // 2].mean(0))
        first /= first.sum()
        second = first * np.exp(-60.0 * half.mean(0))
        second /= second.sum()
        new, old = half @ second, half @ first
        shares = (float(np.mean(1 - (1 - new) * old)), float(np.mean(new)), float(np.mean(new * (1 - old))))
        step = ExcessStep(shares=shares, kl_nats=max(0.0, float(second @ np.log(second / first))), n=n // 2)
        made = recursive(
            risk=float((losses @ first).mean()),
            kl_nats=max(0.0, float(first @ np.log(first * risks.size))),
            n=n,
            steps=(step,),
            gamma=0.5,
            failure_prob=failure_prob,
        )
        failures += made.value < float(second @ risks)
    assert stats.binomtest(failures, trials, failure_prob, alternative="greater").pvalue > 1e-4
