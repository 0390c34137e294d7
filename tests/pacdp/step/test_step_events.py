"""Histories are sequences: joined, cut and counted; a run's event is what it promised, or the run ends in an error."""

import math
from dataclasses import replace
from itertools import pairwise

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from private_toys import DECAY, SOUND, cross_entropy, data, mechanism, mlp

from bounds.accounting import (
    Composed,
    ExponentialMechanism,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    SelfComposed,
    privacy_epsilon,
)
from pacdp.private import (
    DPSGD,
    P3SGD,
    SeededRandomness,
    Table,
    after,
    first,
    joined,
    planned,
    runs_of,
    sampled_step,
    steps_of,
    train,
)
from pacdp.step.event import combined, history
from pacdp.store.ledger import Ledger
from tests.marks import every_case, left_out, near, parametrize, refusal

STEPS = [
    sampled_step([1.0], sample_rate=0.1),
    sampled_step([2.0], sample_rate=0.1),
    sampled_step([1.0], sample_rate=1.0),
    sampled_step([1.0], sample_rate=0.1, choice_epsilon=0.3),
    sampled_step([0.0], sample_rate=0.1),
]
SCHEDULES = st.lists(st.integers(0, len(STEPS) - 1), max_size=12)
few = settings(max_examples=300)


def event_of(schedule):
    return history(STEPS[i] for i in schedule)


def flat(event):
    """The steps one by one, in their order: the slow twin of a history."""
    return [step for step, count in runs_of(event) for _ in range(count)]


@few
@given(SCHEDULES, st.integers(1, 4))
def test_a_history_is_its_steps(schedule, count):
    event = event_of(schedule)
    assert flat(event) == [STEPS[i] for i in schedule]
    assert steps_of(event) == len(schedule)
    assert (event is None) == (not schedule)
    runs = runs_of(event)
    assert all(count > 0 for _, count in runs)
    assert all(one != other for (one, _), (other, _) in pairwise(runs))
    if event is not None:  # nested repetitions are unrolled in their order
        repeated = SelfComposed(event=event, count=count)
        assert joined(Composed(events=(repeated, STEPS[1]))) == event_of(schedule * count + [1])


@few
@given(SCHEDULES, SCHEDULES, st.integers(-2, 15), st.integers(0, 12))
def test_joining_is_concatenation_and_cutting_its_inverse(a, b, j, k):
    x, y, whole = event_of(a), event_of(b), event_of(a + b)
    assert joined(x, y) == joined(joined(x, None), y) == whole
    assert steps_of(whole) == steps_of(x) + steps_of(y)
    assert first(whole, j) == event_of((a + b)[: max(0, j)])
    assert after(whole, j) == event_of((a + b)[max(0, j) :])
    assert joined(first(whole, j), after(whole, j)) == whole
    assert first(first(whole, j), k) == first(whole, min(j, k))
    assert after(after(whole, max(0, j)), k) == after(whole, max(0, j) + k)


def test_one_step_is_the_mechanism_it_says():
    assert STEPS[0] == PoissonSampled(sample_rate=0.1, event=Gaussian(noise_multiplier=1.0))
    choice = ExponentialMechanism(epsilon=0.3, adjacency="add-remove")
    both = Composed(events=(Gaussian(noise_multiplier=1.0), choice))
    assert STEPS[3] == PoissonSampled(sample_rate=0.1, event=both)
    assert STEPS[4] == NonPrivate()
    assert sampled_step([1e20], sample_rate=1e-20) == sampled_step([1e10], sample_rate=1e-9)


@parametrize("noises", [(3.0, 1.0), (2.0, 2.0), (0.5, 7.0, 1.3)])
def test_independent_releases_are_one_with_the_combined_noise(noises):
    exact = math.fsum(z**-2.0 for z in noises) ** -0.5
    assert exact * (1.0 - 1e-14) <= combined(noises) <= exact
    apart = PoissonSampled(sample_rate=0.2, event=Composed(events=tuple(Gaussian(noise_multiplier=z) for z in noises)))
    made, other = (
        privacy_epsilon(event=SelfComposed(event=one, count=20), delta=1e-3, adjacency="add-remove")
        for one in (sampled_step(noises, sample_rate=0.2), apart)
    )
    assert made.upper == near(other.upper, rel=1e-6)
    assert combined((1.0, 0.0)) == 0.0


M = mechanism(noise_multiplier=1.0, steps=5)
DECAYING = replace(M, noise_multiplier=DECAY)


def people():
    return torch.arange(40) // 4


def run_of(name, noise=DECAY, **changes):
    """A sound algorithm with fields replaced, and its mechanism, whose noise decays where it gives any."""
    algorithm, numbers, build = SOUND[name]
    numbers = numbers if algorithm.FIXES_NOISE else replace(numbers, noise_multiplier=noise)
    return replace(algorithm, **changes), numbers, build, people() if algorithm.by_person else None


RUNS = {name: run_of(name) for name in SOUND} | {
    "without noise": run_of("DP-SGD", noise=0.0),
    "noise that ends": run_of("DP-SGD", noise=lambda t: 2.5 - 0.5 * t),
    "gradient slot, a table": run_of("gradient slot", step_size=Table(values=(0.6, 0.5, 0.4, 0.3, 0.2, 0.1))),
    "tempered, decaying": run_of("tempered", step_size=DECAY, temperature=0.01),
    "P3SGD, three scales": run_of("P3SGD", noise_scales=(3.0, 1.0, 2.0)),
    "P3SGD, no choice": run_of("P3SGD", noise_scales=(2.0,)),
}


@every_case("name", RUNS)
def test_a_run_s_event_is_what_was_promised(name, monkeypatch):
    left_out(monkeypatch, "loop.require_apart", "step.set_up.disagreement")
    algorithm, numbers, build, persons = RUNS[name]
    run = train(algorithm, build(), data(), mechanism=numbers, loss=cross_entropy, people=persons,
                randomness=SeededRandomness(1))  # fmt: skip
    whole = algorithm.promise(numbers, 6)
    assert run.event == whole
    assert steps_of(whole) == 6
    assert [algorithm.promise(numbers, k) for k in (0, 2, 6)] == [first(whole, k) for k in (0, 2, 6)]


class Forgetful(DPSGD):
    """Asked about later steps, it tells the price of the first ones, whose noise is larger."""

    def promise(self, mechanism, steps):
        return planned(mechanism.noise_multiplier, sample_rate=mechanism.sample_rate, steps=steps)


@parametrize("every", [1, 2, 7])
def test_a_ledger_is_told_of_the_very_steps_that_releases_are_held_against(every, tmp_path):
    book = Ledger.open(tmp_path / "ledger")
    files = {"checkpoint": tmp_path / "run", "checkpoint_every": every}
    run = train(Forgetful(learning_rate=0.1), mlp(), data(), mechanism=DECAYING, loss=cross_entropy, ledger=book,
                **files)  # fmt: skip
    entries = [one.stretch for one in Ledger.load(book.folder).entries]
    assert [one.first for one in entries] == list(range(1, 6, every))
    assert joined(*(one.event for one in entries)) == run.event


def test_the_plan_of_a_schedule_is_the_promise():
    algorithm, numbers, *_ = RUNS["DP-SGD"]
    assert planned(DECAY, sample_rate=0.25, steps=5) == algorithm.promise(numbers, 5)
    assert planned(DECAY, sample_rate=0.25, steps=5, done=2) == after(algorithm.promise(numbers, 5), 2)
    assert planned(DECAY, sample_rate=0.25, steps=5, done=5) is None


class Quieter(DPSGD):
    """Promises its noise and releases with half of it."""

    def update(self, step):
        step.release(0.5 * self.noise_at(step.number, step.mechanism))
        return 0


class Late(DPSGD):
    """Keeps its promise until the third step."""

    def update(self, step):
        if step.number == 2:
            step.release(5.0)
        return DPSGD.update(self, step)


class Twice(DPSGD):
    """Releases the sum a second time, with noise of its own."""

    def update(self, step):
        step.release(self.noise_at(step.number, step.mechanism))
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


class Cheaper(P3SGD):
    """Draws independent candidates, which are promised as nested."""

    def candidates(self, step):
        return [step.release(z) for z in self.noise_scales]


@parametrize(("kind", "ran"), [(Twice, 0), (Quieter, 0), (Late, 2)])
def test_a_step_that_releases_something_else_ends_the_run(kind, ran):
    seen = []
    liar = kind(learning_rate=0.1)
    with refusal(rf"step {ran + 1} released .* was promised", RuntimeError):
        train(liar, mlp(), data(), mechanism=M, loss=cross_entropy, progress=lambda p: seen.append(p.step))
    assert seen == list(range(1, ran + 1))


def test_a_second_choice_independent_candidates_and_no_release_end_the_run():
    with refusal("one number for each release, got none"):
        train(Silent(learning_rate=0.1), mlp(), data(), mechanism=M, loss=cross_entropy)
    for kind, more in ((Choosing, {}), (Cheaper, {"nested": True})):
        liar, numbers = kind(noise_scales=(3.0, 1.0), **more), replace(M, noise_multiplier=None)
        with refusal("was promised", RuntimeError):
            train(liar, mlp(), data(), mechanism=numbers, people=people(), loss=cross_entropy)
