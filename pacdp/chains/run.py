"""Running chains: steps in chunks, each chunk checked before anyone sees it.

What chains were seen to do is kept, a bounded number of numbers each: their diagnostics are computed from it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pacdp.errors import Diverged
from pacdp.losses import Loss
from pacdp.random.keys import Keys

KEPT = frozenset(4**k - 1 for k in range(20))
"""Steps 0, 3, 15, 63, ... of chains that keep norms are kept whole, before and after, so that they can be checked."""
LENGTH = 2000
"""Most windows of a trace."""
WINDOWED = ("energy", "displacement")
"""Names of the numbers whose means over windows are kept."""
SQUARED_NORMS = "squared_norms"
"""Name of the kept norms in a checkpoint's trace."""


@runtime_checkable
class Steps(Protocol):
    """What is run: ``step(state, keys)`` gives the next state and what the step saw."""

    def step(self, state: Any, keys: Keys) -> tuple[Any, Any]:
        """Advance all chains by one step, without changing the given state."""
        ...


class Chunk(NamedTuple):
    """Some steps of K chains."""

    state: Any
    """The sampler's state after the last of them."""
    losses: Float[Tensor, "chains steps"]
    """Mean minibatch loss of each step, on the CPU."""
    errors: Float[Tensor, "chains steps"]
    """Mean minibatch 0-1 loss of each step, on the CPU."""
    displacements: Float[Tensor, "chains steps"] | None
    """|μ - w|² of each step of Entropy-SG(L)D, on the CPU."""
    squared_norms: Float[Tensor, "chains gradients"] | None = None
    """Where they are kept, Σ_i ‖g_i‖² of each gradient of the steps, on the CPU."""
    kept: Mapping[str, Tensor] = MappingProxyType({})
    """With them, the sampler's state before and after each step of :data:`KEPT`, by "kept.STEP.NAME", on the CPU."""


def run_chains(
    sampler: Steps, state: Any, keys: Keys, *, until: int, chunk: int, loss: Loss | None = None
) -> Iterator[Chunk]:
    """Advance the chains to step ``until``, yielding at every multiple of ``chunk`` steps.

    What steps see stays on the device until the end of a chunk, so that a GPU is never waited for step by step.

    Raises:
        Diverged: a minibatch loss is NaN or infinite (it names the first such step), or a weight is (it names the
            chunk's last step), with the numbers of the chains concerned; nothing of that chunk is yielded.
        ValueError: a minibatch loss lies above the interval that ``loss`` declares. (An empty Poisson batch has mean 0;
            the lower end is checked where whole data sets are judged.)
    """
    while state.step < until:
        first = state.step + 1
        stop = min(until, (state.step // chunk + 1) * chunk)
        seen: list[Any] = []
        kept: dict[str, Tensor] = {}
        for _ in range(stop - state.step):
            before, (state, info) = state, sampler.step(state, keys)
            seen.append(info)
            if info.squared_norms is not None and before.step in KEPT:
                kept |= _named(before) | _named(state)
        losses = torch.stack([info.loss for info in seen], dim=1).cpu()
        bad = ~torch.isfinite(losses)
        if bool(bad.any()):
            raise Diverged(first + int(bad.any(dim=0).nonzero()[0]))
        if not bool(torch.isfinite(state.weights).all()):
            raise Diverged(state.step, "a weight")
        if loss is not None:
            loss.require(max(float(losses.min()), loss.low), float(losses.max()))
        errors = torch.stack([info.error for info in seen], dim=1).cpu()
        moved = _along(torch.stack, [info.displacement for info in seen])
        norms = _along(torch.cat, [info.squared_norms for info in seen])
        yield Chunk(state, losses, errors, moved, norms, kept)


def _along(join: Callable[..., Tensor], steps: list[Any]) -> Tensor | None:
    """What the steps saw, side by side on the CPU; None where they did not look."""
    return None if steps[0] is None else join(steps, dim=1).cpu()


def _named(state: Any) -> dict[str, Tensor]:
    tensors = {name: one for name, one in state._asdict().items() if isinstance(one, Tensor)}
    return {
        f"kept.{state.step}.{name}": one.detach().cpu().clone() for name, one in tensors.items()
    }


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
