"""Reconstruction from features: the ratio's definition, exact cases, and what a network gives away."""

import math

import numpy as np
import pytest
import torch
from private_toys import generator
from sklearn.datasets import load_digits
from torch import nn

from pacdp.private.inversion import decoder_attack, psnr, search_attack


def test_the_ratio_is_the_usual_one():
    """skimage.metrics.peak_signal_noise_ratio(a, b, data_range=R) is 10 log10(R² / mean((a - b)²))."""
    a, b = torch.rand(5, 1, 8, 8, generator=generator()), torch.rand(5, 1, 8, 8, generator=generator(1))
    errors = [np.mean((x.double().numpy() - y.double().numpy()) ** 2) for x, y in zip(a, b, strict=True)]
    by_hand = [10 * math.log10(4.0 / error) for error in errors]
    np.testing.assert_allclose(psnr(a, b, peak=2.0).numpy(), by_hand, rtol=1e-12)
    # an error of 0.1 in every pixel is 20 dB, one grey level of 255 is 48.13 dB
    flat = torch.full((1, 9), 0.5, dtype=torch.float64)
    assert float(psnr(flat + 0.1, flat)) == pytest.approx(20.0, abs=1e-9)
    assert float(psnr(flat + 1 / 255, flat)) == pytest.approx(48.1308, abs=1e-4)
    assert float(psnr(flat, flat)) == math.inf


def test_a_linear_decoder_undoes_linear_features():
    public, inputs = torch.rand(200, 6, generator=generator()), torch.rand(10, 6, generator=generator(1))
    mix = torch.randn(6, 6, generator=generator(2))
    assert float(decoder_attack(lambda x: x @ mix, inputs, public, ridge=1e-9).psnr.min()) > 60.0
    # features that say nothing: the mean of the public inputs is the best answer
    blind = decoder_attack(lambda x: torch.zeros(len(x), 3), inputs, public)
    torch.testing.assert_close(blind.reconstructed, public.mean(0).expand(10, 6))


def test_the_search_undoes_what_can_be_undone_and_keeps_examples_apart():
    inputs = 0.1 + 0.8 * torch.rand(4, 1, 3, 3, generator=generator())
    mix = torch.randn(9, 12, generator=generator(1))

    def features(x):
        return torch.tanh(x.flatten(1) @ mix)

    start = torch.full_like(inputs, 0.5)
    made = search_attack(features, inputs, start, steps=600)
    assert float(made.psnr.min()) > 30.0
    assert made.reconstructed.shape == inputs.shape
    alone = search_attack(features, inputs[1:2], start[1:2], steps=50)
    together = search_attack(features, inputs, start, steps=50)
    torch.testing.assert_close(alone.reconstructed[0], together.reconstructed[1], atol=1e-4, rtol=1e-4)
    smooth = search_attack(features, inputs, start, steps=200, smoothness=100.0).reconstructed
    assert float(smooth.diff(dim=-1).abs().mean()) < 0.2 * float(inputs.diff(dim=-1).abs().mean())


def test_narrow_features_of_digits_say_less():
    x = torch.tensor(load_digits().data / 16.0, dtype=torch.float32)
    found = {}
    for width in (4, 64):
        layer = nn.Linear(64, width)
        with torch.no_grad():
            layer.weight.copy_(torch.randn(width, 64, generator=generator()) / 8.0)
        made = decoder_attack(lambda v, layer=layer: torch.tanh(layer(v)), x[:100], x[500:1500], ridge=1e-6)
        found[width] = float(made.psnr.mean())
    assert found[4] + 5.0 < found[64]
    assert found[4] > 8.0


def test_refusals():
    x = torch.rand(2, 3, generator=generator())
    with pytest.raises(ValueError, match="peak"):
        psnr(x, x, peak=0.0)
    with pytest.raises(ValueError, match="ridge"):
        decoder_attack(lambda v: v, x, x, ridge=0.0)
    with pytest.raises(ValueError, match="finite"):
        decoder_attack(lambda v: v / 0.0, x, x)
    with pytest.raises(ValueError, match="steps"):
        search_attack(lambda v: v, x, x, steps=0)
    with pytest.raises(ValueError, match="low < high"):
        search_attack(lambda v: v, x, x, low=1.0, high=0.0)
