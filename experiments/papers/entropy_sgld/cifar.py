"""Entropy-SGLD on CIFAR-10 (Appendix E): runs of Figures 5 and 6 and what they need beyond MNIST's.

The paper's outer steps there start at 0.1 and decay as t^-0.1. An inner step pulls towards the centre by a share of
h_i γ: with h_1 = 1 the inner chain diverges at the paper's largest γ (50 in Figure 6), so that steps are 1/γ of that
for γ > 1. Printed are no values of the grids beyond those that the text names; ours span the same ranges.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from experiments.papers.entropy_sgld import judging
from experiments.papers.entropy_sgld.settings import CAREFUL, PAPER_TRACK, SMALL, Size, job, smoke
from experiments.recipes import Scale
from experiments.study import Job
from pacdp import Architecture, GibbsSettings

EXAMPLES = 50_000
"""Of CIFAR-10's training set, all of which the paper has."""
PRIVACY = 2000.0
"""βτ of Figure 6."""
TAUS: dict[Scale, tuple[float, ...]] = {
    "smoke": (1e2, 1e4, 1e6),
    "cpu": (1e2, 1e3, 1e4, 1e6),
    "paper": (1e1, 3e1, 1e2, 3e2, 1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6, 1e7, 1e8),
}
GAMMAS: dict[Scale, tuple[float, ...]] = {
    "smoke": (0.03, 3.0),
    "cpu": (0.003, 0.03, 0.3, 3.0, 30.0),
    "paper": (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 20.0, 50.0),
}
SWEEP_GAMMAS = (0.03, 3.0)
"""The rows of Figure 5."""
BETAS = (1.0, 0.004)
"""The panels of Figure 6."""
_PAPER = Size(dataset="cifar10", epochs=2000.0, records=1, track=replace(PAPER_TRACK, epochs=50.0))
_SMOKE = smoke("digits")
TAU_SIZES: dict[Scale, Size] = {
    "smoke": _SMOKE,
    "cpu": Size(dataset="cifar10", train_size=1000, epochs=200.0, records=1,
                track=GibbsSettings(epochs=10.0, prior_draws=10, test_draws=4)),
    "paper": _PAPER,
}  # fmt: skip
GAMMA_SIZES: dict[Scale, Size] = {
    "smoke": _SMOKE,
    "cpu": Size(dataset="cifar10", epochs=30.0, records=1,
                track=CAREFUL),
    "paper": _PAPER,
}  # fmt: skip


def network(scale: Scale, small: Architecture) -> Architecture:
    """All-CNN-C with group normalisation, ``small`` at scale cpu."""
    match scale:
        case "smoke":
            return SMALL
        case "cpu":
            return small
        case "paper":
            return Architecture(name="allcnn", norm="group")


def one(
    size: Size, *, scale: Scale, small: Architecture, labels: str, tau: float, gamma: float, beta: float, seed: int
) -> Job:
    """A run of Entropy-SGLD at these three temperatures and scopes."""
    outer = 0.1 if scale == "paper" else min(2.0, 0.5 * tau * gamma * beta)
    return job(
        "entropy-sgld", size, scale=scale, network=network(scale, small), labels=labels, seed=seed, tau=tau,
        gamma=gamma, beta=beta, outer_step_size=outer, outer_decay=0.1, inner_step_size=2.0 / max(1.0, gamma),
    )  # fmt: skip


def notes(scale: Scale, size: Size, found: pl.DataFrame, *others: str) -> tuple[str, ...]:
    """Cuts, network, steps."""
    steps = (
        "Inner steps are divided by gamma where it exceeds 1: with the paper's 1/i the inner chain diverges at its "
        "largest gamma."
    )
    if scale == "paper":
        nets = "All-CNN-C has group normalisation where the paper's has batch normalisation."
        return judging.scale_notes(scale, size, found, steps, nets, *others)
    nets = "digits and a small network stand in for CIFAR-10 and All-CNN-C." if scale == "smoke" else (
        "A small convolutional network stands in for All-CNN-C."
    )  # fmt: skip
    return judging.scale_notes(scale, size, found, steps, nets, *others)


def spaced(values: Sequence[float]) -> float:
    """Largest minus smallest."""
    return max(values) - min(values) if values else math.nan
