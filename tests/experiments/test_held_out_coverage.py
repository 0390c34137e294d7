"""How often the certificate of the whole recipe is wrong where the truth is known; planted faults must show."""

from dataclasses import replace

import pytest
from held_out_worlds import (
    FAILURE_PROB,
    SOUND,
    World,
    examples_counted_twice,
    forgotten,
    one_draw_without_slack,
    same_examples,
    violations,
)
from scipy import stats

from tests.marks import parametrize, slow

LEARNABLE = World(cells=30, n=160, noise=0.2, epochs=6, std=0.3)
MEMORISING = World(cells=400, n=240, noise=0.5, epochs=30, std=0.3)
ONE_CELL = World(cells=1, n=120, noise=0.1, epochs=1, std=5.0, steps=0)
OVERFITTING = World(cells=5000, n=5000, noise=0.5, epochs=1, std=20.0, steps=0, memorise=0.45, passes=60)


def too_often(found, repetitions):
    """Probability of so many violations or more if the certificate fails as often as it may."""
    return float(stats.binom.sf(found - 1, repetitions, FAILURE_PROB))


@parametrize(
    ("world", "fault", "repetitions"),
    [
        pytest.param(MEMORISING, {"split": same_examples, "provenance": forgotten}, 25, id="overlap"),
        pytest.param(ONE_CELL, {"certify": one_draw_without_slack}, 60, id="one draw"),
        slow(OVERFITTING, {"certify": examples_counted_twice}, 6, id="n"),
    ],
)
def test_a_planted_fault_shows(world, fault, repetitions, whole):
    if world is MEMORISING and not whole:
        world, repetitions = replace(world, epochs=10), 6
    assert too_often(violations(world, SOUND._replace(**fault), repetitions=repetitions), repetitions) < 1e-4
    assert violations(world, SOUND, repetitions=3 if whole else 1) == 0


@pytest.mark.slow
@parametrize("world", [LEARNABLE, MEMORISING, ONE_CELL], ids=["learnable", "memorising", "one cell"])
def test_coverage(world):
    assert violations(world, SOUND, repetitions=200) <= 200 * FAILURE_PROB
