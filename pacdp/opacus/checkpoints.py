"""What loops of one's own write: checkpoints in the form of :mod:`pacdp.resume`, and what may be published of them."""

from functools import partial
from pathlib import Path
from typing import cast

from torch import nn

from bounds.accounting import Event
from pacdp.errors import CheckpointError
from pacdp.opacus.modules import network
from pacdp.opacus.optimizers import PrivateOptimizer
from pacdp.opacus.tried import set_up
from pacdp.resume import RunState, export_weights, load_run, save_run
from pacdp.schedules import Schedule
from pacdp.step import event as events
from pacdp.step.noise import Randomness


def save_loop(
    path: Path | str,
    module: nn.Module,
    optimizer: PrivateOptimizer,
    randomness: Randomness,
    event: Event | None,
) -> None:
    """Write the loop as it stands, and what ran so far."""
    state = _state(module, optimizer, randomness)
    state.step, state.history = optimizer.logical_step, events.History(event)
    save_run(path, state, together=optimizer.together)


def load_loop(
    path: Path | str, module: nn.Module, optimizer: PrivateOptimizer, randomness: Randomness
) -> Event | None:
    """Put a loop back and return what ran before.

    Raises:
        CheckpointError: as for :func:`pacdp.resume.load_run`, or another noise schedule than the history records.
    """
    state = _state(module, optimizer, randomness)
    check = partial(_require_schedule, path, optimizer.noise_schedule)
    load_run(path, state, together=optimizer.together, check=check)
    optimizer.logical_step = state.step
    optimizer.guard.set_up = set_up(network(module))
    return state.history.event


def publish(folder: Path | str, module: nn.Module, event: Event, remark: str) -> Path:
    """Write weights and event into a new folder.

    Raises:
        ValueError: a folder that exists.
        CheckpointError: it cannot be written.
    """
    path = Path(folder) / "weights.safetensors"
    if path.parent.exists():
        raise ValueError(f"{folder} exists: give the name of a folder that is not there yet")
    path.parent.mkdir(parents=True)
    export_weights(path, weights=dict(module.named_parameters()), event=event, remark=remark)
    return path


def _state(module: nn.Module, optimizer: PrivateOptimizer, randomness: Randomness) -> RunState:
    generator = getattr(module, "generator", None)
    return RunState(
        module=network(module),
        optimizer=optimizer.original_optimizer,
        randomness=randomness,
        public={
            "clip_norm": cast(float, optimizer.max_grad_norm),
            "expected_batch_size": cast(float, optimizer.expected_batch_size),
        },
        settings={},
        generators={} if generator is None else {"pre_noise": generator},
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
