"""Many noise levels at the price of a few: what lies between two levels is a mixture of theirs, or less.

Let H_γ(μ) = ∫ [P - γQ]^+ be the divergence at γ of the pair with noise multiplier 1/μ: of N(μ, 1) and N(0, 1) for
add-remove, of (1-q) N(0, 1) + q N(±μ, 1) for replace-one. For every γ it is a convex function of λ = erf(c μ), with
c = 1/√8 for add-remove and 1/√2 for replace-one (docs/accounting.md, "Many noise levels"). So a level between two
others is dominated by the pair that draws one of theirs, the less noisy with probability at least

    (λ - λ_noisier) / (λ_less noisy - λ_noisier),

and says which. This loses the square of their distance. From below, a level is counted as the noisier of the two.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
from math import fsum, log, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import erf, erfc

from bounds._check import Array, Integers
from bounds.accounting._pieces import Mechanism, Noise

_MOST = 900
"""Mechanisms up to which each has a grid of its own; beyond, about as many levels have, and the rest lie between."""
_SHARES = 32  # of a mixture: all shares are multiples of one over this
_MARGIN = 1e-4  # what rounding may do to a multiple
_CLOSE = 1e-6  # relative: levels that differ less are counted as the less noisy one


class Level(NamedTuple):
    """A mechanism used ``alone`` times; between the level before it and this one lie further uses.

    Of those, ``times[i]`` are dominated by the mixture with the share ``shares[i]`` of the level before.
    """

    part: Mechanism
    alone: int
    shares: Array = np.empty(0)
    times: Integers = np.empty(0, np.int64)

    @property
    def uses(self) -> int:
        """All of them."""
        return self.alone + int(self.times.sum())


def grouped(parts: list[tuple[Mechanism, int]]) -> list[Level]:
    """The same uses on fewer levels, if there are many; families of one sampling rate follow each other.

    Formal guarantee: the composition of the uses, those between levels taken as mixtures, dominates that of ``parts``.
    """
    if len(parts) <= _MOST:
        return [Level(part, count) for part, count in parts]
    made: list[Level] = []
    families: dict[tuple[object, ...], list[tuple[Noise, int]]] = {}
    for part, count in parts:
        if isinstance(part, Noise) and part.rate < 1.0:
            families.setdefault((part.rate, part.replace, part.epsilons), []).append((part, count))
        else:
            made.append(Level(part, count))
    gap = fsum(log(max(_sigmas(f)) / min(_sigmas(f))) for f in families.values()) / _MOST
    for family in families.values():
        made += _family(sorted(family, key=lambda use: use[0].sigma), gap)
    return made


def _sigmas(family: list[tuple[Noise, int]]) -> list[float]:
    return [part.sigma for part, _ in family]


def _family(family: list[tuple[Noise, int]], gap: float) -> list[Level]:
    """Levels, none of them further than ``gap`` from the next in logarithms unless there is nothing between."""
    sigmas, counts = np.array(_sigmas(family)), np.array([count for _, count in family], np.int64)
    logs = np.log(sigmas)
    made, last, end = [Level(*family[0])], 0, len(family) - 1
    while last < end:
        at = max(last + 1, int(np.searchsorted(logs, logs[last] + gap, "right")) - 1)
        numerators = _numerators(sigmas[last : at + 1], family[0][0].replace)
        times = np.bincount(numerators, weights=counts[last + 1 : at], minlength=_SHARES + 1).astype(np.int64)
        used = np.flatnonzero(times)
        made.append(Level(*family[at], used / _SHARES, times[used]))
        last = at
    return made


def _numerators(sigmas: Array, replace: bool) -> Integers:
    """Numerators of the first multiplier's shares at those between it and the last, rounded up."""
    x = 1.0 / (sigmas * sqrt(2.0 if replace else 8.0))
    values = -erfc(x) if x[-1] > 0.5 else erf(x)
    width = values[0] - values[-1]
    if not width > _CLOSE * np.abs(values).max():
        return np.full(len(x) - 2, _SHARES)
    shares = (values[1:-1] - values[-1]) / width
    return np.clip(np.ceil(_SHARES * shares + _MARGIN), 0, _SHARES).astype(np.int64)
