"""Runs whose batches are thrown away: what is released is the noise alone.

No gradient has to be computed, so that more noise and more batches are seen than in other runs:
tails, seeds of which there are few, and caps on batches show in large numbers only.
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
    """Look at tails and repeats of the noise and at drawn batches, in several runs of one source."""
    observed = Observer(without_gradients(algorithm), module, dataset, loss=loss, people=people)
    drawn, tensors = list[np.ndarray](), tensors_of(module)
    numbers = algorithm.mechanism.steps * sum(one.stop - one.start for one in tensors)
    runs = max(1, min(_RUNS, math.ceil(_NUMBERS / numbers)))
    histories = [observed.run(nobody(source, drawn.append)).event for _ in range(runs)]
    told = told_of(histories[0])
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


def _unseen(batch: np.ndarray) -> None:
    """Do nothing."""


def _unpredictable(releases: int) -> Check:
    """Say what no statistics can tell: noise whose seed can be guessed has every law of noise."""
    # n seeds out of k all differ with probability exp(-n (n - 1) / 2k) at most
    seeds = releases * (releases - 1) / (2.0 * math.log(100.0))
    why = (
        "noise from a seed that can be guessed, a clock's for one, has the law of noise; had there "
        f"been fewer than {seeds:,.0f} seeds, {releases} releases would have repeated one with "
        "probability 99%"
    )
    return cannot_be_checked("noise: secret", "nobody can predict the noise", why)


def nobody(source: Randomness, drawn: Callable[[np.ndarray], object] = _unseen) -> Randomness:
    """Make a source whose batches are thrown away; a coin falls as it would.

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
    """Take the reference: ghost clipping takes long to set up."""
    own: Any = algorithm
    return replace(own, mechanism=replace(own.mechanism, grad_sample_mode="reference"))


def standardised(
    algorithm: Algorithm,
    steps: Sequence[Seen],
    told: Sequence[Sequence[float]],
) -> np.ndarray:
    """Divide releases of noise alone by the standard deviation told; (releases, dim), float32.

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
