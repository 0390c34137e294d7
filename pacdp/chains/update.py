"""Drift, noise and running average of K chains in one pass: the only arithmetic that every sampler shares.

On a CPU it is compiled, one pass over memory.
"""

from collections.abc import Sequence
from typing import Any, no_type_check

import numba
import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pacdp.chains.native import threads
from pacdp.random import philox
from pacdp.random.devices import current, fused, triton_form
from pacdp.random.kernels import kernel
from pacdp.random.keys import Keys, SecretKeys
from pacdp.random.philox import LANES, PAGE
from pacdp.random.philox_compiled import four_normals

Coefficient = float | np.ndarray | Tensor
"""One number for all chains, or one a chain [K]; a device tensor where a CUDA graph replays the step."""


def langevin(
    x: Float[Tensor, "chains dim"],
    *,
    keep: Coefficient = 1.0,
    gradient: Float[Tensor, "chains dim"] | None = None,
    rate: Coefficient = 0.0,
    centre: Float[Tensor, "chains dim"] | None = None,
    pull: Coefficient = 0.0,
    scale: Coefficient = 0.0,
    keys: Keys,
    stream: int,
    tick: int | Tensor,
    average: Float[Tensor, "chains dim"] | None = None,
    alpha: Coefficient = 0.0,
    out: Float[Tensor, "chains dim"] | None = None,
) -> Float[Tensor, "chains dim"]:
    """keep x - rate gradient + pull centre + scale ξ, with ξ ~ N(0, I) keyed by (chain, stream, tick).

    ``average``, where given, moves in place: average ← average + alpha (result - average). ``out`` may be ``x``.
    With :class:`SecretKeys` N(0, (scale/rate)² I) is added to the gradient, on the grid of that noise, and the rest
    computes with what this releases.

    Raises:
        ValueError: there are not as many keys as chains, settings neither one for all nor one a chain, or vectors of
            another shape or type than ``x``.
    """
    _require_fitting(x, keys, gradient, centre, average, out)
    rate = 0.0 if gradient is None else rate
    pull = 0.0 if centre is None else pull
    if isinstance(keys, SecretKeys):
        gradient, rate = _released(x, gradient, rate, scale, keys, stream, int(tick))
        scale, keys = 0.0, Keys(*np.zeros((2, len(x)), np.uint64))  # the noise is in
    if x.device.type == "cpu":
        # the compiled loop is many times slower on arrays that overlap
        into = torch.empty_like(x) if out is None or out is x else out
        values = x.numpy()
        by_loops(
            into.numpy(), values, _row(keep, x), values if gradient is None else gradient.numpy(),
            _row(rate, x), values if centre is None else centre.numpy(), _row(pull, x), _row(scale, x),
            values[:0] if average is None else average.numpy(), _row(alpha, x), keys.noise,
            np.uint32(stream), np.uint64(int(tick)),
        )  # fmt: skip
        return x.copy_(into) if out is x else into
    tick = torch.as_tensor(
        tick, device=x.device
    )  # as a tensor, so that a new step is no new program
    given = (x, _column(keep, x), gradient, _column(rate, x), centre, _column(pull, x), _column(scale, x),
             keys.noise_on(x.device), stream, tick, average, _column(alpha, x))  # fmt: skip
    whole = all(one is None or one.is_contiguous() for one in (x, gradient, centre, average, out))
    if x.device.type == "cuda" and x.dtype == torch.float32 and whole:
        kernel = triton_form("pacdp.chains.triton_update", "update")
        if kernel is not None:
            return kernel(*given, out=out)
    result = _plain(*given)
    return result if out is None else out.copy_(result)


def normal_like(
    x: Float[Tensor, "chains dim"], *, keys: Keys, stream: int, tick: int | Tensor
) -> Tensor:
    """The standard normal numbers that :func:`langevin` would add to ``x``."""
    _require_fitting(x, keys)
    if isinstance(keys, SecretKeys):
        return _released(x, None, 0.0, 1.0, keys, stream, int(tick))[0]
    return langevin(torch.zeros_like(x), keep=0.0, scale=1.0, keys=keys, stream=stream, tick=tick)


def _released(
    x: Tensor,
    gradient: Tensor | None,
    rate: Coefficient,
    scale: Coefficient,
    keys: SecretKeys,
    stream: int,
    tick: int,
) -> tuple[Tensor, np.ndarray]:
    """What is released of each chain's gradient, and the rate at which it enters: the noise itself, where no gradient
    does.
    """
    made, rates, scales = torch.empty_like(x), _row(rate, x).copy(), _row(scale, x)

    def release(number: int, chains: Sequence[int]) -> None:
        del number
        for k in chains:
            if gradient is None or rates[k] == 0.0:
                total, rates[k] = torch.zeros_like(x[k]), -1.0
            else:
                total = gradient[k]
            std = float(scales[k] / abs(rates[k]))
            with current(x.device):  # each thread has its own
                keys.noised(k, total, std=std, stream=stream, tick=tick, out=made[k])

    threads.spread(release, threads.shares(len(x)))
    return made, rates


@fused
def _plain(
    x, keep, gradient, rate, centre, pull, scale, keys, stream, tick, average, alpha
) -> Tensor:
    out = keep * x + scale * philox.normal(x.shape[1], keys, stream, tick).to(x.dtype)
    if gradient is not None:
        out = out - rate * gradient
    if centre is not None:
        out = out + pull * centre
    if average is not None:
        average.add_(alpha * (out - average))
    return out


def _row(value: Coefficient, like: Tensor) -> np.ndarray:
    array, chains = np.asarray(value, dtype=np.float64), len(like)
    _require_settings(array.size, chains)
    # always writable: an array that is not is another type to the compiler, and another loop to be compiled
    return array if array.shape == (chains,) else np.full(chains, array)


def _column(value: Coefficient, like: Tensor) -> Tensor:
    if isinstance(value, float | int):  # filled there: a graph cannot record a copy from the CPU
        return torch.full((1, 1), float(value), dtype=like.dtype, device=like.device)
    tensor = torch.as_tensor(value, device=like.device).to(like.dtype)
    _require_settings(tensor.numel(), len(like))
    return tensor.reshape(-1, 1)


def _require_settings(count: int, chains: int) -> None:
    # compiled code would read past the end of fewer
    if count not in (1, chains):
        raise ValueError(
            f"expected one setting for all chains or one a chain, got {count} for {chains} chains"
        )


def _require_fitting(x: Tensor, keys: Keys, *others: Tensor | None) -> None:
    # compiled code would read past the end
    if keys.count != len(x):
        raise ValueError(f"expected one key a chain, got {keys.count} keys for {len(x)} chains")
    for other in others:
        if other is not None and (other.shape != x.shape or other.dtype != x.dtype):
            raise ValueError(
                f"expected vectors like x, {x.dtype} {tuple(x.shape)}, got {other.dtype} {tuple(other.shape)}"
            )


@numba.njit(inline="always")
@no_type_check
def _page(y, v, g, c, number, lanes, a, h, b, s, k0, k1, stream, low, high):
    """A page of the by_loops, of ``lanes`` in each of four rows, whose noise never leaves the registers."""
    first = np.uint32(number * LANES)
    for lane in range(lanes):
        four = four_normals(np.uint32(first + np.uint32(lane)), k0, k1, stream, low, high)
        for quarter in range(4):
            j = quarter * LANES + lane
            y[j] = a * v[j] - h * g[j] + b * c[j] + s * y.dtype.type(four[quarter])


def by_loops(out, x, *arguments: Any) -> None:
    """The by_loops, from (out, x, keep, gradient, rate, centre, pull, scale, average, alpha, keys, stream, tick):

        out ← keep x - rate gradient + pull centre + scale ξ

    and, where ``average`` has rows, average ← average + alpha (out - average), for [chains, dim] arrays and
    coefficients [chains].

    Every page is a function of its own chain alone, so that neither the number of chains nor of threads matters.
    """
    pages = len(x) * -(-x.shape[1] // PAGE)
    threads.each(_loops, pages, out, x, *arguments, operations=x.size)


@kernel(fastmath={"contract", "nsz"}, error_model="numpy")
@no_type_check
def _loops(
    begin,
    end,
    out,
    x,
    keep,
    gradient,
    rate,
    centre,
    pull,
    scale,
    average,
    alpha,
    keys,
    stream,
    tick,
):
    dim = x.shape[1]
    pages = (dim + PAGE - 1) // PAGE
    low, high = np.uint32(tick), np.uint32(tick >> np.uint64(32))
    number = x.dtype.type
    for job in range(begin, end):
        k, page = job // pages, job % pages
        start = page * PAGE
        stop = min(start + PAGE, dim)
        a, h, b, s = number(keep[k]), number(rate[k]), number(pull[k]), number(scale[k])
        y, v, g, c = (
            out[k, start:stop],
            x[k, start:stop],
            gradient[k, start:stop],
            centre[k, start:stop],
        )
        k0, k1 = np.uint32(keys[k]), np.uint32(keys[k] >> np.uint64(32))
        if scale[k] == 0.0:
            for j in range(stop - start):
                y[j] = a * v[j] - h * g[j] + b * c[j]
        else:
            whole = stop - start == PAGE
            part = np.zeros((0 if whole else 4, PAGE), x.dtype)
            into, old, slope, middle = y, v, g, c
            if (
                not whole
            ):  # a part of a page is made of a whole one, so that the loop is compiled once
                into, old, slope, middle = part[0], part[1], part[2], part[3]
                for j in range(stop - start):
                    old[j], slope[j], middle[j] = v[j], g[j], c[j]
            lanes = min(stop - start, LANES)
            _page(into, old, slope, middle, page, lanes, a, h, b, s, k0, k1, stream, low, high)
            if not whole:
                for j in range(stop - start):
                    y[j] = into[j]
        if average.shape[0] > 0:
            m, w = average[k, start:stop], number(alpha[k])
            for j in range(stop - start):
                m[j] += w * (y[j] - m[j])
