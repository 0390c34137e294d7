"""What the tests of pacdp.data share."""

import gzip
import hashlib
import io
import struct

import numpy as np

from pacdp.data import DatasetEntry, FileEntry, registry

CODES = {"uint8": 0x08, "int32": 0x0C}


def idx_bytes(array):
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, CODES[array.dtype.name], array.ndim, *array.shape)
    return gzip.compress(head + array.astype(array.dtype.newbyteorder(">")).tobytes())


def npz_bytes(**arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def known(content):
    """What the registry says of a file of this content."""
    return FileEntry(size=len(content), sha256=hashlib.sha256(content).hexdigest())


def register(monkeypatch, root):
    """Make whatever lies in the folders under `root` the registered bytes, and forget PACDP_DATA and the cache."""
    entries = {
        str(folder.relative_to(root)): DatasetEntry(
            files={path.name: known(path.read_bytes()) for path in folder.iterdir() if path.is_file()},
            source="it is made up",
        )
        for folder in root.rglob("*")
        if folder.is_dir()
    }
    monkeypatch.setattr(registry, "REGISTRY", entries)
    monkeypatch.setattr(registry, "cache_folder", lambda: root / "cache")
    monkeypatch.delenv("PACDP_DATA", raising=False)
