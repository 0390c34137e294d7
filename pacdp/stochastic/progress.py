"""What a count has done so far, on disk: one JSON file that is always whole.

The file belongs to one count: to its settings, weights and data, by their hash, and to what network and losses compute,
by their values on a few rows (a changed attribute, hook or line of code leaves the hash as it was). Its own hash covers
every field, so that an edited or damaged file is refused.
"""

import hashlib
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pacdp.errors import CheckpointError
from pacdp.posterior import GaussianPosterior
from pacdp.store.files import replacing

FORMAT = "pacdp-monte-carlo/2"
_ROUNDING = 256.0
"""Units in the last place by which outputs may differ between machines and numbers of threads."""
_OF_LOSSES = 1e-3
"""The same for losses, in shares of their interval."""
_AGAIN = "delete it to count from the start"


@dataclass(slots=True, kw_only=True)
class Tally:
    """Sums of each loss, in units of 2⁻³², over the first ``jobs`` batches of one rank."""

    jobs: int = 0
    totals: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What network and losses compute on a few rows: numbers, None for those that are not finite."""

    outputs: list[float | None]
    """Each row's by its own size, in [-1, 1]."""
    losses: list[float | None]
    """In shares of each loss's interval."""
    rounding: float
    """By how much equal outputs may differ."""

    @classmethod
    def of(cls, outputs: Sequence[Tensor], losses: Sequence[Tensor]) -> "Signature":
        """The statistics of outputs [rows, ...], and of losses rescaled to [0, 1]."""
        rows = torch.cat([part.reshape(len(part), -1) for part in outputs]).detach().cpu()
        wide = rows.double()
        share = wide / (1.0 + wide.abs().amax(dim=1, keepdim=True))
        return cls(
            outputs=_numbers(share),
            losses=_numbers(torch.cat([part.cpu() for part in losses])),
            rounding=min(1e-2, _ROUNDING * torch.finfo(rows.dtype).eps),
        )

    def agrees(self, outputs: list[float | None], losses: list[float | None]) -> bool:
        """Whether the numbers in a file are these."""
        return _alike(self.outputs, outputs, self.rounding) and _alike(
            self.losses, losses, _OF_LOSSES
        )


def _numbers(values: Tensor) -> list[float | None]:
    return [
        float(f"{x:.9g}") if math.isfinite(x) else None for x in values.double().flatten().tolist()
    ]


def _alike(ours: list[float | None], theirs: list[float | None], slack: float) -> bool:
    return len(ours) == len(theirs) and all(
        (a is None and b is None) or (a is not None and b is not None and abs(a - b) <= slack)
        for a, b in zip(ours, theirs, strict=True)
    )


def fingerprint(
    settings: dict[str, Any],
    module: nn.Module,
    posterior: GaussianPosterior,
    inputs: Tensor,
    labels: Tensor,
) -> str:
    """SHA-256 of everything that a count depends on, losses' and layers' code excepted."""
    digest = hashlib.sha256(json.dumps([settings, repr(module)], sort_keys=True).encode())
    laws = (posterior.means, posterior.stds, posterior.buffers, posterior.factors)
    for tensors in (*laws, {"inputs": inputs, "labels": labels}):
        for name, value in tensors.items():
            digest.update(f"{name} {value.dtype} {tuple(value.shape)} ".encode())
            digest.update(
                value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
            )
    return digest.hexdigest()


class Saved:
    """A tally that is written to ``path`` every few seconds; with no path, nowhere.

    Args:
        mark: the count's :func:`fingerprint`.
        signature: what network and losses compute.
        jobs: how many examples each batch of this rank has.
        most: the largest value of a loss of one example.

    Raises:
        CheckpointError: the file that is there belongs to another count or another network, or is damaged or edited.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        losses: Sequence[str],
        mark: str,
        signature: Signature,
        jobs: Sequence[int],
        most: int,
        seconds: float,
    ) -> None:
        self._path, self._seconds = path, seconds
        self._named = {"format": FORMAT, "fingerprint": mark, "losses": list(losses)}
        self._signature, self._jobs, self._most = signature, jobs, most
        self._written = time.monotonic()
        self.tally = Tally(totals=[0] * len(losses))
        if path is not None and path.exists():
            self.tally = self._read(path)

    def keep(self, *, now: bool = False) -> None:
        """Write the tally if it is time, or ``now``; the old file stays whole until the new one is."""
        if self._path is None or not (now or time.monotonic() - self._written >= self._seconds):
            return
        values = {
            **self._named,
            "jobs": self.tally.jobs,
            "totals": self.tally.totals,
            "outputs": self._signature.outputs,
            "loss_values": self._signature.losses,
        }
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self._path) as file:
                file.write((json.dumps({**values, "content_hash": _hash(values)}) + "\n").encode())
        except OSError as error:
            raise CheckpointError(
                f"cannot write {self._path}: {error}; free space or choose another path"
            ) from error
        self._written = time.monotonic()

    def _read(self, path: Path) -> Tally:
        try:
            values = json.loads(path.read_text())
            if values["format"] != FORMAT:
                raise ValueError(f"its format is {values['format']!r}")
            whole = values.pop("content_hash") == _hash(values)
            named = {name: values[name] for name in self._named}
            tally = Tally(jobs=values["jobs"], totals=list(values["totals"]))
            same = whole and self._signature.agrees(values["outputs"], values["loss_values"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CheckpointError(f"{path} is no {FORMAT} file ({error}): {_AGAIN}") from error
        if not whole:
            raise CheckpointError(
                f"{path} is damaged or was edited, its content is not that of its hash: {_AGAIN}"
            )
        if named != self._named:
            raise CheckpointError(
                f"{path} belongs to another count: data, posterior, losses, seed, passes, batch and group sizes and "
                "the number of ranks must be those it was started with; choose another path"
            )
        if not same:
            raise CheckpointError(
                f"{path} belongs to another network or loss: with these weights and rows it gave other values, so that "
                f"an attribute, a hook or the code has changed since; {_AGAIN}"
            )
        if not self._possible(tally):
            raise CheckpointError(f"{path} holds sums that no count can reach: {_AGAIN}")
        return tally

    def _possible(self, tally: Tally) -> bool:
        if any(type(count) is not int for count in (tally.jobs, *tally.totals)):
            return False
        if len(tally.totals) != len(self._named["losses"]) or not 0 <= tally.jobs <= len(
            self._jobs
        ):
            return False
        return all(
            0 <= total <= sum(self._jobs[: tally.jobs]) * self._most for total in tally.totals
        )


def _hash(values: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
