"""Random words and who owns them: Philox from seeds, ChaCha20 from the operating system, and what is made of both.

Everything here is a function of keys and counters, or of keys that nobody keeps. It knows neither chains nor private
steps, which both draw from it. Philox is written once, in torch (:mod:`pacdp.random.philox`); a compiled form for the
CPU and a Triton form for GPUs give the same words, and one table of known answers holds for all three.
"""

from typing import NamedTuple

from jaxtyping import Int64
from torch import Tensor


class Words(NamedTuple):
    """Independent uniform whole numbers below 2^bits: one for each unit, or a row of them for each batch."""

    values: Int64[Tensor, "*rows size"]
    bits: int
