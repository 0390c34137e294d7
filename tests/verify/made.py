"""A certificate of every kind that `bounds` can write: each formula at each price, and those without a price."""

import functools
import json

import numpy as np
from numpy.random import default_rng

import bounds
from bounds import (
    Accounted,
    ApproxDP,
    FailureBudget,
    GaussianDP,
    Independent,
    MaxInformation,
    OnceSum,
    PoissonSum,
    PureDP,
    Sharp,
    ZeroConcentratedDP,
    best_of,
    calibration_sample,
    catoni,
    catoni_grid,
    chernoff,
    compression,
    compression_weights,
    correlated_risk_upper,
    disagreement,
    disintegrated,
    disintegrated_renyi,
    ece_hoeffding,
    ece_pac_bayes,
    ece_second_moment,
    gibbs_catoni,
    gibbs_pac_bayes,
    gibbs_risk_upper,
    hoeffding,
    kl_chernoff,
    linear,
    maurer,
    mce_clopper_pearson,
    mce_hoeffding,
    new_example_betting,
    new_example_kl,
    new_example_pac_bayes,
    new_person_clopper_pearson,
    noisy_sum_realised,
    noisy_sum_worst_case,
    overall_certificate,
    people_sample,
    poisson_sum_realised,
    recursive,
    split_kl,
    thiemann,
    unexpected_bernstein,
    weighted_risk_upper,
)
from bounds.accounting import Composed, Gaussian, OnceAnEpoch, PoissonSampled, SelfComposed, privacy_record
from bounds.printed import Printed2018, dp_chernoff_2018, dp_hoeffding_2018
from bounds.refined import ExcessStep
from pacdp.verify.claim import DOES_NOT
from pacdp.verify.folder import check_folder

N = 5000
EVENT = SelfComposed(event=PoissonSampled(sample_rate=0.004, event=Gaussian(noise_multiplier=5.0)), count=1000)
EPOCH = OnceAnEpoch(batches=50, event=Gaussian(noise_multiplier=2.0))
FULL = SelfComposed(event=Gaussian(noise_multiplier=500.0), count=100)
_STANDARD = {"risk": 0.07, "kl_nats": 50.0, "n": N, "failure_prob": 0.05}
_GIBBS = {
    "log_partition_lower_nats": -60.0, "tau": 300.0, "loss_low": 0.02, "loss_high": 4.0, "n": N,
    "failure_prob": 0.045, "log_partition_failure_prob": 0.005,
}  # fmt: skip
_STEPS = [ExcessStep(shares=(0.98, 0.06, 0.01), kl_nats=20.0, n=n) for n in (3000, 1500)]


@functools.cache
def prices():
    """Every price, by a name for the test."""
    claims = {
        "pure": PureDP(epsilon=0.01, adjacency="add-remove", status="accounted"),
        "gaussian": GaussianDP(mu=0.02, adjacency="add-remove", status="accounted"),
        "concentrated": ZeroConcentratedDP(rho=4e-4, adjacency="add-remove", status="assumes stationarity"),
        "approximate": ApproxDP(epsilon=0.02, delta=1e-9, adjacency="add-remove", status="approximate accountant"),
        "distribution": privacy_record(event=EVENT, adjacency="add-remove"),
        "noise on all records": privacy_record(event=FULL, adjacency="replace-one"),
    }
    return {
        "independent": Independent(),
        "sharp": Sharp(epsilon=0.02),
        "max-information": MaxInformation(epsilon=0.02),
        "printed": Printed2018(epsilon=0.04),
        "noisy sum": noisy_sum_worst_case(event=FULL),
        "realised sum": noisy_sum_realised(event=FULL, squared_norms=[4000.0] * 100, records=N),
        "epochs": OnceSum(event=SelfComposed(event=EPOCH, count=4)),
        "poisson sum": PoissonSum(event=Composed(events=(EVENT, FULL))),
        "realised poisson": poisson_sum_realised(
            event=EVENT,
            squared_norms=[3000.0] * 1000,
            records=N,
            orders=(1.1, 1.4, 1.8, 2.5),
            weights=(0.1, 0.2, 0.3, 0.4),
        ),
        **{name: Accounted(privacy=claim) for name, claim in claims.items()},
    }


def at_a_price(price):
    """Every formula that takes a price."""
    named = {"price": price}
    for formula in ("maurer", "langford_seeger", "mcallester", "quadratic", "tolstikhin_seldin", "thiemann"):
        yield getattr(bounds, formula)(**_STANDARD, **named)
    yield thiemann(**_STANDARD, lam=0.7, **named)
    yield catoni(**_STANDARD, inverse_temperature=3000.0, **named)
    yield catoni_grid(**_STANDARD, inverse_temperatures=[500.0, 2000.0, 6000.0], **named)
    yield linear(**_STANDARD, lam=1.3, **named)
    yield unexpected_bernstein(**_STANDARD, second_moment=0.06, **named)
    rest = {"n": N, "failure_prob": 0.05, **named}
    yield split_kl(levels=[0.0, 0.3, 1.0], shares=[0.1, 0.04], kl_nats=50.0, **rest)
    yield disintegrated(risk=0.07, log_density_ratio=48.0, **rest)
    yield disintegrated(risk=0.07, log_density_ratio=-3.0, **rest)
    yield disintegrated_renyi(risk=0.07, renyi_nats=48.0, **rest)
    yield recursive(risk=0.1, kl_nats=30.0, steps=_STEPS, gamma=0.5, **rest)
    yield gibbs_pac_bayes(**_GIBBS, error_loss=0.69, **named)
    yield gibbs_pac_bayes(**{**_GIBBS, "log_partition_lower_nats": -600.0}, error_loss=3.69, **named)
    yield gibbs_catoni(**_GIBBS, **named)
    yield ece_pac_bayes(calibration_error=0.03, mean_squared_gap=0.05, kl_nats=40.0, **rest)
    people = {"examples": 9000, "most_examples": 3}
    if not price.measured:
        yield new_example_kl(risk=0.07, **people, **rest)
    yield new_example_pac_bayes(risk=0.07, kl_nats=40.0, **people, **rest)
    if price.prefix and not price.measured:
        for formula in (kl_chernoff, chernoff, hoeffding):
            yield formula(risk=0.07, **rest)
    budget = FailureBudget(0.05).spend("Monte Carlo", 0.01).spend("PAC step", 0.04)
    sampled = gibbs_risk_upper(mean=0.07, draws=20_000, failure_prob=0.01)
    step = functools.partial(maurer, kl_nats=50.0, n=N, price=price)
    overall = overall_certificate(risk=sampled, bound=step, budget=budget)
    yield overall
    plain = maurer(**_STANDARD, **named)
    yield best_of([maurer(**{**_STANDARD, "kl_nats": 300.0}, **named), plain], budget=0.2)
    yield plain.charged("log partition", 0.01)


SURROGATE = compression(k=40, n=2000, failure_prob=0.03)


def by_another_network(surrogate=SURROGATE):
    """A certificate that rests on another network's."""
    return disagreement(surrogate=surrogate, k=12, n=800, failure_prob=0.02)


def without_a_price():
    """The rest."""
    weights = {"risk": 0.07, "n": N, "epsilon": 0.05, "failure_prob": 0.05}
    yield dp_hoeffding_2018(**weights)
    yield dp_chernoff_2018(**weights)
    yield ece_hoeffding(calibration_error=0.03, n=N, failure_prob=0.05)
    yield ece_second_moment(calibration_error=0.03, mean_squared_gap=0.05, n=N, failure_prob=0.05)
    rng = default_rng(0)
    confidence = rng.uniform(0.3, 1.0, 800)
    correct = rng.uniform(size=800) < confidence
    sample = calibration_sample(confidence=confidence, correct=correct, edges=np.linspace(0, 1, 6))
    least = min(one.count for one in sample.bins if one.count)
    yield mce_hoeffding(bins=sample.bins, min_count=least, failure_prob=0.05)
    yield mce_clopper_pearson(bins=sample.bins, min_count=least, failure_prob=0.05)
    yield gibbs_risk_upper(mean=0.07, draws=20_000, failure_prob=0.01)
    yield weighted_risk_upper(values=rng.uniform(size=50), weights=rng.uniform(1, 2, size=50), failure_prob=0.01)
    yield correlated_risk_upper(chain=rng.uniform(size=50), failure_prob=0.01)
    yield compression(k=70, n=N, failure_prob=0.05)
    yield compression(k=0, n=N, failure_prob=0.05)
    weights = compression_weights(n=N, expected=[20, 90], failure_prob=0.05)
    yield compression(k=70, n=N, failure_prob=0.05, weights=weights)
    yield by_another_network(compression(k=70, n=N, failure_prob=0.03, weights=weights))
    people = np.repeat(np.arange(300), 3)
    group = people_sample(losses=(rng.uniform(size=900) < 0.1).astype(float), people=people)
    for name in ("kl", "hoeffding", "second_moment", "bernstein", "betting"):
        yield getattr(bounds, f"new_person_{name}")(sample=group, failure_prob=0.05)
    yield new_example_betting(sample=group, most_examples=3, failure_prob=0.05)
    single = people_sample(losses=(rng.uniform(size=300) < 0.1).astype(float), people=np.arange(300))
    yield new_person_clopper_pearson(sample=single, failure_prob=0.05)


def verdicts(found, of=None):
    """All that were said of statements, or of those of one claim."""
    return {one.verdict for one in found if of in (None, one.claim)}


def wrong(path, report="certificates.json"):
    """Why statements on a folder do not follow, beside the report of this name."""
    found = check_folder(path, report and json.loads((path / report).read_text()))
    return {one.claim: one.why for one in found if one.verdict == DOES_NOT}


def everything():
    """All of them."""
    return [*(made for price in prices().values() for made in at_a_price(price)), *without_a_price()]
