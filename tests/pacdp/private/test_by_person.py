"""Algorithms whose unit is a person: people are clipped whole, whoever else is there, and pay for what they release."""

import math

import torch
from clipped_networks import branching
from private_toys import (
    DECAY,
    RECORDS,
    cnn,
    cross_entropy,
    data,
    flat,
    mlp,
    moved_by_sgd,
    of_people,
    p3sgd,
    patients,
    records,
    scale_is_this_and_no_other,
    trained,
)
from torch.autograd import grad
from torch.testing import assert_close
from torch.utils.data import Subset, TensorDataset

from pacdp.private import DPSGD, UserDPSGD
from tests.marks import every_case, left_out, slow

CLIP = 0.5
PEOPLE = len(RECORDS)


def silent(name, *, records_at_once=0, learning_rate=None, **changes):
    """Settings and a mechanism of one step on all people, (almost) without noise."""
    changes = {"steps": 1, "sample_rate": 1.0, **changes}
    if name == "P3SGD":
        return p3sgd(1e-13, learning_rate=learning_rate or 0.2), of_people(noise_multiplier=None, **changes)
    algorithm = UserDPSGD(learning_rate=learning_rate or 0.3, records_at_once=records_at_once)
    return algorithm, of_people(noise_multiplier=0.0, **changes)


def run_of(algorithm, module=None, dataset=None, **options):
    return trained(algorithm, module, dataset or data(sum(RECORDS)), **{"people": patients(), **options})


def released_sum(name, module, dataset=None, ids=None, **changes):
    """What one step (almost) without noise releases of all people."""
    (algorithm, quiet), seen = silent(name, **changes), []
    people = patients() if ids is None else ids
    run_of(algorithm, module, dataset or records(), mechanism=quiet, people=people,
           watch=lambda one: seen.append(flat(one)))  # fmt: skip
    return seen[0]


def gradient_by_hand(module, x, y):
    """Of all records of a person."""
    return flat(dict(enumerate(grad(cross_entropy(module(x), y).sum(), list(module.parameters())))))


BY_HAND = {"user level": gradient_by_hand, "P3SGD": moved_by_sgd}


def sum_by_hand(name, module, clip_norm=CLIP):
    """Of contributions that are made and clipped person by person; the shortest of them, and the longest."""
    ids, (x, y) = patients(), records().tensors
    rows = torch.stack([BY_HAND[name](module, x[ids == i], y[ids == i]) for i in range(PEOPLE)])
    norms = rows.norm(dim=1, keepdim=True)
    return ((rows * (clip_norm / norms).clamp(max=1.0)).sum(0), float(norms.min()), float(norms.max()))


@every_case(
    ("name", "network"),
    [("user level", cnn), ("P3SGD", mlp), slow("user level", mlp), slow("P3SGD", cnn)],
)  # fmt: skip
def test_the_sum_is_that_of_whole_people_however_it_is_made(name, network, monkeypatch):
    module = network().double()
    expected, _, longest = sum_by_hand(name, module)
    assert longest > CLIP
    ways = [{}, {"max_physical_batch": 2}]
    if name == "user level":
        ways += [{"records_at_once": 2}, {"records_at_once": 5}]
    for _ in range(2):
        for changes in ways:
            made = released_sum(name, module, **changes)
            assert_close(made, expected, atol=1e-10, rtol=1e-10)
        left_out(monkeypatch, "step.set_up.runs_at_once")  # then one after the other
    loose = released_sum(name, module, clip_norm=1e3)
    assert_close(loose, sum_by_hand(name, module, 1e3)[0], atol=1e-9, rtol=1e-10)


def test_networks_that_cannot_run_side_by_side_run_one_after_the_other():
    module = branching().double()
    expected = sum_by_hand("user level", module)[0]
    assert_close(released_sum("user level", module), expected, atol=1e-10, rtol=1e-10)


def without(dataset, person):
    keep = patients() != person
    return TensorDataset(*(t[keep] for t in dataset.tensors)), patients()[keep]


@every_case(
    ("name", "scale"),
    [("user level", 1e6), ("user level", math.nan), ("P3SGD", 1e6), ("P3SGD", math.inf),
     slow("user level", 1e-4), slow("user level", 1e300), slow("user level", math.inf),
     slow("P3SGD", 1e-4), slow("P3SGD", 1e300), slow("P3SGD", math.nan)],
)  # fmt: skip
def test_a_person_moves_the_sum_by_at_most_the_clipping_norm(name, scale, monkeypatch):
    """All records of the person removed: C. Replaced by others: 2C."""
    module, usual, largest = mlp().double(), records(), 0.0
    options = {"learning_rate": 1.0}
    if scale in (1e-4, math.inf):
        left_out(monkeypatch, "step.set_up.runs_at_once")  # then one after the other
    before = released_sum(name, module, **options)
    for person in (0, 4):  # of one record, and of twelve
        inputs, own = usual.tensors[0].clone(), patients() == person
        inputs[own] = scale * (inputs[own].abs() + 0.5)
        whole = released_sum(name, module, TensorDataset(inputs, usual.tensors[1]), **options)
        removed = released_sum(name, module, *without(usual, person), **options)
        assert torch.isfinite(whole).all()
        largest = max(largest, float((whole - removed).norm()))
        assert float((whole - before).norm()) <= 2.0 * CLIP + 1e-11
        if not math.isfinite(scale):
            assert_close(whole, removed, atol=1e-11, rtol=0.0)
    assert largest <= CLIP + 1e-11
    assert largest > 0.99 * CLIP or scale != 1e6


def test_one_nan_record_silences_its_person_alone():
    module, dataset = mlp().double(), records()
    removed = released_sum("user level", module, *without(dataset, 4))
    dataset.tensors[0][(patients() == 4).nonzero()[-1]] = math.nan
    assert_close(released_sum("user level", module, dataset), removed, atol=1e-12, rtol=0.0)


def test_a_record_that_stands_several_times_may_be_one_person_s():
    owners, places = patients(), [*range(sum(RECORDS)), 2, 2]
    again, people = Subset(data(sum(RECORDS)), places), owners[places]
    assert run_of(UserDPSGD(learning_rate=0.1), dataset=again, people=people, mechanism=of_people()).event is not None


def test_people_of_one_record_make_it_plain_dp_sgd():
    plain, ours = (
        trained(kind(learning_rate=0.3), mechanism=of_people(noise_multiplier=DECAY), seed=4, **people)
        for kind, people in ((DPSGD, {}), (UserDPSGD, {"people": torch.arange(40)}))
    )
    assert_close(flat(ours.weights), flat(plain.weights), atol=1e-6, rtol=1e-5)
    assert ours.event == plain.event


def test_noise_has_the_scale_that_is_accounted_on_empty_samples_too():
    algorithm, numbers, sizes, sums = UserDPSGD(), of_people(sample_rate=1e-12, steps=400), [], []
    run = run_of(algorithm, mlp().double(), records(), mechanism=numbers, watch=lambda one: sums.append(flat(one)),
                 progress=lambda p: sizes.append(p.private_units))  # fmt: skip
    assert sizes == [0] * 400
    assert run.event == algorithm.promise(numbers, 400)
    assert scale_is_this_and_no_other(torch.stack(sums), 1.3 * CLIP)
