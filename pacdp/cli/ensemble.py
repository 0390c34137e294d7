"""Snapshots of a run, and the ensemble they make on the test set."""

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

import torch

from pacdp.chains.snapshots import Snapshots, file_bytes, resume_snapshots
from pacdp.cli.folder import require_space
from pacdp.cli.serial import Values
from pacdp.errors import CheckpointError
from pacdp.losses import error_count
from pacdp.objective import Objective
from pacdp.uncertainty import PredictiveAverage


def taken(folder: Path, steps: Sequence[int], test: Objective, *, step: int) -> Snapshots:
    """The snapshots of a chain in a folder, one after each of some steps, as of the step where it stands.

    Raises:
        CheckpointError: some are missing.
        ValueError: there is no room for those to come.
    """
    found, made = resume_snapshots(folder, up_to_step=step), bisect_right(steps, step)
    if len(found) != made:
        raise CheckpointError(
            f"{folder} holds {len(found)} snapshots up to step {step}, where the run took {made}: restore them, or "
            "overwrite the run with --force"
        )
    size = (len(steps) - made) * file_bytes(test.layout.shapes)
    require_space(folder.parent, bytes_needed=size)
    return found


def summary(snapshots: Snapshots, test: Objective) -> Values:
    """Error and mean uncertainty of the mean prediction on the test set."""
    average = PredictiveAverage()
    for _, weights in snapshots:
        logits = test.logits(test.layout.flatten(weights).to(test.device)).double()
        if logits.numel() == len(logits):
            logits = torch.stack([torch.zeros_like(logits.flatten()), logits.flatten()], dim=1)
        average.add(torch.softmax(logits, dim=1).cpu().numpy())
    if not average.members:
        return {"snapshots": 0}
    seen, labels = average.result(), test.labels[0].cpu()
    mean = torch.from_numpy(seen.probabilities)
    true = mean.gather(1, labels[:, None]).clamp_min(torch.finfo(torch.float64).tiny)
    return {
        "snapshots": average.members,
        "test_error": error_count(mean, labels) / len(labels),
        "test_nll": float(-true.log().mean()),
        "entropy_nats": float(seen.predictive_entropy_nats.mean()),
        "mutual_information_nats": float(seen.mutual_information_nats.mean()),
    }
