"""Hashes of rows: the published SipHash, the multilinear sum in Python integers, and what may not matter."""

import hashlib

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from pacdp.data import hashing
from pacdp.data.hashing import pair_hashes, row_hashes
from tests.marks import every_case, parametrize

SECRET = bytes(range(16))
ROW = np.linspace(-1, 1, 12, dtype=np.float32).reshape(1, 12)


def siphash(message, key):
    """SipHash-2-4 as printed in the paper, in Python integers."""
    mask = 2**64 - 1
    k0, k1 = (int.from_bytes(part, "little") for part in (key[:8], key[8:]))
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rotated(x, bits):
        return (x << bits | x >> (64 - bits)) & mask

    def rounds(count):
        for _ in range(count):
            v[0] = v[0] + v[1] & mask
            v[1] = rotated(v[1], 13) ^ v[0]
            v[0] = rotated(v[0], 32)
            v[2] = v[2] + v[3] & mask
            v[3] = rotated(v[3], 16) ^ v[2]
            v[0] = v[0] + v[3] & mask
            v[3] = rotated(v[3], 21) ^ v[0]
            v[2] = v[2] + v[1] & mask
            v[1] = rotated(v[1], 17) ^ v[2]
            v[2] = rotated(v[2], 32)

    padded = message + bytes(7 - len(message) % 8) + bytes([len(message)])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def test_siphash_is_the_published_one():
    # vector 15 of the reference implementation, printed in appendix A of the paper, fixes the slow twin
    assert siphash(bytes(range(15)), SECRET) == 0xA129CA6149BE45E5
    key = np.frombuffer(SECRET, dtype="<u8")
    first, second = default_rng(0).integers(0, 2**64, (2, 50), dtype=np.uint64)
    found = hashing._siphash(first, second, key)
    assert found.tolist() == [siphash(a.tobytes() + b.tobytes(), SECRET) for a, b in zip(first, second, strict=True)]


@parametrize("key", [b"", SECRET])
def test_a_row_by_hand(key):
    rows = default_rng(1).normal(size=(3, 5)).astype(np.float32)
    m = np.frombuffer(hashlib.shake_256(b"pacdp-rows/1" + key).digest(8 * 14), dtype="<u8").tolist()
    kind = hashlib.sha256(b"<f45").digest()[:8]
    expected = []
    for row in rows.view("<u4").tolist():
        high, low = (
            (offset + sum(a * b for a, b in zip(factors, row, strict=True))) % 2**64 >> 32
            for offset, factors in ((m[2], m[4:9]), (m[3], m[9:14]))
        )
        secret = b"".join(word.to_bytes(8, "little") for word in m[:2])
        expected.append(siphash((high << 32 | low).to_bytes(8, "little") + kind, secret))
    assert row_hashes(rows, key=key).tolist() == expected


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


def test_hashes_are_spread_evenly():
    # rows that differ in one exponent bit are what modular sums find hardest; 65,536 of them must look like chance
    words = np.full((1 << 16, 16), 0x3F800000, dtype=np.uint32)
    words ^= (np.arange(1 << 16)[:, None] >> np.arange(16) & 1).astype(np.uint32) << np.uint32(31)
    hashes = row_hashes(words.view(np.float32))
    assert len(np.unique(hashes)) == 1 << 16
    for shift in (0, 20, 56):  # counts in 256 cells: chi-squared with 255 degrees of freedom
        counts = np.bincount((hashes >> np.uint64(shift) & np.uint64(255)).astype(np.int64), minlength=256)
        assert 150 < ((counts - 256.0) ** 2 / 256.0).sum() < 390


def test_order_within_a_pair_and_keys():
    a, b = row_hashes(np.arange(4)), row_hashes(np.arange(4, 8))
    assert not set(pair_hashes(a, b).tolist()) & set(pair_hashes(b, a).tolist())
    assert not set(pair_hashes(a, b).tolist()) & set(pair_hashes(a, b, key=SECRET).tolist())
    assert not set(row_hashes(ROW).tolist()) & set(row_hashes(ROW, key=SECRET).tolist())
