"""A data set of bytes is the data set of their numbers, whatever is asked of it."""

import pickle

import numpy as np
import pytest
from numpy import array_equal
from numpy.random import default_rng
from torch import equal

from pacdp.chains import Keys
from pacdp.data import Dataset, Split, index_hash, randomise
from pacdp.models import Architecture
from pacdp.objective import Objective
from pacdp.problem import Problem
from tests.marks import parametrize, refusal
from tests.pacdp.toys import seeded

BYTES = default_rng(3).integers(0, 256, (2100, 1, 6, 6), dtype=np.uint8)
BYTES[default_rng(4).random(BYTES.shape) < 0.8] = 0
LABELS = np.arange(2100, dtype=np.int64) % 3
PEOPLE = np.arange(2100, dtype=np.int64) // 2


def both(**more):
    numbers = np.divide(BYTES, 255, dtype=np.float32)
    return Dataset.of_pixels("odd", BYTES, LABELS, 3, **more), Dataset("odd", numbers, LABELS, 3, **more)


def same(one, other):
    for name in ("name", "n", "units", "shape", "hash", "people_hash"):
        assert getattr(one, name) == getattr(other, name)
    assert array_equal(one.inputs, other.inputs)
    assert one.inputs.dtype == np.float32
    assert not one.inputs.flags.writeable


def test_bytes_and_numbers_are_one_data_set():
    people = {"people": PEOPLE, "unit": "writer"}
    same(*both(**people))
    places = np.arange(5, 1500, 7)
    part = Split(places, index_hash(places))
    same(*(one.subset(part) for one in both(**people)))
    same(*(randomise(one, fraction=0.5, seed=1) for one in both()))
    same(*(one.renamed("other", people=PEOPLE, unit="writer") for one in both()))
    assert pickle.loads(pickle.dumps(both()[0])).hash == both()[1].hash  # noqa: S301


def test_hashes_and_blocks_make_no_numbers_that_stay():
    data = both()[0]
    assert data.hash
    assert sum(map(len, data.blocks())) == data.n
    with pytest.raises(AttributeError):
        object.__getattribute__(data, "inputs")
    with refusal("no attribute 'other'", AttributeError):
        data.other  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


@parametrize("hidden", [(20,), ()])
def test_an_objective_on_bytes_has_the_bits_of_one_on_numbers(hidden):
    problem, made = Problem(architecture=Architecture(name="fc", hidden=hidden)), list[Objective]()
    for data, in_bytes in zip(both(), (True, False), strict=True):
        generator = seeded(0)
        made.append(problem.objective(data, generator=generator, batch_size=40, in_bytes=in_bytes))
    small, large = made
    assert small.pixels is not None
    assert large.pixels is None
    weights = small.weights()
    keys = Keys.derive([3], purpose=1)
    one, other = (each.estimate(weights, keys, 5) for each in made)
    assert equal(one.gradient, other.gradient)
    assert (one.loss.tolist(), one.error.tolist()) == (other.loss.tolist(), other.error.tolist())
    assert equal(small.logits(weights[0]), large.logits(weights[0]))
