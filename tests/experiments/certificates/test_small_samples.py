"""Draws of few records: halves and test are other people's, and one image each makes images the records."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.runs.small_samples import SmallConfig, sample
from pacdp.data import load

CONFIG = SmallConfig(dataset="digits", features="coarse-gradients", n=10)


@pytest.fixture
def of_people(monkeypatch):
    train, test = load("digits")
    train = replace(train, people=np.arange(train.n) // 20, unit="writer")
    monkeypatch.setattr("experiments.runs.small_samples.load", lambda name, root: (train, test))
    return train


def people(part):
    return set(part.people.tolist())


def test_no_person_is_in_two_parts(of_people):
    drawn = sample(CONFIG)
    first, second, test = people(drawn.first), people(drawn.second), people(drawn.test)
    assert (len(first), len(second)) == (5, 5)
    assert people(drawn.data) == first | second
    assert not first & second
    assert not test & people(drawn.data)
    assert len(test) == of_people.units - 10
    assert drawn.data.units == 10
    assert drawn.data.n == 200


def test_one_image_of_each_person_makes_images_the_records(of_people):
    drawn = sample(replace(CONFIG, one_each=True))
    assert (drawn.data.n, drawn.first.n, drawn.second.n) == (10, 5, 5)
    assert drawn.data.people is None


def test_another_seed_draws_others():
    one, other = (sample(replace(CONFIG, seed=seed)) for seed in (0, 1))
    assert one.data.rows.digest != other.data.rows.digest
    assert not set(map(bytes, one.first.inputs.numpy())) & set(map(bytes, one.second.inputs.numpy()))
