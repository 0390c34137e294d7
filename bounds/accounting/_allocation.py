"""Batches of which each record is in exactly one an epoch: the likelihood ratio of an epoch, by a convex order.

With T batches, noise multiplier 1/c and independent standard normal g_t, the ratio of the laws with and without a
record is at most, in the convex order and under the law without it,

    X̄ = (x_1 + ... + x_T)/T,      x_t = exp(c g_t - c²/2),

whatever of earlier releases later contributions depend on ("Once an epoch" in docs/accounting.md). Both directions of a
hockey-stick divergence are means of convex functions of the ratio. Here the law of X̄ is made by halves on geometric
grids: from above by splitting each mass to the ends of its cell at equal means, from below by merging what is in it.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from bounds._arrays import Array
from bounds._elementwise import jit

_FINENESS = 0.02  # of a cell, in standard deviations of the logarithm
_REACH = 12.0  # standard deviations of one batch's noise that are looked at
_ULP = 2.0**-53


class Ratios(NamedTuple):
    """A law of the ratio under Q: values that grow, the first of them 0, and their masses.

    ``lost`` is Q's mass of values that were left out, ``lost_with`` P's mass of them.
    """

    values: Array
    masses: Array
    lost: float = 0.0
    lost_with: float = 0.0


@lru_cache(maxsize=64)
def ratios(batches: int, noise_multiplier: float, tail: float, above: bool) -> Ratios:
    """The law of X̄ from above or below in the convex order; each step loses at most ``tail`` of either mass."""
    if batches == 1:
        return _trimmed(_one(noise_multiplier, above), tail, above)
    half = batches // 2
    first = ratios(half, noise_multiplier, tail, above)
    second = ratios(batches - half, noise_multiplier, tail, above)
    share = half / batches
    low, high = (share * first.values[k] + (1.0 - share) * second.values[k] for k in (1, -1))
    edges = _edges(low, high, batches, noise_multiplier)
    sums = np.zeros((2, len(edges)))
    _add_means(share, first.values, first.masses, second.values, second.masses, edges, *sums)
    doubt = first.values.size * second.values.size * _ULP
    lost = first.lost + second.lost
    crossed = share * second.lost + (1.0 - share) * first.lost
    lost_with = share * first.lost_with + (1.0 - share) * second.lost_with + crossed
    made = _laid(*sums, edges, doubt, above)
    return _trimmed(made._replace(lost=lost, lost_with=lost_with), tail, above)


def _edges(low: float, high: float, batches: int, noise_multiplier: float) -> Array:
    """0, and a geometric grid around [low, high] whose cells are a small part of the deviation of ln X̄."""
    spread = math.sqrt(math.log1p(math.expm1(noise_multiplier**-2) / batches))
    step = _FINENESS * spread
    count = math.ceil(math.log(high / low) / step) + 2
    return np.concatenate([[0.0], low * np.exp(step * (np.arange(count + 1) - 0.5))])


def _one(noise_multiplier: float, above: bool) -> Ratios:
    """x of one batch."""
    c = 1.0 / noise_multiplier
    edges = _edges(math.exp(-_REACH * c - 0.5 * c * c), math.exp(_REACH * c + 1.5 * c * c), 1, noise_multiplier)
    with np.errstate(divide="ignore"):
        z = np.append(np.log(edges) / c + 0.5 * c, math.inf)
    return _laid(_between(z), _between(z - c), edges, 2.0**-30, above)


def _between(z: Array) -> Array:
    """Φ of each interval between neighbours."""
    below, up = ndtr(z), ndtr(-z)
    return np.where(z[1:] <= 0.0, np.diff(below), -np.diff(up))


@jit
def _add_means(share: float, a: Array, p: Array, b: Array, q: Array, edges: Array, mass: Array, moment: Array) -> None:
    """Add masses and means of share · a + (1 - share) · b to the cells that begin with ``edges``."""
    last = len(edges) - 1
    for i in range(len(a)):
        k = 0
        for j in range(len(b)):
            x, weight = share * a[i] + (1.0 - share) * b[j], p[i] * q[j]
            while k < last and x >= edges[k + 1]:
                k += 1
            mass[k] += weight
            moment[k] += weight * x


def _laid(mass: Array, moment: Array, edges: Array, doubt: float, above: bool) -> Ratios:
    """Cells of these masses and first moments as a law; masses are off by a share of ``doubt`` at most."""
    if not above:
        kept = mass > 0.0
        means = np.divide(moment, mass, out=edges.copy(), where=kept)
        return Ratios(np.append(0.0, means[kept]), np.append(0.0, mass[kept] * (1.0 - doubt)))
    width = np.diff(edges)
    right = np.clip((moment - edges * mass)[:-1] / width, 0.0, mass[:-1])
    laid = np.append(mass[:-1] - right, 0.0) + np.append(0.0, right)
    laid += doubt * (np.append(mass[:-1], 0.0) + np.append(0.0, mass[:-1]))
    return Ratios(edges, laid, float(mass[-1]), float(moment[-1]))


def _trimmed(law: Ratios, tail: float, above: bool) -> Ratios:
    """Without the ends that hold less than ``tail``; from below they are merged, from above they are lost."""
    values, masses, lost, lost_with = law
    with_record = values * masses
    first = int(np.searchsorted(np.cumsum(masses), tail))
    last = values.size - int(np.searchsorted(np.cumsum(with_record[::-1]), tail))
    first, last = max(1, first), max(last, first + 2)
    ends = (slice(0, first), slice(last, None))
    if above:
        lost += sum(float(masses[end].sum()) for end in ends)
        lost_with += sum(float(with_record[end].sum()) for end in ends)
        return Ratios(np.append(0.0, values[first:last]), np.append(0.0, masses[first:last]), lost, lost_with)
    kept, weights = values[first:last].copy(), masses[first:last].copy()
    for at, end in zip((0, -1), ends, strict=True):
        whole = weights[at] + masses[end].sum()
        if whole > 0.0:
            kept[at] = (kept[at] * weights[at] + with_record[end].sum()) / whole
            weights[at] = whole
    return Ratios(np.append(0.0, kept), np.append(0.0, weights))
