"""Snapshots of a run, and the ensemble they make on the test set."""

from bisect import bisect_right
from pathlib import Path

import torch
from torch import Tensor

from pacdp.chains.snapshots import file_bytes, resume_snapshots
from pacdp.cli.folder import require_space
from pacdp.cli.serial import Values
from pacdp.errors import CheckpointError
from pacdp.losses import error_count
from pacdp.objective import Objective
from pacdp.uncertainty import PredictiveAverage


class Ensemble:
    """The snapshots of one chain in ``folder``, one after each of some steps."""

    def __init__(self, folder: Path, steps: tuple[int, ...], test: Objective, *, step: int) -> None:
        self._steps, self._test, self._layout = steps, test, test.layout
        self._store = resume_snapshots(folder, up_to_step=step)
        if len(self._store) != (taken := bisect_right(steps, step)):
            raise CheckpointError(
                f"{folder} holds {len(self._store)} snapshots up to step {step}, where the run took {taken}: restore "
                "them, or overwrite the run with --force"
            )
        size = (len(steps) - taken) * file_bytes(self._layout.shapes)
        require_space(folder.parent, bytes_needed=size)

    def next_after(self, step: int) -> int | None:
        """The next step that leaves a snapshot."""
        return next((one for one in self._steps if one > step), None)

    def see(self, step: int, weights: Tensor) -> None:
        """Take the weights [dim] after ``step`` steps if they are a snapshot."""
        if step in self._steps:
            self._store.append(step, self._layout.views(weights.cpu()))

    def summary(self) -> Values:
        """Error and mean uncertainty of the mean prediction on the test set."""
        average = PredictiveAverage()
        for _, weights in self._store:
            logits = self._test.logits(self._layout.flatten(weights).to(self._test.device)).double()
            if logits.numel() == len(logits):
                logits = torch.stack([torch.zeros_like(logits.flatten()), logits.flatten()], dim=1)
            average.add(torch.softmax(logits, dim=1).cpu().numpy())
        if not average.members:
            return {"snapshots": 0}
        seen, labels = average.result(), self._test.labels[0].cpu()
        mean = torch.from_numpy(seen.probabilities)
        true = mean.gather(1, labels[:, None]).clamp_min(torch.finfo(torch.float64).tiny)
        return {
            "snapshots": average.members,
            "test_error": error_count(mean, labels) / len(labels),
            "test_nll": float(-true.log().mean()),
            "entropy_nats": float(seen.predictive_entropy_nats.mean()),
            "mutual_information_nats": float(seen.mutual_information_nats.mean()),
        }
