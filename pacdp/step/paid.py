"""Steps of a run are entered into a ledger before their noise is drawn, from one checkpoint to the next."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import torch

from bounds.accounting import Event
from pacdp.step.noise import SeededRandomness
from pacdp.step.processes import Together, of_all
from pacdp.store.reservation import SYSTEM, Books, NoLedger, Reservation, Stream, Stretch, Unit

Cost = Callable[[int, int], Event | None]
"""What the steps from one number to another, from 1 on and both among them, release together."""


@dataclass
class Paid:
    """Leave to draw the noise of each step; of several processes the first one asks for it."""

    books: Books
    """The ledger."""
    _: KW_ONLY
    run: str
    """The run's name."""
    algorithm: str
    unit: Unit
    cost: Cost
    """What the steps of a stretch release, known before they are drawn."""
    stream: Stream
    every: int
    """Steps between checkpoints, so that a killed run pays no more than it may have drawn; 0 for one stretch."""
    last: int
    """The run's last step."""
    together: Together
    device: torch.device
    tells_size: bool = False
    """Whether rate or divisor are made of the number of units."""
    receipt: Mapping[str, Any] | None = None
    """For the checkpoint's header: which entry counts the last stretch."""
    _granted: Reservation | None = None

    def before(self, step: int) -> None:
        """Ask for leave to draw the noise of ``step``, from 1 on; a new stretch is entered where the last one ended.

        Raises:
            ValueError: the stretch cannot be counted, or would pass the ledger's limit, or processes differ in whether
                there is a ledger; nothing was drawn.
        """
        says = "the first process could not enter the steps into the ledger: it says why"
        self.together.first_does(
            partial(self._ask, step),
            self.device,
            otherwise=ValueError(says),
            said=not isinstance(self.books, NoLedger),
            differ=ValueError(
                "some processes of this run have a ledger and others none: name it at each of them, of which the first "
                "one counts, or at none"
            ),
        )

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
                    tells_size=self.tells_size,
                )
            )
            self.receipt = self._granted.receipt
        self._granted.draw(step)


def stream_of(books: Books, randomness: object) -> Stream:
    """The identity of a run's noise: that of the system, or of a seed, which a ledger takes once.

    Nothing names all that fixes what a run releases, its code among it, and two roundings of one noise cancel it: a
    second run with the seed, one that goes on from a checkpoint too, is refused as shared noise. The class of the
    source is no part of it, as one around another draws that one's noise.

    Raises:
        ValueError: a source that says it can draw again, and not by which seed, beside a ledger.
    """
    base = of_all(randomness)
    seed = getattr(base, "seed", None)
    if seed is not None:
        keyed_by = [SeededRandomness.__name__, seed]
        return books.stream(keyed_by=keyed_by, settings=secrets.token_hex())
    if not isinstance(books, NoLedger) and getattr(base, "state", dict)():
        raise ValueError(
            "randomness has a state and no seed, by which a ledger knows noise that can be drawn again: give "
            f"{type(base).__name__} the seed of what it draws from as its attribute, or take SystemRandomness()"
        )
    return SYSTEM
