"""Histories are sequences: joined, cut and counted; a run's event is what it promised, or the run ends in an error."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from private_toys import cross_entropy, data, generator, mechanism, mlp
from torch import nn

from bounds.accounting import (
    Composed,
    ExponentialMechanism,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    SelfComposed,
    privacy_epsilon,
)
from pacdp.algorithms.algorithm import Algorithm
from pacdp.ledger import Ledger
from pacdp.private import (
    DPBBP,
    DPSGD,
    DPSGLD,
    P3SGD,
    DPAdam,
    DPMCDropout,
    Exponential,
    GradientSlot,
    IndependentNoise,
    NestedNoise,
    Normal,
    ParameterSlot,
    Polynomial,
    SeededRandomness,
    Tempered,
    UserLevelDPSGD,
    after,
    bayesian,
    first,
    joined,
    planned,
    runs_of,
    sampled_step,
    steps_of,
    train,
    with_example_dropout,
)
from pacdp.step.event import combined, history

STEPS = [
    sampled_step([1.0], sample_rate=0.1),
    sampled_step([2.0], sample_rate=0.1),
    sampled_step([1.0], sample_rate=1.0),
    sampled_step([1.0], sample_rate=0.1, choice_epsilon=0.3),
    sampled_step([0.0], sample_rate=0.1),
]
SCHEDULES = st.lists(st.integers(0, len(STEPS) - 1), max_size=12)
few = settings(max_examples=300, deadline=None, derandomize=True, database=None)


def event_of(schedule):
    return history(STEPS[i] for i in schedule)


def flat(event):
    """The steps one by one, in their order: the slow twin of a history."""
    return [step for step, count in runs_of(event) for _ in range(count)]


@few
@given(SCHEDULES)
def test_a_history_is_its_steps(schedule):
    event = event_of(schedule)
    assert flat(event) == [STEPS[i] for i in schedule]
    assert steps_of(event) == len(schedule)
    assert (event is None) == (not schedule)
    runs = runs_of(event)
    assert all(count > 0 for _, count in runs)
    assert all(one != other for (one, _), (other, _) in pairwise(runs))


@few
@given(SCHEDULES, SCHEDULES, SCHEDULES)
def test_joining_is_concatenation(a, b, c):
    x, y, z = map(event_of, (a, b, c))
    assert joined(x, y) == event_of(a + b)
    assert joined(joined(x, y), z) == joined(x, joined(y, z)) == joined(x, y, z)
    assert joined(x, None) == joined(None, x) == joined(x) == x
    assert steps_of(joined(x, y)) == steps_of(x) + steps_of(y)


@few
@given(SCHEDULES, st.integers(-2, 15))
def test_the_beginning_and_the_rest_make_the_whole(schedule, k):
    event, cut = event_of(schedule), max(0, k)
    assert first(event, k) == event_of(schedule[:cut])
    assert after(event, k) == event_of(schedule[cut:])
    assert joined(first(event, k), after(event, k)) == event


@few
@given(SCHEDULES, st.integers(0, 12), st.integers(0, 12))
def test_cuts_compose(schedule, j, k):
    event = event_of(schedule)
    assert first(first(event, j), k) == first(event, min(j, k))
    assert after(after(event, j), k) == after(event, j + k)
    assert after(first(event, j + k), j) == first(after(event, j), k)


@few
@given(SCHEDULES, st.integers(1, 4))
def test_nested_repetitions_are_unrolled_in_their_order(schedule, count):
    event = event_of(schedule)
    if event is not None:
        repeated = SelfComposed(event=event, count=count)
        assert flat(repeated) == [STEPS[i] for i in schedule] * count
        assert joined(Composed(events=(repeated, STEPS[1]))) == event_of(schedule * count + [1])


def test_one_step_is_the_mechanism_it_says():
    assert STEPS[0] == PoissonSampled(sample_rate=0.1, event=Gaussian(noise_multiplier=1.0))
    choice = ExponentialMechanism(epsilon=0.3, adjacency="add-remove")
    both = Composed(events=(Gaussian(noise_multiplier=1.0), choice))
    assert STEPS[3] == PoissonSampled(sample_rate=0.1, event=both)
    assert STEPS[4] == NonPrivate()
    assert sampled_step([1e20], sample_rate=1e-20) == sampled_step([1e10], sample_rate=1e-9)
    for noise, rate in (([], 0.5), ([-1.0], 0.5), ([math.nan], 0.5), ([math.inf], 0.5), ([1.0], 0.0), ([1.0], 1.5)):
        with pytest.raises(ValueError, match=r"noise_multiplier|sample_rate"):
            sampled_step(noise, sample_rate=rate)


@pytest.mark.parametrize("noises", [(3.0, 1.0), (2.0, 2.0), (0.5, 7.0, 1.3)])
def test_independent_releases_are_one_with_the_combined_noise(noises):
    exact = math.fsum(z**-2.0 for z in noises) ** -0.5
    assert exact * (1.0 - 1e-14) <= combined(noises) <= exact
    apart = PoissonSampled(sample_rate=0.2, event=Composed(events=tuple(Gaussian(noise_multiplier=z) for z in noises)))
    made, other = (
        privacy_epsilon(event=SelfComposed(event=one, count=20), delta=1e-3, adjacency="add-remove")
        for one in (sampled_step(noises, sample_rate=0.2), apart)
    )
    assert made.upper == pytest.approx(other.upper, rel=1e-6)
    assert combined((1.0, 0.0)) == 0.0


DECAY = Exponential(initial=1.5, factor=0.9)
M = mechanism(steps=5)


def people():
    return torch.arange(40) // 4


def masked():
    return with_example_dropout(nn.Sequential(mlp(), nn.Dropout(0.3)), generator=generator())


RUNS = {
    "sgd": (DPSGD(mechanism=M, noise_multiplier=DECAY, learning_rate=0.1, momentum=0.5), mlp, None),
    "sgd by the reference": (
        DPSGD(mechanism=mechanism(steps=5, grad_sample_mode="reference"), noise_multiplier=1.0, learning_rate=0.1),
        mlp,
        None,
    ),
    "without noise": (DPSGD(mechanism=M, noise_multiplier=0.0, learning_rate=0.1), mlp, None),
    "noise that ends": (DPSGD(mechanism=M, noise_multiplier=lambda t: 2.0 - 0.5 * t, learning_rate=0.1), mlp, None),
    "adam": (DPAdam(mechanism=M, noise_multiplier=DECAY, learning_rate=0.01), mlp, None),
    "knolle": (
        DPSGLD(
            mechanism=M,
            convention=GradientSlot(step_size=Polynomial(initial=0.1, power=0.5), temperature=3.0, pre_noise=0.1),
        ),
        mlp,
        None,
    ),
    "zhang": (DPSGLD(mechanism=M, convention=ParameterSlot(step_size=1e-3, drift=1.0, noise=2.0), thin=2), mlp, None),
    "tempered": (DPSGLD(mechanism=M, convention=Tempered(step_size=DECAY, temperature=0.01)), mlp, None),
    "bbp": (
        DPBBP(mechanism=M, noise_multiplier=DECAY, learning_rate=0.1, prior=Normal(std=1.0), draws=2),
        lambda: bayesian(mlp(), generator=generator()),
        None,
    ),
    "dropout": (DPMCDropout(mechanism=M, noise_multiplier=DECAY, learning_rate=0.1), masked, None),
    "users": (UserLevelDPSGD(mechanism=M, noise_multiplier=DECAY, learning_rate=0.1), mlp, people()),
    "p3sgd": (P3SGD(mechanism=M, noise_scales=(3.0, 1.0, 2.0), learning_rate=0.1), mlp, people()),
    "p3sgd, nested": (
        P3SGD(mechanism=M, noise_scales=(3.0, 1.0), learning_rate=0.1, candidates=NestedNoise()),
        mlp,
        people(),
    ),
    "p3sgd, no choice": (P3SGD(mechanism=M, noise_scales=(2.0,), learning_rate=0.1), mlp, people()),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_s_event_is_what_was_promised(name):
    algorithm, build, persons = RUNS[name]
    n = 40 if persons is None else 10
    run = train(algorithm, build(), data(), loss=cross_entropy, people=persons, randomness=SeededRandomness(1))
    whole = algorithm.promise(n, 5)
    assert isinstance(algorithm, Algorithm)
    assert run.event == whole
    assert steps_of(whole) == 5
    assert algorithm.promise(n, 0) is None
    assert [algorithm.promise(n, k) for k in range(6)] == [first(whole, k) for k in range(6)]
    assert algorithm.promise(n + 7, 5) == whole  # the number of units is no one's business


class Forgetful(DPSGD):
    """Asked about later steps, it tells the price of the first ones, whose noise is larger."""

    def promise(self, n, steps, *, start=0):
        return planned(self.noise_multiplier, sample_rate=self.mechanism.sample_rate, steps=steps)


@pytest.mark.parametrize("every", [1, 2, 3, 7])
def test_a_ledger_is_told_of_the_very_steps_that_releases_are_held_against(every, tmp_path):
    algorithm = Forgetful(mechanism=M, noise_multiplier=DECAY, learning_rate=0.1)
    book = Ledger.open(tmp_path / "ledger")
    files = {"checkpoint": tmp_path / "run", "checkpoint_every": every}
    run = train(algorithm, mlp(), data(), loss=cross_entropy, ledger=book, **files)
    entries = [one.stretch for one in Ledger.load(book.folder).entries]
    assert [one.first for one in entries] == list(range(1, 6, every))
    assert joined(*(one.event for one in entries)) == run.event


def test_the_plan_of_a_schedule_is_the_promise():
    algorithm, _, _ = RUNS["sgd"]
    assert planned(DECAY, sample_rate=0.25, steps=5) == algorithm.promise(40, 5)
    assert planned(DECAY, sample_rate=0.25, steps=5, done=2) == after(algorithm.promise(40, 5), 2)
    assert planned(DECAY, sample_rate=0.25, steps=5, done=5) is None


class Twice(DPSGD):
    """Releases the sum a second time, with noise of its own."""

    def update(self, step):
        step.release(self.noise_at(step.number))
        return DPSGD.update(self, step)


class Quieter(DPSGD):
    """Promises its noise and releases with half of it."""

    def update(self, step):
        step.release(0.5 * self.noise_at(step.number))
        return 0


class Free(DPSGD):
    """Promises less than it releases."""

    def promise(self, n, steps, *, start=0):
        return planned(2.0, sample_rate=self.mechanism.sample_rate, steps=start + steps, done=start)


class Late(DPSGD):
    """Keeps its promise until the third step."""

    def update(self, step):
        if step.number == 2:
            step.release(5.0)
        return DPSGD.update(self, step)


class Silent(DPSGD):
    """Promises a release and makes none."""

    def update(self, step):
        return 0


class Choosing(P3SGD):
    """Chooses a second time."""

    def update(self, step):
        moved = [{name: w.clone() for name, w in step.weights.items()} for _ in range(2)]
        step.choose(moved, selection_epsilon=0.1, score_bound=1.0)
        return P3SGD.update(self, step)


@pytest.mark.parametrize(("kind", "ran"), [(Twice, 0), (Quieter, 0), (Free, 0), (Late, 2)])
def test_a_step_that_releases_something_else_ends_the_run(kind, ran):
    seen = []
    liar = kind(mechanism=M, noise_multiplier=1.0, learning_rate=0.1)
    with pytest.raises(RuntimeError, match=rf"step {ran + 1} released .* was promised"):
        train(liar, mlp(), data(), loss=cross_entropy, progress=lambda p: seen.append(p.step))
    assert seen == list(range(1, ran + 1))


def test_a_second_choice_and_no_release_end_the_run():
    liar = Choosing(mechanism=M, noise_scales=(3.0, 1.0), learning_rate=0.1)
    with pytest.raises(RuntimeError, match="was promised"):
        train(liar, mlp(), data(), people=people(), loss=cross_entropy)
    with pytest.raises(ValueError, match="one number for each release, got none"):
        train(Silent(mechanism=M, noise_multiplier=1.0, learning_rate=0.1), mlp(), data(), loss=cross_entropy)


def test_independent_candidates_that_are_promised_as_nested_end_the_run():
    class Cheaper(NestedNoise):
        def draw(self, step, scales):
            return IndependentNoise().draw(step, scales)

    liar = P3SGD(mechanism=M, noise_scales=(3.0, 1.0), learning_rate=0.1, candidates=Cheaper())
    with pytest.raises(RuntimeError, match="was promised"):
        train(liar, mlp(), data(), people=people(), loss=cross_entropy)
