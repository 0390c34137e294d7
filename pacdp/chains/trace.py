"""What chains were seen to do, a bounded number of numbers each: what their diagnostics are computed from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from pacdp.chains.run import Chunk

LENGTH = 2000
"""Most windows of a trace."""
WINDOWED = ("energy", "displacement")
"""Names of the numbers whose means over windows are kept."""
SQUARED_NORMS = "squared_norms"
"""Name of the kept norms in a checkpoint's trace."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What K chains were seen to do, by name, as a checkpoint holds it.

    ``energy`` (minibatch loss) and, for Entropy-SG(L)D, ``displacement`` are means over whole windows of ``every``
    steps, ``pending.NAME`` the numbers of the steps since. Where norms are kept, ``squared_norms`` holds Σ_i ‖g_i‖² of
    every gradient from the first on, and ``kept.STEP.NAME`` the states of some steps (:class:`pacdp.chains.run.Chunk`).
    """

    every: int
    parts: Mapping[str, Tensor] = field(default_factory=dict)
    """[chains, ...] each."""

    @classmethod
    def start(cls, steps: int) -> "Trace":
        """An empty trace of chains that will make ``steps`` steps."""
        return cls(max(1, -(-steps // LENGTH)))

    def extended(self, chunk: Chunk) -> "Trace":
        """With the steps of ``chunk`` added."""
        parts = {**self.parts, **chunk.kept}
        for name, values in zip(WINDOWED, (chunk.losses, chunk.displacements), strict=True):
            if values is None:
                continue
            values = _joined(parts.get(f"pending.{name}"), values)
            whole = values.shape[1] // self.every * self.every
            means = values[:, :whole].unflatten(1, (-1, self.every)).mean(dim=2)
            parts[name] = _joined(parts.get(name), means)
            parts[f"pending.{name}"] = values[:, whole:].clone()
        if chunk.squared_norms is not None:
            parts[SQUARED_NORMS] = _joined(parts.get(SQUARED_NORMS), chunk.squared_norms)
        return Trace(self.every, parts)

    def tensors(self, chain: int) -> dict[str, Tensor]:
        """One chain's part, for a checkpoint."""
        return {name: values[chain] for name, values in self.parts.items()}

    @classmethod
    def of(cls, every: int, chains: Sequence[Mapping[str, Tensor]]) -> "Trace":
        """The trace of several chains, from what :meth:`tensors` gave for each."""
        return cls(every, {name: torch.stack([one[name] for one in chains]) for name in chains[0]})

    def arrays(self) -> dict[str, np.ndarray]:
        """The whole windows as float64 arrays [chains, windows]."""
        return {name: self.parts[name].double().numpy() for name in WINDOWED if name in self.parts}


def _joined(before: Tensor | None, more: Tensor) -> Tensor:
    return more if before is None else torch.cat([before, more], dim=1)
