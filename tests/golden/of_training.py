"""Weights that seeded chains reach, in float32 on a network and in float64 on a quadratic."""

import numpy as np
import torch
from torch import Tensor

from pacdp import Architecture
from pacdp.algorithms import PSGLD, SGD, SGHMC, SGLD, EntropySGD, Settings, build
from pacdp.chains import BATCH, Keys, normal_like
from pacdp.data import Dataset
from pacdp.losses import bounded_cross_entropy
from pacdp.models import build as network
from pacdp.objective import Estimate, Objective
from tests.golden.records import Frozen, digest

SAMPLERS: dict[str, Settings] = {
    "SGD": SGD(step_size=0.3, momentum=0.9, decay=0.3),
    "SGLD": SGLD(tau=30.0, decay=0.3),
    "SGLD clipped": SGLD(tau=30.0, clip_norm=0.5),
    "pSGLD": PSGLD(tau=30.0, stabiliser=0.1),
    "pSGLD frozen": PSGLD(tau=30.0, freeze_after=2, correction=False, stabiliser=0.1),
    "SGHMC": SGHMC(tau=30.0),
    "Entropy-SGLD": EntropySGD(tau=30.0, inner_steps=3),
    "Entropy-SGD": EntropySGD(tau=30.0, inner_steps=3, beta=None),
    "Entropy-SGLD clipped": EntropySGD(tau=30.0, inner_steps=3, clip_norm=0.5),
    "Entropy-SGD clipped": EntropySGD(tau=30.0, inner_steps=3, beta=None, clip_norm=0.5),
}
STEPS = 12


def toy(*, seed: int = 0, clip_norm: float | None = None, architecture: Architecture | None = None) -> Objective:
    """Sixty Gaussian examples whose classes a small network can learn in part."""
    rng = np.random.default_rng(seed)
    architecture = architecture or Architecture(hidden=(7, 6))
    shape = (5,) if architecture.name == "fc" else (1, 28, 28)
    inputs = rng.normal(size=(60, *shape)).astype(np.float32)
    labels = np.argsort(np.argsort(inputs.reshape(60, -1)[:, :2].sum(axis=1))) * 2 // 60
    model = network(architecture, input_shape=shape, classes=2, generator=torch.Generator().manual_seed(0))
    data = Dataset("toy", inputs, labels.astype(np.int64), 2)
    return Objective(model, bounded_cross_entropy(classes=2), data, batch_size=10, clip_norm=clip_norm)


class Bowl:
    """½ w'Aw with A = diag(1..6) and noise in its gradient."""

    def estimate(self, weights: Tensor, keys: Keys, tick: int | Tensor) -> Estimate:
        """The gradient, with the draws of a minibatch."""
        gradient = weights * torch.arange(1.0, 7.0, dtype=weights.dtype)
        gradient += 0.1 * normal_like(weights, keys=keys, stream=BATCH, tick=tick)
        zero = weights.new_zeros(len(weights))
        return Estimate(gradient, zero, zero)


def _run(settings: Settings, potential: Objective | Bowl, weights: Tensor, keys: Keys) -> Frozen:
    sampler = build(settings, potential)
    state = sampler.init(weights)
    for _ in range(STEPS):
        state, _ = sampler.step(state, keys)
    return {f"{k}": digest(row) for k, row in enumerate(state.weights)}


def on_networks() -> Frozen:
    """One chain and a batch of three, float32."""
    found: Frozen = {}
    for name, settings in SAMPLERS.items():
        data = toy(clip_norm=getattr(settings, "clip_norm", None))
        found[f"{name}/one"] = _run(settings, data, data.weights(), Keys.derive([7]))
        start = data.weights() + torch.arange(3.0)[:, None] / 10
        found[f"{name}/three"] = _run(settings, data, start, Keys.derive([7, 8, 8], [0, 0, 1]))
    data = toy(architecture=Architecture(name="cnn3"))
    found["convolutions/SGLD"] = _run(SAMPLERS["SGLD"], data, data.weights(), Keys.derive([7]))
    return found


def on_a_quadratic() -> Frozen:
    """Two chains, float64."""
    start = torch.linspace(-1.0, 1.0, 12, dtype=torch.float64).reshape(2, 6)
    return {
        name: _run(settings, Bowl(), start, Keys.derive([7, 8]))
        for name, settings in SAMPLERS.items()
        if getattr(settings, "clip_norm", None) is None
    }
