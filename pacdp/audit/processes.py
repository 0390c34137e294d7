"""The audit of a run on several processes: real ones, joined by gloo, whose observations are put together here."""

import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.utils.data import TensorDataset

from pacdp.algorithms.algorithm import Algorithm
from pacdp.audit.checks import MechanismAudit, certain
from pacdp.audit.evidence import evidence_of
from pacdp.audit.observed import Observer, Subject
from pacdp.audit.one_run import of_batches, of_divisor, of_grid, of_noise, of_weights
from pacdp.layers.random import generators
from pacdp.step.gradients import PerExampleLoss
from pacdp.step.mechanism import Mechanism
from pacdp.step.noise import Randomness, SystemRandomness

_PATIENCE = timedelta(minutes=3)


def audit_processes(
    algorithm: Algorithm,
    module: nn.Module,
    dataset: TensorDataset,
    *,
    mechanism: Mechanism,
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
        mechanism, loss: as for ``audit_mechanism``; new processes must be able to import it, and ``randomness``.

    Raises:
        ValueError: a network with random layers, whose draws differ between processes, or fewer than two processes.
    """
    if generators(module):
        raise ValueError(
            "random layers draw at each process for itself: audit this network on one process"
        )
    if processes < 2:
        raise ValueError(f"processes must be at least 2, got {processes}")
    subject = Subject(
        algorithm=algorithm,
        mechanism=mechanism,
        module=module,
        dataset=dataset,
        loss=loss,
        people=people,
    ).lasting(steps)
    with tempfile.TemporaryDirectory() as folder:
        given = processes, folder, subject, randomness
        multiprocessing.spawn(_one_of_them, args=given, nprocs=processes)  # pyright: ignore
        seen, ran, on_grid = zip(*(torch.load(Path(folder) / f"{rank}.pt", weights_only=False)
                                   for rank in range(processes)), strict=True)  # fmt: skip
    observed, different = Observer(subject), 0
    observed.ran, observed.on_grid = ran[0], on_grid[0]
    for one, *others in zip(*seen, strict=True):
        one.drawn = None  # which every process draws for itself
        for other in others:
            one.read |= other.read
        different += any(
            not all(map(torch.equal, one.released, other.released)) for other in others
        )
        observed.steps.append(one)
    evidence = evidence_of(observed)
    checks = [
        *of_noise(evidence, module),
        of_grid(observed, processes=processes),
        *of_batches(evidence),
    ]
    claim = "all processes are given the same sums"
    checks.append(certain("processes: one sum", claim, different > 0, f"{different} steps differ"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the processes had: rounding depends on where vectors are cut
    checks += [of_divisor(observed, evidence), of_weights(observed)]
    torch.set_num_threads(threads)
    return MechanismAudit(checks=tuple(checks), failure_prob=failure_prob)


def _one_of_them(
    rank: int, processes: int, folder: str, subject: Subject, randomness: Callable[[], Randomness]
) -> None:
    torch.set_num_threads(1)
    store, observed = f"file://{folder}/store", Observer(subject)
    distributed.init_process_group(
        "gloo", init_method=store, rank=rank, world_size=processes, timeout=_PATIENCE
    )
    try:
        observed.run(randomness(), distributed=True)
    finally:
        distributed.destroy_process_group()
    found = observed.steps, observed.ran, observed.on_grid
    torch.save(found, Path(folder) / f"{rank}.pt")
