"""IDX, the file format of MNIST, read with every byte accounted for.

    00 00 | type code | number of dimensions d | d sizes, uint32 big-endian | elements, big-endian

The file may be gzipped; its first bytes decide, not its name.
"""

import gzip
import io
import math
import os
import struct
import zlib
from pathlib import Path

import numpy as np

from pacdp.data.errors import DataError

_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_MAX_DIMENSIONS = 32  # what every NumPy can hold
_GZIP_MAGIC = b"\x1f\x8b"
# deflate expands at most 1032-fold (zlib's technical notes), so a header that declares more is lying
_MAX_EXPANSION = 1040
_CHUNK = 1 << 20


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """Read one IDX file, plain or gzipped, as a fresh array in native byte order.

    Args:
        path: the file. Elements may be uint8, int8, int16, int32, float32 or float64.

    Returns:
        Array of the declared shape (1 to 32 dimensions) and dtype.

    Raises:
        DataError: the file is missing or unreadable, empty, cut short, fails its gzip checksum, is not IDX,
            or holds fewer or more bytes than its header declares. Memory stays within a small multiple of
            the bytes that are really there, whatever the header declares.
    """
    path = Path(path)
    try:
        available = path.stat().st_size
        with path.open("rb") as raw:
            zipped = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
            raw.seek(0)
            if not zipped:
                return _read(raw, path, available)
            with gzip.GzipFile(fileobj=raw, mode="rb") as stream:
                return _read(stream, path, available * _MAX_EXPANSION)
    except EOFError:
        raise DataError(f"{path} is cut short inside its gzip stream; fetch it again.") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} is damaged ({error}); fetch it again.") from None
    except MemoryError:
        raise DataError(
            f"{path} holds more data than there is memory for; use a machine that has more."
        ) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(
            f"{path} cannot be read ({reason}); check the path and its permissions."
        ) from None


def _read(stream: io.BufferedIOBase, path: Path, limit: int) -> np.ndarray:
    """Header, then payload, then nothing; `limit` is the most bytes that the file can possibly hold."""
    magic = stream.read(4)
    if not magic:
        raise DataError(f"{path} is empty; fetch it again.")
    if len(magic) < 4:
        raise DataError(f"{path} ends inside its IDX header; fetch it again.")
    if magic[:2] != b"\0\0":
        raise DataError(
            f"{path} is not an IDX file: it begins with {magic.hex(' ')}, not 00 00; replace it."
        )
    if magic[2] not in _TYPES:
        raise DataError(
            f"{path} declares the unknown IDX element type 0x{magic[2]:02x}; replace it."
        )
    if not 1 <= magic[3] <= _MAX_DIMENSIONS:
        raise DataError(
            f"{path} declares {magic[3]} dimensions, not 1 to {_MAX_DIMENSIONS}; replace it."
        )
    sizes = stream.read(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        raise DataError(f"{path} ends inside its IDX header; fetch it again.")
    shape = struct.unpack(f">{magic[3]}I", sizes)
    dtype = np.dtype(_TYPES[magic[2]])
    declared = math.prod(shape) * dtype.itemsize
    if declared > limit:
        raise DataError(
            f"{path} declares {declared} bytes of data, more than a file of its size can hold; fetch it again."
        )
    payload = _read_at_most(stream, declared + 1)
    if len(payload) < declared:
        raise DataError(
            f"{path} holds {len(payload)} bytes of data where its header declares {declared}; fetch it again."
        )
    if len(payload) > declared:
        raise DataError(
            f"{path} goes on after the {declared} bytes of data that its header declares; fetch it again."
        )
    try:
        array = np.frombuffer(payload, dtype=dtype).reshape(shape)
    except ValueError:  # a size of zero beside sizes whose product overflows
        raise DataError(
            f"{path} declares the shape {shape}, which no array can have; replace it."
        ) from None
    return array.astype(dtype.newbyteorder("="), copy=False)


def _read_at_most(stream: io.BufferedIOBase, count: int) -> bytearray:
    """Up to `count` bytes, grown piece by piece so that a declared size alone allocates nothing."""
    payload = bytearray()
    while len(payload) < count:
        piece = stream.read(min(_CHUNK, count - len(payload)))
        if not piece:
            break
        payload += piece
    return payload
