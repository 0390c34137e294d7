"""Runs that are killed and go on: the very same noise where it is seeded, fresh noise of the system, never old noise.

Batches are empty here, so that what is released is the noise, and nothing has to be recomputed.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from pacdp.algorithms.algorithm import Algorithm
from pacdp.audit import noise_laws
from pacdp.audit.checks import Check, by_chance, certain
from pacdp.audit.noise_alone import nobody, standardised, without_gradients
from pacdp.audit.observed import Observer, Seen, Stop
from pacdp.audit.planned import of_length
from pacdp.audit.told import multipliers_of, told_of
from pacdp.step.gradients import PerExampleLoss
from pacdp.step.noise import Randomness, SeededRandomness

_STEPS = 6


def of_resuming(
    algorithm: Algorithm,
    module: nn.Module,
    dataset: Dataset[Any],
    *,
    loss: PerExampleLoss,
    people: Tensor | None,
    randomness: Callable[[], Randomness],
    generator: np.random.Generator,
) -> Iterator[Check]:
    """A run is killed with its noise drawn and no checkpoint written, then after a checkpoint, and goes on both times.

    Args:
        randomness: makes the source of noise anew for each sitting, as a new process would.
        generator: decides where the run is killed.
    """
    short = without_gradients(of_length(algorithm, _STEPS))
    common = {"loss": loss, "people": people}
    seed = int(generator.integers(2**31))
    whole = Observer(short, module, dataset, **common)  # pyright: ignore
    run = whole.run(nobody(SeededRandomness(seed)))
    # what was told of the first sum of each step: a step that was killed may have released no other
    told = [
        multipliers_of(short, event, number=seen.number, releases=len(seen.released))[:1]
        for event, seen in zip(told_of(run.event), whole.steps, strict=True)
    ]
    first, second = sorted(generator.choice(np.arange(2, _STEPS), size=2, replace=False).tolist())

    def killed(source: Callable[[], Randomness]) -> Observer:
        def interrupt(seen: Seen, done: bool) -> None:
            if (seen.number, done) in plan:
                plan.remove((seen.number, done))
                raise Stop

        plan = {(first, False), (second, True)}
        observer = Observer(short, module, dataset, interrupt=interrupt, **common)  # pyright: ignore
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(3):
                with suppress(Stop):
                    observer.run(nobody(source()), checkpoint=Path(folder) / "run.safetensors")
        return observer

    said = f"killed in step {first} and after step {second}"
    seeded = killed(lambda: SeededRandomness(seed)).steps
    expected = {seen.number: seen.released for seen in whole.steps}
    differ = sum(
        not all(torch.equal(a, b) for a, b in zip(one.released, expected[one.number], strict=False)) for one in seeded
    )
    numbers = [seen.number for seen in seeded]
    broken = differ > 0 or sorted(set(numbers)) != list(range(1, _STEPS + 1)) or len(numbers) != _STEPS + 1
    seen = f"{differ} of {len(numbers)} releases differ, {said}"
    yield certain("resume: seeded", "seeded noise goes on bit for bit", broken, seen)
    found = noise_laws.repeated_noise(standardised(short, whole.steps, told))
    yield by_chance("resume: seeded repeats", "no step has the seeded noise of another", found)
    fresh = killed(randomness).steps
    if randomness().state():  # the step that is made anew has the same noise, as it should
        fresh = list({seen.number: seen for seen in fresh}.values())
    z = standardised(short, fresh, [told[one.number - 1] for one in fresh])
    found = noise_laws.repeated_noise(z)
    claim = "noise after resuming is that of no release before"
    yield by_chance("resume: repeats", claim, found._replace(seen=f"{found.seen}, {said}"))
    yield by_chance("resume: variance", "noise has the variance that was told", noise_laws.variance_of_steps(z))
