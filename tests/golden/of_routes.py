"""Certificates of posteriors, networks and chains that the library makes, on toys."""

import numpy as np
import torch
from torch import Tensor, nn

import bounds
from pacdp import (
    BoundSet,
    DataFree,
    GaussianPosterior,
    GibbsSettings,
    HeldOut,
    LocalGibbs,
    MonteCarlo,
    NoPrivacy,
    Point,
    Prior,
    Private,
    certify,
)
from pacdp.certify.finite import assess_finite, selected_certificate
from pacdp.data import Split, index_hash
from pacdp.exponential import log_probabilities, select
from pacdp.losses import bounded_cross_entropy
from pacdp.trained import privacy_of
from tests.golden.of_training import SAMPLERS, toy
from tests.golden.records import Frozen, attempt, many, report

ACCOUNTED = bounds.GaussianDP(mu=0.02, adjacency="add-remove", status="accounted")
GUESSED = bounds.GaussianDP(mu=0.02, adjacency="add-remove", status="approximate accountant")
EFFORT = GibbsSettings(epochs=2.0, prior_draws=2, test_draws=2)


def _part(start: int, stop: int) -> Split:
    return Split(np.arange(start, stop), index_hash(np.arange(start, stop)))


def _examples(n: int, *, classes: int = 2) -> tuple[Tensor, Tensor]:
    """Noisy classes apart along the first coordinate."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, n)
    inputs = rng.normal(size=(n, 5)).astype(np.float32)
    inputs[:, 0] += 2 * labels
    return torch.tensor(inputs), torch.tensor(np.where(rng.random(n) < 0.2, (labels + 1) % classes, labels))


def _around(*, scale: float, std: float, outputs: int = 1) -> GaussianPosterior:
    module = nn.Linear(5, outputs)
    with torch.no_grad():
        module.weight.zero_()
        module.weight[:, 0] = scale * torch.arange(1, outputs + 1)
        module.bias.copy_(-scale * torch.arange(1, outputs + 1) ** 2 / (1.0 if outputs == 1 else 2.0))
    return GaussianPosterior.around(module, std=std)


def gaussian() -> Frozen:
    """Gaussian posteriors with every source of the prior."""
    inputs, labels = _examples(400)
    q, p = _around(scale=1.5, std=0.1), _around(scale=1.2, std=0.15)
    whole = BoundSet(inputs=inputs[:300], labels=labels[:300])
    rest, test = BoundSet.of(inputs, labels, _part(100, 300)), BoundSet.of(inputs, labels, _part(300, 400))
    seen = HeldOut(indices=_part(0, 100))
    cases = {
        "data-free": (whole, Prior(law=p, source=DataFree()), None),
        "data-free, test": (whole, Prior(law=p, source=DataFree()), test),
        "chosen scale": (whole, Prior(law=p, source=DataFree(), choice_nats=2.0), None),
        "held out": (rest, Prior(law=p, source=seen), test),
        "held out, overlap": (BoundSet.of(inputs, labels, _part(90, 300)), Prior(law=p, source=seen), None),
        "held out, tested on what the prior saw": (
            rest, Prior(law=p, source=seen), BoundSet.of(inputs, labels, _part(50, 100)),
        ),
        "held out, unknown": (whole, Prior(law=p, source=seen), None),
        "private": (whole, Prior(law=p, source=Private(privacy=ACCOUNTED)), test),
        "private, guessed": (whole, Prior(law=p, source=Private(privacy=GUESSED)), test),
        "hybrid": (rest, Prior(law=p, source=Private(privacy=ACCOUNTED, seen=seen)), test),
        "prior itself": (rest, Prior(law=q, source=seen), test),
    }  # fmt: skip
    found: Frozen = {}
    how = MonteCarlo(passes=2, share=0.2)
    for name, (data, prior, new) in cases.items():
        found |= report(
            name,
            lambda d=data, p=prior, t=new: _assessed(q, d, prior=p, test=t, monte_carlo=how, seed=3, failure_prob=0.1),
        )
    inputs, labels = _examples(200, classes=3)
    three, law = BoundSet(inputs=inputs, labels=labels), _around(scale=1.0, std=0.2, outputs=3)
    found |= report(
        "three classes",
        lambda: _assessed(
            law, three, prior=Prior(law=law, source=DataFree()), losses=(bounded_cross_entropy(classes=3),)
        ),
    )
    return found


def _assessed(law: GaussianPosterior, data: BoundSet, **options) -> Frozen:
    module = nn.Linear(5, law.means["bias"].numel()).eval()
    return certify(law, data, network=module, **options).to_dict()


def chains() -> Frozen:
    """Local Gibbs posteriors and points, by the privacy of what learnt them."""
    train, test = toy(seed=0), toy(seed=1)
    (weights,) = train.weights()
    exact = {"adjacency": "replace-one", "status": "exact mechanism"}
    stationary = {"adjacency": "replace-one", "status": "assumes stationarity"}
    privacies = {
        "stationary": bounds.PureDP(epsilon=0.05, **stationary),
        "exact": bounds.PureDP(epsilon=0.05, **exact),
        "guessed": bounds.PureDP(epsilon=0.05, adjacency="replace-one", status="approximate accountant"),
        "add-remove": bounds.PureDP(epsilon=0.05, adjacency="add-remove", status="exact mechanism"),
        "none": NoPrivacy(reason="it adds no noise"),
    }
    found: Frozen = {}
    for word, privacy in privacies.items():
        point, local = Point(weights=weights), LocalGibbs(weights=weights, tau=20.0, gamma=2.0)
        at = {"gibbs": EFFORT, "failure_prob": 0.1, "seed": 5}
        found |= report(
            f"point, {word}", lambda p=privacy, q=point, at=at: certify(q, train, prior=p, test=test, **at).to_dict()
        )
        found |= report(
            f"gibbs, {word}", lambda p=privacy, q=local, at=at: certify(q, train, prior=p, test=test, **at).to_dict()
        )
    found |= report(
        "point, untested", lambda: certify(Point(weights=weights), train, prior=privacies["exact"]).to_dict()
    )
    for name, settings in SAMPLERS.items():
        for step in (None, 3):
            found |= attempt(
                f"privacy/{name},{step}",
                lambda s=settings, t=step: _promise(privacy_of(s, oscillation=4.0, n=500, step=t)),
            )
    return found


def _promise(privacy: bounds.PrivacyClaim | NoPrivacy) -> Frozen | str:
    if isinstance(privacy, NoPrivacy):
        return "none"
    cost = bounds.transfer_cost(privacy=privacy, n=500, failure_prob=0.05)
    return {"notion": privacy.notion, "adjacency": privacy.adjacency, "status": privacy.status, "nats": cost.nats}


def finite() -> Frozen:
    """Finitely many networks: weighted, the best, and one chosen by the exponential mechanism."""
    found: Frozen = {}
    cases = {"few": [30, 12, 40], "one": [7], "many": list(range(50, 250, 10)), "impossible": [2000]}
    for name, counts in cases.items():
        errors = np.array(counts)
        for word, weights in (("uniform", None), ("own", np.arange(1.0, len(counts) + 1) / len(counts))):
            at = f"{name}, {word}"
            found |= many(f"finite/{at}", lambda e=errors, w=weights: _finite(e, w))
            found |= attempt(
                f"law/{at}", lambda e=errors, w=weights: np.exp(log_probabilities(e, epsilon=0.05, weights=w))
            )
        found |= many(f"exponential/{name}", lambda e=errors: _exponential(e))
    return found


def _finite(errors: np.ndarray, weights: np.ndarray | None) -> list[bounds.Certificate]:
    made = assess_finite(errors, n=1000, failure_prob=0.1, weights=weights)
    return [made.ensemble, made.vote, made.one]


def _exponential(errors: np.ndarray) -> list[bounds.Certificate]:
    chosen = select(errors, epsilon=0.05, generator=np.random.default_rng(1))
    return [
        selected_certificate(chosen, errors=errors, n=1000, failure_prob=0.1),
        bounds.dp_pac_bayes(risk=0.02, kl_nats=3.0, n=1000, epsilon=chosen.epsilon, failure_prob=0.1),
    ]
