"""The loop that all private algorithms share: Poisson samples of units, clipped sums, released with noise, checkpoints.

A unit is an example, or a person with all of their records. The number of steps is fixed before training: stopping when
the data looks learnt would release something that no accountant counts. A budget halts a run before the step that would
overspend it; which step that is follows from what the algorithm promises, which is public.
"""

import copy
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector
from torch.utils.data import Dataset

from bounds.accounting import Event
from pacdp.algorithms.algorithm import Algorithm
from pacdp.errors import CheckpointError, Diverged
from pacdp.layers.random import generators
from pacdp.reservation import Books, NoLedger
from pacdp.resume import RunState, found, load_run, save_run
from pacdp.schedules import Schedule
from pacdp.step import event as events
from pacdp.step.agreement import disagreement
from pacdp.step.clip import Weights
from pacdp.step.gradients import PerExampleLoss
from pacdp.step.independence import made_up_batch, require_independent_examples
from pacdp.step.noise import Randomness, SystemRandomness
from pacdp.step.paid import Paid, stream_of
from pacdp.step.processes import (
    Together,
    copy_from_first,
    process_count,
    rank_randomness,
    require_agreement,
    require_one_run,
    totals,
)
from pacdp.step.release import PrivateStep
from pacdp.step.sums import ByContribution, ByExample, Sum, Summer, runs_at_once, runs_side_by_side
from pacdp.step.units import Network, UnitBatch, Units, mean_loss, take


class Progress(NamedTuple):
    """For the operator's eyes: what is called private is computed on the data without noise and stays here."""

    step: int
    steps: int
    private_loss: float
    """Mean loss of the last batch; NaN if it was empty, or where no loss is computed."""
    private_units: int
    private_nonfinite: int
    """Units of the step whose contribution was not finite and counted as zero."""


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


def train(
    algorithm: Algorithm,
    module: nn.Module,
    dataset: Dataset[Any],
    *,
    loss: PerExampleLoss,
    people: Tensor | None = None,
    randomness: Randomness | None = None,
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Path | str | None = None,
    checkpoint_every: int = 0,
    ledger: Books | None = None,
    about: Mapping[str, Any] | None = None,
    distributed: bool = False,
    keeps: Callable[[int], bool] | None = None,
    watch: Callable[[Weights], None] | None = None,
) -> PrivateRun:
    """Train a copy of ``module`` on (input, target) records; go on from ``checkpoint`` if that file exists.

    Formal guarantee: weights, snapshots and choices together are the composition of the mechanisms in the run's
    ``event``, add-remove adjacency: neighbours differ by one unit more or less, an example or, with ``people``, a
    person with all of their records.

    Args:
        loss: per-record losses of (outputs, targets), shape (batch,).
        people: the person's number for each record, (records,), integers, where people are the units.
        randomness: the operating system's generator by default.
        progress: called after every step.
        checkpoint: written every ``checkpoint_every`` steps, if that is positive, and at the end.
        ledger: where steps are counted before their noise is drawn (:class:`pacdp.ledger.Ledger`), from one
            checkpoint to the next: killed, copied, forked and tuned runs on the same data are all paid for.
        about: JSON values for the checkpoint's header, under "about": which data, which network.
        distributed: whether the processes of the default group (``torchrun``) train one network together. All must
            call this with the same arguments, ``dataset`` being the whole data set; the first process's weights and
            buffers are where they start, it writes the checkpoints, and all return the same run.
        keeps: whether the weights after so many steps become a snapshot; what the algorithm says by default.
        watch: called with every sum that is released, before anything is made of it: for auditors.

    Raises:
        ValueError: dependent examples, numbers out of range, a budget that not even the first step keeps to, or
            processes that were given different arguments.
        Overdrawn: the ledger's limit would be passed; nothing was drawn for the steps concerned.
        CheckpointError: the checkpoint is another run's.
        Diverged: a weight is not finite.
    """
    mechanism, module, books = algorithm.mechanism, copy.deepcopy(module).train(), ledger or NoLedger()
    units, together = Units.group(dataset, people), Together(several=distributed)
    randomness = rank_randomness(randomness) if distributed else randomness or SystemRandomness()
    weights = {name: p for name, p in module.named_parameters() if p.requires_grad}
    device = next(iter(weights.values())).device
    template = _examples(units, device)
    network = Network.of(module, loss)
    _check_examples(network, template)
    for name, generator in generators(module).items():
        generator.manual_seed(randomness.generator(name).initial_seed())
    path, settings = None if checkpoint is None else Path(checkpoint), describe(algorithm, mechanism.steps)
    _join(
        together, module, dataset, randomness, {"settings": settings, "checkpoints": (path is None, checkpoint_every)}
    )
    extra = {"pre_noise": randomness.generator("pre-noise", device)} if algorithm.pre_noise > 0.0 else {}
    state = RunState(
        module=module,
        optimizer=algorithm.optimizer(weights.values()),
        randomness=randomness,
        public={"clip_norm": mechanism.clip_norm, "expected_batch_size": mechanism.expected_batch_size},
        settings=settings,
        generators=extra,
    )
    summer, losses = _summer(algorithm, network, units, template, extra.get("pre_noise"))
    if path is not None and found(path, together, device):
        load_run(path, state, together=together, check=partial(_require_own, path, algorithm, len(units), books))
    promise = algorithm.promise(len(units), mechanism.steps)
    last = mechanism.steps if mechanism.budget is None else mechanism.budget.require_steps(promise)
    if state.step > last:
        raise CheckpointError(f"{path} has run {state.step} steps, the budget pays for {last}: raise the budget")
    promised = [step for step, count in events.runs_of(promise) for _ in range(count)]
    live = {name: p.detach() for name, p in weights.items()}
    fixed = [settings, {name: list(p.shape) for name, p in module.state_dict().items()}, device.type, dict(about or {})]
    paid = Paid(
        books,
        run=state.run,
        algorithm=type(algorithm).__name__,
        unit=units.unit,
        cost=lambda first, last: events.first(events.after(promise, first - 1), last - first + 1),
        stream=stream_of(books, randomness, run=state.run, dataset=dataset, fixed=fixed),
        every=checkpoint_every if path is not None else 0,
        last=last,
        together=together,
        device=device,
    )
    for number in range(state.step, last):
        paid.before(number + 1)
        chosen = randomness.batch(len(units), mechanism.sample_rate)
        added = summer(chosen, live)
        step = PrivateStep(
            number=number,
            mechanism=mechanism,
            module=module,
            optimizer=state.optimizer,
            weights=live,
            randomness=randomness,
            together=together,
            total=added.total,
            losses=partial(losses, chosen) if losses is not None else None,
            watch=watch,
        )
        state.chosen.append(algorithm.update(step))
        if step.event != promised[number]:
            raise RuntimeError(f"step {number + 1} released {step.event}, and {promised[number]} was promised")
        state.receipt = paid.receipt
        state.step = number + 1
        state.history.append(step.event)
        if not all(bool(torch.isfinite(w).all()) for w in live.values()):
            raise Diverged(state.step, "a weight")
        if (keeps or algorithm.keeps)(state.step):
            state.snapshots.append(parameters_to_vector(module.parameters()).detach().clone())
        if path is not None and (state.step == last or (checkpoint_every and state.step % checkpoint_every == 0)):
            save_run(path, state, together=together, about=about)
        told = _told(together, mechanism.steps, state.step, added, len(chosen), device)
        if progress is not None:
            progress(told)
    vector = parameters_to_vector(module.parameters()).detach()
    return PrivateRun(
        weights={name: p.detach().clone() for name, p in module.named_parameters()},
        event=state.history.event,
        snapshots=torch.stack(state.snapshots) if state.snapshots else vector.new_empty(0, 0),
        chosen=torch.tensor(state.chosen, dtype=torch.int64),
        halted=last < mechanism.steps,
    )


def describe(settings: object, steps: int) -> Any:
    """Settings as JSON values, each record with its kind; a schedule that is no record as its values."""
    if is_dataclass(settings) and not isinstance(settings, type):
        parts = {f.name: describe(getattr(settings, f.name), steps) for f in fields(settings)}
        return {"kind": type(settings).__name__, **parts}
    if isinstance(settings, list | tuple):
        return [describe(value, steps) for value in settings]
    if callable(settings):
        schedule = cast(Schedule, settings)
        return {"kind": "schedule", "values": [float(schedule(t)) for t in range(steps)]}
    return settings


def _require_own(path: Path, algorithm: Algorithm, n: int, books: Books, read: RunState) -> None:
    if read.history.event != algorithm.promise(n, read.step):
        raise CheckpointError(f"{path} records other mechanisms than its settings make: train again")
    books.require(read.receipt)


def _examples(units: Units, device: torch.device) -> tuple[Tensor, Tensor]:
    """A few records, of which shapes and kinds are used and nothing else."""
    examples = take(units.dataset, torch.zeros(4, dtype=torch.int64))
    if not isinstance(examples, list | tuple) or len(examples) != 2 or not all(isinstance(x, Tensor) for x in examples):
        raise ValueError(
            "dataset must give (input, target) pairs of tensors; write a loop over PrivateEngine for others"
        )
    return examples[0].to(device), examples[1].to(device)


def _check_examples(network: Network, template: tuple[Tensor, Tensor]) -> None:
    inputs, targets = made_up_batch(template[0]), torch.zeros_like(template[1])
    require_independent_examples(network.module, (inputs,), targets=targets, loss=network.loss)


def _join(
    together: Together, module: nn.Module, dataset: Dataset[Any], randomness: Randomness, settings: dict[str, Any]
) -> None:
    """Processes of one run agree on what they do, and start where the first one starts."""
    if not together.several:
        if process_count() > 1:
            raise ValueError(
                f"{process_count()} processes run together, but nothing says that they train one network: give train("
                "distributed=True)"
            )
        return
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        raise ValueError(
            "distributed=True needs a process group: start the script with torchrun and call "
            "torch.distributed.init_process_group before train"
        )
    device = next(module.parameters()).device
    shapes = {name: (tuple(v.shape), v.dtype) for name, v in module.state_dict().items()}
    what = {"the algorithm's settings, or when checkpoints are written": settings, "the network's shapes": shapes}
    require_agreement(what, device)
    copy_from_first([*(p.data for p in module.parameters()), *module.buffers()])
    require_one_run({}, dataset, rank_randomness(randomness), device)


def _summer(
    algorithm: Algorithm,
    network: Network,
    units: Units,
    template: tuple[Tensor, Tensor],
    pre_noise_generator: torch.Generator | None,
) -> tuple[Summer, Callable[[Tensor, Weights], Tensor] | None]:
    """How contributions are added up, and how candidates are scored."""
    mechanism = algorithm.mechanism
    weights = {name: p.detach() for name, p in network.module.named_parameters() if p.requires_grad}
    if algorithm.contribution is not None:
        inputs, targets = made_up_batch(template[0], examples=6), template[1][:1].expand(6, *template[1].shape[1:])
        shaped = [x.reshape(2, 1, 3, *x.shape[1:]) for x in (inputs, torch.zeros_like(targets))]
        kept = torch.ones((2, 1, 3), device=inputs.device, dtype=inputs.dtype if inputs.is_floating_point() else None)
        trial = UnitBatch(shaped[0], shaped[1], kept)
        functions = (algorithm.contribution, mean_loss)
        made = ByContribution(
            network,
            units,
            mechanism.clip_norm,
            algorithm.contribution,
            algorithm.width,
            mechanism.max_physical_batch,
            mechanism.vectorise and runs_side_by_side(functions, network, weights, trial),
        )
        return made, made.losses
    if units.records is not None:
        raise ValueError(f"{type(algorithm).__name__} protects examples: use UserLevelDPSGD or P3SGD for people")
    at_once = runs_at_once(network, weights, made_up_batch(template[0], examples=2), torch.zeros_like(template[1][:2]))
    exact = ByExample(network, units, mechanism.clip_norm, algorithm.draws, mechanism.max_physical_batch, at_once)
    if mechanism.grad_sample_mode == "reference":
        if algorithm.pre_noise > 0.0:
            raise ValueError("pre_noise is there in mode 'hooks' alone: set grad_sample_mode to that")
        return exact, None
    from pacdp.opacus.modes import OpacusSums

    def fast(network: Network, units: Units, pre_noise: float = 0.0) -> OpacusSums:
        return OpacusSums(
            network.module,
            mechanism.grad_sample_mode,
            units,
            network.loss,
            clip_norm=mechanism.clip_norm,
            draws=algorithm.draws,
            pre_noise=pre_noise,
            generator=pre_noise_generator,
            most=mechanism.max_physical_batch,
        )

    wrong = disagreement(fast, network, *template, clip_norm=mechanism.clip_norm, draws=algorithm.draws)
    if wrong is None:
        return fast(network, units, algorithm.pre_noise), None
    if algorithm.pre_noise > 0.0:
        raise ValueError(f"grad_sample_mode {mechanism.grad_sample_mode!r} cannot be used with this network: {wrong}")
    warnings.warn(
        f"grad_sample_mode {mechanism.grad_sample_mode!r} is not used for this network: {wrong}; gradients are taken "
        "example by example instead",
        stacklevel=3,
    )
    return exact, None


def _told(together: Together, steps: int, step: int, added: Sum, count: int, device: torch.device) -> Progress:
    numbers = (added.loss, float(count), float(added.nonfinite))
    total, number, nonfinite = totals(numbers, device) if together.several else numbers
    mean = total / number if number and total else math.nan
    return Progress(step, steps, mean, int(number), int(nonfinite))
