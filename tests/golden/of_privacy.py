"""Bounds at the price of privacy, the prices themselves, and what the accountant says of compositions."""

import itertools
import math

import numpy as np

import bounds
from bounds import accounting
from tests.golden.of_bounds import SIZES
from tests.golden.records import Frozen, attempt

OWN, OTHER = "replace-one", "add-remove"
STATUSES = {"accounted": "accounted", "stationary": "assumes stationarity", "guess": "approximate accountant"}


def one_step(noise_multiplier: float, sample_rate: float, count: int = 1) -> accounting.Event:
    """Noisy sums on Poisson batches."""
    gaussian = accounting.Gaussian(noise_multiplier=noise_multiplier)
    return accounting.SelfComposed(
        event=accounting.PoissonSampled(sample_rate=sample_rate, event=gaussian), count=count
    )


def claims() -> dict[str, bounds.PrivacyClaim]:
    """Every notion of privacy, both adjacencies, every status."""
    made: dict[str, bounds.PrivacyClaim] = {}
    for adjacency, (word, status) in itertools.product((OWN, OTHER), STATUSES.items()):
        said = {"adjacency": adjacency, "status": status}
        where = f"{adjacency},{word}"
        made[f"pure 0.03,{where}"] = bounds.PureDP(epsilon=0.03, **said)
        made[f"gaussian 0.02,{where}"] = bounds.GaussianDP(mu=0.02, **said)
    exact = {"adjacency": OWN, "status": "exact mechanism"}
    known = {"adjacency": OTHER, "status": "accounted"}
    made |= {
        "pure 0": bounds.PureDP(epsilon=0.0, **exact),
        "pure 0.5": bounds.PureDP(epsilon=0.5, **exact),
        "approximate": bounds.ApproxDP(epsilon=0.05, delta=1e-9, **known),
        "approximate without delta": bounds.ApproxDP(epsilon=0.05, delta=0.0, **known),
        "approximate of large delta": bounds.ApproxDP(epsilon=0.05, delta=1e-3, **known),
        "gaussian 0": bounds.GaussianDP(mu=0.0, **known),
        "gaussian 0.5": bounds.GaussianDP(mu=0.5, **known),
        "gaussian inf": bounds.GaussianDP(mu=math.inf, **known),
        "concentrated": bounds.ZeroConcentratedDP(rho=2e-4, **known),
        "distribution by hand": bounds.PrivacyLossDistribution(
            spacing=0.1,
            lowest=-1,
            with_record=np.array([1.0, 0.0, math.exp(0.1)]) / (1.0 + math.exp(0.1)),
            without_record=np.array([math.exp(0.1), 0.0, 1.0]) / (1.0 + math.exp(0.1)),
            infinity_mass=0.0,
            zero_mass=0.0,
            **known,
        ),
        "distribution": accounting.loss_distribution(event=one_step(5.0, 0.01, 40), adjacency=OTHER),
        "distribution, replaced": accounting.loss_distribution(event=one_step(5.0, 0.01, 40), adjacency=OWN),
    }
    return made


def pure() -> Frozen:
    """Sharp transfer, max-information and the bounds as printed, at a pure epsilon."""
    found: Frozen = {}
    for epsilon, (n, d) in itertools.product((0.0, 0.03, 0.4, math.inf), SIZES):
        at, where = {"epsilon": epsilon, "n": n, "failure_prob": d}, f"{epsilon},{n},{d}"
        for name in ("transfer_nats", "max_information_nats", "transfer_nats_2018"):
            found |= attempt(f"{name}/{where}", lambda f=name, at=at: getattr(bounds, f)(**at))
        for risk in (0.0, 0.1):
            for name in ("dp_chernoff", "dp_chernoff_2018", "dp_hoeffding", "dp_hoeffding_2018", "dp_kl_chernoff"):
                found |= attempt(
                    f"{name}/{risk},{where}", lambda f=name, r=risk, at=at: getattr(bounds, f)(risk=r, **at)
                )
            for name in ("dp_pac_bayes", "dp_pac_bayes_2018", "dp_pac_bayes_max_information"):
                found |= attempt(
                    f"{name}/{risk},{where}",
                    lambda f=name, r=risk, at=at: getattr(bounds, f)(risk=r, kl_nats=25.0, **at),
                )
    for n, tau in ((60_000, 245.0), (100, 3.0)):
        found |= attempt(
            f"exponential_mechanism_epsilon/{n}",
            lambda n=n, tau=tau: bounds.exponential_mechanism_epsilon(beta=0.7, tau=tau, loss_range=4.0, n=n),
        )
    for change in ({"epsilon": -1.0}, {"n": 0}, {"failure_prob": 1.0}, {"risk": -0.1}):
        at = {"risk": 0.1, "n": 100, "epsilon": 0.1, "failure_prob": 0.05, **change}
        for name in ("dp_kl_chernoff", "dp_hoeffding_2018", "dp_chernoff"):
            found |= attempt(f"{name}/{change}", lambda f=name, at=at: getattr(bounds, f)(**at))
    return found


def transfer() -> Frozen:
    """The general transfer for every notion of privacy: costs, the bounds at them, bounds in expectation."""
    found: Frozen = {}
    for word, privacy in claims().items():
        for n, d in ((500, 0.05), (60_000, 0.05)) if "," not in word or "accounted" in word else ((500, 0.05),):
            at, where = {"privacy": privacy, "failure_prob": d}, f"{word}/{n},{d}"
            found |= attempt(f"transfer_cost/{where}", lambda at=at, n=n: _cost(bounds.transfer_cost(n=n, **at)))
            found |= attempt(
                f"private_kl_chernoff/{where}", lambda at=at, n=n: bounds.private_kl_chernoff(risk=0.05, n=n, **at)
            )
            found |= attempt(
                f"private_pac_bayes/{where}",
                lambda at=at, n=n: bounds.private_pac_bayes(risk=0.05, kl_nats=25.0, n=n, **at),
            )
            found |= attempt(
                f"hybrid_pac_bayes/{where}",
                lambda at=at, n=n: bounds.hybrid_pac_bayes(risk=0.05, kl_nats=25.0, n_bound=n, **at),
            )
            found |= attempt(
                f"private_catoni/{where}",
                lambda at=at, n=n: bounds.private_catoni(risk=0.05, kl_nats=25.0, n=n, inverse_temperature=n / 2, **at),
            )
            found |= attempt(
                f"private_ece_pac_bayes/{where}",
                lambda at=at, n=n: bounds.private_ece_pac_bayes(
                    calibration_error=0.03, mean_squared_gap=0.05, kl_nats=25.0, n=n, **at
                ),
            )
        found |= attempt(
            f"in_expectation/{word}", lambda p=privacy: _expected(bounds.in_expectation_nats(privacy=p, n=500))
        )
    for information, d in itertools.product((0.0, 0.3, 40.0, math.inf), (0.05, 1e-6)):
        found |= attempt(
            f"markov_transfer_nats/{information},{d}",
            lambda i=information, d=d: bounds.markov_transfer_nats(information_nats=i, failure_prob=d),
        )
    found |= attempt("max_information_composition", bounds.max_information_composition)
    found |= attempt(
        "transfer_cost/n=0", lambda: _cost(bounds.transfer_cost(privacy=claims()["pure 0"], n=0, failure_prob=0.05))
    )
    return found


def _cost(cost: bounds.TransferCost) -> Frozen:
    split = [cost.failure_transfer, cost.failure_privacy, cost.failure_unbounded]
    return {"nats": cost.nats, "alpha": cost.alpha, "a": cost.a, "split": split}


def _expected(made: bounds.InExpectation) -> Frozen:
    return {
        "value_nats": made.value_nats,
        "information_nats": made.information_nats,
        "status": "optimistic" if made.hypotheses else "rigorous",
    }


def compositions() -> dict[str, accounting.Event]:
    """A dozen mechanisms."""
    selection = accounting.ExponentialMechanism(epsilon=math.sqrt(0.1), adjacency=OTHER)
    gaussians = tuple(accounting.Gaussian(noise_multiplier=scale) for scale in (3.0, 1.0))
    chosen = accounting.PoissonSampled(sample_rate=0.1, event=accounting.Composed(events=(*gaussians, selection)))
    rates = [0.9 + 0.1 * k for k in range(8)]
    return {
        "one gaussian": accounting.Gaussian(noise_multiplier=2.0),
        "gaussians": accounting.SelfComposed(event=accounting.Gaussian(noise_multiplier=8.0), count=30),
        "headline": one_step(1.1, 256 / 60_000, 3516),
        "little noise": one_step(0.6, 0.02, 60),
        "much noise": one_step(40.0, 0.1, 500),
        "full batch": one_step(4.0, 1.0, 10),
        "schedule": accounting.sampled_gaussians(sample_rate=0.05, noise_multipliers=rates),
        "selection": selection,
        "selections": accounting.SelfComposed(event=selection, count=5),
        "selection on a sample": accounting.SelfComposed(event=chosen, count=20),
        "both": accounting.Composed(events=(one_step(1.1, 0.05, 50), selection)),
        "replaced": accounting.ExponentialMechanism(epsilon=0.2, adjacency=OWN),
        "nothing": accounting.NonPrivate(),
    }


def accountant() -> Frozen:
    """Brackets of epsilon and delta, the central limit, Rényi, attacks, calibrated noise."""
    found: Frozen = {}
    for (name, event), adjacency in itertools.product(compositions().items(), (OTHER, OWN)):
        at, where = {"event": event, "adjacency": adjacency}, f"{name},{adjacency}"
        for delta in (1e-5, 1e-3):
            found |= attempt(
                f"epsilon/{where},{delta}", lambda a=at, d=delta: _bracket(accounting.privacy_epsilon(delta=d, **a))
            )
        found |= attempt(f"delta/{where}", lambda a=at: _bracket(accounting.privacy_delta(epsilon=1.0, **a)))
        found |= attempt(f"renyi/{where}", lambda a=at: _bracket(accounting.renyi_epsilon(delta=1e-5, **a)))
        found |= attempt(
            f"attack/{where}", lambda a=at: accounting.best_true_positive_rate(false_positive_rate=0.01, **a)
        )
        found |= attempt(f"trade_off/{where}", lambda a=at: accounting.trade_off(type_i=[0.01, 0.1, 0.5], **a))
        found |= attempt(f"full batch/{where}", lambda a=at: accounting.full_batch_gdp(**a).mu)
        found |= attempt(f"record/{where}", lambda a=at: _record(accounting.privacy_record(**a)))
    for name, event in compositions().items():
        found |= attempt(f"clt/{name}", lambda e=event: accounting.clt_gdp(event=e).mu)
    for adjacency in (OTHER, OWN):
        found |= attempt(
            f"noise/{adjacency}",
            lambda a=adjacency: (
                accounting.calibrate_noise(event=one_step(1.0, 0.05, 50), epsilon=2.0, delta=1e-5, adjacency=a).scale
            ),
        )
    for mu, epsilon, delta in ((0.02, 0.01, 1e-9), (1.0, 2.0, 1e-5), (5.0, 0.0, 0.1)):
        found |= attempt(
            f"gaussian_delta/{mu},{epsilon}", lambda a=(mu, epsilon): accounting.gaussian_delta(mu=a[0], epsilon=a[1])
        )
        found |= attempt(
            f"gaussian_epsilon/{mu},{delta}", lambda a=(mu, delta): accounting.gaussian_epsilon(mu=a[0], delta=a[1])
        )
        found |= attempt(
            f"gaussian_mu/{epsilon},{delta}",
            lambda a=(epsilon, delta): accounting.gaussian_mu(epsilon=a[0], delta=a[1]),
        )
    found |= attempt(
        "epsilon/delta=0",
        lambda: _bracket(accounting.privacy_epsilon(event=one_step(1.0, 0.1), delta=0.0, adjacency=OTHER)),
    )
    found |= attempt(
        "epsilon/adjacency",
        lambda: _bracket(accounting.privacy_epsilon(event=one_step(1.0, 0.1), delta=0.1, adjacency="both")),
    )  # type: ignore[arg-type]
    return found


def envelopes() -> Frozen:
    """The least Gaussian privacy that covers each composition, found by a search."""
    found: Frozen = {}
    for (name, event), adjacency in itertools.product(compositions().items(), (OTHER, OWN)):
        at, where = {"event": event, "adjacency": adjacency}, f"{name},{adjacency}"
        found |= attempt(f"envelope/{where}", lambda a=at: accounting.gaussian_envelope(**a).mu)
    return found


def _bracket(made: accounting.PrivacyBound) -> Frozen:
    return {"lower": made.lower, "estimate": made.estimate, "upper": made.upper, "status": made.status}


def _record(made: bounds.PrivacyClaim) -> Frozen:
    numbers = {name: getattr(made, name) for name in ("mu", "epsilon", "infinity_mass") if hasattr(made, name)}
    cost = bounds.transfer_cost(privacy=made, n=500, failure_prob=0.05)
    return {"notion": made.notion, "adjacency": made.adjacency, "status": made.status, **numbers, "nats": cost.nats}
