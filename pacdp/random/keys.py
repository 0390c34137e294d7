"""Who draws what: a chain's random numbers are a function of (key, chain, stream, tick) and of nothing else.

:class:`Keys` come from seeds, for studies that must be reproduced, by Philox. :class:`SecretKeys` come from the
operating system, for chains whose privacy counts on noise that nobody knows, by ChaCha20 (:mod:`pacdp.random.cipher`).
"""

import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pacdp.random import Words, cipher, grid, philox
from pacdp.random.philox_compiled import words

NOISE, OUTER_NOISE, BATCH, PRIOR, PROBE = range(5)
"""Streams: purposes whose numbers must not coincide at one step."""
CERTIFY = 1
"""Purpose of keys: the randomness of a certificate, which must not be that of training."""
_ONE_DRAW = 0x6F6E65
"""Key of the one draw among all uses of a seed."""


@dataclass(frozen=True, eq=False)
class Keys:
    """64-bit keys of K chains: one for a chain's noise, one for its minibatches, uint64 [K]."""

    noise: np.ndarray
    batch: np.ndarray

    @classmethod
    def derive(
        cls,
        seeds: Sequence[int],
        chains: Sequence[int] | None = None,
        *,
        purpose: int | None = None,
    ) -> "Keys":
        """Keys of the chains numbered ``chains`` (0 where not given) of the runs with these seeds.

        Chains of equal seed and number draw equal minibatches and equal noise, whatever else differs between them;
        a ``purpose``, such as CERTIFY, sets keys apart from those of training.

        Raises:
            ValueError: a seed or a number is negative, or there are not as many of the one as of the other.
        """
        numbers = [0] * len(seeds) if chains is None else list(chains)
        if len(numbers) != len(seeds):
            raise ValueError(
                f"expected as many chains as seeds, got {len(numbers)} and {len(seeds)}"
            )
        if any(value < 0 for value in (*seeds, *numbers)):
            raise ValueError("expected seeds and chain numbers >= 0, got a negative one")
        drawn = [
            # a spawn key, unlike a second number, keeps (2**32, 0) and (0, 1) apart
            np.random.SeedSequence(
                seed, spawn_key=(chain,) if purpose is None else (chain, purpose)
            ).generate_state(2, np.uint64)
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

    def batches(
        self, size: int, tick: int | Tensor, device: torch.device
    ) -> tuple[Words, np.ndarray]:
        """The words of minibatch ``tick``, [keys, size] for the distinct batch keys, and which are each chain's."""
        distinct, group = self.groups
        if device.type != "cpu":
            return Words(
                philox.uniform_words(
                    self._once("batch", device, lambda: _halves(distinct)),
                    size,
                    BATCH,
                    torch.as_tensor(tick),
                ),
                32,
            ), group
        drawn = np.empty((len(distinct), size), np.uint32)
        for key, own in zip(distinct, drawn, strict=True):
            words(own, key, np.uint32(BATCH), np.uint64(int(tick)))
        return Words(torch.from_numpy(drawn.astype(np.int64)), 32), group

    def noise_on(self, device: torch.device) -> Tensor:
        """The noise keys as two words each, int64 [2, K] on ``device``."""
        return self._once("noise", device, lambda: _halves(self.noise))

    def group_on(self, device: torch.device) -> Tensor:
        """Which distinct minibatch key each chain draws with, int64 [K], copied to ``device`` once."""
        return self._once("group", device, lambda: self.groups[1])

    def _once(self, name: str, device: torch.device, make: Callable[[], np.ndarray]) -> Tensor:
        """What ``make`` gives as whole numbers on ``device``, copied there once under this name."""
        cache = self.__dict__.setdefault("_there", {})
        if (name, device) not in cache:
            cache[name, device] = torch.tensor(make(), dtype=torch.int64, device=device)
        return cache[name, device]


def _halves(keys: np.ndarray) -> np.ndarray:
    return np.stack([keys & np.uint64(0xFFFFFFFF), keys >> np.uint64(32)]).astype(np.int64)


def of_one_draw(seed: int) -> torch.Generator:
    """The generator of a draw that is certified, by a key of its own.

    So neither training nor data that were seeded with the same number have met its numbers.
    """
    drawn = np.random.SeedSequence(seed, spawn_key=(_ONE_DRAW,)).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(drawn[0] >> np.uint64(1)))


class SecretKeys(Keys):
    """Keys of 256 bits, one a chain, from the operating system: what they fix, nobody can predict.

    Noise is that of :mod:`pacdp.random.grid`, added to what it hides; its words and those of minibatches are ChaCha20's
    under a key that is a keyed hash (BLAKE2b) of the chain's number, at the place (stream, tick). Whoever
    holds the keys can draw all of it again: checkpoints hold them, so that a killed run goes on bit for bit, and
    nothing that leaves does.

    Formal guarantee: numbers of different keys, chains, streams or ticks, and those of one of them among each other,
    cannot be told from independent ones by whoever can break neither ChaCha20 nor BLAKE2b as a pseudorandom function
    nor predict the operating system's generator.
    """

    def __init__(self, secrets: Sequence[bytes], chains: Sequence[int]) -> None:
        if (
            len(secrets) != len(chains)
            or any(len(one) != 32 for one in secrets)
            or any(one < 0 for one in chains)
        ):
            raise ValueError(
                "expected a key of 32 bytes and a number >= 0 for each chain; take keys from drawn()"
            )
        self.secrets, self.chains = tuple(secrets), tuple(chains)
        self._own = [
            hashlib.blake2b(b"chain %d" % chain, key=secret, digest_size=32).digest()
            for secret, chain in zip(secrets, chains, strict=True)
        ]

    @classmethod
    def drawn(cls, chains: Sequence[int]) -> "SecretKeys":
        """New keys for the chains of these numbers."""
        return cls([cipher.new_key() for _ in chains], chains)

    @classmethod
    def joined(cls, parts: Sequence["SecretKeys"]) -> "SecretKeys":
        """The keys of the chains of all parts, in order."""
        return cls(
            [one for part in parts for one in part.secrets],
            [one for part in parts for one in part.chains],
        )

    def __repr__(self) -> str:
        return f"SecretKeys of {self.count} chains"

    @property
    def count(self) -> int:
        """The number of chains."""
        return len(self.secrets)

    def select(self, chains: Sequence[int]) -> "SecretKeys":
        """The keys of some of the chains."""
        return SecretKeys([self.secrets[k] for k in chains], [self.chains[k] for k in chains])

    def batches(
        self, size: int, tick: int | Tensor, device: torch.device
    ) -> tuple[Words, np.ndarray]:
        """The words of minibatch ``tick``, [chains, size], and which are each chain's: its own."""
        drawn = np.empty((self.count, -(-size // 2)), np.int64)
        for k, own in enumerate(drawn):
            self.keystream(k, BATCH, int(tick)).fill(own)
        found = drawn.view(np.uint32)[:, :size].astype(np.int64)
        return Words(torch.from_numpy(found).to(device), 32), np.arange(self.count)

    def noised(
        self,
        chain: int,
        total: Tensor,
        *,
        std: float,
        stream: int,
        tick: int,
        out: Tensor | None = None,
    ) -> Tensor:
        """``total`` with N(0, std²) on every coordinate, of the chain at this place, on a grid; in ``out``, if given.

        Formal guarantee: as for :func:`pacdp.random.grid.noised`.
        """
        return grid.noised(total, std=std, words=self.keystream(chain, stream, tick), out=out)

    def keystream(self, chain: int, stream: int, tick: int) -> cipher.Keystream:
        """The words of a place."""
        return cipher.Keystream(self._own[chain], struct.pack("<IQ", stream, tick))


def keys_of(header: Mapping[str, Any]) -> Keys:
    """The keys of the chain that a checkpoint's header is of: those that it holds, or those of its seed.

    Raises:
        ValueError: the header holds something that is no key.
    """
    if "noise_key" not in header:
        return Keys.derive([header["seed"]], [header["chain"]])
    return SecretKeys([bytes.fromhex(header["noise_key"])], [header["chain"]])
