"""Samples of units, drawn from the words of whichever generator, here alone.

A private step sees a Poisson sample: every unit is in it independently of all others with the same probability, which
is rounded down, so that no unit takes part with more than the probability that was accounted for. Or it sees one of the
batches of an epoch, into one of which every unit is thrown, independently of all others and uniformly.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from bounds import binary_kl
from pacdp.random import Words

_RARE = 80


def poisson(words: Words, sample_rate: float) -> Int64[Tensor, " chosen"]:
    """Indices, rising, of the units whose word is below ⌊sample_rate · 2^bits⌋.

    Formal guarantee: if the words are independent and uniform, each unit is in the sample independently with
    probability ⌊sample_rate · 2^bits⌋ / 2^bits, which is at most ``sample_rate`` and less than 2^-bits below it.

    Raises:
        ValueError: ``sample_rate`` outside [0, 1].
    """
    return _members(words, sample_rate).nonzero()[:, 0]


def once_an_epoch(words: Callable[[int], Words], n: int, batches: int) -> Int64[Tensor, " n"]:
    """The batch of each of n units, from 0 on; ``words`` gives so many new words at every call.

    Formal guarantee: if the words are independent and uniform, so are the batches. A word beyond the largest multiple
    of ``batches`` is drawn again.
    """
    places, left = torch.empty(n, dtype=torch.int64), torch.arange(n)
    while len(left):
        drawn = words(len(left))
        places[left] = drawn.values % batches
        left = left[drawn.values >= 2**drawn.bits // batches * batches]
    return places


def require_each_once(chosen: Int64[Tensor, " chosen"], n: int) -> None:
    """Refuse what somebody's own source of randomness takes for a sample of n units.

    Raises:
        ValueError: a unit is in it twice, whose part in the sum would pass the clip norm, or one that is none of the n.
    """
    if len(chosen.unique()) < len(chosen) or not ((chosen >= 0) & (chosen < n)).all():
        raise ValueError(
            f"randomness.batch gave a unit twice, or one beyond the {n} that there are, where a sum would move by more "
            "than the clip norm: draw each unit by a coin of its own, as SystemRandomness().batch does"
        )


class Rows(NamedTuple):
    """Poisson samples in rows of one length, so that no shape depends on a draw; a row a batch."""

    indices: Int64[Tensor, "batches most"]
    """The units of the sample, rising; where there are fewer, unit 0 stands for none."""
    member: Bool[Tensor, "batches most"]
    """Whether a unit stands for itself."""
    whole: Bool[Tensor, " batches"]
    """Whether all units of the sample are in the row."""


def poisson_rows(words: Words, sample_rate: float, most: int) -> Rows:
    """The samples of :func:`poisson` for each row of ``words``, in rows of ``most``, without a number read back.

    A sample of more than ``most`` units is cut off after these and marked: with :func:`most_of_poisson` that has
    probability at most 2⁻⁸⁰ a draw, by the words alone and whatever the units hold.
    """
    chosen = _members(words, sample_rate)
    place = (chosen.cumsum(dim=1) - 1).masked_fill(~chosen, most).clamp(max=most)
    units = torch.arange(chosen.shape[1], device=chosen.device).expand(chosen.shape)
    indices = place.new_zeros(len(place), most + 1).scatter_(1, place, units)[:, :most]
    count = chosen.sum(dim=1)
    return Rows(indices, torch.arange(most, device=chosen.device) < count[:, None], count <= most)


def most_of_poisson(n: int, sample_rate: float) -> int:
    """The least number of units that a sample of n exceeds with probability at most 2⁻⁸⁰, by Chernoff's bound.

    P(more than s) ≤ exp(-n kl((s + 1)/n ‖ sample_rate)), where kl is that of two coins.
    """
    low = min(math.floor(n * sample_rate), n - 1) + 1

    def rare(units: int) -> bool:
        return n * binary_kl((units + 1) / n, sample_rate) >= _RARE * math.log(2.0)

    return low + bisect_left(range(low, n), True, key=rare)


def _members(words: Words, sample_rate: float) -> Bool[Tensor, "*rows size"]:
    if not 0.0 <= sample_rate <= 1.0:
        raise ValueError(f"sample_rate must lie in [0, 1], got {sample_rate}")
    threshold = math.floor(sample_rate * 2.0**words.bits)  # the product is exact: a power of two
    return words.values < threshold


def with_replacement(words: Words, n: int) -> Int64[Tensor, "*rows size"]:
    """One of n indices for each word, ⌊n · word / 2³²⌋ of its upper 32 bits: each has probability 1/n up to 2⁻³²."""
    return ((words.values >> (words.bits - 32)) * n) >> 32
