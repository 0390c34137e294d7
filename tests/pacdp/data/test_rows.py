"""Rows: what overlaps, whatever the order and the labels; and what is refused, with counts."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from data_tools import law
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError

from pacdp.data import DataError, Rows, load, require_apart, require_covers, require_plain

DRAW = np.random.default_rng(0)
INPUTS = DRAW.normal(size=(60, 1, 4, 4)).astype(np.float32)
LABELS = DRAW.integers(0, 10, 60)
PEOPLE = np.arange(60) // 5
ALL = Rows.of(INPUTS, LABELS)
SECRET = bytes(range(16))


def part(rows: object, *, people: bool = False, labels: np.ndarray = LABELS) -> Rows:
    return Rows.of(INPUTS[rows], labels[rows], PEOPLE[rows] if people else None)  # type: ignore[index]


indices = st.lists(st.integers(0, 59), min_size=1, max_size=80)


@law
@given(a=indices, b=indices, people=st.booleans(), seed=st.integers(0, 99))
def test_sets_of_indices_and_of_hashes_agree(a: list[int], b: list[int], people: bool, seed: int) -> None:
    one, two = part(a, people=people), part(b, people=people)
    assert one.n == len(a)
    assert one.people == (len({k // 5 for k in a}) if people else None)
    assert one.duplicates == len(a) - len(set(a))
    assert one.repeats == (0 if people else one.duplicates)
    assert one.shared(two) == two.shared(one) == one.shared_inputs(two) == len({*a} & {*b})
    assert one.shared_people(two) == (len({k // 5 for k in a} & {k // 5 for k in b}) if people else 0)
    assert one.missing_from(two) == len({*a} - {*b})
    assert one.subset_of(two) == ({*a} <= {*b})
    # neither order matters
    shuffled = np.random.default_rng(seed).permutation(a)
    assert part(shuffled, people=people).digest == one.digest
    assert (one.digest == two.digest) == (sorted(a) == sorted(b))
    # a union is one of multisets
    most = [k for k in {*a} | {*b} for _ in range(max(a.count(k), b.count(k)))]
    assert one.union(two).digest == two.union(one).digest == part(most, people=people).digest
    assert one.union(one).digest == one.union().digest == one.digest


def test_people_are_in_the_digest_and_in_the_union_only_if_all_know_them() -> None:
    known = part(np.arange(60), people=True)
    assert known.digest != ALL.digest
    assert known.digest != Rows.of(INPUTS, LABELS, PEOPLE + 1).digest
    assert known.union(ALL).digest == ALL.union(known).digest == ALL.digest
    assert known.summary() == {"digest": known.digest, "n": 60, "people": 12}
    assert ALL.summary()["people"] is None


def test_arrays_and_tensors_agree() -> None:
    same = Rows.of(torch.tensor(INPUTS), torch.tensor(LABELS), torch.tensor(PEOPLE, dtype=torch.int32))
    assert same.digest == part(np.arange(60), people=True).digest
    assert Rows.of(INPUTS.reshape(60, 16).astype(np.float64), LABELS.astype(np.uint8)).digest == ALL.digest


def test_people_of_large_numbers_agree_in_every_format() -> None:
    large = PEOPLE + 2**30 + 1
    digests = {Rows.of(INPUTS, LABELS, large.astype(dtype)).digest for dtype in ("i4", "u4", "i8")}
    assert len(digests) == 1


@pytest.mark.parametrize("bit", [0, 22, 31])
def test_a_flipped_bit_and_a_changed_label_are_seen(bit: int) -> None:
    flipped = INPUTS.copy()
    flipped.reshape(60, 16).view(np.uint32)[7, 3] ^= np.uint32(1 << bit)
    assert (ALL.shared(Rows.of(flipped, LABELS)), ALL.shared_inputs(Rows.of(flipped, LABELS))) == (59, 59)
    labels = LABELS.copy()
    labels[7] += 1
    assert (ALL.shared(Rows.of(INPUTS, labels)), ALL.shared_inputs(Rows.of(INPUTS, labels))) == (59, 60)


# the cases of finding C5


def test_the_bounds_rows_shuffled_as_a_test_set() -> None:
    order = np.random.default_rng(3).permutation(60)
    with pytest.raises(DataError, match=r"the test set's rows and the bound's rows share 60 examples: leave these"):
        require_apart(part(order), ALL, ("the test set's rows", "the bound's rows"))
    require_apart(part(slice(30)), part(slice(30, 60)))


def test_prior_rows_under_other_indices() -> None:
    # the bound's places 30 ... 59 of one file are the prior's 0 ... 29 of another: values tell, indices do not
    other = np.roll(np.arange(60), 30)
    prior = Rows.of(INPUTS[other][:30], LABELS[other][:30])
    with pytest.raises(DataError, match="the prior's rows and the bound's rows share 30 examples: "):
        require_apart(prior, part(slice(30, 60)), ("the prior's rows", "the bound's rows"))


def test_relabelled_copies_and_people() -> None:
    labels = LABELS.copy()
    labels[10:13] += 1
    one, two = part(slice(0, 20), people=True), part(slice(10, 30), people=True, labels=labels)
    with pytest.raises(DataError, match="share 7 examples, 3 more inputs under another label and 2 people: "):
        require_apart(one, two)
    with pytest.raises(DataError, match="share 3 inputs under another label and 1 person: "):
        require_apart(part(slice(10, 13), people=True), part(slice(10, 13), people=True, labels=labels))
    with pytest.raises(DataError, match="share 1 person: "):
        require_apart(part(slice(0, 2), people=True), part(slice(2, 5), people=True))
    # an input that both have under both labels is no further one
    both = Rows.of(INPUTS[[0, 0]], np.array([0, 1]))
    with pytest.raises(DataError, match="share 1 example: "):
        require_apart(both, Rows.of(INPUTS[:1], np.array([0])))


def test_a_channel_appended_is_not_found() -> None:
    wider = np.concatenate([INPUTS, np.ones_like(INPUTS)], axis=1)
    require_apart(ALL, Rows.of(wider, LABELS))  # the module says so


def test_examples_repeated() -> None:
    copies = np.tile(np.arange(20), 30)
    with pytest.raises(
        DataError, match=r"the bound's rows hold 580 repeats among 600 inputs, more than 0\.01 of them: "
    ):
        require_plain(part(copies))
    # with labels drawn anew, and under people made up, they are copies still
    labels = np.arange(600) % 7
    with pytest.raises(DataError, match="580 repeats among 600 inputs, "):
        require_plain(Rows.of(INPUTS[copies], labels))
    with pytest.raises(DataError, match="the test set's rows hold 580 repeats among 600 inputs of different people, "):
        require_plain(Rows.of(INPUTS[copies], labels, np.arange(600)), name="the test set's rows")
    # copies of one input under one person are one person's
    require_plain(Rows.of(INPUTS[copies], labels, copies))
    require_plain(part(copies), most=0.97)


def test_a_few_repeats_are_chance() -> None:
    inputs = np.random.default_rng(0).normal(size=(200, 3))
    inputs[:2] = inputs[2:4]
    require_plain(Rows.of(inputs, np.zeros(200)))
    inputs[4] = inputs[5]
    with pytest.raises(DataError, match="3 repeats among 200 inputs"):
        require_plain(Rows.of(inputs, np.zeros(200)))


def test_what_a_privacy_claim_covers() -> None:
    require_covers(ALL, part(slice(10, 20)))
    with pytest.raises(DataError, match=r"the privacy claim covers 30 examples, and 5 of the bound's 10 are not among"):
        require_covers(part(slice(30)), part(slice(25, 35)))
    labels = LABELS.copy()
    labels[3] += 1
    with pytest.raises(DataError, match=r"and 1 of the bound's 60 are not"):
        require_covers(ALL, Rows.of(INPUTS, labels))


def test_a_claim_by_people() -> None:
    people = part(np.arange(60), people=True)
    require_covers(people, part(slice(10, 20), people=True))
    require_covers(people, part(slice(10, 20)))  # more than is asked
    with pytest.raises(DataError, match="covers one example at a time and the bound counts people"):
        require_covers(ALL, part(slice(10, 20), people=True))
    with pytest.raises(DataError, match="60 examples of the bound belong to other people than in the privacy claim"):
        require_covers(people, Rows.of(INPUTS, LABELS, np.arange(60) + 100))


def test_keys() -> None:
    secret = Rows.of(INPUTS, LABELS, PEOPLE, key=SECRET)
    assert secret.shared(Rows.of(INPUTS[:9], LABELS[:9], key=SECRET)) == 9
    assert secret.people == 12
    for name in ("examples", "inputs", "owners"):
        plain = getattr(part(np.arange(60), people=True), name)
        assert not set(getattr(secret, name).tolist()) & set(plain.tolist())
    for other in (ALL, Rows.of(INPUTS, LABELS, key=SECRET[::-1])):
        with pytest.raises(DataError, match="hashed with different keys and cannot be compared"):
            secret.shared(other)
        with pytest.raises(DataError, match="different keys"):
            secret.union(other)


@pytest.mark.parametrize("rows", [ALL, Rows.of(INPUTS, LABELS, PEOPLE, key=SECRET)])
def test_there_and_back(rows: Rows) -> None:
    arrays = rows.to_arrays()
    assert all(array.dtype == np.int64 for array in arrays.values())
    for form in (arrays, {name: torch.tensor(array) for name, array in arrays.items()}):
        again = Rows.from_arrays(form)
        assert (again.summary(), again.key_mark) == (rows.summary(), rows.key_mark)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"inputs": None}, "lack the array inputs"),
        ({"key_mark": None}, "lack the array key_mark"),
        ({"examples": np.zeros(60)}, "examples of Rows must be int64"),
        ({"examples": ALL.to_arrays()["examples"][::-1]}, "must be sorted"),
        ({"inputs": np.zeros(3, np.int64)}, "inputs of Rows must be uint64, one for each example"),
        ({"examples": np.zeros(0, np.int64), "inputs": np.zeros(0, np.int64)}, "at least one"),
        ({"key_mark": np.zeros(2, np.int64)}, "key_mark of Rows must hold one number"),
    ],
)
def test_arrays_that_are_something_else(change: dict[str, np.ndarray | None], match: str) -> None:
    arrays = {name: array for name, array in (ALL.to_arrays() | change).items() if array is not None}
    with pytest.raises((DataError, TypeCheckError)) as caught:
        Rows.from_arrays(arrays)
    if isinstance(caught.value, DataError):  # where shapes are checked, the annotation may speak first
        assert re.search(match, str(caught.value))


@pytest.mark.parametrize(
    ("labels", "people", "match"),
    [
        (LABELS[:59], None, "labels must be one for each of the 60 inputs, got 59"),
        (LABELS, PEOPLE[:59], "people must be one for each of the 60 inputs, got 59"),
        (LABELS, PEOPLE.astype(float), r"people must be a whole number for each example, got float64 \(60,\)"),
        (LABELS, PEOPLE[:, None], r"people must be a whole number"),
    ],
)
def test_numbers_that_do_not_fit(labels: np.ndarray, people: np.ndarray | None, match: str) -> None:
    with pytest.raises(DataError, match=match):
        Rows.of(INPUTS, labels, people)


def test_the_hashes_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        ALL.examples[0] = 0


HERE = Path(os.environ.get("PACDP_DATA") or "nowhere")


@pytest.mark.parametrize(
    ("name", "folder", "repeats"),
    [
        ("digits", "", (0, 0)),
        ("mnist", "mnist", (0, 0)),
        ("malaria", "malaria_cells", (0, 0)),
        ("xrays", "chest_xray", (26, 6)),
        ("xrays-mixed", "chest_xray", (26, 6)),
    ],
)
def test_the_data_sets_here(name: str, folder: str, repeats: tuple[int, int]) -> None:
    if not (HERE / folder).is_dir() and folder:
        pytest.skip(f"PACDP_DATA names no folder with {folder}/")
    train, test = (Rows.of(data.inputs, data.labels) for data in load(name, download=False))
    require_apart(train, test)
    assert (train.repeats, test.repeats) == repeats
    require_plain(train)
    require_plain(test)
    assert not re.search("[^0-9a-f]", train.digest)
