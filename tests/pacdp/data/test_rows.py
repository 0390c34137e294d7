"""Rows: what overlaps, whatever the order and the labels; and what is refused, with counts."""

import copy
import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from pacdp.data import DataError, Rows, require_apart, require_covers, require_plain
from tests.marks import refusal

DRAW = default_rng(0)
INPUTS = DRAW.normal(size=(60, 1, 4, 4)).astype(np.float32)
LABELS = DRAW.integers(0, 10, 60)
PEOPLE = np.arange(60) // 5
ALL = Rows.of(INPUTS, LABELS)


def part(rows, *, people=False, labels=LABELS):
    return Rows.of(INPUTS[rows], labels[rows], PEOPLE[rows] if people else None)  # type: ignore[index]


owned = partial(part, people=True)
OWNED = owned(np.arange(60))
indices = st.lists(st.integers(0, 59), min_size=1, max_size=80)


@given(a=indices, b=indices, people=st.booleans(), seed=st.integers(0, 99))
def test_sets_of_indices_and_of_hashes_agree(a, b, people, seed):
    one, two = part(a, people=people), part(b, people=people)
    assert one.n == len(a)
    assert one.people == (len({k // 5 for k in a}) if people else None)
    assert one.repeats == (0 if people else len(a) - len(set(a)))
    assert one.shared(two) == two.shared(one) == one.shared(two, "inputs") == len({*a} & {*b})
    assert one.shared(two, "owners") == (len({k // 5 for k in a} & {k // 5 for k in b}) if people else 0)
    assert len({*a}) - one.shared(two) == len({*a} - {*b})
    # neither order matters
    shuffled = default_rng(seed).permutation(a)
    assert part(shuffled, people=people).digest == one.digest
    assert (one.digest == two.digest) == (sorted(a) == sorted(b))


def test_people_are_in_the_digest():
    assert OWNED.digest not in (ALL.digest, Rows.of(INPUTS, LABELS, PEOPLE + 1).digest)
    assert OWNED.summary() == {"digest": OWNED.digest, "n": 60, "people": 12}
    for rows in (ALL, OWNED):  # there and back
        arrays = rows.to_arrays()
        for form in (arrays, {name: torch.tensor(array) for name, array in arrays.items()}):
            again = Rows.from_arrays(form)
            for name in ("key_mark", "width", "precision"):
                assert getattr(again, name) == getattr(rows, name)
            assert again.summary() == rows.summary()
            assert not again.silent(rows)
        old = Rows.from_arrays({name: array for name, array in arrays.items() if name != "rows_form"})
        assert "does not say in which form" in old.silent(rows)
        assert "does not say in which form" in rows.silent(old)
        with refusal("form of Rows must hold two numbers", DataError):
            Rows.from_arrays(arrays | {"rows_form": np.zeros(3, np.int64)})
        for other in ({**arrays, "format": np.array([1])}, {k: a for k, a in arrays.items() if k != "format"}):
            with refusal("not hashed as pacdp-rows/2, and so cannot be compared", DataError):
                Rows.from_arrays(other)


def test_arrays_and_tensors_and_people_of_large_numbers_agree_in_every_format():
    large = PEOPLE + 2**30 + 1
    found = {
        Rows.of(*map(form, (INPUTS, LABELS, large.astype(kind)))).digest
        for form in (np.array, torch.tensor)
        for kind in ("i4", "u4", "i8")
    }
    assert found == {Rows.of(INPUTS.reshape(60, 16).astype(float), LABELS.astype("u1"), large).digest}


def test_what_is_shared_is_refused_with_counts():
    order = default_rng(3).permutation(60)
    with refusal("the test set's rows and the bound's rows share 60 examples: set rows aside", DataError):
        require_apart(part(order), ALL, ("the test set's rows", "the bound's rows"))
    require_apart(part(slice(30)), part(slice(30, 60)))
    labels = LABELS.copy()
    labels[10:13] += 1
    one, two = owned(slice(0, 20)), owned(slice(10, 30), labels=labels)
    with refusal("share 7 examples, 3 more inputs under another label and 2 people: ", DataError):
        require_apart(one, two)


def test_examples_repeated():
    copies = np.tile(np.arange(20), 30)
    labels = np.arange(600) % 7
    # with labels drawn anew, and under people made up, they are copies still
    for rows, of in (
        (part(copies), ""),
        (Rows.of(INPUTS[copies], labels), ""),
        (Rows.of(INPUTS[copies], labels, np.arange(600)), " of different people"),
    ):
        with refusal(rf"hold 580 repeats among 600 inputs{of}, more than 0\.01 of them", DataError):
            require_plain(rows)
    # copies of one input under one person are one person's
    require_plain(Rows.of(INPUTS[copies], labels, copies))
    require_plain(part(copies), most=0.97)
    inputs = default_rng(0).normal(size=(200, 3))
    inputs[:2] = inputs[2:4]
    require_plain(Rows.of(inputs, np.zeros(200)))  # a hundredth may be chance
    inputs[4] = inputs[5]
    with refusal("3 repeats among 200 inputs", DataError):
        require_plain(Rows.of(inputs, np.zeros(200)))


def test_what_a_privacy_claim_covers():
    require_covers(ALL, part(slice(10, 20)))
    with refusal(r"the privacy claim covers 30 examples, and 5 of the bound's 10 are not among", DataError):
        require_covers(part(slice(30)), part(slice(25, 35)))
    require_covers(OWNED, owned(slice(10, 20)))
    require_covers(OWNED, part(slice(10, 20)))  # more than is asked
    with refusal("covers one example at a time and the bound counts people", DataError):
        require_covers(ALL, owned(slice(10, 20)))
    with refusal("60 examples of the bound belong to other people than in the privacy claim", DataError):
        require_covers(OWNED, Rows.of(INPUTS, LABELS, np.arange(60) + 100))


def test_copies_are_equal():
    again = copy.deepcopy(ALL)
    assert again.shared(ALL) == ALL.n
    assert pickle.loads(pickle.dumps(ALL)).digest == ALL.digest  # noqa: S301


def test_a_pickle_of_rows_leaves_the_data_set_behind():
    rows = replace(ALL, source=INPUTS)
    again = pickle.loads(pickle.dumps(rows))  # noqa: S301
    assert again.source is None
    assert again.shared(rows) == ALL.n
