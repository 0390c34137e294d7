"""Where noise, batches and masks come from, and the one way for noise into a sum.

:class:`SystemRandomness` is for releases: its noise comes from a cipher under keys of the operating system, of which
nothing is kept, so a resumed run is as private as an uninterrupted one but not bit for bit equal to it; sum and noise
are added on a grid, whose price docs/noise.md proves. :class:`SeededRandomness` is for tests and for experiments that
must be reproduced: whoever knows its seed, or finds its state in a checkpoint, can subtract the noise, and on the CPU
the seed has 32 bits only.

Batches are made of either's words by :mod:`pacdp.step.sampling`.
"""

import hashlib
import math
import os
from collections.abc import Mapping
from fractions import Fraction
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from bounds import _check
from pacdp.random import Words, cipher, grid
from pacdp.step.sampling import once_an_epoch, poisson


@runtime_checkable
class Randomness(Protocol):
    """Gaussian noise, batches, and generators for draws that privacy does not rest on.

    No source hands noise out: it adds it to what the noise hides.
    """

    def noised(self, total: Tensor, *, std: float) -> Tensor:
        """A new tensor: ``total`` with independent N(0, std²) on every coordinate."""
        ...

    def batch(self, n: int, sample_rate: float) -> Tensor:
        """Indices below ``n``, each there independently with probability ``sample_rate``; int64, on the CPU."""
        ...

    def places(self, n: int, batches: int) -> Tensor:
        """The batch of each of ``n`` records in an epoch, uniform and independent; int64, on the CPU."""
        ...

    def generator(self, stream: str, device: torch.device | str = "cpu") -> torch.Generator:
        """A fresh generator for masks, weight draws or pre-noise; another one for every ``stream``."""
        ...

    def state(self) -> Mapping[str, Tensor]:
        """What must be saved to go on bit for bit; empty where that is impossible by design."""
        ...

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a saved state."""
        ...


def add_noise(total: Tensor, *, std: float, randomness: Randomness) -> Tensor:
    """A new tensor: ``total`` with independent N(0, std²) on every coordinate. The one way for noise into a sum.

    Formal guarantee: with :class:`SystemRandomness` the result is a rounding of the real number that the Gaussian
    mechanism releases, up to the epsilon and delta of :func:`pacdp.random.grid.arithmetic_cost`: whatever is proved of
    the Gaussian mechanism for ``total`` as it was computed holds of what this function returns. With seeded sources it
    is a sum of floating-point numbers, of which nothing is promised.

    Raises:
        ValueError: ``std`` is negative, not finite, or beyond 2^±900.
    """
    if not 0.0 <= std < math.inf:
        raise ValueError(f"std must be a finite number >= 0, got {std}")
    return randomness.noised(total, std=std)


def share(std: float, processes: int) -> float:
    """The standard deviation for each of ``processes`` whose independent noise adds up to variance std² or more.

    It is the least floating-point number s with processes · s² >= std².
    """
    _check.count(processes=processes)
    # below it, whatever root and quotient round to
    part = std / math.sqrt(processes) * (1.0 - 2.0**-50)
    while processes * Fraction(part) ** 2 < Fraction(std) ** 2:
        part = math.nextafter(part, math.inf)
    return part


class SystemRandomness:
    """Noise that nobody can predict: ChaCha20 under keys of the operating system, one for every 256 KiB.

    A noise number is Φ⁻¹ of a uniform one, scaled, added to what it hides and rounded to a grid in exact arithmetic:
    a power of two, 1,024 to 2,048 times finer than the standard deviation. No state exists between two calls, so
    nothing can be stolen, saved or replayed, and forks, threads and copies of the object draw independently.
    """

    def noised(self, total: Tensor, *, std: float) -> Tensor:
        """``total`` with independent N(0, std²) on every coordinate, on the grid that only ``std`` decides.

        Raises:
            ValueError: ``std`` is beyond 2^±900.
        """
        return grid.noised(total, std=std)

    def batch(self, n: int, sample_rate: float) -> Tensor:
        """A Poisson batch; the probability is ``sample_rate`` rounded down to a multiple of 2⁻⁵³."""
        return poisson(self._words(n), sample_rate)

    def places(self, n: int, batches: int) -> Tensor:
        """The batch of each record in an epoch."""
        return once_an_epoch(self._words, n, batches)

    def _words(self, n: int) -> Words:
        words = np.empty(n, np.int64)
        cipher.fresh().fill(words)
        # the upper 53 of 64 bits, as many as the significand of a floating-point number has
        return Words(torch.from_numpy((words.view(np.uint64) >> np.uint64(11)).view(np.int64)), 53)

    def generator(self, stream: str, device: torch.device | str = "cpu") -> torch.Generator:
        """A generator seeded by the operating system."""
        del stream
        return torch.Generator(device).manual_seed(int.from_bytes(os.urandom(8), "little") >> 1)

    def state(self) -> Mapping[str, Tensor]:
        """Empty: there is no state."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Refuse anything but the empty state.

        Raises:
            ValueError: the state is that of a seeded run.
        """
        if state:
            raise ValueError(
                "the run was seeded: resume it with SeededRandomness, whose state the checkpoint carries"
            )


class SeededRandomness:
    """Reproducible draws from ``seed``, for tests and reproductions. Not for releases: see the module's head."""

    def __init__(self, seed: int, *, device: torch.device | str = "cpu") -> None:
        if not hasattr(seed, "__index__"):
            raise ValueError(
                f"seed must be a whole number, by which a ledger knows the noise, got {seed!r}: for noise that "
                "nobody can draw again take SystemRandomness()"
            )
        self.seed = int(seed)
        self._noise = self.generator("noise", device)
        self._batches = self.generator("batches")

    def noised(self, total: Tensor, *, std: float) -> Tensor:
        """``total`` with independent N(0, std²) from the noise stream, in the memory of the noise."""
        drawn = torch.empty(tuple(total.shape), dtype=total.dtype, device=self._noise.device)
        return drawn.normal_(0.0, std, generator=self._noise).to(total.device).add_(total)

    def batch(self, n: int, sample_rate: float) -> Tensor:
        """A Poisson batch from the batch stream."""
        return poisson(self._words(n), sample_rate)

    def places(self, n: int, batches: int) -> Tensor:
        """The batch of each record in an epoch, from the batch stream."""
        return once_an_epoch(self._words, n, batches)

    def _words(self, n: int) -> Words:
        uniform = torch.rand(n, dtype=torch.float64, generator=self._batches)
        return Words((uniform * 2.0**53).long(), 53)

    def generator(self, stream: str, device: torch.device | str = "cpu") -> torch.Generator:
        """A generator whose seed is a hash of the seed and the stream's name."""
        digest = hashlib.sha256(f"{self.seed}/{stream}".encode()).digest()
        return torch.Generator(device).manual_seed(int.from_bytes(digest[:8], "little") >> 1)

    def state(self) -> Mapping[str, Tensor]:
        """The states of both streams."""
        return {"noise": self._noise.get_state(), "batches": self._batches.get_state()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from ``state``.

        Raises:
            ValueError: the state is that of an unseeded run, or of another seed, under whose name a ledger would count
                this one's noise.
        """
        if set(state) != {"noise", "batches"}:
            raise ValueError("the run was not seeded: resume it with SystemRandomness")
        held = torch.Generator(self._noise.device)
        held.set_state(state["noise"])
        if held.initial_seed() != self._noise.initial_seed():
            raise ValueError(
                f"the run was seeded by another number than {self.seed}: resume it with its own seed"
            )
        self._noise.set_state(state["noise"])
        self._batches.set_state(state["batches"])
