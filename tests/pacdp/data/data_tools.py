"""What the tests of pacdp.data share."""

import struct

import numpy as np
from hypothesis import settings

law = settings(derandomize=True, deadline=None, database=None)

CODES = {"uint8": 0x08, "int8": 0x09, "int16": 0x0B, "int32": 0x0C, "float32": 0x0D, "float64": 0x0E}


def idx_bytes(array: np.ndarray) -> bytes:
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, CODES[array.dtype.name], array.ndim, *array.shape)
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()
