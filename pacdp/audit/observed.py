"""One run of the loop as its auditor sees it: which records were read, what was released, what reached the optimizer.

Nothing is patched. The data set notes who reads it, the ledger what it is told, ``watch`` what is released, torch's own
hook what an optimizer is given, and the weights after every step are kept as snapshots.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn, optim
from torch.nn.utils import parameters_to_vector
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import Dataset

from pacdp.algorithms.algorithm import Algorithm
from pacdp.audit.planned import overheard
from pacdp.loop import PrivateRun, Progress, train
from pacdp.reservation import NoLedger, Reservation, Stretch
from pacdp.step.clip import Weights
from pacdp.step.gradients import PerExampleLoss
from pacdp.step.noise import Randomness, SystemRandomness


class Stop(Exception):
    """The auditor ends a sitting."""


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
    given: Tensor | None = None
    """The gradient that the optimizer was given, times the divisor, without what depends on no data."""


class Observer(NoLedger):
    """What one run shows, in one sitting or more; its books count nothing and note what they are told."""

    def __init__(
        self,
        algorithm: Algorithm,
        module: nn.Module,
        dataset: Dataset[Any],
        *,
        loss: PerExampleLoss,
        people: Tensor | None = None,
        interrupt: Callable[[Seen, bool], None] = lambda seen, done: None,
    ) -> None:
        self.algorithm, self.module, self.loss, self.people = algorithm, module, loss, people
        self.dataset, self.interrupt = _Read(dataset, self), interrupt
        self.steps: list[Seen] = []
        self.told: list[Stretch] = []
        self.seeds: dict[str, int] = {}
        self.alone = False
        self.on_grid = False
        self._now, self._twin = Seen(number=1), copy.deepcopy(module)
        self._done: Seen | None = None

    def run(self, randomness: Randomness, *, checkpoint: Path | None = None, distributed: bool = False) -> PrivateRun:
        """Train, or go on; what is seen is added to what was.

        Raises:
            Stop: ``interrupt`` said so; the step under way is kept too.
            ValueError: what ``train`` refuses.
        """
        self._now, self._done = Seen(number=1), None
        self.on_grid = isinstance(randomness, SystemRandomness)
        hook = register_optimizer_step_pre_hook(self._optimizer)
        try:
            done = train(
                self.algorithm,
                self.module,
                self.dataset,
                loss=self.loss,
                people=self.people,
                randomness=overheard(randomness, batch=self._batch, generator=self._generator),
                progress=self._progress,
                checkpoint=checkpoint,
                checkpoint_every=1,
                ledger=self,
                distributed=distributed,
                keeps=lambda step: True,
                watch=self._watch,
            )
            self.alone = done.grad_sample_mode == "reference"
            return done
        except Stop:
            if self._now.released:
                self.steps.append(self._now)
            raise
        finally:
            hook.remove()

    def weights_before(self, run: PrivateRun) -> list[Tensor]:
        """Flat weights, all parameters, before each step of the run by its number, from 1 on."""
        return [parameters_to_vector(self.module.parameters()).detach(), *run.snapshots[:-1]]

    def reserve(self, stretch: Stretch) -> Reservation:
        """Note what the ledger is told."""
        self.told.append(stretch)
        return _Noted(stretch=stretch, receipt=None, observer=self)

    def begin(self, number: int | None = None) -> None:
        """A step is about to draw, the checkpoint of the one before is written; what was read so far was set-up."""
        done, self._done = self._done, None
        if done is not None:
            self.interrupt(done, True)
        if not self._now.released:
            self._now = Seen(number=number or self._now.number)

    def read(self, index: int) -> None:
        """A record is read."""
        self._now.read[index] = None

    def _batch(self, n: int, drawn: Tensor) -> Tensor:
        del n
        self.begin()
        if not self._now.released:  # after a release a coin is drawn, of a choice
            self._now.drawn = drawn.tolist()
        return drawn

    def _generator(self, stream: str, made: torch.Generator) -> None:
        self.seeds[stream] = made.initial_seed()

    def _watch(self, released: Weights) -> None:
        self._now.released.append(flat(released.values()))
        self.interrupt(self._now, False)

    def _optimizer(self, optimizer: optim.Optimizer, arguments: Any, named: Any) -> None:
        del arguments, named
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        given = flat(torch.zeros_like(p) if p.grad is None else p.grad for p in parameters)
        self._now.given = self.algorithm.mechanism.expected_batch_size * (given.double() - self._data_free(parameters))

    def _data_free(self, parameters: Sequence[Tensor]) -> Tensor | float:
        regulariser = getattr(self.algorithm, "data_free_gradient", None)
        if regulariser is None:
            return 0.0
        own = [p for p in self._twin.parameters() if p.requires_grad]
        with torch.no_grad():
            for mine, theirs in zip(own, parameters, strict=True):
                mine.copy_(theirs)
                mine.grad = torch.zeros_like(mine)
        regulariser(self._twin)
        return flat(torch.zeros_like(p) if p.grad is None else p.grad for p in own).double()

    def _progress(self, progress: Progress) -> None:
        self._now.number = progress.step
        done, self._now = self._now, Seen(number=progress.step + 1)
        self.steps.append(done)
        self._done = done


def flat(tensors: Any) -> Tensor:
    """One vector, a copy."""
    return torch.cat([one.detach().reshape(-1) for one in tensors]).clone()


def tensors_of(module: nn.Module) -> list[slice]:
    """Where each trainable parameter lies in a flat vector of all of them."""
    found, start = list[slice](), 0
    for p in module.parameters():
        if p.requires_grad:
            found.append(slice(start, start + p.numel()))
            start += p.numel()
    return found


class _Read(Dataset[Any]):
    """Records that say when they are read."""

    def __init__(self, dataset: Any, observer: Observer) -> None:
        self._dataset, self._observer = dataset, observer

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Any:
        self._observer.read(index)
        return self._dataset[index]


@dataclass(slots=True, kw_only=True)
class _Noted(Reservation):
    observer: Observer

    def draw(self, step: int) -> None:
        super(_Noted, self).draw(step)
        self.observer.begin(step)
