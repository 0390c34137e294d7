"""The audit of whole mechanisms: sound ones pass, and each of the ten faults of the review is found by its check."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from private_toys import cnn, cross_entropy, generator, mechanism, mlp
from torch import nn

import pacdp.algorithms.algorithm
import pacdp.step.release
import pacdp.step.sums
from pacdp.algorithms import SGLD, EntropySGD
from pacdp.algorithms.algorithm import Scheduled
from pacdp.audit.chains import audit_chain
from pacdp.audit.mechanism import audit_mechanism, made_up, of_length, units_for
from pacdp.losses import bounded_cross_entropy
from pacdp.private import (
    DPBBP,
    DPSGD,
    DPSGLD,
    P3SGD,
    DPAdam,
    DPMCDropout,
    Exponential,
    GradientSlot,
    NestedNoise,
    Normal,
    ParameterSlot,
    SeededRandomness,
    SystemRandomness,
    Tempered,
    Units,
    UserLevelDPSGD,
    bayesian,
    with_example_dropout,
)
from pacdp.step.clip import ClippedSum
from pacdp.step.event import sampled_step
from pacdp.step.processes import Together
from pacdp.step.release import PrivateStep

M, REFERENCE, GHOST = mechanism(), mechanism(grad_sample_mode="reference"), mechanism(grad_sample_mode="ghost")
COMMON = {"noise_multiplier": 1.3, "learning_rate": 0.1}
LOCAL = {"noise_scales": (2.0, 1.0), "learning_rate": 0.3}


def dropout_network():
    layers = mlp()
    return with_example_dropout(nn.Sequential(*layers[:2], nn.Dropout(0.3), layers[2]), generator=generator())


def bayes_network():
    return bayesian(mlp(), generator=generator())


def sgld(convention):
    return DPSGLD(mechanism=M, convention=convention, prior=Normal(std=1.0), burn_in=1, thin=2)


DECAY = Exponential(initial=0.4, factor=0.99)
# settings, network, whether people are the units
SOUND = {
    "DP-SGD": (DPSGD(mechanism=M, **COMMON, momentum=0.9, prior=Normal(std=1.0)), mlp, False),
    "DP-SGD by the reference": (DPSGD(mechanism=REFERENCE, **COMMON), cnn, False),
    "DP-SGD by ghosts": (DPSGD(mechanism=GHOST, noise_multiplier=DECAY, learning_rate=0.1), mlp, False),
    "DP-Adam": (DPAdam(mechanism=M, noise_multiplier=1.0, learning_rate=0.01, prior=Normal(std=1.0)), mlp, False),
    "gradient slot": (sgld(GradientSlot(step_size=DECAY, temperature=2.0, pre_noise=0.1)), mlp, False),
    "parameter slot": (sgld(ParameterSlot(step_size=1e-3, drift=0.5, noise=1.0)), mlp, False),
    "tempered": (sgld(Tempered(step_size=0.1, temperature=1e-3)), mlp, False),
    "DP-BBP": (DPBBP(mechanism=M, **COMMON, prior=Normal(std=1.0), draws=2), bayes_network, False),
    "DP-BBP by ghosts": (DPBBP(mechanism=GHOST, **COMMON, prior=Normal(std=1.0)), bayes_network, False),
    "DP-MC-Dropout": (DPMCDropout(mechanism=M, **COMMON, draws=2), dropout_network, False),
    "user level": (UserLevelDPSGD(mechanism=M, **COMMON, records_at_once=2), mlp, True),
    "P3SGD": (P3SGD(mechanism=M, **LOCAL, local_batch_size=2), mlp, True),
    "P3SGD, nested": (P3SGD(mechanism=M, **LOCAL, candidates=NestedNoise()), mlp, True),
}
CHAINS = {
    "SGLD": SGLD(tau=20.0, step_size=0.05, decay=0.1, batch_size=8, clip_norm=0.5),
    "Entropy-SGLD": EntropySGD(tau=20.0, inner_steps=10, outer_step_size=0.5, batch_size=8, clip_norm=0.5),
    "Entropy-SGD": EntropySGD(tau=20.0, beta=None, inner_steps=10, inner_decay=0.0, batch_size=8, clip_norm=0.5),
}
LEVEL = 0.01 / (len(SOUND) + len(CHAINS))


def audited(name, *, randomness=lambda: SeededRandomness(5), steps=80, failure_prob=LEVEL, **more):
    algorithm, network, by_person = SOUND[name]
    dataset, people = made_up((4,), classes=3, units=33, people=by_person)
    return audit_mechanism(
        algorithm,
        network(),
        dataset,
        loss=cross_entropy,
        people=people,
        randomness=randomness,
        steps=steps,
        failure_prob=failure_prob,
        generator=np.random.default_rng(1),
        **more,
    )


def refuted(audit):
    return {check.name for check in audit.refuted}


def chain_audit(settings):
    return audit_chain(settings, mlp(), loss=bounded_cross_entropy(classes=3, max_loss=4.0), shape=(4,), classes=3,
                       failure_prob=LEVEL)  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_sound_mechanisms_are_not_refuted(name):
    audit = audited(name)
    assert refuted(audit) == set()
    seen = {check.name: check.seen for check in audit.checks}
    assert float(seen["sensitivity: one unit"].split(" C by")[0]) > 0.99  # the bound is reached
    assert audit.level * sum(check.p_value is not None for check in audit.checks) == pytest.approx(LEVEL)


@pytest.mark.parametrize("name", CHAINS)
def test_sound_chains_are_not_refuted(name):
    assert refuted(chain_audit(CHAINS[name])) == set()


def test_noise_of_the_system_is_not_refuted():
    audit = audited("DP-SGD", randomness=SystemRandomness, failure_prob=1e-6, canaries=300)
    assert refuted(audit) == set()
    assert audit.checks[-1].name == "canaries"
    assert audit.level < 1e-6 / 40


def test_a_step_that_is_killed_between_two_releases():
    assert refuted(audited("P3SGD", randomness=SystemRandomness, steps=20, failure_prob=1e-6)) == set()


def test_1_noise_halved(monkeypatch):
    noised = Together.noised
    monkeypatch.setattr(Together, "noised", lambda self, total, std, source: noised(self, total, 0.5 * std, source))
    for name in ("DP-SGD", "P3SGD"):
        found = refuted(audited(name))
        assert {"noise: variance", "noise: variance by tensor", "noise: law", "resume: variance"} <= found


def test_2_clipping_after_averaging(monkeypatch):
    right = pacdp.step.sums.clipped_sum

    def late(contributions, clip_norm):
        count = max(1, len(next(iter(contributions.values()))))
        made = right({name: rows.mean(0, keepdim=True) for name, rows in contributions.items()}, clip_norm)
        return ClippedSum({name: count * one for name, one in made.total.items()}, made.finite)

    monkeypatch.setattr(pacdp.step.sums, "clipped_sum", late)
    assert {"noise: the data", "sensitivity: one unit", "sensitivity: sums"} <= refuted(audited("user level"))


def test_2_clipping_the_sum_of_a_batch(monkeypatch):
    right = pacdp.step.sums.clipped_gradient

    def late(*arguments, clip_norm, into, **more):
        seen = right(*arguments, clip_norm=1e9, into=into, **more)
        norm = torch.stack([one.norm() for one in into.values()]).norm()
        for one in into.values():
            one.mul_((clip_norm / norm).clamp(max=1.0))
        return seen

    monkeypatch.setattr(pacdp.step.sums, "clipped_gradient", late)
    assert "sensitivity: sums" in refuted(audited("DP-SGD by the reference"))


def test_3_the_same_noise_at_every_step(monkeypatch):
    first, normal = {}, SeededRandomness.normal

    def stuck(self, shape, *, std, dtype, device):
        drawn = first.setdefault((id(self), tuple(shape)), normal(self, shape, std=1.0, dtype=dtype, device=device))
        return std * drawn

    monkeypatch.setattr(SeededRandomness, "normal", stuck)
    found = refuted(audited("DP-SGD"))
    assert {"noise: repeats", "noise: covariance of steps", "noise: covariance at large", "resume: repeats"} <= found


def test_3_noise_that_comes_again_much_later(monkeypatch):
    drawn, normal = [], SeededRandomness.normal

    def periodic(self, shape, *, std, dtype, device):
        drawn.append(normal(self, shape, std=std, dtype=dtype, device=device))
        before = drawn[-1 - 4 * 30] if len(drawn) > 4 * 30 else drawn[-1]  # of four tensors, thirty steps before
        return before if before.shape == tuple(shape) else drawn[-1]

    monkeypatch.setattr(SeededRandomness, "normal", periodic)
    assert "noise: repeats" in refuted(audited("DP-SGD"))


def test_4_batches_of_one_size(monkeypatch):
    def fixed(self, n, sample_rate):
        return torch.randperm(n, generator=self._batches)[: round(n * sample_rate)].sort().values

    monkeypatch.setattr(SeededRandomness, "batch", fixed)
    for name in ("DP-SGD", "user level"):
        assert refuted(audited(name)) == {"batches: sizes"}


def test_4_shuffled_epochs(monkeypatch):
    left = []

    def epochs(self, n, sample_rate):
        if len(left) < n:
            left.extend(torch.randperm(n, generator=self._batches).tolist())
        size = int((torch.rand(n, generator=self._batches) < sample_rate).sum())
        return torch.tensor(sorted({left.pop(0) for _ in range(size)}), dtype=torch.int64)

    monkeypatch.setattr(SeededRandomness, "batch", epochs)
    assert "batches: steps" in refuted(audited("DP-SGD", steps=150))


@dataclass(frozen=True, slots=True, kw_only=True)
class Own(Scheduled):
    """w ← w - lr · made(released sum / B), with no optimizer."""

    made: str = "signs"

    def optimizer(self, parameters):
        return None

    @torch.no_grad()
    def update(self, step):
        released = step.release(self.noise_at(step.number))
        for name, w in step.weights.items():
            w -= self.rate_at(step.number) * OWN_UPDATES[self.made](released[name] / self.mechanism.expected_batch_size)
        return 0


def audit_of(algorithm, *, steps=60):
    dataset, _ = made_up((4,), classes=3, units=33)
    return audit_mechanism(
        algorithm, mlp(), dataset, loss=cross_entropy, randomness=lambda: SeededRandomness(5), steps=steps,
        failure_prob=LEVEL, generator=np.random.default_rng(1),
    )  # fmt: skip


DIVISORS = {"divisor", "divisor: one unit more"}
OWN_UPDATES = {
    "signs": torch.sign,
    "a step size of its own": lambda g: 0.3 * g,
    "a bounded step": lambda g: g / g.norm().clamp(min=0.1),
    "two thirds of the coordinates": lambda g: torch.where(torch.arange(g.numel()).view_as(g) % 3 > 0, g, 0.0),
}


@pytest.mark.parametrize("name", OWN_UPDATES)
def test_an_update_that_is_post_processing_of_another_kind_is_not_refuted(name):
    audit = audit_of(Own(mechanism=M, **COMMON, made=name))
    assert refuted(audit) == set()
    unchecked = {check.name: check.seen for check in audit.checks if check.unchecked}
    assert unchecked.keys() == DIVISORS
    assert all("makes it again of that sum alone" in seen for seen in unchecked.values())
    rows = {row["name"]: row for row in audit.to_dict()["checks"]}
    assert {name for name, row in rows.items() if not row["checked"]} == DIVISORS


def test_an_update_that_draws_numbers_of_its_own_cannot_be_checked():
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Drawing(Own):
        def update(self, step):
            for w in step.weights.values():
                w += 0.01 * step.randomness.normal(w.shape, std=1.0, dtype=w.dtype, device=w.device)
            return Own.update(self, step)

    found = {check.name: check for check in audit_of(Drawing(mechanism=M, **COMMON)).checks}
    assert all(found[name].unchecked and "draws numbers of its own" in found[name].seen for name in DIVISORS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaking(Own):
    """Moves by the sign of the released sum, and by a little of something that was not released."""

    by: str = "the clipped sum"

    def update(self, step):
        if self.by == "the clipped sum":
            for name, w in step.weights.items():
                w += 0.1 * step.total[name]
        elif self.by == "the size of the batch":
            for w in step.weights.values():
                w *= 1.0 + 0.01 * len(BATCHES[-1])
        return Own.update(self, step)


BATCHES = []


@pytest.mark.parametrize("by", ["the clipped sum", "the size of the batch", "nothing"])
def test_an_update_that_looks_at_more_than_was_released_is_refuted(by, monkeypatch):
    batch = SeededRandomness.batch

    def noted(self, n, sample_rate):
        BATCHES.append(batch(self, n, sample_rate))
        return BATCHES[-1]

    monkeypatch.setattr(SeededRandomness, "batch", noted)
    found = refuted(audit_of(Leaking(mechanism=M, **COMMON, by=by)))
    assert found & DIVISORS == (set() if by == "nothing" else DIVISORS)


def test_what_nobody_sees_of_nested_candidates_is_said():
    found = {check.name: check for check in audited("P3SGD, nested", steps=20).checks}
    assert found["choices"].unchecked
    assert "seen by nobody unless they are chosen" in found["choices"].seen
    assert not {check.name: check for check in audited("P3SGD", steps=20).checks}["choices"].unchecked


@pytest.mark.parametrize("name", ["DP-SGD", "DP-Adam", "P3SGD", "P3SGD, nested"])
def test_5_a_divisor_that_depends_on_the_batch(name, monkeypatch):
    sizes, batch, release = [], SeededRandomness.batch, PrivateStep.release

    def noted(self, n, sample_rate):
        drawn = batch(self, n, sample_rate)
        if n > 1:
            sizes.append(max(1, len(drawn)))
        return drawn

    def divided(self, noise_multiplier):
        factor = self.mechanism.expected_batch_size / sizes[-1] if sizes else 1.0
        return {name: factor * one for name, one in release(self, noise_multiplier).items()}

    monkeypatch.setattr(SeededRandomness, "batch", noted)
    monkeypatch.setattr(PrivateStep, "release", divided)
    assert {"divisor", "divisor: one unit more"} <= refuted(audited(name))


def test_6_noise_that_starts_again_on_resuming(monkeypatch):
    restore = SeededRandomness.restore

    def forgetful(self, state):
        restore(self, {**state, "noise": self._noise.get_state()})

    monkeypatch.setattr(SeededRandomness, "restore", forgetful)
    assert refuted(audited("DP-SGD")) == {"resume: seeded", "resume: repeats"}


def test_6_noise_of_the_system_that_starts_again_on_resuming():
    class Keyed(SystemRandomness):
        """A stream of numbers whose key is no secret of the sitting."""

        def __init__(self):
            super().__init__()
            self.own = SeededRandomness(3)

        def noised(self, total, *, std):
            return total + self.own.normal(total.shape, std=std, dtype=total.dtype, device=total.device)

    audit = audited("DP-SGD", randomness=Keyed)
    assert refuted(audit) == {"resume: repeats"}


@pytest.mark.parametrize("name", ["DP-SGD", "P3SGD"])
def test_7_an_accountant_that_is_told_half_the_rate(name, monkeypatch):
    def half(noise_multipliers, *, sample_rate, choice_epsilon=0.0):
        return sampled_step(noise_multipliers, sample_rate=0.5 * sample_rate, choice_epsilon=choice_epsilon)

    for room in (pacdp.step.release, pacdp.algorithms.algorithm):
        monkeypatch.setattr(room, "sampled_step", half)
    assert {"batches: rate", "batches: sizes", "accountant: numbers"} <= refuted(audited(name))


def test_8_biases_without_noise(monkeypatch):
    noised = Together.noised

    def weights_alone(self, total, std, source):
        made = noised(self, total, std, source)
        return {name: total[name] if name.endswith("bias") else one for name, one in made.items()}

    monkeypatch.setattr(Together, "noised", weights_alone)
    for name in ("DP-SGD", "user level"):
        assert {"noise: variance", "noise: variance by tensor"} <= refuted(audited(name))


def test_9_a_patient_cut_in_two(monkeypatch):
    group = Units.group.__func__

    def cut(cls, dataset, people):
        made = group(cls, dataset, people)
        if made.records is None:
            return made
        halves = [half for own in made.records for half in (own[::2], own[1::2]) if len(half)]
        return cls(dataset, tuple(halves))

    monkeypatch.setattr(Units, "group", classmethod(cut))
    audit = audited("user level")
    assert {"batches: whole units", "sensitivity: one unit"} <= refuted(audit)
    seen = {check.name: check.seen for check in audit.checks}
    assert float(seen["sensitivity: one unit"].split(" C by")[0]) > 1.5


def reused(shape, std):
    count = int(np.prod(shape))
    half = torch.randn((count + 1) // 2)
    return std * torch.cat([half, half])[:count].reshape(shape)


def one_radius(shape, std):
    count = int(np.prod(shape))
    radius = (-2.0 * torch.rand((count + 1) // 2).log()).sqrt()
    angles = 2.0 * np.pi * torch.rand(2, (count + 1) // 2)
    return std * torch.cat([radius * angles[0].cos(), radius * angles[1].cos()])[:count].reshape(shape)


def antithetic(shape, std):
    count = int(np.prod(shape))
    half = torch.randn((count + 1) // 2)
    return std * torch.cat([half, -half.flip(0)])[:count].reshape(shape)


def in_common(shape, std):
    return std * (0.8 * torch.randn(shape) + 0.6 * torch.randn(()))


@pytest.mark.parametrize(
    ("normal", "check"),
    [
        (reused, "noise: covariance by lag"),
        (reused, "noise: covariance at large"),
        (one_radius, "noise: covariance by lag"),
        (antithetic, "noise: covariance by lag"),
        (in_common, "noise: covariance by direction"),
    ],
)
def test_10_correlated_noise_of_the_system(normal, check, monkeypatch):
    torch.manual_seed(0)

    def noised(self, total, *, std):
        return total + normal(tuple(total.shape), std).to(total.dtype)

    monkeypatch.setattr(SystemRandomness, "noised", noised)
    assert check in refuted(audited("DP-SGD", randomness=SystemRandomness, steps=100))


def test_choices_with_other_probabilities_than_were_told(monkeypatch):
    wrong = pacdp.step.release.probabilities_of
    monkeypatch.setattr(pacdp.step.release, "probabilities_of", lambda scores, epsilon: wrong(scores, 1000.0 * epsilon))
    assert "choices" in refuted(audited("P3SGD", steps=150))


def test_faults_of_chains(monkeypatch):
    import pacdp.algorithms.sgld as room

    langevin = room.langevin
    with monkeypatch.context() as planted:
        planted.setattr(room, "langevin", lambda x, *, scale, **more: langevin(x, scale=0.5 * scale, **more))
        assert {"noise: variance by tensor"} <= refuted(chain_audit(CHAINS["SGLD"]))
    with monkeypatch.context() as planted:
        stuck = {"tick": 0}
        planted.setattr(room, "langevin", lambda x, *, tick, **more: langevin(x, **{**more, **stuck}))
        assert {"noise: repeats"} <= refuted(chain_audit(CHAINS["SGLD"]))


@pytest.mark.parametrize("name", ["Entropy-SGLD", "Entropy-SGD"])
def test_the_last_step_of_an_inner_loop_is_seen(name, monkeypatch):
    """Planted: that step alone has too little noise."""
    import pacdp.algorithms.entropy_sgd as room

    langevin, last = room.langevin, CHAINS[name].inner_steps - 1

    def quiet_at_the_end(x, *, scale, stream, tick, **more):
        ends = stream == room.NOISE and tick % (last + 1) == last
        return langevin(x, scale=0.5 * scale if ends else scale, stream=stream, tick=tick, **more)

    monkeypatch.setattr(room, "langevin", quiet_at_the_end)
    assert {"noise: variance by step"} <= refuted(chain_audit(CHAINS[name]))


def test_an_inner_loop_of_one_step_is_audited():
    assert refuted(chain_audit(replace(CHAINS["Entropy-SGLD"], inner_steps=1))) == set()


def test_made_up_records_and_lengths():
    dataset, people = made_up((2, 3), classes=4, units=9, people=True)
    assert people is not None
    assert len(people.unique()) == 9
    assert 1 <= people.bincount().min() <= people.bincount().max() <= 4
    assert dataset.tensors[0].shape == (len(people), 2, 3)
    assert (units_for(1.0), units_for(0.1), units_for(1e-6)) == (24, 80, 800)
    short = of_length(SOUND["gradient slot"][0], 7)
    assert (short.mechanism.steps, short.thin, short.pre_noise) == (7, 0, 0.0)


def test_refusals():
    algorithm, network, _ = SOUND["DP-SGD"]
    dataset, _ = made_up((4,), classes=3, units=9)
    for changes, said in (({"failure_prob": 0.0}, "failure_prob"), ({"steps": 1}, "steps")):
        with pytest.raises(ValueError, match=said):
            audit_mechanism(algorithm, network(), dataset, loss=cross_entropy, **changes)
    few, _ = made_up((4,), classes=3, units=2)
    with pytest.raises(ValueError, match="three units"):
        audit_mechanism(algorithm, network(), few, loss=cross_entropy)
