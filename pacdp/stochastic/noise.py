"""Who draws what: the weights of example i in pass p are a function of (seed, i, p), whoever computes them and when.

Counter-based numbers (Philox, :mod:`pacdp.random.philox`): the key comes from the seed, the stream is the number of
the parameter, and the tick holds the pass and the example. Batch sizes, ranks and interruptions change no draw.
"""

from functools import cache
from typing import no_type_check

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from bounds.record import record
from pacdp.chains.native import threads
from pacdp.random import philox
from pacdp.random.kernels import kernel
from pacdp.random.keys import Keys
from pacdp.random.philox import LANES, PAGE
from pacdp.random.philox_compiled import four_normals

MONTE_CARLO = 2
"""Purpose of keys: posterior draws, which must be those neither of training nor of another certificate."""
LIMIT = 2**31
"""Examples, and passes, below which the counters of different draws differ."""


@record
class Draws:
    """One independent draw of the weights for each example of a batch."""

    key: int
    """64 bits."""
    ticks: Int64[Tensor, " batch"]
    """pass · 2³² + example, for each row."""

    @classmethod
    def of(cls, *, seed: int, number: int, examples: Int64[Tensor, " batch"]) -> "Draws":
        """The draws of pass ``number`` for the examples of these indices.

        Raises:
            ValueError: the seed is negative, or the pass or an index lies outside [0, 2³¹).
        """
        largest = int(examples.max()) if len(examples) else 0
        if not (
            0 <= number < LIMIT
            and largest < LIMIT
            and (not len(examples) or int(examples.min()) >= 0)
        ):
            raise ValueError(
                f"expected passes and examples in [0, 2**31), got pass {number}, example {largest}"
            )
        return cls(key=_key(seed), ticks=(number << 32) + examples)

    def select(self, rows: slice) -> "Draws":
        """The draws of some of the examples."""
        return Draws(key=self.key, ticks=self.ticks[rows])


@cache
def _key(seed: int) -> int:
    return int(Keys.derive([seed], purpose=MONTE_CARLO).noise[0])


def normals(draws: Draws, stream: int, dim: int, *, like: Tensor) -> Float[Tensor, "batch dim"]:
    """``dim`` standard normal numbers for each example, in the type and on the device of ``like``."""
    one = torch.ones(1, dtype=like.dtype, device=like.device)
    return gaussians(draws, stream, dim, mean=torch.zeros_like(one), std=one)


def gaussians(
    draws: Draws, stream: int, dim: int, *, mean: Tensor, std: Tensor
) -> Float[Tensor, "batch dim"]:
    """mean + std ξ with ``dim`` numbers of parameter ``stream`` for each example.

    ``mean`` and ``std`` hold one number or ``dim`` of them, in any shape. The numbers ξ are those of Box and Muller
    from 32-bit words, so |ξ| < 6.8; taking them for independent Gaussian numbers is the one idealisation.
    """
    mean, std = mean.reshape(-1), std.reshape(-1).to(mean)
    if mean.device.type != "cpu" or mean.dtype not in (torch.float32, torch.float64):
        return torch.addcmul(mean, std, _standard(draws, stream, dim, mean.device).to(mean.dtype))
    out = torch.empty((len(draws.ticks), dim), dtype=mean.dtype)
    own = (value.detach().expand(dim).contiguous().numpy() for value in (mean, std))
    ticks, key = draws.ticks.numpy().astype(np.uint64), np.uint64(draws.key)
    threads.each(
        _gaussians, len(ticks), out.numpy(), *own, key, np.uint32(stream), ticks,
        operations=out.numel(),
    )  # fmt: skip
    return out


def _standard(
    draws: Draws, stream: int, dim: int, device: torch.device
) -> Float[Tensor, "batch dim"]:
    last = -(-(dim % PAGE) // 4)
    blocks = torch.arange(dim // PAGE * LANES + last, device=device)[None, :]
    ticks = draws.ticks.to(device)[:, None]
    words = philox.words(blocks, stream, ticks, draws.key & 0xFFFFFFFF, draws.key >> 32)
    lanes = torch.stack(philox.box_muller(words), dim=1)
    whole = dim // PAGE * LANES
    pages = lanes[:, :, :whole].unflatten(2, (-1, LANES)).transpose(1, 2).flatten(1)
    return torch.cat([pages, lanes[:, :, whole:].flatten(1)], dim=1)[:, :dim]


@kernel(fastmath={"contract", "nsz"})
@no_type_check
def _gaussians(begin, end, out, mean, std, key, stream, ticks):
    """out[b, j] ← mean[j] + std[j] ξ(b, j) for [batch, dim], the rows from ``begin`` to ``end``.

    The last page has as many lanes as it needs, since a row is often short.
    """
    dim = out.shape[1]
    k0, k1 = np.uint32(key), np.uint32(key >> np.uint64(32))
    number = out.dtype.type
    noise = np.empty(PAGE, np.float32)
    for b in range(begin, end):
        low, high = np.uint32(ticks[b]), np.uint32(ticks[b] >> np.uint64(32))
        for page in range((dim + PAGE - 1) // PAGE):
            start = page * PAGE
            stop = min(start + PAGE, dim)
            y, m, s = out[b, start:stop], mean[start:stop], std[start:stop]
            lanes = (len(y) + 3) // 4
            first = np.uint32(page * LANES)
            for lane in range(lanes):
                four = four_normals(np.uint32(first + np.uint32(lane)), k0, k1, stream, low, high)
                for quarter in range(4):
                    noise[quarter * lanes + lane] = four[quarter]
            for j in range(len(y)):
                y[j] = m[j] + s[j] * number(noise[j])
