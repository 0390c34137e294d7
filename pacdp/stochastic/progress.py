"""What a count has done so far, on disk: a checkpoint (:mod:`pacdp.store.checkpoint`) whose tensors are its sums.

The file belongs to one count: to its settings, weights and data, by their hash, and to what network and losses compute,
by their values on a few rows (a changed attribute, hook or line of code leaves the hash as it was). The checkpoint's
own hash covers every field, so that an edited or damaged file is refused.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from pacdp.errors import CheckpointError
from pacdp.posterior import GaussianPosterior
from pacdp.stochastic.risk import UNIT
from pacdp.store.checkpoint import Checkpoint, content_hash, load_checkpoint, save_checkpoint

_ROUNDING = 256.0
"""Units in the last place by which outputs may differ between machines and numbers of threads."""
_OF_LOSSES = 1e-3
"""The same for losses, in shares of their interval."""
_AGAIN = "delete it to count from the start"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What network and losses compute on a few rows."""

    outputs: Float64[Tensor, " values"]
    """Each row's by its own size, in [-1, 1]; NaN where it is not finite."""
    losses: Float64[Tensor, " others"]
    """In shares of each loss's interval."""
    rounding: float
    """By how much equal outputs may differ."""

    @classmethod
    def of(cls, outputs: Sequence[Tensor], losses: Sequence[Tensor]) -> "Signature":
        """The statistics of outputs [rows, ...], and of losses rescaled to [0, 1]."""
        rows = torch.cat([part.reshape(len(part), -1) for part in outputs]).detach().cpu()
        wide = rows.double()
        return cls(
            outputs=(wide / (1.0 + wide.abs().amax(dim=1, keepdim=True))).flatten(),
            losses=torch.cat([part.detach().cpu().double().flatten() for part in losses]),
            rounding=min(1e-2, _ROUNDING * torch.finfo(rows.dtype).eps),
        )

    def agrees(self, outputs: Tensor, losses: Tensor) -> bool:
        """Whether the numbers in a file are these."""
        return _alike(self.outputs, outputs, self.rounding) and _alike(
            self.losses, losses, _OF_LOSSES
        )


def _alike(ours: Tensor, theirs: Tensor, slack: float) -> bool:
    return ours.shape == theirs.shape and torch.allclose(
        ours, theirs.double(), rtol=0.0, atol=slack, equal_nan=True
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
        self._named = {"fingerprint": mark, "losses": list(losses)}
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
        sums = {
            "totals": torch.tensor(self.totals, dtype=torch.int64),
            "outputs": self._signature.outputs,
            "losses": self._signature.losses,
        }
        header = {**self._named, "jobs": self.jobs}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(
                f"cannot write {self._path}: {error}; choose another path"
            ) from error
        save_checkpoint(self._path, Checkpoint(header=header, model=sums, state={}))
        self._written = time.monotonic()

    def _read(self, path: Path) -> None:
        try:
            found = load_checkpoint(path)
            totals, outputs, losses = (
                found.model[name] for name in ("totals", "outputs", "losses")
            )
        except (CheckpointError, KeyError) as error:
            raise CheckpointError(f"{path} holds no sums of a count ({error}): {_AGAIN}") from error
        if {name: found.header.get(name) for name in self._named} != self._named:
            raise CheckpointError(
                f"{path} belongs to another count: data, posterior, losses, seed, passes, batch size and the number of "
                "ranks must be those it was started with; choose another path"
            )
        if not self._signature.agrees(outputs, losses):
            raise CheckpointError(
                f"{path} belongs to another network or loss: with these weights and rows it gave other values, so that "
                f"an attribute, a hook or the code has changed since; {_AGAIN}"
            )
        jobs: Any = found.header.get("jobs")
        if not self._possible(jobs, totals):
            raise CheckpointError(f"{path} holds sums that no count can reach: {_AGAIN}")
        self.jobs, self.totals = jobs, totals.tolist()

    def _possible(self, jobs: Any, totals: Tensor) -> bool:
        if type(jobs) is not int or not 0 <= jobs <= len(self._sizes):
            return False
        most = sum(self._sizes[:jobs]) * UNIT
        whole = totals.dtype == torch.int64 and totals.shape == (len(self.totals),)
        return whole and bool(((totals >= 0) & (totals <= most)).all())
