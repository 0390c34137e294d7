"""Faults of private training that an audit is to find: each is planted by a ``setattr``, and says what else to run.

``FAULTS`` lists the fault, the mechanism that has it, and the checks that must find it.
"""

import numpy as np
import pytest
import torch

import pacdp.algorithms.algorithm
import pacdp.step.release
import pacdp.step.sums
from pacdp.private import SeededRandomness, SystemRandomness, Units
from pacdp.step.clip import ClippedSum
from pacdp.step.event import sampled_step
from pacdp.step.processes import Together
from pacdp.step.release import PrivateStep


def noise_halved(plant):
    noised = Together.noised
    plant(Together, "noised", lambda self, total, std, source: noised(self, total, 0.5 * std, source))


def clipping_after_averaging(plant):
    right = pacdp.step.sums.clipped_sum

    def late(contributions, clip_norm):
        count = max(1, len(next(iter(contributions.values()))))
        made = right({name: rows.mean(0, keepdim=True) for name, rows in contributions.items()}, clip_norm)
        return ClippedSum({name: count * one for name, one in made.total.items()}, made.finite)

    plant(pacdp.step.sums, "clipped_sum", late)


def clipping_the_sum_of_a_batch(plant):
    right = pacdp.step.sums.clipped_gradient

    def late(*arguments, clip_norm, into, **more):
        seen = right(*arguments, clip_norm=1e9, into=into, **more)
        norm = torch.stack([one.norm() for one in into.values()]).norm()
        for one in into.values():
            one.mul_((clip_norm / norm).clamp(max=1.0))
        return seen

    plant(pacdp.step.sums, "clipped_gradient", late)


def the_same_noise_at_every_step(plant):
    first, normal = {}, SeededRandomness.normal

    def stuck(self, shape, *, std, dtype, device):
        drawn = first.setdefault((id(self), tuple(shape)), normal(self, shape, std=1.0, dtype=dtype, device=device))
        return std * drawn

    plant(SeededRandomness, "normal", stuck)


def noise_that_comes_again_much_later(plant):
    drawn, normal = [], SeededRandomness.normal

    def periodic(self, shape, *, std, dtype, device):
        drawn.append(normal(self, shape, std=std, dtype=dtype, device=device))
        before = drawn[-1 - 4 * 15] if len(drawn) > 4 * 15 else drawn[-1]  # of four tensors, fifteen steps before
        return before if before.shape == tuple(shape) else drawn[-1]

    plant(SeededRandomness, "normal", periodic)


def batches_of_one_size(plant):
    def fixed(self, n, sample_rate):
        return torch.randperm(n, generator=self._batches)[: round(n * sample_rate)].sort().values

    plant(SeededRandomness, "batch", fixed)


def shuffled_epochs(plant):
    left = []

    def epochs(self, n, sample_rate):
        if len(left) < n:
            left.extend(torch.randperm(n, generator=self._batches).tolist())
        size = int((torch.rand(n, generator=self._batches) < sample_rate).sum())
        return torch.tensor(sorted({left.pop(0) for _ in range(size)}), dtype=torch.int64)

    plant(SeededRandomness, "batch", epochs)
    return {"steps": 90}


def a_divisor_that_depends_on_the_batch(plant):
    sizes, batch, release = [], SeededRandomness.batch, PrivateStep.release

    def noted(self, n, sample_rate):
        drawn = batch(self, n, sample_rate)
        if n > 1:
            sizes.append(max(1, len(drawn)))
        return drawn

    def divided(self, noise_multiplier):
        factor = self.mechanism.expected_batch_size / sizes[-1] if sizes else 1.0
        return {name: factor * one for name, one in release(self, noise_multiplier).items()}

    plant(SeededRandomness, "batch", noted)
    plant(PrivateStep, "release", divided)
    return {"steps": 20}


def noise_that_starts_again_on_resuming(plant):
    restore = SeededRandomness.restore

    def forgetful(self, state):
        restore(self, {**state, "noise": self._noise.get_state()})

    plant(SeededRandomness, "restore", forgetful)


class Keyed(SystemRandomness):
    """A stream of numbers whose key is no secret of the sitting."""

    def __init__(self):
        super().__init__()
        self.own = SeededRandomness(3)

    def noised(self, total, *, std):
        return total + self.own.normal(total.shape, std=std, dtype=total.dtype, device=total.device)


def noise_of_the_system_that_starts_again_on_resuming(plant):
    return {"randomness": Keyed}


def an_accountant_that_is_told_half_the_rate(plant):
    def half(noise_multipliers, *, sample_rate, choice_epsilon=0.0):
        return sampled_step(noise_multipliers, sample_rate=0.5 * sample_rate, choice_epsilon=choice_epsilon)

    for room in (pacdp.step.release, pacdp.algorithms.algorithm):
        plant(room, "sampled_step", half)


def biases_without_noise(plant):
    noised = Together.noised

    def weights_alone(self, total, std, source):
        made = noised(self, total, std, source)
        return {name: total[name] if name.endswith("bias") else one for name, one in made.items()}

    plant(Together, "noised", weights_alone)


def a_patient_cut_in_two(plant):
    group = Units.group.__func__

    def cut(cls, dataset, people):
        made = group(cls, dataset, people)
        if made.records is None:
            return made
        halves = [half for own in made.records for half in (own[::2], own[1::2]) if len(half)]
        return cls(dataset, tuple(halves))

    plant(Units, "group", classmethod(cut))
    return {"steps": 12}


def choices_of_other_probabilities(plant):
    right = pacdp.step.release.probabilities_of
    plant(pacdp.step.release, "probabilities_of", lambda scores, epsilon: right(scores, 1000.0 * epsilon))
    return {"steps": 60}


def halves(pair):
    """Noise of the system in two halves that know of each other."""

    def fault(plant):
        def noised(self, total, *, std):
            both = torch.cat(pair((total.numel() + 1) // 2))[: total.numel()]
            return total + std * both.reshape(total.shape).to(total.dtype)

        plant(SystemRandomness, "noised", noised)
        return {"randomness": SystemRandomness, "steps": 60}

    return fault


def reused(count):
    half = torch.randn(count)
    return half, half


def antithetic(count):
    half = torch.randn(count)
    return half, -half.flip(0)


def of_one_radius(count):
    radius, angles = (-2.0 * torch.rand(count).log()).sqrt(), 2.0 * np.pi * torch.rand(2, count)
    return radius * angles[0].cos(), radius * angles[1].cos()


def noise_in_common(plant):
    def noised(self, total, *, std):
        return total + std * (0.8 * torch.randn(total.shape) + 0.6 * torch.randn(())).to(total.dtype)

    plant(SystemRandomness, "noised", noised)
    return {"randomness": SystemRandomness, "steps": 60}


VARIANCE, LAG = {"noise: variance", "noise: variance by tensor"}, "noise: covariance by lag"
RESUME = {"resume: seeded", "resume: repeats"}
DIVISORS = {"divisor", "divisor: one unit more"}
TOLD_HALF = {"batches: rate", "batches: sizes", "accountant: numbers"}
FAULTS = [
    (noise_halved, "P3SGD", VARIANCE | {"noise: law", "resume: variance"}),
    (clipping_after_averaging, "user level", {"noise: the data", "sensitivity: one unit", "sensitivity: sums"}),
    (clipping_the_sum_of_a_batch, "DP-SGD by the reference", {"sensitivity: sums"}),
    (the_same_noise_at_every_step, "DP-SGD",
     {"noise: repeats", "noise: covariance of steps", "noise: covariance at large", "resume: repeats"}),
    (noise_that_comes_again_much_later, "DP-SGD", {"noise: repeats"}),
    pytest.param(batches_of_one_size, "DP-SGD", {"batches: sizes"}, marks=pytest.mark.slow),
    (shuffled_epochs, "DP-SGD", {"batches: steps"}),
    (a_divisor_that_depends_on_the_batch, "DP-Adam", DIVISORS),
    pytest.param(a_divisor_that_depends_on_the_batch, "P3SGD, nested", DIVISORS, marks=pytest.mark.slow),
    (noise_that_starts_again_on_resuming, "DP-SGD", RESUME),
    pytest.param(noise_of_the_system_that_starts_again_on_resuming, "DP-SGD", {"resume: repeats"},
                 marks=pytest.mark.slow),
    (an_accountant_that_is_told_half_the_rate, "DP-SGD", TOLD_HALF),
    (biases_without_noise, "user level", VARIANCE),
    (a_patient_cut_in_two, "user level", {"batches: whole units", "sensitivity: one unit"}),
    (choices_of_other_probabilities, "P3SGD", {"choices"}),
    pytest.param(halves(reused), "DP-SGD", {LAG, "noise: covariance at large"}, marks=pytest.mark.slow),
    (halves(of_one_radius), "DP-SGD", {LAG}),
    pytest.param(halves(antithetic), "DP-SGD", {LAG}, marks=pytest.mark.slow),
    (noise_in_common, "DP-SGD", {"noise: covariance by direction"}),
]  # fmt: skip
ALONE = (batches_of_one_size, noise_that_starts_again_on_resuming, noise_of_the_system_that_starts_again_on_resuming)
