"""A budget is never overspent, whatever the schedule, and however often the run is interrupted."""

import tempfile
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from private_toys import cross_entropy, data, mechanism, mlp

from pacdp.errors import CheckpointError
from pacdp.private import (
    DPSGD,
    PrivacyBudget,
    SeededRandomness,
    Table,
    calibrated,
    epsilon,
    first,
    joined,
    planned,
    steps_of,
    train,
)
from pacdp.step.release import PrivateStep

DELTA = 1e-3
SIGMAS = st.lists(st.sampled_from([0.7, 0.9, 1.3, 2.0, 4.0]), min_size=3, max_size=9)


def budget(at, **changes):
    return PrivacyBudget(**{"epsilon": at, "delta": DELTA, "adjacency": "add-remove", **changes})


@cache
def spent(history, adjacency="add-remove"):
    return epsilon(history, delta=DELTA, adjacency=adjacency)


def algorithm(sigmas, **changes):
    return DPSGD(mechanism=mechanism(steps=len(sigmas), **changes), noise_multiplier=Table(values=tuple(sigmas)),
                 learning_rate=0.1)  # fmt: skip


class Interrupted(Exception):
    pass


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    sigmas=SIGMAS, share=st.floats(0.15, 1.2), rate=st.sampled_from([0.1, 0.5]), every=st.integers(1, 3),
    adjacency=st.sampled_from(["add-remove", "replace-one"]),
    stops=st.lists(st.integers(1, 9), max_size=3),
)  # fmt: skip
def test_a_budget_is_never_overspent(sigmas, share, rate, every, adjacency, stops):
    plan = planned(Table(values=tuple(sigmas)), sample_rate=rate, steps=len(sigmas))
    limit = max(share * spent(plan, adjacency), 1.0001 * spent(first(plan, 1), adjacency))
    settings = algorithm(sigmas, sample_rate=rate, budget=budget(limit, adjacency=adjacency))
    moments, ran, release = [], {}, PrivateStep.release

    def watched(self, noise_multiplier):
        released = release(self, noise_multiplier)
        ran[self.number] = self.event
        moments.append(joined(*(ran[t] for t in range(self.number + 1))))
        return released

    def go(stop):
        def progress(seen):
            if seen.step == stop:
                raise Interrupted

        return train(settings, mlp(), data(20), loss=cross_entropy, checkpoint=path, checkpoint_every=every,
                     progress=progress)  # fmt: skip

    with tempfile.TemporaryDirectory() as folder, patch.object(PrivateStep, "release", watched):
        path = Path(folder) / "run.safetensors"
        for stop in stops:
            try:
                go(stop)
            except Interrupted:
                pass
        run = go(None)
        assert go(None).event == run.event, "a run that ended goes no further"
    assert all(spent(history, adjacency) <= limit for history in [*moments, run.event])
    steps = steps_of(run.event)
    assert run.event == moments[-1] == first(plan, steps)
    assert run.halted == (steps < len(sigmas))
    if run.halted:
        assert spent(first(plan, steps + 1), adjacency) > limit


@settings(max_examples=40, deadline=None, derandomize=True)
@given(sigmas=SIGMAS, before=st.integers(0, 6), limit=st.floats(0.3, 6.0), rate=st.sampled_from([0.05, 0.4, 1.0]))
def test_affordable_steps_are_the_most_and_count_what_ran_before(sigmas, before, limit, rate):
    upcoming = planned(Table(values=tuple(sigmas)), sample_rate=rate, steps=len(sigmas))
    after = planned(2.0, sample_rate=0.2, steps=before)
    steps = budget(limit).affordable_steps(upcoming, after=after)
    assert 0 <= steps <= len(sigmas)
    for t in range(len(sigmas) + 1):
        kept = spent(joined(after, first(upcoming, t))) <= limit
        assert kept == (t <= steps) or (steps == 0 and t == 0)


def test_a_halted_run_is_the_beginning_of_the_whole_one():
    sigmas = [1.0] * 12
    whole = train(algorithm(sigmas[:7]), mlp(), data(), loss=cross_entropy, randomness=SeededRandomness(3))
    limit = budget(epsilon(whole.event, delta=DELTA, adjacency="add-remove"))
    run = train(algorithm(sigmas, budget=limit), mlp(), data(), loss=cross_entropy, randomness=SeededRandomness(3))
    assert run.halted
    assert not whole.halted
    assert run.event == whole.event
    assert all(torch.equal(run.weights[name], whole.weights[name]) for name in whole.weights)


def test_calibrated_noise_uses_its_budget_up():
    question = {"delta": DELTA, "adjacency": "add-remove"}
    noise = calibrated(Table(values=(1.0, 2.0, 3.0)), sample_rate=0.25, steps=3, target_epsilon=1.5, **question)
    assert budget(1.5).affordable_steps(planned(noise, sample_rate=0.25, steps=3)) == 3


def test_what_no_step_keeps_to_is_refused_before_any_work():
    for sigma in (0.5, 0.0):
        with pytest.raises(ValueError, match="first step alone"):
            train(algorithm([sigma] * 3, budget=budget(0.1)), mlp(), data(), loss=cross_entropy)
    for wrong in ({"epsilon": 0.0}, {"epsilon": float("inf")}, {"delta": 0.0}, {"adjacency": "zero-out"}):
        with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
            budget(**{"at": 1.0, **wrong}) if "epsilon" not in wrong else budget(wrong["epsilon"])
    assert budget(1.0).affordable_steps(joined()) == 0


def test_a_checkpoint_keeps_its_budget(tmp_path):
    path = tmp_path / "run.safetensors"
    run = train(algorithm([1.0] * 6, budget=budget(2.0)), mlp(), data(), loss=cross_entropy, checkpoint=path)
    assert run.halted
    with pytest.raises(CheckpointError, match="settings"):
        train(algorithm([1.0] * 6, budget=budget(20.0)), mlp(), data(), loss=cross_entropy, checkpoint=path)
