"""One file from the first mirror that serves it whole; pooch downloads, and nothing else gets the final name."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pooch
import requests

from pacdp.data.errors import DataError
from pacdp.data.registry import Progress

_TIMEOUT = (10.0, 30.0)  # seconds to connect, seconds of silence


def fetch(
    mirrors: Sequence[str], target: Path, *, sha256: str, progressbar: bool | Progress = False
) -> None:
    """Download `mirror/<target's name>` from the first mirror that serves it whole, into `target`.

    Pooch writes a temporary file in the target's folder, which is created; `target` appears by rename once its sha256
    is right, and whatever interrupts the download, the temporary file is removed.

    Args:
        mirrors: base addresses, http or https, tried in order, and once more if all of them failed.
        target: the final path.
        sha256: lowercase hex.
        progressbar: True for pooch's own bar (needs tqdm), or an object with its members.

    Raises:
        DataError: no mirror served the file (the sentence names each and its fault), the folder cannot be written, or
            tqdm is missing.
    """
    pooch.get_logger().setLevel("WARNING")
    downloader = _downloader(progressbar)
    faults: dict[str, str] = {}
    for mirror in (*mirrors, *mirrors):
        url = f"{mirror.rstrip('/')}/{target.name}"
        try:
            pooch.retrieve(
                url, f"sha256:{sha256}", target.name, target.parent, downloader=downloader
            )
            return
        except requests.RequestException as error:
            faults[mirror] = str(error) or type(error).__name__
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise DataError(
                f"{target} cannot be written ({reason}); free or unlock its folder."
            ) from None
        except ValueError:
            faults[mirror] = "sent a file with another sha256"
        if not isinstance(progressbar, bool):
            progressbar.reset()
    listed = "; ".join(f"{mirror}: {fault}" for mirror, fault in faults.items())
    raise DataError(
        f"{target.name} could not be downloaded: check the connection, or put the file into "
        f"$PACDP_DATA/{target.parent.name}/ by hand ({listed})."
    )


def _downloader(progressbar: bool | Progress) -> Any:  # of whose type pooch.retrieve says nothing
    # the files are gzipped already: a server that unpacks or packs them on the way changes their bytes
    headers = {"Accept-Encoding": "identity"}
    bar: Any = progressbar  # pooch annotates a bool and documents both
    try:
        return pooch.HTTPDownloader(
            progressbar=bar, chunk_size=1 << 16, timeout=_TIMEOUT, headers=headers
        )
    except ValueError:
        raise DataError(
            "progressbar=True needs tqdm; install it or pass an object of your own."
        ) from None
