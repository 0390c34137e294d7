"""Monte Carlo, partition functions, Gibbs posteriors, calibration, and certificates joined together."""

import functools
import itertools
import math

import numpy as np

import bounds
from tests.golden.of_bounds import VALUES
from tests.golden.records import Frozen, attempt, certificate

CHAIN = np.abs(np.sin(np.arange(60) / 7.0)).tolist()


def monte_carlo() -> Frozen:
    """Empirical risks from draws, and what a chain is worth."""
    found: Frozen = {}
    for mean, draws, d in itertools.product((0.0, 0.02, 1.0), (1, 500, 10**6), (0.005, 1e-6)):
        found |= attempt(
            f"gibbs_risk_upper/{mean},{draws},{d}",
            lambda a=(mean, draws, d): bounds.gibbs_risk_upper(mean=a[0], draws=a[1], failure_prob=a[2]),
        )
    weights = list(range(1, len(VALUES) + 1))
    for name, w in (("equal", [1.0] * len(VALUES)), ("rising", weights), ("negative", [-1.0] * len(VALUES))):
        found |= attempt(
            f"weighted_risk_upper/{name}",
            lambda w=w: bounds.weighted_risk_upper(values=VALUES, weights=w, failure_prob=0.01),
        )
    for name, chain in (("waves", CHAIN), ("still", [0.2] * 9), ("draws", VALUES), ("short", [0.1, 0.2])):
        found |= attempt(f"effective_sample_size/{name}", lambda c=chain: bounds.effective_sample_size(c))
        found |= attempt(
            f"correlated_risk_upper/{name}", lambda c=chain: bounds.correlated_risk_upper(chain=c, failure_prob=0.01)
        )
    for alpha in (0.005, 0.75, 1.0, 0.0):
        found |= attempt(f"weighted_average_size/{alpha}", lambda a=alpha: bounds.weighted_average_size(a))
    return found


def partition() -> Frozen:
    """Lower bounds on ln Z, divergences of Gibbs posteriors, annealing, and certificates without draws."""
    found: Frozen = {}
    for log_mean, d in itertools.product((-math.inf, -700.0, -30.0, -0.5, 0.5), (0.01, 1e-6)):
        found |= attempt(f"log_partition_lower/{log_mean},{d}", lambda a=(log_mean, d): bounds.log_partition_lower(*a))
        at = {"log_mean_exp": log_mean, "failure_prob": d}
        found |= attempt(
            f"log_partition_chernoff/{log_mean},{d}", lambda at=at: bounds.log_partition_chernoff(draws=10**5, **at)
        )
        at |= {"mean_loss": 0.4, "tau": 30.0, "loss_low": 0.0, "loss_high": 2.0, "draws": 50}
        found |= attempt(
            f"log_partition_best/{log_mean},{d}", lambda at=at: _partition(bounds.log_partition_best(**at))
        )
    for mean, tau in itertools.product((0.0, 0.4, 2.0, 3.0), (0.1, 300.0)):
        found |= attempt(
            f"log_partition_jensen/{mean},{tau}",
            lambda a=(mean, tau): bounds.log_partition_jensen(
                mean_loss=a[0], tau=a[1], loss_low=0.0, loss_high=2.0, draws=50, failure_prob=0.01
            ),
        )
    stream = bounds.StreamingLogMeanExp()
    stream.push([-5.0, -1000.0, -math.inf])
    stream.push(3.0)
    found["StreamingLogMeanExp"] = [stream.value, stream.count]
    for mean, log_z, lower, upper in ((30.0, -530.0, 0.0, math.inf), (30.0, -20.0, 0.0, 9.0), (30.0, -20.0, 5.0, 9.0)):
        at = {"mean_loss_nats": mean, "log_partition_nats": log_z, "lower_nats": lower, "upper_nats": upper}
        found |= attempt(f"gibbs_kl/{mean},{log_z},{lower},{upper}", lambda at=at: _kl(bounds.gibbs_kl(**at)))
    for q, p in ((0.1, 1.0), (1.0, 0.1), (3.0, 0.0)):
        found |= attempt(
            f"gibbs_kl_lower/{q},{p}",
            lambda a=(q, p): bounds.gibbs_kl_lower(posterior_loss=a[0], prior_loss=a[1], loss_low=0.0, loss_high=2.0),
        )
    for log_z, tau, (n, d) in itertools.product((-math.inf, -400.0, -25.0, 0.0, 1.0), (2.0, 300.0), ((500, 0.045),)):
        at = {"log_partition_lower_nats": log_z, "tau": tau, "loss_low": 0.0, "loss_high": 4.0}
        where = f"{log_z},{tau},{n},{d}"
        found |= attempt(f"gibbs_kl_upper/{where}", lambda at=at: bounds.gibbs_kl_upper(**at))
        at |= {"n": n, "failure_prob": d, "log_partition_failure_prob": 0.005}
        found |= attempt(f"gibbs_catoni/{where}", lambda at=at: bounds.gibbs_catoni(**at))
        at |= {"error_loss": math.log(2.0)}
        found |= attempt(f"gibbs_pac_bayes/{where}", lambda at=at: bounds.gibbs_pac_bayes(**at))
        found |= attempt(f"dp_gibbs_pac_bayes/{where}", lambda at=at: bounds.dp_gibbs_pac_bayes(epsilon=0.02, **at))
    path = np.linspace(0.0, 1.0, 12).reshape(3, 4)
    found |= attempt(
        "annealed_log_weights",
        lambda: bounds.annealed_log_weights(
            start_log_prior=path[0], forward_log_densities=path + 1, backward_log_densities=path - 0.5,
            end_log_prior=path[1], end_loss_nats=path[2] * 30,
        ),
    )  # fmt: skip
    for name, means in (("falling", [2.0, 0.7, 0.4, 0.35]), ("rising", [0.1, 0.7, 0.4, 0.5])):
        found |= attempt(
            f"thermodynamic_integration/{name}",
            lambda m=means: _integral(bounds.thermodynamic_integration(taus=[0.0, 10.0, 100.0, 300.0], mean_losses=m)),
        )
    return found


def _partition(made: bounds.LogPartition) -> Frozen:
    return {"nats": made.nats, "method": made.method, "failure_prob": made.failure_prob, **dict(made.candidates)}


def _kl(made: bounds.GibbsKL) -> list:
    return [made.raw_nats, made.kl_nats, made.clipped, made.lower_nats, made.upper_nats]


def _integral(made: bounds.ThermodynamicEstimate) -> list:
    return [made.log_partition_nats, *_kl(made.kl), made.largest_rise, "optimistic" if made.hypotheses else "rigorous"]


def calibration() -> Frozen:
    """Binned calibration errors and Brier risks."""
    found: Frozen = {}
    rng = np.random.default_rng(3)
    confidence = rng.uniform(0.5, 1.0, 400)
    correct = rng.random(400) < confidence**2
    edges = [0.0, 0.6, 0.7, 0.8, 0.9, 1.0]
    sample = bounds.calibration_sample(confidence=confidence, correct=correct, edges=edges)
    found["sample"] = [sample.calibration_error, sample.mean_squared_gap, sample.mean_absolute_gap, sample.n]
    found["bins"] = [[one.low, one.high, one.count, one.correct, one.mean_confidence] for one in sample.bins]
    for least, d in ((1, 0.05), (60, 1e-4), (1000, 0.05)):
        for name in ("mce_clopper_pearson", "mce_hoeffding"):
            found |= attempt(
                f"{name}/{least},{d}",
                lambda f=name, a=(least, d): getattr(bounds, f)(bins=sample.bins, min_count=a[0], failure_prob=a[1]),
            )
    for error, gap, (n, d) in itertools.product((0.0, 0.03), (0.01, 0.2), ((50, 0.05), (60_000, 1e-6))):
        where = f"{error},{gap},{n},{d}"
        at = {"calibration_error": error, "n": n, "failure_prob": d}
        found |= attempt(f"ece_hoeffding/{where}", lambda at=at: bounds.ece_hoeffding(**at))
        at = {**at, "mean_squared_gap": gap}
        found |= attempt(f"ece_second_moment/{where}", lambda at=at: bounds.ece_second_moment(**at))
        at = {**at, "kl_nats": 25.0}
        found |= attempt(f"ece_pac_bayes/{where}", lambda at=at: bounds.ece_pac_bayes(**at))
        found |= attempt(f"dp_ece_pac_bayes/{where}", lambda at=at: bounds.dp_ece_pac_bayes(epsilon=0.03, **at))
    found |= attempt(
        "ece_pac_bayes/impossible gap",
        lambda: bounds.ece_pac_bayes(
            calibration_error=0.5, mean_squared_gap=0.01, kl_nats=1.0, n=50, failure_prob=0.05
        ),
    )
    step = functools.partial(bounds.maurer, kl_nats=25.0, n=10_000, failure_prob=0.05)
    for brier in (0.0, 0.04, 1.9, 2.1):
        found |= attempt(f"brier_risk/{brier}", lambda b=brier: _brier(bounds.brier_risk(brier=b, bound=step)))
    return found


def _brier(made: bounds.BrierRisk) -> Frozen:
    return {**certificate(made.certificate), "brier": made.value, "calibration_error": made.calibration_error}


def combined() -> Frozen:
    """The best of several, Monte Carlo below PAC-Bayes, charges, ledgers."""
    found: Frozen = {}
    at = {"kl_nats": 25.0, "n": 10_000}
    gaussian = bounds.GaussianDP(mu=0.02, adjacency="add-remove", status="accounted")
    guess = bounds.GaussianDP(mu=0.02, adjacency="add-remove", status="approximate accountant")
    steps = {
        "maurer": functools.partial(bounds.maurer, **at),
        "catoni": functools.partial(bounds.catoni, inverse_temperature=5000.0, **at),
        "sharp": functools.partial(bounds.dp_pac_bayes, epsilon=0.01, **at),
        "accounted": functools.partial(bounds.private_pac_bayes, privacy=gaussian, **at),
        "guessed": functools.partial(bounds.private_pac_bayes, privacy=guess, **at),
        "fixed": functools.partial(bounds.private_kl_chernoff, privacy=gaussian, n=10_000),
    }
    budget = bounds.FailureBudget(0.05).spend("Monte Carlo", 0.01).spend("PAC step", 0.04)
    drawn = {
        "draws": bounds.gibbs_risk_upper(mean=0.02, draws=50_000, failure_prob=0.01),
        "weighted": bounds.weighted_risk_upper(values=VALUES, weights=[1.0] * len(VALUES), failure_prob=0.01),
        "chain": bounds.correlated_risk_upper(chain=CHAIN, failure_prob=0.01),
        "dear": bounds.gibbs_risk_upper(mean=0.02, draws=50_000, failure_prob=0.02),
    }
    for (word, risk), (name, step) in itertools.product(drawn.items(), steps.items()):
        found |= attempt(
            f"overall/{word},{name}", lambda r=risk, s=step: bounds.overall_certificate(risk=r, bound=s, budget=budget)
        )
    found |= attempt(
        "overall/of a bound",
        lambda: bounds.overall_certificate(
            risk=steps["maurer"](risk=0.1, failure_prob=0.01), bound=steps["maurer"], budget=budget
        ),
    )
    compared = [
        step(risk=risk, failure_prob=0.01)
        for step, risk in zip(steps.values(), (3e-2, 0.1, 2e-2, 0.2, 0.01, 0.05), strict=True)
    ]
    for count in (0, 1, 3, 5, 6):
        found |= attempt(f"best_of/{count}", lambda c=count: bounds.best_of(compared[:c], budget=0.05))
    found |= attempt("charged", lambda: compared[0].charged("partition", 0.01, partition_nats=4.0))
    found |= attempt("charged twice", lambda: compared[0].charged("partition", 0.01).charged("partition", 0.01))
    found |= attempt("charged too much", lambda: compared[0].charged("partition", 0.99))
    ledger = bounds.FailureBudget.split(0.05, one=1.0, two=2.0)
    found["ledger"] = {"spent": dict(ledger.spent), "left": ledger.left, "share": ledger.share("two", 7)}
    found |= attempt("ledger overdrawn", lambda: ledger.spend("three", 0.01).left)
    return found
