"""Faulty computations are caught by their certificates, sound ones are not, and the code refuses the fault."""

import numpy as np
import pytest
import torch

from pacdp.certify import BoundSet
from pacdp.data.errors import DataError
from pacdp.data.rows import Rows, require_apart, require_plain
from pacdp.losses import Loss
from tests.coverage.harness import LEVEL, Entry, run
from tests.planted.faults import FAULTS

pytestmark = pytest.mark.every_case
every_fault = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)


@every_fault
def test_the_fault_is_caught_and_the_sound_computation_is_not(fault):
    (faulty,) = run(Entry(fault.name, fault.faulty, (fault.world,)), 2000)
    (sound,) = run(Entry(fault.name, fault.sound, (fault.world,)), 2000)
    assert faulty.p_value < LEVEL
    assert sound.p_value > 1e-3


def rows(inputs):
    return Rows.of(inputs, np.zeros(len(inputs)))


def copies_are_refused():
    inputs = np.random.default_rng(0).normal(size=(200, 3))
    require_plain(rows(inputs))
    with pytest.raises(DataError):
        require_plain(rows(np.concatenate([inputs, inputs])))


def a_reduced_loss_is_refused():
    loss = Loss(name="mean of squares", low=0.0, high=1.0, function=lambda logits, _: (logits**2).mean())
    with pytest.raises(ValueError, match="mean of squares"):
        loss(torch.zeros(8, 2), torch.zeros(8, dtype=torch.int64))


def people_are_what_a_bound_set_counts():
    labels = torch.zeros(60, dtype=torch.int64)
    data = BoundSet(inputs=torch.randn(60, 3), labels=labels, people=np.repeat(np.arange(12), 5))
    assert (data.units, data.unit) == (12, "person")


def rows_of_the_prior_are_refused():
    inputs = np.random.default_rng(0).normal(size=(200, 3))
    require_apart(rows(inputs[:100]), rows(inputs[100:]))
    with pytest.raises(DataError):
        require_apart(rows(inputs[:100]), rows(inputs[99:]))


# For every fault, what in pacdp refuses it. A new fault needs its line.
REFUSED = {
    "n counts copies": copies_are_refused,
    "loss reduced over the batch": a_reduced_loss_is_refused,
    "people counted as examples": people_are_what_a_bound_set_counts,
    "prior rows in the bound set": rows_of_the_prior_are_refused,
}


@every_fault
def test_the_code_refuses_the_fault(fault):
    REFUSED[fault.name]()
