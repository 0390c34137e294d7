"""The loop that all private algorithms share: Poisson samples of units, clipped sums, released with noise, checkpoints.

A unit is an example, or a person with all of their records. The number of steps is fixed before training: stopping when
the data looks learnt would release something that no accountant counts. A budget halts a run before the step that would
overspend it; which step that is follows from what the algorithm promises, which is public.
"""

import copy
import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn
from torch.utils.data import Dataset

from bounds import _check
from bounds.accounting import Event
from pacdp.algorithms.algorithm import Algorithm
from pacdp.errors import CheckpointError, Diverged, naming
from pacdp.layers.random import forget_draws, own_draws, seed_layers
from pacdp.losses import PerExampleLoss
from pacdp.models import require_clippable
from pacdp.resume import (
    RunState,
    bytes_of,
    found,
    load_run,
    make_room,
    require_header,
    require_place,
    save_run,
)
from pacdp.step import event as events
from pacdp.step.clip import Weights
from pacdp.step.ghost import GhostSums
from pacdp.step.mechanism import GradSampleMode, Mechanism
from pacdp.step.noise import Randomness, SystemRandomness
from pacdp.step.paid import Paid, stream_of
from pacdp.step.processes import Together, join, rank_randomness, totals
from pacdp.step.release import PrivateStep
from pacdp.step.sampling import require_each_once
from pacdp.step.set_up import at_once, require_apart, summer_of, template_of
from pacdp.step.sums import Reference, Summer
from pacdp.step.units import Network, Units, trained
from pacdp.store.canonical import described
from pacdp.store.files import Room, path_of
from pacdp.store.reservation import Books, NoLedger
from pacdp.trials import Unmoved, Unwritten, require_no_writes, require_own_memory


class Progress(NamedTuple):
    """For the operator's eyes: what is called private is computed on the data without noise and stays here."""

    step: int
    steps: int
    private_loss: float
    """Mean loss of the last batch; NaN if it was empty, or where no loss is computed."""
    private_units: int
    private_nonfinite: int
    """Units of the step whose contribution was not finite and counted as zero."""


_UNREAD = {"cuda": 16}
"""Steps whose numbers stay on a device until they are read together; checkpoints wait for theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateRun:
    """What private training returns."""

    weights: Weights
    """Parameter name to value; private."""
    event: Event | None
    """What the weights, all snapshots and all choices cost together; None if nothing ran."""
    snapshots: Float[Tensor, "snapshots dim"]
    """Weights kept on the way, flat, in the order of ``weights``; private. Empty unless the algorithm keeps some."""
    chosen: Integer[Tensor, " steps"]
    """The candidate that each step chose; private. Zeros where nothing is chosen."""
    halted: bool = False
    """Whether the budget ended the run before its last step."""
    grad_sample_mode: GradSampleMode = "reference"
    """How contributions were added up."""
    clip_norm: float | None = None
    """C_t after the last step, where it adapts: as private as the weights are."""


@torch.inference_mode(False)  # which ends torch.no_grad() too
def train(
    algorithm: Algorithm,
    module: nn.Module,
    dataset: Dataset[Any],
    *,
    mechanism: Mechanism,
    loss: PerExampleLoss,
    people: Tensor | None = None,
    randomness: Randomness | None = None,
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Path | str | None = None,
    checkpoint_every: int = 0,
    ledger: Books | None = None,
    tells_size: bool = False,
    about: Mapping[str, Any] | None = None,
    distributed: bool = False,
    keeps: Callable[[int], bool] | None = None,
    watch: Callable[[Weights], None] | None = None,
) -> PrivateRun:
    """Train a copy of ``module`` on (input, target) records; go on from ``checkpoint`` if that file exists.

    Formal guarantee: weights, snapshots and choices together are the composition of the mechanisms in the run's
    ``event``, add-remove adjacency: neighbours differ by one unit more or less, an example or, with ``people``, a
    person with all of their records. Sample rate and divisor are public, and must not be made of the number of units:
    if they are, that number is public, and only data sets of equal size are neighbours (replace-one).

    Args:
        module: its weights, from which training starts, are taken as public. Where an earlier run on the same data
            released them, both cost ``joined(earlier.event, run.event)``; a ledger adds them up.
        dataset: item i must be made of record i alone: with another mixed in (mixup, mosaic) no record is hidden.
        mechanism: the public numbers of the run: clip norm, noise, sample rate, divisor, steps.
        loss: per-record losses of (outputs, targets), shape (batch,). A penalty on ``module.parameters()`` in it is one
            on the caller's network, which stays as it is: give the algorithm a ``prior``.
        people: the person's number for each record, (records,), integers, where people are the units. Leave out records
            whose person is unknown: under one number epsilon would hide no single one of them.
        randomness: the operating system's generator by default. With a seed ``nn.Dropout`` draws from torch's global
            generator, which no checkpoint carries: for a resumed run that is bit for bit the unbroken one take
            :func:`pacdp.private.with_example_dropout`.
        progress: called for every step, before its checkpoint is written; on a GPU for up to 16 steps at a time, whose
            numbers are waited for once.
        checkpoint: written every ``checkpoint_every`` steps, if that is positive, and at the end. A file that is there
            must agree in settings, shapes of parameters and seed. Data, loss and the network's code are not compared,
            except by a ledger where a seed is given: a finished run returns its own weights, whatever data it is given.
        ledger: where steps are counted before their noise is drawn (:class:`pacdp.store.ledger.Ledger`), from one
            checkpoint to the next: killed, copied, forked and tuned runs on the same data are all paid for.
        tells_size: whether rate or divisor are made of the number of units: the ledger then promises nothing for
            add-remove neighbours.
        about: JSON values for the checkpoint's header, under "about": which data, which network.
        distributed: whether the processes of the default group (``torchrun``) train one network together. All must
            call this with the same arguments, ``dataset`` being the whole data set; the first process's weights and
            buffers are where they start, it writes the checkpoints, and all return the same run.
        keeps: whether the weights after so many steps become a snapshot; what the algorithm says by default.
        watch: called with every sum that is released, before anything is made of it: for auditors, who also try what an
            algorithm's promise does not cover. What they see may not leave.

    Raises:
        ValueError: dependent examples, numbers out of range, a budget that not even the first step keeps to, or
            processes that were given different arguments.
        Overdrawn: the ledger's limit would be passed; nothing was drawn for the steps concerned.
        CheckpointError: the checkpoint is another run's, or its disk has no room for the next one; nothing was drawn
            for the steps up to that.
        Diverged: a weight is not finite.
    """
    together, path = (
        Together(several=distributed),
        None if checkpoint is None else path_of(checkpoint=checkpoint),
    )
    books = NoLedger() if ledger is None else ledger
    _check.whole(checkpoint_every=checkpoint_every)
    if checkpoint_every and path is None:
        raise ValueError("checkpoint_every goes with checkpoint: name the file, or leave it out")
    for what, given, needed in (
        ("algorithm", algorithm, "noises"), ("mechanism", mechanism, "sample_rate"),
        ("module", module, "parameters"), ("loss", loss, "__call__"),
        ("randomness", randomness or SystemRandomness(), "batch"), ("ledger", books, "reserve"),
        ("progress", progress or print, "__call__"), ("keeps", keeps or print, "__call__"),
        ("about", {} if about is None else about, "keys"),
    ):  # fmt: skip
        if isinstance(given, type) or not hasattr(given, needed):
            raise ValueError(
                f"{what} must be of a kind that train takes (see help(train)), got {given!r}"
            )
    require_clippable(module)
    require_own_memory(module)
    if algorithm.FIXES_NOISE and mechanism.noise_multiplier is not None:
        raise ValueError(
            f"the numbers of {algorithm.NAME} fix the noise: leave mechanism.noise_multiplier out"
        )
    promise = algorithm.promise(mechanism, mechanism.steps)
    if path is not None:
        require_place(path)
    randomness = rank_randomness(randomness) if distributed else randomness or SystemRandomness()
    units, network = Units.group(dataset, people), Network.of(copy.deepcopy(module).train(), loss)
    if watch is None and algorithm.RELEASES_LAST and keeps is not None:
        raise ValueError(
            f"the promise of {algorithm.NAME} is of its last iterate alone: leave keeps out, which would keep others"
        )
    device = next((p.device for p in trained(network.module).values()), None)
    if device is None:
        raise ValueError("module has no parameter that requires a gradient: nothing can be trained")
    template = template_of(units, device)
    if watch is None:
        algorithm.require(network, mechanism, units=len(units), targets=template[1])
    require_apart(network, template, mechanism)
    state = _beginning(algorithm, mechanism, network.module, randomness, device)
    if path is not None:
        require_header(about=about, **state.settings)
    files = (path is None, checkpoint_every, ledger is None)
    public = {"settings": state.settings, "files": files}
    join(together, network.module, dataset, randomness, public, people)
    generator = cast(Any, state.generators.get("pre_noise"))
    summer = _summer(algorithm, mechanism, network, units, template, generator)

    def require_own(read: RunState) -> None:
        if read.history.event != events.first(promise, read.step):
            raise CheckpointError(
                f"{path} records other mechanisms than its settings make: train again"
            )
        books.require(read.receipt)

    def cost(first: int, last: int) -> Event | None:
        """What these steps release, from 1 on; a last iterate again at each beginning, as two runs from one checkpoint
        cost no more than two runs."""
        if algorithm.RELEASES_LAST:
            return promise
        return events.after(events.first(promise, last), first - 1)

    if path is not None and found(path, together, device):
        load_run(path, state, together=together, check=require_own)
    last = mechanism.steps if mechanism.budget is None else mechanism.budget.require_steps(promise)
    if state.step > last:
        raise CheckpointError(
            f"{path} has run {state.step} steps, the budget pays for {last}: raise the budget"
        )
    paid = Paid(
        books,
        run=state.run,
        algorithm=type(algorithm).__name__,
        unit=units.unit,
        cost=cost,
        stream=stream_of(books, randomness),
        every=mechanism.steps if algorithm.RELEASES_LAST else checkpoint_every,
        last=last,
        together=together,
        device=device,
        tells_size=tells_size,
    )
    unmoved = Unmoved(network.module)
    begins = events.begins(promise)
    what = algorithm, mechanism, state, len(units), summer, together, unmoved, watch, begins
    seen, most, settled = list[_Seen](), _UNREAD.get(device.type, 1), None
    keeping = keeps or partial(algorithm.keeps, mechanism=mechanism)
    with nullcontext() if path is None else Room(path) as room:
        due = True
        for number in range(state.step + 1, last + 1):
            if path is not None and room is not None and due:
                due_at = number + (-number % checkpoint_every if checkpoint_every else last)
                more = sum(map(keeping, range(number, min(due_at, last) + 1)))
                needed = bytes_of(state, promise=promise, about=about, snapshots=more)
                make_room(path, partial(room.take, needed), together=together, device=device)
            paid.before(number)
            state.receipt = paid.receipt
            with own_draws(None if randomness.state() else randomness.generator):
                seen.append(_step(*what))
            settled = settled or Unwritten(network.module, moving=network.module.parameters())
            if keeping(number):
                # each in the order of its numbers, however they lie in memory
                own = [p.detach().reshape(-1) for p in network.module.parameters()]
                state.snapshots.append(torch.cat(own))
            due = number == last or (checkpoint_every > 0 and number % checkpoint_every == 0)
            if due and room is not None:
                room.spare()
            if len(seen) == most or due:
                # before the checkpoint, so that what is recorded of a step is there when that is
                for one in _read(seen, mechanism.steps, together):
                    if progress is not None:
                        progress(one)
                seen = []
            if due:
                forget_draws(network.module)
                settled.require()
                if path is not None:
                    save_run(path, state, together=together, about=about)
    weights = {name: p.detach().clone() for name, p in network.module.named_parameters()}
    none = next(iter(weights.values())).new_empty(0, 0)
    return PrivateRun(
        weights=weights,
        event=state.history.event,
        snapshots=torch.stack(state.snapshots) if state.snapshots else none,
        chosen=torch.tensor(state.chosen, dtype=torch.int64),
        halted=last < mechanism.steps,
        grad_sample_mode="reference" if isinstance(summer, Reference) else "ghost",
        clip_norm=state.clip_norm,
    )


class _Seen(NamedTuple):
    """What a step saw, some of it still on its way."""

    step: int
    units: int
    numbers: Tensor
    """[4] on the device: sum of losses, units whose contribution counted as zero, whether all weights are finite, and
    whether the sum left them as they were."""


def _step(
    algorithm: Algorithm,
    mechanism: Mechanism,
    state: RunState,
    units: int,
    summer: Summer,
    together: Together,
    unmoved: Unmoved,
    watch: Callable[[Weights], None] | None,
    begins: Mapping[int, Event],
) -> _Seen:
    """Draw a sample, release its sum, move the weights; what left is held against what was promised.

    Args:
        begins: what is counted at each step, from 0 on, at which something is.
    """
    promised, live = algorithm.step_event(state.step, mechanism), trained(state.module)
    counted = begins.get(state.step, begins[0])
    if events.told(promised) != events.told(counted):
        raise ValueError(
            f"step {state.step + 1} would now release {promised}, and {counted} was promised and counted before the "
            "first step: give noise_multiplier, or what the algorithm's noise is made of, as a schedule that returns "
            "the same number at every call"
        )
    chosen = state.randomness.batch(units, mechanism.sample_rate)
    if watch is None:  # an auditor is to see what is drawn
        require_each_once(chosen, units)
    unmoved.keep()
    norm = float(mechanism.clip_norm if state.clip_norm is None else state.clip_norm)
    with naming("the data set, the network or the loss (are all labels in range?)"):
        added = summer.at(norm)(chosen, live)
    same = unmoved.same()
    step = PrivateStep(
        number=state.step,
        mechanism=mechanism,
        module=state.module,
        optimizer=state.optimizer,
        weights=live,
        randomness=state.randomness,
        together=together,
        total=added.total,
        clip_norm=norm,
        units=len(chosen),
        within=added.within,
        losses=partial(summer.losses, chosen) if isinstance(summer, Reference) else None,
        watch=watch,
    )
    state.chosen.append(algorithm.update(step))
    if state.clip_norm is not None:
        state.clip_norm = step.next_clip_norm()
    if state.step in begins:
        state.history.append(begins[state.step])
    state.step += 1
    if step.event != promised:
        raise RuntimeError(f"step {state.step} released {step.event}, and {promised} was promised")
    device = next(iter(live.values())).device
    finite = torch.stack([torch.isfinite(w).all().to(device) for w in live.values()]).all()
    numbers = [
        torch.as_tensor(one, dtype=torch.float64, device=device)
        for one in (added.loss, added.nonfinite, finite, same)
    ]
    return _Seen(state.step, len(chosen), torch.stack(numbers))


def _read(seen: list[_Seen], steps: int, together: Together) -> list[Progress]:
    """What some steps saw; the device is waited for once."""
    found = list[Progress]()
    for one, numbers in zip(seen, torch.stack([one.numbers for one in seen]).tolist(), strict=True):
        require_no_writes([] if numbers[3] else [f"weights (seen at step {one.step})"])
        if not numbers[2]:
            raise Diverged(one.step, "a weight")
        own = (numbers[0], float(one.units), numbers[1])
        loss, count, nonfinite = totals(own, one.numbers.device) if together.several else own
        mean = loss / count if count and loss else math.nan
        found.append(Progress(one.step, steps, mean, int(count), int(nonfinite)))
    return found


def _beginning(
    algorithm: Algorithm,
    mechanism: Mechanism,
    module: nn.Module,
    randomness: Randomness,
    device: torch.device,
) -> RunState:
    """A run that has not begun, its random layers seeded."""
    state = RunState(
        module=module,
        optimizer=algorithm.optimizer([p for p in module.parameters() if p.requires_grad]),
        randomness=randomness,
        public={
            "clip_norm": float(mechanism.clip_norm),
            "expected_batch_size": float(mechanism.expected_batch_size),
        },
        settings={
            "algorithm": described(algorithm, steps=mechanism.steps),
            "mechanism": described(mechanism, steps=mechanism.steps),
        },
        clip_norm=mechanism.clip_norm if mechanism.adapts else None,
        generators={"pre_noise": randomness.generator("pre-noise", device)}
        if algorithm.pre_noise > 0.0
        else {},
    )
    seed_layers(module, randomness.generator)
    return state


def _summer(
    algorithm: Algorithm,
    mechanism: Mechanism,
    network: Network,
    units: Units,
    template: tuple[Tensor, Tensor],
    generator: torch.Generator | None,
) -> Summer:
    """How contributions are added up."""
    if algorithm.contribution is None and units.records is not None:
        raise ValueError(
            f"{type(algorithm).__name__} adds up what single examples contribute, which hides no person: leave out "
            "people, or take an algorithm whose settings have a contribution of a person's records"
        )
    reference = Reference(
        network,
        units,
        mechanism.clip,
        contribution=algorithm.contribution,
        width=algorithm.width,
        draws=algorithm.draws,
        most=mechanism.max_physical_batch,
        pre_noise=algorithm.pre_noise,
        generator=generator,
    )

    ghost = partial(GhostSums, most=at_once(mechanism))
    return summer_of(reference, ghost, mechanism, template)
