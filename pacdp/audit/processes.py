"""One run of several processes: real ones, joined by gloo, whose observations are put together here."""

import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed, multiprocessing

from pacdp.audit.checks import Check, none_of
from pacdp.audit.observed import Observer, Subject
from pacdp.layers.random import generators
from pacdp.step.noise import Randomness

_PATIENCE = timedelta(minutes=3)


def observe_together(
    subject: Subject, randomness: Callable[[], Randomness], processes: int
) -> tuple[Observer, Check]:
    """One run that new processes share, watched, and whether all were given the same sums.

    Noise that two processes drew alike, or that each of them added in full, shows in the variance of the sum; parts of
    the noise that depend on each other, in the covariances.

    Raises:
        ValueError: a network with random layers, whose draws differ between processes.
    """
    if generators(subject.module):
        raise ValueError(
            "random layers draw at each process for itself: audit this network on one process"
        )
    with tempfile.TemporaryDirectory() as folder:
        given = processes, folder, subject, randomness
        multiprocessing.spawn(_one_of_them, args=given, nprocs=processes)  # pyright: ignore
        files = [Path(folder) / f"{rank}.pt" for rank in range(processes)]
        seen, ran, on_grid = zip(
            *(torch.load(one, weights_only=False) for one in files), strict=True
        )
    observed, different = Observer(subject, processes=processes), 0
    observed.ran, observed.on_grid = ran[0], on_grid[0]
    for one, *others in zip(*seen, strict=True):
        one.drawn = None  # which every process draws for itself
        for other in others:
            one.read |= other.read
        same = (
            torch.equal(*pair)
            for other in others
            for pair in zip(one.released, other.released, strict=True)
        )
        different += not all(same)
        observed.steps.append(one)
    claim = "all processes are given the same sums"
    return observed, none_of("processes: one sum", claim, different, "steps differ")


def _one_of_them(
    rank: int, processes: int, folder: str, subject: Subject, randomness: Callable[[], Randomness]
) -> None:
    torch.set_num_threads(1)
    store, observed = f"file://{folder}/store", Observer(subject, processes=processes)
    distributed.init_process_group(
        "gloo", init_method=store, rank=rank, world_size=processes, timeout=_PATIENCE
    )
    try:
        observed.run(randomness())
    finally:
        distributed.destroy_process_group()
    found = observed.steps, observed.ran, observed.on_grid
    torch.save(found, Path(folder) / f"{rank}.pt")
