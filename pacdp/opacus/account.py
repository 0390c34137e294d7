"""Steps of a loop of one's own are counted before their noise is drawn: in the engine's event, and in a ledger."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from pacdp.opacus.accountant import EventAccountant
from pacdp.schedules import Schedule
from pacdp.step.budget import planned
from pacdp.step.noise import Randomness
from pacdp.step.paid import Paid, stream_of
from pacdp.step.processes import Together
from pacdp.store.reservation import Books, new_run

_NO_END = 2**62
"""A loop of one's own may go on for as long as it likes."""


@dataclass(kw_only=True)
class Account:
    """Counts the steps of one chain.

    Attributes:
        accountant: of all chains of one engine.
        books: the engine's ledger, where it keeps one by the time of a step.
        schedule: gives the same number whenever it is asked for a step.
        every: steps that are reserved in the ledger together, those of one pass of the loader: a loop that is killed
            pays for the rest of its pass as well.
    """

    accountant: EventAccountant
    books: Callable[[], Books | None]
    schedule: Schedule
    sample_rate: float
    every: int
    randomness: Randomness
    together: Together
    device: torch.device
    paid: Paid | None = None

    def __call__(self, step: int, noise_multiplier: float) -> None:
        """Count ``step``, from 0 on.

        Raises:
            ValueError: the ledger refuses, and no noise may be drawn.
        """
        books = self.books()
        if books is not None:
            self.paid = self.paid or self._paid(books)
            self.paid.before(step + 1)
        self.accountant.step(noise_multiplier=noise_multiplier, sample_rate=self.sample_rate)

    def _paid(self, books: Books) -> Paid:
        """Leave is asked of these books; a seed is refused the second time, since nothing names the code of a loop."""
        plan = partial(planned, self.schedule, sample_rate=self.sample_rate)
        return Paid(
            books,
            run=new_run(),
            algorithm="PrivateEngine",
            unit="example",
            cost=lambda first, last: plan(steps=last, done=first - 1),
            stream=stream_of(books, self.randomness, release=secrets.token_hex()),
            every=self.every,
            last=_NO_END,
            together=self.together,
            device=self.device,
        )
