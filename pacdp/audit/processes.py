"""The audit of a run on several processes: real ones, joined by gloo, whose observations are put together here."""

import json
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.utils.data import TensorDataset

from bounds.accounting import event_from_dict, event_to_dict
from pacdp.algorithms.algorithm import Algorithm
from pacdp.audit.checks import Check, MechanismAudit, certain
from pacdp.audit.observed import Observer, Seen
from pacdp.audit.one_run import evidence_of, members_of, of_batches, of_divisor, of_grid, of_noise, of_weights
from pacdp.audit.planned import of_length
from pacdp.layers.random import generators
from pacdp.loop import PrivateRun
from pacdp.step.gradients import PerExampleLoss
from pacdp.step.noise import Randomness, SystemRandomness

_PATIENCE = timedelta(minutes=3)


def audit_processes(
    algorithm: Algorithm,
    module: nn.Module,
    dataset: TensorDataset,
    *,
    loss: PerExampleLoss,
    people: Tensor | None = None,
    randomness: Callable[[], Randomness] = SystemRandomness,
    processes: int = 2,
    steps: int = 40,
    failure_prob: float = 0.01,
) -> MechanismAudit:
    """Noise, batches and divisor of one run that several new processes share.

    Noise that two processes drew alike, or that each of them added in full, shows in the variance of the sum; parts of
    the noise that depend on each other, in the covariances.

    Formal guarantee: that of :class:`MechanismAudit`.

    Args:
        loss: as for ``audit_mechanism``; new processes must be able to import it, and ``randomness``.

    Raises:
        ValueError: a network with random layers, whose draws differ between processes, or fewer than two processes.
    """
    if generators(module):
        raise ValueError("random layers draw at each process for itself: audit this network on one process")
    if processes < 2:
        raise ValueError(f"processes must be at least 2, got {processes}")
    audited = of_length(algorithm, steps)
    with tempfile.TemporaryDirectory() as folder:
        given = (processes, folder, audited, module, dataset, loss, people, randomness)
        multiprocessing.spawn(_one_of_them, args=given, nprocs=processes)  # pyright: ignore
        parts = [torch.load(Path(folder) / f"{rank}.pt", weights_only=True) for rank in range(processes)]
    observed = Observer(audited, module, dataset, loss=loss, people=people)
    observed.alone, observed.on_grid = parts[0]["alone"], parts[0]["on_grid"]
    different = 0
    for steps_of in zip(*(part["steps"] for part in parts), strict=True):
        one = steps_of[0]
        read = dict.fromkeys(index for step in steps_of for index in step["read"])
        observed.steps.append(Seen(number=one["number"], read=read, released=one["released"], given=one["given"]))
        different += any(
            not torch.equal(a, b)
            for other in steps_of[1:]
            for a, b in zip(one["released"], other["released"], strict=True)
        )
    snapshots, chosen = parts[0]["snapshots"], parts[0]["chosen"]
    event = event_from_dict(json.loads(parts[0]["event"]))
    run = PrivateRun(weights={}, event=event, snapshots=snapshots, chosen=chosen)
    evidence = evidence_of(observed, run, dataset, members_of(people, len(dataset)))
    alike = certain(
        "processes: one sum", "all processes are given the same sums", different > 0, f"{different} steps differ"
    )
    grid = of_grid(observed, evidence.events, processes=processes)
    checks: list[Check] = [*of_noise(evidence, module), grid, *of_batches(evidence), alike]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the processes had: rounding depends on where vectors are cut
    checks += [*of_divisor(observed, run, evidence), of_weights(observed, run)]
    torch.set_num_threads(threads)
    return MechanismAudit(checks=tuple(checks), failure_prob=failure_prob)


def _one_of_them(
    rank: int,
    processes: int,
    folder: str,
    algorithm: Algorithm,
    module: nn.Module,
    dataset: TensorDataset,
    loss: PerExampleLoss,
    people: Tensor | None,
    randomness: Callable[[], Randomness],
) -> None:
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=processes, timeout=_PATIENCE)
    try:
        observed = Observer(algorithm, module, dataset, loss=loss, people=people)
        run = observed.run(randomness(), distributed=True)
    finally:
        distributed.destroy_process_group()
    assert run.event is not None
    steps: list[dict[str, Any]] = [
        {"number": one.number, "read": list(one.read), "released": one.released, "given": one.given}
        for one in observed.steps
    ]
    found = {
        "steps": steps,
        "alone": observed.alone,
        "on_grid": observed.on_grid,
        "snapshots": run.snapshots,
        "chosen": run.chosen,
        "event": json.dumps(event_to_dict(run.event)),
    }
    torch.save(found, Path(folder) / f"{rank}.pt")
