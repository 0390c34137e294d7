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
    only_the_risk,
    same_examples,
    violations,
)
from scipy import stats

LEARNABLE = World(cells=30, n=160, noise=0.2, epochs=6, std=0.3)
MEMORISING = World(cells=400, n=240, noise=0.5, epochs=30, std=0.3)
ONE_CELL = World(cells=1, n=120, noise=0.1, epochs=1, std=5.0, steps=0)
OVERFITTING = World(cells=4000, n=1600, noise=0.5, epochs=1, std=0.3, objective=only_the_risk, step_size=0.05)


def too_often(found: int, repetitions: int) -> float:
    """Probability of so many violations or more if the certificate fails as often as it may."""
    return float(stats.binom.sf(found - 1, repetitions, FAILURE_PROB))


FAULTS = {
    "prior saw the bound's examples": (MEMORISING, replace(SOUND, split=same_examples, provenance=forgotten), 25),
    "one draw, no slack": (ONE_CELL, replace(SOUND, certify=one_draw_without_slack), 60),
    "examples counted twice": (OVERFITTING, replace(SOUND, certify=examples_counted_twice), 12),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_shows(name):
    world, steps, repetitions = FAULTS[name]
    assert too_often(violations(world, steps, repetitions=repetitions), repetitions) < 1e-4
    assert too_often(violations(world, SOUND, repetitions=8), 8) > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("world", [LEARNABLE, MEMORISING, ONE_CELL], ids=["learnable", "memorising", "one cell"])
def test_coverage(world):
    assert violations(world, SOUND, repetitions=200) <= 200 * FAILURE_PROB
