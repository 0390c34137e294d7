"""Hashes of rows: BLAKE2b by hand, and what may not matter."""

import copy
import hashlib
from decimal import Decimal
from functools import cached_property

import numpy as np
import polars
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from pacdp.data import DataError
from pacdp.data.hashing import pair_hashes, row_hashes, table_hashes
from pacdp.verify.examples import row_hashes as of_rows
from tests.marks import every_case, refusal

ROW = np.linspace(-1, 1, 12, dtype=np.float32).reshape(1, 12)


def test_a_row_and_a_pair_by_hand():
    rows = default_rng(1).normal(size=(3, 5)).astype(np.float32)
    expected = [hashlib.blake2b(row.tobytes(), digest_size=8, person=b"<f45").digest() for row in rows]
    found = row_hashes(rows)
    assert found.tolist() == [int.from_bytes(one, "little") for one in expected]
    pair = hashlib.blake2b(expected[0] + expected[1], digest_size=8, person=b"pair").digest()
    assert pair_hashes(found[:1], found[1:2]).tolist() == [int.from_bytes(pair, "little")]


def test_the_same_numbers_in_every_format():
    for same in (
        ROW.reshape(1, 3, 2, 2),
        ROW.astype(np.float64),
        ROW.astype(">f4"),
        np.repeat(ROW, 2, axis=1)[:, ::2],
        torch.nn.Parameter(torch.tensor(ROW).view(1, 4, 3)),
    ):
        assert row_hashes(same).tolist() == row_hashes(ROW).tolist()
    numbers = np.array([[0, 1, 5], [7, 0, 127]])
    expected = row_hashes(numbers).tolist()
    for dtype in ("u1", "i2", "i8", "u8", "f2", "f8"):
        assert row_hashes(numbers.astype(dtype)).tolist() == expected
    assert row_hashes(torch.tensor(numbers).bfloat16()).tolist() == expected
    assert row_hashes(numbers > 0).tolist() == row_hashes((numbers > 0).astype(np.float32)).tolist()
    assert row_hashes(np.array([[0.0, -0.0]])).tolist() == row_hashes(np.zeros((1, 2), np.float32)).tolist()
    for dtype in (np.float16, np.float32, np.float64):
        gaps = np.array([[np.nan, 0.1], [-np.nan, 0.1]], dtype)  # of 0/0 the sign is set
        for hashes in (row_hashes, table_hashes, of_rows):
            one, other = hashes(gaps).tolist()
            assert one == other


@every_case(
    ("a", "b"),
    [
        (0.1, np.float32(0.1)),
        (2**53 + 1, 2**53),
        (np.uint64(2**64 - 1), float(2**64)),
        (1e300, np.inf),
        (np.nan, np.inf),
        (1j, 1.0),
    ],
)
def test_numbers_that_a_cast_would_merge(a, b):
    assert row_hashes(np.array([a])) != row_hashes(np.array([b]))


def test_where_a_row_stands_among_others_does_not_matter():
    # some rows of one array are exact in float32 and some are not; each is hashed for itself, in chunks and alone
    rows = np.arange(3000 * 200, dtype=np.float64).reshape(3000, 200)
    rows[::3] += 1e-12
    hashes = row_hashes(rows)
    for k in (0, 1, 2, 1310, 2999):
        assert hashes[k] == row_hashes(rows[k : k + 1])[0]
    assert hashes[1] == row_hashes(rows[1:2].astype(np.float32))[0]
    for row in rows[:1, :2], np.array([[np.nan, -np.nan]], np.float32):  # NaNs of other bits
        assert row_hashes(row[0]).tolist() == [int(row_hashes(one)[0]) for one in row.T]
    assert len(np.unique(hashes)) == 3000
    assert len({int(row_hashes(np.zeros((1, width)))[0]) for width in range(1, 60)}) == 59


@given(seed=st.integers(0, 2**32), width=st.integers(1, 40), place=st.integers(0, 10**6), bit=st.integers(0, 31))
def test_one_flipped_bit_is_seen(seed, width, place, bit):
    words = default_rng(seed).integers(0, 2**30, (2, width), dtype=np.uint32)
    other = words.copy()
    other[1, place % width] ^= np.uint32(1 << bit)
    a, b = (row_hashes(array.view(np.float32)) for array in (words, other))
    assert a[0] == b[0]
    assert a[1] != b[1]


def test_a_table_has_the_same_hashes_whatever_holds_its_numbers_and_gaps():
    numbers = np.array([[0.1, np.nan], [2.0, 30000001.0], [-1e9 - 1.0, 4.5]])
    gaps = np.array([[None if np.isnan(cell) else cell for cell in row] for row in numbers.tolist()])
    texts = np.array([["0.1", ""], [" 2", "030000001"], ["-1000000001.0", "4.50"]])
    decimals = np.array([[None if cell is None else Decimal(repr(cell)) for cell in row] for row in gaps])
    forms = numbers, numbers.tolist(), gaps, gaps.tolist(), texts, texts.astype(object), decimals
    for form in forms:
        assert table_hashes(form).tolist() == table_hashes(numbers).tolist()
        beside = [["a", *row] for row in np.asarray(form, dtype=object).tolist()]
        assert table_hashes(beside).tolist() == table_hashes([["A ", *row] for row in numbers.tolist()]).tolist()
    days = np.array(["2020-01-31", "2020-02-01"], dtype="datetime64[ns]")[:, None]
    told = (
        days.astype("datetime64[D]"),
        days.astype("datetime64[s]").astype(object),
        days.astype("datetime64[D]").astype(str),
    )
    zoned = [[f"{one}T00:00:00Z"] for one in told[-1][:, 0]]
    assert {tuple(table_hashes(form).tolist()) for form in (days, *told, zoned)} == {tuple(table_hashes(days).tolist())}
    beside = [[one, share] for one, share in zip(told[-1][:, 0], (0.5, 2.0), strict=True)]
    for form in (told[1], days.astype("datetime64[us]")):  # of which polars makes dates, and times
        frame = polars.DataFrame({"day": form[:, 0], "share": [0.5, 2.0]})
        assert table_hashes(frame).tolist() == table_hashes(beside).tolist()
        assert table_hashes(frame[:, :1]).tolist() == table_hashes(days).tolist()
    assert table_hashes([["20200131"]]) == table_hashes([[20200131]]), "a number is no date"
    whole = np.array([[30000001], [2**60 + 1], [2**60 + 2]])
    assert len({*table_hashes(whole).tolist()}) == 3
    assert table_hashes(whole[:1]).tolist() == table_hashes(whole[:1].astype(float)).tolist()
    for form in (whole, whole.astype(object), whole.astype(str), whole.astype(np.uint64)):
        assert table_hashes(form)[0] == table_hashes(whole[:1])[0], "a row is known by itself"
        assert table_hashes(form).tolist() == table_hashes(whole).tolist()
    assert table_hashes([["1e20"], ["inf"]]).tolist() == table_hashes([[1e20], [np.inf]]).tolist()
    assert (
        table_hashes([["1", "2"], ["a", "b"]])[0]
        == table_hashes([["1", "2"]])[0]
        == table_hashes(np.float16([[1, 2]]))[0]
    )
    assert table_hashes([b"caf\xc3\xa9"]) == table_hashes(["caf\u00e9"]) == table_hashes(["cafe\u0301"])
    nested = (
        [{"a": 0.1, "b": [2, None]}],
        [{"b": np.array([2.0, np.nan]), "a": np.float64(0.1)}],
        [{"a": "0.10", "b": (2, "")}],
    )
    assert len({table_hashes(form)[0] for form in nested}) == 1
    assert len({table_hashes(form)[0] for form in ([{1: 2, "a": 3}], [{"a": 3, 1: 2}])}) == 1
    one, other = set(), set()
    for word in range(0, 32, 8):  # whose order a set keeps, being alike in their last bits
        one.add(word)
        other.add(24 - word)
    assert [*one] != [*other]
    assert table_hashes([one]) == table_hashes([frozenset(other)])
    told = [["x", True]], np.array([["x", "True"]]), np.array([["x", np.True_]], dtype=object)
    assert len({table_hashes(form)[0] for form in told}) == 1
    days = np.array([[1], [2]], dtype="timedelta64[D]")
    assert table_hashes(days).tolist() == table_hashes(days.astype("timedelta64[ns]")).tolist()


def test_rows_of_several_lengths_are_those_of_a_table():
    words = [["a", "b"], ["b", "a"], ["c"], [], ["a", "b", "c"]]
    hashes = table_hashes(words).tolist()
    assert len({*hashes}) == 5
    assert table_hashes(words[:2]).tolist() == hashes[:2], "a row is known by itself"
    assert table_hashes(tuple(map(tuple, words))).tolist() == hashes
    numbers = np.array([[0.1, 2.0], [3.0, np.nan]])
    several = [*numbers, np.ones(3)]
    for form in (several, [torch.tensor(one) for one in several], [one.tolist() for one in several]):
        assert table_hashes(form)[:2].tolist() == table_hashes(numbers).tolist()
    assert table_hashes([[[1], [2, 3]], [4]])[0] != table_hashes([[[1, 2], [3]], [4]])[0]
    images = [[np.ones((2, 3)), np.ones((2, 2))], [np.ones((2, 3))]]
    assert len({*table_hashes(images).tolist()}) == 2


class Molecule:
    """Says where it lies, or what it is called, and not what it is."""

    def __init__(self, atoms, text=None):
        self.atoms, self.text = atoms, text

    def __repr__(self):
        return self.text or object.__repr__(self)

    @cached_property
    def fingerprint(self):
        return self.atoms.sum()


def test_objects_are_known_by_what_they_hold_and_not_by_where_they_lie():
    for text in (None, "a molecule"):
        made = [Molecule(np.arange(2000.0) + k, text) for k in range(3)]
        one, other = (table_hashes(form).tolist() for form in (made, copy.deepcopy(made)))
        assert one == other
        assert len({*one}) == 3
        assert made[1].fingerprint == 2001000.0  # kept from now on
        assert table_hashes(made).tolist() == other
        assert "fingerprint" in vars(made[1])
    arrays, lists = np.empty((2, 3), dtype=object)
    for k, one in enumerate(made):
        one.atoms[1000] += k  # of which a text shows the ends alone
        arrays[k], lists[k] = one.atoms, one.atoms.tolist()
    assert len({*table_hashes(arrays).tolist()}) == 3
    assert table_hashes(arrays).tolist() == table_hashes(lists).tolist()
    with refusal("numbers, texts or what pickle takes, .* got Molecule", DataError):
        table_hashes([Molecule(lambda: 0)])
