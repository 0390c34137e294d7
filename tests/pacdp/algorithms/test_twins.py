"""Samplers on networks against plain loops over named parameters in double precision, with the same normal numbers."""

import dataclasses

import torch
from torch.func import functional_call
from torch.testing import assert_close
from toys import keys_of, sparse_data, toy_data, toy_objective

from pacdp.algorithms import PSGLD, SGD, SGHMC, SGLD, EntropySGD, build
from pacdp.chains import NOISE, OUTER_NOISE, PROBE, normal_like, resident
from pacdp.models import Architecture
from tests.marks import every_case

KEYS = keys_of(8, 9)
DECAY = {"decay": 0.3}
SETTINGS = {
    "SGD": [SGD(step_size=0.2, momentum=0.8, **DECAY), SGD(step_size=0.1)],
    "SGLD": [SGLD(tau=30.0, cooling=0.2, **DECAY), SGLD(tau=50.0, base_std=0.5)],
    "pSGLD": [PSGLD(tau=300.0, step_size=3e-3, smoothing=0.9, stabiliser=0.1, freeze_after=8, **DECAY),
              PSGLD(tau=500.0, step_size=3e-3, smoothing=0.5, stabiliser=0.5, freeze_after=8)],
    "SGHMC": [SGHMC(tau=30.0, cooling=0.2, **DECAY), SGHMC(tau=50.0, friction=0.4, step_size=0.02)],
    "Entropy-SGLD": [EntropySGD(tau=30.0, inner_steps=3, outer_step_size=0.5),
                     EntropySGD(tau=50.0, beta=None, inner_steps=3, gamma=2.0, outer_step_size=0.5)],
}  # fmt: skip
FC = Architecture(hidden=(7, 6))
CONV = Architecture(name="conv")


class Plain:
    """One chain: parameters by name, minibatch gradients by .backward(), normal numbers by name."""

    def __init__(self, objective, k):
        self.objective, self.keys = objective, KEYS.select([k])

    def gradient(self, weights, tick):
        (batch,), _ = self.objective.draw(self.keys, tick)
        own = {name: w.clone().requires_grad_() for name, w in weights.items()}
        logits = functional_call(self.objective.model, own, self.objective._inputs[batch])
        self.objective.loss(logits, self.objective.labels[0][batch]).mean().backward()
        return {name: w.grad for name, w in own.items()}

    def normal(self, stream, tick):
        like = torch.empty(1, self.objective.dim, dtype=torch.float64)
        return self.objective.layout.views(normal_like(like, keys=self.keys, stream=stream, tick=tick)[0])


def sgd(s, plain, w, memory, t):
    g = plain.gradient(w, t - 1)
    for n in w:
        memory[n] = s.momentum * memory.get(n, 0.0) + g[n]
        w[n] = w[n] - s.step_size * t**-s.decay * memory[n]


def sgld(s, plain, w, memory, t):
    g, xi, h = plain.gradient(w, t - 1), plain.normal(NOISE, t - 1), s.step_size * t**-s.decay
    tau = s.tau * t**s.cooling
    for n in w:
        w[n] = w[n] - h * (g[n] + w[n] / (tau * s.base_std**2)) + (2 * h / tau) ** 0.5 * xi[n]


def psgld(s, plain, w, memory, t):
    prior, h = 1 / (s.tau * s.base_std**2), s.step_size * t**-s.decay
    g, xi, signs = plain.gradient(w, t - 1), plain.normal(NOISE, t - 1), plain.normal(PROBE, t - 1)
    moving = t <= s.freeze_after
    shifted = {n: w[n] + s.probe * signs[n].sign() for n in w}
    other = plain.gradient(shifted, t - 1) if moving else g
    for n in w:
        slope = g[n] + prior * w[n]
        alpha = 0.0 if t == 1 else s.smoothing if moving else 1.0
        memory[n] = alpha * memory.get(n, torch.zeros_like(slope)) + (1 - alpha) * slope**2
        root = memory[n] ** 0.5
        metric = 1 / (s.stabiliser + root)
        moved = w[n] - h * metric * slope + (2 * h * metric / s.tau) ** 0.5 * xi[n]
        if moving:
            curvature = signs[n].sign() * (other[n] + prior * shifted[n] - slope) / s.probe
            gamma = -slope * curvature / (root * (s.stabiliser + root) ** 2)
            moved = moved + h / s.tau * torch.where(root > 0, gamma, 0.0)
        w[n] = moved


def sghmc(s, plain, w, memory, t):
    g, xi, h = plain.gradient(w, t - 1), plain.normal(NOISE, t - 1), s.step_size * t**-s.decay
    tau = s.tau * t**s.cooling
    for n in w:
        drift = g[n] + w[n] / (tau * s.base_std**2)
        noise = (2 * s.friction * h / tau) ** 0.5 * xi[n]
        memory[n] = (1 - s.friction) * memory.get(n, 0.0) - h * drift + noise
        w[n] = w[n] + memory[n]


def entropy_sgd(s, plain, w, memory, t):
    local, mean = dict(w), dict(w)
    for i in range(1, s.inner_steps + 1):
        tick = (t - 1) * s.inner_steps + i - 1
        g, xi = plain.gradient(local, tick), plain.normal(NOISE, tick)
        h = s.inner_step_size * i**-s.inner_decay
        for n in w:
            local[n] = local[n] - 0.5 * h * (g[n] + s.gamma * (local[n] - w[n])) + (h / s.tau) ** 0.5 * xi[n]
            mean[n] = (1 - s.alpha) * mean[n] + s.alpha * local[n]
    eta, xi = (s.outer_step_size / (s.gamma * s.tau) * t**-s.outer_decay, plain.normal(OUTER_NOISE, t - 1))
    for n in w:
        moved = w[n] + 0.5 * eta * s.tau * s.gamma * (mean[n] - w[n])
        if s.beta is not None:
            moved = moved - 0.5 * eta / s.beta * w[n] / s.base_std**2 + (eta / s.beta) ** 0.5 * xi[n]
        w[n] = moved


TWINS = {"SGD": sgd, "SGLD": sgld, "pSGLD": psgld, "SGHMC": sghmc, "Entropy-SGLD": entropy_sgd}


def double(architecture, *, sparse, batching):
    """An objective in double precision."""
    shape, n = ((1, 28, 28), 12) if architecture.name == "conv" else ((1, 6, 6), 60)
    data = (sparse_data if sparse else toy_data)(n=n, classes=3, shape=shape)
    objective = toy_objective(data, architecture=architecture, batch_size=5)
    objective.model.double()
    objective._inputs = objective._inputs.double()
    objective.network = resident(objective.model, objective._inputs, batching=batching)  # type: ignore[arg-type]
    objective.layout = objective.network.layout
    return objective


@every_case(
    ("name", "architecture", "sparse", "batching", "steps"),
    [*((name, FC, True, "auto", 16) for name in TWINS), ("SGLD", FC, False, "auto", 8),
     ("SGLD", FC, False, "loop", 8), ("SGLD", FC, True, "vmap", 8), ("SGLD", CONV, False, "loop", 4),
     ("SGLD", CONV, False, "auto", 4)],
)  # fmt: skip
def test_the_engine_is_its_plain_twin(name, architecture, sparse, batching, steps, whole):
    steps = 50 if whole and architecture is FC else steps
    objective = double(architecture, sparse=sparse, batching=batching)
    every = [dataclasses.replace(settings, batch_size=5) for settings in SETTINGS[name]]
    start = objective.weights() * torch.tensor([[1.0], [0.8]], dtype=torch.float64)
    sampler = build(every, objective)
    state = sampler.init(start)
    assert state.weights.dtype == torch.float64
    for _ in range(steps):
        state, _ = sampler.step(state, KEYS)
    for k, settings in enumerate(every):
        plain, memory = Plain(objective, k), {}
        w = {n: view.clone() for n, view in objective.layout.views(start[k]).items()}
        for t in range(1, steps + 1):
            TWINS[name](settings, plain, w, memory, t)
        found = objective.layout.views(state.weights[k])
        moved = max(float((w[n] - view).abs().max()) for n, view in objective.layout.views(start[k]).items())
        assert moved > 0.02
        for n in w:
            assert_close(found[n], w[n], rtol=1e-10, atol=1e-10)
