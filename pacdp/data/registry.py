"""Where data files come from: a folder of yours, the cache, or a public mirror; always the same bytes.

A file is used only if its sha256 is the registered one, wherever it was found.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

import pooch

from pacdp.data.download import Progress, fetch
from pacdp.data.errors import DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """What a file must be: its length in bytes and its sha256 in lowercase hex."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetEntry:
    """The files of one dataset by name, and the folders on the web that serve them, best first."""

    files: Mapping[str, FileEntry]
    mirrors: tuple[str, ...]


# Yann LeCun, Corinna Cortes, Christopher Burges. The md5 sums that circulate belong to the same bytes.
_MNIST = DatasetEntry(
    files=MappingProxyType(
        {
            "train-images-idx3-ubyte.gz": FileEntry(
                size=9_912_422, sha256="440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"
            ),
            "train-labels-idx1-ubyte.gz": FileEntry(
                size=28_881, sha256="3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"
            ),
            "t10k-images-idx3-ubyte.gz": FileEntry(
                size=1_648_877, sha256="8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"
            ),
            "t10k-labels-idx1-ubyte.gz": FileEntry(
                size=4_542, sha256="f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"
            ),
        }
    ),
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "http://yann.lecun.com/exdb/mnist/",  # the origin; plain http is safe because the sha256 decides
    ),
)

REGISTRY: Mapping[str, DatasetEntry] = MappingProxyType({"mnist": _MNIST})


def cache_folder() -> Path:
    """The folder that downloads go to: the user's cache folder of this operating system, then `pacdp`."""
    return Path(pooch.os_cache("pacdp"))


def locate(
    file_name: str,
    dataset: str = "mnist",
    *,
    root: str | os.PathLike[str] | None = None,
    download: bool = True,
    mirrors: Sequence[str] | None = None,
    progressbar: bool | Progress = False,
) -> Path:
    """The path of a registered file, verified; downloaded into the cache if it is nowhere else.

    The first of these that exists is the one: `root/<dataset>/<file>`, `$PACDP_DATA/<dataset>/<file>`,
    `<cache>/<dataset>/<file>`. Its length and sha256 are then checked (once a process for a file that
    does not change).

    Args:
        file_name: a name in the registry, such as "train-images-idx3-ubyte.gz".
        dataset: a key of `REGISTRY`.
        root: a folder laid out like the one PACDP_DATA names.
        download: whether the mirrors may be asked.
        mirrors: base addresses to use instead of the registered ones, tried in order.
        progressbar: True for pooch's own bar (needs tqdm), or an object with its four members.

    Raises:
        DataError: unknown name, a `root` or PACDP_DATA that is no folder, a file with the wrong bytes, a
            file that is nowhere while `download` is False, or a download that failed on every mirror.
    """
    entry, known = _lookup(file_name, dataset)
    folders = [*_user_folders(root), cache_folder()]
    for folder in folders:
        path = folder / dataset / file_name
        if os.path.lexists(path):  # a dangling link deserves its sentence, not a download
            _verify(path, known)
            return path
    if not download:
        places = ", ".join(str(folder / dataset) for folder in folders)
        raise DataError(f"{file_name} is not in {places}; put it there, or allow the download.")
    target = folders[-1] / dataset / file_name
    fetch(
        tuple(entry.mirrors if mirrors is None else mirrors),
        target,
        size=known.size,
        sha256=known.sha256,
        progressbar=progressbar,
    )
    return target


def _lookup(file_name: str, dataset: str) -> tuple[DatasetEntry, FileEntry]:
    entry = REGISTRY.get(dataset)
    if entry is None:
        raise DataError(f"dataset {dataset!r} is not registered; choose one of {', '.join(REGISTRY)}.")
    known = entry.files.get(file_name)
    if known is None:
        raise DataError(f"{dataset} has no file {file_name!r}; choose one of {', '.join(entry.files)}.")
    return entry, known


def _user_folders(root: str | os.PathLike[str] | None) -> list[Path]:
    """The folders the user named, the explicit one first; each must exist."""
    named: list[tuple[str, str | os.PathLike[str]]] = []
    if root is not None:
        named.append(("root", root))
    if os.environ.get("PACDP_DATA"):
        named.append(("PACDP_DATA", os.environ["PACDP_DATA"]))
    folders: list[Path] = []
    for source, value in named:
        folder = Path(value).expanduser()
        if not folder.is_dir():
            raise DataError(f"{source} names {folder}, which is not a folder; create it or correct {source}.")
        folders.append(folder)
    return folders


def _verify(path: Path, known: FileEntry) -> None:
    try:
        state = path.stat()
        # a wrong length settles the matter without reading the file
        good = state.st_size == known.size and known.sha256 == _sha256(
            str(path.absolute()), state.st_size, state.st_mtime_ns
        )
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(f"{path} cannot be read ({reason}); check its permissions.") from None
    if not good:
        raise DataError(
            f"{path} is not the registered file (its length or sha256 differs); delete it or download it again."
        )


@lru_cache(maxsize=256)
def _sha256(path: str, size: int, mtime_ns: int) -> str:
    """sha256 of a file, computed once for each (path, size, time of last change)."""
    del size, mtime_ns
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
