"""Recursive PAC-Bayes on fixed features: the posterior of each stage is the prior of the next.

Wu, Zhang, Chérief-Abdellatif and Seldin (2024, arXiv 2405.14681). The examples are split into parts S_1, ..., S_T. The
posterior π_t is learnt on S_1, ..., S_t from the prior π_(t-1), which saw S_1, ..., S_(t-1) and nothing else; what is
counted at stage t are the examples of S_t, ..., S_T. With h from π_t and h' from π_(t-1),

    R(π_t) = E[ℓ(h) - γ ℓ(h')] + γ R(π_(t-1)),

and the first term is bounded by three of PAC-Bayes-kl bounds, of 1 - (1-ℓ)ℓ', of ℓ and of ℓ(1-ℓ'), whose weights are γ,
1 - γ and γ, less γ. Each part of each stage has its share of the failure probability, draws included.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

import bounds
from experiments.papers.runs.held_out import Clock
from experiments.papers.runs.learnt import HeadConfig, rows_of
from pacdp import GaussianPosterior
from pacdp.data import load
from pacdp.features import SimplexHead, fit_law
from pacdp.features.head_law import HeadLaw
from pacdp.losses import Loss, in_error
from pacdp.stochastic import mean_risks


@dataclass(frozen=True, slots=True, kw_only=True)
class RecursiveConfig:
    """A head's settings, and the stages."""

    head: HeadConfig
    stages: int = 3
    """T; the parts have n/2^(T-1), n/2^(T-1), n/2^(T-2), ..., n/2 examples. One stage is an ordinary bound."""
    gamma: float = 0.5
    seed: int = 0


class Pair(nn.Module):
    """Logits of a head and, after them, those of the head of the stage before."""

    def __init__(self, dim: int, classes: int) -> None:
        super().__init__()
        self.now, self.before = SimplexHead(dim, classes), SimplexHead(dim, classes)

    def forward(self, rows: Float[Tensor, "n dim"]) -> Float[Tensor, "n both"]:
        """Outputs of both, side by side."""
        return torch.cat([self.now(rows), self.before(rows)], dim=1)


class Counts(NamedTuple):
    """Upper limits on the three means of a stage, draws paid for."""

    worse_or_right_before: float
    errors: float
    worse: float


def parts(n: int, *, stages: int, seed: int) -> list[np.ndarray]:
    """Disjoint parts of geometrically growing size."""
    cuts = [0, *(n // 2 ** (stages - k) for k in range(1, stages)), n]
    order = np.random.default_rng(seed).permutation(n)
    return [order[a:b] for a, b in pairwise(cuts)]


def conduct(config: RecursiveConfig, *, root: str | None = None) -> dict[str, Any]:
    """All stages; a record for each, the last of which is the bound."""
    head, clock = config.head, Clock()
    train, test = load(head.dataset, root=root)
    n = head.train_size or train.n
    rows, labels = rows_of(head, train, n), torch.tensor(train.labels[:n])
    tests = rows_of(head, test, test.n)
    own = parts(n, stages=config.stages, seed=config.seed)
    share = head.failure_prob / head.compared / config.stages
    mean, found, bound = None, list[dict[str, Any]](), 0.0
    for stage in range(config.stages):
        seen, counted = (torch.as_tensor(np.concatenate(some)) for some in (own[: stage + 1], own[stage:]))
        law = fit_law(
            rows[seen], labels[seen], classes=train.classes, n=len(counted), failure_prob=share, prior_mean=mean,
            rounds=head.rounds, iterations=head.iterations,
        )  # fmt: skip
        pair, laws = Pair(rows.shape[1], train.classes).eval(), _both(law)
        kl = law.posterior().kl_nats(law.prior())
        drawn = _Drawn(pair, laws, head, config.seed + 100 + stage)
        limits = drawn.limits(rows[counted], labels[counted], kl=kl, share=share, first=not stage)
        gamma = config.gamma if stage else 0.0
        excess = -gamma + gamma * (limits.worse_or_right_before + limits.worse) + (1.0 - gamma) * limits.errors
        bound = min(1.0, excess + gamma * bound)
        found.append({
            "stage": stage + 1, "seen": len(seen), "counted": len(counted), "kl_nats": kl, "bound": bound,
            "test_error": drawn.error(tests, torch.tensor(test.labels)),
        })  # fmt: skip
        # from here on in the coordinates in which this posterior is N(mean, I)
        mean = torch.linalg.solve_triangular(law.factor.double(), law.mean.double().T, upper=False).T.float()
        rows, tests = rows @ law.factor, tests @ law.factor
    clock.lap("all")
    return {"stages": found, "n": n, "n_test": test.n, "failure_prob": head.failure_prob, "compared": head.compared,
            "cpu_seconds": clock.cpu}  # fmt: skip


def _both(law: HeadLaw) -> GaussianPosterior:
    now, before = law.posterior(), law.prior()
    joined = {
        what: {f"{name}.{key}": value for name, one in (("now", now), ("before", before))
               for key, value in getattr(one, what).items()}
        for what in ("means", "stds", "buffers", "factors")
    }  # fmt: skip
    return GaussianPosterior(**joined)


class _Drawn(NamedTuple):
    """Fresh draws of two heads for every example."""

    pair: Pair
    laws: GaussianPosterior
    head: HeadConfig
    seed: int

    def limits(self, rows: Tensor, labels: Tensor, *, kl: float, share: float, first: bool) -> Counts:
        """Upper limits on the means that hold with probability 1 - share together."""
        each = share if first else share / 3.0
        drawn = each * self.head.monte_carlo_share
        n = len(labels)
        nats = _nats(kl, n, each - drawn)
        found = [
            float(bounds.binary_kl_upper(risk.upper(drawn).value, nats))
            for risk in self._risks(rows, labels, passes=self.head.passes)
        ]
        return Counts(*found)

    def error(self, rows: Tensor, labels: Tensor) -> float:
        """One draw for each test example."""
        return self._risks(rows, labels, passes=1)[1].mean

    def _risks(self, rows: Tensor, labels: Tensor, *, passes: int) -> Any:
        return mean_risks(self.pair, self.laws, inputs=rows, labels=labels, losses=_LOSSES, passes=passes,
                          seed=self.seed, batch_size=4096)  # fmt: skip


def _wrong(outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    now, before = outputs.chunk(2, dim=1)
    return in_error(now, labels), in_error(before, labels)


def _loss(name: str, of: Any) -> Loss:
    return Loss(name=name, low=0.0, high=1.0, function=lambda outputs, labels: of(*_wrong(outputs, labels)).to(outputs))


_LOSSES = (
    _loss("worse or right before", lambda now, before: now | ~before),
    _loss("errors", lambda now, before: now),
    _loss("worse", lambda now, before: now & ~before),
)


def _nats(kl: float, n: int, failure_prob: float) -> float:
    """(KL + ln ξ(n) + ln 1/failure_prob)/n, rounded up."""
    return (kl + bounds.log_xi(n) - math.log(failure_prob)) / n * (1.0 + 2.0**-48)
