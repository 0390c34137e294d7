"""What loops of one's own write: checkpoints in the form of :mod:`pacdp.resume`, and what may be published of them."""

from functools import partial
from pathlib import Path
from typing import cast

from torch import nn

from bounds.privacy import Adjacency
from pacdp.errors import CheckpointError
from pacdp.opacus.accountant import EventAccountant
from pacdp.opacus.guard import set_up
from pacdp.opacus.modules import network
from pacdp.opacus.optimizers import PrivateOptimizer
from pacdp.resume import RunState, export, load_run, save_run
from pacdp.schedules import Schedule
from pacdp.step import event as events
from pacdp.step.noise import Randomness


def save_loop(
    path: Path | str,
    module: nn.Module,
    optimizer: PrivateOptimizer,
    randomness: Randomness,
    accountant: EventAccountant,
) -> None:
    """Write the loop as it stands, and what ran so far."""
    state = _state(module, optimizer, randomness, accountant.adjacency)
    state.step, state.history = optimizer.logical_step, events.History(accountant.event)
    save_run(path, state, together=optimizer.account.together)


def load_loop(
    path: Path | str,
    module: nn.Module,
    optimizer: PrivateOptimizer,
    randomness: Randomness,
    accountant: EventAccountant,
) -> None:
    """Put a loop back and tell the accountant what ran before, and whether that gave the number of examples away.

    Raises:
        CheckpointError: as for :func:`pacdp.resume.load_run`, or another noise schedule than the history records.
    """
    state = _state(module, optimizer, randomness, None)
    check = partial(_require_schedule, path, optimizer.account.schedule)
    load_run(path, state, together=optimizer.account.together, check=check)
    optimizer.logical_step = state.step
    optimizer.guard.set_up = set_up(network(module))
    accountant.event = state.history.event
    accountant.public_size |= state.adjacency != events.ADJACENCY


def publish(
    folder: Path | str, module: nn.Module, accountant: EventAccountant, remark: str
) -> Path:
    """Write weights and event, with the neighbours that epsilon is for, into a new folder.

    Raises:
        ValueError: a folder that exists.
        CheckpointError: it cannot be written.
    """
    path = Path(folder) / "weights.safetensors"
    if path.parent.exists():
        raise ValueError(f"{folder} exists: give the name of a folder that is not there yet")
    path.parent.mkdir(parents=True)
    export(
        path,
        weights=dict(module.named_parameters()),
        event=accountant.event,
        adjacency=accountant.adjacency,
        remark=remark,
    )
    return path


def _state(
    module: nn.Module,
    optimizer: PrivateOptimizer,
    randomness: Randomness,
    adjacency: Adjacency | None,
) -> RunState:
    return RunState(
        module=network(module),
        optimizer=optimizer.original_optimizer,
        randomness=randomness,
        public={
            "clip_norm": cast(float, optimizer.max_grad_norm),
            "expected_batch_size": cast(float, optimizer.expected_batch_size),
        },
        settings={},
        adjacency=adjacency,
    )


def _require_schedule(path: Path | str, schedule: Schedule, read: RunState) -> None:
    """The last steps of the event are this optimizer's (earlier ones are of earlier chains)."""
    ran = read.history.event
    own = events.after(ran, events.steps_of(ran) - read.step)
    found = [step for step, count in events.runs_of(own) for _ in range(count)]
    for t, step in enumerate(found):
        rate = getattr(step, "sample_rate", 1.0)
        if step != events.sampled_step([float(schedule(t))], sample_rate=rate):
            raise CheckpointError(
                f"{path} records other noise multipliers for its {read.step} steps than noise_multiplier gives: "
                "resume with the schedule that it was trained with"
            )
