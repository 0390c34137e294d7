"""Epsilon of P3SGD's settings without training anything: as the paper accounts, and as holds."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.config import Runtime
from experiments.studies.single import single
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

    @property
    def key(self) -> str:
        """Ten hex digits of the settings' JSON."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:10]

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Accounting":
        """The inverse of :meth:`to_dict`. Raises ValueError for a part that is missing or unknown."""
        try:
            return cls(**{**values, "noise_scales": tuple(values["noise_scales"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"these are not the settings of an accounting of this version: {error}") from error


def compute(config: Accounting, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Both numbers; the sound one with its bracket."""
    del runtime, folder
    # clip norm, divisor and learning rate cost nothing: any will do
    mechanism = private.PatientMechanism(clip_norm=1.0, sample_rate=config.sample_rate, expected_patients=1.0,
                                         steps=config.steps)  # fmt: skip
    candidates = private.NestedNoise() if config.nested else private.IndependentNoise()
    settings = private.P3SGD(mechanism=mechanism, noise_scales=config.noise_scales, learning_rate=1.0,
                             selection_epsilon=config.selection_epsilon, candidates=candidates)  # fmt: skip
    spent = private.planned_patients(settings).epsilon(config.delta)
    published = private.published_epsilon(
        noise_scales=config.noise_scales, sample_rate=config.sample_rate, steps=config.steps,
        selection_epsilon=config.selection_epsilon, delta=config.delta,
    )  # fmt: skip
    return {
        "privacy": {"epsilon": spent.upper, "epsilon_lower": spent.lower, "published_epsilon": published.epsilon,
                    "delta": config.delta, "adjacency": spent.adjacency, "steps": config.steps},
    }  # fmt: skip


ACCOUNTING = single(compute, read=Accounting.from_dict)
