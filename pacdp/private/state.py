"""Checkpoints of private runs: the safetensors file of :mod:`pacdp.checkpoint` with what privacy needs in it.

The header carries ``kind`` "private-training/1", the logical step, the history of mechanisms, the adjacency, the public
numbers and, for the trainers, their settings; tensors carry weights, optimizer state, snapshots and generator states.
No code runs on load.

Generator states are there only for seeded runs, and they are secrets: with one, past and future noise can be
subtracted. Publish ``export`` of a seeded run or the weights alone, never its checkpoint. Runs on the operating
system's randomness have no such state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from opacus.optimizers import DPOptimizer
from torch import Tensor, nn

from pacdp.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from pacdp.errors import CheckpointError
from pacdp.private.modules import network
from pacdp.private.privacy_events import MechanismHistory
from pacdp.private.random_layers import layer_states, restore_layers
from pacdp.private.schedules import Schedule
from pacdp.step.noise import Randomness

KIND = "private-training/1"
_NUMBERS = (bool, int, float, str, type(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a checkpoint says besides the tensors that it put in place."""

    step: int
    history: MechanismHistory
    settings: Mapping[str, Any]
    extra: Mapping[str, Tensor]


def save_private(
    path: Path | str,
    *,
    module: nn.Module,
    optimizer: DPOptimizer,
    history: MechanismHistory,
    randomness: Randomness,
    settings: Mapping[str, Any] | None = None,
    extra: Mapping[str, Tensor] | None = None,
    about: Mapping[str, Any] | None = None,
    others: Sequence[Mapping[str, Tensor]] = (),
) -> None:
    """Write the run as it stands; the file that was there is replaced in one move.

    ``others`` are the :func:`own_states` of a distributed run's processes after the first, which writes.

    Raises:
        CheckpointError: the file cannot be written.
    """
    tensors, groups, scalars = _optimizer_state(optimizer)
    state = {f"optimizer.{key}": value for key, value in tensors.items()}
    state |= {f"randomness.{key}": value for key, value in randomness.state().items()}
    for rank, own in enumerate((own_states(module, optimizer), *others)):
        state |= {_prefix(rank) + key: value for key, value in own.items()}
    state |= {f"extra.{key}": value for key, value in (extra or {}).items()}
    header = {
        "kind": KIND,
        "step": optimizer.logical_step,  # pyright: ignore[reportAttributeAccessIssue]
        "history": history.to_dict(),
        "adjacency": history.adjacency,
        "clip_norm": optimizer.max_grad_norm,
        "expected_batch_size": optimizer.expected_batch_size,
        "optimizer": {"kind": type(optimizer.original_optimizer).__name__, "groups": groups, "scalars": scalars},
        "randomness": type(randomness).__name__,
        "processes": 1 + len(others),
        "settings": dict(settings or {}),
        "about": dict(about or {}),
    }
    model = {name: value.detach() for name, value in network(module).named_parameters()}
    save_checkpoint(path, Checkpoint(header=header, model=model, state=state))


def load_private(
    path: Path | str,
    *,
    module: nn.Module,
    optimizer: DPOptimizer,
    randomness: Randomness,
    settings: Mapping[str, Any] | None = None,
    rank: int = 0,
    processes: int = 1,
) -> Loaded:
    """Put a saved run back into ``module``, ``optimizer`` and ``randomness``; nothing is touched if it does not fit.

    Of a distributed run with ``processes`` processes this is number ``rank``. Their number may change between sittings
    unless each has generators of its own, for masks, weight draws or pre-noise.

    Raises:
        CheckpointError: another kind of file, network, optimizer, clipping, schedule, settings or randomness.
    """
    checkpoint = load_checkpoint(path)
    header = checkpoint.header
    if header.get("kind") != KIND:
        raise CheckpointError(f"{path} is no checkpoint of a private run (it says {header.get('kind')!r}): "
                              "its history of mechanisms is unknown, so training cannot go on from it")  # fmt: skip
    try:
        history = MechanismHistory.from_dict(header["history"])
        step, saved, kind = int(header["step"]), header["settings"], header["optimizer"]["kind"]
        groups, scalars = header["optimizer"]["groups"], header["optimizer"]["scalars"]
        public = {"clip_norm": header["clip_norm"], "expected_batch_size": header["expected_batch_size"]}
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path} lacks what a private run needs ({error}); take it from its source again"
        ) from error
    here = {"clip_norm": optimizer.max_grad_norm, "expected_batch_size": optimizer.expected_batch_size}
    _same(path, "settings", saved, dict(settings or {}))
    _same(path, "optimizer", kind, type(optimizer.original_optimizer).__name__)
    _same(path, "public numbers", public, here)
    parameters = dict(network(module).named_parameters())
    _same(path, "shapes of parameters", {k: tuple(v.shape) for k, v in checkpoint.model.items()},
          {k: tuple(v.shape) for k, v in parameters.items()})  # fmt: skip
    _check_schedule(path, optimizer.noise_schedule, history, step)  # pyright: ignore[reportAttributeAccessIssue]
    own, written_by = _part(checkpoint, _prefix(rank)), header.get("processes", 1)
    if own_states(module, optimizer):
        _same(path, "processes, each with random layers or pre-noise of its own", written_by, processes)
    try:
        randomness.restore(_part(checkpoint, "randomness."))
        restore_layers(module, {k.removeprefix("layer."): v for k, v in own.items() if k.startswith("layer.")})
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from error
    generator = getattr(optimizer, "pre_noise_generator", None)
    if generator is not None and "pre_noise" in own:
        generator.set_state(own["pre_noise"])
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(checkpoint.model[name])
    _restore_optimizer(optimizer, _part(checkpoint, "optimizer."), groups, scalars)
    optimizer.logical_step = step  # pyright: ignore[reportAttributeAccessIssue]
    return Loaded(step=step, history=history, settings=saved, extra=_part(checkpoint, "extra."))


def own_states(module: nn.Module, optimizer: DPOptimizer) -> dict[str, Tensor]:
    """States of the generators that each process of a distributed run has for itself."""
    states = {f"layer.{key}": value for key, value in layer_states(module).items()}
    generator = getattr(optimizer, "pre_noise_generator", None)
    return states if generator is None else {**states, "pre_noise": generator.get_state()}


def export(path: Path | str, *, module: nn.Module, history: MechanismHistory) -> None:
    """Write weights and history alone: what may be published.

    Raises:
        CheckpointError: the file cannot be written.
    """
    model = {name: value.detach() for name, value in network(module).named_parameters()}
    header = {"kind": "private-release/1", "history": history.to_dict(), "adjacency": history.adjacency}
    save_checkpoint(path, Checkpoint(header=header, model=model, state={}))


def _prefix(rank: int) -> str:
    return f"process{rank}." if rank else ""


def _part(checkpoint: Checkpoint, prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in checkpoint.state.items() if k.startswith(prefix)}


def _same(path: Path | str, what: str, saved: Any, here: Any) -> None:
    if saved != here:
        raise CheckpointError(
            f"{path} was written by a run with other {what}: {saved!r}, not {here!r}; resume with those"
        )


def _check_schedule(path: Path | str, schedule: Schedule, history: MechanismHistory, step: int) -> None:
    """The last ``step`` recorded mechanisms are this optimizer's (earlier ones are of earlier chains)."""
    recorded = [run.noise_multiplier for run in history.runs for _ in range(run.steps)][history.steps - step :]
    if len(recorded) != step or recorded != [float(schedule(t)) for t in range(step)]:
        raise CheckpointError(f"{path} records other noise multipliers for its {step} steps than noise_schedule gives: "
                              "resume with the schedule that it was trained with")  # fmt: skip


def _optimizer_state(optimizer: DPOptimizer) -> tuple[dict[str, Tensor], list[dict[str, Any]], dict[str, Any]]:
    full = optimizer.original_optimizer.state_dict()
    tensors, scalars = {}, {}
    for index, entries in full["state"].items():
        for name, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"{index}.{name}"] = value
            elif isinstance(value, _NUMBERS):
                scalars[f"{index}.{name}"] = value
            else:
                raise CheckpointError(f"the optimizer's state {name!r} is no tensor or number and cannot be saved")
    groups = [{k: list(v) if isinstance(v, tuple) else v for k, v in group.items()} for group in full["param_groups"]]
    return tensors, groups, scalars


def _restore_optimizer(optimizer: DPOptimizer, tensors: Mapping[str, Tensor], groups: list[dict[str, Any]],
                       scalars: Mapping[str, Any]) -> None:  # fmt: skip
    state: dict[int, dict[str, Any]] = {}
    for key, value in {**tensors, **scalars}.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = value
    optimizer.original_optimizer.load_state_dict({"state": state, "param_groups": groups})
