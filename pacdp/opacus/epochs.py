"""Batches of which each example is in exactly one an epoch, as passes of a loader.

A pass is an epoch: at its beginning every example is thrown into one of its batches, independently of all else and
uniformly. The account counts the whole epoch before the noise of its first step, however many steps follow. A pass that
is left before its end is over, and the next one is another epoch.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from pacdp.opacus.loader import PoissonSampler


class OnceAnEpochSampler(PoissonSampler):
    """``steps`` batches a pass; every example is in exactly one of them.

    Logical steps are numbered by epochs: batch j of the chain's epoch e has step e · steps + j.
    """

    places: Tensor | None = None
    """The batch of each example in this epoch: private."""
    used = 0
    """Batches of this epoch that a step was given."""
    first: int | None = None
    """The step of this epoch's first batch; None until it is counted."""
    noise = 0.0
    """The noise multiplier that this epoch is counted at."""
    _loaded: Tensor | None = None
    _goes_on = False

    def __init__(self, *, steps: int, **options: Any) -> None:
        super().__init__(steps=steps, **options)
        self.batches = steps  # as the account counts them; Opacus's number may be written

    def draws(self) -> Iterator[Tensor]:
        """The batches of a new epoch, or the rest of the one that a checkpoint was written in."""
        if not self._goes_on:
            self.places, self.used, self.first = (
                self.randomness.places(self.num_samples, self.batches),
                0,
                None,
            )
        self._goes_on, places = False, self.places
        assert places is not None
        for batch in range(self.used, self.batches):
            self._require_newest(places)
            yield (places == batch).nonzero()[:, 0]

    def handing(self) -> Callable[[Any], Any]:
        """What hands out the batches of the pass that just began, until another one begins."""
        places = self.places

        def hand_out(batch: Any) -> Any:
            self._require_newest(places)
            return self.hand_out(batch)

        return hand_out

    def _require_newest(self, places: Tensor | None) -> None:
        if self.places is not places:
            raise ValueError(
                "another pass of the loader began before this one ended, and an example may be in a batch of each: "
                "make one pass after the other"
            )

    def require(self, examples: int) -> None:
        """Refuse a step on something else than the batch that was drawn for it, and note that it was used."""
        super().require(examples)
        self.used += 1

    @property
    def begins(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the account does not have this epoch yet."""
        return self.first is None

    def numbered(self, step: int) -> int:
        """The place of the batch in its epoch, which begins at a multiple of ``steps``."""
        first = -(-step // self.batches) * self.batches if self.first is None else self.first
        return first + self.used - 1

    def counted(self, step: int, noise_multiplier: float) -> None:
        """Note that the account has the epoch of this step, at that noise.

        Raises:
            ValueError: it has it at more, as where a run goes on with another schedule.
        """
        if self.first is not None and noise_multiplier < self.noise:
            raise ValueError(
                f"this epoch was counted at noise_multiplier {self.noise:g}, and this step has {noise_multiplier:g}: "
                "go on with the schedule that it began with"
            )
        if self.first is None:
            self.first, self.noise = step - (self.used - 1), noise_multiplier

    def get_state(self) -> Tensor:
        """Batches that were used, the noise and the places of the examples, as bytes; empty between two epochs."""
        if self.first is None or self.places is None or self.used == self.batches:
            return torch.empty(0, dtype=torch.uint8)
        noise = torch.tensor([self.noise], dtype=torch.float64).view(torch.int64)
        return torch.cat([torch.tensor([self.used]), noise, self.places]).view(torch.uint8)

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
        self._loaded = found

    def resume(self, step: int) -> None:
        """Go on with the epoch of the saved state, of which ``step`` is the next step, or with a new one."""
        found, self._loaded = self._loaded, None
        self._goes_on = found is not None and len(found) > 0
        if found is not None and len(found):
            self.used, self.places = int(found[0]), found[2:]
            self.noise = float(found[1:2].view(torch.float64))
            self.first = step // self.batches * self.batches
