"""Runs as an auditor plans them: so many steps, batches of the auditor's choice, sources that say what they draw."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from pacdp.algorithms.algorithm import Algorithm
from pacdp.step.noise import Randomness, SeededRandomness


def of_length(algorithm: Algorithm, steps: int) -> Algorithm:
    """The algorithm with so many steps, without a budget, snapshots or noise before clipping."""
    own: Any = algorithm
    changes: dict[str, Any] = {"mechanism": replace(own.mechanism, steps=steps, budget=None)}
    changes |= {field.name: 0 for field in fields(own) if field.name in ("burn_in", "thin")}
    if own.pre_noise > 0.0:
        changes["convention"] = replace(own.convention, pre_noise=0.0)
    return replace(own, **changes)


class Planned:
    """Randomness of an auditor: no noise, and the batches of a list, one after the other; None for all units."""

    def __init__(self, batches: Sequence[Sequence[int] | None]) -> None:
        self._batches, self._streams = iter(batches), SeededRandomness(0)

    def normal(self, shape: Sequence[int], *, std: float, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Zeros."""
        del std
        return torch.zeros(tuple(shape), dtype=dtype, device=device)

    def batch(self, n: int, sample_rate: float) -> Tensor:
        """The next of the list; a coin of one side for whoever asks about a single unit."""
        del sample_rate
        chosen = None if n == 1 else next(self._batches)
        return torch.arange(n) if chosen is None else torch.tensor(chosen, dtype=torch.int64)

    def generator(self, stream: str, device: torch.device | str = "cpu") -> torch.Generator:
        """As in a seeded run."""
        return self._streams.generator(stream, device)

    def state(self) -> Mapping[str, Tensor]:
        """None."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Nothing to restore."""
        del state


def overheard(
    source: Randomness,
    *,
    batch: Callable[[int, Tensor], Tensor] | None = None,
    generator: Callable[[str, torch.Generator], None] | None = None,
) -> Randomness:
    """``source`` itself, of its own kind and with its own numbers, which says what it drew.

    Args:
        batch: given n and the batch that was drawn, returns the one to be used.
        generator: given a stream's name and its fresh generator.
    """
    kind = type(source)

    def drawn(self: Randomness, n: int, sample_rate: float) -> Tensor:
        found = kind.batch(self, n, sample_rate)
        return found if batch is None else batch(n, found)

    def made(self: Randomness, stream: str, device: torch.device | str = "cpu") -> torch.Generator:
        found = kind.generator(self, stream, device)
        if generator is not None:
            generator(stream, found)
        return found

    twin = copy.copy(source)
    twin.__class__ = type(kind.__name__, (kind,), {"batch": drawn, "generator": made})
    return twin
