"""Certificates of finitely many networks: linear heads on fixed features, learnt on one part of the training set.

Each head is fitted, by L-BFGS on the cross-entropy, to its own random half of the prior's examples. The bound's
examples then weight them, choose one of them, or choose one privately (the exponential mechanism).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from experiments.papers.runs.held_out import of_a_list
from pacdp import BoundSet, Finite, HeldOut, certify
from pacdp.backprop import hold_out
from pacdp.data import Dataset, Split, load
from pacdp.data.rows import Rows
from pacdp.features import OrientedGradients, transform


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
    """Carry out ``config``; values in the form ``pacdp-certificates/2``.

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
    law = Finite(networks=networks, epsilon=config.epsilon, seed=config.seed)
    seen = Rows.of(rows[own], labels[own])
    found = certify(
        law,
        BoundSet(inputs=rows[held], labels=labels[held], indices=parts.bound, people=_people(train, parts.bound)),
        prior=HeldOut(indices=parts.prior, rows=seen),
        test=BoundSet(inputs=transform(features, test.inputs), labels=torch.tensor(test.labels)),
        failure_prob=config.failure_prob,
        settings=of_a_list(config.compared),
    )
    return found.to_dict()


def _people(data: Dataset, part: Split) -> np.ndarray | None:
    return None if data.people is None else data.people[part.indices]


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
