"""Steps on fixed memory, without a GPU: what they refuse, and what they hold on to."""

import gc
import weakref
from typing import NamedTuple

import numpy as np
import torch
from numpy import array_equal
from torch.utils._python_dispatch import TorchDispatchMode
from toys import keys_of, toy_data, toy_objective

from pacdp.algorithms import SGLD, build
from pacdp.chains import Replayed
from tests.marks import refusal

KEYS = keys_of(1, 2, 3)


def replayed(**settings):
    """Steps of three chains, and their first state."""
    objective = toy_objective(toy_data(n=60), batch_size=10, batching="vmap", **settings)
    sampler = build([SGLD(tau=38.0, batch_size=10, **settings)] * 3, objective)
    return Replayed(sampler, KEYS), sampler.init(objective.weights().repeat(3, 1)), objective


def test_states_and_settings_of_another_shape_or_type_are_refused(monkeypatch):
    steps, state, _ = replayed()
    state, _ = steps.step(state, KEYS)
    for change in (lambda w: w[:1], lambda w: w.double()):
        with refusal("as the steps were recorded with"):
            steps.step(state._replace(weights=change(state.weights)), KEYS)
    own = steps._sampler.coefficients

    def fewer(step):
        return {k: v[:1] if isinstance(v, np.ndarray) and v.size == 3 else v for k, v in own(step).items()}

    assert any(len(fewer(1)[k]) < v.size for k, v in own(1).items() if isinstance(v, np.ndarray))
    monkeypatch.setattr(steps, "_sampler", Other(steps._sampler.transition, fewer))
    with refusal("as the steps were recorded with"):
        steps.step(state, KEYS)


def test_memory_that_a_step_writes_to_outlives_what_others_ask_of_the_objective():
    """A recorded step goes on to write there, whatever shapes the objective meets in between."""
    steps, state, objective = replayed()
    state, _ = steps.step(state, KEYS)
    written = weakref.ref(objective._gradient.untyped_storage())
    objective.estimate(objective.weights(), keys_of(1), 0)
    gc.collect()
    assert written() is not None
    del steps
    gc.collect()
    assert written() is None  # no longer than it is needed


class Other(NamedTuple):
    """A sampler with other settings."""

    transition: object
    coefficients: object


class Copies(TorchDispatchMode):
    """How often a vector of float64 is copied."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.count += operation._schema.name == "aten::copy_" and args[1].dtype == torch.float64
        return operation(*args, **(kwargs or {}))


def test_settings_are_copied_where_they_changed():
    steps, state, _ = replayed()
    own = steps._sampler.coefficients
    changing = np.full(3, 0.1)

    def at(step):
        changing[:] = 0.1 * (step // 2)  # in place, in every second step
        return {**own(0), "rate": changing}

    steps._sampler = Other(steps._sampler.transition, at)
    state, _ = steps.step(state, KEYS)
    for expected in (0, 1, 0, 1):
        with Copies() as seen:
            state, _ = steps.step(state, KEYS)
        assert seen.count == expected
        assert array_equal(steps._recording.numbers["rate"].numpy(), changing)
