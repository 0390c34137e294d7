"""Where noise, batches and masks come from.

:class:`SystemRandomness` draws from the operating system's cryptographic generator, nothing else: no state exists that
could be stolen, saved or replayed, so a resumed run is as private as an uninterrupted one but not bit for bit equal to
it. :class:`SeededRandomness` is for tests and for experiments that must be reproduced: whoever knows its seed, or finds
its state in a checkpoint, can subtract the noise, and on the CPU the seed has 32 bits only.
"""

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

_CHUNK = 1 << 15  # numbers at a time, which stay in the cache


@runtime_checkable
class Randomness(Protocol):
    """Gaussian noise, Poisson batches, and generators for draws that privacy does not rest on."""

    def normal(self, shape: Sequence[int], *, std: float, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Independent N(0, std²)."""
        ...

    def batch(self, n: int, sample_rate: float) -> Tensor:
        """Indices below ``n``, each there independently with probability ``sample_rate``; int64, on the CPU."""
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


class SystemRandomness:
    """The operating system's generator (``os.urandom``).

    Uniforms have 53 bits; normals are Box-Muller in double precision. Each noise number is the sum of ``summands``
    independent normals, rescaled: the remedy of Holohan and Braghin (2021) against attacks that read the noise back
    from the floating-point grid. It makes such attacks expensive; it is no proof for floating-point arithmetic.
    """

    def __init__(self, *, summands: int = 4) -> None:
        if summands < 1:
            raise ValueError(f"summands must be at least 1, got {summands}")
        self.summands = summands

    def normal(self, shape: Sequence[int], *, std: float, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Independent N(0, std²), computed on the CPU."""
        count = math.prod(shape)
        out = torch.zeros(count, dtype=torch.float64)
        if std > 0.0:
            for part in out.split(_CHUNK):
                for _ in range(self.summands):
                    part.add_(_system_normals(len(part)))
            out.mul_(std / math.sqrt(self.summands))
        return out.reshape(tuple(shape)).to(device=device, dtype=dtype)

    def batch(self, n: int, sample_rate: float) -> Tensor:
        """A Poisson batch; the probability is ``sample_rate`` rounded down to a multiple of 2⁻⁵³."""
        bits = np.frombuffer(os.urandom(8 * n), dtype=np.uint64) >> np.uint64(11)
        return torch.from_numpy(np.flatnonzero(bits < np.uint64(math.floor(sample_rate * 2.0**53))))

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
            raise ValueError("the run was seeded: resume it with SeededRandomness, whose state the checkpoint carries")


class SeededRandomness:
    """Reproducible draws from ``seed``, for tests and reproductions. Not for releases: see the module's head."""

    def __init__(self, seed: int, *, device: torch.device | str = "cpu") -> None:
        self.seed = seed
        self._noise = self.generator("noise", device)
        self._batches = self.generator("batches")

    def normal(self, shape: Sequence[int], *, std: float, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Independent N(0, std²) from the noise stream."""
        drawn = torch.empty(tuple(shape), dtype=dtype, device=self._noise.device)
        return drawn.normal_(0.0, std, generator=self._noise).to(device)

    def batch(self, n: int, sample_rate: float) -> Tensor:
        """A Poisson batch from the batch stream."""
        uniform = torch.rand(n, dtype=torch.float64, generator=self._batches)
        return (uniform < sample_rate).nonzero().reshape(-1)

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
            ValueError: the state is that of an unseeded run.
        """
        if set(state) != {"noise", "batches"}:
            raise ValueError("the run was not seeded: resume it with SystemRandomness")
        self._noise.set_state(state["noise"])
        self._batches.set_state(state["batches"])


def _system_normals(count: int) -> Tensor:
    half = (count + 1) // 2
    bits = np.frombuffer(os.urandom(16 * half), dtype=np.uint64) >> np.uint64(11)
    uniform = torch.from_numpy(bits.view(np.int64)).double().add_(0.5).mul_(2.0**-53)
    radius, angle = uniform[:half].log_().mul_(-2.0).sqrt_(), uniform[half:].mul_(2.0 * math.pi)
    return torch.cat([radius * angle.cos(), radius * angle.sin()])[:count]
