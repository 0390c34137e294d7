"""One file from the first mirror that serves it whole; what is not whole never gets the final name."""

import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import pooch
import requests

from pacdp.data.errors import DataError
from pacdp.data.progress import Progress

_ROUNDS = 2  # a mirror that failed in passing is asked once more, after the others
_TIMEOUT = (10.0, 30.0)  # seconds to connect, seconds of silence


class _WrongContent(Exception):
    """The mirror answered, with other bytes than the registered ones."""


class _Checked:
    """A file opened for writing that hashes what passes and refuses a byte too many."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._size = size
        self._sha256 = hashlib.sha256()
        self._written = 0

    def write(self, chunk: bytes) -> None:
        self._written += len(chunk)
        if self._written > self._size:
            raise _WrongContent(f"sent more than {self._size} bytes")
        self._sha256.update(chunk)
        self._file.write(chunk)

    def flush(self) -> None:
        """Nothing to do: the file is flushed when it is closed."""

    def require(self, sha256: str) -> None:
        if self._written < self._size:
            raise _WrongContent(f"sent {self._written} of {self._size} bytes")
        if self._sha256.hexdigest() != sha256:
            raise _WrongContent("sent a file with another sha256")


def fetch(
    mirrors: Sequence[str],
    target: Path,
    *,
    size: int,
    sha256: str,
    progressbar: bool | Progress = False,
) -> None:
    """Download `mirror/<target's name>` from the first mirror that serves it whole, into `target`.

    The bytes go to a temporary file in the target's folder, which is created; `target` appears by rename
    once length and sha256 are right. Whatever interrupts the download, the temporary file is removed.

    Args:
        mirrors: base addresses, http or https, tried in order; those that failed in passing (no connection,
            silence, a server's own fault) are tried a second time.
        target: the final path.
        size: length in bytes. No more than that is ever stored.
        sha256: lowercase hex.
        progressbar: True for pooch's own bar (needs tqdm), or an object with its members.

    Raises:
        DataError: no mirror served the file (the sentence names each and its fault), no mirror was given,
            the folder cannot be written, or tqdm is missing.
    """
    if not mirrors:
        raise DataError(f"mirrors is empty, so {target.name} cannot be downloaded; give at least one address.")
    downloader = _downloader(progressbar)
    faults: dict[str, str] = {}
    pending = list(mirrors)
    for _ in range(_ROUNDS):
        again: list[str] = []
        for mirror in pending:
            url = f"{mirror.rstrip('/')}/{target.name}"
            try:
                _fetch_one(downloader, url, target, size, sha256)
                return
            except _WrongContent as error:
                faults[mirror] = str(error)
            except requests.RequestException as error:
                faults[mirror] = _fault(error)
                if _in_passing(error):
                    again.append(mirror)
            except OSError as error:
                reason = error.strerror or type(error).__name__
                raise DataError(f"{target} cannot be written ({reason}); free or unlock its folder.") from None
            if not isinstance(progressbar, bool):
                progressbar.reset()
        pending = again
    listed = "; ".join(f"{mirror} {fault}" for mirror, fault in faults.items())
    raise DataError(
        f"{target.name} could not be downloaded ({listed}): check the connection, or put the file into "
        f"$PACDP_DATA/{target.parent.name}/ by hand."
    )


def _downloader(progressbar: bool | Progress) -> pooch.HTTPDownloader:
    # the files are gzipped already: a server that unpacks or packs them on the way changes their bytes
    headers = {"Accept-Encoding": "identity"}
    bar: Any = progressbar  # pooch annotates a bool and documents both
    try:
        return pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=_TIMEOUT, headers=headers)
    except ValueError:
        raise DataError("progressbar=True needs tqdm; install it or pass an object of your own.") from None


def _fetch_one(downloader: pooch.HTTPDownloader, url: str, target: Path, size: int, sha256: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            checked = _Checked(file, size)
            downloader(url, checked, None)
            checked.require(sha256)
        os.replace(name, target)
    finally:
        Path(name).unlink(missing_ok=True)


def _in_passing(error: requests.RequestException) -> bool:
    """Whether asking again may help: anything but a refusal by the server or an address that cannot be."""
    if error.response is not None:
        return error.response.status_code >= 500
    return not isinstance(error, ValueError)  # requests' invalid addresses are ValueErrors


def _fault(error: requests.RequestException) -> str:
    if error.response is not None:
        return f"answered {error.response.status_code}"
    if isinstance(error, requests.Timeout):
        return "did not answer in time"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "broke off"
    if isinstance(error, ValueError):
        return "is not an http address"
    return "could not be reached"
