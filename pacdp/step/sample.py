"""The one room where samples of units are drawn, from the words of whichever generator.

A private step sees a Poisson sample: every unit is in it independently of all others with the same probability, which
is rounded down, so that no unit takes part with more than the probability that was accounted for.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor


class Words(NamedTuple):
    """Independent uniform whole numbers below 2^bits: one for each unit, or a row of them for each batch."""

    values: Int64[Tensor, "*rows size"]
    bits: int


def poisson(words: Words, sample_rate: float) -> Int64[Tensor, " chosen"]:
    """Indices, rising, of the units whose word is below ⌊sample_rate · 2^bits⌋.

    Formal guarantee: if the words are independent and uniform, each unit is in the sample independently with
    probability ⌊sample_rate · 2^bits⌋ / 2^bits, which is at most ``sample_rate`` and less than 2^-bits below it.

    Raises:
        ValueError: ``sample_rate`` outside [0, 1].
    """
    if not 0.0 <= sample_rate <= 1.0:
        raise ValueError(f"sample_rate must lie in [0, 1], got {sample_rate}")
    threshold = math.floor(sample_rate * 2.0**words.bits)  # the product is exact: a power of two
    return (words.values < threshold).nonzero()[:, 0]


def with_replacement(words: Words, n: int) -> Int64[Tensor, "*rows size"]:
    """One of n indices for each word, ⌊n · word / 2³²⌋ of its upper 32 bits: each has probability 1/n up to 2⁻³²."""
    return ((words.values >> (words.bits - 32)) * n) >> 32


def top_bits(words: NDArray[np.int64]) -> Words:
    """The upper 53 of the 64 bits of each word, as many as the significand of a floating-point number has."""
    return Words(torch.from_numpy((words.view(np.uint64) >> np.uint64(11)).view(np.int64)), 53)
