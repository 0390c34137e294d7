"""Where noise, batches and masks come from, and the one way for noise into a sum.

:class:`SystemRandomness` is for releases: its noise comes from a cipher under keys of the operating system, of which
nothing is kept, so a resumed run is as private as an uninterrupted one but not bit for bit equal to it; sum and noise
are added on a grid, whose price docs/noise.md proves. :class:`SeededRandomness` is for tests and for experiments that
must be reproduced: whoever knows its seed, or finds its state in a checkpoint, can subtract the noise, and on the CPU
the seed has 32 bits only.

Samples of units are drawn here alone, from the words of whichever generator. A private step sees a Poisson sample:
every unit is in it independently of all others with the same probability, which is rounded down, so that no unit takes
part with more than the probability that was accounted for. Or it sees one of the batches of an epoch, into one of which
every unit is thrown, independently of all others and uniformly.
"""

import hashlib
import math
import os
from bisect import bisect_left
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Int64
from numpy.typing import NDArray
from torch import Tensor

from bounds import _check, binary_kl
from pacdp.random import Words, cipher, grid

_RARE = 80


def poisson(words: Words, sample_rate: float) -> Int64[Tensor, " chosen"]:
    """Indices, rising, of the units whose word is below ⌊sample_rate · 2^bits⌋.

    Formal guarantee: if the words are independent and uniform, each unit is in the sample independently with
    probability ⌊sample_rate · 2^bits⌋ / 2^bits, which is at most ``sample_rate`` and less than 2^-bits below it.

    Raises:
        ValueError: ``sample_rate`` outside [0, 1].
    """
    return _members(words, sample_rate).nonzero()[:, 0]


def once_an_epoch(words: Callable[[int], Words], n: int, batches: int) -> Int64[Tensor, " n"]:
    """The batch of each of n units, from 0 on; ``words`` gives so many new words at every call.

    Formal guarantee: if the words are independent and uniform, so are the batches. A word beyond the largest multiple
    of ``batches`` is drawn again.
    """
    places, left = torch.empty(n, dtype=torch.int64), torch.arange(n)
    while len(left):
        drawn = words(len(left))
        places[left] = drawn.values % batches
        left = left[drawn.values >= 2**drawn.bits // batches * batches]
    return places


class Rows(NamedTuple):
    """Poisson samples in rows of one length, so that no shape depends on a draw; a row a batch."""

    indices: Int64[Tensor, "batches most"]
    """The units of the sample, rising; where there are fewer, unit 0 stands for none."""
    member: Bool[Tensor, "batches most"]
    """Whether a unit stands for itself."""
    whole: Bool[Tensor, " batches"]
    """Whether all units of the sample are in the row."""


def poisson_rows(words: Words, sample_rate: float, most: int) -> Rows:
    """The samples of :func:`poisson` for each row of ``words``, in rows of ``most``, without a number read back.

    A sample of more than ``most`` units is cut off after these and marked: with :func:`most_of_poisson` that has
    probability at most 2⁻⁸⁰ a draw, by the words alone and whatever the units hold.
    """
    chosen = _members(words, sample_rate)
    place = (chosen.cumsum(dim=1) - 1).masked_fill(~chosen, most).clamp(max=most)
    units = torch.arange(chosen.shape[1], device=chosen.device).expand(chosen.shape)
    indices = place.new_zeros(len(place), most + 1).scatter_(1, place, units)[:, :most]
    count = chosen.sum(dim=1)
    return Rows(indices, torch.arange(most, device=chosen.device) < count[:, None], count <= most)


def most_of_poisson(n: int, sample_rate: float) -> int:
    """The least number of units that a sample of n exceeds with probability at most 2⁻⁸⁰, by Chernoff's bound.

    P(more than s) ≤ exp(-n kl((s + 1)/n ‖ sample_rate)), where kl is that of two coins.
    """
    low = min(math.floor(n * sample_rate), n - 1) + 1

    def rare(units: int) -> bool:
        return n * binary_kl((units + 1) / n, sample_rate) >= _RARE * math.log(2.0)

    return low + bisect_left(range(low, n), True, key=rare)


def _members(words: Words, sample_rate: float) -> Bool[Tensor, "*rows size"]:
    if not 0.0 <= sample_rate <= 1.0:
        raise ValueError(f"sample_rate must lie in [0, 1], got {sample_rate}")
    threshold = math.floor(sample_rate * 2.0**words.bits)  # the product is exact: a power of two
    return words.values < threshold


def with_replacement(words: Words, n: int) -> Int64[Tensor, "*rows size"]:
    """One of n indices for each word, ⌊n · word / 2³²⌋ of its upper 32 bits: each has probability 1/n up to 2⁻³²."""
    return ((words.values >> (words.bits - 32)) * n) >> 32


def top_bits(words: NDArray[np.int64]) -> Words:
    """The upper 53 of the 64 bits of each word, as many as the significand of a floating-point number has."""
    return Words(torch.from_numpy((words.view(np.uint64) >> np.uint64(11)).view(np.int64)), 53)


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
    part, whole = std / math.sqrt(processes), Fraction(std) ** 2
    while processes * Fraction(below := math.nextafter(part, 0.0)) ** 2 >= whole and below > 0.0:
        part = below
    while processes * Fraction(part) ** 2 < whole:
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
        return top_bits(words)

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
