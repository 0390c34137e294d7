"""Counts that may leave: errors and examples with Gaussian noise, paid for in a ledger, with the noise at hand.

One more record moves each of the two counts by at most one, so that a count with noise N(0, std²) is a Gaussian
mechanism of noise multiplier ``std``, and both together are the two composed. Noise is rounded to a multiple of 2⁻¹⁰
before it is added: that commutes with adding a whole number, so what is released is the exact sum, rounded, and no
floating-point grid of a sum gives the count away.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from scipy.special import ndtri
from torch import Tensor

from bounds import _check
from bounds._rounding import outward
from bounds.accounting import Composed, Event, Gaussian
from pacdp.reservation import SYSTEM, Books, Stream, Stretch, Unit

_GRID = 2.0**10


class Normals(Protocol):
    """A source of Gaussian noise, such as those of :mod:`pacdp.step.noise`."""

    def normal(self, shape: Sequence[int], *, std: float, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Independent N(0, std²)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedErrors:
    """An error count and the number of records, both with noise, and what is known of that noise."""

    errors: float
    """The number of errors plus N(0, ``std_errors``²), rounded to a multiple of 2⁻¹⁰."""
    n: float
    """The number of records plus N(0, ``std_n``²), rounded likewise."""
    std_errors: float
    std_n: float
    unit: Unit
    event: Event
    """What was released; the ledger counts it."""
    receipt: Mapping[str, Any] | None
    """Which entry of which ledger."""

    def at_worst(self, *, failure_prob: float) -> tuple[int, int]:
        """The most errors, and the fewest records, that there may be: for a bound that grows with the one and falls
        with the other, at its own failure probability plus this one.

        Formal guarantee: with probability at least 1 - failure_prob over the noise, there are no more errors and no
        fewer records than returned, whatever the data is.

        Raises:
            ValueError: failure_prob outside (0, 1).
        """
        _check.open_probability(failure_prob=failure_prob)
        reach = outward(-float(ndtri(failure_prob / 2.0))) + 1e-12  # a failure probability's half for each count
        errors = math.floor(self.errors + outward(reach * self.std_errors) + 1.0 / _GRID)
        n = math.ceil(self.n - outward(reach * self.std_n) - 1.0 / _GRID)
        return max(0, errors), max(0, n)


def released_errors(
    errors: int,
    n: int,
    *,
    std_errors: float,
    std_n: float,
    randomness: Normals,
    ledger: Books,
    run: str,
    unit: Unit = "example",
    stream: Stream = SYSTEM,
    label: str = "errors and n",
) -> ReleasedErrors:
    """Release an error count and n with noise, after the ledger has counted both.

    Formal guarantee: what is returned is a function of two Gaussian mechanisms whose sensitivity is one for add-remove
    neighbours of ``unit``; they are counted before they are drawn.

    Args:
        errors: how many of the ``n`` records are classified wrongly. Where ``unit`` is "person", both count people.
        n: the number of records.
        std_errors: standard deviation of the noise on ``errors``.
        std_n: standard deviation of the noise on ``n``.
        randomness: where the noise comes from.
        ledger: the data set's ledger.
        run: the run whose errors these are.
        unit: what one record is.
        stream: the identity of the noise, if ``randomness`` is seeded.
        label: a few words for whoever reads the ledger.

    Raises:
        ValueError: counts or standard deviations out of range, or the ledger refuses; then nothing was drawn.
    """
    _check.whole(errors=errors)
    _check.count(n=n)
    _check.positive(std_errors=std_errors, std_n=std_n)
    if errors > n:
        raise ValueError(f"errors must be at most n, got {errors} of {n}")
    event = Composed(events=(Gaussian(noise_multiplier=float(std_errors)), Gaussian(noise_multiplier=float(std_n))))
    made = Stretch(
        run=run, algorithm="counts", unit=unit, first=1, last=2, event=event, stream=stream, label=label, kind="release"
    )
    granted = ledger.reserve(made)
    noisy: list[float] = []
    for step, (value, std) in enumerate(((errors, std_errors), (n, std_n)), start=1):
        granted.draw(step)
        noise = float(randomness.normal((1,), std=float(std), dtype=torch.float64, device=torch.device("cpu")))
        noisy.append(int(value) + round(noise * _GRID) / _GRID)
    return ReleasedErrors(
        errors=noisy[0],
        n=noisy[1],
        std_errors=float(std_errors),
        std_n=float(std_n),
        unit=unit,
        event=event,
        receipt=granted.receipt,
    )
