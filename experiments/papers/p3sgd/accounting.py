"""Epsilon of P3SGD's settings without training anything: as the paper accounts, and as holds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.config import Runtime
from experiments.study import single
from pacdp import private


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """Settings of P3SGD that cost privacy; the paper's by default (Sections 4.2 and 4.3)."""

    noise_scales: tuple[float, ...]
    sample_rate: float = 0.1
    steps: int = 100
    selection_epsilon: float = 0.1**0.5
    delta: float = 1000**-1.1
    nested: bool = False
    """Candidates share their noise."""
    seed: int = 0
    """Of nothing: an accountant draws no numbers."""


def compute(config: Accounting, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Both numbers; the sound one with its bracket."""
    del runtime, folder
    # clip norm, divisor and learning rate cost nothing: any will do
    mechanism = private.Mechanism(clip_norm=1.0, sample_rate=config.sample_rate, expected_batch_size=1.0,
                                         steps=config.steps)  # fmt: skip
    candidates = private.NestedNoise() if config.nested else private.IndependentNoise()
    settings = private.P3SGD(mechanism=mechanism, noise_scales=config.noise_scales, learning_rate=1.0,
                             selection_epsilon=config.selection_epsilon, candidates=candidates)  # fmt: skip
    spent = private.privacy_spent(settings.promise(0, config.steps), delta=config.delta, adjacency="add-remove")
    published = private.published_epsilon(
        noise_scales=config.noise_scales, sample_rate=config.sample_rate, steps=config.steps,
        selection_epsilon=config.selection_epsilon, delta=config.delta,
    )  # fmt: skip
    return {
        "privacy": {"epsilon": spent.upper, "epsilon_lower": spent.lower, "published_epsilon": published.epsilon,
                    "delta": config.delta, "adjacency": spent.adjacency, "steps": config.steps},
    }  # fmt: skip


ACCOUNTING = single(compute)
