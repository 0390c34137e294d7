"""What a count has done so far, on disk: one JSON file that is always whole.

The file belongs to one count: to its settings, weights and data, by their hash, and to what network and losses compute,
by their values on a few rows (a changed attribute, hook or line of code leaves the hash as it was). Its own hash covers
every field, so that an edited or damaged file is refused.
"""

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pacdp.errors import CheckpointError
from pacdp.posterior import GaussianPosterior
from pacdp.stochastic.risk import UNIT
from pacdp.store.canonical import chained, follows
from pacdp.store.checkpoint import content_hash
from pacdp.store.files import replacing

FORMAT = "pacdp-monte-carlo/3"
_ROUNDING = 256.0
"""Units in the last place by which outputs may differ between machines and numbers of threads."""
_OF_LOSSES = 1e-3
"""The same for losses, in shares of their interval."""
_AGAIN = "delete it to count from the start"


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
    parts = {
        "means": posterior.means,
        "stds": posterior.stds,
        "buffers": posterior.buffers,
        "factors": posterior.factors,
        "data": {"inputs": inputs, "labels": labels},
    }
    tensors = {
        f"{part}.{name}": value.detach().cpu()
        for part, named in parts.items()
        for name, value in named.items()
    }
    return content_hash({**settings, "module": repr(module)}, tensors)


class Saved:
    """Sums of each loss over the first batches of one rank, which are written to ``path`` every few seconds.

    Args:
        path: None for a count that nobody resumes.
        mark: the count's :func:`fingerprint`.
        signature: what network and losses compute.
        sizes: how many examples each batch of this rank has.

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
        sizes: Sequence[int],
        seconds: float,
    ) -> None:
        self._path, self._seconds = path, seconds
        self._named = {"format": FORMAT, "fingerprint": mark, "losses": list(losses)}
        self._signature, self._sizes = signature, sizes
        self._written = time.monotonic()
        self.jobs = 0
        """How many batches were counted."""
        self.totals = [0] * len(losses)
        """In units of 2⁻³²."""
        if path is not None and path.exists():
            self._read(path)

    def keep(self, *, now: bool = False) -> None:
        """Write the sums if it is time, or ``now``; the old file stays whole until the new one is."""
        if self._path is None or not (now or time.monotonic() - self._written >= self._seconds):
            return
        values = {
            **self._named,
            "jobs": self.jobs,
            "totals": self.totals,
            "outputs": self._signature.outputs,
            "loss_values": self._signature.losses,
        }
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self._path) as file:
                file.write(json.dumps(chained(values, after="")).encode())
        except OSError as error:
            raise CheckpointError(
                f"cannot write {self._path}: {error}; free space or choose another path"
            ) from error
        self._written = time.monotonic()

    def _read(self, path: Path) -> None:
        try:
            values = json.loads(path.read_text())
            if values["format"] != FORMAT:
                raise ValueError(f"its format is {values['format']!r}")
            named = {name: values[name] for name in self._named}
            jobs, totals = values["jobs"], list(values["totals"])
            same = self._signature.agrees(values["outputs"], values["loss_values"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CheckpointError(f"{path} is no {FORMAT} file ({error}): {_AGAIN}") from error
        if not follows(values, after=""):
            raise CheckpointError(
                f"{path} is damaged or was edited, its content is not that of its hash: {_AGAIN}"
            )
        if named != self._named:
            raise CheckpointError(
                f"{path} belongs to another count: data, posterior, losses, seed, passes, batch size and "
                "the number of ranks must be those it was started with; choose another path"
            )
        if not same:
            raise CheckpointError(
                f"{path} belongs to another network or loss: with these weights and rows it gave other values, so that "
                f"an attribute, a hook or the code has changed since; {_AGAIN}"
            )
        if not self._possible(jobs, totals):
            raise CheckpointError(f"{path} holds sums that no count can reach: {_AGAIN}")
        self.jobs, self.totals = jobs, totals

    def _possible(self, jobs: Any, totals: list[Any]) -> bool:
        if any(type(count) is not int for count in (jobs, *totals)):
            return False
        if len(totals) != len(self.totals) or not 0 <= jobs <= len(self._sizes):
            return False
        return all(0 <= total <= sum(self._sizes[:jobs]) * UNIT for total in totals)
