"""A budget is never overspent, whatever the schedule, and however often the run is interrupted."""

import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from private_toys import Interrupted, data, mechanism, mlp, stopping, trained

from pacdp.private import DPSGD, DPSGLD, PrivacyBudget, Table, epsilon, first, joined, planned, steps_of
from pacdp.step.release import PrivateStep
from tests.marks import every_case, refusal
from tests.pacdp.same import identical

DELTA = 1e-3
WHOLE = settings.default.max_examples > 30
SIGMAS = st.lists(st.sampled_from([0.7, 0.9, 1.3, 2.0, 4.0]), min_size=3, max_size=9)


def budget(at, **changes):
    return PrivacyBudget(**{"epsilon": at, "delta": DELTA, "adjacency": "add-remove", **changes})


@cache
def spent(history, adjacency="add-remove"):
    return epsilon(history, delta=DELTA, adjacency=adjacency)


SGD = DPSGD(learning_rate=0.1)
STEPS = [1.3] * 6
"""A schedule that somebody may write to."""


def noisy(sigmas, **changes):
    return mechanism(noise_multiplier=Table(values=tuple(sigmas)), steps=len(sigmas), **changes)


@pytest.mark.usefixtures("known_network")
@settings(
    max_examples=25 if WHOLE else 3, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(
    sigmas=SIGMAS, share=st.floats(0.15, 1.2), rate=st.sampled_from([0.1, 0.5]), every=st.integers(1, 3),
    adjacency=st.sampled_from(["add-remove", "replace-one"]),
    stops=st.lists(st.integers(1, 9), max_size=3),
)  # fmt: skip
def test_a_budget_is_never_overspent(sigmas, share, rate, every, adjacency, stops):
    plan = planned(Table(values=tuple(sigmas)), sample_rate=rate, steps=len(sigmas))
    limit = max(share * spent(plan, adjacency), 1.0001 * spent(first(plan, 1), adjacency))
    numbers = noisy(sigmas, sample_rate=rate, budget=budget(limit, adjacency=adjacency))
    moments, ran, release = [], {}, PrivateStep.release

    def watched(self, noise_multiplier):
        released = release(self, noise_multiplier)
        ran[self.number] = self.event
        moments.append(joined(*(ran[t] for t in range(self.number + 1))))
        return released

    def go(stop):
        return trained(SGD, mlp(), data(20), mechanism=numbers, randomness=None, checkpoint=path,
                       checkpoint_every=every, progress=stopping(stop))  # fmt: skip

    with tempfile.TemporaryDirectory() as folder, patch.object(PrivateStep, "release", watched):
        path = Path(folder) / "run.safetensors"
        for stop in stops:
            with suppress(Interrupted):
                go(stop)
        run = go(None)
        assert go(None).event == run.event, "a run that ended goes no further"
    assert all(spent(history, adjacency) <= limit for history in [*moments, run.event])
    steps = steps_of(run.event)
    assert run.event == moments[-1] == first(plan, steps)
    assert run.halted == (steps < len(sigmas))
    if run.halted:
        assert spent(first(plan, steps + 1), adjacency) > limit


@settings(max_examples=40 if WHOLE else 5)
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
    sigmas = [1.0] * 6
    whole = trained(SGD, mechanism=noisy(sigmas[:4]))
    run = trained(SGD, mechanism=noisy(sigmas, budget=budget(spent(whole.event))))
    assert (run.halted, whole.halted) == (True, False)
    assert run.event == whole.event
    assert identical(run.weights, whole.weights)


@every_case("algorithm", [SGD, DPSGLD(convention="tempered", step_size=lambda t: STEPS[t])])
def test_noise_that_a_schedule_changes_while_training_is_refused_before_it_is_drawn(algorithm):
    own = {} if algorithm.FIXES_NOISE else {"noise_multiplier": lambda t: STEPS[t]}
    numbers, seen = mechanism(**{"noise_multiplier": None, **own}), []

    def plateau(progress):
        seen.append(progress.step)
        STEPS[progress.step - 1] = 9.0  # of a step that is past, which changes nothing
        if progress.step == 3:
            STEPS[4] *= 0.5

    STEPS[:] = [1.3] * 6
    with refusal("step 5 would now release .* promised and counted before the first step"):
        trained(algorithm, mechanism=numbers, progress=plateau)
    assert seen == [1, 2, 3, 4]
    STEPS[:] = [1.3] * 6
    assert steps_of(trained(algorithm, mechanism=numbers).event) == 6
