"""Checkpoints of private runs, on one process or several: all that is needed to go on bit for bit, and what it cost.

Those of chains are :mod:`pacdp.certify.chain_files`, and :mod:`pacdp.cli.run` takes them up.

The file is that of :mod:`pacdp.store.checkpoint`. Its header carries ``kind`` "private-run/1", the step, the event
(what ran, for the accountant), the adjacency, the public numbers and, for the trainers, their settings; tensors carry
weights, optimizer state, snapshots and generator states. No code runs on load. Of several processes the first writes,
with the generator states of every process that has some of its own, and all read.

Generator states are there only for seeded runs, and they are secrets: with one, past and future noise can be
subtracted. Publish ``export`` of a run, never its checkpoint. Runs on the operating system's randomness have no such
state, but for the places of the examples where a run once an epoch stands within one, which are as secret.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn, optim

from bounds.accounting import Event, event_from_dict, event_to_dict
from bounds.privacy import Adjacency, one_of
from pacdp.errors import CheckpointError, require_finite
from pacdp.layers.random import forget_draws, generators, seed_layers
from pacdp.step import event as events
from pacdp.step.event import History
from pacdp.step.noise import Randomness
from pacdp.step.processes import (
    Together,
    gathered,
    process_count,
    process_rank,
    require_agreement,
)
from pacdp.store.canonical import canonical
from pacdp.store.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from pacdp.store.reservation import new_run

KIND = "private-run/1"
RELEASE = "private-release/1"
_MOVING = "step history adjacency chosen clip_norm run receipt snapshots".split()
"""What a run that goes on has of its checkpoint, beside tensors."""
_SNAPSHOTS = "extra.snapshots"
_LAYER = "layer."
_OF_A_NAME = 2**10
"""Bytes for what a checkpoint says of one weight and of what an optimizer keeps of it."""
_OF_A_GENERATOR = 2**13
_NUMBERS = bool | int | float | str | None


@runtime_checkable
class Stateful(Protocol):
    """A generator, or what else each process has for itself."""

    def get_state(self) -> Tensor:
        """Bytes, as many at each process."""
        ...

    def set_state(self, state: Tensor, /) -> Any:
        """Take them back."""
        ...


@dataclass(slots=True, kw_only=True)
class RunState:
    """A run as it stands: what moves, and what must be the same when it goes on."""

    module: nn.Module
    optimizer: optim.Optimizer | None
    randomness: Randomness
    public: Mapping[str, float]
    """Clip norm, divisor and the like."""
    settings: Any
    """The algorithm's numbers and the mechanism's, as JSON values."""
    generators: Mapping[str, Stateful] = field(default_factory=dict)
    """Further generators of this process, by name; and the places of its examples in an epoch."""
    run: str = field(default_factory=new_run)
    """The run's name in a ledger; without one it is written nowhere, so that equal runs have equal checkpoints."""
    receipt: Mapping[str, Any] | None = None
    """Which entry of which ledger counts the last steps; None without a ledger."""
    step: int = 0
    clip_norm: float | None = None
    """C_t of the next step, where it adapts."""
    history: History = field(default_factory=History)
    """What ran, on this data set, in this run and in those that it composes with."""
    adjacency: Adjacency | None = events.ADJACENCY
    """The neighbours that its epsilon is for; None to take those that a checkpoint names."""
    chosen: list[int] = field(default_factory=list)
    """The candidate that each step chose, for algorithms that choose."""
    snapshots: list[Tensor] = field(default_factory=list)

    def kept(self) -> dict[str, Stateful]:
        """What of this process goes on from a checkpoint, by name. Masks, weight draws and pre-noise of the system are
        drawn anew, as its noise is: an example's depend on its place in the batch, and two releases that share them are
        no two mechanisms.
        """
        layers = {f"{_LAYER}{name}": one for name, one in generators(self.module).items()}
        seeded = bool(self.randomness.state())
        return {
            name: one
            for name, one in (layers | {**self.generators}).items()
            if seeded or not isinstance(one, torch.Generator)
        }


def save_run(
    path: Path | str, state: RunState, *, together: Together, about: Mapping[str, Any] | None = None
) -> None:
    """Write the run as it stands, replacing the file in one move; it is there when any process returns.

    Raises:
        CheckpointError: the file cannot be written.
    """
    device = next(state.module.parameters()).device
    others = _states_of_others(_states(state), device) if together.several else ()
    says = f"the first process could not write {path}: its own message says why"
    together.first_does(
        lambda: _write(path, state, about, others), device, otherwise=CheckpointError(says)
    )


def bytes_of(
    state: RunState, *, promise: Event | None, about: Mapping[str, Any] | None, snapshots: int
) -> int:
    """As many bytes as the next checkpoint may take, or some more.

    Args:
        promise: what the whole run releases.
        snapshots: how many more there will be.
    """
    groups = [] if state.optimizer is None else state.optimizer.param_groups
    moments = max(
        (2 if "betas" in one else int(bool(one.get("momentum"))) for one in groups), default=0
    )
    copies = 1 + moments + len(state.snapshots) + snapshots
    weights = sum(p.nbytes * copies + _OF_A_NAME for p in state.module.parameters())
    said = json.dumps([state.settings, _record(promise), about and dict(about)], default=str)
    generators = (2 + len(state.kept())) * process_count() * _OF_A_GENERATOR
    return weights + 2 * len(said) + 8 * events.steps_of(promise) + generators


def make_room(
    path: Path, take: Callable[[], None], *, together: Together, device: torch.device
) -> None:
    """Take up room for the next checkpoint, at the first process, before the steps up to it are paid for.

    Raises:
        CheckpointError: there is none.
    """

    def taken() -> None:
        try:
            take()
        except OSError as error:
            raise CheckpointError(
                f"cannot write checkpoint {path}: {error.strerror}; free space or choose another folder: nothing was "
                "drawn for the steps that it was to keep"
            ) from error

    says = f"the first process has no room for {path}: its own message says why"
    together.first_does(taken, device, otherwise=CheckpointError(says))


def load_run(
    path: Path | str,
    state: RunState,
    *,
    together: Together,
    check: Callable[[RunState], None] = lambda read: None,
) -> None:
    """Put a saved run back into ``state``; nothing is touched if it does not fit, or if ``check`` of it raises.

    The number of processes may change between sittings unless each has generators of its own, for masks, weight draws
    or pre-noise.

    Raises:
        CheckpointError: another kind of file, network, optimizer, settings, public numbers or randomness.
    """
    checkpoint = load_checkpoint(path)
    header = checkpoint.header
    if header.get("kind") != KIND:
        raise CheckpointError(
            f"{path} is no checkpoint of a private run (it says {header.get('kind')!r}, not {KIND!r}): what ran is "
            "unknown, so training cannot go on from it"
        )
    device = next(state.module.parameters()).device
    snapshots = checkpoint.state.get(_SNAPSHOTS, ())
    parameters = dict(state.module.named_parameters())
    try:
        counted = header["ledger"] or {"run": state.run, "receipt": None}
        read = replace(
            state,
            step=int(header["step"]),
            history=History(read_event(header)),
            adjacency=header["adjacency"],
            chosen=[int(one) for one in header["chosen"]],
            clip_norm=header.get("clip_norm"),
            run=str(counted["run"]),
            receipt=counted["receipt"],
            snapshots=[one.to(device) for one in snapshots],
        )
        optimizer: dict[str, Any] = header["optimizer"] or {"kind": None}
        if read.clip_norm is not None:
            require_finite(clip_norm=read.clip_norm)
        same = {
            "neighbours": (read.adjacency, state.adjacency or read.adjacency),
            "settings": (header["settings"], state.settings),
            "optimizer": (optimizer["kind"], _kind(state.optimizer)),
            "public numbers": ({k: header["public"][k] for k in state.public}, {**state.public}),
            "clipping": (read.clip_norm is None, state.clip_norm is None),
            "shapes of parameters": (_shapes(checkpoint.model), _shapes(parameters)),
        }
        rank, processes = (process_rank(), process_count()) if together.several else (0, 1)
        kept, own = state.kept(), _part(checkpoint, _prefix(rank))
        if kept:
            each = "processes, each with random layers, pre-noise or places of its own"
            same[each] = int(header["processes"]), processes
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path} lacks what a private run needs ({error}); take it from its source again"
        ) from error
    for what, (saved, here) in same.items():
        if saved != here:
            raise CheckpointError(
                f"{path} was written by a run with other {what}: {saved!r}, not {here!r}; resume with those"
            )
    check(read)
    try:
        state.randomness.restore(_part(checkpoint, "randomness."))
        drawn, draws = ({k for k in of if k.startswith(_LAYER)} for of in (own, kept))
        if drawn != draws:
            raise ValueError(f"the saved run drew in {sorted(drawn)}, this one in {sorted(draws)}")
        for name in kept.keys() & own:
            kept[name].set_state(own[name])
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from error
    if not state.randomness.state():
        seed_layers(state.module, state.randomness.generator)
    forget_draws(state.module)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(checkpoint.model[name])
    if state.optimizer is not None:
        entries: dict[int, dict[str, Any]] = {}
        for key, value in (_part(checkpoint, "optimizer.") | optimizer["scalars"]).items():
            index, _, name = key.partition(".")
            entries.setdefault(int(index), {})[name] = value
        state.optimizer.load_state_dict({"state": entries, "param_groups": optimizer["groups"]})
    for name in _MOVING:
        setattr(state, name, getattr(read, name))


def read_event(header: Mapping[str, Any]) -> Event | None:
    """What ran, from a checkpoint's header; None for nothing.

    Raises:
        ValueError: the record describes no event or no neighbours, or not as many steps as the header says.
    """
    record = header.get("event")
    event = None if record is None else event_from_dict(record)
    one_of(Adjacency, adjacency=header.get("adjacency"))
    if events.steps_of(event) < int(header.get("step", 0)):
        raise ValueError(
            f"its event has {events.steps_of(event)} steps, fewer than the {header.get('step')} that ran"
        )
    return event


def require_place(path: Path) -> None:
    """Refuse a path at which no file can be written, before anything is drawn that would be lost with it.

    Raises:
        CheckpointError: a folder, or a file in a folder that is missing or cannot be written.
    """
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise CheckpointError(
            f"cannot write checkpoint {path}: it is a folder, or its own folder is missing or cannot be written; make "
            "that folder or choose another"
        )


def require_header(**values: Any) -> None:
    """Refuse what no checkpoint's header can hold, before anything is drawn that would be lost with it.

    Raises:
        ValueError: they are no JSON values.
    """
    for name, value in values.items():
        try:
            canonical(value)
        except ValueError as error:
            raise ValueError(
                f"a checkpoint keeps {name} as JSON, which it is not ({error}): give numbers as int or float, paths as "
                "text, a prior of your own as a frozen dataclass, or leave checkpoint out"
            ) from error


def found(path: Path, together: Together, device: torch.device) -> bool:
    """Whether there is a file at ``path``: at every process the same one, or none.

    Raises:
        CheckpointError: some processes see another file than others.
    """
    here = path.is_file()
    if together.several:
        content = hashlib.sha256(path.read_bytes()).hexdigest() if here else None
        claims = {"the checkpoint (its path must be on storage that all of them share)": content}
        require_agreement(claims, device, error=CheckpointError)
    return here


def export(
    path: Path | str,
    *,
    weights: Mapping[str, Tensor],
    event: Event,
    adjacency: Adjacency,
    snapshots: Tensor | None = None,
    remark: str = "",
) -> None:
    """Write weights, snapshots and what they cost together, of kind "private-release/1": what may be published.

    That the event is what these weights cost, and that its noise came from no seed, is declared by whoever calls this;
    ``pacdp export`` and ``PrivateEngine.export`` know it.

    Args:
        weights: by the names of ``named_parameters()``.
        adjacency: the neighbours that epsilon is for: "replace-one" where the number of units is public.
        snapshots: weights kept on the way, one a row, which the event covers too.
        remark: a sentence for the header, under "remark".

    Raises:
        ValueError: no event, no weights by their names, or no neighbours.
        CheckpointError: the file cannot be written.
    """
    one_of(Adjacency, adjacency=adjacency)
    named = weights.items() if isinstance(weights, Mapping) else ()
    state = {} if snapshots is None else {_SNAPSHOTS: snapshots}
    tensors = [one for _, one in named] + [*state.values()]
    if not named or not all(isinstance(one, Tensor) for one in tensors):
        raise ValueError(
            "weights must be tensors by their names, and snapshots a tensor with one a row, got "
            f"{type(weights).__name__} and {type(snapshots).__name__}: give weights=dict(network.named_parameters())"
        )
    header: dict[str, Any] = {
        "kind": RELEASE, "event": event_to_dict(event), "adjacency": adjacency
    }  # fmt: skip
    if remark:
        header["remark"] = remark
    save_checkpoint(path, Checkpoint(header=header, model=weights, state=state))


def _write(path: Path | str, state: RunState, about: Mapping[str, Any] | None,
           others: Sequence[Mapping[str, Tensor]]) -> None:  # fmt: skip
    tensors, optimizer = _optimizer_state(state.optimizer)
    kept = {f"optimizer.{key}": value for key, value in tensors.items()}
    kept |= {f"randomness.{key}": value for key, value in state.randomness.state().items()}
    for rank, own in enumerate((_states(state), *others)):
        kept |= {_prefix(rank) + key: value for key, value in own.items()}
    if state.snapshots:
        kept[_SNAPSHOTS] = torch.stack(state.snapshots)
    header = {
        "kind": KIND,
        "step": state.step,
        "event": _record(state.history.event),
        "adjacency": state.adjacency,
        "public": dict(state.public),
        "optimizer": optimizer,
        "randomness": type(getattr(state.randomness, "base", state.randomness)).__name__,
        "processes": 1 + len(others),
        "settings": state.settings,
        "chosen": state.chosen,
        "clip_norm": state.clip_norm,
        "ledger": None
        if state.receipt is None
        else {"run": state.run, "receipt": dict(state.receipt)},
        "about": dict(about or {}),
    }
    model = dict(state.module.named_parameters())
    save_checkpoint(path, Checkpoint(header=header, model=model, state=kept))


def _record(event: Event | None) -> dict[str, Any] | None:
    return None if event is None else event_to_dict(event)


def _prefix(rank: int) -> str:
    return f"process{rank}." if rank else ""


def _part(checkpoint: Checkpoint, prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in checkpoint.state.items() if k.startswith(prefix)}


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(one.shape) for name, one in tensors.items()}


def _states(state: RunState) -> dict[str, Tensor]:
    return {name: one.get_state() for name, one in state.kept().items()}


def _kind(optimizer: optim.Optimizer | None) -> str | None:
    return None if optimizer is None else type(optimizer).__name__


def _optimizer_state(
    optimizer: optim.Optimizer | None,
) -> tuple[dict[str, Tensor], dict[str, Any] | None]:
    """Its tensors, and all else as JSON values."""
    if optimizer is None:
        return {}, None
    full, tensors, scalars = optimizer.state_dict(), dict[str, Any](), dict[str, Any]()
    for index, entries in full["state"].items():
        for name, value in entries.items():
            if not isinstance(value, Tensor | _NUMBERS):
                raise CheckpointError(
                    f"the optimizer's state {name!r} is no tensor or number and cannot be saved"
                )
            (tensors if isinstance(value, Tensor) else scalars)[f"{index}.{name}"] = value
    groups = [
        {k: list(v) if isinstance(v, tuple) else v for k, v in group.items()}
        for group in full["param_groups"]
    ]
    return tensors, {"kind": _kind(optimizer), "groups": groups, "scalars": scalars}


def _states_of_others(own: Mapping[str, Tensor], device: torch.device) -> list[dict[str, Tensor]]:
    """The same states at the processes after the first, by rank."""
    if not own:
        return [{} for _ in range(1, process_count())]
    _, *others = gathered(torch.cat([value.reshape(-1) for value in own.values()]), device)
    sizes = [value.numel() for value in own.values()]
    return [dict(zip(own, message.split(sizes), strict=True)) for message in others]
