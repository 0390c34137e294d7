"""Counts that may leave: errors and records with Gaussian noise, paid for in a ledger, with the noise at hand.

One more record moves each of the two counts by at most one, so that a count with noise N(0, std²) is a Gaussian
mechanism of noise multiplier ``std``, and both together are the two composed. Where people are the records, a person's
errors are the share of their own examples that are in error, rounded up to a multiple of 2⁻¹⁰ (:func:`sum_of_rates`):
at most one as well, however many examples they have. A count and its noise are rounded as one number, to the grid of
the noise and to a multiple of 2⁻¹⁰: whatever is released is a function of the sum of both.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Int64
from scipy.special import ndtri
from torch import Tensor

from bounds import _check
from bounds._arithmetic import outward
from bounds.accounting import Composed, Event, Gaussian
from pacdp.random.grid import GRID_LOG2, LIMIT
from pacdp.step.paid import stream_of
from pacdp.store.record import Values, record
from pacdp.store.reservation import Books, Stretch, Unit

_GRID = 2**10
_HALF_CELL = 2.0 ** -(GRID_LOG2 + 1)
"""Of the grid of noise (:mod:`pacdp.random.grid`), at most, in standard deviations."""


@runtime_checkable
class Normals(Protocol):
    """A source of Gaussian noise, such as those of :mod:`pacdp.step.noise`."""

    def noised(self, total: Tensor, *, std: float) -> Tensor:
        """``total`` with independent N(0, std²) on every coordinate."""
        ...


@record
class ReleasedErrors:
    """An error count and the number of records, both with noise, and what is known of that noise."""

    errors: float | int
    """The number of errors, or the sum of people's rates, plus N(0, ``std_errors``²), rounded to a multiple of 2⁻¹⁰."""
    n: float | int
    """The number of records plus N(0, ``std_n``²), rounded likewise."""
    std_errors: float | int
    std_n: float | int
    unit: Unit
    receipt: Mapping[str, Any] | None = None
    """Which entry of which ledger."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.errors) and math.isfinite(self.n)):
            raise ValueError(f"errors and n must be finite, got {self.errors} and {self.n}")
        _check.positive(std_errors=self.std_errors, std_n=self.std_n)

    @property
    def event(self) -> Event:
        """What was released; the ledger counts it."""
        noises = (self.std_errors, self.std_n)
        return Composed(events=tuple(Gaussian(noise_multiplier=float(std)) for std in noises))

    def to_dict(self) -> Values:
        """JSON values that may be published: all but the receipt."""
        return {
            name: getattr(self, name) for name in ("errors", "n", "std_errors", "std_n", "unit")
        }

    def at_worst(self, *, failure_prob: float) -> tuple[float, int]:
        """The most errors, and the fewest records, that there may be: for a bound that grows with the one and falls
        with the other, at its own failure probability plus this one.

        Formal guarantee: with probability at least 1 - failure_prob over the noise, there are no more errors and no
        fewer records than returned, whatever the data is. Errors are a whole number, or, of people, a multiple of 2⁻¹⁰.

        Raises:
            ValueError: failure_prob outside (0, 1).
        """
        _check.open_probability(failure_prob=failure_prob)
        # half of the failure probability for each count; noise is rounded to a grid that grows with it
        reach = outward(-float(ndtri(failure_prob / 2.0))) + _HALF_CELL + 1e-12
        grid, half = 1 if self.unit == "example" else _GRID, 1.0 / _GRID
        errors = math.floor((self.errors + outward(reach * self.std_errors) + half) * grid) / grid
        return max(0.0, errors), max(0, math.ceil(self.n - outward(reach * self.std_n) - half))


def sum_of_rates(wrong: Bool[np.ndarray, " n"], people: Int64[np.ndarray, " n"] | None) -> float:
    """The number of errors; of people, the sum of the share of their own that are in error, each rounded up to 2⁻¹⁰.

    Formal guarantee: one person more or less, with all of their examples, moves it by at most one; it is at least the
    sum of the exact shares, and exceeds it by less than 2⁻¹⁰ a person.
    """
    if people is None:
        return float(wrong.sum())
    _, owner, sizes = np.unique(people, return_inverse=True, return_counts=True)
    errors = np.bincount(owner, weights=wrong).astype(np.int64)
    return int((-(-errors * _GRID // sizes)).sum()) / _GRID


def released_errors(
    errors: float | int,
    n: int,
    *,
    std_errors: float | int,
    std_n: float | int,
    randomness: Normals,
    ledger: Books,
    run: str,
    unit: Unit = "example",
    label: str = "errors and n",
) -> ReleasedErrors:
    """Release an error count and n with noise, after the ledger has counted both.

    Formal guarantee: what is returned is a function of two Gaussian mechanisms whose sensitivity is one for add-remove
    neighbours of ``unit``; they are counted before they are drawn.

    Args:
        errors: how many of the ``n`` records are classified wrongly. Where ``unit`` is "person", the sum of their own
            rates (:func:`sum_of_rates`), and ``n`` counts people.
        n: the number of records.
        std_errors: standard deviation of the noise on ``errors``.
        std_n: standard deviation of the noise on ``n``.
        randomness: where the noise comes from.
        ledger: the data set's ledger.
        run: the run whose errors these are.
        unit: what one record is.
        label: a few words for whoever reads the ledger.

    Raises:
        ValueError: counts or standard deviations out of range, or the ledger refuses, as it does noise of a seed that
            drew for anything else; then nothing was drawn.
    """
    if unit == "example":
        _check.whole(errors=cast(int, errors))
    _check.nonnegative(errors=errors)
    _check.count(n=n)
    _check.positive(std_errors=std_errors, std_n=std_n)
    if errors > n:
        raise ValueError(f"errors must be at most n, got {errors} of {n}")
    if not float(errors * _GRID).is_integer():
        raise ValueError(
            f"errors must be a multiple of 1/{_GRID}, got {errors}: take them from sum_of_rates"
        )
    least = n * 2.0 ** (GRID_LOG2 + 1) / LIMIT
    if min(std_errors, std_n) < least:  # the grid of so little noise ends before n
        raise ValueError(
            f"std_errors and std_n must be at least {least:.1e} for {n} records, got {std_errors} and {std_n}: noise "
            "so small hides nothing"
        )
    stds: Values = {"std_errors": float(std_errors), "std_n": float(std_n)}
    made = ReleasedErrors(errors=0.0, n=0.0, unit=unit, **stds)
    granted = ledger.reserve(
        Stretch(run=run, algorithm="counts", unit=unit, first=1, last=2, event=made.event, label=label,
                kind="release", stream=stream_of(ledger, randomness))
    )  # fmt: skip

    def noisy(step: int, value: float, std: float) -> float:
        granted.draw(step)
        # rounded together: a count beside noise on a coarser grid would show its last bits
        made = float(randomness.noised(torch.tensor([value], dtype=torch.float64), std=std))
        return round(made * _GRID) / _GRID

    first, second = noisy(1, errors, made.std_errors), noisy(2, n, made.std_n)
    return replace(made, errors=first, n=second, receipt=granted.receipt)
