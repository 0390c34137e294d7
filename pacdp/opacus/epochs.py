"""Batches of which each example is in exactly one an epoch, as passes of a loader.

A pass is an epoch: at its beginning every example is thrown into one of its batches, independently of all else and
uniformly. The account counts the whole epoch before the noise of its first step, however many steps follow. A pass that
is left before its end is over, and the next one is another epoch.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from pacdp.opacus.loader import Epoch, PoissonSampler


class OnceAnEpochSampler(PoissonSampler):
    """``steps`` batches a pass; every example is in exactly one of them.

    Logical steps are numbered by epochs: batch j of the chain's epoch e has step e · steps + j.
    """

    _next: Epoch | None = None
    """The epoch that a checkpoint was written in, until the next pass goes on with it."""

    def __init__(self, *, steps: int, **options: Any) -> None:
        super().__init__(steps=steps, **options)
        self.batches = steps  # as the account counts them; Opacus's number may be written

    def draws(self) -> Iterator[Tensor]:
        """The batches of a new epoch, or the rest of the one that a checkpoint was written in."""
        drawn = self._next or Epoch(self.randomness.places(self.num_samples, self.batches))
        self.epoch, self._next = drawn, None
        for batch in range(drawn.used, self.batches):
            self.require_newest(drawn)
            yield (drawn.places == batch).nonzero()[:, 0]

    def get_state(self) -> Tensor:
        """Batches that were used, the noise and the places of the examples, as bytes; empty between two epochs."""
        now = self.epoch
        if now is None or now.begins or now.used == self.batches:
            return torch.empty(0, dtype=torch.uint8)
        noise = torch.tensor([now.noise], dtype=torch.float64).view(torch.int64)
        return torch.cat([torch.tensor([now.used]), noise, now.places]).view(torch.uint8)

    def set_state(self, state: Tensor) -> None:
        """Keep a saved state until :meth:`resume`.

        Raises:
            ValueError: it is of another number of examples or of batches.
        """
        found = state.clone().view(torch.int64)
        if len(found) and (
            len(found) != 2 + self.num_samples
            or not 0 < int(found[0]) < self.batches
            or not -1 <= int(found[2:].min()) <= int(found[2:].max()) < self.batches
        ):
            raise ValueError(
                f"the run stopped within an epoch of other data than {self.num_samples} examples in {self.batches} "
                "batches: resume it with its own"
            )
        self.epoch = self._next = None
        if len(found):
            noise = float(found[1:2].view(torch.float64))
            self._next = Epoch(found[2:], used=int(found[0]), noise=noise)

    def resume(self, step: int) -> None:
        """Go on with the epoch of the saved state, of which ``step`` is the next step, or with a new one."""
        if self._next is not None:
            self._next.first = step // self.batches * self.batches
