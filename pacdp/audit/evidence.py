"""What a run left for its auditor: the noise that was added to recomputed sums, who came when, and what was told."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bounds.accounting import Composed, Event, ExponentialMechanism, Gaussian, PoissonSampled
from pacdp.audit.observed import Observer
from pacdp.audit.recomputed import contributions, reference_of
from pacdp.step.event import runs_of


def told_of(event: Event | None) -> list[Event]:
    """What an accountant was told of each step, in their order."""
    return [one for one, count in runs_of(event) for _ in range(count)]


def rate_of(step: Event) -> float:
    """The probability with which a unit takes part in the step."""
    return step.sample_rate if isinstance(step, PoissonSampled) else 1.0


def noise_of(step: Event) -> float:
    """The noise multiplier of one step, of all its releases together; 0 for none."""
    return next(
        (one.noise_multiplier for one in _mechanisms(step) if isinstance(one, Gaussian)), 0.0
    )


def choice_of(step: Event) -> float:
    """The epsilon of the step's choice among candidates; 0 where nothing is chosen."""
    return sum(
        (one.epsilon for one in _mechanisms(step) if isinstance(one, ExponentialMechanism)), 0.0
    )


def _mechanisms(step: Event) -> list[Event]:
    match step:
        case PoissonSampled():
            return _mechanisms(step.event)
        case Composed():
            return [one for part in step.events for one in _mechanisms(part)]
        case _:
            return [step]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a run left; private."""

    noise: np.ndarray
    """Released sums minus recomputed ones, over the standard deviation that was told; (releases, dim)."""
    sums: np.ndarray
    """The recomputed sums; (releases, dim)."""
    rows: Sequence[int]
    """The step of each release, a row of ``batches``."""
    batches: np.ndarray
    """(steps, units), whether any record of the unit was read in the step."""
    events: list[Event]
    """What was told of each step."""
    cut: int = 0
    """How often some of a person's records were read without the others."""
    undrawn: int | None = None
    """Steps in which other units were read than were drawn; None where no drawing was seen."""

    @property
    def rate(self) -> float:
        """The rate that was told."""
        return rate_of(self.events[0])

    @property
    def directions(self) -> np.ndarray:
        """Recomputed sums, scaled to norm 1, a row for each release; zeros of an empty batch."""
        return self.sums / np.maximum(np.linalg.norm(self.sums, axis=1, keepdims=True), 1e-30)

    @property
    def sizes(self) -> np.ndarray:
        """Units in the batch behind each release, minus their expected number."""
        return (self.batches.sum(1) - self.batches.shape[1] * self.rate)[self.rows]


def evidence_of(observed: Observer) -> Evidence:
    """Hold each release against the sum of its units' contributions, recomputed from the records that were read.

    A step that was killed may have released fewer sums than the algorithm says.
    """
    reference, members = reference_of(observed), observed.subject.members
    told = told_of(observed.ran.event)
    unit_of = {record: unit for unit, own in enumerate(members) for record in own}
    noise, sums, rows = list[np.ndarray](), list[np.ndarray](), list[int]()
    batches = np.zeros((len(observed.steps), len(members)), dtype=bool)
    cut, undrawn = 0, 0
    for row, seen in enumerate(observed.steps):
        chosen = list(dict.fromkeys(unit_of[record] for record in seen.read))
        batches[row, chosen] = True
        cut += sum(any(record not in seen.read for record in members[unit]) for unit in chosen)
        undrawn += set(seen.drawn or ()) != set(chosen)
        total = contributions(reference, seen.before, chosen).sum(0)
        for released, std in zip(seen.released, seen.stds, strict=False):
            noise.append(((released.double().cpu() - total) / std).float().numpy())
            sums.append(total.float().numpy())
            rows.append(row)
    return Evidence(
        noise=np.stack(noise),
        sums=np.stack(sums),
        rows=rows,
        batches=batches,
        events=[told[seen.number - 1] for seen in observed.steps],
        cut=cut,
        undrawn=None if any(seen.drawn is None for seen in observed.steps) else undrawn,
    )
