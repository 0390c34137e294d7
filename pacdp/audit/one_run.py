"""What the audit asks of a run: noise, batches, choices and what it told."""

import math
from collections.abc import Iterator

import numpy as np
import torch
from scipy.special import softmax
from torch import nn

from pacdp.audit import batch_laws, noise_laws
from pacdp.audit.checks import Check, by_chance, cannot_be_checked, certain, none_of
from pacdp.audit.observed import Observer, flat, put
from pacdp.audit.p_values import Found, bonferroni
from pacdp.audit.recomputed import Evidence, reference_of
from pacdp.random.grid import GRID_LOG2
from pacdp.step.event import combined, told_of
from pacdp.step.units import trained


def tensors_of(module: nn.Module) -> list[slice]:
    """Where each trainable parameter lies in a flat vector of all of them."""
    sizes = [p.numel() for p in module.parameters() if p.requires_grad]
    return [slice(end - size, end) for size, end in zip(sizes, np.cumsum(sizes), strict=True)]


def of_grid(observed: Observer) -> Check:
    """Noise of the system is added to sums on the grid of docs/noise.md, section 1; other is not.

    Rounding to single precision leaves multiples of the grid what they are.
    """
    name, claim = "noise: grid", "all that is released lies on the noise's grid"
    if not observed.on_grid:
        return cannot_be_checked(name, claim, "the source of the noise promises no grid")
    beside, count = 0, 0
    for seen in observed.steps:
        for released, std in zip(seen.released, seen.stds, strict=False):
            _, exponent = math.frexp(std)
            places = released.double() / math.ldexp(1.0, exponent - 1 - GRID_LOG2)
            beside, count = beside + int((places != places.round()).sum()), count + places.numel()
    return none_of(name, claim, beside, f"of {count} numbers lie beside it")


def of_noise(evidence: Evidence, module: nn.Module) -> Iterator[Check]:
    """Laws of what was added to the clipped sum."""
    z, t, law = evidence.noise, tensors_of(module), noise_laws
    off = evidence.batches.sum(1)[evidence.rows] - evidence.batches.shape[1] * evidence.rate
    sizes = np.broadcast_to(off[:, None], z.shape)
    for name, claim, found in (
        ("mean", "every coordinate has mean 0", law.mean_of_coordinates(z)),
        ("variance", "every coordinate has the variance that was told", law.variance_of_coordinates(z)),
        ("variance by tensor", "so has every tensor, biases too", law.variance_of_tensors(z, t)),
        ("variance by step", "so has every release", law.variance_of_steps(z)),
        ("law", "noise is Gaussian", law.normal_law(z)),
        ("largest", "in its tails too", law.largest(z)),
        ("covariance by lag", "coordinates are independent", law.covariance_by_lag(z, t)),
        ("covariance by direction", "sums of coordinates too", law.covariance_in_directions(z, t)),
        ("covariance at large", "in whatever direction", law.covariance_in_all(z)),
        ("covariance of steps", "releases are independent", law.covariance_of_steps(z)),
        ("repeats", "no two releases share noise", law.repeated_noise(z, t)),
        ("the data", "noise does not follow the clipped sum", law.along(z, evidence.sums)),
        ("sizes", "noise does not follow the sizes of batches", law.along(z, sizes)),
    ):  # fmt: skip
        yield by_chance(f"noise: {name}", claim, found)


def of_batches(evidence: Evidence) -> Iterator[Check]:
    """Laws of Poisson sampling at the rate that was told."""
    for name, claim, law in (
        ("rate", "units come at the rate that was told", batch_laws.rate),
        ("every unit", "so does each of them", batch_laws.rate_of_units),
        ("sizes", "sizes are binomial", batch_laws.sizes_of_batches),
        ("extremes", "so are the largest and the smallest", batch_laws.extreme_batches),
        ("empty", "batches are empty at rate (1-q)^n", batch_laws.empty_batches),
        ("pairs", "units come independently of each other", batch_laws.pairs_of_units),
        ("steps", "and of the steps before", batch_laws.steps_of_batches),
    ):
        yield by_chance(f"batches: {name}", claim, law(evidence.batches, evidence.rate))
    claim = "a person comes with all records or none"
    yield none_of("batches: whole units", claim, evidence.cut, "parts of a person")
    if evidence.undrawn is not None:
        said = f"of {len(evidence.batches)} steps read others, or drew one twice"
        yield none_of(
            "batches: as drawn",
            "the units that are read were drawn, each once",
            evidence.undrawn,
            said,
        )


def of_accountant(observed: Observer) -> Iterator[Check]:
    """Ledger, promise and result say the same, and say the noise and the rate of the settings."""
    algorithm, mechanism, count = observed.algorithm, observed.mechanism, len(observed.steps)
    told = [one for stretch in observed.told for one in told_of(stretch.event)]
    promised = told_of(algorithm.promise(mechanism, mechanism.steps))
    steps = told_of(observed.ran.event)
    broken = not told == promised == steps or len(steps) != count
    seen = f"{len(steps)} steps, {len(told)} in the ledger, {count} seen"
    claim = "ledger, promise and run record the same steps"
    yield certain("accountant: events", claim, broken, seen)
    wrong = sum(
        len(seen.released) != len(own := algorithm.noises(seen.number - 1, mechanism))
        or not math.isclose(combined(own), step.noise, rel_tol=1e-9)
        for seen, step in zip(observed.steps, steps, strict=False)
    )
    rates = {step.rate for step in steps}
    seen = f"{wrong} steps with other noise, rates {', '.join(map('{:g}'.format, sorted(rates)))}"
    broken = wrong > 0 or rates != {mechanism.sample_rate}
    claim = "the noise and the rate told are those of the settings"
    yield certain("accountant: numbers", claim, broken, seen)


def of_choices(observed: Observer, evidence: Evidence) -> Iterator[Check]:
    """Candidates are chosen as often as the exponential mechanism of the epsilon that was told says."""
    mechanism, choice = observed.mechanism, observed.algorithm.choice
    epsilon = evidence.told[0].choice
    claim = "candidates are chosen with the probabilities that were told"
    if choice is None or not epsilon:
        return
    if len(observed.steps[0].released) != len(choice.noise_scales):
        why = "candidates that are made from another with more noise are seen by nobody unless they are chosen"
        yield cannot_be_checked("choices", claim, why)
        return
    reference, scores = (
        reference_of(observed),
        np.zeros((len(observed.steps), len(choice.noise_scales))),
    )
    module = reference.network.module
    for own, batch, seen in zip(scores, evidence.batches, observed.steps, strict=True):
        came = torch.from_numpy(np.flatnonzero(batch))
        for k, released in enumerate(seen.released):
            put(seen.before, module.parameters())
            move = [p for p in module.parameters() if p.requires_grad]
            put(flat(move) + released / mechanism.expected_batch_size, move)
            found = reference.losses(came, trained(module)).double().numpy() / choice.score_bound
            own[k] = np.where(np.isnan(found), 1.0, found.clip(0.0, 1.0)).sum()
    chosen = np.eye(len(choice.noise_scales))[[seen.chosen for seen in observed.steps]]
    beyond = chosen - softmax(-epsilon * scores, axis=1)
    excess, score, steps = beyond.sum(0), float((beyond * scores).sum()), len(scores)
    # Azuma and Hoeffding: what was chosen beyond its probability, and how good that was
    spread = max(float((np.ptp(scores, axis=1) ** 2).sum()), 1e-300)
    squares = [*(excess**2 / steps), score**2 / spread]
    seen = f"{np.abs(excess).max():.1f} of {steps} steps too many or too few, scores {score:+.2f} in all"
    p_value = bonferroni(2.0 * math.exp(-2.0 * max(squares)), len(squares))
    yield by_chance("choices", claim, Found(p_value, seen))
