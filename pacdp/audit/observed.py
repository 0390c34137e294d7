"""One run of the loop as its auditor sees it: which records were read, what was released, what reached the optimizer.

Nothing is patched. The data set notes who reads it, the ledger what it is told, ``watch`` what is released, and the
weights after every step are kept as snapshots.
"""

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

from pacdp.algorithms.algorithm import Algorithm
from pacdp.loop import PrivateRun, Progress, train
from pacdp.schedules import Schedule
from pacdp.step.clip import Weights
from pacdp.step.gradients import PerExampleLoss
from pacdp.step.mechanism import Mechanism
from pacdp.step.noise import Randomness, SeededRandomness, SystemRandomness
from pacdp.store.reservation import NoLedger, Reservation, Stretch

_ALONE = {"snapshots": 0, "pre_noise": 0.0}
"""What is left out of an algorithm that is watched."""
_SCHEDULES = ("learning_rate", "step_size")
"""Settings of algorithms that may be functions of the step."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is audited: a private algorithm, its network and its loss, on records of the auditor's."""

    algorithm: Any
    """An :class:`Algorithm` whose settings are a dataclass."""
    mechanism: Mechanism
    module: nn.Module
    dataset: TensorDataset
    loss: PerExampleLoss
    people: Tensor | None = None
    """The person's number for each record, where people are the units."""

    @cached_property
    def members(self) -> list[list[int]]:
        """The records of each unit, in the order of the units."""
        owners = torch.arange(len(self.dataset)) if self.people is None else self.people
        return [(owners == one).nonzero().reshape(-1).tolist() for one in owners.unique()]

    def first(self, units: int) -> "Subject":
        """The same on the records of the first so many units alone."""
        kept = sorted(i for own in self.members[:units] for i in own)
        people = None if self.people is None else self.people[kept]
        return replace(self, dataset=TensorDataset(*self.dataset[kept]), people=people)

    def lasting(self, steps: int) -> "Subject":
        """The same for so many steps, without a budget, snapshots or noise before clipping.

        Schedules say nothing of steps beyond the run's own, and begin again there.
        """
        last = self.mechanism.steps

        def again(schedule: Schedule | Any) -> Schedule | Any:
            goes_on = steps <= last or not callable(schedule)
            return schedule if goes_on else lambda step: schedule(step % last)

        given = {one.name: getattr(self.algorithm, one.name) for one in fields(self.algorithm)}
        own = {name: again(one) for name, one in given.items() if name in _SCHEDULES}
        own |= {name: value for name, value in _ALONE.items() if name in given}
        alone = replace(self, algorithm=replace(self.algorithm, **own))
        noise = again(self.mechanism.noise_multiplier)
        return alone.with_mechanism(steps=steps, budget=None, noise_multiplier=noise)

    def with_mechanism(self, **changes: Any) -> "Subject":
        """The same with other public numbers."""
        return replace(self, mechanism=replace(self.mechanism, **changes))

    def by_reference(self) -> "Subject":
        """The same without ghost clipping, which takes long to set up."""
        return self.with_mechanism(grad_sample_mode="reference")


@dataclass(slots=True, kw_only=True)
class Seen:
    """One step; private."""

    number: int
    """From 1 on."""
    read: dict[int, None] = field(default_factory=dict)
    """Records in the order in which they were first read."""
    drawn: list[int] | None = None
    """Units that were drawn, where that was seen."""
    released: list[Tensor] = field(default_factory=list)
    """Flat, single or double precision as the weights."""
    before: Tensor = field(init=False)
    """Flat weights, all parameters; known, like what follows, when a run has come to its end."""
    after: Tensor = field(init=False)
    stds: list[float] = field(init=False)
    """What the algorithm says of the noise of each release."""
    chosen: int = field(init=False)


class Stop(Exception):
    """The auditor ends a sitting."""


class Observer(NoLedger):
    """What runs of a subject show, in one sitting or more; its books count nothing and note what they are told.

    Args:
        discards: whether the batches that are drawn are thrown away, so that the noise alone is released.
        stops: where sittings end: a step, and whether its first sum was released. They are taken away one by one.
    """

    ran: PrivateRun

    def __init__(
        self,
        subject: Subject,
        *,
        discards: bool = False,
        stops: Iterable[tuple[int, bool]] = (),
    ) -> None:
        self.subject, self.discards = subject, discards
        self.stops = set(stops)
        self.algorithm: Algorithm = subject.algorithm
        self.mechanism, self.clip_norm = subject.mechanism, subject.mechanism.fixed_clip_norm
        self.steps, self.told = list[Seen](), list[Stretch]()
        self.seeds: dict[str, int] = {}
        """Of the random layers' generators, by name."""
        self.on_grid = False
        """Whether the source of noise promises the grid of docs/noise.md."""
        self.now = Seen(number=1)

    def run(self, source: Randomness, *, checkpoint: Path | None = None) -> None:
        """Train, or go on; what is seen is added to what was.

        Raises:
            Stop: ``stops`` said so; the step under way is kept too.
            ValueError: what ``train`` refuses.
        """
        self.now, self.on_grid = Seen(number=1), isinstance(source, SystemRandomness)
        try:
            self.ran = train(
                self.algorithm, self.subject.module, _Read(self.subject.dataset, self),
                mechanism=self.mechanism, loss=self.subject.loss, people=self.subject.people,
                randomness=self._overheard(source), progress=self._progress, checkpoint=checkpoint,
                checkpoint_every=int(checkpoint is not None), ledger=self, keeps=lambda step: True,
                watch=self._watch,
            )  # fmt: skip
        except Stop:
            if self.now.released:
                self.steps.append(self.now)
            raise
        weights = [flat(self.subject.module.parameters()), *self.ran.snapshots]
        for seen in self.steps:
            t = seen.number - 1
            seen.before, seen.after = weights[t : t + 2]
            noises = self.algorithm.noises(t, self.mechanism)
            seen.stds = [noise * self.clip_norm for noise in noises]
            seen.chosen = int(self.ran.chosen[t])

    def reserve(self, stretch: Stretch) -> Reservation:
        """Note what the ledger is told: with a checkpoint, of every step, when that of the step before is written."""
        self.told.append(stretch)
        self.now.number = stretch.first
        self._may_stop(False)
        return super().reserve(stretch)

    def _overheard(self, source: Randomness) -> Randomness:
        """``source`` itself, of its own kind and with its own numbers, which says what it draws."""
        twin = copy.copy(source)
        draw, make = twin.batch, twin.generator

        def batch(n: int, sample_rate: float) -> Tensor:
            found = draw(n, sample_rate)
            if self.now.released:  # a coin, of a choice
                return found
            self.now = Seen(
                number=self.now.number, drawn=found.tolist()
            )  # what was read was set-up
            return found[:0] if self.discards else found

        def generator(stream: str, device: torch.device | str = "cpu") -> torch.Generator:
            made = make(stream, device)
            self.seeds[stream] = made.initial_seed()
            return made

        vars(twin).update(batch=batch, generator=generator)
        return twin

    def _may_stop(self, released: bool) -> None:
        here = {(self.now.number, released)} & self.stops
        self.stops -= here
        if here:
            raise Stop

    def _watch(self, released: Weights) -> None:
        self.now.released.append(flat(released.values()))
        self._may_stop(True)

    def _progress(self, progress: Progress) -> None:
        self.steps.append(self.now)
        self.now = Seen(number=progress.step + 1)


def observe(subject: Subject, source: Randomness, *, discards: bool = False) -> Observer:
    """One run of the subject, watched."""
    observed = Observer(subject, discards=discards)
    observed.run(source)
    return observed


def flat(tensors: Iterable[Tensor]) -> Tensor:
    """One vector, a copy."""
    return torch.cat([one.detach().reshape(-1) for one in tensors])


def norm(vector: Tensor) -> float:
    """The Euclidean norm in double precision; infinity where it is no number, which compares as less than nothing."""
    found = float(vector.double().norm())
    return math.inf if math.isnan(found) else found


def put(vector: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy a vector of these parameters into the network's own memory."""
    own = list(parameters)
    for p, part in zip(own, vector.split([p.numel() for p in own]), strict=True):
        p.data.copy_(part.view_as(p))


class _Read(Dataset[Any]):
    """Records that say when they are read."""

    def __init__(self, dataset: TensorDataset, observer: Observer) -> None:
        self._dataset, self._observer = dataset, observer

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Any:
        self._observer.now.read[index] = None
        return self._dataset[index]


class Planned(SeededRandomness):
    """Randomness of an auditor: no noise, and the batches of a list, one after the other; None for all units."""

    def __init__(self, batches: Iterable[Sequence[int] | None]) -> None:
        super().__init__(0)
        self._planned = iter(batches)

    def noised(self, total: Tensor, *, std: float) -> Tensor:
        """A copy."""
        del std
        return total.clone()

    def batch(self, n: int, sample_rate: float) -> Tensor:
        """The next of the list; a coin of one side for whoever asks about a single unit."""
        del sample_rate
        chosen = None if n == 1 else next(self._planned)
        return torch.arange(n) if chosen is None else torch.tensor(chosen, dtype=torch.int64)
