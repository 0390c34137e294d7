"""Bounds for priors and weights that saw no examples, and the numerics under them."""

import itertools
import math
from collections.abc import Iterator

import numpy as np

import bounds
from tests.golden.records import Frozen, attempt

RISKS, KLS = (0.0, 0.02, 0.3, 1.0), (0.0, 25.0, 4000.0)
SIZES = ((50, 0.05), (10_000, 0.05), (60_000, 1e-6))
REFUSED = (("risk", 1.2), ("kl_nats", -1.0), ("n", 0), ("failure_prob", 0.0), ("risk", math.nan))
VALUES = np.random.default_rng(0).beta(0.5, 3.0, 40).tolist()


def points() -> Iterator[tuple[str, dict]]:
    """Arguments of a PAC-Bayes bound, with their name in keys."""
    for risk, kl, (n, failure_prob) in itertools.product(RISKS, KLS, SIZES):
        at = {"risk": risk, "kl_nats": kl, "n": n, "failure_prob": failure_prob}
        yield f"{risk},{kl},{n},{failure_prob}", at
    base = {"risk": 0.02, "kl_nats": 25.0, "n": 100, "failure_prob": 0.05}
    yield "infinite", {**base, "kl_nats": math.inf}
    for name, value in REFUSED:
        yield f"{name}={value}", {**base, name: value}


def kl() -> Frozen:
    """Inverses of the binary kl and their gradients, xi, tails, means, training objectives."""
    found: Frozen = {}
    for q, nats in itertools.product((0.0, 1e-6, 0.02, 0.5, 0.97, 1.0), (0.0, 1e-9, 1e-4, 0.01, 0.5, 8.0, math.inf)):
        at = f"{q},{nats}"
        found |= attempt(f"upper/{at}", lambda q=q, nats=nats: bounds.binary_kl_upper(q, nats))
        found |= attempt(f"lower/{at}", lambda q=q, nats=nats: bounds.binary_kl_lower(q, nats))
    for q, p in itertools.product((0.0, 0.02, 0.5, 1.0), repeat=2):
        found |= attempt(f"kl/{q},{p}", lambda q=q, p=p: bounds.binary_kl(q, p))
    for q, nats in ((0.02, 0.01), (0.3, 0.2), (0.0, 0.05)):
        found |= attempt(f"upper gradient/{q},{nats}", lambda q=q, nats=nats: bounds.binary_kl_upper_gradient(q, nats))
        found |= attempt(f"lower gradient/{q},{nats}", lambda q=q, nats=nats: bounds.binary_kl_lower_gradient(q, nats))
    for n in (0, 1, 2, 7, 100, 60_000, 10**9, 10**11):
        found |= attempt(f"log_xi/{n}", lambda n=n: bounds.log_xi(n))
    for k, n, d in ((0, 100, 0.05), (3, 100, 0.05), (100, 100, 0.05), (1200, 60_000, 1e-6), (5, 4, 0.05)):
        at, mean = f"{k},{n},{d}", k / n
        found |= attempt(f"clopper_pearson_upper/{at}", lambda a=(k, n, d): bounds.clopper_pearson_upper(*a))
        found |= attempt(f"clopper_pearson_lower/{at}", lambda a=(k, n, d): bounds.clopper_pearson_lower(*a))
        found |= attempt(f"hoeffding_upper/{at}", lambda a=(mean, n, d): bounds.hoeffding_upper(*a))
        found |= attempt(f"kl_chernoff_upper/{at}", lambda a=(mean, n, d): bounds.kl_chernoff_upper(*a))
        found |= attempt(f"second_moment_upper/{at}", lambda a=(mean, mean / 2, n, d): bounds.second_moment_upper(*a))
    for d in (0.05, 1e-6):
        found |= attempt(f"betting_upper/{d}", lambda d=d: bounds.betting_upper(VALUES, d))
        found |= attempt(f"empirical_bernstein_upper/{d}", lambda d=d: bounds.empirical_bernstein_upper(VALUES, d))
    at = {"n": 10_000, "failure_prob": 0.05}
    for risk, nats in ((0.02, 25.0), (0.3, 4000.0)):
        for name in ("f_classic", "f_quad", "f_kl"):
            found |= attempt(f"{name}/{risk},{nats}", lambda f=name, a=(risk, nats): getattr(bounds, f)(*a, **at))
        found |= attempt(f"f_lambda/{risk},{nats}", lambda a=(risk, nats, 0.7): bounds.f_lambda(*a, **at))
        found |= attempt(f"best_lambda/{risk},{nats}", lambda a=(risk, nats): bounds.best_lambda(*a, **at))
        found |= attempt(f"cost_per_example/{nats}", lambda a=nats: bounds.cost_per_example(a, **at))
    mean_q, mean_p, std_p = np.linspace(-1, 1, 9), np.zeros(9), np.linspace(0.2, 1, 9)
    found |= attempt("gaussian_kl", lambda: bounds.gaussian_kl(mean_q, 0.3, mean_p, std_p))
    found |= attempt("gaussian_renyi", lambda: bounds.gaussian_renyi(mean_q, mean_p, 0.3, order=3.0))
    found |= attempt(
        "gaussian_log_density_ratio", lambda: bounds.gaussian_log_density_ratio(mean_q / 2, mean_q, 0.3, mean_p, std_p)
    )
    return found


def pac_bayes() -> Frozen:
    """The kl family and its relaxations, Catoni and the linear bound."""
    found: Frozen = {}
    names = ("maurer", "langford_seeger", "mcallester", "quadratic", "tolstikhin_seldin", "thiemann")
    for (where, at), name in itertools.product(points(), names):
        found |= attempt(f"{name}/{where}", lambda f=name, at=at: getattr(bounds, f)(**at))
    for where, at in points():
        c = max(at["n"], 1) / 2.0
        found |= attempt(f"catoni/{where}", lambda at=at, c=c: bounds.catoni(**at, inverse_temperature=c))
        found |= attempt(f"linear/{where}", lambda at=at: bounds.linear(**at, lam=1.5))
    base = {"risk": 0.02, "kl_nats": 25.0, "n": 10_000, "failure_prob": 0.05}
    for lam in (0.5, 0.3, 1.9, 2.0):
        found |= attempt(f"thiemann lam/{lam}", lambda lam=lam: bounds.thiemann(**base, lam=lam))
        found |= attempt(f"linear lam/{lam}", lambda lam=lam: bounds.linear(**base, lam=lam))
    return found


def other_pac_bayes() -> Frozen:
    """Spread, levels, grids, one draw, chains of posteriors."""
    found: Frozen = {}
    for kl_nats, (n, d) in itertools.product(KLS, SIZES):
        at, where = {"n": n, "failure_prob": d}, f"{kl_nats},{n},{d}"
        bound = {**at, "kl_nats": kl_nats}
        grid = [n * 2.0 ** (-k / 2) for k in range(-2, 9)]
        found |= attempt(
            f"catoni_grid/{where}",
            lambda a=bound, g=grid: bounds.catoni_grid(risk=0.02, **a, inverse_temperatures=g),
        )
        found |= attempt(
            f"split_kl/{where}", lambda a=bound: bounds.split_kl(levels=(0.0, 0.4, 1.0), shares=(0.3, 0.01), **a)
        )
        found |= attempt(
            f"unexpected_bernstein/{where}",
            lambda a=bound: bounds.unexpected_bernstein(risk=0.05, second_moment=0.01, **a),
        )
        found |= attempt(
            f"disintegrated/{where}",
            lambda a=at, k=kl_nats: bounds.disintegrated(risk=0.02, log_density_ratio=k - 5.0, **a),
        )
        found |= attempt(
            f"disintegrated_renyi/{where}",
            lambda a=at, k=kl_nats: bounds.disintegrated_renyi(risk=0.02, renyi_nats=k, **a),
        )
    first = bounds.ExcessStep(shares=(0.95, 0.08, 0.02), kl_nats=12.0, n=4_000)
    second = bounds.ExcessStep(shares=(0.97, 0.06, 0.01), kl_nats=30.0, n=2_000)
    for name, steps in (("none", ()), ("two", (first, second)), ("wrong order", (second, first))):
        found |= attempt(
            f"recursive/{name}",
            lambda s=steps: bounds.recursive(risk=0.12, kl_nats=5.0, n=8_000, gamma=0.5, failure_prob=0.05, steps=s),
        )
    for scale in (0.037, 0.0999, 5.0, 0.0):
        found |= attempt(
            f"prior_scale_grid/{scale}",
            lambda s=scale: [
                [point.index, point.scale, point.nats]
                for point in bounds.prior_scale_grid(scale=s, largest=0.1, precision=100)
            ],
        )
    return found
