"""Every byte of an IDX file is accounted for, or the reader says which file is wrong."""

import gzip
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from data_tools import CODES, idx_bytes, law
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pacdp.data import DataError, read_idx

LABELS = np.arange(10, dtype=np.uint8)


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("idx")


def refused(path: Path, content: bytes, match: str) -> None:
    path.write_bytes(content)
    with pytest.raises(DataError, match=match) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


arrays = st.sampled_from(sorted(CODES)).flatmap(
    lambda name: hnp.arrays(name, hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5))
)


@law
@given(array=arrays, zipped=st.booleans())
def test_round_trip(room: Path, array: np.ndarray, zipped: bool) -> None:
    content = idx_bytes(array)
    path = room / "any-name"
    path.write_bytes(gzip.compress(content, mtime=0) if zipped else content)
    read = read_idx(path)
    assert read.dtype == array.dtype
    assert read.dtype.isnative
    np.testing.assert_array_equal(read, array)
    read[...] = 0  # the array belongs to the caller


def test_plain_files_cut_anywhere_are_refused(room: Path) -> None:
    content = idx_bytes(np.arange(6, dtype=np.int32).reshape(2, 3))
    for cut in range(len(content)):
        refused(room / "cut", content[:cut], "empty|ends inside its IDX header|where its header declares 24|hold")


def test_gzip_files_cut_anywhere_are_refused(room: Path) -> None:
    content = gzip.compress(idx_bytes(LABELS), mtime=0)
    for cut in range(len(content)):
        refused(room / "cut.gz", content[:cut], r"empty|cut short|ends inside|not an IDX|can hold")


def test_cut_gzip_header_cannot_pass_for_idx(room: Path) -> None:
    refused(room / "one-byte", b"\x1f", "ends inside its IDX header")


@pytest.mark.parametrize("place", [-8, -7, -5, -4, -1])
def test_wrong_checksum_or_length_in_the_gzip_trailer(room: Path, place: int) -> None:
    content = bytearray(gzip.compress(idx_bytes(LABELS), mtime=0))
    content[place] ^= 0x40
    refused(room / "trailer.gz", bytes(content), "damaged .*fetch it again")


@law
@given(data=st.data())
def test_one_flipped_bit_in_the_deflate_stream_is_noticed(room: Path, data: st.DataObject) -> None:
    array = np.random.Generator(np.random.PCG64(0)).integers(0, 256, size=200).astype(np.uint8)
    content = bytearray(gzip.compress(idx_bytes(array), mtime=0))
    content[data.draw(st.integers(10, len(content) - 9))] ^= 1 << data.draw(st.integers(0, 7))
    path = room / "flip.gz"
    path.write_bytes(content)
    outcome = read_or_sentence(path)
    if isinstance(outcome, str):
        assert str(path) in outcome
    else:  # the padding after the last deflate block means nothing
        np.testing.assert_array_equal(outcome, array)


def read_or_sentence(path: Path) -> np.ndarray | str:
    try:
        return read_idx(path)
    except DataError as error:
        return str(error)


def test_garbage_after_the_gzip_stream(room: Path) -> None:
    refused(room / "tail.gz", gzip.compress(idx_bytes(LABELS), mtime=0) + b"garbage", "damaged")


@pytest.mark.parametrize("magic", [b"\x01\0\x08\x01", b"\0\x01\x08\x01", b"PK\x03\x04", b"<htm"])
def test_wrong_magic(room: Path, magic: bytes) -> None:
    refused(room / "magic", magic + struct.pack(">I", 1) + b"x", "not an IDX file")


@pytest.mark.parametrize("code", [0x00, 0x07, 0x0A, 0x0F, 0xFF])
def test_unknown_element_type(room: Path, code: int) -> None:
    refused(room / "code", bytes([0, 0, code, 1]) + struct.pack(">I", 1) + b"x", f"type 0x{code:02x}")


@pytest.mark.parametrize("dims", [0, 33, 255])
def test_impossible_number_of_dimensions(room: Path, dims: int) -> None:
    refused(room / "dims", bytes([0, 0, 8, dims]) + struct.pack(">I", 1) * dims + b"x", f"{dims} dimensions")


def test_dimensions_that_do_not_fit_the_content(room: Path) -> None:
    content = bytearray(idx_bytes(LABELS))
    content[7] = 9
    refused(room / "short", bytes(content), "goes on after the 9 bytes")
    content[7] = 11
    refused(room / "long", bytes(content), "holds 10 bytes .* declares 11|declares")
    content[7] = 10
    content[2] = CODES["int32"]
    refused(room / "wide", bytes(content), "declares 40")


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("extra", [b"\0", b"\0" * 5_000_000])
def test_trailing_bytes(room: Path, extra: bytes, zipped: bool) -> None:
    content = idx_bytes(LABELS) + extra
    refused(room / "trailing", gzip.compress(content, 1) if zipped else content, "goes on after the 10 bytes")


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("sizes", [(2**32 - 1,), (2**31, 2**31), (2**32 - 1,) * 32, (2**20,)])
def test_a_huge_declared_size_allocates_nothing(room: Path, sizes: tuple[int, ...], zipped: bool) -> None:
    content = bytes([0, 0, 0x0E, len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes) + b"tiny"
    tracemalloc.start()
    refused(room / "huge", gzip.compress(content) if zipped else content, "can hold")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


def test_a_gzip_bomb_is_left_after_the_declared_size(room: Path) -> None:
    content = gzip.compress(idx_bytes(LABELS) + bytes(200 << 20), 1)
    tracemalloc.start()
    refused(room / "bomb.gz", content, "goes on after")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


def test_zero_beside_sizes_whose_product_overflows(room: Path) -> None:
    content = bytes([0, 0, 0x08, 4]) + struct.pack(">4I", 0, 2**32 - 1, 2**32 - 1, 2**32 - 1)
    refused(room / "zero", content, "which no array can have")


def test_what_is_no_file(room: Path) -> None:
    with pytest.raises(DataError, match=r"missing.gz cannot be read \(No such file"):
        read_idx(room / "missing.gz")
    with pytest.raises(DataError, match="cannot be read"):
        read_idx(room)
