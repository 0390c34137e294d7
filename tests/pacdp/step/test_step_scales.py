"""The event of steps with noise of many scales: few mechanisms, none of them with more noise than was added."""

import numpy as np

from pacdp.step.event import runs_of
from pacdp.step.langevin import langevin_event

CLIP, BATCH, N = 0.5, 20, 100


def told(scales, each=1):
    """Noise multipliers of the event of steps of size 0.1, one for each step, rising."""
    rates = np.full(len(scales), 0.1)
    event = langevin_event(rates, scales, each=each, batch_size=BATCH, clip_norm=CLIP, n=N)
    assert all(step.sample_rate == BATCH / N for step, _ in runs_of(event))
    return np.sort(np.concatenate([[step.event.noise_multiplier] * count for step, count in runs_of(event)]))


def test_no_step_is_told_of_with_more_noise_than_it_adds_or_with_much_less():
    """Noise over what one record moves: scale / (rate clip_norm / batch), and two roundings to single precision."""
    for scales in (np.array([1e-4, 0.3, 0.3, 7e5]), np.geomspace(1e-3, 1e3, 5000), 1.0 + 1e-6 * np.arange(65)):
        exact = np.sort(scales) * BATCH / (0.1 * CLIP)
        for each in (1, 3):
            ratios = told(scales, each) / np.repeat(exact, each)
            assert ratios.max() < 1.0 - 0.9 * 2.0**-20
            assert ratios.min() > (1.0 - 2.0**-10 if len(scales) > 64 else 1.0 - 1.1 * 2.0**-20) - 1e-6


def test_many_scales_become_few():
    assert len(np.unique(told(np.geomspace(1.0, 1.1, 5000)))) < 110
