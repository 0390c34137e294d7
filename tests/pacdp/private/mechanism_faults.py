"""Faults of private training that an audit is to find: each is planted by a ``setattr``, and says what else to run.

``FAULTS`` lists the fault, the mechanism that has it, and the checks that must find it.
"""

from dataclasses import replace

import numpy as np
import torch
from torch.optim import SGD

import pacdp.algorithms.algorithm
import pacdp.audit.observed
import pacdp.loop
import pacdp.step.release
import pacdp.step.sums
from pacdp.algorithms.algorithm import Descent
from pacdp.private import SeededRandomness, SystemRandomness, Units
from pacdp.step.event import sampled_step
from pacdp.step.gradients import NO_CLIPPING
from pacdp.step.processes import Together
from pacdp.step.release import PrivateStep
from tests.marks import slow


class Faulty(SeededRandomness):
    """Randomness whose noise is ``factor`` times what it should be, or, ``stuck``, the first draw for ever."""

    def __init__(self, *, factor=1.0, stuck=False, seed=7):
        super().__init__(seed)
        self.factor, self.stuck, self.first = factor, stuck, {}

    def noised(self, total, *, std):
        drawn = super().noised(torch.zeros_like(total), std=self.factor * std)
        return total + (self.first.setdefault(tuple(total.shape), drawn) if self.stuck else drawn)


def batches(plant, change):
    """Plant batches of a seed that ``change`` makes of what was drawn of n units at a rate."""
    batch = SeededRandomness.batch
    plant(SeededRandomness, "batch", lambda self, n, rate: change(self, batch(self, n, rate), n, rate))


def releases(plant, change):
    """Plant releases that ``change`` makes of a sum and a function that adds noise of a given size to it."""
    noised = Together.noised

    def changed(self, total, std, source):
        return change(total, lambda factor: noised(self, total, factor * std, source))

    plant(Together, "noised", changed)


SIZES = []
"""Of the batches that were drawn."""


def noting_sizes(plant):
    def noted(self, drawn, n, rate):
        SIZES.append(len(drawn))
        return drawn

    batches(plant, noted)


def noise_halved(plant):
    releases(plant, lambda total, noised: noised(0.5))


def clipping_after_averaging(plant):
    right = pacdp.step.sums.clipped_sum

    def late(contributions, clip):
        count = max(1, len(next(iter(contributions.values()))))
        made = right({name: rows.mean(0, keepdim=True) for name, rows in contributions.items()}, clip)
        return made._replace(total={name: count * one for name, one in made.total.items()})

    plant(pacdp.step.sums, "clipped_sum", late)


def clipping_the_sum_of_a_batch(plant):
    right = pacdp.step.sums.clipped_gradient

    def late(*given):
        *others, clip = given
        seen = right(*others, NO_CLIPPING)
        norm = torch.stack([one.norm() for one in seen.total.values()]).norm()
        factor = (clip.norm / norm).clamp(max=1.0)
        return seen._replace(total={name: factor * one for name, one in seen.total.items()})

    plant(pacdp.step.sums, "clipped_gradient", late)


def the_same_noise_at_every_step(plant):
    first, noised = {}, SeededRandomness.noised

    def stuck(self, total, *, std):
        drawn = first.setdefault((id(self), tuple(total.shape)), noised(self, torch.zeros_like(total), std=1.0))
        return total + std * drawn

    plant(SeededRandomness, "noised", stuck)


def noise_that_comes_again_much_later(plant):
    drawn, noised = [], SeededRandomness.noised

    def periodic(self, total, *, std):
        drawn.append(noised(self, torch.zeros_like(total), std=std))
        before = drawn[-1 - 4 * 15] if len(drawn) > 4 * 15 else drawn[-1]  # of four tensors, fifteen steps before
        return total + (before if before.shape == total.shape else drawn[-1])

    plant(SeededRandomness, "noised", periodic)


def batches_of_one_size(plant):
    def fixed(self, drawn, n, rate):
        return torch.randperm(n, generator=self._batches)[: round(n * rate)].sort().values

    batches(plant, fixed)


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
    noting_sizes(plant)
    release = PrivateStep.release

    def divided(self, noise_multiplier):
        factor = self.mechanism.expected_batch_size / max(1, SIZES[-1])
        return {name: factor * one for name, one in release(self, noise_multiplier).items()}

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
        return self.own.noised(total, std=std)


def noise_of_the_system_that_starts_again_on_resuming(plant):
    return {"randomness": Keyed}


def an_accountant_that_is_told_half_the_rate(plant):
    def half(noise_multipliers, *, sample_rate, choice_epsilon=0.0):
        return sampled_step(noise_multipliers, sample_rate=0.5 * sample_rate, choice_epsilon=choice_epsilon)

    for room in (pacdp.step.release, pacdp.algorithms.algorithm):
        plant(room, "sampled_step", half)


def biases_without_noise(plant):
    def weights_alone(total, noised):
        return {name: total[name] if name.endswith("bias") else one for name, one in noised(1.0).items()}

    releases(plant, weights_alone)


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


def of_the_system(noised, steps=60):
    """Noise of the system, changed: ``noised`` has the generator's own and what :meth:`noised` is given."""

    def fault(plant):
        own = SystemRandomness.noised
        plant(SystemRandomness, "noised", lambda self, total, *, std: noised(own, self, total, std))
        return {"randomness": SystemRandomness, "steps": steps}

    return fault


def of_torch(draw):
    """Noise of the system that ``draw`` makes of torch's numbers, so many at a time."""

    def noised(own, self, total, std):
        return total + std * draw(total.numel())[: total.numel()].reshape(total.shape).to(total.dtype)

    return of_the_system(noised)


def halves(pair):
    """Noise in two halves that know of each other."""
    return of_torch(lambda count: torch.cat(pair((count + 1) // 2)))


def reused(count):
    half = torch.randn(count)
    return half, half


def antithetic(count):
    half = torch.randn(count)
    return half, -half.flip(0)


def of_one_radius(count):
    radius, angles = (-2.0 * torch.rand(count).log()).sqrt(), 2.0 * np.pi * torch.rand(2, count)
    return radius * angles[0].cos(), radius * angles[1].cos()


def of_one_seed(*, layer):
    """Noise of which all tensors of a step, or of a ``layer``, have the first numbers."""

    def fault(plant):
        noised = Together.noised

        def alike(self, total, std, source):
            longest, made = max(map(torch.numel, total.values())), {}
            for name, one in total.items():
                key = name.split(".")[0] if layer else ""
                if key not in made:
                    made |= noised(self, {key: one.new_zeros(longest)}, std, source)
                total = {**total, name: one + made[key][: one.numel()].view_as(one)}
            return total

        plant(Together, "noised", alike)

    return fault


def in_common(count):
    return 0.8 * torch.randn(count) + 0.6 * torch.randn(())


def empty_batches_without_noise(plant):
    noting_sizes(plant)
    releases(plant, lambda total, noised: noised(SIZES[-1] > 0))


def empty_batches_without_an_update(plant):
    noting_sizes(plant)
    step = SGD.step
    plant(SGD, "step", lambda self: step(self) if SIZES[-1] else None)


def batches_that_are_never_empty(plant):
    batch = SeededRandomness.batch

    def redrawn(self, drawn, n, rate):
        while not len(drawn):
            drawn = batch(self, n, rate)
        return drawn

    batches(plant, redrawn)


def batches_with_a_cap(plant):
    batches(plant, lambda self, drawn, n, rate: drawn[: int(1.5 * n * rate)])
    return {"steps": 150}


def batches_read_in_part(plant):
    summer = pacdp.loop._summer

    def cut(*given):
        made = summer(*given)
        call = type(made).__call__
        plant(type(made), "__call__", lambda self, chosen, weights: call(self, chosen[:9], weights))
        return made

    plant(pacdp.loop, "_summer", cut)


def a_unit_that_is_drawn_twice(plant):
    batches(plant, lambda self, drawn, n, rate: torch.cat([drawn, drawn[drawn == 3]]))


def small_sums_that_count_as_zero(plant):
    right = pacdp.step.sums.clipped_sum

    def zeroed(contributions, clip):
        made = right(contributions, clip)
        norm = torch.stack([one.norm() for one in made.total.values()]).norm()
        return made._replace(total={name: one * (norm > 0.2 * clip.norm) for name, one in made.total.items()})

    plant(pacdp.step.sums, "clipped_sum", zeroed)


def a_step_length_that_knows_the_clipped_sum(plant):
    step = Descent.update

    def longer(self, given):
        before = {name: w.clone() for name, w in given.weights.items()}
        chosen = step(self, given)
        for name, w in given.weights.items():
            w.copy_(before[name] + (w - before[name]) * (1.0 + 1e-6 * given.total[name].norm()))
        return chosen

    plant(Descent, "update", longer)


def weights_that_shrink_where_a_gradient_was_not_finite(plant):
    step = pacdp.loop._step

    def shrunk(*given):
        seen = step(*given)
        for w in given[2].module.parameters() if seen.numbers[1] > 0 else ():
            w.data *= 0.999
        return seen

    plant(pacdp.loop, "_step", shrunk)


def the_best_weights_by_the_private_loss(plant):
    right = pacdp.audit.observed.train

    def best(*given, progress, **how):
        losses = []
        made = right(*given, progress=lambda one: (losses.append(one.private_loss), progress(one)), **how)
        parts = made.snapshots[np.nanargmin(losses)].split([w.numel() for w in made.weights.values()])
        pairs = zip(made.weights.items(), parts, strict=True)
        return replace(made, weights={name: part.view_as(w) for (name, w), part in pairs})

    plant(pacdp.audit.observed, "train", best)


def a_short_part_that_is_not_clipped(plant):
    part = pacdp.step.sums.Reference._part

    def late(self, weights, chosen):
        short = self.most is not None and len(chosen) < self.most
        return part(self._replace(clip=NO_CLIPPING if short else self.clip), weights, chosen)

    plant(pacdp.step.sums.Reference, "_part", late)


def weights_that_the_clipped_sum_is_written_into(plant):
    release = PrivateStep.release

    def written(self, noise_multiplier):
        for name, w in self.weights.items():
            w += 1e-6 * self.total[name]
        return release(self, noise_multiplier)

    plant(PrivateStep, "release", written)


def beside_the_grid(own, self, total, std):
    return total + own(self, torch.zeros_like(total), std=std)


def cut_at_three_and_a_half(own, self, total, std):
    drawn = own(self, total, std=std)
    while (far := (drawn - total).abs() > 3.5 * std).any():
        drawn[far] = own(self, total, std=std)[far]
    return drawn


def of_few_seeds(own, self, total, std):
    draw = torch.Generator().manual_seed(int(torch.randint(1 << 12, ())))
    whole = torch.empty(total.shape).normal_(0.0, 1024.0, generator=draw).round()
    grid = 2.0 ** (np.frexp(std)[1] - 11)
    return ((total / grid).round() + (whole * std / grid / 1024.0).round()) * grid


VARIANCE, LAG = {"noise: variance", "noise: variance by tensor"}, "noise: covariance by lag"
RESUME = {"resume: seeded", "resume: repeats"}
WEIGHTS = {"weights", "weights: one unit more"}
TOLD_HALF = {"batches: rate", "batches: sizes", "accountant: numbers"}
FAULTS = [
    (noise_halved, "P3SGD", VARIANCE | {"noise: law", "resume: variance"}),
    (clipping_after_averaging, "user level", {"noise: the data", "sensitivity: one unit", "sensitivity: sums"}),
    (clipping_the_sum_of_a_batch, "DP-SGD by the reference", {"sensitivity: sums"}),
    (the_same_noise_at_every_step, "DP-SGD",
     {"noise: repeats", "noise: covariance of steps", "noise: covariance at large", "resume: repeats"}),
    (noise_that_comes_again_much_later, "DP-SGD", {"noise: repeats"}),
    slow(
        batches_of_one_size, "DP-SGD", {"batches: sizes", "draws: sizes", "draws: extremes", "empty batches: rate"}
    ),
    (shuffled_epochs, "DP-SGD", {"batches: steps"}),
    (a_divisor_that_depends_on_the_batch, "DP-Adam", WEIGHTS),
    slow(a_divisor_that_depends_on_the_batch, "P3SGD, nested", WEIGHTS),
    (noise_that_starts_again_on_resuming, "DP-SGD", RESUME),
    slow(noise_of_the_system_that_starts_again_on_resuming, "DP-SGD", {"resume: repeats", "noise: grid"}),
    (an_accountant_that_is_told_half_the_rate, "DP-SGD", TOLD_HALF),
    (biases_without_noise, "user level", VARIANCE),
    (a_patient_cut_in_two, "user level", {"batches: whole units", "sensitivity: one unit"}),
    (choices_of_other_probabilities, "P3SGD", {"choices"}),
    slow(halves(reused), "DP-SGD", {LAG, "noise: covariance at large"}),
    (halves(of_one_radius), "DP-SGD", {LAG}),
    slow(halves(antithetic), "DP-SGD", {LAG}),
    (of_one_seed(layer=False), "DP-SGD", {LAG}),
    (of_one_seed(layer=True), "DP-SGD", {LAG}),
    (of_torch(in_common), "DP-SGD", {"noise: covariance by direction"}),
    (empty_batches_without_noise, "DP-SGD", {"empty batches: noise"}),
    (empty_batches_without_an_update, "DP-SGD", {"empty batches: weights"}),
    (batches_that_are_never_empty, "DP-SGD by the reference", {"empty batches: rate"}),
    slow(batches_with_a_cap, "DP-SGD", {"draws: extremes"}),
    (batches_read_in_part, "DP-SGD", {"batches: as drawn"}),
    (a_unit_that_is_drawn_twice, "DP-SGD", {"batches: as drawn"}),
    (a_unit_that_is_drawn_twice, "user level", {"batches: as drawn"}),
    (small_sums_that_count_as_zero, "user level", {"sensitivity: small sums"}),
    (a_step_length_that_knows_the_clipped_sum, "DP-SGD", {"weights"}),
    (weights_that_shrink_where_a_gradient_was_not_finite, "DP-SGD by the reference", {"sensitivity: weights"}),
    (the_best_weights_by_the_private_loss, "DP-SGD", WEIGHTS),
    (a_short_part_that_is_not_clipped, "in parts", {"sensitivity: one unit"}),
    (weights_that_the_clipped_sum_is_written_into, "DP-Adam", {"weights"}),
    (weights_that_the_clipped_sum_is_written_into, "P3SGD", {"weights"}),
    (of_the_system(beside_the_grid), "DP-SGD", {"noise: grid"}),
    slow(of_the_system(cut_at_three_and_a_half, 150), "DP-SGD", {"noise alone: largest"}),
    (of_the_system(of_few_seeds), "DP-SGD", {"noise alone: repeats"}),
]  # fmt: skip
ALONE = (batches_of_one_size, noise_that_starts_again_on_resuming, noise_of_the_system_that_starts_again_on_resuming)
