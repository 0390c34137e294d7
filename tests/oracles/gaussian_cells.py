"""The privacy loss distribution of one Gaussian, cell by cell, by connecting the dots."""

import numpy as np
from scipy.special import ndtr

from bounds import PrivacyLossDistribution


def gaussian_cells(mu, spacing, reach=9.0):
    """A pair that dominates N(mu, 1) against N(0, 1): each cell's mass goes to its ends, keeping both totals.

    Beyond ``reach`` standard deviations the mass goes to the last point and to infinity, or to minus infinity.
    """
    low = int(np.floor((-(mu**2) / 2 - reach * mu) / spacing))
    high = int(np.ceil((mu**2 / 2 + reach * mu) / spacing))
    x = spacing * np.arange(low, high + 1)
    cuts = np.concatenate([[-np.inf], x, [np.inf]])

    def cells(mean):
        z = (cuts - mean) / mu
        return np.where(z[:-1] > 0, ndtr(-z[:-1]) - ndtr(-z[1:]), ndtr(z[1:]) - ndtr(z[:-1]))

    p, q = cells(mu**2 / 2), cells(-(mu**2) / 2)
    right = np.clip(p[1:-1] - q[1:-1] * np.exp(x[:-1]), 0, None) / -np.expm1(-spacing)
    right = np.minimum(right, p[1:-1])
    with_record = np.zeros(x.size)
    with_record[1:] += right
    with_record[:-1] += p[1:-1] - right
    with_record[-1] += q[-1] * np.exp(x[-1])
    with_record[0] += p[0]
    return PrivacyLossDistribution(
        spacing=spacing,
        lowest=low,
        with_record=with_record,
        without_record=with_record * np.exp(-x),
        infinity_mass=max(0.0, p[-1] - q[-1] * np.exp(x[-1])),
        zero_mass=max(0.0, q[0] - p[0] * np.exp(-x[0])),
        adjacency="add-remove",
        status="accounted",
    )
