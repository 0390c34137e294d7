"""Rows of features on disk, a file a block of images, so that a slow network sees every image once.

    <cache>/backbone/<sha256 of the block>-<sha256 of the weights>.safetensors

holds the rows; beside them, in the header, both sums in full and the sha256 of the rows. A file is believed only if all
three agree with what is asked for and what is read; any other is ignored and written anew, by rename. The folder can be
deleted at any time.
"""

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from pacdp.data.registry import cache_folder

_FORMAT = "pacdp-backbone/1"


class Entry(NamedTuple):
    """Where the rows of some images are, and what their file must say."""

    path: Path
    shape: tuple[int, int]
    header: dict[str, str]


def entry(images: np.ndarray, *, weights_sha256: str, dim: int, folder: Path | None) -> Entry:
    """The place of the rows of ``images``; nothing is read or written."""
    sums = hashlib.sha256(f"<f4{images.shape}".encode())
    sums.update(np.ascontiguousarray(images, dtype="<f4").data)
    header = {"format": _FORMAT, "images": sums.hexdigest(), "weights": weights_sha256}
    name = f"{header['images'][:24]}-{weights_sha256[:16]}.safetensors"
    return Entry(Path(folder or cache_folder() / "backbone") / name, (len(images), dim), header)


def read_rows(place: Entry) -> Float32[np.ndarray, "n dim"] | None:
    """The rows, or None where there are none to be believed."""
    try:
        with safe_open(place.path, framework="numpy") as file:
            header, rows = file.metadata() or {}, file.get_tensor("rows")
    except (
        OSError,
        SafetensorError,
        AttributeError,
        TypeError,
    ):  # the last two of types that NumPy does not have
        return None
    good = rows.dtype == np.float32 and rows.shape == place.shape and header == _header(place, rows)
    return rows if good else None


def kept_rows(place: Entry, rows: Float32[np.ndarray, "n dim"]) -> Float32[np.ndarray, "n dim"]:
    """``rows``, once they are whole on disk.

    Raises:
        OSError: the folder cannot be written or is full; the file that was there is untouched.
    """
    place.path.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.path.with_name(f".{place.path.name}.{os.getpid()}.partial")
    try:
        save_file({"rows": rows}, temporary, metadata=_header(place, rows))
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(place.path)
    except SafetensorError as error:
        raise OSError(
            f"cannot write {place.path}: {error}; free space or delete the folder"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
    return rows


def _header(place: Entry, rows: np.ndarray) -> dict[str, str]:
    return {
        **place.header,
        "rows": hashlib.sha256(np.ascontiguousarray(rows, dtype="<f4").data).hexdigest(),
    }
