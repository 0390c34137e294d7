"""Runs whose batches are thrown away: what is released is the noise alone, and nothing has to be recomputed.

So more noise and more batches are seen than a run that computes gradients has time for: tails, seeds of which there are
few, and caps on batches show in large numbers only.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.utils.data import Dataset

from pacdp.algorithms.algorithm import Algorithm
from pacdp.audit import batch_laws, noise_laws
from pacdp.audit.checks import Check, by_chance, cannot_be_checked
from pacdp.audit.observed import Observer, Seen, tensors_of
from pacdp.audit.planned import overheard
from pacdp.audit.told import multipliers_of, rate_of, told_of
from pacdp.step.gradients import PerExampleLoss
from pacdp.step.noise import Randomness

_NUMBERS = 400_000
"""Released numbers that are wanted of all runs together."""
_RUNS = 8
"""Runs at most."""


def of_noise_alone(
    algorithm: Algorithm,
    module: nn.Module,
    dataset: Dataset[Any],
    *,
    loss: PerExampleLoss,
    people: Tensor | None,
    source: Randomness,
) -> Iterator[Check]:
    """Tails and repeats of the noise, and the batches that were drawn, over several runs from one source."""
    observed = Observer(without_gradients(algorithm), module, dataset, loss=loss, people=people)
    drawn, tensors = list[np.ndarray](), tensors_of(module)
    numbers = algorithm.mechanism.steps * sum(one.stop - one.start for one in tensors)
    runs = max(1, min(_RUNS, math.ceil(_NUMBERS / numbers)))
    for _ in range(runs):
        run = observed.run(nobody(source, drawn.append))
    told = told_of(run.event)
    events = [told[seen.number - 1] for seen in observed.steps]
    multipliers = [
        multipliers_of(algorithm, event, number=seen.number, releases=len(seen.released))
        for seen, event in zip(observed.steps, events, strict=True)
    ]
    z, x = standardised(algorithm, observed.steps, multipliers), np.stack(drawn)
    claim = "noise is Gaussian far out"
    yield by_chance("noise alone: largest", claim, noise_laws.largest(z))
    claim = "no two releases, and no two of a tensor, share noise"
    yield by_chance("noise alone: repeats", claim, noise_laws.repeated_noise(z, tensors))
    q = rate_of(events[0])
    for name, found in (
        ("rate", batch_laws.rate(x, q)),
        ("sizes", batch_laws.sizes_of_batches(x, q)),
        ("extremes", batch_laws.extreme_batches(x, q)),
    ):
        yield by_chance(f"draws: {name}", "batches are drawn as they are told", found)
    yield _unpredictable(len(z))


def _unpredictable(releases: int) -> Check:
    """What no statistics can tell: a generator whose seed can be guessed gives noise that has every law of noise."""
    seeds = releases * (releases - 1) / (2.0 * math.log(100.0))  # n draws of k seeds all differ: exp(-n (n - 1) / 2k)
    why = (
        "noise from a seed that can be guessed, a clock's for one, has the law of noise; had there been fewer than "
        f"{seeds:,.0f} seeds, {releases} releases would have repeated one with probability 99%"
    )
    return cannot_be_checked("noise: secret", "nobody can predict the noise", why)


def nobody(source: Randomness, drawn: Callable[[np.ndarray], object] = lambda batch: None) -> Randomness:
    """The source, whose batches are thrown away; a coin falls as it would.

    Args:
        drawn: called with what was drawn: for each unit, whether it would have come; (units,).
    """

    def thrown_away(n: int, batch: Tensor) -> Tensor:
        if n == 1:
            return batch
        drawn(np.isin(np.arange(n), batch.numpy()))
        return batch[:0]

    return overheard(source, batch=thrown_away)


def without_gradients(algorithm: Algorithm) -> Algorithm:
    """By the reference, where the algorithm allows it: on empty batches no fast mode is worth its setting up."""
    own: Any = algorithm
    try:
        return replace(own, mechanism=replace(own.mechanism, grad_sample_mode="reference"))
    except ValueError:
        return algorithm


def standardised(algorithm: Algorithm, steps: Sequence[Seen], told: Sequence[Sequence[float]]) -> np.ndarray:
    """Releases of noise alone over the standard deviation that was told; (releases, dim), single precision.

    Args:
        told: noise multipliers of each step's releases; of the others of a step nothing is said.
    """
    clip = algorithm.mechanism.clip_norm
    rows = [
        released.double().cpu().numpy() / (multiplier * clip)
        for seen, multipliers in zip(steps, told, strict=True)
        for released, multiplier in zip(seen.released, multipliers, strict=False)
    ]
    return np.stack(rows).astype(np.float32)
