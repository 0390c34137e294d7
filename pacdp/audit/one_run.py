"""What the audit asks of a run: noise, batches, divisor, weights, choices and what it told."""

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from pacdp.audit import batch_laws, noise_laws
from pacdp.audit.checks import Check, by_chance, cannot_be_checked, certain
from pacdp.audit.evidence import Evidence, choice_of, noise_of, rate_of, told_of
from pacdp.audit.observed import Observer, norm
from pacdp.audit.p_values import Found, bonferroni
from pacdp.audit.recomputed import losses, reference_of
from pacdp.audit.replayed import moves_again
from pacdp.random.grid import GRID_LOG2
from pacdp.step.event import combined
from pacdp.step.noise import share

_SAME = 1e-3
"""Relative difference that the rounding of single precision explains."""


def tensors_of(module: nn.Module) -> list[slice]:
    """Where each trainable parameter lies in a flat vector of all of them."""
    ends = np.cumsum([0, *(p.numel() for p in module.parameters() if p.requires_grad)]).tolist()
    return [slice(start, end) for start, end in pairwise(ends)]


def of_grid(observed: Observer, *, processes: int = 1) -> Check:
    """Noise of the system is added to sums on the grid of docs/noise.md, section 1; other is not.

    Rounding to single precision leaves multiples of the grid what they are.

    Args:
        processes: whose shares of noise add up.
    """
    name, claim = "noise: grid", "all that is released lies on the noise's grid"
    if not observed.on_grid:
        return cannot_be_checked(name, claim, "the source of the noise promises no grid")
    beside, count = 0, 0
    for seen in observed.steps:
        for released, std in zip(seen.released, seen.stds, strict=False):
            _, exponent = math.frexp(share(std, processes))
            places = released.double() / math.ldexp(1.0, exponent - 1 - GRID_LOG2)
            beside, count = beside + int((places != places.round()).sum()), count + places.numel()
    return certain(name, claim, beside > 0, f"{beside} of {count} numbers lie beside it")


def of_noise(evidence: Evidence, module: nn.Module) -> Iterator[Check]:
    """Laws of what was added to the clipped sum."""
    z, tensors = evidence.noise, tensors_of(module)
    tests = [
        ("mean", "every coordinate has mean 0", noise_laws.mean_of_coordinates(z)),
        (
            "variance",
            "every coordinate has the variance that was told",
            noise_laws.variance_of_coordinates(z),
        ),
        (
            "variance by tensor",
            "so has every tensor, biases too",
            noise_laws.variance_of_tensors(z, tensors),
        ),
        ("variance by step", "so has every release", noise_laws.variance_of_steps(z)),
        ("law", "noise is Gaussian", noise_laws.normal_law(z)),
        ("largest", "in its tails too", noise_laws.largest(z)),
        (
            "covariance by lag",
            "coordinates are independent",
            noise_laws.covariance_by_lag(z, tensors),
        ),
        (
            "covariance by direction",
            "sums of coordinates too",
            noise_laws.covariance_in_directions(z, tensors),
        ),
        ("covariance at large", "in whatever direction", noise_laws.covariance_in_all(z)),
        ("covariance of steps", "releases are independent", noise_laws.covariance_of_steps(z)),
        ("repeats", "no two releases share noise", noise_laws.repeated_noise(z, tensors)),
        (
            "the data",
            "noise does not follow the clipped sum",
            noise_laws.along(z, evidence.directions),
        ),
        (
            "sizes",
            "noise does not follow the sizes of batches",
            noise_laws.with_sizes(z, evidence.sizes),
        ),
    ]
    for name, claim, found in tests:
        yield by_chance(f"noise: {name}", claim, found)


def of_batches(evidence: Evidence) -> Iterator[Check]:
    """Laws of Poisson sampling at the rate that was told."""
    tests = [
        ("rate", "units come at the rate that was told", batch_laws.rate),
        ("every unit", "so does each of them", batch_laws.rate_of_units),
        ("sizes", "sizes are binomial", batch_laws.sizes_of_batches),
        ("extremes", "so are the largest and the smallest", batch_laws.extreme_batches),
        ("empty", "batches are empty at rate (1-q)^n", batch_laws.empty_batches),
        ("pairs", "units come independently of each other", batch_laws.pairs_of_units),
        ("steps", "and of the steps before", batch_laws.steps_of_batches),
    ]
    for name, claim, law in tests:
        yield by_chance(f"batches: {name}", claim, law(evidence.batches, evidence.rate))
    seen = f"{evidence.cut} parts of a person"
    yield certain(
        "batches: whole units", "a person comes with all records or none", evidence.cut > 0, seen
    )
    if evidence.undrawn is not None:
        seen = f"{evidence.undrawn} of {len(evidence.batches)} steps read others"
        yield certain(
            "batches: as drawn", "the units that are read were drawn", evidence.undrawn > 0, seen
        )


def of_divisor(observed: Observer, evidence: Evidence, *, name: str = "divisor") -> Check:
    """What moves the weights, times the public divisor, is the released sum, whatever the batch and the data's size.

    Another move may be post-processing of that sum, which no divisor enters (its signs, a step size of the update's
    own): then it is said that the released sum alone explains it, and of the divisor nothing.
    """
    given = [(seen.given, seen.released[-1]) for seen in observed.steps if seen.given is not None]
    apart = [
        norm(one - other.double()) / max(norm(other), 1e-30) for one, other in given
    ] or _moves(observed)
    claim = "the update times the public divisor is the released sum"
    sizes = evidence.batches.sum(1)
    seen = f"largest difference {max(apart):.1e} of it, batches of {sizes.min()} to {sizes.max()}"
    if max(apart) <= _SAME and len(apart) == len(observed.steps):
        return certain(name, claim, False, seen)
    again = moves_again(observed)
    if isinstance(again, str):
        if observed.algorithm.choice is not None:  # each of whose candidates was looked at
            return certain(name, claim, True, seen)
        return cannot_be_checked(name, claim, f"{again}; {seen}")
    off = sum(one != 0.0 for one in again)
    if not off:
        why = "the update makes another move of the released sum, and makes it again of that sum alone"
        return cannot_be_checked(name, claim, f"{why}; {seen}")
    seen += f"; the released sum alone makes other moves in {off} of {len(again)}"
    return certain(name, claim, True, seen)


def of_weights(observed: Observer, *, name: str = "weights") -> Check:
    """The update makes the weights of every step again, bit for bit, of the released sums alone."""
    claim, again = "the weights follow from the released sums alone", moves_again(observed)
    if isinstance(again, str):
        return cannot_be_checked(name, claim, again)
    off = sum(one != 0.0 for one in again)
    return certain(
        name, claim, off > 0, f"{off} of {len(again)} steps differ, by up to {max(again):.1e}"
    )


def of_accountant(observed: Observer) -> Iterator[Check]:
    """Ledger, promise and result say the same, and say the noise and the rate of the settings."""
    algorithm, mechanism, count = observed.algorithm, observed.mechanism, len(observed.steps)
    told = [one for stretch in observed.told for one in told_of(stretch.event)]
    promised = told_of(algorithm.promise(mechanism, mechanism.steps))
    events = told_of(observed.ran.event)
    broken = not told == promised == events or len(events) != count
    seen = f"{len(events)} steps, {len(told)} in the ledger, {count} seen"
    yield certain(
        "accountant: events", "ledger, promise and run record the same steps", broken, seen
    )
    wrong = sum(
        len(seen.released) != len(own := algorithm.noises(seen.number - 1, mechanism))
        or not math.isclose(combined(own), noise_of(event), rel_tol=1e-9)
        for seen, event in zip(observed.steps, events, strict=False)
    )
    rates = {rate_of(event) for event in events}
    seen = (
        f"{wrong} steps with other noise, rates {', '.join(f'{rate:g}' for rate in sorted(rates))}"
    )
    broken = wrong > 0 or rates != {mechanism.sample_rate}
    yield certain(
        "accountant: numbers", "the noise and the rate told are those of the settings", broken, seen
    )


def of_choices(observed: Observer, evidence: Evidence) -> Iterator[Check]:
    """Candidates are chosen as often as the exponential mechanism of the epsilon that was told says."""
    mechanism, choice = observed.mechanism, observed.algorithm.choice
    epsilon = choice_of(evidence.events[0])
    claim = "candidates are chosen with the probabilities that were told"
    if choice is None or not epsilon:
        return
    if len(observed.steps[0].released) != len(choice.noise_scales):
        why = "candidates that are made from another with more noise are seen by nobody unless they are chosen"
        yield cannot_be_checked("choices", claim, why)
        return
    reference, live = reference_of(observed), _trainable(observed)
    excess, score, spread, steps = np.zeros(len(choice.noise_scales)), 0.0, 0.0, len(observed.steps)
    for batch, seen in zip(evidence.batches, observed.steps, strict=True):
        moves = [one.to(seen.before) / mechanism.expected_batch_size for one in seen.released]
        moved = [seen.before.masked_scatter(live, seen.before[live] + move) for move in moves]
        came = np.flatnonzero(batch).tolist()
        found = np.array([losses(reference, one, came) for one in moved]) / choice.score_bound
        scores = np.where(np.isnan(found), 1.0, found.clip(0.0, 1.0)).sum(1)
        odds = np.exp(-epsilon * (scores - scores.min()))
        beyond = np.eye(len(moved))[seen.chosen] - odds / odds.sum()
        excess += beyond
        score += float(beyond @ scores)
        spread += float(np.ptp(scores)) ** 2
    # Azuma and Hoeffding: what was chosen beyond its probability, and how good that was
    squares = [*(excess**2 / steps), score**2 / spread if spread > 0.0 else 0.0]
    seen = f"{np.abs(excess).max():.1f} of {steps} steps too many or too few, scores {score:+.2f} in all"
    yield by_chance(
        "choices", claim, Found(bonferroni(2.0 * math.exp(-2.0 * max(squares)), len(squares)), seen)
    )


def _moves(observed: Observer) -> list[float]:
    """Without an optimizer: how far each step's move is from what one of its releases makes of the weights.

    A candidate with more noise than what was released of it is compared by the size of that noise.
    """
    live, found = _trainable(observed), list[float]()
    mechanism, choice = observed.mechanism, observed.algorithm.choice
    for seen in observed.steps:
        sums = [one.double() for one in seen.released]
        moved = (seen.after.double() - seen.before.double())[live] * mechanism.expected_batch_size
        nearest = min(norm(moved - one) for one in sums)
        rounding = 1e-6 * mechanism.expected_batch_size * norm(seen.before)
        apart = max(0.0, nearest - rounding) / max(norm(one) for one in sums)
        if apart > _SAME and choice is not None and len(sums) < len(choice.noise_scales):
            std = choice.noise_scales[seen.chosen] * mechanism.clip_norm
            more, root = math.sqrt(max(0.0, std**2 - seen.stds[0] ** 2)), math.sqrt(len(moved))
            apart = 0.0 if abs(nearest - more * root) < 8.0 * more else apart
        found.append(apart)
    return found


def _trainable(observed: Observer) -> Tensor:
    """Which entries of a flat vector of all parameters are trained."""
    return torch.cat(
        [torch.full((p.numel(),), p.requires_grad) for p in observed.subject.module.parameters()]
    )
