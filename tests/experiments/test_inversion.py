"""Reconstruction from features: the ratio's definition, exact cases, and what a network gives away."""

import math

import numpy as np
import torch
from numpy.testing import assert_allclose
from torch.testing import assert_close

from experiments.runs.inversion import psnr, search_attack
from tests.pacdp.draws import rand, randn


def test_the_ratio_is_the_usual_one():
    """skimage.metrics.peak_signal_noise_ratio(a, b, data_range=1) is 10 log10(1 / mean((a - b)²))."""
    a, b = rand(5, 1, 8, 8), rand(5, 1, 8, 8, seed=1)
    errors = [np.mean((x.double().numpy() - y.double().numpy()) ** 2) for x, y in zip(a, b, strict=True)]
    by_hand = [10 * math.log10(1.0 / error) for error in errors]
    assert_allclose(psnr(a, b).numpy(), by_hand, rtol=1e-12)
    assert float(psnr(a[:1], a[:1])) == math.inf


def test_the_search_undoes_what_can_be_undone_and_keeps_examples_apart():
    inputs = 0.1 + 0.8 * rand(4, 1, 3, 3)
    mix = randn(9, 12, seed=1)

    def features(x):
        return torch.tanh(x.flatten(1) @ mix)

    start = torch.full_like(inputs, 0.5)
    assert float(search_attack(features, inputs, start, steps=500).psnr.min()) > 24.0
    alone = search_attack(features, inputs[1:2], start[1:2], steps=50)
    together = search_attack(features, inputs, start, steps=50)
    assert_close(alone.reconstructed[0], together.reconstructed[1], atol=1e-4, rtol=1e-4)
    smooth = search_attack(features, inputs, start, steps=200, smoothness=100.0).reconstructed
    assert float(smooth.diff(dim=-1).abs().mean()) < 0.2 * float(inputs.diff(dim=-1).abs().mean())
