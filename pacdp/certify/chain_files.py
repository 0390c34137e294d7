"""The checkpoint of a chain as it is written and read: tensors, and a header that its data and run must bear out."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pacdp.algorithms import KINDS, Settings, State, restore
from pacdp.certify.examples import Device
from pacdp.chains import Batching, Layout
from pacdp.data import Dataset
from pacdp.errors import CheckpointError
from pacdp.losses import Loss
from pacdp.objective import Objective
from pacdp.posterior import odd_names
from pacdp.problem import Problem
from pacdp.step.planned_steps import Plan, charged_steps
from pacdp.store.canonical import described, digest
from pacdp.store.checkpoint import Checkpoint, save_checkpoint
from pacdp.store.record import Values

_SETTINGS: dict[str, type[Settings]] = {kind.__name__: kind for kind in KINDS}


def sampler_from_dict(values: Mapping[str, Any]) -> Settings:
    """The settings of a chain, from what :func:`pacdp.store.canonical.described` made of them.

    Raises:
        ValueError: a kind of sampler that this version does not know.
    """
    fields = dict(values)
    kind = fields.pop("kind", None)
    if kind not in _SETTINGS:
        raise ValueError(f"expected a sampler of kind {', '.join(_SETTINGS)}, got {kind!r}")
    return _SETTINGS[kind](**fields)


def require_consistent(
    path: Path | str, checkpoint: Checkpoint, objective: Objective
) -> Plan | None:
    """The plan of a checkpoint, once what it says of data, loss, steps and run, and its tensors, are what they are.

    Raises:
        CheckpointError: it names what differs.
    """
    header, loss = checkpoint.header, objective.loss
    run = header.get("run") or {}
    by_person = objective.keep_norms and objective.people
    expected: Values = {
        "n": objective.n,
        "loss": interval(loss),
        **{name: run[name] for name in ("problem", "sampler", "seed", "chain") if name in run},
        **({"config_hash": digest(run)} if "config_hash" in header else {}),
        "people": by_person.to_dict() if by_person else None,
    }
    for name, value in expected.items():
        if header.get(name) != value:
            said = f"{name} = {header.get(name)!r}, but its run and data make it {value!r}"
            if len(said) > 120:
                said = f"another {name} than its run and data make it"
            raise CheckpointError(
                f"{path} says {said}: its header was changed; take it from its source again, or train again"
            )
    try:
        plan = Plan.from_header(header)
        charged_steps(plan, header["step"])
    except ValueError as error:
        raise CheckpointError(f"{path} has a header with impossible steps: {error}") from error
    if odd_names(checkpoint.model, objective.layout.views(objective.weights()[0])):
        raise CheckpointError(
            f"{path} holds tensors of another network than its problem describes: take it from its source again"
        )
    return plan


def require_data(path: Path | str, checkpoint: Checkpoint, train: Dataset, test: Dataset) -> None:
    """Refuse data that the checkpoint was not trained on.

    Raises:
        CheckpointError: it names the part and the two hashes.
    """
    for role, data in (("train", train), ("test", test)):
        trained_on = checkpoint.header["data"][role]
        if data.hash != trained_on:
            raise CheckpointError(
                f"{path} was trained on {role} data with hash {trained_on[:12]}, but {data.name} here has "
                f"{data.hash[:12]}: give the data it was trained on"
            )


def interval(loss: Loss) -> Values:
    """What a header says of the loss."""
    return {"name": loss.name, "low": loss.low, "high": loss.high, "oscillation": loss.oscillation}


def chain_state(
    checkpoint: Checkpoint, settings: Settings, layout: Layout, device: Device
) -> State:
    """The sampler's state, of one chain, that a checkpoint holds."""
    tensors = {name: tensor.to(device)[None] for name, tensor in checkpoint.state.items()}
    weights = layout.flatten(checkpoint.model).to(device)[None]
    return restore(settings, {"weights": weights, **tensors}, checkpoint.header["step"])


def first_model(problem: Problem, data: Dataset, *, seed: int, chain: int = 0) -> nn.Module:
    """The network that a chain starts from: independent for different seeds and chains."""
    # torch's generators on the CPU read no more than 32 bits of a seed
    own = int(np.random.SeedSequence(seed, spawn_key=(chain,)).generate_state(1)[0])
    return problem.model(data, generator=torch.Generator().manual_seed(own))


def objectives(
    problem: Problem, settings: Settings, train: Dataset, test: Dataset, *, device: Device,
    labels: tuple[Sequence[np.ndarray], Sequence[np.ndarray]] | None = None, batching: Batching = "auto",
    bfloat16: bool = False, in_bytes: bool = False
) -> tuple[Objective, Objective]:  # fmt: skip
    """The empirical risk on the training set and the one on the test set; ``labels`` are those of each chain."""
    how: Values = {
        "generator": torch.Generator().manual_seed(0), "batch_size": settings.batch_size, "device": device,
        "batching": batching, "bfloat16": bfloat16,
    }  # fmt: skip
    own, clip, kept = labels or (None, None), settings.clip_norm, settings.keep_norms
    objective = problem.objective(train, labels=own[0], clip_norm=clip, keep_norms=kept, in_bytes=in_bytes,
                                  every_record=settings.every_record, **how)  # fmt: skip
    in_bytes = in_bytes and clip is None and not kept
    return objective, problem.objective(test, labels=own[1], in_bytes=in_bytes, **how)


def save_trained(
    path: Path | str, *, problem: Problem, settings: Settings, objective: Objective, hashes: Mapping[str, str],
    state: Any, seed: int, chain: int = 0, run: Mapping[str, Any], trace: Mapping[str, Tensor] | None = None,
    runtime: Mapping[str, Any] | None = None, plan: Plan | None = None,
    private: Mapping[str, Any] | None = None
) -> None:  # fmt: skip
    """Write one chain as it stands, with all that certifying and resuming need. ``run`` is carried as it is.

    Args:
        plan: the number of steps, as it was fixed before the first; without one, nothing shows that it was.
        private: JSON values that a private chain keeps for itself: "noise_key", "ledger".
    """
    tensors = {
        name: value[0] for name, value in state._asdict().items() if isinstance(value, Tensor)
    }
    weights = tensors.pop("weights")
    header = {
        "problem": problem.to_dict(),
        "sampler": described(settings),
        "step": state.step,
        "seed": seed,
        "chain": chain,
        "n": objective.n,
        "data": dict(hashes),
        "loss": interval(objective.loss),
        "device": objective.device.type,
        "runtime": dict(runtime or {}),
        "run": dict(run),
        "config_hash": digest(dict(run)),
        **(plan.to_header() if plan else {}),
        **(
            {"people": objective.people.to_dict()}
            if objective.people and settings.keep_norms
            else {}
        ),
        **(private or {}),
    }
    checkpoint = Checkpoint(
        header=header, model=objective.layout.views(weights), state=tensors, trace=trace or {}
    )
    save_checkpoint(path, checkpoint)
