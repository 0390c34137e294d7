"""What a checkpoint of a chain says, compared with its data, its network and its run.

Nothing that a certificate rests on is taken from a header where it follows from something else.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pacdp.data import Dataset
from pacdp.errors import CheckpointError
from pacdp.losses import Loss
from pacdp.objective import Objective
from pacdp.step.planned_steps import Plan, charged_steps
from pacdp.store.canonical import digest
from pacdp.store.checkpoint import Checkpoint


def require_consistent(
    path: Path | str, header: Mapping[str, Any], objective: Objective
) -> Plan | None:
    """The plan that a header holds, once what it says of data, loss, steps and run was found to be what they are.

    Raises:
        CheckpointError: it names what differs.
    """
    loss, run = objective.loss, header.get("run") or {}
    expected = {"n": objective.n, "loss": interval(loss)}
    expected |= {name: run[name] for name in ("problem", "sampler", "seed", "chain") if name in run}
    expected |= {"config_hash": digest(run)} if "config_hash" in header else {}
    by_person = objective.keep_norms and objective.people
    expected |= {"people": by_person.to_dict() if by_person else None}
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
    return plan


def require_network(path: Path | str, checkpoint: Checkpoint, objective: Objective) -> None:
    """Refuse tensors that are not the parameters of the objective's network.

    Raises:
        CheckpointError: names or shapes differ.
    """
    here = {
        name: tuple(view.shape)
        for name, view in objective.layout.views(objective.weights()[0]).items()
    }
    saved = {name: tuple(value.shape) for name, value in checkpoint.model.items()}
    if saved != here:
        raise CheckpointError(
            f"{path} holds tensors of another network than its problem describes: take it from its source again"
        )


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


def interval(loss: Loss) -> dict[str, Any]:
    """What a header says of the loss."""
    return {"name": loss.name, "low": loss.low, "high": loss.high, "oscillation": loss.oscillation}
