"""P-values of the audit: as rare as they say where the law holds, small where it does not, and equal to slow twins."""

import itertools
import math

import numpy as np
from numpy.random import default_rng
from scipy import stats

from pacdp.audit import batch_laws, noise_laws
from pacdp.audit.checks import MechanismAudit, by_chance, certain
from pacdp.audit.p_values import Found, binomial, bonferroni, chi_square, normal, random_signs
from tests.marks import every_case, made_once, near, parametrize

TENSORS = [slice(0, 12), slice(12, 15), slice(15, 30)]
NOISE = {
    "mean": noise_laws.mean_of_coordinates,
    "variance": noise_laws.variance_of_coordinates,
    "tensors": lambda z: noise_laws.variance_of_tensors(z, TENSORS),
    "steps": noise_laws.variance_of_steps,
    "law": noise_laws.normal_law,
    "largest": noise_laws.largest,
    "lags": lambda z: noise_laws.covariance_by_lag(z, TENSORS),
    "directions": lambda z: noise_laws.covariance_in_directions(z, TENSORS),
    "at large": noise_laws.covariance_in_all,
    "releases": noise_laws.covariance_of_steps,
    "repeats": noise_laws.repeated_noise,
    "repeats in tensors": lambda z: noise_laws.repeated_noise(z, TENSORS),
    "along": lambda z: noise_laws.along(z, np.full_like(z, 30**-0.5)),
    "sizes": lambda z: noise_laws.along(z, np.tile(np.arange(len(z)) - 3.0, (30, 1)).T),
}
BATCHES = {
    "rate": batch_laws.rate,
    "units": batch_laws.rate_of_units,
    "sizes": batch_laws.sizes_of_batches,
    "extremes": batch_laws.extreme_batches,
    "empty": batch_laws.empty_batches,
    "pairs": batch_laws.pairs_of_units,
    "steps": batch_laws.steps_of_batches,
}
ALL = {**NOISE, **{f"batches {name}": law for name, law in BATCHES.items()}}
EXACT = ("mean", "variance", "tensors", "steps", "at large")


@made_once
def p_values(whole):
    """Of every law, in many sound runs of 20 releases of 30 coordinates, and of 15 steps on 12 units at rate 0.2."""
    rng, found = default_rng(0), {name: list[float]() for name in ALL}
    for _ in range(250 if whole else 100):
        z = rng.standard_normal((20, 30)).astype(np.float32)
        x = rng.random((15, 12)) < 0.2
        for name, law in ALL.items():
            found[name].append((law(z) if name in NOISE else law(x, 0.2)).p_value)
    return found


@every_case("name", ALL)
def test_p_values_are_as_rare_as_they_say(p_values, name, whole):
    """A p-value at or below a comes with probability at most a; counts beyond the 1e-5 tail would contradict it."""
    runs = len(p_values[name])
    for level in (0.01, 0.05, 0.2, 0.5):
        assert sum(p <= level for p in p_values[name]) <= stats.binom.isf(1e-5, runs, level)
    if name in EXACT:
        rare = stats.binom.cdf(sum(p <= 0.5 for p in p_values[name]), runs, 0.39)  # 1 - exp(-0.5), or more
        assert rare > (1e-3 if whole else 1e-6), "not too rare"


def test_noise_on_the_grid_of_a_tensor_of_two_numbers_has_equal_directions_and_repeats_none():
    z = (np.round(default_rng(1).standard_normal((1200, 32)) * 1024.0) / 1024.0).astype(np.float32)
    assert noise_laws.repeated_noise(z, [slice(0, 2), slice(2, 5), slice(5, 32)]).p_value > 0.01
    z[700, 5:32] = -z[3, 5:32]
    assert noise_laws.repeated_noise(z, [slice(0, 2), slice(2, 5), slice(5, 32)]).p_value < 1e-9


def faulty(rng, name, z):
    match name:
        case "mean":
            z[:, 3] += 1.5
        case "variance":
            z[:, 3] *= 3.0
        case "tensors":
            z[:, 12:15] *= 0.5
        case "steps":
            z[4] *= 2.0
        case "law":
            z[:] = np.sign(z) * np.sqrt(2.0 / np.pi)
        case "largest":
            z[:] = z.clip(-2.5, 2.5)
        case "lags":
            z[:, 16:] = z[:, :-16]
        case "directions":
            z[:] = 0.8 * z + 0.6 * rng.standard_normal((len(z), 1))
        case "at large":
            z[:] = z @ np.linalg.qr(rng.standard_normal((30, 30)))[0] * np.where(np.arange(30) < 15, 2**0.5, 1e-6)
            z[:] = z @ np.linalg.qr(rng.standard_normal((30, 30)))[0]
        case "releases":
            z[3:] = 0.3 * z[3:] + 0.95 * z[:-3]
        case "repeats":
            z[17] = z[2]
        case "repeats in tensors":
            z[17, 15:] = 2.0 * z[2, 15:]
        case "along":
            z[:] += 0.3
        case "sizes":
            z[:] += 0.05 * (np.arange(len(z)) - 3.0)[:, None]


@every_case("name", NOISE)
def test_faults_of_noise_have_small_p_values(name):
    rng = default_rng(1)
    z = rng.standard_normal((60, 30)).astype(np.float32)
    faulty(rng, name, z)
    assert NOISE[name](z).p_value < 1e-5


@every_case("name", ["variance", "tensors", "steps", "law", "largest", "at large", "repeats"])
def test_noise_that_is_no_number_or_not_there(name):
    for value in (np.nan, np.inf):
        z = default_rng(0).standard_normal((20, 30)).astype(np.float32)
        z[3, 4] = value
        with np.errstate(invalid="ignore"):
            assert NOISE[name](z).p_value == 0.0
    assert NOISE[name](np.zeros((20, 30), dtype=np.float32)).p_value < 1e-12


@every_case(
    ("name", "make"),
    [
        ("rate", lambda rng, x: rng.random(x.shape) < 0.1),
        ("units", lambda rng, x: x & (np.arange(x.shape[1]) > 0)),
        ("sizes", lambda rng, x: np.stack([rng.permutation(x.shape[1]) < 4 for _ in x])),
        ("extremes", lambda rng, x: x & (x.cumsum(1) <= 7)),
        ("extremes", lambda rng, x: x | (x.sum(1, keepdims=True) < 2)),
        ("empty", lambda rng, x: np.stack([rng.permutation(x.shape[1]) < 0.5 * rng.integers(2) * 16 for _ in x])),
        ("pairs", lambda rng, x: np.concatenate([x[:, :1], x[:, :1], x[:, 2:]], 1)),
        ("steps", lambda rng, x: np.repeat(x[::2], 2, axis=0)),
    ],
)  # fmt: skip
def test_faults_of_batches_have_small_p_values(name, make):
    rng = default_rng(2)
    x = make(rng, rng.random((400, 20)) < 0.2)
    assert BATCHES[name](x, 0.2).p_value < 1e-5


@parametrize(("count", "cut", "p"), [(400_000, 4.0, 0.0), (400_000, 4.9, 0.64), (74_400, 4.0, 1.8e-2)])
def test_a_cut_is_seen_where_enough_numbers_were_drawn(count, cut, p):
    """By the law of the largest of independent entries, and at the cut that is said to be visible with that p-value."""
    z = np.zeros((1, count))
    for value, expected in ((cut, p), (noise_laws.visible_cut(count), 1e-4)):
        z[0, 3] = -value
        assert noise_laws.largest(z).p_value == near(expected, rel=0.1, abs=1e-5)
    z[0, 3] = 9.0
    assert noise_laws.largest(z).p_value < 1e-12, "a heavy tail"


def test_every_unit_in_every_batch_is_sound():
    x = np.ones((30, 8), dtype=bool)
    assert all(law(x, 1.0).p_value == 1.0 for law in BATCHES.values())
    x[3, 4] = False
    assert BATCHES["rate"](x, 1.0).p_value == 0.0


def test_the_bound_on_random_signs_against_all_of_them():
    a = np.array([0.3, 1.2, 0.7, 2.0, 0.1, 0.9, 1.1, 0.4])
    sums = np.abs([np.dot(a, signs) for signs in itertools.product([-1.0, 1.0], repeat=len(a))])
    for signs in ([1.0] * 8, [1.0] * 7 + [-1.0], [1.0, -1.0] * 4):
        bound = random_signs(a, np.array(signs))
        assert (sums >= abs(np.dot(a, signs)) - 1e-12).mean() <= bound <= 1.0
    assert random_signs(a, np.ones(8)) == near(2.0 * math.exp(-(a.sum() ** 2) / (2.0 * (a**2).sum())))
    assert random_signs(np.zeros(3), np.ones(3)) == 1.0


def test_tails_against_scipy_s_own():
    assert float(normal(1.959963984540054)) == near(0.05)
    assert float(chi_square(stats.chi2.isf(0.01, 7), 7)) == near(0.02)
    assert float(binomial(3, 10, 0.5)) == near(min(1.0, 2.0 * stats.binom.cdf(3, 10, 0.5)))
    assert (bonferroni(0.3, 5), bonferroni(0.01, 5)) == (1.0, 0.05)


def test_shares_of_the_probability_of_error():
    rows = (by_chance("a", "", Found(0.004, "")), by_chance("b", "", Found(0.3, "")))
    alone = MechanismAudit(checks=rows, failure_prob=0.01)
    assert alone.level == 0.005
    assert [check.name for check in alone.refuted] == ["a"]
    more = MechanismAudit(checks=(*rows, certain("c", "", True, "", share=0.005)), failure_prob=0.01)
    assert more.level == 0.0025
    assert [check.name for check in more.refuted] == ["c"]
    assert more.to_dict()["refuted"] is True
    assert [row["refuted"] for row in more.to_dict()["checks"]] == [False, False, True]
