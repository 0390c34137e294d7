"""Steps of a run are entered into a ledger before their noise is drawn, from one checkpoint to the next."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

from bounds.accounting import Event
from pacdp.reservation import SYSTEM, Books, NoLedger, Reservation, Stream, Stretch, Unit
from pacdp.step.noise import Randomness
from pacdp.step.processes import Together, process_rank, totals

Cost = Callable[[int, int], Event | None]
"""What the steps from one number to another, from 1 on and both among them, release together."""


class Paid:
    """Leave to draw the noise of each step; of several processes the first one asks for it.

    Args:
        books: the ledger.
        run: the run's name.
        cost: what the steps of a stretch release, known before they are drawn.
        every: steps between checkpoints, so that a killed run pays no more than it may have drawn; 0 for one stretch.
        last: the run's last step.
    """

    def __init__(
        self,
        books: Books,
        *,
        run: str,
        algorithm: str,
        unit: Unit,
        cost: Cost,
        stream: Stream,
        every: int,
        last: int,
        together: Together,
        device: torch.device,
    ) -> None:
        self.unit: Unit = unit
        self.books, self.run, self.algorithm, self.cost = books, run, algorithm, cost
        self.stream, self.every, self.last, self.together, self.device = stream, every, last, together, device
        self._granted: Reservation | None = None
        self.receipt: Mapping[str, Any] | None = None
        """For the checkpoint's header: which entry counts the last stretch."""

    def again(self) -> None:
        """Steps since the last checkpoint are drawn once more: leave for them is asked for anew."""
        self._granted = None

    def before(self, step: int) -> None:
        """Ask for leave to draw the noise of ``step``, from 1 on; a new stretch is entered where the last one ended.

        Raises:
            ValueError: the stretch cannot be counted, or would pass the ledger's limit; nothing was drawn.
        """
        failure: Exception | None = None
        if not self.together.several or process_rank() == 0:
            try:
                self._ask(step)
            except Exception as error:  # the other processes wait to hear of it, whatever it is
                failure = error
        if self.together.several:
            (failures,) = totals([0.0 if failure is None else 1.0], self.device)
            if failures and failure is None:
                failure = ValueError("the first process could not enter the steps into the ledger: it says why")
        if failure is not None:
            raise failure

    def _ask(self, step: int) -> None:
        if self._granted is None or step > self._granted.stretch.last:
            begun = (step - 1) % self.every if self.every > 0 else 0
            end = self.last if self.every <= 0 else min(self.last, step - 1 - begun + self.every)
            # noise that is drawn again costs nothing where the very stretch that it was counted in is asked for
            first = step - begun if self.stream.repeatable else step
            event = self.cost(first, end)
            assert event is not None
            self._granted = self.books.reserve(
                Stretch(
                    run=self.run,
                    algorithm=self.algorithm,
                    unit=self.unit,
                    first=first,
                    last=end,
                    event=event,
                    stream=self.stream,
                )
            )
            self.receipt = self._granted.receipt
        self._granted.draw(step)


def stream_of(books: Books, randomness: Randomness, *, run: str, dataset: Dataset[Any], fixed: Any) -> Stream:
    """The identity of a run's noise: that of the system, or of a seed with all else that fixes what is released.

    Args:
        fixed: JSON values: settings, network, device.
    """
    base = getattr(randomness, "base", randomness)
    seed = getattr(base, "seed", None)
    if seed is None or isinstance(books, NoLedger):  # nobody asks which data it was, so that none is hashed
        return SYSTEM
    data = _digest(dataset) or run  # of other data sets nobody knows whether they are the same
    return books.stream(keyed_by=[type(base).__name__, seed], settings=[fixed, data, torch.__version__])


def _digest(dataset: Dataset[Any]) -> str | None:
    if not isinstance(dataset, TensorDataset):
        return None
    found = hashlib.sha256()
    for tensor in dataset.tensors:
        found.update(repr((tuple(tensor.shape), str(tensor.dtype))).encode())
        found.update(_bytes(tensor))
    return found.hexdigest()


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
