"""Uniform 64-bit words that nobody can predict: ChaCha20 (RFC 8439) under keys from the operating system.

:class:`Keystream` gives the words of a key and a place, again and again the same: for runs that keep their key, so that
they can go on where they were interrupted.

:func:`fresh` gives words that nobody can repeat: every call that draws has a key of its own, which ``os.urandom`` gives
and which no object keeps: neither a key nor a counter nor unused words outlive it. A forked process, a second thread, a
copied or unpickled object and a resumed run therefore cannot repeat each other's words. (Memory that was freed is not
scrubbed.)

Formal guarantee: the words cannot be told from independent uniform ones by whoever can neither break ChaCha20 as a
pseudorandom function nor predict the operating system's generator.
"""

import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pacdp.random.devices import triton_form

AT_ONCE = 1 << 15  # words: 256 KiB, which stay in the cache
_ZEROS = memoryview(bytes(8 * AT_ONCE))


class Keystream:
    """The words of one key at one place, in order; two objects for the same place give the same words.

    A key may have any number of places, each of 256 GiB; whoever knows it knows all of their words.

    Args:
        key: 32 bytes.
        place: 12 bytes, the nonce of RFC 8439.

    Raises:
        ValueError: key or place are of another length.
    """

    def __init__(self, key: bytes, place: bytes) -> None:
        if len(key) != 32 or len(place) != 12:  # compiled code would read past the end
            raise ValueError(
                f"expected a key of 32 bytes and a place of 12, got {len(key)} and {len(place)}"
            )
        self._key, self._place, self._taken = key, place, 0
        self._encryptor: Any = None

    def on(self, device: torch.device, count: int) -> torch.Tensor:
        """The next words on a device, which a GPU with Triton makes itself.

        An object gives its words in this way or by :meth:`fill`.
        """
        first, self._taken = self._taken, self._taken + count
        kernel = device.type == "cuda" and triton_form("pacdp.random.triton_cipher", "keystream")
        if kernel:
            return kernel(self._key, self._place, first=first, count=count, device=device)
        words = np.empty(count, np.int64)
        self.fill(words)
        return torch.from_numpy(words).to(device)

    def fill(self, words: NDArray[np.int64]) -> None:
        """Overwrite ``words``, a contiguous vector, by the next words of the place."""
        from cryptography.hazmat.primitives.ciphers import (
            Cipher,
            algorithms,
        )  # chains with a seed do without

        if self._encryptor is None:
            nonce = bytes(4) + self._place
            self._encryptor = Cipher(algorithms.ChaCha20(self._key, nonce), mode=None).encryptor()
        for begin in range(0, len(words), AT_ONCE):
            part = words[begin : begin + AT_ONCE].view(np.uint8)
            self._encryptor.update_into(_ZEROS[: len(part)], part.data)


def fresh() -> Keystream:
    """Words that nobody can repeat, of a key that nobody else keeps: take one for each call, and let it go."""
    return Keystream(new_key(), bytes(12))


def new_key() -> bytes:
    """A key of 256 bits from the operating system."""
    return os.urandom(32)
