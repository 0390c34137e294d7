"""One private run on several processes: the same mechanism, the same history, the same weights everywhere.

Every process is given the whole data set. At logical step t

    process r:   S_r = Σ clip_C(g_i) over those i ≡ r (mod processes) that are in the Poisson batch
                 Y_r = S_r + N(0, (σ_t C)² I / processes), on a grid
    process 0:   p.grad = Σ_r Y_r / expected_batch_size, which all processes receive

and each lets its own copy of the optimizer step. An example belongs to one process, for good, and is drawn by it
independently of all others with probability q: the union of the processes' batches is the Poisson batch of a single
process. The shares of noise are independent and have the variance of a single process's noise, all together; sums on
the grid are exact, so that only Σ_r Y_r counts, in whatever order it is taken. The divisor and gradients that depend on
no data enter after it. A process whose part is empty contributes a zero sum, and still takes part in the
step: the history is that of a single process. (Opacus's distributed sampler skips empty parts, so that its processes
fall out of step.) How many physical batches a process cuts its part into is its own affair.

Seeded runs with one seed at all processes have the batches and the noise of the single-process run with that seed:
there the first process draws the whole noise.
Masks, weight draws and pre-noise come from generators of each process's own.

Formal guarantee: that of :mod:`pacdp.private.optimizers`, provided that all processes hold the same examples in the
same order, and trust each other: sums with a share of the noise travel to the first process.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel as DPDDP
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.utils.data import Dataset, TensorDataset

from pacdp.private.loader import size
from pacdp.private.optimizers import GhostOptimizer, PrivateOptimizer
from pacdp.private.processes import (
    copy_from_first,
    process_count,
    process_rank,
    require_agreement,
    sum_at_first,
    totals,
)
from pacdp.step.noise import Randomness, SystemRandomness, add_noise, share

_ROWS = 1024


class RankRandomness:
    """One process's part in a run's randomness: batches of its own examples, and its share of the noise.

    The operating system's generators are independent of each other, and every process draws its share. Seeded ones
    are equal, so that the first process draws all.

    ``batch`` draws for all examples and keeps those that the process owns, so that processes with equal seeds share
    one Poisson batch and processes with independent generators own independent parts of one: both have the exact law.
    """

    def __init__(self, base: Randomness) -> None:
        self.base, self.rank, self.count = base, process_rank(), process_count()

    def normal(self, shape: Sequence[int], *, std: float, dtype: torch.dtype, device: torch.device) -> Tensor:
        """This process's share of independent N(0, std²)."""
        return self.noised(torch.zeros(tuple(shape), dtype=dtype, device=device), std=std).to(dtype)

    def noised(self, total: Tensor, *, std: float) -> Tensor:
        """``total`` with this process's share of independent N(0, std²).

        With several processes it is in double precision, so that sums over the processes stay exact on the grid.
        """
        if self.count > 1 and isinstance(self.base, SystemRandomness):
            return add_noise(total.double(), std=share(std, self.count), randomness=self.base)
        part = add_noise(total, std=std, randomness=self.base) if self.rank == 0 else total
        return part.double() if self.count > 1 else part

    def batch(self, n: int, sample_rate: float) -> Tensor:
        """The part of a Poisson batch that belongs to this process; possibly empty."""
        drawn = self.base.batch(n, sample_rate)
        return drawn[drawn % self.count == self.rank]

    def generator(self, stream: str, device: torch.device | str = "cpu") -> torch.Generator:
        """A fresh generator, another one at every process; the first process's is that of a single-process run."""
        return self.base.generator(f"{stream}/process {self.rank}" if self.rank else stream, device)

    def state(self) -> Mapping[str, Tensor]:
        """The whole run's: of the noise stream only the first process knows it."""
        return self.base.state()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from the first process's state."""
        self.base.restore(state)


def rank_randomness(randomness: Randomness | None) -> RankRandomness:
    """This process's part of ``randomness``, of the operating system's generator by default."""
    if isinstance(randomness, RankRandomness):
        return randomness
    return RankRandomness(SystemRandomness() if randomness is None else randomness)


class SummedOverProcesses:
    """What the two optimizers below do between clipping and division."""

    def _noised(self, totals: list[Tensor], std: float) -> list[Tensor]:
        noised = super()._noised(totals, std)  # pyright: ignore[reportAttributeAccessIssue]
        sum_at_first(noised)
        copy_from_first(noised)
        return noised


class DistributedOptimizer(SummedOverProcesses, PrivateOptimizer):
    """:class:`pacdp.private.optimizers.PrivateOptimizer` on several processes; give it :func:`rank_randomness`."""


class DistributedGhostOptimizer(SummedOverProcesses, GhostOptimizer):
    """:class:`pacdp.private.optimizers.GhostOptimizer` on several processes."""


def unwrapped(module: nn.Module) -> tuple[nn.Module, bool]:
    """The network inside Opacus's wrapper for several processes, and whether there was one.

    Raises:
        ValueError: a wrapper that mixes gradients before they are clipped, or several processes without a wrapper.
    """
    if isinstance(module, nn.parallel.DistributedDataParallel):
        raise ValueError(
            "torch's DistributedDataParallel averages gradients before anything clips them: wrap the network in "
            "opacus.distributed.DifferentiallyPrivateDistributedDataParallel instead"
        )
    if isinstance(module, FSDPModule):
        raise ValueError("sharded networks (FSDP) are not supported: every process must hold the whole network")
    if isinstance(module, DPDDP):
        return module.module, True
    if process_count() > 1:
        raise ValueError(
            f"{process_count()} processes run together, but nothing says that they train one network: give train("
            "distributed=True), or make_private a DifferentiallyPrivateDistributedDataParallel of it"
        )
    return module, False


def joined(module: nn.Module, settings: object) -> DPDDP:
    """``module`` with the first process's parameters and buffers, wrapped as :func:`unwrapped` expects it.

    Raises:
        ValueError: no process group, or processes with other settings or networks.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        raise ValueError(
            "distributed=True needs a process group: start the script with torchrun and call "
            "torch.distributed.init_process_group before train"
        )
    device = next(module.parameters()).device
    shapes = {name: (tuple(v.shape), v.dtype) for name, v in module.state_dict().items()}
    require_agreement(
        {"the algorithm's settings, or when checkpoints are written": settings, "the network's shapes": shapes}, device
    )
    copy_from_first(list(module.buffers()))
    return DPDDP(module)


def require_one_run(public: Mapping[str, object], dataset: Dataset[Any], randomness: RankRandomness,
                    device: torch.device) -> None:  # fmt: skip
    """Refuse processes that would not compute one mechanism on one data set.

    Of the data only their number is compared, and of tensor data sets up to 1024 evenly spaced examples.

    Raises:
        ValueError: what differs.
    """
    base = randomness.base
    stateful = bool(base.state())  # a seed, if there is one, shows in every stream
    seed = base.generator("agreement").initial_seed() if stateful else None
    claims = {**public, "randomness (its kind and its seed)": (type(base).__name__, seed)}
    claims |= {"the number of examples": size(dataset), "the order of the examples": _fingerprint(dataset)}
    require_agreement(claims, device)


def mean_over_processes(optimizer: object, total: float, count: int, device: torch.device) -> float:
    """``total``/``count``, over all processes if the run has several; NaN for no examples."""
    summed, number = totals((total, count), device) if isinstance(optimizer, SummedOverProcesses) else (total, count)
    return summed / number if number else math.nan


def _fingerprint(dataset: Dataset[Any]) -> object:
    if not isinstance(dataset, TensorDataset):
        return None
    step = -(-size(dataset) // _ROWS)
    rows = [t[::step].detach().cpu().contiguous().reshape(-1).view(torch.uint8) for t in dataset.tensors]
    return [hashlib.sha256(r.numpy().tobytes()).hexdigest() for r in rows]
