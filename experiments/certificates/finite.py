"""Certificates of finitely many networks: linear heads on fixed features, learnt on one part of the training set.

Each head is fitted, by L-BFGS on the cross-entropy, to its own random half of the prior's examples. The bound's
examples then weight them, choose one of them, or choose one privately (the exponential mechanism).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

import bounds
from pacdp.backprop import hold_out
from pacdp.data import load
from pacdp.exponential import error_counts, select, selected_certificate
from pacdp.features import OrientedGradients, transform
from pacdp.finite import assess_finite


@dataclass(frozen=True, slots=True, kw_only=True)
class FiniteConfig:
    """Everything that decides the numbers."""

    dataset: str = "mnist"
    orientations: int = 12
    cells: int = 7
    scale: float = 1.0
    networks: int = 8
    prior_share: float = 0.5
    weight_decay: float = 1e-5
    iterations: int = 60
    """Of L-BFGS."""
    epsilon: float = 0.02
    """Replace-one privacy of the exponential mechanism's choice."""
    failure_prob: float = 0.05
    compared: int = 1
    """Settings of a list fixed beforehand, any of which may be chosen by looking at the bound's examples."""
    seed: int = 0


def finite(config: FiniteConfig, *, root: str | None = None) -> dict[str, Any]:
    """Carry out ``config``; values in the form ``pacdp-certificates/1``.

    Raises:
        DataError: the data cannot be had.
    """
    train, test = load(config.dataset, root=root)
    features = OrientedGradients(
        size=train.inputs.shape[-1], orientations=config.orientations, cells=config.cells, scale=config.scale
    )
    rows, labels = transform(features, train.inputs), torch.tensor(train.labels)
    parts = hold_out(train.n, prior_share=config.prior_share, seed=config.seed)
    generator = torch.Generator().manual_seed(config.seed)
    own, held = torch.tensor(parts.prior.indices), torch.tensor(parts.bound.indices)
    networks: list[nn.Module] = []
    for _ in range(config.networks):
        half = own[torch.randperm(len(own), generator=generator)[: len(own) // 2]]
        networks.append(_head(rows[half], labels[half], classes=train.classes, config=config))
    errors = error_counts(networks, rows[held], labels[held])
    tested = error_counts(networks, transform(features, test.inputs), torch.tensor(test.labels)) / test.n
    failure_prob = config.failure_prob / config.compared
    found = assess_finite(errors, n=len(held), failure_prob=failure_prob)
    drawn = select(errors, epsilon=config.epsilon, generator=np.random.default_rng(config.seed))
    private = selected_certificate(drawn, errors=errors, n=len(held), failure_prob=failure_prob)
    private = replace(private, inputs={**private.inputs, "of": "private choice", "measures": "0-1 risk"})
    votes = _vote_error(networks, found.weights, transform(features, test.inputs), torch.tensor(test.labels))
    test_errors = {
        "ensemble": float(found.weights @ tested), "vote": votes, "best network": float(tested[found.best]),
        "private choice": float(tested[drawn.index]),
    }  # fmt: skip
    certificates: list[bounds.Certificate] = [found.ensemble, found.vote, found.one, private]
    return {
        "format": "pacdp-certificates/1", "n": len(held), "n_test": test.n, "failure_prob": failure_prob,
        "empirical_risk": found.ensemble.inputs["risk"], "test_risk": test_errors["ensemble"],
        "kl_nats": found.ensemble.inputs["kl_nats"], "privacy": drawn.privacy.to_dict(),
        "mean_classifier": {"train": {"error": float(errors[found.best] / len(held)), "n": len(held)},
                            "test": {"error": test_errors["best network"]}},
        "prior": {"source": "HeldOut", "n": parts.prior.n, "hash": parts.prior.hash, "choice_nats": 0.0},
        "bound_hash": parts.bound.hash, "test_errors": test_errors, "gibbs_classifier": None, "not_applicable": [],
        "diagnosis": None, "certificates": [made.to_dict() for made in certificates],
        "errors": errors.tolist(), "weights": found.weights.tolist(),
    }  # fmt: skip


def _head(
    rows: Float[Tensor, "n dim"], labels: Int64[Tensor, " n"], *, classes: int, config: FiniteConfig
) -> nn.Module:
    head = nn.Linear(rows.shape[1], classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    search = torch.optim.LBFGS(head.parameters(), max_iter=config.iterations, line_search_fn="strong_wolfe")

    def objective() -> Tensor:
        search.zero_grad()
        loss = F.cross_entropy(head(rows), labels) + config.weight_decay * head.weight.square().sum()
        loss.backward()
        return loss

    search.step(objective)  # type: ignore[arg-type]
    return head.eval()


@torch.no_grad()
def _vote_error(networks: list[nn.Module], weights: np.ndarray, rows: Tensor, labels: Tensor) -> float:
    """A tie for the most votes is an error."""
    votes = torch.zeros(len(labels), int(networks[0](rows[:1]).shape[1]), dtype=torch.float64)
    for network, weight in zip(networks, weights, strict=True):
        said = network(rows).argmax(1, keepdim=True)
        votes.scatter_add_(1, said, torch.full(said.shape, float(weight), dtype=torch.float64))
    own = votes.gather(1, labels[:, None])
    return float((votes.scatter(1, labels[:, None], -1.0).amax(1, keepdim=True) >= own).double().mean())
