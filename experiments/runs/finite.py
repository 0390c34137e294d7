"""Certificates of finitely many networks: linear heads on fixed features, learnt on one part of the training set.

Each head is fitted, by L-BFGS on the cross-entropy, to its own random half of the prior's examples. The bound's
examples then weight them, choose one of them, or choose one privately (the exponential mechanism).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.runs.held_out import of_a_list
from experiments.runs.private_prior import gradients, zero_head
from pacdp import BoundSet, Finite, HeldOut, certify
from pacdp.backprop import hold_out
from pacdp.cli.config import Runtime
from pacdp.data.rows import Rows


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


def finite(config: FiniteConfig, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """A job's report; nothing is kept in ``folder``."""
    classes, (data, test) = gradients(config, runtime.data_root)
    parts = hold_out(data.n, prior_share=config.prior_share, seed=config.seed)
    generator = torch.Generator().manual_seed(config.seed)
    own, held = (torch.tensor(one.indices) for one in parts)
    networks: list[nn.Module] = []
    for _ in range(config.networks):
        half = own[torch.randperm(len(own), generator=generator)[: len(own) // 2]]
        networks.append(_fitted(data.inputs[half], data.labels[half], classes, config))
    people = None if data.people is None else data.people[held]
    return certify(
        Finite(networks=networks, epsilon=config.epsilon, seed=config.seed),
        BoundSet(inputs=data.inputs[held], labels=data.labels[held], indices=parts.bound, people=people),
        prior=HeldOut(indices=parts.prior, rows=Rows.of(data.inputs[own], data.labels[own])), test=test,
        failure_prob=config.failure_prob, settings=of_a_list(config.compared),
    ).to_dict()  # fmt: skip


def _fitted(rows: Tensor, labels: Tensor, classes: int, config: FiniteConfig) -> nn.Module:
    head = zero_head(rows.shape[1], classes, bias=True)
    search = torch.optim.LBFGS(head.parameters(), max_iter=config.iterations, line_search_fn="strong_wolfe")

    def objective() -> Tensor:
        search.zero_grad()
        loss = F.cross_entropy(head(rows), labels) + config.weight_decay * head.weight.square().sum()
        loss.backward()
        return loss

    search.step(objective)  # type: ignore[arg-type]
    return head.eval()
