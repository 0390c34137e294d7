"""What a run pays for its number of steps, and that a choice of the moment which is not paid for shows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from pacdp.step.planned_steps import Plan, charged_steps

LISTS = st.sets(st.integers(1, 300), min_size=1, max_size=12).map(lambda found: tuple(sorted(found)))


@given(st.integers(1, 10**6).flatmap(lambda steps: st.tuples(st.just(steps), st.integers(0, steps))))
def test_all_planned_steps_are_paid_for_whatever_was_made(numbers):
    steps, made = numbers
    found = Plan(steps=steps).charged(made)
    assert (found.steps, found.stopping_times) == (steps, 1)
    assert found.hypothesis.name == "steps fixed beforehand"
    assert found.hypothesis.standing == ("proved" if made == steps else "declared")
    assert str(made) in found.hypothesis.by


@given(LISTS, st.data())
def test_listed_steps_are_paid_for_as_made_and_shared(listed, data):
    plan = Plan(steps=listed[-1], stopping="listed", listed=listed)
    made = data.draw(st.integers(0, listed[-1]))
    found = plan.charged(made)
    assert found.stopping_times == len(listed)
    assert made <= found.steps == min(one for one in listed if one >= made)
    assert found.hypothesis.standing == ("proved" if made in listed else "declared")


def test_without_a_plan_nothing_is_shown():
    found = charged_steps(None, 5)
    assert (found.steps, found.stopping_times, found.hypothesis.standing) == (5, 1, "unproved")
    assert charged_steps(Plan(steps=9), 5) == Plan(steps=9).charged(5)


def test_a_moment_chosen_by_errors_on_the_counted_examples_needs_the_list():
    """A chain that ignores its n examples: its m released networks are right by coin tosses.

    Each network has a risk of one half, so that its errors are binomial. Hoeffding's bound at 1/10 holds for each of
    them, fails far more often for the one with fewest errors, and holds for that one at 1/10 over m.
    """
    n, times, worlds, failure_prob = 100, 20, 4000, 0.1
    errors = default_rng(0).binomial(n, 0.5, size=(worlds, times)) / n

    def fails(risk, share):
        return float((risk + np.sqrt(np.log(1 / share) / (2 * n)) < 0.5).mean())

    plan = Plan(steps=times, stopping="listed", listed=tuple(range(1, times + 1)))
    share = failure_prob / plan.charged(3).stopping_times
    chosen = errors.min(axis=1)
    assert fails(errors[:, -1], failure_prob) <= failure_prob
    assert fails(chosen, failure_prob) > 2 * failure_prob
    assert 0 < fails(chosen, share) <= failure_prob
