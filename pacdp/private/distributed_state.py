"""Checkpoints of runs on one process or several: the first writes one file for all, which all read.

The file is that of :mod:`pacdp.private.state`, with the generator states of every process that has some of its own.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from opacus.optimizers import DPOptimizer
from torch import Tensor, nn

from pacdp.errors import CheckpointError
from pacdp.private.distributed import RankRandomness, SummedOverProcesses
from pacdp.private.privacy_events import MechanismHistory
from pacdp.private.processes import gathered, process_count, process_rank, require_agreement, totals
from pacdp.private.state import Loaded, load_private, own_states, save_private
from pacdp.step.noise import Randomness


def save_together(
    path: Path | str,
    *,
    module: nn.Module,
    optimizer: DPOptimizer,
    history: MechanismHistory,
    randomness: Randomness,
    settings: Mapping[str, Any] | None = None,
    extra: Mapping[str, Tensor] | None = None,
    about: Mapping[str, Any] | None = None,
) -> None:
    """:func:`pacdp.private.state.save_private`, by the first process; the file is there when any returns.

    Raises:
        CheckpointError: the file cannot be written.
    """
    base = randomness.base if isinstance(randomness, RankRandomness) else randomness
    whole = {"module": module, "optimizer": optimizer, "history": history, "randomness": base, "settings": settings,
             "extra": extra, "about": about}  # fmt: skip
    if not isinstance(optimizer, SummedOverProcesses):
        save_private(path, **whole)
        return
    device = next(module.parameters()).device
    others = _states_of_others(own_states(module, optimizer), device)
    failure: Exception | None = None
    if process_rank() == 0:
        try:
            save_private(path, **whole, others=others)
        except Exception as error:  # the others wait to hear of it, whatever it is
            failure = error
    (failures,) = totals([0.0 if failure is None else 1.0], device)
    if failures:
        raise failure or CheckpointError(f"the first process could not write {path}: its own message says why")


def load_together(
    path: Path | str,
    *,
    module: nn.Module,
    optimizer: DPOptimizer,
    randomness: Randomness,
    settings: Mapping[str, Any] | None = None,
) -> Loaded:
    """:func:`pacdp.private.state.load_private` at every process.

    Raises:
        CheckpointError: the same; or another number of processes, where each has generators of its own.
    """
    several = isinstance(optimizer, SummedOverProcesses)
    rank, processes = (process_rank(), process_count()) if several else (0, 1)
    return load_private(path, module=module, optimizer=optimizer, randomness=randomness, settings=settings,
                        rank=rank, processes=processes)  # fmt: skip


def found(path: Path, optimizer: DPOptimizer) -> bool:
    """Whether there is a file at ``path``: at every process the same one, or none.

    Raises:
        CheckpointError: some processes see another file than others.
    """
    content = _digest(path) if path.is_file() else None
    if isinstance(optimizer, SummedOverProcesses):
        claims = {"the checkpoint (its path must be on storage that all of them share)": content}
        require_agreement(claims, optimizer.params[0].device, error=CheckpointError)
    return content is not None


def _states_of_others(own: Mapping[str, Tensor], device: torch.device) -> list[dict[str, Tensor]]:
    """The same states at the processes after the first, by rank."""
    if not own:
        return [{} for _ in range(1, process_count())]
    _, *others = gathered(torch.cat([value.reshape(-1) for value in own.values()]), device)
    sizes = [value.numel() for value in own.values()]
    return [dict(zip(own, message.split(sizes), strict=True)) for message in others]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
