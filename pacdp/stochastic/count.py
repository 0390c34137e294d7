"""Counting losses under fresh weights: in batches, over several processes, to the same sums.

Work is cut into jobs, a pass over one batch each. Rank r of W takes jobs r, r + W, ...; draws are keyed by seed, pass
and example, and sums are integers, so that the number of ranks does not change the result. Another ``batch_size`` or
device changes it only where the rounding of single precision decides between two classes.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor, nn

from bounds import _check
from pacdp.losses import Loss, Totals
from pacdp.posterior import GaussianPosterior
from pacdp.stochastic.forward import fresh_pass
from pacdp.stochastic.noise import LIMIT
from pacdp.stochastic.risk import MonteCarloRisk, in_units
from pacdp.trials import MOST, pool_for, require_own_losses

Progress = Callable[[int, int], None]
"""Told how many examples this process has passed, and how many it will."""
_AT_ONCE = {"cpu": 256, "cuda": 1000}
"""Examples at a time; more are no quicker on a GPU (benchmarks/results/gpu.json)."""
_OF_LARGE_INPUTS, _LARGE = 64, 4096
"""How many are passed at a time where an input has more numbers than this, for the sake of memory."""
_UNREAD = {"cpu": 1, "cuda": 32}
"""Batches whose sums are read together, which a GPU is waited for."""
_ROWS = 5
"""Rows whose outputs the losses are tried on."""
_SEED = 0


def mean_risks(
    module: nn.Module,
    posterior: GaussianPosterior,
    *,
    inputs: Tensor,
    labels: Int64[Tensor, " n"],
    losses: Sequence[Loss],
    passes: int,
    seed: int,
    batch_size: int | None = None,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    people: Int64[np.ndarray, " m"] | None = None,
) -> tuple[MonteCarloRisk, ...]:
    """Losses of the randomised network ``posterior`` on all examples, ``passes`` times, each time with fresh weights.

    Formal guarantee: ``result.upper(failure_prob)`` bounds R̂(Q) for each loss; several losses share the draws and
    their failure probabilities add up. Seed and passes must not depend on a result.

    Where ``torch.distributed`` is initialised, every rank must call this with the same arguments; each does its share
    and all get the whole result.

    Args:
        module: the network, in eval mode; its own weights do not matter, nor its device.
        inputs: [n, ...].
        losses: maps of outputs and labels to values in the interval that each declares.
        passes: see :func:`pacdp.stochastic.passes_for`.
        batch_size: examples at a time, which changes numbers by rounding alone. By default 256 on a CPU and
            1,000 on a GPU, or 64 of more than 4,096 numbers each.
        people: whose each example is; the mean is then over people of the means of their own losses. Given the data,
            an example of person p enters with weight 1/(people · passes · size of p), and 1/(largest weight) is the
            number of terms ("Averages of independent draws" in docs/guarantees.md).

    Raises:
        ValueError: nothing to count, labels of another number, a loss that is not one value an example, outside its
            interval or dependent on the rest of a batch, or what :func:`pacdp.stochastic.fresh_pass` refuses.
    """
    n = len(inputs)
    device = torch.device(device)
    if batch_size is None:
        large = inputs[:1].numel() > _LARGE
        batch_size = _OF_LARGE_INPUTS if large else _AT_ONCE.get(device.type, 256)
    _require_countable(n, labels, losses, passes, batch_size)
    probe = inputs[: max(MOST, batch_size)].to(device)
    way = fresh_pass(module, posterior, probe)
    run = partial(way.outputs, seed=_SEED, number=0)
    outputs = run(pool_for(run, probe[:_ROWS], size=_ROWS))
    for loss in losses:
        require_own_losses(loss, outputs[:_ROWS], labels.to(device), size=max(MOST, len(probe)))
    rank, world = _ranks()
    weights, whole, known = _weights(people, n)
    parts = [slice(start, min(start + batch_size, n)) for start in range(0, n, batch_size)]
    jobs = [(number, rows) for number in range(passes) for rows in parts][rank::world]
    share, done = sum(rows.stop - rows.start for _, rows in jobs), 0
    unread, counted, totals = Totals(losses), 0, [0] * len(losses)
    for number, rows in jobs:
        outputs = way.outputs(inputs[rows].to(device), seed=seed, number=number, first=rows.start)
        weigh = None if weights is None else weights[rows].to(device)
        units = partial(in_units, weights=weigh)
        unread.add(outputs, labels[rows].to(device), units)
        counted += 1
        if counted == _UNREAD.get(device.type, 1) or (number, rows) == jobs[-1]:
            totals = [total + more for total, more in zip(totals, unread.read(), strict=True)]
            counted = 0
        done += len(outputs)
        if progress is not None:
            progress(done, share)
    return tuple(
        MonteCarloRisk(
            loss=loss.name,
            low=loss.low,
            high=loss.high,
            n=whole,
            passes=passes,
            terms=whole * passes,
            total=total,
            seed=seed,
            people=known,
        )
        for loss, total in zip(losses, _added_up(totals, device), strict=True)
    )


def _weights(
    people: np.ndarray | None, n: int
) -> tuple[Float64[Tensor, " n"] | None, int, int | None]:
    """What each example weighs, what all of them weigh together, and how many people there are."""
    if people is None:
        return None, n, None
    if people.shape != (n,):
        raise ValueError(f"expected a person for each of {n} examples, got {people.shape}")
    _, owner, sizes = np.unique(people, return_inverse=True, return_counts=True)
    least = int(sizes.min())
    return torch.from_numpy(least / sizes[owner]), least * len(sizes), len(sizes)


def _ranks() -> tuple[int, int]:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def _added_up(totals: list[int], device: torch.device) -> list[int]:
    if _ranks()[1] == 1:
        return totals
    shared = torch.tensor(totals, dtype=torch.int64, device=device)
    torch.distributed.all_reduce(shared)
    return shared.tolist()


def _require_countable(
    n: int, labels: Tensor, losses: Sequence[Loss], passes: int, batch_size: int
) -> None:
    if n < 1 or len(labels) != n:
        raise ValueError(
            f"expected one label for each of n >= 1 inputs, got {n} inputs and {len(labels)} labels"
        )
    if not losses:
        raise ValueError(
            "expected at least one loss, got none: pass pacdp.losses.zero_one() for the error"
        )
    _check.count(passes=passes, batch_size=batch_size)
    if n * passes >= LIMIT:
        raise ValueError(
            f"expected n * passes < 2**31, so that sums fit 64 bits, got {n} * {passes}: use fewer passes"
        )
