"""One private run on several processes: the same mechanism, the same history, the same weights everywhere.

Every process is given the whole data set. At logical step t

    process r:   S_r = Σ clip_C(g_i) over those i ≡ r (mod processes) that are in the Poisson batch
                 Y_r = S_r + N(0, (σ_t C)² I / processes), on a grid
    process 0:   p.grad = Σ_r Y_r / expected_batch_size, which all processes receive

and each lets its own copy of the optimizer step. An example belongs to one process, for good, and is drawn by it
independently of all others with probability q: the union of the processes' batches is the Poisson batch of a single
process. The shares of noise are independent and have the variance of a single process's noise, all together
(:class:`pacdp.step.processes.Together`). The divisor and gradients that depend on no data enter after it. A process
whose part is empty contributes a zero sum, and still takes part in the step: the history is that of a single process.
(Opacus's distributed sampler skips empty parts, so that its processes fall out of step.) How many physical batches a
process cuts its part into is its own affair.

Seeded runs with one seed at all processes have the batches and the noise of the single-process run with that seed:
there the first process draws the whole noise. Masks, weight draws and pre-noise come from generators of each process's
own.

Formal guarantee: that of :mod:`pacdp.opacus.optimizers`, provided that all processes hold the same examples in the
same order, and trust each other: sums with a share of the noise travel to the first process.
"""

from opacus.distributed import DifferentiallyPrivateDistributedDataParallel as DPDDP
from torch import nn
from torch.distributed.fsdp import FSDPModule

from pacdp.step.processes import process_count


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
        raise ValueError(
            "sharded networks (FSDP) are not supported: every process must hold the whole network"
        )
    if isinstance(module, DPDDP):
        return module.module, True
    if process_count() > 1:
        raise ValueError(
            f"{process_count()} processes run together, but nothing says that they train one network: give train("
            "distributed=True), or make_private a DifferentiallyPrivateDistributedDataParallel of it"
        )
    return module, False
