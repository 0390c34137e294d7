"""Who draws what: a chain's random numbers are a function of (seed, chain, stream, step) and of nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

NOISE, OUTER_NOISE, BATCH, PRIOR, PROBE = range(5)
"""Streams: purposes whose numbers must not coincide at one step."""
CERTIFY = 1
"""Purpose of keys: the randomness of a certificate, which must not be that of training."""


@dataclass(frozen=True, eq=False)
class Keys:
    """64-bit keys of K chains: one for a chain's noise, one for its minibatches, uint64 [K]."""

    noise: np.ndarray
    batch: np.ndarray

    @classmethod
    def derive(cls, seeds: Sequence[int], chains: Sequence[int] | None = None, *, purpose: int | None = None) -> "Keys":
        """Keys of the chains numbered ``chains`` (0 where not given) of the runs with these seeds.

        Chains of equal seed and number draw equal minibatches and equal noise, whatever else differs between them;
        a ``purpose``, such as CERTIFY, sets keys apart from those of training.

        Raises:
            ValueError: a seed or a number is negative, or there are not as many of the one as of the other.
        """
        numbers = [0] * len(seeds) if chains is None else list(chains)
        if len(numbers) != len(seeds):
            raise ValueError(f"expected as many chains as seeds, got {len(numbers)} and {len(seeds)}")
        if any(value < 0 for value in (*seeds, *numbers)):
            raise ValueError("expected seeds and chain numbers >= 0, got a negative one")
        drawn = [
            # a spawn key, unlike a second number, keeps (2**32, 0) and (0, 1) apart
            np.random.SeedSequence(seed, spawn_key=(chain,) if purpose is None else (chain, purpose)).generate_state(
                2, np.uint64
            )
            for seed, chain in zip(seeds, numbers, strict=True)
        ]
        noise, batch = np.array(drawn, dtype=np.uint64).reshape(-1, 2).T.copy()
        return cls(noise, batch)

    @property
    def count(self) -> int:
        """The number of chains."""
        return len(self.noise)

    @cached_property
    def groups(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct minibatch keys, and which of them each chain draws with."""
        distinct, group = np.unique(self.batch, return_inverse=True)
        return distinct, group

    def select(self, chains: Sequence[int]) -> "Keys":
        """The keys of some of the chains."""
        return Keys(self.noise[list(chains)], self.batch[list(chains)])

    def noise_on(self, device: torch.device) -> Tensor:
        """The noise keys as two words each, int64 [2, K] on ``device``."""
        cache = self.__dict__.setdefault("_on", {})
        if device not in cache:
            halves = np.stack([self.noise & np.uint64(0xFFFFFFFF), self.noise >> np.uint64(32)]).astype(np.int64)
            cache[device] = torch.tensor(halves, device=device)
        return cache[device]
