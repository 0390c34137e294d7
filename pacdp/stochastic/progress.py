"""What a count has done so far, on disk: one JSON file that is always whole."""

import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pacdp.errors import CheckpointError
from pacdp.posterior import GaussianPosterior

FORMAT = "pacdp-monte-carlo/1"


@dataclass(slots=True, kw_only=True)
class Tally:
    """Sums of each loss, in units of 2⁻³², over the first ``jobs`` batches of one rank."""

    jobs: int = 0
    totals: list[int] = field(default_factory=list)


def fingerprint(
    settings: dict[str, Any], module: nn.Module, posterior: GaussianPosterior, inputs: Tensor, labels: Tensor
) -> str:
    """SHA-256 of everything that a count depends on, losses' and layers' code excepted."""
    digest = hashlib.sha256(json.dumps([settings, repr(module)], sort_keys=True).encode())
    for tensors in (posterior.means, posterior.stds, posterior.buffers, {"inputs": inputs, "labels": labels}):
        for name, value in tensors.items():
            digest.update(f"{name} {value.dtype} {tuple(value.shape)} ".encode())
            digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


class Saved:
    """A tally that is written to ``path`` every few seconds; with no path, nowhere.

    Raises:
        CheckpointError: the file that is there belongs to another count, or is damaged.
    """

    def __init__(self, path: Path | None, *, losses: Sequence[str], mark: str, seconds: float) -> None:
        self._path, self._mark, self._seconds = path, mark, seconds
        self._losses = list(losses)
        self._written = time.monotonic()
        self.tally = Tally(totals=[0] * len(self._losses))
        if path is not None and path.exists():
            self.tally = _read(path, mark, len(self._losses))

    def keep(self, *, now: bool = False) -> None:
        """Write the tally if it is time, or ``now``; the old file stays whole until the new one is."""
        if self._path is None or not (now or time.monotonic() - self._written >= self._seconds):
            return
        values = {
            "format": FORMAT, "fingerprint": self._mark, "losses": self._losses, "jobs": self.tally.jobs,
            "totals": self.tally.totals,
        }  # fmt: skip
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}.partial")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(values) + "\n")
            temporary.replace(self._path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise CheckpointError(f"cannot write {self._path}: {error}; free space or choose another path") from error
        self._written = time.monotonic()


def _read(path: Path, mark: str, losses: int) -> Tally:
    try:
        values = json.loads(path.read_text())
        tally = Tally(jobs=int(values["jobs"]), totals=[int(total) for total in values["totals"]])
        whole = values["format"] == FORMAT and len(tally.totals) == losses and min(tally.jobs, *tally.totals) >= 0
        theirs = values["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is no {FORMAT} file ({error}): delete it to count from the start") from error
    if theirs != mark:
        raise CheckpointError(
            f"{path} belongs to another count: data, posterior, losses, seed, passes, batch and group sizes and the "
            "number of ranks must be those it was started with; choose another path"
        )
    if not whole:
        raise CheckpointError(f"{path} is damaged: delete it to count from the start")
    return tally
