"""Every byte of an IDX file is accounted for, or the reader says which file is wrong."""

import gzip

import numpy as np
import pytest
from data_tools import CODES, idx_bytes, put
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal

from pacdp.data import DataError, read_idx
from tests.marks import made_once, parametrize

LABELS = idx_bytes(np.arange(10, dtype=np.uint8))
ZIPPED = gzip.compress(LABELS, mtime=0)


@made_once
def room(tmp_path_factory):
    return tmp_path_factory.mktemp("idx")


arrays = st.sampled_from(sorted(CODES)).flatmap(
    lambda name: hnp.arrays(name, hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5))
)


@given(array=arrays, zipped=st.booleans())
def test_round_trip(room, array, zipped):
    content = idx_bytes(array)
    read = read_idx(put(room / "any-name", gzip.compress(content) if zipped else content))
    assert read.dtype == array.dtype
    assert read.dtype.isnative
    assert_array_equal(read, array)
    read[...] = 0  # the array belongs to the caller


@parametrize("content", [LABELS, ZIPPED], ids=["plain", "zipped"])
def test_files_cut_anywhere_are_refused(room, content):
    for cut in range(len(content)):
        with pytest.raises(DataError):
            read_idx(put(room / "cut", content[:cut]))


def test_a_flipped_bit_of_the_packed_content_or_its_checksum_is_noticed(room):
    for place in range(10, len(ZIPPED)):
        for bit in range(8):
            flipped = bytearray(ZIPPED)
            flipped[place] ^= 1 << bit
            try:
                read = read_idx(put(room / "flipped", bytes(flipped)))
            except DataError:
                continue
            # the padding after the last deflate block means nothing
            assert idx_bytes(read) == LABELS
            assert place < len(ZIPPED) - 8
