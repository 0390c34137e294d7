"""What chains were seen to do, a bounded number of numbers each: what their diagnostics are computed from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from pacdp.chains.run import Chunk

LENGTH = 2000
"""Most windows of a trace."""
SQUARED_NORMS = "squared_norms"
"""Name of the kept norms in a checkpoint's trace."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Means over windows of ``every`` steps: ``energy`` (minibatch loss) and, for Entropy-SG(L)D, ``displacement``."""

    every: int
    windows: Mapping[str, Tensor]
    """By name, [chains, whole windows]."""
    pending: Mapping[str, Tensor]
    """By name, [chains, steps since the last whole window]."""
    squared_norms: Tensor | None = None
    """Where they are kept, Σ_i ‖g_i‖² of every gradient from the first on, float64 [chains, gradients]."""
    kept: Mapping[str, Tensor] = field(default_factory=dict)
    """With them, states of some steps (:class:`pacdp.chains.run.Chunk`), [chains, ...]."""

    @classmethod
    def start(cls, steps: int) -> "Trace":
        """An empty trace of chains that will make ``steps`` steps."""
        return cls(max(1, -(-steps // LENGTH)), {}, {})

    def extended(self, chunk: Chunk) -> "Trace":
        """With the steps of ``chunk`` added."""
        new = {"energy": chunk.losses}
        if chunk.displacements is not None:
            new["displacement"] = chunk.displacements
        windows, pending = {}, {}
        for name, values in new.items():
            values = (
                torch.cat([self.pending[name], values], dim=1) if name in self.pending else values
            )
            whole = values.shape[1] // self.every * self.every
            means = values[:, :whole].unflatten(1, (-1, self.every)).mean(dim=2)
            windows[name] = (
                torch.cat([self.windows[name], means], dim=1) if name in self.windows else means
            )
            pending[name] = values[:, whole:].clone()
        norms = [one for one in (self.squared_norms, chunk.squared_norms) if one is not None]
        return Trace(
            self.every,
            windows,
            pending,
            torch.cat(norms, dim=1) if norms else None,
            {**self.kept, **chunk.kept},
        )

    def tensors(self, chain: int) -> dict[str, Tensor]:
        """One chain's part, for a checkpoint."""
        found = {name: values[chain] for name, values in self.windows.items()}
        found |= {f"pending.{name}": values[chain] for name, values in self.pending.items()}
        found |= {name: values[chain] for name, values in self.kept.items()}
        return (
            found
            if self.squared_norms is None
            else found | {SQUARED_NORMS: self.squared_norms[chain]}
        )

    @classmethod
    def of(cls, every: int, parts: Sequence[Mapping[str, Tensor]]) -> "Trace":
        """The trace of several chains, from what :meth:`tensors` gave for each."""
        joined = {name: torch.stack([part[name] for part in parts]) for name in parts[0]}
        norms = joined.pop(SQUARED_NORMS, None)
        kept = {name: joined.pop(name) for name in list(joined) if name.startswith("kept.")}
        windows = {
            name: values for name, values in joined.items() if not name.startswith("pending.")
        }
        return cls(
            every, windows, {name: joined[f"pending.{name}"] for name in windows}, norms, kept
        )

    def select(self, chains: Sequence[int]) -> "Trace":
        """The trace of some of the chains."""
        return (
            Trace.of(self.every, [self.tensors(chain) for chain in chains])
            if self.windows
            else self
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """The whole windows as float64 arrays [chains, windows]."""
        return {name: values.double().numpy() for name, values in self.windows.items()}
