"""Runs that the auditor plans: what a run on many units shows too seldom is sought in others.

- A run on so few units that every other batch is empty: an empty batch must come as often as it is told, be as noisy
  as others, and move the weights by its noise.
- Runs whose batches are thrown away: what is released is the noise alone. No gradient has to be computed, so that more
  noise and more batches are seen: tails, seeds of which there are few, and caps on batches show in large numbers only.
- Runs that are killed and go on: the very same noise where it is seeded, fresh noise of the system, never old noise.
- Runs without noise, on batches that the auditor chooses, with units made to hurt.
"""

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from pacdp.audit import batch_laws, noise_laws
from pacdp.audit.checks import Check, by_chance, cannot_be_checked, certain
from pacdp.audit.observed import Observer, Planned, Stop, Subject, norm, observe
from pacdp.audit.one_run import tensors_of
from pacdp.audit.p_values import Found
from pacdp.audit.recomputed import contributions, evidence_of, reference_of
from pacdp.audit.updates import of_weights
from pacdp.step.noise import Randomness, SeededRandomness

_NUMBERS = 400_000
"""Released numbers that are wanted of all runs of noise alone together."""
_RUNS = 8
"""Those runs at most."""
_STEPS = 6
"""Of runs that are killed."""
_ORDINARY = 6
"""Units that were not made to hurt."""
_PART = 4
"""Units in one pass, where the run takes them in parts."""
_FAINT = 1e-2
"""Of the usual loss; and what small sums may be apart, relative to their units."""
_ROUNDING = 1e-3
"""Of the clip norm, for every unit of the batch."""
HURTFUL: dict[str, list[float]] = {
    "a unit that is as the others": [1.0],
    "a unit of zeros": [0.0],
    "a unit with large inputs": [30.0],
    "a unit with huge inputs": [-1e4],
    "a unit with NaN": [math.nan],
    "a unit with infinity": [math.inf],
}
"""What an input is multiplied by in each of the unit's records."""
OF_PEOPLE = {
    "a person with many records": [1.0] * 8,
    "a person with many large records": [10.0 + k for k in range(8)],
    "a person with one record of NaN": [1.0, math.nan, 1.0],
}


def of_few_units(subject: Subject, source: Randomness) -> Iterator[Check]:
    """Look at the empty batches of a run on the first few units; there are none at rate 1."""
    rate = subject.mechanism.sample_rate
    if rate >= 1.0:
        return
    observed = observe(subject.first(max(1, round(math.log(0.5) / math.log1p(-rate)))), source)
    evidence = evidence_of(observed)
    found = batch_laws.empty_batches(evidence.batches, evidence.rate)
    yield by_chance("empty batches: rate", "batches are empty at rate (1-q)^n", found)
    alone = evidence.noise[~evidence.batches[evidence.rows].any(axis=1)]
    found = noise_laws.variance_of_steps(alone) if len(alone) else Found(1.0, "no batch was empty")
    yield by_chance("empty batches: noise", "empty batches are as noisy as others", found)
    yield of_weights(observed, name="empty batches: weights")


def of_noise_alone(subject: Subject, source: Randomness) -> Iterator[Check]:
    """Look at tails and repeats of the noise and at drawn batches, in several runs of one source."""
    observed, tensors = Observer(subject.by_reference(), discards=True), tensors_of(subject.module)
    numbers = subject.mechanism.steps * tensors[-1].stop
    for _ in range(max(1, min(_RUNS, math.ceil(_NUMBERS / numbers)))):
        observed.run(source)
    evidence = evidence_of(observed)
    z, units = evidence.noise, np.arange(len(subject.members))
    yield by_chance("noise alone: largest", "noise is Gaussian far out", noise_laws.largest(z))
    claim = "no two releases, and no two of a tensor, share noise"
    yield by_chance("noise alone: repeats", claim, noise_laws.repeated_noise(z, tensors))
    drawn = np.stack([np.isin(units, seen.drawn or []) for seen in observed.steps])
    for name, law in (
        ("rate", batch_laws.rate),
        ("sizes", batch_laws.sizes_of_batches),
        ("extremes", batch_laws.extreme_batches),
    ):
        claim = "batches are drawn as they are told"
        yield by_chance(f"draws: {name}", claim, law(drawn, evidence.rate))
    # noise whose seed can be guessed has every law of noise; n seeds out of k all differ with probability
    # exp(-n (n - 1) / 2k) at most
    seeds = len(z) * (len(z) - 1) / (2.0 * math.log(100.0))
    why = (
        "noise from a seed that can be guessed, a clock's for one, has the law of noise; had there "
        f"been fewer than {seeds:,.0f} seeds, {len(z)} releases would have repeated one with "
        "probability 99%"
    )
    yield cannot_be_checked("noise: secret", "nobody can predict the noise", why)


def of_resuming(
    subject: Subject, randomness: Callable[[], Randomness], generator: np.random.Generator
) -> Iterator[Check]:
    """A run is killed with its noise drawn and no checkpoint written, then after a checkpoint, and goes on both times.

    Args:
        randomness: makes the source of noise anew for each sitting, as a new process would.
        generator: decides where the run is killed.
    """
    short, seed = subject.lasting(_STEPS).by_reference(), int(generator.integers(2**31))
    first, second = sorted(generator.choice(np.arange(2, _STEPS), size=2, replace=False).tolist())

    def killed(source: Callable[[], Randomness]) -> Observer:
        observer = Observer(short, discards=True, stops=[(first, True), (second + 1, False)])
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(3):
                with suppress(Stop):
                    observer.run(source(), checkpoint=Path(folder) / "run.safetensors")
        return observer

    whole = observe(short, SeededRandomness(seed), discards=True)
    seeded = killed(lambda: SeededRandomness(seed)).steps
    expected = {seen.number: seen.released for seen in whole.steps}
    differ = sum(not all(map(torch.equal, one.released, expected[one.number])) for one in seeded)
    numbers = [seen.number for seen in seeded]
    said = f"killed in step {first} and after step {second}"
    broken = differ > 0 or sorted(numbers) != sorted([*range(1, _STEPS + 1), first])
    seen = f"{differ} of {len(numbers)} releases differ, {said}"
    yield certain("resume: seeded", "seeded noise goes on bit for bit", broken, seen)
    found = noise_laws.repeated_noise(evidence_of(whole).noise)
    yield by_chance("resume: seeded repeats", "no step has the seeded noise of another", found)
    fresh = killed(randomness)
    if randomness().state():  # the step that is made anew has the same noise, as it should
        fresh.steps = list({seen.number: seen for seen in fresh.steps}.values())
    z = evidence_of(fresh).noise
    found = noise_laws.repeated_noise(z)
    claim = "noise after resuming is that of no release before"
    yield by_chance("resume: repeats", claim, found._replace(seen=f"{found.seen}, {said}"))
    claim = "noise has the variance that was told"
    yield by_chance("resume: variance", claim, noise_laws.variance_of_steps(z))


def of_sensitivity(subject: Subject) -> Iterator[Check]:
    """One unit more moves the sum by at most C, alone and among others, and sums are those of clipped units."""
    ordinary, clip = min(_ORDINARY, len(subject.members)), subject.mechanism.clip_norm
    hurt, kinds = with_hurtful(subject, ordinary)
    common, alone = list(range(ordinary)), [[ordinary + k] for k in range(len(kinds))]
    moved, apart = dict.fromkeys(kinds, 0.0), 0.0
    plan = [[], common, *alone, *(common + one for one in alone)]
    observed = _planned(hurt, plan)
    for chosen, released, own in _sums(observed, plan):
        apart = max(apart, norm(released - own.sum(0)) / clip / max(1, len(chosen)))
        for unit in chosen[-1:]:
            if unit >= ordinary:
                name = kinds[unit - ordinary]
                moved[name] = max(moved[name], norm(released - own[:-1].sum(0)) / clip)
    yield of_one_unit(moved, ordinary + 1)
    claim, seen = "sums are those of clipped units", f"at most {apart:.1e} C a unit apart"
    yield certain("sensitivity: sums", claim, not apart <= _ROUNDING, seen)
    yield of_weights(observed, name="sensitivity: weights")

    # units whose losses are scaled down count in full: their sums are far below the clip norm
    faint, largest, apart = _FAINT * min(1.0, clip), 0.0, 0.0
    small = replace(subject.first(ordinary), loss=lambda *given: faint * subject.loss(*given))
    plan = [[], *([u] for u in common), common]
    for _, released, own in _sums(_planned(small, plan), plan):
        largest = max(largest, norm(released) / clip)
        apart = max(apart, norm(released - own.sum(0)) / max(1e-30, float(own.norm(dim=1).sum())))
    seen = f"at most {apart:.1e} of the units' norms apart, sums of {largest:.1e} C at most"
    claim = "small sums are no exception"
    yield certain("sensitivity: small sums", claim, not apart <= _FAINT, seen)


def of_one_unit(moved: dict[str, float], units: int) -> Check:
    """How far, in clip norms, one of so many units moved their sum, by what was made to hurt in it."""
    worst, claim = max(moved, key=moved.__getitem__), "one unit more moves the sum by at most C"
    broken = moved[worst] > 1.0 + _ROUNDING * units
    return certain("sensitivity: one unit", claim, broken, f"{moved[worst]:.4f} C by {worst}")


def _planned(subject: Subject, plan: Sequence[list[int]]) -> Observer:
    """A run without noise on batches of these units."""
    own = subject.mechanism.max_physical_batch
    planned = subject.lasting(len(plan)).with_mechanism(max_physical_batch=own and min(own, _PART))
    return observe(planned, Planned(plan))


def _sums(
    observed: Observer, plan: Sequence[list[int]]
) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """The sums of such a run, beside the units' contributions."""
    reference = reference_of(observed)
    for chosen, seen in zip(plan, observed.steps, strict=True):
        yield chosen, seen.released[0].cpu(), contributions(reference, seen.before, chosen)


def with_hurtful(
    subject: Subject, ordinary: int, *, finite: bool = False
) -> tuple[Subject, list[str]]:
    """The records of some ordinary units, after them those of units that were made to hurt, and what these are."""
    inputs, targets = subject.dataset.tensors
    first = subject.members[:ordinary]
    kept, x, y = [i for own in first for i in own], inputs[first[0][:1]], targets[first[0][:1]]
    known = HURTFUL if subject.people is None else HURTFUL | OF_PEOPLE
    whole = not inputs.is_floating_point()
    kinds = {
        name: factors
        for name, factors in known.items()
        if not (whole and {*factors} - {0.0, 1.0})
        and not (finite and not np.isfinite(factors).all())
    }
    owners = [unit for unit, own in enumerate([*first, *kinds.values()]) for _ in own]
    extra = [(factor * x).to(x) for factors in kinds.values() for factor in factors]
    # the same wrong target for all: gradients that do not cancel
    wrong = y.expand(len(extra), *y.shape[1:])
    data = TensorDataset(torch.cat([inputs[kept], *extra]), torch.cat([targets[kept], wrong]))
    people = None if subject.people is None else torch.tensor(owners)
    return replace(subject, dataset=data, people=people), list(kinds)
