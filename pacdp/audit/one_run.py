"""What the audit asks of a run: noise, batches, divisor, weights, choices and what it told."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.utils.data import Dataset

from bounds.accounting import Event
from pacdp.audit import batch_laws, noise_laws
from pacdp.audit.checks import Check, by_chance, cannot_be_checked, certain
from pacdp.audit.observed import Observer, tensors_of
from pacdp.audit.p_values import Found, bonferroni
from pacdp.audit.recomputed import Recomputed
from pacdp.audit.replayed import moves_again
from pacdp.audit.told import choice_of, multipliers_of, noise_of, rate_of, told_of
from pacdp.loop import PrivateRun
from pacdp.random.grid import GRID_LOG2
from pacdp.step.event import combined
from pacdp.step.noise import share

_SAME = 1e-3
"""Relative difference that the rounding of single precision explains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a run left for its auditor; private."""

    noise: np.ndarray
    """Released sums minus recomputed ones, over the standard deviation that was told; (releases, dim)."""
    directions: np.ndarray
    """Recomputed sums, scaled to norm 1, a row for each release."""
    sizes: np.ndarray
    """Units in the batch behind each release, minus their expected number."""
    batches: np.ndarray
    """(steps, units), whether any record of the unit was read in the step."""
    cut: int
    """How often some of a person's records were read without the others."""
    events: list[Event]
    """What was told of each step."""
    undrawn: int | None = None
    """Steps in which other units were read than were drawn; None where no drawing was seen."""


def members_of(people: Tensor | None, records: int) -> list[list[int]]:
    """The records of each unit, in the order of the units."""
    if people is None:
        return [[i] for i in range(records)]
    return [(people == person).nonzero().reshape(-1).tolist() for person in people.unique()]


def recomputed(observed: Observer, dataset: Dataset[Any]) -> Recomputed:
    """The run's contributions, computed anew."""
    algorithm = observed.algorithm
    return Recomputed(
        observed.module,
        dataset,
        observed.loss,
        clip_norm=algorithm.mechanism.clip_norm,
        draws=algorithm.draws,
        contribution=algorithm.contribution,
        width=algorithm.width,
        seeds=observed.seeds,
        most=1 if observed.alone else algorithm.mechanism.max_physical_batch,
    )


def evidence_of(
    observed: Observer, run: PrivateRun, dataset: Dataset[Any], members: Sequence[Sequence[int]]
) -> Evidence:
    """Hold each release against the sum of its units' contributions, recomputed from the records that were read."""
    algorithm, events = observed.algorithm, told_of(run.event)
    exact = recomputed(observed, dataset)
    clip, unit_of = algorithm.mechanism.clip_norm, {i: u for u, own in enumerate(members) for i in own}
    noise, directions, sizes, cut = list[np.ndarray](), list[np.ndarray](), list[float](), 0
    batches = np.zeros((len(observed.steps), len(members)), dtype=bool)
    undrawn = None if any(seen.drawn is None for seen in observed.steps) else 0
    weights = observed.weights_before(run)
    for row, seen in enumerate(observed.steps):
        chosen = list(dict.fromkeys(unit_of[i] for i in seen.read))
        batches[row, chosen] = True
        cut += sum(any(i not in seen.read for i in members[u]) for u in chosen)
        if undrawn is not None:
            undrawn += set(seen.drawn or ()) != set(chosen)
        total = exact(weights[seen.number - 1], [members[u] for u in chosen]).sum(0)
        length = float(total.norm())
        told = multipliers_of(algorithm, events[row], number=seen.number, releases=len(seen.released))
        for released, multiplier in zip(seen.released, told, strict=True):
            noise.append(((released.double().cpu() - total) / (multiplier * clip)).float().numpy())
            directions.append((total / length if length > 0.0 else total).float().numpy())
            sizes.append(len(chosen) - len(members) * rate_of(events[row]))
    return Evidence(
        noise=np.stack(noise),
        directions=np.stack(directions),
        sizes=np.array(sizes),
        batches=batches,
        cut=cut,
        events=events,
        undrawn=undrawn,
    )


def of_grid(observed: Observer, events: Sequence[Event], *, processes: int = 1) -> Check:
    """Noise of the system is added to sums on the grid of docs/noise.md, section 1; other is not.

    Rounding to single precision leaves multiples of the grid what they are.

    Args:
        events: what was told of each observed step.
        processes: whose shares of noise add up.
    """
    name, claim = "noise: grid", "all that is released lies on the noise's grid"
    if not observed.on_grid:
        return cannot_be_checked(name, claim, "the source of the noise promises no grid")
    algorithm, beside, count = observed.algorithm, 0, 0
    for seen, event in zip(observed.steps, events, strict=True):
        count_of = len(seen.released)
        told = multipliers_of(algorithm, event, number=seen.number, releases=count_of)
        for released, multiplier in zip(seen.released, told, strict=True):
            _, exponent = math.frexp(share(multiplier * algorithm.mechanism.clip_norm, processes))
            places = released.double() / math.ldexp(1.0, exponent - 1 - GRID_LOG2)
            beside, count = beside + int((places != places.round()).sum()), count + places.numel()
    return certain(name, claim, beside > 0, f"{beside} of {count} numbers lie beside it")


def of_noise(evidence: Evidence, module: nn.Module) -> Iterator[Check]:
    """Laws of what was added to the clipped sum."""
    z, tensors = evidence.noise, tensors_of(module)
    tests = [
        ("mean", "every coordinate has mean 0", noise_laws.mean_of_coordinates(z)),
        ("variance", "every coordinate has the variance that was told", noise_laws.variance_of_coordinates(z)),
        ("variance by tensor", "so has every tensor, biases too", noise_laws.variance_of_tensors(z, tensors)),
        ("variance by step", "so has every release", noise_laws.variance_of_steps(z)),
        ("law", "noise is Gaussian", noise_laws.normal_law(z)),
        ("largest", "in its tails too", noise_laws.largest(z)),
        ("covariance by lag", "coordinates are independent", noise_laws.covariance_by_lag(z, tensors)),
        ("covariance by direction", "sums of coordinates too", noise_laws.covariance_in_directions(z, tensors)),
        ("covariance at large", "in whatever direction", noise_laws.covariance_in_all(z)),
        ("covariance of steps", "releases are independent", noise_laws.covariance_of_steps(z)),
        ("repeats", "no two releases share noise", noise_laws.repeated_noise(z, tensors)),
        ("the data", "noise does not follow the clipped sum", noise_laws.along(z, evidence.directions)),
        ("sizes", "noise does not follow the sizes of batches", noise_laws.with_sizes(z, evidence.sizes)),
    ]
    for name, claim, found in tests:
        yield by_chance(f"noise: {name}", claim, found)


def of_batches(evidence: Evidence) -> Iterator[Check]:
    """Laws of Poisson sampling at the rate that was told."""
    x, q = evidence.batches, rate_of(evidence.events[0])
    tests = [
        ("rate", "units come at the rate that was told", batch_laws.rate(x, q)),
        ("every unit", "so does each of them", batch_laws.rate_of_units(x, q)),
        ("sizes", "sizes are binomial", batch_laws.sizes_of_batches(x, q)),
        ("extremes", "so are the largest and the smallest", batch_laws.extreme_batches(x, q)),
        ("empty", "batches are empty at rate (1-q)^n", batch_laws.empty_batches(x, q)),
        ("pairs", "units come independently of each other", batch_laws.pairs_of_units(x, q)),
        ("steps", "and of the steps before", batch_laws.steps_of_batches(x, q)),
    ]
    for name, claim, found in tests:
        yield by_chance(f"batches: {name}", claim, found)
    seen = f"{evidence.cut} parts of a person"
    yield certain("batches: whole units", "a person comes with all records or none", evidence.cut > 0, seen)
    if evidence.undrawn is not None:
        seen = f"{evidence.undrawn} of {len(x)} steps read others"
        claim = "the units that are read were drawn"
        yield certain("batches: as drawn", claim, evidence.undrawn > 0, seen)


def of_divisor(observed: Observer, run: PrivateRun, evidence: Evidence, *, name: str = "divisor") -> Iterator[Check]:
    """What moves the weights, times the public divisor, is the released sum, whatever the batch and the data's size.

    Another move may be post-processing of that sum, which no divisor enters (its signs, a step size of the update's
    own): then it is said that the released sum alone explains it, and of the divisor nothing.
    """
    if observed.steps[0].given is not None:
        apart = [_apart(seen.given, seen.released[-1]) for seen in observed.steps if seen.given is not None]
    else:
        apart = _moves(observed, run, evidence)
    claim, sizes = "the update times the public divisor is the released sum", evidence.batches.sum(1)
    seen = f"largest difference {max(apart):.1e} of it, batches of {sizes.min()} to {sizes.max()}"
    if max(apart) <= _SAME and len(apart) == len(observed.steps):
        yield certain(name, claim, False, seen)
        return
    again = moves_again(observed, run)
    if isinstance(again, str) and observed.algorithm.choice is None:
        yield cannot_be_checked(name, claim, f"{again}; {seen}")
    elif isinstance(again, str):  # each candidate was looked at
        yield certain(name, claim, True, seen)
    elif not any(again):
        why = "the update makes another move of the released sum, and makes it again of that sum alone"
        yield cannot_be_checked(name, claim, f"{why}; {seen}")
    else:
        off = sum(one != 0.0 for one in again)
        yield certain(name, claim, True, f"{seen}; the released sum alone makes other moves in {off} of {len(again)}")


def of_weights(observed: Observer, run: PrivateRun, *, name: str = "weights") -> Check:
    """The update makes the weights of every step again, bit for bit, of the released sums alone."""
    claim = "the weights follow from the released sums alone"
    again = moves_again(observed, run)
    if isinstance(again, str):
        return cannot_be_checked(name, claim, again)
    off = [one for one in again if one != 0.0]
    seen = f"{len(off)} of {len(again)} steps differ, by up to {max(again):.1e}"
    return certain(name, claim, bool(off), seen)


def of_accountant(observed: Observer, run: PrivateRun, n: int) -> Iterator[Check]:
    """Ledger, promise and result say the same."""
    told = [one for stretch in observed.told for one in told_of(stretch.event)]
    algorithm = observed.algorithm
    promised = told_of(algorithm.promise(n, algorithm.mechanism.steps))
    events = told_of(run.event)
    broken = not told == promised == events or len(events) != len(observed.steps)
    seen = f"{len(events)} steps, {len(told)} in the ledger, {len(observed.steps)} seen"
    yield certain("accountant: events", "ledger, promise and run record the same steps", broken, seen)
    wrong = sum(
        not math.isclose(
            combined(multipliers_of(algorithm, event, number=one.number, releases=len(one.released))),
            noise_of(event),
            rel_tol=1e-9,
        )
        for one, event in zip(observed.steps, events, strict=False)
    )
    rates = {rate_of(event) for event in events}
    seen = f"{wrong} steps with other noise, rates {', '.join(f'{rate:g}' for rate in sorted(rates))}"
    broken = wrong > 0 or rates != {algorithm.mechanism.sample_rate}
    yield certain("accountant: numbers", "the noise and the rate told are those of the settings", broken, seen)


def of_choices(
    observed: Observer, run: PrivateRun, evidence: Evidence, dataset: Dataset[Any],
    members: Sequence[Sequence[int]],
) -> Iterator[Check]:  # fmt: skip
    """Candidates are chosen as often as the exponential mechanism of the epsilon that was told says."""
    algorithm, epsilon = observed.algorithm, choice_of(evidence.events[0])
    choice, claim = algorithm.choice, "candidates are chosen with the probabilities that were told"
    if choice is None or not epsilon:
        return
    if len(observed.steps[0].released) != len(choice.noise_scales):
        why = "candidates that are made from another with more noise are seen by nobody unless they are chosen"
        yield cannot_be_checked("choices", claim, why)
        return
    exact = recomputed(observed, dataset)
    weights, divisor = observed.weights_before(run), algorithm.mechanism.expected_batch_size
    excess, score, spread = np.zeros(len(choice.noise_scales)), 0.0, 0.0
    for row, seen in enumerate(observed.steps):
        batch = [members[int(u)] for u in np.flatnonzero(evidence.batches[row])]
        moved = [_moved(observed.module, weights[row], one / divisor) for one in seen.released]
        losses = np.array([[exact.loss_of(one, records) for records in batch] for one in moved]).reshape(len(moved), -1)
        scores = (np.clip(losses, 0.0, choice.score_bound) / choice.score_bound).sum(1)
        odds = np.exp(-epsilon * (scores - scores.min()))
        beyond = np.eye(len(moved))[int(run.chosen[row])] - odds / odds.sum()
        excess, score, spread = excess + beyond, score + float(beyond @ scores), spread + float(np.ptp(scores)) ** 2
    # Azuma and Hoeffding: what was chosen beyond its probability, and how good that was
    squares = [*(excess**2 / len(observed.steps)), score**2 / spread if spread > 0.0 else 0.0]
    worst = max(squares)
    found = Found(bonferroni(2.0 * math.exp(-2.0 * worst), len(squares)), f"{np.abs(excess).max():.1f} of "
                  f"{len(observed.steps)} steps too many or too few, scores {score:+.2f} in all")  # fmt: skip
    yield by_chance("choices", claim, found)


def _moved(module: nn.Module, weights: Tensor, by: Tensor) -> Tensor:
    """All parameters flat, the trainable ones moved."""
    moved, start, place = weights.clone(), 0, 0
    for p in module.parameters():
        if p.requires_grad:
            moved[place : place + p.numel()] += by[start : start + p.numel()].to(weights)
            start += p.numel()
        place += p.numel()
    return moved


def _moves(observed: Observer, run: PrivateRun, evidence: Evidence) -> list[float]:
    """Without an optimizer: how far each step's move is from what one of its releases makes of the weights.

    A candidate with more noise than what was released of it is compared by the size of that noise.
    """
    algorithm, divisor = observed.algorithm, observed.algorithm.mechanism.expected_batch_size
    weights, found = [*observed.weights_before(run), run.snapshots[-1]], list[float]()
    for row, seen in enumerate(observed.steps):
        before, after = weights[row].double(), weights[row + 1].double()
        options = [
            float((_moved(observed.module, before, one.double() / divisor) - after).norm()) * divisor
            for one in seen.released
        ]
        scale, rounding = max(float(one.norm()) for one in seen.released), 1e-6 * divisor * float(before.norm())
        apart = max(0.0, min(options) - rounding) / scale
        chosen, choice = int(run.chosen[row]), algorithm.choice
        if apart > _SAME and choice is not None and len(seen.released) < len(choice.noise_scales):
            more = math.sqrt(max(0.0, choice.noise_scales[chosen] ** 2 - noise_of(evidence.events[row]) ** 2))
            dim = len(seen.released[0])
            expected = more * algorithm.mechanism.clip_norm * math.sqrt(dim)
            apart = 0.0 if abs(min(options) - expected) < 8.0 / math.sqrt(dim) * expected else apart
        found.append(apart)
    return found


def _apart(one: Tensor, other: Tensor) -> float:
    scale = max(float(other.double().norm()), 1e-30)
    return float((one.double() - other.double()).norm()) / scale
