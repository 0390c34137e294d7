"""Uniform 64-bit words that nobody can predict: ChaCha20 (RFC 8439) under keys from the operating system.

:class:`Fresh` gives words that nobody can repeat either. Every 256 KiB have a key of their own, which ``os.urandom``
gives and which no object keeps: neither a key nor a counter nor unused words outlive a call. A forked process, a second
thread, a copied or unpickled object and a resumed run therefore cannot repeat each other's words. (Memory that was
freed is not scrubbed.)

:class:`Keystream` gives the words of a key and a place, again and again the same: for runs that keep their key, so that
they can go on where they were interrupted.

Formal guarantee: the words cannot be told from independent uniform ones by whoever can neither break ChaCha20 as a
pseudorandom function nor predict the operating system's generator.
"""

import os
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from pacdp.random import device_cipher

WORDS_PER_KEY = 1 << 15  # 256 KiB, which stay in the cache
_ZEROS = memoryview(bytes(8 * WORDS_PER_KEY))


@runtime_checkable
class Source(Protocol):
    """Where uniform 64-bit words come from."""

    def fill(self, words: NDArray[np.int64]) -> None:
        """Overwrite a contiguous vector by words."""
        ...

    def on(self, device: torch.device, count: int) -> torch.Tensor:
        """Words made on a device, int64 [count]."""
        ...


class Fresh:
    """Words that nobody can repeat."""

    def fill(self, words: NDArray[np.int64]) -> None:
        """Overwrite ``words``, a contiguous vector, by independent uniform 64-bit words."""
        for begin in range(0, len(words), WORDS_PER_KEY):
            part = words[begin : begin + WORDS_PER_KEY]
            Keystream(new_key(), bytes(12)).fill(part)

    def on(self, device: torch.device, count: int) -> torch.Tensor:
        """The words of a key that is used once."""
        return Keystream(new_key(), bytes(12)).on(device, count)


class Keystream:
    """The words of one key at one place, in order; two objects for the same place give the same words.

    A key may have any number of places, each of 256 GiB; whoever knows it knows all of their words.

    Args:
        key: 32 bytes.
        place: 12 bytes, the nonce of RFC 8439.
    """

    def __init__(self, key: bytes, place: bytes) -> None:
        self._key, self._place, self._taken = key, place, 0
        self._encryptor: Any = None

    def on(self, device: torch.device, count: int) -> torch.Tensor:
        """The next words, made on a device; an object gives its words in one way or the other."""
        first, self._taken = self._taken, self._taken + count
        return device_cipher.keystream(
            self._key, self._place, first=first, count=count, device=device
        )

    def fill(self, words: NDArray[np.int64]) -> None:
        """Overwrite ``words``, a contiguous vector, by the next words of the place."""
        from cryptography.hazmat.primitives.ciphers import (
            Cipher,
            algorithms,
        )  # chains with a seed do without

        if self._encryptor is None:
            nonce = bytes(4) + self._place
            self._encryptor = Cipher(algorithms.ChaCha20(self._key, nonce), mode=None).encryptor()
        for begin in range(0, len(words), WORDS_PER_KEY):
            part = words[begin : begin + WORDS_PER_KEY].view(np.uint8)
            self._encryptor.update_into(_ZEROS[: len(part)], part.data)


def new_key() -> bytes:
    """A key of 256 bits from the operating system."""
    return os.urandom(32)
