"""Features of spots: functions of one image, unmoved by where a spot lies, and blind to the order of the batch."""

import numpy as np
from numpy.random import default_rng

from pacdp.features.spots import spot_features


def cell(spots=(), size=50, seed=0):
    y, x = np.mgrid[:size, :size]
    image = np.where((x - 25) ** 2 + (y - 25) ** 2 < 20**2, 0.7, 0.0)
    for cx, cy in spots:
        image -= 0.4 * np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / 2.0)
    return (image + 0.01 * default_rng(seed).random((size, size))).clip(0, 1).astype(np.float32)[None]


def test_spots_show_wherever_they_lie():
    plain, one, elsewhere = (spot_features(cell(at)[None])[0] for at in ([], [(20, 20)], [(29, 24)]))
    assert np.abs(one - elsewhere).max() < 0.25
    assert np.abs(one - plain).max() > 1.0
