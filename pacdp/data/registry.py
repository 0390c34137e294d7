"""Where data files come from: a folder of yours, the cache, or a public mirror; always the same bytes.

A file is used only if its sha256 is the registered one, wherever it was found: readers are given no other bytes.
Whose data they are and who serves them stands in ``files.json``.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import platformdirs

from pacdp.data.errors import DataError
from pacdp.store.record import record


@runtime_checkable
class Progress(Protocol):
    """A progress bar as pooch drives it; tqdm's bars fit, and so does a few lines around any other."""

    total: float | None

    def update(self, n: int, /) -> object:
        """Another `n` bytes have arrived."""
        ...

    def reset(self) -> object:
        """Start again from zero."""
        ...

    def close(self) -> object:
        """The download is over."""
        ...


@record
class FileEntry:
    """What a file must be: its length in bytes and its sha256 in lowercase hex."""

    size: int
    sha256: str


@record
class DatasetEntry:
    """The files of one dataset by name, and where they come from.

    Attributes:
        files: what each file must be.
        mirrors: folders on the web that serve them, best first; none if nobody serves these very bytes.
        source: without mirrors, whose data they are and where the original is; it ends a sentence.
    """

    files: Mapping[str, FileEntry]
    mirrors: tuple[str, ...] = ()
    source: str = ""


REGISTRY = {
    folder: DatasetEntry(
        files={name: FileEntry(**known) for name, known in row["files"].items()},
        mirrors=tuple(row.get("mirrors", ())),
        source=row.get("source", ""),
    )
    for folder, row in json.loads(Path(__file__).with_name("files.json").read_text()).items()
}
"""The files of data sets by the name of their folder."""


Place = str | os.PathLike[str] | None
"""A folder of data sets that the user names, if any."""


class Where(NamedTuple):
    """Where a reader looks for its files; fields as the arguments of `locate`."""

    root: Place = None
    download: bool = True
    progressbar: bool | Progress = False

    def locate(self, file_name: str, dataset: str) -> Path:
        """`locate` there."""
        return locate(
            file_name, dataset, root=self.root, download=self.download, progressbar=self.progressbar
        )


def cache_folder() -> Path:
    """The folder that downloads go to: the user's cache folder of this operating system, then `pacdp`."""
    return Path(platformdirs.user_cache_dir("pacdp"))


def locate(
    file_name: str,
    dataset: str = "mnist",
    *,
    root: Place = None,
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
            file that is nowhere while `download` is False or no mirror serves it (the sentence says whose
            data it is), or a download that failed on every mirror.
    """
    entry = REGISTRY.get(dataset)
    if entry is None:
        raise DataError(
            f"dataset {dataset!r} is not registered; choose one of {', '.join(REGISTRY)}."
        )
    known = entry.files.get(file_name)
    if known is None:
        raise DataError(
            f"{dataset} has no file {file_name!r}; choose one of {', '.join(entry.files)}."
        )
    path = find(file_name, dataset, root=root)
    if path is not None:
        _verify(path, known)
        return path
    addresses = entry.mirrors if mirrors is None else tuple(mirrors)
    if not (download and addresses):
        places = ", ".join(str(folder / dataset) for folder in _folders(root))
        advice = (
            ", or allow the download"
            if addresses
            else f", because no mirror serves it ({entry.source})"
        )
        raise DataError(f"{file_name} is not in {places}; put it there{advice}.")
    from pacdp.data.download import fetch  # with pooch and requests, which take long to import

    target = cache_folder() / dataset / file_name
    fetch(addresses, target, sha256=known.sha256, progressbar=progressbar)
    return target


def find(file_name: str, dataset: str, *, root: Place = None) -> Path | None:
    """The first place where `locate` would look that has something of that name, unverified; None if none has.

    Raises:
        DataError: a `root` or PACDP_DATA that is no folder.
    """
    paths = (folder / dataset / file_name for folder in _folders(root))
    # a dangling link deserves its sentence, not a download
    return next((path for path in paths if os.path.lexists(path)), None)


def _folders(root: Place) -> list[Path]:
    """The folders the user named, the explicit one first; each must exist. Then the cache, which need not."""
    folders: list[Path] = []
    for source, named in {"root": root, "PACDP_DATA": os.environ.get("PACDP_DATA") or None}.items():
        if named is None:
            continue
        folder = Path(named).expanduser()
        if not folder.is_dir():
            raise DataError(
                f"{source} names {folder}, which is not a folder; create it or correct {source}."
            )
        folders.append(folder)
    return [*folders, cache_folder()]


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
