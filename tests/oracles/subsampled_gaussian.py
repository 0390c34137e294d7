"""The privacy loss of DP-SGD with Poisson batches, remove direction: dots connected, then composed by FFT.

Not for certificates: per-step tails beyond 9.5 standard deviations are dropped, and Fourier noise is left as it is.
"""

from math import ceil, expm1, floor, log1p

import numpy as np
from scipy.special import ndtr

from bounds import PrivacyLossDistribution


def one_step(sample_rate, sigma, spacing):
    """Index of the first loss, and masses, of a pair dominating ((1-q) N(0, σ²) + q N(1, σ²), N(0, σ²))."""
    top = log1p(sample_rate * expm1((1 + 19 * sigma) / (2 * sigma**2)))
    first, last = floor(log1p(-sample_rate) / spacing), ceil(top / spacing)
    x = spacing * np.arange(first, last + 1)
    inner = (np.exp(x) - (1 - sample_rate)) / sample_rate
    z = np.where(inner > 0, sigma**2 * np.log(np.maximum(inner, 1e-300)) + 0.5, -np.inf)

    def cells(mean):
        low, high = (z[:-1] - mean) / sigma, (z[1:] - mean) / sigma
        return np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))

    q = cells(0.0)
    p = (1 - sample_rate) * q + sample_rate * cells(1.0)
    decay = np.exp(-x)
    right = np.clip((p * decay[:-1] - q) / (decay[:-1] - decay[1:]), 0, p)
    masses = np.zeros(x.size)
    masses[:-1] += p - right
    masses[1:] += right
    return first, masses, masses * decay


def dp_sgd(sample_rate, sigma, steps, spacing, size=1 << 19):
    first, with_record, without_record = one_step(sample_rate, sigma, spacing)
    index = first + np.arange(with_record.size)
    mean = round(float((index * with_record).sum()))
    start = round(steps * float((index * with_record).sum())) - size // 2
    found = []
    for masses in (with_record, without_record):
        wrapped = np.bincount((index - mean) % size, weights=masses, minlength=size)
        total = np.fft.irfft(np.fft.rfft(wrapped) ** steps, size)
        found.append(np.maximum(total[(np.arange(size) + start - steps * mean) % size], 0.0))
        found[-1][np.arange(size) + start < steps * first] = 0.0
    return PrivacyLossDistribution(
        spacing=spacing, lowest=start, with_record=found[0], without_record=found[1], infinity_mass=0.0, zero_mass=0.0,
        adjacency="add-remove", status="approximate accountant",
    )  # fmt: skip
