"""Snapshots of a run, and the ensemble they make on the test set, while the run goes on."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pacdp.chains.snapshots import Thinning, file_bytes, resume_snapshots
from pacdp.cli.folder import require_space
from pacdp.errors import CheckpointError
from pacdp.losses import error_count
from pacdp.objective import Objective
from pacdp.uncertainty import PredictiveAverage


class Ensemble:
    """The snapshots of one chain in ``folder`` and the mean of their predictions on the test set.

    The average is rebuilt from the folder on resumption, so that both end as if never interrupted.
    """

    def __init__(
        self, folder: Path, thinning: Thinning, objective: Objective, test: Objective, *, step: int
    ) -> None:
        self._thinning, self._layout = thinning, objective.layout
        self._test, self._average = test, PredictiveAverage()
        self._store = resume_snapshots(folder, up_to_step=step)
        if len(self._store) != thinning.count(step):
            raise CheckpointError(
                f"{folder} holds {len(self._store)} snapshots up to step {step}, where the run took "
                f"{thinning.count(step)}: restore them, or overwrite the run with --force"
            )
        left = thinning.keep - len(self._store)
        require_space(folder.parent, bytes_needed=left * file_bytes(self._layout.shapes))
        for _, weights in self._store:
            self._add(self._layout.flatten(weights).to(test.device))

    def next_after(self, step: int) -> int | None:
        """The next step that leaves a snapshot."""
        taken = self._thinning.count(step)
        return (
            None
            if taken == self._thinning.keep
            else self._thinning.burn_in + (taken + 1) * self._thinning.every
        )

    def see(self, step: int, weights: Tensor) -> None:
        """Take the weights [dim] after ``step`` steps if they are a snapshot."""
        if self._thinning.takes(step):
            self._store.append(step, self._layout.views(weights.cpu()))
            self._add(weights)

    def _add(self, weights: Tensor) -> None:
        logits = self._test.logits(weights).double()
        if logits.numel() == len(logits):
            logits = torch.stack([torch.zeros_like(logits.flatten()), logits.flatten()], dim=1)
        self._average.add(torch.softmax(logits, dim=1).cpu().numpy())

    def summary(self) -> dict[str, Any]:
        """Error and mean uncertainty of the mean prediction on the test set."""
        if not self._average.members:
            return {"snapshots": 0}
        seen, labels = self._average.result(), self._test.labels[0].cpu()
        mean = torch.from_numpy(seen.probabilities)
        true = mean.gather(1, labels[:, None]).clamp_min(torch.finfo(torch.float64).tiny)
        return {
            "snapshots": self._average.members,
            "test_error": error_count(mean, labels) / len(labels),
            "test_nll": float(-true.log().mean()),
            "entropy_nats": float(seen.predictive_entropy_nats.mean()),
            "mutual_information_nats": float(seen.mutual_information_nats.mean()),
        }
