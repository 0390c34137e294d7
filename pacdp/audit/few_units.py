"""A run on so few units that every other batch is empty, which hardly ever happens in a large run.

An empty batch must come as often as it is told, be as noisy as others, and move the weights by its
noise.
"""

import math
from collections.abc import Iterator

import numpy as np
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from pacdp.algorithms.algorithm import Algorithm
from pacdp.audit import batch_laws, noise_laws
from pacdp.audit.checks import Check, by_chance
from pacdp.audit.observed import Observer
from pacdp.audit.one_run import evidence_of, members_of, of_weights
from pacdp.audit.p_values import Found
from pacdp.audit.told import rate_of
from pacdp.step.gradients import PerExampleLoss
from pacdp.step.noise import Randomness


def of_few_units(
    algorithm: Algorithm,
    module: nn.Module,
    dataset: TensorDataset,
    *,
    loss: PerExampleLoss,
    people: Tensor | None,
    source: Randomness,
) -> Iterator[Check]:
    """Look at the empty batches of a run on the first few units; there are none at rate 1."""
    rate = algorithm.mechanism.sample_rate
    if rate >= 1.0:
        return
    units = members_of(people, len(dataset))[: max(1, round(math.log(0.5) / math.log1p(-rate)))]
    kept = [i for own in units for i in own]
    few = TensorDataset(*(x[kept] for x in dataset.tensors))
    owners = None if people is None else people[kept]
    observed = Observer(algorithm, module, few, loss=loss, people=owners)
    run = observed.run(source)
    evidence = evidence_of(observed, run, few, members_of(owners, len(few)))
    x, q = evidence.batches, rate_of(evidence.events[0])
    found = batch_laws.empty_batches(x, q)
    yield by_chance("empty batches: rate", "batches are empty at rate (1-q)^n", found)
    alone = evidence.noise[np.repeat(~x.any(1), len(evidence.noise) // len(x))]
    found = noise_laws.variance_of_steps(alone) if len(alone) else Found(1.0, "no batch was empty")
    yield by_chance("empty batches: noise", "empty batches are as noisy as others", found)
    yield of_weights(observed, run, name="empty batches: weights")
